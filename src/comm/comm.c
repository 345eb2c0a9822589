#include "comm/comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"
#include "comm/comm_impl.h"

// The number in the first of these variables that is set; -1 where none is.
static int environment_number(const char *const *names) {
    for (; *names; names++) {
        const char *text = getenv(*names);
        if (text && *text) return atoi(text);
    }
    return -1;
}

// What launchers leave in the environment: Open MPI's mpirun, anything that speaks PMIx, MPICH's Hydra and srun with PMI-2.
static const char *const rank_names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const size_names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
static const char *const other_signs[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE",
                                          "MPI_LOCALNRANKS",      NULL};
static const char *const step_id[] = {"SLURM_STEP_ID", NULL};
static const char *const step_tasks[] = {"SLURM_STEP_NUM_TASKS", NULL};
static const char *const step_rank[] = {"SLURM_PROCID", NULL};

int ls_comm_launch_rank(void) {
    int rank = environment_number(rank_names);
    if (rank < 0 && environment_number(step_tasks) > 1) rank = environment_number(step_rank);
    return rank < 0 ? 0 : rank;
}

ls_status ls_comm_create(ls_comm **out) {
    *out = NULL;
    int tasks = environment_number(step_id) >= 0 ? environment_number(step_tasks) : -1;
    if (environment_number(other_signs) >= 0) {
        int size = environment_number(size_names);
        if (size < 0) size = tasks;  // PMIx tells the rank only
        if (!LS_WITH_MPI && size == 1) return ls_comm_create_self(out);
        return ls__comm_mpi_create(size < 0 ? 0 : size, NULL, out);
    }
    if (tasks > 1)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "srun started %d tasks but offers them no way to find each other: use `srun --mpi=pmix` (or "
            "`srun --mpi=pmi2` where this program was built with MPICH). In an interactive shell of that step, "
            "`unset SLURM_STEP_ID` first: then --workers starts what runs there",
            tasks);
    return ls_comm_create_self(out);
}

ls_status ls_comm_create_from(const void *mpi_comm, ls_comm **out) { return ls__comm_mpi_create(0, mpi_comm, out); }

void ls_comm_destroy(ls_comm **comm) {
    if (!comm || !*comm) return;
    (*comm)->ops->destroy(*comm);
    *comm = NULL;
}

ls_status ls__comm_arrange(ls_comm *comm, const int *leaders) {
    int n = comm->size;
    ls_status status = LS_OK;
    LS_TRY_GOTO(ls_calloc(n, sizeof(int), &comm->order), failed);
    LS_TRY_GOTO(ls_calloc(n, sizeof(int), &comm->position_of), failed);
    LS_TRY_GOTO(ls_calloc(n, sizeof(int), &comm->host_of), failed);
    LS_TRY_GOTO(ls_calloc(n, 2 * sizeof(int32_t), &comm->scratch), failed);
    LS_TRY_GOTO(ls_calloc(n, 2 * sizeof(int32_t), &comm->marks), failed);

    // A leader is the lowest rank of its host, so going through the ranks finds it first.
    comm->hosts = 0;
    for (int r = 0; r < n; r++) comm->host_of[r] = leaders[r] == r ? comm->hosts++ : comm->host_of[leaders[r]];
    // Sorting by (host, rank): count the workers of each host, then deal out places from where each host begins.
    int *next;
    LS_TRY_GOTO(ls_calloc(comm->hosts + 1, sizeof(int), &next), failed);
    for (int r = 0; r < n; r++) next[comm->host_of[r] + 1]++;
    for (int h = 0; h < comm->hosts; h++) next[h + 1] += next[h];
    for (int r = 0; r < n; r++) {
        comm->position_of[r] = next[comm->host_of[r]]++;
        comm->order[comm->position_of[r]] = r;
    }
    free(next);
    comm->host = comm->host_of[comm->rank];
    comm->position = comm->position_of[comm->rank];
    return LS_OK;
failed:
    ls__comm_arrays_free(comm);
    return status;
}

void ls__comm_arrays_free(ls_comm *comm) {
    free(comm->order);
    free(comm->position_of);
    free(comm->host_of);
    free(comm->scratch);
    free(comm->marks);
    comm->order = comm->position_of = comm->host_of = NULL;
    comm->scratch = comm->marks = NULL;
}

static ls_status check_peer(const ls_comm *comm, int peer) {
    if (peer < 0 || peer >= comm->size)
        return LS_FAIL(LS_STATUS_INTERNAL, "worker %d is asked for; there are %d", peer, comm->size);
    return LS_OK;
}

// --- collective calls ------------------------------------------------------------------------------------------------

