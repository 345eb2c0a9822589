// How many loader threads keep up, by a clock of the test's own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "data/pace.h"

// What a batch costs: whoever takes it, and the threads that read it, of which so many are at work at a time as there are cores.
typedef struct costs {
    double work, read;
    int cores;
} costs;

// Batches that are taken at the pace of the slower side; `now` goes on. Returns how often the number of threads changed.
static int take(ls_pace *p, costs c, int epochs, int batches, double *now) {
    int changes = 0;
    for (int e = 0; e < epochs; e++) {
        ls_pace_start(p);
        for (int b = 0; b < batches; b++) {
            int working = p->threads < c.cores ? p->threads : c.cores, was = p->threads;
            double read = c.read / working, waited = read > c.work ? read - c.work : 0;
            *now += c.work + waited;
            int changed = ls_pace_take(p, *now, waited);
            assert_int_equal(changed, p->threads != was);
            changes += changed;
        }
        *now += 5;  // between epochs there is something else to do, which is not looked at
    }
    return changes;
}

static ls_pace after(costs c, int epochs, int batches) {
    ls_pace p = ls_pace_create(4, 3, 1);
    double now = 100;
    assert_int_equal(p.threads, 1);
    take(&p, c, epochs, batches, &now);
    return p;
}

static void expect(costs c, int epochs, int batches, int threads) {
    ls_pace p = after(c, epochs, batches);
    assert_int_equal(p.threads, threads);
    assert_true(p.measured);
}

// As many as keep up: all where batches are always waited for, one where they never are, between them what it takes.
static void test_keeps_up(void **state) {
    expect((costs){0, 0.016, 8}, 10, 13, 4);
    expect((costs){0.010, 0.0004, 8}, 5, 13, 1);
    expect((costs){0.010, 0.019, 8}, 20, 13, 2);
    expect((costs){0.010, 0.028, 8}, 20, 13, 3);
    expect((costs){0.010, 0.0104, 8}, 5, 13, 1);  // a twenty-fifth of the time is waited: not much
}

// Threads beyond the cores make nothing faster, and go back to waiting.
static void test_cores_are_busy(void **state) {
    expect((costs){0, 0.016, 1}, 20, 13, 1);
    expect((costs){0.001, 0.016, 2}, 40, 13, 4);  // from one thread to four in one step, which are as fast as two
    expect((costs){0.010, 0.018, 1}, 20, 13, 1);
}

// Epochs of a few batches are looked at together; of those of one nothing is known.
static void test_short_epochs(void **state) {
    expect((costs){0, 0.016, 8}, 100, 2, 4);
    ls_pace p = after((costs){0, 0.016, 8}, 1000, 1);
    assert_int_equal(p.threads, 1);
    assert_false(p.measured);
}

// What was settled stays; what comes too fast to be measured by eight batches is looked at for longer.
static void test_settled(void **state) {
    ls_pace p = ls_pace_create(4, 3, 1);
    double now = 0;
    take(&p, (costs){0.010, 0.0004, 8}, 5, 13, &now);
    assert_true(p.measured);
    assert_int_equal(take(&p, (costs){0, 0.016, 8}, 10, 13, &now), 0);
    assert_int_equal(p.threads, 1);
    p = ls_pace_create(4, 3, 1);
    assert_int_equal(take(&p, (costs){0, 0.001, 8}, 1, 200, &now), 0);
    assert_int_equal(take(&p, (costs){0, 0.001, 8}, 1, 200, &now), 1);
}

static void test_not_adapting(void **state) {
    ls_pace p = ls_pace_create(3, 2, 0);
    double now = 0;
    assert_int_equal(p.threads, 3);
    assert_int_equal(take(&p, (costs){0, 0.1, 8}, 4, 50, &now), 0);
    assert_false(p.measured);
    p = ls_pace_create(1, 2, 1);
    assert_int_equal(take(&p, (costs){0, 0.1, 8}, 4, 50, &now), 0);
    assert_false(p.measured);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeps_up), cmocka_unit_test(test_cores_are_busy), cmocka_unit_test(test_short_epochs),
        cmocka_unit_test(test_settled),  cmocka_unit_test(test_not_adapting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
