// A lane that fails in the middle of an epoch, on one of several workers, replicas and hosts: nobody waits for it, all leave after the
// same step, and all are told who it was and why.
#define _GNU_SOURCE
#include <lockstep/checkpoint.h>
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "graph/plan_impl.h"
#include "train/context.h"
#include "train/trainer_impl.h"
#include "worker_check.h"

enum { REPLICAS = 2, FAILS_AT = 5 };

// What the kernel was, and how often it has run.
typedef struct failing {
    ls_kernel_ops ops;
    const ls_kernel_ops *real;
    int runs;
} failing;

static failing broken;

static ls_status fail_at_last(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    if (++broken.runs >= FAILS_AT) return LS_FAIL(LS_STATUS_BAD_DATA, "the kernel broke");
    return broken.real->run(kernel, queue, args);
}

// What fails, and with it whether gradients are exchanged behind backward: then what comes after the vote is told one step later.
typedef enum where { FORWARD, BACKWARD, EVALUATION } where;

// The first kernel of that replica's plan, or the last, fails from its run number FAILS_AT on; of evaluation at once. Returns the kernel.
static ls_kernel *break_kernel(ls_trainer *t, int replica, where at) {
    ls_plan *plan = t->replica[replica].plan[at == EVALUATION ? LS_PLAN_KIND_EVALUATE : LS_PLAN_KIND_TRAIN];
    ls_kernel *kernel = plan->steps[at == BACKWARD ? plan->step_count - 1 : 0].kernel;
    broken = (failing){.ops = *kernel->ops, .real = kernel->ops, .runs = at == EVALUATION ? FAILS_AT - 1 : 0};
    broken.ops.run = fail_at_last;
    kernel->ops = &broken.ops;
    return kernel;
}

static int steps_seen;

static ls_status count_steps(void *user, const ls_step_report *step, int *stop) {
    steps_seen++;
    return LS_OK;
}

static void fails(ls_context *context, const ls_graph *graph, ls_dataset *data, const char *strategy, int worker,
                  int replica, where at) {
    int evaluation = at == EVALUATION;
    ls_comm *comm = context->comm;
    ls_trainer *t;
    ls_kernel *kernel = NULL;
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref";
    c.strategy = strategy;
    c.batch_size = 24, c.micro_batch = 1, c.replicas = REPLICAS, c.bind = 0;
    c.epochs = 2, c.limit_train = 240, c.limit_test = 640;
    c.bucket_size = at == BACKWARD || (at == FORWARD && worker % 2) ? 0.01 : 0;
    CHECK_OK(comm, ls_trainer_create(context, graph, data, &c, &t));
    if (comm->position == worker) kernel = break_kernel(t, replica, at);
    steps_seen = 0;
    ls_callbacks callbacks = {.on_step = count_steps};
    ls_status status = evaluation ? ls_trainer_evaluate(t, NULL, NULL) : ls_trainer_fit(t, &callbacks);
    CHECK(comm, status == LS_STATUS_BAD_DATA);
    char words[400], host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(words, sizeof words, "worker %d on host %s: ", comm->order[worker], host);
    CHECK(comm, comm->size == 1 || strncmp(ls_error_message(), words, strlen(words)) == 0);
    CHECK(comm, strstr(ls_error_message(), "the kernel broke"));
    int all[64];
    CHECK_OK(comm, ls_comm_allgather(comm, &steps_seen, all, sizeof steps_seen));
    for (int w = 0; w < comm->size; w++) CHECK(comm, all[w] == steps_seen && (evaluation || steps_seen <= 5));
    if (kernel) kernel->ops = broken.real;
    ls_trainer_destroy(&t);
}

// A backward that fails after the votes of its step: of that step no checkpoint is taken, and the one before is kept for it.
static void keeps_good(ls_context *context, const ls_graph *graph, ls_dataset *data) {
    ls_comm *comm = context->comm;
    ls_trainer *t;
    ls_train_config c;
    ls_checkpoint_config k;
    ls_checkpoint_costs costs;
    char folder[64] = "failing_lane.XXXXXX", command[128];
    if (comm->rank == 0) CHECK(comm, mkdtemp(folder) != NULL);
    CHECK_OK(comm, ls_comm_broadcast(comm, folder, sizeof folder, LS_DTYPE_U8, 0));
    ls_train_config_init(&c);
    c.device = "ref";
    c.batch_size = 24, c.micro_batch = 1, c.replicas = 1, c.bind = 0, c.evaluate = 0;
    c.epochs = 1, c.limit_train = 240, c.bucket_size = 0.01;
    CHECK_OK(comm, ls_trainer_create(context, graph, data, &c, &t));
    ls_checkpoint_config_init(&k);
    k.folder = folder, k.every_steps = 1, k.every_epochs = 0, k.every_seconds = 0, k.keep = 1;
    CHECK_OK(comm, ls_trainer_checkpoints(t, &k));
    int64_t begin, end;
    ls_mesh_deal_lane(ls_engine_mesh(t->engine), 24, comm->position, &begin, &end);
    ls_kernel *kernel = comm->rank == 0 ? break_kernel(t, 0, BACKWARD) : NULL;
    broken.runs = FAILS_AT - 2 * (int)(end - begin);  // the last of the second step
    CHECK(comm, ls_trainer_fit(t, NULL) == LS_STATUS_BAD_DATA);
    ls_trainer_checkpoint_wait(t);
    costs = ls_trainer_checkpoint_costs(t);
    CHECK(comm, comm->rank != 0 || costs.written == 1);
    snprintf(command, sizeof command, "test -d %s/step-000000001 && rm -r %s", folder, folder);
    if (kernel) kernel->ops = broken.real;
    ls_trainer_destroy(&t);
    CHECK(comm, comm->rank != 0 || system(command) == 0);
}

