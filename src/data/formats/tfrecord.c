// "tfrecord:PATTERN": TensorFlow's TFRecord files of tf.train.Example. A record is a length (8 bytes), its checksum, the bytes, their checksum. An
// Example is a protocol buffer: a map of names to lists of bytes, floats or whole numbers. When files are listed, only what leads to the image and
// the class is read of it; the checksum of all of it is checked when a sample is. Sources: tensorflow/core/lib/io/record_writer.h,
// tensorflow/core/example/{example,feature}.proto; protobuf.dev, "Encoding".
#include <string.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/protobuf.h"
#include "data/containers.h"

enum { NAME_MOST = 128, MOST_LABELS = 10000 };

// What there is by default: the names of ImageNet's scripts and of many others.
static const char *const image_names[] = {"image/encoded", "image", "image_raw", "jpeg", "png", NULL};
static const char *const label_names[] = {"image/class/label", "label", "class", "fine_label", NULL};

// What was found of an Example.
typedef struct example {
    ls_pb image;
    ls_pb labels;  // the feature of several
    int64_t label;
    int image_rank, label_rank;  // which of the names it was; the first counts
} example;

// --- an Example ------------------------------------------------------------------------------------------------------

static int rank_of(const char *name, const char *asked, const char *const *usual) {
    if (asked) return strcmp(name, asked) == 0 ? 0 : -1;
    for (int i = 0; usual[i]; i++)
        if (strcmp(name, usual[i]) == 0) return i;
    return -1;
}

static ls_status several(const ls_listing *l, int64_t at, const char *name, const char *what) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the record at byte %lld has several values in \"%s\": %s", l->path,
                   (long long)at, name, what);
}

// The number of an Int64List, packed or not.
static ls_status read_label(ls_listing *l, const char *name, ls_pb feature, int64_t *label, int *found) {
    ls_pb list;
    ls_pb_field f;
    int there;
    LS_TRY(ls_pb_find(feature, 3, &list, &there));
    *found = 0;
    while (there) {
        LS_TRY(ls_pb_next(&list, &f));
        if (!f.number) return LS_OK;
        if (f.number != 1 || (f.type != LS_PB_BYTES && f.type != LS_PB_VARINT)) continue;
        while (f.bytes.at < f.bytes.end) {
            if ((*found)++)
                return several(l, feature.at, name,
                               "a class is one; labels=NAME is for several, 1 or 0 for each, and where each sample has "
                               "one of these, write its number");
            LS_TRY(ls_pb_value(&f.bytes, LS_PB_VARINT, &f.value));
            *label = (int64_t)f.value;
        }
    }
    return LS_OK;
}

static ls_status read_image(ls_listing *l, const char *name, ls_pb feature, ls_pb *image, int *found) {
    ls_pb list, next;
    int more = 0;
    LS_TRY(ls_pb_find(feature, 1, &list, found));
    if (*found) LS_TRY(ls_pb_find(list, 1, image, found));
    if (*found) LS_TRY(ls_pb_find((ls_pb){list.from, image->end, list.end}, 1, &next, &more));
    return more ? several(l, feature.at, name, "a sample has one image; write each into a record") : LS_OK;
}

// One entry of the map.
static ls_status read_feature(ls_listing *l, ls_pb entry, example *out) {
    char name[NAME_MOST];
    ls_pb key, value;
    int found;
    LS_TRY(ls_pb_find(entry, 1, &key, &found));
    if (!found || key.end - key.at >= NAME_MOST) return LS_OK;
    LS_TRY(ls_listing_read(l, key.at, key.end - key.at, name));
    name[key.end - key.at] = 0;
    LS_TRY(ls_pb_find(entry, 2, &value, &found));
    const char *labels = l->settings->labels;
    int image = rank_of(name, l->settings->image, image_names);
    int label = rank_of(name, labels ? labels : l->settings->label, label_names);
    if (found && ((image >= 0 && image == out->image_rank) || (label >= 0 && label == out->label_rank)))
        return several(l, entry.at, name, "it is there twice");
    if (found && image >= 0 && image < out->image_rank) {
        ls_pb bytes;
        LS_TRY(read_image(l, name, value, &bytes, &found));
        if (found) out->image = bytes, out->image_rank = image;
    } else if (found && labels && label >= 0) {
        out->labels = value;
        out->label_rank = label;
    } else if (found && label >= 0 && label < out->label_rank) {
        int64_t number = 0;
        LS_TRY(read_label(l, name, value, &number, &found));
        if (found) out->label = number, out->label_rank = label;
    }
    return LS_OK;
}

