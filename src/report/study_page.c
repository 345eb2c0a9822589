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
    const char *words;
} page;

// --- tables ----------------------------------------------------------------------------------------------------------

typedef struct column {
    const char *head;
    void (*cell)(FILE *out, const ls_study_row *r);
} column;

static void none(FILE *out) { fputs("\xE2\x80\x93", out); }  // a dash

static void number(FILE *out, double x, int decimals, const char *unit) {
    if (isfinite(x))
        fprintf(out, "%.*f%s", decimals, x, unit);
    else
        none(out);
}

// With as many decimals as leave about four digits.
static int decimals(double x) { return x >= 100 ? 1 : x >= 1 ? 2 : x >= 0.01 ? 4 : 5; }

static void nodes(FILE *out, const ls_study_row *r) { fprintf(out, "%d", r->nodes); }
static void per_node(FILE *out, const ls_study_row *r) { fprintf(out, "%d", r->workers_per_node); }
static void workers(FILE *out, const ls_study_row *r) { fprintf(out, "%d", r->workers); }
static void read_time(FILE *out, const ls_study_row *r) { number(out, r->read_seconds, 2, ""); }
static void step(FILE *out, const ls_study_row *r) { number(out, r->step_seconds, decimals(r->step_seconds), ""); }
static void epoch(FILE *out, const ls_study_row *r) { number(out, r->epoch_seconds, decimals(r->epoch_seconds), ""); }
static void total(FILE *out, const ls_study_row *r) { number(out, r->total_seconds, 2, ""); }
static void loss(FILE *out, const ls_study_row *r) { number(out, ls__row_evaluated(r) ? r->test_loss : NAN, 4, ""); }

static void accuracy(FILE *out, const ls_study_row *r) {
    number(out, ls__row_evaluated(r) ? 100 * r->test_accuracy : NAN, 2, "");
}

static void lanes(FILE *out, const ls_study_row *r) {
    fprintf(out, "%d \xC3\x97 %d", r->replicas_per_worker, r->threads_per_replica);
}

static void batch(FILE *out, const ls_study_row *r) { fprintf(out, "%lld", (long long)r->global_batch); }

static void range(FILE *out, const ls_study_row *r) {
    int n = decimals(r->epoch_seconds_most);
    if (r->repeats < 2) {
        none(out);
        return;
    }
    fprintf(out, "%.*f to %.*f", n, r->epoch_seconds_least, n, r->epoch_seconds_most);
}

static void images(FILE *out, const ls_study_row *r) {
    number(out, r->images_per_second, r->images_per_second < 100, "");
}
static void speedup(FILE *out, const ls_study_row *r) { number(out, r->speedup > 0 ? r->speedup : NAN, 2, ""); }

static void efficiency(FILE *out, const ls_study_row *r) {
    number(out, r->efficiency > 0 ? 100 * r->efficiency : NAN, 1, "");
}

// What records before a certain version do not tell.
static void told(FILE *out, double x, int digits) {
    if (isfinite(x))
        number(out, fabs(x) < 0.05 && digits == 1 ? 0 : x, digits, "");  // no "-0.0"
    else
        fputs("unknown", out);
}

static void memory(FILE *out, const ls_study_row *r) { number(out, (double)r->peak_rss_bytes / 1e6, 0, ""); }
static void planned(FILE *out, const ls_study_row *r) {
    told(out, r->planned_bytes > 0 ? (double)r->planned_bytes / 1e6 : NAN, 0);
}
static void runs(FILE *out, const ls_study_row *r) { fprintf(out, "%d", r->repeats); }
static void digest(FILE *out, const ls_study_row *r) {
    ls__html(out, "%.8s%s", r->digest[0] ? r->digest : "stopped", r->digest_differs ? " differs" : "");
}
static void load(FILE *out, const ls_study_row *r) { number(out, 1e3 * r->load, 2, ""); }
static void forward(FILE *out, const ls_study_row *r) { number(out, 1e3 * r->forward, 2, ""); }
static void backward(FILE *out, const ls_study_row *r) { number(out, 1e3 * r->backward, 2, ""); }
static void exchange(FILE *out, const ls_study_row *r) { number(out, 1e3 * r->exchange, 2, ""); }
static void update(FILE *out, const ls_study_row *r) { number(out, 1e3 * r->update, 2, ""); }

static void waiting(FILE *out, const ls_study_row *r) { told(out, 1e3 * r->wait, 2); }
static void serial(FILE *out, const ls_study_row *r) { told(out, 1e3 * r->serial, 2); }
static void lost_compute(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.compute, 1); }
static void lost_exchange(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.exchange, 1); }
static void lost_wait(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.wait, 1); }
static void lost_input(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.input, 1); }
static void lost_serial(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.serial, 1); }
static void unexplained(FILE *out, const ls_study_row *r) { told(out, 100 * r->loss.unexplained, 1); }

