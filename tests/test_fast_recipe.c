// What recipes that learn fast are made of, on any number of workers and hosts: filters that whiten patches, slow weights that follow, several
// views of an image. Each is held against plain loops here, and gives the same bits everywhere.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>
#include <lockstep/predict.h>

#include "base/philox.h"
#include "train/context.h"
#include "worker_check.h"

enum {
    SIDE = 8,
    COLOURS = 3,
    PIXELS = SIDE * SIDE * COLOURS,
    TRAIN = 40,
    TEST = 23,
    CLASSES = 4,
    PATCH = 2 * 2 * COLOURS
};

static uint8_t images[TRAIN + TEST][PIXELS], labels[TRAIN + TEST];

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_dataset *data;
    int replicas;
} job;

// Neighbouring pixels resemble each other, and bright images are of high classes.
static void draw_samples(void) {
    for (int n = 0; n < TRAIN + TEST; n++) {
        labels[n] = (uint8_t)(n % CLASSES);
        for (int i = 0; i < PIXELS; i++) {
            uint32_t noise = ls_philox(11, (uint32_t)i, (uint32_t)n, 0, 0).v[0] >> 26;
            images[n][i] = (uint8_t)(30 * labels[n] + noise + (uint32_t)(i / COLOURS % SIDE * 8));
        }
    }
}

static void open_data(job *j) {
    static const ls_field fields[] = {{.name = "image", .shape = {3, {SIDE, SIDE, COLOURS}}, .dtype = LS_DTYPE_U8},
                                      {.name = "label", .dtype = LS_DTYPE_U8, .classes = CLASSES}};
    ls_arrays_config c = {.fields = fields,
                          .field_count = 2,
                          .train = {TRAIN, {images, labels}},
                          .test = {TEST, {images + TRAIN, labels + TRAIN}}};
    CHECK_OK(j->comm, ls_dataset_create_arrays(j->context, &c, &j->data));
}

// `filters` of the first layer; 0: whitening ones. With `before`, a layer stands in front of it.
static ls_graph *network(job *j, int filters, int before) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("fast", LS_SHAPE(SIDE, SIDE, COLOURS), &g));
    ls_value x = ls_graph_input(g);
    if (before) x = ls_rescaling(g, x, NULL);
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = "first",
                                     .filters = filters ? filters : 2 * PATCH,
                                     .kernel = {2, 2},
                                     .activation = LS_ACTIVATION_GELU,
                                     .kernel_initializer = LS_INITIALIZER_PATCH_WHITENING});
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){
                      .name = "second", .filters = 26, .kernel = {3, 3}, .kernel_initializer = LS_INITIALIZER_DIRAC});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){.name = "norm", .momentum = 0.6f});
    x = ls_flatten(g, ls_relu(g, x, NULL), NULL);
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = CLASSES})));
    return g;
}

static ls_train_config recipe(const job *j) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref";
    c.batch_size = 12, c.micro_batch = 2, c.epochs = 2, c.replicas = j->replicas, c.bind = 0;
    c.optimizer = "sgd", c.lr = 0.05, c.momentum = 0.8, c.nesterov = 1;
    return c;
}

static ls_trainer *new_trainer(job *j, const ls_graph *g, const ls_train_config *c) {
    ls_trainer *t;
    CHECK_OK(j->comm, ls_trainer_create(j->context, g, j->data, c, &t));
    return t;
}

static void refused(job *j, const ls_graph *g, const ls_train_config *c, const char *words) {
    ls_trainer *t;
    CHECK(j->comm, ls_trainer_create(j->context, g, j->data, c, &t) == LS_STATUS_INVALID_ARGUMENT);
    if (!strstr(ls_error_message(), words)) fprintf(stderr, "expected: %s\n", words);
    CHECK(j->comm, strstr(ls_error_message(), words));
}

enum { NAMES = 10 };
static const char *const names[NAMES] = {"first/kernel", "first/bias", "second/kernel",    "second/bias",
                                         "norm/gamma",   "norm/beta",  "norm/moving_mean", "norm/moving_variance",
                                         "head/kernel",  "head/bias"};
static const int64_t counts[NAMES] = {PATCH * 2 * PATCH, 2 * PATCH, 9 * 2 * PATCH * 26, 26, 26, 26, 26, 26,
                                      25 * 26 * CLASSES, CLASSES};

static float *weights(job *j, ls_trainer *t, const char *name, int64_t count) {
    float *values = calloc((size_t)count, sizeof *values);
    CHECK_OK(j->comm, ls_trainer_get_weights(t, name, values, count));
    return values;
}

