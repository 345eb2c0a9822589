// What is in each chart: its data, and a gnuplot script that people may change for a paper of their own. Colours are Okabe and Ito's,
// which colour-blind readers tell apart; patterns and markers tell the same in grey. Rows with fewer cores than threads are
// hollow: their times say nothing about scaling.
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "report/study_chart.h"

static const char *const colours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"};
static const int patterns[] = {3, 4, 2, 5, 1, 6, 7}, markers[] = {7, 5, 9, 11, 13, 15, 3},
                 hollow[] = {6, 4, 8, 10, 12, 14, 3};
enum { STYLES = LS_CHART_STYLES };
_Static_assert(sizeof colours / sizeof colours[0] == STYLES, "a style for each colour");
static const double FAR_APART =
    8;  // one network's values over another's, from where on a linear axis hides the small one

void ls__chart_quoted(FILE *out, const char *text) {
    fputc('\'', out);
    for (const char *p = text; *p; p++) {
        if (*p == '\'') fputc('\'', out);
        fputc((unsigned char)*p < ' ' ? ' ' : *p, out);
    }
    fputc('\'', out);
}

void ls__chart_line(chart *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(c->data, format, args);
    va_end(args);
    fputc('\n', c->data);
    c->points++;
}

// Between two series, so that gnuplot's "index" tells them apart.
static void next_series(chart *c, int s) {
    if (s > 0) fputs("\n\n", c->data);
    fprintf(c->data, "# ");
    for (const char *p = c->series->name[s]; *p; p++) fputc((unsigned char)*p < ' ' ? ' ' : *p, c->data);
    fputc('\n', c->data);
}

const char *ls__chart_label(const chart *c, int s) {
    const char *name = c->series->name[s], *comma = strstr(name, ", ");
    size_t n = comma ? (size_t)(comma + 2 - name) : 0;
    for (int i = 0; i < c->series->count; i++)
        if (strncmp(c->series->name[i], name, n) != 0) n = 0;
    return c->series->count > 1 ? name + n : name;
}

// Long names are written smaller: the key is as wide as the chart.
static void size_key(const chart *c) {
    enum { LONGEST = 30, FONT = 15, LEAST = 8 };
    int longest = 0;
    for (int s = 0; s < c->series->count; s++)
        if ((int)strlen(ls__chart_label(c, s)) > longest) longest = (int)strlen(ls__chart_label(c, s));
    int font = longest > LONGEST ? FONT * LONGEST / longest : FONT;
    if (font < FONT) fprintf(c->script, "if (!SLIDES) set key font ',%d'\n", font > LEAST ? font : LEAST);
}

static int position(const chart *c, int workers) {
    int i = 0;
    while (c->count[i] != workers) i++;
    return i;
}

void ls__chart_begin(chart *c, const char *xlabel, const char *ylabel) {
    fprintf(c->script,
            "# 'gnuplot %s.gp' in this folder draws %s.svg and %s.png from %s.dat.\n"
            "# It is yours to change; a new report into the same folder writes it again.\n"
            "set encoding utf8\n"
            "set border 3 linecolor rgb '#555555'\n"
            "set tics nomirror out\n"
            "set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1 dashtype 1\n"
            "if (!exists('SLIDES')) SLIDES = 0\n"
            "set key tmargin left Left reverse samplen 2 width 1 maxcols 1\n"
            "if (SLIDES) set key bmargin center horizontal maxcols 2\n"
            "set xlabel '%s'\nset ylabel '%s'\n",
            c->name, c->name, c->name, c->name, xlabel, ylabel);
    size_key(c);
    for (int i = 0; i < STYLES; i++)
        fprintf(c->script, "set style line %d linecolor rgb '%s' linewidth 2 pointtype %d pointsize 1 dashtype 1\n",
                i + 1, colours[i], markers[i]);
    fprintf(c->script, "set style line 10 linecolor rgb '#777777' linewidth 1.5 dashtype (8,5)\n");
}

static void category_axis(chart *c) {
    fprintf(c->script, "set xtics (");
    for (int i = 0; i < c->counts; i++) fprintf(c->script, "%s'%d' %d", i ? ", " : "", c->count[i], i);
    double margin = c->counts == 1 ? 1.2 : 0.7;  // a single bar is not as wide as the chart
    fprintf(c->script, ") scale 0\nset xrange [%g:%g]\n", -margin, c->counts - 1 + margin);
}

