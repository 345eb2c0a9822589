// A study as one page that needs nothing but itself: no scripts, nothing loaded from elsewhere.
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/output.h"
#include "report/study_impl.h"

typedef struct page {
    FILE *out;
    const ls_study *study;
    const char *folder;
    const ls_statements *words;
    const ls_series *series;
    int compared;  // some rows are compared with others
    int alone;     // one configuration is all there is
} page;

// --- tables ----------------------------------------------------------------------------------------------------------

// A column is of numbers, aligned at the decimal point since all have as many decimals, or of whatever `cell` writes.
typedef struct column {
    const char *head;
    double (*value)(const ls_study_row *r);  // NAN: none
    int decimals;                            // < 0: as many as the smallest number needs
    void (*cell)(FILE *out, const ls_study_row *r);
    const char *missing;  // instead of NAN; NULL: a dash
} column;

static void none(FILE *out) { fputs("\xE2\x80\x93", out); }  // a dash

// With as many decimals as leave about four digits.
static int decimals(double x) { return x >= 100 ? 1 : x >= 1 ? 2 : x >= 0.01 ? 4 : 5; }

static double nodes(const ls_study_row *r) { return r->nodes; }
static double per_node(const ls_study_row *r) { return r->workers_per_node; }
static double read_time(const ls_study_row *r) { return r->read_seconds; }
static double step(const ls_study_row *r) { return r->step_seconds; }
static double epoch(const ls_study_row *r) { return r->epoch_seconds; }
static double total(const ls_study_row *r) { return r->total_seconds; }
static double loss(const ls_study_row *r) { return ls__row_evaluated(r) ? r->test_loss : NAN; }
static double accuracy(const ls_study_row *r) { return ls__row_evaluated(r) ? 100 * r->test_accuracy : NAN; }
static double top_5(const ls_study_row *r) { return r->test_top_5 > 0 ? 100 * r->test_top_5 : NAN; }
static double area(const ls_study_row *r) { return r->label_count ? r->test_area : NAN; }
static double until(const ls_study_row *r) { return r->until_seconds; }
static double batch(const ls_study_row *r) { return (double)r->global_batch; }
static double images(const ls_study_row *r) { return r->images_per_second; }
static double speedup(const ls_study_row *r) { return r->speedup > 0 ? r->speedup : NAN; }
static double efficiency(const ls_study_row *r) { return r->efficiency > 0 ? 100 * r->efficiency : NAN; }
static double memory(const ls_study_row *r) { return (double)r->peak_rss_bytes / 1e6; }
static double planned(const ls_study_row *r) { return r->planned_bytes > 0 ? (double)r->planned_bytes / 1e6 : NAN; }
static double runs(const ls_study_row *r) { return r->repeats; }
static double load(const ls_study_row *r) { return 1e3 * r->load; }
static double forward(const ls_study_row *r) { return 1e3 * r->forward; }
static double backward(const ls_study_row *r) { return 1e3 * r->backward; }
static double exchange(const ls_study_row *r) { return 1e3 * r->exchange; }
static double waiting(const ls_study_row *r) { return 1e3 * r->wait; }
static double update(const ls_study_row *r) { return 1e3 * r->update; }
static double serial(const ls_study_row *r) { return 1e3 * r->serial; }
static double step_ms(const ls_study_row *r) { return 1e3 * r->step_seconds; }
static double lost_compute(const ls_study_row *r) { return 100 * r->loss.compute; }
static double lost_exchange(const ls_study_row *r) { return 100 * r->loss.exchange; }
static double lost_wait(const ls_study_row *r) { return 100 * r->loss.wait; }
static double lost_input(const ls_study_row *r) { return 100 * r->loss.input; }
static double lost_serial(const ls_study_row *r) { return 100 * r->loss.serial; }
static double unexplained(const ls_study_row *r) { return 100 * r->loss.unexplained; }

static void workers(FILE *out, const ls_study_row *r) {
    fprintf(out, "%d%s", r->workers, r->oversubscribed ? "<sup title=\"fewer cores than threads\">*</sup>" : "");
}

static void lanes(FILE *out, const ls_study_row *r) {
    fprintf(out, "%d \xC3\x97 %d", r->replicas_per_worker, r->threads_per_replica);
}

