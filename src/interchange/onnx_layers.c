// Layers of ONNX over vectors and element by element: dense layers, normalizations, activations,
// arithmetic.
#include <limits.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "interchange/onnx.h"

// --- dense layers ----------------------------------------------------------------------------------------------------

// Adds a dense layer of weights that ONNX has at (row, unit) = row * by_row + unit * by_unit. `bias` NULL: it has none.
static ls_status dense(onnx_reader *r, const onnx_value *x, const onnx_tensor *kernel, int64_t by_row, int64_t by_unit,
                       int64_t rows, int64_t units, double scale, const onnx_tensor *bias, double bias_scale) {
    char name[ONNX_NAME];
    int head = r->node == &r->model->nodes[r->head < 0 ? 0 : r->head] && r->head >= 0;
    int anew = head && r->config->classes && r->config->classes != units;
    ls_dense_attrs a = {
        .name = onnx_name(r, kernel, name), .units = anew ? r->config->classes : (int)units, .no_bias = bias == NULL};
    if (units < 1 || units > INT_MAX || x->dim[x->ndim - 1] != rows)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its weights take %lld values, and its input has %lld",
                          (long long)rows, (long long)x->dim[x->ndim - 1]);
    ls_value y = ls_dense(r->graph, x->value, &a);
    if (y != LS_NO_VALUE && !anew) {
        float *values;
        LS_TRY(ls_calloc(rows * units, sizeof *values, &values));
        for (int64_t i = 0; i < rows; i++)
            for (int64_t u = 0; u < units; u++)
                values[i * units + u] = (float)(scale * (double)kernel->floats[onnx_row(x, i) * by_row + u * by_unit]);
        onnx_begin_with(r, y, 0, values);
    }
    if (y != LS_NO_VALUE && bias && !anew) {
        if ((bias->count != units && bias->count != 1) || !bias->floats)
            return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED, "its bias has %lld elements for %lld units",
                              (long long)bias->count, (long long)units);
        float *values;
        LS_TRY(ls_calloc(units, sizeof *values, &values));
        for (int64_t u = 0; u < units; u++)
            values[u] = (float)(bias_scale * (double)bias->floats[bias->count == 1 ? 0 : u]);
        onnx_begin_with(r, y, 1, values);
    }
    onnx_value like = *x;
    like.flat.ndim = 0;
    return onnx_give(r, 0, y, &like);
}

static ls_status need_vectors(onnx_reader *r, const onnx_value *x, const onnx_tensor *kernel) {
    if ((x->ndim == 2 || x->ndim == 3) && onnx_is_plain(x) && kernel->ndim == 2 && kernel->floats && kernel->count > 0)
        return LS_OK;
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                      "a dense layer takes vectors, or sequences of them, times a matrix; its input has %d dimensions, "
                      "its weights have %d",
                      x->ndim, kernel->ndim);
}

static ls_status gemm(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *kernel, *bias = NULL;
    int across = (int)onnx_int(n, "transB", 0);
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &kernel));
    if (onnx_in(r, 2)) LS_TRY(onnx_constant(r, 2, &bias));
    LS_TRY(need_vectors(r, x, kernel));
    if (onnx_int(n, "transA", 0) || x->ndim != 2)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "its input is transposed, or no list of vectors");
    int64_t rows = kernel->dim[across ? 1 : 0], units = kernel->dim[across ? 0 : 1];
    return dense(r, x, kernel, across ? 1 : units, across ? rows : 1, rows, units, onnx_real(n, "alpha", 1), bias,
                 onnx_real(n, "beta", 1));
}

// The constant that the only reader of output 0 adds, one value for each unit.
static ls_status find_bias(onnx_reader *r, int64_t units, onnx_node **add, onnx_tensor **bias) {
    *bias = NULL;
    *add = onnx_only_reader(r, 0, "Add");
    for (int k = 0; *add && k < 2 && (*add)->input_count == 2; k++) {
        onnx_tensor *t = (*add)->inputs[k] >= 0 ? r->model->values[(*add)->inputs[k]].tensor : NULL;
        if (!t || t->ndim != 1 || t->count != units) continue;
        *bias = t;
        return onnx_values(r->model, t);
    }
    return LS_OK;
}

