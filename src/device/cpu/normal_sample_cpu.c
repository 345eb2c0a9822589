// A code that is a normal distribution, of as many means as log variances: a sample of it, and its divergence from mean 0 and variance 1. Codes are small: plain
// rows, in double between one rounding and the next.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/loss.h"
#include "device/math.h"

typedef struct normal_kernel {
    ls_kernel base;
    int64_t rows, channels;  // of the noise; a row of the code has twice as many
    ls_dtype dtype, dx_dtype;
    double weight;
} normal_kernel;

// --- a sample --------------------------------------------------------------------------------------------------------

LS_CLONES static void sample_row(const normal_kernel *k, const void *code, const void *noise, void *y, int64_t r) {
    float mean[BLOCK], logarithm[BLOCK], e[BLOCK];
    int64_t c = k->channels;
    for (int64_t i = 0; i < c; i += BLOCK) {
        int64_t count = c - i < BLOCK ? c - i : BLOCK;
        load_block(k->dtype, code, r * 2 * c + i, count, mean);
        load_block(k->dtype, code, r * 2 * c + c + i, count, logarithm);
        load_block(k->dtype, noise, r * c + i, count, e);
        for (int j = 0; j < BLOCK; j++)
            mean[j] = (float)((double)mean[j] + ls__exp(0.5 * (double)logarithm[j]) * (double)e[j]);
        store_block(k->dtype, y, r * c + i, count, mean);
    }
}

// The gradient of the mean is dy itself.
LS_CLONES static void sample_row_backward(const normal_kernel *k, const void *code, const void *noise, const void *dy,
                                          void *dcode, void *dnoise, int64_t r) {
    float logarithm[BLOCK], e[BLOCK], d[BLOCK];
    int64_t c = k->channels;
    for (int64_t i = 0; i < c; i += BLOCK) {
        int64_t count = c - i < BLOCK ? c - i : BLOCK;
        load_block(k->dtype, code, r * 2 * c + c + i, count, logarithm);
        load_block(k->dtype, noise, r * c + i, count, e);
        load_block(k->dtype, dy, r * c + i, count, d);
        store_block(k->dtype, dcode, r * 2 * c + i, count, d);
        for (int j = 0; j < BLOCK; j++) {
            double times = ls__exp(0.5 * (double)logarithm[j]) * (double)d[j];
            logarithm[j] = (float)(0.5 * (double)e[j] * times);
            d[j] = (float)times;
        }
        store_block(k->dtype, dcode, r * 2 * c + c + i, count, logarithm);
        store_block(k->dtype, dnoise, r * c + i, count, d);
    }
}

static ls_status run_sample(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const normal_kernel *k = (const normal_kernel *)kernel;
    for (int64_t r = 0; r < k->rows; r++) sample_row(k, args[LS_ARG_X], args[LS_ARG_X + 1], args[LS_ARG_Y], r);
    return LS_OK;
}

static ls_status run_sample_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const normal_kernel *k = (const normal_kernel *)kernel;
    for (int64_t r = 0; r < k->rows; r++)
        sample_row_backward(k, args[LS_ARG_X], args[LS_ARG_X + 1], args[LS_ARG_DY], args[LS_ARG_DX],
                            args[LS_ARG_DX + 1], r);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static ls_status find_layouts(ls_device *d, const ls_kernel_spec *spec, ls_kernel *kernel) {
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    for (int i = 0; i < 2; i++)
        LS_TRY(d->ops->layout_plain(d, spec->x[i].shape, spec->x[i].dtype, 0, &kernel->layout[LS_ARG_X + i]));
    for (int i = 0; i < 2 && backward; i++) kernel->layout[LS_ARG_DX + i] = kernel->layout[LS_ARG_X + i];
    return d->ops->layout_plain(d, spec->y[0].shape, spec->x[0].dtype, 0,
                                &kernel->layout[backward ? LS_ARG_DY : LS_ARG_Y]);
}

ls_status ls__cpu_normal_sample_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward = {run_sample, destroy}, backward = {run_sample_backward, destroy};
    ls_shape noise = spec->x[1].shape;
    normal_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = spec->pass == LS_PASS_BACKWARD_DATA ? &backward : &forward;
    k->base.name = "loop:normal_sample";
    k->channels = noise.dim[noise.ndim - 1];
    k->rows = ls_shape_count(noise) / k->channels;
    k->dtype = spec->x[0].dtype;
    ls_status status = find_layouts(&cpu->base, spec, &k->base);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}

// --- the divergence --------------------------------------------------------------------------------------------------

static ls_status run_divergence(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const normal_kernel *k = (const normal_kernel *)kernel;
    const float *code = ls_span_host(spans[LS_ARG_X]);
    double sum = 0;
    for (int64_t r = 0; r < k->rows; r++, code += 2 * k->channels)
        for (int64_t c = 0; c < k->channels; c++) {
            double mean = (double)code[c], logarithm = (double)code[k->channels + c];
            sum += 0.5 * (mean * mean + ls__exp(logarithm) - 1 - logarithm);
        }
    *(double *)ls_span_host(spans[LS_ARG_Y]) = sum * k->weight;
    return LS_OK;
}

static ls_status run_divergence_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const normal_kernel *k = (const normal_kernel *)kernel;
    const float *code = ls_span_host(spans[LS_ARG_X]);
    void *dx = ls_span_host(spans[LS_ARG_DX]);
    double weight = k->weight * ls__loss_scale(spans);
    for (int64_t r = 0; r < k->rows; r++)
        for (int64_t c = 0; c < k->channels; c++) {
            int64_t at = r * 2 * k->channels + c;
            ls__gradient_put(dx, k->dx_dtype, at, (float)(weight * (double)code[at]));
            at += k->channels;
            ls__gradient_put(dx, k->dx_dtype, at, (float)(0.5 * weight * (ls__exp((double)code[at]) - 1)));
        }
    return LS_OK;
}

ls_status ls__cpu_normal_divergence_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward = {run_divergence, destroy}, backward = {run_divergence_backward, destroy};
    ls_shape code = spec->x[0].shape;
    normal_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = spec->pass == LS_PASS_BACKWARD_DATA ? &backward : &forward;
    k->base.name = "loop:normal_divergence";
    k->channels = code.dim[code.ndim - 1] / 2;
    k->rows = ls_shape_count(code) / k->channels / 2;
    k->dx_dtype = spec->x[0].gradient;
    k->weight = LS_ATTRS(ls_loss_attrs, &spec->attrs)->weight;
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
