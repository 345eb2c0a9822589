// Groups and their collectives, as real processes: every call, type and operation on whole jobs and parts of them, large and small; the same bits for any
// number of workers; wrong calls, which are an error on all workers; messages that fail.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/lockstep.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "comm/group.h"
#include "step/tree.h"
#include "train/context.h"
#include "worker_check.h"

static ls_comm *world;  // for CHECK

static const ls_dtype types[] = {LS_DTYPE_F32, LS_DTYPE_BF16, LS_DTYPE_U8, LS_DTYPE_I32,
                                 LS_DTYPE_F64, LS_DTYPE_I64,  LS_DTYPE_F16};
#define TYPES ((int)(sizeof types / sizeof types[0]))

static void says(const char *words) {
    if (strstr(ls_error_message(), words)) return;
    fprintf(stderr, "worker %d: expected \"%s\" in \"%s\"\n", world->rank, words, ls_error_message());
    ls_comm_abort(world, 1);
}

static void *room(int64_t bytes) {
    void *memory;
    CHECK_OK(world, ls_memory_alloc(bytes > 0 ? bytes : 1, &memory));
    return memory;
}

// Element i of what is called `number`: of many sizes, so that a sum in another order has other bits.
static double value(int number, int64_t i) {
    ls_philox4 r = ls_philox(9, (uint32_t)i, (uint32_t)number, 0, 0);
    return ((double)ls_uniform(r.v[0]) - 0.5) * (double)(1 << (r.v[1] % 20));
}

static void put(void *data, ls_dtype dtype, int64_t i, double x) {
    switch (dtype) {
    case LS_DTYPE_F32: ((float *)data)[i] = (float)x; break;
    case LS_DTYPE_BF16: ((ls_bf16 *)data)[i] = ls_float_to_bf16((float)x); break;
    case LS_DTYPE_F16: ((ls_fp16 *)data)[i] = ls_float_to_fp16((float)x); break;
    case LS_DTYPE_U8: ((uint8_t *)data)[i] = (uint8_t)(int64_t)x; break;
    case LS_DTYPE_I32: ((int32_t *)data)[i] = (int32_t)(x * 4096); break;
    case LS_DTYPE_F64: ((double *)data)[i] = x; break;
    case LS_DTYPE_I64: ((int64_t *)data)[i] = (int64_t)(x * 1e12); break;
    }
}

static void fill(void *data, ls_dtype dtype, int number, int64_t count) {
    for (int64_t i = 0; i < count; i++) put(data, dtype, i, value(number, i));
}

static int same(const void *data, ls_dtype dtype, int number, int64_t count) {
    char *expected = room(count * 8);
    fill(expected, dtype, number, count);
    int equal = memcmp(data, expected, (size_t)count * ls_dtype_size(dtype)) == 0;
    ls_memory_free(expected);
    return equal;
}

// --- what is expected of reductions ----------------------------------------------------------------------------------

// One element of two: by the plain rule.
static void join_one(ls_reduce_op op, ls_dtype dtype, char *a, const char *b) {
#define BY(type, add)                                                                                                  \
    do {                                                                                                               \
        type *l = (type *)(void *)a;                                                                                   \
        const type *r = (const type *)(const void *)b;                                                                 \
        if (op == LS_REDUCE_MIN)                                                                                       \
            *l = *r < *l ? *r : *l;                                                                                    \
        else if (op == LS_REDUCE_MAX)                                                                                  \
            *l = *r > *l ? *r : *l;                                                                                    \
        else                                                                                                           \
            *l = (type)(add);                                                                                          \
    } while (0)
    float x, y;
    switch (dtype) {
    case LS_DTYPE_F32: BY(float, *l + *r); break;
    case LS_DTYPE_F64: BY(double, *l + *r); break;
    case LS_DTYPE_U8: BY(uint8_t, *l + *r); break;
    case LS_DTYPE_I32: BY(int32_t, (uint32_t)*l + (uint32_t)*r); break;
    case LS_DTYPE_I64: BY(int64_t, (uint64_t)*l + (uint64_t)*r); break;
    case LS_DTYPE_BF16:
        x = ls_bf16_to_float(*(ls_bf16 *)(void *)a);
        y = ls_bf16_to_float(*(const ls_bf16 *)(const void *)b);
        x = op == LS_REDUCE_MIN ? fminf(x, y) : op == LS_REDUCE_MAX ? fmaxf(x, y) : x + y;
        *(ls_bf16 *)(void *)a = ls_float_to_bf16(x);
        break;
    case LS_DTYPE_F16:
        x = ls_fp16_to_float(*(ls_fp16 *)(void *)a);
        y = ls_fp16_to_float(*(const ls_fp16 *)(const void *)b);
        x = op == LS_REDUCE_MIN ? fminf(x, y) : op == LS_REDUCE_MAX ? fmaxf(x, y) : x + y;
        *(ls_fp16 *)(void *)a = ls_float_to_fp16(x);
        break;
    }
}

