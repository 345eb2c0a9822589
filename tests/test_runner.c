// Plans beyond one chain that is trained as a classifier: frozen parts, several inputs, outputs and losses, predictions, plans made
// when the parameters have their places already.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "graph/plan_impl.h"
#include "graph/runner.h"
#include "ok.h"
#include "plan_rig.h"

static const char *const devices[] = {"ref", "cpu"};

static ls_device *device_of(const char *name) {
    ls_device *d;
    OK(ls_device_create(name, &(ls_device_options){.threads = 1}, &d));
    return d;
}

static float noise(int64_t i, int salt) {
    uint32_t h = (uint32_t)(i * 2654435761u) ^ (uint32_t)(salt * 40503u);
    h = (h ^ (h >> 15)) * 2246822519u;
    return (float)((h ^ (h >> 13)) % 10000) / 5000 - 1;
}

// Every input gets numbers of its own: noise, or classes below `classes`.
static void feed(ls_runner *r, int classes) {
    for (int i = 0; i < ls_graph_input_count(r->graph); i++) {
        ls_port port = ls_graph_input_at(r->graph, i);
        int64_t count = r->plan->config.batch * ls_shape_count(port.shape);
        float *values;
        OK(ls_calloc(count, sizeof *values, &values));
        for (int64_t k = 0; k < count; k++) {
            if (port.dtype == LS_DTYPE_I32)
                ((int32_t *)(void *)values)[k] = (int32_t)((k * 7 + i) % classes);
            else
                values[k] = noise(k, i + 1);
        }
        OK(ls_runner_write(r, i, values));
        free(values);
    }
}

static ls_runner *runner(const ls_graph *g, ls_device *d, ls_plan_config config, ls_runner *weights) {
    ls_runner *r;
    if (config.batch == 0) config.batch = 6;
    OK(ls_runner_create(g, d, &config, weights, &r));
    rig_poison(r);
    if (!weights) OK(ls_runner_initialize(r, 5));
    feed(r, 3);
    return r;
}

// Forward and backward, over gradients of 777: what is not written shows.
static double train(ls_runner *r, double *measures) {
    double own[16];
    float *gradient = r->gradient->memory;
    for (int64_t i = 0; i < ls_params_length(r->params); i++) gradient[i] = 777;
    assert_true(ls_plan_measure_count(r->plan) <= 16);
    OK(ls_runner_forward(r, measures ? measures : own));
    OK(ls_runner_backward(r));
    return measures ? measures[0] : own[0];
}

// A parameter's gradient in Keras's order; the caller frees it.
static float *gradient_of(ls_runner *r, int param) {
    float *plain;
    OK(ls_calloc(ls_shape_count(r->graph->store->params[param].shape), sizeof *plain, &plain));
    OK(ls_runner_get(r, param, r->gradient, plain));
    return plain;
}

static int is_untouched(ls_runner *r, int param) {
    float *g = gradient_of(r, param);
    int64_t count = ls_shape_count(r->graph->store->params[param].shape), left = 0;
    for (int64_t i = 0; i < count; i++) left += g[i] == 777;
    free(g);
    assert_true(left == 0 || left == count);
    return left == count;
}

// How far the gradients of one parameter are apart, over the norm of the second.
static double gradient_distance(ls_runner *a, ls_runner *b, int param) {
    float *x = gradient_of(a, param), *y = gradient_of(b, param);
    double distance = relative_distance(x, y, ls_shape_count(a->graph->store->params[param].shape), 1e-6);
    free(x), free(y);
    return distance;
}

// Both devices say the same of every measure and every trained parameter.
static void devices_agree(const ls_graph *g, ls_remat remat) {
    ls_device *d[2];
    ls_runner *r[2];
    double measures[2][16] = {{0}};
    for (int i = 0; i < 2; i++) {
        d[i] = device_of(devices[i]);
        r[i] = runner(g, d[i], (ls_plan_config){.remat = remat}, NULL);
        train(r[i], measures[i]);
    }
    assert_int_equal(ls_plan_measure_count(r[0]->plan), ls_plan_measure_count(r[1]->plan));
    for (int i = 0; i < ls_plan_measure_count(r[0]->plan); i++)
        assert_true(fabs(measures[0][i] - measures[1][i]) <= 1e-5 * fabs(measures[0][i]));
    for (int p = 0; p < g->store->count; p++) {
        assert_int_equal(is_untouched(r[0], p), !ls__graph_trains(g, p));
        assert_int_equal(is_untouched(r[1], p), !ls__graph_trains(g, p));
        double distance = ls__graph_trains(g, p) ? gradient_distance(r[1], r[0], p) : 0;
        if (!(distance <= 1e-4)) fail_msg("%s: relative distance %g", g->store->params[p].name, distance);
    }
    for (int i = 0; i < 2; i++) {
        ls_runner_destroy(&r[i]);
        ls_device_destroy(&d[i]);
    }
}

