// Into which buckets gradients are cut for exchange, and whether it goes on behind backward.
#include <math.h>

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

int ls__exchange_overlaps(const ls_trainer *t) { return ls__comm_overlaps(t->comm, t->config.bucket_size); }

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

ls_status ls__buckets_resolve(ls_trainer *t) {
    return ls__buckets_cut(ls_params_length(t->params), t->config.bucket_size, ls__exchange_overlaps(t),
                           &t->bucket_ends, &t->bucket_count);
}

// The core behind those of the replicas, where the exchange has one.
void ls__exchange_bind(void *trainer) {
    const ls_trainer *t = trainer;
    if (t->spread.comm_cores > 0 && t->spread.bound)
        ls_topology_bind(t->topology, t->spread.replicas * t->config.threads, t->spread.comm_cores);
}
