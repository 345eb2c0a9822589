// Emitters: pure functions from mesh, strategy and configuration to a rank's program.
//
// A strategy says who sums and updates which elements (a *cut*), and on which way sums of other
// hosts come to their owner (a *route*). On the way back go new weights, or the sum itself
// (*totals*), which every host then divides and updates by. The rest is the same for all:
//
//     emit_lanes.c     what lanes do: kernels, sums of their own micro-batches, votes, the end of the step
//     emit_routes.c    sums to their owners, weights or totals back
//     emit_sparse.c    of top-k: what is not zero goes to all hosts; and pushes of asynchronous training
//     emit_update.c    updates, and norms where they come first
//     emitter.c        the whole: regions, signals, and who does what for a bucket
//     strategies.c     the table of cuts and routes
#ifndef LS_STEP_EMIT_H
#define LS_STEP_EMIT_H

#include "step/program.h"

#define LS_SLICE_ALIGN 64  // floats: where the vector may be cut

// Elements of the region of votes: what a host sends in each round, and what comes.
enum { LS_VOTES_OUT = 8, LS_VOTES_IN = 32 };

typedef struct ls_emit_config ls_emit_config;

// Elements [*begin, *end) of a bucket that lane `lane` of rank `rank` has.
typedef void ls_cut(const ls_emit_config *config, int rank, int lane, int bucket, int64_t *begin, int64_t *end);
// To which host, and in which round, `host` sends its sums of what `owner`, a host, sums up. -1: it
// is the owner. Whoever sends has received what was sent to it in earlier rounds; what a host has
// then is of a run of hosts.
typedef int ls_route(int hosts, int owner, int host, int *round);

// How gradients are exchanged: what the strategy, its algorithm, the compression and the number of
// hosts come to.
typedef struct ls_ways {
    ls_cut *sums;     // who adds up the tree
    ls_cut *updates;  // who updates; the same, but with totals
    ls_route *route;
    int totals;          // 1: sums go back
    int sparse;          // 1: nodes go to all hosts as they are, encoded; no sums, no route
    int weights_shared;  // 1: the ranks of a host have one vector of weights, if their device can
    int push;  // 1: asynchronous: the sum of the batch, then LS_TASK_CALL. 2: a server, which updates by a push
} ls_ways;

struct ls_emit_config {
    const ls_mesh *mesh;  // a group along `data`
    ls_ways ways;
    int64_t length;  // of the vector
    const int64_t *bucket_ends;
    int bucket_count;
    const int64_t *counts;  // (count_count): micro-batches of all steps that there are
    int count_count;
    int any_count;  // 1: any number up to counts[0] may come, and messages have room for the most nodes that there can be
    int rounds_nodes;        // 1: each node is rounded to bf16
    int selects;             // 1: leaves are what top-k leaves of them
    const int64_t *columns;  // of ways.sparse: (bucket_count, column_count + 1): where a bucket is cut for its messages
    int column_count;
    int64_t (*sparse_words)(const void *user, int host, int bucket, int column);  // the most that a message has
    const void *sparse_user;
    int clips, layerwise;                    // norms have to be known before anything is updated
    const int64_t *squares, *layer_squares;  // (ranks + 1): where a rank's sums of squares begin, in doubles
    int progress;                            // 1: a thread of its own exchanges while lanes compute
    int early;                               // 1, with progress: steps end before their weights are whole
    int in_order;  // of early: so many buckets are exchanged in their order, then the others from the last one on
    const int *forward_order;  // (bucket_count): as forward reads them first; NULL: from the last to the first
    int far;                   // 1: the device's memory is not host-accessible
    int copies;                // 1: there are working copies, of copies_bytes, or 0 where another engine has them
    int64_t copies_bytes;
    int64_t push_begin, push_end;  // with ways.push 2
};

// The program of a rank for steps of so many micro-batches. `regions` is shared by the programs of
// the rank and grows with each. Not collective. Errors: OUT_OF_MEMORY, INVALID_ARGUMENT (a message
// is longer than MPI can send).
ls_status ls_emit(const ls_emit_config *config, int rank, int64_t micro_batches, ls_regions *regions, ls_program **out);

static inline int64_t ls_emit_bucket_begin(const ls_emit_config *c, int bucket) {
    return bucket > 0 ? c->bucket_ends[bucket - 1] : 0;
}
// Part `part` of `parts` of [begin, end), cut at multiples of LS_SLICE_ALIGN from begin.
void ls_emit_share(int64_t begin, int64_t end, int part, int parts, int64_t *part_begin, int64_t *part_end);
// What all lanes of a rank have by a cut, which follows one another.
void ls_emit_slice(const ls_emit_config *config, ls_cut *cut, int rank, int bucket, int64_t *begin, int64_t *end);
// How many gradient slots a lane of a host needs, in all steps that there are.
int ls_emit_slots(const ls_emit_config *config, int host);
int ls_emit_most_nodes(const ls_emit_config *config);  // of a run, in a step of any number

#endif
