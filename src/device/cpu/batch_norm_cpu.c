// Batch normalization with what is fused to it, in vector loops over the layout the input comes in.
//
// Blocked layouts, a tile (a block of channels of all samples) at a time: forward takes its statistics and then normalizes it,
// backward takes the sums of its gradients and then computes DX. The second sweep finds the tile in the caches, unless it is
// larger than those. Where planes are small, neighbouring tiles go together, sample by sample, as they lie in memory: a pass that jumps
// from plane to plane waits for each. Row-major images, all tiles together, a panel of a few pixels after the other: a tile alone would
// be a stripe through memory. Either way tiles are what threads share out, so that every sum has one order; in the sweep that computes
// outputs nothing is summed, and threads of row-major images share out its panels.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/batch_norm_loops.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"

enum {
    // Bytes that lie in one piece, of all tensors that are summed: the hardware's prefetchers are at home in those.
    PIECE = 256 << 10,
    TURN_ROWS = 16,    // a tile's turn is not shorter than so many rows, if it can be helped
    AHEAD = 512,       // bytes
    BOUND_ROWS = 96,   // of a tile
    PANEL = 64 << 10,  // bytes of each tensor: several, and those of the next panel, fit into a second-level cache
};

// The parameters in their order, from that of beta on; gamma comes before them or is not there.
enum { BETA, MEAN, VARIANCE };

typedef struct group group;
typedef void norm_loop(ls_norm_pass *p);

typedef struct batch_norm_kernel {
    ls_kernel base;
    ls_dtype dtype;
    const ls_norm_loops *loops;
    int64_t samples, channels, pixels;  // pixels: of all samples
    double share;                       // of one pixel
    float epsilon;
    int threads, gamma;  // gamma 1: there is one
    int bounded;         // backward looks for bounds
    // How tiles lie. Element e of a row belongs to the tile's channel e % period; tiles begin `pitch` elements apart.
    ls_norm_pass tile;
    int64_t tiles, pitch, period;
    int64_t panel_rows;               // 0: no panels
    int64_t together, turn;           // else so many tiles at a time, of so many samples each in turn
    uint8_t place[LS_NORM_ROW];       // ls__norm_place
    void (*prepare)(const group *g);  // statistics, sums, and what OUTPUT is to know
    norm_loop *output;
} batch_norm_kernel;

// Tiles that are done together, one pass of the loops each.
struct group {
    const batch_norm_kernel *k;
    void *const *args;
    int64_t first, count;
    ls_norm_pass *pass;  // (count)
};

// What forward leaves for backward, (C) each, from the first channel of a tile on. The rate is one over the deviation.
typedef struct statistics {
    float *mean, *rate, *variance;
} statistics;

