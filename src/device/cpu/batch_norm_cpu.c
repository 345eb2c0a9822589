// Batch normalization with what is fused to it, in vector loops over the layout the input comes in.
//
// A tile at a time: forward takes the statistics of a tile and then normalizes it, backward takes the sums of its gradients
// and then computes DX. The second pass finds the tile in the caches, unless it is larger than those. Tiles are also what
// threads share out, so that every sum has one order.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/batch_norm_loops.h"
#include "device/cpu/cpu.h"

enum { SMALL_PLANE = 32 << 10 };

typedef struct batch_norm_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t samples, channels, pixels;  // pixels: of all samples
    double share;                       // of one pixel
    float epsilon;
    int threads;
    // How tiles lie. Element e of a row belongs to the tile's channel e % period; tiles begin `pitch` elements apart.
    ls_norm_pass tile;
    int64_t tiles, pitch, period;
    uint8_t place[LS_NORM_ROW];  // ls__norm_place
    void (*run_tile)(const struct batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t);
} batch_norm_kernel;

// What forward leaves for backward, (C) each, from the first channel of a tile on. The rate is one over the deviation.
typedef struct statistics {
    float *mean, *rate, *variance;
} statistics;

static statistics kept_statistics(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    float *kept = (float *)args[LS_ARG_WORKSPACE] + t * k->period;
    return (statistics){kept, kept + k->channels, kept + 2 * k->channels};
}

static void rates(const batch_norm_kernel *k, const float *variance, int64_t count, float *rate) {
    for (int64_t i = 0; i < count; i++) rate[i] = (float)(1 / sqrt((double)variance[i] + (double)k->epsilon));
}

// How many channels there are in tile t; blocked layouts have room for more.
static int64_t tile_channels(const batch_norm_kernel *k, int64_t t) {
    int64_t left = k->channels - t * k->period;
    return left < k->period ? left : k->period;
}

// Where tile t begins in a tensor; NULL where the kernel does not use it.
static void *tile_at(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], ls_arg arg, int64_t t) {
    int64_t size = (int64_t)ls_dtype_size(k->dtype);
    return args[arg] && k->base.layout[arg] ? (char *)args[arg] + t * k->pitch * size : NULL;
}

static ls_norm_pass tile_begin(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    ls_norm_pass p = k->tile;
    if (p.row_stride != p.width) p.width = tile_channels(k, t);  // rows are cut out of longer ones
    p.x = tile_at(k, args, LS_ARG_X, t);
    p.x2 = tile_at(k, args, LS_ARG_X2, t);
    p.y = tile_at(k, args, LS_ARG_Y, t);
    p.dy = tile_at(k, args, LS_ARG_DY, t);
    p.dx = tile_at(k, args, LS_ARG_DX, t);
    p.dx2 = tile_at(k, args, LS_ARG_DX2, t);
    p.addend = tile_at(k, args, LS_ARG_ADDEND, t);
    return p;
}

// Writes a channel's value wherever a row has the channel.
static void spread(const batch_norm_kernel *k, float row[LS_NORM_ROW], int64_t channel, float value) {
    for (int64_t e = channel; e < LS_NORM_ROW; e += k->period) row[k->place[e]] = value;
}

static double gather(const batch_norm_kernel *k, const double row[LS_NORM_ROW], int64_t channel) {
    double sum = 0;
    for (int64_t e = channel; e < LS_NORM_ROW; e += k->period) sum += row[k->place[e]];
    return sum;
}

// What normalizing tile t needs to know, by element; zero for channels that are not there, whose elements then stay zero.
// `mean` and `rate` begin with the tile's first channel.
static void set_coefficients(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t, const float *mean,
                             const float *rate, ls_norm_pass *p) {
    const float *gamma = args[LS_ARG_W], *beta = args[LS_ARG_B];
    for (int64_t i = 0; i < k->period; i++) {
        int64_t c = t * k->period + i;
        int there = i < tile_channels(k, t);
        spread(k, p->mean, i, there ? mean[i] : 0);
        spread(k, p->scale, i, there ? gamma[c] * rate[i] : 0);
        spread(k, p->beta, i, there ? beta[c] : 0);
    }
}

// --- forward ---------------------------------------------------------------------------------------------------------

