// What the files of an emitter share.
#ifndef LS_STEP_EMITTER_H
#define LS_STEP_EMITTER_H

#include "step/emit.h"

#define LS_CHANNELS 4  // buckets that are exchanged at once

// Kinds of messages of a bucket, for tags: MPI promises 15 bits.
enum { LS_TAG_SUMS, LS_TAG_BACK, LS_TAG_SQUARES, LS_TAG_LAYERS, LS_TAG_VOTES, LS_TAGS };
#define LS_MAX_BUCKETS 6000
static inline int ls__tag(int flow, int bucket) { return LS_TAGS * bucket + flow; }

// A list of queues that share a piece of work.
typedef struct ls_crowd {
    int first, count;
} ls_crowd;

typedef struct ls_emitter {
    const ls_emit_config *c;
    int rank, host, place;  // place: on the host
    int host_ranks, hosts;
    int64_t v;  // micro-batches
    int slots;
    ls_regions *regions;
    ls_program *p;
    ls_status status;  // the first failure
    // Signals: the first of as many as there are buckets, or one.
    int ready, whole, fresh, total, voted, decided, measured, shared, layers, layers_shared, taken;
    // Regions that every program names.
    int weights, staged, copies, totals, squares, layer_squares, votes;
    int late;  // with `progress`, the queue of what concerns all buckets; else lane 0
    int votes_queue, fresh_queue;
    ls_operand *scratch;  // room for all inputs of a task
} ls_emitter;

ls_task *ls__emit(ls_emitter *e, int queue, ls_task_kind kind, int bucket);  // a task at the end of a queue; never NULL
int ls__operand(ls_emitter *e, int region, int64_t at, ls_piece node);       // at the end of the list: its number
int ls__region(ls_emitter *e, ls_region region);
// The first of `count`; `messages` as in ls_signal_plan, where there are several hosts.
int ls__new_signal(ls_emitter *e, int count, int per_step, int host, int messages);
void ls__signal(ls_emitter *e, int queue, int signal, int bucket);
void ls__wait(ls_emitter *e, int queue, int signal, int lag, int bucket);
// Queue `to` goes on when all of the crowd have come so far, or all of the crowd when `from` has.
// Nothing where they are one queue.
void ls__join(ls_emitter *e, ls_crowd from, int to, int bucket);
void ls__fork(ls_emitter *e, int from, ls_crowd to, int bucket);

// The queue that communicates for a bucket, and those that add up for it.
int ls__communicates(const ls_emitter *e, int bucket);
ls_crowd ls__adders(const ls_emitter *e, int bucket);
ls_crowd ls__updaters(const ls_emitter *e, int bucket);
// The buckets in the order in which they are exchanged.
int ls__bucket_at(const ls_emit_config *c, int position);

// Where node `slot` of a lane of this host is read, at element `at`.
ls_operand ls__gradient(ls_emitter *e, int rank, int lane, int slot, int64_t at, ls_piece node);
// Appends what the lanes of this host hold, at element `at`, as inputs or outputs. Returns how
// many.
int ls__host_nodes(ls_emitter *e, int64_t at, ls_operand *out);

void ls__emit_lanes_begin(ls_emitter *e);  // emit_lanes.c: up to the vote
void ls__emit_lanes_end(ls_emitter *e);
void ls__emit_routes(ls_emitter *e);  // emit_routes.c
void ls__emit_sparse(ls_emitter *e);  // emit_sparse.c
void ls__emit_push(ls_emitter *e);    // emit_sparse.c
void ls__emit_votes(ls_emitter *e);   // emit_lanes.c: between hosts

// What all exchanges do with what they have brought together: `list` appends the inputs for
// elements from `at` on of what a rank updates.
typedef int ls_list_fn(void *user, ls_emitter *e, int rank, int bucket, int64_t at, ls_operand *out);
void ls__emit_update(ls_emitter *e, int bucket, ls_list_fn *list,
                     void *user);  // update, or measure where norms come first
void ls__emit_measured(ls_emitter *e, void (*share)(void *user, ls_emitter *e, int layers),
                       void *user);                             // norms, then clipping
void ls__emit_update_kept(ls_emitter *e, int bucket);           // after that
void ls__share_nothing(void *user, ls_emitter *e, int layers);  // all that update have measured everything
void ls__inputs(ls_emitter *e, ls_task *t, int count);          // the first of e->scratch

#endif
