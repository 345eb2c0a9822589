// Networks of Keras's applications and of torchvision against what those compute in float64 (tests/golden/applications.json, made by
// tests/golden/make_applications.py, which says by which formulas both sides draw weights and images): logits, loss and gradients of one
// step with dropout rates of 0, and the logits in inference with moving statistics made of the batch's. With the argument "large": those
// that take long, whose ops the smaller ones have, too; with a network's name: that one.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden_check.h"
#include "plan_rig.h"

static const char *const large[] = {"vgg19",          "densenet169",    "densenet201",
                                    "efficientnetb1", "efficientnetb2", "alexnet"};

enum { CLASSES = 10, PATCH = 8, STREAM_PATCHES = 10000, STREAM_NOISE, STREAM_LABELS, STREAM_SIGNS = 30000 };

// How far from float64: norms of distances over norms. 0: not compared.
typedef struct tolerance {
    double logits, loss, gradient, inference;
} tolerance;

static const tolerance fp32 = {.logits = 1e-5, .loss = 1e-5, .gradient = 1e-3, .inference = 1e-5};
static const tolerance bf16 = {.logits = 8e-2, .loss = 5e-2, .inference = 8e-2};

typedef struct network {
    const json_t *golden;
    const char *name;
    int64_t batch, size, channels;
    uint32_t variant;
    rig rig;
    int *order;  // (count of parameters): their numbers, in the order of their names
} network;

// Word i of a stream, drawn four at a time by who counts up.
typedef struct stream {
    uint32_t number, variant;
    ls_philox4 words;
} stream;

static uint32_t next(stream *s, int64_t i) {
    if (i % 4 == 0) s->words = ls_philox(UINT64_C(0x4C6F636B73746570), (uint32_t)(i / 4), s->number, s->variant, 0);
    return s->words.v[i % 4];
}

static void make_batch(network *net) {
    rig *r = &net->rig;
    stream noise = {.number = STREAM_NOISE, .variant = net->variant};
    int pixels_as_they_are = strncmp(net->name, "efficientnet", 12) == 0;
    int64_t size = net->size, across = size / PATCH, channels = net->channels;
    for (int64_t i = 0; i < net->batch * size * size * channels; i++) {
        int64_t c = i % channels, w = i / channels % size, h = i / channels / size % size;
        int64_t n = i / channels / size / size, patch = ((n * across + h / PATCH) * across + w / PATCH) * channels + c;
        uint32_t k = 3 * (draw(STREAM_PATCHES, net->variant, patch) >> 24);
        k = (k + (next(&noise, i) >> 24)) >> 2;
        r->images[i] = pixels_as_they_are ? (float)k : ((float)k - 127.5f) / 127.5f;
    }
    for (int64_t n = 0; n < net->batch; n++) r->labels[n] = (int32_t)(draw(STREAM_LABELS, net->variant, n) % CLASSES);
}

// --- weights ---------------------------------------------------------------------------------------------------------

static const ls_param *param_at(const network *net, int t) { return &net->rig.store->params[net->order[t]]; }

static int has_gradient(const network *net, int t) {
    return ls__graph_trains(net->rig.graph, net->order[t]) && param_at(net, t)->role != LS_PARAM_STATISTIC;
}

static void sort_names(network *net) {
    int count = net->rig.store->count;
    net->order = calloc((size_t)count, sizeof *net->order);
    assert_non_null(net->order);
    for (int t = 0; t < count; t++) {
        int at = t;
        for (; at > 0 && strcmp(param_at(net, at - 1)->name, net->rig.store->params[t].name) > 0; at--)
            net->order[at] = net->order[at - 1];
        net->order[at] = t;
    }
}

static uint64_t hash_of(uint64_t h, const char *text) {
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

// That both sides mean the same weights by their numbers, and the same of them are trained.
static void check_names(const network *net) {
    uint64_t h = 14695981039346656037u;
    char hash[17];
    for (int t = 0; t < net->rig.store->count; t++)
        h = hash_of(hash_of(h, param_at(net, t)->name), has_gradient(net, t) ? " trained\n" : "\n");
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)h);
    assert_string_equal(hash, json_string_value(member(net->golden, "weights")));
}

// What a weight's elements are drawn from: middle +- width, odd ones negated.
typedef struct formula {
    double middle, width;
    int negated;
} formula;

