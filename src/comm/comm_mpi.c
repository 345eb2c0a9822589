// Workers as MPI processes. The only file that sees mpi.h; without MPI it holds a sentence instead.
#define _GNU_SOURCE
#include <stdio.h>

#include "base/error.h"
#include "comm/comm_impl.h"

#if !LS_WITH_MPI

ls_status ls__comm_mpi_create(int launched, const void *mpi_comm, ls_comm **out) {
    *out = NULL;
    if (mpi_comm)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "an MPI communicator was given but this library was built without MPI: build it with -DLS_WITH_MPI=ON");
    return LS_FAIL(
        LS_STATUS_UNSUPPORTED,
        "this program was started by an MPI launcher but was built without MPI: start it once, or build it with "
        "-DLS_WITH_MPI=ON");
}

void ls_comm_library(char *text, size_t size) { snprintf(text, size, "none: built without MPI"); }
const char *ls_comm_thread_level(void) { return NULL; }

#else

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/watch.h"
#include "comm/reserve.h"

// Addresses that a process takes in MPI_Init, with what its threads' heaps reserve; the most seen (VmPeak): Open MPI 4.1.4 222 MB of 2 workers and
// 226 MB of 4, MPICH 4.0.2 63 MB.
#if defined(OPEN_MPI)
#define MPI_START_BYTES 240000000
#else
#define MPI_START_BYTES 80000000
#endif

typedef struct mpi_comm {
    ls_comm head;
    MPI_Comm all, host;
    int finalize;  // 1: this communicator started MPI and ends it
} mpi_comm;

typedef struct mpi_shared {
    ls_shared head;
    MPI_Win window;
} mpi_shared;

_Static_assert(sizeof(MPI_Request) <= sizeof(void *), "a request must fit where ls_request keeps it");

static const mpi_comm *mpi_of(const ls_comm *comm) { return (const mpi_comm *)comm; }

// MPI's own words for a code, after what was tried.
static ls_status mpi_failed(int code, const char *what, const char *file, int line) {
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(code, words, &length) != MPI_SUCCESS) snprintf(words, sizeof words, "error %d", code);
    return ls__fail(LS_STATUS_LIBRARY, file, line, "MPI could not %s: %s", what, words);
}

#define MPI_TRY(call, what)                                                                                            \
    do {                                                                                                               \
        int mpi_code_ = (call);                                                                                        \
        if (mpi_code_ != MPI_SUCCESS) return mpi_failed(mpi_code_, (what), __FILE__, __LINE__);                        \
    } while (0)

// Of a message: `what` ends before the worker that it is from or to.
static ls_status message_failed(int code, const char *what, int peer, const char *file, int line) {
    char text[64];
    snprintf(text, sizeof text, "%s worker %d", what, peer);
    return mpi_failed(code, text, file, line);
}

#define MPI_TRY_MESSAGE(call, what, peer)                                                                              \
    do {                                                                                                               \
        int mpi_code_ = (call);                                                                                        \
        if (mpi_code_ != MPI_SUCCESS) return message_failed(mpi_code_, (what), (peer), __FILE__, __LINE__);            \
    } while (0)

static MPI_Datatype type_of(ls_dtype dtype) {
    switch (dtype) {
    case LS_DTYPE_F32: return MPI_FLOAT;
    case LS_DTYPE_BF16:
    case LS_DTYPE_F16: return MPI_UINT16_T;
    case LS_DTYPE_U8: return MPI_UINT8_T;
    case LS_DTYPE_I32: return MPI_INT32_T;
    case LS_DTYPE_F64: return MPI_DOUBLE;
    case LS_DTYPE_I64: return MPI_INT64_T;
    }
    return MPI_DATATYPE_NULL;
}

