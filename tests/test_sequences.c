// Networks of sequences: what their layers refuse, how they begin, the built-in ones, and the datasets they learn from.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/dataset.h"
#include "graph/graph.h"

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != LS_OK) fail_msg("%s", ls_error_message());                                                       \
    } while (0)

// --- layers ----------------------------------------------------------------------------------------------------------

static ls_graph *g;
static ls_value vectors, tokens;  // (4, 12) and (4)

static void refused(ls_value value, const char *sentence) {
    assert_int_equal(value, LS_NO_VALUE);
    assert_string_equal(ls_error_message(), sentence);
    ls_graph_destroy(&g);
}

static void begin(void) {
    OK(ls_graph_create_empty("net", NULL, &g));
    vectors = ls_graph_add_input(g, "x", LS_SHAPE(4, 12), LS_DTYPE_F32);
    tokens = ls_graph_add_input(g, "tokens", LS_SHAPE(4), LS_DTYPE_I32);
}

static void layers_refuse(void **state) {
    begin();
    refused(
        ls_attention(g, vectors, LS_NO_VALUE, &(ls_attention_attrs){.heads = 3}),
        "attention: query, key and value of 3 heads are three equal parts of a position's channels, each for as many "
        "heads, but there are 12 channels");
    begin();
    refused(
        ls_attention(g, tokens, LS_NO_VALUE, NULL),
        "attention: a Attention layer works on sequences of vectors (None, T, C), but its input is i32 of (None, 4)");
    begin();
    ls_value other = ls_graph_add_input(g, "other", LS_SHAPE(5), LS_DTYPE_I32);
    refused(ls_lstm(g, vectors, other, &(ls_recurrent_attrs){.units = 2}),
            "lstm: a mask has a whole number (i32) for each step of (None, 4, 12), but this is i32 of (None, 5)");
    begin();
    refused(ls_gru(g, vectors, LS_NO_VALUE, NULL),
            "gru: units of a GRU layer lies between 1 and 5.36871e+08, but 0 was asked for");
    begin();
    refused(
        ls_position_embedding(g, vectors, &(ls_position_embedding_attrs){.rows = 3}),
        "position_embedding: sequences of 4 are longer than the 3 positions that there are vectors for: shorten them, "
        "or ask for more positions");
    begin();
    ls_value logits = ls_dense(g, vectors, &(ls_dense_attrs){.units = 7});
    ls_value targets = ls_graph_add_input(g, "targets", LS_SHAPE(3), LS_DTYPE_I32);
    refused(ls_softmax_cross_entropy(g, logits, targets, NULL),
            "loss: of a sequence it takes scores (None, T, classes) and a class number for each position, (None, T) of "
            "i32, but was given (None, 4, 7) of fp32 and (None, 3) of i32");
}

static int find(const ls_store *store, const char *name) {
    int index = ls__store_find(store, name);
    assert_true(index >= 0);
    return index;
}

// Rows at right angles, of length 1; and the forget gate's bias.
static void recurrent_layers_begin_as_keras_has_it(void **state) {
    enum { UNITS = 5, PRODUCTS = 20 };
    float r[UNITS * PRODUCTS], b[PRODUCTS];
    begin();
    OK(ls_graph_finish_features(g, ls_lstm(g, vectors, tokens, &(ls_recurrent_attrs){.units = UNITS})));
    const ls_store *store = ls_graph_store(g);
    ls_param_initialize(store, find(store, "lstm/recurrent_kernel"), 3, r);
    for (int i = 0; i < UNITS; i++)
        for (int j = 0; j < UNITS; j++) {
            double dot = 0;
            for (int k = 0; k < PRODUCTS; k++) dot += (double)r[i * PRODUCTS + k] * (double)r[j * PRODUCTS + k];
            assert_true(fabs(dot - (i == j)) < 1e-6);
        }
    ls_param_initialize(store, find(store, "lstm/bias"), 3, b);
    for (int k = 0; k < PRODUCTS; k++) assert_true(b[k] == (k >= UNITS && k < 2 * UNITS));
    ls_graph_destroy(&g);
}

// --- networks --------------------------------------------------------------------------------------------------------

static void networks_have_their_parameters(void **state) {
    // Embedding and both ways, or two layers; positions; a block: two normalizations, 4 C^2 + 4 C of attention, 8 C^2 + 5 C of the rest.
    int64_t block = 4 * 64 + 12 * 64 * 64 + 9 * 64, wide = 4 * 256 + 12 * 256 * 256 + 9 * 256;
    const struct {
        const char *name;
        int64_t parameters;
        int inputs;
    } networks[] = {
        {"lstm", 128 * 64 + 2 * 4 * 64 * (64 + 64 + 1) + 129 * 10, 1},
        {"gru", 128 * 64 + 2 * 3 * 64 * (64 + 64 + 2) + 129 * 10, 1},
        {"lstm-lm", 128 * 256 + 2 * 4 * 256 * (512 + 1) + 257 * 128, 2},
        {"gru-lm", 128 * 256 + 2 * 3 * 256 * (512 + 2) + 257 * 128, 2},
        {"lstm-lm-mini", 128 * 64 + 4 * 64 * (128 + 1) + 65 * 128, 2},
        {"transformer", 128 * 64 + 512 * 64 + 2 * block + 2 * 64 + 65 * 10, 1},
        {"transformer-lm-mini", 128 * 64 + 512 * 64 + 2 * block + 2 * 64 + 65 * 128, 2},
        {"transformer-lm", 128 * 256 + 512 * 256 + 6 * wide + 2 * 256 + 257 * 128, 2},
    };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        OK(ls_model_create(networks[i].name, (ls_shape){0}, 0, &g));
        assert_int_equal(ls_graph_parameter_count(g), networks[i].parameters);
        assert_int_equal(ls_graph_input_count(g), networks[i].inputs);
        OK(ls_graph_check_classifier(g));
        ls_graph_destroy(&g);
    }
    assert_int_equal(ls_model_create("transformer-lm", LS_SHAPE(513), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "sequences of 513 are longer than the 512 positions"));
    assert_int_equal(ls_model_create("lstm", LS_SHAPE(28, 28, 1), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "lstm takes sequences of tokens, (T)"));
    ls_model_config config;
    ls_model_config_init(&config);
    config.vocabulary = 9;
    assert_int_equal(ls_model_build("mnist-cnn", &config, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "mnist-cnn takes images, not sequences of tokens, as lstm, gru and transformer do");
}

