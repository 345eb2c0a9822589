// One training step of mnist-cnn, and five steps of Adam and of SGD, against what PyTorch computes in float64 from
// the same weights and images (tests/golden/mnist_cnn.json, made by tests/golden/make_mnist_cnn.py, which also says
// by which formula both sides draw them). Dropout is left out: its draws are each system's own.
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <lockstep/lockstep.h>

#include "base/bf16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/device.h"
#include "graph/plan.h"
#include "optim/optim.h"

#define KEY     UINT64_C(0x4C6F636B73746570)
#define BATCH   32
#define PIXELS  (28 * 28)
#define CLASSES 10
#define STEPS   5
enum { STREAM_IMAGES = 100, STREAM_LABELS = 101 };

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != LS_OK) fail_msg("%s: %s", #call, ls_error_message());                                            \
    } while (0)

// How far from float64 each precision may be. Distances of tensors are norms: |ours - theirs| / |theirs|.
typedef struct tolerance {
    double logits, loss, gradient, adam_loss, sgd_loss;
} tolerance;

// Sums of at most 1152 terms in fp32 stay within a few 1e-7 of float64 (PyTorch's fp32 is at 3e-7 in the logits and
// 8e-7 in the worst gradient: "distance" in the golden file). The gradients get more room because one value on the
// edge of a ReLU, or one pooling window whose two largest values round to the other order, moves a gradient
// discretely.
static const tolerance fp32 = {.logits = 1e-4, .loss = 1e-5, .gradient = 1e-3, .adam_loss = 1e-4, .sgd_loss = 1e-5};

// A bf16 value has 8 significant bits, so it is up to 2^-9 = 0.2 % off, and more of such values change sides at a
// ReLU or in a pooling window: PyTorch's bf16 autocast is at 0.4 % in the logits and at 12 % in the worst gradient.
// We allow about twice that; a wrong formula or layout is at 100 %. The loss, a mean over samples of errors of either
// sign, is far closer: autocast is at 0.002 %, and at 0.3 % once Adam has moved every weight by the full rate,
// however uncertain the sign of its gradient.
static const tolerance bf16 = {.logits = 1e-2, .loss = 2e-4, .gradient = 0.25, .adam_loss = 6e-3, .sgd_loss = 2e-4};

typedef struct setting {
    const char *device;
    ls_dtype precision;
    const tolerance *tolerance;
} setting;

static json_t *golden;

// The network in one setting with the golden weights in it, and the golden batch.
typedef struct network {
    const setting *setting;
    ls_graph *graph;
    ls_device *device;
    ls_params *params;
    ls_plan *plan;
    int64_t length;
    float *weights, *gradient, *state[LS_MAX_OPTIMIZER_STATE];
    void *copies, *arena, *images;
    int32_t labels[BATCH];
    uint64_t samples[BATCH];
} network;

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static double element(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static uint32_t draw(uint32_t stream, int64_t i) { return ls_philox(KEY, (uint32_t)(i / 4), stream, 0, 0).v[i % 4]; }

static void make_images(network *net) {
    int64_t pixel_sum = 0;
    OK(ls_memory_alloc(BATCH * PIXELS * (int64_t)ls_dtype_size(net->setting->precision), &net->images));
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        uint32_t k = draw(STREAM_IMAGES, i) >> 24;
        int64_t n = i / PIXELS, row = i % PIXELS / 28, first = n % 8;
        if (row < first || row >= first + 16 + n % 5) k >>= 3;
        pixel_sum += k;
        float x = (float)k / 255.0f;
        if (net->setting->precision == LS_DTYPE_BF16) {
            ((ls_bf16 *)net->images)[i] = ls_float_to_bf16(x);
        } else {
            ((float *)net->images)[i] = x;
        }
    }
    assert_int_equal(pixel_sum, (int64_t)number(golden, "pixel_sum"));
    for (int n = 0; n < BATCH; n++) {
        net->labels[n] = (int32_t)(draw(STREAM_LABELS, n) % CLASSES);
        net->samples[n] = (uint64_t)n;
        assert_int_equal(net->labels[n], (int)element(json_object_get(golden, "labels"), (size_t)n));
    }
}

