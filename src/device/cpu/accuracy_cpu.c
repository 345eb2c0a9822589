// Accuracy, and that of the k largest scores: plain loops over few elements.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loss.h"

typedef struct accuracy_kernel {
    ls_kernel base;
    int64_t samples, classes;  // of sequences, positions are samples
    int64_t positions;         // of each
    int rows;
    int k;  // of the k largest; 0: of the largest, the first of equals
} accuracy_kernel;

static int64_t largest(const float *row, int64_t classes) {
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        if (row[c] > row[best]) best = c;
    return best;
}

static int in_top_k(const float *row, int64_t classes, int64_t label, int k) {
    int64_t above = 0;
    for (int64_t c = 0; c < classes; c++) {
        if (!isfinite(row[c])) return 0;
        above += row[c] > row[label];
    }
    return above < k;
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const accuracy_kernel *k = (const accuracy_kernel *)kernel;
    const float *x = ls_span_host(spans[LS_ARG_X]);
    const void *targets = ls_span_host(spans[LS_ARG_X + 1]);
    int64_t correct = 0;
    for (int64_t n = 0; n < k->samples; n++) {
        int64_t label =
            k->rows ? largest((const float *)targets + n * k->classes, k->classes) : ((const int32_t *)targets)[n];
        const float *row = x + n * k->classes;
        correct += k->k ? in_top_k(row, k->classes, label, k->k) : largest(row, k->classes) == label;
    }
    *(double *)ls_span_host(spans[LS_ARG_Y]) = (double)correct / (double)k->positions;
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_accuracy_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    accuracy_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:accuracy";
    ls_shape x = spec->x[0].shape;
    k->classes = x.dim[x.ndim - 1];
    k->samples = ls_shape_count(x) / k->classes;
    k->positions = k->samples / x.dim[0];
    k->k = spec->op == LS_OP_TOP_K_ACCURACY ? LS_ATTRS(ls_metric_attrs, &spec->attrs)->k : 0;
    k->rows = LS_ATTRS(ls_metric_attrs, &spec->attrs)->rows;
    return ls__cpu_loss_layouts(cpu, spec, &k->base, out);
}
