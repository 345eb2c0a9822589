#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "graph/plan_impl.h"

ls_status ls_params_create(const ls_store *store, ls_device *device, ls_params **out) {
    ls_params *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    p->store = store;
    p->count = store->count;
    p->device = device;
    ls_status status = ls_calloc(store->count, sizeof *p->place, &p->place);
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
    for (int i = 0; i < p->count; i++) {
        ls_kernel_destroy(&p->place[i].to_plain);
        ls_kernel_destroy(&p->place[i].from_plain);
    }
    for (int i = 0; i < p->copy_count; i++) {
        ls_kernel_destroy(&p->copies[i].reorder);
        ls_buffer_destroy(&p->copies[i].scratch);
    }
    ls_buffer_destroy(&p->scratch);
    free(p->copies);
    free(p->place);
    free(p);
    *params = NULL;
}

ls_status ls_params_twin(const ls_params *p, ls_params **out) {
    ls_params *twin;
    LS_TRY(ls_params_create(p->store, p->device, &twin));
    twin->count = p->count;
    twin->used = p->used;
    twin->sealed = 1;
    ls_status status = LS_OK;
    for (int i = 0; i < p->count && status == LS_OK; i++) {
        const ls_param_place *from = &p->place[i];
        ls_param_place *to = &twin->place[i];
        *to = (ls_param_place){.layout = from->layout, .plain = from->plain, .offset = from->offset};
        if (from->to_plain)
            status = p->device->ops->reorder_create(p->device, from->layout, from->plain, &to->to_plain);
    }
    if (status != LS_OK) {
        ls_params_destroy(&twin);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = twin;
    return LS_OK;
}

int64_t ls_params_length(const ls_params *p) { return ls_round_up(p->used, LS_VECTOR_ALIGN); }
int64_t ls_params_offset(const ls_params *p, int index) { return p->place[index].plain ? p->place[index].offset : -1; }

int64_t ls_params_copies_bytes(const ls_params *p) { return p->copies_bytes; }

ls_status ls_params_seal(ls_params *p) {
    for (int i = 0; i < p->count; i++) LS_TRY(ls__params_place(p, i, NULL));
    p->sealed = 1;
    return LS_OK;
}

ls_status ls__params_place(ls_params *p, int index, const ls_layout *layout) {
    ls_param_place *place = &p->place[index];
    ls_shape shape = p->store->params[index].shape;
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
    *copy = LS_NO_COPY;
    if (p->sealed) return LS_OK;
    ls_param_copy *grown = realloc(p->copies, (size_t)(p->copy_count + 1) * sizeof *grown);
    if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    p->copies = grown;
    ls_param_copy c = {.param = index, .layout = layout, .offset = p->copies_bytes};
    LS_TRY(p->device->ops->reorder_create(p->device, p->place[index].layout, layout, &c.reorder));
    ls_status status = ls_buffer_create(p->device, c.reorder->scratch_bytes, &c.scratch);
    if (status != LS_OK) {
        ls_kernel_destroy(&c.reorder);
        return status;
    }
    p->copies_bytes += ls_round_up(layout->bytes, LS_ALIGN);
    *copy = p->copy_count;
    p->copies[p->copy_count++] = c;
    return LS_OK;
}

// Copies part, part + parts, ... of the parameters that lie in [begin, end), apart from those that reach into [low, high).
typedef struct refreshing {
    const ls_params *params;
    ls_span weights, copies;
    int part, parts;
    int64_t begin, end, low, high;
} refreshing;

static ls_status refresh_copy(void *user, ls_queue *queue, int index) {
    const refreshing *r = user;
    const ls_params *p = r->params;
    const ls_param_copy *c = &p->copies[r->part + index * r->parts];
    const ls_param_place *place = &p->place[c->param];
    int64_t first = place->offset, last = first + place->layout->bytes / (int64_t)sizeof(float);
    if (first >= r->end || last <= r->begin || (r->low < r->high && last > r->low && first < r->high)) return LS_OK;
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = ls_span_at(r->weights, first * 4),
                                  [LS_ARG_Y] = ls_span_at(r->copies, c->offset),
                                  [LS_ARG_SCRATCH] = {c->scratch, 0}};
    return ls_kernel_run(c->reorder, queue, args);
}

ls_status ls_params_refresh_some(ls_params *p, ls_queue *queue, ls_span weights, ls_span copies, int64_t begin,
                                 int64_t end, int64_t low, int64_t high, int part, int parts) {
    refreshing r = {p, weights, copies, part, parts, begin, end, low, high};
    int count = part < p->copy_count ? (p->copy_count - part + parts - 1) / parts : 0;
    return ls_each(queue, count, refresh_copy, &r);
}

