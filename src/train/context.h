// The context from inside: the communicator everything hangs off.
#ifndef LS_TRAIN_CONTEXT_H
#define LS_TRAIN_CONTEXT_H

#include <lockstep/context.h>
#include <lockstep/data.h>

#include "comm/comm.h"

struct ls_context {
    ls_comm *comm;
    char communication[256];
    int64_t rss;  // resident in this process once the job was joined: the program and its libraries
};

// A context around the communicator that `how` makes of `of`. Errors: its own, OUT_OF_MEMORY.
ls_status ls__context_create(ls_status (*how)(const void *of, ls_comm **out), const void *of, ls_context **out);

// datasets.c. Keeps up to `limit` bytes of what is read of a dataset's files in the host's memory, unless it does already. Collective. Errors: OUT_OF_MEMORY.
ls_status ls__dataset_cache(ls_dataset *dataset, int64_t limit, int decoded);

#endif
