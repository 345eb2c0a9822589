// Weight gradients of dense layers of many vectors, from more channels than they have units. The library turns X round before it multiplies, by the element, which for 1024
// channels to 256 units takes a third of the pass. Here channels are what is broadcast, so X has only to be copied into strips.
//
// Sums are those of oneDNN 2.6: of 1024 vectors one after the other, each product added with one rounding; and those of each 1024 are added up.
#include "device/cpu/dense_weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

#if defined(__x86_64__) && (__GNUC__ >= 10 || defined(__clang__))
#include <immintrin.h>

#define WIDE        __attribute__((target("avx512f")))
#define WIDE_INLINE static inline __attribute__((always_inline, target("avx512f")))

// Vectors that are added up at once; channels of a block, which lies in the second cache, and of a strip; units of a strip, and of the blocks that DW lies in.
enum { CHUNK = 1024, BLOCK = 64, STRIP = 8, UNITS = 32, UNITS_BLOCK = 64, LANES = 16 };

typedef struct dense_weights_kernel {
    ls_kernel base;
    int64_t vectors, channels, units;
    int threads;
} dense_weights_kernel;

// DY's strips, and for each thread a block of X's.
static int64_t block_floats(void) { return (int64_t)CHUNK * BLOCK; }
static int64_t dy_floats(const dense_weights_kernel *k) { return CHUNK * k->units; }

// 8 channels of X to 8 rows.
static WIDE void load_block(const float *x, int64_t row, float *strips) {
    for (int64_t v = 0; v < CHUNK; v++)
        for (int s = 0; s < BLOCK / STRIP; s++)
            _mm256_storeu_ps(strips + ((int64_t)s * CHUNK + v) * STRIP, _mm256_loadu_ps(x + v * row + s * STRIP));
}

// A strip of DY, and what it adds to the gradient of the bias.
static WIDE void load_strip(const float *dy, int64_t row, float *strip, float *bias) {
    __m512 low = bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps();
    __m512 high = bias ? _mm512_loadu_ps(bias + LANES) : _mm512_setzero_ps();
    for (int64_t v = 0; v < CHUNK; v++) {
        __m512 first = _mm512_loadu_ps(dy + v * row), second = _mm512_loadu_ps(dy + v * row + LANES);
        _mm512_storeu_ps(strip + v * UNITS, first);
        _mm512_storeu_ps(strip + v * UNITS + LANES, second);
        low = _mm512_add_ps(low, first);
        high = _mm512_add_ps(high, second);
    }
    if (!bias) return;
    _mm512_storeu_ps(bias, low);
    _mm512_storeu_ps(bias + LANES, high);
}

WIDE_INLINE void put(float *to, __m512 sum, int add) {
    _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum) : sum);
}

// 8 channels by 32 units of DW, whose rows are UNITS_BLOCK apart: the sums stay in registers.
static WIDE void multiply(const float *x, const float *dy, float *dw, int add) {
    enum { AHEAD = 8 };  // vectors
    __m512 low[STRIP], high[STRIP];
#pragma GCC unroll 8
    for (int c = 0; c < STRIP; c++) low[c] = high[c] = _mm512_setzero_ps();
    for (int64_t v = 0; v < CHUNK; v++, x += STRIP, dy += UNITS) {
        __m512 first = _mm512_loadu_ps(dy), second = _mm512_loadu_ps(dy + LANES);
        __builtin_prefetch(dy + AHEAD * UNITS);
        __builtin_prefetch(dy + AHEAD * UNITS + LANES);
#pragma GCC unroll 8
        for (int c = 0; c < STRIP; c++) {
            __m512 channel = _mm512_set1_ps(x[c]);
            low[c] = _mm512_fmadd_ps(channel, first, low[c]);
            high[c] = _mm512_fmadd_ps(channel, second, high[c]);
        }
    }
#pragma GCC unroll 8
    for (int c = 0; c < STRIP; c++) {
        put(dw + c * UNITS_BLOCK, low[c], add);
        put(dw + c * UNITS_BLOCK + LANES, high[c], add);
    }
}

