#include "train/spread.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/trainer_impl.h"

#define CORE_PAYS 0.98  // of the time of a step

// --- cores -----------------------------------------------------------------------------------------------------------

int ls__cores_count(const ls_cores *cores) {
    int sum = 0;
    for (int d = 0; d < cores->domains; d++) sum += cores->count[d];
    return sum;
}

ls_cores ls__cores_share(const ls_cores *cores, int index, int of) {
    ls_cores mine = {.domains = cores->domains};
    int count = ls__cores_count(cores), before = 0;
    int first = (int)((int64_t)count * index / of), end = (int)((int64_t)count * (index + 1) / of);
    for (int d = 0; d < cores->domains && count >= of; d++) {
        int from = before > first ? before : first, to = before + cores->count[d];
        before = to;
        if (to > end) to = end;
        if (to > from) mine.count[d] = to - from;
    }
    return mine;
}

static int fit_of(const ls_cores *cores, int threads, int reserved) {
    int sum = 0;
    for (int d = cores->domains - 1; d >= 0; d--) {  // what is reserved is of the last ones
        int left = cores->count[d] - reserved;
        reserved = left < 0 ? -left : 0;
        if (left > 0) sum += left / threads;
    }
    return sum;
}

int ls__spread_fit(const ls_spread_question *q, int threads) {
    int least = fit_of(&q->have[0], threads, q->reserved);
    for (int k = 1; k < q->kinds; k++) {
        int fit = fit_of(&q->have[k], threads, q->reserved);
        if (fit < least) least = fit;
    }
    return least;
}

// --- how many --------------------------------------------------------------------------------------------------------

// Replicas of so many threads; 0: there is no room for one.
static int replicas_of(const ls_spread_question *q, int threads) {
    int64_t most = q->micro_batches / q->workers, fit = ls__spread_fit(q, threads);
    return (int)(fit < most ? fit : most);
}

void ls__spread_choose(const ls_spread_question *q, int *replicas, int *threads) {
    *threads = q->threads ? q->threads : 1;
    *replicas = q->replicas ? q->replicas : replicas_of(q, *threads);
    if (*replicas < 1) *replicas = 1;
    if (q->replicas || q->threads) return;  // what is asked for, with one thread where nothing is said
    while (*threads < q->most_threads && ls__spread_fit(q, *threads + 1) >= *replicas) ++*threads;
}

int ls__spread_core_pays(int64_t micro_batches, int cores, int shared, int own, double micro_batch_seconds,
                         double exchange_seconds) {
    if (own < 1 || shared < 1 || cores < 1 || !(micro_batch_seconds > 0)) return 0;
    int64_t alone = (micro_batches + own - 1) / own, together = (micro_batches + shared - 1) / shared;  // rounds
    double seconds = (double)together * micro_batch_seconds + exchange_seconds / cores;
    return (double)alone * micro_batch_seconds < CORE_PAYS * seconds;
}

// --- where -----------------------------------------------------------------------------------------------------------

void ls__spread_place(const ls_cores *cores, int replicas, int threads, int *first, int *spare) {
    int in[LS_DOMAINS_MOST] = {0}, placed = 0, room = fit_of(cores, threads, 0) >= replicas;
    while (room && placed < replicas)
        for (int d = 0; d < cores->domains && placed < replicas; d++)
            if ((in[d] + 1) * threads <= cores->count[d]) in[d]++, placed++;
    int count = ls__cores_count(cores), begin = 0, next = 0;
    *spare = -1;
    for (int d = 0; d < cores->domains; begin += cores->count[d++]) {
        for (int i = 0; i < in[d]; i++) first[next++] = begin + i * threads;
        if (room && in[d] * threads < cores->count[d]) *spare = begin + in[d] * threads;
    }
    for (; next < replicas; next++) first[next] = next * threads;
    if (!room && replicas * threads < count) *spare = replicas * threads;
}

// --- of a trainer ----------------------------------------------------------------------------------------------------

