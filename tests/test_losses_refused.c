// Losses and metrics that cannot be: a sentence for each; and names that are taken.
#include <string.h>

#include "graph/graph.h"
#include "graph/runner.h"
#include "ok.h"

static void refused(ls_graph *g, ls_value value, const char *sentence) {
    assert_int_equal(value, LS_NO_VALUE);
    assert_int_equal(ls_graph_finish(g, ls_graph_input(g)), g->failed);
    if (strcmp(ls_error_message(), sentence) != 0) fail_msg("\"%s\" instead of \"%s\"", ls_error_message(), sentence);
    ls_graph_destroy(&g);
}

// An image and what it may be held against.
static ls_graph *wrong(ls_value *image, ls_value *target, ls_shape shape, ls_dtype dtype) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(4, 4, 2), &g));
    *image = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 3, .kernel = {1, 1}});
    *target = ls_graph_add_input(g, "target", shape, dtype);
    return g;
}

static void test_sentences(void **state) {
    ls_value x, t;
    ls_graph *g = wrong(&x, &t, LS_SHAPE(4, 3, 3), LS_DTYPE_F32);
    refused(g, ls_mean_squared_error(g, x, t, NULL),
            "mean_squared_error: targets have the shape of the prediction, (None, 4, 4, 3), not (None, 4, 3, 3)");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_I32);
    refused(g, ls_mean_absolute_error(g, x, t, NULL),
            "mean_absolute_error: predictions and targets are floating (fp32), but they are fp32 and i32");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_F32);
    refused(g, ls_mean_squared_error(g, x, t, &(ls_loss_attrs){.label_smoothing = 0.1}),
            "mean_squared_error: a MeanSquaredError layer has no label_smoothing, but 0.1 was asked for");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_F32);
    refused(g, ls_mean_absolute_error(g, x, t, &(ls_loss_attrs){.positive_weight = 2}),
            "mean_absolute_error: a MeanAbsoluteError layer has no positive_weight, but 2 was asked for");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_F32);
    refused(g, ls_mean_squared_error(g, x, t, &(ls_loss_attrs){.weight = -1}),
            "mean_squared_error: weight of a MeanSquaredError layer is at least 0, but -1 was asked for");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_F32);
    refused(g, ls_binary_cross_entropy(g, ls_relu(g, x, NULL), t, NULL),
            "model net ends in layer re_lu: the last layer must give logits, without an activation");
    g = wrong(&x, &t, (ls_shape){0}, LS_DTYPE_I32);
    refused(g, ls_top_k_accuracy(g, ls_global_max_pool2d(g, x, NULL), t, NULL),
            "top_k_accuracy: k is 5, but there are only 3 classes: every sample would count; ask for a smaller k");
    g = wrong(&x, &t, LS_SHAPE(4, 4, 3), LS_DTYPE_F32);
    refused(g, ls_softmax_cross_entropy(g, x, t, NULL),
            "loss: it takes one score per class, (None, classes), but was given (None, 4, 4, 3) of fp32");
}

// A network whose layers have the names that its training as a classifier would take.
static void test_names_taken(void **state) {
    ls_graph *g, *objective;
    OK(ls_graph_create("net", LS_SHAPE(6), &g));
    ls_value x = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = 5, .name = "label"});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 5, .name = "loss"});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 5, .name = "loss_1"});
    OK(ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 5, .name = "accuracy"})));
    OK(ls__graph_with_classifier_loss(g, 0, 0, &objective));
    assert_int_equal(objective->node_count, g->node_count + 3);
    assert_string_equal(objective->nodes[g->node_count].name, "label_1");
    assert_string_equal(objective->nodes[g->node_count + 1].name, "loss_2");
    assert_string_equal(objective->nodes[g->node_count + 2].name, "accuracy_1");
    assert_string_equal(ls_graph_input_at(objective, objective->input_count - 1).name, "label_1");
    ls_graph_destroy(&objective);
    ls_graph_destroy(&g);
}

// Targets that are trained themselves get no gradient, and nobody is left to think that they do.
static void test_trained_targets(void **state) {
    ls_graph *g;
    ls_device *device;
    ls_runner *r;
    OK(ls_device_create("ref", NULL, &device));
    OK(ls_graph_create("net", LS_SHAPE(3), &g));
    ls_value a = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.name = "a", .units = 2});
    ls_value b = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.name = "b", .units = 2});
    ls_mean_squared_error(g, a, b, NULL);
    OK(ls_graph_finish(g, a));
    ls_plan_config config = {.batch = 2, .precision = LS_DTYPE_F32};
    assert_int_equal(ls_runner_create(g, device, &config, NULL, &r), LS_STATUS_UNSUPPORTED);
    assert_string_equal(
        ls_error_message(),
        "mean_squared_error: its targets are computed by layers that are trained, and no gradient passes "
        "through targets; freeze those layers, or take what an input brings along");
    OK(ls_graph_freeze(g, "b/*", 1, NULL));
    OK(ls_runner_create(g, device, &config, NULL, &r));
    ls_runner_destroy(&r);
    ls_graph_destroy(&g);
    ls_device_destroy(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_taken),
        cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_trained_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
