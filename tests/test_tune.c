// Choosing buckets and algorithm from a measurement: the formula, the cache and whatever may be in its place, and that all workers get the
// same numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "step/strategies.h"
#include "train/context.h"
#include "train/tune.h"
#include "worker_check.h"

// The time of a vector in buckets, as tune.h has it.
static double seconds(const ls_tune_speed *v, double bytes, double bucket) {
    return bytes / v->bytes_per_second + v->bucket_seconds * bytes / bucket + bucket / v->bytes_per_second;
}

static void test_choice(ls_comm *comm) {
    const ls_tune_speed slow = {200e-6, 110e6, 0}, fast = {50e-6, 1.1e9, 0}, best = {100e-6, 110e6, 0};
    for (double bytes = 4e6; bytes < 1e9; bytes *= 3) {
        ls_tune_choice choice = ls_tune_choose(&(ls_tune_measured){.direct = slow}, bytes);
        double least = seconds(&slow, bytes, 1e6 * choice.megabytes);
        CHECK(comm, choice.algorithm == LS_ALGORITHM_DIRECT);
        for (double mb = 0.1; mb < 32; mb *= 1.1) CHECK(comm, seconds(&slow, bytes, 1e6 * mb) >= least * (1 - 1e-9));
        // Halving has to be better, and not by a little.
        choice = ls_tune_choose(&(ls_tune_measured){slow, fast}, bytes);
        CHECK(comm, choice.algorithm == LS_ALGORITHM_HALVING && choice.speed.bytes_per_second == 1.1e9);
        CHECK(comm, ls_tune_choose(&(ls_tune_measured){fast, slow}, bytes).algorithm == LS_ALGORITHM_DIRECT);
        CHECK(comm, ls_tune_choose(&(ls_tune_measured){.halving = slow}, bytes).algorithm == LS_ALGORITHM_HALVING);
    }
    CHECK(comm, ls_tune_choose(&(ls_tune_measured){slow, best}, 1e9).algorithm == LS_ALGORITHM_DIRECT);
    // Never sizes that make no sense.
    CHECK(comm, ls_tune_choose(&(ls_tune_measured){.direct = {1e-9, 1e3, 0}}, 4e6).megabytes == 0.1);
    CHECK(comm, ls_tune_choose(&(ls_tune_measured){.direct = {10, 1e12, 0}}, 1e9).megabytes == 32);
    ls_tune tune;
    CHECK(comm, ls_tune_find("often", &tune) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(comm, strstr(ls_error_message(), "'often': there are off, auto and again"));
    CHECK(comm, ls_tune_find("again", &tune) == LS_OK && tune == LS_TUNE_AGAIN);
}

// Where nothing is measured: by hosts, and of 9 to 15 by the size of their messages.
static void test_rule(ls_comm *comm) {
    static const struct {
        int hosts;
        int64_t kilobytes;
        const char *algorithm;
    } cases[] = {{2, 1, "direct"},     {8, 1, "direct"},        {8, 1 << 19, "direct"}, {9, 16, "halving"},
                 {9, 1024, "direct"},  {10, 64, "direct"},      {12, 64, "halving"},    {12, 256, "direct"},
                 {15, 64, "halving"},  {15, 1 << 19, "direct"}, {16, 16, "halving"},    {16, 1 << 19, "halving"},
                 {24, 256, "halving"}, {999, 1024, "halving"}};
    const ls_strategy *ops, *tree;
    CHECK_OK(comm, ls_strategy_find("allreduce", &ops));
    CHECK_OK(comm, ls_strategy_find("tree", &tree));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t floats = cases[i].kilobytes * 256;
        int hosts = cases[i].hosts;
        CHECK(comm, !strcmp(ls_strategy_algorithm(ops, LS_ALGORITHM_AUTO, hosts, floats), cases[i].algorithm));
        CHECK(comm, !strcmp(ls_strategy_algorithm(ops, LS_ALGORITHM_DIRECT, hosts, floats), "direct"));
        CHECK(comm, !strcmp(ls_strategy_algorithm(ops, LS_ALGORITHM_HALVING, hosts, floats), "halving"));
        CHECK(comm, !strcmp(ls_strategy_algorithm(tree, LS_ALGORITHM_AUTO, hosts, floats), ""));
    }
    CHECK(comm, !strcmp(ls_strategy_algorithm(ops, LS_ALGORITHM_HALVING, 1, 1024), ""));
}

