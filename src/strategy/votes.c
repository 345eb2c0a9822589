// Whether training goes on: every lane votes in every step, the maximum counts, and it costs no message that anybody waits for.
//
// Lanes of a host write to its shared memory before the step's first barrier. Then one worker of each host tells one of each other host,
// four bytes on the way together with the gradients, and writes what it is told before the last barrier. The ballots of
// two steps take turns: all have read the one before by the first barrier, so that it can be emptied after that.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/strategy_impl.h"

static int speaks(const ls_strategy *s) { return s->config.comm->hosts > 1 && s->config.comm->local_rank == 0; }

static ls_ballot *ballot_of(const ls_lane_step *step) { return &step->strategy->ballots[step->number % 2]; }

static void raise_to(_Atomic int *vote, int to) {
    int now = atomic_load(vote);
    while (now < to && !atomic_compare_exchange_weak(vote, &now, to)) continue;
}

ls_status ls__votes_plan(ls_strategy *s) {
    int hosts = s->config.comm->hosts;
    LS_TRY(ls__want(s, LS_STRATEGY_SUMS, LS_HOST, 2 * (int64_t)sizeof(ls_ballot), &s->ballots));
    if (!speaks(s)) return LS_OK;
    LS_TRY(ls_calloc(1 + hosts, sizeof *s->votes, &s->votes));
    return ls_calloc(2 * (int64_t)hosts, sizeof *s->vote_requests, &s->vote_requests);
}

void ls__votes_free(ls_strategy *s) {
    free(s->votes);
    free(s->vote_requests);
}

void ls__vote_cast(ls_lane_step *step, int vote) { raise_to(&ballot_of(step)->host, vote); }

ls_status ls__vote_send(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    ls_comm *comm = s->config.comm;
    if (s->host_lane + step->replica == 0) {
        ls_ballot *before = &s->ballots[(step->number + 1) % 2];
        atomic_store(&before->host, 0);
        atomic_store(&before->all, 0);
    }
    if (step->replica != 0 || !speaks(s)) return LS_OK;
    int pending = 0;
    s->votes[0] = atomic_load(&ballot_of(step)->host);
    for (int host = 0; host < comm->hosts; host++) {
        int rank = comm->order[s->host_first[host]];
        s->votes[1 + host] = 0;
        if (host == comm->host) continue;
        LS_TRY(ls_comm_irecv(comm, &s->votes[1 + host], 1, LS_DTYPE_I32, rank, ls__tag(LS_MESSAGE_VOTE, 0),
                             &s->vote_requests[pending++]));
        LS_TRY(ls_comm_isend(comm, &s->votes[0], 1, LS_DTYPE_I32, rank, ls__tag(LS_MESSAGE_VOTE, 0),
                             &s->vote_requests[pending++]));
    }
    return LS_OK;
}

ls_status ls__vote_arrived(ls_lane_step *step, int *peer) {
    ls_strategy *s = step->strategy;
    int pending = -1;
    if (speaks(s))
        LS_TRY(ls_comm_test_all(s->config.comm, s->vote_requests, 2 * (s->config.comm->hosts - 1), &pending));
    *peer = pending < 0 ? -1 : s->vote_requests[pending].peer;
    return LS_OK;
}

ls_status ls__vote_receive(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    int hosts = s->config.comm->hosts;
    if (step->replica != 0 || !speaks(s)) return LS_OK;
    LS_TRY(ls_comm_wait_all(s->config.comm, s->vote_requests, 2 * (hosts - 1)));
    for (int i = 0; i <= hosts; i++) raise_to(&ballot_of(step)->all, s->votes[i]);
    return LS_OK;
}

void ls__vote_fail(ls_lane_step *step) { raise_to(&ballot_of(step)->all, LS_VOTE_FAILED); }

ls_vote ls__vote_decision(const ls_lane_step *step) {
    const ls_ballot *ballot = ballot_of(step);
    int host = atomic_load(&ballot->host), all = atomic_load(&ballot->all);
    return (ls_vote)(step->strategy->config.comm->hosts > 1 || all > host ? all : host);
}
