#include "comm/tcp_hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define VERSION 2  // one more with every frame or message that another build would not understand
static const uint8_t magic[8] = {'L', 'O', 'C', 'K', 'S', 'T', 'E', 'P'};

// Where in a hello what stands.
enum { AT_VERSION = 8, AT_FROM = 12, AT_TO = 16, AT_SIZE = 20, AT_JOB = 24, AT_NONCE = 56 };
enum { PROOF = 32, VERDICT = 1 + PROOF };

static void put32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get32(const uint8_t *from) {
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

// HMAC of words and of both hellos. Returns whether it is there.
static int prove(const ls__hello *h, const char *words, uint8_t out[PROOF]) {
    uint8_t text[64 + sizeof h->both] = {0};
    unsigned size = 0;
    // 64 bytes with zeros behind: no two of the words run into what follows
    snprintf((char *)text, 64, "%s", words);
    memcpy(text + 64, h->both, sizeof h->both);
    return HMAC(EVP_sha256(), h->key->bytes, (int)h->key->size, text, sizeof text, out, &size) && size == PROOF;
}

static const char *words_of(int dials) {
    return dials ? "lockstep tcp 1: proof of who dials" : "lockstep tcp 1: proof of who accepts";
}

static void send(ls__hello *h, const uint8_t *data, size_t size) {
    memcpy(h->out, data, size);
    h->out_used = size;
    h->out_sent = 0;
}

static uint8_t *own_hello(ls__hello *h) { return h->both + (h->dials ? 0 : LS_HELLO_BYTES); }
static uint8_t *other_hello(ls__hello *h) { return h->both + (h->dials ? LS_HELLO_BYTES : 0); }

void ls__hello_begin(ls__hello *h, const ls__key *key, int dials, const ls__hello_claims *mine,
                     const uint8_t nonce[32]) {
    *h = (ls__hello){.key = key, .dials = dials, .in_size = LS_HELLO_BYTES};
    uint8_t *own = own_hello(h);
    memcpy(own, magic, sizeof magic);
    put32(own + AT_VERSION, VERSION);
    put32(own + AT_FROM, (uint32_t)mine->from);
    put32(own + AT_TO, (uint32_t)mine->to);
    put32(own + AT_SIZE, (uint32_t)mine->size);
    memcpy(own + AT_JOB, mine->job, sizeof mine->job);
    memcpy(own + AT_NONCE, nonce, 32);
    if (dials) send(h, own, LS_HELLO_BYTES);
}

// Who accepts has no word to say before it was spoken to, and only then knows to whom it speaks.
static void take_hello(ls__hello *h) {
    uint8_t *own = own_hello(h), proof[PROOF];
    memcpy(other_hello(h), h->in, LS_HELLO_BYTES);
    int ours = memcmp(h->in, magic, sizeof magic) == 0 && get32(h->in + AT_VERSION) == VERSION;
    if (!h->dials) {
        put32(own + AT_TO, get32(h->in + AT_FROM));
        send(h, own, ours ? LS_HELLO_BYTES : AT_FROM);  // its version is all that another one is told
        h->in_size = PROOF;
    } else if (ours) {
        h->in_size = VERDICT;
        if (prove(h, words_of(1), proof))
            send(h, proof, PROOF);
        else
            h->state = LS_HELLO_FAILED;
    }
    if (!ours) h->state = LS_HELLO_OTHER_VERSION;
}

// Compares a proof of the other side's.
static void check(ls__hello *h, const uint8_t *theirs) {
    uint8_t proof[PROOF];
    h->state = !prove(h, words_of(!h->dials), proof)             ? LS_HELLO_FAILED
               : CRYPTO_memcmp(proof, theirs, sizeof proof) == 0 ? LS_HELLO_DONE
                                                                 : LS_HELLO_OTHER_KEY;
}

static void take_proof(ls__hello *h) {
    uint8_t verdict[VERDICT] = {0};
    check(h, h->in);
    if (h->state == LS_HELLO_DONE) {
        verdict[0] = 1;
        if (!prove(h, words_of(0), verdict + 1)) h->state = LS_HELLO_FAILED;
    }
    send(h, verdict, VERDICT);
}

static void take_verdict(ls__hello *h) {
    if (h->in[0] == 1)
        check(h, h->in + 1);
    else
        h->state = LS_HELLO_REFUSED;
}

size_t ls__hello_take(ls__hello *h, const uint8_t *data, size_t size) {
    size_t taken = 0;
    while (taken < size && h->state == LS_HELLO_GOES_ON) {
        size_t part = h->in_size - h->in_used;
        if (part > size - taken) part = size - taken;
        memcpy(h->in + h->in_used, data + taken, part);
        taken += part;
        h->in_used += part;
        // Another version's hello may be shorter; its head says so.
        if (h->stage == 0 && h->in_used >= AT_FROM &&
            (memcmp(h->in, magic, sizeof magic) != 0 || get32(h->in + AT_VERSION) != VERSION))
            h->in_size = h->in_used;
        if (h->in_used < h->in_size) continue;
        h->in_used = 0;
        if (h->stage++ == 0)
            take_hello(h);
        else if (h->dials)
            take_verdict(h);
        else
            take_proof(h);
    }
    return taken;
}

ls__hello_claims ls__hello_theirs(const ls__hello *h) {
    const uint8_t *hello = h->both + (h->dials ? LS_HELLO_BYTES : 0);
    ls__hello_claims c = {.from = (int32_t)get32(hello + AT_FROM),
                          .to = (int32_t)get32(hello + AT_TO),
                          .size = (int32_t)get32(hello + AT_SIZE)};
    memcpy(c.job, hello + AT_JOB, sizeof c.job);
    return c;
}

int ls__hello_keys(const ls__hello *h, uint8_t mine[32], uint8_t theirs[32]) {
    return prove(h, "lockstep tcp 1: frames of who dials", h->dials ? mine : theirs) &&
           prove(h, "lockstep tcp 1: frames of who accepts", h->dials ? theirs : mine);
}
