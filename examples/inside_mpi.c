// Training inside an MPI program: it started MPI, has other things to do, and lends half of its processes.
//
//     mpirun -n 4 inside_mpi
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "inside_mpi: %s\n", ls_error_message());                                                   \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                                              \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv) {
    int level, rank, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm half;
    int trains = rank < (size + 1) / 2;
    MPI_Comm_split(MPI_COMM_WORLD, trains, rank, &half);

    double accuracy = 0;
    if (trains) {
        ls_context *workers;
        ls_dataset *data;
        ls_graph *net;
        ls_trainer *trainer;
        CHECK(ls_context_create_with_comm(&half, &workers));
        CHECK(ls_dataset_open(workers, "digits", &data));
        CHECK(ls_model_create("mnist-linear", ls_dataset_image_shape(data), ls_dataset_classes(data), &net));
        ls_train_config config;
        ls_train_config_init(&config);
        config.epochs = 1;
        config.limit_train = 4096;
        CHECK(ls_trainer_create(workers, net, data, &config, &trainer));
        CHECK(ls_trainer_fit(trainer, NULL));
        CHECK(ls_trainer_evaluate(trainer, NULL, &accuracy));
        ls_train_result result;
        CHECK(ls_trainer_result(trainer, &result));
        if (rank == 0) printf("workers %d of %d processes\nweights %s\n", result.workers, size, result.weights_digest);
        ls_trainer_destroy(&trainer);
        ls_graph_destroy(&net);
        ls_dataset_destroy(&data);
        ls_context_destroy(&workers);  // MPI goes on
    }
    MPI_Bcast(&accuracy, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == size - 1) printf("process %d hears of a test accuracy of %.4f\n", rank, accuracy);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