// The tree, by its definition: node (level, first) of the leaves numbered from `base` on.
static void tree(ls_reduce_op op, ls_dtype dtype, int base, int64_t total, int64_t first, int level, char *out,
                 int64_t count) {
    size_t size = ls_dtype_size(dtype);
    int64_t middle = first + ((int64_t)1 << (level > 0 ? level - 1 : 0));
    if (level == 0) {
        fill(out, dtype, base + (int)first, count);
        return;
    }
    tree(op, dtype, base, total, first, level - 1, out, count);
    if (middle >= total) return;
    char *right = room(count * 8);
    tree(op, dtype, base, total, middle, level - 1, right, count);
    for (int64_t i = 0; i < count; i++) join_one(op, dtype, out + (size_t)i * size, right + (size_t)i * size);
    ls_memory_free(right);
}

static void expect(ls_reduce_op op, ls_dtype dtype, int base, int64_t total, char *out, int64_t count) {
    int level = 0;
    while (((int64_t)1 << level) < total) level++;
    tree(op, dtype, base, total, 0, level, out, count);
    for (int64_t i = 0; op == LS_REDUCE_MEAN && i < count; i++) {
        if (dtype == LS_DTYPE_F32) ((float *)(void *)out)[i] /= (float)total;
        if (dtype == LS_DTYPE_F64) ((double *)(void *)out)[i] /= (double)total;
        ls_bf16 *b = (ls_bf16 *)(void *)out;
        if (dtype == LS_DTYPE_BF16) b[i] = ls_float_to_bf16(ls_bf16_to_float(b[i]) / (float)total);
        ls_fp16 *h = (ls_fp16 *)(void *)out;
        if (dtype == LS_DTYPE_F16) h[i] = ls_float_to_fp16(ls_fp16_to_float(h[i]) / (float)total);
    }
}

static int is_whole(ls_dtype d) { return d == LS_DTYPE_U8 || d == LS_DTYPE_I32 || d == LS_DTYPE_I64; }

// --- collectives -----------------------------------------------------------------------------------------------------

static void test_moving(ls_group *g, ls_dtype dtype, int64_t count) {
    int rank = ls_group_rank(g), size = ls_group_size(g);
    int64_t row = count * (int64_t)ls_dtype_size(dtype);
    char *mine = room(row), *all = room(row * size), *other = room(row * size);
    for (int root = 0; root<size; root += size> 2 ? size - 1 : 1) {
        fill(mine, dtype, rank, count);
        CHECK_OK(world, ls_group_broadcast(g, mine, count, dtype, root));
        CHECK(world, same(mine, dtype, root, count));
        fill(mine, dtype, 100 + rank, count);
        memset(all, 0, (size_t)(row * size));
        CHECK_OK(world, ls_group_gather(g, mine, rank == root ? all : NULL, count, dtype, root));
        for (int i = 0; i < size && rank == root; i++) CHECK(world, same(all + i * row, dtype, 100 + i, count));
        for (int i = 0; i < size; i++) fill(all + i * row, dtype, 200 + i, count);
        CHECK_OK(world, ls_group_scatter(g, rank == root ? all : NULL, mine, count, dtype, root));
        CHECK(world, same(mine, dtype, 200 + rank, count));
    }
    fill(mine, dtype, rank, count);
    CHECK_OK(world, ls_group_all_gather(g, mine, all, count, dtype));
    for (int i = 0; i < size; i++) CHECK(world, same(all + i * row, dtype, i, count));
    // In its place.
    memset(all, 0, (size_t)(row * size));
    fill(all + rank * row, dtype, 300 + rank, count);
    CHECK_OK(world, ls_group_all_gather(g, all + rank * row, all, count, dtype));
    for (int i = 0; i < size; i++) CHECK(world, same(all + i * row, dtype, 300 + i, count));
    for (int i = 0; i < size; i++) fill(all + i * row, dtype, 1000 + 100 * rank + i, count);
    CHECK_OK(world, ls_group_all_to_all(g, all, other, count, dtype));
    for (int i = 0; i < size; i++) CHECK(world, same(other + i * row, dtype, 1000 + 100 * i + rank, count));
    CHECK_OK(world, ls_group_barrier(g));
    ls_memory_free(mine);
    ls_memory_free(all);
    ls_memory_free(other);
}

