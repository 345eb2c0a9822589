// Accuracy of labels each of which is there or not.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct accuracy_kernel {
    ls_kernel base;
    int64_t samples, elements;  // of each
    int per_label;
} accuracy_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const accuracy_kernel *k = (const accuracy_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]), *t = ls_span_host(spans[LS_ARG_X + 1]);
    double *y = ls_span_host(spans[LS_ARG_Y]);  // (elements) or (1)
    if (k->per_label) {
        memset(y, 0, (size_t)k->elements * sizeof *y);
        for (int64_t n = 0; n < k->samples; n++, x += k->elements, t += k->elements)
            for (int64_t i = 0; i < k->elements; i++) y[i] += (x[i] > 0) == (t[i] > 0.5F);
        return LS_OK;
    }
    int64_t right = 0;
    for (int64_t i = 0; i < k->samples * k->elements; i++) right += (x[i] > 0) == (t[i] > 0.5F);
    *y = (double)right / (double)k->elements;
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_binary_accuracy_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    accuracy_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->samples = spec->x[0].shape.dim[0];
    k->elements = ls_shape_count(spec->x[0].shape) / k->samples;
    k->per_label = LS_ATTRS(ls_metric_attrs, &spec->attrs)->per_label;
    k->base.ops = &ops;
    k->base.name = "loop:binary_accuracy";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
