// Augmentation: which lists are understood, what is drawn how often, and that a draw depends on nothing but its key. And the
// numbers of normalization.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/augment.h"
#include "data/normalize.h"

#define ALL (LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_CROP | LS_AUGMENT_FLIP | LS_AUGMENT_CUTOUT)

static const ls_shape small = {3, {32, 32, 3}};

static void refused(ls_status status, const char *words) {
    assert_int_equal(status, LS_STATUS_INVALID_ARGUMENT);
    if (!strstr(ls_error_message(), words)) fail_msg("\"%s\" without \"%s\"", ls_error_message(), words);
}

// ---- names ---------------------------------------------------------------------------------------------------------

static void lists_are_understood_or_refused(void **state) {
    static const struct {
        const char *list;
        unsigned augment;
    } good[] = {{"none", 0},
                {"flip", LS_AUGMENT_FLIP},
                {"crop,flip", LS_AUGMENT_FLIP | LS_AUGMENT_CROP},
                {"cutout,resized-crop,flip", LS_AUGMENT_CUTOUT | LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_FLIP}};
    unsigned augment;
    ls_augment_amounts amounts;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(ls_augment_parse(good[i].list, &augment, &amounts), LS_OK);
        assert_int_equal(augment, good[i].augment);
    }
    refused(ls_augment_parse("flip,blur", &augment, &amounts),
            "'blur': there are none, flip, crop, resized-crop, random-crop, rotate, brightness, "
            "contrast, saturation, hue, lighting, cutout, translate and alternate-flip");
    refused(ls_augment_parse("Flip", &augment, &amounts), "'Flip'");
    refused(ls_augment_parse("flip, crop", &augment, &amounts), "' crop'");
    refused(ls_augment_parse("fli", &augment, &amounts), "'fli'");
    refused(ls_augment_parse("", &augment, &amounts), "empty");
    refused(ls_augment_parse("flip,", &augment, &amounts), "empty");
    refused(ls_augment_parse(",flip", &augment, &amounts), "empty");
    refused(ls_augment_parse("flip,,crop", &augment, &amounts), "empty");
    refused(ls_augment_parse("flip,none", &augment, &amounts), "none beside others");
    refused(ls_augment_parse("flip,crop,flip", &augment, &amounts), "flip is named twice");
    refused(ls_augment_parse("crop,resized-crop", &augment, &amounts), "crop and resized-crop");
    refused(ls_augment_parse("resized-crop,translate", &augment, &amounts),
            "translate and resized-crop both choose what");
    refused(ls_augment_parse("translate,crop", &augment, &amounts), "crop and translate both move images");
    refused(ls_augment_parse("flip,alternate-flip", &augment, &amounts), "flip and alternate-flip both choose which");
    assert_int_equal(ls_augment_parse("alternate-flip,translate,cutout", &augment, &amounts), LS_OK);
    assert_int_equal(augment, LS_AUGMENT_ALTERNATE_FLIP | LS_AUGMENT_TRANSLATE | LS_AUGMENT_CUTOUT);
    // All that --help shows are names.
    const char *help = NULL, *name;
    int count = 0;
    for (; (name = ls_augment_choice(count, &help)); count++) {
        assert_int_equal(ls_augment_parse(name, &augment, &amounts), LS_OK);
        assert_true(help && *help);
    }
    assert_int_equal(count, 14);
}

static void amounts_are_understood_or_refused(void **state) {
    unsigned augment;
    ls_augment_amounts a;
    assert_int_equal(ls_augment_parse("hue=0.25,flip,rotate=7.5,brightness", &augment, &a), LS_OK);
    assert_int_equal(augment, LS_AUGMENT_HUE | LS_AUGMENT_FLIP | LS_AUGMENT_ROTATE | LS_AUGMENT_BRIGHTNESS);
    assert_true(a.hue == 0.25 && a.rotate == 7.5 && a.brightness == 0.4 && a.contrast == 0);
    refused(ls_augment_parse("flip=1", &augment, &a), "flip takes no amount: leave '=1' out");
    refused(ls_augment_parse("hue=0.6", &augment, &a), "hue takes an amount above 0 and up to 0.5, not '0.6'");
    refused(ls_augment_parse("hue=,flip", &augment, &a), "not ''");
    refused(ls_augment_parse("contrast=0", &augment, &a), "above 0");
    refused(ls_augment_parse("contrast=nan", &augment, &a), "above 0");
    refused(ls_augment_parse("rotate=10x", &augment, &a), "not '10x'");
    refused(ls_augment_parse("random-crop,resized-crop", &augment, &a), "resized-crop and random-crop");
    refused(ls_augment_parse("blur=3", &augment, &a), "'blur=3'");
}