// Distances are taken from a number near a channel's mean, that of a few of its pixels: the sum of their squares then loses next
// to nothing when the square of their sum is taken out of it. Equal pixels have no distance at all.
static void take_statistics(const batch_norm_kernel *k, int64_t t, ls_norm_pass *p, statistics s) {
    int64_t channels = tile_channels(k, t);
    float near[LS_NORM_ROW];
    ls__norm_sample(k->dtype, p);
    for (int64_t i = 0; i < channels; i++) {
        near[i] = (float)(gather(k, p->sum[0], i) / gather(k, p->sum[1], i));
        spread(k, p->mean, i, near[i]);
    }
    memset(p->sum, 0, sizeof p->sum);
    ls__norm_moments(k->dtype, p);
    for (int64_t i = 0; i < channels; i++) {
        double distance = gather(k, p->sum[0], i) * k->share;
        double variance = gather(k, p->sum[1], i) * k->share - distance * distance;
        s.mean[i] = (float)((double)near[i] + distance);
        s.variance[i] = (float)(variance > 0 ? variance : 0);
    }
    rates(k, s.variance, channels, s.rate);
}

static void train_tile(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    ls_norm_pass p = tile_begin(k, args, t);
    statistics s = kept_statistics(k, args, t);
    take_statistics(k, t, &p, s);
    set_coefficients(k, args, t, s.mean, s.rate, &p);
    ls__norm_forward(k->dtype, &p);
}

static void infer_tile(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    ls_norm_pass p = tile_begin(k, args, t);
    const float *mean = (const float *)args[LS_ARG_MEAN] + t * k->period;
    const float *variance = (const float *)args[LS_ARG_VARIANCE] + t * k->period;
    float rate[LS_NORM_ROW];
    rates(k, variance, tile_channels(k, t), rate);
    set_coefficients(k, args, t, mean, rate, &p);
    ls__norm_forward(k->dtype, &p);
}

// --- backward --------------------------------------------------------------------------------------------------------

static void backward_tile(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t t) {
    ls_norm_pass p = tile_begin(k, args, t);
    statistics s = kept_statistics(k, args, t);
    float *dw = (float *)args[LS_ARG_DW] + t * k->period, *db = (float *)args[LS_ARG_DB] + t * k->period;
    float *dmean = (float *)args[LS_ARG_DMEAN] + t * k->period;
    float *dvariance = (float *)args[LS_ARG_DVARIANCE] + t * k->period;
    if (!p.relu && p.dx2 == p.dy) p.dx2 = NULL;  // they are the same
    set_coefficients(k, args, t, s.mean, s.rate, &p);
    ls__norm_backward_sums(k->dtype, &p);
    for (int64_t i = 0; i < tile_channels(k, t); i++) {
        double sum = gather(k, p.sum[0], i), scaled = gather(k, p.sum[1], i) * (double)s.rate[i];
        db[i] = (float)sum;
        dw[i] = (float)scaled;
        dmean[i] = (float)k->samples * s.mean[i];
        dvariance[i] = (float)k->samples * s.variance[i];
        spread(k, p.dy_mean, i, (float)(sum * k->share));
        spread(k, p.slope, i, (float)(scaled * (double)s.rate[i] * k->share));
    }
    ls__norm_backward_data(k->dtype, &p);
}

// --- the kernel ------------------------------------------------------------------------------------------------------

