// Images and classes in HDF5 files: the layouts that Keras's and Caffe's users write, in one piece and packed, on any number of workers; a sentence for what is
// wrong with one.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

#include "base/memory.h"
#include "data_team.h"

enum { COUNT = 7, HIGH = 4, WIDE = 5, CHANNELS = 3, PIXELS = HIGH * WIDE * CHANNELS };

static char path[] = "/tmp/lockstep-hdf5-XXXXXX", other[64];

static int set_up(void **state) {
    int fd = mkstemp(path);
    snprintf(other, sizeof other, "%s-test", path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state) {
    unlink(other);
    return unlink(path);
}

// --- files -----------------------------------------------------------------------------------------------------------

static int pixel(int64_t sample, int y, int x, int c) { return (int)(41 * sample + 13 * y + 5 * x + 3 * c) % 256; }

static void put(hid_t file, const char *name, hid_t stored, hid_t given, const void *values, int packed, int ndim,
                const hsize_t *dim) {
    hid_t space = H5Screate_simple(ndim, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE),
          links = H5Pcreate(H5P_LINK_CREATE);
    hsize_t chunk[4] = {3, 2, 2, 1};
    if (packed) {
        for (int d = 0; d < ndim; d++) chunk[d] = dim[d] < chunk[d] ? dim[d] : chunk[d];
        H5Pset_chunk(how, ndim, chunk);
        H5Pset_deflate(how, 5);
    }
    H5Pset_create_intermediate_group(links, 1);
    hid_t set = H5Dcreate2(file, name, stored, space, links, how, H5P_DEFAULT);
    assert_true(set >= 0 && H5Dwrite(set, given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Pclose(links);
    H5Pclose(how);
    H5Sclose(space);
}

// Images, plane by plane or pixel by pixel, and sample i's class i % 4.
static void add(hid_t file, const char *image, const char *label, int planes, int packed, hid_t type, int count) {
    static float values[COUNT * PIXELS];
    double classes[COUNT];
    int at = 0;
    for (int i = 0; i < count; i++) {
        classes[i] = i % 4;
        for (int k = 0; k < PIXELS; k++) {
            int c = planes ? k / (HIGH * WIDE) : k % CHANNELS, p = planes ? k % (HIGH * WIDE) : k / CHANNELS;
            values[at++] = (float)pixel(i, p / WIDE, p % WIDE, c);
        }
    }
    hsize_t hwc[] = {(hsize_t)count, HIGH, WIDE, CHANNELS}, chw[] = {(hsize_t)count, CHANNELS, HIGH, WIDE};
    put(file, image, type, H5T_NATIVE_FLOAT, values, packed, 4, planes ? chw : hwc);
    put(file, label, planes ? H5T_IEEE_F32LE : H5T_STD_I16BE, H5T_NATIVE_DOUBLE, classes, packed, planes ? 2 : 1,
        (hsize_t[]){(hsize_t)count, 1});
}

static hid_t create(const char *name) { return H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }

// --- reading ---------------------------------------------------------------------------------------------------------

static void holds(const ls_source *s, int count, int floats) {
    void *scratch;
    ls_sample sample;
    assert_true(s->count == count && s->field[0].dtype == (floats ? LS_DTYPE_F32 : LS_DTYPE_U8));
    assert_true(ls_shape_equal(s->field[0].shape, LS_SHAPE(HIGH, WIDE, CHANNELS)));
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int i = count - 1; i >= 0; i--) {
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
        assert_int_equal(*(const int32_t *)sample.field[1], i % 4);
        for (int k = 0; k < PIXELS; k++) {
            int p = k / CHANNELS, expected = pixel(i, p / WIDE, p % WIDE, k % CHANNELS);
            if (floats)
                assert_true(((const float *)sample.field[0])[k] == (float)expected);
            else
                assert_int_equal(((const uint8_t *)sample.field[0])[k], expected);
        }
    }
    ls_memory_free(scratch);
}

static void opens(const char *options, int train, int test, int floats) {
    char spec[400];
    uint64_t fingerprint = 0;
    snprintf(spec, sizeof spec, "hdf5:%s%s", path, options);
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, spec);
        if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
        for (int r = 0; r < workers; r++) {
            holds(w[r].dataset->train, train, floats);
            assert_true(!w[r].dataset->test == !test);
            if (test) holds(w[r].dataset->test, test, floats);
        }
        assert_int_equal(ls_dataset_classes(w[0].dataset), 4);
        if (!fingerprint) fingerprint = w[0].dataset->fingerprint;
        assert_true(fingerprint == w[0].dataset->fingerprint);
        team_close(&t, w);
    }
}

