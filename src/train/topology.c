#include "train/topology.h"

#include <assert.h>
#include <hwloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "base/memory.h"
#include "train/context.h"

struct ls_topology {
    hwloc_topology_t hwloc;
    hwloc_obj_type_t type;  // of what counts as a core
    hwloc_bitmap_t allowed;
    hwloc_bitmap_t *core;  // the processing units of each of this worker's cores, domain by domain
    int cores, cores_least, host_cores;
    double quota;  // cores whose time control groups allow, of the `shared` that this host's workers could use; 0: all
    int shared;
    ls_cores mine, *kinds;
    int kind_count;
};

#define CPUSET_TEXT 512  // long enough for a list of ranges on any host we know; cut off, it still tells sets apart

typedef struct worker_cores {
    char cpuset[CPUSET_TEXT];
    char group[CPUSET_TEXT];  // of control, where it limits their time
} worker_cores;

// The number of the NUMA domain that an object is in. Not all machines have told.
static int domain_of(const hwloc_obj_t o) {
    int d = o->nodeset ? hwloc_bitmap_first(o->nodeset) : 0;
    return d < 0 ? 0 : d;
}

// The allowed cores of one domain, appended to `out` unless NULL. Returns how many there are now.
static int add_cores(const ls_topology *t, int domain, hwloc_bitmap_t *out, int count) {
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t->hwloc, t->type, o));) {
        if (domain_of(o) != domain || !hwloc_bitmap_intersects(o->cpuset, t->allowed)) continue;
        if (out) {
            out[count] = hwloc_bitmap_alloc();
            hwloc_bitmap_and(out[count], o->cpuset, t->allowed);
        }
        count++;
    }
    return count;
}

// All allowed cores, domain by domain; `out` unless NULL has room for them.
static int allowed_cores(const ls_topology *t, hwloc_bitmap_t *out, ls_cores *cores) {
    int count = 0, last = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(t->hwloc, t->type, o));)
        if (domain_of(o) > last) last = domain_of(o);
    *cores = (ls_cores){0};
    for (int d = 0; d <= last; d++) {
        int before = count;
        count = add_cores(t, d, out, count);
        if (count == before) continue;
        if (cores->domains < LS_DOMAINS_MOST) cores->domains++;
        cores->count[cores->domains - 1] += count - before;
    }
    return count;
}

static void free_cores(hwloc_bitmap_t *cores, int count) {
    for (int i = 0; cores && i < count; i++) hwloc_bitmap_free(cores[i]);
    free(cores);
}

// The first `count` cores.
static void keep_first(ls_cores *cores, int count) {
    for (int d = 0; d < cores->domains; count -= cores->count[d++])
        if (cores->count[d] > count) cores->count[d] = count;
}

// Divides the allowed cores between the workers of this host that have the same ones, or as many as their control group allows the time of.
// The latter are not bound to any: other groups may share the machine.
static ls_status divide(ls_topology *t, ls_comm *comm) {
    worker_cores mine = {"", ""}, *all;
    double quota = ls_limits_group_cpus();
    hwloc_bitmap_list_snprintf(mine.cpuset, sizeof mine.cpuset, t->allowed);
    if (quota > 0) ls_limits_group_cpus_name(mine.group, sizeof mine.group);
    LS_TRY(ls_calloc(comm->size, sizeof *all, &all));
    ls_status status = ls_comm_allgather(comm, &mine, all, sizeof mine);
    int sharing = 0, before = 0, distinct = 0;
    for (int r = 0; r < comm->size && status == LS_OK; r++) {
        if (comm->host_of[r] != comm->host) continue;
        int same = strcmp(all[r].cpuset, mine.cpuset) == 0 && strcmp(all[r].group, mine.group) == 0;
        sharing += same;
        before += same && r < comm->rank;
        distinct += !same;
    }
    free(all);
    if (status != LS_OK) return ls__fail_passed(status, __FILE__, __LINE__);
    ls_cores host;
    int count = allowed_cores(t, NULL, &host);
    hwloc_bitmap_t *cores;
    LS_TRY(ls_calloc(count, sizeof *cores, &cores));
    allowed_cores(t, cores, &host);
    assert(sharing > 0);  // this worker is one of them
    t->shared = count;
    if (quota > 0 && quota + 0.01 < count) {
        t->quota = quota;
        count = (int)ceil(quota);
        keep_first(&host, count);
    }
    int first = (int)((int64_t)count * before / sharing), end = (int)((int64_t)count * (before + 1) / sharing);
    if (count < sharing) first = end = 0;
    t->cores = end - first;
    t->mine = ls__cores_share(&host, before, sharing);
    t->host_cores = distinct ? hwloc_get_nbobjs_by_type(t->hwloc, t->type) : count;
    status = ls_calloc(t->cores, sizeof *t->core, &t->core);
    for (int i = 0; i < t->cores && status == LS_OK; i++)
        t->core[i] = hwloc_bitmap_dup(t->quota > 0 ? t->allowed : cores[first + i]);
    free_cores(cores, t->shared);
    return status;
}

