// Several hosts on one machine, for tests: while LOCKSTEP_TEST_HOSTS=H is set, its processes are told that they share memory in H groups
// only. Stands before MPI by MPI's profiling interface: linked into tests, or loaded before a program (LD_PRELOAD).
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    const char *text = getenv("LOCKSTEP_TEST_HOSTS");
    int hosts = text ? atoi(text) : 0, rank, size;
    int code = PMPI_Comm_split_type(comm, type, key, info, out);
    if (code != MPI_SUCCESS || hosts < 2) return code;
    MPI_Comm machine = *out;
    PMPI_Comm_rank(machine, &rank);
    PMPI_Comm_size(machine, &size);
    code = PMPI_Comm_split(machine, (int)((long long)rank * hosts / size), rank, out);
    PMPI_Comm_free(&machine);
    return code;
}

// LOCKSTEP_TEST_BREAKS=R:N: on rank R the N-th look at a message that is not the main thread's, and every one after it, fails.
// LOCKSTEP_TEST_BREAKS_TOTAL=R:N: the N-th look at a total of bf16 that is going to be received (LS_MESSAGE_MEAN), whoever's.
// LOCKSTEP_TEST_BREAKS_ASYNC=R:N: every look of the main thread once it has asked for N messages of asynchronous training. Messages, not looks, are
// counted: how often somebody looks who waits for a first batch is a matter of the machine's load and of the MPI.
#define TOTALS 64  // on their way at once
static MPI_Request totals[TOTALS];
static int asynchronous;  // messages asked for

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
    int code = PMPI_Irecv(data, count, type, from, tag, comm, request);
    asynchronous += tag >= 31000 && tag < 31004;  // LS_ASYNC_TAG_HEAD and those behind it
    for (int i = 0; i < TOTALS && getenv("LOCKSTEP_TEST_BREAKS_TOTAL"); i++)
        if (!totals[i] && type == MPI_UINT16_T && tag % 5 == 1) {
            totals[i] = *request;
            break;
        }
    return code;
}

// Whether this look at a total is to fail.
static int breaks_total(const MPI_Request *request) {
    static int looks;
    const char *text = getenv("LOCKSTEP_TEST_BREAKS_TOTAL"), *colon = text ? strchr(text, ':') : NULL;
    int rank, is_total = 0;
    if (!colon) return 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < TOTALS; i++) is_total |= totals[i] && totals[i] == *request;
    return is_total && rank == atoi(text) && ++looks >= atoi(colon + 1);
}

static int breaks_async(void) {
    const char *text = getenv("LOCKSTEP_TEST_BREAKS_ASYNC"), *colon = text ? strchr(text, ':') : NULL;
    int rank;
    if (!colon || asynchronous < atoi(colon + 1) || syscall(SYS_gettid) != getpid()) return 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == atoi(text);
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    static int looks;
    MPI_Request before = *request;
    if (breaks_total(request) || breaks_async()) return MPI_ERR_OTHER;
    const char *text = getenv("LOCKSTEP_TEST_BREAKS"), *colon = text ? strchr(text, ':') : NULL;
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (colon && rank == atoi(text) && syscall(SYS_gettid) != getpid() && ++looks >= atoi(colon + 1))
        return MPI_ERR_OTHER;
    int code = PMPI_Test(request, flag, status);
    for (int i = 0; i < TOTALS && *flag; i++)
        if (totals[i] == before) totals[i] = 0;
    return code;
}
