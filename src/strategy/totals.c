// Totals that travel between hosts in place of new weights (LS_COMPRESS_BF16): every host has all of them, and updates everything itself.
#include <stdatomic.h>

#include "base/error.h"
#include "strategy/strategy_impl.h"

ls_status ls__totals_want(ls_strategy *s, ls_totals *t) {
    LS_TRY(ls__want_window(s, LS_STRATEGY_SUMS, LS_HOST, s->config.length * ls__sum_bytes(s), &t->total));
    if (!s->config.overlap) return LS_OK;
    return ls__want(s, LS_STRATEGY_SUMS, LS_HOST,
                    (int64_t)s->bucket_count * s->config.comm->local_size * (int64_t)sizeof *t->home, &t->home);
}

ls_window ls__total_at(const ls_strategy *s, const ls_totals *t, int64_t at) {
    return ls__window_at(t->total, at * ls__sum_bytes(s));
}

ls_status ls__totals_add_up(ls_lane_step *step, const ls_totals *t, int64_t from, int64_t to) {
    ls_strategy *s = step->strategy;
    if (!step->alone) ls__share(from, to, step->replica, s->config.replicas, &from, &to);
    for (int64_t at = from, n; (n = ls__trained(s, &at, to, s->block)) > 0; at += n) {
        ls_span sum;
        LS_TRY(ls__sum_block(step, at, n, &sum));
        LS_TRY(ls__send_block(step, ls__total_at(s, t, at).host, sum, n));
    }
    LS_TRY(ls_synchronize(step->queue));
    ls__lap(step->times, LS_STEP_SUM);
    return LS_OK;
}

void ls__totals_home(const ls_lane_step *step, const ls_totals *t, int bucket, int *peer) {
    const ls_strategy *s = step->strategy;
    const ls_comm *comm = s->config.comm;
    _Atomic uint64_t *home = t->home + (int64_t)bucket * comm->local_size;
    atomic_store_explicit(&home[comm->local_rank], step->number, memory_order_release);
    for (int i = 0; i < comm->local_size && *peer < 0; i++)
        if (atomic_load_explicit(&home[i], memory_order_acquire) < step->number)
            *peer = comm->order[s->host_first[comm->host] + i];
}

void ls__totals_source(const ls_lane_step *step, const ls_totals *t, int bucket) {
    const ls_strategy *s = step->strategy;
    int64_t begin = ls__bucket_begin(s, bucket);
    step->lane->sources[0] = (ls_source){.data = ls__total_at(s, t, begin), .first = begin, .dtype = ls__sum_dtype(s)};
    step->lane->source_count = 1;
}
