// Convolutions by Winograd's F(2x2, 3x3): the transforms are exact where no rounding is needed, and the same to the bit in either form;
// convolutions made of them are convolutions, whatever the layout, the border and the number of threads.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "device/cpu/conv2d_winograd.h"
#include "device/cpu/winograd.h"
#include "ops_check.h"

// --- transforms ------------------------------------------------------------------------------------------------------

// 32 channels, or filters, of one patch and one filter; each is by itself here.
enum { LANES = 32 };

typedef struct problem {
    ls_bf16 w[9][LANES], d[LS_WINOGRAD][LANES];
    ls_bf16 u[LS_WINOGRAD][LANES], v[LS_WINOGRAD][LANES];
    float m[LS_WINOGRAD][LANES], bias[LANES], y[4][LANES];
} problem;

// Small whole numbers, or any.
static void draw_problem(problem *p, int whole) {
    for (int i = 0; i < LS_WINOGRAD; i++)
        for (int l = 0; l < LANES; l++) {
            float d = whole ? (float)(int)(draw() % 15) - 7 : (float)(draw() % 20011) / 977 - 10;
            float w = whole ? (float)(int)(draw() % 9) - 4 : (float)(draw() % 20011) / 9770 - 1;
            p->d[i][l] = ls_float_to_bf16(d);
            if (i < 9) p->w[i][l] = ls_float_to_bf16(w);
        }
    for (int l = 0; l < LANES; l++) p->bias[l] = (float)(int)(draw() % 5) - 2;
}

static void solve(const ls_winograd_loops *loops, problem *p, int flipped, const ls_winograd_place *place) {
    ls_winograd_patch patch;
    for (int i = 0; i < LS_WINOGRAD; i++) {
        patch.pixel[i] = p->d[i];
        patch.block[i] = 16;
    }
    loops->filters(p->w[0], LANES, flipped, p->u[0], LANES);
    loops->patch(&patch, LS_WINOGRAD_ALL, 0, LANES / 16, p->v[0], LANES);
    for (int i = 0; i < LS_WINOGRAD; i++)
        for (int l = 0; l < LANES; l++) p->m[i][l] = ls_bf16_to_float(p->u[i][l]) * ls_bf16_to_float(p->v[i][l]);
    ls_conv2d_ending e = {.dtype = LS_DTYPE_F32, .to = p->y, .bias = p->bias};
    loops->result(p->m[0], LANES, place, 0, LANES / 16, &e);
}

static const ls_winograd_place whole_place = {{0, LANES, 2 * LANES, 3 * LANES}, 16};

// What `flipped` means: tap 8 is the first.
static float direct(const problem *p, int flipped, int y, int x, int lane) {
    float sum = 0;
    for (int t = 0; t < 9; t++)
        sum += ls_bf16_to_float(p->w[flipped ? 8 - t : t][lane]) *
               ls_bf16_to_float(p->d[4 * (y + t / 3) + x + t % 3][lane]);
    return sum + p->bias[lane];
}

static void small_whole_numbers_are_exact(void **state) {
    const ls_winograd_loops *loops[] = {ls__winograd_loops(), ls__winograd_loops_of_bf16()};
    for (int i = 0; i < 2; i++)
        for (int times = 0; times < 40 && loops[i]; times++) {
            static problem p;
            draw_problem(&p, 1);
            solve(loops[i], &p, times % 2, &whole_place);
            for (int y = 0; y < 4; y++)
                for (int l = 0; l < LANES; l++) assert_true(p.y[y][l] == direct(&p, times % 2, y / 2, y % 2, l));
        }
}

