// What a run amounted to: metrics, times, memory, and the digest of the weights.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "train/sha256.h"
#include "train/trainer_impl.h"
#include "train/weights.h"

// Each host has the measures of its own micro-batches; the lowest rank of each sends its table round.
static ls_status merge_hosts(ls_trainer *t, int64_t count, double *all) {
    double *table;
    int64_t width = t->measures.width;
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(count * width, sizeof *table, &table)));
    ls_status status = LS_OK;
    for (int position = 0; position < t->comm->size && status == LS_OK; position++) {
        int rank = t->comm->order[position];
        int first = position == 0 || t->comm->host_of[t->comm->order[position - 1]] != t->comm->host_of[rank];
        if (!first) continue;
        memcpy(table, t->table, (size_t)(count * width) * sizeof *table);
        status = ls_comm_broadcast(t->comm, table, count * width * (int64_t)sizeof *table, LS_DTYPE_U8, rank);
        for (int64_t i = 0; i < count; i++)
            if (table[i * width] > 0) memcpy(all + i * width, table + i * width, (size_t)width * sizeof *all);
    }
    free(table);
    return status;
}

ls_status ls__measures_gather(ls_trainer *t, int training, int64_t count, double *sum) {
    LS_TRY(ls_comm_barrier(t->comm));
    ls_history *h = &t->history;
    double *all;
    int64_t width = t->measures.width;
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(count * width, sizeof *all, &all)));
    ls_status status = LS_OK;
    if (t->comm->hosts > 1)
        status = merge_hosts(t, count, all);
    else
        memcpy(all, t->table, (size_t)(count * width) * sizeof *all);
    h->not_finite = -1;
    for (int64_t i = 0; i < count; i++) {
        const double *row = all + i * width;
        double loss = ls__measures_loss(&t->measures, row);
        if (training && !ls__not_finite_counts(t, row)) continue;
        ls__measures_add(&t->measures, sum, row);
        if (h->not_finite < 0 && !isfinite(loss)) h->not_finite = i;
        if (h->not_finite < 0 && row[0] > 0) h->finite_loss = loss;
    }
    free(all);
    if (status == LS_OK) status = ls_comm_barrier(t->comm);  // nobody clears the table while another still reads it
    return status;
}

// --- phases ----------------------------------------------------------------------------------------------------------

static void add_phases(ls_phase_seconds *sum, const ls_phase_seconds *p, double factor) {
#define X(name) sum->name += factor * p->name;
    LS_PHASE_LIST(X)
#undef X
}

static void keep_larger(ls_phase_seconds *most, const ls_phase_seconds *p) {
#define X(name)                                                                                                        \
    if (p->name > most->name) most->name = p->name;
    LS_PHASE_LIST(X)
#undef X
}

void ls__results_epoch(ls_trainer *t, int index) {
    ls_phase_seconds *sum = &t->history.epoch_phases[(ptrdiff_t)2 * index], *most = sum + 1;
    *sum = (ls_phase_seconds){0};
    *most = t->replica[0].phases;
    for (int r = 0; r < t->spread.replicas; r++) {
        add_phases(sum, &t->replica[r].phases, 1);
        keep_larger(most, &t->replica[r].phases);
    }
}

// From what every worker knows of each epoch: `all` is (workers, 2 x epochs).
static void put_together(ls_trainer *t, const ls_phase_seconds *all) {
    ls_history *h = &t->history;
    int workers = t->comm->size;
    int64_t here = t->at.all_steps - t->at.steps_before;  // phases are of this process
    double steps = here > 0 ? (double)here : 1;
    h->phases = (ls_phase_seconds){0};
    memset(h->worker_phases, 0, (size_t)workers * sizeof *h->worker_phases);
    for (int e = 0; e < h->done; e++) h->epochs[e].mean = h->epochs[e].most = (ls_phase_seconds){0};
    for (int w = 0; w < workers; w++)
        for (int e = 0; e < h->done; e++) {
            const ls_phase_seconds *sum = all + 2 * ((int64_t)w * h->done + e), *most = sum + 1;
            add_phases(&h->epochs[e].mean, sum, 1.0 / t->spread.lanes);
            if (w == 0) h->epochs[e].most = *most;
            keep_larger(&h->epochs[e].most, most);
            add_phases(&h->worker_phases[w], sum, 1.0 / t->spread.replicas / steps);
            add_phases(&h->phases, sum, 1.0 / t->spread.lanes / steps);
        }
}