// Numbers of workers at equal distances when each doubles the one before.
static void log_axis(chart *c) {
    fprintf(c->script, "set logscale x 2\nset xtics (");
    for (int i = 0; i < c->counts; i++) fprintf(c->script, "%s%d", i ? ", " : "", c->count[i]);
    fprintf(c->script, ")\nset xrange [%g:%g]\n", c->count[0] / 1.25, c->count[c->counts - 1] * 1.25);
}

static void name_series(chart *c) {
    for (int s = 0; s < c->series->count; s++) {
        fprintf(c->script, "NAME%d = ", s + 1);
        ls__chart_quoted(c->script, ls__chart_label(c, s));
        fputc('\n', c->script);
    }
    c->names = c->series->count;
}

// "workers", and how many of them on a node where that is the same for all.
static const char *axis_name(const chart *c, char text[64]) {
    int per_node = 0, nodes = 1, same = 1;
    for (int i = 0; i < c->study->row_count; i++) {
        const ls_study_row *r = &c->study->rows[i];
        if (c->series->of[i] < 0) continue;
        same &= !per_node || r->workers_per_node == per_node;
        per_node = r->workers_per_node;
        nodes = r->nodes > nodes ? r->nodes : nodes;
    }
    if (nodes > 1 && same)
        snprintf(text, 64, "workers, %d on each node", per_node);
    else
        snprintf(text, 64, "workers");
    return text;
}

// --- values over the number of workers -------------------------------------------------------------------------------

typedef struct point {
    double value, least, most;  // the latter NAN where it ran once
    double ideal;               // NAN: none
    int hollow;                 // what is measured here says nothing, because rows share cores
} point;
// 0: the row has no such value.
typedef int (*point_of)(const chart *c, const ls_study_row *r, point *out);

typedef struct extent {
    double least, most;  // of values and their ranges
    int hollow;          // rows that share cores
} extent;

// Data as "workers position value least most shared ideal".
static extent write_points(chart *c, const char *what, point_of get) {
    extent e = {INFINITY, 0, 0};
    fprintf(c->data, "# workers position %s least most shares_cores ideal\n", what);
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            point p = {NAN, NAN, NAN, NAN, r->oversubscribed};
            if (c->series->of[i] != s || !get(c, r, &p) || !isfinite(p.value)) continue;
            ls__chart_line(c, "%d %d %.6g %.6g %.6g %d %.6g", r->workers, position(c, r->workers), p.value, p.least,
                           p.most, p.hollow, p.ideal);
            e.least = fmin(e.least, fmin(p.value, p.least));
            e.most = fmax(e.most, fmax(p.value, p.most));
            e.hollow += p.hollow != 0;
        }
    }
    return e;
}

static void say_hollow(chart *c, const extent *e) {
    if (!e->hollow) return;
    fprintf(c->script,
            ", NaN with points pointtype 6 linecolor rgb '#333333' title 'hollow: fewer cores than threads'");
    c->names++;
}

static void plot_bars(chart *c, const extent *e) {
    int n = c->series->count;
    double width = 0.8 / n;
    category_axis(c);
    fprintf(c->script, "set yrange [0:*]\nset offsets 0, 0, graph 0.06, 0\nset boxwidth %.4g\nPLOT = \"plot ",
            width * 0.92);
    for (int s = 0; s < n; s++) {
        double shift = (s - (n - 1) / 2.0) * width;
        fprintf(c->script,
                "%s'%s.dat' index %d using ($2%+.4g):($6 > 0 ? NaN : $3) with boxes linecolor rgb '%s' fillstyle "
                "pattern %d "
                "border linecolor rgb '#333333' title NAME%d",
                s ? ", " : "", c->name, s, shift, colours[s % STYLES], patterns[s % STYLES], s + 1);
        fprintf(c->script,
                ", '' index %d using ($2%+.4g):($6 > 0 ? $3 : NaN) with boxes linecolor rgb '%s' fillstyle empty "
                "border linecolor "
                "rgb '%s' notitle",
                s, shift, colours[s % STYLES], colours[s % STYLES]);
        fprintf(c->script,
                ", '' index %d using ($2%+.4g):4:(0):($5-$4) with vectors heads size graph 0.007,90 linecolor rgb "
                "'#000000' linewidth 1.5 notitle",
                s, shift);
    }
    say_hollow(c, e);
    fprintf(c->script, "\"\n");
}

