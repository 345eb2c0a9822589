#define _GNU_SOURCE
#include "train/weights_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <lockstep/train.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "base/output.h"
#include "train/weights_hdf5.h"

// A header has about 100 bytes a tensor; what is larger than this is none.
#define MAX_HEADER ((int64_t)32 << 20)

// The format's types and their bits, so that a file with tensors we do not read can still be checked.
static const struct {
    const char *name;
    int bytes;
} dtypes[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8},  {"U64", 8},     {"I32", 4},     {"U32", 4},
              {"I16", 2}, {"U16", 2}, {"I8", 1},   {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"C64", 8}};

static int dtype_bytes(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].bytes;
    return 0;
}

// --- words for people ------------------------------------------------------------------------------------------------

// Names come from a file: no control characters, no more than fit, and no half of a UTF-8 character at the end.
static const char *shown(const char *name, char text[LS_WEIGHTS_NAME_TEXT]) {
    size_t n = strlen(name);
    if (n > 80)
        for (n = 80; ((unsigned char)name[n] & 0xC0) == 0x80; n--) continue;
    for (size_t i = 0; i < n; i++) text[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7F ? '?' : name[i];
    snprintf(text + n, LS_WEIGHTS_NAME_TEXT - n, "%s", name[n] ? "..." : "");
    return text;
}

const char *ls__stored_name(const ls_stored_tensor *t, char text[LS_WEIGHTS_NAME_TEXT]) { return shown(t->name, text); }

const char *ls__stored_model(const ls_weights_file *f, char text[LS_WEIGHTS_NAME_TEXT]) {
    return f->model ? shown(f->model, text) : NULL;
}

const char *ls__stored_shape(const ls_stored_tensor *t, char text[LS_WEIGHTS_SHAPE_TEXT]) {
    int used = snprintf(text, LS_WEIGHTS_SHAPE_TEXT, "(");
    for (int i = 0; i < t->ndim; i++)
        used += snprintf(text + used, (size_t)(LS_WEIGHTS_SHAPE_TEXT - used), "%s%lld", i ? ", " : "",
                         (long long)t->dim[i]);
    snprintf(text + used, (size_t)(LS_WEIGHTS_SHAPE_TEXT - used), ")");
    return text;
}

// --- the header ------------------------------------------------------------------------------------------------------

typedef struct reader {
    ls_weights_file *file;
    int64_t data_bytes;
} reader;

static uint64_t little_endian(const unsigned char *p) {
    uint64_t n = 0;
    for (int i = LS_WEIGHTS_LENGTH_BYTES - 1; i >= 0; i--) n = n << 8 | p[i];
    return n;
}

static ls_status check_length(const char *path, const unsigned char *head, int64_t file_bytes, int64_t *out) {
    if (file_bytes < LS_WEIGHTS_LENGTH_BYTES)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is no safetensors file: it has %lld bytes, and its header's length alone takes %d", path,
                       (long long)file_bytes, LS_WEIGHTS_LENGTH_BYTES);
    uint64_t length = little_endian(head);
    int64_t left = file_bytes - LS_WEIGHTS_LENGTH_BYTES;
    if (length > (uint64_t)left)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s is cut off, or no safetensors file: its header is said to have %llu bytes, and %lld are there", path,
            (unsigned long long)length, (long long)left);
    if (length > (uint64_t)MAX_HEADER)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: its header is said to have %llu bytes, and none has more than %lld",
                       path, (unsigned long long)length, (long long)MAX_HEADER);
    *out = (int64_t)length;
    return LS_OK;
}

static ls_status bad_tensor(const reader *r, const char *name, const char *what) {
    char text[LS_WEIGHTS_NAME_TEXT];
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: tensor '%s' %s", r->file->path, shown(name, text), what);
}

static ls_status read_shape(const reader *r, const json_t *shape, ls_stored_tensor *t) {
    size_t i;
    json_t *dim;
    if (!json_is_array(shape)) return bad_tensor(r, t->name, "has no shape, a list of whole numbers");
    if (json_array_size(shape) > LS_WEIGHTS_MAX_DIMS)
        return bad_tensor(r, t->name, "has more than the 8 dimensions that weights may have");
    t->count = 1;
    json_array_foreach(shape, i, dim) {
        int64_t n = json_integer_value(dim);
        if (!json_is_integer(dim) || n < 0)
            return bad_tensor(r, t->name, "has a shape that is not a list of whole numbers");
        // More elements than the file has bytes: refused here, before a product can overflow.
        if (n > 0 && t->count > r->data_bytes / n && t->count > 0)
            return bad_tensor(r, t->name, "has a shape that is larger than the file");
        t->dim[t->ndim++] = n;
        t->count *= n;
    }
    return LS_OK;
}

