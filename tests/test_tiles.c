// Products in tiles: what the AMX unit computes is what the plain form computes, bit for bit; and convolutions made of them, with
// either form, are convolutions, whatever the number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "device/cpu/conv2d_tiles.h"
#include "device/cpu/cpu.h"
#include "ops_check.h"

#define PRODUCTS 2e-5

// --- one block -------------------------------------------------------------------------------------------------------

enum { DEPTH = 5, GROUPS = 3 };

typedef struct block {
    ls_bf16 a[2][GROUPS * DEPTH][LS_TILE][LS_TILE_DEPTH], b[2][GROUPS * DEPTH][LS_TILE_SIZE];
    float c[2 * LS_TILE][2 * LS_TILE];
} block;

// Numbers of many sizes, so that every rounding shows; some denormal, some zero, and, where asked for, infinities and NaNs.
static ls_bf16 any_number(int wild) {
    uint32_t word = draw(), exponent = 127 + word % 24 - 12;
    if (word >> 24 == 0) return 0;
    if (word >> 24 == 1) return (ls_bf16)(word & 0x807F);
    if (wild && word >> 24 == 2) return (ls_bf16)(0x7F80 | (word & 0x8001));
    return (ls_bf16)((word & 0x8000) | exponent << 7 | (word >> 16 & 0x7F));
}

static void fill(block *x, int wild) {
    ls_bf16 *a = &x->a[0][0][0][0], *b = &x->b[0][0][0];
    float *c = &x->c[0][0];
    for (size_t i = 0; i < sizeof x->a / sizeof *a; i++) a[i] = any_number(wild);
    for (size_t i = 0; i < sizeof x->b / sizeof *b; i++) b[i] = any_number(wild);
    for (size_t i = 0; i < sizeof x->c / sizeof *c; i++) c[i] = ls_bf16_to_float(any_number(0)) * 1.0001f;
}

static void multiply(const ls_tile_ops *ops, block *x, ls_tile_block p) {
    ls_tile_state before;
    p.a = &x->a[0][0][0][0], p.b = &x->b[0][0][0], p.c = &x->c[0][0];
    ops->begin(&before);
    ops->multiply(&p);
    ops->end(&before);
}

static int is_nan(float v) { return v != v; }

static void compare_with_plain(const ls_tile_ops *ops, const ls_tile_ops *plain) {
    static const int32_t offset[DEPTH] = {2 * LS_TILE_SIZE, 0, 3 * LS_TILE_SIZE, LS_TILE_SIZE, 4 * LS_TILE_SIZE};
    if (!ops->available()) {
        print_message("skipped: this processor has not what %s takes\n", ops->name);
        skip();
    }
    block *one = malloc(sizeof *one), *other = malloc(sizeof *other);
    assert_true(one && other);
    for (int i = 0; i < 64; i++) {
        ls_tile_block p = {.a_row = LS_TILE_DEPTH,
                           .a_step = LS_TILE_SIZE,
                           .a_group = DEPTH * LS_TILE_SIZE,
                           .a_offset = i & 16 ? offset : NULL,
                           .b_offset = offset,
                           .b_column = GROUPS * DEPTH * LS_TILE_SIZE,
                           .b_group = DEPTH * LS_TILE_SIZE,
                           .c_row = 2 * LS_TILE,
                           .groups = 1 + i % GROUPS,
                           .depth = 1 + i % DEPTH,
                           .rows = 1,
                           .columns = 1 + i % 2,
                           .add = i >> 2 & 1};
        fill(one, i % 8 == 7);
        memcpy(other, one, sizeof *one);
        multiply(ops, one, p);
        multiply(plain, other, p);
        for (int r = 0; r < 2 * LS_TILE; r++)
            for (int c = 0; c < 2 * LS_TILE; c++)
                if (memcmp(&one->c[r][c], &other->c[r][c], 4) != 0 && !(is_nan(one->c[r][c]) && is_nan(other->c[r][c])))
                    fail_msg("case %d: C[%d][%d] is %a by %s, %a in plain C", i, r, c, (double)one->c[r][c], ops->name,
                             (double)other->c[r][c]);
    }
    free(one), free(other);
}

static void the_unit_adds_in_the_order_that_is_promised(void **state) {
    compare_with_plain(&ls__tiles_amx, &ls__tiles_plain);
}

static void dots_add_in_the_order_that_is_promised(void **state) {
    compare_with_plain(&ls__tiles_dots, &ls__tiles_dots_plain);
}

