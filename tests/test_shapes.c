// The embedded shapes: the same bytes everywhere and for any number of workers, and a task of the difficulty it claims.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data_set.h"
#include "data_team.h"

extern const ls_format ls_format_shapes;

enum { SIDE = 32, BYTES = SIDE * SIDE * 3, CLASSES = 10, TRAIN = 50000, TEST = 10000, TOTAL = TRAIN + TEST };

static team one = TEAM;
static worker alone[WORKERS_MAX];
static const ls_dataset *data;
static data_set train, test;

static int setup(void **state) {
    team_open(&one, alone, 1, "shapes");
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

// ---- the bytes -----------------------------------------------------------------------------------------------------

static void describes_itself(void **state) {
    assert_string_equal(ls_format_shapes.name, "shapes");
    assert_null(ls_format_shapes.argument);
    assert_int_equal(ls_dataset_classes(data), CLASSES);
    assert_true(ls_shape_equal(ls_dataset_image_shape(data), LS_SHAPE(SIDE, SIDE, 3)));
    assert_int_equal(data->train->count, TRAIN);
    assert_int_equal(data->test->count, TEST);
}

// These numbers change only when the dataset is meant to change; then every accuracy measured on it is void.
static void has_the_known_bytes(void **state) {
    assert_true(set_digest(&train, BYTES) == 0x631d033bf29d30b2u);
    assert_true(set_digest(&test, BYTES) == 0xb407ef284dc40755u);
}

static void does_not_depend_on_the_number_of_workers(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 3, "shapes");
    assert_string_equal(w[0].message, "");
    for (int r = 0; r < 3; r++) assert_true(w[r].dataset->fingerprint == data->fingerprint);
    assert_memory_equal(set_of(w[2].dataset->train).images, train.images, (size_t)TRAIN * BYTES);
    assert_memory_equal(set_of(w[2].dataset->test).labels, test.labels, TEST);
    team_close(&t, w);
}

// A host of four workers of which only worker 1 is there.
static ls_status lone_alloc(void *self, int64_t bytes, void **out) {
    void **memory = self;
    *out = *memory = calloc(1, (size_t)bytes);
    return LS_OK;
}
static ls_status lone_barrier(void *self) { return LS_OK; }
static ls_status lone_agree(void *self, ls_status mine) { return mine; }

static int is_blank(const uint8_t *image) {
    for (int i = 0; i < BYTES; i++)
        if (image[i]) return 0;
    return 1;
}

// It draws its quarter, and no sample that is another's: that is what makes it parallel.
static void shares_the_work(void **state) {
    void *memory = NULL;
    ls_data_host host = {
        .rank = 1, .size = 4, .self = &memory, .alloc = lone_alloc, .barrier = lone_barrier, .agree = lone_agree};
    ls_dataset d = {0};
    assert_int_equal(ls_format_shapes.open(&host, NULL, &d), LS_OK);
    for (int64_t i = 0; i < TRAIN; i++)
        assert_int_equal(is_blank(set_of(d.train).images + i * BYTES), i < TOTAL / 4 || i >= TOTAL / 2);
    ls_source_destroy(&d.train);
    ls_source_destroy(&d.test);
    free(memory);
}

static void passes_a_refused_allocation_on(void **state) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    t.fail_alloc_rank = 2;
    team_open(&t, w, 3, "shapes");
    assert_int_equal(w[0].status, LS_STATUS_OUT_OF_MEMORY);
    team_close(&t, w);
}

// ---- what is in the pictures ---------------------------------------------------------------------------------------

static void has_balanced_labels(void **state) {
    const data_set *splits[] = {&train, &test};
    for (int k = 0; k < 2; k++) {
        int64_t count[CLASSES] = {0}, expected = splits[k]->count / CLASSES, repeats = 0;
        for (int64_t i = 0; i < splits[k]->count; i++) {
            assert_in_range(splits[k]->labels[i], 0, CLASSES - 1);
            count[splits[k]->labels[i]]++;
            repeats += i > 0 && splits[k]->labels[i] == splits[k]->labels[i - 1];
        }
        for (int c = 0; c < CLASSES; c++) assert_in_range(count[c], expected * 9 / 10, expected * 11 / 10);
        assert_in_range(repeats, expected * 9 / 10, expected * 11 / 10);  // in random order: one in ten repeats
    }
}