static statistics kept_statistics(const group *g, int64_t t) {
    float *kept = (float *)g->args[LS_ARG_WORKSPACE] + t * g->k->period;
    return (statistics){kept, kept + g->k->channels, kept + 2 * g->k->channels};
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
static void *tile_at(const group *g, int arg, int64_t t) {
    int64_t size = (int64_t)ls_dtype_size(g->k->dtype);
    return g->args[arg] && g->k->base.layout[arg] ? (char *)g->args[arg] + t * g->k->pitch * size : NULL;
}

// A parameter (BETA, ...), or its gradient, from the first channel of tile t on.
static float *channels_at(const group *g, ls_arg first, int which, int64_t t) {
    return (float *)g->args[(int)first + g->k->gamma + which] + t * g->k->period;
}

// The same of gamma; NULL where there is none.
static float *gamma_at(const group *g, ls_arg first, int64_t t) {
    return g->k->gamma ? (float *)g->args[first] + t * g->k->period : NULL;
}

static void begin(const group *g) {
    for (int64_t i = 0, t = g->first; i < g->count; i++, t++) {
        ls_norm_pass *p = &g->pass[i];
        *p = g->k->tile;
        if (g->k->panel_rows) p->width = tile_channels(g->k, t);  // rows are cut out of longer ones
        p->x = tile_at(g, LS_ARG_X, t);
        p->x2 = tile_at(g, LS_ARG_RESIDUAL, t);
        p->y = tile_at(g, LS_ARG_Y, t);
        p->dy = tile_at(g, LS_ARG_DY, t);
        p->dx = tile_at(g, LS_ARG_DX, t);
        p->dx2 = tile_at(g, LS_ARG_DRESIDUAL, t);
        if (!p->relu && p->dx2 == p->dy) p->dx2 = NULL;  // they are the same
        p->addend = tile_at(g, LS_ARG_ADDEND, t);
    }
}

static void sweep_planes(const group *g, norm_loop *loop) {
    const batch_norm_kernel *k = g->k;
    for (int64_t run = 0, runs; run < k->tile.runs; run += runs) {
        runs = g->count == 1 || k->tile.runs - run < k->turn ? k->tile.runs - run : k->turn;
        int last = run + runs == k->tile.runs;
        for (int64_t i = 0; i < g->count; i++) {
            ls_norm_pass *p = &g->pass[i];
            p->origin = run * k->tile.run_stride;
            if (k->tile.x_skip) p->x = (const char *)tile_at(g, LS_ARG_X, g->first + i) + run * k->tile.x_skip;
            p->runs = runs;
            p->open = !last;
            loop(p);
        }
    }
}

// While a loop is in one panel, the lines of the next are fetched: one after the other where the group has all of them, else each row its own.
static void sweep_panels(const group *g, int64_t first, int64_t end, norm_loop *loop) {
    const batch_norm_kernel *k = g->k;
    int whole = g->count == k->tiles && !k->tile.x_row_skip;
    for (int64_t row = first, rows; row < end; row += rows) {
        rows = end - row < k->panel_rows ? end - row : k->panel_rows;
        int last = row + 2 * rows > end;
        for (int64_t i = 0; i < g->count; i++) {
            ls_norm_pass *p = &g->pass[i];
            p->origin = row * k->channels;
            p->rows = rows;
            p->ahead = last ? 0 : rows * k->channels + (whole ? i * (rows - 1) * LS_NORM_ROW : 0);
            p->step_ahead = whole ? LS_NORM_ROW : k->channels;
            if (k->tile.x_row_skip) p->x = (const char *)tile_at(g, LS_ARG_X, g->first + i) + row * k->tile.x_row_skip;
            loop(p);
        }
    }
}

// Runs a loop over all of the tiles.
static void sweep(const group *g, norm_loop *loop) {
    if (g->k->panel_rows)
        sweep_panels(g, 0, g->k->pixels, loop);
    else
        sweep_planes(g, loop);
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
static void set_coefficients(const group *g, int64_t t, const float *mean, const float *rate) {
    const float *gamma = gamma_at(g, LS_ARG_W, t), *beta = channels_at(g, LS_ARG_W, BETA, t);
    ls_norm_pass *p = &g->pass[t - g->first];
    int64_t channels = tile_channels(g->k, t);
    for (int64_t i = 0; i < g->k->period; i++) {
        spread(g->k, p->mean, i, i < channels ? mean[i] : 0);
        spread(g->k, p->scale, i, i >= channels ? 0 : gamma ? gamma[i] * rate[i] : rate[i]);
        spread(g->k, p->beta, i, i < channels ? beta[i] : 0);
    }
}

// --- forward ---------------------------------------------------------------------------------------------------------

// Distances are taken from a number near a channel's mean, that of a few of its pixels: the sum of their squares then loses next
// to nothing when the square of their sum is taken out of it. Equal pixels have no distance at all.
static void begin_statistics(const group *g, int64_t t) {
    const batch_norm_kernel *k = g->k;
    ls_norm_pass *p = &g->pass[t - g->first];
    k->loops->sample(p);
    for (int64_t i = 0; i < tile_channels(k, t); i++)
        spread(k, p->mean, i, (float)(gather(k, p->sum[0], i) / gather(k, p->sum[1], i)));
    memset(p->sum, 0, sizeof p->sum);
}

static void end_statistics(const group *g, int64_t t) {
    const batch_norm_kernel *k = g->k;
    const ls_norm_pass *p = &g->pass[t - g->first];
    statistics s = kept_statistics(g, t);
    int64_t channels = tile_channels(k, t);
    for (int64_t i = 0; i < channels; i++) {
        double distance = gather(k, p->sum[0], i) * k->share;
        double variance = gather(k, p->sum[1], i) * k->share - distance * distance;
        s.mean[i] = (float)((double)p->mean[k->place[i]] + distance);
        s.variance[i] = (float)(variance > 0 ? variance : 0);
    }
    rates(k, s.variance, channels, s.rate);
    set_coefficients(g, t, s.mean, s.rate);
}

static void take_statistics(const group *g) {
    for (int64_t i = 0; i < g->count; i++) begin_statistics(g, g->first + i);
    sweep(g, g->k->loops->moments);
    for (int64_t i = 0; i < g->count; i++) end_statistics(g, g->first + i);
}

static void read_statistics(const group *g) {
    for (int64_t i = 0, t = g->first; i < g->count; i++, t++) {
        float rate[LS_NORM_ROW];
        rates(g->k, channels_at(g, LS_ARG_W, VARIANCE, t), tile_channels(g->k, t), rate);
        set_coefficients(g, t, channels_at(g, LS_ARG_W, MEAN, t), rate);
    }
}

// --- backward --------------------------------------------------------------------------------------------------------

static void end_sums(const group *g, int64_t t) {
    const batch_norm_kernel *k = g->k;
    ls_norm_pass *p = &g->pass[t - g->first];
    statistics s = kept_statistics(g, t);
    float *dgamma = gamma_at(g, LS_ARG_DW, t);
    for (int64_t i = 0; i < tile_channels(k, t); i++) {
        double sum = gather(k, p->sum[0], i), scaled = gather(k, p->sum[1], i) * (double)s.rate[i];
        channels_at(g, LS_ARG_DW, BETA, t)[i] = (float)sum;
        if (dgamma) dgamma[i] = (float)scaled;
        channels_at(g, LS_ARG_DW, MEAN, t)[i] = (float)k->samples * s.mean[i];
        channels_at(g, LS_ARG_DW, VARIANCE, t)[i] = (float)k->samples * s.variance[i];
        spread(k, p->dy_mean, i, (float)(sum * k->share));
        spread(k, p->slope, i, (float)(scaled * (double)s.rate[i] * k->share));
    }
}

static void take_sums(const group *g) {
    for (int64_t i = 0, t = g->first; i < g->count; i++, t++) {
        statistics s = kept_statistics(g, t);
        set_coefficients(g, t, s.mean, s.rate);
        if (g->k->bounded) g->k->loops->bounds(&g->pass[i]);
    }
    sweep(g, g->k->loops->backward_sums);
    for (int64_t i = 0; i < g->count; i++) end_sums(g, g->first + i);
}

// --- the kernel ------------------------------------------------------------------------------------------------------

// Tiles [first, last) of blocked layouts, from the first sweep to the last.
static void run_tiles(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t first, int64_t last) {
    ls_norm_pass one;
    group g = {.k = k, .args = args, .first = first, .count = last - first};
    g.pass = k->base.scratch_bytes ? (ls_norm_pass *)args[LS_ARG_SCRATCH] + first : &one;
    for (; g.first < last; g.first += k->together) {
        g.count = last - g.first < k->together ? last - g.first : k->together;
        begin(&g);
        k->prepare(&g);
        sweep(&g, k->output);
    }
}

// Tiles [first, last) of panels, up to OUTPUT.
static void prepare_tiles(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t first, int64_t last) {
    group g = {.k = k, .args = args, .first = first, .count = last - first};
    g.pass = (ls_norm_pass *)args[LS_ARG_SCRATCH] + first;
    begin(&g);
    k->prepare(&g);
}

// OUTPUT of part `i` of the rows; of several parts with passes of its own, behind those that are prepared.
static void output_rows(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT], int64_t i, int64_t parts) {
    ls_norm_pass *pass = args[LS_ARG_SCRATCH];
    if (parts > 1) pass = memcpy(pass + (i + 1) * k->tiles, pass, (size_t)k->tiles * sizeof *pass);
    group g = {.k = k, .args = args, .count = k->tiles, .pass = pass};
    sweep_panels(&g, k->pixels * i / parts, k->pixels * (i + 1) / parts, k->output);
}

static void run_panels(const batch_norm_kernel *k, void *const args[LS_ARG_COUNT]) {
    int64_t parts = k->threads < k->tiles ? k->threads : k->tiles;
    if (k->threads <= 1) {
        prepare_tiles(k, args, 0, k->tiles);
        output_rows(k, args, 0, 1);
        return;
    }
#pragma omp parallel for num_threads(k->threads) schedule(static, 1)
    for (int64_t i = 0; i < parts; i++) prepare_tiles(k, args, k->tiles * i / parts, k->tiles * (i + 1) / parts);
#pragma omp parallel for num_threads(k->threads) schedule(static, 1)
    for (int64_t i = 0; i < k->threads; i++) output_rows(k, args, i, k->threads);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const batch_norm_kernel *k = (const batch_norm_kernel *)kernel;
    if (k->panel_rows) {
        run_panels(k, args);
        return LS_OK;
    }
    int64_t parts = k->threads < k->tiles ? k->threads : k->tiles;
    if (parts <= 1) {
        run_tiles(k, args, 0, k->tiles);
        return LS_OK;
    }
#pragma omp parallel for num_threads(k->threads) schedule(static, 1)
    for (int64_t i = 0; i < parts; i++) run_tiles(k, args, k->tiles * i / parts, k->tiles * (i + 1) / parts);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// Planes of `plane` elements that follow each other at `stride`, channels repeating with the period throughout; `summed` tensors of them.
static void set_planes(batch_norm_kernel *k, int64_t runs, int64_t stride, int64_t plane, int summed) {
    k->tile.runs = runs;
    k->tile.run_stride = stride;
    k->tile.rows = plane / LS_NORM_ROW;
    k->tile.row_stride = k->tile.width = LS_NORM_ROW;
    k->tile.tail = plane % LS_NORM_ROW;
    int64_t size = (int64_t)ls_dtype_size(k->dtype);
    // Types that are converted keep the processor busy for so long that it does not look ahead far enough by itself.
    if (k->dtype != LS_DTYPE_F32) k->tile.ahead = AHEAD / size;
    k->tile.step_ahead = LS_NORM_ROW;
    k->together = (PIECE / (summed * size) + plane - 1) / plane;
    if (k->together > k->tiles) k->together = k->tiles;
    k->turn = k->tile.rows < TURN_ROWS ? (TURN_ROWS + k->tile.rows) / (k->tile.rows + 1) : 1;
}

// block: as of an image's layout; the number of channels for anything row-major.
static void set_tiles(batch_norm_kernel *k, int64_t block, int summed) {
    if (block != k->channels) {
        int64_t blocks = (k->channels + block - 1) / block, plane = k->pixels / k->samples * block;
        k->period = block;
        k->tiles = blocks;
        k->pitch = plane;
        set_planes(k, k->samples, blocks * plane, plane, summed);
    } else if (LS_NORM_ROW % k->channels == 0) {
        k->period = k->channels;
        k->tiles = 1;
        set_planes(k, 1, 0, k->pixels * k->channels, summed);
    } else {
        k->period = k->pitch = LS_NORM_ROW;
        k->tiles = (k->channels + LS_NORM_ROW - 1) / LS_NORM_ROW;
        k->tile.runs = 1;
        k->tile.rows = k->pixels;
        k->tile.row_stride = k->channels;
        k->panel_rows = PANEL / (k->channels * (int64_t)ls_dtype_size(k->dtype));
        k->panel_rows = k->panel_rows > 64 ? 64 : k->panel_rows < 16 ? 16 : k->panel_rows;
    }
}

// Samples of blocked layouts are runs, and pixels of panels are rows, which may be as far apart in X as they like.
static void set_apart(const ls_kernel_spec *spec, batch_norm_kernel *k) {
    int64_t skip = spec->apart ? spec->apart - k->base.layout[LS_ARG_X]->bytes / spec->pieces : 0;
    int rows = k->panel_rows && spec->pieces == k->pixels;
    int runs = !k->panel_rows && k->tile.runs == k->samples && spec->pieces == k->samples;
    if (spec->pass != LS_PASS_BACKWARD || skip <= 0 || !(rows || runs)) return;
    k->base.apart = spec->apart;
    *(rows ? &k->tile.x_row_skip : &k->tile.x_skip) = skip;
}

static ls_status set_layouts(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel *kernel, int64_t *block) {
    int backward = spec->pass == LS_PASS_BACKWARD, relu = spec->activation == LS_ACTIVATION_RELU;
    int learned = spec->w_count - 2;  // gamma, where there is one, and beta
    const ls_layout *x, *y, *vector, **layout = kernel->layout;
    int image_block = 0;
    if (spec->x[0].shape.ndim >= 4)
        LS_TRY(ls__cpu_image_layouts(cpu, spec, &x, &y, &image_block));
    else
        LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->x[0].shape, spec->x[0].dtype, 0, &x));
    int64_t channels = spec->x[0].shape.dim[spec->x[0].shape.ndim - 1];
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, LS_SHAPE(channels), LS_DTYPE_F32, 0, &vector));
    *block = spec->x[0].shape.ndim >= 4 ? image_block : channels;
    layout[LS_ARG_X] = x;
    for (int i = 0; i < learned; i++) layout[LS_ARG_W + i] = vector;
    if (!backward || (spec->residual && relu)) layout[LS_ARG_Y] = x;
    if (spec->residual) layout[backward ? LS_ARG_DRESIDUAL : LS_ARG_RESIDUAL] = x;
    for (int i = learned; i < spec->w_count && spec->pass == LS_PASS_INFERENCE; i++) layout[LS_ARG_W + i] = vector;
    if (!backward) return LS_OK;
    layout[LS_ARG_DX] = layout[LS_ARG_DY] = x;
    if (spec->addend) layout[LS_ARG_ADDEND] = x;
    for (int i = 0; i < spec->w_count; i++) layout[LS_ARG_DW + i] = vector;
    return LS_OK;
}

