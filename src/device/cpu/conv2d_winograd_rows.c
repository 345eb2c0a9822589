// Forward and data gradients: a patch of 4 x 4 pixels of the image, two from the next one, becomes 2 x 2 pixels of the result. Of a piece of the work, some dozens of patches
// of neighbouring images, numbers p of the transformed patches are a matrix (patches, channels), those of the filters one of (channels,
// filters), and their product has numbers p of the sums, for each of the 16 p. Sums run over channels from the first to the last, whoever
// computes them: neither pieces nor threads show in the bits.
#include "device/cpu/conv2d_winograd_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_ending.h"
#include "device/cpu/team.h"

enum {
    PIECE_BYTES = 512 << 10,                // of transformed patches, which stay in the second-level cache
    PIECE_PATCHES = 4 * LS_WINOGRAD_BLOCK,  // at most
};

typedef struct rows_kernel {
    ls_kernel base;
    const ls_tile_ops *tiles;
    const ls_winograd_loops *loops;
    ls_winograd_grid grid;
    ls_conv2d_absorbs absorbs;
    int threads;
    int64_t piece;                                                   // patches
    int64_t u_bytes, v_position, m_position, v_bytes, thread_bytes;  // scratch
} rows_kernel;

static int64_t groups_of(const rows_kernel *k) { return k->grid.from.channels / LS_TILE_DEPTH; }
static int64_t u_column(const rows_kernel *k) { return groups_of(k) * LS_TILE_SIZE; }
static int64_t u_position(const rows_kernel *k) { return k->grid.to.channels / LS_TILE * u_column(k); }

// --- the work --------------------------------------------------------------------------------------------------------

// Tiles of W, forward (columns, groups, taps), backward data (groups, columns, taps), become tiles of U: (16, columns, groups).
static void transform_filters(const rows_kernel *k, const ls_bf16 *w, ls_bf16 *u) {
    int data = k->absorbs.pass == LS_PASS_BACKWARD_DATA;
    int64_t groups = groups_of(k), columns = k->grid.to.channels / LS_TILE;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < columns * groups; i++) {
        int64_t column = i / groups, group = i % groups, tile = data ? group * columns + column : i;
        k->loops->filters(w + tile * 9 * LS_TILE_SIZE, LS_TILE_SIZE, data, u + i * LS_TILE_SIZE, u_position(k));
    }
}

// Patches [first, first + count) of X or DY, transformed: (16, patches, channels). What is there beyond them, up to whole tiles, is zero.
static void transform_patches(const rows_kernel *k, const ls_bf16 *from, int64_t first, int64_t count, ls_bf16 *v) {
    int64_t channels = k->grid.from.channels;
    for (int64_t r = 0; r < count; r++) {
        ls_winograd_patch patch;
        ls__winograd_find_patch(&k->grid, from, first + r, &patch);
        k->loops->patch(&patch, LS_WINOGRAD_ALL, 0, channels / LS_TILE, v + r * channels, k->v_position);
    }
    int64_t beyond = ls_round_up(count, LS_TILE) - count;
    for (int i = 0; i < LS_WINOGRAD; i++)
        memset(v + i * k->v_position + count * channels, 0, (size_t)(beyond * channels) * sizeof *v);
}

// Columns [column, column + 32) of the sums of `count` patches: (16, patches, 32).
static void multiply(const rows_kernel *k, const ls_bf16 *v, const ls_bf16 *u, int64_t count, int64_t column,
                     float *m) {
    ls_tile_block b = {.a_row = k->grid.from.channels,
                       .a_step = LS_TILE_DEPTH,
                       .b_column = u_column(k),
                       .c_row = LS_WINOGRAD_BLOCK,
                       .groups = 1,
                       .depth = groups_of(k),
                       .columns = 2};
    for (int i = 0; i < LS_WINOGRAD; i++) {
        b.b = u + i * u_position(k) + column / LS_TILE * b.b_column;
        for (int64_t r = 0; r < count; r += LS_WINOGRAD_BLOCK) {
            b.rows = count - r > LS_TILE ? 2 : 1;
            b.a = v + i * k->v_position + r * b.a_row;
            b.c = m + i * k->m_position + r * LS_WINOGRAD_BLOCK;
            k->tiles->multiply(&b);
        }
    }
}

