// Synthetic images: the same for any number of workers, of the size that is asked for, kept nowhere, and with something to learn.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/source.h"
#include "data_team.h"

enum { SIDE = 9, BYTES = SIDE * SIDE * 3, CLASSES = 7, TRAIN = 400, TEST = 60 };

static void read_at(const ls_source *s, int64_t i, void *scratch, ls_sample *out) {
    if (ls_source_read(s, i, scratch, out) != LS_OK) fail_msg("%s", ls_error_message());
}

static uint64_t digest(const ls_source *s) {
    uint64_t h = 0xcbf29ce484222325u;
    void *scratch;
    ls_sample sample;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        read_at(s, i, scratch, &sample);
        for (int b = 0; b < BYTES; b++) h = (h ^ ((const uint8_t *)sample.field[0])[b]) * 0x100000001b3u;
        h = (h ^ (uint64_t) * (const int32_t *)sample.field[1]) * 0x100000001b3u;
    }
    ls_memory_free(scratch);
    return h;
}

// These numbers change only when the dataset is meant to change.
static void is_the_same_everywhere(void **state) {
    uint64_t fingerprint = 0;
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, "synthetic:9x9x3,7,400,60");
        for (int r = 0; r < workers; r++) {
            const ls_dataset *d = w[r].dataset;
            assert_string_equal(w[r].message, "");
            assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(SIDE, SIDE, 3)));
            assert_int_equal(ls_dataset_classes(d), CLASSES);
            assert_true(d->train->count == TRAIN && d->test->count == TEST && d->train->bytes == 0);
            if (!fingerprint) fingerprint = d->fingerprint;
            assert_true(d->fingerprint == fingerprint);
            assert_int_equal(digest(d->train), 0xd2a156c14485e34c);
            assert_int_equal(digest(d->test), 0x9c4d1a78f15a432b);
        }
        team_close(&t, w);
    }
}

// A sample is nearer to the mean of its class than to another's, and every class comes.
static void classes_can_be_told_apart(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, "synthetic:9x9x3,7,400,60");
    const ls_dataset *d = w[0].dataset;
    static double mean[CLASSES][BYTES];
    int count[CLASSES] = {0}, right = 0;
    void *scratch;
    ls_sample s;
    assert_int_equal(ls_memory_alloc(d->train->scratch_bytes, &scratch), LS_OK);
    for (int i = 0; i < TRAIN; i++) {
        read_at(d->train, i, scratch, &s);
        int label = *(const int32_t *)s.field[1];
        assert_in_range(label, 0, CLASSES - 1);
        count[label]++;
        for (int b = 0; b < BYTES; b++) mean[label][b] += ((const uint8_t *)s.field[0])[b];
    }
    for (int c = 0; c < CLASSES; c++) {
        assert_in_range(count[c], TRAIN / CLASSES / 2, TRAIN / CLASSES * 2);
        for (int b = 0; b < BYTES; b++) mean[c][b] /= count[c];
    }
    for (int i = 0; i < TEST; i++) {
        double nearest = 1e30;
        int which = -1;
        read_at(d->test, i, scratch, &s);
        for (int c = 0; c < CLASSES; c++) {
            double far = 0;
            for (int b = 0; b < BYTES; b++) {
                double x = ((const uint8_t *)s.field[0])[b] - mean[c][b];
                far += x * x;
            }
            if (far < nearest) nearest = far, which = c;
        }
        right += which == *(const int32_t *)s.field[1];
    }
    assert_int_equal(right, TEST);
    ls_memory_free(scratch);
    team_close(&t, w);
}

static void what_is_no_size_is_refused(void **state) {
    static const char *const wrong[] = {
        "synthetic:28x28",         "synthetic:28x28x1,",     "synthetic:0x1x1",
        "synthetic:28x28x1x1",     "synthetic: 28x28x1",     "synthetic:28x28x1,0",
        "synthetic:8x8x1,2,0",     "synthetic:8x8x1,2,1,-1", "synthetic:8x8x1,2,4294967295,2",
        "synthetic:65536x65536x1", "synthetic:8x8x1,2,3,4,", "synthetic:+8x8x1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, 2, wrong[i]);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(w[r].status, LS_STATUS_INVALID_ARGUMENT);
            if (!strstr(w[r].message, "expected synthetic:HxWxC[,CLASSES[,TRAIN[,TEST]]]"))
                fail_msg("%s: %s", wrong[i], w[r].message);
        }
        team_close(&t, w);
    }
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, "synthetic");
    assert_non_null(strstr(w[0].message, "needs to know what it is to be: write synthetic:HxWxC"));
    team_close(&t, w);
    team_open(&t, w, 1, "synthetic:1x1x1,1,1,0");
    assert_true(w[0].dataset && !w[0].dataset->test && w[0].dataset->train->count == 1);
    team_close(&t, w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_same_everywhere),
        cmocka_unit_test(classes_can_be_told_apart),
        cmocka_unit_test(what_is_no_size_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
