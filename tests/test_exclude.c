// Samples that are left out by a list: names where samples have some, numbers of every source; on any number of workers; a sentence for a list that is wrong.
#include "containers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/exclude.h"
#include "data_team.h"
#include "npz_files.h"

static char root[] = "/tmp/lockstep-exclude-XXXXXX";

static int set_up(void **state) {
    setenv("LOCKSTEP_INDEX_SECONDS", "never", 1);
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static const char *at(const char *name) {
    static char text[4][256];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s/%s", root, name);
    return text[turn];
}

static void save(const char *name, image_file f) { assert_true(image_save(f, at(name))); }

static void list(const char *text) {
    image_file f = {NULL, 0, 0};
    image_add(&f, text, strlen(text));
    save("list", f);
}

// "0 2 3": the numbers of those that remain, in order.
static void numbers(const ls_source *s, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int64_t i = 0; i < s->count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? " " : "", (long long)ls_source_number(s, i));
}

// Opens `spec` with the list; what remains of both sets, by number.
static void remains(const char *spec, const char *train, const char *test) {
    char text[400], whole[900];
    uint64_t fingerprint = 0;
    snprintf(whole, sizeof whole, "%s,exclude=%s", spec, at("list"));
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, whole);
        if (w[0].status != LS_OK) fail_msg("%s: %s", spec, w[0].message);
        for (int r = 0; r < workers; r++) {
            const ls_dataset *d = w[r].dataset;
            numbers(d->train, text, sizeof text);
            assert_string_equal(text, train);
            assert_true(!test == !d->test);
            if (test) {
                numbers(d->test, text, sizeof text);
                assert_string_equal(text, test);
            }
            if (!fingerprint) fingerprint = d->fingerprint;
            assert_true(fingerprint == d->fingerprint);
        }
        team_close(&t, w);
    }
}

static void refused(const char *spec, ls_status status, const char *words) {
    char whole[900];
    snprintf(whole, sizeof whole, "%s,exclude=%s", spec, at("list"));
    for (int workers = 1; workers <= 2; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, whole);
        if (w[0].status != status || !strstr(w[0].message, words))
            fail_msg("%s: %s instead of \"%s\": %s", spec, ls_status_name(w[0].status), words, w[0].message);
        team_close(&t, w);
    }
}

static void make_files(void) {
    for (int format = 0; format < CONTAINERS; format++) save(container_formats[format], container_make(format));
    save("arrays.npz", npz_make());
}

