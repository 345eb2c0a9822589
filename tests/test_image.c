// Images from files: every form of PNG and JPEG that is read, what is converted to what, and a sentence for what is not read.
#include <stdio.h>
#include <unistd.h>

#include "ok.h"

#include "data/image.h"
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

// Ink on paper becomes light: cyan takes red away. What Adobe's programs write is inverted, and says so in a marker.
static void cmyk(void **state) {
    uint8_t ink[4 * PIXELS], inverted[4 * PIXELS], light[3 * PIXELS];
    for (int i = 0; i < PIXELS; i++) {
        const uint8_t of[4] = {(uint8_t)(2 * i), (uint8_t)(200 - i), 40, (uint8_t)(i / 4)};
        for (int c = 0; c < 4; c++) ink[4 * i + c] = of[c], inverted[4 * i + c] = (uint8_t)(255 - of[c]);
        for (int c = 0; c < 3; c++) light[3 * i + c] = (uint8_t)((255 - of[c]) * (255 - of[3]) / 255);
    }
    for (int adobe = 0; adobe < 2; adobe++) {
        image_file f = image_jpeg(WIDTH, HEIGHT, 4, 0, adobe ? inverted : ink);
        // libjpeg writes an Adobe marker (FF EE) for CMYK; without its name nobody takes it for one.
        for (size_t i = 0; !adobe && i + 9 < f.size; i++)
            if (f.bytes[i] == 0xff && f.bytes[i + 1] == 0xee) memcpy(f.bytes + i + 4, "Other", 5);
        ls_image image = decode(&f, 0);
        assert_int_equal(image.channels, 3);
        double sum = 0;
        for (int i = 0; i < 3 * PIXELS; i++) sum += abs(image.pixels[i] - light[i]);
        assert_true(sum / (3 * PIXELS) < 3);
        ls_image_free(&image);
        free(f.bytes);
    }
}

// Where the first pixel of what is to be seen lies in what is stored, and the one on its right: the eight ways of Exif's table.
static void orientations(void **state) {
    static const int corner[8][2] = {{0, 0}, {0, 1}, {1, 1}, {1, 0},
                                     {0, 0}, {1, 0}, {1, 1}, {0, 1}};  // (bottom, right)
    image_file plain = image_jpeg(WIDTH, HEIGHT, 3, 0, colour);
    ls_image stored = decode(&plain, 0);
    for (int orientation = 1; orientation <= 8; orientation++)
        for (int big = 0; big < 2; big++) {
            image_file f = image_jpeg(WIDTH, HEIGHT, 3, 0, colour);
            image_orient(&f, orientation, big);
            ls_image image;
            ls_image_file file = {.name = "file", .bytes = f.bytes, .size = (int64_t)f.size};
            int64_t height, width;
            int bottom = corner[orientation - 1][0], right = corner[orientation - 1][1], swapped = orientation >= 5;
            OK(ls_image_file_size(&file, &height, &width));
            OK(ls_image_decode("file", f.bytes, (int64_t)f.size, 0, &image));
            assert_true(height == image.height && width == image.width);
            assert_true(height == (swapped ? WIDTH : HEIGHT) && width == (swapped ? HEIGHT : WIDTH));
            for (int y = 0; y < height; y++)
                for (int x = 0; x < width; x++) {
                    int v = swapped ? x : y, u = swapped ? y : x;
                    v = bottom ? HEIGHT - 1 - v : v;
                    u = right ? WIDTH - 1 - u : u;
                    assert_memory_equal(image.pixels + 3 * (y * width + x), stored.pixels + 3 * (v * WIDTH + u), 3);
                }
            ls_image_free(&image);
            free(f.bytes);
        }
    ls_image_free(&stored);
    free(plain.bytes);
    // What makes no sense leaves the image as it is.
    for (int wrong_value = 0; wrong_value <= 9; wrong_value += 9) {
        image_file f = image_jpeg(WIDTH, HEIGHT, 3, 0, colour);
        image_orient(&f, wrong_value, 0);
        ls_image image = decode(&f, 0);
        ls_image_free(&image);
        free(f.bytes);
    }
}

// A PNG becomes the means of squares, at the edges of what there is; a JPEG is about what its pixels' means would be, in as many.
static void shrunk(void **state) {
    image_file p = image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB, 0, colour, 3 * WIDTH);
    image_file j = image_jpeg(WIDTH, HEIGHT, 3, 0, colour);
    ls_image_buffer buffer = {{NULL}, {0}};
    for (int by = 1; by <= 8; by *= 2) {
        ls_image_file files[] = {{.name = "png", .bytes = p.bytes, .size = (int64_t)p.size},
                                 {.name = "jpeg", .bytes = j.bytes, .size = (int64_t)j.size}};
        for (int k = 0; k < 2; k++) {
            ls_image image;
            double off = 0;
            OK(ls_image_file_decode(&files[k], (ls_image_wish){.channels = 3, .shrink = by}, &buffer, &image));
            assert_true(image.height == (HEIGHT + by - 1) / by && image.width == (WIDTH + by - 1) / by);
            for (int y = 0; y < image.height; y++)
                for (int x = 0; x < image.width; x++)
                    for (int c = 0; c < 3; c++) {
                        int sum = 0, count = 0;
                        for (int v = by * y; v < by * (y + 1) && v < HEIGHT; v++)
                            for (int u = by * x; u < by * (x + 1) && u < WIDTH; u++, count++)
                                sum += colour[3 * (v * WIDTH + u) + c];
                        int mean = (sum + count / 2) / count, is = image.pixels[3 * (y * image.width + x) + c];
                        if (k == 0) assert_int_equal(is, mean);
                        off += abs(is - mean);
                    }
            assert_true(off / (double)(image.height * image.width * 3) < 16);
        }
    }
    ls_image_buffer_free(&buffer);
    assert_int_equal(ls_image_shrink(100, 100, 51, 20), 1);
    assert_int_equal(ls_image_shrink(100, 100, 50, 50), 2);
    assert_int_equal(ls_image_shrink(100, 1000, 25, 25), 4);
    assert_int_equal(ls_image_shrink(10000, 10000, 1, 1), 8);
    // ls_image_read_for does so with a file.
    char path[] = "/tmp/lockstep-image-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, p.bytes, p.size) == (ssize_t)p.size && close(fd) == 0);
    ls_image image;
    OK(ls_image_read_for(path, 1, 4, 6, &image));
    assert_true(image.height == 5 && image.width == 7 && image.channels == 1);
    ls_image_free(&image);
    unlink(path);
    free(p.bytes);
    free(j.bytes);
}

