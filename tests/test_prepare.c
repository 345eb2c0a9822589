// Images on their way to training: resized as PyTorch and TensorFlow resize them (tests/golden/resize.json, made by
// tests/golden/make_resize.py), and cut, moved, mirrored, blanked and normalized as plain loops here do it.
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/bf16.h"
#include "data/augment.h"
#include "data/noise.h"
#include "data/prepare.h"
#include "ok.h"

static const float zeros[8] = {0}, ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
static const ls_recipe raw = {.offset = zeros, .divisor = ones};  // pixels as they are

// The images of make_resize.py.
static uint8_t *pattern(ls_shape shape) {
    uint8_t *image = malloc((size_t)ls_shape_count(shape));
    for (int64_t i = 0; i < ls_shape_count(shape); i++) image[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13);
    return image;
}

// What the recipe makes of an image; the caller frees it.
static void *prepared(const ls_recipe *recipe, ls_dtype dtype, ls_shape shape, const uint8_t *image, uint32_t epoch,
                      uint64_t sample) {
    ls_preparer *p;
    OK(ls_preparer_create(recipe, shape, dtype, &p));
    int64_t count = ls_shape_count(ls_recipe_shape(recipe, shape));
    // Exactly as large as it is to be, for the sanitizers.
    void *out = malloc((size_t)count * ls_dtype_size(dtype));
    ls_preparer_run(p, image, epoch, sample, out);
    ls_preparer_destroy(&p);
    assert_null(p);
    return out;
}

static ls_recipe sized(ls_recipe recipe, int64_t height, int64_t width) {
    recipe.height = height, recipe.width = width;
    return recipe;
}

// ---- resizing ------------------------------------------------------------------------------------------------------

static int64_t whole(const json_t *object, const char *key, size_t i) {
    return json_integer_value(json_array_get(json_object_get(object, key), i));
}

static void check_case(const json_t *c) {
    ls_shape shape = LS_SHAPE(whole(c, "from", 0), whole(c, "from", 1), whole(c, "from", 2));
    ls_recipe recipe = sized(raw, whole(c, "to", 0), whole(c, "to", 1));
    int64_t count = ls_shape_count(ls_recipe_shape(&recipe, shape));
    uint8_t *image = pattern(shape);
    float *out = prepared(&recipe, LS_DTYPE_F32, shape, image, 0, 0);
    // PyTorch's are in float64; ours find their place in floats, which at pixel 300 are 3e-5 apart, times 255.
    const json_t *values = json_object_get(c, "values");
    assert_true(json_array_size(values) > 0);
    for (size_t k = 0; k < json_array_size(values); k++) {
        double want = json_number_value(json_array_get(values, k)), got = out[whole(c, "indices", k)];
        if (!(fabs(got - want) <= 0.008))
            fail_msg("%lld x %lld: value %zu is %g, not %g", (long long)recipe.height, (long long)recipe.width, k, got,
                     want);
    }
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += out[i];
    assert_true(fabs(sum - json_number_value(json_object_get(c, "sum"))) <= 1e-4 * (double)count);
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        assert_int_equal(crc32(0, (const Bytef *)out, (uInt)(count * 4)),
                         json_integer_value(json_object_get(c, "tensorflow_crc32")));
    free(image);
    free(out);
}

static void resizes_like_pytorch_and_to_tensorflows_bits(void **state) {
    json_error_t error;
    json_t *golden = json_load_file(LS_GOLDEN_DIR "/resize.json", 0, &error), *c;
    if (!golden) fail_msg("%s", error.text);
    size_t i;
    json_array_foreach(json_object_get(golden, "cases"), i, c) check_case(c);
    assert_true(i >= 10);
    json_decref(golden);
}

// To the size it has: the same pixels. Nothing asked: pixels over 255, to the last bit, either way.
static void same_size_is_the_identity(void **state) {
    ls_shape shape = LS_SHAPE(13, 9, 3);
    uint8_t *image = pattern(shape);
    static const float byte[3] = {255, 255, 255};
    ls_recipe recipes[] = {{0}, sized((ls_recipe){0}, 13, 9), {.offset = zeros}, {.divisor = byte}};
    for (size_t r = 0; r < sizeof recipes / sizeof recipes[0]; r++) {
        float *out = prepared(&recipes[r], LS_DTYPE_F32, shape, image, 3, 4);
        ls_bf16 *half = prepared(&recipes[r], LS_DTYPE_BF16, shape, image, 3, 4);
        for (int i = 0; i < 13 * 9 * 3; i++) {
            assert_true(out[i] == (float)image[i] / 255.0f);
            assert_int_equal(half[i], ls_float_to_bf16(out[i]));
        }
        free(out);
        free(half);
    }
    free(image);
}

