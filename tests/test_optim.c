// Optimizers against Keras 3's formulas, or their papers', in double precision, the same bits however the vector is cut, defaults, schedules.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "host_update.h"

#define N     4096
#define STEPS 12

static float draw(uint32_t what, uint32_t step, uint32_t i) {
    return ls_uniform(ls_philox(99, i, step, what, 0).v[0]) - 0.5f;
}

static const ls_optimizer *find(const char *name) {
    const ls_optimizer *optimizer;
    assert_int_equal(ls_optimizer_find(name, &optimizer), LS_OK);
    return optimizer;
}

static const ls_optimizer_params all_default = {-1, -1, -1, -1, -1, -1, -1, -1, 0};

static float *vector(void) {
    float *x;
    assert_int_equal(ls_memory_alloc(N * 4, &x), LS_OK);
    return x;
}

static double norm(const float *x) {
    double sum = 0;
    for (int i = 0; i < N; i++) sum += (double)x[i] * x[i];
    return sqrt(sum);
}

// One update of the whole vector, as one parameter, in slices of `slice` elements.
static void update(const ls_optimizer *optimizer, const ls_optimizer_params *params, host_update u, int64_t slice) {
    float *direction = vector(), *coupled = vector();
    if (params->l2 > 0) {
        ls_formula_call call;
        ls_l2_call(params->l2, &call);
        for (int64_t at = 0; at < N; at += slice)
            call.formula->host(call.arguments, N - at < slice ? N - at : slice,
                               (float *[]){u.w + at, (float *)u.g + at, coupled + at});
        u.g = coupled;
    }
    host_update part = u;
    if (optimizer->layerwise) {
        for (int64_t at = 0; at < N && optimizer->direction; at += slice) {
            part.n = N - at < slice ? N - at : slice;
            part.w = u.w + at, part.g = u.g + at, part.state[0] = u.state[0] + at, part.state[1] = u.state[1] + at;
            host_direct(optimizer, params, &part, direction + at);
        }
        if (optimizer->direction) u.g = direction;
        part.w_norm = norm(u.w), part.g_norm = norm(u.g);
    }
    for (int64_t at = 0; at < N; at += slice) {
        part.n = N - at < slice ? N - at : slice;
        part.w = u.w + at, part.g = u.g + at, part.state[0] = u.state[0] + at, part.state[1] = u.state[1] + at;
        host_step(optimizer, params, &part);
    }
    ls_memory_free(direction);
    ls_memory_free(coupled);
}

// Runs STEPS updates in slices of `slice` elements, at lr / step or at lr; returns the weights.
static float *train_at(const ls_optimizer *optimizer, const ls_optimizer_params *params, int64_t slice, int constant) {
    float *w = vector(), *g = vector(), *s0 = vector(), *s1 = vector();
    for (uint32_t i = 0; i < N; i++) w[i] = draw(1, 0, i);
    for (int step = 1; step <= STEPS; step++) {
        for (uint32_t i = 0; i < N; i++) g[i] = draw(2, (uint32_t)step, i);
        update(optimizer, params,
               (host_update){
                   .w = w, .g = g, .state = {s0, s1}, .lr = constant ? params->lr : params->lr / step, .step = step},
               slice);
    }
    ls_memory_free(g);
    ls_memory_free(s0);
    ls_memory_free(s1);
    return w;
}

static float *train(const ls_optimizer *optimizer, const ls_optimizer_params *params, int64_t slice) {
    return train_at(optimizer, params, slice, 0);
}

// keras/src/optimizers: sgd.py, adam.py, and _apply_weight_decay of base_optimizer.py, one element, in double.
static double keras(const char *name, const ls_optimizer_params *p, uint32_t i) {
    double w = draw(1, 0, i), m = 0, v = 0;
    for (int step = 1; step <= STEPS; step++) {
        double lr = p->lr / step, g = draw(2, (uint32_t)step, i);
        w -= w * p->weight_decay * lr;
        if (strcmp(name, "sgd") == 0) {
            m = p->momentum * m - lr * g;
            w += p->momentum == 0 ? -lr * g : p->nesterov ? p->momentum * m - lr * g : m;
        } else {
            double alpha = lr * sqrt(1 - pow(p->beta2, step)) / (1 - pow(p->beta1, step));
            m += (g - m) * (1 - p->beta1);
            v += (g * g - v) * (1 - p->beta2);
            w -= m * alpha / (sqrt(v) + p->epsilon);
        }
    }
    return w;
}

