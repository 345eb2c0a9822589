// What the threads of a replica share: the bits of one thread for any number of them, on layers as large as networks have them; no
// thread of a team ends because a region has less work than threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bf16.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"
#include "ok.h"
#include "op_case.h"

#define SAMPLE(...)                                                                                                    \
    {                                                                                                                  \
        { .shape = LS_SHAPE(__VA_ARGS__) }                                                                             \
    }

enum { MOST_THREADS = 4 };
static ls_device *devices[MOST_THREADS + 1];

static int setup(void **state) {
    for (int t = MOST_THREADS; t > 0; t--)
        if (ls_device_create("cpu", &(ls_device_options){.threads = t}, &devices[t]) != LS_OK) return 1;
    return 0;
}

static int teardown(void **state) {
    for (int t = 1; t <= MOST_THREADS; t++) ls_device_destroy(&devices[t]);
    return 0;
}

// --- a kernel on drawn numbers ---------------------------------------------------------------------------------------

// Memory of a kernel's arguments, and what it wrote.
typedef struct ran {
    ls_kernel *kernel;
    ls_queue *queue;
    ls_span args[LS_ARG_COUNT];
    int64_t bytes[LS_ARG_COUNT];
} ran;

static int is_result(int arg) { return arg >= LS_ARG_Y && arg < LS_ARG_DY; }

static void fill(ls_dtype dtype, int arg, int64_t bytes, void *to) {
    for (int64_t i = 0; i < bytes / (int64_t)ls_dtype_size(dtype); i++) {
        uint32_t h = ((uint32_t)i + 977u * (uint32_t)arg) * 2654435761u;
        float v = (float)((h ^ (h >> 15)) * 0x85EBCA6Bu >> 8) * 0x1p-23f - 1;
        if (dtype == LS_DTYPE_F32) ((float *)to)[i] = v;
        if (dtype == LS_DTYPE_BF16) ((ls_bf16 *)to)[i] = ls_float_to_bf16(v);
    }
}

// Bias and its gradient have room also where a kernel does not say how they lie.
static int64_t bytes_of(const ran *r, const ls_kernel_spec *spec, int arg) {
    const ls_layout *layout = r->kernel->layout[arg];
    if (arg == LS_ARG_SCRATCH) return r->kernel->scratch_bytes;
    if (arg == LS_ARG_WORKSPACE) return r->kernel->workspace_bytes;
    if (arg == LS_ARG_W + 1 || arg == LS_ARG_DW + 1)
        return spec->w_count > 1 ? ls_shape_count(spec->w[1].shape) * (int64_t)sizeof(float) : 0;
    return layout ? layout->bytes : 0;
}

static void begin(ls_device *device, const ls_kernel_spec *spec, ran *r) {
    *r = (ran){0};
    OK(ls_kernel_create(device, spec, &r->kernel));
    OK(ls_queue_create(device, &r->queue));
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        const ls_layout *layout = r->kernel->layout[i];
        r->bytes[i] = bytes_of(r, spec, i);
        if (!r->bytes[i]) continue;
        OK(ls_buffer_create(device, r->bytes[i], &r->args[i].buffer));
        if (i < LS_ARG_WORKSPACE && !is_result(i))
            fill(layout ? layout->dtype : LS_DTYPE_F32, i, r->bytes[i], ls_span_host(r->args[i]));
    }
}

static void end(ran *r) {
    for (int i = 0; i < LS_ARG_COUNT; i++) ls_buffer_destroy(&r->args[i].buffer);
    ls_queue_destroy(&r->queue);
    ls_kernel_destroy(&r->kernel);
}

static void same_results(const ls_kernel_spec *spec, const ran *one, const ran *other, int threads) {
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        if (!is_result(i) || !one->bytes[i]) continue;
        assert_int_equal(one->bytes[i], other->bytes[i]);
        if (memcmp(ls_span_host(one->args[i]), ls_span_host(other->args[i]), (size_t)one->bytes[i]) != 0)
            fail_msg("%s, %s: argument %d has other bits with %d threads", op_describe(spec), one->kernel->name, i,
                     threads);
    }
}

