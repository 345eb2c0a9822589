// What tests of the trainer in one process begin with: a small network on the embedded digits.
#ifndef LS_TESTS_TRAINER_FIXTURE_H
#define LS_TESTS_TRAINER_FIXTURE_H

#include "ok.h"

typedef struct fixture {
    ls_context *context;
    ls_dataset *dataset;
    ls_graph *graph;
} fixture;

static inline int set_up(void **state) {
    static fixture f;
    OK(ls_context_create(&f.context));
    OK(ls_dataset_open(f.context, "digits", &f.dataset));
    OK(ls_model_create("mnist-mlp", (ls_shape){0}, 0, &f.graph));
    *state = &f;
    return 0;
}

static inline int tear_down(void **state) {
    fixture *f = *state;
    ls_graph_destroy(&f->graph);
    ls_dataset_destroy(&f->dataset);
    ls_context_destroy(&f->context);
    return 0;
}

static inline ls_train_config small(void) {
    ls_train_config c;
    ls_train_config_init(&c);
    c.epochs = 2, c.limit_train = 1000, c.limit_test = 300, c.batch_size = 64, c.bind = 0;
    return c;
}

static inline ls_train_result train(fixture *f, const ls_train_config *c) {
    ls_trainer *t;
    ls_train_result r;
    OK(ls_trainer_create(f->context, f->graph, f->dataset, c, &t));
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_evaluate(t, NULL, NULL));
    OK(ls_trainer_result(t, &r));
    r.epoch = NULL;
    ls_trainer_destroy(&t);
    return r;
}

#endif
