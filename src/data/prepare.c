// Cutting, resizing, moving and mirroring all say which source pixels an output pixel is taken from, so they are put into one
// table per axis and done in one pass: each source row that is needed is resampled once, and each output row is blended from
// two of those, normalized and rounded at once. Nothing is kept between samples: at 128x128x3 this takes a few hundredths of a
// millisecond (bench/bench_prepare.c), less than fetching a stored result from memory would be worth.
#include "data/prepare.h"

#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/augment.h"
#include "data/resize.h"

struct ls_preparer {
    ls_shape source, image;
    ls_dtype dtype;
    unsigned augment;
    uint64_t seed;
    int plain;                // nothing but pixel / 255
    int64_t values;           // of a row of the image: W * C
    ls_axis rows, columns;    // where they are taken from: rows (H), columns (W)
    ls_axis taps;             // columns, value by value: (W * C)
    float *offset, *divisor;  // (W * C): the channels' over and over
    float *pixels;            // a source row as floats, then one black pixel
    int64_t room;             // values it has room for
    // Source rows, resampled: row r lies in ready[r % 2] while held[r % 2] is r. Neighbours are blended: both stay.
    float *ready[2];
    int64_t held[2];
    float *black;  // a row from beyond the edge
};

ls_shape ls_recipe_shape(const ls_recipe *recipe, ls_shape source) {
    if (recipe->height) source.dim[0] = recipe->height;
    if (recipe->width) source.dim[1] = recipe->width;
    return source;
}

// ---- pixels to numbers ---------------------------------------------------------------------------------------------

// The quotient itself, correctly rounded: multiplying by 1/255 would be an ulp off for some pixels.
LS_CLONES static void convert_f32(const uint8_t *restrict in, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)in[i] / 255.0f;
}

// ls_float_to_bf16 without its care for NaN, which takes half of the time and cannot be here.
LS_CLONES static void convert_bf16(const uint8_t *restrict in, int64_t n, ls_bf16 *restrict out) {
    for (int64_t i = 0; i < n; i++) {
        float quotient = (float)in[i] / 255.0f;
        uint32_t u;
        memcpy(&u, &quotient, 4);
        out[i] = (ls_bf16)((u + 0x7FFFu + ((u >> 16) & 1)) >> 16);
    }
}

LS_CLONES static void widen(const uint8_t *restrict in, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)in[i];
}

// ---- one image -----------------------------------------------------------------------------------------------------

// Where the image's pixels come from. Without cutting, moving and mirroring it is the same for all.
static void fill_tables(ls_preparer *p, const ls_augment_draw *draw) {
    int64_t height = p->image.dim[0], width = p->image.dim[1], channels = p->image.dim[2];
    ls_axis_map y = {draw->box.y, draw->box.height, draw->shift_y, 0, draw->reflect};
    ls_axis_map x = {draw->box.x, draw->box.width, draw->shift_x, draw->mirror, draw->reflect};
    ls_axis_fill(&y, height, (int32_t)p->source.dim[0], &p->rows);
    ls_axis_fill(&x, width, (int32_t)p->source.dim[1], &p->columns);
    for (int64_t i = 0, v = 0; i < width; i++)
        for (int64_t c = 0; c < channels; c++, v++) {
            p->taps.lower[v] = (int32_t)(p->columns.lower[i] * channels + c);
            p->taps.upper[v] = (int32_t)(p->columns.upper[i] * channels + c);
            p->taps.weight[v] = p->columns.weight[i];
        }
}

// A row of the source as wide as the image. Nothing but the box is looked at.
static const float *source_row(ls_preparer *p, const uint8_t *image, const ls_rectangle *box, int64_t row) {
    int64_t channels = p->source.dim[2], n = p->source.dim[1] * channels, slot = row % 2, from = box->x * channels;
    if (row == p->source.dim[0]) return p->black;
    if (p->held[slot] != row) {
        widen(image + row * n + from, box->width * channels, p->pixels + from);
        ls_resize_row(p->pixels, &p->taps, p->values, p->ready[slot]);
        p->held[slot] = row;
    }
    return p->ready[slot];
}

