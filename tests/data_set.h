// For tests of formats: the images and labels of a set as they lie in memory.
#ifndef LS_TESTS_DATA_SET_H
#define LS_TESTS_DATA_SET_H

#include "data/dataset.h"

typedef struct data_set {
    int64_t count;
    const uint8_t *images;  // (count, H, W, C)
    const uint8_t *labels;  // (count)
} data_set;

static inline data_set set_of(const ls_source *s) {
    return (data_set){s->count, ls_source_array(s, 0), ls_source_array(s, 1)};
}

// FNV-1a, which begins with 0xcbf29ce484222325.
static inline uint64_t fnv1a(uint64_t h, const uint8_t *from, int64_t count) {
    for (int64_t i = 0; i < count; i++) h = (h ^ from[i]) * 0x100000001b3u;
    return h;
}

// Of the images, each of so many bytes, and the labels.
static inline uint64_t set_digest(const data_set *s, int64_t each) {
    return fnv1a(fnv1a(0xcbf29ce484222325u, s->images, s->count * each), s->labels, s->count);
}

#endif