static int32_t hash(const char *text) {
    uint32_t h = 2166136261u;  // FNV-1a
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return (int32_t)h;
}

enum { CALL_WORDS = 96 };

// Not all workers make the same call: all know it, and two of them tell what they do.
static ls_status differs(ls_comm *comm, const int32_t *marks, const char *mine) {
    char first[CALL_WORDS] = "", second[CALL_WORDS] = "";
    int other = 0;
    while (memcmp(marks + (ptrdiff_t)2 * other, marks, 2 * sizeof *marks) == 0) other++;
    if (comm->rank == 0) snprintf(first, sizeof first, "%s", mine);
    if (comm->rank == other) snprintf(second, sizeof second, "%s", mine);
    LS_TRY(comm->ops->broadcast(comm, first, sizeof first, LS_DTYPE_U8, 0));
    LS_TRY(comm->ops->broadcast(comm, second, sizeof second, LS_DTYPE_U8, other));
    return LS_FAIL(LS_STATUS_MISMATCH,
                   "worker 0 is in its collective call number %d, %s, and worker %d in its number %d, %s: all workers "
                   "have to make the same calls in the same order",
                   (int)marks[0], first, other, (int)marks[(ptrdiff_t)2 * other], second);
}

// Before each collective call: the workers tell each other its number and a hash of its words, so that calls that do not belong together never
// take each other's bytes.
static ls_status meet(ls_comm *comm, const char *format, ...) __attribute__((format(printf, 2, 3)));
static ls_status meet(ls_comm *comm, const char *format, ...) {
    char words[CALL_WORDS], what[64];
    va_list arguments;
    ls_comm_home(comm);
    if (comm->size == 1) return LS_OK;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(words, sizeof words, "%s%s%s", comm->doing ? comm->doing : "", comm->doing ? ": " : "", what);
    int32_t mine[2] = {(int32_t)(++comm->calls & INT32_MAX), hash(words)};
    ls_flight_call(words);
    LS_TRY(comm->ops->allgather(comm, mine, comm->marks, sizeof mine));
    for (int rank = 1; rank < comm->size; rank++)
        if (memcmp(comm->marks + (ptrdiff_t)2 * rank, comm->marks, sizeof mine) != 0)
            return differs(comm, comm->marks, words);
    return LS_OK;
}

void ls_comm_home(ls_comm *comm) {
    ls_away away = comm->away;
    comm->away = (ls_away){NULL, NULL};
    if (away.home) away.home(away.user);
}

void ls_comm_enter_again(ls_comm *comm, const char *function, const void *user) {
    if (comm->away.user != user) ls_comm_home(comm);
    comm->doing = function;
    ls_flight_call(function);
}

void ls_comm_enter(ls_comm *comm, const char *function) {
    ls_comm_home(comm);
    ls_comm_enter_again(comm, function, NULL);
}

ls_status ls_comm_barrier(ls_comm *comm) {
    LS_TRY(meet(comm, "a barrier"));
    return comm->ops->barrier(comm);
}

ls_status ls_comm_broadcast(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int root) {
    LS_TRY(check_peer(comm, root));
    LS_TRY(meet(comm, "%lld elements of type %d from worker %d to all", (long long)count, (int)dtype, root));
    return comm->ops->broadcast(comm, data, count, dtype, root);
}

ls_status ls_comm_allgather(ls_comm *comm, const void *mine, void *all, int64_t bytes) {
    LS_TRY(meet(comm, "%lld bytes of each worker to all", (long long)bytes));
    return comm->ops->allgather(comm, mine, all, bytes);
}

ls_status ls_comm_sum(ls_comm *comm, const float *mine, float *all, int64_t count) {
    return comm->ops->sum(comm, mine, all, count);
}

ls_status ls_comm_isend(ls_comm *comm, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                        ls_request *request) {
    *request = (ls_request){.peer = to};
    LS_TRY(check_peer(comm, to));
    return comm->ops->isend(comm, data, count, dtype, to, tag, request);
}

ls_status ls_comm_irecv(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int from, int tag,
                        ls_request *request) {
    *request = (ls_request){.peer = from};
    LS_TRY(check_peer(comm, from));
    return comm->ops->irecv(comm, data, count, 0, dtype, from, tag, request);
}

ls_status ls_comm_irecv_most(ls_comm *comm, void *data, int64_t most, ls_dtype dtype, int from, int tag,
                             ls_request *request) {
    *request = (ls_request){.peer = from};
    LS_TRY(check_peer(comm, from));
    return comm->ops->irecv(comm, data, most, 1, dtype, from, tag, request);
}

