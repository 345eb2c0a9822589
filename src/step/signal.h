// A counter that threads of any processes that share its memory wait for. It only grows, and counts
// as many in every step.
#ifndef LS_STEP_SIGNAL_H
#define LS_STEP_SIGNAL_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct ls_signal {
    _Alignas(64) _Atomic uint32_t count;
    _Atomic uint32_t waiters;
} ls_signal;

static inline int ls_signal_is_at(const ls_signal *s, uint32_t target) {
    return (int32_t)(atomic_load_explicit(&s->count, memory_order_acquire) - target) >= 0;
}
// One more; whoever waits is woken once a whole step's have come.
void ls_signal_give(ls_signal *signal, uint32_t per_step);
// Spins so often (0: yields a few times), then sleeps, for at most `seconds`. Returns whether it
// has come.
int ls_signal_wait(ls_signal *signal, uint32_t target, int spin, double seconds);
// A word that sleepers look at: sleeps for at most `seconds`, unless it is not `seen` any more.
void ls_signal_nap(_Atomic uint32_t *word, uint32_t seen, double seconds);
void ls_signal_wake(_Atomic uint32_t *word);

#endif
