// An ONNX file as a model in memory. Nothing is believed before it is checked against the file's
// length; tensors in other files lie in the model's folder.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/text.h"
#include "interchange/onnx.h"

#define MOST_BYTES ((int64_t)INT32_MAX)  // of a message of protocol buffers

typedef struct onnx_block {
    struct onnx_block *next;
    int64_t unused;  // what follows stays aligned
} onnx_block;

// --- memory, sentences -----------------------------------------------------------------------------------------------

ls_status onnx_alloc(onnx_model *m, int64_t count, int64_t size, void *out) {
    onnx_block *block;
    LS_TRY(ls_calloc(1, (int64_t)sizeof *block + count * size, &block));
    block->next = m->blocks;
    m->blocks = block;
    *(void **)out = block + 1;
    return LS_OK;
}

void onnx_free(onnx_model *m) {
    for (onnx_block *next, *b = m->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    free(m->values);
    free(m->bytes);
    *m = (onnx_model){.path = NULL};
}

// In place: one line of characters that are printed.
static void make_plain(char *text) {
    ls_text_clean(text);
    int utf8 = ls_text_is_utf8(text);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t' || (!utf8 && (*p & 0x80))) *p = '?';
}

void onnx_clean(const char *from, char *to, size_t size) {
    snprintf(to, size, "%s", from ? from : "");
    make_plain(to);
}

ls_status onnx_wrong(const onnx_model *m, const onnx_node *n, ls_status status, const char *format, ...) {
    char text[700], name[100] = "", op[60] = "", output[100] = "";
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    make_plain(text);
    if (!n) return LS_FAIL(status, "%s: %s", m->path, text);
    onnx_clean(n->name, name, sizeof name);
    onnx_clean(n->op, op, sizeof op);
    if (n->output_count && n->outputs[0] >= 0) onnx_clean(m->values[n->outputs[0]].name, output, sizeof output);
    return LS_FAIL(status, "%s: node '%s' (%s, output '%s'): %s", m->path, name, op, output, text);
}

static ls_status bad(void *self, int64_t at, const char *why) {
    const onnx_model *m = self;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no ONNX model, or is damaged at byte %lld: %s; copy or export it again",
                   m->path, (long long)at, why);
}

static ls_status wrong_at(const onnx_model *m, const ls_pb_field *f, const char *why) {
    return bad((void *)m, f->bytes.at, why);
}

// --- pieces of messages ----------------------------------------------------------------------------------------------

static ls_status take_text(onnx_model *m, const ls_pb_field *f, const char **out) {
    char *text;
    int64_t size = f->bytes.end - f->bytes.at;
    if (f->type != LS_PB_BYTES) return wrong_at(m, f, "a text is of another type");
    LS_TRY(onnx_alloc(m, size + 1, 1, &text));
    memcpy(text, m->bytes + f->bytes.at, (size_t)size);
    *out = text;
    return LS_OK;
}

static ls_status need(const onnx_model *m, const ls_pb_field *f, ls_pb_type type) {
    return f->type == type ? LS_OK : wrong_at(m, f, "a field is of another type than it should be");
}

// Numbers of a repeated field, packed or one by one, behind those there are.
typedef struct numbers {
    uint64_t *all;
    int64_t count, room;
} numbers;

static ls_status take_numbers(onnx_model *m, ls_pb_field *f, ls_pb_type type, numbers *to) {
    if (f->type != type && f->type != LS_PB_BYTES) return wrong_at(m, f, "a list of numbers is of another type");
    ls_pb list = f->bytes;
    for (int single = f->type == type; single || list.at < list.end;) {
        uint64_t value = f->value;
        if (!single) LS_TRY(ls_pb_value(&list, type, &value));
        if (to->count == to->room) {
            uint64_t *grown;
            int64_t room = to->room ? 2 * to->room : 8;
            int64_t each = type == LS_PB_VARINT ? 1 : type == LS_PB_FIXED32 ? 4 : 8;
            if (!single && to->count == 0) room = (f->bytes.end - f->bytes.at) / each + 1;  // no more than these
            LS_TRY(onnx_alloc(m, room, sizeof *grown, &grown));
            if (to->count) memcpy(grown, to->all, (size_t)to->count * sizeof *grown);
            to->all = grown;
            to->room = room;
        }
        to->all[to->count++] = value;
        if (single) return LS_OK;
    }
    return LS_OK;
}

