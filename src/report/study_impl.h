// What a study's charts, its page and its explanation share.
#ifndef LS_REPORT_STUDY_IMPL_H
#define LS_REPORT_STUDY_IMPL_H

#include <stdio.h>

#include "report/study.h"

enum { LS_SERIES_NAME = 256 };

// The rows that belong on one line of a chart. Rows without any run belong to none.
typedef struct ls_series {
    int count;
    char (
        *name)[LS_SERIES_NAME];  // "mnist-cnn", or "mnist-cnn, weak, 2 nodes, bf16" where the study has several of each
    int *of;                     // of[row]: its series, or -1
} ls_series;

// Errors: OUT_OF_MEMORY. ls__series_destroy frees what is there, also after a failure.
ls_status ls__series_create(const ls_study *study, ls_series *out);
void ls__series_destroy(ls_series *series);

// Whether the row's runs were evaluated on a test set.
int ls__row_evaluated(const ls_study_row *row);

typedef struct ls_chart {
    const char *name, *title, *caption;  // of its files; of its slide; of its figure on the page
} ls_chart;
extern const ls_chart ls__charts[];  // ended by a NULL name

// gnuplot.c: runs gnuplot on folder/NAME.gp, in that folder. Errors: UNSUPPORTED (none on PATH, with a hint), IO, LIBRARY (its
// own words).
ls_status ls__gnuplot(const char *folder, const char *name);

// study_words.c: what the numbers say, in plain words.
typedef enum ls_word_kind {
    LS_WORD_WARNING,  // something is wrong with the study
    LS_WORD_FINDING,  // at most six, the important ones first
    LS_WORD_CAVEAT,   // how far the findings can be trusted
    LS_WORD_MEANING,  // what is compared here, and what is not
} ls_word_kind;
typedef struct ls_word {
    ls_word_kind kind;
    int rank, order;
    char text[1024];  // one sentence or a few
} ls_word;
typedef struct ls_statements {
    ls_word *list;
    int count;
} ls_statements;
// Errors: OUT_OF_MEMORY. ls__statements_free also after a failure.
ls_status ls__study_words(const ls_study *study, ls_statements *out);
void ls__statements_free(ls_statements *words);

// study_csv.c: a line of heads, and one for each configuration.
void ls__study_csv(FILE *out, const ls_study *study);

// study_labels.c: labels of a run's record behind the *count that the study has. Errors: OUT_OF_MEMORY.
struct json_t;
ls_status ls__labels_read(ls_study *study, int *count, ls_study_row *row, const struct json_t *record);
// The page's table of a row's labels; nothing where it has none.
void ls__labels_table(FILE *out, const ls_study *study, const ls_study_row *row);

// study_html.c: text from format and arguments with everything escaped that HTML and XML would take for markup.
void ls__html(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The <svg> element of a file, its ids with `prefix` in front, so that several fit on one page. Returns 0 where there is none.
int ls__html_svg(FILE *out, const char *path, const char *prefix, const char *label);
// The page's style sheet.
extern const char ls__html_style[];

#endif