// All units of a block of channels, from its strips of X.
static void multiply_block(const dense_weights_kernel *k, const float *strips, const float *dy, float *dw, int add) {
    for (int64_t u = 0; u < k->units; u += UNITS)
        for (int64_t c = 0; c < BLOCK; c += STRIP)
            multiply(strips + c * CHUNK, dy + u * CHUNK,
                     dw + u / UNITS_BLOCK * UNITS_BLOCK * k->channels + c * UNITS_BLOCK + u % UNITS_BLOCK, add);
}

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const dense_weights_kernel *k = (const dense_weights_kernel *)kernel;
    float *scratch = args[LS_ARG_SCRATCH], *dw = args[LS_ARG_DW];
    float *bias = kernel->layout[LS_ARG_DW + 1] ? args[LS_ARG_DW + 1] : NULL;
    if (bias) memset(bias, 0, (size_t)k->units * sizeof *bias);
    for (int64_t v = 0; v < k->vectors; v += CHUNK) {
        const float *x = (const float *)args[LS_ARG_X] + v * k->channels;
        const float *dy = (const float *)args[LS_ARG_DY] + v * k->units;
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
        for (int64_t u = 0; u < k->units; u += UNITS)
            load_strip(dy + u, k->units, scratch + u * CHUNK, bias ? bias + u : NULL);
#pragma omp parallel for num_threads(k->threads) if (k->threads > 1)
        for (int64_t t = 0; t < k->threads; t++) {
            int64_t blocks = k->channels / BLOCK;
            float *strips = scratch + dy_floats(k) + t * block_floats();
            for (int64_t b = blocks * t / k->threads; b < blocks * (t + 1) / k->threads; b++) {
                load_block(x + b * BLOCK, k->channels, strips);
                multiply_block(k, strips, scratch, dw + b * BLOCK * UNITS_BLOCK, v > 0);
            }
        }
    }
    return LS_OK;
}

static void destroy(ls_kernel *kernel) { free(kernel); }

// Measured on a Zen 4 (GFLOP/s, library and ours; its products reach 118): of 2048 vectors 1024 to 256 65 and 101, 4096 to 1024 75 and 97, but 256 to 1024 101 and 105, 256 to 256 105 and
// 101. Of 1024 vectors or fewer the library reaches 100, whatever the channels; of numbers in between it adds up otherwise.
static int pays(const dense_weights_kernel *k) {
    return k->vectors >= 2 * CHUNK && k->vectors % CHUNK == 0 && k->channels % BLOCK == 0 &&
           k->units % UNITS_BLOCK == 0 && k->channels >= 2 * k->units;
}

// Whether the library's kernel has the layouts that are known here.
static ls_status is_known(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_kernel *library, int *known) {
    const ls_layout *x, *dy, *dw;
    *known = 0;
    if (strcmp(library->name, "brgemm_bwd_w:avx512_core") != 0) return LS_OK;
    LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, LS_DTYPE_F32, 0, dnnl_ab, &x));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->y[0].shape, LS_DTYPE_F32, 0, dnnl_ab, &dy));
    LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_F32, 1, dnnl_OI16i64o, &dw));
    *known = library->layout[LS_ARG_X] == x && library->layout[LS_ARG_DY] == dy && library->layout[LS_ARG_DW] == dw;
    return LS_OK;
}

ls_status ls__cpu_dense_weights_replace(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **kernel) {
    static const ls_kernel_ops ops = {run, destroy};
    const int64_t *x = spec->x[0].shape.dim, *y = spec->y[0].shape.dim;
    dense_weights_kernel *k,
        sizes = {.vectors = x[0], .channels = x[1], .units = y[1], .threads = cpu->base.options.threads};
    int fits = 0;
    if (spec->op != LS_OP_DENSE || spec->pass != LS_PASS_BACKWARD_WEIGHTS || spec->x[0].shape.ndim != 2) return LS_OK;
    if (spec->x[0].dtype != LS_DTYPE_F32 || !pays(&sizes)) return LS_OK;
    LS_TRY(is_known(cpu, spec, *kernel, &fits));
    if (!fits) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    *k = sizes;
    k->base = **kernel;
    k->base.ops = &ops;
    k->base.name = "loop:dense_weights";
    k->base.tiles = k->channels / BLOCK;
    k->base.scratch_bytes = (dy_floats(k) + k->threads * block_floats()) * (int64_t)sizeof(float);
    ls_kernel_destroy(kernel);
    *kernel = &k->base;
    return LS_OK;
}
#else
ls_status ls__cpu_dense_weights_replace(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **kernel) { return LS_OK; }
#endif
