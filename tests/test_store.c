// Parameters that several graphs share, frozen ones, and what tells two graphs apart.
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "ok.h"

static ls_graph *in_store(const char *name, ls_store *store) {
    ls_graph *g;
    OK(ls_graph_create_empty(name, store, &g));
    return g;
}

static ls_value images(ls_graph *g) { return ls_graph_add_input(g, "image", LS_SHAPE(6, 6, 2), LS_DTYPE_F32); }

static ls_value named_conv(ls_graph *g, ls_value x, const char *name, int filters) {
    return ls_conv2d(g, x, &(ls_conv2d_attrs){.name = name, .filters = filters, .kernel = {3, 3}});
}

static ls_value units(ls_graph *g, ls_value x, const char *name, int count) {
    return ls_dense(g, x, &(ls_dense_attrs){.name = name, .units = count});
}

static void refused(const ls_graph *g, ls_value value, const char *sentence) {
    assert_int_equal(value, LS_NO_VALUE);
    assert_int_equal(g->failed, LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(g->failure, sentence);
}

// --- sharing ---------------------------------------------------------------------------------------------------------

// Two heads on one body: its layers have one name in both graphs and so one set of parameters.
static void layers_of_one_name_share_their_parameters(void **state) {
    ls_store *store;
    OK(ls_store_create(&store));
    ls_graph *one = in_store("one", store), *other = in_store("other", store);
    ls_value x = ls_flatten(one, named_conv(one, images(one), "body", 4), NULL);
    OK(ls_graph_finish(one, units(one, x, "head", 3)));
    assert_int_equal(one->param_count, 4);
    x = ls_flatten(other, named_conv(other, images(other), "body", 4), NULL);
    OK(ls_graph_finish(other, units(other, x, "second_head", 5)));
    assert_int_equal(ls_store_count(store), 6);
    assert_ptr_equal(ls_graph_store(one), store);
    assert_int_equal(ls_graph_parameter_count(one), 3 * 3 * 2 * 4 + 4 + 64 * 3 + 3);
    assert_int_equal(ls_graph_parameter_count(other), 3 * 3 * 2 * 4 + 4 + 64 * 5 + 5);
    // What came into the store after a graph was finished is none of its business.
    assert_int_equal(ls_graph_trainable_parameter_count(one), ls_graph_parameter_count(one));
    for (int p = 0; p < ls_store_count(store); p++) {
        assert_int_equal(ls__graph_uses(one, p), p < 4);
        assert_int_equal(ls__graph_uses(other, p), p < 2 || p >= 4);
        assert_int_equal(ls__graph_trains(one, p), p < 4);
    }
    int matched;
    OK(ls_graph_freeze(one, "*", 1, &matched));
    assert_int_equal(matched, 4);
    assert_int_equal(ls_graph_trainable_parameter_count(one), 0);
    assert_int_equal(ls_graph_trainable_parameter_count(other), ls_graph_parameter_count(other));
    ls_graph *copy;
    OK(ls__graph_copy(one, &copy));
    assert_int_equal(copy->param_count, 4);
    ls_graph_destroy(&copy);
    // Whoever uses a store holds it.
    ls_store_destroy(&store);
    assert_null(store);
    ls_graph_destroy(&one);
    assert_string_equal(ls_store_parameter(ls_graph_store(other), 4).name, "second_head/kernel");
    assert_string_equal(ls_store_parameter(ls_graph_store(other), 4).role, "kernel");
    ls_graph_destroy(&other);
}

static void parameters_of_one_name_have_one_shape(void **state) {
    ls_store *store;
    OK(ls_store_create(&store));
    ls_graph *one = in_store("one", store), *other = in_store("other", store), *third = in_store("third", store);
    ls_value x = ls_flatten(one, named_conv(one, images(one), "body", 4), NULL);
    OK(ls_graph_finish(one, units(one, x, "head", 3)));
    refused(
        other, named_conv(other, images(other), "body", 5),
        "parameter body/kernel is shared with another layer of that name, whose is of another shape or kind: give the "
        "layers two names, or the same attributes");
    assert_int_equal(ls_graph_finish(other, 0), LS_STATUS_INVALID_ARGUMENT);
    refused(
        third, ls_batch_norm(third, units(third, ls_flatten(third, images(third), NULL), "head", 3), NULL),
        "parameter head/kernel is shared with another layer of that name, whose is of another shape or kind: give the "
        "layers two names, or the same attributes");
    assert_int_equal(ls_store_count(store), 4);  // what failed has left nothing
    ls_graph_destroy(&one), ls_graph_destroy(&other), ls_graph_destroy(&third);
    ls_store_destroy(&store);
}

// Two graphs whose layers have no names share nothing, although each by itself would call its layers the same.
static void automatic_names_never_collide(void **state) {
    ls_store *store;
    OK(ls_store_create(&store));
    ls_graph *one = in_store("one", store), *other = in_store("other", store);
    ls_value x = units(one, ls_flatten(one, images(one), NULL), NULL, 4);
    OK(ls_graph_finish(one, units(one, x, NULL, 3)));
    x = units(other, ls_flatten(other, images(other), NULL), NULL, 7);
    x = units(other, x, "dense_1", 3);  // a name that is there already is meant
    refused(
        other, x,
        "parameter dense_1/kernel is shared with another layer of that name, whose is of another shape or kind: give "
        "the layers two names, or the same attributes");
    assert_string_equal(one->nodes[2].name, "dense");
    assert_string_equal(one->nodes[3].name, "dense_1");
    assert_string_equal(other->nodes[2].name, "dense_2");
    assert_string_equal(other->nodes[1].name, "flatten");  // it has no parameters
    ls_graph_destroy(&one), ls_graph_destroy(&other);
    ls_store_destroy(&store);
}

static void stores_are_closed_by_trainers(void **state) {
    ls_store *store;
    OK(ls_store_create(&store));
    store->placed = &store;
    ls_graph *g = in_store("late", store);
    refused(
        g, named_conv(g, images(g), "body", 4),
        "parameter body/kernel comes too late: a trainer works with the store already; build all graphs that share a "
        "store before the first trainer");
    store->placed = NULL;
    ls_graph_destroy(&g);
    ls_store_destroy(&store);
    ls_store_destroy(&store);  // safe on NULL
}

// --- freezing --------------------------------------------------------------------------------------------------------

static ls_graph *to_freeze(void) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(6, 6, 2), &g));
    ls_value x = ls_batch_norm(g, named_conv(g, ls_graph_input(g), "block1_conv", 4), NULL);
    x = ls_flatten(g, ls_relu(g, named_conv(g, x, "block2_conv", 4), NULL), NULL);
    OK(ls_graph_finish(g, units(g, x, "head", 3)));
    return g;
}

