// Arrays of NumPy's: what is in an archive, on any number of workers, and a sentence for everything that can be wrong with one.
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data_team.h"
#include "npz_files.h"

static char path[64];

static int set_up(void **state) {
    strcpy(path, "/tmp/lockstep-numpy-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 || close(fd);
}

static int tear_down(void **state) { return unlink(path); }

static const char *spec(void) {
    static char text[100];
    snprintf(text, sizeof text, "numpy:%s", path);
    return text;
}

// All values of a field, sample by sample, until the fourth call from now.
static const void *values_of(const ls_source *s, int field) {
    static char room[4][4096];
    static int next;
    char *out = room[next++ % 4];
    void *scratch;
    ls_sample sample;
    assert_true(s->count * s->sample_bytes[field] <= (int64_t)sizeof room[0]);
    assert_int_equal(ls_memory_alloc(s->scratch_bytes + 64, &scratch), LS_OK);
    for (int64_t i = 0; i < s->count; i++) {
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
        memcpy(out + i * s->sample_bytes[field], sample.field[field], (size_t)s->sample_bytes[field]);
    }
    ls_memory_free(scratch);
    return out;
}

static void check_values(const ls_dataset *d) {
    const uint8_t *pixels = values_of(d->train, 0), *test = values_of(d->test, 0);
    const int32_t *labels = values_of(d->train, 1);
    assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(NPZ_SIDE, NPZ_SIDE, 1)));
    assert_true(d->train->count == NPZ_TRAIN && d->test->count == NPZ_TEST && ls_dataset_classes(d) == 3);
    for (int i = 0; i < NPZ_TRAIN * NPZ_PIXELS; i++) assert_int_equal(pixels[i], npz_pixel(i));
    for (int i = 0; i < NPZ_TEST * NPZ_PIXELS; i++) assert_int_equal(test[i], npz_pixel(i));
    for (int i = 0; i < NPZ_TRAIN; i++) assert_int_equal(labels[i], i % 3);
}

static void any_workers(void **state) {
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        assert_true(image_save(npz_make(), path));
        team_open(&t, w, workers, spec());
        assert_string_equal(w[0].message, "");
        for (int r = 0; r < workers; r++) check_values(w[r].dataset);
        team_close(&t, w);
    }
}

static const char *const usual_x = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 3, 3), }";
static const char *const usual_y = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }";

// An archive of two members; values are `values`, as many bytes as said.
static void save(const char *x_name, const char *x, size_t x_size, const char *y_name, const char *y, size_t y_size,
                 const void *y_values) {
    static const uint8_t values[512] = {0, 0, 128, 63, 5, 6, 7};
    npz z = {.members = 0};
    npz_add(&z, x_name, npy_make(x, values, x_size), 1);
    npz_add(&z, y_name, npy_make(y, y_values ? y_values : values, y_size), 0);
    assert_true(image_save(npz_end(&z), path));
}

static void other_types(void **state) {
    static const char big[] = {0, 2, 1, 0};  // 2 and 256
    team t = TEAM;
    worker w[WORKERS_MAX];
    save("images.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 2), }", 32, "labels.npy",
         "{'descr': '>i2', 'fortran_order': False, 'shape': (2, 1), }", 4, big);
    team_open(&t, w, 2, spec());
    assert_string_equal(w[0].message, "");
    const ls_dataset *d = w[1].dataset;
    assert_true(d->train->field[0].dtype == LS_DTYPE_F32 && !d->test && ls_dataset_classes(d) == 257);
    assert_true(*(const float *)values_of(d->train, 0) == 1.0f);
    assert_int_equal(((const int32_t *)values_of(d->train, 1))[0], 2);
    assert_int_equal(((const int32_t *)values_of(d->train, 1))[1], 256);
    team_close(&t, w);
}

static void refused(ls_status status, const char *words) {
    for (int workers = 1; workers <= 2; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, spec());
        if (w[0].status != status || !strstr(w[0].message, words) || !strstr(w[0].message, path))
            fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
        team_close(&t, w);
    }
}

#define X(text, size)         save("x.npy", text, size, "y.npy", usual_y, 2, NULL)
#define Y(text, size, values) save("x.npy", usual_x, 36, "y.npy", text, size, values)

