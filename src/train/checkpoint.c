// When checkpoints are taken, and which are kept.
#define _GNU_SOURCE
#include "train/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"
#include "base/output.h"

void ls_checkpoint_config_init(ls_checkpoint_config *config) {
    if (config) *config = (ls_checkpoint_config){.every_epochs = 1, .keep = 2, .keep_best = 1};
}

int64_t ls__snapshot_bytes(const ls_trainer *t) {
    return ls__checkpoint_vectors(t) * ls_params_length(t->params) * (int64_t)sizeof(float);
}

// --- setting up ------------------------------------------------------------------------------------------------------

static ls_status check_config(const ls_checkpoint_config *c) {
    if (!c->folder || !*c->folder)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "checkpoints need a folder: ls_checkpoint_config.folder");
    if (c->every_steps < 0 || !(c->every_seconds >= 0) || c->every_epochs < 0 || c->keep < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "checkpoints are taken every so many steps, seconds and epochs, none of them below 0, and at "
                       "least one is kept");
    return LS_OK;
}

static int epoch_is_kept(const ls_checkpointer *c, int epoch) {
    for (const char *p = c->keep_epochs; p && *p; p += *p == ',') {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p) return 0;
        if (n == epoch) return 1;
        p = end;
    }
    return 0;
}

static ls_status check_list(const char *text) {
    for (const char *p = text; p && *p;) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || n < 1 || (*end && *end != ','))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epochs to keep are a list like 30,60,85, not '%.80s'", text);
        p = end + (*end == ',');
    }
    return LS_OK;
}

static ls_status cannot_use(const char *folder) {
    return LS_FAIL(LS_STATUS_IO, "cannot keep checkpoints in %s: %s; name a folder that can be written to", folder,
                   strerror(errno));
}

// Makes the folder, with those that it lies in, and finds out whether it can be written to.
static ls_status try_folder(const char *folder) {
    char *probe;
    if (ls_output_folder(folder) != 0) return cannot_use(folder);
    if (asprintf(&probe, "%s/.probe", folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    int made = mkdir(probe, 0777) == 0 || errno == EEXIST, why = errno;
    rmdir(probe);
    free(probe);
    errno = why;
    return made ? LS_OK : cannot_use(folder);
}

// Oldest first, without those that nobody can tell the age of: they are left alone.
static int oldest_first(ls_checkpoint_entry *list, int count) {
    int known = 0;
    for (int i = 0; i < count; i++)
        if (list[i].all_steps != INT64_MAX) list[known++] = list[i];
    for (int i = 0; i < known / 2; i++) {
        ls_checkpoint_entry swap = list[i];
        list[i] = list[known - 1 - i];
        list[known - 1 - i] = swap;
    }
    return known;
}

// What jobs that were killed have left of checkpoints that they wrote or removed.
static void remove_parts(const char *folder) {
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        const char *end = strrchr(entry->d_name, '.');
        if (entry->d_name[0] != '.' || !end || (strcmp(end, ".part") != 0 && strcmp(end, ".gone") != 0)) continue;
        char *path;
        if (asprintf(&path, "%s/%s", folder, entry->d_name) < 0) break;
        ls__checkpoint_clear(path);
        free(path);
    }
    if (dir) closedir(dir);
}

// What is in the folder already. Those of a training that this one does not go on with are not to be written over.
static ls_status look_around(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    LS_TRY(try_folder(c->folder));
    LS_TRY(ls__checkpoints_list(c->folder, &c->entries, &c->entry_count));
    if (c->entry_count > 0 && t->at.all_steps == 0)
        return LS_FAIL(
            LS_STATUS_IO,
            "%s has checkpoints of an earlier training, the newest %s: resume from it, or name another folder",
            c->folder, c->entries[0].name);
    c->entry_count = oldest_first(c->entries, c->entry_count);
    remove_parts(c->folder);
    return LS_OK;
}

static ls_status copy_texts(ls_checkpointer *c, const ls_checkpoint_config *config) {
    LS_TRY(ls_strdup(config->folder, &c->folder));
    if (config->keep_epochs) LS_TRY(ls_strdup(config->keep_epochs, &c->keep_epochs));
    if (config->recipe) LS_TRY(ls_strdup(config->recipe, &c->recipe));
    return LS_OK;
}

static ls_status set_up(ls_trainer *t, const ls_checkpoint_config *config) {
    ls_checkpointer *c = t->checkpoints;
    c->config = *config;
    c->vectors = ls__checkpoint_vectors(t);
    c->length = ls_params_length(t->params);
    c->taken = ls_clock();
    c->looked = t->at.all_steps;
    LS_TRY(copy_texts(c, config));
    LS_TRY(check_list(c->keep_epochs));
    json_t *recipe = c->recipe ? json_loads(c->recipe, JSON_REJECT_DUPLICATES, NULL) : NULL;
    int is_object = json_is_object(recipe);
    json_decref(recipe);
    if (c->recipe && !is_object)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a checkpoint's recipe is a JSON object, as {\"lr\": 0.1}, or NULL");
    if (t->comm->rank != 0) return LS_OK;
    LS_TRY(ls_params_twin(t->params, &c->params));
    return look_around(t);
}

ls_status ls_trainer_checkpoints(ls_trainer *t, const ls_checkpoint_config *config) {
    LS_NEED(t, "trainer");
    LS_NEED(config, "config");
    if (t->checkpoints) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "this trainer takes checkpoints already");
    ls_comm_enter(t->comm, __func__);
    LS_TRY(ls_comm_agree(t->comm, check_config(config)));
    ls_status status = ls_comm_agree(t->comm, ls_calloc(1, sizeof *t->checkpoints, &t->checkpoints));
    if (status == LS_OK) status = ls_comm_agree(t->comm, set_up(t, config));
    if (status != LS_OK) {
        ls__checkpoints_destroy(t);
        return status;
    }
    t->takes_checkpoints = 1;
    t->memory = ls__trainer_memory(t);
    status = ls_comm_agree(t->comm, ls__memory_check(t));
    ls_checkpointer *c = t->checkpoints;
    int64_t bytes = t->comm->host == 0 ? ls__snapshot_bytes(t) : LS_ALIGN;
    if (status == LS_OK) status = ls_comm_host_alloc(t->comm, bytes, &c->snapshot);
    if (status != LS_OK) ls__checkpoints_destroy(t);
    return status;
}

