// In vectors of any width, for all types.
enum { NORM_BOUNDS = 0 };

#include "device/cpu/batch_norm_loops_impl.h"

int ls__norm_place(ls_dtype dtype, int e) { return row_place(dtype, e); }

// --- the work on a row -----------------------------------------------------------------------------------------------

LS_INLINE row where_positive(row y, row d) {
    for (int h = 0; h < 2; h++) d.v[h] = where16(positive16(y.v[h]), d.v[h]);
    return d;
}

LS_INLINE row where_between(row y, row d) {
    for (int h = 0; h < 2; h++) d.v[h] = where16(positive16(y.v[h]) & positive16(6 - y.v[h]), d.v[h]);
    return d;
}

LS_INLINE row normalized(row x, const known *k) {
    for (int h = 0; h < 2; h++) x.v[h] = (x.v[h] - k->mean.v[h]) * k->scale.v[h] + k->beta.v[h];
    return x;
}

LS_INLINE void moments_row(ls_dtype dtype, const void *x, int64_t at, int64_t next, int64_t count, const known *k,
                           sums *s) {
    row r = load_row(dtype, x, at, count);
    fetch_row(dtype, x, next);
    for (int h = 0; h < 2; h++) r.v[h] -= k->mean.v[h];
    if (count < ROW) r = first_of_row(dtype, r, count);  // what is not there is no distance away
    for (int h = 0; h < 2; h++) {
        s->first.v[h] += r.v[h];
        s->second.v[h] += r.v[h] * r.v[h];
    }
}

LS_INLINE void forward_row(ls_dtype dtype, const void *x, const void *x2, void *y, int64_t at, int64_t next,
                           int64_t count, const known *k, ls_norm_end relu) {
    row r = normalized(load_row(dtype, x, at, count), k), other = {{{0}, {0}}};
    if (x2) other = load_row(dtype, x2, at, count);
    if (x2) fetch_row(dtype, x2, next);
    fetch_row(dtype, y, next);
    for (int h = 0; h < 2; h++) {
        if (x2) r.v[h] += other.v[h];
        if (relu != LS_NORM_LINEAR) r.v[h] = relu16(r.v[h]);
        if (relu == LS_NORM_RELU6) r.v[h] = at_most6(r.v[h]);
    }
    store_row(dtype, y, at, r, count);
}

LS_INLINE row gated(ls_dtype dtype, row x, const void *y, const void *dy, int64_t at, int64_t count, const known *k,
                    gate g) {
    row d = load_row(dtype, dy, at, count);
    if (g == BY_X) d = where_positive(normalized(x, k), d);
    if (g == BY_X6) d = where_between(normalized(x, k), d);
    if (g == BY_Y) d = where_positive(load_row(dtype, y, at, count), d);
    return d;
}

LS_INLINE void sums_row(ls_dtype dtype, const void *x, const void *ahead, const void *y, const void *dy, void *dx2,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, sums *s) {
    row r = load_row(dtype, x, at, count), d = gated(dtype, r, y, dy, at, count, k, g);
    fetch_row(dtype, ahead, next);
    fetch_row(dtype, dy, next);
    if (g == BY_Y) fetch_row(dtype, y, next);
    if (dx2) store_row(dtype, dx2, at, d, count);
    for (int h = 0; h < 2; h++) {
        s->first.v[h] += d.v[h];
        s->second.v[h] += d.v[h] * (r.v[h] - k->mean.v[h]);
    }
}

LS_INLINE void data_row(ls_dtype dtype, const void *x, const void *y, const void *dy, const void *addend, void *dx,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, int mask_dx) {
    row r = load_row(dtype, x, at, count), d = gated(dtype, r, y, dy, at, count, k, g), other = {{{0}, {0}}};
    if (addend) other = load_row(dtype, addend, at, count);
    if (addend) fetch_row(dtype, addend, next);
    fetch_row(dtype, dx, next);
    for (int h = 0; h < 2; h++) {
        d.v[h] = k->scale.v[h] * ((d.v[h] - k->dy_mean.v[h]) - (r.v[h] - k->mean.v[h]) * k->slope.v[h]);
        if (addend) d.v[h] += other.v[h];
    }
    if (mask_dx) d = where_positive(r, d);
    store_row(dtype, dx, at, d, count);
}

// --- once per instruction set ------------------------------------------------------------------------------------------

#define LOOPS(type, dtype)                                                                                             \
    LS_CLONES static void sample_##type(ls_norm_pass *p) { sample(dtype, p); }                                         \
    LS_CLONES static void moments_##type(ls_norm_pass *p) { moments(dtype, p); }                                       \
    LS_CLONES static void forward_##type(ls_norm_pass *p) { forward_any(dtype, p); }                                   \
    LS_CLONES static void backward_sums_##type(ls_norm_pass *p) { backward_sums_any(dtype, p); }                       \
    LS_CLONES static void backward_data_##type(ls_norm_pass *p) { backward_data_any(dtype, p); }                       \
    static const ls_norm_loops loops_##type = {sample_##type,  moments_##type,       NULL,                             \
                                               forward_##type, backward_sums_##type, backward_data_##type}

LOOPS(f32, LS_DTYPE_F32);
LOOPS(bf16, LS_DTYPE_BF16);
LOOPS(fp16, LS_DTYPE_F16);

const ls_norm_loops *ls__norm_loops(ls_dtype dtype) {
    return dtype == LS_DTYPE_F32 ? &loops_f32 : dtype == LS_DTYPE_F16 ? &loops_fp16 : &loops_bf16;
}
