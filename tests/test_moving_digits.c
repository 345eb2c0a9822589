// The embedded clips: the same values everywhere and for any number of workers, digits that move and stay within the frame, and others in tests.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_team.h"

enum { FRAMES = 8, SEEN = 4, SIDE = 32, PIXELS = SIDE * SIDE, TRAIN = 10000, TEST = 1000 };

// The frames of a clip, those that are foretold behind those that are seen.
typedef float clip[FRAMES][PIXELS];

static team one = TEAM;
static worker alone[WORKERS_MAX];
static const ls_dataset *data;

static int setup(void **state) {
    team_open(&one, alone, 1, "moving-digits");
    data = alone[0].dataset;
    return data ? 0 : -1;
}

static int teardown(void **state) {
    team_close(&one, alone);
    return 0;
}

static void read_clip(const ls_dataset *d, int test, int64_t sample, clip out) {
    if (ls_dataset_read(d, test, sample, (void *[]){out[0], out[SEEN]}) != LS_OK) fail_msg("%s", ls_error_message());
}

static uint64_t fnv1a(uint64_t h, const void *values, size_t bytes) {
    const uint8_t *p = values;
    for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t digest_of(const ls_dataset *d, int test, int64_t first, int64_t count) {
    static clip c;
    uint64_t h = 0xcbf29ce484222325u;
    for (int64_t i = first; i < first + count; i++) {
        read_clip(d, test, i, c);
        h = fnv1a(h, c, sizeof c);
    }
    return h;
}

static void describes_itself(void **state) {
    const ls_shape frames = LS_SHAPE(SEEN, SIDE, SIDE, 1);
    assert_int_equal(ls_dataset_train_count(data), TRAIN);
    assert_int_equal(ls_dataset_test_count(data), TEST);
    assert_true(ls_shape_equal(ls_dataset_image_shape(data), frames));
    assert_true(ls_shape_equal(ls_dataset_find_field(data, "target")->shape, frames));
    assert_int_equal(ls_dataset_find_field(data, "target")->dtype, LS_DTYPE_F32);
    assert_int_equal(ls_dataset_classes(data), 0);
}

// These numbers change only when the dataset is meant to change; then every error measured on it is void.
static void has_the_known_values(void **state) {
    uint64_t train = digest_of(data, 0, 0, 200), last = digest_of(data, 0, TRAIN - 100, 100),
             test = digest_of(data, 1, 0, 200);
    print_message("0x%llx 0x%llx 0x%llx\n", (unsigned long long)train, (unsigned long long)last,
                  (unsigned long long)test);
    assert_true(train == 0x7ff6d99710899031u && last == 0x6da9c2c4dc915844u && test == 0x688a516fb207ecb7u);
}

static void does_not_depend_on_the_number_of_workers(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 3, "moving-digits");
    for (int r = 0; r < 3; r++) {
        assert_non_null(w[r].dataset);
        assert_true(w[r].dataset->fingerprint == data->fingerprint);
        assert_true(digest_of(w[r].dataset, 0, 40, 50) == digest_of(data, 0, 40, 50));
        assert_true(digest_of(w[r].dataset, 1, 40, 50) == digest_of(data, 1, 40, 50));
    }
    team_close(&t, w);
}

static double brightness(const float *frame) {
    double sum = 0;
    for (int i = 0; i < PIXELS; i++) sum += (double)frame[i];
    return sum;
}

// Where the brightness of a frame is, in pixels.
static void centre(const float *frame, double at[2]) {
    at[0] = at[1] = 0;
    for (int i = 0; i < PIXELS; i++) {
        at[0] += i / SIDE * (double)frame[i] / brightness(frame);
        at[1] += i % SIDE * (double)frame[i] / brightness(frame);
    }
}

// Nothing leaves a frame; what is between pixels is as bright as before, but where two digits cover each other.
static void digits_move_within_the_frame(void **state) {
    static clip c;
    int moved = 0, bent = 0;
    for (int i = 0; i < 200; i++) {
        double before[2], now[2], least = 1e9, most = 0;
        read_clip(data, i % 2, i, c);
        for (int f = 0; f < FRAMES; f++) {
            double sum = brightness(c[f]);
            for (int p = 0; p < PIXELS; p++) assert_true(c[f][p] >= 0 && c[f][p] <= 1);
            least = sum < least ? sum : least;
            most = sum > most ? sum : most;
            centre(c[f], now);
            double y = now[0] - before[0], x = now[1] - before[1];
            if (f) assert_true(y * y + x * x < 6 * 6);
            if (f) moved += y * y + x * x > 0.25;
            memcpy(before, now, sizeof now);
        }
        assert_true(least > 10 && least > 0.45 * most);
        bent += least < 0.9 * most;
    }
    assert_true(moved > 200 * (FRAMES - 1) / 2);
    assert_true(bent > 10 && bent < 150);
}

static void refuses_what_is_not_there(void **state) {
    static clip c;
    assert_int_equal(ls_dataset_read(data, 0, TRAIN, (void *[]){c[0], c[SEEN]}), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "the dataset moving-digits has no training sample 10000: they go from 0 to 9999");
    assert_int_equal(ls_dataset_read(data, 1, -1, (void *[]){c[0], c[SEEN]}), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_dataset_read(NULL, 0, 0, (void *[]){c[0], c[SEEN]}), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_dataset_read(data, 0, 0, NULL), LS_STATUS_INVALID_ARGUMENT);
    memset(c, 0, sizeof c);
    assert_int_equal(ls_dataset_read(data, 0, 0, (void *[]){NULL, c[SEEN]}), LS_OK);
    assert_true(brightness(c[0]) == 0 && brightness(c[SEEN]) > 0);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, "moving-digits:20");
    assert_int_equal(w[0].status, LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(w[0].message,
                        "the dataset moving-digits takes no argument, but got \"20\": write moving-digits");
    team_close(&t, w);
}

static void passes_a_refused_allocation_on(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    t.fail_alloc_rank = 1;
    team_open(&t, w, 2, "moving-digits");
    assert_int_not_equal(w[0].status, LS_OK);
    team_close(&t, w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(has_the_known_values),
        cmocka_unit_test(does_not_depend_on_the_number_of_workers),
        cmocka_unit_test(digits_move_within_the_frame),
        cmocka_unit_test(refuses_what_is_not_there),
        cmocka_unit_test(passes_a_refused_allocation_on),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
