// Which rows may be compared. Times are divided by each other only where the work is the same, and what "the same" means is found in the
// records: the same recipe and batch is strong scaling; a batch that grows with the workers is weak scaling where the samples grow
// with it, and where they do not, the protocol that many labs have. Whatever else differs is another recipe.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_loss.h"
#include "report/study_recipes.h"
#include "report/study_runs.h"

const char *ls_comparison_name(ls_comparison comparison) {
    static const char *const names[LS_COMPARISONS] = {"", "strong", "batch per worker", "weak"};
    return names[comparison];
}

int ls__row_finished(const ls_study_row *row) { return row->repeats > row->stopped; }

static int same(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

// Workers with as many cores each.
static int same_workers(const ls_study_row *a, const ls_study_row *b) {
    return a->replicas_per_worker == b->replicas_per_worker && a->threads_per_replica == b->threads_per_replica;
}

static int same_network(const ls_study_run *a, const ls_study_run *b) {
    return strcmp(a->row.model, b->row.model) == 0 && same_workers(&a->row, &b->row);
}

static int same_work(const ls_study_run *a, const ls_study_run *b) {
    return same_network(a, b) && same(a->recipe, b->recipe) && a->row.train_count == b->row.train_count;
}

// Whether one number is to the other as workers are to workers.
static int in_proportion(double a, const ls_study_row *of_a, double b, const ls_study_row *of_b) {
    return fabs(a * of_b->workers - b * of_a->workers) <= 1e-6 * fabs(a * of_b->workers);
}

static int same_rate(const ls_study_run *a, const ls_study_run *b) {
    return a->lr == b->lr || (isnan(a->lr) && isnan(b->lr));
}

// Batch and perhaps rate grow with the workers; `scaled`: the rate does.
static int batch_grows(const ls_study_run *a, const ls_study_run *b, int scaled) {
    const ls_study_row *x = &a->row, *y = &b->row;
    if (!same_network(a, b) || !same(a->core, b->core)) return 0;
    if (!in_proportion((double)x->global_batch, x, (double)y->global_batch, y)) return 0;
    return scaled ? in_proportion(a->lr, x, b->lr, y) : same_rate(a, b);
}

static int related(const ls_study_run *a, const ls_study_run *b, ls_comparison how, int scaled) {
    const ls_study_row *x = &a->row, *y = &b->row;
    if (how == LS_COMPARED_STRONG) return same_work(a, b);
    if (!batch_grows(a, b, scaled)) return 0;
    if (how == LS_COMPARED_BATCH) return x->train_count == y->train_count;
    return in_proportion((double)x->train_count, x, (double)y->train_count, y);
}

// The row with the fewest workers, on the fewest nodes, that `i` is compared with in this way; -1: there is none but itself.
static int base_of(const ls_study_run *rows, int count, int i, ls_comparison how, int scaled) {
    int base = i, others = 0;
    for (int j = 0; j < count; j++) {
        if (j == i || !rows[j].row.repeats || !related(&rows[i], &rows[j], how, scaled)) continue;
        // With as many workers a growing batch does not grow: those are repeats of one row, or rows of strong scaling.
        if (how != LS_COMPARED_STRONG && rows[j].row.workers == rows[i].row.workers) continue;
        others++;
        const ls_study_row *a = &rows[j].row, *b = &rows[base].row;
        if (a->workers < b->workers || (a->workers == b->workers && a->nodes < b->nodes)) base = j;
    }
    return others ? base : -1;
}

static void find_base(ls_study_run *rows, int count, int i) {
    static const struct {
        ls_comparison how;
        int scaled;
    } ways[] = {{LS_COMPARED_STRONG, 0},
                {LS_COMPARED_BATCH, 0},
                {LS_COMPARED_BATCH, 1},
                {LS_COMPARED_WEAK, 0},
                {LS_COMPARED_WEAK, 1}};
    ls_study_row *row = &rows[i].row;
    row->base = -1;
    row->compared = LS_COMPARED_NOT;
    for (size_t w = 0; w < sizeof ways / sizeof ways[0] && row->base < 0 && row->repeats; w++) {
        row->base = base_of(rows, count, i, ways[w].how, ways[w].scaled);
        if (row->base >= 0) row->compared = ways[w].how;
    }
}

// Against that of the fewest workers that did the same work on the same device, with however many replicas.
static void compare_digests(ls_study_run *rows, int count, int i) {
    ls_study_row *row = &rows[i].row;
    const ls_study_row *least = row;
    if (!ls__row_finished(row) || row->by_timing) return;
    for (int j = 0; j < count; j++) {
        const ls_study_row *other = &rows[j].row;
        if (!ls__row_finished(other) || other->by_timing || strcmp(other->model, row->model) != 0 ||
            !same(rows[i].recipe, rows[j].recipe))
            continue;
        if (other->train_count != row->train_count || other->threads_per_replica != row->threads_per_replica) continue;
        if (strcmp(other->device, row->device) == 0 && other->workers < least->workers) least = other;
    }
    if (strcmp(row->digest, least->digest) != 0) row->digest_differs = 1;
}

void ls__rows_compare(ls_study_run *rows, int count) {
    for (int i = 0; i < count; i++) {
        ls_study_row *row = &rows[i].row;
        compare_digests(rows, count, i);
        find_base(rows, count, i);
        row->speedup = row->efficiency = 0;
        if (row->base < 0) continue;
        const ls_study_row *base = &rows[row->base].row;
        double ratio = base->epoch_seconds / row->epoch_seconds;
        if (row->compared == LS_COMPARED_WEAK) ratio *= (double)row->train_count / (double)base->train_count;
        row->speedup = isfinite(ratio) ? ratio : 0;
        row->efficiency = row->speedup * base->workers / row->workers;
    }
    for (int i = 0; i < count; i++)
        if (rows[i].row.base >= 0) ls__loss_find(&rows[i].row, &rows[rows[i].row.base].row);
}

int ls_study_efficiency_range(const ls_study *study, const ls_study_row *row, double *least, double *most) {
    if (row->base < 0 || !(row->efficiency > 0)) return 0;
    const ls_study_row *base = &study->rows[row->base];
    *least = *most = row->efficiency;
    if (base == row) return 1;
    if (row->repeats < 2 || base->repeats < 2) return 0;
    double slow = row->epoch_seconds_most / row->epoch_seconds, fast = row->epoch_seconds_least / row->epoch_seconds;
    *least = row->efficiency / slow * base->epoch_seconds_least / base->epoch_seconds;
    *most = row->efficiency / fast * base->epoch_seconds_most / base->epoch_seconds;
    return 1;
}

// --- what tells recipes apart ----------------------------------------------------------------------------------------

// Where the batch grows with the workers, a row has the recipe of its base.
static const ls_study_run *of_recipe(const ls_study_run *rows, int i) {
    const ls_study_row *r = &rows[i].row;
    return r->compared == LS_COMPARED_BATCH || r->compared == LS_COMPARED_WEAK ? &rows[r->base] : &rows[i];
}

// Whether nothing else that tables and charts show tells these rows apart.
static int looks_alike(const ls_study_run *rows, int i, int j) {
    const ls_study_row *a = &rows[i].row, *b = &rows[j].row;
    return strcmp(a->model, b->model) == 0 && strcmp(a->data, b->data) == 0 &&
           strcmp(a->precision, b->precision) == 0 && strcmp(a->strategy, b->strategy) == 0 && same_workers(a, b) &&
           of_recipe(rows, i)->row.global_batch == of_recipe(rows, j)->row.global_batch;
}

ls_status ls__rows_tell_recipes(ls_study_run *rows, int count) {
    const char **recipes;
    char(*told)[LS_RECIPE_TEXT];
    LS_TRY(ls_calloc(count, sizeof *recipes, &recipes));
    ls_status status = ls_calloc(count, sizeof *told, &told);
    for (int i = 0; status == LS_OK && i < count; i++) {
        int n = 0, at = 0;
        if (!rows[i].row.repeats) continue;  // as its study tells it
        for (int j = 0; j < count; j++) {
            if (!rows[j].row.repeats || !looks_alike(rows, i, j)) continue;
            if (j == i) at = n;
            recipes[n++] = of_recipe(rows, j)->recipe;
        }
        status = ls__recipes_tell(recipes, n, told);
        snprintf(rows[i].row.recipe, sizeof rows[i].row.recipe, "%s", told[at]);
    }
    free(recipes);
    free(told);
    return status;
}
