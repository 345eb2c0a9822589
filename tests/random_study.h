// Random studies for test_words.c: what is drawn, how it becomes records, and what it amounts to, found by other means than the report's.
#ifndef LS_TESTS_RANDOM_STUDY_H
#define LS_TESTS_RANDOM_STUDY_H

#include "ok.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"

enum {
    STUDIES = 50,
    REPEATS = 3,
    MODELS = 2,
    COUNTS = 4,
    MOST_ROWS = MODELS * COUNTS,
    PHASES = 7,
    CAUSES = 5,
    GROUPS = 16
};
typedef enum design { STRONG, BATCH, WEAK, SWEEP, DESIGNS } design;

// What was drawn for one configuration.
typedef struct truth {
    char model[16], digest[REPEATS][65];
    int workers, runs, failed;  // of `runs`, the last `failed` have no record
    int batch, micro_batch, train, test, shared;
    double lr, seconds[REPEATS], share[PHASES], accuracy, until_seconds;
    int until_epoch;
} truth;

typedef struct drawn {
    design how;
    truth row[MOST_ROWS];
    int count, repeats;
    double until;  // NAN: none
    char folder[64];
    const char *sentence;  // under test, for messages
} drawn;

static const char *const phase_names[] = {"load", "forward", "backward", "exchange", "wait", "update", "serial"};

// --- drawing ---------------------------------------------------------------------------------------------------------

static uint32_t counter;
static double uniform(void) { return ls_philox(42, counter++, 0, 0, 7).v[0] / 4294967296.0; }
static int below(int n) { return (int)(uniform() * n); }
static double between(double a, double b) { return a + (b - a) * uniform(); }

static void draw_row(drawn *d, int model, int workers, double lr, double noise) {
    truth *t = &d->row[d->count++];
    int grows = d->how == BATCH || d->how == WEAK;
    *t = (truth){.workers = workers, .runs = d->repeats, .lr = lr, .train = 6400, .test = 1000};
    snprintf(t->model, sizeof t->model, "%s", model ? "wide" : "net");
    t->batch = grows ? 64 * workers : 64;
    t->micro_batch = d->how == BATCH && model ? t->batch / 8 : 8;
    if (d->how == WEAK) t->train *= workers;
    t->shared = workers > 4;
    t->failed = below(6) == 0 ? 1 + below(t->runs) : 0;
    double efficiency = between(0.3, 1.1), work = d->how == WEAK ? 1 : workers, left = 1 - (below(4) ? 0.01 : 0.1);
    for (int r = 0; r < t->runs; r++) {
        t->seconds[r] = (model ? 300.0 : 20.0) / work / efficiency * between(1 - noise, 1 + noise);
        int other = below(12) == 0 && d->how == STRONG;
        snprintf(t->digest[r], sizeof t->digest[r], "%s%s%03d%d", d->how == STRONG ? "same" : "own",
                 model ? "wide" : "net", d->how == STRONG ? 0 : d->count, other ? 1 + below(2) : 0);
    }
    for (int p = 0; p < PHASES; p++) t->share[p] = left * (p == PHASES - 1 ? 1 : between(0, 0.6));
    for (int p = 0; p < PHASES; p++) {
        if (p < PHASES - 1)
            left -= t->share[p] = left * (t->share[p] / (t->share[p] + 0.5));
        else
            t->share[p] = left;
    }
    t->accuracy = between(0.5, 1);
    if (below(2)) t->accuracy = 0.9 + 0.001 * workers;
    t->until_epoch = below(3) ? 1 + below(2) : 0;
    t->until_seconds = between(1, 200);
}

static void draw_study(drawn *d) {
    static const int workers[COUNTS] = {1, 2, 4, 8};
    static const double noises[] = {0.001, 0.02, 0.3};
    d->how = (design)below(DESIGNS);
    d->count = 0;
    d->repeats = 1 + below(REPEATS);
    d->until = below(3) ? NAN : 0.9;
    int models = 1 + below(MODELS), first = below(2), counts = 1 + below(COUNTS - first);
    double noise = noises[below(3)];
    for (int m = 0; m < models; m++)
        for (int i = 0; i < counts; i++)
            draw_row(d, m, d->how == SWEEP ? 1 : workers[first + i], d->how == SWEEP ? 0.01 * (i + 1) : 0.1, noise);
}

// --- writing ---------------------------------------------------------------------------------------------------------

static const char *path_of(const drawn *d, const truth *t, int repeat, const char *ending) {
    static char path[256];
    snprintf(path, sizeof path, "%s/runs/%s-lr%g-w%d-r%d.%s", d->folder, t->model, t->lr, t->workers, repeat + 1,
             ending);
    return path;
}

