// What a run amounted to: metrics, times, memory, and the digest of the weights.
#include <math.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

// Each host has the metrics of its own micro-batches; the lowest rank of each sends its table round.
static ls_status merge_hosts(ls_trainer *t, int64_t count, double *all) {
    double *table;
    int64_t width = t->measures.width;
    LS_TRY(ls_calloc(count * width, sizeof *table, &table));
    ls_status status = LS_OK;
    for (int position = 0; position < t->comm->size && status == LS_OK; position++) {
        int rank = t->comm->order[position];
        int first = position == 0 || t->comm->host_of[t->comm->order[position - 1]] != t->comm->host_of[rank];
        if (!first) continue;
        memcpy(table, t->metrics, (size_t)(count * width) * sizeof *table);
        status = ls_comm_broadcast(t->comm, table, count * width * (int64_t)sizeof *table, LS_DTYPE_U8, rank);
        for (int64_t i = 0; i < count; i++)
            if (table[i * width] > 0) memcpy(all + i * width, table + i * width, (size_t)width * sizeof *all);
    }
    free(table);
    return status;
}

ls_status ls__metrics_sum(ls_trainer *t, int64_t count, double *sum) {
    LS_TRY(ls_comm_barrier(t->comm));
    double *all;
    int64_t width = t->measures.width;
    LS_TRY(ls_calloc(count * width, sizeof *all, &all));
    ls_status status = LS_OK;
    if (t->comm->hosts > 1)
        status = merge_hosts(t, count, all);
    else
        memcpy(all, t->metrics, (size_t)(count * width) * sizeof *all);
    memset(sum, 0, (size_t)width * sizeof *sum);
    t->not_finite = -1;
    for (int64_t i = 0; i < count; i++) {
        const double *row = all + i * width;
        double loss = ls__measures_loss(&t->measures, row);
        ls__measures_add(&t->measures, sum, row);
        if (t->not_finite < 0 && !isfinite(loss)) t->not_finite = i;
        if (t->not_finite < 0 && row[0] > 0) t->finite_loss = loss;
    }
    free(all);
    if (status == LS_OK) status = ls_comm_barrier(t->comm);  // nobody clears the table while another still reads it
    return status;
}

enum { PHASES = sizeof(ls_phase_seconds) / sizeof(double) };

static double *phase(ls_phase_seconds *p, int i) { return (double *)p + i; }

void ls__results_epoch(ls_trainer *t, int index) {
    ls_phase_seconds *sum = &t->epoch_phases[2 * index], *most = sum + 1;
    for (int r = 0; r < t->replicas; r++)
        for (int i = 0; i < PHASES; i++) {
            double x = *phase(&t->replica[r].phases, i);
            *phase(sum, i) += x;
            *phase(most, i) = r == 0 || x > *phase(most, i) ? x : *phase(most, i);
        }
}

// From what every worker knows of each epoch: `all` is (workers, 2 x epochs).
static void put_together(ls_trainer *t, ls_phase_seconds *all) {
    int workers = t->comm->size;
    double steps = t->step > 0 ? (double)t->step : 1;
    t->phases = (ls_phase_seconds){0};
    memset(t->worker_phases, 0, (size_t)workers * sizeof *t->worker_phases);
    for (int e = 0; e < t->epochs_done; e++) t->epochs[e].mean = t->epochs[e].most = (ls_phase_seconds){0};
    for (int w = 0; w < workers; w++)
        for (int e = 0; e < t->epochs_done; e++)
            for (int i = 0; i < PHASES; i++) {
                ls_epoch_result *epoch = &t->epochs[e];
                ls_phase_seconds *theirs = all + 2 * ((int64_t)w * t->epochs_done + e);
                double sum = *phase(theirs, i), most = *phase(theirs + 1, i);
                *phase(&epoch->mean, i) += sum / t->lanes;
                if (w == 0 || most > *phase(&epoch->most, i)) *phase(&epoch->most, i) = most;
                *phase(&t->worker_phases[w], i) += sum / t->replicas / steps;
                *phase(&t->phases, i) += sum / t->lanes / steps;
            }
}

