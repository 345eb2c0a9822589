// Timing exchange and update without training, and what the same takes otherwise.
#include <lockstep/bench.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/median.h"
#include "base/memory.h"
#include "step/engine.h"
#include "train/buckets.h"
#include "train/context.h"
#include "train/tune.h"

#define SPINS           20000  // while waiting, where every worker has cores of its own
#define PROCESSOR_STEPS 5

struct ls_exchange_bench {
    ls_comm *comm;
    int64_t count, done;  // floats; steps
    ls_compress compress;
    double fraction;  // of topk
    ls_device *device;
    ls_queue *queue;
    ls_engine *engine;
    double processor;             // seconds of the latest step, of this process
    float *mine, *sum, *weights;  // (count): of comparisons; NULL before the first
};

// Between hosts what is large goes in buckets, as training cuts them: sums of some are on their way while weights of others are. What
// ls_tune_measure takes the time of is one bucket.
#define ONE_BUCKET (1 << 19)  // floats

static ls_status create_engine(ls_exchange_bench *b, ls_engine_config *config) {
    const ls_segment whole = {.end = b->count, .kernel = 1};
    int64_t *ends = NULL;
    int buckets = config->comm->hosts > 1 && b->count > ONE_BUCKET;
    ls_status status = ls__buckets_cut(b->count, 0, buckets, &ends, &config->bucket_count);
    status = ls_comm_agree(config->comm, status);
    if (status == LS_OK) {
        ls_engine_bucket_ends(config->compress, &whole, 1, ends, &config->bucket_count);
        config->bucket_ends = ends;
        status = ls_engine_create("allreduce", config, &b->engine);
    }
    free(ends);
    return status;
}

// On the simplest device there is: exchange and update need no kernels.
static ls_status set_up(ls_exchange_bench *b, const char *optimizer, ls_engine_config *config) {
    LS_TRY(ls_device_create("ref", NULL, &b->device));
    LS_TRY(ls_queue_create(b->device, &b->queue));
    config->device = b->device;
    LS_TRY(ls_optimizer_find(optimizer, &config->optimizer));
    return ls_optimizer_resolve(config->optimizer, &config->params);
}

// behind: 1: a thread exchanges, as behind backward, and the caller sleeps.
static ls_status create(ls_context *context, int64_t count, const char *optimizer, const char *compress,
                        const char *algorithm, int own_cores, int behind, ls_exchange_bench **out) {
    ls_exchange_bench *b = NULL;
    ls_comm *comm = context->comm;
    ls_compress compresses;
    double fraction;
    ls_algorithm way;
    LS_TRY(ls_compress_find(compress, &compresses, &fraction));
    LS_TRY(ls_algorithm_find(algorithm, &way));
    count = (count + LS_SLICE_ALIGN - 1) / LS_SLICE_ALIGN * LS_SLICE_ALIGN;
    ls_engine_config config = {.comm = comm,
                               .lanes = 1,
                               .length = count,
                               .micro_batches = comm->size,
                               .compress = compresses,
                               .compress_fraction = fraction,
                               .algorithm = way,
                               .params = {-1, -1, -1, -1, -1, -1, -1, -1, 0},
                               .progress = behind,
                               .spin = own_cores ? SPINS : 0};
    ls_status status = ls_calloc(1, sizeof *b, &b);
    if (status == LS_OK) status = set_up(b, optimizer, &config);
    LS_TRY_GOTO(ls_comm_agree(comm, status), fail);
    b->comm = comm;
    b->count = count;
    b->compress = compresses;
    b->fraction = fraction;
    LS_TRY_GOTO(create_engine(b, &config), fail);
    *out = b;
    return LS_OK;
fail:
    ls_exchange_bench_destroy(&b);
    return status;
}

ls_status ls_exchange_bench_create(ls_context *context, int64_t count, const char *optimizer, const char *compress,
                                   const char *algorithm, int own_cores, ls_exchange_bench **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(optimizer, "optimizer");
    LS_NEED(compress, "compress");
    LS_NEED(algorithm, "algorithm");
    if (count < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an exchange is of at least one parameter, not of %lld",
                       (long long)count);
    ls_comm_enter(context->comm, __func__);
    return create(context, count, optimizer, compress, algorithm, own_cores, 0, out);
}

