#include "device/cpu/tiles.h"

#include <string.h>

#include "device/cpu/transpose_impl.h"

// --- the AMX unit ----------------------------------------------------------------------------------------------------

#if defined(__x86_64__) && defined(__linux__) && (__GNUC__ >= 11 || defined(__clang__))
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AMX __attribute__((target("amx-tile,amx-bf16")))

// The system lets a process use the unit's registers once it has asked for them.
static int amx_available(void) {
    enum { ARCH_REQUEST_STATE = 0x1023, STATE_TILE_DATA = 18 };
    unsigned a, b, c, d;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    int has = (d >> 22 & d >> 24 & 1) != 0;  // AMX-BF16, AMX-TILE
    return has && syscall(SYS_arch_prctl, ARCH_REQUEST_STATE, STATE_TILE_DATA) == 0;
}

// Eight tiles of 16 rows of 64 bytes. Not on the stack: to compilers the instruction that reads it reads eight bytes.
static const _Alignas(64) uint8_t tile_config[64] = {
    [0] = 1,  // the palette
    [16] = 64, [18] = 64, [20] = 64, [22] = 64, [24] = 64, [26] = 64, [28] = 64, [30] = 64,
    [48] = 16, [49] = 16, [50] = 16, [51] = 16, [52] = 16, [53] = 16, [54] = 16, [55] = 16,
};

static AMX void amx_begin(ls_tile_state *before) {
    _tile_storeconfig(before->config);
    _tile_loadconfig(tile_config);
}

static AMX void amx_end(const ls_tile_state *before) {
    if (before->config[0])
        _tile_loadconfig(before->config);
    else
        _tile_release();
}

enum { ROW_BYTES = 64 };

#define AMX_INLINE static inline __attribute__((always_inline, target("amx-tile,amx-bf16")))

