// What the passes between convolutions cost: bench_passes [MICRO_BATCH] [threads=N] [bf16] [nhwc] [warm] [planes | pools].
//
// Batch normalization with its ReLU, forward and backward, and addition, in the shapes of ResNet50V2 at 224x224 and the layout
// convolutions give (or NHWC), with one thread or as many as said. Each is beside a floor: one plain loop that reads and writes as many bytes.
// Forward reads X once more than its floor (statistics, then normalization), backward X and DY: where a channel block of all
// samples stays in the caches, that costs little. Every run uses memory that has left the caches; with `warm` the memory of the
// run before. Times are the least of several.
//
// `planes`: the same passes on planes of 2x2 to 64x64. `pools`: pooling and passes element by element. Both say how many of the bytes per second
// of a triad on large arrays a pass moves, each tensor counted once. What batch normalization reads twice counts once, too; beside it is what can be had of
// such a pass: its tiles read, then read again and written, without any arithmetic ("sweeps", in the quickest of several groupings).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/clones.h"
#include "base/memory.h"
#include "device/device.h"
#include "must.h"

enum { POOL_BYTES = 512 << 20 };

typedef struct bench {
    ls_device *device;
    ls_queue *queue;
    ls_buffer *memory;  // the pool
    ls_dtype dtype;
    int64_t batch;
    int nhwc, warm;
    double triad;    // bytes per second; 0: not measured
    char *pool;      // tensors are cut from it in turn
    int64_t cursor;  // so that none is met again before the caches have forgotten it
} bench;

static int64_t cut(bench *b, int64_t bytes) {
    bytes = ls_round_up(bytes, 4096) + 64 * 17;
    if (bytes > POOL_BYTES) {
        fprintf(stderr, "the micro-batch is too large for this benchmark\n");
        exit(1);
    }
    if (b->cursor + bytes > POOL_BYTES) b->cursor = 0;
    int64_t at = b->cursor;
    b->cursor += bytes;
    return at;
}

static ls_tensor_type tensor(const bench *b, ls_shape shape) { return (ls_tensor_type){shape, b->dtype, b->dtype}; }

static const ls_layout *layout_of(bench *b, ls_shape x) {
    const ls_layout *layout;
    if (b->nhwc) {
        MUST(b->device->ops->layout_plain(b->device, x, b->dtype, 0, &layout));
        return layout;
    }
    int64_t c = x.dim[3];
    ls_kernel_spec conv = {.op = LS_OP_CONV2D,
                           .x_count = 1,
                           .w_count = 1,
                           .y_count = 1,
                           .x[0] = tensor(b, x),
                           .w[0] = {LS_SHAPE(1, 1, c, c), b->dtype, LS_DTYPE_F32},
                           .y[0] = tensor(b, x)};
    *(ls_conv2d_attrs *)(void *)conv.attrs.bytes = (ls_conv2d_attrs){
        .kernel = {1, 1}, .strides = {1, 1}, .dilation = {1, 1}, .groups = 1, .filters = (int)c, .no_bias = 1};
    ls_kernel *k;
    MUST(ls_kernel_create(b->device, &conv, &k));
    layout = k->layout[LS_ARG_Y];
    ls_kernel_destroy(&k);
    return layout;
}

static ls_kernel *kernel_of(bench *b, ls_op_kind op, ls_pass pass, ls_shape x, int addend) {
    ls_kernel_spec spec = {.op = op,
                           .pass = pass,
                           .x_count = op == LS_OP_ADD ? 2 : 1,
                           .w_count = op == LS_OP_ADD ? 0 : 4,
                           .y_count = 1,
                           .y[0] = tensor(b, x),
                           .addend = addend};
    for (int i = 0; i < spec.x_count; i++) spec.x[i] = tensor(b, x);
    for (int i = 0; i < spec.w_count; i++) spec.w[i] = (ls_tensor_type){LS_SHAPE(x.dim[3]), LS_DTYPE_F32, LS_DTYPE_F32};
    if (op == LS_OP_BATCH_NORM) {
        ((ls_batch_norm_attrs *)(void *)spec.attrs.bytes)->epsilon = 1e-3f;
        spec.activation = LS_ACTIVATION_RELU;
    }
    const ls_layout *layout = layout_of(b, x);
    spec.layout[LS_ARG_X] = layout;
    if (pass == LS_PASS_BACKWARD) spec.layout[LS_ARG_DX] = spec.layout[LS_ARG_DY] = layout;
    ls_kernel *k;
    MUST(ls_kernel_create(b->device, &spec, &k));
    return k;
}