static void small_images_are_refused(void **state) {
    assert_int_equal(ls_augment_check(ALL, LS_SHAPE(8, 8, 1)), LS_OK);
    refused(ls_augment_check(LS_AUGMENT_CROP, LS_SHAPE(8, 7, 1)), "8x7");
    refused(ls_augment_check(LS_AUGMENT_CUTOUT, LS_SHAPE(3, 8, 1)), "3x8");
    refused(ls_augment_check(LS_AUGMENT_TRANSLATE, LS_SHAPE(16, 15, 1)), "16x15");
    refused(ls_augment_check(LS_AUGMENT_VIEW, LS_SHAPE(1, 16, 1)), "1x16");
    assert_int_equal(ls_augment_check(LS_AUGMENT_TRANSLATE | LS_AUGMENT_VIEW, LS_SHAPE(16, 16, 1)), LS_OK);
    assert_int_equal(ls_augment_check(LS_AUGMENT_FLIP | LS_AUGMENT_RESIZED_CROP, LS_SHAPE(1, 1, 1)), LS_OK);
}

// ---- draws ---------------------------------------------------------------------------------------------------------

static ls_augment_draw draw(unsigned augment, uint64_t seed, uint32_t epoch, uint64_t sample) {
    return ls_augment_sample(augment, seed, epoch, sample, small, small);
}

static int same_box(ls_rectangle a, ls_rectangle b) {
    return a.y == b.y && a.x == b.x && a.height == b.height && a.width == b.width;
}

// Each augmentation's draws are its own: others beside it change nothing, and none at all draws nothing.
static void draws_depend_on_their_key_alone(void **state) {
    int other_seed = 0, other_epoch = 0, other_sample = 0;
    for (uint64_t s = 0; s < 500; s++) {
        ls_augment_draw all = draw(ALL, 3, 1, s), again = draw(ALL, 3, 1, s);
        assert_true(same_box(all.box, again.box) && same_box(all.hole, again.hole) && all.mirror == again.mirror);
        assert_true(all.shift_y == again.shift_y && all.shift_x == again.shift_x);
        assert_int_equal(draw(LS_AUGMENT_FLIP, 3, 1, s).mirror, all.mirror);
        ls_augment_draw crop = draw(LS_AUGMENT_CROP, 3, 1, s);
        assert_true(crop.shift_y == all.shift_y && crop.shift_x == all.shift_x);
        assert_true(same_box(draw(LS_AUGMENT_RESIZED_CROP, 3, 1, s).box, all.box));
        assert_true(same_box(draw(LS_AUGMENT_CUTOUT, 3, 1, s).hole, all.hole));
        ls_augment_draw none = draw(0, 3, 1, s);
        assert_true(same_box(none.box, (ls_rectangle){0, 0, 32, 32}) && none.hole.height == 0);
        assert_true(none.shift_y == 0 && none.shift_x == 0 && none.mirror == 0);
        other_seed += !same_box(all.hole, draw(ALL, 4, 1, s).hole);
        other_epoch += !same_box(all.hole, draw(ALL, 3, 2, s).hole);
        other_sample += !same_box(all.hole, draw(ALL, 3, 1, s + (1ull << 32)).hole);
    }
    assert_true(other_seed > 450 && other_epoch > 450 && other_sample > 450);
}

enum { DRAWS = 20000 };