// --- parts of images -------------------------------------------------------------------------------------------------

enum { WIDE = 83, HIGH = 61 };

// What is asked for is what the whole image has there.
static void same_part(const image_file *f, const ls_image *whole, int by, ls_image_part part) {
    static ls_image_buffer buffer;
    ls_image_file file = {.name = "part", .bytes = f->bytes, .size = (int64_t)f->size};
    ls_image image;
    OK(ls_image_file_decode(&file, (ls_image_wish){.channels = 3, .shrink = by, .part = part}, &buffer, &image));
    assert_true(image.height == whole->height && image.width == whole->width);
    for (int64_t y = part.top; y < part.bottom; y++) {
        int64_t at = 3 * (y * image.width + part.left);
        if (memcmp(image.pixels + at, whole->pixels + at, (size_t)(3 * (part.right - part.left))) != 0)
            fail_msg("row %d, columns %d to %d, shrunk by %d", (int)y, (int)part.left, (int)part.right, by);
    }
    ls_image_buffer_free(&buffer);
}

static void all_parts(const image_file *f) {
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_image_file file = {.name = "whole", .bytes = f->bytes, .size = (int64_t)f->size};
    for (int by = 1; by <= 8; by *= 2) {
        ls_image whole;
        OK(ls_image_file_decode(&file, (ls_image_wish){.channels = 3, .shrink = by}, &buffer, &whole));
        int64_t h = whole.height, w = whole.width;
        for (int64_t top = 0; top < h; top += 1 + top / 20) {
            int64_t left = top * 7 % w, bottom = top + 1 + top * 13 % (h - top),
                    right = left + 1 + top * 5 % (w - left);
            same_part(f, &whole, by, (ls_image_part){top, left, bottom, right});
            same_part(f, &whole, by, (ls_image_part){top, 0, h, w});
            same_part(f, &whole, by, (ls_image_part){0, left, top + 1, w});
        }
        for (int64_t left = 0; left < w; left++)
            same_part(f, &whole, by, (ls_image_part){h / 3, left, h / 3 + 1, left + 1});
    }
    ls_image_buffer_free(&buffer);
}

static void parts(void **state) {
    static const int sampled[][2] = {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}};
    uint8_t *pixels = malloc(4 * WIDE * HIGH);
    uint32_t x = 1;
    for (int i = 0; i < 4 * WIDE * HIGH; i++) pixels[i] = (uint8_t)((x = 1664525 * x + 1013904223) >> 24);
    for (int s = 0; s < 5; s++)
        for (int progressive = 0; progressive < 2; progressive++) {
            image_file f = image_jpeg_sampled(WIDE, HIGH, 3, progressive, sampled[s][0], sampled[s][1], pixels);
            all_parts(&f);
            free(f.bytes);
        }
    image_file others[] = {image_jpeg(WIDE, HIGH, 1, 0, pixels), image_jpeg(WIDE, HIGH, 4, 0, pixels),
                           image_png(WIDE, HIGH, 8, PNG_COLOR_TYPE_RGB, 0, pixels, 3 * WIDE)};
    for (int k = 0; k < 3; k++) {
        all_parts(&others[k]);
        free(others[k].bytes);
    }
    // Cut off below what is asked for.
    image_file f = image_jpeg(WIDE, HIGH, 3, 0, pixels);
    ls_image_file file = {.name = "cut", .bytes = f.bytes, .size = (int64_t)f.size - 2};
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_image image;
    ls_image_wish wish = {.channels = 3, .shrink = 1, .part = {0, 0, 4, 4}};
    assert_int_equal(ls_image_file_decode(&file, wish, &buffer, &image), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "cut is damaged: it ends before its end is marked"));
    ls_image_buffer_free(&buffer);
    free(f.bytes);
    free(pixels);
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
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(png_forms),    cmocka_unit_test(jpeg_forms), cmocka_unit_test(cmyk),
        cmocka_unit_test(orientations), cmocka_unit_test(shrunk),     cmocka_unit_test(parts),
        cmocka_unit_test(channels),     cmocka_unit_test(cut_off),    cmocka_unit_test(giants),
        cmocka_unit_test(other_files),  cmocka_unit_test(prepared)};
    return cmocka_run_group_tests(tests, set_up, NULL);
}
