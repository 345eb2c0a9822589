// Softmax cross-entropy, forward metrics and gradient. Few elements: plain loops, in double where sums are formed.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"

typedef struct loss_kernel {
    ls_kernel base;
    int64_t samples, classes;
    ls_dtype dx_dtype;
    int rows;
    double keep, share;  // a target t becomes keep * t + share
    double weight;
} loss_kernel;

// exp(x) for x <= 0 from plain arithmetic, so that its bits do not depend on the C library: 2^k * e^r with |r| <= ln2 / 2
// and a Taylor polynomial of degree 11, good to a relative 1e-14.
static double exp_plain(double x) {
    if (x < -700) return 0;
    double k = (double)(int64_t)(x * 1.4426950408889634 - 0.5);
    double r = (x - k * 0.693147180369123816490) - k * 1.90821492927058770002e-10;
    double p = 1;
    for (int i = 11; i > 0; i--) p = 1 + p * r / i;
    uint64_t bits = (uint64_t)(1023 + (int64_t)k) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

// The largest logit of a row (the first of equals) and the sum of exp(logit - largest).
static double row_sum(const float *row, int64_t classes, int64_t *largest) {
    *largest = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[*largest]) *largest = c;
    double sum = 0;
    for (int64_t c = 0; c < classes; c++) sum += exp_plain((double)row[c] - row[*largest]);
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
    for (int64_t n = 0; n < k->samples; n++) {
        const float *row = x + n * k->classes;
        int64_t largest;
        double sum = row_sum(row, k->classes, &largest), targets = 0;
        for (int64_t c = 0; c < k->classes; c++) targets += target(k, labels, n, c);
        for (int64_t c = 0; c < k->classes; c++) {
            float dx = (float)(
                k->weight * (targets * exp_plain((double)row[c] - row[largest]) / sum - target(k, labels, n, c)));
            if (k->dx_dtype == LS_DTYPE_F32)
                ((float *)args[LS_ARG_DX])[n * k->classes + c] = dx;
            else
                ((ls_bf16 *)args[LS_ARG_DX])[n * k->classes + c] = ls_float_to_bf16(dx);
        }
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static const ls_kernel_ops forward_ops = {run_forward, destroy};
static const ls_kernel_ops backward_ops = {run_backward, destroy};

ls_status ls__cpu_loss_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    const ls_loss_attrs *attrs = LS_ATTRS(ls_loss_attrs, &spec->attrs);
    const ls_layout *logits, *targets, *gradient, *sum;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, LS_DTYPE_F32, 0, &logits));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[1].shape, spec->x[1].dtype, 0, &targets));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].gradient, 0, &gradient));
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->y[0].shape, LS_DTYPE_F64, 0, &sum));
    loss_kernel *k;
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
    k->base.layout[LS_ARG_X] = logits;
    k->base.layout[LS_ARG_X + 1] = targets;
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_Y] = backward ? gradient : sum;
    *out = &k->base;
    return LS_OK;
}
