// Max and average pooling of volumes, as vector loops over the layout the input comes in (pool_cpu.c is the one of images). Backward
// gathers: an element of DX is the sum over the windows that cover it, in their order, rounded once.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

enum { NOWHERE = -1 };  // where no gradient passes: 255 as a byte

// X is (planes, in, block) and Y (planes, out, block): planes are samples times blocks of channels.
typedef struct pool_volume {
    int64_t planes, block, in[3], out[3], ins, outs;
    int size[3], strides[3], front[3];
    int mask;  // DX is multiplied by (X > 0)
} pool_volume;

typedef struct pool3d_kernel {
    ls_kernel base;
    pool_volume volume;
    ls_dtype dtype;
    int average, backward, training, threads;
} pool3d_kernel;

// --- windows ---------------------------------------------------------------------------------------------------------

// The part of a box that there is: [first, end) along each axis.
typedef struct box {
    int64_t first[3], end[3];
} box;

// What of X is under the window at a position of Y; *low is where the window begins, which may be in the padding.
LS_INLINE box window_at(const pool_volume *v, const int64_t at[3], int64_t low[3]) {
    box b;
    for (int i = 0; i < 3; i++) {
        low[i] = at[i] * v->strides[i] - v->front[i];
        b.first[i] = low[i] < 0 ? 0 : low[i];
        b.end[i] = low[i] + v->size[i] > v->in[i] ? v->in[i] : low[i] + v->size[i];
    }
    return b;
}

LS_INLINE float volume_of(const box *b) {
    return (float)((b->end[0] - b->first[0]) * (b->end[1] - b->first[1]) * (b->end[2] - b->first[2]));
}

// The positions of Y whose windows cover a position of X.
LS_INLINE box covering(const pool_volume *v, const int64_t at[3]) {
    box b;
    for (int i = 0; i < 3; i++) {
        int64_t padded = at[i] + v->front[i];
        b.first[i] = padded < v->size[i] ? 0 : (padded - v->size[i]) / v->strides[i] + 1;
        b.end[i] = padded / v->strides[i] + 1;
        if (b.end[i] > v->out[i]) b.end[i] = v->out[i];
    }
    return b;
}

LS_INLINE int64_t offset_in(const int64_t sides[3], int64_t d, int64_t h, int64_t w) {
    return (d * sides[1] + h) * sides[2] + w;
}

// The number of a position of X in the window that begins at `low`.
LS_INLINE int tap_of(const pool_volume *v, const int64_t low[3], int64_t d, int64_t h, int64_t w) {
    return (int)(((d - low[0]) * v->size[1] + (h - low[1])) * v->size[2] + (w - low[2]));
}

#define FOR_EACH_IN(b, d, h, w)                                                                                        \
    for (int64_t d = (b).first[0]; d < (b).end[0]; d++)                                                                \
        for (int64_t h = (b).first[1]; h < (b).end[1]; h++)                                                            \
            for (int64_t w = (b).first[2]; w < (b).end[2]; w++)

// --- one position, `lanes` channels -----------------------------------------------------------------------------------

LS_INLINE void max_at(ls_dtype dtype, const pool_volume *v, const int64_t at[3], const void *x, int64_t plane, void *y,
                      uint8_t *index, int64_t to, int64_t lanes) {
    int64_t low[3];
    box b = window_at(v, at, low);
    v16f best = load_lanes(dtype, x, plane + offset_in(v->in, b.first[0], b.first[1], b.first[2]) * v->block, lanes);
    v16i where = (v16i){0} + tap_of(v, low, b.first[0], b.first[1], b.first[2]);
    FOR_EACH_IN(b, d, h, w) {
        v16f value = load_lanes(dtype, x, plane + offset_in(v->in, d, h, w) * v->block, lanes);
        v16i more = greater16(value, best);
        best = select16(more, value, best);
        where = (more & tap_of(v, low, d, h, w)) | (~more & where);
    }
    store_lanes(dtype, y, to, best, lanes);
    if (!index) return;
    if (v->mask) where |= ~positive16(best);
    v16b bytes = to_bytes(where);
    for (int64_t i = 0; i < lanes; i++) index[to + i] = bytes[i];
}

