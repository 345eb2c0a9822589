// Pixels that are not encoded, as they lie in databases: plane by plane or pixel by pixel, in either order of colours.
#include <string.h>

#include "base/error.h"
#include "data/image.h"

ls_status ls__image_raw_header(const ls_image_file *file, ls_image_header *out) {
    const ls_image_raw *r = &file->raw;
    *out = (ls_image_header){r->height, r->width, 1};
    if (r->channels != 1 && r->channels != 3)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has an image of %d channels: 1, grey, and 3 are read", file->name,
                       r->channels);
    LS_TRY(ls__image_check_size(file, r->height, r->width, 1));
    if (r->height * r->width * r->channels == file->size) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s is damaged: an image of %lld x %lld pixels of %d bytes has %lld bytes; copy or make it again",
                   file->name, (long long)r->width, (long long)r->height, r->channels, (long long)file->size);
}

ls_status ls__image_raw(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                        int *shrunk, int *orientation) {
    const ls_image_raw *r = &file->raw;
    ls_image_header header;
    LS_TRY(ls__image_raw_header(file, &header));
    int64_t pixels = r->height * r->width, from = r->planar ? pixels : 1, step = r->planar ? 1 : r->channels;
    *out = (ls_image){r->height, r->width, r->channels, NULL};
    *shrunk = *orientation = 1;
    LS_TRY(ls__image_pixels(file, wish, buffer, out));
    if (step == r->channels && !r->bgr) {
        memcpy(out->pixels, file->bytes, (size_t)file->size);
        return LS_OK;
    }
    for (int c = 0; c < r->channels; c++) {
        const unsigned char *in = file->bytes + (r->bgr ? r->channels - 1 - c : c) * from;
        for (int64_t i = 0; i < pixels; i++) out->pixels[i * r->channels + c] = in[i * step];
    }
    return LS_OK;
}
