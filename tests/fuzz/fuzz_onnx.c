// Fuzzes the reader of ONNX models.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good models in a fixed sequence of ways, the same in every run.
//
//   fuzz_onnx [--iterations N]   spoil and try
//   fuzz_onnx --seeds DIR        write good models as a corpus for libFuzzer
//   fuzz_onnx FILE...            try these inputs, to see again what a fuzzer found
#include <math.h>

#include "../onnx_files.h"
#include "graph/graph.h"
#include "interchange/onnx_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_onnx: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                 \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static ls_status zeros(void *user, const char *name, float *values, int64_t count) {
    memset(values, 0, (size_t)count * sizeof *values);
    return LS_OK;
}

// A model that is taken can be written, unless it is larger than models are, and is read again with as many parameters.
static void write_again(const ls_graph *g) {
    ls_pb_out model;
    ls_graph *again;
    if (ls_graph_parameter_count(g) > 1 << 20) return;
    ls_status status = ls__onnx_bytes(g, zeros, NULL, &model);
    MUST(status == LS_OK || status == LS_STATUS_UNSUPPORTED);
    if (status == LS_OK) {
        MUST(ls__onnx_read_bytes("input.onnx", model.bytes, model.size, &again) == LS_OK);
        MUST(ls_graph_parameter_count(g) == ls_graph_parameter_count(again));
        ls_graph_destroy(&again);
    }
    free(model.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ls_graph *g;
    ls_status status = ls__onnx_read_bytes("input.onnx", data, (int64_t)size, &g);
    MUST((status == LS_OK) == (g != NULL));
    if (g) {
        write_again(g);
    } else {
        MUST(strstr(ls_error_message(), "input.onnx"));
        for (const char *c = ls_error_message(); *c; c++) MUST(((unsigned char)*c >= 0x20 || *c == '\t') && *c != 0x7F);
    }
    ls_graph_destroy(&g);
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER
#include "driver.h"

enum { MODELS = 4, ROOM = 16384 };

static ls_graph *images(void) {
    ls_graph *g;
    if (ls_graph_create("images", LS_SHAPE(8, 8, 3), &g) != LS_OK) exit(1);
    ls_value x = ls_graph_input(g);
    x = ls_rescaling(g, x, &(ls_rescaling_attrs){.scale = 1 / 255.0});
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    ls_value y = ls_zero_pad2d(g, ls_batch_norm(g, x, NULL), NULL);
    y = ls_depthwise_conv2d(g, y, &(ls_depthwise_conv2d_attrs){.kernel = {3, 3}, .activation = LS_ACTIVATION_SILU});
    x = ls_concat(g, (ls_value[]){ls_add(g, x, y, NULL), y}, 2, NULL);
    x = ls_max_pool2d(g, x, &(ls_pool2d_attrs){.padding = LS_PADDING_SAME});
    x = ls_dropout(g, ls_flatten(g, x, NULL), &(ls_dropout_attrs){.rate = 0.5f});
    if (ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.units = 5})) != LS_OK) exit(1);
    return g;
}

static ls_graph *sequences(void) {
    ls_graph *g;
    if (ls_graph_create_empty("sequences", NULL, &g) != LS_OK) exit(1);
    ls_value tokens = ls_graph_add_input(g, "tokens", LS_SHAPE(6), LS_DTYPE_I32);
    ls_value x = ls_embedding(g, tokens, &(ls_embedding_attrs){.rows = 9, .width = 6});
    x = ls_layer_norm(g, ls_position_embedding(g, x, &(ls_position_embedding_attrs){.rows = 8}), NULL);
    x = ls_attention(g, x, tokens, &(ls_attention_attrs){.heads = 2});
    ls_value y = ls_lstm(g, x, tokens, &(ls_recurrent_attrs){.units = 3});
    x = ls_global_average_pool1d_masked(g, x, tokens, NULL);
    x = ls_gru(g, ls_reshape(g, x, &(ls_reshape_attrs){.shape = {1, 2}}), LS_NO_VALUE,
               &(ls_recurrent_attrs){.units = 2, .return_sequences = 1});
    x = ls_concat(g, (ls_value[]){ls_flatten(g, x, NULL), y}, 2, NULL);
    if (ls_graph_finish(g, x) != LS_OK) exit(1);
    return g;
}

