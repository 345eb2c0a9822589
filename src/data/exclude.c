#include "data/exclude.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "data/fingerprint.h"

enum { TRAIN, TEST, SETS, MOST_BYTES = 64 << 20 };

static const char *const prefixes[SETS] = {"train:", "test:"};
static const char *const words[SETS] = {"training", "test"};

typedef struct name {
    char *text;
    int64_t line;
    int met;
} name;

// Samples first to last.
typedef struct run {
    int64_t first, last, line;
} run;

struct ls_exclusions {
    char *path;
    name *names;  // (name_count), by text, each once
    int64_t name_count, name_room;
    run *runs[SETS];  // (run_count)
    int64_t run_count[SETS], run_room[SETS];
};

// --- reading a list --------------------------------------------------------------------------------------------------

static ls_status grow(void *array, int64_t *room, int64_t count, size_t size) {
    void **at = array;
    if (count < *room) return LS_OK;
    int64_t larger = 2 * *room + 64;
    void *memory = realloc(*at, (size_t)larger * size);
    if (!memory) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a list of %lld samples", (long long)larger);
    *at = memory;
    *room = larger;
    return LS_OK;
}

static int by_text(const void *a, const void *b) {
    const name *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

// A whole number of up to 18 digits at *at, which moves behind it; -1: there is none.
static int64_t take_number(const char **at) {
    int64_t n = 0;
    int digits = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        if (++digits > 18) return -1;
        n = 10 * n + (**at - '0');
    }
    return digits ? n : -1;
}

// "train:17" or "test:20-29": 1, and which set; 0: it is a name.
static int is_number(const char *text, int *set, run *out) {
    for (*set = 0; *set < SETS; ++*set) {
        const char *at = text + strlen(prefixes[*set]);
        if (strncmp(text, prefixes[*set], strlen(prefixes[*set])) != 0) continue;
        out->first = out->last = take_number(&at);
        if (*at == '-' && out->first >= 0) {
            at++;
            out->last = take_number(&at);
        }
        return out->first >= 0 && out->last >= 0 && !*at;
    }
    return 0;
}

static ls_status add_line(ls_exclusions *e, const char *text, int64_t line) {
    int set;
    run r = {.line = line};
    if (is_number(text, &set, &r)) {
        if (r.last < r.first)
            return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s: %s ends before it begins", (long long)line, e->path,
                           text);
        LS_TRY(grow(&e->runs[set], &e->run_room[set], e->run_count[set], sizeof r));
        e->runs[set][e->run_count[set]++] = r;
        return LS_OK;
    }
    LS_TRY(grow(&e->names, &e->name_room, e->name_count, sizeof *e->names));
    e->names[e->name_count] = (name){.line = line};
    LS_TRY(ls_strdup(text, &e->names[e->name_count].text));
    e->name_count++;
    return LS_OK;
}

// Sorted; of equal ones the first line stays.
static void sort_names(ls_exclusions *e) {
    int64_t kept = 0;
    if (e->name_count) qsort(e->names, (size_t)e->name_count, sizeof *e->names, by_text);
    for (int64_t i = 0; i < e->name_count; i++) {
        if (kept && strcmp(e->names[kept - 1].text, e->names[i].text) == 0)
            free(e->names[i].text);
        else
            e->names[kept++] = e->names[i];
    }
    e->name_count = kept;
}

// Formats with names read the list once, and numbers are read from it afterwards: a pipe would be empty by then.
static ls_status check_file(const char *path) {
    struct stat there;
    if (stat(path, &there) != 0 || S_ISDIR(there.st_mode)) return LS_OK;  // opening it says more
    if (!S_ISREG(there.st_mode))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s is a pipe or a device: a list of what to leave out is read twice; name a file", path);
    if (there.st_size > MOST_BYTES)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s has %lld bytes, and a list of what to leave out at most %d; runs of samples are shorter as "
                       "numbers, train:20-29",
                       path, (long long)there.st_size, MOST_BYTES);
    return LS_OK;
}

static ls_status take_line(void *self, const ls_lines *lines) {
    char *text = lines->text;
    text[strcspn(text, "\r\n")] = 0;
    return *text && *text != '#' ? add_line(self, text, lines->number) : LS_OK;
}

static ls_status read_lines(ls_exclusions *e) {
    LS_TRY(check_file(e->path));
    return ls_lines_read(e->path, ", the files to leave out", e, take_line);
}

ls_status ls_exclusions_read(const char *path, ls_exclusions **out) {
    ls_exclusions *e;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *e, &e));
    ls_status status = ls_strdup(path, &e->path);
    if (status == LS_OK) status = read_lines(e);
    sort_names(e);
    if (status == LS_OK)
        *out = e;
    else
        ls_exclusions_destroy(&e);
    return status;
}

void ls_exclusions_destroy(ls_exclusions **exclusions) {
    ls_exclusions *e = *exclusions;
    *exclusions = NULL;
    if (!e) return;
    for (int64_t i = 0; i < e->name_count; i++) free(e->names[i].text);
    for (int s = 0; s < SETS; s++) free(e->runs[s]);
    free(e->names);
    free(e->path);
    free(e);
}

