// The MNIST formats: content, every way a file can be wrong, and several workers reading together. The workers are
// threads here (data_team.h).
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/formats/idx.h"
#include "data_set.h"
#include "data_team.h"
#include "idx_files.h"

// ---- folders -------------------------------------------------------------------------------------------------------

static char dir[64], spec[128];

static int make_dir(void **state) {
    strcpy(dir, "/tmp/lockstep-idx-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(spec, sizeof spec, "mnist:%s", dir);
    return 0;
}

static void clear_dir(void) {
    for (int i = 0; i < FILES; i++) {
        char name[64];
        for (int v = 0; v < 4; v++) {
            snprintf(name, sizeof name, "%s%s", idx_names[i], v & 1 ? ".gz" : "");
            if (v & 2) *strstr(name, "-idx") = '.';
            idx_remove(dir, name);
        }
    }
}

static int remove_dir(void **state) {
    clear_dir();
    return rmdir(dir);
}

typedef enum layout { PLAIN, GZIP, DOTTED, MIXED, LAYOUTS } layout;

static void put(int which, layout how, bytes b) {
    char name[64];
    int gzip = how == GZIP || (how == MIXED && which % 2 == 0);
    snprintf(name, sizeof name, "%s%s", idx_names[which], gzip ? ".gz" : "");
    if (how == DOTTED) *strstr(name, "-idx") = '.';
    bytes out = gzip ? idx_gzip(b.p, b.n) : b;
    assert_true(idx_write(dir, name, out));
    if (gzip) free(out.p);
}

static void put_made(int which, layout how, uint32_t count, uint32_t height, uint32_t width) {
    bytes b = idx_make(which, count, height, width);
    put(which, how, b);
    free(b.p);
}

static void put_set(layout how, uint32_t train, uint32_t test, uint32_t height, uint32_t width) {
    clear_dir();
    for (int i = 0; i < FILES; i++) put_made(i, how, i < 2 ? train : test, height, width);
}

// ---- what is read --------------------------------------------------------------------------------------------------

static void check_content(const ls_dataset *d, int64_t train, int64_t test, int64_t pixels) {
    data_set train_set = set_of(d->train), test_set = set_of(d->test);
    assert_int_equal(d->train->count, train);
    assert_int_equal(d->test->count, test);
    assert_int_equal(ls_dataset_classes(d), 10);
    for (int64_t i = 0; i < train * pixels; i++)
        if (train_set.images[i] != idx_byte(TRAIN_IMAGES, (size_t)i)) fail_msg("train image byte %lld", (long long)i);
    for (int64_t i = 0; i < test * pixels; i++)
        if (test_set.images[i] != idx_byte(TEST_IMAGES, (size_t)i)) fail_msg("test image byte %lld", (long long)i);
    for (int64_t i = 0; i < train; i++) assert_int_equal(train_set.labels[i], idx_byte(TRAIN_LABELS, (size_t)i));
    for (int64_t i = 0; i < test; i++) assert_int_equal(test_set.labels[i], idx_byte(TEST_LABELS, (size_t)i));
}

// Every layout, every number of workers: the same content and the same fingerprint, a known one.
static void test_content(void **state) {
    for (int how = 0; how < LAYOUTS; how++) {
        put_set(how, 3001, 1003, 28, 27);
        for (int size = 1; size <= WORKERS_MAX; size++) {
            team t = TEAM;
            worker w[WORKERS_MAX];
            team_open(&t, w, size, spec);
            assert_string_equal(w[0].message, "");
            for (int r = 0; r < size; r++) {
                const ls_dataset *d = w[r].dataset;
                check_content(d, 3001, 1003, 28 * 27);
                assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(28, 27, 1)));
                assert_string_equal(d->name, "mnist");
                assert_true(d->fingerprint == 0xB335A4E8BC75B743u);
                assert_true(d->read_seconds > 0 && d->read_seconds == w[0].dataset->read_seconds);
                // Each worker read its share of the bytes, give or take the remainders.
                assert_true(llabs(t.read_bytes[r] - t.read_bytes[0]) < FILES * WORKERS_MAX);
            }
            assert_int_equal(t.freed, how == GZIP || how == MIXED);
            team_close(&t, w);
        }
    }
}

