#include "train/topology.h"

#include <assert.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/context.h"

struct ls_topology {
    hwloc_topology_t hwloc;
    hwloc_bitmap_t allowed;
    hwloc_bitmap_t *core;  // the processing units of each of this worker's cores
    int cores, cores_least, host_cores;
};

#define CPUSET_TEXT 512  // long enough for a list of ranges on any host we know; cut off, it still tells sets apart

typedef struct worker_cores {
    char cpuset[CPUSET_TEXT];
} worker_cores;

// The processing units of core `index` among those allowed. Hosts that hide their cores count processing units instead.
static int allowed_cores(const ls_topology *t, hwloc_bitmap_t *out, int capacity) {
    hwloc_obj_type_t type = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    int count = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t->hwloc, type, o)) && count < capacity;) {
        if (!hwloc_bitmap_intersects(o->cpuset, t->allowed)) continue;
        if (out) {
            out[count] = hwloc_bitmap_alloc();
            hwloc_bitmap_and(out[count], o->cpuset, t->allowed);
        }
        count++;
    }
    return count;
}

static void free_cores(hwloc_bitmap_t *cores, int count) {
    for (int i = 0; cores && i < count; i++) hwloc_bitmap_free(cores[i]);
    free(cores);
}

// Divides the allowed cores between the workers of this host that have the same ones.
static ls_status divide(ls_topology *t, ls_comm *comm) {
    worker_cores mine = {""}, *all;
    hwloc_bitmap_list_snprintf(mine.cpuset, sizeof mine.cpuset, t->allowed);
    LS_TRY(ls_calloc(comm->size, sizeof *all, &all));
    ls_status status = ls_comm_allgather(comm, &mine, all, sizeof mine);
    int sharing = 0, before = 0, distinct = 0;
    for (int r = 0; r < comm->size && status == LS_OK; r++) {
        if (comm->host_of[r] != comm->host) continue;
        int same = strcmp(all[r].cpuset, mine.cpuset) == 0;
        sharing += same;
        before += same && r < comm->rank;
        distinct += !same;
    }
    free(all);
    if (status != LS_OK) return ls__fail_passed(status, __FILE__, __LINE__);
    int count = allowed_cores(t, NULL, 1 << 20);
    hwloc_bitmap_t *cores;
    LS_TRY(ls_calloc(count, sizeof *cores, &cores));
    count = allowed_cores(t, cores, count);
    assert(sharing > 0);  // this worker is one of them
    int first = (int)((int64_t)count * before / sharing), end = (int)((int64_t)count * (before + 1) / sharing);
    if (count < sharing) first = end = 0;
    t->cores = end - first;
    t->host_cores = distinct ? hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_CORE) : count;
    status = ls_calloc(t->cores, sizeof *t->core, &t->core);
    for (int i = 0; i < t->cores && status == LS_OK; i++) t->core[i] = hwloc_bitmap_dup(cores[first + i]);
    free_cores(cores, count);
    return status;
}

ls_status ls__topology_create(ls_comm *comm, ls_topology **out) {
    ls_topology *t;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *t, &t));
    t->allowed = hwloc_bitmap_alloc();
    if (hwloc_topology_init(&t->hwloc) != 0 || hwloc_topology_load(t->hwloc) != 0)
        LS_FAIL_GOTO(LS_STATUS_LIBRARY, fail, "hwloc could not read this machine's topology");
    if (hwloc_get_cpubind(t->hwloc, t->allowed, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(t->allowed, hwloc_topology_get_topology_cpuset(t->hwloc));
    LS_TRY_GOTO(divide(t, comm), fail);
    int *all;
    LS_TRY_GOTO(ls_calloc(comm->size, sizeof *all, &all), fail);
    status = ls_comm_allgather(comm, &t->cores, all, sizeof t->cores);
    t->cores_least = t->cores;
    for (int r = 0; r < comm->size; r++)
        if (all[r] < t->cores_least) t->cores_least = all[r];
    free(all);
    if (status != LS_OK) goto fail;
    *out = t;
    return LS_OK;
fail:
    ls_topology_destroy(&t);
    return status;
}

ls_status ls_topology_create(ls_context *context, ls_topology **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    ls_comm_enter(context->comm, __func__);
    return ls__topology_create(context->comm, out);
}

void ls_topology_destroy(ls_topology **topology) {
    if (!topology) return;
    ls_topology *t = *topology;
    if (!t) return;
    free_cores(t->core, t->cores);
    hwloc_bitmap_free(t->allowed);
    if (t->hwloc) hwloc_topology_destroy(t->hwloc);
    free(t);
    *topology = NULL;
}

int ls_topology_cores(const ls_topology *t) { return t ? t->cores : 0; }
int ls_topology_cores_least(const ls_topology *t) { return t ? t->cores_least : 0; }
int ls_topology_host_cores(const ls_topology *t) { return t ? t->host_cores : 0; }

void ls_topology_bind(const ls_topology *t, int first, int count) {
    if (!t) return;
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int i = first; i < first + count && i < t->cores; i++) hwloc_bitmap_or(set, set, t->core[i]);
    if (!hwloc_bitmap_iszero(set)) hwloc_set_cpubind(t->hwloc, set, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(set);
}

void ls_topology_unbind(const ls_topology *t) {
    if (!t) return;
    hwloc_set_cpubind(t->hwloc, t->allowed, HWLOC_CPUBIND_THREAD);
}
