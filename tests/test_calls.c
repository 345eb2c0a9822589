// Collective calls that do not belong together: an error on every worker that names both, never a hang or other bytes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "train/context.h"
#include "worker_check.h"

static void says(const ls_comm *comm, const char *words) {
    if (strstr(ls_error_message(), words)) return;
    fprintf(stderr, "worker %d: expected \"%s\" in \"%s\"\n", comm->rank, words, ls_error_message());
    exit(1);
}

// One of them, the last, broadcasts where the others meet; sends another length; names another root.
static void mismatched(ls_comm *comm) {
    int32_t values[4] = {0};
    int odd = comm->rank == comm->size - 1;
    ls_status status = odd ? ls_comm_broadcast(comm, values, 3, LS_DTYPE_I32, 0) : ls_comm_barrier(comm);
    CHECK(comm, status == LS_STATUS_MISMATCH);
    says(comm, "worker 0 is in its collective call number ");
    says(comm, "a barrier, and worker ");
    says(comm, "3 elements of type ");
    says(comm, "from worker 0 to all: all workers have to make the same calls in the same order");
    CHECK(comm, ls_comm_broadcast(comm, values, odd ? 4 : 3, LS_DTYPE_I32, 0) == LS_STATUS_MISMATCH);
    CHECK(comm, ls_comm_broadcast(comm, values, 4, LS_DTYPE_I32, odd) == LS_STATUS_MISMATCH);
    says(comm, "from worker 1 to all");
    // What belongs together still does.
    values[0] = comm->rank;
    CHECK_OK(comm, ls_comm_broadcast(comm, values, 1, LS_DTYPE_I32, comm->size - 1));
    CHECK(comm, values[0] == comm->size - 1);
    CHECK_OK(comm, ls_comm_barrier(comm));
}

// By the functions that programs call.
static void mismatched_functions(ls_context *context) {
    ls_comm *comm = context->comm;
    ls_graph *graph;
    ls_dataset *data;
    ls_trainer *t;
    ls_train_config c;
    ls_train_config_init(&c);
    c.batch_size = 16, c.micro_batch = 2, c.limit_train = 32, c.limit_test = 8, c.replicas = 1, c.bind = 0,
    c.device = "ref";
    CHECK_OK(comm, ls_dataset_open(context, "digits", &data));
    CHECK_OK(comm, ls_graph_create("tiny", LS_SHAPE(28, 28, 1), &graph));
    ls_value x = ls_flatten(graph, ls_graph_input(graph), NULL);
    CHECK_OK(comm, ls_graph_finish(graph, ls_dense(graph, x, &(ls_dense_attrs){.units = 10})));
    CHECK_OK(comm, ls_trainer_create(context, graph, data, &c, &t));
    double loss;
    ls_status status = comm->rank == 1 ? ls_trainer_evaluate(t, &loss, NULL) : ls_trainer_begin_epoch(t);
    CHECK(comm, status == LS_STATUS_MISMATCH);
    says(comm, "ls_trainer_begin_epoch: ");
    says(comm, "worker 1 in its number ");
    says(comm, "ls_trainer_evaluate: ");
    CHECK_OK(comm, ls_trainer_evaluate(t, &loss, NULL));
    status = comm->rank == 1 ? ls_context_barrier(context) : ls_context_agree(context, LS_OK);
    CHECK(comm, status == LS_STATUS_MISMATCH);
    says(comm, "ls_context_barrier: a barrier");
    ls_trainer_destroy(&t);
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&data);
}

static void test_hosts(ls_context *context) {
    mismatched(context->comm);
    mismatched_functions(context);
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    if (world->comm->size > 1) {
        test_hosts(world);
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        test_hosts(context);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