// An image of one colour stays so at any size, and from one pixel it spreads everywhere.
static void flat_images_stay_flat(void **state) {
    uint8_t image[5 * 7 * 2];
    for (int i = 0; i < 70; i++) image[i] = i % 2 ? 200 : 3;
    static const int sizes[] = {1, 2, 5, 6, 64};
    for (int s = 0; s < 5; s++)
        for (int small = 0; small < 2; small++) {
            ls_recipe recipe = sized(raw, sizes[s], sizes[4 - s]);
            float *out = prepared(&recipe, LS_DTYPE_F32, small ? LS_SHAPE(1, 1, 2) : LS_SHAPE(5, 7, 2), image, 0, 0);
            for (int i = 0; i < sizes[s] * sizes[4 - s] * 2; i++) assert_true(out[i] == image[i % 2]);
            free(out);
        }
}

// ---- normalization -------------------------------------------------------------------------------------------------

static void normalizes_channel_by_channel(void **state) {
    static const float offset[3] = {127.5f, 3.25f, 200}, divisor[3] = {127.5f, 61, 0.3f};
    ls_shape shape = LS_SHAPE(6, 5, 3);
    ls_recipe recipe = {.offset = offset, .divisor = divisor};
    uint8_t *image = pattern(shape);
    image[0] = 0, image[3] = 255;
    float *out = prepared(&recipe, LS_DTYPE_F32, shape, image, 0, 0);
    ls_bf16 *half = prepared(&recipe, LS_DTYPE_BF16, shape, image, 0, 0);
    for (int i = 0; i < 90; i++) {
        assert_true(out[i] == ((float)image[i] - offset[i % 3]) / divisor[i % 3]);
        assert_int_equal(half[i], ls_float_to_bf16(out[i]));
    }
    assert_true(out[0] == -1 && out[3] == 1);
    free(image);
    free(out);
    free(half);
}

// ---- augmentation --------------------------------------------------------------------------------------------------

// What is to come out, pixel by pixel: from the resized image, by what was drawn.
static float expected(const float *resized, ls_shape shape, const ls_augment_draw *d, const float *offset,
                      const float *divisor, int64_t y, int64_t x, int64_t c) {
    const ls_rectangle *h = &d->hole;
    if (y >= h->y && y < h->y + h->height && x >= h->x && x < h->x + h->width) return 0;
    int64_t from_y = y + d->shift_y, from_x = (d->mirror ? shape.dim[1] - 1 - x : x) + d->shift_x;
    if (d->reflect) {
        from_y = from_y < 0 ? -from_y : from_y >= shape.dim[0] ? 2 * shape.dim[0] - 2 - from_y : from_y;
        from_x = from_x < 0 ? -from_x : from_x >= shape.dim[1] ? 2 * shape.dim[1] - 2 - from_x : from_x;
    }
    int inside = from_y >= 0 && from_y < shape.dim[0] && from_x >= 0 && from_x < shape.dim[1];
    float pixel = inside ? resized[(from_y * shape.dim[1] + from_x) * shape.dim[2] + c] : 0;
    return (pixel - offset[c]) / divisor[c];
}

static void check_augmented(unsigned augment, ls_shape shape, int64_t height, int64_t width) {
    static const float offset[3] = {120, 130, 140}, divisor[3] = {50, 60, 70};
    ls_recipe resize = sized(raw, height, width), recipe = resize;
    recipe.augment = augment, recipe.seed = 9, recipe.offset = offset, recipe.divisor = divisor;
    ls_shape becomes = ls_recipe_shape(&recipe, shape);
    uint8_t *image = pattern(shape);
    float *resized = prepared(&resize, LS_DTYPE_F32, shape, image, 0, 0);
    for (uint64_t sample = 0; sample < 40; sample++) {
        ls_augment_draw d = ls_augment_sample(augment, 9, 2, sample, shape, becomes);
        float *out = prepared(&recipe, LS_DTYPE_F32, shape, image, 2, sample);
        ls_bf16 *half = prepared(&recipe, LS_DTYPE_BF16, shape, image, 2, sample);
        for (int64_t y = 0, i = 0; y < becomes.dim[0]; y++)
            for (int64_t x = 0; x < becomes.dim[1]; x++)
                for (int64_t c = 0; c < shape.dim[2]; c++, i++) {
                    float want = expected(resized, becomes, &d, offset, divisor, y, x, c);
                    if (out[i] != want)
                        fail_msg("augmentations %u, sample %d: (%d, %d, %d) is %g, not %g", augment, (int)sample,
                                 (int)y, (int)x, (int)c, out[i], want);
                    assert_int_equal(half[i], ls_float_to_bf16(want));
                }
        free(out);
        free(half);
    }
    free(image);
    free(resized);
}

