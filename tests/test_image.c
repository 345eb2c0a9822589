// Images from files: every form of PNG and JPEG that is read, what is converted to what, and a sentence for what is not read.
#include <stdio.h>

#include "ok.h"

#include "data/prepare.h"
#include "image_files.h"

enum { WIDTH = 13, HEIGHT = 9, PIXELS = WIDTH * HEIGHT };

static uint8_t grey[PIXELS], colour[3 * PIXELS], alpha[4 * PIXELS], wide[6 * PIXELS];

static int set_up(void **state) {
    for (int i = 0; i < PIXELS; i++) {
        int x = i % WIDTH, y = i / WIDTH;
        grey[i] = (uint8_t)(7 * x + 11 * y);
        for (int c = 0; c < 3; c++) {
            colour[3 * i + c] = (uint8_t)(9 * x + 5 * y * (c + 1));
            alpha[4 * i + c] = colour[3 * i + c];
            wide[6 * i + 2 * c] = colour[3 * i + c];
            wide[6 * i + 2 * c + 1] = (uint8_t)(colour[3 * i + c]);  // v * 257: exactly v
        }
        alpha[4 * i + 3] = (uint8_t)(i * 3);
    }
    return 0;
}

static ls_image decode(const image_file *f, int channels) {
    ls_image image;
    OK(ls_image_decode("file", f->bytes, (int64_t)f->size, channels, &image));
    assert_true(image.width == WIDTH && image.height == HEIGHT);
    assert_true(!channels || image.channels == channels);
    return image;
}

static void is(image_file f, int channels, const uint8_t *pixels) {
    ls_image image = decode(&f, 0);
    assert_int_equal(image.channels, channels);
    assert_memory_equal(image.pixels, pixels, (size_t)(PIXELS * channels));
    ls_image_free(&image);
    ls_image_free(&image);
    free(f.bytes);
}

static void png_forms(void **state) {
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        is(image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_GRAY, interlaced, grey, WIDTH), 1, grey);
        is(image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, interlaced, colour, 3 * WIDTH), 3, colour);
        is(image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB_ALPHA, interlaced, alpha, 4 * WIDTH), 3, colour);
        is(image_png(WIDTH, HEIGHT, 16, PNG_COLOR_TYPE_RGB, interlaced, wide, 6 * WIDTH), 3, colour);
    }
    uint8_t expected[3 * PIXELS], bits[2 * HEIGHT], black[PIXELS];
    for (int i = 0; i < PIXELS; i++) {
        expected[3 * i] = grey[i];
        expected[3 * i + 1] = (uint8_t)(255 - grey[i]);
        expected[3 * i + 2] = 7;
        black[i] = i % WIDTH % 2 ? 255 : 0;
    }
    is(image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_PALETTE, 0, grey, WIDTH), 3, expected);
    memset(bits, 0x55, sizeof bits);
    is(image_png(WIDTH, HEIGHT, 1, PNG_COLOR_TYPE_GRAY, 0, bits, 2), 1, black);
}

static void jpeg_forms(void **state) {
    for (int progressive = 0; progressive < 2; progressive++)
        for (int channels = 1; channels <= 3; channels += 2) {
            const uint8_t *pixels = channels == 1 ? grey : colour;
            image_file f = image_jpeg(WIDTH, HEIGHT, channels, progressive, pixels);
            ls_image image = decode(&f, 0);
            assert_int_equal(image.channels, channels);
            double sum = 0;
            for (int i = 0; i < PIXELS * channels; i++) sum += abs(image.pixels[i] - pixels[i]);
            assert_true(sum / (PIXELS * channels) < 16);
            ls_image_free(&image);
            free(f.bytes);
        }
}

static void channels(void **state) {
    image_file g = image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_GRAY, 0, grey, WIDTH);
    image_file c = image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, 0, colour, 3 * WIDTH);
    ls_image as_colour = decode(&g, 3), as_grey = decode(&c, 1);
    for (int i = 0; i < PIXELS; i++) {
        for (int k = 0; k < 3; k++) assert_int_equal(as_colour.pixels[3 * i + k], grey[i]);
        const uint8_t *p = colour + 3 * i;
        assert_int_equal(as_grey.pixels[i], (int)(0.299 * p[0] + 0.587 * p[1] + 0.114 * p[2] + 0.5 + 1e-9));
    }
    ls_image_free(&as_colour);
    ls_image_free(&as_grey);
    free(g.bytes);
    free(c.bytes);
}

static void refused(const void *bytes, size_t size, const char *sentence) {
    ls_image image;
    // An exact copy, so that a sanitizer sees the first byte read past the end.
    unsigned char *copy = malloc(size ? size : 1);
    memcpy(copy, bytes, size);
    ls_status status = ls_image_decode("the file", copy, (int64_t)size, 0, &image);
    free(copy);
    assert_true(status != LS_OK && !image.pixels);
    if (!strstr(ls_error_message(), sentence) || !strstr(ls_error_message(), "the file"))
        fail_msg("\"%s\" is not in: %s", sentence, ls_error_message());
}