// What the threads that load this worker's training samples were busy with.
static void find_loading(const ls_trainer *t, ls_train_result *r) {
    for (int i = 0; i < t->spread.replicas; i++) {
        double reading = 0, preparing = 0;
        if (t->replica[i].train_loader) ls_loader_spent(t->replica[i].train_loader, &reading, &preparing);
        r->load_reading += reading;
        r->load_preparing += preparing;
    }
    r->loader_threads = t->history.loader_threads;
    r->loader_threads_measured = t->history.loader_threads_measured;
}

// How many they are, of a server none.
static int count_loaders(const ls_trainer *t, int *measured) {
    int threads = 0;
    *measured = 0;
    for (int i = 0; i < t->spread.replicas && !ls__loader_serves(t); i++) {
        ls_loader *loader = t->replica[i].train_loader;
        threads += loader ? ls_loader_threads(loader) : 0;
        *measured |= loader && ls_loader_measured(loader);
    }
    return threads;
}

// Of this worker's replicas, and the sentence of one.
static int64_t count_replaced(const ls_trainer *t, char *text, size_t size) {
    int64_t count = 0;
    for (int r = 0; r < t->spread.replicas; r++) {
        const ls_loader *loaders[] = {t->replica[r].train_loader, t->replica[r].eval_loader};
        for (int k = 0; k < 2; k++) {
            const char *why;
            int64_t replaced = loaders[k] ? ls_loader_replaced(loaders[k], &why) : 0;
            if (replaced && !count) snprintf(text, size, "%s", why);
            count += replaced;
        }
    }
    return count;
}

ls_status ls__results_memory(ls_trainer *t) {
    struct {
        int64_t peak, planned;
        double hidden;
        int64_t replaced;
        char broken[sizeof t->history.broken];
        int loaders, measured;
    } mine = {ls_memory_peak_rss(), t->memory.total.worker, ls_engine_hidden_seconds(t->engine), 0, "", 0, 0}, *all;
    ls_history *h = &t->history;
    mine.replaced = count_replaced(t, mine.broken, sizeof mine.broken);
    mine.loaders = count_loaders(t, &mine.measured);
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(t->comm->size, sizeof *all, &all)));
    ls_status status = ls_comm_allgather(t->comm, &mine, all, sizeof mine);
    h->exchange_hidden = 0;
    h->replaced = 0;
    h->loader_threads = h->loader_threads_measured = 0;
    for (int r = 0; r < t->comm->size; r++) {
        if (t->comm->host_of[r] == t->comm->host) {
            h->loader_threads += all[r].loaders;
            h->loader_threads_measured |= all[r].measured;
        }
        h->replaced += all[r].replaced;
        if (!h->broken[0]) memcpy(h->broken, all[r].broken, sizeof h->broken);
        h->exchange_hidden += all[r].hidden / t->comm->size;
        if (all[r].peak > h->peak_rss) h->peak_rss = all[r].peak;
        if (all[r].planned > h->planned_bytes) h->planned_bytes = all[r].planned;
    }
    free(all);
    return status;
}

ls_status ls__results_gather(ls_trainer *t) {
    LS_TRY(ls__results_memory(t));
    if (t->history.done == 0) return LS_OK;
    ls_phase_seconds *all;
    int64_t bytes = 2 * t->history.done * (int64_t)sizeof *all;
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(t->comm->size, bytes, &all)));
    ls_status status = ls_comm_allgather(t->comm, t->history.epoch_phases, all, bytes);
    if (status == LS_OK) put_together(t, all);
    free(all);
    return status;
}

// --- results ---------------------------------------------------------------------------------------------------------

// Over whole epochs; where there is none over those that were cut short, if they may count.
static ls_status epochs_median(const ls_trainer *t, double (*of)(const ls_epoch_result *), int short_ones,
                               double *out) {
    const ls_history *h = &t->history;
    double *values;
    int64_t whole = 0, any = 0;
    LS_TRY(ls_calloc(h->done, sizeof *values, &values));
    for (int i = 0; i < h->done; i++) whole += h->epochs[i].steps == t->train_shape.steps;
    for (int i = 0; i < h->done; i++)
        if (h->epochs[i].steps == t->train_shape.steps || (short_ones && !whole)) values[any++] = of(&h->epochs[i]);
    *out = ls_median(values, (int)any);
    free(values);
    return LS_OK;
}

double ls_epoch_score(const ls_epoch_result *e) {
    if (!e) return NAN;
    return !isnan(e->val_area) ? e->val_area : !isnan(e->val_accuracy) ? e->val_accuracy : -e->val_loss;
}

static double seconds_of(const ls_epoch_result *e) { return e->seconds; }
static double rate_of(const ls_epoch_result *e) { return e->images_per_second; }