static int domains_of(const ls_cores *cores) {
    int used = 0;
    for (int d = 0; d < cores->domains; d++) used += cores->count[d] > 0;
    return used;
}

static const char *s_of(int64_t n) { return n == 1 ? "" : "s"; }

// The largest smaller micro-batch that would leave no more than that; 0: none would.
static int64_t better_micro_batch(const ls_trainer *t, const ls_spread_question *q, int cores) {
    int64_t batch = t->config.batch_size;
    for (int64_t m = t->config.micro_batch - 1; m > 0; m--) {
        if (batch % m != 0) continue;
        ls_spread_question other = *q;
        int replicas, threads;
        other.micro_batches = batch / m;
        ls__spread_choose(&other, &replicas, &threads);
        if (8 * (cores - replicas * threads) <= cores) return m;
    }
    return 0;
}

// Where more than an eighth of the cores have no work: what would give them some.
static void advise(const ls_trainer *t, const ls_spread_question *q, ls_spread *s, int cores) {
    size_t n = 0;
    int idle = cores - s->replicas * t->config.threads, domains = domains_of(&q->have[0]);
    s->idle = idle > 0 ? idle : 0;
    if (8 * idle <= cores || q->replicas || q->threads) return;
    ls_text_add(s->advice, sizeof s->advice, &n, "%d of %d cores have no work", idle, cores);
    if (domains > 1 && s->replicas < domains)
        ls_text_add(s->advice, sizeof s->advice, &n, ", as a replica stays inside one of %d NUMA domains", domains);
    int64_t m = better_micro_batch(t, q, cores);
    if (m)
        ls_text_add(s->advice, sizeof s->advice, &n, ": micro-batches of %lld would give them some (and other weights)",
                    (long long)m);
    else
        ls_text_add(s->advice, sizeof s->advice, &n, ": a larger batch would give them some");
}

static void explain(const ls_trainer *t, ls_spread *s, int cores) {
    int64_t v = t->train_shape.micro_batches;
    int threads = t->config.threads;
    if (s->replicas * threads > cores)
        snprintf(s->reason, sizeof s->reason, "more workers or threads than cores");
    else if (s->replicas * threads == cores && threads == 1)
        snprintf(s->reason, sizeof s->reason, "%d core%s per worker, 1 thread each", cores, s_of(cores));
    else
        snprintf(s->reason, sizeof s->reason, "%d core%s%s; the step has %lld micro-batch%s", cores, s_of(cores),
                 t->comm->size > 1 ? " per worker" : "", (long long)v, v == 1 ? "" : "es");
}

// Whether the exchange has a core for itself where nobody has said so. One that is left over costs no computing; what else runs there, as threads of
// loaders, has its turn while the exchange naps.
static void find_comm_core(ls_trainer *t, const ls_spread_question *q) {
    ls_spread *s = &t->spread;
    size_t n = strlen(s->reason);
    if (s->core_measured && s->comm_cores > 0)
        ls_text_add(s->reason, sizeof s->reason, &n, "; one more for the exchange, as measured");
    if (t->config.comm_cores >= 0 || t->comm->hosts == 1 || !ls__exchange_overlaps(t)) return;
    if (s->replicas * t->config.threads < s->cores) {
        s->comm_cores = s->core_left_over = 1;
        ls_text_add(s->reason, sizeof s->reason, &n, "; one that is left over is the exchange's");
    } else if (!q->replicas && !q->threads && t->config.threads == 1 && s->replicas == s->cores) {
        ls_spread_question other = *q;
        other.reserved = 1;
        s->replicas_without = replicas_of(&other, 1);
    }
}

static void explain_quota(const ls_trainer *t, ls_spread *s) {
    int of;
    size_t n = strlen(s->reason);
    double quota = ls__topology_quota(t->topology, &of);
    if (quota > 0)
        ls_text_add(s->reason, sizeof s->reason, &n, "; a control group allows the time of %.3g of %d core%s", quota,
                    of, s_of(of));
}

