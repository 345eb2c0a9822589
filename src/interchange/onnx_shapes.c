// Operations of ONNX that move values or rename their axes. What only renames vanishes: a value
// keeps where its axes lie in the graph (onnx.h). Images are (C, H, W) in ONNX and (H, W, C) in
// the graph, so that their elements have two orders; rows of flattened ones remember that.
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "interchange/onnx.h"

// Whether elements have one order in ONNX and in the graph.
static int in_order(const onnx_value *x) {
    int last = -1;
    for (int i = 0; i < x->ndim; i++) {
        if (x->dim[i] == 1) continue;
        if (x->axis[i] < last) return 0;
        last = x->axis[i];
    }
    return x->flat.ndim == 0;
}

static ls_status no_reshape(const onnx_reader *r) {
    return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                      "its result mixes the batch, or pixels and channels of images, in a way that the graph's layers "
                      "do not");
}

static ls_value to_sample(onnx_reader *r, ls_value value, ls_shape sample) {
    ls_reshape_attrs a = {.name = NULL};
    if (ls_shape_equal(ls__value_type(r->graph, value)->shape, sample)) return value;
    if (sample.ndim == 1) return ls_flatten(r->graph, value, NULL);
    for (int i = 0; i < sample.ndim; i++) a.shape[i] = sample.dim[i] > INT_MAX ? 0 : (int)sample.dim[i];
    return ls_reshape(r->graph, value, &a);
}

// Puts the units of a dense layer's parameter (rows, units) into the graph's order of an image that ONNX has as (C, H, W).
static ls_status turn_units(onnx_reader *r, const ls_param *p, const onnx_value *image) {
    int64_t units = p->shape.dim[p->shape.ndim - 1];
    float *row;
    if (!p->initial) return LS_OK;
    LS_TRY(onnx_alloc(r->model, units, sizeof *row, &row));
    for (float *at = p->initial, *end = at + ls_shape_count(p->shape); at < end; at += units) {
        for (int64_t i = 0; i < units; i++) row[i] = at[onnx_row(image, i)];
        memcpy(at, row, (size_t)units * sizeof *row);
    }
    return LS_OK;
}

// A generator's images: vectors of a dense layer, with an activation perhaps, become images (C, H, W). The layer's units take the graph's
// order. *done 0: x is no such value.
static ls_status dense_image(onnx_reader *r, const onnx_value *x, const ls_shape *sample, int *done) {
    static const char *const element_wise[] = {"Relu", "Tanh", "Sigmoid", "Clip", "Dropout", "Identity"};
    onnx_value image = {.flat = *sample};
    const onnx_value *v = x;
    const ls_node *n;
    *done = 0;
    for (;;) {
        n = ls__value_node(r->graph, v->value);
        if (v->uses != 1 || v->output || v->maker < 0) return LS_OK;
        if (strcmp(ls_op_name(n->op), "dense") == 0) break;
        const onnx_node *from = &r->model->nodes[v->maker];
        int passes = 0;
        for (size_t i = 0; i < sizeof element_wise / sizeof element_wise[0]; i++)
            passes |= strcmp(from->op, element_wise[i]) == 0 && !from->domain[0];
        if (!passes) return LS_OK;
        v = &r->model->values[from->inputs[0]];
    }
    for (int k = 0; k < n->param_count; k++) LS_TRY(turn_units(r, &r->graph->store->params[n->params[k]], &image));
    *done = 1;
    return onnx_give_images(r, 0, to_sample(r, x->value, *sample));
}

// Output 0 is x with other dimensions, of which the first is the batch's.
static ls_status reshape_to(onnx_reader *r, const onnx_value *x, int ndim, const int64_t *dim) {
    int same = ndim == x->ndim, wide = 0;
    for (int i = 1; i < ndim; i++) same &= i < x->ndim && dim[i] == x->dim[i], wide += dim[i] != 1;
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    if (same) {
        onnx_same(r, 0, x);
        return LS_OK;
    }
    if (x->axis[0] != 0 || ndim < 2 || ndim > LS_MAX_DIMS) return no_reshape(r);
    ls_shape sample = {.ndim = ndim - 1};
    if (in_order(x)) {
        int images = ndim >= 4 && wide <= 1, done = 0;  // a single pixel, or a single channel
        for (int i = 1; i < ndim; i++) sample.dim[i == 1 ? ndim - 2 : i - 2] = dim[i];
        if (ndim >= 4 && !images && x->ndim == 2 && !onnx_only_reader(r, 0, "Transpose"))
            LS_TRY(dense_image(r, x, &sample, &done));
        if (done) return LS_OK;
        for (int i = 1; i < ndim && !images; i++) sample.dim[i - 1] = dim[i];
        ls_value y = to_sample(r, x->value, sample);
        return images ? onnx_give_images(r, 0, y) : onnx_give_plain(r, 0, y);
    }
    if (ndim != 2 || !onnx_is_images(x)) return no_reshape(r);
    ls_shape image = ls__value_type(r->graph, x->value)->shape;
    LS_TRY(onnx_give_plain(r, 0, ls_flatten(r->graph, x->value, NULL)));
    if (onnx_out(r, 0)) onnx_out(r, 0)->flat = image;
    return LS_OK;
}