static void test_reducing(ls_group *g, ls_dtype dtype, int64_t count, ls_reduce_op op) {
    int rank = ls_group_rank(g), size = ls_group_size(g), root = size - 1;
    int64_t row = count * (int64_t)ls_dtype_size(dtype);
    char *mine = room(row * size), *out = room(row), *expected = room(row);
    fill(mine, dtype, rank, count);
    expect(op, dtype, 0, size, expected, count);
    CHECK_OK(world, ls_group_all_reduce(g, mine, out, count, dtype, op));
    CHECK(world, memcmp(out, expected, (size_t)row) == 0 && same(mine, dtype, rank, count));
    CHECK_OK(world, ls_group_all_reduce(g, mine, mine, count, dtype, op));  // in its place
    CHECK(world, memcmp(mine, expected, (size_t)row) == 0);
    memset(out, 7, (size_t)row);
    fill(mine, dtype, rank, count);
    CHECK_OK(world, ls_group_reduce(g, mine, rank == root ? out : NULL, count, dtype, op, root));
    if (rank == root) CHECK(world, memcmp(out, expected, (size_t)row) == 0);
    CHECK(world, same(mine, dtype, rank, count));
    // Row i of worker r is numbered 100 i + r.
    for (int i = 0; i < size; i++) fill(mine + i * row, dtype, 100 * i + rank, count);
    expect(op, dtype, 100 * rank, size, expected, count);
    CHECK_OK(world, ls_group_reduce_scatter(g, mine, out, count, dtype, op));
    CHECK(world, memcmp(out, expected, (size_t)row) == 0);
    ls_memory_free(mine);
    ls_memory_free(out);
    ls_memory_free(expected);
}

// What is added up is numbered: the expected bits know nothing of workers.
static void test_leaves(ls_group *g, ls_dtype dtype, int64_t count, ls_reduce_op op, int64_t total) {
    int64_t begin, end, row = count * (int64_t)ls_dtype_size(dtype);
    CHECK_OK(world, ls_group_deal(g, total, &begin, &end));
    char *leaves = room(row * (end - begin)), *out = room(row), *expected = room(row);
    for (int64_t i = begin; i < end; i++) fill(leaves + (i - begin) * row, dtype, (int)i, count);
    expect(op, dtype, 0, total, expected, count);
    CHECK_OK(world, ls_group_all_reduce_leaves(g, leaves, out, count, dtype, op, total));
    CHECK(world, memcmp(out, expected, (size_t)row) == 0);
    ls_memory_free(leaves);
    ls_memory_free(out);
    ls_memory_free(expected);
}

static void test_collectives(ls_group *g) {
    static const int64_t counts[] = {0, 1, 1000, 70001};  // none, small, small, large and uneven
    for (int t = 0; t < TYPES; t++)
        for (int c = t == 0 ? 0 : 2; c < 4; c++) {  // none, and one, of the first type only
            if (c < 3 || t % 2 == 0) test_moving(g, types[t], counts[c]);
            for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MAX; op++) {
                if (op == LS_REDUCE_MEAN && is_whole(types[t])) continue;
                if (c == 3 && (t + op) % 3) continue;
                test_reducing(g, types[t], counts[c], (ls_reduce_op)op);
            }
        }
    for (int64_t total = 1; total <= 13; total += 2)
        test_leaves(g, types[total % TYPES], 500 + total, total % 2 ? LS_REDUCE_SUM : LS_REDUCE_MAX, total);
    test_leaves(g, LS_DTYPE_F32, 400003, LS_REDUCE_SUM, 7);  // several rounds of chunks
    test_leaves(g, LS_DTYPE_F32, 64, LS_REDUCE_MEAN, 100);
    test_leaves(g, LS_DTYPE_BF16, 40000, LS_REDUCE_MEAN, 11);
    test_reducing(g, LS_DTYPE_F32, 300001, LS_REDUCE_SUM);
}

