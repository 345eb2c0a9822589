// Forward that begins before the last weights are home: on any number of workers, replicas and hosts, with strategies that differ in how weights come,
// in fp32 and bf16, the weights are those of steps that end with all of them; and whoever looks between two steps sees whole ones.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>
#include <lockstep/comm.h>
#include <lockstep/lockstep.h>

#include "graph/plan_impl.h"
#include "slow_engine.h"
#include "train/context.h"
#include "train/trainer_impl.h"
#include "worker_check.h"

enum { EPOCHS = 2, STEPS = 5, KERNEL = 3 * 3 * 4, ACTIONS = 6 };

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_dataset *data;
    ls_graph *graph;
    char folder[64];
} job;

// What is the same whoever computes it: after each step the first layer's weights and the digest, and what epochs came to.
typedef struct outcome {
    float kernel[EPOCHS * STEPS][KERNEL];
    char digest[EPOCHS * STEPS][65];
    double loss[EPOCHS], val_loss[EPOCHS];
    int there;  // 0: this machine has not the precision
} outcome;

static ls_graph *network(const job *j) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("early", LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_conv2d(
        g, ls_graph_input(g),
        &(ls_conv2d_attrs){
            .name = "first", .filters = 4, .kernel = {3, 3}, .strides = {2, 2}, .activation = LS_ACTIVATION_RELU});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){0});
    x = ls_dropout(g, ls_flatten(g, x, NULL), &(ls_dropout_attrs){.rate = 0.2f});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 48, .activation = LS_ACTIVATION_RELU});
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 10})));
    return g;
}

typedef struct way {
    const char *strategy, *precision;
    int replicas, servers;
    double bucket_size;
} way;

static ls_status create(const job *j, const way *w, int early, ls_trainer **out) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.strategy = w->strategy, c.precision = w->precision, c.replicas = w->replicas, c.servers = w->servers;
    c.bucket_size = w->bucket_size, c.early_forward = early;
    c.batch_size = 24, c.micro_batch = 2, c.bind = 0, c.threads = 1;
    c.epochs = EPOCHS, c.limit_train = 24 * STEPS - 7, c.limit_test = 30,
    c.validate = 1;  // the last step is a shorter one
    c.optimizer = "adam", c.lr = 0.01, c.augment = "crop";
    return ls_trainer_create(j->context, j->graph, j->data, &c, out);
}

static void get_kernel(const job *j, ls_trainer *t, float out[KERNEL]) {
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "first/kernel", out, KERNEL));
}

static void get_digest(const job *j, ls_trainer *t, char out[65]) {
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    memcpy(out, r.weights_digest, 65);
}

// Between two steps: looks at weights, communicates, takes a checkpoint, or does nothing at all.
static void act(const job *j, ls_trainer *t, int number, int action, const outcome *expected) {
    float kernel[KERNEL];
    char digest[65];
    int32_t one = 1, sum;
    ls_group *group;
    switch (action) {
    case 0: break;
    case 1:
        get_kernel(j, t, kernel);
        CHECK(j->comm, memcmp(kernel, expected->kernel[number], sizeof kernel) == 0);
        break;
    case 2:
        get_digest(j, t, digest);
        CHECK(j->comm, strcmp(digest, expected->digest[number]) == 0);
        break;
    case 3: CHECK_OK(j->comm, ls_context_barrier(j->context)); break;
    case 4:
        CHECK_OK(j->comm, ls_group_create(j->context, &group));
        CHECK_OK(j->comm, ls_group_all_reduce(group, &one, &sum, 1, LS_DTYPE_I32, LS_REDUCE_SUM));
        CHECK(j->comm, sum == j->comm->size);
        ls_group_destroy(&group);
        break;
    case 5:
        if (t->at.step == t->train_shape.steps) break;  // the end of the epoch is to take it
        CHECK_OK(j->comm, ls_trainer_checkpoint_now(t));
        break;
    }
    CHECK(j->comm, action == 0 || action == 5 || !t->comm->away.home);
}

// What earlier trainings have left in the folder, or the folder with it.
static void clear(const job *j, const char *what) {
    char command[128];
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
    snprintf(command, sizeof command, "rm -rf %s%s", j->folder, what);
    if (j->comm->rank == 0) CHECK(j->comm, system(command) == 0);
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
}

