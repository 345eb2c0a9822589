// CIFAR-10 and CIFAR-100: colour images of 32 × 32 pixels, in both forms their authors publish them in.
//
// The Python version is a few pickles, each a dict with the images as a numpy array of bytes and the labels as a list.
// The binary version is plain records: one or two label bytes, then the image. In both an image is three planes (red,
// green, blue), which become (H, W, C) here.
//
// The workers of a host read together. Worker 0 looks which form is there and at the files' sizes; then, file after file, each
// reads its slice into shared memory, one takes the file apart, and each converts its share of the images. Every
// worker comes by the same collective calls on every path, so that a failure of one never leaves another waiting.
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/formats/pickle.h"

#define SIDE        32
#define PLANE       (SIDE * SIDE)
#define PIXELS      (3 * PLANE)
#define FILES_MAX   6
#define FILE_MAX    ((int64_t)1 << 30)  // the largest published one has 155 million bytes
#define FETCH_AGAIN "fetch or copy the file again"

typedef struct flavour {
    const char *name;
    const char *folder[2];        // as the archives unpack: Python version, binary version
    const char *file[FILES_MAX];  // in the Python version; the binary one has .bin behind. The last is for testing.
    int files;
    const char *labels;  // the pickles' key
    int label_bytes;     // of a binary record; the last one counts
    int classes;
} flavour;

static const flavour cifar10 = {
    .name = "CIFAR-10",
    .folder = {"cifar-10-batches-py", "cifar-10-batches-bin"},
    .file = {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"},
    .files = 6,
    .labels = "labels",
    .label_bytes = 1,
    .classes = 10,
};

static const flavour cifar100 = {
    .name = "CIFAR-100",
    .folder = {"cifar-100-python", "cifar-100-binary"},
    .file = {"train", "test"},
    .files = 2,
    .labels = "fine_labels",
    .label_bytes = 2,  // the 20 coarse classes, then the 100 fine ones
    .classes = 100,
};

// What a file holds. Lies in memory shared by processes, so it has no pointers.
typedef struct part {
    char path[4096];
    int64_t stored_bytes;
    // From here on filled in by the worker that takes the file apart.
    int64_t count;
    int64_t first, sample_step, byte_step;  // byte b of image i is at first + i * sample_step + b * byte_step
} part;

typedef struct parts {
    int binary;
    part file[FILES_MAX];
} parts;

// ---- worker 0: what is there ---------------------------------------------------------------------------------------

static ls_status set_path(part *p, const char *dir, const char *folder, const char *file, int binary) {
    int n = snprintf(p->path, sizeof p->path, "%s%s%s/%s%s", dir, folder ? "/" : "", folder ? folder : "", file,
                     binary ? ".bin" : "");
    if (n < 0 || (size_t)n >= sizeof p->path)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the path of the data folder has %zu bytes; give one of less than 4000", strlen(dir));
    return LS_OK;
}

static int is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

// Looks for any file of either form in the folder itself and in the two that the archives unpack to. Any, so that of a
// folder with one missing it can be said which.
static ls_status choose(const flavour *f, const char *dir, parts *set, const char **folder) {
    const char *folders[3] = {NULL, f->folder[0], f->folder[1]};
    struct stat info;
    if (stat(dir, &info) != 0)
        return LS_FAIL(errno == ENOENT || errno == ENOTDIR ? LS_STATUS_NOT_FOUND : LS_STATUS_IO,
                       "cannot open the data folder %s: %s; give the folder with the files of %s%s", dir,
                       strerror(errno), f->name, dir[0] == '~' ? " (~ is not expanded here: write $HOME)" : "");
    for (int where = 0; where < 3; where++)
        for (int binary = 0; binary < 2; binary++)
            for (int i = 0; i < f->files; i++) {
                LS_TRY(set_path(&set->file[0], dir, folders[where], f->file[i], binary));
                if (!is_file(set->file[0].path)) continue;
                *folder = folders[where];
                set->binary = binary;
                return LS_OK;
            }
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "%s has no files of %s, neither %s nor %s.bin; unpack the archive and give the folder %s or %s, or "
                   "the one it lies in",
                   dir, f->name, f->file[0], f->file[0], f->folder[0], f->folder[1]);
}

