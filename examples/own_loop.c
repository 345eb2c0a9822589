// A loop of one's own: steps one by one, a look at each, an end when the test set says so. Alone, or under mpirun or srun.
//
//     own_loop [DATASET]
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "own_loop: %s\n", ls_error_message());                                                     \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv) {
    ls_context *workers;
    ls_dataset *data;
    ls_graph *net;
    CHECK(ls_context_create(&workers));
    CHECK(ls_dataset_open(workers, argc > 1 ? argv[1] : "digits", &data));
    CHECK(ls_model_create("mnist-mlp", ls_dataset_image_shape(data), ls_dataset_classes(data), &net));

    ls_train_config config;
    ls_train_config_init(&config);
    config.epochs = 10;  // at most
    config.limit_train = 4096;
    ls_trainer *trainer;
    CHECK(ls_trainer_create(workers, net, data, &config, &trainer));

    int speaks = ls_context_rank(workers) == 0;
    double best = 0, loss, accuracy;
    for (int epoch = 1; epoch <= config.epochs; epoch++) {
        ls_step_report step;
        CHECK(ls_trainer_begin_epoch(trainer));
        while (ls_trainer_steps_left(trainer) > 0) {
            CHECK(ls_trainer_step(trainer, &step));
            if (speaks && step.step % 16 == 0)
                printf("epoch %d, step %lld: loss %.4f\n", step.epoch, (long long)step.step, step.batch_loss);
        }
        CHECK(ls_trainer_end_epoch(trainer, NULL));
        // The numbers of an evaluation are the same on all workers, so all of them leave together.
        CHECK(ls_trainer_evaluate(trainer, &loss, &accuracy));
        if (speaks) printf("epoch %d: test loss %.4f, test accuracy %.4f\n", epoch, loss, accuracy);
        if (accuracy < best + 0.02) break;
        best = accuracy;
    }

    ls_train_result result;
    CHECK(ls_trainer_result(trainer, &result));
    if (speaks) printf("epochs %d\nweights %s\n", result.epochs, result.weights_digest);
    ls_trainer_destroy(&trainer);
    ls_graph_destroy(&net);
    ls_dataset_destroy(&data);
    ls_context_destroy(&workers);
    return 0;
}
