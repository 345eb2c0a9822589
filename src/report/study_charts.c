// The charts of a study: for each a data file and a gnuplot script that draws it, which people may change for a paper of
// their own. Colours are Okabe and Ito's, which colour-blind readers tell apart; patterns and markers tell the same in grey.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "report/study_impl.h"

typedef struct chart {
    const ls_study *study;
    const ls_series *series;
    const char *name;    // of its files
    int *count, counts;  // the different numbers of workers, ascending
    FILE *script, *data;
    int points;  // rows written to `data`
} chart;

// --- what all charts share -------------------------------------------------------------------------------------------

static const char *const colours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442"};
static const int patterns[] = {3, 4, 2, 5, 1, 6, 7}, markers[] = {7, 5, 9, 11, 13, 4, 8};
enum { STYLES = sizeof colours / sizeof colours[0] };

// A text between gnuplot's single quotes, in which only the quote itself means anything.
static void quoted(FILE *out, const char *text) {
    fputc('\'', out);
    for (const char *p = text; *p; p++) {
        if (*p == '\'') fputc('\'', out);
        fputc((unsigned char)*p < ' ' ? ' ' : *p, out);
    }
    fputc('\'', out);
}

static void line_of_data(chart *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void line_of_data(chart *c, const char *format, ...) {
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

static int position(const chart *c, int workers) {
    int i = 0;
    while (c->count[i] != workers) i++;
    return i;
}

static void begin_script(chart *c, const char *xlabel, const char *ylabel) {
    fprintf(c->script,
            "# 'gnuplot %s.gp' in this folder draws %s.svg and %s.png from %s.dat.\n"
            "# It is yours to change; a new report into the same folder writes it again.\n"
            "set encoding utf8\n"
            "set border 3 linecolor rgb '#555555'\n"
            "set tics nomirror out\n"
            "set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1 dashtype 1\n"
            "set key tmargin left Left reverse samplen 2.5 width 1\n"
            "set xlabel '%s'\nset ylabel '%s'\n",
            c->name, c->name, c->name, c->name, xlabel, ylabel);
    for (int i = 0; i < STYLES; i++)
        fprintf(c->script, "set style line %d linecolor rgb '%s' linewidth 2 pointtype %d pointsize 1.1 dashtype 1\n",
                i + 1, colours[i], markers[i]);
    fprintf(c->script, "set style line 10 linecolor rgb '#777777' linewidth 1.5 dashtype (8,5)\n");
}

// The plot command is in the variable-free part before this: both pictures come from it.
static void end_script(chart *c) {
    int height = 360 + (c->series->count > 2 ? 18 * (c->series->count - 2) : 0);  // names need room
    fprintf(c->script,
            "set terminal svg noenhanced size 560,%d dynamic background rgb 'white' font 'sans-serif,15'\n"
            "set output '%s.svg'\n"
            "@PLOT\n"
            "if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
            "    set terminal pngcairo noenhanced size 1680,%d fontscale 2.6 linewidth 2.7 pointscale 2.7 font "
            "'sans,13'\n"
            "} else {\n"
            "    set terminal png noenhanced size 1680,%d\n"
            "}\n"
            "set output '%s.png'\n"
            "@PLOT\n"
            "set output\n",
            height, c->name, 3 * height, 3 * height, c->name);
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

// --- bars over the number of workers ---------------------------------------------------------------------------------

// Expects data as "workers position value [least most]".
static void plot_bars(chart *c, int spread) {
    int n = c->series->count;
    double width = 0.8 / n;
    category_axis(c);
    fprintf(c->script, "set yrange [0:*]\nset offsets 0, 0, graph 0.06, 0\nset boxwidth %.4g\nPLOT = \"plot ",
            width * 0.92);
    for (int s = 0; s < n; s++) {
        double shift = (s - (n - 1) / 2.0) * width;
        fprintf(c->script,
                "%s'%s.dat' index %d using ($2%+.4g):3 with boxes linecolor rgb '%s' fillstyle pattern %d border "
                "linecolor rgb '#333333' title NAME%d",
                s ? ", " : "", c->name, s, shift, colours[s % STYLES], patterns[s % STYLES], s + 1);
        if (spread)
            fprintf(c->script,
                    ", '' index %d using ($2%+.4g):4:(0):($5-$4) with vectors heads size graph 0.007,90 linecolor rgb "
                    "'#000000' linewidth 1.5 notitle",
                    s, shift);
    }
    fprintf(c->script, "\"\n");
}

static void series_names(chart *c) {
    for (int s = 0; s < c->series->count; s++) {
        fprintf(c->script, "NAME%d = ", s + 1);
        quoted(c->script, c->series->name[s]);
        fputc('\n', c->script);
    }
}

static void epoch_time(chart *c) {
    fprintf(c->data, "# workers position seconds least most: one epoch, median and range of the repeats\n");
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] == s)
                line_of_data(c, "%d %d %.6g %.6g %.6g", r->workers, position(c, r->workers), r->epoch_seconds,
                             r->epoch_seconds_least, r->epoch_seconds_most);
        }
    }
    begin_script(c, "workers", "time per epoch (s)");
    series_names(c);
    plot_bars(c, 1);
}

