// Workers that find each other by a list of addresses and talk over TCP: for sites where MPI's launcher does not work. Every two of them have one
// connection (tcp_link.h). It is looked after in the calls of whoever communicates; there is no thread.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/patience.h"
#include "base/text.h"
#include "base/watch.h"
#include "comm/tcp_impl.h"

#define LINK_SECONDS  60.0
#define LOOK_SECONDS  1.0    // between looks at whether the others acknowledge
#define GAP_SECONDS   3.0    // between calls: what was in between nobody knows
#define LOOK_COUNTS   2.0    // for which a look counts at most, of what others have told
#define TURN_COUNTS   0.1    // the same for a turn of parting
#define SOON_MS       20     // of waiting before the watch is told
#define END_SECONDS   2.0    // for telling the others that the job ends
#define LEAVE_SECONDS 120.0  // for the others to leave

struct ls__tcp_request {
    ls__tcp_request *next, *before;
    int peer, sends;
    ls__send send;
    ls__receive receive;
};

// --- failures --------------------------------------------------------------------------------------------------------

static ls_status again(const ls__tcp *c) {
    ls__error_set(c->failure);
    return c->status;
}

ls_status ls__tcp_broken(ls__tcp *c, ls_status status, int rank) {
    if (c->status != LS_OK) return again(c);
    if (rank >= 0 && status != LS_STATUS_OUT_OF_MEMORY)
        ls__fail_context(LS_STATUS_LIBRARY, "worker %d on %s (%s): ", rank, c->theirs[rank].name, c->link[rank].where);
    snprintf(c->failure, sizeof c->failure, "%s", ls_error_message());
    c->status = LS_STATUS_LIBRARY;
    ls__tcp_tell_end(c, c->failure, 1);  // now: what messages on their way are made of is still there
    return again(c);
}

static ls_status has_aborted(ls__tcp *c, int rank) {
    char *why = c->link[rank].inbox.text;
    ls_text_clean(why);
    LS_FAIL(LS_STATUS_LIBRARY, "it has ended the job: %.800s", why);
    return ls__tcp_broken(c, LS_STATUS_LIBRARY, rank);
}

// A connection is gone. Where somebody has ended the job, and this one has followed, the reason is there already.
static ls_status is_gone(ls__tcp *c, ls_status status, int rank) {
    char why[256];
    snprintf(why, sizeof why, "%s", ls_error_message());
    for (int r = 0; r < c->head.size && c->status == LS_OK; r++) {
        ls__link *l = &c->link[r];
        if (r == rank || l->socket < 0 || l->ended) continue;
        if (ls__link_read(l) != LS_OK) l->ended = 1;
        if (l->inbox.aborted) return has_aborted(c, r);
    }
    ls__error_set(why);
    return ls__tcp_broken(c, status, rank);
}

// --- progress --------------------------------------------------------------------------------------------------------

static ls_status look_at(ls__tcp *c, int rank, short events) {
    ls__link *l = &c->link[rank];
    ls_status status = LS_OK;
    if (events & POLLOUT) status = ls__link_write(l);
    // What it has said last explains more than that it is gone.
    if (status != LS_OK || (events & (POLLRDHUP | POLLHUP | POLLERR))) l->inbox.takes_all = 1;
    ls_status read = ls__link_read(l);
    if (l->inbox.aborted) return has_aborted(c, rank);
    if (status == LS_OK) status = read;
    return status == LS_OK ? LS_OK : is_gone(c, status, rank);
}

// Whether the hosts at the other ends still acknowledge what was sent: TCP itself would go on trying for a quarter of an hour.
static ls_status look_at_silence(ls__tcp *c) {
    double now = ls_clock(), since = now - c->looked;
    if (since < LOOK_SECONDS) return LS_OK;
    c->looked = now;
    for (int r = 0; r < c->head.size && since < GAP_SECONDS; r++) {
        ls__link *l = &c->link[r];
        if (l->socket < 0) continue;
        ls__link_look(l, (int64_t)(1e3 * since));
        if ((double)l->silent_ms <= 1e3 * c->link_seconds) continue;
        LS_FAIL(LS_STATUS_LIBRARY, "its host has acknowledged nothing for %.0f s; look at it, and at the network",
                1e-3 * (double)l->silent_ms);
        return ls__tcp_broken(c, LS_STATUS_LIBRARY, r);
    }
    // Who said that it waits could not be heard saying so again.
    for (int r = 0; r < c->head.size && since > LOOK_COUNTS; r++) {
        double *at = &c->link[r].inbox.waits_at, later = *at + since - LOOK_COUNTS;
        if (*at > 0) *at = later < now ? later : now;
    }
    // Behind the look: what is sent has the time until the next one to be acknowledged.
    ls__tcp_share_wait(c);
    return LS_OK;
}

