// Weight gradients: numbers p of transformed patches of X, turned over, are a matrix (channels, patches), those of the 2 x 2 pixels of DY that
// belong to them one of (patches, filters), and what their product is, added up over all patches from the first to the last, becomes DW. Some
// dozens of patches are transformed at a time, by all threads; then each multiplies other rows of other numbers p. So threads do not show.
//
// A thread multiplies what it has transformed as far as that goes: the first of them the upper rows of the 4 x 4 numbers, the last the lower
// ones. For cores may have no cache together, and one that writes what the other has written last waits for it. It does so as well where it
// only seems to: writing one number after the other, a core fetches those that would follow. So the halves of V and D lie apart.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/bias_sums.h"
#include "device/cpu/conv2d_winograd_impl.h"

// How the 16 matrices lie: elements from one to the next, and so many more from the eighth to the ninth.
typedef struct numbers {
    int64_t position, apart;
} numbers;

typedef struct weights_kernel {
    ls_kernel base;
    const ls_tile_ops *tiles;
    const ls_winograd_loops *loops;
    ls_winograd_grid grid;  // of X and DY
    ls_bias_sums bias;
    int has_bias, threads;
    int64_t once;        // patches that are transformed at a time
    numbers v, d;        // transformed patches of X and DY
    int64_t m_position;  // elements from one of the 16 matrices of sums to the next
    int64_t d_at, m_at;  // bytes of the scratch, which begins with V
} weights_kernel;

enum {
    AT_ONCE = LS_TILE_DEPTH,   // patches that a thread transforms: as deep as a tile
    BLOCKS = 4,                // of 16 channels of X that it does so with
    TOGETHER_BYTES = 4 << 20,  // of transformed numbers, where there are several threads
    HALF = LS_WINOGRAD / 2,
    PAD = 4,  // matrices of D that halves lie apart
};

static int64_t number_at(const numbers *n, int64_t p) { return p * n->position + (p < HALF ? 0 : n->apart); }

static ls_winograd_rows rows_of(int halves, int64_t half) {
    return halves == 1 ? LS_WINOGRAD_ALL : half == 0 ? LS_WINOGRAD_UPPER : LS_WINOGRAD_LOWER;
}

// The 16 pixels of a patch are 4 of its own and 12 of others.
static void prefetch(const ls_winograd_patch *p, int64_t block) {
    static const int own[] = {5, 6, 9, 10};
    for (int i = 0; i < 4; i++) __builtin_prefetch(p->pixel[own[i]] + block * p->block[own[i]]);
}

// 16 channels of AT_ONCE patches: (16, channels, patches).
static void turn_block(const weights_kernel *k, const ls_winograd_patch patches[AT_ONCE], int64_t count,
                       ls_winograd_rows rows, int64_t block, ls_bf16 *v) {
    ls_bf16 straight[LS_WINOGRAD][AT_ONCE][LS_TILE];
    const ls_bf16 *row[AT_ONCE];
    int more = (block + 1) * LS_TILE < k->grid.from.channels;
    if (count < AT_ONCE) memset(straight, 0, sizeof straight);
    for (int64_t r = 0; r < count; r++) {
        if (more) prefetch(&patches[r], block + 1);
        k->loops->patch(&patches[r], rows, block, 1, straight[0][r], AT_ONCE * LS_TILE);
    }
    for (int i = rows == LS_WINOGRAD_LOWER ? HALF : 0; i < (rows == LS_WINOGRAD_UPPER ? HALF : LS_WINOGRAD); i++) {
        for (int r = 0; r < AT_ONCE; r++) row[r] = straight[i][r];
        ls__tile_transpose(v + number_at(&k->v, i) + block * LS_TILE * k->once, k->once, row, 1);
    }
}