static const struct {
    const char *name;
    ls_optimizer_params params;
} cases[] = {
    {"sgd", {-1, -1, -1, -1, -1, -1, -1, -1, 0}},    {"sgd", {0.1, 0.9, -1, -1, -1, -1, 0, -1, 0}},
    {"sgd", {0.1, 0.9, -1, -1, -1, 0.01, 1, -1, 0}}, {"sgd", {0.1, 0, -1, -1, -1, 0.1, 0, -1, 0}},
    {"adam", {-1, -1, -1, -1, -1, -1, -1, -1, 0}},   {"adam", {0.01, -1, 0.8, 0.95, 1e-4, -1, -1, -1, 0}},
    {"adamw", {-1, -1, -1, -1, -1, -1, -1, -1, 0}},  {"adamw", {0.02, -1, 0.9, 0.99, 1e-8, 0.3, -1, -1, 0}},
};
#define CASES (sizeof cases / sizeof cases[0])

// The layer-wise optimizers as their papers have them, the whole vector as one parameter, in double; `adapts` 0: without norms.
static void layerwise(const char *name, const ls_optimizer_params *p, int adapts, double *w) {
    static double g[N], m[N], v[N], d[N];
    memset(m, 0, sizeof m), memset(v, 0, sizeof v);
    for (uint32_t i = 0; i < N; i++) w[i] = draw(1, 0, i);
    for (int step = 1; step <= STEPS; step++) {
        double lr = p->lr / step, w_norm = 0, g_norm = 0, d_norm = 0;
        for (uint32_t i = 0; i < N; i++) {
            g[i] = draw(2, (uint32_t)step, i);
            if (strcmp(name, "lamb") == 0) {
                m[i] = p->beta1 * m[i] + (1 - p->beta1) * g[i];
                v[i] = p->beta2 * v[i] + (1 - p->beta2) * g[i] * g[i];
                d[i] = m[i] / (1 - pow(p->beta1, step)) / (sqrt(v[i] / (1 - pow(p->beta2, step))) + p->epsilon) +
                       p->weight_decay * w[i];
            }
            w_norm += w[i] * w[i], g_norm += g[i] * g[i], d_norm += d[i] * d[i];
        }
        w_norm = sqrt(w_norm), g_norm = sqrt(g_norm), d_norm = sqrt(d_norm);
        double rate = lr * w_norm / d_norm;
        if (strcmp(name, "lars") == 0)
            rate = lr * p->trust_coefficient * w_norm / (g_norm + p->weight_decay * w_norm + p->epsilon);
        if (!adapts) rate = lr;
        for (int i = 0; i < N; i++) {
            double down = rate * (strcmp(name, "lars") == 0 ? g[i] + p->weight_decay * w[i] : d[i]);
            if (strcmp(name, "lars") == 0) m[i] = p->momentum * m[i] - down;
            w[i] += strcmp(name, "lamb") == 0 || p->momentum == 0 ? -down
                    : p->nesterov                                 ? p->momentum * m[i] - down
                                                                  : m[i];
        }
    }
}

static const struct {
    const char *name;
    ls_optimizer_params params;
} layer_cases[] = {
    {"lars", {5, -1, -1, -1, -1, -1, -1, -1, 0}},     {"lars", {5, 0, -1, -1, -1, -1, -1, 0.01, 0}},
    {"lars", {5, 0.9, -1, -1, 0.5, 0.1, 0, 0.01, 0}}, {"lars", {5, 0.8, -1, -1, -1, 0.1, 1, -1, 0}},
    {"lamb", {0.1, -1, -1, -1, -1, -1, -1, -1, 0}},   {"lamb", {0.1, -1, 0.8, 0.99, 1e-4, 0.3, -1, -1, 0}},
};
#define LAYER_CASES (sizeof layer_cases / sizeof layer_cases[0])

