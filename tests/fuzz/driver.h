// What a fuzzer does where libFuzzer does not drive it: it makes inputs of its own, takes files, or writes seeds for libFuzzer.
#ifndef LS_TESTS_FUZZ_DRIVER_H
#define LS_TESTS_FUZZ_DRIVER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUZZ_ITERATIONS
#define FUZZ_ITERATIONS 20000  // where nobody says how many
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t draw_state = 0x9E3779B97F4A7C15u;

// Less than `bound`, the same every time the program runs.
static uint32_t draw(uint32_t bound) {
    draw_state ^= draw_state << 13;
    draw_state ^= draw_state >> 7;
    draw_state ^= draw_state << 17;
    return (uint32_t)(draw_state >> 32) % bound;
}

typedef struct fuzzer {
    const char *name;
    void (*try_one)(void);                   // makes an input and tries it
    int (*write_seeds)(const char *folder);  // 0, or 1 after saying what could not be written
} fuzzer;

static int fuzz_try_file(const fuzzer *f, const char *name) {
    static uint8_t input[1 << 20];
    FILE *file = fopen(name, "rb");
    if (!file) {
        fprintf(stderr, "%s: cannot read %s\n", f->name, name);
        return 1;
    }
    size_t n = fread(input, 1, sizeof input, file);
    fclose(file);
    return LLVMFuzzerTestOneInput(input, n);
}

// NAME [--iterations N [SEED] | --seeds FOLDER | FILE...]
static int fuzz_main(const fuzzer *f, int argc, char **argv) {
    long iterations = FUZZ_ITERATIONS;
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0) return f->write_seeds(argv[2]);
    if (argc >= 3 && argc <= 4 && strcmp(argv[1], "--iterations") == 0) {
        iterations = atol(argv[2]);
        if (argc == 4) draw_state += (uint64_t)atol(argv[3]) << 1;
    } else if (argc > 1) {
        for (int i = 1; i < argc; i++)
            if (fuzz_try_file(f, argv[i]) != 0) return 1;
        return 0;
    }
    for (long i = 0; i < iterations; i++) f->try_one();
    printf("%s: %ld spoiled files, none took the reader down\n", f->name, iterations);
    return 0;
}

#endif