static void range(FILE *out, const ls_study_row *r) {
    int n = decimals(r->epoch_seconds_most);
    if (r->repeats < 2)
        none(out);
    else
        fprintf(out, "%.*f to %.*f", n, r->epoch_seconds_least, n, r->epoch_seconds_most);
}

static void digest(FILE *out, const ls_study_row *r) {
    ls__html(out, "%.8s%s", r->digest[0] ? r->digest : "stopped",
             r->digest_differs ? " differs"
             : r->by_timing    ? " by timing"
                               : "");
}

static void device(FILE *out, const ls_study_row *r) { ls__html(out, "%s", r->device); }

static const column results[] = {{.head = "Nodes", .value = nodes, .decimals = 0},
                                 {.head = "Workers per node", .value = per_node, .decimals = 0},
                                 {.head = "Workers", .cell = workers},
                                 {.head = "Time to read (s)", .value = read_time, .decimals = 2},
                                 {.head = "Time per gradient update (s)", .value = step, .decimals = -1},
                                 {.head = "Time per epoch (s)", .value = epoch, .decimals = -1},
                                 {.head = "Test loss", .value = loss, .decimals = 4},
                                 {.head = "Test accuracy (%)", .value = accuracy, .decimals = 2},
                                 {.head = "Test top-5 accuracy (%)", .value = top_5, .decimals = 2},
                                 {.head = "Mean area under the ROC curves", .value = area, .decimals = 4},
                                 {.head = "Training time to the accuracy asked for (s)", .value = until, .decimals = 2},
                                 {.head = "Total run time (s)", .value = total, .decimals = 2},
                                 {.head = NULL}};
static const column scaling[] = {{.head = "Workers", .cell = workers},
                                 {.head = "Replicas \xC3\x97 threads", .cell = lanes},
                                 {.head = "Global batch", .value = batch, .decimals = 0},
                                 {.head = "Time per epoch (s)", .value = epoch, .decimals = -1},
                                 {.head = "Range over repeats (s)", .cell = range},
                                 {.head = "Images per second", .value = images, .decimals = -1},
                                 {.head = "Speedup", .value = speedup, .decimals = 2},
                                 {.head = "Efficiency (%)", .value = efficiency, .decimals = 1},
                                 {.head = "Runs", .value = runs, .decimals = 0},
                                 {.head = NULL}};
static const column outcome[] = {{.head = "Workers", .cell = workers},
                                 {.head = "Global batch", .value = batch, .decimals = 0},
                                 {.head = "Peak memory (MB)", .value = memory, .decimals = 0},
                                 {.head = "Planned (MB)", .value = planned, .decimals = 0, .missing = "unknown"},
                                 {.head = "Weights digest", .cell = digest},
                                 {.head = "Kernels and instruction set", .cell = device},
                                 {.head = NULL}};
static const column phases[] = {{.head = "Workers", .cell = workers},
                                {.head = "Load", .value = load, .decimals = 2},
                                {.head = "Forward", .value = forward, .decimals = 2},
                                {.head = "Backward", .value = backward, .decimals = 2},
                                {.head = "Exchange", .value = exchange, .decimals = 2},
                                {.head = "Wait", .value = waiting, .decimals = 2, .missing = "unknown"},
                                {.head = "Update", .value = update, .decimals = 2},
                                {.head = "Serial", .value = serial, .decimals = 2, .missing = "unknown"},
                                {.head = "A step", .value = step_ms, .decimals = 2},
                                {.head = NULL}};
static const column losses[] = {
    {.head = "Workers", .cell = workers},
    {.head = "Efficiency", .value = efficiency, .decimals = 1},
    {.head = "Computing slower", .value = lost_compute, .decimals = 1, .missing = "unknown"},
    {.head = "Exchange not hidden", .value = lost_exchange, .decimals = 1, .missing = "unknown"},
    {.head = "Waiting for the slowest", .value = lost_wait, .decimals = 1, .missing = "unknown"},
    {.head = "Input", .value = lost_input, .decimals = 1, .missing = "unknown"},
    {.head = "Serial parts", .value = lost_serial, .decimals = 1, .missing = "unknown"},
    {.head = "Unexplained", .value = unexplained, .decimals = 1, .missing = "unknown"},
    {.head = NULL}};

static int column_decimals(const page *p, const column *c) {
    double least = INFINITY;
    if (c->decimals >= 0) return c->decimals;
    for (int i = 0; i < p->study->row_count; i++) {
        double x = p->series->of[i] >= 0 ? fabs(c->value(&p->study->rows[i])) : NAN;
        if (isfinite(x) && x > 0) least = fmin(least, x);
    }
    return isfinite(least) ? decimals(least) : 2;
}

