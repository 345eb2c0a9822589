// How a training goes, in one process: callbacks that stop it or fail, going on where it was left, loops of a program's own, validation, how a
// batch is cut.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer_fixture.h"

static ls_status stop_at(void *user, const ls_step_report *p, int *stop) {
    *stop = (p->epoch - 1) * p->steps + p->step >= *(const int *)user;
    return LS_OK;
}

static void a_callback_can_stop_training(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_trainer *t;
    ls_train_result r;
    int step = 3;
    ls_callbacks stops = {.user = &step, .on_step = stop_at};
    char digest[2][65];
    for (int i = 0; i < 2; i++) {
        c.replicas = 2 + i;
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
        OK(ls_trainer_fit(t, &stops));
        OK(ls_trainer_result(t, &r));
        assert_int_equal(r.epochs, 1);
        assert_int_equal(r.steps_per_epoch, 16);
        assert_int_equal(r.epoch[0].steps, 4);  // in the step after it all workers hear of it
        assert_true(r.epoch_seconds_median == 0 && r.images_per_second > 0);
        assert_true(r.epoch[0].accuracy * 4 * 64 == round(r.epoch[0].accuracy * 4 * 64));
        memcpy(digest[i], r.weights_digest, sizeof digest[i]);
        ls_trainer_destroy(&t);
    }
    assert_string_equal(digest[0], digest[1]);
    step = 16;  // at the end of an epoch there is no other step
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    OK(ls_trainer_fit(t, &stops));
    OK(ls_trainer_result(t, &r));
    assert_int_equal(r.epochs, 1);
    assert_int_equal(r.epoch[0].steps, 16);
    assert_true(r.epoch_seconds_median > 0);
    ls_trainer_destroy(&t);
}

// 1,000 samples in batches of 64: the last 40 of each epoch, other ones in each, are left out.
static void a_remainder_can_be_dropped(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    char digest[65];
    c.drop_remainder = 1;
    for (int i = 0; i < 3; i++) {
        c.replicas = 1 + i;
        ls_train_result r = train(f, &c);
        assert_int_equal(r.steps_per_epoch, 15);
        if (i) assert_string_equal(r.weights_digest, digest);
        memcpy(digest, r.weights_digest, sizeof digest);
    }
    // In order they are the first 960: then the same as if there were no others.
    c.shuffle = 0;
    ls_train_result dropped = train(f, &c);
    c.drop_remainder = 0, c.limit_train = 960;
    ls_train_result fewer = train(f, &c);
    assert_string_equal(dropped.weights_digest, fewer.weights_digest);
    assert_string_not_equal(dropped.weights_digest, digest);
    c.drop_remainder = 1, c.limit_train = 63;
    ls_trainer *t;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "63 samples do not fill the global batch of 64"));
}

static ls_status fails_silently(void *user, const ls_step_report *step, int *stop) { return LS_STATUS_IO; }

static ls_status fails_silently_at_the_end(void *user, const ls_epoch_result *epoch, int *stop) { return LS_STATUS_IO; }

static ls_status returns_no_status(void *user, const ls_step_report *step, int *stop) { return (ls_status)777; }

// The sentence of what failed before is not its own.
static void a_callback_that_does_not_say_why(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    for (int i = 0; i < 2; i++) {
        ls_callbacks fails = {.on_step = i ? NULL : fails_silently, .on_epoch = i ? fails_silently_at_the_end : NULL};
        ls_trainer *t;
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
        assert_int_equal(ls_trainer_load_weights(t, "nowhere.safetensors"), LS_STATUS_NOT_FOUND);
        assert_int_equal(ls_trainer_fit(t, &fails), LS_STATUS_IO);
        assert_string_equal(ls_error_message(), "a callback returned IO and did not say why (ls_error_set does)");
        ls_trainer_destroy(&t);
    }
    ls_trainer *t;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    assert_int_equal(ls_trainer_fit(t, &(ls_callbacks){.on_step = returns_no_status}), LS_STATUS_LIBRARY);
    assert_non_null(strstr(ls_error_message(), "a callback returned 777, which is no status"));
    ls_trainer_destroy(&t);
}

