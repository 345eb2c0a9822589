#include "report/confusion.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/csv.h"
#include "report/svg.h"

enum { MOST_ROWS = 24, WORST = 10, PAIRS = 10, NAME = 20 };  // of classes that are listed; of pairs; columns of a name

const char *ls_confusion_name(const ls_confusion *c, int class, char buffer[16]) {
    if (c->names && c->names[class]) return c->names[class];
    snprintf(buffer, 16, "%d", class);
    return buffer;
}

static int64_t at(const ls_confusion *c, int class, int taken) {
    return c->count[(int64_t) class * c->classes + taken];
}

int64_t ls_confusion_samples(const ls_confusion *c, int class) {
    int64_t sum = 0;
    if (class >= 0) {
        for (int k = 0; k < c->classes; k++) sum += at(c, class, k);
        return sum;
    }
    for (int i = 0; i < c->classes; i++) sum += ls_confusion_samples(c, i);
    return sum;
}

int64_t ls_confusion_right(const ls_confusion *c, int class) {
    int64_t sum = 0;
    if (class >= 0) return at(c, class, class);
    for (int i = 0; i < c->classes; i++) sum += at(c, i, i);
    return sum;
}

// 0 for a class without samples.
static double share(int64_t part, int64_t all) { return all ? (double)part / (double)all : 0; }

static int digits(int64_t n) { return snprintf(NULL, 0, "%lld", (long long)n); }

// --- the terminal ----------------------------------------------------------------------------------------------------

static void print_class(FILE *out, const ls_confusion *c, int class) {
    char number[16];
    int64_t samples = ls_confusion_samples(c, class), right = ls_confusion_right(c, class);
    fprintf(out, "%-*.*s %9lld ", NAME, NAME, ls_confusion_name(c, class, number), (long long)samples);
    if (samples)
        fprintf(out, "%8.2f %%\n", 100 * share(right, samples));
    else
        fprintf(out, "%10s\n", "-");
}

// Whether class a is to be listed before b: the smaller accuracy first, those without samples last.
static int before(const ls_confusion *c, int a, int b) {
    int64_t of_a = ls_confusion_samples(c, a), of_b = ls_confusion_samples(c, b);
    if (!of_a || !of_b) return of_a > 0 && !of_b;
    return share(ls_confusion_right(c, a), of_a) < share(ls_confusion_right(c, b), of_b);
}

static void print_worst(FILE *out, const ls_confusion *c) {
    int list[WORST], count = 0;
    for (int i = 0; i < c->classes; i++) {
        int place = count;
        while (place > 0 && before(c, i, list[place - 1])) place--;
        if (place == WORST) continue;
        if (count < WORST) count++;
        memmove(list + place + 1, list + place, (size_t)(count - place - 1) * sizeof *list);
        list[place] = i;
    }
    for (int i = 0; i < count; i++) print_class(out, c, list[i]);
}

void ls_confusion_print_classes(FILE *out, const ls_confusion *c) {
    int few = c->classes <= MOST_ROWS;
    fprintf(out, "%-*s %9s %10s\n", NAME, few ? "Class" : "Worst classes", "Samples", "Accuracy");
    if (!few) {
        print_worst(out, c);
        return;
    }
    for (int i = 0; i < c->classes; i++) print_class(out, c, i);
}

// The columns that a cell takes, and the names in front.
static int cell_width(const ls_confusion *c) {
    int width = 3;
    for (int64_t i = 0; i < (int64_t)c->classes * c->classes; i++)
        if (digits(c->count[i]) > width) width = digits(c->count[i]);
    return width;
}

static int names_width(const ls_confusion *c) {
    char number[16];
    int width = 0;
    for (int i = 0; i < c->classes; i++) {
        int n = (int)strlen(ls_confusion_name(c, i, number));
        if (n > width) width = n;
    }
    return width < NAME ? width : NAME;
}

static void print_matrix(FILE *out, const ls_confusion *c, int name, int cell) {
    char number[16];
    fprintf(out, "Rows: the class; columns: what it was taken for\n%*s", name, "");
    for (int k = 0; k < c->classes; k++) fprintf(out, " %*.*s", cell, cell, ls_confusion_name(c, k, number));
    fputc('\n', out);
    for (int i = 0; i < c->classes; i++) {
        fprintf(out, "%-*.*s", name, name, ls_confusion_name(c, i, number));
        for (int k = 0; k < c->classes; k++) {
            if (at(c, i, k))
                fprintf(out, " %*lld", cell, (long long)at(c, i, k));
            else
                fprintf(out, " %*s", cell, ".");
        }
        fputc('\n', out);
    }
}

typedef struct pair {
    int class, taken;
    int64_t count;
} pair;

static void print_pairs(FILE *out, const ls_confusion *c) {
    pair list[PAIRS];
    char a[16], b[16];
    int count = 0;
    for (int i = 0; i < c->classes; i++)
        for (int k = 0; k < c->classes; k++) {
            int64_t n = at(c, i, k);
            int place = count;
            if (i == k || n == 0) continue;
            while (place > 0 && n > list[place - 1].count) place--;
            if (place == PAIRS) continue;
            if (count < PAIRS) count++;
            memmove(list + place + 1, list + place, (size_t)(count - place - 1) * sizeof *list);
            list[place] = (pair){i, k, n};
        }
    fprintf(out, count ? "Confused most\n" : "Nothing was confused\n");
    for (int i = 0; i < count; i++)
        fprintf(out, "%-*.*s taken for %-*.*s %9lld %8.2f %%\n", NAME, NAME, ls_confusion_name(c, list[i].class, a),
                NAME, NAME, ls_confusion_name(c, list[i].taken, b), (long long)list[i].count,
                100 * share(list[i].count, ls_confusion_samples(c, list[i].class)));
}