static void digest(job *j, ls_trainer *t, char text[65]) {
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    CHECK(j->comm, strlen(r.weights_digest) == 64);
    memcpy(text, r.weights_digest, 65);
}

// --- whitening -------------------------------------------------------------------------------------------------------

// The mean product of what filters f and g make of all patches of the training set, divided by 255.
static double covariance(const float *kernel, int f, int g) {
    double sum = 0;
    for (int n = 0; n < TRAIN; n++)
        for (int y = 0; y < SIDE - 1; y++)
            for (int x = 0; x < SIDE - 1; x++) {
                double a = 0, b = 0;
                for (int i = 0; i < PATCH; i++) {
                    int dy = i / (2 * COLOURS), rest = i % (2 * COLOURS);
                    double pixel = images[n][((y + dy) * SIDE + x) * COLOURS + rest] / 255.0;
                    a += pixel * (double)kernel[i * 2 * PATCH + f];
                    b += pixel * (double)kernel[i * 2 * PATCH + g];
                }
                sum += a * b;
            }
    return sum / (TRAIN * (SIDE - 1) * (SIDE - 1));
}

// Uncorrelated, of variance l / (l + 5e-4); then the same with the other sign. A filter's length is 1 / sqrt(l + 5e-4).
static void patches_are_whitened(job *j) {
    ls_graph *g = network(j, 0, 0);
    ls_train_config c = recipe(j);
    c.augment = "flip,cutout";  // which play no part in it
    ls_trainer *t = new_trainer(j, g, &c);
    float *kernel = weights(j, t, "first/kernel", counts[0]);
    double before = 0;
    for (int f = 0; f < PATCH; f++) {
        double squares = 0;
        for (int i = 0; i < PATCH; i++) {
            double w = kernel[i * 2 * PATCH + f];
            squares += w * w;
            CHECK(j->comm, kernel[i * 2 * PATCH + PATCH + f] == -kernel[i * 2 * PATCH + f]);
        }
        double value = 1 / squares - 5e-4;
        CHECK(j->comm, value > -1e-7 && squares >= before * (1 - 1e-6));
        before = squares;
        for (int k = 0; k < PATCH; k++)
            CHECK(j->comm, fabs(covariance(kernel, f, k) - (f == k ? value * squares : 0)) < 2e-4);
    }
    free(kernel);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    g = network(j, PATCH, 0);
    refused(j, g, &c,
            "first/kernel: the initializer patch_whitening makes twice as many filters as a patch of the images has "
            "values: give the layer 24");
    ls_graph_destroy(&g);
    g = network(j, 0, 1);
    refused(j, g, &c, "is for a layer that reads the dataset's images");
    ls_graph_destroy(&g);
}

// Where weights are loaded anyway, nobody measures the images, and no other parameter is drawn otherwise. A layer that could not be measured is no mistake then.
static void loaded_weights_are_not_measured(job *j) {
    ls_graph *g = network(j, 0, 0), *h = network(j, 0, 0), *other = network(j, 0, 1);
    ls_train_config c = recipe(j), follow = c;
    follow.weights_follow = 1;
    ls_trainer *a = new_trainer(j, g, &c), *b = new_trainer(j, h, &follow), *d = new_trainer(j, other, &follow);
    char drawn[65], loaded[65];
    for (int i = 0; i < NAMES; i++) {
        float *x = weights(j, a, names[i], counts[i]), *y = weights(j, b, names[i], counts[i]);
        CHECK(j->comm, (memcmp(x, y, (size_t)counts[i] * sizeof *x) == 0) == (i > 0));
        CHECK_OK(j->comm, ls_comm_barrier(j->comm));  // workers of a host share what is set
        if (i == 0) CHECK_OK(j->comm, ls_trainer_set_weights(b, names[i], x, counts[i]));
        free(x);
        free(y);
    }
    CHECK_OK(j->comm, ls_trainer_fit(a, NULL));
    CHECK_OK(j->comm, ls_trainer_fit(b, NULL));
    digest(j, a, drawn);
    digest(j, b, loaded);
    CHECK(j->comm, strcmp(drawn, loaded) == 0);
    ls_trainer_destroy(&a);
    ls_trainer_destroy(&b);
    ls_trainer_destroy(&d);
    ls_graph_destroy(&g);
    ls_graph_destroy(&h);
    ls_graph_destroy(&other);
}

// --- lookahead -------------------------------------------------------------------------------------------------------

