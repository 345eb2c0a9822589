// A number that tells datasets apart: a hash of all values that lie in memory, of some samples of sources that do not, and of
// shapes and types. The same on every machine, for any number of workers that share the hashing.
#ifndef LS_DATA_FINGERPRINT_H
#define LS_DATA_FINGERPRINT_H

#include "data/dataset.h"

// How many parts there are to be hashed.
int64_t ls__fingerprint_parts(const ls_dataset *dataset);
// Hashes every `size`-th of them, from the `rank`-th on, into its place in `hashes` (parts). Errors: those of reading a sample,
// BAD_DATA, OUT_OF_MEMORY.
ls_status ls__fingerprint_hash(const ls_dataset *dataset, int rank, int size, uint64_t *hashes);
// The number, once all parts are hashed.
uint64_t ls__fingerprint_combine(const ls_dataset *dataset, const uint64_t *hashes, int64_t parts);

// A hash of bytes, the same on every machine, and of a hash and a number more.
uint64_t ls__hash(const void *bytes, int64_t size);
uint64_t ls__hash_mix(uint64_t hash, uint64_t number);

#endif
