// Binary cross-entropy of logits; the formulas are those of the reference device. No x makes anything too large: x is met by
// exp(-|x|) alone.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct entropy_kernel {
    ls_kernel base;
    int64_t count;  // elements, of all samples
    ls_dtype dx_dtype;
    double share;        // of an element in the loss: weight / elements of a sample
    double keep, shift;  // a target t becomes keep * t + shift
    double positive;
} entropy_kernel;

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const entropy_kernel *k = (const entropy_kernel *)kernel;
    const float *xs = ls_span_host(spans[LS_ARG_X]), *targets = ls_span_host(spans[LS_ARG_X + 1]);
    double sum = 0;
    for (int64_t i = 0; i < k->count; i++) {
        double x = xs[i], t = k->keep * targets[i] + k->shift;
        double log_sigmoid = (x < 0 ? x : 0) - log1p(ls__exp_plain(-fabs(x)));
        sum += (1 - t) * (x - log_sigmoid) - k->positive * t * log_sigmoid;
    }
    *(double *)ls_span_host(spans[LS_ARG_Y]) = sum * k->share;
    return LS_OK;
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const entropy_kernel *k = (const entropy_kernel *)kernel;
    const float *xs = ls_span_host(spans[LS_ARG_X]), *targets = ls_span_host(spans[LS_ARG_X + 1]);
    void *dx = ls_span_host(spans[LS_ARG_DX]);
    double share = k->share * ls__loss_scale(spans);
    for (int64_t i = 0; i < k->count; i++) {
        double x = xs[i], t = k->keep * targets[i] + k->shift, e = ls__exp_plain(-fabs(x));
        double sigmoid = (x > 0 ? 1 : e) / (1 + e), rest = (x > 0 ? e : 1) / (1 + e);
        ls__gradient_put(dx, k->dx_dtype, i, (float)(share * ((1 - t) * sigmoid - k->positive * t * rest)));
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_binary_cross_entropy_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward = {run_forward, destroy}, backward = {run_backward, destroy};
    const ls_loss_attrs *attrs = LS_ATTRS(ls_loss_attrs, &spec->attrs);
    double smoothing = spec->pass == LS_PASS_INFERENCE ? 0 : attrs->label_smoothing;
    entropy_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->count = ls_shape_count(spec->x[0].shape);
    k->dx_dtype = spec->x[0].gradient;
    k->share = attrs->weight * (double)spec->x[0].shape.dim[0] / (double)k->count;
    k->keep = 1 - smoothing;
    k->shift = smoothing / 2;
    k->positive = attrs->positive_weight;
    k->base.ops = spec->pass == LS_PASS_BACKWARD_DATA ? &backward : &forward;
    k->base.name = "loop:binary_cross_entropy";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
