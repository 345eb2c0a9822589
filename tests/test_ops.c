// Every operation and pass of device "cpu" against the reference loops, over shapes, dtypes, layouts and fusions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"
#include "ops_check.h"

// How far from the reference an operation may be, forward and in its gradients, as a share of the tensor's largest magnitude.
// What only selects (max pooling, ReLU, flatten, zero padding) computes nothing: to the bit.
#define ROUNDINGS 1e-6  // a few roundings of 2^-24, against double
// Normalizations: up to 64 products are summed in single precision before double takes over; where values are FAR from zero the
// mean is rounded to single precision, too.
#define NORMALIZED     1e-5
#define NORMALIZED_FAR 1e-4
// Sums of up to 2,304 products in single precision, and Winograd's transforms, which cost a digit (Lavin and Gray, "Fast algorithms for
// convolutional neural networks", 2016).
#define PRODUCTS 2e-5

#define SAMPLE(...)                                                                                                    \
    {                                                                                                                  \
        { .shape = LS_SHAPE(__VA_ARGS__) }                                                                             \
    }

// A sequence (T, C), and a mask of its steps.
#define MASKED(t, c)                                                                                                   \
    {{.shape = LS_SHAPE(t, c)}, {.shape = LS_SHAPE(t), .dtype = LS_DTYPE_I32}}, .x_count = 2, .below = 2

static op_case classes(ls_op_kind op, const void *attrs, int i);

static op_case conv(int64_t n, int64_t h, int64_t w, int64_t c, const ls_conv2d_attrs *attrs) {
    return (op_case){.op = LS_OP_CONV2D,
                     .attrs = attrs,
                     .batch = n,
                     .x = SAMPLE(h, w, c),
                     .forward = PRODUCTS,
                     .backward = PRODUCTS};
}

static ls_conv2d_attrs draw_conv(int kh, int kw) {
    int stride = PICK(1, 2);
    ls_conv2d_attrs a = {.filters = PICK(1, 3, 5, 16, 17, 32), .kernel = {kh, kw}, .strides = {stride, stride}};
    a.padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME);
    a.no_bias = PICK(0, 1);
    a.activation = PICK(LS_ACTIVATION_NONE, LS_ACTIVATION_RELU);
    return a;
}

static void conv2d(void **state) {
    static const int kernels[][2] = {{1, 1}, {3, 3}, {5, 5}, {2, 3}};
    for (int i = 0; i < 160; i++) {
        ls_conv2d_attrs a = draw_conv(kernels[i % 4][0], kernels[i % 4][1]);
        op_case c = conv(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32), &a);
        c.mask_dx = PICK(0, 1);
        check(c);
    }
    // An odd number of filters, innermost.
    ls_conv2d_attrs odd = {.filters = 3, .kernel = {1, 1}, .strides = {1, 1}};
    check_layouts(conv(8, 5, 6, 64, &odd));
    // The layers of mnist-cnn.
    ls_conv2d_attrs a = {.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU};
    check(conv(8, 28, 28, 1, &a));
    a.filters = 128;
    check(conv(8, 13, 13, 32, &a));
    a.filters = 256;
    check(conv(8, 5, 5, 128, &a));
    // Small images that are joined to one for the weight gradient.
    check(conv(3, 2, 3, 512, &(ls_conv2d_attrs){.filters = 1024, .kernel = {1, 1}}));
}

// Weight gradients that are computed otherwise where there are enough pixels, or few in a row: Winograd by parts of the images in fp32, dots in bf16.
static void conv2d_of_many_images(void **state) {
    check(conv(32, 13, 13, 32, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}}));
    check(conv(32, 16, 16, 32, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .padding = LS_PADDING_SAME}));
    check(conv(64, 16, 16, 32, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .padding = LS_PADDING_SAME}));
    check(conv(12, 24, 24, 32,
               &(ls_conv2d_attrs){.filters = 48, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .no_bias = 1}));
    check(conv(8, 9, 9, 32, &(ls_conv2d_attrs){.filters = 48, .kernel = {3, 3}, .strides = {2, 2}}));
    check_layouts(conv(8, 5, 5, 32, &(ls_conv2d_attrs){.filters = 48, .kernel = {3, 3}, .no_bias = 1}));
}

// Data gradients of rows that the library computes badly in bf16: forward passes of flipped weights.
static void conv2d_with_flipped_weights(void **state) {
    static const ls_conv2d_attrs attrs[] = {
        {.filters = 32, .kernel = {3, 3}, .padding = LS_PADDING_SAME},
        {.filters = 32, .kernel = {3, 3}},
        {.filters = 16, .kernel = {5, 2}, .padding = LS_PADDING_SAME, .no_bias = 1},
        {.filters = 32, .kernel = {2, 3}, .dilation = {2, 3}, .padding = LS_PADDING_SAME},
        {.filters = 48, .kernel = {1, 3}, .dilation = {1, 2}},
        {.filters = 32, .kernel = {1, 1}},
        {.filters = 32, .kernel = {3, 3}, .strides = {2, 2}, .padding = LS_PADDING_SAME},
        {.filters = 32, .kernel = {3, 3}, .groups = 2, .padding = LS_PADDING_SAME},
    };
    for (int i = 0; i < (int)(sizeof attrs / sizeof *attrs); i++) {
        op_case c = conv(5, 6, i % 2 ? 13 : 7, 48 - i % 3 * 16, &attrs[i]);
        c.mask_dx = i % 4 < 2;
        check_layouts(c);
    }
    // With fewer pixels the library's own, as with tiles, other oneDNNs and other processors.
    for (int n = 1; n <= 5 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16) && !ls__cpu_has_tiles(); n += 4) {
        op_case c = conv(n, 6, 7, 32, &attrs[0]);
        op_spec spec = op_spec_of(&c, LS_DTYPE_BF16);
        ls_kernel *k;
        spec.kernel.pass = LS_PASS_BACKWARD_DATA;
        assert_int_equal(ls_kernel_create(cpu, &spec.kernel, &k), LS_OK);
        if (DNNL_VERSION_MAJOR == 2) assert_int_equal(strncmp(k->name, "flipped:", 8) == 0, n == 5);
        if (DNNL_VERSION_MAJOR != 2) print_message("%s\n", k->name);
        ls_kernel_destroy(&k);
    }
    for (int side = 0; side < 4; side++) {
        op_case c = conv(2, 7, 19, 16, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}});
        c.sides[side / 2][side % 2] = 1 + side / 2;
        check(c);
    }
}

// Channels that lie innermost, an odd number of them, and odd numbers of filters.
static void conv2d_of_odd_channels(void **state) {
    for (int channels = 3; channels < 34; channels += 6)
        for (int filters = 1; filters < 18; filters += 4)
            check_layouts(conv(2, 6, 5, channels, &(ls_conv2d_attrs){.filters = filters, .kernel = {1, 1}}));
}