// How many fields of a number a message has.
static ls_status count_fields(ls_pb message, int number, int *count) {
    ls_pb_field f;
    for (*count = 0;;) {
        LS_TRY(ls_pb_next(&message, &f));
        if (!f.number) return LS_OK;
        if (f.number == number && *count < INT_MAX) ++*count;
    }
}

// --- values ----------------------------------------------------------------------------------------------------------

static uint32_t hash(const char *name) {
    uint32_t h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static ls_status grow_table(onnx_model *m) {
    int size = m->table_size ? 2 * m->table_size : 256;
    LS_TRY(onnx_alloc(m, size, sizeof *m->table, &m->table));
    m->table_size = size;
    for (int i = 0; i < m->value_count; i++) {
        uint32_t at = hash(m->values[i].name) & (uint32_t)(size - 1);
        while (m->table[at]) at = (at + 1) & (uint32_t)(size - 1);
        m->table[at] = i + 1;
    }
    return LS_OK;
}

// The value of a name, which is added where there is none. An empty name: -1.
static ls_status find_value(onnx_model *m, const char *name, int *out) {
    *out = -1;
    if (!name[0]) return LS_OK;
    if (2 * m->value_count >= m->table_size) LS_TRY(grow_table(m));
    uint32_t at = hash(name) & (uint32_t)(m->table_size - 1);
    for (; m->table[at]; at = (at + 1) & (uint32_t)(m->table_size - 1))
        if (strcmp(m->values[m->table[at] - 1].name, name) == 0) {
            *out = m->table[at] - 1;
            return LS_OK;
        }
    if (m->value_count == m->value_room) {
        int room = m->value_room ? 2 * m->value_room : 256;
        onnx_value *grown = realloc(m->values, (size_t)room * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %d values", room);
        m->values = grown;
        m->value_room = room;
    }
    m->values[m->value_count] = (onnx_value){.name = name, .maker = -1, .reader = -1, .value = LS_NO_VALUE};
    *out = m->value_count++;
    m->table[at] = *out + 1;
    return LS_OK;
}

// --- tensors ---------------------------------------------------------------------------------------------------------

static int element_bytes(int type) {
    static const signed char bytes[] = {
        [ONNX_FLOAT] = 4,  [ONNX_UINT8] = 1,  [ONNX_INT8] = 1,    [ONNX_UINT16] = 2,  [ONNX_INT16] = 2,
        [ONNX_INT32] = 4,  [ONNX_INT64] = 8,  [ONNX_BOOL] = 1,    [ONNX_FLOAT16] = 2, [ONNX_DOUBLE] = 8,
        [ONNX_UINT32] = 4, [ONNX_UINT64] = 8, [ONNX_BFLOAT16] = 2};
    return type > 0 && type < (int)sizeof bytes ? bytes[type] : 0;
}

typedef struct outside {
    const char *location;
    int64_t offset, length;  // length -1: to the file's end
    int used;
} outside;

static ls_status whole_number(const onnx_model *m, const char *what, const char *text, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (!errno && *text && !*end && *out >= 0) return LS_OK;
    return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "a tensor's %s in another file is '%.40s', no whole number", what,
                      text);
}

static ls_status take_outside(onnx_model *m, ls_pb entry, outside *out) {
    const char *key = "", *value = "";
    ls_pb_field f;
    for (;;) {
        LS_TRY(ls_pb_next(&entry, &f));
        if (!f.number) break;
        if (f.number == 1) LS_TRY(take_text(m, &f, &key));
        if (f.number == 2) LS_TRY(take_text(m, &f, &value));
    }
    if (strcmp(key, "location") == 0) out->location = value;
    if (strcmp(key, "offset") == 0) LS_TRY(whole_number(m, "offset", value, &out->offset));
    if (strcmp(key, "length") == 0) LS_TRY(whole_number(m, "length", value, &out->length));
    return LS_OK;
}

// That a file lies in the model's folder, links followed: a model from elsewhere reads nothing else of this machine.
static ls_status find_outside(const onnx_model *m, const char *tensor, const char *location, char path[PATH_MAX]) {
    char folder[PATH_MAX], joined[PATH_MAX], clean[200];
    const char *slash = strrchr(m->path, '/');
    int length = slash ? (int)(slash - m->path) + 1 : 0;
    onnx_clean(location, clean, sizeof clean);
    if (snprintf(joined, sizeof joined, "%.*s%s", length, m->path, location) >= (int)sizeof joined || !location[0] ||
        !realpath(length ? strndupa(m->path, (size_t)length) : ".", folder))
        return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "the elements of tensor '%.80s' lie in '%s', which is no file",
                          tensor, clean);
    if (location[0] != '/' && !realpath(joined, path))
        return onnx_wrong(m, NULL, LS_STATUS_NOT_FOUND,
                          "the elements of tensor '%.80s' lie in '%s' beside it: %s; copy it there, too", tensor, clean,
                          strerror(errno));
    size_t n = strlen(folder);
    if (location[0] != '/' && strncmp(path, folder, n) == 0 && (path[n] == '/' || strcmp(folder, "/") == 0))
        return LS_OK;
    return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA,
                      "the elements of tensor '%.80s' lie in '%s', outside of the model's folder: refused", tensor,
                      clean);
}