static void layerwise_updates_follow_the_papers(void **state) {
    static double expected[N], plain[N];
    for (size_t c = 0; c < LAYER_CASES; c++) {
        const ls_optimizer *optimizer = find(layer_cases[c].name);
        ls_optimizer_params params = layer_cases[c].params;
        assert_true(optimizer->layerwise);
        assert_int_equal(ls_optimizer_resolve(optimizer, &params), LS_OK);
        layerwise(optimizer->name, &params, 1, expected);
        layerwise(optimizer->name, &params, 0, plain);
        float *w = train(optimizer, &params, N), *cut = train(optimizer, &params, 192);
        // As above; the weights move by a tenth of themselves and more, so that a norm left out is seen at once.
        double moved = 0, adapted = 0;
        for (uint32_t i = 0; i < N; i++) {
            if (!(fabs(w[i] - expected[i]) < 4e-6))
                fail_msg("%s, case %zu, element %u: %.9g, expected %.9g", optimizer->name, c, i, w[i], expected[i]);
            moved += fabs(w[i] - draw(1, 0, i)) / N, adapted += fabs(expected[i] - plain[i]) / N;
        }
        assert_true(moved > 0.002 && adapted > 0.002);
        assert_memory_equal(w, cut, N * 4);
        ls_memory_free(w);
        ls_memory_free(cut);
    }
}

// Optax's weights after STEPS updates, at elements 0, 1, 1000 and 4095: tests/golden/make_layerwise.py.
static const struct {
    const char *name;
    ls_optimizer_params params;
    double w[4];
} optax[] = {
    {"lars", {5, 0.9, -1, -1, 0, 0, 0, 0.001, 0}, {0.4448808698, 0.2043658093, -0.4875783471, -0.3628378200}},
    {"lars", {5, 0.8, -1, -1, 0.5, 0, 1, 0.01, 0}, {0.2872197460, 0.1942072971, -0.6111235644, -0.2998526714}},
    {"lamb", {0.1, -1, 0.9, 0.999, 1e-6, 0, -1, -1, 0}, {0.3476566656, 0.1755907464, -0.5696702302, -0.2893276880}},
    {"lamb", {0.1, -1, 0.8, 0.99, 1e-4, 0.3, -1, -1, 0}, {0.3443026882, 0.1693097775, -0.5377025765, -0.2794245419}},
};

static void layerwise_updates_are_those_of_optax(void **state) {
    static const int shown[4] = {0, 1, 1000, 4095};
    for (size_t c = 0; c < sizeof optax / sizeof optax[0]; c++) {
        ls_optimizer_params params = optax[c].params;
        assert_int_equal(ls_optimizer_resolve(find(optax[c].name), &params), LS_OK);
        float *w = train(find(optax[c].name), &params, N);
        for (int k = 0; k < 4; k++)
            if (!(fabs(w[shown[k]] - optax[c].w[k]) < 4e-6))
                fail_msg("%s, case %zu, element %d: %.9g, expected %.9g", optax[c].name, c, shown[k], w[shown[k]],
                         optax[c].w[k]);
        ls_memory_free(w);
    }
}

// Coupled and decoupled decay as others have them, at a constant rate: tests/golden/make_decay.py.
static const struct {
    const char *name;
    ls_optimizer_params params;
    double w[4];
} decays[] = {
    {"sgd", {0.1, 0, -1, -1, -1, 0, 0, -1, 0.3}, {0.2181391242, 0.1869569894, -0.4434849209, -0.1498237296}},
    {"sgd", {0.1, 0.9, -1, -1, -1, 0, 0, -1, 0.3}, {-0.6031885863, -0.0703861406, -0.4891308444, 0.4078130370}},
    {"sgd", {0.1, 0.9, -1, -1, -1, 0, 1, -1, 0.3}, {-0.4978722956, 0.0018353611, -0.4334043970, 0.4288920060}},
    {"adam", {0.02, -1, 0.9, 0.99, 1e-14, 0, -1, -1, 0.3}, {0.2808989843, 0.1379498901, -0.5194015945, -0.2219499387}},
    {"adamw", {0.02, -1, 0.9, 0.99, 1e-14, 0.3, -1, -1, 0}, {0.2805203023, 0.1648114096, -0.5595504588, -0.2502337393}},
    {"lars", {5, 0.9, -1, -1, 0, 0, 0, 0.01, 0.3}, {-0.1901632607, 0.0437841200, -0.5138745469, 0.0294870763}},
    {"lamb", {0.1, -1, 0.8, 0.99, 1e-4, 0.2, -1, -1, 0.3}, {0.0632640420, 0.0653146502, -0.4747320302, -0.0202253445}},
};