static void test_numbers(ls_group *g) {
    float x[3] = {1, 2, 3}, y[3];
    int rank = ls_group_rank(g), size = ls_group_size(g);
    if (rank == size - 1) x[1] = NAN;
    for (int op = LS_REDUCE_SUM; op <= LS_REDUCE_MAX; op++) {
        CHECK_OK(world, ls_group_all_reduce(g, x, y, 3, LS_DTYPE_F32, (ls_reduce_op)op));
        CHECK(world, isnan(y[1]) && y[0] == (op == LS_REDUCE_SUM ? (float)size : 1));
    }
    uint8_t whole = 200, sum;
    CHECK_OK(world, ls_group_all_reduce(g, &whole, &sum, 1, LS_DTYPE_U8, LS_REDUCE_SUM));
    CHECK(world, sum == (uint8_t)(200 * size));
}

// --- messages --------------------------------------------------------------------------------------------------------

static void test_messages(ls_group *g) {
    int rank = ls_group_rank(g), size = ls_group_size(g), done = 0;
    int64_t count = 50000;
    double *sent = room(count * 8), *got = room(count * 8), *first = room(8);
    ls_transfer transfers[4] = {{{0}}};
    CHECK(world, ls_group_send(g, sent, 1, LS_DTYPE_F64, rank, 0) == LS_STATUS_INVALID_ARGUMENT);
    says("another one is needed");
    CHECK_OK(world, ls_group_wait(g, transfers, 4));  // none is on its way
    if (size > 1) {
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        fill(sent, LS_DTYPE_F64, rank, count);
        CHECK_OK(world, ls_group_irecv(g, got, count, LS_DTYPE_F64, before, 5, &transfers[0]));
        CHECK_OK(world, ls_group_irecv(g, first, 1, LS_DTYPE_F64, before, LS_GROUP_TAGS - 1, &transfers[1]));
        CHECK_OK(world, ls_group_isend(g, sent + 7, 1, LS_DTYPE_F64, next, LS_GROUP_TAGS - 1, &transfers[2]));
        CHECK_OK(world, ls_group_isend(g, sent, count, LS_DTYPE_F64, next, 5, &transfers[3]));
        // A collective call in between is another matter.
        CHECK_OK(world, ls_group_barrier(g));
        while (!done) CHECK_OK(world, ls_group_test(g, transfers, 2, &done));
        CHECK_OK(world, ls_group_wait(g, transfers, 4));
        CHECK(world, same(got, LS_DTYPE_F64, before, count) && *first == value(before, 7));
        if (rank == 0) CHECK_OK(world, ls_group_send(g, sent, 3, LS_DTYPE_F64, 1, 0));
        if (rank == 1) CHECK_OK(world, ls_group_recv(g, got, 3, LS_DTYPE_F64, 0, 0));
        if (rank == 1) CHECK(world, same(got, LS_DTYPE_F64, 0, 3));
        CHECK_OK(world, ls_group_recv(g, NULL, 0, LS_DTYPE_F64, next, 0));  // nothing: nobody waits
        CHECK(world,
              ls_group_isend(g, sent, 1, LS_DTYPE_F64, next, LS_GROUP_TAGS, transfers) == LS_STATUS_INVALID_ARGUMENT);
        says("tag 256 was asked for; there are 0 to 255");
        CHECK(world, ls_group_irecv(g, got, -1, LS_DTYPE_F64, next, 0, transfers) == LS_STATUS_INVALID_ARGUMENT);
        CHECK(world, ls_group_recv(g, NULL, 1, LS_DTYPE_F64, next, 0) == LS_STATUS_INVALID_ARGUMENT);
    }
    ls_memory_free(sent);
    ls_memory_free(got);
    ls_memory_free(first);
}