static void throughput(chart *c) {
    fprintf(c->data, "# workers position images_per_second\n");
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] == s)
                line_of_data(c, "%d %d %.6g", r->workers, position(c, r->workers), r->images_per_second);
        }
    }
    begin_script(c, "workers", "throughput (images/s)");
    series_names(c);
    plot_bars(c, 0);
}

// --- lines over the number of workers --------------------------------------------------------------------------------

// The data's columns are "workers value"; `first` is what stands before the series in the plot command, or "".
static void plot_lines(chart *c, const char *first) {
    fprintf(c->script, "PLOT = \"plot %s", first);
    for (int s = 0; s < c->series->count; s++)
        fprintf(c->script, "%s'%s.dat' index %d using 1:2 with linespoints linestyle %d title NAME%d",
                s || first[0] ? ", " : "", c->name, s, s % STYLES + 1, s + 1);
    fprintf(c->script, "\"\n");
}

// Workers of the row that the speedup is relative to.
static double base_workers(const ls_study_row *r) { return r->workers * r->efficiency / r->speedup; }

// One number of workers alone has nothing to be compared with.
static int scaled(const chart *c, const ls_study_row *r) {
    return c->counts > 1 && r->speedup > 0 && r->efficiency > 0;
}

static void speedup(chart *c) {
    double least = 1, most = 1, base = 0;
    int same_base = 1;
    fprintf(c->data, "# workers speedup ideal\n");
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] != s || !scaled(c, r)) continue;
            double from = base_workers(r), ideal = r->workers / from;
            line_of_data(c, "%d %.6g %.6g", r->workers, r->speedup, ideal);
            same_base &= base == 0 || fabs(from - base) < 0.01 * base;
            base = base == 0 || from < base ? from : base;
            least = fmin(least, r->speedup);
            most = fmax(most, fmax(r->speedup, ideal));
        }
    }
    char label[64], ideal[160];
    if (same_base && base > 0)
        snprintf(label, sizeof label, "speedup over %.0f worker%s", base, base > 1.5 ? "s" : "");
    else
        snprintf(label, sizeof label, "speedup over the fewest workers");
    begin_script(c, "workers", label);
    series_names(c);
    log_axis(c);
    fprintf(c->script, "set logscale y 2\nset yrange [%.4g:%.4g]\n", least / 1.15, most * 1.15);
    snprintf(ideal, sizeof ideal, "x / %.6g with lines linestyle 10 title 'ideal'", base > 0 ? base : 1);
    plot_lines(c, ideal);
}

static void efficiency(chart *c) {
    double most = 100;
    fprintf(c->data, "# workers efficiency_percent\n");
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] != s || !scaled(c, r)) continue;
            line_of_data(c, "%d %.6g", r->workers, 100 * r->efficiency);
            most = fmax(most, 100 * r->efficiency);
        }
    }
    begin_script(c, "workers", "parallel efficiency (%)");
    series_names(c);
    log_axis(c);
    fprintf(c->script, "set yrange [0:%.4g]\n", most * 1.05);
    plot_lines(c, "100 with lines linestyle 10 title 'ideal'");
}