static ls_status read_outside(onnx_model *m, const char *tensor, const outside *o, int64_t bytes, unsigned char **out) {
    char path[PATH_MAX];
    LS_TRY(find_outside(m, tensor, o->location ? o->location : "", path));
    FILE *file = ls_input_open(path);
    if (!file) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    struct stat is;
    ls_status status = LS_OK;
    int64_t size = fstat(fileno(file), &is) == 0 ? (int64_t)is.st_size : 0;
    int64_t length = o->length >= 0 ? o->length : size - o->offset;
    if (o->offset > size || length > size - o->offset || length != bytes)
        status = onnx_wrong(m, NULL, LS_STATUS_BAD_DATA,
                            "tensor '%.80s' has %lld bytes, %lld of them at byte %lld of %.200s, which has %lld",
                            tensor, (long long)bytes, (long long)length, (long long)o->offset, path, (long long)size);
    if (status == LS_OK) status = onnx_alloc(m, bytes, 1, out);
    if (status == LS_OK &&
        (fseeko(file, o->offset, SEEK_SET) != 0 || fread(*out, 1, (size_t)bytes, file) != (size_t)bytes))
        status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    return status;
}

static ls_status check_dims(const onnx_model *m, const numbers *dims, onnx_tensor *t) {
    if (dims->count > ONNX_DIMS)
        return onnx_wrong(m, NULL, LS_STATUS_UNSUPPORTED, "tensor '%.80s' has %lld dimensions, more than %d", t->name,
                          (long long)dims->count, ONNX_DIMS);
    t->ndim = (int)dims->count;
    t->count = 1;
    for (int i = 0; i < t->ndim; i++) {
        t->dim[i] = (int64_t)dims->all[i];
        if (t->dim[i] < 0 || __builtin_mul_overflow(t->count, t->dim[i], &t->count) || t->count > LS_MOST_ELEMENTS)
            return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA,
                              "tensor '%.80s' has a dimension of %lld: more elements than any memory holds, or fewer "
                              "than none",
                              t->name, (long long)t->dim[i]);
    }
    return LS_OK;
}

