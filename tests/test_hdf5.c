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

#include "hdf5_files.h"

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
        void *scratch, *memory;
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
        // Images are not in memory, but where they are cached; numbers are.
        assert_true((s->bytes > 0) == (k == ROWS) && s->bytes >= (k == ROWS) * COUNT * s->sample_bytes[1]);
        assert_int_equal(ls_memory_alloc(s->ops->cache_size(s, 1 << 20), &memory), LS_OK);
        s->ops->cache_attach(w[1].dataset->train, 1 << 20, memory, 1);
        for (int again = 0; again < 2; again++) {
            if (ls_source_read(s, floats ? 0 : 1, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
            if (floats)
                assert_true(((const float *)sample.field[1])[0] == 0.5F && ((const float *)sample.field[1])[1] == -1);
            else
                assert_memory_equal(sample.field[1], k == PLANES ? "\5\7\6\10" : "\5\6\7\10", 4);
            assert_int_equal(truncate(path, 100), 0);
        }
        if (k == GREY) assert_int_equal(ls_source_read(s, 1, scratch, &sample), LS_STATUS_IO);
        ls_memory_free(memory);
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

// A place for values that is said to be behind the file's end, in a file whose own words are whole.
static void behind_the_end(void **state) {
    unsigned char bytes[16384];
    hid_t file = create(path);
    add(file, "x", "y", 0, 0, H5T_STD_U8LE, COUNT);
    hid_t set = H5Dopen2(file, "x", H5P_DEFAULT);
    uint64_t at = H5Dget_offset(set), later;
    H5Dclose(set);
    H5Fclose(file);
    FILE *f = fopen(path, "r+b");
    size_t size = fread(bytes, 1, sizeof bytes, f);
    unsigned char *place = memmem(bytes, size, &at, sizeof at);
    assert_true(size < sizeof bytes && place);
    later = size - COUNT * PIXELS + 1;
    fseek(f, place - bytes, SEEK_SET);
    assert_int_equal(fwrite(&later, sizeof later, 1, f), 1);
    fclose(f);
    refused("", LS_STATUS_BAD_DATA, "7 samples of 60 bytes are said to begin at byte");
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts),        cmocka_unit_test(replaced_file),
                                       cmocka_unit_test(wrong),          cmocka_unit_test(changed_file),
                                       cmocka_unit_test(targets),        cmocka_unit_test(rows),
                                       cmocka_unit_test(gap_of_classes), cmocka_unit_test(behind_the_end)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
