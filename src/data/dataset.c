#include "data/dataset.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "data/exclude.h"
#include "data/fingerprint.h"
#include "data/normalize.h"
#include "data/pixels.h"
#include "data/spec.h"

// One line per format: the file formats/NAME.c ends in ls_format_NAME.
#define FORMATS(X)                                                                                                     \
    X(mnist)                                                                                                           \
    X(fashion_mnist)                                                                                                   \
    X(cifar10)                                                                                                         \
    X(cifar100)                                                                                                        \
    X(images)                                                                                                          \
    X(numpy)                                                                                                           \
    X(csv)                                                                                                             \
    X(tar)                                                                                                             \
    X(tfrecord)                                                                                                        \
    X(recordio)                                                                                                        \
    X(lmdb)                                                                                                            \
    X(hdf5)                                                                                                            \
    X(digits)                                                                                                          \
    X(letters)                                                                                                         \
    X(moving_digits)                                                                                                   \
    X(shapes)                                                                                                          \
    X(sentences)                                                                                                       \
    X(text)                                                                                                            \
    X(roles)                                                                                                           \
    X(synthetic)

#define X(name) extern const ls_format ls_format_##name;
FORMATS(X)
#undef X

const ls_format *const *ls_formats(void) {
    static const ls_format *const list[] = {
#define X(name) &ls_format_##name,
        FORMATS(X)
#undef X
            NULL,
    };
    return list;
}

// ---- making one ----------------------------------------------------------------------------------------------------

// "the training set of mnist".
static void name_set(const ls_dataset *d, int test, char *text, size_t size) {
    snprintf(text, size, "the %s set of %s", test ? "test" : "training", d->name);
}

static ls_status make_memory(ls_dataset *d, int test, const ls_field *fields, int field_count,
                             const ls_arrays *arrays) {
    char name[128];
    name_set(d, test, name, sizeof name);
    return ls_source_create_memory(name, fields, field_count, arrays, test ? &d->test : &d->train);
}

ls_status ls_data_set_fields(ls_data_host *host, ls_dataset *out, const ls_field *fields, int field_count,
                             const ls_arrays *train, const ls_arrays *test) {
    ls_status status = make_memory(out, 0, fields, field_count, train);
    if (status == LS_OK) status = make_memory(out, 1, fields, field_count, test);
    out->shared = 1;
    return host->agree(host->self, status);
}

ls_status ls_data_set_images(ls_data_host *host, ls_dataset *out, ls_shape image, int classes, const ls_arrays *train,
                             const ls_arrays *test) {
    const ls_field fields[] = {{"image", image, LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, classes}};
    return ls_data_set_fields(host, out, fields, 2, train, test);
}

static ls_status create(const char *name, ls_dataset **out) {
    LS_TRY(ls_calloc(1, sizeof **out, out));
    snprintf((*out)->name, sizeof(*out)->name, "%s", name);
    return LS_OK;
}

// Fingerprint of what this worker has alone, and the time it took to get here.
static ls_status finish_alone(ls_dataset *d, double start) {
    int64_t parts = ls__fingerprint_parts(d);
    uint64_t *hashes;  // (parts)
    LS_TRY(ls_source_check_classes(d->train));
    if (d->test) LS_TRY(ls_source_check_classes(d->test));
    LS_TRY(ls_calloc(parts, sizeof *hashes, &hashes));
    ls_status status = ls__fingerprint_hash(d, 0, 1, hashes);
    if (status == LS_OK) d->fingerprint = ls__fingerprint_combine(d, hashes, parts);
    free(hashes);
    d->read_seconds = ls_clock() - start;
    return status;
}

// The same where the workers of a host share it: each hashes its part, and the slowest one's time counts.
static ls_status finish(ls_data_host *host, ls_dataset *d, double start) {
    int64_t parts = ls__fingerprint_parts(d);
    void *block = NULL;
    ls_status status = ls_source_check_classes(d->train);
    if (status == LS_OK && d->test) status = ls_source_check_classes(d->test);
    LS_TRY(host->agree(host->self, status));
    double seconds = ls_clock() - start;
    status = host->alloc(host->self, (host->size + parts) * 8, &block);
    LS_TRY(host->agree(host->self, status));
    double *times = block;                              // (size)
    uint64_t *hashes = (uint64_t *)block + host->size;  // (parts)
    times[host->rank] = seconds;
    LS_TRY(host->agree(host->self, ls__fingerprint_hash(d, host->rank, host->size, hashes)));
    LS_TRY(host->barrier(host->self));
    d->fingerprint = ls__fingerprint_combine(d, hashes, parts);
    d->read_seconds = 0;
    for (int i = 0; i < host->size; i++)
        if (times[i] > d->read_seconds) d->read_seconds = times[i];
    return LS_OK;
}

