// What the numbers of a study say, in plain words. Nothing is claimed that they do not show: a cause is named only where it
// took a noticeable part of the time that was lost.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_impl.h"

typedef struct words {
    FILE *out;
    const ls_study *study;
    const ls_series *series;
} words;

static const char *plural(int n) { return n == 1 ? "" : "s"; }

static int weak(const ls_study_row *r) { return strcmp(r->mode, "weak") == 0; }

// The rows of a series in ascending order of workers, the next after `after` (-1: the first). -1: none.
static int next_row(const words *w, int s, int after) {
    for (int i = after + 1; i < w->study->row_count; i++)
        if (w->series->of[i] == s) return i;
    return -1;
}

// With three digits that mean something.
static const char *seconds(double x, char buffer[32]) {
    snprintf(buffer, 32, "%.*f s", x >= 100 ? 0 : x >= 10 ? 1 : x >= 1 ? 2 : 3, x);
    return buffer;
}

static const char *milliseconds(double x, char buffer[32]) {
    double ms = 1e3 * x;
    snprintf(buffer, 32, "%.*f ms", ms >= 100 ? 0 : ms >= 10 ? 1 : 2, ms);
    return buffer;
}

// --- one series ------------------------------------------------------------------------------------------------------

static void headline(const words *w, int s) {
    char x[32], y[32];
    int first = next_row(w, s, -1), last = first;
    for (int i = first; i >= 0; i = next_row(w, s, i)) last = i;
    const ls_study_row *a = &w->study->rows[first], *b = &w->study->rows[last];
    fprintf(w->out, "%s: one epoch takes %s with %d worker%s", w->series->name[s], seconds(a->epoch_seconds, x),
            a->workers, plural(a->workers));
    if (b->workers > a->workers) {
        fprintf(w->out, " and %s with %d", seconds(b->epoch_seconds, y), b->workers);
        if (weak(b))
            fprintf(w->out, ", each worker having the same work throughout");
        else if (a->epoch_seconds > 0 && b->epoch_seconds > 0)
            fprintf(w->out, ", %.2f times as fast", a->epoch_seconds / b->epoch_seconds);
        if (b->efficiency > 0 && b->speedup > 0) {
            int base = (int)lround(b->workers * b->efficiency / b->speedup);
            fprintf(w->out, ": a parallel efficiency of %.0f %% against %d worker%s", 100 * b->efficiency, base,
                    plural(base));
        }
    }
    fprintf(w->out, ".\n");
}

typedef struct cause {
    const char *text;
    double lost;  // seconds per step more than at ideal scaling
} cause;

static int most_lost(const void *a, const void *b) {
    double x = ((const cause *)a)->lost, y = ((const cause *)b)->lost;
    return (x < y) - (x > y);
}

// Of a phase that some records do not tell.
static double told(double x) { return isfinite(x) ? x : 0; }

// Where the time went that b's step takes longer than a's divided by as many more workers: what took a noticeable part of it.
static void causes(const words *w, const ls_study_row *a, const ls_study_row *b) {
    double ideal = weak(b) ? 1 : (double)a->workers / b->workers;
    double whole = b->load + b->forward + b->backward + b->exchange + told(b->wait) + b->update + told(b->serial);
    int apart = isfinite(a->wait) && isfinite(b->wait);
    double waited = told(b->wait) - ideal * told(a->wait), exchanged = b->exchange - ideal * a->exchange;
    cause c[] = {
        {"forward and backward take %s longer", b->forward + b->backward - ideal * (a->forward + a->backward)},
        {apart ? "exchanging gradients takes %s longer"
               : "exchanging gradients and waiting for other replicas takes %s longer",
         apart ? exchanged : exchanged + waited},
        {"waiting for the slowest replica takes %s longer", apart ? waited : 0},
        {"waiting for data takes %s longer", b->load - ideal * a->load},
        {"the update takes %s longer", b->update - ideal * a->update},
    };
    enum { CAUSES = sizeof c / sizeof c[0] };
    double lost = 0;
    for (int i = 0; i < CAUSES; i++) lost += c[i].lost;
    qsort(c, CAUSES, sizeof c[0], most_lost);
    char x[32];
    for (int i = 0; lost > 0 && i < CAUSES && c[i].lost > fmax(0.1 * lost, 0.01 * whole); i++) {
        if (i == 0) fprintf(w->out, ": of a step's %s, compared with ideal scaling, ", milliseconds(whole, x));
        fputs(i ? ", " : "", w->out);
        const char *at = strstr(c[i].text, "%s");
        fprintf(w->out, "%.*s%s%s", (int)(at - c[i].text), c[i].text, milliseconds(c[i].lost, x), at + 2);
    }
}

// Begins a sentence, with the network's name in front of it where there are several.
static void begin(const words *w, int s, char capital) {
    if (w->series->count > 1)
        fprintf(w->out, "%s: %c", w->series->name[s], capital - 'A' + 'a');
    else
        fputc(capital, w->out);
}