// Two rows of tiles are the same as each by itself.
static void blocks_do_not_show(void **state) {
    const ls_tile_ops *ops[] = {&ls__tiles_plain, &ls__tiles_dots_plain, &ls__tiles_dots, &ls__tiles_amx};
    block *one = malloc(sizeof *one), *other = malloc(sizeof *other);
    assert_true(one && other);
    for (int o = 0; o < 4; o++) {
        if (!ops[o]->available()) continue;
        ls_tile_block p = {.a_row = LS_TILE_DEPTH,
                           .a_step = 2 * LS_TILE_SIZE,
                           .b_column = GROUPS * DEPTH * LS_TILE_SIZE,
                           .c_row = 2 * LS_TILE,
                           .groups = 1,
                           .depth = 7,
                           .rows = 2,
                           .columns = 2,
                           .add = 1};
        fill(one, 0);
        memcpy(other, one, sizeof *one);
        multiply(ops[o], one, p);
        for (int i = 0; i < 4; i++) {
            ls_tile_state before;
            ls_tile_block q = p;
            q.rows = q.columns = 1;
            q.a = &other->a[0][0][0][0] + i / 2 * LS_TILE_SIZE;
            q.b = &other->b[0][0][0] + i % 2 * q.b_column;
            q.c = &other->c[i / 2 * LS_TILE][i % 2 * LS_TILE];
            ops[o]->begin(&before);
            for (q.depth = 3; q.depth < 5; q.depth++) {  // 3 and 4 of the 7
                ops[o]->multiply(&q);
                q.a += 3 * p.a_step, q.b += 3 * LS_TILE_SIZE;
            }
            ops[o]->end(&before);
        }
        assert_memory_equal(one->c, other->c, sizeof one->c);
    }
    free(one), free(other);
}

static void rows_become_tiles(void **state) {
    enum { COLUMNS = 3 };
    static ls_bf16 rows[LS_TILE_DEPTH][COLUMNS * LS_TILE], pairs[COLUMNS][LS_TILE_SIZE],
        turned[COLUMNS * LS_TILE][LS_TILE_DEPTH];
    const ls_bf16 *from[LS_TILE_DEPTH];
    float sums[COLUMNS][2][LS_TILE] = {{{0}}};
    for (int r = 0; r < LS_TILE_DEPTH; r++) {
        from[r] = rows[r];
        for (int c = 0; c < COLUMNS * LS_TILE; c++) rows[r][c] = ls_float_to_bf16((float)(r * 100 + c % 7));
    }
    ls__tile_pairs(pairs[0], LS_TILE_SIZE, from, 0, 1, sums[0][0]);
    ls__tile_pairs(pairs[0], LS_TILE_SIZE, from, 1, COLUMNS, sums[0][0]);
    ls__tile_transpose(turned[0], LS_TILE_DEPTH, from, COLUMNS);
    for (int c = 0; c < COLUMNS * LS_TILE; c++) {
        float sum[2] = {0};
        for (int r = 0; r < LS_TILE_DEPTH; r++) {
            assert_int_equal(pairs[c / LS_TILE][r / 2 * 32 + c % LS_TILE * 2 + r % 2], rows[r][c]);
            assert_int_equal(turned[c][r], rows[r][c]);
            sum[r % 2] += ls_bf16_to_float(rows[r][c]);
        }
        for (int i = 0; i < 2; i++) assert_true(sums[c / LS_TILE][i][c % LS_TILE] == sum[i]);
    }
}

// --- convolutions ----------------------------------------------------------------------------------------------------

extern const ls_device_ops ls_device_cpu;
static const ls_tile_ops *form;  // of convolutions that fit
static int made, in_blocks;      // in_blocks: channels of what weight gradients read lie in blocks

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    if (ls__cpu_conv2d_fits_tiles(spec)) {
        ls_kernel_spec mine = *spec;
        static const ls_arg args[] = {LS_ARG_X, LS_ARG_DY};
        for (int i = 0; i < 2 && in_blocks && spec->pass == LS_PASS_BACKWARD_WEIGHTS; i++)
            if (!mine.layout[args[i]])
                assert_int_equal(ls__cpu_layout_tag((ls_cpu *)device, i ? spec->y[0].shape : spec->x[0].shape,
                                                    LS_DTYPE_BF16, 0, dnnl_nChw16c, &mine.layout[args[i]]),
                                 LS_OK);
        ls_status status = ls__cpu_conv2d_tiles_create((ls_cpu *)device, &mine, form, out);
        made += status == LS_OK && *out;
        if (status != LS_OK || *out) return status;
    }
    return ls_device_cpu.kernel_create(device, spec, out);
}

// The devices of ops_check, with convolutions in tiles.
static int setup(void **state) {
    static ls_device_ops ops;
    if (ops_setup(state) != 0) return 1;
    ops = ls_device_cpu;
    ops.kernel_create = kernel_create;
    cpu->ops = more->ops = &ops;
    return 0;
}

static op_case conv(int64_t n, int64_t h, int64_t w, int64_t c, const ls_conv2d_attrs *attrs) {
    return (op_case){.op = LS_OP_CONV2D,
                     .attrs = attrs,
                     .batch = n,
                     .x = {{.shape = LS_SHAPE(h, w, c)}},
                     .forward = PRODUCTS,
                     .backward = PRODUCTS};
}

