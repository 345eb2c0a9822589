// Group normalization, a sample at a time: sums of each channel over the pixels, as they come, then of each group over its channels; in double
// between one rounding and the next. Forward keeps mean and one over the deviation of each sample's channels. Gradients of parameters are
// summed in a fixed number of pieces of samples, which are what threads share out.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/blocks_impl.h"
#include "device/cpu/cpu.h"

enum { PIECES = 32 };

typedef struct group_norm_kernel {
    ls_kernel base;
    ls_dtype dtype;
    int64_t samples, pixels, channels, wide, pieces;  // wide: channels of a group
    int64_t room;                                     // channels up to a whole block
    double epsilon;
    int threads;
} group_norm_kernel;

static int64_t count_at(const group_norm_kernel *k, int64_t c) {
    return k->channels - c < BLOCK ? k->channels - c : BLOCK;
}

// sums[c] = the sum over the pixels of x - mean[c] (NULL: of x), or of its square.
LS_CLONES static void sum_pixels(const group_norm_kernel *k, const void *x, int64_t at, const double *mean,
                                 double *sums) {
    float v[BLOCK];
    memset(sums, 0, (size_t)k->room * sizeof *sums);
    for (int64_t p = 0; p < k->pixels; p++)
        for (int64_t c = 0; c < k->channels; c += BLOCK) {
            load_block(k->dtype, x, at + p * k->channels + c, count_at(k, c), v);
            if (!mean)
                for (int j = 0; j < BLOCK; j++) sums[c + j] += (double)v[j];
            else
                for (int j = 0; j < BLOCK; j++)
                    sums[c + j] += ((double)v[j] - mean[c + j]) * ((double)v[j] - mean[c + j]);
        }
}

// Each channel's sum becomes the mean over all elements of its group.
static void share_groups(const group_norm_kernel *k, double *sums) {
    double share = 1 / (double)(k->wide * k->pixels);
    for (int64_t g = 0; g < k->channels; g += k->wide) {
        double sum = 0;
        for (int64_t c = g; c < g + k->wide; c++) sum += sums[c];
        for (int64_t c = g; c < g + k->wide; c++) sums[c] = sum * share;
    }
}

// scratch: mean, rate (room).
LS_CLONES static void forward_sample(const group_norm_kernel *k, const void *x, void *y, const float *gamma,
                                     const float *beta, int64_t n, double *mean, double *kept) {
    float v[BLOCK], g[BLOCK], b[BLOCK];
    int64_t at = n * k->pixels * k->channels;
    double *rate = mean + k->room;
    sum_pixels(k, x, at, NULL, mean);
    share_groups(k, mean);
    sum_pixels(k, x, at, mean, rate);
    share_groups(k, rate);
    for (int64_t c = 0; c < k->channels; c++) rate[c] = 1 / sqrt(rate[c] + k->epsilon);
    for (int64_t p = 0; p < k->pixels; p++)
        for (int64_t c = 0; c < k->channels; c += BLOCK) {
            int64_t count = count_at(k, c), i = at + p * k->channels + c;
            load_block(k->dtype, x, i, count, v);
            load_block(LS_DTYPE_F32, gamma, c, count, g);
            load_block(LS_DTYPE_F32, beta, c, count, b);
            for (int j = 0; j < BLOCK; j++)
                v[j] = (float)(((double)v[j] - mean[c + j]) * rate[c + j] * (double)g[j] + (double)b[j]);
            store_block(k->dtype, y, i, count, v);
        }
    if (!kept) return;
    memcpy(kept + n * 2 * k->channels, mean, (size_t)k->channels * sizeof *mean);
    memcpy(kept + n * 2 * k->channels + k->channels, rate, (size_t)k->channels * sizeof *rate);
}

// What backward needs of a sample's channels; each (room).
typedef struct channels {
    double *mean, *rate, *gamma, *sum, *dot, *dgamma, *dbeta;
} channels;

static channels channels_of(const group_norm_kernel *k, double *scratch) {
    int64_t r = k->room;
    return (channels){.dgamma = scratch,
                      .dbeta = scratch + r,
                      .mean = scratch + 2 * r,
                      .rate = scratch + 3 * r,
                      .gamma = scratch + 4 * r,
                      .sum = scratch + 5 * r,
                      .dot = scratch + 6 * r};
}

// Sums over the pixels of dy, and of dy times what is normalized.
LS_CLONES static void sum_gradients(const group_norm_kernel *k, const void *x, const void *dy, int64_t at,
                                    const channels *s) {
    float v[BLOCK], d[BLOCK];
    memset(s->sum, 0, (size_t)(2 * k->room) * sizeof *s->sum);  // and dot
    for (int64_t p = 0; p < k->pixels; p++)
        for (int64_t c = 0; c < k->channels; c += BLOCK) {
            int64_t count = count_at(k, c), i = at + p * k->channels + c;
            load_block(k->dtype, x, i, count, v);
            load_block(k->dtype, dy, i, count, d);
            for (int j = 0; j < BLOCK; j++) {
                s->sum[c + j] += (double)d[j];
                s->dot[c + j] += (double)d[j] * (((double)v[j] - s->mean[c + j]) * s->rate[c + j]);
            }
        }
}