static ls_status describe(const flavour *f, const char *dir, parts *set) {
    const char *folder = NULL;
    LS_TRY(choose(f, dir, set, &folder));
    for (int i = 0; i < f->files; i++) {
        part *p = &set->file[i];
        struct stat info;
        LS_TRY(set_path(p, dir, folder, f->file[i], set->binary));
        if (stat(p->path, &info) != 0)
            return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO,
                           "cannot look at %s: %s; put all %d files of %s there", p->path, strerror(errno), f->files,
                           f->name);
        if (!S_ISREG(info.st_mode))
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s is not a regular file; put the file of %s there", p->path, f->name);
        p->stored_bytes = info.st_size;
        if (p->stored_bytes == 0) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is empty; " FETCH_AGAIN, p->path);
        if (p->stored_bytes > FILE_MAX)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s has %lld bytes, more than any file of %s; put the right file there",
                           p->path, (long long)p->stored_bytes, f->name);
    }
    return LS_OK;
}

// ---- one file, not collective --------------------------------------------------------------------------------------

static ls_status bad_label(const flavour *f, const part *p, int64_t sample, long long label) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: label %lld is %lld, but the labels of %s go from 0 to %d; " FETCH_AGAIN,
                   p->path, (long long)sample, label, f->name, f->classes - 1);
}

static ls_status inspect_records(const flavour *f, part *p, const uint8_t *stored) {
    int64_t record = f->label_bytes + PIXELS;
    if (p->stored_bytes % record)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s has %lld bytes, which is no number of whole records of %lld bytes (%lld and %lld bytes "
                       "more): it is cut short or too long; " FETCH_AGAIN,
                       p->path, (long long)p->stored_bytes, (long long)record, (long long)(p->stored_bytes / record),
                       (long long)(p->stored_bytes % record));
    p->count = p->stored_bytes / record;
    p->first = f->label_bytes;
    p->sample_step = record;
    p->byte_step = 1;
    for (int64_t i = 0; i < p->count; i++)
        if (stored[i * record + f->label_bytes - 1] >= f->classes)
            return bad_label(f, p, i, stored[i * record + f->label_bytes - 1]);
    return LS_OK;
}

static ls_status check_array(part *p, const ls__pickle_value *data, const uint8_t *stored) {
    if (!data || data->kind != LS__PICKLE_ARRAY || !data->node->built)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no array \"data\" with the images; put the right file there",
                       p->path);
    const ls__pickle_node *a = data->node;
    if (a->ndim != 2 || a->dim[0] < 1 || a->dim[1] != PIXELS)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: \"data\" has %d dimensions, %lld x %lld, where (images) x %d are wanted; put the right "
                       "file there",
                       p->path, a->ndim, (long long)a->dim[0], (long long)a->dim[1], PIXELS);
    p->count = a->dim[0];
    p->first = a->data - stored;
    p->sample_step = a->by_column ? 1 : PIXELS;
    p->byte_step = a->by_column ? p->count : 1;
    return LS_OK;
}

static ls_status check_labels(const flavour *f, const part *p, const ls__pickle_value *labels) {
    if (!labels || labels->kind != LS__PICKLE_LIST)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no list \"%s\"; put the right file of %s there", p->path, f->labels,
                       f->name);
    const ls__pickle_node *list = labels->node;
    if (list->count != p->count)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has %lld images but %lld labels; " FETCH_AGAIN, p->path,
                       (long long)p->count, (long long)list->count);
    for (int64_t i = 0; i < list->count; i++) {
        const ls__pickle_value *v = &list->items[i];
        if (v->kind != LS__PICKLE_INT)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s: label %lld is no int but %s; " FETCH_AGAIN, p->path, (long long)i,
                           ls__pickle_kind_name(v->kind));
        if (v->number < 0 || v->number >= f->classes) return bad_label(f, p, i, v->number);
    }
    return LS_OK;
}