// --- datasets --------------------------------------------------------------------------------------------------------

static ls_data_host *host;

static int setup(void **state) { return ls_data_host_create_self(&host) != LS_OK; }

static int teardown(void **state) {
    ls_data_host_destroy_self(&host);
    return 0;
}

static void read_sample(const ls_source *source, int64_t sample, const uint8_t *field[2]) {
    for (int f = 0; f < 2; f++)
        field[f] = (const uint8_t *)ls_source_array(source, f) + sample * source->sample_bytes[f];
}

static void sentences_go_on(void **state) {
    ls_dataset *d;
    const uint8_t *one[2], *next[2];
    OK(ls_data_open(host, "sentences", &d));
    assert_int_equal(ls_dataset_train_count(d), 8192);
    assert_int_equal(ls_dataset_test_count(d), 1024);
    int vocabulary;
    assert_true(ls_shape_equal(ls_dataset_sequence_shape(d, &vocabulary), LS_SHAPE(64)));
    assert_int_equal(vocabulary, 128);
    assert_int_equal(ls_dataset_classes(d), 128);
    for (int64_t i = 0; i + 1 < 200; i++) {
        read_sample(d->train, i, one);
        read_sample(d->train, i + 1, next);
        for (int t = 0; t < 64; t++) {
            assert_int_equal(one[1][t], t < 63 ? one[0][t + 1] : next[0][0]);
            assert_true((one[0][t] >= 'a' && one[0][t] <= 'z') || one[0][t] == ' ' || one[0][t] == '.');
        }
    }
    ls_data_close(&d);
}

// The label is the animal before "is", else the one after the verb: of two in a sentence.
static void roles_are_what_sentences_say(void **state) {
    ls_dataset *d;
    const uint8_t *one[2];
    int passives = 0;
    OK(ls_data_open(host, "roles", &d));
    for (int64_t i = 0; i < 500; i++) {
        char text[65] = {0};
        read_sample(d->train, i, one);
        memcpy(text, one[0], 64);
        const char *object = ls_dataset_class(d, *one[1]), *passive = strstr(text, " is "), *at = strstr(text, object);
        assert_non_null(at);
        assert_int_equal(text[strlen(text) - 1], '.');
        passives += passive != NULL;
        const char *middle = passive ? passive : NULL;
        static const char *const verbs[] = {"sees", "hears", "likes", "calls", "finds", "helps"};
        for (int v = 0; v < 6 && !middle; v++) middle = strstr(text, verbs[v]);
        assert_non_null(middle);
        assert_true(passive ? at < middle : at > middle);
    }
    assert_true(passives > 200 && passives < 300);
    ls_data_close(&d);
}

static void write_file(const char *path, const char *bytes, size_t count) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

static void text_comes_from_files(void **state) {
    static const char path[] = "test_sequences_text.txt";
    char bytes[101];
    ls_dataset *d;
    const uint8_t *one[2];
    for (int i = 0; i < 101; i++) bytes[i] = (char)(155 + i);
    write_file(path, bytes, sizeof bytes);
    OK(ls_data_open(host, "text:test_sequences_text.txt,length=10", &d));
    assert_int_equal(ls_dataset_train_count(d), 9);
    assert_int_equal(ls_dataset_test_count(d), 1);
    read_sample(d->test, 0, one);
    for (int t = 0; t < 10; t++) {
        assert_int_equal(one[0][t], 155 + 90 + t);
        assert_int_equal(one[1][t], 155 + 91 + t);
    }
    ls_data_close(&d);
    const struct {
        const char *spec, *sentence;
    } wrong[] = {
        {"text:test_sequences_text.txt",
         "test_sequences_text.txt has 101 bytes, which is too short to learn from: ten "
         "windows of 64 and a byte are the least"},
        {"text:test_sequences_text.txt,length=0",
         "text:test_sequences_text.txt,length=0: the length of a window is a "
         "number from 1 to 4096, as in text:test_sequences_text.txt,length=64"},
        {"text:no/such.txt", "cannot read no/such.txt: No such file or directory"},
        {"text:.", ". is no file, and text is read from one"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_not_equal(ls_data_open(host, wrong[i].spec, &d), LS_OK);
        assert_string_equal(ls_error_message(), wrong[i].sentence);
    }
    assert_int_equal(unlink(path), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_refuse),
        cmocka_unit_test(recurrent_layers_begin_as_keras_has_it),
        cmocka_unit_test(networks_have_their_parameters),
        cmocka_unit_test(sentences_go_on),
        cmocka_unit_test(roles_are_what_sentences_say),
        cmocka_unit_test(text_comes_from_files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