static uint64_t fingerprint_of(const char *what) {
    ls_data_host *host;
    ls_dataset *d;
    assert_int_equal(ls_data_host_create_self(&host), LS_OK);
    if (ls_data_open(host, what, &d) != LS_OK) fail_msg("%s", ls_error_message());
    uint64_t f = d->fingerprint;
    ls_data_close(&d);
    assert_null(d);
    ls_data_host_destroy_self(&host);
    assert_null(host);
    return f;
}

// One bit anywhere, or another shape around the same bytes, gives another fingerprint.
static void test_fingerprint(void **state) {
    put_set(PLAIN, 40, 10, 6, 4);
    uint64_t before = fingerprint_of(spec), other;
    char fashion[128];
    snprintf(fashion, sizeof fashion, "fashion-mnist:%s", dir);
    assert_true(fingerprint_of(fashion) == before);
    for (int which = 0; which < FILES; which++) {
        bytes b = idx_make(which, which < 2 ? 40 : 10, 6, 4);
        for (int end = 0; end < 2; end++) {
            size_t at = end ? b.n - 1 : (which % 2 ? 8 : 16);
            b.p[at] ^= 1;
            put(which, PLAIN, b);
            other = fingerprint_of(spec);
            assert_true(other != before);
            b.p[at] ^= 1;
        }
        put(which, PLAIN, b);
        free(b.p);
    }
    assert_true(fingerprint_of(spec) == before);
    put_set(PLAIN, 40, 10, 4, 6);
    assert_true(fingerprint_of(spec) != before);
}

// ---- what is refused -----------------------------------------------------------------------------------------------

// Opens with 1, 2 and 3 workers: each time all of them get this status and a sentence with these words.
static void refused_spec(const char *what, ls_status status, const char *words, const char *more) {
    for (int size = 1; size <= WORKERS_MAX; size++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, size, what);
        if (w[0].status != status || !strstr(w[0].message, words) || !strstr(w[0].message, more))
            fail_msg("%d workers: %s \"%s\" where %s with \"%s\" and \"%s\" was due", size, ls_status_name(w[0].status),
                     w[0].message, ls_status_name(status), words, more);
        team_close(&t, w);
    }
}

static void refused(const char *words, const char *more) { refused_spec(spec, LS_STATUS_BAD_DATA, words, more); }

static void test_spec(void **state) {
    refused_spec("mnits:/x", LS_STATUS_NOT_FOUND, "mnits", "mnist:DIR, fashion-mnist:DIR, ");
    refused_spec("", LS_STATUS_INVALID_ARGUMENT, "no dataset", "mnist:DIR");
    refused_spec("mnist", LS_STATUS_INVALID_ARGUMENT, "mnist:DIR", "");
    refused_spec("mnist:", LS_STATUS_INVALID_ARGUMENT, "mnist:DIR", "");
    refused_spec("fashion-mnist", LS_STATUS_INVALID_ARGUMENT, "fashion-mnist:DIR", "");
    refused_spec("digits:3", LS_STATUS_INVALID_ARGUMENT, "digits", "no argument");
    refused_spec("mnist:/nowhere/at/all", LS_STATUS_NOT_FOUND, "/nowhere/at/all", "No such file");
    refused_spec("mnist:~/mnist", LS_STATUS_NOT_FOUND, "~/mnist", "$HOME");
    refused_spec("mnist:/dev/null", LS_STATUS_NOT_FOUND, "/dev/null", "not a folder");
}

