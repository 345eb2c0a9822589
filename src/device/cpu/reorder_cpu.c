// Copying a tensor between two layouts. The library does not have every pair of blocked layouts; where it lacks one, the
// tensor goes by way of the row-major layout, which it can always read and write.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/reorder_pairs.h"

static ls_status direct(ls_cpu *cpu, ls_md from, ls_md to, ls_kernel **out) {
    dnnl_primitive_attr_t attr = ls__attr_create(NULL, 0);
    dnnl_primitive_desc_t pd = NULL;
    dnnl_status_t created = dnnl_reorder_primitive_desc_create(&pd, from, cpu->engine, to, cpu->engine, attr);
    dnnl_primitive_attr_destroy(attr);
    LS_DNNL(created, "reorder a tensor between two layouts");
    static const ls_cpu_arg args[] = {{DNNL_ARG_FROM, LS_ARG_X, dnnl_query_src_md, 0},
                                      {DNNL_ARG_TO, LS_ARG_Y, dnnl_query_dst_md, 0},
                                      {DNNL_ARG_SCRATCHPAD, LS_ARG_SCRATCH, dnnl_query_scratchpad_md, 0}};
    ls_status status = ls__cpu_dnnl_kernel_create(cpu, pd, args, 3, out);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

typedef struct detour_kernel {
    ls_kernel base;
    ls_kernel *first, *second;
    int64_t between_bytes;  // at the start of the scratch
} detour_kernel;

static ls_status detour_run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    detour_kernel *k = (detour_kernel *)kernel;
    ls_span between = args[LS_ARG_SCRATCH], rest = ls_span_at(between, k->between_bytes);
    ls_span first[LS_ARG_COUNT] = {[LS_ARG_X] = args[LS_ARG_X], [LS_ARG_Y] = between, [LS_ARG_SCRATCH] = rest};
    ls_span second[LS_ARG_COUNT] = {[LS_ARG_X] = between, [LS_ARG_Y] = args[LS_ARG_Y], [LS_ARG_SCRATCH] = rest};
    LS_TRY(ls_kernel_run(k->first, queue, first));
    return ls_kernel_run(k->second, queue, second);
}

static void detour_destroy(ls_kernel *kernel) {
    detour_kernel *k = (detour_kernel *)kernel;
    ls_kernel_destroy(&k->first);
    ls_kernel_destroy(&k->second);
    free(k);
}

static const ls_kernel_ops detour_ops = {detour_run, detour_destroy};

static ls_status detour(ls_cpu *cpu, ls_md from, ls_md to, ls_kernel **out) {
    static const dnnl_format_tag_t row_major[] = {0, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};
    dnnl_dims_t dims;
    int ndim = ls__md_dims(from, dims);
    ls_md plain = NULL;
    detour_kernel *k = NULL;
    ls_status status;
    LS_TRY_GOTO(ls__md_by_tag(ndim, dims, LS_DTYPE_F32, row_major[ndim], &plain), done);
    LS_TRY_GOTO(ls_calloc(1, sizeof *k, &k), done);
    k->base.ops = &detour_ops;
    k->base.name = "reorder:detour";
    LS_TRY_GOTO(direct(cpu, from, plain, &k->first), done);
    LS_TRY_GOTO(direct(cpu, plain, to, &k->second), done);
    k->between_bytes = ls_round_up((int64_t)dnnl_memory_desc_get_size(plain), LS_ALIGN);
    int64_t most =
        k->first->scratch_bytes > k->second->scratch_bytes ? k->first->scratch_bytes : k->second->scratch_bytes;
    k->base.scratch_bytes = k->between_bytes + most;
    *out = &k->base;
    k = NULL;
done:
    if (k) detour_destroy(&k->base);
    ls__md_destroy(plain);
    return status;
}

// What a plain kernel is to the library beside one of several groups, which has one more dimension: (groups, filters, channels, H, W). Groups
// of filters lie one after the other.
static ls_status in_groups(const ls_layout *plain, const ls_layout *other, ls_md *out) {
    dnnl_dims_t dims;
    *out = NULL;
    if (!plain->plain || plain->shape.ndim != 4 || ls__md_dims(other->native, dims) != 5) return LS_OK;
    return ls__md_by_tag(5, dims, plain->dtype, dnnl_hwigo, out);
}

// --- shared by threads -----------------------------------------------------------------------------------------------

#define LEAST_BYTES (1 << 16)  // from which on a part is worth a thread

// A copy along the outermost dimension in as many pieces as there are threads.
typedef struct shared_kernel {
    ls_kernel base;
    int count, threads;
    struct piece {
        ls_kernel *kernel;
        int64_t from, to, scratch;  // bytes, from where the tensors begin to where the piece does
    } * piece;
} shared_kernel;

static ls_status shared_run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    const shared_kernel *k = (const shared_kernel *)kernel;
    ls_status status = LS_OK;