int ls_exclusions_name(ls_exclusions *e, const char *text) {
    int64_t low = 0, past = e->name_count;
    while (low < past) {
        int64_t middle = low + (past - low) / 2;
        int order = strcmp(e->names[middle].text, text);
        if (order == 0) return e->names[middle].met = 1;
        if (order < 0)
            low = middle + 1;
        else
            past = middle;
    }
    return 0;
}

ls_status ls_exclusions_check(const ls_exclusions *e, const char *what, const char *how) {
    const name *first = NULL;
    for (int64_t i = 0; i < e->name_count; i++)
        if (!e->names[i].met && (!first || e->names[i].line < first->line)) first = &e->names[i];
    if (!first) return LS_OK;
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "line %lld of %s: there is no %s %s in the dataset to leave out; %s; train:17 and test:3 are numbers "
        "of samples",
        (long long)first->line, e->path, what, first->text, how);
}

// --- numbers ---------------------------------------------------------------------------------------------------------

static int by_first(const void *a, const void *b) {
    const run *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static ls_status check_runs(const ls_exclusions *e, int set, const ls_dataset *d, int64_t count) {
    for (int64_t i = 0; i < e->run_count[set]; i++) {
        const run *r = &e->runs[set][i];
        if (r->last < count) continue;
        if (!count)
            return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s: the dataset %s has no test set", (long long)r->line,
                           e->path, d->name);
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "line %lld of %s: the %s set of %s has no sample %lld to leave out: they go from 0 to %lld",
                       (long long)r->line, e->path, words[set], d->name, (long long)r->last, (long long)count - 1);
    }
    return LS_OK;
}

// What the sorted runs have together, each once; into `out` where that is not NULL.
static int64_t take_runs(const ls_exclusions *e, int set, uint32_t *out) {
    int64_t count = 0, next = 0;
    for (int64_t i = 0; i < e->run_count[set]; i++) {
        int64_t from = e->runs[set][i].first > next ? e->runs[set][i].first : next, last = e->runs[set][i].last;
        for (int64_t n = from; out && n <= last; n++) out[count + n - from] = (uint32_t)n;
        if (last < from) continue;
        count += last - from + 1;
        next = last + 1;
    }
    return count;
}

static const ls_source *set_of(const ls_dataset *d, int set) { return set == TRAIN ? d->train : d->test; }

// Worker 0: how many of each set; the runs are sorted.
static ls_status count_gone(ls_exclusions *e, int names, const ls_dataset *d, int64_t gone[SETS]) {
    if (!names) LS_TRY(ls_exclusions_check(e, "sample named", "the samples of this format have numbers alone"));
    for (int s = 0; s < SETS; s++) {
        const ls_source *source = set_of(d, s);
        LS_TRY(check_runs(e, s, d, source ? source->count : 0));
        if (e->run_count[s]) qsort(e->runs[s], (size_t)e->run_count[s], sizeof *e->runs[s], by_first);
        gone[s] = take_runs(e, s, NULL);
        if (source && gone[s] == source->count)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s leaves nothing of the %s set of %s", e->path, words[s], d->name);
    }
    return LS_OK;
}

static ls_status wrap(ls_dataset *d, const int64_t gone[SETS], const uint32_t *numbers) {
    for (int s = 0; s < SETS; s++) {
        ls_source **source = s == TRAIN ? &d->train : &d->test, *inner = *source;
        if (gone[s]) {
            *source = NULL;
            LS_TRY(ls_source_create_without(inner, numbers, gone[s], source));
            d->version = ls__hash_mix(ls__hash_mix(d->version, (uint64_t)s + 1),
                                      ls__hash(numbers, gone[s] * (int64_t)sizeof *numbers));
        }
        numbers += gone[s];
    }
    return LS_OK;
}

static ls_status settle(ls_data_host *host, ls_status mine) {
    LS_TRY(host->agree(host->self, mine));
    return host->barrier(host->self);
}

ls_status ls_exclude_numbers(ls_data_host *host, const char *path, int names, ls_dataset *d) {
    ls_exclusions *e = NULL;
    void *block = NULL;
    ls_status status = host->agree(host->self, host->alloc(host->self, SETS * (int64_t)sizeof(int64_t), &block));
    LS_TRY(status);
    int64_t *gone = block, total = 0;
    if (host->rank == 0) status = ls_exclusions_read(path, &e);
    if (host->rank == 0 && status == LS_OK) status = count_gone(e, names, d, gone);
    LS_TRY_GOTO(settle(host, status), done);
    for (int s = 0; s < SETS; s++) total += gone[s];
    // Hosts whose lists differ make the same calls: one that leaves nothing out goes on, too.
    LS_TRY_GOTO(host->agree(host->self, host->alloc(host->self, (total + 1) * (int64_t)sizeof(uint32_t), &block)),
                done);
    uint32_t *numbers = block;
    if (e)
        for (int s = 0; s < SETS; s++) numbers += take_runs(e, s, numbers);
    LS_TRY_GOTO(settle(host, LS_OK), done);
    status = host->agree(host->self, wrap(d, gone, block));
done:
    ls_exclusions_destroy(&e);
    return status;
}
