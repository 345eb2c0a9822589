// Who gets which ticket when, and when all pause or end.
#include "async/async_impl.h"

void ls__clerk_begin(ls_clerk *c, int64_t done, int64_t last) {
    c->given = c->complete = done;
    c->last = last;
    c->vote = LS_VOTE_GO_ON;
    for (int i = 0; i < c->clients; i++) {
        c->begun_on[i] = -1;
        c->asking[i] = 0;
    }
}

void ls__clerk_asks(ls_clerk *c, int client, ls_vote vote) {
    if (c->begun_on[client] >= 0) c->complete++;
    c->begun_on[client] = -1;
    c->asking[client] = ++c->asked;
    if (vote > c->vote) c->vote = vote;
}

static int all_asking(const ls_clerk *c) {
    int asking = 0;
    for (int i = 0; i < c->clients; i++) asking += c->asking[i] != 0;
    return asking == c->clients;
}

// Whether the next ticket leaves every batch on its way, and its own, within the bound.
static int within_bound(const ls_clerk *c) {
    int64_t oldest = c->complete;
    if (c->staleness < 0) return 1;
    for (int i = 0; i < c->clients; i++)
        if (c->begun_on[i] >= 0 && c->begun_on[i] < oldest) oldest = c->begun_on[i];
    return c->given - oldest <= c->staleness;
}

// Where in the log the client's next ticket is; -1: there is none any more. Of a log of one server
// anybody may compute any batch, as long as they are begun in the log's order. With several servers
// weights are pulled at several times, and only those who did it can do it again.
static int64_t replayed(ls_clerk *c, int client) {
    const ls_push_log *log = c->replay;
    int64_t *at = &c->next[log->servers == 1 ? 0 : client];
    if (log->servers > 1)
        while (*at < log->count && ls_push_log_of(log, 0, log->first + 1 + *at)->worker != client) ++*at;
    int64_t ticket = *at >= log->count ? -1 : log->servers == 1 ? log->order[*at] : log->first + 1 + *at;
    return ticket > c->last ? -1 : ticket;
}

// The client's next ticket; 0: not now; -1: there is none any more.
static int64_t next_ticket(ls_clerk *c, int client) {
    if (c->replay) return replayed(c, client);
    if (c->given == c->last) return -1;
    return within_bound(c) ? c->given + 1 : 0;
}

static void give(ls_clerk *c, int client) {
    c->asking[client] = 0;
    c->begun_on[client] = c->complete;
    c->given++;
    if (c->replay) c->next[c->replay->servers == 1 ? 0 : client]++;
}

// Everybody waits, so nothing is on its way: all are told the same. A log that ends here ends the
// training.
static void close_all(ls_clerk *c) {
    // Or has no ticket of this epoch next, though the epoch is not over.
    int ended = c->replay && c->given < c->last && (c->next[0] >= c->replay->count || c->vote == LS_VOTE_GO_ON);
    c->closing = c->clients;
    c->closes = c->vote == LS_VOTE_CHECKPOINT && c->given < c->last ? LS_ASYNC_PAUSE : LS_ASYNC_END;
    if (ended && c->vote < LS_VOTE_STOP) c->vote = LS_VOTE_STOP;
}

// What stops the giving of tickets. Batches of a replay of several servers may wait for such that
// are not begun yet: only a failure, which releases all that wait, and the epoch's end stop it.
static int stopped(const ls_clerk *c) {
    if (c->replay && c->vote < LS_VOTE_FAILED) return c->replay->servers == 1 && c->vote == LS_VOTE_STOP;
    return c->vote > LS_VOTE_GO_ON;
}

// Who has asked first of those for whom there is a ticket, so that nobody has all of them; -1:
// nobody.
static int longest_asking(ls_clerk *c, int64_t *ticket) {
    int first = -1;
    for (int i = 0; i < c->clients; i++) {
        int64_t next = c->asking[i] ? next_ticket(c, i) : 0;
        if (next <= 0 || (first >= 0 && c->asking[i] > c->asking[first])) continue;
        first = i;
        *ticket = next;
    }
    return first;
}

int ls__clerk_answer(ls_clerk *c, ls_async_answer *answer, int64_t *ticket) {
    int first = c->closing || stopped(c) ? -1 : longest_asking(c, ticket);
    if (first >= 0) {
        *answer = LS_ASYNC_TICKET;
        give(c, first);
        return first;
    }
    if (!c->closing && all_asking(c)) close_all(c);
    for (int i = 0; i < c->clients && c->closing; i++) {
        if (!c->asking[i]) continue;
        c->asking[i] = 0;
        c->closing--;
        *answer = c->closes;
        *ticket = 0;
        return i;
    }
    return -1;
}
