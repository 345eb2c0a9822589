#include "data/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/fingerprint.h"

// --- listing ---------------------------------------------------------------------------------------------------------

ls_status ls__records_grow(void *array, int64_t *room, int64_t count, int64_t more, size_t size) {
    void **at = array;
    if (count + more <= *room) return LS_OK;
    int64_t larger = 2 * (count + more) + 64;
    void *memory = realloc(*at, (size_t)larger * size);
    if (!memory)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for an index of %lld samples: %lld bytes of it",
                       (long long)count, (long long)larger * (long long)size);
    *at = memory;
    *room = larger;
    return LS_OK;
}

ls_status ls_records_add_text(ls_records_builder *b, const char *text, int64_t *where) {
    int64_t size = (int64_t)strlen(text) + 1;
    LS_TRY(ls__records_grow(&b->text, &b->text_room, b->text_size, size, 1));
    memcpy(b->text + b->text_size, text, (size_t)size);
    *where = b->text_size;
    b->text_size += size;
    return LS_OK;
}

ls_status ls_records_add_class(ls_records_builder *b, const char *name) {
    if (b->class_count == INT32_MAX) return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %d classes", INT32_MAX);
    LS_TRY(ls__records_grow(&b->class_name, &b->class_room, b->class_count, 1, sizeof *b->class_name));
    b->class_name[b->class_count] = -1;
    if (name) LS_TRY(ls_records_add_text(b, name, &b->class_name[b->class_count]));
    b->class_count++;
    return LS_OK;
}

const char *ls_records_class(const ls_records_builder *b, int64_t class) { return b->text + b->class_name[class]; }

int64_t ls_records_find_class(const ls_records_builder *b, const char *name) {
    for (int64_t c = 0; c < b->class_count; c++)
        if (strcmp(ls_records_class(b, c), name) == 0) return c;
    return -1;
}

ls_status ls_records_add_file(ls_records_builder *b, const char *path, int64_t bytes, int64_t changed,
                              uint32_t *number) {
    if (b->file_count == UINT32_MAX) return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %u files", UINT32_MAX);
    LS_TRY(ls__records_grow(&b->file, &b->file_room, b->file_count, 1, sizeof *b->file));
    ls_record_file *f = &b->file[b->file_count];
    *f = (ls_record_file){.bytes = bytes, .changed = changed};
    LS_TRY(ls_records_add_text(b, path, &f->name));
    *number = (uint32_t)b->file_count++;
    return LS_OK;
}

ls_status ls_records_add(ls_records_builder *b, int set, ls_record record) {
    if (b->count[set] == LS_MAX_SAMPLES)
        return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %lld samples", (long long)LS_MAX_SAMPLES);
    LS_TRY(ls__records_grow(&b->record[set], &b->room[set], b->count[set], 1, sizeof record));
    b->record[set][b->count[set]++] = record;
    return LS_OK;
}

// Twice as many slots, and every row in the one that its hash says, or the next free one.
static ls_status more_slots(ls_records_builder *b) {
    int64_t slots = b->slots ? 2 * b->slots : 256, width = ls_records_row_bytes(b->label_width, b->targets);
    int32_t *slot;
    LS_TRY(ls_calloc(slots, sizeof *slot, &slot));
    memset(slot, -1, (size_t)slots * sizeof *slot);
    for (int64_t i = 0; i < b->label_count; i++) {
        uint64_t at = ls__hash(b->label + i * width, width);
        while (slot[at & (uint64_t)(slots - 1)] >= 0) at++;
        slot[at & (uint64_t)(slots - 1)] = (int32_t)i;
    }
    free(b->slot);
    b->slot = slot;
    b->slots = slots;
    return LS_OK;
}

ls_status ls_records_add_row(ls_records_builder *b, const uint8_t *row, int32_t *number) {
    int64_t width = ls_records_row_bytes(b->label_width, b->targets);
    if (2 * b->label_count >= b->slots) LS_TRY(more_slots(b));
    uint64_t at = ls__hash(row, width);
    int32_t *slot = &b->slot[at & (uint64_t)(b->slots - 1)];
    while (*slot >= 0 && memcmp(b->label + *slot * width, row, (size_t)width) != 0)
        slot = &b->slot[++at & (uint64_t)(b->slots - 1)];
    *number = *slot;
    if (*slot >= 0) return LS_OK;
    if (b->label_count == INT32_MAX)
        return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %d combinations of labels", INT32_MAX);
    LS_TRY(ls__records_grow(&b->label, &b->label_room, b->label_count * width, width, 1));
    memcpy(b->label + b->label_count * width, row, (size_t)width);
    *number = *slot = (int32_t)b->label_count++;
    return LS_OK;
}

