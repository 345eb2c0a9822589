// A study between its files and its rows: study_load.c reads runs, study_rows.c makes rows of them.
#ifndef LS_REPORT_STUDY_RUNS_H
#define LS_REPORT_STUDY_RUNS_H

#include "report/study.h"

// One run: a row of its own, until it is put together with its repeats.
typedef struct ls_study_run {
    ls_study_row row;
    char
        *recipe;  // all options that decide what is computed, as text; NULL where neither it nor its study has a record
    int source;   // which of the paths it came from
    int repeat;
} ls_study_run;

// Of the finite ones; sorts `values`. NAN when there are none.
double ls__median(double *values, int count);

// Gives `study` its rows: puts the runs in order and those of one configuration together, and compares the rows. Sorts `runs`.
// Errors: OUT_OF_MEMORY.
ls_status ls__study_rows(ls_study_run *runs, int count, ls_study *study);

#endif
