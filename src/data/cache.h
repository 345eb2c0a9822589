// A bounded cache of records' bytes, as they are in their files, in memory that the workers of a host share.
//
// An epoch asks for each sample once, in another order each time, so that no rule of what to throw out finds more in the cache than to keep the same samples
// for ever: the first ones that fit. So there is nothing to decide, nothing moves, and nobody waits: a sample has a place and a state, and is put
// there by whoever reads it first. What somebody is just putting there is read from its file.
#ifndef LS_DATA_CACHE_H
#define LS_DATA_CACHE_H

#include <stdatomic.h>

#include "data/records.h"

typedef struct ls_cache {
    _Atomic int64_t count;         // the first so many samples have a place; 0: there is no cache
    _Atomic unsigned char *state;  // (count)
    int64_t *at;                   // (count): where in `bytes`
    unsigned char *bytes;
} ls_cache;

// What the first *kept of `count` records take, at most `limit` bytes.
int64_t ls_cache_size(const ls_record *record, int64_t count, int64_t limit, int64_t *kept);
// Lays the cache of the first `kept`, empty so far, out in so much zeroed memory, aligned to 8. One of those who share it also fills in the places, and the
// others go on after that. It may be in use by other threads, as the empty one that it was.
void ls_cache_place(const ls_record *record, int64_t kept, void *memory, int fill, ls_cache *out);
int ls_cache_has(const ls_cache *cache, int64_t i);  // the bytes of record i
// Copies the bytes of record i to `out`. 0: they are not there.
int ls_cache_get(const ls_cache *cache, int64_t i, int64_t bytes, void *out);
// Keeps them, where nobody else has begun to.
void ls_cache_put(const ls_cache *cache, int64_t i, int64_t bytes, const void *from);

#endif