static void patterns_say_what_is_frozen(void **state) {
    ls_graph *g = to_freeze();
    int matched;
    int64_t all = ls_graph_trainable_parameter_count(g), first = 3 * 3 * 2 * 4 + 4;
    assert_int_equal(all, ls_graph_parameter_count(g) - 8);  // the moving statistics
    OK(ls_graph_freeze(g, "block1_*", 1, &matched));
    assert_int_equal(matched, 2);
    assert_int_equal(ls_graph_trainable_parameter_count(g), all - first);
    OK(ls_graph_freeze(g, "*/bias", 1, NULL));
    assert_int_equal(ls_graph_trainable_parameter_count(g), all - first - 4 - 3);
    OK(ls_graph_freeze(g, "*", 0, &matched));
    assert_int_equal(matched, ls_store_count(ls_graph_store(g)));
    assert_int_equal(ls_graph_trainable_parameter_count(g), all);
    OK(ls_graph_freeze(g, "block9*", 1, &matched));
    assert_int_equal(matched, 0);
    assert_int_equal(ls_graph_freeze(g, "block9*", 1, NULL), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(),
                        "net: no parameter matches \"block9*\"; names look like \"block1_conv/kernel\", "
                        "and * stands for anything");
    // A copy is frozen as the graph was.
    ls_graph *copy;
    OK(ls_graph_freeze(g, "head/*", 1, NULL));
    OK(ls__graph_with_classifier_loss(g, 0, 0, &copy));
    assert_int_equal(ls_graph_trainable_parameter_count(copy), ls_graph_trainable_parameter_count(g));
    assert_int_equal(ls__graph_trains(copy, ls__store_find(copy->store, "head/bias")), 0);
    ls_graph_destroy(&copy);
    ls_graph_destroy(&g);
    OK(ls_graph_create("open", LS_SHAPE(4), &g));
    assert_int_equal(ls_graph_freeze(g, "*", 1, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(), "open: finish the graph before freezing parameters of it");
    ls_graph_destroy(&g);
}

// --- telling graphs apart --------------------------------------------------------------------------------------------

typedef struct recipe {
    const char *name;
    int stride, relu, same, other_way, frozen, smooth, weight, size, filters, named_output, initializer;
    float rate, momentum, epsilon;
} recipe;

static uint64_t fingerprint(recipe r) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(9 + r.size, 9, 2), &g));
    ls_value target = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value a = ls_conv2d(g, ls_graph_input(g),
                           &(ls_conv2d_attrs){.filters = 4 + r.filters,
                                              .kernel = {3, 3},
                                              .strides = {1 + r.stride, 1 + r.stride},
                                              .padding = r.same ? LS_PADDING_SAME : LS_PADDING_VALID,
                                              .kernel_initializer = r.initializer ? LS_INITIALIZER_HE_NORMAL : 0,
                                              .activation = r.relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE});
    ls_value b = ls_batch_norm(g, a, &(ls_batch_norm_attrs){.momentum = r.momentum, .epsilon = r.epsilon});
    ls_value c = ls_relu(g, b, r.name);
    ls_value x = ls_add(g, c, r.other_way ? a : b, NULL);
    x = ls_dropout(g, ls_global_average_pool2d(g, x, NULL), &(ls_dropout_attrs){.rate = 0.25f + r.rate});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 3});
    ls_softmax_cross_entropy(g, x, target,
                             &(ls_loss_attrs){.label_smoothing = r.smooth ? 0.1 : 0, .weight = r.weight ? 0.5 : 0});
    OK(ls_graph_add_output(g, x, r.named_output ? "scores" : NULL));
    OK(ls_graph_finish(g, LS_NO_VALUE));
    if (r.frozen) OK(ls_graph_freeze(g, "conv2d/bias", 1, NULL));
    uint64_t value = ls__graph_fingerprint(g);
    ls_graph_destroy(&g);
    return value;
}

