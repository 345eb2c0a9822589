// The course of training for other tools, while it is under way: a CSV file as Keras's CSVLogger writes, and event files for
// TensorBoard as Keras's callback of that name. docs/metrics.md describes both. Only the worker that speaks writes them.
#ifndef LS_REPORT_METRICS_H
#define LS_REPORT_METRICS_H

#include <lockstep/train.h>

typedef struct ls_metrics ls_metrics;

typedef struct ls_metrics_config {
    const char *csv;          // a file; NULL: none
    const char *tensorboard;  // a folder; NULL: none
    int every;                // TensorBoard: the loss of every so many steps too; 0: of none
    int validate, evaluate;   // the test set's numbers come after every epoch; at the end
} ls_metrics_config;

// Makes the files, so that what cannot be written is known before hours of training. A CSV file that is there is replaced.
// Errors: IO (the path, the system's words), OUT_OF_MEMORY.
ls_status ls_metrics_create(const ls_metrics_config *config, ls_metrics **out);
void ls_metrics_destroy(ls_metrics **metrics);

// After a step; after an epoch, which gets a line and points and is then on the disk; after the evaluation at the end. A file that cannot
// be written is left alone after the one failure, the others go on. Errors: IO (the path, the system's words).
ls_status ls_metrics_step(ls_metrics *metrics, const ls_step_report *step);
ls_status ls_metrics_epoch(ls_metrics *metrics, const ls_epoch_result *epoch);
ls_status ls_metrics_test(ls_metrics *metrics, int epoch, double loss, double accuracy);

#endif