// ---- opening -------------------------------------------------------------------------------------------------------

static void list_formats(char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (const ls_format *const *f = ls_formats(); *f; f++) {
        const char *colon = (*f)->argument ? ":" : "", *argument = (*f)->argument ? (*f)->argument : "";
        ls_text_add(text, size, &used, "%s%s%s%s", used ? ", " : "", (*f)->name, colon, argument);
    }
}

static ls_status no_format(const char *name, const char *names) {
    const char *list[32];
    int count = 0;
    for (const ls_format *const *f = ls_formats(); *f && count < 32; f++) list[count++] = (*f)->name;
    const char *near = ls_nearest(name, list, count);
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no dataset \"%s\"%s%s%s%s; there are: %s", name,
                   near ? " (did you mean " : "", near ? near : "", near ? "?)" : "",
                   strchr(name, '/') ? ": before a folder comes the format of its files, as in mnist:DIR" : "", names);
}

// "name" or "name:argument" → format and argument (NULL when there is none). Not collective.
static ls_status parse(const char *spec, const ls_format **format, const char **argument) {
    char names[512];
    list_formats(names, sizeof names);
    if (!spec || !*spec) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "no dataset was named; name one of: %s", names);
    size_t length = strcspn(spec, ":");
    *argument = spec[length] ? spec + length + 1 : NULL;
    *format = NULL;
    for (const ls_format *const *f = ls_formats(); *f && !*format; f++)
        if (strlen((*f)->name) == length && memcmp((*f)->name, spec, length) == 0) *format = *f;
    if (!*format) {
        char name[200];
        snprintf(name, sizeof name, "%.*s", (int)(length < sizeof name ? length : sizeof name - 1), spec);
        return no_format(name, names);
    }
    const ls_format *f = *format;
    if (f->argument && (!*argument || !**argument))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s needs to know %s: write %s:%s", f->name,
                       strcmp(f->argument, "DIR") == 0 ? "where its files are" : "what it is to be", f->name,
                       f->argument);
    if (!f->argument && *argument)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s takes no argument, but got \"%.200s\": write %s",
                       f->name, *argument, f->name);
    return LS_OK;
}

// The list of samples that are left out, behind any dataset's argument.
typedef struct left_out {
    char rest[4096], list[4096];  // the argument without it; its path
    int there;
} left_out;

// A format that leaves names out sees the option, too.
static ls_status find_list(const ls_format *format, const char **argument, left_out *e) {
    e->there = 0;
    if (!*argument) return LS_OK;
    LS_TRY(ls_spec_take(format->name, *argument, "exclude", e->rest, e->list, sizeof e->list, &e->there));
    if (!e->there) return LS_OK;
    if (!format->names) *argument = e->rest;
    if (e->list[0]) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s:%s: exclude= names the file with what is left out: exclude=FILE",
                   format->name, e->rest);
}

ls_status ls_data_open(ls_data_host *host, const char *spec, ls_dataset **out) {
    return ls_data_open_columns(host, spec, NULL, out);
}

ls_status ls_data_open_columns(ls_data_host *host, const char *spec, const char *const *columns, ls_dataset **out) {
    *out = NULL;
    double start = ls_clock();
    const ls_format *format = NULL;
    const char *argument = NULL;
    ls_dataset *dataset = NULL;
    left_out excluded;
    excluded.there = 0;
    ls_status status = parse(spec, &format, &argument);
    if (status == LS_OK) status = find_list(format, &argument, &excluded);
    if (status == LS_OK) status = create(format->name, &dataset);
    LS_TRY_GOTO(host->agree(host->self, status), fail);
    assert(format && dataset);  // agreeing means that this worker was fine too
    dataset->classes = format->classes;
    dataset->wanted = columns;
    LS_TRY_GOTO(format->open(host, argument, dataset), fail);
    if (excluded.there) LS_TRY_GOTO(ls_exclude_numbers(host, excluded.list, format->names, dataset), fail);
    LS_TRY_GOTO(finish(host, dataset, start), fail);
    if (host->rank == 0) ls__dataset_note_classes(dataset);
    if (host->rank == 0) ls__dataset_note_columns(dataset);
    dataset->wanted = NULL;
    *out = dataset;
    return LS_OK;
fail:
    ls_data_close(&dataset);
    return status;
}

