#define _GNU_SOURCE
#include "cli/saved.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/text.h"

#define FORMAT  "lockstep checkpoint"
#define VERSION 1
#define ANOTHER "name another checkpoint of the same folder, or copy this one again"

// --- paths -----------------------------------------------------------------------------------------------------------

static ls_status join(const char *folder, const char *name, char **out) {
    size_t n = strlen(folder);
    if (asprintf(out, "%s%s%s", folder, n && folder[n - 1] == '/' ? "" : "/", name) >= 0) return LS_OK;
    *out = NULL;
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the path of a checkpoint");
}

static int is_there(const char *folder, const char *name) {
    char *path;
    struct stat there;
    if (join(folder, name, &path) != LS_OK) return 0;
    int found = stat(path, &there) == 0;
    free(path);
    return found;
}

// --- files -----------------------------------------------------------------------------------------------------------

static ls_status open_file(const char *path, FILE **out) {
    *out = ls_input_open(path);
    if (*out) return LS_OK;
    return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s; " ANOTHER, path,
                   strerror(errno));
}

static ls_status read_json(const char *folder, const char *name, json_t **out) {
    char *path;
    FILE *file;
    json_error_t error;
    *out = NULL;
    LS_TRY(join(folder, name, &path));
    ls_status status = open_file(path, &file);
    if (status == LS_OK) {
        *out = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
        fclose(file);
        if (!json_is_object(*out))
            status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: %s; " ANOTHER, path,
                             *out ? "it is no JSON object" : error.text);
    }
    free(path);
    return status;
}

// SHA-256 and length of what is left of a file.
static ls_status hash(FILE *file, const char *path, char text[65], int64_t *bytes) {
    static const char digits[] = "0123456789abcdef";
    unsigned char block[1 << 16], sum[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    EVP_MD_CTX *sha = EVP_MD_CTX_new();
    int fine = sha && EVP_DigestInit_ex(sha, EVP_sha256(), NULL);
    *bytes = 0;
    for (size_t n; fine && (n = fread(block, 1, sizeof block, file)) > 0; *bytes += (int64_t)n)
        fine = EVP_DigestUpdate(sha, block, n);
    fine = fine && EVP_DigestFinal_ex(sha, sum, &length) && length == 32;
    EVP_MD_CTX_free(sha);
    if (ferror(file)) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    if (!fine) return LS_FAIL(LS_STATUS_LIBRARY, "%s: its SHA-256 cannot be computed", path);
    for (unsigned i = 0; i < length; i++) {
        text[2 * i] = digits[sum[i] >> 4];
        text[2 * i + 1] = digits[sum[i] & 15];
    }
    text[2 * length] = 0;
    return LS_OK;
}

static const json_t *entry(const cli_saved *s, const char *file) {
    return json_object_get(json_object_get(s->manifest, "files"), file);
}

int64_t cli_saved_bytes(const cli_saved *s, const char *file) {
    const json_t *bytes = json_object_get(entry(s, file), "bytes");
    return json_is_integer(bytes) ? json_integer_value(bytes) : -1;
}

const char *cli_saved_digest(const cli_saved *s, const char *file) {
    const char *text = json_string_value(json_object_get(entry(s, file), "sha256"));
    return text ? text : "";
}

static ls_status compare(const cli_saved *s, const char *file, const char *path, int64_t bytes, const char *sha) {
    int64_t expected = cli_saved_bytes(s, file);
    if (expected < 0 || !cli_saved_digest(s, file)[0])
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: its manifest.json does not tell what %s is to be; " ANOTHER,
                       s->folder, file);
    if (bytes != expected)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is damaged: it has %lld bytes, and had %lld when it was written; " ANOTHER, path,
                       (long long)bytes, (long long)expected);
    if (strcmp(sha, cli_saved_digest(s, file)) == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: its SHA-256 is not the one it was written with; " ANOTHER, path);
}

ls_status cli_saved_check(const cli_saved *s, const char *file) {
    char *path, sha[65];
    FILE *stream;
    int64_t bytes;
    if (!s->folder) return LS_OK;
    LS_TRY(join(s->folder, file, &path));
    ls_status status = open_file(path, &stream);
    if (status == LS_OK) {
        status = hash(stream, path, sha, &bytes);
        fclose(stream);
    }
    if (status == LS_OK) status = compare(s, file, path, bytes, sha);
    free(path);
    return status;
}