ls_status ls_comm_wait_all(ls_comm *comm, ls_request *requests, int count) {
    return comm->ops->wait_all(comm, requests, count);
}

ls_status ls_comm_tend(ls_comm *comm) { return comm->ops->tend ? comm->ops->tend(comm) : LS_OK; }

ls_status ls_comm_test_all(ls_comm *comm, ls_request *requests, int count, int *pending) {
    return comm->ops->test_all(comm, requests, count, pending);
}

ls_status ls_comm_host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out) {
    *out = NULL;
    LS_TRY(meet(comm, "memory shared by a host"));
    return comm->ops->host_alloc(comm, bytes, out);
}

void ls_comm_host_free(ls_shared **shared) {
    if (!shared || !*shared) return;
    ls_comm_home((*shared)->comm);
    (*shared)->comm->ops->host_free(*shared);
    *shared = NULL;
}

ls_status ls_comm_host_barrier(ls_comm *comm) {
    ls_comm_home(comm);
    return comm->ops->host_barrier(comm);
}

ls_status ls_comm_host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out) {
    ls_comm_home(comm);
    return comm->ops->host_read(comm, path, offset, bytes, out);
}

// As ls_comm_agree; `named`: the sentence begins with who failed, unless all did in the same words.
static ls_status agree(ls_comm *comm, ls_status mine, int named) {
    char sentence[1024] = "", host[256] = "?";
    int32_t failure[2] = {(int32_t)mine}, *all = comm->scratch;
    int first = -1, alike = 0;
    if (comm->size == 1) return mine;
    if (mine != LS_OK) failure[1] = hash(ls_error_message());
    LS_TRY(ls_comm_allgather(comm, failure, all, sizeof failure));
    for (int rank = comm->size - 1; rank >= 0; rank--)
        if (all[(ptrdiff_t)2 * rank] != LS_OK) first = rank;
    if (first < 0) return LS_OK;
    const int32_t *theirs = all + (ptrdiff_t)2 * first;
    for (int rank = 0; rank < comm->size; rank++)
        alike += memcmp(all + (ptrdiff_t)2 * rank, theirs, sizeof failure) == 0;
    if (comm->rank == first) {
        gethostname(host, sizeof host - 1);
        if (named && alike < comm->size) ls__fail_context(mine, "worker %d on host %s: ", comm->rank, host);
        snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    }
    ls_status status = (ls_status)theirs[0];
    LS_TRY(ls_comm_broadcast(comm, sentence, sizeof sentence, LS_DTYPE_U8, first));
    if (comm->rank != first) ls__error_set(sentence);
    return status;
}

ls_status ls_comm_agree(ls_comm *comm, ls_status mine) { return agree(comm, mine, 1); }

void ls_comm_difference(const char *a, const char *b, char *part_a, char *part_b, size_t size) {
    for (;;) {
        a += strspn(a, "; ");
        b += strspn(b, "; ");
        size_t length_a = strcspn(a, ";"), length_b = strcspn(b, ";");
        if (length_a != length_b || strncmp(a, b, length_a) != 0 || (!*a && !*b)) {
            snprintf(part_a, size, "%.*s", (int)(length_a ? length_a : 4), length_a ? a : "none");
            snprintf(part_b, size, "%.*s", (int)(length_b ? length_b : 4), length_b ? b : "none");
            return;
        }
        a += length_a;
        b += length_b;
    }
}

ls_status ls_comm_check_equal(ls_comm *comm, const char *what, const char *text) {
    if (comm->size == 1) return LS_OK;
    int32_t length = (int32_t)strlen(text);
    LS_TRY(ls_comm_broadcast(comm, &length, 1, LS_DTYPE_I32, 0));
    char *first;
    LS_TRY(ls_comm_agree(comm, ls_calloc((int64_t)length + 1, 1, &first)));
    if (comm->rank == 0) memcpy(first, text, (size_t)length);
    ls_status status = ls_comm_broadcast(comm, first, length, LS_DTYPE_U8, 0);
    if (status == LS_OK) {
        ls_status mine = LS_OK;
        if (strcmp(first, text) != 0) {
            char theirs[160], ours[160];
            ls_comm_difference(first, text, theirs, ours, sizeof ours);
            mine = LS_FAIL(LS_STATUS_MISMATCH,
                           "workers disagree on %s: worker 0 has \"%s\", worker %d has \"%s\"; all must have the same",
                           what, theirs, comm->rank, ours);
        }
        status = agree(comm, mine, 0);  // the sentence names workers already
    }
    free(first);
    return status;
}

void ls_comm_abort(ls_comm *comm, int exit_status) { comm->ops->abort(comm, exit_status); }
