// A patch of 4 x 4 pixels of the image, two from the next one, becomes 2 x 2 pixels of the result. Of a piece of the work, some dozens of patches
// of neighbouring images, numbers p of the transformed patches are a matrix (patches, channels), those of the filters one of (channels,
// filters), and their product has numbers p of the sums, for each of the 16 p. Sums run over channels from the first to the last, whoever
// computes them: neither pieces nor threads show in the bits.
#include "device/cpu/conv2d_winograd.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/team.h"
#include "device/cpu/winograd.h"

enum {
    BLOCK = 2 * LS_TILE,        // patches and columns that are multiplied at once
    PIECE_BYTES = 512 << 10,    // of transformed patches, which stay in the second-level cache
    PIECE_PATCHES = 4 * BLOCK,  // at most
    // Elements of BF16 between one matrix and the next, whose rows would fall into the same places of a cache.
    APART = LS_ALIGN / 2,
};

// How an image lies: plain, or in blocks of 16 channels.
typedef struct image {
    int64_t height, width, channels;
    int64_t pixel, block;  // elements from a pixel to the next, from 16 channels to the next 16
} image;

typedef struct winograd_kernel {
    ls_kernel base;
    const ls_tile_ops *tiles;
    const ls_winograd_loops *loops;
    int64_t samples, down, across;  // patches of an image: (down, across)
    int64_t top, left;              // pixels of the first patch above the image and beside it
    image from, to;
    ls_conv2d_absorbs absorbs;
    int threads;
    int64_t piece;                                                   // patches
    int64_t u_bytes, v_position, m_position, v_bytes, thread_bytes;  // scratch
} winograd_kernel;

static int64_t patches_of(const winograd_kernel *k) { return k->samples * k->down * k->across; }
static int64_t groups_of(const winograd_kernel *k) { return k->from.channels / LS_TILE_DEPTH; }
static int64_t u_column(const winograd_kernel *k) { return groups_of(k) * LS_TILE_SIZE; }
static int64_t u_position(const winograd_kernel *k) { return k->to.channels / LS_TILE * u_column(k); }

// --- the work --------------------------------------------------------------------------------------------------------

// Tiles of W, forward (columns, groups, taps), backward data (groups, columns, taps), become tiles of U: (16, columns, groups).
static void transform_filters(const winograd_kernel *k, const ls_bf16 *w, ls_bf16 *u) {
    int data = k->absorbs.pass == LS_PASS_BACKWARD_DATA;
    int64_t groups = groups_of(k), columns = k->to.channels / LS_TILE;
#pragma omp for schedule(static)
    for (int64_t i = 0; i < columns * groups; i++) {
        int64_t column = i / groups, group = i % groups, tile = data ? group * columns + column : i;
        k->loops->filters(w + tile * 9 * LS_TILE_SIZE, LS_TILE_SIZE, data, u + i * LS_TILE_SIZE, u_position(k));
    }
}

typedef struct patch_place {
    int64_t n, y, x;  // the image; the first pixel of the result
} patch_place;

static patch_place place_of(const winograd_kernel *k, int64_t patch) {
    int64_t row = patch / k->across;
    return (patch_place){row / k->down, row % k->down * 2, patch % k->across * 2};
}

// Where pixel (y, x) of image n lies; -1: outside.
static int64_t pixel_at(const image *i, int64_t n, int64_t y, int64_t x) {
    if (y < 0 || y >= i->height || x < 0 || x >= i->width) return -1;
    return n * i->height * i->width * i->channels + (y * i->width + x) * i->pixel;
}

