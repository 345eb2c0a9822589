// A study's charts in block characters, for a terminal.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "report/study_impl.h"

enum { NARROW = 40, WIDE = 120, VALUE = 12 };

typedef struct canvas {
    FILE *out;
    const ls_study *study;
    const ls_series *series;
    int width, label, bar,
        utf8;  // columns of all; of a row's name; of a bar; whether the terminal knows more than ASCII
} canvas;

static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};

static void repeat(FILE *out, const char *cell, int count) {
    for (; count > 0; count--) fputs(cell, out);
}

static void name_of_row(const ls_study_row *r, char text[32]) {
    snprintf(text, 32, "%d worker%s", r->workers, r->workers == 1 ? "" : "s");
}

// A bar so many cells long, and a mark at a cell beyond it; < 0: none. Returns the cells it took.
static int bar(const canvas *c, double cells, int mark) {
    int full = c->utf8 ? (int)cells : (int)lround(cells), rest = c->utf8 ? (int)(8 * (cells - full)) : 0;
    if (full + rest == 0 && cells > 0) c->utf8 ? (rest = 1) : (full = 1);  // little is not nothing
    repeat(c->out, c->utf8 ? "█" : "#", full);
    if (rest) fputs(eighths[rest], c->out);
    int used = full + (rest > 0);
    if (mark < used || mark < 0) return used;
    fprintf(c->out, "%*s%s", mark - used, "", c->utf8 ? "│" : "|");
    return mark + 1;
}

// --- charts of one value per row -------------------------------------------------------------------------------------

static double epoch_time(const ls_study_row *r) { return r->epoch_seconds; }
static double throughput(const ls_study_row *r) { return r->images_per_second; }
static double speedup(const ls_study_row *r) { return r->speedup; }
static double efficiency(const ls_study_row *r) { return 100 * r->efficiency; }
static double ideal_speedup(const ls_study_row *r) { return r->efficiency > 0 ? r->speedup / r->efficiency : 0; }
static double ideal_efficiency(const ls_study_row *r) { return r->efficiency > 0 ? 100 : 0; }

typedef struct bars {
    const char *title;
    double (*value)(const ls_study_row *row);
    double (*ideal)(const ls_study_row *row);  // NULL: there is none
} bars;

static const bars charts[] = {{"Time per epoch (s)", epoch_time, NULL},
                              {"Images per second", throughput, NULL},
                              {"Speedup", speedup, ideal_speedup},
                              {"Efficiency (%)", efficiency, ideal_efficiency}};

// With three digits that mean something.
static void print_value(FILE *out, double x) {
    if (!(x > 0))
        fputs(" -\n", out);
    else
        fprintf(out, " %.*f\n", x >= 99.95 ? 0 : x >= 9.995 ? 1 : x >= 0.9995 ? 2 : 3, x);
}

// The name of a row's series in front of its first row, where there are several.
static void begin_row(const canvas *c, int row, int *series) {
    char name[32];
    if (c->series->count > 1 && c->series->of[row] != *series)
        fprintf(c->out, " %.*s\n", c->width - 1, c->series->name[c->series->of[row]]);
    *series = c->series->of[row];
    name_of_row(&c->study->rows[row], name);
    fprintf(c->out, "  %-*s ", c->label, name);
}

// What the longest bar stands for: the same for all series, so that they can be compared, unless one of them would be hardly
// visible beside another.
static double scale_of(const canvas *c, int series, double (*value)(const ls_study_row *),
                       double (*ideal)(const ls_study_row *)) {
    double all = 0, least = INFINITY, own = 0;
    for (int s = 0; s < c->series->count; s++) {
        double most = 0;
        for (int i = 0; i < c->study->row_count; i++) {
            if (c->series->of[i] != s) continue;
            most = fmax(most, value(&c->study->rows[i]));
            if (ideal) most = fmax(most, ideal(&c->study->rows[i]));
        }
        all = fmax(all, most);
        least = fmin(least, most);
        if (s == series) own = most;
    }
    return 10 * least < all ? own : all;
}

