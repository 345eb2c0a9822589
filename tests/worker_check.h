// Checks for tests of several workers: a worker that fails says so and ends the job, since the others wait for it.
#ifndef LS_TESTS_WORKER_CHECK_H
#define LS_TESTS_WORKER_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#include "comm/comm.h"

#define CHECK(comm, condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: worker %d: %s\n    latest failure: %s\n", __FILE__, __LINE__,                      \
                    (comm) ? (comm)->rank : -1, #condition, ls_error_message());                                       \
            if (comm) ls_comm_abort((comm), 1);                                                                        \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#define CHECK_OK(comm, call) CHECK((comm), (call) == LS_OK)

#endif
