// The mesh: who takes part in a step, and where.
//
// A *rank* is a member of the mesh: one device with its queues. Its *lanes* are the queues that
// compute; on a CPU they are the replicas of a worker. Ranks are numbered host by host. A mesh has
// four axes; micro-batches are dealt along `data` alone. The ranks that differ in one coordinate
// only are a *group*, which is a mesh of its own.
#ifndef LS_MESH_MESH_H
#define LS_MESH_MESH_H

#include <lockstep/status.h>
#include <stdint.h>

typedef enum ls_mesh_axis {
    LS_MESH_DATA,
    LS_MESH_PIPELINE,
    LS_MESH_TENSOR,
    LS_MESH_SEQUENCE,
    LS_MESH_AXES
} ls_mesh_axis;

typedef struct ls_mesh {
    int length[LS_MESH_AXES];  // the product is `ranks`; the last axis varies fastest
    int ranks, lanes;          // lanes: of each rank
    int hosts;
    int *host_first;  // (hosts + 1): the first rank of each host; ranks of a host follow one another
    int *global;      // (ranks): of a group: the ranks in the mesh that it was taken from
    int servers;      // of the ranks: they are dealt no micro-batches
    int64_t whole;    // above 0: steps of fewer micro-batches are dealt as one of so many, without those that they lack
} ls_mesh;

// ranks_of_host: (hosts). length: (LS_MESH_AXES); NULL: all ranks along `data`. Errors:
// INVALID_ARGUMENT (the lengths do not multiply to the ranks), OUT_OF_MEMORY. The caller destroys
// it.
ls_status ls_mesh_create(int hosts, const int *ranks_of_host, int lanes, const int *length, ls_mesh **out);
void ls_mesh_destroy(ls_mesh **mesh);
// All ranks along `data`, without hosts: enough for dealing.
static inline ls_mesh ls_mesh_plain(int ranks, int lanes, int servers) {
    return (ls_mesh){.length = {ranks, 1, 1, 1}, .ranks = ranks, .lanes = lanes, .servers = servers};
}
// The group of `rank` along an axis, as a mesh with that axis alone; `global` names its ranks.
// Errors: OUT_OF_MEMORY.
ls_status ls_mesh_group(const ls_mesh *mesh, int rank, ls_mesh_axis axis, ls_mesh **out);

int ls_mesh_coordinate(const ls_mesh *mesh, int rank, ls_mesh_axis axis);
int ls_mesh_host(const ls_mesh *mesh, int rank);
static inline int ls_mesh_host_ranks(const ls_mesh *m, int host) {
    return m->host_first[host + 1] - m->host_first[host];
}
// The number of a rank among the servers; -1: it is none. Servers are spread evenly, and rank 0 is
// none.
int ls_mesh_server(const ls_mesh *mesh, int rank);
// The micro-batches [begin, end) of a step of so many that a lane computes: runs that follow each
// other in the order of ranks along `data` and of lanes, and differ by at most one.
void ls_mesh_deal(const ls_mesh *mesh, int64_t micro_batches, int rank, int lane, int64_t *begin, int64_t *end);
// The same by the number of a lane among all of the mesh.
static inline void ls_mesh_deal_lane(const ls_mesh *m, int64_t micro_batches, int lane, int64_t *begin, int64_t *end) {
    ls_mesh_deal(m, micro_batches, lane / m->lanes, lane % m->lanes, begin, end);
}
// The same of all lanes of the hosts [first, end) of a mesh with `data` alone.
void ls_mesh_deal_hosts(const ls_mesh *mesh, int64_t micro_batches, int first, int end_host, int64_t *begin,
                        int64_t *end);

#endif
