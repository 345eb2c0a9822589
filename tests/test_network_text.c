// Networks as text: that every built-in one comes back from its text as it was, that blocks and repeats say what the C builders say, and a
// sentence with line and column for everything that can be wrong.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/graph.h"
#include "models/models.h"
#include "models/network.h"

static ls_graph *read_with(const char *text, const ls_model_config *config) {
    ls_graph *g;
    if (ls_network_read("my.net", text, config, &g) != LS_OK) fail_msg("%s\n%s", ls_error_message(), text);
    return g;
}

static ls_graph *read_text(const char *text) {
    ls_model_config config;
    ls_model_config_init(&config);
    return read_with(text, &config);
}

// Operations, attributes, names, connections; and the parameters, each at its place, by which they are drawn.
static void check_same(ls_graph *a, ls_graph *b) {
    const ls_store *s = ls_graph_store(a), *t = ls_graph_store(b);
    if (ls__graph_fingerprint(a) != ls__graph_fingerprint(b)) fail_msg("%s is not what its text is", ls_graph_name(b));
    assert_string_equal(ls_graph_name(a), ls_graph_name(b));
    assert_int_equal(ls_store_count(s), ls_store_count(t));
    for (int i = 0; i < ls_store_count(s); i++)
        assert_string_equal(ls_store_parameter(s, i).name, ls_store_parameter(t, i).name);
    ls_graph_destroy(&a);
    ls_graph_destroy(&b);
}

static ls_graph *build(const char *name, int classes, int top) {
    ls_model_config config;
    ls_graph *g;
    ls_model_config_init(&config);
    config.classes = classes;
    config.include_top = top;
    if (ls_model_build(name, &config, &g) != LS_OK) fail_msg("%s", ls_error_message());
    return g;
}

static void test_round_trip(void **state) {
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++) {
        ls_model_config config;
        char *text;
        ls_model_config_init(&config);
        if (ls_model_text(m.name, &config, &text) != LS_OK) fail_msg("%s", ls_error_message());
        check_same(read_text(text), build(m.name, 0, 1));
        config.classes = 7;  // in place of the text's
        // Language models say their vocabulary in numbers.
        if (strstr(text, "\nclasses ")) check_same(read_with(text, &config), build(m.name, 7, 1));
        config.classes = 0;
        config.include_top = 0;
        if (ls_models()[i]->has_features) check_same(read_with(text, &config), build(m.name, 0, 0));
        free(text);
    }
}

// What no built-in network has: inputs of words, several outputs, losses, metrics, odd names.
static void test_graph_of_ones_own(void **state) {
    ls_graph *g;
    char *text;
    assert_int_equal(ls_graph_create("two heads", LS_SHAPE(8, 8, 3), &g), LS_OK);
    ls_value words = ls_graph_add_input(g, "words", LS_SHAPE(5), LS_DTYPE_I32);
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value target = ls_graph_add_input(g, "target", LS_SHAPE(3), LS_DTYPE_F32);
    ls_value w = ls_embedding(g, words, &(ls_embedding_attrs){.rows = 11, .width = 4});
    w = ls_global_average_pool1d(g, w, "a name of \"words\" \\ #1");
    ls_value x = ls_conv2d(
        g, ls_graph_input(g),
        &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 2}, .strides = {2, 1}, .activation = LS_ACTIVATION_TANH});
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{0, 1}, {2, 3}}});
    x = ls_dropout(g, x, &(ls_dropout_attrs){.rate = 0.1f, .per_sample = 1});
    x = ls_rescaling(g, x, &(ls_rescaling_attrs){.scale = 1.0 / 127.5, .offset = -1});
    x = ls_flatten(g, x, NULL);
    x = ls_concat(g, (ls_value[]){x, w}, 2, NULL);
    ls_value a = ls_dense(g, x, &(ls_dense_attrs){.name = "a", .units = 3});
    ls_value b = ls_dense(g, x, &(ls_dense_attrs){.name = "b", .units = 3});
    ls_softmax_cross_entropy(g, a, label, &(ls_loss_attrs){.weight = 0.3, .label_smoothing = 0.1});
    ls_binary_cross_entropy(g, b, target, &(ls_loss_attrs){.positive_weight = 2});
    ls_auc(g, b, target, NULL);
    assert_int_equal(ls_graph_add_output(g, a, "first"), LS_OK);
    assert_int_equal(ls_graph_add_output(g, b, NULL), LS_OK);
    assert_int_equal(ls_graph_finish(g, LS_NO_VALUE), LS_OK);
    assert_int_equal(ls_network_text(g, &text), LS_OK);
    check_same(g, read_text(text));
    free(text);
}

