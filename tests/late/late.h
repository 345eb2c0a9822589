// A device of the tests that is as unlike the host as can be: what trains on it will train on an accelerator.
//
// It computes as device ref does. But the addresses of its buffers lead nowhere: who reads or writes there from the host is killed. Its
// queues do nothing until somebody waits for a queue or an event; then a thread of the device's own does what may be done next
// in any of its queues, in an order drawn by LOCKSTEP_LATE_SEED (environment), until nobody waits any more. Host memory that a copy
// names is looked at only then. To destroy what a queue still has work for ends the process.
//
// A program that is linked with late.c has it as --device late.
#ifndef LS_TESTS_LATE_LATE_H
#define LS_TESTS_LATE_LATE_H

#include "device/device.h"

extern const ls_device_ops ls_device_late;

#endif
