// Products in tiles by the instruction of AVX512-BF16 that adds two products to each of sixteen sums.
#include <string.h>

#include "device/cpu/tiles.h"

static void begin(ls_tile_state *before) { (void)before; }
static void end(const ls_tile_state *before) { (void)before; }

#if defined(__x86_64__) && (__GNUC__ >= 10 || defined(__clang__))
#include <immintrin.h>

#define DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

static int available(void) { return __builtin_cpu_supports("avx512bf16") != 0; }

// 16 x 16 sums stay in registers until the last tile.
static DOTS void multiply_tile(const ls_tile_block *p, const ls_bf16 *first_a, const ls_bf16 *first_b, float *c) {
    __m512 sums[LS_TILE];
#pragma GCC unroll 16
    for (int r = 0; r < LS_TILE; r++) sums[r] = p->add ? _mm512_loadu_ps(c + r * p->c_row) : _mm512_setzero_ps();
    for (int64_t g = 0; g < p->groups; g++)
        for (int64_t k = 0; k < p->depth; k++) {
            const ls_bf16 *a = first_a + g * p->a_group + ls__tile_of_a(p, k),
                          *b = first_b + g * p->b_group + ls__tile_of_b(p, k);
            for (int i = 0; i < LS_TILE; i++, a += 2, b += 2 * LS_TILE) {
                __m512bh pairs = (__m512bh)_mm512_loadu_si512(b);
#pragma GCC unroll 16
                for (int r = 0; r < LS_TILE; r++) {
                    int32_t both;
                    memcpy(&both, a + r * p->a_row, sizeof both);
                    sums[r] = _mm512_dpbf16_ps(sums[r], pairs, (__m512bh)_mm512_set1_epi32(both));
                }
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < LS_TILE; r++) _mm512_storeu_ps(c + r * p->c_row, sums[r]);
}

static void multiply(const ls_tile_block *p) {
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->columns; j++)
            multiply_tile(p, p->a + i * LS_TILE * p->a_row, p->b + j * p->b_column,
                          p->c + i * LS_TILE * p->c_row + j * LS_TILE);
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