ls_status ls_params_refresh(ls_params *p, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts) {
    return ls_params_refresh_some(p, queue, weights, copies, 0, p->used, 0, 0, part, parts);
}

// Room on the device for `bytes`, and behind them for a kernel's scratch.
static ls_status make_room(ls_params *p, int64_t bytes, int64_t scratch_bytes) {
    bytes = ls_round_up(bytes, LS_ALIGN) + scratch_bytes;
    if (p->scratch && p->scratch->bytes >= bytes) return LS_OK;
    ls_buffer_destroy(&p->scratch);
    return ls_buffer_create(p->device, bytes, &p->scratch);
}

// Runs a reorder between the vector and `plain`, which is the host's: on devices whose memory that is, directly.
static ls_status reorder(ls_params *p, ls_queue *queue, ls_kernel *kernel, ls_span vector, float *plain, int out) {
    int64_t bytes = kernel->layout[out ? LS_ARG_Y : LS_ARG_X]->bytes;
    int direct = p->device->ops->host_memory;
    ls_buffer host = {.device = p->device, .bytes = bytes, .memory = plain, .borrowed = 1};
    LS_TRY(make_room(p, direct ? 0 : bytes, kernel->scratch_bytes));
    ls_span there = direct ? (ls_span){&host, 0} : (ls_span){p->scratch, 0};
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = out ? vector : there,
                                  [LS_ARG_Y] = out ? there : vector,
                                  [LS_ARG_SCRATCH] = {p->scratch, direct ? 0 : ls_round_up(bytes, LS_ALIGN)}};
    if (!direct && !out) LS_TRY(ls_write(queue, there, plain, bytes));
    LS_TRY(ls_kernel_run(kernel, queue, args));
    if (!direct && out) LS_TRY(ls_read(queue, plain, there, bytes));
    return ls_synchronize(queue);
}

// The store may have got more since.
static ls_status check_index(const ls_params *p, int index) {
    if (index < p->count) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "parameter %s came to the store after what is asked for it was made: build all graphs that share a "
                   "store first",
                   p->store->params[index].name);
}

ls_status ls_params_get(ls_params *p, ls_queue *queue, int index, ls_span vector, float *plain) {
    LS_TRY(check_index(p, index));
    const ls_param_place *place = &p->place[index];
    ls_span at = ls_span_at(vector, place->offset * 4);
    if (place->to_plain) return reorder(p, queue, place->to_plain, at, plain, 1);
    LS_TRY(ls_read(queue, plain, at, place->layout->bytes));
    return ls_synchronize(queue);
}

ls_status ls_params_set(ls_params *p, ls_queue *queue, int index, ls_span vector, const float *plain) {
    LS_TRY(check_index(p, index));
    const ls_param_place *place = &p->place[index];
    ls_span at = ls_span_at(vector, place->offset * 4);
    if (place->from_plain) return reorder(p, queue, place->from_plain, at, (float *)plain, 0);
    LS_TRY(ls_write(queue, at, plain, place->layout->bytes));
    return ls_synchronize(queue);
}

// The placed parameter with the smallest offset from `at` on; -1: none.
static int next_placed(const ls_params *p, int64_t at) {
    int next = -1;
    for (int i = 0; i < p->count; i++)
        if (p->place[i].layout && p->place[i].offset >= at && (next < 0 || p->place[i].offset < p->place[next].offset))
            next = i;
    return next;
}

ls_status ls_params_segments(const ls_params *p, const ls_graph *graph, ls_segment **segments, int *count) {
    ls_segment *list;
    LS_TRY(ls_calloc(p->count, sizeof *list, &list));
    int n = 0;
    for (int i = next_placed(p, 0); i >= 0; i = next_placed(p, p->place[i].offset + 1)) {
        const ls_param *param = &p->store->params[i];
        int statistic = param->role == LS_PARAM_STATISTIC;
        if (n > 0) list[n - 1].end = p->place[i].offset;
        list[n++] = (ls_segment){.begin = p->place[i].offset,
                                 .end = ls_params_length(p),
                                 .kernel = param->decay,
                                 .statistic = statistic,
                                 .momentum = statistic ? param->momentum : 0,
                                 .rate = param->rate,
                                 .decay_scale = param->decay_scale,
                                 .frozen = !ls__graph_trains(graph, i)};
    }
    *segments = list;
    *count = n;
    return LS_OK;
}
