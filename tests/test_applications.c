// The networks of Keras's applications and of torchvision: that they are those, layer by layer and weight by weight
// (tests/golden/applications.json), and what can be asked of them. None is trained here.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "golden_check.h"
#include "graph/graph.h"
#include "graph/plan.h"

static ls_graph *built(const char *name, const ls_model_config *config) {
    ls_graph *g;
    if (ls_model_build(name, config, &g) != LS_OK) fail_msg("%s: %s", name, ls_error_message());
    return g;
}

static ls_graph *by_default(const char *name) {
    ls_model_config c;
    ls_model_config_init(&c);
    return built(name, &c);
}

// --- structure -------------------------------------------------------------------------------------------------------

enum { LINE = 512 };

typedef struct lines {
    char (*text)[LINE];
    int count;
} lines;

static int shape_text(char *to, size_t size, ls_shape shape) {
    int used = snprintf(to, size, "(");
    for (int i = 0; i < shape.ndim; i++)
        used += snprintf(to + used, size - (size_t)used, "%s%lld", i ? ", " : "", (long long)shape.dim[i]);
    return used + snprintf(to + used, size - (size_t)used, ")");
}

static void add_layer(lines *l, const ls_graph *g, const ls_node *n) {
    char *to = l->text[l->count++];
    int used = snprintf(to, LINE, "%s %s ", n->name, ls__op_find(n->op)->keras_class);
    used += shape_text(to + used, LINE - (size_t)used, n->output[0].shape);
    for (int k = 0; k < n->input_count; k++)
        used += snprintf(to + used, LINE - (size_t)used, " %s", ls__value_node(g, n->inputs[k])->name);
    assert_true(used < LINE);
}

static int by_bytes(const void *a, const void *b) { return strcmp(a, b); }

// The network as sorted lines, in the form of make_applications.py: those of its layers, of Keras's, and those of its weights.
static lines lines_of(const ls_graph *g, int with_layers) {
    lines l = {.text = calloc((size_t)(g->node_count + g->store->count), LINE)};
    assert_non_null(l.text);
    for (int i = 0; i < g->node_count && with_layers; i++)
        if (!g->nodes[i].inside) add_layer(&l, g, &g->nodes[i]);
    for (int i = 0; i < g->store->count; i++) {
        char *to = l.text[l.count++];
        int used = snprintf(to, LINE, "%s ", g->store->params[i].name);
        shape_text(to + used, LINE - (size_t)used, g->store->params[i].shape);
    }
    qsort(l.text, (size_t)l.count, LINE, by_bytes);
    return l;
}

static uint64_t hash_of(const lines *l) {
    uint64_t h = 14695981039346656037u;
    for (int i = 0; i < l->count; i++) {
        for (const char *c = l->text[i]; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211u;
        h = (h ^ '\n') * 1099511628211u;
    }
    return h;
}

static void networks_are_those_of_keras_and_torchvision(void **state) {
    json_t *golden = golden_load("applications");
    const json_t *list = member(golden, "structure");
    assert_true(json_array_size(list) >= 19);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *network = json_array_get(list, i);
        const char *name = json_string_value(member(network, "name"));
        ls_graph *g = by_default(name);
        lines l = lines_of(g, strcmp(json_string_value(member(network, "of")), "Keras") == 0);
        char hash[17];
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_of(&l));
        if (l.count != (int)number(network, "lines") || strcmp(hash, json_string_value(member(network, "text"))) != 0)
            fail_msg(
                "%s is another network than it should be; \"make_applications.py --text %s\" has what it should "
                "be, and this is it:\n%.200s\n%.200s\n%.200s",
                name, name, l.text[0], l.text[1], l.text[2]);
        int64_t fixed = ls_graph_parameter_count(g) - ls_graph_trainable_parameter_count(g);
        assert_int_equal(ls_graph_parameter_count(g), (int64_t)number(network, "parameters"));
        assert_int_equal(fixed, (int64_t)number(network, "fixed"));
        free(l.text);
        ls_graph_destroy(&g);
    }
    json_decref(golden);
}

// --- what papers and tables say --------------------------------------------------------------------------------------