// Waits for what `start` began. Where workers outnumber cores, a library that polls without pause (MPICH) keeps those it waits
// for from running: after a short while, each look at the request gives the core away.
static int complete_from(int start, MPI_Request *request, const char *what, int rank) {
    int done = 0, looks = 0;
    for (; start == MPI_SUCCESS && !done; looks++) {
        if (looks == 200) ls_watch_begin(what, rank);
        if (looks >= 200) sched_yield();
        start = MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
    if (looks > 200) ls_watch_end();
    return start;
}

static int complete(int start, MPI_Request *request) { return complete_from(start, request, "all workers", -1); }

// A call of MPI's that waits inside.
#define WATCHED(what, call) (ls_watch_begin((what), -1), watched(call))

static int watched(int code) {
    ls_watch_end();
    return code;
}

static ls_status count_of(int64_t count, int *out) {
    if (count < 0 || count > INT_MAX)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a message of %lld elements is asked for; MPI takes at most %d in one: use more workers",
                       (long long)count, INT_MAX);
    *out = (int)count;
    return LS_OK;
}

void ls_comm_library(char *text, size_t size) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "MPI";
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    // MPICH writes "MPICH Version:<tab>4.0.2".
    char *label = strstr(version, " Version:");
    if (label)
        snprintf(text, size, "%.*s %s", (int)(label - version), version, label + 9 + strspn(label + 9, " \t"));
    else
        snprintf(text, size, "%s", version);
}

const char *ls_comm_thread_level(void) {
    int initialized = 0, finalized = 0, level = -1;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized || MPI_Query_thread(&level) != MPI_SUCCESS) return NULL;
    switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    case MPI_THREAD_MULTIPLE: return "MPI_THREAD_MULTIPLE";
    default: return NULL;
    }
}

static void describe(const ls_comm *comm, char *text, size_t size) { ls_comm_library(text, size); }

static void destroy(ls_comm *comm) {
    mpi_comm *c = (mpi_comm *)comm;
    if (c->host != MPI_COMM_NULL) MPI_Comm_free(&c->host);
    if (c->all != MPI_COMM_NULL) MPI_Comm_free(&c->all);
    if (c->finalize) WATCHED("the others to leave the job", MPI_Finalize());
    ls__comm_arrays_free(comm);
    free(c);
}

static ls_status barrier(ls_comm *comm) {
    MPI_Request r;
    MPI_TRY(complete(MPI_Ibarrier(mpi_of(comm)->all, &r), &r), "wait for all workers");
    return LS_OK;
}

static ls_status broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root) {
    size_t size = ls_dtype_size(dtype);
    for (int64_t done = 0; done < count;) {
        int part = count - done < INT_MAX ? (int)(count - done) : INT_MAX;
        MPI_Request r;
        int code = MPI_Ibcast((char *)data + (size_t)done * size, part, type_of(dtype), root, mpi_of(comm)->all, &r);
        MPI_TRY(complete(code, &r), "broadcast");
        done += part;
    }
    return LS_OK;
}

static ls_status allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes) {
    int n = 0;
    LS_TRY(count_of(bytes, &n));
    MPI_Request r;
    MPI_TRY(complete(MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, mpi_of(comm)->all, &r), &r),
            "gather from all workers");
    return LS_OK;
}

static ls_status sum(ls_comm *comm, const float *mine, float *all, int64_t count) {
    int n = 0;
    LS_TRY(count_of(count, &n));
    MPI_TRY(WATCHED("all workers", MPI_Allreduce(mine, all, n, MPI_FLOAT, MPI_SUM, mpi_of(comm)->all)), "add up");
    return LS_OK;
}

static ls_status isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                       ls_request *request) {
    int n = 0;
    LS_TRY(count_of(count, &n));
    MPI_Request r;
    MPI_TRY_MESSAGE(MPI_Isend(data, n, type_of(dtype), to, tag, mpi_of(comm)->all, &r), "send a message to", to);
    memcpy(&request->native, &r, sizeof r);
    return LS_OK;
}

static ls_status irecv(ls_comm *comm, void *data, int64_t count, int shorter, ls_dtype dtype, int from, int tag,
                       ls_request *request) {
    int n = 0;
    LS_TRY(count_of(count, &n));
    MPI_Request r;
    MPI_TRY_MESSAGE(MPI_Irecv(data, n, type_of(dtype), from, tag, mpi_of(comm)->all, &r), "receive a message from",
                    from);
    memcpy(&request->native, &r, sizeof r);
    return LS_OK;
}

