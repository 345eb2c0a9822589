// Predictions and evaluation of batches that a program has: a runner, and one more for each size of what is evaluated.
#include <lockstep/predict.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/runner.h"
#include "train/measures.h"
#include "train/weights.h"

struct ls_predictor {
    const ls_graph *graph;  // the caller's
    ls_graph *objective;    // with the losses of a classifier, where it has none of its own; else NULL
    ls_device *device;
    ls_plan_config plan;
    ls_runner *runner;    // predicts, and has the weights
    ls_runner *evaluate;  // full batches; NULL: none yet
    ls_measures measures;
    char *padded;  // a batch of the largest input
};

void ls_predict_config_init(ls_predict_config *config) {
    if (!config) return;
    *config = (ls_predict_config){.device = "cpu", .precision = "fp32", .batch = 32, .threads = 1, .seed = 42};
}

static int64_t value_bytes(const ls_graph *graph, int input) {
    return ls_shape_count(ls_graph_input_at(graph, input).shape) * 4;  // F32 or I32
}

static ls_status build(ls_predictor *p, const ls_predict_config *c) {
    ls_device_options options = {.threads = c->threads, .isa = c->isa};
    LS_TRY(ls__graph_check_finished(p->graph));
    if (c->batch < 1 || c->threads < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a prediction takes at least 1 sample and 1 thread, not %lld and %d",
                       (long long)c->batch, c->threads);
    p->plan = (ls_plan_config){.batch = c->batch, .mode = LS_PLAN_PREDICTION};
    LS_TRY(ls_precision_find(c->precision, &p->plan.precision));
    LS_TRY(ls_device_create(c->device, &options, &p->device));
    if (p->device->ops->supports) LS_TRY(p->device->ops->supports(p->device, p->plan.precision));
    LS_TRY(ls_runner_create(p->graph, p->device, &p->plan, NULL, &p->runner));
    int64_t most = 0;
    for (int i = 0; i < p->graph->input_count; i++)
        if (value_bytes(p->graph, i) > most) most = value_bytes(p->graph, i);
    LS_TRY(ls_calloc(c->batch, most, &p->padded));
    return ls_runner_initialize(p->runner, c->seed);
}

ls_status ls_predictor_create(const ls_graph *graph, const ls_predict_config *config, ls_predictor **out) {
    LS_NEED(out, "out");
    *out = NULL;
    ls_predictor *p;
    if (!graph || !config)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a predictor was to be made without %s",
                       graph ? "a configuration" : "a graph");
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    p->graph = graph;
    ls_status status = build(p, config);
    if (status != LS_OK) {
        ls_predictor_destroy(&p);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = p;
    return LS_OK;
}

void ls_predictor_destroy(ls_predictor **predictor) {
    if (!predictor) return;
    ls_predictor *p = *predictor;
    *predictor = NULL;
    if (!p) return;
    ls_runner_destroy(&p->evaluate);
    ls_runner_destroy(&p->runner);
    ls_device_destroy(&p->device);
    ls__measures_destroy(&p->measures);
    ls_graph_destroy(&p->objective);
    free(p->padded);
    free(p);
}

// --- weights ---------------------------------------------------------------------------------------------------------

static ls_status get(void *user, int param, float *values) {
    ls_predictor *p = user;
    return ls_runner_get(p->runner, param, p->runner->weights, values);
}

static ls_status set(void *user, int param, const float *values) {
    ls_predictor *p = user;
    return ls_runner_set(p->runner, param, values);
}

static ls_status changed(void *user) {
    ls_predictor *p = user;
    return ls_runner_refresh(p->runner);
}

static ls_weights weights_of(ls_predictor *p) {
    return (ls_weights){.graph = p->graph, .finite = 1, .user = p, .get = get, .set = set, .changed = changed};
}

ls_status ls_predictor_load_weights(ls_predictor *p, const char *path) {
    LS_NEED(p, "predictor");
    LS_NEED(path, "path");
    ls_weights w = weights_of(p);
    return ls__weights_load(&w, path, 0, NULL);
}

ls_status ls_predictor_load_weights_by_name(ls_predictor *p, const char *path, int *taken) {
    LS_NEED(p, "predictor");
    LS_NEED(path, "path");
    ls_weights w = weights_of(p);
    return ls__weights_load(&w, path, 1, taken);
}

ls_status ls_predictor_save_weights(ls_predictor *p, const char *path) {
    LS_NEED(p, "predictor");
    LS_NEED(path, "path");
    ls_weights w = weights_of(p);
    return ls__weights_save(&w, path);
}