// Parameters as their sources publish them: Keras's table with moving statistics, torchvision's without.
static void published_counts(void **state) {
    static const struct {
        const char *name;
        int64_t all, trainable;
    } known[] = {
        {"lenet5", 61706, 61706},
        {"alexnet", 61100840, 61100840},
        {"vgg16", 138357544, 138357544},
        {"vgg19", 143667240, 143667240},
        {"resnet18", 11699112, 11689512},
        {"resnet34", 21814696, 21797672},
        {"resnext50", 25097128, 25028904},
        {"googlenet", 6639464, 6624904},
        {"densenet121", 8062504, 7978856},
        {"densenet169", 14307880, 14149480},
        {"densenet201", 20242984, 20013928},
        {"mobilenet", 4253864, 4231976},
        {"mobilenetv2", 3538984, 3504872},
        {"inceptionv3", 23851784, 23817352},
        {"xception", 22910480, 22855952},
        {"efficientnetb0", 5330571, 5288548},
        {"efficientnetb1", 7856239, 7794184},
        {"efficientnetb2", 9177569, 9109994},
        {"nasnetmobile", 5326716, 5289978},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ls_graph *g = by_default(known[i].name);
        if (ls_graph_parameter_count(g) != known[i].all || ls_graph_trainable_parameter_count(g) != known[i].trainable)
            fail_msg("%s has %lld parameters, %lld of them trained", known[i].name,
                     (long long)ls_graph_parameter_count(g), (long long)ls_graph_trainable_parameter_count(g));
        ls_graph_destroy(&g);
    }
}

// Multiply-adds of a forward pass, in thousands of millions: torchvision's documentation, but for those that it has not, whose papers say
// them to one digit.
static void published_arithmetic(void **state) {
    static const struct {
        const char *name;
        double giga;
    } known[] = {{"alexnet", 0.714},   {"vgg16", 15.47},      {"vgg19", 19.63},     {"resnet18", 1.814},
                 {"resnet34", 3.664},  {"resnext50", 4.23},   {"googlenet", 1.498}, {"densenet121", 2.834},
                 {"mobilenet", 0.569}, {"mobilenetv2", 0.301}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        ls_graph *g = by_default(known[i].name);
        double giga = 0.5e-9 * ls_graph_cost(g).flops;
        if (fabs(giga - known[i].giga) > 0.02 * known[i].giga)
            fail_msg("%s: %g thousand million multiply-adds, not %g", known[i].name, giga, known[i].giga);
        ls_graph_destroy(&g);
    }
    assert_true(ls_graph_cost(NULL).flops == 0);
}

// --- what can be asked of them ---------------------------------------------------------------------------------------

// include_top=False, with Keras's output shapes and the names of its poolings.
static void without_the_top(void **state) {
    static const struct {
        const char *name, *output, *pooling;
        int side, channels, size;
    } known[] = {
        {"vgg16", "block5_pool", "global_average_pooling2d", 1, 512, 32},
        {"densenet121", "relu", "avg_pool", 1, 1024, 32},
        {"mobilenet", "conv_pw_13_relu", "global_average_pooling2d", 1, 1024, 32},
        {"mobilenetv2", "out_relu", "global_average_pooling2d", 2, 1280, 64},
        {"xception", "block14_sepconv2_act", "global_average_pooling2d", 3, 2048, 71},
        {"inceptionv3", "mixed10", "global_average_pooling2d", 1, 2048, 75},
        {"efficientnetb0", "top_activation", "avg_pool", 2, 1280, 64},
        {"resnet18", "layer4.1.relu_1", "avgpool", 2, 512, 64},
        {"alexnet", "features.12", "global_average_pooling2d", 1, 256, 63},
        {"googlenet", "inception5b", "avgpool", 2, 1024, 64},
        {"nasnetmobile", "activation_187", "global_average_pooling2d", 2, 1056, 64},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (int pooled = 0; pooled < 2; pooled++) {
            ls_model_config c;
            ls_model_config_init(&c);
            c.include_top = 0;
            c.input = LS_SHAPE(known[i].size, known[i].size, 3);
            c.pooling = pooled ? "avg" : "none";
            ls_graph *g = built(known[i].name, &c);
            ls_port out = ls_graph_output_at(g, 0);
            assert_string_equal(out.name, pooled ? known[i].pooling : known[i].output);
            ls_shape image = LS_SHAPE(known[i].side, known[i].side, known[i].channels);
            assert_true(ls_shape_equal(out.shape, pooled ? LS_SHAPE(known[i].channels) : image));
            ls_graph_destroy(&g);
        }
}

// Sides that are even, odd and one of each, with torchvision's sizes (ceil_mode) at the end.
static void googlenet_rounds_sizes_up(void **state) {
    static const int sizes[][4] = {{224, 224, 7, 7}, {225, 225, 7, 7}, {64, 96, 2, 3},
                                   {97, 64, 3, 2},   {100, 130, 3, 4}, {15, 15, 1, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls_model_config c;
        ls_model_config_init(&c);
        c.include_top = 0;
        c.input = LS_SHAPE(sizes[i][0], sizes[i][1], 3);
        ls_graph *g = built("googlenet", &c);
        assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(sizes[i][2], sizes[i][3], 1024)));
        ls_graph_destroy(&g);
    }
}

