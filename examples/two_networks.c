// Two networks that share a body and are trained in turn: one names the digit, the other draws the image again.
//
//     two_networks [DATASET]
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "two_networks: %s\n", ls_error_message());                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// What both have: layers of one name share their parameters in the store.
static ls_value body(ls_graph *net, ls_shape image) {
    ls_value x = ls_graph_add_input(net, "image", image, LS_DTYPE_F32);
    x = ls_flatten(net, x, NULL);
    return ls_dense(net, x, &(ls_dense_attrs){.units = 64, .activation = LS_ACTIVATION_RELU, .name = "body"});
}

static void build(ls_store *store, ls_dataset *data, ls_graph **name, ls_graph **draw) {
    ls_shape image = ls_dataset_image_shape(data);
    CHECK(ls_graph_create_empty("name", store, name));
    ls_value scores = ls_dense(*name, body(*name, image), &(ls_dense_attrs){.units = 10, .name = "scores"});
    ls_value label = ls_graph_add_input(*name, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_softmax_cross_entropy(*name, scores, label, NULL);
    CHECK(ls_graph_finish(*name, scores));

    CHECK(ls_graph_create_empty("draw", store, draw));
    int pixels = (int)(image.dim[0] * image.dim[1] * image.dim[2]);
    ls_value x = ls_dense(*draw, body(*draw, image), &(ls_dense_attrs){.units = pixels, .name = "pixels"});
    x = ls_reshape(*draw, x, &(ls_reshape_attrs){.shape = {(int)image.dim[0], (int)image.dim[1], -1}});
    ls_mean_squared_error(*draw, x, ls_graph_add_input(*draw, "target", image, LS_DTYPE_F32), NULL);
    CHECK(ls_graph_finish(*draw, x));
}

int main(int argc, char **argv) {
    ls_context *workers;
    ls_dataset *data;
    ls_store *store;
    ls_graph *net[2];
    ls_trainer *trainer[2];
    CHECK(ls_context_create(&workers));
    CHECK(ls_dataset_open(workers, argc > 1 ? argv[1] : "digits", &data));
    CHECK(ls_store_create(&store));
    build(store, data, &net[0], &net[1]);
    ls_train_config config;
    ls_train_config_init(&config);
    config.limit_train = 4096;
    for (int i = 0; i < 2; i++) CHECK(ls_trainer_create(workers, net[i], data, &config, &trainer[i]));

    for (int epoch = 1; epoch <= 3; epoch++) {
        ls_epoch_result result[2];
        for (int i = 0; i < 2; i++) CHECK(ls_trainer_begin_epoch(trainer[i]));
        while (ls_trainer_steps_left(trainer[0]) > 0)
            for (int i = 0; i < 2; i++) CHECK(ls_trainer_step(trainer[i], NULL));
        for (int i = 0; i < 2; i++) CHECK(ls_trainer_end_epoch(trainer[i], &result[i]));
        if (ls_context_rank(workers) == 0)
            printf("epoch %d: loss %.4f in naming, %.4f in drawing\n", epoch, result[0].loss, result[1].loss);
    }

    ls_train_result both;
    CHECK(ls_trainer_result(trainer[0], &both));
    if (ls_context_rank(workers) == 0) printf("weights %s\n", both.weights_digest);
    for (int i = 1; i >= 0; i--) ls_trainer_destroy(&trainer[i]);
    for (int i = 0; i < 2; i++) ls_graph_destroy(&net[i]);
    ls_store_destroy(&store);
    ls_dataset_destroy(&data);
    ls_context_destroy(&workers);
    return 0;
}