// By hand: a trainer without it, whose weights are set to slow ones by the formula.
static void follow_by_hand(job *j, ls_trainer *t, float **slow, double keeps) {
    float k = (float)keeps, takes = (float)(1 - keeps);
    for (int i = 0; i < NAMES; i++) {
        float *w = weights(j, t, names[i], counts[i]);
        for (int64_t n = 0; n < counts[i]; n++) slow[i][n] = k * slow[i][n] + takes * w[n];
        CHECK_OK(j->comm, ls_trainer_set_weights(t, names[i], slow[i], counts[i]));
        free(w);
    }
}

static void slow_weights_follow(job *j, double step, double power, char text[65]) {
    ls_graph *g = network(j, 0, 0), *h = network(j, 0, 0);
    ls_train_config with = recipe(j), without = with;
    with.lookahead = 3, with.lookahead_step = step, with.lookahead_power = power;
    ls_trainer *a = new_trainer(j, g, &with), *b = new_trainer(j, h, &without);
    float *slow[NAMES];
    for (int i = 0; i < NAMES; i++) slow[i] = weights(j, b, names[i], counts[i]);
    int steps = 0, all = 8;  // 40 samples in batches of 12, twice
    for (int epoch = 0; epoch < 2; epoch++) {
        CHECK_OK(j->comm, ls_trainer_begin_epoch(a));
        CHECK_OK(j->comm, ls_trainer_begin_epoch(b));
        while (ls_trainer_steps_left(a) > 0) {
            CHECK_OK(j->comm, ls_trainer_step(a, NULL));
            CHECK_OK(j->comm, ls_trainer_step(b, NULL));
            steps++;
            double t = (double)steps / all;
            if (steps % 3 == 0) follow_by_hand(j, b, slow, (1 - step) * (power == 3 ? t * (t * t) : 1));
            if (steps == all) follow_by_hand(j, b, slow, 1);
            for (int i = 0; i < NAMES; i++) {
                float *x = weights(j, a, names[i], counts[i]), *y = weights(j, b, names[i], counts[i]);
                CHECK(j->comm, memcmp(x, y, (size_t)counts[i] * sizeof *x) == 0);
                free(x);
                free(y);
            }
        }
        CHECK_OK(j->comm, ls_trainer_end_epoch(a, NULL));
        CHECK_OK(j->comm, ls_trainer_end_epoch(b, NULL));
    }
    CHECK(j->comm, steps == all);
    digest(j, a, text);
    for (int i = 0; i < NAMES; i++) free(slow[i]);
    ls_trainer_destroy(&a);
    ls_trainer_destroy(&b);
    ls_graph_destroy(&g);
    ls_graph_destroy(&h);
}

static void lookahead_is_refused(job *j) {
    ls_graph *g = network(j, 0, 0);
    ls_train_config c = recipe(j);
    c.lookahead = -1;
    refused(j, g, &c, "every -1 steps");
    c.lookahead = 2, c.lookahead_step = 0;
    refused(j, g, &c, "the step of lookahead is 0; it must be above 0 and at most 1");
    c.lookahead_step = NAN;
    refused(j, g, &c, "the step of lookahead");
    c.lookahead_step = 0.5, c.lookahead_power = -1;
    refused(j, g, &c, "the power of lookahead is -1");
    c.lookahead_power = 0, c.not_finite = "skip";
    refused(j, g, &c, "lookahead does not go together with steps that are left out");
    ls_graph_destroy(&g);
}

// --- views -----------------------------------------------------------------------------------------------------------

static int reflected(int at) { return at < 0 ? -at : at >= SIDE ? 2 * SIDE - 2 - at : at; }

// The scores of the test set in a view, by a predictor with the trainer's weights: (TEST, CLASSES).
static void predict(job *j, const char *path, int view, float *scores) {
    static const int shift[] = {0, -1, 1};
    float *batch = calloc(TEST * PIXELS, sizeof *batch);
    for (int n = 0; n < TEST; n++)
        for (int i = 0; i < PIXELS; i++) {
            int y = i / COLOURS / SIDE, x = i / COLOURS % SIDE;
            if (view % 2) x = SIDE - 1 - x;
            y = reflected(y + shift[view / 2]), x = reflected(x + shift[view / 2]);
            batch[n * PIXELS + i] = (float)images[TRAIN + n][(y * SIDE + x) * COLOURS + i % COLOURS] / 255.0f;
        }
    ls_graph *g = network(j, 0, 0);
    ls_predictor *p;
    ls_predict_config c;
    ls_predict_config_init(&c);
    c.device = "ref", c.batch = TEST;
    CHECK_OK(j->comm, ls_predictor_create(g, &c, &p));
    CHECK_OK(j->comm, ls_predictor_load_weights(p, path));
    CHECK_OK(j->comm, ls_predictor_run(p, TEST, (const void *const[]){batch}, (float *const[]){scores}));
    ls_predictor_destroy(&p);
    ls_graph_destroy(&g);
    free(batch);
}

