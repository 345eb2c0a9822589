#include "device/cpu/bias_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/loops_impl.h"

ls_status ls__cpu_filters_block(ls_cpu *cpu, const ls_layout *layout, int64_t *block) {
    const ls_layout *one;
    int ndim = layout->shape.ndim;
    *block = 0;
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, layout->shape, layout->dtype, 0, &one));
    if (one == layout) *block = layout->shape.dim[ndim - 1];
    for (int i = 16; i >= 8 && !*block; i /= 2) {
        LS_TRY(ls__cpu_layout_tag(cpu, layout->shape, layout->dtype, 0, ls__cpu_blocked_tag(ndim, i), &one));
        if (one == layout) *block = i;
    }
    return LS_OK;
}

ls_bias_sums ls__bias_sums(const ls_cpu *cpu, ls_shape y, ls_dtype dtype, int64_t block) {
    int64_t samples = y.dim[0], filters = y.dim[y.ndim - 1];
    return (ls_bias_sums){.dtype = dtype,
                          .samples = samples,
                          .planes = samples * ((filters + block - 1) / block),
                          .pixels = ls_shape_count(y) / samples / filters,
                          .block = block,
                          .filters = filters,
                          .threads = cpu->base.options.threads};
}

static int64_t block_room(const ls_bias_sums *k) { return ls_round_up(k->block, 16); }

int64_t ls__bias_sums_bytes(const ls_bias_sums *k) {
    return k->planes / k->samples * block_room(k) * (int64_t)sizeof(double);
}

// Adds the pixels of a plane up, one after the other: sums (block).
LS_CLONES static void add_pixels(ls_dtype dtype, const void *dy, double *sums, int64_t pixels, int64_t block) {
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = 0; c < block; c += 16) {
            int64_t lanes = block - c < 16 ? block - c : 16;
            float v[16];
            store16(LS_DTYPE_F32, v, 0, load_lanes(dtype, dy, p * block + c, lanes));
            for (int l = 0; l < 16; l++) sums[c + l] += (double)v[l];
        }
}

void ls__bias_sums_run(const ls_bias_sums *k, const void *dy, float *dbias, void *scratch) {
    int64_t blocks = k->planes / k->samples, room = block_room(k);
    int64_t plane = k->pixels * k->block * (int64_t)ls_dtype_size(k->dtype);
    double *sums = scratch;
    memset(sums, 0, (size_t)(blocks * room) * sizeof *sums);
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t n = 0; n < k->samples; n++)
            add_pixels(k->dtype, (const char *)dy + (n * blocks + b) * plane, sums + b * room, k->pixels, k->block);
    for (int64_t f = 0; f < k->filters; f++) dbias[f] = (float)sums[f / k->block * room + f % k->block];
}

// --- the kernel of a bias alone --------------------------------------------------------------------------------------

typedef struct bias_kernel {
    ls_kernel base;
    ls_bias_sums sums;
} bias_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const bias_kernel *k = (const bias_kernel *)kernel;
    ls__bias_sums_run(&k->sums, args[LS_ARG_DY], args[LS_ARG_DW + 1], args[LS_ARG_SCRATCH]);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_bias_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    const ls_layout *dy = spec->layout[LS_ARG_DY];
    bias_kernel *k;
    int64_t block;
    *out = NULL;
    if (spec->w_count != 2 || spec->frozen != 1 || !dy || spec->y[0].shape.ndim < 4) return LS_OK;
    LS_TRY(ls__cpu_filters_block(cpu, dy, &block));
    if (!block) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = "loop:bias";
    k->sums = ls__bias_sums(cpu, spec->y[0].shape, dy->dtype, block);
    k->base.tiles = k->sums.planes / k->sums.samples;
    k->base.layout[LS_ARG_DY] = dy;
    k->base.scratch_bytes = ls_round_up(ls__bias_sums_bytes(&k->sums), LS_ALIGN);
    ls_status status =
        cpu->base.ops->layout_plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &k->base.layout[LS_ARG_DW + 1]);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
