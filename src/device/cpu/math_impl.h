// exp and what is made of it, of sixteen floats at a time, from plain arithmetic: the same bits with every instruction set, good to a
// relative 3e-7. What is no number stays none. For files of loops (loops_impl.h), where device/math.h in double would be the longest part.
// Form and coefficients of exp and tanh: S. Moshier's Cephes library, expf.c and tanhf.c.
#ifndef LS_DEVICE_CPU_MATH_IMPL_H
#define LS_DEVICE_CPU_MATH_IMPL_H

#include "device/cpu/loops_impl.h"

LS_INLINE v16f all16(float x) { return (v16f){0} + x; }
LS_INLINE v16f larger16(v16f a, v16f b) { return select16(greater16(a, b), a, b); }
LS_INLINE v16f smaller16(v16f a, v16f b) { return select16(greater16(a, b), b, a); }

// Below -87: zero. Above 88: the value there.
LS_INLINE v16f exp16(v16f x) {
    v16f bounded = smaller16(larger16(x, all16(-87)), all16(88));
    v16f shifted = bounded * 1.44269504088896341f + 0x1.8p23f;  // its last bits are k
    v16f k = shifted - 0x1.8p23f;
    v16f r = (bounded - k * 0.693359375f) + k * 2.12194440e-4f;
    v16f p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    v16f scale = (v16f)(((v16u)shifted << 23) + 0x3F800000u);
    return where16(~greater16(all16(-87), x), p * scale) + x * 0.0f;
}

LS_INLINE v16f sigmoid16(v16f x) { return 1.0f / (exp16(smaller16(-x, all16(80))) + 1.0f) + x * 0.0f; }

LS_INLINE v16f tanh16(v16f x) {
    v16f far = (v16f)((v16i)x & 0x7FFFFFFF), e = exp16(far * -2.0f), z = x * x;
    v16f t = (1.0f - e) / (1.0f + e);
    t = (v16f)((v16i)t | ((v16i)x & (int32_t)0x80000000));
    v16f p = z * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    return select16(greater16(all16(0.625f), far), p * z * x + x, t);
}

// The share of a standard normal below x, to 2e-7, and *exponential, e^(-x^2 / 2): the tail beyond |x| is e^(-x^2 / 2) t Q(t) / 2 with t = 1 /
// (1 + |x| / sqrt(8)), as in Abramowitz and Stegun 7.1.26 with more terms (least squares; the worst of Q's error is 3e-10).
LS_INLINE v16f normal_below16(v16f x, v16f *exponential) {
    v16f far = smaller16((v16f)((v16i)x & 0x7FFFFFFF), all16(20)), t = 1.0f / (far * 0.353553391f + 1.0f);
    v16f q = t * -0.0509689764f + 0.339680683f;
    q = q * t - 0.876905982f;
    q = q * t + 0.973945023f;
    q = q * t - 0.348118897f;
    q = q * t + 0.431369201f;
    q = q * t + 0.245825224f;
    q = q * t + 0.285173725f;
    *exponential = exp16(far * far * -0.5f);
    v16f tail = q * t * *exponential * 0.5f;
    return select16((v16i)x >> 31, tail, 1.0f - tail);
}

#endif
