// Datasets of a job: in memory that the workers of a host share, and the same for all workers.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "train/context.h"

#define MAX_BLOCKS 64

// What a dataset of ours belongs to: the job, and the shared memory its arrays lie in.
typedef struct opened {
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

static void release(void *owner) {
    opened *o = owner;
    while (o->block_count > 0) ls_comm_host_free(&o->blocks[--o->block_count]);
    free(o);
}

static ls_data_host host_of(opened *o) {
    return (ls_data_host){.rank = o->comm->local_rank,
                          .size = o->comm->local_size,
                          .self = o,
                          .alloc = host_alloc,
                          .free = host_free,
                          .read = host_read,
                          .barrier = host_barrier,
                          .agree = host_agree};
}

static ls_status make_owner(ls_comm *comm, opened **out) {
    ls_status status;
    LS_TRY_GOTO(ls_comm_agree(comm, ls_calloc(1, sizeof **out, out)), fail);
    (*out)->comm = comm;
    return LS_OK;
fail:
    free(*out);
    *out = NULL;
    return status;
}

// From here on the dataset owns what `o` has, and all workers have the same one; or it is destroyed, and so is `o`. Collective.
static ls_status hand_over(opened *o, ls_dataset **dataset) {
    char text[4096];
    (*dataset)->release = release;
    (*dataset)->owner = o;
    ls_data_describe(*dataset, text, sizeof text);
    ls_status status = ls_comm_check_equal(o->comm, "the dataset", text);
    if (status == LS_OK) return LS_OK;
    const ls_source *train = (*dataset)->train;
    if (train->ops->forget) train->ops->forget(train);
    ls_data_close(dataset);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

static ls_status open_columns(ls_context *context, const char *spec, const char *const *columns, const char *function,
                              ls_dataset **out) {
    opened *o;
    char text[512];
    uint32_t names = 0;
    ls_comm_enter(context->comm, function);
    for (int i = 0; columns && columns[i]; i++)
        names = ls_crc32c_more(names, columns[i], (int64_t)strlen(columns[i]) + 1);
    // Files are read together, so all must mean the same ones.
    snprintf(text, sizeof text, "columns=%08x; dataset=%s", names, spec);
    LS_TRY(ls_comm_check_equal(context->comm, "the dataset", text));
    LS_TRY(make_owner(context->comm, &o));
    ls_data_host host = host_of(o);
    ls_status status = ls_data_open_columns(&host, spec, columns, out);
    if (status != LS_OK) {
        release(o);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    return hand_over(o, out);
}

ls_status ls_dataset_open(ls_context *context, const char *spec, ls_dataset **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(spec, "spec");
    return open_columns(context, spec, NULL, __func__, out);
}

ls_status ls_dataset_open_columns(ls_context *context, const char *spec, const char *const *columns, ls_dataset **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(spec, "spec");
    return open_columns(context, spec, columns, __func__, out);
}

// Takes what this worker has made of a description, with the status of that. Collective.
static ls_status own(ls_context *context, ls_status made, int copy, ls_dataset **dataset) {
    opened *o;
    ls_status status = ls_comm_agree(context->comm, made);
    if (status == LS_OK) status = make_owner(context->comm, &o);
    if (status != LS_OK) {
        ls_data_close(dataset);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    LS_TRY(hand_over(o, dataset));
    if (!copy) return LS_OK;
    ls_data_host host = host_of(o);
    status = ls_data_copy(&host, *dataset);
    if (status == LS_OK) return LS_OK;
    ls_data_close(dataset);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

ls_status ls__dataset_cache(ls_dataset *d, int64_t limit, int decoded) {
    opened *o = d->owner;
    ls_shared *block;
    int64_t bytes = ls_data_cache_size(d, limit, decoded);
    if (bytes == 0 || d->cache_bytes) return LS_OK;
    if (o->block_count == MAX_BLOCKS)
        return LS_FAIL(LS_STATUS_INTERNAL, "a dataset asked for too many blocks of memory");
    LS_TRY(ls_comm_host_alloc(o->comm, bytes, &block));
    o->blocks[o->block_count++] = block;
    if (o->comm->local_rank == 0) ls_data_cache_attach(d, limit, decoded, block->base, 1);
    LS_TRY(ls_comm_host_barrier(o->comm));
    if (o->comm->local_rank > 0) ls_data_cache_attach(d, limit, decoded, block->base, 0);
    return LS_OK;
}

ls_status ls_dataset_create_arrays(ls_context *context, const ls_arrays_config *config, ls_dataset **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(config, "config");
    ls_comm_enter(context->comm, __func__);
    return own(context, ls_data_create_arrays(config, out), config->copy, out);
}

ls_status ls_dataset_create_callback(ls_context *context, const ls_callback_config *config, ls_dataset **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(context, "context");
    LS_NEED(config, "config");
    ls_comm_enter(context->comm, __func__);
    return own(context, ls_data_create_callback(config, out), 0, out);
}