// Blocks from `block` on of patches [first, first + AT_ONCE) of X. Beyond the last patch there are zeros.
static void turn_patches(const weights_kernel *k, const ls_bf16 *x, int64_t first, ls_winograd_rows rows, int64_t block,
                         ls_bf16 *v) {
    ls_winograd_patch patches[AT_ONCE];
    int64_t left = ls__winograd_patches(&k->grid) - first, count = left < 0 ? 0 : left < AT_ONCE ? left : AT_ONCE;
    int64_t blocks = k->grid.from.channels / LS_TILE, end = block + BLOCKS < blocks ? block + BLOCKS : blocks;
    for (int64_t r = 0; r < count; r++) ls__winograd_find_patch(&k->grid, x, first + r, &patches[r]);
    for (; block < end; block++) turn_block(k, patches, count, rows, block, v);
}

// All filters of AT_ONCE patches of DY, in pairs: tiles (16, columns) that lie d_column from each other.
static void pair_gradients(const weights_kernel *k, const ls_bf16 *dy, int64_t first, ls_winograd_rows rows,
                           ls_bf16 *d) {
    int64_t all = ls__winograd_patches(&k->grid), column = k->once / AT_ONCE * LS_TILE_SIZE;
    if (rows == LS_WINOGRAD_LOWER) d += k->d.apart;
    for (int64_t r = 0; r < AT_ONCE; r += 2) {
        ls_winograd_place places[2];
        for (int i = 0; i < 2; i++)
            places[i] = first + r + i < all ? ls__winograd_find_place(&k->grid, first + r + i)
                                            : (ls_winograd_place){{-1, -1, -1, -1}, 0};
        k->loops->gradients(dy, places, rows, k->grid.to.channels / LS_TILE, d + r * LS_TILE, column, k->d.position);
    }
}

// Transforms patches [first, first + once).
static void transform(const weights_kernel *k, const ls_bf16 *x, const ls_bf16 *dy, int64_t first, ls_bf16 *v,
                      ls_bf16 *d) {
    int64_t groups = k->once / AT_ONCE, parts = groups * ((k->grid.from.channels / LS_TILE + BLOCKS - 1) / BLOCKS);
    int halves = k->threads > 1 ? 2 : 1;
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < halves * parts; i++) {
        int64_t part = i % parts, group = part % groups * AT_ONCE;
        turn_patches(k, x, first + group, rows_of(halves, i / parts), part / groups * BLOCKS, v + group);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < halves * groups; i++) {
        int64_t group = i % groups;
        pair_gradients(k, dy, first + group * AT_ONCE, rows_of(halves, i / groups), d + group * LS_TILE_SIZE);
    }
}

// Adds the products of `count` patches to M: (16, channels, filters).
static void multiply(const weights_kernel *k, const ls_bf16 *v, const ls_bf16 *d, int64_t count, int add, float *m) {
    int64_t blocks = k->grid.from.channels / LS_WINOGRAD_BLOCK, filters = k->grid.to.channels;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < LS_WINOGRAD * blocks; i++) {
        int64_t p = i / blocks, channel = i % blocks * LS_WINOGRAD_BLOCK;
        ls_tile_block b = {.a = v + number_at(&k->v, p) + channel * k->once,
                           .a_row = k->once,
                           .a_step = LS_TILE_DEPTH,
                           .b_column = k->once / AT_ONCE * LS_TILE_SIZE,
                           .c_row = filters,
                           .groups = 1,
                           .depth = (count + AT_ONCE - 1) / AT_ONCE,
                           .rows = 2,
                           .columns = 2,
                           .add = add};
        for (int64_t f = 0; f < filters; f += LS_WINOGRAD_BLOCK) {
            b.b = d + number_at(&k->d, p) + f / LS_TILE * b.b_column;
            b.c = m + p * k->m_position + channel * filters + f;
            k->tiles->multiply(&b);
        }
    }
}

