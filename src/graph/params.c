#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_impl.h"

ls_status ls_params_create(const ls_graph *graph, ls_device *device, ls_params **out) {
    ls_params *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    p->graph = graph;
    p->device = device;
    ls_status status = ls_calloc(graph->param_count, sizeof *p->place, &p->place);
    if (status != LS_OK) {
        free(p);
        return status;
    }
    *out = p;
    return LS_OK;
}

void ls_params_destroy(ls_params **params) {
    ls_params *p = *params;
    if (!p) return;
    for (int i = 0; i < p->graph->param_count; i++) {
        ls_kernel_destroy(&p->place[i].to_plain);
        ls_kernel_destroy(&p->place[i].from_plain);
    }
    for (int i = 0; i < p->copy_count; i++) {
        ls_kernel_destroy(&p->copies[i].reorder);
        ls_memory_free(p->copies[i].scratch);
    }
    ls_memory_free(p->scratch);
    free(p->copies);
    free(p->place);
    free(p);
    *params = NULL;
}

int64_t ls_params_length(const ls_params *p) { return ls_round_up(p->used, LS_VECTOR_ALIGN); }
int64_t ls_params_copies_bytes(const ls_params *p) { return p->copies_bytes; }

ls_status ls__params_place(ls_params *p, int index, const ls_layout *layout) {
    ls_param_place *place = &p->place[index];
    ls_shape shape = p->graph->params[index].shape;
    if (place->layout) return LS_OK;
    LS_TRY(p->device->ops->layout_plain(p->device, shape, LS_DTYPE_F32, shape.ndim > 1, &place->plain));
    if (!layout) layout = place->plain;
    if (layout != place->plain) {
        LS_TRY(p->device->ops->reorder_create(p->device, layout, place->plain, &place->to_plain));
        LS_TRY(p->device->ops->reorder_create(p->device, place->plain, layout, &place->from_plain));
    }
    place->offset = ls_round_up(p->used, LS_VECTOR_ALIGN);
    place->layout = layout;
    p->used = place->offset + layout->bytes / (int64_t)sizeof(float);
    return LS_OK;
}

ls_status ls__params_want(ls_params *p, int index, const ls_layout *layout, int *copy) {
    *copy = LS_MASTER;
    if (p->place[index].layout == layout) return LS_OK;
    for (int i = 0; i < p->copy_count; i++)
        if (p->copies[i].param == index && p->copies[i].layout == layout) {
            *copy = i;
            return LS_OK;
        }
    ls_param_copy *grown = realloc(p->copies, (size_t)(p->copy_count + 1) * sizeof *grown);
    if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    p->copies = grown;
    ls_param_copy c = {.param = index, .layout = layout, .offset = p->copies_bytes};
    LS_TRY(p->device->ops->reorder_create(p->device, p->place[index].layout, layout, &c.reorder));
    ls_status status = ls_memory_alloc(c.reorder->scratch_bytes, &c.scratch);
    if (status != LS_OK) {
        ls_kernel_destroy(&c.reorder);
        return status;
    }
    p->copies_bytes += ls_round_up(layout->bytes, LS_ALIGN);
    *copy = p->copy_count;
    p->copies[p->copy_count++] = c;
    return LS_OK;
}

void ls_params_refresh(ls_params *p, const float *weights, void *copies, int part, int parts) {
    for (int i = part; i < p->copy_count; i += parts) {
        ls_param_copy *c = &p->copies[i];
        void *args[LS_ARG_COUNT] = {[LS_ARG_X] = (void *)(weights + p->place[c->param].offset),
                                    [LS_ARG_Y] = (char *)copies + c->offset,
                                    [LS_ARG_SCRATCH] = c->scratch};
        ls_kernel_run(c->reorder, args);
    }
}

// Reorders through memory of our own, since the caller's arrays may be unaligned.
static ls_status reorder(ls_params *p, ls_kernel *kernel, const void *from, void *to) {
    if (kernel->scratch_bytes > p->scratch_bytes) {
        ls_memory_free(p->scratch);
        p->scratch = NULL;
        LS_TRY(ls_memory_alloc(kernel->scratch_bytes, &p->scratch));
        p->scratch_bytes = kernel->scratch_bytes;
    }
    void *args[LS_ARG_COUNT] = {[LS_ARG_X] = (void *)from, [LS_ARG_Y] = to, [LS_ARG_SCRATCH] = p->scratch};
    return ls_kernel_run(kernel, args);
}

ls_status ls_params_get(ls_params *p, int index, const float *vector, float *plain) {
    const ls_param_place *place = &p->place[index];
    if (place->to_plain) return reorder(p, place->to_plain, vector + place->offset, plain);
    memcpy(plain, vector + place->offset, (size_t)place->layout->bytes);
    return LS_OK;
}

ls_status ls_params_set(ls_params *p, int index, float *vector, const float *plain) {
    const ls_param_place *place = &p->place[index];
    if (place->from_plain) return reorder(p, place->from_plain, plain, vector + place->offset);
    memcpy(vector + place->offset, plain, (size_t)place->layout->bytes);
    return LS_OK;
}

// The placed parameter with the smallest offset from `at` on; -1: none.
static int next_placed(const ls_params *p, int64_t at) {
    int next = -1;
    for (int i = 0; i < p->graph->param_count; i++)
        if (p->place[i].layout && p->place[i].offset >= at && (next < 0 || p->place[i].offset < p->place[next].offset))
            next = i;
    return next;
}

ls_status ls_params_segments(const ls_params *p, ls_segment **segments, int *count) {
    ls_segment *list;
    LS_TRY(ls_calloc(p->graph->param_count, sizeof *list, &list));
    int n = 0;
    for (int i = next_placed(p, 0); i >= 0; i = next_placed(p, p->place[i].offset + 1)) {
        const ls_param *param = &p->graph->params[i];
        int statistic = param->role == LS_PARAM_STATISTIC;
        if (n > 0) list[n - 1].end = p->place[i].offset;
        list[n++] = (ls_segment){.begin = p->place[i].offset,
                                 .end = ls_params_length(p),
                                 .kernel = param->decay,
                                 .statistic = statistic,
                                 .momentum = statistic ? param->momentum : 0};
    }
    *segments = list;
    *count = n;
    return LS_OK;
}
