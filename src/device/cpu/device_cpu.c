// The CPU device: oneDNN for what it has, our own vector loops for passes that only move memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"
#include "device/cpu/loops.h"
#include "device/cpu/table.h"
#include "device/cpu/team.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <xmmintrin.h>
#endif

// --- layouts ---------------------------------------------------------------------------------------------------------

void ls__cpu_dims(ls_shape shape, int is_weights, dnnl_dims_t dims) {
    const int64_t *d = shape.dim;
    int last = shape.ndim - 1;
    if (shape.ndim >= 4 && is_weights) {  // HWIO -> OIHW, DHWIO -> OIDHW
        dims[0] = d[last], dims[1] = d[last - 1];
        for (int i = 2; i <= last; i++) dims[i] = d[i - 2];
    } else if (shape.ndim >= 4) {  // NHWC -> NCHW, NDHWC -> NCDHW
        dims[0] = d[0], dims[1] = d[last];
        for (int i = 2; i <= last; i++) dims[i] = d[i - 1];
    } else if (shape.ndim == 2 && is_weights) {  // (in, out) -> (out, in)
        dims[0] = d[1], dims[1] = d[0];
    } else {
        dims[0] = 1;  // of a single number, which is a vector of one to the library
        for (int i = 0; i < shape.ndim; i++) dims[i] = d[i];
    }
}