static void make_weights(network *net) {
    const json_t *parameters = json_object_get(golden, "parameters");
    assert_int_equal(net->graph->param_count, json_array_size(parameters));
    for (int p = 0; p < net->graph->param_count; p++) {
        const ls_param *param = &net->graph->params[p];
        const json_t *expected = json_array_get(parameters, (size_t)p);
        assert_string_equal(param->name, json_string_value(json_object_get(expected, "name")));
        const json_t *shape = json_object_get(expected, "shape");
        assert_int_equal(param->shape.ndim, json_array_size(shape));
        for (int d = 0; d < param->shape.ndim; d++) {
            assert_int_equal(param->shape.dim[d], (int64_t)element(shape, (size_t)d));
        }
        int64_t count = ls_shape_count(param->shape);
        double limit = param->role == LS_PARAM_KERNEL ? sqrt(6.0 / (double)(param->fan_in + param->fan_out)) : 0.05;
        double sum = 0;
        float *plain;
        OK(ls_calloc(count, sizeof(float), &plain));
        for (int64_t i = 0; i < count; i++) {
            double u = (draw((uint32_t)p, i) >> 8) * 0x1p-24;
            plain[i] = (float)((2 * u - 1) * limit);
            sum += plain[i];
        }
        // Equal but for the ten digits in the file and the order of adding: the formula is the same on both sides.
        assert_true(fabs(sum - number(expected, "initial_sum")) <= 1e-9 * (1 + fabs(sum)));
        OK(ls_params_set(net->params, p, net->weights, plain));
        free(plain);
    }
    ls_params_refresh(net->params, net->weights, net->copies, 0, 1);
}

static void network_destroy(network *net) {
    ls_plan_destroy(&net->plan);
    ls_params_destroy(&net->params);
    ls_device_destroy(&net->device);
    ls_graph_destroy(&net->graph);
    ls_memory_free(net->images);
    ls_memory_free(net->weights);
    ls_memory_free(net->gradient);
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) ls_memory_free(net->state[i]);
    ls_memory_free(net->copies);
    ls_memory_free(net->arena);
}

static ls_graph *build_graph(void) {
    static const int filters[] = {32, 128, 256}, units[] = {1000, 100};
    ls_graph *g;
    OK(ls_graph_create("mnist-cnn without dropout", LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_graph_input(g);
    for (int i = 0; i < 3; i++) {
        x = ls_conv2d(g, x,
                      &(ls_conv2d_attrs){.filters = filters[i], .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
        x = ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {2, 2}});
    }
    x = ls_flatten(g, x, NULL);
    for (int i = 0; i < 2; i++) {
        x = ls_dense(g, x, &(ls_dense_attrs){.units = units[i], .activation = LS_ACTIVATION_RELU});
    }
    OK(ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = CLASSES})));
    return g;
}

static void network_create(network *net, const setting *s) {
    *net = (network){.setting = s, .graph = build_graph()};
    OK(ls_device_create(s->device, &(ls_device_options){.threads = 1}, &net->device));
    if (net->device->ops->supports(net->device, s->precision) != LS_OK) {
        print_message("skipped: %s\n", ls_error_message());
        network_destroy(net);
        skip();
    }
    net->device->ops->thread_begin(net->device);
    OK(ls_params_create(net->graph, net->device, &net->params));
    ls_plan_config config = {.batch = BATCH, .precision = s->precision, .training = 1};
    OK(ls_plan_create(net->graph, net->device, net->params, &config, &net->plan));
    net->length = ls_params_length(net->params);
    OK(ls_memory_alloc(net->length * 4, &net->weights));
    OK(ls_memory_alloc(net->length * 4, &net->gradient));
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) OK(ls_memory_alloc(net->length * 4, &net->state[i]));
    OK(ls_memory_alloc(ls_params_copies_bytes(net->params), &net->copies));
    OK(ls_memory_alloc(ls_plan_arena_bytes(net->plan), &net->arena));
    ls_plan_bind(net->plan, net->arena, net->weights, net->copies);
    make_images(net);
    make_weights(net);
}

