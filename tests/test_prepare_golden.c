// Interpolations, colours and rotation against Pillow, PyTorch, OpenCV and torchvision (tests/golden/prepare.json, made by
// tests/golden/make_prepare.py), numbers of one's own, the order of channels, and windows out of resized images against plain loops.
#include <stdlib.h>
#include <zlib.h>

#include "base/bf16.h"
#include "data/colour.h"
#include "data/prepare.h"
#include "golden_check.h"

static const float zeros[3] = {0}, ones[3] = {1, 1, 1};

// The images of make_prepare.py.
static uint8_t *pattern(ls_shape shape) {
    uint8_t *image = malloc((size_t)ls_shape_count(shape));
    for (int64_t i = 0; i < ls_shape_count(shape); i++) image[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13);
    return image;
}

static float *prepared(const ls_recipe *recipe, ls_shape shape, uint32_t epoch, uint64_t sample) {
    ls_preparer *p;
    uint8_t *image = pattern(shape);
    OK(ls_preparer_create(recipe, shape, LS_DTYPE_F32, &p));
    // Exactly as large as it is to be, for the sanitizers.
    float *out = malloc((size_t)ls_shape_count(ls_recipe_shape(recipe, shape)) * sizeof *out);
    OK(ls_preparer_run(p, image, epoch, sample, out));
    ls_preparer_destroy(&p);
    free(image);
    return out;
}

static int64_t whole(const json_t *object, const char *key, size_t i) {
    return (int64_t)element(member(object, key), i);
}

// Ours at the places that are told, and the sum.
static void compare(const char *what, const json_t *c, const float *ours, int64_t count, double allowed) {
    const json_t *values = member(c, "values");
    assert_true(json_array_size(values) > 0);
    for (size_t k = 0; k < json_array_size(values); k++) {
        double want = element(values, k), got = (double)ours[whole(c, "indices", k)];
        if (!(fabs(got - want) <= allowed))
            fail_msg("%s: value %lld is %.6g, not %.6g", what, (long long)whole(c, "indices", k), got, want);
    }
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)ours[i];
    if (!(fabs(sum - number(c, "sum")) <= allowed * (double)count))
        fail_msg("%s: the sum is %.9g, not %.9g", what, sum, number(c, "sum"));
}

// Values that are bytes, by their checksum.
static void compare_bytes(const char *what, const json_t *c, const float *ours, int64_t count) {
    uint8_t *bytes = malloc((size_t)count);
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = (uint8_t)ours[i];
        assert_true((float)bytes[i] == ours[i]);
    }
    if (crc32(0, bytes, (uInt)count) != (uLong)json_integer_value(member(c, "crc32")))
        fail_msg("%s: other bytes than Pillow's", what);
    free(bytes);
}

static void check_resized(const json_t *c) {
    const char *rule = json_string_value(member(c, "rule"));
    ls_shape shape = LS_SHAPE(whole(c, "from", 0), whole(c, "from", 1), whole(c, "from", 2));
    ls_recipe recipe = {.height = whole(c, "to", 0), .width = whole(c, "to", 1), .offset = zeros, .divisor = ones};
    char what[128];
    OK(ls_interpolation_find(rule, &recipe.interpolation));
    if (json_object_get(c, "resize")) recipe.resize = json_integer_value(json_object_get(c, "resize"));
    snprintf(what, sizeof what, "%s of %lldx%lldx%lld to %lldx%lld", rule, (long long)shape.dim[0],
             (long long)shape.dim[1], (long long)shape.dim[2], (long long)recipe.height, (long long)recipe.width);
    float *ours = prepared(&recipe, shape, 0, 0);
    int64_t count = ls_shape_count(ls_recipe_shape(&recipe, shape));
    if (json_object_get(c, "crc32"))
        compare_bytes(what, c, ours, count);
    else  // ours are floats of up to 300: 16 products, each to 2^-24 of that
        compare(what, c, ours, count, 1e-3);
    free(ours);
}

static void resizes_as_they_do(void **state) {
    json_t *golden = golden_load("prepare"), *c;
    size_t i;
    json_array_foreach(json_object_get(golden, "resize"), i, c) check_resized(c);
    assert_true(i >= 24);
    json_array_foreach(json_object_get(golden, "centred"), i, c) check_resized(c);
    assert_true(i >= 8);
    json_decref(golden);
}

static void colours_as_torchvision(void **state) {
    json_t *golden = golden_load("prepare"), *c;
    const ls_shape shape = LS_SHAPE(13, 11, 3);
    size_t i;
    json_array_foreach(json_object_get(golden, "colours"), i, c) {
        ls_augment_look look = {.augment = LS_AUGMENT_COLOURS & ~(unsigned)LS_AUGMENT_LIGHTING};
        float values[13 * 11 * 3];
        uint8_t *image = pattern(shape);
        for (int k = 0; k < 4; k++) look.order[k] = (int)whole(c, "order", (size_t)k);
        look.brightness = (float)element(member(c, "factors"), 0);
        look.contrast = (float)element(member(c, "factors"), 1);
        look.saturation = (float)element(member(c, "factors"), 2);
        look.hue = (float)element(member(c, "factors"), 3);
        for (int64_t k = 0; k < ls_shape_count(shape); k++) values[k] = image[k];
        ls_colour_apply(&look, 13 * 11, 3, values);
        compare("colours", c, values, 13 * 11 * 3, 1e-3);
        free(image);
    }
    assert_true(i >= 7);
    json_decref(golden);
}

