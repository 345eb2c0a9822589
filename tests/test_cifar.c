// The CIFAR formats: both forms give the same images, every way a file can be wrong is told in a sentence, and workers
// read together.
#define _GNU_SOURCE
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cifar_files.h"
#include "data/formats/pickle.h"
#include "data_set.h"
#include "data_team.h"

enum { TRAIN_COUNT = 23, TEST_COUNT = 9, FILES_MAX = 6 };

static const char *const names10[] = {"data_batch_1", "data_batch_2", "data_batch_3",
                                      "data_batch_4", "data_batch_5", "test_batch"};
static const char *const names100[] = {"train", "test"};

// ---- folders -------------------------------------------------------------------------------------------------------

static char dir[64];

static int make_dir(void **state) {
    strcpy(dir, "/tmp/lockstep-cifar-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command);
}

static void clear_dir(void) {
    assert_int_equal(remove_dir(NULL), 0);
    assert_int_equal(mkdir(dir, 0700), 0);
}

static const char *path_of(const char *folder, const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s%s%s%s%s", dir, folder ? "/" : "", folder ? folder : "", name ? "/" : "",
             name ? name : "");
    return path;
}

static void save(const char *path, cifar_file f) {
    assert_true(cifar_save(path, f.p, f.n));
    free(f.p);
}

// Writes file `which` of a set; `binary` says in which form.
static void put_file(const char *folder, int classes, int binary, int which) {
    int count = which == (classes == 100 ? 1 : 5) ? TEST_COUNT : TRAIN_COUNT + which;
    cifar_recipe r = {.which = which, .classes = classes, .count = count};
    char name[32];
    snprintf(name, sizeof name, "%s%s", (classes == 100 ? names100 : names10)[which], binary ? ".bin" : "");
    save(path_of(folder, name), binary ? cifar_records(which, classes, count) : cifar_pickle(&r));
}

static void put_set(const char *folder, int classes, int binary) {
    clear_dir();
    if (folder) assert_int_equal(mkdir(path_of(folder, NULL), 0700), 0);
    for (int i = 0; i < (classes == 100 ? 2 : 6); i++) put_file(folder, classes, binary, i);
}

// ---- what is read --------------------------------------------------------------------------------------------------

// Image i of a split, made from file `which`: planes became pixels.
static void check_image(const data_set *s, int64_t at, int which, int i, int classes) {
    for (int b = 0; b < CIFAR_PIXELS; b++) {
        int channel = b / 1024, place = b % 1024;
        if (s->images[at * CIFAR_PIXELS + 3 * place + channel] != cifar_pixel(which, i, b))
            fail_msg("file %d, image %d, byte %d", which, i, b);
    }
    assert_int_equal(s->labels[at], cifar_label(which, i, classes));
}

static void check_content(const ls_dataset *d, int classes) {
    data_set train = set_of(d->train), test = set_of(d->test);
    int64_t at = 0;
    int files = classes == 100 ? 2 : 6;
    assert_int_equal(ls_dataset_classes(d), classes);
    assert_string_equal(d->name, classes == 100 ? "cifar100" : "cifar10");
    assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(32, 32, 3)));
    for (int which = 0; which < files - 1; which++)
        for (int i = 0; i < TRAIN_COUNT + which; i++) check_image(&train, at++, which, i, classes);
    assert_int_equal(d->train->count, at);
    assert_int_equal(d->test->count, TEST_COUNT);
    for (int i = 0; i < TEST_COUNT; i++) check_image(&test, i, files - 1, i, classes);
}

// Both sets, both forms, the folder itself and the one above, one to three workers: the same bytes.
static void test_content(void **state) {
    static const char *const folders[2][2] = {{"cifar-10-batches-py", "cifar-10-batches-bin"},
                                              {"cifar-100-python", "cifar-100-binary"}};
    for (int k = 0; k < 2 * 2 * 2; k++) {
        int hundred = k & 1, binary = k >> 1 & 1, above = k >> 2, classes = hundred ? 100 : 10;
        char spec[128];
        put_set(above ? folders[hundred][binary] : NULL, classes, binary);
        snprintf(spec, sizeof spec, "%s:%s", hundred ? "cifar100" : "cifar10", dir);
        for (int size = 1; size <= WORKERS_MAX; size++) {
            team t = TEAM;
            worker w[WORKERS_MAX];
            team_open(&t, w, size, spec);
            assert_string_equal(w[0].message, "");
            for (int r = 0; r < size; r++) {
                check_content(w[r].dataset, classes);
                assert_true(w[r].dataset->fingerprint == (hundred ? 0x372d5afe701ac18du : 0x5c29752c77e66954u));
                assert_true(llabs(t.read_bytes[r] - t.read_bytes[0]) < FILES_MAX * WORKERS_MAX);
            }
            assert_int_equal(t.freed, 1);  // the files as they were
            team_close(&t, w);
        }
    }
}

