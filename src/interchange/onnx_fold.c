// Nodes whose inputs are constants: shapes that exporters compute step by step, and weights that
// are turned around before they are used. The number of samples, which no constant has, passes
// through as ONNX_BATCH; where somebody calculates with it the node is refused.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "interchange/onnx.h"

static ls_status with_batch(const onnx_reader *r) {
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                      "it calculates with the number of samples in a batch, which is open");
}

// A constant input that is small enough to be calculated with.
static ls_status small(onnx_reader *r, int k, onnx_tensor **out) {
    LS_TRY(onnx_constant(r, k, out));
    if ((*out)->count <= ONNX_SMALL) return LS_OK;
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED, "a constant of %lld elements is not calculated with",
                      (long long)(*out)->count);
}

static void copy_element(onnx_tensor *to, int64_t i, const onnx_tensor *from, int64_t k) {
    if (to->floats && from->floats)
        to->floats[i] = from->floats[k];
    else
        to->ints[i] = from->ints[k];
}

static int kind(const onnx_tensor *t) { return t->floats ? ONNX_FLOAT : t->type; }

static ls_status fold_constant(onnx_reader *r, onnx_node *n) {
    const onnx_attribute *a;
    onnx_tensor *t;
    int64_t none[1] = {0};
    if ((a = onnx_find(n, "value")) && a->tensor) {
        if (onnx_out(r, 0)) onnx_out(r, 0)->tensor = a->tensor;
        return LS_OK;
    }
    if ((a = onnx_find(n, "value_int"))) {
        LS_TRY(onnx_make(r, 0, ONNX_INT64, 0, none, &t));
        t->ints[0] = a->i;
        return LS_OK;
    }
    if ((a = onnx_find(n, "value_float"))) {
        LS_TRY(onnx_make(r, 0, ONNX_FLOAT, 0, none, &t));
        t->floats[0] = a->f;
        return LS_OK;
    }
    if ((a = onnx_find(n, "value_ints"))) {
        LS_TRY(onnx_make(r, 0, ONNX_INT64, 1, (int64_t[]){a->count}, &t));
        if (a->count) memcpy(t->ints, a->ints, (size_t)a->count * sizeof *t->ints);
        return LS_OK;
    }
    return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "a constant that is neither a tensor nor a number");
}

static ls_status fold_same(onnx_reader *r, onnx_node *n) {
    onnx_tensor *t;
    LS_TRY(onnx_constant(r, 0, &t));
    onnx_same(r, 0, onnx_in(r, 0));
    return LS_OK;
}

static ls_status fold_cast(onnx_reader *r, onnx_node *n) {
    int to = (int)onnx_int(n, "to", 0);
    int real = to == ONNX_FLOAT || to == ONNX_FLOAT16 || to == ONNX_DOUBLE || to == ONNX_BFLOAT16;
    onnx_tensor *t, *out;
    LS_TRY(onnx_constant(r, 0, &t));
    if (real == (t->floats != NULL)) return fold_same(r, n);
    LS_TRY(small(r, 0, &t));
    LS_TRY(onnx_make(r, 0, real ? ONNX_FLOAT : ONNX_INT64, t->ndim, t->dim, &out));
    for (int64_t i = 0; i < t->count; i++) {
        if (!real && !(fabsf(t->floats[i]) < 9e18f))
            return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "a number that no whole number holds");
        if (real && t->ints[i] == ONNX_BATCH) return with_batch(r);
        if (real)
            out->floats[i] = (float)t->ints[i];
        else
            out->ints[i] = (int64_t)t->floats[i];
    }
    return LS_OK;
}

static ls_status fold_shape(onnx_reader *r, onnx_node *n) {
    const onnx_value *v = onnx_in(r, 0);
    onnx_tensor *out;
    if (!v) return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "it has no input");
    int ndim = v->tensor ? v->tensor->ndim : v->ndim;
    const int64_t *dim = v->tensor ? v->tensor->dim : v->dim;
    int64_t start = onnx_int(n, "start", 0), end = onnx_int(n, "end", ndim);
    if (start < 0) start += ndim;
    if (end < 0) end += ndim;
    if (end > ndim) end = ndim;
    if (start < 0) start = 0;
    if (end < start) end = start;
    LS_TRY(onnx_make(r, 0, ONNX_INT64, 1, (int64_t[]){end - start}, &out));
    for (int64_t i = start; i < end; i++) out->ints[i - start] = dim[i];
    return LS_OK;
}

