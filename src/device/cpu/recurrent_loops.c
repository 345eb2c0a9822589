#include "device/cpu/recurrent.h"

#include "device/cpu/blocks_impl.h"
#include "device/cpu/math_impl.h"

#define F LS_DTYPE_F32

enum { WIDE = 8 * BLOCK };  // columns that are summed on the way through the rows

LS_INLINE v16f load(ls_dtype dtype, const void *from, int64_t i, int64_t lanes) {
    return load_lanes(dtype, from, i, lanes);
}

// Units i to i + 15 and, of a pair, the sixteen behind them: two at a time, as math_impl.h says why.
LS_INLINE row load_pair(ls_dtype dtype, const void *from, int64_t i, int64_t lanes, const int pair) {
    row both = {{load(dtype, from, i, lanes), {0}}};
    if (pair) both.v[1] = load16(dtype, from, i + 16);
    return both;
}

LS_INLINE void store_pair(ls_dtype dtype, void *to, int64_t i, row x, int64_t lanes, const int pair) {
    store_lanes(dtype, to, i, x.v[0], lanes);
    if (pair) store16(dtype, to, i + 16, x.v[1]);
}

LS_INLINE row products(const ls_recurrent_step *s, int64_t i, int64_t lanes, const int pair) {
    row a = load_pair(F, s->input, i, lanes, pair), b = load_pair(F, s->state, i, lanes, pair);
    for (int h = 0; h < 2; h++) a.v[h] += b.v[h];
    return a;
}

LS_INLINE void lstm_lanes(const ls_recurrent_step *s, int64_t i, int64_t lanes, const int pair) {
    int64_t u = s->units;
    row in = sigmoid32(products(s, i, lanes, pair)), forget = sigmoid32(products(s, u + i, lanes, pair));
    row cell = tanh32(products(s, 2 * u + i, lanes, pair)), out = sigmoid32(products(s, 3 * u + i, lanes, pair));
    row c = load_pair(F, s->c_before, i, lanes, pair);
    for (int h = 0; h < 2; h++) c.v[h] = forget.v[h] * c.v[h] + in.v[h] * cell.v[h];
    if (s->gates) {
        store_pair(F, s->gates, i, in, lanes, pair);
        store_pair(F, s->gates, u + i, forget, lanes, pair);
        store_pair(F, s->gates, 2 * u + i, cell, lanes, pair);
        store_pair(F, s->gates, 3 * u + i, out, lanes, pair);
    }
    store_pair(F, s->c, i, c, lanes, pair);
    c = tanh32(c);
    for (int h = 0; h < 2; h++) c.v[h] *= out.v[h];
    store_pair(s->dtype, s->h, i, c, lanes, pair);
}

LS_CLONES void ls__lstm_forward(const ls_recurrent_step *s) {
    int64_t i = 0;
    for (; i + 32 <= s->units; i += 32) lstm_lanes(s, i, 16, 1);
    for (; i + 16 <= s->units; i += 16) lstm_lanes(s, i, 16, 0);
    if (i < s->units) lstm_lanes(s, i, s->units - i, 0);
}

LS_INLINE void gru_lanes(const ls_recurrent_step *s, int64_t i, int64_t lanes) {
    int64_t u = s->units;
    row both = sigmoid32((row){{load(F, s->input, i, lanes) + load(F, s->state, i, lanes),
                                load(F, s->input, u + i, lanes) + load(F, s->state, u + i, lanes)}});
    v16f z = both.v[0], r = both.v[1];
    v16f product = load(F, s->state, 2 * u + i, lanes), h = load(s->dtype, s->h_before, i, lanes);
    v16f n = tanh16(load(F, s->input, 2 * u + i, lanes) + r * product);
    if (s->gates) {
        store_lanes(F, s->gates, i, z, lanes);
        store_lanes(F, s->gates, u + i, r, lanes);
        store_lanes(F, s->gates, 2 * u + i, n, lanes);
        store_lanes(F, s->gates, 3 * u + i, product, lanes);
    }
    store_lanes(s->dtype, s->h, i, z * h + (1.0f - z) * n, lanes);
}

LS_CLONES void ls__gru_forward(const ls_recurrent_step *s) {
    int64_t i = 0;
    for (; i + 16 <= s->units; i += 16) gru_lanes(s, i, 16);
    if (i < s->units) gru_lanes(s, i, s->units - i);
}

