// Collective operations made of messages: of all workers of a job, or of those of a host.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/tcp_impl.h"

#define PART ((int64_t)1 << 30)  // bytes of a message at most

static int rank_of(const ls__tcp_group *g, int index) { return g->ranks ? g->ranks[index] : index; }

static ls_status start(const ls__tcp_group *g, int sends, void *data, int64_t bytes, int index, ls_request *request) {
    int peer = rank_of(g, index);
    *request = (ls_request){.peer = peer};
    return sends ? g->comm->ops->isend(g->comm, data, bytes, LS_DTYPE_U8, peer, g->tag, request)
                 : g->comm->ops->irecv(g->comm, data, bytes, 0, LS_DTYPE_U8, peer, g->tag, request);
}

// `bytes` to one and as many from another at the same time.
static ls_status swap(const ls__tcp_group *g, const void *out, int to, void *in, int from, int64_t bytes) {
    for (int64_t done = 0; done == 0 || done < bytes; done += PART) {
        int64_t part = bytes - done < PART ? bytes - done : PART;
        ls_request r[2];
        LS_TRY(start(g, 0, (char *)in + done, part, from, &r[0]));
        LS_TRY(start(g, 1, (char *)out + done, part, to, &r[1]));
        LS_TRY(g->comm->ops->wait_all(g->comm, r, 2));
    }
    return LS_OK;
}

// Dissemination: after round k everybody has heard from 2^k others, directly or not.
ls_status ls__tcp_group_barrier(const ls__tcp_group *g) {
    char in, out = 0;
    for (int k = 1; k < g->count; k *= 2)
        LS_TRY(swap(g, &out, (g->self + k) % g->count, &in, (g->self - k + g->count) % g->count, 1));
    return LS_OK;
}

// A binomial tree: whoever has it gives it to the one that is half of what is left away.
ls_status ls__tcp_group_broadcast(const ls__tcp_group *g, void *data, int64_t bytes, int root) {
    int n = g->count, place = (g->self - root + n) % n, step = 1;
    while (step < n && !(place & step)) step *= 2;
    for (int64_t done = 0; done < bytes; done += PART) {
        int64_t part = bytes - done < PART ? bytes - done : PART;
        ls_request r[32];
        int count = 0;
        if (place > 0) {
            LS_TRY(start(g, 0, (char *)data + done, part, (place - step + root) % n, r));
            LS_TRY(g->comm->ops->wait_all(g->comm, r, 1));
        }
        for (int k = step / 2; k > 0; k /= 2)
            if (place + k < n) LS_TRY(start(g, 1, (char *)data + done, part, (place + k + root) % n, &r[count++]));
        LS_TRY(g->comm->ops->wait_all(g->comm, r, count));
    }
    return LS_OK;
}

// Bruck's: each round doubles what everybody has.
ls_status ls__tcp_group_allgather(const ls__tcp_group *g, const void *mine, void *all, int64_t bytes) {
    int n = g->count;
    char *rows;
    if (bytes == 0) return LS_OK;
    LS_TRY(ls_calloc(n, bytes, &rows));
    memcpy(rows, mine, (size_t)bytes);
    ls_status status = LS_OK;
    for (int have = 1; have < n && status == LS_OK; have *= 2) {
        int part = have < n - have ? have : n - have;
        status = swap(g, rows, (g->self - have + n) % n, rows + have * bytes, (g->self + have) % n, part * bytes);
    }
    for (int i = 0; i < n && status == LS_OK; i++)
        memcpy((char *)all + (g->self + i) % n * bytes, rows + i * bytes, (size_t)bytes);
    free(rows);
    return status;
}

// Around a ring: parts are summed on their way, then handed on whole. What others do, to be measured beside.
ls_status ls__tcp_group_sum(const ls__tcp_group *g, const float *mine, float *all, int64_t count) {
    int n = g->count, next = (g->self + 1) % n, before = (g->self + n - 1) % n;
    int64_t part = (count + n - 1) / n;
    float *in;
    memmove(all, mine, (size_t)count * sizeof *all);
    if (n == 1 || count == 0) return LS_OK;
    LS_TRY(ls_calloc(part * n, sizeof *in, &in));
    float *sums = in;  // of n parts of the same length, zeros behind
    ls_status status = LS_OK;
    float *arrived;
    LS_TRY_GOTO(ls_calloc(part, sizeof *arrived, &arrived), failed);
    memcpy(sums, all, (size_t)count * sizeof *all);
    for (int k = 0; k < n - 1 && status == LS_OK; k++) {
        int out = (g->self - k + n) % n, to = (g->self - k - 1 + n) % n;
        status = swap(g, sums + out * part, next, arrived, before, part * (int64_t)sizeof *sums);
        for (int64_t i = 0; i < part && status == LS_OK; i++) sums[to * part + i] += arrived[i];
    }
    for (int k = 0; k < n - 1 && status == LS_OK; k++) {
        int out = (g->self + 1 - k + n) % n, to = (g->self - k + n) % n;
        status = swap(g, sums + out * part, next, sums + to * part, before, part * (int64_t)sizeof *sums);
    }
    if (status == LS_OK) memcpy(all, sums, (size_t)count * sizeof *all);
    free(arrived);
failed:
    free(in);
    return status;
}

ls_status ls__tcp_group_agree(const ls__tcp_group *g, ls_status mine) {
    int32_t status = (int32_t)mine, *all;
    int first = 0;
    char sentence[1024] = "";
    if (g->count == 1) return mine;
    if (mine != LS_OK) snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    LS_TRY(ls_calloc(g->count, sizeof *all, &all));
    ls_status result = ls__tcp_group_allgather(g, &status, all, sizeof status);
    while (first < g->count && all[first] == LS_OK) first++;
    status = first < g->count ? all[first] : LS_OK;
    free(all);
    LS_TRY(result);
    if (status == LS_OK) return LS_OK;
    LS_TRY(ls__tcp_group_broadcast(g, sentence, sizeof sentence, first));
    ls__error_set(sentence);
    return (ls_status)status;
}
