// "recordio:FILE.rec": MXNet's RecordIO as im2rec writes it. A record is a magic number, a word with its length (29 bits) and which part of it
// this is (3 bits), the bytes, and zeros up to four; the bytes begin with a header of a class and an identity, then comes the image. A record whose
// bytes have the magic number in them at a multiple of four is cut there into parts, and the number left out. Sources: dmlc-core,
// include/dmlc/recordio.h; mxnet, python/mxnet/recordio.py (IRHeader). The index (.idx) is not needed: lengths are read one after the other.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/containers.h"

enum { WHOLE, BEGIN, MIDDLE, END };         // which part
enum { HEADER = 24, MOST_LABELS = 10000 };  // flag, label, id, id2; of one sample

static uint32_t little32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// A part at `at`: which, and the length of its bytes.
static ls_status read_part(ls_listing *l, int64_t at, int *which, int64_t *length) {
    unsigned char word[8];
    LS_TRY(ls_listing_read(l, at, 8, word));
    if (little32(word) != LS_RECORDIO_MAGIC)
        return ls_listing_damaged(l, at, at ? "no record begins here" : "it is no RecordIO file, by its first bytes");
    *which = (int)(little32(word + 4) >> 29);
    *length = little32(word + 4) & 0x1fffffff;
    if (*which > END || (*length + 3) / 4 * 4 > l->bytes - at - 8)
        return ls_listing_damaged(l, at, "a record longer than the file");
    return LS_OK;
}

// All parts of the record at `at`, and where the next one is. Between parts stand a magic number, which belongs to the bytes, and a word.
static ls_status measure(ls_listing *l, int64_t at, ls_record *r, int64_t *next) {
    int which = END;
    int64_t length = 0, size = 0, first = at;
    LS_TRY(read_part(l, at, &which, &length));
    int parts = which == BEGIN;
    if ((which != WHOLE && which != BEGIN) || (parts && length % 4))
        return ls_listing_damaged(l, at, "a record without its beginning");
    for (;;) {
        size += length;
        *next = at + 8 + (length + 3) / 4 * 4;
        if (!parts || which == END) break;
        at += 8 + length;
        LS_TRY(read_part(l, at, &which, &length));
        if (which == WHOLE || which == BEGIN || (which == MIDDLE && length % 4))
            return ls_listing_damaged(l, at, "a record without its end");
        size += 4;
    }
    *r = (ls_record){.at = first + 8, .bytes = at + 8 + length - first - 8};
    if (size < HEADER || size > UINT32_MAX)
        return ls_listing_damaged(l, first, "a record of no size that one can have");
    r->size = (uint32_t)size;
    return LS_OK;
}

static float float_of(const unsigned char *p) {
    uint32_t bits = little32(p);
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

// A row of several, which im2rec writes as floats behind the header: each label is there, 1, or not, 0.
static ls_status add_row(ls_listing *l, ls_record r, uint32_t labels) {
    uint8_t *row;
    ls_status status = LS_OK;
    LS_TRY(ls_calloc(labels, 1, &row));
    for (uint32_t i = 0; i < labels && status == LS_OK; i++) {
        unsigned char bytes[4];
        status = ls_listing_read(l, r.at + HEADER + 4 * (int64_t)i, 4, bytes);
        if (status != LS_OK) break;
        float label = float_of(bytes);
        row[i] = label == 1;
        if (label != 0 && label != 1)
            status =
                LS_FAIL(LS_STATUS_BAD_DATA,
                        "%s: the sample at byte %lld has %u labels, and number %u of them is %g: each is 1, there, "
                        "or 0, not there",
                        l->path, (long long)r.at, labels, i, (double)label);
    }
    if (status == LS_OK) status = ls_listing_add_labels(l, r, row, (int)labels);
    free(row);
    return status;
}

static ls_status add_record(ls_listing *l, ls_record r) {
    unsigned char header[HEADER + 4] = {0};
    LS_TRY(ls_listing_read(l, r.at, HEADER, header));
    uint32_t labels = little32(header);
    float label = float_of(header + 4);
    if (labels > MOST_LABELS)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the sample at byte %lld has %u labels; there may be up to %d", l->path,
                       (long long)r.at, labels, MOST_LABELS);
    r.skip = HEADER + 4 * labels;
    if (r.size < r.skip) return ls_listing_damaged(l, r.at, "a record without an image");
    r.size -= r.skip;
    if (labels > 1) return add_row(l, r, labels);
    if (labels) {
        LS_TRY(ls_listing_read(l, r.at, HEADER + 4, header));
        label = float_of(header + HEADER);
    }
    // Not a class number: told by the number that it cannot be.
    int whole = label >= 0 && label <= 1e7f && floorf(label) == label;
    if (!whole && !(label < 0))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the sample at byte %lld has the label %g: class numbers are whole",
                       l->path, (long long)r.at, (double)label);
    return ls_listing_add(l, r, whole ? (int64_t)label : -1);
}

static ls_status list(ls_listing *l) {
    for (int64_t at = 0, next = l->bytes; at < l->bytes; at = next) {
        ls_record r;
        LS_TRY(measure(l, at, &r, &next));
        LS_TRY(add_record(l, r));
    }
    return LS_OK;
}

static ls_status recordio_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_container container = {.name = "recordio", .kind = LS_RECORDS_RECORDIO, .list = list};
    return ls_container_open(&container, host, argument, out);
}

const ls_format ls_format_recordio = {
    .name = "recordio",
    .help = "images in MXNet's .rec files, as im2rec writes them: recordio:train.rec,test=val.rec; read while training",
    .argument = "FILE",
    .names = 1,
    .open = recordio_open,
};
