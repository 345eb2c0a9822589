// Measurements of the exchange that are kept from one job to the next: a file of JSON for each key.
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/input.h"
#include "base/output.h"
#include "train/tune.h"

#define FORMAT  "lockstep exchange"
#define VERSION 2
#define LARGEST (64 << 10)  // bytes of a file that is looked at

char *ls_tune_folder(void) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *folder = NULL;
    int n = -1;
    if (cache && cache[0] == '/')  // others are to be ignored, says the XDG Base Directory Specification
        n = asprintf(&folder, "%s/lockstep", cache);
    else if (home && home[0] == '/')
        n = asprintf(&folder, "%s/.cache/lockstep", home);
    return n < 0 ? NULL : folder;
}

static char *file_of(const char *folder, const char *key) {
    uint64_t hash = 1469598103934665603u;
    char *path;
    for (const char *c = key; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return asprintf(&path, "%s/exchange-%016llx.json", folder, (unsigned long long)hash) < 0 ? NULL : path;
}

// --- reading ---------------------------------------------------------------------------------------------------------

// Both zero, or what a network may have.
static int read_speed(const json_t *o, ls_tune_speed *out) {
    const json_t *seconds = json_object_get(o, "bucket_seconds"), *bytes = json_object_get(o, "bytes_per_second");
    const json_t *processor = json_object_get(o, "processor_seconds");
    if (!json_is_number(seconds) || !json_is_number(bytes) || !json_is_number(processor)) return 0;
    *out = (ls_tune_speed){json_number_value(seconds), json_number_value(bytes), json_number_value(processor)};
    if (out->bucket_seconds == 0 && out->bytes_per_second == 0 && out->processor_seconds == 0) return 1;
    return out->bucket_seconds > 1e-9 && out->bucket_seconds < 100 && out->bytes_per_second > 1 &&
           out->bytes_per_second < 1e14 && out->processor_seconds >= 0 && out->processor_seconds < 1e-3;
}

static int read_all(const json_t *root, const char *key, ls_tune_measured *out) {
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *its = json_string_value(json_object_get(root, "key"));
    if (!format || strcmp(format, FORMAT) != 0 || json_integer_value(json_object_get(root, "version")) != VERSION)
        return 0;
    if (!its || strcmp(its, key) != 0) return 0;
    return read_speed(json_object_get(root, "direct"), &out->direct) &&
           read_speed(json_object_get(root, "halving"), &out->halving);
}

int ls_tune_load(const char *folder, const char *key, ls_tune_measured *out) {
    char *path = folder ? file_of(folder, key) : NULL, *text = malloc(LARGEST);
    FILE *file = path ? ls_input_open(path) : NULL;
    size_t size = file && text ? fread(text, 1, LARGEST, file) : 0;
    json_t *root = size > 0 && size < LARGEST ? json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int found = read_all(root, key, out);
    if (!found) *out = (ls_tune_measured){0};
    json_decref(root);
    if (file) fclose(file);
    free(text);
    free(path);
    return found;
}

// --- writing ---------------------------------------------------------------------------------------------------------

void ls_tune_make_folder(const char *folder) {
    char *path = strdup(folder);
    for (char *c = path; c && *c; c++) {
        if (*c != '/' || c == path) continue;
        *c = 0;
        mkdir(path, 0700);
        *c = '/';
    }
    if (path) mkdir(path, 0700);
    free(path);
}

static json_t *speed(const ls_tune_speed *v) {
    return json_pack("{s:f,s:f,s:f}", "bucket_seconds", v->bucket_seconds, "bytes_per_second", v->bytes_per_second,
                     "processor_seconds", v->processor_seconds);
}

void ls_tune_store(const char *folder, const char *key, const ls_tune_measured *m) {
    char *path = folder ? file_of(folder, key) : NULL;
    json_t *root = json_pack("{s:s,s:i,s:s,s:o,s:o}", "format", FORMAT, "version", VERSION, "key", key, "direct",
                             speed(&m->direct), "halving", speed(&m->halving));
    ls_output out;
    if (path && root) {
        ls_tune_make_folder(folder);
        if (ls_output_open(path, &out) == 0)
            ls_output_close(&out, path, json_dumpf(root, out.file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0);
    }
    json_decref(root);
    free(path);
}
