// SHA-256, of weights, of what hosts compute, and of the files of checkpoints.
#ifndef LS_TRAIN_SHA256_H
#define LS_TRAIN_SHA256_H

#include <lockstep/status.h>
#include <openssl/evp.h>

// EVP_DigestUpdate takes what is hashed; the end gives its text and frees it. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__sha256_begin(EVP_MD_CTX **out);
void ls__sha256_end(EVP_MD_CTX *sha, char text[65]);

#endif
