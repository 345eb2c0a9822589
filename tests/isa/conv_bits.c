// The bits of convolutions and dense layers, kernel by kernel: conv_bits [THREADS] [MICRO_BATCH] [ISA]. A line for each pass of each shape, in fp32 and,
// where the processor has it, in bf16: the implementation and a hash of what it computed of numbers drawn by Philox. What another machine, other
// caches (other_caches.c) or other threads change is what differs between two outputs.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/device.h"

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != LS_OK) fprintf(stderr, "conv_bits: %s\n", ls_error_message()), exit(1);                          \
    } while (0)

typedef struct layer {
    const char *name;
    int64_t size, channels;  // size 0: a dense layer
    int filters, kernel, stride, pad, bias;
    int64_t depth;  // above 0: volumes, with a kernel that is as deep as it is wide, and no stride in depth
} layer;

static const layer layers[] = {
    {"mnist 1", 28, 1, 32, 3, 1, 0, 1},       {"mnist 2", 13, 32, 128, 3, 1, 0, 1},
    {"mnist 3", 5, 128, 256, 3, 1, 0, 1},     {"mnist dense", 0, 256, 1152, 1, 1, 0, 1},
    {"dense", 0, 2048, 10, 1, 1, 0, 1},       {"rgb 3x3", 32, 3, 16, 3, 1, 1, 0},
    {"rgb 7x7 /2", 64, 3, 64, 7, 2, 3, 1},    {"16 3x3", 32, 16, 16, 3, 1, 1, 0},
    {"16 3x3 /2", 32, 16, 32, 3, 2, 1, 0},    {"16 1x1 /2", 32, 16, 32, 1, 2, 0, 0},
    {"32 3x3", 16, 32, 32, 3, 1, 1, 0},       {"64 3x3", 8, 64, 64, 3, 1, 1, 0},
    {"conv2 1x1", 32, 256, 64, 1, 1, 0, 1},   {"conv2 3x3", 32, 64, 64, 3, 1, 1, 0},
    {"conv2 3x3 /2", 32, 64, 64, 3, 2, 1, 0}, {"conv2 out", 32, 64, 256, 1, 1, 0, 1},
    {"conv3 3x3", 16, 128, 128, 3, 1, 1, 0},  {"conv4 1x1", 8, 1024, 256, 1, 1, 0, 1},
    {"conv4 3x3", 8, 256, 256, 3, 1, 1, 0},   {"conv4 out", 8, 256, 1024, 1, 1, 0, 1},
    {"conv5 3x3", 4, 512, 512, 3, 1, 1, 0},   {"conv5 out", 4, 512, 2048, 1, 1, 0, 1},
    {"depthwise", 16, 64, 64, 3, 1, 1, -1},   {"volume 1", 32, 1, 16, 3, 1, 1, 0, 4},
    {"volume /2", 16, 32, 64, 3, 2, 1, 0, 4}, {"volume", 8, 64, 64, 3, 1, 1, 1, 4},
};

static void set_volumes(const layer *l, int64_t batch, int64_t out, ls_kernel_spec *s) {
    int64_t deep = l->depth + 2 * l->pad - l->kernel + 1;
    s->op = LS_OP_CONV3D;
    s->x[0].shape = LS_SHAPE(batch, l->depth, l->size, l->size, l->channels);
    s->y[0].shape = LS_SHAPE(batch, deep, out, out, l->filters);
    s->w[0].shape = LS_SHAPE(l->kernel, l->kernel, l->kernel, l->channels, l->filters);
    *(ls_conv3d_attrs *)(void *)s->attrs.bytes =
        (ls_conv3d_attrs){.filters = l->filters,
                          .kernel = {l->kernel, l->kernel, l->kernel},
                          .strides = {1, l->stride, l->stride},
                          .no_bias = l->bias <= 0,
                          .dilation = {1, 1, 1},
                          .pad = {l->pad, l->pad, l->pad, l->pad, l->pad, l->pad}};
}

static ls_kernel_spec spec_of(const layer *l, int64_t batch, ls_dtype dtype, ls_pass pass) {
    int64_t out = (l->size + 2 * l->pad - l->kernel) / l->stride + 1, groups = l->bias < 0 ? l->channels : 1;
    ls_kernel_spec s = {.op = l->size ? LS_OP_CONV2D : LS_OP_DENSE,
                        .pass = pass,
                        .x_count = 1,
                        .w_count = 1 + (l->bias > 0),
                        .y_count = 1};
    s.x[0] = (ls_tensor_type){LS_SHAPE(batch, l->size, l->size, l->channels), dtype, dtype};
    s.y[0] = (ls_tensor_type){LS_SHAPE(batch, out, out, l->filters), dtype, dtype};
    s.w[0] = (ls_tensor_type){LS_SHAPE(l->kernel, l->kernel, l->channels / groups, l->filters), dtype, LS_DTYPE_F32};
    s.w[1] = (ls_tensor_type){LS_SHAPE(l->filters), LS_DTYPE_F32, LS_DTYPE_F32};
    if (!l->size) {
        s.x[0].shape = LS_SHAPE(batch, l->channels);
        s.y[0].shape = LS_SHAPE(batch, l->filters);
        s.w[0].shape = LS_SHAPE(l->channels, l->filters);
        return s;
    }
    if (l->depth) {
        set_volumes(l, batch, out, &s);
        return s;
    }
    *(ls_conv2d_attrs *)(void *)s.attrs.bytes = (ls_conv2d_attrs){.filters = l->filters,
                                                                  .kernel = {l->kernel, l->kernel},
                                                                  .strides = {l->stride, l->stride},
                                                                  .no_bias = l->bias <= 0,
                                                                  .groups = (int)groups,
                                                                  .dilation = {1, 1},
                                                                  .pad = {l->pad, l->pad, l->pad, l->pad}};
    return s;
}

