// Predictions and evaluation without a trainer: a graph, weights, and batches of a program's own. No labels, no test set, no workers.
//
// Nothing here is collective, and nothing communicates.
#ifndef LOCKSTEP_PREDICT_H
#define LOCKSTEP_PREDICT_H

#include <lockstep/graph.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_predictor ls_predictor;

typedef struct ls_predict_config {
    const char *device;     // "cpu" (the default), "ref"
    const char *precision;  // "fp32" (the default), "bf16", "fp16"
    const char *isa;        // as ls_train_config.isa; NULL is the default
    int64_t batch;          // samples a run takes at most; default 32
    int threads;            // default 1
    uint64_t seed;          // of the weights until others are set; default 42
} ls_predict_config;

void ls_predict_config_init(ls_predict_config *config);

// Of a finished graph; its losses and metrics are not computed. Borrows the graph. The caller destroys it. One thread at a time uses it;
// several may be used at once. Errors: INVALID_ARGUMENT, UNSUPPORTED, OUT_OF_MEMORY.
ls_status ls_predictor_create(const ls_graph *graph, const ls_predict_config *config, ls_predictor **out);
void ls_predictor_destroy(ls_predictor **predictor);

// As ls_trainer_load_weights and its like, from this process's file system alone.
ls_status ls_predictor_load_weights(ls_predictor *predictor, const char *path);
ls_status ls_predictor_load_weights_by_name(ls_predictor *predictor, const char *path, int *taken);
ls_status ls_predictor_save_weights(ls_predictor *predictor, const char *path);
ls_status ls_predictor_get_weights(ls_predictor *predictor, const char *parameter, float *out, int64_t count);
ls_status ls_predictor_set_weights(ls_predictor *predictor, const char *parameter, const float *values, int64_t count);

// Computes the graph's outputs for `count` samples, any number: inputs[i] is (count, ...) F32 or I32 as input i of the graph says, NULL
// for those that no output depends on; outputs[k] gets (count, ...) F32 of output k. Scores are as the graph gives them, without a
// softmax where it has none. Errors: INVALID_ARGUMENT (an input is missing), what kernels fail with.
ls_status ls_predictor_run(ls_predictor *predictor, int64_t count, const void *const *inputs, float *const *outputs);

// The losses and metrics of the graph, or of a classifier without any, over `count` samples: inputs as above, targets included.
// values (may be NULL) gets one number for each value, as ls_trainer_measure lists them; *loss (may be NULL) their sum, *accuracy
// (may be NULL) the first accuracy, NAN where there is none.
ls_status ls_predictor_evaluate(ls_predictor *predictor, int64_t count, const void *const *inputs, double *loss,
                                double *accuracy, double *values);

// Probabilities from scores in place: softmax over rows of `classes`.
void ls_softmax(float *scores, int64_t rows, int classes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
