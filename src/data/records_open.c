// What formats of records have in common when they are opened: options, files that are left out, one list for all workers.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "data/index.h"
#include "data/records.h"
#include "data/spec.h"

// --- files that are left out -----------------------------------------------------------------------------------------

typedef struct exclusion {
    char *path;
    int64_t line;
    int met;
} exclusion;

struct ls_exclusions {
    exclusion *list;  // (count), by path
    int64_t count, room;
};

static int by_path(const void *a, const void *b) {
    return strcmp(((const exclusion *)a)->path, ((const exclusion *)b)->path);
}

static int leaves_out(struct ls_exclusions *e, const char *path) {
    const exclusion key = {.path = (char *)(uintptr_t)path};
    exclusion *found = e->count ? bsearch(&key, e->list, (size_t)e->count, sizeof key, by_path) : NULL;
    if (found) found->met = 1;
    return found != NULL;
}

int ls_records_excluded(ls_records_builder *b, const char *root, const char *path) {
    size_t length = strlen(root);
    if (!b->exclude) return 0;
    if (leaves_out(b->exclude, path)) return 1;
    return strncmp(path, root, length) == 0 && path[length] == '/' && leaves_out(b->exclude, path + length + 1);
}

static ls_status add_line(struct ls_exclusions *e, const char *text, int64_t line) {
    if (e->count == e->room) {
        int64_t room = 2 * e->room + 64;
        exclusion *list = realloc(e->list, (size_t)room * sizeof *list);
        if (!list) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a list of %lld files", (long long)room);
        e->list = list;
        e->room = room;
    }
    exclusion *x = &e->list[e->count];
    *x = (exclusion){.line = line};
    LS_TRY(ls_calloc((int64_t)strlen(text) + 1, 1, &x->path));
    memcpy(x->path, text, strlen(text));
    e->count++;
    return LS_OK;
}

// Lines are paths; empty ones and those that begin with # are none.
static ls_status read_exclusions(const char *path, struct ls_exclusions *e) {
    char *text = NULL;
    size_t room = 0;
    ls_status status = LS_OK;
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO,
                       "cannot read %s, the files to leave out: %s", path, strerror(errno));
    for (int64_t line = 1; status == LS_OK && getline(&text, &room, file) >= 0; line++) {
        text[strcspn(text, "\r\n")] = 0;
        if (*text && *text != '#') status = add_line(e, text, line);
    }
    free(text);
    fclose(file);
    if (e->count) qsort(e->list, (size_t)e->count, sizeof *e->list, by_path);
    return status;
}

static ls_status check_met(const char *path, const struct ls_exclusions *e) {
    for (int64_t i = 0; i < e->count; i++)
        if (!e->list[i].met)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s: there is no file %s in the dataset to leave out; paths begin where the "
                           "dataset's do, or at /",
                           (long long)e->list[i].line, path, e->list[i].path);
    return LS_OK;
}

// --- opening ---------------------------------------------------------------------------------------------------------

static ls_status list_all(const ls_records_format *f, const char *path, const ls_records_settings *s,
                          ls_records_builder *b) {
    struct ls_exclusions e = {NULL, 0, 0};
    ls_status status = s->exclude ? ls_records_witness(b, LS_WITNESS_FILE, s->exclude) : LS_OK;
    if (status == LS_OK && s->exclude) status = read_exclusions(s->exclude, &e);
    b->exclude = s->exclude ? &e : NULL;
    if (status == LS_OK) status = f->list(f->self, path, s, b);
    if (status == LS_OK) status = check_met(s->exclude, &e);
    for (int64_t i = 0; i < e.count; i++) free(e.list[i].path);
    free(e.list);
    b->exclude = NULL;
    return status;
}

static ls_status read_settings(const ls_records_format *f, const char *argument, ls_records_settings *s,
                               ls_spec *spec) {
    *s = (ls_records_settings){.channels = 3};
    LS_TRY(ls_spec_read(f->name, argument, f->table, s, spec));
    if (s->channels != 1 && s->channels != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s:%s: channels is 1, grey, or 3, in colour, not %d", f->name,
                       spec->text, s->channels);
    if (!s->test || !(s->split > 0)) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s:%s: test=%s and validation-split=%g both say what the test set is: leave one out", f->name,
                   spec->text, s->test, s->split);
}

// Where the index of this is kept, if anywhere.
typedef struct kept {
    char path[4096], key[9000];
    int named;
} kept;

// From what is kept, or anew.
static ls_status list_or_read(const ls_records_format *f, const ls_spec *spec, const ls_records_settings *s,
                              const kept *k, ls_records_builder *b, char *note, size_t size) {
    note[0] = 0;
    if (k->named && ls__index_read(k->path, k->key, b)) return LS_OK;
    double start = ls_clock();
    LS_TRY(list_all(f, spec->text, s, b));
    if (k->named) ls__index_write(k->path, k->key, b, ls_clock() - start, note, size);
    return LS_OK;
}

ls_status ls_records_open(const ls_records_format *f, ls_data_host *host, const char *argument, ls_dataset *out) {
    ls_records_builder builder = {.file = NULL};
    ls_records_settings s;
    ls_records records;
    ls_spec spec;
    kept k;
    LS_TRY(host->agree(host->self, read_settings(f, argument, &s, &spec)));
    k.named = ls__index_name(f->name, argument, k.path, sizeof k.path, k.key, sizeof k.key);
    ls_status status = LS_OK;
    if (host->rank == 0) status = list_or_read(f, &spec, &s, &k, &builder, out->note, sizeof out->note);
    status = ls_records_share(host, status, &builder, &records);
    ls_records_free(&builder);
    LS_TRY(status);
    records.index = k.named ? k.path : NULL;
    return ls_records_dataset(host, &records, f->rooted ? spec.text : NULL, s.channels, out);
}
