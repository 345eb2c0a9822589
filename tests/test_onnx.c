// ONNX models: that every built-in network comes back as it was written, that a model as PyTorch writes them computes what ONNX says (an
// independent computation in ONNX's own order), and a sentence for everything that can be wrong.
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/graph.h"
#include "interchange/onnx_write.h"
#include "ok.h"
#include "onnx_files.h"

static char folder[] = "/tmp/lockstep-onnx.XXXXXX";

// --- networks of ours ------------------------------------------------------------------------------------------------

// Values that tell parameters and their elements apart; variances are above zero.
static ls_status drawn(void *user, const char *name, float *values, int64_t count) {
    const ls_store *store = ls_graph_store(user);
    int param = ls__store_find(store, name);
    double limit = store->params[param].role == LS_PARAM_KERNEL ? 1 / sqrt((double)store->params[param].fan_in) : 0.3;
    uint32_t state = (uint32_t)param * 2654435761u + 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(((state >> 8) * 0x1p-23 - 1) * limit) + (strstr(name, "variance") ? 1 : 0);
    }
    return LS_OK;
}

static ls_graph *read_again(const ls_graph *g) {
    ls_pb_out m;
    ls_graph *h;
    char path[100];
    snprintf(path, sizeof path, "%s.onnx", ls_graph_name(g));
    OK(ls__onnx_bytes(g, drawn, (void *)g, &m));
    OK(ls__onnx_read_bytes(path, m.bytes, m.size, &h));
    free(m.bytes);
    return h;
}

// Parameters of a normalization's count are read by nothing, and not written.
static int is_written(const char *name) {
    size_t n = strlen(name);
    return n < 6 || strcmp(name + n - 6, "/count") != 0;
}

static void check_parameters(const ls_graph *g, const ls_graph *h) {
    const ls_store *a = ls_graph_store(g), *b = ls_graph_store(h);
    assert_string_equal(ls_graph_name(g), ls_graph_name(h));
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        int64_t count = ls_shape_count(a->params[i].shape);
        float *values = malloc((size_t)count * sizeof *values);
        assert_string_equal(a->params[i].name, b->params[i].name);
        assert_true(ls_shape_equal(a->params[i].shape, b->params[i].shape));
        assert_int_equal(a->params[i].role, b->params[i].role);
        assert_true(a->params[i].momentum == b->params[i].momentum);
        OK(drawn((void *)g, a->params[i].name, values, count));
        if (is_written(a->params[i].name))
            assert_memory_equal(values, b->params[i].initial, (size_t)count * sizeof *values);
        free(values);
    }
}

static void every_network_comes_back(void **state) {
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++) {
        ls_graph *g;
        OK(ls_model_create(m.name, (ls_shape){0}, 0, &g));
        if (ls_graph_parameter_count(g) < 12000000) {  // larger ones have no other layers
            ls_graph *h = read_again(g);
            check_parameters(g, h);
            ls_graph_destroy(&h);
        }
        ls_graph_destroy(&g);
    }
}

static void set_drawn(ls_predictor *p, const ls_graph *g) {
    const ls_store *s = ls_graph_store(g);
    for (int i = 0; i < s->count; i++) {
        int64_t count = ls_shape_count(s->params[i].shape);
        float *values = malloc((size_t)count * sizeof *values);
        OK(drawn((void *)g, s->params[i].name, values, count));
        OK(ls_predictor_set_weights(p, s->params[i].name, values, count));
        free(values);
    }
}

// Two samples of each input; of tokens the last five are padding.
static void *make_input(ls_port port) {
    int64_t n = ls_shape_count(port.shape);
    float *x = malloc((size_t)(2 * n) * sizeof *x);
    for (int64_t i = 0; i < 2 * n; i++) {
        int32_t token = i % n < n - 5 ? (int32_t)(1 + i * 37 % 100) : 0;
        x[i] = (float)(i * 7919 % 1000) / 1000;
        if (port.dtype == LS_DTYPE_I32) memcpy(&x[i], &token, 4);
    }
    return x;
}