// The residual is added by the convolution or in a pass after it (Winograd, the last of these); what lies in a block's padding stays
// zero.
static void conv2d_with_residual(void **state) {
    static const int kernels[][2] = {{1, 1}, {3, 3}, {2, 3}};
    for (int i = 0; i < 48; i++) {
        ls_conv2d_attrs a = draw_conv(kernels[i % 3][0], kernels[i % 3][1]);
        a.filters = PICK(1, 3, 16, 24, 64);
        a.activation = i % 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE;
        op_case c = conv(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 16, 24, 64), &a);
        c.residual = 1;
        check(c);
    }
    for (int relu = 0; relu < 2; relu++) {
        ls_conv2d_attrs a = {.filters = 64, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .activation = relu};
        op_case c = conv(2, 13, 13, 64, &a);
        c.residual = 1;
        check(c);
    }
}

// As after a zero padding that was folded into it.
static void conv2d_of_padded_images(void **state) {
    for (int i = 0; i < 16; i++) {
        ls_conv2d_attrs a = draw_conv(3, 3);
        a.padding = LS_PADDING_VALID;
        op_case c = conv(PICK(1, 3), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 16, 24), &a);
        for (int j = 0; j < 4; j++) c.sides[j / 2][j % 2] = (int)(draw() % 3);
        check(c);
    }
}

static void dense(void **state) {
    for (int i = 0; i < 60; i++) {
        ls_dense_attrs a = {.units = PICK(1, 3, 10, 16, 17, 100), .no_bias = PICK(0, 1), .activation = PICK(0, 1)};
        check((op_case){.op = LS_OP_DENSE,
                        .attrs = &a,
                        .batch = PICK(1, 3, 8, 32),
                        .x = SAMPLE(PICK(1, 3, 5, 16, 17, 32, 256)),
                        .mask_dx = PICK(0, 1),
                        .wide = i % 3 == 0,  // logits
                        .forward = PRODUCTS,
                        .backward = PRODUCTS});
    }
}

static void pooling(void **state) {
    static const int windows[][2] = {{2, 2}, {3, 3}, {2, 3}, {1, 1}, {5, 5}};
    for (int i = 0; i < 60; i++) {
        const int *k = windows[i % 5];
        ls_pool2d_attrs a = {
            .size = {k[0], k[1]}, .strides = {PICK(1, 2, k[0]), PICK(1, 2, k[1])}, .padding = PICK(0, 1)};
        int mean = i / 5 % 2 == 0, overlaps = a.strides[0] < k[0] || a.strides[1] < k[1];
        check_layouts((op_case){.op = mean ? LS_OP_AVERAGE_POOL2D : LS_OP_MAX_POOL2D,
                                .attrs = &a,
                                .batch = PICK(1, 3, 8),
                                .x = SAMPLE(5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32)),
                                .values = i % 2 ? FEW : SMOOTH,
                                .mask_dx = PICK(0, 1),
                                .forward = mean ? ROUNDINGS : 0,
                                .backward = mean || overlaps ? ROUNDINGS : 0});
    }
}

// As after a zero padding that was folded into it.
static void pooling_of_padded_images(void **state) {
    static const int windows[][2] = {{3, 2}, {2, 2}, {3, 1}, {5, 3}};
    for (int i = 0; i < 24; i++) {
        const int *k = windows[i % 4];
        ls_pool2d_attrs a = {.size = {k[0], k[0]}, .strides = {k[1], k[1]}};
        op_case c = {.op = LS_OP_MAX_POOL2D,
                     .attrs = &a,
                     .batch = PICK(1, 3),
                     .x = SAMPLE(5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 16, 24, 64)),
                     .values = i % 2 ? FEW : SMOOTH,
                     .mask_dx = PICK(0, 1),
                     .backward = k[1] < k[0] ? ROUNDINGS : 0};
        for (int j = 0; j < 4; j++) c.sides[j / 2][j % 2] = (int)(draw() % 4);
        check_layouts(c);
    }
}

static void global_pooling(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_pool2d_attrs a = {.keepdims = i % 3 == 0};
        check_layouts((op_case){.op = i % 2 ? LS_OP_GLOBAL_MAX_POOL2D : LS_OP_GLOBAL_AVERAGE_POOL2D,
                                .attrs = &a,
                                .batch = PICK(1, 3, 8),
                                .x = SAMPLE(PICK(1, 3, 7), PICK(1, 4, 7), PICK(1, 3, 5, 16, 17, 32)),
                                .values = i % 4 < 2 ? FEW : SMOOTH,
                                .mask_dx = PICK(0, 1),
                                .forward = i % 2 ? 0 : ROUNDINGS,
                                .backward = i % 2 ? 0 : ROUNDINGS});
    }
}

static void batch_norm(void **state) {
    for (int i = 0; i < 48; i++) {
        op_case c = {.op = LS_OP_BATCH_NORM,
                     .relu = i % 2,
                     .residual = i / 2 % 2,
                     .addend = PICK(0, 1),
                     .mask_dx = i % 7 == 0,
                     .values = i % 5 == 0 ? FAR : SMOOTH,
                     .batch = PICK(1, 2, 5),
                     .x = SAMPLE(PICK(1, 3, 7, 14), PICK(1, 4, 7, 15), PICK(3, 16, 24, 64, 1, 8, 20, 100)),
                     .forward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .backward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .terms = 1};
        const int64_t *x = c.x[0].shape.dim;
        if (c.batch * x[0] * x[1] == 1) c.x[0].shape.dim[0] = 2;
        if (i % 8 == 7) c.batch = PICK(2, 33, 300), c.x[0].shape = LS_SHAPE(PICK(3, 16, 24, 64, 1, 100));
        if (i % 8 == 6) c.batch = PICK(2, 5), c.x[0].shape = LS_SHAPE(PICK(3, 40), PICK(3, 16, 40));
        check_layouts(c);
    }
}

// With a ReLU that is cut off at 6, of values that reach there, and without gamma.
static void batch_norm_otherwise(void **state) {
    for (int i = 0; i < 14; i++) {
        ls_batch_norm_attrs a = {.no_scale = i % 3 != 0, .epsilon = 1e-3f};
        op_case c = {.op = LS_OP_BATCH_NORM,
                     .attrs = &a,
                     .relu = i % 4 == 0   ? 0
                             : i % 4 == 1 ? 1
                                          : 6,
                     .addend = PICK(0, 1),
                     .mask_dx = i % 7 == 0,
                     .batch = PICK(2, 5),
                     .x = SAMPLE(PICK(3, 7, 14), PICK(4, 7, 15), PICK(3, 16, 24, 64, 1, 8, 20, 100)),
                     .forward = NORMALIZED,
                     .backward = NORMALIZED,
                     .terms = 1,
                     .w_times = 8};
        check_layouts(c);
    }
}

