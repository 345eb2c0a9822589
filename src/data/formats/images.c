// "images:DIR": folders of images, one for each class: DIR/train/CLASS/*.jpg and DIR/val/CLASS/*.jpg, or DIR/CLASS/*.jpg. Classes are numbered by
// the order of their names, as Keras's image_dataset_from_directory and torchvision's ImageFolder do. What is read when it is opened is the
// names, sizes and times of the files.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image.h"
#include "data/records.h"

#define MOST_DEPTH 16  // of folders in a class's folder

static const ls_option table[] = {
    LS_RECORDS_SPLIT(" of each class"),
    LS_RECORDS_CHANNELS,
    LS_RECORDS_EXCLUDE,
    {.name = NULL},
};

typedef struct listing {
    ls_records_builder *builder;
    int set;
    int32_t class;
    double split;
    int64_t seen;  // images of the class
    const char *root;
} listing;

// --- what files are --------------------------------------------------------------------------------------------------

static int ends_in(const char *name, const char *const *endings) {
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && dot > name && endings[i]; i++)
        if (strcasecmp(dot, endings[i]) == 0) return 1;
    return 0;
}

static int is_read(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png", NULL};
    return ends_in(name, endings);
}

// Images that other programs would take for samples: to leave them out without a word would be another dataset.
static int is_other_image(const char *name) {
    static const char *const endings[] = {".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", NULL};
    return ends_in(name, endings);
}

static int is_folder(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

static int is_visible(const struct dirent *e) { return e->d_name[0] != '.'; }
// By bytes: the same order whatever the locale.
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static ls_status list_folder(const char *folder, struct dirent ***entries, int *count) {
    *count = scandir(folder, entries, is_visible, by_name);
    if (*count >= 0) return LS_OK;
    return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read the folder %s: %s", folder,
                   strerror(errno));
}

static void free_entries(struct dirent **entries, int count) {
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
}

static ls_status join(const char *folder, const char *name, char *path, size_t size) {
    int length = snprintf(path, size, "%s/%s", folder, name);
    if (length >= 0 && (size_t)length < size) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of a file in %s has %d bytes; there may be %zu", folder,
                   length, size - 1);
}

// --- listing ---------------------------------------------------------------------------------------------------------

static ls_status add_image(listing *l, const char *path, const struct stat *there) {
    if (ls_records_excluded(l->builder, l->root, path)) return LS_OK;
    ls_record record = {.bytes = there->st_size, .class = l->class, .size = (uint32_t)there->st_size};
    if (there->st_size > LS_IMAGE_MAX_FILE)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s has %lld bytes, more than the %lld MB that an image may have: make it smaller", path,
                       (long long)there->st_size, (long long)(LS_IMAGE_MAX_FILE >> 20));
    int set = l->split > 0 && ls_records_held_out(l->split, l->seen) ? LS_RECORDS_TEST : l->set;
    l->seen++;
    LS_TRY(ls_records_add_file(l->builder, path, there->st_size, ls_records_time(there), &record.file));
    return ls_records_add(l->builder, set, record);
}

static ls_status walk(listing *l, const char *folder, int depth);

static ls_status look_at(listing *l, const char *folder, const char *name, int depth) {
    char path[4096];
    struct stat there;
    LS_TRY(join(folder, name, path, sizeof path));
    if (stat(path, &there) != 0) {
        if (!is_read(name)) return LS_OK;
        return LS_FAIL(LS_STATUS_IO, "cannot look at %s: %s; remove it, or what is wrong with it", path,
                       strerror(errno));
    }
    if (S_ISDIR(there.st_mode)) return walk(l, path, depth + 1);
    if (!S_ISREG(there.st_mode)) return LS_OK;
    if (is_read(name)) return add_image(l, path, &there);
    if (!is_other_image(name)) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "%s is an image in a format that is not read: convert it to PNG or JPEG, or "
                   "take it out of the dataset",
                   path);
}

// All images of a class, in folders of its folder, too.
static ls_status walk(listing *l, const char *folder, int depth) {
    struct dirent **entries;
    int count;
    ls_status status = LS_OK;
    if (depth > MOST_DEPTH)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s lies %d folders deep in its class: does a link lead back?", folder,
                       depth);
    LS_TRY(ls_records_witness(l->builder, LS_WITNESS_FOLDER, folder));
    LS_TRY(list_folder(folder, &entries, &count));
    for (int i = 0; i < count && status == LS_OK; i++) status = look_at(l, folder, entries[i]->d_name, depth);
    free_entries(entries, count);
    return status;
}