static int64_t elements(const onnx_reader *r, const onnx_value *x) {
    return ls_shape_count(ls__value_type(r->graph, x->value)->shape);
}

static ls_status flatten(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    LS_TRY(onnx_data(r, 0, &x));
    if (onnx_int(n, "axis", 1) != 1) return no_reshape(r);
    return reshape_to(r, x, 2, (int64_t[]){ONNX_BATCH, elements(r, x)});
}

// The states of a recurrent layer (steps, batch, directions, units) without the axis of directions, of which two are behind each other, as the
// graph's value has them.
static ls_status join_directions(onnx_reader *r, const onnx_value *x, int ndim, const int64_t *dim) {
    onnx_value to = *x;
    int at = ndim - 1, fits = ndim == x->ndim - 1 && ndim >= 2 && x->axis[at] < 0 && x->axis[ndim] > 0;
    for (int i = 0; i < at && fits; i++) fits = dim[i] == 0 || dim[i] == -1 || dim[i] == x->dim[i] || x->axis[i] == 0;
    fits = fits && (dim[at] == -1 || dim[at] == x->dim[at] * x->dim[ndim]);
    if (!fits) return no_reshape(r);
    to.ndim = ndim;
    to.axis[at] = x->axis[ndim];
    return onnx_give(r, 0, x->value, &to);
}

static ls_status reshape(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    int64_t dim[ONNX_DIMS], known = 1, all;
    int ndim, open = 0, where = 0;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "shape", 1, ONNX_DIMS, dim, &ndim));
    for (int i = 0; i < x->ndim; i++)
        if (x->axis[i] == ONNX_HALVES || x->axis[0] > 0) return join_directions(r, x, ndim, dim);
    all = elements(r, x);
    for (int i = 0; i < ndim; i++) {
        if (dim[i] == 0 && i < x->ndim && !onnx_int(n, "allowzero", 0)) dim[i] = x->dim[i];
        if (i > 0 && dim[i] == -1) open++, where = i;
        if (i > 0 && (dim[i] < -1 || dim[i] == 0)) return no_reshape(r);
        if (i > 0 && dim[i] > 0 && __builtin_mul_overflow(known, dim[i], &known)) return no_reshape(r);
    }
    // The first is the batch, whether it is told by a sign or by a number.
    if (open == 1 && dim[0] != -1 && all % known == 0) dim[where] = all / known, known = all;
    if (ndim < 2 || known != all || open > 1 || (open && dim[0] == -1)) return no_reshape(r);
    dim[0] = ONNX_BATCH;
    return reshape_to(r, x, ndim, dim);
}

static ls_status squeeze(onnx_reader *r, onnx_node *n) {
    onnx_value *x, to;
    int64_t axes[ONNX_DIMS];
    int count, axis, gone[ONNX_DIMS] = {0}, unmapped = 1;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "axes", 1, ONNX_DIMS, axes, &count));
    for (int i = 0; i < x->ndim && count == 0; i++) gone[i] = x->dim[i] == 1;
    for (int i = 0; i < count; i++) {
        LS_TRY(onnx_axis(r, axes[i], x->ndim, &axis));
        if (x->dim[axis] != 1) return no_reshape(r);
        gone[axis] = 1;
    }
    to = *x;
    to.ndim = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (gone[i]) unmapped &= x->axis[i] < 0;
        if (gone[i]) continue;
        to.dim[to.ndim] = x->dim[i];
        to.axis[to.ndim++] = x->axis[i];
    }
    if (!unmapped) return reshape_to(r, x, to.ndim, to.dim);
    onnx_same(r, 0, &to);
    return LS_OK;
}

static ls_status unsqueeze(onnx_reader *r, onnx_node *n) {
    onnx_value *x, to;
    int64_t axes[ONNX_DIMS];
    int count, axis, inserted[ONNX_DIMS] = {0}, from = 0;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "axes", 1, ONNX_DIMS, axes, &count));
    if (x->ndim + count > ONNX_DIMS) return no_reshape(r);
    for (int i = 0; i < count; i++) {
        LS_TRY(onnx_axis(r, axes[i], x->ndim + count, &axis));
        inserted[axis] = 1;
    }
    to = *x;
    to.ndim = x->ndim + count;
    for (int i = 0; i < to.ndim; i++) {
        if (!inserted[i] && from == x->ndim) return no_reshape(r);  // an axis was named twice
        to.axis[i] = inserted[i] ? -1 : x->axis[from];
        to.dim[i] = inserted[i] ? 1 : x->dim[from];
        from += !inserted[i];
    }
    if (to.ndim >= 4 && to.axis[0] == 0 && in_order(x)) return reshape_to(r, x, to.ndim, to.dim);
    onnx_same(r, 0, &to);
    return LS_OK;
}