static void addition(void **state) {
    for (int i = 0; i < 16; i++) {
        op_case c = {.op = LS_OP_ADD,
                     .relu = i % 2,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(3, 16, 24, 64)),
                     .forward = ROUNDINGS};
        if (i % 4 == 3) c.x[0].shape = LS_SHAPE(c.x[0].shape.dim[2]);
        c.x[1] = c.x[0];
        check_layouts(c);
    }
}

static void zero_padding(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_zero_pad2d_attrs a = {0};
        for (int j = 0; j < 4; j++) a.padding[j / 2][j % 2] = (int)(draw() % 4);
        check_layouts((op_case){.op = LS_OP_ZERO_PAD2D,
                                .attrs = &a,
                                .batch = PICK(1, 3),
                                .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4, 7), PICK(3, 16, 24, 64)),
                                .mask_dx = PICK(0, 1)});
    }
}

static void cropping(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_cropping2d_attrs a = {0};
        for (int j = 0; j < 4; j++) a.cropping[j / 2][j % 2] = (int)(draw() % 4);
        check_layouts((op_case){.op = LS_OP_CROPPING2D,
                                .attrs = &a,
                                .batch = PICK(1, 3),
                                .x = SAMPLE(PICK(7, 9, 12), PICK(7, 10, 13), PICK(3, 16, 24, 64)),
                                .mask_dx = PICK(0, 1)});
    }
}

static void relu_flatten_dropout(void **state) {
    static const ls_op_kind ops[] = {LS_OP_RELU, LS_OP_FLATTEN, LS_OP_DROPOUT, LS_OP_ACTIVATION};
    for (int i = 0; i < 48; i++) {
        ls_dropout_attrs dropout = {.rate = i % 8 < 4 ? 0.5f : 0.3f, .per_sample = i % 12 == 6};
        ls_activation_attrs activation = {.activation = LS_ACTIVATION_RELU};
        op_case c = {.op = ops[i % 4],
                     .attrs = i % 4 == 2   ? (const void *)&dropout
                              : i % 4 == 3 ? (const void *)&activation
                                           : NULL,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 5, 16, 17, 32)),
                     .mask_dx = PICK(0, 1),
                     .forward = i % 4 == 2 ? ROUNDINGS : 0,
                     .backward = i % 4 == 2 ? ROUNDINGS : 0};
        if (i / 4 % 4 == 3 && c.op != LS_OP_FLATTEN) c.x[0].shape = LS_SHAPE(c.x[0].shape.dim[2]);
        check_layouts(c);
    }
}

static void activations(void **state) {
    for (int i = 0; i < 48; i++) {
        ls_activation_attrs a = {.activation = LS_ACTIVATION_SIGMOID + i % 6};
        op_case c = {.op = LS_OP_ACTIVATION,
                     .attrs = &a,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 5, 16, 17, 32)),
                     .values = a.activation == LS_ACTIVATION_RELU6 && i % 12 > 6 ? FAR : SMOOTH,
                     .mask_dx = PICK(0, 1),
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS,
                     .terms = 0.1};
        if (i / 6 % 3 == 2) c.x[0].shape = LS_SHAPE(PICK(1, 7, 64, 200));
        check_layouts(c);
    }
}

static void multiply(void **state) {
    for (int i = 0; i < 16; i++) {
        op_case c = {.op = LS_OP_MULTIPLY,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(3, 16, 24, 64)),
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        if (i % 4 == 3) c.x[0].shape = LS_SHAPE(c.x[0].shape.dim[2]);
        c.x[1] = c.x[0];
        check_layouts(c);
    }
}

static void multiply_by_channel(void **state) {
    for (int i = 0; i < 20; i++) {
        op_case c = {.op = LS_OP_MULTIPLY,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(2, 3, 14), PICK(1, 5, 14), PICK(1, 3, 4, 8, 16, 20, 24, 40, 64)),
                     .forward = ROUNDINGS,
                     .backward = NORMALIZED,
                     .terms = 1};
        int64_t channels = c.x[0].shape.dim[2];
        c.x[1].shape = LS_SHAPE(1, 1, channels);
        if (i % 5 == 4) c.x[0].shape = LS_SHAPE(7, channels), c.x[1].shape = LS_SHAPE(1, channels);
        check_layouts(c);
    }
}

static void rescaling(void **state) {
    for (int i = 0; i < 12; i++) {
        ls_rescaling_attrs a = {.scale = i % 2 ? 1 / 255.0 : -3, .offset = i % 3 ? 0.5 : 0};
        op_case c = {.op = LS_OP_RESCALING,
                     .attrs = &a,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 16, 24, 32)),
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        if (i % 6 == 5) c.x[0].shape = LS_SHAPE(PICK(1, 7, 64, 200));
        check_layouts(c);
    }
}

static void normalization(void **state) {
    for (int i = 0; i < 12; i++) {
        op_case c = {.op = LS_OP_NORMALIZATION,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 16, 24, 80)),
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        if (i % 6 == 5) c.x[0].shape = LS_SHAPE(PICK(1, 7, 64, 200));
        check_layouts(c);
    }
}

static void concat(void **state) {
    for (int i = 0; i < 40; i++) {
        ls_concat_attrs a = {.axis = i % 4};
        op_case c = {.op = LS_OP_CONCAT, .attrs = &a, .batch = PICK(1, 3), .x_count = i % 7 == 6 ? 16 : PICK(2, 3)};
        ls_shape first = LS_SHAPE(PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 5, 16, 32, 24));
        if (i % 10 == 9) first = LS_SHAPE(7), a.axis = 0;
        for (int k = 0; k < c.x_count; k++) {
            c.x[k].shape = first;
            c.x[k].shape.dim[a.axis ? a.axis - 1 : first.ndim - 1] = i % 2 ? PICK(16, 32, 48) : PICK(1, 2, 5, 16);
            if (i % 8 == 7) c.x[k].dtype = LS_DTYPE_I32;
        }
        if (c.x[0].dtype == LS_DTYPE_I32)
            check(c);
        else
            check_layouts(c);
    }
}

// Groups of one channel and of several, of as many filters or more; kernels with gaps; both.
static void conv2d_with_groups_and_dilation(void **state) {
    static const int channels[][3] = {{16, 16, 16}, {32, 32, 2}, {6, 9, 3}, {4, 8, 4},
                                      {64, 32, 4},  {5, 10, 5},  {3, 7, 1}, {64, 128, 16}};
    for (int i = 0; i < 80; i++) {
        ls_conv2d_attrs a = draw_conv(PICK(1, 3), PICK(2, 3));
        a.filters = channels[i % 8][1];
        a.groups = channels[i % 8][2];
        if (i % 3) a.dilation[0] = PICK(1, 2, 3), a.dilation[1] = PICK(1, 2);
        op_case c = conv(PICK(1, 3, 8), 7 + draw() % 6, 7 + draw() % 6, channels[i % 8][0], &a);
        c.mask_dx = PICK(0, 1);
        c.residual = i % 5 == 0;
        check(c);
    }
}

