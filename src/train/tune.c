#define _GNU_SOURCE
#include "train/tune.h"

#include <lockstep/bench.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "train/context.h"

#define SMALL_FLOATS 4096
#define LARGE_FLOATS (512 << 10)
#define SIZE_SECONDS 0.07  // of measuring one size, but one step at least
#define MOST_STEPS   9
#define LEAST_MB     0.1
#define MOST_MB      32.0
#define HALVING_WINS 0.9  // of the time of direct messages

ls_status ls_tune_find(const char *name, ls_tune *out) {
    static const char *const names[] = {"off", "auto", "again"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (ls_tune)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown way to tune the exchange '%.40s': there are off, auto and again", name);
}

// --- choosing --------------------------------------------------------------------------------------------------------

ls_tune_wanted ls_tune_wants(ls_algorithm algorithm, int hosts, int topk) {
    int any = algorithm == LS_ALGORITHM_AUTO;
    ls_tune_wanted wanted = {.halving = algorithm == LS_ALGORITHM_HALVING || (any && hosts > 2 && !topk)};
    wanted.direct = algorithm == LS_ALGORITHM_DIRECT || (any && (hosts <= LS_DIRECT_HOSTS_MOST || topk));
    return wanted;
}

static double total_seconds(const ls_tune_speed *v, double bytes) {
    return bytes / v->bytes_per_second + 2 * sqrt(bytes * v->bucket_seconds / v->bytes_per_second);
}

ls_tune_choice ls_tune_choose(const ls_tune_measured *m, double bytes) {
    ls_tune_choice choice = {.algorithm = LS_ALGORITHM_DIRECT, .speed = m->direct};
    int halves = m->halving.bytes_per_second > 0;
    if (m->direct.bytes_per_second > 0 && halves)
        halves = total_seconds(&m->halving, bytes) < HALVING_WINS * total_seconds(&m->direct, bytes);
    if (halves) choice.algorithm = LS_ALGORITHM_HALVING, choice.speed = m->halving;
    double size = sqrt(bytes * choice.speed.bucket_seconds * choice.speed.bytes_per_second) / 1e6;
    choice.megabytes = fmax(LEAST_MB, fmin(MOST_MB, size));
    return choice;
}

// --- measuring -------------------------------------------------------------------------------------------------------

// The median time of an exchange of so many floats, as worker 0 has it: a step ends for all together.
static ls_status time_size(ls_context *context, int64_t floats, const char *compress, const char *algorithm,
                           int own_cores, double *out) {
    ls_exchange_bench *bench;
    double seconds[MOST_STEPS], first = 0;
    int n = 0, more = 1;
    LS_TRY(ls_exchange_bench_create(context, floats, "sgd", compress, algorithm, own_cores, &bench));
    ls_status status = ls_exchange_bench_step(bench, &first);  // memory is touched, connections are made
    double start = ls_clock();
    while (status == LS_OK && more) {
        status = ls_exchange_bench_step(bench, &seconds[n++]);
        more = n < MOST_STEPS && ls_clock() - start < SIZE_SECONDS;
        if (status == LS_OK) status = ls_comm_broadcast(context->comm, &more, 1, LS_DTYPE_I32, 0);
    }
    ls_exchange_bench_destroy(&bench);
    *out = status == LS_OK ? ls_median(seconds, n) : 0;
    return status;
}

static ls_status measure_one(ls_context *context, const char *compress, const char *algorithm, int own_cores,
                             ls_tune_speed *out) {
    double small, large, bytes = 4.0 * (LARGE_FLOATS - SMALL_FLOATS);
    LS_TRY(time_size(context, SMALL_FLOATS, compress, algorithm, own_cores, &small));
    LS_TRY(time_size(context, LARGE_FLOATS, compress, algorithm, own_cores, &large));
    out->bytes_per_second = bytes / fmax(large - small, 0.1 * large);
    out->bucket_seconds = fmax(small - 4.0 * SMALL_FLOATS / out->bytes_per_second, 0.1 * small);
    LS_TRY(ls__exchange_bench_processor(context, LARGE_FLOATS, compress, algorithm, &out->processor_seconds));
    out->processor_seconds /= 4.0 * LARGE_FLOATS;
    return LS_OK;
}

ls_status ls_tune_measure(ls_context *context, const char *compress, ls_algorithm algorithm, int own_cores,
                          ls_tune_measured *out) {
    ls_comm *comm = context->comm;
    ls_tune_wanted wanted = ls_tune_wants(algorithm, comm->hosts, strncmp(compress, "topk", 4) == 0);
    *out = (ls_tune_measured){0};
    if (wanted.direct) LS_TRY(measure_one(context, compress, "direct", own_cores, &out->direct));
    if (wanted.halving) LS_TRY(measure_one(context, compress, "halving", own_cores, &out->halving));
    return ls_comm_broadcast(comm, out, (int64_t)sizeof *out, LS_DTYPE_U8, 0);
}

void ls_tune_key(const ls_context *context, const ls_topology *topology, const char *compress, char key[LS_TUNE_KEY]) {
    const ls_comm *comm = context->comm;
    char host[64] = "", processor[96];
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)  // node07 and node08 are of one kind
        if (*c >= '0' && *c <= '9') *c = '#';
    ls__topology_processor(topology, processor, sizeof processor);
    snprintf(key, LS_TUNE_KEY, "hosts named %s, %s, %d cores; %s; %d workers on %d hosts, %d here; compress %s%s", host,
             processor, ls_topology_host_cores(topology), context->communication, comm->size, comm->hosts,
             comm->local_size, compress, strcmp(compress, "bf16") == 0 ? ", totals" : "");
    for (char *c = key; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = '?';
}
