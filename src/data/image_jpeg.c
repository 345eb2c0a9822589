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

// What comes before the pixels: sizes, and in a marker how the camera was held.
static ls_status read_header(struct jpeg_decompress_struct *jpeg, const ls_image_file *file, ls_image_header *out) {
    jpeg_mem_src(jpeg, file->bytes, (unsigned long)file->size);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(jpeg, TRUE);
    *out = (ls_image_header){jpeg->image_height, jpeg->image_width, 1};
    for (jpeg_saved_marker_ptr m = jpeg->marker_list; m && out->orientation == 1; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 && memcmp(m->data, "Exif\0\0", 6) == 0)
            out->orientation = ls__exif_orientation(m->data, m->data_length);
    LS_TRY(ls__image_check_size(file, out->height, out->width, MOST_PIXELS));
    if (jpeg->num_components != 1 && jpeg->num_components != 3 && jpeg->num_components != 4)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has %d channels: grey, RGB and CMYK are read; convert it", file->name,
                       jpeg->num_components);
    return LS_OK;
}

// Cyan, magenta, yellow and black, which Adobe's programs store inverted, to red, green and blue.
static void from_cmyk(const uint8_t *row, int64_t width, int inverted, uint8_t *out) {
    for (int64_t x = 0; x < width; x++, row += 4, out += 3)
        for (int c = 0; c < 3; c++) {
            int light = inverted ? row[c] : 255 - row[c], white = inverted ? row[3] : 255 - row[3];
            out[c] = (uint8_t)((light * white + 127) / 255);
        }
}

// --- parts -----------------------------------------------------------------------------------------------------------

// At the edges of what is decoded colours are interpolated as at those of the image: so many columns beyond what is asked for.
enum { MARGIN = 8 };

// What is decoded of the image: rows, and the columns that jpeg_crop_scanline makes of those that are wanted, which begin at a block.
typedef struct region {
    JDIMENSION top, bottom, left;
} region;

// After jpeg_start_decompress. From then on jpeg->output_width is that of the region.
static region find_region(struct jpeg_decompress_struct *jpeg, const ls_image_part *part) {
    region r = {0, jpeg->output_height, 0};
    JDIMENSION right = jpeg->output_width;
    if (part->bottom == 0) return r;
    r.top = (JDIMENSION)part->top;
    r.bottom = part->bottom < r.bottom ? (JDIMENSION)part->bottom : r.bottom;
    r.left = part->left > MARGIN ? (JDIMENSION)part->left - MARGIN : 0;
    if (part->right + MARGIN < right) right = (JDIMENSION)part->right + MARGIN;
    JDIMENSION width = right - r.left;
    if (width < jpeg->output_width) jpeg_crop_scanline(jpeg, &r.left, &width);
    return r;
}

// A file that was cut off behind what was decoded of it: its end is looked for. In the data between markers there is none of these.
static ls_status check_end(struct jpeg_decompress_struct *jpeg, const ls_image_file *file) {
    const unsigned char *rest = jpeg->src->next_input_byte;
    if (jpeg_input_complete(jpeg) || jpeg->unread_marker == JPEG_EOI) return LS_OK;
    for (size_t i = jpeg->src->bytes_in_buffer; i >= 2; i--)
        if (rest[i - 1] == JPEG_EOI && rest[i - 2] == 0xff) return LS_OK;
    return ls__image_damaged(file, "it ends before its end is marked");
}

// Rows of the region, to their places in the whole image.
static void read_rows(struct jpeg_decompress_struct *jpeg, const region *r, const ls_image *out) {
    enum { ROWS = 16 };
    int64_t row = out->width * out->channels;
    JSAMPARRAY ink = NULL;
    int cmyk = jpeg->out_color_space == JCS_CMYK;
    if (cmyk) ink = jpeg->mem->alloc_sarray((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * 4, 1);
    if (r->top > 0) jpeg_skip_scanlines(jpeg, r->top);
    while (jpeg->output_scanline < r->bottom) {
        JDIMENSION at = jpeg->output_scanline, count = r->bottom - at < ROWS ? r->bottom - at : ROWS;
        JSAMPROW lines[ROWS] = {out->pixels + (int64_t)at * row + (int64_t)r->left * out->channels};
        for (JDIMENSION i = 1; i < count; i++) lines[i] = lines[i - 1] + row;
        jpeg_read_scanlines(jpeg, cmyk ? ink : lines, cmyk ? 1 : count);
        if (cmyk) from_cmyk(ink[0], jpeg->output_width, jpeg->saw_Adobe_marker, lines[0]);
    }
}

static ls_status read_pixels(struct jpeg_decompress_struct *jpeg, const ls_image_file *file, const ls_image_wish *wish,
                             ls_image_buffer *buffer, ls_image *out, int *shrunk, int *orientation) {
    ls_image_header header;
    LS_TRY(read_header(jpeg, file, &header));
    *orientation = header.orientation;
    jpeg->scale_num = 1;
    jpeg->scale_denom = (unsigned)wish->shrink;
    *shrunk = wish->shrink;
    int cmyk = jpeg->num_components == 4, grey = jpeg->num_components == 1;
    jpeg->out_color_space = cmyk ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    *out = (ls_image){jpeg->output_height, jpeg->output_width, grey ? 1 : 3, NULL};
    LS_TRY(ls__image_pixels(file, wish, buffer, out));
    // One that is going to be turned is decoded as a whole.
    const ls_image_part whole = {0};
    region r = find_region(jpeg, header.orientation == 1 ? &wish->part : &whole);
    read_rows(jpeg, &r, out);
    if (jpeg->output_scanline < jpeg->output_height) return check_end(jpeg, file);
    jpeg_finish_decompress(jpeg);
    return LS_OK;
}

// What is asked of a file; `out` NULL: its header alone.
typedef struct task {
    const ls_image_file *file;
    const ls_image_wish *wish;
    ls_image_buffer *buffer;
    ls_image_header *header;
    ls_image *out;
    int *shrunk, *orientation;
} task;

static ls_status run(const task *t) {
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
        if (t->out)
            status = read_pixels(&jpeg, t->file, t->wish, t->buffer, t->out, t->shrunk, t->orientation);
        else
            status = t->header ? read_header(&jpeg, t->file, t->header) : LS_OK;
    } else {
        status = ls__image_damaged(t->file, r.failure);
    }
    jpeg_destroy_decompress(&jpeg);
    return status;
}

ls_status ls__image_jpeg_header(const ls_image_file *file, ls_image_header *out) {
    const task t = {.file = file, .header = out};
    return run(&t);
}

ls_status ls__image_jpeg(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                         int *shrunk, int *orientation) {
    const task t = {file, wish, buffer, NULL, out, shrunk, orientation};
    return run(&t);
}