static void rotates_as_torchvision(void **state) {
    json_t *golden = golden_load("prepare"), *c;
    size_t i;
    json_array_foreach(json_object_get(golden, "rotate"), i, c) {
        ls_shape shape = LS_SHAPE(whole(c, "shape", 0), whole(c, "shape", 1), whole(c, "shape", 2));
        double angle = number(c, "degrees") * (acos(-1) / 180);
        ls_augment_look look = {LS_AUGMENT_ROTATE, .sine = (float)sin(angle), .cosine = (float)cos(angle)};
        float in[17 * 17 * 3], out[17 * 17 * 3];
        uint8_t *image = pattern(shape);
        for (int64_t k = 0; k < ls_shape_count(shape); k++) in[k] = image[k];
        ls_colour_rotate(&look, shape.dim[0], shape.dim[1], shape.dim[2], in, out);
        // Places are floats of up to 23, between pixels that are up to 255 apart.
        compare("a rotation", c, out, ls_shape_count(shape), 5e-3);
        free(image);
    }
    assert_true(i >= 10);
    json_decref(golden);
}

// A grey image has neither saturation nor hue; lighting is added as it is.
static void grey_and_lighting(void **state) {
    float grey[] = {10, 200, 90}, pixel[] = {10, 200, 90};
    ls_augment_look look = {LS_AUGMENT_SATURATION | LS_AUGMENT_HUE, {3, 2, 1, 0}, .saturation = 0.5f, .hue = 0.3f};
    ls_colour_apply(&look, 3, 1, grey);
    assert_true(grey[0] == 10 && grey[1] == 200 && grey[2] == 90);
    look = (ls_augment_look){LS_AUGMENT_LIGHTING, .lighting = {1.5f, -2, 60}};
    ls_colour_apply(&look, 1, 3, pixel);
    assert_true(pixel[0] == 11.5f && pixel[1] == 198 && pixel[2] == 150);
    // What a bicubic curve leaves beside an edge from black to green.
    float beside[] = {0, -12, 0, 0, 270, 0};
    look = (ls_augment_look){LS_AUGMENT_HUE, {3, 2, 1, 0}, .hue = 0.3f};
    ls_colour_apply(&look, 2, 3, beside);
    for (int i = 0; i < 6; i++) assert_true(beside[i] >= -12 && beside[i] <= 255);
}

// (pixel - mean) / std * scale, channels turned around, whichever way an image takes.
static void numbers_and_order(void **state) {
    static const float offset[3] = {104, 117, 123}, divisor[3] = {1, 2, 3};
    const ls_shape shape = LS_SHAPE(7, 5, 3);
    uint8_t *image = pattern(shape);
    for (int way = 0; way < 3; way++)
        for (int bgr = 0; bgr < 2; bgr++) {
            // To its own size every interpolation is the same pixels.
            ls_recipe recipe = {.interpolation = way == 0   ? LS_INTERPOLATION_BILINEAR
                                                 : way == 1 ? LS_INTERPOLATION_PILLOW_BICUBIC
                                                            : LS_INTERPOLATION_AREA,
                                .offset = offset,
                                .divisor = divisor,
                                .scale = 0.0078125f,
                                .bgr = bgr};
            float *ours = prepared(&recipe, shape, 0, 0);
            for (int64_t i = 0; i < ls_shape_count(shape); i++) {
                int64_t c = i % 3, from = bgr ? i - c + 2 - c : i;
                assert_true(ours[i] == ((float)image[from] - offset[c]) / divisor[c] * 0.0078125f);
            }
            free(ours);
        }
    // The order alone.
    ls_recipe recipe = {.bgr = 1};
    float *ours = prepared(&recipe, shape, 0, 0);
    assert_true(ours[0] == (float)image[2] / 255 && ours[5] == (float)image[3] / 255);
    free(ours);
    free(image);
}

