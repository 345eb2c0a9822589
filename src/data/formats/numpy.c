// "numpy:FILE.npz": arrays as numpy.savez writes them, plain or compressed; "numpy:IMAGES.npy,labels=FILE.npy": as numpy.save does. Images (samples, height, width) or (samples, height, width, channels), pixels or
// floating numbers, and a class for each. Read at their place while training; what is compressed, and classes, are in memory, once per host.
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/fingerprint.h"
#include "data/formats/file_arrays.h"
#include "data/formats/learned.h"
#include "data/formats/npz.h"
#include "data/records.h"
#include "data/spec.h"

enum { IMAGES, LABELS, TEST_IMAGES, TEST_LABELS, ARRAYS, MOST_MEMBERS = 256 };
#define MOST_END     ((int64_t)1 << 16)
#define MOST_CLASSES 10000000

// An array, and where it goes. Lies in memory shared by processes, so it has no pointers.
typedef struct part {
    ls__npy array;
    int64_t at, packed, bytes;  // of the member's data; unpacked with its header
    int deflated, there;
    uint32_t crc;    // of a member, unpacked, as its archive tells; 0: not known
    int placed;      // 1: read at its place, sample by sample; 0: in memory
    int file;        // of the plan's paths, that it lies in
    char name[160];  // for sentences
} part;

typedef struct plan {
    char path[ARRAYS][4096];                 // of an archive the first alone
    int64_t bytes[ARRAYS], changed[ARRAYS];  // of these files
    part part[ARRAYS];
    int32_t most_class[2];  // of labels, once they are read
    int targets;            // 1: floating numbers, or images of pixels, are learned in place of classes
    int labels;             // above 0: samples have so many labels at once, each with 0 or 1
    int planes[2];          // of images and targets: 1: (channels, height, width)
} plan;

typedef struct settings {
    const char *labels, *test, *test_labels, *targets, *test_targets, *layout;
} settings;

static const ls_option table[] = {
    {"labels", LS_OPTION_TEXT, .offset = offsetof(settings, labels), .metavar = "FILE.npy",
     .help = "the classes, of an array by itself"},
    {"test", LS_OPTION_TEXT, .offset = offsetof(settings, test), .metavar = "FILE.npy",
     .help = "the images of the test set, beside"},
    {"test-labels", LS_OPTION_TEXT, .offset = offsetof(settings, test_labels), .metavar = "FILE.npy",
     .help = "and their classes"},
    {"targets", LS_OPTION_TEXT, .offset = offsetof(settings, targets), .metavar = "FILE.npy",
     .help = "in place of classes: floating numbers, or pixels, that are learned"},
    {"test-targets", LS_OPTION_TEXT, .offset = offsetof(settings, test_targets), .metavar = "FILE.npy",
     .help = "the same of the test set"},
    {"layout", LS_OPTION_TEXT, .offset = offsetof(settings, layout), .metavar = "hwc|chw",
     .help = "of an image, where its sides do not tell"},
    {.name = NULL},
};

// As Keras, MedMNIST and people name them.
static const char *const names[][ARRAYS] = {{"x_train", "y_train", "x_test", "y_test"},
                                            {"train_images", "train_labels", "test_images", "test_labels"},
                                            {"X_train", "y_train", "X_test", "y_test"},
                                            {"images", "labels", "test_images", "test_labels"},
                                            {"x", "y", "x_test", "y_test"},
                                            {"X", "y", "X_test", "y_test"},
                                            {"x_train", "targets_train", "x_test", "targets_test"},
                                            {"images", "targets", "test_images", "test_targets"},
                                            {"x", "targets", "x_test", "targets_test"}};
enum { WITH_TARGETS = 6 };  // the first row of which labels are targets

// --- worker 0: what is there -----------------------------------------------------------------------------------------

static ls_status read_at(int fd, const char *path, int64_t at, int64_t size, void *out) {
    for (int64_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)out + done, (size_t)(size - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
        if (n == 0)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: it ends at byte %lld; copy it again", path,
                           (long long)(at + done));
        done += n;
    }
    return LS_OK;
}

static ls_status other_sum(const char *path, const part *p) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s is damaged: it has another checksum; copy or make it again", path,
                   p->name);
}

// Of a member that is not packed: its header, and the values that were read.
static ls_status check_sum(int fd, const char *path, const part *p, const uint8_t *values) {
    uint8_t head[LS__NPY_HEAD + 12];
    int64_t size = p->array.header_bytes;
    if (!p->crc) return LS_OK;
    LS_TRY(read_at(fd, path, p->at, size, head));
    uLong sum = crc32_z(crc32_z(0, head, (size_t)size), values, (size_t)p->array.bytes);
    return sum == p->crc ? LS_OK : other_sum(path, p);
}

