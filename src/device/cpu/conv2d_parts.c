#include "device/cpu/conv2d_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/isa.h"
#include "device/cpu/loops.h"
#include "device/cpu/team.h"

enum {
    BLOCK = 16,          // of filters
    FIXED = 8,           // parts at most of a pass whose parts do not go by threads
    ROWS = 256,          // of a product of matrices in such a part, at least: it brings the weights into its own order
    FILTERS = 64,        // of such a part of a weight gradient: it brings X into its own order
    WINO_ROWS = 1024,    // pixels of a part by Winograd, which transforms the weights, and
    WINO_WEIGHTS = 32,   // one more for so many of them: those that leave the caches take longer
    WINO_FILTERS = 128,  // filters of a part by Winograd, which transforms X
};

// Where filters of dense layers lie outermost, in blocks of so many: the layouts of weight gradients that can be cut.
static const struct {
    dnnl_format_tag_t tag;
    int block;
} dense_layouts[] = {{dnnl_oi, 1}, {dnnl_OI16i16o, 16}, {dnnl_OI16i32o, 32}, {dnnl_OI16i64o, 64}};

// Where the filters of a part are in Y or DY.
typedef struct slice {
    int64_t rows, row_bytes;    // (rows, row_bytes), of which a part has
    int64_t first_byte, bytes;  // these of each row
} slice;

typedef struct part {
    ls_kernel *kernel;
    int64_t offset[LS_ARG_COUNT];  // bytes, from where the argument begins to where the part's does
    slice y;  // of Y or DY, which lies together where the scratch begins; bytes 0: it is not copied
} part;

typedef struct parts_kernel {
    ls_kernel base;
    int count, threads;
    int64_t thread_bytes;  // of a thread's scratch
    part *part;
} parts_kernel;

// --- running ---------------------------------------------------------------------------------------------------------

static int64_t y_bytes(const part *p) { return ls_round_up(p->y.rows * p->y.bytes, LS_ALIGN); }

static ls_status run_part(const parts_kernel *k, const part *p, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    ls_span mine[LS_ARG_COUNT], scratch = ls_span_at(spans[LS_ARG_SCRATCH], ls__team_index() * k->thread_bytes);
    const slice *s = &p->y;
    ls_arg y = k->base.layout[LS_ARG_Y] ? LS_ARG_Y : LS_ARG_DY;
    for (int i = 0; i < LS_ARG_COUNT; i++) mine[i] = ls_span_at(spans[i], p->offset[i]);
    mine[LS_ARG_SCRATCH] = ls_span_at(scratch, y_bytes(p));
    if (!s->bytes) return ls_kernel_run(p->kernel, queue, mine);
    char *restrict together = ls_span_host(scratch), *restrict all = (char *)ls_span_host(spans[y]) + s->first_byte;
    mine[y] = scratch;
    for (int64_t r = 0; r < s->rows && y == LS_ARG_DY; r++)
        memcpy(together + r * s->bytes, all + r * s->row_bytes, (size_t)s->bytes);
    LS_TRY(ls_kernel_run(p->kernel, queue, mine));
    for (int64_t r = 0; r < s->rows && y == LS_ARG_Y; r++)
        memcpy(all + r * s->row_bytes, together + r * s->bytes, (size_t)s->bytes);
    return LS_OK;
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const parts_kernel *k = (const parts_kernel *)kernel;
    char failure[512] = "";
    ls_status status = LS_OK;
#pragma omp parallel for num_threads(k->threads) schedule(static, 1) if (k->threads > 1)
    for (int i = 0; i < k->count; i++) {
        ls_status mine = run_part(k, &k->part[i], queue, spans);
        if (mine == LS_OK) continue;
#pragma omp critical
        {
            status = mine;
            snprintf(failure, sizeof failure, "%s", ls_error_message());
        }
    }
    if (status != LS_OK) ls__error_set(failure);
    return status;
}

static void destroy(ls_kernel *kernel) {
    parts_kernel *k = (parts_kernel *)kernel;
    for (int i = 0; k->part && i < k->count; i++) ls_kernel_destroy(&k->part[i].kernel);
    free(k->part);
    free(k);
}

