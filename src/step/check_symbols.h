// What the checker knows of regions: for each run of elements what it holds, who wrote it and who
// has read it since.
#ifndef LS_STEP_CHECK_SYMBOLS_H
#define LS_STEP_CHECK_SYMBOLS_H

#include "step/check.h"

enum { LS__NOTHING, LS__NODE, LS__WEIGHTS, LS__STATE, LS__KEPT, LS__SQUARES, LS__SPARSE };
#define LS__ANY_SHIFT INT64_MIN

typedef struct ls__content {
    int kind, step;
    int64_t first, last;  // of a node: its micro-batches
    int64_t shift;        // element of the vector less element of the region
    int raw;              // 1: a leaf before top-k
    int joint;            // 1: several write parts of it
} ls__content;

typedef struct ls__access {
    int queue;
    uint32_t clock;
} ls__access;

typedef struct ls__accesses {
    ls__access *list;
    int count, capacity;
} ls__accesses;

typedef struct ls__run {
    int64_t begin, end;
    ls__content content;
    ls__accesses writers, readers;
} ls__run;

// What is sent: what the elements held then. Their memory may be written again after whoever
// received it says so, or after the queue that sent it has come to its step's end, where it waits
// for that.
typedef struct ls__send {
    int region;
    int64_t begin, end;
    ls__access receiver, ended;  // queue -1: not yet
    int queue;
    ls__run *runs;  // (run_count); NULL: received
    int run_count;
    struct ls__send *next;
} ls__send;

typedef struct ls__held {
    ls__run *runs;  // (count), in order, without gaps or overlaps where something was written
    int count, capacity;
    int64_t elements;
    ls__send *sends;
} ls__held;

typedef struct ls__symbols {
    ls__held *regions;
    int count, capacity;
    char words[160];  // about the latest fault
} ls__symbols;

ls_status ls__symbols_region(ls__symbols *memory, int64_t elements, int *number);
void ls__symbols_free(ls__symbols *memory);
ls_check_fault ls__symbols_read(ls__symbols *memory, int region, int64_t begin, int64_t end,
                                const ls__content *expected, int queue, const uint32_t *clock);
ls_check_fault ls__symbols_write(ls__symbols *memory, int region, int64_t begin, int64_t end,
                                 const ls__content *content, int queue, const uint32_t *clock);
ls_check_fault ls__symbols_copy(ls__symbols *memory, int from, int64_t from_at, int to, int64_t to_at, int64_t count,
                                int queue, const uint32_t *clock);
ls_check_fault ls__symbols_send(ls__symbols *memory, int region, int64_t begin, int64_t end, int queue,
                                const uint32_t *clock, ls__send **out);
// Into another region, by the queue that receives; the send is over.
ls_check_fault ls__symbols_receive(ls__symbols *memory, ls__send *send, int to, int64_t at, int queue,
                                   const uint32_t *clock);
// The queue has come to its step's end.
void ls__symbols_sent(ls__symbols *memory, int queue, const uint32_t *clock);
int ls__symbols_holds(ls__symbols *memory, int region, int64_t begin, int64_t end, const ls__content *content);

#endif