// What is called after a failure says that, and not that an epoch has to be begun.
static void a_step_after_a_failure_names_it(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_trainer *t;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    assert_int_equal(ls_trainer_step(t, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(), "there is no step to do: begin an epoch first, or the next one");
    assert_int_equal(ls_trainer_fit(t, &(ls_callbacks){.on_step = fails_silently}), LS_STATUS_IO);
    assert_int_equal(ls_trainer_step(t, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(
        strstr(ls_error_message(), "there is no step to do, since training has failed: a callback returned IO"));
    OK(ls_trainer_begin_epoch(t));
    OK(ls_trainer_step(t, NULL));
    ls_trainer_destroy(&t);
    c.optimizer = "sgd", c.lr = 1e10;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    assert_int_equal(ls_trainer_fit(t, NULL), LS_STATUS_DIVERGED);
    assert_int_equal(ls_trainer_step(t, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(
        strstr(ls_error_message(), "there is no step to do, since training has failed: training diverged: the loss"));
    ls_trainer_destroy(&t);
}

// Early stopping as the C guide has it: the loss on the test set is the same number on every worker.
static void a_loop_stops_when_it_no_longer_gains(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.epochs = 50, c.validate = 1, c.limit_train = 200, c.limit_test = 200, c.lr = 0.02;
    ls_trainer *t;
    ls_epoch_result e;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    double best = INFINITY;
    int since = 0, epochs = 0;
    for (; epochs < c.epochs && since < 3; epochs++) {
        OK(ls_trainer_begin_epoch(t));
        while (ls_trainer_steps_left(t) > 0) OK(ls_trainer_step(t, NULL));
        OK(ls_trainer_end_epoch(t, &e));
        since = e.val_loss < best ? 0 : since + 1;
        if (!since) best = e.val_loss;
    }
    assert_true(epochs > 3 && epochs < c.epochs);
    ls_trainer_destroy(&t);
}

// An auto-encoder: what the loss compares with is the input itself.
static void an_auto_encoder_is_its_own_target(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_graph *g;
    ls_trainer *t;
    double before, after;
    OK(ls_graph_create("auto-encoder", LS_SHAPE(28, 28, 1), &g));
    ls_value image = ls_flatten(g, ls_graph_input(g), NULL);
    ls_value code = ls_dense(g, image, &(ls_dense_attrs){.units = 32, .activation = LS_ACTIVATION_RELU});
    ls_value again = ls_dense(g, code, &(ls_dense_attrs){.units = 784});
    again = ls_reshape(g, again, &(ls_reshape_attrs){.shape = {28, 28, 1}});
    ls_mean_squared_error(g, again, ls_graph_input(g), NULL);
    OK(ls_graph_finish(g, again));
    OK(ls_trainer_create(f->context, g, f->dataset, &c, &t));
    OK(ls_trainer_evaluate(t, &before, NULL));
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_evaluate(t, &after, NULL));
    assert_true(after < 0.6 * before);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
}

// However often training is left and gone on with, evaluated in between or not: the same steps in the same order.
static void training_goes_on_where_it_was_left(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_trainer *t;
    ls_train_result whole, r;
    ls_epoch_result epoch[2];
    c.replicas = 2;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_result(t, &whole));
    assert_int_equal(whole.epochs, 2);
    memcpy(epoch, whole.epoch, sizeof epoch);
    ls_trainer_destroy(&t);
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    for (int step = 1; step <= 40; step += 7) {
        OK(ls_trainer_fit(t, &(ls_callbacks){.user = &step, .on_step = stop_at}));
        OK(ls_trainer_evaluate(t, NULL, NULL));
    }
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_result(t, &r));
    assert_string_equal(r.weights_digest, whole.weights_digest);
    assert_int_equal(r.epochs, 2);
    for (int e = 0; e < 2; e++) {
        assert_int_equal(r.epoch[e].steps, 16);
        assert_true(r.epoch[e].loss == epoch[e].loss && r.epoch[e].accuracy == epoch[e].accuracy);
    }
    ls_trainer_destroy(&t);
}

static void a_program_has_its_own_loop(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_trainer *t;
    ls_train_result whole, r;
    ls_step_report step;
    ls_epoch_result epoch;
    c.replicas = 2;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_result(t, &whole));
    char digest[65];
    memcpy(digest, whole.weights_digest, sizeof digest);
    ls_trainer_destroy(&t);
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    assert_int_equal(ls_trainer_step(t, &step), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_trainer_end_epoch(t, &epoch), LS_STATUS_INVALID_ARGUMENT);
    for (int e = 1; e <= 2; e++) {
        OK(ls_trainer_begin_epoch(t));
        assert_int_equal(ls_trainer_begin_epoch(t), LS_STATUS_INVALID_ARGUMENT);
        assert_int_equal(ls_trainer_evaluate(t, NULL, NULL), LS_STATUS_INVALID_ARGUMENT);
        for (int64_t left = 16; left > 0; left--) {
            assert_int_equal(ls_trainer_steps_left(t), left);
            OK(ls_trainer_step(t, left % 2 ? &step : NULL));
        }
        assert_int_equal(ls_trainer_step(t, &step), LS_STATUS_INVALID_ARGUMENT);
        OK(ls_trainer_end_epoch(t, &epoch));
        assert_int_equal(epoch.epoch, e);
        assert_int_equal(step.epoch, e);
        assert_int_equal(step.step, 16);
        assert_true(fabs(step.loss - epoch.loss) < 1e-9);
    }
    assert_int_equal(ls_trainer_begin_epoch(t), LS_STATUS_INVALID_ARGUMENT);
    OK(ls_trainer_result(t, &r));
    assert_string_equal(r.weights_digest, digest);
    ls_trainer_destroy(&t);
}

typedef struct watched {
    int steps, epochs, stop_after;
    double batch_loss;  // summed over the steps of the epoch, each a full batch
    ls_epoch_result last;
} watched;

static ls_status on_step(void *user, const ls_step_report *p, int *stop) {
    watched *w = user;
    w->steps++;
    if (p->step == 1) w->batch_loss = 0;
    w->batch_loss += p->batch_loss;
    assert_true(p->learning_rate > 0 && p->batch_accuracy >= 0 && p->batch_accuracy <= 1);
    // The epoch's mean so far is that of its steps.
    assert_true(fabs(w->batch_loss / (double)p->step - p->loss) < 1e-9);
    return LS_OK;
}

static ls_status on_epoch(void *user, const ls_epoch_result *e, int *stop) {
    watched *w = user;
    w->epochs++;
    w->last = *e;
    assert_int_equal(e->epoch, w->epochs);
    assert_true(fabs(w->batch_loss / (double)e->steps - e->loss) < 1e-9);
    *stop = w->epochs == w->stop_after;
    return LS_OK;
}

static void validation_follows_every_epoch(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.limit_train = 640, c.validate = 1, c.epochs = 3, c.schedule = "step", c.schedule_gamma = 0.5;
    ls_trainer *t;
    ls_train_result r;
    double loss, accuracy;
    watched w = {0};
    ls_callbacks callbacks = {.user = &w, .on_step = on_step, .on_epoch = on_epoch};
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    OK(ls_trainer_fit(t, &callbacks));
    assert_int_equal(w.epochs, 3);
    assert_int_equal(w.steps, 30);
    assert_true(w.last.val_seconds > 0 && fabs(w.last.learning_rate - 0.001 / 4) < 1e-12);
    OK(ls_trainer_evaluate(t, &loss, &accuracy));
    assert_true(loss == w.last.val_loss && accuracy == w.last.val_accuracy);
    OK(ls_trainer_result(t, &r));
    assert_true(r.test_loss == loss && r.epoch[0].val_loss != r.epoch[2].val_loss);
    ls_trainer_destroy(&t);
    // It changes nothing in training, and without it there are no numbers.
    c.validate = 0;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    w = (watched){.stop_after = 2};
    OK(ls_trainer_fit(t, &callbacks));
    assert_int_equal(w.epochs, 2);
    assert_true(isnan(w.last.val_loss) && isnan(w.last.val_accuracy) && isnan(w.last.val_seconds));
    OK(ls_trainer_fit(t, NULL));  // the epoch that is left
    ls_train_result plain;
    OK(ls_trainer_result(t, &plain));
    assert_string_equal(plain.weights_digest, r.weights_digest);
    ls_trainer_destroy(&t);
}

static void the_default_micro_batch_is_a_function_of_the_batch(void **state) {
    static const int64_t expected[][2] = {{128, 16}, {256, 32},   {512, 64},       {1024, 128}, {2048, 128},
                                          {64, 16},  {32, 16},    {16, 16},        {8, 8},      {1, 1},
                                          {100, 20}, {127, 127},  {1000, 125},     {15, 15},    {131, 17},
                                          {502, 66}, {1009, 128}, {100000007, 127}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        assert_int_equal(ls_micro_batch_default(expected[i][0]), expected[i][1]);
    // None is small, so that batch normalization has samples, and where one is shorter there are eight.
    for (int64_t b = 1; b < 3000000; b += b < 3000 ? 1 : 997) {
        int64_t m = ls_micro_batch_default(b), rest = b % m;
        if (m < (b < 16 ? b : 16) || m > 128 || (rest && rest < m / 2) || (rest && b / m < 7))
            fail_msg("a batch of %lld in micro-batches of %lld", (long long)b, (long long)m);
    }
}

// A micro-batch that does not divide the batch: the last of each step is shorter, and so may that of the epoch be, on another
// replica. A whole batch in one micro-batch has the same loss, so the samples weigh the same.
static void a_step_may_end_with_a_shorter_micro_batch(void **state) {
    fixture *f = *state;
    static const int counts[] = {131 * 4, 131 * 4 + 52, 131 * 4 + 12, 131 * 4 + 40, 100};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ls_train_config c = small();
        c.batch_size = 131, c.limit_train = counts[i], c.limit_test = counts[i], c.replicas = 1;
        ls_train_result one = train(f, &c);
        assert_int_equal(one.micro_batch, 17);
        for (c.replicas = 2; c.replicas <= 5; c.replicas++) {
            ls_train_result more = train(f, &c);
            assert_string_equal(one.weights_digest, more.weights_digest);
            assert_true(one.train_loss == more.train_loss && one.test_loss == more.test_loss);
        }
        c.micro_batch = 131, c.replicas = 1;
        assert_true(fabs(train(f, &c).train_loss - one.train_loss) < 1e-5);
    }
}

// Batch normalization that sees one value, or few, is told of; that of images has a value for each of their pixels.
static void too_few_samples_to_normalize_over_are_told_of(void **state) {
    fixture *f = *state;
    static const struct {
        int64_t batch, micro_batch, count;
        int dense;
        const char *words;
    } cases[] = {{64, 0, 640, 1, ""},
                 {8, 0, 640, 1, ""},
                 {64, 4, 640, 0, ""},
                 {64, 1, 640, 0, "layer bn: batch normalization over the 144 values of a micro-batch of 1 sample"},
                 {64, 1, 640, 1, "layer bn: batch normalization over the 1 value of a micro-batch of 1 sample"},
                 {64, 21, 640, 1, "layer bn: batch normalization over the 1 value of a micro-batch of 1 sample"},
                 {4, 0, 640, 1, "layer bn: batch normalization over the 4 values of a micro-batch of 4 samples"},
                 {64, 0, 641, 0, ""},
                 {64, 0, 641, 1, "layer bn: batch normalization over 1 value in the last step of an epoch"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_graph *g;
        OK(ls_graph_create("few", LS_SHAPE(28, 28, 1), &g));
        ls_value x =
            ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 2, .kernel = {5, 5}, .strides = {2, 2}});
        if (cases[i].dense) x = ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.units = 4});
        x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){.name = "bn"});
        if (!cases[i].dense) x = ls_flatten(g, x, NULL);
        OK(ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = 10})));
        ls_train_config c = small();
        c.batch_size = cases[i].batch, c.micro_batch = cases[i].micro_batch, c.limit_train = cases[i].count;
        c.threads = 1;
        for (int frozen = 0; frozen < 2; frozen++) {
            ls_trainer *t;
            ls_train_result r;
            if (frozen) OK(ls_graph_freeze(g, "[!h]*", 1, NULL));
            OK(ls_trainer_create(f->context, g, f->dataset, &c, &t));
            OK(ls_trainer_result(t, &r));
            const char *words = frozen ? "" : cases[i].words;
            if (strncmp(r.normalization_advice, words, strlen(words)) != 0 || (!words[0] && r.normalization_advice[0]))
                fail_msg("case %zu: \"%s\", not \"%s\"", i, r.normalization_advice, words);
            ls_trainer_destroy(&t);
        }
        ls_graph_destroy(&g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_micro_batch_is_a_function_of_the_batch),
        cmocka_unit_test(a_step_may_end_with_a_shorter_micro_batch),
        cmocka_unit_test(too_few_samples_to_normalize_over_are_told_of),
        cmocka_unit_test(a_callback_can_stop_training),
        cmocka_unit_test(a_remainder_can_be_dropped),
        cmocka_unit_test(a_callback_that_does_not_say_why),
        cmocka_unit_test(a_step_after_a_failure_names_it),
        cmocka_unit_test(a_loop_stops_when_it_no_longer_gains),
        cmocka_unit_test(an_auto_encoder_is_its_own_target),
        cmocka_unit_test(training_goes_on_where_it_was_left),
        cmocka_unit_test(a_program_has_its_own_loop),
        cmocka_unit_test(validation_follows_every_epoch),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
