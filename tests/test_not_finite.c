// Numbers that are none any more, on any number of workers and hosts: where they come from is said alike by all, steps that are left out
// change nothing, and what is not asked for costs no bit.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/checkpoint.h>
#include <lockstep/lockstep.h>

#include "data/exclude.h"
#include "train/context.h"
#include "worker_check.h"

enum { SAMPLES = 48, BAD = 21, BATCH = 8 };

static char folder[32], weights[48];

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_graph *graph;
    const char *device, *precision, *folder, *weights;
    int replicas, first;
} job;

typedef struct bad_sample {
    int64_t index;  // -1: there is none
    float value;
} bad_sample;
static bad_sample bad_one = {BAD, NAN}, bad_other = {BAD, -INFINITY}, none = {-1, 0};

// A number for each sample and element; of one sample there is one that is none, where that is asked for.
static ls_status read_sample(void *user, int64_t sample, void *const *fields) {
    float *image = fields[0];
    const bad_sample *bad = user;
    for (int i = 0; i < 64; i++) image[i] = (float)((sample * 37 + i * 11) % 17) / 17.0f;
    if (sample == bad->index) image[5] = bad->value;
    *(uint8_t *)fields[1] = (uint8_t)(sample % 3);
    return LS_OK;
}

static ls_dataset *new_data(job *j, bad_sample *bad) {
    static const ls_field fields[] = {{.name = "image", .shape = {3, {8, 8, 1}}, .dtype = LS_DTYPE_F32},
                                      {.name = "label", .dtype = LS_DTYPE_U8, .classes = 3}};
    ls_dataset *data;
    ls_callback_config c = {.fields = fields, .field_count = 2, .train = {SAMPLES, read_sample, bad}};
    CHECK_OK(j->comm, ls_dataset_create_callback(j->context, &c, &data));
    return data;
}

// A ReLU makes 0 of what is no number, as the hardware's maximum does, so that the loss stays finite behind it.
static ls_graph *new_graph(job *j, ls_activation activation) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("tiny", LS_SHAPE(8, 8, 1), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){0});
    x = ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.name = "middle", .units = 6, .activation = activation});
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = 3})));
    return g;
}

static ls_train_config recipe(job *j, const char *policy) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = j->device, c.precision = j->precision, c.not_finite = policy;
    c.batch_size = BATCH, c.micro_batch = 1, c.epochs = 2, c.replicas = j->replicas, c.bind = 0, c.evaluate = 0,
    c.shuffle = 0;
    return c;
}

static ls_trainer *new_trainer(job *j, ls_dataset *data, const ls_train_config *c) {
    ls_trainer *t;
    CHECK_OK(j->comm, ls_trainer_create(j->context, j->graph, data, c, &t));
    return t;
}

static void says(job *j, const char *words) {
    if (!strstr(ls_error_message(), words)) fprintf(stderr, "expected: %s\n", words);
    CHECK(j->comm, strstr(ls_error_message(), words));
}

// A sample that holds what is no number: the step, the layer and the sample, on every worker.
static void bad_data_is_named(job *j) {
    static const uint32_t gone[] = {2, 30};
    ls_train_config c = recipe(j, "stop");
    // Where some are left out its number is the one that it had.
    ls_dataset *data = new_data(j, &bad_one);
    CHECK_OK(j->comm, ls_source_create_without(data->train, gone, 2, &data->train));
    ls_trainer *t = new_trainer(j, data, &c);
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    says(j, "The first such number was in the data: sample 21, fed to layer ");
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    data = new_data(j, &bad_one);
    t = new_trainer(j, data, &c);
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    says(j, "the loss of step 3 in epoch 1 is no finite number any more");
    says(j, "The first such number was in the data: sample 21, fed to layer ");
    CHECK(j->comm, strstr(ls_trainer_not_finite(t), "in the data: sample 21") != NULL);
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
}

// Behind a ReLU the loss knows nothing of it: the gradient does, in the same step.
static void a_gradient_is_caught(job *j) {
    job swallows = *j;
    swallows.graph = new_graph(j, LS_ACTIVATION_RELU);
    ls_dataset *data = new_data(j, &bad_one);
    ls_train_config c = recipe(j, "stop");
    ls_trainer *t = new_trainer(&swallows, data, &c);
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    says(j, "the weights after step 3 in epoch 1 are no finite numbers any more");
    says(j, "The first such number was in the weights ");
    says(j, ", as the update of that step made them of finite ones");
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    ls_graph_destroy(&swallows.graph);
}