static void check_spec(const ls_kernel_spec *spec) {
    ran one, other;
    begin(devices[1], spec, &one);
    OK(ls_kernel_run(one.kernel, one.queue, one.args));
    for (int t = 2; t <= MOST_THREADS; t++) {
        begin(devices[t], spec, &other);
        if (other.bytes[LS_ARG_SCRATCH])  // what nobody has written does not show either
            memset(ls_span_host(other.args[LS_ARG_SCRATCH]), 0x7f, (size_t)other.bytes[LS_ARG_SCRATCH]);
        for (int again = 0; again < 2; again++) OK(ls_kernel_run(other.kernel, other.queue, other.args));
        same_results(spec, &one, &other, t);
        end(&other);
    }
    end(&one);
}

static void check(op_case c) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        ls_pass passes[3];
        if (bf16 && devices[1]->ops->supports(devices[1], LS_DTYPE_BF16) != LS_OK) continue;
        op_spec spec = op_spec_of(&c, bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32);
        check_spec(&spec.kernel);
        int count = op_backward_passes(&spec.kernel, passes);
        for (int i = 0; i < count; i++) {
            spec.kernel.pass = passes[i];
            check_spec(&spec.kernel);
        }
    }
}

// --- layers ----------------------------------------------------------------------------------------------------------

static void convolutions(void **state) {
    static const struct {
        int64_t n, size, channels;
        int filters, kernel;
    } shapes[] = {{32, 28, 1, 32, 3},   {128, 13, 32, 128, 3}, {32, 13, 32, 128, 3}, {128, 5, 128, 256, 3},
                  {13, 5, 128, 256, 3}, {16, 8, 64, 64, 3},    {8, 8, 256, 256, 3},  {3, 4, 512, 1024, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        ls_conv2d_attrs a = {.filters = shapes[i].filters,
                             .kernel = {shapes[i].kernel, shapes[i].kernel},
                             .activation = LS_ACTIVATION_RELU};
        check((op_case){.op = LS_OP_CONV2D,
                        .attrs = &a,
                        .batch = shapes[i].n,
                        .x = SAMPLE(shapes[i].size, shapes[i].size, shapes[i].channels)});
    }
}

// Images less wide than a stride.
static void narrow_images(void **state) {
    for (int width = 1; width < 4; width++) {
        ls_conv2d_attrs a = {
            .filters = 48, .kernel = {3, 3}, .strides = {width + 1, width + 1}, .padding = LS_PADDING_SAME};
        check((op_case){.op = LS_OP_CONV2D, .attrs = &a, .batch = 3, .x = SAMPLE(8, width, 32)});
    }
}

static void one_filter(void **state) {
    for (int n = 4; n < 8; n += 3) {
        ls_conv2d_attrs a = {.filters = 1, .kernel = {5, 5}, .padding = LS_PADDING_SAME};
        check((op_case){.op = LS_OP_CONV2D, .attrs = &a, .batch = n, .x = SAMPLE(28, 28, 32)});
    }
}

// DX and DY as forward has X and Y.
static void begin_settled(ls_device *device, const ls_kernel_spec *forward, ran *r) {
    ls_kernel_spec back = *forward;
    ls_kernel *kernel;
    OK(ls_kernel_create(device, forward, &kernel));
    back.pass = LS_PASS_BACKWARD_DATA;
    back.layout[LS_ARG_DX] = kernel->layout[LS_ARG_X];
    back.layout[LS_ARG_DY] = kernel->layout[LS_ARG_Y];
    ls_kernel_destroy(&kernel);
    begin(device, &back, r);
    OK(ls_kernel_run(r->kernel, r->queue, r->args));
}

// Channels of which no block is full: DX lies plain, and is a copy of what is computed. In bf16 AMX's kernels write it plain themselves.
static void few_channels(void **state) {
    ls_conv2d_attrs a = {.filters = 5, .kernel = {3, 3}};
    for (int i = 0; i < 4; i++) {
        op_case c = {.op = LS_OP_CONV2D, .attrs = &a, .batch = 13, .x = SAMPLE(40, 40, 12), .mask_dx = i % 2};
        if (i > 1 && devices[1]->ops->supports(devices[1], LS_DTYPE_BF16) != LS_OK) continue;
        op_spec spec = op_spec_of(&c, i > 1 ? LS_DTYPE_BF16 : LS_DTYPE_F32);
        ran one, other;
        begin_settled(devices[1], &spec.kernel, &one);
        if (ls__cpu_isa_has(dnnl_cpu_isa_avx512_core)) {
            if (i <= 1 || !ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_amx))
                assert_int_equal(strncmp(one.kernel->name, "copied:", 7), 0);
            assert_null(strstr(one.kernel->name, "ref"));  // plain loops, hundreds of times slower
        }
        for (int t = 2; t <= MOST_THREADS; t++) {
            begin_settled(devices[t], &spec.kernel, &other);
            same_results(&spec.kernel, &one, &other, t);
            end(&other);
        }
        end(&one);
    }
}

