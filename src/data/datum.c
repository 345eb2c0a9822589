#include "data/datum.h"

#include <string.h>

enum { CHANNELS = 1, HEIGHT, WIDTH, DATA, LABEL, FLOATS, ENCODED };  // fields
enum { VARINT, FIXED64, BYTES, FIXED32 = 5 };                        // how they are written

typedef struct message {
    ls_datum_read read;
    void *self;
    int64_t at, size;
} message;

int ls_datum_from_memory(void *bytes, int64_t at, int64_t size, void *out) {
    memcpy(out, (const unsigned char *)bytes + at, (size_t)size);
    return 0;
}

// 0, or -1 where the message ends in it or it is too long.
static int varint(message *m, uint64_t *out) {
    unsigned char bytes[10];
    int64_t left = m->size - m->at, most = left < 10 ? left : 10;
    *out = 0;
    if (most < 1 || m->read(m->self, m->at, most, bytes) != 0) return -1;
    for (int i = 0; i < most; i++) {
        *out |= (uint64_t)(bytes[i] & 127) << 7 * i;
        if (bytes[i] < 128) {
            m->at += i + 1;
            return 0;
        }
    }
    return -1;
}

// Goes over a field's value: a number into *value, or where its bytes lie. 0, or -1.
static int next(message *m, int *field, int *type, uint64_t *value, int64_t *at) {
    uint64_t tag;
    if (varint(m, &tag) != 0 || tag >> 3 == 0 || tag >> 3 > INT32_MAX) return -1;
    *field = (int)(tag >> 3);
    *type = (int)(tag & 7);
    *value = *type == FIXED64 ? 8 : 4;
    if (*type != VARINT && *type != FIXED64 && *type != BYTES && *type != FIXED32) return -1;
    if ((*type == VARINT || *type == BYTES) && varint(m, value) != 0) return -1;
    *at = m->at;
    if (*type == VARINT) return 0;
    if (*value > (uint64_t)(m->size - m->at)) return -1;
    m->at += (int64_t)*value;
    return 0;
}

static const char *check(const ls_datum *d, int floats) {
    if (d->data_at < 0) return floats ? "its values are floating numbers, and pixels are read" : "it has no image";
    if (d->data_size > INT32_MAX) return "its image is larger than any";
    if (d->encoded) return NULL;
    if ((d->channels != 1 && d->channels != 3) || d->height < 1 || d->width < 1 || d->height > 65535 ||
        d->width > 65535)
        return "its image is not of 1 or 3 channels and 1 to 65535 rows and columns";
    return d->channels * d->height * d->width == d->data_size ? NULL : "its image has another size than it says";
}

const char *ls_datum_parse(ls_datum_read read, void *self, int64_t size, ls_datum *out) {
    message m = {read, self, 0, size};
    int64_t *numbers[] = {
        [CHANNELS] = &out->channels, [HEIGHT] = &out->height, [WIDTH] = &out->width, [LABEL] = &out->label};
    int floats = 0;
    *out = (ls_datum){.data_at = -1};
    while (m.at < size) {
        int field, type;
        uint64_t value;
        int64_t at;
        if (next(&m, &field, &type, &value, &at) != 0) return "it is no Datum of Caffe's";
        if (type == VARINT && field <= LABEL && numbers[field]) *numbers[field] = (int32_t)value;
        if (type == VARINT && field == ENCODED) out->encoded = value != 0;
        if (type == BYTES && field == DATA) out->data_at = at, out->data_size = (int64_t)value;
        floats |= field == FLOATS;
    }
    return check(out, floats);
}
