// A server's versions: pulls, pushes, their order in a replay.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "async/async_impl.h"
#include "base/error.h"
#include "base/memory.h"

// --- making one ------------------------------------------------------------------------------------------------------

static ls_status plan_engine(ls_server *server) {
    ls_async *a = server->async;
    ls_engine_config config = a->config.engine;
    config.comm = a->config.solo;
    config.lanes = 1;
    config.threads = 0;
    config.servers = 0;
    config.micro_batches = 1;  // a push is a whole step's sum
    config.other_count_count = 0;
    config.bucket_ends = NULL;
    config.progress = 0;
    config.refresh = NULL;
    config.refresh_user = NULL;
    config.copies_bytes = 0;
    config.find_not_finite = 0;  // the next loss tells
    config.weights_of = a->worker;
    config.push = 2;
    config.push_begin = server->begin;
    config.push_end = server->end;
    return ls_engine_plan("allreduce", &config, &server->engine);
}

// Delay compensation (Zheng et al. 2017, DC-ASGD) leaves alone what is frozen, and statistics.
static ls_status keep_segments(ls_server *server) {
    const ls_engine_config *c = &server->async->config.engine;
    if (!c->segments || !(server->async->config.compensation > 0)) return LS_OK;
    LS_TRY(ls_calloc(c->segment_count, sizeof *server->segments, &server->segments));
    memcpy(server->segments, c->segments, (size_t)c->segment_count * sizeof *server->segments);
    server->segment_count = c->segment_count;
    return LS_OK;
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
    LS_TRY(keep_segments(server));
    return plan_engine(server);
}

// Memory for pushes, and for weights that they were computed for.
ls_status ls__server_allocate(ls_server *server) {
    const ls_async *a = server->async;
    int64_t length = server->end - server->begin, bytes = length * (int64_t)sizeof(float);
    int compensates = a->config.compensation > 0;
    LS_TRY(ls_engine_allocate(server->engine));
    for (int i = 0; i < server->room_count && length > 0; i++) {
        ls_room *room = &server->rooms[i];
        LS_TRY(ls_memory_alloc(length * (int64_t)ls_dtype_size(ls_engine_push_type(server->engine)), &room->sum));
        if (compensates) LS_TRY(ls_memory_alloc(bytes, &room->seen));
    }
    // A job of one worker reads the weights where they are.
    for (int i = 0; i < a->clients && length > 0 && (compensates || !ls__async_alone(a)); i++)
        LS_TRY(ls_memory_alloc(bytes, &server->clients[i].sent));
    return LS_OK;
}

int64_t ls_async_server_bytes(const ls_async *a) {
    const ls_server *server = a->server;
    if (!server) return 0;
    int64_t length = server->end - server->begin, bytes = ls_memory_size(length * (int64_t)sizeof(float));
    int64_t sum = ls_memory_size(length * (int64_t)ls_dtype_size(ls_engine_push_type(server->engine)));
    int compensates = a->config.compensation > 0;
    if (length == 0) return 0;
    return server->room_count * (sum + (compensates ? bytes : 0)) +
           (compensates || !ls__async_alone(a) ? a->clients * bytes : 0);
}

void ls__server_destroy(ls_server **out) {
    ls_server *server = *out;
    *out = NULL;
    if (!server) return;
    for (int i = 0; server->rooms && i < server->room_count; i++) {
        ls_memory_free(server->rooms[i].sum);
        ls_memory_free(server->rooms[i].seen);
    }
    for (int i = 0; server->clients && i < server->async->clients; i++) ls_memory_free(server->clients[i].sent);
    ls_engine_destroy(&server->engine);
    free(server->segments);
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
    ls_span weights = ls_span_at(ls_engine_weights(server->engine), server->begin * 4);
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

// Delay compensation: g g is the cheap estimate of the second derivative, by which the gradient is
// moved from the weights that it was computed for to those of now. What has waited for nothing
// stays as it is.
static void compensate(const ls_server *server, const ls_room *room) {
    if (!room->seen || room->pulled == server->version) return;
    float *sum = room->sum;
    const float *now = ls_span_host(ls_engine_weights(server->engine));
    float factor = (float)(server->async->config.compensation / (double)room->samples);
    const ls_segment whole = {.end = server->end}, *segments = server->segments ? server->segments : &whole;
    int count = server->segments ? server->segment_count : 1;
    for (int i = 0; i < count; i++) {
        int64_t at = segments[i].begin > server->begin ? segments[i].begin : server->begin;
        int64_t end = segments[i].end < server->end ? segments[i].end : server->end;
        for (; at < end && !segments[i].frozen && !segments[i].statistic; at++) {
            float g = sum[at - server->begin];
            sum[at - server->begin] = g + factor * (g * g) * (now[at] - room->seen[at - server->begin]);
        }
    }
}

static ls_status apply(ls_server *server, ls_room *room, ls_queue *queue) {
    const ls_async_config *config = &server->async->config;
    ls_step_info info = {.micro_batches = 1, .samples = room->samples};
    config->rate(config->user, server->version + 1, &info);
    LS_TRY(note_push(server, room));
    compensate(server, room);
    LS_TRY(ls_engine_apply_push(server->engine, queue, &info, room->sum));
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
