// Every operation and pass of device "cpu" against the reference loops, over shapes, dtypes, layouts and fusions.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "ops_check.h"

static void conv2d(void **state) {
    static const int kernels[][2] = {{1, 1}, {3, 3}, {5, 5}, {2, 3}};
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 160; i++) {
        const int *k = kernels[i % 4];
        ls_kernel_spec spec =
            conv(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32), PICK(1, 3, 5, 16, 17, 32),
                 k[0], k[1], PICK(1, 2), PICK(0, 1), PICK(0, 1), PICK(0, 1), PICK(0, 1));
        for (int d = 0; d < count; d++) check(with_dtype(spec, dtypes[d]), SMOOTH, AS_LIKED);
    }
    // The layers of mnist-cnn.
    for (int d = 0; d < count; d++) {
        check(with_dtype(conv(8, 28, 28, 1, 32, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, AS_LIKED);
        check(with_dtype(conv(8, 13, 13, 32, 128, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, AS_LIKED);
        check(with_dtype(conv(8, 5, 5, 128, 256, 3, 3, 1, 0, 1, 1, 0), dtypes[d]), SMOOTH, AS_LIKED);
    }
    // Small images that are joined to one for the weight gradient.
    for (int d = 0; d < count; d++)
        check(with_dtype(conv(3, 2, 3, 512, 1024, 1, 1, 1, 0, 1, 0, 0), dtypes[d]), SMOOTH, AS_LIKED);
}

// X2 is added by the convolution or in a pass after it (Winograd, the last of these); what lies in a block's padding stays zero.
static void conv2d_with_residual(void **state) {
    static const int kernels[][2] = {{1, 1}, {3, 3}, {2, 3}};
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 48; i++) {
        const int *k = kernels[i % 3];
        ls_kernel_spec spec = conv(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 16, 24, 64),
                                   PICK(1, 3, 16, 24, 64), k[0], k[1], PICK(1, 2), PICK(0, 1), PICK(0, 1), i % 2, 0);
        spec.residual = 1;
        for (int d = 0; d < count; d++) check(with_dtype(spec, dtypes[d]), SMOOTH, AS_LIKED);
    }
    for (int relu = 0; relu < 2; relu++) {
        ls_kernel_spec spec = conv(2, 13, 13, 64, 64, 3, 3, 1, 1, 1, relu, 0);
        spec.residual = 1;
        for (int d = 0; d < count; d++) check(with_dtype(spec, dtypes[d]), SMOOTH, AS_LIKED);
    }
}

static void dense(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 60; i++) {
        int units = PICK(1, 3, 10, 16, 17, 100), in = PICK(1, 3, 5, 16, 17, 32, 256);
        ls_kernel_spec spec = {.op = LS_OP_DENSE,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3, 8, 32), in),
                               .attrs = {.filters = units, .use_bias = PICK(0, 1), .activation = PICK(0, 1)}};
        spec.y = LS_SHAPE(spec.x.dim[0], units);
        for (int d = 0; d < count; d++) {
            ls_kernel_spec typed = with_dtype(spec, dtypes[d]);
            if (i % 3 == 0) typed.y_dtype = LS_DTYPE_F32;  // logits
            check(typed, SMOOTH, AS_LIKED);
        }
    }
}

static void pooling(void **state) {
    static const int windows[][2] = {{2, 2}, {3, 3}, {2, 3}, {1, 1}, {5, 5}};
    for (int i = 0; i < 60; i++) {
        const int *k = windows[i % 5];
        ls_kernel_spec spec = {.op = i / 5 % 2 ? LS_OP_MAX_POOL2D : LS_OP_AVERAGE_POOL2D,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3, 8), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 5, 16, 17, 32)),
                               .attrs = {.kernel = {k[0], k[1]}}};
        for (int j = 0; j < 2; j++) spec.attrs.strides[j] = PICK(1, 2, k[j]);
        settle_window(&spec, PICK(0, 1), spec.x.dim[3]);
        check_layouts(spec, i % 2 ? FEW : SMOOTH);
    }
}

