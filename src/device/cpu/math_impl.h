// exp and what is made of it, of sixteen floats at a time, from plain arithmetic: the same bits with every instruction set, good to a
// relative 3e-7. What is no number stays none. For files of loops (loops_impl.h), where device/math.h in double would be the longest part.
// Form and coefficients of exp and tanh: S. Moshier's Cephes library, expf.c and tanhf.c.
#ifndef LS_DEVICE_CPU_MATH_IMPL_H
#define LS_DEVICE_CPU_MATH_IMPL_H

#include "device/cpu/loops_impl.h"

LS_INLINE v16f all16(float x) { return (v16f){0} + x; }
LS_INLINE v16f larger16(v16f a, v16f b) { return select16(greater16(a, b), a, b); }
LS_INLINE v16f smaller16(v16f a, v16f b) { return select16(greater16(a, b), b, a); }

// Two vectors at a time: a formula is a long chain, of which a processor's queues hold little more than one, so that it would wait for
// each step. Statement by statement there are two to choose from.
#define EACH_HALF for (int h = 0; h < 2; h++)

// Below -87: zero. Above 88: the value there.
LS_INLINE row exp32(row x) {
    row bounded, shifted, k, r, p, scale;
    EACH_HALF bounded.v[h] = smaller16(larger16(x.v[h], all16(-87)), all16(88));
    EACH_HALF shifted.v[h] = bounded.v[h] * 1.44269504088896341f + 0x1.8p23f;  // its last bits are k
    EACH_HALF k.v[h] = shifted.v[h] - 0x1.8p23f;
    EACH_HALF r.v[h] = (bounded.v[h] - k.v[h] * 0.693359375f) + k.v[h] * 2.12194440e-4f;
    EACH_HALF p.v[h] = r.v[h] * 1.9875691500e-4f + 1.3981999507e-3f;
    EACH_HALF p.v[h] = p.v[h] * r.v[h] + 8.3334519073e-3f;
    EACH_HALF p.v[h] = p.v[h] * r.v[h] + 4.1665795894e-2f;
    EACH_HALF p.v[h] = p.v[h] * r.v[h] + 1.6666665459e-1f;
    EACH_HALF p.v[h] = p.v[h] * r.v[h] + 5.0000001201e-1f;
    EACH_HALF p.v[h] = p.v[h] * (r.v[h] * r.v[h]) + r.v[h] + 1.0f;
    EACH_HALF scale.v[h] = (v16f)(((v16u)shifted.v[h] << 23) + 0x3F800000u);
    EACH_HALF p.v[h] = where16(~greater16(all16(-87), x.v[h]), p.v[h] * scale.v[h]) + x.v[h] * 0.0f;
    return p;
}

LS_INLINE v16f exp16(v16f x) { return exp32((row){{x, {0}}}).v[0]; }

LS_INLINE row sigmoid32(row x) {
    row e, y;
    EACH_HALF e.v[h] = smaller16(-x.v[h], all16(80));
    e = exp32(e);
    EACH_HALF y.v[h] = 1.0f / (e.v[h] + 1.0f) + x.v[h] * 0.0f;
    return y;
}

LS_INLINE v16f sigmoid16(v16f x) { return sigmoid32((row){{x, {0}}}).v[0]; }

LS_INLINE row tanh32(row x) {
    row far, e, z, t, p;
    EACH_HALF far.v[h] = (v16f)((v16i)x.v[h] & 0x7FFFFFFF);
    EACH_HALF e.v[h] = far.v[h] * -2.0f;
    e = exp32(e);
    EACH_HALF t.v[h] = (1.0f - e.v[h]) / (1.0f + e.v[h]);
    EACH_HALF t.v[h] = (v16f)((v16i)t.v[h] | ((v16i)x.v[h] & (int32_t)0x80000000));
    EACH_HALF z.v[h] = x.v[h] * x.v[h];
    EACH_HALF p.v[h] = z.v[h] * -5.70498872745e-3f + 2.06390887954e-2f;
    EACH_HALF p.v[h] = p.v[h] * z.v[h] - 5.37397155531e-2f;
    EACH_HALF p.v[h] = p.v[h] * z.v[h] + 1.33314422036e-1f;
    EACH_HALF p.v[h] = p.v[h] * z.v[h] - 3.33332819422e-1f;
    EACH_HALF t.v[h] = select16(greater16(all16(0.625f), far.v[h]), p.v[h] * z.v[h] * x.v[h] + x.v[h], t.v[h]);
    return t;
}

LS_INLINE v16f tanh16(v16f x) { return tanh32((row){{x, {0}}}).v[0]; }

// The share of a standard normal below x, to 2e-7, and *exponential, e^(-x^2 / 2): the tail beyond |x| is e^(-x^2 / 2) t Q(t) / 2 with t = 1 /
// (1 + |x| / sqrt(8)), as in Abramowitz and Stegun 7.1.26 with more terms (least squares; the worst of Q's error is 3e-10).
LS_INLINE row normal_below32(row x, row *exponential) {
    row far, t, q, tail;
    EACH_HALF far.v[h] = smaller16((v16f)((v16i)x.v[h] & 0x7FFFFFFF), all16(20));
    EACH_HALF t.v[h] = 1.0f / (far.v[h] * 0.353553391f + 1.0f);
    EACH_HALF far.v[h] = far.v[h] * far.v[h] * -0.5f;
    EACH_HALF q.v[h] = t.v[h] * -0.0509689764f + 0.339680683f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] - 0.876905982f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] + 0.973945023f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] - 0.348118897f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] + 0.431369201f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] + 0.245825224f;
    EACH_HALF q.v[h] = q.v[h] * t.v[h] + 0.285173725f;
    *exponential = exp32(far);
    EACH_HALF tail.v[h] = q.v[h] * t.v[h] * exponential->v[h] * 0.5f;
    EACH_HALF tail.v[h] = select16((v16i)x.v[h] >> 31, tail.v[h], 1.0f - tail.v[h]);
    return tail;
}

#undef EACH_HALF

#endif
