// MNIST and Fashion-MNIST: four IDX files in a folder, grey images of one size and labels 0 to 9.
//
// The workers of a host read together. Worker 0 looks at names, sizes and headers, a few small reads, and tells the
// others through shared memory. Then each reads its slice of every file. What is gzipped is unpacked by one worker a
// file. Every worker comes by the same collective calls on every path, so that a failure of one never leaves
// another waiting.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/formats/idx.h"

#define CLASSES 10
#define FILES   4

// In this order, dealing file i to worker i % size gives two workers an even share of the unpacking.
enum { TRAIN_IMAGES, TEST_IMAGES, TRAIN_LABELS, TEST_LABELS };
static const struct {
    const char *stem;
    ls__idx_kind kind;
} parts[FILES] = {
    [TRAIN_IMAGES] = {"train-images", LS__IDX_IMAGES},
    [TEST_IMAGES] = {"t10k-images", LS__IDX_IMAGES},
    [TRAIN_LABELS] = {"train-labels", LS__IDX_LABELS},
    [TEST_LABELS] = {"t10k-labels", LS__IDX_LABELS},
};

// ---- worker 0: what is there ---------------------------------------------------------------------------------------

static ls_status check_folder(const char *dir) {
    struct stat info;
    if (stat(dir, &info) != 0)
        return LS_FAIL(errno == ENOENT || errno == ENOTDIR ? LS_STATUS_NOT_FOUND : LS_STATUS_IO,
                       "cannot open the data folder %s: %s; give the folder that holds the four IDX files%s", dir,
                       strerror(errno), dir[0] == '~' ? " (~ is not expanded here: write $HOME)" : "");
    if (!S_ISDIR(info.st_mode))
        return LS_FAIL(LS_STATUS_NOT_FOUND, "%s is not a folder; give the folder that holds the four IDX files", dir);
    return LS_OK;
}

// Sets the path and size of one part: as published, or as some archives have it with a dot; plain first.
static ls_status find(const char *dir, int part, ls__idx_file *file) {
    int dimensions = parts[part].kind == LS__IDX_IMAGES ? 3 : 1;
    for (int variant = 0; variant < 4; variant++) {
        int n = snprintf(file->path, sizeof file->path, "%s/%s%cidx%d-ubyte%s", dir, parts[part].stem,
                         variant & 2 ? '.' : '-', dimensions, variant & 1 ? ".gz" : "");
        if (n < 0 || (size_t)n >= sizeof file->path)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the path of the data folder has %zu bytes; give one of less than 4000", strlen(dir));
        struct stat info;
        if (stat(file->path, &info) != 0) {
            if (errno == ENOENT) continue;
            return LS_FAIL(LS_STATUS_IO, "cannot look at %s: %s; check the permissions of the folder", file->path,
                           strerror(errno));
        }
        if (!S_ISREG(info.st_mode))
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s is not a regular file; put the IDX file there", file->path);
        file->stored_bytes = info.st_size;
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "the folder %s has no %s-idx%d-ubyte, plain or .gz; put the four IDX files of the dataset there",
                   dir, parts[part].stem, dimensions);
}

static ls_status read_head(const char *path, uint8_t *head, int64_t *bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe that nobody writes to is not waited for
    if (fd < 0) return LS_FAIL(LS_STATUS_IO, "cannot open %s: %s; check its permissions", path, strerror(errno));
    ls_status status = LS_OK;
    *bytes = 0;
    while (*bytes < LS__IDX_HEAD) {
        ssize_t n = read(fd, head + *bytes, (size_t)(LS__IDX_HEAD - *bytes));
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s; check the disk or copy the file again", path,
                             strerror(errno));
            break;
        }
        *bytes += n;
    }
    close(fd);
    return status;
}

static ls_status check_set(const ls__idx_file *files) {
    for (int i = TRAIN_IMAGES; i <= TEST_IMAGES; i++) {
        const ls__idx_file *images = &files[i], *labels = &files[i + 2];
        if (images->count != labels->count)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s has %lld images but %s has %lld labels; put files that belong together in the folder",
                           images->path, (long long)images->count, labels->path, (long long)labels->count);
    }
    const ls__idx_file *train = &files[TRAIN_IMAGES], *test = &files[TEST_IMAGES];
    if (train->height != test->height || train->width != test->width)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s has images of %lldx%lld pixels but %s of %lldx%lld; put files that belong together in the folder",
            train->path, (long long)train->height, (long long)train->width, test->path, (long long)test->height,
            (long long)test->width);
    return LS_OK;
}