// Number `n` of a list of labels, which is the n-th label, 1 or 0, or with a label-count the number of one that is there.
static ls_status take_label(ls_listing *l, int64_t at, int64_t n, double value, uint8_t *row) {
    int64_t count = l->settings->label_count, number = (int64_t)value - l->settings->first_class;
    if (count && value == (double)(int64_t)value && number >= 0 && number < count) {
        row[number] = 1;
        return LS_OK;
    }
    if (count)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: the record at byte %lld has label number %g, and there are %lld, from %d on "
                       "(label-count=N and first-class=N say otherwise)",
                       l->path, (long long)at, value, (long long)count, l->settings->first_class);
    row[n] = value == 1;
    if (value == 0 || value == 1) return LS_OK;
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: the record at byte %lld has %g for label %lld: each is 1, there, or 0, not there; where these are "
        "numbers of labels, label-count=N says how many there are",
        l->path, (long long)at, value, (long long)n);
}

// The values of an Int64List (3) or a FloatList (2), packed or not.
static ls_status take_list(ls_listing *l, int64_t at, int kind, ls_pb list, uint8_t *row, int64_t *n) {
    const ls_pb_type type = kind == 3 ? LS_PB_VARINT : LS_PB_FIXED32;
    ls_pb_field f;
    for (*n = 0;;) {
        LS_TRY(ls_pb_next(&list, &f));
        if (!f.number) return LS_OK;
        if (f.number != 1 || (f.type != LS_PB_BYTES && f.type != type)) continue;
        while (f.bytes.at < f.bytes.end) {
            if (*n == MOST_LABELS) return ls_listing_damaged(l, at, "a record of more labels than there may be");
            LS_TRY(ls_pb_value(&f.bytes, type, &f.value));
            double x = kind == 3 ? (double)(int64_t)f.value : (double)ls_pb_float(f.value);
            if (!(x > -1e15 && x < 1e15)) x = -1e15;  // no label, and told as such
            LS_TRY(take_label(l, at, (*n)++, x, row));
        }
    }
}

static ls_status add_labels(ls_listing *l, ls_record r, ls_pb feature) {
    uint8_t row[MOST_LABELS] = {0};
    int64_t n = 0, count = l->settings->label_count;
    for (int kind = 3; kind >= 2 && n == 0; kind--) {
        int found;
        ls_pb list;
        LS_TRY(ls_pb_find(feature, kind, &list, &found));
        if (found) LS_TRY(take_list(l, r.at, kind, list, row, &n));
    }
    if (count ? count == 1 : n < 2)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: the record at byte %lld has %lld labels in \"%s\": several have two or more, 1 or 0 for each; "
            "label=NAME is for one class",
            l->path, (long long)r.at, (long long)(count ? count : n), l->settings->labels);
    return ls_listing_add_labels(l, r, row, (int)(count ? count : n));
}

static ls_status missing(const ls_listing *l, int64_t at, const char *what, const char *asked, const char *usual) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the record at byte %lld has no %s \"%s\": %s=NAME names the feature",
                   l->path, (long long)at, what, asked ? asked : usual, strcmp(what, "class") == 0 ? "label" : what);
}

static ls_status read_example(ls_listing *l, ls_record r, ls_pb message) {
    example e = {.image_rank = NAME_MOST, .label_rank = NAME_MOST};
    ls_pb_field features, entry;
    for (;;) {
        LS_TRY(ls_pb_next(&message, &features));
        if (!features.number) break;
        while (features.number == 1 && features.type == LS_PB_BYTES) {
            LS_TRY(ls_pb_next(&features.bytes, &entry));
            if (!entry.number) break;
            if (entry.number == 1 && entry.type == LS_PB_BYTES) LS_TRY(read_feature(l, entry.bytes, &e));
        }
    }
    if (e.image_rank == NAME_MOST) return missing(l, r.at, "image", l->settings->image, image_names[0]);
    // A record without its list has none of the labels, where the list names those that are there.
    if (l->settings->labels && l->settings->label_count) e.label_rank = 0;
    if (e.label_rank == NAME_MOST)
        return missing(l, r.at, l->settings->labels ? "labels" : "class",
                       l->settings->labels ? l->settings->labels : l->settings->label, label_names[0]);
    r.skip = (uint32_t)(e.image.at - r.at);
    r.size = (uint32_t)(e.image.end - e.image.at);
    return l->settings->labels ? add_labels(l, r, e.labels) : ls_listing_add(l, r, e.label);
}

// --- records ---------------------------------------------------------------------------------------------------------

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

static ls_status read_file(void *self, int64_t at, int64_t size, void *out) {
    return ls_listing_read(self, at, size, out);
}

static ls_status file_damaged(void *self, int64_t at, const char *why) { return ls_listing_damaged(self, at, why); }

static ls_status list(ls_listing *l) {
    const ls_pb_from from = {.read = read_file, .damaged = file_damaged, .self = l};
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
        LS_TRY(read_example(l, r, (ls_pb){&from, r.at, r.at + (int64_t)length}));
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
