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
#include "base/fp16.h"
#include "base/memory.h"
#include "data/colour.h"
#include "data/noise.h"
#include "data/resize.h"

// What is done to an image as a whole, or looks at many pixels, goes through floats of the whole image first.
typedef struct stage {
    float *image, *turned;  // (H, W, C) of the output
    ls_filter rows, columns;
    void *resampled;  // source rows as wide as the output: floats, or bytes for Pillow's
    int64_t room;     // of it, in values
    float *ones;      // (W * C)
} stage;

struct ls_preparer {
    ls_shape source, image;
    ls_dtype dtype;
    ls_recipe recipe;  // its numbers are below
    int plain;         // nothing but pixel / 255
    int staged;
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
    stage stage;
    ls_noise_range *noise;  // (C); NULL: none
};

// Where an image is taken from: of a box of the source, resized to `full`, what begins at (y, x).
typedef struct view {
    ls_augment_draw draw;
    ls_shape full;
    int64_t y, x;
} view;

ls_shape ls_recipe_shape(const ls_recipe *recipe, ls_shape source) {
    if (recipe->height) source.dim[0] = recipe->height;
    if (recipe->width) source.dim[1] = recipe->width;
    return source;
}

// Of a source whose shorter side becomes recipe->resize pixels, the longer one rounded down, as torchvision's Resize has it.
static ls_shape full_shape(const ls_recipe *r, ls_shape source, ls_shape image) {
    int64_t height = source.dim[0], width = source.dim[1];
    if (!r->resize || r->augment & LS_AUGMENT_RESIZED_CROP || height == 0) return image;
    image.dim[0] = height <= width ? r->resize : r->resize * height / width;
    image.dim[1] = height <= width ? r->resize * width / height : r->resize;
    return image;
}