static ls_status describe(const char *dir, ls__idx_file *files) {
    uint8_t *head;
    LS_TRY(check_folder(dir));
    LS_TRY(ls_calloc(LS__IDX_HEAD, 1, &head));
    ls_status status = LS_OK;
    for (int i = 0; i < FILES; i++) {
        int64_t bytes = 0;
        files[i].kind = parts[i].kind;
        LS_TRY_GOTO(find(dir, i, &files[i]), done);
        LS_TRY_GOTO(read_head(files[i].path, head, &bytes), done);
        LS_TRY_GOTO(ls__idx_parse(&files[i], head, bytes), done);
    }
    status = check_set(files);
done:
    free(head);
    return status;
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

// Each worker's slice of every file: straight into its place, or what is gzipped into `packed`. Goes on after a
// failure, since the others wait in the next read.
static ls_status read_slices(ls_data_host *host, const ls__idx_file *files, uint8_t *const *payload, uint8_t *packed) {
    ls_status status = LS_OK;
    for (int i = 0; i < FILES; i++) {
        const ls__idx_file *f = &files[i];
        uint8_t *to = f->gzip ? packed : payload[i];
        int64_t bytes = f->gzip ? f->stored_bytes : f->payload_bytes, share = bytes / host->size;
        int64_t first = share * host->rank, end = host->rank == host->size - 1 ? bytes : first + share;
        ls_status one =
            host->read(host->self, f->path, (f->gzip ? 0 : f->header_bytes) + first, end - first, to + first);
        if (one != LS_OK) status = one;
        if (f->gzip) packed += f->stored_bytes;
    }
    return settle(host, status);
}

// Not collective.
static ls_status unpack_mine(const ls_data_host *host, const ls__idx_file *files, uint8_t *const *payload,
                             const uint8_t *packed) {
    for (int i = 0; i < FILES; i++) {
        if (!files[i].gzip) continue;
        if (i % host->size == host->rank) LS_TRY(ls__idx_unpack(&files[i], packed, payload[i]));
        packed += files[i].stored_bytes;
    }
    return LS_OK;
}

// Not collective.
static ls_status check_labels(const ls__idx_file *files, uint8_t *const *payload) {
    for (int i = TRAIN_LABELS; i <= TEST_LABELS; i++) LS_TRY(ls__idx_check_labels(&files[i], payload[i], CLASSES));
    return LS_OK;
}

static ls_status load(ls_data_host *host, const ls__idx_file *files, uint8_t *const *payload) {
    int64_t packed_bytes = 0;
    for (int i = 0; i < FILES; i++) packed_bytes += files[i].gzip ? files[i].stored_bytes : 0;
    void *packed = NULL;
    if (packed_bytes) LS_TRY(alloc(host, packed_bytes, &packed));
    LS_TRY(read_slices(host, files, payload, packed));
    LS_TRY(settle(host, unpack_mine(host, files, payload, packed)));
    if (packed && host->free) host->free(host->self, packed);
    // One byte a sample: not worth sharing out, and so the same label is named whatever the number of workers.
    return host->agree(host->self, host->rank == 0 ? check_labels(files, payload) : LS_OK);
}

static ls_status open_folder(ls_data_host *host, const char *dir, ls_dataset *out) {
    void *block;
    LS_TRY(alloc(host, FILES * (int64_t)sizeof(ls__idx_file), &block));
    ls__idx_file *files = block;
    LS_TRY(settle(host, host->rank == 0 ? describe(dir, files) : LS_OK));

    int64_t offset[FILES], bytes = 0;
    for (int i = 0; i < FILES; i++) {
        offset[i] = bytes;
        bytes += ls_round_up(files[i].payload_bytes, LS_ALIGN);
    }
    uint8_t *payload[FILES];
    LS_TRY(alloc(host, bytes, &block));
    for (int i = 0; i < FILES; i++) payload[i] = (uint8_t *)block + offset[i];
    LS_TRY(load(host, files, payload));

    ls_arrays train_set = {files[TRAIN_IMAGES].count, {payload[TRAIN_IMAGES], payload[TRAIN_LABELS]}};
    ls_arrays test_set = {files[TEST_IMAGES].count, {payload[TEST_IMAGES], payload[TEST_LABELS]}};
    return ls_data_set_images(host, out, LS_SHAPE(files[TRAIN_IMAGES].height, files[TRAIN_IMAGES].width, 1), CLASSES,
                              &train_set, &test_set);
}

const ls_format ls_format_mnist = {
    .name = "mnist",
    .help = "handwritten digits, 28x28 grey, 60,000 + 10,000: a folder with the four IDX files, plain or .gz",
    .argument = "DIR",
    .classes = ls__digit_classes,
    .open = open_folder,
};

static const char *const clothes[] = {"T-shirt/top", "Trouser", "Pullover", "Dress",      "Coat", "Sandal",
                                      "Shirt",       "Sneaker", "Bag",      "Ankle boot", NULL};

const ls_format ls_format_fashion_mnist = {
    .name = "fashion-mnist",
    .help = "pieces of clothing, 28x28 grey, 60,000 + 10,000: a folder with the four IDX files, plain or .gz",
    .argument = "DIR",
    .classes = clothes,
    .open = open_folder,
};