// Unpacks a member's bytes `from` to `from` + `room`, or as many as there are; *got is how many came.
static ls_status unpack(const char *path, const part *p, const uint8_t *packed, int64_t packed_size, int64_t from,
                        uint8_t *out, int64_t room, int64_t *got) {
    z_stream z = {.next_in = (Bytef *)(uintptr_t)packed};
    uint8_t before[LS__NPY_HEAD];
    int64_t in = 0, done = 0;  // bytes of both
    uLong sum = crc32(0, NULL, 0);
    int result = inflateInit2(&z, -MAX_WBITS);
    while (result == Z_OK && done < from + room) {
        int64_t left = packed_size - in, space = done < from ? from - done : from + room - done;
        if (done < from && space > LS__NPY_HEAD) space = LS__NPY_HEAD;
        z.next_in = (Bytef *)(uintptr_t)(packed + in);
        z.avail_in = (uInt)(left < 1 << 30 ? left : 1 << 30);
        z.next_out = done < from ? before : out + (done - from);
        z.avail_out = (uInt)(space < 1 << 30 ? space : 1 << 30);
        uInt had_in = z.avail_in, had_out = z.avail_out;
        result = inflate(&z, Z_NO_FLUSH);
        in += had_in - z.avail_in;
        done += had_out - z.avail_out;
        sum = crc32_z(sum, z.next_out - (had_out - z.avail_out), had_out - z.avail_out);
        if (had_in == z.avail_in && had_out == z.avail_out) break;
    }
    inflateEnd(&z);
    *got = done > from ? done - from : 0;
    if (done == p->bytes && sum != p->crc) return other_sum(path, p);
    if (result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s is damaged: it cannot be unpacked; copy or make it again", path,
                   p->name);
}

// Where the member's data begin, and its array's header.
static ls_status describe_member(int fd, const char *path, int64_t total, const ls__zip_member *m, part *p) {
    uint8_t local[30], *packed, head[LS__NPY_HEAD];
    snprintf(p->name, sizeof p->name, "%.150s", m->name);
    LS_TRY(read_at(fd, path, m->at, 30, local));
    if (memcmp(local, "PK\3\4", 4) != 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: %s is not where it is said to be", path, p->name);
    p->at = m->at + 30 + local[26] + 256 * local[27] + local[28] + 256 * local[29];
    p->packed = m->packed;
    p->bytes = m->bytes;
    p->deflated = m->deflated;
    p->crc = m->crc;
    p->there = 1;
    int64_t size = m->packed < LS__NPY_HEAD ? m->packed : LS__NPY_HEAD, got = size;
    LS_TRY(ls_calloc(size + 1, 1, &packed));
    ls_status status = read_at(fd, path, p->at, size, packed);
    if (status == LS_OK && p->deflated) {
        status = unpack(path, p, packed, size, 0, head, LS__NPY_HEAD, &got);
    } else if (status == LS_OK) {
        memcpy(head, packed, (size_t)size);
    }
    free(packed);
    LS_TRY(status);
    status = ls__npy_parse(p->name, head, got, p->bytes, &p->array);
    if (status != LS_OK) return ls__fail_context(status, "%s: ", path);
    if (p->packed <= total - p->at) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: it ends at byte %lld, in %s; copy it again", path,
                   (long long)total, p->name);
}

static const ls__zip_member *find_member(const ls__zip_member *list, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (strncmp(list[i].name, name, strlen(name)) == 0 && strcmp(list[i].name + strlen(name), ".npy") == 0)
            return &list[i];
    return NULL;
}

static ls_status describe_archive(plan *p, int fd, const ls__zip_member *list, int count) {
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const ls__zip_member *images = find_member(list, count, names[k][IMAGES]),
                             *labels = find_member(list, count, names[k][LABELS]);
        if (!images || !labels) continue;
        p->targets = k >= WITH_TARGETS;
        LS_TRY(describe_member(fd, p->path[0], p->bytes[0], images, &p->part[IMAGES]));
        LS_TRY(describe_member(fd, p->path[0], p->bytes[0], labels, &p->part[LABELS]));
        images = find_member(list, count, names[k][TEST_IMAGES]);
        labels = find_member(list, count, names[k][TEST_LABELS]);
        if (!images || !labels) return LS_OK;
        LS_TRY(describe_member(fd, p->path[0], p->bytes[0], images, &p->part[TEST_IMAGES]));
        return describe_member(fd, p->path[0], p->bytes[0], labels, &p->part[TEST_LABELS]);
    }
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s has no arrays x_train and y_train, train_images and train_labels, images and labels, or x and "
                   "y: save it by "
                   "numpy.savez(file, x_train=..., y_train=..., x_test=..., y_test=...)",
                   p->path[0]);
}