ls_status ls_predictor_get_weights(ls_predictor *p, const char *parameter, float *out, int64_t count) {
    LS_NEED(out, "out");
    LS_NEED(p, "predictor");
    LS_NEED(parameter, "parameter");
    ls_weights w = weights_of(p);
    return ls__weights_get(&w, parameter, out, count);
}

ls_status ls_predictor_set_weights(ls_predictor *p, const char *parameter, const float *values, int64_t count) {
    LS_NEED(p, "predictor");
    LS_NEED(parameter, "parameter");
    LS_NEED(values, "values");
    ls_weights w = weights_of(p);
    return ls__weights_set(&w, parameter, values, count);
}

// --- running ---------------------------------------------------------------------------------------------------------

// Samples [first, first + count) of all inputs; where the runner takes more, zeros follow.
static ls_status write_inputs(ls_predictor *p, ls_runner *r, int64_t first, int64_t count, const void *const *inputs) {
    int64_t batch = r->batch;
    for (int i = 0; i < r->graph->input_count; i++) {
        ls_dtype dtype;
        int64_t bytes = value_bytes(r->graph, i);
        if (!ls_plan_feed(r->plan, i, &dtype)) continue;
        if (!inputs || !inputs[i])
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "model %s needs its input \"%s\"", r->graph->name,
                           ls_graph_input_at(r->graph, i).name);
        const char *from = (const char *)inputs[i] + first * bytes;
        if (count < batch) {
            memcpy(p->padded, from, (size_t)(count * bytes));
            memset(p->padded + count * bytes, 0, (size_t)((batch - count) * bytes));
            from = p->padded;
        }
        LS_TRY(ls_runner_write(r, i, from));
    }
    return LS_OK;
}

// Whichever thread this is: how many threads kernels have, and how they compute, belongs to it.
static void use_thread(ls_predictor *p) {
    if (p->device->ops->thread_begin) p->device->ops->thread_begin(p->device, NULL, NULL);
}

static ls_status check_count(int64_t count) {
    if (count > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there are %lld samples to compute", (long long)count);
}

ls_status ls_predictor_run(ls_predictor *p, int64_t count, const void *const *inputs, float *const *outputs) {
    LS_NEED(p, "predictor");
    LS_NEED(inputs, "inputs");
    LS_NEED(outputs, "outputs");
    LS_TRY(check_count(count));
    for (int k = 0; k < p->graph->output_count; k++)
        if (!outputs[k])
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "model %s has nowhere to put its output \"%s\": its pointer is NULL", p->graph->name,
                           ls_graph_output_at(p->graph, k).name);
    use_thread(p);
    int64_t batch = p->plan.batch;
    for (int64_t first = 0; first < count; first += batch) {
        int64_t n = count - first < batch ? count - first : batch;
        LS_TRY(write_inputs(p, p->runner, first, n, inputs));
        LS_TRY(ls_runner_forward(p->runner, NULL));
        for (int k = 0; k < p->graph->output_count; k++) {
            int64_t values = ls_shape_count(ls_graph_output_at(p->graph, k).shape);
            LS_TRY(ls_runner_read(p->runner, k, n, outputs[k] + first * values));
        }
    }
    return LS_OK;
}

// What is evaluated: the graph, with the losses of a classifier where it has none.
static ls_status find_objective(ls_predictor *p, const ls_graph **out) {
    *out = p->objective ? p->objective : p->graph;
    if (p->measures.list) return LS_OK;
    if (!p->objective && !ls__graph_has_losses(p->graph))
        LS_TRY(ls__graph_with_classifier_loss(p->graph, 0, 0, &p->objective));
    *out = p->objective ? p->objective : p->graph;
    return ls__measures_create(*out, &p->measures);
}

// What evaluating has come to: sums, and rows by sample where a metric needs them, as ls__measures_values takes both.
typedef struct evaluation {
    const void *const *inputs;
    int64_t samples;
    double sum[LS_MAX_MEASURES];
    double *table;  // (row_width * samples); NULL: no metric has rows
    double *rows;   // (row_width * batch): of the latest batch
} evaluation;

static ls_status take_rows(const ls_measures *m, ls_runner *r, int64_t first, evaluation *e) {
    if (!e->table) return LS_OK;
    LS_TRY(ls_runner_rows(r, e->rows));
    for (int i = 0; i < m->count; i++) {
        const ls_measure *one = &m->list[i];
        if (!one->rows) continue;
        memcpy(e->table + one->at * e->samples + first * one->count, e->rows + one->at * r->batch,
               (size_t)(one->count * r->batch) * sizeof *e->rows);
    }
    return LS_OK;
}

