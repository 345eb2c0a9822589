// Which cores this worker may use, and how its replicas are bound to them: <lockstep/machine.h> for those that have a
// communicator and no context.
#ifndef LS_TRAIN_TOPOLOGY_H
#define LS_TRAIN_TOPOLOGY_H

#include <lockstep/machine.h>

#include "comm/comm.h"

// As ls_topology_create. Collective on comm.
ls_status ls__topology_create(ls_comm *comm, ls_topology **out);

#endif