// As others write models: a shape that is computed, a kernel turned around, a list of numbers in place of bytes.
static void foreign(ls_pb_out *g) {
    static const float values[64];
    static const int64_t rest[] = {-1}, one[] = {0};
    onnx_test_node(g, "Transpose", "x", "t", "perm=0,3,1,2");
    onnx_test_node(g, "Conv", "t,w", "c", "pads=1,1,0,0 auto_pad=NOTSET");
    onnx_test_node(g, "Clip", "c,zero", "r", "");
    onnx_test_node(g, "AveragePool", "r", "p", "kernel_shape=2,2 pads=0,1,0,1 count_include_pad=1");
    onnx_test_node(g, "Shape", "p", "s", "");
    onnx_test_node(g, "Gather", "s,first", "n", "axis=0");
    onnx_test_node(g, "Concat", "n,rest", "to", "axis=0");
    onnx_test_node(g, "Reshape", "p,to", "f", "");
    onnx_test_node(g, "MatMul", "f,m", "q", "");
    onnx_test_node(g, "Add", "bias,q", "y", "");
    onnx_test_tensor(g, "w", 1, "2,3,2,2", values, 96);
    onnx_test_tensor(g, "zero", 1, "", values, 4);
    onnx_test_tensor(g, "m", 1, "24,2", (float[48]){0}, 192);
    onnx_test_tensor(g, "bias", 1, "2", values, 8);
    onnx_test_tensor(g, "first", 7, "1", one, 8);
    onnx_test_tensor(g, "rest", 7, "1", rest, 8);
    onnx_test_port(g, 11, "x", 1, "-1,4,3,3");
    onnx_test_port(g, 12, "y", 1, "-1,2");
    onnx_test_model(g, 13);
}

static ls_pb_out good[MODELS];

static void make_good(void) {
    ls_graph *graphs[] = {images(), sequences()};
    for (int i = 0; i < 2 && !good[0].bytes; i++)
        if (ls__onnx_bytes(graphs[i], zeros, NULL, &good[i + 2]) != LS_OK) exit(1);
    for (int i = 0; i < 2; i++) ls_graph_destroy(&graphs[i]);
    foreign(&good[0]);
    onnx_test_node(&good[1], "Relu", "x", "y", "");
    onnx_test_port(&good[1], 11, "x", 1, "-1,4");
    onnx_test_port(&good[1], 12, "y", 1, "-1,4");
    onnx_test_model(&good[1], 21);
    for (int i = 0; i < MODELS; i++)
        if (good[i].size > ROOM) exit(1);
}

static void try_one(void) {
    static const char *const words[] = {"Conv",      "Gemm", "Reshape", "Add",      "Slice",
                                        "Transpose", "axis", "perm",    "\x08\x00", "\x20\xff\xff\xff\xff\x0f"};
    static uint8_t in[ROOM];
    if (!good[0].bytes) make_good();
    const ls_pb_out *from = &good[draw(MODELS)];
    size_t n = (size_t)from->size;
    memcpy(in, from->bytes, n);
    for (uint32_t k = draw(4); k; k--) {
        size_t at = draw((uint32_t)n), run = 1 + draw(8), other = draw((uint32_t)n);
        const char *word = words[draw(sizeof words / sizeof words[0])];
        switch (draw(5)) {
        case 0: in[at] ^= (uint8_t)(1u << draw(8)); break;
        case 1: in[at] = (uint8_t)draw(256); break;
        case 2: in[at] = (uint8_t)draw(12); break;
        case 3:
            if (at + run <= n && other + run <= n) memmove(in + at, in + other, run);
            break;
        default:
            if (at + strlen(word) <= n) memcpy(in + at, word, strlen(word));
            break;
        }
    }
    if (draw(16) == 0) n = draw((uint32_t)n + 1);
    LLVMFuzzerTestOneInput(in, n);
}

static int write_seeds(const char *folder) {
    make_good();
    for (int i = 0; i < MODELS; i++) {
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", folder, i);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(good[i].bytes, 1, (size_t)good[i].size, f) != (size_t)good[i].size || fclose(f) != 0) {
            fprintf(stderr, "fuzz_onnx: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_onnx", try_one, write_seeds};
    int failed = fuzz_main(&f, argc, argv);
    for (int i = 0; i < MODELS; i++) free(good[i].bytes);
    return failed;
}

#endif
