// A dataset in another format. Samples are made ready by several threads (rewrite_ready.c), and written in their order by one.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/rewrite.h"
#include "data/spec.h"

enum { MOST_SHARDS = 1024, MOST_SIDE = 4096, MOST_WORKERS = 256 };

typedef struct rewriting {
    const ls_dataset *dataset;
    const ls_writer *writer;  // NULL: folders of images
    const char *path;         // of the set's file, or of the folder of all
    int test, shards, caffe;
    int64_t count;     // samples of the set
    ls_output output;  // the shard's that is written
    void *library;     // in place of it, where the writer has one
    char name[4096];
    int shard, open;
    int both;  // 1: `library` holds both sets, and is not this set's to close
} rewriting;

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to, with room for it", path,
                   strerror(errno));
}

// --- one sample ------------------------------------------------------------------------------------------------------

// DIR/train/CLASS/NUMBER.jpg, with as many digits for all, so that their names have their order.
static ls_status write_file(const rewriting *w, const ls_written *s) {
    char set[4096], class[4600], path[4700];
    const char *name = ls_dataset_class(w->dataset, s->class);
    ls_output output;
    snprintf(set, sizeof set, "%.3900s/%s", w->path, w->test ? "val" : "train");
    if (name)
        snprintf(class, sizeof class, "%s/%.255s", set, name);
    else
        snprintf(class, sizeof class, "%s/%08d", set, s->class);
    snprintf(path, sizeof path, "%s/%010lld.%s", class, (long long)s->number, s->ending);
    if (ls_output_folder(class) != 0 || ls_output_open(path, &output) != 0) return cannot_write(path);
    int written = fwrite(s->image, 1, (size_t)s->size, output.file) == (size_t)s->size;
    return ls_output_close(&output, path, written) == 0 && written ? LS_OK : cannot_write(path);
}

// "train.tar" → "train-00003-of-00016.tar".
static void name_shard(rewriting *w) {
    const char *slash = strrchr(w->path, '/'), *file = slash ? slash + 1 : w->path, *dot = strrchr(file, '.');
    size_t stem = dot && dot > file ? (size_t)(dot - w->path) : strlen(w->path);
    if (w->shards == 1)
        snprintf(w->name, sizeof w->name, "%.4000s", w->path);
    else
        snprintf(w->name, sizeof w->name, "%.*s-%05d-of-%05d%s", (int)stem, w->path, w->shard, w->shards,
                 w->path + stem);
}

// It takes its place where all went well.
static ls_status close_shard(rewriting *w, ls_status status) {
    if (!w->open || w->both) return status;
    w->open = 0;
    if (w->writer->open) {
        ls_status closed = w->writer->close(w->library, status == LS_OK);
        return status == LS_OK ? closed : status;
    }
    if (status == LS_OK && w->writer->end && w->writer->end(w->output.file) != 0) status = cannot_write(w->name);
    if (ls_output_close(&w->output, w->name, status == LS_OK) != 0 && status == LS_OK) status = cannot_write(w->name);
    return status;
}

static ls_status open_shard(rewriting *w, int shard) {
    if (w->both || (w->open && w->shard == shard)) return LS_OK;
    LS_TRY(close_shard(w, LS_OK));
    w->shard = shard;
    name_shard(w);
    if (w->writer->open) {
        // Samples of the shard: those that write_sample puts there.
        int64_t begin = (shard * w->count + w->shards - 1) / w->shards;
        ls_writing what = {
            .path = w->name, .count = ((shard + 1) * w->count + w->shards - 1) / w->shards - begin, .caffe = w->caffe};
        LS_TRY(w->writer->open(&what, &w->library));
        w->open = 1;
        return LS_OK;
    }
    if (ls_output_open(w->name, &w->output) != 0) return cannot_write(w->name);
    w->open = 1;
    return LS_OK;
}

// Runs of samples, so that the shards one after the other have their order.
static ls_status write_sample(rewriting *w, const ls_written *s) {
    if (!w->writer) return write_file(w, s);
    LS_TRY(open_shard(w, (int)(s->number * w->shards / w->count)));
    if (w->writer->open) return w->writer->put(w->library, s);
    return w->writer->add(w->output.file, s) == 0 ? LS_OK : cannot_write(w->name);
}

// --- samples ---------------------------------------------------------------------------------------------------------

enum { TOGETHER = 64 };  // samples of a worker that are made ready before they are written

// What threads make ready: samples from `base` on.
typedef struct batch {
    const ls_source *source;
    const ls_convert_config *config;
    int64_t base, count;
    _Atomic int64_t next;
    ls_ready ready[];  // (count)
} batch;

