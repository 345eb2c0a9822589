// A network built from layers, trained and evaluated: alone, or unchanged on many workers under mpirun or srun.
//
//     train_digits [DATASET [TRAINING SAMPLES]]       for example: mpirun -n 4 train_digits mnist:DIR
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "train_digits: %s\n", ls_error_message());                                                 \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static ls_status show(void *user, const ls_epoch_result *e, int *stop) {
    if (ls_context_rank(user) == 0)
        printf("epoch %d: loss %.4f, accuracy %.4f, %.0f images/s\n", e->epoch, e->loss, e->accuracy,
               e->images_per_second);
    return LS_OK;
}

int main(int argc, char **argv) {
    ls_context *workers;
    ls_dataset *data;
    CHECK(ls_context_create(&workers));
    CHECK(ls_dataset_open(workers, argc > 1 ? argv[1] : "digits", &data));

    ls_graph *net;
    CHECK(ls_graph_create("small-cnn", ls_dataset_image_shape(data), &net));
    ls_value x = ls_graph_input(net);
    x = ls_conv2d(net, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    x = ls_max_pool2d(net, x, &(ls_pool2d_attrs){.size = {2, 2}});
    x = ls_conv2d(net, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {3, 3}, .activation = LS_ACTIVATION_RELU});
    x = ls_max_pool2d(net, x, &(ls_pool2d_attrs){.size = {2, 2}});
    x = ls_flatten(net, x, NULL);
    x = ls_dropout(net, x, &(ls_dropout_attrs){.rate = 0.25F});
    x = ls_dense(net, x, &(ls_dense_attrs){.units = ls_dataset_classes(data)});
    CHECK(ls_graph_finish(net, x));

    ls_train_config config;
    ls_train_config_init(&config);
    config.epochs = 2;
    config.batch_size = 256;  // over all workers together: more workers share it, and the result stays the same
    config.limit_train = argc > 2 ? atoll(argv[2]) : 0;
    ls_trainer *trainer;
    CHECK(ls_trainer_create(workers, net, data, &config, &trainer));
    CHECK(ls_trainer_fit(trainer, &(ls_callbacks){.user = workers, .on_epoch = show}));
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