static ls__learned learned_of(const plan *p, int which) {
    const ls__npy *a = &p->part[which].array;
    int floats = a->type == 'f' && (a->width == 4 || a->width == 8) && !a->big;
    return (ls__learned){
        p->path[p->part[which].file], p->part[which].name, a->type == 'u' && a->width == 1, floats, a->ndim, a->dim};
}

// Targets, classes or rows of labels; how many labels is noted of those to train on.
static ls_status check_learned(plan *p, int which) {
    ls__learned mine = learned_of(p, which), first = learned_of(p, LABELS);
    int width;
    if (p->targets) return ls__learned_targets(&mine, &first);
    if (p->part[which].array.type == 'f')
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: %s is no whole number for each sample: classes are written as whole numbers, and floating "
                       "ones that are learned are named targets",
                       mine.path, mine.name);
    LS_TRY(ls__learned_width(&mine, &width));
    if (which == LABELS) p->labels = width;
    if (p->labels == width) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s has %d labels for each sample, and those to train on have %d", mine.path,
                   mine.name, width ? width : 1, p->labels ? p->labels : 1);
}

static ls_status check_images(plan *p, int which) {
    const ls__npy *a = &p->part[which].array, *first = &p->part[IMAGES].array, *labels = &p->part[which + 1].array;
    int pixels = a->type == 'u' && a->width == 1, floats = a->type == 'f' && a->width == 4 && !a->big;
    if ((a->ndim != 3 && a->ndim != 4) || (!pixels && !floats))
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: %s has %d dimensions of type %c%d: images are (samples, height, width) or (samples, height, width, "
            "channels) of uint8 or float32",
            p->path[p->part[which].file], p->part[which].name, a->ndim, a->type, a->width);
    LS_TRY(check_learned(p, which + 1));
    if (labels->dim[0] != a->dim[0])
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has %lld images and %lld classes of them", p->path[p->part[which].file],
                       (long long)a->dim[0], (long long)labels->dim[0]);
    int same = a->ndim == first->ndim && a->type == first->type;
    for (int d = 1; d < a->ndim && same; d++) same = a->dim[d] == first->dim[d];
    if (same) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the images to test with have another shape or type than those to train on",
                   p->path[p->part[which].file]);
}

static ls_status describe_zip(plan *p, int fd, int64_t total) {
    ls__zip_member *list = NULL;
    uint8_t *end = NULL;
    int count;
    int64_t size = total < MOST_END ? total : MOST_END;
    ls_status status = ls_calloc(MOST_MEMBERS, sizeof *list, &list);
    if (status == LS_OK) status = ls_calloc(size + 1, 1, &end);
    if (status == LS_OK) status = read_at(fd, p->path[0], total - size, size, end);
    if (status == LS_OK) status = ls__zip_directory(p->path[0], end, size, total, list, MOST_MEMBERS, &count);
    if (status == LS_OK) status = describe_archive(p, fd, list, count);
    free(list);
    free(end);
    return status;
}

// An array by itself. Its name is the file's.
static ls_status describe_array(plan *p, int fd, int64_t total, int which) {
    uint8_t head[LS__NPY_HEAD];
    const char *path = p->path[which], *slash = strrchr(path, '/');
    part *q = &p->part[which];
    int64_t size = total < LS__NPY_HEAD ? total : LS__NPY_HEAD;
    *q = (part){.packed = total, .bytes = total, .there = 1, .file = which};
    snprintf(q->name, sizeof q->name, "%.150s", slash ? slash + 1 : path);
    LS_TRY(read_at(fd, path, 0, size, head));
    return ls__npy_parse(path, head, size, total, &q->array);
}

static ls_status open_path(const char *path, int *fd, struct stat *there) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd >= 0 && fstat(*fd, there) == 0 && S_ISREG(there->st_mode)) return LS_OK;
    ls_status status = LS_FAIL(*fd < 0 && errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s",
                               path, *fd < 0 ? strerror(errno) : "it is no file");
    if (*fd >= 0) close(*fd);
    return status;
}