// `first` is what stands before the series in the plot command, or ""; x is the data's column of that number.
static void plot_lines(chart *c, const char *first, int x, const extent *e) {
    fprintf(c->script, "PLOT = \"plot %s", first);
    for (int s = 0; s < c->series->count; s++) {
        int style = s % STYLES;
        fprintf(c->script, "%s'%s.dat' index %d using %d:3 with lines linestyle %d notitle", s || first[0] ? ", " : "",
                c->name, s, x, style + 1);
        fprintf(c->script,
                ", '' index %d using %d:($5 > 0 ? $3 : NaN):4:5 with yerrorbars linestyle %d pointsize 0 notitle", s, x,
                style + 1);
        fprintf(c->script, ", '' index %d using %d:($6 > 0 ? NaN : $3) with points linestyle %d title NAME%d", s, x,
                style + 1, s + 1);
        fprintf(c->script, ", '' index %d using %d:($6 > 0 ? $3 : NaN) with points linestyle %d pointtype %d notitle",
                s, x, style + 1, hollow[style]);
    }
    say_hollow(c, e);
    fprintf(c->script, "\"\n");
}

// Bars, or where one network is so much smaller than another that its bars could not be seen, points on a logarithmic axis.
static void plot_sizes(chart *c, const char *label, point_of get, const char *what) {
    char axis[64];
    extent e = write_points(c, what, get);
    double least = INFINITY, most = 0;
    for (int s = 0; s < c->series->count; s++) {
        double own = 0;
        point p = {NAN, NAN, NAN, NAN, 0};
        for (int i = 0; i < c->study->row_count; i++)
            if (c->series->of[i] == s && get(c, &c->study->rows[i], &p)) own = fmax(own, p.value);
        if (own > 0) least = fmin(least, own);
        most = fmax(most, own);
    }
    ls__chart_begin(c, axis_name(c, axis), label);
    name_series(c);
    if (most < FAR_APART * least || c->counts < 2) {
        plot_bars(c, &e);
        return;
    }
    log_axis(c);
    fprintf(c->script, "set logscale y\nset yrange [%.4g:%.4g]\n", e.least / 1.3, e.most * 1.3);
    plot_lines(c, "", 1, &e);
}

static int ranged(const ls_study_row *r) {
    return r->repeats > 1 && r->epoch_seconds > 0 && r->epoch_seconds_least > 0;
}

// One number of workers and one series: a bar with nothing beside it.
static int alone(const chart *c) {
    int rows = 0;
    for (int i = 0; i < c->study->row_count; i++) rows += c->series->of[i] >= 0;
    return rows < 2;
}

static int epoch_point(const chart *c, const ls_study_row *r, point *out) {
    if (alone(c)) return 0;
    out->value = r->epoch_seconds;
    if (ranged(r)) out->least = r->epoch_seconds_least, out->most = r->epoch_seconds_most;
    return 1;
}

void ls__draw_epoch_time(chart *c) { plot_sizes(c, "time per epoch (s)", epoch_point, "seconds"); }

static int throughput_point(const chart *c, const ls_study_row *r, point *out) {
    if (alone(c)) return 0;
    out->value = r->images_per_second;
    if (ranged(r)) {
        out->least = r->images_per_second * r->epoch_seconds / r->epoch_seconds_most;
        out->most = r->images_per_second * r->epoch_seconds / r->epoch_seconds_least;
    }
    return 1;
}

void ls__draw_throughput(chart *c) { plot_sizes(c, "throughput (images/s)", throughput_point, "images_per_second"); }

static int until_point(const chart *c, const ls_study_row *r, point *out) {
    (void)c;
    out->value = r->until_seconds;
    return isfinite(r->until_seconds);
}

void ls__draw_until(chart *c) { plot_sizes(c, "training time (s)", until_point, "seconds"); }

// One number of workers alone has nothing to be compared with.
static int scaled(const chart *c, const ls_study_row *r) { return c->counts > 1 && r->base >= 0 && r->efficiency > 0; }

static int speedup_point(const chart *c, const ls_study_row *r, point *out) {
    double least, most;
    if (!scaled(c, r)) return 0;
    out->value = r->speedup;
    out->ideal = r->speedup / r->efficiency;
    if (ls_study_efficiency_range(c->study, r, &least, &most)) {
        out->least = least * out->ideal;
        out->most = most * out->ideal;
    }
    return 1;
}

