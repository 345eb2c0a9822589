// Philox4x32-10 against the known answers of its authors' library (Random123, kat_vectors), and the words made from it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"

static void known_answers(void **state) {
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uint32_t *c = known[i].counter;
        ls_philox4 r = ls_philox(known[i].key[0] | (uint64_t)known[i].key[1] << 32, c[0], c[1], c[2], c[3]);
        for (int j = 0; j < 4; j++) assert_int_equal(r.v[j], known[i].answer[j]);
    }
}

static void streams_keep_uses_epochs_and_layers_apart(void **state) {
    assert_int_equal(ls_random_stream(LS_RANDOM_DROPOUT, 7, 5), 0x30050007);
    assert_int_not_equal(ls_random_stream(LS_RANDOM_INIT, 1, 0), ls_random_stream(LS_RANDOM_INIT, 0, 1));
    assert_int_not_equal(ls_random_stream(LS_RANDOM_SHUFFLE, 1, 0), ls_random_stream(LS_RANDOM_DATA, 1, 0));
}

static void uniforms_are_in_range(void **state) {
    assert_true(ls_uniform(0) == 0.0f);
    assert_true(ls_uniform(0xffffffff) < 1.0f);
    assert_true(ls_uniform(0x80000000) == 0.5f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(streams_keep_uses_epochs_and_layers_apart),
        cmocka_unit_test(uniforms_are_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
