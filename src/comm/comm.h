// The workers of a job: who they are, which share a host, and how they exchange bytes. Only step/, async/ and train/ see this.
// Called from one thread of a worker at a time: its main thread, and while a step runs its progress thread, where any_thread is 1
// (MPI_THREAD_SERIALIZED); after it, until what is `away` was brought home (ls_comm_home), where `between` is. Replicas wait for each
// other in shared memory instead.
#ifndef LS_COMM_COMM_H
#define LS_COMM_COMM_H

#include <lockstep/context.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

typedef struct ls_comm ls_comm;
typedef struct ls_shared ls_shared;

typedef struct ls_request {
    void *native;  // NULL: nothing pending
    int peer;      // whom it is from or to
} ls_request;

// What goes on behind the main thread's back, and communicates: `home` ends it, in the main thread.
typedef struct ls_away {
    void (*home)(void *user);  // NULL: there is nothing
    void *user;
} ls_away;

typedef struct ls_comm_ops {
    const char *name;  // "self", "mpi", "tcp"
    void (*destroy)(ls_comm *comm);
    void (*describe)(const ls_comm *comm, char *text, size_t size);
    ls_status (*barrier)(ls_comm *comm);
    ls_status (*broadcast)(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root);
    ls_status (*allgather)(ls_comm *comm, const void *mine, void *all, int64_t bytes);
    ls_status (*sum)(ls_comm *comm, const float *mine, float *all, int64_t count);
    ls_status (*isend)(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                       ls_request *request);
    // `shorter`: 1: of at most so many elements.
    ls_status (*irecv)(ls_comm *comm, void *data, int64_t count, int shorter, ls_dtype dtype, int from, int tag,
                       ls_request *request);
    ls_status (*wait_all)(ls_comm *comm, ls_request *requests, int count);
    ls_status (*test_all)(ls_comm *comm, ls_request *requests, int count, int *pending);
    ls_status (*tend)(ls_comm *comm);  // NULL: there is nothing to do
    ls_status (*host_alloc)(ls_comm *comm, int64_t bytes, ls_shared **out);
    void (*host_free)(ls_shared *shared);
    ls_status (*host_barrier)(ls_comm *comm);
    ls_status (*host_read)(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out);
    void (*abort)(ls_comm *comm, int exit_status);
} ls_comm_ops;

struct ls_comm {
    const ls_comm_ops *ops;
    int rank, size;              // this worker among all
    int host, hosts;             // this worker's host among the hosts, numbered by their lowest rank
    int local_rank, local_size;  // this worker among those of its host, in rank order
    // The ranks sorted by (host, local rank): workers of one host stand next to each other. order[i] is a rank;
    // position is this worker's index in it. Micro-batches are dealt in this order, so that a host's are contiguous.
    int *order, *position_of;  // (size) each; position_of[rank] is that rank's index in order
    int *host_of;              // (size): host_of[rank]
    int position;
    int any_thread;  // 1: on every worker, threads other than the main one may communicate, one at a time
    int between;  // 1: also between two calls of the program, which does not use MPI itself, or one that does not mind
    int tag_max;  // the largest tag of a message; 0: INT_MAX
    int groups;   // made so far of its workers (comm/group.h)
    int busy;     // 1: another thread communicates
    const char *about;  // what messages are about that the main thread waits for, for the watch; NULL: nobody has said
    ls_away away;       // where another thread does so between two calls of the program: who ends that (ls_comm_home)
    int32_t *scratch;   // (size, 2): for ls_comm_agree
    // What workers tell each other before each collective call, so that a call that others do not make is an error on all of them.
    uint64_t calls;     // made so far
    const char *doing;  // the public function that makes them; NULL: none
    int32_t *marks;     // (size, 2)
};

// Memory all workers of a host see at once. `base` may differ between processes; contents may not hold pointers.
struct ls_shared {
    ls_comm *comm;
    void *base;
    int64_t bytes;
    void *native;
};

// The job this process is part of: all workers an MPI launcher started, or this process alone when none did.
// Collective. Errors: UNSUPPORTED (started several times by a launcher this MPI cannot talk to; says which option of
// srun helps), LIBRARY.
ls_status ls_comm_create(ls_comm **out);
// This process's rank as the launcher's environment tells it, 0 where it tells none: who may speak when ls_comm_create
// fails. Not collective.
int ls_comm_launch_rank(void);
// The workers of a communicator of the caller's, which `mpi_comm` points to: an MPI_Comm of an MPI that the caller has started, with
// MPI_THREAD_FUNNELED at least (MPI_THREAD_SERIALIZED lets exchange go on behind backward), and will end after the communicator made here
// (which has messages of its own). Collective on it.
// Errors: INVALID_ARGUMENT (MPI is not running, or there is no such communicator), UNSUPPORTED (thread level; built without MPI), LIBRARY.
ls_status ls_comm_create_from(const void *mpi_comm, ls_comm **out);
// The workers of a list, connected over TCP, without MPI and its launcher: `cluster` as in <lockstep/context.h>, with hosts and task there. Collective.
// Errors: as ls_context_create_cluster.
ls_status ls_comm_create_tcp(const ls_cluster *cluster, ls_comm **out);
// Only this process, MPI untouched. Not collective.
ls_status ls_comm_create_self(ls_comm **out);
// Worker `rank` of a job that is only planned: `size` workers on `hosts` hosts, as evenly as can be, the first host with most. It knows who is who;
// nothing can be exchanged or shared (INTERNAL). Not collective. Errors: INVALID_ARGUMENT (fewer workers than hosts, or none; no such rank).
ls_status ls_comm_create_planned(int size, int hosts, int rank, ls_comm **out);
void ls_comm_destroy(ls_comm **comm);  // Collective

