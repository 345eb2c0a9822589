// A cache of decoded images: what comes out of it has the pixels of the file, at every halving and box, with several threads; what does not fit or cannot be
// decoded as a whole is read and decoded as without it; and nothing is read again.
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
#include "data/image.h"
#include "data/pixels.h"
#include "data/records.h"
#include "ok.h"

enum { COUNT = 12, THREADS = 4, BROKEN = 7, HEIGHT = 90 };

static char folder[64];
static int64_t width_of(int k) { return 70 + 3 * k; }

static void path_of(int k, char *out, size_t size) { snprintf(out, size, "%s/%02d.jpg", folder, k); }

// JPEG files of noise that is coarse enough to be halved; one of them is damaged below the middle, which a box above does not see.
static void write_file(int k, int cut) {
    char path[96], *bytes;
    size_t size;
    int64_t width = width_of(k);
    ls_image image = {HEIGHT, width, 3, malloc((size_t)(HEIGHT * width * 3))};
    for (int64_t i = 0; i < HEIGHT * width * 3; i++)
        image.pixels[i] = (uint8_t)(40 * ((i / 3 % width / 6 + 5 * (i / 3 / width / 7) + k + i % 3) % 6));
    assert_int_equal(ls__image_jpeg_encode(&image, 90, &bytes, &size), LS_OK);
    if (cut) memcpy(bytes + size * 3 / 4, "\xff\xd9", 2);  // the end's mark
    path_of(k, path, sizeof path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    close(fd);
    free(bytes);
    free(image.pixels);
}

typedef struct set {
    ls_data_host *host;
    ls_source *source;
    ls_records records;
} set;

static set open_set(void) {
    set s;
    ls_records_builder b = {.file = NULL};
    snprintf(folder, sizeof folder, "/tmp/lockstep-pixels-XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_int_equal(ls_records_add_class(&b, NULL), LS_OK);
    for (int k = 0; k < COUNT; k++) {
        char path[96];
        struct stat there;
        uint32_t file;
        write_file(k, k == BROKEN);
        path_of(k, path, sizeof path);
        assert_int_equal(stat(path, &there), 0);
        assert_int_equal(ls_records_add_file(&b, path, there.st_size, ls_records_time(&there), &file), LS_OK);
        ls_record r = {.bytes = there.st_size, .file = file, .size = (uint32_t)there.st_size};
        assert_int_equal(ls_records_add(&b, 0, r), LS_OK);
    }
    assert_int_equal(ls_data_host_create_self(&s.host), LS_OK);
    assert_int_equal(ls_records_share(s.host, LS_OK, &b, &s.records), LS_OK);
    ls_records_free(&b);
    s.records.index = NULL;
    assert_int_equal(ls_source_create_records("the set", &s.records, 0, 3, &s.source), LS_OK);
    return s;
}

static void remove_files(void) {
    for (int k = 0; k < COUNT; k++) {
        char path[96];
        path_of(k, path, sizeof path);
        unlink(path);
    }
}

static void close_set(set *s) {
    ls_source_destroy(&s->source);
    ls_data_host_destroy_self(&s->host);
    remove_files();
    rmdir(folder);
}

// A box of a halved image, as numbers: a hash of its pixels; 0: it cannot be decoded.
static uint64_t box_of(const ls_source *s, int k, int shrink, ls_image_part part, void *scratch, ls_image_buffer *b) {
    ls_sample sample;
    ls_image image;
    int64_t height, width;
    assert_int_equal(ls_source_read(s, k, scratch, &sample), LS_OK);
    assert_int_equal(ls_image_file_size(sample.field[0], &height, &width), LS_OK);
    assert_true(height == HEIGHT && width == width_of(k));
    ls_image_wish wish = {.channels = 3, .shrink = shrink, .part = part};
    if (ls_image_file_decode(sample.field[0], wish, b, &image) != LS_OK) return 0;
    assert_true(image.height == (height + shrink - 1) / shrink && image.width == (width + shrink - 1) / shrink);
    uint64_t hash = 1;
    for (int64_t y = part.top; y < part.bottom; y++)
        for (int64_t x = 3 * part.left; x < 3 * part.right; x++)
            hash = hash * 0x100000001b3u ^ image.pixels[3 * y * image.width + x];
    return hash;
}

enum { LEVELS = 4, BOXES = 3 };
typedef uint64_t hashes[COUNT][LEVELS][BOXES];

static void look_at_all(const ls_source *s, int first, hashes out) {
    void *scratch;
    ls_image_buffer buffer = {{NULL}, {0}};
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int n = 0; n < COUNT * LEVELS * BOXES; n++) {
        int at = (n + first) % (COUNT * LEVELS * BOXES), k = at % COUNT, level = at / COUNT % LEVELS, by = 1 << level;
        int64_t height = (HEIGHT + by - 1) / by, width = (width_of(k) + by - 1) / by;
        ls_image_part boxes[BOXES] = {
            {0, 0, height / 2, width}, {height / 3, width / 4, height, width / 2}, {0, 0, height, width}};
        int box = at / COUNT / LEVELS;
        out[k][level][box] = box_of(s, k, by, boxes[box], scratch, &buffer);
    }
    ls_image_buffer_free(&buffer);
    ls_memory_free(scratch);
}

typedef struct reader {
    const ls_source *source;
    int first;
    hashes found;
    pthread_t thread;
} reader;

static void *run(void *argument) {
    reader *r = argument;
    for (int turn = 0; turn < 2; turn++) look_at_all(r->source, r->first, r->found);
    return NULL;
}

static void has_the_pixels_of_files(void **state) {
    static const int64_t limits[] = {0, 500, 60000, 200000, 1 << 22};
    set s = open_set();
    static hashes plain;
    static reader r[THREADS];
    look_at_all(s.source, 0, plain);
    int broken = 0, boxes_of_it = 0;
    for (int level = 0; level < LEVELS; level++)
        for (int box = 0; box < BOXES; box++) {
            boxes_of_it += plain[BROKEN][level][box] != 0;
            broken += plain[BROKEN][level][box] == 0;
        }
    assert_true(broken > 0 && boxes_of_it > 0);  // else this shows less than it should
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++) {
        ls_source *source;
        int64_t size = ls_pixels_size(COUNT, 0, limits[l]);
        assert_true(size <= limits[l]);
        assert_int_equal(ls_source_create_records("the set", &s.records, 0, 3, &source), LS_OK);
        assert_int_equal(source->ops->images(source), COUNT);
        char *memory = size ? aligned_alloc(64, (size_t)ls_round_up(size, 64)) : NULL;
        if (size) {
            memset(memory, 0, (size_t)ls_round_up(size, 64));
            source->ops->keep_pixels(source, memory, size, COUNT, 0);
        }
        for (int t = 0; t < THREADS; t++) {
            r[t].source = source;
            r[t].first = 31 * t;
            assert_int_equal(pthread_create(&r[t].thread, NULL, run, &r[t]), 0);
        }
        for (int t = 0; t < THREADS; t++) {
            pthread_join(r[t].thread, NULL);
            assert_memory_equal(r[t].found, plain, sizeof plain);
        }
        ls_source_destroy(&source);
        free(memory);
    }
    close_set(&s);
}

