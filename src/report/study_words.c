// What the numbers of a study say, in plain words. A difference is stated only where it is more than what repeats leave to chance;
// where nobody knows that, the numbers stand in the tables and no sentence is made of them. tests/test_words.c reads every kind
// of sentence back and holds it against the numbers.
#define _GNU_SOURCE
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_impl.h"

enum { MOST_FINDINGS = 6 };

typedef struct words {
    const ls_study *study;
    const ls_series *series;
    ls_statements *out;
    ls_status status;
} words;

static const char *plural(int n) { return n == 1 ? "" : "s"; }

// `rank`: findings with a low one stay where there are too many.
static void say(words *w, ls_word_kind kind, int rank, const char *format, ...) __attribute__((format(printf, 4, 5)));
static void say(words *w, ls_word_kind kind, int rank, const char *format, ...) {
    ls_word *more = w->status == LS_OK ? realloc(w->out->list, (size_t)(w->out->count + 1) * sizeof *more) : NULL;
    if (!more) {
        if (w->status == LS_OK) w->status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while explaining a study");
        return;
    }
    w->out->list = more;
    ls_word *word = &more[w->out->count++];
    *word = (ls_word){.kind = kind, .rank = rank, .order = w->out->count};
    va_list args;
    va_start(args, format);
    vsnprintf(word->text, sizeof word->text, format, args);
    va_end(args);
}

// The rows of a series in ascending order of workers, the next after `after` (-1: the first). -1: none.
static int next_row(const words *w, int s, int after) {
    for (int i = after + 1; i < w->study->row_count; i++)
        if (w->series->of[i] == s) return i;
    return -1;
}

static const char *seconds(double x, char buffer[32]) {
    snprintf(buffer, 32, "%.*f s", x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : x >= 0.1 ? 3 : 5, x);
    return buffer;
}

static const char *count_text(double x, char buffer[32]) {
    snprintf(buffer, 32, "%.*f", x < 100 ? 1 : 0, x);
    return buffer;
}

// "4 workers", "4 workers on 2 nodes" where nodes tell rows apart.
static const char *who(const words *w, const ls_study_row *r, char buffer[64]) {
    int nodes = 0;
    for (int i = 0; i < w->study->row_count; i++) nodes |= w->study->rows[i].nodes != w->study->rows[0].nodes;
    int n = snprintf(buffer, 64, "%d worker%s", r->workers, plural(r->workers));
    if (nodes) snprintf(buffer + n, 64 - (size_t)n, " on %d node%s", r->nodes, plural(r->nodes));
    return buffer;
}

// What a row is called in a warning.
static const char *which(const words *w, const ls_study_row *r, char buffer[256]) {
    char workers[64];
    snprintf(buffer, 256, "%s%s%s with %s", r->model, r->recipe[0] ? ", " : "", r->recipe, who(w, r, workers));
    return buffer;
}

// --- one series ------------------------------------------------------------------------------------------------------

// The row of the most workers whose time says something about scaling, and that is compared with another; NULL: none.
static const ls_study_row *last_compared(const words *w, int s) {
    const ls_study_row *last = NULL;
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        const ls_study_row *r = &w->study->rows[i];
        if (!r->oversubscribed && r->efficiency > 0 && w->study->rows[r->base].workers < r->workers &&
            !w->study->rows[r->base].oversubscribed)
            last = r;
    }
    return last;
}

static const char *runs_text(int runs, char buffer[32]) {
    if (runs == 1)
        snprintf(buffer, 32, "one run");
    else
        snprintf(buffer, 32, "%d runs", runs);
    return buffer;
}

static void headline(words *w, int s) {
    char x[32], y[32], p[64], q[64], n[32], m[32];
    const ls_study_row *b = last_compared(w, s);
    if (!b) return;
    const ls_study_row *a = &w->study->rows[b->base];
    const char *work = b->compared == LS_COMPARED_WEAK    ? "each worker with the same number of samples; "
                       : b->compared == LS_COMPARED_BATCH ? "the same samples in fewer, larger batches; "
                                                          : "";
    double least, most, ideal = b->speedup / b->efficiency;
    char text[96];
    if (ls_study_efficiency_range(w->study, b, &least, &most) && least * ideal <= 1 && most * ideal >= 1)
        snprintf(text, sizeof text, "no more apart than their repeats");
    else
        snprintf(text, sizeof text, "a speedup of %.2f, an efficiency of %.0f %%", b->speedup, 100 * b->efficiency);
    say(w, LS_WORD_FINDING, s, "%s: an epoch took %s with %s (%s) and %s with %s (%s), %s%s.", w->series->name[s],
        seconds(a->epoch_seconds, x), who(w, a, p), runs_text(a->repeats, n), seconds(b->epoch_seconds, y),
        who(w, b, q), runs_text(b->repeats, m), work, text);
}

