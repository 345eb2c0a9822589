// Batch normalization and pooling in the instructions of AVX512-BF16 compute what the loops for all types do, bit for bit: statistics, both
// passes with all that is fused to them, gates, which are found by bounds, and windows inside an image and at its borders, with zeros or nothing beside it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "device/cpu/batch_norm_loops.h"
#include "device/cpu/loops.h"
#include "device/device.h"
#include "ok.h"
#include "ops_check.h"

enum { RUNS = 5, STRIDE = 3000, ELEMENTS = RUNS * STRIDE, FINITE = 0x7F80 };

typedef struct tensors {
    ls_bf16 x[ELEMENTS], x2[ELEMENTS], dy[ELEMENTS], addend[ELEMENTS], y[ELEMENTS], dx[ELEMENTS], dx2[ELEMENTS];
    ls_norm_pass pass;
} tensors;

// Numbers of many sizes, some denormal, some zero of either sign.
static ls_bf16 any_number(void) {
    uint32_t word = draw(), exponent = 127 + word % 12 - 6;
    if (word >> 24 == 0) return (ls_bf16)(word & 0x8000);
    if (word >> 24 == 1) return (ls_bf16)(word & 0x807F);
    return (ls_bf16)((word & 0x8000) | exponent << 7 | (word >> 16 & 0x7F));
}

static float any_float(void) { return ls_bf16_to_float(any_number()) * 1.0001f; }

static const ls_norm_loops *special(void) {
    const ls_norm_loops *loops = ls__norm_loops_of_bf16();
    if (!loops) {
        print_message("skipped: no AVX512-BF16 here, or not with this compiler\n");
        skip();
    }
    return loops;
}

static void set_coefficients(ls_norm_pass *p) {
    for (int i = 0; i < LS_NORM_ROW; i++) {
        p->mean[i] = any_float(), p->scale[i] = any_float(), p->beta[i] = any_float();
        p->dy_mean[i] = any_float(), p->slope[i] = any_float();
    }
    memset(p->sum, 0, sizeof p->sum);
    memset(p->part, 0, sizeof p->part);
    p->unfolded = 0;
    p->bounded = 0;
}

static tensors *make(int i) {
    tensors *t = calloc(1, sizeof *t);
    assert_non_null(t);
    for (int e = 0; e < ELEMENTS; e++) {
        t->x[e] = any_number(), t->x2[e] = any_number(), t->dy[e] = any_number(), t->addend[e] = any_number();
        t->y[e] = any_number();
    }
    t->pass = (ls_norm_pass){.runs = RUNS, .run_stride = STRIDE, .rows = 90, .row_stride = 32, .width = 32};
    if (i % 3 == 1) t->pass.tail = 16;
    if (i % 3 == 2) t->pass.row_stride = 33, t->pass.width = 16 + i % 15, t->pass.tail = 7;
    set_coefficients(&t->pass);
    return t;
}

// Runs one loop of both on the same numbers, and compares all that they leave.
static void compare(int i, tensors *t, void (*one)(ls_norm_pass *p), void (*other)(ls_norm_pass *p), int bounded) {
    tensors *u = malloc(sizeof *u);
    assert_non_null(u);
    memcpy(u, t, sizeof *u);
    tensors *each[2] = {t, u};
    for (int k = 0; k < 2; k++) {
        ls_norm_pass *p = &each[k]->pass;
        p->x = each[k]->x, p->dy = each[k]->dy, p->dx = each[k]->dx;
        p->x2 = i & 4 ? each[k]->x2 : NULL;
        p->y = i & 8 || !p->dy ? each[k]->y : NULL;
        p->dx2 = i & 16 && i & 8 ? each[k]->dx2 : NULL;
        p->addend = i & 32 ? each[k]->addend : NULL;
        if (one == ls__norm_loops(LS_DTYPE_BF16)->forward) p->y = each[k]->y;
    }
    one(&t->pass);
    if (bounded) ls__norm_loops_of_bf16()->bounds(&u->pass);
    other(&u->pass);
    assert_memory_equal(t->y, u->y, sizeof t->y);
    assert_memory_equal(t->dx, u->dx, sizeof t->dx);
    assert_memory_equal(t->dx2, u->dx2, sizeof t->dx2);
    assert_memory_equal(t->pass.sum, u->pass.sum, sizeof t->pass.sum);
    assert_memory_equal(t->pass.part, u->pass.part, sizeof t->pass.part);
    free(u);
}