// Loss and accuracy of mean scores, weighted; and what was taken for what.
static void expect(job *j, const char *path, int views, double *loss, double *accuracy, int64_t *confusion) {
    static const double two[] = {0.5, 0.5}, six[] = {0.25, 0.25, 0.125, 0.125, 0.125, 0.125};
    double mean[TEST][CLASSES] = {{0}};
    for (int v = 0; v < views; v++) {
        float scores[TEST * CLASSES];
        predict(j, path, v, scores);
        for (int i = 0; i < TEST * CLASSES; i++)
            mean[i / CLASSES][i % CLASSES] += (views == 2 ? two : six)[v] * (double)scores[i];
    }
    *loss = *accuracy = 0;
    memset(confusion, 0, CLASSES * CLASSES * sizeof *confusion);
    for (int n = 0; n < TEST; n++) {
        int best = 0, label = labels[TRAIN + n];
        double sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += exp(mean[n][c]);
            if (mean[n][c] > mean[n][best]) best = c;
        }
        *loss += (log(sum) - mean[n][label]) / TEST;
        *accuracy += (best == label) / (double)TEST;
        confusion[label * CLASSES + best]++;
    }
}

static void views_are_averaged(job *j) {
    ls_graph *network_ = network(j, 0, 0), *g;
    ls_train_config c = recipe(j);
    char path[64];
    snprintf(path, sizeof path, "/tmp/lockstep-fast-%d", (int)j->comm->size);
    CHECK_OK(j->comm, ls_graph_classifier(network_, 0, &g));
    double once[2] = {0};
    for (int i = 0; i < 3; i++) {
        c.tta = i == 0 ? "none" : i == 1 ? "flip" : "flip-translate";
        ls_trainer *t = new_trainer(j, g, &c);
        double loss, accuracy, want_loss, want_accuracy;
        int64_t got[CLASSES * CLASSES], want[CLASSES * CLASSES];
        CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
        for (int again = 0; again < 2; again++) CHECK_OK(j->comm, ls_trainer_evaluate(t, &loss, &accuracy));
        CHECK_OK(j->comm, ls_trainer_save_weights(t, path));
        CHECK_OK(j->comm, ls_comm_barrier(j->comm));
        if (i == 0) {
            once[0] = loss, once[1] = accuracy;
        } else {
            expect(j, path, i == 1 ? 2 : 6, &want_loss, &want_accuracy, want);
            CHECK(j->comm, fabs(loss - want_loss) < 1e-6 && fabs(accuracy - want_accuracy) < 1e-9);
            CHECK(j->comm, loss != once[0]);
            CHECK_OK(j->comm, ls_trainer_confusion(t, got, CLASSES));
            CHECK(j->comm, memcmp(got, want, sizeof got) == 0);
            // The same on all workers, to the last bit.
            double mine[2] = {loss, accuracy}, all[2 * 16];
            CHECK_OK(j->comm, ls_comm_allgather(j->comm, mine, all, sizeof mine));
            for (int w = 0; w < j->comm->size; w++)
                CHECK(j->comm, memcmp(all + (ptrdiff_t)w * 2, mine, sizeof mine) == 0);
        }
        CHECK_OK(j->comm, ls_comm_barrier(j->comm));
        ls_trainer_destroy(&t);
    }
    if (j->comm->rank == 0) remove(path);
    c.tta = "mirror";
    refused(j, g, &c, "unknown test-time augmentation 'mirror': there are none, flip and flip-translate");
    ls_graph_destroy(&g);
    ls_graph_destroy(&network_);
}

// --- all of it -------------------------------------------------------------------------------------------------------

static void run(ls_context *context, int replicas, char text[65]) {
    job j = {.context = context, .comm = context->comm, .replicas = replicas};
    char other[65];
    open_data(&j);
    patches_are_whitened(&j);
    loaded_weights_are_not_measured(&j);
    slow_weights_follow(&j, 0.25, 3, text);
    slow_weights_follow(&j, 0.5, 0, other);
    CHECK(j.comm, strcmp(text, other) != 0);
    lookahead_is_refused(&j);
    views_are_averaged(&j);
    ls_dataset_destroy(&j.data);
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    char one[65], two[65];
    unsetenv("LOCKSTEP_TEST_HOSTS");
    draw_samples();
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    run(world, 1, one);
    run(world, 2, two);
    CHECK(world->comm, strcmp(one, two) == 0);
    if (world->comm->size > 1) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        CHECK(world->comm, context->comm->hosts == 2);
        run(context, 1, two);
        CHECK(world->comm, strcmp(one, two) == 0);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