// Few channels, and filters that fill no block: the library's own kernels for first layers do not take them in bf16.
static void conv2d_of_few_channels(void **state) {
    static const int sizes[][2] = {{3, 24}, {1, 6}, {3, 1}, {4, 20}, {20, 10}, {2, 17}};
    for (int i = 0; i < 36; i++) {
        ls_conv2d_attrs a = draw_conv(PICK(1, 2, 5), PICK(2, 3));
        a.filters = sizes[i % 6][1];
        check(conv(PICK(1, 3, 8), 7 + draw() % 6, 7 + draw() % 6, sizes[i % 6][0], &a));
    }
}

static void depthwise_conv2d(void **state) {
    for (int i = 0; i < 60; i++) {
        ls_depthwise_conv2d_attrs a = {.kernel = {PICK(1, 3, 5), PICK(2, 3)},
                                       .strides = {PICK(1, 2), 1},
                                       .multiplier = i % 2 ? 1 : PICK(2, 3),
                                       .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                                       .activation = PICK(LS_ACTIVATION_NONE, LS_ACTIVATION_RELU),
                                       .no_bias = PICK(0, 1)};
        a.strides[1] = a.strides[0];
        if (i % 3 == 0) a.dilation[0] = PICK(1, 2), a.dilation[1] = 2;
        op_case c = {.op = LS_OP_DEPTHWISE_CONV2D,
                     .attrs = &a,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(9 + draw() % 4, 9 + draw() % 4, PICK(1, 3, 8, 16, 24, 32)),
                     .mask_dx = PICK(0, 1),
                     .residual = i % 5 == 0,
                     .forward = PRODUCTS,
                     .backward = PRODUCTS};
        if (i % 4 == 0 && a.padding == LS_PADDING_VALID && a.kernel[0] > 1) c.sides[0][0] = c.sides[1][1] = 1;
        check_layouts(c);
    }
}

static void separable_conv2d(void **state) {
    for (int i = 0; i < 14; i++) {
        ls_separable_conv2d_attrs a = {.filters = PICK(1, 3, 16, 24, 32),
                                       .kernel = {PICK(1, 3, 5), PICK(2, 3)},
                                       .strides = {PICK(1, 2), 1},
                                       .multiplier = i % 2 ? 1 : PICK(2, 3),
                                       .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                                       .no_bias = PICK(0, 1)};
        a.strides[1] = a.strides[0];
        if (i % 3 == 0) a.dilation[0] = PICK(1, 2), a.dilation[1] = 2;
        check_layouts((op_case){.op = LS_OP_SEPARABLE_CONV2D,
                                .attrs = &a,
                                .batch = PICK(1, 3, 8),
                                .x = SAMPLE(9 + draw() % 4, 9 + draw() % 4, PICK(1, 3, 8, 16, 24, 32)),
                                .forward = PRODUCTS,
                                .backward = PRODUCTS,
                                .terms = 4,  // gradients of parameters are sums over all pixels
                                .rounds_between = 1});
    }
}

static void conv2d_transpose(void **state) {
    for (int i = 0; i < 80; i++) {
        ls_conv2d_transpose_attrs a = {.filters = PICK(1, 3, 8, 16, 17, 32),
                                       .kernel = {PICK(1, 2, 3, 5), PICK(2, 3)},
                                       .strides = {PICK(1, 2), PICK(1, 2, 3)},
                                       .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                                       .no_bias = PICK(0, 1)};
        check_layouts((op_case){.op = LS_OP_CONV2D_TRANSPOSE,
                                .attrs = &a,
                                .batch = PICK(1, 3, 8),
                                .x = SAMPLE(PICK(1, 3, 5), PICK(2, 4, 7), PICK(1, 3, 8, 16, 24, 32)),
                                .forward = PRODUCTS,
                                .backward = PRODUCTS});
    }
}

// --- volumes and clips -----------------------------------------------------------------------------------------------

static void conv3d(void **state) {
    for (int i = 0; i < 48; i++) {
        ls_conv3d_attrs a = {.filters = PICK(1, 3, 8, 16, 17, 32),
                             .kernel = {PICK(1, 2, 3), PICK(1, 3), PICK(1, 2, 3)},
                             .strides = {PICK(1, 2), PICK(1, 2), PICK(1, 1, 2)},
                             .dilation = {PICK(1, 1, 2), 1, PICK(1, 1, 2)},
                             .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                             .activation = PICK(LS_ACTIVATION_NONE, LS_ACTIVATION_RELU),
                             .no_bias = PICK(0, 1)};
        op_case c = {.op = LS_OP_CONV3D,
                     .attrs = &a,
                     .batch = PICK(1, 3, 4),
                     .x = SAMPLE(5 + draw() % 2, 3 + draw() % 4, 5 + draw() % 3, PICK(1, 3, 8, 16, 17, 32)),
                     .residual = i % 4 == 3,
                     .mask_dx = PICK(0, 1),
                     .wide = i % 5 == 4 && i % 4 != 3,
                     .forward = PRODUCTS,
                     .backward = PRODUCTS};
        check(c);
        if (i % 4 == 0) check_layouts(c);
    }
}

static void conv3d_transpose(void **state) {
    for (int i = 0; i < 30; i++) {
        ls_conv3d_transpose_attrs a = {.filters = PICK(1, 3, 8, 16, 17, 32),
                                       .kernel = {PICK(1, 2, 3), PICK(2, 3, 4), PICK(2, 3)},
                                       .strides = {PICK(1, 2), PICK(1, 2), PICK(1, 2, 3)},
                                       .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                                       .no_bias = PICK(0, 1)};
        check_layouts((op_case){.op = LS_OP_CONV3D_TRANSPOSE,
                                .attrs = &a,
                                .batch = PICK(1, 3),
                                .x = SAMPLE(PICK(1, 2, 3), PICK(2, 4), PICK(3, 5), PICK(1, 3, 8, 16, 24, 32)),
                                .forward = PRODUCTS,
                                .backward = PRODUCTS});
    }
}

// oneDNN 3.2 computes wrong weight gradients of these in bf16.
static void volumes_less_deep_than_the_kernel(void **state) {
    for (int i = 0; i < 4; i++) {
        ls_conv3d_transpose_attrs a = {.filters = i % 2 ? 8 : 16,
                                       .kernel = {3, 2, 3},
                                       .strides = {1, 1, i < 2 ? 3 : 2},
                                       .padding = LS_PADDING_SAME,
                                       .no_bias = 1};
        check_layouts((op_case){.op = LS_OP_CONV3D_TRANSPOSE,
                                .attrs = &a,
                                .batch = 1,
                                .x = SAMPLE(2, 2, 3, 8),
                                .forward = PRODUCTS,
                                .backward = PRODUCTS});
    }
}