static void whatever_computes_otherwise_has_another_fingerprint(void **state) {
    static const recipe recipes[] = {
        {0},
        {.stride = 1},
        {.relu = 1},
        {.same = 1},
        {.other_way = 1},
        {.frozen = 1},
        {.smooth = 1},
        {.weight = 1},
        {.size = 1},
        {.filters = 1},
        {.rate = 0.25f},
        {.momentum = 0.5f},
        {.epsilon = 1e-5f},
        {.name = "it"},
        {.named_output = 1},
        {.initializer = 1},
    };
    enum { COUNT = sizeof recipes / sizeof recipes[0] };
    uint64_t seen[COUNT];
    for (int i = 0; i < COUNT; i++) {
        seen[i] = fingerprint(recipes[i]);
        assert_true(seen[i] == fingerprint(recipes[i]));
        for (int k = 0; k < i; k++)
            if (seen[k] == seen[i]) fail_msg("recipes %d and %d have one fingerprint", k, i);
    }
}

// --- sentences -------------------------------------------------------------------------------------------------------

static ls_value ask(ls_graph *g, int which) {
    ls_value x = ls_graph_input(g), flat = ls_flatten(g, x, NULL);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value scores = units(g, flat, "scores", 3);
    switch (which) {
    case 0: return ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {2, -1}});
    case 1: return ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 1, .kernel = {1, 1}, .padding = (ls_padding)7});
    case 2: return ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 1, .kernel = {1, 1}, .no_bias = 2});
    case 3: return ls_dropout(g, x, &(ls_dropout_attrs){.rate = -0.5f});
    case 4: return ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{1, -1}, {0, 0}}});
    case 5: return ls_softmax_cross_entropy(g, scores, label, &(ls_loss_attrs){.weight = -1});
    case 6: return ls_softmax_cross_entropy(g, scores, label, &(ls_loss_attrs){.label_smoothing = 1});
    case 7: return ls_softmax_cross_entropy(g, scores, flat, NULL);
    case 8: return ls_softmax_cross_entropy(g, x, label, NULL);
    case 9: return ls_softmax_cross_entropy(g, ls_relu(g, scores, NULL), label, NULL);
    case 10: return ls_accuracy(g, label, scores, NULL);
    case 11: return ls_batch_norm(g, x, &(ls_batch_norm_attrs){.momentum = 1});
    case 12: return ls_graph_add_input(g, NULL, LS_SHAPE(2), LS_DTYPE_U8);
    case 13: return ls_graph_add_input(g, "label", LS_SHAPE(2), LS_DTYPE_I32);
    case 14: return ls__graph_add(g, LS_OP_ADD, (ls_value[]){x, x, x}, 3, NULL);
    default: return ls_softmax_cross_entropy(g, scores, ls_graph_add_input(g, "pair", LS_SHAPE(2), LS_DTYPE_I32), NULL);
    }
}

