// lockstep bench exchange: what exchanging and applying gradients takes, by their size, beside MPI_Allreduce of the same MPI in the same run.
//
// Bandwidths are those of nccl-tests (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md): the algorithm's is the gradients' bytes by
// the time; the bus's is that times 2 (n - 1) / n, what each of n workers has to send and receive, which does not depend on n.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/median.h"
#include "base/memory.h"
#include "cli/bench.h"

#define SIZE_SECONDS 1.0  // for each size
#define MOST_ROUNDS  301
#define LEAST_ROUNDS 5
#define BUFFERS                                                                                                        \
    6  // of the gradients' size that a worker has at most: gradients, weights, received sums; those of the comparison

typedef struct settings {
    int64_t from, to;  // KiB
    const char *compress, *algorithm;
    int workers, json;
} settings;

static const ls_option table[] = {
    {"from", LS_OPTION_COUNT, .offset = offsetof(settings, from), .metavar = "KiB", .min = 1, .max = 4 << 20,
     .group = "Bench", .help = "the smallest size; each next one is four times as large, the last as --to says"},
    {"to", LS_OPTION_COUNT, .offset = offsetof(settings, to), .metavar = "KiB", .min = 1, .max = 4 << 20,
     .group = "Bench", .help = "the largest, where there is memory for it"},
    {"compress", LS_OPTION_TEXT, .offset = offsetof(settings, compress), .metavar = "WAY", .group = "Bench",
     .help = "none, bf16, topk or topk:PART. bf16: gradients and their sums are rounded to bf16 and take half the "
             "bytes between hosts; topk: the "
             "largest of them alone are sent, as train's option says, and finding them counts"},
    {"algorithm", LS_OPTION_TEXT, .offset = offsetof(settings, algorithm), .metavar = "auto|direct|halving",
     .group = "Bench", .help = "how it is sent between hosts, as train's option says"},
    {"json", LS_OPTION_FLAG, .offset = offsetof(settings, json), .group = "Bench", .help = "print JSON"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "2, or as many as a launcher started", .group = "Workers, replicas, threads",
     .help = "processes to exchange: starts them with mpirun, inside a Slurm allocation with srun"},
    {.name = NULL},
};

typedef struct measured {
    ls_exchange_times median;
    double ratio, applied;  // medians of allreduce / step, (allreduce + update) / step of a round
} measured;

static ls_status measure(cli *c, ls_exchange_bench *bench, measured *out) {
    static double step[MOST_ROUNDS], allreduce[MOST_ROUNDS], update[MOST_ROUNDS], limit[MOST_ROUNDS],
        ratio[MOST_ROUNDS], applied[MOST_ROUNDS];
    ls_exchange_times t;
    int n = 0, more = 1;
    for (int i = 0; i < 2; i++) LS_TRY(ls_exchange_bench_compare(bench, &t));
    for (double start = ls_clock(); more; n++) {
        LS_TRY(ls_exchange_bench_compare(bench, &t));
        step[n] = t.step, allreduce[n] = t.allreduce, update[n] = t.update, limit[n] = t.limit;
        ratio[n] = t.allreduce / t.step, applied[n] = (t.allreduce + t.update) / t.step;
        more = n + 1 < LEAST_ROUNDS || (n + 1 < MOST_ROUNDS && ls_clock() - start < SIZE_SECONDS);
        LS_TRY(ls_context_broadcast(c->context, &more, sizeof more, 0));
    }
    out->median =
        (ls_exchange_times){ls_median(step, n), ls_median(allreduce, n), ls_median(update, n), ls_median(limit, n)};
    out->ratio = ls_median(ratio, n);
    out->applied = ls_median(applied, n);
    return LS_OK;
}

static void print_head(const settings *set, const ls_context_info *info) {
    // Over TCP there is no MPI to compare with, but what others do there: sums around a ring.
    const char *what = strncmp(info->communication, "TCP", 3) == 0 ? "ring" : "MPI";
    char heads[3][16];
    snprintf(heads[0], sizeof heads[0], "%s us", what);
    snprintf(heads[1], sizeof heads[1], "%s/ours", what);
    snprintf(heads[2], sizeof heads[2], "%s+update", what);
    printf("%d workers on %d host%s, %s. GB/s: of the algorithm, of the bus. Limit: the least for these bytes %s.\n",
           info->size, info->hosts, info->hosts == 1 ? "" : "s", info->communication,
           info->hosts == 1 ? "in memory" : "over the wire");
    if (strcmp(set->compress, "none") != 0)
        printf("Ours%s%s; %s, and GB/s, with all of their bytes.\n", cli_compress_text(set->compress), set->compress,
               *what == 'r' ? "the ring" : "MPI_Allreduce");
    printf("%10s  %11s %7s %7s %6s  %11s %7s %7s  %9s %11s\n", "KiB", "ours us", "algbw", "busbw", "limit", heads[0],
           "algbw", "busbw", heads[1], heads[2]);
}