static void cell(const page *p, const column *c, const ls_study_row *r) {
    if (c->cell) {
        c->cell(p->out, r);
        return;
    }
    double x = c->value(r);
    int n = column_decimals(p, c);
    if (isfinite(x))
        fprintf(p->out, "%.*f", n, fabs(x) < 0.5 * pow(10, -n) ? 0.0 : x);  // no "-0.0"
    else if (c->missing)
        fputs(c->missing, p->out);
    else
        none(p->out);
}

// Whether there is anything in it: a column of dashes says nothing.
static int is_there(const page *p, const column *c) {
    if (c->cell || c->missing) return 1;
    for (int i = 0; i < p->study->row_count; i++)
        if (p->series->of[i] >= 0 && isfinite(c->value(&p->study->rows[i]))) return 1;
    return 0;
}

static void table(const page *p, const column *columns, const char *caption) {
    FILE *out = p->out;
    fprintf(out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n<caption>%s</caption>\n",
            caption, caption);
    fputs("<thead><tr><th class=\"name\" scope=\"col\">Network</th>", out);
    for (const column *c = columns; c->head; c++)
        if (is_there(p, c)) fprintf(out, "<th scope=\"col\">%s</th>", c->head);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int i = 0; i < p->study->row_count; i++) {
        if (p->series->of[i] < 0) continue;
        fputs("<tr><td class=\"name\">", out);
        ls__html(out, "%s", p->series->name[p->series->of[i]]);
        fputs("</td>", out);
        for (const column *c = columns; c->head; c++) {
            if (!is_there(p, c)) continue;
            fputs("<td>", out);
            cell(p, c, &p->study->rows[i]);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
}

static void layers(const page *p, const ls_study_row *row) {
    if (!row->layer_count) return;
    fputs(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"The slowest "
        "layers\">\n<table>\n<caption>The slowest "
        "layers: milliseconds of a recorded step, all replicas together, and the share of all "
        "layers</caption>\n<thead><tr><th "
        "class=\"name\" scope=\"col\">Layer and pass</th><th scope=\"col\">Time (ms)</th><th scope=\"col\">Share "
        "(%)</th></tr></thead>\n<tbody>\n",
        p->out);
    for (int i = 0; i < row->layer_count; i++) {
        fputs("<tr><td class=\"name\">", p->out);
        ls__html(p->out, "%s", row->layer[i].name);
        fprintf(p->out, "</td><td>%.3f</td><td>%.1f</td></tr>\n", 1e3 * row->layer[i].seconds,
                100 * row->layer[i].share);
    }
    fputs("</tbody>\n</table></div>\n", p->out);
}

// Of one run; of several their curves are in the chart.
static void labels(const page *p) {
    if (p->alone) ls__labels_table(p->out, p->study, &p->study->rows[0]);
}

static void tables(const page *p) {
    int shared = 0;
    if (p->series->count == 0) return;
    fputs("<h2>Numbers</h2>\n", p->out);
    table(p, results, "What each configuration took, and what came out");
    labels(p);
    if (!p->alone) table(p, scaling, p->compared ? "Scaling" : "Speed");
    table(p, phases, "Where the time of one step goes, in milliseconds, as the mean over replicas");
    if (p->alone) layers(p, &p->study->rows[0]);
    if (p->compared)
        table(p, losses,
              "Where the efficiency goes, as a share of the epoch time in %: what each cause takes beyond its share of "
              "the ideal");
    table(p, outcome,
          "Memory of the largest worker, and the weights: their digest depends on the kernels' instruction set");
    for (int i = 0; i < p->study->row_count; i++)
        shared |= p->study->rows[i].oversubscribed && p->study->rows[i].repeats;
    fprintf(
        p->out,
        "<p class=\"soft\">Times are medians over repeats; a run's first epoch, which also warms caches and memory, is "
        "set apart where there are several. The time per gradient update is that of an epoch over its steps. Between "
        "hosts, waiting for a message counts as exchange; a negative loss is a gain.%s</p>\n",
        shared ? " * Fewer cores than threads: such a row says nothing about scaling." : "");
}

// --- the other parts -------------------------------------------------------------------------------------------------

static int statements(const page *p, ls_word_kind kind, const char *begin, const char *end) {
    int listed = 0;
    for (int i = 0; i < p->words->count; i++) {
        if (p->words->list[i].kind != kind) continue;
        listed++;
        fputs(begin, p->out);
        ls__html(p->out, "%s", p->words->list[i].text);
        fputs(end, p->out);
    }
    return listed;
}

static void say(const page *p) {
    int findings = 0;
    for (int i = 0; i < p->words->count; i++) findings += p->words->list[i].kind == LS_WORD_FINDING;
    statements(p, LS_WORD_WARNING, "<p class=\"warn\">", "</p>\n");
    if (findings) {
        fputs("<h2>What the numbers say</h2>\n<ul>\n", p->out);
        statements(p, LS_WORD_FINDING, "<li>", "</li>\n");
        fputs("</ul>\n", p->out);
    } else if (p->series->count > 0) {
        fputs("<h2>How far to trust this</h2>\n", p->out);
    }
    statements(p, LS_WORD_CAVEAT, "<p class=\"soft\">", "</p>\n");
    if (p->alone || p->series->count == 0) return;
    fputs("<h2>What is compared</h2>\n", p->out);
    statements(p, LS_WORD_MEANING, "<p>", "</p>\n");
}

static void question(const page *p) {
    int least = 0, most = 0, several = 0;
    const ls_study *s = p->study;
    for (int i = 0; i < s->row_count; i++) {
        if (s->rows[i].repeats == 0) continue;
        least = least == 0 || s->rows[i].workers < least ? s->rows[i].workers : least;
        most = s->rows[i].workers > most ? s->rows[i].workers : most;
        several |= strcmp(s->rows[i].model, s->rows[0].model) != 0;
    }
    fputs("<h1>", p->out);
    ls__html(p->out, "%s", s->title && s->title[0] ? s->title : "A study");
    fputs("</h1>\n", p->out);
    if (most == 0) return;  // nothing ran
    fputs("<p class=\"lead\">", p->out);
    const char *model = several ? "these networks" : s->rows[0].model;
    if (p->compared)
        ls__html(p->out,
                 "How much faster does the training of %s get from %d to %d workers, and where does the rest go?",
                 model, least, most);
    else if (p->alone)
        ls__html(p->out, "How did the training of %s go on %d worker%s, and where did the time go?", model, most,
                 most == 1 ? "" : "s");
    else
        ls__html(p->out, "How do these ways to train %s differ?", model);
    fputs("</p>\n", p->out);
}

// How many runs the lines at points and bars span.
static void spans(const page *p) {
    int least = 0, most = 0;
    for (int i = 0; i < p->study->row_count; i++) {
        int n = p->study->rows[i].repeats;
        if (!n) continue;
        least = !least || n < least ? n : least;
        most = n > most ? n : most;
    }
    if (most < 2) return;
    fprintf(p->out, ". Lines at points and bars span the repeats, ");
    if (least == most)
        fprintf(p->out, "%d each", most);
    else
        fprintf(p->out, "%d to %d each", least, most);
}

static int has_range(const char *name) {
    static const char *const with[] = {"epoch-time", "throughput", "speedup", "efficiency"};
    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++)
        if (strcmp(with[i], name) == 0) return 1;
    return 0;
}

