// Fuzzes the reader of networks as text.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good texts in a fixed sequence of ways, the same in every run.
//
//   fuzz_network [--iterations N]   spoil and try
//   fuzz_network --seeds DIR        write good texts as a corpus for libFuzzer
//   fuzz_network FILE...            try these inputs, to see again what a fuzzer found
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_network: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,              \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

// A network that is taken can be written, and is the same when it is read again.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_model_config config;
    ls_graph *g, *again;
    char *text = malloc(size + 1), *written;
    memcpy(text, data, size);
    text[size] = 0;
    ls_model_config_init(&config);
    ls_status status = ls_network_read("input.net", text, &config, &g);
    MUST((status == LS_OK) == (g != NULL));
    if (g) {
        MUST(ls_network_text(g, &written) == LS_OK);
        MUST(ls_network_read("input.net", written, &config, &again) == LS_OK);
        MUST(ls__graph_fingerprint(g) == ls__graph_fingerprint(again));
        ls_graph_destroy(&again);
        free(written);
    } else {
        MUST(strstr(ls_error_message(), "input.net") || strstr(ls_error_message(), "cannot read"));
        for (const char *c = ls_error_message(); *c; c++) MUST(((unsigned char)*c >= 0x20 || *c == '\t') && *c != 0x7F);
    }
    ls_graph_destroy(&g);
    free(text);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER
#include "driver.h"

static const char *const good[] = {
    ("network n\nblock b f k=3x3 act=relu\n  a = conv2d filters=f*2 kernel_size=k padding=same activation=act\n"
     "  c = conv2d filters=channels kernel_size=1 from a\n  add from a, c\nend\nclasses 7\nimage = input 12x12x3\n"
     "repeat 2 as i\n  u{i} = b f=4\nend\n\"a b\" = concat from u1, u2\nmax_pool2d\ntop\nflatten\ndropout rate=0.5\n"
     "dense units=classes\n"),
    ("words = input 6 i32\nlabel = input i32\ntarget = input 3\nx = embedding input_dim=9 output_dim=4\n"
     "global_average_pool1d\na = dense units=3 no_bias\nb = dense units=3 kernel_initializer=he_normal from x\n"
     "reshape target_shape=3x6\nflatten\nc = dense units=3\nbinary_cross_entropy weight=0.5 from c, target\n"
     "softmax_cross_entropy from a, label\nauc from a, target\noutput a\noutput second = c\n"),
    ("input 9x9x2\nzero_pad2d padding=0,1,2,3\nbatch_norm epsilon=1e-5 no_scale\nrescaling scale=1/127.5 offset=-1\n"
     "global_average_pool2d keepdims\nfeatures\n"),
};
enum { TEXTS = sizeof good / sizeof good[0], ROOM = 8192 };

typedef struct input {
    char p[ROOM];
    size_t n;
} input;

// Replaces `n` bytes at `at` by a text.
static void replace(input *in, size_t at, size_t n, const char *by) {
    size_t m = strlen(by);
    if (at + n > in->n || in->n + m > ROOM) return;
    memmove(in->p + at + m, in->p + at + n, in->n - at - n);
    memcpy(in->p + at, by, m);
    in->n += m - n;
}

static void spoil(input *in) {
    static const char *const words[] = {"repeat 3\n",
                                        "end\n",
                                        "block q n=2\n",
                                        "from",
                                        " from in",
                                        "=",
                                        "{i}",
                                        "{",
                                        "\"",
                                        "#",
                                        "1e9",
                                        "-1",
                                        "0",
                                        "x",
                                        ",",
                                        "(",
                                        ")",
                                        "*",
                                        "/0",
                                        "channels",
                                        "classes",
                                        "top\n",
                                        "output in\n",
                                        "input 4\n",
                                        "conv2d",
                                        "dense units=2\n",
                                        "relu\n",
                                        "b f=1\n",
                                        "include \"in.net\"\n",
                                        "features\n",
                                        " as i",
                                        "flatten\n",
                                        "999999999",
                                        "network z\n"};
    if (in->n < 2) return;
    size_t at = draw((uint32_t)in->n), run = 1 + draw(12), from = draw((uint32_t)in->n);
    switch (draw(6)) {
    case 0: in->p[at] ^= (char)(1u << draw(7)); break;
    case 1: in->p[at] = (char)draw(256); break;
    case 2: in->n = at; break;
    case 3:
        if (from + run <= in->n && at + run <= in->n) memmove(in->p + at, in->p + from, run);
        break;
    case 4: replace(in, at, draw(4), words[draw(sizeof words / sizeof words[0])]); break;
    default: replace(in, at, run, ""); break;
    }
}

static void try_one(void) {
    const char *text = good[draw(TEXTS)];
    input in = {.n = strlen(text)};
    memcpy(in.p, text, in.n);
    for (uint32_t k = draw(5); k; k--) spoil(&in);
    LLVMFuzzerTestOneInput((const uint8_t *)in.p, in.n);
}

static int write_seeds(const char *folder) {
    for (int i = 0; i < TEXTS; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", folder, i);
        FILE *f = fopen(name, "wb");
        if (!f || fputs(good[i], f) < 0 || fclose(f) != 0) {
            fprintf(stderr, "fuzz_network: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_network", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
