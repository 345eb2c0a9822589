// Plans of networks with branches: residual sums, batch normalization, zero padding, in every combination the compiler folds
// or leaves apart. Gradients are held against differences of the reference device's loss, the CPU against the reference
// device, recomputed activations against kept ones.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/isa.h"
#include "graph/plan_impl.h"
#include "ok.h"
#include "plan_rig.h"

enum { BATCH = 4, DENSE = 7, FEW = 8, VARIANTS = 10 };

static ls_value conv(ls_graph *g, ls_value x, int filters, int kernel, int stride, int no_bias) {
    return ls_conv2d(g, x,
                     &(ls_conv2d_attrs){.filters = filters,
                                        .kernel = {kernel, kernel},
                                        .strides = {stride, stride},
                                        .padding = kernel == 3 ? LS_PADDING_SAME : LS_PADDING_VALID,
                                        .no_bias = no_bias});
}

static ls_value norm(ls_graph *g, ls_value x) { return ls_batch_norm(g, x, &(ls_batch_norm_attrs){0}); }

// He et al. 2016: normalization before convolution, bare sums.
static ls_value pre_activation_block(ls_graph *g, ls_value x, int filters, int project) {
    ls_value active = ls_relu(g, norm(g, x), NULL);
    ls_value shortcut = project ? conv(g, active, filters, 1, 1, 0) : x;
    ls_value y = ls_relu(g, norm(g, conv(g, active, 16, 1, 1, 1)), NULL);
    y = ls_zero_pad2d(g, y, &(ls_zero_pad2d_attrs){0});
    y = ls_conv2d(g, y, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .no_bias = 1});
    y = ls_relu(g, norm(g, y), NULL);
    return ls_add(g, shortcut, conv(g, y, filters, 1, 1, 0), NULL);
}

// He et al. 2015: the sum goes through the ReLU.
static ls_value post_activation_block(ls_graph *g, ls_value x, int filters, int stride) {
    ls_value shortcut = stride > 1 ? norm(g, conv(g, x, filters, 1, stride, 0)) : x;
    ls_value y = ls_activate(g, norm(g, conv(g, x, filters, 3, stride, 0)), LS_ACTIVATION_RELU, NULL);
    y = norm(g, conv(g, y, filters, 3, 1, 0));
    return ls_activate(g, ls_add(g, y, shortcut, NULL), LS_ACTIVATION_RELU, NULL);
}

// Huang et al. 2016: what a layer gives is put together with all that it read, here before or behind it.
static ls_value dense_layer(ls_graph *g, ls_value x, int before) {
    ls_value y = conv(g, ls_relu(g, norm(g, x), NULL), 16, 3, 1, 1);
    return ls_concat(g, before ? (ls_value[]){y, x} : (ls_value[]){x, y}, 2, &(ls_concat_attrs){0});
}

static ls_graph *network(int variant) {
    ls_graph *g;
    OK(ls_graph_create("branches", LS_SHAPE(12, 12, 3), &g));
    ls_value x = ls_graph_input(g), y;
    switch (variant) {
    case 0:  // as ResNetV2 begins, with a pooling over zero padding that counts
        x = conv(g, x, 16, 3, 1, 0);
        x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){0});
        x = ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {2, 2}});
        x = pre_activation_block(g, x, 32, 1);
        x = pre_activation_block(g, x, 32, 0);
        x = ls_relu(g, norm(g, x), NULL);
        break;
    case 1:
        x = ls_relu(g, norm(g, conv(g, x, 16, 3, 1, 0)), NULL);
        x = post_activation_block(g, x, 16, 1);
        x = post_activation_block(g, x, 32, 2);
        x = post_activation_block(g, x, 32, 1);
        break;
    case 2:  // sums of convolutions with ReLUs of their own, which no reader masks; a value read three times
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
        y = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {1, 1}, .activation = LS_ACTIVATION_RELU});
        x = ls_add(g, ls_add(g, x, y, NULL), x, NULL);
        x = ls_relu(g, x, NULL);
        break;
    case 3:  // normalization right after a ReLU, of the images, of channels that fill no block; a padding left alone
        x = norm(g, x);
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 10, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
        x = norm(g, x);
        x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{1, 0}, {2, 1}}});
        x = ls_average_pool2d(g, x, &(ls_pool2d_attrs){0});
        break;
    case 4:  // a padding with two readers, a sum of pooled values, dropout between
        x = conv(g, x, 16, 3, 1, 0);
        y = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){0});
        x = ls_conv2d(g, y, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}});
        y = ls_max_pool2d(g, y, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {1, 1}});
        x = ls_dropout(g, ls_add(g, x, y, NULL), &(ls_dropout_attrs){.rate = 0.25f});
        break;
    case 5:  // the same value on both sides of a sum; a normalization of rows
        x = conv(g, x, 16, 3, 2, 0);
        x = ls_add(g, x, x, NULL);
        x = ls_flatten(g, x, NULL);
        x = ls_relu(g, norm(g, ls_dense(g, x, &(ls_dense_attrs){.units = 24})), NULL);
        OK(ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 5})));
        return g;
    case 6:  // a padding so wide that whole windows lie in it
        x = conv(g, x, 16, 3, 1, 0);
        x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{2, 3}, {1, 0}}});
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .strides = {2, 2}});
        break;
    case FEW:  // windows over channels that fill no block, masked and not
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 8, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 12, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 5, .kernel = {3, 3}});
        x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}});
        break;
    case DENSE:  // two dense blocks with a pooling between them
        x = conv(g, x, 32, 3, 1, 0);
        for (int i = 0; i < 3; i++) x = dense_layer(g, x, 0);
        x = conv(g, ls_relu(g, norm(g, x), NULL), 32, 1, 1, 1);
        x = ls_average_pool2d(g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {3, 3}});
        for (int i = 0; i < 3; i++) x = dense_layer(g, x, i > 0);
        x = ls_relu(g, norm(g, x), NULL);
        break;
    default:  // a convolution that adds and ends in a ReLU; one value used by a convolution and a later sum
        x = conv(g, x, 16, 3, 1, 0);
        y = conv(g, x, 16, 3, 1, 0);
        x = ls_relu(g, ls_add(g, x, y, NULL), NULL);
        y = conv(g, x, 16, 1, 1, 1);
        x = ls_add(g, norm(g, y), x, NULL);
        break;
    }
    x = ls_global_average_pool2d(g, x, NULL);
    OK(ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 5})));
    return g;
}

