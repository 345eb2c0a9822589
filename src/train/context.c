// Joining the job, and opening datasets in memory that the workers of a host share.
#include "train/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"

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

// --- datasets --------------------------------------------------------------------------------------------------------

#define MAX_BLOCKS 64

// A dataset with the shared memory its arrays lie in.
typedef struct opened {
    ls_dataset base;  // first: an ls_dataset * is an opened *
    ls_comm *comm;
    ls_shared *blocks[MAX_BLOCKS];
    int block_count;
} opened;

static ls_status host_alloc(void *self, int64_t bytes, void **out) {
    opened *o = self;
    if (o->block_count == MAX_BLOCKS)
        return LS_FAIL(LS_STATUS_INTERNAL, "a dataset asked for too many blocks of memory");
    ls_shared *block;
    LS_TRY(ls_comm_host_alloc(o->comm, bytes, &block));
    o->blocks[o->block_count++] = block;
    *out = block->base;
    return LS_OK;
}

static void host_free(void *self, void *memory) {
    opened *o = self;
    for (int i = 0; i < o->block_count; i++)
        if (o->blocks[i]->base == memory) {
            ls_comm_host_free(&o->blocks[i]);
            o->blocks[i] = o->blocks[--o->block_count];
            return;
        }
}

static ls_status host_read(void *self, const char *path, int64_t offset, int64_t bytes, void *out) {
    return ls_comm_host_read(((opened *)self)->comm, path, offset, bytes, out);
}

static ls_status host_barrier(void *self) { return ls_comm_host_barrier(((opened *)self)->comm); }

// Agreement is sought over all workers, not only the host's: a host that failed must not leave the others waiting. Every
// format makes the same calls on every host.
static ls_status host_agree(void *self, ls_status mine) { return ls_comm_agree(((opened *)self)->comm, mine); }

ls_status ls_dataset_open(ls_context *context, const char *spec, ls_dataset **out) {
    ls_comm *comm = context->comm;
    opened *o;
    char text[512];
    snprintf(text, sizeof text, "dataset=%s", spec);  // files are read together, so all must mean the same ones
    LS_TRY(ls_comm_check_equal(comm, "the dataset", text));
    LS_TRY(ls_calloc(1, sizeof *o, &o));
    o->comm = comm;
    ls_data_host host = {.rank = comm->local_rank,
                         .size = comm->local_size,
                         .self = o,
                         .alloc = host_alloc,
                         .free = host_free,
                         .read = host_read,
                         .barrier = host_barrier,
                         .agree = host_agree};
    ls_dataset *read = NULL, *result = &o->base;
    ls_status status = ls_data_open(&host, spec, &read);
    if (status == LS_OK) {
        o->base = *read;
        ls_data_close(&read);
        snprintf(text, sizeof text, "fingerprint=%016llx", (unsigned long long)o->base.fingerprint);
        status = ls_comm_check_equal(comm, "the dataset", text);
    }
    if (status != LS_OK) {
        ls_dataset_destroy(&result);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = result;
    return LS_OK;
}

void ls_dataset_destroy(ls_dataset **dataset) {
    opened *o = (opened *)*dataset;
    if (!o) return;
    while (o->block_count > 0) ls_comm_host_free(&o->blocks[--o->block_count]);
    free(o);
    *dataset = NULL;
}

ls_shape ls_dataset_image_shape(const ls_dataset *dataset) { return dataset->image; }
int ls_dataset_classes(const ls_dataset *dataset) { return dataset->classes; }
int64_t ls_dataset_train_count(const ls_dataset *dataset) { return dataset->train.count; }
int64_t ls_dataset_test_count(const ls_dataset *dataset) { return dataset->test.count; }