// A public function that is collective begins: its name is part of what is compared, and what sentences about it say. Brings home what is away. Not
// collective itself.
void ls_comm_enter(ls_comm *comm, const char *function);
// The same for whoever goes on with what is away: that of `user` stays so.
void ls_comm_enter_again(ls_comm *comm, const char *function, const void *user);
// Ends what goes on in another thread between two calls of the program: afterwards the main thread may communicate, and weights are whole. Everyone who
// looks at weights or communicates comes by here: collective functions in ls_comm_enter, what is below but for messages by itself, others call it. What fails in
// it is told by whose it is (of a trainer's weights: ls__weights_home). Not collective.
void ls_comm_home(ls_comm *comm);

// Barrier, broadcast, allgather, what is made of them, and host_alloc: an error on all workers, MISMATCH, where one of them makes another of these,
// naming both.

// Collective on comm.
ls_status ls_comm_barrier(ls_comm *comm);
// `count` elements from worker `root` to all. Collective on comm.
ls_status ls_comm_broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root);
// `bytes` bytes from each worker, in rank order, to all: all is (size, bytes). Collective on comm.
ls_status ls_comm_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes);
// MPI's own allreduce of floats: sums in an order of its own, so that bits depend on the workers. To measure beside ours, for nothing
// else. Collective on comm. Counts beyond what MPI's int holds are refused (INVALID_ARGUMENT).
ls_status ls_comm_sum(ls_comm *comm, const float *mine, float *all, int64_t count);
// Messages between two workers; both sides name the same tag, count and dtype. Not collective. Counts beyond what MPI's
// int holds are refused with a sentence (INVALID_ARGUMENT).
ls_status ls_comm_isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                        ls_request *request);
ls_status ls_comm_irecv(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int from, int tag,
                        ls_request *request);
// The same for a message of at most `most` elements: how long it is has to be found in it. What lies behind it keeps what it had.
ls_status ls_comm_irecv_most(ls_comm *comm, void *data, int64_t most, ls_dtype dtype, int from, int tag,
                             ls_request *request);
ls_status ls_comm_wait_all(ls_comm *comm, ls_request *requests, int count);
// Without waiting: *pending is the first request that is not complete, -1 where all are. Lets messages move on. Not collective.
ls_status ls_comm_test_all(ls_comm *comm, ls_request *requests, int count, int *pending);
// Who waits for something else than messages, and may communicate, calls this now and then: others hear that it waits, and it hears what has become of them. Not
// collective.
ls_status ls_comm_tend(ls_comm *comm);
// Zeroed memory shared by the workers of this host (an MPI shared-memory window). Collective on comm, with
// the same `bytes` from each worker of a host. Where one host has not so much, all fail. Freed by all of the host's workers. Errors: OUT_OF_MEMORY (says how large /dev/shm must be), LIBRARY.
ls_status ls_comm_host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out);
void ls_comm_host_free(ls_shared **shared);
ls_status ls_comm_host_barrier(ls_comm *comm);  // Collective on the host's workers; orders their memory accesses
// Reads part of a file with MPI-IO; each worker of the host names its own part (0 bytes is fine). Collective on the host's
// workers. Errors: IO (the path, the system's words) on any of them.
ls_status ls_comm_host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out);
// Nobody goes on alone: returns LS_OK when every worker passes LS_OK, and otherwise, on every worker, the status and
// sentence of the lowest rank that failed. Where not all of them failed with that sentence it begins with who did: "worker 3 on host
// node07: ". Collective on comm.
ls_status ls_comm_agree(ls_comm *comm, ls_status mine);
// Every worker passes a line of text "key=value; ..." and all must be equal. Errors, on every worker: MISMATCH, naming the
// first worker that differs from worker 0 and the first differing "key=value" of both. Collective on comm.
ls_status ls_comm_check_equal(ls_comm *comm, const char *what, const char *text);
// The first part between semicolons in which two texts differ, without the spaces around; "none" past a text's end.
void ls_comm_difference(const char *a, const char *b, char *part_a, char *part_b, size_t size);
// The MPI library and its version, for people. Not collective; works before the job is joined.
void ls_comm_library(char *text, size_t size);
// What MPI allows beside the main thread ("MPI_THREAD_SERIALIZED"); NULL while it is not running. Not collective.
const char *ls_comm_thread_level(void);
// What MPI adds to the memory of a process that joins a job, in bytes: a child process starts it, alone, and tells. 0 where
// that cannot be found out, or without MPI. Before the job is joined, from a process of one thread. Not collective.
int64_t ls_comm_library_bytes(void);
// Ends all workers now. Not collective.
void ls_comm_abort(ls_comm *comm, int exit_status);

#endif