// What is measured: the one that was asked for, else both; halving alone where direct messages are for more hosts than a worker shall speak to.
static void test_wanted(ls_comm *comm) {
    static const struct {
        ls_algorithm algorithm;
        int hosts, topk, direct, halving;
    } cases[] = {
        {LS_ALGORITHM_AUTO, 2, 0, 1, 0},    {LS_ALGORITHM_AUTO, 3, 0, 1, 1},    {LS_ALGORITHM_AUTO, 15, 0, 1, 1},
        {LS_ALGORITHM_AUTO, 16, 0, 0, 1},   {LS_ALGORITHM_AUTO, 999, 0, 0, 1},  {LS_ALGORITHM_AUTO, 3, 1, 1, 0},
        {LS_ALGORITHM_AUTO, 16, 1, 1, 0},   {LS_ALGORITHM_DIRECT, 2, 0, 1, 0},  {LS_ALGORITHM_DIRECT, 16, 0, 1, 0},
        {LS_ALGORITHM_HALVING, 2, 0, 0, 1}, {LS_ALGORITHM_HALVING, 16, 0, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_tune_wanted wanted = ls_tune_wants(cases[i].algorithm, cases[i].hosts, cases[i].topk);
        CHECK(comm, wanted.direct == cases[i].direct && wanted.halving == cases[i].halving);
    }
}

// The one file of a folder, its path into `path`.
static void only_file(ls_comm *comm, const char *folder, char path[768]) {
    char command[640];
    snprintf(command, sizeof command, "ls -A '%s'", folder);
    FILE *list = popen(command, "r");
    char name[256] = "", more[256];
    CHECK(comm, list && fgets(name, sizeof name, list) && !fgets(more, sizeof more, list));
    pclose(list);
    name[strcspn(name, "\n")] = 0;
    snprintf(path, 768, "%s/%s", folder, name);
}

static void write_text(ls_comm *comm, const char *path, const char *text, size_t size) {
    FILE *file = fopen(path, "w");
    CHECK(comm, file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
}

static void test_cache(ls_comm *comm) {
    char home[] = "/tmp/lockstep-tune-XXXXXX", folder[512], path[768], text[4096], other[4096];
    const ls_tune_measured stored = {{1e-4, 1.25e8, 2e-9}, {2e-4, 3e8, 0}};
    ls_tune_measured found;
    CHECK(comm, mkdtemp(home) != NULL);
    setenv("XDG_CACHE_HOME", home, 1);
    char *there = ls_tune_folder();
    snprintf(folder, sizeof folder, "%s/lockstep", home);
    CHECK(comm, there && strcmp(there, folder) == 0);
    CHECK(comm, !ls_tune_load(folder, "a", &found));
    ls_tune_store(folder, "a", &stored);
    CHECK(comm, ls_tune_load(folder, "a", &found) && memcmp(&found, &stored, sizeof found) == 0);
    CHECK(comm, !ls_tune_load(folder, "b", &found) && found.direct.bytes_per_second == 0);
    only_file(comm, folder, path);
    FILE *file = fopen(path, "r");
    size_t size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    fclose(file);
    // Cut off anywhere, or with another byte anywhere: none, or numbers that make sense.
    for (size_t n = 0; n < size; n++) {
        write_text(comm, path, text, n);
        int is_whole = ls_tune_load(folder, "a", &found);
        CHECK(comm, !is_whole || n >= size - 1);
        memcpy(other, text, size);
        other[n] ^= 4;
        write_text(comm, path, other, size);
        if (ls_tune_load(folder, "a", &found))
            CHECK(comm, found.direct.bucket_seconds > 0 && found.direct.bytes_per_second > 1 &&
                            isfinite(found.halving.bytes_per_second));
    }
    // Somebody else's: of another version, of another key, with numbers that no network has.
    const char *const wrong[] = {
        "[]", "{\"format\": \"lockstep exchange\", \"version\": 3, \"key\": \"a\"}",
        "{\"format\": \"lockstep exchange\", \"version\": 2, \"key\": \"b\", \"direct\": "
        "{\"bucket_seconds\": 1e-4, \"bytes_per_second\": 1e8, \"processor_seconds\": 1e-9}, \"halving\": "
        "{\"bucket_seconds\": 0, \"bytes_per_second\": 0, \"processor_seconds\": 0}}",
        "{\"format\": \"lockstep exchange\", \"version\": 2, \"key\": \"a\", \"direct\": "
        "{\"bucket_seconds\": 1e-4, \"bytes_per_second\": 1e8, \"processor_seconds\": 1}, \"halving\": "
        "{\"bucket_seconds\": 0, \"bytes_per_second\": 0, \"processor_seconds\": 0}}"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_text(comm, path, wrong[i], strlen(wrong[i]));
        CHECK(comm, !ls_tune_load(folder, "a", &found) && found.direct.bucket_seconds == 0);
    }
    const ls_tune_measured halving = {.halving = stored.halving};  // alone, as from 16 hosts on
    ls_tune_store(folder, "a", &halving);
    CHECK(comm, ls_tune_load(folder, "a", &found) && memcmp(&found, &halving, sizeof found) == 0);
    ls_tune_store(folder, "a", &stored);  // in its place
    CHECK(comm, ls_tune_load(folder, "a", &found));
    // A folder in its place, a file where the folder would be, no folder at all: nothing happens.
    CHECK(comm, unlink(path) == 0 && mkdir(path, 0700) == 0);
    ls_tune_store(folder, "a", &stored);
    CHECK(comm, !ls_tune_load(folder, "a", &found) && rmdir(path) == 0 && rmdir(folder) == 0);
    write_text(comm, folder, "x", 1);
    ls_tune_store(folder, "a", &stored);
    CHECK(comm, !ls_tune_load(folder, "a", &found) && unlink(folder) == 0);
    ls_tune_store(NULL, "a", &stored);
    CHECK(comm, !ls_tune_load(NULL, "a", &found));
    free(there);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/nowhere", 1);
    there = ls_tune_folder();
    CHECK(comm, there && strcmp(there, "/nowhere/.cache/lockstep") == 0);
    free(there);
    setenv("HOME", "", 1);
    CHECK(comm, ls_tune_folder() == NULL);
    CHECK(comm, rmdir(home) == 0);
}

// Between hosts: what is measured is something, and the same on all workers.
static void test_measure(ls_context *context) {
    ls_comm *comm = context->comm;
    ls_tune_measured m, *all;
    char key[LS_TUNE_KEY];
    ls_topology *topology;
    CHECK_OK(comm, ls_topology_create(context, &topology));
    ls_tune_key(context, topology, "none", key);
    CHECK_OK(comm, ls_tune_measure(context, "none", LS_ALGORITHM_AUTO, 0, &m));
    CHECK(comm, m.direct.bucket_seconds > 0 && m.direct.bytes_per_second > 0);
    CHECK(comm, (m.direct.processor_seconds > 0) == comm->any_thread);
    CHECK(comm, (m.halving.bytes_per_second > 0) == (comm->hosts > 2));
    CHECK_OK(comm, ls_calloc(comm->size, sizeof m, &all));
    CHECK_OK(comm, ls_comm_allgather(comm, &m, all, sizeof m));
    for (int i = 0; i < comm->size; i++) CHECK(comm, memcmp(&all[i], &m, sizeof m) == 0);
    CHECK(comm, strstr(key, "compress none") && strstr(key, context->communication));
    ls_topology_destroy(&topology);
    free(all);
}

int main(void) {
    ls_context *context;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    const char *size = getenv("OMPI_COMM_WORLD_SIZE") ? getenv("OMPI_COMM_WORLD_SIZE") : getenv("PMI_SIZE");
    if (size) setenv("LOCKSTEP_TEST_HOSTS", size, 1);
    if (ls_context_create(&context) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    test_choice(context->comm);
    test_rule(context->comm);
    test_wanted(context->comm);
    if (context->comm->rank == 0) test_cache(context->comm);
    if (context->comm->hosts > 1) test_measure(context);
    ls_context_destroy(&context);
    return 0;
}
