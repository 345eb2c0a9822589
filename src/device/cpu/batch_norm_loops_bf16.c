// The same loops of bf16 in the instructions of AVX512-BF16: bit for bit those of batch_norm_loops.c, where denormals are zeros and no NaN
// comes in. Rows stay in their 32 words as long as they can: gates, ReLU and rounding take one instruction for all 32.
#include "device/cpu/batch_norm_loops.h"

// clang has no target for a whole file; its programs have the loops for all types alone.
#if defined(__x86_64__) && __GNUC__ >= 10 && !defined(__clang__) && !defined(LS_SANITIZED)
#include <immintrin.h>
#include <string.h>

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

enum { NORM_BOUNDS = 1 };

#include "device/cpu/batch_norm_loops_impl.h"

// --- 32 words --------------------------------------------------------------------------------------------------------

// As ROW says, 32 as a constant costs nothing; what is not there reads as zero.
LS_INLINE __m512i words_at(const void *p, int64_t at, int64_t count) {
    const uint16_t *from = (const uint16_t *)p + at;
    if (count == ROW) return _mm512_loadu_si512(from);
    return _mm512_maskz_loadu_epi16((1u << count) - 1, from);
}

LS_INLINE void put_words(void *p, int64_t at, __m512i words, int64_t count) {
    uint16_t *to = (uint16_t *)p + at;
    if (count == ROW)
        _mm512_storeu_si512(to, words);
    else if (count == 16)
        _mm256_storeu_si256((__m256i *)(void *)to, _mm512_castsi512_si256(words));
    else
        _mm512_mask_storeu_epi16(to, (1u << count) - 1, words);
}

LS_INLINE row row_of(__m512i words) {
    return (row){
        {(v16f)_mm512_slli_epi32(words, 16), (v16f)_mm512_and_si512(words, _mm512_set1_epi32((int)0xFFFF0000u))}};
}

// Rounds to nearest, ties to even.
LS_INLINE __m512i words_of(row r) {
    const __m512i in_turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                             21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(in_turn, (__m512i)_mm512_cvtne2ps_pbh((__m512)r.v[1], (__m512)r.v[0]));
}

LS_INLINE void fetch(const void *p, int64_t at) { __builtin_prefetch((const uint16_t *)p + at); }

// --- the work on a row -----------------------------------------------------------------------------------------------

// x times one less the mean, which is exact and rounded as once: multipliers have less to do here than adders.
LS_INLINE row distance(row x, const known *k) {
    for (int h = 0; h < 2; h++) x.v[h] = (v16f)_mm512_fmsub_ps((__m512)x.v[h], _mm512_set1_ps(1), (__m512)k->mean.v[h]);
    return x;
}

LS_INLINE row normalized(row x, const known *k) {
    x = distance(x, k);
    for (int h = 0; h < 2; h++) x.v[h] = x.v[h] * k->scale.v[h] + k->beta.v[h];
    return x;
}

LS_INLINE void moments_row(ls_dtype dtype, const void *x, int64_t at, int64_t next, int64_t count, const known *k,
                           sums *s) {
    row r = distance(row_of(words_at(x, at, count)), k);
    fetch(x, next);
    if (count < ROW) r = first_of_row(LS_DTYPE_BF16, r, count);
    for (int h = 0; h < 2; h++) {
        s->first.v[h] += r.v[h];
        s->second.v[h] += r.v[h] * r.v[h];
    }
}

LS_INLINE void forward_row(ls_dtype dtype, const void *x, const void *x2, void *y, int64_t at, int64_t next,
                           int64_t count, const known *k, ls_norm_end relu) {
    row r = normalized(row_of(words_at(x, at, count)), k);
    fetch(y, next);
    if (x2) {
        row other = row_of(words_at(x2, at, count));
        fetch(x2, next);
        for (int h = 0; h < 2; h++) r.v[h] += other.v[h];
    }
    if (relu == LS_NORM_RELU6)
        for (int h = 0; h < 2; h++) r.v[h] = at_most6(r.v[h]);
    __m512i words = words_of(r);
    if (relu != LS_NORM_LINEAR) words = _mm512_max_epi16(words, _mm512_setzero_si512());
    put_words(y, at, words, count);
}

