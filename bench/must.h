// What a benchmark does with a failure: it says it and ends.
#ifndef LS_BENCH_MUST_H
#define LS_BENCH_MUST_H

#include <lockstep/status.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "%s\n", ls_error_message());                                                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

#endif
