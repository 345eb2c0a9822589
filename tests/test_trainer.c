// The public training API in one process: results, evaluation, weights in and out, recipes, refusals.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer_fixture.h"

static void training_learns_and_reports(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.limit_train = 6000, c.epochs = 3;
    ls_train_result r = train(f, &c);
    assert_int_equal(r.epochs, 3);
    assert_int_equal(r.global_batch, 64);
    assert_int_equal(r.micro_batch, ls_micro_batch_default(64));
    assert_true(r.train_accuracy > 0.7 && r.test_accuracy > 0.7 && r.test_loss < 1);
    assert_true(r.step_seconds_median > 0 && r.images_per_second > 0 && r.peak_rss_bytes > 1000000);
    assert_true(r.planned_bytes > 1000000);
    assert_true(r.phases.forward > 0 && r.phases.backward > 0 && r.phases.update > 0);
    assert_int_equal(strlen(r.weights_digest), 64);
}

static double all_of(const ls_phase_seconds *p) {
    return p->load + p->forward + p->backward + p->exchange + p->wait + p->update + p->serial;
}

// Everything a replica does in an epoch is in one of the phases; what is not is the threads' going to work.
static void phases_add_up_to_the_epoch(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.limit_train = 3000;
    for (c.replicas = 1; c.replicas <= 2; c.replicas++) {
        ls_trainer *t;
        ls_train_result r;
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
        OK(ls_trainer_fit(t, NULL));
        OK(ls_trainer_result(t, &r));
        double all = 0;
        for (int e = 0; e < 2; e++) {
            const ls_epoch_result *epoch = &r.epoch[e];
            all += all_of(&epoch->mean);
            if (fabs(all_of(&epoch->mean) - epoch->seconds) > 0.03 * epoch->seconds)
                fail_msg("%d replicas: phases of %g s, epoch of %g s", c.replicas, all_of(&epoch->mean),
                         epoch->seconds);
            assert_true(epoch->most.forward >= epoch->mean.forward && epoch->most.wait >= epoch->mean.wait);
            assert_true(c.replicas > 1 || epoch->most.forward == epoch->mean.forward);
            assert_true(epoch->mean.forward > 0 && epoch->mean.backward > 0 && epoch->mean.serial > 0);
        }
        double per_step = all / (2 * (double)r.epoch[0].steps);
        assert_true(fabs(all_of(&r.phases) - per_step) < 1e-9);
        assert_true(fabs(all_of(&r.worker_phases[0]) - per_step) < 1e-9);
        ls_trainer_destroy(&t);
    }
}

// Every way of cutting the same samples: full steps, a short last micro-batch, a step with idle lanes, fewer samples than a
// batch. All samples count exactly once, and replicas do not change the bits.
static void every_sample_counts_once_whatever_the_cut(void **state) {
    fixture *f = *state;
    static const int counts[] = {1000, 960, 961, 64, 63, 17, 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        ls_train_config c = small();
        c.limit_train = counts[i], c.limit_test = counts[i];
        c.micro_batch = 16, c.lr = 0.0;  // weights stay, so training and evaluation see the same network
        c.replicas = 1;
        ls_train_result one = train(f, &c);
        c.replicas = 3;
        ls_train_result three = train(f, &c);
        assert_string_equal(one.weights_digest, three.weights_digest);
        assert_true(one.train_loss == three.train_loss && one.test_loss == three.test_loss);
        double whole = one.train_accuracy * counts[i];
        assert_true(fabs(whole - round(whole)) < 1e-9);
    }
}