// The gradient is that of the sum of all losses: along it, the reference device's losses change by its norm.
static void gradients_are_derivatives(const ls_graph *g, const int *losses, int loss_count) {
    ls_device *d = device_of("ref");
    ls_runner *r = runner(g, d, (ls_plan_config){0}, NULL);
    double measures[16];
    train(r, measures);
    for (int p = 0; p < g->store->count; p++) {
        if (!ls__graph_trains(g, p) || g->store->params[p].role == LS_PARAM_STATISTIC) continue;
        int64_t n = ls_shape_count(g->store->params[p].shape);
        float *slope = gradient_of(r, p), *w, *moved;
        const double step = 1e-3;
        double norm = 0, loss[2] = {0, 0};
        OK(ls_calloc(n, sizeof *w, &w));
        OK(ls_calloc(n, sizeof *moved, &moved));
        OK(ls_runner_get(r, p, r->weights, w));
        for (int64_t i = 0; i < n; i++) norm += (double)slope[i] * slope[i];
        norm = sqrt(norm);
        for (int side = 0; side < 2; side++) {
            for (int64_t i = 0; i < n; i++)
                moved[i] = w[i] + (float)((side ? step : -step) * slope[i] / (norm + 1e-20));
            OK(ls_runner_set(r, p, moved));
            OK(ls_runner_refresh(r));
            OK(ls_runner_forward(r, measures));
            for (int i = 0; i < loss_count; i++) loss[side] += measures[losses[i]];
        }
        OK(ls_runner_set(r, p, w));
        OK(ls_runner_refresh(r));
        double derivative = (loss[1] - loss[0]) / (2 * step);
        if (!(fabs(derivative - norm) <= 1e-2 * norm + 2e-3))
            fail_msg("%s: derivative %g, gradient %g", g->store->params[p].name, derivative, norm);
        free(slope), free(w), free(moved);
    }
    ls_runner_destroy(&r);
    ls_device_destroy(&d);
}

static ls_value conv(ls_graph *g, ls_value x, const char *name, ls_activation activation) {
    return ls_conv2d(g, x, &(ls_conv2d_attrs){.name = name, .filters = 16, .kernel = {3, 3}, .activation = activation});
}
static ls_value units(ls_graph *g, ls_value x, const char *name, int count) {
    return ls_dense(g, x, &(ls_dense_attrs){.name = name, .units = count});
}
static int param(const ls_graph *g, const char *name) {
    int index = ls__store_find(g->store, name);
    assert_true(index >= 0);
    return index;
}

// --- freezing --------------------------------------------------------------------------------------------------------

// Three convolutions and a head; with `norm` a normalization after the second.
static ls_graph *body_and_head(int norm) {
    ls_graph *g, *objective;
    OK(ls_graph_create("net", LS_SHAPE(9, 9, 3), &g));
    ls_value x = conv(g, ls_graph_input(g), "one", LS_ACTIVATION_RELU);
    x = conv(g, x, "two", norm ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU);
    if (norm) x = ls_relu(g, ls_batch_norm(g, x, &(ls_batch_norm_attrs){.name = "bn"}), NULL);
    x = conv(g, x, "three", LS_ACTIVATION_RELU);
    OK(ls_graph_finish(g, units(g, ls_flatten(g, x, NULL), "head", 3)));
    OK(ls__graph_with_classifier_loss(g, 0, 0, &objective));
    ls_graph_destroy(&g);
    return objective;
}

// Backward steps of a layer.
static int backward_steps(const ls_runner *r, const char *layer) {
    int count = 0;
    for (int i = 0; i < ls_plan_step_count(r->plan); i++) {
        ls_plan_step_info step = ls_plan_step(r->plan, i);
        count += strcmp(step.node, layer) == 0 && strncmp(step.pass, "backward", 8) == 0;
    }
    return count;
}