// X where a larger tensor has a copy of it: `before` bytes into pieces of `apart`, and garbage between.
static void put_apart(ls_device *device, ran *r, int64_t pieces, int64_t before, int64_t apart) {
    ls_buffer *larger;
    int64_t piece = r->bytes[LS_ARG_X] / pieces;
    OK(ls_buffer_create(device, pieces * apart, &larger));
    ls_span at = {.buffer = larger};
    const char *x = ls_span_host(r->args[LS_ARG_X]);
    memset(ls_span_host(at), 0xFF, (size_t)(pieces * apart));
    at.offset = before;
    for (int64_t i = 0; i < pieces; i++) memcpy((char *)ls_span_host(at) + i * apart, x + i * piece, (size_t)piece);
    ls_buffer_destroy(&r->args[LS_ARG_X].buffer);
    r->args[LS_ARG_X] = at;
}

// Images row-major, or in blocks of 16 channels.
static const ls_layout *image_layout(ls_device *device, const ls_tensor_type *t, int row_major) {
    const ls_layout *out;
    if (row_major)
        OK(device->ops->layout_plain(device, t->shape, t->dtype, 0, &out));
    else
        OK(ls__cpu_layout_tag((ls_cpu *)device, t->shape, t->dtype, 0, ls__cpu_blocked_tag(4, 16), &out));
    return out;
}

static void begin_statistics(ls_device *device, const ls_kernel_spec *spec, ran *r) {
    begin(device, spec, r);
    fill(LS_DTYPE_F32, LS_ARG_WORKSPACE, r->bytes[LS_ARG_WORKSPACE], ls_span_host(r->args[LS_ARG_WORKSPACE]));
}

// Batch normalization reads X out of a concatenation along the channels: samples of blocked layouts, pixels of row-major ones.
static void check_apart(ls_kernel_spec *spec, int row_major) {
    const int64_t *dim = spec->x[0].shape.dim, others = row_major ? 19 : 16 * dim[1] * dim[2];
    int64_t pieces = row_major ? dim[0] * dim[1] * dim[2] : dim[0],
            before = others * (int64_t)ls_dtype_size(spec->x[0].dtype);
    ran whole, other;
    spec->pieces = spec->apart = 0;
    spec->layout[LS_ARG_X] = image_layout(devices[1], &spec->x[0], row_major);
    begin_statistics(devices[1], spec, &whole);
    OK(ls_kernel_run(whole.kernel, whole.queue, whole.args));
    spec->pieces = pieces;
    spec->apart = spec->layout[LS_ARG_X]->bytes / pieces + 3 * before;
    for (int t = 1; t <= MOST_THREADS; t++) {
        spec->layout[LS_ARG_X] = image_layout(devices[t], &spec->x[0], row_major);
        begin_statistics(devices[t], spec, &other);
        assert_int_equal(other.kernel->apart, spec->apart);
        put_apart(devices[t], &other, pieces, before, spec->apart);
        OK(ls_kernel_run(other.kernel, other.queue, other.args));
        same_results(spec, &whole, &other, t);
        end(&other);
    }
    end(&whole);
}

