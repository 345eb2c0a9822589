// SEND and RECEIVE, and what becomes of a step when they fail.
#include <sched.h>
#include <stdio.h>

#include "base/error.h"
#include "step/engine_impl.h"

// The largest vote that is known here, on its way to another host.
static void put_vote(const ls_worker *w, const ls_operand *o) {
    const ls_ballot *ballot = &w->engine->common->ballots[w->number % 3];
    int host = atomic_load(&ballot->host), all = atomic_load(&ballot->all);
    *(int32_t *)(void *)ls__place_at(w->engine, o, 0).host = host > all ? host : all;
}

ls_status ls__send(ls_worker *w, const ls_task *t, ls_request *request) {
    ls_engine *e = w->engine;
    const ls_operand *o = ls__input(w, t, 0);
    const ls_region *r = &e->regions.list[o->region];
    const char *at = ls__place_at(e, o, 0).host;
    int64_t count = t->end;
    if (e->far) LS_TRY(ls_synchronize(w->queue));
    if (r->kind == LS_REGION_VOTES) put_vote(w, o);
    if (t->value) count = *(const uint32_t *)(const void *)at;  // its length is in it
    return ls_comm_isend(e->config.comm, at, count, r->dtype, e->config.comm->order[t->peer], t->tag, request);
}

ls_status ls__receive(ls_worker *w, const ls_task *t, ls_request *request) {
    ls_engine *e = w->engine;
    const ls_operand *o = ls__output(w, t, 0);
    const ls_region *r = &e->regions.list[o->region];
    char *at = ls__place_at(e, o, 0).host;
    int from = e->config.comm->order[t->peer];
    if (t->value) return ls_comm_irecv_most(e->config.comm, at, t->end, r->dtype, from, t->tag, request);
    return ls_comm_irecv(e->config.comm, at, t->end, r->dtype, from, t->tag, request);
}

// --- broken communication --------------------------------------------------------------------------------------------

// A worker that cannot go on says so, and why, to those of its host: they would wait for what it
// was to bring, and all their lanes with them, while its main thread has to get out of the step to
// end the job. From then on all tasks are gone through without messages or waits.
void ls__break(ls_engine *e, const char *sentence) {
    ls_common *c = e->common;
    if (!atomic_exchange(&c->writing, 1)) {
        c->rank = e->config.comm->rank;
        snprintf(c->sentence, sizeof c->sentence, "%.*s", (int)sizeof c->sentence - 1, sentence);
        atomic_store_explicit(&c->whole, 1, memory_order_release);
    }
    atomic_store_explicit(&c->broken, 1, memory_order_release);
}

int ls__is_broken(const ls_engine *e) { return atomic_load_explicit(&e->common->broken, memory_order_acquire); }

ls_status ls__broken_status(const ls_engine *e) {
    const ls_common *c = e->common;
    // Another one may be writing its sentence just now; one that was ended in the middle never
    // comes to its end.
    for (int i = 0; i < 1000 && !atomic_load_explicit(&c->whole, memory_order_acquire); i++) sched_yield();
    if (!atomic_load_explicit(&c->whole, memory_order_acquire))
        return LS_FAIL(LS_STATUS_LIBRARY, "another worker of this host has failed in the exchange");
    if (c->rank == e->config.comm->rank) return LS_FAIL(LS_STATUS_LIBRARY, "%s", c->sentence);
    return LS_FAIL(LS_STATUS_LIBRARY, "worker %d of this host has failed: %s", c->rank, c->sentence);
}
