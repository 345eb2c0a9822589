#include "device/cpu/conv2d_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

enum { BLOCK = 16 };  // of filters

// Weight gradient: where the filters of a part are in DY.
typedef struct slice {
    int64_t rows, row_bytes;    // (rows, row_bytes), of which a part has
    int64_t first_byte, bytes;  // these of each row
    int64_t scratch;            // where they come to lie together
} slice;

typedef struct part {
    ls_kernel *kernel;
    int64_t offset[LS_ARG_COUNT];  // bytes, from where the argument begins to where the part's does
    slice dy;                      // bytes 0: DY is not cut
} part;

typedef struct parts_kernel {
    ls_kernel base;
    int count;
    part *part;
} parts_kernel;

// --- running ---------------------------------------------------------------------------------------------------------

static void gather(const slice *s, char *restrict to, const char *restrict from) {
    for (int64_t r = 0; r < s->rows; r++)
        memcpy(to + r * s->bytes, from + r * s->row_bytes + s->first_byte, (size_t)s->bytes);
}

static ls_status run_part(const part *p, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    ls_span mine[LS_ARG_COUNT];
    for (int i = 0; i < LS_ARG_COUNT; i++) mine[i] = ls_span_at(spans[i], p->offset[i]);
    if (p->dy.bytes) {
        mine[LS_ARG_DY] = ls_span_at(spans[LS_ARG_SCRATCH], p->dy.scratch);
        gather(&p->dy, ls_span_host(mine[LS_ARG_DY]), ls_span_host(spans[LS_ARG_DY]));
    }
    return ls_kernel_run(p->kernel, queue, mine);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const parts_kernel *k = (const parts_kernel *)kernel;
    char failure[512] = "";
    ls_status status = LS_OK;
#pragma omp parallel for num_threads(k->count) schedule(static, 1)
    for (int i = 0; i < k->count; i++) {
        ls_status mine = run_part(&k->part[i], queue, spans);
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

// DY of some filters in the kind of layout that all of it has; NULL where that is neither blocks of channels nor channels innermost.
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
    const ls_layout *dy = whole->layout[LS_ARG_DY], *dw = whole->layout[LS_ARG_DW];
    int blocked, last = spec->y[0].shape.ndim - 1;
    *can = 0;
    if (spec->op == LS_OP_CONV3D)
        ((ls_conv3d_attrs *)(void *)spec->attrs.bytes)->filters = (int)count;
    else
        ((ls_conv2d_attrs *)(void *)spec->attrs.bytes)->filters = (int)count;
    spec->y[0].shape.dim[last] = count;
    spec->w[0].shape.dim[last] = count;
    if (spec->w_count > 1) spec->w[1].shape.dim[0] = count;
    spec->layout[LS_ARG_X] = whole->layout[LS_ARG_X];
    LS_TRY(filters_layout(cpu, dy, count, &spec->layout[LS_ARG_DY], &blocked));
    LS_TRY(first_of(cpu, dw, last, count, &spec->layout[LS_ARG_DW]));
    if (!spec->layout[LS_ARG_DY] || !spec->layout[LS_ARG_DW]) return LS_OK;
    if (whole->layout[LS_ARG_DW + 1])
        LS_TRY(first_of(cpu, whole->layout[LS_ARG_DW + 1], 0, count, &spec->layout[LS_ARG_DW + 1]));
    p->dy = slice_of(dy, blocked, first, count);
    p->offset[LS_ARG_DW] = dw->bytes / of * first;
    p->offset[LS_ARG_DW + 1] = first * (int64_t)sizeof(float);
    *can = 1;
    return LS_OK;
}

// --- making ----------------------------------------------------------------------------------------------------------

// Into how many pieces of how much a pass can be cut.
static int64_t pieces_of(const ls_kernel_spec *spec, int64_t *size) {
    int weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS, images = spec->op == LS_OP_CONV2D;
    int groups = images ? LS_ATTRS(ls_conv2d_attrs, &spec->attrs)->groups : 1;
    int64_t filters = spec->y[0].shape.dim[spec->y[0].shape.ndim - 1];
    *size = weights ? BLOCK : 1;
    if ((!images && spec->op != LS_OP_CONV3D) || (weights && (groups > 1 || filters % BLOCK != 0))) return 1;
    return weights ? filters / BLOCK : spec->x[0].shape.dim[0];
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
    LS_TRY((spec->pass == LS_PASS_BACKWARD_WEIGHTS ? cut_filters : cut_samples)(cpu, whole, first, count, of, &mine, p,
                                                                                can));
    if (!*can) return LS_OK;
    ls_status status = create(cpu, &mine, &p->kernel);
    *can = status == LS_OK && is_as(p->kernel, &mine, whole);
    return status == LS_STATUS_OUT_OF_MEMORY ? status : LS_OK;
}

// Each part has scratch of its own, behind the others'.
static void place_scratch(parts_kernel *k) {
    int64_t at = 0;
    for (int i = 0; i < k->count; i++) {
        part *p = &k->part[i];
        p->dy.scratch = at;
        at += ls_round_up(p->dy.rows * p->dy.bytes, LS_ALIGN);
        p->offset[LS_ARG_SCRATCH] = at;
        at += ls_round_up(p->kernel->scratch_bytes, LS_ALIGN);
    }
    k->base.scratch_bytes = at;
}

ls_status ls__cpu_conv2d_share(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, ls_kernel **kernel) {
    static const ls_kernel_ops ops = {run, destroy};
    const ls_kernel *whole = *kernel;
    int64_t size, pieces = pieces_of(spec, &size);
    int threads = cpu->base.options.threads, can = 1;
    int count = pieces < threads ? (int)pieces : threads;
    if (count < 2 || strstr(whole->name, "wino")) return LS_OK;
    parts_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base = *whole;
    k->base.ops = &ops;
    k->count = count;
    ls_status status = ls_calloc(count, sizeof *k->part, &k->part);
    for (int i = 0; i < count && status == LS_OK && can; i++) {
        int64_t first = pieces * i / count, end = pieces * (i + 1) / count;
        status =
            make_part(cpu, spec, create, whole, first * size, (end - first) * size, pieces * size, &k->part[i], &can);
    }
    if (status != LS_OK || !can) {
        destroy(&k->base);
        return status;
    }
    place_scratch(k);
    ls_kernel_destroy(kernel);
    *kernel = &k->base;
    return LS_OK;
}
