// The embedded letters: the same bytes everywhere and for any number of workers, all classes alike often and with their names, and pictures in which
// every letter has ink where it is to be written. How samples are drawn is the business of test_digits.c: both sets are drawn by one code.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_set.h"
#include "data_team.h"

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 26, TRAIN = 60000, TEST = 10000 };

static team one = TEAM;
static worker alone[WORKERS_MAX];
static const ls_dataset *data;
static data_set train, test;

static int setup(void **state) {
    team_open(&one, alone, 1, "letters");
    data = alone[0].dataset;
    if (!data) return -1;
    train = set_of(data->train);
    test = set_of(data->test);
    return 0;
}

static int teardown(void **state) {
    team_close(&one, alone);
    return 0;
}

static void describes_itself(void **state) {
    char name[2] = "A";
    assert_int_equal(ls_dataset_classes(data), CLASSES);
    assert_true(ls_shape_equal(ls_dataset_image_shape(data), LS_SHAPE(SIDE, SIDE, 1)));
    assert_int_equal(data->train->count, TRAIN);
    assert_int_equal(data->test->count, TEST);
    for (int c = 0; c < CLASSES; c++, name[0]++) assert_string_equal(ls_dataset_class(data, c), name);
    assert_null(ls_dataset_class(data, CLASSES));
    assert_string_equal(ls_dataset_format_class("letters", 25), "Z");
}

// These numbers change only when the dataset is meant to change; then every accuracy measured on it is void.
static void has_the_known_bytes(void **state) {
    print_message("0x%llx 0x%llx\n", (unsigned long long)set_digest(&train, PIXELS),
                  (unsigned long long)set_digest(&test, PIXELS));
    assert_true(set_digest(&train, PIXELS) == 0xb48df3f28f3b1522u);
    assert_true(set_digest(&test, PIXELS) == 0xf52648422e102d35u);
}

static void does_not_depend_on_the_number_of_workers(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 3, "letters");
    assert_string_equal(w[0].message, "");
    for (int r = 0; r < 3; r++) assert_true(w[r].dataset->fingerprint == data->fingerprint);
    assert_memory_equal(set_of(w[2].dataset->train).images, train.images, (size_t)TRAIN * PIXELS);
    assert_memory_equal(set_of(w[2].dataset->test).labels, test.labels, TEST);
    team_close(&t, w);
}

static void has_balanced_labels(void **state) {
    int count[CLASSES] = {0};
    for (int64_t i = 0; i < TRAIN; i++) {
        assert_in_range(train.labels[i], 0, CLASSES - 1);
        count[train.labels[i]]++;
    }
    for (int c = 0; c < CLASSES; c++) assert_in_range(count[c], TRAIN / CLASSES * 9 / 10, TRAIN / CLASSES * 11 / 10);
}

// No empty picture, no blot, and nothing much that runs off the paper: a point of the table that is out of its place shows here.
static void looks_like_ink_on_paper(void **state) {
    double sum[CLASSES] = {0}, edge[CLASSES] = {0};
    for (int64_t i = 0; i < TEST; i++) {
        const uint8_t *image = test.images + i * PIXELS;
        int darkest = 0, inked = 0, class = test.labels[i];
        for (int p = 0; p < PIXELS; p++) {
            int v = image[p], x = p % SIDE, y = p / SIDE;
            if (v > darkest) darkest = v;
            inked += v > 0;
            sum[class] += v;
            if (x == 0 || y == 0 || x == SIDE - 1 || y == SIDE - 1) edge[class] += v;
        }
        assert_in_range(darkest, 128, 255);
        assert_in_range(inked, 20, PIXELS * 6 / 10);
    }
    for (int c = 0; c < CLASSES; c++) assert_true(edge[c] / sum[c] < 0.02);
}

// Means of classes are as far apart as letters are: none is drawn from another's table.
static void letters_differ(void **state) {
    static double mean[CLASSES][PIXELS];
    int count[CLASSES] = {0};
    for (int64_t i = 0; i < TEST; i++) {
        count[test.labels[i]]++;
        for (int p = 0; p < PIXELS; p++) mean[test.labels[i]][p] += test.images[i * PIXELS + p];
    }
    for (int a = 0; a < CLASSES; a++)
        for (int b = 0; b < a; b++) {
            double far = 0;
            for (int p = 0; p < PIXELS; p++) {
                double d = mean[a][p] / count[a] - mean[b][p] / count[b];
                far += d * d;
            }
            if (far < 20000) fail_msg("%c and %c are only %.0f apart", 'A' + a, 'A' + b, far);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),        cmocka_unit_test(has_the_known_bytes),
        cmocka_unit_test(has_balanced_labels),     cmocka_unit_test(does_not_depend_on_the_number_of_workers),
        cmocka_unit_test(looks_like_ink_on_paper), cmocka_unit_test(letters_differ),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
