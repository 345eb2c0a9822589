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
int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    static int looks;
    const char *text = getenv("LOCKSTEP_TEST_BREAKS"), *colon = text ? strchr(text, ':') : NULL;
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (colon && rank == atoi(text) && syscall(SYS_gettid) != getpid() && ++looks >= atoi(colon + 1))
        return MPI_ERR_OTHER;
    return PMPI_Test(request, flag, status);
}
