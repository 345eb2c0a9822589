// "tfrecord:PATTERN": TensorFlow's TFRecord files of tf.train.Example. A record is a length (8 bytes), its checksum, the bytes, their checksum. An
// Example is a protocol buffer: a map of names to lists of bytes, floats or whole numbers. When files are listed, only what leads to the image and
// the class is read of it; the checksum of all of it is checked when a sample is. Sources: tensorflow/core/lib/io/record_writer.h,
// tensorflow/core/example/{example,feature}.proto; protobuf.dev, "Encoding".
#include <string.h>

#include "base/error.h"
#include "data/containers.h"
#include "data/crc32c.h"

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };  // wire types
enum { NAME_MOST = 128 };

// What there is by default: the names of ImageNet's scripts and of many others.
static const char *const image_names[] = {"image/encoded", "image", "image_raw", "jpeg", "png", NULL};
static const char *const label_names[] = {"image/class/label", "label", "class", "fine_label", NULL};

// Bytes of a message.
typedef struct span {
    int64_t at, end;
} span;

// What was found of an Example.
typedef struct example {
    span image;
    int64_t label;
    int image_rank, label_rank;  // which of the names it was; the first counts
} example;

// --- protocol buffers ------------------------------------------------------------------------------------------------

static ls_status read_varint(ls_listing *l, span *s, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        unsigned char byte;
        if (s->at >= s->end) return ls_listing_damaged(l, s->at, "a number goes beyond what it is in");
        LS_TRY(ls_listing_read(l, s->at++, 1, &byte));
        *out |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return LS_OK;
    }
    return ls_listing_damaged(l, s->at, "a number of more than 64 bits");
}

// The next field of a message: its number, wire type and, of bytes, what they are; other values are passed over. *field 0: there is none.
static ls_status next_field(ls_listing *l, span *s, int *field, int *type, span *value) {
    uint64_t tag, length = 0;
    *field = 0;
    if (s->at >= s->end) return LS_OK;
    LS_TRY(read_varint(l, s, &tag));
    *type = (int)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > 1 << 29) return ls_listing_damaged(l, s->at, "a field without a number");
    *field = (int)(tag >> 3);
    *value = *s;
    if (*type == VARINT) return read_varint(l, s, &length);
    if (*type == BYTES)
        LS_TRY(read_varint(l, s, &length));
    else if (*type == FIXED64 || *type == FIXED32)
        length = *type == FIXED64 ? 8 : 4;
    else
        return ls_listing_damaged(l, s->at, "a field of no known type");
    if (length > (uint64_t)(s->end - s->at)) return ls_listing_damaged(l, s->at, "a field goes beyond what it is in");
    *value = (span){s->at, s->at + (int64_t)length};
    s->at += (int64_t)length;
    return LS_OK;
}

// The first field of a number that has bytes; *found 0: there is none.
static ls_status find_field(ls_listing *l, span message, int wanted, span *out, int *found) {
    int field, type;
    *found = 0;
    do {
        LS_TRY(next_field(l, &message, &field, &type, out));
        *found = field == wanted && type == BYTES;
    } while (field && !*found);
    return LS_OK;
}

// --- an Example ------------------------------------------------------------------------------------------------------

static int rank_of(const char *name, const char *asked, const char *const *usual) {
    if (asked) return strcmp(name, asked) == 0 ? 0 : -1;
    for (int i = 0; usual[i]; i++)
        if (strcmp(name, usual[i]) == 0) return i;
    return -1;
}

// The first number of an Int64List, packed or not.
static ls_status read_label(ls_listing *l, span feature, int64_t *label, int *found) {
    span list, value;
    int field, type;
    uint64_t number;
    LS_TRY(find_field(l, feature, 3, &list, found));
    if (!*found) return LS_OK;
    LS_TRY(next_field(l, &list, &field, &type, &value));
    *found = field == 1 && (type == BYTES || type == VARINT) && value.at < value.end;
    if (!*found) return LS_OK;
    LS_TRY(read_varint(l, &value, &number));
    *label = (int64_t)number;
    return LS_OK;
}