// Elements that stand in a list of numbers, not in bytes.
static ls_status take_list(onnx_model *m, onnx_tensor *t, const numbers *list) {
    if (list->count != t->count)
        return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA,
                          "tensor '%.80s' has %lld elements by its dimensions, and %lld are there", t->name,
                          (long long)t->count, (long long)list->count);
    int real = t->type == ONNX_FLOAT || t->type == ONNX_DOUBLE || t->type == ONNX_FLOAT16 || t->type == ONNX_BFLOAT16;
    if (real) LS_TRY(onnx_alloc(m, t->count, sizeof *t->floats, &t->floats));
    for (int64_t i = 0; i < t->count && real; i++) {
        uint64_t x = list->all[i];
        t->floats[i] = t->type == ONNX_FLOAT     ? ls_pb_float(x)
                       : t->type == ONNX_DOUBLE  ? (float)ls_pb_double(x)
                       : t->type == ONNX_FLOAT16 ? ls_fp16_to_float((ls_fp16)x)
                                                 : ls_bf16_to_float((ls_bf16)x);
    }
    if (real) return LS_OK;
    t->ints = (int64_t *)list->all;
    return t->ints ? LS_OK : onnx_alloc(m, 1, sizeof *t->ints, &t->ints);
}

static ls_status take_tensor(onnx_model *m, ls_pb message, onnx_tensor *t) {
    numbers dims = {0}, list = {0};
    outside elsewhere = {.length = -1};
    ls_pb raw = {0};
    ls_pb_field f;
    *t = (onnx_tensor){.name = ""};
    for (;;) {
        LS_TRY(ls_pb_next(&message, &f));
        switch (f.number) {
        case 0: break;
        case 1: LS_TRY(take_numbers(m, &f, LS_PB_VARINT, &dims)); break;
        case 2: t->type = (int)f.value; break;
        case 4: LS_TRY(take_numbers(m, &f, LS_PB_FIXED32, &list)); break;
        case 5:
        case 7:
        case 11: LS_TRY(take_numbers(m, &f, LS_PB_VARINT, &list)); break;
        case 8: LS_TRY(take_text(m, &f, &t->name)); break;
        case 9:
            LS_TRY(need(m, &f, LS_PB_BYTES));
            raw = f.bytes;
            break;
        case 10: LS_TRY(take_numbers(m, &f, LS_PB_FIXED64, &list)); break;
        case 13:
            LS_TRY(need(m, &f, LS_PB_BYTES));
            LS_TRY(take_outside(m, f.bytes, &elsewhere));
            break;
        case 14: elsewhere.used = f.value == 1; break;
        default: break;
        }
        if (!f.number) break;
    }
    LS_TRY(check_dims(m, &dims, t));
    int64_t each = element_bytes(t->type);
    if (!each) return LS_OK;  // texts, and types that are not known: refused where somebody reads them
    if (elsewhere.used) {
        unsigned char *bytes;
        LS_TRY(read_outside(m, t->name, &elsewhere, t->count * each, &bytes));
        t->raw = bytes;
        return LS_OK;
    }
    if (!raw.from) return take_list(m, t, &list);
    if (raw.end - raw.at != t->count * each)
        return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA,
                          "tensor '%.80s' has %lld elements of %lld bytes by its dimensions, and %lld bytes are there",
                          t->name, (long long)t->count, (long long)each, (long long)(raw.end - raw.at));
    t->raw = m->bytes + raw.at;
    return LS_OK;
}

ls_status onnx_values(onnx_model *m, onnx_tensor *t) {
    int each = element_bytes(t->type);
    if (t->floats || t->ints) return LS_OK;
    if (!each || !t->raw)
        return onnx_wrong(m, NULL, LS_STATUS_UNSUPPORTED, "tensor '%.80s' has elements of type %d, which are not read",
                          t->name, t->type);
    int real = t->type == ONNX_FLOAT || t->type == ONNX_DOUBLE || t->type == ONNX_FLOAT16 || t->type == ONNX_BFLOAT16;
    if (real)
        LS_TRY(onnx_alloc(m, t->count, sizeof *t->floats, &t->floats));
    else
        LS_TRY(onnx_alloc(m, t->count, sizeof *t->ints, &t->ints));
    for (int64_t i = 0; i < t->count; i++) {
        uint64_t x = 0;
        for (int b = each - 1; b >= 0; b--) x = x << 8 | t->raw[i * each + b];
        switch (t->type) {
        case ONNX_FLOAT: t->floats[i] = ls_pb_float(x); break;
        case ONNX_DOUBLE: t->floats[i] = (float)ls_pb_double(x); break;
        case ONNX_FLOAT16: t->floats[i] = ls_fp16_to_float((ls_fp16)x); break;
        case ONNX_BFLOAT16: t->floats[i] = ls_bf16_to_float((ls_bf16)x); break;
        case ONNX_INT8: t->ints[i] = (int64_t)(x ^ 0x80) - 0x80; break;
        case ONNX_INT16: t->ints[i] = (int16_t)x; break;
        case ONNX_INT32: t->ints[i] = (int32_t)x; break;
        default: t->ints[i] = (int64_t)x; break;
        }
    }
    return LS_OK;
}

