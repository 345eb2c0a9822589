// Samples that a run leaves out, by a list in a file: a name on each line (the path of a file, the key of a database), or a number, "train:17", "test:3",
// "train:20-29". Empty lines and those that begin with # are none. Names are left out while a format lists its samples; numbers when that is done, so that
// they work for every source.
#ifndef LS_DATA_EXCLUDE_H
#define LS_DATA_EXCLUDE_H

#include "data/dataset.h"

typedef struct ls_exclusions ls_exclusions;

// Reads a list. Errors: NOT_FOUND, IO, OUT_OF_MEMORY, BAD_DATA (a number that no sample can have).
ls_status ls_exclusions_read(const char *path, ls_exclusions **out);
void ls_exclusions_destroy(ls_exclusions **exclusions);  // NULL is fine

// Whether a name is in the list, which remembers that it was asked for.
int ls_exclusions_name(ls_exclusions *exclusions, const char *name);
// Errors: BAD_DATA, a name that was never asked for: "line 3 of LIST: there is no WHAT cat/7.png in the dataset to leave out; HOW".
ls_status ls_exclusions_check(const ls_exclusions *exclusions, const char *what, const char *how);

// Leaves the samples out whose numbers are in the list at `path`. Numbers are those that samples have when names alone are left out, and sentences go on
// with them. `names` 1: the format has seen to the names. Collective over the host's workers. Errors: those of reading it; BAD_DATA (a number that the set does not
// have, names in a format without any, nothing is left of a set), OUT_OF_MEMORY.
ls_status ls_exclude_numbers(ls_data_host *host, const char *path, int names, ls_dataset *dataset);

// ---- a source without some of its samples --------------------------------------------------------------------------

// Takes `inner` over, also when it fails. `gone` (gone_count, at least 1, fewer than it has samples) are their numbers, ascending, each once; borrowed.
// Errors: BAD_DATA (values of `inner` in memory that are out of range), OUT_OF_MEMORY.
ls_status ls_source_create_without(ls_source *inner, const uint32_t *gone, int64_t gone_count, ls_source **out);

#endif