// Weights that are finite, and an output that is not.
static void the_layer_is_named(job *j) {
    ls_dataset *data = new_data(j, &none);
    ls_train_config c = recipe(j, "stop");
    ls_trainer *t = new_trainer(j, data, &c);
    float huge[18];
    for (int i = 0; i < 18; i++) huge[i] = 3e38f;
    CHECK_OK(j->comm, ls_trainer_set_weights(t, "head/kernel", huge, 18));
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    says(j, "the loss of step 1 in epoch 1");
    says(j, "in what layer head made, of finite inputs and weights, of sample");
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
}

// What training with a recipe ends with.
typedef struct outcome {
    char digest[65];
    double loss;
    int64_t skipped;
} outcome;

static outcome train(job *j, bad_sample *bad, const ls_train_config *c) {
    ls_dataset *data = new_data(j, bad);
    ls_trainer *t = new_trainer(j, data, c);
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    outcome o = {.loss = r.train_loss, .skipped = r.epoch[0].skipped + r.epoch[1].skipped};
    memcpy(o.digest, r.weights_digest, sizeof o.digest);
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    return o;
}

// The same by one worker alone.
static outcome train_alone(job *j, bad_sample *bad, const ls_train_config *c) {
    job alone = *j;
    CHECK_OK(j->comm, ls_context_create_alone(&alone.context));
    alone.comm = alone.context->comm;
    outcome o = train(&alone, bad, c);
    ls_context_destroy(&alone.context);
    return o;
}

static void steps_are_left_out(job *j) {
    static const char *const strategies[] = {"allreduce", "reduce-broadcast", "tree", "parameter-server", "central"};
    for (int i = j->first; i < 15; i += 3) {  // the three devices share them
        ls_train_config skip = recipe(j, "skip"), stop = recipe(j, "stop");
        skip.strategy = stop.strategy = strategies[i % 5];
        skip.clip_norm = stop.clip_norm = i / 5 == 1 ? 0.5 : 0;
        skip.optimizer = stop.optimizer = i / 5 == 2 ? "lamb" : "adam";
        skip.bucket_size = stop.bucket_size = 0.001;
        // With a bad sample: the same for any number of workers, two steps left out, all of it finite.
        outcome one = train_alone(j, &bad_one, &skip), all = train(j, &bad_one, &skip);
        CHECK(j->comm, one.skipped == 2 && all.skipped == 2);
        CHECK(j->comm, strlen(all.digest) == 64 && strcmp(one.digest, all.digest) == 0);
        CHECK(j->comm, isfinite(all.loss) && all.loss == one.loss);
        // Without: as if nothing had been asked for.
        one = train(j, &none, &stop), all = train(j, &none, &skip);
        CHECK(j->comm, strcmp(one.digest, all.digest) == 0 && one.loss == all.loss && all.skipped == 0);
    }
}

// What a step that was left out would have been given makes no difference: neither to weights nor to statistics, nor to the optimizer's state.
static void what_is_left_out_leaves_no_trace(job *j) {
    static const char *const optimizers[] = {"adam", "sgd", "lamb"};
    for (int i = 0; i < 3; i++) {
        ls_train_config c = recipe(j, "skip");
        c.optimizer = optimizers[i];
        if (i == 1) c.momentum = 0.9, c.momentum_correction = 1;
        outcome one = train(j, &bad_one, &c), other = train(j, &bad_other, &c), without = train(j, &none, &c);
        CHECK(j->comm, one.skipped == 2 && other.skipped == 2 && without.skipped == 0);
        CHECK(j->comm, strcmp(one.digest, other.digest) == 0 && one.loss == other.loss);
        CHECK(j->comm, strcmp(one.digest, without.digest) != 0);
    }
}

// After a failure weights may be set, and training goes on.
static void a_failure_is_forgotten(job *j) {
    ls_dataset *data = new_data(j, &none);
    ls_train_config c = recipe(j, "stop");
    c.optimizer = "sgd", c.epochs = 3;
    ls_trainer *t = new_trainer(j, data, &c);
    ls_epoch_result e;
    float huge[18], fine[18];
    for (int i = 0; i < 18; i++) huge[i] = 3e38f, fine[i] = 0.01f * (float)i;
    CHECK_OK(j->comm, ls_trainer_set_weights(t, "head/kernel", huge, 18));
    CHECK_OK(j->comm, ls_trainer_save_weights(t, j->weights));
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    CHECK_OK(j->comm, ls_trainer_load_weights(t, j->weights));
    CHECK_OK(j->comm, ls_trainer_set_weights(t, "head/kernel", fine, 18));
    for (int epoch = 0; epoch < 2; epoch++) {  // the one that was left, whose loss is lost, and the next
        CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
        while (ls_trainer_steps_left(t) > 0) CHECK_OK(j->comm, ls_trainer_step(t, NULL));
        CHECK_OK(j->comm, ls_trainer_end_epoch(t, &e));
    }
    CHECK(j->comm, e.epoch == 2 && isfinite(e.loss) && ls_trainer_not_finite(t)[0] == 0);
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
}