// initial() of make_applications.py.
static formula formula_of(const char *name, ls_shape s) {
    const char *kind = strchr(name, '/') + 1;
    if (strcmp(kind, "bias") == 0) return (formula){0, 0.1, 0};
    if (strcmp(kind, "mean") == 0 || strcmp(kind, "variance") == 0) return (formula){0.5, 0.25, 0};
    if (strcmp(kind, "count") == 0 || strncmp(kind, "moving_", 7) == 0) return (formula){0, 0, 0};
    if (strcmp(kind, "gamma") == 0) return (formula){1, 0.25, 0};
    if (strcmp(kind, "beta") == 0) return (formula){2, 0.5, 1};
    if (s.ndim == 2) return (formula){0, sqrt(6.0 / (double)(s.dim[0] + s.dim[1])), 0};
    int64_t fan_in = s.dim[0] * s.dim[1];
    if (strcmp(kind, "depthwise_kernel") != 0 && s.dim[3] != 1) fan_in *= s.dim[2];
    return (formula){0, sqrt(6.0 / (double)fan_in), 0};
}

static void make_weights(network *net) {
    rig *r = &net->rig;
    sort_names(net);
    check_names(net);
    for (int t = 0; t < r->store->count; t++) {
        formula f = formula_of(param_at(net, t)->name, param_at(net, t)->shape);
        stream s = {.number = (uint32_t)t, .variant = net->variant};
        float *plain = rig_plain(r, net->order[t]);
        for (int64_t i = 0; i < ls_shape_count(param_at(net, t)->shape); i++) {
            double u = 2 * ((next(&s, i) >> 8) * 0x1p-24) - 1;
            plain[i] = (float)(f.middle + u * f.width);
            if (f.negated && i % 2) plain[i] = -plain[i];
        }
        rig_set(r, net->order[t], plain);
    }
    rig_refresh(r);
}

static int network_create(network *net, ls_dtype precision) {
    net->name = json_string_value(member(net->golden, "name"));
    net->batch = (int64_t)number(net->golden, "batch");
    net->size = (int64_t)number(net->golden, "image_size");
    net->channels = strcmp(net->name, "lenet5") == 0 ? 1 : 3;
    net->variant = (uint32_t)number(net->golden, "variant");
    ls_graph *graph;
    OK(ls_model_create(net->name, LS_SHAPE(net->size, net->size, net->channels), CLASSES, &graph));
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == LS_OP_DROPOUT) ((ls_dropout_attrs *)(void *)graph->nodes[i].attrs.bytes)->rate = 0;
    if (!rig_create(&net->rig, graph, "cpu", &(ls_plan_config){.batch = net->batch, .precision = precision})) return 0;
    make_batch(net);
    make_weights(net);
    return 1;
}

static void show(const network *net, const char *what, double error, double allowed) {
    print_message("  %s: %-28s %.1e (allowed %.2g)\n", net->name, what, error, allowed);
    check_error(what, error, allowed);
}

// Of a gradient from its norm and projection in the file, over its norm; over the third number there where it has none.
static double distance_of_tensor(const network *net, uint32_t t, int param, const json_t *expected) {
    stream s = {.number = STREAM_SIGNS + t, .variant = net->variant};
    float *plain = rig_get(&net->rig, param, net->rig.gradient);
    double square = 0, projection = 0;
    for (int64_t i = 0; i < ls_shape_count(net->rig.store->params[param].shape); i++) {
        square += (double)plain[i] * (double)plain[i];
        projection += next(&s, i) & 1 ? -(double)plain[i] : (double)plain[i];
    }
    free(plain);
    double norm = element(expected, json_array_size(expected) > 2 ? 2 : 0);
    return fmax(fabs(sqrt(square) - element(expected, 0)), fabs(projection - element(expected, 1))) / norm;
}

static void check_gradients(const network *net, double allowed) {
    const json_t *gradients = member(net->golden, "gradients");
    double worst = 0;
    size_t compared = 0;
    const char *of = "";
    for (int t = 0; t < net->rig.store->count; t++) {
        if (!has_gradient(net, t)) continue;
        const json_t *expected = json_array_get(gradients, compared++);
        double distance = distance_of_tensor(net, (uint32_t)t, net->order[t], expected);
        check_error(param_at(net, t)->name, distance, allowed);
        if (distance > worst) of = param_at(net, t)->name;
        worst = fmax(worst, distance);
    }
    assert_int_equal(compared, json_array_size(gradients));
    print_message("  %s: the gradient that is farthest is that of %s\n", net->name, of);
    show(net, "gradient, worst tensor", worst, allowed);
}

