// Products element by element, in the layout that the first input comes in; what that pads stays zero. Where the second has one value for
// each channel of a sample, it is multiplied plane by plane: the pixels of a block of channels of one sample.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

typedef struct multiply_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t count;
    int backward, threads;
    int64_t planes, pixels, block;  // by channel: how the first lies; 0 planes: both have one shape
} multiply_kernel;

// --- of one shape ----------------------------------------------------------------------------------------------------

LS_INLINE void product_row(ls_dtype dtype, void *y, const void *a, const void *b, int64_t i, int64_t count) {
    row r = load_row(dtype, a, i, count), other = load_row(dtype, b, i, count);
    for (int h = 0; h < 2; h++) r.v[h] *= other.v[h];
    store_row(dtype, y, i, r, count);
}

// Both gradients in one pass: dy is read before the first, which may take its memory over, is written.
LS_INLINE void gradient_row(ls_dtype dtype, void *da, void *db, const void *dy, const void *a, const void *b, int64_t i,
                            int64_t count) {
    row d = load_row(dtype, dy, i, count), first = load_row(dtype, a, i, count), second = load_row(dtype, b, i, count);
    for (int h = 0; h < 2; h++) {
        first.v[h] *= d.v[h];
        second.v[h] *= d.v[h];
    }
    store_row(dtype, da, i, second, count);
    store_row(dtype, db, i, first, count);
}

LS_CLONES static void product(ls_dtype dtype, void *y, const void *a, const void *b, int64_t from, int64_t to) {
    int64_t i = from;
    for (; i + ROW <= to; i += ROW) product_row(dtype, y, a, b, i, ROW);
    if (i < to) product_row(dtype, y, a, b, i, to - i);
}

LS_CLONES static void gradients(ls_dtype dtype, void *da, void *db, const void *dy, const void *a, const void *b,
                                int64_t from, int64_t to) {
    int64_t i = from;
    for (; i + ROW <= to; i += ROW) gradient_row(dtype, da, db, dy, a, b, i, ROW);
    if (i < to) gradient_row(dtype, da, db, dy, a, b, i, to - i);
}

static void run_part(const multiply_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    if (k->backward)
        gradients(k->dtype, args[LS_ARG_DX], args[LS_ARG_DX + 1], args[LS_ARG_DY], args[LS_ARG_X], args[LS_ARG_X + 1],
                  from, to);
    else
        product(k->dtype, args[LS_ARG_Y], args[LS_ARG_X], args[LS_ARG_X + 1], from, to);
}

// --- by channel ------------------------------------------------------------------------------------------------------

enum { FLOAT_STEPS = 64 };  // so many products are summed in float before double takes over

// A strip of a plane: up to sixteen elements that all the pixels have, or several pixels of few channels. `factors`: what each is
// multiplied by.
typedef struct strip {
    int64_t at, step, count, lanes;
    float factors[16];
} strip;

LS_INLINE void strip_product(ls_dtype dtype, void *y, const void *x, const strip *s) {
    v16f factors = load16(LS_DTYPE_F32, s->factors, 0);
    int64_t at = s->at;
    if (s->lanes == 16)
        for (int64_t i = 0; i < s->count; i++, at += s->step) store16(dtype, y, at, load16(dtype, x, at) * factors);
    else
        for (int64_t i = 0; i < s->count; i++, at += s->step)
            store_lanes(dtype, y, at, load_lanes(dtype, x, at, s->lanes) * factors, s->lanes);
}

