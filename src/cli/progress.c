#include <string.h>

#include "base/clock.h"
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

static void bar_text(const ls_progress *p, int cells, char *text) {
    int full = (int)((double)cells * (double)p->step / (double)p->steps);
    for (int i = 0; i < cells; i++) text[i] = i < full ? '=' : '.';
    if (full > 0 && p->step < p->steps) text[full - 1] = '>';
    text[cells] = 0;
}

// " 57/469 [==>...] - ETA: 9s - loss: 1.2345 - accuracy: 0.6012 - 5400 images/s", the bar narrowed to fit `width`.
static int line_text(const ls_progress *p, int width, char *text, size_t size) {
    char steps[24], time[32], bar[BAR + 1];
    int digits = snprintf(steps, sizeof steps, "%lld", (long long)p->steps), done = p->step >= p->steps;
    seconds_text(done ? p->seconds : p->seconds / (double)p->step * (double)(p->steps - p->step), time, sizeof time);
    char left[64], right[160];
    int a = snprintf(left, sizeof left, "%*lld/%s", digits, (long long)p->step, steps);
    int b = snprintf(right, sizeof right, " - %s%s - loss: %.4f - accuracy: %.4f - %.0f images/s",
                     done ? "" : "ETA: ", time, p->loss, p->accuracy, p->images_per_second);
    int cells = width - a - b - 4;
    if (cells > BAR) cells = BAR;
    if (cells < 3) return snprintf(text, size, "%s%s", left, right);
    bar_text(p, cells, bar);
    return snprintf(text, size, "%s [%s]%s", left, bar, right);
}

static void draw_live(cli_progress *d, const ls_progress *p) {
    char text[320];
    int done = p->step >= p->steps;
    double now = ls_clock();
    if (!done && now - d->drawn < REDRAW_SECONDS) return;
    int n = line_text(p, cli_terminal_width(), text, sizeof text);
    printf("\r%s%*s%s", text, d->length > n ? d->length - n : 0, "", done ? "\n" : "");
    d->length = done ? 0 : n;
    d->drawn = now;
    fflush(stdout);
}

static void epoch_line(int epoch, int epochs) {
    printf("Epoch %d/%d\n", epoch, epochs);
    fflush(stdout);
}

void cli_progress_begin(cli_progress *d, int verbose, int epochs) {
    *d = (cli_progress){.verbose = verbose, .terminal = cli_terminal_is(stdout)};
    if (verbose > 0) epoch_line(1, epochs);
}

int cli_progress_step(void *user, const ls_progress *p) {
    cli_progress *d = user;
    if (d->first == 0) d->first = ls_clock();
    if (d->verbose == 0 || p->rank != 0) return 0;
    int done = p->step >= p->steps;
    if (d->verbose == 1 && d->terminal) {
        draw_live(d, p);
    } else if (done) {
        char text[320], time[32];
        if (d->verbose == 1) {
            line_text(p, 1000, text, sizeof text);
        } else {
            seconds_text(p->seconds, time, sizeof time);
            snprintf(text, sizeof text, "%lld/%lld - %s - loss: %.4f - accuracy: %.4f", (long long)p->step,
                     (long long)p->steps, time, p->loss, p->accuracy);
        }
        printf("%s\n", text);
        fflush(stdout);
    }
    if (done && p->epoch < p->epochs) epoch_line(p->epoch + 1, p->epochs);
    return 0;
}