// Calls `draw` for all rows, by series; `user` is its.
static void each_row(const canvas *c, void (*draw)(const canvas *, const ls_study_row *, int series, const void *user),
                     const void *user) {
    for (int s = 0, series = -1; s < c->series->count; s++)
        for (int i = 0; i < c->study->row_count; i++) {
            if (c->series->of[i] != s) continue;
            begin_row(c, i, &series);
            draw(c, &c->study->rows[i], s, user);
        }
}

static void draw_bar(const canvas *c, const ls_study_row *r, int series, const void *user) {
    const bars *b = user;
    double x = b->value(r), most = scale_of(c, series, b->value, b->ideal), cells = most > 0 ? c->bar / most : 0;
    int used = bar(c, x * cells, b->ideal && b->ideal(r) > 0 ? (int)(b->ideal(r) * cells) - 1 : -1);
    if (b->ideal) fprintf(c->out, "%*s", c->bar - used, "");  // values below one another: marks are in the way
    print_value(c->out, x);
}

static void draw_bars(const canvas *c, const bars *b) {
    int any = 0;
    for (int i = 0; i < c->study->row_count; i++)
        any |= c->series->of[i] >= 0 && (!b->ideal || c->study->rows[i].base >= 0);
    if (!any) return;
    fprintf(c->out, "\n%s", b->title);
    if (b->ideal) fputs(c->utf8 ? ", the ideal at │" : ", the ideal at |", c->out);
    fputc('\n', c->out);
    each_row(c, draw_bar, b);
}

// --- where a step's time goes ----------------------------------------------------------------------------------------

static const char *const utf8_phases[] = {"·", "█", "▓", "▒", "╌", "░", "▁"}, *const ascii_phases[] = {
                                                                                  ".", "#", "=", "+", "~", "-", "_"};

// What records of before do not tell apart is in the exchange.
static double of_phase(const ls_study_row *r, int phase) {
    double x = ls_study_phase(r, (ls_study_phase_kind)phase);
    return isfinite(x) ? x : 0;
}

static const char *phase_cell(const canvas *c, int phase) { return (c->utf8 ? utf8_phases : ascii_phases)[phase]; }

static double step_time(const ls_study_row *r) {
    double sum = 0;
    for (int p = 0; p < LS_STUDY_PHASES; p++) sum += of_phase(r, p);
    return sum;
}

static void draw_stack(const canvas *c, const ls_study_row *r, int series, const void *user) {
    double sum = 0, most = scale_of(c, series, step_time, NULL);
    int used = 0;
    for (int p = 0; p < LS_STUDY_PHASES; p++) {
        sum += of_phase(r, p);
        int end = most > 0 ? (int)lround(sum * c->bar / most) : 0;
        repeat(c->out, phase_cell(c, p), end - used);
        used = end;
    }
    print_value(c->out, 1e3 * sum);
}

static void draw_phases(const canvas *c) {
    fputs("\nWhere a step's time goes (ms)\n ", c->out);
    for (int p = 0; p < LS_STUDY_PHASES; p++)
        fprintf(c->out, " %s %s", phase_cell(c, p), ls_study_phase_name((ls_study_phase_kind)p));
    fputc('\n', c->out);
    each_row(c, draw_stack, NULL);
}

ls_status ls_study_charts_text(const ls_study *study, int width, int utf8, char **text) {
    size_t size;
    ls_series series;
    *text = NULL;
    ls_status status = ls__series_create(study, &series);
    canvas c = {.study = study, .series = &series, .utf8 = utf8};
    if (status == LS_OK) c.out = open_memstream(text, &size);
    if (status == LS_OK && !c.out) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    if (status == LS_OK) {
        for (int i = 0; i < study->row_count; i++) {
            char name[32];
            name_of_row(&study->rows[i], name);
            if ((int)strlen(name) > c.label) c.label = (int)strlen(name);
        }
        width = width < NARROW ? NARROW : width > WIDE ? WIDE : width;
        c.width = width;
        c.bar = width - c.label - 3 - VALUE;
        for (size_t i = 0; i < sizeof charts / sizeof charts[0] && series.count > 0; i++) draw_bars(&c, &charts[i]);
        if (series.count > 0) draw_phases(&c);
        if (fclose(c.out) != 0) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    }
    ls__series_destroy(&series);
    if (status == LS_OK) {
        ls_text_clean(*text);
        return LS_OK;
    }
    free(*text);
    *text = NULL;
    return status;
}
