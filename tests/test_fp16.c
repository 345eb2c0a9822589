// Half precision: conversions against PyTorch's (tests/golden/fp16.json) and against their definition, and whatever else holds values of that type.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fp16.h"
#include "data/convert.h"
#include "device/device.h"
#include "golden_check.h"
#include "step/elements.h"

static float from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

// As make_fp16.py has it.
#define HASH_BEGIN UINT64_C(14695981039346656037)
static uint64_t hash(uint64_t h, uint64_t value) { return (h ^ value) * UINT64_C(1099511628211); }

static uint16_t narrow(uint32_t bits) {
    uint16_t h = ls_float_to_fp16(from_bits(bits));
    return (h & 0x7FFF) > 0x7C00 ? 0x7E00 : h;
}

static void check_hash(const json_t *golden, const char *name, uint64_t h) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)h);
    assert_string_equal(text, json_string_value(member(golden, name)));
}

static void conversions_are_pytorchs(void **state) {
    json_t *golden = golden_load("fp16");
    uint64_t words = HASH_BEGIN, boundaries = HASH_BEGIN, halves = HASH_BEGIN;
    for (int64_t i = 0; i < 65536; i++) words = hash(words, narrow(draw(400, 0, i)));
    for (uint32_t h = 0; h < 0x7C00; h++) {
        double low = ls_fp16_to_float((ls_fp16)h), high = h == 0x7BFF ? 65536 : ls_fp16_to_float((ls_fp16)(h + 1));
        uint32_t middle = bits_of((float)((low + high) / 2)), three[] = {middle, middle - 1, middle + 1};
        for (int i = 0; i < 3; i++) {
            boundaries = hash(boundaries, narrow(three[i]));
            boundaries = hash(boundaries, narrow(three[i] | 0x80000000u));
        }
    }
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = ls_fp16_to_float((ls_fp16)h);
        halves = hash(halves, isnan(f) ? 0x7FC00000u : bits_of(f));
    }
    check_hash(golden, "words", words);
    check_hash(golden, "boundaries", boundaries);
    check_hash(golden, "halves", halves);
    json_decref(golden);
}

static void every_half_comes_back(void **state) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = ls_fp16_to_float((ls_fp16)h);
        int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
        double value = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
        if (exponent < 31) assert_true(f == (h & 0x8000 ? -value : value));
        if (exponent == 31) assert_true(fraction ? isnan(f) : isinf(f) && (f < 0) == (h >> 15));
        if (isnan(f))
            assert_true(isnan(ls_fp16_to_float(ls_float_to_fp16(f))));
        else
            assert_int_equal(ls_float_to_fp16(f), h);
    }
}

