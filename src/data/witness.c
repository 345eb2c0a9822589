// What lists of records were made from, to be looked at again.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/containers.h"
#include "data/fingerprint.h"

int64_t ls_records_time(const struct stat *there) {
    return (int64_t)there->st_mtim.tv_sec * 1000000000 + there->st_mtim.tv_nsec;
}

static int look_at_pattern(const char *pattern, ls_record_witness *w) {
    ls_paths paths;
    uint64_t hash = 1;
    if (ls_paths_expand(pattern, &paths) != LS_OK) return -1;
    for (int64_t i = 0; i < paths.count; i++)
        hash = ls__hash_mix(hash, ls__hash(paths.path[i], (int64_t)strlen(paths.path[i])));
    w->bytes = paths.count;
    w->changed = (int64_t)(hash >> 1);
    ls_paths_free(&paths);
    return 0;
}

int ls_records_look_again(const ls_records_builder *b, ls_record_witness *w) {
    const char *name = b->text + w->name;
    struct stat there;
    if (w->kind == LS_WITNESS_PATTERN) return look_at_pattern(name, w);
    if (stat(name, &there) != 0) return -1;
    int folder = w->kind == LS_WITNESS_FOLDER;
    if (folder ? !S_ISDIR(there.st_mode) : !S_ISREG(there.st_mode)) return -1;
    w->bytes = folder ? 0 : there.st_size;
    w->changed = ls_records_time(&there);
    return 0;
}

ls_status ls_records_witness(ls_records_builder *b, int kind, const char *name) {
    ls_record_witness w = {.kind = kind};
    if (b->witness_count == b->witness_room) {
        int64_t room = 2 * b->witness_room + 64;
        ls_record_witness *larger = realloc(b->witness, (size_t)room * sizeof *larger);
        if (!larger)
            return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for an index of %lld folders", (long long)room);
        b->witness = larger;
        b->witness_room = room;
    }
    LS_TRY(ls_records_add_text(b, name, &w.name));
    if (ls_records_look_again(b, &w) != 0) b->unwitnessed = 1;
    b->witness[b->witness_count++] = w;
    return LS_OK;
}
