// Fuzzes the reader of images in files. The first byte of an input says what is wanted, grey, colour or as it is; the rest is the file.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_image [--iterations N]   spoil and try
//   fuzz_image --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_image FILE...            try these inputs, to see again what a fuzzer found
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_image: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

// What can be read can be read smaller, with the sizes that its header alone tells.
static void shrink(const uint8_t *bytes, size_t size, int channels, const ls_image *image) {
    ls_image_file file = {.name = "input", .bytes = bytes, .size = (int64_t)size};
    ls_image_buffer buffer = {{NULL}, {0}};
    int64_t height, width;
    ls_image small;
    MUST(ls_image_file_size(&file, &height, &width) == LS_OK);
    MUST(height == image->height && width == image->width);
    for (int by = 2; by <= 8; by *= 2) {
        if (ls_image_file_decode(&file, (ls_image_wish){.channels = channels, .shrink = by}, &buffer, &small) != LS_OK)
            continue;
        MUST(small.height == (height + by - 1) / by && small.width == (width + by - 1) / by);
        MUST(small.channels == image->channels);
    }
    ls_image_buffer_free(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int wanted[] = {0, 1, 3};
    if (size < 1) return 0;
    // An exact copy, so that a sanitizer sees the first byte read past the end.
    uint8_t *copy = malloc(size > 1 ? size - 1 : 1);
    memcpy(copy, data + 1, size - 1);
    int channels = wanted[data[0] % 3];
    ls_image image;
    ls_status status = ls_image_decode("input", copy, (int64_t)size - 1, channels, &image);
    free(copy);
    MUST((status == LS_OK) == (image.pixels != NULL));
    if (status != LS_OK) {
        MUST(status == LS_STATUS_BAD_DATA || status == LS_STATUS_UNSUPPORTED);
        MUST(strstr(ls_error_message(), "input"));
        return 0;
    }
    MUST(image.height > 0 && image.width > 0 && (image.channels == 1 || image.channels == 3));
    MUST(!channels || image.channels == channels);
    shrink(data + 1, size - 1, channels, &image);
    uint64_t sum = 0;
    for (int64_t i = 0; i < image.height * image.width * image.channels; i++) sum += image.pixels[i];
    MUST(sum <= (uint64_t)(255 * image.height * image.width * image.channels));
    ls_image_free(&image);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "../image_files.h"
#include "driver.h"

enum { WIDTH = 11, HEIGHT = 7, FORMS = 8 };

static image_file good(uint32_t form) {
    uint8_t pixels[4 * WIDTH * HEIGHT];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)(i * 37);
    switch (form) {
    case 0: return image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_GRAY, 0, pixels, WIDTH);
    case 1: return image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_RGB_ALPHA, 1, pixels, 4 * WIDTH);
    case 2: return image_png(WIDTH, HEIGHT, 8, PNG_COLOR_TYPE_PALETTE, 0, pixels, WIDTH);
    case 3: return image_jpeg(WIDTH, HEIGHT, 1, 0, pixels);
    case 4: return image_jpeg(WIDTH, HEIGHT, 3, 1, pixels);
    case 5: return image_jpeg(WIDTH, HEIGHT, 4, 0, pixels);
    case 6: {
        image_file f = image_jpeg(WIDTH, HEIGHT, 3, 0, pixels);
        image_orient(&f, 6, 1);
        return f;
    }
    default: return image_jpeg(WIDTH, HEIGHT, 3, 0, pixels);
    }
}

// Chunks of a PNG have sums of their own, which a spoiled one is given anew, most times: else nothing behind them would be seen.
static void mend(image_file *f) {
    for (size_t at = 8; at + 12 <= f->size;) {
        size_t length = (size_t)f->bytes[at] << 24 | (size_t)f->bytes[at + 1] << 16 | (size_t)f->bytes[at + 2] << 8 |
                        (size_t)f->bytes[at + 3];
        if (length > f->size - at - 12) return;
        uint32_t sum = (uint32_t)crc32(0, f->bytes + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++) f->bytes[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

static void spoil(image_file *f) {
    if (f->size == 0) return;
    size_t at = draw((uint32_t)f->size), from = draw((uint32_t)f->size), run = 1 + draw(8);
    switch (draw(5)) {
    case 0: f->bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: f->bytes[at] = (uint8_t)draw(256); break;
    case 2: f->size = at; break;
    case 3:
        if (from + run <= f->size && at + run <= f->size) memmove(f->bytes + at, f->bytes + from, run);
        break;
    default:
        if (at + run > f->size) break;
        memmove(f->bytes + at, f->bytes + at + run, f->size - at - run);
        f->size -= run;
    }
}

static void try_one(void) {
    uint32_t form = draw(FORMS);
    image_file f = good(form), input = {NULL, 0, 0};
    uint8_t wanted = (uint8_t)draw(3);
    for (uint32_t i = 1 + draw(4); i; i--) spoil(&f);
    if (form < 3 && draw(4)) mend(&f);
    image_add(&input, &wanted, 1);
    image_add(&input, f.bytes, f.size);
    LLVMFuzzerTestOneInput(input.bytes, input.size);
    free(input.bytes);
    free(f.bytes);
}

static int write_seeds(const char *folder) {
    for (uint32_t form = 0; form < FORMS; form++) {
        image_file f = good(form);
        char path[512];
        snprintf(path, sizeof path, "%s/seed-%u", folder, form);
        FILE *out = fopen(path, "wb");
        int saved = out && fputc((int)(form % 3), out) != EOF && fwrite(f.bytes, 1, f.size, out) == f.size;
        if (out) saved &= fclose(out) == 0;
        free(f.bytes);
        if (saved) continue;
        fprintf(stderr, "fuzz_image: cannot write %s\n", path);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_image", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
