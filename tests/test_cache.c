// A cache of records in memory: what it holds is never read again, what does not fit is; whoever reads, and in which order.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/cache.h"

enum { COUNT = 200, THREADS = 4, LARGEST = 8 * 40 + 1 };

// A file of records, the k-th of 1 + 8 (k % 41) bytes, all of them (uint8_t)(k + version).
static char path[64];
static int64_t size_of(int64_t k) { return 1 + 8 * (k % 41); }

static void write_file(int version) {
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    for (int64_t k = 0, at = 0; k < COUNT; at += size_of(k), k++) {
        uint8_t bytes[LARGEST];
        memset(bytes, (int)(k + version), sizeof bytes);
        assert_int_equal(pwrite(fd, bytes, (size_t)size_of(k), at), size_of(k));
    }
    close(fd);
}

typedef struct set {
    ls_data_host *host;
    ls_source *source;
    ls_records records;
} set;

static set open_set(void) {
    set s;
    struct stat there;
    ls_records_builder b = {.file = NULL};
    snprintf(path, sizeof path, "/tmp/lockstep-cache-XXXXXX");
    close(mkstemp(path));
    write_file(0);
    assert_int_equal(stat(path, &there), 0);
    uint32_t file;
    assert_int_equal(ls_records_add_class(&b, NULL), LS_OK);
    assert_int_equal(ls_records_add_file(&b, path, there.st_size, ls_records_time(&there), &file), LS_OK);
    for (int64_t k = 0, at = 0; k < COUNT; at += size_of(k), k++)
        assert_int_equal(
            ls_records_add(&b, 0, (ls_record){.at = at, .bytes = size_of(k), .size = (uint32_t)size_of(k)}), LS_OK);
    assert_int_equal(ls_data_host_create_self(&s.host), LS_OK);
    assert_int_equal(ls_records_share(s.host, LS_OK, &b, &s.records), LS_OK);
    ls_records_free(&b);
    s.records.index = NULL;
    assert_int_equal(ls_source_create_records("the set", &s.records, 0, 3, &s.source), LS_OK);
    return s;
}

static void close_set(set *s) {
    ls_source_destroy(&s->source);
    ls_data_host_destroy_self(&s->host);
    unlink(path);
}

// Reads sample k; which version of it that is, -1: bytes of several.
static int version_of(const ls_source *s, int64_t k, void *scratch) {
    ls_sample sample;
    if (ls_source_read(s, k, scratch, &sample) != LS_OK) return -1;
    const ls_picture *p = sample.field[0];
    const unsigned char *bytes = p->bytes;
    for (int64_t i = 1; i < p->size; i++)
        if (bytes[i] != bytes[0]) return -1;
    return p->size == size_of(k) ? (uint8_t)(bytes[0] - k) : -1;
}

typedef struct reader {
    const ls_source *source;
    int index, wrong;
    pthread_t thread;
} reader;

static void *read_all(void *argument) {
    reader *r = argument;
    void *scratch;
    if (ls_memory_alloc(r->source->scratch_bytes, &scratch) != LS_OK) return NULL;
    for (int64_t n = 0; n < 2 * COUNT; n++) {
        int64_t k = (n * (2 * r->index + 1) + 7 * r->index) % COUNT;
        r->source->ops->ahead(r->source, k);
        r->wrong += version_of(r->source, k, scratch) != 0;
    }
    // An odd step goes over all of them, but where it divides the count.
    for (int64_t k = 0; k < COUNT; k++) r->wrong += version_of(r->source, k, scratch) != 0;
    ls_memory_free(scratch);
    return NULL;
}

static void keeps_the_first_ones(void **state) {
    static const int64_t limits[] = {0, 16, 100, 5000, 20000, 1 << 20};
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        set s = open_set();
        int64_t kept, size = s.source->ops->cache_size(s.source, limits[l]);
        assert_int_equal(ls_cache_size(s.records.record[0], COUNT, limits[l], &kept), size);
        assert_true(size <= limits[l] && (l < 5 || kept == COUNT) && (l > 0 || kept == 0));
        // Not a sample more would fit.
        if (kept < COUNT) assert_true(size + size_of(kept) + 9 > limits[l] - 15);
        char *memory = NULL;  // as large as it says, for the sanitizers
        if (kept) {
            memory = aligned_alloc(64, (size_t)ls_round_up(size, 64));
            memset(memory, 0, (size_t)ls_round_up(size, 64));
            s.source->ops->cache_attach(s.source, limits[l], memory, 1);
        }
        reader r[THREADS];
        for (int t = 0; t < THREADS; t++) {
            r[t] = (reader){s.source, t, 0, 0};
            assert_int_equal(pthread_create(&r[t].thread, NULL, read_all, &r[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(r[t].thread, NULL);
            assert_int_equal(r[t].wrong, 0);
        }
        // Written over, while it is open: what is kept is as it was, the rest is refused.
        usleep(20000);
        write_file(50);
        void *scratch;
        assert_int_equal(ls_memory_alloc(s.source->scratch_bytes, &scratch), LS_OK);
        for (int64_t k = 0; k < COUNT; k++) {
            assert_int_equal(version_of(s.source, k, scratch), k < kept ? 0 : -1);
            if (k >= kept) assert_non_null(strstr(ls_error_message(), "was changed since this run began"));
        }
        ls_memory_free(scratch);
        close_set(&s);
        free(memory);
    }
}

// Two who share the memory: what one has read the other finds.
static void is_shared(void **state) {
    set s = open_set();
    ls_source *other;
    void *scratch, *memory;
    int64_t size = s.source->ops->cache_size(s.source, 1 << 20);
    assert_int_equal(ls_source_create_records("the set", &s.records, 0, 3, &other), LS_OK);
    assert_int_equal(ls_memory_alloc(size, &memory), LS_OK);
    assert_int_equal(ls_memory_alloc(other->scratch_bytes, &scratch), LS_OK);
    s.source->ops->cache_attach(s.source, 1 << 20, memory, 1);
    other->ops->cache_attach(other, 1 << 20, memory, 0);
    assert_int_equal(version_of(s.source, 17, scratch), 0);
    assert_int_equal(version_of(other, 18, scratch), 0);
    usleep(20000);
    write_file(9);
    assert_int_equal(version_of(other, 17, scratch), 0);
    assert_int_equal(version_of(s.source, 18, scratch), 0);
    assert_int_equal(version_of(s.source, 19, scratch), -1);
    ls_source_destroy(&other);
    close_set(&s);
    ls_memory_free(scratch);
    ls_memory_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_the_first_ones), cmocka_unit_test(is_shared)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
