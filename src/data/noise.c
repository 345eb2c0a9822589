#include "data/noise.h"

#include <math.h>

#include "base/bf16.h"
#include "base/fp16.h"

void ls_noise_add(void *values, ls_dtype dtype, int64_t count, const ls_noise_range *channel, int64_t channels,
                  uint64_t seed, uint32_t epoch, uint64_t sample) {
    float *f = values;
    ls_bf16 *b = values;
    ls_fp16 *h = values;
    int wide = dtype == LS_DTYPE_F32, half = dtype == LS_DTYPE_F16;
    for (int64_t i = 0; i < count; i++) {
        const ls_noise_range *c = &channel[i % channels];
        float x = wide ? f[i] : half ? ls_fp16_to_float(h[i]) : ls_bf16_to_float(b[i]);
        x += c->deviation * ls_noise_normal(seed, epoch, sample, (uint32_t)i);
        x = x < c->low ? c->low : x > c->high ? c->high : x;
        if (wide)
            f[i] = x;
        else if (half)
            h[i] = ls_float_to_fp16(x);
        else
            b[i] = ls_float_to_bf16(x);
    }
}

static double uniform(uint32_t word) { return ((double)word + 0.5) * 0x1p-32; }

// By rejection, as M. D. Joehnk has it ("Erzeugung von betaverteilten und gammaverteilten Zufallszahlen", Metrika 8, 1964).
float ls_noise_mix(uint64_t seed, uint32_t epoch, uint64_t sample, double alpha, int64_t count, int64_t *partner) {
    ls_philox4 r = ls__noise_words(seed, epoch, sample, 0, 3);
    *partner = (int64_t)((uint64_t)r.v[0] * (uint64_t)count >> 32);
    for (uint32_t turn = 1; turn < 100; turn++) {
        r = ls__noise_words(seed, epoch, sample, turn, 3);
        double x = pow(uniform(r.v[0]), 1 / alpha), y = pow(uniform(r.v[1]), 1 / alpha);
        if (x + y <= 1) return (float)(floor(x / (x + y) * 65536 + 0.5) / 65536);
    }
    return 0.5F;
}