static void refused(const char *options, ls_status status, const char *words) {
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    snprintf(spec, sizeof spec, "hdf5:%s%s", path, options);
    team_open(&t, w, 2, spec);
    if (w[0].status != status || !strstr(w[0].message, words) || !strstr(w[0].message, path))
        fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
    team_close(&t, w);
}

// A data set `name` of a file that is a view of the one of that name in the file `source`.
static void view(hid_t file, const char *source, const char *name, int ndim, const hsize_t *dim, hid_t type) {
#if H5_VERSION_GE(1, 10, 0)
    hid_t space = H5Screate_simple(ndim, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    assert_true(H5Pset_virtual(how, space, source, name, space) >= 0);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    assert_true(set >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
#endif
}

static void write_some(const char *name, int count) {
    hid_t file = create(name);
    add(file, "x_train", "y_train", 0, 0, H5T_STD_U8LE, count);
    H5Fclose(file);
}
static void write_set(const char *name) { write_some(name, COUNT); }

static void write_view(const char *name, const char *source) {
    hid_t file = create(name);
    view(file, source, "x_train", 4, (hsize_t[]){COUNT, HIGH, WIDE, CHANNELS}, H5T_STD_U8LE);
    view(file, source, "y_train", 1, (hsize_t[]){COUNT}, H5T_STD_I16BE);
    H5Fclose(file);
}

// Nothing of it is stored in the file itself.
static void views(void **state) {
#if !H5_VERSION_GE(1, 10, 0)
    skip();
#endif
    write_set(other);
    write_view(path, other);
    opens("", COUNT, 0, 0);
    // Less than the view is of.
    char words[300];
    write_some(other, 5);
    snprintf(words, sizeof words, "x_train is a view of all of %s: x_train, of %d values, and that has %d", other,
             COUNT * PIXELS, 5 * PIXELS);
    refused("", LS_STATUS_BAD_DATA, words);
    write_set(other);
    // What a view is of is not there: the library would read zeros.
    hid_t file = H5Fopen(other, H5F_ACC_RDWR, H5P_DEFAULT);
    H5Ldelete(file, "y_train", H5P_DEFAULT);
    H5Fclose(file);
    snprintf(words, sizeof words, "y_train lies in another file, and %s: y_train is not there", other);
    refused("", LS_STATUS_NOT_FOUND, words);
    unlink(other);
    snprintf(words, sizeof words, "x_train lies in another file, and %s: x_train is not there", other);
    refused("", LS_STATUS_NOT_FOUND, words);
}

// Wherever the library looks for the files that a view is of.
static void views_elsewhere(void **state) {
#if !H5_VERSION_GE(1, 10, 0)
    skip();
#endif
    char folder[64], master[96], source[96], gone[96], words[200];
    snprintf(folder, sizeof folder, "%s-folder", path);
    snprintf(master, sizeof master, "%s/master.h5", folder);
    snprintf(source, sizeof source, "%s/source.h5", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    // Beside it, in place of a folder that is gone.
    write_set(other);
    snprintf(gone, sizeof gone, "/nowhere/at/all%s", strrchr(other, '/'));
    write_view(path, gone);
    opens("", COUNT, 0, 0);
    unlink(other);
    // A view of a view, whose file lies beside that.
    write_set(source);
    write_view(master, "source.h5");
    write_view(path, master);
    opens("", COUNT, 0, 0);
    // A symbolic link, beside what that leads to.
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(master, path), 0);
    opens("", COUNT, 0, 0);
    unlink(path);
    write_view(path, master);
    // A pipe is no file, and nobody waits for what comes out of it.
    assert_int_equal(unlink(source), 0);
    assert_int_equal(mkfifo(source, 0600), 0);
    snprintf(words, sizeof words, "%s: x_train lies in another file, and %s is a pipe or a device", path, source);
    refused("", LS_STATUS_BAD_DATA, words);
    // Where the environment says, before it is looked for beside the file.
    write_view(path, strrchr(other, '/') + 1);
    write_set(other);
    snprintf(gone, sizeof gone, "/nowhere:%s", folder);
    setenv("HDF5_VDS_PREFIX", gone, 1);
    opens("", COUNT, 0, 0);
    snprintf(gone, sizeof gone, "%s%s", folder, strrchr(other, '/'));
    assert_int_equal(rename(source, gone), 0);
    snprintf(words, sizeof words, "%s is a pipe or a device", gone);
    refused("", LS_STATUS_BAD_DATA, words);
    unsetenv("HDF5_VDS_PREFIX");
    unlink(gone);
    unlink(other);
    unlink(master);
    rmdir(folder);
}

// The samples of numbered files, of PART each, as long as there are files.
enum { PART = 3 };

static void write_numbered(const char *source) {
#if H5_VERSION_GE(1, 10, 0)
    hid_t file = create(path);
    for (int k = 0; k < 2; k++) {
        int ndim = k ? 1 : 4;
        const hsize_t dim[] = {0, HIGH, WIDE, CHANNELS}, most[] = {H5S_UNLIMITED, HIGH, WIDE, CHANNELS},
                      block[] = {PART, HIGH, WIDE, CHANNELS}, from[4] = {0}, count[] = {H5S_UNLIMITED, 1, 1, 1};
        hid_t space = H5Screate_simple(ndim, dim, most), part = H5Screate_simple(ndim, block, NULL),
              how = H5Pcreate(H5P_DATASET_CREATE);
        assert_true(H5Sselect_hyperslab(space, H5S_SELECT_SET, from, block, count, block) >= 0);
        assert_true(H5Sselect_hyperslab(part, H5S_SELECT_SET, from, NULL, block, NULL) >= 0);
        assert_true(H5Pset_virtual(how, space, source, k ? "y_train" : "x_train", part) >= 0);
        hid_t set = H5Dcreate2(file, k ? "y_train" : "x_train", k ? H5T_STD_I16BE : H5T_STD_U8LE, space, H5P_DEFAULT,
                               how, H5P_DEFAULT);
        assert_true(set >= 0);
        H5Dclose(set);
        H5Pclose(how);
        H5Sclose(part);
        H5Sclose(space);
    }
    H5Fclose(file);
#endif
}

static void views_numbered(void **state) {
#if !H5_VERSION_GE(1, 10, 0)
    skip();
#endif
    char pattern[96], part[2][96], words[300], spec[400];
    snprintf(pattern, sizeof pattern, "%s-%%b", path);
    for (int i = 0; i < 2; i++) snprintf(part[i], sizeof part[i], "%s-%d", path, i);
    write_numbered(pattern);
    snprintf(words, sizeof words, "x_train lies in another file, and %s: x_train is not there", part[0]);
    refused("", LS_STATUS_NOT_FOUND, words);
    for (int i = 0; i < 2; i++) write_some(part[i], PART);
    team t = TEAM;
    worker w[WORKERS_MAX];
    void *scratch;
    ls_sample sample;
    snprintf(spec, sizeof spec, "hdf5:%s", path);
    team_open(&t, w, 2, spec);
    if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
    assert_int_equal(w[0].dataset->train->count, 2 * PART);
    assert_int_equal(ls_memory_alloc(w[1].dataset->train->scratch_bytes, &scratch), LS_OK);
    assert_int_equal(ls_source_read(w[1].dataset->train, PART + 1, scratch, &sample), LS_OK);
    assert_int_equal(((const uint8_t *)sample.field[0])[0], pixel(1, 0, 0, 0));
    ls_memory_free(scratch);
    team_close(&t, w);
    write_some(part[1], PART - 1);
    snprintf(words, sizeof words, "x_train is a view of %s: x_train, wants %d of its dimension 0, and there are %d",
             part[1], PART, PART - 1);
    refused("", LS_STATUS_BAD_DATA, words);
    unlink(part[1]);
    assert_int_equal(mkfifo(part[1], 0600), 0);
    snprintf(words, sizeof words, "%s is a pipe or a device, and no file", part[1]);
    refused("", LS_STATUS_BAD_DATA, words);
    for (int i = 0; i < 2; i++) unlink(part[i]);
}

// Data sets that are in another file, which a link leads to, larger than this one or not.
static void links(void **state) {
    char words[300];
    for (int large = 0; large < 2; large++) {
        write_set(other);
        hid_t file = create(path);
        if (large)
            put(file, "more", H5T_STD_U8LE, H5T_NATIVE_UCHAR, (unsigned char[20000]){7}, 0, 1, (hsize_t[]){20000});
        assert_true(H5Lcreate_external(other, "x_train", file, "x_train", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        assert_true(H5Lcreate_external(other, "/", file, "there", H5P_DEFAULT, H5P_DEFAULT) >= 0);
        H5Fclose(file);
        opens(",label=there/y_train", COUNT, 0, 0);
    }
    // More than the file with the links has bytes.
    enum { MANY = 1000 };
    static unsigned char values[MANY * PIXELS];
    hid_t file = create(other);
    put(file, "x_train", H5T_STD_U8LE, H5T_NATIVE_UCHAR, values, 0, 4, (hsize_t[]){MANY, HIGH, WIDE, CHANNELS});
    put(file, "y_train", H5T_STD_U8LE, H5T_NATIVE_UCHAR, values, 0, 1, (hsize_t[]){MANY});
    H5Fclose(file);
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    snprintf(spec, sizeof spec, "hdf5:%s,label=there/y_train", path);
    team_open(&t, w, 1, spec);
    if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
    assert_int_equal(w[0].dataset->train->count, MANY);
    team_close(&t, w);
    unlink(other);
    refused(",label=there/y_train", LS_STATUS_BAD_DATA, "has no data sets");
    assert_int_equal(mkfifo(other, 0600), 0);
    snprintf(words, sizeof words, "x_train lies in another file, and %s is a pipe or a device", other);
    refused(",label=there/y_train", LS_STATUS_BAD_DATA, words);
    unlink(other);
}

// Raw values in a file of their own, which is whole, or too short.
static void external(void **state) {
    char values[COUNT * PIXELS] = {0}, words[200];
    hid_t file = create(path), how = H5Pcreate(H5P_DATASET_CREATE),
          space = H5Screate_simple(4, (hsize_t[]){COUNT, HIGH, WIDE, CHANNELS}, NULL);
    H5Pset_external(how, other, 10, H5F_UNLIMITED);
    H5Dclose(H5Dcreate2(file, "x_train", H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT));
    H5Sclose(space);
    H5Pclose(how);
    put(file, "y_train", H5T_STD_U8LE, H5T_NATIVE_DOUBLE, (double[COUNT]){0}, 0, 1, (hsize_t[]){COUNT});
    H5Fclose(file);
    snprintf(words, sizeof words, "x_train lies in another file, and %s is not there, or shorter", other);
    refused("", LS_STATUS_NOT_FOUND, words);
    FILE *raw = fopen(other, "wb");
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < PIXELS; k++) values[i * PIXELS + k] = (char)(i + k);
    assert_true(raw && fseek(raw, 10, SEEK_SET) == 0 && fwrite(values, sizeof values, 1, raw) == 1 && fclose(raw) == 0);
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    void *scratch;
    ls_sample sample;
    snprintf(spec, sizeof spec, "hdf5:%s", path);
    team_open(&t, w, 2, spec);
    if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
    const ls_source *s = w[1].dataset->train;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    assert_int_equal(ls_source_read(s, 2, scratch, &sample), LS_OK);
    assert_memory_equal(sample.field[0], values + 2 * PIXELS, PIXELS);
    ls_memory_free(scratch);
    team_close(&t, w);
    assert_int_equal(truncate(other, 10 + COUNT * PIXELS - 1), 0);
    refused("", LS_STATUS_NOT_FOUND, words);
    unlink(other);
    assert_int_equal(mkfifo(other, 0600), 0);
    snprintf(words, sizeof words, "%s is a pipe or a device, and no file", other);
    refused("", LS_STATUS_BAD_DATA, words);
    unlink(other);
}

// Class 1 has no sample: a sentence tells, the dataset is what it is.
static void gap_of_classes(void **state) {
    const double values[COUNT] = {0, 3, 2, 3, 0, 0, 2};
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    hid_t file = create(path);
    add(file, "x_train", "y_train", 0, 0, H5T_STD_U8LE, COUNT);
    put(file, "gap", H5T_STD_I64LE, H5T_NATIVE_DOUBLE, values, 0, 1, (hsize_t[]){COUNT});
    H5Fclose(file);
    snprintf(spec, sizeof spec, "hdf5:%s,label=gap", path);
    team_open(&t, w, 2, spec);
    assert_int_equal(w[0].status, LS_OK);
    assert_non_null(
        strstr(ls_dataset_note(w[0].dataset), "no sample to train on has class 1, and the network has 4, from 0 to 3"));
    assert_string_equal(ls_dataset_note(w[1].dataset), "");
    team_close(&t, w);
    team all = TEAM;
    snprintf(spec, sizeof spec, "hdf5:%s", path);
    team_open(&all, w, 1, spec);
    assert_string_equal(ls_dataset_note(w[0].dataset), "");
    team_close(&all, w);
}

static void layouts(void **state) {
    char options[100];
    hid_t types[] = {H5T_STD_U8LE, H5T_IEEE_F32LE, H5T_IEEE_F64BE};
    for (int type = 0; type < 3; type++)
        for (int packed = 0; packed < 2; packed++)
            for (int planes = 0; planes < 2; planes++) {
                hid_t file = create(path);
                add(file, "x_train", "y_train", planes, packed, types[type], COUNT);
                add(file, "x_test", "y_test", planes, packed, types[type], 5);
                H5Fclose(file);
                opens("", COUNT, 5, type > 0);
            }
    hid_t file = create(path);
    add(file, "data", "label", 1, 0, H5T_IEEE_F32LE, COUNT);
    add(file, "deep/in/here", "deep/classes", 0, 1, H5T_STD_U8LE, 6);
    H5Fclose(file);
    opens("", COUNT, 0, 1);
    opens(",image=deep/in/here,label=/deep/classes,layout=hwc", 6, 0, 0);
    file = create(other);
    add(file, "data", "label", 1, 1, H5T_IEEE_F32LE, 5);
    H5Fclose(file);
    snprintf(options, sizeof options, ",test=%s", other);
    opens(options, COUNT, 5, 1);
}

// Numbers and pixels that are learned in place of classes, in the shapes that they have; images lie as those do that they are learned of. There is no test
// set, whose classes the file may have under a usual name.
static void targets(void **state) {
    enum { ROWS, PIXELS_LAST, PLANES, GREY, KINDS };
    static const struct {
        int ndim;
        hsize_t dim[4];
        ls_shape shape;
    } kinds[] = {[ROWS] = {2, {COUNT, 2}, {1, {2}}},
                 [PIXELS_LAST] = {4, {COUNT, 1, 2, 2}, {3, {1, 2, 2}}},
                 [PLANES] = {4, {COUNT, 2, 1, 2}, {3, {1, 2, 2}}},
                 [GREY] = {3, {COUNT, 2, 1}, {3, {2, 1, 1}}}};
    const float values[COUNT * 4] = {0.5F, -1, 3, 4, 5, 6, 7, 8};
    char spec[400];
    for (int k = 0; k < KINDS; k++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        void *scratch;
        ls_sample sample;
        int floats = k == ROWS || k == GREY;
        hid_t file = create(path);
        add(file, "x_train", "y_train", k == PLANES, 0, H5T_STD_U8LE, COUNT);
        add(file, "x_test", "y_test", k == PLANES, 0, H5T_STD_U8LE, 5);
        put(file, "learned", floats ? H5T_IEEE_F64BE : H5T_STD_U8LE, H5T_NATIVE_FLOAT, values, 1, kinds[k].ndim,
            kinds[k].dim);
        H5Fclose(file);
        snprintf(spec, sizeof spec, "hdf5:%s,targets=learned", path);
        team_open(&t, w, 2, spec);
        if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
        const ls_source *s = w[1].dataset->train;
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        assert_null(w[1].dataset->test);
        assert_int_equal(ls_dataset_targets(w[1].dataset), k == ROWS ? 2 : 0);
        assert_true(ls_shape_equal(s->field[1].shape, kinds[k].shape));
        assert_true(s->bytes >= COUNT * s->sample_bytes[1]);
        assert_int_equal(ls_source_read(s, floats ? 0 : 1, scratch, &sample), LS_OK);
        if (floats)
            assert_true(((const float *)sample.field[1])[0] == 0.5F && ((const float *)sample.field[1])[1] == -1);
        else
            assert_memory_equal(sample.field[1], k == PLANES ? "\5\7\6\10" : "\5\6\7\10", 4);
        ls_memory_free(scratch);
        team_close(&t, w);
    }
}

// Several labels for each sample, whole or floating; a test set of as many, or it is refused. What is cached is not read again.
static void rows(void **state) {
    const float values[COUNT * 3] = {1, 0, 1, 0, 0, 0, 1, 1, 1},
                               single[COUNT * 3] = {1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0};
    hsize_t dim[] = {COUNT, 3}, few[] = {COUNT, 2}, pixels[] = {COUNT, HIGH, WIDE};
    for (int k = 0; k < 2; k++) {
        char spec[400];
        team t = TEAM;
        worker w[WORKERS_MAX];
        void *scratch, *memory;
        ls_sample sample;
        hid_t file = create(path);
        put(file, "x_train", H5T_STD_U8LE, H5T_NATIVE_FLOAT, values, k, 3, (hsize_t[]){COUNT, 1, 3});
        put(file, "y_train", k ? H5T_IEEE_F32BE : H5T_STD_I16LE, H5T_NATIVE_FLOAT, values, 0, 2, dim);
        put(file, "x_test", H5T_STD_U8LE, H5T_NATIVE_FLOAT, values, 0, 3, (hsize_t[]){COUNT, 1, 3});
        put(file, "y_test", H5T_STD_U8LE, H5T_NATIVE_FLOAT, single, 1, 2, dim);
        H5Fclose(file);
        snprintf(spec, sizeof spec, "hdf5:%s", path);
        team_open(&t, w, 2, spec);
        if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
        assert_int_equal(ls_dataset_labels(w[0].dataset), 3);
        const ls_source *s = w[0].dataset->train, *test = w[0].dataset->test;
        assert_true(s->bytes >= COUNT * s->sample_bytes[1]);
        int64_t size = s->ops->cache_size(s, 1 << 20);
        assert_true(size > 0 && size < 4096 && s->ops->cache_size(s, 100) == 0);
        assert_int_equal(ls_memory_alloc(size, &memory), LS_OK);
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        s->ops->cache_attach(w[0].dataset->train, 1 << 20, memory, 1);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
            for (int l = 0; l < 3; l++) assert_int_equal(((const uint8_t *)sample.field[1])[l], values[3 * i + l]);
            assert_int_equal(ls_source_read(test, i, scratch, &sample), LS_OK);
            for (int l = 0; l < 3; l++) assert_int_equal(((const uint8_t *)sample.field[1])[l], single[3 * i + l]);
        }
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(ls_source_read(s, 2, scratch, &sample), LS_OK);
        assert_memory_equal(sample.field[0], "\1\1\1", 3);
        assert_int_not_equal(ls_source_read(test, 2, scratch, &sample), LS_OK);
        ls_memory_free(scratch);
        ls_memory_free(memory);
        team_close(&t, w);
    }
    hid_t file = create(path);
    add(file, "x_train", "classes", 0, 0, H5T_STD_U8LE, COUNT);
    put(file, "y_train", H5T_STD_U8LE, H5T_NATIVE_FLOAT, values, 0, 2, dim);
    put(file, "single", H5T_STD_U8LE, H5T_NATIVE_FLOAT, single, 0, 2, dim);
    put(file, "halves", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, (float[COUNT * 3]){0.5F}, 0, 2, dim);
    put(file, "deep", H5T_STD_U8LE, H5T_NATIVE_FLOAT, (float[COUNT * HIGH * WIDE]){0}, 0, 3, pixels);
    add(file, "x_test", "test_classes", 0, 0, H5T_STD_U8LE, COUNT);
    put(file, "y_test", H5T_STD_U8LE, H5T_NATIVE_FLOAT, values, 0, 2, few);
    H5Fclose(file);
    refused("", LS_STATUS_BAD_DATA, "y_test has 2 labels for each sample, and those to train on have 3");
    H5Ldelete(file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), "x_test", H5P_DEFAULT);
    H5Fclose(file);
    refused(",label=single", LS_STATUS_BAD_DATA, "has exactly one of its 3 labels, so these are classes");
    refused(",label=halves", LS_STATUS_BAD_DATA, "is 0.5: a label is there, 1, or not, 0");
    refused(",label=deep", LS_STATUS_BAD_DATA, "several labels at once (samples, labels)");
}

static void wrong(void **state) {
    const double values[COUNT] = {0, 1, 2, 0.5, 1, 2, 0};
    hid_t file = create(path);
    add(file, "x_train", "y_train", 0, 0, H5T_STD_U8LE, COUNT);
    put(file, "halves", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, values, 0, 1, (hsize_t[]){COUNT});
    put(file, "few", H5T_STD_I32LE, H5T_NATIVE_DOUBLE, values, 0, 1, (hsize_t[]){3});
    put(file, "flat", H5T_STD_U8LE, H5T_NATIVE_DOUBLE, values, 0, 2, (hsize_t[]){COUNT, 1});
    for (int chunked = 0; chunked < 2; chunked++) {  // nothing is stored
        hid_t space = H5Screate_simple(3, (hsize_t[]){1 << 20, 1 << 14, 1 << 14}, NULL),
              how = H5Pcreate(H5P_DATASET_CREATE);
        if (chunked) H5Pset_chunk(how, 3, (hsize_t[]){1, 8, 8});
        H5Dclose(H5Dcreate2(file, chunked ? "sparse" : "late", H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT));
        H5Pclose(how);
        H5Sclose(space);
    }
    put(file, "wide", H5T_STD_I32LE, H5T_NATIVE_DOUBLE, values, 0, 3, (hsize_t[]){COUNT, 1, 1});
    H5Fclose(file);
    opens("", COUNT, 0, 0);
    refused(",label=halves,targets=halves", LS_STATUS_INVALID_ARGUMENT, "give one of them");
    refused(",targets=few", LS_STATUS_BAD_DATA, "values of another type: images are uint8 or floating, as is what");
    refused(",targets=flat", LS_STATUS_BAD_DATA,
            "flat has whole numbers of 2 dimensions, and of these only uint8 images");
    refused(",label=halves", LS_STATUS_BAD_DATA, "value 3 of halves is 0.5, and no class");
    refused(",label=few", LS_STATUS_BAD_DATA, "few has 3 values for 7 samples");
    refused(",image=flat", LS_STATUS_BAD_DATA, "flat has 2 dimensions: images are");
    refused(",image=wide", LS_STATUS_BAD_DATA, "values of another type: images are uint8 or floating");
    refused(",image=late", LS_STATUS_BAD_DATA,
            "late is said to have 1048576 samples of 268435456 bytes, of which 0 bytes are stored");
    refused(",image=sparse", LS_STATUS_BAD_DATA, "sparse is said to have 1048576 samples");
    refused(",image=none", LS_STATUS_BAD_DATA, "has no data sets none and");
    refused(",layout=chw", LS_STATUS_BAD_DATA, "has no dimension of 1 or 3 channels where its layout has them");
    refused("-nothing", LS_STATUS_NOT_FOUND, "cannot read");
    // Cut off behind its directory, and no such file at all.
    assert_int_equal(truncate(path, 700), 0);
    refused("", LS_STATUS_BAD_DATA, "cannot read it: HDF5 says \"truncated file");
    assert_int_equal(truncate(path, 0), 0);
    refused("", LS_STATUS_BAD_DATA, "cannot read it: HDF5 says \"file signature not found\"");
}

static void changed_file(void **state) {
    char spec[400];
    worker w[WORKERS_MAX];
    void *scratch;
    ls_sample sample;
    for (int packed = 0; packed < 2; packed++) {
        team t = TEAM;
        hid_t file = create(path);
        add(file, "x", "y", 0, packed, H5T_STD_U8LE, COUNT);
        H5Fclose(file);
        snprintf(spec, sizeof spec, "hdf5:%s", path);
        team_open(&t, w, 1, spec);
        assert_int_equal(w[0].status, LS_OK);
        const ls_source *s = w[0].dataset->train;
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        assert_int_equal(ls_source_read(s, 3, scratch, &sample), LS_OK);
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(ls_source_read(s, 3, scratch, &sample), LS_STATUS_IO);
        assert_non_null(strstr(ls_error_message(), "was changed since this run began"));
        ls_memory_free(scratch);
        team_close(&t, w);
    }
}

// Another file in its place is none of a run's that has it open, also where nothing was read before.
static void replaced_file(void **state) {
    const double zeros[COUNT * PIXELS] = {0};
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    hid_t file = create(path);
    add(file, "x", "y", 0, 1, H5T_STD_U8LE, COUNT);
    H5Fclose(file);
    snprintf(spec, sizeof spec, "hdf5:%s", path);
    team_open(&t, w, 2, spec);
    if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
    file = create(other);
    put(file, "x", H5T_STD_U8LE, H5T_NATIVE_DOUBLE, zeros, 1, 4, (hsize_t[]){COUNT, HIGH, WIDE, CHANNELS});
    put(file, "y", H5T_STD_U8LE, H5T_NATIVE_DOUBLE, zeros, 1, 1, (hsize_t[]){COUNT});
    H5Fclose(file);
    assert_int_equal(rename(other, path), 0);
    for (int r = 0; r < 2; r++) holds(w[r].dataset->train, COUNT, 0);
    team_close(&t, w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),        cmocka_unit_test(views),        cmocka_unit_test(views_elsewhere),
        cmocka_unit_test(views_numbered), cmocka_unit_test(links),        cmocka_unit_test(replaced_file),
        cmocka_unit_test(wrong),          cmocka_unit_test(changed_file), cmocka_unit_test(targets),
        cmocka_unit_test(rows),           cmocka_unit_test(external),     cmocka_unit_test(gap_of_classes)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
