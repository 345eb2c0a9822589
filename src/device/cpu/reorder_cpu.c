// Copying a tensor between two layouts. The library does not have every pair of blocked layouts; where it lacks one, the
// tensor goes by way of the row-major layout, which it can always read and write.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"

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

static ls_status between(ls_cpu *cpu, ls_md from, ls_md to, ls_kernel **out) {
    ls_status status = direct(cpu, from, to, out);
    return status == LS_STATUS_UNSUPPORTED ? detour(cpu, from, to, out) : status;
}

ls_status ls__cpu_reorder_create(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    ls_cpu *cpu = (ls_cpu *)device;
    ls_md from_groups, to_groups = NULL;
    ls_status status = in_groups(from, to, &from_groups);
    if (status == LS_OK) status = in_groups(to, from, &to_groups);
    if (status == LS_OK)
        status = between(cpu, from_groups ? from_groups : from->native, to_groups ? to_groups : to->native, out);
    ls__md_destroy(from_groups);
    ls__md_destroy(to_groups);
    if (status != LS_OK) return ls__fail_passed(status, __FILE__, __LINE__);
    (*out)->layout[LS_ARG_X] = from;
    (*out)->layout[LS_ARG_Y] = to;
    return LS_OK;
}
