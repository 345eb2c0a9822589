// Evaluating a classifier with the metrics that people look at: the same bits of loss and accuracy as without them, and a table of what
// was taken for what that adds up to them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/runner.h"
#include "train/measures.h"
#include "trainer_fixture.h"

enum { CLASSES = 10 };

static double value(const ls_trainer *t, const char *name) {
    for (int i = 0; i < ls_trainer_measure_count(t); i++)
        if (strcmp(ls_trainer_measure(t, i).name, name) == 0) return ls_trainer_measure(t, i).test;
    fail_msg("there is no %s", name);
    return NAN;
}

static void check_confusion(const ls_trainer *t, double accuracy, int64_t samples) {
    int64_t counts[CLASSES * CLASSES], all = 0, right = 0;
    double balanced = 0;
    OK(ls_trainer_confusion(t, counts, CLASSES));
    for (int i = 0; i < CLASSES; i++) {
        int64_t of_class = 0;
        for (int k = 0; k < CLASSES; k++) of_class += counts[i * CLASSES + k];
        assert_true(of_class > 0);
        all += of_class;
        right += counts[i * CLASSES + i];
        balanced += (double)counts[i * CLASSES + i] / (double)of_class / CLASSES;
    }
    assert_int_equal(all, samples);
    assert_true((double)right / (double)samples == accuracy);
    assert_true(fabs(balanced - value(t, "balanced_accuracy")) < 1e-12);
}

// The weights of a trained network, evaluated by another trainer with metrics, with another batch.
static void same_bits(void **state) {
    fixture *f = *state;
    int64_t counts[CLASSES * CLASSES];
    for (int smoothed = 0; smoothed < 2; smoothed++) {
        ls_train_config c = small();
        ls_trainer *plain, *with;
        ls_graph *graph;
        double loss, accuracy, other_loss, other_accuracy;
        c.label_smoothing = smoothed ? 0.1 : 0;
        c.batch_size = 96, c.micro_batch = 48;  // evaluation takes it, where it is above 32
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &plain));
        assert_int_equal(ls_trainer_confusion(plain, counts, CLASSES), LS_STATUS_INVALID_ARGUMENT);
        OK(ls_trainer_fit(plain, NULL));
        OK(ls_trainer_evaluate(plain, &loss, &accuracy));
        char path[] = "/tmp/lockstep-evaluate-XXXXXX";
        assert_true(mkstemp(path) >= 0);
        OK(ls_trainer_save_weights(plain, path));
        ls_trainer_destroy(&plain);

        c.optimizer = "sgd", c.label_smoothing = 0, c.batch_size = 5 * c.micro_batch;
        OK(ls_graph_classifier(f->graph, 5, &graph));
        OK(ls_trainer_create(f->context, graph, f->dataset, &c, &with));
        OK(ls_trainer_load_weights(with, path));
        assert_int_equal(ls_trainer_confusion(with, counts, CLASSES), LS_STATUS_INVALID_ARGUMENT);
        OK(ls_trainer_evaluate(with, &other_loss, &other_accuracy));
        assert_true(memcmp(&loss, &other_loss, sizeof loss) == 0 && accuracy == other_accuracy);
        assert_true(value(with, "top_k_accuracy") >= accuracy);
        assert_int_equal(ls_trainer_confusion(with, counts, CLASSES + 1), LS_STATUS_INVALID_ARGUMENT);
        check_confusion(with, accuracy, 300);
        ls_trainer_destroy(&with);
        ls_graph_destroy(&graph);
        remove(path);
    }
}

// The samples that are trained on can be evaluated on.
static void on_training(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_dataset *d;
    ls_graph *graph;
    ls_trainer *t;
    double accuracy;
    OK(ls_dataset_open(f->context, "digits", &d));
    ls_dataset_test_on_training(d);
    ls_dataset_test_on_training(d);
    assert_int_equal(ls_dataset_test_count(d), ls_dataset_train_count(d));
    OK(ls_graph_classifier(f->graph, 0, &graph));
    c.limit_test = 700;
    OK(ls_trainer_create(f->context, graph, d, &c, &t));
    OK(ls_trainer_evaluate(t, NULL, &accuracy));
    check_confusion(t, accuracy, 700);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&d);
}

