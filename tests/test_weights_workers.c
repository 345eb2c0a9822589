// The trainer's weights in files, on any number of workers: all get what worker 0 read, and all learn of what it could not.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "train/context.h"
#include "train/weights_file.h"
#include "worker_check.h"

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_dataset *data;
    ls_graph *graph;
    char folder[64], path[128];  // known to all workers, who share a host
} job;

static ls_graph *network(job *j, const char *name, int hidden) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create(name, LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}, .strides = {3, 3}});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){0});
    x = ls_flatten(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = hidden, .activation = LS_ACTIVATION_RELU});
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = 10});
    CHECK_OK(j->comm, ls_graph_finish(g, x));
    return g;
}

static ls_trainer *new_trainer(job *j, const ls_graph *graph, uint64_t seed, const char *strategy) {
    ls_trainer *t;
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = "ref";
    c.seed = seed;
    c.strategy = strategy;
    c.batch_size = 8, c.micro_batch = 1, c.replicas = 1, c.bind = 0;
    c.epochs = 1, c.limit_train = 16, c.limit_test = 8;
    CHECK_OK(j->comm, ls_trainer_create(j->context, graph, j->data, &c, &t));
    return t;
}

static void digest(job *j, ls_trainer *t, char text[65]) {
    ls_train_result r;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    strcpy(text, r.weights_digest);
}

static void all_refuse(job *j, ls_status status, const char *words) {
    CHECK(j->comm, status != LS_OK);
    CHECK(j->comm, strstr(ls_error_message(), words) != NULL);
}

// Bytes of the file, spoiled by worker 0.
static void spoil(job *j, long offset, const char *bytes) {
    if (j->comm->rank == 0) {
        FILE *f = fopen(j->path, "r+b");
        CHECK(j->comm, f && fseek(f, offset, SEEK_SET) == 0 && fwrite(bytes, 1, strlen(bytes), f) == strlen(bytes));
        fclose(f);
    }
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
}

static int files_in(const job *j) {
    int count = 0;
    DIR *folder = opendir(j->folder);
    CHECK(j->comm, folder != NULL);
    for (const struct dirent *e; (e = readdir(folder));) count += e->d_name[0] != '.';
    closedir(folder);
    return count;
}

// Trained weights, statistics of the normalization included, come back the same under either strategy.
static void weights_come_back(job *j, const char *strategy) {
    char trained[65], drawn[65], loaded[65];
    ls_trainer *t = new_trainer(j, j->graph, 1, "allreduce");
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    digest(j, t, trained);
    CHECK_OK(j->comm, ls_trainer_save_weights(t, j->path));
    ls_trainer_destroy(&t);
    t = new_trainer(j, j->graph, 2, strategy);
    digest(j, t, drawn);
    CHECK_OK(j->comm, ls_trainer_load_weights(t, j->path));
    digest(j, t, loaded);
    CHECK(j->comm, strcmp(trained, drawn) != 0 && strcmp(trained, loaded) == 0);
    float mean[4];
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "batch_normalization/moving_mean", mean, 4));
    CHECK(j->comm, mean[0] != 0);
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));  // the copies that kernels read are those of the new weights
    ls_trainer_destroy(&t);
}

static void a_smaller_set_by_name(job *j) {
    int taken = -1;
    float in[4], before[10], after[10];
    ls_graph *other = network(j, "other", 7);
    ls_trainer *t = new_trainer(j, other, 3, "allreduce");
    all_refuse(
        j, ls_trainer_load_weights(t, j->path),
        "has not the weights of other, but of net: parameter 'dense/kernel' is (324, 6) there, and (324, 7) in the "
        "network; by name the others can be taken without it");
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "head/bias", before, 10));
    CHECK_OK(j->comm, ls_trainer_load_weights_by_name(t, j->path, &taken));
    CHECK(j->comm, taken == 7);  // the convolution's two, the normalization's four, the bias of the head
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "batch_normalization/moving_variance", in, 4));
    CHECK(j->comm, in[0] != 1);
    CHECK_OK(j->comm, ls_trainer_get_weights(t, "head/bias", after, 10));
    CHECK(j->comm, memcmp(before, after, sizeof before) != 0);
    ls_trainer_destroy(&t);
    ls_graph_destroy(&other);
}