static ls_status read_offsets(const reader *r, const json_t *offsets, ls_stored_tensor *t) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    char text[160], shape[LS_WEIGHTS_SHAPE_TEXT];
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad_tensor(r, t->name, "has no data_offsets, two whole numbers");
    t->begin = json_integer_value(begin);
    t->end = json_integer_value(end);
    if (t->begin < 0 || t->end < t->begin || t->end > r->data_bytes) {
        snprintf(text, sizeof text, "is said to lie at bytes %lld to %lld of %lld: the file is cut off or damaged",
                 (long long)t->begin, (long long)t->end, (long long)r->data_bytes);
        return bad_tensor(r, t->name, text);
    }
    int64_t bytes = t->count * dtype_bytes(t->dtype);
    if (bytes != t->end - t->begin) {
        char long_text[400];
        snprintf(long_text, sizeof long_text, "%s %s takes %lld bytes, and has %lld", ls__stored_shape(t, shape),
                 t->dtype, (long long)bytes, (long long)(t->end - t->begin));
        return bad_tensor(r, t->name, long_text);
    }
    return LS_OK;
}

static ls_status read_tensor(const reader *r, const char *name, const json_t *entry, ls_stored_tensor *t) {
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    *t = (ls_stored_tensor){.name = name};
    for (int i = 0; i < 3; i++)
        if (!json_object_get(entry, keys[i])) return bad_tensor(r, name, "lacks its dtype, shape or data_offsets");
    if (json_object_size(entry) != 3) return bad_tensor(r, name, "has more than a dtype, a shape and data_offsets");
    t->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!t->dtype || !dtype_bytes(t->dtype)) {
        char kind[LS_WEIGHTS_NAME_TEXT], text[LS_WEIGHTS_NAME_TEXT + 40];
        snprintf(text, sizeof text, "is of the unknown type '%s'", t->dtype ? shown(t->dtype, kind) : "");
        return bad_tensor(r, name, text);
    }
    LS_TRY(read_shape(r, json_object_get(entry, "shape"), t));
    return read_offsets(r, json_object_get(entry, "data_offsets"), t);
}

static ls_status read_metadata(const reader *r, json_t *metadata) {
    const char *key;
    json_t *value;
    int good = json_is_object(metadata);
    json_object_foreach(metadata, key, value) good &= json_is_string(value);
    if (good) {
        r->file->model = json_string_value(json_object_get(metadata, "model"));
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: its __metadata__ is not an object of texts", r->file->path);
}

static int by_place(const void *a, const void *b) {
    const ls_stored_tensor *x = *(const ls_stored_tensor *const *)a, *y = *(const ls_stored_tensor *const *)b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

enum { PLACE = 512 };

// What is in front of the last slash of a tensor's name; NULL: there is none.
static const char *place_of(const char *name, char place[PLACE]) {
    const char *last = strrchr(name, '/');
    if (!last || last - name >= PLACE) return NULL;
    snprintf(place, PLACE, "%.*s", (int)(last - name), name);
    return place;
}

// What a file of Keras calls its layers is in the metadata, by their places ("layers/dense_1": "head").
static void name_layers(const reader *r) {
    const json_t *metadata = json_object_get(r->file->header, "__metadata__");
    for (int i = 0; i < r->file->count; i++) {
        char place[PLACE];
        if (place_of(r->file->tensors[i].name, place))
            r->file->tensors[i].layer = json_string_value(json_object_get(metadata, place));
    }
}

// Every byte belongs to one tensor: no two overlap, and nothing lies between or behind them.
static ls_status check_places(const reader *r) {
    const ls_weights_file *f = r->file;
    const ls_stored_tensor **order;
    LS_TRY(ls_calloc(f->count, sizeof *order, &order));
    for (int i = 0; i < f->count; i++) order[i] = &f->tensors[i];
    qsort(order, (size_t)f->count, sizeof *order, by_place);
    int64_t at = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < f->count && status == LS_OK; i++) {
        if (order[i]->begin < at) status = bad_tensor(r, order[i]->name, "overlaps another one");
        if (order[i]->begin > at) status = bad_tensor(r, order[i]->name, "begins behind bytes that belong to none");
        at = order[i]->end;
    }
    free(order);
    if (status == LS_OK && at != r->data_bytes)
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s: %lld bytes at its end belong to no tensor", f->path,
                         (long long)(r->data_bytes - at));
    return status;
}