// A file of the plan: an archive, which only the first may be, or array number `which`.
static ls_status describe_file(plan *p, const char *path, int which, int *is_array) {
    uint8_t first[6] = "";
    int fd;
    struct stat there;
    if (snprintf(p->path[which], sizeof p->path[which], "%s", path) >= (int)sizeof p->path[which])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of a file has more than 4000 bytes");
    LS_TRY(open_path(path, &fd, &there));
    int64_t total = p->bytes[which] = there.st_size;
    p->changed[which] = ls_records_time(&there);
    ls_status status = read_at(fd, path, 0, total < 6 ? total : 6, first);
    *is_array = which > 0 || memcmp(first, "\x93NUMPY", 6) == 0;
    if (status == LS_OK) status = *is_array ? describe_array(p, fd, total, which) : describe_zip(p, fd, total);
    close(fd);
    return status;
}

static int is_wide(const ls__npy *a) { return a->type == 'f' && a->width == 8; }

static ls_status find_layout(plan *p, const settings *s) {
    ls__learned images = learned_of(p, IMAGES), learned = learned_of(p, LABELS);
    p->planes[0] = ls__learned_layout(&images, s->layout, -1);
    if (p->planes[0] < 0) return ls__learned_no_layout(&images);
    p->planes[1] = ls__learned_layout(&learned, s->layout, p->planes[0]);
    return LS_OK;
}

static ls_status describe(const char *path, const settings *s, plan *p) {
    const char *others[] = {NULL, s->targets ? s->targets : s->labels, s->test,
                            s->test_targets ? s->test_targets : s->test_labels};
    int is_array, given = others[1] || others[2] || others[3];
    LS_TRY(describe_file(p, path, IMAGES, &is_array));
    if ((s->targets || s->test_targets) && (s->labels || s->test_labels))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "numpy:%s: labels are classes, and targets numbers or images that are learned in their place: give "
            "one of them",
            path);
    if (is_array) p->targets = s->targets != NULL;
    if (!is_array && given)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "numpy:%s is an archive, in which all is found by name: leave labels, targets, test, "
                       "test-labels and test-targets out",
                       path);
    if (is_array && (!others[1] || !others[2] != !others[3]))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "numpy:%s is an array of images alone: name the file of their classes, labels=FILE.npy, and for "
                       "a test set both test= and "
                       "test-labels=",
                       path);
    for (int i = LABELS; i < ARRAYS; i++)
        if (others[i]) LS_TRY(describe_file(p, others[i], i, &is_array));
    for (int w = 0; w < ARRAYS; w += 2)
        if (p->part[w].there) LS_TRY(check_images(p, w));
    LS_TRY(find_layout(p, s));
    for (int i = 0; i < ARRAYS; i++) {
        ls__learned mine = learned_of(p, i);
        int both = p->planes[i % 2] && is_wide(&p->part[i].array);  // which is done in memory
        p->part[i].placed = p->part[i].there && !p->part[i].deflated && !both &&
                            (i % 2 == 0 || (p->targets && !ls__learned_small(&mine)));
    }
    return LS_OK;
}

// --- all workers: reading --------------------------------------------------------------------------------------------

static int64_t whole(const ls__npy *a, const uint8_t *p) {
    uint64_t value = 0;
    for (int i = 0; i < a->width; i++) value = value << 8 | p[a->big ? i : a->width - 1 - i];
    int shift = 64 - 8 * a->width;
    return a->type == 'i' ? (int64_t)(value << shift) >> shift : value > INT64_MAX ? -1 : (int64_t)value;
}

static ls_status take_labels(const plan *p, const part *q, const uint8_t *values, int32_t *out, int32_t *most) {
    for (int64_t i = 0; i < q->array.count; i++) {
        int64_t class = whole(&q->array, values + i * q->array.width);
        if (class < 0 || class >= MOST_CLASSES)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s: value %lld of %s is no class: they go from 0 to %d",
                           p->path[q->file], (long long)i, q->name, MOST_CLASSES - 1);
        out[i] = (int32_t) class;
        if (out[i] > *most) *most = out[i];
    }
    return LS_OK;
}

static ls_status take_rows(const plan *p, int which, const uint8_t *values, uint8_t *out) {
    const part *q = &p->part[which];
    ls__learned mine = learned_of(p, which);
    for (int64_t i = 0; i < q->array.count; i++)
        LS_TRY(ls__learned_label(&mine, i, (double)whole(&q->array, values + i * q->array.width), &out[i]));
    return which == LABELS ? ls__learned_several(&mine, out, q->array.dim[0], p->labels) : LS_OK;
}