static void both_forms_have_the_same_bits(void **state) {
    const ls_winograd_loops *fast = ls__winograd_loops_of_bf16();
    if (!fast) {
        print_message("skipped: this processor, or this build, has no AVX512-BF16\n");
        skip();
    }
    static problem one, other;
    for (int times = 0; times < 100; times++) {
        draw_problem(&one, 0);
        other = one;
        solve(fast, &one, times % 2, &whole_place);
        solve(ls__winograd_loops(), &other, times % 2, &whole_place);
        assert_memory_equal(&one, &other, sizeof one);
        const ls_winograd_loops *loops[] = {fast, ls__winograd_loops()};
        const ls_winograd_place places[2] = {whole_place, {{4 * LANES, -1, 5 * LANES, 0}, 16}};
        static ls_bf16 pairs[2][LS_WINOGRAD][2 * LANES];
        static float dw[2][9][LANES];
        for (int i = 0; i < 2; i++) {
            loops[i]->gradients(one.d[0], places, LS_WINOGRAD_ALL, LANES / 16, pairs[i][0], 32, 2 * LANES);
            loops[i]->weights(one.m[0], LANES, LANES, dw[i][0], LANES);
        }
        assert_memory_equal(pairs[0], pairs[1], sizeof pairs[0]);
        assert_memory_equal(dw[0], dw[1], sizeof dw[0]);
    }
}

// Each half writes its rows and no others.
static void halves_are_the_whole(void **state) {
    static const ls_winograd_rows halves[] = {LS_WINOGRAD_UPPER, LS_WINOGRAD_LOWER};
    const ls_winograd_loops *loops[] = {ls__winograd_loops(), ls__winograd_loops_of_bf16()};
    const ls_winograd_place places[2] = {whole_place, {{4 * LANES, -1, 5 * LANES, 0}, 16}};
    ls_winograd_patch patch = {.block = {0}};
    static problem p;
    draw_problem(&p, 0);
    for (int i = 0; i < LS_WINOGRAD; i++) {
        patch.pixel[i] = p.d[i];
        patch.block[i] = 16;
    }
    for (int l = 0; l < 2 && loops[l]; l++) {
        static ls_bf16 all[LS_WINOGRAD][3 * LANES], half[LS_WINOGRAD][3 * LANES];
        loops[l]->patch(&patch, LS_WINOGRAD_ALL, 0, LANES / 16, all[0], 3 * LANES);
        loops[l]->gradients(p.d[0], places, LS_WINOGRAD_ALL, LANES / 16, all[0] + LANES, 32, 3 * LANES);
        for (int h = 0; h < 2; h++) {
            memset(half, 0xFF, sizeof half);
            loops[l]->patch(&patch, halves[h], 0, LANES / 16, half[0], 3 * LANES);
            loops[l]->gradients(p.d[0], places, halves[h], LANES / 16, half[0] + LANES, 32, 3 * LANES);
            assert_memory_equal(half[8 * h], all[8 * h], sizeof half / 2);
            const ls_bf16 *other = half[8 - 8 * h];
            for (size_t i = 0; i < sizeof half / 2 / sizeof *other; i++) assert_int_equal(other[i], 0xFFFF);
        }
    }
}

