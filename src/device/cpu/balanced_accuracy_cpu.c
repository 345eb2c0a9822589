// A row for each sample, its class and the one with the largest score, from which balanced accuracy is found when all samples are there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct classes_kernel {
    ls_kernel base;
    int64_t samples, classes;
    int rows;  // targets are rows, not class numbers
} classes_kernel;

static int64_t largest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const classes_kernel *k = (const classes_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]);
    const void *targets = ls_span_host(spans[LS_ARG_X + 1]);
    double *y = ls_span_host(spans[LS_ARG_Y]);  // (samples, 2)
    for (int64_t n = 0; n < k->samples; n++) {
        y[2 * n] = k->rows ? (double)largest((const float *)targets + n * k->classes, k->classes)
                           : ((const int32_t *)targets)[n];
        y[2 * n + 1] = (double)largest(x + n * k->classes, k->classes);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_balanced_accuracy_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    classes_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->samples = spec->x[0].shape.dim[0];
    k->classes = spec->x[0].shape.dim[1];
    k->rows = LS_ATTRS(ls_metric_attrs, &spec->attrs)->rows;
    k->base.ops = &ops;
    k->base.name = "loop:balanced_accuracy";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
