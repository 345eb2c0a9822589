// From runs to rows: runs put in order, repeats of one configuration put together, rows compared.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "report/study_loss.h"
#include "report/study_runs.h"

double ls__median(double *values, int count) {
    int n = 0;
    for (int i = 0; i < count; i++)
        if (isfinite(values[i])) values[n++] = values[i];
    return n ? ls_median(values, n) : NAN;
}

static int compare_recipes(const ls_study_run *a, const ls_study_run *b) {
    int c = strcmp(a->row.model, b->row.model);
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

// The rows' order: model (resnet50 before resnet152), nodes, workers; then recipe and the rest, so that it is the same however paths were given.
static int compare_order(const void *a, const void *b) {
    const ls_study_run *x = a, *y = b;
    int c = strverscmp(x->row.model, y->row.model);
    if (!c) c = x->row.nodes - y->row.nodes;
    if (!c) c = x->row.workers - y->row.workers;
    return c ? c : compare_rows(x, y);
}

// The fields that are medians over repeats.
static double *median_field(ls_study_row *r, int i) {
    double *const fields[] = {&r->read_seconds,  &r->step_seconds_median, &r->total_seconds, &r->epoch_seconds,
                              &r->test_loss,     &r->first_epoch_seconds, &r->test_accuracy, &r->images_per_second,
                              &r->until_seconds, &r->until_epoch,         &r->test_top_5};
    return i < (int)(sizeof fields / sizeof fields[0]) ? fields[i] : NULL;
}

static const ls_study_row *row_at(const void *runs, int i) { return &((const ls_study_run *)runs)[i].row; }

// Puts `count` runs of one configuration together into the first of them with a record.
static ls_status join(ls_study_run *runs, int count, ls_study_run *out) {
    double *values;
    LS_TRY(ls_calloc(count, sizeof *values, &values));
    int first = 0, failed = 0, stopped = 0;
    const char *reason = "";
    for (int i = count - 1; i >= 0; i--) {
        const ls_study_row *r = &runs[i].row, *best = &runs[first].row;
        if (ls__row_finished(r) || (r->repeats && !ls__row_finished(best)) || !best->repeats) first = i;
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
        if (ls__row_finished(r) && strcmp(r->device, row->device) == 0 && strcmp(r->digest, row->digest) != 0)
            row->digest_differs = !row->by_timing;
    }
    if (!row->repeats) row->epoch_seconds_least = 0;
    for (int m = 0; median_field(row, m) && row->repeats; m++) {
        int n = 0;
        for (int i = 0; i < count; i++)
            if (runs[i].row.repeats) values[n++] = *median_field(&runs[i].row, m);
        *median_field(row, m) = ls__median(values, n);
    }
    // Of the epoch whose time counts, so that all numbers of a row are of one epoch.
    if (row->train_count > 0 && row->epoch_seconds > 0)
        row->images_per_second = (double)row->train_count / row->epoch_seconds;
    row->step_seconds = row->steps > 0 ? row->epoch_seconds / (double)row->steps : row->step_seconds_median;
    if (row->repeats) ls__phases_join(row, row_at, runs, count);
    free(values);
    return LS_OK;
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
        ls__rows_compare(rows, count);
        status = ls__rows_tell_recipes(rows, count);
        for (int i = 0; i < count; i++) {
            if (rows[i].row.nodes < 1) rows[i].row.nodes = 1;
            rows[i].row.workers_per_node = rows[i].row.workers / rows[i].row.nodes;
            s->rows[s->row_count++] = rows[i].row;
        }
    }
    free(rows);
    return status;
}