#pragma omp parallel for num_threads(k->threads) schedule(static, 1)
    for (int i = 0; i < k->count; i++) {
        const struct piece *p = &k->piece[i];
        ls_span mine[LS_ARG_COUNT] = {[LS_ARG_X] = ls_span_at(args[LS_ARG_X], p->from),
                                      [LS_ARG_Y] = ls_span_at(args[LS_ARG_Y], p->to),
                                      [LS_ARG_SCRATCH] = ls_span_at(args[LS_ARG_SCRATCH], p->scratch)};
        ls_status done = ls_kernel_run(p->kernel, queue, mine);
        if (done != LS_OK) {
#pragma omp atomic write
            status = done;
        }
    }
    return status == LS_OK ? LS_OK : LS_FAIL(status, "a tensor could not be copied between two layouts");
}

static void shared_destroy(ls_kernel *kernel) {
    shared_kernel *k = (shared_kernel *)kernel;
    for (int i = 0; k->piece && i < k->count; i++) ls_kernel_destroy(&k->piece[i].kernel);
    free(k->piece);
    free(k);
}

// Whether one sample lies behind the other. (The library describes a part of a block of filters, too, and with a size that looks right.)
static ls_status is_by_samples(ls_cpu *cpu, const ls_layout *layout, int *is) {
    static const dnnl_format_tag_t images[] = {dnnl_nhwc, dnnl_nchw, dnnl_nChw16c, dnnl_nChw8c},
                                   volumes[] = {dnnl_ndhwc, dnnl_ncdhw, dnnl_nCdhw16c, dnnl_nCdhw8c};
    const ls_layout *found = NULL;
    int ndim = layout->shape.ndim;
    for (int i = 0; i < 4 && (ndim == 4 || ndim == 5) && found != layout; i++)
        LS_TRY(ls__cpu_layout_tag(cpu, layout->shape, layout->dtype, 0, (ndim == 5 ? volumes : images)[i], &found));
    *is = found == layout;
    return LS_OK;
}

static ls_status create_piece(ls_cpu *cpu, ls_md from, ls_md to, int64_t count, ls_kernel **out) {
    ls_md some_from = NULL, some_to = NULL;
    ls_status status = ls__md_first(from, count, &some_from);
    if (status == LS_OK) status = ls__md_first(to, count, &some_to);
    if (status == LS_OK) status = direct(cpu, some_from, some_to, out);
    ls__md_destroy(some_from);
    ls__md_destroy(some_to);
    return status;
}

// Puts a kernel that threads share in place of *kernel, where there are samples, and enough of them. Errors: OUT_OF_MEMORY.
static ls_status share(ls_cpu *cpu, const ls_layout *from, const ls_layout *to, ls_kernel **kernel) {
    static const ls_kernel_ops ops = {shared_run, shared_destroy};
    int by_samples = 0;
    int64_t of = to->shape.dim[0], count = to->bytes / LEAST_BYTES;
    if (count > cpu->base.options.threads) count = cpu->base.options.threads;
    if (count > of) count = of;
    if (count < 2) return LS_OK;
    LS_TRY(is_by_samples(cpu, from, &by_samples));
    if (by_samples) LS_TRY(is_by_samples(cpu, to, &by_samples));
    if (!by_samples) return LS_OK;
    shared_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base = **kernel;
    k->base.ops = &ops;
    k->threads = cpu->base.options.threads;
    k->base.scratch_bytes = 0;
    ls_status status = ls_calloc((size_t)count, sizeof *k->piece, &k->piece);
    for (; status == LS_OK && k->count < count; k->count++) {
        struct piece *p = &k->piece[k->count];
        int64_t first = of * k->count / count, end = of * (k->count + 1) / count;
        status = create_piece(cpu, from->native, to->native, end - first, &p->kernel);
        if (status != LS_OK) break;
        p->from = from->bytes / of * first;
        p->to = to->bytes / of * first;
        p->scratch = k->base.scratch_bytes;
        k->base.scratch_bytes += ls_round_up(p->kernel->scratch_bytes, LS_ALIGN);
    }
    if (status != LS_OK) {
        shared_destroy(&k->base);
        return status == LS_STATUS_OUT_OF_MEMORY ? status : LS_OK;
    }
    ls_kernel_destroy(kernel);
    *kernel = &k->base;
    return LS_OK;
}

static ls_status between(ls_cpu *cpu, ls_md from, ls_md to, ls_kernel **out) {
    ls_status status = direct(cpu, from, to, out);
    return status == LS_STATUS_UNSUPPORTED ? detour(cpu, from, to, out) : status;
}

static ls_status by_library(ls_cpu *cpu, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    ls_md from_groups, to_groups = NULL;
    ls_status status = in_groups(from, to, &from_groups);
    if (status == LS_OK) status = in_groups(to, from, &to_groups);
    if (status == LS_OK)
        status = between(cpu, from_groups ? from_groups : from->native, to_groups ? to_groups : to->native, out);
    ls__md_destroy(from_groups);
    ls__md_destroy(to_groups);
    return status == LS_OK ? share(cpu, from, to, out) : status;
}

ls_status ls__cpu_reorder_create(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    ls_cpu *cpu = (ls_cpu *)device;
    ls_status status = ls__reorder_pairs_create(cpu, from, to, out);
    if (status == LS_OK && !*out) status = by_library(cpu, from, to, out);
    if (status != LS_OK) return ls__fail_passed(status, __FILE__, __LINE__);
    (*out)->layout[LS_ARG_X] = from;
    (*out)->layout[LS_ARG_Y] = to;
    return LS_OK;
}