static void decay_is_that_of_pytorch_and_optax(void **state) {
    static const int shown[4] = {0, 1, 1000, 4095};
    for (size_t c = 0; c < sizeof decays / sizeof decays[0]; c++) {
        ls_optimizer_params params = decays[c].params;
        assert_int_equal(ls_optimizer_resolve(find(decays[c].name), &params), LS_OK);
        float *w = train_at(find(decays[c].name), &params, N, 1),
              *cut = train_at(find(decays[c].name), &params, 192, 1);
        for (int k = 0; k < 4; k++)
            if (!(fabs(w[shown[k]] - decays[c].w[k]) < 4e-6))
                fail_msg("%s, case %zu, element %d: %.9g, expected %.9g", decays[c].name, c, shown[k], w[shown[k]],
                         decays[c].w[k]);
        assert_memory_equal(w, cut, N * 4);
        ls_memory_free(w);
        ls_memory_free(cut);
    }
}

// Where both norms are 0 the rate is the one asked for.
static void without_norms_the_rate_is_not_adapted(void **state) {
    for (size_t c = 0; c < LAYER_CASES; c++) {
        const ls_optimizer *optimizer = find(layer_cases[c].name);
        ls_optimizer_params params = layer_cases[c].params;
        params.lr = 0.1;
        assert_int_equal(ls_optimizer_resolve(optimizer, &params), LS_OK);
        static double expected[N];
        layerwise(optimizer->name, &params, 0, expected);
        float *w = vector(), *g = vector(), *d = vector(), *s0 = vector(), *s1 = vector();
        for (uint32_t i = 0; i < N; i++) w[i] = draw(1, 0, i);
        for (int step = 1; step <= STEPS; step++) {
            host_update u = {.n = N, .w = w, .g = g, .state = {s0, s1}, .lr = params.lr / step, .step = step};
            for (uint32_t i = 0; i < N; i++) g[i] = draw(2, (uint32_t)step, i);
            if (optimizer->direction) {
                host_direct(optimizer, &params, &u, d);
                u.g = d;
            }
            host_step(optimizer, &params, &u);
        }
        for (int i = 0; i < N; i++)
            if (!(fabs(w[i] - expected[i]) < 4e-6))
                fail_msg("%s, case %zu, element %d: %.9g, expected %.9g", optimizer->name, c, i, w[i], expected[i]);
        float *all[] = {w, g, d, s0, s1};
        for (size_t i = 0; i < 5; i++) ls_memory_free(all[i]);
    }
}

static void updates_follow_keras(void **state) {
    for (size_t c = 0; c < CASES; c++) {
        const ls_optimizer *optimizer = find(cases[c].name);
        ls_optimizer_params params = cases[c].params;
        assert_int_equal(ls_optimizer_resolve(optimizer, &params), LS_OK);
        float *w = train(optimizer, &params, N);
        for (uint32_t i = 0; i < N; i++) {
            // Each of 12 steps rounds weights and state a few times at 6e-8 of values below 1. Adam's 1 - beta2 is rounded
            // to a float, and v feels that through a square root: still below 1e-6 of a step of size lr.
            double expected = keras(cases[c].name, &params, i);
            if (!(fabs(w[i] - expected) < 4e-6))
                fail_msg("%s, case %zu, element %u: %.9g, expected %.9g", cases[c].name, c, i, w[i], expected);
        }
        ls_memory_free(w);
    }
}

static void cuts_do_not_move_bits(void **state) {
    const int64_t slices[] = {64, 192, 1024, 2048 + 64};
    for (size_t c = 0; c < CASES; c++) {
        const ls_optimizer *optimizer = find(cases[c].name);
        ls_optimizer_params params = cases[c].params;
        assert_int_equal(ls_optimizer_resolve(optimizer, &params), LS_OK);
        float *whole = train(optimizer, &params, N);
        for (size_t s = 0; s < sizeof slices / sizeof slices[0]; s++) {
            float *cut = train(optimizer, &params, slices[s]);
            assert_memory_equal(whole, cut, N * 4);
            ls_memory_free(cut);
        }
        ls_memory_free(whole);
    }
}