AMX_INLINE void multiply_4(const ls_bf16 *a0, const ls_bf16 *a1, int64_t a_bytes, const ls_bf16 *b0,
                           const ls_bf16 *b1) {
    _tile_loadd(4, a0, a_bytes);
    _tile_loadd(6, b0, ROW_BYTES);
    _tile_loadd(7, b1, ROW_BYTES);
    _tile_loadd(5, a1, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

AMX_INLINE void multiply_1(const ls_bf16 *a, int64_t a_bytes, const ls_bf16 *b) {
    _tile_loadd(4, a, a_bytes);
    _tile_loadd(6, b, ROW_BYTES);
    _tile_dpbf16ps(0, 4, 6);
}

static AMX void amx_2x2(const ls_tile_block *p) {
    int64_t a_bytes = p->a_row * 2, c_bytes = p->c_row * 4, below = LS_TILE * p->a_row;
    float *c0 = p->c, *c1 = c0 + LS_TILE * p->c_row;
    if (p->add) {
        _tile_loadd(0, c0, c_bytes);
        _tile_loadd(1, c0 + LS_TILE, c_bytes);
        _tile_loadd(2, c1, c_bytes);
        _tile_loadd(3, c1 + LS_TILE, c_bytes);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t g = 0; g < p->groups; g++) {
        const ls_bf16 *a = p->a + g * p->a_group, *b0 = p->b + g * p->b_group, *b1 = b0 + p->b_column;
        if (p->a_offset)
            for (int64_t k = 0; k < p->depth; k++)
                multiply_4(a + p->a_offset[k], a + p->a_offset[k] + below, a_bytes, b0 + p->b_offset[k],
                           b1 + p->b_offset[k]);
        else
            for (int64_t k = 0; k < p->depth; k++, a += p->a_step, b0 += LS_TILE_SIZE, b1 += LS_TILE_SIZE)
                multiply_4(a, a + below, a_bytes, b0, b1);
    }
    _tile_stored(0, c0, c_bytes);
    _tile_stored(1, c0 + LS_TILE, c_bytes);
    _tile_stored(2, c1, c_bytes);
    _tile_stored(3, c1 + LS_TILE, c_bytes);
}

static AMX void amx_1x1(const ls_tile_block *p) {
    int64_t a_bytes = p->a_row * 2, c_bytes = p->c_row * 4;
    if (p->add)
        _tile_loadd(0, p->c, c_bytes);
    else
        _tile_zero(0);
    for (int64_t g = 0; g < p->groups; g++) {
        const ls_bf16 *a = p->a + g * p->a_group, *b = p->b + g * p->b_group;
        for (int64_t k = 0; k < p->depth; k++) multiply_1(a + ls__tile_of_a(p, k), a_bytes, b + ls__tile_of_b(p, k));
    }
    _tile_stored(0, p->c, c_bytes);
}

static __attribute__((noinline)) void amx_by_the_tile(const ls_tile_block *p) {
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->columns; j++) {
            ls_tile_block one = *p;
            one.a += i * LS_TILE * p->a_row;
            one.b += j * p->b_column;
            one.c += i * LS_TILE * p->c_row + j * LS_TILE;
            amx_1x1(&one);
        }
}

static void amx_multiply(const ls_tile_block *p) {
    __asm__ volatile("" ::: "memory");  // to compilers the instructions that load tiles read nothing
    if (p->rows == 2 && p->columns == 2)
        amx_2x2(p);
    else
        amx_by_the_tile(p);
}
#else
static int amx_available(void) { return 0; }
static void amx_begin(ls_tile_state *before) { (void)before; }
static void amx_end(const ls_tile_state *before) { (void)before; }
static void amx_multiply(const ls_tile_block *p) { (void)p; }
#endif

const ls_tile_ops ls__tiles_amx = {"tiles:amx_bf16", amx_available, amx_begin, amx_multiply, amx_end, 100, 0};

// --- the same in plain C ---------------------------------------------------------------------------------------------

static int plain_available(void) { return 1; }
static void plain_begin(ls_tile_state *before) { (void)before; }
static void plain_end(const ls_tile_state *before) { (void)before; }

// One sum of a tile: 16 pairs of a row of A and a column of B.
static float pairs_of(const ls_bf16 *a, const ls_bf16 *b) {
    float even = 0, odd = 0;
    for (int i = 0; i < LS_TILE; i++) {
        even = __builtin_fmaf(ls_bf16_to_float(a[2 * i]), ls_bf16_to_float(b[32 * i]), even);
        odd = __builtin_fmaf(ls_bf16_to_float(a[2 * i + 1]), ls_bf16_to_float(b[32 * i + 1]), odd);
    }
    return even + odd;
}

static void plain_multiply(const ls_tile_block *p) {
    for (int i = 0; i < p->rows * LS_TILE; i++)
        for (int j = 0; j < p->columns * LS_TILE; j++) {
            const ls_bf16 *a = p->a + i * p->a_row, *b = p->b + j / LS_TILE * p->b_column + j % LS_TILE * 2;
            float *c = p->c + i * p->c_row + j;
            if (!p->add) *c = 0;
            for (int64_t g = 0; g < p->groups; g++)
                for (int64_t k = 0; k < p->depth; k++)
                    *c += pairs_of(a + g * p->a_group + ls__tile_of_a(p, k), b + g * p->b_group + ls__tile_of_b(p, k));
        }
}

const ls_tile_ops ls__tiles_plain = {"tiles:plain", plain_available, plain_begin, plain_multiply, plain_end, 100, 0};

// --- bringing numbers into tiles -------------------------------------------------------------------------------------

LS_INLINE v16u load_words(const ls_bf16 *p) {
    v16h h;
    memcpy(&h, p, sizeof h);
    return __builtin_convertvector(h, v16u);
}

LS_CLONES void ls__tile_pairs(ls_bf16 *to, int64_t to_column, const ls_bf16 *const from[LS_TILE_DEPTH], int64_t begin,
                              int64_t end, float *sums) {
    for (int64_t t = begin; t < end; t++) {
        v16f even, odd;
        if (sums) even = load16(LS_DTYPE_F32, sums, t * 32), odd = load16(LS_DTYPE_F32, sums, t * 32 + 16);
        for (int r = 0; r < LS_TILE; r++) {
            v16u low = load_words(from[2 * r] + t * 16), high = load_words(from[2 * r + 1] + t * 16) << 16;
            v16u both = low | high;
            memcpy(to + t * to_column + r * 32, &both, sizeof both);
            if (sums) even += (v16f)(low << 16), odd += (v16f)high;
        }
        if (sums) store16(LS_DTYPE_F32, sums, t * 32, even), store16(LS_DTYPE_F32, sums, t * 32 + 16, odd);
    }
}

LS_CLONES void ls__tile_transpose(ls_bf16 *to, int64_t to_row, const ls_bf16 *const from[LS_TILE_DEPTH],
                                  int64_t columns) {
    for (int64_t t = 0; t < columns; t++) {
        v16u v[16];
#pragma GCC unroll 16
        for (int r = 0; r < 16; r++)
            v[r] = load_words(from[2 * r] + t * 16) | load_words(from[2 * r + 1] + t * 16) << 16;
        transpose_words(v);
#pragma GCC unroll 16
        for (int c = 0; c < 16; c++) memcpy(to + (t * 16 + c) * to_row, &v[c], sizeof v[c]);
    }
}