static ls_status read_tensors(const reader *r) {
    ls_weights_file *f = r->file;
    const char *name;
    json_t *entry;
    if (!json_is_object((json_t *)f->header))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: its header is not a JSON object", f->path);
    LS_TRY(ls_calloc((int64_t)json_object_size(f->header) + 1, sizeof *f->tensors, &f->tensors));
    json_object_foreach(f->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            LS_TRY(read_metadata(r, entry));
        else
            LS_TRY(read_tensor(r, name, entry, &f->tensors[f->count++]));
    }
    name_layers(r);
    return check_places(r);
}

static ls_status parse(reader *r, const void *header, int64_t length) {
    json_error_t error;
    char text[LS_WEIGHTS_NAME_TEXT];
    // jansson would take blanks and bytes that are no JSON in front; the format has none.
    if (length == 0 || *(const char *)header != '{')
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no safetensors file: its header does not begin with '{'",
                       r->file->path);
    r->file->header = json_loadb(header, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!r->file->header)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s: its header is not JSON: %s", r->file->path, shown(error.text, text));
    return read_tensors(r);
}

ls_status ls__weights_file_parse(const char *path, const void *header, int64_t header_bytes, int64_t file_bytes,
                                 ls_weights_file **out) {
    *out = NULL;
    int64_t length;
    LS_TRY(check_length(path, header, file_bytes, &length));
    if (length + LS_WEIGHTS_LENGTH_BYTES > header_bytes)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s: %lld bytes of its header were read, not %lld", path,
                       (long long)header_bytes, (long long)length + LS_WEIGHTS_LENGTH_BYTES);
    ls_weights_file *f;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *f, &f));
    f->fd = -1;
    f->data_offset = LS_WEIGHTS_LENGTH_BYTES + length;
    reader r = {.file = f, .data_bytes = file_bytes - f->data_offset};
    LS_TRY_GOTO(ls_strdup(path, &f->path), failed);
    LS_TRY_GOTO(parse(&r, (const char *)header + LS_WEIGHTS_LENGTH_BYTES, length), failed);
    *out = f;
    return LS_OK;
failed:
    ls_weights_file_close(&f);
    return status;
}

// --- the file --------------------------------------------------------------------------------------------------------

void ls_weights_file_close(ls_weights_file **file) {
    ls_weights_file *f = file ? *file : NULL;
    if (!f) return;
    if (f->fd >= 0) close(f->fd);
    json_decref(f->header);
    free(f->tensors);
    free(f->path);
    free(f);
    *file = NULL;
}

static ls_status read_at(int fd, const char *path, int64_t offset, int64_t bytes, void *out) {
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)out + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
        if (n == 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: it became shorter meanwhile", path);
        done += n;
    }
    return LS_OK;
}

static ls_status read_header(int fd, const char *path, ls_weights_file **out) {
    struct stat there;
    unsigned char head[LS_WEIGHTS_LENGTH_BYTES] = {0};
    int64_t length;
    char *header = NULL;
    if (fstat(fd, &there) != 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(there.st_mode)) return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no regular file, as weights are", path);
    int64_t bytes = there.st_size;
    LS_TRY(read_at(fd, path, 0, bytes < LS_WEIGHTS_LENGTH_BYTES ? bytes : LS_WEIGHTS_LENGTH_BYTES, head));
    LS_TRY(check_length(path, head, bytes, &length));
    LS_TRY(ls_calloc(LS_WEIGHTS_LENGTH_BYTES + length, 1, &header));
    ls_status status = read_at(fd, path, 0, LS_WEIGHTS_LENGTH_BYTES + length, header);
    if (status == LS_OK) status = ls__weights_file_parse(path, header, LS_WEIGHTS_LENGTH_BYTES + length, bytes, out);
    free(header);
    return status;
}

ls_status ls__weights_file_take(const char *path, int fd, ls_weights_file **out) {
    LS_TRY(read_header(fd, path, out));
    (*out)->fd = fd;
    return LS_OK;
}

static int ends(const char *path, const char *ending) {
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcmp(path + length - n, ending) == 0;
}

ls_status ls_weights_file_open(const char *path, ls_weights_file **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(path, "path");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe nobody writes to is refused, not waited for
    if (fd < 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read the weights %s: %s", path,
                       strerror(errno));
    unsigned char head[8] = {0};
    if (pread(fd, head, sizeof head, 0) == sizeof head && ls__hdf5_begins(head)) {
        ls_status status = ls__hdf5_open(path, fd, out);
        close(fd);
        return status;
    }
    ls_status status = ls__weights_file_take(path, fd, out);
    if (status != LS_OK) close(fd);
    if (status == LS_STATUS_BAD_DATA && (ends(path, ".h5") || ends(path, ".keras")))
        return ls__fail_context(status, "%s does not begin as a file of Keras does (is it all there?); ", path);
    return status;
}

