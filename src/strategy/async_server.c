// A server's versions: pulls, pushes, their order in a replay.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "strategy/async_impl.h"

// --- making one ------------------------------------------------------------------------------------------------------

static ls_status plan_strategy(ls_server *server) {
    ls_async *a = server->async;
    ls_strategy_config config = a->config.strategy;
    config.comm = a->config.solo;
    config.replicas = 1;
    config.threads = 0;
    config.servers = 0;
    config.micro_batches = 1;  // a push is a whole step's sum
    config.bucket_ends = NULL;
    config.overlap = 0;
    config.refresh = NULL;
    config.refresh_user = NULL;
    config.copies_bytes = 0;
    config.find_not_finite = 0;  // the next loss tells
    config.weights_of = a->worker;
    config.behind = server;
    return ls__strategy_plan_ops(&ls__strategy_serve, &config, &server->strategy);
}

ls_status ls__server_plan(ls_async *a, int number, ls_server **out) {
    ls_server *server;
    LS_TRY(ls_calloc(1, sizeof *server, &server));
    *out = server;
    server->async = a;
    server->number = number;
    ls__async_slice(a, number, &server->begin, &server->end);
    // Each client has a push on its way at most; those that a replay holds come besides.
    server->room_count = a->clients + (a->replays ? ls_push_log_held(&a->replay) : 0);
    LS_TRY(ls_calloc(server->room_count, sizeof *server->rooms, &server->rooms));
    LS_TRY(ls_calloc(a->clients, sizeof *server->clients, &server->clients));
    return plan_strategy(server);
}

ls_status ls__server_allocate(ls_server *server) { return ls_strategy_allocate(server->strategy); }

void ls__server_destroy(ls_server **out) {
    ls_server *server = *out;
    *out = NULL;
    if (!server) return;
    ls_strategy_destroy(&server->strategy);
    free(server->rooms);
    free(server->clients);
    free(server->pushes);
    free(server);
}

// --- pulls -----------------------------------------------------------------------------------------------------------

static const ls_push_log *replay_of(const ls_server *server) {
    return server->async->replays && !server->released ? &server->async->replay : NULL;
}

// Of a log of one server, any number of servers does the same, each with its slice.
static int log_number(const ls_server *server) { return server->async->replay.servers == 1 ? 0 : server->number; }

int ls__server_may_pull(const ls_server *server, int64_t ticket) {
    const ls_push_log *log = replay_of(server);
    return !log || ls_push_log_of(log, log_number(server), ticket)->pulled == server->version;
}

ls_status ls__server_pull(ls_server *server, int client, int64_t ticket, ls_queue *queue) {
    ls_client *c = &server->clients[client];
    c->ticket = ticket;
    c->pulled = server->version;
    server->answered++;
    if (!c->sent || server->begin == server->end) return LS_OK;
    ls_span weights = ls_span_at(server->strategy->weights.device, server->begin * 4);
    LS_TRY(ls_read(queue, c->sent, weights, (server->end - server->begin) * 4));
    return ls_synchronize(queue);
}

// --- pushes ----------------------------------------------------------------------------------------------------------

ls_room *ls__server_room(ls_server *server, int client, int64_t samples) {
    ls_client *c = &server->clients[client];
    ls_room *room = server->rooms;
    while (room->used) room++;
    room->used = 1;
    room->worker = client;
    room->ticket = c->ticket;
    room->pulled = c->pulled;
    room->samples = samples;
    room->arrived = 0;
    room->number = ++server->rooms_taken;
    if (room->seen) {  // what it was computed for goes with it
        float *seen = room->seen;
        room->seen = c->sent;
        c->sent = seen;
    }
    return room;
}

// The push that is to be applied next; NULL: it is not here.
static ls_room *next_push(ls_server *server) {
    const ls_push_log *log = replay_of(server);
    ls_room *next = NULL;
    int64_t ticket = 0;
    if (log) {
        int64_t at = server->version - log->first, n = log_number(server);
        if (at >= log->count || server->answered < ls_push_log_pulls(log, (int)n, server->version)) return NULL;
        ticket = log->pushes[n * log->count + at].ticket;
    }
    for (int i = 0; i < server->room_count; i++) {
        ls_room *room = &server->rooms[i];
        if (!room->used || !room->arrived || (log && room->ticket != ticket)) continue;
        if (!next || room->number < next->number) next = room;  // in the order in which they came
    }
    return next;
}

static ls_status note_push(ls_server *server, const ls_room *room) {
    ls_staleness *s = &server->staleness;
    int64_t stale = server->version - room->pulled;
    s->pushes++;
    s->sum += stale;
    if (stale > s->largest) s->largest = stale;
    if (server->push_count == server->push_capacity) {
        int64_t capacity = server->push_capacity ? 2 * server->push_capacity : 256;
        ls_push *grown = realloc(server->pushes, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the log of pushes");
        server->pushes = grown;
        server->push_capacity = capacity;
    }
    server->pushes[server->push_count++] =
        (ls_push){.ticket = room->ticket, .pulled = room->pulled, .worker = room->worker};
    return LS_OK;
}

static ls_status apply(ls_server *server, ls_room *room, ls_queue *queue) {
    const ls_async_config *config = &server->async->config;
    ls_step_info info = {.micro_batches = 1, .samples = room->samples};
    ls_step_times times = {.since = ls_clock()};
    ls_vote unused;
    config->rate(config->user, server->version + 1, &info);
    LS_TRY(note_push(server, room));
    server->applied = room;
    LS_TRY(ls_strategy_step(server->strategy, 0, queue, &info, LS_VOTE_GO_ON, &unused, &times));
    return ls_synchronize(queue);
}

void ls__server_apply(ls_server *server, ls_queue *queue) {
    for (ls_room *room; (room = next_push(server));) {
        ls_status status = server->status == LS_OK ? apply(server, room, queue) : LS_OK;
        if (status != LS_OK) {
            server->status = status;
            server->released = 1;
            snprintf(server->failure, sizeof server->failure, "%s", ls_error_message());
        }
        room->used = 0;
        server->version++;
        server->answered = 0;
    }
}