typedef struct cause {
    const char *text;
    double lost;  // as a share of the epoch
} cause;

static int most_lost(const void *a, const void *b) {
    double x = ((const cause *)a)->lost, y = ((const cause *)b)->lost;
    return (x < y) - (x > y);
}

// What the row with the most workers lost, by cause: where the repeats leave no doubt that it lost something.
static void losses(words *w, int s) {
    const ls_study_row *r = last_compared(w, s);
    double least, most;
    if (!r || !ls_study_efficiency_range(w->study, r, &least, &most) || most > 0.98) return;
    const ls_study_loss *l = &r->loss;
    double lost = 1 - r->efficiency;
    if (most - least > lost) return;  // what the repeats differ by is more
    if (!isfinite(l->unexplained)) return;
    cause c[] = {{"computing that got slower", l->compute},
                 {"exchange that is not hidden behind computing", l->exchange},
                 {"waiting for the slowest replica", l->wait},
                 {"waiting for input", l->input},
                 {"serial parts", l->serial}};
    enum { CAUSES = sizeof c / sizeof c[0] };
    qsort(c, CAUSES, sizeof c[0], most_lost);
    char text[512] = "", workers[64], base[64];
    for (int i = 0; i < CAUSES && c[i].lost > fmax(0.1 * lost, 0.005); i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s (%.1f %%)", i ? ", " : ", most of all by ", c[i].text,
                 100 * c[i].lost);
    }
    say(w, LS_WORD_FINDING, 300 + s,
        "%s: with %s, %.1f %% of an epoch's time were lost against the efficiency of %s%s.", w->series->name[s],
        who(w, r, workers), 100 * lost, who(w, &w->study->rows[r->base], base), text);
    if (fabs(l->unexplained) > 0.05)
        say(w, LS_WORD_CAVEAT, 0,
            "%s: of what was lost with %s, %.1f %% of the epoch are in no phase that was measured.", w->series->name[s],
            who(w, r, workers), 100 * l->unexplained);
}

// The first and the last row that were evaluated.
static void accuracy(words *w, int s) {
    const ls_study_row *a = NULL, *b = NULL;
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        const ls_study_row *r = &w->study->rows[i];
        if (!ls__row_evaluated(r)) continue;
        if (!a) a = r;
        b = r;
    }
    if (!a || a->global_batch == b->global_batch || a->test_count < 1 || a->test_count != b->test_count) return;
    double p = a->test_accuracy, q = b->test_accuracy, n = (double)a->test_count;
    double chance = 3 * sqrt((p * (1 - p) + q * (1 - q)) / n);
    if (!(fabs(q - p) > chance)) return;
    say(w, LS_WORD_FINDING, 400 + s,
        "%s: test accuracy %s from %.2f %% with a batch of %lld to %.2f %% with %lld, by more than the %.2f points "
        "that "
        "%lld test samples leave to chance.",
        w->series->name[s], q < p ? "falls" : "rises", 100 * p, (long long)a->global_batch, 100 * q,
        (long long)b->global_batch, 100 * chance, (long long)a->test_count);
}

// Time to the accuracy that was asked for: what larger batches are about.
static void until(words *w, int s) {
    const ls_study_row *best = NULL;
    int reached = 0, asked = 0;
    double accuracy = NAN;
    char x[32], workers[64];
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        const ls_study_row *r = &w->study->rows[i];
        if (!isfinite(r->until_accuracy) || (asked && r->until_accuracy != accuracy)) continue;
        accuracy = r->until_accuracy;
        asked++;
        if (!isfinite(r->until_seconds)) continue;
        reached++;
        if (!best || r->until_seconds < best->until_seconds) best = r;
    }
    if (best)
        say(w, LS_WORD_FINDING, 100 + s,
            "%s: a test accuracy of %g %% was reached first with %s, after %s of training and %.0f epoch%s; %d of %d "
            "configurations reached it.",
            w->series->name[s], 100 * accuracy, who(w, best, workers), seconds(best->until_seconds, x),
            best->until_epoch, best->until_epoch == 1 ? "" : "s", reached, asked);
    else if (asked)
        say(w, LS_WORD_FINDING, 100 + s, "%s: no configuration reached a test accuracy of %g %%.", w->series->name[s],
            100 * accuracy);
}