static void half_of_the_images_are_mirrored(void **state) {
    int mirrored = 0, alike = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        int first = draw(LS_AUGMENT_FLIP, 42, 1, s).mirror;
        mirrored += first;
        alike += first == draw(LS_AUGMENT_FLIP, 42, 2, s).mirror;
    }
    // Five deviations of a fair coin: sqrt(n) / 2 each.
    assert_true(abs(mirrored - DRAWS / 2) < 5 * 71 && abs(alike - DRAWS / 2) < 5 * 71);
}

// Each of the 9 x 9 places is as likely as the others: chi-squared of 80 degrees stays under 160 but for one time in a million.
static void crops_are_anywhere(void **state) {
    int count[9][9] = {{0}};
    for (uint64_t s = 0; s < DRAWS; s++) {
        ls_augment_draw d = draw(LS_AUGMENT_CROP, 42, 1, s);
        assert_true(d.shift_y >= -4 && d.shift_y <= 4 && d.shift_x >= -4 && d.shift_x <= 4);
        count[d.shift_y + 4][d.shift_x + 4]++;
    }
    double chi = 0, each = DRAWS / 81.0;
    for (int i = 0; i < 81; i++) chi += pow(count[i / 9][i % 9] - each, 2) / each;
    assert_true(chi < 160);
    // The reach goes with the size.
    int64_t most = 0;
    for (uint64_t s = 0; s < 2000; s++) {
        ls_augment_draw d = ls_augment_sample(LS_AUGMENT_CROP, 42, 1, s, small, LS_SHAPE(128, 28, 3));
        assert_true(d.shift_y >= -16 && d.shift_y <= 16 && d.shift_x >= -3 && d.shift_x <= 3);
        if (d.shift_y > most) most = d.shift_y;
    }
    assert_int_equal(most, 16);
}

// In two epochs that follow each other every image is seen both ways; which comes first is drawn.
static void turns_are_taken(void **state) {
    int mirrored = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        int first = draw(LS_AUGMENT_ALTERNATE_FLIP, 42, 1, s).mirror;
        mirrored += first;
        for (uint32_t epoch = 2; epoch < 6; epoch++)
            assert_int_equal(draw(LS_AUGMENT_ALTERNATE_FLIP, 42, epoch, s).mirror, first ^ (epoch % 2 == 0));
    }
    assert_true(abs(mirrored - DRAWS / 2) < 5 * 71);
}

// Each of the 5 x 5 places: chi-squared of 24 degrees stays under 80 but for one time in ten million.
static void translations_are_anywhere(void **state) {
    int count[5][5] = {{0}};
    for (uint64_t s = 0; s < DRAWS; s++) {
        ls_augment_draw d = draw(LS_AUGMENT_TRANSLATE, 42, 1, s);
        assert_true(d.reflect && d.shift_y >= -2 && d.shift_y <= 2 && d.shift_x >= -2 && d.shift_x <= 2);
        count[d.shift_y + 2][d.shift_x + 2]++;
    }
    double chi = 0, each = DRAWS / 25.0;
    for (int i = 0; i < 25; i++) chi += pow(count[i / 5][i % 5] - each, 2) / each;
    assert_true(chi < 80);
}

// Views are no matter of chance.
static void views_are_told(void **state) {
    static const int64_t shift[] = {0, 0, -1, -1, 1, 1};
    for (uint32_t view = 0; view < LS_VIEWS; view++)
        for (uint64_t s = 0; s < 20; s++) {
            ls_augment_draw d = draw(LS_AUGMENT_VIEW, s, view, s * s);
            assert_true(d.reflect && d.shift_y == shift[view] && d.shift_x == shift[view]);
            assert_int_equal(d.mirror, view % 2);
        }
}

static void holes_are_half_a_side_around_any_pixel(void **state) {
    double area = 0;
    int64_t full = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        ls_rectangle h = draw(LS_AUGMENT_CUTOUT, 42, 1, s).hole;
        assert_true(h.y >= 0 && h.x >= 0 && h.y + h.height <= 32 && h.x + h.width <= 32);
        assert_true(h.height >= 8 && h.height <= 16 && h.width >= 8 && h.width <= 16);
        area += (double)(h.height * h.width) / DRAWS;
        full += h.height == 16 && h.width == 16;
    }
    // Along an axis, 17 of 32 middles leave all 16 pixels inside, those nearer to an edge 8 to 15 and 9 to 15. Areas have
    // a deviation of 50.
    double mean = (17 * 16 + (8 + 9 + 10 + 11 + 12 + 13 + 14 + 15) + (9 + 10 + 11 + 12 + 13 + 14 + 15)) / 32.0;
    assert_true(fabs(area - mean * mean) < 5 * 50 / sqrt(DRAWS));
    assert_true(fabs((double)full / DRAWS - 17.0 * 17 / 1024) < 5 * 0.45 / sqrt(DRAWS));
}

