#include "data/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "data/pixels.h"

// --- what formats share ----------------------------------------------------------------------------------------------

ls_status ls__image_damaged(const ls_image_file *file, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: %s; copy or make it again", file->name, why);
}

ls_status ls__image_check_size(const ls_image_file *file, int64_t height, int64_t width, int64_t most) {
    if (height < 1 || width < 1) return ls__image_damaged(file, "it is said to have no pixels");
    if (height > LS_IMAGE_MAX_SIDE || width > LS_IMAGE_MAX_SIDE || height * width > LS_IMAGE_MAX_PIXELS)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is said to have %lld x %lld pixels; up to %lld million are read: make it smaller",
                       file->name, (long long)width, (long long)height, (long long)(LS_IMAGE_MAX_PIXELS / 1000000));
    if (height * width / most <= file->size) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s is damaged: it is said to have %lld x %lld pixels, more than its %lld bytes can hold",
                   file->name, (long long)width, (long long)height, (long long)file->size);
}

// --- memory ----------------------------------------------------------------------------------------------------------

static ls_status room(const char *name, ls_image_buffer *b, int which, int64_t bytes) {
    if (b->bytes[which] >= bytes) return LS_OK;
    free(b->memory[which]);
    b->bytes[which] = 0;
    b->memory[which] = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!b->memory[which])
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the %lld bytes of pixels of %s", (long long)bytes,
                       name);
    b->bytes[which] = bytes;
    return LS_OK;
}

ls_status ls__image_pixels(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer,
                           ls_image *image) {
    int64_t channels = image->channels > wish->channels ? image->channels : wish->channels;
    LS_TRY(room(file->name, buffer, 0, image->height * image->width * channels));
    image->pixels = buffer->memory[0];
    return LS_OK;
}

void ls_image_buffer_free(ls_image_buffer *b) {
    free(b->memory[0]);
    free(b->memory[1]);
    *b = (ls_image_buffer){{NULL}, {0}};
}

// What was in the second memory is the image from now on.
static void swap(ls_image_buffer *b, ls_image *image) {
    uint8_t *memory = b->memory[0];
    int64_t bytes = b->bytes[0];
    b->memory[0] = b->memory[1], b->bytes[0] = b->bytes[1];
    b->memory[1] = memory, b->bytes[1] = bytes;
    image->pixels = b->memory[0];
}

// --- size ------------------------------------------------------------------------------------------------------------

int ls_image_shrink(int64_t height, int64_t width, int64_t wanted_height, int64_t wanted_width) {
    int shrink = 1;
    while (shrink < LS_IMAGE_MOST_SHRUNK && height >= 2 * shrink * wanted_height && width >= 2 * shrink * wanted_width)
        shrink *= 2;
    return shrink;
}

// Means of squares of `by` pixels; at the right and the lower edge, of what there is. In place: what is written was read.
static void shrink(ls_image *image, int by) {
    int64_t height = (image->height + by - 1) / by, width = (image->width + by - 1) / by, channels = image->channels;
    uint8_t *to = image->pixels;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < channels; c++) {
                int64_t bottom = by * (y + 1) < image->height ? by * (y + 1) : image->height;
                int64_t right = by * (x + 1) < image->width ? by * (x + 1) : image->width;
                int64_t count = (bottom - by * y) * (right - by * x), sum = 0;
                for (int64_t v = by * y; v < bottom; v++)
                    for (int64_t u = by * x; u < right; u++)
                        sum += image->pixels[(v * image->width + u) * channels + c];
                *to++ = (uint8_t)((sum + count / 2) / count);
            }
    image->height = height;
    image->width = width;
}

// --- how a camera was held -------------------------------------------------------------------------------------------