static ls_status matmul(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *kernel, *bias;
    onnx_node *add;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &kernel));
    LS_TRY(need_vectors(r, x, kernel));
    LS_TRY(find_bias(r, kernel->dim[1], &add, &bias));
    LS_TRY(dense(r, x, kernel, kernel->dim[1], 1, kernel->dim[0], kernel->dim[1], 1, bias, 1));
    if (!bias) return LS_OK;
    const onnx_value *y = onnx_out(r, 0);
    add->done = 1;
    r->node = add;
    onnx_same(r, 0, y);
    return LS_OK;
}

// --- normalizations --------------------------------------------------------------------------------------------------

static ls_status batch_norm(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *t[4];
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    for (int k = 0; k < 4; k++) LS_TRY(onnx_constant(r, k + 1, &t[k]));
    if (x->ndim < 2 || x->axis[1] != x->ndim - 1 || x->flat.ndim)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "the channels of its input lie elsewhere than in axis 1");
    // Without a scale: what is exported then are ones, which their name tells.
    size_t length = strlen(t[0]->name);
    int no_scale = length > 5 && strcmp(t[0]->name + length - 5, "/ones") == 0;
    for (int64_t i = 0; i < t[0]->count && t[0]->floats && no_scale; i++) no_scale = t[0]->floats[i] == 1;
    double asked = r->config->batch_norm_momentum;
    ls_batch_norm_attrs a = {.name = onnx_name(r, t[0], name),
                             .momentum = asked > 0 && asked < 1 ? (float)asked : onnx_real(n, "momentum", 0.9f),
                             .epsilon = onnx_real(n, "epsilon", 1e-5f),
                             .no_scale = no_scale};
    ls_value y = ls_batch_norm(r->graph, x->value, &a);
    for (int k = no_scale; k < 4; k++) LS_TRY(onnx_begin(r, y, k - no_scale, t[k], NULL));
    return onnx_give(r, 0, y, x);
}

static ls_status begin_scale_and_shift(onnx_reader *r, ls_value y) {
    for (int k = 0; k < 2; k++) {
        onnx_tensor *t;
        if (!onnx_in(r, k + 1)) continue;
        LS_TRY(onnx_constant(r, k + 1, &t));
        LS_TRY(onnx_begin(r, y, k, t, NULL));
    }
    return LS_OK;
}

static ls_status layer_norm(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *scale;
    char name[ONNX_NAME];
    int axis;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &scale));
    LS_TRY(onnx_axis(r, onnx_int(n, "axis", -1), x->ndim, &axis));
    if (axis != x->ndim - 1 || x->axis[axis] != x->ndim - 1 || x->flat.ndim)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "it goes over more than the channels of its input");
    ls_value y = ls_layer_norm(
        r->graph, x->value,
        &(ls_layer_norm_attrs){.name = onnx_name(r, scale, name), .epsilon = onnx_real(n, "epsilon", 1e-5f)});
    LS_TRY(begin_scale_and_shift(r, y));
    return onnx_give(r, 0, y, x);
}

static ls_status group_norm(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *scale;
    char name[ONNX_NAME];
    int instance = n->op[0] == 'I';
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &scale));
    LS_TRY(onnx_need_images(r, x));
    int64_t groups = instance ? -1 : onnx_int(n, "num_groups", 0);
    if (groups != -1 && (groups < 1 || groups > INT_MAX || r->model->opset < 21))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "%lld groups; they are read from opset 21 on",
                          (long long)groups);
    ls_value y = ls_group_norm(
        r->graph, x->value,
        &(ls_group_norm_attrs){
            .name = onnx_name(r, scale, name), .groups = (int)groups, .epsilon = onnx_real(n, "epsilon", 1e-5f)});
    LS_TRY(begin_scale_and_shift(r, y));
    return onnx_give(r, 0, y, x);
}

// --- activations -----------------------------------------------------------------------------------------------------

static ls_status activate(onnx_reader *r, ls_activation activation) {
    onnx_value *x;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    const char *own = onnx_name(r, NULL, name);
    ls_value y = activation == LS_ACTIVATION_RELU ? ls_relu(r->graph, x->value, own)
                                                  : ls_activate(r->graph, x->value, activation, own);
    if (onnx_out(r, 0))
        onnx_out(r, 0)->not_negative = activation == LS_ACTIVATION_RELU || activation == LS_ACTIVATION_RELU6 ||
                                       activation == LS_ACTIVATION_SIGMOID || activation == LS_ACTIVATION_SOFTMAX;
    return onnx_give(r, 0, y, x);
}