static void edges(void **state) {
    static const struct {
        float from;
        uint16_t to;
    } known[] = {
        {65504, 0x7BFF},                                    // the largest
        {65519.996f, 0x7BFF},   {65520, 0x7C00},            // half way to what would be the next: infinite
        {-1e30f, 0xFC00},       {INFINITY, 0x7C00},         // beyond
        {0x1p-14f, 0x0400},     {0x1.ff8p-15f, 0x03FF},     // the least normal one, and the largest that is not
        {0x1.ffcp-15f, 0x0400},                             // half way between them, to even
        {0x1p-24f, 0x0001},     {-0x1p-24f, 0x8001},        // the least
        {0x1p-25f, 0x0000},     {0x1.000002p-25f, 0x0001},  // half of it, to even; just over
        {0x1.8p-24f, 0x0002},                               // half way, to even: up
        {0x1p-149f, 0x0000},    {-0x1p-149f, 0x8000},       // denormal floats
        {1 + 0x1p-11f, 0x3C00}, {1 + 0x1.8p-10f, 0x3C02},   // half way
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(ls_float_to_fp16(known[i].from), known[i].to);
    assert_true(isnan(ls_fp16_to_float(ls_float_to_fp16(from_bits(0x7F800001)))));  // would truncate to infinity
    assert_true(isnan(ls_fp16_to_float(ls_float_to_fp16(from_bits(0xFFFFFFFF)))));
}

static void samples_become_halves(void **state) {
    uint8_t bytes[] = {0, 1, 255};
    int32_t numbers[] = {-3, 2049, 70000};  // rounded; beyond
    float floats[] = {0.1f, -65520, 0x1p-24f};
    ls_fp16 out[3];
    ls_convert_fn convert;
    OK(ls_convert_find(LS_DTYPE_U8, LS_DTYPE_F16, &convert));
    convert(bytes, 3, out);
    assert_true(out[0] == 0 && out[1] == 0x3C00 && out[2] == ls_float_to_fp16(255));
    OK(ls_convert_find(LS_DTYPE_I32, LS_DTYPE_F16, &convert));
    convert(numbers, 3, out);
    assert_true(out[0] == 0xC200 && out[1] == 0x6800 && out[2] == 0x7C00);
    OK(ls_convert_find(LS_DTYPE_F32, LS_DTYPE_F16, &convert));
    convert(floats, 3, out);
    assert_true(out[0] == 0x2E66 && out[1] == 0xFC00 && out[2] == 1);
}

static void halves_are_reduced_in_floats(void **state) {
    ls_fp16 a[] = {0x3C00, 0x7BFF, 0x0001, 0x7E00}, b[] = {0x1000, 0x4C00, 0x0001, 0x3C00}, out[4];
    ls__elements_join(LS_REDUCE_SUM, LS_DTYPE_F16, out, a, b, 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(out[i], ls_float_to_fp16(ls_fp16_to_float(a[i]) + ls_fp16_to_float(b[i])));
    assert_true(isnan(ls_fp16_to_float(out[3])) && out[1] == 0x7C00 && out[2] == 0x0002);
    ls__elements_join(LS_REDUCE_MAX, LS_DTYPE_F16, out, a, b, 4);
    assert_true(out[0] == 0x3C00 && out[1] == 0x7BFF && isnan(ls_fp16_to_float(out[3])));
    ls__elements_join(LS_REDUCE_MIN, LS_DTYPE_F16, out, a, b, 4);
    assert_true(out[0] == 0x1000 && out[1] == 0x4C00 && isnan(ls_fp16_to_float(out[3])));
    ls__elements_divide(LS_DTYPE_F16, a, 2, 4);
    assert_true(a[0] == 0x3400 && a[1] == ls_float_to_fp16(65504.0f / 4));
}

// Where processor or library have it not, the sentence says what is missing and what there is instead.
static void devices_say_whether_they_have_it(void **state) {
    ls_device *device;
    OK(ls_device_create("cpu", NULL, &device));
    if (device->ops->supports(device, LS_DTYPE_F16) == LS_OK) {
        print_message("this cpu computes in fp16\n");
    } else {
        assert_non_null(
            strstr(ls_error_message(), "precision fp16 needs a CPU with avx512_fp16 and oneDNN 3.0 or later"));
        assert_non_null(strstr(ls_error_message(), ", or the device ref"));
    }
    ls_device_destroy(&device);
    OK(ls_device_create("ref", NULL, &device));
    OK(device->ops->supports(device, LS_DTYPE_F16));
    ls_device_destroy(&device);
    ls_dtype dtype;
    OK(ls_precision_find("fp16", &dtype));
    assert_int_equal(dtype, LS_DTYPE_F16);
    assert_int_equal(ls_precision_find("fp8", &dtype), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "fp32, bf16 and fp16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conversions_are_pytorchs),
        cmocka_unit_test(every_half_comes_back),
        cmocka_unit_test(edges),
        cmocka_unit_test(samples_become_halves),
        cmocka_unit_test(halves_are_reduced_in_floats),
        cmocka_unit_test(devices_say_whether_they_have_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