// The least time of a kernel's run; images are cut anew for each, vectors and the workspace stay.
static double time_kernel(bench *b, ls_kernel *k, ls_buffer *workspace) {
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_WORKSPACE] = {workspace, 0}};
    for (int a = 0; a < LS_ARG_COUNT; a++)
        if (k->layout[a] && k->layout[a]->shape.ndim == 1) {
            MUST(ls_buffer_create(b->device, k->layout[a]->bytes, &args[a].buffer));
            for (int64_t i = 0; i < k->layout[a]->bytes / 4; i++) ((float *)ls_span_host(args[a]))[i] = 1;
        }
    MUST(ls_buffer_create(b->device, k->scratch_bytes, &args[LS_ARG_SCRATCH].buffer));
    double least = 1e30;
    for (int run = 0; run < 9; run++) {
        if (b->warm) b->cursor = 0;
        for (int a = 0; a < LS_ARG_COUNT; a++)
            if (k->layout[a] && k->layout[a]->shape.ndim > 1)
                args[a] = (ls_span){b->memory, cut(b, k->layout[a]->bytes)};
        double start = ls_clock();
        MUST(ls_kernel_run(k, b->queue, args));
        MUST(ls_synchronize(b->queue));
        double took = ls_clock() - start;
        if (took < least) least = took;
    }
    for (int a = 0; a < LS_ARG_COUNT; a++)
        if (k->layout[a] && k->layout[a]->shape.ndim == 1) ls_buffer_destroy(&args[a].buffer);
    ls_buffer_destroy(&args[LS_ARG_SCRATCH].buffer);
    return least;
}

// The least time to read `inputs` tensors of so many bytes and to write one.
static double time_floor(bench *b, int64_t bytes, int inputs) {
    double least = 1e30;
    int64_t n = bytes / 8;
    for (int run = 0; run < 9; run++) {
        if (b->warm) b->cursor = 0;
        const uint64_t *from[3] = {0};
        for (int i = 0; i < inputs; i++) from[i] = (const uint64_t *)(void *)(b->pool + cut(b, bytes));
        uint64_t *to = (uint64_t *)(void *)(b->pool + cut(b, bytes));
        double start = ls_clock();
        if (inputs == 1)
            for (int64_t i = 0; i < n; i++) to[i] = from[0][i] ^ 1;
        else if (inputs == 2)
            for (int64_t i = 0; i < n; i++) to[i] = from[0][i] ^ from[1][i];
        else
            for (int64_t i = 0; i < n; i++) to[i] = from[0][i] ^ from[1][i] ^ from[2][i];
        double took = ls_clock() - start;
        if (took < least) least = took;
    }
    return least;
}

typedef struct total {
    double seconds, floor;
} total;

static void report(total *t, const char *pass, int64_t bytes, int tensors, int times, double seconds, double floor) {
    printf("  %s %8.3f ms %5.1f GB/s (floor %5.1f) %4.2f", pass, seconds * 1e3,
           (double)(bytes * tensors) / seconds / 1e9, (double)(bytes * tensors) / floor / 1e9, seconds / floor);
    t->seconds += times * seconds;
    t->floor += times * floor;
}

// --- beside the triad ------------------------------------------------------------------------------------------------

static void report_pass(const bench *b, const char *pass, int64_t bytes, double seconds) {
    double rate = (double)bytes / seconds;
    printf("  %s %8.3f ms %5.1f GB/s %3.0f %%", pass, seconds * 1e3, rate / 1e9, 100 * rate / b->triad);
}

// 64 bytes at a time, as kernels do.
typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));