static ls_status add_class(listing *l, const char *folder, const char *name) {
    char path[4096];
    LS_TRY(join(folder, name, path, sizeof path));
    if (!is_folder(path)) {
        if (!is_read(name)) return LS_OK;
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is an image beside the folders of the classes: put each class's images into a folder of "
                       "their own, %s/CLASS/*.jpg",
                       path, folder);
    }
    int64_t class = ls_records_find_class(l->builder, name);
    if (l->set == LS_RECORDS_TEST && class < 0)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is a class that the training set does not have: rename the folder, or take it out", path);
    if (l->set == LS_RECORDS_TRAIN) {
        class = l->builder->class_count;
        LS_TRY(ls_records_add_class(l->builder, name));
    }
    l->class = (int32_t) class;
    l->seen = 0;
    LS_TRY(walk(l, path, 0));
    if (l->seen > 0 || l->set == LS_RECORDS_TEST) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s has no images (.jpg, .jpeg, .png), and is a class by its place: fill it, or remove it", path);
}

static ls_status list_set(ls_records_builder *b, int set, const char *root, const char *folder, double split) {
    listing l = {.builder = b, .set = set, .split = split, .root = root};
    struct dirent **entries;
    int count;
    ls_status status = LS_OK;
    LS_TRY(ls_records_witness(b, LS_WITNESS_FOLDER, folder));
    LS_TRY(list_folder(folder, &entries, &count));
    for (int i = 0; i < count && status == LS_OK; i++) status = add_class(&l, folder, entries[i]->d_name);
    free_entries(entries, count);
    LS_TRY(status);
    if (set == LS_RECORDS_TRAIN && b->class_count == 0)
        return LS_FAIL(
            LS_STATUS_NOT_FOUND,
            "%s has no folders of classes: images are expected in %s/CLASS/*.jpg, or in %s/train/CLASS/*.jpg", folder,
            folder, folder);
    if (set == LS_RECORDS_TEST && b->count[set] == 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no images: fill it, or remove it to train without a test set",
                       folder);
    return LS_OK;
}

// The folder of the test set, by one of its usual names. Errors: BAD_DATA (there are two).
static ls_status find_test(const char *root, char *path, size_t size, int *found) {
    static const char *const names[] = {"val", "validation", "valid", "test", NULL};
    char other[4096];
    *found = 0;
    for (int i = 0; names[i]; i++) {
        LS_TRY(join(root, names[i], other, sizeof other));
        if (!is_folder(other)) continue;
        if (!*found) snprintf(path, size, "%s", other);
        // A set to choose by and one to report on: the first is what --validate and evaluate take.
        if (*found && strcmp(names[i], "test") != 0)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s and %s are both there, and either could be the test set: rename one",
                           path, other);
        *found = 1;
    }
    return LS_OK;
}

static ls_status list_all(const void *self, const char *root, const ls_records_settings *s, ls_records_builder *b) {
    char train[4096], test[4096];
    int has_test = 0;
    if (!is_folder(root))
        return LS_FAIL(LS_STATUS_NOT_FOUND, "%s is not a folder: name the one that has train/ and val/, or the classes",
                       root);
    LS_TRY(ls_records_witness(b, LS_WITNESS_FOLDER, root));
    LS_TRY(join(root, "train", train, sizeof train));
    int apart = is_folder(train);
    if (apart) LS_TRY(find_test(root, test, sizeof test, &has_test));
    if (has_test && s->split > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the test set of images:%s is %s, and validation-split would make another one: leave it out",
                       root, test);
    LS_TRY(list_set(b, LS_RECORDS_TRAIN, root, apart ? train : root, s->split));
    if (has_test) LS_TRY(list_set(b, LS_RECORDS_TEST, root, test, 0));
    if (b->count[LS_RECORDS_TRAIN] == 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "validation-split=%g leaves nothing to train on: make it smaller", s->split);
    ls_records_measure(b, s->channels);
    for (int set = 0; set < LS_RECORDS_SETS; set++) LS_TRY(ls_records_spread(b, set));
    return LS_OK;
}

static ls_status images_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_records_format format = {.name = "images",
                                             .table = table,
                                             .rooted = 1,
                                             .list = list_all,
                                             .what = "file",
                                             .how = "paths begin where the dataset's do, or at /"};
    return ls_records_open(&format, host, argument, out);
}

const ls_format ls_format_images = {
    .name = "images",
    .help =
        "photographs and other images, PNG or JPEG, of any size and number, a folder for each class: "
        "DIR/train/CLASS/*.jpg "
        "and DIR/val/CLASS/*.jpg, or DIR/CLASS/*.jpg with DIR,validation-split=0.2; read while training",
    .argument = "DIR",
    .names = 1,
    .open = images_open,
};