// What is cut out of a resized image is a part of it: the whole resized, by its own recipe.
static void windows_are_parts(void **state) {
    static const ls_interpolation rules[] = {LS_INTERPOLATION_BILINEAR, LS_INTERPOLATION_BICUBIC, LS_INTERPOLATION_AREA,
                                             LS_INTERPOLATION_PILLOW_BILINEAR};
    const ls_shape shape = LS_SHAPE(30, 45, 3);
    for (int r = 0; r < 4; r++)
        for (int random = 0; random < 2; random++) {
            ls_recipe cut = {.height = 16,
                             .width = 16,
                             .resize = 24,
                             .interpolation = rules[r],
                             .seed = 4,
                             .offset = zeros,
                             .divisor = ones,
                             .augment = random ? LS_AUGMENT_RANDOM_CROP : 0};
            ls_recipe all = {.height = 24, .width = 36, .interpolation = rules[r], .offset = zeros, .divisor = ones};
            float *whole_image = prepared(&all, shape, 0, 0);
            int places = 0;
            for (uint64_t sample = 0; sample < 12; sample++) {
                int64_t y, x;
                ls_augment_window(cut.augment, 4, 3, sample, LS_SHAPE(24, 36, 3), LS_SHAPE(16, 16, 3), &y, &x);
                assert_true(y >= 0 && y <= 8 && x >= 0 && x <= 20);
                places += y != 4 || x != 10;
                float *ours = prepared(&cut, shape, 3, sample);
                for (int64_t i = 0; i < 16 * 16 * 3; i++)
                    assert_true(ours[i] == whole_image[((y + i / 48) * 36 + x + i / 3 % 16) * 3 + i % 3]);
                free(ours);
            }
            assert_true(random ? places > 8 : places == 0);
            free(whole_image);
        }
}

// All of it at once: the same in bf16, the same again by the same preparer, another in another epoch.
static void everything_at_once(void **state) {
    const ls_shape shape = LS_SHAPE(40, 32, 3);
    ls_recipe recipe = {.height = 24,
                        .width = 24,
                        .resize = 28,
                        .seed = 7,
                        .bgr = 1,
                        .offset = zeros,
                        .divisor = ones,
                        .interpolation = LS_INTERPOLATION_PILLOW_BILINEAR};
    OK(ls_augment_parse("random-crop,flip,rotate,brightness,contrast,saturation,hue,lighting,cutout", &recipe.augment,
                        &recipe.amounts));
    enum { VALUES = 24 * 24 * 3 };
    static float first[VALUES], again[VALUES];
    static ls_bf16 half[VALUES];
    uint8_t *image = pattern(shape);
    ls_preparer *p, *h;
    OK(ls_preparer_create(&recipe, shape, LS_DTYPE_F32, &p));
    OK(ls_preparer_create(&recipe, shape, LS_DTYPE_BF16, &h));
    assert_true(ls_preparer_bytes(&recipe, shape) >= 2 * VALUES * 4);
    for (uint64_t sample = 0; sample < 8; sample++) {
        OK(ls_preparer_run(p, image, 1, sample, first));
        OK(ls_preparer_run(p, image, 2, sample, again));
        assert_memory_not_equal(first, again, sizeof first);
        OK(ls_preparer_run(p, image, 1, sample, again));
        assert_memory_equal(first, again, sizeof first);
        OK(ls_preparer_run(h, image, 1, sample, half));
        for (int i = 0; i < VALUES; i++) assert_int_equal(half[i], ls_float_to_bf16(first[i]));
    }
    ls_preparer_destroy(&p);
    ls_preparer_destroy(&h);
    free(image);
}

static void refused(const ls_recipe *recipe, ls_shape shape, const char *words) {
    ls_preparer *p;
    assert_int_equal(ls_preparer_create(recipe, shape, LS_DTYPE_F32, &p), LS_STATUS_INVALID_ARGUMENT);
    if (!strstr(ls_error_message(), words)) fail_msg("\"%s\" without \"%s\"", ls_error_message(), words);
}

static void refuses_what_cannot_be(void **state) {
    ls_recipe recipe = {.height = 24, .width = 24, .resize = 20};
    ls_interpolation rule;
    refused(&recipe, LS_SHAPE(40, 40, 3), "resize them to 24 or more");
    recipe = (ls_recipe){.height = 24, .width = 24, .augment = LS_AUGMENT_RANDOM_CROP};
    refused(&recipe, LS_SHAPE(40, 40, 3), "--resize N");
    recipe.augment = LS_AUGMENT_LIGHTING;
    refused(&recipe, LS_SHAPE(40, 40, 1), "have 1 channel:");
    recipe.augment = LS_AUGMENT_HUE;
    refused(&recipe, LS_SHAPE(40, 40, 2), "2 channels");
    assert_int_equal(ls_interpolation_find("lanczos", &rule), LS_STATUS_INVALID_ARGUMENT);
    const char *name, *help;
    for (int i = 0; (name = ls_interpolation_choice(i, &help)); i++) {
        OK(ls_interpolation_find(name, &rule));
        assert_int_equal(rule, i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizes_as_they_do),     cmocka_unit_test(colours_as_torchvision),
        cmocka_unit_test(rotates_as_torchvision), cmocka_unit_test(grey_and_lighting),
        cmocka_unit_test(numbers_and_order),      cmocka_unit_test(windows_are_parts),
        cmocka_unit_test(everything_at_once),     cmocka_unit_test(refuses_what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
