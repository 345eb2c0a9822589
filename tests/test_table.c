// Activations of numbers of 16 bits that are looked up: for every one of them the bits of the formula, which smaller tensors are computed by.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/bf16.h"
#include "base/fp16.h"
#include "device/cpu/table.h"
#include "ok.h"
#include "op_case.h"

// All numbers, and some again, so that the last turn is no whole one and the last vector neither.
enum { NUMBERS = 65536, PIECE = 1024, MORE = 23, ALL = NUMBERS + MORE };

static ls_device *device;

static int setup(void **state) {
    if (ls_device_create("cpu", &(ls_device_options){.threads = 1}, &device) != LS_OK) return 1;
    device->ops->thread_begin(device, NULL, NULL);
    return 0;
}

static int teardown(void **state) {
    ls_device_destroy(&device);
    return 0;
}

static float value(ls_dtype dtype, uint16_t bits) {
    return dtype == LS_DTYPE_BF16 ? ls_bf16_to_float(bits) : ls_fp16_to_float(bits);
}

static uint16_t bits(ls_dtype dtype, float v) {
    return dtype == LS_DTYPE_BF16 ? ls_float_to_bf16(v) : ls_float_to_fp16(v);
}

static const ls_arg used[] = {LS_ARG_X, LS_ARG_Y, LS_ARG_DY, LS_ARG_DX};

// Runs one kernel over all numbers, or again and again over pieces of them: the result, of as many.
static void compute(ls_activation activation, ls_dtype dtype, int backward, int64_t count, uint16_t *result) {
    ls_activation_attrs a = {.activation = activation};
    op_case c = {.op = LS_OP_ACTIVATION, .attrs = &a, .batch = 1, .x = {{.shape = LS_SHAPE(count)}}};
    op_spec spec = op_spec_of(&c, dtype);
    ls_kernel *kernel;
    ls_queue *queue;
    ls_span args[LS_ARG_COUNT] = {0};
    spec.kernel.pass = backward ? LS_PASS_BACKWARD_DATA : LS_PASS_TRAINING;
    OK(ls_kernel_create(device, &spec.kernel, &kernel));
    OK(ls_queue_create(device, &queue));
    for (int i = 0; i < 4; i++) OK(ls_buffer_create(device, count * 2, &args[used[i]].buffer));
    for (int64_t at = 0; at < ALL; at += count) {
        for (int64_t i = 0; i < count; i++) {
            float d = (float)((at + i) * 40503 % 4093 - 2000) / 512;
            for (int k = 0; k < 3; k++)
                ((uint16_t *)ls_span_host(args[used[k]]))[i] = k < 2 ? (uint16_t)(at + i) : bits(dtype, d);
        }
        OK(ls_kernel_run(kernel, queue, args));
        int64_t most = ALL - at < count ? ALL - at : count;
        memcpy(result + at, ls_span_host(args[backward ? LS_ARG_DX : LS_ARG_Y]), (size_t)most * 2);
    }
    for (int i = 0; i < 4; i++) ls_buffer_destroy(&args[used[i]].buffer);
    ls_queue_destroy(&queue);
    ls_kernel_destroy(&kernel);
}

static void looked_up(void **state) {
    static const ls_activation activations[] = {LS_ACTIVATION_SIGMOID, LS_ACTIVATION_TANH, LS_ACTIVATION_GELU,
                                                LS_ACTIVATION_SILU, LS_ACTIVATION_RELU6};
    static uint16_t all[ALL], pieces[ALL];
    assert_true(NUMBERS >= LS_TABLE_PAYS && PIECE < LS_TABLE_PAYS);
    for (int i = 0; i < 5 * 2 * 2; i++) {
        ls_dtype dtype = i % 2 ? LS_DTYPE_F16 : LS_DTYPE_BF16;
        int backward = i / 2 % 2, different = 0;
        compute(activations[i / 4], dtype, backward, ALL, all);
        compute(activations[i / 4], dtype, backward, PIECE, pieces);
        for (int n = 0; n < ALL; n++) {
            float x = value(dtype, all[n]), y = value(dtype, pieces[n]);
            different += all[n] != pieces[n] && (x == x || y == y);  // what a NaN carries nobody reads
        }
        if (different)
            fail_msg("activation %d, dtype %d, backward %d: %d of %d differ", activations[i / 4], dtype, backward,
                     different, ALL);
    }
}

static float square(float x) { return x * x; }
static int calls;

static void squares(ls_dtype dtype, void *to, const void *from, const void *times, int64_t n) {
    calls++;
    for (int64_t i = 0; i < n; i++) {
        if (dtype == LS_DTYPE_F32)
            ((float *)to)[i] = ((const float *)times)[i] * square(((const float *)from)[i]);
        else
            ((uint16_t *)to)[i] = bits(dtype, square(value(dtype, ((const uint16_t *)from)[i])));
    }
}

// One table for each function, type and kind of values, by the bits of its numbers.
static void shared(void **state) {
    ls_cpu *cpu = (ls_cpu *)device;
    const uint16_t *a = ls__cpu_table(cpu, squares, LS_DTYPE_BF16, LS_DTYPE_BF16);
    const float *b = ls__cpu_table(cpu, squares, LS_DTYPE_BF16, LS_DTYPE_F32);
    assert_true(a && b && calls == 2);
    assert_ptr_equal(a, ls__cpu_table(cpu, squares, LS_DTYPE_BF16, LS_DTYPE_BF16));
    assert_ptr_equal(b, ls__cpu_table(cpu, squares, LS_DTYPE_BF16, LS_DTYPE_F32));
    assert_int_equal(calls, 2);
    assert_true(a[ls_float_to_bf16(-3)] == ls_float_to_bf16(9) && b[ls_float_to_bf16(0.5f)] == 0.25f);
    const uint16_t *c = ls__cpu_table(cpu, squares, LS_DTYPE_F16, LS_DTYPE_F16);
    assert_true(c && c != a && c[ls_float_to_fp16(-3)] == ls_float_to_fp16(9));
    assert_null(ls__cpu_table(cpu, squares, LS_DTYPE_F32, LS_DTYPE_F32));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(looked_up), cmocka_unit_test(shared)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
