// What recording a trace costs: bench_trace [MODEL [BATCH [MICRO_BATCH [EPOCHS]]]], alone or under mpirun.
//
// Of each epoch, steps 3 to 22 are recorded and 23 to 42 are not. The median step of either kind is compared within each epoch, so that
// both see the same machine; the same steps of a run that records nothing tell what comes of their places in the epoch.
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#include "base/clock.h"
#include "must.h"

enum { RECORDED = 20, WARM_UP = 2, STEPS = WARM_UP + 2 * RECORDED, MOST_EPOCHS = 1000 };

typedef struct bench {
    double before, step[STEPS];
    double ratio[MOST_EPOCHS], seconds[MOST_EPOCHS];
    double best[2];  // steps where there is, and is not, something recorded
    int epochs;
} bench;

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

static ls_status note_step(void *user, const ls_step_report *p, int *stop) {
    bench *b = user;
    double now = ls_clock();
    b->step[p->step - 1] = now - b->before;
    b->before = now;
    int64_t at = p->step - 1 - WARM_UP;
    double *best = &b->best[at >= RECORDED];
    if (at >= 0 && (*best == 0 || b->step[p->step - 1] < *best)) *best = b->step[p->step - 1];
    if (p->step == STEPS) {
        double later = median(b->step + WARM_UP + RECORDED, RECORDED);
        b->ratio[b->epochs] = median(b->step + WARM_UP, RECORDED) / later;
        b->seconds[b->epochs++] = later;
    }
    return LS_OK;
}

static void run(ls_context *context, ls_dataset *data, const ls_graph *graph, const ls_train_config *config, int record,
                bench *b) {
    ls_trainer *trainer;
    b->epochs = 0;
    MUST(ls_trainer_create(context, graph, data, config, &trainer));
    if (record) MUST(ls_trainer_trace(trainer, RECORDED));
    MUST(ls_trainer_fit(trainer, &(ls_callbacks){.user = b, .on_step = note_step}));
    ls_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "mnist-cnn";
    ls_train_config config;
    ls_train_config_init(&config);
    config.batch_size = argc > 2 ? atoi(argv[2]) : 128;
    config.micro_batch = argc > 3 ? atoi(argv[3]) : 0;
    config.epochs = argc > 4 ? atoi(argv[4]) : 9;
    config.limit_train = STEPS * config.batch_size;
    ls_context *context;
    ls_dataset *data;
    ls_graph *graph;
    static bench with, without;
    MUST(ls_context_create(&context));
    MUST(ls_dataset_open(context, "digits", &data));
    MUST(ls_model_create(model, ls_dataset_image_shape(data), ls_dataset_classes(data), &graph));
    if (ls_dataset_train_count(data) < config.limit_train || config.epochs < 1 || config.epochs > MOST_EPOCHS) {
        fprintf(stderr, "the batch or the number of epochs is too large\n");
        return 1;
    }
    run(context, data, graph, &config, 0, &without);
    run(context, data, graph, &config, 1, &with);
    if (ls_context_rank(context) == 0) {
        int n = with.epochs;
        double ratio = median(with.ratio, n), control = median(without.ratio, n);
        printf("%s, batch %d, %d worker%s: %.3f ms a step; recorded over not recorded:\n", model,
               (int)config.batch_size, ls_context_size(context), ls_context_size(context) == 1 ? "" : "s",
               1e3 * median(with.seconds, n));
        const bench *b[] = {&with, &without};
        for (int i = 0; i < 2; i++)
            printf("  %s a trace: %.4f, the median of %d epochs (%.4f to %.4f); of the best steps %.4f\n",
                   i ? "without" : "with", i ? control : ratio, n, b[i]->ratio[0], b[i]->ratio[n - 1],
                   b[i]->best[0] / b[i]->best[1]);
        printf("  cost: %+.2f %%; of the best steps %+.2f %%\n", 100 * (ratio / control - 1),
               100 * (with.best[0] / with.best[1] / (without.best[0] / without.best[1]) - 1));
    }
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&data);
    ls_context_destroy(&context);
    return 0;
}
