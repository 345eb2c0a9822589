// lockstep data: what a dataset has. cmd_data.c prints it, data_look.c looks at the samples, data_storage.c at what they lie on, data_sheet.c draws some.
#ifndef LS_CLI_DATA_H
#define LS_CLI_DATA_H

#include "cli/cli.h"

enum { DATA_TRAIN, DATA_TEST, DATA_SETS, DATA_TOLD = 20 };

// Smallest and largest; their median is of at most so many values, evenly spread.
typedef struct data_range {
    int64_t least, most, median;
} data_range;

// What was found of one set.
typedef struct data_set {
    int64_t count, looked, broken;  // samples: of the set, looked at, that cannot be read
    int64_t bytes;                  // of those that can
    data_range size, height, width;
    int64_t grey;          // images of one channel
    int64_t *class_count;  // (classes)
} data_set;

// A sample that cannot be read.
typedef struct data_broken {
    int set;
    int64_t sample;
    char sentence[1024];
} data_broken;

typedef struct data_found {
    int classes;  // 0: there are no class numbers
    data_set set[DATA_SETS];
    data_broken *broken;  // the first ones, (broken_told), by set and sample
    int broken_told;
    double seconds;  // that looking took
    double busy;     // that the processor worked for it, of all threads together: what reading waits for is not in it
    int threads;
} data_found;

// Looks at `samples` of each set, evenly spread, or at all (0), with so many threads, decoding where `decode` is 1. The caller frees it by
// data_found_free. Errors: OUT_OF_MEMORY, LIBRARY (no threads). What cannot be read is in the result.
ls_status data_look(const ls_dataset *dataset, int64_t samples, int threads, int decode, data_found *out);
void data_found_free(data_found *found);
// The n-th of `looked` of `count` samples.
int64_t data_sample(int64_t n, int64_t looked, int64_t count);

// What the files' storage gives, each second.
typedef struct data_rates {
    int64_t files;  // that were looked at; 0: the samples lie in memory, or are made, and nothing was measured
    int threads;
    double in_order;   // bytes
    double at_random;  // bytes of samples anywhere, by all threads
    double samples;    // the same in samples
    double
        opened;  // files, by one thread; their names and inodes were looked up before, so that the system may know them
    int remote;  // 1: the first of them lies on a file system of servers (Lustre, GPFS, NFS, ...), which asks these to open one all the same
} data_rates;

// Measures for some three seconds, and looks for files and opens them for as long again at the most. `sample_bytes` is a sample's mean. Errors: OUT_OF_MEMORY.
ls_status data_storage(const ls_dataset *dataset, double sample_bytes, int threads, data_rates *out);

// Draws samples of the training set, a row for each class, or in rows as they come where there are none. Samples that cannot be read are left
// out. Errors: INVALID_ARGUMENT (there are no images), IO, OUT_OF_MEMORY.
ls_status data_sheet(const ls_dataset *dataset, const char *path);

#endif
