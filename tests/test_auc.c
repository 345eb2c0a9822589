// The area under the ROC curve against scikit-learn's numbers, from rows as plans of evaluation give them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden_check.h"
#include "graph/graph.h"
#include "graph/runner.h"
#include "ok.h"
#include "train/measures.h"

enum { SAMPLES = 500, LABELS = 7 };

// As make_auc.py draws them.
static void draw_case(int c, float *scores, float *there) {
    for (int64_t i = 0; i < SAMPLES * LABELS; i++) {
        uint32_t word = draw((uint32_t)(300 + c), 0, i) >> 8;
        if (c == 1) word = word >> 20 << 20;
        scores[i] = (float)(2 * (word * 0x1p-24) - 1);
        there[i] = (draw((uint32_t)(310 + c), 0, i) >> 24) < 20 * ((uint32_t)(i % LABELS) + 1);
        if (c == 2 && i % LABELS == 0) scores[i] = 0.25F;
        if (c == 2 && (i % LABELS == 1 || i % LABELS == 2)) there[i] = i % LABELS == 1;
    }
}

// The scores are what the graph is given; its loss is of something else.
static ls_graph *scoring(int classes) {
    ls_graph *g;
    OK(ls_graph_create("scores", LS_SHAPE(LABELS), &g));
    ls_value x = ls_graph_input(g), y = ls_dense(g, x, &(ls_dense_attrs){.units = 2});
    ls_value there = classes ? ls_graph_add_input(g, "class", (ls_shape){0}, LS_DTYPE_I32)
                             : ls_graph_add_input(g, "there", LS_SHAPE(LABELS), LS_DTYPE_F32);
    ls_auc(g, x, there, NULL);
    ls_mean_squared_error(g, y, ls_graph_add_input(g, "u", LS_SHAPE(2), LS_DTYPE_F32), NULL);
    OK(ls_graph_finish(g, y));
    return g;
}

// The values of all measures: auc, auc/0, ..., the loss.
static void evaluate(const ls_graph *g, const char *name, const float *scores, const void *there, ls_measured *values) {
    ls_device *device;
    ls_runner *r;
    ls_measures m;
    double sum[2] = {SAMPLES}, *rows;
    OK(ls_device_create(name, NULL, &device));
    ls_plan_config config = {.batch = SAMPLES, .precision = LS_DTYPE_F32, .mode = LS_PLAN_EVALUATION};
    OK(ls_runner_create(g, device, &config, NULL, &r));
    OK(ls_runner_write(r, 0, scores));
    OK(ls_runner_write(r, 1, there));
    OK(ls_runner_forward(r, sum + 1));
    assert_int_equal(ls_plan_measure_count(r->plan), 1);
    assert_int_equal(ls_plan_row_count(r->plan), SAMPLES * 2 * LABELS);
    rows = calloc((size_t)ls_plan_row_count(r->plan), sizeof *rows);
    OK(ls_runner_rows(r, rows));
    OK(ls__measures_create(g, &m));
    assert_int_equal(m.value_count, LABELS + 2);
    assert_int_equal(m.row_width, 2 * LABELS);
    OK(ls__measures_values(&m, sum, NULL, 0, values));
    for (int i = 0; i <= LABELS; i++) assert_true(isnan(values[i].value));  // not without rows
    OK(ls__measures_values(&m, sum, rows, SAMPLES, values));
    assert_string_equal(values[0].name, "auc");
    assert_string_equal(values[LABELS].name, "auc/6");
    ls__measures_destroy(&m);
    free(rows);
    ls_runner_destroy(&r);
    ls_device_destroy(&device);
}

static void test_golden(void **state) {
    json_t *golden = golden_load("auc");
    static float scores[SAMPLES * LABELS], there[SAMPLES * LABELS];
    ls_measured values[LABELS + 2];
    ls_graph *g = scoring(0);
    for (int c = 0; c < 3; c++)
        for (int d = 0; d < 2; d++) {
            const json_t *expected = json_array_get(member(golden, "cases"), (size_t)c);
            draw_case(c, scores, there);
            evaluate(g, d ? "cpu" : "ref", scores, there, values);
            check_error("the mean area", fabs(values[0].value - number(expected, "mean")), 1e-12);
            for (int label = 0; label < LABELS; label++) {
                const json_t *area = json_array_get(member(expected, "areas"), (size_t)label);
                assert_true(json_is_null(area) == isnan(values[1 + label].value));
                if (!json_is_null(area))
                    check_error("an area", fabs(values[1 + label].value - json_number_value(area)), 1e-12);
            }
        }
    ls_graph_destroy(&g);
    json_decref(golden);
}

// Class numbers: each class against the rest, as rows of one 1 each would have it.
static void test_classes(void **state) {
    static float scores[SAMPLES * LABELS], there[SAMPLES * LABELS];
    int32_t class[SAMPLES];
    ls_measured by_class[LABELS + 2], by_row[LABELS + 2];
    ls_graph *rows = scoring(0), *classes = scoring(1);
    draw_case(1, scores, there);
    for (int n = 0; n < SAMPLES; n++) {
        class[n] = (int32_t)(draw(320, 0, n) % LABELS);
        for (int k = 0; k < LABELS; k++) there[n * LABELS + k] = class[n] == k;
    }
    for (int d = 0; d < 2; d++) {
        evaluate(rows, d ? "cpu" : "ref", scores, there, by_row);
        evaluate(classes, d ? "cpu" : "ref", scores, class, by_class);
        for (int i = 0; i <= LABELS; i++) assert_true(by_row[i].value > 0.4 && by_row[i].value == by_class[i].value);
    }
    ls_graph_destroy(&rows), ls_graph_destroy(&classes);
}

// A score that is no number leaves its label without an area. One that is infinite is the largest.
static void test_no_numbers(void **state) {
    static float scores[SAMPLES * LABELS], there[SAMPLES * LABELS];
    ls_measured before[LABELS + 2], after[LABELS + 2];
    ls_graph *g = scoring(0);
    draw_case(0, scores, there);
    evaluate(g, "ref", scores, there, before);
    scores[3 * LABELS + 2] = NAN;
    scores[5 * LABELS + 4] = INFINITY;
    evaluate(g, "ref", scores, there, after);
    assert_true(isnan(after[3].value) && isfinite(after[5].value) && after[5].value != before[5].value);
    assert_true(after[1].value == before[1].value && isfinite(after[0].value));
    ls_graph_destroy(&g);
}

// Plans of training and prediction have no rows.
static void test_modes(void **state) {
    ls_device *device;
    ls_graph *g = scoring(0);
    OK(ls_device_create("ref", NULL, &device));
    for (int mode = 0; mode < 3; mode++) {
        ls_runner *r;
        ls_plan_config config = {.batch = 4, .precision = LS_DTYPE_F32, .mode = (ls_plan_mode)mode};
        OK(ls_runner_create(g, device, &config, NULL, &r));
        assert_int_equal(ls_plan_row_count(r->plan), mode == LS_PLAN_EVALUATION ? 4 * 2 * LABELS : 0);
        assert_int_equal(ls_plan_measure_count(r->plan), mode == LS_PLAN_PREDICTION ? 0 : 1);
        ls_runner_destroy(&r);
    }
    ls_graph_destroy(&g);
    ls_device_destroy(&device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_no_numbers),
        cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
