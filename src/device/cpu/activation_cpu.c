// Activations other than ReLU, in double between one rounding and the next, but for GELU, which transformers are full of. The backward of those that flatten out is told by Y, of the
// others by X.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops.h"
#include "device/cpu/math_impl.h"
#include "device/cpu/table.h"
#include "device/math.h"

// --- loops -----------------------------------------------------------------------------------------------------------

// to[i] = the formula in v = from[i] and d = times[i]; without `times` d is 1.
#define EACH(name, formula)                                                                                            \
    LS_CLONES static void name(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {             \
        float v_block[BLOCK], d_block[BLOCK];                                                                          \
        for (int j = 0; j < BLOCK; j++) d_block[j] = 1;                                                                \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                                       \
            int64_t count = n - i < BLOCK ? n - i : BLOCK;                                                             \
            load_block(dtype, from, i, count, v_block);                                                                \
            if (times) load_block(dtype, times, i, count, d_block);                                                    \
            for (int j = 0; j < BLOCK; j++) {                                                                          \
                double v = (double)v_block[j], d = (double)d_block[j];                                                 \
                v_block[j] = (float)(formula);                                                                         \
            }                                                                                                          \
            store_block(dtype, to, i, count, v_block);                                                                 \
        }                                                                                                              \
    }

EACH(sigmoid, d *ls__sigmoid(v))
EACH(sigmoid_backward, d *v *(1 - v))  // of Y
EACH(hyperbolic, d *ls__tanh(v))
EACH(hyperbolic_backward, d *(1 - v * v))  // of Y
EACH(relu6, d *(v > 0 ? (v < 6 ? v : 6) : 0))
EACH(relu6_backward, v > 0 && v < 6 ? d : 0)  // of Y
EACH(silu, d *v *ls__sigmoid(v))
EACH(silu_backward, d *ls__sigmoid(v) * (1 + v * (1 - ls__sigmoid(v))))

LS_INLINE row gelu32(row x, row d, int backward) {
    row exponential, below = normal_below32(x, &exponential);
    for (int h = 0; h < 2; h++)
        d.v[h] =
            backward ? d.v[h] * (below.v[h] + x.v[h] * exponential.v[h] * 0.398942280f) : d.v[h] * x.v[h] * below.v[h];
    return d;
}

LS_INLINE void gelu_row(ls_dtype dtype, void *to, const void *from, const void *times, int64_t at, int64_t count) {
    row d = {{all16(1), all16(1)}};
    if (times) d = load_row(dtype, times, at, count);
    store_row(dtype, to, at, gelu32(load_row(dtype, from, at, count), d, times != NULL), count);
}