// Backward leaves the batch's mean and variance, times its samples: moving ones are made of them.
static void move_statistics(network *net) {
    rig *r = &net->rig;
    for (int p = 0; p < r->store->count; p++) {
        const char *end = strstr(r->store->params[p].name, "/moving_mean");
        if (!end) continue;
        char name[128];
        snprintf(name, sizeof name, "%.*s/moving_variance", (int)(end - r->store->params[p].name),
                 r->store->params[p].name);
        int of_variance = ls__store_find(r->store, name);
        float *mean = rig_get(r, p, r->gradient), *variance = rig_get(r, of_variance, r->gradient);
        for (int64_t i = 0; i < ls_shape_count(r->store->params[p].shape); i++) {
            double v = (double)variance[i] / (double)net->batch;
            mean[i] = (float)((double)mean[i] / (double)net->batch + sqrt(v) / 8);
            variance[i] = (float)(1.25 * v);
        }
        rig_set(r, p, mean);
        rig_set(r, of_variance, variance);
    }
    rig_refresh(r);
}

static void check_network(const json_t *golden, ls_dtype precision, const tolerance *allowed) {
    network net = {.golden = golden};
    if (!network_create(&net, precision)) return;
    int64_t count = net.batch * CLASSES;
    double loss = number(golden, "loss_sum");
    rig_sums sums = rig_forward(&net.rig);
    double logits = distance_of_values(rig_logits(net.rig.run), member(golden, "logits"), count);
    show(&net, precision == LS_DTYPE_F32 ? "logits" : "logits in bf16", logits, allowed->logits);
    show(&net, "sum of losses", fabs(sums.loss - loss) / loss, allowed->loss);
    rig_backward(&net.rig);
    if (allowed->gradient > 0) check_gradients(&net, allowed->gradient);
    move_statistics(&net);
    ls_plan_config config = {.batch = net.batch, .precision = precision, .mode = LS_PLAN_EVALUATION};
    ls_runner *run = rig_runner(&net.rig, net.rig.graph, &config);
    rig_forward_of(&net.rig, run);
    show(&net, "logits in inference", distance_of_values(rig_logits(run), member(golden, "inference_logits"), count),
         allowed->inference);
    ls_runner_destroy(&run);
    free(net.order);
    rig_free(&net.rig);
}

static int is_large(const char *name) {
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++)
        if (strcmp(name, large[i]) == 0) return 1;
    return 0;
}

static void check_all(int those_large) {
    json_t *golden = golden_load("applications");
    const json_t *list = member(golden, "numbers");
    size_t checked = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (is_large(json_string_value(member(one, "name"))) != those_large) continue;
        check_network(one, LS_DTYPE_F32, &fp32);
        checked++;
    }
    assert_int_equal(checked, those_large ? sizeof large / sizeof large[0] : 13);
    json_decref(golden);
}

static void numbers_are_those_of_keras_and_torchvision(void **state) { check_all(0); }

static void those_of_large_networks_too(void **state) { check_all(1); }

static void check_one(void **state) {
    json_t *golden = golden_load("applications");
    const json_t *list = member(golden, "numbers");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *one = json_array_get(list, i);
        if (strcmp(json_string_value(member(one, "name")), *state) == 0) check_network(one, LS_DTYPE_F32, &fp32);
    }
    json_decref(golden);
}

static void in_bf16_too(void **state) {
    json_t *golden = golden_load("applications");
    const json_t *list = member(golden, "numbers");
    int checked = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(member(json_array_get(list, i), "name"));
        if (strcmp(name, "mobilenetv2") != 0 && strcmp(name, "efficientnetb0") != 0) continue;
        check_network(json_array_get(list, i), LS_DTYPE_BF16, &bf16);
        checked++;
    }
    assert_int_equal(checked, 2);
    json_decref(golden);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_keras_and_torchvision),
        cmocka_unit_test(in_bf16_too),
    };
    const struct CMUnitTest long_ones[] = {cmocka_unit_test(those_of_large_networks_too)};
    const struct CMUnitTest single[] = {cmocka_unit_test_prestate(check_one, argc > 1 ? argv[1] : NULL)};
    if (argc > 1 && strcmp(argv[1], "large") == 0) return cmocka_run_group_tests(long_ones, NULL, NULL);
    if (argc > 1) return cmocka_run_group_tests(single, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
