// A snapshot of what all workers keep, and the thread of worker 0 that writes it while training goes on.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "optim/lookahead.h"
#include "train/checkpoint.h"
#include "train/sha256.h"
#include "train/weights.h"

enum { BUFFER = 1 << 20, TAG = 0x3000, NICENESS = 5 };

// The optimizer's state, and with lookahead the slow weights.
static int states_of(const ls_trainer *t) {
    return t->choices.optimizer->state_count(&t->choices.optimizer_params) + (t->config.lookahead != 0);
}

int64_t ls__checkpoint_residuals(const ls_trainer *t) {
    return t->choices.compress == LS_COMPRESS_TOPK ? t->train_shape.micro_batches : 0;
}

int ls__checkpoint_vectors(const ls_trainer *t) { return 1 + states_of(t) + (int)ls__checkpoint_residuals(t); }

void ls__checkpoint_vector(const ls_trainer *t, int index, char name[LS_CHECKPOINT_NAME]) {
    int states = states_of(t);
    if (index > states)
        snprintf(name, LS_CHECKPOINT_NAME, LS_RESIDUAL "%d", index - 1 - states);
    else if (index == states && t->config.lookahead)
        snprintf(name, LS_CHECKPOINT_NAME, "%s", LS_SLOW_WEIGHTS);
    else
        snprintf(name, LS_CHECKPOINT_NAME, "%s", index == 0 ? "weights" : t->choices.optimizer->state_names[index - 1]);
}

void ls__checkpoint_file(const char *vector, char name[LS_CHECKPOINT_NAME]) {
    // The length that fits is said, so that a compiler that sees both buffers does not warn of a cut.
    snprintf(name, LS_CHECKPOINT_NAME, "%.*s.safetensors", LS_CHECKPOINT_NAME - (int)sizeof ".safetensors", vector);
}

// --- the snapshot ----------------------------------------------------------------------------------------------------

static float *vector_of(const ls_checkpointer *c, int vector) {
    return (float *)c->snapshot->base + (int64_t)vector * c->length;
}

static int index_of(const ls_trainer *t, const char *vector) {
    for (int i = 0; i < t->checkpoints->vectors; i++) {
        char name[LS_CHECKPOINT_NAME];
        ls__checkpoint_vector(t, i, name);
        if (strcmp(name, vector) == 0) return i;
    }
    return -1;
}

// On the first host: into the memory that its workers share.
static ls_status keep(void *user, const ls_state_piece *piece) {
    const ls_trainer *t = user;
    int v = index_of(t, piece->vector);
    if (piece->copy != 0 || v < 0) return LS_OK;
    memcpy(vector_of(t->checkpoints, v) + piece->offset, piece->data, (size_t)piece->count * sizeof *piece->data);
    return LS_OK;
}

// A piece that a worker of another host has; where count is 0, it has no more.
typedef struct sent_piece {
    int64_t vector, offset, count;
} sent_piece;

static ls_status exchange(ls_comm *comm, void *data, int64_t count, ls_dtype dtype, int peer, int sends) {
    ls_request request = {0};
    LS_TRY(sends ? ls_comm_isend(comm, data, count, dtype, peer, TAG, &request)
                 : ls_comm_irecv(comm, data, count, dtype, peer, TAG, &request));
    return ls_comm_wait_all(comm, &request, 1);
}

static ls_status send_piece(void *user, const ls_state_piece *piece) {
    const ls_trainer *t = user;
    sent_piece head = {index_of(t, piece->vector), piece->offset, piece->count};
    if (piece->copy != 0 || head.vector < 0) return LS_OK;
    LS_TRY(exchange(t->comm, &head, (int64_t)sizeof head, LS_DTYPE_U8, 0, 1));
    return exchange(t->comm, piece->data, piece->count, LS_DTYPE_F32, 0, 1);
}

static ls_status send_all(ls_trainer *t) {
    sent_piece none = {0};
    LS_TRY(ls__trainer_visit(t, send_piece, t));
    return exchange(t->comm, &none, (int64_t)sizeof none, LS_DTYPE_U8, 0, 1);
}

static ls_status receive_all(ls_trainer *t, int from) {
    const ls_checkpointer *c = t->checkpoints;
    for (;;) {
        sent_piece head;
        LS_TRY(exchange(t->comm, &head, (int64_t)sizeof head, LS_DTYPE_U8, from, 0));
        if (head.count == 0) return LS_OK;
        LS_TRY(exchange(t->comm, vector_of(c, (int)head.vector) + head.offset, head.count, LS_DTYPE_F32, from, 0));
    }
}

ls_status ls__snapshot_take(ls_trainer *t) {
    ls_comm *comm = t->comm;
    ls_status status = LS_OK;
    if (comm->host == 0)
        status = ls__trainer_visit(t, keep, t);
    else
        status = send_all(t);
    for (int rank = 1; rank < comm->size && comm->rank == 0 && status == LS_OK; rank++)
        if (comm->host_of[rank] != 0) status = receive_all(t, rank);
    return ls_comm_agree(comm, status);
}

