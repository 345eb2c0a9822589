// Variational auto-encoders: the network, and its decoder as a network of its own. (What its layers compute: tests/test_networks.c against PyTorch,
// tests/test_ref_gradients.c; the same bits on several workers: tests/train/drawing.sh.)
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "ok.h"

enum { COUNT = 3, SIDE = 12, CODE = 16 };

static ls_graph *vae(int height, int width, int channels) {
    ls_graph *g;
    OK(ls_model_create("vae", LS_SHAPE(height, width, channels), 0, &g));
    return g;
}

static ls_predictor *predictor_of(const ls_graph *g) {
    ls_predict_config c;
    ls_predictor *p;
    ls_predict_config_init(&c);
    c.batch = COUNT;
    OK(ls_predictor_create(g, &c, &p));
    return p;
}

// As `from` has it; where a name begins with `zero`, zeros.
static void take_weights(const ls_graph *g, ls_predictor *from, ls_predictor *to, const char *zero) {
    const ls_store *store = ls_graph_store(g);
    for (int i = 0; i < ls_store_count(store); i++) {
        ls_parameter p = ls_store_parameter(store, i);
        int64_t count = ls_shape_count(p.shape);
        float *values = calloc((size_t)count, sizeof *values);
        assert_non_null(values);
        if (strncmp(p.name, zero, strlen(zero)) != 0) OK(ls_predictor_get_weights(from, p.name, values, count));
        OK(ls_predictor_set_weights(to, p.name, values, count));
        free(values);
    }
}

static void it_has_these_weights(void **state) {
    ls_graph *g = vae(28, 28, 1);
    assert_int_equal(ls_graph_parameter_count(g), 533473);
    assert_int_equal(ls_graph_input_count(g), 3);
    assert_string_equal(ls_graph_input_at(g, 1).name, LS_INPUT_NOISE);
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(28, 28, 1)));
    ls_graph_destroy(&g);
    g = vae(32, 20, 3);
    assert_true(ls_shape_equal(ls_graph_output_at(g, 0).shape, LS_SHAPE(32, 20, 3)));
    ls_graph_destroy(&g);
}

// A code of zeros is the distribution that noise has, so the sample is the noise itself.
static void a_decoder_draws_what_the_network_does(void **state) {
    ls_graph *g = vae(SIDE, SIDE, 1), *d;
    float image[COUNT * SIDE * SIDE], noise[COUNT * CODE], whole[COUNT * SIDE * SIDE], drawn[COUNT * SIDE * SIDE];
    ls_train_config config;
    ls_train_config_init(&config);
    OK(ls_graph_decoder(g, &d));
    assert_int_equal(ls_graph_input_count(d), 1);
    assert_true(ls_graph_store(d) == ls_graph_store(g));
    assert_true(ls_shape_equal(ls_graph_input_at(d, 0).shape, LS_SHAPE(CODE)));
    ls_predictor *all = predictor_of(g), *part = predictor_of(d), *first = predictor_of(g);
    take_weights(g, first, all, "code/");
    take_weights(g, all, part, "/");
    for (int i = 0; i < COUNT * SIDE * SIDE; i++) image[i] = (float)(i % 7) / 7;
    for (int i = 0; i < COUNT; i++) ls_train_draw_noise(&config, i, CODE, noise + (ptrdiff_t)i * CODE);
    OK(ls_predictor_run(all, COUNT, (const void *[]){image, noise, NULL}, (float *[]){whole}));
    OK(ls_predictor_run(part, COUNT, (const void *[]){noise}, (float *[]){drawn}));
    assert_memory_equal(whole, drawn, sizeof whole);
    for (int i = 0; i < COUNT * SIDE * SIDE; i++) assert_true(drawn[i] > 0 && drawn[i] < 1);
    assert_true(memcmp(drawn, drawn + (ptrdiff_t)SIDE * SIDE, SIDE * SIDE * sizeof *drawn) != 0);
    ls_predictor_destroy(&all), ls_predictor_destroy(&part), ls_predictor_destroy(&first);
    ls_graph_destroy(&d), ls_graph_destroy(&g);
}