LS_CLONES static void read_lines(const line *a, const line *b, int64_t count) {
    line sum[4] = {{0}};
    for (int64_t i = 0; i + 4 <= count; i += 4)
        for (int j = 0; j < 4; j++) {
            sum[j] ^= a[i + j];
            if (b) sum[j] ^= b[i + j];
        }
    for (int j = 0; j < 4; j++) __asm__ volatile("" ::"m"(sum[j]));
}

LS_CLONES static void write_lines(line *to, const line *a, const line *b, int64_t count) {
    if (b)
        for (int64_t i = 0; i < count; i++) to[i] = a[i] ^ b[i];
    else
        for (int64_t i = 0; i < count; i++) to[i] = a[i] ^ 1;
}

// Tiles of all samples, so many neighbours at a time: their inputs are read, then read again while the output is written. Least time of several.
static double time_grouped(bench *b, int64_t samples, int64_t sample_bytes, int64_t group_bytes, int inputs) {
    double least = 1e30;
    for (int run = 0; run < 9; run++) {
        if (b->warm) b->cursor = 0;
        const char *from[2] = {0};
        for (int i = 0; i < inputs; i++) from[i] = b->pool + cut(b, samples * sample_bytes);
        char *to = b->pool + cut(b, samples * sample_bytes);
        double start = ls_clock();
        for (int64_t at = 0; at < sample_bytes; at += group_bytes)
            for (int writes = 0; writes < 2; writes++)
                for (int64_t s = 0; s < samples; s++) {
                    int64_t place = s * sample_bytes + at, count = group_bytes / 64;
                    const line *a = (const line *)(const void *)(from[0] + place);
                    const line *second = inputs == 2 ? (const line *)(const void *)(from[1] + place) : NULL;
                    if (writes)
                        write_lines((line *)(void *)(to + place), a, second, count);
                    else
                        read_lines(a, second, count);
                }
        double took = ls_clock() - start;
        if (took < least) least = took;
    }
    return least;
}

static double time_sweeps(bench *b, int64_t samples, int64_t bytes, int64_t plane_bytes, int inputs) {
    double least = 1e30;
    for (int64_t group = plane_bytes; bytes / samples % group == 0; group *= 2) {
        double seconds = time_grouped(b, samples, bytes / samples, group, inputs);
        if (seconds < least) least = seconds;
    }
    return least;
}

static void report_sweeps(const bench *b, int64_t bytes, double seconds, double sweeps) {
    report_pass(b, "sweeps", bytes, sweeps);
    printf(" %4.2f", sweeps / seconds);
}

static void bench_planes(bench *b) {
    static const int channels[] = {32, 64, 128, 256, 512, 2048};
    for (int size = 64; size >= 2; size /= 2)
        for (size_t c = 0; c < sizeof channels / sizeof channels[0]; c++) {
            ls_shape x = LS_SHAPE(b->batch, size, size, channels[c]);
            if (ls_shape_count(x) > 1 << 25 || ls_shape_count(x) < 1 << 17) continue;
            ls_kernel *f = kernel_of(b, LS_OP_BATCH_NORM, LS_PASS_TRAINING, x, 0);
            ls_kernel *g = kernel_of(b, LS_OP_BATCH_NORM, LS_PASS_BACKWARD, x, 0);
            ls_kernel *add = kernel_of(b, LS_OP_ADD, LS_PASS_TRAINING, x, 0);
            int64_t bytes = f->layout[LS_ARG_X]->bytes;
            ls_buffer *workspace;
            MUST(ls_buffer_create(b->device, f->workspace_bytes, &workspace));
            printf("%3dx%-3dx%-4d", size, size, channels[c]);
            int64_t plane = 16 * size * size * (int64_t)ls_dtype_size(b->dtype);
            double forward = time_kernel(b, f, workspace), backward = time_kernel(b, g, workspace);
            report_pass(b, "forward", 2 * bytes, forward);
            report_sweeps(b, 2 * bytes, forward, time_sweeps(b, b->batch, bytes, plane, 1));
            report_pass(b, "backward", 3 * bytes, backward);
            report_sweeps(b, 3 * bytes, backward, time_sweeps(b, b->batch, bytes, plane, 2));
            report_pass(b, "add", 3 * bytes, time_kernel(b, add, NULL));
            printf("\n");
            fflush(stdout);
            ls_buffer_destroy(&workspace);
            ls_kernel_destroy(&f), ls_kernel_destroy(&g), ls_kernel_destroy(&add);
        }
}

