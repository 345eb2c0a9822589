// CRC-32C (Castagnoli), as TFRecord's files have it. Source: RFC 3720, appendix B.4; TensorFlow's masking: tensorflow/core/lib/hash/crc32c.h.
#ifndef LS_BASE_CRC32C_H
#define LS_BASE_CRC32C_H

#include <stdint.h>

uint32_t ls_crc32c(const void *bytes, int64_t size);
// Of more bytes, behind those that `crc` is of.
uint32_t ls_crc32c_more(uint32_t crc, const void *bytes, int64_t size);
// Rotated, and a number added: a checksum of data that hold checksums.
static inline uint32_t ls_crc32c_mask(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }
static inline uint32_t ls_crc32c_masked(const void *bytes, int64_t size) {
    return ls_crc32c_mask(ls_crc32c(bytes, size));
}

#endif
