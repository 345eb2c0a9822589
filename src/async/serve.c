// The messages of a server: one worker's main thread that looks at what all computing workers send,
// and answers.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "async/async_impl.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/watch.h"

#define QUICK_LOOKS 200    // before the core is given away for a while
#define NAP_SECONDS 50e-6  // between looks

typedef enum line_state { LINE_HEAD, LINE_SUM, LINE_LEFT } line_state;

// What goes on with one client.
typedef struct line {
    line_state state;  // what is received from it
    ls_async_head head;
    ls_request incoming;
    ls_room *room;           // of the push that is received
    int pulls;               // 1: it waits for its pull
    ls_async_head answer;    // on its way
    ls_request outgoing[2];  // the answer, and weights behind it
} line;

typedef struct serving {
    ls_async *a;
    ls_server *server;
    ls_queue *queue;
    line *lines;  // (clients)
    int left;     // clients that have
} serving;

static ls_status receive_head(serving *x, int client) {
    line *l = &x->lines[client];
    l->state = LINE_HEAD;
    return ls_comm_irecv(x->a->config.comm, &l->head, (int64_t)sizeof l->head, LS_DTYPE_U8, x->a->client_rank[client],
                         LS_ASYNC_TAG_HEAD, &l->incoming);
}

// A client sends nothing new before it has been answered, so the answer before has left when this
// one is sent.
static ls_status answer(serving *x, int client, ls_async_head head) {
    line *l = &x->lines[client];
    LS_TRY(ls_comm_wait_all(x->a->config.comm, l->outgoing, 2));
    l->answer = head;
    return ls_comm_isend(x->a->config.comm, &l->answer, (int64_t)sizeof l->answer, LS_DTYPE_U8,
                         x->a->client_rank[client], LS_ASYNC_TAG_ANSWER, &l->outgoing[0]);
}

static ls_status answer_pull(serving *x, int client) {
    line *l = &x->lines[client];
    ls_server *server = x->server;
    int64_t count = server->end - server->begin;
    ls_async_head head = {.kind = LS_ASYNC_PULLS, .ticket = l->head.ticket, .version = server->version};
    LS_TRY(ls_comm_wait_all(x->a->config.comm, l->outgoing, 2));  // what is sent is written anew
    LS_TRY(ls__server_pull(server, client, l->head.ticket, x->queue));
    LS_TRY(answer(x, client, head));
    l->pulls = 0;
    if (count > 0)
        LS_TRY(ls_comm_isend(x->a->config.comm, server->clients[client].sent, count, LS_DTYPE_F32,
                             x->a->client_rank[client], LS_ASYNC_TAG_WEIGHTS, &l->outgoing[1]));
    return receive_head(x, client);
}

// Whatever can be answered now: tickets, and pulls that had to wait.
static ls_status answer_all(serving *x) {
    ls_async_answer what;
    int64_t ticket = 0;
    for (int moved = 1; moved;) {
        moved = 0;
        for (int i = 0; i < x->a->clients; i++) {
            if (!x->lines[i].pulls || !ls__server_may_pull(x->server, x->lines[i].head.ticket)) continue;
            LS_TRY(answer_pull(x, i));
            moved = 1;
        }
        int64_t before = x->server->version;
        ls__server_apply(x->server, x->queue);
        moved |= x->server->version > before;
    }
    if (!x->a->clerk) return LS_OK;
    for (int i; (i = ls__clerk_answer(x->a->clerk, &what, &ticket)) >= 0;) {
        LS_TRY(answer(x, i, (ls_async_head){(int32_t)what, (int32_t)x->a->clerk->vote, ticket, 0, x->server->version}));
        LS_TRY(receive_head(x, i));
    }
    return LS_OK;
}

static ls_status push_begins(serving *x, int client) {
    line *l = &x->lines[client];
    ls_server *server = x->server;
    if (l->head.vote == LS_VOTE_FAILED) {  // it has none, and what a replay waits for may never come
        server->released = 1;
        LS_TRY(answer(x, client, (ls_async_head){.kind = LS_ASYNC_PUSHES, .version = server->version}));
        return receive_head(x, client);
    }
    l->room = ls__server_room(server, client, l->head.samples);
    l->state = LINE_SUM;
    if (server->begin == server->end) return LS_OK;
    return ls_comm_irecv(x->a->config.comm, l->room->sum, server->end - server->begin,
                         ls_engine_push_type(server->engine), x->a->client_rank[client], LS_ASYNC_TAG_SUM,
                         &l->incoming);
}

static ls_status push_ends(serving *x, int client) {
    ls_server *server = x->server;
    x->lines[client].room->arrived = 1;
    ls__server_apply(server, x->queue);
    int vote = server->status == LS_OK ? LS_VOTE_GO_ON : LS_VOTE_FAILED;
    LS_TRY(answer(x, client, (ls_async_head){LS_ASYNC_PUSHES, vote, 0, 0, server->version}));
    return receive_head(x, client);
}

