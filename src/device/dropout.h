// Which elements dropout keeps: the one definition all devices on the host share, so that a run's masks do not depend
// on the device. Element e of a sample, counted in NHWC order, draws word e % 4 of the Philox block
// (e / 4, sample, layer, epoch). A layer that keeps or drops whole samples draws element 0 for all of them.
#ifndef LS_DEVICE_DROPOUT_H
#define LS_DEVICE_DROPOUT_H

#include "base/philox.h"
#include "device/kernel.h"

// The words for elements 4 * block .. 4 * block + 3 of sample n of the batch.
static inline ls_philox4 ls_dropout_words(const ls_random_key *key, uint32_t layer, int64_t n, uint32_t block) {
    uint64_t sample = key->samples[n];
    return ls_philox(key->seed, block, (uint32_t)sample, (uint32_t)(sample >> 32),
                     ls_random_stream(LS_RANDOM_DROPOUT, (uint32_t)key->epoch, layer));
}

// An element is kept when its word is at least this.
static inline uint32_t ls_dropout_threshold(float rate) { return (uint32_t)((double)rate * 0x1p32); }

// What a kept element is multiplied by.
static inline float ls_dropout_scale(float rate) { return (float)(1 / (1 - (double)rate)); }

#endif
