// "hdf5:FILE": images and classes in two data sets of an HDF5 file, as Keras's and Caffe's users write them: (samples, height, width[, channels]) or, as Caffe has
// it, (samples, channels, height, width); whole numbers of 8 bits are pixels, floating ones numbers that are taken as they are. Classes are in memory,
// images are read while training: where they lie in one piece by a read at their place, else by the library, which unpacks them.
//
// The library is one thread's at a time.
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/fingerprint.h"
#include "data/formats/learned.h"
#include "data/hdf5_library.h"
#include "data/pixels.h"
#include "data/records.h"
#include "data/spec.h"

enum { IMAGES, LABELS, TEST_IMAGES, TEST_LABELS, PARTS, MOST_CLASSES = 10000000 };

// A data set of the file, and where it lies. Lies in memory shared by processes, so it has no pointers.
typedef struct part {
    char name[128];
    int there, pixels;  // pixels: U8, else F32
    int ndim;
    int64_t dim[4];
    int64_t at;  // in the file, where it lies there in one piece and as the machine has it; -1: not so
} part;

typedef struct plan {
    char path[2][4096];  // of the two sets; may be the same
    int64_t bytes[2], changed[2];
    part part[PARTS];
    int planes;  // 1: (channels, height, width)
    int targets;  // 1: in place of classes there are numbers or pixels that are learned, in the shape that they have there
    int labels;  // above 0: samples have so many labels at once, each with 0 or 1
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

pthread_mutex_t ls__hdf5_library = PTHREAD_MUTEX_INITIALIZER;

// --- the library's words ---------------------------------------------------------------------------------------------

static herr_t innermost(unsigned n, const H5E_error2_t *e, void *text) {
    if (n == 0) snprintf(text, 128, "%s", e->desc);
    return 0;
}

void ls__hdf5_why(char *text, size_t size) {
    char why[128] = "no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, why);
    snprintf(text, size, "%s", why);
}

static ls_status failed(const char *path, const char *name) {
    char why[128];
    ls__hdf5_why(why, sizeof why);
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: cannot read %s: HDF5 says \"%s\"; copy or make it again", path, name, why);
}

// Without the locks that parallel file systems refuse; its words go to sentences alone.
static hid_t open_file(const char *path) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7)
    H5Pset_file_locking(access, 0, 1);
#endif
    hid_t file = H5Fopen(path, H5F_ACC_RDONLY, access);
    H5Pclose(access);
    return file;
}

// --- worker 0: what is there -----------------------------------------------------------------------------------------

// Whether there is a data set of this name, a path of groups; the library asks for one after the other.
static int exists(hid_t file, const char *name) {
    char path[160];
    for (const char *slash = strchr(name + 1, '/');; slash = strchr(slash + 1, '/')) {
        int n = slash ? (int)(slash - name) : (int)strlen(name);
        if (n >= (int)sizeof path) return 0;
        snprintf(path, sizeof path, "%.*s", n, name);
        if (H5Lexists(file, path, H5P_DEFAULT) <= 0) return 0;
        if (!slash) break;
    }
    hid_t object = H5Oopen(file, name, H5P_DEFAULT);
    int is_set = object >= 0 && H5Iget_type(object) == H5I_DATASET;
    if (object >= 0) H5Oclose(object);
    return is_set;
}

