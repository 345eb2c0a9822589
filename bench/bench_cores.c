// How near two cores are: bench_cores [TIMES [CORE CORE]]: once a second, what a word takes from one of two cores to the other and back, and how fast one
// reads a megabyte that the other has written. Cores with a last-level cache in common take some 50 ns, others several times as long; on a
// virtual machine that may change from one second to the next. Threads of one replica feel it, replicas do not.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { TRIPS = 200000, READS = 20, BYTES = 1 << 20 };

static _Atomic int ball, turn;
static _Alignas(64) char memory[BYTES];

static void bind(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        fprintf(stderr, "there is no core %d for this program\n", core);
        exit(1);
    }
}

static void *other(void *user) {
    bind(*(int *)user);
    for (int i = 0; i < TRIPS; i++) {
        while (ball != 1) continue;
        ball = 0;
    }
    for (int r = 0; r < READS; r++) {
        while (turn != 2 * r + 1) continue;
        memset(memory, r, BYTES);
        turn = 2 * r + 2;
    }
    return NULL;
}

static uint64_t sum(void) {
    uint64_t s = 0;
    for (size_t i = 0; i < BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, memory + i, 8);
        s += word;
    }
    return s;
}

static void measure(const int core[2]) {
    pthread_t thread;
    uint64_t seen = 0, last = 0;
    double least = 1e9;
    ball = turn = 0;
    bind(core[0]);
    if (pthread_create(&thread, NULL, other, (void *)&core[1]) != 0) exit(1);
    usleep(20000);
    double start = ls_clock();
    for (int i = 0; i < TRIPS; i++) {
        ball = 1;
        while (ball != 0) continue;
    }
    double trip = (ls_clock() - start) / TRIPS;
    for (int r = 0; r < READS; r++) {
        turn = 2 * r + 1;
        while (turn != 2 * r + 2) continue;
        start = ls_clock();
        last = sum();
        double took = ls_clock() - start;
        seen += last;
        if (took < least) least = took;
    }
    pthread_join(thread, NULL);
    if (seen < last) exit(1);  // nobody may leave the reading out
    printf("there and back %4.0f ns   what the other has written %5.1f GB/s\n", trip * 1e9, BYTES / least * 1e-9);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 1, core[2] = {0, 1};
    if (argc > 3) core[0] = atoi(argv[2]), core[1] = atoi(argv[3]);
    for (int i = 0; i < times; i++) {
        if (i) sleep(1);
        measure(core);
    }
    return 0;
}
