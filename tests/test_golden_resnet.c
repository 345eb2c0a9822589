// Residual networks against what PyTorch computes in float64 from the same weights and images: one training step, ten
// steps of SGD, the moving statistics after them, and inference with those. tests/golden/make_resnet.py made the files
// and says by which formulas both sides draw weights and images; its networks are, layer for layer, Keras's.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "golden_check.h"
#include "host_update.h"
#include "plan_rig.h"

#define CLASSES 10
#define PATCH   8
enum { STREAM_PATCHES = 10000, STREAM_NOISE, STREAM_LABELS, STREAM_SIGNS = 30000 };
enum { PROJECTIONS = 4, SUMMARY = 1 + PROJECTIONS };  // of a tensor: its norm, then the projections

// How far from float64 a precision may be. Distances of tensors are norms: |ours - theirs| / |theirs|. 0: not compared.
typedef struct tolerance {
    double logits, loss, gradient, losses, statistic, inference;
} tolerance;

// PyTorch's fp32 is at 1e-6 in the logits and, in the worst tensor, at 1e-4 in the gradients ("distance" in the files).
// More would be allowed for the edges of ReLUs, but the files' weights keep away from those ("margin"). While training, each
// step starts where the errors of those before have led.
static const tolerance fp32 = {
    .logits = 4e-6, .loss = 1e-6, .gradient = 1e-3, .losses = 1e-4, .statistic = 1e-4, .inference = 1e-4};

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
    rig rig;  // its training plan
} network;

static void make_batch(network *net) {
    rig *r = &net->rig;
    int64_t size = net->size, across = size / PATCH, sum = 0, i = 0;
    for (int64_t n = 0; n < net->batch; n++)
        for (int64_t h = 0; h < size; h++)
            for (int64_t w = 0; w < size; w++)
                for (int64_t c = 0; c < 3; c++, i++) {
                    int64_t patch = ((n * across + h / PATCH) * across + w / PATCH) * 3 + c;
                    uint32_t k = 3 * (draw(STREAM_PATCHES, net->variant, patch) >> 24);
                    k = (k + (draw(STREAM_NOISE, net->variant, i) >> 24)) >> 2;
                    sum += k;
                    r->images[i] = ((float)k - 127.5f) / 127.5f;
                }
    assert_int_equal(sum, (int64_t)number(net->golden, "pixel_sum"));
    for (int64_t n = 0; n < net->batch; n++) {
        r->labels[n] = (int32_t)(draw(STREAM_LABELS, net->variant, n) % CLASSES);
        assert_int_equal(r->labels[n], (int)element(member(net->golden, "labels"), (size_t)n));
    }
}

// The parameter that tensor p of the file is.
static int param_of(const rig *r, const json_t *tensor) {
    const char *name = json_string_value(member(tensor, "name"));
    for (int p = 0; p < r->store->count; p++)
        if (strcmp(r->store->params[p].name, name) == 0) return p;
    fail_msg("%s has no parameter %s", r->graph->name, name);
    return -1;
}

static void make_weights(network *net) {
    rig *r = &net->rig;
    const json_t *tensors = member(net->golden, "tensors");
    double sum = 0;
    assert_int_equal(r->store->count, json_array_size(tensors));
    for (int t = 0; t < r->store->count; t++) {
        const json_t *tensor = json_array_get(tensors, (size_t)t), *formula = member(tensor, "draw");
        int p = param_of(r, tensor);
        ls_shape shape = r->store->params[p].shape;
        check_shape(shape, member(tensor, "shape"));
        double middle = element(formula, 0), width = element(formula, 1);
        int negated = json_array_size(formula) > 2;
        float *plain = rig_plain(r, p);
        for (int64_t i = 0; i < ls_shape_count(shape); i++) {
            plain[i] = (float)(middle + draw_signed((uint32_t)t, net->variant, i) * width);
            if (negated && i % 2) plain[i] = -plain[i];
            sum += plain[i];
        }
        rig_set(r, p, plain);
    }
    // Equal but for the digits in the file and the order of adding: the formula is the same on both sides.
    double expected = number(net->golden, "weight_sum");
    if (!(fabs(sum - expected) <= 1e-6 * fabs(expected))) fail_msg("the weights' sum is %.9g, not %.9g", sum, expected);
    rig_refresh(r);
}

static void network_destroy(network *net) {
    rig_free(&net->rig);
    json_decref(net->golden);
}

static void network_create(network *net, const setting *s) {
    *net = (network){.setting = s, .golden = golden_load(s->model)};
    net->batch = (int64_t)number(net->golden, "batch");
    net->size = (int64_t)number(net->golden, "image_size");
    net->variant = (uint32_t)number(net->golden, "variant");
    ls_graph *graph;
    OK(ls_model_create(s->model, LS_SHAPE(net->size, net->size, 3), CLASSES, &graph));
    ls_plan_config config = {.batch = net->batch, .precision = s->precision};
    if (!rig_create(&net->rig, graph, s->device, &config)) {
        json_decref(net->golden);
        skip();
    }
    make_batch(net);
    make_weights(net);
}

// --- comparing -------------------------------------------------------------------------------------------------------