static void accuracy(chart *c) {
    double least = 100, most = 0;
    fprintf(c->data, "# workers test_accuracy_percent\n");
    for (int s = 0; s < c->series->count; s++) {
        next_series(c, s);
        for (int i = 0; i < c->study->row_count; i++) {
            const ls_study_row *r = &c->study->rows[i];
            if (c->series->of[i] != s || !ls__row_evaluated(r)) continue;
            line_of_data(c, "%d %.6g", r->workers, 100 * r->test_accuracy);
            least = fmin(least, 100 * r->test_accuracy);
            most = fmax(most, 100 * r->test_accuracy);
        }
    }
    begin_script(c, "workers", "test accuracy (%)");
    series_names(c);
    log_axis(c);
    // Around the values, yet never so near that noise looks like a cliff.
    double margin = fmax(1, 0.3 * (most - least));
    fprintf(c->script, "set yrange [%.4g:%.4g]\n", fmax(0, least - margin), fmin(100, most + margin));
    plot_lines(c, "");
}

// --- where a step's time goes ----------------------------------------------------------------------------------------

static char letter(int s) { return (char)('A' + s % 26); }

// Whether the series' names fit below their bars: all of these have some 40 characters for themselves.
static int names_fit(const chart *c) {
    int bars = c->series->count - 1;  // the gaps
    for (int i = 0; i < c->study->row_count; i++) bars += c->series->of[i] >= 0;
    for (int s = 0; s < c->series->count; s++) {
        int own = 1;
        for (int i = 0; i < c->study->row_count; i++) own += c->series->of[i] == s;
        if ((int)strlen(c->series->name[s]) * bars > 40 * own) return 0;
    }
    return 1;
}

static void phases(chart *c) {
    static const char *const name[] = {"load", "forward", "backward", "exchange", "wait", "update", "serial"};
    static const int colour[] = {4, 0, 2, 3, 5, 6, 1}, pattern[] = {2, 3, 4, 1, 6, 5, 7};
    enum { PHASES = sizeof name / sizeof name[0] };
    fprintf(c->data, "# workers position load forward backward exchange wait update serial: milliseconds per step\n");
    begin_script(c, "workers", "time per step (ms)");
    series_names(c);
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
            line_of_data(c, "%d %g %.6g %.6g %.6g %.6g %.6g %.6g %.6g", r->workers, at, 1e3 * r->load, 1e3 * r->forward,
                         1e3 * r->backward, 1e3 * r->exchange, isfinite(r->wait) ? 1e3 * r->wait : 0, 1e3 * r->update,
                         isfinite(r->serial) ? 1e3 * r->serial : 0);
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
    fprintf(c->script, "set key outside right center vertical Left reverse invert samplen 1.5\nPLOT = \"plot ");
    for (int p = 0; p < PHASES; p++) {
        char below[64] = "0";  // the phases under this one
        for (int q = 0; q < p; q++) snprintf(below + strlen(below), sizeof below - strlen(below), "+$%d", q + 3);
        fprintf(c->script,
                "%s'%s.dat' using 2:(%s):($2-0.35):($2+0.35):(%s):(%s+$%d) with boxxyerror linecolor rgb '%s' "
                "fillstyle pattern %d border linecolor rgb '#333333' title '%s'",
                p ? ", " : "", c->name, below, below, below, p + 3, colours[colour[p]], pattern[p], name[p]);
    }
    fprintf(c->script, "\"\n");
}

// --- files and gnuplot -----------------------------------------------------------------------------------------------