static void run_team(const weights_kernel *k, const ls_bf16 *x, const ls_bf16 *dy, char *scratch, float *dw) {
    ls_bf16 *v = (ls_bf16 *)(void *)scratch, *d = (ls_bf16 *)(void *)(scratch + k->d_at);
    float *m = (float *)(void *)(scratch + k->m_at);
    int64_t channels = k->grid.from.channels, filters = k->grid.to.channels, all = ls__winograd_patches(&k->grid);
    ls_tile_state before;
    k->tiles->begin(&before);
    for (int64_t first = 0; first < all; first += k->once) {
        transform(k, x, dy, first, v, d);
        multiply(k, v, d, all - first < k->once ? all - first : k->once, first > 0, m);
    }
    k->tiles->end(&before);
#pragma omp for schedule(static)
    for (int64_t c = 0; c < channels; c++)
        k->loops->weights(m + c * filters, k->m_position, filters, dw + c * filters, channels * filters);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    (void)queue;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const weights_kernel *k = (const weights_kernel *)kernel;
    char *scratch = args[LS_ARG_SCRATCH];
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    run_team(k, args[LS_ARG_X], args[LS_ARG_DY], scratch, args[LS_ARG_DW]);
    if (k->has_bias) ls__bias_sums_run(&k->bias, args[LS_ARG_DY], args[LS_ARG_DW + 1], scratch);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static ls_status settle(ls_cpu *cpu, const ls_kernel_spec *spec, weights_kernel *k) {
    const ls_layout **l = k->base.layout;
    ls_status (*plain)(ls_device *, ls_shape, ls_dtype, int, const ls_layout **) = cpu->base.ops->layout_plain;
    LS_TRY(ls__winograd_settle(cpu, spec, &k->base, &k->grid));
    LS_TRY(plain(&cpu->base, spec->w[0].shape, LS_DTYPE_F32, 1, &l[LS_ARG_DW]));
    if (k->has_bias) LS_TRY(plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &l[LS_ARG_DW + 1]));
    return LS_OK;
}

static void plan(ls_cpu *cpu, const ls_kernel_spec *spec, weights_kernel *k) {
    int64_t channels = k->grid.from.channels, filters = k->grid.to.channels;
    int64_t block = k->grid.to.pixel;  // DY's channels that lie together
    // Few patches stay near; but threads meet twice each time. Sums go on from what M holds, so it does not show.
    k->once = channels * filters > 128 * 128 ? 128 : 256;
    if (k->threads > 1) k->once = TOGETHER_BYTES / (LS_WINOGRAD * 2 * (channels + filters)) / AT_ONCE * AT_ONCE;
    if (k->once < AT_ONCE) k->once = AT_ONCE;
    k->v.position = channels * k->once + LS_WINOGRAD_APART;
    k->d.position = filters * k->once + LS_WINOGRAD_APART;
    k->m_position = channels * filters + LS_WINOGRAD_APART;
    int64_t v = LS_WINOGRAD * k->v.position, d = LS_WINOGRAD * k->d.position, pad = 0;
    k->d_at = v * 2;
    if (k->threads > 1) {  // half of V, half of D, a pad; the same again
        pad = PAD * k->d.position;
        k->d_at = v / 2 * 2;
        k->v.apart = d / 2 + pad;
        k->d.apart = v / 2 + pad;
    }
    k->m_at = ls_round_up((v + d + 2 * pad) * 2, LS_ALIGN);
    k->base.scratch_bytes = k->m_at + ls_round_up(LS_WINOGRAD * k->m_position * (int64_t)sizeof(float), LS_ALIGN);
    k->base.tiles = LS_WINOGRAD * channels / LS_WINOGRAD_BLOCK;
    if (!k->has_bias) return;
    k->bias = ls__bias_sums(cpu, spec->y[0].shape, LS_DTYPE_BF16, block);
    if (ls__bias_sums_bytes(&k->bias) > k->base.scratch_bytes) k->base.scratch_bytes = ls__bias_sums_bytes(&k->bias);
}

ls_status ls__winograd_weights_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                      ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    weights_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "winograd:avx512_bf16";
    k->tiles = tiles;
    k->loops = ls__winograd_fastest();
    k->has_bias = spec->w_count > 1;
    k->threads = cpu->base.options.threads;
    ls_status status = settle(cpu, spec, k);
    if (status != LS_OK || !ls__cpu_agrees(spec, &k->base)) {
        destroy(&k->base);
        return status;
    }
    plan(cpu, spec, k);
    *out = &k->base;
    return LS_OK;
}