static void loops_compute_the_same_bits(void **state) {
    const ls_norm_loops *plain = ls__norm_loops(LS_DTYPE_BF16), *loops = special();
    for (int i = 0; i < 96; i++) {
        tensors *t = make(i);
        t->pass.relu = (ls_norm_end)(i % 5 % 3);
        if (i & 4 && t->pass.relu == LS_NORM_RELU6) t->pass.relu = LS_NORM_RELU;  // which has no X2 before it
        t->pass.mask_dx = i >> 1 & 1;
        t->pass.open = i % 7 == 0;
        compare(i, t, plain->sample, loops->sample, 0);
        set_coefficients(&t->pass);
        compare(i, t, plain->moments, loops->moments, 0);
        compare(i, t, plain->forward, loops->forward, 0);
        int bounded = t->pass.relu == LS_NORM_RELU && !(i & 8);
        set_coefficients(&t->pass);
        compare(i, t, plain->backward_sums, loops->backward_sums, bounded);
        set_coefficients(&t->pass);
        compare(i, t, plain->backward_data, loops->backward_data, bounded);
        free(t);
    }
}

// All finite numbers, in each channel: the gradient passes where it passed, whichever way y runs, also where it is constant or no
// number is large enough; and where a mean is too large for bounds there are none.
static void bounds_are_where_y_becomes_positive(void **state) {
    static const float mean[] = {0, 1, -3.5f, 1e-30f, 0x1p118f, 2.7f, 1e20f, -1e-3f},
                       scale[] = {1, -2, 0, -0.0f, 1e-30f, 1e30f, -1e-38f, 0.3f},
                       beta[] = {0, 1, -1, 1e-38f, -1e30f, 1e30f};
    const ls_norm_loops *plain = ls__norm_loops(LS_DTYPE_BF16), *loops = special();
    enum { ROWS = 2 * FINITE };
    ls_bf16 *memory = malloc((size_t)4 * ROWS * LS_NORM_ROW * sizeof *memory), *x = memory,
            *dy = x + ROWS * LS_NORM_ROW, *out[2] = {dy + ROWS * LS_NORM_ROW, dy + 2 * ROWS * LS_NORM_ROW};
    assert_non_null(memory);
    for (int i = 0; i < ROWS * LS_NORM_ROW; i++) {
        int row = i / LS_NORM_ROW;
        x[i] = (ls_bf16)(row < FINITE ? row : 0x8000 + row - FINITE);
        dy[i] = 0x3F80;
    }
    for (int i = 0; i < 12; i++) {
        ls_norm_pass p = {
            .runs = 1, .rows = ROWS, .row_stride = 32, .width = 32, .x = x, .dy = dy, .relu = LS_NORM_RELU};
        for (int e = 0; e < LS_NORM_ROW; e++) {
            int c = i * LS_NORM_ROW + e;
            p.mean[e] = mean[c % 8], p.scale[e] = scale[c / 8 % 8], p.beta[e] = beta[c / 64];
            if (i == 11 && e == 5) p.mean[e] = 0x1p119f;
        }
        p.dx = out[0];
        plain->backward_data(&p);
        loops->bounds(&p);
        assert_int_equal(p.bounded, i != 11);
        p.dx = out[1];
        loops->backward_data(&p);
        assert_memory_equal(out[0], out[1], ROWS * LS_NORM_ROW * sizeof *x);
    }
    free(memory);
}

static void same_pools(const ls_pool_loops *plain, const ls_pool_loops *loops, const ls_pool_shape *s) {
    int64_t in = s->planes * s->height * s->width * s->block, out = s->planes * s->out_height * s->out_width * s->block;
    int64_t room = ls__loop_max_pool_line_bytes(s) + ls__loop_average_pool_line_bytes(s);
    ls_bf16 *x = calloc((size_t)(in + out), sizeof *x), *dy = x + in;
    void *line = aligned_alloc(64, (size_t)room);
    assert_true(x && line);
    for (int64_t i = 0; i < in + out; i++) x[i] = any_number();
    ls_bf16 *left[2];
    for (int k = 0; k < 2; k++) {
        const ls_pool_loops *l = k ? loops : plain;
        left[k] = calloc((size_t)(2 * in + 3 * out), sizeof *x);
        assert_non_null(left[k]);
        ls_bf16 *y = left[k], *mean = y + out, *dx = mean + out, *mean_dx = dx + in;
        uint8_t *index = (uint8_t *)(mean_dx + in);
        l->max(s, x, y, index);
        l->max_backward(s, dy, index, dx, line);
        l->average(s, x, mean);
        l->average_backward(s, dy, x, mean_dx, line);
    }
    assert_memory_equal(left[0], left[1], (size_t)(2 * in + 3 * out) * sizeof *x);
    free(left[0]), free(left[1]), free(x), free(line);
}

