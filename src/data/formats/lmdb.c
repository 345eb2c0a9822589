// "lmdb:DIR": a database of LMDB with a Datum of Caffe's for each key, as convert_imageset writes it. Samples are in the order of the keys. The library of the
// same name maps a database and follows what stands in it, so that a damaged one ends the program; here pages are read and checked, and where
// each value lies goes into an index. Values are in one piece. Source: LMDB 0.9, libraries/liblmdb/mdb.c (MDB_meta, MDB_page, MDB_node), of little-endian
// processors of 64 bits.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/containers.h"
#include "data/datum.h"

#define MAGIC 0xbeefc0deu

enum { HEADER = 16, NODE = 8, META = 136, MOST_DEPTH = 32 };
enum { BRANCH = 1, LEAF = 2, META_PAGE = 8 };      // of pages
enum { LARGE = 1, DATABASE = 2, DUPLICATES = 4 };  // of nodes
enum { DUPLICATE_KEYS = 4 };                       // of a database
enum { LEAST_PAGE = 256, MOST_PAGE = 65536, MOST_KEY = 1000 };

typedef struct walk {
    ls_listing *l;
    int64_t page, pages, seen;  // bytes of a page; those there are; those that were gone through
} walk;

static uint64_t little(const unsigned char *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value;
}

// --- a sample --------------------------------------------------------------------------------------------------------

typedef struct value {
    ls_listing *l;
    int64_t at;
} value;

static ls_status read_value(void *self, int64_t at, int64_t size, void *out) {
    value *v = self;
    return ls_listing_read(v->l, at, size, out);
}

static ls_status value_damaged(void *self, int64_t at, const char *why) {
    value *v = self;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the sample at byte %lld cannot be read: %s", v->l->path, (long long)v->at,
                   why);
}

static ls_status add_value(ls_listing *l, int64_t at, int64_t size) {
    value v = {l, at};
    const ls_pb_from from = {.read = read_value, .damaged = value_damaged, .self = &v};
    ls_datum d;
    LS_TRY(ls_datum_parse((ls_pb){&from, at, at + size}, &d));
    ls_record r = {.at = at, .bytes = size, .skip = (uint32_t)d.data_at, .size = (uint32_t)d.data_size};
    return ls_listing_add(l, r, d.label);
}

// --- pages -----------------------------------------------------------------------------------------------------------

static ls_status walk_page(walk *w, uint64_t number, int depth);

// A key of `size` bytes, of which the page has `room`.
static int is_left_out(const walk *w, const unsigned char *key, int64_t size, int64_t room) {
    char name[MOST_KEY + 1];
    if (!w->l->builder->exclude || size > MOST_KEY || size > room) return 0;
    memcpy(name, key, (size_t)size);
    name[size] = 0;
    return ls_records_excluded_name(w->l->builder, name);
}

static ls_status take_leaf(walk *w, int64_t page_at, const unsigned char *page, int64_t at) {
    ls_listing *l = w->l;
    int64_t size = (int64_t)little(page + at, 4), flags = (int64_t)little(page + at + 4, 2);
    int64_t from = at + NODE + (int64_t)little(page + at + 6, 2);
    if (is_left_out(w, page + at + NODE, from - at - NODE, w->page - at - NODE)) return LS_OK;
    if (flags & (DATABASE | DUPLICATES))
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s has databases in it, or several values for a key: one value for each key is read", l->path);
    if (!(flags & LARGE)) {
        if (from + size > w->page) return ls_listing_damaged(l, page_at + at, "a value goes beyond its page");
        return add_value(l, page_at + from, size);
    }
    if (from + 8 > w->page) return ls_listing_damaged(l, page_at + at, "a key goes beyond its page");
    uint64_t first = little(page + from, 8);
    if (first < 2 || first >= (uint64_t)w->pages || size > l->bytes - HEADER - (int64_t)first * w->page)
        return ls_listing_damaged(l, page_at + at, "a value lies beyond the file's end");
    return add_value(l, (int64_t)first * w->page + HEADER, size);
}