// The others' gradients are the same, to the bit; but that of a convolution's bias whose weights are frozen, which the device "cpu" adds up by itself.
static void frozen_parameters_get_no_gradient(void **state) {
    static const char *const patterns[] = {"one/*", "two/*", "head/*", "*/bias", "t*", "*/kernel"};
    for (int d = 0; d < 2; d++) {
        ls_device *device = device_of(devices[d]);
        ls_graph *free_graph = body_and_head(0);
        ls_runner *all = runner(free_graph, device, (ls_plan_config){0}, NULL);
        double loss = train(all, NULL);
        for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
            ls_graph *g = body_and_head(0);
            OK(ls_graph_freeze(g, patterns[i], 1, NULL));
            ls_runner *r = runner(g, device, (ls_plan_config){0}, NULL);
            assert_true(train(r, NULL) == loss);
            for (int p = 0; p < g->store->count; p++) {
                assert_int_equal(is_untouched(r, p), !ls__graph_trains(g, p));
                int alone = d == 1 && strcmp(patterns[i], "*/kernel") == 0 && g->store->params[p].shape.dim[0] != 3;
                if (ls__graph_trains(g, p)) assert_true(gradient_distance(r, all, p) <= (alone ? 1e-6 : 0));
            }
            ls_segment *segments;
            int count, frozen = 0;
            OK(ls_params_segments(r->params, g, &segments, &count));
            for (int s = 0; s < count; s++) frozen += segments[s].frozen;
            int expected = 0;
            for (int p = 0; p < g->store->count; p++) expected += !ls__graph_trains(g, p);
            assert_int_equal(count, g->store->count);
            assert_int_equal(frozen, expected);
            free(segments);
            ls_runner_destroy(&r);
            ls_graph_destroy(&g);
        }
        ls_runner_destroy(&all);
        ls_graph_destroy(&free_graph);
        ls_device_destroy(&device);
    }
}

static void backward_stops_where_nothing_is_trained(void **state) {
    ls_device *d = device_of("cpu");
    ls_graph *g = body_and_head(0);
    ls_runner *r = runner(g, d, (ls_plan_config){0}, NULL);
    assert_int_equal(backward_steps(r, "one"), 1);  // weights; the images want no gradient
    assert_int_equal(backward_steps(r, "two"), 2);
    assert_int_equal(backward_steps(r, "three"), 2);
    ls_runner_destroy(&r);
    OK(ls_graph_freeze(g, "two/*", 1, NULL));
    r = runner(g, d, (ls_plan_config){0}, NULL);
    assert_int_equal(backward_steps(r, "one"), 1);
    assert_int_equal(backward_steps(r, "two"), 1);  // data
    ls_runner_destroy(&r);
    OK(ls_graph_freeze(g, "one/*", 1, NULL));
    r = runner(g, d, (ls_plan_config){0}, NULL);
    assert_int_equal(backward_steps(r, "one"), 0);
    assert_int_equal(backward_steps(r, "two"), 0);
    assert_int_equal(backward_steps(r, "three"), 1);
    ls_runner_destroy(&r);
    // Nothing at all is trained: forward is what remains.
    OK(ls_graph_freeze(g, "*", 1, NULL));
    r = runner(g, d, (ls_plan_config){0}, NULL);
    assert_true(isfinite(train(r, NULL)));
    assert_int_equal(ls_plan_step_count(r->plan), r->plan->forward_count);
    ls_runner_destroy(&r);
    ls_graph_destroy(&g);
    ls_device_destroy(&d);
}

static void frozen_normalizations_compute_as_in_inference(void **state) {
    for (int d = 0; d < 2; d++) {
        ls_device *device = device_of(devices[d]);
        ls_graph *g = body_and_head(1);
        ls_runner *r = runner(g, device, (ls_plan_config){0}, NULL);
        ls_runner *evaluation = runner(g, device, (ls_plan_config){.mode = LS_PLAN_EVALUATION}, r);
        double evaluated, trained = train(r, NULL), measures[2];
        OK(ls_runner_forward(evaluation, measures));
        evaluated = measures[0];
        assert_true(fabs(trained - evaluated) > 1e-3);  // statistics of its own batch
        assert_false(is_untouched(r, param(g, "bn/moving_mean")));
        ls_runner_destroy(&evaluation);
        ls_runner_destroy(&r);
        OK(ls_graph_freeze(g, "one/*", 1, NULL));
        OK(ls_graph_freeze(g, "two/*", 1, NULL));
        OK(ls_graph_freeze(g, "bn/*", 1, NULL));
        r = runner(g, device, (ls_plan_config){0}, NULL);
        trained = train(r, NULL);
        assert_true(fabs(trained - evaluated) <= 1e-6 * evaluated);
        assert_true(is_untouched(r, param(g, "bn/moving_mean")) && is_untouched(r, param(g, "bn/moving_variance")));
        assert_false(is_untouched(r, param(g, "three/kernel")));
        ls_runner_destroy(&r);
        // Its gradient would be another formula.
        OK(ls_graph_freeze(g, "one/*", 0, NULL));
        ls_plan_config config = {.batch = 6};
        assert_int_equal(ls_runner_create(g, device, &config, NULL, &r), LS_STATUS_UNSUPPORTED);
        assert_null(r);
        assert_string_equal(ls_error_message(),
                            "bn: its statistics are frozen, but what comes before it is trained; freeze "
                            "that too, or train this layer");
        ls_graph_destroy(&g);
        ls_device_destroy(&device);
    }
}

