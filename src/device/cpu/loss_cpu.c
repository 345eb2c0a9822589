// Softmax cross-entropy, forward metrics and gradient. Few elements: plain loops, in double where sums are formed.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct loss_kernel {
    ls_kernel base;
    int64_t samples, classes;
    ls_dtype dx_dtype;
    int rows;
    double keep, share;  // a target t becomes keep * t + share
    double weight;
} loss_kernel;

// The largest logit of a row (the first of equals) and the sum of exp(logit - largest).
static double row_sum(const float *row, int64_t classes, int64_t *largest) {
    *largest = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[*largest]) *largest = c;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += ls__exp_plain((double)row[c] - row[*largest]);
    return sum;
}

// What the label of sample n says of class c: its weight, or 1 for the sample's class and 0 for the others; smoothed.
static inline double target(const loss_kernel *k, const void *labels, int64_t n, int64_t c) {
    double t = k->rows ? ((const float *)labels)[n * k->classes + c] : ((const int32_t *)labels)[n] == c;
    return k->keep * t + k->share;
}

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const loss_kernel *k = (const loss_kernel *)kernel;
    const float *x = args[LS_ARG_X];  // (samples, classes)
    const void *labels = args[LS_ARG_X + 1];
    double loss = 0;
    for (int64_t n = 0; n < k->samples; n++) {
        const float *row = x + n * k->classes;
        int64_t largest;
        double log_sum = log(row_sum(row, k->classes, &largest));
        for (int64_t c = 0; c < k->classes; c++) {
            double t = target(k, labels, n, c);
            if (t != 0) loss += t * (log_sum - ((double)row[c] - row[largest]));
        }
    }
    *(double *)args[LS_ARG_Y] = loss * k->weight;
    return LS_OK;
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const loss_kernel *k = (const loss_kernel *)kernel;
    const float *x = args[LS_ARG_X];
    const void *labels = args[LS_ARG_X + 1];
    double weight = k->weight * ls__loss_scale(spans);
    for (int64_t n = 0; n < k->samples; n++) {
        const float *row = x + n * k->classes;
        int64_t largest;
        double sum = row_sum(row, k->classes, &largest), targets = 0;
        for (int64_t c = 0; c < k->classes; c++) targets += target(k, labels, n, c);
        for (int64_t c = 0; c < k->classes; c++) {
            float dx = (float)(weight * (targets * ls__exp_plain((double)row[c] - row[largest]) / sum -
                                         target(k, labels, n, c)));
            ls__gradient_put(args[LS_ARG_DX], k->dx_dtype, n * k->classes + c, dx);
        }
    }
    return LS_OK;
}

static ls_status find_layouts(ls_device *d, const ls_kernel_spec *spec, ls_kernel *kernel) {
    for (int i = 0; i < spec->x_count; i++)
        LS_TRY(d->ops->layout_plain(d, spec->x[i].shape, spec->x[i].dtype, 0, &kernel->layout[LS_ARG_X + i]));
    if (spec->pass == LS_PASS_BACKWARD_DATA)
        return d->ops->layout_plain(d, spec->x[0].shape, spec->x[0].gradient, 0, &kernel->layout[LS_ARG_DX]);
    for (int i = 0; i < spec->y_count; i++)
        LS_TRY(d->ops->layout_plain(d, spec->y[i].shape, LS_DTYPE_F64, 0, &kernel->layout[LS_ARG_Y + i]));
    return LS_OK;
}

ls_status ls__cpu_loss_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, ls_kernel **out) {
    ls_status status = find_layouts(&cpu->base, spec, kernel);
    if (status == LS_OK)
        *out = kernel;
    else
        free(kernel);
    return status;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static const ls_kernel_ops forward_ops = {run_forward, destroy};
static const ls_kernel_ops backward_ops = {run_backward, destroy};

ls_status ls__cpu_loss_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    const ls_loss_attrs *attrs = LS_ATTRS(ls_loss_attrs, &spec->attrs);
    loss_kernel *k;
    if (spec->op == LS_OP_PERPLEXITY || spec->x[0].shape.ndim > 2) return ls__cpu_sequence_loss_create(cpu, spec, out);
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    double smoothing = spec->pass == LS_PASS_INFERENCE ? 0 : attrs->label_smoothing;
    k->samples = spec->x[0].shape.dim[0];
    k->classes = spec->x[0].shape.dim[1];
    k->dx_dtype = spec->x[0].gradient;
    k->rows = attrs->rows;
    k->keep = 1 - smoothing;
    k->share = smoothing / (double)k->classes;
    k->weight = attrs->weight;
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:softmax_cross_entropy";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