static const char *of(const char *format) {
    static char text[300];
    snprintf(text, sizeof text, "%s:%s", format, at(strcmp(format, "numpy") == 0 ? "arrays.npz" : format));
    return text;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

static void every_source(void **state) {
    make_files();
    list("# broken ones\ntrain:1\r\n\ntrain:3-4\ntrain:3\n");
    for (int format = 0; format < CONTAINERS; format++) remains(of(container_formats[format]), "0 2", NULL);
    list("train:0\ntrain:2-5\ntest:1\ntrain:5");
    remains(of("numpy"), "1 6", "0 2");
    remains("synthetic:2x2x3,3,9,4", "1 6 7 8", "0 2 3");
    // A part of the samples as test set: numbers are those of the sets as they are cut.
    char spec[400];
    snprintf(spec, sizeof spec, "%s,validation-split=0.4", of("tar"));
    list("test:0\ntrain:2\n");
    remains(spec, "0 1", "1");
    list("");
    remains(of("recordio"), "0 1 2 3 4", NULL);
}

// What is read is what is left, and a failure has the number that the list would have.
static void what_is_read(void **state) {
    ls_sample sample, same;
    ls_sample_info info;
    char spec[600];
    team t = TEAM, all = TEAM;
    worker w[WORKERS_MAX], v[WORKERS_MAX];
    void *scratch, *other;
    make_files();
    list("train:0\ntrain:2\n");
    snprintf(spec, sizeof spec, "%s,exclude=%s", of("recordio"), at("list"));
    team_open(&t, w, 1, spec);
    assert_string_equal(w[0].message, "");
    team_open(&all, v, 1, of("recordio"));
    const ls_source *s = w[0].dataset->train, *whole = v[0].dataset->train;
    static const int64_t left[] = {1, 3, 4};
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    assert_int_equal(ls_memory_alloc(whole->scratch_bytes, &other), LS_OK);
    // With a cache, too: the second round comes from it.
    int64_t bytes = ls_data_cache_size(w[0].dataset, 1 << 20, 0);
    void *memory;
    assert_true(bytes > 0);
    assert_int_equal(ls_memory_alloc(bytes, &memory), LS_OK);
    memset(memory, 0, (size_t)bytes);
    ls_data_cache_attach(w[0].dataset, 1 << 20, 0, memory, 1);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 3; i++) {
            s->ops->ahead(s, i);
            assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
            assert_int_equal(ls_source_read(whole, left[i], other, &same), LS_OK);
            const ls_picture *a = sample.field[0], *b = same.field[0];
            assert_true(a->size == b->size && memcmp(a->bytes, b->bytes, (size_t)a->size) == 0);
            assert_int_equal(*(const int32_t *)sample.field[1], *(const int32_t *)same.field[1]);
        }
    assert_int_equal(ls_dataset_look(w[0].dataset, 0, 1, &info, NULL), LS_OK);
    assert_int_equal(info.number, 3);
    // Changed while it is open.
    assert_int_equal(truncate(at("recordio"), 30), 0);
    ls_data_close(&w[0].dataset);
    team_close(&t, w);
    ls_memory_free(memory);
    make_files();
    t = (team)TEAM;
    team_open(&t, w, 1, spec);
    assert_string_equal(w[0].message, "");
    assert_int_equal(truncate(at("recordio"), 30), 0);
    assert_int_equal(ls_source_read(w[0].dataset->train, 2, scratch, &sample), LS_STATUS_IO);
    assert_non_null(strstr(ls_error_message(), "sample 4 of the training set of recordio: "));
    team_close(&t, w);
    team_close(&all, v);
    ls_memory_free(scratch);
    ls_memory_free(other);
}

// Other numbers are another dataset, in memory and in files.
static void fingerprints(void **state) {
    static const char *const lists[] = {"", "train:1\n", "train:2\n", "test:1\n", "train:1-2\n"};
    uint64_t seen[2][5];
    make_files();
    for (int i = 0; i < 5; i++) {
        list(lists[i]);
        for (int k = 0; k < 2; k++) {
            char spec[600];
            team t = TEAM;
            worker w[WORKERS_MAX];
            snprintf(spec, sizeof spec, "%s,exclude=%s", k ? "synthetic:2x2x3,3,9,4" : of("numpy"), at("list"));
            team_open(&t, w, 2, spec);
            assert_string_equal(w[0].message, "");
            seen[k][i] = w[0].dataset->fingerprint;
            for (int before = 0; before < i; before++) assert_true(seen[k][before] != seen[k][i]);
            team_close(&t, w);
        }
    }
}

// --- names -----------------------------------------------------------------------------------------------------------

