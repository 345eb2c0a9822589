// Whether all hosts compute the same: before training every worker takes one and the same micro-batch, of numbers drawn by Philox, through
// the plan it is going to train with, and the digests of the gradients are compared. Kernels of another library, instruction set or
// processor may bear the same names and give other bits; then the weights would depend on who computed which micro-batch. Digests are kept from one
// job to the next (probe_cache.h).
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/text.h"
#include "train/probe_cache.h"
#include "train/sha256.h"
#include "train/trainer_impl.h"

enum { PROBE_STREAM = 0x50524F42, CHUNK_FLOATS = 1 << 18 };

// --- the micro-batch -------------------------------------------------------------------------------------------------

// Floating inputs are uniform in [0, 1); whole numbers are zero, which every class and every word is allowed to be.
static ls_status write_input(ls_replica *r, const ls_plan *plan, int index, ls_span to) {
    int64_t bytes = r->trainer->train_shape.micro_batch * r->trainer->inputs.bytes[index];
    ls_dtype dtype;
    char *values;
    if (!ls_plan_feed(plan, index, &dtype)) return LS_OK;
    LS_TRY(ls_calloc(bytes, 1, &values));
    int64_t count = bytes / (int64_t)ls_dtype_size(dtype);
    for (int64_t i = 0; i < count; i++) {
        float v = ls_uniform(ls_philox(PROBE_STREAM, (uint32_t)i, (uint32_t)index, 0, 0).v[0]);
        if (dtype == LS_DTYPE_F32) ((float *)(void *)values)[i] = v;
        if (dtype == LS_DTYPE_BF16) ((ls_bf16 *)(void *)values)[i] = ls_float_to_bf16(v);
        if (dtype == LS_DTYPE_F16) ((ls_fp16 *)(void *)values)[i] = ls_float_to_fp16(v);
    }
    ls_status status = ls_write(r->queue, to, values, bytes);
    if (status == LS_OK) status = ls_synchronize(r->queue);
    free(values);
    return status;
}

// Inputs lie in the memory of batches, which nobody uses yet.
static ls_status write_batch(ls_replica *r, const ls_plan *plan, ls_span inputs[LS_MAX_FIELDS]) {
    const ls_trainer *t = r->trainer;
    int64_t samples = t->train_shape.micro_batch, offset = 0;
    for (int i = 0; i < t->inputs.count; i++) {
        inputs[i] = ls_span_of(r->inputs, offset);
        LS_TRY(write_input(r, plan, i, inputs[i]));
        offset += ls_round_up(samples * t->inputs.bytes[i], LS_ALIGN);
    }
    r->key->seed = t->config.seed;
    r->key->epoch = 0;
    for (int64_t i = 0; i < samples; i++) r->key->samples[i] = (uint64_t)i;
    int64_t key = (int64_t)sizeof *r->key + samples * (int64_t)sizeof(uint64_t);
    return ls_write(r->queue, ls_span_of(r->random, 0), r->key, key);
}

// --- its digest ------------------------------------------------------------------------------------------------------

static ls_status add_gradient(EVP_MD_CTX *sha, ls_replica *r, ls_span gradient) {
    int64_t length = ls_params_length(r->trainer->params);
    float *values;
    LS_TRY(ls_memory_alloc(CHUNK_FLOATS * (int64_t)sizeof *values, &values));
    ls_status status = LS_OK;
    for (int64_t at = 0; at < length && status == LS_OK; at += CHUNK_FLOATS) {
        int64_t count = length - at < CHUNK_FLOATS ? length - at : CHUNK_FLOATS;
        status = ls_read(r->queue, values, ls_span_at(gradient, at * 4), count * 4);
        if (status == LS_OK) status = ls_synchronize(r->queue);
        if (status == LS_OK) EVP_DigestUpdate(sha, values, (size_t)count * 4);
    }
    ls_memory_free(values);
    return status;
}

static ls_status digest(ls_replica *r, ls_span gradient, char text[65]) {
    EVP_MD_CTX *sha;
    LS_TRY(ls__sha256_begin(&sha));
    ls_status status = add_gradient(sha, r, gradient);
    ls__sha256_end(sha, text);
    return status;
}

// A lane that has no micro-batch in a step has no gradient memory to use: it takes no part.
static int computes(const ls_trainer *t) {
    int64_t begin, end;
    ls__replica_deal(&t->replica[0], t->train_shape.micro_batches, &begin, &end);
    return begin < end;
}

static ls_status run(ls_plan *plan, ls_replica *r, const ls_feeds *feeds, ls_span gradient) {
    LS_TRY(ls_plan_forward(plan, r->queue, feeds));
    LS_TRY(ls_plan_backward(plan, r->queue, feeds, gradient));
    return ls_synchronize(r->queue);
}

// By this worker's first replica. *seconds: of a second time, where that is asked for.
static ls_status compute(ls_trainer *t, int timed, double *seconds, char text[65]) {
    ls_replica *r = &t->replica[0];
    ls_plan *plan = r->plan[LS_PLAN_KIND_TRAIN];
    ls_span inputs[LS_MAX_FIELDS];
    ls_feeds feeds = {.inputs = inputs, .random = ls_span_of(r->random, 0)};
    int64_t begin, end;
    text[0] = 0;
    ls__replica_deal(r, t->train_shape.micro_batches, &begin, &end);
    if (begin == end) return LS_OK;
    LS_TRY(write_batch(r, plan, inputs));
    ls_span gradient = ls_engine_scratch_gradient(t->engine, 0);
    ls_status status = run(plan, r, &feeds, gradient);
    if (status == LS_OK) status = digest(r, gradient, text);
    double start = ls_clock();
    if (status == LS_OK && timed) status = run(plan, r, &feeds, gradient);
    *seconds = timed ? ls_clock() - start : 0;
    return status;
}

