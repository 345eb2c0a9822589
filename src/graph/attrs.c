// Attributes of operations by their rows: defaults, bounds, text.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "graph/op.h"

#define X(name, text) text,
const char *const ls__activation_names[] = {LS_ACTIVATION_LIST(X) NULL};
const char *const ls__padding_names[] = {LS_PADDING_LIST(X) NULL};
const char *const ls__initializer_names[] = {LS_INITIALIZER_LIST(X) NULL};
#undef X

#define LARGEST_SIDE (1 << 20)  // of windows, strides and paddings: what comes of them can be counted

static int is_real(ls_attr_type type) { return type == LS_ATTR_FLOAT || type == LS_ATTR_REAL; }

int ls__attr_count(const ls_attr *row) {
    return row->type == LS_ATTR_PAIR                                 ? 2
           : row->type == LS_ATTR_TRIPLE                             ? 3
           : row->type == LS_ATTR_SIDES || row->type == LS_ATTR_DIMS ? 4
                                                                     : 1;
}

double ls__attr_get(const ls_attr *row, const ls_attrs *attrs, int i) {
    const void *at = attrs->bytes + row->offset;
    if (row->type == LS_ATTR_FLOAT) return (double)*(const float *)at;
    if (row->type == LS_ATTR_REAL) return *(const double *)at;
    return ((const int *)at)[i];
}

void ls__attr_set(const ls_attr *row, ls_attrs *attrs, int i, double value) {
    void *at = attrs->bytes + row->offset;
    if (row->type == LS_ATTR_FLOAT)
        *(float *)at = (float)value;
    else if (row->type == LS_ATTR_REAL)
        *(double *)at = value;
    else
        ((int *)at)[i] = (int)value;
}

static void fill(const ls_attr *row, ls_attrs *attrs) {
    for (int i = 0; i < ls__attr_count(row); i++)
        if (ls__attr_get(row, attrs, i) != 0) return;
    for (int i = 0; i < ls__attr_count(row); i++) ls__attr_set(row, attrs, i, row->initial);
}

static ls_status check(const ls_op *op, const ls_attr *row, const char *layer, double value) {
    double most = row->maximum;
    int choices = 0;
    while (row->choices && row->choices[choices]) choices++;
    if (row->choices) most = choices - 1;
    if (row->type == LS_ATTR_FLAG) most = 1;
    int sides = row->type == LS_ATTR_PAIR || row->type == LS_ATTR_TRIPLE || row->type == LS_ATTR_SIDES;
    int bounded = row->choices || row->type == LS_ATTR_FLAG || row->maximum > row->minimum;
    if (sides && !bounded && value > LARGEST_SIDE)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %s of a %s layer is at most %d, but %.0f was asked for", layer,
                       row->name, op->keras_class, LARGEST_SIDE, value);
    if (value >= row->minimum && (!bounded || value <= most)) return LS_OK;  // so that a NaN fails
    if (row->choices)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: its %s was given as number %.0f, which there is not: they go from 0 (%s) to %d (%s)", layer,
                       row->name, value, row->choices[0], choices - 1, row->choices[choices - 1]);
    if (bounded)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %s of a %s layer lies between %g and %g, but %g was asked for",
                       layer, row->name, op->keras_class, row->minimum, most, value);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %s of a %s layer is at least %g, but %g was asked for", layer,
                   row->name, op->keras_class, row->minimum, value);
}

ls_status ls__attrs_resolve(const ls_op *op, const char *layer, ls_attrs *attrs) {
    for (const ls_attr *row = op->attrs; row && row->name; row++) {
        fill(row, attrs);
        for (int i = 0; i < ls__attr_count(row); i++) LS_TRY(check(op, row, layer, ls__attr_get(row, attrs, i)));
    }
    return LS_OK;
}

int ls__attrs_text(const ls_op *op, const ls_attrs *attrs, char *text, size_t size) {
    int used = 0;
    if (size) text[0] = 0;
    for (const ls_attr *row = op->attrs; row && row->name; row++) {
        size_t at = (size_t)used < size ? (size_t)used : size;
        used += snprintf(text + at, size - at, "%s%s=", used ? "; " : "", row->name);
        for (int i = 0; i < ls__attr_count(row); i++) {
            double value = ls__attr_get(row, attrs, i);
            at = (size_t)used < size ? (size_t)used : size;
            if (row->choices)
                used += snprintf(text + at, size - at, "%s", row->choices[(int)value]);
            else
                used += snprintf(text + at, size - at, is_real(row->type) ? "%s%.17g" : "%s%.0f", i ? "," : "", value);
        }
    }
    return used;
}