static void (*const draw[])(chart *) = {epoch_time, throughput, speedup, efficiency, phases, accuracy};
const ls_chart ls__charts[] = {
    {"epoch-time", "Time per epoch."},
    {"throughput", "Throughput: training images per second."},
    {"speedup", "Speedup, and what it would be if twice the workers took half the time."},
    {"efficiency", "Parallel efficiency: speedup over the ideal speedup."},
    {"phases",
     "Where the time of one step goes, as the mean over replicas. Between hosts, waiting for a message counts as "
     "exchange."},
    {"accuracy", "Accuracy on the test set after training."},
    {.name = NULL},
};

static int ascending(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static ls_status cannot(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a folder that can be written to with --out", path,
                   strerror(errno));
}

static ls_status open_file(const char *folder, const char *name, const char *suffix, FILE **out) {
    char path[4096];
    snprintf(path, sizeof path, "%s/charts/%s.%s", folder, name, suffix);
    *out = fopen(path, "wx");  // whatever stood there was removed: a link to somewhere else is not followed
    return *out ? LS_OK : cannot(path);
}

static ls_status close_file(const char *folder, const char *name, FILE **file) {
    int bad = ferror(*file);
    bad |= fclose(*file) != 0;
    *file = NULL;
    return bad ? LS_FAIL(LS_STATUS_IO, "cannot write the files of %s/charts/%s: %s", folder, name, strerror(errno))
               : LS_OK;
}

// What an earlier report left would not fit the new numbers.
static void remove_old(const char *folder, const char *name) {
    static const char *const suffix[] = {"gp", "dat", "svg", "png"};
    for (int i = 0; i < 4; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/charts/%s.%s", folder, name, suffix[i]);
        unlink(path);
    }
}

// A chart without a single point is left out, as accuracy is where nothing was evaluated. *written tells.
static ls_status write_files(chart *c, int which, const char *folder, int *written) {
    c->name = ls__charts[which].name;
    c->points = 0;
    remove_old(folder, c->name);
    LS_TRY(open_file(folder, c->name, "gp", &c->script));
    ls_status status = open_file(folder, c->name, "dat", &c->data);
    if (status != LS_OK) {
        fclose(c->script);
        return status;
    }
    draw[which](c);
    end_script(c);
    status = close_file(folder, c->name, &c->script);
    ls_status data = close_file(folder, c->name, &c->data);
    if (status == LS_OK) status = data;
    *written = status == LS_OK && c->points > 0;
    if (!*written) remove_old(folder, c->name);
    return status;
}

static ls_status all_files(chart *c, const char *folder, int *written) {
    const ls_study *study = c->study;
    LS_TRY(ls_calloc(study->row_count, sizeof c->count[0], &c->count));
    for (int i = 0; i < study->row_count; i++)
        if (c->series->of[i] >= 0) c->count[c->counts++] = study->rows[i].workers;
    qsort(c->count, (size_t)c->counts, sizeof c->count[0], ascending);
    int unique = 0;
    for (int i = 0; i < c->counts; i++)
        if (i == 0 || c->count[i] != c->count[i - 1]) c->count[unique++] = c->count[i];
    c->counts = unique;
    for (int i = 0; ls__charts[i].name; i++) {
        if (unique == 0)
            remove_old(folder, ls__charts[i].name);
        else
            LS_TRY(write_files(c, i, folder, &written[i]));
    }
    return LS_OK;
}

ls_status ls_study_write_charts(const ls_study *study, const char *folder) {
    char path[4096];
    int written[sizeof ls__charts / sizeof ls__charts[0]] = {0};
    snprintf(path, sizeof path, "%s/charts", folder);
    struct stat there;
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return cannot(path);
    if (lstat(path, &there) != 0 || !S_ISDIR(there.st_mode)) {
        errno = ENOTDIR;
        return cannot(path);
    }
    ls_series series;
    chart c = {.study = study, .series = &series};
    ls_status status = ls__series_create(study, &series);
    if (status == LS_OK) status = all_files(&c, folder, written);
    free(c.count);
    ls__series_destroy(&series);
    for (int i = 0; status == LS_OK && ls__charts[i].name; i++)
        if (written[i]) status = ls__gnuplot(path, ls__charts[i].name);
    return status;
}