static ls_status layout_add(ls_cpu *cpu, ls_shape shape, ls_dtype dtype, ls_md md, const ls_layout **out) {
    if (cpu->layout_count == cpu->layout_capacity) {
        int capacity = cpu->layout_capacity ? cpu->layout_capacity * 2 : 32;
        ls_layout **grown = realloc(cpu->layouts, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        cpu->layouts = grown;
        cpu->layout_capacity = capacity;
    }
    ls_layout *layout;
    LS_TRY(ls_calloc(1, sizeof *layout, &layout));
    ls_md copy;
    ls_status status = ls__md_clone(md, &copy);
    if (status != LS_OK) {
        free(layout);
        return status;
    }
    *layout =
        (ls_layout){.shape = shape, .dtype = dtype, .native = copy, .bytes = (int64_t)dnnl_memory_desc_get_size(md)};
    cpu->layouts[cpu->layout_count++] = layout;
    *out = layout;
    return LS_OK;
}

static ls_status intern(ls_cpu *cpu, ls_shape shape, ls_dtype dtype, ls_md md, const ls_layout **out) {
    pthread_mutex_lock(&cpu->mutex);
    ls_status status = LS_OK;
    *out = NULL;
    for (int i = cpu->layout_count - 1; i >= 0 && !*out; i--)  // most often one of the latest is asked for again
        if (cpu->layouts[i]->dtype == dtype && ls_shape_equal(cpu->layouts[i]->shape, shape) &&
            dnnl_memory_desc_equal(cpu->layouts[i]->native, md))
            *out = cpu->layouts[i];
    if (!*out) status = layout_add(cpu, shape, dtype, md, out);
    pthread_mutex_unlock(&cpu->mutex);
    return status;
}

// One channel lies the same in both orders, and kernels for such images ask for it under the name nchw.
static dnnl_format_tag_t plain_name(ls_shape shape) {
    int last = shape.ndim - 1, one = shape.dim[last] == 1;
    return last == 3 ? (one ? dnnl_nchw : dnnl_nhwc) : one ? dnnl_ncdhw : dnnl_ndhwc;
}

// Images of one channel, or of one pixel, lie the same with channels first and last. To the library both are equal, here and where it keeps what it has made, but
// which kernels it has goes by the name: the one that was met first in a process would decide about bits. So they have one.
ls_status ls__cpu_layout(ls_cpu *cpu, ls_shape shape, ls_md md, const ls_layout **out) {
    int last = shape.ndim - 1;
    int64_t pixels = 1;
    for (int d = 1; d < last; d++) pixels *= shape.dim[d];
    if (last < 3 || (shape.dim[last] != 1 && pixels != 1)) return intern(cpu, shape, ls__md_dtype(md), md, out);
    dnnl_dims_t dims;
    ls_md named;
    ls__cpu_dims(shape, 0, dims);
    LS_TRY(ls__md_by_tag(shape.ndim, dims, ls__md_dtype(md), plain_name(shape), &named));
    ls_status status = intern(cpu, shape, ls__md_dtype(md), dnnl_memory_desc_equal(named, md) ? named : md, out);
    ls__md_destroy(named);
    return status;
}

ls_status ls__cpu_layout_tag(ls_cpu *cpu, ls_shape shape, ls_dtype dtype, int is_weights, dnnl_format_tag_t tag,
                             const ls_layout **out) {
    dnnl_dims_t dims;
    ls__cpu_dims(shape, is_weights, dims);
    ls_md md;
    LS_TRY(ls__md_by_tag(shape.ndim ? shape.ndim : 1, dims, dtype,
                         tag == dnnl_nhwc || tag == dnnl_ndhwc ? plain_name(shape) : tag, &md));
    ls_status status = ls__cpu_layout(cpu, shape, md, out);
    ls__md_destroy(md);
    return status;
}

static const dnnl_format_tag_t row_major[] = {dnnl_a, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd, dnnl_abcde};

// The library has no type for F64: to it they are pairs of F32.
static ls_status layout_doubles(ls_cpu *cpu, ls_shape shape, const ls_layout **out) {
    ls_md md;
    dnnl_dims_t dims = {1};  // a single number is a vector of one
    int last = shape.ndim > 0 ? shape.ndim - 1 : 0;
    for (int i = 0; i < shape.ndim; i++) dims[i] = shape.dim[i];
    dims[last] *= 2;
    LS_TRY(ls__md_by_tag(last + 1, dims, LS_DTYPE_F32, row_major[shape.ndim], &md));
    ls_status status = intern(cpu, shape, LS_DTYPE_F64, md, out);
    ls__md_destroy(md);
    return status;
}

// Images are NHWC, volumes NDHWC, kernels HWIO, DHWIO and (in, out): whether a 5-D, 4-D or 2-D shape is a kernel is not in the shape, so plain
// layouts of kernels are told apart by the caller: see layout_plain_weights.
static ls_status layout_plain(ls_device *device, ls_shape shape, ls_dtype dtype, int is_weights,
                              const ls_layout **out) {
    dnnl_format_tag_t tag = row_major[shape.ndim];
    if (shape.ndim == 4) tag = is_weights ? dnnl_hwio : dnnl_nhwc;
    if (shape.ndim == 5) tag = is_weights ? dnnl_dhwio : dnnl_ndhwc;
    if (shape.ndim == 2 && is_weights) tag = dnnl_io;
    if (dtype == LS_DTYPE_F64)
        LS_TRY(layout_doubles((ls_cpu *)device, shape, out));
    else
        LS_TRY(ls__cpu_layout_tag((ls_cpu *)device, shape, dtype, is_weights, tag, out));
    ((ls_layout *)*out)->plain = 1;
    return LS_OK;
}

dnnl_format_tag_t ls__cpu_blocked_tag(int ndim, int block) {
    if (ndim == 5) return block == 16 ? dnnl_nCdhw16c : dnnl_nCdhw8c;
    return block == 16 ? dnnl_nChw16c : dnnl_nChw8c;
}

ls_status ls__cpu_image_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_layout **x, const ls_layout **y,
                                int *block) {
    const ls_layout *given = spec->layout[spec->pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X];
    int ndim = spec->x[0].shape.ndim;
    int64_t channels = spec->x[0].shape.dim[ndim - 1];
    for (*block = 16; given && *block >= 8; *block /= 2) {
        dnnl_format_tag_t tag = ls__cpu_blocked_tag(ndim, *block);
        LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, spec->x[0].dtype, 0, tag, x));
        if (*x != given) continue;
        if (spec->y[0].shape.ndim == ndim)
            return ls__cpu_layout_tag(cpu, spec->y[0].shape, spec->x[0].dtype, 0, tag, y);
        if (channels % *block != 0) break;  // a global pool's (N, C) has no room for padding
        return layout_plain(&cpu->base, spec->y[0].shape, spec->x[0].dtype, 0, y);
    }
    *block = (int)channels;
    LS_TRY(layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, x));
    return layout_plain(&cpu->base, spec->y[0].shape, spec->x[0].dtype, 0, y);
}