static void augmented_is_what_was_drawn(void **state) {
    for (unsigned augment = 0; augment < 16; augment += 2) {
        check_augmented(augment, LS_SHAPE(32, 32, 3), 0, 0);
        check_augmented(augment, LS_SHAPE(28, 28, 1), 0, 0);
        check_augmented(augment, LS_SHAPE(9, 17, 2), 0, 0);
        check_augmented(augment, LS_SHAPE(32, 32, 3), 50, 41);
        check_augmented(augment, LS_SHAPE(32, 32, 3), 16, 8);
    }
    static const unsigned reflected[] = {LS_AUGMENT_TRANSLATE, LS_AUGMENT_TRANSLATE | LS_AUGMENT_ALTERNATE_FLIP,
                                         LS_AUGMENT_TRANSLATE | LS_AUGMENT_FLIP | LS_AUGMENT_CUTOUT, LS_AUGMENT_VIEW};
    for (size_t i = 0; i < sizeof reflected / sizeof reflected[0]; i++) {
        check_augmented(reflected[i], LS_SHAPE(32, 32, 3), 0, 0);
        check_augmented(reflected[i], LS_SHAPE(16, 31, 1), 0, 0);
        check_augmented(reflected[i], LS_SHAPE(32, 32, 3), 50, 41);
    }
}

// Cutting a box out and resizing it is what resized-crop makes of the whole, with what comes after it.
static void resized_crop_is_the_box_resized(void **state) {
    ls_shape shape = LS_SHAPE(32, 28, 3);
    uint8_t *image = pattern(shape), box[32 * 28 * 3];
    for (int n = 0; n < 2; n++) {
        unsigned augment = LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_FLIP | LS_AUGMENT_CUTOUT;
        ls_recipe recipe = sized(raw, n ? 47 : 0, n ? 40 : 0);
        recipe.augment = augment, recipe.seed = 5;
        ls_shape becomes = ls_recipe_shape(&recipe, shape);
        for (uint64_t sample = 0; sample < 60; sample++) {
            ls_augment_draw d = ls_augment_sample(augment, 5, 1, sample, shape, becomes);
            for (int64_t y = 0; y < d.box.height; y++)
                memcpy(box + y * d.box.width * 3, image + ((d.box.y + y) * 28 + d.box.x) * 3, (size_t)d.box.width * 3);
            ls_recipe resize = sized(raw, becomes.dim[0], becomes.dim[1]);
            float *cut = prepared(&resize, LS_DTYPE_F32, LS_SHAPE(d.box.height, d.box.width, 3), box, 0, 0);
            float *out = prepared(&recipe, LS_DTYPE_F32, shape, image, 1, sample);
            for (int64_t i = 0; i < ls_shape_count(becomes); i++)
                assert_true(out[i] == expected(cut, becomes, &d, zeros, ones, i / 3 / becomes.dim[1],
                                               i / 3 % becomes.dim[1], i % 3));
            free(cut);
            free(out);
        }
    }
    free(image);
}

// One preparer for many samples in any order: nothing stays behind from one to the next.
static void samples_leave_nothing_behind(void **state) {
    ls_shape shape = LS_SHAPE(16, 16, 3);
    ls_recipe recipe = {.height = 24, .width = 24, .augment = 15 & ~(unsigned)LS_AUGMENT_CROP, .seed = 1};
    uint8_t *image = pattern(shape);
    enum { SAMPLES = 20, VALUES = 24 * 24 * 3 };
    static float first[SAMPLES][VALUES], again[VALUES];
    ls_preparer *p;
    OK(ls_preparer_create(&recipe, shape, LS_DTYPE_F32, &p));
    for (int i = 0; i < SAMPLES; i++) ls_preparer_run(p, image, 7, (uint64_t)i, first[i]);
    int changes = 0;
    for (int i = SAMPLES - 1; i >= 0; i--) {
        ls_preparer_run(p, image, 7, (uint64_t)i, again);
        assert_memory_equal(first[i], again, sizeof again);
        ls_preparer_run(p, image, 8, (uint64_t)i, again);
        changes += memcmp(first[i], again, sizeof again) != 0;
    }
    assert_int_equal(changes, SAMPLES);  // another epoch, another image
    ls_preparer_destroy(&p);
    free(image);
}

static void too_small_is_refused(void **state) {
    ls_recipe recipe = {.augment = LS_AUGMENT_CROP};
    ls_preparer *p;
    assert_int_equal(ls_preparer_create(&recipe, LS_SHAPE(7, 9, 1), LS_DTYPE_F32, &p), LS_STATUS_INVALID_ARGUMENT);
    assert_null(p);
    recipe.height = recipe.width = 8;
    OK(ls_preparer_create(&recipe, LS_SHAPE(7, 9, 1), LS_DTYPE_F32, &p));
    ls_preparer_destroy(&p);
    ls_preparer_destroy(&p);
}