// Besides the images there is one file in memory, not all of them: what training takes is planned without them.
static void test_memory(void **state) {
    enum { COUNT = 500 };
    for (int which = 0; which < FILES_MAX; which++) {
        cifar_recipe r = {.which = which, .classes = 10, .count = COUNT};
        save(path_of(NULL, names10[which]), cifar_pickle(&r));
    }
    char spec[128];
    snprintf(spec, sizeof spec, "cifar10:%s", dir);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 2, spec);
    assert_string_equal(w[0].message, "");
    int64_t file = (int64_t)COUNT * (32 * 32 * 3 + 1);
    if (t.most > 8 * file) fail_msg("reading 6 files of %lld bytes holds %lld", (long long)file, (long long)t.most);
    team_close(&t, w);
}

static void test_column_order(void **state) {
    put_set(NULL, 100, 0);
    cifar_recipe r = {.which = 0, .classes = 100, .count = TRAIN_COUNT, .by_column = 1};
    save(path_of(NULL, "train"), cifar_pickle(&r));
    char spec[128];
    snprintf(spec, sizeof spec, "cifar100:%s", dir);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec);
    assert_string_equal(w[0].message, "");
    check_content(w[0].dataset, 100);
    team_close(&t, w);
}

// ---- what is refused -----------------------------------------------------------------------------------------------

// Opens what lies in `dir` with one and three workers; the sentence must have all of these words, separated by '|'.
static void refused(int classes, ls_status status, const char *words) {
    char spec[128], list[512], *rest = NULL;
    snprintf(spec, sizeof spec, "cifar%d:%s", classes, dir);
    for (int size = 1; size <= WORKERS_MAX; size += 2) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, size, spec);
        if (w[0].status != status) fail_msg("status %d instead of %d: %s", w[0].status, status, w[0].message);
        snprintf(list, sizeof list, "%s", words);
        for (char *word = strtok_r(list, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
            if (!strstr(w[0].message, word)) fail_msg("no \"%s\" in: %s", word, w[0].message);
        team_close(&t, w);
    }
}

static void test_files_refused(void **state) {
    clear_dir();
    refused(10, LS_STATUS_NOT_FOUND, "no files of CIFAR-10|data_batch_1|cifar-10-batches-py|cifar-10-batches-bin");
    refused(100, LS_STATUS_NOT_FOUND, "no files of CIFAR-100|train|cifar-100-python|cifar-100-binary");
    assert_int_equal(mkdir(path_of("train", NULL), 0700), 0);
    refused(100, LS_STATUS_NOT_FOUND, "no files of CIFAR-100");

    for (int binary = 0; binary < 2; binary++) {
        put_set(NULL, 10, binary);
        const char *path = path_of(NULL, binary ? "data_batch_4.bin" : "data_batch_4");
        assert_int_equal(truncate(path, 0), 0);
        refused(10, LS_STATUS_BAD_DATA, "data_batch_4|is empty");
        assert_int_equal(truncate(path, 3LL << 30), 0);
        refused(10, LS_STATUS_BAD_DATA, "data_batch_4|has 3221225472 bytes, more than any");
        unlink(path);
        refused(10, LS_STATUS_NOT_FOUND, "data_batch_4|No such file|all 6 files of CIFAR-10");
        assert_int_equal(mkdir(path, 0700), 0);
        refused(10, LS_STATUS_BAD_DATA, "data_batch_4|is not a regular file");
    }
    assert_int_equal(remove_dir(NULL), 0);
    refused(10, LS_STATUS_NOT_FOUND, "cannot open the data folder|No such file");
    assert_int_equal(mkdir(dir, 0700), 0);
}

