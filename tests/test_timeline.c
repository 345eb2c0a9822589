// Clocks of several hosts, as real processes: here of one machine that count as several hosts, with clocks put wrong.
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "train/timeline.h"
#include "worker_check.h"

static double ahead;  // of the clock of this worker's host

static double wrong_clock(void) { return ls_clock() + ahead; }

static void offsets_are_found(int hosts) {
    char text[16];
    snprintf(text, sizeof text, "%d", hosts);
    setenv("LOCKSTEP_TEST_HOSTS", text, 1);
    ls_comm *c = NULL;
    CHECK_OK(c, ls_comm_create(&c));
    CHECK(c, c->hosts == (hosts < c->size ? hosts : c->size));
    ahead = 7 + 1000.0 * c->host;
    for (int i = 0; i < 3; i++) {
        double offset = -1, error = -1, all[8][2];
        CHECK_OK(c, ls__clock_offset(c, wrong_clock, &offset, &error));
        if (c->host == 0) CHECK(c, offset == 0 && error == 0);
        // The bound is a true one: a message takes at least no time.
        if (c->host != 0) CHECK(c, error > 0 && error < 1 && fabs(offset - 1000.0 * c->host) <= error + 1e-7);
        double mine[2] = {offset, error};
        CHECK_OK(c, ls_comm_allgather(c, mine, all, sizeof mine));
        for (int r = 0; r < c->size; r++)  // workers of one host agree
            if (c->host_of[r] == c->host) CHECK(c, all[r][0] == offset && all[r][1] == error);
    }
    ls_comm_destroy(&c);
}

int main(void) {
    ls_comm *world = NULL;  // keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK(world, ls_comm_create(&world));
    for (int hosts = 1; hosts <= 3; hosts++) offsets_are_found(hosts);
    ls_comm_destroy(&world);
    return 0;
}
