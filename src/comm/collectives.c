// Collectives that move bytes: broadcast, gather, all-gather, scatter, all-to-all. Reductions are in step/, which has the tree.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/group.h"

#define SMALL_BYTES (64 << 10)  // up to here messages cost more than bytes

ls_status ls_group_barrier(ls_group *group) {
    LS_NEED(group, "group");
    // To know that all make the same call takes one.
    return ls__group_begin(group, LS_OK, __func__, "a barrier");
}

// What a call of `rows` rows of `count` elements has to have before it can begin.
static ls_status check(const char *function, const void *mine, const char *mine_name, const void *all,
                       const char *all_name, int64_t count, ls_dtype dtype) {
    LS_TRY(ls__group_check(function, count, dtype));
    LS_TRY(ls__group_check_pointer(function, mine, count, mine_name));
    return ls__group_check_pointer(function, all, count, all_name);
}

static int64_t bytes_of(int64_t count, ls_dtype dtype) { return count * (int64_t)ls_dtype_size(dtype); }

// One row where another one is, unless it is there.
static void place(void *to, const void *from, int64_t bytes) {
    if (to != from && bytes > 0) memmove(to, from, (size_t)bytes);
}

// --- broadcast -------------------------------------------------------------------------------------------------------

// The root gives every member its slice, and the slices go around: twice the bytes of the data for each member, however many there are.
static ls_status scatter_and_ring(ls_group *g, void *data, int64_t count, ls_dtype dtype, int root,
                                  ls_request *requests) {
    ls_posts posts = {requests, 0};
    int64_t begin, end;
    for (int member = 0; member < g->size; member++) {
        if (member == root) continue;
        ls__group_slice(g, count, member, &begin, &end);
        char *slice = (char *)data + bytes_of(begin, dtype);
        if (g->rank == root) LS_TRY(ls__group_post_send(g, &posts, slice, end - begin, dtype, member));
        if (g->rank == member) LS_TRY(ls__group_post_recv(g, &posts, slice, end - begin, dtype, root));
    }
    LS_TRY(ls__group_wait(g, &posts));
    return ls__group_ring(g, data, count, dtype, root);
}

ls_status ls_group_broadcast(ls_group *group, void *data, int64_t count, ls_dtype dtype, int root) {
    ls_request *requests = NULL;
    LS_NEED(group, "group");
    ls_status status = check(__func__, data, "data", data, "data", count, dtype);
    if (status == LS_OK) status = ls__group_check_root(group, __func__, root);
    if (status == LS_OK) status = ls__group_scratch(group, group->size * (int64_t)sizeof *requests, &requests);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s from worker %d to all", (long long)count,
                           ls_dtype_name(dtype), root));
    if (group->size == 1) return LS_OK;
    int small = group->size == 2 || bytes_of(count, dtype) <= SMALL_BYTES;
    return ls__group_end(group,
                         small ? ls__group_spread(group, data, count, dtype, root)
                               : scatter_and_ring(group, data, count, dtype, root, requests),
                         __func__);
}

// --- gather and scatter ----------------------------------------------------------------------------------------------

static ls_status run_gather(ls_group *g, const void *mine, char *all, int64_t count, ls_dtype dtype, int root,
                            ls_request *requests) {
    ls_posts posts = {requests, 0};
    int64_t row = bytes_of(count, dtype);
    if (g->rank != root) {
        LS_TRY(ls__group_post_send(g, &posts, mine, count, dtype, root));
        return ls__group_wait(g, &posts);
    }
    place(all + root * row, mine, row);
    for (int member = 0; member < g->size; member++)
        if (member != root) LS_TRY(ls__group_post_recv(g, &posts, all + member * row, count, dtype, member));
    return ls__group_wait(g, &posts);
}

static ls_status run_scatter(ls_group *g, const char *all, void *mine, int64_t count, ls_dtype dtype, int root,
                             ls_request *requests) {
    ls_posts posts = {requests, 0};
    int64_t row = bytes_of(count, dtype);
    if (g->rank != root) {
        LS_TRY(ls__group_post_recv(g, &posts, mine, count, dtype, root));
        return ls__group_wait(g, &posts);
    }
    for (int member = 0; member < g->size; member++)
        if (member != root) LS_TRY(ls__group_post_send(g, &posts, all + member * row, count, dtype, member));
    place(mine, all + root * row, row);
    return ls__group_wait(g, &posts);
}

// What gather and scatter check: `all` is looked at by the root only.
static ls_status check_rooted(ls_group *g, const char *function, const void *mine, const void *all, int64_t count,
                              ls_dtype dtype, int root, ls_request **requests) {
    LS_TRY(check(function, mine, "mine", g->rank == root ? all : mine, "all", count, dtype));
    LS_TRY(ls__group_check_root(g, function, root));
    return ls__group_scratch(g, g->size * (int64_t)sizeof **requests, requests);
}