LS_INLINE void lstm_back(const ls_recurrent_back *s, int64_t i, int64_t lanes, v16f t) {
    int64_t u = s->units;
    v16f in = load(F, s->gates, i, lanes), forget = load(F, s->gates, u + i, lanes);
    v16f cell = load(F, s->gates, 2 * u + i, lanes), out = load(F, s->gates, 3 * u + i, lanes);
    v16f dh = load(F, s->dh, i, lanes), dc = load(F, s->dc, i, lanes) + dh * out * (1.0f - t * t);
    store_lanes(s->dtype, s->dinput, i, dc * cell * in * (1.0f - in), lanes);
    store_lanes(s->dtype, s->dinput, u + i, dc * load(F, s->c_before, i, lanes) * forget * (1.0f - forget), lanes);
    store_lanes(s->dtype, s->dinput, 2 * u + i, dc * in * (1.0f - cell * cell), lanes);
    store_lanes(s->dtype, s->dinput, 3 * u + i, dh * t * out * (1.0f - out), lanes);
    store_lanes(F, s->dc, i, dc * forget, lanes);
    store_lanes(F, s->dh, i, all16(0), lanes);
}

LS_CLONES void ls__lstm_backward(const ls_recurrent_back *s) {
    int64_t i = 0;
    for (; i + 32 <= s->units; i += 32) {
        row t = tanh32(load_pair(F, s->c, i, 16, 1));
        lstm_back(s, i, 16, t.v[0]);
        lstm_back(s, i + 16, 16, t.v[1]);
    }
    for (; i < s->units; i += 16) {
        int64_t lanes = s->units - i < 16 ? s->units - i : 16;
        lstm_back(s, i, lanes, tanh16(load(F, s->c, i, lanes)));
    }
}

LS_INLINE void gru_back(const ls_recurrent_back *s, int64_t i, int64_t lanes) {
    int64_t u = s->units;
    v16f z = load(F, s->gates, i, lanes), r = load(F, s->gates, u + i, lanes), n = load(F, s->gates, 2 * u + i, lanes);
    v16f dh = load(F, s->dh, i, lanes), dn = dh * (1.0f - z) * (1.0f - n * n);
    v16f dz = dh * (load(s->dtype, s->h_before, i, lanes) - n) * z * (1.0f - z);
    v16f dr = dn * load(F, s->gates, 3 * u + i, lanes) * r * (1.0f - r);
    store_lanes(s->dtype, s->dinput, i, dz, lanes);
    store_lanes(s->dtype, s->dinput, u + i, dr, lanes);
    store_lanes(s->dtype, s->dinput, 2 * u + i, dn, lanes);
    store_lanes(s->dtype, s->dstate, i, dz, lanes);
    store_lanes(s->dtype, s->dstate, u + i, dr, lanes);
    store_lanes(s->dtype, s->dstate, 2 * u + i, dn * r, lanes);
    store_lanes(F, s->dh, i, dh * z, lanes);
}

LS_CLONES void ls__gru_backward(const ls_recurrent_back *s) {
    int64_t i = 0;
    for (; i + 16 <= s->units; i += 16) gru_back(s, i, 16);
    if (i < s->units) gru_back(s, i, s->units - i);
}

LS_CLONES void ls__recurrent_add(float *to, const void *from, ls_dtype dtype, int64_t count) {
    for (int64_t i = 0; i < count; i += 16) {
        int64_t lanes = count - i < 16 ? count - i : 16;
        store_lanes(F, to, i, load(F, to, i, lanes) + load(dtype, from, i, lanes), lanes);
    }
}

LS_CLONES void ls__recurrent_sum(const void *from, ls_dtype dtype, int64_t rows, int64_t width, float *sums) {
    float v[BLOCK];
    for (int64_t c = 0; c < width; c += WIDE) {
        int64_t wide = width - c < WIDE ? width - c : WIDE;
        double sum[WIDE] = {0};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t b = 0; b < wide; b += BLOCK) {
                load_block(dtype, from, r * width + c + b, wide - b < BLOCK ? wide - b : BLOCK, v);
                for (int j = 0; j < BLOCK; j++) sum[b + j] += (double)v[j];
            }
        for (int64_t b = 0; b < wide; b += BLOCK) {
            for (int j = 0; j < BLOCK; j++) v[j] = (float)sum[b + j];
            store_block(F, sums, c + b, wide - b < BLOCK ? wide - b : BLOCK, v);
        }
    }
}

LS_CLONES void ls__recurrent_sum_picked(const void *from, ls_dtype dtype, const int32_t *numbers, int64_t rows,
                                        int64_t width, int64_t begin, int64_t end, float *sums) {
    for (int64_t r = 0; r < rows; r++) {
        int64_t to = numbers[r] * width;
        for (int64_t c = begin; c < end; c += 16) {
            int64_t lanes = end - c < 16 ? end - c : 16;
            store_lanes(F, sums, to + c, load(F, sums, to + c, lanes) + load(dtype, from, r * width + c, lanes), lanes);
        }
    }
}

LS_CLONES void ls__recurrent_round(const float *from, ls_dtype dtype, int64_t count, void *to) {
    for (int64_t i = 0; i < count; i += 16) {
        int64_t lanes = count - i < 16 ? count - i : 16;
        store_lanes(dtype, to, i, load(F, from, i, lanes), lanes);
    }
}
