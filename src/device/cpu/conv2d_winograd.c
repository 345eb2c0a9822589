// What all passes share; conv2d_winograd_rows.c has forward and data gradients, conv2d_winograd_weights.c weight gradients.
#include "device/cpu/conv2d_winograd_impl.h"

#include "base/error.h"

int ls__cpu_conv2d_fits_winograd(const ls_kernel_spec *spec) {
    if (spec->op != LS_OP_CONV2D) return 0;
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    const ls_tensor_type *x = &spec->x[0], *y = &spec->y[0];
    for (int i = 0; i < 2; i++)
        if (a->kernel[i] != 3 || a->strides[i] != 1 || a->dilation[i] != 1 || a->pad[i] > 2) return 0;
    if (a->groups != 1 || x->shape.dim[3] % LS_WINOGRAD_BLOCK != 0 || a->filters % LS_WINOGRAD_BLOCK != 0) return 0;
    if (spec->w[0].dtype != LS_DTYPE_BF16) return 0;
    if (weights) return x->dtype == LS_DTYPE_BF16 && y->gradient == LS_DTYPE_BF16;
    ls_dtype from = data ? y->gradient : x->dtype, to = data ? x->dtype : y->dtype;
    return from == LS_DTYPE_BF16 && (to == LS_DTYPE_BF16 || to == LS_DTYPE_F32);
}

ls_status ls__cpu_conv2d_winograd_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                         ls_kernel **out) {
    int weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    *out = NULL;
    return (weights ? ls__winograd_weights_create : ls__winograd_rows_create)(cpu, spec, tiles, out);
}

const ls_winograd_loops *ls__winograd_fastest(void) {
    const ls_winograd_loops *loops = ls__winograd_loops_of_bf16();
    return loops ? loops : ls__winograd_loops();
}

// --- which pixels a patch has ----------------------------------------------------------------------------------------

// Which image a patch is of, and the first pixel of `to`.
typedef struct spot {
    int64_t n, y, x;
} spot;

static spot spot_of(const ls_winograd_grid *g, int64_t patch) {
    int64_t row = patch / g->across;
    return (spot){row / g->down, row % g->down * 2, patch % g->across * 2};
}

// Where pixel (y, x) of image n lies; -1: outside.
static int64_t pixel_at(const ls_winograd_image *i, int64_t n, int64_t y, int64_t x) {
    if (y < 0 || y >= i->height || x < 0 || x >= i->width) return -1;
    return n * i->height * i->width * i->channels + (y * i->width + x) * i->pixel;
}

void ls__winograd_find_patch(const ls_winograd_grid *g, const ls_bf16 *from, int64_t patch, ls_winograd_patch *out) {
    static const ls_bf16 zeros[LS_TILE];
    spot s = spot_of(g, patch);
    for (int i = 0; i < LS_WINOGRAD; i++) {
        int64_t at = pixel_at(&g->from, s.n, s.y + i / 4 - g->top, s.x + i % 4 - g->left);
        out->pixel[i] = at < 0 ? zeros : from + at;
        out->block[i] = at < 0 ? 0 : g->from.block;
    }
}

ls_winograd_place ls__winograd_find_place(const ls_winograd_grid *g, int64_t patch) {
    spot s = spot_of(g, patch);
    ls_winograd_place place = {.block = g->to.block};
    for (int i = 0; i < 4; i++) place.pixel[i] = pixel_at(&g->to, s.n, s.y + i / 2, s.x + i % 2);
    return place;
}

// --- layouts ---------------------------------------------------------------------------------------------------------

static ls_status settle_image(ls_cpu *cpu, const ls_kernel_spec *spec, ls_arg arg, const ls_tensor_type *type,
                              ls_dtype dtype, ls_kernel *kernel, ls_winograd_image *out) {
    const int64_t *dim = type->shape.dim;
    const ls_layout *plain;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, type->shape, dtype, 0, &plain));
    *out = (ls_winograd_image){dim[1], dim[2], dim[3], dim[3], LS_TILE};
    kernel->layout[arg] = plain;
    if (spec->layout[arg] == plain) return LS_OK;
    out->pixel = LS_TILE;
    out->block = dim[1] * dim[2] * LS_TILE;
    return ls__cpu_layout_tag(cpu, type->shape, dtype, 0, dnnl_nChw16c, &kernel->layout[arg]);
}

ls_status ls__winograd_settle(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, ls_winograd_grid *out) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    const ls_tensor_type *x = &spec->x[0], *y = &spec->y[0];
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_winograd_image images[2];
    LS_TRY(settle_image(cpu, spec, data ? LS_ARG_DX : LS_ARG_X, x, x->dtype, kernel, &images[0]));
    LS_TRY(settle_image(cpu, spec, data || weights ? LS_ARG_DY : LS_ARG_Y, y, data || weights ? y->gradient : y->dtype,
                        kernel, &images[1]));
    *out = (ls_winograd_grid){.samples = x->shape.dim[0],
                              .top = data ? 2 - a->pad[0] : a->pad[0],
                              .left = data ? 2 - a->pad[1] : a->pad[1],
                              .from = images[data],
                              .to = images[!data]};
    out->down = (out->to.height + 1) / 2;
    out->across = (out->to.width + 1) / 2;
    return LS_OK;
}
