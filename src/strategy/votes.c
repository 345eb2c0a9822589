// Whether training goes on: every lane votes in every step, the maximum counts, and it costs no message that anybody waits for.
//
// Lanes of a host write to its shared memory before the step's first barrier. Then one worker of each host tells others, four bytes on the
// way together with the gradients, and writes what it is told before the last barrier: in round k the host 2^k further on is told the largest
// vote known so far, so that after log2(hosts) rounds all know it of all. The ballots of
// two steps take turns: all have read the one before by the first barrier, so that it can be emptied after that. Where steps end before their
// weights are home there is no barrier: votes are cast before backward, and who has cast one has read the decision before.
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
    s->vote_rounds = ls__levels(hosts);
    LS_TRY(ls_calloc(2 * (int64_t)s->vote_rounds, sizeof *s->votes, &s->votes));
    return ls_calloc(2 * (int64_t)s->vote_rounds, sizeof *s->vote_requests, &s->vote_requests);
}

void ls__votes_free(ls_strategy *s) {
    free(s->votes);
    free(s->vote_requests);
}

// The vote, and below it how far the exchange was: the largest of both together is one of them.
enum { VOTE_UNIT = 1 << 16 };
_Static_assert(LS_MAX_BUCKETS < VOTE_UNIT, "a number of buckets has room below a vote");

void ls__vote_cast(ls_lane_step *step, int vote, int reached) {
    raise_to(&ballot_of(step)->host, vote * VOTE_UNIT + reached);
}

// The first worker of the host that is so many further on.
static int lead_at(const ls_strategy *s, int distance) {
    const ls_comm *comm = s->config.comm;
    return comm->order[s->host_first[(comm->host + comm->hosts + distance) % comm->hosts]];
}

// Of round k: what is sent, what is received.
static int *sent_vote(const ls_strategy *s, int k) { return &s->votes[2 * k]; }
static int *received_vote(const ls_strategy *s, int k) { return &s->votes[2 * k + 1]; }

static ls_status send_vote(ls_strategy *s, int k, int vote) {
    *sent_vote(s, k) = vote;
    return ls_comm_isend(s->config.comm, sent_vote(s, k), 1, LS_DTYPE_I32, lead_at(s, 1 << k),
                         ls__tag(LS_MESSAGE_VOTE, 0), &s->vote_requests[2 * k]);
}

// A round's messages are there: the next one's go.
static ls_status end_vote_round(ls_strategy *s) {
    int k = s->vote_round++, sent = *sent_vote(s, k), received = *received_vote(s, k);
    return s->vote_round < s->vote_rounds ? send_vote(s, k + 1, sent > received ? sent : received) : LS_OK;
}

ls_status ls__vote_send(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    if (s->host_lane + step->replica == 0) {
        ls_ballot *before = &s->ballots[(step->number + 1) % 2];
        atomic_store(&before->host, 0);
        atomic_store(&before->all, 0);
    }
    if (step->replica != 0 || !speaks(s)) return LS_OK;
    s->vote_round = 0;
    for (int k = 0; k < s->vote_rounds; k++)
        LS_TRY(ls_comm_irecv(s->config.comm, received_vote(s, k), 1, LS_DTYPE_I32, lead_at(s, -(1 << k)),
                             ls__tag(LS_MESSAGE_VOTE, 0), &s->vote_requests[2 * k + 1]));
    return send_vote(s, 0, atomic_load(&ballot_of(step)->host));
}

ls_status ls__vote_arrived(ls_lane_step *step, int *peer) {
    ls_strategy *s = step->strategy;
    *peer = -1;
    while (speaks(s) && s->vote_round < s->vote_rounds) {
        ls_request *requests = &s->vote_requests[2 * s->vote_round];
        int pending;
        LS_TRY(ls_comm_test_all(s->config.comm, requests, 2, &pending));
        if (pending >= 0) {
            *peer = requests[pending].peer;
            return LS_OK;
        }
        LS_TRY(end_vote_round(s));
    }
    return LS_OK;
}

ls_status ls__vote_receive(ls_lane_step *step) {
    ls_strategy *s = step->strategy;
    if (step->replica != 0 || !speaks(s)) return LS_OK;
    while (s->vote_round < s->vote_rounds) {
        LS_TRY(ls_comm_wait_all(s->config.comm, &s->vote_requests[2 * s->vote_round], 2));
        LS_TRY(end_vote_round(s));
    }
    for (int i = 0; i < 2 * s->vote_rounds; i++) raise_to(&ballot_of(step)->all, s->votes[i]);
    return LS_OK;
}

void ls__vote_fail(ls_lane_step *step) { raise_to(&ballot_of(step)->all, LS_VOTE_FAILED * VOTE_UNIT); }

static int largest(const ls_lane_step *step) {
    const ls_ballot *ballot = ballot_of(step);
    int host = atomic_load(&ballot->host), all = atomic_load(&ballot->all);
    return step->strategy->config.comm->hosts > 1 || all > host ? all : host;
}

ls_vote ls__vote_decision(const ls_lane_step *step) { return (ls_vote)(largest(step) / VOTE_UNIT); }

int ls__vote_reached(const ls_lane_step *step) { return largest(step) % VOTE_UNIT; }
