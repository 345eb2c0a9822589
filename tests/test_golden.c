// One training step of mnist-cnn, and five steps of Adam and of SGD, against what PyTorch computes in float64 from
// the same weights and images (tests/golden/mnist_cnn.json, made by tests/golden/make_mnist_cnn.py, which also says
// by which formula both sides draw them). Dropout is left out: its draws are each system's own.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "golden_check.h"
#include "host_update.h"
#include "plan_rig.h"

#define BATCH   32
#define PIXELS  (28 * 28)
#define CLASSES 10
#define STEPS   5
enum { STREAM_IMAGES = 100, STREAM_LABELS = 101 };

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

// An fp16 value has 11 significant bits: PyTorch's fp16 autocast is at 0.05 % in the logits, at 4.5 % in the worst gradient, and at 0.14 % and
// 0.0006 % in the losses.
static const tolerance fp16 = {.logits = 1e-3, .loss = 5e-5, .gradient = 0.1, .adam_loss = 3e-3, .sgd_loss = 5e-5};

typedef struct setting {
    const char *device;
    ls_dtype precision;
    const tolerance *tolerance;
} setting;

static json_t *golden;

// The network in one setting with the golden weights in it, and the golden batch.
typedef struct network {
    const setting *setting;
    rig rig;
    float *state[LS_MAX_OPTIMIZER_STATE];
} network;

static void make_batch(rig *r) {
    int64_t pixel_sum = 0;
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        uint32_t k = draw(STREAM_IMAGES, 0, i) >> 24;
        int64_t n = i / PIXELS, row = i % PIXELS / 28, first = n % 8;
        if (row < first || row >= first + 16 + n % 5) k >>= 3;
        pixel_sum += k;
        r->images[i] = (float)k / 255.0f;
    }
    assert_int_equal(pixel_sum, (int64_t)number(golden, "pixel_sum"));
    for (int n = 0; n < BATCH; n++) {
        r->labels[n] = (int32_t)(draw(STREAM_LABELS, 0, n) % CLASSES);
        assert_int_equal(r->labels[n], (int)element(member(golden, "labels"), (size_t)n));
    }
}

static void make_weights(rig *r) {
    const json_t *parameters = member(golden, "parameters");
    assert_int_equal(r->store->count, json_array_size(parameters));
    for (int p = 0; p < r->store->count; p++) {
        const ls_param *param = &r->store->params[p];
        const json_t *expected = json_array_get(parameters, (size_t)p);
        assert_string_equal(param->name, json_string_value(member(expected, "name")));
        check_shape(param->shape, member(expected, "shape"));
        double limit = param->role == LS_PARAM_KERNEL ? sqrt(6.0 / (double)(param->fan_in + param->fan_out)) : 0.05;
        double sum = 0;
        float *plain = rig_plain(r, p);
        for (int64_t i = 0; i < ls_shape_count(param->shape); i++) {
            plain[i] = (float)(draw_signed((uint32_t)p, 0, i) * limit);
            sum += plain[i];
        }
        // Equal but for the ten digits in the file and the order of adding: the formula is the same on both sides.
        assert_true(fabs(sum - number(expected, "initial_sum")) <= 1e-9 * (1 + fabs(sum)));
        rig_set(r, p, plain);
    }
    rig_refresh(r);
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
    *net = (network){.setting = s};
    ls_plan_config config = {.batch = BATCH, .precision = s->precision};
    if (!rig_create(&net->rig, build_graph(), s->device, &config)) skip();
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) OK(ls_memory_alloc(net->rig.length * 4, &net->state[i]));
    make_batch(&net->rig);
    make_weights(&net->rig);
}

static void network_destroy(network *net) {
    rig_free(&net->rig);
    for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) ls_memory_free(net->state[i]);
}

static void check_and_show(const network *net, const char *what, double error, double allowed) {
    print_message("  %s %s %-24s %.1e (allowed %.2g)\n", net->setting->device, ls_dtype_name(net->setting->precision),
                  what, error, allowed);
    check_error(what, error, allowed);
}

static void check_gradient(const network *net, int p, const json_t *expected) {
    const ls_param *param = &net->rig.store->params[p];
    int64_t count = ls_shape_count(param->shape);
    float *plain = rig_get(&net->rig, p, net->rig.gradient);

    double square = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        square += (double)plain[i] * plain[i];
        sum += plain[i];
    }
    double norm = number(expected, "gradient_norm"), allowed = net->setting->tolerance->gradient;
    char what[64];
    snprintf(what, sizeof what, "%s norm", param->name);
    check_and_show(net, what, fabs(sqrt(square) - norm) / norm, allowed);
    // A sum over n elements is off by at most sqrt(n) times the norm of their errors (Cauchy and Schwarz).
    snprintf(what, sizeof what, "%s sum", param->name);
    check_and_show(net, what, fabs(sum - number(expected, "gradient_sum")) / (norm * sqrt((double)count)), allowed);

    const json_t *indices = member(expected, "indices"), *values = member(expected, "gradient");
    size_t taken = json_array_size(indices);
    assert_int_equal(taken, json_array_size(values));
    double difference = 0;
    for (size_t i = 0; i < taken; i++) {
        double d = plain[(int64_t)element(indices, i)] - element(values, i);
        difference += d * d;
    }
    // Over the norm that so many elements have on average.
    snprintf(what, sizeof what, "%s elements", param->name);
    check_and_show(net, what, sqrt(difference / (double)taken * (double)count) / norm, allowed);
    free(plain);
}

