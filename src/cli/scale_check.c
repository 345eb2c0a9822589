// What can be found out before hours of runs.
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/check.h"
#include "cli/scale.h"

#ifndef LS_WITH_MPI
#define LS_WITH_MPI 0
#endif

static ls_status check_start(const scale_grid *g) {
    char path[4096];
    int nodes = scale_most_nodes(g);
    const char *there = getenv("SLURM_JOB_NUM_NODES");
    if (nodes > 1 && !getenv("SLURM_JOB_ID"))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--nodes: %d nodes need a Slurm allocation, and there is none: run this from a batch job with --nodes=%d, "
            "or leave --nodes out",
            nodes, nodes);
    if (nodes > 1 && there && atoi(there) < nodes)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--nodes: %d nodes asked for, and this Slurm allocation has %s",
                       nodes, there);
    if (scale_most_workers(g) == 1) return LS_OK;
    if (!LS_WITH_MPI)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "several workers: this lockstep was built without MPI and runs as one worker");
    if (!cli_job_mpiexec(path, sizeof path) && !(getenv("SLURM_JOB_ID") && cli_job_srun(path, sizeof path)))
        return LS_FAIL(LS_STATUS_NOT_FOUND,
                       "cannot start several workers: there is no mpirun or mpiexec on PATH; "
                       "'lockstep check' says what is missing");
    return LS_OK;
}

// The configuration becomes that of one worker. The micro-batch must not depend on the number of workers.
static ls_status set_one_worker(const scale_grid *g, scale_variant *v, int64_t count) {
    int64_t workers = scale_most_workers(g), batch = v->config.batch_size;
    if (v->config.micro_batch == 0) v->config.micro_batch = ls_micro_batch_default(batch);
    if (g->mode == SCALE_BATCH) {
        int64_t samples = v->config.limit_train > 0 && v->config.limit_train < count ? v->config.limit_train : count;
        if (batch * workers <= samples) return LS_OK;
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "batches of %lld for each of %lld workers are %lld samples, and there are %lld to train on: lower "
            "--batch-size (of one worker) or the workers",
            (long long)batch, (long long)workers, (long long)(batch * workers), (long long)samples);
    }
    if (v->config.limit_train == 0) v->config.limit_train = count / workers / batch * batch;
    if (v->config.limit_train >= batch && v->config.limit_train <= count / workers) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "weak scaling to %lld workers takes %lld times the samples of one, at least a batch of %lld each, and the "
        "dataset has %lld: lower --limit-train (of one worker), --batch-size (of one worker) or the workers",
        (long long)workers, (long long)workers, (long long)batch, (long long)count);
}

static ls_status plan(const ls_context *context, const ls_dataset *data, const scale_grid *g, const char *model,
                      const scale_variant *v, const scale_layout *layout) {
    ls_model_config network = v->model;
    ls_graph *graph;
    ls_memory memory;
    ls_train_config config = v->config;
    scale_layout one = *layout;
    ls_memory_job job = {.workers = scale_workers(&one), .hosts = one.nodes, .dataset = data, .program = 1};
    char needs[32], has[32];
    if (g->mode != SCALE_STRONG) config.batch_size *= job.workers;
    if (g->mode == SCALE_WEAK) config.limit_train *= job.workers;
    ls_train_fit_model(&config, data, &network);
    LS_TRY(ls_model_build(model, &network, &graph));
    ls_status status = ls_memory_plan(context, graph, &job, &config, &memory);
    ls_graph_destroy(&graph);
    LS_TRY(status);
    int64_t there = check_host_memory();
    if (there <= 0 || memory.total.host <= there) return LS_OK;
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY,
                   "the workers of a host would take %s, and this one has %s: 'lockstep plan %s' says where that goes",
                   ls_bytes_text(memory.total.host, needs), ls_bytes_text(there, has), model);
}

// The layouts with the fewest and the most workers stand for those between them, and the one with the most on a host for its memory.
static ls_status check_layouts(const ls_context *context, const ls_dataset *data, const scale_grid *g,
                               const char *model, const scale_variant *v) {
    int least = 0, most = 0, dense = 0;
    for (int i = 1; i < g->layout_count; i++) {
        if (scale_workers(&g->layouts[i]) < scale_workers(&g->layouts[least])) least = i;
        if (scale_workers(&g->layouts[i]) > scale_workers(&g->layouts[most])) most = i;
        if (g->layouts[i].per_node > g->layouts[dense].per_node) dense = i;
    }
    const int which[] = {least, most, dense};
    for (int k = 0; k < 3; k++) {
        if ((k > 0 && which[k] == least) || (k > 1 && which[k] == most)) continue;
        const scale_layout *l = &g->layouts[which[k]];
        ls_status status = plan(context, data, g, model, v, l);
        if (status != LS_OK)
            return ls__fail_context(status, "%s%s%s with %d worker%s cannot be trained: ", model,
                                    v->label[0] ? ", " : "", v->label, scale_workers(l),
                                    scale_workers(l) == 1 ? "" : "s");
    }
    return LS_OK;
}

static ls_status check_variant(ls_context *context, scale_grid *g, scale_variant *v) {
    ls_dataset *data;
    ls_status status = ls_dataset_open(context, v->data, &data);
    if (status == LS_OK && g->mode != SCALE_STRONG) status = set_one_worker(g, v, ls_dataset_train_count(data));
    for (int m = 0; m < g->model_count && status == LS_OK; m++)
        status = check_layouts(context, data, g, g->models[m], v);
    ls_dataset_destroy(&data);
    return status;
}

ls_status scale_check(scale_grid *g) {
    ls_context *context;
    LS_TRY(check_start(g));
    LS_TRY(ls_context_create_alone(&context));
    ls_status status = LS_OK;
    for (int i = 0; i < g->variant_count && status == LS_OK; i++) status = check_variant(context, g, &g->variants[i]);
    ls_context_destroy(&context);
    // What the variants have in common, for the study's own description.
    if (status == LS_OK && g->variant_count == 1) g->common = g->variants[0];
    return status;
}
