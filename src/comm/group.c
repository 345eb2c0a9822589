// Groups: which workers, what they are called for, and the messages of their calls.
#include "comm/group.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/flight.h"
#include "base/memory.h"

// Tags of a group: those of programs, and of collectives, what they are called for and what they bring.
enum { TAG_CALL = LS_GROUP_TAGS, TAG_DATA, TAGS };

#define SLICE_ELEMENTS 64

// --- messages --------------------------------------------------------------------------------------------------------

static ls_status post_send(ls_group *g, ls_posts *posts, const void *data, int64_t count, ls_dtype dtype, int to,
                           int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(
        ls_comm_isend(g->comm, data, count, dtype, g->ranks[to], g->first_tag + tag, &posts->requests[posts->count]));
    posts->count++;
    return LS_OK;
}

static ls_status post_recv(ls_group *g, ls_posts *posts, void *data, int64_t count, ls_dtype dtype, int from, int tag) {
    if (count == 0) return LS_OK;
    LS_TRY(
        ls_comm_irecv(g->comm, data, count, dtype, g->ranks[from], g->first_tag + tag, &posts->requests[posts->count]));
    posts->count++;
    return LS_OK;
}

ls_status ls__group_post_send(ls_group *g, ls_posts *posts, const void *data, int64_t count, ls_dtype dtype, int to) {
    return post_send(g, posts, data, count, dtype, to, TAG_DATA);
}

ls_status ls__group_post_recv(ls_group *g, ls_posts *posts, void *data, int64_t count, ls_dtype dtype, int from) {
    return post_recv(g, posts, data, count, dtype, from, TAG_DATA);
}

ls_status ls__group_wait(ls_group *g, ls_posts *posts) {
    int count = posts->count;
    posts->count = 0;
    return ls_comm_wait_all(g->comm, posts->requests, count);
}

// A binomial tree over the members from `root` on.
static ls_status spread(ls_group *g, void *data, int64_t count, ls_dtype dtype, int root, int tag) {
    ls_request requests[32];
    ls_posts posts = {requests, 0};
    int place = (g->rank - root + g->size) % g->size, step = 1;
    while (step < g->size && !(place & step)) step *= 2;
    if (place > 0) {
        LS_TRY(post_recv(g, &posts, data, count, dtype, (place - step + root) % g->size, tag));
        LS_TRY(ls__group_wait(g, &posts));
    }
    for (step /= 2; step > 0; step /= 2)
        if (place + step < g->size)
            LS_TRY(post_send(g, &posts, data, count, dtype, (place + step + root) % g->size, tag));
    return ls__group_wait(g, &posts);
}

ls_status ls__group_spread(ls_group *g, void *data, int64_t count, ls_dtype dtype, int root) {
    return spread(g, data, count, dtype, root, TAG_DATA);
}

void ls__group_slice(const ls_group *g, int64_t count, int member, int64_t *begin, int64_t *end) {
    int64_t units = (count + SLICE_ELEMENTS - 1) / SLICE_ELEMENTS;
    *begin = units * member / g->size * SLICE_ELEMENTS;
    *end = units * (member + 1) / g->size * SLICE_ELEMENTS;
    if (*begin > count) *begin = count;
    if (*end > count) *end = count;
}

ls_status ls__group_ring(ls_group *g, void *data, int64_t count, ls_dtype dtype, int root) {
    int next = (g->rank + 1) % g->size, before = (g->rank + g->size - 1) % g->size;
    int64_t size = (int64_t)ls_dtype_size(dtype), begin, end;
    for (int step = 0; step < g->size - 1; step++) {
        ls_request requests[2];
        ls_posts posts = {requests, 0};
        if (g->rank != root) {
            ls__group_slice(g, count, (before - step + g->size) % g->size, &begin, &end);
            LS_TRY(post_recv(g, &posts, (char *)data + begin * size, end - begin, dtype, before, TAG_DATA));
        }
        if (next != root) {
            ls__group_slice(g, count, (g->rank - step + g->size) % g->size, &begin, &end);
            LS_TRY(post_send(g, &posts, (char *)data + begin * size, end - begin, dtype, next, TAG_DATA));
        }
        LS_TRY(ls__group_wait(g, &posts));
    }
    return LS_OK;
}

// --- what is called --------------------------------------------------------------------------------------------------

