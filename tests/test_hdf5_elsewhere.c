// HDF5 data sets whose values lie in other files: views, links and raw values, found where the library finds them, and refused where something is missing.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "hdf5_files.h"

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
    char pattern[96], part[2][96], words[300];
    snprintf(pattern, sizeof pattern, "%s-%%b", path);
    for (int i = 0; i < 2; i++) snprintf(part[i], sizeof part[i], "%s-%d", path, i);
    write_numbered(pattern);
    snprintf(words, sizeof words, "x_train lies in another file, and %s: x_train is not there", part[0]);
    refused("", LS_STATUS_NOT_FOUND, words);
    for (int i = 0; i < 2; i++) write_some(part[i], PART);
    team t;
    worker w[WORKERS_MAX];
    void *scratch;
    ls_sample sample;
    opened("", 2, &t, w);
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
    team t;
    worker w[WORKERS_MAX];
    opened(",label=there/y_train", 1, &t, w);
    assert_int_equal(w[0].dataset->train->count, MANY);
    team_close(&t, w);
    unlink(other);
    refused(",label=there/y_train", LS_STATUS_BAD_DATA, "has no data sets");
    assert_int_equal(mkfifo(other, 0600), 0);
    snprintf(words, sizeof words, "x_train lies in another file, and %s is a pipe or a device", other);
    refused(",label=there/y_train", LS_STATUS_BAD_DATA, words);
    unlink(other);
}

// Behind a link into another folder, files are looked for from there.
static void links_away(void **state) {
#if !H5_VERSION_GE(1, 10, 0)
    skip();
#endif
    char folder[80], away[96], source[112];
    snprintf(folder, sizeof folder, "%s-away", path);
    snprintf(away, sizeof away, "%s/view.h5", folder);
    snprintf(source, sizeof source, "%s/source.h5", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_set(source);
    write_view(away, "source.h5");
    hid_t file = create(path);
    assert_true(H5Lcreate_external(away, "x_train", file, "x_train", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    assert_true(H5Lcreate_external(away, "y_train", file, "y_train", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    opens("", COUNT, 0, 0);
    unlink(source);
    refused("", LS_STATUS_NOT_FOUND, "source.h5: x_train is not there");
    unlink(away);
    assert_int_equal(rmdir(folder), 0);
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
    team t;
    worker w[WORKERS_MAX];
    void *scratch;
    ls_sample sample;
    opened("", 2, &t, w);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views), cmocka_unit_test(views_elsewhere), cmocka_unit_test(views_numbered),
        cmocka_unit_test(links), cmocka_unit_test(links_away),      cmocka_unit_test(external),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