// In buckets, behind backward, down to one for each unit of the vector: the bits of one bucket, also where a norm has to be known first.
static void buckets_do_not_show(void **state) {
    fixture *f = *state;
    static const double sizes[] = {0.001, 0.07, 0.2, 1000};
    for (int clipped = 0; clipped < 2; clipped++) {
        ls_train_config c = small();
        c.limit_train = 330, c.micro_batch = 8, c.clip_norm = clipped ? 0.05 : 0;
        c.replicas = 1;
        ls_train_result whole = train(f, &c);
        assert_int_equal(whole.buckets, 1);
        assert_true(whole.exchange_hidden == 0);
        c.replicas = 3;
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            c.bucket_size = sizes[i], c.comm_cores = (int)i % 2;
            ls_train_result r = train(f, &c);
            assert_string_equal(r.weights_digest, whole.weights_digest);
            assert_true(r.train_loss == whole.train_loss);
            assert_int_equal(r.buckets > 1, sizes[i] < 1);
        }
    }
    ls_trainer *t;
    ls_train_config c = small();
    c.bucket_size = -1;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    c.bucket_size = 0, c.comm_cores = -2;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
}

// Every strategy that one worker can have: the same weights and losses, in buckets too. Recipes that cannot be are refused.
static void strategies_do_not_show(void **state) {
    fixture *f = *state;
    ls_trainer *t;
    ls_train_config c = small();
    c.limit_train = 330, c.micro_batch = 8, c.replicas = 1, c.clip_norm = 0.05;
    ls_train_result first = train(f, &c);
    static const char *const names[] = {"reduce-broadcast", "mirrored", "central", "tree", "parameter-server"};
    c.replicas = 3;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        c.strategy = names[i], c.bucket_size = i % 2 ? 0.07 : 0;
        ls_train_result r = train(f, &c);
        assert_string_equal(r.weights_digest, first.weights_digest);
        assert_true(r.train_loss == first.train_loss && r.test_loss == first.test_loss && r.synchronous);
    }
    c.servers = 2;  // one worker has nobody to serve
    assert_string_equal(train(f, &c).weights_digest, first.weights_digest);
    c.servers = -1;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    c.strategy = "allreduce", c.servers = 1;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "choose parameter-server"));
}

// Gradients in bf16: other weights, the same for any number of replicas, with every strategy, in buckets, also where a norm has to be known first;
// and no less is learned.
static void compression_is_the_same_for_all(void **state) {
    fixture *f = *state;
    for (int clipped = 0; clipped < 2; clipped++) {
        ls_train_config c = small();
        c.limit_train = 330, c.micro_batch = 8, c.clip_norm = clipped ? 0.05 : 0, c.replicas = 1;
        ls_train_result exact = train(f, &c);
        c.compress = "bf16";
        ls_train_result one = train(f, &c);
        assert_string_not_equal(one.weights_digest, exact.weights_digest);
        for (c.replicas = 2; c.replicas <= 5; c.replicas++) {
            c.strategy = c.replicas % 2 ? "reduce-broadcast" : "allreduce", c.bucket_size = c.replicas > 3 ? 0.07 : 0;
            assert_string_equal(one.weights_digest, train(f, &c).weights_digest);
        }
    }
    ls_train_config c = small();
    c.limit_train = 6000, c.epochs = 3, c.compress = "bf16";
    ls_train_result r = train(f, &c);
    assert_true(r.train_accuracy > 0.7 && r.test_accuracy > 0.7 && r.test_loss < 1);
}

// The largest elements alone, with what was left over added later: other weights with each part, the same for any number of replicas, with
// steps of fewer micro-batches, and much is learned where hardly anything counts. Without the rest it would be less.
static void the_largest_are_the_same_for_all(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.limit_train = 300, c.micro_batch = 8, c.replicas = 1, c.compress = "topk:1";
    ls_train_result exact = train(f, &c);
    c.compress = "none";
    assert_string_equal(train(f, &c).weights_digest, exact.weights_digest);
    c.compress = "topk";
    ls_train_result one = train(f, &c);
    c.compress = "topk:0.01";
    assert_string_not_equal(one.weights_digest, exact.weights_digest);
    for (c.replicas = 2; c.replicas <= 4; c.replicas++) {
        c.strategy = c.replicas % 2 ? "mirrored" : "allreduce", c.bucket_size = c.replicas > 3 ? 0.07 : 0;
        assert_string_equal(one.weights_digest, train(f, &c).weights_digest);
    }
    c = small();
    c.limit_train = 6000, c.epochs = 3, c.compress = "topk:0.001";
    ls_train_result r = train(f, &c);
    assert_true(r.train_accuracy > 0.7 && r.test_accuracy > 0.7 && r.test_loss < 1);
}