// What members know of each other's calls: the smallest and the largest of them, as (number, hash of the words), the first member that cannot
// make its call, and whether none can.
typedef struct marks {
    uint64_t low, high;
    int32_t first_failed, all_failed;
} marks;

static void join(marks *a, const marks *b) {
    if (b->low < a->low) a->low = b->low;
    if (b->high > a->high) a->high = b->high;
    if (b->first_failed < a->first_failed) a->first_failed = b->first_failed;
    a->all_failed &= b->all_failed;
}

// Joins everybody's: what is known doubles with each round, and knowing something twice does no harm.
static ls_status join_all(ls_group *g, marks *mine) {
    for (int64_t step = 1; step < g->size; step *= 2) {
        ls_request requests[2];
        ls_posts posts = {requests, 0};
        marks theirs, sent = *mine;
        int to = (int)((g->rank + step) % g->size), from = (int)((g->rank - step + g->size) % g->size);
        LS_TRY(post_recv(g, &posts, &theirs, sizeof theirs, LS_DTYPE_U8, from, TAG_CALL));
        LS_TRY(post_send(g, &posts, &sent, sizeof sent, LS_DTYPE_U8, to, TAG_CALL));
        LS_TRY(ls__group_wait(g, &posts));
        join(mine, &theirs);
    }
    return LS_OK;
}

typedef struct report {
    int32_t status, number;
    char words[LS_GROUP_WORDS];
} report;

// The sentence of the first member that cannot make its call, for all of them.
static ls_status tell_failure(ls_group *g, ls_status mine, int first) {
    report r = {.status = (int32_t)mine};
    if (g->rank == first) snprintf(r.words, sizeof r.words, "%s", ls_error_message());
    LS_TRY(spread(g, &r, sizeof r, LS_DTYPE_U8, first, TAG_CALL));
    return LS_FAIL((ls_status)r.status, "worker %d: %s", g->ranks[first], r.words);
}

// Two members that make different calls, for all of them: the first one, and the first that differs from it.
static ls_status tell_difference(ls_group *g, uint64_t mine, const char *words) {
    report first = {.number = (int32_t)g->calls}, second = first;
    uint64_t call = mine;
    snprintf(first.words, sizeof first.words, "%s", words);
    second = first;
    LS_TRY(spread(g, &call, sizeof call, LS_DTYPE_U8, 0, TAG_CALL));
    marks odd = {.first_failed = call != mine ? g->rank : INT_MAX};
    LS_TRY(join_all(g, &odd));
    LS_TRY(spread(g, &first, sizeof first, LS_DTYPE_U8, 0, TAG_CALL));
    LS_TRY(spread(g, &second, sizeof second, LS_DTYPE_U8, odd.first_failed, TAG_CALL));
    return LS_FAIL(
        LS_STATUS_MISMATCH,
        "worker %d is in its collective call number %d of this group, %s, and worker %d in its number %d, %s: "
        "all workers of a group have to make the same calls in the same order",
        g->ranks[0], (int)first.number, first.words, g->ranks[odd.first_failed], (int)second.number, second.words);
}

ls_status ls__group_check_usable(const ls_group *g, const char *function) {
    if (g->broken != LS_OK)
        return LS_FAIL(g->broken, "%s: this group's messages have failed before, and it can only be destroyed: %s",
                       function, g->failure);
    ls_comm_home(g->comm);
    if (g->comm->busy)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: an exchange is under way: call ls_exchange_wait first",
                       function);
    return LS_OK;
}

