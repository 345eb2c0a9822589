// What tests against golden files share: reading the file, the draws both sides make, errors held against what is allowed.
#ifndef LS_TESTS_GOLDEN_CHECK_H
#define LS_TESTS_GOLDEN_CHECK_H

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/philox.h"
#include "ok.h"

// tests/golden/NAME.json; json_decref frees it.
static inline json_t *golden_load(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s.json", LS_GOLDEN_DIR, name);
    json_t *golden = json_load_file(path, 0, &error);
    if (!golden) fail_msg("%s, line %d: %s", path, error.line, error.text);
    return golden;
}

static inline const json_t *member(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!value) fail_msg("the golden file has no \"%s\" here", key);
    return value;
}

static inline double number(const json_t *object, const char *key) {
    const json_t *value = member(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static inline double element(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static inline void check_shape(ls_shape shape, const json_t *expected) {
    assert_int_equal(shape.ndim, json_array_size(expected));
    for (int d = 0; d < shape.ndim; d++) assert_int_equal(shape.dim[d], (int64_t)element(expected, (size_t)d));
}

// Word i of a stream, as philox() of make_mnist_cnn.py has it.
static inline uint32_t draw(uint32_t stream, uint32_t variant, int64_t i) {
    return ls_philox(UINT64_C(0x4C6F636B73746570), (uint32_t)(i / 4), stream, variant, 0).v[i % 4];
}

// The same as a number in [-1, 1), of 24 bits.
static inline double draw_signed(uint32_t stream, uint32_t variant, int64_t i) {
    return 2 * ((draw(stream, variant, i) >> 8) * 0x1p-24) - 1;
}

// The norm of all differences over the norm of what was expected.
static inline double distance_of_values(const float *values, const json_t *expected, int64_t count) {
    double difference = 0, reference = 0;
    assert_int_equal(json_array_size(expected), count);
    for (int64_t i = 0; i < count; i++) {
        double theirs = element(expected, (size_t)i), d = values[i] - theirs;
        difference += d * d;
        reference += theirs * theirs;
    }
    return sqrt(difference / reference);
}

static inline void check_error(const char *what, double error, double allowed) {
    if (!(error <= allowed)) fail_msg("%s is %g from PyTorch's; at most %g is allowed", what, error, allowed);
}

#endif