static void test_blocks(void **state) {
    ls_model_config config;
    ls_graph *g, *resnet = build("resnet20", 0, 1);
    ls_model_config_init(&config);
    assert_int_equal(ls_model_build(LS_NETWORKS "/resnet20.net", &config, &g), LS_OK);
    assert_int_equal(ls_graph_parameter_count(g), ls_graph_parameter_count(resnet));
    assert_true(ls_graph_cost(g).flops == ls_graph_cost(resnet).flops);
    ls_graph_destroy(&g);
    ls_graph_destroy(&resnet);
    assert_int_equal(ls_model_build(LS_NETWORKS "/densenet.net", &config, &g), LS_OK);
    assert_true(ls__store_has_layer(ls_graph_store(g), "block2_3_y"));  // of the block's name and its own
    ls_graph_destroy(&g);
    // Names of repeats, arguments that are words and pairs, and a block of two inputs.
    ls_graph *blocks = read_text(
        "network n\n"
        "block both act k=3x3\n"
        "  a = conv2d filters=channels*2 kernel_size=k activation=act padding=same\n"
        "  b = conv2d filters=6 kernel_size=1 from in2\n"
        "  add from a, b\n"
        "end\n"
        "image = input 9x9x3\n"
        "repeat 2 as i # twice\n"
        "  u{i} = both act=relu k=1xi from image, in\n"
        "end\n"
        "v = add from u1, u2\n"
        "flatten\n"
        "dense units=(2+3)*2-1\n");
    check_same(blocks, read_text("network n\n"
                                 "image = input 9x9x3\n"
                                 "u1_a = conv2d filters=6 kernel_size=1,1 activation=relu padding=same\n"
                                 "u1_b = conv2d filters=6 kernel_size=1 from image\n"
                                 "add = add from u1_a, u1_b\n"
                                 "u2_a = conv2d filters=6 kernel_size=1x2 activation=relu padding=same from image\n"
                                 "u2_b = conv2d filters=6 kernel_size=1 from image\n"
                                 "add_1 = add from u2_a, u2_b\n"
                                 "v = add from add, add_1\n"
                                 "flatten\n"
                                 "dense units=9\n"));
}

static void test_inputs(void **state) {
    ls_model_config config;
    ls_model_config_init(&config);
    config.input = (ls_shape){3, {0, 0, 5}};  // images of any size become the network's own
    ls_graph *g = read_with("input 9x8x3\nflatten\ndense units=4\n", &config);
    assert_true(ls_shape_equal(ls_graph_input_at(g, 0).shape, LS_SHAPE(9, 8, 5)));
    ls_graph_destroy(&g);
    config.input = LS_SHAPE(16, 16, 1);
    config.batch_norm_momentum = 0.5;
    g = read_with("input 9x8x3\nbatch_norm momentum=0.9\nflatten\ndense units=4\n", &config);
    assert_true(ls_shape_equal(ls_graph_input_at(g, 0).shape, LS_SHAPE(16, 16, 1)));
    assert_true(ls_graph_store(g)->params[2].momentum == 0.5f);
    ls_graph_destroy(&g);
}

typedef struct refusal {
    const char *text, *sentence;
} refusal;

