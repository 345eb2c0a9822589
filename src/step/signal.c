#define _GNU_SOURCE
#include "step/signal.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Before sleeping, where waiters outnumber cores: a hundred microseconds or two, if nobody else
// wants the core.
#define YIELDS 100

// Not FUTEX_PRIVATE: other processes may wait.
static void sleep_on(_Atomic uint32_t *word, uint32_t value, double seconds) {
    struct timespec limit = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, value, &limit, NULL, 0);
}

static void wake(_Atomic uint32_t *word) { syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

void ls_signal_give(ls_signal *s, uint32_t per_step) {
    // Sequentially consistent, as is what a waiter does: either it sees the count, or this sees the
    // waiter.
    uint32_t count = atomic_fetch_add(&s->count, 1) + 1;
    if (count % per_step == 0 && atomic_load(&s->waiters) > 0) wake(&s->count);
}

int ls_signal_wait(ls_signal *s, uint32_t target, int spin, double seconds) {
    for (int i = 0; i < spin; i++) {
        if (ls_signal_is_at(s, target)) return 1;
        relax();
    }
    for (int i = 0; i < YIELDS && spin == 0; i++) {
        if (ls_signal_is_at(s, target)) return 1;
        sched_yield();
    }
    atomic_fetch_add(&s->waiters, 1);
    uint32_t count = atomic_load(&s->count);
    while ((int32_t)(count - target) < 0 && seconds > 0) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        sleep_on(&s->count, count, seconds);
        clock_gettime(CLOCK_MONOTONIC, &after);
        seconds -= (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
        count = atomic_load(&s->count);
    }
    atomic_fetch_sub(&s->waiters, 1);
    return (int32_t)(count - target) >= 0;
}

void ls_signal_nap(_Atomic uint32_t *word, uint32_t seen, double seconds) { sleep_on(word, seen, seconds); }

void ls_signal_wake(_Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    wake(word);
}