static ls_status walk_nodes(walk *w, int64_t page_at, const unsigned char *page, int depth) {
    int64_t flags = (int64_t)little(page + 10, 2), end = (int64_t)little(page + 12, 2);
    if ((flags != BRANCH && flags != LEAF) || end < HEADER || end > w->page || end % 2)
        return ls_listing_damaged(w->l, page_at, "no page of keys is here");
    for (int64_t i = HEADER; i < end; i += 2) {
        int64_t at = (int64_t)little(page + i, 2);
        if (at < end || at > w->page - NODE) return ls_listing_damaged(w->l, page_at + i, "a key lies beyond its page");
        if (flags == LEAF)
            LS_TRY(take_leaf(w, page_at, page, at));
        else
            LS_TRY(walk_page(w, little(page + at, 6), depth + 1));
    }
    return LS_OK;
}

// In a tree each page is gone through once: more than there are lead back.
static ls_status walk_page(walk *w, uint64_t number, int depth) {
    unsigned char *page;
    if (number < 2 || number >= (uint64_t)w->pages || depth > MOST_DEPTH || ++w->seen > w->pages)
        return ls_listing_damaged(w->l, 0, "its pages lead back, or beyond the file's end");
    LS_TRY(ls_calloc(w->page, 1, &page));
    int64_t at = (int64_t)number * w->page;
    ls_status status = ls_listing_read(w->l, at, w->page, page);
    if (status == LS_OK) status = walk_nodes(w, at, page, depth);
    free(page);
    return status;
}

// --- all of it -------------------------------------------------------------------------------------------------------

// Of the two pages that describe the database the later one counts.
static ls_status read_meta(walk *w, int64_t at, uint64_t *latest, uint64_t *root) {
    unsigned char m[HEADER + META];
    LS_TRY(ls_listing_read(w->l, at, sizeof m, m));
    const unsigned char *meta = m + HEADER, *all = meta + 72;  // the database of all keys
    if (little(m + 10, 2) != META_PAGE || little(meta, 4) != MAGIC || little(meta + 4, 4) != 1)
        return ls_listing_damaged(w->l, at, "it is no database of LMDB's 0.9 for 64 bits, by its first page");
    int64_t page = (int64_t)little(meta + 24, 4);
    if (page < LEAST_PAGE || page > MOST_PAGE || (page & (page - 1)) || (w->page && page != w->page))
        return ls_listing_damaged(w->l, at, "its pages have no size that they can have");
    if (w->l->bytes % page) return ls_listing_damaged(w->l, w->l->bytes, "it ends within a page");
    w->page = page;
    w->pages = w->l->bytes / page;
    if (at > 0 && little(meta + 128, 8) <= *latest) return LS_OK;
    *latest = little(meta + 128, 8);
    *root = little(all + 40, 8);
    if (little(all + 4, 2) & DUPLICATE_KEYS)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has several values for a key: one value for each key is read",
                       w->l->path);
    return LS_OK;
}

static ls_status list(ls_listing *l) {
    walk w = {.l = l};
    uint64_t latest = 0, root = 0;
    LS_TRY(read_meta(&w, 0, &latest, &root));
    LS_TRY(read_meta(&w, w.page, &latest, &root));
    return root == UINT64_MAX ? LS_OK : walk_page(&w, root, 1);
}

static ls_status lmdb_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_container container = {.name = "lmdb",
                                           .kind = LS_RECORDS_DATUM_BGR,
                                           .list = list,
                                           .inside = "data.mdb",
                                           .how = "a sample's name is its key"};
    return ls_container_open(&container, host, argument, out);
}

const ls_format ls_format_lmdb = {
    .name = "lmdb",
    .help =
        "images in Caffe's LMDB databases, a Datum each, encoded or pixels: lmdb:train_lmdb,test=val_lmdb; pixels in "
        "the order blue, "
        "green, red, or lmdb:DIR,channel-order=rgb; read while training",
    .argument = "DIR",
    .names = 1,
    .open = lmdb_open,
};
