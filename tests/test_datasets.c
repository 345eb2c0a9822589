// Datasets of a program, on any number of workers: the same bits from arrays, copies and functions; what differs between workers, and
// what fails in one of them, is told to all.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "train/context.h"
#include "worker_check.h"

enum { TRAIN = 96, TEST = 40, SIDE = 6, CLASSES = 1000 };

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_graph *graph;
    const char *augment;  // NULL: not at all
    uint8_t images[TRAIN + TEST][SIDE * SIDE];
    float scaled[TRAIN + TEST][SIDE * SIDE];  // pixel / 255
    int32_t labels[TRAIN + TEST];
} job;

static const ls_field fields[] = {{"image", {3, {SIDE, SIDE, 1}}, LS_DTYPE_U8, 0},
                                  {"label", {0}, LS_DTYPE_I32, CLASSES}};

static void fill(job *j) {
    for (int i = 0; i < TRAIN + TEST; i++) {
        j->labels[i] = i * 37 % CLASSES;
        for (int p = 0; p < SIDE * SIDE; p++) {
            j->images[i][p] = (uint8_t)((i * 7 + p) * 2654435761u >> 13);
            j->scaled[i][p] = (float)j->images[i][p] / 255.0f;
        }
    }
    CHECK_OK(j->comm, ls_graph_create("net", LS_SHAPE(SIDE, SIDE, 1), &j->graph));
    ls_value x = ls_flatten(j->graph, ls_graph_input(j->graph), NULL);
    CHECK_OK(j->comm, ls_graph_finish(j->graph, ls_dense(j->graph, x, &(ls_dense_attrs){.units = CLASSES})));
}

static ls_arrays_config arrays_of(const job *j, int copy) {
    return (ls_arrays_config){.name = "ours",
                              .fields = fields,
                              .field_count = 2,
                              .train = {TRAIN, {j->images, j->labels}},
                              .test = {TEST, {j->images[TRAIN], j->labels + TRAIN}},
                              .copy = copy};
}

// What the function does, and to whom.
typedef struct giver {
    const job *job;
    int64_t first, fails_at;  // -1: nowhere
    _Atomic int64_t reads;
} giver;

static ls_status give(void *user, int64_t i, void *const *out) {
    giver *g = user;
    atomic_fetch_add(&g->reads, 1);
    if (i == g->fails_at)
        return ls_error_set(LS_STATUS_IO, "worker %d cannot find sample %lld", g->job->comm->rank, (long long)i);
    memcpy(out[0], g->job->images[g->first + i], SIDE * SIDE);
    memcpy(out[1], &g->job->labels[g->first + i], 4);
    return LS_OK;
}

static ls_callback_config callbacks_of(giver *train, giver *test) {
    return (ls_callback_config){.name = "given",
                                .fields = fields,
                                .field_count = 2,
                                .train = {TRAIN, give, train},
                                .test = {test ? TEST : 0, give, test}};
}

static ls_train_config short_run(void) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref", c.bind = 0;
    c.batch_size = 32, c.micro_batch = 4, c.replicas = 2, c.epochs = 2;
    return c;
}

static void all_refuse(job *j, ls_status status, ls_status expected, const char *words) {
    CHECK(j->comm, status == expected);
    CHECK(j->comm, strstr(ls_error_message(), words) != NULL);
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));  // nobody hangs, or is elsewhere
}

// Trains and evaluates; text gets the digest. Closes the dataset.
static double train_on(job *j, ls_dataset *data, char text[65]) {
    ls_train_config c = short_run();
    ls_trainer *t;
    ls_train_result r;
    double loss = -1;
    if (j->augment) c.augment = j->augment;
    CHECK_OK(j->comm, ls_trainer_create(j->context, j->graph, data, &c, &t));
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    if (ls_dataset_test_count(data))
        CHECK_OK(j->comm, ls_trainer_evaluate(t, &loss, NULL));
    else
        all_refuse(j, ls_trainer_evaluate(t, &loss, NULL), LS_STATUS_INVALID_ARGUMENT, "has no test set");
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    strcpy(text, r.weights_digest);
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    CHECK(j->comm, data == NULL);
    return loss;
}