// --- groups ----------------------------------------------------------------------------------------------------------

static void test_who(ls_group *g, const ls_comm *comm) {
    ls_group_info info = ls_group_describe(g);
    CHECK(world, info.rank == comm->rank && info.size == comm->size && info.host == comm->host);
    CHECK(world, info.hosts == comm->hosts && info.local_rank == comm->local_rank);
    CHECK(world, info.local_size == comm->local_size);
    for (int r = 0; r < info.size; r++)
        CHECK(world, ls_group_host_of(g, r) == comm->host_of[r] && ls_group_context_rank(g, r) == r);
    CHECK(world, ls_group_host_of(g, info.size) == -1 && ls_group_context_rank(g, -1) == -1);
}

static void test_parts(ls_group *all) {
    ls_group *half, *reversed, *some, *none, *again;
    int rank = ls_group_rank(all), size = ls_group_size(all);
    CHECK_OK(world, ls_group_split(all, rank % 2, 0, &half));
    CHECK(world, ls_group_size(half) == (size + (rank % 2 == 0)) / 2 && ls_group_rank(half) == rank / 2);
    CHECK_OK(world, ls_group_split(all, 0, -rank, &reversed));
    CHECK(world, ls_group_rank(reversed) == size - 1 - rank && ls_group_context_rank(reversed, 0) == size - 1);
    CHECK_OK(world, ls_group_split(all, rank == 0 ? -1 : 5, 0, &none));
    CHECK(world, rank == 0 ? none == NULL : ls_group_size(none) == size - 1);
    int ranks[2] = {size - 1, 0}, count = size > 1 ? 2 : 1;
    CHECK_OK(world, ls_group_select(all, ranks, count, &some));
    if (rank == size - 1)
        CHECK(world, ls_group_rank(some) == 0 && ls_group_size(some) == count);
    else if (rank == 0)
        CHECK(world, ls_group_rank(some) == 1);
    else
        CHECK(world, !some);
    // Parts of parts, and all of them in use at once: their messages do not meet.
    CHECK_OK(world, ls_group_split(half, 0, 0, &again));
    int32_t sent[2] = {rank, rank + 1000}, got[2] = {0};
    ls_transfer transfers[4];
    if (size > 1) {
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        CHECK_OK(world, ls_group_irecv(reversed, &got[1], 1, LS_DTYPE_I32, size - 1 - before, 0, &transfers[0]));
        CHECK_OK(world, ls_group_irecv(all, &got[0], 1, LS_DTYPE_I32, before, 0, &transfers[1]));
        CHECK_OK(world, ls_group_isend(all, &sent[0], 1, LS_DTYPE_I32, next, 0, &transfers[2]));
        CHECK_OK(world, ls_group_isend(reversed, &sent[1], 1, LS_DTYPE_I32, size - 1 - next, 0, &transfers[3]));
        test_messages(again);
        CHECK_OK(world, ls_group_wait(all, transfers, 4));
        CHECK(world, got[0] == before && got[1] == before + 1000);
    }
    test_messages(half);
    test_moving(half, LS_DTYPE_I64, 300);
    test_reducing(reversed, LS_DTYPE_F64, 300, LS_REDUCE_SUM);
    if (none) test_moving(none, LS_DTYPE_U8, 3);
    if (some) test_reducing(some, LS_DTYPE_BF16, 30000, LS_REDUCE_SUM);
    if (some) test_leaves(some, LS_DTYPE_F32, 100, LS_REDUCE_SUM, 9);
    ls_group_destroy(&half);
    test_leaves(again, LS_DTYPE_F32, 20000, LS_REDUCE_SUM, 6);  // outlives what it was made of
    ls_group_destroy(&again);
    ls_group_destroy(&reversed);
    ls_group_destroy(&some);
    ls_group_destroy(&none);
    ls_group_destroy(&none);
}

// --- wrong calls -----------------------------------------------------------------------------------------------------