// 32 words, those of y or x in the order of their bits, as where_positive sees them: NaNs without a sign are.
LS_INLINE __mmask32 positive(__m512i words) { return _mm512_cmpgt_epi16_mask(words, _mm512_setzero_si512()); }

LS_INLINE __m512i gated(__m512i x, const void *y, const void *dy, int64_t at, int64_t count, const known *k, gate g) {
    __m512i d = words_at(dy, at, count);
    if (g == BY_BOUND)
        return _mm512_maskz_mov_epi16(_mm512_cmple_epu16_mask(x ^ (__m512i)k->flip, (__m512i)k->bound), d);
    if (g == BY_Y) return _mm512_maskz_mov_epi16(positive(words_at(y, at, count)), d);
    if (g == OPEN) return d;
    row n = normalized(row_of(x), k);
    __mmask16 which[2];
    for (int h = 0; h < 2; h++) {
        which[h] = _mm512_cmpgt_epi32_mask((__m512i)n.v[h], _mm512_setzero_si512());
        if (g == BY_X6) which[h] &= _mm512_cmpgt_epi32_mask((__m512i)(6 - n.v[h]), _mm512_setzero_si512());
    }
    d = _mm512_mask_and_epi32(d, _knot_mask16(which[0]), d, _mm512_set1_epi32((int)0xFFFF0000u));
    return _mm512_mask_and_epi32(d, _knot_mask16(which[1]), d, _mm512_set1_epi32(0xFFFF));
}

LS_INLINE void sums_row(ls_dtype dtype, const void *x, const void *ahead, const void *y, const void *dy, void *dx2,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, sums *s) {
    __m512i words = words_at(x, at, count), let_through = gated(words, y, dy, at, count, k, g);
    row r = distance(row_of(words), k), d = row_of(let_through);
    fetch(ahead, next);
    fetch(dy, next);
    if (g == BY_Y) fetch(y, next);
    if (dx2) put_words(dx2, at, let_through, count);
    for (int h = 0; h < 2; h++) {
        s->first.v[h] += d.v[h];
        s->second.v[h] += d.v[h] * r.v[h];
    }
}

LS_INLINE void data_row(ls_dtype dtype, const void *x, const void *y, const void *dy, const void *addend, void *dx,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, int mask_dx) {
    __m512i words = words_at(x, at, count);
    row r = distance(row_of(words), k), d = row_of(gated(words, y, dy, at, count, k, g)), other = {{{0}, {0}}};
    if (addend) other = row_of(words_at(addend, at, count));
    if (addend) fetch(addend, next);
    fetch(dx, next);
    for (int h = 0; h < 2; h++) {
        d.v[h] = k->scale.v[h] * ((d.v[h] - k->dy_mean.v[h]) - r.v[h] * k->slope.v[h]);
        if (addend) d.v[h] += other.v[h];
    }
    __m512i out = words_of(d);
    if (mask_dx) out = _mm512_maskz_mov_epi16(positive(words), out);
    put_words(dx, at, out, count);
}

// --- bounds ----------------------------------------------------------------------------------------------------------

// y is a function of x that only rises or only falls, roundings included, so that one x is where it becomes positive. It is looked for among the
// finite numbers in their order: 0x80 to 0xFF7F, zeros in the middle; of the others there is none where the mean is finite.
enum { FIRST_FINITE = 0x80, AFTER_FINITE = 0xFF80 };

// The float that is a bf16 at a place of that order.
LS_INLINE v16f in_order(v16u place) {
    v16u below = (v16u)((v16i)(place - 0x8000) >> 31);
    return (v16f)((place ^ 0x8000 ^ (below & 0x7FFF)) << 16);
}

