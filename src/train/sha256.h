// SHA-256, of weights, of what hosts compute, and of the files of checkpoints.
#ifndef LS_TRAIN_SHA256_H
#define LS_TRAIN_SHA256_H

#include <lockstep/status.h>
#include <openssl/evp.h>
#include <stdint.h>

// EVP_DigestUpdate takes what is hashed; the end gives its text and frees it. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__sha256_begin(EVP_MD_CTX **out);
void ls__sha256_end(EVP_MD_CTX *sha, char text[65]);

// The digest of weights is a tree of hashes: no rank needs all of them, and threads can share the work. A leaf is the hash of
// LS_DIGEST_LEAF consecutive elements of a parameter as little-endian floats, of the last ones fewer. A parameter's hash is
// that of its leaves' hashes behind one another; the digest is the hash of all parameters' hashes in order.
#define LS_DIGEST_LEAF 65536

// Adds a parameter, whose elements are in plain order, to a digest. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__sha256_parameter(EVP_MD_CTX *digest, const float *values, int64_t count);

#endif