static void cut_hole(const ls_preparer *p, const ls_rectangle *hole, void *out) {
    int64_t size = (int64_t)ls_dtype_size(p->dtype), pixel = p->image.dim[2] * size, row = p->values * size;
    for (int64_t y = hole->y; y < hole->y + hole->height; y++)
        memset((char *)out + y * row + hole->x * pixel, 0, (size_t)(hole->width * pixel));
}

// By the tables.
static void resample(ls_preparer *p, const uint8_t *image, const ls_augment_draw *draw, void *out) {
    int64_t n = p->values, height = p->image.dim[0];
    p->held[0] = p->held[1] = -1;
    for (int64_t y = 0; y < height; y++) {
        const float *top = source_row(p, image, &draw->box, p->rows.lower[y]);
        const float *bottom = source_row(p, image, &draw->box, p->rows.upper[y]);
        if (p->dtype == LS_DTYPE_F32)
            ls_resize_blend_f32(top, bottom, p->rows.weight[y], p->offset, p->divisor, n, (float *)out + y * n);
        else
            ls_resize_blend_bf16(top, bottom, p->rows.weight[y], p->offset, p->divisor, n, (ls_bf16 *)out + y * n);
    }
    cut_hole(p, &draw->hole, out);
}

void ls_preparer_run(ls_preparer *p, const uint8_t *image, uint32_t epoch, uint64_t sample, void *out) {
    int64_t n = p->values, height = p->image.dim[0];
    if (p->plain) {
        if (p->dtype == LS_DTYPE_F32)
            convert_f32(image, height * n, out);
        else
            convert_bf16(image, height * n, out);
        return;
    }
    ls_augment_draw draw = ls_augment_sample(p->augment, p->seed, epoch, sample, p->source, p->image);
    if (p->augment & ~(unsigned)LS_AUGMENT_CUTOUT) fill_tables(p, &draw);
    resample(p, image, &draw, out);
}

// --- pictures of any size --------------------------------------------------------------------------------------------

// An edge of a box in an image whose `side` pixels stand for `full` ones.
static int64_t scaled_edge(int64_t edge, int64_t full, int64_t side, int up) {
    int64_t product = edge * side;
    return up ? (product + full - 1) / full : product / full;
}

// The box as it lies in the image shrunk by `by`: whole pixels that cover it.
static void scale_box(ls_rectangle *box, int64_t height, int64_t width, int by) {
    int64_t h = (height + by - 1) / by, w = (width + by - 1) / by;
    int64_t top = scaled_edge(box->y, height, h, 0), left = scaled_edge(box->x, width, w, 0);
    int64_t bottom = scaled_edge(box->y + box->height, height, h, 1);
    int64_t right = scaled_edge(box->x + box->width, width, w, 1);
    *box = (ls_rectangle){top, left, bottom - top, right - left};
}

// From now on images are of this size.
static ls_status set_source(ls_preparer *p, int64_t height, int64_t width) {
    int64_t channels = p->image.dim[2], values = (width + 1) * channels;
    if (values > p->room) {
        free(p->pixels);
        p->room = 0;
        LS_TRY(ls_calloc(values, sizeof *p->pixels, &p->pixels));
        p->room = values;
    }
    p->source.dim[0] = height;
    p->source.dim[1] = width;
    for (int64_t c = 0; c < channels; c++) p->pixels[width * channels + c] = 0;
    return LS_OK;
}