// ---- arrays, callbacks, plans --------------------------------------------------------------------------------------

ls_status ls_data_create_arrays(const ls_arrays_config *c, ls_dataset **out) {
    double start = ls_clock();
    ls_dataset *d;
    ls_status status;
    *out = NULL;
    LS_TRY(create(c->name ? c->name : "arrays", &d));
    LS_TRY_GOTO(make_memory(d, 0, c->fields, c->field_count, &c->train), fail);
    if (c->test.count) LS_TRY_GOTO(make_memory(d, 1, c->fields, c->field_count, &c->test), fail);
    LS_TRY_GOTO(finish_alone(d, start), fail);
    ls__dataset_note_classes(d);
    *out = d;
    return LS_OK;
fail:
    ls_data_close(&d);
    return status;
}

ls_status ls_data_create_callback(const ls_callback_config *c, ls_dataset **out) {
    double start = ls_clock();
    char name[128];
    ls_dataset *d;
    ls_status status;
    *out = NULL;
    LS_TRY(create(c->name ? c->name : "callback", &d));
    d->version = c->version;
    name_set(d, 0, name, sizeof name);
    LS_TRY_GOTO(ls_source_create_callback(name, c->fields, c->field_count, &c->train, &d->train), fail);
    name_set(d, 1, name, sizeof name);
    if (c->test.count)
        LS_TRY_GOTO(ls_source_create_callback(name, c->fields, c->field_count, &c->test, &d->test), fail);
    LS_TRY_GOTO(finish_alone(d, start), fail);
    *out = d;
    return LS_OK;
fail:
    ls_data_close(&d);
    return status;
}

ls_status ls_data_create_planned(const char *name, const ls_field *fields, int field_count, int64_t train_count,
                                 int64_t test_count, ls_dataset **out) {
    ls_dataset *d;
    ls_status status;
    *out = NULL;
    LS_TRY(create(name, &d));
    LS_TRY_GOTO(ls_source_create_planned(name, fields, field_count, train_count, &d->train), fail);
    LS_TRY_GOTO(ls_source_create_planned(name, fields, field_count, test_count, &d->test), fail);
    *out = d;
    return LS_OK;
fail:
    ls_data_close(&d);
    return status;
}