static void pooling_computes_the_same_bits(void **state) {
    const ls_pool_loops *plain = ls__pool_loops(LS_DTYPE_BF16), *loops = ls__pool_loops_of_bf16();
    (void)special();
    for (int i = 0; i < 60; i++) {
        int kernel = PICK(1, 2, 3, 5), stride = i % 3 ? PICK(1, 2, 3) : kernel, pad = i % 4 ? 0 : kernel / 2;
        int64_t height = 6 + i % 5, width = 5 + i % 9;
        ls_pool_shape s = {.planes = 2,
                           .block = i % 15 ? PICK(8, 16, 32) : 1040,  // more than a turn's vectors
                           .height = height,
                           .width = width,
                           .out_height = (height + 2 * pad - kernel) / stride + 1,
                           .out_width = (width + 2 * pad - kernel) / stride + 1,
                           .kernel = {kernel, kernel},
                           .strides = {stride, stride},
                           .pad_top = pad,
                           .pad_left = pad,
                           .mask = i & 1,
                           .pad_zeros = i >> 2 & 1};
        same_pools(plain, loops, &s);
        if (i % 10 == 0) {
            s.pad_top = s.pad_left = s.pad_zeros = 0, s.out_height = s.out_width = 1;
            s.kernel[0] = (int)height, s.kernel[1] = (int)width;
            same_pools(plain, loops, &s);
        }
    }
}

// A gradient of average pooling is a sum from zero on, however windows lie, also where it is one of a single share: of negative zeros, as small gradients
// become, it is zero.
static void no_share_is_a_negative_zero(void **state) {
    const ls_pool_loops *loops[] = {ls__pool_loops(LS_DTYPE_F32), ls__pool_loops(LS_DTYPE_BF16),
                                    ls__pool_loops(LS_DTYPE_F16), ls__pool_loops_of_bf16()};
    enum { SIDE = 7, BYTES = SIDE * SIDE * 32 * 4 };
    unsigned char *dy = calloc(1, BYTES), *dx = malloc(BYTES), *zeros = calloc(1, BYTES);
    void *lines = aligned_alloc(64, 65536);
    assert_true(dy && dx && zeros && lines);
    for (int i = 0; i < 4 * 3 * 3 * 3; i++) {
        int kernel = 1 + i / 4 % 3, stride = 1 + i / 12 % 3, out = (SIDE - kernel) / stride + 1;
        int64_t size = i % 4 ? 2 : 4, block = 8 << i / 36;
        ls_pool_shape s = {1, block, SIDE, SIDE, out, out, {kernel, kernel}, {stride, stride}, 0, 0, 0, 0};
        if (!loops[i % 4]) continue;
        assert_true(ls__loop_average_pool_line_bytes(&s) <= 65536);
        for (int64_t e = 0; e < out * out * block; e++) dy[e * size + size - 1] = 0x80;
        memset(dx, 0xFF, BYTES);
        loops[i % 4]->average_backward(&s, dy, NULL, dx, lines);
        assert_memory_equal(dx, zeros, (size_t)(SIDE * SIDE * block * size));
        memset(dy, 0, BYTES);
    }
    free(dy), free(dx), free(zeros), free(lines);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loops_compute_the_same_bits),
        cmocka_unit_test(bounds_are_where_y_becomes_positive),
        cmocka_unit_test(pooling_computes_the_same_bits),
        cmocka_unit_test(no_share_is_a_negative_zero),
    };
    // Denormals are zeros in threads that compute.
    ls_device *device;
    if (ls_device_create("cpu", NULL, &device) != LS_OK) return 1;
    device->ops->thread_begin(device, NULL, NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    ls_device_destroy(&device);
    return failed;
}