void ls__draw_speedup(chart *c) {
    extent e = write_points(c, "speedup", speedup_point);
    double base = 0, most = e.most;
    int same_base = 1;
    for (int i = 0; i < c->study->row_count; i++) {
        const ls_study_row *r = &c->study->rows[i];
        if (c->series->of[i] < 0 || !scaled(c, r)) continue;
        int from = c->study->rows[r->base].workers;
        same_base &= base == 0 || from == (int)base;
        base = base == 0 || from < base ? from : base;
        most = fmax(most, r->speedup / r->efficiency);
    }
    char label[64], ideal[160], axis[64];
    if (same_base && base > 0)
        snprintf(label, sizeof label, "speedup over %.0f worker%s", base, base > 1.5 ? "s" : "");
    else
        snprintf(label, sizeof label, "speedup over the fewest workers");
    ls__chart_begin(c, axis_name(c, axis), label);
    name_series(c);
    log_axis(c);
    fprintf(c->script, "set logscale y 2\nset yrange [%.4g:%.4g]\n", fmin(1, e.least) / 1.15, most * 1.15);
    snprintf(ideal, sizeof ideal, "x / %.6g with lines linestyle 10 title 'ideal'", base > 0 ? base : 1);
    c->names++;
    plot_lines(c, ideal, 1, &e);
}

static int efficiency_point(const chart *c, const ls_study_row *r, point *out) {
    double least, most;
    if (!scaled(c, r)) return 0;
    out->value = 100 * r->efficiency;
    out->ideal = 100;
    if (ls_study_efficiency_range(c->study, r, &least, &most)) {
        out->least = 100 * least;
        out->most = 100 * most;
    }
    return 1;
}

void ls__draw_efficiency(chart *c) {
    char axis[64];
    extent e = write_points(c, "efficiency_percent", efficiency_point);
    ls__chart_begin(c, axis_name(c, axis), "parallel efficiency (%)");
    name_series(c);
    log_axis(c);
    fprintf(c->script, "set yrange [0:%.4g]\n", fmax(100, e.most) * 1.05);
    c->names++;
    plot_lines(c, "100 with lines linestyle 10 title 'ideal'", 1, &e);
}

// --- what was learned --------------------------------------------------------------------------------------------------

static int accuracy_point(const chart *c, const ls_study_row *r, point *out) {
    if (alone(c) || !ls__row_evaluated(r)) return 0;
    out->value = 100 * r->test_accuracy;
    out->hollow = 0;  // what is learned does not depend on cores
    return 1;
}

// Around the values, yet never so near that noise looks like a cliff.
static void accuracy_range(chart *c, double least, double most) {
    double margin = fmax(1, 0.3 * (most - least));
    fprintf(c->script, "set yrange [%.4g:%.4g]\n", fmax(0, least - margin), fmin(100, most + margin));
}

void ls__draw_accuracy(chart *c) {
    char axis[64];
    extent e = write_points(c, "test_accuracy_percent", accuracy_point);
    ls__chart_begin(c, axis_name(c, axis), "test accuracy (%)");
    name_series(c);
    log_axis(c);
    accuracy_range(c, e.least, e.most);
    plot_lines(c, "", 1, &e);
}

// Where batches differ from row to row.
void ls__draw_accuracy_batch(chart *c) {
    double least = 100, most = 0, smallest = INFINITY, largest = 0;
    for (int i = 0; i < c->study->row_count; i++) {
        const ls_study_row *r = &c->study->rows[i];
        if (c->series->of[i] < 0 || !ls__row_evaluated(r)) continue;
        smallest = fmin(smallest, (double)r->global_batch);
        largest = fmax(largest, (double)r->global_batch);
    }
    fprintf(c->data, "# global_batch workers test_accuracy_percent NaN NaN 0\n");
    ls__chart_begin(c, "global batch", "test accuracy (%)");
    name_series(c);
    fprintf(c->script, "set logscale x 2\nset xrange [%.6g:%.6g]\nset xtics (", smallest / 1.25, largest * 1.25);
    for (int s = 0, tics = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] != s || !ls__row_evaluated(r) || !(largest > smallest) || smallest < 1) continue;
            ls__chart_line(c, "%lld %d %.6g NaN NaN 0", (long long)r->global_batch, r->workers, 100 * r->test_accuracy);
            fprintf(c->script, "%s%lld", tics++ ? ", " : "", (long long)r->global_batch);
            least = fmin(least, 100 * r->test_accuracy);
            most = fmax(most, 100 * r->test_accuracy);
        }
    }
    fprintf(c->script, ")\n");
    accuracy_range(c, least, most);
    plot_lines(c, "", 1, &(extent){0});
}

