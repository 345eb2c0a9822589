// Residual networks against what PyTorch computes in float64 from the same weights and images: one training step, ten
// steps of SGD, the moving statistics after them, and inference with those. tests/golden/make_resnet.py made the files
// and says by which formulas both sides draw weights and images; its networks are, layer for layer, Keras's.
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
#define CLASSES 10
#define PATCH   8
enum { STREAM_PATCHES = 10000, STREAM_NOISE, STREAM_LABELS, STREAM_SIGNS = 30000 };
enum { PROJECTIONS = 4, SUMMARY = 1 + PROJECTIONS };  // of a tensor: its norm, then the projections

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != LS_OK) fail_msg("%s: %s", #call, ls_error_message());                                            \
    } while (0)

// How far from float64 a precision may be. Distances of tensors are norms: |ours - theirs| / |theirs|. 0: not compared.
typedef struct tolerance {
    double logits, loss, gradient, losses, statistic, inference;
} tolerance;

// PyTorch's fp32 is at 1e-6 in the logits and, in the worst tensor, at 1e-4 in the gradients ("distance" in the files).
// More would be allowed for the edges of ReLUs, but the files' weights keep away from those ("margin"). While training, each
// step starts where the errors of those before have led.
static const tolerance fp32 = {
    .logits = 4e-6, .loss = 1e-6, .gradient = 1e-3, .losses = 1e-4, .statistic = 1e-4, .inference = 1e-4};

// In resnet50v2.json one value is a tenth of float32's error away from a ReLU's edge ("margin"): on which side of it one comes
// out changes the gradients of what lies before. PyTorch's own fp32 is 1.8 % away from float64 in its worst tensor there.
static const tolerance fp32_at_edge = {
    .logits = 4e-6, .loss = 1e-6, .gradient = 2e-2, .losses = 1e-4, .statistic = 1e-4, .inference = 1e-4};

// PyTorch's bf16 autocast is at 1 % in the logits and at 0.3 % in the loss; we allow about three times that. In gradients it
// is at 10 to 40 %: there is nothing to compare.
static const tolerance bf16 = {.logits = 4e-2, .loss = 1e-2, .losses = 3e-2, .statistic = 5e-2, .inference = 5e-2};

typedef struct setting {
    const char *model, *device;
    ls_dtype precision;
    const tolerance *tolerance;
    int steps;  // the first ones of the file's
} setting;

typedef struct network {
    const setting *setting;
    json_t *golden;
    int64_t batch, size;
    uint32_t variant;
    ls_graph *graph;
    ls_device *device;
    ls_params *params;
    ls_plan *training, *inference;
    ls_segment *segments;
    int segment_count;
    int64_t length;
    float *weights, *gradient, *velocity;
    void *copies, *arena, *images;
    int32_t *labels;
    uint64_t *samples;
} network;

static const json_t *member(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("the golden file has no \"%s\" here", key);
    return value;
}

static double number(const json_t *object, const char *key) { return json_number_value(member(object, key)); }

