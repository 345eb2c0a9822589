#include "data/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"

#define MAX_FILE ((int64_t)256 << 20)  // bytes

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

static ls_status to_colour(ls_image *image) {
    int64_t pixels = image->height * image->width;
    uint8_t *colour;
    LS_TRY(ls_calloc(pixels, 3, &colour));
    for (int64_t i = 0; i < pixels; i++) memset(colour + 3 * i, image->pixels[i], 3);
    free(image->pixels);
    image->pixels = colour;
    image->channels = 3;
    return LS_OK;
}

static ls_status convert(ls_image *image, int channels) {
    if (!channels || image->channels == channels) return LS_OK;
    if (channels == 3) return to_colour(image);
    to_grey(image);
    return LS_OK;
}

// --- formats ---------------------------------------------------------------------------------------------------------

typedef struct kind {
    const char *name, *signature;
    int length;
    ls_status (*decode)(const ls_image_file *file, ls_image *out);  // NULL: known, but not read
} kind;

static const kind *kind_of(const ls_image_file *file) {
    static const kind kinds[] = {
        {"a PNG", "\x89PNG\r\n\x1a\n", 8, ls__image_png},
        {"a JPEG", "\xff\xd8\xff", 3, ls__image_jpeg},
        {"a GIF", "GIF8", 4, NULL},
        {"a BMP", "BM", 2, NULL},
        {"a TIFF", "II*\0", 4, NULL},
        {"a TIFF", "MM\0*", 4, NULL},
        {"a WebP", "RIFF", 4, NULL},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (file->size >= kinds[i].length && memcmp(file->bytes, kinds[i].signature, (size_t)kinds[i].length) == 0)
            return &kinds[i];
    return NULL;
}

static ls_status decode(const ls_image_file *file, int channels, ls_image *out) {
    const kind *k = kind_of(file);
    if (file->size == 0) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is empty; give a PNG or JPEG image", file->name);
    if (!k) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no PNG or JPEG image, by its first bytes", file->name);
    if (!k->decode)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is %s image, by its first bytes: PNG and JPEG are read; convert it",
                       file->name, k->name);
    LS_TRY(k->decode(file, out));
    return convert(out, channels);
}

ls_status ls_image_decode(const char *name, const void *bytes, int64_t size, int channels, ls_image *out) {
    LS_NEED(out, "out");
    *out = (ls_image){.pixels = NULL};
    LS_NEED(name, "name");
    LS_NEED(bytes, "bytes");
    if (channels != 0 && channels != 1 && channels != 3)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: images have 1 channel, grey, or 3, and not %d", name, channels);
    ls_image_file file = {name, bytes, size};
    ls_status status = decode(&file, channels, out);
    if (status == LS_OK) return LS_OK;
    ls_image_free(out);
    return ls__fail_passed(status, __FILE__, __LINE__);
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
        if (*size < room || room > MAX_FILE) break;
        room *= 2;
        more = realloc(all, (size_t)room);
        if (more) all = more;
    }
    ls_status status = LS_OK;
    if (!more)
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %s", path);
    else if (ferror(file))
        status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    else if (*size > MAX_FILE)
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s has more than the %lld MB that an image may have", path,
                         (long long)(MAX_FILE >> 20));
    *bytes = status == LS_OK ? all : NULL;
    if (status != LS_OK) free(all);
    return status;
}

ls_status ls_image_read(const char *path, int channels, ls_image *out) {
    LS_NEED(out, "out");
    *out = (ls_image){.pixels = NULL};
    LS_NEED(path, "path");
    char *bytes;
    int64_t size;
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       strerror(errno));
    ls_status status = read_all(file, path, &bytes, &size);
    fclose(file);
    LS_TRY(status);
    status = ls_image_decode(path, bytes, size, channels, out);
    free(bytes);
    return status;
}
