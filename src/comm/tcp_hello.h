// The hand-shake of two workers: each proves to the other that it knows the job's key, before anything else is read. Sockets are none of its
// business: bytes go in, bytes come out.
//
//     dials                                              accepts
//       hello: version, from, to, size, job, nonce  --->
//                                                   <---  the same of its own
//       HMAC(key, "dials" + both)                   --->                            a stranger learns a nonce, and no more
//                                                   <---  1, HMAC(key, "accepts" + both);  or 0
//
// HMAC is HMAC-SHA-256. Both hellos are in it, so that a proof is good for this connection only: for these two nonces, these two workers, this job
// (a hash of the list of hosts) and this direction. The keys of the frames are HMACs of the same under other words. Task numbers, size and job
// of the other side are looked at after its proof (ls__hello_theirs), so that whoever has no key is told nothing about them.
#ifndef LS_COMM_TCP_HELLO_H
#define LS_COMM_TCP_HELLO_H

#include <lockstep/status.h>

#include <stddef.h>
#include <stdint.h>

enum { LS_HELLO_BYTES = 88, LS_KEY_LEAST = 16, LS_KEY_MOST = 4096 };

typedef struct ls__key {
    uint8_t bytes[LS_KEY_MOST];
    size_t size;
} ls__key;

// The job's key: what is in the file, without white space around it; or, with NULL, in the environment's LOCKSTEP_KEY.
// Errors: INVALID_ARGUMENT (neither; too short or too long; a file that others than its owner may read, or not this user's), NOT_FOUND.
ls_status ls__key_read(const char *file, ls__key *out);

// What a side says of itself.
typedef struct ls__hello_claims {
    int32_t from, to, size;  // task numbers; -1: not known yet
    uint8_t job[32];
} ls__hello_claims;

typedef enum ls__hello_state {
    LS_HELLO_GOES_ON,
    LS_HELLO_DONE,
    LS_HELLO_OTHER_VERSION,  // or no Lockstep at all
    LS_HELLO_OTHER_KEY,      // the other side's proof is wrong
    LS_HELLO_REFUSED,        // it says that this side's is
    LS_HELLO_FAILED,         // libcrypto
} ls__hello_state;

typedef struct ls__hello {
    const ls__key *key;
    int dials, stage;
    ls__hello_state state;
    uint8_t both[2 * LS_HELLO_BYTES];  // the hellos: of who dials, of who accepts
    uint8_t in[LS_HELLO_BYTES], out[LS_HELLO_BYTES];
    size_t in_used, in_size;    // bytes of the next message that are there, and that it has
    size_t out_used, out_sent;  // bytes to be sent, and that have been
} ls__hello;

// `nonce`: 32 random bytes. The key is borrowed.
void ls__hello_begin(ls__hello *h, const ls__key *key, int dials, const ls__hello_claims *mine,
                     const uint8_t nonce[32]);
// Takes some of `size` bytes that came, never more than the hand-shake has; returns how many. What is to be sent then is in `out`.
size_t ls__hello_take(ls__hello *h, const uint8_t *data, size_t size);
// What the other side has said; proved once the state is DONE.
ls__hello_claims ls__hello_theirs(const ls__hello *h);
// The keys of this side's frames and of the other's. After DONE.
int ls__hello_keys(const ls__hello *h, uint8_t mine[32], uint8_t theirs[32]);

#endif