// The rows that devices give, and what comes of them: a class of its own for a tie is the first.
static void rows(void **state) {
    static const float scores[] = {1, 3, 2, 5, 5, 0, 0, 0, 0, 1, 2, 9};
    static const int32_t classes[] = {1, 1, 0, 2};
    static const double expected[] = {1, 1, 1, 0, 0, 0, 2, 2};
    for (int d = 0; d < 2; d++)
        for (int targets = 0; targets < 2; targets++) {
            ls_graph *g;
            ls_device *device;
            ls_runner *r;
            ls_measures m;
            ls_measured values[2];
            double sum[2] = {4}, got[8];
            float weights[12] = {0};
            for (int n = 0; n < 4; n++) weights[3 * n + classes[n]] = 0.75f;
            OK(ls_graph_create("scores", LS_SHAPE(3), &g));
            ls_value x = ls_graph_input(g), y = ls_dense(g, x, &(ls_dense_attrs){.units = 1});
            ls_value t = targets ? ls_graph_add_input(g, "t", LS_SHAPE(3), LS_DTYPE_F32)
                                 : ls_graph_add_input(g, "t", (ls_shape){0}, LS_DTYPE_I32);
            ls_balanced_accuracy(g, x, t, NULL);
            ls_mean_squared_error(g, y, ls_graph_add_input(g, "u", LS_SHAPE(1), LS_DTYPE_F32), NULL);
            OK(ls_graph_finish(g, y));
            OK(ls_device_create(d ? "cpu" : "ref", NULL, &device));
            ls_plan_config config = {.batch = 4, .precision = LS_DTYPE_F32, .mode = LS_PLAN_EVALUATION};
            OK(ls_runner_create(g, device, &config, NULL, &r));
            OK(ls_runner_write(r, 0, scores));
            OK(ls_runner_write(r, 1, targets ? (const void *)weights : classes));
            OK(ls_runner_forward(r, sum + 1));
            assert_int_equal(ls_plan_row_count(r->plan), 8);
            OK(ls_runner_rows(r, got));
            assert_memory_equal(got, expected, sizeof got);
            OK(ls__measures_create(g, &m));
            OK(ls__measures_values(&m, sum, got, 4, values));
            assert_string_equal(values[0].name, "balanced_accuracy");
            assert_true(fabs(values[0].value - (1 + 0.5 + 1) / 3) < 1e-15);
            ls__measures_destroy(&m);
            ls_runner_destroy(&r);
            ls_device_destroy(&device);
            ls_graph_destroy(&g);
        }
}

// What is no network without losses is refused.
static void refused(void **state) {
    fixture *f = *state;
    ls_graph *one, *two;
    OK(ls_graph_classifier(f->graph, 2, &one));
    assert_int_equal(ls_graph_classifier(one, 2, &two), LS_STATUS_INVALID_ARGUMENT);
    assert_null(two);
    assert_non_null(strstr(ls_error_message(), "losses of its own"));
    assert_int_equal(ls_graph_classifier(f->graph, 11, &two), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "smaller k"));
    ls_graph_destroy(&one);
}

static void names(void **state) {
    fixture *f = *state;
    ls_context *c = f->context;
    ls_dataset *d;
    double mean, deviation;
    assert_string_equal(ls_dataset_class(f->dataset, 7), "7");
    assert_null(ls_dataset_class(f->dataset, 10));
    assert_null(ls_dataset_class(f->dataset, -1));
    assert_string_equal(ls_dataset_format_class("cifar10:folder", 6), "frog");
    assert_string_equal(ls_dataset_format_class("cifar100", 99), "worm");
    assert_null(ls_dataset_format_class("cifar100:x", 100));
    assert_string_equal(ls_dataset_format_class("fashion-mnist:x", 9), "Ankle boot");
    assert_string_equal(ls_dataset_format_class("shapes", 5), "star");
    assert_null(ls_dataset_format_class("synthetic:8x8x1", 0));
    assert_null(ls_dataset_format_class("nothing", 0));
    OK(ls_dataset_channels(f->dataset, &mean, &deviation));
    assert_true(mean > 0.05 && mean < 0.5 && deviation > 0.05 && deviation < 0.5);
    OK(ls_dataset_open(c, "synthetic:4x4x1", &d));
    OK(ls_dataset_channels(d, &mean, &deviation));
    ls_dataset_destroy(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(on_training),
                                       cmocka_unit_test(rows), cmocka_unit_test(refused), cmocka_unit_test(names)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
