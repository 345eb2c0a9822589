// Messages and collectives between the workers of a job, for programs of their own: what MPI's communicators, PyTorch's process groups and
// mpi4py offer, with sums whose bits do not depend on who came first.
//
// A *group* is all workers of a context, or some of them; messages of one group never meet those of another, or of the library's own. It goes
// over whatever connects the context's workers. Calls are made by each worker's main thread, and not between ls_exchange_ready and
// ls_exchange_wait (<lockstep/exchange.h>).
//
//     #include <lockstep/comm.h>
//     #include <stdio.h>
//
//     // The mean over all workers, on all of them.
//     ls_status mean(ls_context *workers, double *values, int64_t count) {
//         ls_group *all;
//         ls_status status = ls_group_create(workers, &all);
//         if (status == LS_OK) status = ls_group_all_reduce(all, values, values, count, LS_DTYPE_F64, LS_REDUCE_MEAN);
//         if (status == LS_OK && ls_group_rank(all) == 0) printf("%d workers, %g\n", ls_group_size(all), values[0]);
//         ls_group_destroy(&all);
//         return status;
//     }
//
// A function that is *collective* is called by every worker of the group, in the same order, with the same count, type, operation and root. Where
// one makes another call, or its arguments are wrong, all of them get an error that says who does what (MISMATCH, or that worker's own), nothing
// is written, and the group goes on to be usable. That costs every collective call one exchange of a few bytes in log2(size) rounds.
//
// Where a worker is gone, or messages fail, a call returns LIBRARY as soon as the transport knows, and names the worker that it was about. What is on its way then may still
// be written; such a group can only be destroyed, and every later call on it says so. (Under mpirun and srun the launcher usually ends all workers first.)
//
// Errors of all calls: INVALID_ARGUMENT (a pointer that is NULL, a worker, type, operation or tag that there is not, more than LS_GROUP_MOST
// elements), MISMATCH, OUT_OF_MEMORY (on all workers), LIBRARY.
#ifndef LOCKSTEP_COMM_H
#define LOCKSTEP_COMM_H

#include <lockstep/context.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_group ls_group;

#define LS_GROUP_MOST INT32_MAX  // elements in one call

// --- groups ----------------------------------------------------------------------------------------------------------

// All workers of a context, which is borrowed: destroy the group first. However the context was made (a launcher's job, an MPI_Comm of the
// caller's, this process alone), the group is of its workers. Collective on the context. Errors: UNSUPPORTED (an MPI
// with room for fewer kinds of messages than groups need).
ls_status ls_group_create(ls_context *context, ls_group **out);
// Groups of those that pass the same color, in the order of their keys and, where these are equal, of their ranks; *out is the caller's, NULL where
// its color is negative. As MPI_Comm_split. Collective on `group`.
ls_status ls_group_split(ls_group *group, int color, int key, ls_group **out);
// A group of the workers `ranks`, (count), in that order; *out is NULL for those that are not among them. As torch.distributed.new_group. Collective on
// `group`, with the same ranks on all of it.
ls_status ls_group_select(ls_group *group, const int *ranks, int count, ls_group **out);
// Not collective: nothing may be on its way. Groups made of it stay.
void ls_group_destroy(ls_group **group);

int ls_group_rank(const ls_group *group);  // 0 .. size-1
int ls_group_size(const ls_group *group);

typedef struct ls_group_info {
    int rank, size;              // this worker among those of the group
    int host, hosts;             // its host among the hosts of the group, numbered by their lowest rank
    int local_rank, local_size;  // this worker among those of the group on its host
} ls_group_info;
ls_group_info ls_group_describe(const ls_group *group);
int ls_group_host_of(const ls_group *group, int rank);       // the host of another worker; -1: there is none
int ls_group_context_rank(const ls_group *group, int rank);  // its rank in the context; -1: there is none

// --- messages --------------------------------------------------------------------------------------------------------
//
// From one worker to another; both name the same tag, count and type. Messages with the same tag arrive in the order in which they were sent. One of 0
// elements is none: nothing is sent, and nobody waits. Not collective.

#define LS_GROUP_TAGS 256  // tags are 0 .. 255

// Returns once `data` may be used again, which may be before the message is received, or not.
ls_status ls_group_send(ls_group *group, const void *data, int64_t count, ls_dtype dtype, int to, int tag);
ls_status ls_group_recv(ls_group *group, void *data, int64_t count, ls_dtype dtype, int from, int tag);

// One that is on its way. {0}: none.
typedef struct ls_transfer {
    void *native[4];
} ls_transfer;
// The same, begun: `data` is the library's until ls_group_wait, or ls_group_test, is through with *out.
ls_status ls_group_isend(ls_group *group, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                         ls_transfer *out);
ls_status ls_group_irecv(ls_group *group, void *data, int64_t count, ls_dtype dtype, int from, int tag,
                         ls_transfer *out);