// Class numbers are looked at before losses and metrics go by them: of a sequence each position's.
static ls_status check_targets(const ls_graph *g, const evaluation *e) {
    for (int i = 0; i < g->input_count; i++) {
        int64_t classes = ls__graph_target_classes(g, g->inputs[i]);
        int64_t each = ls_shape_count(ls_graph_input_at(g, i).shape);
        const int32_t *label = classes && e->inputs ? e->inputs[i] : NULL;
        for (int64_t n = 0; label && n < e->samples * each; n++)
            if (label[n] < 0 || label[n] >= classes)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "sample %lld: input \"%s\" of model %s is class %d, but its classes go from 0 to %lld",
                               (long long)(n / each), ls_graph_input_at(g, i).name, g->name, label[n],
                               (long long)classes - 1);
    }
    return LS_OK;
}

// Of a full batch of the runner's.
static ls_status evaluate_batch(ls_predictor *p, ls_runner *r, int64_t first, evaluation *e) {
    double row[LS_MAX_MEASURES] = {(double)r->batch};
    LS_TRY(write_inputs(p, r, first, r->batch, e->inputs));
    LS_TRY(ls_runner_forward(r, row + 1));
    ls__measures_add(&p->measures, e->sum, row);
    return take_rows(&p->measures, r, first, e);
}

static ls_status evaluate(ls_predictor *p, const ls_graph *graph, evaluation *e) {
    ls_plan_config config = p->plan;
    int64_t full = e->samples / config.batch * config.batch;
    config.mode = LS_PLAN_EVALUATION;
    LS_TRY(check_targets(graph, e));
    if (full && !p->evaluate) LS_TRY(ls_runner_create(graph, p->device, &config, p->runner, &p->evaluate));
    for (int64_t first = 0; first < full; first += config.batch) LS_TRY(evaluate_batch(p, p->evaluate, first, e));
    if (full == e->samples) return LS_OK;
    ls_runner *rest;  // sums are over a whole batch: what is left has a plan of its own
    config.batch = e->samples - full;
    LS_TRY(ls_runner_create(graph, p->device, &config, p->runner, &rest));
    ls_status status = evaluate_batch(p, rest, full, e);
    ls_runner_destroy(&rest);
    return status;
}

static ls_status find_values(const ls_predictor *p, const evaluation *e, double *values) {
    const ls_measures *m = &p->measures;
    ls_measured *measured;
    LS_TRY(ls_calloc(m->value_count, sizeof *measured, &measured));
    ls_status status = ls__measures_values(m, e->sum, e->table, e->samples, measured);
    for (int i = 0; i < m->value_count && status == LS_OK; i++) values[i] = measured[i].value;
    free(measured);
    return status;
}

ls_status ls_predictor_evaluate(ls_predictor *p, int64_t count, const void *const *inputs, double *loss,
                                double *accuracy, double *values) {
    LS_NEED(p, "predictor");
    LS_NEED(inputs, "inputs");
    const ls_graph *graph;
    evaluation e = {.inputs = inputs, .samples = count};
    LS_TRY(check_count(count));
    use_thread(p);
    LS_TRY(find_objective(p, &graph));
    int64_t width = p->measures.row_width;
    ls_status status = width ? ls_calloc(width * count, sizeof *e.table, &e.table) : LS_OK;
    if (status == LS_OK && width) status = ls_calloc(width * p->plan.batch, sizeof *e.rows, &e.rows);
    if (status == LS_OK) status = evaluate(p, graph, &e);
    if (status == LS_OK && values) status = find_values(p, &e, values);
    free(e.table);
    free(e.rows);
    LS_TRY(status);
    if (loss) *loss = ls__measures_loss(&p->measures, e.sum);
    if (accuracy) *accuracy = ls__measures_accuracy(&p->measures, e.sum);
    return LS_OK;
}

void ls_softmax(float *scores, int64_t rows, int classes) {
    if (!scores || classes < 1) return;
    for (float *x = scores; x < scores + rows * classes; x += classes) {
        float most = x[0];
        double sum = 0;
        for (int i = 1; i < classes; i++) most = x[i] > most ? x[i] : most;
        for (int i = 0; i < classes; i++) sum += exp((double)x[i] - most);
        for (int i = 0; i < classes; i++) x[i] = (float)(exp((double)x[i] - most) / sum);
    }
}
