// Into which buckets gradients are cut for exchange, and whether it goes on behind backward.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/buckets.h"
#include "train/trainer_impl.h"

#define MOST_BUCKETS 2048  // larger ones where there would be more

// Of jobs on several hosts: enough of them that the first are home before the last are made, none so small that messages cost more than
// bytes (docs/decisions.md has what was measured).
static double default_megabytes(int64_t length) {
    double twelfth = (double)length * sizeof(float) / 1e6 / 12;
    return fmax(0.25, fmin(2, twelfth));
}

int ls__comm_overlaps(const ls_comm *comm, double megabytes) {
    return comm->any_thread && (comm->hosts > 1 || megabytes > 0);
}

int ls__exchange_overlaps(const ls_trainer *t) {
    return !t->config.async && ls__comm_overlaps(t->comm, t->config.bucket_size);
}

ls_status ls__buckets_cut(int64_t length, double megabytes, int overlaps, int64_t **ends, int *count) {
    int64_t size = length;
    if (overlaps) {
        double mb = megabytes > 0 ? megabytes : default_megabytes(length);
        double floats = fmin(mb * 1e6 / (double)sizeof(float), (double)length);
        size = ls_round_up((int64_t)floats, LS_SLICE_ALIGN);
        if (size < length / MOST_BUCKETS) size = ls_round_up(length / MOST_BUCKETS, LS_SLICE_ALIGN);
        if (size < LS_SLICE_ALIGN) size = LS_SLICE_ALIGN;
    }
    // As even as can be, so that no last one is hardly worth its messages.
    *count = (int)((length + size - 1) / size);
    LS_TRY(ls_calloc(*count, sizeof **ends, ends));
    for (int b = 0; b < *count; b++) (*ends)[b] = length / LS_SLICE_ALIGN * (b + 1) / *count * LS_SLICE_ALIGN;
    return LS_OK;
}

// --- from a measurement ----------------------------------------------------------------------------------------------

#define LEAST_TUNED 4e6  // bytes: less is home in a few dozen milliseconds however it is sent

// Whether this trainer would follow a measurement.
static int follows(const ls_trainer *t, double bytes) {
    const ls_choices *c = &t->choices;
    if (!t->context || c->tune == LS_TUNE_OFF || t->comm->hosts == 1 || !ls__exchange_overlaps(t)) return 0;
    if (!c->strategy->halves || (t->config.bucket_size > 0 && c->algorithm != LS_ALGORITHM_AUTO)) return 0;
    return c->tune == LS_TUNE_AGAIN || bytes >= LEAST_TUNED;
}

static ls_tune_wanted wants(const ls_trainer *t) {
    return ls_tune_wants(t->choices.algorithm, t->comm->hosts, t->choices.compress == LS_COMPRESS_TOPK);
}

// Whether a measurement has what is to be chosen from.
static int suffices(const ls_trainer *t, const ls_tune_measured *m) {
    ls_tune_wanted wanted = wants(t);
    return (m->direct.bytes_per_second > 0 || !wanted.direct) && (m->halving.bytes_per_second > 0 || !wanted.halving);
}

static ls_status measure(ls_trainer *t, ls_tune_measured *m) {
    char key[LS_TUNE_KEY];
    char *folder = t->comm->rank == 0 ? ls_tune_folder() : NULL;
    int own_cores = t->comm->local_size <= ls_topology_host_cores(t->topology);
    ls_tune_key(t->context, t->topology, t->config.compress, key);
    if (t->spread.core_measured) {  // by the trainer that this one is made in place of
        *m = t->measured;
        free(folder);
        return LS_OK;
    }
    if (t->choices.tune == LS_TUNE_AUTO && ls_tune_load(folder, key, m)) t->tuned_earlier = suffices(t, m);
    ls_status status = ls_comm_broadcast(t->comm, &t->tuned_earlier, 1, LS_DTYPE_I32, 0);
    if (status == LS_OK && t->tuned_earlier) {
        status = ls_comm_broadcast(t->comm, m, (int64_t)sizeof *m, LS_DTYPE_U8, 0);
    } else if (status == LS_OK) {
        status = ls_tune_measure(t->context, t->config.compress, t->choices.algorithm, own_cores, m);
        if (status == LS_OK && folder) ls_tune_store(folder, key, m);
    }
    free(folder);
    return status;
}

ls_status ls__exchange_tune(ls_trainer *t) {
    ls_tune_measured m = {0};
    double bytes = (double)ls_graph_parameter_count(t->graph) * sizeof(float);
    if (!follows(t, bytes)) return LS_OK;
    LS_TRY(measure(t, &m));
    t->measured = m;
    ls_tune_wanted wanted = wants(t);
    if (!wanted.halving) m.halving = (ls_tune_speed){0};
    if (!wanted.direct) m.direct = (ls_tune_speed){0};
    t->tuned = ls_tune_choose(&m, bytes);
    if (t->config.bucket_size > 0) t->tuned.megabytes = t->config.bucket_size;
    t->choices.algorithm = t->tuned.algorithm;
    return LS_OK;
}

// --- cutting ---------------------------------------------------------------------------------------------------------

ls_status ls__buckets_resolve(ls_trainer *t) {
    double megabytes = t->tuned.megabytes > 0 ? t->tuned.megabytes : t->config.bucket_size;
    LS_TRY(ls__buckets_cut(ls_params_length(t->params), megabytes, ls__exchange_overlaps(t), &t->bucket_ends,
                           &t->bucket_count));
    ls_engine_bucket_ends(t->choices.compress, t->segments, t->segment_count, t->bucket_ends, &t->bucket_count);
    return LS_OK;
}

// A core that no replica has, where the exchange has one.
void ls__exchange_bind(void *trainer) {
    const ls_trainer *t = trainer;
    if (t->spread.comm_cores > 0 && t->spread.bound && t->spread.spare >= 0)
        ls_topology_bind(t->topology, t->spread.spare, t->spread.comm_cores);
}
