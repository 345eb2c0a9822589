// Images as files in memory, for tests of what reads them: written by libpng and libjpeg, in many forms.
#ifndef LS_TESTS_IMAGE_FILES_H
#define LS_TESTS_IMAGE_FILES_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

typedef struct image_file {
    unsigned char *bytes;
    size_t size, room;
} image_file;

static void image_add(image_file *f, const void *bytes, size_t n) {
    if (n == 0) return;
    if (f->size + n > f->room) {
        f->room = 2 * (f->size + n);
        f->bytes = realloc(f->bytes, f->room);
    }
    memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}

static void image_take(png_structp png, png_bytep bytes, size_t n) { image_add(png_get_io_ptr(png), bytes, n); }
static void image_flush(png_structp png) {}

// `type` is one of libpng's, `depth` 1 to 16 bits; pixels as libpng takes them, `row` bytes each. A palette is one of greys.
static inline image_file image_png(int width, int height, int depth, int type, int interlaced, const uint8_t *pixels,
                                   size_t row) {
    image_file f = {NULL, 0, 0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &f, image_take, image_flush);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, type,
                 interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_color palette[256];
    for (int i = 0; i < 256; i++) palette[i] = (png_color){(png_byte)i, (png_byte)(255 - i), 7};
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_PLTE(png, info, palette, 1 << depth);
    png_write_info(png, info);
    int passes = png_set_interlace_handling(png);
    for (int pass = 0; pass < passes; pass++)
        for (int y = 0; y < height; y++) png_write_row(png, pixels + (size_t)y * row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return f;
}

// `channels` 1, 3 or 4 (CMYK). `h` and `v`: so many columns and rows of pixels share a colour.
static inline image_file image_jpeg_sampled(int width, int height, int channels, int progressive, int h, int v,
                                            const uint8_t *pixels) {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    image_file f = {NULL, 0, 0};
    unsigned long size = 0;
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &f.bytes, &size);
    jpeg.image_width = (JDIMENSION)width;
    jpeg.image_height = (JDIMENSION)height;
    jpeg.input_components = channels;
    jpeg.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, 95, TRUE);
    jpeg.comp_info[0].h_samp_factor = h;
    jpeg.comp_info[0].v_samp_factor = v;
    if (progressive) jpeg_simple_progression(&jpeg);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
        JSAMPROW line = (JSAMPROW)pixels + (size_t)jpeg.next_scanline * (size_t)(width * channels);
        jpeg_write_scanlines(&jpeg, &line, 1);
    }
    jpeg_finish_compress(&jpeg);
    jpeg_destroy_compress(&jpeg);
    f.size = f.room = size;
    return f;
}

static inline image_file image_jpeg(int width, int height, int channels, int progressive, const uint8_t *pixels) {
    int by = channels == 3 ? 2 : 1;
    return image_jpeg_sampled(width, height, channels, progressive, by, by, pixels);
}

// The image with Exif data in front that say how a camera was held; `big`: the most significant byte first.
static inline void image_orient(image_file *jpeg, int orientation, int big) {
    const unsigned char value = (unsigned char)orientation;
    const unsigned char little[] = {0xff, 0xe1, 0,    34, 'E', 'x', 'i', 'f', 0, 0, 'I',   'I', 42, 0, 8, 0, 0, 0,
                                    1,    0,    0x12, 1,  3,   0,   1,   0,   0, 0, value, 0,   0,  0, 0, 0, 0, 0};
    const unsigned char large[] = {0xff, 0xe1, 0, 34,   'E', 'x', 'i', 'f', 0, 0, 'M', 'M',   0, 42, 0, 0, 0, 8,
                                   0,    1,    1, 0x12, 0,   3,   0,   0,   0, 1, 0,   value, 0, 0,  0, 0, 0, 0};
    image_file f = {NULL, 0, 0};
    image_add(&f, jpeg->bytes, 2);
    image_add(&f, big ? large : little, sizeof little);
    image_add(&f, jpeg->bytes + 2, jpeg->size - 2);
    free(jpeg->bytes);
    *jpeg = f;
}

static inline int image_save(image_file f, const char *path) {
    FILE *out = fopen(path, "wb");
    int written = out && (f.size == 0 || fwrite(f.bytes, 1, f.size, out) == f.size);
    if (out) written &= fclose(out) == 0;
    free(f.bytes);
    return written;
}

#endif
