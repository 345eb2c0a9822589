// Lookahead: beside the weights that the optimizer moves, slow ones that follow them. Every so many steps
//     slow += a (fast - slow),  fast = slow,
// with a = 1 - (1 - step) t^power, t being the share of training that is done: constant with power 0, and with a larger power little in the
// beginning. After the last step of training the weights are the slow ones. Moving statistics are weights here, as any.
// Sources: Zhang, Lucas, Hinton and Ba, "Lookahead optimizer: k steps forward, 1 step back", NeurIPS 2019, algorithm 1; the power: Jordan,
// "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, whose is 3.
#ifndef LS_OPTIM_LOOKAHEAD_H
#define LS_OPTIM_LOOKAHEAD_H

#include <stdint.h>

#include "device/device.h"

#define LS_SLOW_WEIGHTS "slow_weights"  // what checkpoints call them

typedef struct ls_lookahead {
    int every;           // steps; 0: none
    double step, power;  // a at the end, above 0 and at most 1; at least 0
} ls_lookahead;

// Errors: INVALID_ARGUMENT.
ls_status ls_lookahead_check(const ls_lookahead *lookahead);
// How much of themselves slow weights keep, 1 - a, after step `step` (from 1) of `steps`; below 0: nothing is done after this one.
double ls_lookahead_keeps(const ls_lookahead *lookahead, int64_t step, int64_t steps);
// Of weights and slow ones, spans in this order.
void ls_lookahead_call(double keeps, ls_formula_call *out);

#endif
