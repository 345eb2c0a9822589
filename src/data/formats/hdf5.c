// "hdf5:FILE": images and classes in two data sets of an HDF5 file, as Keras's and Caffe's users write them: (samples, height, width[, channels]) or, as Caffe has
// it, (samples, channels, height, width); whole numbers of 8 bits are pixels, floating ones numbers that are taken as they are. Classes and few numbers are in memory,
// images, and what else is learned of them, are read while training: where they lie in one piece by a read at their place, else by the library, which unpacks them.
//
// The library works in a process of its own (hdf5_file.h): one for worker 0 of each host while the dataset is opened, and one for each worker and set
// for samples that only it can read, one thread's at a time.
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/fingerprint.h"
#include "data/formats/file_arrays.h"
#include "data/formats/hdf5_file.h"
#include "data/formats/learned.h"
#include "data/spec.h"

enum {
    IMAGES,
    LABELS,
    TEST_IMAGES,
    TEST_LABELS,
    PARTS,
    MOST_CLASSES = 10000000,
    BLOCK = 4 << 20
};  // BLOCK: bytes that are read at once of what is in memory

typedef ls__hdf5_set part;

typedef struct plan {
    char path[2][4096];  // of the two sets; may be the same
    int64_t bytes[2], changed[2];
    part part[PARTS];
    int planes[2];  // of images and what is learned of them: 1: (channels, height, width)
    int targets;  // 1: in place of classes there are numbers or pixels that are learned, in the shape that they have there
    int labels;  // above 0: samples have so many labels at once, each with 0 or 1
    int placed;  // 1: what is learned is read as the images are; 0: it is in memory
    int32_t most_class;
} plan;

typedef struct settings {
    const char *test, *image, *label, *targets, *layout;
} settings;

static const ls_option table[] = {
    {"test", LS_OPTION_TEXT, .offset = offsetof(settings, test), .metavar = "FILE", .help = "the test set's file"},
    {"image", LS_OPTION_TEXT, .offset = offsetof(settings, image), .metavar = "NAME", .help = "the data set of images"},
    {"label", LS_OPTION_TEXT, .offset = offsetof(settings, label), .metavar = "NAME",
     .help = "the data set of classes"},
    {"targets", LS_OPTION_TEXT, .offset = offsetof(settings, targets), .metavar = "NAME",
     .help = "the data set of numbers, or of pixels, that are learned in place of classes"},
    {"layout", LS_OPTION_TEXT, .offset = offsetof(settings, layout), .metavar = "hwc|chw",
     .help = "of an image, where its sides do not tell"},
    {.name = NULL},
};

// As Caffe, Keras and people name them.
static const char *const names[][PARTS] = {
    {"x_train", "y_train", "x_test", "y_test"},
    {"X_train", "y_train", "X_test", "y_test"},
    {"train_set_x", "train_set_y", "test_set_x", "test_set_y"},
    {"data", "label", "test_data", "test_label"},
    {"images", "labels", "test_images", "test_labels"},
    {"x", "y", "x_test", "y_test"},
};

// --- worker 0: what is there -----------------------------------------------------------------------------------------

static ls__learned learned_of(const plan *p, int which) {
    const part *q = &p->part[which];
    return (ls__learned){p->path[which / 2], q->name, q->pixels, !q->pixels, q->ndim, q->dim};
}

// Of the set that is trained on how many labels a sample has is noted.
static ls_status check_learned(plan *p, int which) {
    ls__learned mine = learned_of(p, which), first = learned_of(p, LABELS);
    int width;
    if (p->targets) return ls__learned_targets(&mine, &first);
    LS_TRY(ls__learned_width(&mine, &width));
    if (which == LABELS) p->labels = width;
    if (p->labels == width) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s has %d labels for each sample, and those to train on have %d", mine.path,
                   mine.name, width ? width : 1, p->labels ? p->labels : 1);
}

static ls_status check_pair(plan *p, int which) {
    const part *a = &p->part[which], *first = &p->part[IMAGES], *labels = a + 1;
    if (a->ndim < 3)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: %s has %d dimensions: images are (samples, height, width[, channels]) or (samples, channels, height, "
            "width)",
            p->path[which / 2], a->name, a->ndim);
    if (labels->dim[0] != a->dim[0])
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s has %lld values for %lld samples: each has its own",
                       p->path[which / 2], labels->name, (long long)labels->dim[0], (long long)a->dim[0]);
    LS_TRY(check_learned(p, which + 1));
    int same = a->ndim == first->ndim && a->pixels == first->pixels;
    for (int d = 1; d < a->ndim && same; d++) same = a->dim[d] == first->dim[d];
    if (same) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the images to test with have another shape or type than those to train on",
                   p->path[which / 2]);
}