static void figure(const page *p, const ls_chart *chart, const char *path, int index) {
    char prefix[16];
    snprintf(prefix, sizeof prefix, "c%d-", index);
    fputs("<figure>\n", p->out);
    ls__html_svg(p->out, path, prefix, chart->caption);
    fprintf(p->out, "\n<figcaption>%s", chart->caption);
    if (has_range(chart->name)) spans(p);
    fputs(". ", p->out);
    static const char *const files[][2] = {{"svg", "SVG"}, {"png", "PNG"}, {"dat", "data"}, {"gp", "script"}};
    for (int i = 0; i < 4; i++)
        fprintf(p->out, "%s<a href=\"charts/%s.%s\">%s</a>", i ? ", " : "", chart->name, files[i][0], files[i][1]);
    fputs("</figcaption>\n</figure>\n", p->out);
}

static void charts(const page *p) {
    int shown = 0;
    for (int i = 0; ls__charts[i].name; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/charts/%s.svg", p->folder, ls__charts[i].name);
        FILE *there = ls_input_open(path);
        if (!there) continue;
        fclose(there);
        if (!shown++) fputs("<h2>Charts</h2>\n<div class=\"charts\">\n", p->out);
        figure(p, &ls__charts[i], path, i);
    }
    if (shown)
        fputs("</div>\n", p->out);
    else
        fputs(
            "<p class=\"soft\">There are no charts: gnuplot was not found. Install it (Debian: gnuplot-nox) and run "
            "<code>lockstep report</code> on this folder; nothing is measured again.</p>\n",
            p->out);
}

