#define _GNU_SOURCE
#include "base/barrier.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/watch.h"

#define YIELDS                                                                                                         \
    100  // before sleeping, where waiters outnumber cores: a hundred microseconds or two, if nobody else wants the core

static void futex(_Atomic uint32_t *word, int op, uint32_t value) {
    syscall(SYS_futex, (uint32_t *)word, op, value, (void *)0, (void *)0, 0);
}

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ls_barrier_init(ls_barrier *barrier, int participants, int spin) {
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->generation, 0);
    atomic_init(&barrier->participants, (uint32_t)participants);
    barrier->spin = (uint32_t)spin;
}

void ls_barrier_wait(ls_barrier *barrier) {
    if (atomic_load_explicit(&barrier->participants, memory_order_relaxed) == 1) return;
    uint32_t generation = atomic_load_explicit(&barrier->generation, memory_order_acquire);
    uint32_t arrived = atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1;
    // Read after arriving: whoever is last sees what the others wrote before they arrived, a lowered number too.
    if (arrived == atomic_load_explicit(&barrier->participants, memory_order_relaxed)) {
        atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&barrier->generation, 1, memory_order_release);
        futex(&barrier->generation, FUTEX_WAKE, INT_MAX);  // not FUTEX_PRIVATE: other processes may wait
        return;
    }
    for (uint32_t i = 0; i < barrier->spin; i++) {
        if (atomic_load_explicit(&barrier->generation, memory_order_acquire) != generation) return;
        relax();
    }
    for (int i = 0; i < YIELDS && barrier->spin == 0; i++) {
        if (atomic_load_explicit(&barrier->generation, memory_order_acquire) != generation) return;
        sched_yield();
    }
    ls_watch_begin_replicas();
    while (atomic_load_explicit(&barrier->generation, memory_order_acquire) == generation)
        futex(&barrier->generation, FUTEX_WAIT, generation);
    ls_watch_end();
}