static ls_status transpose(onnx_reader *r, onnx_node *n) {
    const onnx_attribute *a = onnx_find(n, "perm");
    onnx_value *x, to;
    int seen = 0;
    LS_TRY(onnx_data(r, 0, &x));
    to = *x;
    for (int i = 0; i < x->ndim; i++) {
        int64_t from = a && a->count == x->ndim ? a->ints[i] : x->ndim - 1 - i;
        if (from < 0 || from >= x->ndim) break;
        seen |= 1 << from;
        to.axis[i] = x->axis[from];
        to.dim[i] = x->dim[from];
    }
    if (seen != (1 << x->ndim) - 1 || (a && a->count != x->ndim))
        return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "its perm is no order of %d axes", x->ndim);
    onnx_same(r, 0, &to);
    return LS_OK;
}

static ls_status same(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    LS_TRY(onnx_data(r, 0, &x));
    onnx_same(r, 0, x);
    return LS_OK;
}

static ls_status cast(onnx_reader *r, onnx_node *n) {
    int64_t to = onnx_int(n, "to", 0);
    onnx_value *x;
    LS_TRY(onnx_data(r, 0, &x));
    int real = to == ONNX_FLOAT || to == ONNX_FLOAT16 || to == ONNX_DOUBLE || to == ONNX_BFLOAT16;
    if (real != (ls__value_type(r->graph, x->value)->dtype == LS_DTYPE_F32) ||
        (!real && to != ONNX_INT32 && to != ONNX_INT64))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "floating numbers do not become whole ones, or the "
                          "other way round");
    onnx_same(r, 0, x);
    return LS_OK;
}

static ls_status concat(onnx_reader *r, onnx_node *n) {
    ls_value x[LS_MAX_INPUTS];
    onnx_value *first, *v;
    char name[ONNX_NAME];
    int axis, count = 0, not_negative = 1;
    LS_TRY(onnx_data(r, 0, &first));
    LS_TRY(onnx_axis(r, onnx_int(n, "axis", 0), first->ndim, &axis));
    for (int k = 0; k < n->input_count; k++) {
        LS_TRY(onnx_data(r, k, &v));
        if (v->ndim != first->ndim || memcmp(v->axis, first->axis, (size_t)v->ndim * sizeof *v->axis) != 0 ||
            v->flat.ndim || first->axis[axis] <= 0)
            return no_reshape(r);
        not_negative &= v->not_negative;
        if (count == LS_MAX_INPUTS) {
            x[0] = ls_concat(r->graph, x, count, &(ls_concat_attrs){.axis = first->axis[axis]});
            if (x[0] == LS_NO_VALUE) return onnx_give(r, 0, x[0], first);
            count = 1;
        }
        x[count++] = v->value;
    }
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = not_negative;
    if (count == 1) {
        onnx_same(r, 0, first);
        return LS_OK;
    }
    ls_concat_attrs a = {.name = onnx_name(r, NULL, name), .axis = first->axis[axis]};
    return onnx_give(r, 0, ls_concat(r->graph, x, count, &a), first);
}

static ls_status pad(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    int64_t pads[2 * ONNX_DIMS], axes[ONNX_DIMS], each[2][ONNX_DIMS] = {{0}};
    int count, named, axis, any = 0;
    double filler = 0;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "pads", 1, 2 * ONNX_DIMS, pads, &count));
    LS_TRY(onnx_list(r, "axes", 3, ONNX_DIMS, axes, &named));
    if (onnx_in(r, 2)) LS_TRY(onnx_scalar(r, 2, &filler));
    int fits = count == 2 * (named ? named : x->ndim) && filler == 0 && onnx_is(n, "mode", "constant", "constant");
    for (int i = 0; i < count / 2 && fits; i++) {
        LS_TRY(onnx_axis(r, named ? axes[i] : i, x->ndim, &axis));
        each[0][axis] = pads[i];
        each[1][axis] = pads[i + count / 2];
    }
    for (int i = 0; i < x->ndim && fits; i++)
        for (int side = 0; side < 2; side++) {
            any |= each[side][i] != 0;
            fits &= each[side][i] == 0 ||
                    (onnx_is_images(x) && x->ndim == 4 && i >= 2 && each[side][i] > 0 && each[side][i] < 1 << 20);
        }
    if (!fits)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "zeros are put around the pixels of images, nothing else");
    if (!any) return same(r, n);
    ls_zero_pad2d_attrs a = {.name = onnx_name(r, NULL, name)};
    for (int i = 0; i < 2; i++)
        for (int side = 0; side < 2; side++) a.padding[i][side] = (int)each[side][i + 2];
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, ls_zero_pad2d(r->graph, x->value, &a), x);
}