// --- several inputs, outputs, losses ---------------------------------------------------------------------------------

// Images and a row of numbers; a class from both, and another from the images alone. `which`: 1 the first loss, 2 the second, 3 both.
static ls_graph *two_tasks(ls_store *store, int which) {
    ls_graph *g;
    OK(ls_graph_create_empty("two-tasks", store, &g));
    ls_value image = ls_graph_add_input(g, "image", LS_SHAPE(7, 7, 3), LS_DTYPE_F32);
    ls_value row = ls_graph_add_input(g, "row", LS_SHAPE(10), LS_DTYPE_F32);
    ls_value x = conv(g, image, "conv", LS_ACTIVATION_RELU);
    x = ls_global_average_pool2d(g, x, NULL);
    ls_value both = ls_relu(g, ls_add(g, units(g, row, "from_row", 16), x, NULL), NULL);
    ls_value kind = units(g, both, "kind", 3), color = units(g, x, "color", 4);
    OK(ls_graph_add_output(g, kind, NULL));
    OK(ls_graph_add_output(g, color, NULL));
    OK(ls_graph_add_output(g, x, "features"));
    OK(ls_graph_add_output(g, row, "row_again"));
    if (which & 1) {
        ls_value t = ls_graph_add_input(g, "kind_label", (ls_shape){0}, LS_DTYPE_I32);
        ls_softmax_cross_entropy(g, kind, t, &(ls_loss_attrs){.name = "kind_loss", .weight = 0.3});
        ls_accuracy(g, kind, t, NULL);
    }
    if (which & 2) {
        ls_value t = ls_graph_add_input(g, "color_label", LS_SHAPE(4), LS_DTYPE_F32);
        ls_softmax_cross_entropy(g, color, t, &(ls_loss_attrs){.name = "color_loss", .weight = 2});
    }
    OK(ls_graph_finish(g, LS_NO_VALUE));
    return g;
}

static void several_inputs_and_losses_agree_with_the_reference_device(void **state) {
    for (int which = 1; which <= 3; which++) {
        ls_graph *g = two_tasks(NULL, which);
        devices_agree(g, LS_REMAT_NONE);
        devices_agree(g, LS_REMAT_FULL);
        gradients_are_derivatives(g, which == 3 ? (int[]){0, 2} : (int[]){0}, which == 3 ? 2 : 1);
        ls_graph_destroy(&g);
    }
}

// One after the other in the order of the graph, each with its weight in it; gradients add up.
static void losses_add_up_with_their_weights(void **state) {
    ls_store *store;
    OK(ls_store_create(&store));
    ls_graph *g[3] = {two_tasks(store, 3), two_tasks(store, 1), two_tasks(store, 2)};
    assert_int_equal(ls_store_count(store), 8);
    for (int d = 0; d < 2; d++) {
        ls_device *device = device_of(devices[d]);
        ls_runner *r[3] = {NULL};
        double measures[3][3];
        for (int i = 0; i < 3; i++) {
            r[i] = runner(g[i], device, (ls_plan_config){0}, r[0]);
            if (i == 2)  // its targets are the third input of this graph, and the fourth of the whole
                for (int k = 0; k < 2; k++)
                    memcpy(r[i]->inputs[2]->memory, r[0]->inputs[3]->memory, (size_t)r[0]->inputs[3]->bytes);
            train(r[i], measures[i]);
        }
        assert_int_equal(ls_plan_measure_count(r[0]->plan), 3);
        assert_true(measures[0][0] == measures[1][0] && measures[0][1] == measures[1][1]);
        assert_true(measures[0][2] == measures[2][0]);
        for (int p = 0; p < store->count; p++) {
            float *sum = gradient_of(r[0], p), *one = gradient_of(r[1], p), *two = gradient_of(r[2], p);
            int64_t n = ls_shape_count(store->params[p].shape);
            // A head that one loss does not depend on is none of that graph's.
            assert_int_equal(is_untouched(r[1], p), strncmp(store->params[p].name, "color/", 6) == 0);
            assert_int_equal(is_untouched(r[2], p), strncmp(store->params[p].name, "kind/", 5) == 0 ||
                                                        strncmp(store->params[p].name, "from_row/", 9) == 0);
            for (int64_t i = 0; i < n; i++)
                one[i] = (is_untouched(r[1], p) ? 0 : one[i]) + (is_untouched(r[2], p) ? 0 : two[i]);
            assert_true(relative_distance(sum, one, n, 0) < 1e-5);
            free(sum), free(one), free(two);
        }
        for (int i = 2; i >= 0; i--) ls_runner_destroy(&r[i]);
        ls_device_destroy(&device);
    }
    for (int i = 0; i < 3; i++) ls_graph_destroy(&g[i]);
    ls_store_destroy(&store);
}

