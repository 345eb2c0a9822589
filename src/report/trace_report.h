// What a trace of 'lockstep train --trace' says, in numbers: where the time of its recorded steps went, which layers take most of
// it, who is waited for. docs/trace.md describes the file.
#ifndef LS_REPORT_TRACE_REPORT_H
#define LS_REPORT_TRACE_REPORT_H

#include <lockstep/status.h>

#include <stdint.h>

// Seconds per step. Everything but `hidden` adds up to `step`.
typedef struct ls_trace_times {
    double load, forward, backward, exchange, wait, update, serial;  // of a replica, which does one of them at a time
    double rest;                                                     // of the step, in none of them
    double step;
    double hidden;  // exchange that went on beside forward and backward
} ls_trace_times;

// A worker, as the mean over its replicas; where there is one worker only, each of its replicas.
typedef struct ls_trace_row {
    char name[64];  // "worker 3 on node2", "replica 1"
    ls_trace_times times;
    int64_t steps;    // recorded by each replica
    int64_t last;     // of them, in how many it was the last to have its gradients ready
    double lateness;  // seconds it was ready after the mean of all, the mean over steps; negative: before
} ls_trace_row;

typedef struct ls_trace_layer {
    char name[96];   // layer and pass
    double seconds;  // per step, all replicas together
    double share;    // of all layers' seconds
} ls_trace_layer;

typedef struct ls_trace_report {
    char model[64], data[64], precision[8], strategy[32];
    int workers, hosts, replicas_per_worker;
    int64_t epochs, steps_per_epoch, steps_asked, recorded_epochs, recorded_first_step, recorded_steps, dropped;
    double clock_error;
    ls_trace_row *rows;
    int row_count;
    ls_trace_times mean;     // over all replicas
    ls_trace_layer *layers;  // slowest first
    int layer_count;
    int64_t spans;
} ls_trace_report;

// Whether `path` is such a trace: a file, or a folder with trace.json and no study.
int ls_trace_report_is(const char *path);
// Errors: NOT_FOUND, IO, BAD_DATA (not a trace of Lockstep's, or not whole: says which line).
ls_status ls_trace_report_load(const char *path, ls_trace_report **out);
void ls_trace_report_free(ls_trace_report **report);
// For a terminal, to be freed with free(). Errors: OUT_OF_MEMORY.
ls_status ls_trace_report_text(const ls_trace_report *report, const char *path, char **text);

#endif