static double element(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static uint32_t draw(const network *net, uint32_t stream, int64_t i) {
    return ls_philox(KEY, (uint32_t)(i / 4), stream, net->variant, 0).v[i % 4];
}

static void make_batch(network *net) {
    int64_t size = net->size, across = size / PATCH, sum = 0, i = 0;
    OK(ls_memory_alloc(net->batch * size * size * 3 * (int64_t)ls_dtype_size(net->setting->precision), &net->images));
    for (int64_t n = 0; n < net->batch; n++)
        for (int64_t h = 0; h < size; h++)
            for (int64_t w = 0; w < size; w++)
                for (int64_t c = 0; c < 3; c++, i++) {
                    int64_t patch = ((n * across + h / PATCH) * across + w / PATCH) * 3 + c;
                    uint32_t k = 3 * (draw(net, STREAM_PATCHES, patch) >> 24) + (draw(net, STREAM_NOISE, i) >> 24);
                    sum += k >> 2;
                    float x = ((float)(k >> 2) - 127.5f) / 127.5f;
                    if (net->setting->precision == LS_DTYPE_BF16)
                        ((ls_bf16 *)net->images)[i] = ls_float_to_bf16(x);
                    else
                        ((float *)net->images)[i] = x;
                }
    assert_int_equal(sum, (int64_t)number(net->golden, "pixel_sum"));
    OK(ls_calloc(net->batch, sizeof *net->labels, &net->labels));
    OK(ls_calloc(net->batch, sizeof *net->samples, &net->samples));
    for (int64_t n = 0; n < net->batch; n++) {
        net->labels[n] = (int32_t)(draw(net, STREAM_LABELS, n) % CLASSES);
        net->samples[n] = (uint64_t)n;
        assert_int_equal(net->labels[n], (int)element(member(net->golden, "labels"), (size_t)n));
    }
}

// The parameter that tensor p of the file is.
static int param_of(const network *net, const json_t *tensor) {
    const char *name = json_string_value(member(tensor, "name"));
    for (int p = 0; p < net->graph->param_count; p++)
        if (strcmp(net->graph->params[p].name, name) == 0) return p;
    fail_msg("%s has no parameter %s", net->graph->name, name);
    return -1;
}

static float *plain_of(const network *net, int param) {
    float *plain;
    OK(ls_calloc(ls_shape_count(net->graph->params[param].shape), sizeof *plain, &plain));
    return plain;
}

static void make_weights(network *net) {
    const json_t *tensors = member(net->golden, "tensors");
    double sum = 0;
    assert_int_equal(net->graph->param_count, json_array_size(tensors));
    for (int t = 0; t < net->graph->param_count; t++) {
        const json_t *tensor = json_array_get(tensors, (size_t)t), *formula = member(tensor, "draw");
        int p = param_of(net, tensor);
        ls_shape shape = net->graph->params[p].shape;
        assert_int_equal(shape.ndim, json_array_size(member(tensor, "shape")));
        for (int d = 0; d < shape.ndim; d++)
            assert_int_equal(shape.dim[d], (int64_t)element(member(tensor, "shape"), (size_t)d));
        double middle = element(formula, 0), width = element(formula, 1);
        int negated = json_array_size(formula) > 2;
        float *plain = plain_of(net, p);
        for (int64_t i = 0; i < ls_shape_count(shape); i++) {
            double u = (draw(net, (uint32_t)t, i) >> 8) * 0x1p-24;
            plain[i] = (float)(middle + (2 * u - 1) * width);
            if (negated && i % 2) plain[i] = -plain[i];
            sum += plain[i];
        }
        OK(ls_params_set(net->params, p, net->weights, plain));
        free(plain);
    }
    // Equal but for the digits in the file and the order of adding: the formula is the same on both sides.
    double expected = number(net->golden, "weight_sum");
    if (!(fabs(sum - expected) <= 1e-6 * fabs(expected))) fail_msg("the weights' sum is %.9g, not %.9g", sum, expected);
    ls_params_refresh(net->params, net->weights, net->copies, 0, 1);
}

static void network_destroy(network *net) {
    ls_plan_destroy(&net->training);
    ls_plan_destroy(&net->inference);
    ls_params_destroy(&net->params);
    ls_device_destroy(&net->device);
    ls_graph_destroy(&net->graph);
    free(net->segments);
    free(net->labels);
    free(net->samples);
    ls_memory_free(net->images);
    ls_memory_free(net->weights);
    ls_memory_free(net->gradient);
    ls_memory_free(net->velocity);
    ls_memory_free(net->copies);
    ls_memory_free(net->arena);
    json_decref(net->golden);
}

static json_t *load(const char *model) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", LS_GOLDEN_DIR, model);
    json_t *golden = json_load_file(path, 0, &error);
    if (!golden) fail_msg("%s, line %d: %s", path, error.line, error.text);
    return golden;
}

static void make_plans(network *net) {
    ls_plan_config config = {.batch = net->batch, .precision = net->setting->precision, .training = 1};
    OK(ls_params_create(net->graph, net->device, &net->params));
    OK(ls_plan_create(net->graph, net->device, net->params, &config, &net->training));
    config.training = 0;
    OK(ls_plan_create(net->graph, net->device, net->params, &config, &net->inference));
    net->length = ls_params_length(net->params);
    OK(ls_params_segments(net->params, &net->segments, &net->segment_count));
    OK(ls_memory_alloc(net->length * 4, &net->weights));
    OK(ls_memory_alloc(net->length * 4, &net->gradient));
    OK(ls_memory_alloc(net->length * 4, &net->velocity));
    OK(ls_memory_alloc(ls_params_copies_bytes(net->params), &net->copies));
    int64_t training = ls_plan_arena_bytes(net->training), inference = ls_plan_arena_bytes(net->inference);
    OK(ls_memory_alloc(training > inference ? training : inference, &net->arena));
    ls_plan_bind(net->training, net->arena, net->weights, net->copies);
    ls_plan_bind(net->inference, net->arena, net->weights, net->copies);
}

