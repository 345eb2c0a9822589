// The context from inside: the communicator everything hangs off.
#ifndef LS_TRAIN_CONTEXT_H
#define LS_TRAIN_CONTEXT_H

#include <lockstep/train.h>

#include "comm/comm.h"

struct ls_context {
    ls_comm *comm;
};

#endif