static void wrong_arrays(void **state) {
    save("q.npy", usual_x, 36, "y.npy", usual_y, 2, NULL);
    refused(LS_STATUS_BAD_DATA, "has no arrays x_train and y_train");
    X("{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2, 2), }", 32);
    refused(LS_STATUS_BAD_DATA, "of uint8 or float32");
    X("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4), }", 8);
    refused(LS_STATUS_BAD_DATA, "has 2 dimensions");
    X("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 2, 2), }", 8);
    refused(LS_STATUS_UNSUPPORTED, "columns first");
    X("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2, 2), }", 8);
    refused(LS_STATUS_UNSUPPORTED, "values of type '|O'");
    X("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (2, 2, 2), }", 8);
    refused(LS_STATUS_BAD_DATA, "or one of several fields");
    X("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2), }", 9);
    refused(LS_STATUS_BAD_DATA, "is said to have 8 bytes of values, and has 9");
    X("{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807, 9, 2), }", 8);
    refused(LS_STATUS_BAD_DATA, "too many");
    X("{'descr': '|u1', 'fortran_order': False, 'shape': (0, 2, 2), }", 0);
    refused(LS_STATUS_BAD_DATA, "no values");
    X("{'descr': '|u1', 'shape': (2, 2, 2), }", 8);
    refused(LS_STATUS_BAD_DATA, "tells no order");
    X("{'descr': '|u1', 'fortran_order': False, }", 8);
    refused(LS_STATUS_BAD_DATA, "tells no shape");
    X("hello", 8);
    refused(LS_STATUS_BAD_DATA, "tells no type");
    Y("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }", 3, NULL);
    refused(LS_STATUS_BAD_DATA, "has 2 images and 3 classes");
    Y("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, NULL);
    refused(LS_STATUS_BAD_DATA, "no whole number for each sample");
    Y("{'descr': '|i1', 'fortran_order': False, 'shape': (2,), }", 2, "\1\xff");
    refused(LS_STATUS_BAD_DATA, "value 1 of y.npy is no class");
    Y("{'descr': '<u8', 'fortran_order': False, 'shape': (2,), }", 16,
      "\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0");
    refused(LS_STATUS_BAD_DATA, "value 0 of y.npy is no class");
}

static void wrong_archives(void **state) {
    image_file f = npz_make();
    for (size_t n = 0; n < f.size; n += 7) {
        image_file cut = {NULL, 0, 0};
        image_add(&cut, f.bytes, n);
        assert_true(image_save(cut, path));
        refused(LS_STATUS_BAD_DATA, "is no zip archive, or is cut off");
    }
    size_t end = f.size - 22;
    for (int what = 0; what < 4; what++) {
        static const struct {
            size_t at;
            uint8_t value;
            const char *words;
        } changes[] = {{19, 0x7f, "directory is not where it is said to be"},
                       {10, 200, "directory has another form"},
                       {17, 0, "directory has another form"},
                       {16, 0xff, "directory"}};
        image_file other = {NULL, 0, 0};
        image_add(&other, f.bytes, f.size);
        other.bytes[end + changes[what].at] = changes[what].value;
        assert_true(image_save(other, path));
        refused(LS_STATUS_BAD_DATA, changes[what].words);
    }
    // Bytes of what is packed.
    for (size_t at = 190; at < 330; at += 3) {
        image_file other = {NULL, 0, 0};
        team t = TEAM;
        worker w[WORKERS_MAX];
        image_add(&other, f.bytes, f.size);
        other.bytes[at] ^= 0x55;
        assert_true(image_save(other, path));
        team_open(&t, w, 1, spec());
        if (w[0].status != LS_OK) assert_non_null(strstr(w[0].message, path));
        team_close(&t, w);
    }
    free(f.bytes);
}

// Numbers and images that are learned in place of classes, in an archive.
static void targets(void **state) {
    static const double rows[] = {1.5, -2, 0, 1e3};
    static const uint8_t images[2 * 18] = {0};
    team t = TEAM;
    worker w[WORKERS_MAX];
    save("x.npy", usual_x, 36, "targets.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }", 32,
         (const char *)rows);
    team_open(&t, w, 2, spec());
    assert_string_equal(w[0].message, "");
    assert_int_equal(ls_dataset_targets(w[1].dataset), 2);
    const float *values = values_of(w[1].dataset->train, 1);
    for (int i = 0; i < 4; i++) assert_true(values[i] == (float)rows[i]);
    team_close(&t, w);
    t = (team)TEAM;
    save("x.npy", usual_x, 36, "targets.npy", usual_x, 36, (const char *)images);
    team_open(&t, w, 1, spec());
    assert_string_equal(w[0].message, "");
    assert_true(w[0].dataset->train->field[1].dtype == LS_DTYPE_U8);
    assert_int_equal(w[0].dataset->train->field[1].shape.ndim, 3);
    assert_int_equal(ls_dataset_targets(w[0].dataset), 0);
    team_close(&t, w);
    t = (team)TEAM;  // grey
    save("x.npy", usual_x, 36, "targets.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2, 1), }", 32,
         (const char *)rows);
    team_open(&t, w, 1, spec());
    assert_string_equal(w[0].message, "");
    assert_true(ls_shape_equal(w[0].dataset->train->field[1].shape, LS_SHAPE(2, 1, 1)));
    team_close(&t, w);
    save("x.npy", usual_x, 36, "targets.npy", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8,
         "\0\0\xc0\x7f\0\0\0\0");
    refused(LS_STATUS_BAD_DATA, "value 0 of targets.npy is no finite number");
    save("x.npy", usual_x, 36, "targets.npy", usual_y, 2, NULL);
    refused(LS_STATUS_BAD_DATA, "targets.npy has whole numbers of 1 dimensions, and of these only uint8 images");
}

#define ROWS(text, size, values) save("train_images.npy", usual_x, 36, "train_labels.npy", text, size, values)

// Several labels for each sample: rows of 0 and 1, of any whole type, as MedMNIST has them.
static void rows(void **state) {
    static const struct {
        const char *type;
        int width;
        const char *values;
    } kinds[] = {{"|u1", 1, "\1\0\1\0\0\0"}, {"|b1", 1, "\1\0\1\0\0\0"}, {">i2", 2, "\0\1\0\0\0\1\0\0\0\0\0\0"}};
    static const uint8_t expected[] = {1, 0, 1, 0, 0, 0};
    char text[100];
    for (int k = 0; k < 3; k++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }", kinds[k].type);
        ROWS(text, (size_t)(6 * kinds[k].width), kinds[k].values);
        team_open(&t, w, 2, spec());
        assert_string_equal(w[0].message, "");
        assert_int_equal(ls_dataset_labels(w[1].dataset), 3);
        assert_memory_equal(values_of(w[1].dataset->train, 1), expected, 6);
        team_close(&t, w);
    }
    snprintf(text, sizeof text, "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }");
    ROWS(text, 6, "\1\0\0\0\0\1");
    refused(LS_STATUS_BAD_DATA, "has exactly one of its 3 labels, so these are classes, written as rows");
    ROWS(text, 6, "\1\0\0\0\0\2");
    refused(LS_STATUS_BAD_DATA, "of 3 labels for each sample, is 2: a label is there, 1, or not, 0");
    ROWS("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24, NULL);
    refused(LS_STATUS_BAD_DATA, "is no whole number for each sample");
    ROWS("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1), }", 6, NULL);
    refused(LS_STATUS_BAD_DATA, "several labels at once (samples, labels)");
}

// Arrays in files of their own.
static void one_by_one(void **state) {
    static const uint8_t pixels[2 * 18] = {9, 8, 7}, classes[2] = {4, 1};
    static const struct {
        const char *options, *words;
        ls_status status;
    } wrong[] = {{"", "name the file of their classes", LS_STATUS_INVALID_ARGUMENT},
                 {",labels=L,test=X", "both test= and test-labels=", LS_STATUS_INVALID_ARGUMENT},
                 {",labels=X", "classes are (samples) or (samples, 1)", LS_STATUS_BAD_DATA},
                 {",labels=X-none", "cannot read", LS_STATUS_NOT_FOUND}};
    char labels[100], text[400];
    snprintf(labels, sizeof labels, "%s-labels", path);
    assert_true(image_save(npy_make(usual_x, pixels, sizeof pixels), path));
    assert_true(image_save(npy_make(usual_y, classes, sizeof classes), labels));
    for (int test = 0; test < 2; test++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        int n = snprintf(text, sizeof text, "numpy:%s,labels=%s", path, labels);
        if (test) snprintf(text + n, sizeof text - (size_t)n, ",test=%s,test-labels=%s", path, labels);
        team_open(&t, w, 2, text);
        assert_string_equal(w[0].message, "");
        const ls_dataset *d = w[1].dataset;
        assert_true(d->train->count == 2 && !d->test == !test && ls_dataset_classes(d) == 5);
        assert_memory_equal(values_of(d->train, 0), pixels, sizeof pixels);
        assert_int_equal(((const int32_t *)values_of(d->train, 1))[0], 4);
        team_close(&t, w);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        int n = snprintf(text, sizeof text, "numpy:%s", path);
        for (const char *c = wrong[i].options; *c; c++)
            n += snprintf(text + n, sizeof text - (size_t)n, "%.*s", *c == 'X' || *c == 'L' ? 60 : 1,
                          *c == 'X'   ? path
                          : *c == 'L' ? labels
                                      : c);
        team_open(&t, w, 1, text);
        if (w[0].status != wrong[i].status || !strstr(w[0].message, wrong[i].words))
            fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), wrong[i].words, w[0].message);
        team_close(&t, w);
    }
    unlink(labels);
}