static void weights_go_in_and_out(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_trainer *t;
    float *in = malloc(10 * sizeof *in), *out = calloc(10, sizeof *out);
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    for (int i = 0; i < 10; i++) in[i] = (float)i / 3;
    const char *bias = NULL;
    for (int n = 1; n < 4; n++) {  // the last layer's, whatever the model calls it
        char name[32];
        snprintf(name, sizeof name, n == 1 ? "dense/bias" : "dense_%d/bias", n - 1);
        if (ls_trainer_get_weights(t, name, out, 10) == LS_OK)
            bias = strcmp(name, "dense/bias") == 0 ? "dense/bias" : n == 2 ? "dense_1/bias" : "dense_2/bias";
    }
    assert_non_null(bias);
    OK(ls_trainer_set_weights(t, bias, in, 10));
    OK(ls_trainer_get_weights(t, bias, out, 10));
    assert_memory_equal(in, out, 10 * sizeof *in);
    assert_int_equal(ls_trainer_get_weights(t, bias, out, 9), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_trainer_get_weights(t, "conv9/kernel", out, 9), LS_STATUS_NOT_FOUND);
    free(in);
    free(out);
    ls_trainer_destroy(&t);
}

// The rate of the first epoch's last step.
static double rate_of(fixture *f, int64_t batch, int64_t micro_batch, int64_t base) {
    ls_train_config c = small();
    c.epochs = 1, c.limit_train = 2 * batch, c.batch_size = batch, c.micro_batch = micro_batch;
    c.lr = 0.01, c.lr_scaling = "linear", c.lr_base_batch = base, c.evaluate = 0;
    ls_trainer *t;
    ls_train_result r;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_result(t, &r));
    double rate = r.epoch[0].learning_rate;
    ls_trainer_destroy(&t);
    return rate;
}

// A rate that grows with the batch, whatever micro-batches it is cut into: once it was multiplied by their number, which is 8 for
// most batches.
static void linear_scaling_goes_by_the_batch(void **state) {
    static const int64_t batches[] = {64, 128, 256, 512, 1024};
    ls_train_config c;
    ls_train_config_init(&c);
    assert_int_equal(c.lr_base_batch,
                     c.batch_size);  // what --lr is without scaling is what it is at the default batch with it
    for (int i = 0; i < 5; i++) {
        double expected = 0.01 * (double)batches[i] / 128;
        assert_true(fabs(rate_of(*state, batches[i], 0, 128) - expected) < 1e-12);
        assert_true(fabs(rate_of(*state, batches[i], 16, 128) - expected) < 1e-12);
        assert_true(fabs(rate_of(*state, batches[i], 0, 256) - expected / 2) < 1e-12);
    }
}