static ls_status wait_all(ls_comm *comm, ls_request *requests, int count) {
    for (int i = 0; i < count; i++) {
        if (!requests[i].native) continue;
        MPI_Request r;
        memcpy(&r, &requests[i].native, sizeof r);
        requests[i].native = NULL;
        // Progresses the others meanwhile.
        MPI_TRY_MESSAGE(complete_from(MPI_SUCCESS, &r, comm->about ? comm->about : "a message", requests[i].peer),
                        "wait for a message with", requests[i].peer);
    }
    return LS_OK;
}

static ls_status test_all(ls_comm *comm, ls_request *requests, int count, int *pending) {
    *pending = -1;
    for (int i = 0; i < count && *pending < 0; i++) {
        if (!requests[i].native) continue;
        MPI_Request r;
        int done = 0;
        memcpy(&r, &requests[i].native, sizeof r);
        MPI_TRY_MESSAGE(MPI_Test(&r, &done, MPI_STATUS_IGNORE), "look for a message with", requests[i].peer);
        if (done)
            requests[i].native = NULL;
        else
            *pending = i;
    }
    return LS_OK;
}

// Orders memory accesses too: a worker leaves a barrier only after acquiring what every other released on entering.
static ls_status host_barrier(ls_comm *comm) {
    MPI_Request r;
    MPI_TRY(complete(MPI_Ibarrier(mpi_of(comm)->host, &r), &r), "wait for the workers of this host");
    return LS_OK;
}

// As ls_comm_agree, among the workers of a host.
static ls_status host_agree(ls_comm *comm, ls_status mine) {
    MPI_Comm host = mpi_of(comm)->host;
    int worst = mine == LS_OK ? comm->local_size : comm->local_rank, first;
    MPI_Request r;
    MPI_TRY(complete(MPI_Iallreduce(&worst, &first, 1, MPI_INT, MPI_MIN, host, &r), &r), "agree on a result");
    if (first == comm->local_size) return LS_OK;
    struct {
        int status;
        char sentence[1024];
    } verdict = {(int)mine, ""};
    snprintf(verdict.sentence, sizeof verdict.sentence, "%s", mine == LS_OK ? "" : ls_error_message());
    MPI_TRY(complete(MPI_Ibcast(&verdict, sizeof verdict, MPI_BYTE, first, host, &r), &r), "tell a failure");
    if (first != comm->local_rank) ls__error_set(verdict.sentence);
    return (ls_status)verdict.status;
}

static ls_status window_create(ls_comm *comm, int64_t bytes, mpi_shared *shared) {
    // One block at local rank 0, with room to align it: MPI promises no alignment.
    MPI_Aint size = comm->local_rank == 0 ? (MPI_Aint)(bytes + LS_ALIGN) : 0;
    void *mine;
    MPI_TRY(WATCHED("memory to be shared",
                    MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, mpi_of(comm)->host, &mine, &shared->window)),
            "make memory shared by the workers of this host");
    MPI_Win_set_errhandler(shared->window, MPI_ERRORS_RETURN);
    int unit;
    void *start;
    MPI_TRY(MPI_Win_shared_query(shared->window, 0, &size, &unit, &start), "find the memory of this host");
    MPI_TRY(MPI_Win_lock_all(MPI_MODE_NOCHECK, shared->window), "open the memory of this host");
    shared->head.base = (void *)(((uintptr_t)start + LS_ALIGN - 1) / LS_ALIGN * LS_ALIGN);
    return LS_OK;
}

static void host_free(ls_shared *shared) {
    if (!shared->native) {
        ls__private_free(shared);
        return;
    }
    mpi_shared *s = (mpi_shared *)shared;
    if (s->window != MPI_WIN_NULL) {
        MPI_Win_unlock_all(s->window);
        WATCHED("shared memory to be freed", MPI_Win_free(&s->window));
    }
    free(s);
}

