// Copies past the caches: for what is written whole and is not read again soon, or first by others. An ordinary store reads a line before it
// writes it, and keeps it in place of another one.
#ifndef LS_BASE_STREAM_H
#define LS_BASE_STREAM_H

#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

// n floats, a multiple of 4; `to` aligned to 16 bytes. They are there for others once whoever calls has met them.
static inline void ls_stream(float *to, const float *from, int64_t n) {
#ifdef __SSE2__
    for (int64_t i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
    _mm_sfence();  // no lock or atomic store orders such stores otherwise
#else
    memcpy(to, from, (size_t)n * sizeof *to);
#endif
}

#endif
