// Indexes of records that are kept: read again instead of listing, made anew when what they were made from has changed, and as if they were not there
// when they are damaged, of something else, or cannot be written.
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "data/index.h"
#include "image_files.h"

static char root[64], cache[96];

static void shell(const char *format, ...) {
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state) {
    snprintf(root, sizeof root, "/tmp/lockstep-index-XXXXXX");
    if (!mkdtemp(root)) return -1;
    snprintf(cache, sizeof cache, "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache, 1);
    setenv("LOCKSTEP_INDEX_SECONDS", "0", 1);
    return 0;
}

static int tear_down(void **state) {
    shell("rm -rf '%s'", root);
    return 0;
}

// Long ago, as data mostly are: what is younger than two seconds is not kept.
static void age(void) { shell("find '%s/data' -exec touch -h -d '2020-02-02' {} +", root); }

// Two classes of three images, no index.
static void fresh(void) {
    uint8_t pixels[4 * 4 * 3];
    char path[128];
    memset(pixels, 77, sizeof pixels);
    shell("rm -rf '%s/data' '%s' && mkdir -p '%s/data/a' '%s/data/b'", root, cache, root, root);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s/data/%c/%d.png", root, "ab"[i % 2], i);
        assert_true(image_save(image_png(4, 4, 8, PNG_COLOR_TYPE_RGB, 0, pixels, 12), path));
    }
    age();
}

typedef struct opened {
    ls_data_host *host;
    ls_dataset *dataset;
} opened;

static opened open_data(const char *format, const char *behind) {
    opened o;
    char spec[256];
    snprintf(spec, sizeof spec, "%s:%s/data%s", format, root, behind);
    assert_int_equal(ls_data_host_create_self(&o.host), LS_OK);
    if (ls_data_open(o.host, spec, &o.dataset) != LS_OK) fail_msg("%s", ls_error_message());
    return o;
}

static void close_data(opened *o) {
    ls_data_close(&o->dataset);
    ls_data_host_destroy_self(&o->host);
}

// Opens it; how many samples it has, and its fingerprint.
static int64_t count_of(const char *format, const char *behind, uint64_t *fingerprint, char *note) {
    opened o = open_data(format, behind);
    int64_t count = ls_dataset_train_count(o.dataset);
    if (fingerprint) *fingerprint = ls_dataset_fingerprint(o.dataset);
    if (note) snprintf(note, 512, "%s", ls_dataset_note(o.dataset));
    close_data(&o);
    return count;
}

// The files in the cache's folder, and the name of one.
static int kept(char *path) {
    char folder[128];
    struct dirent *e;
    int count = 0;
    snprintf(folder, sizeof folder, "%s/lockstep", cache);
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)))
        if (e->d_name[0] != '.') {
            count++;
            if (path) snprintf(path, 400, "%s/%s", folder, e->d_name);
        }
    if (d) closedir(d);
    return count;
}

static void is_read_and_checked(void **state) {
    uint64_t first, again;
    fresh();
    assert_int_equal(count_of("images", "", &first, NULL), 6);
    assert_int_equal(kept(NULL), 1);
    assert_int_equal(count_of("images", "", &again, NULL), 6);
    assert_true(first == again);
    // A file of which nothing tells: the folder's time is put back. That it is not found shows that the index was read.
    shell("cd '%s/data/a' && cp 0.png 8.png", root);
    age();
    assert_int_equal(count_of("images", "", &again, NULL), 6);
    assert_true(first == again);
    // Other options are another index, which is made.
    assert_int_equal(count_of("images", ",channels=1", NULL, NULL), 7);
    assert_int_equal(kept(NULL), 2);
    // The folder has another time; a class is new; a file is another.
    static const char *const changes[] = {"touch a", "mkdir c && cp a/0.png c/", "cat a/0.png >>b/1.png"};
    static const int expected[] = {7, 8, 8};
    for (int i = 0; i < 3; i++) {
        shell("cd '%s/data' && %s", root, changes[i]);
        assert_int_equal(count_of("images", "", &again, NULL), expected[i]);
        assert_true(first != again);
        first = again;
    }
}

