// Initial weights, under Keras's names and formulas. Every value is a pure function of (seed, parameter index,
// element), made of IEEE-exact operations only (no exp, log or sin, whose last bits vary between C libraries), so that
// a run starts from the same bits on every machine.
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "graph/store.h"

// exp(-t) for 0 <= t <= 2: the reciprocal of the Taylor series of exp(t), whose 25 terms reach double precision there.
static double exp_negative(double t) {
    double term = 1, sum = 1;
    for (int k = 1; k < 25; k++) {
        term = term * t / k;
        sum += term;
    }
    return 1 / sum;
}

// A standard normal cut at two sigma, by rejection: a uniform in [-2, 2) is kept with probability exp(-x^2 / 2). Each
// attempt has its own counter; six of ten succeed.
static double truncated_normal(uint64_t seed, uint32_t param, int64_t element) {
    for (uint32_t attempt = 0;; attempt++) {
        ls_philox4 r = ls_philox(seed, (uint32_t)element, (uint32_t)(element >> 32), param,
                                 ls_random_stream(LS_RANDOM_INIT, attempt, 1));
        for (int i = 0; i < 4; i += 2) {
            double x = r.v[i] * 0x1p-30 - 2;
            if (r.v[i + 1] * 0x1p-32 < exp_negative(x * x / 2)) return x;
        }
    }
}

static float uniform(uint64_t seed, uint32_t param, int64_t element, double limit) {
    int64_t block = element / 4;
    ls_philox4 r =
        ls_philox(seed, (uint32_t)block, (uint32_t)(block >> 32), param, ls_random_stream(LS_RANDOM_INIT, 0, 0));
    return (float)((2.0 * ls_uniform(r.v[element % 4]) - 1) * limit);
}

// Normal draws, of which each vector in turn loses its part along those before it: rows, or columns where there are fewer of them.
// Source: Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural networks", ICLR 2014; by the modified
// Gram-Schmidt process.
static void orthogonal(uint64_t seed, uint32_t param, ls_shape shape, float *out) {
    int64_t columns = shape.dim[shape.ndim - 1], rows = ls_shape_count(shape) / columns;
    int64_t count = rows < columns ? rows : columns, length = rows < columns ? columns : rows;
    int64_t next = rows < columns ? columns : 1, step = rows < columns ? 1 : columns;
    for (int64_t i = 0; i < rows * columns; i++) out[i] = (float)truncated_normal(seed, param, i);
    for (int64_t v = 0; v < count; v++) {
        float *mine = out + v * next;
        for (int64_t u = 0; u < v; u++) {
            const float *other = out + u * next;
            double dot = 0;
            for (int64_t i = 0; i < length; i++) dot += (double)mine[i * step] * (double)other[i * step];
            for (int64_t i = 0; i < length; i++)
                mine[i * step] = (float)((double)mine[i * step] - dot * (double)other[i * step]);
        }
        double squares = 0;
        for (int64_t i = 0; i < length; i++) squares += (double)mine[i * step] * (double)mine[i * step];
        for (int64_t i = 0; i < length; i++) mine[i * step] = (float)((double)mine[i * step] / sqrt(squares));
    }
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// Filter o of the first ones gives channel o as it is: 1 in the middle of the window, else 0. Elements of a kernel are (window, in, out);
// of a window of even side the middle is what PyTorch's torch.nn.init.dirac_ takes for it.
static void pass_channels(ls_shape shape, float *out) {
    int64_t filters = shape.dim[shape.ndim - 1], channels = shape.ndim > 1 ? shape.dim[shape.ndim - 2] : 1;
    int64_t places = 1, middle = 0;
    for (int i = 0; i + 2 < shape.ndim; i++) {
        places *= shape.dim[i];
        middle = middle * shape.dim[i] + shape.dim[i] / 2;
    }
    for (int64_t place = 0; place < places; place++)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t o = 0; o < least(filters, channels); o++)
                out[(place * channels + c) * filters + o] = place == middle && c == o;
}

// Keras's VarianceScaling: weights of variance scale / fan.
// Sources: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", AISTATS
// 2010, eq. 16; He et al., "Delving deep into rectifiers", ICCV 2015, eq. 10; LeCun et al., "Efficient BackProp", 1998,
// sec. 4.6.
void ls_param_initialize(const ls_store *store, int param, uint64_t seed, float *out) {
    const ls_param *p = &store->params[param];
    int64_t count = ls_shape_count(p->shape);
    double fan_in = (double)p->fan_in, fan_average = 0.5 * (double)(p->fan_in + p->fan_out), variance = 0;
    int normal = 0;
    float constant = 0;
    if (p->initial) {
        memcpy(out, p->initial, (size_t)count * sizeof *out);
        return;
    }
    switch (p->initializer) {
    case LS_INITIALIZER_GLOROT_NORMAL: normal = 1;  // fall through
    case LS_INITIALIZER_GLOROT_UNIFORM: variance = 1 / fan_average; break;
    case LS_INITIALIZER_HE_NORMAL: normal = 1;  // fall through
    case LS_INITIALIZER_HE_UNIFORM: variance = 2 / fan_in; break;
    case LS_INITIALIZER_LECUN_NORMAL: normal = 1;  // fall through
    case LS_INITIALIZER_LECUN_UNIFORM: variance = 1 / fan_in; break;
    case LS_INITIALIZER_HE_NORMAL_FAN_OUT:
        normal = 1;
        variance = 2 / (double)p->fan_out;
        break;
    case LS_INITIALIZER_FAN_OUT_UNIFORM: variance = 1 / (3 * (double)p->fan_out); break;
    case LS_INITIALIZER_PATCH_WHITENING:  // until a trainer has measured the images
    case LS_INITIALIZER_DIRAC:
    case LS_INITIALIZER_FAN_IN_UNIFORM: variance = 1 / (3 * fan_in); break;
    case LS_INITIALIZER_RANDOM_UNIFORM: variance = 0.05 * 0.05 / 3; break;
    case LS_INITIALIZER_ONES: constant = 1; break;
    case LS_INITIALIZER_ORTHOGONAL: orthogonal(seed, (uint32_t)param, p->shape, out); return;
    case LS_INITIALIZER_UNIT_FORGET:
        for (int64_t i = 0; i < count; i++) out[i] = i >= count / 4 && i < count / 2;
        return;
    case LS_INITIALIZER_DEFAULT:
    case LS_INITIALIZER_ZEROS: break;
    }
    if (normal) {
        // Cutting at two sigma shrinks the deviation by this factor, which Keras makes up for.
        double deviation = sqrt(variance) / 0.87962566103423978;
        for (int64_t i = 0; i < count; i++) out[i] = (float)(truncated_normal(seed, (uint32_t)param, i) * deviation);
    } else if (variance > 0) {
        double limit = sqrt(3 * variance);
        for (int64_t i = 0; i < count; i++) out[i] = uniform(seed, (uint32_t)param, i, limit);
    } else {
        for (int64_t i = 0; i < count; i++) out[i] = constant;
    }
    if (p->initializer == LS_INITIALIZER_DIRAC) pass_channels(p->shape, out);
}
