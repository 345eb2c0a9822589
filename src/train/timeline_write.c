// Bringing a job's timelines together: one clock, one file. Everything travels over the communicator, so that hosts need no folder
// in common.
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "train/trainer_impl.h"

enum { TAG_CLOCK = 71, TAG_EVENTS = 72 };

#define ROUNDS       32         // messages there and back; the fastest counts
#define CHUNK_EVENTS (1 << 15)  // in a message

// --- clocks ----------------------------------------------------------------------------------------------------------

static ls_status send(ls_comm *comm, const void *data, int64_t bytes, int to, int tag) {
    ls_request request = {.native = NULL};
    LS_TRY(ls_comm_isend(comm, data, bytes, LS_DTYPE_U8, to, tag, &request));
    return ls_comm_wait_all(comm, &request, 1);
}

static ls_status receive(ls_comm *comm, void *data, int64_t bytes, int from, int tag) {
    ls_request request = {.native = NULL};
    LS_TRY(ls_comm_irecv(comm, data, bytes, LS_DTYPE_U8, from, tag, &request));
    return ls_comm_wait_all(comm, &request, 1);
}

// Worker 0's side: asks for the time and tells when it asked and when the answer came.
static ls_status ask(ls_comm *comm, double (*clock)(void), int lead) {
    for (int i = 0; i < ROUNDS; i++) {
        double asked = clock(), theirs;
        LS_TRY(send(comm, &asked, sizeof asked, lead, TAG_CLOCK));
        LS_TRY(receive(comm, &theirs, sizeof theirs, lead, TAG_CLOCK));
        double round[2] = {asked, clock()};
        LS_TRY(send(comm, round, sizeof round, lead, TAG_CLOCK));
    }
    return LS_OK;
}

// The lead's side. In the fastest round its clock was read nearly in the middle; source: Mills, RFC 5905 (NTP), section 8.
static ls_status answer(ls_comm *comm, double (*clock)(void), double *offset, double *error) {
    *error = 1e30;
    for (int i = 0; i < ROUNDS; i++) {
        double asked, mine, round[2];
        LS_TRY(receive(comm, &asked, sizeof asked, 0, TAG_CLOCK));
        mine = clock();
        LS_TRY(send(comm, &mine, sizeof mine, 0, TAG_CLOCK));
        LS_TRY(receive(comm, round, sizeof round, 0, TAG_CLOCK));
        double half = (round[1] - round[0]) / 2;
        if (half >= *error) continue;
        *error = half;
        *offset = mine - (round[0] + half);
    }
    return LS_OK;
}

ls_status ls__clock_offset(ls_comm *comm, double (*clock)(void), double *offset, double *error) {
    double mine[2] = {0, 0}, *all;
    ls_status status = LS_OK;
    for (int rank = 1; rank < comm->size && status == LS_OK; rank++) {
        int lead = comm->host_of[rank] != 0;
        for (int i = 0; i < rank; i++) lead &= comm->host_of[i] != comm->host_of[rank];
        if (lead && comm->rank == 0) status = ask(comm, clock, rank);
        if (lead && comm->rank == rank) status = answer(comm, clock, &mine[0], &mine[1]);
    }
    LS_TRY(status);
    LS_TRY(ls_calloc(comm->size, sizeof mine, &all));
    status = ls_comm_allgather(comm, mine, all, sizeof mine);
    for (int rank = comm->size - 1; rank >= 0; rank--)  // the lead is the lowest of its host
        if (comm->host_of[rank] == comm->host) {
            *offset = all[2 * rank];
            *error = all[2 * rank + 1];
        }
    free(all);
    return status;
}

// --- what goes into the file -----------------------------------------------------------------------------------------

// What worker 0 has to know of each.
typedef struct part {
    ls_trace_clock clock;
    double clock_error;
    int64_t dropped;
    char host[64];
} part;

typedef struct gathered {
    part *parts;      // (workers)
    int64_t *counts;  // (workers, 2 * replicas): events of each track
} gathered;

static ls_status gather(ls_trainer *t, gathered *g) {
    ls_timeline *l = t->timeline;
    int tracks = t->timeline->track_count;
    part mine = {.clock = l->clock};
    int64_t *counts;
    LS_TRY(ls__clock_offset(t->comm, ls_clock, &mine.clock.offset_to, &mine.clock_error));
    mine.clock.to = ls_clock();
    gethostname(mine.host, sizeof mine.host - 1);
    LS_TRY(ls_calloc(tracks, sizeof *counts, &counts));
    for (int i = 0; i < tracks; i++) {
        counts[i] = l->tracks[i]->count;
        mine.dropped += l->tracks[i]->dropped;
    }
    ls_status status = ls_calloc(t->comm->size, sizeof *g->parts, &g->parts);
    if (status == LS_OK) status = ls_calloc((int64_t)t->comm->size * tracks, sizeof *g->counts, &g->counts);
    if (status == LS_OK) status = ls_comm_allgather(t->comm, &mine, g->parts, sizeof mine);
    if (status == LS_OK) status = ls_comm_allgather(t->comm, counts, g->counts, tracks * (int64_t)sizeof *counts);
    free(counts);
    for (int w = 0; status == LS_OK && w < t->comm->size; w++) g->parts[w].clock.zero = g->parts[0].clock.from;
    return status;
}

