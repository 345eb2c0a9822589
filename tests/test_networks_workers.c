// The networks of tests/networks.h through the trainer: five epochs of one step have the losses that PyTorch computes, and the weights of
// any number of workers, replicas and hosts are those of one worker alone, to the last bit.
#include <lockstep/lockstep.h>
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "golden_check.h"
#include "graph/graph.h"
#include "networks.h"
#include "train/context.h"
#include "worker_check.h"

enum { BATCH = 24, STEPS = 5, LONGEST = BATCH * 12 * 12 * 3 };

// The batch as a dataset of arrays, for training and evaluation alike.
static ls_dataset *make_data(ls_context *context, const ls_port *ports, int count_of_ports, const json_t *golden) {
    ls_field fields[LS_MAX_FIELDS] = {{.name = ""}};
    void *arrays[LS_MAX_FIELDS];
    ls_arrays_config config = {.name = "drawn", .fields = fields, .field_count = count_of_ports, .copy = 1};
    ls_dataset *data;
    uint32_t variant = (uint32_t)json_integer_value(json_object_get(golden, "variant"));
    for (int k = 0; k < count_of_ports; k++) {
        ls_port port = ports[k];
        const json_t *input = json_array_get(json_object_get(golden, "inputs"), (size_t)k);
        int labels = strcmp(json_string_value(json_object_get(input, "kind")), "labels") == 0;
        uint32_t classes = (uint32_t)json_integer_value(json_object_get(input, "classes"));
        int64_t count = BATCH * ls_shape_count(port.shape);
        fields[k] = (ls_field){.shape = port.shape, .dtype = port.dtype, .classes = (int)classes};
        snprintf(fields[k].name, sizeof fields[k].name, "%s", port.name);
        CHECK(context->comm, count <= LONGEST && (arrays[k] = calloc((size_t)count, 4)));
        for (int64_t i = 0; i < count; i++) {
            uint32_t word = draw(100 + (uint32_t)k, variant, i);
            if (classes)
                ((int32_t *)arrays[k])[i] = (int32_t)(word % classes);
            else
                ((float *)arrays[k])[i] =
                    (float)(labels ? word < 0.3 * 0x1p32 : draw_signed(100 + (uint32_t)k, variant, i));
        }
        config.train.field[k] = config.test.field[k] = arrays[k];
    }
    config.train.count = config.test.count = BATCH;
    CHECK_OK(context->comm, ls_dataset_create_arrays(context, &config, &data));
    for (int k = 0; k < count_of_ports; k++) free(arrays[k]);
    return data;
}

static ls_dataset *data_of(ls_context *context, const ls_graph *g, const json_t *golden) {
    ls_port ports[LS_MAX_FIELDS];
    for (int k = 0; k < g->input_count; k++) ports[k] = ls_graph_input_at(g, k);
    return make_data(context, ports, g->input_count, golden);
}

// Those that the trainer's network has.
static void set_weights(ls_comm *comm, ls_trainer *t, const json_t *golden) {
    const json_t *list = json_object_get(golden, "parameters");
    uint32_t variant = (uint32_t)json_integer_value(json_object_get(golden, "variant"));
    float plain[2048];
    for (size_t p = 0; p < json_array_size(list); p++) {
        const json_t *shape = json_object_get(json_array_get(list, p), "shape");
        int64_t count = 1, window = 1, dim[5] = {0};
        int ndim = (int)json_array_size(shape);
        for (int d = 0; d < ndim; d++) {
            dim[d] = json_integer_value(json_array_get(shape, (size_t)d));
            count *= dim[d];
            if (d < ndim - 2) window *= dim[d];
        }
        double limit = ndim > 1 ? sqrt(6 / (double)(window * (dim[ndim - 2] + dim[ndim - 1]))) : 0.05;
        for (int64_t i = 0; i < count; i++) plain[i] = (float)(draw_signed((uint32_t)p, variant, i) * limit);
        CHECK_OK(comm, ls_trainer_set_weights(t, json_string_value(json_object_get(json_array_get(list, p), "name")),
                                              plain, count));
    }
}

// Trains and evaluates; returns the digest of the weights, and every number that was measured after it.
typedef struct came_out {
    char digest[65];
    int count;
    double values[64];
} came_out;

static ls_train_config recipe(const json_t *golden, int replicas, const char *precision) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref", c.precision = precision;
    c.optimizer = "sgd", c.momentum = 0, c.lr = json_number_value(json_object_get(golden, "rate"));
    c.batch_size = BATCH, c.micro_batch = 4, c.replicas = replicas, c.bind = 0, c.epochs = STEPS, c.shuffle = 0;
    return c;
}