LS_INLINE v16f half_y(v16f x, const known *k, int h) { return (x - k->mean.v[h]) * k->scale.v[h] + k->beta.v[h]; }

LS_INLINE v16i all_where(__mmask16 which) { return (v16i)_mm512_movm_epi32(which); }

// The first place where y has become positive or, where it falls, no longer is.
LS_INLINE v16u turning_place(const known *k, int h, v16i falls) {
    v16u low = (v16u){0} + FIRST_FINITE, high = (v16u){0} + AFTER_FINITE;
    for (int i = 0; i < 16; i++) {
        v16u middle = (low + high) >> 1;
        __mmask16 is = _mm512_cmpgt_epi32_mask((__m512i)half_y(in_order(middle), k, h), _mm512_setzero_si512());
        v16u behind = (v16u)((all_where(is) ^ falls) | ~((v16i)(low - high) >> 31));
        high = (behind & middle) | (~behind & high);
        low = (behind & low) | (~behind & (middle + 1));
        low = (v16u)_mm512_min_epu32((__m512i)low, (__m512i)high);
    }
    return high;
}

// Where distances from the mean are finite and so is all that follows, but for products that are as infinite as they are large.
LS_INLINE int well_behaved(const known *k, int h) {
    const __m512i all = _mm512_set1_epi32(0x7FFFFFFF), infinity = _mm512_set1_epi32(0x7F800000);
    return _mm512_cmplt_epu32_mask((__m512i)k->mean.v[h] & all, _mm512_set1_epi32((127 + 119) << 23)) == 0xFFFF &&
           _mm512_cmplt_epu32_mask((__m512i)k->scale.v[h] & all, infinity) == 0xFFFF &&
           _mm512_cmplt_epu32_mask((__m512i)k->beta.v[h] & all, infinity) == 0xFFFF;
}

static void bounds_bf16(ls_norm_pass *p) {
    const known k = known_of(p);
    v16u flip = {0}, bound = {0};
    p->bounded = well_behaved(&k, 0) && well_behaved(&k, 1);
    for (int h = 0; h < 2 && p->bounded; h++) {
        v16i falls = (v16i)k.scale.v[h] >> 31;
        v16u place = turning_place(&k, h, falls), above_zero = (v16u) ~((v16i)(place - 0x8000) >> 31);
        // From the place on: as their bits say, from above where x has a sign. Before it: the same of all bits turned over.
        v16u turned = ((above_zero & 0x7FFF) ^ (v16u)falls) & 0xFFFF;
        v16u last = ((v16u)falls & (place - 1)) | (~(v16u)falls & (0xFFFF - place));
        flip |= turned << 16 * h;
        bound |= last << 16 * h;
    }
    memcpy(p->flip, &flip, sizeof flip);
    memcpy(p->bound, &bound, sizeof bound);
}

// --- for the kernel --------------------------------------------------------------------------------------------------

static void sample_bf16(ls_norm_pass *p) { sample(LS_DTYPE_BF16, p); }
static void moments_bf16(ls_norm_pass *p) { moments(LS_DTYPE_BF16, p); }
static void forward_bf16(ls_norm_pass *p) { forward_any(LS_DTYPE_BF16, p); }
static void backward_sums_bf16(ls_norm_pass *p) { backward_sums_any(LS_DTYPE_BF16, p); }
static void backward_data_bf16(ls_norm_pass *p) { backward_data_any(LS_DTYPE_BF16, p); }

const ls_norm_loops *ls__norm_loops_of_bf16(void) {
    static const ls_norm_loops loops = {sample_bf16,  moments_bf16,       bounds_bf16,
                                        forward_bf16, backward_sums_bf16, backward_data_bf16};
    return __builtin_cpu_supports("avx512bf16") ? &loops : NULL;
}
#else
const ls_norm_loops *ls__norm_loops_of_bf16(void) { return NULL; }
#endif
