// Loss scaling: a number changes no bit in fp32, on any device and with every strategy; a dynamic one is halved and doubled, the same for any number of
// workers and across checkpoints; fp16 loses gradients without it, and not with it; what does not go together is refused.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/checkpoint.h>
#include <lockstep/lockstep.h>

#include "train/context.h"
#include "worker_check.h"

enum { SAMPLES = 48, BATCH = 12, STEPS = SAMPLES / BATCH };

static char folder[40];

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    const char *device, *precision;
    int replicas;
} job;

typedef struct outcome {
    char digest[65];
    double loss, scale;
    int64_t skipped;
} outcome;

static ls_status read_sample(void *user, int64_t sample, void *const *fields) {
    float *image = fields[0];
    const int *broken = user;  // 1: no sample is a number
    for (int i = 0; i < 64; i++) image[i] = *broken ? NAN : (float)((sample * 37 + i * 11) % 17) / 17.0f;
    *(uint8_t *)fields[1] = (uint8_t)(sample % 3);
    return LS_OK;
}

static int sound = 0, unsound = 1;

static ls_dataset *new_data(job *j, int *broken) {
    static const ls_field fields[] = {{.name = "image", .shape = {3, {8, 8, 1}}, .dtype = LS_DTYPE_F32},
                                      {.name = "label", .dtype = LS_DTYPE_U8, .classes = 3}};
    ls_dataset *data;
    ls_callback_config c = {.fields = fields, .field_count = 2, .train = {SAMPLES, read_sample, broken}};
    CHECK_OK(j->comm, ls_dataset_create_callback(j->context, &c, &data));
    return data;
}

// Statistics of a batch normalization are no gradients, and are not scaled. `weight`: of the loss, 0: 1. The ReLU makes 0 of what is no number, so
// that the loss stays finite.
static ls_graph *new_graph(job *j, double weight) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("tiny", LS_SHAPE(8, 8, 1), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){0});
    x = ls_dense(g, ls_flatten(g, x, NULL),
                 &(ls_dense_attrs){.name = "middle", .units = 6, .activation = LS_ACTIVATION_RELU});
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = 3});
    if (weight > 0) {
        ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
        ls_softmax_cross_entropy(g, x, label, &(ls_loss_attrs){.name = "loss", .weight = weight});
    }
    CHECK_OK(j->comm, ls_graph_finish(g, x));
    return g;
}

static ls_train_config recipe(job *j, const char *scale) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = j->device, c.precision = j->precision, c.loss_scale = scale;
    c.batch_size = BATCH, c.micro_batch = 1, c.epochs = 3, c.replicas = j->replicas, c.bind = 0, c.evaluate = 0;
    return c;
}

static outcome result_of(job *j, ls_trainer *t) {
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    outcome o = {.loss = r.train_loss, .scale = r.loss_scale};
    for (int e = 0; e < r.epochs; e++) o.skipped += r.epoch[e].skipped;
    memcpy(o.digest, r.weights_digest, sizeof o.digest);
    return o;
}

static int same(const outcome *a, const outcome *b) {
    return strlen(a->digest) == 64 && strcmp(a->digest, b->digest) == 0 && a->loss == b->loss &&
           a->skipped == b->skipped;
}

static outcome train(job *j, const ls_train_config *c) {
    ls_dataset *data = new_data(j, &sound);
    ls_graph *g = new_graph(j, 0);
    ls_trainer *t;
    CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, c, &t));
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    outcome o = result_of(j, t);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
    return o;
}

// The same by one worker alone.
static outcome train_alone(job *j, const ls_train_config *c) {
    job alone = *j;
    CHECK_OK(j->comm, ls_context_create_alone(&alone.context));
    alone.comm = alone.context->comm;
    outcome o = train(&alone, c);
    ls_context_destroy(&alone.context);
    return o;
}

// A power of two rounds nothing: neither in sums nor in means, norms, updates or what top-k leaves over.
static void a_number_changes_no_bit(job *j) {
    static const struct {
        const char *strategy, *optimizer, *compress;
        double clip;
    } ways[] = {{"allreduce", "adam", "none", 0},
                {"reduce-broadcast", "sgd", "bf16", 0},
                {"tree", "lamb", "none", 0.5},
                {"parameter-server", "adamw", "bf16", 0},
                {"central", "lars", "none", 0},
                {"allreduce", "sgd", "topk:0.1", 0.1},
                {"reduce-broadcast", "lars", "none", 0.2}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ls_train_config plain = recipe(j, NULL), scaled = recipe(j, i % 2 ? "16777216" : "4096");
        ls_train_config *both[] = {&plain, &scaled};
        for (int k = 0; k < 2; k++) {
            both[k]->strategy = ways[i].strategy, both[k]->optimizer = ways[i].optimizer;
            both[k]->compress = ways[i].compress, both[k]->clip_norm = ways[i].clip, both[k]->epochs = 2;
            both[k]->bucket_size = 0.001;
        }
        outcome without = train(j, &plain), with = train(j, &scaled);
        CHECK(j->comm, same(&without, &with));
        CHECK(j->comm, without.scale == 1 && with.scale == (i % 2 ? 16777216 : 4096));
        if (j->replicas > 1) continue;
        scaled.loss_scale = "dynamic:1024", scaled.loss_scale_steps = 4;  // which no gradient in fp32 is too large for
        with = train(j, &scaled);
        CHECK(j->comm, same(&without, &with) && with.scale == 4096);
    }
}

