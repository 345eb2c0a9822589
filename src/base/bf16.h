// bfloat16: the upper half of a float. Conversion rounds to nearest, ties to even.
#ifndef LS_BASE_BF16_H
#define LS_BASE_BF16_H

#include <stdint.h>
#include <string.h>

typedef uint16_t ls_bf16;

static inline float ls_bf16_to_float(ls_bf16 b) {
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline ls_bf16 ls_float_to_bf16(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1)) >> 16;
    uint32_t nan = (u >> 16) | 0x40;  // a NaN stays one
    return (ls_bf16)((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

// The nearest float that is a bf16: ls_bf16_to_float of ls_float_to_bf16, in words of 32 bits, as loops over floats want it.
static inline float ls_bf16_round(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    uint32_t rounded = u + 0x7FFFu + ((u >> 16) & 1), nan = u | 0x400000u;
    u = ((u & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded) & 0xFFFF0000u;
    memcpy(&f, &u, 4);
    return f;
}

#endif