static void pooling3d(void **state) {
    for (int i = 0; i < 32; i++) {
        ls_pool3d_attrs a = {.size = {PICK(1, 2, 3), PICK(1, 2, 3), PICK(2, 3)}, .padding = PICK(0, 1)};
        int mean = i % 2, overlaps = 0;
        for (int j = 0; j < 3; j++) {
            a.strides[j] = PICK(1, 2, 3);
            overlaps |= a.strides[j] < a.size[j];
        }
        check_layouts((op_case){.op = mean ? LS_OP_AVERAGE_POOL3D : LS_OP_MAX_POOL3D,
                                .attrs = &a,
                                .batch = PICK(1, 3),
                                .x = SAMPLE(3 + draw() % 3, 3 + draw() % 3, 3 + draw() % 4, PICK(1, 3, 8, 16, 17, 32)),
                                .values = i % 4 < 2 ? FEW : SMOOTH,
                                .mask_dx = PICK(0, 1),
                                .forward = mean ? ROUNDINGS : 0,
                                .backward = mean || overlaps ? ROUNDINGS : 0});
    }
}

// Other layers that clips go through.
static void layers_of_volumes(void **state) {
    for (int i = 0; i < 12; i++) {
        op_case c = {.op = LS_OP_BATCH_NORM,
                     .relu = i % 2,
                     .batch = PICK(1, 2, 5),
                     .x = SAMPLE(PICK(1, 3), PICK(2, 4), PICK(3, 7), PICK(1, 3, 16, 17, 24, 64)),
                     .forward = NORMALIZED,
                     .backward = NORMALIZED,
                     .terms = 1};
        check_layouts(c);
        check_layouts((op_case){.op = LS_OP_RELU, .batch = 2, .x = {c.x[0]}});
        check_layouts((op_case){.op = LS_OP_FLATTEN, .batch = 2, .x = {c.x[0]}});
        check_layouts((op_case){.op = LS_OP_ADD, .batch = 2, .x = {c.x[0], c.x[0]}, .forward = ROUNDINGS});
        check_layouts((op_case){.op = LS_OP_CONCAT, .batch = 2, .x_count = 2, .x = {c.x[0], c.x[0]}});
        check_layouts((op_case){.op = LS_OP_ACTIVATION,
                                .attrs = &(ls_activation_attrs){.activation = LS_ACTIVATION_TANH},
                                .batch = 2,
                                .x = {c.x[0]},
                                .forward = ROUNDINGS,
                                .backward = ROUNDINGS,
                                .terms = 0.1});
    }
}

static void up_sampling2d(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_up_sampling2d_attrs a = {.size = {PICK(1, 2, 3), PICK(1, 2, 4)}};
        check_layouts((op_case){.op = LS_OP_UP_SAMPLING2D,
                                .attrs = &a,
                                .batch = PICK(1, 3),
                                .x = SAMPLE(PICK(1, 3, 6), PICK(1, 4, 7), PICK(3, 16, 24, 64)),
                                .mask_dx = PICK(0, 1),
                                .backward = ROUNDINGS});
    }
}

static void layer_norm(void **state) {
    for (int i = 0; i < 32; i++) {
        op_case c = {.op = LS_OP_LAYER_NORM,
                     .values = i % 5 == 0 ? FAR : SMOOTH,
                     .batch = PICK(1, 2, 5, 33),
                     .x = SAMPLE(PICK(1, 3, 7), PICK(2, 3, 16, 64, 65, 200)),
                     .forward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .backward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .terms = 1};
        if (i % 4 == 3) c.x[0].shape = LS_SHAPE(PICK(2, 100));
        if (i % 4 == 2) c.x[0].shape = LS_SHAPE(PICK(1, 3), PICK(2, 5), PICK(3, 16, 24));
        check_layouts(c);
    }
}

static void group_norm(void **state) {
    for (int i = 0; i < 24; i++) {
        int groups = PICK(1, 2, -1), wide = PICK(1, 3, 16, 40);
        ls_group_norm_attrs a = {.groups = groups};
        op_case c = {.op = LS_OP_GROUP_NORM,
                     .attrs = &a,
                     .values = i % 5 == 0 ? FAR : SMOOTH,
                     .batch = PICK(1, 2, 33),
                     .x = SAMPLE(PICK(2, 4), PICK(3, 5), wide * 2),
                     .forward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .backward = i % 5 == 0 ? NORMALIZED_FAR : NORMALIZED,
                     .terms = 1};
        if (i % 4 == 3) c.x[0].shape = LS_SHAPE(PICK(3, 6), 2, 2, 2 * PICK(1, 8));
        check_layouts(c);
    }
}