void ls__checkpoints_destroy(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    if (!c) return;
    ls__snapshot_join(t);
    ls_comm_host_free(&c->snapshot);
    ls_params_destroy(&c->params);
    free(c->job.path);
    free(c->job.beside);
    free(c->job.state);
    free(c->folder);
    free(c->keep_epochs);
    free(c->recipe);
    free(c->entries);
    free(c);
    t->checkpoints = NULL;
}

// --- which are kept --------------------------------------------------------------------------------------------------

static int best_entry(const ls_checkpointer *c) {
    int best = -1;
    for (int i = 0; i < c->entry_count; i++)
        if (!isnan(c->entries[i].score) && (best < 0 || c->entries[i].score > c->entries[best].score)) best = i;
    return best;
}

// One at the end of epoch E goes on in epoch E + 1.
static int is_kept(const ls_checkpointer *c, int index, int best) {
    const ls_checkpoint_entry *e = &c->entries[index];
    return index >= c->entry_count - c->config.keep || (c->config.keep_best && index == best) ||
           (e->step == 0 && epoch_is_kept(c, e->epoch - 1));
}

static void prune(ls_checkpointer *c) {
    int best = best_entry(c), kept = 0;
    for (int i = 0; i < c->entry_count; i++) {
        if (is_kept(c, i, best)) continue;
        ls__checkpoint_remove(c->folder, c->entries[i].name);
        c->entries[i].name[0] = 0;
    }
    for (int i = 0; i < c->entry_count; i++)
        if (c->entries[i].name[0]) c->entries[kept++] = c->entries[i];
    c->entry_count = kept;
}