// What lies there as it is, images and what is learned of them, is read at its place: numbers of 8 bytes, which become 4, and what is not finite is found when it is read;
// a file that changes meanwhile is refused.
static void at_their_place(void **state) {
    enum { COUNT = 5, VALUES = 6 };
    static const char *const x = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 1, 2), }";
    static const struct {
        const char *array;
        ls_shape shape;
        int memory;
    } kinds[] = {{"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 2, 3), }", {3, {2, 3, 1}}, 0},
                 {"{'descr': '<f8', 'fortran_order': False, 'shape': (5, 6), }", {1, {6}}, 1}};
    double values[COUNT * VALUES];
    float images[COUNT * 2];
    for (int i = 0; i < COUNT * VALUES; i++) values[i] = i / 8.0;
    for (int i = 0; i < COUNT * 2; i++) images[i] = (float)i;
    values[3 * VALUES + 1] = INFINITY;  // of none that is looked at when it is opened
    for (int k = 0; k < 2; k++) {
        npz z = {.members = 0};
        team t = TEAM;
        worker w[WORKERS_MAX];
        ls_sample sample;
        void *scratch;
        npz_add(&z, "x.npy", npy_make(x, images, sizeof images), 0);
        npz_add(&z, "targets.npy", npy_make(kinds[k].array, values, sizeof values), 0);
        assert_true(image_save(npz_end(&z), path));
        if (kinds[k].memory) {
            refused(LS_STATUS_BAD_DATA, "value 19 of targets.npy is no finite number");
            continue;
        }
        team_open(&t, w, 2, spec());
        assert_string_equal(w[0].message, "");
        const ls_source *s = w[1].dataset->train;
        assert_true(s->bytes == 0 && s->ops->stored(s) == COUNT * (8 + 48));
        assert_true(ls_shape_equal(s->field[1].shape, kinds[k].shape));
        assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
        assert_int_equal(ls_source_read(s, 3, scratch, &sample), LS_STATUS_BAD_DATA);
        assert_non_null(strstr(ls_error_message(), "value 19 of targets.npy is no finite number"));
        assert_int_equal(ls_source_read(s, 4, scratch, &sample), LS_OK);
        assert_memory_equal(sample.field[0], &images[8], 8);
        for (int i = 0; i < VALUES; i++)
            assert_true(((const float *)sample.field[1])[i] == (float)values[4 * VALUES + i]);
        assert_int_equal(truncate(path, 100), 0);
        assert_int_equal(ls_source_read(s, 4, scratch, &sample), LS_STATUS_IO);
        assert_non_null(strstr(ls_error_message(), "was changed since this run began"));
        ls_memory_free(scratch);
        team_close(&t, w);
    }
}