static void every_kind_gives_the_same_bits(job *j) {
    char first[65], text[65];
    ls_arrays_config c = arrays_of(j, 0);
    giver train = {j, 0, -1, 0}, test = {j, TRAIN, -1, 0};
    ls_callback_config f = callbacks_of(&train, &test);
    ls_dataset *data;
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
    uint64_t fingerprint = ls_dataset_fingerprint(data);
    double loss = train_on(j, data, first);
    // The same for any number of workers: a number that stays.
    CHECK(j->comm, strcmp(first, "402e57f49c082ace3cfa84aed7762da513538ce15e5aa5885092b0c71d2f72bd") == 0);

    job *other = malloc(sizeof *other);  // copied, then spoiled
    *other = *j;
    c = arrays_of(other, 1);
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
    memset(other, 0x77, sizeof *other);
    free(other);
    CHECK(j->comm, ls_dataset_fingerprint(data) == fingerprint);
    CHECK(j->comm, train_on(j, data, text) == loss && strcmp(first, text) == 0);

    CHECK_OK(j->comm, ls_dataset_create_callback(j->context, &f, &data));
    CHECK(j->comm, train.reads == 3 && test.reads == 3);
    CHECK(j->comm, train_on(j, data, text) == loss && strcmp(first, text) == 0);
    int64_t mine = train.reads - 3, most = 2 * TRAIN;
    CHECK(j->comm, j->comm->size > 1 ? mine > 0 && mine < most : mine == most);

    ls_field numbers[] = {fields[0], fields[1]};  // images that are numbers already
    numbers[0].dtype = LS_DTYPE_F32;
    c = arrays_of(j, 0);
    c.fields = numbers, c.train.field[0] = j->scaled, c.test.field[0] = j->scaled[TRAIN];
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
    CHECK(j->comm, train_on(j, data, text) == loss && strcmp(first, text) == 0);

    f.test.count = 0;  // no test set, the same training
    CHECK_OK(j->comm, ls_dataset_create_callback(j->context, &f, &data));
    train_on(j, data, text);
    CHECK(j->comm, strcmp(first, text) == 0);
}

// A worker that differs is named, to all; so is what only one finds wrong.
static void workers_that_differ_are_named(job *j) {
    int last = j->comm->rank == j->comm->size - 1, several = j->comm->size > 1;
    giver train = {j, 0, -1, 0}, shifted = {j, last, -1, 0}, broken = {j, 0, last ? TRAIN - 1 : -1, 0};
    ls_callback_config f = callbacks_of(&train, NULL);
    ls_dataset *data;
    for (int copy = 0; copy < 2; copy++) {
        ls_arrays_config c = arrays_of(j, copy);
        if (several) {
            c.train.count -= last;
            all_refuse(j, ls_dataset_create_arrays(j->context, &c, &data), LS_STATUS_MISMATCH, "training samples=95");
            c.train.count = TRAIN;
            j->images[7][3] ^= (uint8_t)last;
            all_refuse(j, ls_dataset_create_arrays(j->context, &c, &data), LS_STATUS_MISMATCH, "fingerprint=");
            j->images[7][3] ^= (uint8_t)last;
        }
        j->labels[50] = last ? CLASSES : 50 * 37 % CLASSES;
        all_refuse(j, ls_dataset_create_arrays(j->context, &c, &data), LS_STATUS_BAD_DATA,
                   "sample 50 of the training set of ours: value 0 of \"label\" is 1000");
        j->labels[50] = 50 * 37 % CLASSES;
        c.train.field[1] = last ? NULL : j->labels;
        all_refuse(j, ls_dataset_create_arrays(j->context, &c, &data), LS_STATUS_INVALID_ARGUMENT,
                   "no array for the field \"label\"");
        CHECK(j->comm, data == NULL);
    }
    f.train.user = &broken;
    all_refuse(j, ls_dataset_create_callback(j->context, &f, &data), LS_STATUS_IO, "cannot find sample 95");
    if (!several) return;
    f.train.user = &shifted;
    all_refuse(j, ls_dataset_create_callback(j->context, &f, &data), LS_STATUS_MISMATCH, "fingerprint=");
    f.train.user = &train, f.version = (uint64_t)last;
    all_refuse(j, ls_dataset_create_callback(j->context, &f, &data), LS_STATUS_MISMATCH, "fingerprint=");
}

// A sample that one worker cannot read while training: all learn which and whose it was, nobody hangs.
static void a_failure_while_training_ends_it(job *j) {
    for (int sample = 1; sample < TRAIN - 1; sample += 31) {
        giver train = {j, 0, -1, 0};
        ls_callback_config f = callbacks_of(&train, NULL);
        ls_train_config c = short_run();
        ls_dataset *data;
        ls_trainer *t;
        CHECK_OK(j->comm, ls_dataset_create_callback(j->context, &f, &data));
        CHECK_OK(j->comm, ls_trainer_create(j->context, j->graph, data, &c, &t));
        train.fails_at = sample;  // whoever has it in the first epoch
        CHECK(j->comm, ls_trainer_fit(t, NULL) != LS_OK);
        char words[64], said[200];
        snprintf(words, sizeof words, "sample %d of the training set of given: worker ", sample);
        CHECK(j->comm, strstr(ls_error_message(), words) != NULL);
        snprintf(said, sizeof said, "%s", strstr(ls_error_message(), words));
        CHECK_OK(j->comm, ls_comm_broadcast(j->comm, said, sizeof said, LS_DTYPE_U8, 0));
        CHECK(j->comm, strcmp(said, strstr(ls_error_message(), words)) == 0);
        ls_trainer_destroy(&t);
        ls_dataset_destroy(&data);
    }
}