// dx, which may lie where dy does, and the sums of dy * x to `sums` (16).
LS_INLINE void strip_gradients(ls_dtype dtype, void *dx, const void *dy, const void *x, const strip *s, double *sums) {
    v16f factors = load16(LS_DTYPE_F32, s->factors, 0);
    int64_t at = s->at;
    for (int64_t i = 0; i < s->count;) {
        int64_t end = i + FLOAT_STEPS < s->count ? i + FLOAT_STEPS : s->count;
        v16f sum = {0};
        float parts[16];
        for (; i < end; i++, at += s->step) {
            v16f d = load_lanes(dtype, dy, at, s->lanes);
            sum += d * load_lanes(dtype, x, at, s->lanes);
            store_lanes(dtype, dx, at, d * factors, s->lanes);
        }
        store16(LS_DTYPE_F32, parts, 0, sum);
        for (int l = 0; l < 16; l++) sums[l] += (double)parts[l];
    }
}

LS_CLONES static void strip_forward(ls_dtype dtype, void *y, const void *x, const strip *s) {
    strip_product(dtype, y, x, s);
}

LS_CLONES static void strip_backward(ls_dtype dtype, void *dx, const void *dy, const void *x, const strip *s,
                                     double *sums) {
    strip_gradients(dtype, dx, dy, x, s, sums);
}

static float factor_at(ls_dtype dtype, const void *from, int64_t i) {
    if (dtype == LS_DTYPE_F16) return ls_fp16_to_float(((const ls_fp16 *)from)[i]);
    return dtype == LS_DTYPE_F32 ? ((const float *)from)[i] : ls_bf16_to_float(((const ls_bf16 *)from)[i]);
}

static void run_strip(const multiply_kernel *k, void *const args[LS_ARG_COUNT], int64_t plane, const strip *s,
                      double *sums) {
    int64_t bytes = plane * k->pixels * k->block * (int64_t)ls_dtype_size(k->dtype);
    const char *x = (const char *)args[LS_ARG_X] + bytes;
    if (k->backward)
        strip_backward(k->dtype, (char *)args[LS_ARG_DX] + bytes, (const char *)args[LS_ARG_DY] + bytes, x, s, sums);
    else
        strip_forward(k->dtype, (char *)args[LS_ARG_Y] + bytes, x, s);
}

// Blocks of up to sixteen channels that divide sixteen: all pixels in a row, and what is left of the last sixteen elements.
static void run_narrow(const multiply_kernel *k, void *const args[LS_ARG_COUNT], int64_t plane, double *sums) {
    const void *second = args[LS_ARG_X + 1];
    int64_t elements = k->pixels * k->block;
    strip s = {.step = 16, .count = elements / 16, .lanes = 16};
    for (int l = 0; l < 16; l++) s.factors[l] = factor_at(k->dtype, second, plane * k->block + l % k->block);
    run_strip(k, args, plane, &s, sums);
    s.at = elements / 16 * 16, s.count = 1, s.lanes = elements - s.at;
    if (s.lanes) run_strip(k, args, plane, &s, sums);
}

// The gradient of the second, of channels [c, c + lanes) of a plane.
static void store_sums(const multiply_kernel *k, void *to, int64_t at, int64_t lanes, const double *sums) {
    for (int64_t l = 0; l < lanes; l++) {
        if (k->dtype == LS_DTYPE_F32)
            ((float *)to)[at + l] = (float)sums[l];
        else if (k->dtype == LS_DTYPE_F16)
            ((ls_fp16 *)to)[at + l] = ls_float_to_fp16((float)sums[l]);
        else
            ((ls_bf16 *)to)[at + l] = ls_float_to_bf16((float)sums[l]);
    }
}

static void run_plane(const multiply_kernel *k, void *const args[LS_ARG_COUNT], int64_t plane) {
    double sums[16] = {0};
    if (16 % k->block == 0) {
        run_narrow(k, args, plane, sums);
        for (int64_t l = k->block; l < 16; l++) sums[l % k->block] += sums[l];
        if (k->backward) store_sums(k, args[LS_ARG_DX + 1], plane * k->block, k->block, sums);
        return;
    }
    for (int64_t c = 0; c < k->block; c += 16) {
        strip s = {.at = c, .step = k->block, .count = k->pixels, .lanes = k->block - c < 16 ? k->block - c : 16};
        for (int64_t l = 0; l < s.lanes; l++)
            s.factors[l] = factor_at(k->dtype, args[LS_ARG_X + 1], plane * k->block + c + l);
        memset(sums, 0, sizeof sums);
        run_strip(k, args, plane, &s, sums);
        if (k->backward) store_sums(k, args[LS_ARG_DX + 1], plane * k->block + c, s.lanes, sums);
    }
}