static ls_plan_input batch_of(const network *net) {
    return (ls_plan_input){
        .images = net->images, .labels = net->labels, .random = {.seed = 1, .samples = net->samples}};
}

// The tensor's error is the norm of all differences over the norm of what was expected.
static void check_error(const network *net, const char *what, double error, double allowed) {
    print_message("  %s %s %-24s %.1e (allowed %.2g)\n", net->setting->device, ls_dtype_name(net->setting->precision),
                  what, error, allowed);
    if (!(error <= allowed)) fail_msg("%s is %g from PyTorch's; at most %g is allowed", what, error, allowed);
}

static void check_gradient(const network *net, int p, const json_t *expected) {
    const ls_param *param = &net->graph->params[p];
    int64_t count = ls_shape_count(param->shape);
    float *plain;
    OK(ls_calloc(count, sizeof(float), &plain));
    OK(ls_params_get(net->params, p, net->gradient, plain));

    double square = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        square += (double)plain[i] * plain[i];
        sum += plain[i];
    }
    double norm = number(expected, "gradient_norm"), allowed = net->setting->tolerance->gradient;
    char what[64];
    snprintf(what, sizeof what, "%s norm", param->name);
    check_error(net, what, fabs(sqrt(square) - norm) / norm, allowed);
    // A sum over n elements is off by at most sqrt(n) times the norm of their errors (Cauchy and Schwarz).
    snprintf(what, sizeof what, "%s sum", param->name);
    check_error(net, what, fabs(sum - number(expected, "gradient_sum")) / (norm * sqrt((double)count)), allowed);

    const json_t *indices = json_object_get(expected, "indices"), *values = json_object_get(expected, "gradient");
    size_t taken = json_array_size(indices);
    assert_int_equal(taken, json_array_size(values));
    double difference = 0;
    for (size_t i = 0; i < taken; i++) {
        double d = plain[(int64_t)element(indices, i)] - element(values, i);
        difference += d * d;
    }
    // Over the norm that so many elements have on average.
    snprintf(what, sizeof what, "%s elements", param->name);
    check_error(net, what, sqrt(difference / (double)taken * (double)count) / norm, allowed);
    free(plain);
}

// Logits, loss and gradients of one batch.
static void step_matches_pytorch(void **state) {
    network net;
    network_create(&net, *state);
    const tolerance *allowed = net.setting->tolerance;
    ls_plan_input input = batch_of(&net);
    ls_loss_metrics metrics;
    OK(ls_plan_forward(net.plan, &input, &metrics));

    const float *logits = ls_plan_logits(net.plan);
    const json_t *expected = json_object_get(golden, "logits");
    assert_int_equal(json_array_size(expected), BATCH * CLASSES);
    double difference = 0, reference = 0;
    for (size_t i = 0; i < BATCH * CLASSES; i++) {
        double theirs = element(expected, i), d = logits[i] - theirs;
        difference += d * d;
        reference += theirs * theirs;
    }
    check_error(&net, "logits", sqrt(difference / reference), allowed->logits);
    double loss = number(golden, "loss_sum");
    check_error(&net, "sum of losses", fabs(metrics.loss - loss) / loss, allowed->loss);
    assert_int_equal(metrics.samples, BATCH);
    // In bf16 a sample between two classes may fall to either side.
    int64_t correct = (int64_t)number(golden, "correct"), slack = net.setting->precision == LS_DTYPE_F32 ? 0 : 1;
    assert_true(llabs(metrics.correct - correct) <= slack);

    OK(ls_plan_backward(net.plan, &input, net.gradient, NULL, NULL));
    for (int p = 0; p < net.graph->param_count; p++) {
        check_gradient(&net, p, json_array_get(json_object_get(golden, "parameters"), (size_t)p));
    }
    network_destroy(&net);
}

