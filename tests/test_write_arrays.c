// Files of arrays that are written: read again they are the samples that they were, in HDF5's two layouts and in NumPy's archive; what arrays cannot hold is
// refused, and nothing is left beside their places.
#define _GNU_SOURCE
#include <dirent.h>
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

#include "base/memory.h"
#include "data_team.h"
#include "image_files.h"

static char root[] = "/tmp/lockstep-arrays-XXXXXX";

static void shell(const char *format, ...) {
    char command[600];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state) { return mkdtemp(root) ? 0 : -1; }

static int tear_down(void **state) {
    shell("rm -rf '%s'", root);
    return 0;
}

typedef struct opened {
    ls_data_host *host;
    ls_dataset *dataset;
} opened;

static opened open_data(const char *spec) {
    opened o;
    assert_int_equal(ls_data_host_create_self(&o.host), LS_OK);
    if (ls_data_open(o.host, spec, &o.dataset) != LS_OK) fail_msg("%s: %s", spec, ls_error_message());
    return o;
}

static void close_data(opened *o) {
    ls_data_close(&o->dataset);
    ls_data_host_destroy_self(&o->host);
}

static int class_of(const ls_source *s, const ls_sample *sample) {
    return s->field[1].dtype == LS_DTYPE_U8 ? *(const uint8_t *)sample->field[1] : *(const int32_t *)sample->field[1];
}

static void same_set(const ls_source *a, const ls_source *b) {
    void *mine = NULL, *other = NULL;
    ls_sample x, y;
    assert_true(a->count == b->count && ls_shape_equal(a->field[0].shape, b->field[0].shape));
    assert_int_equal(b->field[0].dtype, LS_DTYPE_U8);
    assert_int_equal(ls_memory_alloc(a->scratch_bytes + 1, &mine), LS_OK);
    assert_int_equal(ls_memory_alloc(b->scratch_bytes + 1, &other), LS_OK);
    for (int64_t i = 0; i < a->count; i++) {
        assert_int_equal(ls_source_read(a, i, mine, &x), LS_OK);
        if (ls_source_read(b, i, other, &y) != LS_OK) fail_msg("%s", ls_error_message());
        assert_memory_equal(x.field[0], y.field[0], (size_t)a->sample_bytes[0]);
        assert_int_equal(class_of(a, &x), class_of(b, &y));
    }
    ls_memory_free(mine);
    ls_memory_free(other);
}

// Nothing but what is named is in the folder.
static int files(void) {
    struct dirent *e;
    int count = 0;
    DIR *d = opendir(root);
    assert_non_null(d);
    while ((e = readdir(d))) count += e->d_name[0] != '.';
    closedir(d);
    return count;
}

static void written_is_read(void **state) {
    static const char *const from[] = {"synthetic:5x7x3,4,19,6", "synthetic:8x8x1,3,9,5", "synthetic:6x6x3,3,8,0"};
    static const char *const to[] = {"numpy:%1$s/a.npz", "hdf5:%1$s/a.h5",
                                     "hdf5:%1$s/a.h5,layout=caffe,test=%1$s/b.h5"};
    static const char *const back[] = {"numpy:%1$s/a.npz", "hdf5:%1$s/a.h5", "hdf5:%1$s/a.h5,test=%1$s/b.h5"};
    for (int f = 0; f < 3; f++)
        for (int t = 0; t < 3; t++) {
            char spec[200], again[200];
            opened o = open_data(from[f]);
            ls_convert_config c = {.workers = 1 + f};
            shell("rm -rf '%s'/*", root);
            snprintf(spec, sizeof spec, to[t], root);
            snprintf(again, sizeof again, back[t], root);
            if (!o.dataset->test) {
                if (strstr(spec, ",test=")) *strstr(spec, ",test=") = 0;
                if (strstr(again, ",test=")) *strstr(again, ",test=") = 0;
            }
            if (ls_dataset_convert(o.dataset, spec, &c) != LS_OK) fail_msg("%s: %s", spec, ls_error_message());
            assert_int_equal(files(), t == 2 && o.dataset->test ? 2 : 1);
            opened p = open_data(again);
            same_set(o.dataset->train, p.dataset->train);
            assert_true(!o.dataset->test == !p.dataset->test);
            if (o.dataset->test) same_set(o.dataset->test, p.dataset->test);
            // From one file of arrays to another.
            shell("mkdir '%s/next'", root);
            snprintf(spec, sizeof spec, "%s:%s/next/x", t == 0 ? "hdf5" : "numpy", root);
            if (ls_dataset_convert(p.dataset, spec, NULL) != LS_OK) fail_msg("%s: %s", spec, ls_error_message());
            opened q = open_data(spec);
            same_set(o.dataset->train, q.dataset->train);
            close_data(&q);
            close_data(&p);
            close_data(&o);
        }
}

// Equal samples, equal archives, whoever makes them.
static void the_same_bytes(void **state) {
    char spec[100];
    shell("rm -rf '%s'/*", root);
    opened o = open_data("synthetic:5x7x3,4,199,6");
    for (int i = 0; i < 2; i++) {
        snprintf(spec, sizeof spec, "numpy:%s/%d.npz", root, i);
        assert_int_equal(ls_dataset_convert(o.dataset, spec, &(ls_convert_config){.workers = 1 + 2 * i}), LS_OK);
    }
    close_data(&o);
    shell("cmp '%s/0.npz' '%s/1.npz'", root, root);
}