static void predict(const ls_graph *g, const ls_graph *weights, float *out) {
    ls_predict_config config;
    ls_predictor *p;
    const void *inputs[8] = {NULL};
    ls_predict_config_init(&config);
    config.batch = 2;
    OK(ls_predictor_create(g, &config, &p));
    if (weights) set_drawn(p, weights);
    for (int i = 0; i < ls_graph_input_count(g); i++) inputs[i] = make_input(ls_graph_input_at(g, i));
    OK(ls_predictor_run(p, 2, inputs, &out));
    for (int i = 0; i < ls_graph_input_count(g); i++) free((void *)inputs[i]);
    ls_predictor_destroy(&p);
}

static void networks_that_come_back_compute_the_same_bits(void **state) {
    static const char *const names[] = {
        "mnist-cnn", "lenet5",      "resnet20v2",          "cifar-cnn",    "autoencoder",     "vae",
        "gru",       "transformer", "transformer-lm-mini", "lstm-lm-mini", "frame-prediction"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ls_graph *g, *h;
        OK(ls_model_create(names[i], (ls_shape){0}, 0, &g));
        h = read_again(g);
        int64_t n = 2 * ls_shape_count(ls_graph_output_at(g, 0).shape);
        float *a = calloc((size_t)n, sizeof *a), *b = calloc((size_t)n, sizeof *b);
        predict(g, g, a);
        predict(h, NULL, b);
        for (int64_t k = 0; k < n; k++) assert_true(isfinite(a[k]));
        if (memcmp(a, b, (size_t)n * sizeof *a) != 0) fail_msg("%s computes something else", names[i]);
        free(a), free(b);
        ls_graph_destroy(&g);
        ls_graph_destroy(&h);
    }
}

// What no built-in network has.
static void layers_of_ones_own_come_back(void **state) {
    ls_graph *g, *h;
    OK(ls_graph_create("own", LS_SHAPE(12, 10, 4), &g));
    ls_value x = ls_graph_input(g);
    x = ls_rescaling(g, x, &(ls_rescaling_attrs){.scale = 1 / 255.0, .offset = -1});
    x = ls_zero_pad2d(g, x, &(ls_zero_pad2d_attrs){.padding = {{1, 1}, {2, 0}}});
    ls_value pooled = ls_average_pool2d(g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {1, 1}});
    x = ls_conv2d(
        g, pooled,
        &(ls_conv2d_attrs){
            .filters = 8, .kernel = {3, 2}, .dilation = {2, 1}, .groups = 2, .activation = LS_ACTIVATION_SILU});
    x = ls_group_norm(g, x, &(ls_group_norm_attrs){.groups = 4});
    x = ls_layer_norm(g, x, NULL);
    x = ls_depthwise_conv2d(
        g, x, &(ls_depthwise_conv2d_attrs){.kernel = {2, 2}, .multiplier = 2, .activation = LS_ACTIVATION_RELU6});
    x = ls_separable_conv2d(
        g, x,
        &(ls_separable_conv2d_attrs){.filters = 6, .kernel = {3, 3}, .multiplier = 2, .padding = LS_PADDING_SAME});
    x = ls_up_sampling2d(g, x, NULL);
    x = ls_cropping2d(g, x, &(ls_cropping2d_attrs){.cropping = {{1, 0}, {0, 2}}});
    x = ls_conv2d_transpose(g, x, &(ls_conv2d_transpose_attrs){.filters = 3, .kernel = {2, 2}, .strides = {3, 3}});
    x = ls_group_norm(g, x, &(ls_group_norm_attrs){.groups = -1, .epsilon = 1e-4f});
    x = ls_activate(g, x, LS_ACTIVATION_SOFTMAX, NULL);
    x = ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {3, 3}, .padding = LS_PADDING_SAME});
    ls_value most = ls_global_max_pool2d(g, x, NULL);
    x = ls_flatten(g, x, NULL);
    x = ls_batch_norm(g, ls_concat(g, (ls_value[]){x, most}, 2, NULL), &(ls_batch_norm_attrs){.no_scale = 1});
    OK(ls_graph_finish(g, ls_dense(g, ls_dropout(g, x, &(ls_dropout_attrs){.rate = 0.25f}),
                                   &(ls_dense_attrs){.units = 5, .no_bias = 1, .activation = LS_ACTIVATION_GELU})));
    h = read_again(g);
    check_parameters(g, h);
    float a[10], b[10];
    predict(g, g, a);
    predict(h, NULL, b);
    assert_memory_equal(a, b, sizeof a);
    ls_graph_destroy(&g);
    ls_graph_destroy(&h);
}

// --- a model as others write it --------------------------------------------------------------------------------------

