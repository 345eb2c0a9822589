// In which pieces gradients are exchanged, for whoever makes an engine: the trainer, and <lockstep/exchange.h>.
#ifndef LS_TRAIN_BUCKETS_H
#define LS_TRAIN_BUCKETS_H

#include "comm/comm.h"

// Whether gradients are exchanged while backward goes on, where buckets of so many megabytes are asked for (0: nothing is): the same on all workers.
int ls__comm_overlaps(const ls_comm *comm, double megabytes);
// Where the buckets of a vector of `length` floats end: *ends, (*count), is the caller's to free. Errors: OUT_OF_MEMORY.
ls_status ls__buckets_cut(int64_t length, double megabytes, int overlaps, int64_t **ends, int *count);

#endif