static void fill(ls_span to, int64_t bytes, ls_dtype dtype, int arg) {
    for (int64_t i = 0; i < bytes / (int64_t)ls_dtype_size(dtype); i++) {
        float v = 2 * ls_uniform(ls_philox(7, (uint32_t)i, (uint32_t)arg, 0, 0).v[0]) - 1;
        if (dtype == LS_DTYPE_F32) ((float *)ls_span_host(to))[i] = v;
        if (dtype == LS_DTYPE_BF16) ((ls_bf16 *)ls_span_host(to))[i] = ls_float_to_bf16(v);
    }
}

static uint64_t hash(uint64_t h, const unsigned char *bytes, int64_t count) {
    for (int64_t i = 0; i < count; i++) h = (h ^ bytes[i]) * 1099511628211u;
    return h;
}

static int is_result(ls_pass pass, int arg) {
    if (pass == LS_PASS_BACKWARD_DATA) return arg == LS_ARG_DX;
    if (pass == LS_PASS_BACKWARD_WEIGHTS) return arg >= LS_ARG_DW && arg < LS_ARG_DW + LS_MAX_PARAMS;
    return arg == LS_ARG_Y;
}

static void print_bits(ls_device *device, ls_queue *queue, const layer *l, int64_t batch, ls_dtype dtype,
                       ls_pass pass) {
    static const char *const names[] = {
        [LS_PASS_TRAINING] = "forward", [LS_PASS_BACKWARD_DATA] = "data", [LS_PASS_BACKWARD_WEIGHTS] = "weights"};
    ls_kernel_spec spec = spec_of(l, batch, dtype, pass);
    ls_kernel *k;
    ls_span args[LS_ARG_COUNT] = {{0}};
    uint64_t h = 14695981039346656037u;
    MUST(ls_kernel_create(device, &spec, &k));
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        int64_t bytes = i == LS_ARG_SCRATCH ? k->scratch_bytes : k->layout[i] ? k->layout[i]->bytes : 0;
        if (!k->layout[i] && (i == LS_ARG_W + 1 || i == LS_ARG_DW + 1)) bytes = l->filters * 4;
        if (!bytes) continue;
        MUST(ls_buffer_create(device, bytes, &args[i].buffer));
        if (i != LS_ARG_SCRATCH && !is_result(pass, i))
            fill(args[i], bytes, k->layout[i] ? k->layout[i]->dtype : LS_DTYPE_F32, i);
    }
    MUST(ls_kernel_run(k, queue, args));
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        if (is_result(pass, i) && args[i].buffer) h = hash(h, ls_span_host(args[i]), args[i].buffer->bytes);
        ls_buffer_destroy(&args[i].buffer);
    }
    printf("%-12s %-4s %-8s %-32s %016llx\n", l->name, dtype == LS_DTYPE_F32 ? "fp32" : "bf16", names[pass], k->name,
           (unsigned long long)h);
    fflush(stdout);
    ls_kernel_destroy(&k);
}

int main(int argc, char **argv) {
    static const ls_pass passes[] = {LS_PASS_TRAINING, LS_PASS_BACKWARD_DATA, LS_PASS_BACKWARD_WEIGHTS};
    ls_device_options options = {.threads = argc > 1 ? atoi(argv[1]) : 1, .isa = argc > 3 ? argv[3] : NULL};
    int64_t batch = argc > 2 ? atoi(argv[2]) : 16;
    ls_device *device;
    ls_queue *queue;
    MUST(ls_device_create("cpu", &options, &device));
    MUST(ls_queue_create(device, &queue));
    device->ops->thread_begin(device, NULL, NULL);
    for (int bf16 = 0; bf16 < 2; bf16++)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
            for (int p = 0; p < 3; p++) {
                ls_dtype dtype = bf16 ? LS_DTYPE_BF16 : LS_DTYPE_F32;
                if (device->ops->supports(device, dtype) != LS_OK) continue;
                print_bits(device, queue, &layers[i], batch, dtype, passes[p]);
            }
    ls_queue_destroy(&queue);
    ls_device_destroy(&device);
    return 0;
}
