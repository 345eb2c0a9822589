// Joining the job.
#include "train/context.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

static ls_status join(const void *unused, ls_comm **out) { return ls_comm_create(out); }
static ls_status alone(const void *unused, ls_comm **out) { return ls_comm_create_self(out); }

static ls_status create(ls_status (*how)(const void *, ls_comm **), const void *mpi_comm, ls_context **out) {
    ls_context *c;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    ls_status status = how(mpi_comm, &c->comm);
    if (status != LS_OK) {
        free(c);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    c->comm->ops->describe(c->comm, c->communication, sizeof c->communication);
    c->rss = ls_memory_rss();
    *out = c;
    return LS_OK;
}

ls_status ls_context_create(ls_context **out) { return create(join, NULL, out); }

ls_status ls_context_create_with_comm(const void *mpi_comm, ls_context **out) {
    *out = NULL;
    if (!mpi_comm) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "there is no MPI communicator: pass the address of one");
    return create(ls_comm_create_from, mpi_comm, out);
}

ls_status ls_context_create_alone(ls_context **out) { return create(alone, NULL, out); }

void ls_context_destroy(ls_context **context) {
    if (!*context) return;
    ls_comm_destroy(&(*context)->comm);
    free(*context);
    *context = NULL;
}

int ls_context_rank(const ls_context *context) { return context->comm->rank; }
int ls_context_size(const ls_context *context) { return context->comm->size; }
void ls_context_abort(ls_context *context, int exit_status) { ls_comm_abort(context->comm, exit_status); }

ls_context_info ls_context_describe(const ls_context *context) {
    const ls_comm *c = context->comm;
    return (ls_context_info){.rank = c->rank,
                             .size = c->size,
                             .host = c->host,
                             .hosts = c->hosts,
                             .local_rank = c->local_rank,
                             .local_size = c->local_size,
                             .communication = context->communication};
}

ls_status ls_context_agree(ls_context *context, ls_status mine) { return ls_comm_agree(context->comm, mine); }

ls_status ls_context_check_equal(ls_context *context, const char *what, const char *line) {
    return ls_comm_check_equal(context->comm, what, line);
}

ls_status ls_context_broadcast(ls_context *context, void *data, int64_t bytes, int root) {
    return ls_comm_broadcast(context->comm, data, bytes, LS_DTYPE_U8, root);
}

ls_status ls_context_gather(ls_context *context, const void *mine, void *all, int64_t bytes) {
    return ls_comm_allgather(context->comm, mine, all, bytes);
}

ls_status ls_context_barrier(ls_context *context) { return ls_comm_barrier(context->comm); }