// A pooling with square windows inside the image (0: global), or a ReLU.
static ls_kernel *small_kernel(bench *b, ls_op_kind op, ls_pass pass, ls_shape x, int window, int stride) {
    int64_t out = window ? (x.dim[1] - window) / stride + 1 : 0;
    ls_shape y = op == LS_OP_RELU ? x : window ? LS_SHAPE(x.dim[0], out, out, x.dim[3]) : LS_SHAPE(x.dim[0], x.dim[3]);
    ls_kernel_spec spec = {
        .op = op, .pass = pass, .x_count = 1, .y_count = 1, .x[0] = tensor(b, x), .y[0] = tensor(b, y)};
    if (window)
        *(ls_pool2d_attrs *)(void *)spec.attrs.bytes =
            (ls_pool2d_attrs){.size = {window, window}, .strides = {stride, stride}};
    spec.mask_dx = op == LS_OP_MAX_POOL2D;
    spec.layout[pass == LS_PASS_BACKWARD_DATA ? LS_ARG_DX : LS_ARG_X] = layout_of(b, x);
    ls_kernel *k;
    MUST(ls_kernel_create(b->device, &spec, &k));
    return k;
}

static int64_t bytes_of(const ls_kernel *k) {
    int64_t bytes = k->workspace_bytes;
    for (int a = 0; a < LS_ARG_COUNT; a++)
        if (k->layout[a]) bytes += k->layout[a]->bytes;
    return bytes;
}

static void bench_pools(bench *b) {
    static const struct {
        const char *name;
        ls_op_kind op;
        int window, stride;
    } passes[] = {{"max 2x2", LS_OP_MAX_POOL2D, 2, 2},
                  {"max 3x3 / 2", LS_OP_MAX_POOL2D, 3, 2},
                  {"average 2x2", LS_OP_AVERAGE_POOL2D, 2, 2},
                  {"average 3x3 / 1", LS_OP_AVERAGE_POOL2D, 3, 1},
                  {"average all", LS_OP_GLOBAL_AVERAGE_POOL2D, 0, 0},
                  {"ReLU", LS_OP_RELU, 0, 0}};
    static const int shapes[][2] = {{112, 64}, {56, 64}, {28, 128}, {26, 32}, {32, 64}, {16, 128}, {8, 256}, {4, 512}};
    for (size_t p = 0; p < sizeof passes / sizeof passes[0]; p++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            ls_shape x = LS_SHAPE(b->batch, shapes[i][0], shapes[i][0], shapes[i][1]);
            ls_kernel *f = small_kernel(b, passes[p].op, LS_PASS_TRAINING, x, passes[p].window, passes[p].stride);
            ls_kernel *g = small_kernel(b, passes[p].op, LS_PASS_BACKWARD_DATA, x, passes[p].window, passes[p].stride);
            ls_buffer *workspace;
            MUST(ls_buffer_create(b->device, f->workspace_bytes, &workspace));
            printf("%-15s %3dx%-3dx%-4d", passes[p].name, shapes[i][0], shapes[i][0], shapes[i][1]);
            report_pass(b, "forward", bytes_of(f), time_kernel(b, f, workspace));
            report_pass(b, "backward", bytes_of(g), time_kernel(b, g, workspace));
            printf("\n");
            fflush(stdout);
            ls_buffer_destroy(&workspace);
            ls_kernel_destroy(&f), ls_kernel_destroy(&g);
        }
}

// --- the network -----------------------------------------------------------------------------------------------------

// The batch normalizations of the network: how many have the shape, and whether the gradient of a shortcut comes in.
static const struct {
    int size, channels, norms, addend, additions;
} shapes[] = {{56, 64, 6, 0, 0},  {56, 256, 2, 1, 2}, {28, 64, 1, 0, 0},   {28, 128, 7, 0, 0}, {28, 256, 1, 1, 1},
              {28, 512, 3, 1, 3}, {14, 128, 1, 0, 0}, {14, 256, 11, 0, 0}, {14, 512, 1, 1, 1}, {14, 1024, 5, 1, 5},
              {7, 256, 1, 0, 0},  {7, 512, 6, 0, 0},  {7, 1024, 1, 1, 1},  {7, 2048, 3, 1, 3}};