// --- cutting by samples ----------------------------------------------------------------------------------------------

static int has_samples(int arg) {
    return arg == LS_ARG_X || arg == LS_ARG_Y || arg == LS_ARG_DX || arg == LS_ARG_DY || arg == LS_ARG_RESIDUAL;
}

// The layout of the first `count` along the outermost dimension; *out is NULL where what is there is not what comes first in memory.
static ls_status first_of(ls_cpu *cpu, const ls_layout *whole, int dimension, int64_t count, const ls_layout **out) {
    ls_shape shape = whole->shape;
    int64_t of = shape.dim[dimension];
    ls_md md;
    *out = NULL;
    shape.dim[dimension] = count;
    if (ls__md_first(whole->native, count, &md) != LS_OK) return LS_OK;
    ls_status status = LS_OK;
    if ((int64_t)dnnl_memory_desc_get_size(md) * of == whole->bytes * count)
        status = ls__cpu_layout(cpu, shape, md, out);
    ls__md_destroy(md);
    return status;
}

static ls_status cut_samples(ls_cpu *cpu, const ls_kernel *whole, int64_t first, int64_t count, int64_t of,
                             ls_kernel_spec *spec, part *p, int *can) {
    spec->x[0].shape.dim[0] = spec->y[0].shape.dim[0] = count;
    *can = 1;
    for (int i = 0; i < LS_ARG_COUNT && *can; i++) {
        spec->layout[i] = whole->layout[i];
        if (!has_samples(i) || !whole->layout[i]) continue;
        LS_TRY(first_of(cpu, whole->layout[i], 0, count, &spec->layout[i]));
        p->offset[i] = whole->layout[i]->bytes / of * first;
        *can = spec->layout[i] != NULL;
    }
    return LS_OK;
}

// --- cutting by filters ----------------------------------------------------------------------------------------------

// Y or DY of some filters in the kind of layout that all of it has; NULL where that is neither blocks of channels nor channels innermost.
static ls_status filters_layout(ls_cpu *cpu, const ls_layout *whole, int64_t filters, const ls_layout **out,
                                int *blocked) {
    ls_shape shape = whole->shape;
    const dnnl_format_tag_t tags[] = {shape.ndim == 5 ? dnnl_ndhwc : dnnl_nhwc, ls__cpu_blocked_tag(shape.ndim, 16)};
    shape.dim[shape.ndim - 1] = filters;
    for (*blocked = 0; *blocked < 2; ++*blocked) {
        LS_TRY(ls__cpu_layout_tag(cpu, whole->shape, whole->dtype, 0, tags[*blocked], out));
        if (*out == whole) return ls__cpu_layout_tag(cpu, shape, whole->dtype, 0, tags[*blocked], out);
    }
    *out = NULL;
    return LS_OK;
}

static slice slice_of(const ls_layout *whole, int blocked, int64_t first, int64_t filters) {
    int64_t size = (int64_t)ls_dtype_size(whole->dtype), samples = whole->shape.dim[0];
    int64_t all = whole->shape.dim[whole->shape.ndim - 1];  // filters
    int64_t pixels = ls_shape_count(whole->shape) / samples / all;
    slice s = {.rows = blocked ? samples : samples * pixels};
    int64_t each = blocked ? pixels * size : size;  // of a filter in a row
    s.row_bytes = all * each;
    s.first_byte = first * each;
    s.bytes = filters * each;
    return s;
}

