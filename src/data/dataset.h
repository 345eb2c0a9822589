// A dataset in memory: all images as bytes, all labels, for training and for testing. Knows rank and size of the host's
// workers as integers only; where the bytes live and how files are read together is behind ls_data_host.
#ifndef LS_DATA_DATASET_H
#define LS_DATA_DATASET_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

// The workers of one host reading a dataset together. All functions are collective over them, in the same order.
typedef struct ls_data_host {
    int rank, size;
    void *self;
    // `bytes` of zeroed memory that all of them see. Freed with the host (by its owner, after the dataset).
    ls_status (*alloc)(void *self, int64_t bytes, void **out);
    // Reads `bytes` at `offset` of a file into `out`; each worker passes its own part (0 bytes is fine).
    ls_status (*read)(void *self, const char *path, int64_t offset, int64_t bytes, void *out);
    // Waits for all; what any wrote to shared memory before, all see after.
    ls_status (*barrier)(void *self);
    // LS_OK when all pass LS_OK; else, for all, the status and sentence of the first that failed.
    ls_status (*agree)(void *self, ls_status mine);
    // Optional: gives memory from alloc back early (files as they were compressed). NULL: it stays until the host goes.
    void (*free)(void *self, void *memory);
} ls_data_host;

// A host of one worker with private memory, for tests and tools. `destroy` frees what was allocated through it.
ls_status ls_data_host_create_self(ls_data_host **out);
void ls_data_host_destroy_self(ls_data_host **host);

typedef struct ls_split {
    int64_t count;
    const uint8_t *images;  // (count, H, W, C)
    const uint8_t *labels;  // (count), each < classes
} ls_split;

struct ls_dataset {
    char name[64];   // the spec's first word: "mnist"
    ls_shape image;  // (H, W, C)
    int classes;
    ls_split train, test;
    uint64_t fingerprint;  // of all bytes: equal data, equal number; the same on every machine
    double read_seconds;   // the slowest worker's time to have it all in memory
};
typedef struct ls_dataset ls_dataset;

// A dataset format: one file under formats/, ending in one of these.
typedef struct ls_format {
    const char *name;      // "mnist": the word before the colon
    const char *help;      // one line, for `lockstep datasets`
    const char *argument;  // "DIR", or NULL when the dataset takes none
    // Fills everything but name, fingerprint and read_seconds. Collective over the host's workers.
    ls_status (*open)(ls_data_host *host, const char *argument, ls_dataset *out);
} ls_format;

// NULL-terminated list of all formats.
const ls_format *const *ls_formats(void);

// Opens "name" or "name:argument". Collective over the host's workers; on failure each of them gets the same status and
// sentence, and nothing is left behind but what host->alloc gave.
// Errors: NOT_FOUND (format, file or folder), IO, BAD_DATA, INVALID_ARGUMENT.
ls_status ls_data_open(ls_data_host *host, const char *spec, ls_dataset **out);
// What its images and labels take, in bytes, in memory of their own.
int64_t ls_data_bytes(const ls_dataset *dataset);
void ls_data_close(ls_dataset **dataset);  // frees the struct; the arrays belong to the host

#endif