ls_status ls__cpu_norm_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel) {
    const ls_layout *x, *w;
    int backward = spec->pass == LS_PASS_BACKWARD;
    LS_TRY(layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    LS_TRY(layout_plain(&cpu->base, spec->w[0].shape, LS_DTYPE_F32, 0, &w));
    kernel->layout[LS_ARG_X] = x;
    kernel->layout[LS_ARG_W] = w;
    kernel->layout[backward ? LS_ARG_DY : LS_ARG_Y] = x;
    if (!backward) kernel->layout[LS_ARG_W + 1] = w;
    if (backward) kernel->layout[LS_ARG_DX] = x;
    if (backward) kernel->layout[LS_ARG_DW] = kernel->layout[LS_ARG_DW + 1] = w;
    return LS_OK;
}

// --- kernels of one oneDNN primitive ---------------------------------------------------------------------------------

static ls_status dnnl_kernel_run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    ls_cpu_dnnl_kernel *k = (ls_cpu_dnnl_kernel *)kernel;
    for (int i = 0; i < k->count; i++) {
        void *pointer = args[k->from[i]];
        if (k->bound[i] == pointer) continue;
        LS_DNNL(dnnl_memory_set_data_handle(k->args[i].memory, pointer), "set a tensor's memory");
        k->bound[i] = pointer;
    }
    ls__team_allow(k->threads > 1 ? k->threads : 1);
    dnnl_status_t ran = dnnl_primitive_execute(k->primitive, k->stream, k->count, k->args);
    if (k->threads > 1) ls__team_allow(1);
    LS_DNNL(ran, "run a kernel");
    LS_DNNL(dnnl_stream_wait(k->stream), "finish a kernel");
    if (k->mask_count)
        ls__loop_mask(kernel->layout[LS_ARG_DX]->dtype, args[LS_ARG_DX], args[LS_ARG_DX], args[LS_ARG_X],
                      k->mask_count);
    if (k->add_count)
        ls__loop_add(kernel->layout[LS_ARG_Y]->dtype, args[LS_ARG_Y], args[LS_ARG_Y], args[LS_ARG_RESIDUAL],
                     k->add_relu, k->add_count);
    return LS_OK;
}

static void dnnl_kernel_destroy(ls_kernel *kernel) {
    ls_cpu_dnnl_kernel *k = (ls_cpu_dnnl_kernel *)kernel;
    for (int i = 0; i < k->count; i++)
        if (k->args[i].memory) dnnl_memory_destroy(k->args[i].memory);
    if (k->primitive) dnnl_primitive_destroy(k->primitive);
    if (k->stream) dnnl_stream_destroy(k->stream);
    free(k);
}

static const ls_kernel_ops dnnl_kernel_ops = {dnnl_kernel_run, dnnl_kernel_destroy};

static ls_status dnnl_kernel_build(ls_cpu *cpu, ls_cpu_dnnl_kernel *k, const_dnnl_primitive_desc_t pd,
                                   const ls_cpu_arg *args, int count) {
    LS_DNNL(dnnl_stream_create(&k->stream, cpu->engine, dnnl_stream_default_flags), "create a stream");
    LS_DNNL(dnnl_primitive_create(&k->primitive, pd), "create a kernel");
    for (int i = 0; i < count; i++) {
        ls_md md = dnnl_primitive_desc_query_md(pd, args[i].query, args[i].index);
        if (!md || dnnl_memory_desc_get_size(md) == 0) continue;
        LS_DNNL(dnnl_memory_create(&k->args[k->count].memory, md, cpu->engine, DNNL_MEMORY_NONE), "describe a tensor");
        k->args[k->count].arg = args[i].dnnl_arg;
        k->from[k->count++] = args[i].arg;
        if (args[i].arg == LS_ARG_SCRATCH) k->base.scratch_bytes = (int64_t)dnnl_memory_desc_get_size(md);
    }
    return LS_OK;
}

ls_status ls__cpu_dnnl_kernel_create(ls_cpu *cpu, const_dnnl_primitive_desc_t pd, const ls_cpu_arg *args, int count,
                                     ls_kernel **out) {
    ls_cpu_dnnl_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &dnnl_kernel_ops;
    k->base.name = ls__pd_name(pd);  // a literal inside oneDNN
    ls_status status = dnnl_kernel_build(cpu, k, pd, args, count);
    if (status != LS_OK) {
        dnnl_kernel_destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}

// --- the device ------------------------------------------------------------------------------------------------------

static void destroy(ls_device *device) {
    ls_cpu *cpu = (ls_cpu *)device;
    for (int i = 0; i < cpu->layout_count; i++) {
        ls__md_destroy(cpu->layouts[i]->native);
        free(cpu->layouts[i]);
    }
    free(cpu->layouts);
    ls__cpu_tables_free(cpu);
    if (cpu->engine) dnnl_engine_destroy(cpu->engine);
    pthread_mutex_destroy(&cpu->mutex);
    free(cpu);
}

static ls_status create(const ls_device_options *options, ls_device **out) {
    ls_cpu *cpu;
    LS_TRY(ls__cpu_isa_pin(options->isa));
    LS_TRY(ls__team_check(options->threads));
    LS_TRY(ls_calloc(1, sizeof *cpu, &cpu));
    pthread_mutex_init(&cpu->mutex, NULL);
    dnnl_status_t created = dnnl_engine_create(&cpu->engine, dnnl_cpu, 0);
    if (created != dnnl_success) {
        destroy(&cpu->base);
        return ls__dnnl_fail(created, __FILE__, __LINE__, "start its CPU engine");
    }
    *out = &cpu->base;
    return LS_OK;
}

static void describe(const ls_device *device, char *text, size_t size) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, size, "cpu: oneDNN %d.%d.%d%s, %s", v->major, v->minor, v->patch,
             ls__cpu_has_tiles() ? " and tiles" : "", ls__cpu_isa_name());
}