static ls_status host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out) {
    mpi_shared *shared = NULL;
    ls_status status;
    if (comm->local_size == 1) {
        status = ls_comm_agree(comm, ls__private_alloc(comm, bytes, out));
        if (status == LS_OK || !*out) return status;
        ls__private_free(*out);
        *out = NULL;
        return status;
    }
    // MPI's call must not fail on one worker alone: the others would stay in it.
    status = bytes < 0 || bytes > INT64_MAX / 2
                 ? LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "%lld bytes to share", (long long)bytes)
                 : ls_calloc(1, sizeof *shared, &shared);
    if (status == LS_OK) status = ls__reserve_addresses(bytes);
    if (status == LS_OK && comm->local_rank == 0)
        status = ls__reserve_shared("/dev/shm", bytes + LS_ALIGN, comm->local_size);
    LS_TRY_GOTO(ls_comm_agree(comm, status), failed);
    assert(shared);  // agreeing means that this worker was fine too
    shared->head = (ls_shared){.comm = comm, .bytes = bytes, .native = shared};
    shared->window = MPI_WIN_NULL;
    LS_TRY_GOTO(host_agree(comm, window_create(comm, bytes, shared)), failed);

    // Each worker zeroes an equal part, so that pages lie near those who use that part.
    int64_t begin = bytes * comm->local_rank / comm->local_size,
            end = bytes * (comm->local_rank + 1) / comm->local_size;
    int64_t page = sysconf(_SC_PAGESIZE);
    if (comm->local_rank == 0) {
        uintptr_t from = (uintptr_t)shared->head.base / (uintptr_t)page * (uintptr_t)page;
        madvise((void *)from, (size_t)bytes, MADV_HUGEPAGE);  // a hint most systems ignore for shared memory
    }
    LS_TRY_GOTO(host_barrier(comm), failed);
    memset((char *)shared->head.base + begin, 0, (size_t)(end - begin));
    LS_TRY_GOTO(host_barrier(comm), failed);
    *out = &shared->head;
    return LS_OK;
failed:
    // A window that some could make and others not cannot be freed (that is collective); a plain block can.
    free(shared);
    return status;
}

static ls_status read_open(ls_comm *comm, MPI_File file, const char *path, int64_t offset, int64_t bytes, void *out) {
    // The size is asked for, because collective reads report full counts past a file's end too.
    MPI_Offset size;
    int code = MPI_File_get_size(file, &size);
    ls_status status = LS_OK;
    if (code == MPI_SUCCESS && bytes > 0 && offset + bytes > (int64_t)size)
        status = LS_FAIL(LS_STATUS_IO, "could not read %s: it ends at byte %lld, %lld bytes early", path,
                         (long long)size, (long long)(offset + bytes - (int64_t)size));
    LS_TRY(host_agree(comm, status));

    // Reading together: everyone takes part in as many rounds as the longest part needs.
    const int64_t maximum = 1 << 30;
    long long rounds = (bytes + maximum - 1) / maximum, all_rounds;
    MPI_TRY(WATCHED("a file to be read",
                    MPI_Allreduce(&rounds, &all_rounds, 1, MPI_LONG_LONG, MPI_MAX, mpi_of(comm)->host)),
            "agree on a result");
    int64_t done = 0;
    for (long long i = 0; i < all_rounds; i++) {
        int part = (int)(bytes - done < maximum ? bytes - done : maximum);
        int result =
            WATCHED("a file to be read", MPI_File_read_at_all(file, (MPI_Offset)(offset + done), (char *)out + done,
                                                              part, MPI_BYTE, MPI_STATUS_IGNORE));
        if (code == MPI_SUCCESS) code = result;
        done += part;
    }
    if (code != MPI_SUCCESS) {
        mpi_failed(code, "read a file", __FILE__, __LINE__);
        status = ls__fail_context(LS_STATUS_IO, "could not read %s: ", path);
    }
    return status;
}

