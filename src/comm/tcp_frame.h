// What goes over a connection once both sides have proved who they are: frames of a header of fixed size, a payload and a code.
//
//     | type, 0 0 0 | tag | bytes of the message | where in it this payload begins | bytes of the payload, 0 | payload | code |
//         4            4            8                            8                             8                 ≤ 256 KiB   16
//
// Numbers are little-endian. A message is one frame or several in order, and no other message's frames stand between them. The code is GMAC
// (AES-256-GCM over nothing but what is only authenticated, NIST SP 800-38D) of header and payload; its nonce is the number of the frame in this
// direction of this connection, its key is that direction's and the connection's own. So frames that were changed, left out, repeated, or
// taken from elsewhere are found out. Nothing is encrypted.
#ifndef LS_COMM_TCP_FRAME_H
#define LS_COMM_TCP_FRAME_H

#include <lockstep/status.h>

#include <stddef.h>
#include <stdint.h>

enum {
    LS_FRAME_HEADER = 32,
    LS_FRAME_CODE = 16,
    LS_FRAME_PAYLOAD = 256 << 10,  // at most
    LS_FRAME_TEXT = 128 << 10,     // the payload of a greeting or an abort, at most
};

typedef enum ls__frame_type {
    LS_FRAME_GREETING = 1,  // the first of each side: who it is (tcp_greet.h)
    LS_FRAME_MESSAGE,
    LS_FRAME_BYE,    // the last: this side leaves in order
    LS_FRAME_ABORT,  // the last: this side ends the job, for the reason that is its payload
    LS_FRAME_WAITS,  // between messages: this side waits itself, for the worker that is its tag (-1: for several); no payload
    LS_FRAME_TYPES
} ls__frame_type;

typedef struct ls__frame {
    ls__frame_type type;
    int32_t tag;
    int64_t total, offset;  // of the message, in bytes
    int32_t size;           // of the payload
} ls__frame;

void ls__frame_write(const ls__frame *frame, uint8_t out[LS_FRAME_HEADER]);
// Errors: BAD_DATA (no header that this side would write: the type, the zeros, what is larger than what holds it).
ls_status ls__frame_read(const uint8_t in[LS_FRAME_HEADER], ls__frame *out);

// One direction of a connection.
typedef struct ls__seal ls__seal;
// Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__seal_create(const uint8_t key[32], ls__seal **out);
void ls__seal_destroy(ls__seal **seal);
// The next frame: begin, then all of it in parts of any size, then its code. Errors: LIBRARY.
ls_status ls__seal_begin(ls__seal *seal);
ls_status ls__seal_add(ls__seal *seal, const void *data, size_t size);
ls_status ls__seal_end(ls__seal *seal, uint8_t code[LS_FRAME_CODE]);

#endif
