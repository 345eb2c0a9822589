#include "train/rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { PIECE = 1 << 20 };  // bytes, of a broadcast

static int64_t table_bytes(const ls_measures *m, int64_t samples) {
    return m->row_width * samples * (int64_t)sizeof(double);
}

int64_t ls__rows_bytes(const ls_measures *m, int64_t samples) {
    return m->row_width ? ls_round_up(table_bytes(m, samples) + samples, LS_ALIGN) : 0;
}

ls_status ls__rows_create(ls_comm *comm, const ls_measures *m, int64_t samples, ls_rows *out) {
    *out = (ls_rows){.measures = m, .samples = samples};
    if (ls__rows_bytes(m, samples) == 0) return LS_OK;
    LS_TRY(ls_comm_host_alloc(comm, ls__rows_bytes(m, samples), &out->shared));
    out->table = out->shared->base;
    out->seen = (unsigned char *)out->shared->base + table_bytes(m, samples);
    return LS_OK;
}

void ls__rows_destroy(ls_rows *rows) {
    ls_comm_host_free(&rows->shared);
    *rows = (ls_rows){0};
}

void ls__rows_begin(ls_rows *rows, const ls_comm *comm) {
    if (rows->table && comm->local_rank == 0) memset(rows->seen, 0, (size_t)rows->samples);
}

ls_status ls__rows_take(ls_rows *rows, ls_queue *queue, const ls_plan *plan, int64_t first, int64_t count) {
    const ls_measures *m = rows->measures;
    if (!rows->table) return LS_OK;
    for (int i = 0; i < m->count; i++) {
        const ls_measure *one = &m->list[i];
        if (!one->rows) continue;
        double *to = rows->table + one->at * rows->samples + first * one->count;
        ls_span from = ls_span_at(ls_plan_rows(plan), one->at * count * (int64_t)sizeof *to);
        LS_TRY(ls_read(queue, to, from, one->count * count * (int64_t)sizeof *to));
    }
    memset(rows->seen + first, 1, (size_t)count);
    return LS_OK;
}

// --- hosts -----------------------------------------------------------------------------------------------------------

// From the memory of one host to that of all others, piece by piece: one worker of each host writes it there.
static ls_status send(ls_comm *comm, int root, void *memory, int64_t bytes, void *dropped) {
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int64_t piece = bytes - at < PIECE ? bytes - at : PIECE;
        int mine = comm->rank == root || (comm->host != comm->host_of[root] && comm->local_rank == 0);
        LS_TRY(ls_comm_broadcast(comm, mine ? (char *)memory + at : dropped, piece, LS_DTYPE_U8, root));
    }
    return LS_OK;
}

// The rows that `seen` has, run by run.
static ls_status send_rows(ls_rows *rows, ls_comm *comm, int root, const unsigned char *seen, void *dropped) {
    const ls_measures *m = rows->measures;
    for (int64_t begin = 0, end; begin < rows->samples; begin = end) {
        end = begin + 1;
        while (end < rows->samples && seen[end] == seen[begin]) end++;
        for (int i = 0; i < m->count && seen[begin]; i++) {
            const ls_measure *one = &m->list[i];
            if (!one->rows) continue;
            double *at = rows->table + one->at * rows->samples + begin * one->count;
            LS_TRY(send(comm, root, at, (end - begin) * one->count * (int64_t)sizeof *at, dropped));
        }
    }
    return LS_OK;
}

static ls_status merge_hosts(ls_rows *rows, ls_comm *comm, unsigned char *seen, void *dropped) {
    for (int position = 0; position < comm->size; position++) {
        int root = comm->order[position];
        if (position > 0 && comm->host_of[comm->order[position - 1]] == comm->host_of[root]) continue;
        if (comm->rank == root) memcpy(seen, rows->seen, (size_t)rows->samples);
        for (int64_t at = 0; at < rows->samples; at += PIECE) {
            int64_t piece = rows->samples - at < PIECE ? rows->samples - at : PIECE;
            LS_TRY(ls_comm_broadcast(comm, seen + at, piece, LS_DTYPE_U8, root));
        }
        LS_TRY(send_rows(rows, comm, root, seen, dropped));
    }
    return LS_OK;
}

ls_status ls__rows_gather(ls_rows *rows, ls_comm *comm) {
    unsigned char *seen = NULL;
    void *dropped = NULL;
    LS_TRY(ls_comm_barrier(comm));
    if (comm->hosts == 1) return LS_OK;
    ls_status status = ls_calloc(rows->samples, 1, &seen);
    if (status == LS_OK) status = ls_calloc(PIECE, 1, &dropped);
    status = ls_comm_agree(comm, status);
    if (status == LS_OK) status = merge_hosts(rows, comm, seen, dropped);
    free(seen);
    free(dropped);
    LS_TRY(status);
    return ls_comm_barrier(comm);
}

ls_status ls__rows_values(ls_rows *rows, ls_comm *comm, const double *sum, ls_measured *out) {
    if (rows->table) LS_TRY(ls__rows_gather(rows, comm));
    ls_status status = ls__measures_values(rows->measures, sum, rows->table, rows->samples, out);
    return rows->table ? ls_comm_agree(comm, status) : status;  // nobody writes rows while another still reads them
}