ls_status ls_group_gather(ls_group *group, const void *mine, void *all, int64_t count, ls_dtype dtype, int root) {
    ls_request *requests = NULL;
    LS_NEED(group, "group");
    ls_status status = check_rooted(group, __func__, mine, all, count, dtype, root, &requests);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s of each worker to worker %d", (long long)count,
                           ls_dtype_name(dtype), root));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_gather(group, mine, all, count, dtype, root, requests), __func__);
}

ls_status ls_group_scatter(ls_group *group, const void *all, void *mine, int64_t count, ls_dtype dtype, int root) {
    ls_request *requests = NULL;
    LS_NEED(group, "group");
    ls_status status = check_rooted(group, __func__, mine, all, count, dtype, root, &requests);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s from worker %d to each", (long long)count,
                           ls_dtype_name(dtype), root));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_scatter(group, all, mine, count, dtype, root, requests), __func__);
}

// --- everybody to everybody ------------------------------------------------------------------------------------------

// The rows of members from this one on, in `rows`, whose number doubles with each round (Bruck); then each to its place.
static ls_status gather_doubling(ls_group *g, char *rows, char *all, int64_t count, ls_dtype dtype) {
    int64_t row = bytes_of(count, dtype);
    for (int64_t have = 1; have < g->size; have *= 2) {
        ls_request requests[2];
        ls_posts posts = {requests, 0};
        int64_t more = have < g->size - have ? have : g->size - have;
        int to = (int)((g->rank - have + g->size) % g->size), from = (int)((g->rank + have) % g->size);
        LS_TRY(ls__group_post_recv(g, &posts, rows + have * row, more * count, dtype, from));
        LS_TRY(ls__group_post_send(g, &posts, rows, more * count, dtype, to));
        LS_TRY(ls__group_wait(g, &posts));
    }
    int64_t behind = g->size - g->rank;
    memcpy(all + g->rank * row, rows, (size_t)(behind * row));
    memcpy(all, rows + behind * row, (size_t)(g->rank * row));
    return LS_OK;
}

// Around a ring, each row in its place.
static ls_status gather_ring(ls_group *g, char *all, int64_t count, ls_dtype dtype) {
    int next = (g->rank + 1) % g->size, before = (g->rank + g->size - 1) % g->size;
    int64_t row = bytes_of(count, dtype);
    for (int step = 0; step < g->size - 1; step++) {
        ls_request requests[2];
        ls_posts posts = {requests, 0};
        int sent = (g->rank - step + g->size) % g->size, received = (before - step + g->size) % g->size;
        LS_TRY(ls__group_post_recv(g, &posts, all + received * row, count, dtype, before));
        LS_TRY(ls__group_post_send(g, &posts, all + sent * row, count, dtype, next));
        LS_TRY(ls__group_wait(g, &posts));
    }
    return LS_OK;
}

ls_status ls_group_all_gather(ls_group *group, const void *mine, void *all, int64_t count, ls_dtype dtype) {
    char *rows = NULL;
    LS_NEED(group, "group");
    ls_status status = check(__func__, mine, "mine", all, "all", count, dtype);
    int small = status == LS_OK && group->size * bytes_of(count, dtype) <= SMALL_BYTES;
    if (small) status = ls__group_scratch(group, group->size * bytes_of(count, dtype), &rows);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s of each worker to all", (long long)count,
                           ls_dtype_name(dtype)));
    if (count == 0) return LS_OK;
    place(small ? rows : (char *)all + group->rank * bytes_of(count, dtype), mine, bytes_of(count, dtype));
    return ls__group_end(
        group, small ? gather_doubling(group, rows, all, count, dtype) : gather_ring(group, all, count, dtype),
        __func__);
}

static ls_status run_all_to_all(ls_group *g, const char *to, char *from, int64_t count, ls_dtype dtype) {
    int64_t row = bytes_of(count, dtype);
    place(from + g->rank * row, to + g->rank * row, row);
    for (int step = 1; step < g->size; step++) {
        ls_request requests[2];
        ls_posts posts = {requests, 0};
        int next = (g->rank + step) % g->size, before = (g->rank - step + g->size) % g->size;
        LS_TRY(ls__group_post_recv(g, &posts, from + before * row, count, dtype, before));
        LS_TRY(ls__group_post_send(g, &posts, to + next * row, count, dtype, next));
        LS_TRY(ls__group_wait(g, &posts));
    }
    return LS_OK;
}

ls_status ls_group_all_to_all(ls_group *group, const void *to, void *from, int64_t count, ls_dtype dtype) {
    LS_NEED(group, "group");
    ls_status status = check(__func__, to, "to", from, "from", count, dtype);
    LS_TRY(ls__group_begin(group, status, __func__, "%lld elements of %s of each worker to each", (long long)count,
                           ls_dtype_name(dtype)));
    if (count == 0) return LS_OK;
    return ls__group_end(group, run_all_to_all(group, to, from, count, dtype), __func__);
}
