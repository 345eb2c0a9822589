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

#endif
