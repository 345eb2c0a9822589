// Samples with several labels in a study: read from records, drawn as ROC curves, and the page's table.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/roc.h"
#include "report/study_chart.h"

enum { MOST_LABELS = 256, MOST_CURVES = 28 };  // of a record; in a chart
_Static_assert(LS_STUDY_CURVE == LS_ROC_STEPS + 1, "a record's curve");

// --- records ---------------------------------------------------------------------------------------------------------

// A share of something: from 0 to 1, or it is not known.
static double share(const json_t *value) {
    double x = json_is_number(value) ? json_number_value(value) : NAN;
    return x >= 0 && x <= 1 ? x : NAN;
}

static void read_label(const json_t *from, ls_study_label *out) {
    const json_t *curve = json_object_get(from, "curve");
    const char *name = json_string_value(json_object_get(from, "name"));
    snprintf(out->name, sizeof out->name, "%s", name ? name : "");
    out->samples = json_integer_value(json_object_get(from, "samples"));
    out->area = share(json_object_get(from, "area"));
    out->precision = share(json_object_get(from, "precision"));
    out->recall = share(json_object_get(from, "recall"));
    for (size_t k = 0; k < LS_STUDY_CURVE; k++) {
        out->curve[k] = share(json_array_get(curve, k));
        if (isnan(out->curve[k])) out->area = NAN;  // nothing is drawn of it
    }
}

ls_status ls__labels_read(ls_study *study, int *count, ls_study_row *row, const json_t *record) {
    const json_t *list = json_object_get(record, "labels");
    size_t n = json_array_size(list);
    if (n > MOST_LABELS) n = MOST_LABELS;
    row->labels = *count;
    row->test_area = share(json_object_get(record, "test_area"));
    if (n == 0) return LS_OK;
    ls_study_label *more = realloc(study->labels, ((size_t)*count + n) * sizeof *more);
    if (!more) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %d labels", (int)n);
    study->labels = more;
    for (size_t i = 0; i < n; i++) read_label(json_array_get(list, i), &more[(*count)++]);
    row->label_count = (int)n;
    return LS_OK;
}

// --- the chart -------------------------------------------------------------------------------------------------------

static void name_curve(chart *c, const char *name, double area) {
    char text[400];
    snprintf(text, sizeof text, "%s: %.3f", name, area);
    fprintf(c->script, "NAME%d = ", ++c->names);
    ls__chart_quoted(c->script, text);
    fputc('\n', c->script);
}

static void add_curve(chart *c, const double *curve) {
    fprintf(c->data, "%s0 0\n", c->names > 1 ? "\n\n" : "");
    for (int k = 0; k < LS_STUDY_CURVE; k++) ls__chart_line(c, "%.6g %.6g", (double)k / (LS_STUDY_CURVE - 1), curve[k]);
}

static void draw_labels(chart *c, const ls_study_row *r) {
    for (int i = 0; i < r->label_count && c->names < MOST_CURVES; i++) {
        const ls_study_label *l = &c->study->labels[r->labels + i];
        if (isnan(l->area)) continue;
        name_curve(c, l->name, l->area);
        add_curve(c, l->curve);
    }
}

static void draw_mean(chart *c, int row) {
    const ls_study_row *r = &c->study->rows[row];
    double mean[LS_STUDY_CURVE] = {0}, area = 0;
    int found = 0;
    char name[320];
    for (int i = 0; i < r->label_count; i++) {
        const ls_study_label *l = &c->study->labels[r->labels + i];
        if (isnan(l->area)) continue;
        for (int k = 0; k < LS_STUDY_CURVE; k++) mean[k] += l->curve[k];
        area += l->area;
        found++;
    }
    if (!found || c->names == MOST_CURVES) return;
    for (int k = 0; k < LS_STUDY_CURVE; k++) mean[k] /= found;
    snprintf(name, sizeof name, "%s, %d worker%s", ls__chart_label(c, c->series->of[row]), r->workers,
             r->workers == 1 ? "" : "s");
    name_curve(c, name, isnan(r->test_area) ? area / found : r->test_area);
    add_curve(c, mean);
}

// A row with weights that another row before it has, too, found the same.
static int is_new(const chart *c, int row) {
    const ls_study_row *r = &c->study->rows[row];
    if (c->series->of[row] < 0 || !r->label_count) return 0;
    return !ls__chart_repeats(c, row);
}

void ls__draw_roc(chart *c) {
    int rows = 0, first = -1;
    for (int i = 0; i < c->study->row_count; i++) {
        if (!is_new(c, i)) continue;
        if (first < 0) first = i;
        rows++;
    }
    fprintf(c->data, "# false_positive_rate true_positive_rate\n");
    ls__chart_begin(c, "false positive rate", "true positive rate");
    for (int i = 0; i < c->study->row_count && rows > 1; i++)
        if (is_new(c, i)) draw_mean(c, i);
    if (rows == 1) draw_labels(c, &c->study->rows[first]);
    fprintf(c->script, "set xrange [0:1]\nset yrange [0:1]\n");
    if (c->names > 10) fprintf(c->script, "if (!SLIDES) set key font ',11'\n");
    fprintf(c->script, "PLOT = \"plot x with lines linestyle 10 notitle");
    for (int i = 0; i < c->names; i++) {
        static const char *const dashes[] = {"1", "(8,4)", "(2,3)", "(12,3,2,3)"};
        fprintf(c->script, ", '%s.dat' index %d using 1:2 with lines linestyle %d dashtype %s title NAME%d", c->name, i,
                i % LS_CHART_STYLES + 1, dashes[i / LS_CHART_STYLES % 4], i + 1);
    }
    fprintf(c->script, "\"\n");
}

// --- the page --------------------------------------------------------------------------------------------------------

static void cell(FILE *out, int digits, double x) {
    fputs("<td>", out);
    if (isnan(x))
        fputs("\xE2\x80\x93", out);
    else
        fprintf(out, "%.*f", digits, x);
    fputs("</td>", out);
}

void ls__labels_table(FILE *out, const ls_study *study, const ls_study_row *row) {
    if (!row->label_count) return;
    fputs(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"What was found of each label\">\n<table>\n"
        "<caption>What was found of each label on the test set; a label is said to be there from a probability of a "
        "half "
        "on</caption>\n<thead><tr><th class=\"name\" scope=\"col\">Label</th><th scope=\"col\">Samples</th><th "
        "scope=\"col\">Area under the ROC curve</th><th scope=\"col\">Precision (%)</th><th scope=\"col\">Recall "
        "(%)</th></tr></thead>\n<tbody>\n",
        out);
    for (int i = 0; i < row->label_count; i++) {
        const ls_study_label *l = &study->labels[row->labels + i];
        fputs("<tr><td class=\"name\">", out);
        ls__html(out, "%s", l->name);
        fprintf(out, "</td><td>%lld</td>", (long long)l->samples);
        cell(out, 4, l->area);
        cell(out, 2, 100 * l->precision);
        cell(out, 2, 100 * l->recall);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table></div>\n", out);
    if (row->label_count == MOST_LABELS)
        fprintf(out, "<p>The table has %d labels at most; the record has all.</p>\n", MOST_LABELS);
}
