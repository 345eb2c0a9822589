#include "report/roc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/csv.h"
#include "report/svg.h"

enum { MOST_ROWS = 24, WORST = 10, NAME = 24 };  // of labels that are listed; columns of a name

// --- finding ---------------------------------------------------------------------------------------------------------

typedef struct scored {
    double score;
    int there;
} scored;

static int by_score(const void *a, const void *b) {
    double x = ((const scored *)a)->score, y = ((const scored *)b)->score;
    return (x < y) - (x > y);
}

// The curve from the largest score down: each different score is a point, (share of those without the label that have it or more, share of those with).
static void walk(const scored *s, int64_t count, ls_roc *out) {
    double without = (double)(count - out->there), with = (double)out->there, halves = 0;
    int64_t x = 0, y = 0;
    int k = 0;
    for (int64_t i = 0; i < count;) {
        int64_t from_x = x, from_y = y;
        double score = s[i].score;
        for (; i < count && s[i].score == score; i++) s[i].there ? y++ : x++;
        halves += (double)(x - from_x) * (double)(y + from_y);
        for (; k <= LS_ROC_STEPS && k * without / LS_ROC_STEPS < (double)x; k++) {
            double part = (k * without / LS_ROC_STEPS - (double)from_x) / (double)(x - from_x);
            out->curve[k] = ((double)from_y + part * (double)(y - from_y)) / with;
        }
    }
    for (; k <= LS_ROC_STEPS; k++) out->curve[k] = 1;
    out->area = halves / (2 * with * without);
}

// What does not fit is cut off in front of a character, not in it.
static void set_name(char *to, size_t size, const char *name) {
    size_t n = strlen(name);
    if (n >= size)
        for (n = size - 1; n > 0 && ((unsigned char)name[n] & 0xC0) == 0x80;) n--;
    memcpy(to, name, n);
    to[n] = 0;
}

ls_status ls_roc_find(const double *rows, int64_t samples, int labels, int label, const char *name, ls_roc *out) {
    scored *s;
    int numbers = 1;
    *out = (ls_roc){.samples = samples, .area = NAN};
    snprintf(out->name, sizeof out->name, "%d", label);
    if (name) set_name(out->name, sizeof out->name, name);
    for (int k = 0; k <= LS_ROC_STEPS; k++) out->curve[k] = NAN;
    LS_TRY(ls_calloc(samples + 1, sizeof *s, &s));
    for (int64_t n = 0; n < samples; n++) {
        const double *row = rows + n * 2 * labels;
        s[n] = (scored){row[label], row[labels + label] > 0.5};
        numbers &= !isnan(row[label]);
        out->there += s[n].there;
        out->said += s[n].score > 0;
        out->right += s[n].score > 0 && s[n].there;
    }
    if (numbers && out->there > 0 && out->there < samples) {
        qsort(s, (size_t)samples, sizeof *s, by_score);
        walk(s, samples, out);
    }
    free(s);
    return LS_OK;
}

static double share(int64_t part, int64_t all) { return all ? (double)part / (double)all : NAN; }

double ls_roc_precision(const ls_roc *r) { return share(r->right, r->said); }
double ls_roc_recall(const ls_roc *r) { return share(r->right, r->there); }

double ls_roc_mean_area(const ls_roc *list, int labels) {
    double sum = 0;
    int found = 0;
    for (int i = 0; i < labels; i++) {
        if (isnan(list[i].area)) continue;
        sum += list[i].area;
        found++;
    }
    return found ? sum / found : NAN;
}

// --- the terminal ----------------------------------------------------------------------------------------------------

static void print_share(FILE *out, double x) {
    if (isnan(x))
        fprintf(out, " %12s", "-");
    else
        fprintf(out, " %10.2f %%", 100 * x);
}

static void print_label(FILE *out, const ls_roc *r) {
    char name[NAME + 1];
    set_name(name, sizeof name, r->name);
    fprintf(out, "%-*s %9lld ", NAME, name, (long long)r->there);
    if (isnan(r->area))
        fprintf(out, "%10s", "-");
    else
        fprintf(out, "%10.4f", r->area);
    print_share(out, ls_roc_precision(r));
    print_share(out, ls_roc_recall(r));
    fputc('\n', out);
}

// Smaller areas first, labels without one last.
static int before(const ls_roc *a, const ls_roc *b) {
    if (isnan(a->area) || isnan(b->area)) return isnan(b->area) && !isnan(a->area);
    return a->area < b->area;
}

void ls_roc_print(FILE *out, const ls_roc *list, int labels) {
    const ls_roc *worst[WORST];
    int few = labels <= MOST_ROWS, count = 0;
    fprintf(out, "%-*s %9s %10s %12s %12s\n", NAME, few ? "Label" : "Worst labels", "Samples", "ROC area", "Precision",
            "Recall");
    for (int i = 0; i < labels && few; i++) print_label(out, &list[i]);
    for (int i = 0; i < labels && !few; i++) {
        int place = count;
        while (place > 0 && before(&list[i], worst[place - 1])) place--;
        if (place == WORST) continue;
        if (count < WORST) count++;
        memmove(worst + place + 1, worst + place, (size_t)(count - place - 1) * sizeof *worst);
        worst[place] = &list[i];
    }
    for (int i = 0; i < count; i++) print_label(out, worst[i]);
}

