// Fuzzes what people type: command lines, times, amounts of memory. The first byte of an input says which; words of a command line end
// with newlines.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good lines in a fixed sequence of ways, the same in every run.
//
//   fuzz_options [--iterations N]   spoil and try
//   fuzz_options --seeds DIR        write good lines as a corpus for libFuzzer
//   fuzz_options FILE...            try these inputs, to see again what a fuzzer found
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/status.h>

#include "base/bytes.h"
#include "base/duration.h"
#include "options_sample.h"

enum { LINE, DURATION, BYTES, HELP, KINDS };
enum { WORDS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_options: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,              \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static void refused(ls_status status) { MUST(status == LS_STATUS_INVALID_ARGUMENT && ls_error_message()[0]); }

static void check_values(const sample_values *v, const ls_option_set *sets) {
    MUST(v->epochs >= 1 && v->batch >= 1 && v->batch <= 1000000000 && v->lr >= 0 && v->lr <= 1);
    MUST((v->shuffle == 0 || v->shuffle == 1) && (v->nesterov == 0 || v->nesterov == 1) && v->seed <= INT64_MAX);
    MUST(strcmp(v->precision, "fp32") == 0 || strcmp(v->precision, "bf16") == 0);
    char small[40], large[4096];
    memset(small, 'x', sizeof small);
    ls_options_line(sets, small, sizeof small - 1);
    MUST(strlen(small) < sizeof small - 1 && small[sizeof small - 1] == 'x');
    ls_options_line(sets, large, sizeof large);
    MUST(strlen(large) < sizeof large && strstr(large, "epochs="));
    // What is printed reads back as the same.
    for (const ls_option *o = sample_options; o->name; o++) {
        sample_values again = *v;
        const ls_option_set other[] = {{sample_options, &again}, {NULL, NULL}};
        char a[64], b[64];
        const char *text = ls_option_text(o, v, a, sizeof a);
        if (!*text) continue;
        MUST(ls_options_assign(other, o->name, text) == LS_OK);
        MUST(strcmp(ls_option_text(o, &again, b, sizeof b), text) == 0);
    }
}

static void command_line(char *text, size_t size, int help) {
    char *argv[WORDS];
    int argc = 0;
    for (char *p = text, *end = text + size; p < end && argc < WORDS; p += strlen(p) + 1) {
        char *newline = strchr(p, '\n');
        if (newline) *newline = 0;
        argv[argc++] = p;
    }
    sample_values values = sample_defaults;
    const ls_option_set sets[] = {{sample_options, &values}, {NULL, NULL}};
    ls_words words;
    ls_status status = ls_options_parse(sets, argc, argv, 3, &words);
    if (status != LS_OK) {
        refused(status);
        return;
    }
    MUST(words.count >= 0 && words.count <= 3);
    check_values(&values, sets);
    if (!help) return;
    FILE *nowhere = fopen("/dev/null", "w");
    ls_options_help(nowhere, sets, 60);
    fclose(nowhere);
}

static void duration(const char *text) {
    double seconds;
    char buffer[32];
    ls_status status = ls_duration_parse(text, &seconds);
    if (status != LS_OK) {
        refused(status);
        return;
    }
    MUST(isfinite(seconds) && seconds > 0 && strlen(ls_duration_text(seconds, buffer)) > 0);
}

static void bytes(const char *text) {
    int64_t amount;
    char buffer[32];
    ls_status status = ls_bytes_parse(text, &amount);
    if (status != LS_OK) {
        refused(status);
        return;
    }
    MUST(amount > 0 && strlen(ls_bytes_text(amount, buffer)) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    char *text = malloc(size);  // exactly as long as it is
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] % KINDS) {
    case DURATION: duration(text); break;
    case BYTES: bytes(text); break;
    default: command_line(text, size - 1, data[0] % KINDS == HELP); break;
    }
    free(text);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

enum { ROOM = 4096 };

static const struct {
    int kind;
    const char *text;
} samples[] = {{LINE, "--epochs\n7\n--lr=0.5\nword\n--no-shuffle\n--record\nfile"},
               {LINE, "--seed\n9223372036854775807\n--batch-size\n64\n--precision\nbf16\n--\n--epochs"},
               {HELP, "--augment\nflip,crop,cutout\n--nesterov\n-h"},
               {DURATION, "1-12:30:05"},
               {DURATION, "90"},
               {BYTES, "1.5T"},
               {BYTES, "900M"}};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static int write_seeds(const char *folder) {
    for (int i = 0; i < SAMPLES; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", folder, i);
        FILE *f = fopen(name, "wb");
        if (!f || fputc(samples[i].kind, f) == EOF || fputs(samples[i].text, f) == EOF || fclose(f) != 0) {
            fprintf(stderr, "fuzz_options: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

static void try_one(void) {
    static const char *const words[] = {"--epochs",
                                        "--lr",
                                        "-1",
                                        "1e999",
                                        "nan",
                                        "0x10",
                                        "--no-",
                                        "--no-epochs",
                                        "\n",
                                        "=",
                                        "--",
                                        "-",
                                        "99999999999999999999",
                                        ":",
                                        "-",
                                        "1e",
                                        "--help",
                                        "flip,",
                                        ",",
                                        "0",
                                        "--shufle",
                                        "K",
                                        "P",
                                        "\x80"};
    uint8_t in[ROOM];
    const int which = (int)draw(SAMPLES);
    size_t n = 1 + strlen(samples[which].text);
    in[0] = (uint8_t)samples[which].kind;
    memcpy(in + 1, samples[which].text, n - 1);
    for (uint32_t k = draw(5); k; k--) {
        const char *word = words[draw(sizeof words / sizeof words[0])];
        size_t at = 1 + draw((uint32_t)n), m = strlen(word);
        if (at > n) at = n;
        switch (draw(4)) {
        case 0:
            if (at < n) in[at] = (uint8_t)draw(256);
            break;
        case 1: n = at; break;
        default:
            if (n + m > ROOM) break;
            memmove(in + at + m, in + at, n - at);
            memcpy(in + at, word, m);
            n += m;
        }
    }
    LLVMFuzzerTestOneInput(in, n);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_options", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