static float noise(int64_t i, int salt) {
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(salt * 40503u);
    h = (h ^ (h >> 15)) * 2246822519u;
    return (float)((h ^ (h >> 13)) % 10000) / 5000 - 1;
}

// 0, with nothing made, where the device does not have the precision.
static int rig_make(rig *r, int variant, const char *device, ls_plan_config config) {
    config.batch = BATCH;
    if (!rig_create(r, network(variant), device, &config)) return 0;
    int64_t size = ls_shape_count(ls_graph_input_at(r->graph, 0).shape);
    for (int64_t i = 0; i < BATCH * size; i++) r->images[i] = noise(i, 1);
    for (int i = 0; i < BATCH; i++) r->labels[i] = i % 5, r->samples[i] = (uint64_t)i * 3;
    for (int p = 0; p < r->store->count; p++) {
        float *plain = rig_plain(r, p);
        ls_shape shape = r->store->params[p].shape;
        ls_param_initialize(r->store, p, 5, plain);
        if (shape.ndim == 1)  // no zeros and ones: they hide mistakes
            for (int64_t k = 0; k < ls_shape_count(shape); k++) plain[k] += 0.3f * noise(k, p + 2);
        rig_set(r, p, plain);
    }
    rig_refresh(r);
    return 1;
}

static double run(rig *r) {
    double loss = rig_forward(r).loss;
    if (r->run->plan->config.mode == LS_PLAN_TRAINING) rig_backward(r);
    return loss;
}

// The gradient of a bias that a normalization takes out again is zero but for rounding: norms count as this at least.
#define LEAST_NORM 1e-2

// --- tests -----------------------------------------------------------------------------------------------------------

// The derivative of the loss along a direction in the space of one parameter, by central differences on the reference
// device, is the gradient's component along it. The loss is F32 at heart: 1e-2 of the largest derivative is what is left of
// seven digits after dividing by the step, and ReLUs have corners.
static void gradients_are_derivatives(void **state) {
    for (int variant = 0; variant < VARIANTS; variant++) {
        rig r;
        assert_true(rig_make(&r, variant, "ref", (ls_plan_config){.precision = LS_DTYPE_F32}));
        run(&r);
        for (int p = 0; p < r.store->count; p++) {
            if (r.store->params[p].role == LS_PARAM_STATISTIC) continue;
            int64_t n = ls_shape_count(r.store->params[p].shape);
            float *g = rig_get(&r, p, r.gradient), *w = rig_get(&r, p, r.weights), *moved = rig_plain(&r, p);
            const float step = 1e-3f;
            double norm = 0, loss[2];
            for (int64_t i = 0; i < n; i++) norm += (double)g[i] * g[i];
            norm = sqrt(norm);
            for (int side = 0; side < 2; side++) {  // along the gradient itself
                for (int64_t i = 0; i < n; i++)
                    moved[i] = w[i] + (side ? step : -step) * (float)(g[i] / (norm + 1e-20));
                OK(ls_runner_set(r.run, p, moved));
                rig_refresh(&r);
                loss[side] = rig_forward(&r).loss;
            }
            rig_set(&r, p, w);
            rig_refresh(&r);
            double derivative = (loss[1] - loss[0]) / (2 * (double)step);
            if (fabs(derivative - norm) > 1e-2 * norm + 2e-3)
                fail_msg("variant %d, %s: derivative %g, gradient %g", variant, r.store->params[p].name, derivative,
                         norm);
            free(g), free(moved);
        }
        rig_free(&r);
    }
}