void ls_exchange_bench_destroy(ls_exchange_bench **bench) {
    if (!bench) return;
    ls_exchange_bench *b = *bench;
    if (!b) return;
    ls_engine_destroy(&b->engine);
    ls_queue_destroy(&b->queue);
    ls_device_destroy(&b->device);
    ls_memory_free(b->mine);
    ls_memory_free(b->sum);
    ls_memory_free(b->weights);
    free(b);
    *bench = NULL;
}

// Of many sizes, and another on each worker: for topk that is neither easy nor hard.
LS_CLONES static void write_gradient(float *g, int64_t count, int rank) {
    for (int64_t i = 0; i < count; i++) {
        uint32_t r = (uint32_t)(i + 1) * 2654435761u + (uint32_t)rank * 2246822519u;
        r = (r ^ r >> 15) * 2246822519u;
        g[i] = (float)(int32_t)(r ^ r >> 13) * 0x1p-40f;
    }
}

static double processor_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ls_status ls_exchange_bench_step(ls_exchange_bench *b, double *seconds) {
    LS_NEED(b, "bench");
    LS_NEED(seconds, "seconds");
    ls_comm_enter(b->comm, __func__);
    ls_step_info info = {.micro_batches = b->comm->size, .samples = b->comm->size, .lr = 1e-3, .step = ++b->done};
    ls_step_times times = {.since = ls_clock()};
    ls_step_run run;
    ls_vote unused;
    LS_TRY(ls_engine_begin(b->engine, 0, b->queue, &info, NULL, &times));
    while (ls_engine_next(b->engine, 0, &run) && !run.backward) continue;
    write_gradient(ls_span_host(run.gradient), b->count, b->comm->rank);
    LS_TRY(ls_comm_barrier(b->comm));
    double start = ls_clock(), processor = processor_clock();
    LS_TRY(ls_engine_end(b->engine, 0, &unused));  // here topk finds the largest
    *seconds = ls_clock() - start;
    b->processor = processor_clock() - processor;
    return LS_OK;
}

ls_status ls__exchange_bench_processor(ls_context *context, int64_t floats, const char *compress, const char *algorithm,
                                       double *out) {
    ls_exchange_bench *b;
    double seconds, processor[PROCESSOR_STEPS];
    *out = 0;
    if (!context->comm->any_thread) return LS_OK;
    LS_TRY(create(context, floats, "sgd", compress, algorithm, 0, 1, &b));
    ls_status status = ls_exchange_bench_step(b, &seconds);
    for (int i = 0; i < PROCESSOR_STEPS && status == LS_OK; i++) {
        status = ls_exchange_bench_step(b, &seconds);
        processor[i] = b->processor;
    }
    ls_exchange_bench_destroy(&b);
    if (status == LS_OK) *out = ls_median(processor, PROCESSOR_STEPS);
    return status;
}

// --- otherwise -------------------------------------------------------------------------------------------------------

LS_CLONES static void descend(float *restrict w, const float *restrict g, float rate, int64_t n) {
    for (int64_t i = 0; i < n; i++) w[i] -= rate * g[i];
}

static ls_status make_room(ls_exchange_bench *b) {
    if (b->weights) return LS_OK;
    int64_t bytes = b->count * (int64_t)sizeof(float);
    ls_status status = ls_memory_alloc(bytes, &b->mine);
    if (status == LS_OK) status = ls_memory_alloc(bytes, &b->sum);
    if (status == LS_OK) status = ls_memory_alloc(bytes, &b->weights);
    return ls_comm_agree(b->comm, status);
}

// Of any host.
static int fewest_workers(const ls_comm *comm) {
    int fewest = comm->size;
    for (int host = 0; host < comm->hosts; host++) {
        int workers = 0;
        for (int rank = 0; rank < comm->size; rank++) workers += comm->host_of[rank] == host;
        if (workers < fewest) fewest = workers;
    }
    return fewest > 0 ? fewest : 1;  // no host is without
}