// Datasets a classifier cannot be trained on yet are refused by the trainer, in words.
static void what_cannot_be_trained_on_is_refused(job *j) {
    ls_field f[] = {{"image", LS_SHAPE(SIDE, SIDE, 1), LS_DTYPE_F32, 0}, {"label", LS_SHAPE(4), LS_DTYPE_F32, 0}};
    ls_arrays_config c = {.fields = f, .field_count = 2, .train = {8, {j->scaled, j->scaled}}};
    ls_train_config options = short_run();
    ls_dataset *data;
    ls_trainer *t;
    options.batch_size = 8, options.micro_batch = 1;
    for (int k = 0; k < 5; k++) {
        const char *words =
            k == 0   ? "tells 1000 labels apart, dataset arrays has 4: give it as many"
            : k == 1 ? "net takes (None, 6, 6, 1), and the field \"image\" of the dataset arrays is (None, 36)"
            : k == 2 ? "are numbers, not pixels"
            : k == 3 ? "tells 1000 classes apart, dataset arrays has 1001"
                     : "no test set to evaluate on after each epoch";
        if (k == 1) f[0].shape = LS_SHAPE(SIDE * SIDE), f[1] = fields[1], c.train.field[1] = j->labels;
        if (k == 2) f[0].shape = LS_SHAPE(SIDE, SIDE, 1), options.normalize = "symmetric";
        if (k == 3) options.normalize = "unit", f[1].classes = CLASSES + 1;
        if (k == 4) f[1].classes = CLASSES, options.validate = 1;
        CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
        all_refuse(j, ls_trainer_create(j->context, j->graph, data, &options, &t), LS_STATUS_INVALID_ARGUMENT, words);
        ls_dataset_destroy(&data);
    }
}

// Images that are learned of images go their way: of themselves, as a field of its own, they give what they give without one. Those that cannot are refused.
static void images_are_learned_of_images(job *j) {
    ls_shape image = fields[0].shape;
    ls_field f[] = {fields[0], {"target", image, LS_DTYPE_U8, 0}};
    ls_arrays_config c = arrays_of(j, 0);
    ls_train_config options = short_run();
    ls_graph *classifier = j->graph;
    ls_dataset *data;
    ls_trainer *t;
    char alone[65], text[65];
    CHECK_OK(j->comm, ls_graph_create("net", image, &j->graph));
    const ls_conv2d_attrs conv = {.filters = 1, .kernel = {3, 3}, .padding = LS_PADDING_SAME};
    ls_value x = ls_conv2d(j->graph, ls_graph_input(j->graph), &conv);
    ls_value target = ls_graph_add_input(j->graph, "target", image, LS_DTYPE_F32);
    ls_mean_squared_error(j->graph, x, target, &(ls_loss_attrs){.name = "loss"});
    CHECK_OK(j->comm, ls_graph_finish(j->graph, x));
    j->augment = options.augment = "flip,resized-crop";
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
    double loss = train_on(j, data, alone);
    c.fields = f, c.train.field[1] = j->images, c.test.field[1] = j->images[TRAIN];
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
    CHECK(j->comm, train_on(j, data, text) == loss && strcmp(alone, text) == 0);
    for (int k = 0; k < 2; k++) {
        if (k == 0) f[1].shape = LS_SHAPE(SIDE / 2, SIDE / 2, 1);
        if (k == 1) f[1].shape = image, f[1].dtype = LS_DTYPE_F32, c.train.field[1] = j->scaled, c.test.count = 0;
        CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &data));
        all_refuse(j, ls_trainer_create(j->context, j->graph, data, &options, &t), LS_STATUS_INVALID_ARGUMENT,
                   k ? "augmentations other than colours and cutout out"
                     : "the field \"target\" of the dataset ours is (None, 3, 3, 1)");
        ls_dataset_destroy(&data);
    }
    ls_graph_destroy(&j->graph);
    j->graph = classifier;
    j->augment = NULL;
}

int main(void) {
    static job j;
    alarm(100);
    CHECK_OK((ls_comm *)NULL, ls_context_create(&j.context));
    j.comm = j.context->comm;
    fill(&j);
    every_kind_gives_the_same_bits(&j);
    workers_that_differ_are_named(&j);
    a_failure_while_training_ends_it(&j);
    what_cannot_be_trained_on_is_refused(&j);
    images_are_learned_of_images(&j);
    ls_graph_destroy(&j.graph);
    ls_context_destroy(&j.context);
    return 0;
}
