#include "train/measures.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

static int values_of(const ls_measure *one) { return one->parts > 1 ? 1 + one->parts : 1; }

static ls_status add_measure(const ls_graph *graph, const ls_node *n, const ls_op *op, ls_measures *m) {
    ls_shape shape = n->output[0].shape;
    int rows = (op->traits & LS_OP_ROWS) != 0, *width = rows ? &m->row_width : &m->width;
    ls_measure one = {.name = n->name,
                      .op = op,
                      .attrs = &n->attrs,
                      .at = *width,
                      .count = (int)ls_shape_count(shape),
                      .rows = rows,
                      .parts = shape.ndim ? (int)shape.dim[shape.ndim - 1] : 1};
    if (op->is_accuracy && m->accuracy < 0) m->accuracy = m->count;
    *width += one.count;
    m->value_count += values_of(&one);
    m->list[m->count++] = one;
    if (m->width <= LS_MAX_MEASURES) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: a graph has at most %d numbers of losses and metrics", graph->name,
                   LS_MAX_MEASURES - 1);
}

static ls_status name_values(ls_measures *m) {
    ls_measured *v = m->values;
    for (int i = 0; i < m->count; i++) {
        const ls_measure *one = &m->list[i];
        for (int part = -1; part < values_of(one) - 1; part++, v++) {
            size_t size = strlen(one->name) + 16;
            char *name;
            LS_TRY(ls_calloc(1, (int64_t)size, &name));
            *v = (ls_measured){name, NAN, one->op->part == LS_PART_LOSS};
            if (part < 0)
                snprintf(name, size, "%s", one->name);
            else
                snprintf(name, size, "%s/%d", one->name, part);
        }
    }
    return LS_OK;
}

static ls_status create(const ls_graph *graph, ls_measures *m) {
    LS_TRY(ls_calloc(graph->node_count, sizeof *m->list, &m->list));
    for (int i = 0; i < graph->node_count; i++) {
        const ls_op *op = ls__op_find(graph->nodes[i].op);
        if (op->part != LS_PART_LAYER) LS_TRY(add_measure(graph, &graph->nodes[i], op, m));
    }
    LS_TRY(ls_calloc(m->value_count, sizeof *m->values, &m->values));
    return name_values(m);
}

ls_status ls__measures_create(const ls_graph *graph, ls_measures *out) {
    *out = (ls_measures){.width = 1, .accuracy = -1};
    ls_status status = create(graph, out);
    if (status != LS_OK) ls__measures_destroy(out);
    return status;
}

void ls__measures_destroy(ls_measures *m) {
    for (int i = 0; m->values && i < m->value_count; i++) free((char *)m->values[i].name);
    free(m->values);
    free(m->list);
    *m = (ls_measures){0};
}

void ls__measures_add(const ls_measures *m, double *sum, const double *row) {
    for (int i = 0; i < m->width; i++) sum[i] += row[i];
}

static double samples_of(const double *sum) { return sum[0] > 0 ? sum[0] : 1; }

double ls__measures_loss(const ls_measures *m, const double *sum) {
    double loss = 0;
    for (int i = 0; i < m->count; i++)
        if (m->list[i].op->part == LS_PART_LOSS) loss += sum[m->list[i].at];
    return loss / samples_of(sum);
}

// The values of a measure's parts, and their mean.
static ls_status find_values(const ls_measure *one, const double *from, double samples, double *parts, double *mean) {
    ls_finish finish = {one->attrs, from, one->count, (int64_t)samples, one->parts};
    int found = 0;
    *mean = 0;
    if (one->op->finish) LS_TRY(one->op->finish(&finish, parts));
    for (int i = 0; i < one->parts; i++) {
        if (!one->op->finish) parts[i] = from[i] / (samples > 0 ? samples : 1);
        if (one->op->finish && isnan(parts[i])) continue;
        *mean += parts[i];
        found++;
    }
    *mean = found ? *mean / found : NAN;
    return LS_OK;
}

double ls__measures_value(const ls_measures *m, int index, const double *sum) {
    const ls_measure *one = &m->list[index];
    double parts[LS_MAX_MEASURES], mean;
    if (one->rows || find_values(one, sum + one->at, sum[0], parts, &mean) != LS_OK) return NAN;
    return mean;
}

double ls__measures_accuracy(const ls_measures *m, const double *sum) {
    return m->accuracy < 0 ? NAN : ls__measures_value(m, m->accuracy, sum);
}

ls_status ls__measures_values(const ls_measures *m, const double *sum, const double *table, int64_t samples,
                              ls_measured *out) {
    for (int i = 0, v = 0; i < m->count; v += values_of(&m->list[i++])) {
        const ls_measure *one = &m->list[i];
        double *parts, mean = NAN;
        LS_TRY(ls_calloc(one->parts, sizeof *parts, &parts));
        ls_status status = LS_OK;
        for (int k = 0; k < one->parts; k++) parts[k] = NAN;
        if (!one->rows)
            status = find_values(one, sum + one->at, sum[0], parts, &mean);
        else if (table)
            status = find_values(one, table + one->at * samples, (double)samples, parts, &mean);
        for (int k = 0; k < values_of(one); k++) {
            out[v + k] = m->values[v + k];
            out[v + k].value = k == 0 ? mean : parts[k - 1];
        }
        free(parts);
        LS_TRY(status);
    }
    return LS_OK;
}