// From one number of workers to the next.
static void change(const words *w, int s, const ls_study_row *a, const ls_study_row *b) {
    double from = 100 * a->efficiency, to = 100 * b->efficiency;
    if (from <= 0 || to <= 0 || b->workers == a->workers) return;
    const char *how = to < from - 2 ? "falls" : to > from + 2 ? "rises" : "stays";
    begin(w, s, 'F');
    if (how[0] == 's') {
        fprintf(w->out, "rom %d to %d workers efficiency stays about the same (%.0f %% and %.0f %%).\n", a->workers,
                b->workers, from, to);
        return;
    }
    fprintf(w->out, "rom %d to %d workers efficiency %s from %.0f %% to %.0f %%", a->workers, b->workers, how, from,
            to);
    if (how[0] == 'f') {
        causes(w, a, b);
        if (b->oversubscribed)
            fprintf(w->out, "; the %d workers had fewer cores than threads and took turns on them", b->workers);
    } else if (to > 105) {
        fprintf(
            w->out,
            "; more than 100 %% comes from smaller shares that fit the caches, or from something that slowed the run "
            "with fewer workers down");
    }
    fprintf(w->out, ".\n");
}

// What the row with the most workers lost, by cause.
static void losses(const words *w, int s, const ls_study_row *r) {
    const ls_study_loss *l = &r->loss;
    double lost = 1 - r->efficiency;
    if (!isfinite(l->unexplained) || !(r->efficiency > 0) || lost < 0.02) return;
    cause c[] = {
        {r->oversubscribed ? "forward and backward getting slower, more threads than cores sharing them"
                           : "forward and backward getting slower, as where workers share memory bandwidth or caches",
         l->compute},
        {"exchange that is not hidden behind computing", l->exchange},
        {"waiting for the slowest replica", l->wait},
        {"waiting for input", l->input},
        {"serial parts: the update, setting up, progress", l->serial},
    };
    enum { CAUSES = sizeof c / sizeof c[0] };
    qsort(c, CAUSES, sizeof c[0], most_lost);
    int base = (int)lround(r->workers * r->efficiency / r->speedup);
    begin(w, s, 'W');
    fprintf(w->out, "ith %d worker%s %.1f %% of an epoch's time are lost, compared with the efficiency of %d",
            r->workers, plural(r->workers), 100 * lost, base);
    for (int i = 0; i < CAUSES && c[i].lost > fmax(0.1 * lost, 0.005); i++)
        fprintf(w->out, "%s%s (%.1f %%)",
                i == 0   ? "; the largest cause is "
                : i == 1 ? ", then "
                         : ", ",
                c[i].text, 100 * c[i].lost);
    if (fabs(l->unexplained) > 0.05)
        fprintf(w->out, ". %.1f %% are not explained by what was measured: take the causes with care",
                100 * l->unexplained);
    fprintf(w->out, ".\n");
}

static void spread(const words *w, int s, const ls_study_row *r) {
    double range = r->epoch_seconds > 0 ? (r->epoch_seconds_most - r->epoch_seconds_least) / r->epoch_seconds : 0;
    if (range <= 0.1) return;
    begin(w, s, 'T');
    fprintf(w->out,
            "he repeats with %d worker%s differ by %.0f %% among themselves: smaller differences than that may be "
            "chance.\n",
            r->workers, plural(r->workers), 100 * range);
}

static void accuracy(const words *w, int s) {
    const ls_study_row *a = NULL, *b = NULL;
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        const ls_study_row *r = &w->study->rows[i];
        if (!ls__row_evaluated(r)) continue;
        if (!a) a = r;
        b = r;
    }
    if (!a || a->global_batch == b->global_batch) return;
    double by = 100 * (b->test_accuracy - a->test_accuracy);
    begin(w, s, 'T');
    fprintf(w->out,
            "est accuracy %s from %.2f %% with %d worker%s to %.2f %% with %d, while the global batch grows from "
            "%lld to %lld.\n",
            by < -0.005  ? "falls"
            : by > 0.005 ? "rises"
                         : "stays,",
            100 * a->test_accuracy, a->workers, plural(a->workers), 100 * b->test_accuracy, b->workers,
            (long long)a->global_batch, (long long)b->global_batch);
}

static void one_series(const words *w, int s) {
    headline(w, s);
    int last = -1;
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) {
        if (last >= 0) change(w, s, &w->study->rows[last], &w->study->rows[i]);
        last = i;
    }
    if (last >= 0) losses(w, s, &w->study->rows[last]);
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i)) spread(w, s, &w->study->rows[i]);
    accuracy(w, s);
}

// --- the whole study -------------------------------------------------------------------------------------------------

static const ls_study_row *row_with(const words *w, int s, int workers) {
    for (int i = next_row(w, s, -1); i >= 0; i = next_row(w, s, i))
        if (w->study->rows[i].workers == workers && w->study->rows[i].efficiency > 0) return &w->study->rows[i];
    return NULL;
}

