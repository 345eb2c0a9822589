// A trained body under a new head: the convolutions come from a file and stay as they are, the dense layers are trained.
//
//     lockstep train mnist-cnn --save cnn.safetensors && new_head cnn.safetensors [DATASET]
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "new_head: %s\n", ls_error_message());                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv) {
    ls_context *workers;
    ls_dataset *data;
    if (argc < 2) return fprintf(stderr, "new_head WEIGHTS.safetensors [DATASET]\n"), 2;
    CHECK(ls_context_create(&workers));
    CHECK(ls_dataset_open(workers, argc > 2 ? argv[2] : "digits", &data));

    ls_graph *net;
    CHECK(ls_graph_create("new-head", ls_dataset_image_shape(data), &net));
    ls_value x = ls_graph_input(net);  // layers named as in mnist-cnn get its weights
    static const int filters[] = {32, 128, 256};
    for (int i = 0; i < 3; i++) {
        ls_conv2d_attrs conv = {.filters = filters[i], .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU};
        x = ls_max_pool2d(net, ls_conv2d(net, x, &conv), &(ls_pool2d_attrs){.size = {2, 2}});
    }
    x = ls_flatten(net, x, NULL);
    x = ls_dense(net, x, &(ls_dense_attrs){.units = ls_dataset_classes(data), .name = "head"});
    CHECK(ls_graph_finish(net, x));
    int frozen, taken;
    CHECK(ls_graph_freeze(net, "conv2d*", 1, &frozen));

    ls_train_config config;
    ls_train_config_init(&config);
    config.epochs = 1;
    config.batch_size = 32;
    config.lr = 0.01;
    config.limit_train = 2048;
    config.limit_test = 1000;
    ls_trainer *trainer;
    CHECK(ls_trainer_create(workers, net, data, &config, &trainer));
    CHECK(ls_trainer_load_weights_by_name(trainer, argv[1], &taken));
    CHECK(ls_trainer_fit(trainer, NULL));
    double accuracy;
    CHECK(ls_trainer_evaluate(trainer, NULL, &accuracy));
    if (ls_context_rank(workers) == 0)
        printf("%d parameters taken, %d frozen: test accuracy %.4f\n", taken, frozen, accuracy);

    ls_trainer_destroy(&trainer);
    ls_graph_destroy(&net);
    ls_dataset_destroy(&data);
    ls_context_destroy(&workers);
    return 0;
}