enum { MOST_CURVES = 8 };

int ls__chart_repeats(const chart *c, int row) {
    const char *digest = c->study->rows[row].digest;
    for (int i = 0; i < row; i++)
        if (digest[0] && strcmp(c->study->rows[i].digest, digest) == 0 && c->series->of[i] >= 0) return 1;
    return 0;
}

// Rows with weights that another row has too learned the same, and are left out.
static int is_new(const chart *c, int row) {
    const ls_study_row *r = &c->study->rows[row];
    if (c->series->of[row] < 0 || r->curve_epochs < 2) return 0;
    return !ls__chart_repeats(c, row);
}

static void draw_curves(chart *c, const char *label, double scale, double (*trained)(const ls_study_epoch *),
                        double (*tested)(const ls_study_epoch *)) {
    int curves = 0, most = 0;
    fprintf(c->data, "# epoch training test\n");
    ls__chart_begin(c, "epoch", label);
    for (int i = 0; i < c->study->row_count && curves < MOST_CURVES; i++) {
        const ls_study_row *r = &c->study->rows[i];
        char name[320];
        if (!is_new(c, i)) continue;
        int several = 0;  // rows of its series, with other weights
        for (int j = 0; j < c->study->row_count; j++) several += c->series->of[j] == c->series->of[i] && is_new(c, j);
        snprintf(name, sizeof name, "%s, %d worker%s", ls__chart_label(c, c->series->of[i]), r->workers,
                 r->workers == 1 ? "" : "s");
        fprintf(c->data, "%s# %d\n", curves ? "\n\n" : "", i);
        for (int e = 0; e < r->curve_epochs; e++) {
            const ls_study_epoch *x = &c->study->epochs[r->curve + e];
            ls__chart_line(c, "%d %.6g %.6g", e + 1, scale * trained(x), scale * tested(x));
        }
        most = r->curve_epochs > most ? r->curve_epochs : most;
        fprintf(c->script, "NAME%d = ", ++curves);
        ls__chart_quoted(c->script, several > 1 ? name : ls__chart_label(c, c->series->of[i]));
        fputc('\n', c->script);
    }
    c->names = curves;
    if (most <= 12) fprintf(c->script, "set xtics 1\n");  // there are no half epochs
    fprintf(c->script, "PLOT = \"plot ");
    for (int k = 0; k < curves; k++)
        fprintf(c->script,
                "%s'%s.dat' index %d using 1:3 with linespoints linestyle %d title NAME%d, '' index %d using 1:2 with "
                "lines "
                "linestyle %d dashtype (4,4) notitle",
                k ? ", " : "", c->name, k, k % STYLES + 1, k + 1, k, k % STYLES + 1);
    fprintf(c->script, "\"\n");
}

static double trained_accuracy(const ls_study_epoch *e) { return e->accuracy; }
static double tested_accuracy(const ls_study_epoch *e) { return e->val_accuracy; }
static double trained_loss(const ls_study_epoch *e) { return e->loss; }
static double tested_loss(const ls_study_epoch *e) { return e->val_loss; }

void ls__draw_learning(chart *c) { draw_curves(c, "accuracy (%)", 100, trained_accuracy, tested_accuracy); }
void ls__draw_loss(chart *c) { draw_curves(c, "loss", 1, trained_loss, tested_loss); }

// --- where a step's time goes ----------------------------------------------------------------------------------------

static char letter(int s) { return (char)('A' + s % 26); }

// Whether the series' names fit below their bars: all of these have some 40 characters for themselves.
static int names_fit(const chart *c) {
    int bars = c->series->count - 1;  // the gaps
    for (int i = 0; i < c->study->row_count; i++) bars += c->series->of[i] >= 0;
    for (int s = 0; s < c->series->count; s++) {
        int own = 1;
        for (int i = 0; i < c->study->row_count; i++) own += c->series->of[i] == s;
        if ((int)strlen(ls__chart_label(c, s)) * bars > 40 * own) return 0;
    }
    return 1;
}

// Phases that take less than a hundredth of the step in every row are not told apart.
static void which_phases(const chart *c, int small[LS_STUDY_PHASES]) {
    for (int p = 0; p < LS_STUDY_PHASES; p++) small[p] = 1;
    for (int i = 0; i < c->study->row_count; i++) {
        const ls_study_row *r = &c->study->rows[i];
        double sum = 0;
        if (c->series->of[i] < 0) continue;
        for (int p = 0; p < LS_STUDY_PHASES; p++) {
            double x = ls_study_phase(r, (ls_study_phase_kind)p);
            sum += isfinite(x) ? x : 0;
        }
        for (int p = 0; p < LS_STUDY_PHASES; p++)
            if (ls_study_phase(r, (ls_study_phase_kind)p) >= 0.01 * sum) small[p] = 0;
    }
}

