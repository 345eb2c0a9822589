// The loops of attention over one head of one sample.
#ifndef LS_DEVICE_CPU_ATTENTION_H
#define LS_DEVICE_CPU_ATTENTION_H

#include <stdint.h>

#include <lockstep/tensor.h>

typedef struct ls_attention_sizes {
    ls_dtype dtype;        // of X, Y and their gradients
    int64_t t, c, d;       // positions; channels of all heads, and of one
    int64_t longer, wide;  // t and d, rounded up to sixteen
    float scale;           // 1 / sqrt(d)
    int causal;
} ls_attention_sizes;

// Of a position's scores: the largest, and one over the sum of exponentials without it; 0 where it attends to nothing.
typedef struct ls_attention_row {
    float most, share;
} ls_attention_row;

// Rows of d elements, t of them `step` apart from element `at` on, times `scale`: to rows (t, wide), to columns (d, longer), each unless
// NULL, with zeros behind.
void ls__attention_load(const ls_attention_sizes *s, const void *from, int64_t at, int64_t step, float scale,
                        float *rows, float *columns);
// The reverse, of `count` rows (count, wide).
void ls__attention_store(const ls_attention_sizes *s, void *to, int64_t at, int64_t step, int64_t count, float scale,
                         const float *rows);
// What is added to scores (longer): 0 for positions that count, else what no score reaches. mask NULL: all count.
void ls__attention_bias(const ls_attention_sizes *s, const int32_t *mask, float *bias);
// Scores of position i, of those below `limit`, become weights; the rest up to a multiple of sixteen become zeros.
void ls__attention_weights(const ls_attention_sizes *s, float *scores, const float *bias, int64_t i, int64_t limit,
                           ls_attention_row *row);
// The same from what is known of the row; and gradients of weights become those of scores.
void ls__attention_gradients(const ls_attention_sizes *s, float *scores, float *dscores, const float *bias, int64_t i,
                             int64_t limit, const ls_attention_row *row);

#endif
