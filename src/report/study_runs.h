// A study between its files and its rows: study_load.c reads runs, study_rows.c makes rows of them.
#ifndef LS_REPORT_STUDY_RUNS_H
#define LS_REPORT_STUDY_RUNS_H

#include "report/study.h"

// One run: a row of its own, until it is put together with its repeats.
typedef struct ls_study_run {
    ls_study_row row;
    char
        *recipe;  // all options that decide what is computed, as JSON; NULL where neither it nor its study has a record
    char *core;   // those of them that batch-per-worker and weak scaling keep: no batch, samples or rate
    char name[256];  // what the study calls its configuration, repeats aside; "" for a record of its own
    double lr;       // --lr; NAN: the optimizer's own
    int source;      // which of the paths it came from
    int repeat;
} ls_study_run;

// Of the finite ones; sorts `values`. NAN when there are none.
double ls__median(double *values, int count);

// Gives `study` its rows: puts the runs in order and those of one configuration together, and compares the rows. Sorts `runs`.
// Errors: OUT_OF_MEMORY.
ls_status ls__study_rows(ls_study_run *runs, int count, ls_study *study);

// study_compare.c: which rows did the same work; their speedup, efficiency and losses, and whether their weights agree.
void ls__rows_compare(ls_study_run *rows, int count);
// What stands in rows[i].row.recipe. Errors: OUT_OF_MEMORY.
ls_status ls__rows_tell_recipes(ls_study_run *rows, int count);
// Whether there is a run that was trained to its end.
int ls__row_finished(const ls_study_row *row);

#endif