// Wherever a file ends too early, it is refused; the last bytes of a PNG are a chunk without content.
static void cut_off(void **state) {
    image_file p = image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, 0, colour, 3 * WIDTH);
    image_file j = image_jpeg(WIDTH, HEIGHT, 3, 0, colour);
    for (size_t n = 8; n < p.size; n++) refused(p.bytes, n, "damaged");
    for (size_t n = 3; n + 2 < j.size; n++) refused(j.bytes, n, "damaged");
    p.bytes[p.size / 2] ^= 16;
    refused(p.bytes, p.size, "damaged");
    free(p.bytes);
    free(j.bytes);
}

static void put32(unsigned char *at, uint32_t x) {
    for (int i = 0; i < 4; i++) at[i] = (unsigned char)(x >> (24 - 8 * i));
}

// Headers that tell of giants: refused before there is memory for them.
static void giants(void **state) {
    static const struct {
        uint32_t width, height;
        const char *sentence;
    } sizes[] = {{0x7fffffff, 0x7fffffff, "said to have"},
                 {60000, 60000, "million are read"},
                 {70000, 1, "million are read"},
                 {8000, 8000, "can hold"},
                 {0, 5, "damaged"}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        image_file p = image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, 0, colour, 3 * WIDTH);
        put32(p.bytes + 16, sizes[i].width);
        put32(p.bytes + 20, sizes[i].height);
        put32(p.bytes + 29, (uint32_t)crc32(0, p.bytes + 12, 17));
        refused(p.bytes, p.size, sizes[i].sentence);
        free(p.bytes);
    }
    image_file j = image_jpeg(WIDTH, HEIGHT, 1, 0, grey);
    for (size_t n = 2; n + 9 < j.size; n++)
        if (j.bytes[n] == 0xff && j.bytes[n + 1] == 0xc0) {
            memcpy(j.bytes + n + 5, "\xea\x60\xea\x60", 4);
            break;
        }
    refused(j.bytes, j.size, "60000 x 60000 pixels");
    free(j.bytes);
}

static void other_files(void **state) {
    refused("", 0, "is empty");
    refused("GIF89a......", 12, "is a GIF image");
    refused("BM..........", 12, "is a BMP image");
    refused("hello, world", 12, "is no PNG or JPEG image");
    refused("\x89PNG", 4, "is no PNG or JPEG image");
    image_file f = image_jpeg(WIDTH, HEIGHT, 4, 0, alpha);
    refused(f.bytes, f.size, "convert it to RGB");
    free(f.bytes);
    ls_image image;
    assert_int_equal(ls_image_read("/nowhere/at-all.png", 1, &image), LS_STATUS_NOT_FOUND);
    assert_non_null(strstr(ls_error_message(), "/nowhere/at-all.png"));
    assert_int_equal(ls_image_read("/", 1, &image), LS_STATUS_IO);
    assert_int_equal(ls_image_decode("f", "x", 1, 2, &image), LS_STATUS_UNSUPPORTED);
}

// What a network sees of an image in a file is what it sees of one of a dataset.
static void prepared(void **state) {
    static const char *const names[] = {"unit", "symmetric", "dataset"};
    const double mean[] = {0.1, 0.5, 0.25}, deviation[] = {0.5, 0.25, 0};
    float offset[3], divisor[3], ours[3 * 17 * 17], theirs[3 * 17 * 17];
    ls_image image = {HEIGHT, WIDTH, 3, colour};
    ls_train_config config;
    ls_train_config_init(&config);
    for (int n = 0; n < 3; n++)
        for (int side = 5; side <= 17; side += 12) {
            ls_preparer *p;
            for (int c = 0; c < 3; c++) {
                offset[c] = n == 0 ? 0 : n == 1 ? 127.5f : (float)(255 * mean[c]);
                divisor[c] = n == 0 ? 255 : n == 1 ? 127.5f : c == 2 ? 255 : (float)(255 * deviation[c]);
            }
            ls_recipe recipe = {.height = side, .width = side, .offset = offset, .divisor = divisor};
            OK(ls_preparer_create(&recipe, LS_SHAPE(HEIGHT, WIDTH, 3), LS_DTYPE_F32, &p));
            ls_preparer_run(p, colour, 0, 0, theirs);
            ls_preparer_destroy(&p);
            config.normalize = names[n];
            OK(ls_train_prepare_image(&config, &image, LS_SHAPE(side, side, 3), mean, deviation, ours));
            assert_memory_equal(ours, theirs, (size_t)(3 * side * side) * sizeof *ours);
        }
    assert_int_equal(ls_train_prepare_image(&config, &image, LS_SHAPE(5, 5, 3), NULL, NULL, ours),
                     LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_train_prepare_image(&config, &image, LS_SHAPE(5, 5, 1), mean, deviation, ours),
                     LS_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(png_forms), cmocka_unit_test(jpeg_forms),
                                       cmocka_unit_test(channels),  cmocka_unit_test(cut_off),
                                       cmocka_unit_test(giants),    cmocka_unit_test(other_files),
                                       cmocka_unit_test(prepared)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
