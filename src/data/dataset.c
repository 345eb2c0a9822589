#include "data/dataset.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

// One line per format: the file formats/NAME.c ends in ls_format_NAME.
#define FORMATS(X)                                                                                                     \
    X(mnist)                                                                                                           \
    X(fashion_mnist)                                                                                                   \
    X(cifar10)                                                                                                         \
    X(cifar100)                                                                                                        \
    X(digits)                                                                                                          \
    X(shapes)

#define X(name) extern const ls_format ls_format_##name;
FORMATS(X)
#undef X

const ls_format *const *ls_formats(void) {
    static const ls_format *const list[] = {
#define X(name) &ls_format_##name,
        FORMATS(X)
#undef X
            NULL,
    };
    return list;
}

// ---- fingerprint ---------------------------------------------------------------------------------------------------

// The bytes are hashed in chunks of a fixed size, which the workers share out, and the chunks' hashes in their order:
// the number does not depend on how many workers there are.
#define CHUNK (1 << 20)

#define MIX_A 0x9E3779B97F4A7C15u  // odd, with bits all over: the golden ratio
#define MIX_B 0xD1B54A32D192ED03u

static uint64_t load_le64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

// One-to-one in h for every word, so one changed word in a chunk always shows.
static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * MIX_A;
    return (h ^ h >> 29) * MIX_B;
}

// Four lanes side by side, since one chain of multiplications waits for itself.
static uint64_t hash_bytes(const uint8_t *p, int64_t bytes) {
    uint64_t lane[4] = {1, 2, 3, 4}, h = mix(MIX_B, (uint64_t)bytes);
    int64_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        for (int k = 0; k < 4; k++) lane[k] = mix(lane[k], load_le64(p + i + 8 * k));
    for (; i < bytes; i++) h = mix(h, p[i]);
    for (int k = 0; k < 4; k++) h = mix(h, lane[k]);
    return h ^ h >> 32;
}

typedef struct region {
    const uint8_t *bytes;
    int64_t size, chunks;
} region;

static int64_t regions(const ls_dataset *d, region out[4]) {
    int64_t pixels = ls_shape_count(d->image), chunks = 0;
    out[0] = (region){d->train.images, d->train.count * pixels, 0};
    out[1] = (region){d->train.labels, d->train.count, 0};
    out[2] = (region){d->test.images, d->test.count * pixels, 0};
    out[3] = (region){d->test.labels, d->test.count, 0};
    for (int r = 0; r < 4; r++) chunks += out[r].chunks = (out[r].size + CHUNK - 1) / CHUNK;
    return chunks;
}

// This worker's chunks: every size-th. Not collective.
static void hash_mine(const ls_data_host *host, const region *r, uint64_t *hashes) {
    int64_t index = 0;
    for (int k = 0; k < 4; k++)
        for (int64_t c = 0; c < r[k].chunks; c++, index++) {
            if (index % host->size != host->rank) continue;
            int64_t left = r[k].size - c * CHUNK;
            hashes[index] = hash_bytes(r[k].bytes + c * CHUNK, left < CHUNK ? left : CHUNK);
        }
}

static uint64_t combine(const ls_dataset *d, const uint64_t *hashes, int64_t chunks) {
    uint64_t h = mix(MIX_A, (uint64_t)d->classes);
    h = mix(h, (uint64_t)d->image.ndim);
    for (int i = 0; i < d->image.ndim; i++) h = mix(h, (uint64_t)d->image.dim[i]);
    h = mix(mix(h, (uint64_t)d->train.count), (uint64_t)d->test.count);
    for (int64_t i = 0; i < chunks; i++) h = mix(h, hashes[i]);
    return h ^ h >> 32;
}

// Fills in fingerprint and read_seconds, of which `seconds` is this worker's.
static ls_status finish(ls_data_host *host, ls_dataset *d, double seconds) {
    region r[4];
    int64_t chunks = regions(d, r);
    void *block = NULL;
    ls_status status = host->alloc(host->self, (host->size + chunks) * 8, &block);
    LS_TRY(host->agree(host->self, status));
    double *times = block;                              // (size)
    uint64_t *hashes = (uint64_t *)block + host->size;  // (chunks)
    times[host->rank] = seconds;
    hash_mine(host, r, hashes);
    LS_TRY(host->barrier(host->self));
    d->fingerprint = combine(d, hashes, chunks);
    d->read_seconds = 0;
    for (int i = 0; i < host->size; i++)
        if (times[i] > d->read_seconds) d->read_seconds = times[i];
    return LS_OK;
}

// ---- opening -------------------------------------------------------------------------------------------------------

static void list_formats(char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const ls_format *const *f = ls_formats(); *f && used < size; f++) {
        const char *colon = (*f)->argument ? ":" : "", *argument = (*f)->argument ? (*f)->argument : "";
        used += (size_t)snprintf(text + used, size - used, "%s%s%s%s", used ? ", " : "", (*f)->name, colon, argument);
    }
}

static ls_status no_format(const char *name, const char *names) {
    const char *list[32];
    int count = 0;
    for (const ls_format *const *f = ls_formats(); *f && count < 32; f++) list[count++] = (*f)->name;
    const char *near = ls_nearest(name, list, count);
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no dataset \"%s\"%s%s%s%s; there are: %s", name,
                   near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                   strchr(name, '/') ? ": before a folder comes the format of its files, as in mnist:DIR" : "", names);
}

// "name" or "name:argument" → format and argument (NULL when there is none). Not collective.
static ls_status parse(const char *spec, const ls_format **format, const char **argument) {
    char names[512];
    list_formats(names, sizeof names);
    if (!spec || !*spec) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "no dataset was named; name one of: %s", names);
    size_t length = strcspn(spec, ":");
    *argument = spec[length] ? spec + length + 1 : NULL;
    *format = NULL;
    for (const ls_format *const *f = ls_formats(); *f && !*format; f++)
        if (strlen((*f)->name) == length && memcmp((*f)->name, spec, length) == 0) *format = *f;
    if (!*format) {
        char name[200];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), spec);
        return no_format(name, names);
    }
    const ls_format *f = *format;
    if (f->argument && (!*argument || !**argument))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s needs to know where its files are: write %s:%s",
                       f->name, f->name, f->argument);
    if (!f->argument && *argument)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s takes no argument, but got \"%.200s\": write %s",
                       f->name, *argument, f->name);
    return LS_OK;
}

ls_status ls_data_open(ls_data_host *host, const char *spec, ls_dataset **out) {
    *out = NULL;
    double start = ls_clock();
    const ls_format *format = NULL;
    const char *argument = NULL;
    ls_dataset *dataset = NULL;
    ls_status status = parse(spec, &format, &argument);
    if (status == LS_OK) status = ls_calloc(1, sizeof *dataset, &dataset);
    LS_TRY_GOTO(host->agree(host->self, status), fail);
    assert(format && dataset);  // agreeing means that this worker was fine too
    snprintf(dataset->name, sizeof dataset->name, "%s", format->name);
    LS_TRY_GOTO(format->open(host, argument, dataset), fail);
    LS_TRY_GOTO(finish(host, dataset, ls_clock() - start), fail);
    *out = dataset;
    return LS_OK;
fail:
    free(dataset);
    return status;
}

int64_t ls_data_bytes(const ls_dataset *dataset) {
    region r[4];
    int64_t bytes = 0;
    regions(dataset, r);
    for (int k = 0; k < 4; k++) bytes += r[k].size > 0 ? ls_memory_size(r[k].size) : 0;
    return bytes;
}

void ls_data_close(ls_dataset **dataset) {
    free(*dataset);
    *dataset = NULL;
}
