// Max and average pooling, over windows or the whole image, as vector loops over the layout the input comes in. With
// the ReLU of the operation before folded into the workspace, backward reads neither X nor Y.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"
#include "device/cpu/loops.h"

typedef struct pool_kernel {
    ls_kernel base;
    ls_pool_shape shape;
    ls_dtype dtype;
    const ls_pool_loops *loops;
    int average, backward, training, threads;
    int64_t line_bytes;  // of scratch, for each thread
} pool_kernel;

// Runs thread t's planes of the kernel.
static void run_planes(const pool_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    int64_t begin = k->shape.planes * t / k->threads, end = k->shape.planes * (t + 1) / k->threads;
    ls_pool_shape s = k->shape;
    int64_t bytes = (int64_t)ls_dtype_size(k->dtype);
    int64_t x_at = begin * s.height * s.width * s.block, y_at = begin * s.out_height * s.out_width * s.block;
    s.planes = end - begin;
    char *x = args[k->backward ? LS_ARG_DX : LS_ARG_X], *y = args[k->backward ? LS_ARG_DY : LS_ARG_Y];
    uint8_t *index = args[LS_ARG_WORKSPACE];
    const char *mask_x = k->backward ? args[LS_ARG_X] : NULL;
    char *line = k->line_bytes ? (char *)args[LS_ARG_SCRATCH] + t * k->line_bytes : NULL;
    x += x_at * bytes, y += y_at * bytes;
    if (index) index += y_at;
    if (mask_x) mask_x += x_at * bytes;
    if (k->average && k->backward)
        k->loops->average_backward(&s, y, mask_x, x, line);
    else if (k->average)
        k->loops->average(&s, x, y);
    else if (k->backward)
        k->loops->max_backward(&s, y, index, x, line);
    else
        k->loops->max(&s, x, y, k->training ? index : NULL);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    pool_kernel *k = (pool_kernel *)kernel;
    if (k->threads <= 1) {
        run_planes(k, args, 0);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->threads; t++) run_planes(k, args, t);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

static const ls_kernel_ops pool_ops = {run, destroy};

static int64_t window_elements(const ls_kernel_spec *spec) {
    if (spec->y[0].shape.ndim == 2) return spec->x[0].shape.dim[1] * spec->x[0].shape.dim[2];
    const int *size = LS_ATTRS(ls_pool2d_attrs, &spec->attrs)->size;
    return (int64_t)size[0] * size[1];
}

ls_status ls__cpu_pool_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    int maximum = spec->op == LS_OP_MAX_POOL2D || spec->op == LS_OP_GLOBAL_MAX_POOL2D;
    if (maximum && window_elements(spec) > 255)
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "max pooling over a window of %lld elements: the device keeps a byte per maximum, at most 255 fit; "
            "pool in two steps",
            (long long)window_elements(spec));
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    // Where a layout pads channels, the padding is pooled along: zero in, zero out.
    const ls_layout *x, *y;
    int block;
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    pool_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    const ls_pool2d_attrs *a = LS_ATTRS(ls_pool2d_attrs, &spec->attrs);
    int image = spec->y[0].shape.ndim == 4;
    int64_t blocks = (spec->x[0].shape.dim[3] + block - 1) / block;
    k->shape = (ls_pool_shape){.planes = spec->x[0].shape.dim[0] * blocks,
                               .block = block,
                               .height = spec->x[0].shape.dim[1],
                               .width = spec->x[0].shape.dim[2],
                               .out_height = image ? spec->y[0].shape.dim[1] : 1,
                               .out_width = image ? spec->y[0].shape.dim[2] : 1,
                               .kernel = {image ? a->size[0] : (int)spec->x[0].shape.dim[1],
                                          image ? a->size[1] : (int)spec->x[0].shape.dim[2]},
                               .strides = {image ? a->strides[0] : 1, image ? a->strides[1] : 1},
                               .pad_top = image ? a->pad[0] : 0,
                               .pad_left = image ? a->pad[1] : 0,
                               .mask = spec->mask_dx,
                               .pad_zeros = maximum && image && a->pad_zeros};
    k->average = !maximum;
    k->backward = backward;
    k->training = spec->pass == LS_PASS_TRAINING;
    k->dtype = spec->x[0].dtype;
    k->loops = ls__pool_loops(k->dtype);
    if (k->dtype == LS_DTYPE_BF16 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) && ls__pool_loops_of_bf16())
        k->loops = ls__pool_loops_of_bf16();
    k->threads = cpu->base.options.threads;
    k->base.ops = &pool_ops;
    k->base.tiles = k->shape.planes;
    k->base.name = k->average ? "loop:average_pool" : "loop:max_pool";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    if (backward && k->average && spec->mask_dx) k->base.layout[LS_ARG_X] = x;
    if (maximum && spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = k->shape.planes * k->shape.out_height * k->shape.out_width * block;
    if (backward) {
        k->line_bytes = (maximum ? ls__loop_max_pool_line_bytes : ls__loop_average_pool_line_bytes)(&k->shape);
        k->base.scratch_bytes = k->threads * k->line_bytes;
    }
    *out = &k->base;
    return LS_OK;
}