// ---- noise ---------------------------------------------------------------------------------------------------------

enum { NOISY = 64 };

// Normal in its first four moments and in how much lies within one, two and three deviations; never beyond 4.9.
static void noise_is_normal(void **state) {
    enum { DRAWS = 200000 };
    double sum[5] = {0};
    int within[4] = {0};
    for (uint32_t i = 0; i < DRAWS; i++) {
        double x = ls_noise_normal(5, 2, 77, i), power = 1;
        for (int k = 1; k < 5; k++) sum[k] += power *= x;
        for (int k = 1; k < 4; k++) within[k] += fabs(x) < k;
        assert_true(fabs(x) < 4.9);
    }
    assert_true(fabs(sum[1] / DRAWS) < 0.01 && fabs(sum[2] / DRAWS - 1) < 0.01 && fabs(sum[3] / DRAWS) < 0.03);
    assert_true(fabs(sum[4] / DRAWS - 3) < 0.2);  // 2.85: eight are not as many as there could be
    assert_true(fabs((double)within[1] / DRAWS - 0.683) < 0.01 && fabs((double)within[2] / DRAWS - 0.954) < 0.01);
    assert_true(fabs((double)within[3] / DRAWS - 0.997) < 0.002);
}

// On grey of a half: what is added has the deviation in pixel / 255 under every normalization, and depends on seed, epoch and sample.
static void noise_on_images(void **state) {
    const ls_shape shape = LS_SHAPE(NOISY, NOISY, 1);
    const float offset[] = {40}, divisor[] = {50};
    uint8_t image[NOISY * NOISY];
    memset(image, 128, sizeof image);
    for (int normalized = 0; normalized < 2; normalized++) {
        ls_recipe recipe = {.noise = 0.1, .seed = 9};
        if (normalized) recipe.offset = offset, recipe.divisor = divisor;
        float scale = normalized ? 255.0f / 50 : 1, middle = normalized ? 88.0f / 50 : 128.0f / 255;
        float *one = prepared(&recipe, LS_DTYPE_F32, shape, image, 3, 17), *again;
        double sum = 0, squares = 0;
        for (int i = 0; i < NOISY * NOISY; i++) {
            double x = (one[i] - middle) / scale;
            sum += x, squares += x * x;
        }
        assert_true(fabs(sum / NOISY / NOISY) < 0.005 && fabs(sqrt(squares / NOISY / NOISY) - 0.1) < 0.005);
        again = prepared(&recipe, LS_DTYPE_F32, shape, image, 3, 17);
        assert_memory_equal(one, again, sizeof image * 4);
        free(again);
        for (int k = 0; k < 3; k++) {
            ls_recipe other = recipe;
            other.seed += k == 2;
            again = prepared(&other, LS_DTYPE_F32, shape, image, k == 0 ? 4 : 3, k == 1 ? 18 : 17);
            int same = 0;
            for (int i = 0; i < NOISY * NOISY; i++) same += one[i] == again[i];
            assert_true(same < NOISY);
            free(again);
        }
        free(one);
    }
}

// Nothing is darker than black or brighter than white, and bf16 is what fp32 is of the rounded image, rounded.
static void noise_has_limits(void **state) {
    const ls_shape shape = LS_SHAPE(NOISY, NOISY, 1);
    const ls_recipe recipe = {.noise = 0.5, .seed = 4};
    uint8_t image[NOISY * NOISY];
    memset(image, 51, sizeof image);
    float *wide = prepared(&recipe, LS_DTYPE_F32, shape, image, 1, 1);
    ls_bf16 *narrow = prepared(&recipe, LS_DTYPE_BF16, shape, image, 1, 1);
    int black = 0, white = 0;
    for (int i = 0; i < NOISY * NOISY; i++) {
        assert_true(wide[i] >= 0 && wide[i] <= 1);
        black += wide[i] == 0;
        white += wide[i] == 1;
        assert_true(fabs(ls_bf16_to_float(narrow[i]) - wide[i]) < 0.005);
    }
    assert_true(black > NOISY * NOISY / 4 && black < NOISY * NOISY / 2 && white > 20);
    free(wide);
    free(narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizes_like_pytorch_and_to_tensorflows_bits),
        cmocka_unit_test(same_size_is_the_identity),
        cmocka_unit_test(flat_images_stay_flat),
        cmocka_unit_test(normalizes_channel_by_channel),
        cmocka_unit_test(augmented_is_what_was_drawn),
        cmocka_unit_test(resized_crop_is_the_box_resized),
        cmocka_unit_test(samples_leave_nothing_behind),
        cmocka_unit_test(too_small_is_refused),
        cmocka_unit_test(noise_is_normal),
        cmocka_unit_test(noise_on_images),
        cmocka_unit_test(noise_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