static void print_row(int64_t kib, int workers, const measured *m) {
    const ls_exchange_times *t = &m->median;
    double gb = (double)kib * 1024 / 1e9, bus = 2.0 * (workers - 1) / workers;
    printf("%10lld  %11.1f %7.2f %7.2f %5.0f%%  %11.1f %7.2f %7.2f  %9.2f %11.2f\n", (long long)kib, 1e6 * t->step,
           gb / t->step, bus * gb / t->step, 100 * t->limit / t->step, 1e6 * t->allreduce, gb / t->allreduce,
           bus * gb / t->allreduce, m->ratio, m->applied);
    fflush(stdout);
}

static json_t *json_row(int64_t kib, const measured *m) {
    const ls_exchange_times *t = &m->median;
    return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f,s:f}", "bytes", (json_int_t)(kib * 1024), "step_seconds", t->step,
                     "allreduce_seconds", t->allreduce, "update_seconds", t->update, "limit_seconds", t->limit,
                     "allreduce_over_step", m->ratio, "allreduce_and_update_over_step", m->applied);
}

// Whether all hosts have room for gradients of this size.
static ls_status find_room(cli *c, const ls_context_info *info, int64_t kib, int *room) {
    double left = ls_limits_memory_left(), need = (double)kib * 1024 * BUFFERS * info->local_size;
    int mine = left < 0 || need < left, *all;
    LS_TRY(ls_context_agree(c->context, ls_calloc(info->size, sizeof *all, &all)));
    ls_status status = ls_context_gather(c->context, &mine, all, sizeof mine);
    *room = 1;
    for (int i = 0; i < info->size; i++) *room &= all[i];
    free(all);
    return status;
}

static ls_status run_sizes(cli *c, const settings *set, const ls_context_info *info, json_t *rows) {
    ls_topology *topology;
    LS_TRY(ls_topology_create(c->context, &topology));
    int own_cores = ls_topology_cores_least(topology) > 0;
    if (own_cores) ls_topology_bind(topology, 0, 1);
    ls_topology_destroy(&topology);
    for (int64_t kib = set->from; kib <= set->to; kib = kib < set->to && 4 * kib > set->to ? set->to : 4 * kib) {
        ls_exchange_bench *bench;
        measured m;
        int room;
        LS_TRY(find_room(c, info, kib, &room));
        if (!room && info->rank == 0 && !set->json)
            printf("%10lld  no memory for %d buffers of it on each worker\n", (long long)kib, BUFFERS);
        if (!room) break;
        LS_TRY(
            ls_exchange_bench_create(c->context, kib * 256, "sgd", set->compress, set->algorithm, own_cores, &bench));
        c->stage = CLI_STAGE_ALONE;
        LS_TRY(measure(c, bench, &m));
        c->stage = CLI_STAGE_TOGETHER;
        ls_exchange_bench_destroy(&bench);
        if (info->rank == 0 && rows) json_array_append_new(rows, json_row(kib, &m));
        if (info->rank == 0 && !rows) print_row(kib, info->size, &m);
    }
    return LS_OK;
}

static ls_status run_all(cli *c, const settings *set) {
    json_t *rows = NULL;
    if (set->from > set->to)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--from %lld is larger than --to %lld", (long long)set->from,
                       (long long)set->to);
    LS_TRY(cli_cluster_find(c, set->workers));
    int workers = set->workers ? set->workers : cli_job_size() > 0 || c->clustered ? 0 : 2;
    LS_TRY(cli_job_launch(c, workers));
    c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(cli_job_join(c, "bench", workers));
    ls_context_info info = ls_context_describe(c->context);
    int speaks = info.rank == 0;
    if (speaks && set->json) rows = json_array();
    if (speaks && !set->json) print_head(set, &info);
    LS_TRY(run_sizes(c, set, &info, rows));
    if (!rows) return LS_OK;
    json_t *root = json_pack("{s:i,s:i,s:s,s:s,s:o}", "workers", info.size, "hosts", info.hosts, "compress",
                             set->compress, "algorithm", set->algorithm, "sizes", rows);
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(root);
    return LS_OK;
}

ls_status cli_bench_exchange(cli *c, int argc, char **argv) {
    settings set = {.from = 4, .to = 512 << 10, .compress = "none", .algorithm = "auto"};
    const ls_option_set options[] = {{table, &set}, {cli_cluster_options(), &c->cluster}, {NULL, NULL}};
    ls_words words;
    LS_TRY(ls_options_parse(options, argc, argv, 1, &words));
    if (words.help) {
        int width = cli_help_width();
        printf("Usage: lockstep bench exchange [OPTIONS]\n\n");
        ls_print_entry(stdout, "", 0, width,
                       "Exchanges and applies gradients of many sizes on several workers, beside MPI_Allreduce of the "
                       "same MPI, with and without "
                       "an update of all weights after it, and beside the least that memory or the wire allow. "
                       "Medians; the ratios are medians "
                       "of ratios.");
        ls_options_help(stdout, options, width);
        return LS_OK;
    }
    return run_all(c, &set);
}
