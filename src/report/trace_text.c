// The summary of a trace for a terminal.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "report/trace_report.h"

#define LAYERS 12  // shown
#define ROWS   32  // shown; of more workers those with the most time of their own

static const char *plural(int64_t n) { return n == 1 ? "" : "s"; }

static void print_head(FILE *out, const ls_trace_report *t, const char *path) {
    int64_t last = t->recorded_first_step + t->recorded_steps - 1;
    fprintf(out, "%s: %s on %s, %d worker%s on %d host%s x %d replica%s, %s, %s\n", path, t->model, t->data, t->workers,
            plural(t->workers), t->hosts, plural(t->hosts), t->replicas_per_worker, plural(t->replicas_per_worker),
            t->precision, t->strategy);
    fprintf(out, "Recorded: step%s %lld", plural(t->recorded_steps), (long long)t->recorded_first_step);
    if (t->recorded_steps > 1) fprintf(out, " to %lld", (long long)last);
    fprintf(out, " of the %lld of each epoch, in %s%lld epoch%s.", (long long)t->steps_per_epoch,
            t->recorded_epochs < t->epochs ? "the first " : "", (long long)t->recorded_epochs,
            plural(t->recorded_epochs));
    if (t->recorded_steps < t->steps_asked && t->recorded_steps < t->steps_per_epoch)
        fprintf(out, " %lld were asked for: the rest would have made the file too large.", (long long)t->steps_asked);
    fputc('\n', out);
    if (t->dropped > 0) fprintf(out, "%lld spans had no room: the times below miss them.\n", (long long)t->dropped);
    if (t->hosts > 1) fprintf(out, "The hosts' clocks agree to %.0f microseconds or better.\n", 1e6 * t->clock_error);
}

// --- who spent it on what ------------------------------------------------------------------------------------------------

static void print_times(FILE *out, const char *name, int width, const ls_trace_times *t) {
    const double times[] = {t->load,   t->forward, t->backward, t->exchange, t->wait,
                            t->update, t->serial,  t->rest,     t->step};
    fprintf(out, "  %-*s", width, name);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        fprintf(out, " %9.3f", fabs(times[i]) < 0.5e-6 ? 0.0 : 1e3 * times[i]);  // no "-0.000"
    fputc('\n', out);
}

static double own(const ls_trace_row *r) { return r->times.step - r->times.wait; }

static int busiest_first(const void *a, const void *b) {
    double x = own(*(const ls_trace_row *const *)a), y = own(*(const ls_trace_row *const *)b);
    return (x < y) - (x > y);
}

static void print_rows(FILE *out, const ls_trace_report *t) {
    static const char *const heads[] = {"load",   "forward", "backward", "exchange", "wait",
                                        "update", "serial",  "rest",     "step"};
    int width = 4, many = t->row_count > ROWS;
    const ls_trace_row **rows = malloc((size_t)t->row_count * sizeof *rows);
    if (!rows) return;
    for (int i = 0; i < t->row_count; i++) {
        rows[i] = &t->rows[i];
        if ((int)strlen(t->rows[i].name) > width) width = (int)strlen(t->rows[i].name);
    }
    if (many) qsort(rows, (size_t)t->row_count, sizeof *rows, busiest_first);
    fprintf(out, "\nWhere the time of a step goes (ms%s%s)\n  %-*s",
            t->replicas_per_worker > 1 && t->workers > 1 ? ", mean over each worker's replicas" : "",
            many ? "; those with the most time of their own" : "", width, "");
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) fprintf(out, " %9s", heads[i]);
    fputc('\n', out);
    for (int i = 0; i < t->row_count && i < ROWS; i++) print_times(out, rows[i]->name, width, &rows[i]->times);
    if (t->row_count > 1) print_times(out, "mean", width, &t->mean);
    free(rows);
}

static void print_layers(FILE *out, const ls_trace_report *t) {
    if (t->layer_count == 0) return;
    int width = 0;
    for (int i = 0; i < t->layer_count && i < LAYERS; i++)
        if ((int)strlen(t->layers[i].name) > width) width = (int)strlen(t->layers[i].name);
    fprintf(out, "\nThe slowest layers (ms per step, all replicas together; share of all layers)\n");
    double shown = 0;
    for (int i = 0; i < t->layer_count && i < LAYERS; i++) {
        const ls_trace_layer *l = &t->layers[i];
        fprintf(out, "  %-*s %9.3f %6.1f %%\n", width, l->name, 1e3 * l->seconds, 100 * l->share);
        shown += l->share;
    }
    if (t->layer_count > LAYERS) fprintf(out, "  %-*s %9s %6.1f %%\n", width, "the others", "", 100 * (1 - shown));
}

// --- what it comes to ----------------------------------------------------------------------------------------------------

static void print_exchange(FILE *out, const ls_trace_report *t) {
    const ls_trace_times *m = &t->mean;
    double all = m->exchange + m->hidden;
    fprintf(out, "\nExchange: %.3f ms of a step's %.3f ms (%.1f %%) are exposed: no computing meanwhile",
            1e3 * m->exchange, 1e3 * m->step, m->step > 0 ? 100 * m->exchange / m->step : 0);
    if (m->hidden > 0)
        fprintf(out, "; %.3f ms (%.0f %% of all exchange) are hidden behind forward and backward.\n", 1e3 * m->hidden,
                100 * m->hidden / all);
    else
        fprintf(out, "; nothing of it is hidden behind forward and backward.\n");
    fprintf(out, "Waiting for other replicas: %.3f ms a step (%.1f %%).\n", 1e3 * m->wait,
            m->step > 0 ? 100 * m->wait / m->step : 0);
}

// Named only when it is last in more steps than chance makes somebody (by two standard deviations), and by what is worth a word.
static void print_straggler(FILE *out, const ls_trace_report *t) {
    const ls_trace_row *worst = NULL;
    if (t->row_count < 2 || !t->rows) return;
    for (int i = 0; i < t->row_count; i++)
        if (!worst || t->rows[i].lateness > worst->lateness) worst = &t->rows[i];
    int64_t steps = 0;
    for (int i = 0; i < t->row_count; i++) steps += t->rows[i].last;
    if (steps == 0) return;
    double share = (double)worst->last / (double)steps, chance = 1.0 / t->row_count;
    if (share > chance + 2 * sqrt(chance * (1 - chance) / (double)steps) && worst->lateness > 0.01 * t->mean.step)
        fprintf(out,
                "The straggler: %s had its gradients ready last in %lld of %lld steps, %.3f ms after the mean (%.1f %% "
                "of a step).\n",
                worst->name, (long long)worst->last, (long long)steps, 1e3 * worst->lateness,
                100 * worst->lateness / t->mean.step);
    else
        fprintf(out, "No straggler: %s is latest, by %.3f ms on average, and last in %lld of %lld steps.\n",
                worst->name, 1e3 * worst->lateness, (long long)worst->last, (long long)steps);
}

ls_status ls_trace_report_text(const ls_trace_report *t, const char *path, char **text) {
    size_t size;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (out) {
        print_head(out, t, path);
        print_rows(out, t);
        print_layers(out, t);
        print_exchange(out, t);
        print_straggler(out, t);
    }
    if (!out || fclose(out) != 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_text_clean(*text);  // names come from the file
    return LS_OK;
}