static view draw_view(const ls_preparer *p, ls_shape source, uint32_t epoch, uint64_t sample) {
    const ls_recipe *r = &p->recipe;
    view v = {.full = full_shape(r, source, p->image)};
    v.draw = ls_augment_sample(r->augment, r->seed, epoch, sample, source, p->image);
    ls_augment_window(r->augment, r->seed, epoch, sample, v.full, p->image, &v.y, &v.x);
    return v;
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

LS_CLONES static void convert_fp16(const uint8_t *restrict in, int64_t n, ls_fp16 *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = ls_float_to_fp16((float)in[i] / 255.0f);
}

LS_CLONES static void widen(const uint8_t *restrict in, int64_t n, float *restrict out) {
    for (int64_t i = 0; i < n; i++) out[i] = (float)in[i];
}

// ---- one image -----------------------------------------------------------------------------------------------------

// Where the image's pixels come from. Without cutting, moving and mirroring it is the same for all.
static ls_status fill_tables(ls_preparer *p, const view *v) {
    const ls_augment_draw *draw = &v->draw;
    int64_t height = p->image.dim[0], width = p->image.dim[1], channels = p->image.dim[2];
    ls_axis_map y = {draw->box.y, draw->box.height, draw->shift_y, 0, v->full.dim[0], v->y, draw->reflect};
    ls_axis_map x = {draw->box.x, draw->box.width, draw->shift_x, draw->mirror, v->full.dim[1], v->x, draw->reflect};
    int swap = p->recipe.bgr && !p->staged;
    if (p->recipe.interpolation != LS_INTERPOLATION_BILINEAR) {
        LS_TRY(ls_filter_fill(p->recipe.interpolation, &y, height, &p->stage.rows));
        return ls_filter_fill(p->recipe.interpolation, &x, width, &p->stage.columns);
    }
    ls_axis_fill(&y, height, (int32_t)p->source.dim[0], &p->rows);
    ls_axis_fill(&x, width, (int32_t)p->source.dim[1], &p->columns);
    for (int64_t i = 0, k = 0; i < width; i++)
        for (int64_t c = 0; c < channels; c++, k++) {
            int64_t from = swap ? channels - 1 - c : c;
            p->taps.lower[k] = (int32_t)(p->columns.lower[i] * channels + from);
            p->taps.upper[k] = (int32_t)(p->columns.upper[i] * channels + from);
            p->taps.weight[k] = p->columns.weight[i];
        }
    return LS_OK;
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

// Row y between two rows, normalized.
static void write_row(const ls_preparer *p, const float *top, const float *bottom, float weight, int64_t y, void *out) {
    int64_t n = p->values;
    float scale = p->recipe.scale;
    if (p->dtype == LS_DTYPE_F32)
        ls__resize_blend_f32(top, bottom, weight, p->offset, p->divisor, scale, n, (float *)out + y * n);
    else if (p->dtype == LS_DTYPE_F16)
        ls__resize_blend_fp16(top, bottom, weight, p->offset, p->divisor, scale, n, (ls_fp16 *)out + y * n);
    else
        ls__resize_blend_bf16(top, bottom, weight, p->offset, p->divisor, scale, n, (ls_bf16 *)out + y * n);
}

// By the tables.
static void resample(ls_preparer *p, const uint8_t *image, const ls_augment_draw *draw, void *out) {
    p->held[0] = p->held[1] = -1;
    for (int64_t y = 0; y < p->image.dim[0]; y++) {
        const float *top = source_row(p, image, &draw->box, p->rows.lower[y]);
        const float *bottom = source_row(p, image, &draw->box, p->rows.upper[y]);
        write_row(p, top, bottom, p->rows.weight[y], y, out);
    }
}

// --- by way of the whole image ---------------------------------------------------------------------------------------

// The source rows that a filter looks at: first and past.
static void rows_of(const ls_filter *f, int64_t *first, int64_t *past) {
    *first = INT64_MAX;
    *past = 0;
    for (int64_t i = 0; i < f->count; i++) {
        if (f->taps[i] == 0) continue;
        if (f->first[i] < *first) *first = f->first[i];
        if (f->first[i] + f->taps[i] > *past) *past = f->first[i] + f->taps[i];
    }
    if (*past == 0) *first = 0;
}

// Rows first, then columns, as Pillow has it.
static ls_status stage_filtered(ls_preparer *p, const uint8_t *image) {
    stage *s = &p->stage;
    int64_t first, past, channels = p->image.dim[2], n = p->values, row = p->source.dim[1] * channels;
    int fixed = ls_interpolation_exact(p->recipe.interpolation);
    rows_of(&s->rows, &first, &past);
    if ((past - first) * n > s->room) {
        free(s->resampled);
        s->room = 0;
        LS_TRY(ls_calloc((past - first) * n, fixed ? 1 : (int64_t)sizeof(float), &s->resampled));
        s->room = (past - first) * n;
    }
    uint8_t *bytes = s->resampled;
    float *floats = s->resampled;
    for (int64_t y = first; y < past; y++)
        if (fixed)
            ls_filter_row_fixed(&s->columns, image + y * row, channels, bytes + (y - first) * n);
        else
            ls_filter_row(&s->columns, image + y * row, channels, floats + (y - first) * n);
    for (int64_t y = 0; y < p->image.dim[0]; y++)
        if (fixed)
            ls_filter_blend_fixed(&s->rows, y, bytes, first, n, s->image + y * n);
        else
            ls_filter_blend(&s->rows, y, floats, first, n, s->image + y * n);
    return LS_OK;
}

static void stage_bilinear(ls_preparer *p, const uint8_t *image, const ls_augment_draw *draw) {
    int64_t n = p->values;
    p->held[0] = p->held[1] = -1;
    for (int64_t y = 0; y < p->image.dim[0]; y++) {
        const float *top = source_row(p, image, &draw->box, p->rows.lower[y]);
        const float *bottom = source_row(p, image, &draw->box, p->rows.upper[y]);
        ls__resize_blend_f32(top, bottom, p->rows.weight[y], p->black, p->stage.ones, 1, n, p->stage.image + y * n);
    }
}

static void swap_channels(float *pixels, int64_t count, int64_t channels) {
    for (int64_t i = 0; i < count; i++, pixels += channels)
        for (int64_t a = 0, b = channels - 1; a < b; a++, b--) {
            float kept = pixels[a];
            pixels[a] = pixels[b];
            pixels[b] = kept;
        }
}

static ls_status run_staged(ls_preparer *p, const uint8_t *image, const ls_augment_draw *draw, uint32_t epoch,
                            uint64_t sample, void *out) {
    const ls_recipe *r = &p->recipe;
    stage *s = &p->stage;
    int64_t height = p->image.dim[0], width = p->image.dim[1], channels = p->image.dim[2];
    if (r->interpolation == LS_INTERPOLATION_BILINEAR)
        stage_bilinear(p, image, draw);
    else
        LS_TRY(stage_filtered(p, image));
    ls_augment_look look = ls_augment_sample_look(r->augment, &r->amounts, r->seed, epoch, sample);
    float *pixels = s->image;
    if (look.augment & LS_AUGMENT_ROTATE) {
        ls_colour_rotate(&look, height, width, channels, s->image, s->turned);
        pixels = s->turned;
    }
    ls_colour_apply(&look, height * width, channels, pixels);
    if (r->bgr) swap_channels(pixels, height * width, channels);
    for (int64_t y = 0; y < height; y++) {
        const float *row = pixels + y * p->values;
        write_row(p, row, row, 0, y, out);
    }
    return LS_OK;
}

// From the source that the tables are for.
static ls_status run_tables(ls_preparer *p, const uint8_t *image, const ls_augment_draw *draw, uint32_t epoch,
                            uint64_t sample, void *out) {
    if (p->staged)
        LS_TRY(run_staged(p, image, draw, epoch, sample, out));
    else
        resample(p, image, draw, out);
    cut_hole(p, &draw->hole, out);
    return LS_OK;
}

static void add_noise(const ls_preparer *p, uint32_t epoch, uint64_t sample, void *out) {
    if (p->noise)
        ls_noise_add(out, p->dtype, ls_shape_count(p->image), p->noise, p->image.dim[2], p->recipe.seed, epoch, sample);
}

static ls_status run_clean(ls_preparer *p, const uint8_t *image, uint32_t epoch, uint64_t sample, void *out) {
    int64_t n = p->values, height = p->image.dim[0];
    if (p->plain) {
        if (p->dtype == LS_DTYPE_F32)
            convert_f32(image, height * n, out);
        else if (p->dtype == LS_DTYPE_F16)
            convert_fp16(image, height * n, out);
        else
            convert_bf16(image, height * n, out);
        return LS_OK;
    }
    view v = draw_view(p, p->source, epoch, sample);
    if (p->recipe.augment & ~(unsigned)(LS_AUGMENT_CUTOUT | LS_AUGMENT_STAGED)) LS_TRY(fill_tables(p, &v));
    return run_tables(p, image, &v.draw, epoch, sample, out);
}

ls_status ls_preparer_run(ls_preparer *p, const uint8_t *image, uint32_t epoch, uint64_t sample, void *out) {
    LS_TRY(run_clean(p, image, epoch, sample, out));
    add_noise(p, epoch, sample, out);
    return LS_OK;
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

// What of the (shrunk) image is read: of a window less than the box.
static ls_image_part part_of(const ls_preparer *p, const view *v) {
    const ls_rectangle *box = &v->draw.box;
    ls_image_part part = {box->y, box->x, box->y + box->height, box->x + box->width};
    if (ls_shape_equal(v->full, p->image)) return part;
    if (p->recipe.interpolation != LS_INTERPOLATION_BILINEAR) {
        rows_of(&p->stage.rows, &part.top, &part.bottom);
        rows_of(&p->stage.columns, &part.left, &part.right);
        return part;
    }
    // Moved as they may be, the first and the last position of an axis need not be its ends.
    int64_t *ends[2][2] = {{&part.top, &part.bottom}, {&part.left, &part.right}};
    for (int a = 0; a < 2; a++) {
        const ls_axis *axis = a ? &p->columns : &p->rows;
        int64_t count = p->image.dim[a], outside = p->source.dim[a], first = outside, past = 0;
        for (int64_t i = 0; i < count; i++) {
            if (axis->lower[i] == outside) continue;
            if (axis->lower[i] < first) first = axis->lower[i];
            if (axis->upper[i] + 1 > past) past = axis->upper[i] + 1;
        }
        *ends[a][0] = first;
        *ends[a][1] = past;
    }
    return part;
}

ls_status ls_preparer_picture(ls_preparer *p, const ls_image_file *file, ls_image_buffer *buffer, uint32_t epoch,
                              uint64_t sample, void *out) {
    int64_t height, width, channels = p->image.dim[2];
    ls_image image;
    LS_TRY(ls_image_file_size(file, &height, &width));
    view v = draw_view(p, LS_SHAPE(height, width, channels), epoch, sample);
    ls_rectangle *box = &v.draw.box;
    ls_image_wish wish = {.channels = (int)channels, .shrink = 1};
    if (!ls_interpolation_exact(p->recipe.interpolation))
        wish.shrink = ls_image_shrink(box->height, box->width, v.full.dim[0], v.full.dim[1]);
    scale_box(box, height, width, wish.shrink);
    int64_t rows = (height + wish.shrink - 1) / wish.shrink, columns = (width + wish.shrink - 1) / wish.shrink;
    LS_TRY(set_source(p, rows, columns));
    LS_TRY(fill_tables(p, &v));
    wish.part = part_of(p, &v);
    LS_TRY(ls_image_file_decode(file, wish, buffer, &image));
    if (image.height != rows || image.width != columns)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s was decoded to %lld x %lld pixels and not %lld x %lld", file->name,
                       (long long)image.width, (long long)image.height, (long long)columns, (long long)rows);
    LS_TRY(run_tables(p, image.pixels, &v.draw, epoch, sample, out));
    add_noise(p, epoch, sample, out);
    return LS_OK;
}

int64_t ls_preparer_bytes(const ls_recipe *r, ls_shape source) {
    ls_shape image = ls_recipe_shape(r, source);
    int64_t bytes = ls_shape_count(image) * (int64_t)sizeof(float);
    if (r->interpolation == LS_INTERPOLATION_BILINEAR && !(r->augment & LS_AUGMENT_STAGED)) return 0;
    // The image, the image turned, and rows before they are columns, of which there are up to twice as many where images are halved.
    int64_t stages = 1 + !!(r->augment & LS_AUGMENT_ROTATE);
    return (stages + (r->interpolation == LS_INTERPOLATION_BILINEAR ? 0 : 2)) * bytes;
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

static ls_status make_stage(ls_preparer *p) {
    stage *s = &p->stage;
    LS_TRY(ls_calloc(p->image.dim[0] * p->values, sizeof *s->image, &s->image));
    if (p->recipe.augment & LS_AUGMENT_ROTATE)
        LS_TRY(ls_calloc(p->image.dim[0] * p->values, sizeof *s->turned, &s->turned));
    LS_TRY(ls_calloc(p->values, sizeof *s->ones, &s->ones));
    for (int64_t v = 0; v < p->values; v++) s->ones[v] = 1;
    return LS_OK;
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
    if (p->staged) LS_TRY(make_stage(p));
    if (p->source.dim[0] == 0) return LS_OK;  // pictures: each has tables of its own
    view v = draw_view(p, p->source, 0, 0);
    v.draw = ls_augment_sample(0, 0, 0, 0, p->source, p->image);
    return fill_tables(p, &v);
}

ls_status ls_recipe_check(const ls_recipe *r, ls_shape image) {
    LS_TRY(ls_augment_check(r->augment, image));
    if (r->augment & LS_AUGMENT_RANDOM_CROP && !r->resize)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the augmentation random-crop cuts images out of larger ones: say what the shorter side of these "
            "is (--resize N)");
    int64_t longer = image.dim[0] > image.dim[1] ? image.dim[0] : image.dim[1];
    if (!r->resize || r->resize >= longer) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "images whose shorter side is %lld pixels have no %lld x %lld to cut out: resize them to %lld or "
                   "more",
                   (long long)r->resize, (long long)image.dim[0], (long long)image.dim[1], (long long)longer);
}

static ls_status make_noise(ls_preparer *p, const ls_recipe *recipe) {
    int64_t channels = p->image.dim[2];
    LS_TRY(ls_calloc(channels, sizeof *p->noise, &p->noise));
    for (int64_t c = 0; c < channels; c++) {
        float offset = recipe->offset ? recipe->offset[c] : 0, divisor = recipe->divisor ? recipe->divisor[c] : 255;
        float scale = p->recipe.scale;
        p->noise[c] = (ls_noise_range){(float)(255 * recipe->noise) / divisor * scale, -offset / divisor * scale,
                                       (255 - offset) / divisor * scale};
    }
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
    LS_TRY(ls_recipe_check(recipe, image));
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    *p = (ls_preparer){.source = source, .image = image, .dtype = dtype, .recipe = *recipe};
    if (!(p->recipe.scale > 0)) p->recipe.scale = 1;
    p->values = p->image.dim[1] * p->image.dim[2];
    p->staged = recipe->interpolation != LS_INTERPOLATION_BILINEAR || recipe->augment & LS_AUGMENT_STAGED;
    p->plain = ls_shape_equal(p->image, source) && !recipe->augment && !recipe->offset && !recipe->divisor &&
               !recipe->resize && !recipe->bgr && p->recipe.scale == 1;
    if (!p->plain) LS_TRY_GOTO(make_tables(p, recipe), fail);
    if (recipe->noise > 0) LS_TRY_GOTO(make_noise(p, recipe), fail);
    p->recipe.offset = p->recipe.divisor = NULL;  // the caller's
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
    free(p->noise);
    free(p->ready[0]);
    free(p->ready[1]);
    free(p->stage.image);
    free(p->stage.turned);
    free(p->stage.resampled);
    free(p->stage.ones);
    ls_filter_free(&p->stage.rows);
    ls_filter_free(&p->stage.columns);
    free(p);
}