static void seeds_and_recipes_change_the_bits(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    ls_train_result first = train(f, &c), again = train(f, &c);
    assert_string_equal(first.weights_digest, again.weights_digest);
    c.seed = 7;
    assert_string_not_equal(first.weights_digest, train(f, &c).weights_digest);
    c = small(), c.shuffle = 0;
    assert_string_not_equal(first.weights_digest, train(f, &c).weights_digest);
    c = small(), c.schedule = "cosine";
    assert_string_not_equal(first.weights_digest, train(f, &c).weights_digest);
    c = small(), c.warmup_epochs = 1, c.lr_scaling = "linear";
    ls_train_result gradual = train(f, &c);
    assert_string_not_equal(first.weights_digest, gradual.weights_digest);
    c.warmup = "constant";
    assert_string_not_equal(gradual.weights_digest, train(f, &c).weights_digest);
    c = small(), c.optimizer = "sgd", c.momentum = 0.9, c.schedule = "one-cycle";
    ls_train_result plain = train(f, &c);
    c.momentum_correction = 1;
    assert_string_not_equal(plain.weights_digest, train(f, &c).weights_digest);
    c.schedule = "constant";  // nothing to correct
    ls_train_result steady = train(f, &c);
    c.momentum_correction = 0;
    assert_string_equal(steady.weights_digest, train(f, &c).weights_digest);
    c = small(), c.decay_biases = 0;  // adam has no decay
    assert_string_equal(first.weights_digest, train(f, &c).weights_digest);
    c.weight_decay = 0.1;
    ls_train_result kernels = train(f, &c);
    c.replicas = 3, c.strategy = "reduce-broadcast";
    assert_string_equal(kernels.weights_digest, train(f, &c).weights_digest);
    c.decay_biases = 1;
    assert_string_not_equal(kernels.weights_digest, train(f, &c).weights_digest);
    // Coupled decay: the same for any number of replicas, kernels alone or all, and no part of the loss.
    const char *const optimizers[] = {"adam", "sgd", "lamb"};
    for (int i = 0; i < 3; i++) {
        c = small(), c.optimizer = optimizers[i], c.clip_norm = i ? 0.5 : 0;
        ls_train_result none = train(f, &c);
        c.l2 = 0.05;
        ls_train_result all = train(f, &c);
        assert_true(all.l2 == 0.05 && all.weight_decay == 0 && none.l2 == 0);
        assert_string_equal(all.weight_decay_form, i < 2 ? "decoupled" : "as in LAMB");
        c.decay_biases = 0;
        ls_train_result kernels_only = train(f, &c);
        assert_string_not_equal(none.weights_digest, all.weights_digest);
        assert_string_not_equal(none.weights_digest, kernels_only.weights_digest);
        assert_string_not_equal(all.weights_digest, kernels_only.weights_digest);
        c.replicas = 3, c.strategy = "reduce-broadcast";
        assert_string_equal(kernels_only.weights_digest, train(f, &c).weights_digest);
        c.lr = 0;
        double with = train(f, &c).train_loss;
        c.l2 = 0;
        assert_true(with == train(f, &c).train_loss);
    }
    c = small(), c.clip_norm = 0.5;
    ls_train_result clipped = train(f, &c);
    assert_string_not_equal(first.weights_digest, clipped.weights_digest);
    c.strategy = "reduce-broadcast", c.replicas = 2;
    assert_string_equal(clipped.weights_digest, train(f, &c).weights_digest);
    c = small(), c.label_smoothing = 0.1;
    ls_train_result smooth = train(f, &c);
    assert_string_not_equal(first.weights_digest, smooth.weights_digest);
    c.strategy = "reduce-broadcast", c.replicas = 2;
    assert_string_equal(smooth.weights_digest, train(f, &c).weights_digest);
    c = small(), c.strategy = "reduce-broadcast", c.replicas = 2;
    assert_string_equal(first.weights_digest, train(f, &c).weights_digest);
}

static void layerwise_optimizers_learn(void **state) {
    fixture *f = *state;
    static const struct {
        const char *optimizer;
        double lr, trust_coefficient, weight_decay;
    } cases[] = {{"lars", 0.3, 0.01, 1e-4}, {"lars", -1, -1, -1}, {"lamb", 0.01, -1, 0.01}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_train_config c = small();
        c.limit_train = 4000, c.epochs = 3, c.decay_biases = 0, c.optimizer = cases[i].optimizer, c.lr = cases[i].lr;
        c.trust_coefficient = cases[i].trust_coefficient, c.weight_decay = cases[i].weight_decay;
        c.replicas = 1;
        ls_train_result r = train(f, &c);
        if (!(r.test_accuracy > 0.7)) fail_msg("%s, case %zu: test accuracy %g", c.optimizer, i, r.test_accuracy);
        c.replicas = 3, c.strategy = "reduce-broadcast";
        assert_string_equal(r.weights_digest, train(f, &c).weights_digest);
    }
}