static void run_piece(const rows_kernel *k, int64_t first, const ls_bf16 *from, const ls_bf16 *u, char *scratch,
                      const ls_conv2d_ending *e) {
    ls_bf16 *v = (ls_bf16 *)(void *)scratch;
    float *m = (float *)(void *)(scratch + k->v_bytes);
    int64_t left = ls__winograd_patches(&k->grid) - first, count = left < k->piece ? left : k->piece;
    ls_winograd_place places[PIECE_PATCHES];
    for (int64_t r = 0; r < count; r++) places[r] = ls__winograd_find_place(&k->grid, first + r);
    transform_patches(k, from, first, count, v);
    for (int64_t column = 0; column < k->grid.to.channels; column += LS_WINOGRAD_BLOCK) {
        multiply(k, v, u, count, column, m);
        for (int64_t r = 0; r < count; r++)
            k->loops->result(m + r * LS_WINOGRAD_BLOCK, k->m_position, &places[r], column, LS_WINOGRAD_BLOCK / LS_TILE,
                             e);
    }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    (void)queue;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const rows_kernel *k = (const rows_kernel *)kernel;
    int data = k->absorbs.pass == LS_PASS_BACKWARD_DATA;
    char *scratch = args[LS_ARG_SCRATCH];
    ls_bf16 *u = (ls_bf16 *)(void *)scratch;
    const ls_bf16 *from = args[data ? LS_ARG_DY : LS_ARG_X], *w = args[LS_ARG_W];
    const ls_conv2d_ending e = ls__conv2d_ending(&k->absorbs, args);
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
        ls_tile_state before;
        char *mine = scratch + k->u_bytes + ls__team_index() * k->thread_bytes;
        transform_filters(k, w, u);
        k->tiles->begin(&before);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < k->base.tiles; i++) run_piece(k, i * k->piece, from, u, mine, &e);
        k->tiles->end(&before);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// --- making one ------------------------------------------------------------------------------------------------------

static ls_status settle(ls_cpu *cpu, const ls_kernel_spec *spec, rows_kernel *k) {
    const ls_layout **l = k->base.layout;
    int data = spec->pass == LS_PASS_BACKWARD_DATA;
    LS_TRY(ls__winograd_settle(cpu, spec, &k->base, &k->grid));
    if (k->absorbs.residual) l[LS_ARG_RESIDUAL] = l[LS_ARG_Y];
    if (k->absorbs.mask) l[LS_ARG_X] = l[LS_ARG_DX];
    LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_BF16, 1, data ? dnnl_OIhw16o16i2o : dnnl_OIhw16i16o2i,
                              &l[LS_ARG_W]));
    if (k->absorbs.bias)
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &l[LS_ARG_W + 1]));
    return LS_OK;
}

static void plan(rows_kernel *k) {
    int64_t channels = k->grid.from.channels,
            fit = PIECE_BYTES / (LS_WINOGRAD * channels * 2) / LS_WINOGRAD_BLOCK * LS_WINOGRAD_BLOCK;
    k->piece = fit < LS_WINOGRAD_BLOCK ? LS_WINOGRAD_BLOCK : fit < PIECE_PATCHES ? fit : PIECE_PATCHES;
    k->v_position = k->piece * channels + LS_WINOGRAD_APART;
    k->m_position = k->piece * LS_WINOGRAD_BLOCK + LS_WINOGRAD_APART / 2;
    k->u_bytes = ls_round_up(LS_WINOGRAD * u_position(k) * 2, LS_ALIGN);
    k->v_bytes = ls_round_up(LS_WINOGRAD * k->v_position * 2, LS_ALIGN);
    k->thread_bytes = k->v_bytes + ls_round_up(LS_WINOGRAD * k->m_position * (int64_t)sizeof(float), LS_ALIGN);
    k->base.tiles = (ls__winograd_patches(&k->grid) + k->piece - 1) / k->piece;
    k->base.scratch_bytes = k->u_bytes + k->threads * k->thread_bytes;
}

ls_status ls__winograd_rows_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    rows_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "winograd:avx512_bf16";
    k->tiles = tiles;
    k->loops = ls__winograd_fastest();
    k->absorbs = ls__conv2d_absorbs(spec);
    k->threads = cpu->base.options.threads;
    ls_status status = settle(cpu, spec, k);
    if (status != LS_OK || !ls__cpu_agrees(spec, &k->base)) {
        destroy(&k->base);
        return status;
    }
    plan(k);
    *out = &k->base;
    return LS_OK;
}