LS_INLINE void max_back_at(ls_dtype dtype, const pool_volume *v, const int64_t at[3], const void *dy,
                           const uint8_t *index, int64_t plane, void *dx, int64_t to, int64_t lanes) {
    v16f sum = {0};
    box b = covering(v, at);
    FOR_EACH_IN(b, d, h, w) {
        int64_t from = plane + offset_in(v->out, d, h, w) * v->block, low[3];
        window_at(v, (int64_t[]){d, h, w}, low);
        v16b bytes = {0};
        for (int64_t i = 0; i < lanes; i++) bytes[i] = index[from + i];
        v16i mine = equal16(from_bytes(bytes), (v16u){0} + (uint32_t)tap_of(v, low, at[0], at[1], at[2]));
        sum += where16(mine, load_lanes(dtype, dy, from, lanes));
    }
    store_lanes(dtype, dx, to, sum, lanes);
}

LS_INLINE void mean_at(ls_dtype dtype, const pool_volume *v, const int64_t at[3], const void *x, int64_t plane, void *y,
                       int64_t to, int64_t lanes) {
    int64_t low[3];
    v16f sum = {0};
    box b = window_at(v, at, low);
    FOR_EACH_IN(b, d, h, w) sum += load_lanes(dtype, x, plane + offset_in(v->in, d, h, w) * v->block, lanes);
    store_lanes(dtype, y, to, sum / volume_of(&b), lanes);
}

LS_INLINE void mean_back_at(ls_dtype dtype, const pool_volume *v, const int64_t at[3], const void *dy, const void *x,
                            int64_t plane, void *dx, int64_t to, int64_t lanes) {
    v16f sum = {0};
    box b = covering(v, at);
    FOR_EACH_IN(b, d, h, w) {
        int64_t low[3];
        box window = window_at(v, (int64_t[]){d, h, w}, low);
        sum += load_lanes(dtype, dy, plane + offset_in(v->out, d, h, w) * v->block, lanes) / volume_of(&window);
    }
    if (v->mask) sum = where16(positive16(load_lanes(dtype, x, to, lanes)), sum);
    store_lanes(dtype, dx, to, sum, lanes);
}

// --- planes ----------------------------------------------------------------------------------------------------------

// The positions of `sides` in planes [first, last), sixteen channels at a time; `to` is a position's place in the tensor of those sides, `plane` that of
// the same channel in the other one, `other` positions a plane. With all sixteen lanes as a constant.
#define FOR_EACH_VECTOR(v, sides, other, first, last, CALL)                                                            \
    do {                                                                                                               \
        int64_t to = (first) * (sides)[0] * (sides)[1] * (sides)[2] * (v)->block, at[3];                               \
        for (int64_t p = (first); p < (last); p++)                                                                     \
            for (at[0] = 0; at[0] < (sides)[0]; at[0]++)                                                               \
                for (at[1] = 0; at[1] < (sides)[1]; at[1]++)                                                           \
                    for (at[2] = 0; at[2] < (sides)[2]; at[2]++)                                                       \
                        for (int64_t c = 0; c < (v)->block; c += 16) {                                                 \
                            int64_t plane = p * (other) * (v)->block + c;                                              \
                            int64_t lanes = (v)->block - c < 16 ? (v)->block - c : 16;                                 \
                            if (lanes == 16) {                                                                         \
                                CALL(16);                                                                              \
                            } else {                                                                                   \
                                CALL(lanes);                                                                           \
                            }                                                                                          \
                            to += lanes;                                                                               \
                        }                                                                                              \
    } while (0)

LS_INLINE void forward(ls_dtype dtype, int average, const pool_volume *v, const void *x, void *y, uint8_t *index,
                       int64_t first, int64_t last) {
#define MAX(lanes)  max_at(dtype, v, at, x, plane, y, index, to, lanes)
#define MEAN(lanes) mean_at(dtype, v, at, x, plane, y, to, lanes)
    if (average)
        FOR_EACH_VECTOR(v, v->out, v->ins, first, last, MEAN);
    else
        FOR_EACH_VECTOR(v, v->out, v->ins, first, last, MAX);
}

LS_INLINE void backward(ls_dtype dtype, int average, const pool_volume *v, const void *dy, const void *x,
                        const uint8_t *index, void *dx, int64_t first, int64_t last) {
#define MAX_BACK(lanes)  max_back_at(dtype, v, at, dy, index, plane, dx, to, lanes)
#define MEAN_BACK(lanes) mean_back_at(dtype, v, at, dy, x, plane, dx, to, lanes)
    if (average)
        FOR_EACH_VECTOR(v, v->in, v->outs, first, last, MEAN_BACK);
    else
        FOR_EACH_VECTOR(v, v->in, v->outs, first, last, MAX_BACK);
}