static void other_networks(job *j) {
    ls_graph *mlp;
    CHECK_OK(j->comm, ls_model_create("mnist-mlp", (ls_shape){0}, 0, &mlp));
    ls_trainer *t = new_trainer(j, mlp, 1, "allreduce");
    all_refuse(
        j, ls_trainer_load_weights(t, j->path),
        "has not the weights of mnist-mlp, but of net: parameter 'dense/kernel' is (324, 6) there, and (784, 128) in");
    all_refuse(
        j, ls_trainer_load_weights_by_name(t, j->path, NULL),
        "has not the weights of mnist-mlp, but of net: none of its 10 tensors has name and shape of a parameter");
    ls_trainer_destroy(&t);
    ls_graph_destroy(&mlp);

    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create("linear", LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_flatten(g, ls_graph_input(g), NULL);
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.name = "only", .units = 10})));
    t = new_trainer(j, g, 1, "allreduce");
    all_refuse(
        j, ls_trainer_load_weights(t, j->path),
        "has not the weights of linear, but of net: parameter 'only/kernel' (784, 10) is not in it; it has 10 that "
        "linear lacks, first 'conv2d/kernel' (3, 3, 1, 4)");
    char file[200];
    snprintf(file, sizeof file, "%s/linear", j->folder);
    CHECK_OK(j->comm, ls_trainer_save_weights(t, file));
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);

    CHECK_OK(j->comm, ls_graph_create("linear", LS_SHAPE(28, 28, 1), &g));
    x = ls_flatten(g, ls_graph_input(g), NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.name = "only", .units = 10, .no_bias = 1});
    CHECK_OK(j->comm, ls_graph_finish(g, x));
    t = new_trainer(j, g, 1, "allreduce");
    all_refuse(j, ls_trainer_load_weights(t, file),
               "has not the weights of linear: it has 1 parameter too many, first 'only/bias' (10); by name");
    ls_trainer_destroy(&t);
    ls_graph_destroy(&g);
    if (j->comm->rank == 0) unlink(file);
}

// Failures of worker 0 alone.
static void bad_files(job *j) {
    char nowhere[200], before[65], after[65];
    ls_trainer *t = new_trainer(j, j->graph, 5, "allreduce");
    digest(j, t, before);
    snprintf(nowhere, sizeof nowhere, "%s/none/file", j->folder);
    all_refuse(j, ls_trainer_load_weights(t, nowhere), "cannot read the weights");
    all_refuse(j, ls_trainer_save_weights(t, nowhere), "cannot write the weights");
    all_refuse(j, ls_trainer_save_weights(t, "/dev/full"),
               "cannot write the weights /dev/full: No space left on device");
    all_refuse(j, ls_trainer_save_weights(t, j->folder), "Is a directory");
    struct stat good;
    CHECK(j->comm, stat(j->path, &good) == 0);
    spoil(j, (long)good.st_size - 4, "\xff\xff\xff\xff");  // of the last tensor
    all_refuse(j, ls_trainer_load_weights(t, j->path), "has a value that is no finite number, the ");
    spoil(j, 9, "@");
    all_refuse(j, ls_trainer_load_weights(t, j->path), "is not JSON");
    spoil(j, 0, "xxxxxxxx");
    all_refuse(j, ls_trainer_load_weights(t, j->path), "is cut off, or no safetensors file");
    digest(j, t, after);
    CHECK(j->comm, strcmp(before, after) == 0);              // what was refused changed nothing
    CHECK_OK(j->comm, ls_trainer_save_weights(t, j->path));  // over the damaged one
    CHECK_OK(j->comm, ls_trainer_load_weights(t, j->path));
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
    CHECK(j->comm, files_in(j) == 1);  // and nothing is left beside it
    struct stat there;
    mode_t mask = umask(0);
    umask(mask);
    CHECK(j->comm, stat(j->path, &there) == 0 && (there.st_mode & 0777) == (0666 & ~mask));
    ls_trainer_destroy(&t);
}

int main(void) {
    job j = {.folder = "/tmp/lockstep-weights-XXXXXX"};
    CHECK_OK((ls_comm *)NULL, ls_context_create(&j.context));
    j.comm = j.context->comm;
    if (j.comm->rank == 0) CHECK(j.comm, mkdtemp(j.folder));
    CHECK_OK(j.comm, ls_comm_broadcast(j.comm, j.folder, sizeof j.folder, LS_DTYPE_U8, 0));
    snprintf(j.path, sizeof j.path, "%s/file", j.folder);
    CHECK_OK(j.comm, ls_dataset_open(j.context, "digits", &j.data));
    j.graph = network(&j, "net", 6);
    weights_come_back(&j, "allreduce");
    weights_come_back(&j, "reduce-broadcast");
    a_smaller_set_by_name(&j);
    other_networks(&j);
    bad_files(&j);
    CHECK_OK(j.comm, ls_comm_barrier(j.comm));
    if (j.comm->rank == 0) {
        unlink(j.path);
        rmdir(j.folder);
    }
    ls_graph_destroy(&j.graph);
    ls_dataset_destroy(&j.data);
    ls_context_destroy(&j.context);
    return 0;
}