// What two patches add to the gradient of the weights; one of DY's pixels lies outside.
static void weight_gradients_of_small_whole_numbers_are_exact(void **state) {
    enum { PATCHES = 2 };
    const ls_winograd_loops *loops[] = {ls__winograd_loops(), ls__winograd_loops_of_bf16()};
    for (int i = 0; i < 2 && loops[i]; i++)
        for (int times = 0; times < 20; times++) {
            static problem p[PATCHES];
            static ls_bf16 dy[PATCHES][4][LANES], pairs[LS_WINOGRAD][LANES / 16][16][PATCHES];
            static float m[LS_WINOGRAD][LANES], dw[9][LANES];
            ls_winograd_place places[PATCHES];
            memset(m, 0, sizeof m);
            for (int h = 0; h < PATCHES; h++) {
                draw_problem(&p[h], 1);
                solve(loops[i], &p[h], 0, &whole_place);
                places[h].block = 16;
                for (int y = 0; y < 4; y++) {
                    int outside = y == times % 4 && h == times / 4 % 2;
                    places[h].pixel[y] = outside ? -1 : (h * 4 + y) * LANES;
                    for (int l = 0; l < LANES; l++)
                        dy[h][y][l] = ls_float_to_bf16(outside ? 0 : (float)(draw() % 9) - 4);
                }
            }
            loops[i]->gradients(dy[0][0], places, LS_WINOGRAD_ALL, LANES / 16, pairs[0][0][0], 16 * PATCHES,
                                LANES * PATCHES);
            for (int w = 0; w < LS_WINOGRAD; w++)
                for (int l = 0; l < LANES; l++)
                    for (int h = 0; h < PATCHES; h++)
                        m[w][l] += ls_bf16_to_float(p[h].v[w][l]) * ls_bf16_to_float(pairs[w][l / 16][l % 16][h]);
            loops[i]->weights(m[0], LANES, LANES, dw[0], LANES);
            for (int t = 0; t < 9; t++)
                for (int l = 0; l < LANES; l++) {
                    float sum = 0;
                    for (int h = 0; h < PATCHES; h++)
                        for (int y = 0; y < 4; y++)
                            sum += ls_bf16_to_float(dy[h][y][l]) *
                                   ls_bf16_to_float(p[h].d[4 * (y / 2 + t / 3) + y % 2 + t % 3][l]);
                    assert_true(dw[t][l] == sum);
                }
        }
}

// Of the four pixels those outside the image are not written.
static void what_lies_outside_is_left_alone(void **state) {
    static problem p;
    draw_problem(&p, 1);
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < LANES; l++) p.y[i][l] = 1e9f;
    solve(ls__winograd_loops(), &p, 0, &(ls_winograd_place){{0, -1, 2 * LANES, -1}, 16});
    for (int i = 0; i < 4; i++)
        for (int l = 0; l < LANES; l++) assert_true(p.y[i][l] == (i % 2 ? 1e9f : direct(&p, 0, i / 2, i % 2, l)));
}

// --- convolutions ----------------------------------------------------------------------------------------------------

extern const ls_device_ops ls_device_cpu;
static const ls_tile_ops *form;
static int made, in_blocks;

// Images of BF16, where nobody has said how they lie.
static void settle(ls_device *device, ls_kernel_spec *spec, ls_arg arg, const ls_tensor_type *type) {
    if (!spec->layout[arg])
        assert_int_equal(ls__cpu_layout_tag((ls_cpu *)device, type->shape, LS_DTYPE_BF16, 0,
                                            in_blocks ? dnnl_nChw16c : dnnl_nhwc, &spec->layout[arg]),
                         LS_OK);
}

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    if (ls__cpu_conv2d_fits_winograd(spec)) {
        ls_kernel_spec mine = *spec;
        if (spec->pass != LS_PASS_BACKWARD_DATA) settle(device, &mine, LS_ARG_X, &spec->x[0]);
        if (spec->pass == LS_PASS_TRAINING && spec->y[0].dtype == LS_DTYPE_BF16)
            settle(device, &mine, LS_ARG_Y, &spec->y[0]);
        if (spec->pass == LS_PASS_BACKWARD_DATA || spec->pass == LS_PASS_BACKWARD_WEIGHTS)
            settle(device, &mine, LS_ARG_DY, &spec->y[0]);
        ls_status status = ls__cpu_conv2d_winograd_create((ls_cpu *)device, &mine, form, out);
        made += status == LS_OK && *out;
        if (status != LS_OK || *out) return status;
    }
    return ls_device_cpu.kernel_create(device, spec, out);
}

static int setup(void **state) {
    static ls_device_ops ops;
    if (ops_setup(state) != 0) return 1;
    ops = ls_device_cpu;
    ops.kernel_create = kernel_create;
    cpu->ops = more->ops = &ops;
    return 0;
}