static ls_status relu(onnx_reader *r, onnx_node *n) { return activate(r, LS_ACTIVATION_RELU); }
static ls_status hyperbolic(onnx_reader *r, onnx_node *n) { return activate(r, LS_ACTIVATION_TANH); }

static ls_status gelu(onnx_reader *r, onnx_node *n) {
    if (onnx_is(n, "approximate", "none", "none")) return activate(r, LS_ACTIVATION_GELU);
    return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "only the exact one is read");
}

// x sigmoid(x) is one activation.
static ls_status sigmoid(onnx_reader *r, onnx_node *n) {
    onnx_node *mul = onnx_only_reader(r, 0, "Mul");
    onnx_value *x;
    LS_TRY(onnx_data(r, 0, &x));
    if (!mul || mul->input_count != 2 || (mul->inputs[0] != n->inputs[0] && mul->inputs[1] != n->inputs[0]))
        return activate(r, LS_ACTIVATION_SIGMOID);
    onnx_out(r, 0)->pending = 1;
    return LS_OK;
}

static ls_status clip(onnx_reader *r, onnx_node *n) {
    double low = -1, high = -1;
    if (onnx_in(r, 1)) LS_TRY(onnx_scalar(r, 1, &low));
    if (onnx_in(r, 2)) LS_TRY(onnx_scalar(r, 2, &high));
    if (low == 0 && high == 6) return activate(r, LS_ACTIVATION_RELU6);
    if (low == 0 && !onnx_in(r, 2)) return activate(r, LS_ACTIVATION_RELU);
    return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "values are clipped to 0 and 6, or below 0");
}

// The loss of a classifier takes what comes before its softmax.
static ls_status softmax(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    int axis;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_axis(r, onnx_int(n, "axis", -1), x->ndim, &axis));
    if (x->axis[axis] != x->ndim - 1 || x->flat.ndim)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "it goes over another axis than the channels");
    const onnx_value *y = onnx_out(r, 0);
    if (y && y->output && y->uses == 1 && r->model->output_count == 1) {
        onnx_same(r, 0, x);
        return LS_OK;
    }
    if (n->op[0] == 'S') return activate(r, LS_ACTIVATION_SOFTMAX);
    return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "it is read as the last operation alone");
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

static ls_status same_places(onnx_reader *r, const onnx_value *a, const onnx_value *b) {
    if (a->ndim == b->ndim && memcmp(a->axis, b->axis, (size_t)a->ndim * sizeof *a->axis) == 0 &&
        a->flat.ndim == b->flat.ndim)
        return LS_OK;
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                      "its inputs have %d and %d dimensions, or theirs are in different orders", a->ndim, b->ndim);
}

// A single number on one side. Of what follows a factor an addend is taken along: both are one layer.
static ls_status rescale(onnx_reader *r, onnx_node *n, int constant) {
    double c, scale = 1, offset = 0, more;
    onnx_value *x;
    char name[ONNX_NAME];
    LS_TRY(onnx_scalar(r, constant, &c));
    LS_TRY(onnx_data(r, 1 - constant, &x));
    if (n->op[0] == 'M') scale = c;
    if (n->op[0] == 'D') scale = 1 / c;
    if (n->op[0] == 'A') offset = c;
    if (n->op[0] == 'S') offset = constant == 1 ? -c : c, scale = constant == 1 ? 1 : -1;
    if ((n->op[0] == 'D' && constant == 0) || scale == 0 || !isfinite(scale) || !isfinite(offset))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "a number over values, or times or plus %g", c);
    const char *own = onnx_name(r, NULL, name);
    onnx_node *first = n, *next = onnx_only_reader(r, 0, "Add");
    if (!next) next = onnx_only_reader(r, 0, "Sub");
    if (next && next->input_count == 2 && (n->op[0] == 'M' || n->op[0] == 'D') && next->inputs[0] == n->outputs[0]) {
        r->node = next;
        if (onnx_is_scalar(r, 1)) {
            LS_TRY(onnx_scalar(r, 1, &more));
            offset = next->op[0] == 'A' ? more : -more;
            next->done = 1;
        } else {
            r->node = first;
        }
    }
    ls_value y = ls_rescaling(r->graph, x->value, &(ls_rescaling_attrs){.name = own, .scale = scale, .offset = offset});
    return onnx_give(r, 0, y, x);
}

static int by_channel(const onnx_value *x, const onnx_value *s) {
    int fine = x->ndim == s->ndim && x->ndim > 2 && x->dim[1] == s->dim[1];
    for (int i = 2; i < s->ndim; i++) fine &= s->dim[i] == 1;
    return fine;
}

