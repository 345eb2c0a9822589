// A dataset: a source of samples to train on, mostly one to test with, and what both are. Knows rank and size of the host's
// workers as integers only; where bytes live and how files are read together is behind ls_data_host.
#ifndef LS_DATA_DATASET_H
#define LS_DATA_DATASET_H

#include "data/source.h"

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

// The first `count` samples of a source.
typedef struct ls_split {
    const ls_source *source;
    int64_t count;
} ls_split;

struct ls_dataset {
    char name[64];               // the spec's first word, "mnist", or what its owner calls it
    ls_source *train, *test;     // of the same fields; test NULL: there is none; it may be train itself
    const char *const *classes;  // the format's, or its own; NULL: they have no names
    const char *
        *own_classes;  // names that came with the data, NULL at the end; the list is freed with the dataset; or NULL
    const char **
        columns;  // of samples that are a table's numbers: names of its columns, NULL at the end, freed with the dataset; or NULL
    const char *const *
        wanted;  // while it is opened: names that such columns are to be taken by, in this order, NULL at the end; or NULL
    int shared;            // what lies in memory does so once per host; 0: in each worker
    uint64_t version;      // part of the fingerprint, beside the values
    uint64_t fingerprint;  // equal data, equal number; the same on every machine
    double read_seconds;   // the slowest worker's time to have it all in memory
    int64_t cache_bytes;   // of memory that keeps what was read of files; 0: none
    char note[1024];       // what a person should know beside, of the worker that found it; "": nothing
    // Called with `owner` when the dataset is destroyed, after all else; NULL: nothing is.
    void (*release)(void *owner);
    void *owner;
};

// A dataset format: one file under formats/, ending in one of these.
typedef struct ls_format {
    const char *name;            // "mnist": the word before the colon
    const char *help;            // one line, for `lockstep datasets`
    const char *argument;        // "DIR", or NULL when the dataset takes none
    const char *const *classes;  // their names, NULL at the end; NULL: they have none
    int names;  // 1: its argument may have exclude=FILE, of which it leaves names out; numbers are left out of any dataset's samples
    // Makes the sources `train` and `test` of `out`, whose name is there; what it leaves behind when it fails is destroyed by
    // ls_data_open. Collective over the host's workers.
    ls_status (*open)(ls_data_host *host, const char *argument, ls_dataset *out);
} ls_format;

// NULL-terminated list of all formats.
const ls_format *const *ls_formats(void);
// "0" to "9".
extern const char *const ls__digit_classes[];

// For formats: sources of any fields, which lie in the host's memory. Collective over the host's workers. Errors: those of
// ls_source_create_memory.
ls_status ls_data_set_fields(ls_data_host *host, ls_dataset *out, const ls_field *fields, int field_count,
                             const ls_arrays *train, const ls_arrays *test);
// For formats: sources of images (H, W, C) and labels below `classes`, at most 256, both as bytes in the host's memory.
// Collective over the host's workers. Errors: OUT_OF_MEMORY.
ls_status ls_data_set_images(ls_data_host *host, ls_dataset *out, ls_shape image, int classes, const ls_arrays *train,
                             const ls_arrays *test);

// Opens "name" or "name:argument". Collective over the host's workers; on failure each of them gets the same status and
// sentence, and nothing is left behind but what host->alloc gave.
// Errors: NOT_FOUND (format, file or folder), IO, BAD_DATA, INVALID_ARGUMENT.
ls_status ls_data_open(ls_data_host *host, const char *spec, ls_dataset **out);
// The same of a table of numbers by the names of its columns, in this order, NULL at the end; of other datasets, and with NULL, it is ls_data_open.
ls_status ls_data_open_columns(ls_data_host *host, const char *spec, const char *const *columns, ls_dataset **out);

// ls_dataset_create_arrays and ls_dataset_create_callback for one worker alone: it sees to it that others have the same. Arrays are
// borrowed, whatever `copy` says. Not collective.
ls_status ls_data_create_arrays(const ls_arrays_config *config, ls_dataset **out);
ls_status ls_data_create_callback(const ls_callback_config *config, ls_dataset **out);
// A dataset that is only thought of, to plan with: it has counts and fields, and no values. Not collective.
ls_status ls_data_create_planned(const char *name, const ls_field *fields, int field_count, int64_t train_count,
                                 int64_t test_count, ls_dataset **out);
// Adds to the note where classes have no sample to train on, as far as that is known without reading samples. Not collective.
void ls__dataset_note_classes(ls_dataset *dataset);
// And where a column's name is none that a checkpoint keeps.
void ls__dataset_note_columns(ls_dataset *dataset);
// Copies a dataset of arrays into memory of the host's; every worker has an equal one, and copies its share of it.
// Collective over the host's workers. Errors: OUT_OF_MEMORY.
ls_status ls_data_copy(ls_data_host *host, ls_dataset *dataset);

// What a cache of its files' samples takes, at most `limit` bytes: of the training set, and with what is left of the test set. 0: there is none to be had.
// `decoded` 1: of images as they are decoded, where it has some, of both sets as they come.
int64_t ls_data_cache_size(const ls_dataset *dataset, int64_t limit, int decoded);
// The least limit with which a cache of decoded images is not 0; 0: it has none to be kept.
int64_t ls_data_cache_least(const ls_dataset *dataset);
// The cache itself, in so much zeroed memory of the host's (see ls_source_ops.cache_attach).
void ls_data_cache_attach(ls_dataset *dataset, int64_t limit, int decoded, void *memory, int fill);

// All there is to say of a dataset in one line, "key=value; ...", equal for equal ones.
void ls_data_describe(const ls_dataset *dataset, char *text, size_t size);
// What its values take, in bytes, in memory of their own.
int64_t ls_data_bytes(const ls_dataset *dataset);
void ls_data_close(ls_dataset **dataset);  // arrays belong to the host, or to the caller

#endif
