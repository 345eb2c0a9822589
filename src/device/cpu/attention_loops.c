#include "device/cpu/attention.h"

#include "device/cpu/math_impl.h"

// What is added to the scores of positions that do not count.
#define NEVER -1e30f

// The next head's part of a position lies behind this one's, of which the processor sees no pattern: positions are far apart.
LS_INLINE const void *next_head(const ls_attention_sizes *s, const void *of, int64_t element) {
    return (const char *)of + (size_t)(element + s->d) * (s->dtype == LS_DTYPE_F32 ? 4 : 2);
}

LS_CLONES static void load_rows(const ls_attention_sizes *s, const void *from, int64_t at, int64_t step, float scale,
                                float *rows) {
    for (int64_t i = 0; i < s->t; i++)
        for (int64_t e = 0; e < s->wide; e += 16) {
            __builtin_prefetch(next_head(s, from, at + i * step + e), 0, 2);
            v16f v = load_lanes(s->dtype, from, at + i * step + e, s->d - e < 16 ? s->d - e : 16);
            store16(LS_DTYPE_F32, rows, i * s->wide + e, v * scale);
        }
}

// Sixteen positions at a time, so that columns are written in whole vectors.
LS_CLONES static void load_columns(const ls_attention_sizes *s, const void *from, int64_t at, int64_t step, float scale,
                                   float *columns) {
    float square[16][16];
    for (int64_t i = 0; i < s->longer; i += 16)
        for (int64_t e = 0; e < s->d; e += 16) {
            int64_t lanes = s->d - e < 16 ? s->d - e : 16;
            for (int64_t r = 0; r < 16; r++) {
                v16f v = {0};
                if (i + r < s->t) {
                    __builtin_prefetch(next_head(s, from, at + (i + r) * step + e), 0, 2);
                    v = load_lanes(s->dtype, from, at + (i + r) * step + e, lanes) * scale;
                }
                store16(LS_DTYPE_F32, square[r], 0, v);
            }
            for (int64_t l = 0; l < lanes; l++) {
                float *to = columns + (e + l) * s->longer + i;
                for (int r = 0; r < 16; r++) to[r] = square[r][l];
            }
        }
}

void ls__attention_load(const ls_attention_sizes *s, const void *from, int64_t at, int64_t step, float scale,
                        float *rows, float *columns) {
    if (rows) load_rows(s, from, at, step, scale, rows);
    if (columns) load_columns(s, from, at, step, scale, columns);
}

LS_CLONES void ls__attention_store(const ls_attention_sizes *s, void *to, int64_t at, int64_t step, int64_t count,
                                   float scale, const float *rows) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t e = 0; e < s->d; e += 16) {
            __builtin_prefetch(next_head(s, to, at + i * step + e), 1, 2);
            store_lanes(s->dtype, to, at + i * step + e, load16(LS_DTYPE_F32, rows, i * s->wide + e) * scale,
                        s->d - e < 16 ? s->d - e : 16);
        }
}

void ls__attention_bias(const ls_attention_sizes *s, const int32_t *mask, float *bias) {
    for (int64_t j = 0; j < s->longer; j++) bias[j] = j < s->t && (!mask || mask[j]) ? 0 : NEVER;
}

LS_INLINE float sum16(v16f v) {
    float l[16];
    store16(LS_DTYPE_F32, l, 0, v);
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) l[i] += l[i + half];
    return l[0];
}

LS_INLINE float largest16(v16f v) {
    float l[16];
    store16(LS_DTYPE_F32, l, 0, v);
    for (int i = 1; i < 16; i++) l[0] = l[i] > l[0] ? l[i] : l[0];
    return l[0];
}

// Sixteen scores from j on; those after position i, where it matters, do not count.
LS_INLINE v16f score16(const ls_attention_sizes *s, const float *scores, const float *bias, int64_t i, int64_t j) {
    const v16i lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    v16f v = load16(LS_DTYPE_F32, scores, j) + load16(LS_DTYPE_F32, bias, j);
    if (!s->causal || j + 15 <= i) return v;
    return select16(((int32_t)(i - j) - lane) >> 31, all16(NEVER), v);
}

LS_CLONES void ls__attention_weights(const ls_attention_sizes *s, float *scores, const float *bias, int64_t i,
                                     int64_t limit, ls_attention_row *of) {
    v16f most = all16(NEVER), sum = {0};
    for (int64_t j = 0; j < limit; j += 16) {
        v16f v = score16(s, scores, bias, i, j);
        store16(LS_DTYPE_F32, scores, j, v);
        most = larger16(most, v);
    }
    of->most = largest16(most);
    int nothing = of->most <= NEVER / 2;
    for (int64_t j = 0; j < limit; j += 16) {
        v16f e = exp16(load16(LS_DTYPE_F32, scores, j) - of->most);
        store16(LS_DTYPE_F32, scores, j, e);
        sum += e;
    }
    of->share = nothing ? 0 : 1 / sum16(sum);
    for (int64_t j = 0; j < limit; j += 16)
        store16(LS_DTYPE_F32, scores, j, load16(LS_DTYPE_F32, scores, j) * of->share);
}

LS_CLONES void ls__attention_gradients(const ls_attention_sizes *s, float *scores, float *dscores, const float *bias,
                                       int64_t i, int64_t limit, const ls_attention_row *of) {
    v16f sum = {0};
    for (int64_t j = 0; j < limit; j += 16) {
        v16f p = exp16(score16(s, scores, bias, i, j) - of->most) * of->share;
        store16(LS_DTYPE_F32, scores, j, p);
        sum += p * load16(LS_DTYPE_F32, dscores, j);
    }
    float mean = sum16(sum);
    for (int64_t j = 0; j < limit; j += 16) {
        v16f d = (load16(LS_DTYPE_F32, dscores, j) - mean) * load16(LS_DTYPE_F32, scores, j);
        store16(LS_DTYPE_F32, dscores, j, d);
    }
}