LS_CLONES static void forward_f32(int average, const pool_volume *v, const void *x, void *y, uint8_t *index,
                                  int64_t first, int64_t last) {
    forward(LS_DTYPE_F32, average, v, x, y, index, first, last);
}
LS_CLONES static void forward_bf16(int average, const pool_volume *v, const void *x, void *y, uint8_t *index,
                                   int64_t first, int64_t last) {
    forward(LS_DTYPE_BF16, average, v, x, y, index, first, last);
}
LS_CLONES static void forward_fp16(int average, const pool_volume *v, const void *x, void *y, uint8_t *index,
                                   int64_t first, int64_t last) {
    forward(LS_DTYPE_F16, average, v, x, y, index, first, last);
}
LS_CLONES static void backward_f32(int average, const pool_volume *v, const void *dy, const void *x,
                                   const uint8_t *index, void *dx, int64_t first, int64_t last) {
    backward(LS_DTYPE_F32, average, v, dy, x, index, dx, first, last);
}
LS_CLONES static void backward_bf16(int average, const pool_volume *v, const void *dy, const void *x,
                                    const uint8_t *index, void *dx, int64_t first, int64_t last) {
    backward(LS_DTYPE_BF16, average, v, dy, x, index, dx, first, last);
}
LS_CLONES static void backward_fp16(int average, const pool_volume *v, const void *dy, const void *x,
                                    const uint8_t *index, void *dx, int64_t first, int64_t last) {
    backward(LS_DTYPE_F16, average, v, dy, x, index, dx, first, last);
}

// --- the kernel ------------------------------------------------------------------------------------------------------

static void run_planes(const pool3d_kernel *k, void *const args[LS_ARG_COUNT], int64_t first, int64_t last) {
    int f32 = k->dtype == LS_DTYPE_F32, fp16 = k->dtype == LS_DTYPE_F16;
    uint8_t *index = k->average ? NULL : args[LS_ARG_WORKSPACE];
    if (k->backward)
        (f32    ? backward_f32
         : fp16 ? backward_fp16
                : backward_bf16)(k->average, &k->volume, args[LS_ARG_DY], args[LS_ARG_X], index, args[LS_ARG_DX], first,
                                 last);
    else
        (f32    ? forward_f32
         : fp16 ? forward_fp16
                : forward_bf16)(k->average, &k->volume, args[LS_ARG_X], args[LS_ARG_Y], k->training ? index : NULL,
                                first, last);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const pool3d_kernel *k = (const pool3d_kernel *)kernel;
    int64_t planes = k->volume.planes;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int t = 0; t < k->threads; t++) run_planes(k, args, planes * t / k->threads, planes * (t + 1) / k->threads);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static pool_volume volume_from(const ls_kernel_spec *spec, int block) {
    const ls_pool3d_attrs *a = LS_ATTRS(ls_pool3d_attrs, &spec->attrs);
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    pool_volume v = {
        .planes = x[0] * ((x[4] + block - 1) / block), .block = block, .ins = 1, .outs = 1, .mask = spec->mask_dx};
    for (int i = 0; i < 3; i++) {
        v.ins *= v.in[i] = x[i + 1];
        v.outs *= v.out[i] = y[i + 1];
        v.size[i] = a->size[i];
        v.strides[i] = a->strides[i];
        v.front[i] = a->pad[i];
    }
    return v;
}

ls_status ls__cpu_pool3d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const int *size = LS_ATTRS(ls_pool3d_attrs, &spec->attrs)->size;
    int average = spec->op == LS_OP_AVERAGE_POOL3D, backward = spec->pass == LS_PASS_BACKWARD_DATA, block;
    int64_t taps = (int64_t)size[0] * size[1] * size[2];
    const ls_layout *x, *y;
    if (!average && taps > 255)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "max pooling over a window of %lld elements: the device keeps a byte per maximum, at most 255 "
                       "fit; pool in two steps",
                       (long long)taps);
    // Where a layout pads channels, the padding is pooled along: zero in, zero out.
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    pool3d_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->volume = volume_from(spec, block);
    k->average = average;
    k->backward = backward;
    k->training = spec->pass == LS_PASS_TRAINING;
    k->dtype = spec->x[0].dtype;
    k->threads = cpu->base.options.threads;
    k->base.ops = &ops;
    k->base.tiles = k->volume.planes;
    k->base.name = average ? "loop:average_pool3d" : "loop:max_pool3d";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    if (backward && average && spec->mask_dx) k->base.layout[LS_ARG_X] = x;
    if (!average && spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = k->volume.planes * k->volume.outs * block;
    *out = &k->base;
    return LS_OK;
}
