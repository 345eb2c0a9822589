// Half precision, IEEE 754 binary16: five bits of exponent, ten of fraction. Conversion rounds to nearest, ties to even; from 65520 on it is
// infinite. By whole numbers throughout, so that no mode of the processor (flushing of denormals) shows in it.
#ifndef LS_BASE_FP16_H
#define LS_BASE_FP16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ls_fp16;

static inline float ls_fp16_to_float(ls_fp16 h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 1023u, bits;
    float f;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | fraction << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    } else {
        f = (float)fraction * 0x1p-24f;  // exact, also of 0
        memcpy(&bits, &f, 4);
        bits |= sign;
    }
    memcpy(&f, &bits, 4);
    return f;
}

static inline ls_fp16 ls_float_to_fp16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t sign = u >> 16 & 0x8000u, a = u & 0x7FFFFFFFu;
    if (a > 0x7F800000u) return (ls_fp16)(sign | 0x7E00u | (a >> 13 & 0x3FFu));  // a NaN stays one
    if (a >= 0x477FF000u) return (ls_fp16)(sign | 0x7C00u);
    if (a >= 0x38800000u)  // normal there, too: the exponent counts from 15 instead of 127
        return (ls_fp16)(sign | (((a + 0xFFFu + (a >> 13 & 1)) >> 13) - (112u << 10)));
    if (a < 0x33000000u) return (ls_fp16)sign;                              // below half of the least number, 2^-24
    uint32_t whole = (a & 0x7FFFFFu) | 0x800000u, shift = 126 - (a >> 23);  // in units of 2^-24: whole >> shift
    uint32_t rest = whole & ((1u << shift) - 1), half = 1u << (shift - 1), units = whole >> shift;
    return (ls_fp16)(sign | (units + (rest > half || (rest == half && (units & 1)))));
}

#endif
