// Reading a folder of checkpoints. Nothing in it is believed before it is checked: a manifest may be anybody's.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/text.h"
#include "train/checkpoint.h"
#include "train/sha256.h"

enum { BLOCK = 1 << 20, MAX_JSON = 64 << 20 };

static ls_status join(const char *folder, const char *name, char **out) {
    if (asprintf(out, "%s/%s", folder, name) >= 0) return LS_OK;
    *out = NULL;
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
}

// --- a file of JSON --------------------------------------------------------------------------------------------------

static ls_status read_json(const char *folder, const char *name, json_t **out) {
    char *path;
    json_error_t error;
    *out = NULL;
    LS_TRY(join(folder, name, &path));
    FILE *file = ls_input_open_small(path, MAX_JSON);
    ls_status status = LS_OK;
    if (!file)
        status = LS_FAIL(errno == ENOENT || errno == ENOTDIR ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s",
                         path, ls_input_why(errno));
    else if (!(*out = json_loadf(file, JSON_REJECT_DUPLICATES, &error)) || !json_is_object(*out)) {
        if (!*out) ls_text_clean(error.text);
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: %s", path, *out ? "it is no object" : error.text);
    }
    if (status != LS_OK) {
        json_decref(*out);
        *out = NULL;
    }
    if (file) fclose(file);
    free(path);
    return status;
}

// --- hashes ----------------------------------------------------------------------------------------------------------

static ls_status hash_file(const char *path, FILE *file, int64_t *bytes, char text[65]) {
    EVP_MD_CTX *sha;
    unsigned char *block = NULL;
    size_t n = 0;
    *bytes = 0;
    LS_TRY(ls_calloc(1, BLOCK, &block));
    ls_status status = ls__sha256_begin(&sha);
    while (status == LS_OK && (n = fread(block, 1, BLOCK, file)) > 0) {
        EVP_DigestUpdate(sha, block, n);
        *bytes += (int64_t)n;
    }
    if (status == LS_OK) ls__sha256_end(sha, text);
    free(block);
    if (status == LS_OK && ferror(file)) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    return status;
}

static ls_status check_file(const char *path, const json_t *entry) {
    const json_t *length = json_object_get(entry, "bytes");
    const char *hash = json_string_value(json_object_get(entry, "sha256"));
    char found[65];
    int64_t bytes;
    if (!json_is_integer(length) || !hash)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the manifest says neither its length nor its hash", path);
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_BAD_DATA : LS_STATUS_IO, "%s: %s", path,
                       errno == ENOENT ? "it is missing" : ls_input_why(errno));
    ls_status status = hash_file(path, file, &bytes, found);
    fclose(file);
    LS_TRY(status);
    if (bytes != json_integer_value(length))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: it has %lld bytes, and %lld were written", path,
                       (long long)bytes, (long long)json_integer_value(length));
    if (strcmp(found, hash) == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: its contents are not those that were written (SHA-256)", path);
}

static ls_status check_files(const char *folder, const json_t *manifest) {
    json_t *files = json_object_get(manifest, "files");
    const char *name;
    json_t *entry;
    if (!json_object_get(files, LS_CHECKPOINT_STATE) || !json_object_get(files, "weights.safetensors"))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s/" LS_CHECKPOINT_MANIFEST " is damaged: it names no state or no weights",
                       folder);
    json_object_foreach(files, name, entry) {
        char *path;
        if (strchr(name, '/') || name[0] == '.' || strlen(name) >= LS_CHECKPOINT_NAME)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s/" LS_CHECKPOINT_MANIFEST " is damaged: it names no file of its folder", folder);
        LS_TRY(join(folder, name, &path));
        ls_status status = check_file(path, entry);
        free(path);
        LS_TRY(status);
    }
    return LS_OK;
}

// --- one checkpoint --------------------------------------------------------------------------------------------------

static ls_status check_format(const char *path, const json_t *state) {
    const char *format = json_string_value(json_object_get(state, "format"));
    const json_t *version = json_object_get(state, "format_version");
    if (!format || strcmp(format, "lockstep checkpoint") != 0 || !json_is_integer(version))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s/" LS_CHECKPOINT_STATE " is no state of a checkpoint", path);
    if (json_integer_value(version) <= LS_CHECKPOINT_VERSION) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "%s is of a newer Lockstep (format %lld, and this one reads up to %d): go on with that one", path,
                   (long long)json_integer_value(version), LS_CHECKPOINT_VERSION);
}

