// What formats of records have in common when they are opened: options, files that are left out, one list for all workers.
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "data/exclude.h"
#include "data/index.h"
#include "data/records.h"
#include "data/spec.h"

// --- what is left out ------------------------------------------------------------------------------------------------

int ls_records_excluded_name(ls_records_builder *b, const char *name) {
    return b->exclude && ls_exclusions_name(b->exclude, name);
}

int ls_records_excluded(ls_records_builder *b, const char *root, const char *path) {
    size_t length = strlen(root);
    if (ls_records_excluded_name(b, path)) return 1;
    return strncmp(path, root, length) == 0 && path[length] == '/' && ls_records_excluded_name(b, path + length + 1);
}

// --- opening ---------------------------------------------------------------------------------------------------------

static ls_status list_all(const ls_records_format *f, const char *path, const ls_records_settings *s,
                          ls_records_builder *b) {
    ls_status status = s->exclude ? ls_records_witness(b, LS_WITNESS_FILE, s->exclude) : LS_OK;
    if (status == LS_OK && s->exclude) status = ls_exclusions_read(s->exclude, &b->exclude);
    if (status == LS_OK) status = f->list(f->self, path, s, b);
    if (status == LS_OK && b->exclude) status = ls_exclusions_check(b->exclude, f->what, f->how);
    ls_exclusions_destroy(&b->exclude);
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
