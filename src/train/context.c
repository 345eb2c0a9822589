// Joining the job.
#include "train/context.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

static ls_status create(ls_status (*join)(ls_comm **), ls_context **out) {
    ls_context *c;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    ls_status status = join(&c->comm);
    if (status != LS_OK) {
        free(c);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    c->rss = ls_memory_rss();
    *out = c;
    return LS_OK;
}

ls_status ls_context_create(ls_context **out) { return create(ls_comm_create, out); }

ls_status ls__context_create_alone(ls_context **out) { return create(ls_comm_create_self, out); }

void ls_context_destroy(ls_context **context) {
    if (!*context) return;
    ls_comm_destroy(&(*context)->comm);
    free(*context);
    *context = NULL;
}

int ls_context_rank(const ls_context *context) { return context->comm->rank; }
int ls_context_size(const ls_context *context) { return context->comm->size; }
void ls_context_abort(ls_context *context, int exit_status) { ls_comm_abort(context->comm, exit_status); }