static ls_status read_image(ls_listing *l, span feature, span *image, int *found) {
    span list;
    LS_TRY(find_field(l, feature, 1, &list, found));
    return *found ? find_field(l, list, 1, image, found) : LS_OK;
}

// One entry of the map.
static ls_status read_feature(ls_listing *l, span entry, example *out) {
    char name[NAME_MOST];
    span key, value;
    int found;
    LS_TRY(find_field(l, entry, 1, &key, &found));
    if (!found || key.end - key.at >= NAME_MOST) return LS_OK;
    LS_TRY(ls_listing_read(l, key.at, key.end - key.at, name));
    name[key.end - key.at] = 0;
    LS_TRY(find_field(l, entry, 2, &value, &found));
    int image = rank_of(name, l->settings->image, image_names), label = rank_of(name, l->settings->label, label_names);
    if (found && image >= 0 && image < out->image_rank) {
        span bytes;
        LS_TRY(read_image(l, value, &bytes, &found));
        if (found) out->image = bytes, out->image_rank = image;
    } else if (found && label >= 0 && label < out->label_rank) {
        int64_t number;
        LS_TRY(read_label(l, value, &number, &found));
        if (found) out->label = number, out->label_rank = label;
    }
    return LS_OK;
}

static ls_status missing(const ls_listing *l, int64_t at, const char *what, const char *asked, const char *usual) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the record at byte %lld has no %s \"%s\": %s=NAME names the feature",
                   l->path, (long long)at, what, asked ? asked : usual, strcmp(what, "image") == 0 ? "image" : "label");
}

static ls_status read_example(ls_listing *l, ls_record r, span message) {
    example e = {.image_rank = NAME_MOST, .label_rank = NAME_MOST};
    span features, entry;
    int field, type;
    for (;;) {
        LS_TRY(next_field(l, &message, &field, &type, &features));
        if (!field) break;
        while (field == 1 && type == BYTES) {
            int inner, wire;
            LS_TRY(next_field(l, &features, &inner, &wire, &entry));
            if (!inner) break;
            if (inner == 1 && wire == BYTES) LS_TRY(read_feature(l, entry, &e));
        }
    }
    if (e.image_rank == NAME_MOST) return missing(l, r.at, "image", l->settings->image, image_names[0]);
    if (e.label_rank == NAME_MOST) return missing(l, r.at, "class", l->settings->label, label_names[0]);
    r.skip = (uint32_t)(e.image.at - r.at);
    r.size = (uint32_t)(e.image.end - e.image.at);
    return ls_listing_add(l, r, e.label);
}

// --- records ---------------------------------------------------------------------------------------------------------

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

static ls_status list(ls_listing *l) {
    for (int64_t at = 0; at < l->bytes;) {
        unsigned char head[12];
        LS_TRY(ls_listing_read(l, at, 12, head));
        uint64_t length = little(head, 8);
        if (at == 0 && head[0] == 0x1f && head[1] == 0x8b)
            return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is compressed, so that no record can be read alone: gunzip it",
                           l->path);
        if (ls_crc32c_masked(head, 8) != little(head + 8, 4))
            return ls_listing_damaged(l, at,
                                      at ? "a record's length has another checksum than it says"
                                         : "it is no TFRecord file, by its first checksum");
        if (length > (uint64_t)(l->bytes - at) || (int64_t)length > l->bytes - at - 16 || length > INT32_MAX)
            return ls_listing_damaged(l, at, "a record longer than the file");
        ls_record r = {.at = at + 12, .bytes = (int64_t)length + 4};
        LS_TRY(read_example(l, r, (span){r.at, r.at + (int64_t)length}));
        at += 16 + (int64_t)length;
    }
    return LS_OK;
}

static ls_status tfrecord_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_container container = {.name = "tfrecord", .kind = LS_RECORDS_TFRECORD, .list = list};
    return ls_container_open(&container, host, argument, out);
}

const ls_format ls_format_tfrecord = {
    .name = "tfrecord",
    .help =
        "images in TensorFlow's TFRecord files of tf.train.Example: "
        "tfrecord:'train-*',test='validation-*',first-class=1; "
        "read while training",
    .argument = "FILES",
    .names = 1,
    .open = tfrecord_open,
};