static void item(const page *p, const char *name, const char *value) {
    if (!value[0]) return;
    fprintf(p->out, "<dt>%s</dt><dd>", name);
    ls__html(p->out, "%s", value);
    fputs("</dd>\n", p->out);
}

// What the rows of each series were trained with.
static void recipes(const page *p) {
    char before[640] = "";
    for (int s = 0; s < p->series->count; s++) {
        int i = 0;
        while (p->series->of[i] != s) i++;
        const ls_study_row *r = &p->study->rows[i];
        char text[640], rate[64] = "";
        int grows = r->compared == LS_COMPARED_WEAK || r->compared == LS_COMPARED_BATCH;
        if (isfinite(r->rate))
            snprintf(rate, sizeof rate, ", learning rate up to %.4g%s", r->rate, grows ? " there" : "");
        snprintf(
            text, sizeof text,
            "%s on %s (%lld samples, %lld for the test): %d epoch%s, %s%lld%s in micro-batches of %lld, %s%s%s%s, %s, "
            "%s, seed %lld",
            r->model, r->data, (long long)r->train_count, (long long)r->test_count, r->epochs,
            r->epochs == 1 ? "" : "s", grows ? "a batch of " : "global batch ",
            (long long)(grows ? r->global_batch / r->workers : r->global_batch), grows ? " for each worker" : "",
            (long long)r->micro_batch, r->optimizer, rate, r->recipe[0] ? ", " : "", r->recipe, r->precision,
            r->strategy, (long long)r->seed);
        if (strcmp(text, before) != 0) item(p, "Recipe", text);  // they may differ in the number of nodes alone
        memcpy(before, text, sizeof before);
    }
}

static void setup(const page *p) {
    const ls_study *s = p->study;
    if (s->row_count == 0) return;
    fputs("<h2>Set-up</h2>\n<dl>\n", p->out);
    item(p, "Host", s->host);
    item(p, "Processor", s->cpu);
    item(p, "Machine", s->machine);
    item(p, "Versions", s->versions);
    item(p, "Date", s->dates);
    recipes(p);
    fputs("</dl>\n", p->out);
    if (!s->commands || !s->commands[0]) return;
    fputs("<h2>To do it again</h2>\n<pre>", p->out);
    ls__html(p->out, "%s", s->commands);
    fputs("</pre>\n", p->out);
}

static void body(const page *p) {
    fputs(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<title>",
        p->out);
    ls__html(p->out, "%s", p->study->title && p->study->title[0] ? p->study->title : "A study");
    fprintf(p->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", ls__html_style);
    question(p);
    say(p);
    if (p->series->count > 0) charts(p);
    tables(p);
    setup(p);
    fputs(
        "<p class=\"soft end\">Made by Lockstep from the records of the runs; the same numbers are in <a "
        "href=\"results.csv\">results.csv</a> and <a "
        "href=\"results.md\">results.md</a>.</p>\n</main>\n</body>\n</html>\n",
        p->out);
}

static ls_status write_to(page *p, const char *path) {
    ls_output output;
    if (ls_output_open(path, &output) != 0)
        return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a folder that can be written to with --out", path,
                       strerror(errno));
    p->out = output.file;
    body(p);
    if (ls_output_close(&output, path, 1) != 0)
        return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    return LS_OK;
}

ls_status ls_study_write_page(const ls_study *study, const char *folder) {
    char path[4096];
    ls_statements words;
    ls_series series;
    snprintf(path, sizeof path, "%s/index.html", folder);
    LS_TRY(ls__study_words(study, &words));
    ls_status status = ls__series_create(study, &series);
    page p = {.study = study, .folder = folder, .words = &words, .series = &series, .alone = study->row_count == 1};
    for (int i = 0; i < study->row_count; i++) p.compared |= study->rows[i].base >= 0;
    if (status == LS_OK) status = write_to(&p, path);
    ls__series_destroy(&series);
    ls__statements_free(&words);
    return status;
}