// `classes`: whole numbers of any type are what is wanted.
static ls_status describe_open(const char *path, hid_t set, int classes, part *p) {
    hsize_t dim[H5S_MAX_RANK];
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), how = H5Dget_create_plist(set);
    ls_status status = LS_OK;
    int ndim = H5Sget_simple_extent_ndims(space);
    H5T_class_t class = H5Tget_class(type);
    size_t width = H5Tget_size(type);
    int whole = class == H5T_INTEGER && (classes || (width == 1 && H5Tget_sign(type) == H5T_SGN_NONE));
    if (ndim < 1 || ndim > 4 || H5Sget_simple_extent_dims(space, dim, NULL) != ndim || (!whole && class != H5T_FLOAT)) {
        status = LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: %s has %d dimensions, of which 1 to 4 are read, or values of another type: images are uint8 or "
            "floating, as is what is learned by targets=NAME; classes are whole numbers of any type, written as such "
            "or floating",
            path, p->name, ndim);
    } else {
        p->ndim = ndim;
        p->pixels = class == H5T_INTEGER;
        for (int d = 0; d < ndim; d++) p->dim[d] = dim[d] > INT32_MAX ? -1 : (int64_t)dim[d];
        haddr_t at = H5Dget_offset(set);
        int native = H5Tequal(type, H5T_NATIVE_UCHAR) > 0 || H5Tequal(type, H5T_NATIVE_FLOAT) > 0;
        int plain = H5Pget_layout(how) == H5D_CONTIGUOUS && H5Pget_external_count(how) == 0;
        p->at = plain && native && at != HADDR_UNDEF ? (int64_t)at : -1;
    }
    H5Pclose(how);
    H5Tclose(type);
    H5Sclose(space);
    return status;
}

// Of external files, or a view of other data sets: what is stored here says nothing of them.
static int lies_elsewhere(hid_t how) {
#if H5_VERSION_GE(1, 10, 0)
    if (H5Pget_layout(how) == H5D_VIRTUAL) return 1;
#endif
    return H5Pget_external_count(how) > 0;
}

// Sizes are believed no further than what is stored goes along with them: all of it in one piece, or packed, for which gzip needs a thousandth at least.
static ls_status check_stored(const char *path, hid_t file, hid_t set, const part *p) {
    hid_t type = H5Dget_type(set), how = H5Dget_create_plist(set);
    int elsewhere = lies_elsewhere(how), packed = H5Pget_layout(how) == H5D_CHUNKED;
    double each = (double)H5Tget_size(type), stored = elsewhere ? 0 : (double)H5Dget_storage_size(set);
    hsize_t bytes = 0;
    H5Pclose(how);
    H5Tclose(type);
    for (int d = 1; d < p->ndim; d++) each *= (double)p->dim[d];
    if (H5Fget_filesize(file, &bytes) < 0) return failed(path, p->name);
    int less = !elsewhere && (stored > (double)bytes || each * (double)p->dim[0] > stored * (packed ? 1100 : 1));
    if (!less && each <= (double)LS_IMAGE_MAX_FILE) return LS_OK;
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: %s is said to have %lld samples of %.0f bytes, of which %.0f bytes are stored, and each may have "
        "%lld MB: it is damaged, or was never written to the end; make it again",
        path, p->name, (long long)p->dim[0], each, stored, (long long)(LS_IMAGE_MAX_FILE >> 20));
}

static ls_status describe(const char *path, hid_t file, const char *name, int classes, part *p) {
    snprintf(p->name, sizeof p->name, "%.120s", name);
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT);
    if (set < 0) return failed(path, name);
    ls_status status = describe_open(path, set, classes, p);
    for (int d = 0; d < p->ndim && status == LS_OK; d++)
        if (p->dim[d] < 1)
            status = LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s has no values, or more than 2^31 in a dimension", path, name);
    if (status == LS_OK) status = check_stored(path, file, set, p);
    H5Dclose(set);
    p->there = status == LS_OK;
    return status;
}

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
static ls_status find_pair(plan *p, hid_t file, const settings *s, int from, int to) {
    const char *path = p->path[to / 2];
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const char *image = s->image && !from ? s->image : names[k][from];
        const char *asked = s->targets ? s->targets : s->label;
        const char *label = asked && !from ? asked : names[k][from + 1];
        if (!exists(file, image) || !exists(file, label)) continue;
        LS_TRY(describe(path, file, image, 0, &p->part[to]));
        LS_TRY(describe(path, file, label, !p->targets, &p->part[to + 1]));
        return check_pair(p, to);
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
    struct stat there;
    if (snprintf(p->path[set], sizeof p->path[set], "%s", path) >= (int)sizeof p->path[set])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of a file has more than 4000 bytes");
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode)) {
        int missing = stat(path, &there) != 0;
        return LS_FAIL(missing && errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       missing ? strerror(errno) : "it is no file");
    }
    p->bytes[set] = there.st_size;
    p->changed[set] = (int64_t)there.st_mtim.tv_sec * 1000000000 + there.st_mtim.tv_nsec;
    return LS_OK;
}