static void test_records_refused(void **state) {
    put_set(NULL, 10, 1);
    cifar_file f = cifar_records(2, 10, TRAIN_COUNT);
    f.p[17 * 3073] = 10;
    assert_true(cifar_save(path_of(NULL, "data_batch_3.bin"), f.p, f.n));
    refused(10, LS_STATUS_BAD_DATA, "data_batch_3.bin: label 17 is 10|go from 0 to 9");
    f.p[17 * 3073] = 9;
    assert_true(cifar_save(path_of(NULL, "data_batch_3.bin"), f.p, f.n - 1));
    refused(10, LS_STATUS_BAD_DATA, "data_batch_3.bin has 70678 bytes|records of 3073 bytes|22 and 3072 bytes more");
    assert_true(cifar_save(path_of(NULL, "data_batch_3.bin"), f.p, f.n + 1));
    refused(10, LS_STATUS_BAD_DATA, "data_batch_3.bin has 70680 bytes|23 and 1 bytes more");
    free(f.p);

    put_set(NULL, 100, 1);
    f = cifar_records(1, 100, TEST_COUNT);
    f.p[4 * 3074] = 255;  // a coarse label, which nobody asks for
    f.p[8 * 3074 + 1] = 100;
    save(path_of(NULL, "test.bin"), f);
    refused(100, LS_STATUS_BAD_DATA, "test.bin: label 8 is 100|CIFAR-100 go from 0 to 99");
}

static void pickle_refused(cifar_recipe r, const char *words) {
    r.which = 1;
    r.classes = 10;
    if (!r.count) r.count = 12;
    save(path_of(NULL, "data_batch_2"), cifar_pickle(&r));
    refused(10, LS_STATUS_BAD_DATA, words);
}

static void test_batches_refused(void **state) {
    put_set(NULL, 10, 0);
    pickle_refused((cifar_recipe){.bad_label = 10}, "data_batch_2: label 11 is 10|go from 0 to 9");
    pickle_refused((cifar_recipe){.bad_label = -1}, "data_batch_2: label 11 is -1");
    pickle_refused((cifar_recipe){.labels = 11}, "data_batch_2 has 12 images but 11 labels");
    pickle_refused((cifar_recipe){.ndim = 1}, "\"data\" has 1 dimensions|3072 are wanted");
    pickle_refused((cifar_recipe){.count = 3, .width = 1024},
                   "BUILD at byte|3072 bytes by its shape out of 9216 bytes");
    pickle_refused((cifar_recipe){.dtype = "f4"}, "BUILD at byte|dtype 'f4'|'u1'");
    pickle_refused((cifar_recipe){.data_key = "date"}, "has no array \"data\"");
    pickle_refused((cifar_recipe){.labels_key = "fine_labels"}, "has no list \"labels\"|CIFAR-10 ");
    pickle_refused((cifar_recipe){.module = "os"}, "GLOBAL at byte|names os._reconstruct|nothing was executed");
    cifar_recipe r = {.which = 1, .classes = 10, .count = 5};
    cifar_file f = cifar_pickle(&r);
    cifar_ops(&f, "x");
    save(path_of(NULL, "data_batch_2"), f);
    refused(10, LS_STATUS_BAD_DATA, "data_batch_2 has 1 bytes after the pickle's end");
    save(path_of(NULL, "data_batch_2"), cifar_records(1, 10, 5));
    refused(10, LS_STATUS_BAD_DATA, "data_batch_2 is no pickle of protocol 2: it begins with 0x03");
}

// ---- the pickle reader ---------------------------------------------------------------------------------------------

static ls_status parse(const void *bytes, size_t n) {
    ls__pickle *p;
    // A copy of its own, so that a sanitizer sees a byte read past the end.
    uint8_t *copy = malloc(n ? n : 1);
    if (n) memcpy(copy, bytes, n);
    ls_status status = ls__pickle_parse("FILE", copy, (int64_t)n, &p);
    assert_true((p != NULL) == (status == LS_OK));
    ls__pickle_free(&p);
    free(copy);
    return status;
}

// Wherever a batch is cut, it is refused.
static void test_every_cut(void **state) {
    cifar_recipe r = {.classes = 10, .count = 1};
    cifar_file f = cifar_pickle(&r);
    assert_int_equal(parse(f.p, f.n), LS_OK);
    for (size_t n = 0; n < f.n; n++) {
        assert_int_equal(parse(f.p, n), LS_STATUS_BAD_DATA);
        assert_non_null(strstr(ls_error_message(), n ? "FILE is cut short" : "FILE is no pickle"));
    }
    free(f.p);
}

#define SAYS(bytes, text)                                                                                              \
    { bytes, sizeof bytes - 1, text }

