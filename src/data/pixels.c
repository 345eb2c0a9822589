#include "data/pixels.h"

#include <string.h>

#include "base/memory.h"

// What a place is before it is one; places begin behind them.
enum { FREE, TAKEN };  // TAKEN: somebody is at it, or it is not to be kept

// In front of the bytes of each.
typedef struct head {
    int64_t height, width;
} head;

#define BEGIN ((int64_t)LS_ALIGN)  // of the table; of the first place, which is none of the states

static int64_t table_bytes(int64_t count) { return BEGIN + 8 * LS_PIXELS_LEVELS * count; }
static int64_t entry_bytes(int64_t bytes) { return (int64_t)sizeof(head) + ls_round_up(bytes, 16); }

int64_t ls_pixels_least(int64_t count) { return table_bytes(count) + BEGIN + LS_ALIGN; }

int64_t ls_pixels_size(int64_t count, int64_t each, int64_t limit) {
    int64_t table = table_bytes(count) + BEGIN, all = limit;
    if (limit < ls_pixels_least(count)) return 0;
    if (each > 0 && entry_bytes(each) < (limit - table) / (count > 0 ? count : 1))
        all = table + count * entry_bytes(each);
    return all / 8 * 8;
}

void ls_pixels_place(void *memory, int64_t size, int64_t all, int64_t first, int64_t count, ls_pixels *out) {
    out->used = memory;
    out->place = (_Atomic int64_t *)(void *)((char *)memory + BEGIN) + LS_PIXELS_LEVELS * first;
    out->bytes = (unsigned char *)memory + table_bytes(all);
    out->room = size - table_bytes(all);
    atomic_store(&out->count, count);
}

static _Atomic int64_t *place_of(const ls_pixels *p, int64_t i, int level) {
    return i < p->count ? &p->place[LS_PIXELS_LEVELS * i + level] : NULL;
}

static int entry_at(const ls_pixels *p, int64_t at, ls_pixels_entry *out) {
    if (at < BEGIN) return 0;
    head h;
    memcpy(&h, p->bytes + at, sizeof h);
    *out = (ls_pixels_entry){h.height, h.width, p->bytes + at + sizeof h};
    return 1;
}

int ls_pixels_get(const ls_pixels *p, int64_t i, int level, ls_pixels_entry *out) {
    if (i >= p->count) return 0;
    for (int l = level < 0 ? 0 : level; l < (level < 0 ? LS_PIXELS_LEVELS : level + 1); l++)
        if (entry_at(p, atomic_load_explicit(place_of(p, i, l), memory_order_acquire), out)) return 1;
    return 0;
}

int ls_pixels_wanted(const ls_pixels *p, int64_t i, int level) {
    return i < p->count && atomic_load_explicit(place_of(p, i, level), memory_order_relaxed) == FREE;
}

void ls_pixels_refuse(const ls_pixels *p, int64_t i, int level) {
    int64_t expected = FREE;
    if (i < p->count) atomic_compare_exchange_strong(place_of(p, i, level), &expected, TAKEN);
}

// Of what is left, or -1.
static int64_t take(const ls_pixels *p, int64_t bytes) {
    int64_t used = atomic_load(p->used);
    do {
        if (bytes > p->room - BEGIN - used) return -1;
    } while (!atomic_compare_exchange_weak(p->used, &used, used + bytes));
    return BEGIN + used;
}

int ls_pixels_begin(const ls_pixels *p, int64_t i, int level, int64_t bytes, ls_pixels_entry *out) {
    int64_t expected = FREE;
    if (i >= p->count || !atomic_compare_exchange_strong(place_of(p, i, level), &expected, TAKEN)) return 0;
    int64_t at = take(p, entry_bytes(bytes));
    if (at < 0) return 0;
    *out = (ls_pixels_entry){.bytes = p->bytes + at + sizeof(head)};
    return 1;
}

void ls_pixels_end(const ls_pixels *p, int64_t i, int level, const ls_pixels_entry *entry) {
    head h = {entry->height, entry->width};
    int64_t at = entry->bytes - p->bytes - (int64_t)sizeof h;
    memcpy(p->bytes + at, &h, sizeof h);
    atomic_store_explicit(place_of(p, i, level), at, memory_order_release);
}