ls_status ls_preparer_picture(ls_preparer *p, const ls_image_file *file, ls_image_buffer *buffer, uint32_t epoch,
                              uint64_t sample, void *out) {
    int64_t height, width, channels = p->image.dim[2];
    ls_image image;
    LS_TRY(ls_image_file_size(file, &height, &width));
    ls_shape stored = LS_SHAPE(height, width, channels);
    ls_augment_draw draw = ls_augment_sample(p->augment, p->seed, epoch, sample, stored, p->image);
    ls_image_wish wish = {.channels = (int)channels,
                          .shrink = ls_image_shrink(draw.box.height, draw.box.width, p->image.dim[0], p->image.dim[1])};
    scale_box(&draw.box, height, width, wish.shrink);
    wish.part = (ls_image_part){draw.box.y, draw.box.x, draw.box.y + draw.box.height, draw.box.x + draw.box.width};
    LS_TRY(ls_image_file_decode(file, wish, buffer, &image));
    LS_TRY(set_source(p, image.height, image.width));
    fill_tables(p, &draw);
    resample(p, image.pixels, &draw, out);
    return LS_OK;
}

// ---- create and destroy --------------------------------------------------------------------------------------------

static ls_status make_axis(int64_t count, ls_axis *axis) {
    LS_TRY(ls_calloc(count, sizeof *axis->lower, &axis->lower));
    LS_TRY(ls_calloc(count, sizeof *axis->upper, &axis->upper));
    return ls_calloc(count, sizeof *axis->weight, &axis->weight);
}

static void free_axis(ls_axis *axis) {
    free(axis->lower);
    free(axis->upper);
    free(axis->weight);
}

static ls_status make_tables(ls_preparer *p, const ls_recipe *recipe) {
    int64_t channels = p->image.dim[2];
    LS_TRY(make_axis(p->image.dim[0], &p->rows));
    LS_TRY(make_axis(p->image.dim[1], &p->columns));
    LS_TRY(make_axis(p->values, &p->taps));
    LS_TRY(ls_calloc(p->values, sizeof *p->offset, &p->offset));
    LS_TRY(ls_calloc(p->values, sizeof *p->divisor, &p->divisor));
    p->room = (p->source.dim[1] + 1) * channels;
    LS_TRY(ls_calloc(p->room, sizeof *p->pixels, &p->pixels));
    LS_TRY(ls_calloc(p->values, sizeof *p->black, &p->black));
    for (int i = 0; i < 2; i++) LS_TRY(ls_calloc(p->values, sizeof *p->ready[i], &p->ready[i]));
    for (int64_t v = 0; v < p->values; v++) {
        p->offset[v] = recipe->offset ? recipe->offset[v % channels] : 0.0f;
        p->divisor[v] = recipe->divisor ? recipe->divisor[v % channels] : 255.0f;
    }
    if (p->source.dim[0] == 0) return LS_OK;  // pictures: each has tables of its own
    ls_augment_draw none = ls_augment_sample(0, 0, 0, 0, p->source, p->image);
    fill_tables(p, &none);
    return LS_OK;
}

ls_status ls_preparer_create(const ls_recipe *recipe, ls_shape source, ls_dtype dtype, ls_preparer **out) {
    *out = NULL;
    ls_preparer *p;
    ls_status status;
    ls_shape image = ls_recipe_shape(recipe, source);
    if (image.dim[0] < 1 || image.dim[1] < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images of different sizes are resized to one: say to which (--image-size N)");
    LS_TRY(ls_augment_check(recipe->augment, image));
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    *p = (ls_preparer){
        .source = source, .image = image, .dtype = dtype, .augment = recipe->augment, .seed = recipe->seed};
    p->values = p->image.dim[1] * p->image.dim[2];
    p->plain = ls_shape_equal(p->image, source) && !recipe->augment && !recipe->offset && !recipe->divisor;
    if (!p->plain) LS_TRY_GOTO(make_tables(p, recipe), fail);
    *out = p;
    return LS_OK;
fail:
    ls_preparer_destroy(&p);
    return status;
}

void ls_preparer_destroy(ls_preparer **preparer) {
    ls_preparer *p = *preparer;
    *preparer = NULL;
    if (!p) return;
    free_axis(&p->rows);
    free_axis(&p->columns);
    free_axis(&p->taps);
    free(p->offset);
    free(p->divisor);
    free(p->pixels);
    free(p->black);
    free(p->ready[0]);
    free(p->ready[1]);
    free(p);
}
