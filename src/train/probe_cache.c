#define _GNU_SOURCE
#include "train/probe_cache.h"

#include <ctype.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/input.h"
#include "base/output.h"
#include "train/sha256.h"
#include "train/tune.h"

extern char **environ;

// --- the key ---------------------------------------------------------------------------------------------------------

typedef struct objects {
    EVP_MD_CTX *sha;
    int unknown;
} objects;

// The program has no name here, and what the kernel maps by itself no file.
static int add_object(struct dl_phdr_info *info, size_t size, void *user) {
    objects *o = user;
    const char *path = info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe";
    struct stat s;
    if (stat(path, &s) != 0) {
        o->unknown |= strncmp(path, "linux-", 6) != 0;
        return 0;
    }
    int64_t of[] = {s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec};
    EVP_DigestUpdate(o->sha, path, strlen(path) + 1);
    EVP_DigestUpdate(o->sha, of, sizeof of);
    return 0;
}

#if defined(__x86_64__)
static void add_leaf(EVP_MD_CTX *sha, unsigned leaf, unsigned sub) {
    unsigned r[4] = {0};
    __get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]);
    if (leaf == 1) r[1] &= 0x00FFFFFFu;  // without the number of the core that this runs on
    if (leaf == 1) r[2] &= ~(1u << 27);  // nor what the system has switched on
    if (leaf == 0x8000001Du || leaf == 4) r[3] &= 0xFFu;
    EVP_DigestUpdate(sha, r, sizeof r);
}

// Maker, model, instructions, caches: by the instruction that the kernel library asks, too.
static int add_processor(EVP_MD_CTX *sha) {
    static const unsigned leaves[] = {0,           1,           2,           0x80000001u, 0x80000002u,
                                      0x80000003u, 0x80000004u, 0x80000005u, 0x80000006u};
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) add_leaf(sha, leaves[i], 0);
    for (unsigned sub = 0; sub < 5; sub++) {
        add_leaf(sha, 4, sub);
        add_leaf(sha, 0x8000001Du, sub);
        if (sub < 2) add_leaf(sha, 7, sub);
    }
    return 1;
}
#else
static int add_processor(EVP_MD_CTX *sha) { return 0; }
#endif

int ls__probe_key(const char *recipe, char key[65]) {
    objects o = {0};
    if (ls__sha256_begin(&o.sha) != LS_OK) return 0;
    EVP_DigestUpdate(o.sha, recipe, strlen(recipe) + 1);
    dl_iterate_phdr(add_object, &o);
    int known = add_processor(o.sha) && !o.unknown;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "ONEDNN_", 7) == 0 || strncmp(*e, "DNNL_", 5) == 0) EVP_DigestUpdate(o.sha, *e, strlen(*e) + 1);
    ls__sha256_end(o.sha, key);
    return known;
}

// --- the file --------------------------------------------------------------------------------------------------------

// At which length of a probe its digest is kept.
static double least_seconds(void) {
    const char *text = getenv("LOCKSTEP_PROBE_SECONDS");
    char *end;
    if (!text) return LS_PROBE_SECONDS;
    double seconds = strtod(text, &end);
    return end == text || *end || !(seconds >= 0) ? 1e300 : seconds;
}

// With `make` its folder is made.
static char *file_of(const char *key, int make) {
    char *folder = least_seconds() < 1e300 ? ls_tune_folder() : NULL, *path = NULL;
    if (folder && make) ls_tune_make_folder(folder);
    if (folder && asprintf(&path, "%s/probe-%.2s", folder, key) < 0) path = NULL;
    free(folder);
    return path;
}

static int is_digest(const char *text) {
    for (int i = 0; i < 64; i++)
        if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f')) return 0;
    return 1;
}

// "KEY DIGEST SECONDS\n": always as long.
enum { LENGTH = 64 + 1 + 64 + 1 + 12 + 1 };

int ls__probe_load(const char *key, ls_probe_kept *out) {
    char *path = file_of(key, 0), text[LENGTH + 1], *end;
    FILE *file = path ? ls_input_open(path) : NULL;
    size_t size = file ? fread(text, 1, sizeof text, file) : 0;
    int found = size == LENGTH && memcmp(text, key, 64) == 0 && text[64] == ' ' && is_digest(text + 65) &&
                text[129] == ' ' && text[LENGTH - 1] == '\n';
    *out = (ls_probe_kept){0};
    if (found) {
        text[LENGTH - 1] = 0;
        out->seconds = strtod(text + 130, &end);
        found = *end == 0 && out->seconds >= 0 && out->seconds < 1e9;
    }
    if (found)
        memcpy(out->digest, text + 65, 64);
    else
        out->seconds = 0;
    if (file) fclose(file);
    free(path);
    return found;
}

void ls__probe_store(const char *key, const ls_probe_kept *kept, double took) {
    char *path = took >= least_seconds() ? file_of(key, 1) : NULL;
    ls_output out;
    if (path && ls_output_open(path, &out) == 0)
        ls_output_close(&out, path, fprintf(out.file, "%s %s %.6e\n", key, kept->digest, kept->seconds) == LENGTH);
    free(path);
}
