// Convolutions as products of matrices in tiles (tiles.h), all passes, for BF16 images whose channels lie innermost.
//
//     forward            Y[p]  = sum over (c, tap) of X[p at tap][c] * W[tap][c]      p: pixels of all images of the micro-batch
//     backward data      DX[p] = sum over (f, tap) of DY[p at tap][f] * W[tap][f]
//     backward weights   DW[tap][c] = sum over p of X[p at tap][c] * DY[p]
//
// The first two are one loop (conv2d_tiles_rows.c). What a row of the result reads is found in one of four ways, by a rule of the
// shapes: where it lies, for 1x1 convolutions; in a frame, the image with its border of zeros, from which each tap reads at a distance of
// its own; gathered into a panel, a row for each pixel; or so, with a row for each sample of one pixel, leaving out taps outside the
// image. The third (conv2d_tiles_weights.c) transposes X. Sums run over groups of 32 channels, and in those over taps, or over pixels:
// how results are cut into blocks and dealt to threads does not show.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "device/cpu/conv2d_tiles_impl.h"

// --- which pixel is where --------------------------------------------------------------------------------------------

// The pixel of the input that output pixel `at` reads at a tap, or, reversed, the pixel of the output that input pixel `at` was read for.
static int32_t coordinate(int64_t at, int tap, const ls_conv2d_attrs *a, int axis, int reversed, int64_t size) {
    int64_t moved = (int64_t)tap * a->dilation[axis] - a->pad[axis];
    int64_t found = reversed ? at - moved : at * a->strides[axis] + moved;
    if (reversed) {
        if (found % a->strides[axis] != 0) return -1;
        found /= a->strides[axis];
    }
    return found >= 0 && found < size ? (int32_t)found : -1;
}

static ls_status map_axis(int64_t size, int taps, const ls_conv2d_attrs *a, int axis, int reversed, int64_t from_size,
                          int32_t **out) {
    LS_TRY(ls_calloc(size * taps, sizeof **out, out));
    for (int64_t i = 0; i < size; i++)
        for (int t = 0; t < taps; t++) (*out)[i * taps + t] = coordinate(i, t, a, axis, reversed, from_size);
    return LS_OK;
}

// Neighbours read neighbours where there are no strides.
static ls_status find_frame(const ls_conv2d_attrs *a, int reversed, ls_pixel_map *m) {
    int64_t reach[2] = {(m->taps_y - 1) * (int64_t)a->dilation[0], (m->taps_x - 1) * (int64_t)a->dilation[1]};
    if (a->strides[0] != 1 || a->strides[1] != 1 || ls__taps(m) == 1) return LS_OK;
    if ((m->height + reach[0]) * (m->width + reach[1]) > INT32_MAX) return LS_OK;
    m->framed = 1;
    m->frame_height = m->height + reach[0];
    m->frame_width = m->width + reach[1];
    m->top = reversed ? reach[0] - a->pad[0] : a->pad[0];
    m->left = reversed ? reach[1] - a->pad[1] : a->pad[1];
    LS_TRY(ls_calloc(ls__taps(m), sizeof *m->tap_pixels, &m->tap_pixels));
    for (int t = 0; t < ls__taps(m); t++) {
        int64_t y = t / m->taps_x * (int64_t)a->dilation[0], x = t % m->taps_x * (int64_t)a->dilation[1];
        if (reversed) y = reach[0] - y, x = reach[1] - x;
        m->tap_pixels[t] = (int32_t)(y * m->frame_width + x);
    }
    return LS_OK;
}

static ls_status map_create(const ls_kernel_spec *spec, ls_pixel_map *m) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int reversed = spec->pass == LS_PASS_BACKWARD_DATA;
    const int64_t *to = reversed ? spec->x[0].shape.dim : spec->y[0].shape.dim;
    const int64_t *from = reversed ? spec->y[0].shape.dim : spec->x[0].shape.dim;
    *m = (ls_pixel_map){.samples = to[0],
                        .height = to[1],
                        .width = to[2],
                        .from_height = from[1],
                        .from_width = from[2],
                        .channels = from[3],
                        .step = from[3],
                        .block = LS_TILE,
                        .taps_y = a->kernel[0],
                        .taps_x = a->kernel[1]};
    m->identity = a->kernel[0] == 1 && a->kernel[1] == 1 && a->strides[0] == 1 && a->strides[1] == 1 &&
                  a->pad[0] == 0 && a->pad[1] == 0 && a->pad[2] == 0 && a->pad[3] == 0;
    LS_TRY(map_axis(m->height, m->taps_y, a, 0, reversed, m->from_height, &m->y));
    LS_TRY(map_axis(m->width, m->taps_x, a, 1, reversed, m->from_width, &m->x));
    return find_frame(a, reversed, m);
}

