#include "device/cpu/reorder_pairs.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/transpose_impl.h"

enum { BLOCK = 16, BLOCK_SIZE = BLOCK * BLOCK };  // channels by filters

// Where blocks lie: elements from one of channels, of filters, of taps to the next.
typedef struct strides {
    int64_t channels, filters, taps;
} strides;

typedef struct pairs_kernel {
    ls_kernel base;
    int64_t channels, filters, taps;  // in blocks
    int plain;                        // X: filters lie innermost, those of all blocks
    int64_t row;                      // X: elements from one channel of a block to the next
    strides from, to;                 // to: of `deep` blocks of what the pairs are of, which lie together
    int of_filters;                   // Y: a pair is of two filters; 0: of two channels
    int deep;
} pairs_kernel;

// Rounds to bf16, which is left in the upper halves; what is no number is a quiet one, what is denormal zero, as all arithmetic here takes it.
LS_INLINE v16u round_any(v16u u) {
    u &= ~(v16u)((v16i)((u & 0x7FFFFFFFu) - 0x00800000u) >> 31) | 0x80000000u;
    v16u nan = (v16u)((v16i)(0x7F800000u - (u & 0x7FFFFFFFu)) >> 31);
    return (round16((v16f)u) & ~nan) | ((u | 0x400000u) & nan);
}

LS_INLINE void make_block(const float *from, int64_t from_row, int of_filters, ls_bf16 *to) {
    v16u v[BLOCK];
#pragma GCC unroll 16
    for (int i = 0; i < BLOCK; i++) memcpy(&v[i], from + i * from_row, sizeof v[i]);
    if (of_filters) transpose_words(v);
#pragma GCC unroll 8
    for (int i = 0; i < BLOCK; i += 2) {
        v16u both = round_any(v[i]) >> 16 | (round_any(v[i + 1]) & 0xFFFF0000u);
        memcpy(to + i * BLOCK, &both, sizeof both);
    }
}

LS_INLINE void copy_block(const pairs_kernel *k, const float *x, ls_bf16 *y, int64_t channel, int64_t filter,
                          int64_t tap) {
    int64_t paired = k->of_filters ? filter : channel, half = paired % k->deep;
    const float *from = x + channel * k->from.channels + filter * k->from.filters + tap * k->from.taps;
    if (k->of_filters)
        filter /= k->deep;
    else
        channel /= k->deep;
    make_block(from, k->row, k->of_filters,
               y + channel * k->to.channels + filter * k->to.filters + tap * k->to.taps + half * BLOCK_SIZE);
}

// In the order of X.
LS_CLONES static void copy_blocks(const pairs_kernel *k, const float *x, ls_bf16 *y) {
    for (int64_t a = 0; a < (k->plain ? k->taps : k->filters); a++)
        for (int64_t channel = 0; channel < k->channels; channel++)
            for (int64_t b = 0; b < (k->plain ? k->filters : k->taps); b++)
                copy_block(k, x, y, channel, k->plain ? b : a, k->plain ? a : b);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    (void)queue;
    copy_blocks((const pairs_kernel *)kernel, ls_span_host(args[LS_ARG_X]), ls_span_host(args[LS_ARG_Y]));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// --- making one ------------------------------------------------------------------------------------------------------

static ls_status find_from(ls_cpu *cpu, const ls_layout *from, pairs_kernel *k, int *found) {
    const ls_layout *blocked;
    *found = 1;
    k->plain = from->plain;
    if (k->plain) {
        k->row = k->filters * BLOCK;
        k->from = (strides){BLOCK * k->row, BLOCK, k->channels * BLOCK * k->row};
        return LS_OK;
    }
    LS_TRY(ls__cpu_layout_tag(cpu, from->shape, LS_DTYPE_F32, 1, dnnl_OIhw16i16o, &blocked));
    *found = blocked == from;
    k->row = BLOCK;
    k->from = (strides){k->taps * BLOCK_SIZE, k->channels * k->taps * BLOCK_SIZE, BLOCK_SIZE};
    return LS_OK;
}

static ls_status find_to(ls_cpu *cpu, const ls_layout *to, pairs_kernel *k, int *found) {
    static const struct {
        dnnl_format_tag_t tag;
        int of_filters, deep, by_channels;  // by_channels: blocks of channels lie outermost, else those of filters
    } known[] = {{dnnl_OIhw8i16o2i, 0, 1, 0},
                 {dnnl_OIhw16i16o2i, 0, 2, 0},
                 {dnnl_OIhw8o16i2o, 1, 1, 0},
                 {dnnl_OIhw16o16i2o, 1, 2, 0},
                 {dnnl_IOhw8o16i2o, 1, 1, 1}};
    const ls_layout *layout;
    *found = 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0] && !*found; i++) {
        LS_TRY(ls__cpu_layout_tag(cpu, to->shape, LS_DTYPE_BF16, 1, known[i].tag, &layout));
        if (layout != to) continue;
        k->of_filters = known[i].of_filters;
        k->deep = known[i].deep;
        int64_t channels = k->of_filters ? k->channels : k->channels / k->deep,
                filters = k->of_filters ? k->filters / k->deep : k->filters, size = k->deep * BLOCK_SIZE;
        k->to.taps = size;
        k->to.channels = known[i].by_channels ? filters * k->taps * size : k->taps * size;
        k->to.filters = known[i].by_channels ? k->taps * size : channels * k->taps * size;
        *found = (k->of_filters ? k->filters : k->channels) % k->deep == 0;
    }
    return LS_OK;
}

ls_status ls__reorder_pairs_create(ls_cpu *cpu, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const int64_t *dim = from->shape.dim;  // H, W, I, O
    *out = NULL;
    if (from->dtype != LS_DTYPE_F32 || to->dtype != LS_DTYPE_BF16 || from->shape.ndim != 4 || dim[2] % BLOCK != 0 ||
        dim[3] % BLOCK != 0)
        return LS_OK;
    pairs_kernel *k;
    int found;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "reorder:pairs";
    k->channels = dim[2] / BLOCK;
    k->filters = dim[3] / BLOCK;
    k->taps = dim[0] * dim[1];
    ls_status status = find_to(cpu, to, k, &found);
    if (status == LS_OK && found) status = find_from(cpu, from, k, &found);
    if (status != LS_OK || !found) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