static void smoothed_labels_are_for_training_only(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.epochs = 1, c.lr = 0;  // the weights stay as they are
    ls_train_result sharp = train(f, &c);
    c.label_smoothing = 0.5;
    ls_train_result smooth = train(f, &c);
    assert_string_equal(sharp.weights_digest, smooth.weights_digest);
    assert_true(sharp.train_loss != smooth.train_loss);
    assert_true(sharp.test_loss == smooth.test_loss && sharp.train_accuracy == smooth.train_accuracy);
}

// At another size, the same bits for any number of replicas; what is random about training images is not in the test images.
static void images_are_resized_augmented_and_normalized(void **state) {
    fixture *f = *state, other = *f;
    ls_train_config c = small();
    ls_train_result plain = train(f, &c);
    assert_true(ls_shape_equal(plain.image, LS_SHAPE(28, 28, 1)) && !plain.channel_mean && !plain.channel_deviation);
    c.image_size = 20;
    ls_shape image = ls_train_image_shape(&c, ls_dataset_image_shape(f->dataset));
    assert_true(ls_shape_equal(image, LS_SHAPE(20, 20, 1)));
    OK(ls_model_create("mnist-mlp", image, 10, &other.graph));
    c.augment = "flip,crop,cutout", c.normalize = "dataset", c.replicas = 1;
    ls_train_result one = train(&other, &c);
    assert_true(ls_shape_equal(one.image, image) && one.train_accuracy > 0.2);
    c.replicas = 3;
    assert_string_equal(one.weights_digest, train(&other, &c).weights_digest);
    c.seed = 43;
    assert_string_not_equal(one.weights_digest, train(&other, &c).weights_digest);
    ls_graph_destroy(&other.graph);

    c = small(), c.epochs = 1, c.lr = 0;  // the weights stay as they are
    plain = train(f, &c);
    c.augment = "resized-crop";
    ls_train_result cut = train(f, &c);
    assert_true(cut.train_loss != plain.train_loss && cut.test_loss == plain.test_loss);
    c.augment = "none", c.normalize = "symmetric";
    ls_train_result symmetric = train(f, &c);
    assert_true(symmetric.train_loss != plain.train_loss && symmetric.test_loss != plain.test_loss);
}

#define DIGITS_MEAN      0.11542966970121382  // of all its bytes, summed in long double
#define DIGITS_DEVIATION 0.2590525337713184

// The numbers belong to the whole training set, whatever is used of it.
static void normalization_is_measured_and_reported(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.normalize = "dataset";
    for (int n = 0; n < 2; n++, c.limit_train = 64) {
        ls_trainer *t;
        ls_train_result r;
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
        OK(ls_trainer_result(t, &r));
        assert_non_null(r.channel_mean);
        assert_true(fabs(r.channel_mean[0] - DIGITS_MEAN) < 1e-12);
        assert_true(fabs(r.channel_deviation[0] - DIGITS_DEVIATION) < 1e-12);
        ls_trainer_destroy(&t);
    }
}

// One step of plain sgd at rate 1 moves the weights by the gradient. Returns the distance.
static double step_length(fixture *f, double clip_norm) {
    static const char *const names[] = {"dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"};
    static const int64_t counts[] = {784 * 128, 128, 1280, 10};
    static float before[4][784 * 128], after[784 * 128];
    ls_train_config c = small();
    c.epochs = 1, c.limit_train = 64, c.optimizer = "sgd", c.lr = 1, c.replicas = 2, c.clip_norm = clip_norm;
    ls_trainer *t;
    double sum = 0;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
    for (int i = 0; i < 4; i++) OK(ls_trainer_get_weights(t, names[i], before[i], counts[i]));
    OK(ls_trainer_fit(t, NULL));
    for (int i = 0; i < 4; i++) {
        OK(ls_trainer_get_weights(t, names[i], after, counts[i]));
        for (int64_t k = 0; k < counts[i]; k++) sum += pow((double)after[k] - before[i][k], 2);
    }
    ls_trainer_destroy(&t);
    return sqrt(sum);
}