// Colours of all kinds, alike in all channels and all classes: no brightness gives a class away.
static void has_even_colours(void **state) {
    double sum[CLASSES][3] = {{0}}, square[3] = {0};
    int64_t count[CLASSES] = {0};
    for (int64_t i = 0; i < TRAIN; i++) {
        count[train.labels[i]]++;
        for (int b = 0; b < BYTES; b++) {
            double v = train.images[i * BYTES + b];
            sum[train.labels[i]][b % 3] += v;
            square[b % 3] += v * v;
        }
    }
    for (int channel = 0; channel < 3; channel++) {
        double total = 0, n = (double)TRAIN * SIDE * SIDE;
        for (int c = 0; c < CLASSES; c++) {
            total += sum[c][channel];
            assert_float_equal(sum[c][channel] / ((double)count[c] * SIDE * SIDE), 128, 4);
        }
        assert_float_equal(sqrt(square[channel] / n - total / n * total / n), 55.6, 1);
    }
}

static int compare_hashes(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// No picture twice, above all none of the test pictures among the training ones.
static void has_no_two_equal_pictures(void **state) {
    uint64_t *hash = malloc(TOTAL * sizeof *hash);
    assert_non_null(hash);
    for (int64_t i = 0; i < TRAIN; i++) hash[i] = fnv1a(0, train.images + i * BYTES, BYTES);
    for (int64_t i = 0; i < TEST; i++) hash[TRAIN + i] = fnv1a(0, test.images + i * BYTES, BYTES);
    qsort(hash, TOTAL, sizeof *hash, compare_hashes);
    for (int64_t i = 1; i < TOTAL; i++) assert_true(hash[i] != hash[i - 1]);
    free(hash);
}

// ---- how hard it is ------------------------------------------------------------------------------------------------

// Softmax regression. The last row of weights is the bias.
typedef struct linear {
    float weight[BYTES + 1][CLASSES];
} linear;

static void scores(const linear *m, const uint8_t *image, float out[CLASSES]) {
    memcpy(out, m->weight[BYTES], sizeof m->weight[BYTES]);
    for (int i = 0; i < BYTES; i++) {
        float v = (float)image[i] / 255.0f - 0.5f;
        for (int c = 0; c < CLASSES; c++) out[c] += v * m->weight[i][c];
    }
}

static void learn(linear *m, const uint8_t *image, int label, float rate) {
    float p[CLASSES], most, sum = 0;
    scores(m, image, p);
    most = p[0];
    for (int c = 1; c < CLASSES; c++) most = p[c] > most ? p[c] : most;
    for (int c = 0; c < CLASSES; c++) sum += p[c] = expf(p[c] - most);
    for (int c = 0; c < CLASSES; c++) p[c] = rate * ((c == label) - p[c] / sum);
    for (int i = 0; i < BYTES; i++) {
        float v = (float)image[i] / 255.0f - 0.5f;
        for (int c = 0; c < CLASSES; c++) m->weight[i][c] += v * p[c];
    }
    for (int c = 0; c < CLASSES; c++) m->weight[BYTES][c] += p[c];
}

static double accuracy(const linear *m, const data_set *s, int64_t count) {
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) {
        float out[CLASSES];
        int best = 0;
        scores(m, s->images + i * BYTES, out);
        for (int c = 1; c < CLASSES; c++)
            if (out[c] > out[best]) best = c;
        right += best == s->labels[i];
    }
    return (double)right / (double)count;
}

// The place of a pixel says next to nothing: figures have to be recognized by their form.
static void is_not_linear(void **state) {
    enum { SUBSET = 20000 };
    linear *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (int e = 0; e < 2; e++)
        for (int64_t i = 0; i < SUBSET; i++)
            learn(m, train.images + i * BYTES, train.labels[i], 0.001f / (float)(e + 1));
    double found = accuracy(m, &test, 5000);
    print_message("linear test accuracy %.2f %%\n", 100 * found);
    assert_true(found < 0.4);
    free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes_itself),
        cmocka_unit_test(has_the_known_bytes),
        cmocka_unit_test(does_not_depend_on_the_number_of_workers),
        cmocka_unit_test(shares_the_work),
        cmocka_unit_test(passes_a_refused_allocation_on),
        cmocka_unit_test(has_balanced_labels),
        cmocka_unit_test(has_even_colours),
        cmocka_unit_test(has_no_two_equal_pictures),
        cmocka_unit_test(is_not_linear),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