// As after a zero padding that was folded into it.
static void pooling_of_padded_images(void **state) {
    static const int windows[][2] = {{3, 2}, {2, 2}, {3, 1}, {5, 3}};
    for (int i = 0; i < 24; i++) {
        const int *k = windows[i % 4];
        ls_kernel_spec spec = {.op = LS_OP_MAX_POOL2D,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3), 5 + draw() % 6, 5 + draw() % 6, PICK(1, 3, 16, 24, 64)),
                               .attrs = {.kernel = {k[0], k[0]}, .strides = {k[1], k[1]}, .pad_zeros = 1}};
        spec.y = spec.x;
        for (int j = 0; j < 4; j++) spec.attrs.pad[j] = (int)(draw() % 4);
        for (int j = 0; j < 2; j++)
            spec.y.dim[j + 1] = (spec.x.dim[j + 1] + spec.attrs.pad[j] + spec.attrs.pad[j + 2] - k[0]) / k[1] + 1;
        check_layouts(spec, i % 2 ? FEW : SMOOTH);
    }
}

static void batch_norm(void **state) {
    for (int i = 0; i < 48; i++) {
        ls_kernel_spec spec = {
            .op = LS_OP_BATCH_NORM,
            .residual = i / 2 % 2,
            .addend = PICK(0, 1),
            .mask_dx = i % 7 == 0,
            .attrs = {.epsilon = 1e-3f, .activation = i % 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE},
            .x = LS_SHAPE(PICK(1, 2, 5), PICK(1, 3, 7, 14), PICK(1, 4, 7, 15), PICK(3, 16, 24, 64, 1, 8, 20, 100))};
        if (ls_shape_count(spec.x) == spec.x.dim[3]) spec.x.dim[1] = 2;
        if (i % 8 == 7) spec.x = LS_SHAPE(PICK(2, 33, 300), PICK(3, 16, 24, 64, 1, 100));
        if (i % 8 == 6) spec.x = LS_SHAPE(PICK(2, 5), PICK(3, 40), PICK(3, 16, 40));
        spec.y = spec.x;
        check_layouts(spec, i % 5 == 0 ? FAR : SMOOTH);
    }
}

static void addition(void **state) {
    for (int i = 0; i < 16; i++) {
        ls_kernel_spec spec = {.op = LS_OP_ADD,
                               .attrs.activation = i % 2 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE,
                               .x = LS_SHAPE(PICK(1, 3, 8), PICK(1, 3, 6), PICK(1, 4), PICK(3, 16, 24, 64))};
        if (i % 4 == 3) spec.x = LS_SHAPE(spec.x.dim[0], spec.x.dim[3]);
        spec.y = spec.x;
        check_layouts(spec, SMOOTH);
    }
}

static void zero_padding(void **state) {
    for (int i = 0; i < 24; i++) {
        ls_kernel_spec spec = {.op = LS_OP_ZERO_PAD2D,
                               .mask_dx = PICK(0, 1),
                               .x = LS_SHAPE(PICK(1, 3), PICK(1, 3, 6), PICK(1, 4, 7), PICK(3, 16, 24, 64))};
        spec.y = spec.x;
        for (int j = 0; j < 4; j++) spec.y.dim[1 + j % 2] += spec.attrs.pad[j] = (int)(draw() % 4);
        check_layouts(spec, SMOOTH);
    }
}

static void global_pooling(void **state) {
    for (int i = 0; i < 24; i++) {
        int h = PICK(1, 3, 7), w = PICK(1, 4, 7);
        ls_kernel_spec spec = {.op = i % 2 ? LS_OP_GLOBAL_MAX_POOL2D : LS_OP_GLOBAL_AVERAGE_POOL2D,
                               .mask_dx = PICK(0, 1),
                               .attrs = {.kernel = {h, w}, .strides = {h, w}},
                               .x = LS_SHAPE(PICK(1, 3, 8), h, w, PICK(1, 3, 5, 16, 17, 32))};
        spec.y = LS_SHAPE(spec.x.dim[0], spec.x.dim[3]);
        check_layouts(spec, i % 4 < 2 ? FEW : SMOOTH);
    }
}

