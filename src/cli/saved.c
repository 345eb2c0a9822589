#define _GNU_SOURCE
#include "cli/saved.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"

int64_t cli_saved_bytes(const cli_saved *s, const char *file) { return ls_checkpoint_file_bytes(s->checkpoint, file); }

const char *cli_saved_digest(const cli_saved *s, const char *file) {
    return s->checkpoint ? ls_checkpoint_file_digest(s->checkpoint, file) : "";
}

const json_t *cli_saved_recipe(const cli_saved *s) { return json_object_get(s->state, "recipe"); }

const char *cli_saved_numerics(const cli_saved *s) { return json_string_value(json_object_get(s->state, "numerics")); }

const char **cli_saved_columns(const cli_saved *s) {
    const json_t *list = json_object_get(s->state, "columns");
    size_t count = json_array_size(list);
    const char **names = count ? calloc(count + 1, sizeof *names) : NULL;
    for (size_t i = 0; names && i < count; i++)
        if (!(names[i] = json_string_value(json_array_get(list, i)))) {
            free(names);
            return NULL;
        }
    return names;
}

int64_t cli_saved_position(const cli_saved *s, const char *what) {
    const json_t *number = json_object_get(json_object_get(s->state, "position"), what);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

int cli_saved_where(const cli_saved *s, char *text, size_t size) {
    size_t used = 0;
    // The epoch is the one that training goes on in.
    long long all = cli_saved_position(s, "all_steps"), epochs = cli_saved_position(s, "epoch") - 1,
              steps = cli_saved_position(s, "step");
    text[0] = 0;
    if (all < 0) return 0;
    ls_text_add(text, size, &used, "%lld step%s", all, all == 1 ? "" : "s");
    if (epochs < 0 || steps < 0) return 1;
    ls_text_add(text, size, &used, ", %lld epoch%s", epochs, epochs == 1 ? "" : "s");
    if (steps) ls_text_add(text, size, &used, " and %lld step%s", steps, steps == 1 ? "" : "s");
    return 1;
}

static ls_status no_memory(void) { return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a checkpoint"); }

static ls_status open_folder(const char *path, cli_saved *s) {
    LS_TRY(ls_checkpoint_find(path, &s->checkpoint));
    s->folder = ls_checkpoint_path(s->checkpoint);
    if (ls_checkpoint_damaged(s->checkpoint)[0])
        fprintf(stderr, "lockstep: %s; the one before is used, %s\n", ls_checkpoint_damaged(s->checkpoint), s->folder);
    s->state = json_loads(ls_checkpoint_state(s->checkpoint), 0, NULL);
    if (!s->state || asprintf(&s->weights, "%s/weights.safetensors", s->folder) < 0) return no_memory();
    return LS_OK;
}

ls_status cli_saved_open(const char *path, cli_saved *out) {
    struct stat there;
    *out = (cli_saved){.folder = NULL};
    if (stat(path, &there) != 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO,
                       "cannot look at %s: %s; name a checkpoint, a folder of them, or a .safetensors file", path,
                       strerror(errno));
    if (S_ISDIR(there.st_mode)) return open_folder(path, out);
    out->weights = strdup(path);
    return out->weights ? LS_OK : no_memory();
}

void cli_saved_close(cli_saved *s) {
    ls_checkpoint_close(&s->checkpoint);
    free(s->weights);
    json_decref(s->state);
    *s = (cli_saved){.folder = NULL};
}