// Where the pixel at (y, x) of the turned image lies in the stored one of h x w pixels. From 5 on sides are exchanged.
static int64_t stored_at(int orientation, int64_t y, int64_t x, int64_t h, int64_t w) {
    switch (orientation) {
    case 2: return y * w + (w - 1 - x);
    case 3: return (h - 1 - y) * w + (w - 1 - x);
    case 4: return (h - 1 - y) * w + x;
    case 5: return x * w + y;
    case 6: return (h - 1 - x) * w + y;
    case 7: return (h - 1 - x) * w + (w - 1 - y);
    case 8: return x * w + (w - 1 - y);
    default: return y * w + x;
    }
}

static ls_status turn(const ls_image_file *file, int orientation, int channels, ls_image_buffer *buffer,
                      ls_image *image) {
    int64_t h = image->height, w = image->width, c = image->channels;
    if (orientation == 1) return LS_OK;
    LS_TRY(room(file->name, buffer, 1, h * w * (c > channels ? c : channels)));
    if (orientation >= 5) image->height = w, image->width = h;
    uint8_t *to = buffer->memory[1];
    for (int64_t y = 0; y < image->height; y++)
        for (int64_t x = 0; x < image->width; x++, to += c)
            memcpy(to, image->pixels + stored_at(orientation, y, x, h, w) * c, (size_t)c);
    swap(buffer, image);
    return LS_OK;
}

// --- channels --------------------------------------------------------------------------------------------------------

// Brightness as ITU-R BT.601 weighs it, in whole numbers, so that it is the same everywhere.
static void to_grey(ls_image *image) {
    int64_t pixels = image->height * image->width;
    for (int64_t i = 0; i < pixels; i++) {
        const uint8_t *p = image->pixels + 3 * i;
        image->pixels[i] = (uint8_t)((299 * p[0] + 587 * p[1] + 114 * p[2] + 500) / 1000);
    }
    image->channels = 1;
}

// From the end on, so that no pixel is overwritten before it was read; there is room for three channels.
static void to_colour(ls_image *image) {
    for (int64_t i = image->height * image->width - 1; i >= 0; i--) memset(image->pixels + 3 * i, image->pixels[i], 3);
    image->channels = 3;
}

static void convert(ls_image *image, int channels) {
    if (!channels || image->channels == channels) return;
    if (channels == 3)
        to_colour(image);
    else
        to_grey(image);
}

// --- formats ---------------------------------------------------------------------------------------------------------

typedef struct kind {
    const char *name, *signature;
    int length;
    ls_status (*header)(const ls_image_file *file, ls_image_header *out);  // NULL: known, but not read
    ls_status (*decode)(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                        int *shrunk, int *orientation);
} kind;

static const kind *kind_of(const ls_image_file *file) {
    static const kind raw = {"pixels", "", 0, ls__image_raw_header, ls__image_raw};
    static const kind kinds[] = {
        {"a PNG", "\x89PNG\r\n\x1a\n", 8, ls__image_png_header, ls__image_png},
        {"a JPEG", "\xff\xd8\xff", 3, ls__image_jpeg_header, ls__image_jpeg},
        {"a GIF", "GIF8", 4, NULL, NULL},
        {"a BMP", "BM", 2, NULL, NULL},
        {"a TIFF", "II*\0", 4, NULL, NULL},
        {"a TIFF", "MM\0*", 4, NULL, NULL},
        {"a WebP", "RIFF", 4, NULL, NULL},
    };
    if (file->raw.height) return &raw;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (file->size >= kinds[i].length && memcmp(file->bytes, kinds[i].signature, (size_t)kinds[i].length) == 0)
            return &kinds[i];
    return NULL;
}

static ls_status find_kind(const ls_image_file *file, const kind **out) {
    const kind *k = *out = kind_of(file);
    if (file->size == 0) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is empty; give a PNG or JPEG image", file->name);
    if (!k) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no PNG or JPEG image, by its first bytes", file->name);
    if (k->decode) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is %s image, by its first bytes: PNG and JPEG are read; convert it",
                   file->name, k->name);
}