static void relu_flatten_dropout(void **state) {
    for (int i = 0; i < 36; i++) {
        ls_kernel_spec spec = {.op = i % 3 == 0   ? LS_OP_RELU
                                     : i % 3 == 1 ? LS_OP_FLATTEN
                                                  : LS_OP_DROPOUT,
                               .mask_dx = PICK(0, 1),
                               .attrs = {.rate = i % 2 ? 0.5f : 0.3f, .layer = 4},
                               .x = LS_SHAPE(PICK(1, 3, 8), PICK(1, 3, 6), PICK(1, 4), PICK(1, 3, 5, 16, 17, 32))};
        if (i % 4 == 3 && spec.op != LS_OP_FLATTEN) spec.x = LS_SHAPE(spec.x.dim[0], spec.x.dim[3]);
        spec.y = spec.x;
        if (spec.op == LS_OP_FLATTEN) spec.y = LS_SHAPE(spec.x.dim[0], ls_shape_count(spec.x) / spec.x.dim[0]);
        check_layouts(spec, SMOOTH);
    }
}

static void softmax_cross_entropy(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int i = 0; i < 24; i++)
        for (int d = 0; d < count; d++) {
            ls_kernel_spec spec = {.op = LS_OP_SOFTMAX_CROSS_ENTROPY,
                                   .x = LS_SHAPE(PICK(1, 3, 8), PICK(2, 10, 17, 100)),
                                   .dy_dtype = dtypes[d],
                                   .attrs = {.label_smoothing = i % 3 == 2 ? 0.15 : 0}};
            spec.y = spec.x;
            check(spec, i % 2 ? FEW : SMOOTH, AS_LIKED);
        }
}

static void gradients_accumulate(void **state) {
    enum { N = 1003 };
    float *x = new_values(N, SMOOTH), *y = new_values(N, SMOOTH), *z = malloc(N * sizeof *z);
    memcpy(z, y, N * sizeof *z);
    cpu->ops->accumulate(cpu, y, x, N);
    ref->ops->accumulate(ref, z, x, N);
    assert_memory_equal(y, z, N * sizeof *y);
    free(x), free(y), free(z);
}

// Last: the device must have run every operation, in every dtype it claims.
static void every_operation_ran(void **state) {
    ls_dtype dtypes[2];
    int count = each_dtype(dtypes);
    for (int op = LS_OP_INPUT + 1; op < LS_OP_COUNT; op++)
        for (int d = 0; d < count && op != LS_OP_ACTIVATION; d++) {
            print_message("%-24s %s  %4d cases, %d not supported; largest error %.2f of what is allowed\n",
                          ls_op_class((ls_op_kind)op), ls_dtype_name(dtypes[d]), runs[op][d], skips[op][d],
                          worst[op][d]);
            assert_true(runs[op][d] > 0);
            assert_int_equal(skips[op][d], 0);
        }
    if (count == 1) print_message("bf16 not tested: %s\n", ls_error_message());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv2d),
        cmocka_unit_test(conv2d_with_residual),
        cmocka_unit_test(dense),
        cmocka_unit_test(pooling),
        cmocka_unit_test(pooling_of_padded_images),
        cmocka_unit_test(global_pooling),
        cmocka_unit_test(batch_norm),
        cmocka_unit_test(addition),
        cmocka_unit_test(zero_padding),
        cmocka_unit_test(relu_flatten_dropout),
        cmocka_unit_test(softmax_cross_entropy),
        cmocka_unit_test(gradients_accumulate),
        cmocka_unit_test(every_operation_ran),
    };
    return cmocka_run_group_tests(tests, ops_setup, ops_teardown);
}