// From a scale that is far too large: halved with each step that is left out, doubled after three that are not, and no more than that.
static void it_falls_and_rises(job *j) {
    ls_train_config c = recipe(j, "dynamic:16777216");
    c.loss_scale_steps = 3, c.epochs = 6;
    ls_dataset *data = new_data(j, &sound);
    ls_graph *g = new_graph(j, 0);
    ls_trainer *t;
    ls_epoch_result e;
    double scale = 16777216;
    int64_t taken = 0, halved = 0, doubled = 0, skipped = 0;
    CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, &c, &t));
    for (int epoch = 0; epoch < c.epochs; epoch++) {
        CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
        while (ls_trainer_steps_left(t) > 0) {
            ls_train_result before, after;
            CHECK_OK(j->comm, ls_trainer_result(t, &before));
            CHECK_OK(j->comm, ls_trainer_step(t, NULL));
            CHECK_OK(j->comm, ls_trainer_result(t, &after));
            CHECK(j->comm, before.loss_scale == scale && after.loss_scale_dynamic);
            int left_out = strcmp(before.weights_digest, after.weights_digest) == 0;
            taken = left_out ? 0 : taken + 1;
            halved += left_out;
            if (left_out) scale /= 2;
            if (taken == 3) scale *= 2, taken = 0, doubled++;
            CHECK(j->comm, after.loss_scale == scale);
        }
        CHECK_OK(j->comm, ls_trainer_end_epoch(t, &e));
        CHECK(j->comm, e.loss_scale == scale);
        skipped += e.skipped;
    }
    CHECK(j->comm, halved >= 8 && doubled >= 2 && skipped == halved && isfinite(e.loss));
    outcome stepped = result_of(j, t), whole = train(j, &c), alone = train_alone(j, &c);
    CHECK(j->comm, same(&stepped, &whole) && same(&alone, &whole) && whole.scale == scale && alone.scale == scale);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

// With every strategy, in the precision's own way.
static void workers_do_not_show(job *j) {
    static const char *const strategies[] = {"allreduce", "reduce-broadcast", "tree", "parameter-server", "central"};
    for (int i = 0; i < 5; i++) {
        ls_train_config c = recipe(j, NULL);
        c.strategy = strategies[i], c.bucket_size = 0.001;
        if (i == 1) c.loss_scale = "256";
        if (i == 2) c.loss_scale = "1";
        outcome one = train_alone(j, &c), all = train(j, &c);
        CHECK(j->comm, same(&one, &all) && one.scale == all.scale);
    }
}

// Left in the middle of falling, and gone on with: the scale, how long it has stood, and how many steps did not count.
static void a_checkpoint_knows_it(job *j) {
    ls_train_config c = recipe(j, "dynamic:16777216");
    c.loss_scale_steps = 4;
    outcome whole = train(j, &c);
    for (int after = 3; after < 3 * STEPS; after += 7) {
        ls_dataset *data = new_data(j, &sound);
        ls_graph *g = new_graph(j, 0);
        ls_trainer *t;
        ls_checkpoint_config to;
        ls_checkpoint *from = NULL;
        ls_checkpoint_config_init(&to);
        to.folder = folder;
        CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, &c, &t));
        CHECK_OK(j->comm, ls_trainer_checkpoints(t, &to));
        for (int step = 0; step < after; step++) {
            if (step % STEPS == 0) CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
            CHECK_OK(j->comm, ls_trainer_step(t, NULL));
            if (step % STEPS == STEPS - 1) CHECK_OK(j->comm, ls_trainer_end_epoch(t, NULL));
        }
        CHECK_OK(j->comm, ls_trainer_checkpoint_now(t));
        ls_trainer_destroy(&t);
        if (j->comm->rank == 0) CHECK_OK(j->comm, ls_checkpoint_find(folder, &from));
        CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, &c, &t));
        CHECK_OK(j->comm, ls_trainer_resume(t, from));
        ls_checkpoint_close(&from);
        CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
        outcome resumed = result_of(j, t);
        CHECK(j->comm, same(&whole, &resumed) && resumed.scale == whole.scale);
        ls_trainer_destroy(&t);
        ls_graph_destroy(&g);
        ls_dataset_destroy(&data);
        char command[64];
        snprintf(command, sizeof command, "rm -rf %s", folder);
        if (j->comm->rank == 0) CHECK(j->comm, system(command) == 0);
        CHECK_OK(j->comm, ls_comm_barrier(j->comm));
    }
}

enum { KERNEL = 6 * 3 };