// With its bytes, where they were left out.
static ls_status fetch(const ls_image_file *file, ls_image_file *out) {
    *out = *file;
    return file->bytes || !file->kept.fetch ? LS_OK : file->kept.fetch(&file->kept, out);
}

ls_status ls_image_file_size(const ls_image_file *file, int64_t *height, int64_t *width) {
    const kind *k;
    ls_image_header header;
    ls_image_file whole;
    ls_pixels_entry there;
    if (file->kept.pixels && ls_pixels_get(file->kept.pixels, file->kept.number, -1, &there)) {
        *height = there.height;
        *width = there.width;
        return LS_OK;
    }
    LS_TRY(fetch(file, &whole));
    LS_TRY(find_kind(&whole, &k));
    LS_TRY(k->header(&whole, &header));
    *height = header.orientation >= 5 ? header.width : header.height;
    *width = header.orientation >= 5 ? header.height : header.width;
    return LS_OK;
}

static ls_status decode_bytes(const ls_image_file *file, ls_image_wish wish, ls_image_buffer *buffer, ls_image *out) {
    const kind *k;
    int shrunk = 1, orientation = 1;
    LS_TRY(find_kind(file, &k));
    LS_TRY(k->decode(file, &wish, buffer, out, &shrunk, &orientation));
    if (shrunk != wish.shrink) shrink(out, wish.shrink);
    LS_TRY(turn(file, orientation, wish.channels, buffer, out));
    convert(out, wish.channels);
    return LS_OK;
}

static int level_of(int shrink) { return shrink == 8 ? 3 : shrink == 4 ? 2 : shrink == 2 ? 1 : 0; }

static int64_t shrunk_side(int64_t side, int by) { return (side + by - 1) / by; }

// All of the image, to be kept; 0: it is not, as it is broken where nobody may have looked, or there is no room.
static int decode_to_keep(const ls_image_file *file, ls_image_wish wish, ls_image_buffer *buffer, ls_image *out) {
    const ls_image_kept *k = &file->kept;
    int level = level_of(wish.shrink);
    ls_pixels_entry place;
    int64_t height, width;
    if (!ls_pixels_wanted(k->pixels, k->number, level)) return 0;
    wish.part = (ls_image_part){0, 0, 0, 0};
    if (ls_image_file_size(file, &height, &width) != LS_OK || decode_bytes(file, wish, buffer, out) != LS_OK) {
        ls_pixels_refuse(k->pixels, k->number, level);
        return 0;
    }
    int64_t bytes = out->height * out->width * out->channels;
    if (!ls_pixels_begin(k->pixels, k->number, level, bytes, &place)) return 1;
    memcpy(place.bytes, out->pixels, (size_t)bytes);
    place.height = height;
    place.width = width;
    ls_pixels_end(k->pixels, k->number, level, &place);
    return 1;
}

ls_status ls_image_file_decode(const ls_image_file *file, ls_image_wish wish, ls_image_buffer *buffer, ls_image *out) {
    const ls_image_kept *k = &file->kept;
    int keeps = k->pixels && wish.channels == k->channels;
    ls_image_file whole;
    ls_pixels_entry there;
    if (keeps && ls_pixels_get(k->pixels, k->number, level_of(wish.shrink), &there)) {
        *out = (ls_image){shrunk_side(there.height, wish.shrink), shrunk_side(there.width, wish.shrink), k->channels,
                          there.bytes};
        return LS_OK;
    }
    LS_TRY(fetch(file, &whole));
    if (keeps && decode_to_keep(&whole, wish, buffer, out)) return LS_OK;
    return decode_bytes(&whole, wish, buffer, out);
}

