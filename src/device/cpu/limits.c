// What one thread of this processor can do at most, measured: arithmetic by the widest instructions that kernels may use, on registers
// alone, and memory by a triad far beyond the caches.
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clones.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "device/cpu/cpu.h"
#include "device/cpu/isa.h"
#include "device/cpu/tiles.h"

#define MEASURE_SECONDS 0.002
#define TRIAD_SECONDS   0.3  // when REPEATS take longer
enum { REPEATS = 20, REPEATS_LEAST = 5, TRIAD_CACHES = 4, TRIAD_BYTES = 96 << 20 };

// --- arithmetic ------------------------------------------------------------------------------------------------------

// Does `rounds` of something and returns how many operations that were.
typedef double (*work)(int64_t rounds);

#if defined(__x86_64__) && (__GNUC__ >= 11 || defined(__clang__))
#include <immintrin.h>

enum { CHAINS = 12 };  // as many sums at once as hide the time that one takes

// Each sum is a variable of its own: those of an array would be kept in memory, at half the rate.
#define FOUR_SUMS(a, b, c, d, zero) a = zero, b = zero, c = zero, d = zero
#define FOUR_STEPS(a, b, c, d, step)                                                                                   \
    a = step(a), b = step(b), c = step(c), d = step(d);                                                                \
    __asm__ volatile("" : "+v"(a), "+v"(b), "+v"(c), "+v"(d))
#define CHAINS_OF(type, zero, step)                                                                                    \
    type FOUR_SUMS(v0, v1, v2, v3, zero), FOUR_SUMS(v4, v5, v6, v7, zero), FOUR_SUMS(v8, v9, v10, v11, zero);          \
    for (int64_t r = 0; r < rounds; r++) {                                                                             \
        FOUR_STEPS(v0, v1, v2, v3, step);                                                                              \
        FOUR_STEPS(v4, v5, v6, v7, step);                                                                              \
        FOUR_STEPS(v8, v9, v10, v11, step);                                                                            \
    }

__attribute__((target("avx2,fma"))) static double fma_avx2(int64_t rounds) {
    __m256 a = _mm256_set1_ps(0.5f);
#define STEP(v) _mm256_fmadd_ps(v, a, a)
    CHAINS_OF(__m256, a, STEP)
#undef STEP
    return (double)rounds * CHAINS * 8 * 2;
}

__attribute__((target("avx512f"))) static double fma_avx512(int64_t rounds) {
    __m512 a = _mm512_set1_ps(0.5f);
#define STEP(v) _mm512_fmadd_ps(v, a, a)
    CHAINS_OF(__m512, a, STEP)
#undef STEP
    return (double)rounds * CHAINS * 16 * 2;
}

__attribute__((target("avx512f,avx512bf16"))) static double dot_avx512(int64_t rounds) {
    __m512 zero = _mm512_setzero_ps();
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
#define STEP(v) _mm512_dpbf16_ps(v, a, a)
    CHAINS_OF(__m512, zero, STEP)
#undef STEP
    return (double)rounds * CHAINS * 32 * 2;
}

// As products of matrices do: four sums of tiles at once. The tiles are too few to be loaded again.
static double products_amx(int64_t rounds) {
    static ls_bf16 a[2 * LS_TILE_SIZE], b[2 * 4 * LS_TILE_SIZE];
    static _Thread_local float c[4 * LS_TILE * LS_TILE];
    enum { DEPTH = 64 };
    ls_tile_state before;
    ls_tile_block block = {.a = a,
                           .a_row = LS_TILE_DEPTH,
                           .b = b,
                           .b_column = 4 * LS_TILE_SIZE,
                           .c = c,
                           .c_row = 2 * LS_TILE,
                           .groups = DEPTH / 4,
                           .depth = 4,
                           .rows = 2,
                           .columns = 2};
    ls__tiles_amx.begin(&before);
    for (int64_t r = 0; r < rounds; r++) ls__tiles_amx.multiply(&block);
    ls__tiles_amx.end(&before);
    return (double)rounds * DEPTH * 4 * LS_TILE * LS_TILE * LS_TILE_DEPTH * 2;
}

static work widest(ls_dtype precision, const char **name) {
    int bf16 = precision == LS_DTYPE_BF16;
    if (precision == LS_DTYPE_F16) return NULL;  // the library's products may be of fp16 or of fp32
    if (bf16 && ls__cpu_has_tiles()) return *name = "AMX", products_amx;
    if (bf16 && ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_bf16)) return *name = "AVX-512 BF16", dot_avx512;
    if (ls__cpu_isa_has(dnnl_cpu_isa_avx512_core)) return *name = "AVX-512", fma_avx512;
    if (ls__cpu_isa_has(dnnl_cpu_isa_avx2)) return *name = "AVX2", fma_avx2;
    return NULL;
}
#else
static work widest(ls_dtype precision, const char **name) { return NULL; }
#endif

static double rate_of(work w) {
    double best = 0;
    int64_t rounds = 64;
    for (int i = 0; i < REPEATS;) {
        double start = ls_clock(), operations = w(rounds), took = ls_clock() - start;
        if (took < MEASURE_SECONDS) {
            rounds *= 2;
            continue;
        }
        if (operations / took > best) best = operations / took;
        i++;
    }
    return best;
}

// --- memory ----------------------------------------------------------------------------------------------------------

LS_CLONES static void triad(float *restrict a, const float *restrict b, const float *restrict c, int64_t n) {
    for (int64_t i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
}

// How long its arrays are. Those of all cores hold four times as much as the last cache, which is 480 MiB on some servers and gives what it
// keeps at 1.8 times the memory's rate; no more than a quarter of what memory is left goes into them.
static int64_t triad_floats(void) {
    int64_t bytes = TRIAD_BYTES;
#ifdef _SC_LEVEL3_CACHE_SIZE
    int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE), cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores < 1) cores = 1;
    if (cache > 0 && TRIAD_CACHES * cache / cores > bytes) bytes = TRIAD_CACHES * cache / cores;
    double left = ls_limits_memory_left();
    int64_t most = left >= 0 ? (int64_t)(left / 4) / cores : bytes;
    if (bytes > most) bytes = most > TRIAD_BYTES ? most : TRIAD_BYTES;
#endif
    return bytes / (3 * (int64_t)sizeof(float));
}

static ls_status memory_rate(double *rate) {
    float *all;
    int64_t n = triad_floats();
    if (ls_memory_alloc(3 * n * (int64_t)sizeof(float), &all) != LS_OK) {  // address space may be limited
        n = TRIAD_BYTES / (3 * (int64_t)sizeof(float));
        LS_TRY(ls_memory_alloc(3 * n * (int64_t)sizeof(float), &all));
    }
    *rate = 0;
    double begin = ls_clock();
    for (int i = 0; i < REPEATS && (i < REPEATS_LEAST || ls_clock() - begin < TRIAD_SECONDS); i++) {
        double start = ls_clock();
        triad(all, all + n, all + 2 * n, n);
        double found = 3.0 * (double)n * sizeof(float) / (ls_clock() - start);
        if (found > *rate) *rate = found;
    }
    ls_memory_free(all);
    return LS_OK;
}

ls_status ls__cpu_limits(ls_device *device, ls_dtype precision, ls_device_limits *out) {
    (void)device;
    const char *name = NULL;
    work w = widest(precision, &name);
    *out = (ls_device_limits){.instructions = name};
    if (!w) return LS_OK;
    LS_TRY(memory_rate(&out->bytes));
    out->flops = rate_of(w);
    return LS_OK;
}