// By how much one step of SGD at a rate of 1 moves the kernel of the head.
static void gradient_of(job *j, const char *precision, const char *scale, float *moved) {
    ls_train_config c = recipe(j, scale);
    c.precision = precision, c.optimizer = "sgd", c.lr = 1 << 23, c.momentum = 0;
    ls_dataset *data = new_data(j, &sound);
    ls_graph *g = new_graph(j, 0x1p-23);
    ls_trainer *t;
    float before[KERNEL];
    CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, &c, &t));
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "head/kernel", before, KERNEL));
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    CHECK_OK(j->comm, ls_trainer_step(t, NULL));
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "head/kernel", moved, KERNEL));
    for (int i = 0; i < KERNEL; i++) moved[i] -= before[i];
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

static double apart(const float *a, const float *b) {
    double difference = 0, norm = 0;
    for (int i = 0; i < KERNEL; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(difference / norm);
}

// A loss whose gradients lie among the last numbers of fp16.
static void small_gradients_are_kept(job *j) {
    float wide[KERNEL], lost[KERNEL], kept[KERNEL], dynamic[KERNEL];
    gradient_of(j, "fp32", NULL, wide);
    gradient_of(j, "fp16", "1", lost);
    gradient_of(j, "fp16", "65536", kept);
    gradient_of(j, "fp16", NULL, dynamic);
    CHECK(j->comm, apart(lost, wide) > 0.03 && apart(kept, wide) < 0.01 && apart(dynamic, wide) < 0.01);
}

// Where no scale is small enough, it was not the scale: training ends, and says where.
static void what_no_scale_cures_is_told(job *j) {
    ls_train_config c = recipe(j, "dynamic:1");
    c.epochs = 8;
    ls_dataset *data = new_data(j, &unsound);
    ls_graph *g = new_graph(j, 0);
    ls_trainer *t;
    CHECK_OK(j->comm, ls_trainer_create(j->context, g, data, &c, &t));
    CHECK(j->comm, ls_trainer_fit(t, NULL) == LS_STATUS_DIVERGED);
    CHECK(j->comm, strstr(ls_error_message(), "training diverged: the weights after step 1 in epoch 7 are no finite"));
    outcome o = result_of(j, t);
    CHECK(j->comm, o.skipped == 24 && o.scale == 0x1p-24);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

static void refused(job *j, const ls_train_config *c, const char *words) {
    ls_dataset *data = new_data(j, &sound);
    ls_graph *g = new_graph(j, 0);
    ls_trainer *t;
    ls_status status = ls_trainer_create(j->context, g, data, c, &t);
    if (!strstr(ls_error_message(), words)) fprintf(stderr, "expected: %s\n", words);
    CHECK(j->comm, status == LS_STATUS_INVALID_ARGUMENT || status == LS_STATUS_UNSUPPORTED);
    CHECK(j->comm, strstr(ls_error_message(), words));
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

static void wrong_ones_are_refused(job *j) {
    static const char *const bad[] = {"",    "0",  "3",        "-2",       "0.5",       "33554432", "1e300",
                                      "nan", "2x", "dynamics", "dynamic:", "dynamic:7", "auto"};
    ls_train_config c;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        c = recipe(j, bad[i]);
        refused(j, &c, "a loss scale is a power of two from 1 to 16777216, or dynamic, or dynamic:N");
    }
    c = recipe(j, "dynamic");
    c.loss_scale_steps = 0;
    refused(j, &c, "was to be doubled after 0 steps: give it 1 at least");
    c = recipe(j, "dynamic"), c.lookahead = 5;
    refused(j, &c, "lookahead does not go together with a dynamic loss scale");
    c = recipe(j, "64"), c.strategy = "parameter-server", c.async = 1;
    refused(j, &c, "loss scaling goes with steps that all workers take together");
    c = recipe(j, NULL), c.precision = "fp16", c.strategy = "parameter-server", c.async = 1;
    refused(j, &c, "fp16, with its dynamic loss scale, goes with steps that all workers take together");
}

static void test_hosts(ls_context *context) {
    static const struct {
        const char *device, *precision;
        int replicas;
    } kinds[] = {{"ref", "fp16", 1}, {"ref", "fp32", 1}, {"cpu", "fp32", 2}, {"late", "fp32", 1}, {"late", "fp16", 2}};
    for (int d = 0; d < 5; d++) {
        job j = {context, context->comm, kinds[d].device, kinds[d].precision, kinds[d].replicas};
        int half = strcmp(kinds[d].precision, "fp16") == 0;
        if (half) it_falls_and_rises(&j);
        if (half) workers_do_not_show(&j);
        if (half) a_checkpoint_knows_it(&j);
        if (half) small_gradients_are_kept(&j);
        if (!half) a_number_changes_no_bit(&j);
        if (d == 1) what_no_scale_cures_is_told(&j);
        if (d == 1) wrong_ones_are_refused(&j);
    }
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    snprintf(folder, sizeof folder, "lockstep-loss-scale-%d", world->comm->size);
    test_hosts(world);
    if (world->comm->size > 1) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        test_hosts(context);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
