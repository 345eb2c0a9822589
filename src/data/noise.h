// Normal noise on prepared images, as denoising auto-encoders are trained with: what is added to a value is a function of (seed, epoch, sample,
// element) and of nothing else.
#ifndef LS_DATA_NOISE_H
#define LS_DATA_NOISE_H

#include <lockstep/tensor.h>

#include "base/philox.h"

// A number of mean 0 and deviation 1: the sum of eight uniform ones of 16 bits, which is normal but for its ends (none is beyond 4.9). Of plain
// arithmetic, so that it has the same bits everywhere.
static inline float ls__noise_of(ls_philox4 r) {
    int32_t sum = 0;
    for (int i = 0; i < 4; i++) sum += (int32_t)(r.v[i] & 0xFFFF) + (int32_t)(r.v[i] >> 16);
    return (float)(sum - 262140) * (1 / 53509.9f);  // 65536 times the root of 8 / 12
}

// Draws for different uses, by `use`: 0 noise on images, 1 numbers that a network is given, 2 coins, 3 mixing.
static inline ls_philox4 ls__noise_words(uint64_t seed, uint32_t epoch, uint64_t sample, uint32_t element,
                                         uint32_t use) {
    return ls_philox(seed, element, (uint32_t)sample, (uint32_t)(sample >> 32),
                     ls_random_stream(LS_RANDOM_NOISE, epoch, use));
}

static inline float ls_noise_normal(uint64_t seed, uint32_t epoch, uint64_t sample, uint32_t element) {
    return ls__noise_of(ls__noise_words(seed, epoch, sample, element, 0));
}

// The same for a network whose input it is.
static inline float ls_noise_drawn(uint64_t seed, uint32_t epoch, uint64_t sample, uint32_t element) {
    return ls__noise_of(ls__noise_words(seed, epoch, sample, element, 1));
}

// 0 or 1, as likely.
static inline int ls_noise_coin(uint64_t seed, uint32_t epoch, uint64_t sample) {
    return (int)(ls__noise_words(seed, epoch, sample, 0, 2).v[0] >> 31);
}

// What a sample is mixed with (Zhang et al., "mixup: Beyond empirical risk minimization", ICLR 2018): *partner, one of `count` samples, each as likely, and how much of the sample itself is
// left, from Beta(alpha, alpha), in multiples of 2^-16, so that the last bits of a library's pow do not show. `alpha` from 0.05 to 1.
float ls_noise_mix(uint64_t seed, uint32_t epoch, uint64_t sample, double alpha, int64_t count, int64_t *partner);

// What the noise on a channel is: its deviation, and the values of black and white, beyond which nothing goes.
typedef struct ls_noise_range {
    float deviation, low, high;
} ls_noise_range;

// Adds it to `count` values, F32, BF16 or F16, whose channels (channels) take turns.
void ls_noise_add(void *values, ls_dtype dtype, int64_t count, const ls_noise_range *channel, int64_t channels,
                  uint64_t seed, uint32_t epoch, uint64_t sample);

#endif