static float *output(ls_runner *r, int index) {
    float *values;
    OK(ls_calloc(r->plan->config.batch * ls_shape_count(ls_graph_output_at(r->graph, index).shape), sizeof *values,
                 &values));
    OK(ls_runner_read(r, index, r->batch, values));
    return values;
}

// No targets are fed; features, both scores, and an input as it came.
static void predictions_give_all_outputs(void **state) {
    ls_graph *g = two_tasks(NULL, 3);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ls_device *d[2];
        ls_runner *r[2];
        ls_plan_config config = {.batch = 6, .precision = bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32};
        for (int i = 0; i < 2; i++) d[i] = device_of(devices[i]);
        if (d[1]->ops->supports(d[1], config.precision) == LS_OK) {
            config.mode = LS_PLAN_PREDICTION;
            for (int i = 0; i < 2; i++) {
                ls_dtype dtype;
                r[i] = runner(g, d[i], config, NULL);
                assert_int_equal(ls_plan_measure_count(r[i]->plan), 0);
                assert_true(ls_plan_feed(r[i]->plan, 0, &dtype) && dtype == config.precision);
                assert_true(ls_plan_feed(r[i]->plan, 1, &dtype));
                assert_false(ls_plan_feed(r[i]->plan, 2, &dtype) || ls_plan_feed(r[i]->plan, 3, &dtype));
                assert_true(!r[i]->inputs[2] && !r[i]->inputs[3] && !r[i]->gradient);
                OK(ls_runner_forward(r[i], NULL));
            }
            for (int k = 0; k < 4; k++) {
                float *x = output(r[1], k), *y = output(r[0], k);
                int64_t n = 6 * ls_shape_count(ls_graph_output_at(g, k).shape);
                double distance = relative_distance(x, y, n, 0);
                if (!(distance <= (bf16 ? 2e-2 : 1e-5))) fail_msg("output %d, bf16 %d: %g", k, bf16, distance);
                if (k == 3)
                    for (int64_t i = 0; i < n; i++) assert_true(fabsf(x[i] - noise(i, 2)) <= (bf16 ? 0x1p-8f : 0));
                free(x), free(y);
            }
            for (int i = 0; i < 2; i++) ls_runner_destroy(&r[i]);
        }
        for (int i = 0; i < 2; i++) ls_device_destroy(&d[i]);
    }
    ls_graph_destroy(&g);
}

// --- plans that come later -------------------------------------------------------------------------------------------

static ls_graph *classifier(int with_loss) {
    ls_graph *g, *objective;
    OK(ls_model_create("mnist-cnn", LS_SHAPE(28, 28, 1), 3, &g));
    if (!with_loss) return g;
    OK(ls__graph_with_classifier_loss(g, 0, 0, &objective));
    ls_graph_destroy(&g);
    return objective;
}