// Moves what can be moved; waits so long for something at most.
static ls_status progress(ls__tcp *c, int wait_ms) {
    enum { FEW = 64 };
    struct pollfd few[FEW], *list = few;
    int few_ranks[FEW], *ranks = few_ranks, count = 0;
    if (c->status != LS_OK) return again(c);
    const char *given_up = ls_watch_given_up();
    if (given_up) {
        LS_FAIL(LS_STATUS_LIBRARY, "worker %d %s", c->head.rank, given_up);
        return ls__tcp_broken(c, LS_STATUS_LIBRARY, -1);
    }
    if (c->head.size > FEW) {
        list = c->poll;
        ranks = c->poll_ranks;
    }
    for (int r = 0; r < c->head.size; r++) {
        short events = ls__link_events(&c->link[r]);
        if (!events) continue;
        list[count] = (struct pollfd){.fd = c->link[r].socket, .events = events};
        ranks[count++] = r;
    }
    int ready = poll(list, (nfds_t)count, wait_ms);
    for (int i = 0; i < count && ready > 0; i++)
        if (list[i].revents) LS_TRY(look_at(c, ranks[i], list[i].revents));
    return look_at_silence(c);
}

// --- messages --------------------------------------------------------------------------------------------------------

static int is_done(const ls__tcp_request *r) { return r->sends ? r->send.done : r->receive.done; }

static void forget(ls__tcp *c, ls_request *request) {
    ls__tcp_request *r = request->native;
    if (r->before) r->before->next = r->next;
    if (r->next) r->next->before = r->before;
    if (c->requests == r) c->requests = r->next;
    free(r);
    request->native = NULL;
}

static ls_status request_create(ls__tcp *c, int peer, int sends, ls_request *request, ls__tcp_request **out) {
    if (c->status != LS_OK) return again(c);
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->peer = peer;
    (*out)->sends = sends;
    (*out)->next = c->requests;
    if (c->requests) c->requests->before = *out;
    c->requests = *out;
    request->native = *out;
    return LS_OK;
}

static ls_status bytes_of(int64_t count, ls_dtype dtype, int64_t *out) {
    if (count < 0 || count > INT_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a message of %lld elements is asked for; %d are the most in one: use more workers",
                       (long long)count, INT_MAX);
    *out = count * (int64_t)ls_dtype_size(dtype);
    return LS_OK;
}

static ls_status has_left(ls__tcp *c, int rank) {
    LS_FAIL(LS_STATUS_LIBRARY, "it has left the job, and this worker still has messages with it");
    return ls__tcp_broken(c, LS_STATUS_LIBRARY, rank);
}

static ls_status isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                       ls_request *request) {
    ls__tcp *c = ls__tcp_of(comm);
    ls__tcp_request *r;
    int64_t bytes;
    LS_TRY(bytes_of(count, dtype, &bytes));
    LS_TRY(request_create(c, to, 1, request, &r));
    r->send = (ls__send){.type = LS_FRAME_MESSAGE, .tag = tag, .data = data, .size = bytes};
    ls_status status;
    if (to == comm->rank) {
        status = ls__inbox_put(&c->self, tag, data, bytes);
        r->send.done = 1;
    } else {
        status = c->link[to].inbox.left ? has_left(c, to) : ls__link_send(&c->link[to], &r->send);
    }
    if (status == LS_OK) return LS_OK;
    if (to == comm->rank) {
        forget(c, request);
        return status;
    }
    // It may be in the link's queue, so it stays until the end. What the other said last explains more than that it is gone.
    request->native = NULL;
    char why[256];
    snprintf(why, sizeof why, "%s", ls_error_message());
    if (look_at(c, to, POLLERR) != LS_OK) return again(c);
    ls__error_set(why);
    return ls__tcp_broken(c, status, to);
}