static void train(const job *j, const way *w, int early, int shift, const outcome *expected, outcome *out) {
    ls_trainer *t;
    memset(out, 0, sizeof *out);
    ls_status status = create(j, w, early, &t);
    if (status == LS_STATUS_UNSUPPORTED && strcmp(w->precision, "bf16") == 0) return;
    CHECK_OK(j->comm, status);
    CHECK(j->comm, ls_engine_is_early(t->engine) == early && (t->bucket_count > 1) == (w->bucket_size > 0));
    out->there = 1;
    if (early) slow_engine(t->engine);
    clear(j, "/*");
    ls_checkpoint_config checkpoints;
    ls_checkpoint_config_init(&checkpoints);
    checkpoints.folder = j->folder, checkpoints.every_steps = 0;
    CHECK_OK(j->comm, ls_trainer_checkpoints(t, &checkpoints));
    for (int epoch = 0, number = 0; epoch < EPOCHS; epoch++) {
        CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
        for (; ls_trainer_steps_left(t) > 0; number++) {
            CHECK_OK(j->comm, ls_trainer_step(t, NULL));
            CHECK(j->comm, (t->comm->away.home != NULL) == early);
            if (early) {
                act(j, t, number, (number + shift) % ACTIONS, expected);
            } else {
                get_kernel(j, t, out->kernel[number]);
                get_digest(j, t, out->digest[number]);
            }
        }
        ls_epoch_result e;
        CHECK_OK(j->comm, ls_trainer_end_epoch(t, &e));
        CHECK(j->comm, number == STEPS * (epoch + 1) && !t->comm->away.home);
        out->loss[epoch] = e.loss, out->val_loss[epoch] = e.val_loss;
    }
    int last = EPOCHS * STEPS - 1;
    get_kernel(j, t, out->kernel[last]);
    get_digest(j, t, out->digest[last]);
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    CHECK(j->comm, r.buckets == t->bucket_count);
    ls_trainer_destroy(&t);
}

static void check_same(const job *j, const outcome *a, const outcome *b) {
    int last = EPOCHS * STEPS - 1;
    CHECK(j->comm, a->there == b->there);
    if (!a->there) return;
    CHECK(j->comm, strlen(a->digest[last]) == 64 && strcmp(a->digest[last], b->digest[last]) == 0);
    CHECK(j->comm, memcmp(a->kernel[last], b->kernel[last], sizeof a->kernel[last]) == 0);
    CHECK(j->comm, memcmp(a->loss, b->loss, sizeof a->loss) == 0);
    CHECK(j->comm, memcmp(a->val_loss, b->val_loss, sizeof a->val_loss) == 0);
}

// What an engine cannot, or is told not to, it does not; nor where the program may use MPI itself between two steps.
static void refused(const job *j) {
    ls_trainer *t;
    ls_train_config c;
    static const char *const optimizers[] = {"adam", "adam", "lamb", "adam"};
    for (int i = 0; i < 4; i++) {
        ls_train_config_init(&c);
        c.batch_size = 24, c.micro_batch = 2, c.bind = 0, c.replicas = c.threads = 1, c.limit_train = 48;
        c.bucket_size = 0.02, c.optimizer = optimizers[i], c.clip_norm = i == 0, c.limit_test = 10, c.device = "ref";
        c.not_finite = i == 1 ? "skip" : "stop";
        int between = j->comm->between;
        if (i == 3) j->comm->between = 0;
        CHECK_OK(j->comm, ls_trainer_create(j->context, j->graph, j->data, &c, &t));
        j->comm->between = between;
        CHECK(j->comm, t->bucket_count > 1 && !ls_engine_is_early(t->engine));
        CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
        CHECK_OK(j->comm, ls_trainer_step(t, NULL));
        CHECK(j->comm, !t->comm->away.home);
        ls_trainer_destroy(&t);
    }
}

// A kernel that sleeps before it reads.
typedef struct late_kernel {
    ls_kernel_ops ops;  // first: a kernel's ops are one of these
    const ls_kernel_ops *real;
} late_kernel;

static ls_status run_late(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    nanosleep(&(struct timespec){0, 1500000}, NULL);
    return ((const late_kernel *)kernel->ops)->real->run(kernel, queue, args);
}

// All kernels of backward that read working copies of weights. Returns how many.
static int make_late(ls_trainer *t, late_kernel late[16], ls_kernel *kernels[16]) {
    const ls_plan *plan = t->replica[0].plan[LS_PLAN_KIND_TRAIN];
    int count = 0;
    for (int i = plan->forward_count; i < plan->step_count && count < 16; i++)
        for (int a = 0; a < LS_ARG_COUNT; a++) {
            if (plan->steps[i].arg[a].place != LS_PLACE_COPY) continue;
            ls_kernel *kernel = kernels[count] = plan->steps[i].kernel;
            late[count] = (late_kernel){.ops = *kernel->ops, .real = kernel->ops};
            late[count].ops.run = run_late;
            kernel->ops = &late[count++].ops;
            break;
        }
    return count;
}