static void normal_sample(void **state) {
    for (int i = 0; i < 16; i++) {
        int64_t c = PICK(1, 3, 16, 64, 70), rows = PICK(1, 4);
        op_case o = {.op = LS_OP_NORMAL_SAMPLE,
                     .batch = PICK(1, 3, 8),
                     .x = {{.shape = LS_SHAPE(2 * c)}, {.shape = LS_SHAPE(c)}},
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        if (i % 2) o.x[0].shape = LS_SHAPE(rows, 2 * c), o.x[1].shape = LS_SHAPE(rows, c);
        check(o);
    }
}

static void normal_divergence(void **state) {
    for (int i = 0; i < 8; i++) {
        ls_loss_attrs a = {.weight = i % 2 ? 0.25 : 0};
        op_case o = {.op = LS_OP_NORMAL_DIVERGENCE,
                     .attrs = &a,
                     .batch = PICK(1, 3, 8),
                     .x = SAMPLE(PICK(2, 6, 32, 140)),
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        if (i % 4 == 3) o.x[0].shape = LS_SHAPE(3, 2, 8);
        check(o);
    }
}

static void embedding(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_embedding_attrs a = {.rows = PICK(1, 7, 50), .width = PICK(1, 5, 16, 40)};
        op_case c = {.op = LS_OP_EMBEDDING,
                     .attrs = &a,
                     .batch = PICK(1, 3, 8),
                     .x = {{.shape = LS_SHAPE(PICK(1, 6, 20)), .dtype = LS_DTYPE_I32}},
                     .backward = ROUNDINGS};
        if (i % 4 == 3) c.x[0].shape = (ls_shape){0};
        check(c);
    }
}

static void global_average_pool1d(void **state) {
    for (int i = 0; i < 12; i++)
        check((op_case){.op = LS_OP_GLOBAL_AVERAGE_POOL1D,
                        .batch = PICK(1, 3, 8),
                        .x = SAMPLE(PICK(1, 5, 40), PICK(1, 3, 16, 64, 70)),
                        .forward = ROUNDINGS,
                        .backward = ROUNDINGS});
}

static void masked_pooling(void **state) {
    for (int i = 0; i < 12; i++) {
        int64_t t = PICK(1, 5, 20), channels = PICK(1, 3, 16, 70);
        check((op_case){.op = LS_OP_GLOBAL_AVERAGE_POOL1D,
                        .batch = PICK(1, 3, 8),
                        .x = MASKED(t, channels),
                        .forward = ROUNDINGS,
                        .backward = ROUNDINGS});
    }
}

static void position_embedding(void **state) {
    for (int i = 0; i < 12; i++) {
        ls_position_embedding_attrs a = {.rows = PICK(9, 20)};
        check((op_case){.op = LS_OP_POSITION_EMBEDDING,
                        .attrs = &a,
                        .batch = PICK(1, 3, 8),
                        .x = SAMPLE(PICK(1, 5, 9), PICK(1, 3, 16, 40)),
                        .forward = ROUNDINGS,
                        .backward = ROUNDINGS});
    }
}

// Scores of which exponentials are taken, and sums over all positions.
static void attention(void **state) {
    for (int i = 0; i < 40; i++) {
        ls_attention_attrs a = {.heads = PICK(1, 2, 4), .causal = i % 2};
        int64_t t = PICK(1, 5, 16, 17, 33, 64), c = 3 * a.heads * PICK(1, 4, 16, 17, 32);
        op_case plain = {.op = LS_OP_ATTENTION, .attrs = &a, .batch = PICK(1, 3), .x = SAMPLE(t, c)};
        op_case masked = {.op = LS_OP_ATTENTION, .attrs = &a, .batch = PICK(1, 3), .x = MASKED(t, c)};
        op_case chosen = i / 2 % 2 ? masked : plain;
        chosen.forward = chosen.backward = PRODUCTS;
        chosen.terms = 1;
        check(chosen);
    }
}

// Roundings of each step go on to the next.
static void recurrent(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_recurrent_attrs a = {.units = PICK(1, 3, 16, 17, 32), .return_sequences = i % 2, .backwards = i / 2 % 2};
        int64_t t = PICK(1, 2, 7), c = PICK(1, 3, 16, 33);
        ls_op_kind op = i % 3 ? LS_OP_LSTM : LS_OP_GRU;
        op_case plain = {.op = op, .attrs = &a, .batch = PICK(1, 3, 8), .x = SAMPLE(t, c)};
        op_case masked = {.op = op, .attrs = &a, .batch = PICK(1, 3, 8), .x = MASKED(t, c)};
        op_case chosen = i / 4 % 2 ? masked : plain;
        chosen.forward = chosen.backward = PRODUCTS;
        chosen.terms = 1;
        chosen.rounds_between = t > 1 ? 2 : 1;
        check(chosen);
    }
}

static void losses_of_sequences(void **state) {
    static const ls_op_kind ops[] = {LS_OP_SOFTMAX_CROSS_ENTROPY, LS_OP_ACCURACY, LS_OP_PERPLEXITY};
    for (int i = 0; i < 30; i++) {
        ls_loss_attrs loss = {.label_smoothing = i % 2 ? 0.15 : 0, .weight = i % 5 == 4 ? 0.3 : 0};
        int64_t t = PICK(1, 5, 40), classes = PICK(2, 10, 70, 130);
        op_case c = {.op = ops[i % 3],
                     .attrs = i % 3 ? NULL : &loss,
                     .batch = PICK(1, 3, 8),
                     .below = (int)classes,
                     .x = {{.shape = LS_SHAPE(t, classes)}, {.shape = LS_SHAPE(t), .dtype = LS_DTYPE_I32}},
                     .forward = ROUNDINGS,
                     .backward = ROUNDINGS};
        check(c);
    }
    for (int i = 0; i < 8; i++) {
        op_case c = classes(LS_OP_PERPLEXITY, NULL, i);
        c.forward = ROUNDINGS;
        check(c);
    }
}

static void dense_of_sequences(void **state) {
    for (int i = 0; i < 30; i++) {
        ls_dense_attrs a = {.units = PICK(1, 3, 16, 17), .no_bias = PICK(0, 1), .activation = PICK(0, 1)};
        check_layouts((op_case){.op = LS_OP_DENSE,
                                .attrs = &a,
                                .batch = PICK(1, 3, 8),
                                .x = SAMPLE(PICK(1, 5, 9), PICK(1, 3, 16, 32)),
                                .mask_dx = PICK(0, 1),
                                .wide = i % 3 == 0,
                                .forward = PRODUCTS,
                                .backward = PRODUCTS});
    }
}

static void reshape(void **state) {
    for (int i = 0; i < 24; i++) {
        static const int shapes[][4] = {{-1}, {4, -1}, {-1, 2, 2}, {2, 1, 2, -1}};
        ls_reshape_attrs a = {0};
        memcpy(a.shape, shapes[i % 4], sizeof a.shape);
        op_case c = {
            .op = LS_OP_RESHAPE, .attrs = &a, .batch = PICK(1, 3), .x = SAMPLE(2, PICK(2, 6), PICK(1, 16, 17))};
        c.mask_dx = PICK(0, 1);
        if (i % 6 == 5)
            c.x[0] = (ls_tensor_type){.shape = LS_SHAPE(8), .dtype = LS_DTYPE_I32}, c.mask_dx = 0, c.below = 9;
        if (c.x[0].dtype == LS_DTYPE_I32)
            check(c);
        else
            check_layouts(c);
    }
}

// Scores and targets: class numbers, or rows of weights.
static op_case classes(ls_op_kind op, const void *attrs, int i) {
    op_case c = {.op = op, .attrs = attrs, .batch = PICK(1, 3, 8), .x = SAMPLE(PICK(2, 10, 17, 100))};
    c.values = i % 2 ? FEW : SMOOTH;
    c.x[1] = c.x[0];
    if (i % 4 < 2) c.x[1] = (ls_tensor_type){.dtype = LS_DTYPE_I32};
    return c;
}

static void softmax_cross_entropy(void **state) {
    for (int i = 0; i < 48; i++) {
        ls_loss_attrs a = {.label_smoothing = i % 3 == 2 ? 0.15 : 0, .weight = i % 5 == 4 ? 0.3 : 0};
        op_case c = classes(LS_OP_SOFTMAX_CROSS_ENTROPY, &a, i);
        c.forward = c.backward = ROUNDINGS;
        check(c);
    }
}

static void accuracy(void **state) {
    for (int i = 0; i < 24; i++) check(classes(LS_OP_ACCURACY, NULL, i));
}