// Which of an image's dimensions are its channels: those of 1 or 3; Caffe's, where both ends are and it has Caffe's names.
static ls_status find_layout(plan *p, const settings *s) {
    const part *a = &p->part[IMAGES];
    int first = a->ndim == 4 && (a->dim[1] == 1 || a->dim[1] == 3),
        last = a->ndim == 4 && (a->dim[3] == 1 || a->dim[3] == 3);
    p->planes =
        a->ndim == 4 && (s->layout ? strcmp(s->layout, "chw") == 0 : first && (!last || strcmp(a->name, "data") == 0));
    if (a->ndim == 3 || (p->planes ? first : last)) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: %s has no dimension of 1 or 3 channels where its layout has them (layout=hwc, layout=chw)",
                   p->path[0], a->name);
}

static ls_status describe_files(plan *p, const char *path, const settings *s) {
    if (s->targets && s->label)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "hdf5:%s: label=NAME is the data set of classes, and targets=NAME of what is learned in their place: "
            "give one of them",
            path);
    p->targets = s->targets != NULL;
    LS_TRY(look_at_file(p, 0, path));
    LS_TRY(look_at_file(p, 1, s->test ? s->test : path));
    hid_t file = open_file(p->path[0]);
    if (file < 0) return failed(p->path[0], "it");
    ls_status status = find_pair(p, file, s, 0, 0);
    // The test set's targets have no name in the same file: those of the training set are named, and usual ones are classes.
    if (status == LS_OK && !s->test && !s->targets) status = find_pair(p, file, s, TEST_IMAGES, TEST_IMAGES);
    H5Fclose(file);
    LS_TRY(status);
    if (s->test) {
        file = open_file(p->path[1]);
        if (file < 0) return failed(p->path[1], "it");
        status = find_pair(p, file, s, 0, TEST_IMAGES);
        H5Fclose(file);
        LS_TRY(status);
    }
    return find_layout(p, s);
}

static ls_status take_rows(const plan *p, int which, const double *values, uint8_t *out) {
    ls__learned mine = learned_of(p, which);
    int64_t count = mine.dim[0];
    for (int64_t i = 0; i < count * p->labels; i++) LS_TRY(ls__learned_label(&mine, i, values[i], &out[i]));
    return which == LABELS ? ls__learned_several(&mine, out, count, p->labels) : LS_OK;
}

static ls_status take_classes(plan *p, int which, const double *values, int32_t *out) {
    const part *q = &p->part[which];
    for (int64_t i = 0; i < q->dim[0]; i++) {
        if (!(values[i] >= 0) || values[i] >= MOST_CLASSES || values[i] != (double)(int32_t)values[i])
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s: value %lld of %s is %g, and no class: they are whole numbers from 0 to %d",
                           p->path[which / 2], (long long)i, q->name, values[i], MOST_CLASSES - 1);
        out[i] = (int32_t)values[i];
        if (out[i] > p->most_class) p->most_class = out[i];
    }
    return LS_OK;
}

static ls_status read_labels(plan *p, int which, void *out) {
    const part *q = &p->part[which];
    const char *path = p->path[which / 2];
    double *values;
    LS_TRY(ls_calloc(q->dim[0] * (p->labels ? p->labels : 1), sizeof *values, &values));
    hid_t file = open_file(path), set = file >= 0 ? H5Dopen2(file, q->name, H5P_DEFAULT) : -1;
    int read = set >= 0 && H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
    ls_status status = read ? LS_OK : failed(path, q->name);
    if (status == LS_OK) status = p->labels ? take_rows(p, which, values, out) : take_classes(p, which, values, out);
    if (set >= 0) H5Dclose(set);
    if (file >= 0) H5Fclose(file);
    free(values);
    return status;
}

