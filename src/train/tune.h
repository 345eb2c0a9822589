// What a measurement at start-up chooses of the exchange between hosts: the size of buckets, and the algorithm. The bits do not depend on either.
//
// An exchange of s bytes takes about
//
//     c + s / b       c: for a bucket, however small; b: bytes a second
//
// which two sizes tell. Of a vector of P bytes in buckets of s, what is not hidden behind backward is the last bucket, s / b, and what the buckets
// themselves cost, c P / s. Their sum is smallest with buckets of sqrt(P c b) bytes. Each algorithm has a c and a b of its own, and the one with the
// smaller total P / b + 2 sqrt(P c / b) is taken.
//
// What was measured is kept in a file of the user's cache, for the next job of the same machines, communication, workers, hosts and compression.
#ifndef LS_TRAIN_TUNE_H
#define LS_TRAIN_TUNE_H

#include <lockstep/context.h>

#include "step/strategies.h"
#include "train/topology.h"

typedef enum ls_tune { LS_TUNE_OFF, LS_TUNE_AUTO, LS_TUNE_AGAIN } ls_tune;

// Of an algorithm. Zeros: not measured.
typedef struct ls_tune_speed {
    double bucket_seconds;     // c
    double bytes_per_second;   // b, in bytes of parameters
    double processor_seconds;  // for each of these bytes, of a core: messages, sums, update; 0: not measured
} ls_tune_speed;

typedef struct ls_tune_measured {
    ls_tune_speed direct, halving;
} ls_tune_measured;

typedef struct ls_tune_wanted {
    int direct, halving;
} ls_tune_wanted;

typedef struct ls_tune_choice {
    double megabytes;  // of a bucket
    ls_algorithm algorithm;
    ls_tune_speed speed;  // of that algorithm
} ls_tune_choice;

// By its name: "off", "auto", "again". Errors: INVALID_ARGUMENT.
ls_status ls_tune_find(const char *name, ls_tune *out);
// What is best for a vector of so many bytes. Halving is chosen where it is measured, and better by a tenth at least.
ls_tune_choice ls_tune_choose(const ls_tune_measured *measured, double bytes);
// Which algorithms there are to choose from: the given one; with AUTO direct messages, and halving where there are three hosts or more and sums can
// be halved on their way (`topk`: they cannot). From 16 hosts on halving alone, if it can be, so that no worker connects to all others.
ls_tune_wanted ls_tune_wants(ls_algorithm algorithm, int hosts, int topk);
// Measures them, in about 0.3 s where an exchange of two megabytes does not take longer. Worker 0's numbers, on all workers. Collective.
// Errors: LIBRARY, OUT_OF_MEMORY.
ls_status ls_tune_measure(ls_context *context, const char *compress, ls_algorithm algorithm, int own_cores,
                          ls_tune_measured *out);

// What an exchange of so many floats behind backward takes of this worker's processor, in seconds; 0: there can be no thread for it. exchange_bench.c. Collective.
// Errors: LIBRARY, OUT_OF_MEMORY.
ls_status ls__exchange_bench_processor(ls_context *context, int64_t floats, const char *compress, const char *algorithm,
                                       double *out);

// --- the cache -------------------------------------------------------------------------------------------------------

#define LS_TUNE_KEY 512

// What decides whether an earlier measurement holds. Not collective.
void ls_tune_key(const ls_context *context, const ls_topology *topology, const char *compress, char key[LS_TUNE_KEY]);
// $XDG_CACHE_HOME/lockstep or ~/.cache/lockstep; the caller frees it. NULL: there is none.
char *ls_tune_folder(void);
// Makes it, with all above it, for nobody else. Where it cannot, files in it cannot be written.
void ls_tune_make_folder(const char *folder);
// 1: the folder has a measurement of this key. What cannot be read, is damaged or somebody else's is none. Not collective.
int ls_tune_load(const char *folder, const char *key, ls_tune_measured *out);
// Whoever reads meanwhile finds the old one or the new one. What cannot be written is not. Not collective.
void ls_tune_store(const char *folder, const char *key, const ls_tune_measured *measured);

#endif
