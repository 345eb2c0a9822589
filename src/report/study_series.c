#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_impl.h"

// What tells the rows of a study apart besides the number of workers.
enum { COMPARED, NODES, PRECISION, STRATEGY, DATA, BATCH, LANES, RECIPE, DIFFERENCES };

// Whether the batch grows with the workers.
static int grows(const ls_study_row *r) { return r->compared == LS_COMPARED_BATCH || r->compared == LS_COMPARED_WEAK; }

// The batch that rows of a series have in common.
static int64_t batch_of(const ls_study_row *r) { return grows(r) ? r->global_batch / r->workers : r->global_batch; }

static void differences(const ls_study *study, int differs[DIFFERENCES]) {
    memset(differs, 0, DIFFERENCES * sizeof differs[0]);
    for (int i = 0; i < study->row_count; i++)
        for (int j = 0; j < i; j++) {
            const ls_study_row *a = &study->rows[i], *b = &study->rows[j];
            if (!a->repeats || !b->repeats) continue;
            differs[COMPARED] |= a->compared != b->compared;
            // Nodes are an axis like workers, as long as they are not all that tells two rows apart.
            differs[NODES] |= a->nodes != b->nodes && a->workers == b->workers && strcmp(a->model, b->model) == 0;
            differs[PRECISION] |= strcmp(a->precision, b->precision) != 0;
            differs[STRATEGY] |= strcmp(a->strategy, b->strategy) != 0;
            differs[DATA] |= strcmp(a->data, b->data) != 0;
            differs[RECIPE] |= strcmp(a->recipe, b->recipe) != 0;
            differs[LANES] |=
                a->replicas_per_worker != b->replicas_per_worker || a->threads_per_replica != b->threads_per_replica;
            differs[BATCH] |= grows(a) == grows(b) && batch_of(a) != batch_of(b);
        }
}

static void name_row(const ls_study_row *r, const int differs[DIFFERENCES], char *out, size_t size) {
    char nodes[32], batch[48], lanes[64];
    snprintf(nodes, sizeof nodes, "%d node%s", r->nodes, r->nodes == 1 ? "" : "s");
    snprintf(batch, sizeof batch, "batch %lld%s", (long long)batch_of(r), grows(r) ? " a worker" : "");
    snprintf(lanes, sizeof lanes, "%d replica%s of %d thread%s", r->replicas_per_worker,
             r->replicas_per_worker == 1 ? "" : "s", r->threads_per_replica, r->threads_per_replica == 1 ? "" : "s");
    const char *parts[DIFFERENCES] = {
        ls_comparison_name(r->compared), nodes, r->precision, r->strategy, r->data, batch, lanes, r->recipe};
    snprintf(out, size, "%s", r->model);
    for (int i = 0; i < DIFFERENCES; i++) {
        size_t used = strlen(out);
        if (differs[i] && parts[i][0]) snprintf(out + used, size - used, ", %s", parts[i]);
    }
}

ls_status ls__series_create(const ls_study *study, ls_series *out) {
    *out = (ls_series){0};
    LS_TRY(ls_calloc(study->row_count, sizeof out->name[0], &out->name));
    LS_TRY(ls_calloc(study->row_count, sizeof out->of[0], &out->of));
    int differs[DIFFERENCES];
    differences(study, differs);
    for (int i = 0; i < study->row_count; i++) {
        out->of[i] = -1;
        if (study->rows[i].repeats == 0) continue;
        char name[sizeof out->name[0]];
        name_row(&study->rows[i], differs, name, sizeof name);
        int s = 0;
        while (s < out->count && strcmp(out->name[s], name) != 0) s++;
        if (s == out->count) memcpy(out->name[out->count++], name, sizeof name);
        out->of[i] = s;
    }
    return LS_OK;
}

void ls__series_destroy(ls_series *series) {
    free(series->name);
    free(series->of);
    *series = (ls_series){0};
}

int ls__row_evaluated(const ls_study_row *row) {
    return isfinite(row->test_loss) && isfinite(row->test_accuracy) && (row->test_loss != 0 || row->test_accuracy != 0);
}
