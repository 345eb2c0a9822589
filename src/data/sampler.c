#include "base/philox.h"
#include "data/loader.h"

// An unbiased number in 0..bound-1 (1 <= bound <= 2^32) for one position of one epoch.
//
// A 32-bit word times the bound, and of the 64-bit product the upper half: nearly uniform. Products whose lower half is
// under 2^32 mod bound are the surplus that makes it biased; they are drawn again, the attempt being in the counter.
// Source: Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019, algorithm 5.
static uint32_t bounded(uint64_t seed, uint32_t stream, uint32_t position, uint64_t bound) {
    for (uint32_t attempt = 0;; attempt++) {
        uint64_t product = ls_philox(seed, position, attempt, 0, stream).v[0] * bound;
        uint32_t low = (uint32_t)product;
        if (low >= bound || low >= (uint32_t)(((1ull << 32) - bound) % bound)) return (uint32_t)(product >> 32);
    }
}

// Fisher-Yates from the end: the sample at position i is any of those not placed yet.
void ls_sampler_order(uint64_t seed, uint32_t epoch, int shuffle, int64_t count, uint32_t *order) {
    for (int64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    if (!shuffle) return;
    uint32_t stream = ls_random_stream(LS_RANDOM_SHUFFLE, epoch, 0);
    for (int64_t i = count - 1; i > 0; i--) {
        uint32_t j = bounded(seed, stream, (uint32_t)i, (uint64_t)i + 1), sample = order[j];
        order[j] = order[i];
        order[i] = sample;
    }
}
