#include "base/protobuf.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MOST_VARINT = 10 };

// --- reading ---------------------------------------------------------------------------------------------------------

static ls_status damaged(const ls_pb *m, const char *why) { return m->from->damaged(m->from->self, m->at, why); }

static ls_status read_bytes(const ls_pb *m, int64_t size, unsigned char *out) {
    if (!m->from->bytes) return m->from->read(m->from->self, m->at, size, out);
    memcpy(out, m->from->bytes + m->at, (size_t)size);
    return LS_OK;
}

ls_status ls_pb_value(ls_pb *m, ls_pb_type type, uint64_t *out) {
    unsigned char bytes[MOST_VARINT];
    int64_t left = m->end - m->at, fixed = type == LS_PB_FIXED64 ? 8 : 4;
    int64_t most = type != LS_PB_VARINT ? fixed : left < MOST_VARINT ? left : MOST_VARINT;
    *out = 0;
    if (left < most || most == 0) return damaged(m, "a number goes beyond what it is in");
    LS_TRY(read_bytes(m, most, bytes));
    for (int i = 0; i < most; i++) {
        if (type == LS_PB_VARINT)
            *out |= (uint64_t)(bytes[i] & 127) << 7 * i;
        else
            *out |= (uint64_t)bytes[i] << 8 * i;
        if (type == LS_PB_VARINT ? bytes[i] < 128 : i + 1 == most) {
            m->at += i + 1;
            return LS_OK;
        }
    }
    return damaged(m, most < MOST_VARINT ? "a number goes beyond what it is in" : "a number of more than 64 bits");
}

ls_status ls_pb_next(ls_pb *m, ls_pb_field *f) {
    uint64_t key, length;
    f->number = 0;
    if (m->at >= m->end) return LS_OK;
    LS_TRY(ls_pb_value(m, LS_PB_VARINT, &key));
    f->type = (ls_pb_type)(key & 7);
    f->value = 0;
    f->bytes = *m;
    if (key >> 3 == 0 || key >> 3 >= 1 << 29) return damaged(m, "a field without a number");
    if (f->type == LS_PB_VARINT || f->type == LS_PB_FIXED64 || f->type == LS_PB_FIXED32) {
        LS_TRY(ls_pb_value(m, f->type, &f->value));
        f->bytes.end = m->at;
    } else if (f->type == LS_PB_BYTES) {
        LS_TRY(ls_pb_value(m, LS_PB_VARINT, &length));
        if (length > (uint64_t)(m->end - m->at)) return damaged(m, "a field goes beyond what it is in");
        f->bytes.at = m->at;
        f->bytes.end = m->at += (int64_t)length;
    } else {
        return damaged(m, "a field of no known type");
    }
    f->number = (int)(key >> 3);
    return LS_OK;
}

ls_status ls_pb_find(ls_pb message, int number, ls_pb *out, int *found) {
    ls_pb_field f = {0};
    do {
        LS_TRY(ls_pb_next(&message, &f));
        *found = f.number == number && f.type == LS_PB_BYTES;
    } while (f.number && !*found);
    if (*found) *out = f.bytes;
    return LS_OK;
}

float ls_pb_float(uint64_t value) {
    uint32_t bits = (uint32_t)value;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

double ls_pb_double(uint64_t value) {
    double x;
    memcpy(&x, &value, sizeof x);
    return x;
}

// --- writing ---------------------------------------------------------------------------------------------------------

unsigned char *ls_pb_reserve(ls_pb_out *out, int64_t count) {
    if (out->status != LS_OK) return NULL;
    if (out->size + count > out->room) {
        int64_t room = 2 * (out->size + count) + 64;
        unsigned char *grown = realloc(out->bytes, (size_t)room);
        if (!grown) {
            out->status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a message of %lld bytes",
                                  (long long)(out->size + count));
            return NULL;
        }
        out->bytes = grown;
        out->room = room;
    }
    out->size += count;
    return out->bytes + out->size - count;
}

void ls_pb_raw(ls_pb_out *out, const void *bytes, int64_t count) {
    unsigned char *to = ls_pb_reserve(out, count);
    if (to && count > 0) memcpy(to, bytes, (size_t)count);
}

static int encode(uint64_t value, unsigned char text[MOST_VARINT]) {
    int n = 0;
    for (; value > 127; value >>= 7) text[n++] = (unsigned char)(value | 128);
    text[n++] = (unsigned char)value;
    return n;
}

void ls_pb_varint(ls_pb_out *out, uint64_t value) {
    unsigned char text[MOST_VARINT];
    ls_pb_raw(out, text, encode(value, text));
}

void ls_pb_little_endian(ls_pb_out *out, uint64_t value, int bytes) {
    unsigned char *to = ls_pb_reserve(out, bytes);
    for (int i = 0; to && i < bytes; i++) to[i] = (unsigned char)(value >> 8 * i);
}

static void key(ls_pb_out *out, int number, ls_pb_type type) { ls_pb_varint(out, (uint64_t)number << 3 | type); }

void ls_pb_put(ls_pb_out *out, int number, int64_t value) {
    key(out, number, LS_PB_VARINT);
    ls_pb_varint(out, (uint64_t)value);
}

void ls_pb_put_float(ls_pb_out *out, int number, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    key(out, number, LS_PB_FIXED32);
    ls_pb_little_endian(out, bits, 4);
}

void ls_pb_put_double(ls_pb_out *out, int number, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    key(out, number, LS_PB_FIXED64);
    ls_pb_little_endian(out, bits, 8);
}

void ls_pb_put_bytes(ls_pb_out *out, int number, const void *bytes, int64_t count) {
    key(out, number, LS_PB_BYTES);
    ls_pb_varint(out, (uint64_t)count);
    ls_pb_raw(out, bytes, count);
}

void ls_pb_put_text(ls_pb_out *out, int number, const char *text) {
    ls_pb_put_bytes(out, number, text, (int64_t)strlen(text));
}

void ls_pb_wrap(ls_pb_out *out, int number, int64_t since) {
    unsigned char head[2 * MOST_VARINT];
    int64_t inside = out->size - since;
    int n = encode((uint64_t)number << 3 | LS_PB_BYTES, head);
    n += encode((uint64_t)inside, head + n);
    if (!ls_pb_reserve(out, n)) return;
    memmove(out->bytes + since + n, out->bytes + since, (size_t)inside);
    memcpy(out->bytes + since, head, (size_t)n);
}
