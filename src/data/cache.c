#include "data/cache.h"

#include <string.h>

#include "base/memory.h"

enum { EMPTY, FILLING, READY };

// A place, a state and the bytes.
static int64_t size_of(const ls_record *r) { return 8 + 1 + ls_round_up(r->bytes, 8); }

int64_t ls_cache_size(const ls_record *record, int64_t count, int64_t limit, int64_t *kept) {
    int64_t size = 8;  // what rounding up the states takes
    for (*kept = 0; *kept < count; ++*kept) {
        int64_t more = size_of(&record[*kept]);
        if (more > limit - size) break;
        size += more;
    }
    return *kept ? size : 0;
}

void ls_cache_place(const ls_record *record, int64_t kept, void *memory, int fill, ls_cache *out) {
    char *block = memory;
    int64_t at = 0;
    out->at = memory;
    out->state = (_Atomic unsigned char *)(void *)(block + 8 * kept);
    out->bytes = (unsigned char *)block + 8 * kept + ls_round_up(kept, 8);
    for (int64_t i = 0; i < kept && fill; i++) {
        out->at[i] = at;
        at += ls_round_up(record[i].bytes, 8);
    }
    atomic_store(&out->count, kept);
}

int ls_cache_has(const ls_cache *c, int64_t i) {
    return i < c->count && atomic_load_explicit(&c->state[i], memory_order_acquire) == READY;
}

int ls_cache_get(const ls_cache *c, int64_t i, int64_t bytes, void *out) {
    if (!ls_cache_has(c, i)) return 0;
    memcpy(out, c->bytes + c->at[i], (size_t)bytes);
    return 1;
}

void ls_cache_put(const ls_cache *c, int64_t i, int64_t bytes, const void *from) {
    unsigned char expected = EMPTY;
    if (i >= c->count || !atomic_compare_exchange_strong(&c->state[i], &expected, FILLING)) return;
    memcpy(c->bytes + c->at[i], from, (size_t)bytes);
    atomic_store_explicit(&c->state[i], READY, memory_order_release);
}
