// What an evaluation found of samples with several labels at once: areas under ROC curves, precision and recall, label by label, for a terminal, for
// spreadsheets and as a picture.
#ifndef LS_REPORT_ROC_H
#define LS_REPORT_ROC_H

#include <stdint.h>
#include <stdio.h>

#include <lockstep/status.h>

enum { LS_ROC_STEPS = 50 };

// One label. It is said to be there where its score, a logit, is above 0: a probability of more than a half.
typedef struct ls_roc {
    char name[64];
    int64_t samples, there;  // of all; of those, with the label
    int64_t said, right;     // that are said to have it; of those, that have it
    double area;             // under the ROC curve; NAN: all samples have the label or none, or a score is no number
    // The share of those with the label that is found where k / LS_ROC_STEPS of those without it are taken to have it, on the straight lines between the
    // curve's points. NAN as above.
    double curve[LS_ROC_STEPS + 1];
} ls_roc;

// Of label `label`, from (samples, 2 labels) numbers: scores of all labels, then 1 where each is there. `name` NULL: its number. Errors: OUT_OF_MEMORY.
ls_status ls_roc_find(const double *rows, int64_t samples, int labels, int label, const char *name, ls_roc *out);
double ls_roc_precision(const ls_roc *roc);               // right / said; NAN: none is said to have it
double ls_roc_recall(const ls_roc *roc);                  // right / there; NAN: none has it
double ls_roc_mean_area(const ls_roc *list, int labels);  // of those that have one; NAN: none has

// A table of all labels; of many those with the smallest areas.
void ls_roc_print(FILE *out, const ls_roc *list, int labels);
void ls_roc_csv(FILE *out, const ls_roc *list, int labels);  // a line for each label
// The curves: a line for each false-positive rate, a column for each label.
void ls_roc_curves_csv(FILE *out, const ls_roc *list, int labels);
void ls_roc_svg(FILE *out, const ls_roc *list, int labels, const char *title);

#endif