static ls_status inspect_pickle(const flavour *f, part *p, const uint8_t *stored, ls__pickle **pickle) {
    LS_TRY(ls__pickle_parse(p->path, stored, p->stored_bytes, pickle));
    const ls__pickle_value *root = ls__pickle_root(*pickle);
    if (root->kind != LS__PICKLE_DICT)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s holds a %s where a dict is wanted; put the right file there", p->path,
                       ls__pickle_kind_name(root->kind));
    LS_TRY(check_array(p, ls__pickle_find(root, "data"), stored));
    return check_labels(f, p, ls__pickle_find(root, f->labels));
}

static void write_labels(const flavour *f, const part *p, const uint8_t *stored, const ls__pickle *pickle,
                         uint8_t *labels) {
    const ls__pickle_value *items = NULL;
    if (pickle) items = ls__pickle_find(ls__pickle_root(pickle), f->labels)->node->items;
    for (int64_t i = 0; i < p->count; i++)
        labels[i] = items ? (uint8_t)items[i].number : stored[i * p->sample_step + f->label_bytes - 1];
}

// Images first .. past - 1 of a file, planes to pixels. images: (count, H, W, C)
static void write_images(const part *p, const uint8_t *stored, int64_t first, int64_t past, uint8_t *images) {
    const int64_t step = p->byte_step;
    for (int64_t i = first; i < past; i++) {
        const uint8_t *red = stored + p->first + i * p->sample_step;
        const uint8_t *green = red + PLANE * step, *blue = green + PLANE * step;
        uint8_t *image = images + i * PIXELS;
        for (int b = 0; b < PLANE; b++) {
            image[3 * b] = red[b * step];
            image[3 * b + 1] = green[b * step];
            image[3 * b + 2] = blue[b * step];
        }
    }
}

// ---- all workers ---------------------------------------------------------------------------------------------------

// Passes a status through the host's agreement and then makes what was written to shared memory seen by all.
static ls_status settle(ls_data_host *host, ls_status mine) {
    LS_TRY(host->agree(host->self, mine));
    return host->barrier(host->self);
}

static ls_status alloc(ls_data_host *host, int64_t bytes, void **out) {
    *out = NULL;
    return host->agree(host->self, host->alloc(host->self, bytes, out));
}

// One opening, as one worker sees it.
typedef struct opening {
    ls_data_host *host;
    const flavour *flavour;
    parts *set;          // shared
    uint8_t *stored;     // shared: the file that is being read, as it is
    ls__pickle *pickle;  // private: that file, where it is this worker's to take apart, in the Python version
} opening;

// This worker's slice of file i.
static ls_status read_slice(opening *o, int i) {
    ls_data_host *host = o->host;
    int64_t bytes = o->set->file[i].stored_bytes, share = bytes / host->size;
    int64_t first = share * host->rank, past = host->rank == host->size - 1 ? bytes : first + share;
    return settle(host, host->read(host->self, o->set->file[i].path, first, past - first, o->stored + first));
}

// One worker takes it apart. Not collective.
static ls_status inspect(opening *o, int i) {
    part *p = &o->set->file[i];
    if (i % o->host->size != o->host->rank) return LS_OK;
    return o->set->binary ? inspect_records(o->flavour, p, o->stored)
                          : inspect_pickle(o->flavour, p, o->stored, &o->pickle);
}

// This worker's part of file i: the labels, if it took the file apart, and an even share of the images. Not collective.
static void write_mine(opening *o, int i, uint8_t *images, uint8_t *labels) {
    const part *p = &o->set->file[i];
    int rank = o->host->rank, size = o->host->size;
    if (i % size == rank) write_labels(o->flavour, p, o->stored, o->pickle, labels);
    write_images(p, o->stored, p->count * rank / size, p->count * (rank + 1) / size, images);
}