// What a client has sent is there.
static ls_status take(serving *x, int client) {
    line *l = &x->lines[client];
    if (l->state == LINE_SUM) return push_ends(x, client);
    switch ((ls_async_kind)l->head.kind) {
    case LS_ASYNC_ASKS:
        if (!x->a->clerk) break;
        ls__clerk_asks(x->a->clerk, client, (ls_vote)l->head.vote);
        l->state = LINE_LEFT;  // until it is answered
        return LS_OK;
    case LS_ASYNC_PULLS:
        l->pulls = 1;
        l->state = LINE_LEFT;
        return LS_OK;
    case LS_ASYNC_PUSHES: return push_begins(x, client);
    case LS_ASYNC_LEAVES:
        l->state = LINE_LEFT;
        x->left++;
        return ls_comm_wait_all(x->a->config.comm, l->outgoing, 2);
    }
    return LS_FAIL(LS_STATUS_INTERNAL, "worker %d asked a server for what it does not do (%d)",
                   x->a->client_rank[client], (int)l->head.kind);
}

// Whether something has come from anybody, and was taken.
static ls_status look(serving *x, int *found) {
    for (int i = 0; i < x->a->clients; i++) {
        line *l = &x->lines[i];
        if (l->state == LINE_LEFT) continue;
        int pending;
        LS_TRY(ls_comm_test_all(x->a->config.comm, &l->incoming, 1, &pending));
        if (pending >= 0) continue;
        LS_TRY(take(x, i));
        *found = 1;
    }
    return *found ? answer_all(x) : LS_OK;
}

// Whom it waits for and with what, as far as there is room: "batch 12 of worker 0, push of batch 11
// by worker 1". *rank: of the only one, or -1.
static void say_waits(const serving *x, char *out, size_t size, int *rank) {
    size_t used = 0;
    int count = 0, left_out = 0;
    out[0] = 0;
    *rank = -1;
    for (int i = 0; i < x->a->clients; i++) {
        char one[64];
        int who = x->a->client_rank[i];
        long long ticket = x->server->clients[i].ticket;
        if (x->lines[i].state == LINE_LEFT) continue;
        *rank = count++ == 0 ? who : -1;
        if (x->lines[i].state == LINE_SUM)
            snprintf(one, sizeof one, "push of batch %lld by worker %d", ticket, who);
        else if (ticket > 0)
            snprintf(one, sizeof one, "batch %lld of worker %d", ticket, who);
        else
            snprintf(one, sizeof one, "the first batch of worker %d", who);
        left_out += used + strlen(one) + sizeof ", and 1000000 more" > size;
        if (!left_out) ls_text_add(out, size, &used, "%s%s", used ? ", " : "", one);
    }
    if (left_out) ls_text_add(out, size, &used, ", and %d more", left_out);
    if (!count) ls_text_add(out, size, &used, "answers");
}

static void watch(const serving *x) {
    char what[80];
    int rank;
    say_waits(x, what, sizeof what, &rank);
    ls_watch_begin(what, rank);
}

// Answers that are on their way move on, too.
static ls_status nap(serving *x, int looks) {
    int unused;
    for (int i = 0; i < x->a->clients; i++)
        LS_TRY(ls_comm_test_all(x->a->config.comm, x->lines[i].outgoing, 2, &unused));
    if (looks == QUICK_LOOKS) watch(x);
    if (looks < QUICK_LOOKS) return LS_OK;
    nanosleep(&(struct timespec){.tv_nsec = (long)(NAP_SECONDS * 1e9)}, NULL);
    return LS_OK;
}

static ls_status serve(serving *x) {
    for (int i = 0; i < x->a->clients; i++) LS_TRY(receive_head(x, i));
    for (int looks = 0; x->left < x->a->clients; looks++) {
        int found = 0;
        LS_TRY(look(x, &found));
        if (found && looks > QUICK_LOOKS) ls_watch_end();
        if (found)
            looks = -1;
        else
            LS_TRY(nap(x, looks));
    }
    return LS_OK;
}

static ls_status failed(const serving *x, ls_status status) {
    char what[256], slice[48] = "";
    int unused;
    say_waits(x, what, sizeof what, &unused);
    if (x->a->servers > 1) snprintf(slice, sizeof slice, "slice %d of %d, ", x->server->number, x->a->servers);
    return ls__fail_context(status, "serving %s%s: ", slice, what);
}

ls_status ls_async_serve(ls_async *a, ls_queue *queue) {
    serving x = {.a = a, .server = a->server, .queue = queue};
    LS_TRY(ls_calloc(a->clients, sizeof *x.lines, &x.lines));
    ls_status status = serve(&x);
    ls_watch_end();
    if (status != LS_OK) failed(&x, status);
    free(x.lines);
    LS_TRY(status);
    if (a->server->status == LS_OK) return LS_OK;
    ls__error_set(a->server->failure);
    return ls__fail_passed(a->server->status, __FILE__, __LINE__);
}