static int all_finite(const float *values, int64_t count) {
    int finite = 1;
    for (int64_t i = 0; i < count; i++) finite &= isfinite(values[i]) != 0;
    return finite;
}

ls_status ls__results_finite(ls_trainer *t) {
    LS_TRY(ls__weights_home(t));
    for (int i = 0; i < t->graph->store->count; i++) {
        const ls_param *p = &t->graph->store->params[i];
        int64_t count = ls_shape_count(p->shape);
        float *plain;
        LS_TRY(ls_memory_alloc(count * 4, &plain));
        ls_status status = ls_params_get(t->params, t->queue, i, t->weights, plain);
        int finite = all_finite(plain, count);
        ls_memory_free(plain);
        LS_TRY(status);
        if (!finite)
            return LS_FAIL(LS_STATUS_DIVERGED,
                           "training diverged: after step %lld, in epoch %d, weights of %s are no finite numbers; the "
                           "loss before was "
                           "%.4g. " LS_DIVERGED_REMEDY,
                           (long long)t->at.all_steps, t->history.done, p->name, t->history.finite_loss);
    }
    return LS_OK;
}

ls_status ls__results_digest(ls_trainer *t, char text[65]) {
    EVP_MD_CTX *sha;
    int finite = 1;
    text[0] = 0;
    LS_TRY(ls__weights_home(t));
    LS_TRY(ls__sha256_begin(&sha));
    ls_status status = LS_OK;
    for (int i = 0; t->weights.buffer && i < t->graph->store->count && status == LS_OK; i++) {
        int64_t count = ls_shape_count(t->graph->store->params[i].shape);
        float *plain = NULL;
        status = ls_memory_alloc(count * 4, &plain);
        if (status == LS_OK) status = ls_params_get(t->params, t->queue, i, t->weights, plain);
        if (status == LS_OK) status = ls__sha256_parameter(sha, plain, count);
        if (status == LS_OK) finite &= all_finite(plain, count);
        ls_memory_free(plain);
    }
    ls__sha256_end(sha, text);
    if (!finite) text[0] = 0;  // all that is no number would have one digest, as if it were the same
    return status;
}

enum { FEW_SAMPLES = 4, FEW_VALUES = 8 };

// Batch normalization over one value gives its shift alone, and nothing before it learns.
static void advise_normalization(const ls_trainer *t, char *text, size_t size) {
    const ls_epoch_shape *s = &t->train_shape;
    int64_t samples = s->rest ? s->rest : s->micro_batch < s->count ? s->micro_batch : s->count, least = 0;
    const ls_node *which = NULL;
    for (const ls_node *n = t->graph->nodes; n < t->graph->nodes + t->graph->node_count; n++)
        for (int p = 0; p < n->param_count; p++) {
            if (t->graph->store->params[n->params[p]].role != LS_PARAM_STATISTIC) continue;
            if (!ls__graph_trains(t->graph, n->params[p])) continue;
            ls_shape x = n->output[0].shape;
            int64_t positions = ls_shape_count(x) / x.dim[x.ndim - 1];
            if (!which || positions < least) which = n, least = positions;
        }
    if (!which) return;
    if (samples < FEW_SAMPLES || samples * least < FEW_VALUES)
        snprintf(
            text, size,
            "layer %.60s: batch normalization over the %lld value%s of a micro-batch of %lld sample%s, which is too "
            "few to learn by: take larger micro-batches, or a larger batch",
            which->name, (long long)(samples * least), samples * least == 1 ? "" : "s", (long long)samples,
            samples == 1 ? "" : "s");
    else if (s->tail * least == 1)
        snprintf(text, size,
                 "layer %.60s: batch normalization over 1 value in the last step of an epoch, for which 1 sample is "
                 "left: drop the remainder, or take another batch size",
                 which->name);
}