// Waits for all of `transfers`, (count); each becomes {0}.
ls_status ls_group_wait(ls_group *group, ls_transfer *transfers, int count);
// Without waiting: *done is 1 where all are through. Lets messages move on.
ls_status ls_group_test(ls_group *group, ls_transfer *transfers, int count, int *done);

// --- collectives -----------------------------------------------------------------------------------------------------

// Returns when all have called it.
ls_status ls_group_barrier(ls_group *group);
// `count` elements of worker `root` for all.
ls_status ls_group_broadcast(ls_group *group, void *data, int64_t count, ls_dtype dtype, int root);
// `count` elements of each worker, in rank order, for `root`: all is (size, count) there, and not looked at elsewhere. `mine` may lie in its place there.
ls_status ls_group_gather(ls_group *group, const void *mine, void *all, int64_t count, ls_dtype dtype, int root);
// The same for everybody: all is (size, count).
ls_status ls_group_all_gather(ls_group *group, const void *mine, void *all, int64_t count, ls_dtype dtype);
// Row i of `all`, (size, count) on `root` and not looked at elsewhere, for worker i: mine is (count). `mine` may lie in its place there.
ls_status ls_group_scatter(ls_group *group, const void *all, void *mine, int64_t count, ls_dtype dtype, int root);
// Row i of `to`, (size, count), for worker i: row i of `from`, (size, count), is what worker i has for this one. They may not overlap.
ls_status ls_group_all_to_all(ls_group *group, const void *to, void *from, int64_t count, ls_dtype dtype);

// --- reductions ------------------------------------------------------------------------------------------------------
//
// Of element i of all workers' arrays one is made, by a binary tree over the ranks that is always the same: first ranks 0 and 1, 2 and 3, 4 and 5, then pairs of those, and
// so on; where a right half has no ranks, the left one stands for both. So what is promised is
//
//   - on the same number of workers the same bits, whatever the MPI or transport, the hosts, the sizes of messages and who is late; and the same ones on all workers, and from
//     each of reduce, all_reduce and reduce_scatter;
//   - with ls_group_all_reduce_leaves, where a caller names what is added up instead of bringing one sum for each worker, the same bits on any number of workers,
//
// and what is not: that ls_group_all_reduce has the bits of another number of workers (what each brings is a sum of its own by then), or those of MPI_Allreduce.
//
// Sums are made in the type itself; those of bf16 and fp16 in fp32, each rounded to the type (to nearest, ties to even). Whole numbers wrap around. Of floats, the minimum or maximum with
// a NaN is NaN.

//   name    text
#define LS_REDUCE_LIST(X)                                                                                              \
    X(SUM, "sum")                                                                                                      \
    X(MEAN, "mean") /* the sum, divided by how many are added; of floats only */                                       \
    X(MIN, "minimum")                                                                                                  \
    X(MAX, "maximum")

typedef enum ls_reduce_op {
#define LS_REDUCE_ENUM(name, text) LS_REDUCE_##name,
    LS_REDUCE_LIST(LS_REDUCE_ENUM)
#undef LS_REDUCE_ENUM
} ls_reduce_op;

// For `root`: out, (count), is not looked at elsewhere. It may be `mine`.
ls_status ls_group_reduce(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype, ls_reduce_op op,
                          int root);
// For everybody: out is (count), and may be `mine`.
ls_status ls_group_all_reduce(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype,
                              ls_reduce_op op);
// Row i of all workers' `mine`, (size, count), for worker i: out is (count), and may not overlap `mine`.
ls_status ls_group_reduce_scatter(ls_group *group, const void *mine, void *out, int64_t count, ls_dtype dtype,
                                  ls_reduce_op op);

// A deal of `total` things that are numbered from 0: this worker's are [*begin, *end). Runs follow each other in rank order, and their sizes differ by
// one at most. Not collective.
ls_status ls_group_deal(const ls_group *group, int64_t total, int64_t *begin, int64_t *end);
// The reduction of `total` arrays, each the work of one micro-batch, say, of which every worker brings those that ls_group_deal says: leaves is
// (end - begin, count). The tree is over their numbers, and a mean is by `total`: out, (count), has the same bits on any number of workers that bring the same arrays, one
// worker included. It may not overlap `leaves`. Errors: INVALID_ARGUMENT, too, where total < 1.
ls_status ls_group_all_reduce_leaves(ls_group *group, const void *leaves, void *out, int64_t count, ls_dtype dtype,
                                     ls_reduce_op op, int64_t total);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