static void names(void **state) {
    make_files();
    list("0000000001\n0000000003\n0000000001\n");  // one of them twice
    // Names are left out while samples are listed, and so are not counted.
    remains(of("tar"), "0 1 2", NULL);
    remains(of("lmdb"), "0 1 2", NULL);
    list("0000000001\ntrain:1\n");
    remains(of("tar"), "0 2 3", NULL);
    list(
        "\xef\xbb\xbf"
        "0000000004\n");
    remains(of("lmdb"), "0 1 2 3", NULL);
    list("0000000001\n0000000007\n");
    refused(of("tar"), LS_STATUS_BAD_DATA, "line 2 of ");
    refused(of("tar"), LS_STATUS_BAD_DATA,
            "there is no sample named 0000000007 in the dataset to leave out; a sample's name");
    refused(of("lmdb"), LS_STATUS_BAD_DATA, "a sample's name is its key");
    static const char *const nameless[] = {"tfrecord", "recordio", "numpy"};
    for (int i = 0; i < 3; i++)
        refused(of(nameless[i]), LS_STATUS_BAD_DATA, "have numbers alone; train:17 and test:3 are numbers of samples");
    list("train:x\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "there is no sample named train:x");
}

// Hosts whose lists differ meet in every call: an empty list asks for as many as one with numbers.
static void calls(void **state) {
    int allocated[2];
    make_files();
    for (int some = 0; some < 2; some++) {
        char spec[400];
        team t = TEAM;
        worker w[WORKERS_MAX];
        list(some ? "train:1\n" : "");
        snprintf(spec, sizeof spec, "%s,exclude=%s", of("recordio"), at("list"));
        team_open(&t, w, 2, spec);
        assert_string_equal(w[0].message, "");
        allocated[some] = t.allocated;
        team_close(&t, w);
    }
    assert_int_equal(allocated[0], allocated[1]);
}

// --- lists that are wrong --------------------------------------------------------------------------------------------

static void wrong_lists(void **state) {
    make_files();
    list("train:0\ntrain:5\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "line 2 of ");
    refused(of("recordio"), LS_STATUS_BAD_DATA,
            "the training set of recordio has no sample 5 to leave out: they go from 0 to 4");
    list("train:3-99999999999999999999\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "there is no sample named train:3-999");
    list("train:3-1\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "train:3-1 ends before it begins");
    list("test:0\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "the dataset recordio has no test set");
    list("train:0-4\n");
    refused(of("recordio"), LS_STATUS_BAD_DATA, "leaves nothing of the training set of recordio");
    list("test:0-2\n");
    refused(of("numpy"), LS_STATUS_BAD_DATA, "leaves nothing of the test set of numpy");
    list("train:0-999999999999999999\n");
    refused("synthetic:2x2x3,3,9,4", LS_STATUS_BAD_DATA, "has no sample 999999999999999999 to leave out");
    refused("synthetic:2x2x3,3,9,4,exclude=x", LS_STATUS_INVALID_ARGUMENT, "has exclude= twice");
    assert_int_equal(unlink(at("list")), 0);
    refused(of("recordio"), LS_STATUS_NOT_FOUND, "the files to leave out");
    refused(of("numpy"), LS_STATUS_NOT_FOUND, "the files to leave out");
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 2, "synthetic:2x2x3,3,9,4,exclude=");
    assert_true(w[1].status == LS_STATUS_INVALID_ARGUMENT && strstr(w[1].message, "exclude= names the file"));
    team_close(&t, w);
    // Where the host has no memory for it all are told.
    make_files();
    list("train:1\n");
    t = (team)TEAM;
    t.fail_alloc_rank = 1;
    char spec[400];
    snprintf(spec, sizeof spec, "synthetic:2x2x3,3,9,4,exclude=%s", at("list"));
    team_open(&t, w, 2, spec);
    assert_string_equal(w[0].message, "no memory, says the test");
    team_close(&t, w);
}

// What is no text in a file is refused before it leaves the wrong samples in.
static void no_lists(void **state) {
    image_file f = {NULL, 0, 0};
    make_files();
    image_add(&f, "train:1\ntrain:2\0x\n", 18);
    save("list", f);
    refused(of("recordio"), LS_STATUS_BAD_DATA, "line 2 of ");
    refused(of("tar"), LS_STATUS_BAD_DATA, " has a zero byte");
    assert_int_equal(truncate(at("list"), (64 << 20) + 1), 0);
    refused(of("tar"), LS_STATUS_INVALID_ARGUMENT, " has 67108865 bytes, and a list of what to leave out at most");
    assert_int_equal(unlink(at("list")), 0);
    assert_int_equal(mkfifo(at("list"), 0600), 0);
    refused(of("tar"), LS_STATUS_INVALID_ARGUMENT, "is read twice; name a file");
    refused(of("recordio"), LS_STATUS_INVALID_ARGUMENT, "is read twice; name a file");
    assert_int_equal(unlink(at("list")), 0);
    assert_int_equal(mkdir(at("list"), 0700), 0);
    refused(of("recordio"), LS_STATUS_IO, "the files to leave out: Is a directory");
    assert_int_equal(rmdir(at("list")), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_source), cmocka_unit_test(what_is_read),
                                       cmocka_unit_test(fingerprints), cmocka_unit_test(names),
                                       cmocka_unit_test(wrong_lists),  cmocka_unit_test(calls),
                                       cmocka_unit_test(no_lists)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
