// Products in tiles by the instruction of AVX512-BF16 that adds two products to each of sixteen sums.
#include <string.h>

#include "device/cpu/tiles.h"

static void begin(ls_tile_state *before) { (void)before; }
static void end(const ls_tile_state *before) { (void)before; }

#if defined(__x86_64__) && (__GNUC__ >= 10 || defined(__clang__))
#include <immintrin.h>

#define DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

static int available(void) { return __builtin_cpu_supports("avx512bf16") != 0; }

enum { ROWS = 8 };  // whose sums stay in registers until the last tile

// `columns` tiles of ROWS rows: each pair of A that is brought is used for all of them.
static inline __attribute__((always_inline)) DOTS void multiply_rows(const ls_tile_block *p, const ls_bf16 *first_a,
                                                                     const ls_bf16 *first_b, float *c, int columns) {
    __m512 sums[ROWS][2];
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++)
            sums[r][j] = p->add ? _mm512_loadu_ps(c + r * p->c_row + j * LS_TILE) : _mm512_setzero_ps();
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t k = 0; k < p->depth; k++) {
            const ls_bf16 *a = first_a + g * p->a_group + ls__tile_of_a(p, k),
                          *b = first_b + g * p->b_group + ls__tile_of_b(p, k);
            for (int i = 0; i < LS_TILE; i++, a += 2, b += 2 * LS_TILE) {
                __m512bh pairs[2];
#pragma GCC unroll 2
                for (int j = 0; j < columns; j++) pairs[j] = (__m512bh)_mm512_loadu_si512(b + j * p->b_column);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++) {
                    int32_t both;
                    memcpy(&both, a + r * p->a_row, sizeof both);
                    __m512bh same = (__m512bh)_mm512_set1_epi32(both);
#pragma GCC unroll 2
                    for (int j = 0; j < columns; j++) sums[r][j] = _mm512_dpbf16_ps(sums[r][j], pairs[j], same);
                }
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int j = 0; j < columns; j++) _mm512_storeu_ps(c + r * p->c_row + j * LS_TILE, sums[r][j]);
}

static DOTS void multiply(const ls_tile_block *p) {
    for (int64_t r = 0; r < p->rows * LS_TILE; r += ROWS) {
        const ls_bf16 *a = p->a + r * p->a_row;
        float *c = p->c + r * p->c_row;
        if (p->columns == 2)
            multiply_rows(p, a, p->b, c, 2);
        else
            multiply_rows(p, a, p->b, c, 1);
    }
}
#else
static int available(void) { return 0; }
static void multiply(const ls_tile_block *p) { (void)p; }
#endif

const ls_tile_ops ls__tiles_dots = {"tiles:avx512_bf16", available, begin, multiply, end, 12, 1};

// --- the same in plain C ---------------------------------------------------------------------------------------------

static int always(void) { return 1; }

// What is smaller than the least normal number counts as zero.
static float flushed(float v) { return __builtin_fabsf(v) < 0x1p-126f ? __builtin_copysignf(0, v) : v; }

static float add_product(float sum, ls_bf16 a, ls_bf16 b) {
    return flushed(__builtin_fmaf(flushed(ls_bf16_to_float(a)), flushed(ls_bf16_to_float(b)), sum));
}

static void plain_multiply(const ls_tile_block *p) {
    for (int i = 0; i < p->rows * LS_TILE; i++)
        for (int j = 0; j < p->columns * LS_TILE; j++) {
            const ls_bf16 *first_a = p->a + i * p->a_row, *first_b = p->b + j / LS_TILE * p->b_column + j % LS_TILE * 2;
            float *c = p->c + i * p->c_row + j, sum = p->add ? flushed(*c) : 0;
            for (int64_t g = 0; g < p->groups; g++)
                for (int64_t k = 0; k < p->depth; k++) {
                    const ls_bf16 *a = first_a + g * p->a_group + ls__tile_of_a(p, k);
                    const ls_bf16 *b = first_b + g * p->b_group + ls__tile_of_b(p, k);
                    for (int e = 0; e < LS_TILE_DEPTH; e += 2) {
                        sum = add_product(sum, a[e + 1], b[e * LS_TILE + 1]);
                        sum = add_product(sum, a[e], b[e * LS_TILE]);
                    }
                }
            *c = sum;
        }
}

const ls_tile_ops ls__tiles_dots_plain = {"tiles:plain_dots", always, begin, plain_multiply, end, 12, 1};
