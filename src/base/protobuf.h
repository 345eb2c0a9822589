// The wire format of protocol buffers: a message is read field by field, from memory or in small
// pieces by a function, and written into memory. What fields mean is the callers'. Source:
// protobuf.dev, "Encoding".
#ifndef LS_BASE_PROTOBUF_H
#define LS_BASE_PROTOBUF_H

#include <stdint.h>

#include <lockstep/status.h>

typedef enum ls_pb_type { LS_PB_VARINT = 0, LS_PB_FIXED64 = 1, LS_PB_BYTES = 2, LS_PB_FIXED32 = 5 } ls_pb_type;

// --- reading ---------------------------------------------------------------------------------------------------------

// Where messages are read from.
typedef struct ls_pb_from {
    const unsigned char *bytes;                                          // NULL: `read` gives them
    ls_status (*read)(void *self, int64_t at, int64_t size, void *out);  // bytes at `at`
    ls_status (*damaged)(void *self, int64_t at, const char *why);       // fails with a sentence
    void *self;
} ls_pb_from;

// A message, or a packed list of numbers: what is left of it, [at, end).
typedef struct ls_pb {
    const ls_pb_from *from;
    int64_t at, end;
} ls_pb;

typedef struct ls_pb_field {
    int number;  // 0: the message has ended
    ls_pb_type type;
    uint64_t value;  // of VARINT, FIXED64 and FIXED32
    ls_pb bytes;     // where the value lies: of BYTES a text, a message or a list
} ls_pb_field;

// The next field. Errors: those of `read` and `damaged`.
ls_status ls_pb_next(ls_pb *message, ls_pb_field *field);
// The first field of a number that has bytes; *found 0: there is none. Errors: the same.
ls_status ls_pb_find(ls_pb message, int number, ls_pb *out, int *found);
// The next number of a packed list, which has not ended. Errors: the same.
ls_status ls_pb_value(ls_pb *list, ls_pb_type type, uint64_t *out);

float ls_pb_float(uint64_t value);
double ls_pb_double(uint64_t value);

// --- writing ---------------------------------------------------------------------------------------------------------

// A message that grows; {0} is an empty one. The first failure stays, until the end asks for it.
typedef struct ls_pb_out {
    unsigned char *bytes;  // the caller frees them
    int64_t size, room;
    ls_status status;
} ls_pb_out;

// `count` bytes to fill; NULL: there is no memory.
unsigned char *ls_pb_reserve(ls_pb_out *out, int64_t count);
void ls_pb_raw(ls_pb_out *out, const void *bytes, int64_t count);
void ls_pb_varint(ls_pb_out *out, uint64_t value);
void ls_pb_little_endian(ls_pb_out *out, uint64_t value, int bytes);
// Fields.
void ls_pb_put(ls_pb_out *out, int number, int64_t value);
void ls_pb_put_float(ls_pb_out *out, int number, float value);
void ls_pb_put_double(ls_pb_out *out, int number, double value);
void ls_pb_put_bytes(ls_pb_out *out, int number, const void *bytes, int64_t count);
void ls_pb_put_text(ls_pb_out *out, int number, const char *text);
// Turns all that was written since the message had `since` bytes into the value of a field.
void ls_pb_wrap(ls_pb_out *out, int number, int64_t since);

#endif
