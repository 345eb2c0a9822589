// Trainers that share weights: in turn, beside predictors, destroyed in any order with their graphs, on any number of workers.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "train/context.h"
#include "worker_check.h"

enum { NETS = 3, STEPS = 4, BATCH = 32 };

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_dataset *data;
    ls_train_config config;
} job;

// A body that all have, and a head of its own.
static ls_graph *network(job *j, ls_store *store, const char *name) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create_empty(name, store, &g));
    ls_value x = ls_flatten(g, ls_graph_add_input(g, "image", LS_SHAPE(28, 28, 1), LS_DTYPE_F32), NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 12, .activation = LS_ACTIVATION_RELU, .name = "body"});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 10, .name = name});
    ls_softmax_cross_entropy(g, x, ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32), NULL);
    CHECK_OK(j->comm, ls_graph_finish(g, x));
    return g;
}

// A predictor of another number of threads in the thread that trains.
static void predict(job *j, const ls_graph *g) {
    ls_predict_config config;
    ls_predictor *p;
    float image[28 * 28] = {0}, scores[10];
    ls_predict_config_init(&config);
    config.batch = 1, config.device = j->config.device;
    CHECK_OK(j->comm, ls_predictor_create(g, &config, &p));
    CHECK_OK(j->comm, ls_predictor_run(p, 1, (const void *const[]){image, NULL}, (float *const[]){scores}));
    ls_predictor_destroy(&p);
}

// Steps in turn, then all leave in an order; who is left goes on. Returns the digest of the last one's weights.
static void train(job *j, const int order[NETS], int among_others, char digest[65]) {
    static const char *const names[NETS] = {"one", "two", "three"};
    ls_store *store;
    ls_graph *net[NETS];
    ls_trainer *t[NETS];
    ls_train_result result;
    CHECK_OK(j->comm, ls_store_create(&store));
    for (int i = 0; i < NETS; i++) net[i] = network(j, store, names[i]);
    ls_store_destroy(&store);
    for (int i = 0; i < NETS; i++) CHECK_OK(j->comm, ls_trainer_create(j->context, net[i], j->data, &j->config, &t[i]));
    for (int i = 0; i < NETS; i++) CHECK_OK(j->comm, ls_trainer_begin_epoch(t[i]));
    for (int left = NETS; left > 0; left--) {
        // As many steps of each whichever is left, so that the weights depend on the order.
        for (int i = 0; i < NETS; i++) {
            if (!t[i]) continue;
            if (among_others) predict(j, net[i]);
            CHECK_OK(j->comm, ls_trainer_step(t[i], NULL));
        }
        int leaves = order[NETS - left];
        if (left == 1) {
            CHECK_OK(j->comm, ls_trainer_result(t[leaves], &result));
            strcpy(digest, result.weights_digest);
        }
        ls_trainer_destroy(&t[leaves]);
        CHECK(j->comm, t[leaves] == NULL);
        ls_graph_destroy(&net[leaves]);
    }
}

int main(void) {
    static const int orders[][NETS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    // Of device ref, and so of every machine.
    static const char *const expected[] = {
        "6dd5e7f54703e83d5b210ba1625f4579153059024fb504053ea0efa86c445ca5",
        "90a76a50aa3bd6684b8cca3de87f48ce75b1fc0a418a23ddfd41548d9c3abfb5",
        "ecacec8286bb8c47421790d5dfd48ce2fcecc84d04be8f1f2da5539a01712075",
        "7f722558837d0974c471c587e46a6a3c61d2a3c09b8e7d00ddfc1d2b652e9dcb",
        "ea259f1d5685cf9c50c031862cb4c39fae0f7ef62be6164e4151cedfac0a78b1",
        "502140dbbca44b271fbbf7ab1967a1294318e71ff9bf60274df1069f990e4d59",
    };
    static job j;
    alarm(200);
    CHECK_OK((ls_comm *)NULL, ls_context_create(&j.context));
    j.comm = j.context->comm;
    CHECK_OK(j.comm, ls_dataset_open(j.context, "digits", &j.data));
    ls_train_config_init(&j.config);
    j.config.batch_size = BATCH, j.config.micro_batch = 4, j.config.limit_train = BATCH * STEPS;
    j.config.epochs = 1, j.config.optimizer = "sgd", j.config.momentum = 0;
    for (int i = 0; i < 6; i++) {
        char digest[65], again[65];
        j.config.device = "ref", j.config.replicas = 1, j.config.threads = 1;
        train(&j, orders[i], 0, digest);
        if (j.comm->rank == 0 && strcmp(digest, expected[i]) != 0) fprintf(stderr, "order %d: %s\n", i, digest);
        CHECK(j.comm, strcmp(digest, expected[i]) == 0);
        j.config.device = "cpu", j.config.replicas = 2;
        train(&j, orders[i], 0, digest);
        j.config.replicas = 1, j.config.threads = 2;
        train(&j, orders[i], 1, again);
        CHECK(j.comm, strlen(digest) == 64 && strcmp(digest, again) == 0);
    }
    ls_dataset_destroy(&j.data);
    ls_context_destroy(&j.context);
    return 0;
}