static ls_status slice(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    int64_t start[ONNX_DIMS], end[ONNX_DIMS], axes[ONNX_DIMS], steps[ONNX_DIMS];
    int counts[4], axis, any = 0, fits = 1;
    ls_cropping2d_attrs a = {.name = NULL};
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_list(r, "starts", 1, ONNX_DIMS, start, &counts[0]));
    LS_TRY(onnx_list(r, "ends", 2, ONNX_DIMS, end, &counts[1]));
    LS_TRY(onnx_list(r, "axes", 3, ONNX_DIMS, axes, &counts[2]));
    LS_TRY(onnx_list(r, "steps", 4, ONNX_DIMS, steps, &counts[3]));
    fits = counts[0] == counts[1] && (!counts[2] || counts[2] == counts[0]) && (!counts[3] || counts[3] == counts[0]);
    for (int i = 0; i < counts[0] && fits; i++) {
        LS_TRY(onnx_axis(r, counts[2] ? axes[i] : i, x->ndim, &axis));
        int64_t size = x->dim[axis], from = start[i], to = end[i];
        fits &= (!counts[3] || steps[i] == 1) && from != ONNX_BATCH && (to != ONNX_BATCH || size == ONNX_BATCH);
        if (size == ONNX_BATCH) {
            fits &= from == 0 && (to == ONNX_BATCH || to >= INT32_MAX);
            continue;
        }
        if (!fits) break;
        from = from < 0 ? from + size : from > size ? size : from;
        to = to < 0 ? to + size : to > size ? size : to;
        if (from == 0 && to == size) continue;
        any = 1;
        fits &= onnx_is_images(x) && x->ndim == 4 && axis >= 2 && from >= 0 && to > from;
        if (!fits) break;
        a.cropping[axis - 2][0] = (int)from;
        a.cropping[axis - 2][1] = (int)(size - to);
    }
    if (!fits) return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "the middle of images is cut out, nothing else");
    if (!any) return same(r, n);
    a.name = onnx_name(r, NULL, name);
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, ls_cropping2d(r->graph, x->value, &a), x);
}

static ls_status resize(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *t = NULL;
    char name[ONNX_NAME];
    ls_up_sampling2d_attrs a = {.name = onnx_name(r, NULL, name)};
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_need_images(r, x));
    int k = onnx_in(r, 2) && onnx_in(r, 2)->tensor && onnx_in(r, 2)->tensor->count ? 2 : 3;
    LS_TRY(onnx_constant(r, k, &t));
    int fits = t->count == 4 && x->ndim == 4 && onnx_is(n, "mode", "nearest", "nearest") && !onnx_find(n, "axes") &&
               (k == 2) == (t->floats != NULL) &&
               (onnx_is(n, "coordinate_transformation_mode", "asymmetric", "half_pixel")
                    ? onnx_is(n, "nearest_mode", "floor", "round_prefer_floor")
                    : onnx_is(n, "coordinate_transformation_mode", "half_pixel", "half_pixel") &&
                          !onnx_is(n, "nearest_mode", "ceil", "") && !onnx_is(n, "nearest_mode", "floor", ""));
    for (int i = 2; i < 4 && fits; i++) {
        double by = k == 2 ? (double)t->floats[i] : (double)t->ints[i] / (double)x->dim[i];
        fits = by >= 1 && by <= 1024 && by == (int)by;
        a.size[i - 2] = fits ? (int)by : 0;
    }
    if (!fits)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "images are made larger by whole numbers, each pixel several times (nearest)");
    if (onnx_out(r, 0)) onnx_out(r, 0)->not_negative = x->not_negative;
    return onnx_give(r, 0, ls_up_sampling2d(r->graph, x->value, &a), x);
}

onnx_builder onnx_find_shape(const onnx_node *n) {
    static const struct {
        const char *op;
        onnx_builder build;
    } rows[] = {{"Flatten", flatten},     {"Reshape", reshape},     {"Squeeze", squeeze},
                {"Unsqueeze", unsqueeze}, {"Transpose", transpose}, {"Identity", same},
                {"Cast", cast},           {"Concat", concat},       {"Pad", pad},
                {"Slice", slice},         {"Resize", resize}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0] && !n->domain[0]; i++)
        if (strcmp(n->op, rows[i].op) == 0) return rows[i].build;
    return NULL;
}