static void phase_values(chart *c, const ls_study_row *r, double at, const int small[LS_STUDY_PHASES]) {
    double other = 0;
    fprintf(c->data, "%d %g", r->workers, at);
    for (int p = 0; p < LS_STUDY_PHASES; p++) {
        double x = ls_study_phase(r, (ls_study_phase_kind)p);
        x = isfinite(x) ? 1e3 * x : 0;
        if (small[p])
            other += x;
        else
            fprintf(c->data, " %.6g", x);
    }
    ls__chart_line(c, " %.6g", other);
}

static void phase_bars(chart *c, const int small[LS_STUDY_PHASES]) {
    static const int colour[] = {4, 0, 2, 3, 5, 6, 1}, pattern[] = {2, 3, 4, 1, 6, 5, 7};
    char below[128] = "0";  // the phases under this one
    int column = 3;
    fprintf(c->script, "set key outside right center vertical Left reverse invert samplen 1.5\nPLOT = \"plot ");
    for (int p = 0; p <= LS_STUDY_PHASES; p++) {
        if (p < LS_STUDY_PHASES && small[p]) continue;
        int rest = p == LS_STUDY_PHASES;
        fprintf(c->script,
                "%s'%s.dat' using 2:(%s):($2-0.35):($2+0.35):(%s):(%s+$%d) with boxxyerror linecolor rgb '%s' "
                "fillstyle %s %d border linecolor rgb '#333333' title '%s'",
                column > 3 ? ", " : "", c->name, below, below, below, column, rest ? "#bbbbbb" : colours[colour[p]],
                rest ? "solid" : "pattern", rest ? 1 : pattern[p],
                rest ? "other" : ls_study_phase_name((ls_study_phase_kind)p));
        size_t used = strlen(below);
        snprintf(below + used, sizeof below - used, "+$%d", column++);
    }
    fprintf(c->script, "\"\n");
}

void ls__draw_phases(chart *c) {
    int small[LS_STUDY_PHASES];
    char axis[64];
    which_phases(c, small);
    fprintf(c->data, "# workers position");
    for (int p = 0; p < LS_STUDY_PHASES; p++)
        if (!small[p]) fprintf(c->data, " %s", ls_study_phase_name((ls_study_phase_kind)p));
    fprintf(c->data, " other: milliseconds per step\n");
    ls__chart_begin(c, axis_name(c, axis), "time per step (ms)");
    name_series(c);
    c->names = 0;
    double at = 0;
    int several = c->series->count > 1, letters = several && !names_fit(c);
    for (int s = 0; s < c->series->count; s++) {
        double from = at;
        next_series(c, s);
        fprintf(c->script, "set xtics %s(", s > 0 ? "add " : "");
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] != s) continue;
            fprintf(c->script, "%s'%d' %g", at > from ? ", " : "", r->workers, at);
            phase_values(c, r, at, small);
            at++;
        }
        fprintf(c->script, ") scale 0\n");
        if (letters) {
            fprintf(c->script, "set label %d '%c' at first %g, character 2.9 center\n", s + 1, letter(s),
                    (from + at - 1) / 2);
            fprintf(c->script, "set label %d '%c: '.NAME%d at screen 0.03, screen 1 offset character 0, %g left\n",
                    100 + s, letter(s), s + 1, -0.9 - s);
        } else if (several) {
            fprintf(c->script, "set label %d NAME%d at first %g, character 2.9 center\n", s + 1, s + 1,
                    (from + at - 1) / 2);
        }
        at += several;  // a gap
    }
    at -= several;
    double margin = at <= 1 ? 1.2 : 0.7;
    fprintf(c->script, "set xrange [%g:%g]\nset yrange [0:*]\nset offsets 0, 0, graph 0.06, 0\n", -margin,
            at - 1 + margin);
    if (several) fprintf(c->script, "set xlabel offset 0,-1.2\nset bmargin 5\n");
    if (letters) fprintf(c->script, "set tmargin %g\n", c->series->count + 1.2);
    if (letters) c->names = c->series->count;
    phase_bars(c, small);
}