// Patches [first, first + count) of X or DY, transformed: (16, patches, channels). What is there beyond them, up to whole tiles, is zero.
static void transform_patches(const winograd_kernel *k, const ls_bf16 *from, int64_t first, int64_t count, ls_bf16 *v) {
    static const ls_bf16 zeros[LS_TILE];
    int64_t channels = k->from.channels;
    for (int64_t r = 0; r < count; r++) {
        patch_place p = place_of(k, first + r);
        ls_winograd_patch patch;
        for (int i = 0; i < LS_WINOGRAD; i++) {
            int64_t at = pixel_at(&k->from, p.n, p.y + i / 4 - k->top, p.x + i % 4 - k->left);
            patch.pixel[i] = at < 0 ? zeros : from + at;
            patch.block[i] = at < 0 ? 0 : k->from.block;
        }
        k->loops->patch(&patch, channels / LS_TILE, v + r * channels, k->v_position);
    }
    int64_t beyond = ls_round_up(count, LS_TILE) - count;
    for (int i = 0; i < LS_WINOGRAD; i++)
        memset(v + i * k->v_position + count * channels, 0, (size_t)(beyond * channels) * sizeof *v);
}

// Columns [column, column + 32) of the sums of `count` patches: (16, patches, 32).
static void multiply(const winograd_kernel *k, const ls_bf16 *v, const ls_bf16 *u, int64_t count, int64_t column,
                     float *m) {
    ls_tile_block b = {.a_row = k->from.channels,
                       .a_step = LS_TILE_DEPTH,
                       .b_column = u_column(k),
                       .c_row = BLOCK,
                       .groups = 1,
                       .depth = groups_of(k),
                       .columns = 2};
    for (int i = 0; i < LS_WINOGRAD; i++) {
        b.b = u + i * u_position(k) + column / LS_TILE * b.b_column;
        for (int64_t r = 0; r < count; r += BLOCK) {
            b.rows = count - r > LS_TILE ? 2 : 1;
            b.a = v + i * k->v_position + r * b.a_row;
            b.c = m + i * k->m_position + r * BLOCK;
            k->tiles->multiply(&b);
        }
    }
}

// The pixels that come of patches [first, first + count).
static void find_places(const winograd_kernel *k, int64_t first, int64_t count, ls_winograd_place *places) {
    for (int64_t r = 0; r < count; r++) {
        patch_place p = place_of(k, first + r);
        places[r].block = k->to.block;
        for (int i = 0; i < 4; i++) places[r].pixel[i] = pixel_at(&k->to, p.n, p.y + i / 2, p.x + i % 2);
    }
}

static void run_piece(const winograd_kernel *k, int64_t first, const ls_bf16 *from, const ls_bf16 *u, char *scratch,
                      const ls_conv2d_ending *e) {
    ls_bf16 *v = (ls_bf16 *)(void *)scratch;
    float *m = (float *)(void *)(scratch + k->v_bytes);
    int64_t left = patches_of(k) - first, count = left < k->piece ? left : k->piece;
    ls_winograd_place places[PIECE_PATCHES];
    find_places(k, first, count, places);
    transform_patches(k, from, first, count, v);
    for (int64_t column = 0; column < k->to.channels; column += BLOCK) {
        multiply(k, v, u, count, column, m);
        for (int64_t r = 0; r < count; r++)
            k->loops->result(m + r * BLOCK, k->m_position, &places[r], column, BLOCK / LS_TILE, e);
    }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    (void)queue;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const winograd_kernel *k = (const winograd_kernel *)kernel;
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

int ls__cpu_conv2d_fits_winograd(const ls_kernel_spec *spec) {
    if (spec->op != LS_OP_CONV2D || spec->pass == LS_PASS_BACKWARD_WEIGHTS) return 0;
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int data = spec->pass == LS_PASS_BACKWARD_DATA;
    ls_dtype from = data ? spec->y[0].gradient : spec->x[0].dtype, to = data ? spec->x[0].dtype : spec->y[0].dtype;
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 3 || a->strides[i] != 1 || a->dilation[i] != 1 || a->pad[i] > 2) return 0;
    return a->groups == 1 && spec->x[0].shape.dim[3] % BLOCK == 0 && a->filters % BLOCK == 0 && from == LS_DTYPE_BF16 &&
           spec->w[0].dtype == LS_DTYPE_BF16 && (to == LS_DTYPE_BF16 || to == LS_DTYPE_F32);
}

