// The largest micro-batch for a limit, by trying: each try makes the plan that training would make.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/plan.h"

#define MOST_SAMPLES PLAN_MOST_SAMPLES
#define GUESSES      12  // then halving

// Micro-batches to choose from, in ascending order: the divisors of a batch that leave one for each replica, or all.
typedef struct choices {
    int64_t batch;  // 0: all
    int64_t lanes;
} choices;

static int is_choice(const choices *c, int64_t m) {
    if (c->batch == 0) return m <= MOST_SAMPLES;
    return c->batch % m == 0 && c->batch / m >= c->lanes;
}

// The largest choice under `m`, the smallest over it; 0: none.
static int64_t choice_under(const choices *c, int64_t m) {
    for (m--; m > 0 && !is_choice(c, m); m--) continue;
    return m;
}

static int64_t choice_over(const choices *c, int64_t m) {
    int64_t most = c->batch ? c->batch : MOST_SAMPLES;
    for (m++; m <= most && !is_choice(c, m); m++) continue;
    return m <= most ? m : 0;
}

typedef struct point {
    int64_t micro_batch, bytes;
    ls_memory memory;
} point;

static ls_status try_out(plan *p, const ls_train_config *config, int64_t micro_batch, point *out) {
    ls_train_config c = *config;
    c.micro_batch = micro_batch;
    LS_TRY(plan_memory(p, &c, &out->memory));
    out->micro_batch = micro_batch;
    out->bytes = plan_counted(p, &out->memory);
    return LS_OK;
}

// Where memory, taken to grow in proportion, meets the limit; between two points, or beyond them.
static int64_t guess(const plan *p, const point *a, const point *b) {
    double slope = (double)(b->bytes - a->bytes) / (double)(b->micro_batch - a->micro_batch);
    double m = (double)a->micro_batch + (slope > 0 ? (double)(p->limit - a->bytes) / slope : (double)MOST_SAMPLES);
    return m < 1 ? 1 : m > MOST_SAMPLES ? MOST_SAMPLES : (int64_t)m;
}

// A choice between `low`, which fits, and `high`, which does not (0: not known yet); 0: there is none.
static int64_t next_try(const choices *c, int64_t low, int64_t high, int64_t wanted) {
    int64_t m = choice_under(c, wanted + 1), end = high ? high : MOST_SAMPLES + 1;
    if (m <= low) m = choice_over(c, low);
    if (m >= end) m = choice_under(c, end);
    return m > low ? m : 0;
}

static void keep(plan_found *out, const point *low, const point *high) {
    *out = (plan_found){.fits = 1, .memory = low->memory};
    if (high->micro_batch) out->next_micro_batch = high->micro_batch, out->next_bytes = high->bytes;
}

ls_status plan_search(plan *p, const ls_train_config *config, int64_t likely, plan_found *out) {
    point low, other, high = {0};
    LS_TRY(try_out(p, config, likely, &low));
    if (low.bytes > p->limit && likely > 1) LS_TRY(try_out(p, config, 1, &low));
    if (low.bytes > p->limit) {
        *out = (plan_found){.memory = low.memory};
        return LS_OK;
    }
    choices c = {config->batch_size, (int64_t)low.memory.workers * low.memory.replicas_per_worker};
    char reason[sizeof low.memory.replicas_reason];
    memcpy(reason, low.memory.replicas_reason, sizeof reason);
    ls_train_config same = *config;
    same.replicas = low.memory.replicas_per_worker;  // larger micro-batches leave fewer for as many replicas
    same.threads = low.memory.threads_per_replica;
    other = low;
    int64_t wanted = 16;
    for (int tries = 0;; tries++) {
        int64_t m = next_try(&c, low.micro_batch, high.micro_batch, wanted);
        if (!m) break;
        point now;
        LS_TRY(try_out(p, &same, m, &now));
        if (now.bytes > p->limit) {
            high = now;
            other = low;
        } else {
            other = low;
            low = now;
        }
        const point *second = high.micro_batch ? &high : &other;
        wanted = guess(p, &low, second);
        if (tries >= GUESSES && high.micro_batch) wanted = (low.micro_batch + high.micro_batch) / 2;
    }
    keep(out, &low, &high);
    memcpy(out->memory.replicas_reason, reason, sizeof reason);
    return LS_OK;
}

// --- what if ---------------------------------------------------------------------------------------------------------

// The same way to train with one thing changed; 0: it is so already.
static int with_remat(const ls_memory *m, ls_train_config *c) {
    int changes = !c->remat;
    c->remat = 1;
    return changes;
}

static int with_bf16(const ls_memory *m, ls_train_config *c) {
    int changes = strcmp(c->precision, "fp32") == 0;
    c->precision = "bf16";
    return changes;
}

static int with_one_replica(const ls_memory *m, ls_train_config *c) {
    c->replicas = 1;
    return m->replicas_per_worker > 1;
}

static const struct {
    const char *option;
    int (*apply)(const ls_memory *m, ls_train_config *c);
} changes[] = {{"--remat", with_remat}, {"--precision bf16", with_bf16}, {"--replicas 1", with_one_replica}};
enum { CHANGES = sizeof changes / sizeof changes[0] };

// Adds the row if this machine can compute so.
static ls_status add_other(plan *p, int64_t likely, plan_other *row, plan_other *out, int *count) {
    // What fits as it was asked for mostly fits here too; memory does not grow evenly, and a search from 1 may end below that.
    ls_status status = plan_search(p, &row->config, likely, &row->found);
    if (status == LS_STATUS_UNSUPPORTED) return LS_OK;
    LS_TRY(status);
    out[(*count)++] = *row;
    return LS_OK;
}

ls_status plan_others(plan *p, const plan_found *found, plan_other out[PLAN_OTHERS], int *count) {
    plan_other all = {.options = "", .config = p->config};
    int64_t likely = found->fits ? found->memory.micro_batch : 1;
    *count = 0;
    for (int i = 0; i < CHANGES; i++) {
        plan_other row = {.config = p->config};
        int before = *count;
        if (!changes[i].apply(&found->memory, &row.config)) continue;
        snprintf(row.options, sizeof row.options, "%s", changes[i].option);
        LS_TRY(add_other(p, likely, &row, out, count));
        if (*count == before) continue;
        changes[i].apply(&found->memory, &all.config);
        size_t used = strlen(all.options);
        snprintf(all.options + used, sizeof all.options - used, "%s%s", used ? " " : "", changes[i].option);
    }
    return *count > 1 ? add_other(p, likely, &all, out, count) : LS_OK;
}
