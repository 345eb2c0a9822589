// Evaluation that looks at each image several times: the network's scores of its views are added up in a row for each sample, and loss and
// accuracy are found from their mean. A row is written by the lane that has the sample, view after view in one order, so the numbers are
// the same for any number of workers.
#include "train/views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/augment.h"
#include "train/trainer_impl.h"

// Source of the last: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, section 3.5.
static const ls_views_kind kinds[] = {
    {"none", "the images as they are", 0, NULL},
    {"flip", "them and their mirror images", 2, (const double[]){0.5, 0.5}},
    {"flip-translate", "these two, and with the same weight both moved by a pixel, up and left, and down and right",
     LS_VIEWS, (const double[]){0.25, 0.25, 0.125, 0.125, 0.125, 0.125}},
};

const ls_views_kind *ls__views_kind(int index) {
    return index >= 0 && (size_t)index < sizeof kinds / sizeof kinds[0] ? &kinds[index] : NULL;
}

static const ls_views_kind *find(const char *name) {
    const ls_views_kind *kind;
    for (int i = 0; (kind = ls__views_kind(i)); i++)
        if (strcmp(kind->name, name) == 0) return kind;
    return NULL;
}

// The input that has the class of each sample; -1: none.
static int find_label(const ls_trainer *t, int64_t classes) {
    for (int i = 0; i < t->graph->input_count; i++)
        if (ls_graph_input_at(t->graph, i).dtype == LS_DTYPE_I32 &&
            ls__graph_target_classes(t->graph, t->graph->inputs[i]) == classes)
            return i;
    return -1;
}

static int count_losses(const ls_measures *m) {
    int losses = 0;
    for (int i = 0; i < m->count; i++) losses += m->list[i].op->part == LS_PART_LOSS;
    return losses;
}

ls_status ls__views_resolve(ls_trainer *t) {
    const ls_views_kind *kind = find(t->config.tta);
    ls_views *v = &t->views;
    if (!kind)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "unknown test-time augmentation '%.64s': there are none, flip and flip-translate",
                       t->config.tta);
    if (kind->count == 0) return LS_OK;
    ls_shape scores = t->graph->output_count == 1 ? ls_graph_output_at(t->graph, 0).shape : (ls_shape){0};
    v->label = scores.ndim == 1 ? find_label(t, scores.dim[0]) : -1;
    if (v->label < 0 || count_losses(&t->measures) != 1 || t->measures.accuracy < 0 || t->inputs.image < 0 ||
        !t->inputs.feed[t->inputs.image].image)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "test-time augmentation averages the scores of a classifier of images, pixels of u8, which model "
            "%s on dataset %s is not: leave it out",
            t->network->name, t->dataset->name);
    LS_TRY(ls_augment_check(LS_AUGMENT_VIEW, t->images.shape));
    v->count = kind->count;
    v->weight = kind->weight;
    v->classes = (int)scores.dim[0];
    v->one = (ls_measure){.name = "scores", .count = 1 + v->classes, .rows = 1, .parts = 1};
    v->measures = (ls_measures){.list = &v->one, .count = 1, .row_width = 1 + v->classes, .accuracy = -1};
    return LS_OK;
}

ls_status ls__views_take(ls_replica *r, const ls_plan *plan, const ls_batch *batch, int64_t first) {
    ls_views *v = &r->trainer->views;
    const int32_t *label = batch->feed[v->label];
    double weight = v->weight[v->now], *row = v->rows.table + first * (1 + v->classes);
    int begins = v->now == v->count - 1;
    float *scores;
    LS_TRY(ls_calloc(batch->count * v->classes, sizeof *scores, &scores));
    ls_status status =
        ls_read(r->queue, scores, ls_plan_output(plan, 0), batch->count * v->classes * (int64_t)sizeof *scores);
    if (status == LS_OK) status = ls_synchronize(r->queue);
    for (int64_t n = 0; n < batch->count && status == LS_OK; n++, row += 1 + v->classes) {
        row[0] = label[n];
        for (int c = 0; c < v->classes; c++)
            row[1 + c] = (begins ? 0 : row[1 + c]) + weight * (double)scores[n * v->classes + c];
    }
    free(scores);
    memset(v->rows.seen + first, 1, (size_t)batch->count);
    return status;
}

// The one with the largest score, of equals the first.
static int largest(const double *score, int classes) {
    int best = 0;
    for (int c = 1; c < classes; c++)
        if (score[c] > score[best]) best = c;
    return best;
}

static double cross_entropy(const double *score, int classes, int label) {
    double most = score[largest(score, classes)], sum = 0;
    for (int c = 0; c < classes; c++) sum += exp(score[c] - most);
    return log(sum) + most - score[label];
}

// What is taken for what, where that is wanted.
static void put_class(const ls_trainer *t, int64_t sample, int taken_for) {
    for (int i = 0; i < t->measures.count; i++) {
        const ls_measure *one = &t->measures.list[i];
        if (one->op->tells_classes) t->rows.table[one->at * t->rows.samples + sample * one->count + 1] = taken_for;
    }
}

ls_status ls__views_finish(ls_trainer *t, double *loss, double *accuracy) {
    ls_views *v = &t->views;
    int64_t samples = v->rows.samples, right = 0;
    double sum = 0;
    LS_TRY(ls__rows_gather(&v->rows, t->comm));
    const double *row = v->rows.table;
    for (int64_t n = 0; n < samples; n++, row += 1 + v->classes) {
        int taken_for = largest(row + 1, v->classes);
        right += taken_for == (int)row[0];
        sum += cross_entropy(row + 1, v->classes, (int)row[0]);
        if (t->comm->local_rank == 0) put_class(t, n, taken_for);
    }
    *loss = sum / (double)samples;
    *accuracy = (double)right / (double)samples;
    return ls_comm_barrier(t->comm);  // nobody writes rows while another still reads them
}

void ls__views_values(const ls_trainer *t, double loss, double accuracy, ls_measured *values) {
    const ls_measures *m = &t->measures;
    for (int i = 0, at = 0; i < m->count; i++) {
        const ls_measure *one = &m->list[i];
        int count = one->parts > 1 ? 1 + one->parts : 1;
        for (int k = 0; k < count && !one->rows; k++)
            values[at + k].value = one->op->part == LS_PART_LOSS ? loss : i == m->accuracy ? accuracy : NAN;
        at += count;
    }
}