static void clipped_steps_are_as_long_as_they_may_be(void **state) {
    fixture *f = *state;
    double whole = step_length(f, 0);
    assert_true(whole > 0.2);
    assert_true(step_length(f, whole * 1.001) == whole);
    // Weights of 0.05 are rounded to 2^-29, a hundred thousand of them: 1e-6 together.
    assert_true(fabs(step_length(f, 0.125) - 0.125) < 1e-5);
}

static void refused(fixture *f, const ls_train_config *c, const char *word) {
    ls_trainer *t = NULL;
    assert_int_not_equal(ls_trainer_create(f->context, f->graph, f->dataset, c, &t), LS_OK);
    assert_null(t);
    if (!strstr(ls_error_message(), word)) fail_msg("'%s' does not speak of '%s'", ls_error_message(), word);
}

static void impossible_requests_are_refused(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.micro_batch = 65;
    refused(f, &c, "larger than the global batch");
    c = small(), c.replicas = 9, c.micro_batch = 8;
    refused(f, &c, "micro-batches");
    c = small(), c.precision = "fp64";
    refused(f, &c, "fp64");
    c = small(), c.strategy = "gossip";
    refused(f, &c, "gossip");
    c = small(), c.optimizer = "adamm";
    refused(f, &c, "adamm");
    c = small(), c.schedule = "zigzag";
    refused(f, &c, "zigzag");
    c = small(), c.device = "abacus";
    refused(f, &c, "abacus");
    c = small(), c.batch_size = 0;
    refused(f, &c, "batch");
    c = small(), c.lr_scaling = "cubic";
    refused(f, &c, "cubic");
    c = small(), c.lr_base_batch = 0;
    refused(f, &c, "the learning rate was chosen for is 0");
    c = small(), c.clip_norm = -1;
    refused(f, &c, "clip");
    c = small(), c.compress = "fp8";
    refused(f, &c, "unknown compression of gradients 'fp8': there are none, bf16 and topk");
    c = small(), c.compress = "topk:0";
    refused(f, &c, "a number above 0 and at most 1, as in topk:0.01, and not '0'");
    c.compress = "topk:1%";
    refused(f, &c, "and not '1%'");
    c.compress = "topk", c.strategy = "central";
    refused(f, &c, "the strategy central sends new weights, of which no part can be left out: choose allreduce");
    c.strategy = "allreduce", c.algorithm = "halving";
    refused(f, &c, "the algorithm halving sends new weights");
    c.strategy = "parameter-server", c.algorithm = "auto", c.async = 1;
    refused(f, &c, "what topk leaves over would be anybody's");
    c = small(), c.momentum = 0.9;
    refused(f, &c, "the optimizer adam has no momentum: leave it out, or choose one that has: sgd or lars");
    c = small(), c.nesterov = 1;
    refused(f, &c, "adam has no nesterov");
    c = small(), c.optimizer = "sgd", c.nesterov = 1;
    refused(f, &c, "nesterov is a form of momentum, and there is none");
    c = small(), c.optimizer = "sgd", c.beta2 = 0.9;
    refused(f, &c, "sgd has no beta2");
    c = small(), c.optimizer = "lamb", c.trust_coefficient = 0.1;
    refused(f, &c, "lamb has no trust-coefficient");
    c = small(), c.momentum_correction = 1;
    refused(f, &c, "no momentum in adam to correct");
    c = small(), c.schedule = "step", c.schedule_step_epochs = 0;
    refused(f, &c, "reduces the rate every 0 epochs: it takes a number above 0");
    c = small(), c.schedule = "step", c.schedule_steps = "2,1";
    refused(f, &c, "in ascending order");
    c = small(), c.schedule_steps = "1,2";
    refused(f, &c, "the epochs 1,2 to reduce the rate after are of the schedule 'step', and this one is 'constant'");
    c = small(), c.schedule = "cyclic", c.schedule_period_epochs = 0;
    refused(f, &c, "has a period of 0 epochs: it takes a number above 0");
    c = small(), c.optimizer = "lars", c.trust_coefficient = 0;
    refused(f, &c, "trust coefficient");
    c = small(), c.label_smoothing = 1;
    refused(f, &c, "label smoothing");
    c = small(), c.label_smoothing = NAN;
    refused(f, &c, "label smoothing");
    c = small(), c.warmup = "sudden";
    refused(f, &c, "sudden");
    c = small(), c.warmup = "constant", c.warmup_epochs = 1;
    refused(f, &c, "linear");
    c = small(), c.image_size = -1;
    refused(f, &c, "from 1 to 4096");
    c.image_size = 4097;
    refused(f, &c, "4097x4097");
    c.image_size = 20;
    refused(f, &c, "28x28x1, dataset digits is resized to 20x20x1");
    c.image_size = 6, c.augment = "crop";
    refused(f, &c, "6x6 pixels");
    c = small(), c.augment = "flip,blur";
    refused(f, &c, "'blur': there are none, flip, crop, resized-crop, random-crop, ");
    c = small(), c.augment = "crop,resized-crop";
    refused(f, &c, "name one");
    c = small(), c.replicas = -1;
    refused(f, &c, "-1 replicas");
    c = small(), c.micro_batch = -4;
    refused(f, &c, "the micro-batch is to hold -4 samples");
    c = small(), c.limit_train = -1;
    refused(f, &c, "only -1 samples were to be used");
    c = small(), c.limit_test = -2;
    refused(f, &c, "only -2 samples were to be used");
    c = small(), c.warmup_epochs = -1;
    refused(f, &c, "the warm-up takes -1 epochs");
    c = small(), c.strategy = NULL;
    refused(f, &c, "no strategy: call ls_train_config_init first");
    c = (ls_train_config){0};
    refused(f, &c, "no precision: call ls_train_config_init first");
    c = small(), c.normalize = "imagenet";
    refused(f, &c, "unit, symmetric, dataset and none");
    ls_graph *wide;
    OK(ls_model_create("mnist-mlp", LS_SHAPE(32, 32, 1), 10, &wide));
    ls_trainer *t = NULL;
    c = small();
    assert_int_equal(ls_trainer_create(f->context, wide, f->dataset, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "32x32x1"));
    ls_graph_destroy(&wide);

    ls_predictor *p;
    assert_int_equal(ls_trainer_create(f->context, f->graph, f->dataset, NULL, &t), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "without a configuration"));
    assert_int_equal(ls_predictor_create(NULL, &(ls_predict_config){.batch = 1}, &p), LS_STATUS_INVALID_ARGUMENT);
    assert_true(t == NULL && p == NULL);
}