// What a worker must send in a step, and receive, in floats.
static int64_t must_send(const ls_exchange_bench *b) {
    const ls_comm *comm = b->comm;
    if (b->compress == LS_COMPRESS_TOPK) {  // the largest of its own, with indices of half the size, to each other host
        int64_t most = (int64_t)((double)b->count * b->fraction * 1.5) * (comm->hosts - 1);
        return most < 2 * b->count ? most : 2 * b->count;
    }
    int sums = b->compress == LS_COMPRESS_BF16;             // in half the bytes
    int alone = sums && ls_engine_sends_totals(b->engine);  // and no weights
    int64_t floats = alone ? b->count : sums ? b->count + b->count / 2 : 2 * b->count;
    return floats * (comm->hosts - 1) / comm->hosts / fewest_workers(comm);
}

// Between hosts: a worker's share of what its host must send and receive goes to and comes from the worker at the same place on the next host.
static ls_status over_wire(ls_exchange_bench *b) {
    const ls_comm *comm = b->comm;
    int64_t share = must_send(b);
    ls_request requests[4];
    int to = -1, from = -1, pending = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        int place = comm->position_of[rank], first = place;
        while (first > 0 && comm->host_of[comm->order[first - 1]] == comm->host_of[rank]) first--;
        if (place - first != comm->local_rank) continue;
        if (comm->host_of[rank] == (comm->host + 1) % comm->hosts) to = rank;
        if (comm->host_of[rank] == (comm->host + comm->hosts - 1) % comm->hosts) from = rank;
    }
    // There may be more than a worker's gradients to send: in two halves, each of which is at most as long.
    for (int half = 0; half < 2; half++) {
        int64_t n = half ? share / 2 : share - share / 2;
        if (from >= 0) LS_TRY(ls_comm_irecv(b->comm, b->sum, n, LS_DTYPE_F32, from, half, &requests[pending++]));
        if (to >= 0) LS_TRY(ls_comm_isend(b->comm, b->mine, n, LS_DTYPE_F32, to, half, &requests[pending++]));
        LS_TRY(ls_comm_wait_all(b->comm, requests, pending));
        pending = 0;
    }
    return LS_OK;
}

// On one host all gradients are read once, and weights read and written. A worker's share of these bytes, in elements of a loop that
// reads two floats and writes one.
static void over_memory(ls_exchange_bench *b) {
    int64_t n = b->count * (b->comm->size + 2) / (3 * (int64_t)b->comm->size);
    descend(b->weights, b->mine, 1e-3f, n);
}

typedef ls_status (*timed_fn)(ls_exchange_bench *b);

static ls_status run_allreduce(ls_exchange_bench *b) { return ls_comm_sum(b->comm, b->mine, b->sum, b->count); }

static ls_status run_update(ls_exchange_bench *b) {
    descend(b->weights, b->sum, 1e-3f, b->count);
    return LS_OK;
}

static ls_status run_limit(ls_exchange_bench *b) {
    if (b->comm->hosts > 1) return over_wire(b);
    over_memory(b);
    return LS_OK;
}

static ls_status time_one(ls_exchange_bench *b, timed_fn run, double *seconds) {
    LS_TRY(ls_comm_barrier(b->comm));
    double start = ls_clock();
    LS_TRY(run(b));
    *seconds = ls_clock() - start;
    return LS_OK;
}

ls_status ls_exchange_bench_compare(ls_exchange_bench *b, ls_exchange_times *out) {
    LS_NEED(b, "bench");
    LS_NEED(out, "out");
    double mine[4], *all;
    LS_TRY(make_room(b));
    ls_comm_enter(b->comm, __func__);
    LS_TRY(ls_comm_agree(b->comm, ls_calloc(b->comm->size, sizeof mine, &all)));
    ls_status status = ls_exchange_bench_step(b, &mine[0]);
    write_gradient(b->mine, b->count, b->comm->rank);
    if (status == LS_OK) status = time_one(b, run_allreduce, &mine[1]);
    if (status == LS_OK) status = time_one(b, run_update, &mine[2]);
    if (status == LS_OK) status = time_one(b, run_limit, &mine[3]);
    if (status == LS_OK) status = ls_comm_allgather(b->comm, mine, all, sizeof mine);
    double most[4] = {0};
    for (int i = 0; i < 4 * b->comm->size; i++)
        if (all[i] > most[i % 4]) most[i % 4] = all[i];
    free(all);
    *out = (ls_exchange_times){most[0], most[1], most[2], most[3]};
    return status;
}