// Rows of a constant along its first axis, or single elements of a list.
static ls_status fold_gather(onnx_reader *r, onnx_node *n) {
    onnx_tensor *t, *which, *out;
    int axis;
    int64_t dim[ONNX_DIMS];
    LS_TRY(onnx_constant(r, 0, &t));
    LS_TRY(small(r, 1, &which));
    LS_TRY(onnx_axis(r, onnx_int(n, "axis", 0), t->ndim, &axis));
    if (axis != 0 || !which->ints || which->ndim + t->ndim - 1 > ONNX_DIMS)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "of constants only rows are picked, along axis 0");
    int64_t rows = t->dim[0], each = rows ? t->count / rows : 0;
    int ndim = which->ndim;
    memcpy(dim, which->dim, sizeof dim);
    for (int i = 1; i < t->ndim; i++) dim[ndim++] = t->dim[i];
    LS_TRY(onnx_make(r, 0, kind(t), ndim, dim, &out));
    for (int64_t i = 0; i < which->count; i++) {
        int64_t row = which->ints[i] < 0 ? which->ints[i] + rows : which->ints[i];
        if (row < 0 || row >= rows)
            return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "row %lld of %lld", (long long)which->ints[i],
                              (long long)rows);
        for (int64_t e = 0; e < each; e++) copy_element(out, i * each + e, t, row * each + e);
    }
    return LS_OK;
}

// The same elements under another shape.
static ls_status reshaped(onnx_reader *r, onnx_tensor *t, int ndim, const int64_t *dim) {
    onnx_tensor *out;
    onnx_value *v = onnx_out(r, 0);
    int64_t count = 1;
    for (int i = 0; i < ndim; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(count, dim[i], &count)) count = -1;
    if (count != t->count)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                          "a constant of %lld elements does not take the shape asked for", (long long)t->count);
    LS_TRY(onnx_alloc(r->model, 1, sizeof *out, &out));
    *out = *t;
    out->ndim = ndim;
    for (int i = 0; i < ndim; i++) out->dim[i] = dim[i];
    if (v) v->tensor = out;
    return LS_OK;
}

static ls_status fold_unsqueeze(onnx_reader *r, onnx_node *n) {
    int64_t axes[ONNX_DIMS], dim[ONNX_DIMS];
    onnx_tensor *t;
    int count, axis, from = 0, inserted[ONNX_DIMS] = {0};
    LS_TRY(onnx_constant(r, 0, &t));
    LS_TRY(onnx_list(r, "axes", 1, ONNX_DIMS, axes, &count));
    if (t->ndim + count > ONNX_DIMS)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "a constant of more than %d dimensions", ONNX_DIMS);
    for (int i = 0; i < count; i++) {
        LS_TRY(onnx_axis(r, axes[i], t->ndim + count, &axis));
        if (inserted[axis]) return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "axis %d is named twice", axis);
        inserted[axis] = 1;
    }
    for (int i = 0; i < t->ndim + count; i++) dim[i] = inserted[i] ? 1 : t->dim[from++];
    return reshaped(r, t, t->ndim + count, dim);
}

static ls_status fold_squeeze(onnx_reader *r, onnx_node *n) {
    int64_t axes[ONNX_DIMS], dim[ONNX_DIMS];
    onnx_tensor *t;
    int count, axis, ndim = 0, gone[ONNX_DIMS] = {0};
    LS_TRY(onnx_constant(r, 0, &t));
    LS_TRY(onnx_list(r, "axes", 1, ONNX_DIMS, axes, &count));
    for (int i = 0; i < count; i++) {
        LS_TRY(onnx_axis(r, axes[i], t->ndim, &axis));
        gone[axis] = 1;
    }
    for (int i = 0; i < t->ndim; i++)
        if (count ? !gone[i] : t->dim[i] != 1) dim[ndim++] = t->dim[i];
    return reshaped(r, t, ndim, dim);
}

static ls_status fold_reshape(onnx_reader *r, onnx_node *n) {
    int64_t dim[ONNX_DIMS], known = 1;
    onnx_tensor *t;
    int ndim, open = -1;
    LS_TRY(onnx_constant(r, 0, &t));
    LS_TRY(onnx_list(r, "shape", 1, ONNX_DIMS, dim, &ndim));
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == ONNX_BATCH) return with_batch(r);
        if (dim[i] == 0 && i < t->ndim && !onnx_int(n, "allowzero", 0)) dim[i] = t->dim[i];
        if (dim[i] == -1) open = i;
        if (dim[i] > 0 && __builtin_mul_overflow(known, dim[i], &known)) known = 0;
    }
    if (open >= 0 && known > 0) dim[open] = t->count / known;
    return reshaped(r, t, ndim, dim);
}

