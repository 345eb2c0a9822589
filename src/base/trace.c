#include "base/trace.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

ls_status ls_trace_allocate(ls_trace *trace, int64_t capacity) {
    LS_TRY(ls_memory_alloc(capacity * (int64_t)sizeof *trace->events, &trace->events));  // zeroed, hence touched
    trace->capacity = capacity;
    trace->count = trace->dropped = 0;
    return LS_OK;
}

void ls_trace_release(ls_trace *trace) {
    ls_memory_free(trace->events);
    trace->events = NULL;
    trace->count = trace->capacity = trace->dropped = 0;
    ls_trace_switch(trace, 0);
}

// --- as a file -------------------------------------------------------------------------------------------------------

int64_t ls_trace_time(const ls_trace_clock *c, double seconds) {
    double share = c->to > c->from ? (seconds - c->from) / (c->to - c->from) : 0;
    double offset = c->offset_from + share * (c->offset_to - c->offset_from);
    return llround((seconds - offset - c->zero) * 1e9);
}

static void quoted(FILE *out, const char *text) {
    fputc('"', out);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            fprintf(out, "\\%c", *p);
        else if (*p < ' ')
            fprintf(out, "\\u%04x", *p);
        else
            fputc(*p, out);
    }
    fputc('"', out);
}

void ls_trace_file_begin(ls_trace_file *file, FILE *out) {
    *file = (ls_trace_file){.out = out};
    fputs("{\"otherData\":{", out);
}

static void fact(ls_trace_file *file, const char *name) {
    fputs(file->facts++ ? ",\n" : "", file->out);
    quoted(file->out, name);
    fputc(':', file->out);
}

void ls_trace_file_text(ls_trace_file *file, const char *name, const char *value) {
    fact(file, name);
    quoted(file->out, value);
}

void ls_trace_file_number(ls_trace_file *file, const char *name, double value) {
    fact(file, name);
    fprintf(file->out, "%.15g", value);
}

static void next_event(ls_trace_file *file) {
    fputs(file->events++ ? ",\n" : "},\n\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n", file->out);
}

static void label(ls_trace_file *file, int process, int thread, const char *kind, const char *text) {
    next_event(file);
    fprintf(file->out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_name\",\"args\":{\"name\":", process, thread,
            kind);
    quoted(file->out, text);
    fputs("}}", file->out);
    // Viewers would sort by name otherwise, and "worker 10" comes before "worker 2".
    next_event(file);
    fprintf(file->out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}",
            process, thread, kind, thread ? thread : process);
}

void ls_trace_file_process(ls_trace_file *file, int process, const char *text) {
    label(file, process, 0, "process", text);
}

void ls_trace_file_thread(ls_trace_file *file, int process, int thread, const char *text) {
    label(file, process, thread, "thread", text);
}

// Microseconds with all the digits there are.
static void microseconds(FILE *out, int64_t ns) {
    int64_t whole = ns / 1000, rest = ns % 1000;
    fprintf(out, "%s%lld.%03lld", ns < 0 ? "-" : "", llabs(whole), llabs(rest));
}

void ls_trace_file_spans(ls_trace_file *file, int process, int thread, const ls_trace_event *events, int64_t count,
                         const ls_trace_name *names, const ls_trace_clock *clock) {
    FILE *out = file->out;
    for (int64_t i = 0; i < count; i++) {
        const ls_trace_event *e = &events[i];
        const ls_trace_name *name = &names[e->name];
        // Both ends are rounded, then subtracted: what lay inside another span still does.
        int64_t start = ls_trace_time(clock, e->start), end = ls_trace_time(clock, e->end);
        next_event(file);
        fprintf(out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":", process, thread);
        microseconds(out, start);
        fputs(",\"dur\":", out);
        microseconds(out, end - start);
        fputs(",\"cat\":", out);
        quoted(out, name->category);
        fputs(",\"name\":", out);
        quoted(out, name->text);
        if (e->number) {
            fputs(",\"args\":{", out);
            quoted(out, name->text);
            fprintf(out, ":%d}", (int)e->number);
        }
        fputc('}', out);
    }
}

void ls_trace_file_end(ls_trace_file *file) { fputs(file->events ? "\n]}\n" : "},\"traceEvents\":[]}\n", file->out); }