static void check_and_show(const network *net, const char *what, double error, double allowed) {
    const setting *s = net->setting;
    print_message("  %s %s %s: %-28s %.1e (allowed %.2g)\n", s->model, s->device, ls_dtype_name(s->precision), what,
                  error, allowed);
    check_error(what, error, allowed);
}

// Of a tensor from what the file says of it, over its norm. The root mean square of the projections' errors is what the norm
// of the error is on average.
static double distance_of_tensor(const network *net, uint32_t t, int param, const float *vector, const json_t *expected,
                                 double norm) {
    double found[SUMMARY] = {0}, square = 0;
    float *plain = rig_get(&net->rig, param, vector);
    for (int64_t i = 0; i < ls_shape_count(net->rig.store->params[param].shape); i++) {
        uint32_t signs = draw(STREAM_SIGNS + t, net->variant, i);
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
        int param = param_of(&net->rig, tensor);
        double distance = distance_of_tensor(net, (uint32_t)t, param, vector, expected, norm);
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

static void update(rig *r, const ls_optimizer *sgd, const ls_optimizer_params *params, float *velocity, int64_t step) {
    ls_segment *segments;
    int count;
    OK(ls_params_segments(r->run->params, r->graph, &segments, &count));
    for (int s = 0; s < count; s++) {
        const ls_segment *segment = &segments[s];
        float *w = r->weights + segment->begin, *g = r->gradient + segment->begin;
        int64_t n = segment->end - segment->begin, batch = r->run->plan->config.batch;
        for (int64_t i = 0; i < n; i++) g[i] /= (float)batch;
        if (segment->statistic) {
            for (int64_t i = 0; i < n; i++) w[i] = segment->momentum * w[i] + (1 - segment->momentum) * g[i];
            continue;
        }
        host_update u = {.n = n, .w = w, .g = g, .lr = params->lr, .step = step};
        u.state[0] = velocity + segment->begin;
        host_step(sgd, params, &u);
    }
    rig_refresh(r);
    free(segments);
}

static void check_logits(const network *net, const char *what, const ls_runner *run, const char *key, double allowed) {
    const json_t *expected = member(net->golden, key);
    check_and_show(net, what, distance_of_values(rig_logits(run), expected, net->batch * CLASSES), allowed);
}

static void check_first_step(const network *net, rig_sums sums) {
    const tolerance *allowed = net->setting->tolerance;
    double loss = number(net->golden, "loss_sum");
    check_logits(net, "logits", net->rig.run, "logits", allowed->logits);
    check_and_show(net, "sum of losses", fabs(sums.loss - loss) / loss, allowed->loss);
    if (net->setting->precision == LS_DTYPE_F32) assert_true(sums.correct == number(net->golden, "correct"));
}

// With the weights and moving statistics that training left.
static void check_inference(network *net) {
    rig *r = &net->rig;
    ls_plan_config config = {.batch = net->batch, .precision = net->setting->precision, .mode = LS_PLAN_EVALUATION};
    ls_runner *run = rig_runner(r, r->graph, &config);
    rig_forward_of(r, run);
    check_logits(net, "logits in inference", run, "inference_logits", net->setting->tolerance->inference);
    ls_runner_destroy(&run);
}

static void matches_pytorch(void **state) {
    const setting *s = *state;
    const tolerance *allowed = s->tolerance;
    network net;
    network_create(&net, s);
    rig *r = &net.rig;
    const json_t *recipe = member(net.golden, "sgd"), *losses = member(recipe, "losses");
    const ls_optimizer *sgd;
    OK(ls_optimizer_find("sgd", &sgd));
    ls_optimizer_params params = sgd->defaults;
    params.lr = number(recipe, "lr");
    params.momentum = number(recipe, "momentum");
    float *velocity;
    OK(ls_memory_alloc(r->length * 4, &velocity));

    double worst = 0;
    for (int step = 1; step <= s->steps; step++) {
        rig_sums sums = rig_forward(r);
        if (step == 1) check_first_step(&net, sums);
        double theirs = element(losses, (size_t)step - 1), ours = sums.loss / (double)net.batch;
        worst = fmax(worst, fabs(ours - theirs) / theirs);
        rig_backward(r);
        if (step == 1 && allowed->gradient > 0) check_tensors(&net, "gradient", r->gradient, allowed->gradient);
        update(r, sgd, &params, velocity, step);
    }
    if (s->steps == (int)json_array_size(losses)) {
        check_and_show(&net, "loss, worst of all steps", worst, allowed->losses);
        check_tensors(&net, "final", r->weights, allowed->statistic);
        check_inference(&net);
    }
    ls_memory_free(velocity);
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
        ON(resnet20, ref, F32, fp32, 1),     ON(resnet20v2, ref, F32, fp32, 1),    ON(resnet20, cpu, F32, fp32, ALL),
        ON(resnet20v2, cpu, F32, fp32, ALL), ON(resnet50, cpu, F32, fp32, ALL),    ON(resnet50v2, cpu, F32, fp32, ALL),
        ON(resnet20, cpu, BF16, bf16, ALL),  ON(resnet20v2, cpu, BF16, bf16, ALL), ON(resnet50, cpu, BF16, bf16, 1),
        ON(resnet50v2, cpu, BF16, bf16, 1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