// The layout of an image: plain where that is settled, else in blocks of 16 channels.
static ls_status settle_image(ls_cpu *cpu, const ls_kernel_spec *spec, ls_arg arg, const ls_tensor_type *type,
                              ls_dtype dtype, ls_kernel *kernel, image *out) {
    const int64_t *dim = type->shape.dim;
    const ls_layout *plain;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, type->shape, dtype, 0, &plain));
    *out = (image){dim[1], dim[2], dim[3], dim[3], LS_TILE};
    kernel->layout[arg] = plain;
    if (spec->layout[arg] == plain) return LS_OK;
    out->pixel = LS_TILE;
    out->block = dim[1] * dim[2] * LS_TILE;
    return ls__cpu_layout_tag(cpu, type->shape, dtype, 0, dnnl_nChw16c, &kernel->layout[arg]);
}

static ls_status settle(ls_cpu *cpu, const ls_kernel_spec *spec, winograd_kernel *k) {
    const ls_layout **l = k->base.layout;
    const ls_tensor_type *x = &spec->x[0], *y = &spec->y[0];
    int data = spec->pass == LS_PASS_BACKWARD_DATA;
    LS_TRY(settle_image(cpu, spec, data ? LS_ARG_DX : LS_ARG_X, x, x->dtype, &k->base, data ? &k->to : &k->from));
    LS_TRY(settle_image(cpu, spec, data ? LS_ARG_DY : LS_ARG_Y, y, data ? y->gradient : y->dtype, &k->base,
                        data ? &k->from : &k->to));
    if (k->absorbs.residual) l[LS_ARG_RESIDUAL] = l[LS_ARG_Y];
    if (k->absorbs.mask) l[LS_ARG_X] = l[LS_ARG_DX];
    LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_BF16, 1, data ? dnnl_OIhw16o16i2o : dnnl_OIhw16i16o2i,
                              &l[LS_ARG_W]));
    if (k->absorbs.bias)
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &l[LS_ARG_W + 1]));
    return LS_OK;
}

static void plan(winograd_kernel *k) {
    int64_t channels = k->from.channels, fit = PIECE_BYTES / (LS_WINOGRAD * channels * 2) / BLOCK * BLOCK;
    k->piece = fit < BLOCK ? BLOCK : fit < PIECE_PATCHES ? fit : PIECE_PATCHES;
    k->v_position = k->piece * channels + APART;
    k->m_position = k->piece * BLOCK + APART / 2;
    k->u_bytes = ls_round_up(LS_WINOGRAD * u_position(k) * 2, LS_ALIGN);
    k->v_bytes = ls_round_up(LS_WINOGRAD * k->v_position * 2, LS_ALIGN);
    k->thread_bytes = k->v_bytes + ls_round_up(LS_WINOGRAD * k->m_position * (int64_t)sizeof(float), LS_ALIGN);
    k->base.tiles = (patches_of(k) + k->piece - 1) / k->piece;
    k->base.scratch_bytes = k->u_bytes + k->threads * k->thread_bytes;
}

ls_status ls__cpu_conv2d_winograd_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                         ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    const ls_winograd_loops *fast = ls__winograd_loops_of_bf16();
    int data = spec->pass == LS_PASS_BACKWARD_DATA;
    winograd_kernel *k;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "winograd:avx512_bf16";
    k->tiles = tiles;
    k->loops = fast ? fast : ls__winograd_loops();
    k->absorbs = ls__conv2d_absorbs(spec);
    k->threads = cpu->base.options.threads;
    k->top = data ? 2 - a->pad[0] : a->pad[0];
    k->left = data ? 2 - a->pad[1] : a->pad[1];
    ls_status status = settle(cpu, spec, k);
    if (status != LS_OK || !ls__cpu_agrees(spec, &k->base)) {
        destroy(&k->base);
        return status;
    }
    k->samples = spec->x[0].shape.dim[0];
    k->down = (k->to.height + 1) / 2;
    k->across = (k->to.width + 1) / 2;
    plan(k);
    *out = &k->base;
    return LS_OK;
}