static void images_that_are_too_small(void **state) {
    static const struct {
        const char *name;
        int side;
    } least[] = {{"vgg16", 32},   {"densenet201", 32}, {"xception", 71},       {"inceptionv3", 75},
                 {"alexnet", 63}, {"mobilenetv2", 32}, {"efficientnetb1", 32}, {"googlenet", 15}};
    for (size_t i = 0; i < sizeof least / sizeof least[0]; i++) {
        ls_model_config c;
        ls_graph *g;
        char sentence[256];
        int side = least[i].side;
        ls_model_config_init(&c);
        c.input = LS_SHAPE(side, side, 3);
        g = built(least[i].name, &c);
        ls_graph_destroy(&g);
        c.input = LS_SHAPE(side, side - 1, 3);
        assert_int_equal(ls_model_build(least[i].name, &c, &g), LS_STATUS_INVALID_ARGUMENT);
        snprintf(sentence, sizeof sentence,
                 "%s takes images of at least %dx%d, and these are %dx%d: resize them to %dx%d or more", least[i].name,
                 side, side, side, side - 1, side, side);
        assert_string_equal(ls_error_message(), sentence);
    }
}

// Every network can be compiled, for training and inference, in what precisions the device has. Small images: it is about shapes.
static void plans_of_all(void **state) {
    static const char *const names[] = {"lenet5",      "resnet18",       "resnext50",   "googlenet",
                                        "densenet121", "mobilenet",      "mobilenetv2", "xception",
                                        "inceptionv3", "efficientnetb2", "nasnetmobile"};
    ls_device *cpu;
    OK(ls_device_create("cpu", NULL, &cpu));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ls_model_config c;
        ls_model_config_init(&c);
        if (i > 0) c.input = i < 7 || i == 9 ? LS_SHAPE(32, 32, 3) : LS_SHAPE(75, 75, 3);
        ls_graph *network = built(names[i], &c), *g;
        OK(ls__graph_with_classifier_loss(network, 0, 0, &g));
        for (int mode = 0; mode < 2; mode++) {
            ls_params *params;
            ls_plan *plan;
            ls_plan_config config = {
                .batch = 2, .precision = LS_DTYPE_F32, .mode = mode ? LS_PLAN_EVALUATION : LS_PLAN_TRAINING};
            OK(ls_params_create(g->store, cpu, &params));
            if (ls_plan_create(g, cpu, params, &config, &plan) != LS_OK)
                fail_msg("%s: %s", names[i], ls_error_message());
            ls_plan_destroy(&plan);
            ls_params_destroy(&params);
        }
        ls_graph_destroy(&g);
        ls_graph_destroy(&network);
    }
    ls_device_destroy(&cpu);
}

static void what_is_told_of_each(void **state) {
    ls_model_info m;
    int published = 0;
    for (int i = 0; (m = ls_model_at(i)).name; i++) {
        ls_graph *g = by_default(m.name);
        ls_cost cost = ls_graph_cost(g);
        assert_true(cost.flops > 0 && cost.activations > 0);
        // Products of 64 steps in both directions, and of the layer behind them.
        if (!strcmp(m.name, "lstm")) assert_true(cost.flops == 2. * 64 * 2 * (64 * 256 + 64 * 256) + 2 * 128 * 10);
        assert_true(m.imagenet_top1 == 0 || (m.classes == 1000 && m.imagenet_top1 > 50 && m.imagenet_top1 < 85));
        published += m.imagenet_top1 > 0;
        ls_graph_destroy(&g);
    }
    assert_int_equal(published, 24);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_are_those_of_keras_and_torchvision),
        cmocka_unit_test(published_counts),
        cmocka_unit_test(published_arithmetic),
        cmocka_unit_test(without_the_top),
        cmocka_unit_test(googlenet_rounds_sizes_up),
        cmocka_unit_test(images_that_are_too_small),
        cmocka_unit_test(plans_of_all),
        cmocka_unit_test(what_is_told_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