static ls_status multiply(onnx_reader *r, onnx_node *n) {
    onnx_value *a, *b;
    char name[ONNX_NAME];
    for (int k = 0; k < 2; k++)
        if (onnx_is_scalar(r, k)) return rescale(r, n, k);
    LS_TRY(onnx_data(r, 0, &a));
    LS_TRY(onnx_data(r, 1, &b));
    if (a->pending || b->pending) {
        const onnx_value *x = a->pending ? b : a;
        ls_value y = ls_activate(r->graph, x->value, LS_ACTIVATION_SILU, onnx_name(r, NULL, name));
        return onnx_give(r, 0, y, x);
    }
    LS_TRY(same_places(r, a, b));
    if (by_channel(b, a) && !by_channel(a, b)) {
        onnx_value *other = a;
        a = b;
        b = other;
    }
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = a->not_negative && b->not_negative;
    return onnx_give(r, 0, ls_multiply(r->graph, a->value, b->value, onnx_name(r, NULL, name)), a);
}

// A table with a row for each step of a sequence.
static ls_status add_positions(onnx_reader *r, const onnx_value *x, onnx_tensor *table) {
    char name[ONNX_NAME];
    onnx_tensor rows = *table;
    if (rows.ndim == 3 && rows.dim[0] == 1) rows.ndim = 2, rows.dim[0] = rows.dim[1], rows.dim[1] = rows.dim[2];
    if (x->ndim != 3 || !onnx_is_plain(x) || rows.ndim != 2 || rows.dim[0] != x->dim[1] || rows.dim[1] != x->dim[2])
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                          "constants are added to values as one number, as the bias of a dense layer, or as a row for "
                          "each step of a sequence");
    ls_value y = ls_position_embedding(
        r->graph, x->value,
        &(ls_position_embedding_attrs){.name = onnx_name(r, table, name), .rows = (int)rows.dim[0]});
    LS_TRY(onnx_begin(r, y, 0, &rows, NULL));
    return onnx_give(r, 0, y, x);
}

static ls_status add(onnx_reader *r, onnx_node *n) {
    onnx_value *a, *b;
    onnx_tensor *table;
    char name[ONNX_NAME];
    for (int k = 0; k < 2; k++) {
        if (onnx_is_scalar(r, k)) return rescale(r, n, k);
        if (!onnx_in(r, k) || !onnx_in(r, k)->tensor || n->op[0] != 'A') continue;
        LS_TRY(onnx_constant(r, k, &table));
        LS_TRY(onnx_data(r, 1 - k, &a));
        return add_positions(r, a, table);
    }
    if (n->op[0] != 'A')
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "one side of it is a single constant, or it is not read");
    LS_TRY(onnx_data(r, 0, &a));
    LS_TRY(onnx_data(r, 1, &b));
    LS_TRY(same_places(r, a, b));
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = a->not_negative && b->not_negative;
    return onnx_give(r, 0, ls_add(r->graph, a->value, b->value, onnx_name(r, NULL, name)), a);
}

static ls_status dropout(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    double rate = 0.5;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    if (onnx_in(r, 1)) LS_TRY(onnx_scalar(r, 1, &rate));
    if (rate == 0) {
        onnx_same(r, 0, x);
        return LS_OK;
    }
    ls_value y =
        ls_dropout(r->graph, x->value, &(ls_dropout_attrs){.name = onnx_name(r, NULL, name), .rate = (float)rate});
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, y, x);
}

onnx_builder onnx_find_layer(const onnx_node *n) {
    static const struct {
        const char *op;
        onnx_builder build;
    } rows[] = {{"Gemm", gemm},
                {"MatMul", matmul},
                {"BatchNormalization", batch_norm},
                {"LayerNormalization", layer_norm},
                {"GroupNormalization", group_norm},
                {"InstanceNormalization", group_norm},
                {"Relu", relu},
                {"Tanh", hyperbolic},
                {"Gelu", gelu},
                {"Sigmoid", sigmoid},
                {"Clip", clip},
                {"Softmax", softmax},
                {"LogSoftmax", softmax},
                {"Mul", multiply},
                {"Div", add},
                {"Add", add},
                {"Sub", add},
                {"Dropout", dropout}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !n->domain[0]; i++)
        if (strcmp(n->op, rows[i].op) == 0) return rows[i].build;
    return NULL;
}