static ls_status run(ls_kernel *kernel, void *const args[LS_ARG_COUNT]) {
    const batch_norm_kernel *k = (const batch_norm_kernel *)kernel;
    if (k->threads <= 1) {
        for (int64_t t = 0; t < k->tiles; t++) k->run_tile(k, args, t);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads)
    for (int64_t t = 0; t < k->tiles; t++) k->run_tile(k, args, t);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// Planes of `plane` elements that follow each other at `stride`, channels repeating with the period throughout.
static void set_planes(batch_norm_kernel *k, int64_t runs, int64_t stride, int64_t plane) {
    k->tile.runs = runs;
    k->tile.run_stride = stride;
    k->tile.rows = plane / LS_NORM_ROW;
    k->tile.row_stride = k->tile.width = LS_NORM_ROW;
    k->tile.tail = plane % LS_NORM_ROW;
    // Between small planes the hardware's prefetchers start anew each time: the next one is asked for while one is worked on.
    if (plane * (int64_t)ls_dtype_size(k->dtype) <= SMALL_PLANE) k->tile.ahead = stride;
}

// block: as of an image's layout; the number of channels for anything row-major.
static void set_tiles(batch_norm_kernel *k, int64_t block) {
    if (block != k->channels) {
        int64_t blocks = (k->channels + block - 1) / block, plane = k->pixels / k->samples * block;
        k->period = block;
        k->tiles = blocks;
        k->pitch = plane;
        set_planes(k, k->samples, blocks * plane, plane);
    } else if (LS_NORM_ROW % k->channels == 0) {
        k->period = k->channels;
        k->tiles = 1;
        set_planes(k, 1, 0, k->pixels * k->channels);
    } else {
        k->period = k->pitch = LS_NORM_ROW;
        k->tiles = (k->channels + LS_NORM_ROW - 1) / LS_NORM_ROW;
        k->tile.runs = 1;
        k->tile.rows = k->pixels;
        k->tile.row_stride = k->channels;
        k->tile.width = LS_NORM_ROW;
    }
}

static ls_status set_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, int64_t *block) {
    int backward = spec->pass == LS_PASS_BACKWARD_DATA, relu = spec->attrs.activation == LS_ACTIVATION_RELU;
    const ls_layout *x, *y, *vector, **layout = kernel->layout;
    int image_block = 0;
    if (spec->x.ndim == 4)
        LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &image_block));
    else
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x, spec->x_dtype, 0, &x));
    int64_t channels = spec->x.dim[spec->x.ndim - 1];
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, LS_SHAPE(channels), LS_DTYPE_F32, 0, &vector));
    *block = spec->x.ndim == 4 ? image_block : channels;
    layout[LS_ARG_X] = x;
    layout[LS_ARG_W] = layout[LS_ARG_B] = vector;
    if (!backward || (spec->residual && relu)) layout[LS_ARG_Y] = x;
    if (spec->residual) layout[backward ? LS_ARG_DX2 : LS_ARG_X2] = x;
    if (spec->pass == LS_PASS_INFERENCE) layout[LS_ARG_MEAN] = layout[LS_ARG_VARIANCE] = vector;
    if (!backward) return LS_OK;
    layout[LS_ARG_DX] = layout[LS_ARG_DY] = x;
    if (spec->addend) layout[LS_ARG_ADDEND] = x;
    layout[LS_ARG_DW] = layout[LS_ARG_DB] = layout[LS_ARG_DMEAN] = layout[LS_ARG_DVARIANCE] = vector;
    return LS_OK;
}

// All passes read an element of each tensor before they write it, and the sums of a tile are taken before its outputs are
// written. Sums write DX2, so with a residual DY cannot also be DX.
static void set_in_place(const ls_kernel_spec *spec, ls_kernel *kernel) {
    if (spec->pass != LS_PASS_BACKWARD_DATA) {
        ls__cpu_in_place(kernel, LS_ARG_Y, LS_ARG_X);
        if (spec->residual) ls__cpu_in_place(kernel, LS_ARG_Y, LS_ARG_X2);
        return;
    }
    if (spec->addend) ls__cpu_in_place(kernel, LS_ARG_DX, LS_ARG_ADDEND);
    ls__cpu_in_place(kernel, spec->residual ? LS_ARG_DX2 : LS_ARG_DX, LS_ARG_DY);
    ls__cpu_in_place(kernel, LS_ARG_DX, LS_ARG_X);
}

ls_status ls__cpu_batch_norm_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    if ((spec->x_dtype != LS_DTYPE_F32 && spec->x_dtype != LS_DTYPE_BF16) || spec->y_dtype != spec->x_dtype ||
        spec->dy_dtype != spec->x_dtype)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "device cpu normalizes tensors of one type, fp32 or bf16: not from %s to %s",
                       ls_dtype_name(spec->x_dtype), ls_dtype_name(spec->y_dtype));
    batch_norm_kernel *k;
    int64_t block;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = set_layouts(cpu, spec, &k->base, &block);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = &ops;
    k->base.name = "loop:batch_norm";
    k->dtype = spec->x_dtype;
    k->samples = spec->x.dim[0];
    k->channels = spec->x.dim[spec->x.ndim - 1];
    k->pixels = ls_shape_count(spec->x) / k->channels;
    k->share = 1 / (double)k->pixels;
    k->epsilon = spec->attrs.epsilon;
    k->threads = cpu->base.options.threads;
    k->tile.relu = spec->attrs.activation == LS_ACTIVATION_RELU;
    k->tile.mask_dx = spec->mask_dx;
    k->run_tile = spec->pass == LS_PASS_TRAINING    ? train_tile
                  : spec->pass == LS_PASS_INFERENCE ? infer_tile
                                                    : backward_tile;
    set_tiles(k, block);
    for (int e = 0; e < LS_NORM_ROW; e++) k->place[e] = (uint8_t)ls__norm_place(k->dtype, e);
    set_in_place(spec, &k->base);
    if (spec->pass != LS_PASS_INFERENCE) k->base.workspace_bytes = 3 * k->channels * (int64_t)sizeof(float);
    *out = &k->base;
    return LS_OK;
}
