// Rows of scores and targets, from which the area under the ROC curve is found when all samples are there.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct rows_kernel {
    ls_kernel base;
    int64_t samples, labels;
    int rows;  // targets are rows, not class numbers
} rows_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const rows_kernel *k = (const rows_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]);
    const void *targets = ls_span_host(spans[LS_ARG_X + 1]);
    double *y = ls_span_host(spans[LS_ARG_Y]);  // (samples, 2, labels)
    for (int64_t n = 0; n < k->samples; n++) {
        double *scores = y + 2 * n * k->labels, *wanted = scores + k->labels;
        for (int64_t i = 0; i < k->labels; i++) {
            scores[i] = x[n * k->labels + i];
            wanted[i] = k->rows ? ((const float *)targets)[n * k->labels + i] : ((const int32_t *)targets)[n] == i;
        }
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_auc_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    rows_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->samples = spec->x[0].shape.dim[0];
    k->labels = spec->x[0].shape.dim[1];
    k->rows = LS_ATTRS(ls_metric_attrs, &spec->attrs)->rows;
    k->base.ops = &ops;
    k->base.name = "loop:auc";
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