// --- one run ---------------------------------------------------------------------------------------------------------

// A single configuration that nothing is compared with.
static void one_row(words *w, const ls_study_row *r) {
    char x[32], y[32], n[32];
    say(w, LS_WORD_FINDING, 0, "An epoch of %lld samples took %s (%s): %s images per second.",
        (long long)r->train_count, seconds(r->epoch_seconds, x), runs_text(r->repeats, n),
        count_text(r->images_per_second, y));
    if (ls__row_evaluated(r))
        say(w, LS_WORD_FINDING, 1, "After %d epoch%s the accuracy on %lld test samples is %.2f %%.", r->epochs,
            plural(r->epochs), (long long)r->test_count, 100 * r->test_accuracy);
    double sum = 0, most = 0;
    const char *name = "";
    for (int i = 0; i < LS_STUDY_PHASES; i++) {
        double t = ls_study_phase(r, (ls_study_phase_kind)i);
        if (!isfinite(t)) continue;
        sum += t;
        if (t > most) {
            most = t;
            name = ls_study_phase_name((ls_study_phase_kind)i);
        }
    }
    if (sum > 0 && most > 0)
        say(w, LS_WORD_FINDING, 2, "Of a step's %.4g ms, most went to %s: %.0f %%.", 1e3 * r->step_seconds, name,
            100 * most / sum);
    if (r->layer_count > 0)
        say(w, LS_WORD_FINDING, 3, "Of the layers, %s took most of the recorded steps: %.0f %% of all layers' time.",
            r->layer[0].name, 100 * r->layer[0].share);
    if (r->planned_bytes > 0)
        say(w, LS_WORD_FINDING, 4, "Its largest worker took %.0f MB of memory, and %.0f MB were planned.",
            (double)r->peak_rss_bytes / 1e6, (double)r->planned_bytes / 1e6);
}

// --- the whole study -------------------------------------------------------------------------------------------------

static const ls_study_row *row_with(const words *w, int s, int workers) {
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        const ls_study_row *r = &w->study->rows[i];
        if (r->workers == workers && r->efficiency > 0 && !r->oversubscribed &&
            w->study->rows[r->base].workers < workers && !w->study->rows[r->base].oversubscribed)
            return r;
    }
    return NULL;
}

// Which of the first two series scales better, at the most workers both have, where their repeats leave no doubt.
static void compare(words *w) {
    if (w->series->count < 2) return;
    const ls_study_row *a = NULL, *b = NULL;
    for (int i = next_row(w, 0, -1); i >= 0; i = next_row(w, 0, i)) {
        const ls_study_row *x = row_with(w, 0, w->study->rows[i].workers);
        const ls_study_row *y = x ? row_with(w, 1, x->workers) : NULL;
        if (!y || x->compared != y->compared || (a && x->workers <= a->workers)) continue;
        a = x;
        b = y;
    }
    double least[2], most[2];
    if (!a || !ls_study_efficiency_range(w->study, a, &least[0], &most[0]) ||
        !ls_study_efficiency_range(w->study, b, &least[1], &most[1]))
        return;
    int first = least[0] > most[1];
    if (!first && !(least[1] > most[0])) return;
    const ls_study_row *better = first ? a : b, *worse = first ? b : a;
    char workers[64];
    say(w, LS_WORD_FINDING, 150,
        "With %s, %s has an efficiency of %.0f %% and %s of %.0f %%: more apart than their repeats.",
        who(w, a, workers), w->series->name[!first], 100 * better->efficiency, w->series->name[first],
        100 * worse->efficiency);
}