// --- all workers -----------------------------------------------------------------------------------------------------

typedef struct answer {
    ls_probe_kept kept;  // digest "": takes no part
    char host[63];
} answer;

// The first worker whose answer is not that of `*first`, the first that has one; -1: there is none.
static int odd_one(const answer *all, int workers, int *first) {
    *first = -1;
    for (int w = 0; w < workers; w++) {
        if (!all[w].kept.digest[0]) continue;
        if (*first < 0) *first = w;
        if (strcmp(all[w].kept.digest, all[*first].kept.digest) != 0) return w;
    }
    return -1;
}

// Every answer is to be the same.
static ls_status compare(const answer *all, int workers, char digest[65]) {
    int first, odd = odd_one(all, workers, &first);
    if (odd >= 0)
        return LS_FAIL(LS_STATUS_MISMATCH,
                       "worker %d on host %s and worker %d on host %s compute different gradients from the same "
                       "micro-batch (%.12s and %.12s), so the weights would depend on who computes what: their "
                       "processors or libraries are not alike. Start the job on hosts of one kind, or pin the "
                       "instruction set to one that all of them have (isa, as avx2)",
                       first, all[first].host, odd, all[odd].host, all[first].kept.digest, all[odd].kept.digest);
    if (first >= 0) snprintf(digest, sizeof all[first].kept.digest, "%s", all[first].kept.digest);
    return LS_OK;
}

// What an earlier job has found counts only where every worker that computes has such a digest, and all are the same: else all compute, so that a
// file that is wrong can neither refuse a job nor stand beside a digest of today. timed: with its seconds.
static ls_status earlier(const ls_trainer *t, const char *key, int timed, answer *mine, answer *all, int *found) {
    int takes_part = computes(t), has = takes_part && key[0] && ls__probe_load(key, &mine->kept), none = 0, first;
    if (timed && !(mine->kept.seconds > 0)) has = 0;
    if (!has) snprintf(mine->kept.digest, sizeof mine->kept.digest, "%s", takes_part ? "none" : "");
    LS_TRY(ls_comm_allgather(t->comm, mine, all, sizeof *mine));
    for (int w = 0; w < t->comm->size; w++) none |= strcmp(all[w].kept.digest, "none") == 0;
    *found = !none && odd_one(all, t->comm->size, &first) < 0;
    return LS_OK;
}

static ls_status now(ls_trainer *t, const char *key, int timed, answer *mine, answer *all) {
    double start = ls_clock();
    int first;
    LS_TRY(ls_comm_agree(t->comm, compute(t, timed, &mine->kept.seconds, mine->kept.digest)));
    double took = ls_clock() - start - mine->kept.seconds;
    LS_TRY(ls_comm_allgather(t->comm, mine, all, sizeof *mine));
    if (key[0] && mine->kept.digest[0] && odd_one(all, t->comm->size, &first) < 0)
        ls__probe_store(key, &mine->kept, took);
    return LS_OK;
}

// What the micro-batch takes tells, with what the exchange of a step does, whether that should have a core. All workers go by worker 0.
static ls_status find_core(ls_trainer *t, const answer *all) {
    ls_spread *s = &t->spread;
    double seconds = 0, bytes = (double)ls_params_length(t->params) * sizeof(float);
    for (int w = 0; w < t->comm->size; w++) seconds = all[w].kept.seconds > seconds ? all[w].kept.seconds : seconds;
    int64_t workers = t->comm->size - s->roles.servers, v = (t->train_shape.micro_batches + workers - 1) / workers;
    s->core_pays = ls__spread_core_pays(v, s->cores, s->replicas, s->replicas_without, seconds,
                                        bytes * t->tuned.speed.processor_seconds);
    LS_TRY(ls_comm_broadcast(t->comm, &s->core_pays, 1, LS_DTYPE_I32, 0));
    size_t n = strlen(s->reason);
    if (!s->core_pays) ls_text_add(s->reason, sizeof s->reason, &n, "; the exchange shares them, as measured");
    return LS_OK;
}

// Of all that a gradient depends on. How cores are shared out shows in none.
static void find_key(ls_trainer *t, char key[65]) {
    char recipe[LS_TRAINER_RECIPE];
    int comm_cores = t->config.comm_cores;
    t->config.comm_cores = 0;
    ls__trainer_recipe(t, recipe);
    t->config.comm_cores = comm_cores;
    if (strlen(recipe) == sizeof recipe - 1 || !ls__probe_key(recipe, key)) key[0] = 0;  // all of the recipe, or none
}

ls_status ls__probe(ls_trainer *t) {
    int timed = t->spread.replicas_without > 0 && t->tuned.speed.processor_seconds > 0;
    answer mine = {.kept = {.digest = ""}}, *all;
    char key[65];
    int found;
    if (t->comm->hosts == 1 || t->home != t) return LS_OK;
    gethostname(mine.host, sizeof mine.host - 1);
    find_key(t, key);
    LS_TRY(ls_comm_agree(t->comm, ls_calloc(t->comm->size, sizeof mine, &all)));
    ls_status status = earlier(t, key, timed, &mine, all, &found);
    if (status == LS_OK && !found) status = now(t, key, timed, &mine, all);
    if (status == LS_OK) status = compare(all, t->comm->size, t->history.probe);
    if (status == LS_OK && timed) status = find_core(t, all);
    free(all);
    return status;
}