ls_status ls_confusion_print(FILE *out, const ls_confusion *c, int width) {
    int name = names_width(c), cell = cell_width(c), room = c->classes ? (width - name) / c->classes - 1 : 0;
    if (room < cell) {
        print_pairs(out, c);
        return LS_OK;
    }
    // Names over the columns may have what is left of the line.
    int names = name < 8 ? name : 8;
    if (names > cell) cell = names < room ? names : room;
    print_matrix(out, c, name, cell);
    return LS_OK;
}

// --- files -----------------------------------------------------------------------------------------------------------

void ls_confusion_csv(FILE *out, const ls_confusion *c) {
    char number[16];
    ls_csv_text(out, "class");
    for (int k = 0; k < c->classes; k++) {
        fputc(',', out);
        ls_csv_text(out, ls_confusion_name(c, k, number));
    }
    fputc('\n', out);
    for (int i = 0; i < c->classes; i++) {
        ls_csv_text(out, ls_confusion_name(c, i, number));
        for (int k = 0; k < c->classes; k++) fprintf(out, ",%lld", (long long)at(c, i, k));
        fputc('\n', out);
    }
}

void ls_confusion_classes_csv(FILE *out, const ls_confusion *c) {
    char number[16];
    fputs("class,name,samples,right,accuracy\n", out);
    for (int i = 0; i < c->classes; i++) {
        int64_t samples = ls_confusion_samples(c, i), right = ls_confusion_right(c, i);
        fprintf(out, "%d,", i);
        ls_csv_text(out, ls_confusion_name(c, i, number));
        fprintf(out, ",%lld,%lld,", (long long)samples, (long long)right);
        if (samples) fputs(ls_text_real(share(right, samples), (char[32]){0}), out);
        fputc('\n', out);
    }
}

// --- the picture -----------------------------------------------------------------------------------------------------

enum { LETTER = 7, GAP = 8, HEAD = 44, NUMBERED = 24, NAMED = 60, TOLD = 100 };  // pixels; classes up to which

// From white to blue for what is right, to vermilion for what is not: Okabe and Ito's, which colour-blind readers tell apart. Mistakes
// are rare, so small shares of them are shown larger.
static void svg_colour(FILE *out, double part, int right) {
    static const int full[2][3] = {{0xD5, 0x5E, 0x00}, {0x00, 0x72, 0xB2}};
    double strength = right ? part : part < 0.25 ? 2 * part : 0.5 + (part - 0.25) * 2 / 3;
    fputc('#', out);
    for (int i = 0; i < 3; i++) fprintf(out, "%02x", (unsigned)(255 - strength * (255 - full[right][i]) + 0.5));
}

static void svg_cell(FILE *out, const ls_confusion *c, int i, int k, int x, int y, int side) {
    char a[16], b[16];
    int64_t n = at(c, i, k);
    if (n == 0) return;
    int64_t samples = ls_confusion_samples(c, i);
    double part = share(n, samples);
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"", x, y, side, side);
    svg_colour(out, part, i == k);
    fputs("\">", out);
    if (c->classes <= TOLD) {
        fputs("<title>", out);
        ls__svg_text(out, ls_confusion_name(c, i, a));
        fputs(i == k ? ": right " : " taken for ", out);
        if (i != k) ls__svg_text(out, ls_confusion_name(c, k, b));
        fprintf(out, "%s%lld of %lld</title>", i == k ? "" : ": ", (long long)n, (long long)samples);
    }
    fputs("</rect>\n", out);
    if (c->classes <= NUMBERED)
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%lld</text>\n", x + side / 2,
                y + side / 2 + 4, part > 0.55 ? "#ffffff" : "#222222", (long long)n);
}

static void svg_names(FILE *out, const ls_confusion *c, int left, int top, int side) {
    char number[16];
    int every = c->classes <= NAMED ? 1 : (c->classes + 39) / 40;
    for (int i = 0; i < c->classes; i += every) {
        int middle = i * side + side / 2;
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", left - GAP, top + middle + 4);
        ls__svg_text(out, ls_confusion_name(c, i, number));
        fprintf(out, "</text>\n<text transform=\"translate(%d,%d) rotate(-90)\">", left + middle + 4, top - GAP);
        ls__svg_text(out, ls_confusion_name(c, i, number));
        fputs("</text>\n", out);
    }
}

void ls_confusion_svg(FILE *out, const ls_confusion *c, const char *title) {
    int cell = 3 + LETTER * cell_width(c), side = c->classes <= NUMBERED ? (cell > 36 ? cell : 36) : 720 / c->classes;
    if (side < 1) side = 1;
    int names = LETTER * names_width(c) + 2 * GAP, left = names + 16, top = HEAD + names;
    int size = side * c->classes, width = left + size + 16, height = top + size + 16;
    if (width < 420) width = 420;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<text x=\"16\" y=\"20\" font-size=\"14\">",
            width, height, width, height);
    ls__svg_text(out, title);
    fputs("</text>\n<text x=\"16\" y=\"38\" fill=\"#555555\">Rows: the class; columns: what it was taken for</text>\n",
          out);
    svg_names(out, c, left, top, side);
    for (int i = 0; i < c->classes; i++)
        for (int k = 0; k < c->classes; k++) svg_cell(out, c, i, k, left + k * side, top + i * side, side);
    fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n</svg>\n",
            left, top, size, size);
}