static ls_status fold_transpose(onnx_reader *r, onnx_node *n) {
    const onnx_attribute *a = onnx_find(n, "perm");
    int64_t dim[ONNX_DIMS], step[ONNX_DIMS], at[ONNX_DIMS] = {0}, own[ONNX_DIMS], size = 1, place = 0;
    onnx_tensor *t, *out;
    int order[ONNX_DIMS], seen = 0;
    LS_TRY(onnx_constant(r, 0, &t));
    for (int i = 0; i < t->ndim; i++) {
        int64_t from = a && a->count == t->ndim ? a->ints[i] : t->ndim - 1 - i;
        if (from >= 0 && from < t->ndim) seen |= 1 << from;
        order[i] = (int)from;
    }
    if (seen != (1 << t->ndim) - 1 || (a && a->count != t->ndim))
        return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "its perm is no order of %d axes", t->ndim);
    for (int i = t->ndim - 1; i >= 0; i--) own[i] = size, size *= t->dim[i];
    for (int i = 0; i < t->ndim; i++) dim[i] = t->dim[order[i]], step[i] = own[order[i]];
    LS_TRY(onnx_make(r, 0, kind(t), t->ndim, dim, &out));
    out->name = t->name;  // weights keep theirs
    for (int64_t e = 0; e < out->count; e++) {
        copy_element(out, e, t, place);
        for (int i = t->ndim - 1; i >= 0; i--) {
            place += step[i];
            if (++at[i] < dim[i]) break;
            place -= step[i] * at[i];
            at[i] = 0;
        }
    }
    return LS_OK;
}

// Of lists, along their one axis.
static ls_status fold_concat(onnx_reader *r, onnx_node *n) {
    onnx_tensor *t, *first, *out;
    int64_t count = 0;
    LS_TRY(small(r, 0, &first));
    for (int k = 0; k < n->input_count; k++) {
        LS_TRY(small(r, k, &t));
        if (t->ndim != 1 || !t->floats != !first->floats)
            return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "of constants only lists are put together");
        count += t->count;
    }
    LS_TRY(onnx_make(r, 0, kind(first), 1, &count, &out));
    count = 0;
    for (int k = 0; k < n->input_count; k++) {
        LS_TRY(small(r, k, &t));
        for (int64_t i = 0; i < t->count; i++) copy_element(out, count++, t, i);
    }
    return LS_OK;
}

// Of a constant along its first axis.
static ls_status fold_slice(onnx_reader *r, onnx_node *n) {
    int64_t start, end, axis = 0, step = 1, dim[ONNX_DIMS];
    int counts[4];
    onnx_tensor *t, *out;
    LS_TRY(onnx_constant(r, 0, &t));
    LS_TRY(onnx_list(r, "starts", 1, 1, &start, &counts[0]));
    LS_TRY(onnx_list(r, "ends", 2, 1, &end, &counts[1]));
    LS_TRY(onnx_list(r, "axes", 3, 1, &axis, &counts[2]));
    LS_TRY(onnx_list(r, "steps", 4, 1, &step, &counts[3]));
    if (counts[0] != 1 || counts[1] != 1 || axis != 0 || step != 1 || t->ndim < 1)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "of constants only rows are cut out, along axis 0");
    int64_t rows = t->dim[0], each = rows ? t->count / rows : 0;
    if (start == ONNX_BATCH || end == ONNX_BATCH) return with_batch(r);
    if (start < 0) start += rows;
    if (end < 0) end += rows;
    start = start < 0 ? 0 : start > rows ? rows : start;
    end = end < start ? start : end > rows ? rows : end;
    memcpy(dim, t->dim, sizeof dim);
    dim[0] = end - start;
    LS_TRY(onnx_make(r, 0, kind(t), t->ndim, dim, &out));
    out->name = t->name;
    for (int64_t i = 0; i < out->count; i++) copy_element(out, i, t, start * each + i);
    return LS_OK;
}

