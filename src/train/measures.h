// The losses and metrics of a graph, as training adds them up: a row of doubles for each micro-batch, its samples first and then the
// sums that the plan gives. Metrics that are no sums (LS_OP_ROWS) have a row for each sample instead, in evaluation (train/rows.h).
#ifndef LS_TRAIN_MEASURES_H
#define LS_TRAIN_MEASURES_H

#include "graph/graph.h"

#define LS_MAX_MEASURES 256  // doubles of a row

typedef struct ls_measure {
    const char *name;  // the layer's
    const ls_op *op;
    const ls_attrs *attrs;
    int at, count;  // doubles of a row, from `at` on: of the micro-batch's, or of the sample's
    int rows;       // 1: of the sample's
    int parts;      // it has so many values, and their mean where there are several
} ls_measure;

// A value by its name: the layer's; of what has several, the mean has that name and part 3 is "auc/3". Losses are means over samples,
// times their weight.
typedef struct ls_measured {
    const char *name;  // the measures'
    double value;      // NaN: there is none
    int is_loss;
} ls_measured;

typedef struct ls_measures {
    ls_measure *list;
    int count;
    int width;            // of a micro-batch's row
    int row_width;        // of a sample's; 0: there is none
    int accuracy;         // the index of the first classification accuracy; -1: there is none
    ls_measured *values;  // (value_count): names of all values
    int value_count;
} ls_measures;

// Borrows the graph. Errors: UNSUPPORTED (too many numbers), OUT_OF_MEMORY.
ls_status ls__measures_create(const ls_graph *graph, ls_measures *out);
void ls__measures_destroy(ls_measures *measures);

// Adds a row to another.
void ls__measures_add(const ls_measures *measures, double *sum, const double *row);
// Of a sum of rows: the mean loss of a sample, all losses together; the accuracy, NAN where there is none; any measure's value.
double ls__measures_loss(const ls_measures *measures, const double *sum);
double ls__measures_accuracy(const ls_measures *measures, const double *sum);
double ls__measures_value(const ls_measures *measures, int index, const double *sum);
// All values, (value_count), in the order of the graph. `table` has the rows of `samples` samples: of each measure that has rows
// (samples, count), one after the other; NULL: there are none, and no values of those measures. Errors: OUT_OF_MEMORY.
ls_status ls__measures_values(const ls_measures *measures, const double *sum, const double *table, int64_t samples,
                              ls_measured *out);

#endif
