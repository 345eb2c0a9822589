// The context from inside: the communicator everything hangs off.
#ifndef LS_TRAIN_CONTEXT_H
#define LS_TRAIN_CONTEXT_H

#include <lockstep/context.h>

#include "comm/comm.h"

struct ls_context {
    ls_comm *comm;
    char communication[256];
    int64_t rss;  // resident in this process once the job was joined: the program and its libraries
};

#endif