static void test_opcodes_refused(void **state) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
        SAYS("\x80\x02"
             "cos\nsystem\nU\4true\x85R.",
             "GLOBAL at byte 2 names os.system"),
        SAYS("\x80\x02"
             "cnumpy\nload\n.",
             "names numpy.load"),
        SAYS("\x80\x02"
             "cnumpy\ndtype\n)R.",
             "REDUCE at byte 16 calls something other"),
        SAYS("\x80\x02K\1K\2\x86R.", "REDUCE at byte 7 needs 2 values on the stack, but there are 1"),
        SAYS("\x80\x02K\1K\2\x85R.", "REDUCE at byte 7 calls something other"),
        SAYS("\x80\x02(cos\nsystem\no.", "names os.system"),
        SAYS("\x80\x02(ios\nsystem\n.", "INST (0x69) at byte 3"),
        SAYS("\x80\x02}\x81.", "NEWOBJ (0x81) at byte 3"),
        SAYS("\x80\x02\x93.", "STACK_GLOBAL (0x93) at byte 2"),
        SAYS("\x80\x02X\1\0\0\0a.", "BINUNICODE (0x58) at byte 2"),
        SAYS("\x80\x02I1\n.", "INT (0x49) at byte 2"),
        SAYS("\x80\x02G\0\0\0\0\0\0\0\0.", "BINFLOAT"),
        SAYS("\x80\x02Pid\n.", "PERSID"),
        SAYS("\x80\x02"
             "2.",
             "DUP"),
        SAYS("\x80\x02\xf0.", "an unknown opcode (0xF0)"),
        SAYS("\x80\x04}.", "PROTO at byte 0 says protocol 4"),
        SAYS("\x80\x02\x80\x02}.", "PROTO at byte 2"),
        SAYS("(dp0\n.", "no pickle of protocol 2: it begins with 0x28"),
        SAYS("\x80\x02.", "STOP at byte 2 comes with 0 values"),
        SAYS("\x80\x02NN.", "comes with 2 values"),
        SAYS("\x80\x02N(.", "1 values on the stack and 1 open marks"),
        SAYS("\x80\x02]e.", "APPENDS at byte 3 has no MARK"),
        SAYS("\x80\x02t.", "TUPLE at byte 2 has no MARK"),
        SAYS("\x80\x02Na.", "APPEND at byte 3 needs 2 values"),
        SAYS("\x80\x02NNa.", "APPEND at byte 4 has no list"),
        SAYS("\x80\x02N(K\1e.", "APPENDS at byte 6 has no list"),
        SAYS("\x80\x02](K\1a.", "APPEND at byte 6 needs 2 values on the stack, but there are 1"),
        SAYS("\x80\x02]((e.", "APPENDS at byte 5 has no list"),
        SAYS("\x80\x02(e.", "APPENDS at byte 3 has no list"),
        SAYS("\x80\x02}(U\1au.", "SETITEMS at byte 7 has a key without a value"),
        SAYS("\x80\x02}K\1K\2s.", "SETITEM at byte 7 has a key that is no string but int"),
        SAYS("\x80\x02q\0.", "BINPUT at byte 2 needs 1 values"),
        SAYS("\x80\x02Nq\2.", "BINPUT at byte 3 has the number 2 where the next is 0"),
        SAYS("\x80\x02Nr\xff\xff\xff\xff.", "LONG_BINPUT at byte 3 has the number 4294967295"),
        SAYS("\x80\x02h\0.", "BINGET at byte 2 asks for number 0 of the memo, which has 0"),
        SAYS("\x80\x02Nq\0j\1\0\0\0.", "LONG_BINGET at byte 5 asks for number 1"),
        SAYS("\x80\x02T\xff\xff\xff\x7f"
             "abc",
             "BINSTRING at byte 2 needs 2147483647 bytes more, but only 3 are left"),
        SAYS("\x80\x02T\xff\xff\xff\xff"
             "abc",
             "BINSTRING at byte 2 needs 4294967295 bytes more"),
        SAYS("\x80\x02}NNb.", "BUILD at byte 5 gives a state (None) to something (None)"),
        SAYS("\x80\x02}N\x85"
             "b.",
             "BUILD at byte 5 gives a state (tuple) to something (dict)"),
        SAYS("\x80\x02"
             "cnumpy\ndtype\nU\2u1K\0K\1\x87RK\1\x85"
             "b.",
             "a state that no plain one has"),
        SAYS("\x80\x02"
             "cnumpy\naaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
             "a name of more than 64 bytes"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(parse(cases[i].bytes, cases[i].n), LS_STATUS_BAD_DATA);
        if (!strstr(ls_error_message(), cases[i].text)) fail_msg("no \"%s\" in: %s", cases[i].text, ls_error_message());
    }
}