void ls_records_free(ls_records_builder *b) {
    free(b->label);
    free(b->slot);
    for (int s = 0; s < LS_RECORDS_SETS; s++) free(b->record[s]);
    free(b->file);
    free(b->text);
    free(b->class_name);
    free(b->witness);
    *b = (ls_records_builder){.file = NULL};
}

// --- a test set ------------------------------------------------------------------------------------------------------

// Beside 1e-9, which makes up for what a fraction in binary lacks.
int ls_records_held_out(double split, int64_t i) {
    return (int64_t)(split * (double)(i + 1) + 1e-9) > (int64_t)(split * (double)i + 1e-9);
}

ls_status ls_records_split(ls_records_builder *b, double split) {
    int64_t *seen, kept = 0;  // (classes)
    ls_status status = LS_OK;
    LS_TRY(ls_calloc(b->class_count, sizeof *seen, &seen));
    for (int64_t i = 0; i < b->count[LS_RECORDS_TRAIN] && status == LS_OK; i++) {
        ls_record r = b->record[LS_RECORDS_TRAIN][i];
        if (ls_records_held_out(split, seen[b->label_width ? 0 : r.class]++))
            status = ls_records_add(b, LS_RECORDS_TEST, r);
        else
            b->record[LS_RECORDS_TRAIN][kept++] = r;
    }
    b->count[LS_RECORDS_TRAIN] = kept;
    free(seen);
    return status;
}

// --- order -----------------------------------------------------------------------------------------------------------

typedef struct place {
    double key;  // how far through its class a sample is, from 0 to 1
    int64_t index;
    ls_record record;
} place;

static int by_key(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->record.class != y->record.class) return x->record.class < y->record.class ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