// Images of PyTorch's users, channels first: found where only one end is 1 or 3, at their place and packed, with what is
// learned of them.
static void channels_first(void **state) {
    static const struct {
        const char *x, *options, *words;
        ls_shape shape;
    } kinds[] = {{"(2, 3, 8, 6)", "", NULL, {3, {8, 6, 3}}},
                 {"(2, 1, 12, 12)", "", NULL, {3, {12, 12, 1}}},
                 {"(2, 8, 6, 3)", "", NULL, {3, {8, 6, 3}}},
                 {"(2, 8, 6, 3)", ",layout=chw", NULL, {3, {6, 3, 8}}},
                 {"(2, 9, 1, 16)", ",layout=hwc", NULL, {3, {9, 1, 16}}},
                 {"(2, 1, 1, 144)", "", NULL, {3, {1, 1, 144}}},
                 {"(2, 9, 1, 16)", "", "samples of images.npy are 9x1x16, which does not tell where", {0}},
                 {"(2, 3, 16, 3)", "", "say layout=hwc (height, width, channels) or layout=chw", {0}}};
    enum { EACH = 144 };
    float values[2 * EACH], images[2 * EACH];
    for (int i = 0; i < 2 * EACH; i++) values[i] = (float)i;
    for (size_t k = 0; k < 2 * sizeof kinds / sizeof kinds[0]; k++) {
        int packed = k % 2;
        char head[200], text[200];
        const char *x = kinds[k / 2].x, *words = kinds[k / 2].words;
        npz z = {.members = 0};
        team t = TEAM;
        worker w[WORKERS_MAX];
        snprintf(head, sizeof head, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }", x);
        npz_add(&z, "images.npy", npy_make(head, values, sizeof values), packed);
        npz_add(&z, "targets.npy", npy_make(head, values, sizeof values), !packed);
        assert_true(image_save(npz_end(&z), path));
        snprintf(text, sizeof text, "%s%s", spec(), kinds[k / 2].options);
        team_open(&t, w, 2, text);
        if (words ? !strstr(w[0].message, words) : w[0].message[0] != 0) fail_msg("%s: %s", x, w[0].message);
        for (int f = 0; f < 2 && !words; f++) {
            const ls_source *s = w[1].dataset->train;
            ls_shape to = kinds[k / 2].shape;
            int64_t h = to.dim[0], wide = to.dim[1], c = to.dim[2];
            int moved = strtol(x + 4, NULL, 10) != h || strstr(text, "chw");
            assert_true(ls_shape_equal(s->field[f].shape, to));
            memcpy(images, values_of(s, f), sizeof images);
            for (int64_t i = 0; i < 2 * EACH; i++) {
                int64_t n = i / EACH, at = i % EACH / c, channel = i % c;
                assert_true(images[i] == values[moved ? n * EACH + channel * h * wide + at : i]);
            }
        }
        team_close(&t, w);
    }
}

