// A matrix of 16 x 16 words turned in registers, for files of loops.
#ifndef LS_DEVICE_CPU_TRANSPOSE_IMPL_H
#define LS_DEVICE_CPU_TRANSPOSE_IMPL_H

#include "device/cpu/loops_impl.h"

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (v16u){__VA_ARGS__})
#endif

// Exchanges what is off the diagonal in blocks of so many rows and columns.
#define EXCHANGE(v, i, j, low, high)                                                                                   \
    do {                                                                                                               \
        v16u a_ = (v)[i], b_ = (v)[j];                                                                                 \
        (v)[i] = SHUFFLE(a_, b_, low);                                                                                 \
        (v)[j] = SHUFFLE(a_, b_, high);                                                                                \
    } while (0)
#define LOW_1  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH_1 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31
#define LOW_2  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH_2 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW_4  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH_4 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW_8  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH_8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31

LS_INLINE void transpose_words(v16u v[16]) {
    for (int i = 0; i < 16; i += 2) EXCHANGE(v, i, i + 1, LOW_1, HIGH_1);
    for (int i = 0; i < 16; i++)
        if (!(i & 2)) EXCHANGE(v, i, i + 2, LOW_2, HIGH_2);
    for (int i = 0; i < 16; i++)
        if (!(i & 4)) EXCHANGE(v, i, i + 4, LOW_4, HIGH_4);
    for (int i = 0; i < 8; i++) EXCHANGE(v, i, i + 8, LOW_8, HIGH_8);
}

#endif