static uint32_t hash(const char *text) {
    uint32_t h = 2166136261u;  // FNV-1a
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

// Not with a difference: the group is as it was.
static ls_status agree_call(ls_group *g, ls_status mine, const char *words, ls_status *verdict) {
    uint64_t call = (uint64_t)++g->calls << 32 | hash(mine == LS_OK ? words : ls_error_message());
    marks m = {call, call, mine == LS_OK ? INT_MAX : g->rank, mine != LS_OK};
    *verdict = LS_OK;
    LS_TRY(join_all(g, &m));
    if (m.all_failed && m.low == m.high)
        *verdict = mine;
    else if (m.first_failed != INT_MAX)
        *verdict = tell_failure(g, mine, m.first_failed);
    else if (m.low != m.high)
        *verdict = tell_difference(g, call, words);
    return *verdict == LS_STATUS_LIBRARY ? *verdict : LS_OK;
}

ls_status ls__group_begin(ls_group *g, ls_status mine, const char *function, const char *format, ...) {
    char what[LS_GROUP_WORDS - 64], words[LS_GROUP_WORDS];
    ls_status verdict;
    va_list arguments;
    LS_TRY(ls__group_check_usable(g, function));
    if (g->size == 1) return mine;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(words, sizeof words, "%s: %s", function, what);
    ls_flight_call(words);
    LS_TRY(ls__group_end(g, agree_call(g, mine, words, &verdict), function));
    return verdict;
}

ls_status ls__group_end(ls_group *g, ls_status status, const char *function) {
    if (status == LS_OK) return LS_OK;
    ls__fail_context(status, "%s: ", function);
    g->broken = status;
    snprintf(g->failure, sizeof g->failure, "%s", ls_error_message());
    return status;
}

ls_status ls__group_check(const char *function, int64_t count, ls_dtype dtype) {
    if (count < 0 || count > LS_GROUP_MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %lld elements were asked for; one call takes 0 to %d", function,
                       (long long)count, LS_GROUP_MOST);
    if (ls_dtype_size(dtype) == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: there is no type of number %d: see LS_DTYPE_LIST", function,
                       (int)dtype);
    return LS_OK;
}

ls_status ls__group_check_pointer(const char *function, const void *pointer, int64_t count, const char *name) {
    if (pointer || count == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %s is NULL, and it is needed", function, name);
}

ls_status ls__group_check_root(const ls_group *g, const char *function, int root) {
    if (root >= 0 && root < g->size) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: the root is worker %d; the group has workers 0 to %d", function,
                   root, g->size - 1);
}

ls_status ls__group_scratch(ls_group *g, int64_t bytes, void *out) {
    if (bytes > g->scratch_bytes) {
        ls_memory_free(g->scratch);
        g->scratch = NULL;
        g->scratch_bytes = 0;
        LS_TRY(ls_memory_alloc(bytes, &g->scratch));
        g->scratch_bytes = bytes;
    }
    memcpy(out, &g->scratch, sizeof g->scratch);
    return LS_OK;
}

// --- making groups ---------------------------------------------------------------------------------------------------

void ls_group_destroy(ls_group **group) {
    if (!group || !*group) return;
    ls_group *g = *group;
    // Where messages failed, some may still come.
    if (g->broken == LS_OK) ls_memory_free(g->scratch);
    free(g->ranks);
    free(g->host_of);
    free(g);
    *group = NULL;
}

static ls_status check_tags(const ls_comm *comm, int number) {
    int most = comm->tag_max ? comm->tag_max : INT_MAX;
    if ((int64_t)LS_GROUP_FIRST_TAG + ((int64_t)number + 1) * TAGS <= most) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "%d groups have been made, and this MPI has no tags for another one (they end at %d)", number, most);
}

// The hosts of the members, numbered by the first of them.
static void find_hosts(ls_group *g) {
    for (int i = 0; i < g->size; i++) {
        int first = 0;
        while (g->comm->host_of[g->ranks[first]] != g->comm->host_of[g->ranks[i]]) first++;
        g->host_of[i] = first == i ? g->hosts++ : g->host_of[first];
    }
    g->host = g->host_of[g->rank];
    for (int i = 0; i < g->size; i++) {
        if (g->host_of[i] != g->host) continue;
        g->local_rank += i < g->rank;
        g->local_size++;
    }
}

// The `number`-th group of these workers' communicators; ranks is copied. Not collective.
static ls_status make(ls_comm *comm, const int *ranks, int size, int number, ls_group **out) {
    ls_group *g;
    LS_TRY(check_tags(comm, number));
    LS_TRY(ls_calloc(1, sizeof *g, &g));
    g->comm = comm;
    g->size = size;
    g->first_tag = LS_GROUP_FIRST_TAG + number * TAGS;
    ls_status status = ls_calloc(size, sizeof *g->ranks, &g->ranks);
    if (status == LS_OK) status = ls_calloc(size, sizeof *g->host_of, &g->host_of);
    if (status != LS_OK) {
        ls_group_destroy(&g);
        LS_TRY(status);
    }
    memcpy(g->ranks, ranks, (size_t)size * sizeof *ranks);
    while (g->ranks[g->rank] != comm->rank) g->rank++;
    find_hosts(g);
    *out = g;
    return LS_OK;
}