// What was changed in an array that is in memory is found by its checksum, as NumPy finds it; so is a number that is none.
static void values_in_memory(void **state) {
    static const float bad[8] = {1, 2, NAN};
    for (unsigned char method = 0; method <= 8; method += 8) {
        image_file f = npz_make();
        for (size_t i = 0; i + 46 < f.size; i++)
            if (memcmp(f.bytes + i, "PK\1\2", 4) == 0 && f.bytes[i + 10] == method) f.bytes[i + 16] ^= 1;
        assert_true(image_save(f, path));
        refused(LS_STATUS_BAD_DATA, "it has another checksum");
    }
    npz z = {.members = 0};
    npz_add(&z, "x.npy", npy_make("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 2), }", bad, 32), 1);
    npz_add(&z, "y.npy", npy_make(usual_y, "\0\1", 2), 0);
    assert_true(image_save(npz_end(&z), path));
    refused(LS_STATUS_BAD_DATA, "value 2 of x.npy is no finite number");
}

// One value of one sample is enough for another fingerprint, also where nothing is in memory: archives have sums of their members.
static void fingerprints_see_all_values(void **state) {
    static const char *const x = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 1, 2), }",
                             *const targets = "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 2, 2), }";
    float images[10], learned[20];
    uint64_t seen[3];
    for (int i = 0; i < 20; i++) images[i / 2] = (float)i, learned[i] = (float)i;
    for (int k = 0; k < 3;
         k++) {  // as they are, and with a change in the second sample of either, which is not looked at
        npz z = {.members = 0};
        team t = TEAM;
        worker w[WORKERS_MAX];
        if (k == 1) images[2] += 1;
        if (k == 2) learned[4] += 1;
        npz_add(&z, "x.npy", npy_make(x, images, sizeof images), 0);
        npz_add(&z, "targets.npy", npy_make(targets, learned, sizeof learned), 0);
        assert_true(image_save(npz_end(&z), path));
        team_open(&t, w, 2, spec());
        assert_string_equal(w[0].message, "");
        seen[k] = w[1].dataset->fingerprint;
        assert_true(seen[k] == w[0].dataset->fingerprint && w[0].dataset->train->bytes == 0);
        team_close(&t, w);
    }
    assert_true(seen[0] != seen[1] && seen[1] != seen[2] && seen[0] != seen[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fingerprints_see_all_values),
                                       cmocka_unit_test(any_workers),
                                       cmocka_unit_test(other_types),
                                       cmocka_unit_test(one_by_one),
                                       cmocka_unit_test(at_their_place),
                                       cmocka_unit_test(channels_first),
                                       cmocka_unit_test(values_in_memory),
                                       cmocka_unit_test(wrong_arrays),
                                       cmocka_unit_test(wrong_archives),
                                       cmocka_unit_test(targets),
                                       cmocka_unit_test(rows)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
