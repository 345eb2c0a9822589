// In which the workers differ: the worker that has another value than most is named.
#include <stdlib.h>
#include <string.h>

#include "cli/check.h"

typedef struct text_fact {
    const char *name;
    size_t offset;
    check_status status;
    const char *remedy;
} text_fact;

// Programs and kernels that differ would give other bits: the trainer refuses them.
static const text_fact texts[] = {
    {"the program", offsetof(check_facts, version), CHECK_FAIL,
     "Install the same Lockstep on every host: training refuses this."},
    {"kernels", offsetof(check_facts, kernels), CHECK_FAIL,
     "Use one oneDNN and hosts of one kind, or set DNNL_MAX_CPU_ISA on all to what the least of them has: training "
     "refuses "
     "workers that would give other bits."},
    {"the MPI library", offsetof(check_facts, mpi), CHECK_WARN, "Load the same MPI on every host."},
    {"the processor", offsetof(check_facts, cpu), CHECK_WARN,
     "Ask for hosts of one kind (Slurm --constraint): each step takes as long as the slowest."},
};

typedef struct number_fact {
    const char *name, *unit;
    double (*value)(const check_facts *f);
    double scale;         // of the unit
    double below, above;  // outliers: beyond these multiples of the median
    const char *remedy;
} number_fact;

static double cores(const check_facts *f) { return f->cores; }
static double memory(const check_facts *f) { return (double)f->memory; }
static double clock_rate(const check_facts *f) { return f->clock; }
static double bandwidth(const check_facts *f) { return f->bandwidth_per_core; }

static const number_fact numbers[] = {
    {"cores", "", cores, 1, 1, 1, "Give every worker as many (Slurm --cpus-per-task): all use what the least has."},
    {"memory", " GB", memory, 1e9, 0.95, 1.05,
     "Ask for hosts of one kind, or mind the smallest when choosing the micro-batch."},
    {"clock", " GHz", clock_rate, 1e9, 0.95, 1.05,
     "Ask for hosts of one kind: each step takes as long as the slowest."},
    {"memory bandwidth per core", " GB/s", bandwidth, 1e9, 0.7, 1e9,
     "See what else runs on that host, and how its memory is fitted: each step takes as long as the slowest."},
};

static const char *text_of(const check_worker *w, const text_fact *fact) {
    return (const char *)&w->facts + fact->offset;
}

// The most frequent value; of equally frequent ones the one of the lowest rank.
static int most_common(const check_worker *workers, int count, const text_fact *fact) {
    int best = 0, best_votes = 0;
    for (int i = 0; i < count && best_votes <= count / 2; i++) {
        int votes = 0;
        for (int j = 0; j < count; j++) votes += strcmp(text_of(&workers[i], fact), text_of(&workers[j], fact)) == 0;
        if (votes > best_votes) best = i, best_votes = votes;
    }
    return best;
}

static void and_others(int others, char *out, size_t size) {
    out[0] = 0;
    if (others > 0) snprintf(out, size, " and %d more", others);
}

static int compare_text(const check_worker *workers, int count, const text_fact *fact, check_line *out) {
    int usual = most_common(workers, count, fact), first = -1, differing = 0;
    char more[32];
    for (int i = 0; i < count; i++) {
        if (strcmp(text_of(&workers[i], fact), text_of(&workers[usual], fact)) == 0) continue;
        if (first < 0) first = i;
        differing++;
    }
    if (!differing) return 0;
    and_others(differing - 1, more, sizeof more);
    check_say(out, fact->status, fact->remedy, "%s: worker %d (%.30s)%s has %.50s, worker %d has %.50s", fact->name,
              first, workers[first].facts.host, more, text_of(&workers[first], fact), usual,
              text_of(&workers[usual], fact));
    return 1;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_number(const check_worker *workers, int count, const number_fact *fact, double *sorted,
                          check_line *out) {
    int first = -1, differing = 0;
    char more[32];
    for (int i = 0; i < count; i++) {
        sorted[i] = fact->value(&workers[i].facts);
        if (sorted[i] <= 0) return 0;  // one does not tell
    }
    qsort(sorted, (size_t)count, sizeof *sorted, ascending);
    double median = sorted[count / 2];
    for (int i = 0; i < count; i++) {
        double v = fact->value(&workers[i].facts);
        if (v >= fact->below * median && v <= fact->above * median) continue;
        if (first < 0) first = i;
        differing++;
    }
    if (!differing) return 0;
    and_others(differing - 1, more, sizeof more);
    check_say(out, CHECK_WARN, fact->remedy, "%s: worker %d (%.30s)%s has %.3g%s, the median is %.3g%s", fact->name,
              first, workers[first].facts.host, more, fact->value(&workers[first].facts) / fact->scale, fact->unit,
              median / fact->scale, fact->unit);
    return 1;
}

int check_compare(const check_worker *workers, int count, check_line *out, int capacity) {
    int found = 0;
    double *sorted = calloc((size_t)count, sizeof *sorted);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && found < capacity; i++)
        found += compare_text(workers, count, &texts[i], &out[found]);
    for (size_t i = 0; sorted && i < sizeof numbers / sizeof numbers[0] && found < capacity; i++)
        found += compare_number(workers, count, &numbers[i], sorted, &out[found]);
    free(sorted);
    return found;
}