static ls_status refuse_workers(const ls_trainer *t, int workers, int64_t v) {
    const ls_mesh *roles = &t->spread.roles;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%d workers%s for %lld micro-batches of %lld in a global batch of %lld: start at most %lld, or take "
                   "a smaller micro-batch or a larger global batch",
                   workers, roles->servers ? " beside the servers" : "", (long long)v, (long long)t->config.micro_batch,
                   (long long)t->config.batch_size, (long long)v + roles->servers);
}

ls_status ls__spread_resolve(ls_trainer *t) {
    ls_spread *s = &t->spread;
    ls_train_config *c = &t->config;
    int64_t v = t->train_shape.micro_batches;
    s->roles = ls_mesh_plain(t->comm->size, 1, c->servers);
    LS_TRY(ls_strategy_assign(t->choices.strategy, t->comm->size, &s->roles.servers));
    int workers = c->async ? 1 : t->comm->size - s->roles.servers;  // those that share a batch
    if (workers > v) return refuse_workers(t, workers, v);
    if (c->replicas > v / workers)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%d worker%s with %d replicas each are %lld replicas for %lld micro-batches in a step: ask for at "
            "most %d per worker, or take a smaller micro-batch",
            workers, s_of(workers), c->replicas, (long long)workers * c->replicas, (long long)v, (int)(v / workers));
    // Where there is only one core, the exchange shares it.
    s->comm_cores = c->comm_cores > 0 && ls__exchange_overlaps(t) && s->cores > c->comm_cores ? c->comm_cores : 0;
    const ls_device_ops *device = ls_device_ops_find(c->device);
    ls_spread_question q = {.have = s->have,
                            .kinds = s->kinds,
                            .workers = workers,
                            .micro_batches = v,
                            .replicas = c->replicas,
                            .threads = c->threads ? c->threads : s->given_threads,
                            .most_threads = device && device->most_threads ? device->most_threads : 1,
                            .reserved = s->comm_cores};
    int cores = s->cores - s->comm_cores;
    ls__spread_choose(&q, &s->replicas, &c->threads);
    if (q.replicas)
        snprintf(s->reason, sizeof s->reason, "as asked for");
    else
        explain(t, s, cores);
    s->roles.lanes = s->replicas;
    s->team = c->async ? ls_mesh_plain(1, s->replicas, 0) : s->roles;
    if (t->choices.compress == LS_COMPRESS_TOPK) s->team.whole = v;
    s->lanes = t->comm->size * s->replicas;
    if (s->replicas * c->threads > cores) s->comm_cores = 0;
    find_comm_core(t, &q);
    explain_quota(t, s);
    advise(t, &q, s, s->cores - s->comm_cores);
    s->bound = c->bind && s->replicas * c->threads <= s->cores;
    LS_TRY(ls_calloc(s->replicas, sizeof *s->first, &s->first));
    ls__spread_place(&s->mine, s->replicas, c->threads, s->first, &s->spare);
    return LS_OK;
}

ls_status ls_train_spread(const ls_train_config *config, int workers, int cores, int *replicas, int *threads) {
    LS_NEED(config, "config");
    LS_NEED(replicas, "replicas");
    LS_NEED(threads, "threads");
    int64_t m = config->micro_batch > 0 ? config->micro_batch : ls_micro_batch_default(config->batch_size);
    int64_t v = m < 1 ? 0 : (config->batch_size + m - 1) / m;
    const ls_device_ops *device = config->device ? ls_device_ops_find(config->device) : NULL;
    ls_cores have = {.domains = 1, .count = {cores}};
    if (workers < 1 || cores < 0 || m < 1 || v < workers)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%d workers of %d cores for a batch of %lld in micro-batches of %lld", workers, cores,
                       (long long)config->batch_size, (long long)m);
    ls_spread_question q = {.have = &have,
                            .kinds = 1,
                            .workers = workers,
                            .micro_batches = v,
                            .replicas = config->replicas,
                            .threads = config->threads,
                            .most_threads = device && device->most_threads ? device->most_threads : 1};
    ls__spread_choose(&q, replicas, threads);
    return LS_OK;
}