// With momentum correction w follows the form of sgd whose velocity u holds gradients alone: u = momentum u + g, w -= lr u
// (Goyal et al. 2017, equation 9), and with Nesterov w -= lr (momentum u + g). The rate jumps, and is 0 at first.
static void corrected_momentum_is_free_of_past_rates(void **state) {
    static const double rates[] = {0, 0.01, 0.08, 0.08, 0.4, 0.001};
    const ls_optimizer *sgd = find("sgd");
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        float *w = vector(), *g = vector(), *m = vector(), *plain = vector(), *plain_m = vector();
        double expected[64] = {0}, u[64] = {0};
        ls_optimizer_params params = {0.1, 0.9, 0, 0, 0, 0, nesterov, 0, 0};
        for (int step = 0; step < 6; step++) {
            for (uint32_t i = 0; i < 64; i++) g[i] = draw(3, (uint32_t)step, i);
            double before = step ? rates[step - 1] : 0;
            host_step(sgd, &params, &(host_update){64, w, g, {m}, rates[step], before, step + 1, 0, 0});
            host_step(sgd, &params, &(host_update){64, plain, g, {plain_m}, rates[step], 0, step + 1, 0, 0});
            for (int i = 0; i < 64; i++) {
                // While the rate is 0 the velocity stays 0: what is held is lr u, and forgets those gradients.
                u[i] = rates[step] > 0 ? 0.9 * u[i] + g[i] : 0;
                expected[i] -= rates[step] * (nesterov ? 0.9 * u[i] + g[i] : u[i]);
                if (!(fabs(w[i] - expected[i]) < 1e-6))
                    fail_msg("step %d, element %d: %.9g, expected %.9g", step, i, w[i], expected[i]);
            }
        }
        assert_memory_not_equal(w, plain, 64 * 4);
        float *all[] = {w, g, m, plain, plain_m};
        for (size_t i = 0; i < 5; i++) ls_memory_free(all[i]);
    }
}

static void zero_padding_stays_zero(void **state) {
    for (const ls_optimizer *const *o = ls_optimizers(); *o; o++) {
        ls_optimizer_params params = all_default;
        if ((*o)->has_momentum) params.momentum = 0.9;
        params.weight_decay = 0.1, params.l2 = 0.1;
        assert_int_equal(ls_optimizer_resolve(*o, &params), LS_OK);
        float *w = vector(), *g = vector(), *s0 = vector(), *s1 = vector();
        for (int step = 1; step < 4; step++)
            update(*o, &params, (host_update){N, w, g, {s0, s1}, params.lr, params.lr * 2, step, 0, 0}, N);
        for (int i = 0; i < N; i++) assert_true(w[i] == 0 && s0[i] == 0 && s1[i] == 0);
        ls_memory_free(w);
        ls_memory_free(g);
        ls_memory_free(s0);
        ls_memory_free(s1);
    }
}

static void defaults_are_keras_s(void **state) {
    ls_optimizer_params p = all_default;
    assert_int_equal(ls_optimizer_resolve(find("sgd"), &p), LS_OK);
    assert_true(p.lr == 0.01 && p.momentum == 0 && p.weight_decay == 0 && p.nesterov == 0);
    assert_int_equal(find("sgd")->state_count(&p), 0);
    p.momentum = 0.9;
    assert_int_equal(find("sgd")->state_count(&p), 1);
    p = all_default;
    assert_int_equal(ls_optimizer_resolve(find("adam"), &p), LS_OK);
    assert_true(p.lr == 0.001 && p.beta1 == 0.9 && p.beta2 == 0.999 && p.epsilon == 1e-7 && p.weight_decay == 0);
    assert_int_equal(find("adam")->state_count(&p), 2);
    p = all_default;
    assert_int_equal(ls_optimizer_resolve(find("adamw"), &p), LS_OK);
    assert_true(p.lr == 0.001 && p.beta1 == 0.9 && p.beta2 == 0.999 && p.epsilon == 1e-7 && p.weight_decay == 0.004);
    // Those of layer-wise optimizers are of their sources.
    p = all_default;
    assert_int_equal(ls_optimizer_resolve(find("lars"), &p), LS_OK);
    assert_true(p.momentum == 0.9 && p.trust_coefficient == 0.001 && p.epsilon == 1e-8 && p.weight_decay == 0);
    assert_int_equal(find("lars")->state_count(&p), 1);
    p = all_default;
    assert_int_equal(ls_optimizer_resolve(find("lamb"), &p), LS_OK);
    assert_true(p.lr == 0.001 && p.beta1 == 0.9 && p.beta2 == 0.999 && p.epsilon == 1e-6 && p.weight_decay == 0);
    assert_int_equal(find("lamb")->state_count(&p), 2);
}

