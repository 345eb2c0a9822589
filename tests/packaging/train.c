// A program of somebody else's, in what C11 and C++11 have in common: trains for a moment and prints the weights' digest.
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if !LS_VERSION_AT_LEAST(0, 1, 0) || LS_VERSION_AT_LEAST(LS_VERSION_MAJOR + 1, 0, 0)
#error LS_VERSION_AT_LEAST
#endif

static void check(ls_status status) {
    if (status == LS_OK) return;
    fprintf(stderr, "train: %s\n", ls_error_message());
    exit(1);
}

int main(void) {
    ls_context *workers;
    ls_dataset *data;
    ls_graph *net;
    ls_trainer *trainer;
    ls_train_config config;
    ls_train_result result;
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", LS_VERSION_MAJOR, LS_VERSION_MINOR, LS_VERSION_PATCH);
    if (strcmp(version, ls_version()) != 0) return 1;
    check(ls_context_create_alone(&workers));
    check(ls_dataset_open(workers, "digits", &data));
    check(ls_model_create("mnist-mlp", LS_SHAPE(28, 28, 1), 10, &net));
    ls_train_config_init(&config);
    config.epochs = 1;
    config.limit_train = 256;
    config.evaluate = 0;
    config.device = "ref";
    check(ls_trainer_create(workers, net, data, &config, &trainer));
    check(ls_trainer_fit(trainer, NULL));
    check(ls_trainer_result(trainer, &result));
    printf("weights %s\n", result.weights_digest);
    ls_trainer_destroy(&trainer);
    ls_graph_destroy(&net);
    ls_dataset_destroy(&data);
    ls_context_destroy(&workers);
    return 0;
}
