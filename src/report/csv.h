// Texts in files of comma-separated values.
#ifndef LS_REPORT_CSV_H
#define LS_REPORT_CSV_H

#include <stdio.h>

// A field in quotes. What a spreadsheet would take for a formula and compute gets an apostrophe in front.
void ls_csv_text(FILE *out, const char *text);

#endif