// --- nodes -----------------------------------------------------------------------------------------------------------

static ls_status take_attribute(onnx_model *m, ls_pb message, onnx_attribute *a) {
    numbers ints = {0};
    ls_pb_field f;
    *a = (onnx_attribute){.name = ""};
    for (;;) {
        LS_TRY(ls_pb_next(&message, &f));
        switch (f.number) {
        case 0:
            a->ints = (int64_t *)ints.all;
            a->count = (int)ints.count;
            return LS_OK;
        case 1: LS_TRY(take_text(m, &f, &a->name)); break;
        case 2:
            LS_TRY(need(m, &f, LS_PB_FIXED32));
            a->f = ls_pb_float(f.value);
            break;
        case 3:
            LS_TRY(need(m, &f, LS_PB_VARINT));
            a->i = (int64_t)f.value;
            break;
        case 4: LS_TRY(take_text(m, &f, &a->s)); break;
        case 5:
            LS_TRY(need(m, &f, LS_PB_BYTES));
            LS_TRY(onnx_alloc(m, 1, sizeof *a->tensor, &a->tensor));
            LS_TRY(take_tensor(m, f.bytes, a->tensor));
            break;
        case 6: a->graph = 1; break;
        case 8: LS_TRY(take_numbers(m, &f, LS_PB_VARINT, &ints)); break;
        default: break;
        }
        if (ints.count > INT_MAX) return wrong_at(m, &f, "a list of too many numbers");
    }
}

static ls_status take_port(onnx_model *m, const ls_pb_field *f, int *ports, int *count) {
    const char *name;
    LS_TRY(take_text(m, f, &name));
    return find_value(m, name, &ports[(*count)++]);
}

static ls_status take_node(onnx_model *m, ls_pb message, onnx_node *n) {
    int counts[6];
    static const int fields[] = {1, 2, 5};
    for (int i = 0; i < 3; i++) LS_TRY(count_fields(message, fields[i], &counts[i]));
    *n = (onnx_node){.name = "", .op = "", .domain = ""};
    LS_TRY(onnx_alloc(m, counts[0], sizeof *n->inputs, &n->inputs));
    LS_TRY(onnx_alloc(m, counts[1], sizeof *n->outputs, &n->outputs));
    LS_TRY(onnx_alloc(m, counts[2], sizeof *n->attributes, &n->attributes));
    for (ls_pb_field f;;) {
        LS_TRY(ls_pb_next(&message, &f));
        switch (f.number) {
        case 0: return LS_OK;
        case 1: LS_TRY(take_port(m, &f, n->inputs, &n->input_count)); break;
        case 2: LS_TRY(take_port(m, &f, n->outputs, &n->output_count)); break;
        case 3: LS_TRY(take_text(m, &f, &n->name)); break;
        case 4: LS_TRY(take_text(m, &f, &n->op)); break;
        case 5:
            LS_TRY(need(m, &f, LS_PB_BYTES));
            LS_TRY(take_attribute(m, f.bytes, &n->attributes[n->attribute_count++]));
            break;
        case 7:
            LS_TRY(take_text(m, &f, &n->domain));
            if (strcmp(n->domain, "ai.onnx") == 0) n->domain = "";
            break;
        default: break;
        }
    }
}

