// Values one behind the other along an axis: rows are copied whole, in the layout that the first input comes in where all have it.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"

typedef struct concat_kernel {
    ls_kernel base;
    int count, backward, threads;
    int64_t rows;                  // what lies outside of the axis
    int64_t bytes[LS_MAX_INPUTS];  // of an input's part of a row
    int64_t row_bytes;
} concat_kernel;

static void run_rows(const concat_kernel *k, void *const args[LS_ARG_COUNT], int64_t from, int64_t to) {
    char *y = args[k->backward ? LS_ARG_DY : LS_ARG_Y];
    int64_t at = 0;
    for (int i = 0; i < k->count; at += k->bytes[i++]) {
        char *x = args[(k->backward ? LS_ARG_DX : LS_ARG_X) + i];
        for (int64_t r = from; r < to && x; r++) {
            char *whole = y + r * k->row_bytes + at, *part = x + r * k->bytes[i];
            memcpy(k->backward ? part : whole, k->backward ? whole : part, (size_t)k->bytes[i]);
        }
    }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const concat_kernel *k = (const concat_kernel *)kernel;
    if (k->threads <= 1) {
        run_rows(k, args, 0, k->rows);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->threads; t++)
        run_rows(k, args, k->rows * t / k->threads, k->rows * (t + 1) / k->threads);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// The dimensions in the order in which they lie in memory, outermost first: with blocks of channels (N, C / block, H, W, block).
static void dims_in_memory(ls_shape s, int block, int axis, ls_shape *out, int *at) {
    *out = s;
    *at = axis;
    if (block <= 1) return;
    *out = LS_SHAPE(s.dim[0], (s.dim[3] + block - 1) / block, s.dim[1], s.dim[2], block);
    *at = axis == 3 ? 1 : axis + 1;
}

static int64_t product(ls_shape s, int from, int to) {
    int64_t count = 1;
    for (int d = from; d < to; d++) count *= s.dim[d];
    return count;
}

// Blocks of channels that the first input comes in, if all inputs can lie so; 1: plain.
static ls_status common_block(ls_cpu *cpu, const ls_kernel_spec *spec, int axis, dnnl_format_tag_t *tag, int *block) {
    const ls_layout *x, *y;
    *block = 1;
    if (spec->x[0].shape.ndim != 4) return LS_OK;
    const ls_layout *given = spec->layout[spec->pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X];
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, block));
    int blocked = given == x && !x->plain;
    for (int k = 0; k < spec->x_count && axis == 3; k++) blocked = blocked && spec->x[k].shape.dim[3] % *block == 0;
    *tag = *block == 16 ? dnnl_nChw16c : dnnl_nChw8c;
    if (!blocked) *block = 1;
    return LS_OK;
}

static ls_status layout_of(ls_cpu *cpu, const ls_tensor_type *t, int block, dnnl_format_tag_t tag,
                           const ls_layout **out) {
    if (block > 1) return ls__cpu_layout_tag(cpu, t->shape, t->dtype, 0, tag, out);
    return cpu->base.ops->layout_plain(&cpu->base, t->shape, t->dtype, 0, out);
}

static ls_status choose_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, concat_kernel *k) {
    int axis = LS_ATTRS(ls_concat_attrs, &spec->attrs)->axis, block, at = axis;
    int whole = spec->x[0].dtype == LS_DTYPE_I32;  // which have no gradient
    dnnl_format_tag_t tag = dnnl_format_tag_undef;
    ls_shape dims;
    LS_TRY(common_block(cpu, spec, axis, &tag, &block));
    for (int i = 0; i < spec->x_count; i++) {
        const ls_layout *layout;
        LS_TRY(layout_of(cpu, &spec->x[i], block, tag, &layout));
        if (!(k->backward && whole)) k->base.layout[(k->backward ? LS_ARG_DX : LS_ARG_X) + i] = layout;
        dims_in_memory(spec->x[i].shape, block, axis, &dims, &at);
        k->bytes[i] = product(dims, at, dims.ndim) * (int64_t)ls_dtype_size(spec->x[i].dtype);
        k->row_bytes += k->bytes[i];
    }
    k->rows = product(dims, 0, at);
    return layout_of(cpu, &spec->y[0], block, tag, &k->base.layout[k->backward ? LS_ARG_DY : LS_ARG_Y]);
}

ls_status ls__cpu_concat_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    concat_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->backward = spec->pass == LS_PASS_BACKWARD_DATA;
    ls_status status = choose_layouts(cpu, spec, k);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = &ops;
    k->base.name = "loop:concat";
    k->base.tiles = k->rows;
    k->base.holds_pieces = k->rows;
    k->count = spec->x_count;
    k->threads = cpu->base.options.threads;
    *out = &k->base;
    return LS_OK;
}