static ls_status host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out) {
    if (comm->local_size == 1) return ls__private_read(comm, path, offset, bytes, out);
    // The system's own words first: MPI's are about its error classes.
    ls_status status = LS_OK;
    if (access(path, R_OK) != 0) status = LS_FAIL(LS_STATUS_IO, "could not open %s: %s", path, strerror(errno));
    LS_TRY(host_agree(comm, status));
    MPI_File file;
    int code =
        WATCHED("a file to be opened", MPI_File_open(mpi_of(comm)->host, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    if (code != MPI_SUCCESS) {
        mpi_failed(code, "open a file", __FILE__, __LINE__);
        status = ls__fail_context(LS_STATUS_IO, "could not open %s: ", path);
    }
    LS_TRY(host_agree(comm, status));
    status = read_open(comm, file, path, offset, bytes, out);
    WATCHED("a file to be closed", MPI_File_close(&file));
    LS_TRY(host_agree(comm, status));
    return LS_OK;
}

// MPICH goes on with messages first, which may never end where they cannot: then leaving without a word does, and the launcher ends the others.
#define ABORT_SECONDS       5

static volatile sig_atomic_t abort_status;

static void leave(int unused) {
    (void)unused;
    _exit(abort_status);
}

static void end_all(ls_comm *comm, int exit_status) {
    abort_status = exit_status ? exit_status : 1;
    signal(SIGALRM, leave);
    alarm(ABORT_SECONDS);
    MPI_Abort(mpi_of(comm)->all, exit_status);
}

static const ls_comm_ops mpi_ops = {
    .name = "mpi",
    .destroy = destroy,
    .describe = describe,
    .barrier = barrier,
    .broadcast = broadcast,
    .allgather = allgather,
    .sum = sum,
    .isend = isend,
    .irecv = irecv,
    .wait_all = wait_all,
    .test_all = test_all,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .host_barrier = host_barrier,
    .host_read = host_read,
    .abort = end_all,
};

// An MPI that was started here is used here alone. One that the program has started it may use whenever it likes, between its calls of this library,
// too: MPI_THREAD_SERIALIZED leaves no other thread that time. What tells the first from the second for contexts that come later.
#define LS_MPI_MARK         "lockstep"

static ls_status find_mark(int *ours) {
    char name[MPI_MAX_OBJECT_NAME] = "";
    int length;
    MPI_TRY(MPI_Comm_get_name(MPI_COMM_SELF, name, &length), "tell a communicator's name");
    *ours = strcmp(name, LS_MPI_MARK) == 0;
    return LS_OK;
}

// Over TCP, Open MPI 4 announces where long messages are to be written, and two hosts that send to each other take turns: half of the
// link. Without "put" it sends them in fragments, both ways at once. What is set in the environment or by mpirun stays; it goes before a file.
static void both_ways(void) {
#if defined(OPEN_MPI) && OMPI_MAJOR_VERSION == 4
    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace,need-ack,need-csum,hetero-rdma", 0);
#endif
}

static ls_status start(mpi_comm *c, int launched, const MPI_Comm *given) {
    int initialized, finalized, provided;
    MPI_Finalized(&finalized);
    if (finalized)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "this process has ended MPI already, and MPI starts once per process: keep one context for the whole "
            "program");
    MPI_Initialized(&initialized);
    if (given && (!initialized || *given == MPI_COMM_NULL))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s",
                       initialized
                           ? "the MPI communicator that was given is MPI_COMM_NULL: this process is not part of it"
                           : "an MPI communicator was given before MPI was started: call MPI_Init_thread first");
    int ours = !initialized;
    if (initialized) {
        MPI_TRY(MPI_Query_thread(&provided), "tell its thread level");
        LS_TRY(find_mark(&ours));
    } else {
        LS_TRY(ls__reserve_start(MPI_START_BYTES));
        both_ways();
        MPI_TRY(WATCHED("all workers to join the job", MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided)),
                "start");
        MPI_TRY(MPI_Comm_set_name(MPI_COMM_SELF, LS_MPI_MARK), "name a communicator");
        c->finalize = 1;
    }
    char library[128];
    ls_comm_library(library, sizeof library);
    if (provided < MPI_THREAD_FUNNELED)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s allows no threads beside MPI here: start it with MPI_THREAD_FUNNELED",
                       library);
    int size;
    MPI_TRY(MPI_Comm_size(MPI_COMM_WORLD, &size), "tell how many workers there are");
    if (launched > 1 && size == 1)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "%d workers were started, but each sees itself alone: this program was built with %s, and the launcher "
            "belongs to another MPI. Use the mpirun of %s; in Slurm, `srun --mpi=pmix` (or `--mpi=pmi2` for MPICH)",
            launched, library, library);
    // A communicator of our own, whose failures come back as codes.
    MPI_TRY(WATCHED("all workers to join the job", MPI_Comm_dup(given ? *given : MPI_COMM_WORLD, &c->all)),
            "make a communicator");
    MPI_TRY(MPI_Comm_set_errhandler(c->all, MPI_ERRORS_RETURN), "report its errors");
    int mine[2] = {provided >= MPI_THREAD_SERIALIZED, ours || provided >= MPI_THREAD_MULTIPLE}, all[2];
    MPI_TRY(MPI_Allreduce(mine, all, 2, MPI_INT, MPI_MIN, c->all), "agree on threads");
    c->head.any_thread = all[0];
    c->head.between = all[0] && all[1];
    int *tag_max, known;
    MPI_TRY(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &known), "tell its largest tag");
    if (known) c->head.tag_max = *tag_max;
    MPI_TRY(MPI_Comm_rank(c->all, &c->head.rank), "tell this worker's rank");
    MPI_TRY(MPI_Comm_size(c->all, &c->head.size), "tell how many workers there are");
    return LS_OK;
}