static ls_status cut_filters(ls_cpu *cpu, const ls_kernel *whole, int64_t first, int64_t count, int64_t of,
                             ls_kernel_spec *spec, part *p, int *can) {
    int weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS, blocked, last = spec->y[0].shape.ndim - 1;
    ls_arg y = weights ? LS_ARG_DY : LS_ARG_Y, w = weights ? LS_ARG_DW : LS_ARG_W;
    *can = 0;
    if (spec->op == LS_OP_CONV3D)
        ((ls_conv3d_attrs *)(void *)spec->attrs.bytes)->filters = (int)count;
    else
        ((ls_conv2d_attrs *)(void *)spec->attrs.bytes)->filters = (int)count;
    spec->y[0].shape.dim[last] = count;
    spec->w[0].shape.dim[last] = count;
    if (spec->w_count > 1) spec->w[1].shape.dim[0] = count;
    spec->layout[LS_ARG_X] = whole->layout[LS_ARG_X];
    LS_TRY(filters_layout(cpu, whole->layout[y], count, &spec->layout[y], &blocked));
    LS_TRY(first_of(cpu, whole->layout[w], last, count, &spec->layout[w]));
    if (!spec->layout[y] || !spec->layout[w]) return LS_OK;
    if (whole->layout[w + 1]) LS_TRY(first_of(cpu, whole->layout[w + 1], 0, count, &spec->layout[w + 1]));
    p->y = slice_of(whole->layout[y], blocked, first, count);
    p->offset[w] = whole->layout[w]->bytes / of * first;
    p->offset[w + 1] = first * (int64_t)sizeof(float);
    *can = 1;
    return LS_OK;
}

// --- cutting by units ------------------------------------------------------------------------------------------------

static int is_dense(const ls_kernel_spec *spec) { return spec->op == LS_OP_DENSE; }

// Which of the layouts a weight gradient has; -1: none of them.
static ls_status dense_layout(ls_cpu *cpu, const ls_layout *dw, int *which) {
    const ls_layout *known;
    *which = -1;
    for (size_t i = 0; i < sizeof dense_layouts / sizeof dense_layouts[0] && *which < 0; i++) {
        LS_TRY(ls__cpu_layout_tag(cpu, dw->shape, dw->dtype, 1, dense_layouts[i].tag, &known));
        if (known == dw) *which = (int)i;
    }
    return LS_OK;
}

// The units of a dense layer, of which the last part may have fewer than it asks for.
static ls_status cut_units(ls_cpu *cpu, const ls_kernel *whole, int64_t first, int64_t count, int64_t of,
                           ls_kernel_spec *spec, part *p, int *can) {
    const ls_layout *dy = whole->layout[LS_ARG_DY], *dw = whole->layout[LS_ARG_DW], *rows;
    int64_t samples = dy->shape.dim[0], units = dy->shape.dim[1], size = (int64_t)ls_dtype_size(dy->dtype);
    int which;
    *can = 0;
    LS_TRY(dense_layout(cpu, dw, &which));
    LS_TRY(ls__cpu_layout_tag(cpu, dy->shape, dy->dtype, 0, dnnl_ab, &rows));
    if (which < 0 || dy != rows) return LS_OK;
    if (first + count > units) count = units - first;
    ((ls_dense_attrs *)(void *)spec->attrs.bytes)->units = (int)count;
    spec->y[0].shape.dim[1] = spec->w[0].shape.dim[1] = count;
    if (spec->w_count > 1) spec->w[1].shape.dim[0] = count;
    spec->layout[LS_ARG_X] = whole->layout[LS_ARG_X];
    LS_TRY(ls__cpu_layout_tag(cpu, spec->y[0].shape, dy->dtype, 0, dnnl_ab, &spec->layout[LS_ARG_DY]));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, dw->dtype, 1, dense_layouts[which].tag, &spec->layout[LS_ARG_DW]));
    if (whole->layout[LS_ARG_DW + 1])
        LS_TRY(first_of(cpu, whole->layout[LS_ARG_DW + 1], 0, count, &spec->layout[LS_ARG_DW + 1]));
    p->y = (slice){.rows = samples, .row_bytes = units * size, .first_byte = first * size, .bytes = count * size};
    p->offset[LS_ARG_DW] = dw->bytes / ls_round_up(units, dense_layouts[which].block) * first;
    p->offset[LS_ARG_DW + 1] = first * (int64_t)sizeof(float);
    *can = 1;
    return LS_OK;
}

// --- making ----------------------------------------------------------------------------------------------------------

static int is_winograd(const ls_kernel *kernel) { return strstr(kernel->name, "wino") != NULL; }