// --- inputs and outputs ----------------------------------------------------------------------------------------------

// TypeProto.Tensor: the shape's dimensions, of which one without a number is open.
static ls_status take_shape(onnx_model *m, ls_pb message, onnx_port *port) {
    ls_pb_field f, dim, value;
    for (;;) {
        LS_TRY(ls_pb_next(&message, &f));
        if (!f.number) return LS_OK;
        if (f.number == 1) port->type = (int)f.value;
        if (f.number != 2 || f.type != LS_PB_BYTES) continue;
        for (port->ndim = 0;; port->ndim++) {
            LS_TRY(ls_pb_next(&f.bytes, &dim));
            if (!dim.number) break;
            if (port->ndim == ONNX_DIMS) return wrong_at(m, &dim, "an input of more than 8 dimensions");
            port->dim[port->ndim] = -1;
            while (dim.type == LS_PB_BYTES) {
                LS_TRY(ls_pb_next(&dim.bytes, &value));
                if (!value.number) break;
                if (value.number == 1 && value.type == LS_PB_VARINT) port->dim[port->ndim] = (int64_t)value.value;
            }
        }
    }
}

static ls_status take_value_info(onnx_model *m, ls_pb message, onnx_port *port) {
    const char *name = "";
    ls_pb type = {0}, tensor;
    ls_pb_field f;
    int found;
    for (;;) {
        LS_TRY(ls_pb_next(&message, &f));
        if (!f.number) break;
        if (f.number == 1) LS_TRY(take_text(m, &f, &name));
        if (f.number == 2 && f.type == LS_PB_BYTES) type = f.bytes;
    }
    *port = (onnx_port){.ndim = -1};
    LS_TRY(find_value(m, name, &port->value));
    if (port->value < 0) return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "an input or an output has no name");
    if (!type.from) return LS_OK;
    LS_TRY(ls_pb_find(type, 1, &tensor, &found));
    return found ? take_shape(m, tensor, port) : LS_OK;
}

// --- the graph -------------------------------------------------------------------------------------------------------

static ls_status made_twice(const onnx_model *m, int value) {
    char name[100];
    onnx_clean(m->values[value].name, name, sizeof name);
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s: the value '%s' is made twice: every name belongs to one node, input or tensor", m->path, name);
}

static ls_status take_initializer(onnx_model *m, ls_pb message) {
    onnx_tensor *t;
    int value;
    LS_TRY(onnx_alloc(m, 1, sizeof *t, &t));
    LS_TRY(take_tensor(m, message, t));
    LS_TRY(find_value(m, t->name, &value));
    if (value < 0) return onnx_wrong(m, NULL, LS_STATUS_BAD_DATA, "a tensor has no name");
    if (m->values[value].tensor) return made_twice(m, value);
    m->values[value].tensor = t;
    m->values[value].made = 1;
    return LS_OK;
}

static ls_status take_graph(onnx_model *m, ls_pb graph) {
    int nodes, sparse;
    LS_TRY(count_fields(graph, 1, &nodes));
    LS_TRY(count_fields(graph, 11, &m->input_count));
    LS_TRY(count_fields(graph, 12, &m->output_count));
    LS_TRY(count_fields(graph, 15, &sparse));
    if (sparse) return onnx_wrong(m, NULL, LS_STATUS_UNSUPPORTED, "it has sparse tensors, which are not read");
    if (nodes > ONNX_NODES)
        return onnx_wrong(m, NULL, LS_STATUS_UNSUPPORTED, "it has %d nodes, more than %d", nodes, ONNX_NODES);
    LS_TRY(onnx_alloc(m, nodes, sizeof *m->nodes, &m->nodes));
    LS_TRY(onnx_alloc(m, m->input_count, sizeof *m->inputs, &m->inputs));
    LS_TRY(onnx_alloc(m, m->output_count, sizeof *m->outputs, &m->outputs));
    int inputs = 0, outputs = 0;
    for (ls_pb_field f;;) {
        LS_TRY(ls_pb_next(&graph, &f));
        if (!f.number) return LS_OK;
        if (f.number != 1 && f.number != 5 && f.number != 11 && f.number != 12) continue;
        LS_TRY(need(m, &f, LS_PB_BYTES));
        if (f.number == 1) LS_TRY(take_node(m, f.bytes, &m->nodes[m->node_count++]));
        if (f.number == 5) LS_TRY(take_initializer(m, f.bytes));
        if (f.number == 11) LS_TRY(take_value_info(m, f.bytes, &m->inputs[inputs++]));
        if (f.number == 12) LS_TRY(take_value_info(m, f.bytes, &m->outputs[outputs++]));
    }
}