static const column results[] = {{"Nodes", nodes},
                                 {"Workers per node", per_node},
                                 {"Workers", workers},
                                 {"Time to read (s)", read_time},
                                 {"Time per gradient update (s)", step},
                                 {"Time per epoch (s)", epoch},
                                 {"Test loss", loss},
                                 {"Test accuracy (%)", accuracy},
                                 {"Total run time (s)", total},
                                 {NULL, NULL}};
static const column scaling[] = {{"Workers", workers},
                                 {"Replicas \xC3\x97 threads", lanes},
                                 {"Global batch", batch},
                                 {"Time per epoch (s)", epoch},
                                 {"Range over repeats (s)", range},
                                 {"Images per second", images},
                                 {"Speedup", speedup},
                                 {"Efficiency (%)", efficiency},
                                 {"Peak memory (MB)", memory},
                                 {"Planned (MB)", planned},
                                 {"Runs", runs},
                                 {"Weights digest", digest},
                                 {NULL, NULL}};
static const column phases[] = {{"Workers", workers},   {"Load", load},         {"Forward", forward},
                                {"Backward", backward}, {"Exchange", exchange}, {"Wait", waiting},
                                {"Update", update},     {"Serial", serial},     {NULL, NULL}};
static const column losses[] = {{"Workers", workers},
                                {"Efficiency", efficiency},
                                {"Computing slower", lost_compute},
                                {"Exchange not hidden", lost_exchange},
                                {"Waiting for the slowest", lost_wait},
                                {"Input", lost_input},
                                {"Serial parts", lost_serial},
                                {"Unexplained", unexplained},
                                {NULL, NULL}};

