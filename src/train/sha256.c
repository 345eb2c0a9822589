#include "train/sha256.h"

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

ls_status ls__sha256_begin(EVP_MD_CTX **out) {
    *out = EVP_MD_CTX_new();
    if (!*out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    if (EVP_DigestInit_ex(*out, EVP_sha256(), NULL) == 1) return LS_OK;
    EVP_MD_CTX_free(*out);
    return LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not start a SHA-256");
}

void ls__sha256_end(EVP_MD_CTX *sha, char text[65]) {
    unsigned char bytes[EVP_MAX_MD_SIZE] = {0};
    EVP_DigestFinal_ex(sha, bytes, NULL);
    EVP_MD_CTX_free(sha);
    for (int i = 0; i < 32; i++) snprintf(text + (ptrdiff_t)2 * i, 3, "%02x", bytes[i]);
}

ls_status ls__sha256_parameter(EVP_MD_CTX *digest, const float *values, int64_t count) {
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    EVP_MD_CTX *leaves;
    LS_TRY(ls__sha256_begin(&leaves));
    int fine = 1;
    for (int64_t at = 0; at < count && fine; at += LS_DIGEST_LEAF) {
        int64_t n = count - at < LS_DIGEST_LEAF ? count - at : LS_DIGEST_LEAF;
        fine = EVP_Digest(values + at, (size_t)n * sizeof *values, hash, &size, EVP_sha256(), NULL) == 1 &&
               EVP_DigestUpdate(leaves, hash, size) == 1;
    }
    fine = fine && EVP_DigestFinal_ex(leaves, hash, &size) == 1 && EVP_DigestUpdate(digest, hash, size) == 1;
    EVP_MD_CTX_free(leaves);
    return fine ? LS_OK : LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not hash %lld numbers", (long long)count);
}