// File after file, so that beside the images there is never more than one of them in memory. How many images there are is known
// only in the end: there is room for as many as the files' sizes allow, which is next to nothing more.
static ls_status load(opening *o, ls_dataset *out) {
    ls_data_host *host = o->host;
    const flavour *f = o->flavour;
    int64_t largest = 0, room = 0, done = 0;
    void *stored, *block;
    for (int i = 0; i < f->files; i++) {
        int64_t bytes = o->set->file[i].stored_bytes;
        if (bytes > largest) largest = bytes;
        room += bytes / PIXELS;
    }
    LS_TRY(alloc(host, room * (PIXELS + 1), &block));
    LS_TRY(alloc(host, largest, &stored));
    uint8_t *images = block, *labels = images + room * PIXELS;
    o->stored = stored;
    for (int i = 0; i < f->files; i++) {
        LS_TRY(read_slice(o, i));
        LS_TRY(settle(host, inspect(o, i)));
        assert(o->set->file[i].count <= o->set->file[i].stored_bytes / PIXELS);
        write_mine(o, i, images + done * PIXELS, labels + done);
        ls__pickle_free(&o->pickle);
        LS_TRY(host->barrier(host->self));
        done += o->set->file[i].count;
    }
    if (host->free) host->free(host->self, stored);

    int64_t test = o->set->file[f->files - 1].count;
    ls_arrays train_set = {done - test, {images, labels}};
    ls_arrays test_set = {test, {images + (done - test) * PIXELS, labels + (done - test)}};
    return ls_data_set_images(host, out, LS_SHAPE(SIDE, SIDE, 3), f->classes, &train_set, &test_set);
}

static ls_status open_folder(ls_data_host *host, const flavour *f, const char *dir, ls_dataset *out) {
    opening o = {.host = host, .flavour = f};
    void *block;
    LS_TRY(alloc(host, sizeof(parts), &block));
    o.set = block;
    LS_TRY(settle(host, host->rank == 0 ? describe(f, dir, o.set) : LS_OK));
    ls_status status = load(&o, out);
    ls__pickle_free(&o.pickle);
    return status;
}

static ls_status open_cifar10(ls_data_host *host, const char *dir, ls_dataset *out) {
    return open_folder(host, &cifar10, dir, out);
}

static ls_status open_cifar100(ls_data_host *host, const char *dir, ls_dataset *out) {
    return open_folder(host, &cifar100, dir, out);
}

static const char *const classes10[] = {"airplane", "automobile", "bird", "cat",   "deer", "dog",
                                        "frog",     "horse",      "ship", "truck", NULL};

// The fine classes, in the order of their numbers, which is the alphabet's.
static const char *const classes100[] = {
    "apple",      "aquarium_fish", "baby",         "bear",       "beaver",      "bed",         "bee",
    "beetle",     "bicycle",       "bottle",       "bowl",       "boy",         "bridge",      "bus",
    "butterfly",  "camel",         "can",          "castle",     "caterpillar", "cattle",      "chair",
    "chimpanzee", "clock",         "cloud",        "cockroach",  "couch",       "crab",        "crocodile",
    "cup",        "dinosaur",      "dolphin",      "elephant",   "flatfish",    "forest",      "fox",
    "girl",       "hamster",       "house",        "kangaroo",   "keyboard",    "lamp",        "lawn_mower",
    "leopard",    "lion",          "lizard",       "lobster",    "man",         "maple_tree",  "motorcycle",
    "mountain",   "mouse",         "mushroom",     "oak_tree",   "orange",      "orchid",      "otter",
    "palm_tree",  "pear",          "pickup_truck", "pine_tree",  "plain",       "plate",       "poppy",
    "porcupine",  "possum",        "rabbit",       "raccoon",    "ray",         "road",        "rocket",
    "rose",       "sea",           "seal",         "shark",      "shrew",       "skunk",       "skyscraper",
    "snail",      "snake",         "spider",       "squirrel",   "streetcar",   "sunflower",   "sweet_pepper",
    "table",      "tank",          "telephone",    "television", "tiger",       "tractor",     "train",
    "trout",      "tulip",         "turtle",       "wardrobe",   "whale",       "willow_tree", "wolf",
    "woman",      "worm",          NULL,
};

const ls_format ls_format_cifar10 = {
    .name = "cifar10",
    .help = "photographs of 10 classes, 32x32 colour, 50,000 + 10,000: the folder of the Python or the binary version",
    .argument = "DIR",
    .classes = classes10,
    .open = open_cifar10,
};

const ls_format ls_format_cifar100 = {
    .name = "cifar100",
    .help = "photographs of 100 classes, 32x32 colour, 50,000 + 10,000: the folder of the Python or the binary version",
    .argument = "DIR",
    .classes = classes100,
    .open = open_cifar100,
};
