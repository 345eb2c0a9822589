// JPEG files written by libjpeg-turbo: baseline, with its default sampling. The same bytes for the same pixels.
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>
#include <setjmp.h>
#include <string.h>

#include "base/error.h"
#include "data/image.h"

typedef struct writer {
    struct jpeg_error_mgr errors;  // the first member: libjpeg hands it out
    jmp_buf failed;
    char failure[JMSG_LENGTH_MAX];
} writer;

static void fail(j_common_ptr jpeg) {
    writer *w = (writer *)(void *)jpeg->err;
    jpeg->err->format_message(jpeg, w->failure);
    longjmp(w->failed, 1);
}

static void ignore(j_common_ptr jpeg) {}

static void write_rows(struct jpeg_compress_struct *jpeg, const ls_image *image, int quality) {
    jpeg->image_width = (JDIMENSION)image->width;
    jpeg->image_height = (JDIMENSION)image->height;
    jpeg->input_components = (int)image->channels;
    jpeg->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(jpeg);
    jpeg_set_quality(jpeg, quality, TRUE);
    jpeg_start_compress(jpeg, TRUE);
    while (jpeg->next_scanline < jpeg->image_height) {
        JSAMPROW line = image->pixels + (int64_t)jpeg->next_scanline * image->width * image->channels;
        jpeg_write_scanlines(jpeg, &line, 1);
    }
    jpeg_finish_compress(jpeg);
}

typedef struct memory {
    unsigned char *bytes;
    unsigned long size;
} memory;

static ls_status run(const ls_image *image, int quality, memory *out) {
    struct jpeg_compress_struct jpeg;
    writer w;
    ls_status status;
    memset(&jpeg, 0, sizeof jpeg);
    memset(&w, 0, sizeof w);
    jpeg.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = fail;
    w.errors.output_message = ignore;
    if (setjmp(w.failed) == 0) {
        jpeg_create_compress(&jpeg);
        jpeg_mem_dest(&jpeg, &out->bytes, &out->size);
        write_rows(&jpeg, image, quality);
        status = LS_OK;
    } else {
        status = LS_FAIL(LS_STATUS_LIBRARY, "cannot make a JPEG of %lld x %lld pixels: %s", (long long)image->width,
                         (long long)image->height, w.failure);
    }
    jpeg_destroy_compress(&jpeg);
    return status;
}

ls_status ls__image_jpeg_encode(const ls_image *image, int quality, char **bytes, size_t *size) {
    memory m = {NULL, 0};
    ls_status status = run(image, quality, &m);
    *bytes = (char *)m.bytes;
    *size = m.size;
    if (status != LS_OK) *bytes = NULL;  // libjpeg may have freed it
    return status;
}
