// Groups as programs ask about them, and messages between two of their workers.
#include <string.h>

#include "base/error.h"
#include "comm/group.h"

// --- who is who ------------------------------------------------------------------------------------------------------

int ls_group_rank(const ls_group *g) { return g ? g->rank : 0; }
int ls_group_size(const ls_group *g) { return g ? g->size : 0; }

ls_group_info ls_group_describe(const ls_group *g) {
    if (!g) return (ls_group_info){0};
    return (ls_group_info){g->rank, g->size, g->host, g->hosts, g->local_rank, g->local_size};
}

static int is_member(const ls_group *g, int rank) { return g && rank >= 0 && rank < g->size; }
int ls_group_host_of(const ls_group *g, int rank) { return is_member(g, rank) ? g->host_of[rank] : -1; }
int ls_group_context_rank(const ls_group *g, int rank) { return is_member(g, rank) ? g->ranks[rank] : -1; }

// --- messages of programs --------------------------------------------------------------------------------------------

_Static_assert(sizeof(ls_request) <= sizeof(ls_transfer), "a request must fit where a transfer keeps it");

static ls_status check_message(const ls_group *g, const char *function, const void *data, int64_t count, ls_dtype dtype,
                               int peer, int tag) {
    LS_TRY(ls__group_check_usable(g, function));
    LS_TRY(ls__group_check(function, count, dtype));
    LS_TRY(ls__group_check_pointer(function, data, count, "data"));
    if (peer < 0 || peer >= g->size || peer == g->rank)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s: worker %d was named; this is worker %d of a group with workers 0 to %d, and another one is needed",
            function, peer, g->rank, g->size - 1);
    if (tag < 0 || tag >= LS_GROUP_TAGS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: tag %d was asked for; there are 0 to %d", function, tag,
                       LS_GROUP_TAGS - 1);
    return LS_OK;
}

static ls_status begin_send(ls_group *g, const char *function, const void *data, int64_t count, ls_dtype dtype, int to,
                            int tag, ls_request *request) {
    *request = (ls_request){0};
    LS_TRY(check_message(g, function, data, count, dtype, to, tag));
    if (count == 0) return LS_OK;
    return ls__group_end(g, ls_comm_isend(g->comm, data, count, dtype, g->ranks[to], g->first_tag + tag, request),
                         function);
}

static ls_status begin_recv(ls_group *g, const char *function, void *data, int64_t count, ls_dtype dtype, int from,
                            int tag, ls_request *request) {
    *request = (ls_request){0};
    LS_TRY(check_message(g, function, data, count, dtype, from, tag));
    if (count == 0) return LS_OK;
    return ls__group_end(g, ls_comm_irecv(g->comm, data, count, dtype, g->ranks[from], g->first_tag + tag, request),
                         function);
}

ls_status ls_group_send(ls_group *group, const void *data, int64_t count, ls_dtype dtype, int to, int tag) {
    ls_request request;
    LS_NEED(group, "group");
    LS_TRY(begin_send(group, __func__, data, count, dtype, to, tag, &request));
    return ls__group_end(group, ls_comm_wait_all(group->comm, &request, 1), __func__);
}

ls_status ls_group_recv(ls_group *group, void *data, int64_t count, ls_dtype dtype, int from, int tag) {
    ls_request request;
    LS_NEED(group, "group");
    LS_TRY(begin_recv(group, __func__, data, count, dtype, from, tag, &request));
    return ls__group_end(group, ls_comm_wait_all(group->comm, &request, 1), __func__);
}

ls_status ls_group_isend(ls_group *group, const void *data, int64_t count, ls_dtype dtype, int to, int tag,
                         ls_transfer *out) {
    ls_request request;
    LS_NEED(out, "out");
    *out = (ls_transfer){{0}};
    LS_NEED(group, "group");
    LS_TRY(begin_send(group, __func__, data, count, dtype, to, tag, &request));
    memcpy(out, &request, sizeof request);
    return LS_OK;
}

ls_status ls_group_irecv(ls_group *group, void *data, int64_t count, ls_dtype dtype, int from, int tag,
                         ls_transfer *out) {
    ls_request request;
    LS_NEED(out, "out");
    *out = (ls_transfer){{0}};
    LS_NEED(group, "group");
    LS_TRY(begin_recv(group, __func__, data, count, dtype, from, tag, &request));
    memcpy(out, &request, sizeof request);
    return LS_OK;
}

ls_status ls_group_wait(ls_group *group, ls_transfer *transfers, int count) {
    LS_NEED(group, "group");
    LS_NEED(transfers || count <= 0, "transfers");
    LS_TRY(ls__group_check_usable(group, __func__));
    for (int i = 0; i < count; i++) {
        ls_request request;
        memcpy(&request, &transfers[i], sizeof request);
        transfers[i] = (ls_transfer){{0}};
        LS_TRY(ls__group_end(group, ls_comm_wait_all(group->comm, &request, 1), __func__));
    }
    return LS_OK;
}

ls_status ls_group_test(ls_group *group, ls_transfer *transfers, int count, int *done) {
    LS_NEED(done, "done");
    *done = 0;
    LS_NEED(group, "group");
    LS_NEED(transfers || count <= 0, "transfers");
    LS_TRY(ls__group_check_usable(group, __func__));
    int all = 1;
    for (int i = 0; i < count; i++) {
        ls_request request;
        int pending = -1;
        memcpy(&request, &transfers[i], sizeof request);
        LS_TRY(ls__group_end(group, ls_comm_test_all(group->comm, &request, 1, &pending), __func__));
        if (pending < 0)
            transfers[i] = (ls_transfer){{0}};
        else
            all = 0;
    }
    *done = all;
    return LS_OK;
}
