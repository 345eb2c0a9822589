// The thread of a worker that exchanges while its lanes compute.
#ifndef LS_STEP_PROGRESS_H
#define LS_STEP_PROGRESS_H

#include "step/engine_impl.h"

struct ls_progress {
    ls_engine *engine;
    pthread_t thread;
    int started;
    ls_queue *queue;
    ls_channel *channels;  // (channel_count)
    int channel_count;
    _Atomic uint32_t pulse;  // of lanes of this worker: something is new
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    // Under the lock:
    int quit;
    uint64_t asked, finished;  // steps
    ls_step_info info[2];      // of the steps that were asked for, in turn
    int inside, waiting;       // lanes that have begun a step and not come to its end; of these, who wait
    int peer, bucket;          // the rank that is waited for, -1: nobody, and for which bucket
    ls_status status;          // the first failure, and its sentence
    char failure[1024];
    // The thread's own:
    ls_trace *trace;
    int trace_first;
    double seconds, looked;  // ls_engine_hidden_seconds; when the transport was last looked at
};

// A lane has begun a step, computes no more in it, waits.
void ls__progress_begin(ls_engine *engine, uint64_t number, const ls_step_info *info);
void ls__progress_ended(ls_engine *engine);
void ls__progress_waits(ls_engine *engine, int more);
void ls__progress_pulse(ls_engine *engine);
// Posts what is about to be received in a queue from task `at` on: into messages, whose memory
// nobody else uses, some time ahead.
ls_status ls__post_ahead(ls_worker *w, const ls_task_queue *tasks, ls_channel *channel, int at);

#endif
