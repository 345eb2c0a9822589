// Keras's files of weights: both layouts written and read again, the archive, tensors by name and by order, and damage.
#include <hdf5.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/graph.h>

#include "ok.h"
#include "train/weights.h"
#include "train/weights_hdf5.h"

static char folder[64];

static int make_folder(void **state) {
    strcpy(folder, "/tmp/lockstep-keras-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char path[8][128];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

// --- a network whose weights lie in arrays ---------------------------------------------------------------------------

enum { ROOM = 1024 };
typedef struct kept {
    float values[32][ROOM];
    int set[32];
    const ls_graph *graph;
} kept;

static ls_status get(void *user, int param, float *values) {
    kept *k = user;
    memcpy(values, k->values[param], (size_t)ls_shape_count(k->graph->store->params[param].shape) * sizeof *values);
    return LS_OK;
}

static ls_status set(void *user, int param, const float *values) {
    kept *k = user;
    memcpy(k->values[param], values, (size_t)ls_shape_count(k->graph->store->params[param].shape) * sizeof *values);
    k->set[param]++;
    return LS_OK;
}

static ls_status changed(void *user) { return LS_OK; }

static ls_graph *network(int classes, const char *head) {
    char text[1024];
    ls_graph *g;
    ls_model_config config;
    ls_model_config_init(&config);
    snprintf(text, sizeof text,
             "input 6x6x2\nc = conv2d filters=3 kernel_size=3\nn = batch_norm no_scale\nm = batch_norm\n"
             "d = depthwise_conv2d kernel_size=2\ns = separable_conv2d filters=4 kernel_size=2\nrescaling scale=2\n"
             "z = normalization\nglobal_average_pool2d\n%s = dense units=%d\n",
             head, classes);
    OK(ls_network_read("small.net", text, &config, &g));
    return g;
}

static ls_weights weights_of(ls_graph *g, kept *k, int from) {
    memset(k, 0, sizeof *k);
    k->graph = g;
    for (int i = 0; i < ls_store_count(ls_graph_store(g)) && from; i++)
        for (int64_t e = 0; e < ls_shape_count(g->store->params[i].shape); e++)
            k->values[i][e] = (float)(from + 100 * i) + (float)e / 8;
    return (ls_weights){.graph = g, .user = k, .get = get, .set = set, .changed = changed};
}

static kept a, b;

static void check_loaded(const ls_graph *g, const char *path) {
    for (int i = 0; i < g->store->count; i++) {
        if (b.set[i] != 1) fail_msg("%s: %s was not taken", path, g->store->params[i].name);
        assert_memory_equal(a.values[i], b.values[i],
                            (size_t)ls_shape_count(g->store->params[i].shape) * sizeof(float));
    }
}

static uint8_t *file_bytes(const char *path, size_t *size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void put_bytes(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void put_little(uint8_t *p, size_t value, int bytes) {
    for (int i = 0; i < bytes; i++) p[i] = (uint8_t)(value >> 8 * i);
}

// An archive as Keras writes it: its members are not packed.
static void put_archive(const char *path, const char *name, const uint8_t *bytes, size_t size) {
    size_t n = strlen(name);
    uint8_t *zip = calloc(size + 512, 1), *p = zip;
    memcpy(p, "PK\3\4", 4);
    put_little(p + 18, size, 4), put_little(p + 22, size, 4), put_little(p + 26, n, 2);
    memcpy(p + 30, name, n), memcpy(p + 30 + n, bytes, size);
    p += 30 + n + size;
    size_t directory = (size_t)(p - zip);
    memcpy(p, "PK\1\2", 4);
    put_little(p + 20, size, 4), put_little(p + 24, size, 4), put_little(p + 28, n, 2);
    memcpy(p + 46, name, n);
    p += 46 + n;
    memcpy(p, "PK\5\6", 4);
    put_little(p + 8, 1, 2), put_little(p + 10, 1, 2), put_little(p + 12, 46 + n, 4), put_little(p + 16, directory, 4);
    put_bytes(path, zip, (size_t)(p - zip) + 22);
    free(zip);
}

// --- tests -----------------------------------------------------------------------------------------------------------

static void written_and_read(void **state) {
    static const char *const names[] = {"two.h5", "three.weights.h5", "three.keras"};
    ls_graph *g = network(5, "head");
    for (int i = 0; i < 3; i++) {
        const char *path = in_folder(names[i]);
        ls_weights from = weights_of(g, &a, 1), to = weights_of(g, &b, 0);
        if (i < 2) {
            OK(ls__weights_save(&from, path));
        } else {
            size_t size;
            uint8_t *bytes = file_bytes(in_folder(names[1]), &size);
            put_archive(path, "model.weights.h5", bytes, size);
            free(bytes);
        }
        OK(ls__weights_load(&to, path, 0, NULL));
        check_loaded(g, path);
    }
    ls_graph_destroy(&g);
}

static void names_in_files(void **state) {
    static const struct {
        const char *file, *tensor;
    } tensors[] = {{"two.h5", "s/pointwise_kernel"},
                   {"two.h5", "n/moving_mean"},
                   {"three.weights.h5", "layers/separable_conv2d/1"},
                   {"three.weights.h5", "layers/batch_normalization/2"},
                   {"three.keras", "layers/normalization/2"}};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        ls_weights_file *f;
        OK(ls_weights_file_open(in_folder(tensors[i].file), &f));
        if (!ls_weights_file_find(f, tensors[i].tensor)) fail_msg("%s has no %s", tensors[i].file, tensors[i].tensor);
        assert_int_equal(f->count, 2 + 3 + 4 + 2 + 3 + 3 + 2);
        ls_weights_file_close(&f);
    }
}

// Keras sorts the layers of a network with branches by their depth, those of one depth as outputs are followed back. The numbers are Keras's
// (tests/golden/make_places.py).
static void places_of_branches(void **state) {
    static const char text[] =
        "x = input 6x6x2\na = conv2d filters=2 kernel_size=1\nb = conv2d filters=2 kernel_size=1 from x\n"
        "c = conv2d filters=2 kernel_size=1\nd = conv2d filters=2 kernel_size=1 activation=relu from b\n"
        "e = add from a, d\nf = concat from c, e\ng = relu\nh = conv2d filters=2 kernel_size=1 from f\n"
        "i = concat from g, h\nglobal_average_pool2d\ndense units=3\n";
    static const char *const places[][2] = {{"b", "conv2d"},   {"a", "conv2d_1"}, {"d", "conv2d_2"},
                                            {"c", "conv2d_3"}, {"h", "conv2d_4"}, {"f", "concatenate"},
                                            {"e", "add"},      {"g", "re_lu"},    {"i", "concatenate_1"}};
    ls_graph *g;
    ls_model_config config;
    char place[128];
    int found = 0;
    ls_model_config_init(&config);
    OK(ls_network_read("branches.net", text, &config, &g));
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        for (int n = 0; n < g->node_count; n++) {
            if (strcmp(g->nodes[n].name, places[i][0]) != 0) continue;
            OK(ls__hdf5_place(g, n, place));
            assert_string_equal(place + strlen("layers/"), places[i][1]);
            found++;
        }
    assert_int_equal(found, sizeof places / sizeof places[0]);
    ls_graph_destroy(&g);
}

// Two recurrent layers, whose weights lie in cells of one name.
static void recurrent_layers(void **state) {
    static const char text[] =
        "t = input 8 i32\ne = embedding input_dim=9 output_dim=4\nf = lstm units=3 from e\n"
        "b = lstm units=3 go_backwards from e\nc = gru units=2 from e\nconcat axis=1 from f, b, c\ndense units=5\n";
    ls_graph *g;
    ls_model_config config;
    ls_weights_file *file;
    const char *path = in_folder("recurrent.weights.h5");
    ls_model_config_init(&config);
    OK(ls_network_read("recurrent.net", text, &config, &g));
    ls_weights from = weights_of(g, &a, 1), to = weights_of(g, &b, 0);
    OK(ls__weights_save(&from, path));
    OK(ls__weights_load(&to, path, 0, NULL));
    check_loaded(g, path);
    OK(ls_weights_file_open(path, &file));
    assert_non_null(ls_weights_file_find(file, "layers/lstm_1/1"));
    assert_int_equal(file->count, g->store->count);
    ls_weights_file_close(&file);
    ls_graph_destroy(&g);
}

static void rename_layer(const char *path, const char *place, const char *name) {
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), vars = H5Gopen2(file, place, H5P_DEFAULT);
    hid_t attribute = H5Aopen(vars, "name", H5P_DEFAULT), type = H5Aget_type(attribute);
    assert_true(H5Awrite(attribute, type, &name) >= 0);
    H5Tclose(type), H5Aclose(attribute), H5Gclose(vars), H5Fclose(file);
}

// The last two of three layers.
static void exchange_layers(const char *path) {
    char all[3][7], other[7];  // as long as the longest, "dense_1", without a 0 at its end
    hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), attribute = H5Aopen(file, "layer_names", H5P_DEFAULT);
    hid_t type = H5Aget_type(attribute);
    assert_int_equal(H5Tget_size(type), 7);
    assert_true(H5Aread(attribute, type, all) >= 0);
    memcpy(other, all[1], 7), memcpy(all[1], all[2], 7), memcpy(all[2], other, 7);
    assert_true(H5Awrite(attribute, type, all) >= 0);
    H5Tclose(type), H5Aclose(attribute), H5Fclose(file);
}

// Keras numbers names as layers are made, in a whole session: the group says which layer it is, and its name only where names are asked for.
static void names_of_another_session(void **state) {
    static const char text[] = "input 2x2x1\nflatten\ndense units=4\ndense units=4\ndense units=4\n";
    ls_graph *g;
    ls_model_config config;
    int taken;
    const char *path = in_folder("renamed.weights.h5");
    ls_model_config_init(&config);
    OK(ls_network_read("three.net", text, &config, &g));
    ls_weights from = weights_of(g, &a, 1), to = weights_of(g, &b, 0);
    OK(ls__weights_save(&from, path));
    rename_layer(path, "layers/dense/vars", "dense_2");
    rename_layer(path, "layers/dense_1/vars", "dense_2");  // of another network in this one
    rename_layer(path, "layers/dense_2/vars", "dense_1");
    OK(ls__weights_load(&to, path, 0, NULL));
    check_loaded(g, path);
    rename_layer(path, "layers/dense_1/vars", "dense");
    to = weights_of(g, &b, 0);
    OK(ls__weights_load(&to, path, 1, &taken));
    assert_int_equal(taken, 6);
    for (int i = 0; i < 6; i++) assert_true(b.values[i][0] == a.values[(i + 2) % 6][0]);
    // A file of Keras 2 is read by its order or by its names: by names alone where these say another thing.
    path = in_folder("reordered.h5");
    OK(ls__weights_save(&from, path));
    to = weights_of(g, &b, 0);
    OK(ls__weights_load(&to, path, 0, NULL));
    check_loaded(g, path);
    exchange_layers(path);
    assert_int_equal(ls__weights_load(&to, path, 0, NULL), LS_STATUS_BAD_DATA);
    assert_non_null(
        strstr(ls_error_message(), "'dense_2/kernel' is the network's layer dense_1, by their names another"));
    to = weights_of(g, &b, 0);
    OK(ls__weights_load(&to, path, 1, NULL));
    check_loaded(g, path);
    ls_graph_destroy(&g);
}

static void other_networks(void **state) {
    ls_graph *other = network(7, "head"), *renamed = network(5, "tail");
    for (int i = 0; i < 2; i++) {
        const char *path = in_folder(i ? "three.weights.h5" : "two.h5");
        ls_weights to = weights_of(other, &b, 0);
        int taken;
        assert_int_equal(ls__weights_load(&to, path, 0, NULL), LS_STATUS_BAD_DATA);
        assert_non_null(
            strstr(ls_error_message(), "parameter 'head/kernel' is (4, 5) there, and (4, 7) in the network"));
        OK(ls__weights_load(&to, path, 1, &taken));
        assert_int_equal(taken, 17);  // all but the head's two
        assert_int_equal(b.set[17] + b.set[18], 0);
    }
    ls_weights to = weights_of(renamed, &b, 0);
    assert_int_equal(ls__weights_load(&to, in_folder("two.h5"), 0, NULL), LS_STATUS_BAD_DATA);
    assert_non_null(
        strstr(ls_error_message(),
               "parameter 'tail/kernel' (4, 5) is not in it; it has 2 that small lacks, first 'head/kernel'"));
    ls_graph_destroy(&other);
    ls_graph_destroy(&renamed);
}

// Whatever has become of a file: it is read, or a sentence says that it is damaged.
static void damage(void **state) {
    static const char *const names[] = {"two.h5", "three.weights.h5", "three.keras"};
    uint32_t draw = 12345;
    int refused = 0;
    for (int i = 0; i < 3; i++) {
        size_t size;
        uint8_t *good = file_bytes(in_folder(names[i]), &size), *bad = malloc(size);
        const char *path = in_folder("damaged.h5");
        for (int k = 0; k < 60; k++) {
            size_t n = size;
            memcpy(bad, good, size);
            if (k % 10 == 0) n = size * (size_t)k / 60;
            for (int times = k % 4 + 1; times > 0 && k % 10; times--) {
                draw = draw * 1664525u + 1013904223u;
                bad[(draw >> 8) % (k % 2 ? size : 2048)] ^= (uint8_t)(1u << (draw & 7));
            }
            put_bytes(path, bad, n);
            ls_weights_file *f;
            ls_status status = ls_weights_file_open(path, &f);
            assert_true((status == LS_OK) == (f != NULL));
            if (status != LS_OK && !strstr(ls_error_message(), path)) fail_msg("no path in '%s'", ls_error_message());
            refused += status != LS_OK;
            ls_weights_file_close(&f);
        }
        free(good), free(bad);
    }
    assert_true(refused > 18);  // those that are cut off, and more
}

static void other_archives(void **state) {
    ls_weights_file *f;
    put_archive(in_folder("a.zip"), "x_train.npy", (const uint8_t *)"12345678", 8);
    assert_int_equal(ls_weights_file_open(in_folder("a.zip"), &f), LS_STATUS_UNSUPPORTED);
    assert_non_null(strstr(ls_error_message(), "a.zip is a zip archive, but not one of Keras's (.keras)"));
    put_bytes(in_folder("empty.weights.h5"), (const uint8_t *)"", 0);
    assert_int_equal(ls_weights_file_open(in_folder("empty.weights.h5"), &f), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "empty.weights.h5 does not begin as a file of Keras does"));
    put_bytes(in_folder("half.keras"), (const uint8_t *)"\n--boundary of a download\n", 26);
    assert_int_equal(ls_weights_file_open(in_folder("half.keras"), &f), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "half.keras does not begin as a file of Keras does"));
    assert_int_equal(ls_weights_file_check(in_folder("new.keras")), LS_STATUS_UNSUPPORTED);
    assert_non_null(strstr(ls_error_message(), "name a .weights.h5"));
}

// A group that lies in another file, which is a pipe: nobody waits for it.
static void linked(void **state) {
    ls_weights_file *f;
    const char *path = in_folder("linked.h5"), *other = in_folder("pipe.h5");
    assert_int_equal(mkfifo(other, 0600), 0);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    assert_true(H5Lcreate_external(other, "/", file, "model_weights", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    H5Fclose(file);
    assert_int_equal(ls_weights_file_open(path, &f), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "linked.h5"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(names_in_files),
        cmocka_unit_test(places_of_branches),
        cmocka_unit_test(recurrent_layers),
        cmocka_unit_test(names_of_another_session),
        cmocka_unit_test(other_networks),
        cmocka_unit_test(damage),
        cmocka_unit_test(other_archives),
        cmocka_unit_test(linked),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
