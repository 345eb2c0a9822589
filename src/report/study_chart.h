// Drawing a study's charts: study_charts.c writes the files and runs gnuplot, study_draw.c says what is in them.
#ifndef LS_REPORT_STUDY_CHART_H
#define LS_REPORT_STUDY_CHART_H

#include "report/study_impl.h"

typedef struct chart {
    const ls_study *study;
    const ls_series *series;
    const char *name;    // of its files
    int *count, counts;  // the different numbers of workers, ascending
    FILE *script, *data;
    int points;  // rows written to `data`
    int names;   // titles in the script
} chart;

enum { LS_CHART_STYLES = 7 };  // line styles 1 to 7 of a script

// A text between gnuplot's single quotes, in which only the quote itself means anything.
void ls__chart_quoted(FILE *out, const char *text);
// A row of data, which counts as a point.
void ls__chart_line(chart *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
// The name of a series beside the others: without the network's where all have the same.
const char *ls__chart_label(const chart *c, int series);
// Whether a row before it that is drawn, too, ended with the same weights: its curves are the same.
int ls__chart_repeats(const chart *c, int row);
void ls__chart_begin(chart *c, const char *xlabel, const char *ylabel);

// Each writes the data and the script up to its plot command, which is a text in the variable PLOT. Without points there is no
// chart.
void ls__draw_epoch_time(chart *c);
void ls__draw_throughput(chart *c);
void ls__draw_speedup(chart *c);
void ls__draw_efficiency(chart *c);
void ls__draw_phases(chart *c);
void ls__draw_accuracy(chart *c);
void ls__draw_accuracy_batch(chart *c);
void ls__draw_learning(chart *c);
void ls__draw_loss(chart *c);
void ls__draw_until(chart *c);
void ls__draw_roc(chart *c);  // study_labels.c

#endif
