#include <stdlib.h>

#include "base/memory.h"
#include "graph/plan_impl.h"

static int larger_first(const void *a, const void *b) {
    const ls_plan_buffer *x = *(ls_plan_buffer *const *)a, *y = *(ls_plan_buffer *const *)b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? 1 : -1;
    return x->first != y->first ? (x->first > y->first) - (x->first < y->first) : (x > y) - (x < y);
}

static int overlap(const ls_plan_buffer *a, const ls_plan_buffer *b) {
    return a->first <= b->last && b->first <= a->last;
}

// The lowest offset at which `b` does not meet any of the placed buffers it shares time with.
static int64_t lowest_offset(ls_plan_buffer *const *placed, int count, const ls_plan_buffer *b) {
    int64_t offset = 0;
    for (int moved = 1; moved;) {
        moved = 0;
        for (int i = 0; i < count; i++) {
            int64_t end = placed[i]->offset + ls_round_up(placed[i]->bytes, LS_ALIGN);
            if (overlap(placed[i], b) && offset < end && placed[i]->offset < offset + b->bytes) {
                offset = end;
                moved = 1;
            }
        }
    }
    return offset;
}

int64_t ls__arena_place(ls_plan_buffer *buffers, int count) {
    ls_plan_buffer **order = malloc((size_t)(count + 1) * sizeof(ls_plan_buffer *));
    if (!order) return -1;
    int used = 0;
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        if (buffers[i].bytes > 0 && buffers[i].first >= 0 && !buffers[i].joins) order[used++] = &buffers[i];
    qsort(order, (size_t)used, sizeof *order, larger_first);
    for (int i = 0; i < used; i++) {
        order[i]->offset = lowest_offset(order, i, order[i]);
        int64_t end = order[i]->offset + ls_round_up(order[i]->bytes, LS_ALIGN);
        if (end > total) total = end;
    }
    free(order);
    return total;
}