// What one has decoded the other finds, when the files are gone; at another halving it wants the file.
static void is_shared_and_not_read_again(void **state) {
    set s = open_set();
    ls_source *other;
    void *scratch, *memory;
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_image_part all = {0, 0, HEIGHT, width_of(3)};
    int64_t size = ls_pixels_size(2 * COUNT, 0, 1 << 22);
    assert_int_equal(ls_source_create_records("the set", &s.records, 0, 3, &other), LS_OK);
    assert_int_equal(ls_memory_alloc(size, &memory), LS_OK);
    assert_int_equal(ls_memory_alloc(other->scratch_bytes, &scratch), LS_OK);
    s.source->ops->keep_pixels(s.source, memory, size, 2 * COUNT, COUNT);
    other->ops->keep_pixels(other, memory, size, 2 * COUNT, COUNT);
    uint64_t first = box_of(s.source, 3, 1, all, scratch, &buffer);
    remove_files();
    assert_int_equal(box_of(other, 3, 1, all, scratch, &buffer), first);
    assert_int_equal(box_of(other, 3, 2, (ls_image_part){0, 0, 1, 1}, scratch, &buffer), 0);
    assert_non_null(strstr(ls_error_message(), "it was there when this run began"));
    // Pixels in memory of the caller's own, and not of the cache.
    ls_sample sample;
    ls_image image;
    assert_int_equal(ls_source_read(other, 3, scratch, &sample), LS_OK);
    const ls_picture *kept = sample.field[0];  // how many bytes it has is known, and they were not read
    assert_true(!kept->bytes && kept->size > 0);
    assert_int_not_equal(ls_image_file_load(sample.field[0], 3, &image), LS_OK);
    assert_int_not_equal(ls_source_read(other, 4, scratch, &sample), LS_OK);
    ls_image_buffer_free(&buffer);
    ls_source_destroy(&other);
    close_set(&s);
    ls_memory_free(scratch);
    ls_memory_free(memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(has_the_pixels_of_files),
                                       cmocka_unit_test(is_shared_and_not_read_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