// --- a checkpoint ----------------------------------------------------------------------------------------------------

const json_t *cli_saved_recipe(const cli_saved *s) { return json_object_get(s->state, "recipe"); }

static int64_t position(const json_t *state, const char *what) {
    const json_t *number = json_object_get(json_object_get(state, "position"), what);
    return json_is_integer(number) ? json_integer_value(number) : -1;
}

const char *cli_saved_numerics(const cli_saved *s) { return json_string_value(json_object_get(s->state, "numerics")); }

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

int64_t cli_saved_position(const cli_saved *s, const char *what) { return position(s->state, what); }

static ls_status check_state(const cli_saved *s) {
    const char *format = json_string_value(json_object_get(s->state, "format"));
    const json_t *version = json_object_get(s->state, "format_version");
    if (!format || strcmp(format, FORMAT) != 0 || !json_is_integer(version))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s/state.json is not that of a checkpoint: its \"format\" is not \"%s\"",
                       s->folder, FORMAT);
    if (json_integer_value(version) == VERSION) return LS_OK;
    return LS_FAIL(
        LS_STATUS_UNSUPPORTED,
        "%s is a checkpoint of format %lld, and this version reads format %d: take the Lockstep that wrote it",
        s->folder, (long long)json_integer_value(version), VERSION);
}

// Of a folder that is one; takes it over.
static ls_status open_one(char *folder, cli_saved *s) {
    s->folder = folder;
    LS_TRY(join(folder, "weights.safetensors", &s->weights));
    LS_TRY(read_json(folder, "manifest.json", &s->manifest));
    LS_TRY(cli_saved_check(s, "state.json"));
    LS_TRY(read_json(folder, "state.json", &s->state));
    return check_state(s);
}

// The steps of a finished checkpoint in a folder; -1: it is none.
static ls_status steps_of(const char *folder, int64_t *steps) {
    json_t *state;
    *steps = -1;
    if (!is_there(folder, "manifest.json")) return LS_OK;
    ls_status status = read_json(folder, "state.json", &state);
    if (status == LS_STATUS_NOT_FOUND) return LS_OK;  // it is just being removed
    if (status == LS_OK) *steps = position(state, "all_steps");
    json_decref(state);
    return status;
}

static ls_status look_at(const char *path, const char *name, int64_t *most, char **newest) {
    char *folder;
    int64_t steps;
    LS_TRY(join(path, name, &folder));
    ls_status status = steps_of(folder, &steps);
    if (status != LS_OK || steps < *most || steps < 0 || (steps == *most && *newest && strcmp(folder, *newest) < 0)) {
        free(folder);
        return status;
    }
    free(*newest);
    *newest = folder;
    *most = steps;
    return LS_OK;
}

static ls_status find_newest(const char *path, char **out) {
    int64_t most = -1;
    ls_status status = LS_OK;
    *out = NULL;
    DIR *dir = opendir(path);
    if (!dir) return LS_FAIL(LS_STATUS_IO, "cannot read the folder %s: %s", path, strerror(errno));
    // Those that begin with a dot are not finished.
    for (struct dirent *e; status == LS_OK && (e = readdir(dir));)
        if (e->d_name[0] != '.') status = look_at(path, e->d_name, &most, out);
    closedir(dir);
    if (status == LS_OK && !*out)
        status =
            LS_FAIL(LS_STATUS_NOT_FOUND,
                    "%s has no checkpoint, neither a manifest.json nor a folder with one: name a checkpoint, a folder "
                    "of them, or a .safetensors file",
                    path);
    if (status != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static ls_status open_folder(const char *path, cli_saved *s) {
    char *folder = NULL;
    if (is_there(path, "manifest.json")) {
        folder = strdup(path);
        if (!folder) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the path of a checkpoint");
    } else if (is_there(path, "state.json")) {
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is not finished: it has no manifest.json, which is written last; " ANOTHER, path);
    } else {
        LS_TRY(find_newest(path, &folder));
    }
    return open_one(folder, s);
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
    return out->weights ? LS_OK : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the path of a file");
}

void cli_saved_close(cli_saved *s) {
    free(s->folder);
    free(s->weights);
    json_decref(s->state);
    json_decref(s->manifest);
    *s = (cli_saved){.folder = NULL};
}