// Photographs of several sizes: refused, or made one size.
static void sizes(void **state) {
    char spec[200], path[200];
    static uint8_t pixels[30 * 30 * 3];
    shell("rm -rf '%s'/* && mkdir -p '%s/in/a' '%s/in/b'", root, root, root);
    for (int i = 0; i < 4; i++) {
        memset(pixels, 50 * i + 20, sizeof pixels);
        snprintf(path, sizeof path, "%s/in/%c/%d.png", root, "ab"[i % 2], i);
        assert_true(
            image_save(image_png(10 + 5 * i, 12, 8, PNG_COLOR_TYPE_RGB, 0, pixels, (size_t)(3 * (10 + 5 * i))), path));
    }
    snprintf(spec, sizeof spec, "images:%s/in", root);
    opened o = open_data(spec);
    static const char *const to[] = {"numpy", "hdf5"};
    for (int t = 0; t < 2; t++) {
        snprintf(spec, sizeof spec, "%s:%s/out", to[t], root);
        assert_int_equal(ls_dataset_convert(o.dataset, spec, NULL), LS_STATUS_INVALID_ARGUMENT);
        if (!strstr(ls_error_message(), "an array has images of one size; --image-size N makes all of them N x N"))
            fail_msg("%s", ls_error_message());
        assert_int_equal(files(), 1);
        if (ls_dataset_convert(o.dataset, spec, &(ls_convert_config){.image_size = 9}) != LS_OK)
            fail_msg("%s", ls_error_message());
        opened p = open_data(spec);
        assert_true(ls_shape_equal(ls_dataset_image_shape(p.dataset), LS_SHAPE(9, 9, 3)));
        assert_null(ls_source_array(p.dataset->train, 0));  // read at their place
        close_data(&p);
        shell("rm '%s/out'", root);
    }
    close_data(&o);
}

static void refused(const ls_dataset *d, const char *to, ls_convert_config c, const char *words) {
    char spec[300];
    snprintf(spec, sizeof spec, to, root);
    ls_status status = ls_dataset_convert(d, spec, &c);
    if (status == LS_OK || !strstr(ls_error_message(), words))
        fail_msg("%s: not \"%s\": %s", spec, words, ls_error_message());
}

static void wrong(void **state) {
    shell("rm -rf '%s'/*", root);
    opened o = open_data("synthetic:5x7x3,4,19,6");
    const ls_convert_config none = {.shards = 1};
    refused(o.dataset, "numpy:%s/a.npz,test=x.npz", none, "has arrays of the test set, too: leave test=x.npz out");
    refused(o.dataset, "hdf5:%s/a.h5,test=x.h5", none, "has arrays of the test set, too");
    refused(o.dataset, "hdf5:%s/a.h5,layout=caffe", none, "has a test set, which would be lost");
    refused(o.dataset, "hdf5:%s/a.h5,layout=torch", none, "is not one of keras, caffe");
    refused(o.dataset, "numpy:%s/a.npz,layout=caffe", none, "numpy has one layout");
    refused(o.dataset, "numpy:%s/a.npz", (ls_convert_config){.shards = 2}, "and 1 for folders and arrays");
    refused(o.dataset, "hdf5:%s/a.h5", (ls_convert_config){.quality = 90}, "holds pixels, which have no quality");
    refused(o.dataset, "hdf5:%s/a.h5", (ls_convert_config){.image_size = 4, .resize = 4},
            "either this or a shorter side");
    refused(o.dataset, "hdf5:%s/nowhere/a.h5", none, "cannot write ");
    refused(o.dataset, "numpy:%s/nowhere/a.npz", none, "cannot write ");
    refused(o.dataset, "numpy:/dev/null", none, "is a pipe or a device");
    refused(o.dataset, "hdf5:/dev/null", none, "is a pipe or a device");
    assert_int_equal(files(), 0);
    close_data(&o);
    o = open_data("roles");
    refused(o.dataset, "numpy:%s/a.npz", none, "has no images in grey or colour with a class each");
    close_data(&o);
}

// A full disk, or nearly that: a sentence, and nothing is left.
static void no_room(void **state) {
    static const char *const to[] = {"numpy:%s/a.npz", "hdf5:%s/a.h5"};
    shell("rm -rf '%s'/*", root);
    for (int t = 0; t < 2; t++) {
        int how;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            struct rlimit small = {20000, 20000};
            char spec[100];
            opened o = open_data("synthetic:32x32x3,4,400,0");
            signal(SIGXFSZ, SIG_IGN);
            setrlimit(RLIMIT_FSIZE, &small);
            snprintf(spec, sizeof spec, to[t], root);
            ls_status status = ls_dataset_convert(o.dataset, spec, NULL);
            const char *said = ls_error_message();
            _exit(status == LS_STATUS_IO && strstr(said, "cannot write ") && strstr(said, "File too large") &&
                          !strchr(said, '\n')
                      ? 0
                      : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        if (!WIFEXITED(how) || WEXITSTATUS(how) != 0) fail_msg("%s: %x", to[t], (unsigned)how);
        assert_int_equal(files(), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written_is_read), cmocka_unit_test(the_same_bytes),
                                       cmocka_unit_test(sizes), cmocka_unit_test(wrong), cmocka_unit_test(no_room)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