// The names that are asked for, or the first usual pair that is there; `from` 0 or TEST_IMAGES: whose names, `to`: where it goes.
static ls_status find_pair(plan *p, ls__hdf5_file *file, const settings *s, int from, int to) {
    const char *path = p->path[to / 2];
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const char *image = s->image && !from ? s->image : names[k][from];
        const char *asked = s->targets ? s->targets : s->label;
        const char *label = asked && !from ? asked : names[k][from + 1];
        int found;
        LS_TRY(ls__hdf5_file_find(file, image, label, !p->targets, &p->part[to], &found));
        if (found) return check_pair(p, to);
    }
    if (from) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s has no data sets %s and %s: image=NAME and label=NAME name those of images and of classes", path,
                   s->image ? s->image : "x_train (or data, images, x)",
                   s->targets ? s->targets
                   : s->label ? s->label
                              : "y_train (or label, labels, y)");
}

static ls_status look_at_file(plan *p, int set, const char *path) {
    if (snprintf(p->path[set], sizeof p->path[set], "%s", path) >= (int)sizeof p->path[set])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of a file has more than 4000 bytes");
    return ls__array_file_describe(path, &p->bytes[set], &p->changed[set]);
}

// Caffe's is known by its name where both ends could be channels, which are 1 or 3.
static ls_status find_layout(plan *p, const settings *s) {
    const part *a = &p->part[IMAGES];
    ls__learned images = learned_of(p, IMAGES), learned = learned_of(p, LABELS);
    p->planes[0] = ls__learned_layout(&images, s->layout, -1);
    if (p->planes[0] < 0 && strcmp(a->name, "data") == 0) p->planes[0] = 1;
    if (p->planes[0] < 0) return ls__learned_no_layout(&images);
    p->planes[1] = ls__learned_layout(&learned, s->layout, p->planes[0]);
    int64_t channels = a->ndim == 3 ? 1 : a->dim[p->planes[0] ? 1 : 3];
    if (channels == 1 || channels == 3) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: %s has no dimension of 1 or 3 channels where its layout has them (layout=hwc, layout=chw)",
                   p->path[0], a->name);
}

// `file`: those of the two sets, which may be the same one; the caller destroys them.
static ls_status describe_files(plan *p, const char *path, const settings *s, ls__hdf5_file *file[2]) {
    if (s->targets && s->label)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "hdf5:%s: label=NAME is the data set of classes, and targets=NAME of what is learned in their place: "
            "give one of them",
            path);
    p->targets = s->targets != NULL;
    LS_TRY(look_at_file(p, 0, path));
    LS_TRY(look_at_file(p, 1, s->test ? s->test : path));
    LS_TRY(ls__hdf5_file_create(p->path[0], BLOCK, &file[0]));
    file[1] = file[0];
    if (s->test) LS_TRY(ls__hdf5_file_create(p->path[1], BLOCK, &file[1]));
    LS_TRY(find_pair(p, file[0], s, 0, 0));
    // The test set's targets have no name in the same file: those of the training set are named, and usual ones are classes.
    if (!s->test && !s->targets) LS_TRY(find_pair(p, file[1], s, TEST_IMAGES, TEST_IMAGES));
    if (s->test) LS_TRY(find_pair(p, file[1], s, 0, TEST_IMAGES));
    ls__learned learned = learned_of(p, LABELS);
    p->placed = p->targets && !ls__learned_small(&learned);
    return find_layout(p, s);
}

// Those of samples from `from` on, at their place in `out`.
static ls_status take_rows(const plan *p, int which, const double *values, int64_t from, int64_t count, uint8_t *out) {
    ls__learned mine = learned_of(p, which);
    for (int64_t i = 0; i < count * p->labels; i++) {
        int64_t at = from * p->labels + i;
        LS_TRY(ls__learned_label(&mine, at, values[i], &out[at]));
    }
    return LS_OK;
}

static ls_status take_classes(plan *p, int which, const double *values, int64_t from, int64_t count, int32_t *out) {
    const part *q = &p->part[which];
    for (int64_t i = 0; i < count; i++) {
        if (!(values[i] >= 0) || values[i] >= MOST_CLASSES || values[i] != (double)(int32_t)values[i])
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s: value %lld of %s is %g, and no class: they are whole numbers from 0 to %d",
                           p->path[which / 2], (long long)(from + i), q->name, values[i], MOST_CLASSES - 1);
        out[from + i] = (int32_t)values[i];
        if (out[from + i] > p->most_class) p->most_class = out[from + i];
    }
    return LS_OK;
}

