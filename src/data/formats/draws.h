// Random draws for datasets that are drawn by the library: each sample's are a function of its index alone, so any worker
// can draw any sample, and the byte order of the machine does not matter.
#ifndef LS_DATA_FORMATS_DRAWS_H
#define LS_DATA_FORMATS_DRAWS_H

#include "base/philox.h"

// The words of one sample, drawn in order. Counter: (sample, purpose << 16 | block); the draws below are purpose 0, others
// take whole blocks.
typedef struct draws {
    uint64_t key;  // the dataset's fixed seed
    uint32_t sample, block;
    int used;  // words of the current block; 4 at the beginning
    ls_philox4 words;
} draws;

static inline draws draws_of(uint64_t key, uint32_t sample) { return (draws){.key = key, .sample = sample, .used = 4}; }

static inline ls_philox4 draw_block(uint64_t key, uint32_t sample, uint32_t purpose, uint32_t block) {
    return ls_philox(key, sample, purpose << 16 | block, 0, ls_random_stream(LS_RANDOM_DATA, 0, 0));
}

static inline uint32_t draw_word(draws *d) {
    if (d->used == 4) {
        d->words = draw_block(d->key, d->sample, 0, d->block++);
        d->used = 0;
    }
    return d->words.v[d->used++];
}

// 0 .. n-1, each with the same chance (up to n / 2^32).
static inline int draw_below(draws *d, int n) { return (int)((uint64_t)draw_word(d) * (uint32_t)n >> 32); }

// Even in [low, high).
static inline float draw_range(draws *d, float low, float high) {
    return low + (high - low) * ls_uniform(draw_word(d));
}

#endif