static void write_record(const drawn *d, const truth *t, int r) {
    double s = t->seconds[r];
    json_t *o = json_pack("{s:i, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i}",
                          "lockstep_run", 1, "model", t->model, "parameters", 7, "data", "digits", "workers",
                          t->workers, "hosts", 1, "replicas_per_worker", 1, "threads_per_replica", 1, "global_batch",
                          t->batch, "micro_batch", t->micro_batch, "train_count", t->train, "test_count", t->test,
                          "precision", "fp32", "strategy", "allreduce", "optimizer", "adam", "seed", 42, "epochs", 2);
    json_t *more = json_pack(
        "{s:f, s:f, s:f, s:[f,f], s:[f,f], s:[f,f], s:f, s:f, s:s, s:i, s:i, s:{s:i, s:i, s:f, s:i}, s:s, s:{s:s, "
        "s:s}, s:b, "
        "s:s}",
        "read_seconds", 0.5, "step_seconds_median", s / 200, "total_seconds", 3 * s, "epoch_seconds", 1.7 * s, s,
        "epoch_images_per_second", t->train / s / 1.7, t->train / s, "epoch_learning_rate", t->lr, t->lr, "test_loss",
        0.5, "test_accuracy", t->accuracy, "weights_digest", t->digest[r], "peak_rss_bytes", 1000000 * t->workers,
        "planned_bytes", 2000000, "options", "workers", t->workers, "batch-size", t->batch, "lr", t->lr, "limit-train",
        t->train, "host", "node1", "versions", "lockstep", "0.1.0", "device", "cpu: kernels 1.0, avx2",
        "oversubscribed", t->shared, "date", "2026-11-22T00:00:00Z");
    assert_non_null(o);
    assert_non_null(more);
    json_object_update(o, more);
    json_decref(more);
    json_t *phases = json_object();
    for (int p = 0; p < PHASES; p++)
        json_object_set_new(phases, phase_names[p], json_pack("[f,f]", 0.0, t->share[p] * s));
    json_object_set_new(o, "epoch_phases", phases);
    if (!isnan(d->until)) {
        json_object_set_new(o, "until_accuracy", json_real(d->until));
        json_object_set_new(o, "until_epoch", t->until_epoch ? json_integer(t->until_epoch) : json_null());
        json_object_set_new(o, "until_seconds", t->until_epoch ? json_real(t->until_seconds) : json_null());
    }
    assert_int_equal(json_dump_file(o, path_of(d, t, r, "json"), 0), 0);
    json_decref(o);
}

static void write_study(const drawn *d) {
    char command[200];
    snprintf(command, sizeof command, "rm -rf %s/* && mkdir %s/runs", d->folder, d->folder);
    assert_int_equal(system(command), 0);
    json_t *runs = json_array();
    for (int i = 0; i < d->count; i++)
        for (int r = 0; r < d->row[i].runs; r++) {
            const truth *t = &d->row[i];
            char name[64];
            snprintf(name, sizeof name, "%s-lr%g-w%d-r%d", t->model, t->lr, t->workers, r + 1);
            json_t *run = json_pack("{s:s, s:s, s:i, s:i, s:i, s:i}", "name", name, "model", t->model, "nodes", 1,
                                    "workers", t->workers, "repeat", r + 1, "batch_size", t->batch);
            if (d->how == SWEEP) {
                char label[32];
                snprintf(label, sizeof label, "lr %g", t->lr);
                json_object_set_new(run, "compared", json_string(label));
            }
            json_array_append_new(runs, run);
            if (r < t->runs - t->failed) {
                write_record(d, t, r);
                continue;
            }
            FILE *f = fopen(path_of(d, t, r, "failed"), "w");
            fprintf(f, "no room on node %d\n", t->workers);
            fclose(f);
        }
    json_t *study = json_pack("{s:i, s:s, s:{s:s}, s:o}", "lockstep_study", 1, "mode", "strong", "host", "cpu", "A CPU",
                              "runs", runs);
    char path[128];
    snprintf(path, sizeof path, "%s/study.json", d->folder);
    assert_int_equal(json_dump_file(study, path, 0), 0);
    json_decref(study);
}

// --- the numbers again, by other means -------------------------------------------------------------------------------

static int good(const truth *t) { return t->runs - t->failed; }

static double sorted_at(const truth *t, int which) {  // 0: least, 1: median, 2: most
    double s[REPEATS];
    int n = good(t);
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && s[j - 1] > t->seconds[i]; j--) s[j] = s[j - 1];
        s[j] = t->seconds[i];
    }
    return which == 0 ? s[0] : which == 2 ? s[n - 1] : n % 2 ? s[n / 2] : (s[n / 2 - 1] + s[n / 2]) / 2;
}

static double median(const truth *t) { return sorted_at(t, 1); }

// The row of the fewest workers that did the work of `t`; itself where there is none other. NULL: nothing is compared.
static const truth *base(const drawn *d, const truth *t) {
    const truth *least = t;
    int others = 0;
    for (int i = 0; i < d->count && d->how != SWEEP; i++) {
        const truth *o = &d->row[i];
        if (!good(o) || strcmp(o->model, t->model) != 0 || o == t) continue;
        others++;
        if (o->workers < least->workers) least = o;
    }
    return others ? least : NULL;
}

static double speedup(const drawn *d, const truth *t) {
    const truth *b = base(d, t);
    double ratio = median(b) / median(t);
    return d->how == WEAK ? ratio * t->workers / b->workers : ratio;
}

static double efficiency(const drawn *d, const truth *t) { return speedup(d, t) * base(d, t)->workers / t->workers; }

// The least (0) and the most (2) that repeats leave.
static double efficiency_at(const drawn *d, const truth *t, int which) {
    const truth *b = base(d, t);
    if (b == t) return 1;
    return efficiency(d, t) * median(t) / sorted_at(t, 2 - which) * sorted_at(b, which) / median(b);
}

static void lost_by_cause(const drawn *d, const truth *t, double lost[CAUSES]) {
    static const int cause_of[PHASES] = {3, 0, 0, 1, 2, 4, 4};
    const truth *b = base(d, t);
    memset(lost, 0, CAUSES * sizeof lost[0]);
    for (int p = 0; p < PHASES; p++) lost[cause_of[p]] += t->share[p] - efficiency(d, t) * b->share[p];
}

static int other_weights(const drawn *d, const truth *t) {
    const truth *least = t;
    for (int r = 1; r < good(t); r++)
        if (strcmp(t->digest[r], t->digest[0]) != 0) return 1;
    if (d->how != STRONG) return 0;
    for (int i = 0; i < d->count; i++) {
        const truth *o = &d->row[i];
        if (good(o) && strcmp(o->model, t->model) == 0 && o->workers < least->workers) least = o;
    }
    return strcmp(t->digest[0], least->digest[0]) != 0;
}

#endif