// Parameters have places and copies that suit a large batch; plans of other sizes and modes find what they want, or make it.
static void plans_made_later_give_the_same_numbers(void **state) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ls_device *d = device_of("cpu");
        ls_dtype precision = bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
        double allowed = bf16 ? 1e-2 : 1e-5;
        if (d->ops->supports(d, precision) != LS_OK) {
            ls_device_destroy(&d);
            continue;
        }
        ls_graph *g = classifier(1);
        ls_plan_config small = {.batch = 3, .precision = precision}, large = {.batch = 64, .precision = precision};
        ls_plan_config evaluation = small, prediction = small, again = small;
        evaluation.mode = LS_PLAN_EVALUATION;
        prediction.mode = LS_PLAN_PREDICTION;
        again.remat = LS_REMAT_FULL;
        ls_runner *early = runner(g, d, small, NULL), *first = runner(g, d, large, NULL);
        int64_t copies = ls_params_copies_bytes(first->params), length = ls_params_length(first->params);
        ls_runner *late = runner(g, d, small, first), *kept = runner(g, d, again, first);
        assert_int_equal(ls_params_copies_bytes(first->params), copies);
        assert_int_equal(ls_params_length(first->params), length);
        double early_loss = train(early, NULL), late_loss = train(late, NULL);
        assert_true(fabs(early_loss - late_loss) <= allowed * early_loss);
        assert_true(train(kept, NULL) == late_loss);
        for (int p = 0; p < g->store->count; p++) {
            assert_true(gradient_distance(late, early, p) <= allowed);
            assert_true(gradient_distance(kept, late, p) == 0);
        }
        // Evaluation and prediction, from parameters placed by one, the other, or for themselves.
        double a[2], b[2];
        ls_runner *one = runner(g, d, evaluation, early), *two = runner(g, d, evaluation, first);
        OK(ls_runner_forward(one, a));
        OK(ls_runner_forward(two, b));
        assert_true(fabs(a[0] - b[0]) <= allowed * a[0]);
        ls_runner *of_large = runner(g, d, prediction, first), *own = runner(g, d, prediction, NULL);
        OK(ls_runner_forward(of_large, NULL));
        OK(ls_runner_forward(own, NULL));
        float *x = output(of_large, 0), *y = output(own, 0);
        assert_true(relative_distance(x, y, 3 * 3, 0) <= allowed);
        assert_true(relative_distance(x, rig_logits(two), 3 * 3, 0) <= allowed);
        free(x), free(y);
        ls_runner_destroy(&of_large), ls_runner_destroy(&own), ls_runner_destroy(&one), ls_runner_destroy(&two);
        ls_runner_destroy(&late), ls_runner_destroy(&kept), ls_runner_destroy(&first), ls_runner_destroy(&early);
        ls_graph_destroy(&g);
        ls_device_destroy(&d);
    }
}

static void plans_that_cannot_be(void **state) {
    ls_device *d = device_of("ref");
    ls_graph *g = classifier(0), *open;
    ls_plan_config config = {.batch = 2};
    ls_runner *r;
    for (ls_plan_mode mode = LS_PLAN_TRAINING; mode <= LS_PLAN_EVALUATION; mode++) {
        config.mode = mode;
        assert_int_equal(ls_runner_create(g, d, &config, NULL, &r), LS_STATUS_INVALID_ARGUMENT);
        assert_null(r);
        assert_string_equal(ls_error_message(),
                            "model mnist-cnn has no loss: there is nothing to train it towards or to evaluate");
    }
    config.mode = LS_PLAN_PREDICTION;
    OK(ls_runner_create(g, d, &config, NULL, &r));
    OK(ls_graph_create_empty("open", ls_graph_store(g), &open));
    assert_int_equal(ls_runner_create(open, d, &config, r, &(ls_runner *){NULL}), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(), "model open is not finished: call ls_graph_finish first");
    // Parameters that came after the vector was laid out have no place in it.
    ls_value x = ls_graph_add_input(open, NULL, LS_SHAPE(4), LS_DTYPE_F32);
    OK(ls_graph_finish(open, units(open, x, "late", 3)));
    assert_int_equal(ls_runner_create(open, d, &config, r, &(ls_runner *){NULL}), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "model open has parameters that were added to its store too late: build all "
                        "graphs that share a store before the first plan");
    OK(ls_runner_forward(r, NULL));
    ls_runner_destroy(&r);
    ls_graph_destroy(&open);
    ls_graph_destroy(&g);
    ls_device_destroy(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_parameters_get_no_gradient),
        cmocka_unit_test(backward_stops_where_nothing_is_trained),
        cmocka_unit_test(frozen_normalizations_compute_as_in_inference),
        cmocka_unit_test(several_inputs_and_losses_agree_with_the_reference_device),
        cmocka_unit_test(losses_add_up_with_their_weights),
        cmocka_unit_test(predictions_give_all_outputs),
        cmocka_unit_test(plans_made_later_give_the_same_numbers),
        cmocka_unit_test(plans_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
