#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/prepare.h"
#include "data/rewrite.h"

enum { QUALITY = 95 };  // of JPEG files that become smaller, where none is said

// The image as a file: pixels of memory are one that is not encoded.
static ls_image_file file_of(const ls_source *source, int field, const ls_sample *sample) {
    ls_shape shape = source->field[field].shape;
    if (ls_field_is_picture(&source->field[field])) return *(const ls_picture *)sample->field[field];
    return (ls_image_file){.name = source->name,
                           .bytes = sample->field[field],
                           .size = ls_shape_count(shape),
                           .raw = {shape.dim[0], shape.dim[1], (int)shape.dim[2], 0, 0}};
}

static int is_jpeg(const ls_image_file *file) {
    return !file->raw.height && file->size > 2 && memcmp(file->bytes, "\xff\xd8\xff", 3) == 0;
}

// Values 0 to 255, rounded to nearest.
static void to_bytes(const float *values, int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) out[i] = (uint8_t)(values[i] + 0.5f);
}

// Both sides, the shorter one being `side`.
static void shorten(int64_t side, int64_t *height, int64_t *width) {
    int64_t h = *height, w = *width;
    *height = h <= w ? side : h * side / w;
    *width = h <= w ? w * side / h : side;
}

static ls_status resize(const ls_image_file *file, int channels, int64_t height, int64_t width, ls_image *out) {
    static const float none[3] = {0, 0, 0}, one[3] = {1, 1, 1};
    ls_recipe recipe = {.height = height, .width = width, .offset = none, .divisor = one};
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_preparer *preparer = NULL;
    float *values = NULL;
    int64_t count = height * width * channels;
    *out = (ls_image){height, width, channels, NULL};
    ls_status status = ls_preparer_create(&recipe, LS_SHAPE(0, 0, channels), LS_DTYPE_F32, &preparer);
    if (status == LS_OK) status = ls_calloc(count, sizeof *values, &values);
    if (status == LS_OK) status = ls_calloc(count, 1, &out->pixels);
    if (status == LS_OK) status = ls_preparer_picture(preparer, file, &buffer, 0, 0, values);
    if (status == LS_OK) to_bytes(values, count, out->pixels);
    ls_preparer_destroy(&preparer);
    ls_image_buffer_free(&buffer);
    free(values);
    if (status != LS_OK) ls_image_free(out);
    return status;
}

// The image in pixels; *same 1: its file is already what is wanted, and it is not decoded.
static ls_status find_pixels(const ls_image_file *file, int channels, const ls_convert_config *c, ls_image *out,
                             int *same) {
    int64_t height, width;
    int encoded = !file->raw.height && !c->quality && !c->pixels;
    *same = encoded && !c->resize && !c->image_size;
    if (*same) return LS_OK;
    if (!c->resize && !c->image_size) return ls_image_file_load(file, channels, out);
    LS_TRY(ls_image_file_size(file, &height, &width));
    int fits = c->image_size ? height == c->image_size && width == c->image_size
                             : (height < width ? height : width) == c->resize;
    *same = encoded && fits;
    if (*same) return LS_OK;
    if (fits) return ls_image_file_load(file, channels, out);
    if (c->image_size)
        height = width = c->image_size;
    else
        shorten(c->resize, &height, &width);
    if (height > LS_IMAGE_MAX_SIDE || width > LS_IMAGE_MAX_SIDE)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s would have a side of more than %d pixels: it is too long for --resize",
                       file->name, LS_IMAGE_MAX_SIDE);
    return resize(file, channels, height, width, out);
}

static ls_status keep(ls_ready *r, const void *bytes, int64_t size) {
    LS_TRY(ls_calloc(size + 1, 1, &r->memory));
    memcpy(r->memory, bytes, (size_t)size);
    r->written.image = r->memory;
    r->written.size = size;
    return LS_OK;
}

static ls_status encode(const ls_image_file *file, const ls_convert_config *c, ls_image *image, ls_ready *r) {
    ls_written *w = &r->written;
    char *bytes = NULL;
    size_t size = 0;
    int jpeg = c->quality || is_jpeg(file);
    w->height = image->height;
    w->width = image->width;
    w->channels = (int)image->channels;
    if (c->pixels) {
        w->image = r->memory = image->pixels;
        w->size = image->height * image->width * image->channels;
        image->pixels = NULL;
        return LS_OK;
    }
    LS_TRY(jpeg ? ls__image_jpeg_encode(image, c->quality ? c->quality : QUALITY, &bytes, &size)
                : ls__image_png_encode(image, &bytes, &size));
    w->image = r->memory = bytes;
    w->size = (int64_t)size;
    w->ending = jpeg ? "jpg" : "png";
    return LS_OK;
}

static ls_status take_image(const ls_image_file *file, int channels, const ls_convert_config *c, ls_ready *r) {
    ls_image image = {.pixels = NULL};
    int same;
    LS_TRY(find_pixels(file, channels, c, &image, &same));
    r->written.ending = is_jpeg(file) ? "jpg" : "png";
    ls_status status = same ? keep(r, file->bytes, file->size) : LS_OK;
    if (!same) {
        r->written.ending = NULL;
        status = encode(file, c, &image, r);
    }
    ls_image_free(&image);
    return status;
}

static ls_status make(const ls_source *s, int64_t i, const ls_convert_config *c, void *scratch, ls_ready *r) {
    int image = ls_fields_find(s->field, s->field_count, "image"),
        label = ls_fields_find(s->field, s->field_count, "label");
    ls_sample sample;
    LS_TRY(ls_source_read(s, i, scratch, &sample));
    r->written.number = i;
    r->written.source = ls_source_number(s, i);
    r->written.class = s->field[label].dtype == LS_DTYPE_U8 ? *(const uint8_t *)sample.field[label]
                                                            : *(const int32_t *)sample.field[label];
    ls_image_file file = file_of(s, image, &sample);
    ls_status status = take_image(&file, (int)s->field[image].shape.dim[2], c, r);
    return status == LS_OK ? LS_OK : ls__source_failed(s, i, status);
}

void ls__rewrite_ready(const ls_source *source, int64_t i, const ls_convert_config *config, void *scratch,
                       ls_ready *out) {
    *out = (ls_ready){.status = LS_OK};
    out->status = make(source, i, config, scratch, out);
    if (out->status != LS_OK) snprintf(out->message, sizeof out->message, "%s", ls_error_message());
}
