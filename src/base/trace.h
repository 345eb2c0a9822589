// A recorder of what a thread does when: spans of time, into memory that is there before. It knows nothing of what the names
// stand for. One thread writes a recorder; others look at it when that thread rests.
#ifndef LS_BASE_TRACE_H
#define LS_BASE_TRACE_H

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include <lockstep/status.h>

typedef struct ls_trace_event {
    double start, end;  // on ls_clock()
    int32_t name;       // index into a table of names that readers share
    int32_t number;     // shown with it: of a step, an epoch; 0: none
} ls_trace_event;

typedef struct ls_trace {
    ls_trace_event *events;  // (capacity)
    int64_t count, capacity;
    int64_t dropped;  // for which there was no room
    _Atomic int on;   // nothing is recorded while it is 0; others than the writer may switch it
} ls_trace;

// Makes room for `capacity` events and touches it, so that recording never waits for memory. Call it from the thread that will
// write. The trace starts with zeroes. Errors: OUT_OF_MEMORY.
ls_status ls_trace_allocate(ls_trace *trace, int64_t capacity);
void ls_trace_release(ls_trace *trace);  // leaves it as it was before

// Whether to read the clock for it at all; NULL: no.
static inline int ls_trace_on(ls_trace *trace) {
    return trace && atomic_load_explicit(&trace->on, memory_order_relaxed);
}

static inline void ls_trace_switch(ls_trace *trace, int on) {
    atomic_store_explicit(&trace->on, on, memory_order_relaxed);
}

// Whatever `on` says: the caller has asked it before it read the clock.
static inline void ls_trace_add(ls_trace *trace, int name, int number, double start, double end) {
    if (trace->count == trace->capacity) {
        trace->dropped++;
        return;
    }
    trace->events[trace->count++] = (ls_trace_event){start, end, name, number};
}

// --- as a file -------------------------------------------------------------------------------------------------------
//
// Chrome's trace format, which Perfetto and chrome://tracing open: https://ui.perfetto.dev, "Trace Event Format". One event a line,
// written by hand: there may be a million, and a tree of them in memory would be many times their size.

typedef struct ls_trace_name {
    const char *text, *category;
} ls_trace_name;

// How a recorder's clock becomes that of the whole trace: `offset` is how much it is ahead, which changes evenly in between.
typedef struct ls_trace_clock {
    double zero;                    // on the trace's clock: what the file calls 0
    double from, to;                // on the recorder's clock, when the offset was measured
    double offset_from, offset_to;  // then
} ls_trace_clock;

// Nanoseconds since the trace's zero.
int64_t ls_trace_time(const ls_trace_clock *clock, double seconds);

typedef struct ls_trace_file {
    FILE *out;
    int facts, events;  // written so far
} ls_trace_file;

// In this order: begin, facts about the whole ("otherData"), labels and spans, end. Whether all was written is for ferror to say.
// A process is a group of tracks, a thread one track of it; both are numbers from 1.
void ls_trace_file_begin(ls_trace_file *file, FILE *out);
void ls_trace_file_text(ls_trace_file *file, const char *fact, const char *value);
void ls_trace_file_number(ls_trace_file *file, const char *fact, double value);
void ls_trace_file_process(ls_trace_file *file, int process, const char *label);
void ls_trace_file_thread(ls_trace_file *file, int process, int thread, const char *label);
void ls_trace_file_spans(ls_trace_file *file, int process, int thread, const ls_trace_event *events, int64_t count,
                         const ls_trace_name *names, const ls_trace_clock *clock);
void ls_trace_file_end(ls_trace_file *file);

#endif
