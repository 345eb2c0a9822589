// What collectives of C programs (<lockstep/comm.h>) take beside MPI's own, by their size: bench_collectives [FROM-KiB [TO-KiB]], under mpirun.
//
// Bandwidths are those of nccl-tests (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the algorithm's is bytes by time, where the bytes of an
// all-gather are those that all have in the end; the bus's is that times 2 (n - 1) / n of an all-reduce, (n - 1) / n of an all-gather, 1 of a broadcast.
// Times are medians over rounds of the slowest worker's; the two take turns. Ours include the agreement on what is called.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "base/clock.h"
#include "base/median.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "must.h"
#include "train/context.h"

#define MOST_ROUNDS  101
#define LEAST_ROUNDS 5
#define SIZE_SECONDS 1.0

typedef struct bench {
    ls_group *group;
    ls_comm *comm;
    float *mine, *all;
    int64_t bytes;  // in all
} bench;

static ls_status our_all_reduce(bench *b) {
    return ls_group_all_reduce(b->group, b->mine, b->all, b->bytes / 4, LS_DTYPE_F32, LS_REDUCE_SUM);
}
static ls_status mpi_all_reduce(bench *b) { return ls_comm_sum(b->comm, b->mine, b->all, b->bytes / 4); }
static ls_status our_all_gather(bench *b) {
    return ls_group_all_gather(b->group, b->mine, b->all, b->bytes / 4 / b->comm->size, LS_DTYPE_F32);
}
static ls_status mpi_all_gather(bench *b) {
    return b->comm->ops->allgather(b->comm, b->mine, b->all, b->bytes / 4 / b->comm->size * 4);
}
static ls_status our_broadcast(bench *b) { return ls_group_broadcast(b->group, b->all, b->bytes / 4, LS_DTYPE_F32, 0); }
static ls_status mpi_broadcast(bench *b) {
    return b->comm->ops->broadcast(b->comm, b->all, b->bytes / 4, LS_DTYPE_F32, 0);
}

static const struct {
    const char *name;
    ls_status (*ours)(bench *), (*mpi)(bench *);
} kinds[] = {{"all-reduce", our_all_reduce, mpi_all_reduce},
             {"all-gather", our_all_gather, mpi_all_gather},
             {"broadcast", our_broadcast, mpi_broadcast}};

static double time_one(bench *b, ls_status (*run)(bench *)) {
    double mine, slowest;
    MUST(ls_group_barrier(b->group));
    double start = ls_clock();
    MUST(run(b));
    mine = ls_clock() - start;
    MUST(ls_group_all_reduce(b->group, &mine, &slowest, 1, LS_DTYPE_F64, LS_REDUCE_MAX));
    return slowest;
}

static void measure(bench *b, int kind) {
    double ours[MOST_ROUNDS], mpi[MOST_ROUNDS], ratio[MOST_ROUNDS];
    int n = 0;
    int32_t more = 1;
    for (int i = 0; i < 2; i++) time_one(b, kinds[kind].ours), time_one(b, kinds[kind].mpi);
    for (double start = ls_clock(); more; n++) {
        ours[n] = time_one(b, kinds[kind].ours);
        mpi[n] = time_one(b, kinds[kind].mpi);
        ratio[n] = mpi[n] / ours[n];
        more = n + 1 < LEAST_ROUNDS || (n + 1 < MOST_ROUNDS && ls_clock() - start < SIZE_SECONDS);
        MUST(ls_group_broadcast(b->group, &more, 1, LS_DTYPE_I32, 0));
    }
    if (b->comm->rank != 0) return;
    int size = b->comm->size;
    const double shares[] = {2.0 * (size - 1) / size, (double)(size - 1) / size, 1};
    double gb = (double)b->bytes / 1e9, a = ls_median(ours, n), m = ls_median(mpi, n);
    printf("%-10s %10lld  %11.1f %7.2f %7.2f  %11.1f %7.2f %7.2f  %9.2f\n", kinds[kind].name,
           (long long)b->bytes / 1024, 1e6 * a, gb / a, shares[kind] * gb / a, 1e6 * m, gb / m, shares[kind] * gb / m,
           ls_median(ratio, n));
    fflush(stdout);
}

int main(int argc, char **argv) {
    int64_t from = argc > 1 ? atoll(argv[1]) : 4, to = argc > 2 ? atoll(argv[2]) : 512 << 10;
    ls_context *context;
    if (from < 4 || to < from || to > 4 << 20) {
        fprintf(stderr, "usage: bench_collectives [FROM-KiB [TO-KiB]], from 4 to 4194304\n");
        return 2;
    }
    MUST(ls_context_create(&context));
    bench b = {.comm = context->comm};
    MUST(ls_group_create(context, &b.group));
    MUST(ls_memory_alloc(to * 1024, &b.mine));
    MUST(ls_memory_alloc(to * 1024, &b.all));
    for (int64_t i = 0; i < to * 256; i++) b.mine[i] = (float)(i % 7);
    if (b.comm->rank == 0) {
        printf("%d workers on %d hosts, %s. GB/s: of the algorithm, of the bus\n", b.comm->size, b.comm->hosts,
               ls_context_describe(context).communication);
        printf("%-10s %10s  %11s %7s %7s  %11s %7s %7s  %9s\n", "", "KiB", "ours us", "algbw", "busbw", "MPI us",
               "algbw", "busbw", "MPI/ours");
    }
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
        for (int64_t kib = from; kib <= to; kib *= 4) {
            b.bytes = kib * 1024;
            measure(&b, (int)kind);
        }
    ls_memory_free(b.mine);
    ls_memory_free(b.all);
    ls_group_destroy(&b.group);
    ls_context_destroy(&context);
    return 0;
}