static const int64_t batch_then_rest[] = {-1}, first[] = {0};
static float kernel[4][2][3][3], scale[4], shift[4], mean[4], variance[4], weights[3][4 * 2 * 2], bias[3];

static void fill(float *x, int64_t n, int seed) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 31 + seed * 17) % 23 - 11) / 20;
}

// PyTorch's view(x.size(0), -1), its maximum over whole windows and beyond, its linear layer.
static void make_foreign(ls_pb_out *g, int softmax) {
    fill(&kernel[0][0][0][0], 72, 1);
    fill(scale, 4, 2), fill(shift, 4, 3), fill(mean, 4, 4), fill(&weights[0][0], 48, 6), fill(bias, 3, 7);
    for (int i = 0; i < 4; i++) variance[i] = 0.5f + (float)i;
    *g = (ls_pb_out){0};
    onnx_test_node(g, "Conv", "image,conv1.weight", "c", "pads=1,1,1,1 strides=2,2 group=1");
    onnx_test_node(g, "BatchNormalization", "c,bn.weight,bn.bias,bn.running_mean,bn.running_var", "b",
                   "epsilon=0.00001 momentum=0.9");
    onnx_test_node(g, "Relu", "b", "r", "");
    onnx_test_node(g, "MaxPool", "r", "p", "kernel_shape=2,2 strides=2,2 ceil_mode=1");
    onnx_test_node(g, "Shape", "p", "s", "");
    onnx_test_node(g, "Gather", "s,first", "n", "axis=0");
    onnx_test_node(g, "Unsqueeze", "n,first_list", "n1", "");
    onnx_test_node(g, "Concat", "n1,rest", "to", "axis=0");
    onnx_test_node(g, "Reshape", "p,to", "f", "");
    onnx_test_node(g, "Gemm", "f,fc.weight,fc.bias", softmax ? "y" : "scores", "transB=1 alpha=1.0");
    if (softmax) onnx_test_node(g, "Softmax", "y", "scores", "axis=1");
    onnx_test_tensor(g, "conv1.weight", 1, "4,2,3,3", kernel, sizeof kernel);
    onnx_test_tensor(g, "bn.weight", 1, "4", scale, sizeof scale);
    onnx_test_tensor(g, "bn.bias", 1, "4", shift, sizeof shift);
    onnx_test_tensor(g, "bn.running_mean", 1, "4", mean, sizeof mean);
    onnx_test_tensor(g, "bn.running_var", 1, "4", variance, sizeof variance);
    onnx_test_tensor(g, "fc.weight", 1, "3,16", weights, sizeof weights);
    onnx_test_tensor(g, "fc.bias", 1, "3", bias, sizeof bias);
    onnx_test_tensor(g, "first", 7, "", first, 8);
    onnx_test_tensor(g, "first_list", 7, "1", first, 8);
    onnx_test_tensor(g, "rest", 7, "1", batch_then_rest, 8);
    onnx_test_port(g, 11, "image", 1, "-1,2,6,5");
    onnx_test_port(g, 12, "scores", 1, "-1,3");
    onnx_test_model(g, 17);
}

// The same from ONNX's definitions, of one image (H, W, C).
static void compute_foreign(const float *image, double scores[3]) {
    double c[4][3][3], p[4][2][2];
    for (int o = 0; o < 4; o++)
        for (int y = 0; y < 3; y++)
            for (int x = 0; x < 3; x++) {
                double sum = 0;
                for (int i = 0; i < 2; i++)
                    for (int v = 0; v < 3; v++)
                        for (int u = 0; u < 3; u++) {
                            int row = 2 * y + v - 1, column = 2 * x + u - 1;
                            if (row < 0 || row > 5 || column < 0 || column > 4) continue;
                            sum += (double)(kernel[o][i][v][u] * image[(row * 5 + column) * 2 + i]);
                        }
                sum = (sum - (double)mean[o]) / sqrt((double)variance[o] + 1e-5) * (double)scale[o] + (double)shift[o];
                c[o][y][x] = sum > 0 ? sum : 0;
            }
    memset(p, 0, sizeof p);
    for (int o = 0; o < 4; o++)
        for (int y = 0; y < 3; y++)
            for (int x = 0; x < 3; x++)
                if (c[o][y][x] > p[o][y / 2][x / 2]) p[o][y / 2][x / 2] = c[o][y][x];
    for (int k = 0; k < 3; k++) {
        scores[k] = (double)bias[k];
        for (int i = 0; i < 16; i++) scores[k] += (double)weights[k][i] * (&p[0][0][0])[i];
    }
}