// --- files -----------------------------------------------------------------------------------------------------------

// A stream whose bytes are counted and hashed on their way to the file.
typedef struct hashed {
    int fd;
    EVP_MD_CTX *sha;
    int64_t bytes;
} hashed;

static ssize_t hashed_write(void *cookie, const char *data, size_t n) {
    hashed *h = cookie;
    for (size_t done = 0; done < n;) {
        ssize_t written = write(h->fd, data + done, n - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return 0;
        done += (size_t)written;
    }
    EVP_DigestUpdate(h->sha, data, n);
    h->bytes += (int64_t)n;
    return (ssize_t)n;
}

static ls_status io_failure(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the checkpoint %s: %s; the one before stays, and training goes on", path,
                   strerror(errno));
}

// What goes into a file.
typedef ls_status (*content_fn)(void *user, FILE *out, const char *path);

static ls_status fill(hashed *h, const char *path, content_fn content, void *user) {
    FILE *out = fopencookie(h, "w", (cookie_io_functions_t){.write = hashed_write});
    if (!out) return io_failure(path);
    setvbuf(out, NULL, _IOFBF, BUFFER);
    ls_status status = content(user, out, path);
    if (status == LS_OK && fflush(out) != 0) status = io_failure(path);
    fclose(out);
    if (status == LS_OK && fsync(h->fd) != 0) status = io_failure(path);
    return status;
}

// Writes the file `name` of a checkpoint, and what the manifest says of it.
static ls_status write_file(ls_checkpoint_job *job, const char *name, json_t *files, content_fn content, void *user) {
    char *path, text[65];
    hashed h = {.fd = -1};
    if (asprintf(&path, "%s/%s", job->beside, name) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = ls__sha256_begin(&h.sha);
    if (status == LS_OK) {
        h.fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        status = h.fd >= 0 ? fill(&h, job->path, content, user) : io_failure(job->path);
        ls__sha256_end(h.sha, text);
        if (h.fd >= 0 && close(h.fd) != 0 && status == LS_OK) status = io_failure(job->path);
    }
    if (status == LS_OK && files)
        json_object_set_new(files, name, json_pack("{s:I,s:s}", "bytes", (json_int_t)h.bytes, "sha256", text));
    job->bytes += h.bytes;
    free(path);
    return status;
}

static ls_status text_content(void *user, FILE *out, const char *path) {
    return fputs(user, out) < 0 || fputc('\n', out) < 0 ? io_failure(path) : LS_OK;
}

// A vector of the snapshot, read parameter by parameter; none may hold what is no finite number.
typedef struct vector_source {
    const ls_trainer *trainer;
    ls_params *params;
    ls_queue *queue;
    ls_buffer *buffer;
} vector_source;

static ls_status vector_get(void *user, int param, float *values) {
    const vector_source *v = user;
    const ls_param *p = &v->trainer->graph->store->params[param];
    int64_t count = ls_shape_count(p->shape);
    int finite = 1;
    LS_TRY(ls_params_get(v->params, v->queue, param, ls_span_of(v->buffer, 0), values));
    for (int64_t i = 0; i < count; i++) finite &= isfinite(values[i]) != 0;
    if (finite) return LS_OK;
    return LS_FAIL(LS_STATUS_DIVERGED, "no checkpoint is taken: %s is no finite number any more; the one before stays",
                   p->name);
}

static ls_status vector_content(void *user, FILE *out, const char *path) {
    vector_source *v = user;
    ls_weights w = {.graph = v->trainer->graph, .user = v, .get = vector_get};
    ls_status status = ls__weights_write(&w, out, path);
    return status == LS_STATUS_IO ? io_failure(path) : status;
}

static ls_status write_vector(ls_trainer *t, int vector, json_t *files) {
    ls_checkpointer *c = t->checkpoints;
    ls_checkpoint_job *job = &c->job;
    vector_source source = {.trainer = t, .params = c->params};
    int64_t bytes = c->length * (int64_t)sizeof(float);
    char vector_name[LS_CHECKPOINT_NAME], name[LS_CHECKPOINT_NAME];
    ls__checkpoint_vector(t, vector, vector_name);
    ls__checkpoint_file(vector_name, name);
    ls_status status = ls_queue_create(t->device, &source.queue);
    if (status == LS_OK && t->device->ops->host_memory) {
        status = ls_buffer_wrap(t->device, vector_of(c, vector), bytes, &source.buffer);
    } else if (status == LS_OK) {
        status = ls_buffer_create(t->device, bytes, &source.buffer);
        if (status == LS_OK) status = ls_write(source.queue, ls_span_of(source.buffer, 0), vector_of(c, vector), bytes);
    }
    if (status == LS_OK) status = write_file(job, name, files, vector_content, &source);
    ls_buffer_destroy(&source.buffer);
    ls_queue_destroy(&source.queue);
    return status;
}

static ls_status sync_folder(const char *path, const char *checkpoint) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 || (fsync(fd) != 0 && errno != EINVAL);  // some file systems have nothing to do
    if (fd >= 0) close(fd);
    return failed ? io_failure(checkpoint) : LS_OK;
}

