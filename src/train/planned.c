// Training that is only planned: where its memory would go, and what a step of it would do.
#include <lockstep/program.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/context.h"
#include "train/trainer_impl.h"

// Where there is none: one step's worth of samples, so that all plans but those of tails are made.
static ls_status nothing(const ls_graph *graph, int64_t batch, ls_dataset **out) {
    int classes = ls_graph_classes(graph), count = 0;
    ls_field fields[LS_MAX_FIELDS] = {{"image", ls_graph_input_at(graph, 0).shape, LS_DTYPE_U8, 0}};
    for (int i = 0; i < graph->input_count && i < LS_MAX_FIELDS - 1; i++) {
        ls_port port = ls_graph_input_at(graph, i);
        if (port.dtype != LS_DTYPE_I32) continue;
        int64_t known = ls__graph_target_classes(graph, graph->inputs[i]);
        fields[i] = (ls_field){.shape = port.shape, .dtype = LS_DTYPE_U8, .classes = known ? (int)known : 1};
        snprintf(fields[i].name, sizeof fields[i].name, "%s", port.name);
        count = i + 1;
    }
    if (!count) count = 1;
    if (!ls__graph_has_losses(graph))
        fields[count++] = (ls_field){"label", {0}, LS_DTYPE_I32, classes > 0 ? classes : 1};
    return ls_data_create_planned("none", fields, count, batch, batch, out);
}

// The cores that each worker would have, if all hosts were like this one.
static ls_status find_cores(ls_trainer *t) {
    ls_spread *s = &t->spread;
    ls_comm *self;
    LS_TRY(ls_comm_create_self(&self));
    ls_status status = ls__topology_create(self, t->config.hyperthreads, &t->topology);
    ls_comm_destroy(&self);
    LS_TRY(status);
    ls_cores host = ls__topology_mine(t->topology);
    LS_TRY(ls_calloc(t->comm->local_size, sizeof *s->have, &s->have));
    for (s->kinds = 0; s->kinds < t->comm->local_size; s->kinds++)
        s->have[s->kinds] = ls__cores_share(&host, s->kinds, t->comm->local_size);
    s->mine = s->have[0];
    s->cores = ls__cores_count(&host) / t->comm->local_size;
    return LS_OK;
}

static void resolve_batch(ls_trainer *t) {
    ls_train_config *c = &t->config;
    if (c->batch_size != 0) return;
    int threads = c->threads < 1 ? 1 : c->threads, cores = t->spread.cores;
    int fit = cores / threads < 1 ? 1 : cores / threads;
    c->batch_size = c->micro_batch * t->comm->size * (c->replicas > 0 ? c->replicas : fit);
}

// What is asked of the trainer that is only planned: where memory goes, or the program of a step.
typedef struct question {
    ls_memory *memory;  // NULL: not asked for
    FILE *program;
    int json;
} question;

static ls_status plan(ls_trainer *t, int thought_of, const ls_memory_job *job, const question *asked) {
    char unused[65];
    LS_TRY(ls__trainer_check(t));
    if (thought_of) {  // no tail in evaluation either
        t->eval_split.count = t->eval_shape.micro_batch;
        t->eval_shape = ls__epoch_shape(t->eval_split.count, t->eval_split.count, t->eval_shape.micro_batch);
    }
    LS_TRY(ls__results_digest(t, unused));
    LS_TRY(ls__trainer_plan(t, 2));  // replicas beyond the second are as the second
    if (job->program) t->program_bytes = job->program;
    t->program_bytes += job->more;
    if (asked->memory) *asked->memory = ls__trainer_memory(t);
    if (asked->program) ls_engine_print(t->engine, asked->json, asked->program);
    return LS_OK;
}

static ls_status plan_on_dataset(ls_trainer *t, const ls_memory_job *job, const question *asked) {
    ls_dataset *none = NULL;
    LS_TRY(find_cores(t));
    resolve_batch(t);
    if (!job->dataset) LS_TRY(nothing(t->network, t->config.batch_size, &none));
    t->dataset = job->dataset ? job->dataset : none;
    ls_status status = plan(t, !job->dataset, job, asked);
    ls_data_close(&none);
    return status;
}

// Of worker `rank`, which is on the first host where it is 0.
static ls_status answer(const ls_context *context, const ls_graph *graph, const ls_memory_job *job,
                        const ls_train_config *config, int rank, const question *asked) {
    ls_comm *comm;
    ls_trainer *t;
    LS_TRY(ls_comm_create_planned(job->workers ? job->workers : 1, job->hosts ? job->hosts : 1, rank, &comm));
    ls_status status = ls_calloc(1, sizeof *t, &t);
    if (status == LS_OK) {
        t->comm = comm;
        t->network = graph;
        t->config = *config;
        t->takes_checkpoints = job->checkpoints;
        t->program_bytes = context->rss;
        t->rss_begun = ls_memory_rss();
        status = plan_on_dataset(t, job, asked);
        ls_trainer_destroy(&t);
    }
    ls_comm_destroy(&comm);
    return status;
}

ls_status ls_memory_plan(const ls_context *context, const ls_graph *graph, const ls_memory_job *job,
                         const ls_train_config *config, ls_memory *out) {
    LS_NEED(out, "out");
    LS_NEED(context, "context");
    LS_NEED(graph, "graph");
    LS_NEED(job, "job");
    LS_NEED(config, "config");
    ls_status status = answer(context, graph, job, config, 0, &(question){.memory = out});
    return status == LS_OK ? LS_OK : ls__fail_passed(status, __FILE__, __LINE__);
}

ls_status ls_program_text(const ls_context *context, const ls_graph *graph, const ls_memory_job *job,
                          const ls_train_config *config, int worker, int json, char **text) {
    LS_NEED(text, "text");
    LS_NEED(context, "context");
    LS_NEED(graph, "graph");
    LS_NEED(job, "job");
    LS_NEED(config, "config");
    size_t size;
    *text = NULL;
    FILE *out = open_memstream(text, &size);
    if (!out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory for the text of a program");
    ls_status status = answer(context, graph, job, config, worker, &(question){.program = out, .json = json});
    if (fclose(out) != 0 && status == LS_OK)
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory for the text of a program");
    if (status == LS_OK) return LS_OK;
    free(*text);
    *text = NULL;
    return ls__fail_passed(status, __FILE__, __LINE__);
}