static void a_model_of_others_computes_what_onnx_says(void **state) {
    for (int softmax = 0; softmax < 2; softmax++) {
        ls_pb_out m;
        ls_graph *g;
        float out[6];
        make_foreign(&m, softmax);
        OK(ls__onnx_read_bytes("foreign.onnx", m.bytes, m.size, &g));
        free(m.bytes);
        assert_int_equal(ls_graph_classes(g), 3);
        assert_true(ls_shape_equal(ls_graph_input_at(g, 0).shape, LS_SHAPE(6, 5, 2)));
        assert_string_equal(ls_store_parameter(ls_graph_store(g), 0).name, "conv1/kernel");
        assert_true(ls__store_find(ls_graph_store(g), "bn/moving_variance") >= 0);
        predict(g, NULL, out);
        float *image = make_input(ls_graph_input_at(g, 0));
        for (int s = 0; s < 2; s++) {
            double scores[3];
            compute_foreign(image + s * 60, scores);
            for (int k = 0; k < 3; k++) assert_true(fabs((double)out[s * 3 + k] - scores[k]) < 1e-5);
        }
        free(image);
        ls_graph_destroy(&g);
    }
}

// A generator's vectors become images (C, H, W), which a 1 x 1 convolution reads.
static void vectors_become_images(void **state) {
    static float w[12][3], b[12], k[2][2];  // (C, H, W) = (2, 3, 2) units of 3 values
    static const int64_t shape[] = {-1, 2, 3, 2};
    ls_pb_out m = {0};
    ls_graph *g;
    float out[24];
    fill(&w[0][0], 36, 1), fill(b, 12, 2), fill(&k[0][0], 4, 3);
    onnx_test_node(&m, "Gemm", "x,w,b", "d", "transB=1");
    onnx_test_node(&m, "Relu", "d", "r", "");
    onnx_test_node(&m, "Reshape", "r,shape", "i", "");
    onnx_test_node(&m, "Conv", "i,k", "y", "");
    onnx_test_tensor(&m, "w", 1, "12,3", w, sizeof w);
    onnx_test_tensor(&m, "b", 1, "12", b, sizeof b);
    onnx_test_tensor(&m, "k", 1, "2,2,1,1", k, sizeof k);
    onnx_test_tensor(&m, "shape", 7, "4", shape, sizeof shape);
    onnx_test_port(&m, 11, "x", 1, "-1,3");
    onnx_test_port(&m, 12, "y", 1, "-1,2,3,2");
    onnx_test_model(&m, 17);
    OK(ls__onnx_read_bytes("generator.onnx", m.bytes, m.size, &g));
    free(m.bytes);
    predict(g, NULL, out);
    float *x = make_input(ls_graph_input_at(g, 0));
    for (int i = 0; i < 24; i++) {  // (sample, pixel, channel)
        int channel = i % 2, pixel = i / 2 % 6;
        double sum = 0;
        for (int c = 0; c < 2; c++) {
            double unit = (double)b[c * 6 + pixel];
            for (int v = 0; v < 3; v++) unit += (double)(w[c * 6 + pixel][v] * x[i / 12 * 3 + v]);
            if (unit > 0) sum += (double)k[channel][c] * unit;
        }
        assert_true(fabs(sum - (double)out[i]) < 1e-6);
    }
    free(x);
    ls_graph_destroy(&g);
}