// A sample's planes to pixels.
static void interleave(const part *p, const void *planes, void *out) {
    int64_t channels = p->dim[1], pixels = p->dim[2] * p->dim[3];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) {
            if (p->pixels)
                ((uint8_t *)out)[i * channels + c] = ((const uint8_t *)planes)[c * pixels + i];
            else
                ((float *)out)[i * channels + c] = ((const float *)planes)[c * pixels + i];
        }
}

// Bytes of what is learned of a sample.
static int64_t learned_bytes(const plan *p) {
    int64_t values = 1;
    if (p->labels) return p->labels;
    for (int d = 1; d < p->part[LABELS].ndim && p->targets; d++) values *= p->part[LABELS].dim[d];
    return p->targets && p->part[LABELS].pixels ? values : 4 * values;
}

// Images that are learned lie as those do that they are learned of.
static ls_status interleave_all(const plan *p, const part *q, char *targets) {
    int64_t each = learned_bytes(p);
    char *planes;
    if (!p->planes || q->ndim != 4) return LS_OK;
    LS_TRY(ls_calloc(each, 1, &planes));
    for (int64_t i = 0; i < q->dim[0]; i++) {
        memcpy(planes, targets + i * each, (size_t)each);
        interleave(q, planes, targets + i * each);
    }
    free(planes);
    return LS_OK;
}

static ls_status read_targets(const plan *p, int which, void *out) {
    const part *q = &p->part[which];
    const char *path = p->path[which / 2];
    hid_t file = open_file(path), set = file >= 0 ? H5Dopen2(file, q->name, H5P_DEFAULT) : -1;
    hid_t type = q->pixels ? H5T_NATIVE_UCHAR : H5T_NATIVE_FLOAT;
    int read = set >= 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
    ls_status status = read ? LS_OK : failed(path, q->name);
    ls__learned mine = learned_of(p, which);
    if (status == LS_OK && !q->pixels) status = ls__learned_finite(&mine, out, q->dim[0] * (learned_bytes(p) / 4));
    if (status == LS_OK) status = interleave_all(p, q, out);
    if (set >= 0) H5Dclose(set);
    if (file >= 0) H5Fclose(file);
    return status;
}

// --- a source --------------------------------------------------------------------------------------------------------

typedef struct hdf5_source {
    ls_source base;
    const plan *plan;  // the host's
    const part *part;
    const char *learned;  // (samples, learned_bytes): classes, or targets
    int64_t each;
    int set, fd;  // fd: of the file, to know whether it has changed, and to read by
    hid_t file, data;
    int64_t values;  // of a sample
    ls_pixels kept;  // samples as they were read
} hdf5_source;

static ls_status check_unchanged(const hdf5_source *s) {
    struct stat now;
    const plan *p = s->plan;
    if (fstat(s->fd, &now) == 0 && now.st_size == p->bytes[s->set] &&
        (int64_t)now.st_mtim.tv_sec * 1000000000 + now.st_mtim.tv_nsec == p->changed[s->set])
        return LS_OK;
    return LS_FAIL(
        LS_STATUS_IO,
        "%s was changed since this run began: leave the data as they are while they are in use, and begin again",
        p->path[s->set]);
}