// Two constants, of which one may be a single element.
static ls_status fold_arithmetic(onnx_reader *r, onnx_node *n) {
    onnx_tensor *a, *b, *out;
    LS_TRY(small(r, 0, &a));
    LS_TRY(small(r, 1, &b));
    if ((a->count != b->count && a->count != 1 && b->count != 1) || !a->floats != !b->floats)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "constants of different shapes or types");
    const onnx_tensor *shape = a->count >= b->count ? a : b;
    LS_TRY(onnx_make(r, 0, kind(a), shape->ndim, shape->dim, &out));
    for (int64_t i = 0; i < out->count; i++) {
        int64_t x = a->count == 1 ? 0 : i, y = b->count == 1 ? 0 : i;
        char op = n->op[0] == 'S' ? '-' : n->op[0] == 'A' ? '+' : n->op[0] == 'M' ? '*' : '/';
        if (out->floats && a->floats && b->floats) {
            float p = a->floats[x], q = b->floats[y];
            out->floats[i] = op == '-' ? p - q : op == '+' ? p + q : op == '*' ? p * q : p / q;
            continue;
        }
        int64_t p = a->ints[x], q = b->ints[y];
        if (p == ONNX_BATCH || q == ONNX_BATCH) return with_batch(r);
        int wrong = op == '-'   ? __builtin_sub_overflow(p, q, &out->ints[i])
                    : op == '+' ? __builtin_add_overflow(p, q, &out->ints[i])
                    : op == '*' ? __builtin_mul_overflow(p, q, &out->ints[i])
                                : q == 0;
        if (wrong) return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "a whole number that does not fit, or 1 / 0");
        if (op == '/') out->ints[i] = p / q;
    }
    return LS_OK;
}

// As recurrent layers' first states are made: a batch of them counts as one.
static ls_status fold_filled(onnx_reader *r, onnx_node *n) {
    const onnx_attribute *a = onnx_find(n, "value");
    int64_t dim[ONNX_DIMS], count = 1;
    onnx_tensor *out;
    int ndim;
    LS_TRY(onnx_list(r, "shape", 0, ONNX_DIMS, dim, &ndim));
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == ONNX_BATCH) dim[i] = 1;
        if (dim[i] < 0 || __builtin_mul_overflow(count, dim[i], &count) || count > ONNX_SMALL)
            return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "a constant of more than %d elements", ONNX_SMALL);
    }
    if (a && a->tensor) LS_TRY(onnx_values(r->model, a->tensor));
    int whole = a && a->tensor && !a->tensor->floats;
    LS_TRY(onnx_make(r, 0, whole ? ONNX_INT64 : ONNX_FLOAT, ndim, dim, &out));
    for (int64_t i = 0; i < count && a && a->tensor && a->tensor->count == 1; i++) copy_element(out, i, a->tensor, 0);
    return LS_OK;
}

// A single number in another shape; a batch of it counts as one, as above.
static ls_status fold_expand(onnx_reader *r, onnx_node *n) {
    int64_t dim[ONNX_DIMS];
    onnx_tensor *t, *out;
    int ndim;
    LS_TRY(small(r, 0, &t));
    LS_TRY(onnx_list(r, "shape", 1, ONNX_DIMS, dim, &ndim));
    for (int i = 0; i < ndim; i++)
        if (dim[i] == ONNX_BATCH) dim[i] = 1;
    LS_TRY(onnx_make(r, 0, kind(t), ndim, dim, &out));
    if (t->count != 1 || out->count > ONNX_SMALL)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "of constants only single numbers are expanded");
    for (int64_t i = 0; i < out->count; i++) copy_element(out, i, t, 0);
    return LS_OK;
}

onnx_builder onnx_find_fold(const onnx_node *n) {
    static const struct {
        const char *op;
        onnx_builder fold;
    } rows[] = {{"Constant", fold_constant},   {"Identity", fold_same},
                {"Cast", fold_cast},           {"Shape", fold_shape},
                {"Gather", fold_gather},       {"Unsqueeze", fold_unsqueeze},
                {"Squeeze", fold_squeeze},     {"Reshape", fold_reshape},
                {"Transpose", fold_transpose}, {"Concat", fold_concat},
                {"Slice", fold_slice},         {"Add", fold_arithmetic},
                {"Sub", fold_arithmetic},      {"Mul", fold_arithmetic},
                {"Div", fold_arithmetic},      {"ConstantOfShape", fold_filled},
                {"Expand", fold_expand}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !n->domain[0]; i++)
        if (strcmp(n->op, rows[i].op) == 0) return rows[i].fold;
    return NULL;
}