const ls_stored_tensor *ls_weights_file_find(const ls_weights_file *f, const char *name) {
    for (int i = 0; f && name && i < f->count; i++)
        if (strcmp(f->tensors[i].name, name) == 0) return &f->tensors[i];
    return NULL;
}

// --- values ----------------------------------------------------------------------------------------------------------

ls_status ls_weights_file_read(const ls_weights_file *f, const ls_stored_tensor *t, float *out) {
    LS_NEED(f, "file");
    LS_NEED(t, "tensor");
    LS_NEED(out, "out");
    int64_t bytes = t->end - t->begin, offset = f->data_offset + t->begin;
    int half = strcmp(t->dtype, "F16") == 0, wide = strcmp(t->dtype, "F32") == 0;
    if (!half && !wide && strcmp(t->dtype, "BF16") != 0) {
        char name[LS_WEIGHTS_NAME_TEXT];
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: tensor '%s' is of type %s; weights are F32, F16 or BF16", f->path,
                       ls__stored_name(t, name), t->dtype);
    }
    if (wide) return read_at(f->fd, f->path, offset, bytes, out);
    // Into the upper half; from the front each value then makes room for the next.
    unsigned char *raw = (unsigned char *)out + bytes;
    LS_TRY(read_at(f->fd, f->path, offset, bytes, raw));
    for (int64_t i = 0; i < t->count; i++) {
        uint16_t value;
        memcpy(&value, raw + 2 * i, 2);
        float x = half ? ls_fp16_to_float(value) : ls_bf16_to_float(value);
        memcpy(out + i, &x, 4);
    }
    return LS_OK;
}

// --- writing ---------------------------------------------------------------------------------------------------------

ls_status ls__weights_file_failed(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the weights %s: %s; name a file in a folder that can be written to",
                   path, strerror(errno));
}

ls_status ls_weights_file_check(const char *path) {
    LS_NEED(path, "path");
    if (ends(path, ".keras"))
        return LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "%s would hold a network as Keras describes it, and only weights are written: name a .weights.h5, "
            "a .h5 or a .safetensors file",
            path);
    return ls_output_check(path) == 0 ? LS_OK : ls__weights_file_failed(path);
}

static json_t *tensor_entry(const ls_stored_tensor *t, int64_t *at) {
    json_t *shape = json_array();
    int64_t bytes = 4, begin = *at;
    for (int i = 0; i < t->ndim; i++) {
        json_array_append_new(shape, json_integer(t->dim[i]));
        bytes *= t->dim[i];
    }
    *at += bytes;
    return json_pack("{s:s,s:o,s:[I,I]}", "dtype", "F32", "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)*at);
}

ls_status ls_weights_header_write(FILE *out, const char *path, const char *model, const ls_stored_tensor *tensors,
                                  int count) {
    json_t *header = json_object(), *metadata = json_object();
    char place[PLACE];
    int64_t at = 0;
    int failed = !header || (model && json_object_set_new(metadata, "model", json_string(model)) != 0);
    for (int i = 0; i < count && !failed; i++)
        if (tensors[i].layer && place_of(tensors[i].name, place))
            failed = json_object_set_new(metadata, place, json_string(tensors[i].layer)) != 0;
    if (!failed && json_object_size(metadata) > 0) failed = json_object_set(header, "__metadata__", metadata) != 0;
    json_decref(metadata);
    for (int i = 0; i < count && !failed; i++)
        failed = json_object_set_new(header, tensors[i].name, tensor_entry(&tensors[i], &at)) != 0;
    if (failed) {
        json_decref(header);
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the names of a network and its layers must be UTF-8 to be written to a file");
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the header of a file of weights");
    size_t length = strlen(text), padded = (length + 7) / 8 * 8;  // the values begin at a multiple of 8
    unsigned char head[LS_WEIGHTS_LENGTH_BYTES];
    for (int i = 0; i < LS_WEIGHTS_LENGTH_BYTES; i++) head[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    failed = fwrite(head, 1, sizeof head, out) != sizeof head || fprintf(out, "%-*s", (int)padded, text) < 0;
    free(text);
    return failed ? ls__weights_file_failed(path) : LS_OK;
}
