// The embedded dataset: the same bytes everywhere and for any number of workers, and a task of the difficulty it claims.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data_set.h"

extern const ls_format ls_format_digits;

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, TRAIN = 60000, TEST = 10000, TOTAL = TRAIN + TEST };

// ---- workers of a host, one after the other -----------------------------------------------------------------------

// A host whose workers share `memory` and open the dataset in turn: nobody waits, so what one misses no other adds.
typedef struct shared {
    void *memory;
    int64_t bytes;
    int refuse;  // alloc fails
} shared;

static ls_status shared_alloc(void *self, int64_t bytes, void **out) {
    shared *s = self;
    if (s->refuse) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory for %lld bytes", (long long)bytes);
    if (!s->memory) {
        s->memory = calloc(1, (size_t)bytes);
        s->bytes = bytes;
        assert_non_null(s->memory);
    }
    assert_int_equal(bytes, s->bytes);
    *out = s->memory;
    return LS_OK;
}

static ls_status shared_barrier(void *self) { return LS_OK; }
static ls_status shared_agree(void *self, ls_status mine) { return mine; }

static ls_status open_as(shared *s, int rank, int size, ls_dataset *out) {
    ls_data_host host = {
        .rank = rank, .size = size, .self = s, .alloc = shared_alloc, .barrier = shared_barrier, .agree = shared_agree};
    memset(out, 0, sizeof *out);
    return ls_format_digits.open(&host, NULL, out);
}

static void close_sources(ls_dataset *d) {
    ls_source_destroy(&d->train);
    ls_source_destroy(&d->test);
}

typedef struct fixture {
    shared one;
    ls_dataset data;
    data_set train, test;
} fixture;

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    if (!f || open_as(&f->one, 0, 1, &f->data) != LS_OK) return -1;
    f->train = set_of(f->data.train);
    f->test = set_of(f->data.test);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    close_sources(&f->data);
    free(f->one.memory);
    free(f);
    return 0;
}

// ---- the bytes ----------------------------------------------------------------------------------------------------

static void describes_itself(void **state) {
    const fixture *f = *state;
    assert_string_equal(ls_format_digits.name, "digits");
    assert_null(ls_format_digits.argument);
    assert_int_equal(ls_dataset_classes(&f->data), CLASSES);
    assert_true(ls_shape_equal(ls_dataset_image_shape(&f->data), LS_SHAPE(SIDE, SIDE, 1)));
    assert_int_equal(f->data.train->count, TRAIN);
    assert_int_equal(f->data.test->count, TEST);
    int64_t bytes = (TRAIN + TEST) * (SIDE * SIDE + 1);
    assert_true(ls_data_bytes(&f->data) >= bytes && ls_data_bytes(&f->data) < bytes + (4 << 20));
}

// These numbers change only when the dataset is meant to change; then every accuracy measured on it is void.
static void has_the_known_bytes(void **state) {
    const fixture *f = *state;
    assert_int_equal(set_digest(&f->train, PIXELS), 0x78e9824228601588u);
    assert_int_equal(set_digest(&f->test, PIXELS), 0x96af576e93d9fb77u);
}

static void does_not_depend_on_the_number_of_workers(void **state) {
    const fixture *f = *state;
    static const int sizes[] = {3, 7};
    for (int k = 0; k < 2; k++) {
        shared s = {0};
        ls_dataset d;
        for (int rank = 0; rank < sizes[k]; rank++) {
            if (rank) close_sources(&d);
            assert_int_equal(open_as(&s, rank, sizes[k], &d), LS_OK);
        }
        assert_int_equal(s.bytes, f->one.bytes);
        assert_memory_equal(set_of(d.train).images, f->train.images, (size_t)TRAIN * PIXELS);
        assert_memory_equal(set_of(d.train).labels, f->train.labels, TRAIN);
        assert_memory_equal(set_of(d.test).images, f->test.images, (size_t)TEST * PIXELS);
        assert_memory_equal(set_of(d.test).labels, f->test.labels, TEST);
        close_sources(&d);
        free(s.memory);
    }
}

static int is_blank(const uint8_t *image) {
    for (int i = 0; i < PIXELS; i++)
        if (image[i]) return 0;
    return 1;
}

// Each of four workers draws a quarter, and no sample that is another's: that is what makes reading parallel.
static void shares_the_work(void **state) {
    shared s = {0};
    ls_dataset d;
    assert_int_equal(open_as(&s, 1, 4, &d), LS_OK);
    for (int64_t i = 0; i < TRAIN; i++)
        assert_int_equal(is_blank(set_of(d.train).images + i * PIXELS), i < TOTAL / 4 || i >= TOTAL / 2);
    for (int64_t i = 0; i < TEST; i++) assert_true(is_blank(set_of(d.test).images + i * PIXELS));
    close_sources(&d);
    free(s.memory);
}