#define DTYPE  "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
#define ARRAY  "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R"
#define EXTENT "J\xff\xff\xff\x7f"

// Arrays whose shape and data cannot be; the good one beside them shows that nothing else is wrong.
static void test_arrays_refused(void **state) {
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } cases[] = {
        SAYS("\x80\x02" ARRAY "(K\1K\2K\3\x86" DTYPE "\x89U\6abcdeftb.", NULL),
        SAYS("\x80\x02" ARRAY "(K\1K\2K\3\x86" DTYPE "\x89U\5abcdetb.", "6 bytes by its shape out of 5 bytes"),
        SAYS("\x80\x02" ARRAY "(K\1(" EXTENT EXTENT EXTENT "t" DTYPE "\x89U\1atb.", "extent 2 is impossible"),
        SAYS("\x80\x02" ARRAY "(K\1J\xff\xff\xff\xff\x85" DTYPE "\x89U\1atb.", "extent 0 is impossible"),
        SAYS("\x80\x02" ARRAY "(K\1N\x85" DTYPE "\x89U\1atb.", "extent 0 is impossible"),
        SAYS("\x80\x02" ARRAY "(K\1)" DTYPE "\x89U\1atb.", "array of 0 dimensions"),
        SAYS("\x80\x02" ARRAY "(K\1(K\1K\1K\1K\1K\1t" DTYPE "\x89U\1atb.", "array of 5 dimensions"),
        SAYS("\x80\x02" ARRAY "(K\1K\1\x85" DTYPE "\x89Ntb.", "a state that none has"),
        SAYS("\x80\x02" ARRAY "(K\1K\1\x85" DTYPE "\x89tb.", "a state that none has"),
        SAYS("\x80\x02" ARRAY "(K\1K\1\x85U\2u1\x89U\1atb.", "a state that none has"),
        SAYS("\x80\x02" ARRAY "(K\1K\1\x85" DTYPE "\x89U\1atb(K\1K\1\x85" DTYPE "\x89U\1atb.", "a state twice"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_status status = parse(cases[i].bytes, cases[i].n);
        if (!cases[i].text) {
            if (status != LS_OK) fail_msg("%s", ls_error_message());
            continue;
        }
        assert_int_equal(status, LS_STATUS_BAD_DATA);
        if (!strstr(ls_error_message(), cases[i].text)) fail_msg("no \"%s\" in: %s", cases[i].text, ls_error_message());
    }
}

// `unit` again and again until the reader has enough; it must, before long.
static void too_many(const char *unit, size_t n, size_t times, const char *text) {
    cifar_file f = {0};
    cifar_ops(&f, "\x80\2]");
    for (size_t i = 0; i < times; i++) cifar_add(&f, unit, n);
    assert_int_equal(parse(f.p, f.n), LS_STATUS_BAD_DATA);
    if (!strstr(ls_error_message(), text)) fail_msg("no \"%s\" in: %s", text, ls_error_message());
    free(f.p);
}

static void test_limits(void **state) {
    too_many("N", 1, 5000, "NONE at byte 4098 is one value too many");
    too_many("Na", 2, 2000000, "one value too many: this reader takes 4096 at once and 1048576 in all");
    too_many("(", 1, 100, "MARK at byte 19 is the mark after 16 open ones");
    too_many("]", 1, 100, "EMPTY_LIST at byte 66 is one too many: this reader takes 64 lists");
    too_many(")", 1, 100, "EMPTY_TUPLE at byte 66 is one too many");
    cifar_file f = {0};
    cifar_ops(&f, "\x80\2N");
    for (uint32_t i = 0; i < 300000; i++) {
        cifar_ops(&f, "r");
        cifar_le(&f, i, 4);
    }
    assert_int_equal(parse(f.p, f.n), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "the number 262144 where the next is 262144 of at most 262144"));
    free(f.p);
}

// A list in itself: what may not end is never walked.
static void test_cycle(void **state) { assert_int_equal(parse("\x80\2]q\0h\0a.", 9), LS_OK); }

// ---- workers -------------------------------------------------------------------------------------------------------