// Vectors of floats on all devices: the same bits, in place and not, in any pieces.
static void vector_functions(void **state) {
    enum { UNITS = 17, N = UNITS * LS_VECTOR_ALIGN };
    ls_device *devices[] = {cpu, ref};
    float expected[N];
    // A run of one unit, of two, of a full tree, and of one cut off.
    static const int64_t units[] = {1, 2, 8, 6};
    double squares[4];
    for (int d = 0; d < 2; d++) {
        const ls_vector_ops *v = devices[d]->ops->vector;
        ls_buffer *b[4];
        ls_queue *queue;
        assert_int_equal(ls_queue_create(devices[d], &queue), LS_OK);
        for (int i = 0; i < 4; i++) assert_int_equal(ls_buffer_create(devices[d], N * 4, &b[i]), LS_OK);
        float *x = b[0]->memory, *y = b[1]->memory, *z = b[2]->memory;
        for (int i = 0; i < N; i++) x[i] = (float)(i * 37 % 101) / 7 - 3, y[i] = (float)(i * 53 % 97) / 11 - 4;
        for (int i = 0; i < N && d == 0; i++) expected[i] = x[i] + y[i];
        assert_int_equal(v->add(queue, ls_span_of(b[2], 0), ls_span_of(b[0], 0), ls_span_of(b[1], 0), N), LS_OK);
        assert_memory_equal(z, expected, sizeof expected);
        ls_span tail = ls_span_of(b[1], 64 * 4), from = ls_span_of(b[0], 64 * 4);
        assert_int_equal(v->add(queue, tail, tail, from, N - 64), LS_OK);
        assert_memory_equal(y + 64, expected + 64, sizeof expected - 64 * 4);
        assert_int_equal(v->scale(queue, ls_span_of(b[2], 0), ls_span_of(b[0], 0), 0.3f, N), LS_OK);
        for (int i = 0; i < N; i++) assert_true(z[i] == x[i] * 0.3f);
        assert_int_equal(v->scale(queue, ls_span_of(b[0], 0), ls_span_of(b[0], 0), 0.3f, N), LS_OK);
        assert_memory_equal(x, z, sizeof expected);
        double *sums = b[3]->memory;
        assert_int_equal(v->sum_squares(queue, ls_span_of(b[3], 0), ls_span_of(b[0], 0), units, 4), LS_OK);
        for (int64_t k = 0, at = 0; k < 4; at += units[k++] * LS_VECTOR_ALIGN) {
            double plain = 0;
            for (int64_t i = 0; i < units[k] * LS_VECTOR_ALIGN; i++) plain += (double)x[at + i] * x[at + i];
            assert_true(sums[k] > plain * (1 - 1e-14) && sums[k] < plain * (1 + 1e-14));
            if (d == 0) squares[k] = sums[k];
            assert_true(sums[k] == squares[k]);
        }
        for (int i = 0; i < 4; i++) ls_buffer_destroy(&b[i]);
        ls_queue_destroy(&queue);
    }
}

// Every value of bf16 and floats beside it, rounded, added and packed on all devices: with the bits of one value after the other, in place and not.
static void vector_functions_of_bf16(void **state) {
    enum { N = 1 << 16 };
    ls_device *devices[] = {cpu, ref};
    for (int d = 0; d < 2; d++) {
        const ls_vector_ops *v = devices[d]->ops->vector;
        ls_buffer *b[4];
        ls_queue *queue;
        assert_int_equal(ls_queue_create(devices[d], &queue), LS_OK);
        for (int i = 0; i < 4; i++) assert_int_equal(ls_buffer_create(devices[d], (int64_t)N * 4, &b[i]), LS_OK);
        float *x = b[0]->memory, *y = b[1]->memory, *z = b[2]->memory;
        ls_bf16 *packed = b[3]->memory;
        ls_span xs = ls_span_of(b[0], 0), ys = ls_span_of(b[1], 0), zs = ls_span_of(b[2], 0), ps = ls_span_of(b[3], 0);
        static const uint32_t beside[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};  // below, at and above ties
        for (uint32_t round = 0; round < sizeof beside / sizeof beside[0]; round++) {
            for (uint32_t i = 0; i < N; i++) {
                uint32_t left = i << 16 | beside[round], right = (i * 40503u % N) << 16 | beside[i % 6];
                memcpy(&x[i], &left, 4);
                memcpy(&y[i], &right, 4);
            }
            assert_int_equal(v->pack_bf16(queue, ps, xs, N), LS_OK);
            for (int i = 0; i < N; i++) assert_int_equal(packed[i], ls_float_to_bf16(x[i]));
            assert_int_equal(v->unpack_bf16(queue, zs, ps, N), LS_OK);
            for (int i = 0; i < N; i++) {
                float back = ls_bf16_to_float(packed[i]), rounded = ls_bf16_round(x[i]);
                assert_memory_equal(&z[i], &back, 4);
                assert_memory_equal(&z[i], &rounded, 4);
                assert_int_equal(ls_float_to_bf16(z[i]), packed[i]);
            }
            assert_int_equal(v->add_bf16(queue, zs, xs, ys, N), LS_OK);
            for (int i = 0; i < N; i++) {
                float left = ls_bf16_to_float(ls_float_to_bf16(x[i])), right = ls_bf16_to_float(ls_float_to_bf16(y[i]));
                float sum = ls_bf16_to_float(ls_float_to_bf16(left + right));
                // Of two that are no numbers the processor takes one or the other.
                assert_true(isnan(sum) ? isnan(z[i]) : memcmp(&z[i], &sum, 4) == 0);
            }
            assert_int_equal(v->add_bf16(queue, ls_span_at(xs, 256), ls_span_at(xs, 256), ls_span_at(ys, 256), N - 64),
                             LS_OK);
            for (int i = 64; i < N; i++) assert_true(isnan(z[i]) ? isnan(x[i]) : memcmp(&x[i], &z[i], 4) == 0);
        }
        for (int i = 0; i < 4; i++) ls_buffer_destroy(&b[i]);
        ls_queue_destroy(&queue);
    }
}

// What stays, by trying: how many are larger, or equal and before it.
static int stays_by_counting(const float *x, int n, int i, int keep) {
    int before = 0;
    for (int k = 0; k < n; k++) {
        uint32_t a, b;
        memcpy(&a, &x[k], 4);
        memcpy(&b, &x[i], 4);
        a &= 0x7fffffffu, b &= 0x7fffffffu;
        before += a > b || (a == b && k < i);
    }
    return before < keep;
}