static ls_status irecv(ls_comm *comm, void *data, int64_t count, int shorter, ls_dtype dtype, int from, int tag,
                       ls_request *request) {
    ls__tcp *c = ls__tcp_of(comm);
    ls__tcp_request *r;
    int64_t bytes;
    LS_TRY(bytes_of(count, dtype, &bytes));
    LS_TRY(request_create(c, from, 0, request, &r));
    r->receive = (ls__receive){.tag = tag, .data = data, .size = bytes, .shorter = shorter};
    ls__link *l = &c->link[from];
    ls_status status = ls__inbox_post(from == comm->rank ? &c->self : &l->inbox, &r->receive);
    if (status != LS_OK) {
        if (from != comm->rank) status = ls__tcp_broken(c, status, from);
        forget(c, request);  // it was not posted
        return status;
    }
    // What waited for somebody to ask.
    return !r->receive.done && l->socket >= 0 && l->inbox.used > 0 ? look_at(c, from, 0) : LS_OK;
}

// Waits for one; the others move on meanwhile.
static ls_status wait_for(ls__tcp *c, const ls__tcp_request *r) {
    int watched = 0;
    ls_status status = c->status == LS_OK ? LS_OK : again(c);
    for (int looks = 0; status == LS_OK && !is_done(r); looks++) {
        const ls__link *l = &c->link[r->peer];
        if (l->ended || (r->peer == c->head.rank && looks > 0)) {
            status = r->peer == c->head.rank
                         ? LS_FAIL(LS_STATUS_INTERNAL, "worker %d waits for a message from itself", r->peer)
                         : has_left(c, r->peer);
            break;
        }
        if (looks == 2) {
            // In a collective call the next one may itself wait for another.
            char entry[LS_LIST_ENTRY], message[sizeof entry + 16];
            snprintf(message, sizeof message, "a message from %s", ls__entry_text(&c->list[r->peer], entry));
            const char *what = c->waits_for ? c->waits_for : c->head.about ? c->head.about : message;
            ls_watch_begin(what, c->waits_for && c->head.size > 2 ? -1 : r->peer);
            watched = 1;
        }
        status = progress(c, looks < 2 ? SOON_MS : 500);
    }
    if (watched) ls_watch_end();
    return status;
}

static ls_status wait_all(ls_comm *comm, ls_request *requests, int count) {
    ls__tcp *c = ls__tcp_of(comm);
    for (int i = 0; i < count; i++) {
        if (!requests[i].native) continue;
        LS_TRY(wait_for(c, requests[i].native));
        forget(c, &requests[i]);
    }
    return LS_OK;
}

static ls_status tend(ls_comm *comm) { return progress(ls__tcp_of(comm), 0); }

static ls_status test_all(ls_comm *comm, ls_request *requests, int count, int *pending) {
    ls__tcp *c = ls__tcp_of(comm);
    int looked = 0;
    *pending = -1;
    for (int i = 0; i < count && *pending < 0; i++) {
        if (!requests[i].native) continue;
        if (!looked && !is_done(requests[i].native)) {
            LS_TRY(progress(c, 0));
            looked = 1;
        }
        const ls__tcp_request *r = requests[i].native;
        if (is_done(r))
            forget(c, &requests[i]);
        else if (c->link[r->peer].ended)
            return has_left(c, r->peer);
        else
            *pending = i;
    }
    return c->status == LS_OK ? LS_OK : again(c);
}

// --- all workers -----------------------------------------------------------------------------------------------------

// A collective call, in which the watch is told so.
#define TOGETHER(comm, what, call) (ls__tcp_of(comm)->waits_for = (what), together((comm), (call)))

static ls_status together(ls_comm *comm, ls_status status) {
    ls__tcp_of(comm)->waits_for = NULL;
    return status;
}

static ls_status barrier(ls_comm *comm) {
    ls__tcp_group all = ls__tcp_all(comm);
    return TOGETHER(comm, "all workers", ls__tcp_group_barrier(&all));
}

static ls_status broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root) {
    ls__tcp_group all = ls__tcp_all(comm);
    return TOGETHER(comm, "all workers",
                    ls__tcp_group_broadcast(&all, data, count * (int64_t)ls_dtype_size(dtype), root));
}

static ls_status allgather(ls_comm *comm, const void *mine, void *out, int64_t bytes) {
    ls__tcp_group all = ls__tcp_all(comm);
    return TOGETHER(comm, "all workers", ls__tcp_group_allgather(&all, mine, out, bytes));
}