static void passes_a_refused_allocation_on(void **state) {
    shared s = {.refuse = 1};
    ls_dataset d;
    assert_int_equal(open_as(&s, 0, 1, &d), LS_STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(ls_error_message(), "no memory"));
}

// ---- what is in the pictures --------------------------------------------------------------------------------------

static void has_balanced_labels(void **state) {
    const fixture *f = *state;
    const data_set *splits[] = {&f->train, &f->test};
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

static void looks_like_ink_on_paper(void **state) {
    const fixture *f = *state;
    const data_set *s = &f->train;
    double sum = 0, blank = 0, edge = 0, centre_x = 0, centre_y = 0;
    for (int64_t i = 0; i < s->count; i++) {
        const uint8_t *image = s->images + i * PIXELS;
        int darkest = 0, inked = 0;
        for (int y = 0; y < SIDE; y++) {
            for (int x = 0; x < SIDE; x++) {
                int v = image[y * SIDE + x];
                if (v > darkest) darkest = v;
                inked += v > 0;
                sum += v;
                centre_x += (double)v * x;
                centre_y += (double)v * y;
                if (x == 0 || y == 0 || x == SIDE - 1 || y == SIDE - 1) edge += v;
            }
        }
        blank += PIXELS - inked;
        assert_in_range(darkest, 128, 255);
        assert_in_range(inked, 20, PIXELS / 2);  // no empty picture, no blot
    }
    double pixels = (double)s->count * PIXELS;
    assert_float_equal(sum / pixels, 28, 4);         // out of 255; MNIST has 33
    assert_float_equal(blank / pixels, 0.80, 0.04);  // MNIST: 0.81
    assert_true(edge / sum < 0.01);                  // few digits run off the paper
    assert_float_equal(centre_x / sum, 13.5, 0.5);
    assert_float_equal(centre_y / sum, 13.5, 0.5);
}

static int compare_hashes(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// No picture twice, above all none of the test pictures among the training ones.
static void has_no_two_equal_pictures(void **state) {
    const fixture *f = *state;
    uint64_t *hash = malloc(TOTAL * sizeof *hash);
    assert_non_null(hash);
    for (int64_t i = 0; i < TRAIN; i++) hash[i] = fnv1a(0, f->train.images + i * PIXELS, PIXELS);
    for (int64_t i = 0; i < TEST; i++) hash[TRAIN + i] = fnv1a(0, f->test.images + i * PIXELS, PIXELS);
    qsort(hash, TOTAL, sizeof *hash, compare_hashes);
    for (int64_t i = 1; i < TOTAL; i++) assert_true(hash[i] != hash[i - 1]);
    free(hash);
}

// ---- how hard it is -----------------------------------------------------------------------------------------------

// Softmax regression. The weights of a pixel lie together, so that blank pixels are skipped and the rest vectorizes.
typedef struct linear {
    float weight[PIXELS + 1][CLASSES];  // the last row is the bias
} linear;

static void scores(const linear *m, const uint8_t *image, float out[CLASSES]) {
    memcpy(out, m->weight[PIXELS], sizeof m->weight[PIXELS]);
    for (int i = 0; i < PIXELS; i++) {
        if (!image[i]) continue;
        float v = (float)image[i] / 255.0f;
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
    for (int i = 0; i < PIXELS; i++) {
        if (!image[i]) continue;
        float v = (float)image[i] / 255.0f;
        for (int c = 0; c < CLASSES; c++) m->weight[i][c] += v * p[c];
    }
    for (int c = 0; c < CLASSES; c++) m->weight[PIXELS][c] += p[c];
}

static double accuracy(const linear *m, const data_set *s) {
    int64_t right = 0;
    for (int64_t i = 0; i < s->count; i++) {
        float out[CLASSES];
        int best = 0;
        scores(m, s->images + i * PIXELS, out);
        for (int c = 1; c < CLASSES; c++)
            if (out[c] > out[best]) best = c;
        right += best == s->labels[i];
    }
    return (double)right / (double)s->count;
}

// Labels mean something (a linear model finds most of them), but it takes more than a linear model to find them all.
static void is_learnable_but_not_linear(void **state) {
    const fixture *f = *state;
    enum { EPOCHS = 4, SUBSET = 30000 };
    linear *m = calloc(1, sizeof *m);
    assert_non_null(m);
    for (int e = 0; e < EPOCHS; e++)
        for (int64_t i = 0; i < SUBSET; i++)
            learn(m, f->train.images + i * PIXELS, f->train.labels[i], 0.01f / (float)(e + 1));
    double found = accuracy(m, &f->test);
    print_message("linear test accuracy %.2f %%\n", 100 * found);
    assert_true(found > 0.75);
    assert_true(found < 0.95);
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
        cmocka_unit_test(looks_like_ink_on_paper),
        cmocka_unit_test(has_no_two_equal_pictures),
        cmocka_unit_test(is_learnable_but_not_linear),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
