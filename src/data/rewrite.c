// A dataset in another format: files of images as they are, other images as PNG.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/spec.h"
#include "data/writers.h"

enum { MOST_SHARDS = 1024 };

typedef struct rewriting {
    const ls_dataset *dataset;
    const ls_writer *writer;  // NULL: folders of images
    const char *path;         // of the set's file, or of the folder of all
    int test, shards;
    int64_t count;     // samples of the set
    ls_output output;  // the shard's that is written
    char name[4096];
    int shard, open;
} rewriting;

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to, with room for it", path,
                   strerror(errno));
}

// --- one sample ------------------------------------------------------------------------------------------------------

static int folder(const char *path) { return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1; }

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
    if (folder(w->path) != 0 || folder(set) != 0 || folder(class) != 0 || ls_output_open(path, &output) != 0)
        return cannot_write(path);
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
    if (!w->open) return status;
    w->open = 0;
    if (status == LS_OK && w->writer->end && w->writer->end(w->output.file) != 0) status = cannot_write(w->name);
    if (ls_output_close(&w->output, w->name, status == LS_OK) != 0 && status == LS_OK) status = cannot_write(w->name);
    return status;
}

static ls_status open_shard(rewriting *w, int shard) {
    if (w->open && w->shard == shard) return LS_OK;
    LS_TRY(close_shard(w, LS_OK));
    w->shard = shard;
    name_shard(w);
    if (ls_output_open(w->name, &w->output) != 0) return cannot_write(w->name);
    w->open = 1;
    return LS_OK;
}

// Runs of samples, so that the shards one after the other have their order.
static ls_status write_sample(rewriting *w, const ls_written *s) {
    if (!w->writer) return write_file(w, s);
    LS_TRY(open_shard(w, (int)(s->number * w->shards / w->count)));
    return w->writer->add(w->output.file, s) == 0 ? LS_OK : cannot_write(w->name);
}

static ls_status take_picture(rewriting *w, const ls_picture *p, ls_written *s) {
    s->image = p->bytes;
    s->size = p->size;
    s->ending = p->size > 0 && *(const unsigned char *)p->bytes == 0x89 ? "png" : "jpg";
    return write_sample(w, s);
}

static ls_status take_pixels(rewriting *w, ls_shape shape, const void *pixels, ls_written *s) {
    ls_image image = {shape.dim[0], shape.dim[1], shape.dim[2], (uint8_t *)(uintptr_t)pixels};
    char *bytes;
    size_t size;
    LS_TRY(ls__image_png_encode(&image, &bytes, &size));
    s->image = (const unsigned char *)bytes;
    s->size = (int64_t)size;
    s->ending = "png";
    ls_status status = write_sample(w, s);
    free(bytes);
    return status;
}

static ls_status take_samples(rewriting *w, const ls_source *source, void *scratch) {
    int image = ls_fields_find(source->field, source->field_count, "image");
    int label = ls_fields_find(source->field, source->field_count, "label");
    for (int64_t i = 0; i < source->count; i++) {
        ls_sample sample;
        ls_written s = {.number = i};
        LS_TRY(ls_source_read(source, i, scratch, &sample));
        s.class = source->field[label].dtype == LS_DTYPE_U8 ? *(const uint8_t *)sample.field[label]
                                                            : *(const int32_t *)sample.field[label];
        if (ls_field_is_picture(&source->field[image]))
            LS_TRY(take_picture(w, sample.field[image], &s));
        else
            LS_TRY(take_pixels(w, source->field[image].shape, sample.field[image], &s));
    }
    return LS_OK;
}

// --- a set -----------------------------------------------------------------------------------------------------------

static ls_status write_set(const ls_dataset *d, const ls_writer *writer, const char *path, int test, int shards) {
    const ls_source *source = test ? d->test : d->train;
    rewriting *w;
    void *scratch = NULL;
    LS_TRY(ls_calloc(1, sizeof *w, &w));
    *w = (rewriting){
        .dataset = d, .writer = writer, .path = path, .test = test, .shards = shards, .count = source->count};
    ls_status status = LS_OK;
    if (source->scratch_bytes) status = ls_memory_alloc(source->scratch_bytes, &scratch);
    if (status == LS_OK) status = take_samples(w, source, scratch);
    status = close_shard(w, status);
    ls_memory_free(scratch);
    free(w);
    return status;
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

ls_status ls_dataset_convert(const ls_dataset *d, const char *spec, int shards) {
    struct {
        const char *test;
    } set = {NULL};
    const ls_option table[] = {{"test", LS_OPTION_TEXT, .metavar = "PATH", .help = "of the test set"}, {.name = NULL}};
    char format[32];
    ls_spec path;
    LS_NEED(d, "dataset");
    LS_NEED(spec, "spec");
    snprintf(format, sizeof format, "%.*s", (int)strcspn(spec, ":"), spec);
    const ls_writer *writer = ls_writer_find(format);
    int folders = strcmp(format, "images") == 0;
    if ((!writer && !folders) || !strchr(spec, ':'))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%.200s: what is written is images:DIR, tar:FILE, tfrecord:FILE or recordio:FILE", spec);
    LS_TRY(ls_spec_read(format, strchr(spec, ':') + 1, table, &set, &path));
    LS_TRY(check_fields(d));
    if (shards > ls_dataset_train_count(d)) shards = (int)ls_dataset_train_count(d);
    if (shards < 1 || shards > MOST_SHARDS || (folders && shards > 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%d shards of %s: choose 1 to %d, and 1 for folders", shards, format,
                       MOST_SHARDS);
    if (folders && set.test)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "images:%s has a folder val for the test set: leave test=%s out",
                       path.text, set.test);
    if (d->test && !folders && !set.test)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has a test set, which would be lost: write %s:%s,test=FILE", d->name, format,
                       path.text);
    LS_TRY(write_set(d, writer, path.text, 0, shards));
    return d->test ? write_set(d, writer, folders ? path.text : set.test, 1, 1) : LS_OK;
}