// Layers whose biases are as long as several buckets: once those of one are handed over, its weights could be written while its backward of data,
// which comes after that of weights, still reads the copy.
static ls_graph *wide_network(const job *j) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("wide", LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_flatten(g, ls_graph_input(g), NULL);
    for (int i = 0; i < 4; i++)
        x = ls_dense(g, x, &(ls_dense_attrs){.units = i % 2 ? 512 : 8, .activation = LS_ACTIVATION_RELU});
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 10})));
    return g;
}

// On one host, where nothing is waited for but lanes: backward may be as slow as it likes to read weights, they are those of its own step.
static void late_readers(const job *in) {
    job j = *in;
    late_kernel late[16];
    ls_kernel *kernels[16];
    ls_trainer *t;
    char digest[2][65];
    j.graph = wide_network(&j);
    for (int early = 0; early < 2; early++) {
        const way w = {"allreduce", "bf16", 1, 0, early ? 0.001 : 0};
        int count = 0;
        CHECK_OK(j.comm, create(&j, &w, early, &t));
        CHECK(j.comm, ls_engine_is_early(t->engine) == early);
        if (early) count = make_late(t, late, kernels);
        CHECK(j.comm, !early || count >= 4);
        CHECK_OK(j.comm, ls_trainer_begin_epoch(t));
        for (int step = 0; step < 3; step++) CHECK_OK(j.comm, ls_trainer_step(t, NULL));
        get_digest(&j, t, digest[early]);
        for (int i = 0; i < count; i++) kernels[i]->ops = late[i].real;
        ls_trainer_destroy(&t);
    }
    CHECK(j.comm, strcmp(digest[0], digest[1]) == 0);
    ls_graph_destroy(&j.graph);
}

// Calls that communicate without looking at weights: a parameter that nobody knows, and what is destroyed by all together.
static void others(const job *j) {
    static float weights[3], gradients[3];
    const way w = {"allreduce", "fp32", 1, 0, 0.005};
    ls_exchange_parameter parameter = {.name = "w", .count = 3, .weights = weights, .gradient = gradients};
    ls_exchange_config c;
    ls_exchange_config_init(&c);
    c.parameters = &parameter, c.parameter_count = 1, c.micro_batches = j->comm->size;
    ls_dataset *data;
    ls_exchange *exchange;
    ls_trainer *t;
    CHECK_OK(j->comm, ls_dataset_open(j->context, "digits", &data));
    CHECK_OK(j->comm, ls_exchange_create(j->context, &c, &exchange));
    CHECK_OK(j->comm, create(j, &w, 1, &t));
    slow_engine(t->engine);
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    for (int i = 0; i < 3; i++) {
        CHECK_OK(j->comm, ls_trainer_step(t, NULL));
        CHECK(j->comm, t->comm->away.home != NULL);
        if (i == 0)
            CHECK(j->comm, ls_trainer_set_weights(t, "nobody/kernel", weights, 3) == LS_STATUS_NOT_FOUND);
        else if (i == 1)
            ls_dataset_destroy(&data);
        else
            ls_exchange_destroy(&exchange);
        CHECK(j->comm, !t->comm->away.home);
    }
    ls_trainer_destroy(&t);
}

// What a step returned before its weights were lost in is good; who then asks for them is told, and what was saved before stays as it was.
static void lost(const job *j) {
    const way w = {"allreduce", "fp32", 1, 0, 0.02};
    char path[96], before[64] = "", after[64] = "";
    float kernel[KERNEL];
    ls_train_result r;
    ls_trainer *t;
    snprintf(path, sizeof path, "%s/lost.%d", j->folder, j->comm->rank);
    FILE *file = fopen(path, "w");
    CHECK(j->comm, file && fputs("what was good", file) >= 0 && fclose(file) == 0);
    CHECK_OK(j->comm, create(j, &w, 1, &t));
    losing_engine(t->engine);
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    ls_status status = ls_trainer_step(t, NULL);
    CHECK(j->comm, status == LS_OK || status == LS_STATUS_LIBRARY);
    CHECK(j->comm, ls_trainer_get_weights(t, "first/kernel", kernel, KERNEL) == LS_STATUS_LIBRARY);
    CHECK(j->comm, strstr(ls_error_message(), "the message was lost"));
    CHECK(j->comm, ls_trainer_result(t, &r) == LS_STATUS_LIBRARY);
    CHECK(j->comm, ls_trainer_save_weights(t, path) == LS_STATUS_LIBRARY);
    snprintf(before, sizeof before, "what was good");
    file = fopen(path, "r");
    CHECK(j->comm, file && fgets(after, sizeof after, file) && fclose(file) == 0 && strcmp(before, after) == 0);
    ls_trainer_destroy(&t);
}