// It stands in the folder now, in place of one of the same name where there was one.
static void enter(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    const ls_checkpoint_job *job = &c->job;
    int kept = 0;
    for (int i = 0; i < c->entry_count; i++)
        if (strcmp(c->entries[i].name, job->name) != 0) c->entries[kept++] = c->entries[i];
    c->entry_count = kept;
    ls_checkpoint_entry *grown = realloc(c->entries, (size_t)(kept + 1) * sizeof *grown);
    if (!grown) return;  // then nothing is removed for it
    c->entries = grown;
    ls_checkpoint_entry *e = &grown[c->entry_count++];
    *e = (ls_checkpoint_entry){.epoch = job->epoch, .step = job->step, .score = job->score};
    memcpy(e->name, job->name, sizeof e->name);
    prune(c);
}

// --- what came of one ------------------------------------------------------------------------------------------------

static void tell(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    const ls_checkpoint_job *job = &c->job;
    ls_checkpoint_report report = {.path = job->path,
                                   .epoch = job->epoch,
                                   .step = job->step,
                                   .bytes = job->bytes,
                                   .pause = job->pause,
                                   .seconds = job->seconds,
                                   .status = job->status,
                                   .sentence = job->sentence};
    if (c->config.written) c->config.written(c->config.user, &report);
}

// Worker 0: the thread is through.
static void finish(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    const ls_checkpoint_job *job = &c->job;
    ls__snapshot_join(t);
    c->failed = job->status;
    snprintf(c->failure, sizeof c->failure, "%s", job->sentence);
    if (job->status == LS_OK) {
        c->costs.written++;
        c->costs.bytes = job->bytes;
        enter(t);
    } else {
        c->costs.failed++;
    }
    tell(t);
}

ls_status ls_trainer_checkpoint_wait(ls_trainer *t) {
    LS_NEED(t, "trainer");
    ls_checkpointer *c = t->checkpoints;
    if (!c) return LS_OK;
    ls_comm_enter(t->comm, __func__);
    ls_status status = LS_OK;
    if (c->busy) finish(t);
    if (t->comm->rank == 0 && c->failed != LS_OK) status = LS_FAIL(c->failed, "%s", c->failure);
    return ls_comm_agree(t->comm, status);
}

ls_checkpoint_costs ls_trainer_checkpoint_costs(const ls_trainer *t) {
    return t && t->checkpoints ? t->checkpoints->costs : (ls_checkpoint_costs){0};
}

// --- taking one ------------------------------------------------------------------------------------------------------

// Worker 0: what the snapshot will be called, and where training is.
static ls_status prepare(ls_trainer *t, const double *sum) {
    ls_checkpointer *c = t->checkpoints;
    ls_checkpoint_job *job = &c->job;
    const ls_history *h = &t->history;
    free(job->path);
    free(job->beside);
    free(job->state);
    *job = (ls_checkpoint_job){.epoch = t->at.epoch, .step = t->at.step, .score = NAN, .begun = job->begun};
    if (t->at.step == 0) {
        snprintf(job->name, sizeof job->name, "epoch-%04d", t->at.epoch - 1);
        if (h->done > 0) job->score = ls_epoch_score(&h->epochs[h->done - 1]);
    } else {
        snprintf(job->name, sizeof job->name, "step-%09lld", (long long)t->at.all_steps);
    }
    if (asprintf(&job->path, "%s/%s", c->folder, job->name) < 0) job->path = NULL;
    if (asprintf(&job->beside, "%s/.%s.part", c->folder, job->name) < 0) job->beside = NULL;
    if (!job->path || !job->beside) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    return ls__state_write(t, sum, c->recipe, &job->state);
}