static void attributes_have_bounds(void **state) {
    static const char *const sentences[] = {
        "max_pooling2d: pool_size of a MaxPooling2D layer is at least 1, but -1 was asked for",
        "conv2d: its padding was given as number 7, which there is not: they go from 0 (valid) to 1 (same)",
        "conv2d: no_bias of a Conv2D layer lies between 0 and 1, but 2 was asked for",
        "dropout: rate of a Dropout layer lies between 0 and 1, but -0.5 was asked for",
        "zero_padding2d: padding of a ZeroPadding2D layer is at least 0, but -1 was asked for",
        "loss: weight of a SoftmaxCrossEntropy layer is at least 0, but -1 was asked for",
        "loss: the label smoothing is at least 0 and less than 1, not 1",
        "loss: targets that are rows of weights have the shape of the scores, (None, 3), not (None, 72)",
        "loss: it takes one score per class, (None, classes), but was given (None, 6, 6, 2) of fp32",
        "model net ends in layer re_lu: the last layer must give logits, without an activation",
        "accuracy: it takes one score per class, (None, classes), but was given (None) of i32",
        ("batch_normalization: batch normalization has an epsilon above 0 and below 1 and a momentum of at least 0 and "
         "below 1, but 0.001 and 1 were asked for"),
        "net: an input is floating (fp32) or whole numbers (i32), not u8",
        "two layers are named label; give each layer its own name, or none for an automatic one",
        "a Add layer has 2 to 2 inputs, but 3 were given",
        "loss: targets that are class numbers are one a sample, (None), but their shape is (None, 2)",
    };
    for (int i = 0; i < (int)(sizeof sentences / sizeof sentences[0]); i++) {
        ls_graph *g;
        OK(ls_graph_create("net", LS_SHAPE(6, 6, 2), &g));
        refused(g, ask(g, i), sentences[i]);
        ls_graph_destroy(&g);
    }
}

static ls_graph *two_heads(int extra) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(6), &g));
    ls_value x = ls_graph_input(g);
    OK(ls_graph_add_output(g, units(g, x, "left", 2), NULL));
    OK(ls_graph_add_output(g, units(g, x, "right", 3), "named"));
    if (extra) units(g, x, "lost", 4);
    return g;
}

static void every_layer_leads_somewhere(void **state) {
    ls_graph *g = two_heads(1), *objective;
    assert_int_equal(ls_graph_finish(g, LS_NO_VALUE), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "net: layer lost leads to no output, loss or metric; remove it, or pass its value on");
    ls_graph_destroy(&g);
    g = two_heads(0);
    OK(ls_graph_finish(g, LS_NO_VALUE));
    assert_int_equal(ls_graph_output_count(g), 2);
    assert_string_equal(ls_graph_output_at(g, 0).name, "left");
    assert_string_equal(ls_graph_output_at(g, 1).name, "named");
    assert_int_equal(ls_graph_classes(g), 0);
    assert_int_equal(ls__graph_with_classifier_loss(g, 0, 0, &objective), LS_STATUS_INVALID_ARGUMENT);
    assert_null(objective);
    assert_string_equal(ls_error_message(),
                        "net has 2 outputs and no loss: say what each is trained towards "
                        "(ls_softmax_cross_entropy, ...)");
    ls_graph_destroy(&g);
    // Without any output.
    OK(ls_graph_create("net", LS_SHAPE(6), &g));
    assert_int_equal(ls_graph_finish(g, LS_NO_VALUE), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(), "net: value -1 was given as the output, which is no layer of it");
    ls_graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_of_one_name_share_their_parameters),
        cmocka_unit_test(parameters_of_one_name_have_one_shape),
        cmocka_unit_test(automatic_names_never_collide),
        cmocka_unit_test(stores_are_closed_by_trainers),
        cmocka_unit_test(patterns_say_what_is_frozen),
        cmocka_unit_test(whatever_computes_otherwise_has_another_fingerprint),
        cmocka_unit_test(attributes_have_bounds),
        cmocka_unit_test(every_layer_leads_somewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