// The largest stay, of equal ones the first, and what is left over comes back in the next call; of zeros, equals and what is no finite number, too.
static void vector_function_of_the_largest(void **state) {
    enum { N = 330 };
    ls_device *devices[] = {cpu, ref};
    for (int d = 0; d < 2; d++) {
        ls_queue *queue;
        ls_buffer *b[2];
        assert_int_equal(ls_queue_create(devices[d], &queue), LS_OK);
        for (int i = 0; i < 2; i++) assert_int_equal(ls_buffer_create(devices[d], N * 4, &b[i]), LS_OK);
        float *x = b[0]->memory, *rest = b[1]->memory, wanted[N], left[N];
        for (int what = 0; what < 5; what++)
            for (int keep = 1; keep < N; keep = 2 * keep + 3) {
                for (int i = 0; i < N; i++) {
                    uint32_t r = (uint32_t)(i * 7 + what + keep) * 2654435761u >> 8;
                    x[i] = (float)(int)(r % (what == 1 ? 5 : 10007)) - (what == 1 ? 2.0f : 5003.0f);
                    rest[i] = what == 3 ? (float)(r % 17) * 0.25f : 0;
                    if (what == 2) x[i] = i % 50 ? 0 : -x[i];
                    if (what == 4 && i % 40 == 3) x[i] = i % 80 == 3 ? NAN : -INFINITY;
                    wanted[i] = x[i] + rest[i] * 4;
                }
                memcpy(left, wanted, sizeof left);
                for (int i = 0; i < N; i++) wanted[i] = stays_by_counting(left, N, i, keep) ? left[i] : 0;
                const ls_vector_ops *v = devices[d]->ops->vector;
                assert_int_equal(v->keep_largest(queue, ls_span_of(b[0], 0), ls_span_of(b[1], 0), 4, 0.25f, N, keep),
                                 LS_OK);
                for (int i = 0; i < N; i++) {
                    int waits = isfinite(left[i]) && !stays_by_counting(left, N, i, keep);
                    assert_memory_equal(&x[i], &wanted[i], wanted[i] != 0 ? 4 : 0);
                    assert_true(isnan(wanted[i]) || x[i] == wanted[i]);
                    assert_true(rest[i] == (waits ? left[i] * 0.25f : 0));
                }
            }
        for (int i = 0; i < 2; i++) ls_buffer_destroy(&b[i]);
        ls_queue_destroy(&queue);
    }
}

// Last: the device must have run every layer, in every dtype it claims. (Of losses and metrics tests/test_losses.c sees to it.)
static void every_operation_ran(void **state) {
    ls_dtype dtypes[DTYPES];
    int count = each_dtype(dtypes);
    for (int op = LS_OP_INPUT + 1; op < LS_OP_COUNT; op++)
        for (int d = 0; d < count && ls__op_find((ls_op_kind)op)->part == LS_PART_LAYER; d++) {
            int column = dtypes[d] == LS_DTYPE_BF16 ? 1 : dtypes[d] == LS_DTYPE_F16 ? 2 : 0;
            print_message("%-24s %s  %4d cases, %d not supported; largest error %.2f of what is allowed\n",
                          ls_op_name((ls_op_kind)op), ls_dtype_name(dtypes[d]), runs[op][column], skips[op][column],
                          worst[op][column]);
            assert_true(runs[op][column] > 0);
            assert_int_equal(skips[op][column], 0);
        }
    // Without a library that has fp16, of the device's own loops.
    for (int op = LS_OP_INPUT + 1; op < LS_OP_COUNT; op++)
        if (runs[op][2])
            print_message("%-24s fp16 %d cases, %.2f\n", ls_op_name((ls_op_kind)op), runs[op][2], worst[op][2]);
    assert_true(runs[LS_OP_BATCH_NORM][2] > 0 && runs[LS_OP_MAX_POOL2D][2] > 0 && runs[LS_OP_ATTENTION][2] > 0);
    if (count == 1) print_message("bf16 not tested: %s\n", ls_error_message());
}

// Rows of more windows than the loops go over in one turn, and pixels of more channels than a turn has. At the end, so that the others draw
// what they drew.
static void pooling_in_turns(void **state) {
    static const int windows[][2] = {{2, 2}, {3, 3}, {2, 3}, {1, 1}, {5, 5}};
    for (int i = 0; i < 24; i++) {
        const int *k = windows[i % 5];
        ls_pool2d_attrs a = {.size = {k[0], k[1]}, .strides = {PICK(1, 2), PICK(1, 2)}, .padding = PICK(0, 1)};
        op_case c = {.op = i < 12 ? LS_OP_AVERAGE_POOL2D : LS_OP_MAX_POOL2D,
                     .attrs = &a,
                     .batch = PICK(1, 2),
                     .x = SAMPLE(5, 70 + draw() % 80, PICK(16, 32, 64)),
                     .values = i % 2 ? FEW : SMOOTH,
                     .mask_dx = PICK(0, 1),
                     .forward = i < 12 ? ROUNDINGS : 0,
                     .backward = ROUNDINGS};
        if (i % 12 == 10) a.size[0] = a.size[1] = 2, a.strides[0] = a.strides[1] = 1;
        if (i % 12 == 10) c.batch = 1, c.x[0].shape = LS_SHAPE(3, 3, 1040);
        check_layouts(c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d),
        cmocka_unit_test(conv2d_of_many_images),
        cmocka_unit_test(conv2d_with_residual),
        cmocka_unit_test(conv2d_of_padded_images),
        cmocka_unit_test(dense),
        cmocka_unit_test(pooling),
        cmocka_unit_test(pooling_of_padded_images),
        cmocka_unit_test(global_pooling),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(batch_norm_otherwise),
        cmocka_unit_test(addition),
        cmocka_unit_test(zero_padding),
        cmocka_unit_test(relu_flatten_dropout),
        cmocka_unit_test(activations),
        cmocka_unit_test(multiply),
        cmocka_unit_test(multiply_by_channel),
        cmocka_unit_test(rescaling),
        cmocka_unit_test(normalization),
        cmocka_unit_test(separable_conv2d),
        cmocka_unit_test(concat),
        cmocka_unit_test(conv2d_with_groups_and_dilation),
        cmocka_unit_test(depthwise_conv2d),
        cmocka_unit_test(conv2d_transpose),
        cmocka_unit_test(up_sampling2d),
        cmocka_unit_test(layer_norm),
        cmocka_unit_test(group_norm),
        cmocka_unit_test(normal_sample),
        cmocka_unit_test(normal_divergence),
        cmocka_unit_test(embedding),
        cmocka_unit_test(global_average_pool1d),
        cmocka_unit_test(masked_pooling),
        cmocka_unit_test(position_embedding),
        cmocka_unit_test(attention),
        cmocka_unit_test(recurrent),
        cmocka_unit_test(losses_of_sequences),
        cmocka_unit_test(dense_of_sequences),
        cmocka_unit_test(reshape),
        cmocka_unit_test(softmax_cross_entropy),
        cmocka_unit_test(accuracy),
        cmocka_unit_test(vector_functions),
        cmocka_unit_test(vector_functions_of_bf16),
        cmocka_unit_test(vector_function_of_the_largest),
        cmocka_unit_test(conv2d_of_few_channels),
        cmocka_unit_test(conv3d),
        cmocka_unit_test(conv3d_transpose),
        cmocka_unit_test(volumes_less_deep_than_the_kernel),
        cmocka_unit_test(pooling3d),
        cmocka_unit_test(layers_of_volumes),
        cmocka_unit_test(pooling_in_turns),
        cmocka_unit_test(cropping),
        cmocka_unit_test(conv2d_with_flipped_weights),
        cmocka_unit_test(conv2d_of_odd_channels),
        cmocka_unit_test(every_operation_ran),
    };
    return cmocka_run_group_tests(tests, ops_setup, ops_teardown);
}
