// What is in this image? Weights that were trained elsewhere, and one image; no dataset, no workers.
//
//     lockstep train mnist-mlp --save digits.safetensors && predict_image digits.safetensors IMAGE.pgm
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "predict_image: %s\n", ls_error_message());                                                \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { SIDE = 28, CLASSES = 10 };

// A binary grey image of 28 x 28, as values from 0 to 1.
static int read_image(const char *path, float *pixels) {
    unsigned char bytes[SIDE * SIDE];
    int width = 0, height = 0, most = 0;
    FILE *file = fopen(path, "rb");
    int ok = file && fscanf(file, "P5 %d %d %d", &width, &height, &most) == 3 && fgetc(file) != EOF;
    ok = ok && width == SIDE && height == SIDE && most == 255 && fread(bytes, sizeof bytes, 1, file) == 1;
    for (int i = 0; ok && i < SIDE * SIDE; i++) pixels[i] = (float)bytes[i] / 255;
    if (file) fclose(file);
    return ok;
}

int main(int argc, char **argv) {
    float pixels[SIDE * SIDE], scores[CLASSES];
    if (argc != 3) return fprintf(stderr, "predict_image WEIGHTS.safetensors IMAGE.pgm\n"), 2;
    if (!read_image(argv[2], pixels))
        return fprintf(stderr, "predict_image: %s is no binary PGM image of 28 x 28\n", argv[2]), 1;

    ls_graph *net;
    CHECK(ls_model_create("mnist-mlp", LS_SHAPE(SIDE, SIDE, 1), CLASSES, &net));
    ls_predict_config config;
    ls_predict_config_init(&config);
    config.batch = 1;
    ls_predictor *predictor;
    CHECK(ls_predictor_create(net, &config, &predictor));
    CHECK(ls_predictor_load_weights(predictor, argv[1]));

    const void *inputs[] = {pixels};
    float *outputs[] = {scores};
    CHECK(ls_predictor_run(predictor, 1, inputs, outputs));
    ls_softmax(scores, 1, CLASSES);
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        if (scores[i] > scores[best]) best = i;
    printf("class %d, probability %.3f\n", best, scores[best]);

    ls_predictor_destroy(&predictor);
    ls_graph_destroy(&net);
    return 0;
}