// A GRU in both directions, whose states are joined, and the last step of another one.
static void recurrent_layers_of_others(void **state) {
    enum { T = 5, C = 3, U = 2, G = 3 * U };
    static float w[2][G][C], recurrent[2][G][U], biases[2][2][G], w2[1][G][2 * U];
    static const int64_t joined[] = {0, 0, -1}, last[] = {-1};
    ls_pb_out m = {0};
    ls_graph *read, *g;
    fill(&w[0][0][0], 2 * G * C, 1), fill(&recurrent[0][0][0], 2 * G * U, 2), fill(&biases[0][0][0], 4 * G, 3);
    fill(&w2[0][0][0], G * 2 * U, 4);
    onnx_test_node(&m, "Transpose", "x", "t", "perm=1,0,2");
    onnx_test_node(&m, "GRU", "t,w,r,b", "s", "direction=bidirectional hidden_size=2 linear_before_reset=1");
    onnx_test_node(&m, "Transpose", "s", "n", "perm=0,2,1,3");
    onnx_test_node(&m, "Reshape", "n,joined", "j", "");
    onnx_test_node(&m, "GRU", "j,w2,r2,b2", "s2", "hidden_size=2 linear_before_reset=1");
    onnx_test_node(&m, "Squeeze", "s2,one", "q", "");
    onnx_test_node(&m, "Gather", "q,last", "y", "axis=0");
    onnx_test_tensor(&m, "w", 1, "2,6,3", w, sizeof w);
    onnx_test_tensor(&m, "r", 1, "2,6,2", recurrent, sizeof recurrent);
    onnx_test_tensor(&m, "b", 1, "2,12", biases, sizeof biases);
    onnx_test_tensor(&m, "w2", 1, "1,6,4", w2, sizeof w2);
    onnx_test_tensor(&m, "r2", 1, "1,6,2", recurrent, sizeof recurrent / 2);
    onnx_test_tensor(&m, "b2", 1, "1,12", biases, sizeof biases / 2);
    onnx_test_tensor(&m, "joined", 7, "3", joined, sizeof joined);
    onnx_test_tensor(&m, "one", 7, "1", (int64_t[]){1}, 8);
    onnx_test_tensor(&m, "last", 7, "", last, 8);
    onnx_test_port(&m, 11, "x", 1, "-1,5,3");
    onnx_test_port(&m, 12, "y", 1, "-1,2");
    onnx_test_model(&m, 17);
    OK(ls__onnx_read_bytes("gru.onnx", m.bytes, m.size, &read));
    free(m.bytes);

    OK(ls_graph_create("own", LS_SHAPE(T, C), &g));
    ls_value x = ls_graph_input(g), way[2];
    for (int d = 0; d < 2; d++)
        way[d] = ls_gru(g, x, LS_NO_VALUE, &(ls_recurrent_attrs){.units = U, .return_sequences = 1, .backwards = d});
    x = ls_gru(g, ls_concat(g, way, 2, NULL), LS_NO_VALUE, &(ls_recurrent_attrs){.units = U});
    OK(ls_graph_finish(g, x));
    ls_store *s = ls_graph_store(g);
    for (int layer = 0; layer < 3; layer++) {  // (columns, gates * units), where ONNX has the columns last
        const float *from = layer < 2 ? &w[layer][0][0] : &w2[0][0][0];
        int columns = layer < 2 ? C : 2 * U, d = layer % 2;
        float *k[3];
        for (int i = 0; i < 3; i++) k[i] = s->params[3 * layer + i].initial = calloc(2 * G * C, sizeof *k[i]);
        for (int j = 0; j < G; j++) {
            for (int c = 0; c < columns; c++) k[0][c * G + j] = from[j * columns + c];
            for (int u = 0; u < U; u++) k[1][u * G + j] = recurrent[d][j][u];
            for (int b = 0; b < 2; b++) k[2][b * G + j] = biases[d][b][j];
        }
    }
    float a[4], b[4];
    predict(read, NULL, a);
    predict(g, NULL, b);
    assert_memory_equal(a, b, sizeof a);
    ls_graph_destroy(&g);
    ls_graph_destroy(&read);
}

static const char *write_model(const char *name, ls_pb_out *m) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(m->bytes, 1, (size_t)m->size, f) == (size_t)m->size && fclose(f) == 0);
    free(m->bytes);
    return path;
}

// By its name as a network, and as what --classes and --no-top ask for.
static void files_are_networks(void **state) {
    ls_pb_out m;
    ls_graph *g;
    ls_model_config config;
    ls_model_config_init(&config);
    make_foreign(&m, 1);
    const char *path = write_model("net.onnx", &m);
    OK(ls_model_build(path, &config, &g));
    assert_string_equal(ls_graph_name(g), "net");
    ls_graph_destroy(&g);
    config.classes = 7;  // a classifier made anew
    OK(ls_model_build(path, &config, &g));
    assert_int_equal(ls_graph_classes(g), 7);
    const ls_store *s = ls_graph_store(g);
    assert_null(s->params[ls__store_find(s, "fc/kernel")].initial);
    assert_non_null(s->params[ls__store_find(s, "conv1/kernel")].initial);
    ls_graph_destroy(&g);
    config.classes = 0;
    config.include_top = 0;
    OK(ls_model_build(path, &config, &g));
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(16)));
    assert_int_equal(ls__store_find(ls_graph_store(g), "fc/kernel"), -1);
    ls_graph_destroy(&g);
    config.include_top = 1;
    config.input = LS_SHAPE(6, 5, 3);
    assert_int_equal(ls_model_build(path, &config, &g), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "Conv"));
    unlink(path);
}