static ls_status read_by_place(const hdf5_source *s, int64_t i, void *out) {
    int64_t size = s->base.sample_bytes[0], at = s->part->at + i * size;
    for (int64_t done = 0; done < size;) {
        ssize_t n = pread(s->fd, (char *)out + done, (size_t)(size - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return LS_FAIL(LS_STATUS_IO, "cannot read %s at byte %lld: %s", s->plan->path[s->set],
                           (long long)(at + done), n < 0 ? strerror(errno) : "it ends before");
        done += n;
    }
    return LS_OK;
}

static ls_status read_by_library(const hdf5_source *s, int64_t i, void *out) {
    hsize_t from[4] = {(hsize_t)i}, count[4] = {1, 1, 1, 1}, size = (hsize_t)s->values;
    for (int d = 1; d < s->part->ndim; d++) count[d] = (hsize_t)s->part->dim[d];
    pthread_mutex_lock(&ls__hdf5_library);
    hid_t there = H5Dget_space(s->data), here = H5Screate_simple(1, &size, NULL);
    hid_t type = s->part->pixels ? H5T_NATIVE_UCHAR : H5T_NATIVE_FLOAT;
    int read = H5Sselect_hyperslab(there, H5S_SELECT_SET, from, NULL, count, NULL) >= 0 &&
               H5Dread(s->data, type, here, there, H5P_DEFAULT, out) >= 0;
    ls_status status = read ? LS_OK : failed(s->plan->path[s->set], s->part->name);
    H5Sclose(here);
    H5Sclose(there);
    pthread_mutex_unlock(&ls__hdf5_library);
    return status;
}

static ls_status hdf5_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const hdf5_source *s = (const hdf5_source *)source;
    char *second = (char *)scratch + ls_round_up(s->base.sample_bytes[0], LS_ALIGN);
    void *to = s->plan->planes ? second : scratch;
    ls_pixels_entry kept;
    out->field[1] = s->learned + i * s->each;
    if (ls_pixels_get(&s->kept, i, 0, &kept)) {
        out->field[0] = kept.bytes;
        return LS_OK;
    }
    LS_TRY(check_unchanged(s));
    if (s->part->at >= 0)
        LS_TRY(read_by_place(s, i, to));
    else
        LS_TRY(read_by_library(s, i, to));
    if (s->plan->planes) interleave(s->part, to, scratch);
    out->field[0] = scratch;
    if (!ls_pixels_begin(&s->kept, i, 0, s->base.sample_bytes[0], &kept)) return LS_OK;
    memcpy(kept.bytes, scratch, (size_t)s->base.sample_bytes[0]);
    ls_pixels_end(&s->kept, i, 0, &kept);
    return LS_OK;
}

static void hdf5_destroy(ls_source *source) {
    hdf5_source *s = (hdf5_source *)source;
    pthread_mutex_lock(&ls__hdf5_library);
    if (s->data > 0) H5Dclose(s->data);
    if (s->file > 0) H5Fclose(s->file);
    pthread_mutex_unlock(&ls__hdf5_library);
    if (s->fd >= 0) close(s->fd);
}

static int64_t hdf5_class(const ls_source *source, int64_t i) {
    const hdf5_source *s = (const hdf5_source *)source;
    return s->plan->targets || s->plan->labels ? -1 : ((const int32_t *)(const void *)s->learned)[i];
}
static int64_t hdf5_stored(const ls_source *source) { return source->count * source->sample_bytes[0]; }

static int64_t hdf5_cache_size(const ls_source *source, int64_t limit) {
    return ls_pixels_size(source->count, source->sample_bytes[0], limit);
}

static void hdf5_cache_attach(ls_source *source, int64_t limit, void *memory, int fill) {
    hdf5_source *s = (hdf5_source *)source;
    ls_pixels_place(memory, hdf5_cache_size(source, limit), source->count, 0, source->count, &s->kept);
}

static const ls_source_ops hdf5_ops = {.read = hdf5_read,
                                       .destroy = hdf5_destroy,
                                       .class = hdf5_class,
                                       .stored = hdf5_stored,
                                       .cache_size = hdf5_cache_size,
                                       .cache_attach = hdf5_cache_attach};

static ls_status open_source(hdf5_source *s, const char *path) {
    s->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (s->fd < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    if (s->part->at >= 0) return LS_OK;
    pthread_mutex_lock(&ls__hdf5_library);
    s->file = open_file(path);
    s->data = s->file >= 0 ? H5Dopen2(s->file, s->part->name, H5P_DEFAULT) : -1;
    ls_status status = s->data < 0 ? failed(path, s->part->name) : LS_OK;
    pthread_mutex_unlock(&ls__hdf5_library);
    return status;
}

static ls_field target_field(const plan *p) {
    const part *q = &p->part[LABELS];
    ls__learned mine = learned_of(p, LABELS);
    ls_field field = ls__learned_field(&mine);
    if (q->ndim == 4 && p->planes) field.shape = LS_SHAPE(q->dim[2], q->dim[3], q->dim[1]);
    return field;
}

static ls_status make_source(const plan *p, int test, const char *learned, const char *name, ls_source **out) {
    const part *a = &p->part[2 * test];
    int channels = a->ndim == 3 ? 1 : (int)a->dim[p->planes ? 1 : 3], height = p->planes ? 2 : 1;
    ls_field fields[] = {
        {"image", LS_SHAPE(a->dim[height], a->dim[height + 1], channels), a->pixels ? LS_DTYPE_U8 : LS_DTYPE_F32, 0},
        {"label", {0}, LS_DTYPE_I32, p->most_class + 1}};
    if (p->targets) fields[1] = target_field(p);
    if (p->labels) fields[1] = (ls_field){"label", LS_SHAPE(p->labels), LS_DTYPE_U8, 0};
    hdf5_source *s;
    LS_TRY(ls_source_create(&hdf5_ops, sizeof *s, name, fields, 2, a->dim[0], &s));
    *out = &s->base;
    s->plan = p;
    s->part = a;
    s->set = test;
    s->fd = -1;
    s->learned = learned;
    s->each = learned_bytes(p);
    if (p->targets || p->labels) s->base.bytes = ls_memory_size(s->each * a->dim[0]);
    s->values = ls_shape_count(fields[0].shape);
    s->base.scratch_bytes = (p->planes ? 2 : 1) * ls_round_up(s->base.sample_bytes[0], LS_ALIGN);
    return open_source(s, p->path[test]);
}

static ls_status make_sources(const plan *p, char *const *learned, ls_dataset *out) {
    out->version = 1;
    for (int test = 0; test < 2; test++) {
        char name[96];
        int64_t count = p->part[2 * test].dim[0];
        if (!p->part[2 * test].there) continue;
        snprintf(name, sizeof name, "the %s set of %.64s", test ? "test" : "training", out->name);
        LS_TRY(make_source(p, test, learned[test], name, test ? &out->test : &out->train));
        out->version = ls__hash_mix(out->version, ls__hash(learned[test], learned_bytes(p) * count));
        out->version = ls__hash_mix(out->version, (uint64_t)p->bytes[test]);
    }
    out->shared = 1;
    return LS_OK;
}

static ls_status hdf5_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    void *block;
    settings s = {NULL, NULL, NULL, NULL, NULL};
    ls_spec spec;
    ls_status status;
    LS_TRY(host->agree(host->self, ls_spec_read("hdf5", argument, table, &s, &spec)));
    LS_TRY(host->agree(host->self, host->alloc(host->self, (int64_t)sizeof(plan), &block)));
    plan *p = block;
    pthread_mutex_lock(&ls__hdf5_library);
    status = host->rank == 0 ? describe_files(p, spec.text, &s) : LS_OK;
    pthread_mutex_unlock(&ls__hdf5_library);
    LS_TRY(host->agree(host->self, status));
    LS_TRY(host->barrier(host->self));
    int64_t each = learned_bytes(p), train = p->part[IMAGES].dim[0],
            test = p->part[TEST_IMAGES].there ? p->part[TEST_IMAGES].dim[0] : 0;
    LS_TRY(host->agree(host->self, host->alloc(host->self, each * (train + test), &block)));
    char *learned[2] = {block, (char *)block + each * train};
    pthread_mutex_lock(&ls__hdf5_library);
    for (int set = 0; set < 2 && host->rank == 0 && status == LS_OK; set++) {
        if (set && !test) continue;
        status = p->targets ? read_targets(p, 2 * set + 1, learned[set]) : read_labels(p, 2 * set + 1, learned[set]);
    }
    pthread_mutex_unlock(&ls__hdf5_library);
    LS_TRY(host->agree(host->self, status));
    LS_TRY(host->barrier(host->self));
    return host->agree(host->self, make_sources(p, learned, out));
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