static void bad_values_are_refused(void **state) {
    const ls_optimizer_params bad[] = {
        {NAN, -1, -1, -1, -1, -1, -1, -1, 0},      {INFINITY, -1, -1, -1, -1, -1, -1, -1, 0},
        {-1, 1, -1, -1, -1, -1, -1, -1, 0},        {-1, -1, 1, -1, -1, -1, -1, -1, 0},
        {-1, -1, -1, 1.5, -1, -1, -1, -1, 0},      {-1, -1, -1, -1, NAN, -1, -1, -1, 0},
        {-1, -1, -1, -1, -1, INFINITY, -1, -1, 0}, {-1, -1, -1, -1, -1, -1, -1, NAN, 0},
        {-1, -1, -1, -1, -1, -1, -1, INFINITY, 0}, {-1, -1, -1, -1, -1, -1, -1, -1, -1},
        {-1, -1, -1, -1, -1, -1, -1, -1, NAN},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ls_optimizer_params p = bad[i];
        assert_int_equal(ls_optimizer_resolve(find("adam"), &p), LS_STATUS_INVALID_ARGUMENT);
    }
    ls_optimizer_params p = all_default;
    p.trust_coefficient = 0;
    assert_int_equal(ls_optimizer_resolve(find("sgd"), &p), LS_OK);
    assert_int_equal(ls_optimizer_resolve(find("lars"), &p), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "would not train kernels at all"));
    const ls_optimizer *optimizer;
    assert_int_equal(ls_optimizer_find("adagrat", &optimizer), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(),
                        "there is no optimizer \"adagrat\"; there are: sgd, adam, adamw, lars, lamb");
    const ls_schedule *schedule;
    assert_int_equal(ls_schedule_find("cosinus", &schedule), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(),
                        "there is no schedule \"cosinus\"; there are: constant, step, cosine, polynomial, one-cycle, "
                        "one-cycle-linear, cyclic");
}

static double factor(const char *name, double epoch) {
    const ls_schedule *schedule;
    assert_int_equal(ls_schedule_find(name, &schedule), LS_OK);
    ls_schedule_params params = {.total_epochs = 8, .step_epochs = 3, .gamma = 0.1, .power = 2, .end = 0.25};
    return schedule->factor(&params, epoch);
}

static void close_to(double a, double b) {
    if (!(fabs(a - b) < 1e-15)) fail_msg("%.17g is not %.17g", a, b);
}

static void schedules_follow_their_formulas(void **state) {
    for (int i = 0; i <= 80; i++) {
        double epoch = i / 10.0, t = epoch / 8;
        close_to(factor("constant", epoch), 1);
        close_to(factor("step", epoch), epoch < 3 ? 1 : epoch < 6 ? 0.1 : 0.01);
        close_to(factor("cosine", epoch), 0.25 + 0.75 * 0.5 * (1 + cos(acos(-1) * t)));
        close_to(factor("polynomial", epoch), 0.25 + 0.75 * (1 - t) * (1 - t));
    }
    ls_schedule_params broken = {.total_epochs = 8, .power = 0.5, .end = 0};
    const ls_schedule *polynomial;
    assert_int_equal(ls_schedule_find("polynomial", &polynomial), LS_OK);
    close_to(polynomial->factor(&broken, 2), sqrt(0.75));
}

static void steps_come_where_they_are_asked_for(void **state) {
    const ls_schedule *step;
    ls_schedule_params p = {.total_epochs = 90, .step_epochs = 1, .gamma = 0.1};
    assert_int_equal(ls_schedule_find("step", &step), LS_OK);
    assert_int_equal(ls_schedule_read_steps("30,60.5,80", &p), LS_OK);
    const double known[][2] = {{0, 1},       {29.99, 1}, {30, 0.1},   {60, 0.1},
                               {60.5, 0.01}, {79, 0.01}, {80, 0.001}, {90, 0.001}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) close_to(step->factor(&p, known[i][0]), known[i][1]);
    const char *const wrong[] = {"", "30,", ",30", "30,30", "60,30", "0", "-1", "30;60", "x", "nan", "inf"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ls_schedule_read_steps(wrong[i], &p), LS_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(ls_error_message(), "in ascending order with commas between them"));
    }
    assert_int_equal(
        ls_schedule_read_steps(
            "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33", &p),
        LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "at most 32 epochs"));
}

