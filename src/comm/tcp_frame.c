#include "comm/tcp_frame.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

struct ls__seal {
    EVP_CIPHER_CTX *cipher;
    uint64_t frames;  // begun so far
};

static void put(uint8_t *to, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get(const uint8_t *from, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
    return value;
}

void ls__frame_write(const ls__frame *f, uint8_t out[LS_FRAME_HEADER]) {
    memset(out, 0, LS_FRAME_HEADER);
    put(out, (uint64_t)f->type, 1);
    put(out + 4, (uint32_t)f->tag, 4);
    put(out + 8, (uint64_t)f->total, 8);
    put(out + 16, (uint64_t)f->offset, 8);
    put(out + 24, (uint32_t)f->size, 4);
}

ls_status ls__frame_read(const uint8_t in[LS_FRAME_HEADER], ls__frame *out) {
    uint64_t total = get(in + 8, 8), offset = get(in + 16, 8), size = get(in + 24, 4);
    int message = in[0] == LS_FRAME_MESSAGE;
    uint64_t most = message ? LS_FRAME_PAYLOAD : LS_FRAME_TEXT;
    int plain = get(in + 1, 3) == 0 && get(in + 28, 4) == 0;
    int whole = offset == 0 && size == total && (in[0] == LS_FRAME_WAITS ? size == 0 : get(in + 4, 4) == 0);
    if (in[0] < LS_FRAME_GREETING || in[0] >= LS_FRAME_TYPES || !plain || size > most || total > INT64_MAX / 2 ||
        offset > total || size > total - offset || (total > 0 && size == 0) || (!message && !whole))
        return LS_FAIL(LS_STATUS_BAD_DATA, "a frame has no header that Lockstep writes");
    *out = (ls__frame){.type = (ls__frame_type)in[0],
                       .tag = (int32_t)(uint32_t)get(in + 4, 4),
                       .total = (int64_t)total,
                       .offset = (int64_t)offset,
                       .size = (int32_t)size};
    return LS_OK;
}

static ls_status failed(void) { return LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not make a frame's code"); }

ls_status ls__seal_create(const uint8_t key[32], ls__seal **out) {
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->cipher = EVP_CIPHER_CTX_new();
    if ((*out)->cipher && EVP_EncryptInit_ex((*out)->cipher, EVP_aes_256_gcm(), NULL, key, NULL) == 1) return LS_OK;
    ls__seal_destroy(out);
    return failed();
}

void ls__seal_destroy(ls__seal **seal) {
    if (!*seal) return;
    EVP_CIPHER_CTX_free((*seal)->cipher);
    free(*seal);
    *seal = NULL;
}

ls_status ls__seal_begin(ls__seal *seal) {
    uint8_t nonce[12] = {0};
    put(nonce + 4, seal->frames++, 8);
    return EVP_EncryptInit_ex(seal->cipher, NULL, NULL, NULL, nonce) == 1 ? LS_OK : failed();
}

ls_status ls__seal_add(ls__seal *seal, const void *data, size_t size) {
    int unused;
    if (size == 0) return LS_OK;
    return EVP_EncryptUpdate(seal->cipher, NULL, &unused, data, (int)size) == 1 ? LS_OK : failed();
}

ls_status ls__seal_end(ls__seal *seal, uint8_t code[LS_FRAME_CODE]) {
    int unused;
    uint8_t nothing[16];
    if (EVP_EncryptFinal_ex(seal->cipher, nothing, &unused) != 1 ||
        EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_GCM_GET_TAG, LS_FRAME_CODE, code) != 1)
        return failed();
    return LS_OK;
}
