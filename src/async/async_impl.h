// Asynchronous training from inside.
//   async.c   planning, asking, settling: what all workers do
//   clerk.c   who gets which ticket when, and when all pause or end
//   server.c  a server's versions: pulls, pushes, their order in a replay
//   serve.c   the messages of a server
//   log.c     the log of pushes
// The engines behind it (step/engine.h): of a worker, whose lanes add up for a push; of a server,
// which updates its slice.
#ifndef LS_ASYNC_ASYNC_IMPL_H
#define LS_ASYNC_ASYNC_IMPL_H

#include "async/async.h"
#include "async/log.h"
#include "base/clock.h"

// --- messages --------------------------------------------------------------------------------------------------------

typedef enum ls_async_kind { LS_ASYNC_ASKS, LS_ASYNC_PULLS, LS_ASYNC_PUSHES, LS_ASYNC_LEAVES } ls_async_kind;

// What a computing worker sends first, and what a server answers. Behind a push comes its sum,
// behind a pull's answer the weights.
typedef struct ls_async_head {
    int32_t kind;  // of an answer to asking: an ls_async_answer
    int32_t vote;  // what it wants; of an answer: the decision, and of a push's whether the server has failed
    int64_t ticket, samples, version;
} ls_async_head;

// Beyond those of steps and of checkpoints.
enum { LS_ASYNC_TAG_HEAD = 31000, LS_ASYNC_TAG_SUM, LS_ASYNC_TAG_ANSWER, LS_ASYNC_TAG_WEIGHTS };

// --- the clerk -------------------------------------------------------------------------------------------------------

// Of the first server: gives tickets.
typedef struct ls_clerk {
    int clients;
    int64_t staleness;
    int64_t given, complete, last;  // tickets
    int64_t *begun_on;              // (clients): complete pushes when its batch was begun; -1: it has none
    int64_t *asking;                // (clients): its place among all that have ever asked; 0: it does not ask
    int64_t asked;                  // how many have
    ls_vote vote;                   // the largest so far
    int closing;                    // clients that are still to be told `closes`; 0: nobody is
    ls_async_answer closes;
    const ls_push_log *replay;  // NULL: none
    int64_t *
        next;  // (clients): of a replay, where in the log to look for its next ticket; of one server only the first counts
} ls_clerk;

void ls__clerk_begin(ls_clerk *clerk, int64_t done, int64_t last);
// A client asks for its next ticket, having done what it had.
void ls__clerk_asks(ls_clerk *clerk, int client, ls_vote vote);
// The next client that has an answer, which is then given; -1: there is none.
int ls__clerk_answer(ls_clerk *clerk, ls_async_answer *answer, int64_t *ticket);

// --- a server --------------------------------------------------------------------------------------------------------

// A place for a push on its way, or held.
typedef struct ls_room {
    void *sum;    // (slice) of ls_engine_push_type
    float *seen;  // (slice): the weights that were pulled for it; NULL: nobody needs them
    int used;
    int arrived;     // 1: its sum is there
    int64_t number;  // of all rooms that were ever taken
    int64_t ticket, samples, pulled;
    int32_t worker;
} ls_room;

// What a client has.
typedef struct ls_client {
    float *sent;  // (slice): the weights that it was sent
    int64_t ticket, pulled;
} ls_client;

typedef struct ls_server {
    ls_async *async;
    int number;
    ls_engine *engine;   // one lane, which updates the slice
    int64_t begin, end;  // the slice
    int64_t version;     // pushes applied, of all of the training
    int64_t answered;    // pulls at this version
    ls_client *clients;  // (async->clients)
    ls_room *rooms;      // (room_count)
    int room_count;
    int64_t rooms_taken;
    ls_segment *segments;  // (segment_count), for delay compensation; NULL: all is one kernel
    int segment_count;
    ls_push *pushes;  // (push_count): since it was settled last
    int64_t push_count, push_capacity;
    ls_staleness staleness;
    int released;      // 1: something has failed, so that what a replay waits for may never come
    ls_status status;  // the first failure
    char failure[512];
} ls_server;

ls_status ls__server_plan(ls_async *async, int number, ls_server **out);
ls_status ls__server_allocate(ls_server *server);
void ls__server_destroy(ls_server **server);
// Whether a ticket's weights are those of now: in a replay they may have to become them.
int ls__server_may_pull(const ls_server *server, int64_t ticket);
// Notes the pull, and copies the slice to clients[client].sent where there are others to send it
// to. Errors: those of the device.
ls_status ls__server_pull(ls_server *server, int client, int64_t ticket, ls_queue *queue);
// Room for the client's push, whose sum is then put there. There is always one.
ls_room *ls__server_room(ls_server *server, int client, int64_t samples);
// Applies what can be applied. What fails is kept.
void ls__server_apply(ls_server *server, ls_queue *queue);

// --- a worker --------------------------------------------------------------------------------------------------------

struct ls_async {
    ls_async_config config;
    char *recipe;  // its own copy
    int servers, clients;
    int *server_rank, *client_rank;  // (servers), (clients)
    int number, client;              // this worker's; -1: it is none
    ls_engine *worker;               // borrowed
    ls_server *server;               // this worker's, or that of a job of one; NULL
    ls_clerk *clerk;                 // NULL: it is another worker's
    ls_push_log replay;
    int replays;
    float *staging;   // (length): weights on their way to a device that is far; NULL: they go straight to their place
    ls_queue *queue;  // of the main thread, while it steps
    ls_request *requests;  // (2 x servers)
    ls_async_head *heads;  // (2 x servers)
    char doing[64];        // what its messages are for now: "push of batch 12"
    int64_t ticket, version;
    ls_async_answer answer;
    ls_vote decision;
    ls_staleness staleness;
    int64_t skipped;
    int log_begun;
};

static inline void ls__async_slice(const ls_async *a, int server, int64_t *begin, int64_t *end) {
    ls_emit_share(0, a->config.engine.length, server, a->servers, begin, end);
}
static inline int ls__async_alone(const ls_async *a) { return a->config.comm->size == 1; }

#endif