// Two networks that share a body, a step of one and then of the other: the losses that PyTorch computes. Returns the digest.
static came_out train_in_turn(ls_context *context, const json_t *golden, int replicas, const char *precision) {
    const ls_port ports[] = {{"image", LS_SHAPE(6, 6, 2), LS_DTYPE_F32},
                             {"label", {0}, LS_DTYPE_I32},
                             {"target", LS_SHAPE(3), LS_DTYPE_F32}};
    ls_comm *comm = context->comm;
    ls_train_config c = recipe(golden, replicas, precision);
    ls_dataset *data = make_data(context, ports, 3, golden);
    ls_store *store;
    ls_graph *net[2];
    ls_trainer *t[2];
    ls_train_result r;
    came_out out = {.count = 0};
    CHECK_OK(comm, ls_store_create(&store));
    for (int i = 0; i < 2; i++) CHECK_OK(comm, network_in_turn(store, i, &net[i]));
    for (int i = 0; i < 2; i++) CHECK_OK(comm, ls_trainer_create(context, net[i], data, &c, &t[i]));
    set_weights(comm, t[0], golden);
    for (int step = 0; step < 2 * STEPS; step++) {
        ls_epoch_result epoch;
        ls_trainer *now = t[step % 2];
        CHECK_OK(comm, ls_trainer_begin_epoch(now));
        CHECK_OK(comm, ls_trainer_step(now, NULL));
        CHECK_OK(comm, ls_trainer_end_epoch(now, &epoch));
        double theirs = json_number_value(json_array_get(json_object_get(golden, "losses"), (size_t)step));
        CHECK(comm, fabs(epoch.loss - theirs) <= (strcmp(precision, "fp32") == 0 ? 2e-6 : 1e-2) * theirs);
        out.values[out.count++] = epoch.loss;
    }
    CHECK_OK(comm, ls_trainer_result(t[1], &r));
    memcpy(out.digest, r.weights_digest, sizeof out.digest);
    for (int i = 0; i < 2; i++) ls_trainer_destroy(&t[i]);
    for (int i = 0; i < 2; i++) ls_graph_destroy(&net[i]);
    ls_store_destroy(&store);
    ls_dataset_destroy(&data);
    return out;
}

static came_out train(ls_context *context, const char *name, const json_t *golden, int replicas,
                      const char *precision) {
    ls_comm *comm = context->comm;
    ls_graph *g;
    ls_trainer *t;
    ls_train_config c;
    ls_train_result r;
    came_out out = {.count = 0};
    CHECK_OK(comm, network_create(name, &g));
    ls_dataset *data = data_of(context, g, golden);
    c = recipe(golden, replicas, precision);
    CHECK_OK(comm, ls_trainer_create(context, g, data, &c, &t));
    set_weights(comm, t, golden);
    CHECK_OK(comm, ls_trainer_fit(t, NULL));
    CHECK_OK(comm, ls_trainer_evaluate(t, NULL, NULL));
    CHECK_OK(comm, ls_trainer_result(t, &r));
    for (int i = 0; i < STEPS && strcmp(precision, "fp32") == 0; i++) {
        double theirs = json_number_value(json_array_get(json_object_get(golden, "losses"), (size_t)i));
        CHECK(comm, fabs(r.epoch[i].loss - theirs) <= 2e-6 * theirs);
    }
    memcpy(out.digest, r.weights_digest, sizeof out.digest);
    out.count = ls_trainer_measure_count(t);
    CHECK(comm, out.count <= 64);
    for (int i = 0; i < out.count; i++) out.values[i] = ls_trainer_measure(t, i).test;
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
    ls_graph_destroy(&g);
    return out;
}

static void test_network(ls_context *context, ls_context *alone, const json_t *golden, const char *name) {
    static const char *const precisions[] = {"fp32", "bf16"};
    ls_comm *comm = context->comm;
    const json_t *network = json_object_get(json_object_get(golden, "networks"), name);
    for (int p = 0; p < 2; p++) {
        int in_turn = strcmp(name, "in-turn") == 0;
        came_out one =
            in_turn ? train_in_turn(alone, network, 1, precisions[p]) : train(alone, name, network, 1, precisions[p]);
        CHECK(comm, strlen(one.digest) == 64);
        for (int replicas = 1; replicas <= 2 && replicas * comm->size <= 6; replicas++) {
            came_out all = in_turn ? train_in_turn(context, network, replicas, precisions[p])
                                   : train(context, name, network, replicas, precisions[p]);
            CHECK(comm, strcmp(all.digest, one.digest) == 0);
            CHECK(comm, all.count == one.count);
            for (int i = 0; i < one.count; i++) CHECK(comm, isfinite(one.values[i]) && all.values[i] == one.values[i]);
        }
    }
    if (strcmp(name, "multi-label") != 0) return;
    const json_t *after = json_object_get(network, "after");
    came_out one = train(alone, name, network, 1, "fp32");  // "loss", "auc", "auc/0", ..., "binary_accuracy"
    CHECK(comm, one.count == 17);
    CHECK(comm, fabs(one.values[1] - json_number_value(json_object_get(after, "mean_area"))) < 1e-12);
    CHECK(comm, fabs(one.values[16] - json_number_value(json_object_get(after, "accuracy"))) < 1e-12);
}

static void test_all(ls_context *context, ls_context *alone) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/networks.json", LS_GOLDEN_DIR);
    json_t *golden = json_load_file(path, 0, &error);
    CHECK(context->comm, golden);
    test_network(context, alone, golden, "multi-label");
    test_network(context, alone, golden, "auto-encoder");
    test_network(context, alone, golden, "variational");
    test_network(context, alone, golden, "two-losses");
    test_network(context, alone, golden, "embedding");
    test_network(context, alone, golden, "small-parts");
    test_network(context, alone, golden, "volumes");
    test_network(context, alone, golden, "in-turn");
    json_decref(golden);
}

int main(void) {
    ls_context *world, *context, *alone;  // the first keeps MPI running
    MPI_Comm self = MPI_COMM_SELF;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    int running;
    MPI_Initialized(&running);
    if (running)
        CHECK_OK(world->comm, ls_context_create_with_comm(&self, &alone));
    else
        alone = world;
    test_all(world, alone);
    if (world->comm->size >= 2) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        CHECK(world->comm, context->comm->hosts == 2);
        test_all(context, alone);
        ls_context_destroy(&context);
    }
    if (alone != world) ls_context_destroy(&alone);
    ls_context_destroy(&world);
    return 0;
}