static void test_missing(void **state) {
    for (int which = 0; which < FILES; which++) {
        put_set(PLAIN, 7, 5, 6, 4);
        idx_remove(dir, idx_names[which]);
        refused_spec(spec, LS_STATUS_NOT_FOUND, dir, idx_names[which]);
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, idx_names[which]);
        assert_int_equal(mkdir(path, 0700), 0);
        refused("not a regular file", idx_names[which]);
        rmdir(path);
    }
}

// Sets the first word of a file, plain and gzipped, and expects it to be told what that means.
static void wrong_magic(int which, uint32_t magic, const char *meaning) {
    for (int how = PLAIN; how <= GZIP; how++) {
        put_set(how, 7, 5, 6, 4);
        bytes b = idx_make(which, which < 2 ? 7 : 5, 6, 4);
        idx_be32(b.p, magic);
        put(which, how, b);
        free(b.p);
        refused(meaning, idx_names[which]);
    }
}

static void test_magic(void **state) {
    wrong_magic(TRAIN_IMAGES, 0x801, "labels file");
    wrong_magic(TEST_LABELS, 0x803, "images file");
    wrong_magic(TEST_IMAGES, 0x03080000, "swapped");
    wrong_magic(TRAIN_LABELS, 0x804, "4 dimensions");
    wrong_magic(TRAIN_IMAGES, 0xD03, "element type 0x0D");
    wrong_magic(TRAIN_IMAGES, 0x3C21444F, "web page");
    wrong_magic(TRAIN_LABELS, 0x504B0304, "no IDX file");
}

// Cuts or lengthens the contents; what it then says depends on how much is left.
static void resized(int which, layout how, int64_t keep, const char *words, const char *more) {
    put_set(how, 7, 5, 6, 4);
    bytes b = idx_make(which, which < 2 ? 7 : 5, 6, 4);
    if (keep > (int64_t)b.n) {
        b.p = realloc(b.p, (size_t)keep);
        memset(b.p + b.n, 0, (size_t)keep - b.n);
    }
    b.n = (size_t)keep;
    put(which, how, b);
    free(b.p);
    refused(words, more);
}

static void test_size(void **state) {
    resized(TRAIN_IMAGES, PLAIN, 0, "is empty", "train-images");
    resized(TRAIN_IMAGES, GZIP, 0, "cut short: 0 bytes", "header alone has 16");
    resized(TEST_LABELS, PLAIN, 3, "cut short: 3 bytes", "header alone has 8");
    resized(TEST_LABELS, GZIP, 6, "cut short: 6 bytes", "header alone has 8");
    resized(TRAIN_IMAGES, PLAIN, 16, "makes 184 bytes", "the file has 16");
    resized(TRAIN_IMAGES, PLAIN, 183, "7 images, which makes 184 bytes", "the file has 183");
    resized(TRAIN_IMAGES, GZIP, 183, "7 images, which makes 184 bytes", "unpacks to 183");
    resized(TEST_LABELS, GZIP, 12, "5 labels, which makes 13 bytes", "unpacks to 12");
    resized(TEST_LABELS, PLAIN, 14, "too long", "has 1 more");
    resized(TEST_LABELS, GZIP, 14, "too long", "unpacks to more");
    resized(TRAIN_IMAGES, GZIP, 100000, "too long", "unpacks to more");
}