static ls_status take_opset(onnx_model *m, ls_pb message) {
    const char *domain = "";
    int64_t version = 0;
    for (ls_pb_field f;;) {
        LS_TRY(ls_pb_next(&message, &f));
        if (!f.number) break;
        if (f.number == 1) LS_TRY(take_text(m, &f, &domain));
        if (f.number == 2) version = (int64_t)f.value;
    }
    if (!domain[0] || strcmp(domain, "ai.onnx") == 0) m->opset = version;
    return LS_OK;
}

// Who makes each value, once.
static ls_status find_makers(onnx_model *m) {
    for (int i = 0; i < m->node_count; i++)
        for (int k = 0; k < m->nodes[i].output_count; k++) {
            int value = m->nodes[i].outputs[k];
            if (value < 0) continue;
            if (m->values[value].maker >= 0 || m->values[value].tensor) return made_twice(m, value);
            m->values[value].maker = i;
        }
    for (int i = 0; i < m->input_count; i++) {
        if (m->values[m->inputs[i].value].maker >= 0) return made_twice(m, m->inputs[i].value);
        for (int k = 0; k < i; k++)
            if (m->inputs[k].value == m->inputs[i].value) return made_twice(m, m->inputs[i].value);
    }
    return LS_OK;
}

ls_status onnx_parse_bytes(const char *path, unsigned char *bytes, int64_t size, onnx_model *m) {
    *m = (onnx_model){.path = path, .bytes = bytes, .size = size};
    m->from = (ls_pb_from){.bytes = bytes, .damaged = bad, .self = m};
    ls_pb message = {&m->from, 0, size}, graph;
    int found;
    for (ls_pb_field f;;) {
        LS_TRY(ls_pb_next(&message, &f));
        if (!f.number) break;
        if (f.number == 8 && f.type == LS_PB_BYTES) LS_TRY(take_opset(m, f.bytes));
    }
    LS_TRY(ls_pb_find((ls_pb){&m->from, 0, size}, 7, &graph, &found));
    if (!found || !m->opset) return bad(m, size, found ? "it does not tell its opset" : "it has no graph");
    if (m->opset < ONNX_OLDEST)
        return onnx_wrong(m, NULL, LS_STATUS_UNSUPPORTED,
                          "it is of opset %lld, and from %d on they are read: export it again, or convert it with "
                          "onnx.version_converter",
                          (long long)m->opset, ONNX_OLDEST);
    LS_TRY(take_graph(m, graph));
    return find_makers(m);
}

ls_status onnx_parse(const char *path, onnx_model *m) {
    struct stat is;
    unsigned char *bytes = NULL;
    *m = (onnx_model){.path = path};
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read the network %s: %s", path,
                       strerror(errno));
    ls_status status = LS_OK;
    int64_t size = fstat(fileno(file), &is) == 0 ? (int64_t)is.st_size : 0;
    if (size > MOST_BYTES)
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is no ONNX model: it is larger than 2 GB, which none is", path);
    if (status == LS_OK) status = ls_calloc(size, 1, &bytes);
    if (status == LS_OK && fread(bytes, 1, (size_t)size, file) != (size_t)size)
        status = LS_FAIL(LS_STATUS_IO, "cannot read the network %s: %s", path, strerror(errno));
    fclose(file);
    if (status == LS_OK) return onnx_parse_bytes(path, bytes, size, m);
    free(bytes);
    return status;
}