ls_status ls_records_spread(ls_records_builder *b, int set) {
    int64_t n = b->count[set], *count, *seen;  // (classes)
    place *list;
    if (n == 0) return LS_OK;
    LS_TRY(ls_calloc(2 * b->class_count, sizeof *count, &count));
    seen = count + b->class_count;
    ls_status status = ls_calloc(n, sizeof *list, &list);
    if (status != LS_OK) {
        free(count);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    for (int64_t i = 0; i < n; i++) count[b->record[set][i].class]++;
    for (int64_t i = 0; i < n; i++) {
        ls_record r = b->record[set][i];
        list[i] = (place){(double)(2 * seen[r.class]++ + 1) / (double)(2 * count[r.class]), i, r};
    }
    qsort(list, (size_t)n, sizeof *list, by_key);
    for (int64_t i = 0; i < n; i++) b->record[set][i] = list[i].record;
    free(list);
    free(count);
    return LS_OK;
}

// --- sharing ---------------------------------------------------------------------------------------------------------

// What the others have to know before they can ask for memory.
typedef struct sizes {
    int64_t count[LS_RECORDS_SETS], file_count, text_size, class_count, longest_path, largest, picture_bytes, kind;
    int64_t label_count, label_width, targets, pairs;
} sizes;

static void measure(const ls_records_builder *b, sizes *out) {
    *out = (sizes){.file_count = b->file_count,
                   .text_size = b->text_size,
                   .class_count = b->class_count,
                   .picture_bytes = b->picture_bytes,
                   .kind = (int64_t)b->kind,
                   .label_count = b->label_count,
                   .label_width = b->label_width,
                   .targets = b->targets,
                   .pairs = b->pairs};
    for (int s = 0; s < LS_RECORDS_SETS; s++) {
        out->count[s] = b->count[s];
        for (int64_t i = 0; i < b->count[s]; i++)
            if (b->record[s][i].bytes > out->largest) out->largest = b->record[s][i].bytes;
    }
    for (int64_t f = 0; f < b->file_count; f++) {
        int64_t length = (int64_t)strlen(b->text + b->file[f].name) + 1;
        if (length > out->longest_path) out->longest_path = length;
    }
}

// Where each part lies in the block; records first, as they want the strictest alignment that there is.
static int64_t place_parts(const sizes *s, char *block, ls_records *out) {
    int64_t at = 0;
    for (int k = 0; k < LS_RECORDS_SETS; k++) {
        out->count[k] = s->count[k];
        out->record[k] = (ls_record *)(void *)(block + at);
        at += s->count[k] * (int64_t)sizeof(ls_record);
    }
    out->file_count = s->file_count;
    out->file = (ls_record_file *)(void *)(block + at);
    at += s->file_count * (int64_t)sizeof(ls_record_file);
    out->class_count = s->class_count;
    out->class_name = (int64_t *)(void *)(block + at);
    at += s->class_count * (int64_t)sizeof(int64_t);
    out->label_count = s->label_count;
    out->label_width = (int)s->label_width;
    out->targets = (int)s->targets;
    out->pairs = (int)s->pairs;
    out->label = (uint8_t *)(block + at);
    at += s->label_count * ls_records_row_bytes(s->label_width, out->targets);
    out->text = block + at;
    out->text_size = s->text_size;
    out->longest_path = s->longest_path;
    out->largest = s->largest;
    out->picture_bytes = s->picture_bytes;
    out->kind = (ls_records_kind)s->kind;
    return at + s->text_size;
}

static void copy(void *to, const void *from, int64_t bytes) {
    if (bytes) memcpy(to, from, (size_t)bytes);
}

static ls_status settle(ls_data_host *host, ls_status mine) {
    LS_TRY(host->agree(host->self, mine));
    return host->barrier(host->self);
}

ls_status ls_records_share(ls_data_host *host, ls_status listed, const ls_records_builder *b, ls_records *out) {
    void *block;
    ls_records none;
    LS_TRY(host->agree(host->self, host->alloc(host->self, (int64_t)sizeof(sizes), &block)));
    sizes *s = block;
    if (host->rank == 0 && listed == LS_OK) measure(b, s);
    LS_TRY(settle(host, host->rank == 0 ? listed : LS_OK));
    int64_t bytes = place_parts(s, (char *)block, &none);
    LS_TRY(host->agree(host->self, host->alloc(host->self, bytes, &block)));
    *out = (ls_records){.bytes = bytes};
    place_parts(s, block, out);
    if (host->rank == 0) {
        for (int k = 0; k < LS_RECORDS_SETS; k++)
            copy(out->record[k], b->record[k], b->count[k] * (int64_t)sizeof(ls_record));
        copy(out->file, b->file, b->file_count * (int64_t)sizeof(ls_record_file));
        copy(out->class_name, b->class_name, b->class_count * (int64_t)sizeof(int64_t));
        copy(out->label, b->label, b->label_count * ls_records_row_bytes(b->label_width, b->targets));
        copy(out->text, b->text, b->text_size);
    }
    return settle(host, LS_OK);
}

uint64_t ls_records_version(const ls_records *r, int64_t root) {
    uint64_t h = ls__hash_mix(1, (uint64_t)r->class_count);
    for (int64_t c = 0; c < r->class_count; c++) {
        const char *name = r->class_name[c] < 0 ? "" : r->text + r->class_name[c];
        h = ls__hash_mix(h, ls__hash(name, (int64_t)strlen(name)));
    }
    for (int64_t f = 0; f < r->file_count; f++) {
        const char *path = r->text + r->file[f].name, *slash = strrchr(path, '/');
        const char *name = root >= 0 ? path + root : slash ? slash + 1 : path;
        h = ls__hash_mix(ls__hash_mix(h, ls__hash(name, (int64_t)strlen(name))), (uint64_t)r->file[f].bytes);
    }
    for (int k = 0; k < LS_RECORDS_SETS; k++)
        for (int64_t i = 0; i < r->count[k]; i++) {
            const ls_record *one = &r->record[k][i];
            h = ls__hash_mix(ls__hash_mix(h, (uint64_t)one->at), (uint64_t)one->bytes);
            h = ls__hash_mix(h, (uint64_t)one->file << 32 | (uint32_t)one->class);
        }
    if (r->pairs) h = ls__hash_mix(h, 2);
    if (r->label_width)
        h = ls__hash_mix(h, ls__hash(r->label, r->label_count * ls_records_row_bytes(r->label_width, r->targets)));
    return h ? h : 1;
}

// --- a dataset -------------------------------------------------------------------------------------------------------

ls_status ls_records_names(const ls_records *r, int any, ls_dataset *out) {
    LS_TRY(ls_calloc(r->class_count + 1, sizeof *out->own_classes, &out->own_classes));
    for (int64_t c = 0; any && c < r->class_count && r->class_name[c] >= 0; c++)
        out->own_classes[c] = r->text + r->class_name[c];
    out->classes = out->own_classes[0] ? out->own_classes : NULL;
    out->version = ls_records_version(r, -1);
    return LS_OK;
}

static ls_status make_dataset(const ls_records *r, const char *root, int channels, ls_dataset *out) {
    char name[128];
    LS_TRY(ls_records_names(r, 1, out));
    out->version = ls_records_version(r, root ? (int64_t)strlen(root) : -1);
    out->shared = 1;
    snprintf(name, sizeof name, "the training set of %s", out->name);
    LS_TRY(ls_source_create_records(name, r, LS_RECORDS_TRAIN, channels, &out->train));
    out->train->bytes = ls_memory_size(r->bytes);  // the index, which both share
    if (r->count[LS_RECORDS_TEST] == 0) return LS_OK;
    snprintf(name, sizeof name, "the test set of %s", out->name);
    return ls_source_create_records(name, r, LS_RECORDS_TEST, channels, &out->test);
}

ls_status ls_records_dataset(ls_data_host *host, const ls_records *r, const char *root, int channels, ls_dataset *out) {
    return host->agree(host->self, make_dataset(r, root, channels, out));
}
