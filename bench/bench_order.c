// What the fixed tree costs in training: bench_order [MODEL [HxWxC [BATCH [MICRO_BATCH [REPLICAS [PAIRS]]]]]], alone or under mpirun, on one host.
//
// One trainer takes steps whose gradients are added up in the tree, and steps in which they are added as they come, in turn: tree, as they come, as they
// come, tree. Both have the same memory, so nothing but the order differs. Each pair of neighbours gives a ratio of what exchange and update take,
// waiting left out, summed over all lanes; and one of the whole step.
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/median.h"
#include "base/memory.h"
#include "must.h"
#include "strategy/strategy.h"
#include "train/context.h"
#include "train/trainer_impl.h"

enum { TREE, ANY, EXCHANGE = 0, STEP, KINDS };

static const char *const names[KINDS] = {"exchange and update", "step"};

// Seconds of exchange and update so far, of all lanes of this worker.
static double exchanged(const ls_trainer *t) {
    double seconds = 0;
    for (int r = 0; r < t->spread.replicas; r++) seconds += t->replica[r].phases.exchange + t->replica[r].phases.update;
    return seconds;
}

// The sum over all workers.
static double total(ls_context *context, double mine) {
    double sum = 0, *all;
    MUST(ls_calloc(ls_context_size(context), sizeof *all, &all));
    MUST(ls_comm_allgather(context->comm, &mine, all, sizeof mine));
    for (int w = 0; w < ls_context_size(context); w++) sum += all[w];
    free(all);
    return sum;
}

static void step(ls_context *context, ls_trainer *t, int order, double seconds[KINDS]) {
    ls_strategy_any_order(t->strategy, order == ANY);
    double before = exchanged(t), start = ls_clock();
    MUST(ls_trainer_step(t, NULL));
    seconds[STEP] = ls_clock() - start;
    seconds[EXCHANGE] = total(context, exchanged(t) - before);
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "mnist-cnn", *shape = argc > 2 ? argv[2] : "28x28x1";
    int pairs = argc > 6 ? atoi(argv[6]) : 60;
    char name[64];
    ls_context *context;
    ls_dataset *data;
    ls_graph *graph;
    ls_trainer *t;
    ls_train_config config;
    ls_train_config_init(&config);
    config.batch_size = argc > 3 ? atoi(argv[3]) : 1024;
    config.micro_batch = argc > 4 ? atoi(argv[4]) : 128;
    config.replicas = argc > 5 ? atoi(argv[5]) : 0;
    config.epochs = 1000000;
    config.evaluate = 0;
    config.limit_train = 10 * config.batch_size;  // five pairs: each order begins and ends every other epoch
    if (pairs < 2) {
        fprintf(stderr, "usage: bench_order [MODEL [HxWxC [BATCH [MICRO_BATCH [REPLICAS [PAIRS]]]]]]\n");
        return 2;
    }
    snprintf(name, sizeof name, "synthetic:%s", shape);
    MUST(ls_context_create(&context));
    if (context->comm->hosts > 1) {  // where the exchange of a step may go on in the next
        fprintf(stderr, "bench_order: there are %d hosts; it measures on one\n", context->comm->hosts);
        return 2;
    }
    MUST(ls_dataset_open(context, name, &data));
    MUST(ls_model_create(model, ls_dataset_image_shape(data), ls_dataset_classes(data), &graph));
    MUST(ls_trainer_create(context, graph, data, &config, &t));
    double *ratio[KINDS], *seconds[KINDS][2], both[2][KINDS];
    for (int k = 0; k < KINDS; k++) {
        MUST(ls_calloc(pairs, sizeof(double), &ratio[k]));
        for (int order = 0; order < 2; order++) MUST(ls_calloc(pairs, sizeof(double), &seconds[k][order]));
    }
    for (int i = -2; i < pairs; i++) {  // two to warm up
        if (ls_trainer_steps_left(t) == 0) {
            if (i > -2) MUST(ls_trainer_end_epoch(t, NULL));
            MUST(ls_trainer_begin_epoch(t));
        }
        for (int k = 0; k < 2; k++) step(context, t, (i + k) & 1, both[(i + k) & 1]);
        for (int k = 0; k < KINDS && i >= 0; k++) {
            for (int order = 0; order < 2; order++) seconds[k][order][i] = both[order][k];
            ratio[k][i] = both[TREE][k] / both[ANY][k];
        }
    }
    int lanes = ls_context_size(context) * t->spread.replicas;
    if (ls_context_rank(context) == 0) {
        printf(
            "%s, batch %d = %lld x %d, %d workers x %d replicas, %d pairs of steps; the fixed tree beside sums as they "
            "come:\n",
            model, (int)config.batch_size, (long long)(config.batch_size / config.micro_batch), (int)config.micro_batch,
            ls_context_size(context), t->spread.replicas, pairs);
        for (int k = 0; k < KINDS; k++) {
            double part = k == EXCHANGE ? 1e3 / lanes : 1e3, middle = ls_median(ratio[k], pairs);  // sorts them
            printf("  %-20s %8.3f ms, %8.3f ms: %.4f of the time (half of the pairs from %.3f to %.3f)\n", names[k],
                   part * ls_median(seconds[k][TREE], pairs), part * ls_median(seconds[k][ANY], pairs), middle,
                   ratio[k][pairs / 4], ratio[k][pairs - 1 - pairs / 4]);
        }
    }
    for (int k = 0; k < KINDS; k++) {
        free(ratio[k]);
        for (int order = 0; order < 2; order++) free(seconds[k][order]);
    }
    ls_trainer_destroy(&t);
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&data);
    ls_context_destroy(&context);
    return 0;
}
