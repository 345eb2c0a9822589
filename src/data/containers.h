// Containers: files with many samples each. A format's file has a function that lists one of them; what they share is here: paths with
// patterns, options behind the path, classes, the test set, and reading a file's headers.
#ifndef LS_DATA_CONTAINERS_H
#define LS_DATA_CONTAINERS_H

#include "data/records.h"

// One file while it is listed.
typedef struct ls_listing {
    const ls_records_settings *settings;  // a format says which features or files are meant by `image` and `label`
    ls_records_builder *builder;
    const char *path;
    int64_t bytes;  // of the file
    uint32_t file;  // its number
    int set, fd;
    int64_t seen, most_class;  // over all files: samples of the set, the highest class
    int64_t listed;            // samples of both sets
    unsigned char window[4096];
    int64_t window_at, window_size;
} ls_listing;

typedef struct ls_container {
    const char *name;  // the format's
    ls_records_kind kind;
    ls_status (*list)(ls_listing *listing);  // all of one file
    const char *inside;                      // the file in a folder, where a path may name one; NULL: none
    const char *how;                         // what a list of exclusions names samples by; NULL: they have no names
} ls_container;

// `size` bytes at `at` of the file. Errors: IO; BAD_DATA (it ends before).
ls_status ls_listing_read(ls_listing *listing, int64_t at, int64_t size, void *out);
// The sentence for damage at a place. Returns BAD_DATA.
ls_status ls_listing_damaged(const ls_listing *listing, int64_t at, const char *why);
// A sample; `record.class` as the file has it. Errors: BAD_DATA (no class number, an image larger than any), OUT_OF_MEMORY.
ls_status ls_listing_add(ls_listing *listing, ls_record record, int64_t class);

// A sample with several labels at once: `row` (width), 1 where a label is there. All samples have as many. Errors: BAD_DATA (they have not; an image
// larger than any), OUT_OF_MEMORY.
ls_status ls_listing_add_labels(ls_listing *listing, ls_record record, const uint8_t *row, int width);

// Opens what a format's argument names. Collective over the host's workers.
ls_status ls_container_open(const ls_container *container, ls_data_host *host, const char *argument, ls_dataset *out);

// Paths that a pattern stands for: of the shell's (*, ?, [abc], {a,b}) and, as WebDataset has it, {000..015}; in order. One without a pattern is
// itself. Frees with ls_paths_free. Errors: NOT_FOUND (nothing matches), INVALID_ARGUMENT (too many), OUT_OF_MEMORY.
typedef struct ls_paths {
    char **path;
    int64_t count, room;
} ls_paths;
ls_status ls_paths_expand(const char *pattern, ls_paths *out);
void ls_paths_free(ls_paths *paths);

#endif
