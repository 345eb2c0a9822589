// A strategy whose weights come home late, so that who does not wait for them sees old ones.
#ifndef LS_TESTS_SLOW_STRATEGY_H
#define LS_TESTS_SLOW_STRATEGY_H

#include "strategy/strategy.h"

// From now on each bucket takes 0.3 ms more for each replica, before its weights are gathered. For one strategy at a time. Not while a step runs.
void slow_strategy(ls_strategy *strategy);
// From now on the last bucket of a step does not come, as if messages were lost, where the step's votes are known by then. One replica, once in a program.
void losing_strategy(ls_strategy *strategy);

#endif