// The runs that ended with the weights of row `i`, which is the first of them: on however many nodes and replicas.
static void same_weights(words *w, int i) {
    const ls_study_row *row = w->study->rows, *first = &row[i];
    int runs = 0, rows = 0, one_series = 1, sizes = 0, last = 0;
    if (!first->digest[0]) return;
    for (int j = 0; j < w->study->row_count; j++) {
        if (strcmp(row[j].digest, first->digest) != 0 || strcmp(row[j].model, first->model) != 0) continue;
        if (row[j].digest_differs || row[j].by_timing) continue;
        if (j < i) return;
        rows++;
        runs += row[j].repeats - row[j].stopped;
        sizes += row[j].workers != last;
        last = row[j].workers;
        one_series &= w->series->of[j] == w->series->of[i];
    }
    if (rows < 2 || sizes < 2) return;
    say(w, LS_WORD_FINDING, 200 + i,
        "%s: %d runs with different numbers of workers ended with the same weights, bit for bit (digest %.12s).",
        one_series ? w->series->name[w->series->of[i]] : first->model, runs, first->digest);
}

static void digests(words *w) {
    char name[256];
    for (int i = 0; i < w->study->row_count; i++) {
        if (w->study->rows[i].digest_differs)
            say(w, LS_WORD_WARNING, 0,
                "%s ended with other weights than a run of the same work and kernels, so its times are those of other "
                "work: this is a defect worth reporting.",
                which(w, &w->study->rows[i], name));
        else if (w->study->rows[i].by_timing)
            say(w, LS_WORD_CAVEAT, 0,
                "%s: asynchronous, so its weights depend on which gradients came first, and another run's may differ; "
                "--push-log writes down what happened, and --replay gives those weights again.",
                which(w, &w->study->rows[i], name));
        else
            same_weights(w, i);
    }
}

static void failures(words *w) {
    char name[256];
    if (w->study->programs[0])
        say(w, LS_WORD_WARNING, 1,
            "Not all runs were made by the same program and kernels, so their times and weights may differ for that "
            "reason: %s.",
            w->study->programs);
    for (int i = 0; i < w->study->row_count; i++) {
        const ls_study_row *r = &w->study->rows[i];
        int all = r->failed + r->repeats;
        if (r->stopped)
            say(w, LS_WORD_WARNING, 2,
                "%s: %d of %d run%s did not come to the end%s%s: the time of its whole epochs counts, what it learned "
                "does not.",
                which(w, r, name), r->stopped, all, plural(all), r->failed ? "" : ", ", r->failed ? "" : r->reason);
        if (r->failed == 0) continue;
        int dot = r->reason[0] && r->reason[strlen(r->reason) - 1] == '.';
        say(w, LS_WORD_WARNING, 3, "%s: %d of %d run%s failed%s%s%s", which(w, r, name), r->failed, all, plural(all),
            r->reason[0] ? ": " : "", r->reason, dot ? "" : ".");
    }
}

// How much of a difference may be chance.
static void chance(words *w) {
    const ls_study_row *worst = NULL;
    int rows = 0, once = 0, micro_batches = 0;
    double range = 0;
    char workers[64];
    for (int i = 0; i < w->study->row_count; i++) {
        const ls_study_row *r = &w->study->rows[i];
        if (!r->repeats) continue;
        rows++;
        once += r->repeats == 1;
        if (r->base >= 0) micro_batches |= r->micro_batch != w->study->rows[r->base].micro_batch;
        double own = r->epoch_seconds > 0 ? (r->epoch_seconds_most - r->epoch_seconds_least) / r->epoch_seconds : 0;
        if (r->repeats > 1 && own > range) {
            range = own;
            worst = r;
        }
    }
    if (rows > 1 && once)
        say(w, LS_WORD_CAVEAT, 1,
            "%d of %d configurations ran once: how much of a difference is chance, only repeats can tell.", once, rows);
    if (worst && range > 0.1)
        say(w, LS_WORD_CAVEAT, 2, "Repeats differ by up to %.0f %% of their median (%s with %s).", 100 * range,
            worst->model, who(w, worst, workers));
    if (micro_batches)
        say(w, LS_WORD_CAVEAT, 3,
            "Micro-batches are of different sizes in rows that are compared, and kernels are not equally fast on "
            "both.");
}