// Scores are looked up by class numbers: none may come that there is no score for.
static void class_numbers_without_a_score_are_refused(void **state) {
    fixture *f = *state;
    static int32_t kinds[4] = {0, 1, 1 << 20, -1};
    static float values[4][3];
    const ls_field fields[] = {{"image", LS_SHAPE(3), LS_DTYPE_F32, 0}, {"kind", {0}, LS_DTYPE_I32, 0}};
    ls_arrays_config arrays = {.fields = fields, .field_count = 2, .train = {.count = 4, .field = {values, kinds}}};
    ls_dataset *data;
    OK(ls_dataset_create_arrays(f->context, &arrays, &data));
    ls_graph *g;
    OK(ls_graph_create("kinds", LS_SHAPE(3), &g));
    ls_value x = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = 4});
    ls_value kind = ls_graph_add_input(g, "kind", (ls_shape){0}, LS_DTYPE_I32);
    ls_softmax_cross_entropy(g, x, kind, NULL);
    ls_top_k_accuracy(g, x, kind, &(ls_metric_attrs){.k = 2});
    OK(ls_graph_finish(g, x));
    ls_train_config c = small();
    ls_trainer *t;
    c.batch_size = 4;
    assert_int_equal(ls_trainer_create(f->context, g, data, &c, &t), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "field \"kind\" of the dataset arrays does not say how many"));
    ls_predict_config how;
    ls_predict_config_init(&how);
    ls_predictor *p;
    OK(ls_predictor_create(g, &how, &p));
    const void *inputs[] = {values, kinds};
    double loss;
    OK(ls_predictor_evaluate(p, 2, inputs, &loss, NULL, NULL));
    assert_int_equal(ls_predictor_evaluate(p, 4, inputs, &loss, NULL, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "sample 2: input \"kind\" of model kinds is class 1048576"));
    inputs[1] = kinds + 3;
    assert_int_equal(ls_predictor_evaluate(p, 1, inputs, &loss, NULL, NULL), LS_STATUS_INVALID_ARGUMENT);
    ls_predictor_destroy(&p);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

