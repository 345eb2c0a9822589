#include "base/trace.h"

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