// --- files -----------------------------------------------------------------------------------------------------------

static void csv_number(FILE *out, double x) {
    fputc(',', out);
    if (!isnan(x)) fputs(ls_text_real(x, (char[32]){0}), out);
}

void ls_roc_csv(FILE *out, const ls_roc *list, int labels) {
    fputs("label,name,samples,said,right,area,precision,recall\n", out);
    for (int i = 0; i < labels; i++) {
        const ls_roc *r = &list[i];
        fprintf(out, "%d,", i);
        ls_csv_text(out, r->name);
        fprintf(out, ",%lld,%lld,%lld", (long long)r->there, (long long)r->said, (long long)r->right);
        csv_number(out, r->area);
        csv_number(out, ls_roc_precision(r));
        csv_number(out, ls_roc_recall(r));
        fputc('\n', out);
    }
}

void ls_roc_curves_csv(FILE *out, const ls_roc *list, int labels) {
    ls_csv_text(out, "false positive rate");
    for (int i = 0; i < labels; i++) {
        fputc(',', out);
        ls_csv_text(out, list[i].name);
    }
    for (int k = 0; k <= LS_ROC_STEPS; k++) {
        fprintf(out, "\n%s", ls_text_real((double)k / LS_ROC_STEPS, (char[32]){0}));
        for (int i = 0; i < labels; i++) csv_number(out, list[i].curve[k]);
    }
    fputc('\n', out);
}

// --- the picture -----------------------------------------------------------------------------------------------------

enum { SIDE = 400, LEFT = 64, TOP = 48, BELOW = 56, LINE = 18, BESIDE = 300, SHOWN = 28, TICKS = 5 };  // pixels; labels

// Okabe and Ito's, which colour-blind readers tell apart; dashes tell the second and third seven from the first.
static const char *const colours[] = {"#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#555555"};
static const char *const dashes[] = {"", "6 3", "2 3", "10 3 2 3"};
enum { COLOURS = sizeof colours / sizeof colours[0], DASHES = sizeof dashes / sizeof dashes[0] };

static void svg_stroke(FILE *out, int i) {
    fprintf(out, " fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"", colours[i % COLOURS]);
    if (*dashes[i / COLOURS % DASHES]) fprintf(out, " stroke-dasharray=\"%s\"", dashes[i / COLOURS % DASHES]);
}

static void svg_axes(FILE *out) {
    for (int i = 0; i <= TICKS; i++) {
        int at = SIDE * i / TICKS;
        fprintf(out,
                "<path d=\"M%d %dh%dM%d %dv%d\" stroke=\"#dddddd\"/>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f</text>\n"
                "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.1f</text>\n",
                LEFT, TOP + SIDE - at, SIDE, LEFT + at, TOP, SIDE, LEFT - 8, TOP + SIDE - at + 4, (double)i / TICKS,
                LEFT + at, TOP + SIDE + 18, (double)i / TICKS);
    }
    fprintf(out,
            "<path d=\"M%d %dL%d %d\" stroke=\"#888888\" stroke-dasharray=\"4 4\"/>\n"
            "<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#555555\"/>\n"
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">false positive rate</text>\n"
            "<text transform=\"translate(20,%d) rotate(-90)\" text-anchor=\"middle\">true positive rate</text>\n",
            LEFT, TOP + SIDE, LEFT + SIDE, TOP, LEFT, TOP, SIDE, SIDE, LEFT + SIDE / 2, TOP + SIDE + 42,
            TOP + SIDE / 2);
}

static void svg_curve(FILE *out, const ls_roc *r, int i) {
    int y = TOP + LINE * i + 8, x = LEFT + SIDE + 24;
    if (!isnan(r->area)) {
        fprintf(out, "<path d=\"M%d %d", LEFT, TOP + SIDE);
        for (int k = 0; k <= LS_ROC_STEPS; k++)
            fprintf(out, "L%.1f %.1f", LEFT + (double)SIDE * k / LS_ROC_STEPS, TOP + SIDE * (1 - r->curve[k]));
        fputc('"', out);
        svg_stroke(out, i);
        fputs("/>\n", out);
    }
    fprintf(out, "<path d=\"M%d %dh24\"", x, y);
    svg_stroke(out, i);
    fprintf(out, "/>\n<text x=\"%d\" y=\"%d\">", x + 32, y + 4);
    ls__svg_text(out, r->name);
    if (isnan(r->area))
        fputs(": none to tell apart</text>\n", out);
    else
        fprintf(out, ": %.3f</text>\n", r->area);
}

void ls_roc_svg(FILE *out, const ls_roc *list, int labels, const char *title) {
    int shown = labels < SHOWN ? labels : SHOWN, height = TOP + SIDE + BELOW, width = LEFT + SIDE + BESIDE;
    if (TOP + LINE * shown + 24 > height) height = TOP + LINE * shown + 24;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"16\" y=\"24\" font-size=\"14\">",
            width, height, width, height);
    ls__svg_text(out, title);
    fputs("</text>\n", out);
    svg_axes(out);
    for (int i = 0; i < shown; i++) svg_curve(out, &list[i], i);
    if (shown < labels)
        fprintf(out, "<text x=\"%d\" y=\"%d\">and %d more</text>\n", LEFT + SIDE + 24, TOP + LINE * shown + 12,
                labels - shown);
    fputs("</svg>\n", out);
}