static void check_bf16(op_case c) {
    ls_dtype dtypes[DTYPES];
    if (each_dtype(dtypes) < 2) {
        print_message("skipped: the library here does not convert to BF16\n");
        skip();
    }
    check(c);
}

static void draw_convolutions(int count) {
    for (int i = 0; i < count; i++) {
        ls_conv2d_attrs a = {.filters = PICK(16, 32, 48, 80),
                             .kernel = {PICK(1, 3, 2, 5), PICK(1, 3, 3, 4)},
                             .strides = {PICK(1, 1, 2, 3), PICK(1, 1, 2)},
                             .dilation = {PICK(1, 1, 2), PICK(1, 1, 3)},
                             .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                             .no_bias = PICK(0, 1),
                             .activation = PICK(LS_ACTIVATION_NONE, LS_ACTIVATION_RELU)};
        if (i % 4 == 0) a.kernel[0] = a.kernel[1] = 1;
        if (i % 4 < 2) a.strides[0] = a.strides[1] = 1;
        if (a.strides[0] > 1 || a.strides[1] > 1) a.dilation[0] = a.dilation[1] = 1;
        op_case c = conv(PICK(1, 2, 5), 9 + draw() % 6, 10 + draw() % 9, PICK(16, 32, 48, 96), &a);
        c.mask_dx = PICK(0, 1);
        c.residual = i % 5 == 0;
        int can_pad = a.padding == LS_PADDING_VALID && a.kernel[0] > 2 && a.kernel[1] > 2;
        for (int j = 0; j < 4 && can_pad && i % 2; j++) c.sides[j / 2][j % 2] = (int)(draw() % 3);
        check_bf16(c);
    }
}

static void plain_convolutions(void **state) {
    form = &ls__tiles_plain, made = 0;
    draw_convolutions(24);
    assert_true(made >= 24 * 4);
}

static void convolutions_of_dots(void **state) {
    form = ls__tiles_dots.available() ? &ls__tiles_dots : &ls__tiles_dots_plain;
    for (in_blocks = 0; in_blocks < 2; in_blocks++) {
        made = 0;
        draw_convolutions(24);
        assert_true(made >= 24 * 4);
    }
    in_blocks = 1;
    check_bf16(conv(3, 9, 4, 160, &(ls_conv2d_attrs){.filters = 528, .kernel = {3, 3}, .padding = LS_PADDING_SAME}));
    check_bf16(conv(130, 5, 5, 48, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}}));
    check_bf16(conv(16, 8, 8, 32, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .strides = {2, 2}}));
    in_blocks = 0;
}

static void convolutions_of_the_unit(void **state) {
    if (!ls__tiles_amx.available()) {
        print_message("skipped: this processor has no AMX unit\n");
        skip();
    }
    form = &ls__tiles_amx;
    draw_convolutions(80);
}

// More channels, filters, pixels than are brought into tiles at once; an image whose frame is cut; rows that are samples of one pixel.
static void large_convolutions(void **state) {
    form = ls__tiles_amx.available() ? &ls__tiles_amx : &ls__tiles_plain;
    check_bf16(conv(3, 9, 4, 160, &(ls_conv2d_attrs){.filters = 528, .kernel = {3, 3}, .padding = LS_PADDING_SAME}));
    check_bf16(conv(2, 7, 21, 1072, &(ls_conv2d_attrs){.filters = 16, .kernel = {1, 1}, .no_bias = 1}));
    check_bf16(conv(1, 70, 40, 64, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .padding = LS_PADDING_SAME}));
    check_bf16(conv(130, 5, 5, 48, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}}));
    check_bf16(conv(33, 6, 7, 32, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 2}, .strides = {2, 3}}));
    check_bf16(conv(16, 6, 7, 32, &(ls_conv2d_attrs){.filters = 16, .kernel = {1, 1}, .strides = {2, 2}}));
    check_bf16(
        conv(1, 5, 60, 16,
             &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .dilation = {2, 32}, .padding = LS_PADDING_SAME}));
    check_bf16(
        conv(1, 70, 12, 16,
             &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 1}, .dilation = {64, 1}, .padding = LS_PADDING_SAME}));
    check_bf16(conv(40, 6, 6, 16, &(ls_conv2d_attrs){.filters = 32, .kernel = {7, 7}, .padding = LS_PADDING_SAME}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_unit_adds_in_the_order_that_is_promised),
        cmocka_unit_test(dots_add_in_the_order_that_is_promised),
        cmocka_unit_test(blocks_do_not_show),
        cmocka_unit_test(rows_become_tiles),
        cmocka_unit_test(plain_convolutions),
        cmocka_unit_test(convolutions_of_dots),
        cmocka_unit_test(convolutions_of_the_unit),
        cmocka_unit_test(large_convolutions),
    };
    return cmocka_run_group_tests(tests, setup, ops_teardown);
}