// Left in the middle of an epoch behind a step that was left out, and gone on with.
static void it_is_known_after_a_resume(job *j) {
    ls_train_config c = recipe(j, "skip");
    outcome whole = train(j, &bad_one, &c);
    ls_dataset *data = new_data(j, &bad_one);
    ls_trainer *t = new_trainer(j, data, &c);
    ls_checkpoint_config to;
    ls_checkpoint *from = NULL;
    ls_train_result r;
    ls_checkpoint_config_init(&to);
    to.folder = j->folder;
    CHECK_OK(j->comm, ls_trainer_checkpoints(t, &to));
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    for (int step = 0; step < 4; step++) CHECK_OK(j->comm, ls_trainer_step(t, NULL));
    CHECK_OK(j->comm, ls_trainer_checkpoint_now(t));
    ls_trainer_destroy(&t);
    if (j->comm->rank == 0) CHECK_OK(j->comm, ls_checkpoint_find(j->folder, &from));
    t = new_trainer(j, data, &c);
    CHECK_OK(j->comm, ls_trainer_resume(t, from));
    ls_checkpoint_close(&from);
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    CHECK(j->comm, strcmp(r.weights_digest, whole.digest) == 0 && r.train_loss == whole.loss);
    CHECK(j->comm, r.epoch[0].skipped == 1 && r.epoch[1].skipped == 1);
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", j->folder);
    if (j->comm->rank == 0) CHECK(j->comm, system(command) == 0);
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
}

// Where nothing is left, training does not go on for ever.
static void an_epoch_of_nothing_is_an_error(job *j) {
    ls_dataset *data = new_data(j, &none);
    ls_train_config c = recipe(j, "skip");
    ls_trainer *t = new_trainer(j, data, &c);
    float huge[18];
    for (int i = 0; i < 18; i++) huge[i] = 3e38f;
    CHECK_OK(j->comm, ls_trainer_set_weights(t, "head/kernel", huge, 18));
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    says(j,
         "each of the 6 steps of epoch 1 had a gradient that is not finite, and was left out. The first such number "
         "was in what "
         "layer head made");
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
}

static void nobody_minds(job *j) {
    ls_train_config c = recipe(j, "continue");
    outcome o = train(j, &bad_one, &c);
    CHECK(j->comm, o.digest[0] == 0 && !isfinite(o.loss) && o.skipped == 0);
    ls_dataset *data = new_data(j, &none);
    ls_trainer *t;
    c.not_finite = "whatever";
    CHECK(j->comm, ls_trainer_create(j->context, j->graph, data, &c, &t) == LS_STATUS_INVALID_ARGUMENT);
    says(j, "there are stop, skip and continue");
    ls_dataset_destroy(&data);
}

// Names of this job's own: others of this test run beside it.
static void name_files(int workers) {
    snprintf(folder, sizeof folder, "lockstep-not-finite-%d", workers);
    snprintf(weights, sizeof weights, "%s.safetensors", folder);
}

static void test_hosts(ls_context *context) {
    static const char *const devices[] = {"ref", "cpu", "late"};
    for (int d = 0; d < 3; d++) {
        int far = d == 2;  // whose numbers are not looked at before the step is over: they have no place
        job j = {.context = context,
                 .comm = context->comm,
                 .device = devices[d],
                 .precision = "fp32",
                 .replicas = 1 + d % 2,
                 .first = d};
        j.folder = folder, j.weights = weights;
        j.graph = new_graph(&j, LS_ACTIVATION_SIGMOID);
        a_gradient_is_caught(&j);
        if (!far) bad_data_is_named(&j);
        if (!far) the_layer_is_named(&j);
        steps_are_left_out(&j);
        what_is_left_out_leaves_no_trace(&j);
        if (!far) an_epoch_of_nothing_is_an_error(&j);
        nobody_minds(&j);
        a_failure_is_forgotten(&j);
        it_is_known_after_a_resume(&j);
        ls_graph_destroy(&j.graph);
    }
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    name_files(world->comm->size);
    test_hosts(world);
    if (world->comm->size > 1) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        test_hosts(context);
        ls_context_destroy(&context);
    }
    if (world->comm->rank == 0) remove(weights);
    ls_context_destroy(&world);
    return 0;
}