// On an image large enough that hardly a box is refused: area and the logarithm of the shape are uniform.
static void boxes_are_of_any_area_and_shape(void **state) {
    ls_shape large = LS_SHAPE(4000, 4000, 3);
    double least = 1, most = 0, thin = 1, wide = 1, log_mean = 0, in_the_middle = 0;
    int quarter = 0, considered = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        ls_rectangle b = ls_augment_sample(LS_AUGMENT_RESIZED_CROP, 42, 1, s, large, small).box;
        assert_true(b.height >= 1 && b.width >= 1 && b.y >= 0 && b.x >= 0);
        assert_true(b.y + b.height <= 4000 && b.x + b.width <= 4000);
        double area = (double)(b.height * b.width) / 16e6, shape = (double)b.width / (double)b.height;
        assert_true(area > 0.0799 && area <= 1 && shape > 0.749 && shape < 1.335);
        least = fmin(least, area), most = fmax(most, area), thin = fmin(thin, shape), wide = fmax(wide, shape);
        in_the_middle += (double)(b.x + b.width / 2) / 4000 / DRAWS;
        if (area > 0.7) continue;  // larger ones do not fit in every shape, and are drawn again
        considered++;
        quarter += area < 0.08 + 0.62 / 4;
        log_mean += log(shape);
    }
    assert_true(least < 0.081 && most > 0.97 && thin < 0.751 && wide > 1.33);
    assert_true(considered > DRAWS / 2);
    assert_true(fabs((double)quarter / considered - 0.25) < 5 * 0.433 / sqrt(considered));
    assert_true(fabs(log_mean / considered) < 5 * 0.166 / sqrt(considered));
    assert_true(fabs(in_the_middle - 0.5) < 5 * 0.12 / sqrt(DRAWS));
}

// Images of a shape that boxes hardly fit in: the largest in the middle. And of one pixel: that one.
static void boxes_fit_in_any_image(void **state) {
    int middle = 0;
    for (uint64_t s = 0; s < 300; s++) {
        ls_rectangle b = ls_augment_sample(LS_AUGMENT_RESIZED_CROP, 1, 1, s, LS_SHAPE(400, 10, 1), small).box;
        assert_true(b.y >= 0 && b.x >= 0 && b.height >= 1 && b.width >= 1 && b.y + b.height <= 400 &&
                    b.x + b.width <= 10);
        middle += same_box(b, (ls_rectangle){193, 0, 13, 10});
        b = ls_augment_sample(LS_AUGMENT_RESIZED_CROP, 1, 1, s, LS_SHAPE(10, 400, 1), small).box;
        assert_true(same_box(b, (ls_rectangle){0, 193, 10, 13}) || b.height < 10);
        b = ls_augment_sample(LS_AUGMENT_RESIZED_CROP, 1, 1, s, LS_SHAPE(1, 1, 1), small).box;
        assert_true(same_box(b, (ls_rectangle){0, 0, 1, 1}));
    }
    assert_int_equal(middle, 300);  // the smallest box there may be has 320 pixels: none is ever as narrow as 10
}

// The draws of this version, whichever compiler and processor: a change of them changes what everybody trains.
static void draws_stay_as_they_are(void **state) {
    uint64_t hash = 1469598103934665603u;
    for (uint64_t s = 0; s < 2000; s++) {
        ls_augment_draw d =
            ls_augment_sample(ALL, 42, (uint32_t)(s % 7), s, LS_SHAPE(500, 375, 3), LS_SHAPE(224, 224, 3));
        int64_t all[] = {d.box.y,  d.box.x,  d.box.height, d.box.width,   d.shift_y,   d.shift_x,
                         d.mirror, d.hole.y, d.hole.x,     d.hole.height, d.hole.width};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) hash = (hash ^ (uint64_t)all[i]) * 1099511628211u;
    }
    if (hash != UINT64_C(0x62962ec0c09ef9fb)) fail_msg("the draws have the digest 0x%llx", (unsigned long long)hash);
}

