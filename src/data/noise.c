#include "data/noise.h"

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