// Between two steps or epochs; nothing is being written.
static ls_status take_now(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    ls_comm *comm = t->comm;
    double sum[LS_MAX_MEASURES], begun = ls_clock();
    if (c->busy) finish(t);              // only worker 0 knows: the others of its host
    LS_TRY(ls_comm_host_barrier(comm));  // must not touch the snapshot while it is being written
    ls_status trained = ls__replicas_trained(t);
    if (trained != LS_OK) {  // what the latest step made of weights is nobody's: the one before stays
        c->failed = trained;
        snprintf(c->failure, sizeof c->failure, "no checkpoint is taken, since training has failed: %s",
                 ls_error_message());
        return LS_OK;
    }
    memcpy(sum, t->at.sum, (size_t)t->measures.width * sizeof *sum);
    c->job.begun = begun;
    t->history.not_finite = -1;
    if (t->at.running) LS_TRY(ls__measures_gather(t, 1, t->at.step * t->train_shape.micro_batches, sum));
    if (t->history.not_finite >= 0 &&
        t->choices.not_finite != LS_NOT_FINITE_CONTINUE) {  // the one before is the last that is good
        c->failed = LS_STATUS_DIVERGED;
        snprintf(c->failure, sizeof c->failure, "no checkpoint is taken: the loss is no finite number any more");
        return LS_OK;
    }
    LS_TRY(ls__snapshot_take(t));
    ls_status status = comm->rank == 0 ? prepare(t, sum) : LS_OK;
    c->taken = ls_clock();
    c->fresh = 1;
    c->job.pause = c->taken - begun;
    c->costs.pause += c->job.pause;
    if (status == LS_OK && comm->rank == 0) status = ls__snapshot_write(t);
    return ls_comm_agree(comm, status);
}

static ls_status take(ls_trainer *t) {
    LS_TRY(ls__weights_home(t));
    ls_flight_mark(LS_FLIGHT_CHECKPOINT, t->at.epoch, t->at.step);
    ls_status status = take_now(t);
    ls_flight_mark(LS_FLIGHT_BETWEEN, t->at.epoch, t->at.step);
    return status;
}

ls_status ls_trainer_checkpoint_now(ls_trainer *t) {
    LS_NEED(t, "trainer");
    if (!t->checkpoints)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "call ls_trainer_checkpoints first, which says where to");
    if (t->at.running && t->at.step == t->train_shape.steps)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epoch %d has no step left: end it, then take a checkpoint",
                       t->at.epoch);
    ls_comm_enter(t->comm, __func__);
    LS_TRY(take(t));
    return ls_trainer_checkpoint_wait(t);
}

int ls__checkpoint_due(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    if (!c || t->comm->rank != 0) return 0;
    const ls_checkpoint_config *config = &c->config;
    if (c->busy && atomic_load(&c->done)) finish(t);
    int64_t before = t->async ? c->looked : t->at.all_steps;  // others' steps come between a worker's own
    c->looked = t->at.all_steps + 1;
    if (config->every_steps > 0 && c->looked / config->every_steps > before / config->every_steps) {
        double since = ls_clock();
        if (c->busy) finish(t);
        c->costs.pause += ls_clock() - since;
        return 1;
    }
    return !c->busy && config->every_seconds > 0 && ls_clock() - c->taken >= config->every_seconds;
}

ls_status ls__checkpoint_after_step(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    if (!c) return LS_OK;
    c->fresh = 0;
    // After the last step of an epoch its end takes one.
    if (t->at.decision != LS_VOTE_CHECKPOINT || t->at.step == t->train_shape.steps) return LS_OK;
    return take(t);
}

// The epoch that has just ended was better on the test set than all before it.
static int best_so_far(const ls_trainer *t) {
    const ls_history *h = &t->history;
    double score = h->done > 0 ? ls_epoch_score(&h->epochs[h->done - 1]) : NAN;
    if (isnan(score)) return 0;
    for (int i = 0; i < h->done - 1; i++)
        if (ls_epoch_score(&h->epochs[i]) >= score) return 0;
    return 1;
}

ls_status ls__checkpoint_after_epoch(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    if (!c || c->fresh || t->at.step > 0) return LS_OK;
    int done = t->at.epoch - 1, every = c->config.every_epochs;
    int wanted = done == t->config.epochs || (every > 0 && done % every == 0) || epoch_is_kept(c, done) ||
                 t->at.decision == LS_VOTE_CHECKPOINT || (c->config.keep_best && best_so_far(t));
    return wanted ? take(t) : LS_OK;
}

ls_status ls__checkpoint_at_end(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    if (!c) return LS_OK;
    if (!c->fresh && t->at.all_steps > t->at.steps_before) LS_TRY(take(t));
    ls_trainer_checkpoint_wait(t);  // what could not be written has been told, and ends no training
    return LS_OK;
}