// --- kernels ---------------------------------------------------------------------------------------------------------

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    (void)queue;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const ls_tiles_kernel *k = (const ls_tiles_kernel *)kernel;
    char *scratch = args[LS_ARG_SCRATCH];
    if (k->pass == LS_PASS_BACKWARD_WEIGHTS) {
        ls__tiles_weights_run(k, args[LS_ARG_X], args[LS_ARG_DY], scratch, args[LS_ARG_DW],
                              k->absorbs.bias ? args[LS_ARG_DW + 1] : NULL);
        return LS_OK;
    }
    ls_conv2d_ending e = ls__conv2d_ending(&k->absorbs, args);
    int data = k->pass == LS_PASS_BACKWARD_DATA;
    ls__tiles_rows_run(k, args[data ? LS_ARG_DY : LS_ARG_X], args[LS_ARG_W], scratch, &e);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    ls_tiles_kernel *k = (ls_tiles_kernel *)kernel;
    free(k->map.y);
    free(k->map.x);
    free(k->map.tap_pixels);
    free(k->tap_tiles);
    free(k);
}

int ls__cpu_conv2d_fits_tiles(const ls_kernel_spec *spec) {
    if (spec->op != LS_OP_CONV2D) return 0;
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_dtype y = data || weights ? spec->y[0].gradient : LS_DTYPE_BF16;
    return a->groups == 1 && (int64_t)a->kernel[0] * a->kernel[1] <= LS_TILES_TAPS &&
           spec->x[0].shape.dim[3] % LS_TILE == 0 && a->filters % LS_TILE == 0 &&
           (data || spec->x[0].dtype == LS_DTYPE_BF16) && spec->w[0].dtype == LS_DTYPE_BF16 && y == LS_DTYPE_BF16;
}

// How images of a weight gradient lie: as is settled, in blocks of 16 channels or with channels innermost.
static ls_status settle_images(ls_cpu *cpu, ls_shape shape, const ls_layout *given, const ls_layout **out,
                               int64_t *step, int64_t *block) {
    const ls_layout *blocked;
    LS_TRY(ls__cpu_layout_tag(cpu, shape, LS_DTYPE_BF16, 0, dnnl_nChw16c, &blocked));
    if (given != blocked) return LS_OK;
    *out = blocked;
    *step = LS_TILE;
    *block = shape.dim[1] * shape.dim[2] * LS_TILE;
    return LS_OK;
}

// The layout an argument has: images and results plain, W in tiles.
static ls_status settle(ls_cpu *cpu, const ls_kernel_spec *spec, ls_tiles_kernel *k) {
    const ls_layout **l = k->base.layout;
    ls_shape x = spec->x[0].shape, y = spec->y[0].shape;
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_status (*plain)(ls_device *, ls_shape, ls_dtype, int, const ls_layout **) = cpu->base.ops->layout_plain;
    LS_TRY(plain(&cpu->base, x, spec->x[0].dtype, 0, &l[data ? LS_ARG_DX : LS_ARG_X]));
    LS_TRY(plain(&cpu->base, y, data || weights ? spec->y[0].gradient : spec->y[0].dtype, 0,
                 &l[data || weights ? LS_ARG_DY : LS_ARG_Y]));
    if (k->absorbs.residual) l[LS_ARG_RESIDUAL] = l[LS_ARG_Y];
    if (k->absorbs.mask) l[LS_ARG_X] = l[LS_ARG_DX];
    k->dy_step = k->columns;
    k->dy_block = LS_TILE;
    if (weights && k->tiles->blocks) {
        LS_TRY(settle_images(cpu, x, spec->layout[LS_ARG_X], &l[LS_ARG_X], &k->map.step, &k->map.block));
        LS_TRY(settle_images(cpu, y, spec->layout[LS_ARG_DY], &l[LS_ARG_DY], &k->dy_step, &k->dy_block));
    }
    if (weights)
        LS_TRY(plain(&cpu->base, spec->w[0].shape, LS_DTYPE_F32, 1, &l[LS_ARG_DW]));
    else
        LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_BF16, 1, data ? dnnl_OIhw16o16i2o : dnnl_OIhw16i16o2i,
                                  &l[LS_ARG_W]));
    if (k->absorbs.bias)
        LS_TRY(plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &l[(weights ? LS_ARG_DW : LS_ARG_W) + 1]));
    return LS_OK;
}

ls_status ls__cpu_conv2d_tiles_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                      ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_tiles_kernel *k;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = tiles->name;
    k->tiles = tiles;
    k->pass = spec->pass;
    k->absorbs = ls__conv2d_absorbs(spec);
    k->columns = k->absorbs.columns;
    k->threads = cpu->base.options.threads;
    ls_status status = map_create(spec, &k->map);
    if (status == LS_OK) status = settle(cpu, spec, k);
    if (status == LS_OK && !weights) status = ls__tiles_rows_plan(k);
    if (status == LS_OK && weights) ls__tiles_weights_plan(k);
    if (status != LS_OK || !ls__cpu_agrees(spec, &k->base)) {
        destroy(&k->base);
        return status;
    }
    k->thread_bytes = ls_round_up(k->thread_bytes, LS_ALIGN);
    k->shared_bytes = ls_round_up(k->shared_bytes, LS_ALIGN);
    k->base.scratch_bytes = k->shared_bytes + k->threads * k->thread_bytes;
    *out = &k->base;
    return LS_OK;
}