// One set, whose copy takes the place of what it was.
static ls_status copy_set(ls_data_host *host, ls_dataset *d, int test) {
    ls_source *from = test ? d->test : d->train, *to = NULL;
    ls_arrays arrays = {.count = from->count};
    int64_t offset[LS_MAX_FIELDS], bytes = 0;
    void *block = NULL;
    for (int f = 0; f < from->field_count; f++) {
        offset[f] = bytes;
        bytes += ls_round_up(from->count * from->sample_bytes[f], LS_ALIGN);
    }
    LS_TRY(host->agree(host->self, host->alloc(host->self, bytes, &block)));
    int64_t first = from->count * host->rank / host->size, past = from->count * (host->rank + 1) / host->size;
    for (int f = 0; f < from->field_count; f++) {
        int64_t size = from->sample_bytes[f];
        const char *values = ls_source_array(from, f);
        char *mine = (char *)block + offset[f];
        memcpy(mine + first * size, values + first * size, (size_t)((past - first) * size));
        arrays.field[f] = mine;
    }
    ls_status status = ls_source_create_memory(from->name, from->field, from->field_count, &arrays, &to);
    status = host->agree(host->self, status);
    if (status == LS_OK) status = host->barrier(host->self);
    if (status != LS_OK) {
        ls_source_destroy(&to);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *(test ? &d->test : &d->train) = to;
    ls_source_destroy(&from);
    return LS_OK;
}

ls_status ls_data_copy(ls_data_host *host, ls_dataset *d) {
    LS_TRY(copy_set(host, d, 0));
    if (d->test) LS_TRY(copy_set(host, d, 1));
    d->shared = 1;
    return LS_OK;
}

// ---- a cache of files -----------------------------------------------------------------------------------------------

static int64_t cache_of(const ls_source *s, int64_t limit) {
    return s && s->ops->cache_size ? ls_round_up(s->ops->cache_size(s, limit / LS_ALIGN * LS_ALIGN), LS_ALIGN) : 0;
}

static int64_t images_of(const ls_source *s) { return s && s->ops->images ? s->ops->images(s) : 0; }

// Of both sets, whose images are kept as they come. Images that are halved are kept beside whole ones, at most a third of their bytes more.
static int64_t pixels_size(const ls_dataset *d, int64_t limit, int64_t *train, int64_t *test) {
    *train = images_of(d->train);
    *test = d->test == d->train ? 0 : images_of(d->test);
    int64_t each = d->train->picture_bytes;
    if (*test && d->test->picture_bytes > each) each = d->test->picture_bytes;
    return *train ? ls_pixels_size(*train + *test, each + each / 3, limit / LS_ALIGN * LS_ALIGN) : 0;
}

int64_t ls_data_cache_least(const ls_dataset *d) {
    int64_t train = images_of(d->train), test = d->test == d->train ? 0 : images_of(d->test);
    return train ? ls_pixels_least(train + test) : 0;
}

int64_t ls_data_cache_size(const ls_dataset *d, int64_t limit, int decoded) {
    int64_t train, test;
    if (decoded && images_of(d->train)) return pixels_size(d, limit, &train, &test);
    train = cache_of(d->train, limit);
    return train + (d->test == d->train ? 0 : cache_of(d->test, limit - train));
}

static void keep_pixels(ls_dataset *d, int64_t limit, void *memory) {
    int64_t train, test, size = pixels_size(d, limit, &train, &test);
    d->train->ops->keep_pixels(d->train, memory, size, train + test, 0);
    if (test) d->test->ops->keep_pixels(d->test, memory, size, train + test, train);
    d->cache_bytes = size;
}

void ls_data_cache_attach(ls_dataset *d, int64_t limit, int decoded, void *memory, int fill) {
    if (decoded && images_of(d->train)) {
        keep_pixels(d, limit, memory);
        return;
    }
    int64_t train = cache_of(d->train, limit), test = d->test == d->train ? 0 : cache_of(d->test, limit - train);
    if (train) d->train->ops->cache_attach(d->train, limit / LS_ALIGN * LS_ALIGN, memory, fill);
    if (test) d->test->ops->cache_attach(d->test, (limit - train) / LS_ALIGN * LS_ALIGN, (char *)memory + train, fill);
    d->cache_bytes = train + test;
}

// ---- what it is ----------------------------------------------------------------------------------------------------

// Appends what fits.
__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size, const char *format, ...) {
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void ls_data_describe(const ls_dataset *d, char *text, size_t size) {
    text[0] = 0;
    append(text, size, "dataset=%s; ", d->name);
    for (int f = 0; f < d->train->field_count; f++) {
        const ls_field *field = &d->train->field[f];
        append(text, size, "field %s=%s", field->name, ls_dtype_name(field->dtype));
        for (int i = 0; i < field->shape.ndim; i++)
            append(text, size, "%c%lld", i ? 'x' : ' ', (long long)field->shape.dim[i]);
        if (field->classes) append(text, size, " of %d classes", field->classes);
        append(text, size, "; ");
    }
    append(text, size, "training samples=%lld; test samples=%lld; fingerprint=%016llx",
           (long long)ls_dataset_train_count(d), (long long)ls_dataset_test_count(d),
           (unsigned long long)d->fingerprint);
}

int64_t ls_data_bytes(const ls_dataset *d) {
    return d->train->bytes + (d->test && d->test != d->train ? d->test->bytes : 0);
}

const char *ls_dataset_name(const ls_dataset *d) { return d ? d->name : NULL; }
int64_t ls_dataset_train_count(const ls_dataset *d) { return d ? d->train->count : 0; }
int64_t ls_dataset_test_count(const ls_dataset *d) {
    if (!d) return 0;
    return d->test ? d->test->count : 0;
}

uint64_t ls_dataset_fingerprint(const ls_dataset *d) { return d ? d->fingerprint : 0; }
const char *ls_dataset_note(const ls_dataset *d) { return d ? d->note : ""; }
int64_t ls_dataset_stored_bytes(const ls_dataset *d) {
    return d && d->train->ops->stored ? d->train->ops->stored(d->train) : 0;
}
double ls_dataset_read_seconds(const ls_dataset *d) { return d ? d->read_seconds : 0; }

const ls_field *ls_dataset_field(const ls_dataset *d, int index) {
    if (!d) return NULL;
    return index >= 0 && index < d->train->field_count ? &d->train->field[index] : NULL;
}

const ls_field *ls_dataset_find_field(const ls_dataset *d, const char *name) {
    if (!d || !name) return NULL;
    return ls_dataset_field(d, ls_fields_find(d->train->field, d->train->field_count, name));
}

ls_shape ls_dataset_image_shape(const ls_dataset *d) {
    const ls_field *image = ls_dataset_find_field(d, "image");
    return image ? image->shape : (ls_shape){0};
}

int ls_dataset_classes(const ls_dataset *d) {
    const ls_field *label = ls_dataset_find_field(d, "label");
    if (!label) label = ls_dataset_find_field(d, "targets");
    return label ? label->classes : 0;
}

int ls_dataset_labels(const ls_dataset *d) {
    const ls_field *label = ls_dataset_find_field(d, "label");
    return label && !label->classes && label->shape.ndim == 1 ? (int)label->shape.dim[0] : 0;
}

int ls_dataset_targets(const ls_dataset *d) {
    const ls_field *target = ls_dataset_find_field(d, "target");
    if (!target || target->dtype != LS_DTYPE_F32 || target->shape.ndim > 1 || ls_dataset_find_field(d, "label"))
        return 0;
    return (int)ls_shape_count(target->shape);
}

ls_shape ls_dataset_sequence_shape(const ls_dataset *d, int *vocabulary) {
    const ls_field *tokens = ls_dataset_find_field(d, "tokens");
    if (vocabulary) *vocabulary = tokens ? tokens->classes : 0;
    return tokens ? tokens->shape : (ls_shape){0};
}

const char *ls_dataset_format(int index, const char **argument, const char **help) {
    const ls_format *const *list = ls_formats();
    for (int i = 0; i < index && *list; i++) list++;
    if (index < 0 || !*list) return NULL;
    if (argument) *argument = (*list)->argument;
    if (help) *help = (*list)->help;
    return (*list)->name;
}

const char *const ls__digit_classes[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", NULL};

static const char *class_name(const char *const *names, int class) {
    for (int i = 0; names && class >= 0 && names[i]; i++)
        if (i == class) return names[i];
    return NULL;
}

const char *ls_dataset_class(const ls_dataset *d, int class) { return d ? class_name(d->classes, class) : NULL; }

const char *ls_dataset_column(const ls_dataset *d, int index) { return d ? class_name(d->columns, index) : NULL; }

const char *ls_dataset_format_class(const char *spec, int class) {
    size_t length = spec ? strcspn(spec, ":") : 0;
    for (const ls_format *const *f = ls_formats(); spec && *f; f++)
        if (strlen((*f)->name) == length && memcmp((*f)->name, spec, length) == 0)
            return class_name((*f)->classes, class);
    return NULL;
}

void ls_dataset_test_on_training(ls_dataset *d) {
    if (!d || d->test == d->train) return;
    ls_source_destroy(&d->test);
    d->test = d->train;
}

ls_status ls_dataset_channels(const ls_dataset *d, double *mean, double *deviation) {
    LS_NEED(d, "dataset");
    LS_NEED(mean, "mean");
    LS_NEED(deviation, "deviation");
    const ls_field *image = ls_dataset_find_field(d, "image");
    if (!image || image->shape.ndim != 3 || image->dtype != LS_DTYPE_U8)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the dataset %s has no images of pixels, whose channels could be measured", d->name);
    int64_t channels = image->shape.dim[2];
    ls_channel_sums *sums;
    LS_TRY(ls_calloc(channels, sizeof *sums, &sums));
    int field = ls_fields_find(d->train->field, d->train->field_count, "image");
    ls_status status = ls_channel_sums_add(d->train, field, 0, d->train->count, sums);
    for (int64_t c = 0; c < channels && status == LS_OK; c++) {
        ls_channel_moments(&sums[c], &mean[c], &deviation[c]);
        mean[c] /= 255;
        deviation[c] /= 255;
    }
    free(sums);
    return status;
}

void ls_data_close(ls_dataset **dataset) {
    if (!dataset) return;
    ls_dataset *d = *dataset;
    *dataset = NULL;
    if (!d) return;
    if (d->test == d->train) d->test = NULL;
    ls_source_destroy(&d->train);
    ls_source_destroy(&d->test);
    free(d->own_classes);
    free(d->columns);
    if (d->release) d->release(d->owner);
    free(d);
}

void ls_dataset_destroy(ls_dataset **dataset) { ls_data_close(dataset); }