static ls_status open_one(const char *path, ls_checkpoint **out) {
    ls_checkpoint *c;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    LS_TRY_GOTO(read_json(path, LS_CHECKPOINT_MANIFEST, &c->manifest), failed);
    LS_TRY_GOTO(check_files(path, c->manifest), failed);
    LS_TRY_GOTO(read_json(path, LS_CHECKPOINT_STATE, &c->state), failed);
    LS_TRY_GOTO(check_format(path, c->state), failed);
    LS_TRY_GOTO(ls_strdup(path, &c->path), failed);
    LS_TRY_GOTO(ls_strdup("", &c->damaged), failed);
    const json_t *recipe = json_object_get(c->state, "recipe");
    c->recipe = json_is_object(recipe) ? json_dumps(recipe, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (!c->recipe) LS_TRY_GOTO(ls_strdup("{}", &c->recipe), failed);
    c->text = json_dumps(c->state, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!c->text) LS_FAIL_GOTO(LS_STATUS_OUT_OF_MEMORY, failed, "out of memory");
    *out = c;
    return LS_OK;
failed:
    ls_checkpoint_close(&c);
    return status;
}

// --- a folder of them ------------------------------------------------------------------------------------------------

static int by_steps(const void *a, const void *b) {
    const ls_checkpoint_entry *x = a, *y = b;
    if (x->all_steps != y->all_steps) return x->all_steps > y->all_steps ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int64_t whole(const json_t *o, const char *name) {
    const json_t *value = json_object_get(o, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static double real(const json_t *o, const char *name) {
    const json_t *value = json_object_get(o, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

// What the state says; one that says nothing counts as the newest, so that it is complained about.
static void describe(const json_t *state, ls_checkpoint_entry *e) {
    const json_t *place = json_object_get(state, "position"), *epochs = json_object_get(state, "epochs");
    const json_t *latest = json_array_get(epochs, json_array_size(epochs) - 1);
    if (whole(place, "all_steps") >= 0) e->all_steps = whole(place, "all_steps");
    e->epoch = (int)whole(place, "epoch");
    e->step = whole(place, "step");
    ls_epoch_result result = {.val_accuracy = real(latest, "val_accuracy"),
                              .val_area = real(latest, "val_area"),
                              .val_loss = real(latest, "val_loss")};
    e->score = e->step == 0 ? ls_epoch_score(&result) : NAN;
}

static ls_status add_entry(const char *folder, const char *name, ls_checkpoint_entry **list, int *count) {
    char *path, *manifest;
    json_t *state = NULL;
    struct stat there;
    if (name[0] == '.' || strlen(name) >= LS_CHECKPOINT_NAME) return LS_OK;
    LS_TRY(join(folder, name, &path));
    ls_status status = join(path, LS_CHECKPOINT_MANIFEST, &manifest);
    int is_one = status == LS_OK && stat(manifest, &there) == 0;
    if (status == LS_OK) free(manifest);
    if (is_one) {
        ls_checkpoint_entry *grown = realloc(*list, (size_t)(*count + 1) * sizeof *grown);
        if (!grown) {
            status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        } else {
            *list = grown;
            ls_checkpoint_entry *e = &grown[(*count)++];
            *e = (ls_checkpoint_entry){.all_steps = INT64_MAX, .score = NAN};
            snprintf(e->name, sizeof e->name, "%s", name);
            if (read_json(path, LS_CHECKPOINT_STATE, &state) == LS_OK) describe(state, e);
            json_decref(state);
        }
    }
    free(path);
    return status;
}

ls_status ls__checkpoints_list(const char *folder, ls_checkpoint_entry **out, int *count) {
    *out = NULL;
    *count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot look into %s: %s", folder,
                       strerror(errno));
    ls_status status = LS_OK;
    for (const struct dirent *entry; status == LS_OK && (entry = readdir(dir));)
        status = add_entry(folder, entry->d_name, out, count);
    closedir(dir);
    if (status == LS_OK && *count > 1) qsort(*out, (size_t)*count, sizeof **out, by_steps);
    if (status != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

// The newest that is not damaged; *damaged gets the sentence about the newest that is.
static ls_status open_newest(const char *folder, const ls_checkpoint_entry *list, int count, char *damaged, size_t size,
                             ls_checkpoint **out) {
    ls_status first = LS_OK;
    for (int i = 0; i < count; i++) {
        char *path;
        LS_TRY(join(folder, list[i].name, &path));
        ls_status status = open_one(path, out);
        free(path);
        if (status == LS_OK) return LS_OK;
        if (status != LS_STATUS_BAD_DATA && status != LS_STATUS_NOT_FOUND && status != LS_STATUS_IO) return status;
        if (first == LS_OK) snprintf(damaged, size, "%s", ls_error_message());
        if (first == LS_OK) first = LS_STATUS_BAD_DATA;
    }
    if (first == LS_OK) return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no checkpoint in %s", folder);
    if (count == 1) return LS_FAIL(LS_STATUS_BAD_DATA, "the only checkpoint in %s is not whole: %s", folder, damaged);
    return LS_FAIL(LS_STATUS_BAD_DATA, "none of the %d checkpoints in %s is whole; of the newest: %s", count, folder,
                   damaged);
}

static ls_status find_newest(const char *folder, ls_checkpoint **out) {
    ls_checkpoint_entry *list;
    int count;
    char damaged[1024] = "";
    LS_TRY(ls__checkpoints_list(folder, &list, &count));
    ls_status status = open_newest(folder, list, count, damaged, sizeof damaged, out);
    free(list);
    LS_TRY(status);
    free((*out)->damaged);
    (*out)->damaged = NULL;
    status = ls_strdup(damaged, &(*out)->damaged);
    if (status != LS_OK) ls_checkpoint_close(out);
    return status;
}

ls_status ls_checkpoint_find(const char *path, ls_checkpoint **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(path, "path");
    char *manifest;
    struct stat there;
    if (stat(path, &there) != 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "there is no checkpoint %s: %s", path,
                       strerror(errno));
    if (!S_ISDIR(there.st_mode)) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is a file, and a checkpoint is a folder", path);
    LS_TRY(join(path, LS_CHECKPOINT_MANIFEST, &manifest));
    int is_one = stat(manifest, &there) == 0;
    free(manifest);
    if (is_one) return open_one(path, out);
    char *state;
    LS_TRY(join(path, LS_CHECKPOINT_STATE, &state));
    int begun = stat(state, &there) == 0;
    free(state);
    if (begun)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is not finished: it has no " LS_CHECKPOINT_MANIFEST ", which is written last", path);
    return find_newest(path, out);
}

void ls_checkpoint_close(ls_checkpoint **checkpoint) {
    if (!checkpoint || !*checkpoint) return;
    ls_checkpoint *c = *checkpoint;
    json_decref(c->state);
    json_decref(c->manifest);
    free(c->text);
    free(c->path);
    free(c->damaged);
    free(c->recipe);
    free(c);
    *checkpoint = NULL;
}

const char *ls_checkpoint_path(const ls_checkpoint *c) { return c ? c->path : NULL; }
const char *ls_checkpoint_damaged(const ls_checkpoint *c) { return c ? c->damaged : NULL; }
const char *ls_checkpoint_recipe(const ls_checkpoint *c) { return c ? c->recipe : NULL; }

const char *ls_checkpoint_numerics(const ls_checkpoint *c) {
    const char *text = c ? json_string_value(json_object_get(c->state, "numerics")) : NULL;
    return text || !c ? text : "";
}

const char *ls_checkpoint_state(const ls_checkpoint *c) { return c ? c->text : NULL; }

const char *ls_checkpoint_file(const ls_checkpoint *c, int index) {
    const char *name;
    json_t *entry;
    int at = 0;
    if (!c) return NULL;
    json_object_foreach(json_object_get(c->manifest, "files"), name, entry) {
        if (at++ == index) return name;
    }
    return NULL;
}

static const json_t *listed(const ls_checkpoint *c, const char *file) {
    return c && file ? json_object_get(json_object_get(c->manifest, "files"), file) : NULL;
}

int64_t ls_checkpoint_file_bytes(const ls_checkpoint *c, const char *file) {
    return listed(c, file) ? whole(listed(c, file), "bytes") : -1;
}

const char *ls_checkpoint_file_digest(const ls_checkpoint *c, const char *file) {
    const char *text = json_string_value(json_object_get(listed(c, file), "sha256"));
    return text || !c ? text : "";
}

static int64_t place_of(const ls_checkpoint *c, const char *name) {
    int64_t n = c ? whole(json_object_get(c->state, "position"), name) : 0;
    return n < 0 ? 0 : n;
}

int ls_checkpoint_epoch(const ls_checkpoint *c) { return (int)place_of(c, "epoch"); }
int64_t ls_checkpoint_step(const ls_checkpoint *c) { return place_of(c, "step"); }
int64_t ls_checkpoint_all_steps(const ls_checkpoint *c) { return place_of(c, "all_steps"); }
