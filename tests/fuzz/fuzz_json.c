// Fuzzes the readers of what runs leave behind and of what users write: records, studies, traces and configuration. The first byte of
// an input says which of them the rest is.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_json [--iterations N]   spoil and try
//   fuzz_json --seeds DIR        write good files as a corpus for libFuzzer
//   fuzz_json FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/status.h>

#include "json_samples.h"
#include "options_sample.h"
#include "report/record.h"
#include "report/study.h"
#include "report/trace_report.h"

enum { RECORD, STUDY, TRACE, CONFIG, KINDS };
enum { ROOM = 16384 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_json: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                 \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static char folder[64], path[160];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_all(void) {
    static const char *const names[] = {"runs/a.json",
                                        "runs/b.failed",
                                        "study.json",
                                        "record.json",
                                        "trace.json",
                                        "config.json",
                                        "results.csv",
                                        "results.md",
                                        "index.html",
                                        "runs",
                                        ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) remove(in_folder(names[i]));
}

static void put(const char *name, const void *data, size_t size) {
    FILE *f = fopen(in_folder(name), "wb");
    MUST(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

static void make_folder(void) {
    if (folder[0]) return;
    strcpy(folder, access("/dev/shm", W_OK) == 0 ? "/dev/shm/lockstep-fuzz-XXXXXX" : "/tmp/lockstep-fuzz-XXXXXX");
    MUST(mkdtemp(folder));
    atexit(remove_all);
    MUST(mkdir(in_folder("runs"), 0700) == 0);
    put("runs/a.json", sample_record, sizeof sample_record - 1);
    put("runs/b.failed", "no room\n", 8);
}

// A sentence, and nothing that a terminal would obey but what the file itself says of it.
static void refused(ls_status status) { MUST(status != LS_STATUS_INTERNAL && ls_error_message()[0]); }

static int is_clean(const char *text) {
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\n' && *text != '\t') || *text == 0x7F) return 0;
    return 1;
}

static void study(const char *file, int write) {
    ls_study *s;
    const char *const paths[] = {file};
    ls_status status = ls_study_load(paths, 1, &s);
    if (status != LS_OK) {
        refused(status);
        return;
    }
    char *text;
    MUST(ls_study_table_text(s, 80, &text) == LS_OK && is_clean(text));
    free(text);
    for (int utf8 = 0; utf8 < 2; utf8++) {
        MUST(ls_study_charts_text(s, 80, utf8, &text) == LS_OK && is_clean(text));
        free(text);
    }
    if (write) MUST(ls_study_write_tables(s, folder) == LS_OK && ls_study_write_page(s, folder) == LS_OK);
    ls_study_free(&s);
}

static void trace(const char *file) {
    ls_trace_report *t;
    char *text;
    (void)ls_trace_report_is(file);
    ls_status status = ls_trace_report_load(file, &t);
    MUST((status == LS_OK) == (t != NULL));
    if (!t) {
        refused(status);
        return;
    }
    MUST(ls_trace_report_text(t, file, &text) == LS_OK && is_clean(text));
    free(text);
    ls_trace_report_free(&t);
}

static void config(const char *file) {
    sample_values values = sample_defaults;
    const ls_option_set sets[] = {{sample_options, &values}, {NULL, NULL}};
    const char *model = NULL;
    void *keep;
    char line[512];
    ls_status status = ls_config_load(file, sets, &model, &keep);
    if (status != LS_OK) refused(status);
    if (status == LS_OK) {
        MUST(values.epochs >= 1 && values.batch >= 1 && values.batch <= 1000000000 && values.lr >= 0 && values.lr <= 1);
        ls_options_line(sets, line, sizeof line);
        MUST(strlen(line) < sizeof line);
    }
    ls_config_free(&keep);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"record.json", "study.json", "trace.json", "config.json"};
    if (size < 1) return 0;
    make_folder();
    int kind = data[0] % KINDS, write = data[0] / KINDS % 8 == 0;
    put(names[kind], data + 1, size - 1);
    char file[160];
    snprintf(file, sizeof file, "%s", in_folder(kind == STUDY ? "." : names[kind]));
    switch (kind) {
    case RECORD: study(file, write); break;
    case STUDY: study(file, write); break;
    case TRACE: trace(file); break;
    default: config(file); break;
    }
    unlink(in_folder(names[kind]));
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

typedef struct input {
    uint8_t p[ROOM];
    size_t n;
} input;

static input good(int kind) {
    static const struct {
        const char *text;
        size_t size;
    } samples[] = {{sample_record, sizeof sample_record - 1},
                   {sample_study, sizeof sample_study - 1},
                   {sample_trace, sizeof sample_trace - 1},
                   {sample_config, sizeof sample_config - 1}};
    input in = {.n = 1 + samples[kind].size};
    in.p[0] = (uint8_t)(kind + KINDS * (int)draw(8));
    memcpy(in.p + 1, samples[kind].text, samples[kind].size);
    return in;
}

// Replaces `n` bytes at `at` by a text.
static void replace(input *in, size_t at, size_t n, const char *text) {
    size_t m = strlen(text);
    if (at + n > in->n || in->n + m > ROOM) return;
    memmove(in->p + at + m, in->p + at + n, in->n - at - n);
    memcpy(in->p + at, text, m);
    in->n += m - n;
}

// A value of JSON becomes another one.
static void other_value(input *in, size_t at) {
    static const char *const values[] = {"0",     "-1",
                                         "1e308", "-1e308",
                                         "1e15",  "9223372036854775807",
                                         "null",  "true",
                                         "[]",    "{}",
                                         "\"\"",  "\"=1\"",
                                         "[1]",   "0.5",
                                         "65536", "\"\\u001b[2J\"",
                                         "1e-9",  "2",
                                         "99",    "\"<b>\"",
                                         "1e6",   "\"a|b\"",
                                         "[[]]",  "[null]",
                                         "1000",  "\"-\""};
    while (at < in->n && in->p[at] != ':') at++;
    size_t end = at + 1;
    while (end < in->n && !strchr(",}]\n", in->p[end])) end++;
    if (at < in->n) replace(in, at + 1, end - at - 1, values[draw(sizeof values / sizeof values[0])]);
}

static void spoil(input *in) {
    static const char *const words[] = {"{",  "}",       "[",        "]",       "\"", ",",  ":",    "null", "-",
                                        "1e", "\\u0000", "[[[[[[[[", "{\"a\":", "\n", "]}", "name", "\xff"};
    if (in->n < 2) return;
    uint32_t length = (uint32_t)in->n - 1;
    size_t at = 1 + draw(length), from = 1 + draw(length), run = 1 + draw(24);
    switch (draw(8)) {
    case 0: in->p[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: in->p[at] = (uint8_t)draw(256); break;
    case 2: in->n = at; break;
    case 3:
        if (from + run <= in->n && at + run <= in->n) memmove(in->p + at, in->p + from, run);
        break;
    case 4: replace(in, at, draw(4), words[draw(sizeof words / sizeof words[0])]); break;
    case 5: replace(in, at, run, ""); break;
    default: other_value(in, at); break;
    }
}

static int write_seeds(const char *to) {
    for (int kind = 0; kind < KINDS; kind++) {
        input in = good(kind);
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", to, kind);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(in.p, 1, in.n, f) != in.n || fclose(f) != 0) {
            fprintf(stderr, "fuzz_json: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

static void try_one(void) {
    input in = good((int)draw(KINDS));
    for (uint32_t k = draw(5); k; k--) spoil(&in);
    LLVMFuzzerTestOneInput(in.p, in.n);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_json", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