// What is just being written is not kept, nor what was made fast, nor anything on demand.
static void is_not_kept(void **state) {
    fresh();
    shell("touch '%s/data/a'", root);
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    assert_int_equal(kept(NULL), 0);
    age();
    static const char *const settings[] = {"never", "60", "x"};
    for (int i = 0; i < 3; i++) {
        setenv("LOCKSTEP_INDEX_SECONDS", settings[i], 1);
        assert_int_equal(count_of("images", "", NULL, NULL), 6);
        assert_int_equal(kept(NULL), 0);
    }
    setenv("LOCKSTEP_INDEX_SECONDS", "0", 1);
}

static char *load(const char *path, long *size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *size = ftell(f);
    rewind(f);
    char *bytes = malloc((size_t)*size + 1);
    assert_int_equal(fread(bytes, 1, (size_t)*size, f), *size);
    fclose(f);
    return bytes;
}

static void save(const char *path, const char *bytes, long size) {
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(bytes, 1, (size_t)size, f) == (size_t)size && fclose(f) == 0);
}

// Damaged anywhere, cut off anywhere, or of another dataset: as if there were none, and whole again afterwards.
static void damage_is_passed_over(void **state) {
    char path[400], other[400], key[9000];
    long size;
    fresh();
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    assert_int_equal(kept(path), 1);
    snprintf(other, sizeof other, "%s/data", root);
    assert_int_equal(ls__index_name("images", other, other, sizeof other, key, sizeof key), 1);
    assert_string_equal(path, other);
    char *bytes = load(path, &size);
    ls_records_builder b = {.file = NULL};
    assert_null(ls__index_parse(bytes, size, key, &b));
    assert_int_equal(b.count[0], 6);
    ls_records_free(&b);
    for (long i = 0; i < size; i++) {
        bytes[i] ^= 4;
        if (!ls__index_parse(bytes, size, key, &b)) fail_msg("byte %ld is not looked at", i);
        assert_null(b.file);
        bytes[i] ^= 4;
        if (!ls__index_parse(bytes, i, key, &b)) fail_msg("%ld bytes of it are taken for all", i);
    }
    assert_non_null(ls__index_parse(bytes, size, "images:/elsewhere from ", &b));
    // In its place: found out, and replaced.
    bytes[size / 2] ^= 4;
    save(path, bytes, size);
    shell("cd '%s/data/a' && cp 0.png 8.png", root);
    age();
    assert_int_equal(count_of("images", "", NULL, NULL), 7);
    assert_int_equal(ls__index_read(path, key, &b), 1);
    ls_records_free(&b);
    free(bytes);
    // No file at all, and one of somebody else's (where there is somebody else).
    shell("rm '%s' && mkdir '%s'", path, path);
    assert_int_equal(count_of("images", "", NULL, NULL), 7);
    shell("rmdir '%s'", path);
    assert_int_equal(count_of("images", "", NULL, NULL), 7);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 12345, 12345), 0);
        assert_int_equal(ls__index_read(path, key, &b), 0);
    }
}

// The data are there all the same, with a sentence.
static void cannot_be_written(void **state) {
    char note[512];
    fresh();
    setenv("XDG_CACHE_HOME", "/dev/null", 1);
    assert_int_equal(count_of("images", "", NULL, note), 6);
    assert_non_null(strstr(note, "cannot be kept in /dev/null/lockstep/"));
    setenv("XDG_CACHE_HOME", cache, 1);
    // A full disk, or nearly that.
    struct rlimit small = {200, 200};
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &small);
        int64_t count = count_of("images", "", NULL, note);
        _exit(count == 6 && strstr(note, "File too large") ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_int_equal(kept(NULL), 0);  // nor half of one
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", root, 1);
    assert_int_equal(count_of("images", "", NULL, note), 6);
    assert_string_equal(note, "");
    shell("ls '%s/.cache/lockstep/'*.index >/dev/null", root);
    setenv("XDG_CACHE_HOME", cache, 1);
}