static ls_status take_targets(const plan *p, int which, const uint8_t *values, char *out) {
    const ls__npy *a = &p->part[which].array;
    ls__learned mine = learned_of(p, which);
    if (a->type == 'u') {
        memcpy(out, values, (size_t)a->count);
        return LS_OK;
    }
    for (int64_t i = 0; i < a->count; i++) {
        double wide;
        float value;
        memcpy(a->width == 8 ? (void *)&wide : (void *)&value, values + i * a->width, (size_t)a->width);
        if (a->width == 8) value = (float)wide;
        memcpy(out + 4 * i, &value, 4);
    }
    return ls__learned_finite(&mine, (const float *)(const void *)out, 0, a->count);
}

// The values of a member, all of them.
static ls_status read_values(const plan *p, const part *q, uint8_t *out) {
    int64_t head = q->array.header_bytes, size = q->array.bytes, got = size;
    uint8_t *packed = NULL;
    int fd = open(p->path[q->file], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", p->path[q->file], strerror(errno));
    ls_status status = LS_OK;
    if (!q->deflated) {
        status = read_at(fd, p->path[q->file], q->at + head, size, out);
        if (status == LS_OK) status = check_sum(fd, p->path[q->file], q, out);
    } else {
        status = ls_calloc(q->packed + 1, 1, &packed);
        if (status == LS_OK) status = read_at(fd, p->path[q->file], q->at, q->packed, packed);
        if (status == LS_OK) status = unpack(p->path[q->file], q, packed, q->packed, head, out, size, &got);
    }
    free(packed);
    close(fd);
    LS_TRY(status);
    if (got == size) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s is damaged: it unpacks to fewer bytes than are said", p->path[q->file],
                   q->name);
}

static ls_field image_field(const plan *p) {
    ls__learned images = learned_of(p, IMAGES);
    ls_field field = ls__learned_field(&images, p->planes[0]);
    snprintf(field.name, sizeof field.name, "image");
    return field;
}

// Samples in memory, from planes to pixels.
static ls_status interleave(const plan *p, int which, const ls_field *field, char *samples) {
    int64_t bytes = ls_shape_count(field->shape) * (int64_t)ls_dtype_size(field->dtype);
    char *planes;
    if (!p->planes[which % 2]) return LS_OK;
    LS_TRY(ls_calloc(bytes, 1, &planes));
    for (int64_t i = 0; i < p->part[which].array.dim[0]; i++) {
        memcpy(planes, samples + i * bytes, (size_t)bytes);
        ls__array_interleave(field, planes, samples + i * bytes);
    }
    free(planes);
    return LS_OK;
}

static ls_status load_images(const plan *p, int which, char *to) {
    const ls__npy *a = &p->part[which].array;
    ls__learned mine = learned_of(p, which);
    ls_field field = image_field(p);
    LS_TRY(read_values(p, &p->part[which], (uint8_t *)to));
    if (a->type == 'f') LS_TRY(ls__learned_finite(&mine, (const float *)(const void *)to, 0, a->count));
    return interleave(p, which, &field, to);
}

static ls_status load(plan *p, int which, char *to) {
    const part *q = &p->part[which];
    uint8_t *values;
    ls__learned learned = learned_of(p, LABELS);
    ls_field target = ls__learned_field(&learned, p->planes[1]);
    if (which % 2 == 0) return load_images(p, which, to);
    LS_TRY(ls_calloc(q->array.bytes + 1, 1, &values));
    ls_status status = read_values(p, q, values);
    if (status == LS_OK && p->targets) status = take_targets(p, which, values, to);
    if (status == LS_OK && p->targets) status = interleave(p, which, &target, to);
    if (status == LS_OK && p->labels) status = take_rows(p, which, values, (uint8_t *)to);
    if (status == LS_OK && !p->targets && !p->labels)
        status = take_labels(p, q, values, (int32_t *)(void *)to, &p->most_class[which / 2]);
    free(values);
    return status;
}

// The directory's lengths are believed no further than an array's header goes along with them, which it was held against.
static int64_t room_of(const part *q, int which) {
    return q->there && !q->placed ? ls_round_up(which % 2 ? q->array.count * 4 : q->array.bytes, LS_ALIGN) : 0;
}