// Winograd of few tiles of 4x4 pixels takes as long to transform the weights as to multiply: forward they are cut, not the samples.
static int is_by_filters(const ls_kernel_spec *spec, const ls_kernel *whole) {
    const int64_t *y = spec->y[0].shape.dim;
    if (spec->pass == LS_PASS_BACKWARD_WEIGHTS) return 1;
    if (spec->pass == LS_PASS_BACKWARD_DATA || spec->residual || !is_winograd(whole)) return 0;
    return y[0] * ((y[1] + 3) / 4) * ((y[2] + 3) / 4) < y[3];
}

// Into how many pieces of how much a pass can be cut; the last may be smaller.
static ls_status find_pieces(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_kernel *whole, int64_t *pieces,
                             int64_t *size) {
    *pieces = spec->x[0].shape.dim[0];
    *size = 1;
    if (!is_by_filters(spec, whole)) return LS_OK;
    *pieces = 1;
    *size = BLOCK;
    if (is_dense(spec)) {
        int which;
        LS_TRY(dense_layout(cpu, whole->layout[LS_ARG_DW], &which));
        if (which < 0) return LS_OK;
        if (dense_layouts[which].block > BLOCK) *size = dense_layouts[which].block;
        *pieces = (spec->y[0].shape.dim[1] + *size - 1) / *size;
        return LS_OK;
    }
    int groups = spec->op == LS_OP_CONV2D ? LS_ATTRS(ls_conv2d_attrs, &spec->attrs)->groups : 1;
    int64_t filters = spec->y[0].shape.dim[spec->y[0].shape.ndim - 1];
    // Copying filters of DY together lasts as long as some fifty multiplications of each of its elements.
    int64_t products = ls_shape_count(spec->w[0].shape) / filters;
    if (groups == 1 && filters % BLOCK == 0 && products >= 64) *pieces = filters / BLOCK;
    return LS_OK;
}

// Whether a kernel computes each sample, in weight gradients each block of filters, by itself: however many others there are, its sums have one order. The library
// has such kernels by these names (oneDNN 2.6 and 3.2, told of one thread). Others choose blocks of sums by the size of the batch: matrix products
// (gemm), Winograd, brgconv, and the convolutions for AMX.
static ls_status computes_each_alone(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_kernel *whole, int *alone) {
    static const char *const names[] = {"jit:avx2",
                                        "jit:avx512_core",
                                        "jit_1x1:avx2",
                                        "jit_1x1:avx512_core",
                                        "jit_bf16:avx512_core_bf16",
                                        "jit_bf16_1x1:avx512_core_bf16",
                                        "jit_dw:avx2",
                                        "jit_dw:avx512_core",
                                        "brgemm:avx512_core",
                                        "brgemm:avx512_core_bf16",
                                        "brgemm:avx512_core_amx_bf16",
                                        "brgemm_bwd_d:avx512_core",
                                        "brgemm_bwd_d:avx512_core_bf16",
                                        "brgemm_bwd_d:avx512_core_amx_bf16",
                                        "brgemm_bwd_w:avx512_core",
                                        "brgemm_bwd_w:avx512_core_bf16",
                                        "brgemm_bwd_w:avx512_core_amx_bf16",
                                        "ref:any"};
    const ls_layout *blocked, *x = whole->layout[LS_ARG_X];
    *alone = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) *alone |= strcmp(whole->name, names[i]) == 0;
    if (!*alone || spec->pass != LS_PASS_BACKWARD_WEIGHTS || is_dense(spec)) return LS_OK;
    // Of images whose channels lie innermost, the pixels of windows of 1x1, and in bf16 those of wide images, are cut by the number of filters.
    LS_TRY(
        ls__cpu_layout_tag(cpu, x->shape, x->dtype, 0, ls__cpu_blocked_tag(x->shape.ndim, ls__cpu_block()), &blocked));
    int narrow = spec->y[0].shape.dim[2] < 124 || strncmp(whole->name, "jit_bf16", 8) != 0;
    *alone = x == blocked || (narrow && !strstr(whole->name, "1x1"));
    return LS_OK;
}