static void table(const page *p, const ls_series *series, const column *columns, const char *caption) {
    FILE *out = p->out;
    fprintf(out,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"%s\">\n<table>\n<caption>%s</caption>\n",
            caption, caption);
    fputs("<thead><tr><th class=\"name\" scope=\"col\">Network</th>", out);
    for (const column *c = columns; c->head; c++) fprintf(out, "<th scope=\"col\">%s</th>", c->head);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int i = 0; i < p->study->row_count; i++) {
        if (series->of[i] < 0) continue;
        fputs("<tr><td class=\"name\">", out);
        ls__html(out, "%s", series->name[series->of[i]]);
        fputs("</td>", out);
        for (const column *c = columns; c->head; c++) {
            fputs("<td>", out);
            c->cell(out, &p->study->rows[i]);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
}

static void tables(const page *p, const ls_series *series) {
    if (series->count == 0) return;
    fputs("<h2>Numbers</h2>\n", p->out);
    table(p, series, results, "What each configuration took, and what came out");
    table(p, series, scaling, "Scaling: speedup and efficiency are relative to the fewest workers of the same network");
    table(p, series, phases, "Where the time of one step goes, in milliseconds, as the mean over replicas");
    table(p, series, losses,
          "Where the efficiency goes, as a share of the epoch time in %: what each cause takes beyond its share of the "
          "ideal");
    fputs(
        "<p class=\"soft\">Times are medians over repeats; a run's first epoch, which also warms caches and memory, is "
        "set apart where there are several. Between hosts, waiting for a message counts as exchange; a negative loss "
        "is "
        "a gain.</p>\n",
        p->out);
}

// --- the other parts -------------------------------------------------------------------------------------------------

// The lines of the explanation that are warnings, or those that are not.
static void statements(const page *p, int warnings) {
    int listed = 0;
    for (const char *line = p->words; *line;) {
        int length = (int)strcspn(line, "\n"), warning = strncmp(line, "! ", 2) == 0;
        if (warning == warnings && warning) {
            fputs("<p class=\"warn\">", p->out);
            ls__html(p->out, "%.*s", length - 2, line + 2);
            fputs("</p>\n", p->out);
        } else if (warning == warnings) {
            fputs(listed++ ? "<li>" : "<ul>\n<li>", p->out);
            ls__html(p->out, "%.*s", length, line);
            fputs("</li>\n", p->out);
        }
        line += length + (line[length] == '\n');
    }
    if (listed) fputs("</ul>\n", p->out);
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
    ls__html(p->out, "%s", s->title && s->title[0] ? s->title : "A scaling study");
    fputs("</h1>\n", p->out);
    if (most == 0) return;  // nothing ran
    fputs("<p class=\"lead\">", p->out);
    if (most > least)
        ls__html(p->out,
                 "How much faster does the training of %s get from %d to %d workers, and where does the rest go?",
                 several ? "these networks" : s->rows[0].model, least, most);
    else
        ls__html(p->out, "How fast does the training of %s run on %d worker%s, and where does the time go?",
                 several ? "these networks" : s->rows[0].model, most, most == 1 ? "" : "s");
    fputs("</p>\n", p->out);
}

static int repeated(const ls_study *s) {
    for (int i = 0; i < s->row_count; i++)
        if (s->rows[i].repeats > 1) return 1;
    return 0;
}

static void charts(const page *p) {
    int shown = 0;
    for (int i = 0; ls__charts[i].name; i++) {
        char path[4096], prefix[16];
        snprintf(path, sizeof path, "%s/charts/%s.svg", p->folder, ls__charts[i].name);
        snprintf(prefix, sizeof prefix, "c%d-", i);
        FILE *there = ls_input_open(path);
        if (!there) continue;
        fclose(there);
        if (!shown++) fputs("<h2>Charts</h2>\n<div class=\"charts\">\n", p->out);
        fputs("<figure>\n", p->out);
        ls__html_svg(p->out, path, prefix, ls__charts[i].caption);
        fprintf(p->out, "\n<figcaption>%s%s</figcaption>\n</figure>\n", ls__charts[i].caption,
                i == 0 && repeated(p->study) ? " The lines at the bars' ends span the repeats." : "");
    }
    if (shown)
        fputs(
            "</div>\n<p class=\"soft\">Each chart is beside this page in <code>charts/</code>, as SVG and PNG, with "
            "its "
            "gnuplot script and its data.</p>\n",
            p->out);
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
static void recipes(const page *p, const ls_series *series) {
    char before[512] = "";
    for (int s = 0; s < series->count; s++) {
        int i = 0;
        while (series->of[i] != s) i++;
        const ls_study_row *r = &p->study->rows[i];
        char text[512], batch_text[64] = "";
        if (strcmp(r->mode, "weak") != 0)
            snprintf(batch_text, sizeof batch_text, ", global batch %lld", (long long)r->global_batch);
        snprintf(text, sizeof text,
                 "%s on %s: %s scaling, %d epoch%s%s in micro-batches of %lld, %s, %s, %s, seed %lld", r->model,
                 r->data, r->mode, r->epochs, r->epochs == 1 ? "" : "s", batch_text, (long long)r->micro_batch,
                 r->optimizer, r->precision, r->strategy, (long long)r->seed);
        if (strcmp(text, before) != 0) item(p, "Recipe", text);  // they may differ in the number of nodes alone
        memcpy(before, text, sizeof before);
    }
}

static void setup(const page *p, const ls_series *series) {
    const ls_study *s = p->study;
    if (s->row_count == 0) return;
    fputs("<h2>Set-up</h2>\n<dl>\n", p->out);
    item(p, "Host", s->host);
    item(p, "Processor", s->cpu);
    item(p, "Machine", s->machine);
    item(p, "Versions", s->versions);
    recipes(p, series);
    fputs("</dl>\n", p->out);
    if (!s->commands || !s->commands[0]) return;
    fputs("<h2>To do it again</h2>\n<pre>", p->out);
    ls__html(p->out, "%s", s->commands);
    fputs("</pre>\n", p->out);
}

static ls_status body(page *p) {
    ls_series series;
    ls_status status = ls__series_create(p->study, &series);
    if (status == LS_OK) {
        fputs(
            "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
            "charset=\"utf-8\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
            "<title>",
            p->out);
        ls__html(p->out, "%s", p->study->title && p->study->title[0] ? p->study->title : "A scaling study");
        fprintf(p->out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n<main>\n", ls__html_style);
        question(p);
        statements(p, 1);
        if (series.count > 0) fputs("<h2>What the numbers say</h2>\n", p->out);
        statements(p, 0);
        if (series.count > 0) charts(p);
        tables(p, &series);
        setup(p, &series);
        fputs("<p class=\"soft end\">Made by Lockstep from the records of the runs.</p>\n</main>\n</body>\n</html>\n",
              p->out);
    }
    ls__series_destroy(&series);
    return status;
}

ls_status ls_study_write_page(const ls_study *study, const char *folder) {
    char path[4096], *words;
    snprintf(path, sizeof path, "%s/index.html", folder);
    LS_TRY(ls__study_words(study, &words));
    ls_output output;
    ls_status status = LS_OK;
    if (ls_output_open(path, &output) == 0) {
        page p = {output.file, study, folder, words};
        status = body(&p);
        if (ls_output_close(&output, path, status == LS_OK) != 0 && status == LS_OK)
            status = LS_FAIL(LS_STATUS_IO, "cannot write %s: %s", path, strerror(errno));
    } else {
        status = LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a folder that can be written to with --out", path,
                         strerror(errno));
    }
    free(words);
    return status;
}