// Two networks that train the same weights in turn: each waits for what the other has left away.
static void in_turn(const job *j) {
    char digests[2][65];
    for (int early = 0; early < 2; early++) {
        const way w = {"allreduce", "fp32", 1, 0, 0.02};
        ls_trainer *t[2];
        for (int i = 0; i < 2; i++) CHECK_OK(j->comm, create(j, &w, early, &t[i]));
        for (int i = 0; i < 2; i++) CHECK_OK(j->comm, ls_trainer_begin_epoch(t[i]));
        for (int step = 0; step < 2 * STEPS; step++) {
            CHECK_OK(j->comm, ls_trainer_step(t[step % 2], NULL));
            CHECK(j->comm, t[0]->comm->away.user == (early ? t[step % 2] : NULL));
        }
        get_digest(j, t[0], digests[early]);
        for (int i = 0; i < 2; i++) ls_trainer_destroy(&t[i]);
    }
    CHECK(j->comm, strcmp(digests[0], digests[1]) == 0);
}

static void test_hosts(const job *j, const outcome expected[2]) {
    static const way ways[] = {{"allreduce", "bf16", 2, 0, 0.02},
                               {"allreduce", "fp32", 1, 0, 0.005},
                               {"tree", "fp32", 2, 0, 0.02},
                               {"parameter-server", "bf16", 1, 1, 0.02},
                               {"reduce-broadcast", "fp32", 2, 0, 0.03}};
    static outcome o;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (ways[i].servers >= j->comm->size) continue;
        if (j->comm->size > 1 && (i + (size_t)j->comm->hosts) % 2) continue;  // each on some hosts
        const outcome *e = &expected[strcmp(ways[i].precision, "bf16") == 0];
        if (!e->there) continue;
        train(j, &ways[i], 1, (int)i, e, &o);
        check_same(j, &o, e);
    }
    if (j->comm->hosts == j->comm->size) in_turn(j);
    if (j->comm->hosts == j->comm->size) others(j);
    if (j->comm->hosts == 2 && j->comm->size == 2) lost(j);
}

int main(void) {
    static outcome expected[2];
    ls_context *world;  // keeps MPI running
    alarm(300);
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    job j = {.context = world, .comm = world->comm, .folder = "early_forward.XXXXXX"};
    if (j.comm->rank == 0) CHECK(j.comm, mkdtemp(j.folder) != NULL);
    CHECK_OK(j.comm, ls_comm_broadcast(j.comm, j.folder, sizeof j.folder, LS_DTYPE_U8, 0));
    for (int hosts = 1; hosts <= 3 && hosts <= world->comm->size; hosts++) {
        char text[8];
        snprintf(text, sizeof text, "%d", hosts);
        setenv("LOCKSTEP_TEST_HOSTS", text, 1);
        if (hosts > 1) CHECK_OK(world->comm, ls_context_create(&j.context));
        j.comm = j.context->comm;
        CHECK(j.comm, j.comm->hosts == hosts && j.comm->between);
        CHECK_OK(j.comm, ls_dataset_open(j.context, "digits", &j.data));
        j.graph = network(&j);
        if (hosts == 1) {
            train(&j, &(way){"allreduce", "fp32", 1, 0, 0}, 0, 0, NULL, &expected[0]);
            train(&j, &(way){"allreduce", "bf16", 1, 0, 0}, 0, 0, NULL, &expected[1]);
            if (expected[1].there) late_readers(&j);
        }
        if (hosts == world->comm->size) refused(&j);
        test_hosts(&j, expected);
        ls_graph_destroy(&j.graph);
        ls_dataset_destroy(&j.data);
        if (hosts > 1) ls_context_destroy(&j.context);
    }
    j.context = world, j.comm = world->comm;
    clear(&j, "");
    ls_context_destroy(&world);
    return 0;
}
