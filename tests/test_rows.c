// Metrics from rows of samples through the trainer: the areas under ROC curves of an evaluation are those of predictions made one after
// the other and counted pair by pair, on any number of workers, replicas and hosts, after every evaluation.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/runner.h"
#include "train/context.h"
#include "train/trainer_impl.h"
#include "worker_check.h"

enum { CLASSES = 10, TEST = 143 };  // a last micro-batch that is smaller

// Digits; the areas of the scores, and of half of them which come from a layer before.
static ls_graph *network(int both_outputs) {
    ls_graph *g;
    ls_comm *none = NULL;
    CHECK_OK(none, ls_graph_create("areas", LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_flatten(g, ls_graph_input(g), NULL);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value half = ls_dense(g, x, &(ls_dense_attrs){.units = CLASSES, .name = "half"});
    ls_value y = ls_dense(g, ls_relu(g, half, NULL), &(ls_dense_attrs){.units = CLASSES, .name = "whole"});
    ls_auc(g, half, label, &(ls_metric_attrs){.name = "first"});
    ls_softmax_cross_entropy(g, y, label, NULL);
    ls_auc(g, y, label, &(ls_metric_attrs){.name = "second"});
    ls_accuracy(g, y, label, NULL);
    if (both_outputs) CHECK_OK(none, ls_graph_add_output(g, half, NULL));
    CHECK_OK(none, ls_graph_add_output(g, y, NULL));
    CHECK_OK(none, ls_graph_finish(g, LS_NO_VALUE));
    return g;
}

static void read_test_set(ls_comm *comm, const ls_dataset *data, float *images, uint8_t *labels) {
    const ls_source *test = data->test;
    const uint8_t *pixels = ls_source_array(test, ls_fields_find(test->field, test->field_count, "image"));
    const uint8_t *classes = ls_source_array(test, ls_fields_find(test->field, test->field_count, "label"));
    CHECK(comm, pixels && classes);
    for (int64_t i = 0; i < TEST * 784; i++) images[i] = (float)pixels[i] / 255;
    memcpy(labels, classes, TEST);
}

// Pair by pair: slow, and another way than the library's.
static double area(const float *scores, const uint8_t *labels, int class) {
    double larger = 0, pairs = 0;
    for (int a = 0; a < TEST; a++)
        for (int b = 0; b < TEST; b++) {
            if (labels[a] != class || labels[b] == class) continue;
            float x = scores[a * CLASSES + class], y = scores[b * CLASSES + class];
            larger += x > y ? 1 : x == y ? 0.5 : 0;
            pairs++;
        }
    return pairs > 0 ? larger / pairs : NAN;
}

// The scores of the test set by a predictor with the trainer's weights, TEST samples at once.
static void predict(ls_trainer *t, const float *images, float *scores[2]) {
    ls_graph *g = network(1);
    ls_runner *r;
    ls_comm *comm = t->comm;
    ls_plan_config config = {.batch = TEST, .precision = LS_DTYPE_F32, .mode = LS_PLAN_PREDICTION};
    CHECK_OK(comm, ls_runner_create(g, t->device, &config, NULL, &r));
    for (int i = 0; i < g->store->count; i++) {
        const ls_param *p = &g->store->params[i];
        int64_t count = ls_shape_count(p->shape);
        float *plain = calloc((size_t)count, sizeof *plain);
        CHECK_OK(comm, ls_trainer_get_weights(t, p->name, plain, count));
        CHECK_OK(comm, ls_runner_set(r, i, plain));
        free(plain);
    }
    CHECK_OK(comm, ls_runner_refresh(r));
    CHECK_OK(comm, ls_runner_write(r, 0, images));
    CHECK_OK(comm, ls_runner_forward(r, NULL));
    for (int i = 0; i < 2; i++) CHECK_OK(comm, ls_runner_read(r, i, r->batch, scores[i]));
    ls_runner_destroy(&r);
    ls_graph_destroy(&g);
}

static void check_values(ls_trainer *t, const float *images, const uint8_t *labels) {
    ls_comm *comm = t->comm;
    float *scores[2];
    for (int i = 0; i < 2; i++) scores[i] = calloc(TEST * CLASSES, sizeof **scores);
    predict(t, images, scores);
    CHECK(comm, t->measures.value_count == 2 * (1 + CLASSES) + 2);
    const ls_measured *v = t->history.test_values;
    for (int i = 0; i < 2; i++, v += i == 1 ? CLASSES + 2 : 0) {
        CHECK(comm, strcmp(v[0].name, i ? "second" : "first") == 0);
        double mean = 0;
        for (int class = 0; class < CLASSES; class ++) {
            CHECK(comm, v[1 + class].value == area(scores[i], labels, class));
            mean += v[1 + class].value / CLASSES;
        }
        CHECK(comm, fabs(v[0].value - mean) < 1e-12);
        free(scores[i]);
    }
    // The same on all workers, to the last bit.
    double *all = calloc((size_t)comm->size * (1 + CLASSES), sizeof *all), mine[1 + CLASSES];
    for (int i = 0; i <= CLASSES; i++) mine[i] = t->history.test_values[i].value;
    CHECK_OK(comm, ls_comm_allgather(comm, mine, all, sizeof mine));
    for (int w = 0; w < comm->size; w++)
        CHECK(comm, memcmp(all + (ptrdiff_t)w * (1 + CLASSES), mine, sizeof mine) == 0);
    free(all);
}

static void test_areas(ls_context *context, int replicas) {
    ls_comm *comm = context->comm;
    ls_dataset *data;
    ls_trainer *t;
    ls_train_config c;
    double loss, accuracy;
    ls_graph *g = network(0);
    CHECK_OK(comm, ls_dataset_open(context, "digits", &data));
    ls_train_config_init(&c);
    c.device = "ref";
    c.lr = 0.003;
    c.batch_size = 40, c.micro_batch = 4, c.replicas = replicas, c.bind = 0;
    c.epochs = 2, c.limit_train = 120, c.limit_test = TEST;
    CHECK_OK(comm, ls_trainer_create(context, g, data, &c, &t));
    float *images = calloc(TEST * 784, sizeof *images);
    uint8_t labels[TEST];
    read_test_set(comm, data, images, labels);
    double before = 0;
    for (int round = 0; round < 3; round++) {
        if (round > 0) CHECK_OK(comm, ls_trainer_fit(t, NULL));  // all epochs, and then none
        CHECK_OK(comm, ls_trainer_evaluate(t, &loss, &accuracy));
        check_values(t, images, labels);
        CHECK(comm, (t->history.test_values[0].value == before) == (round == 2));
        before = t->history.test_values[0].value;
        CHECK(comm, t->history.test_values[1 + CLASSES].is_loss && t->history.test_values[1 + CLASSES].value == loss);
        CHECK(comm, t->history.test_values[2 * (1 + CLASSES) + 1].value == accuracy);
    }
    free(images);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    ls_dataset_destroy(&data);
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    test_areas(world, 1);
    test_areas(world, 2);
    for (int hosts = 2; hosts <= 3 && hosts <= world->comm->size; hosts++) {
        setenv("LOCKSTEP_TEST_HOSTS", hosts == 2 ? "2" : "3", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        CHECK(world->comm, context->comm->hosts == hosts);
        test_areas(context, 1);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