static void test_alone_wrong(ls_group *g) {
    float x[4] = {0}, y[4];
    ls_group *none;
    int size = ls_group_size(g);
    CHECK(world, ls_group_broadcast(g, x, 1, LS_DTYPE_F32, size) == LS_STATUS_INVALID_ARGUMENT);
    says("ls_group_broadcast: the root is worker ");
    CHECK(world, ls_group_gather(g, x, y, 1, LS_DTYPE_F32, -1) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(world, ls_group_all_gather(g, x, y, -1, LS_DTYPE_F32) == LS_STATUS_INVALID_ARGUMENT);
    says("-1 elements were asked for; one call takes 0 to 2147483647");
    CHECK(world, ls_group_all_to_all(g, x, y, 1, (ls_dtype)17) == LS_STATUS_INVALID_ARGUMENT);
    says("no type of number 17");
    CHECK(world, ls_group_all_reduce(g, x, y, 1, LS_DTYPE_F32, (ls_reduce_op)9) == LS_STATUS_INVALID_ARGUMENT);
    says("no operation of number 9");
    CHECK(world, ls_group_all_reduce(g, x, y, 1, LS_DTYPE_I64, LS_REDUCE_MEAN) == LS_STATUS_INVALID_ARGUMENT);
    says("the mean of whole numbers (i64) is none");
    CHECK(world, ls_group_all_reduce_leaves(g, x, y, 1, LS_DTYPE_F32, LS_REDUCE_SUM, 0) == LS_STATUS_INVALID_ARGUMENT);
    says("a reduction of 0 arrays");
    CHECK(world, ls_group_scatter(g, x, NULL, 1, LS_DTYPE_F32, 0) == LS_STATUS_INVALID_ARGUMENT);
    says("ls_group_scatter: mine is NULL");
    CHECK(world, ls_group_select(g, (int[]){0, 0}, 2, &none) == LS_STATUS_INVALID_ARGUMENT && !none);
    says(size == 1 ? "a group of 2 workers out of 1" : "worker 0 is named twice");
    CHECK(world, ls_group_select(g, &size, 1, &none) == LS_STATUS_INVALID_ARGUMENT && !none);
}

// One worker does what the others do not: all of them hear of it, and the next call is as if nothing had been.
static void test_mismatches(ls_group *g) {
    float x[4] = {0}, y[64];
    ls_group *none;
    int rank = ls_group_rank(g), size = ls_group_size(g), odd = rank == size - 1, context = ls_group_context_rank(g, 0);
    char who[64];
    if (size == 1) return;
    snprintf(who, sizeof who, "and worker %d in its number ", ls_group_context_rank(g, size - 1));
    CHECK(world, (odd ? ls_group_barrier(g) : ls_group_broadcast(g, x, 4, LS_DTYPE_F32, 0)) == LS_STATUS_MISMATCH);
    says(who);
    says("ls_group_barrier: a barrier: all workers of a group have to make the same calls in the same order");
    says("ls_group_broadcast: 4 elements of fp32 from worker 0 to all, ");
    snprintf(who, sizeof who, "worker %d is in its collective call number ", context);
    says(who);
    CHECK(world, ls_group_all_reduce(g, x, y, odd ? 3 : 4, LS_DTYPE_F32, LS_REDUCE_SUM) == LS_STATUS_MISMATCH);
    says("3 elements of fp32, their sum: all");
    CHECK(world,
          ls_group_reduce(g, x, y, 1, odd ? LS_DTYPE_I32 : LS_DTYPE_F32, LS_REDUCE_MAX, 0) == LS_STATUS_MISMATCH);
    says("1 elements of i32, their maximum, to worker 0: all");
    CHECK(world, ls_group_gather(g, x, y, 1, LS_DTYPE_F32, odd) == LS_STATUS_MISMATCH);
    CHECK(world, ls_group_select(g, &odd, 1, &none) == LS_STATUS_MISMATCH && !none);
    // Wrong on one worker alone: its sentence on all.
    snprintf(who, sizeof who, "worker %d: ls_group_all_reduce: out is NULL", ls_group_context_rank(g, size - 1));
    CHECK(world,
          ls_group_all_reduce(g, x, odd ? NULL : y, 4, LS_DTYPE_F32, LS_REDUCE_SUM) == LS_STATUS_INVALID_ARGUMENT);
    says(who);
    CHECK(world, ls_group_broadcast(g, x, 1, LS_DTYPE_F32, rank == 0 ? -3 : 0) == LS_STATUS_INVALID_ARGUMENT);
    says("the root is worker -3");
    test_moving(g, LS_DTYPE_F32, 10);
    test_reducing(g, LS_DTYPE_F32, 10, LS_REDUCE_SUM);
}

// --- messages that fail ----------------------------------------------------------------------------------------------

static int waits_left;
static const ls_comm_ops *real;

static ls_status failing_wait(ls_comm *comm, ls_request *requests, int count) {
    int peer = count > 0 ? requests[0].peer : 0;
    ls_status status = real->wait_all(comm, requests, count);  // nothing stays on its way
    if (waits_left-- > 0 || count == 0 || status != LS_OK) return status;
    return LS_FAIL(LS_STATUS_LIBRARY, "could not wait for a message with worker %d: it is gone", peer);
}

// On every worker a message fails at one moment of a call: that and all later calls of the group say so, and name the worker.
static void test_failing(ls_context *context) {
    ls_comm *comm = context->comm;
    static float x[100000], y[100000];
    real = comm->ops;
    if (comm->size == 1) return;
    ls_comm_ops failing = *real;
    failing.wait_all = failing_wait;
    for (int call = 0; call < 4; call++) {
        ls_group *g;
        ls_status status = LS_OK;
        CHECK_OK(world, ls_group_create(context, &g));
        int rounds = 0;  // of the agreement on what is called
        while (1 << rounds < comm->size) rounds++;
        waits_left = rounds;
        comm->ops = &failing;
        if (call == 0) status = ls_group_all_reduce(g, x, y, 100000, LS_DTYPE_F32, LS_REDUCE_SUM);
        if (call == 1) status = ls_group_all_gather(g, x, y, 3, LS_DTYPE_F32);
        if (call == 2) status = ls_group_all_to_all(g, x, y, 3, LS_DTYPE_F32);
        if (call == 3) {
            waits_left = 0;
            status = ls_group_barrier(g);
        }
        comm->ops = real;
        CHECK(world, status == LS_STATUS_LIBRARY);
        says("could not wait for a message with worker ");
        says(call == 0 ? "ls_group_all_reduce: " : call == 1 ? "ls_group_all_gather: " : "ls_group_");
        CHECK(world, ls_group_barrier(g) == LS_STATUS_LIBRARY);
        says("this group's messages have failed before, and it can only be destroyed: ");
        says("it is gone");
        ls_transfer none = {{0}};
        CHECK(world, ls_group_wait(g, &none, 1) == LS_STATUS_LIBRARY);
        ls_group_destroy(&g);
    }
}

static void test_context(ls_context *context) {
    ls_group *g, *second;
    CHECK_OK(world, ls_group_create(context, &g));
    CHECK_OK(world, ls_group_create(context, &second));
    test_who(g, context->comm);
    test_collectives(g);
    test_numbers(second);
    test_messages(g);
    test_parts(g);
    test_alone_wrong(g);
    test_mismatches(g);
    context->comm->busy = 1;
    CHECK(world, ls_group_barrier(g) == LS_STATUS_INVALID_ARGUMENT);
    says("call ls_exchange_wait first");
    context->comm->busy = 0;
    int before = context->comm->tag_max;
    context->comm->tag_max = 32767;
    ls_group *none;
    CHECK(world, ls_group_create(context, &none) == LS_STATUS_UNSUPPORTED && !none);
    says("no tags for another one");
    context->comm->tag_max = before;
    ls_group_destroy(&second);
    ls_group_destroy(&g);
    ls_group_destroy(&g);
}

int main(void) {
    ls_context *job, *context;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&job));
    world = job->comm;
    test_context(job);
    if (world->size > 2) {
        setenv("LOCKSTEP_TEST_HOSTS", "2", 1);
        CHECK_OK(world, ls_context_create(&context));
        ls_group *g;
        CHECK_OK(world, ls_group_create(context, &g));
        test_who(g, context->comm);
        test_numbers(g);
        test_parts(g);
        ls_group_destroy(&g);
        ls_context_destroy(&context);
    }
    CHECK_OK(world, ls_context_create_alone(&context));
    test_context(context);
    ls_context_destroy(&context);
    test_failing(job);
    // What failed in test_failing left messages behind: everybody leaves at once.
    ls_comm_barrier(world);
    ls_context_destroy(&job);
    return 0;
}