static void network_create(network *net, const setting *s) {
    *net = (network){.setting = s, .golden = load(s->model)};
    net->batch = (int64_t)number(net->golden, "batch");
    net->size = (int64_t)number(net->golden, "image_size");
    net->variant = (uint32_t)number(net->golden, "variant");
    OK(ls_device_create(s->device, &(ls_device_options){.threads = 1}, &net->device));
    if (net->device->ops->supports(net->device, s->precision) != LS_OK) {
        print_message("skipped: %s\n", ls_error_message());
        network_destroy(net);
        skip();
    }
    net->device->ops->thread_begin(net->device);
    OK(ls_model_create(s->model, LS_SHAPE(net->size, net->size, 3), CLASSES, &net->graph));
    make_plans(net);
    make_batch(net);
    make_weights(net);
}

// --- comparing -------------------------------------------------------------------------------------------------------

static void check_error(const char *what, double error, double allowed) {
    if (!(error <= allowed)) fail_msg("%s is %g from PyTorch's; at most %g is allowed", what, error, allowed);
}

static void check_and_show(const network *net, const char *what, double error, double allowed) {
    const setting *s = net->setting;
    print_message("  %s %s %s: %-28s %.1e (allowed %.2g)\n", s->model, s->device, ls_dtype_name(s->precision), what,
                  error, allowed);
    check_error(what, error, allowed);
}

static double distance_of_logits(const network *net, ls_plan *plan, const char *key) {
    const json_t *expected = member(net->golden, key);
    const float *logits = ls_plan_logits(plan);
    double difference = 0, reference = 0;
    assert_int_equal(json_array_size(expected), net->batch * CLASSES);
    for (size_t i = 0; i < json_array_size(expected); i++) {
        double theirs = element(expected, i), d = logits[i] - theirs;
        difference += d * d;
        reference += theirs * theirs;
    }
    return sqrt(difference / reference);
}

// Of a tensor from what the file says of it, over its norm. The root mean square of the projections' errors is what the norm
// of the error is on average.
static double distance_of_tensor(const network *net, uint32_t t, int param, const float *vector, const json_t *expected,
                                 double norm) {
    double found[SUMMARY] = {0}, square = 0;
    float *plain = plain_of(net, param);
    OK(ls_params_get(net->params, param, vector, plain));
    for (int64_t i = 0; i < ls_shape_count(net->graph->params[param].shape); i++) {
        uint32_t signs = draw(net, STREAM_SIGNS + t, i);
        found[0] += (double)plain[i] * plain[i];
        for (int j = 0; j < PROJECTIONS; j++) found[1 + j] += signs >> j & 1 ? -plain[i] : plain[i];
    }
    free(plain);
    found[0] = sqrt(found[0]);
    for (size_t j = 1; j < SUMMARY; j++) square += pow(found[j] - element(expected, j), 2);
    double by_projections = sqrt(square / PROJECTIONS), by_norm = fabs(found[0] - element(expected, 0));
    return fmax(by_projections, by_norm) / norm;
}

// All tensors the file says `key` of ("gradient" or "final"), in a vector of parameters.
static void check_tensors(const network *net, const char *key, const float *vector, double allowed) {
    const json_t *tensors = member(net->golden, "tensors");
    double worst = 0, norm_before = 0;
    int compared = 0;
    for (size_t t = 0; t < json_array_size(tensors); t++) {
        const json_t *tensor = json_array_get(tensors, t), *expected = json_object_get(tensor, key);
        if (!expected) continue;
        assert_int_equal(json_array_size(expected), SUMMARY);
        // A bias that a normalization takes away again has no gradient: its errors are measured by its kernel's.
        double norm = element(expected, 0) > 0 ? element(expected, 0) : norm_before;
        double distance = distance_of_tensor(net, (uint32_t)t, param_of(net, tensor), vector, expected, norm);
        char what[128];
        snprintf(what, sizeof what, "%s of %s", key, json_string_value(member(tensor, "name")));
        check_error(what, distance, allowed);
        worst = fmax(worst, distance);
        norm_before = norm;
        compared++;
    }
    assert_true(compared > 0);
    char what[64];
    snprintf(what, sizeof what, "%s, worst of %d", key, compared);
    check_and_show(net, what, worst, allowed);
}

