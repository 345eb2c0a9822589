// Philox4x32-10, the counter-based generator behind everything random here. A draw is a pure function of a key and a
// counter that say *what* is drawn, so it never matters who draws it, when, or in which order.
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#ifndef LS_BASE_PHILOX_H
#define LS_BASE_PHILOX_H

#include <stdint.h>

typedef struct ls_philox4 {
    uint32_t v[4];
} ls_philox4;

// What a draw is for; the top counter word, so that different uses never meet.
typedef enum ls_random_use {
    LS_RANDOM_INIT = 1,  // initial weights: (parameter, element)
    LS_RANDOM_SHUFFLE,   // sample order: (epoch, position)
    LS_RANDOM_DROPOUT,   // dropout masks: (epoch, sample, layer, element)
    LS_RANDOM_AUGMENT,   // augmentation: (epoch, sample, choice)
    LS_RANDOM_DATA,      // generated datasets: (sample, choice)
    LS_RANDOM_NOISE,     // noise on images: (epoch, sample, element)
} ls_random_use;

// One block of four independent 32-bit words for a counter (c0..c3) under a 64-bit key.
static inline ls_philox4 ls_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (ls_philox4){{c0, c1, c2, c3}};
}

// The counter word that keeps uses, epochs and layers apart: 4 bits of use, 12 of layer, 16 of epoch. Epochs past
// 65,535 and layers past 4,095 would repeat draws; no run comes near.
static inline uint32_t ls_random_stream(ls_random_use use, uint32_t epoch, uint32_t layer) {
    return (uint32_t)use << 28 | (layer & 0xFFF) << 16 | (epoch & 0xFFFF);
}

// A float in [0, 1) with 24 random bits.
static inline float ls_uniform(uint32_t word) { return (float)(word >> 8) * 0x1p-24f; }

#endif