// Whoever fails, all hear of it, and nobody is left waiting.
static void test_failing_workers(void **state) {
    put_set(NULL, 10, 0);
    char spec[128];
    snprintf(spec, sizeof spec, "cifar10:%s", dir);
    for (int rank = 0; rank < WORKERS_MAX; rank++)
        for (int what = 0; what < 2; what++) {
            team t = TEAM;
            worker w[WORKERS_MAX];
            *(what ? &t.fail_read_rank : &t.fail_alloc_rank) = rank;
            team_open(&t, w, WORKERS_MAX, spec);
            assert_int_equal(w[0].status, what ? LS_STATUS_IO : LS_STATUS_OUT_OF_MEMORY);
            assert_non_null(strstr(w[0].message, "says the test"));
            team_close(&t, w);
        }
}

// ---- the real files ------------------------------------------------------------------------------------------------

// MD5 of the published binary version's files.
static const char *const published[] = {"5dd7e06a14cb22eb9f671a540d1b7c25", "5ea93a67294ea407fff1d09f752e9692",
                                        "942cd6a4bcdd0dd3c604fbe906cb4421", "ae636b3ba5c66a11e91e8cb52e771fcb",
                                        "53f37980c15c3d472c316c40844f3f0d", "803d5f7f4d78ea53de84dbe85f74fb6d"};

// 10,000 samples as the binary version has them: (10000, 3073)
static void to_records(const data_set *s, int64_t first, uint8_t *records) {
    for (int64_t i = 0; i < 10000; i++) {
        uint8_t *record = records + i * 3073;
        const uint8_t *image = s->images + (first + i) * CIFAR_PIXELS;
        record[0] = s->labels[first + i];
        for (int b = 0; b < CIFAR_PIXELS; b++) record[1 + b] = image[b % 1024 * 3 + b / 1024];
    }
}

static void check_md5(const uint8_t *bytes, size_t n, const char *expected) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    char text[2 * EVP_MAX_MD_SIZE + 1];
    assert_int_equal(EVP_Digest(bytes, n, digest, &length, EVP_md5(), NULL), 1);
    for (unsigned i = 0; i < length; i++) snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

// The real Python version read, written as the binary version (its MD5 are known), and read again from that.
static void test_real_files(void **state) {
    const char *folder = getenv("LOCKSTEP_DATA");
    char spec[512], name[32];
    snprintf(spec, sizeof spec, "%s/cifar-10-batches-py", folder ? folder : "");
    if (!folder || access(spec, R_OK) != 0) {
        printf("skipped: set LOCKSTEP_DATA to a folder with cifar-10-batches-py/ inside to read the real files\n");
        skip();
    }
    clear_dir();
    snprintf(spec, sizeof spec, "cifar10:%s", folder);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 3, spec);
    assert_string_equal(w[0].message, "");
    const ls_dataset *d = w[1].dataset;
    data_set train = set_of(d->train), test = set_of(d->test);
    int counts[2][10] = {{0}};
    for (int64_t i = 0; i < d->train->count; i++) counts[0][train.labels[i]]++;
    for (int64_t i = 0; i < d->test->count; i++) counts[1][test.labels[i]]++;
    for (int c = 0; c < 10; c++) {
        assert_int_equal(counts[0][c], 5000);
        assert_int_equal(counts[1][c], 1000);
    }
    uint8_t *records = malloc(10000 * 3073);
    for (int i = 0; i < 6; i++) {
        to_records(i < 5 ? &train : &test, i < 5 ? i * 10000 : 0, records);
        check_md5(records, 10000 * 3073, published[i]);
        snprintf(name, sizeof name, "%s.bin", names10[i]);
        assert_true(cifar_save(path_of(NULL, name), records, 10000 * 3073));
    }
    free(records);
    uint64_t fingerprint = d->fingerprint;
    team_close(&t, w);

    team again = TEAM;
    snprintf(spec, sizeof spec, "cifar10:%s", dir);
    team_open(&again, w, 1, spec);
    assert_string_equal(w[0].message, "");
    assert_true(w[0].dataset->fingerprint == fingerprint);
    team_close(&again, w);
}

int main(void) {
    alarm(50);  // workers that wait for each other must not outlive the test
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content),         cmocka_unit_test(test_memory),
        cmocka_unit_test(test_column_order),    cmocka_unit_test(test_files_refused),
        cmocka_unit_test(test_records_refused), cmocka_unit_test(test_batches_refused),
        cmocka_unit_test(test_every_cut),       cmocka_unit_test(test_opcodes_refused),
        cmocka_unit_test(test_arrays_refused),  cmocka_unit_test(test_limits),
        cmocka_unit_test(test_cycle),           cmocka_unit_test(test_failing_workers),
        cmocka_unit_test(test_real_files),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