LS_INLINE void gelu_rows(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {
    int64_t i = 0;
    for (; i + ROW <= n; i += ROW) gelu_row(dtype, to, from, times, i, ROW);
    if (i < n) gelu_row(dtype, to, from, times, i, n - i);
}

// A loop for each type, which then does not ask for it.
LS_INLINE void gelu_any(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {
    if (dtype == LS_DTYPE_F32)
        gelu_rows(LS_DTYPE_F32, to, from, times, n);
    else if (dtype == LS_DTYPE_F16)
        gelu_rows(LS_DTYPE_F16, to, from, times, n);
    else
        gelu_rows(LS_DTYPE_BF16, to, from, times, n);
}

LS_CLONES static void gelu(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {
    gelu_any(dtype, to, from, NULL, n);
}

LS_CLONES static void gelu_backward(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {
    gelu_any(dtype, to, from, times, n);
}

// The same of numbers of 16 bits, looked up: forward what they become, backward the derivative, which multiplies DY as the formula does.
static void look_up(const uint16_t *table, uint16_t *to, const uint16_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = table[from[i]];
}

enum { TURN = 256 };  // elements whose slopes wait in the first-level cache

LS_INLINE void look_up_turn(ls_dtype dtype, const float *table, void *to, const uint16_t *from, const void *times,
                            int64_t at, int64_t count) {
    _Alignas(64) float slope[TURN];
    int64_t j = 0;
    for (int64_t i = 0; i < count; i++) slope[i] = table[from[at + i]];
    for (; j + 16 <= count; j += 16)
        store16(dtype, to, at + j, load16(dtype, times, at + j) * load16(LS_DTYPE_F32, slope, j));
    if (j < count)
        store_lanes(dtype, to, at + j,
                    load_lanes(dtype, times, at + j, count - j) * load_lanes(LS_DTYPE_F32, slope, j, count - j),
                    count - j);
}

LS_INLINE void look_up_turns(ls_dtype dtype, const float *table, void *to, const uint16_t *from, const void *times,
                             int64_t n) {
    for (int64_t at = 0; at < n; at += TURN)
        look_up_turn(dtype, table, to, from, times, at, n - at < TURN ? n - at : TURN);
}

LS_CLONES static void look_up_backward(ls_dtype dtype, const float *table, void *to, const uint16_t *from,
                                       const void *times, int64_t n) {
    if (dtype == LS_DTYPE_F16)
        look_up_turns(LS_DTYPE_F16, table, to, from, times, n);
    else
        look_up_turns(LS_DTYPE_BF16, table, to, from, times, n);
}

LS_INLINE float largest_of(ls_dtype dtype, const void *x, int64_t at, int64_t width) {
    float v[BLOCK], most[BLOCK];
    load_block(dtype, x, at, 1, v);
    for (int j = 0; j < BLOCK; j++) most[j] = v[0];
    for (int64_t i = 0; i < width; i += BLOCK) {
        int64_t count = width - i < BLOCK ? width - i : BLOCK;
        load_block(dtype, x, at + i, count, v);
        for (int64_t j = 0; j < count; j++) most[j] = v[j] > most[j] ? v[j] : most[j];
    }
    for (int j = 1; j < BLOCK; j++) most[0] = most[j] > most[0] ? most[j] : most[0];
    return most[0];
}

LS_CLONES static void softmax(ls_dtype dtype, void *y, const void *x, int64_t width, int64_t rows) {
    float v[BLOCK];
    double e[BLOCK];
    for (int64_t at = 0; at < rows * width; at += width) {
        double largest = (double)largest_of(dtype, x, at, width), lanes[LANES] = {0};
        for (int64_t i = 0; i < width; i += BLOCK) {
            int64_t count = width - i < BLOCK ? width - i : BLOCK;
            load_block(dtype, x, at + i, count, v);
            for (int j = 0; j < BLOCK; j++) e[j] = ls__exp((double)v[j] - largest);
            for (int64_t j = count; j < BLOCK; j++) e[j] = 0;
            add_block(lanes, e);
        }
        double scale = 1 / add_lanes(lanes);
        for (int64_t i = 0; i < width; i += BLOCK) {
            int64_t count = width - i < BLOCK ? width - i : BLOCK;
            load_block(dtype, x, at + i, count, v);
            for (int j = 0; j < BLOCK; j++) v[j] = (float)(ls__exp((double)v[j] - largest) * scale);
            store_block(dtype, y, at + i, count, v);
        }
    }
}

LS_CLONES static void softmax_backward(ls_dtype dtype, void *dx, const void *y, const void *dy, int64_t width,
                                       int64_t rows) {
    float v[BLOCK], d[BLOCK];
    double e[BLOCK];
    for (int64_t at = 0; at < rows * width; at += width) {
        double lanes[LANES] = {0};
        for (int64_t i = 0; i < width; i += BLOCK) {
            int64_t count = width - i < BLOCK ? width - i : BLOCK;
            load_block(dtype, y, at + i, count, v);
            load_block(dtype, dy, at + i, count, d);
            for (int j = 0; j < BLOCK; j++) e[j] = (double)v[j] * (double)d[j];
            add_block(lanes, e);
        }
        double dot = add_lanes(lanes);
        for (int64_t i = 0; i < width; i += BLOCK) {
            int64_t count = width - i < BLOCK ? width - i : BLOCK;
            load_block(dtype, y, at + i, count, v);
            load_block(dtype, dy, at + i, count, d);
            for (int j = 0; j < BLOCK; j++) v[j] = (float)((double)v[j] * ((double)d[j] - dot));
            store_block(dtype, dx, at + i, count, v);
        }
    }
}

// --- kernels ---------------------------------------------------------------------------------------------------------

typedef struct activation_kernel {
    ls_kernel base;
    ls_activation activation;
    ls_dtype dtype;
    int64_t count, unit;  // elements in all; that stay together
    int backward, mask_dx, threads;
    const void *table;  // of table.h, the device's; NULL: the formula
} activation_kernel;

typedef struct activation_ops {
    const char *name;
    void (*forward)(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n);
    void (*backward)(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n);
    int by_output;    // backward is told by Y
    int keeps_zeros;  // it may go over what a layout pads
    int by_slope;     // backward is DY times the rounded derivative
} activation_ops;

static const activation_ops all[] = {
    [LS_ACTIVATION_SIGMOID] = {"loop:sigmoid", sigmoid, sigmoid_backward, 1, 0, 0},
    [LS_ACTIVATION_TANH] = {"loop:tanh", hyperbolic, hyperbolic_backward, 1, 1, 0},
    [LS_ACTIVATION_SOFTMAX] = {"loop:softmax", NULL, NULL, 1, 0, 0},
    [LS_ACTIVATION_GELU] = {"loop:gelu", gelu, gelu_backward, 0, 1, 1},
    [LS_ACTIVATION_SILU] = {"loop:silu", silu, silu_backward, 0, 1, 0},
    [LS_ACTIVATION_RELU6] = {"loop:relu6", relu6, relu6_backward, 1, 1, 0},
};

// Elements [from, to).
static void run_part(const activation_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    const activation_ops *ops = &all[k->activation];
    int64_t at = from * (int64_t)ls_dtype_size(k->dtype), n = to - from;
    if (!k->backward) {
        const char *x = (const char *)args[LS_ARG_X] + at;
        char *y = (char *)args[LS_ARG_Y] + at;
        if (k->table)
            look_up(k->table, (uint16_t *)(void *)y, (const uint16_t *)(const void *)x, n);
        else if (ops->forward)
            ops->forward(k->dtype, y, x, NULL, n);
        else
            softmax(k->dtype, y, x, k->unit, n / k->unit);
        return;
    }
    const char *told = (const char *)args[ops->by_output ? LS_ARG_Y : LS_ARG_X] + at;
    const char *dy = (const char *)args[LS_ARG_DY] + at;
    char *dx = (char *)args[LS_ARG_DX] + at;
    if (k->table)
        look_up_backward(k->dtype, k->table, dx, (const uint16_t *)(const void *)told, dy, n);
    else if (ops->backward)
        ops->backward(k->dtype, dx, told, dy, n);
    else
        softmax_backward(k->dtype, dx, told, dy, k->unit, n / k->unit);
    if (k->mask_dx) ls__loop_mask(k->dtype, dx, dx, (const char *)args[LS_ARG_X] + at, n);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const activation_kernel *k = (const activation_kernel *)kernel;
    int64_t units = k->count / k->unit;
    if (k->threads <= 1) {
        run_part(k, args, 0, k->count);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->threads; t++) {
        int64_t from = units * t / k->threads * k->unit;
        int64_t to = t + 1 == k->threads ? k->count : units * (t + 1) / k->threads * k->unit;
        if (to > from) run_part(k, args, from, to);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_activation_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops kernel_ops = {run, destroy};
    ls_activation activation = LS_ATTRS(ls_activation_attrs, &spec->attrs)->activation;
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const ls_layout *given = spec->layout[backward ? LS_ARG_DX : LS_ARG_X], *layout;
    if (activation == LS_ACTIVATION_RELU) {
        ls_kernel_spec relu = *spec;
        relu.op = LS_OP_RELU;
        return ls__cpu_elementwise_create(cpu, &relu, out);
    }
    const activation_ops *ops = &all[activation];
    ls_shape shape = spec->x[0].shape;
    int64_t count = ls_shape_count(shape), size = (int64_t)ls_dtype_size(spec->x[0].dtype);
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, shape, spec->x[0].dtype, 0, &layout));
    if (given && ops->forward && (ops->keeps_zeros || given->bytes == count * size)) layout = given;
    activation_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &kernel_ops;
    k->base.name = ops->name;
    k->activation = activation;
    k->dtype = spec->x[0].dtype;
    k->count = layout->bytes / size;
    k->unit = ops->forward ? BLOCK : shape.dim[shape.ndim - 1];
    k->backward = backward;
    k->mask_dx = spec->mask_dx && backward;
    k->threads = cpu->base.options.threads;
    if (k->count >= LS_TABLE_PAYS && backward && ops->by_slope)
        k->table = ls__cpu_table(cpu, ops->backward, k->dtype, LS_DTYPE_F32);
    if (k->count >= LS_TABLE_PAYS && !backward && ops->forward)
        k->table = ls__cpu_table(cpu, ops->forward, k->dtype, k->dtype);
    k->base.tiles = (k->count + k->unit - 1) / k->unit;
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = layout;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = layout;
    if (backward && ops->by_output) k->base.layout[LS_ARG_Y] = layout;
    if (backward && (!ops->by_output || spec->mask_dx)) k->base.layout[LS_ARG_X] = layout;
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    *out = &k->base;
    return LS_OK;
}