// Factors are spread evenly over what they may be, orders over all that there are, angles and lighting around 0.
static void looks_are_spread(void **state) {
    const ls_augment_amounts a = {
        .brightness = 0.4, .contrast = 1.5, .saturation = 0.2, .hue = 0.1, .lighting = 0.1, .rotate = 30};
    double low = 1, high = 0, brightness = 0, hue = 0, sine = 0, light[3] = {0}, squares[3] = {0};
    int orders[256] = {0}, kinds = 0;
    for (uint64_t s = 0; s < DRAWS; s++) {
        ls_augment_look d = ls_augment_sample_look(LS_AUGMENT_STAGED, &a, 3, 1, s);
        assert_true(d.brightness >= 0.6f && d.brightness <= 1.4f && d.saturation >= 0.8f && d.saturation <= 1.2f);
        assert_true(fabsf(d.hue) <= 0.1f && fabsf(d.sine) <= 0.5001f && d.cosine >= 0.866f);
        assert_true(fabs(d.sine * (double)d.sine + d.cosine * (double)d.cosine - 1) < 1e-6);
        if (d.contrast < low) low = d.contrast;
        if (d.contrast > high) high = d.contrast;
        brightness += (double)d.brightness / DRAWS, hue += (double)d.hue / DRAWS, sine += (double)d.sine / DRAWS;
        for (int c = 0; c < 3; c++)
            light[c] += (double)d.lighting[c], squares[c] += (double)d.lighting[c] * (double)d.lighting[c];
        kinds += orders[d.order[0] | d.order[1] << 2 | d.order[2] << 4 | d.order[3] << 6]++ == 0;
    }
    assert_true(low >= 0 && low < 0.01 && high > 2.48 && high <= 2.5);  // no factor is below 0
    assert_true(fabs(brightness - 1) < 0.02 && fabs(hue) < 0.006 && fabs(sine) < 0.03);
    assert_int_equal(kinds, 24);
    // 0.1 sqrt(sum of (vector value)^2): 3.16, 3.22, 3.25 of red, green and blue.
    static const double deviation[3] = {3.1667, 3.2226, 3.2541};
    for (int c = 0; c < 3; c++) {
        assert_true(fabs(light[c] / DRAWS) < 0.2);
        assert_true(fabs(sqrt(squares[c] / DRAWS) - deviation[c]) < 0.12);
    }
}

// A change here changes what every recipe with colours trains.
static void looks_stay_as_they_are(void **state) {
    const ls_augment_amounts a = {0.4, 0.4, 0.4, 0.1, 0.1, 45};
    uint64_t hash = 1469598103934665603u;
    for (uint64_t s = 0; s < 2000; s++) {
        ls_augment_look d = ls_augment_sample_look(LS_AUGMENT_STAGED, &a, 42, (uint32_t)(s % 7), s);
        const float all[] = {d.brightness,  d.contrast,        d.saturation,     d.hue,
                             d.lighting[0], d.lighting[1],     d.lighting[2],    d.sine,
                             d.cosine,      (float)d.order[0], (float)d.order[3]};
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            uint32_t bits;
            memcpy(&bits, &all[i], 4);
            hash = (hash ^ bits) * 1099511628211u;
        }
    }
    if (hash != UINT64_C(0xf7eadfd88816d7a1)) fail_msg("the draws have the digest 0x%llx", (unsigned long long)hash);
}

// ---- normalization -------------------------------------------------------------------------------------------------