typedef struct worker {
    batch *batch;
    void *scratch;
    pthread_t thread;
    int runs;
} worker;

static void *make_ready(void *argument) {
    worker *w = argument;
    batch *b = w->batch;
    for (int64_t i; (i = atomic_fetch_add(&b->next, 1)) < b->count;)
        ls__rewrite_ready(b->source, b->base + i, b->config, w->scratch, &b->ready[i]);
    return NULL;
}

// The calling thread is one of them. Signals are the main thread's business.
static void run_workers(batch *b, worker *workers, int count) {
    sigset_t all, before;
    atomic_store(&b->next, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < count; i++)
        workers[i].runs = pthread_create(&workers[i].thread, NULL, make_ready, &workers[i]) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    make_ready(&workers[0]);
    for (int i = 1; i < count; i++)
        if (workers[i].runs) pthread_join(workers[i].thread, NULL);
}

static ls_status write_batch(rewriting *w, batch *b) {
    ls_status status = LS_OK;
    for (int64_t i = 0; i < b->count; i++) {
        ls_ready *r = &b->ready[i];
        if (status == LS_OK && r->status != LS_OK) {
            ls__error_set(r->message);
            status = ls__fail_passed(r->status, __FILE__, __LINE__);
        }
        r->written.test = w->both && w->test;
        if (status == LS_OK) status = write_sample(w, &r->written);
        free(r->memory);
    }
    return status;
}

static ls_status write_batches(rewriting *w, batch *b, worker *workers, int count) {
    int64_t most = (int64_t)count * TOGETHER;
    for (b->base = 0; b->base < b->source->count; b->base += b->count) {
        int64_t left = b->source->count - b->base;
        b->count = left < most ? left : most;
        memset(b->ready, 0, (size_t)b->count * sizeof *b->ready);
        run_workers(b, workers, count);
        LS_TRY(write_batch(w, b));
    }
    return LS_OK;
}

static ls_status take_samples(rewriting *w, const ls_source *source, const ls_convert_config *c) {
    int count = c->workers > 1 ? c->workers : 1;
    batch *b;
    worker *workers = NULL;
    LS_TRY(ls_calloc(1, (int64_t)sizeof *b + (int64_t)count * TOGETHER * (int64_t)sizeof b->ready[0], &b));
    b->source = source;
    b->config = c;
    ls_status status = ls_calloc(count, sizeof *workers, &workers);
    for (int i = 0; i < count && status == LS_OK; i++) {
        workers[i].batch = b;
        if (source->scratch_bytes) status = ls_memory_alloc(source->scratch_bytes, &workers[i].scratch);
    }
    if (status == LS_OK) status = write_batches(w, b, workers, count);
    for (int i = 0; workers && i < count; i++) ls_memory_free(workers[i].scratch);
    free(workers);
    free(b);
    return status;
}

// --- a set -----------------------------------------------------------------------------------------------------------

// How the words behind a format are meant.
typedef struct target {
    const ls_writer *writer;  // NULL: folders
    const char *path, *test;  // test NULL: none is named
    const char *layout;
    int caffe;
} target;

static ls_status write_set(const ls_dataset *d, const target *to, const char *path, int test,
                           const ls_convert_config *c) {
    const ls_source *source = test ? d->test : d->train;
    rewriting *w;
    LS_TRY(ls_calloc(1, sizeof *w, &w));
    *w = (rewriting){.dataset = d,
                     .writer = to->writer,
                     .path = path,
                     .test = test,
                     .caffe = to->caffe,
                     .shards = test || c->shards < 1 ? 1 : c->shards,
                     .count = source->count};
    ls_status status = take_samples(w, source, c);
    status = close_shard(w, status);
    free(w);
    return status;
}

