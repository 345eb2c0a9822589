// PNG by libpng. Its failures leave by longjmp: what they leave behind hangs off structs of the caller's.
#define _GNU_SOURCE
#include <errno.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "data/image.h"

#define MOST_PIXELS 8256       // in a byte of a PNG: deflate makes 1032 bytes of one, of 8 pixels each
#define MOST_CHUNK  (8 << 20)  // bytes of a chunk that is no pixels

typedef struct reader {
    const ls_image_file *file;
    int64_t at;
    char failure[128];
} reader;

static void fail(png_structp png, png_const_charp why) {
    reader *r = png_get_error_ptr(png);
    snprintf(r->failure, sizeof r->failure, "%s", why);
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp what) {}

static void read_bytes(png_structp png, png_bytep out, size_t count) {
    reader *r = png_get_io_ptr(png);
    if ((int64_t)count > r->file->size - r->at) png_error(png, "it ends too early");
    memcpy(out, r->file->bytes + r->at, count);
    r->at += (int64_t)count;
}

// Whatever it is, as bytes of grey or RGB. Transparency is left out, as there is nothing behind the image.
static void set_form(png_structp png) {
    png_set_expand(png);
    png_set_scale_16(png);
    png_set_strip_alpha(png);
}

// What comes before the pixels. Only there is looked for how the camera was held.
static ls_status read_header(png_structp png, png_infop info, const reader *r, ls_image_header *out) {
    png_read_info(png, info);
    *out = (ls_image_header){png_get_image_height(png, info), png_get_image_width(png, info), 1};
#ifdef PNG_eXIf_SUPPORTED
    png_uint_32 size = 0;
    png_bytep exif = NULL;
    if (png_get_eXIf_1(png, info, &size, &exif) && exif) out->orientation = ls__exif_orientation(exif, size);
#endif
    return ls__image_check_size(r->file, out->height, out->width, MOST_PIXELS);
}

static ls_status read_pixels(png_structp png, png_infop info, const reader *r, const ls_image_wish *wish,
                             ls_image_buffer *buffer, ls_image *out, int *orientation) {
    ls_image_header header;
    LS_TRY(read_header(png, info, r, &header));
    *orientation = header.orientation;
    set_form(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    *out = (ls_image){header.height, header.width, png_get_channels(png, info), NULL};
    int64_t row = out->width * out->channels;
    if ((out->channels != 1 && out->channels != 3) || (int64_t)png_get_rowbytes(png, info) != row)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has %lld channels; images are grey or RGB", r->file->name,
                       (long long)out->channels);
    LS_TRY(ls__image_pixels(r->file, wish, buffer, out));
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < out->height; y++) png_read_row(png, out->pixels + y * row, NULL);
    png_read_end(png, NULL);
    return LS_OK;
}

// What is asked of a file; `out` NULL: its header alone.
typedef struct task {
    const ls_image_wish *wish;
    ls_image_buffer *buffer;
    ls_image_header *header;
    ls_image *out;
    int *orientation;
} task;

static ls_status run(const ls_image_file *file, const task *t) {
    reader r = {.file = file};
    ls_status status;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_read_struct(&png, NULL, NULL);
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %s", file->name);
    }
    if (setjmp(png_jmpbuf(png)) == 0) {
        png_set_read_fn(png, &r, read_bytes);
        png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // ours come with a sentence
        png_set_chunk_malloc_max(png, MOST_CHUNK);
        if (t->out)
            status = read_pixels(png, info, &r, t->wish, t->buffer, t->out, t->orientation);
        else
            status = t->header ? read_header(png, info, &r, t->header) : LS_OK;
    } else {
        status = ls__image_damaged(file, r.failure);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return status;
}

ls_status ls__image_png_header(const ls_image_file *file, ls_image_header *out) {
    const task t = {.header = out};
    return run(file, &t);
}

ls_status ls__image_png(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                        int *shrunk, int *orientation) {
    const task t = {wish, buffer, NULL, out, orientation};
    *shrunk = 1;
    return run(file, &t);
}

// --- writing ---------------------------------------------------------------------------------------------------------

static ls_status write_rows(const char *path, FILE *file, const ls_image *image) {
    reader r = {.file = NULL};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &r, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    ls_status status = LS_OK;
    if (!info) {
        png_destroy_write_struct(&png, NULL);
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %s", path);
    }
    if (setjmp(png_jmpbuf(png)) == 0) {
        png_init_io(png, file);
        png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                     image->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                     PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
        png_write_info(png, info);
        for (int64_t y = 0; y < image->height; y++)
            png_write_row(png, image->pixels + y * image->width * image->channels);
        png_write_end(png, info);
    } else {
        status = LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to", path, r.failure);
    }
    png_destroy_write_struct(&png, &info);
    return status;
}

ls_status ls__image_png_encode(const ls_image *image, char **bytes, size_t *size) {
    *bytes = NULL;
    FILE *file = open_memstream(bytes, size);
    if (!file) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a PNG");
    ls_status status = write_rows("memory", file, image);
    if (fclose(file) != 0 && status == LS_OK) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a PNG");
    if (status == LS_OK) return LS_OK;
    free(*bytes);
    *bytes = NULL;
    return status;
}

ls_status ls_image_write(const char *path, const ls_image *image) {
    ls_output output;
    LS_NEED(path, "path");
    LS_NEED(image, "image");
    if ((image->channels != 1 && image->channels != 3) || image->height < 1 || image->width < 1 || !image->pixels ||
        image->height > LS_IMAGE_MAX_SIDE || image->width > LS_IMAGE_MAX_SIDE)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "an image of %lldx%lldx%lld was to be written to %s: it has 1 or 3 channels and sides of 1 to %d",
            (long long)image->height, (long long)image->width, (long long)image->channels, path, LS_IMAGE_MAX_SIDE);
    if (ls_output_open(path, &output) != 0)
        return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to", path, strerror(errno));
    ls_status status = write_rows(path, output.file, image);
    int closed = ls_output_close(&output, path, status == LS_OK);
    if (status != LS_OK || closed == 0) return status;
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; is the disk full?", path, strerror(errno));
}