static void oversubscribed(words *w) {
    char text[512] = "";
    int rows = 0;
    for (int i = 0; i < w->study->row_count; i++) {
        const ls_study_row *r = &w->study->rows[i];
        char name[256];
        size_t used = strlen(text);
        if (!r->oversubscribed || !r->repeats) continue;
        snprintf(text + used, sizeof text - used, "%s%s", rows++ ? "; " : "", which(w, r, name));
    }
    if (rows)
        say(w, LS_WORD_CAVEAT, 0,
            "Fewer cores than threads, which took turns: %s. Their times say nothing about scaling.", text);
}

// --- what is compared --------------------------------------------------------------------------------------------------

static void meaning(words *w) {
    int there[LS_COMPARISONS] = {0}, rows = 0, grown = 0, rates = 0;
    for (int i = 0; i < w->study->row_count; i++) {
        const ls_study_row *r = &w->study->rows[i];
        if (!r->repeats) continue;
        rows++;
        there[r->compared]++;
        if (r->compared != LS_COMPARED_BATCH || w->study->rows[r->base].workers == r->workers) continue;
        grown++;
        double rate = w->study->rows[r->base].rate;
        rates += isfinite(r->rate) && isfinite(rate) && r->rate > 1.001 * rate;
    }
    if (there[LS_COMPARED_STRONG])
        say(w, LS_WORD_MEANING, 0,
            "Strong scaling: rows with the same batch, samples and recipe take the same steps. Their speedup is the "
            "time "
            "of an epoch with the fewest workers over that of the row; efficiency is speedup per worker, counted from "
            "the "
            "fewest.");
    if (there[LS_COMPARED_BATCH])
        say(w, LS_WORD_MEANING, 1,
            "Batch per worker: the batch%s grows with the workers, on the same samples. An epoch is the same work for "
            "the "
            "machine, so the times of epochs are compared; it is not the same training: with more workers there are "
            "fewer "
            "updates, and other weights in the end. Which of them learns faster, accuracy after a time can say, and "
            "speedup "
            "cannot.",
            !rates           ? ""
            : rates == grown ? ", and with it the learning rate,"
                             : ", and in some of these rows the learning rate with it,");
    if (there[LS_COMPARED_WEAK])
        say(w, LS_WORD_MEANING, 2,
            "Weak scaling: batch and samples grow with the workers, so that each has as much to do. Speedup is the "
            "row's "
            "images per second over those with the fewest workers; times of epochs would compare unequal work.");
    if (there[LS_COMPARED_NOT] && rows > 1)
        say(w, LS_WORD_MEANING, 3,
            "%d of %d configurations %s no other that did the same work with another number of workers: there is no "
            "speedup to give for %s.",
            there[LS_COMPARED_NOT], rows, there[LS_COMPARED_NOT] == 1 ? "has" : "have",
            there[LS_COMPARED_NOT] == 1 ? "it" : "them");
}

static int by_rank(const void *a, const void *b) {
    const ls_word *x = a, *y = b;
    if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
    return x->rank != y->rank ? x->rank - y->rank : x->order - y->order;
}

// The most important ones, which is not the same as the first series' ones.
static void keep_six(ls_statements *list) {
    int findings = 0, kept = 0;
    for (int i = 0; i < list->count; i++) {
        if (list->list[i].kind == LS_WORD_FINDING && ++findings > MOST_FINDINGS) continue;
        list->list[kept++] = list->list[i];
    }
    list->count = kept;
}

ls_status ls__study_words(const ls_study *study, ls_statements *out) {
    ls_series series;
    *out = (ls_statements){0};
    LS_TRY(ls__series_create(study, &series));
    words w = {.study = study, .series = &series, .out = out, .status = LS_OK};
    if (study->row_count == 1 && study->rows[0].repeats)
        one_row(&w, &study->rows[0]);
    else
        for (int s = 0; s < series.count; s++) headline(&w, s);
    for (int s = 0; s < series.count; s++) {
        until(&w, s);
        losses(&w, s);
        accuracy(&w, s);
    }
    compare(&w);
    digests(&w);
    failures(&w);
    oversubscribed(&w);
    chance(&w);
    meaning(&w);
    if (out->count) qsort(out->list, (size_t)out->count, sizeof *out->list, by_rank);
    keep_six(out);
    ls__series_destroy(&series);
    if (w.status != LS_OK) ls__statements_free(out);
    return w.status;
}

void ls__statements_free(ls_statements *list) {
    free(list->list);
    *list = (ls_statements){0};
}
