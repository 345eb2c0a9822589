// The losses and metrics of a graph, as training adds them up: a row of doubles for each micro-batch, its samples first and then the
// sums that the plan gives.
#ifndef LS_TRAIN_MEASURES_H
#define LS_TRAIN_MEASURES_H

#include "graph/graph.h"

#define LS_MAX_MEASURES 256  // doubles of a row

typedef struct ls_measure {
    const char *name;      // the layer's
    const ls_op *op;
    const ls_attrs *attrs;
    int at, count;         // doubles of a row, from `at` on
} ls_measure;

typedef struct ls_measures {
    ls_measure *list;
    int count;
    int width;  // of a row
    int accuracy;  // the index of the first classification accuracy; -1: there is none
} ls_measures;

// Borrows the graph. Errors: OUT_OF_MEMORY.
ls_status ls__measures_create(const ls_graph *graph, ls_measures *out);
void ls__measures_destroy(ls_measures *measures);

// Adds a row to another.
void ls__measures_add(const ls_measures *measures, double *sum, const double *row);
// Of a sum of rows: the mean loss of a sample, all losses together; the accuracy, NAN where there is none; any measure's value.
double ls__measures_loss(const ls_measures *measures, const double *sum);
double ls__measures_accuracy(const ls_measures *measures, const double *sum);
double ls__measures_value(const ls_measures *measures, int index, const double *sum);

#endif