static ls_status sum(ls_comm *comm, const float *mine, float *out, int64_t count) {
    ls__tcp_group all = ls__tcp_all(comm);
    int64_t unused;
    LS_TRY(bytes_of(count, LS_DTYPE_F32, &unused));
    return TOGETHER(comm, "all workers", ls__tcp_group_sum(&all, mine, out, count));
}

// Messages through the kernel order memory accesses.
static ls_status host_barrier(ls_comm *comm) {
    ls__tcp_group host = ls__tcp_host(comm);
    return TOGETHER(comm, "all workers", ls__tcp_group_barrier(&host));
}

static void describe(const ls_comm *comm, char *text, size_t size) {
    snprintf(text, size, "TCP, authenticated, not encrypted");
}

// --- the end ---------------------------------------------------------------------------------------------------------

// The last frame to a peer, behind the one that is on its way.
static void queue_last(ls__link *l, ls__send *last) {
    last->next = NULL;
    if (l->size >= 0) {
        l->queue->size = l->offset + l->size;  // what else it has is not sent any more
        l->queue->next = last;
    } else {
        l->queue = last;
        l->offset = 0;
    }
    l->queue_end = last;
}

// Whether more may come; what has come is dropped: nobody asks for it, and where it would go may be gone.
static int has_more(ls__link *l) {
    static const int most = 256;
    char bytes[4096];
    ssize_t n = 1;
    if (l->ended) return 0;
    for (int i = 0; i < most && n > 0; i++) {
        n = recv(l->socket, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) n = 1;
    }
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

// Sends what is queued, ends this side, and waits for the other sides to end, so that what was sent is not lost with the connections.
static void part(ls__tcp *c, double seconds) {
    ls_patience waits = ls_patience_begin(TURN_COUNTS);
    for (int open = 1; open && waits.waited < seconds; ls_patience_look(&waits)) {
        struct pollfd one[64];
        int count = 0;
        open = 0;
        for (int r = 0; r < c->head.size; r++) {
            ls__link *l = &c->link[r];
            if (l->socket < 0) continue;
            ls_status status = l->queue ? ls__link_write(l) : LS_OK;
            if (!l->queue && !l->left_done) {
                shutdown(l->socket, SHUT_WR);
                l->left_done = 1;
            }
            if (!has_more(l)) l->ended = 1;
            if (status != LS_OK || (l->ended && !l->queue)) {
                ls__link_close(l);
                continue;
            }
            open = 1;
            short events = (short)((l->ended ? 0 : POLLIN) | (l->queue ? POLLOUT : 0));
            if (count < 64) one[count++] = (struct pollfd){.fd = l->socket, .events = events};
        }
        if (open) poll(one, (nfds_t)count, 20);
    }
}

void ls__tcp_tell_end(ls__tcp *c, const char *why, int data_stays) {
    size_t size = strlen(why);
    ls__send *last;
    if (ls_calloc(c->head.size, sizeof *last, &last) != LS_OK) return;
    for (int r = 0; r < c->head.size; r++) {
        ls__link *l = &c->link[r];
        if (l->socket < 0 || l->inbox.aborted) continue;
        if (l->size > 0 && !data_stays) {
            ls__link_close(l);
            continue;
        }
        last[r] = (ls__send){.type = LS_FRAME_ABORT, .data = (const uint8_t *)why, .size = (int64_t)size};
        queue_last(l, &last[r]);
    }
    part(c, END_SECONDS);
    for (int r = 0; r < c->head.size; r++) ls__link_close(&c->link[r]);
    free(last);
}

static void end_all(ls_comm *comm, int exit_status) {
    ls__tcp *c = ls__tcp_of(comm);
    char why[sizeof c->failure];
    snprintf(why, sizeof why, "%s", c->status != LS_OK ? c->failure : ls_error_message());
    ls__tcp_tell_end(c, *why ? why : "it says no more", 1);
    _exit(exit_status ? exit_status : 1);
}

static void say_bye(ls__tcp *c) {
    ls__send *last;
    if (ls_calloc(c->head.size, sizeof *last, &last) != LS_OK) return;
    for (int r = 0; r < c->head.size; r++) {
        ls__link *l = &c->link[r];
        last[r] = (ls__send){.type = LS_FRAME_BYE};
        if (l->socket >= 0 && ls__link_send(l, &last[r]) != LS_OK) ls__link_close(l);
    }
    ls_watch_begin("the others to leave the job", -1);
    part(c, LEAVE_SECONDS);
    ls_watch_end();
    for (int r = 0; r < c->head.size; r++) ls__link_close(&c->link[r]);
    free(last);
}

static void destroy(ls_comm *comm) {
    ls__tcp *c = ls__tcp_of(comm);
    if (c->link && c->status == LS_OK && comm->order) say_bye(c);
    for (int r = 0; c->link && r < comm->size; r++) ls__link_close(&c->link[r]);
    while (c->requests) {
        ls__tcp_request *next = c->requests->next;
        free(c->requests);
        c->requests = next;
    }
    ls__inbox_free(&c->self);
    if (c->beacon >= 0) close(c->beacon);
    ls__comm_arrays_free(comm);
    free(c->local);
    free(c->poll);
    free(c->poll_ranks);
    free(c->link);
    free(c->theirs);
    free(c->list);
    free(c->text);
    free(c);
}

static const ls_comm_ops tcp_ops = {
    .name = "tcp",
    .destroy = destroy,
    .describe = describe,
    .barrier = barrier,
    .broadcast = broadcast,
    .allgather = allgather,
    .sum = sum,
    .isend = isend,
    .irecv = irecv,
    .wait_all = wait_all,
    .test_all = test_all,
    .tend = tend,
    .host_alloc = ls__tcp_host_alloc,
    .host_free = ls__tcp_host_free,
    .host_barrier = host_barrier,
    .host_read = ls__tcp_host_read,
    .abort = end_all,
};

// --- the beginning ---------------------------------------------------------------------------------------------------

static ls_status prepare(ls__tcp *c, const ls_cluster *cluster) {
    LS_TRY(ls__list_read(cluster->hosts, &c->list, &c->head.size));
    c->head.rank = cluster->task;
    if (cluster->task < 0 || cluster->task >= c->head.size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which worker of the list of hosts is this one? Its number is one of 0 to %d, and %d is given",
                       c->head.size - 1, cluster->task);
    ls_watch_number(c->head.rank);
    c->link_seconds = cluster->link_seconds > 0 ? cluster->link_seconds : LINK_SECONDS;
    LS_TRY(ls__list_text(c->list, c->head.size, &c->text));
    LS_TRY(ls_calloc(c->head.size, sizeof *c->theirs, &c->theirs));
    LS_TRY(ls_calloc(c->head.size, sizeof *c->poll, &c->poll));
    LS_TRY(ls_calloc(c->head.size, sizeof *c->poll_ranks, &c->poll_ranks));
    LS_TRY(ls_calloc(c->head.size, sizeof *c->link, &c->link));
    for (int r = 0; r < c->head.size; r++) c->link[r] = (ls__link){.socket = -1, .rank = r};
    return LS_OK;
}

ls_status ls_comm_create_tcp(const ls_cluster *cluster, ls_comm **out) {
    ls__tcp *c;
    ls__key key = {.size = 0};
    ls_status status;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    c->head.ops = &tcp_ops;
    c->head.any_thread = c->head.between = 1;
    c->beacon = -1;
    LS_TRY_GOTO(prepare(c, cluster), failed);
    LS_TRY_GOTO(ls__key_read(cluster->key_file, &key), failed);
    LS_TRY_GOTO(ls__tcp_join(c, cluster, &key), failed);
    explicit_bzero(&key, sizeof key);
    c->looked = ls_clock();
    ls__tcp_group all = ls__tcp_all(&c->head);
    LS_TRY_GOTO(ls__tcp_group_barrier(&all), failed);  // all have come to all
    LS_TRY_GOTO(ls__tcp_find_hosts(c), failed);
    for (int r = 0; c->head.hosts > 2 && r < c->head.size; r++)
        if (c->head.host_of[r] != c->head.host) ls__link_share(&c->link[r]);
    *out = &c->head;
    return LS_OK;
failed:
    explicit_bzero(&key, sizeof key);
    if (c->link) {
        char why[sizeof c->failure];
        snprintf(why, sizeof why, "%s", ls_error_message());
        ls__tcp_tell_end(c, why, 0);
        ls__error_set(why);
    }
    destroy(&c->head);
    return status;
}
