// Keeping the largest elements, on devices whose memory is the host's.
//
// Of floats without their sign, read as whole numbers, a larger one is larger by magnitude (and what is no number is the largest). So the
// `keep`-th largest is found by halving a range of whole numbers: each halving counts, in one pass through the caches, how many elements are at
// least in the middle. Once it is exactly as many as are to stay, the middle will do.
#include <string.h>

#include "base/clones.h"
#include "device/host.h"

static inline uint32_t magnitude(float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits & 0x7fffffffu;
}

#define INFINITE 0x7f800000u

LS_CLONES static void feed_back(float *restrict x, const float *restrict rest, float scale, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] += rest[i] * scale;
}

LS_CLONES static uint32_t largest(const float *x, int64_t n) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) most = magnitude(x[i]) > most ? magnitude(x[i]) : most;
    return most;
}

LS_CLONES static int32_t count_from(const float *x, int64_t n, uint32_t least) {
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++) count += magnitude(x[i]) >= least;
    return count;
}

// What is at least `least` stays. Zeros that stay are zeros all the same.
LS_CLONES static void split(float *restrict x, float *restrict rest, float back, int64_t n, uint32_t least) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t m = magnitude(x[i]);
        rest[i] = m >= least || m >= INFINITE ? 0 : x[i] * back;
        x[i] = m >= least ? x[i] : 0;
    }
}

// What is larger than `least` stays, and of what is equal to it the first `equal`.
static void split_equal(float *x, float *rest, float back, int64_t n, uint32_t least, int64_t equal) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t m = magnitude(x[i]);
        int stays = m > least || (m == least && equal-- > 0);
        rest[i] = stays || m >= INFINITE ? 0 : x[i] * back;
        x[i] = stays ? x[i] : 0;
    }
}

void ls__host_keep_largest(float *x, float *rest, float scale, float back, int64_t n, int64_t keep) {
    feed_back(x, rest, scale, n);
    uint32_t low = 0, high = largest(x, n) + 1;  // at least `keep` elements are from low on, and fewer from high on
    int64_t count = n;
    while (count != keep && high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        int64_t from = count_from(x, n, middle);
        if (from >= keep)
            low = middle, count = from;
        else
            high = middle;
    }
    if (count == keep || low == 0)
        split(x, rest, back, n, low > 0 ? low : 1);
    else
        split_equal(x, rest, back, n, low, keep - count_from(x, n, low + 1));
}