// Beside the rounding of the result, one of each factor: 2^-6 of the largest is beyond what they add up to, and what one wrong tap would make is
// far beyond that.
static void check_conv(int64_t n, int64_t h, int64_t w, int64_t c, const ls_conv2d_attrs *attrs, const op_case *how) {
    ls_dtype dtypes[DTYPES];
    if (each_dtype(dtypes) < 2) {
        print_message("skipped: the library here does not convert to BF16\n");
        skip();
    }
    op_case all = *how;
    all.op = LS_OP_CONV2D;
    all.attrs = attrs;
    all.batch = n;
    all.x[0].shape = LS_SHAPE(h, w, c);
    all.forward = all.backward = 2e-5;
    all.rounds_between = 2;
    check(all);
}

static void draw_convolutions(int count) {
    for (int i = 0; i < count; i++) {
        ls_conv2d_attrs a = {.filters = PICK(32, 96),
                             .kernel = {3, 3},
                             .padding = PICK(LS_PADDING_VALID, LS_PADDING_SAME),
                             .no_bias = PICK(0, 1),
                             .activation = PICK(LS_ACTIVATION_NONE, LS_ACTIVATION_RELU)};
        op_case how = {.mask_dx = PICK(0, 1), .residual = i % 4 == 0, .wide = i % 8 == 3};
        for (int j = 0; j < 4 && a.padding == LS_PADDING_VALID && i % 2; j++)
            how.sides[j / 2][j % 2] = (int)(draw() % 3);
        check_conv(PICK(1, 3), 3 + draw() % 7, 3 + draw() % 8, PICK(32, 64), &a, &how);
    }
}

static void convolutions_of_either_form(void **state) {
    const ls_tile_ops *forms[] = {&ls__tiles_dots_plain, &ls__tiles_dots};
    for (int f = 0; f < 2; f++)
        for (in_blocks = 0; in_blocks < 2 && forms[f]->available(); in_blocks++) {
            form = forms[f];
            made = 0;
            draw_convolutions(f ? 16 : 6);
            assert_true(made >= (f ? 16 : 6) * 4);
        }
}

// Any border, by any kernel: the library's Winograd for fp32 has wrong data gradients where there is another one above than below.
static void any_border(void **state) {
    form = ls__tiles_dots.available() ? &ls__tiles_dots : &ls__tiles_dots_plain;
    for (int i = 0; i < 24; i++) {
        op_case how = {.mask_dx = i % 2};
        for (int side = 0; side < 4; side++) how.sides[side / 2][side % 2] = i < 16 ? i >> side & 1 : (int)(draw() % 3);
        check_conv(2, 7, 9, 64, &(ls_conv2d_attrs){.filters = 64, .kernel = {3, 3}}, &how);
    }
}

// Several pieces, the last of few patches; a piece of the least size.
static void large_convolutions(void **state) {
    form = ls__tiles_dots.available() ? &ls__tiles_dots : &ls__tiles_dots_plain;
    for (in_blocks = 0; in_blocks < 2; in_blocks++) {
        ls_conv2d_attrs a = {.filters = 64, .kernel = {3, 3}, .padding = LS_PADDING_SAME};
        check_conv(3, 21, 23, 64, &a, &(op_case){.mask_dx = 1});
        check_conv(70, 4, 4, 32, &a, &(op_case){.residual = 1});
        check_conv(2, 9, 9, 1056, &a, &(op_case){0});
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_whole_numbers_are_exact),
        cmocka_unit_test(both_forms_have_the_same_bits),
        cmocka_unit_test(halves_are_the_whole),
        cmocka_unit_test(weight_gradients_of_small_whole_numbers_are_exact),
        cmocka_unit_test(what_lies_outside_is_left_alone),
        cmocka_unit_test(convolutions_of_either_form),
        cmocka_unit_test(any_border),
        cmocka_unit_test(large_convolutions),
    };
    return cmocka_run_group_tests(tests, setup, ops_teardown);
}