// --- what is refused -------------------------------------------------------------------------------------------------

static void refused(ls_pb_out *g, int opset, ls_status status, const char *words) {
    ls_graph *graph;
    onnx_test_model(g, opset);
    ls_status got = ls__onnx_read_bytes("bad.onnx", g->bytes, g->size, &graph);
    free(g->bytes);
    *g = (ls_pb_out){0};
    if (got != status || !strstr(ls_error_message(), words) || !strstr(ls_error_message(), "bad.onnx"))
        fail_msg("%s, expected %s with '%s': %s", ls_status_name(got), ls_status_name(status), words,
                 ls_error_message());
}

static void ports(ls_pb_out *g, const char *dims) {
    onnx_test_port(g, 11, "x", 1, dims);
    onnx_test_port(g, 12, "y", 1, "-1,2");
}

static void what_is_wrong_is_told(void **state) {
    const ls_status bad = LS_STATUS_BAD_DATA, unsupported = LS_STATUS_UNSUPPORTED;
    static const float values[64];
    ls_pb_out g = {0};
    ports(&g, "-1,4");
    onnx_test_node(&g, "Relu", "x", "y", "");
    refused(&g, 11, unsupported, "opset 11");

    ports(&g, "-1,4");  // all of them at once
    onnx_test_node(&g, "Einsum", "x", "a", "");
    onnx_test_node(&g, "Relu", "a", "b", "");
    onnx_test_node(&g, "NonZero", "b", "y", "");
    refused(&g, 17, unsupported,
            "2 nodes of operations that are not read: Einsum (node 'Einsum_a', output 'a'), NonZero (node 'NonZero_y'");

    ports(&g, "-1,4");  // a cycle
    onnx_test_node(&g, "Add", "x,b", "a", "");
    onnx_test_node(&g, "Relu", "a", "b", "");
    onnx_test_node(&g, "Relu", "b", "y", "");
    refused(&g, 17, bad, "nodes stand in order, without cycles");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Relu", "nobody", "y", "");
    refused(&g, 17, bad, "no input");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Relu", "x", "y", "");
    onnx_test_node(&g, "Tanh", "x", "y", "");
    refused(&g, 17, bad, "'y' is made twice");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 1, "4,2", values, 32);
    onnx_test_tensor(&g, "w", 1, "4,2", values, 32);
    refused(&g, 17, bad, "'w' is made twice");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 1, "5,2", values, 40);
    refused(&g, 17, bad, "take 5 values, and its input has 4");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 1, "4,2", values, 28);
    refused(&g, 17, bad, "8 elements of 4 bytes by its dimensions, and 28 bytes");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 1, "4294967296,4294967296", values, 4);
    refused(&g, 17, bad, "more elements than any memory holds");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 7, "4,2", values, 64);
    refused(&g, 17, unsupported, "Gemm");

    ports(&g, "-1,4");
    onnx_test_node(&g, "Gemm", "x,w", "y", "");
    onnx_test_tensor(&g, "w", 8, "4,2", values, 32);
    refused(&g, 17, unsupported, "of type 8");

    ports(&g, "-1,1000000,1000000,1000000");
    onnx_test_node(&g, "GlobalAveragePool", "x", "y", "");
    refused(&g, 17, LS_STATUS_INVALID_ARGUMENT, "more than any memory holds");

    ports(&g, "-1,3,-1,-1");
    onnx_test_node(&g, "GlobalAveragePool", "x", "y", "");
    refused(&g, 17, LS_STATUS_INVALID_ARGUMENT, "--input-shape");

    ports(&g, "-1,3,8,8");
    onnx_test_node(&g, "MaxPool", "x", "y", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1");
    refused(&g, 17, unsupported, "may be negative");

    ports(&g, "-1,3,8,8");
    onnx_test_node(&g, "Conv", "x,w", "y", "strides=0,0");
    onnx_test_tensor(&g, "w", 1, "1,3,1,1", values, 12);
    refused(&g, 17, bad, "strides");

    ports(&g, "-1,3,8,8");
    onnx_test_node(&g, "Transpose", "x", "y", "perm=0,1,1,2");
    refused(&g, 17, bad, "perm");

    ports(&g, "-1,3,8,8");
    onnx_test_node(&g, "Shape", "x", "y", "");
    refused(&g, 17, bad, "a constant");

    ports(&g, "-1,4");
    onnx_test_node(&g, "If", "x", "y", "");
    refused(&g, 17, unsupported, "If (node 'If_y'");

    onnx_test_port(&g, 11, "x", 1, "-1,4");
    refused(&g, 17, bad, "no output");
    refused(&g, 17, bad, "no output");  // an empty graph
}