// The watch over waiting looks after the processes of this machine, those that count as other hosts' included, and names the hosts of all.
static ls_status tell_watch(mpi_comm *c) {
    ls_watch_peer mine = {.rank = c->head.rank, .process = getpid()}, *all = NULL;
    char name[64] = "", (*names)[64] = NULL, unused;
    int size = 0, self = 0, others = 0;
    mine.started = ls_watch_started(mine.process, &unused);
    gethostname(name, sizeof name - 1);
    MPI_TRY(MPI_Comm_size(c->host, &size), "find the hosts");
    MPI_TRY(MPI_Comm_rank(c->host, &self), "find the hosts");
    ls_status status = ls_calloc(size, sizeof *all, &all);
    if (status == LS_OK) status = ls_calloc(c->head.size, sizeof *names, &names);
    int code = status != LS_OK ? MPI_ERR_NO_MEM
                               : MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, c->host);
    if (code == MPI_SUCCESS) code = MPI_Allgather(name, sizeof name, MPI_BYTE, names, sizeof name, MPI_BYTE, c->all);
    for (int i = 0; code == MPI_SUCCESS && i < size; i++)
        if (i != self && all[i].started >= 0) all[others++] = all[i];
    ls_watch_crew crew = {c->head.rank, size < c->head.size ? 2 : 1, all,
                          others,       (const char(*)[64])names,    c->head.size};
    if (code == MPI_SUCCESS) ls_watch_crew_told(&crew);
    free(names);
    free(all);
    if (status != LS_OK) return status;
    return code == MPI_SUCCESS ? LS_OK : mpi_failed(code, "find the hosts", __FILE__, __LINE__);
}

// Which workers share a host.
static ls_status find_hosts(mpi_comm *c) {
    ls_comm *comm = &c->head;
    MPI_TRY(WATCHED("all workers to join the job",
                    MPI_Comm_split_type(c->all, MPI_COMM_TYPE_SHARED, comm->rank, MPI_INFO_NULL, &c->host)),
            "find the hosts");
    LS_TRY(tell_watch(c));
    MPI_TRY(MPI_Comm_set_errhandler(c->host, MPI_ERRORS_RETURN), "report its errors");
    MPI_TRY(MPI_Comm_rank(c->host, &comm->local_rank), "find the hosts");
    MPI_TRY(MPI_Comm_size(c->host, &comm->local_size), "find the hosts");
    int leader = comm->rank, *leaders;
    MPI_TRY(MPI_Bcast(&leader, 1, MPI_INT, 0, c->host), "find the hosts");
    LS_TRY(ls_calloc(comm->size, sizeof(int), &leaders));
    int code = MPI_Allgather(&leader, 1, MPI_INT, leaders, 1, MPI_INT, c->all);
    ls_status status =
        code == MPI_SUCCESS ? ls__comm_arrange(comm, leaders) : mpi_failed(code, "find the hosts", __FILE__, __LINE__);
    free(leaders);
    return status;
}

ls_status ls__comm_mpi_create(int launched, const void *given, ls_comm **out) {
    mpi_comm *c;
    ls_status status;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    c->head.ops = &mpi_ops;
    c->all = c->host = MPI_COMM_NULL;
    LS_TRY_GOTO(start(c, launched, given), failed);
    LS_TRY_GOTO(find_hosts(c), failed);
    *out = &c->head;
    return LS_OK;
failed:
    destroy(&c->head);
    return status;
}

#endif