// Five updates on the same batch: the loss before each, and after the last.
static void train(network *net, const char *name, double allowed) {
    const json_t *recipe = json_object_get(golden, name), *losses = json_object_get(recipe, "losses");
    const ls_optimizer *optimizer;
    ls_optimizer_params params = {-1, -1, -1, -1, -1, -1, 0, -1};
    params.lr = number(recipe, "lr");
    if (strcmp(name, "adam") == 0) {
        params.beta1 = number(recipe, "beta1");
        params.beta2 = number(recipe, "beta2");
        params.epsilon = number(recipe, "epsilon");
    } else {
        params.momentum = number(recipe, "momentum");
    }
    OK(ls_optimizer_find(name, &optimizer));
    OK(ls_optimizer_resolve(optimizer, &params));
    assert_int_equal(json_array_size(losses), STEPS + 1);

    ls_plan_input input = batch_of(net);
    for (int step = 1; step <= STEPS + 1; step++) {
        ls_loss_metrics metrics;
        OK(ls_plan_forward(net->plan, &input, &metrics));
        char what[64];
        snprintf(what, sizeof what, "%s loss, step %d", name, step);
        double theirs = element(losses, (size_t)step - 1);
        check_error(net, what, fabs(metrics.loss / BATCH - theirs) / theirs, allowed);
        if (step > STEPS) break;
        OK(ls_plan_backward(net->plan, &input, net->gradient, NULL, NULL));
        for (int64_t i = 0; i < net->length; i++) net->gradient[i] /= BATCH;
        ls_update update = {.n = net->length, .w = net->weights, .g = net->gradient, .lr = params.lr, .step = step};
        memcpy(update.state, net->state, sizeof update.state);
        optimizer->update(&params, &update);
        ls_params_refresh(net->params, net->weights, net->copies, 0, 1);
    }
}

static void adam_matches_pytorch(void **state) {
    network net;
    network_create(&net, *state);
    train(&net, "adam", net.setting->tolerance->adam_loss);
    network_destroy(&net);
}

static void sgd_matches_pytorch(void **state) {
    network net;
    network_create(&net, *state);
    train(&net, "sgd", net.setting->tolerance->sgd_loss);
    network_destroy(&net);
}

static int load_golden(void **state) {
    json_error_t error;
    golden = json_load_file(LS_GOLDEN_DIR "/mnist_cnn.json", 0, &error);
    if (!golden) fprintf(stderr, "%s/mnist_cnn.json, line %d: %s\n", LS_GOLDEN_DIR, error.line, error.text);
    return golden ? 0 : -1;
}

static int unload_golden(void **state) {
    json_decref(golden);
    return 0;
}

int main(void) {
    static setting ref_fp32 = {"ref", LS_DTYPE_F32, &fp32}, cpu_fp32 = {"cpu", LS_DTYPE_F32, &fp32};
    static setting cpu_bf16 = {"cpu", LS_DTYPE_BF16, &bf16};
#define GOLDEN_TEST(test, with)                                                                                        \
    { #test ", " #with, test, NULL, NULL, &with }
    const struct CMUnitTest tests[] = {
        GOLDEN_TEST(step_matches_pytorch, ref_fp32), GOLDEN_TEST(adam_matches_pytorch, ref_fp32),
        GOLDEN_TEST(sgd_matches_pytorch, ref_fp32),  GOLDEN_TEST(step_matches_pytorch, cpu_fp32),
        GOLDEN_TEST(adam_matches_pytorch, cpu_fp32), GOLDEN_TEST(sgd_matches_pytorch, cpu_fp32),
        GOLDEN_TEST(step_matches_pytorch, cpu_bf16), GOLDEN_TEST(adam_matches_pytorch, cpu_bf16),
        GOLDEN_TEST(sgd_matches_pytorch, cpu_bf16),
    };
    return cmocka_run_group_tests(tests, load_golden, unload_golden);
}