// All passes read an element of each tensor before they write it, and the sums of a tile are taken before its outputs are
// written. Sums write DX2, so with a residual DY cannot also be DX.
static void set_in_place(const ls_kernel_spec *spec, ls_kernel *kernel) {
    if (spec->pass != LS_PASS_BACKWARD) {
        ls__cpu_in_place(kernel, LS_ARG_Y, LS_ARG_X);
        if (spec->residual) ls__cpu_in_place(kernel, LS_ARG_Y, LS_ARG_RESIDUAL);
        return;
    }
    if (spec->addend) ls__cpu_in_place(kernel, LS_ARG_DX, LS_ARG_ADDEND);
    ls__cpu_in_place(kernel, spec->residual ? LS_ARG_DRESIDUAL : LS_ARG_DX, LS_ARG_DY);
    if (!kernel->apart) ls__cpu_in_place(kernel, LS_ARG_DX, LS_ARG_X);
}

ls_status ls__cpu_batch_norm_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    if ((spec->x[0].dtype != LS_DTYPE_F32 && spec->x[0].dtype != LS_DTYPE_BF16 && spec->x[0].dtype != LS_DTYPE_F16) ||
        spec->y[0].dtype != spec->x[0].dtype || spec->y[0].gradient != spec->x[0].dtype)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "device cpu normalizes tensors of one type, fp32, bf16 or fp16: not from %s to %s",
                       ls_dtype_name(spec->x[0].dtype), ls_dtype_name(spec->y[0].dtype));
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
    k->dtype = spec->x[0].dtype;
    k->loops = ls__norm_loops(k->dtype);
    if (k->dtype == LS_DTYPE_BF16 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) && ls__norm_loops_of_bf16())
        k->loops = ls__norm_loops_of_bf16();
    k->samples = spec->x[0].shape.dim[0];
    k->channels = spec->x[0].shape.dim[spec->x[0].shape.ndim - 1];
    k->pixels = ls_shape_count(spec->x[0].shape) / k->channels;
    k->share = 1 / (double)k->pixels;
    k->epsilon = LS_ATTRS(ls_batch_norm_attrs, &spec->attrs)->epsilon;
    k->threads = cpu->base.options.threads;
    k->gamma = spec->w_count == 4;
    k->tile.relu = spec->activation == LS_ACTIVATION_RELU    ? LS_NORM_RELU
                   : spec->activation == LS_ACTIVATION_RELU6 ? LS_NORM_RELU6
                                                             : LS_NORM_LINEAR;
    k->tile.mask_dx = spec->mask_dx;
    k->prepare = spec->pass == LS_PASS_TRAINING    ? take_statistics
                 : spec->pass == LS_PASS_INFERENCE ? read_statistics
                                                   : take_sums;
    k->output = spec->pass == LS_PASS_BACKWARD ? k->loops->backward_data : k->loops->forward;
    set_tiles(k, block, spec->pass == LS_PASS_BACKWARD ? 2 : 1);
    set_apart(spec, k);
    // Bounds cost as much as some rows, and gates that see Y have no use for them.
    k->bounded = k->loops->bounds && k->tile.relu == LS_NORM_RELU && !spec->residual &&
                 k->pixels * k->period >= BOUND_ROWS * LS_NORM_ROW;
    k->base.tiles = k->tiles;
    for (int e = 0; e < LS_NORM_ROW; e++) k->place[e] = (uint8_t)ls__norm_place(k->dtype, e);
    set_in_place(spec, &k->base);
    if (spec->pass != LS_PASS_INFERENCE) k->base.workspace_bytes = 3 * k->channels * (int64_t)sizeof(float);
    if (k->panel_rows || k->together > 1) k->base.scratch_bytes = k->tiles * (int64_t)sizeof(ls_norm_pass);
    if (k->panel_rows && k->threads > 1) k->base.scratch_bytes *= k->threads + 1;  // to each its own
    *out = &k->base;
    return LS_OK;
}
