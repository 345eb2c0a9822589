// What onnx_runtime.py compares: `onnx_scores` lists the built-in networks; `onnx_scores NETWORK FOLDER` writes one as model.onnx, two
// samples of each input under its name, and the scores.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "onnx_scores: %s\n", ls_error_message());                                                  \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static ls_status weights(void *user, const char *parameter, float *values, int64_t count) {
    return ls_predictor_get_weights(user, parameter, values, count);
}

static float uniform(void) { return (float)rand() / (float)RAND_MAX; }

static void write_file(const char *folder, const char *name, const void *values, int64_t count) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(values, 4, (size_t)count, f) != (size_t)count || fclose(f) != 0) exit(1);
}

// Biases, scales and statistics that differ from the zeros and ones that they begin with.
static void disturb(ls_predictor *p, const ls_store *store) {
    for (int i = 0; i < ls_store_count(store); i++) {
        ls_parameter t = ls_store_parameter(store, i);
        int64_t count = ls_shape_count(t.shape);
        float *values = malloc((size_t)count * sizeof *values);
        TRY(ls_predictor_get_weights(p, t.name, values, count));
        for (int64_t k = 0; k < count && strcmp(t.role, "kernel") != 0; k++) values[k] += 0.1f * (uniform() - 0.5f);
        TRY(ls_predictor_set_weights(p, t.name, values, count));
        free(values);
    }
}

int main(int argc, char **argv) {
    ls_graph *g;
    ls_predictor *p;
    ls_predict_config config;
    const void *inputs[8] = {NULL};
    char path[4096];
    if (argc < 3) {
        for (int i = 0; ls_model_at(i).name; i++) printf("%s\n", ls_model_at(i).name);
        return 0;
    }
    ls_predict_config_init(&config);
    config.batch = 2;
    TRY(ls_model_create(argv[1], (ls_shape){0}, 0, &g));
    TRY(ls_predictor_create(g, &config, &p));
    disturb(p, ls_graph_store(g));
    snprintf(path, sizeof path, "%s/model.onnx", argv[2]);
    TRY(ls_onnx_write(g, path, weights, p));
    for (int i = 0; i < ls_graph_input_count(g); i++) {
        ls_port port = ls_graph_input_at(g, i);
        int64_t count = ls_shape_count(port.shape);
        float *values = malloc((size_t)(2 * count) * sizeof *values);
        for (int64_t k = 0; k < 2 * count; k++) {
            int32_t token = k % count < count - 5 ? 1 + rand() % 100 : 0;  // padding at the end
            values[k] = uniform();
            if (port.dtype == LS_DTYPE_I32) memcpy(&values[k], &token, 4);
        }
        inputs[i] = values;
        write_file(argv[2], port.name, values, 2 * count);
    }
    int64_t count = 2 * ls_shape_count(ls_graph_output_at(g, 0).shape);
    float *scores = malloc((size_t)count * sizeof *scores);
    TRY(ls_predictor_run(p, 2, inputs, &scores));
    write_file(argv[2], "scores", scores, count);
    return 0;
}
