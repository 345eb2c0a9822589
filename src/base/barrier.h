// A barrier for threads of any processes that share the memory it lies in: the replicas of all workers of a host.
//
// It spins a short while, because replicas of one step arrive close together, then sleeps in the kernel (futex), because
// workers may outnumber cores. With more waiters than cores it should not spin at all: pass spin = 0. Then it gives its core to others a few times, which
// takes less than to sleep and be woken, and sleeps if that was not enough.
#ifndef LS_BASE_BARRIER_H
#define LS_BASE_BARRIER_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct ls_barrier {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint32_t participants;  // may be lowered while some wait already, by one who has not arrived yet
    uint32_t spin;                  // tries before sleeping
} ls_barrier;

// Not thread-safe; the memory must be shared before anyone waits.
void ls_barrier_init(ls_barrier *barrier, int participants, int spin);
// Returns when all participants have called it. What any wrote before, all see after.
void ls_barrier_wait(ls_barrier *barrier);

#endif