static void bench_network(bench *b) {
    total forward = {0}, backward = {0}, sums = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ls_shape x = LS_SHAPE(b->batch, shapes[i].size, shapes[i].size, shapes[i].channels);
        int addend = shapes[i].addend, norms = shapes[i].norms;
        ls_kernel *f = kernel_of(b, LS_OP_BATCH_NORM, LS_PASS_TRAINING, x, 0);
        ls_kernel *g = kernel_of(b, LS_OP_BATCH_NORM, LS_PASS_BACKWARD, x, addend);
        ls_kernel *add = kernel_of(b, LS_OP_ADD, LS_PASS_TRAINING, x, 0);
        int64_t bytes = f->layout[LS_ARG_X]->bytes;
        ls_buffer *workspace;
        MUST(ls_buffer_create(b->device, f->workspace_bytes, &workspace));
        printf("%3dx%-3dx%-4d %2d times", shapes[i].size, shapes[i].size, shapes[i].channels, norms);
        double one = time_floor(b, bytes, 1), two = time_floor(b, bytes, 2);
        report(&forward, "forward", bytes, 2, norms, time_kernel(b, f, workspace), one);
        report(&backward, "backward", bytes, 3 + addend, norms, time_kernel(b, g, workspace),
               addend ? time_floor(b, bytes, 3) : two);
        report(&sums, "add", bytes, 3, shapes[i].additions, time_kernel(b, add, NULL), two);
        printf("\n");
        fflush(stdout);
        ls_buffer_destroy(&workspace);
        ls_kernel_destroy(&f), ls_kernel_destroy(&g), ls_kernel_destroy(&add);
    }
    printf(
        "all: forward %.1f ms (floor %.1f, ratio %.2f), backward %.1f ms (floor %.1f, ratio %.2f), additions %.1f ms "
        "(floor %.1f, ratio %.2f)\n",
        forward.seconds * 1e3, forward.floor * 1e3, forward.seconds / forward.floor, backward.seconds * 1e3,
        backward.floor * 1e3, backward.seconds / backward.floor, sums.seconds * 1e3, sums.floor * 1e3,
        sums.seconds / sums.floor);
}

static void find_triad(bench *b) {
    ls_device_limits limits;
    MUST(b->device->ops->limits(b->device, b->dtype, &limits));
    b->triad = limits.bytes;
    printf("triad %.1f GB/s\n", b->triad / 1e9);
}

int main(int argc, char **argv) {
    bench b = {.batch = 16, .dtype = LS_DTYPE_F32};
    int planes = 0, pools = 0;
    ls_device_options options = {.threads = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "bf16")) b.dtype = LS_DTYPE_BF16;
        if (!strcmp(argv[i], "nhwc")) b.nhwc = 1;
        if (!strcmp(argv[i], "warm")) b.warm = 1;
        if (!strcmp(argv[i], "planes")) planes = 1;
        if (!strcmp(argv[i], "pools")) pools = 1;
        if (!strncmp(argv[i], "threads=", 8)) options.threads = atoi(argv[i] + 8);
        if (atoi(argv[i]) > 0) b.batch = atoi(argv[i]);
    }
    MUST(ls_device_create("cpu", &options, &b.device));
    b.device->ops->thread_begin(b.device, NULL, NULL);
    MUST(ls_queue_create(b.device, &b.queue));
    MUST(ls_buffer_create(b.device, POOL_BYTES, &b.memory));
    b.pool = b.memory->memory;
    memset(b.pool, 0x3C, POOL_BYTES);
    if (planes || pools) find_triad(&b);
    if (planes) bench_planes(&b);
    if (pools) bench_pools(&b);
    if (!planes && !pools) bench_network(&b);
    ls_buffer_destroy(&b.memory);
    ls_queue_destroy(&b.queue);
    ls_device_destroy(&b.device);
    return 0;
}
