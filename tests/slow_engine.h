// An engine whose weights are whole late, so that who does not wait for them sees old ones.
#ifndef LS_TESTS_SLOW_ENGINE_H
#define LS_TESTS_SLOW_ENGINE_H

#include "step/engine.h"

// From now on each bucket takes 0.3 ms more before its weights are whole. Not while a step runs.
void slow_engine(ls_engine *engine);
// From now on the last bucket of a step does not come, as if messages were lost.
void losing_engine(ls_engine *engine);

#endif