// --- training --------------------------------------------------------------------------------------------------------

static void update(network *net, const ls_optimizer *sgd, const ls_optimizer_params *params, int64_t step) {
    for (int64_t i = 0; i < net->length; i++) net->gradient[i] /= (float)net->batch;
    for (int s = 0; s < net->segment_count; s++) {
        const ls_segment *segment = &net->segments[s];
        float *w = net->weights + segment->begin, *g = net->gradient + segment->begin;
        int64_t n = segment->end - segment->begin;
        if (segment->statistic) {
            for (int64_t i = 0; i < n; i++) w[i] = segment->momentum * w[i] + (1 - segment->momentum) * g[i];
            continue;
        }
        ls_update u = {.n = n, .w = w, .g = g, .lr = params->lr, .step = step};
        u.state[0] = net->velocity + segment->begin;
        sgd->update(params, &u);
    }
    ls_params_refresh(net->params, net->weights, net->copies, 0, 1);
}

static void check_first_step(const network *net, const ls_loss_metrics *metrics) {
    const tolerance *allowed = net->setting->tolerance;
    double loss = number(net->golden, "loss_sum");
    check_and_show(net, "logits", distance_of_logits(net, net->training, "logits"), allowed->logits);
    check_and_show(net, "sum of losses", fabs(metrics->loss - loss) / loss, allowed->loss);
    assert_int_equal(metrics->samples, net->batch);
    if (net->setting->precision == LS_DTYPE_F32)
        assert_int_equal(metrics->correct, (int64_t)number(net->golden, "correct"));
}

static void matches_pytorch(void **state) {
    const setting *s = *state;
    const tolerance *allowed = s->tolerance;
    network net;
    network_create(&net, s);
    const json_t *recipe = member(net.golden, "sgd"), *losses = member(recipe, "losses");
    const ls_optimizer *sgd;
    OK(ls_optimizer_find("sgd", &sgd));
    ls_optimizer_params params = sgd->defaults;
    params.lr = number(recipe, "lr");
    params.momentum = number(recipe, "momentum");
    ls_plan_input input = {.images = net.images, .labels = net.labels, .random = {.seed = 1, .samples = net.samples}};

    double worst = 0;
    for (int step = 1; step <= s->steps; step++) {
        ls_loss_metrics metrics;
        OK(ls_plan_forward(net.training, &input, &metrics));
        if (step == 1) check_first_step(&net, &metrics);
        double theirs = element(losses, (size_t)step - 1), ours = metrics.loss / (double)net.batch;
        worst = fmax(worst, fabs(ours - theirs) / theirs);
        OK(ls_plan_backward(net.training, &input, net.gradient, NULL, NULL));
        if (step == 1 && allowed->gradient > 0) check_tensors(&net, "gradient", net.gradient, allowed->gradient);
        update(&net, sgd, &params, step);
    }
    if (s->steps == (int)json_array_size(losses)) {
        ls_loss_metrics metrics;
        check_and_show(&net, "loss, worst of all steps", worst, allowed->losses);
        check_tensors(&net, "final", net.weights, allowed->statistic);
        OK(ls_plan_forward(net.inference, &input, &metrics));
        check_and_show(&net, "logits in inference", distance_of_logits(&net, net.inference, "inference_logits"),
                       allowed->inference);
    }
    network_destroy(&net);
}

int main(void) {
    enum { ALL = 10 };
#define ON(model, device, precision, tolerance, steps)                                                                 \
    {                                                                                                                  \
#model ", " #device ", " #tolerance, matches_pytorch, NULL, NULL, &(setting) {                                 \
#model, #device, LS_DTYPE_##precision, &(tolerance), steps                                                 \
        }                                                                                                              \
    }
    const struct CMUnitTest tests[] = {
        ON(resnet20, ref, F32, fp32, 1),    ON(resnet20, cpu, F32, fp32, ALL),
        ON(resnet50, cpu, F32, fp32, ALL),  ON(resnet50v2, cpu, F32, fp32_at_edge, ALL),
        ON(resnet20, cpu, BF16, bf16, ALL), ON(resnet50, cpu, BF16, bf16, 1),
        ON(resnet50v2, cpu, BF16, bf16, 1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
