// Images without rows and columns at their borders, and in backward zeros there: rows are copied whole, in the layout the input comes in.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/loops.h"

// Images whose channels lie in innermost blocks: (planes, height, width, block); out_height and out_width are what is left.
typedef struct cropping2d_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t planes, height, width, out_height, out_width, block;
    int64_t top, left;
    int backward, mask_dx;
} cropping2d_kernel;

// Copies the rows of one plane; `x` and `y` are its beginnings before and after.
static void forward_plane(const cropping2d_kernel *k, const char *x, char *y) {
    int64_t pixel = k->block * (int64_t)ls_dtype_size(k->dtype), row = k->width * pixel, out_row = k->out_width * pixel;
    x += k->top * row + k->left * pixel;
    for (int64_t h = 0; h < k->out_height; h++, x += row, y += out_row) memcpy(y, x, (size_t)out_row);
}

static void backward_plane(const cropping2d_kernel *k, char *dx, const char *dy, const char *x) {
    int64_t pixel = k->block * (int64_t)ls_dtype_size(k->dtype), row = k->width * pixel, out_row = k->out_width * pixel;
    int64_t bottom = k->height - k->top - k->out_height, from = k->top * row + k->left * pixel;
    memset(dx, 0, (size_t)(k->top * row));
    for (int64_t h = 0; h < k->out_height; h++, from += row, dy += out_row) {
        memset(dx + from - k->left * pixel, 0, (size_t)(k->left * pixel));
        if (k->mask_dx)
            ls__loop_mask(k->dtype, dx + from, dy, x + from, k->out_width * k->block);
        else
            memcpy(dx + from, dy, (size_t)out_row);
        memset(dx + from + out_row, 0, (size_t)(row - out_row - k->left * pixel));
    }
    memset(dx + (k->height - bottom) * row, 0, (size_t)(bottom * row));
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const cropping2d_kernel *k = (const cropping2d_kernel *)kernel;
    int64_t size = (int64_t)ls_dtype_size(k->dtype), plane = k->height * k->width * k->block * size,
            out_plane = k->out_height * k->out_width * k->block * size;
    for (int64_t p = 0; p < k->planes; p++) {
        if (k->backward)
            backward_plane(k, (char *)args[LS_ARG_DX] + p * plane, (char *)args[LS_ARG_DY] + p * out_plane,
                           k->mask_dx ? (char *)args[LS_ARG_X] + p * plane : NULL);
        else
            forward_plane(k, (char *)args[LS_ARG_X] + p * plane, (char *)args[LS_ARG_Y] + p * out_plane);
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_cropping2d_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int backward = spec->pass == LS_PASS_BACKWARD_DATA;
    const ls_layout *x, *y;
    int block;
    LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &block));
    cropping2d_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:cropping2d";
    k->base.layout[backward ? LS_ARG_DX : LS_ARG_X] = x;
    k->base.layout[backward ? LS_ARG_DY : LS_ARG_Y] = y;
    if (backward && spec->mask_dx) k->base.layout[LS_ARG_X] = x;
    k->dtype = spec->x[0].dtype;
    k->planes = spec->x[0].shape.dim[0] * ((spec->x[0].shape.dim[3] + block - 1) / block);
    k->base.tiles = k->planes;
    k->height = spec->x[0].shape.dim[1], k->width = spec->x[0].shape.dim[2];
    k->out_height = spec->y[0].shape.dim[1], k->out_width = spec->y[0].shape.dim[2];
    k->block = block;
    const int(*cropping)[2] = LS_ATTRS(ls_cropping2d_attrs, &spec->attrs)->cropping;
    k->top = cropping[0][0], k->left = cropping[1][0];
    k->backward = backward;
    k->mask_dx = spec->mask_dx;
    *out = &k->base;
    return LS_OK;
}