// Computes a little otherwise than the real one: as a kernel of another library would.
static ls_status differ(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    LS_TRY(broken.real->run(kernel, queue, args));
    float *y = ls_span_host(args[LS_ARG_Y]);
    y[0] += 0.125f;
    return LS_OK;
}

static void probe_differs(ls_trainer *t) {
    ls_status status = ls__probe(t);
    CHECK(t->comm, status == (t->comm->hosts > 1 ? LS_STATUS_MISMATCH : LS_OK));
    CHECK(t->comm, status == LS_OK || strstr(ls_error_message(), "compute different gradients from the same micro-"));
}

static void break_first(ls_trainer *t, int worker, int broke) {
    ls_kernel *kernel = t->replica[0].plan[LS_PLAN_KIND_TRAIN]->steps[0].kernel;
    if (t->comm->position != worker) return;
    if (broke) {
        broken = (failing){.ops = *kernel->ops, .real = kernel->ops};
        broken.ops.run = differ;
    }
    kernel->ops = broke ? &broken.ops : broken.real;
}

// A kernel that changes in a running process is what no key can tell: it shows who has computed, and who has read a file.
static void probe_is_kept(ls_trainer *t, int worker) {
    char home[] = "/tmp/lockstep-probe-XXXXXX", command[200];
    ls_comm *comm = t->comm;
    CHECK(comm, mkdtemp(home) != NULL);
    setenv("XDG_CACHE_HOME", home, 1);
    setenv("LOCKSTEP_PROBE_SECONDS", "0", 1);
    break_first(t, worker, 1);
    probe_differs(t);
    probe_differs(t);  // what differed was not kept
    break_first(t, worker, 0);
    CHECK_OK(comm, ls__probe(t));
    break_first(t, worker, 1);
    CHECK_OK(comm, ls__probe(t));  // of the file
    static const char *const others[][2] = {
        {"LOCKSTEP_PROBE_SECONDS", "never"}, {"LOCKSTEP_PROBE_SECONDS", "often"}, {"ONEDNN_VERBOSE", "0"}};
    for (int i = 0; i < 3; i++) {
        setenv(others[i][0], others[i][1], 1);
        probe_differs(t);
        if (i == 2) unsetenv(others[i][0]);
        setenv("LOCKSTEP_PROBE_SECONDS", "0", 1);
        CHECK_OK(comm, ls__probe(t));
    }
    // Of one worker the file is not there, is cut off, or says something else: all compute.
    static const char *const damage[] = {"rm", "truncate -s 100", "sed -i 's/ .*/ none/'",
                                         "sed -i 's/ [0-9]/ a/;t;s/ [a-f]/ 0/'"};
    for (int i = 0; i < 4; i++) {
        snprintf(command, sizeof command, "%s %s/lockstep/probe-*", damage[i], home);
        CHECK(comm, comm->hosts == 1 || comm->position != worker || system(command) == 0);
        probe_differs(t);
        break_first(t, worker, 0);
        CHECK_OK(comm, ls__probe(t));  // and a good file replaces it
        break_first(t, worker, 1);
        CHECK_OK(comm, ls__probe(t));
    }
    break_first(t, worker, 0);
    snprintf(command, sizeof command, "rm -r %s", home);
    CHECK(comm, system(command) == 0);
    setenv("LOCKSTEP_PROBE_SECONDS", "never", 1);
}

// Hosts whose kernels differ are found before training; those whose kernels are alike leave no trace of having been asked.
static void probe(ls_context *context, const ls_graph *graph, ls_dataset *data, int worker) {
    ls_comm *comm = context->comm;
    ls_trainer *t;
    ls_train_result before, after;
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref";
    c.batch_size = 24, c.micro_batch = 4, c.replicas = 1, c.bind = 0;
    c.epochs = 1, c.limit_train = 48, c.limit_test = 8;
    CHECK_OK(comm, ls_trainer_create(context, graph, data, &c, &t));
    CHECK_OK(comm, ls_trainer_result(t, &before));
    CHECK(comm, (before.probe[0] != 0) == (comm->hosts > 1));
    CHECK_OK(comm, ls__probe(t));
    CHECK_OK(comm, ls_trainer_result(t, &after));
    CHECK(comm, strcmp(before.probe, after.probe) == 0 && strcmp(before.weights_digest, after.weights_digest) == 0);
    break_first(t, worker, 1);
    probe_differs(t);
    break_first(t, worker, 0);
    probe_is_kept(t, worker);
    CHECK_OK(comm, ls_trainer_fit(t, NULL));
    ls_trainer_destroy(&t);
}

