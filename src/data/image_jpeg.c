// JPEG by libjpeg-turbo. Its failures leave by longjmp: what they leave behind hangs off structs of the caller's.
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image.h"

#define MOST_PIXELS 32768  // in a byte of a JPEG, roughly: a bit and less for a block of 64
#define MOST_SCANS  200    // of a progressive one, each of which goes over the whole image

typedef struct reader {
    struct jpeg_error_mgr errors;  // the first member: libjpeg hands it out
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    char failure[JMSG_LENGTH_MAX];
} reader;

static void fail(j_common_ptr jpeg) {
    reader *r = (reader *)(void *)jpeg->err;
    jpeg->err->format_message(jpeg, r->failure);
    longjmp(r->failed, 1);
}

// Warnings are of images that are damaged, and whose pixels are made up from there on, but for those of odd writers.
static void warn(j_common_ptr jpeg, int level) {
    int code = jpeg->err->msg_code;
    if (level >= 0 || code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR) return;
    fail(jpeg);
}

static void ignore(j_common_ptr jpeg) {}

static void watch(j_common_ptr jpeg) {
    reader *r = (reader *)(void *)jpeg->err;
    if (((j_decompress_ptr)jpeg)->input_scan_number <= MOST_SCANS) return;
    snprintf(r->failure, sizeof r->failure, "it has more than %d scans", MOST_SCANS);
    longjmp(r->failed, 1);
}

static ls_status read_pixels(struct jpeg_decompress_struct *jpeg, const ls_image_file *file, ls_image *out) {
    jpeg_mem_src(jpeg, file->bytes, (unsigned long)file->size);
    jpeg_read_header(jpeg, TRUE);
    out->height = jpeg->image_height;
    out->width = jpeg->image_width;
    LS_TRY(ls__image_check_size(file, out->height, out->width, MOST_PIXELS));
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has %d channels, as images for printing have: convert it to RGB",
                       file->name, jpeg->num_components);
    out->channels = jpeg->num_components;
    jpeg->out_color_space = out->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    int64_t row = out->width * out->channels;
    LS_TRY(ls_calloc(out->height, row, &out->pixels));
    jpeg_start_decompress(jpeg);
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW line = out->pixels + (int64_t)jpeg->output_scanline * row;
        jpeg_read_scanlines(jpeg, &line, 1);
    }
    jpeg_finish_decompress(jpeg);
    return LS_OK;
}

ls_status ls__image_jpeg(const ls_image_file *file, ls_image *out) {
    struct jpeg_decompress_struct jpeg;
    reader r;
    ls_status status;
    memset(&jpeg, 0, sizeof jpeg);
    memset(&r, 0, sizeof r);
    jpeg.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = fail;
    r.errors.emit_message = warn;
    r.errors.output_message = ignore;
    r.progress.progress_monitor = watch;
    if (setjmp(r.failed) == 0) {
        jpeg_create_decompress(&jpeg);
        jpeg.progress = &r.progress;
        status = read_pixels(&jpeg, file, out);
    } else {
        status = ls__image_damaged(file, r.failure);
    }
    jpeg_destroy_decompress(&jpeg);
    return status;
}