// All of an image, or as little of it as still has the pixels that are wanted; in memory of its own.
static ls_status decode(const ls_image_file *given, int channels, int64_t height, int64_t width, ls_image *out) {
    ls_image_file mine, *file = &mine;
    ls_image_wish wish = {.channels = channels, .shrink = 1};
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_status status = LS_OK;
    int64_t h, w;
    if (channels != 0 && channels != 1 && channels != 3)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: images have 1 channel, grey, or 3, and not %d", given->name,
                       channels);
    LS_TRY(fetch(given, &mine));
    mine.kept.pixels = NULL;  // the image is the caller's
    if (height > 0 && width > 0) {
        LS_TRY(ls_image_file_size(file, &h, &w));
        wish.shrink = ls_image_shrink(h, w, height, width);
    }
    status = ls_image_file_decode(file, wish, &buffer, out);
    if (status == LS_OK) buffer.memory[0] = NULL;  // it is the image's
    ls_image_buffer_free(&buffer);
    if (status == LS_OK) return LS_OK;
    *out = (ls_image){.pixels = NULL};
    return ls__fail_passed(status, __FILE__, __LINE__);
}

ls_status ls_image_decode(const char *name, const void *bytes, int64_t size, int channels, ls_image *out) {
    LS_NEED(out, "out");
    *out = (ls_image){.pixels = NULL};
    LS_NEED(name, "name");
    LS_NEED(bytes, "bytes");
    return decode(&(ls_image_file){.name = name, .bytes = bytes, .size = size}, channels, 0, 0, out);
}

ls_status ls_image_file_load(const ls_image_file *file, int channels, ls_image *out) {
    return decode(file, channels, 0, 0, out);
}

void ls_image_free(ls_image *image) {
    if (!image) return;
    free(image->pixels);
    *image = (ls_image){.pixels = NULL};
}

// --- files -----------------------------------------------------------------------------------------------------------

// All of a stream. The caller frees *bytes.
static ls_status read_all(FILE *file, const char *path, char **bytes, int64_t *size) {
    int64_t room = 1 << 16;
    char *all = malloc((size_t)room), *more = all;
    *size = 0;
    while (more) {
        *size += (int64_t)fread(all + *size, 1, (size_t)(room - *size), file);
        if (*size < room || room > LS_IMAGE_MAX_FILE) break;
        room *= 2;
        more = realloc(all, (size_t)room);
        if (more) all = more;
    }
    ls_status status = LS_OK;
    if (!more)
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %s", path);
    else if (ferror(file))
        status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    else if (*size > LS_IMAGE_MAX_FILE)
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s has more than the %lld MB that an image may have", path,
                         (long long)(LS_IMAGE_MAX_FILE >> 20));
    *bytes = status == LS_OK ? all : NULL;
    if (status != LS_OK) free(all);
    return status;
}

ls_status ls_image_path_bytes(const char *path, char **bytes, int64_t *size) {
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       ls_input_why(errno));
    ls_status status = read_all(file, path, bytes, size);
    fclose(file);
    return status;
}

ls_status ls_image_path_size(const char *path, int64_t *height, int64_t *width) {
    char *bytes;
    int64_t size;
    LS_TRY(ls_image_path_bytes(path, &bytes, &size));
    ls_image_file file = {.name = path, .bytes = (const unsigned char *)bytes, .size = size};
    ls_status status = ls_image_file_size(&file, height, width);
    free(bytes);
    return status;
}

ls_status ls_image_read_for(const char *path, int channels, int64_t height, int64_t width, ls_image *out) {
    LS_NEED(out, "out");
    *out = (ls_image){.pixels = NULL};
    LS_NEED(path, "path");
    char *bytes;
    int64_t size;
    LS_TRY(ls_image_path_bytes(path, &bytes, &size));
    ls_image_file file = {.name = path, .bytes = (const unsigned char *)bytes, .size = size};
    ls_status status = decode(&file, channels, height, width, out);
    free(bytes);
    return status;
}

ls_status ls_image_read(const char *path, int channels, ls_image *out) {
    return ls_image_read_for(path, channels, 0, 0, out);
}