// What a killed writer left is removed by the next one, when it is old; nothing else in the folder is.
static void leftovers_go(void **state) {
    char path[400];
    fresh();
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    assert_int_equal(kept(path), 1);
    shell(
        "cd '%s/lockstep' && touch -d '2 hours ago' 0123456789abcdef.index.AbCdEf other.index.AbCdEfG notes.txt && "
        "touch "
        "0123456789abcdef.index.GhIjKl && mkdir x.index.AbCdEf && touch -d '2 hours ago' x.index.AbCdEf",
        cache);
    assert_int_equal(kept(NULL), 6);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    assert_int_equal(kept(NULL), 5);
    shell("cd '%s/lockstep' && ls notes.txt other.index.AbCdEfG 0123456789abcdef.index.GhIjKl >/dev/null", cache);
}

// Another user's index, in a folder that several share, is neither read nor replaced.
static void of_another_user(void **state) {
    char path[400], note[512];
    struct stat there;
    if (geteuid() != 0) skip();
    fresh();
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    assert_int_equal(kept(path), 1);
    assert_true(chown(path, 12345, 12345) == 0 && chmod(path, 0644) == 0);
    shell("chmod 1777 '%s/lockstep' && cd '%s/data/a' && cp 0.png 8.png", cache, root);
    age();
    shell("chmod 711 '%s' && chmod -R a+rX '%s/data'", root, root);
    pid_t child = fork();
    if (child == 0) {
        if (setuid(23456) != 0) _exit(9);
        int64_t count = count_of("images", "", NULL, note);
        _exit(count == 7 && strstr(note, "cannot be kept in ") ? 0 : 1);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    assert_true(stat(path, &there) == 0 && there.st_uid == 12345);
    assert_int_equal(kept(NULL), 1);
}

// Several that find none, at once.
static void two_jobs_at_once(void **state) {
    enum { JOBS = 4, ROUNDS = 8 };
    pid_t child[JOBS];
    fresh();
    for (int j = 0; j < JOBS; j++) {
        child[j] = fork();
        if (child[j] == 0) {
            int wrong = 0;
            char path[400];
            for (int r = 0; r < ROUNDS; r++) {
                wrong |= count_of("images", "", NULL, NULL) != 6;
                if (kept(path)) unlink(path);
            }
            wrong |= count_of("images", "", NULL, NULL) != 6;
            _exit(wrong);
        }
    }
    for (int j = 0; j < JOBS; j++) {
        int how;
        assert_int_equal(waitpid(child[j], &how, 0), child[j]);
        assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    assert_true(kept(NULL) <= 1);
}

// What is not found before is found when it is read: the index goes, and the next run is right.
static void goes_when_a_file_changed(void **state) {
    fresh();
    assert_int_equal(count_of("images", "", NULL, NULL), 6);
    opened o = open_data("images", "");
    shell("cd '%s/data/b' && rm 1.png", root);
    age();
    void *scratch = aligned_alloc(64, (size_t)(o.dataset->train->scratch_bytes + 63) / 64 * 64);
    ls_sample sample;
    int failed = 0;
    for (int64_t i = 0; i < 6; i++) failed += ls_source_read(o.dataset->train, i, scratch, &sample) != LS_OK;
    assert_int_equal(failed, 1);
    free(scratch);
    close_data(&o);
    assert_int_equal(kept(NULL), 0);
    assert_int_equal(count_of("images", "", NULL, NULL), 5);
    assert_int_equal(kept(NULL), 1);
}

// Tables and containers: what they were made from is the table, a list of files, or a pattern of them.
static void tables_and_patterns(void **state) {
    uint64_t first, again;
    fresh();
    shell(
        "cd '%s/data' && (cd a && printf 0 >0.cls && cp 0.png x.png && printf 1 >x.cls && tar cf ../t-0.tar 0.png "
        "0.cls "
        "&& tar cf ../t-1.tar x.png x.cls) && printf 'a/0.png,dog\\nb/1.png,cat\\n' >table.csv && echo a/2.png >out",
        root);
    age();
    assert_int_equal(count_of("tar", "/t-*.tar", &first, NULL), 2);
    assert_int_equal(count_of("tar", "/t-*.tar", &again, NULL), 2);
    assert_int_equal(kept(NULL), 1);
    assert_true(first == again);
    shell("cd '%s/data' && cp t-0.tar t-2.tar", root);
    age();
    assert_int_equal(count_of("tar", "/t-*.tar", NULL, NULL), 3);
    assert_int_equal(count_of("csv", "/table.csv", NULL, NULL), 2);
    assert_int_equal(kept(NULL), 2);
    shell("cd '%s/data' && echo a/2.png,dog >>table.csv", root);
    age();
    assert_int_equal(count_of("csv", "/table.csv", NULL, NULL), 3);
    char behind[128];
    snprintf(behind, sizeof behind, ",exclude=%s/data/out", root);
    assert_int_equal(count_of("images", behind, NULL, NULL), 6);  // a/x.png came, a/2.png is left out
    shell("cd '%s/data' && echo a/4.png >>out", root);
    age();
    assert_int_equal(count_of("images", behind, NULL, NULL), 5);
}

// Several labels, or none: a row for each sample, and the list of labels is looked at, too.
static void tables_of_labels(void **state) {
    char behind[128], path[400];
    uint64_t first, again;
    fresh();
    shell(
        "cd '%s/data' && printf 'file,labels\\na/0.png,dog|cat\\nb/1.png,\\na/2.png,cat\\n' >t.csv && printf "
        "'cat\\ndog\\n' >n",
        root);
    age();
    snprintf(behind, sizeof behind, "/t.csv,names=%s/data/n", root);
    for (int time = 0; time < 2; time++) {
        opened o = open_data("csv", behind);
        char rows[7] = "";
        assert_int_equal(ls_dataset_labels(o.dataset), 2);
        assert_string_equal(ls_dataset_class(o.dataset, 1), "dog");
        void *scratch = aligned_alloc(64, (size_t)(o.dataset->train->scratch_bytes + 63) / 64 * 64);
        ls_sample sample;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(ls_source_read(o.dataset->train, i, scratch, &sample), LS_OK);
            const uint8_t *row = sample.field[1];
            for (int k = 0; k < 2; k++) rows[2 * i + k] = (char)('0' + row[k]);
        }
        assert_string_equal(rows, "110010");
        free(scratch);
        again = ls_dataset_fingerprint(o.dataset);
        if (time == 0) first = again;
        assert_true(first == again);
        close_data(&o);
        assert_int_equal(kept(path), 1);
        // It is read, not made: the second time it may not be written.
        if (time == 0) setenv("LOCKSTEP_INDEX_SECONDS", "never", 1);
    }
    setenv("LOCKSTEP_INDEX_SECONDS", "0", 1);
    ls_records_builder b = {.file = NULL};
    char key[9000], name[4096], whole[512];
    snprintf(whole, sizeof whole, "%s/data%s", root, behind);
    assert_true(ls__index_name("csv", whole, name, sizeof name, key, sizeof key));
    assert_true(ls__index_read(name, key, &b));
    assert_int_equal(b.label_count, 3);
    ls_records_free(&b);
    // Another list is another order of labels: made anew.
    shell("cd '%s/data' && printf 'dog\\ncat\\n' >n && touch -d '2021-02-02' n", root);
    opened o = open_data("csv", behind);
    assert_string_equal(ls_dataset_class(o.dataset, 1), "cat");
    close_data(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_read_and_checked),   cmocka_unit_test(is_not_kept),
        cmocka_unit_test(damage_is_passed_over), cmocka_unit_test(cannot_be_written),
        cmocka_unit_test(leftovers_go),          cmocka_unit_test(of_another_user),
        cmocka_unit_test(two_jobs_at_once),      cmocka_unit_test(goes_when_a_file_changed),
        cmocka_unit_test(tables_and_patterns),   cmocka_unit_test(tables_of_labels),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
