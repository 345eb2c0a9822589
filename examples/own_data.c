// Data of one's own: arrays in memory become a dataset, and a built-in network is trained on it. Alone, or under mpirun or srun:
// each worker passes the same arrays, and the weights are the same for any number of them.
//
//     own_data [EPOCHS]
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "own_data: %s\n", ls_error_message());                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { TRAIN = 4000, TEST = 1000, SIDE = 16, CLASSES = 4 };
static uint8_t images[TRAIN + TEST][SIDE][SIDE][1];  // (samples, height, width, channels)
static int32_t labels[TRAIN + TEST];

// A bright spot in one of the four quarters, on noise: the quarter is the class.
static void draw(int sample) {
    uint32_t random = (uint32_t)sample * 2654435761u + 1;
    labels[sample] = (int32_t)(random >> 16) % CLASSES;
    int top = labels[sample] / 2 * SIDE / 2 + (int)(random >> 8) % 5,
        left = labels[sample] % 2 * SIDE / 2 + (int)(random >> 4) % 5;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            random = random * 1664525u + 1013904223u;
            int spot = y >= top && y < top + 4 && x >= left && x < left + 4;
            images[sample][y][x][0] = (uint8_t)((random >> 25) + (spot ? 100 : 0));
        }
}

int main(int argc, char **argv) {
    for (int i = 0; i < TRAIN + TEST; i++) draw(i);

    ls_context *workers;
    ls_dataset *data;
    CHECK(ls_context_create(&workers));
    const ls_field fields[] = {{"image", LS_SHAPE(SIDE, SIDE, 1), LS_DTYPE_U8, 0},
                               {"label", {0}, LS_DTYPE_I32, CLASSES}};
    ls_arrays_config arrays = {.name = "quarters",
                               .fields = fields,
                               .field_count = 2,
                               .train = {TRAIN, {images, labels}},
                               .test = {TEST, {images[TRAIN], labels + TRAIN}}};
    CHECK(ls_dataset_create_arrays(workers, &arrays, &data));

    ls_graph *net;
    CHECK(ls_model_create("mnist-linear", ls_dataset_image_shape(data), ls_dataset_classes(data), &net));
    ls_train_config config;
    ls_train_config_init(&config);
    config.epochs = argc > 1 ? atoi(argv[1]) : 5;
    ls_trainer *trainer;
    CHECK(ls_trainer_create(workers, net, data, &config, &trainer));
    CHECK(ls_trainer_fit(trainer, NULL));
    double loss, accuracy;
    CHECK(ls_trainer_evaluate(trainer, &loss, &accuracy));
    ls_train_result result;
    CHECK(ls_trainer_result(trainer, &result));
    if (ls_context_rank(workers) == 0)
        printf("workers %d: test loss %.4f, test accuracy %.4f\nweights %s\n", result.workers, loss, accuracy,
               result.weights_digest);

    ls_trainer_destroy(&trainer);
    ls_graph_destroy(&net);
    ls_dataset_destroy(&data);
    ls_context_destroy(&workers);
    return 0;
}