ls_status ls__results_memory(ls_trainer *t) {
    struct {
        int64_t peak, planned;
    } mine = {ls_memory_peak_rss(), t->memory.total.worker}, *all;
    LS_TRY(ls_calloc(t->comm->size, sizeof *all, &all));
    ls_status status = ls_comm_allgather(t->comm, &mine, all, sizeof mine);
    for (int r = 0; r < t->comm->size; r++) {
        if (all[r].peak > t->peak_rss) t->peak_rss = all[r].peak;
        if (all[r].planned > t->planned_bytes) t->planned_bytes = all[r].planned;
    }
    free(all);
    return status;
}

ls_status ls__results_gather(ls_trainer *t) {
    LS_TRY(ls__results_memory(t));
    if (t->epochs_done == 0) return LS_OK;
    ls_phase_seconds *all;
    int64_t bytes = 2 * t->epochs_done * (int64_t)sizeof *all;
    LS_TRY(ls_calloc(t->comm->size, bytes, &all));
    ls_status status = ls_comm_allgather(t->comm, t->epoch_phases, all, bytes);
    if (status == LS_OK) put_together(t, all);
    free(all);
    return status;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *values, int64_t count) {
    if (count == 0) return 0;
    double *sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted) return 0;
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    double m = count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
    free(sorted);
    return m;
}

// Over whole epochs, of the double at `offset`; where there is none over those that were cut short, if they may count.
static ls_status epochs_median(const ls_trainer *t, size_t offset, int short_ones, double *out) {
    double *values;
    int64_t whole = 0, any = 0;
    LS_TRY(ls_calloc(t->epochs_done, sizeof *values, &values));
    for (int i = 0; i < t->epochs_done; i++) whole += t->epochs[i].steps == t->train_shape.steps;
    for (int i = 0; i < t->epochs_done; i++)
        if (t->epochs[i].steps == t->train_shape.steps || (short_ones && !whole))
            values[any++] = *(const double *)((const char *)&t->epochs[i] + offset);
    *out = median(values, any);
    free(values);
    return LS_OK;
}

static int all_finite(const float *values, int64_t count) {
    int finite = 1;
    for (int64_t i = 0; i < count; i++) finite &= isfinite(values[i]) != 0;
    return finite;
}

ls_status ls__results_finite(ls_trainer *t) {
    for (int i = 0; i < t->graph->store->count; i++) {
        const ls_param *p = &t->graph->store->params[i];
        int64_t count = ls_shape_count(p->shape);
        float *plain;
        LS_TRY(ls_memory_alloc(count * 4, &plain));
        ls_status status = ls_params_get(t->params, t->queue, i, (ls_span){t->weights, 0}, plain);
        int finite = all_finite(plain, count);
        ls_memory_free(plain);
        LS_TRY(status);
        if (!finite)
            return LS_FAIL(LS_STATUS_DIVERGED,
                           "training diverged: after step %lld, in epoch %d, weights of %s are no finite numbers; the "
                           "loss before was "
                           "%.4g. " LS_DIVERGED_REMEDY,
                           (long long)t->step, t->epochs_done, p->name, t->finite_loss);
    }
    return LS_OK;
}

