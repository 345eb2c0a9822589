#include "mesh/mesh.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

ls_status ls_mesh_create(int hosts, const int *ranks_of_host, int lanes, const int *length, ls_mesh **out) {
    ls_mesh *m;
    int64_t product = 1;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *m, &m));
    m->hosts = hosts;
    m->lanes = lanes;
    ls_status status = ls_calloc(hosts + 1, sizeof *m->host_first, &m->host_first);
    for (int h = 0; h < hosts && status == LS_OK; h++) m->host_first[h + 1] = m->host_first[h] + ranks_of_host[h];
    if (status == LS_OK) m->ranks = m->host_first[hosts];
    for (int a = 0; a < LS_MESH_AXES; a++) {
        m->length[a] = length ? length[a] : a == LS_MESH_DATA ? m->ranks : 1;
        product *= m->length[a];
    }
    if (status == LS_OK && product != m->ranks)
        status = LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                         "a mesh of data %d x pipeline %d x tensor %d x sequence %d has %lld ranks, and there are %d",
                         m->length[0], m->length[1], m->length[2], m->length[3], (long long)product, m->ranks);
    if (status != LS_OK) {
        ls_mesh_destroy(&m);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = m;
    return LS_OK;
}

void ls_mesh_destroy(ls_mesh **mesh) {
    if (!*mesh) return;
    free((*mesh)->host_first);
    free((*mesh)->global);
    free(*mesh);
    *mesh = NULL;
}

// How far apart neighbours along an axis are.
static int stride_of(const ls_mesh *m, ls_mesh_axis axis) {
    int stride = 1;
    for (int a = axis + 1; a < LS_MESH_AXES; a++) stride *= m->length[a];
    return stride;
}

int ls_mesh_coordinate(const ls_mesh *m, int rank, ls_mesh_axis axis) {
    return rank / stride_of(m, axis) % m->length[axis];
}

int ls_mesh_host(const ls_mesh *m, int rank) {
    int low = 0, high = m->hosts - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (rank < m->host_first[middle + 1])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

ls_status ls_mesh_group(const ls_mesh *m, int rank, ls_mesh_axis axis, ls_mesh **out) {
    int stride = stride_of(m, axis), count = m->length[axis], hosts = 0;
    int first = rank - ls_mesh_coordinate(m, rank, axis) * stride, length[LS_MESH_AXES] = {1, 1, 1, 1}, *ranks_of_host;
    *out = NULL;
    LS_TRY(ls_calloc(m->hosts, sizeof *ranks_of_host, &ranks_of_host));
    for (int i = 0, last = -1; i < count; i++) {
        int host = ls_mesh_host(m, first + i * stride);
        hosts += host != last;
        last = host;
        ranks_of_host[hosts - 1]++;
    }
    length[axis] = count;
    ls_status status = ls_mesh_create(hosts, ranks_of_host, m->lanes, length, out);
    free(ranks_of_host);
    if (status == LS_OK) status = ls_calloc(count, sizeof(int), &(*out)->global);
    if (status != LS_OK) {
        ls_mesh_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    for (int i = 0; i < count; i++) (*out)->global[i] = first + i * stride;
    (*out)->servers = axis == LS_MESH_DATA ? m->servers : 0;
    (*out)->whole = m->whole;
    return LS_OK;
}

// --- dealing ---------------------------------------------------------------------------------------------------------

// Server i of S is the last of the i-th of as many even parts of all members but the first.
static int server_member(int members, int servers, int server) {
    return (int)((int64_t)(server + 1) * (members - 1) / servers);
}

static int server_of(int members, int servers, int member) {
    for (int i = 0; i < servers; i++)
        if (server_member(members, servers, i) == member) return i;
    return -1;
}

int ls_mesh_server(const ls_mesh *m, int rank) {
    return server_of(m->length[LS_MESH_DATA], m->servers, ls_mesh_coordinate(m, rank, LS_MESH_DATA));
}

void ls_mesh_deal(const ls_mesh *m, int64_t micro_batches, int rank, int lane, int64_t *begin, int64_t *end) {
    int members = m->length[LS_MESH_DATA], member = ls_mesh_coordinate(m, rank, LS_MESH_DATA), before = 0, serves = 0;
    for (int i = 0; i < m->servers; i++) {
        int server = server_member(members, m->servers, i);
        before += server < member;
        serves |= server == member;
    }
    int64_t computing = (int64_t)(members - m->servers) * m->lanes, first = (int64_t)(member - before) * m->lanes;
    int64_t dealt = m->whole > micro_batches ? m->whole : micro_batches, index = serves ? first : first + lane;
    *begin = dealt * index / computing;
    *end = serves ? *begin : dealt * (index + 1) / computing;
    if (*begin > micro_batches) *begin = micro_batches;
    if (*end > micro_batches) *end = micro_batches;
}

void ls_mesh_deal_hosts(const ls_mesh *m, int64_t micro_batches, int first, int end_host, int64_t *begin,
                        int64_t *end) {
    int64_t unused;
    ls_mesh_deal(m, micro_batches, m->host_first[first], 0, begin, &unused);
    ls_mesh_deal(m, micro_batches, m->host_first[end_host] - 1, m->lanes - 1, &unused, end);
}