static const refusal refusals[] = {
    {"", "my.net has no network in it"},
    {"input 8x8x1\nconv4d filters=2\n",
     "my.net:2:1: there is no kind of layer and no block named 'conv4d' (did you mean conv2d?)"},
    {"input 8x8x1\n  c = input2\n", "my.net:2:7: there is no kind of layer"},
    {"block b\nwrong\nend\ninput 8\ndense units=2", "my.net:2:1: there is no kind of layer"},  // never called
    {"input 8x8x1\nconv2d filter=2 kernel_size=3\n",
     "my.net:2:8: conv2d has no attribute 'filter' (did you mean filters?)"},
    {"input 8x8x1\nflatten filters=2\n", "my.net:2:9: flatten has no attributes, so no 'filters'"},
    {"input 8x8x1\nconv2d filters=2 kernel_size=9\n", "my.net:2:1: conv2d: "},
    {"input 8x8x1\nc = conv2d filters=2 kernel_size=9\n", "my.net:2:5: c: "},
    {"input 8x8x1\nconv2d filters=2.5 kernel_size=3\n", "my.net:2:8: filters is a whole number, and 2.5 is none"},
    {"input 8x8x1\nconv2d filters=1e300 kernel_size=3\n", "my.net:2:8: filters is a whole number"},
    {"input 8x8x1\nconv2d filters=1e308*1e308 kernel_size=3\n", "my.net:2:16: this number is larger"},
    {"input 8x8x1\nconv2d filters=4/0\n", "my.net:2:17: this divides by 0"},
    {"input 8x8x1\nconv2d filters=4*(2+1\n", "my.net:2:22: a bracket is not closed"},
    {"input 8x8x1\nconv2d filters=4*n\n", "my.net:2:18: there is no variable 'n'"},
    {"input 8x8x1\nconv2d filters=n\n", "my.net:2:8: filters is a number, and 'n' is neither"},
    {"input 8x8x1\nconv2d filters= kernel_size=3\n", "my.net:2:17: there is no variable 'kernel_size'"},
    {"input 8x8x1\nconv2d filters=3x3 kernel_size=3\n", "my.net:2:8: filters takes 1 number, and 2 are given"},
    {"input 8x8x1\nconv2d filters=1x2x3x4x5\n", "more than 4 numbers"},
    {"input 8x8x1\nconv2d filters=3 padding=sama kernel_size=3\n",
     "my.net:2:18: padding cannot be 'sama'; there are valid, same"},
    {"input 8x8x1\nconv2d filters=3 padding=2 kernel_size=3\n", "my.net:2:18: padding is a word: valid, same"},
    {"input 8x8x1\nbatch_norm momentum=0\n", "my.net:2:12: momentum is never 0; without it it is 0.99"},
    {"input 8x8x1\na = relu\na = relu\n", "my.net:3:5: two layers are named a"},
    {"input 8x8x1\nrepeat 2\na = relu\nend\n", "my.net:3:5: two layers are named a"},
    {"input 8x8x1\nadd\n", "my.net:2:1: add reads 2 values: say which, as in 'add from a, b'"},
    {"input 8x8x1\na = relu from b\nb = relu\n",
     "my.net:2:15: 'b' is made on line 3: a layer reads what is above it, so that a network has no cycles"},
    {"input 8x8x1\na = relu from a\n", "my.net:2:15: 'a' is made on line 2"},
    {"input 8x8x1\na = relu from c\n", "my.net:2:15: there is no layer named 'c' above this line"},
    {"a = relu\ninput 8x8x1\n", "my.net:1:5: there is nothing above that this layer could read"},
    {"input 8x8x1\na = relu\nflatten from in\ndense units=3\n",
     "my.net: my: layer a does not lead to the output dense"},
    {"input 8x8x1\nrelu\n", "my.net: "},  // no classes
    {"input 8x8x0\nrelu\n", "my.net:1:7: a side of a sample lies between 1 and"},
    {"input 8x8x1 f32\nrelu\n", "my.net:1:13: an input is a shape"},
    {"input 8x8x1\nclasses 0\n", "my.net:2:9: the number of classes lies between 1 and"},
    {"input 8x8x1\nclasses 3\nclasses 4\n", "my.net:3:9: the number of classes is told already"},
    {"input 4x4x1 i32\nmax_pool2d\n",
     "my.net:2:1: max_pooling2d: a MaxPooling2D layer computes with floating values, but its input is whole numbers"},
    {"a = input 4 i32\nb = input 4\nadd from b, a\n",
     "my.net:3:1: add: only floating values are added, not whole numbers"},
    {"input\nbatch_norm\n",
     "my.net:2:1: batch_normalization: a batch normalization goes by the last axis of its input, which has none"},
    {"input 4 i32\nbatch_norm\n",
     "my.net:2:1: batch_normalization: a BatchNormalization layer computes with floating values, but its input is "
     "whole"},
    {"input 8x8x1\nrelu relu relu\n", "my.net:2:6: relu has no attributes"},
    {"input 8x8x1\nrelu from in in\n", "my.net:2:14: nothing more belongs on this line"},
    {"end\n", "my.net:1:1: no block and no repeat is open"},
    {"input 8\nrepeat 3\ndense units=2\n", "my.net:2:8: this is not ended"},
    {"input 8\nrepeat 1.5\nend\n", "my.net:2:8: how often it is repeated is a whole number, and this is 1.5"},
    {"input 8\nrepeat 1000000000\ndense units=2\nend\n",
     "my.net:2:8: how often it is repeated lies between 0 and 1000000"},
    {"input 8\nrepeat 999\nrepeat 999\nrepeat 999\nend\nend\nend\n", "goes through more than 1000000 lines"},
    {"input 8\nrepeat 20000\ndense units=2\nend\n", "my.net:3:1: a network has at most 5000 layers"},
    {"input 8\nrepeat 2 times i\nend\n", "my.net:2:10: after the number comes a variable that counts: as i"},
    {"block b\nb\nend\ninput 8\nb\n", "my.net:2:1: block b would call itself without end"},
    {"block b\nc\nend\nblock c\nb\nend\ninput 8\nb\n", "block b would call itself without end"},
    {"block b\nend\nblock b\nend\n", "my.net:3:7: there is a block 'b' already, at my.net:1"},
    {"block relu\nend\n", "my.net:1:7: relu is a kind of layer"},
    {"block b\nblock c\nend\nend\n", "my.net:2:7: a block stands by itself"},
    {"block b\ninput 8\nend\n", "my.net:2:1: 'input' stands by itself"},
    {"block b n\ndense units=n\nend\ninput 8\nb\n", "my.net:5:1: block b wants n=..."},
    {"block b n=1\ndense units=n\nend\ninput 8\nb m=2\n", "my.net:5:1: block b has no argument 'm'"},
    {"block b n\ndense units=n\nend\ninput 8\nb n=0\n",
     "my.net:2:1: dense: a dense layer has at least 1 unit, but 0 were asked for (in the block of line 1)"},
    {"block b\nx = relu from y\nend\ninput 8\ny = relu\nb\n", "my.net:2:15: 'y' is made on line 5"},
    {"input 8\nd{ = dense units=3\n", "my.net:2:1: what stands in braces"},
    {"input 8\nd{1/2} = dense units=3\n", "my.net:2:1: what stands in braces is a whole number"},
    {"input 8\n\"d = dense units=3\n", "my.net:2:1: this quotation is not closed"},
    {"input 8\n\"a/b\" = dense units=3\n", "cannot be named \"a/b\""},
    {"input 8\ntop x\n", "my.net:2:5: nothing more belongs"},
    {"top\ninput 8\n", "'top' stands once, between"},
    {"include \"no such.net\"\n", "my.net:1:9: cannot read the network no such.net"},
    {"include blocks.net\n", "my.net:1:9: the file's name is quoted"},
    {"network\n", "my.net:1:8: the network's name belongs here"},
    {"network \"\"\n", "my.net:1:9: a network's name is not empty"},
    {"network a\nnetwork b\n", "my.net:2:9: the network has a name already"},
    {"input 8\ndense units=\x1b[31m\n", "my.net:2:13: a number, a variable or a word belongs here"},
    {"input 8\ndense units=3 from\n", "my.net:2:19: the name of a layer belongs here"},
    {"input 8\nda\033[2J = dense units=3\n",
     "my.net:2:1: 'da?[2J' is not a name: it has characters that are not printed, or is not UTF-8"},
    {"input 8\n\"d\te\" = dense units=3\n", "my.net:2:1: 'd\te' is not a name"},
    {"input 8\nd\377 = dense units=3\n", "my.net:2:1: 'd\377' is not a name"},
    {"input 8\nd\302\233 = dense units=3\n", "my.net:2:1: 'd?\?' is not a name"},
    {"input 1048576x1048576x1048576\nflatten\ndense units=2", "more than any memory holds"},
    {"input 65536\ndense units=65536*16384\n", "more than any memory holds"},
};

