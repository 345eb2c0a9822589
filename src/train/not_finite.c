// Numbers that are none any more: where they come from, and what becomes of training.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/trainer_impl.h"

enum { NAMED_SAMPLES = 3 };

ls_status ls__not_finite_policy(const char *name, ls_not_finite *out) {
    static const char *const names[] = {"stop", "skip", "continue"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (ls_not_finite)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown policy '%s' for numbers that are not finite: there are stop, skip and continue", name);
}

int ls__not_finite_counts(const ls_trainer *t, const double *row) {
    return t->choices.not_finite != LS_NOT_FINITE_SKIP || isfinite(ls__measures_loss(&t->measures, row));
}

// --- what a replica finds --------------------------------------------------------------------------------------------

// The number that lists of exclusions have it by.
static long long number_of(const ls_replica *r, int64_t i) {
    return (long long)ls_source_number(r->trainer->dataset->train, (int64_t)r->key->samples[i]);
}

// "samples 17, 4 and 2 more", by their numbers in the training set.
static void name_samples(const ls_replica *r, const char *marked, int64_t batch, char *text, size_t size) {
    int64_t found = 0, named = 0;
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < batch; i++) found += marked[i];
    if (found == 0 || (found == batch && batch > NAMED_SAMPLES)) {
        snprintf(text, size, "any of the %lld samples of a micro-batch, the first of which is number %lld",
                 (long long)batch, number_of(r, 0));
        return;
    }
    for (int64_t i = 0; i < batch && named < NAMED_SAMPLES; i++) {
        if (!marked[i]) continue;
        const char *before = named == 0 ? (found > 1 ? "samples " : "sample ") : named + 1 == found ? " and " : ", ";
        ls_text_add(text, size, &used, "%s%lld", before, number_of(r, i));
        named++;
    }
    if (found > named) ls_text_add(text, size, &used, " and %lld more", (long long)(found - named));
}

static void tell(const ls_replica *r, const ls_finding *f, int64_t batch, char *text, size_t size) {
    char samples[128];
    name_samples(r, f->samples, batch, samples, sizeof samples);
    switch (f->what) {
    case LS_FOUND_NOTHING:
        snprintf(text, size,
                 "not seen again in a second forward pass of the same micro-batch: look at the memory of "
                 "this machine");
        break;
    case LS_FOUND_INPUT: snprintf(text, size, "in the data: %s, fed to layer %s", samples, f->node); break;
    case LS_FOUND_WEIGHTS:
        snprintf(text, size, "in the weights %s, as they were before this step", f->parameter);
        break;
    case LS_FOUND_OUTPUT:
        snprintf(text, size, "in what layer %s made, of finite inputs and weights, of %s", f->node, samples);
        break;
    }
}

void ls__not_finite_look(ls_replica *r, ls_plan *plan, const ls_feeds *feeds, int64_t micro_batch, int64_t batch,
                         const double *row) {
    ls_trainer *t = r->trainer;
    ls_finding finding = {0};
    // On other devices the row is not there yet; what the epoch's end says is without a place.
    if (t->choices.not_finite == LS_NOT_FINITE_CONTINUE) return;
    if (!t->device->ops->host_memory || isfinite(ls__measures_loss(&t->measures, row)) || r->found.key) return;
    r->found.key = 2 * ((t->async ? t->at.batch : t->at.step) * t->train_shape.micro_batches + micro_batch) + 1;
    snprintf(r->found.text, sizeof r->found.text, "not looked for: memory ran out");
    if (ls_memory_alloc(batch, &finding.samples) != LS_OK) return;
    if (ls_plan_examine(plan, r->queue, feeds, &finding) == LS_OK)
        tell(r, &finding, batch, r->found.text, sizeof r->found.text);
    ls_memory_free(finding.samples);
}

// The parameter that an element of the vector belongs to.
static const char *parameter_at(const ls_trainer *t, int64_t element) {
    const ls_store *store = t->graph->store;
    for (int i = 0; i < store->count; i++) {
        int64_t begin = ls_params_offset(t->params, i);
        if (begin >= 0 && element >= begin && element < begin + ls_shape_count(store->params[i].shape))
            return store->params[i].name;
    }
    return "a parameter";
}

int ls__not_finite_after(ls_replica *r, int64_t step) {
    ls_trainer *t = r->trainer;
    int64_t element = ls_engine_not_finite(t->engine, r->index);
    if (element < 0 || r->found.key) return 0;
    r->found.key = 2 * step * t->train_shape.micro_batches;
    int fixed = t->choices.loss_scale.used && !t->choices.loss_scale.dynamic;
    snprintf(
        r->found.text, sizeof r->found.text, "in the weights %s, as the update of that step made them of finite ones%s",
        parameter_at(t, element),
        fixed ? ", with a loss scale that is fixed: a smaller one, or dynamic, where gradients were too large" : "");
    return 1;
}

int ls__not_finite_found(const ls_trainer *t) {
    int found = 0;
    for (int i = 0; i < t->spread.replicas; i++) found |= t->replica[i].found.key != 0;
    return found;
}

// --- what all of them know -------------------------------------------------------------------------------------------

ls_status ls__not_finite_gather(ls_trainer *t, int64_t *step, int *in_weights) {
    ls_found_first mine = {0}, *all;
    for (int i = 0; i < t->spread.replicas; i++) {
        ls_found_first *one = &t->replica[i].found;
        if (one->key && (!mine.key || one->key < mine.key)) mine = *one;
        *one = (ls_found_first){0};
    }
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(t->comm->size, sizeof *all, &all)));
    ls_status status = ls_comm_allgather(t->comm, &mine, all, sizeof mine);
    mine = (ls_found_first){0};
    for (int r = 0; r < t->comm->size; r++)
        if (all[r].key && (!mine.key || all[r].key < mine.key)) mine = all[r];
    free(all);
    *step = mine.key ? (mine.key - 1) / 2 / t->train_shape.micro_batches + 1 : 0;
    *in_weights = mine.key % 2 == 0;
    snprintf(t->history.cause, sizeof t->history.cause, "%s", mine.text);
    return status;
}