static void the_cpu_agrees_with_the_reference_device(void **state) {
    for (int variant = 0; variant < VARIANTS; variant++)
        for (int training = 0; training < 2; training++) {
            rig cpu, ref;
            ls_plan_config config = {.precision = LS_DTYPE_F32,
                                     .mode = training ? LS_PLAN_TRAINING : LS_PLAN_EVALUATION};
            assert_true(rig_make(&cpu, variant, "cpu", config));
            assert_true(rig_make(&ref, variant, "ref", config));
            double a = run(&cpu), b = run(&ref);
            if (fabs(a - b) > 1e-4 * b) fail_msg("variant %d, training %d: loss %g, not %g", variant, training, a, b);
            for (int p = 0; p < cpu.store->count && training; p++) {
                int64_t n = ls_shape_count(cpu.store->params[p].shape);
                float *x = rig_get(&cpu, p, cpu.gradient), *y = rig_get(&ref, p, ref.gradient);
                // Sums of a few thousand products in another order, through a few layers: 1e-3 of the gradient's norm.
                double distance = relative_distance(x, y, n, LEAST_NORM);
                if (!(distance <= 1e-3))
                    fail_msg("variant %d, %s: relative distance %g", variant, cpu.store->params[p].name, distance);
                free(x), free(y);
            }
            rig_free(&cpu);
            rig_free(&ref);
        }
}

static void activations_made_again_give_the_same_bits(void **state) {
    for (int variant = 0; variant < VARIANTS; variant++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            rig kept, again;
            ls_plan_config config = {.precision = bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32};
            if (!rig_make(&kept, variant, "cpu", config)) continue;
            double loss = run(&kept);
            config.remat = LS_REMAT_FULL;
            assert_true(rig_make(&again, variant, "cpu", config));
            assert_true(run(&again) == loss);
            assert_memory_equal(again.gradient, kept.gradient, (size_t)kept.length * 4);
            if (variant == 0) assert_true(ls_plan_arena_bytes(again.run->plan) < ls_plan_arena_bytes(kept.run->plan));
            rig_free(&again);
            rig_free(&kept);
        }
}

static int count_steps(const rig *r, const char *pass) {
    int count = 0;
    for (int i = 0; i < r->run->plan->step_count; i++) count += strcmp(r->run->plan->steps[i].pass, pass) == 0;
    return count;
}

// What a block of either kind is compiled to: no sum, no padding and no ReLU is a step of its own.
static void blocks_fold(void **state) {
    rig r;
    assert_true(rig_make(&r, 0, "ref", (ls_plan_config){.precision = LS_DTYPE_F32}));
    assert_int_equal(count_steps(&r, "forward"), 2 + (3 + 4) + (3 + 3) + 1 + 2 + 2);  // the last two: loss and accuracy
    assert_int_equal(count_steps(&r, "sum of gradients"), 1);  // the projected block's active input has two readers
    rig_free(&r);
    assert_true(rig_make(&r, 1, "ref", (ls_plan_config){.precision = LS_DTYPE_F32}));
    assert_int_equal(count_steps(&r, "forward"), 2 + 4 + 6 + 4 + 2 + 2);
    rig_free(&r);
}

// The node that is the first to write a buffer.
static const ls_node *maker(const ls_plan *p, int buffer) {
    for (int i = 0; i < p->step_count; i++)
        if (p->steps[i].arg[LS_ARG_Y].place == LS_PLACE_ARENA && p->steps[i].arg[LS_ARG_Y].index == buffer)
            return &p->graph->nodes[p->steps[i].node];
    return NULL;
}

// Of what a dense block puts together the CPU's backward reads the last alone, and all before it there. In bf16 with AMX images lie
// row-major, where 32 channels are not told from more pixels: values of so many, of which no concatenation is one, are read where they are.
static void the_last_concatenation_of_a_block_is_kept(void **state) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        rig r;
        if (!rig_make(&r, DENSE, "cpu", (ls_plan_config){.precision = bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32})) continue;
        const ls_plan *p = r.run->plan;
        int apart = 0, row_major = bf16 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_amx);
        for (int i = p->forward_count; i < p->step_count; i++) {
            const ls_plan_step_impl *s = &p->steps[i];
            if (strcmp(s->pass, "backward") != 0) continue;
            const ls_node *from = maker(p, s->arg[LS_ARG_X].index);
            if (from && from->op == LS_OP_CONCAT && strcmp(from->name, "concatenate_2") != 0)
                assert_string_equal(from->name, "concatenate_5");
            apart += s->kernel->apart > 0;
        }
        assert_int_equal(apart, row_major ? 4 : 6);
        rig_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_derivatives),
        cmocka_unit_test(the_cpu_agrees_with_the_reference_device),
        cmocka_unit_test(activations_made_again_give_the_same_bits),
        cmocka_unit_test(blocks_fold),
        cmocka_unit_test(the_last_concatenation_of_a_block_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