// As a text says it.
static void a_text_has_a_decoder_too(void **state) {
    ls_model_config config;
    ls_graph *g, *d;
    ls_model_config_init(&config);
    OK(ls_model_build(LS_NETWORKS "/variational.net", &config, &g));
    OK(ls_graph_decoder(g, &d));
    assert_true(ls_shape_equal(ls_graph_input_at(d, 0).shape, LS_SHAPE(8)));
    assert_true(ls_shape_equal(ls_graph_output_at(d, 0).shape, LS_SHAPE(28, 28, 1)));
    assert_int_equal(ls_graph_parameter_count(d), 8 * 128 + 128 + 128 * 784 + 784);
    ls_graph_destroy(&d), ls_graph_destroy(&g);
}

static void refuse_decoder(ls_graph *g, ls_status status, const char *sentence) {
    ls_graph *d;
    assert_int_equal(ls_graph_decoder(g, &d), status);
    assert_null(d);
    if (strcmp(ls_error_message(), sentence) != 0) fail_msg("\"%s\" instead of \"%s\"", ls_error_message(), sentence);
    ls_graph_destroy(&g);
}

// A code of an image, a sample of it, and an output of: both (0), the image alone (1).
static ls_graph *odd(int kind) {
    ls_graph *g;
    OK(ls_graph_create_empty("odd", NULL, &g));
    ls_value x = ls_graph_add_input(g, "image", LS_SHAPE(6), LS_DTYPE_F32);
    ls_value noise = ls_graph_add_input(g, LS_INPUT_NOISE, LS_SHAPE(3), LS_DTYPE_F32);
    ls_value code = ls_dense(g, x, &(ls_dense_attrs){.name = "code", .units = 6});
    ls_value z = ls_normal_sample(g, code, noise, NULL);
    ls_value to = ls_graph_add_input(g, "target", LS_SHAPE(3), LS_DTYPE_F32);
    ls_mean_squared_error(g, z, to, NULL);
    ls_value y = ls_dense(g, x, &(ls_dense_attrs){.name = "y", .units = 3});
    OK(ls_graph_finish(g, kind ? y : ls_add(g, z, y, "sum")));
    return g;
}

static void what_cannot_be_decoded(void **state) {
    ls_graph *g;
    OK(ls_model_create("autoencoder", (ls_shape){0}, 0, &g));
    refuse_decoder(g, LS_STATUS_NOT_FOUND,
                   "autoencoder has no layer that draws a sample (normal_sample): nothing is decoded");
    refuse_decoder(odd(0), LS_STATUS_INVALID_ARGUMENT,
                   "odd: layer y reads more than what comes of the sample sampling draws");
    refuse_decoder(odd(1), LS_STATUS_INVALID_ARGUMENT, "odd: its output y is not made of what sampling draws");
    OK(ls_graph_create("open", LS_SHAPE(3), &g));
    refuse_decoder(g, LS_STATUS_INVALID_ARGUMENT, "model open is not finished: call ls_graph_finish first");
}

static void images_that_it_cannot_draw(void **state) {
    ls_graph *g;
    assert_int_equal(ls_model_create("vae", LS_SHAPE(30, 28, 1), 0, &g), LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(),
                        "vae takes images whose sides 4 divides, and these are 30x28: the next larger ones are 32x28");
    assert_int_equal(ls_model_create("vae", LS_SHAPE(28), 0, &g), LS_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_these_weights),       cmocka_unit_test(a_decoder_draws_what_the_network_does),
        cmocka_unit_test(a_text_has_a_decoder_too),   cmocka_unit_test(what_cannot_be_decoded),
        cmocka_unit_test(images_that_it_cannot_draw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