// Of a sequence each position has one.
static void class_numbers_of_sequences_are_refused(void **state) {
    enum { SAMPLES = 3, LENGTH = 4 };
    static float values[SAMPLES][LENGTH][2];
    int32_t kinds[SAMPLES][LENGTH] = {{0, 4, 1}, {3, 2}};
    ls_graph *g;
    OK(ls_graph_create("words", LS_SHAPE(LENGTH, 2), &g));
    ls_value x = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = 5});
    ls_softmax_cross_entropy(g, x, ls_graph_add_input(g, "kinds", LS_SHAPE(LENGTH), LS_DTYPE_I32), NULL);
    OK(ls_graph_finish(g, x));
    ls_predict_config how;
    ls_predict_config_init(&how);
    ls_predictor *p;
    OK(ls_predictor_create(g, &how, &p));
    const void *inputs[] = {values, kinds};
    double loss;
    OK(ls_predictor_evaluate(p, SAMPLES, inputs, &loss, NULL, NULL));
    kinds[2][3] = 1 << 20;
    assert_int_equal(ls_predictor_evaluate(p, SAMPLES, inputs, &loss, NULL, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "sample 2: input \"kinds\" of model words is class 1048576, but its"));
    kinds[2][3] = 0, kinds[0][3] = -1;
    assert_int_equal(ls_predictor_evaluate(p, SAMPLES, inputs, &loss, NULL, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "sample 0: input \"kinds\" of model words is class -1, but its"));
    ls_predictor_destroy(&p);
    ls_graph_destroy(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_learns_and_reports),
        cmocka_unit_test(phases_add_up_to_the_epoch),
        cmocka_unit_test(every_sample_counts_once_whatever_the_cut),
        cmocka_unit_test(buckets_do_not_show),
        cmocka_unit_test(strategies_do_not_show),
        cmocka_unit_test(compression_is_the_same_for_all),
        cmocka_unit_test(the_largest_are_the_same_for_all),
        cmocka_unit_test(weights_go_in_and_out),
        cmocka_unit_test(linear_scaling_goes_by_the_batch),
        cmocka_unit_test(seeds_and_recipes_change_the_bits),
        cmocka_unit_test(layerwise_optimizers_learn),
        cmocka_unit_test(smoothed_labels_are_for_training_only),
        cmocka_unit_test(images_are_resized_augmented_and_normalized),
        cmocka_unit_test(normalization_is_measured_and_reported),
        cmocka_unit_test(clipped_steps_are_as_long_as_they_may_be),
        cmocka_unit_test(impossible_requests_are_refused),
        cmocka_unit_test(class_numbers_without_a_score_are_refused),
        cmocka_unit_test(class_numbers_of_sequences_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
