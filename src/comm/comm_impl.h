// What the communicators' files share.
#ifndef LS_COMM_COMM_IMPL_H
#define LS_COMM_COMM_IMPL_H

#include "comm/comm.h"

// All processes the launcher started, `launched` of them (0: it does not say); or those of the MPI_Comm that `mpi_comm` points to.
ls_status ls__comm_mpi_create(int launched, const void *mpi_comm, ls_comm **out);

// Fills hosts, order and position from rank, size and leaders, which says for each rank the lowest rank on its host.
// Expects local_rank and local_size; allocates what ls__comm_arrays_free frees.
ls_status ls__comm_arrange(ls_comm *comm, const int *leaders);
void ls__comm_arrays_free(ls_comm *comm);

// "Shared" memory and file reading for the only worker of a host: MPI has nothing to add there.
ls_status ls__private_alloc(ls_comm *comm, int64_t bytes, ls_shared **out);
void ls__private_free(ls_shared *shared);
ls_status ls__private_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out);

#endif
