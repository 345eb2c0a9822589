// The order of samples: a permutation, another one for every seed and epoch, and known ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "data/loader.h"

static uint32_t *make(uint64_t seed, uint32_t epoch, int shuffle, int64_t count) {
    uint32_t *order = malloc((size_t)count * 4 + 4);
    order[count] = 0xABCDEF01;
    ls_sampler_order(seed, epoch, shuffle, count, order);
    assert_int_equal(order[count], 0xABCDEF01);  // nothing past the end
    return order;
}

static void test_permutation(void **state) {
    static const int64_t counts[] = {0, 1, 2, 3, 10, 1000, 60000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        int64_t n = counts[c];
        uint32_t *order = make(7, 1, 1, n);
        char *seen = calloc((size_t)n + 1, 1);
        for (int64_t i = 0; i < n; i++) {
            assert_true(order[i] < n && !seen[order[i]]);
            seen[order[i]] = 1;
        }
        free(seen);
        free(order);
    }
}

static void test_identity(void **state) {
    uint32_t *order = make(7, 1, 0, 1000);
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(order[i], i);
    free(order);
}

// Unrelated orders of 1000 agree in about one place.
static void test_keys(void **state) {
    static const struct {
        uint64_t seed;
        uint32_t epoch;
    } keys[] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {1ull << 32, 0}, {1ull << 32, 1}, {0, 2}, {2, 0}};
    enum { KEYS = sizeof keys / sizeof keys[0] };
    uint32_t *orders[KEYS];
    for (int k = 0; k < KEYS; k++) orders[k] = make(keys[k].seed, keys[k].epoch, 1, 1000);
    for (int a = 0; a < KEYS; a++)
        for (int b = 0; b < a; b++) {
            int same = 0;
            for (int i = 0; i < 1000; i++) same += orders[a][i] == orders[b][i];
            assert_in_range(same, 0, 12);
        }
    uint32_t *again = make(keys[3].seed, keys[3].epoch, 1, 1000);
    assert_memory_equal(again, orders[3], 4000);
    free(again);
    for (int k = 0; k < KEYS; k++) free(orders[k]);
}

// All 24 orders of four samples come up equally often: over 24,000 seeds, chi-squared with 23 degrees of freedom stays
// under 60 but for one case in 30,000, and the seeds are always the same.
static void test_uniform(void **state) {
    int seen[256] = {0};
    for (uint64_t seed = 0; seed < 24000; seed++) {
        uint32_t o[4];
        ls_sampler_order(seed, 0, 1, 4, o);
        seen[o[0] << 6 | o[1] << 4 | o[2] << 2 | o[3]]++;
    }
    double chi = 0;
    int kinds = 0;
    for (int i = 0; i < 256; i++)
        if (seen[i]) {
            chi += (seen[i] - 1000.0) * (seen[i] - 1000.0) / 1000;
            kinds++;
        }
    assert_int_equal(kinds, 24);
    assert_true(chi < 60);
}

// Numbers from tests/golden/data.py. The 60,000 of seed 42 have a draw that is rejected, at position 34684.
static void test_known(void **state) {
    static const struct {
        uint64_t seed;
        uint32_t epoch, count, crc;
    } known[] = {{0, 0, 10, 0x8C1FCDFB},
                 {42, 3, 1000, 0x6C3D4BA0},
                 {42, 0, 60000, 0xF233FC98},
                 {0xFEDCBA9876543210u, 65535, 60000, 0x77FD3EF3}};
    for (int k = 0; k < 4; k++) {
        uint32_t *order = make(known[k].seed, known[k].epoch, 1, known[k].count);
        assert_int_equal(crc32(0, (const Bytef *)order, known[k].count * 4), known[k].crc);
        free(order);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_permutation), cmocka_unit_test(test_identity), cmocka_unit_test(test_keys),
        cmocka_unit_test(test_uniform),     cmocka_unit_test(test_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
