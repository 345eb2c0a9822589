#include "op_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

// A graph of inputs and the layer. Losses and metrics want something that could be trained before them.
static ls_graph *graph_of(const op_case *c) {
    const ls_op *op = ls__op_find(c->op);
    ls_graph *g;
    ls_value x[LS_MAX_INPUTS];
    int count = c->x_count ? c->x_count : op->inputs;
    assert_int_equal(ls_graph_create_empty("case", NULL, &g), LS_OK);
    for (int i = 0; i < count; i++) {
        ls_shape shape = c->x[i].shape;
        for (int j = 0; j < 2 && i == 0; j++) shape.dim[j] += c->sides[j][0] + c->sides[j][1];
        x[i] = ls_graph_add_input(g, NULL, shape, c->x[i].dtype);
    }
    if (op->part != LS_PART_LAYER) x[0] = ls_dropout(g, x[0], NULL);
    ls_value y = ls__graph_add(g, c->op, x, count, c->attrs);
    if (y == LS_NO_VALUE) fail_msg("%s", ls_error_message());
    const ls_node *n = &g->nodes[g->node_count - 1];
    for (int i = 0; i < n->output_count && op->part == LS_PART_LAYER; i++)
        assert_int_equal(ls_graph_add_output(g, n->value + i, NULL), LS_OK);
    if (op->part != LS_PART_LAYER) assert_int_equal(ls_graph_add_output(g, x[0], NULL), LS_OK);
    if (ls_graph_finish(g, LS_NO_VALUE) != LS_OK) fail_msg("%s", ls_error_message());
    return g;
}

static int below_of(const op_case *c, const ls_kernel_spec *s) {
    if (c->below) return c->below;
    ls_shape first = s->x[0].shape;
    if (s->x[0].dtype != LS_DTYPE_I32) return (int)first.dim[first.ndim - 1];
    return s->w_count ? (int)s->w[0].shape.dim[0] : 2;
}

// As folding would.
static void absorb(const op_case *c, op_spec *out) {
    const ls_op *op = ls__op_find(c->op);
    ls_kernel_spec *s = &out->kernel;
    if (c->relu) s->activation = c->relu == 6 ? LS_ACTIVATION_RELU6 : LS_ACTIVATION_RELU;
    s->residual = c->residual;
    s->mask_dx = c->mask_dx;
    if (c->wide) s->y[0].dtype = LS_DTYPE_F32;
    if (!c->sides[0][0] && !c->sides[0][1] && !c->sides[1][0] && !c->sides[1][1]) return;
    assert_true(op->absorbs & LS_ABSORBS_PADDING && op->absorb_padding(&s->attrs, c->sides));
    for (int j = 0; j < 2; j++) s->x[0].shape.dim[j + 1] = c->x[0].shape.dim[j];
}

op_spec op_spec_of(const op_case *c, ls_dtype precision) {
    ls_graph *g = graph_of(c);
    op_spec out = {0};
    const ls_node *n = &g->nodes[g->node_count - 1];
    ls_plan_config config = {.batch = c->batch ? c->batch : 1, .precision = precision, .mode = LS_PLAN_TRAINING};
    ls__node_spec(g, g->node_count - 1, &config, &out.kernel);
    absorb(c, &out);
    for (int k = 0; k < n->param_count; k++) {
        const ls_param *p = &g->store->params[n->params[k]];
        out.role[k] = p->role;
        // A statistic that starts at one is a variance.
        out.w_values[k] =
            p->role == LS_PARAM_STATISTIC && p->initializer == LS_INITIALIZER_ONES ? NOT_NEGATIVE : SMOOTH;
    }
    out.below = below_of(c, &out.kernel);
    ls_graph_destroy(&g);
    return out;
}

int op_backward_passes(const ls_kernel_spec *spec, ls_pass passes[3]) {
    const ls_ref_op *ref = ls__ref_op_find(spec->op);
    int count = 0;
    assert_non_null(ref);
    if (ref->backward) passes[count++] = LS_PASS_BACKWARD;
    if (ref->backward_data) passes[count++] = LS_PASS_BACKWARD_DATA;
    if (ref->backward_weights && spec->w_count) passes[count++] = LS_PASS_BACKWARD_WEIGHTS;
    // What the operation says of itself agrees.
    const ls_op *op = ls__op_find(spec->op);
    assert_true(op->backward != ls__backward_joint || (count == 1 && ref->backward));
    assert_true(op->backward != ls__backward_layer || ref->backward_data);
    assert_true(op->backward != ls__backward_seed || (ref->backward_data && ref->seeds_gradient));
    assert_true(op->backward || count == 0);
    return count;
}

const char *op_describe(const ls_kernel_spec *s) {
    static char text[1024];
    char attrs[512];
    ls__attrs_text(ls__op_find(s->op), &s->attrs, attrs, sizeof attrs);
    int used =
        snprintf(text, sizeof text, "%s %s %s, relu %d, residual %d, addend %d, mask %d, pass %d", ls_op_name(s->op),
                 ls_dtype_name(s->x[0].gradient), attrs, s->activation, s->residual, s->addend, s->mask_dx, s->pass);
    for (int i = 0; i < s->x_count; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, ", x");
        for (int d = 0; d < s->x[i].shape.ndim; d++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", d ? "x" : " ",
                             (long long)s->x[i].shape.dim[d]);
    }
    return text;
}
