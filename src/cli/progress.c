#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/options.h"
#include "base/text.h"
#include "cli/cli.h"

#define BAR            30  // cells, as in Keras
#define REDRAW_SECONDS 0.1

static void seconds_text(double seconds, char *text, size_t size) {
    long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, size, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else if (s >= 60)
        snprintf(text, size, "%lld:%02lld", s / 60, s % 60);
    else
        snprintf(text, size, "%llds", s);
}

static void bar_text(const ls_step_report *p, int cells, char *text) {
    int full = (int)((double)cells * (double)p->step / (double)p->steps);
    for (int i = 0; i < cells; i++) text[i] = i < full ? '=' : '.';
    if (full > 0 && p->step < p->steps) text[full - 1] = '>';
    text[cells] = 0;
}

// " - val_loss: 0.0712 - val_accuracy: 0.9781", nothing where the epoch is not evaluated.
static void validation_text(const ls_epoch_result *e, char *text, size_t size) {
    text[0] = 0;
    size_t used = 0;
    if (!e || isnan(e->val_seconds)) return;
    ls_text_add(text, size, &used, " - val_loss: %.4f", e->val_loss);
    if (!isnan(e->val_accuracy)) ls_text_add(text, size, &used, " - val_accuracy: %.4f", e->val_accuracy);
    if (!isnan(e->val_area)) ls_text_add(text, size, &used, " - val_auc: %.4f", e->val_area);
}

// " - perplexity: 3.21", of a language model.
static void perplexity_text(const cli_progress *d, double loss, char *text, size_t size) {
    text[0] = 0;
    if (d->perplexity) snprintf(text, size, " - perplexity: %.3f", exp(loss));
}

// " - accuracy: 0.6012"; nothing of networks without one.
static void accuracy_text(double accuracy, char *text, size_t size) {
    text[0] = 0;
    if (!isnan(accuracy)) snprintf(text, size, " - accuracy: %.4f", accuracy);
}

// " 57/469 [==>...] - ETA: 9s - loss: 1.2345 - accuracy: 0.6012 - 5400 images/s", the bar narrowed to fit `width`. `e` is the
// epoch once it is over, NULL before.
static int line_text(const cli_progress *d, const ls_step_report *p, const ls_epoch_result *e, int width, char *text,
                     size_t size) {
    char steps[24], time[32], bar[BAR + 1], validation[100], doubt[40], accuracy[40];
    int digits = snprintf(steps, sizeof steps, "%lld", (long long)p->steps), done = e || p->step >= p->steps;
    validation_text(e, validation, sizeof validation);
    perplexity_text(d, p->loss, doubt, sizeof doubt);
    accuracy_text(p->accuracy, accuracy, sizeof accuracy);
    seconds_text(done ? p->seconds : p->seconds / (double)p->step * (double)(p->steps - p->step), time, sizeof time);
    char left[64], right[720];
    int a = snprintf(left, sizeof left, "%*lld/%s", digits, (long long)p->step, steps);
    int b = snprintf(right, sizeof right, " - %s%s - loss: %.4f%s%s%s%s%s - %.0f %s/s", done ? "" : "ETA: ", time,
                     p->loss, e ? d->losses : "", accuracy, doubt, validation, e ? d->val_losses : "",
                     p->images_per_second * (d->tokens ? (double)d->tokens : 1), d->tokens ? "tokens" : "images");
    int cells = width - a - b - 4;
    if (cells > BAR) cells = BAR;
    if (cells < 3 && e) return snprintf(text, size, "%s%s", left, right);
    if (cells < 3) {  // and no more than fits: a line that wraps cannot be drawn over
        int n = snprintf(text, size, "%.*s", width - 1, left);
        return n + snprintf(text + n, size - (size_t)n, "%.*s", width - 1 - n, right);
    }
    bar_text(p, cells, bar);
    return snprintf(text, size, "%s [%s]%s", left, bar, right);
}

static void draw_live(cli_progress *d, const ls_step_report *p, const ls_epoch_result *e) {
    char text[800];
    double now = ls_clock();
    if (!e && p->step < p->steps && now - d->drawn < REDRAW_SECONDS) return;
    int width = cli_terminal_width(), n = line_text(d, p, e, width, text, sizeof text);
    int before = d->length < width ? d->length : width - 1;  // what is left of it in a window made smaller
    if (e && n >= width) {
        printf("\r%*s\r", before, "");
        ls_print_entry(stdout, "", 0, width, text);
    } else {
        printf("\r%s%*s%s", text, before > n ? before - n : 0, "", e ? "\n" : "");
    }
    d->length = e ? 0 : n;
    d->drawn = now;
    fflush(stdout);
}

static void epoch_line(int epoch, int epochs) {
    printf("Epoch %d/%d\n", epoch, epochs);
    fflush(stdout);
}

void cli_progress_begin(cli_progress *d, int verbose, int epoch, int epochs) {
    *d = (cli_progress){.verbose = verbose, .terminal = cli_terminal_is(stdout)};
    if (verbose > 0 && epoch <= epochs) epoch_line(epoch, epochs);
}

void cli_progress_step(cli_progress *d, const ls_step_report *p) {
    if (d->first == 0) d->first = ls_clock();
    d->latest = *p;
    if (d->verbose == 1 && d->terminal) draw_live(d, p, NULL);
}

void cli_progress_pause(cli_progress *d) {
    if (d->length > 0) putchar('\n');
    d->length = 0;
    fflush(stdout);
}

void cli_progress_epoch(cli_progress *d, const ls_epoch_result *e, int more) {
    if (d->verbose == 0) return;
    ls_step_report p = d->latest;  // with the sums over all workers
    p.step = e->steps;
    p.seconds = e->seconds;
    p.loss = e->loss;
    p.accuracy = e->accuracy;
    p.images_per_second = e->images_per_second;
    char text[800], time[32], validation[100], doubt[40], accuracy[40];
    if (d->verbose == 1 && d->terminal) {
        draw_live(d, &p, e);
    } else if (d->verbose == 1) {
        line_text(d, &p, e, 1000, text, sizeof text);
        printf("%s\n", text);
    } else {
        seconds_text(p.seconds, time, sizeof time);
        validation_text(e, validation, sizeof validation);
        perplexity_text(d, p.loss, doubt, sizeof doubt);
        accuracy_text(p.accuracy, accuracy, sizeof accuracy);
        snprintf(text, sizeof text, "%lld/%lld - %s - loss: %.4f%s%s%s", (long long)p.step, (long long)p.steps, time,
                 p.loss, d->losses, accuracy, doubt);
        size_t after = strlen(validation) + strlen(d->val_losses);
        int wraps = d->terminal && after > 0 && (int)(strlen(text) + after) > cli_terminal_width();
        printf("%s%s%s%s\n", text, wraps ? "\n  " : "", validation, d->val_losses);
    }
    if (more) epoch_line(e->epoch + 1, p.epochs);
    fflush(stdout);
}