static void write_facts(const ls_trainer *t, const gathered *g, ls_trace_file *f) {
    const ls_timeline *l = t->timeline;
    double error = 0, dropped = 0;
    for (int w = 0; w < t->comm->size; w++) {
        dropped += (double)g->parts[w].dropped;
        if (g->parts[w].clock_error > error) error = g->parts[w].clock_error;
    }
    ls_trace_file_number(f, "lockstep_trace", 1);
    ls_trace_file_text(f, "lockstep", ls_version());
    ls_trace_file_text(f, "model", t->graph->name);
    ls_trace_file_text(f, "data", t->dataset->name);
    ls_trace_file_text(f, "precision", t->config.precision);
    ls_trace_file_text(f, "strategy", t->config.strategy);
    const struct {
        const char *name;
        double value;
    } numbers[] = {
        {"workers", t->comm->size},
        {"hosts", t->comm->hosts},
        {"replicas_per_worker", t->spread.replicas},
        {"threads_per_replica", t->config.threads},
        {"global_batch", (double)t->config.batch_size},
        {"micro_batch", (double)t->config.micro_batch},
        {"epochs", t->history.done},
        {"steps_per_epoch", (double)t->train_shape.steps},
        {"steps_asked", (double)l->asked},
        {"recorded_epochs", l->epochs < t->history.done ? l->epochs : t->history.done},
        {"recorded_first_step", (double)l->first + 1},
        {"recorded_steps", (double)l->steps},
        {"dropped_events", dropped},
        {"clock_error_seconds", error},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ls_trace_file_number(f, numbers[i].name, numbers[i].value);
}

static void write_labels(const ls_trainer *t, const gathered *g, ls_trace_file *f) {
    char text[128];
    for (int w = 0; w < t->comm->size; w++) {
        snprintf(text, sizeof text, "worker %d on %s", w, g->parts[w].host);
        ls_trace_file_process(f, w + 1, text);
        for (int i = 0; i < t->timeline->track_count; i++) {
            snprintf(text, sizeof text, "%s %d", i < t->spread.replicas ? "replica" : "loader of replica",
                     i % t->spread.replicas);
            if (i == 2 * t->spread.replicas) snprintf(text, sizeof text, "exchange");
            ls_trace_file_thread(f, w + 1, i + 1, text);
        }
    }
}

// Worker 0 writes its own events and those that come from the others, one worker after the other; where there is no file (any more)
// it only takes them.
static ls_status collect(ls_trainer *t, const gathered *g, ls_trace_file *f, ls_trace_event *chunk) {
    ls_timeline *l = t->timeline;
    int tracks = t->timeline->track_count;
    for (int w = 0; w < t->comm->size; w++)
        for (int i = 0; i < tracks; i++)
            for (int64_t at = 0, count = g->counts[w * tracks + i]; at < count; at += CHUNK_EVENTS) {
                int64_t n = count - at < CHUNK_EVENTS ? count - at : CHUNK_EVENTS;
                const ls_trace_event *events = w == 0 ? l->tracks[i]->events + at : chunk;
                if (w > 0) LS_TRY(receive(t->comm, chunk, n * (int64_t)sizeof *chunk, w, TAG_EVENTS));
                if (!ferror(f->out)) ls_trace_file_spans(f, w + 1, i + 1, events, n, l->names, &g->parts[w].clock);
            }
    return LS_OK;
}

static ls_status hand_in(ls_trainer *t) {
    for (int i = 0; i < t->timeline->track_count; i++) {
        const ls_trace *track = t->timeline->tracks[i];
        for (int64_t at = 0; at < track->count; at += CHUNK_EVENTS) {
            int64_t n = track->count - at < CHUNK_EVENTS ? track->count - at : CHUNK_EVENTS;
            LS_TRY(send(t->comm, track->events + at, n * (int64_t)sizeof *track->events, 0, TAG_EVENTS));
        }
    }
    return LS_OK;
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the trace %s: %s", path, strerror(errno));
}

static ls_status write_file(ls_trainer *t, const gathered *g, ls_output *output, ls_trace_event *chunk,
                            const char *path) {
    ls_trace_file f;
    ls_trace_file_begin(&f, output->file);
    write_facts(t, g, &f);
    write_labels(t, g, &f);
    ls_status status = collect(t, g, &f, chunk);
    ls_trace_file_end(&f);
    if (ls_output_close(output, path, status == LS_OK) != 0 && status == LS_OK) status = cannot_write(path);
    return status;
}

// --- the public functions ----------------------------------------------------------------------------------------------

ls_status ls_trainer_trace(ls_trainer *t, int64_t steps) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    ls_timeline *timeline;
    if (steps < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a trace records at least 1 step of an epoch, not %lld",
                       (long long)steps);
    if (t->timeline || t->history.done > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a trace is asked for once, before training begins");
    return ls__timeline_create(t, steps, &timeline);
}

ls_status ls_trainer_trace_write(ls_trainer *t, const char *path) {
    LS_NEED(t, "trainer");
    ls_comm_enter(t->comm, __func__);
    LS_NEED(path || t->comm->rank != 0, "path");
    if (!t->timeline)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no trace to write: ask for one before training begins");
    gathered g = {.parts = NULL};
    ls_output output = {.file = NULL};
    ls_trace_event *chunk = NULL;
    int writes = t->comm->rank == 0;
    ls_status status = gather(t, &g);
    if (status == LS_OK && writes) {
        status = ls_memory_alloc(CHUNK_EVENTS * (int64_t)sizeof *chunk, &chunk);
        if (status == LS_OK && ls_output_open(path, &output) != 0) status = cannot_write(path);
    }
    status = ls_comm_agree(t->comm, status);
    if (status == LS_OK) {
        assert(g.parts && g.counts && (!writes || (output.file && chunk)));
        status = writes ? write_file(t, &g, &output, chunk, path) : hand_in(t);
        status = ls_comm_agree(t->comm, status);
    } else if (output.file) {
        ls_output_close(&output, path, 0);
    }
    ls_memory_free(chunk);
    free(g.parts);
    free(g.counts);
    return status;
}