ls_status ls__group_all(ls_comm *comm, ls_group **out) {
    int32_t *numbers, number = comm->groups;
    *out = NULL;
    LS_TRY(ls_comm_agree(comm, ls_calloc(comm->size, sizeof *numbers, &numbers)));
    ls_status status = ls_comm_allgather(comm, &number, numbers, sizeof number);
    for (int r = 0; r < comm->size; r++) {
        if (numbers[r] > number) number = numbers[r];
        numbers[r] = r;
    }
    if (status == LS_OK) {
        comm->groups = number + 1;
        status = ls_comm_agree(comm, make(comm, numbers, comm->size, number, out));
    }
    free(numbers);
    if (status != LS_OK) ls_group_destroy(out);
    return status;
}

// What a member says when groups are made of it.
typedef struct choice {
    int32_t color, key, rank, number;
} choice;

static int by_key(const void *a, const void *b) {
    const choice *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : (x->rank > y->rank) - (x->rank < y->rank);
}

// This member's group, of everybody's choices. Groups of one call have the same number, since nobody is in two of them.
static ls_status choose(ls_group *g, choice *choices, int color, ls_group **out) {
    int *ranks, size = 0, number = 0;
    for (int i = 0; i < g->size; i++)
        if (choices[i].number > number) number = choices[i].number;
    g->comm->groups = number + 1;
    if (color < 0) return check_tags(g->comm, number);
    LS_TRY(ls_calloc(g->size, sizeof *ranks, &ranks));
    qsort(choices, (size_t)g->size, sizeof *choices, by_key);
    for (int i = 0; i < g->size; i++)
        if (choices[i].color == color) ranks[size++] = g->ranks[choices[i].rank];
    ls_status status = make(g->comm, ranks, size, number, out);
    free(ranks);
    return status;
}

// `words` are those of the call; `mine` what is wrong with it.
static ls_status split(ls_group *g, int color, int key, ls_status mine, const char *function, const char *words,
                       ls_group **out) {
    choice *choices = NULL;
    if (mine == LS_OK) mine = ls_calloc(g->size, sizeof *choices, &choices);
    ls_status status = ls__group_begin(g, mine, function, "%s", words);
    if (status == LS_OK) {
        assert(choices);  // beginning means that this member was fine too
        choice own = {color, key, g->rank, g->comm->groups};
        status = ls_group_all_gather(g, &own, choices, sizeof own, LS_DTYPE_U8);
        // Where one has no memory for its group, nobody has one.
        if (status == LS_OK) status = ls__group_begin(g, choose(g, choices, color, out), function, "the new groups");
    }
    free(choices);
    if (status != LS_OK) ls_group_destroy(out);
    return status;
}

ls_status ls_group_split(ls_group *group, int color, int key, ls_group **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(group, "group");
    return split(group, color, key, LS_OK, __func__, "groups by color", out);
}

static ls_status check_ranks(const ls_group *g, const int *ranks, int count) {
    if (count < 1 || count > g->size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "ls_group_select: a group of %d workers out of %d was asked for",
                       count, g->size);
    for (int i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= g->size)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "ls_group_select: worker %d; the group has workers 0 to %d",
                           ranks[i], g->size - 1);
        for (int j = 0; j < i; j++)
            if (ranks[i] == ranks[j])
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "ls_group_select: worker %d is named twice", ranks[i]);
    }
    return LS_OK;
}

ls_status ls_group_select(ls_group *group, const int *ranks, int count, ls_group **out) {
    char words[64];
    int key = -1;
    uint32_t h = 2166136261u;
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(group, "group");
    LS_NEED(ranks, "ranks");
    ls_status status = check_ranks(group, ranks, count);
    for (int i = 0; status == LS_OK && i < count; i++) {
        h = (h ^ (uint32_t)ranks[i]) * 16777619u;
        if (ranks[i] == group->rank) key = i;
    }
    snprintf(words, sizeof words, "%d workers, list %08x", count, (unsigned)h);
    return split(group, key < 0 ? -1 : 0, key, status, __func__, words, out);
}