// Corrupt gzip: whichever byte of the file is changed or missing, it is refused.
static void test_gzip(void **state) {
    put_set(GZIP, 7, 5, 6, 4);
    bytes b = idx_make(TRAIN_LABELS, 7, 6, 4), good = idx_gzip(b.p, b.n), bad = {malloc(good.n + 16), 0};
    char name[64];
    snprintf(name, sizeof name, "%s.gz", idx_names[TRAIN_LABELS]);
    for (size_t cut = 1; cut < good.n; cut++) {
        memcpy(bad.p, good.p, good.n);
        bad.n = cut;
        assert_true(idx_write(dir, name, bad));
        refused(name, cut > 40 ? "cut short" : "");
    }
    bad.n = good.n;
    for (size_t at = good.n - 8; at < good.n; at++) {  // the CRC and the length at the end
        memcpy(bad.p, good.p, good.n);
        bad.p[at] ^= 4;
        assert_true(idx_write(dir, name, bad));
        refused("corrupt gzip", at < good.n - 4 ? "incorrect data check" : "incorrect length check");
    }
    memcpy(bad.p, good.p, good.n);
    memset(bad.p + good.n, 'x', 16);
    bad.n = good.n + 16;
    assert_true(idx_write(dir, name, bad));
    refused("16 bytes after the end", name);

    // Two members one after the other are one file, as for gunzip; and plain IDX under a .gz name is what it is.
    bytes front = idx_gzip(b.p, 9), back = idx_gzip(b.p + 9, b.n - 9),
          both = {malloc(front.n + back.n), front.n + back.n};
    memcpy(both.p, front.p, front.n);
    memcpy(both.p + front.n, back.p, back.n);
    uint64_t fingerprint[3];
    bytes ways[3] = {good, both, b};
    for (int i = 0; i < 3; i++) {
        assert_true(idx_write(dir, name, ways[i]));
        fingerprint[i] = fingerprint_of(spec);
        assert_true(fingerprint[i] == fingerprint[0]);
    }
    free(front.p);
    free(back.p);
    free(both.p);
    free(b.p);
    free(good.p);
    free(bad.p);
}

// Counts no file of that size can hold: refused by the header, before anything of that size is asked for.
static void extents(int which, uint32_t count, uint32_t height, uint32_t width, const char *plain, const char *gzip) {
    for (int how = PLAIN; how <= GZIP; how++) {
        put_set(how, 7, 5, 6, 4);
        bytes b = idx_make(which, which < 2 ? 7 : 5, 6, 4);
        idx_be32(b.p + 4, count);
        if (which % 2 == 0) {
            idx_be32(b.p + 8, height);
            idx_be32(b.p + 12, width);
        }
        put(which, how, b);
        free(b.p);
        refused(how == PLAIN ? plain : gzip, idx_names[which]);
    }
}

static void test_extents(void **state) {
    extents(TRAIN_IMAGES, 0, 6, 4, "0 images", "0 images");
    extents(TRAIN_IMAGES, 7, 0, 4, "holds nothing", "holds nothing");
    extents(TEST_LABELS, 0, 0, 0, "0 labels", "0 labels");
    extents(TRAIN_IMAGES, 0xFFFFFFFF, 28, 28, "cut short", "more than gzip can pack");
    extents(TRAIN_LABELS, 0xFFFFFFFF, 0, 0, "cut short", "more than gzip can pack");
    extents(TRAIN_IMAGES, 0xFFFFFFFF, 0x7FFFFFFF, 0x7FFFFFFF, "any memory", "any memory");
    extents(TRAIN_IMAGES, 0xFFFF, 0xFFFF, 0xFFFFFF, "any memory", "any memory");
    extents(TRAIN_IMAGES, 7, 0xFFFFFFFF, 1, "pixels", "pixels");
}

// The bound of what gzip can pack is exact: 1032 bytes for each it has, not one more.
static void test_ratio(void **state) {
    int below = 0, above = 0;
    for (uint32_t count = 48000; count < 60000; count++) {
        bytes b = idx_make(TRAIN_LABELS, 8, 0, 0);
        idx_be32(b.p + 4, count);
        bytes packed = idx_gzip(b.p, 8);
        static ls__idx_file file;
        file = (ls__idx_file){.kind = LS__IDX_LABELS, .stored_bytes = (int64_t)packed.n};
        ls_status status = ls__idx_parse(&file, packed.p, (int64_t)packed.n);
        int fits = 8 + count <= 1032 * packed.n;
        assert_int_equal(status, fits ? LS_OK : LS_STATUS_BAD_DATA);
        below += fits && 8 + count > 1032 * packed.n - 20;
        above += !fits && 8 + count < 1032 * packed.n + 20;
        free(packed.p);
        free(b.p);
    }
    assert_true(below && above);
}

