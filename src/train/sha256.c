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