static void normalizations_have_names(void **state) {
    ls_normalization n;
    assert_int_equal(ls_normalization_find("unit", &n), LS_OK);
    assert_int_equal(n, LS_NORMALIZATION_UNIT);
    assert_int_equal(ls_normalization_find("symmetric", &n), LS_OK);
    assert_int_equal(n, LS_NORMALIZATION_SYMMETRIC);
    assert_int_equal(ls_normalization_find("dataset", &n), LS_OK);
    assert_int_equal(n, LS_NORMALIZATION_DATASET);
    assert_int_equal(ls_normalization_find("none", &n), LS_OK);
    assert_int_equal(n, LS_NORMALIZATION_NONE);
    refused(ls_normalization_find("imagenet", &n), "'imagenet': there are unit, symmetric, dataset and none");
    const char *help, *name;
    for (int i = 0; (name = ls_normalization_choice(i, &help)); i++)
        assert_int_equal(ls_normalization_find(name, &n), LS_OK);
}

// Three channels, in parts and as a whole, more rows than a partial sum holds: against long double.
static void moments_of_channels(void **state) {
    enum { SAMPLES = 2500, HEIGHT = 31, WIDTH = 5, VALUES = HEIGHT * WIDTH * 3 };
    uint8_t *images = malloc((size_t)SAMPLES * VALUES);
    long double sum[3] = {0}, squares[3] = {0}, count = (long double)SAMPLES * HEIGHT * WIDTH;
    for (int64_t i = 0; i < (int64_t)SAMPLES * VALUES; i++) {
        images[i] = i % 3 == 0 ? 255 : i % 3 == 1 ? (uint8_t)((uint32_t)i * 2654435761u >> 20) : (uint8_t)(i / 3 % 2);
        sum[i % 3] += images[i];
        squares[i % 3] += (long double)images[i] * images[i];
    }
    const ls_field field = {"image", LS_SHAPE(HEIGHT, WIDTH, 3), LS_DTYPE_U8, 0};
    ls_arrays arrays = {SAMPLES, {images}};
    ls_source *source;
    assert_int_equal(ls_source_create_memory("images", &field, 1, &arrays, &source), LS_OK);
    ls_channel_sums whole[3] = {{0}}, parts[3] = {{0}}, none[3] = {{0}};
    assert_int_equal(ls_channel_sums_add(source, 0, 0, SAMPLES, whole), LS_OK);
    assert_int_equal(ls_channel_sums_add(source, 0, 7, SAMPLES, parts), LS_OK);
    assert_int_equal(ls_channel_sums_add(source, 0, 0, 7, parts), LS_OK);
    assert_int_equal(ls_channel_sums_add(source, 0, 7, 7, parts), LS_OK);
    for (int c = 0; c < 3; c++) {
        double mean, deviation;
        assert_memory_equal(&whole[c], &parts[c], sizeof whole[c]);
        assert_true(whole[c].sum == (int64_t)sum[c] && whole[c].squares == (int64_t)squares[c]);
        ls_channel_moments(&whole[c], &mean, &deviation);
        assert_true(fabs(mean - (double)(sum[c] / count)) < 1e-12);
        long double variance = squares[c] / count - sum[c] / count * (sum[c] / count);
        assert_true(fabs(deviation - (c == 0 ? 0 : (double)sqrtl(variance))) < 1e-12);
    }
    double mean, deviation;
    ls_channel_moments(&none[0], &mean, &deviation);
    assert_true(mean == 0 && deviation == 0);
    ls_source_destroy(&source);
    free(images);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_understood_or_refused),
        cmocka_unit_test(small_images_are_refused),
        cmocka_unit_test(draws_depend_on_their_key_alone),
        cmocka_unit_test(half_of_the_images_are_mirrored),
        cmocka_unit_test(crops_are_anywhere),
        cmocka_unit_test(turns_are_taken),
        cmocka_unit_test(translations_are_anywhere),
        cmocka_unit_test(views_are_told),
        cmocka_unit_test(holes_are_half_a_side_around_any_pixel),
        cmocka_unit_test(boxes_are_of_any_area_and_shape),
        cmocka_unit_test(boxes_fit_in_any_image),
        cmocka_unit_test(draws_stay_as_they_are),
        cmocka_unit_test(amounts_are_understood_or_refused),
        cmocka_unit_test(looks_are_spread),
        cmocka_unit_test(looks_stay_as_they_are),
        cmocka_unit_test(normalizations_have_names),
        cmocka_unit_test(moments_of_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
