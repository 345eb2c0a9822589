// Where a run's time went, phase by phase, and which of them lost how much efficiency. docs/scaling.md has the definitions.
#ifndef LS_REPORT_STUDY_LOSS_H
#define LS_REPORT_STUDY_LOSS_H

#include <jansson.h>

#include "report/study.h"

// The phases of the record's epochs whose time counts: those in the middle of `seconds`, which is (count), from epoch `first` of the
// record on. Of a record that does not tell them by epoch, those of all its steps.
void ls__phases_read(ls_study_row *row, const json_t *record, const double *seconds, int count, int first);
// The phases of the runs in the middle of `count` of one configuration, by their epochs' time; those without a record do not
// count. at(user, i) is the i-th.
void ls__phases_join(ls_study_row *row, const ls_study_row *(*at)(const void *user, int i), const void *user,
                     int count);
// What of the loss of efficiency of `row`, whose efficiency against `base` is known, is due to what.
void ls__loss_find(ls_study_row *row, const ls_study_row *base);

#endif