static void normalizations(void **state) {
    static const int64_t channels[] = {3, 32, 48, 100, 160};
    for (int i = 0; i < 10; i++)
        check((op_case){.op = LS_OP_BATCH_NORM,
                        .relu = i % 2,
                        .residual = i % 3 == 0,
                        .addend = i % 4 == 0,
                        .batch = 5,
                        .x = SAMPLE(13, 17, channels[i / 2])});
}

static void normalization_reads_apart(void **state) {
    static const int64_t channels[] = {48, 100, 160};
    for (int i = 0; i < 24; i++) {
        int bf16 = i / 2 % 2;
        if (bf16 && devices[1]->ops->supports(devices[1], LS_DTYPE_BF16) != LS_OK) continue;
        op_case c = {.op = LS_OP_BATCH_NORM,
                     .relu = i / 4 % 2,
                     .mask_dx = i % 3 == 0,
                     .addend = i % 5 == 0,
                     .batch = 5,
                     .x = SAMPLE(13, 7, channels[i / 8])};
        op_spec spec = op_spec_of(&c, bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32);
        spec.kernel.pass = LS_PASS_BACKWARD;
        check_apart(&spec.kernel, i % 2);
    }
}

static void dense_layers(void **state) {
    static const int sizes[][3] = {{128, 256, 1000}, {128, 1000, 100}, {128, 100, 10}, {13, 256, 1000}, {1, 64, 192},
                                   {64, 2048, 10},   {7, 512, 512},    {32, 784, 128}, {100, 33, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ls_dense_attrs a = {.units = sizes[i][2], .activation = i % 2 ? LS_ACTIVATION_NONE : LS_ACTIVATION_RELU};
        check((op_case){.op = LS_OP_DENSE,
                        .attrs = &a,
                        .batch = sizes[i][0],
                        .x = SAMPLE(sizes[i][1]),
                        .mask_dx = i % 3 == 0,
                        .wide = i % 3 == 2});
    }
    ls_dense_attrs many = {.units = 64}, sequence = {.units = 96};
    check((op_case){.op = LS_OP_DENSE, .attrs = &many, .batch = 2048, .x = SAMPLE(192)});
    check((op_case){.op = LS_OP_DENSE, .attrs = &sequence, .batch = 5, .x = SAMPLE(31, 64)});
}

// The gradient of a weight of so many vectors: sums of 1024 products one after the other, and the sum of those.
static float sum_of_products(const float *x, int64_t x_row, const float *dy, int64_t dy_row, int64_t vectors) {
    float all = 0, sum = 0;
    for (int64_t v = 0; v < vectors; v++) {
        sum = fmaf(x[v * x_row], dy[v * dy_row], sum);
        if (v % 1024 < 1023) continue;
        all = v < 1024 ? sum : all + sum;
        sum = 0;
    }
    return all;
}

// Where the library turns X round for weight gradients, our loop takes its place and its sums. One block of units: DW lies channel by channel.
static void weights_of_many_vectors(void **state) {
    enum { VECTORS = 3072, CHANNELS = 128, UNITS = 64 };
    ls_dense_attrs a = {.units = UNITS};
    op_spec spec =
        op_spec_of(&(op_case){.op = LS_OP_DENSE, .attrs = &a, .batch = VECTORS, .x = SAMPLE(CHANNELS)}, LS_DTYPE_F32);
    ran r;
    if (!ls__cpu_isa_has(dnnl_cpu_isa_avx512_core) || DNNL_VERSION_MAJOR != 2) skip();
    spec.kernel.pass = LS_PASS_BACKWARD_WEIGHTS;
    begin(devices[1], &spec.kernel, &r);
    assert_string_equal(r.kernel->name, "loop:dense_weights");
    OK(ls_kernel_run(r.kernel, r.queue, r.args));
    const float *x = ls_span_host(r.args[LS_ARG_X]), *dy = ls_span_host(r.args[LS_ARG_DY]);
    const float *dw = ls_span_host(r.args[LS_ARG_DW]);
    for (int c = 0; c < CHANNELS; c += 5)
        for (int u = 0; u < UNITS; u += 3)
            if (dw[c * UNITS + u] != sum_of_products(x + c, CHANNELS, dy + u, UNITS, VECTORS))
                fail_msg("channel %d, unit %d: %a", c, u, (double)dw[c * UNITS + u]);
    end(&r);
}

// Of so many elements that they are shared.
static void elements(void **state) {
    check((op_case){.op = LS_OP_RELU, .batch = 7, .x = SAMPLE(31, 17, 16)});
    check(
        (op_case){.op = LS_OP_ADD, .batch = 7, .x = {{.shape = LS_SHAPE(31, 17, 5)}, {.shape = LS_SHAPE(31, 17, 5)}}});
    check((op_case){.op = LS_OP_FLATTEN, .batch = 9, .x = SAMPLE(20, 20, 8), .mask_dx = 1});
}

// --- sums ------------------------------------------------------------------------------------------------------------

static void sums_of_gradients(void **state) {
    enum { N = 64 * 5003 };
    const ls_vector_ops *v = devices[1]->ops->vector;
    float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    assert_true(x && y);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (int t = 1; t <= MOST_THREADS; t++) {
            ls_queue *queue;
            ls_buffer *b[2];
            OK(ls_queue_create(devices[t], &queue));
            queue->threads = t;
            for (int i = 0; i < 2; i++) {
                OK(ls_buffer_create(devices[t], N * (int64_t)sizeof *x, &b[i]));
                fill(LS_DTYPE_F32, i, N * (int64_t)sizeof *x, b[i]->memory);
            }
            ls_span sum = ls_span_of(b[0], 0), other = ls_span_of(b[1], 0);
            OK((bf16 ? v->add_bf16 : v->add)(queue, sum, sum, other, N));
            if (t == 1) memcpy(x, b[0]->memory, N * sizeof *x);
            assert_memory_equal(x, b[0]->memory, N * sizeof *x);
            fill(LS_DTYPE_F32, 2, N * (int64_t)sizeof *x, b[1]->memory);
            OK((bf16 ? v->add_bf16 : v->add)(queue, other, sum, other, 64 * 700));
            if (t == 1) memcpy(y, b[1]->memory, N * sizeof *y);
            assert_memory_equal(y, b[1]->memory, N * sizeof *y);
            for (int i = 0; i < 2; i++) ls_buffer_destroy(&b[i]);
            ls_queue_destroy(&queue);
        }
    free(x), free(y);
}

// Each element by where it lies in its part, too: what is cut elsewhere has other bits.
static void by_place(const void *arguments, int64_t n, float *const *x) {
    for (int64_t i = 0; i < n; i++)
        x[0][i] = *(const float *)arguments * x[0][i] + x[1][i] * (float)(i % LS_VECTOR_ALIGN);
}

static void means_and_updates(void **state) {
    enum { UNITS = 5003, N = LS_VECTOR_ALIGN * UNITS, SPANS = 3 };
    static const ls_formula formula = {"by place", by_place};
    static const int64_t not_finite[][2] = {{0, N - 1}, {N - 1, N - 1}, {N / 2, N / 3}, {7, 8}};
    const ls_vector_ops *v = devices[1]->ops->vector;
    float *expected[SPANS], rate = 0.3f;
    for (int i = 0; i < SPANS; i++) assert_non_null(expected[i] = malloc(N * sizeof(float)));
    for (int t = 1; t <= MOST_THREADS; t++) {
        ls_queue *queue;
        ls_buffer *b[SPANS], *found;
        ls_span x[SPANS];
        OK(ls_queue_create(devices[t], &queue));
        OK(ls_buffer_create(devices[t], sizeof(int64_t), &found));
        queue->threads = t;
        for (int i = 0; i < SPANS; i++) {
            OK(ls_buffer_create(devices[t], N * (int64_t)sizeof(float), &b[i]));
            fill(LS_DTYPE_F32, i, N * (int64_t)sizeof(float), b[i]->memory);
            x[i] = ls_span_of(b[i], 0);
        }
        OK(v->scale(queue, x[0], x[1], 0.7f, N));
        OK(v->scale(queue, x[1], x[1], 0.6f, N));
        OK(v->apply(queue, &formula, &rate, sizeof rate, x, 2, N));
        OK(v->sum_squares(queue, x[2], x[0], (const int64_t[]){1, 2048, UNITS - 2049}, 3));
        for (int i = 0; i < SPANS; i++) {
            if (t == 1) memcpy(expected[i], b[i]->memory, N * sizeof(float));
            assert_memory_equal(expected[i], b[i]->memory, N * sizeof(float));
        }
        int64_t *at = found->memory;
        OK(v->find_not_finite(queue, ls_span_of(found, 0), x[0], 1000, N));
        assert_int_equal(*at, 0);
        for (size_t k = 0; k < sizeof not_finite / sizeof not_finite[0]; k++) {
            int64_t one = not_finite[k][0], other = not_finite[k][1];
            float *data = b[0]->memory, kept[] = {data[one], data[other]};
            *at = 0;
            data[one] = NAN, data[other] = INFINITY;
            OK(v->find_not_finite(queue, ls_span_of(found, 0), x[0], 1000, N));
            assert_int_equal(*at, 1001 + (one < other ? one : other));
            data[one] = kept[0], data[other] = kept[1];
        }
        for (int i = 0; i < SPANS; i++) ls_buffer_destroy(&b[i]);
        ls_buffer_destroy(&found);
        ls_queue_destroy(&queue);
    }
    for (int i = 0; i < SPANS; i++) free(expected[i]);
}

// --- teams -----------------------------------------------------------------------------------------------------------

enum { MOST_TASKS = 256 };

// The threads of this process, by their numbers in ascending order as the system lists them. Returns how many.
static int tasks(long id[MOST_TASKS]) {
    DIR *all = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(all);
    for (const struct dirent *e; (e = readdir(all));)
        if (e->d_name[0] != '.' && count < MOST_TASKS) id[count++] = atol(e->d_name);
    closedir(all);
    return count;
}

// The same, once those that end are gone: some that smaller teams had no use for in setup() are listed for a moment.
static int tasks_at_rest(long id[MOST_TASKS]) {
    long earlier[MOST_TASKS];
    int count = tasks(id), same = 0;
    for (int i = 0; i < 100 && !same; i++) {
        memcpy(earlier, id, sizeof earlier);
        usleep(20000);
        int before = count;
        count = tasks(id);
        same = count == before && !memcmp(id, earlier, (size_t)count * sizeof *id);
    }
    return count;
}

static void a_team_keeps_its_threads(void **state) {
    long before[MOST_TASKS] = {0}, after[MOST_TASKS] = {0};
    ls_device *d = devices[MOST_THREADS];
    d->ops->thread_begin(d, NULL, NULL);
    int count = tasks_at_rest(before);
    // Two blocks of filters, three samples, one tile: fewer than there are threads.
    ls_conv2d_attrs a = {.filters = 32, .kernel = {3, 3}};
    ls_batch_norm_attrs norm = {.epsilon = 1e-3f};
    op_case cases[] = {{.op = LS_OP_CONV2D, .attrs = &a, .batch = 3, .x = SAMPLE(64, 64, 16)},
                       {.op = LS_OP_BATCH_NORM, .attrs = &norm, .batch = 3, .x = SAMPLE(64, 64, 32)}};
    for (int i = 0; i < 2; i++) {
        ls_pass passes[3];
        op_spec spec = op_spec_of(&cases[i], LS_DTYPE_F32);
        int backward = op_backward_passes(&spec.kernel, passes);
        for (int p = -1; p < backward; p++) {
            ran r;
            if (p >= 0) spec.kernel.pass = passes[p];
            begin(d, &spec.kernel, &r);
            OK(ls_kernel_run(r.kernel, r.queue, r.args));
            end(&r);
        }
    }
    assert_int_equal(tasks_at_rest(after), count);
    assert_memory_equal(before, after, (size_t)count * sizeof *before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_team_keeps_its_threads),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(narrow_images),
        cmocka_unit_test(one_filter),
        cmocka_unit_test(few_channels),
        cmocka_unit_test(normalizations),
        cmocka_unit_test(normalization_reads_apart),
        cmocka_unit_test(dense_layers),
        cmocka_unit_test(weights_of_many_vectors),
        cmocka_unit_test(elements),
        cmocka_unit_test(sums_of_gradients),
        cmocka_unit_test(means_and_updates),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
