// Every pixel as a rectangle, and the sums of rectangles in backward, in the layout the input comes in.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops_impl.h"

// Images whose channels lie in innermost blocks: (planes, height, width, block).
typedef struct up_sampling2d_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t planes, height, width, block;
    int64_t rows, columns;  // that a pixel becomes
    int backward, mask_dx, threads;
} up_sampling2d_kernel;

static void forward_plane(const up_sampling2d_kernel *k, const char *x, char *y) {
    int64_t pixel = k->block * (int64_t)ls_dtype_size(k->dtype), out_row = k->width * k->columns * pixel;
    for (int64_t h = 0; h < k->height; h++) {
        char *first = y;
        for (int64_t w = 0; w < k->width; w++, x += pixel)
            for (int64_t j = 0; j < k->columns; j++, y += pixel) memcpy(y, x, (size_t)pixel);
        for (int64_t i = 1; i < k->rows; i++, y += out_row) memcpy(y, first, (size_t)out_row);
    }
}

// Sixteen channels of a pixel: its rectangle, row by row.
LS_INLINE void add_rectangle(const up_sampling2d_kernel *k, const void *dy, const void *x, void *dx, int64_t from,
                             int64_t to, int64_t lanes) {
    v16f sum = {0};
    for (int64_t i = 0; i < k->rows; i++)
        for (int64_t j = 0; j < k->columns; j++)
            sum += load_lanes(k->dtype, dy, from + (i * k->width * k->columns + j) * k->block, lanes);
    if (k->mask_dx) sum = where16(positive16(load_lanes(k->dtype, x, to, lanes)), sum);
    store_lanes(k->dtype, dx, to, sum, lanes);
}

LS_CLONES static void backward_plane(const up_sampling2d_kernel *k, const void *dy, const void *x, void *dx) {
    for (int64_t h = 0; h < k->height; h++)
        for (int64_t w = 0; w < k->width; w++) {
            int64_t from = (h * k->rows * k->width + w) * k->columns * k->block, to = (h * k->width + w) * k->block;
            int64_t c = 0;
            for (; c + 16 <= k->block; c += 16) add_rectangle(k, dy, x, dx, from + c, to + c, 16);
            if (c < k->block) add_rectangle(k, dy, x, dx, from + c, to + c, k->block - c);
        }
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const up_sampling2d_kernel *k = (const up_sampling2d_kernel *)kernel;
    int64_t plane = k->height * k->width * k->block * (int64_t)ls_dtype_size(k->dtype);
    int64_t out_plane = plane * k->rows * k->columns;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->planes; p++) {
        if (k->backward)
            backward_plane(k, (const char *)args[LS_ARG_DY] + p * out_plane,
                           k->mask_dx ? (const char *)args[LS_ARG_X] + p * plane : NULL,
                           (char *)args[LS_ARG_DX] + p * plane);
        else
            forward_plane(k, (const char *)args[LS_ARG_X] + p * plane, (char *)args[LS_ARG_Y] + p * out_plane);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_up_sampling2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const int *size = LS_ATTRS(ls_up_sampling2d_attrs, &spec->attrs)->size;
    const int64_t *dim = spec->x[0].shape.dim;
    int backward = spec->pass == LS_PASS_BACKWARD_DATA, block;
    const ls_layout *x, *y;
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    up_sampling2d_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:up_sampling2d";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    if (backward && spec->mask_dx) k->base.layout[LS_ARG_X] = x;
    k->dtype = spec->x[0].dtype;
    k->planes = dim[0] * ((dim[3] + block - 1) / block);
    k->base.tiles = k->planes;
    k->height = dim[1], k->width = dim[2], k->block = block;
    k->rows = size[0], k->columns = size[1];
    k->backward = backward;
    k->mask_dx = spec->mask_dx && backward;
    k->threads = cpu->base.options.threads;
    *out = &k->base;
    return LS_OK;
}