static ls_status write_files(ls_trainer *t, json_t *files) {
    ls_checkpoint_job *job = &t->checkpoints->job;
    for (int v = 0; v < t->checkpoints->vectors; v++) LS_TRY(write_vector(t, v, files));
    LS_TRY(write_file(job, LS_CHECKPOINT_STATE, files, text_content, job->state));
    json_t *manifest = json_pack("{s:O}", "files", files);
    char *text = manifest ? json_dumps(manifest, JSON_INDENT(1)) : NULL;
    json_decref(manifest);
    if (!text) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = write_file(job, LS_CHECKPOINT_MANIFEST, NULL, text_content, text);
    free(text);
    return status;
}

// --- folders ---------------------------------------------------------------------------------------------------------

// Removes the files of a folder that has no folders, and it. Best effort.
void ls__checkpoint_clear(const char *path) {
    static const char *const known[] = {LS_CHECKPOINT_MANIFEST, LS_CHECKPOINT_STATE, "weights.safetensors",
                                        LS_SLOW_WEIGHTS ".safetensors"};
    char *file;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (asprintf(&file, "%s/%s", path, known[i]) >= 0) unlink(file), free(file);
    for (const ls_optimizer *const *o = ls_optimizers(); *o; o++)
        for (int i = 0; i < LS_MAX_OPTIMIZER_STATE; i++) {
            char name[LS_CHECKPOINT_NAME];
            if (!(*o)->state_names[i]) continue;
            ls__checkpoint_file((*o)->state_names[i], name);
            if (asprintf(&file, "%s/%s", path, name) >= 0) unlink(file), free(file);
        }
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, LS_RESIDUAL, strlen(LS_RESIDUAL)) == 0) unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(path);
}

void ls__checkpoint_remove(const char *folder, const char *name) {
    char *path, *gone;
    if (asprintf(&path, "%s/%s", folder, name) < 0) return;
    if (asprintf(&gone, "%s/.%s.gone", folder, name) < 0) {
        free(path);
        return;
    }
    ls__checkpoint_clear(gone);
    if (rename(path, gone) == 0) ls__checkpoint_clear(gone);
    free(path);
    free(gone);
}

// In place, of the same name as one before or not.
static ls_status put_in_place(ls_checkpointer *c) {
    ls_checkpoint_job *job = &c->job;
    LS_TRY(sync_folder(job->beside, job->path));
    if (rename(job->beside, job->path) != 0) {
        if (errno != ENOTEMPTY && errno != EEXIST) return io_failure(job->path);
        ls__checkpoint_remove(c->folder, job->name);
        if (rename(job->beside, job->path) != 0) return io_failure(job->path);
    }
    return sync_folder(c->folder, job->path);
}

static ls_status write_all(ls_trainer *t) {
    ls_checkpoint_job *job = &t->checkpoints->job;
    ls__checkpoint_clear(job->beside);
    if (mkdir(job->beside, 0777) != 0) return io_failure(job->path);
    json_t *files = json_object();
    ls_status status = files ? write_files(t, files) : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    json_decref(files);
    if (status == LS_OK) status = put_in_place(t->checkpoints);
    if (status != LS_OK) ls__checkpoint_clear(job->beside);
    return status;
}

// --- the thread ------------------------------------------------------------------------------------------------------

// It shares the cores of the replicas, and lets them go first.
static void *thread_main(void *user) {
    ls_trainer *t = user;
    ls_checkpointer *c = t->checkpoints;
    ls_checkpoint_job *job = &c->job;
    if (t->spread.bound) ls_topology_unbind(t->topology);
    id_t thread = (id_t)syscall(SYS_gettid);
    setpriority(PRIO_PROCESS, thread, getpriority(PRIO_PROCESS, thread) + NICENESS);
    if (t->device->ops->thread_begin) t->device->ops->thread_begin(t->device, NULL, NULL);
    job->status = write_all(t);
    if (job->status != LS_OK) snprintf(job->sentence, sizeof job->sentence, "%s", ls_error_message());
    job->seconds = ls_clock() - job->begun;
    atomic_store(&c->done, 1);
    return NULL;
}

ls_status ls__snapshot_write(ls_trainer *t) {
    ls_checkpointer *c = t->checkpoints;
    sigset_t all, before;  // signals are the main thread's business
    atomic_store(&c->done, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = pthread_create(&c->thread, NULL, thread_main, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c->busy = started;
    return started ? LS_OK : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "could not start the thread that writes checkpoints");
}

void ls__snapshot_join(ls_trainer *t) {
    if (t->checkpoints->busy) pthread_join(t->checkpoints->thread, NULL);
    t->checkpoints->busy = 0;
}