// How many parts a pass has whose bits may go by their number: a function of shapes. Weight gradients by Winograd are cut in conv2d_by_images.c.
static int64_t fixed_parts(const ls_kernel_spec *spec, const ls_kernel *whole, int64_t pieces, int64_t size) {
    int winograd = is_winograd(whole), weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_shape y = spec->y[0].shape;
    int64_t least = winograd ? WINO_ROWS + spec->x[0].shape.dim[3] * y.dim[3] / WINO_WEIGHTS : ROWS;
    int64_t parts = ls_shape_count(y) / y.dim[y.ndim - 1] / least;
    if (weights && winograd) return 1;
    if (is_by_filters(spec, whole)) parts = pieces * size / (winograd ? WINO_FILTERS : FILTERS);
    if (parts > pieces) parts = pieces;
    return parts < FIXED ? parts : FIXED;
}

static int is_as(const ls_kernel *one, const ls_kernel_spec *wanted, const ls_kernel *whole) {
    if (strcmp(one->name, whole->name) != 0) return 0;
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (one->layout[i] != (whole->layout[i] ? wanted->layout[i] : NULL)) return 0;
    return 1;
}

static ls_status make_part(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, const ls_kernel *whole,
                           int64_t first, int64_t count, int64_t of, part *p, int *can) {
    ls_kernel_spec mine = *spec;
    memset(mine.layout, 0, sizeof mine.layout);
    LS_TRY((!is_by_filters(spec, whole) ? cut_samples
            : is_dense(spec)            ? cut_units
                                        : cut_filters)(cpu, whole, first, count, of, &mine, p, can));
    if (!*can) return LS_OK;
    ls_status status = create(cpu, &mine, &p->kernel);
    *can = status == LS_OK && is_as(p->kernel, &mine, whole);
    return status == LS_STATUS_OUT_OF_MEMORY ? status : LS_OK;
}

// Each thread has scratch of its own, behind the others', as large as its largest part wants it.
static void size_scratch(parts_kernel *k) {
    for (int i = 0; i < k->count; i++) {
        int64_t bytes = y_bytes(&k->part[i]) + ls_round_up(k->part[i].kernel->scratch_bytes, LS_ALIGN);
        if (bytes > k->thread_bytes) k->thread_bytes = bytes;
    }
    k->base.scratch_bytes = k->threads * k->thread_bytes;
}

static ls_status make_parts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, ls_kernel *whole,
                            parts_kernel *k, int64_t pieces, int64_t size, int *can) {
    *can = 1;
    LS_TRY(ls_calloc(k->count, sizeof *k->part, &k->part));
    for (int i = 0; i < k->count && *can; i++) {
        int64_t first = pieces * i / k->count, end = pieces * (i + 1) / k->count;
        LS_TRY(
            make_part(cpu, spec, create, whole, first * size, (end - first) * size, pieces * size, &k->part[i], can));
    }
    if (*can) size_scratch(k);
    return LS_OK;
}

ls_status ls__cpu_conv2d_share(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, ls_kernel **kernel) {
    static const ls_kernel_ops ops = {run, destroy};
    ls_kernel *whole = *kernel;
    int64_t size, pieces, count;
    int threads = cpu->base.options.threads, alone, can;
    if (spec->op != LS_OP_CONV2D && spec->op != LS_OP_CONV3D && !is_dense(spec)) return LS_OK;
    LS_TRY(find_pieces(cpu, spec, whole, &pieces, &size));
    LS_TRY(computes_each_alone(cpu, spec, whole, &alone));
    count = !alone ? fixed_parts(spec, whole, pieces, size) : pieces < threads ? pieces : threads;
    if (count < 2) return LS_OK;
    parts_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base = *whole;
    k->base.ops = &ops;
    k->threads = threads;
    k->count = (int)count;
    ls_status status = make_parts(cpu, spec, create, whole, k, pieces, size, &can);
    if (status != LS_OK || !can) {
        destroy(&k->base);
        return status;
    }
    ls_kernel_destroy(kernel);
    *kernel = &k->base;
    return LS_OK;
}

void ls__cpu_conv2d_mask(const ls_layout *layout, int threads, void *dx, const void *x) {
    int64_t samples = layout->shape.dim[0], bytes = layout->bytes / samples;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t n = 0; n < samples; n++) {
        char *to = (char *)dx + n * bytes;
        ls__loop_mask(layout->dtype, to, to, (const char *)x + n * bytes,
                      bytes / (int64_t)ls_dtype_size(layout->dtype));
    }
}