// A callback that fails, or stops, in its fourth step or at the end of the first epoch, on the worker *user names.
static ls_status fail_in_step(void *user, const ls_step_report *step, int *stop) {
    steps_seen++;
    if (*(const int *)user != step->rank || step->step < 4) return LS_OK;
    return LS_FAIL(LS_STATUS_NOT_FOUND, "the callback broke");
}

static ls_status fail_in_epoch(void *user, const ls_epoch_result *epoch, int *stop) {
    return *(const int *)user ? LS_FAIL(LS_STATUS_NOT_FOUND, "the callback broke") : LS_OK;
}

static ls_status stop_in_step(void *user, const ls_step_report *step, int *stop) {
    steps_seen++;
    *stop = *(const int *)user == step->rank && step->step == 4;
    return LS_OK;
}

static ls_status stop_in_epoch(void *user, const ls_epoch_result *epoch, int *stop) {
    *stop = *(const int *)user;
    return LS_OK;
}

static void callbacks_of_one(ls_context *context, const ls_graph *graph, ls_dataset *data, int rank) {
    ls_comm *comm = context->comm;
    ls_trainer *t;
    ls_train_result r;
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref";
    c.batch_size = 24, c.micro_batch = 1, c.replicas = REPLICAS, c.bind = 0;
    c.epochs = 3, c.limit_train = 240, c.evaluate = 0;
    c.bucket_size = rank % 2 ? 0.01 : 0;
    int this_one = comm->rank == rank;
    CHECK_OK(comm, ls_trainer_create(context, graph, data, &c, &t));
    steps_seen = 0;
    CHECK_OK(comm, ls_trainer_fit(t, &(ls_callbacks){.user = &rank, .on_step = stop_in_step}));
    CHECK(comm, steps_seen == 5);
    CHECK_OK(comm, ls_trainer_fit(t, &(ls_callbacks){.user = &this_one, .on_epoch = stop_in_epoch}));
    CHECK_OK(comm, ls_trainer_result(t, &r));
    CHECK(comm, r.epochs == 1 && r.epoch[0].steps == 10);
    steps_seen = 0;
    CHECK(comm, ls_trainer_fit(t, &(ls_callbacks){.user = &rank, .on_step = fail_in_step}) == LS_STATUS_NOT_FOUND);
    CHECK(comm, strstr(ls_error_message(), "the callback broke") && steps_seen == 4);
    CHECK(comm,
          ls_trainer_fit(t, &(ls_callbacks){.user = &this_one, .on_epoch = fail_in_epoch}) == LS_STATUS_NOT_FOUND);
    CHECK(comm, strstr(ls_error_message(), "the callback broke"));
    ls_trainer_destroy(&t);
}

static void test_hosts(ls_context *context) {
    ls_comm *comm = context->comm;
    ls_dataset *data;
    ls_graph *graph;
    CHECK_OK(comm, ls_dataset_open(context, "digits", &data));
    CHECK_OK(comm, ls_graph_create("small", LS_SHAPE(28, 28, 1), &graph));
    ls_value x = ls_flatten(graph, ls_graph_input(graph), NULL);
    CHECK_OK(comm, ls_graph_finish(graph, ls_dense(graph, x, &(ls_dense_attrs){.units = 10})));
    for (const ls_strategy *s = ls_strategies(); s->name; s++) {
        ls_mesh roles = ls_mesh_plain(comm->size, REPLICAS, 0);
        if (ls_strategy_assign(s, comm->size, &roles.servers) != LS_OK) continue;
        for (int worker = 0; worker < comm->size; worker++)
            for (int replica = 0; replica < REPLICAS && ls_mesh_server(&roles, worker) < 0; replica++)
                fails(context, graph, data, s->name, worker, replica, (worker + replica) % 2 ? BACKWARD : FORWARD);
    }
    fails(context, graph, data, "allreduce", comm->size - 1, 1, EVALUATION);
    for (int rank = 0; rank < comm->size; rank++) callbacks_of_one(context, graph, data, rank);
    probe(context, graph, data, comm->size - 1);
    keeps_good(context, graph, data);
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&data);
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    test_hosts(world);
    for (int hosts = 2; hosts <= 3 && hosts <= world->comm->size; hosts++) {
        setenv("LOCKSTEP_TEST_HOSTS", hosts == 2 ? "2" : "3", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        CHECK(world->comm, context->comm->hosts == hosts);
        test_hosts(context);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