// How many samples of `bytes` are read at once.
static int64_t block_of(int64_t bytes, int64_t left) {
    int64_t fit = BLOCK / (bytes > 0 ? bytes : 1);
    return left < fit ? left : fit;
}

static ls_status read_labels(plan *p, int which, ls__hdf5_file *file, void *out) {
    const part *q = &p->part[which];
    const void *values;
    int64_t n;
    for (int64_t i = 0; i < q->dim[0]; i += n) {
        n = block_of(8 * (int64_t)(p->labels ? p->labels : 1), q->dim[0] - i);
        LS_TRY(ls__hdf5_file_read(file, q, LS__HDF5_F64, i, n, &values));
        LS_TRY(p->labels ? take_rows(p, which, values, i, n, out) : take_classes(p, which, values, i, n, out));
    }
    ls__learned mine = learned_of(p, which);
    return p->labels && which == LABELS ? ls__learned_several(&mine, out, q->dim[0], p->labels) : LS_OK;
}

// Bytes of what is learned of a sample.
static int64_t learned_bytes(const plan *p) {
    int64_t values = 1;
    if (p->labels) return p->labels;
    for (int d = 1; d < p->part[LABELS].ndim && p->targets; d++) values *= p->part[LABELS].dim[d];
    return p->targets && p->part[LABELS].pixels ? values : 4 * values;
}

// Numbers, few for each sample.
static ls_status read_targets(const plan *p, int which, ls__hdf5_file *file, char *out) {
    const part *q = &p->part[which];
    ls__learned mine = learned_of(p, which);
    int64_t each = learned_bytes(p), n;
    const void *values;
    for (int64_t i = 0; i < q->dim[0]; i += n) {
        n = block_of(each, q->dim[0] - i);
        LS_TRY(ls__hdf5_file_read(file, q, LS__HDF5_F32, i, n, &values));
        LS_TRY(ls__learned_finite(&mine, values, i * (each / 4), n * (each / 4)));
        memcpy(out + i * each, values, (size_t)(n * each));
    }
    return LS_OK;
}

// --- a source --------------------------------------------------------------------------------------------------------

// A data set that only the library can read.
typedef struct library {
    ls__hdf5_file *file;
    const part *part;  // the host's
    int64_t bytes;     // of a sample
    pthread_mutex_t lock;
} library;

static ls_status library_read(void *self, int64_t i, void *out) {
    library *l = self;
    const void *values;
    pthread_mutex_lock(&l->lock);
    ls_status status =
        ls__hdf5_file_read(l->file, l->part, l->part->pixels ? LS__HDF5_U8 : LS__HDF5_F32, i, 1, &values);
    if (status == LS_OK) memcpy(out, values, (size_t)l->bytes);
    pthread_mutex_unlock(&l->lock);
    return status;
}