// Both sets into one file of a library's.
static ls_status write_both(const ls_dataset *d, const target *to, const ls_convert_config *c) {
    rewriting *w;
    ls_writing what = {.path = to->path, .count = d->train->count, .test_count = d->test ? d->test->count : 0};
    LS_TRY(ls_calloc(1, sizeof *w, &w));
    *w = (rewriting){.dataset = d, .writer = to->writer, .path = to->path, .shards = 1, .both = 1};
    ls_status status = to->writer->open(&what, &w->library);
    if (status != LS_OK) {
        free(w);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    for (w->test = 0; w->test < (d->test ? 2 : 1) && status == LS_OK; w->test++) {
        const ls_source *source = w->test ? d->test : d->train;
        if (!source) break;
        w->count = source->count;
        status = take_samples(w, source, c);
    }
    ls_status closed = to->writer->close(w->library, status == LS_OK);
    free(w);
    return status == LS_OK ? closed : status;
}

// --- all of it -------------------------------------------------------------------------------------------------------

static ls_status check_fields(const ls_dataset *d) {
    const ls_field *image = ls_dataset_find_field(d, "image"), *label = ls_dataset_find_field(d, "label");
    if (!image || image->shape.ndim != 3 || image->dtype != LS_DTYPE_U8 ||
        (image->shape.dim[2] != 1 && image->shape.dim[2] != 3) || !label || !label->classes ||
        ls_shape_count(label->shape) != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has no images in grey or colour with a class each, which these formats hold",
                       d->name);
    return LS_OK;
}

static ls_status check_config(const ls_dataset *d, const char *format, const ls_writer *writer,
                              const ls_convert_config *c) {
    if (c->shards < 0 || c->shards > MOST_SHARDS || ((!writer || writer->arrays) && c->shards > 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%d shards of %s: choose 1 to %d, and 1 for folders and arrays",
                       c->shards, format, MOST_SHARDS);
    if (c->image_size < 0 || c->image_size > MOST_SIDE || (c->image_size && c->resize))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images of %d pixels in height and width%s: choose up to %d, and either this or a shorter side",
                       c->image_size, c->resize ? ", and a shorter side" : "", MOST_SIDE);
    if (c->quality && writer && writer->arrays)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s holds pixels, which have no quality: leave it out", format);
    if (c->resize < 0 || c->resize > MOST_SIDE || c->quality < 0 || c->quality > 100 || c->workers < 0 ||
        c->workers > MOST_WORKERS)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "a side of %d pixels, a quality of %d and %d workers were asked for: choose sides up to %d, qualities up "
            "to 100, and up to %d workers",
            c->resize, c->quality, c->workers, MOST_SIDE, MOST_WORKERS);
    if (c->pixels && c->quality)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "pixels that are not encoded have no quality: leave one of both out");
    if (c->pixels && !(writer && writer->pixels))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s holds images as PNG or JPEG files: pixels that are not encoded can go to lmdb, hdf5 and numpy", format);
    return check_fields(d);
}

// Where the test set goes.
static ls_status check_target(const ls_dataset *d, const char *format, target *to) {
    int whole = !to->writer || to->writer->arrays;  // one place has both
    if (to->layout && (!to->writer || !to->writer->layouts))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has one layout: leave layout=%s out", format, to->layout);
    to->caffe = to->layout && strcmp(to->layout, "caffe") == 0;
    if (to->caffe) whole = 0;
    if (!to->writer && to->test)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "images:%s has a folder val for the test set: leave test=%s out",
                       to->path, to->test);
    if (whole && to->test)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s:%s has arrays of the test set, too: leave test=%s out", format,
                       to->path, to->test);
    if (d->test && !whole && !to->test)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has a test set, which would be lost: write %s:%s,test=FILE", d->name, format,
                       to->path);
    return LS_OK;
}

ls_status ls_dataset_convert(const ls_dataset *d, const char *spec, const ls_convert_config *config) {
    target to = {NULL, NULL, NULL, NULL, 0};
    const ls_option table[] = {
        {"test", LS_OPTION_TEXT, .offset = offsetof(target, test), .metavar = "PATH", .help = "of the test set"},
        {"layout", LS_OPTION_TEXT, .offset = offsetof(target, layout), .metavar = "keras|caffe",
         .help = "of HDF5's data sets"},
        {.name = NULL}};
    char format[32];
    ls_spec path;
    LS_NEED(d, "dataset");
    LS_NEED(spec, "spec");
    ls_convert_config c = config ? *config : (ls_convert_config){.shards = 1};
    snprintf(format, sizeof format, "%.*s", (int)strcspn(spec, ":"), spec);
    to.writer = ls_writer_find(format);
    if ((!to.writer && strcmp(format, "images") != 0) || !strchr(spec, ':'))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%.200s: what is written is images:DIR, tar:FILE, tfrecord:FILE, recordio:FILE, lmdb:DIR, "
                       "hdf5:FILE or numpy:FILE.npz",
                       spec);
    LS_TRY(ls_spec_read(format, strchr(spec, ':') + 1, table, &to, &path));
    to.path = path.text;
    if (c.shards > ls_dataset_train_count(d)) c.shards = (int)ls_dataset_train_count(d);
    LS_TRY(check_config(d, format, to.writer, &c));
    LS_TRY(check_target(d, format, &to));
    if (to.writer && to.writer->arrays) c.pixels = 1;
    if (to.writer && to.writer->arrays && !to.caffe) return write_both(d, &to, &c);
    LS_TRY(write_set(d, &to, path.text, 0, &c));
    return d->test ? write_set(d, &to, to.writer ? to.test : path.text, 1, &c) : LS_OK;
}
