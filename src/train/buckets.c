// Into which buckets gradients are cut for exchange, and whether it goes on behind backward.
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

#define MOST_BUCKETS 2048  // larger ones where there would be more

// Of jobs on several hosts: enough of them that the first are home before the last are made, none so small that messages cost more than
// bytes (docs/decisions.md has what was measured).
static double default_megabytes(int64_t length) {
    double twelfth = (double)length * sizeof(float) / 1e6 / 12;
    return fmax(0.25, fmin(2, twelfth));
}

int ls__exchange_overlaps(const ls_trainer *t) {
    return t->comm->any_thread && (t->comm->hosts > 1 || t->config.bucket_size > 0);
}

ls_status ls__buckets_resolve(ls_trainer *t) {
    int64_t length = ls_params_length(t->params), size = length;
    if (ls__exchange_overlaps(t)) {
        double mb = t->config.bucket_size > 0 ? t->config.bucket_size : default_megabytes(length);
        double floats = fmin(mb * 1e6 / (double)sizeof(float), (double)length);
        size = ls_round_up((int64_t)floats, LS_SLICE_ALIGN);
        if (size < length / MOST_BUCKETS) size = ls_round_up(length / MOST_BUCKETS, LS_SLICE_ALIGN);
        if (size < LS_SLICE_ALIGN) size = LS_SLICE_ALIGN;
    }
    // As even as can be, so that no last one is hardly worth its messages.
    t->bucket_count = (int)((length + size - 1) / size);
    LS_TRY(ls_calloc(t->bucket_count, sizeof *t->bucket_ends, &t->bucket_ends));
    for (int b = 0; b < t->bucket_count; b++)
        t->bucket_ends[b] = length / LS_SLICE_ALIGN * (b + 1) / t->bucket_count * LS_SLICE_ALIGN;
    return LS_OK;
}

// A core that no replica has, where the exchange has one.
void ls__exchange_bind(void *trainer) {
    const ls_trainer *t = trainer;
    if (t->spread.comm_cores > 0 && t->spread.bound && t->spread.spare >= 0)
        ls_topology_bind(t->topology, t->spread.spare, t->spread.comm_cores);
}