static void what_is_cut_off_is_damaged(void **state) {
    ls_pb_out m;
    ls_graph *g;
    make_foreign(&m, 0);
    for (int64_t n = 0; n < m.size; n++) {
        ls_status status = ls__onnx_read_bytes("cut.onnx", m.bytes, n, &g);
        if (status == LS_OK) fail_msg("%lld of %lld bytes are taken for a model", (long long)n, (long long)m.size);
        assert_non_null(strstr(ls_error_message(), "cut.onnx"));
    }
    free(m.bytes);
}

// A tensor whose elements lie in another file.
static void put_outside(ls_pb_out *g, const char *location) {
    int64_t since = g->size;
    ls_pb_put(g, 1, 4), ls_pb_put(g, 1, 2), ls_pb_put(g, 2, 1);
    ls_pb_put_text(g, 8, "w");
    int64_t entry = g->size;
    ls_pb_put_text(g, 1, "location"), ls_pb_put_text(g, 2, location);
    ls_pb_wrap(g, 13, entry);
    entry = g->size;
    ls_pb_put_text(g, 1, "offset"), ls_pb_put_text(g, 2, "4");
    ls_pb_wrap(g, 13, entry);
    ls_pb_put(g, 14, 1);
    ls_pb_wrap(g, 5, since);
}

static ls_status read_with_outside(const char *location) {
    ls_pb_out g = {0};
    ls_graph *graph;
    ls_model_config config;
    ls_model_config_init(&config);
    ports(&g, "-1,4");
    onnx_test_node(&g, "MatMul", "x,w", "y", "");
    put_outside(&g, location);
    onnx_test_model(&g, 17);
    const char *path = write_model("outside.onnx", &g);
    ls_status status = ls_onnx_read(path, &config, &graph);
    if (status == LS_OK) assert_true(ls_graph_store(graph)->params[0].initial[7] == 9);
    ls_graph_destroy(&graph);
    unlink(path);
    return status;
}

static void tensors_elsewhere_lie_in_the_folder(void **state) {
    static const float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const char *const places[] = {"../weights", "/etc/passwd", "link", "sub/../../weights"};
    char path[200], link[200];
    ls_pb_out m = {0};
    ls_pb_raw(&m, data, sizeof data);
    snprintf(path, sizeof path, "%s", write_model("weights", &m));
    OK(read_with_outside("weights"));
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink("/etc/passwd", link), 0);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        assert_int_not_equal(read_with_outside(places[i]), LS_OK);
        if (i < 3 && i != 0) assert_non_null(strstr(ls_error_message(), "outside of the model's folder"));
    }
    assert_int_equal(read_with_outside("none"), LS_STATUS_NOT_FOUND);
    assert_int_equal(truncate(path, 20), 0);
    assert_int_equal(read_with_outside("weights"), LS_STATUS_BAD_DATA);
    unlink(path), unlink(link);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_comes_back),     cmocka_unit_test(networks_that_come_back_compute_the_same_bits),
        cmocka_unit_test(layers_of_ones_own_come_back), cmocka_unit_test(a_model_of_others_computes_what_onnx_says),
        cmocka_unit_test(vectors_become_images),        cmocka_unit_test(recurrent_layers_of_others),
        cmocka_unit_test(files_are_networks),           cmocka_unit_test(what_is_wrong_is_told),
        cmocka_unit_test(what_is_cut_off_is_damaged),   cmocka_unit_test(tensors_elsewhere_lie_in_the_folder),
    };
    if (!mkdtemp(folder)) return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
