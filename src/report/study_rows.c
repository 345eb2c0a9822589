// From runs to rows: runs put in order, repeats of one configuration put together, rows compared.
#define _GNU_SOURCE
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_loss.h"
#include "report/study_recipes.h"
#include "report/study_runs.h"

static double known(double x) { return isfinite(x) ? x : 0; }

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double ls__median(double *values, int count) {
    int n = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i])) values[n++] = values[i];
    if (n == 0) return NAN;
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Whether there is a run that was trained to its end.
static int finished(const ls_study_row *row) { return row->repeats > row->stopped; }

static int compare_recipes(const ls_study_run *a, const ls_study_run *b) {
    int c = strcmp(a->row.model, b->row.model);
    if (!c) c = strcmp(a->row.mode, b->row.mode);
    return c ? c : strcmp(a->recipe ? a->recipe : "", b->recipe ? b->recipe : "");
}

static int compare_rows(const ls_study_run *a, const ls_study_run *b) {
    const ls_study_row *x = &a->row, *y = &b->row;
    int c = compare_recipes(a, b);
    if (!c) c = x->nodes - y->nodes;
    if (!c) c = x->workers - y->workers;
    if (!c) c = x->replicas_per_worker - y->replicas_per_worker;
    return c ? c : x->threads_per_replica - y->threads_per_replica;
}

static int compare_runs(const void *a, const void *b) {
    const ls_study_run *x = a, *y = b;
    int c = compare_rows(x, y);
    if (!c) c = x->source - y->source;
    return c ? c : x->repeat - y->repeat;
}

// The rows' order: model (resnet50 before resnet152), mode, nodes, workers; then recipe and the rest, so that it is the same however paths were given.
static int compare_order(const void *a, const void *b) {
    const ls_study_run *x = a, *y = b;
    int c = strverscmp(x->row.model, y->row.model);
    if (!c) c = strcmp(x->row.mode, y->row.mode);
    if (!c) c = x->row.nodes - y->row.nodes;
    if (!c) c = x->row.workers - y->row.workers;
    return c ? c : compare_rows(x, y);
}

static const size_t medians[] = {
    offsetof(ls_study_row, read_seconds),  offsetof(ls_study_row, step_seconds),
    offsetof(ls_study_row, total_seconds), offsetof(ls_study_row, epoch_seconds),
    offsetof(ls_study_row, test_loss),     offsetof(ls_study_row, first_epoch_seconds),
    offsetof(ls_study_row, test_accuracy), offsetof(ls_study_row, images_per_second),
};

static const ls_study_row *row_at(const void *runs, int i) { return &((const ls_study_run *)runs)[i].row; }

// Puts `count` runs of one configuration together into the first of them with a record.
static ls_status join(ls_study_run *runs, int count, ls_study_run *out) {
    double *values;
    LS_TRY(ls_calloc(count, sizeof *values, &values));
    int first = 0, failed = 0, stopped = 0;
    const char *reason = "";
    for (int i = count - 1; i >= 0; i--) {
        const ls_study_row *r = &runs[i].row, *best = &runs[first].row;
        if (finished(r) || (r->repeats && !finished(best)) || !best->repeats) first = i;
        failed += r->failed;
        stopped += r->stopped;
        if (r->failed || (r->stopped && !failed)) reason = r->reason;
    }
    *out = runs[first];
    ls_study_row *row = &out->row;
    row->repeats = count - failed;
    row->failed = failed;
    row->stopped = stopped;
    if (row->reason != reason) snprintf(row->reason, sizeof row->reason, "%s", reason);
    row->epoch_seconds_least = INFINITY;
    row->epoch_seconds_most = 0;
    for (int i = 0; i < count; i++) {
        const ls_study_row *r = &runs[i].row;
        if (!r->repeats) continue;
        row->epoch_seconds_least = fmin(row->epoch_seconds_least, r->epoch_seconds);
        row->epoch_seconds_most = fmax(row->epoch_seconds_most, r->epoch_seconds);
        row->oversubscribed |= r->oversubscribed;
        if (r->peak_rss_bytes > row->peak_rss_bytes) row->peak_rss_bytes = r->peak_rss_bytes;
        if (r->planned_bytes > row->planned_bytes) row->planned_bytes = r->planned_bytes;
        if (finished(r) && strcmp(r->mode, "strong") == 0 && strcmp(r->digest, row->digest) != 0)
            row->digest_differs = 1;
    }
    if (!row->repeats) row->epoch_seconds_least = 0;
    for (size_t m = 0; m < sizeof medians / sizeof medians[0] && row->repeats; m++) {
        int n = 0;
        for (int i = 0; i < count; i++)
            if (runs[i].row.repeats) values[n++] = *(double *)((char *)&runs[i].row + medians[m]);
        *(double *)((char *)row + medians[m]) = ls__median(values, n);
    }
    if (row->repeats) ls__phases_join(row, row_at, runs, count);
    free(values);
    return LS_OK;
}