ls_status ls_trainer_result(ls_trainer *t, ls_train_result *out) {
    LS_NEED(out, "out");
    LS_NEED(t, "trainer");
    const ls_history *h = &t->history;
    const ls_spread *s = &t->spread;
    int64_t here = t->at.all_steps - t->at.steps_before;
    ls_algorithm algorithm = t->choices.compress == LS_COMPRESS_TOPK ? LS_ALGORITHM_DIRECT : t->choices.algorithm;
    int64_t length = ls_params_length(t->params);
    ls_train_result r = {.epochs = h->done,
                         .epoch = h->epochs,
                         .steps_per_epoch = t->train_shape.steps,
                         .step_seconds_median = ls_median(t->replica[0].step_seconds, (int)t->replica[0].step_count),
                         .test_loss = h->test_loss,
                         .test_accuracy = h->test_accuracy,
                         .train_seconds = h->train_seconds,
                         .evaluate_seconds = h->evaluate_seconds,
                         .phases = h->phases,
                         .worker_phases = h->worker_phases,
                         .peak_rss_bytes = h->peak_rss,
                         .planned_bytes = h->planned_bytes,
                         .workers = t->comm->size,
                         .hosts = t->comm->hosts,
                         .servers = s->roles.servers,
                         .replicas_per_worker = s->replicas,
                         .threads_per_replica = t->config.threads,
                         .cores_per_worker = s->cores,
                         .idle_cores = s->idle,
                         .oversubscribed = s->replicas * t->config.threads > s->cores,
                         .comm_cores = s->comm_cores,
                         .buckets = t->bucket_count,
                         .algorithm = ls_strategy_algorithm(t->choices.strategy, algorithm, t->comm->hosts, length),
                         .tuned = t->tuned.megabytes > 0 ? t->tuned_earlier ? "cached" : "measured" : "",
                         .bucket_megabytes = t->tuned.megabytes,
                         .bucket_seconds = t->tuned.speed.bucket_seconds,
                         .exchange_bytes_per_second = t->tuned.speed.bytes_per_second,
                         .exchange_hidden = h->exchange_hidden / (here > 0 ? (double)here : 1),
                         .samples_replaced = h->replaced,
                         .weight_decay = t->choices.optimizer_params.weight_decay,
                         .weight_decay_form = t->choices.optimizer->decay,
                         .l2 = t->choices.optimizer_params.l2,
                         .loss_scale = t->at.scale,
                         .loss_scale_dynamic = t->choices.loss_scale.dynamic,
                         .synchronous = t->choices.strategy->synchronous && (!t->async || t->config.staleness == 0),
                         .digest_by_timing = ls__async_by_timing(t),
                         .global_batch = t->config.batch_size,
                         .micro_batch = t->config.micro_batch,
                         .image = t->images.shape,
                         .channel_mean = t->images.mean,
                         .channel_deviation = t->images.deviation};
    if (t->async) {
        ls_staleness stale = ls_async_staleness(t->async);
        r.pushes = stale.pushes;
        r.staleness_largest = stale.largest;
        r.staleness_mean = stale.pushes ? (double)stale.sum / (double)stale.pushes : 0;
    }
    LS_TRY(epochs_median(t, seconds_of, 0, &r.epoch_seconds_median));
    LS_TRY(epochs_median(t, rate_of, 1, &r.images_per_second));
    if (h->done > 0) {
        r.train_loss = h->epochs[h->done - 1].loss;
        r.train_accuracy = h->epochs[h->done - 1].accuracy;
    }
    snprintf(r.replicas_reason, sizeof r.replicas_reason, "%s", s->reason);
    snprintf(r.cores_advice, sizeof r.cores_advice, "%s", s->advice);
    advise_normalization(t, r.normalization_advice, sizeof r.normalization_advice);
    t->device->ops->describe(t->device, r.device_description, sizeof r.device_description);
    t->comm->ops->describe(t->comm, r.comm_description, sizeof r.comm_description);
    snprintf(r.broken_sample, sizeof r.broken_sample, "%s", h->broken);
    snprintf(r.probe, sizeof r.probe, "%s", h->probe);
    find_loading(t, &r);
    LS_TRY(ls__results_digest(t, r.weights_digest));
    *out = r;
    return LS_OK;
}

const char *ls_trainer_not_finite(const ls_trainer *t) { return t ? t->history.cause : ""; }

int ls_trainer_measure_count(const ls_trainer *t) { return t ? t->measures.value_count : 0; }

ls_measure_result ls_trainer_measure(const ls_trainer *t, int index) {
    if (!t || index < 0 || index >= t->measures.value_count) return (ls_measure_result){0};
    const ls_measured *train = &t->history.train_values[index], *test = &t->history.test_values[index];
    return (ls_measure_result){
        .name = train->name, .is_loss = train->is_loss, .train = train->value, .test = test->value};
}

static const ls_measure *tells_classes(const ls_measures *m) {
    for (int i = 0; i < m->count; i++)
        if (m->list[i].op->tells_classes) return &m->list[i];
    return NULL;
}

static const ls_measure *tells_labels(const ls_measures *m) {
    for (int i = 0; i < m->count; i++)
        if (m->list[i].op->tells_labels) return &m->list[i];
    return NULL;
}