static ls__array_place place_of(const plan *p, int which, const char *memory) {
    const part *q = &p->part[which];
    if (!q->placed) return (ls__array_place){.memory = memory};
    return (ls__array_place){.in = {p->path[q->file], p->bytes[q->file], p->changed[q->file]},
                             .at = q->at + q->array.header_bytes,
                             .doubles = is_wide(&q->array),
                             .planes = p->planes[which % 2],
                             .finite = q->array.type == 'f' ? q->name : NULL};
}

// Samples are read from a file, so that the fingerprint is not made of all of them: it is of what is in memory, and of an archive's own sums of the rest.
static void mix_version(const plan *p, int test, const ls_field *fields, const ls__array_place *place,
                        ls_dataset *out) {
    int64_t count = p->part[2 * test].array.dim[0];
    for (int k = 1; k >= 0; k--) {
        int64_t bytes = count * ls_shape_count(fields[k].shape) * (int64_t)ls_dtype_size(fields[k].dtype);
        uint64_t told = (uint64_t)place[k].in.bytes ^ (uint64_t)p->part[2 * test + k].crc << 32;
        if (p->planes[k]) told ^= 1;
        out->version = ls__hash_mix(out->version, place[k].memory ? ls__hash(place[k].memory, bytes) : told);
    }
}

static ls_status make_sources(const plan *p, char *const *to, ls_dataset *out) {
    int32_t most = p->most_class[0] > p->most_class[1] ? p->most_class[0] : p->most_class[1];
    ls_field fields[] = {image_field(p), {"label", {0}, LS_DTYPE_I32, most + 1}};
    ls__learned learned = learned_of(p, LABELS);
    if (p->targets) fields[1] = ls__learned_field(&learned, p->planes[1]);
    if (p->labels) fields[1] = (ls_field){"label", LS_SHAPE(p->labels), LS_DTYPE_U8, 0};
    for (int test = 0; test < 2; test++) {
        char name[96];
        ls_arrays arrays = {p->part[2 * test].array.dim[0], {to[2 * test], to[2 * test + 1]}};
        ls__array_place place[] = {place_of(p, 2 * test, to[2 * test]), place_of(p, 2 * test + 1, to[2 * test + 1])};
        ls_source **source = test ? &out->test : &out->train;
        if (!p->part[2 * test].there) continue;
        snprintf(name, sizeof name, "the %s set of %.64s", test ? "test" : "training", out->name);
        if (place[0].memory && place[1].memory) {
            LS_TRY(ls_source_create_memory(name, fields, 2, &arrays, source));
            continue;
        }
        LS_TRY(ls__source_create_file_arrays(name, fields, 2, arrays.count, place, source));
        mix_version(p, test, fields, place, out);
    }
    out->shared = 1;
    return LS_OK;
}

static ls_status numpy_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    void *block;
    char *to[ARRAYS];
    int64_t bytes = 0;
    settings s = {.labels = NULL};
    ls_spec spec;
    LS_TRY(host->agree(host->self, ls_spec_read("numpy", argument, table, &s, &spec)));
    LS_TRY(host->agree(host->self, host->alloc(host->self, (int64_t)sizeof(plan), &block)));
    plan *p = block;
    LS_TRY(host->agree(host->self, host->rank == 0 ? describe(spec.text, &s, p) : LS_OK));
    LS_TRY(host->barrier(host->self));
    for (int i = 0; i < ARRAYS; i++) bytes += room_of(&p->part[i], i);
    LS_TRY(host->agree(host->self, host->alloc(host->self, bytes, &block)));
    for (int i = 0; i < ARRAYS; i++) {
        to[i] = block;
        block = (char *)block + room_of(&p->part[i], i);
    }
    ls_status status = LS_OK;
    for (int i = host->rank; i < ARRAYS && status == LS_OK; i += host->size)
        if (p->part[i].there && !p->part[i].placed) status = load(p, i, to[i]);
    LS_TRY(host->agree(host->self, status));
    LS_TRY(host->barrier(host->self));
    return host->agree(host->self, make_sources(p, to, out));
}

const ls_format ls_format_numpy = {
    .name = "numpy",
    .help =
        "arrays as numpy.savez writes them: x_train (samples, height, width[, channels]) of uint8 or float32, y_train, "
        "and x_test and "
        "y_test where there are some; targets_train in place of y_train are numbers or images that are learned; or one "
        "by one, as numpy.save does: "
        "numpy:X.npy,labels=Y.npy,test=X.npy,test-labels=Y.npy",
    .argument = "FILE.npz",
    .open = numpy_open,
};