static void test_refusals(void **state) {
    ls_model_config config;
    ls_model_config_init(&config);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        ls_graph *g = (ls_graph *)(void *)&config;
        const refusal *r = &refusals[i];
        if (ls_network_read("my.net", r->text, &config, &g) == LS_OK) fail_msg("taken:\n%s", r->text);
        assert_null(g);
        for (const char *c = ls_error_message(); *c; c++)
            assert_true(((unsigned char)*c >= 0x20 || *c == '\t') && *c != 0x7F);
        if (!strstr(ls_error_message(), r->sentence))
            fail_msg("of\n%s: '%s'\nexpected '%s'", r->text, ls_error_message(), r->sentence);
    }
    ls_graph *g;
    config.include_top = 0;
    assert_int_equal(ls_network_read("my.net", "input 8\ndense units=2\n", &config, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "does not say where its classifier begins"));
    config.include_top = 1;
    config.classes = 3;
    assert_int_equal(ls_network_read("my.net", "input 8\ndense units=2\n", &config, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "my.net tells 2 classes apart, and 3 are asked for"));
}

static void refused(const char *text, const char *sentence) {
    ls_model_config config;
    ls_graph *g;
    ls_model_config_init(&config);
    if (ls_network_read("my.net", text, &config, &g) == LS_OK) fail_msg("taken:\n%.80s", text);
    if (!strstr(ls_error_message(), sentence)) fail_msg("'%s'\nexpected '%s'", ls_error_message(), sentence);
}