double ls__results_area(const ls_trainer *t) {
    const ls_measure *one = tells_labels(&t->measures);
    for (int i = 0; one && i < t->measures.value_count; i++)
        if (strcmp(t->history.test_values[i].name, one->name) == 0) return t->history.test_values[i].value;
    return NAN;
}

ls_status ls_trainer_label_scores(const ls_trainer *t, ls_label_scores *out) {
    LS_NEED(t, "trainer");
    LS_NEED(out, "out");
    const ls_measure *one = tells_labels(&t->measures);
    if (!one || !t->rows.table)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "model %s has no areas under ROC curves, whose scores these are: a dataset of several labels, or "
            "ls_auc, gives it some",
            t->network->name);
    if (t->history.evaluate_seconds <= 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "nothing was evaluated yet: call ls_trainer_evaluate first");
    *out = (ls_label_scores){t->rows.samples, one->parts, t->rows.table + one->at * t->rows.samples};
    return LS_OK;
}

ls_status ls_trainer_confusion(const ls_trainer *t, int64_t *counts, int classes) {
    LS_NEED(t, "trainer");
    LS_NEED(counts, "counts");
    const ls_measure *one = tells_classes(&t->measures);
    if (!one || !t->rows.table)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s has no balanced accuracy, from which it is known what was taken for what: "
                       "ls_graph_classifier adds it",
                       t->network->name);
    if (classes != ls_graph_classes(t->network))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "model %s has %d classes, and not %d", t->network->name,
                       ls_graph_classes(t->network), classes);
    if (t->history.evaluate_seconds <= 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "nothing was evaluated yet: call ls_trainer_evaluate first");
    const double *row = t->rows.table + one->at * t->rows.samples;
    memset(counts, 0, (size_t)classes * (size_t)classes * sizeof *counts);
    for (int64_t n = 0; n < t->rows.samples; n++, row += one->count)
        counts[(int64_t)row[0] * classes + (int64_t)row[1]]++;
    return LS_OK;
}

// --- weights ---------------------------------------------------------------------------------------------------------

static ls_status get(void *user, int param, float *values) {
    ls_trainer *t = user;
    LS_TRY(ls__weights_home(t));
    return ls_params_get(t->params, t->queue, param, t->weights, values);
}

static ls_status set(void *user, int param, const float *values) {
    ls_trainer *t = user;
    if (!ls_engine_writes_weights(t->engine)) return LS_OK;
    return ls_params_set(t->params, t->queue, param, t->weights, values);
}

static ls_status changed(void *user) {
    ls_trainer *t = user;
    return ls_engine_weights_changed(t->engine, t->queue);
}

static ls_weights weights_of(ls_trainer *t) {
    return (ls_weights){
        .graph = t->graph, .comm = t->comm, .finite = 1, .user = t, .get = get, .set = set, .changed = changed};
}

ls_status ls_trainer_load_weights(ls_trainer *t, const char *path) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(path, "path");
    LS_TRY(ls__weights_home(t));
    ls_weights w = weights_of(t);
    return ls__weights_load(&w, path, 0, NULL);
}

ls_status ls_trainer_load_weights_by_name(ls_trainer *t, const char *path, int *taken) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(path, "path");
    LS_TRY(ls__weights_home(t));
    ls_weights w = weights_of(t);
    return ls__weights_load(&w, path, 1, taken);
}

ls_status ls_trainer_load_body(ls_trainer *t, const char *path, const ls_graph *body, int *taken) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(path, "path");
    LS_NEED(body, "body");
    LS_TRY(ls__weights_home(t));
    ls_weights w = weights_of(t);
    w.body = ls_graph_store(body);
    return ls__weights_load(&w, path, 0, taken);
}

ls_status ls_trainer_save_weights(ls_trainer *t, const char *path) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(path, "path");
    LS_TRY(ls__weights_home(t));
    ls_weights w = weights_of(t);
    return ls__weights_save(&w, path);
}

ls_status ls_trainer_get_weights(ls_trainer *t, const char *parameter, float *out, int64_t count) {
    LS_NEED(out, "out");
    LS_NEED(t, "trainer");
    LS_NEED(parameter, "parameter");
    ls_weights w = weights_of(t);
    return ls__weights_get(&w, parameter, out, count);
}

ls_status ls_trainer_set_weights(ls_trainer *t, const char *parameter, const float *values, int64_t count) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(parameter, "parameter");
    LS_NEED(values, "values");
    LS_TRY(ls__weights_home(t));
    ls_weights w = weights_of(t);
    return ls__weights_set(&w, parameter, values, count);
}