// Which of the first two series scales better, at the most workers both have.
static void compare(const words *w) {
    if (w->series->count < 2) return;
    const ls_study_row *a = NULL, *b = NULL;
    for (int i = next_row(w, 0, -1); i >= 0; i = next_row(w, 0, i)) {
        const ls_study_row *x = row_with(w, 0, w->study->rows[i].workers);
        const ls_study_row *y = x ? row_with(w, 1, x->workers) : NULL;
        if (y && (!a || x->workers > a->workers)) {
            a = x;
            b = y;
        }
    }
    // Both are at 100 % where everything else is compared with.
    if (!a || (a->speedup == 1 && b->speedup == 1)) return;
    int first = a->efficiency >= b->efficiency;
    double better = 100 * fmax(a->efficiency, b->efficiency), worse = 100 * fmin(a->efficiency, b->efficiency);
    if (better - worse < 2)
        fprintf(w->out, "With %d workers %s and %s scale alike (%.0f %% and %.0f %%).\n", a->workers,
                w->series->name[0], w->series->name[1], 100 * a->efficiency, 100 * b->efficiency);
    else
        fprintf(w->out, "With %d workers %s scales better (%.0f %%) than %s (%.0f %%).\n", a->workers,
                w->series->name[!first], better, w->series->name[first], worse);
}

// Without repeats nobody knows how much is chance.
static void chance(const words *w) {
    int most = 0;
    for (int i = 0; i < w->study->row_count; i++)
        most = w->study->rows[i].repeats > most ? w->study->rows[i].repeats : most;
    if (most == 1 && w->study->row_count > 1)
        fprintf(w->out, "Every configuration ran once: how much of a difference is chance, only repeats can tell.\n");
}

// The runs that ended with the weights of row `i`, which is the first of them: on however many nodes and replicas.
static void same_weights(const words *w, int i) {
    const ls_study_row *row = w->study->rows, *first = &row[i];
    int runs = 0, one_series = 1;
    if (weak(first) || !first->digest[0]) return;
    for (int j = 0; j < w->study->row_count; j++) {
        if (weak(&row[j]) || strcmp(row[j].digest, first->digest) != 0) continue;
        if (j < i) return;
        runs += row[j].repeats - row[j].stopped;
        one_series &= w->series->of[j] == w->series->of[i];
    }
    if (runs < 2) return;
    if (runs == 2)
        fputs("Both", w->out);
    else
        fprintf(w->out, "All %d", runs);
    fprintf(w->out,
            " runs of %s ended with the same weights, bit for bit (digest %.12s): they did the same work with the same "
            "result, and differ in time alone.\n",
            one_series ? w->series->name[w->series->of[i]] : first->model, first->digest);
}

static void digests(const words *w) {
    const ls_study *st = w->study;
    int differ = 0;
    for (int i = 0; i < st->row_count; i++) {
        if (!st->rows[i].digest_differs) continue;
        fprintf(w->out, "%s%s with %d worker%s",
                differ++ ? ", " : "! Not all runs ended with the same weights: ", st->rows[i].model,
                st->rows[i].workers, plural(st->rows[i].workers));
    }
    if (differ) {
        fprintf(
            w->out,
            " differ%s. Where model, data, recipe, batch and micro-batch, precision, kernel library and threads "
            "per replica are the same, the weights must be too: compare the rows' set-up, and if it agrees, this is a "
            "defect worth reporting.\n",
            differ == 1 ? "s" : "");
        return;
    }
    for (int i = 0; i < st->row_count; i++) same_weights(w, i);
}

static void failures(const words *w) {
    if (w->study->programs[0])
        fprintf(w->out,
                "! Not all runs were made by the same program, so their times may differ for that reason: %s.\n",
                w->study->programs);
    for (int i = 0; i < w->study->row_count; i++) {
        const ls_study_row *r = &w->study->rows[i];
        if (r->stopped)
            fprintf(w->out,
                    "! %s with %d worker%s: %d of %d run%s did not come to the end%s%s: the time of its whole epochs "
                    "counts, what it learned does not.\n",
                    r->model, r->workers, plural(r->workers), r->stopped, r->failed + r->repeats,
                    plural(r->failed + r->repeats), r->failed ? "" : ", ", r->failed ? "" : r->reason);
        if (r->failed == 0) continue;
        fprintf(w->out, "! %s with %d worker%s: %d of %d run%s gave no record", r->model, r->workers,
                plural(r->workers), r->failed, r->failed + r->repeats, plural(r->failed + r->repeats));
        if (r->reason[0]) fprintf(w->out, ": %s", r->reason);
        fprintf(w->out, "%s\n", r->reason[0] && r->reason[strlen(r->reason) - 1] == '.' ? "" : ".");
    }
}

ls_status ls__study_words(const ls_study *study, char **text) {
    size_t size;
    ls_series series;
    *text = NULL;
    ls_status status = ls__series_create(study, &series);
    if (status == LS_OK) {
        words w = {open_memstream(text, &size), study, &series};
        if (w.out) {
            for (int s = 0; s < series.count; s++) one_series(&w, s);
            compare(&w);
            chance(&w);
            digests(&w);
            failures(&w);
            if (fclose(w.out) != 0) w.out = NULL;
        }
        if (!w.out) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while explaining a study");
    }
    ls__series_destroy(&series);
    return status;
}