// Logits, loss and gradients of one batch.
static void step_matches_pytorch(void **state) {
    network net;
    network_create(&net, *state);
    const tolerance *allowed = net.setting->tolerance;
    rig *r = &net.rig;
    rig_sums sums = rig_forward(r);
    double error = distance_of_values(rig_logits(r->run), member(golden, "logits"), BATCH * CLASSES);
    check_and_show(&net, "logits", error, allowed->logits);
    double loss = number(golden, "loss_sum");
    check_and_show(&net, "sum of losses", fabs(sums.loss - loss) / loss, allowed->loss);
    // In bf16 a sample between two classes may fall to either side.
    double slack = net.setting->precision == LS_DTYPE_F32 ? 0 : 1;
    assert_true(fabs(sums.correct - number(golden, "correct")) <= slack);

    rig_backward(r);
    for (int p = 0; p < r->store->count; p++)
        check_gradient(&net, p, json_array_get(member(golden, "parameters"), (size_t)p));
    network_destroy(&net);
}

// Five updates on the same batch: the loss before each, and after the last.
static void train(network *net, const char *name, double allowed) {
    const json_t *recipe = member(golden, name), *losses = member(recipe, "losses");
    const ls_optimizer *optimizer;
    ls_optimizer_params params = {-1, -1, -1, -1, -1, -1, 0, -1, 0};
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

    rig *r = &net->rig;
    for (int step = 1; step <= STEPS + 1; step++) {
        double loss = rig_forward(r).loss;
        char what[64];
        snprintf(what, sizeof what, "%s loss, step %d", name, step);
        double theirs = element(losses, (size_t)step - 1);
        check_and_show(net, what, fabs(loss / BATCH - theirs) / theirs, allowed);
        if (step > STEPS) break;
        rig_backward(r);
        for (int64_t i = 0; i < r->length; i++) r->gradient[i] /= BATCH;
        host_update update = {.n = r->length, .w = r->weights, .g = r->gradient, .lr = params.lr, .step = step};
        memcpy(update.state, net->state, sizeof update.state);
        host_step(optimizer, &params, &update);
        rig_refresh(r);
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
    golden = golden_load("mnist_cnn");
    return 0;
}

static int unload_golden(void **state) {
    json_decref(golden);
    return 0;
}

int main(void) {
    static setting ref_fp32 = {"ref", LS_DTYPE_F32, &fp32}, cpu_fp32 = {"cpu", LS_DTYPE_F32, &fp32};
    static setting cpu_bf16 = {"cpu", LS_DTYPE_BF16, &bf16}, ref_fp16 = {"ref", LS_DTYPE_F16, &fp16};
    static setting cpu_fp16 = {"cpu", LS_DTYPE_F16, &fp16};
#define GOLDEN_TEST(test, with)                                                                                        \
    { #test ", " #with, test, NULL, NULL, &with }
    const struct CMUnitTest tests[] = {
        GOLDEN_TEST(step_matches_pytorch, ref_fp32), GOLDEN_TEST(adam_matches_pytorch, ref_fp32),
        GOLDEN_TEST(sgd_matches_pytorch, ref_fp32),  GOLDEN_TEST(step_matches_pytorch, cpu_fp32),
        GOLDEN_TEST(adam_matches_pytorch, cpu_fp32), GOLDEN_TEST(sgd_matches_pytorch, cpu_fp32),
        GOLDEN_TEST(step_matches_pytorch, cpu_bf16), GOLDEN_TEST(adam_matches_pytorch, cpu_bf16),
        GOLDEN_TEST(sgd_matches_pytorch, cpu_bf16),  GOLDEN_TEST(step_matches_pytorch, ref_fp16),
        GOLDEN_TEST(adam_matches_pytorch, ref_fp16), GOLDEN_TEST(step_matches_pytorch, cpu_fp16),
        GOLDEN_TEST(adam_matches_pytorch, cpu_fp16), GOLDEN_TEST(sgd_matches_pytorch, cpu_fp16),
    };
    return cmocka_run_group_tests(tests, load_golden, unload_golden);
}
