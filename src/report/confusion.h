// What an evaluation took for what: tables for a terminal, and files for pictures and spreadsheets.
#ifndef LS_REPORT_CONFUSION_H
#define LS_REPORT_CONFUSION_H

#include <stdint.h>
#include <stdio.h>

#include <lockstep/status.h>

typedef struct ls_confusion {
    int classes;
    const int64_t *count;      // (classes, classes): samples of the row's class taken for the column's
    const char *const *names;  // (classes); an entry may be NULL: the class has its number alone. NULL: all have
} ls_confusion;

// A class's name, or its number in `buffer`.
const char *ls_confusion_name(const ls_confusion *confusion, int class, char buffer[16]);
int64_t ls_confusion_samples(const ls_confusion *confusion, int class);  // of a class; -1: of all
int64_t ls_confusion_right(const ls_confusion *confusion, int class);    // of those, taken for what they are

// The accuracy of each class, of many classes of those with the least.
void ls_confusion_print_classes(FILE *out, const ls_confusion *confusion);
// The matrix, where it fits into `width` columns, else the pairs that are confused most. Errors: OUT_OF_MEMORY.
ls_status ls_confusion_print(FILE *out, const ls_confusion *confusion, int width);
// The matrix as comma-separated values: a row for each class, a column for each that it is taken for.
void ls_confusion_csv(FILE *out, const ls_confusion *confusion);
// The accuracy of each class, a row each.
void ls_confusion_classes_csv(FILE *out, const ls_confusion *confusion);
// The matrix as a picture.
void ls_confusion_svg(FILE *out, const ls_confusion *confusion, const char *title);

#endif
