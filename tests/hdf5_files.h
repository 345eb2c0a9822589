// HDF5 files of images and classes for tests: written with the library itself, one at a path of its own and one beside it, and read back as a dataset by teams of workers.
#ifndef TESTS_HDF5_FILES_H
#define TESTS_HDF5_FILES_H

#include <stdlib.h>
#include <unistd.h>

#include <hdf5.h>

#include "base/memory.h"
#include "data_team.h"

enum { COUNT = 7, HIGH = 4, WIDE = 5, CHANNELS = 3, PIXELS = HIGH * WIDE * CHANNELS };

static char path[] = "/tmp/lockstep-hdf5-XXXXXX", other[64];

static inline int set_up(void **state) {
    int fd = mkstemp(path);
    snprintf(other, sizeof other, "%s-test", path);
    return fd < 0 ? -1 : close(fd);
}

static inline int tear_down(void **state) {
    unlink(other);
    return unlink(path);
}

// --- files -----------------------------------------------------------------------------------------------------------

static inline int pixel(int64_t sample, int y, int x, int c) {
    return (int)(41 * sample + 13 * y + 5 * x + 3 * c) % 256;
}

static inline void put(hid_t file, const char *name, hid_t stored, hid_t given, const void *values, int packed,
                       int ndim, const hsize_t *dim) {
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
static inline void add(hid_t file, const char *image, const char *label, int planes, int packed, hid_t type,
                       int count) {
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

static inline hid_t create(const char *name) { return H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }

// --- reading ---------------------------------------------------------------------------------------------------------

static inline void holds(const ls_source *s, int count, int floats) {
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

// The dataset of `options`, opened by the workers of a team; the caller closes it.
static inline void opened(const char *options, int workers, team *t, worker w[WORKERS_MAX]) {
    char spec[400];
    snprintf(spec, sizeof spec, "hdf5:%s%s", path, options);
    *t = (team)TEAM;
    team_open(t, w, workers, spec);
    if (w[0].status != LS_OK) fail_msg("%s", w[0].message);
}

static inline void opens(const char *options, int train, int test, int floats) {
    uint64_t fingerprint = 0;
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t;
        worker w[WORKERS_MAX];
        opened(options, workers, &t, w);
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

static inline void refused(const char *options, ls_status status, const char *words) {
    char spec[400];
    team t = TEAM;
    worker w[WORKERS_MAX];
    snprintf(spec, sizeof spec, "hdf5:%s%s", path, options);
    team_open(&t, w, 2, spec);
    if (w[0].status != status || !strstr(w[0].message, words) || !strstr(w[0].message, path))
        fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
    team_close(&t, w);
}

static inline void write_some(const char *name, int count) {
    hid_t file = create(name);
    add(file, "x_train", "y_train", 0, 0, H5T_STD_U8LE, count);
    H5Fclose(file);
}
static inline void write_set(const char *name) { write_some(name, COUNT); }

#endif
