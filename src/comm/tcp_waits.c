// Who is the cause of a wait. A worker that is stopped still acknowledges, and all that wait for each other until they wait for it look alike: each
// would name whom it waits for itself. So a worker that waits long tells all others so, again and again, and for whom; who is silent is the cause.
#include "base/clock.h"
#include "base/watch.h"
#include "comm/tcp_impl.h"

#define TOLD_AFTER 1.0  // seconds of waiting

// For how long it is believed: a part of what whoever believes it has waited itself, since a starved process says it late, within bounds in seconds.
#define COUNTS_PART  0.5
#define COUNTS_LEAST 3.0
#define COUNTS_MOST  60.0

static double told_counts(double waited) {
    double counts = COUNTS_PART * waited;
    return counts < COUNTS_LEAST ? COUNTS_LEAST : counts > COUNTS_MOST ? COUNTS_MOST : counts;
}

static int is_waiting(const ls__tcp *c, int rank, double now, double counts) {
    const ls__link *l = &c->link[rank];
    return rank == c->head.rank || l->ended || (l->inbox.waits_at > 0 && now - l->inbox.waits_at < counts);
}

// From the one that is waited for to whom that one waits for, and so on; where that does not lead to anybody, the first one who is silent.
int ls__tcp_find_cause(const ls__tcp *c, int rank, double now, double waited) {
    double counts = told_counts(waited);
    for (int i = 0; i < c->head.size && rank >= 0 && rank < c->head.size && rank != c->head.rank; i++) {
        if (!is_waiting(c, rank, now, counts)) return rank;
        rank = c->link[rank].inbox.waits_for;
    }
    for (int r = 0; r < c->head.size; r++)
        if (!is_waiting(c, r, now, counts)) return r;
    return LS_WATCH_ALL_WAIT;
}

void ls__tcp_share_wait(ls__tcp *c) {
    int rank;
    double waited = ls_watch_waited(&rank);
    if (waited < TOLD_AFTER) return;
    for (int r = 0; r < c->head.size; r++) {
        ls__link *l = &c->link[r];
        if (l->socket < 0 || l->ended || l->queue) continue;  // one that takes nothing now hears of it later
        l->waits = (ls__send){.type = LS_FRAME_WAITS, .tag = rank};
        (void)ls__link_send(l, &l->waits);  // one that is gone is found where it is looked at, with what it said last
    }
    ls_watch_blame(ls__tcp_find_cause(c, rank, ls_clock(), waited));
}
