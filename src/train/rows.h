// What metrics are found from that need all samples of an evaluation at once, as the area under a curve does: a table of the rows that
// plans give (LS_OP_ROWS), by sample position, in memory that the workers of a host share. A host's own rows are written by its lanes,
// those of other hosts come at the end, so that every worker finds the same values, for any number of workers. Graphs without such
// metrics have no table, and all of this does nothing.
#ifndef LS_TRAIN_ROWS_H
#define LS_TRAIN_ROWS_H

#include "comm/comm.h"
#include "graph/plan.h"
#include "train/measures.h"

typedef struct ls_rows {
    const ls_measures *measures;
    int64_t samples;
    ls_shared *shared;
    double *table;        // of each measure that has rows (samples, count), one after the other; NULL: there is none
    unsigned char *seen;  // (samples): 1 where the row is this host's
} ls_rows;

// Bytes of a host. Not collective.
int64_t ls__rows_bytes(const ls_measures *measures, int64_t samples);
// For evaluations of so many samples. Borrows measures, which outlive it. Collective on comm. Errors: OUT_OF_MEMORY.
ls_status ls__rows_create(ls_comm *comm, const ls_measures *measures, int64_t samples, ls_rows *out);
void ls__rows_destroy(ls_rows *rows);  // Collective on the host's workers

// Before an evaluation: no row is there. Others may write rows after a barrier. Not collective.
void ls__rows_begin(ls_rows *rows, const ls_comm *comm);
// The rows of the plan's latest forward are those of samples [first, first + count). Reading them is put into the queue: they are there
// after the next synchronize. Not collective; lanes write different samples at once.
ls_status ls__rows_take(ls_rows *rows, ls_queue *queue, const ls_plan *plan, int64_t first, int64_t count);
// After an evaluation: the rows of all hosts come to each. Collective on comm. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__rows_gather(ls_rows *rows, ls_comm *comm);
// The same, and the values of all measures from them and the sums, (value_count). Collective on comm.
// Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__rows_values(ls_rows *rows, ls_comm *comm, const double *sum, ls_measured *out);

#endif
