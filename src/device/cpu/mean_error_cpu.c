// Mean errors of predictions of any shape.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct error_kernel {
    ls_kernel base;
    int64_t count;  // elements, of all samples
    ls_dtype dx_dtype;
    double share;  // of an element in the loss: weight / elements of a sample
} error_kernel;

static ls_status run_squared(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const error_kernel *k = (const error_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]), *t = ls_span_host(spans[LS_ARG_X + 1]);
    double sum = 0;
    for (int64_t i = 0; i < k->count; i++) {
        double e = (double)x[i] - t[i];
        sum += e * e;
    }
    *(double *)ls_span_host(spans[LS_ARG_Y]) = sum * k->share;
    return LS_OK;
}

static ls_status run_squared_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const error_kernel *k = (const error_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]), *t = ls_span_host(spans[LS_ARG_X + 1]);
    void *dx = ls_span_host(spans[LS_ARG_DX]);
    double share = k->share * ls__loss_scale(spans);
    for (int64_t i = 0; i < k->count; i++)
        ls__gradient_put(dx, k->dx_dtype, i, (float)(2 * share * ((double)x[i] - t[i])));
    return LS_OK;
}

static ls_status run_absolute(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const error_kernel *k = (const error_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]), *t = ls_span_host(spans[LS_ARG_X + 1]);
    double sum = 0;
    for (int64_t i = 0; i < k->count; i++) sum += fabs((double)x[i] - t[i]);
    *(double *)ls_span_host(spans[LS_ARG_Y]) = sum * k->share;
    return LS_OK;
}

static ls_status run_absolute_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const error_kernel *k = (const error_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]), *t = ls_span_host(spans[LS_ARG_X + 1]);
    void *dx = ls_span_host(spans[LS_ARG_DX]);
    double share = k->share * ls__loss_scale(spans);
    for (int64_t i = 0; i < k->count; i++)
        ls__gradient_put(dx, k->dx_dtype, i, (float)(share * ((x[i] > t[i]) - (x[i] < t[i]))));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_mean_error_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops squared[] = {{run_squared, destroy}, {run_squared_backward, destroy}};
    static const ls_kernel_ops absolute[] = {{run_absolute, destroy}, {run_absolute_backward, destroy}};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    error_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->count = ls_shape_count(spec->x[0].shape);
    k->dx_dtype = spec->x[0].gradient;
    k->share = (double)spec->x[0].shape.dim[0] / (double)k->count;
    if (spec->op != LS_OP_MEAN_ABSOLUTE_ERROR_METRIC) k->share *= LS_ATTRS(ls_loss_attrs, &spec->attrs)->weight;
    k->base.ops = (spec->op == LS_OP_MEAN_SQUARED_ERROR ? squared : absolute) + backward;
    k->base.name = "loop:mean_error";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
