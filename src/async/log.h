// The log of pushes of an asynchronous training: a text file, from which it can be replayed.
//
//     lockstep push log 1
//     servers=1; workers=3; first=0
//     model=mnist-cnn; layers=...; ...          what the training is
//     server push ticket worker pulled
//     0 1 1 0 0
//     0 2 2 1 0                                 server 0's second push: ticket 2, by computing worker 1, from version 0
//
// Servers and computing workers are numbered from 0 each, pushes and tickets from 1 over the whole
// training.
#ifndef LS_ASYNC_LOG_H
#define LS_ASYNC_LOG_H

#include <lockstep/status.h>
#include <stdint.h>

typedef struct ls_push {
    int64_t ticket;
    int64_t pulled;  // the version that its weights were pulled at
    int32_t worker;
    int32_t unused;
} ls_push;

typedef struct ls_push_log {
    int servers, workers;
    int64_t first;      // pushes before the log's first one: of a training that was gone on with
    int64_t count;      // of each server
    ls_push *pushes;    // (servers, count)
    char *recipe;       // what tells trainings apart
    int64_t *position;  // (servers, count): of ticket first + 1 + i, its place in the server's list
    int64_t *pulls;     // (servers, count + 1): tickets that were pulled at version first + i
    int64_t *
        order;  // (count, and as much to work in): tickets as one worker could compute them one after the other, of a log of one server
} ls_push_log;

// Errors: IO (the path, the system's words), BAD_DATA (no such log, a line that cannot be),
// OUT_OF_MEMORY.
ls_status ls_push_log_read(const char *path, ls_push_log *out);
void ls_push_log_free(ls_push_log *log);
// The push of a ticket on a server.
const ls_push *ls_push_log_of(const ls_push_log *log, int server, int64_t ticket);
// How many tickets were pulled at a version of a server.
int64_t ls_push_log_pulls(const ls_push_log *log, int server, int64_t version);
// The most pushes that have to be held at a time, however early they come.
int ls_push_log_held(const ls_push_log *log);

// Begins a file with the log's head. Errors: IO.
ls_status ls_push_log_begin(const char *path, const ls_push_log *head);
// Adds a server's pushes, the first of which is number `number`. Errors: IO.
ls_status ls_push_log_add(const char *path, int server, int64_t number, const ls_push *pushes, int64_t count);

#endif