// What workers have, each kind once.
static ls_status compare(ls_topology *t, ls_comm *comm) {
    ls_cores *all;
    LS_TRY(ls_calloc(comm->size, sizeof *all, &all));
    ls_status status = ls_comm_allgather(comm, &t->mine, all, sizeof *all);
    for (int r = 0; r < comm->size && status == LS_OK; r++) {
        int cores = ls__cores_count(&all[r]), k = 0;
        if (r == 0 || cores < t->cores_least) t->cores_least = cores;
        while (k < t->kind_count && memcmp(&all[k], &all[r], sizeof *all) != 0) k++;
        if (k == t->kind_count) all[t->kind_count++] = all[r];
    }
    t->kinds = all;
    return status;
}

ls_status ls__topology_create(ls_comm *comm, int hyperthreads, ls_topology **out) {
    ls_topology *t;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *t, &t));
    t->allowed = hwloc_bitmap_alloc();
    if (hwloc_topology_init(&t->hwloc) != 0 || hwloc_topology_load(t->hwloc) != 0)
        LS_FAIL_GOTO(LS_STATUS_LIBRARY, fail, "hwloc could not read this machine's topology");
    // Hosts that hide their cores show processing units.
    int hidden = hwloc_get_nbobjs_by_type(t->hwloc, HWLOC_OBJ_CORE) <= 0;
    t->type = hyperthreads || hidden ? HWLOC_OBJ_PU : HWLOC_OBJ_CORE;
    if (hwloc_get_cpubind(t->hwloc, t->allowed, HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(t->allowed, hwloc_topology_get_topology_cpuset(t->hwloc));
    LS_TRY_GOTO(divide(t, comm), fail);
    LS_TRY_GOTO(compare(t, comm), fail);
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
    return ls__topology_create(context->comm, 0, out);
}

void ls_topology_destroy(ls_topology **topology) {
    if (!topology) return;
    ls_topology *t = *topology;
    if (!t) return;
    free_cores(t->core, t->cores);
    free(t->kinds);
    hwloc_bitmap_free(t->allowed);
    if (t->hwloc) hwloc_topology_destroy(t->hwloc);
    free(t);
    *topology = NULL;
}

ls_cores ls__topology_mine(const ls_topology *t) { return t->mine; }

double ls__topology_quota(const ls_topology *t, int *of) {
    *of = t->shared;
    return t->quota;
}

ls_status ls__topology_kinds(const ls_topology *t, ls_cores **out, int *count) {
    LS_TRY(ls_calloc(t->kind_count, sizeof **out, out));
    memcpy(*out, t->kinds, (size_t)t->kind_count * sizeof **out);
    *count = t->kind_count;
    return LS_OK;
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

void ls__topology_place(const ls_topology *t, int core, void *memory, int64_t bytes) {
    if (!t || !memory || bytes <= 0 || core >= t->cores || t->mine.domains < 2 || t->quota > 0) return;
    hwloc_set_area_membind(t->hwloc, memory, (size_t)bytes, t->core[core], HWLOC_MEMBIND_BIND, HWLOC_MEMBIND_MIGRATE);
}

void ls__topology_processor(const ls_topology *t, char *text, size_t size) {
    hwloc_obj_t package = t ? hwloc_get_obj_by_type(t->hwloc, HWLOC_OBJ_PACKAGE, 0) : NULL;
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    snprintf(text, size, "%s", model ? model : "a processor");
}
