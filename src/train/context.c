// Joining the job.
#include "train/context.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "comm/group.h"

static ls_status join(const void *unused, ls_comm **out) { return ls_comm_create(out); }
static ls_status alone(const void *unused, ls_comm **out) { return ls_comm_create_self(out); }

ls_status ls__context_create(ls_status (*how)(const void *of, ls_comm **out), const void *of, ls_context **out) {
    ls_context *c;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    ls_status status = how(of, &c->comm);
    if (status != LS_OK) {
        free(c);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    c->comm->ops->describe(c->comm, c->communication, sizeof c->communication);
    c->rss = ls_memory_rss();
    *out = c;
    return LS_OK;
}

ls_status ls_context_create(ls_context **out) {
    LS_NEED(out, "out");
    *out = NULL;
    return ls__context_create(join, NULL, out);
}

ls_status ls_context_create_with_comm(const void *mpi_comm, ls_context **out) {
    LS_NEED(out, "out");
    *out = NULL;
    if (!mpi_comm) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no MPI communicator: pass the address of one");
    return ls__context_create(ls_comm_create_from, mpi_comm, out);
}

ls_status ls_context_create_alone(ls_context **out) {
    LS_NEED(out, "out");
    *out = NULL;
    return ls__context_create(alone, NULL, out);
}

void ls_context_destroy(ls_context **context) {
    if (!context || !*context) return;
    ls_comm_destroy(&(*context)->comm);
    free(*context);
    *context = NULL;
}

int ls_context_rank(const ls_context *context) { return context ? context->comm->rank : 0; }
int ls_context_size(const ls_context *context) { return context ? context->comm->size : 0; }
void ls_context_abort(ls_context *context, int exit_status) {
    if (!context) return;
    ls_comm_abort(context->comm, exit_status);
}

ls_context_info ls_context_describe(const ls_context *context) {
    if (!context) return (ls_context_info){0};
    const ls_comm *c = context->comm;
    return (ls_context_info){.rank = c->rank,
                             .size = c->size,
                             .host = c->host,
                             .hosts = c->hosts,
                             .local_rank = c->local_rank,
                             .local_size = c->local_size,
                             .communication = context->communication};
}

ls_status ls_context_agree(ls_context *context, ls_status mine) {
    LS_NEED(context, "context");
    ls_comm_enter(context->comm, __func__);
    return ls_comm_agree(context->comm, mine);
}

ls_status ls_context_check_equal(ls_context *context, const char *what, const char *line) {
    LS_NEED(context, "context");
    LS_NEED(what, "what");
    LS_NEED(line, "line");
    ls_comm_enter(context->comm, __func__);
    return ls_comm_check_equal(context->comm, what, line);
}

static ls_status check_bytes(int64_t bytes) {
    if (bytes >= 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%lld bytes were to be sent", (long long)bytes);
}

ls_status ls_context_broadcast(ls_context *context, void *data, int64_t bytes, int root) {
    LS_NEED(context, "context");
    LS_TRY(check_bytes(bytes));
    LS_NEED(data || !bytes, "data");
    if (root < 0 || root >= context->comm->size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a broadcast was asked for from worker %d; the job has workers 0 to %d", root,
                       context->comm->size - 1);
    ls_comm_enter(context->comm, __func__);
    return ls_comm_broadcast(context->comm, data, bytes, LS_DTYPE_U8, root);
}

ls_status ls_context_gather(ls_context *context, const void *mine, void *all, int64_t bytes) {
    LS_NEED(context, "context");
    LS_TRY(check_bytes(bytes));
    LS_NEED(mine || !bytes, "mine");
    LS_NEED(all || !bytes, "all");
    ls_comm_enter(context->comm, __func__);
    return ls_comm_allgather(context->comm, mine, all, bytes);
}

ls_status ls_context_barrier(ls_context *context) {
    LS_NEED(context, "context");
    ls_comm_enter(context->comm, __func__);
    return ls_comm_barrier(context->comm);
}

ls_status ls_group_create(ls_context *context, ls_group **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    ls_comm_enter(context->comm, __func__);
    return ls__group_all(context->comm, out);
}