// --- files -----------------------------------------------------------------------------------------------------------

static char folder[64];

static const char *put(const char *name, const char *text) {
    static char path[16][256];
    static int next;
    char *p = path[next++ % 16];
    snprintf(p, 256, "%s/%s", folder, name);
    FILE *f = fopen(p, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    return p;
}

static void expect(const char *path, const char *sentence) {
    ls_model_config config;
    ls_graph *g;
    ls_model_config_init(&config);
    if (ls_model_build(path, &config, &g) == LS_OK) fail_msg("%s was taken", path);
    if (!strstr(ls_error_message(), sentence)) fail_msg("'%s'\nexpected '%s'", ls_error_message(), sentence);
}

static void test_files(void **state) {
    strcpy(folder, "/tmp/lockstep-net-XXXXXX");
    assert_non_null(mkdtemp(folder));
    const char *path = put("a.net", "include \"b.net\"\ninput 8\nhead n=3\n");
    put("b.net", "network other\r\nblock head n\r\ndense units=n\r\nend\r\n");
    ls_graph *g = build(path, 0, 1);
    assert_string_equal(ls_graph_name(g), "a");  // the file's, not what is included
    assert_int_equal(ls_graph_classes(g), 3);
    ls_graph_destroy(&g);
    put("b.net", "include \"c.net\"\n");
    put("c.net", "\ninclude \"../");
    expect(path, "c.net:2:9: this quotation is not closed");
    put("c.net", "\n  include \"a.net\"\n");
    expect(path, "c.net:2:11: ");
    expect(path, "a.net includes itself");
    path = put("a.net", "input 8\nrepeat 2\ninclude \"b.net\"\nend\n");
    put("b.net", "end\n");
    expect(path, "b.net:1:1: no block and no repeat is open that this could end");
    put("b.net", "end\nrepeat 1\n");
    expect(path, "b.net:1:1: no block and no repeat is open that this could end");
    put("a.net", "include \"b.net\"\ninput 8\nhead n=3\n");
    put("b.net", "repeat 3\n");
    expect(path, "b.net:1:8: this is not ended");
    put("b.net", "block head n\ndense units=n\nend\nend\n");
    expect(path, "b.net:4:1: no block and no repeat is open");
    char many[4096] = "";
    for (int i = 0; i < 80; i++) strcat(many, "include \"c.net\"\n");
    put("c.net", "# nothing\n");
    expect(put("many.net", many), "a network is at most 64 files");
    expect("no such file.net", "cannot read the network no such file.net: No such file");
    expect("/tmp/.net", "cannot read the network");
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

// --- what would take hours -------------------------------------------------------------------------------------------

static char *repeated(char *to, const char *text, int times) {
    for (int i = 0; i < times; i++) to = stpcpy(to, text);
    return to;
}

// Files below the limit on bytes whose work would grow with the square of them, or with their lines times their repeats.
static void test_slow(void **state) {
    char *text = calloc(1 << 20, 1), *end = text;
    assert_non_null(text);
    for (int i = 0; i < 30000; i++) end += sprintf(end, "block b%d\nend\n", i);
    strcpy(end, "input 8\nrepeat 900000\nb0\nend\ndense units=2\n");
    refused(text, "my.net:513:7: a network has at most 256 blocks");
    refused("block b\nend\ninput 8\nrepeat 400000 as i\nx{i} = b from in\nend\ndense units=2\n",
            "my.net:5:8: a network calls blocks at most 10000 times");
    end = stpcpy(text, "input 8\nrepeat 900000\nrepeat 0*(1");
    strcpy(repeated(end, "+1", 300000), ")\nend\nend\ndense units=2\n");
    refused(text, "goes through more than 1000000 lines");
    end = stpcpy(text, "block b\nend\ninput 8\nb");
    for (int i = 0; i < 60000; i++) end += sprintf(end, " a%d=1", i);
    refused(text, "a block has at most 64 arguments");
    end = stpcpy(text, "block b");
    for (int i = 0; i < 60000; i++) end += sprintf(end, " a%d=1", i);
    strcpy(end, "\nend\ninput 8\nb\ndense units=2\n");
    refused(text, "a block has at most 64 arguments");
    end = repeated(stpcpy(text, "input 8\n"), "repeat 2\n", 10000);
    strcpy(repeated(end, "end\n", 10000), "dense units=2\n");
    refused(text, "my.net:18:1: more than 16 repeats in one another");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_graph_of_ones_own), cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_inputs),     cmocka_unit_test(test_refusals),          cmocka_unit_test(test_files),
        cmocka_unit_test(test_slow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