static void test_set(void **state) {
    for (int how = PLAIN; how <= GZIP; how++) {
        put_set(how, 7, 5, 6, 4);
        put_made(TRAIN_LABELS, how, 8, 0, 0);
        refused("7 images", "8 labels");
        put_set(how, 7, 5, 6, 4);
        put_made(TEST_IMAGES, how, 4, 6, 4);
        refused("4 images", "5 labels");
        put_set(how, 7, 5, 6, 4);
        put_made(TEST_IMAGES, how, 5, 4, 6);
        refused("6x4", "4x6");
        put_set(how, 7, 5, 6, 4);
        bytes b = idx_make(TEST_LABELS, 5, 0, 0);
        b.p[8 + 3] = 10;
        b.p[8 + 4] = 255;
        put(TEST_LABELS, how, b);
        free(b.p);
        refused("label 3 is 10", idx_names[TEST_LABELS]);
    }
}

// One worker alone cannot read, or cannot have memory: all end, with its sentence.
static void test_one_fails(void **state) {
    for (int how = PLAIN; how <= GZIP; how++) {
        put_set(how, 7, 5, 6, 4);
        for (int size = 1; size <= WORKERS_MAX; size++)
            for (int rank = 0; rank < size; rank++) {
                team t = TEAM;
                worker w[WORKERS_MAX];
                t.fail_read_rank = rank;
                team_open(&t, w, size, spec);
                assert_int_equal(w[0].status, LS_STATUS_IO);
                assert_string_equal(w[0].message, "no reading, says the test");
                team_close(&t, w);
                team u = TEAM;
                u.fail_alloc_rank = rank;
                team_open(&u, w, size, spec);
                assert_int_equal(w[0].status, LS_STATUS_OUT_OF_MEMORY);
                team_close(&u, w);
            }
    }
}

// The real files, where there are any: LOCKSTEP_DATA names a folder with mnist/ inside.
static void test_mnist(void **state) {
    static const int train[10] = {5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949};
    static const int test[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    const char *folder = getenv("LOCKSTEP_DATA");
    if (!folder) {
        printf("skipped: set LOCKSTEP_DATA to a folder with mnist/ inside to read the real files\n");
        skip();
    }
    char real[4200];
    snprintf(real, sizeof real, "mnist:%s/mnist", folder);
    for (int size = 1; size <= WORKERS_MAX; size++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, size, real);
        assert_string_equal(w[0].message, "");
        const ls_dataset *d = w[size - 1].dataset;
        assert_int_equal(d->train->count, 60000);
        assert_int_equal(d->test->count, 10000);
        assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(28, 28, 1)));
        int seen[2][10] = {{0}};
        for (int i = 0; i < 60000; i++) seen[0][set_of(d->train).labels[i]]++;
        for (int i = 0; i < 10000; i++) seen[1][set_of(d->test).labels[i]]++;
        assert_memory_equal(seen[0], train, sizeof train);
        assert_memory_equal(seen[1], test, sizeof test);
        // CRC-32 of the unpacked arrays, as any zlib computes them from the published files.
        assert_int_equal(crc32_z(0, set_of(d->train).images, 60000 * 784), 0xF3639B56);
        assert_int_equal(crc32_z(0, set_of(d->test).images, 10000 * 784), 0xE4CA5F57);
        team_close(&t, w);
    }
}

int main(void) {
    alarm(50);  // workers that wait for each other must not outlive the test
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content), cmocka_unit_test(test_fingerprint), cmocka_unit_test(test_spec),
        cmocka_unit_test(test_missing), cmocka_unit_test(test_magic),       cmocka_unit_test(test_size),
        cmocka_unit_test(test_gzip),    cmocka_unit_test(test_extents),     cmocka_unit_test(test_ratio),
        cmocka_unit_test(test_set),     cmocka_unit_test(test_one_fails),   cmocka_unit_test(test_mnist),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
