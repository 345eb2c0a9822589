// From a source to micro-batches: which samples (sampler), and threads that prepare them ahead of training (loader).
#ifndef LS_DATA_LOADER_H
#define LS_DATA_LOADER_H

#include "base/trace.h"
#include "data/dataset.h"
#include "data/feed.h"

// The order of the samples in an epoch: a permutation of 0..count-1 keyed by (seed, epoch), or the identity when
// shuffle is 0. `order` is (count), at most LS_MAX_SAMPLES. The same on every worker.
void ls_sampler_order(uint64_t seed, uint32_t epoch, int shuffle, int64_t count, uint32_t *order);

// One micro-batch, ready to train on.
typedef struct ls_batch {
    int64_t count;  // samples; the last of an epoch may have fewer
    void
        *feed[LS_MAX_FIELDS];  // (count, shape) each, in the order and dtype of the loader's feeds, aligned to LS_ALIGN
    uint64_t *samples;         // (count): index in the source, the key of everything random about the sample
} ls_batch;

typedef struct ls_loader_config {
    ls_split split;
    ls_feed feed[LS_MAX_FIELDS];
    int feed_count;       // at least 1
    int64_t micro_batch;  // largest count of a batch
    int depth;            // batches prepared ahead; at least 1
    int threads;          // that read and prepare; 0: 1. What is in which batch does not depend on it
    int adapt;  // 1: one of them to begin with, and more as long as batches are waited for and more make it faster
    // 1: where a sample is broken (BAD_DATA, UNSUPPORTED), the next one of the split that is not stands in for it, the first behind the last; after a hundred
    // broken ones in a row the batch fails. 0: the batch fails.
    int replace_broken;
    // ls_loader_bytes of memory, aligned; NULL: its own. Loaders that never have an epoch at the same time may share it.
    void *memory;
} ls_loader_config;

// A loader serves one replica: background threads fill a ring of `depth` batches in the order asked for.
typedef struct ls_loader ls_loader;
// Borrows the source; names of fields and a recipe's numbers are copied.
// Errors: INVALID_ARGUMENT (no such field, no image, a recipe that does not go with it), UNSUPPORTED (a type), OUT_OF_MEMORY,
// LIBRARY (no more threads).
ls_status ls_loader_create(const ls_loader_config *config, ls_loader **out);
// What its batches, and what its threads read into, take, in bytes, in memory of its own or from the caller. The config is one that
// ls_loader_create takes.
int64_t ls_loader_bytes(const ls_loader_config *config);
void ls_loader_destroy(ls_loader **loader);  // stops the threads, once each is through with the sample it is at

// A run of consecutive positions in the epoch's order: the samples order[first] .. order[first + count - 1].
typedef struct ls_range {
    int64_t first, count;  // count <= micro_batch
} ls_range;

// From now on its first thread records what it makes of batches in `trace` while that is on, under `name`. NULL: nowhere. Between
// epochs.
void ls_loader_record(ls_loader *loader, ls_trace *trace, int name);

// Begins an epoch: the loader will serve `ranges` one after the other. `epoch` is its number, which augmentation is drawn for.
// Both arrays stay the caller's and must live until the last batch was taken. A previous epoch must have been taken to
// its end.
ls_status ls_loader_start(ls_loader *loader, uint32_t epoch, const uint32_t *order, const ls_range *ranges,
                          int64_t range_count);
// Ends the running epoch, if it was not taken to its end: waits until nothing more is being prepared, and drops what is. No batch
// may be borrowed.
void ls_loader_cancel(ls_loader *loader);
// Borrows the next batch; waits until it is ready. `waited` (may be NULL) gets the seconds spent waiting. Where a sample of the batch
// could not be read, the status and sentence of the first such one in it come out, and *out is NULL: the batch counts as taken
// and given back, and the next call gets the one after it. Errors: INVALID_ARGUMENT (no batch is left, all are borrowed), those
// of the source.
ls_status ls_loader_get(ls_loader *loader, ls_batch **out, double *waited);
// Samples of the batches taken so far that others stood in for, and the sentence of one of them, the loader's; "" for none. By the thread that takes them.
int64_t ls_loader_replaced(const ls_loader *loader, const char **why);
// How many of its threads are at work; where they adapt, so far. By any thread.
int ls_loader_threads(ls_loader *loader);
// Whether they adapt, and it was found how many keep up. By any thread.
int ls_loader_measured(ls_loader *loader);
// Seconds that its threads together have spent on reading samples and on preparing them so far. By any thread.
void ls_loader_spent(ls_loader *loader, double *reading, double *preparing);
// Gives the borrowed batch back; its memory is reused.
void ls_loader_restore(ls_loader *loader, ls_batch **batch);

#endif