static void library_destroy(void *self) {
    library *l = self;
    ls__hdf5_file_destroy(&l->file);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static ls_status library_create(const char *path, const part *set, int64_t bytes, ls__array_place *out) {
    library *l;
    LS_TRY(ls_calloc(1, sizeof *l, &l));
    pthread_mutex_init(&l->lock, NULL);
    l->part = set;
    l->bytes = bytes;
    *out = (ls__array_place){.in = out->in, .at = -1, .read = library_read, .destroy = library_destroy, .self = l};
    LS_TRY(ls__hdf5_file_create(path, bytes, &l->file));
    return ls__hdf5_file_open(l->file, set);
}

// What is read of a field. What has been made is the caller's also where it fails.
static ls_status find_place(const plan *p, int which, const ls_field *field, ls__array_place *out) {
    const part *q = &p->part[which];
    int set = which / 2;
    out->in = (ls__array_file){p->path[set], p->bytes[set], p->changed[set]};
    out->at = q->at;
    if (q->at < 0)
        LS_TRY(
            library_create(p->path[set], q, ls_shape_count(field->shape) * (int64_t)ls_dtype_size(field->dtype), out));
    out->planes = p->planes[which % 2] && q->ndim == 4;
    out->finite = q->pixels ? NULL : q->name;
    return LS_OK;
}

static ls_status make_source(const plan *p, int test, const char *learned, const char *name, ls_source **out) {
    const part *a = &p->part[2 * test];
    int planes = p->planes[0], channels = a->ndim == 3 ? 1 : (int)a->dim[planes ? 1 : 3], height = planes ? 2 : 1;
    ls__learned target = learned_of(p, LABELS);
    ls_field fields[] = {
        {"image", LS_SHAPE(a->dim[height], a->dim[height + 1], channels), a->pixels ? LS_DTYPE_U8 : LS_DTYPE_F32, 0},
        {"label", {0}, LS_DTYPE_I32, p->most_class + 1}};
    ls__array_place place[2] = {{.at = -1}, {.memory = learned}};
    if (p->targets) fields[1] = ls__learned_field(&target, p->planes[1]);
    if (p->labels) fields[1] = (ls_field){"label", LS_SHAPE(p->labels), LS_DTYPE_U8, 0};
    ls_status status = find_place(p, 2 * test, &fields[0], &place[0]);
    if (status == LS_OK && p->placed) {
        place[1].memory = NULL;
        status = find_place(p, 2 * test + 1, &fields[1], &place[1]);
    }
    if (status != LS_OK) {
        for (int k = 0; k < 2; k++)
            if (place[k].destroy) place[k].destroy(place[k].self);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    LS_TRY(ls__source_create_file_arrays(name, fields, 2, a->dim[0], place, out));
    // The library has opened the same file.
    int64_t bytes, changed;
    LS_TRY(ls__array_file_describe(p->path[test], &bytes, &changed));
    if (bytes == p->bytes[test] && changed == p->changed[test]) return LS_OK;
    return ls__array_file_changed(p->path[test]);
}

static ls_status make_sources(const plan *p, char *const *learned, ls_dataset *out) {
    out->version = 1;
    for (int test = 0; test < 2; test++) {
        char name[96];
        int64_t count = p->part[2 * test].dim[0];
        if (!p->part[2 * test].there) continue;
        snprintf(name, sizeof name, "the %s set of %.64s", test ? "test" : "training", out->name);
        LS_TRY(make_source(p, test, learned[test], name, test ? &out->test : &out->train));
        if (!p->placed) out->version = ls__hash_mix(out->version, ls__hash(learned[test], learned_bytes(p) * count));
        out->version = ls__hash_mix(out->version, (uint64_t)p->bytes[test]);
    }
    out->shared = 1;
    return LS_OK;
}

// Worker 0 reads what is in memory; `file` as describe_files has made them.
static ls_status read_learned(plan *p, ls__hdf5_file *file[2], char *const learned[2]) {
    for (int set = 0; set < 2; set++) {
        int which = 2 * set + 1;
        if (!p->part[which].there || p->placed) continue;
        LS_TRY(p->targets ? read_targets(p, which, file[set], learned[set])
                          : read_labels(p, which, file[set], learned[set]));
    }
    return LS_OK;
}

// Between collective calls that every worker enters.
static ls_status open_files(ls_data_host *host, const char *argument, ls__hdf5_file *file[2], ls_dataset *out) {
    void *block;
    settings s = {NULL, NULL, NULL, NULL, NULL};
    ls_spec spec;
    LS_TRY(host->agree(host->self, ls_spec_read("hdf5", argument, table, &s, &spec)));
    LS_TRY(host->agree(host->self, host->alloc(host->self, (int64_t)sizeof(plan), &block)));
    plan *p = block;
    LS_TRY(host->agree(host->self, host->rank == 0 ? describe_files(p, spec.text, &s, file) : LS_OK));
    LS_TRY(host->barrier(host->self));
    int64_t each = p->placed ? 0 : learned_bytes(p), train = p->part[IMAGES].dim[0],
            test = p->part[TEST_IMAGES].there ? p->part[TEST_IMAGES].dim[0] : 0;
    LS_TRY(host->agree(host->self, host->alloc(host->self, each * (train + test) + 1, &block)));
    char *learned[2] = {block, (char *)block + each * train};
    LS_TRY(host->agree(host->self, host->rank == 0 ? read_learned(p, file, learned) : LS_OK));
    LS_TRY(host->barrier(host->self));
    return host->agree(host->self, make_sources(p, learned, out));
}

static ls_status hdf5_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    ls__hdf5_file *file[2] = {NULL, NULL};
    ls_status status = open_files(host, argument, file, out);
    if (file[1] != file[0]) ls__hdf5_file_destroy(&file[1]);
    ls__hdf5_file_destroy(&file[0]);
    return status;
}

const ls_format ls_format_hdf5 = {
    .name = "hdf5",
    .help =
        "images and classes in an HDF5 file, as Keras's and Caffe's users write them: x_train and y_train with x_test "
        "and y_test, or data and label: "
        "hdf5:FILE,test=FILE,image=NAME,label=NAME; read while training",
    .argument = "FILE",
    .open = hdf5_open,
};
