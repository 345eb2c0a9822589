// The communicators, as real processes: who is who, exchanging bytes, memory of a host, agreeing on failures.
#include <mpi.h>

#include "comm_checks.h"

// Which job a process is part of is read from its environment. Last, since it spoils that.
static void test_launchers(ls_comm *c) {
    const char *const names[] = {
        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMIX_RANK",           "PMI_RANK", "PMI_SIZE",
        "MPI_LOCALNRANKS",      "SLURM_STEP_ID",        "SLURM_STEP_NUM_TASKS"};
    ls_comm *other;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) unsetenv(names[i]);
    CHECK_OK(c, ls_comm_create(&other));
    CHECK(c, strcmp(other->ops->name, "self") == 0 && ls_comm_launch_rank() == 0);
    ls_comm_destroy(&other);
    setenv("SLURM_STEP_ID", "0", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "3", 1);
    CHECK(c, ls_comm_create(&other) == LS_STATUS_UNSUPPORTED && other == NULL);
    CHECK(c, strstr(ls_error_message(), "--mpi=pmix") && ls_comm_launch_rank() == 3);
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    CHECK_OK(c, ls_comm_create(&other));
    CHECK(c, other->size == 1);
    ls_comm_destroy(&other);
    setenv("PMI_RANK", "2", 1);
    setenv("PMI_SIZE", "7", 1);
    CHECK(c, ls_comm_launch_rank() == 2);
    if (c->size == 1) {  // seven were started, this one sees itself only
        CHECK(c, ls_comm_create(&other) == LS_STATUS_UNSUPPORTED && other == NULL);
        CHECK(c, strstr(ls_error_message(), "another MPI"));
    }
}

// Nine workers that are only planned on two hosts: who is who, and nothing else.
static void test_planned(ls_comm *c) {
    ls_comm *p;
    int here = 0;
    CHECK_OK(c, ls_comm_create_planned(9, 2, 0, &p));
    CHECK(c, p->size == 9 && p->hosts == 2 && p->rank == 0 && p->host == 0 && p->local_rank == 0 && p->position == 0);
    for (int r = 0; r < 9; r++) {
        here += p->host_of[r] == 0;
        CHECK(c, p->order[r] == r && (r == 0 || p->host_of[r] >= p->host_of[r - 1]));
    }
    CHECK(c, here == 5 && p->local_size == 5);
    CHECK(c, ls_comm_barrier(p) == LS_STATUS_INTERNAL);
    ls_shared *shared;
    CHECK(c, ls_comm_host_alloc(p, 100, &shared) == LS_STATUS_INTERNAL);
    ls_comm_destroy(&p);
    CHECK(c, ls_comm_create_planned(2, 3, 0, &p) == LS_STATUS_INVALID_ARGUMENT && !p);
    CHECK(c, ls_comm_create_planned(0, 0, 0, &p) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(c, ls_comm_create_planned(2, 1, 2, &p) == LS_STATUS_INVALID_ARGUMENT);
}

// A communicator of the caller's: here every second worker of one. MPI goes on when it is gone.
static void test_given(ls_comm *world) {
    ls_comm *c;
    MPI_Comm half, none = MPI_COMM_NULL;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK(world, ls_comm_create_from(&none, &c) == LS_STATUS_INVALID_ARGUMENT && !c);
    CHECK(world, strstr(ls_error_message(), "MPI_COMM_NULL"));
    CHECK(world, MPI_Comm_split(MPI_COMM_WORLD, world->rank % 2, world->rank, &half) == MPI_SUCCESS);
    CHECK_OK(world, ls_comm_create_from(&half, &c));
    CHECK(world, c->size == (world->size + (world->rank % 2 == 0)) / 2 && c->rank == world->rank / 2);
    test_everything(c, 1);
    ls_comm_destroy(&c);
    CHECK(world, MPI_Comm_free(&half) == MPI_SUCCESS);
}

int main(void) {
    ls_comm *world, *self, *c;
    CHECK((ls_comm *)NULL, ls_comm_create_from(&(MPI_Comm){MPI_COMM_WORLD}, &c) == LS_STATUS_INVALID_ARGUMENT && !c);
    CHECK((ls_comm *)NULL, strstr(ls_error_message(), "MPI_Init_thread"));
    unsetenv("LOCKSTEP_TEST_HOSTS");
    int rank = ls_comm_launch_rank();
    if (ls_comm_create(&world) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    CHECK(world, rank == world->rank && strcmp(world->ops->name, "mpi") == 0);
    test_everything(world, 1);
    // Communicators beside the first one share its MPI.
    for (int hosts = 2; hosts <= 3; hosts++) {
        char text[16];
        snprintf(text, sizeof text, "%d", hosts);
        setenv("LOCKSTEP_TEST_HOSTS", text, 1);
        CHECK_OK(world, ls_comm_create(&c));
        test_everything(c, hosts);
        ls_comm_destroy(&c);
    }
    CHECK_OK(world, ls_comm_create_self(&self));
    CHECK(world, self->size == 1 && strcmp(self->ops->name, "self") == 0);
    // Files in /tmp of several selves have several names: the process id is in them.
    test_everything(self, 1);
    ls_comm_destroy(&self);
    test_given(world);
    test_planned(world);
    test_launchers(world);
    ls_comm_destroy(&world);
    CHECK(world, world == NULL);
    return 0;
}