static void cycles_rise_and_fall(void **state) {
    // 8 epochs, of which 2 rise, from 1/10 to 1, then down to 1/4; computed by hand and by Python's math module.
    ls_schedule_params p = {.total_epochs = 8, .start = 0.1, .rise = 0.25, .end = 0.25, .period_epochs = 3};
    const struct {
        const char *name;
        double epoch, factor;
    } known[] = {
        {"one-cycle", 0, 0.1},
        {"one-cycle", 0.5, 0.2318019484660536},
        {"one-cycle", 1, 0.55},
        {"one-cycle", 2, 1},
        {"one-cycle", 3.5, 0.8901650429449553},
        {"one-cycle", 5, 0.625},
        {"one-cycle", 7, 0.3002404735808355},
        {"one-cycle", 8, 0.25},
        {"one-cycle-linear", 0, 0.1},
        {"one-cycle-linear", 0.5, 0.325},
        {"one-cycle-linear", 2, 1},
        {"one-cycle-linear", 3.5, 0.8125},
        {"one-cycle-linear", 8, 0.25},
        {"cyclic", 0, 0.1},
        {"cyclic", 0.75, 0.55},
        {"cyclic", 1.5, 1},
        {"cyclic", 2.5, 0.4},
        {"cyclic", 3, 0.1},
        {"cyclic", 7.5, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const ls_schedule *schedule;
        assert_int_equal(ls_schedule_find(known[i].name, &schedule), LS_OK);
        double found = schedule->factor(&p, known[i].epoch);
        if (!(fabs(found - known[i].factor) < 1e-14))
            fail_msg("%s at %g is %.17g, expected %.17g", known[i].name, known[i].epoch, found, known[i].factor);
    }
    const ls_schedule *one_cycle, *cyclic;
    assert_int_equal(ls_schedule_find("one-cycle", &one_cycle), LS_OK);
    assert_int_equal(ls_schedule_find("cyclic", &cyclic), LS_OK);
    p.rise = 0, close_to(one_cycle->factor(&p, 0), 1);  // nothing but falling
    p.rise = 1, close_to(one_cycle->factor(&p, 8), 1);  // nothing but rising
    p.period_epochs = 0, close_to(cyclic->factor(&p, 3), 1);
}

static void warmup_grows_to_the_scaled_rate(void **state) {
    const ls_schedule *constant, *cosine;
    assert_int_equal(ls_schedule_find("constant", &constant), LS_OK);
    assert_int_equal(ls_schedule_find("cosine", &cosine), LS_OK);
    ls_schedule_params params = {.total_epochs = 5, .end = 0};
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 0, 0), 0.1);   // from the base rate
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 0, 1), 0.45);  // half way to 0.8
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 0, 2), 0.8);
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 0, 4), 0.8);
    close_to(ls_learning_rate(constant, &params, 0.1, 1, 2, 0, 0), 0);  // nothing is scaled: from 0
    close_to(ls_learning_rate(constant, &params, 0.1, 1, 2, 0, 1), 0.05);
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 0, 0, 0), 0.8);  // no warm-up
    double end = 0.8 * 0.5 * (1 + cos(acos(-1) * 0.2));
    close_to(ls_learning_rate(cosine, &params, 0.1, 8, 1, 0, 1), end);
    close_to(ls_learning_rate(cosine, &params, 0.1, 8, 1, 0, 0.5), 0.1 + (end - 0.1) / 2);
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 1, 0),
             0.1);  // constant warm-up: the base rate, then a jump
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 1, 1.99), 0.1);
    close_to(ls_learning_rate(constant, &params, 0.1, 8, 2, 1, 2), 0.8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(updates_follow_keras),
        cmocka_unit_test(layerwise_updates_follow_the_papers),
        cmocka_unit_test(layerwise_updates_are_those_of_optax),
        cmocka_unit_test(decay_is_that_of_pytorch_and_optax),
        cmocka_unit_test(without_norms_the_rate_is_not_adapted),
        cmocka_unit_test(cuts_do_not_move_bits),
        cmocka_unit_test(corrected_momentum_is_free_of_past_rates),
        cmocka_unit_test(zero_padding_stays_zero),
        cmocka_unit_test(defaults_are_keras_s),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(schedules_follow_their_formulas),
        cmocka_unit_test(steps_come_where_they_are_asked_for),
        cmocka_unit_test(cycles_rise_and_fall),
        cmocka_unit_test(warmup_grows_to_the_scaled_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