// --- kernels ---------------------------------------------------------------------------------------------------------

static ls_status run_planes(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const multiply_kernel *k = (const multiply_kernel *)kernel;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->planes; p++) run_plane(k, args, p);
    return LS_OK;
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const multiply_kernel *k = (const multiply_kernel *)kernel;
    int64_t rows = (k->count + ROW - 1) / ROW;
    if (k->threads <= 1) {
        run_part(k, args, 0, k->count);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->threads; t++) {
        int64_t from = rows * t / k->threads * ROW, to = rows * (t + 1) / k->threads * ROW;
        run_part(k, args, from, to < k->count ? to : k->count);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// The layouts of both inputs: of one shape the first's; by channel blocks of both alike.
static ls_status choose_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, multiply_kernel *k, const ls_layout **second) {
    const ls_layout *given = spec->layout[k->backward ? LS_ARG_DX : LS_ARG_X], *x, *y;
    ls_shape shape = spec->x[0].shape;
    int64_t channels = shape.dim[shape.ndim - 1];
    int block = (int)channels;
    if (ls_shape_equal(shape, spec->x[1].shape)) {
        if (!given) LS_TRY(cpu->base.ops->layout_plain(&cpu->base, shape, spec->x[0].dtype, 0, &given));
        k->base.layout[LS_ARG_X] = *second = given;
        return LS_OK;
    }
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, shape, spec->x[0].dtype, 0, &x));
    if (shape.ndim == 4) LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    k->base.layout[LS_ARG_X] = x;
    k->block = block;
    k->planes = shape.dim[0] * ((channels + block - 1) / block);
    k->pixels = ls_shape_count(shape) / shape.dim[0] / channels;
    if (x->plain) return cpu->base.ops->layout_plain(&cpu->base, spec->x[1].shape, spec->x[1].dtype, 0, second);
    return ls__cpu_layout_tag(cpu, spec->x[1].shape, spec->x[1].dtype, 0, block == 16 ? dnnl_nChw16c : dnnl_nChw8c,
                              second);
}

ls_status ls__cpu_multiply_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops whole = {run, destroy}, by_channel = {run_planes, destroy};
    const ls_layout *layout, *second;
    multiply_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->backward = spec->pass == LS_PASS_BACKWARD_DATA;
    ls_status status = choose_layouts(cpu, spec, k, &second);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    layout = k->base.layout[LS_ARG_X];
    k->base.ops = k->planes ? &by_channel : &whole;
    k->base.name = "loop:multiply";
    k->dtype = spec->x[0].dtype;
    k->count = layout->bytes / (int64_t)ls_dtype_size(k->dtype);
    k->threads = cpu->base.options.threads;
    k->base.tiles = k->planes ? k->planes : (k->count + ROW - 1) / ROW;
    k->base.layout[LS_ARG_X + 1] = second;
    k->base.layout[k->backward ? LS_ARG_DY : LS_ARG_Y] = layout;
    if (k->backward) k->base.layout[LS_ARG_DX] = layout, k->base.layout[LS_ARG_DX + 1] = second;
    ls__cpu_in_place(&k->base, k->backward ? LS_ARG_DX : LS_ARG_Y, k->backward ? LS_ARG_DY : LS_ARG_X);
    if (!k->backward && !k->planes) ls__cpu_in_place(&k->base, LS_ARG_Y, LS_ARG_X + 1);
    *out = &k->base;
    return LS_OK;
}