ls_status ls__results_digest(ls_trainer *t, char text[65]) {
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    int finite = 1;
    if (!sha) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = EVP_DigestInit_ex(sha, EVP_sha256(), NULL) == 1
                           ? LS_OK
                           : LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not start a SHA-256");
    for (int i = 0; t->weights && i < t->graph->store->count && status == LS_OK; i++) {
        int64_t count = ls_shape_count(t->graph->store->params[i].shape);
        float *plain = NULL;
        status = ls_memory_alloc(count * 4, &plain);
        if (status == LS_OK) status = ls_params_get(t->params, t->queue, i, (ls_span){t->weights, 0}, plain);
        if (status == LS_OK) EVP_DigestUpdate(sha, plain, (size_t)count * 4);
        if (status == LS_OK) finite &= all_finite(plain, count);
        ls_memory_free(plain);
    }
    unsigned char bytes[EVP_MAX_MD_SIZE] = {0};
    EVP_DigestFinal_ex(sha, bytes, NULL);
    EVP_MD_CTX_free(sha);
    for (int i = 0; i < 32; i++) snprintf(text + (ptrdiff_t)2 * i, 3, "%02x", bytes[i]);
    if (!finite) text[0] = 0;  // all that is no number would have one digest, as if it were the same
    return status;
}

ls_status ls_trainer_result(ls_trainer *t, ls_train_result *out) {
    ls_train_result r = {.epochs = t->epochs_done,
                         .epoch = t->epochs,
                         .steps_per_epoch = t->train_shape.steps,
                         .step_seconds_median = median(t->replica[0].step_seconds, t->replica[0].step_count),
                         .test_loss = t->test_loss,
                         .test_accuracy = t->test_accuracy,
                         .train_seconds = t->train_seconds,
                         .evaluate_seconds = t->evaluate_seconds,
                         .phases = t->phases,
                         .worker_phases = t->worker_phases,
                         .peak_rss_bytes = t->peak_rss,
                         .planned_bytes = t->planned_bytes,
                         .workers = t->comm->size,
                         .hosts = t->comm->hosts,
                         .replicas_per_worker = t->replicas,
                         .threads_per_replica = t->config.threads,
                         .global_batch = t->config.batch_size,
                         .micro_batch = t->config.micro_batch,
                         .image = t->image,
                         .channel_mean = t->channel_mean,
                         .channel_deviation = t->channel_deviation};
    LS_TRY(epochs_median(t, offsetof(ls_epoch_result, seconds), 0, &r.epoch_seconds_median));
    LS_TRY(epochs_median(t, offsetof(ls_epoch_result, images_per_second), 1, &r.images_per_second));
    if (t->epochs_done > 0) {
        r.train_loss = t->epochs[t->epochs_done - 1].loss;
        r.train_accuracy = t->epochs[t->epochs_done - 1].accuracy;
    }
    r.oversubscribed = t->replicas * t->config.threads > t->cores;
    snprintf(r.replicas_reason, sizeof r.replicas_reason, "%s", t->replicas_reason);
    t->device->ops->describe(t->device, r.device_description, sizeof r.device_description);
    t->comm->ops->describe(t->comm, r.comm_description, sizeof r.comm_description);
    LS_TRY(ls__results_digest(t, r.weights_digest));
    *out = r;
    return LS_OK;
}

static ls_status find_param(const ls_trainer *t, const char *name, int64_t count, int *index) {
    for (*index = 0; *index < t->graph->store->count; ++*index) {
        const ls_param *p = &t->graph->store->params[*index];
        if (strcmp(p->name, name) != 0) continue;
        if (ls_shape_count(p->shape) == count) return LS_OK;
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "parameter %s has %lld values, not %lld", name,
                       (long long)ls_shape_count(p->shape), (long long)count);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "model %s has no parameter %s", t->graph->name, name);
}

ls_status ls_trainer_get_weights(ls_trainer *t, const char *parameter, float *out, int64_t count) {
    int index;
    LS_TRY(find_param(t, parameter, count, &index));
    return ls_params_get(t->params, t->queue, index, (ls_span){t->weights, 0}, out);
}

ls_status ls_trainer_set_weights(ls_trainer *t, const char *parameter, const float *values, int64_t count) {
    int index;
    LS_TRY(find_param(t, parameter, count, &index));
    if (ls_strategy_writes_weights(t->strategy))
        LS_TRY(ls_params_set(t->params, t->queue, index, (ls_span){t->weights, 0}, values));
    return ls_strategy_weights_changed(t->strategy);
}