LS_CLONES static void backward_sample(const group_norm_kernel *k, const void *x, const void *dy, void *dx, int64_t n,
                                      const channels *s) {
    float v[BLOCK], d[BLOCK];
    int64_t at = n * k->pixels * k->channels;
    sum_gradients(k, x, dy, at, s);
    for (int64_t c = 0; c < k->channels; c++) {
        s->dgamma[c] += s->dot[c];
        s->dbeta[c] += s->sum[c];
        s->sum[c] *= s->gamma[c];
        s->dot[c] *= s->gamma[c];
    }
    share_groups(k, s->sum);
    share_groups(k, s->dot);
    for (int64_t p = 0; p < k->pixels; p++)
        for (int64_t c = 0; c < k->channels; c += BLOCK) {
            int64_t count = count_at(k, c), i = at + p * k->channels + c;
            load_block(k->dtype, x, i, count, v);
            load_block(k->dtype, dy, i, count, d);
            for (int j = 0; j < BLOCK; j++) {
                double normalized = ((double)v[j] - s->mean[c + j]) * s->rate[c + j];
                v[j] = (float)(((double)d[j] * s->gamma[c + j] - s->sum[c + j] - normalized * s->dot[c + j]) *
                               s->rate[c + j]);
            }
            store_block(k->dtype, dx, i, count, v);
        }
}

enum { FORWARD_ROWS = 2, BACKWARD_ROWS = 7 };  // of `room` doubles that a piece has

static ls_status run_forward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const group_norm_kernel *k = (const group_norm_kernel *)kernel;
    double *scratch = args[LS_ARG_SCRATCH], *kept = kernel->workspace_bytes ? args[LS_ARG_WORKSPACE] : NULL;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->pieces; p++)
        for (int64_t n = k->samples * p / k->pieces; n < k->samples * (p + 1) / k->pieces; n++)
            forward_sample(k, args[LS_ARG_X], args[LS_ARG_Y], args[LS_ARG_W], args[LS_ARG_W + 1], n,
                           scratch + p * FORWARD_ROWS * k->room, kept);
    return LS_OK;
}

static void backward_piece(const group_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t p) {
    const double *kept = args[LS_ARG_WORKSPACE];
    double *scratch = (double *)args[LS_ARG_SCRATCH] + p * BACKWARD_ROWS * k->room;
    const float *gamma = args[LS_ARG_W];
    channels s = channels_of(k, scratch);
    memset(scratch, 0, (size_t)(BACKWARD_ROWS * k->room) * sizeof *scratch);
    for (int64_t c = 0; c < k->channels; c++) s.gamma[c] = (double)gamma[c];
    for (int64_t n = k->samples * p / k->pieces; n < k->samples * (p + 1) / k->pieces; n++) {
        memcpy(s.mean, kept + n * 2 * k->channels, (size_t)k->channels * sizeof *s.mean);
        memcpy(s.rate, kept + n * 2 * k->channels + k->channels, (size_t)k->channels * sizeof *s.rate);
        backward_sample(k, args[LS_ARG_X], args[LS_ARG_DY], args[LS_ARG_DX], n, &s);
    }
}

static ls_status run_backward(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const group_norm_kernel *k = (const group_norm_kernel *)kernel;
    double *sums = args[LS_ARG_SCRATCH];
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
    for (int64_t p = 0; p < k->pieces; p++) backward_piece(k, args, p);
    for (int64_t p = 1; p < k->pieces; p++)
        for (int64_t i = 0; i < 2 * k->room; i++) sums[i] += sums[p * BACKWARD_ROWS * k->room + i];
    for (int64_t c = 0; c < k->channels; c++) {
        ((float *)args[LS_ARG_DW])[c] = (float)sums[c];
        ((float *)args[LS_ARG_DW + 1])[c] = (float)sums[k->room + c];
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

ls_status ls__cpu_group_norm_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops forward_ops = {run_forward, destroy}, backward_ops = {run_backward, destroy};
    const ls_group_norm_attrs *a = LS_ATTRS(ls_group_norm_attrs, &spec->attrs);
    int backward = spec->pass == LS_PASS_BACKWARD;
    group_norm_kernel *k;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    ls_status status = ls__cpu_norm_layouts(cpu, spec, &k->base);
    if (status != LS_OK) {
        free(k);
        return status;
    }
    k->base.ops = backward ? &backward_ops : &forward_ops;
    k->base.name = "loop:group_norm";
    k->dtype = spec->x[0].dtype;
    k->samples = spec->x[0].shape.dim[0];
    k->channels = spec->w[0].shape.dim[0];
    k->pixels = ls_shape_count(spec->x[0].shape) / k->samples / k->channels;
    k->wide = a->groups < 0 ? 1 : k->channels / a->groups;
    k->room = ls_round_up(k->channels, BLOCK);
    k->pieces = k->samples < PIECES ? k->samples : PIECES;
    k->epsilon = (double)a->epsilon;
    k->threads = cpu->base.options.threads;
    k->base.tiles = k->pieces;
    if (spec->pass != LS_PASS_INFERENCE)
        k->base.workspace_bytes = k->samples * 2 * k->channels * (int64_t)sizeof(double);
    k->base.scratch_bytes = k->pieces * (backward ? BACKWARD_ROWS : FORWARD_ROWS) * k->room * (int64_t)sizeof(double);
    ls__cpu_in_place(&k->base, backward ? LS_ARG_DX : LS_ARG_Y, backward ? LS_ARG_DY : LS_ARG_X);
    *out = &k->base;
    return LS_OK;
}