// What is missing for fp16: the flag of the processor, the version of the library, or a pinned instruction set.
static ls_status refuse_fp16(void) {
    const dnnl_version_t *v = dnnl_version();
    unsigned a = 0, b = 0, c = 0, d = 0;
#if defined(__x86_64__)
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) d = 0;
#endif
    int flag = d >> 23 & 1;  // AVX512-FP16
    return LS_FAIL(
        LS_STATUS_UNSUPPORTED,
        "precision fp16 needs a CPU with avx512_fp16 and oneDNN 3.0 or later; this CPU has %s, this is oneDNN "
        "%d.%d.%d, and it computes with %s: use %s, or the device ref, which has fp16 and is slow",
        flag ? "it" : "not got it", v->major, v->minor, v->patch, ls__cpu_isa_name(),
        ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) ? "bf16" : "fp32");
}

static ls_status supports(const ls_device *device, ls_dtype precision) {
    if (precision == LS_DTYPE_F32) return LS_OK;
    if (precision == LS_DTYPE_F16) return ls__cpu_has_half() ? LS_OK : refuse_fp16();
    if (precision == LS_DTYPE_BF16 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16)) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "precision %s needs a CPU with native bfloat16 (AVX512-BF16 or AMX); this one computes with %s: use "
                   "fp32",
                   ls_dtype_name(precision), ls__cpu_isa_name());
}

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_cpu_create_fn creators[LS_OP_COUNT] = {
#define X(kind, creator) [LS_OP_##kind] = ls__cpu_##creator##_create,
        LS_CPU_OPS(X)
#undef X
    };
    if (!creators[spec->op])
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "device cpu has no kernel for %s", ls_op_name(spec->op));
    return creators[spec->op]((ls_cpu *)device, spec, out);
}

// Denormals are treated as zeros: they are noise in training and a hundred times slower. Every thread that computes does so, so this
// never makes two workers differ.
static void flush_denormals(void) {
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

// The team may be older than the flag: its threads have that of their beginning.
static void thread_begin(ls_device *device, ls_thread_fn each, void *user) {
    int threads = device->options.threads;
    ls__team_set();
    flush_denormals();  // by itself too: some OpenMP libraries put it back as it was where a region of one thread ends
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        flush_denormals();
        if (each) each(user, ls__team_index());
    }
}

static ls_status each(ls_queue *queue, int count, ls_piece_fn piece, void *user) {
    char failure[512] = "";
    ls_status status = LS_OK;
#pragma omp parallel for num_threads(queue->threads) schedule(dynamic, 1)
    for (int i = 0; i < count; i++) {
        ls_status mine = piece(user, queue, i);
        if (mine == LS_OK) continue;
#pragma omp critical
        if (status == LS_OK) {
            status = mine;
            snprintf(failure, sizeof failure, "%s", ls_error_message());
        }
    }
    if (status != LS_OK) ls__error_set(failure);
    return status;
}

const ls_device_ops ls_device_cpu = {
    .name = "cpu",
    .help = "oneDNN kernels and vector loops",
    .host_memory = 1,
    .most_threads = LS_TEAM_MOST,
    .memory = &ls__host_memory,
    .vector = &ls__host_vector,
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .supports = supports,
    .layout_plain = layout_plain,
    .kernel_create = kernel_create,
    .reorder_create = ls__cpu_reorder_create,
    .thread_begin = thread_begin,
    .each = each,
    .fastest = ls__cpu_fastest,
    .limits = ls__cpu_limits,
};