// Whether the times of two rows may be divided by each other: workers with as many cores each.
static int same_workers(const ls_study_row *a, const ls_study_row *b) {
    return a->replicas_per_worker == b->replicas_per_worker && a->threads_per_replica == b->threads_per_replica;
}

// Against the row with the fewest workers, on the fewest nodes; digests against that of the fewest workers at all.
static void compare(ls_study_run *rows, int count) {
    for (int i = 0; i < count; i++) {
        ls_study_row *row = &rows[i].row;
        const ls_study_row *base = NULL, *least = NULL;
        if (!row->repeats) continue;
        for (int j = 0; j < count; j++) {
            const ls_study_row *other = &rows[j].row;
            if (!other->repeats || compare_recipes(&rows[i], &rows[j]) != 0) continue;
            if (finished(other) && (!least || other->workers < least->workers)) least = other;
            if (same_workers(row, other) && (!base || other->workers < base->workers)) base = other;
        }
        assert(base && (least || !finished(row)));  // it is among them
        if (finished(row) && strcmp(row->mode, "strong") == 0 && strcmp(row->digest, least->digest) != 0)
            row->digest_differs = 1;
        double ratio = strcmp(row->mode, "weak") == 0 ? row->images_per_second / base->images_per_second
                                                      : base->epoch_seconds / row->epoch_seconds;
        row->speedup = known(ratio);
        row->efficiency = row->speedup * base->workers / row->workers;
        ls__loss_find(row, base);
    }
}

// Whether nothing else that tables and charts show tells these rows apart.
static int looks_alike(const ls_study_row *a, const ls_study_row *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->mode, b->mode) == 0 && strcmp(a->data, b->data) == 0 &&
           strcmp(a->precision, b->precision) == 0 && strcmp(a->strategy, b->strategy) == 0 && a->nodes == b->nodes &&
           same_workers(a, b) && (a->global_batch == b->global_batch || strcmp(a->mode, "weak") == 0);
}

// Rows of different recipes say in what they differ from those that look like them.
static ls_status tell_recipes(ls_study_run *rows, int count) {
    const char **recipes;
    char(*told)[LS_RECIPE_TEXT];
    LS_TRY(ls_calloc(count, sizeof *recipes, &recipes));
    ls_status status = ls_calloc(count, sizeof *told, &told);
    for (int i = 0; status == LS_OK && i < count; i++) {
        int n = 0, at = 0;
        for (int j = 0; j < count; j++) {
            if (!looks_alike(&rows[i].row, &rows[j].row)) continue;
            if (j == i) at = n;
            recipes[n++] = rows[j].recipe;
        }
        status = ls__recipes_tell(recipes, n, told);
        snprintf(rows[i].row.recipe, sizeof rows[i].row.recipe, "%s", told[at]);
    }
    free(recipes);
    free(told);
    return status;
}

ls_status ls__study_rows(ls_study_run *runs, int run_count, ls_study *s) {
    ls_study_run *rows;
    qsort(runs, (size_t)run_count, sizeof *runs, compare_runs);
    LS_TRY(ls_calloc(run_count, sizeof *rows, &rows));
    ls_status status = LS_OK;
    int count = 0;
    for (int i = 0, n; i < run_count && status == LS_OK; i += n) {
        for (n = 1; i + n < run_count && compare_rows(&runs[i], &runs[i + n]) == 0;) n++;
        status = join(&runs[i], n, &rows[count++]);
    }
    if (status == LS_OK) status = ls_calloc(count, sizeof *s->rows, &s->rows);
    if (status == LS_OK) {
        qsort(rows, (size_t)count, sizeof *rows, compare_order);
        compare(rows, count);
        status = tell_recipes(rows, count);
        for (int i = 0; i < count; i++) {
            if (rows[i].row.nodes < 1) rows[i].row.nodes = 1;
            rows[i].row.workers_per_node = rows[i].row.workers / rows[i].row.nodes;
            s->rows[s->row_count++] = rows[i].row;
        }
    }
    free(rows);
    return status;
}
