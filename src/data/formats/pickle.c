#include "data/formats/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

#define FETCH_AGAIN "fetch or copy the file again"

// What is enough for the largest file (CIFAR-100's training set: 150,000 values, 50,000 of them remembered), with room
// to spare. Python appends to lists and dicts by 1,000, so the stack stays low.
#define VALUES_MAX (1 << 20)
#define MEMO_MAX   (1 << 18)
#define STACK_MAX  4096
#define MARKS_MAX  16
#define NODES_MAX  64  // lists, dicts, tuples, arrays

struct ls__pickle {
    const char *path;  // only while parsing
    const uint8_t *bytes;
    int64_t size, at;
    int64_t op_at;  // where the current opcode is
    int64_t values;
    ls__pickle_value *memo;  // (memo_room), memo_count in use
    int64_t memo_count, memo_room;
    int depth, marks, nodes;
    int ended;
    int mark[MARKS_MAX];  // depth of the stack at each open mark
    ls__pickle_value stack[STACK_MAX];
    ls__pickle_node node[NODES_MAX];
};

// ---- opcodes -------------------------------------------------------------------------------------------------------

//    name               byte
#define KNOWN_LIST(X)                                                                                                  \
    X(MARK, '(')                                                                                                       \
    X(STOP, '.')                                                                                                       \
    X(BININT, 'J')                                                                                                     \
    X(BININT1, 'K')                                                                                                    \
    X(BININT2, 'M')                                                                                                    \
    X(NONE, 'N')                                                                                                       \
    X(REDUCE, 'R')                                                                                                     \
    X(BINSTRING, 'T')                                                                                                  \
    X(SHORT_BINSTRING, 'U')                                                                                            \
    X(EMPTY_LIST, ']')                                                                                                 \
    X(APPEND, 'a')                                                                                                     \
    X(BUILD, 'b')                                                                                                      \
    X(GLOBAL, 'c')                                                                                                     \
    X(APPENDS, 'e')                                                                                                    \
    X(BINGET, 'h')                                                                                                     \
    X(LONG_BINGET, 'j')                                                                                                \
    X(BINPUT, 'q')                                                                                                     \
    X(LONG_BINPUT, 'r')                                                                                                \
    X(SETITEM, 's')                                                                                                    \
    X(TUPLE, 't')                                                                                                      \
    X(EMPTY_TUPLE, ')')                                                                                                \
    X(SETITEMS, 'u')                                                                                                   \
    X(EMPTY_DICT, '}')                                                                                                 \
    X(PROTO, 0x80)                                                                                                     \
    X(TUPLE1, 0x85)                                                                                                    \
    X(TUPLE2, 0x86)                                                                                                    \
    X(TUPLE3, 0x87)                                                                                                    \
    X(NEWTRUE, 0x88)                                                                                                   \
    X(NEWFALSE, 0x89)

// Only to call them by name when refusing them.
#define OTHER_LIST(X)                                                                                                  \
    X(POP, '0')                                                                                                        \
    X(POP_MARK, '1')                                                                                                   \
    X(DUP, '2')                                                                                                        \
    X(FLOAT, 'F')                                                                                                      \
    X(INT, 'I')                                                                                                        \
    X(LONG, 'L')                                                                                                       \
    X(PERSID, 'P')                                                                                                     \
    X(BINPERSID, 'Q')                                                                                                  \
    X(STRING, 'S')                                                                                                     \
    X(UNICODE, 'V')                                                                                                    \
    X(BINUNICODE, 'X')                                                                                                 \
    X(DICT, 'd')                                                                                                       \
    X(GET, 'g')                                                                                                        \
    X(INST, 'i')                                                                                                       \
    X(LIST, 'l')                                                                                                       \
    X(OBJ, 'o')                                                                                                        \
    X(PUT, 'p')                                                                                                        \
    X(BINFLOAT, 'G')                                                                                                   \
    X(BINBYTES, 'B')                                                                                                   \
    X(SHORT_BINBYTES, 'C')                                                                                             \
    X(NEWOBJ, 0x81)                                                                                                    \
    X(EXT1, 0x82)                                                                                                      \
    X(EXT2, 0x83)                                                                                                      \
    X(EXT4, 0x84)                                                                                                      \
    X(LONG1, 0x8a)                                                                                                     \
    X(LONG4, 0x8b)                                                                                                     \
    X(SHORT_BINUNICODE, 0x8c)                                                                                          \
    X(BINUNICODE8, 0x8d)                                                                                               \
    X(BINBYTES8, 0x8e)                                                                                                 \
    X(EMPTY_SET, 0x8f)                                                                                                 \
    X(ADDITEMS, 0x90)                                                                                                  \
    X(FROZENSET, 0x91)                                                                                                 \
    X(NEWOBJ_EX, 0x92)                                                                                                 \
    X(STACK_GLOBAL, 0x93)                                                                                              \
    X(MEMOIZE, 0x94)                                                                                                   \
    X(FRAME, 0x95)                                                                                                     \
    X(BYTEARRAY8, 0x96)                                                                                                \
    X(NEXT_BUFFER, 0x97)                                                                                               \
    X(READONLY_BUFFER, 0x98)

enum {
#define X(name, byte) OP_##name = (byte),
    KNOWN_LIST(X)
#undef X
};

static const char *op_name(uint8_t op) {
    static const char *const names[256] = {
#define X(name, byte) [byte] = #name,
        KNOWN_LIST(X) OTHER_LIST(X)
#undef X
    };
    return names[op] ? names[op] : "an unknown opcode";
}

// The names that the files contain, in the order that `number` of a GLOBAL says.
enum { GLOBAL_RECONSTRUCT, GLOBAL_NDARRAY, GLOBAL_DTYPE, GLOBALS };
static const char *const globals[GLOBALS][2] = {
    [GLOBAL_RECONSTRUCT] = {"numpy.core.multiarray", "_reconstruct"},
    [GLOBAL_NDARRAY] = {"numpy", "ndarray"},
    [GLOBAL_DTYPE] = {"numpy", "dtype"},
};

// "FILE: NAME at byte N " and what is the matter with it.
#define REFUSE(p, format, ...)                                                                                         \
    LS_FAIL(LS_STATUS_BAD_DATA, "%s: the pickle's %s at byte %lld " format, (p)->path,                                 \
            op_name((p)->bytes[(p)->op_at]), (long long)(p)->op_at, ##__VA_ARGS__)

// ---- the machine ---------------------------------------------------------------------------------------------------

// Steps over the opcode's next `count` bytes of argument.
static ls_status take(ls__pickle *p, int64_t count, const uint8_t **out) {
    if (count > p->size - p->at)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is cut short: the pickle's %s at byte %lld needs %lld bytes more, but only %lld are "
                       "left; " FETCH_AGAIN,
                       p->path, op_name(p->bytes[p->op_at]), (long long)p->op_at, (long long)count,
                       (long long)(p->size - p->at));
    *out = p->bytes + p->at;
    p->at += count;
    return LS_OK;
}

// A little-endian number of 1, 2 or 4 bytes.
static ls_status take_number(ls__pickle *p, int count, uint32_t *out) {
    const uint8_t *b = NULL;
    LS_TRY(take(p, count, &b));
    *out = 0;
    for (int i = 0; i < count; i++) *out |= (uint32_t)b[i] << 8 * i;
    return LS_OK;
}

static ls_status push(ls__pickle *p, ls__pickle_value value) {
    if (p->depth == STACK_MAX || p->values == VALUES_MAX)
        return REFUSE(p, "is one value too many: this reader takes %d at once and %d in all; " FETCH_AGAIN, STACK_MAX,
                      VALUES_MAX);
    p->stack[p->depth++] = value;
    p->values++;
    return LS_OK;
}

static ls_status push_int(ls__pickle *p, ls__pickle_kind kind, int64_t number) {
    return push(p, (ls__pickle_value){.kind = kind, .number = number});
}

// The lowest place of the stack that may be taken from: what lies below an open mark is not to be touched.
static int floor_of(const ls__pickle *p) { return p->marks ? p->mark[p->marks - 1] : 0; }

static ls_status want(ls__pickle *p, int count) {
    if (p->depth - floor_of(p) < count)
        return REFUSE(p, "needs %d values on the stack, but there are %d; " FETCH_AGAIN, count, p->depth - floor_of(p));
    return LS_OK;
}

// Closes the innermost mark: the values above it begin at stack[*first].
static ls_status close_mark(ls__pickle *p, int *first) {
    if (!p->marks) return REFUSE(p, "has no MARK before it; " FETCH_AGAIN);
    *first = p->mark[--p->marks];
    return LS_OK;
}

static ls_status push_node(ls__pickle *p, ls__pickle_kind kind, ls__pickle_node **out) {
    if (p->nodes == NODES_MAX)
        return REFUSE(p, "is one too many: this reader takes %d lists, dicts, tuples and arrays; " FETCH_AGAIN,
                      NODES_MAX);
    *out = &p->node[p->nodes++];
    return push(p, (ls__pickle_value){.kind = kind, .node = *out});
}

// Appends the values from stack[first] on to a node and takes them off the stack.
static ls_status append(ls__pickle *p, ls__pickle_node *node, int first) {
    int64_t count = node->count + (p->depth - first);
    if (count > node->room) {
        int64_t room = count > 2 * node->room ? count : 2 * node->room;
        ls__pickle_value *items = realloc(node->items, (size_t)room * sizeof *items);
        if (!items)
            return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "%s: out of memory for a list of %lld values", p->path,
                           (long long)room);
        node->items = items;
        node->room = room;
    }
    if (count > node->count)
        memcpy(node->items + node->count, p->stack + first, (size_t)(p->depth - first) * sizeof *node->items);
    node->count = count;
    p->depth = first;
    return LS_OK;
}

// Of the values above stack[first].
static ls_status make_tuple(ls__pickle *p, int first) {
    ls__pickle_node *node = NULL;
    if (p->nodes < NODES_MAX) LS_TRY(append(p, &p->node[p->nodes], first));
    return push_node(p, LS__PICKLE_TUPLE, &node);
}

// APPEND, APPENDS, SETITEM, SETITEMS: stack[first] and what is above go into the list or dict below it.
static ls_status fill(ls__pickle *p, ls__pickle_kind kind, int first) {
    if (first <= floor_of(p) || p->stack[first - 1].kind != kind)
        return REFUSE(p, "has no %s to fill; " FETCH_AGAIN, ls__pickle_kind_name(kind));
    if (kind == LS__PICKLE_DICT) {
        if ((p->depth - first) % 2) return REFUSE(p, "has a key without a value; " FETCH_AGAIN);
        for (int i = first; i < p->depth; i += 2)
            if (p->stack[i].kind != LS__PICKLE_STRING)
                return REFUSE(p, "has a key that is no string but %s; " FETCH_AGAIN,
                              ls__pickle_kind_name(p->stack[i].kind));
    }
    return append(p, p->stack[first - 1].node, first);
}

// ---- memo ----------------------------------------------------------------------------------------------------------

static ls_status put(ls__pickle *p, int bytes) {
    uint32_t index = 0;
    LS_TRY(take_number(p, bytes, &index));
    LS_TRY(want(p, 1));
    // Python numbers them in order, from 0 or 1 on; so a number never asks for more memory than the file has puts.
    if (index > p->memo_count + (p->memo_count == 0) || index >= MEMO_MAX)
        return REFUSE(p, "has the number %u where the next is %lld of at most %d; " FETCH_AGAIN, index,
                      (long long)p->memo_count, MEMO_MAX);
    if (index >= p->memo_room) {
        int64_t room = 2 * p->memo_room + 64;
        ls__pickle_value *memo = realloc(p->memo, (size_t)room * sizeof *memo);
        if (!memo)
            return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "%s: out of memory for a memo of %lld values", p->path,
                           (long long)room);
        p->memo = memo;
        p->memo_room = room;
    }
    while (p->memo_count <= index) p->memo[p->memo_count++] = (ls__pickle_value){.kind = LS__PICKLE_NONE};
    p->memo[index] = p->stack[p->depth - 1];
    return LS_OK;
}

static ls_status get(ls__pickle *p, int bytes) {
    uint32_t index = 0;
    LS_TRY(take_number(p, bytes, &index));
    if (index >= p->memo_count)
        return REFUSE(p, "asks for number %u of the memo, which has %lld; " FETCH_AGAIN, index,
                      (long long)p->memo_count);
    return push(p, p->memo[index]);
}

// ---- numpy ---------------------------------------------------------------------------------------------------------

static int is_string(const ls__pickle_value *v, const char *text) {
    return v->kind == LS__PICKLE_STRING && v->length == (int64_t)strlen(text) &&
           memcmp(v->string, text, strlen(text)) == 0;
}

static int is_global(const ls__pickle_value *v, int which) {
    return v->kind == LS__PICKLE_GLOBAL && v->number == which;
}

// One line of a GLOBAL, of at most 64 bytes.
static ls_status take_line(ls__pickle *p, char line[65]) {
    int n = 0;
    for (;;) {
        const uint8_t *b = NULL;
        LS_TRY(take(p, 1, &b));
        if (*b == '\n') break;
        if (n == 64) return REFUSE(p, "has a name of more than %d bytes; " FETCH_AGAIN, n);
        line[n++] = *b >= ' ' && *b < 127 ? (char)*b : '?';
    }
    line[n] = 0;
    return LS_OK;
}

static ls_status do_global(ls__pickle *p) {
    char module[65], name[65];
    LS_TRY(take_line(p, module));
    LS_TRY(take_line(p, name));
    for (int i = 0; i < GLOBALS; i++)
        if (strcmp(module, globals[i][0]) == 0 && strcmp(name, globals[i][1]) == 0)
            return push_int(p, LS__PICKLE_GLOBAL, i);
    return REFUSE(p,
                  "names %s.%s, which is none of the numpy names that these files contain; nothing was executed: "
                  "fetch the file from its authors",
                  module, name);
}

// A call: the function and its tuple of arguments are on the stack. Two are known; they make the value that numpy's
// would, still without its state.
static ls_status do_reduce(ls__pickle *p) {
    LS_TRY(want(p, 2));
    const ls__pickle_value *function = &p->stack[p->depth - 2], *arguments = &p->stack[p->depth - 1];
    const ls__pickle_node *a = arguments->kind == LS__PICKLE_TUPLE ? arguments->node : NULL;
    ls__pickle_node *made = NULL;
    if (is_global(function, GLOBAL_RECONSTRUCT) && a && a->count == 3 && is_global(&a->items[0], GLOBAL_NDARRAY)) {
        p->depth -= 2;
        return push_node(p, LS__PICKLE_ARRAY, &made);
    }
    if (is_global(function, GLOBAL_DTYPE) && a && a->count == 3 && a->items[0].kind == LS__PICKLE_STRING) {
        ls__pickle_value name = a->items[0];
        p->depth -= 2;
        LS_TRY(push_node(p, LS__PICKLE_DTYPE, &made));
        made->dtype = name;
        return LS_OK;
    }
    return REFUSE(p,
                  "calls something other than what makes a numpy array or dtype; nothing was executed: fetch the "
                  "file from its authors");
}

// (version, byte order, None, None, None, size, alignment, flags): the Nones are for types with fields.
static ls_status build_dtype(ls__pickle *p, ls__pickle_node *dtype, const ls__pickle_node *state) {
    int plain = state->count == 8;
    for (int i = 2; plain && i < 5; i++) plain = state->items[i].kind == LS__PICKLE_NONE;
    if (!plain) return REFUSE(p, "gives a numpy dtype a state that no plain one has; " FETCH_AGAIN);
    dtype->built = 1;
    return LS_OK;
}

// (version, shape, dtype, column order, data)
static ls_status build_array(ls__pickle *p, ls__pickle_node *array, const ls__pickle_node *state) {
    const ls__pickle_value *s = state->items;
    if (state->count != 5 || s[0].kind != LS__PICKLE_INT || s[1].kind != LS__PICKLE_TUPLE ||
        s[2].kind != LS__PICKLE_DTYPE || s[3].kind != LS__PICKLE_BOOL || s[4].kind != LS__PICKLE_STRING)
        return REFUSE(p, "gives a numpy array a state that none has; " FETCH_AGAIN);
    const ls__pickle_value *type = &s[2].node->dtype;
    if (!is_string(type, "u1") || !s[2].node->built)
        return REFUSE(p, "makes an array of dtype '%.*s' where bytes ('u1') are wanted; put the right file there",
                      type->length < 16 ? (int)type->length : 16, (const char *)type->string);
    const ls__pickle_node *shape = s[1].node;
    if (shape->count < 1 || shape->count > LS__PICKLE_DIMS)
        return REFUSE(p, "makes an array of %lld dimensions where 1 to %d are possible; " FETCH_AGAIN,
                      (long long)shape->count, LS__PICKLE_DIMS);
    int64_t total = 1;
    for (int i = 0; i < shape->count; i++) {
        int64_t extent = shape->items[i].kind == LS__PICKLE_INT ? shape->items[i].number : -1;
        if (extent < 0 || __builtin_mul_overflow(total, extent, &total))
            return REFUSE(p, "makes an array whose extent %d is impossible; " FETCH_AGAIN, i);
        array->dim[i] = extent;
    }
    if (total != s[4].length)
        return REFUSE(p, "makes an array of %lld bytes by its shape out of %lld bytes of data; " FETCH_AGAIN,
                      (long long)total, (long long)s[4].length);
    array->ndim = (int)shape->count;
    array->by_column = s[3].number != 0;
    array->data = s[4].string;
    array->built = 1;
    return LS_OK;
}

static ls_status do_build(ls__pickle *p) {
    LS_TRY(want(p, 2));
    const ls__pickle_value *to = &p->stack[p->depth - 2], *state = &p->stack[p->depth - 1];
    if ((to->kind != LS__PICKLE_ARRAY && to->kind != LS__PICKLE_DTYPE) || state->kind != LS__PICKLE_TUPLE)
        return REFUSE(p, "gives a state (%s) to something (%s) that takes none; " FETCH_AGAIN,
                      ls__pickle_kind_name(state->kind), ls__pickle_kind_name(to->kind));
    if (to->node->built) return REFUSE(p, "gives the same value a state twice; " FETCH_AGAIN);
    LS_TRY(to->kind == LS__PICKLE_ARRAY ? build_array(p, to->node, state->node)
                                        : build_dtype(p, to->node, state->node));
    p->depth--;
    return LS_OK;
}

// ---- one opcode after the other ------------------------------------------------------------------------------------

static ls_status do_string(ls__pickle *p, int length_bytes) {
    uint32_t length = 0;
    const uint8_t *string = NULL;
    LS_TRY(take_number(p, length_bytes, &length));
    LS_TRY(take(p, length, &string));
    return push(p, (ls__pickle_value){.kind = LS__PICKLE_STRING, .string = string, .length = length});
}

static ls_status do_number(ls__pickle *p, int bytes) {
    uint32_t number = 0;
    LS_TRY(take_number(p, bytes, &number));
    return push_int(p, LS__PICKLE_INT, bytes == 4 ? (int64_t)(int32_t)number : (int64_t)number);
}

static ls_status do_mark(ls__pickle *p) {
    if (p->marks == MARKS_MAX) return REFUSE(p, "is the mark after %d open ones; " FETCH_AGAIN, MARKS_MAX);
    p->mark[p->marks++] = p->depth;
    return LS_OK;
}

static ls_status do_proto(ls__pickle *p) {
    uint32_t version = 0;
    LS_TRY(take_number(p, 1, &version));
    if (version != 2 || p->op_at != 0)
        return REFUSE(p, "says protocol %u where these files say 2 at their beginning; fetch the file from its authors",
                      version);
    return LS_OK;
}

static ls_status do_stop(ls__pickle *p) {
    if (p->depth != 1 || p->marks)
        return REFUSE(p, "comes with %d values on the stack and %d open marks, not one value; " FETCH_AGAIN, p->depth,
                      p->marks);
    if (p->at < p->size)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has %lld bytes after the pickle's end at byte %lld; " FETCH_AGAIN,
                       p->path, (long long)(p->size - p->at), (long long)p->at);
    p->ended = 1;
    return LS_OK;
}

static ls_status make_last(ls__pickle *p, int count) {
    LS_TRY(want(p, count));
    return make_tuple(p, p->depth - count);
}

static ls_status fill_last(ls__pickle *p, ls__pickle_kind kind, int count) {
    LS_TRY(want(p, count + 1));
    return fill(p, kind, p->depth - count);
}

static ls_status fill_marked(ls__pickle *p, ls__pickle_kind kind) {
    int first = 0;
    LS_TRY(close_mark(p, &first));
    return fill(p, kind, first);
}

static ls_status tuple_marked(ls__pickle *p) {
    int first = 0;
    LS_TRY(close_mark(p, &first));
    return make_tuple(p, first);
}

static ls_status step(ls__pickle *p, uint8_t op) {
    ls__pickle_node *made;
    switch (op) {
    case OP_PROTO: return do_proto(p);
    case OP_STOP: return do_stop(p);
    case OP_MARK: return do_mark(p);
    case OP_NONE: return push_int(p, LS__PICKLE_NONE, 0);
    case OP_NEWTRUE: return push_int(p, LS__PICKLE_BOOL, 1);
    case OP_NEWFALSE: return push_int(p, LS__PICKLE_BOOL, 0);
    case OP_BININT1: return do_number(p, 1);
    case OP_BININT2: return do_number(p, 2);
    case OP_BININT: return do_number(p, 4);
    case OP_SHORT_BINSTRING: return do_string(p, 1);
    case OP_BINSTRING: return do_string(p, 4);
    case OP_EMPTY_TUPLE: return make_tuple(p, p->depth);
    case OP_TUPLE1: return make_last(p, 1);
    case OP_TUPLE2: return make_last(p, 2);
    case OP_TUPLE3: return make_last(p, 3);
    case OP_TUPLE: return tuple_marked(p);
    case OP_EMPTY_LIST: return push_node(p, LS__PICKLE_LIST, &made);
    case OP_EMPTY_DICT: return push_node(p, LS__PICKLE_DICT, &made);
    case OP_APPEND: return fill_last(p, LS__PICKLE_LIST, 1);
    case OP_APPENDS: return fill_marked(p, LS__PICKLE_LIST);
    case OP_SETITEM: return fill_last(p, LS__PICKLE_DICT, 2);
    case OP_SETITEMS: return fill_marked(p, LS__PICKLE_DICT);
    case OP_BINPUT: return put(p, 1);
    case OP_LONG_BINPUT: return put(p, 4);
    case OP_BINGET: return get(p, 1);
    case OP_LONG_BINGET: return get(p, 4);
    case OP_GLOBAL: return do_global(p);
    case OP_REDUCE: return do_reduce(p);
    case OP_BUILD: return do_build(p);
    default:
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: the pickle has %s (0x%02X) at byte %lld, which these files do not contain; nothing was "
                       "executed: fetch the file from its authors",
                       p->path, op_name(op), op, (long long)p->op_at);
    }
}

static ls_status run(ls__pickle *p) {
    if (p->size < 1 || p->bytes[0] != OP_PROTO)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is no pickle of protocol 2: it begins with 0x%02X, not 0x80; put the right file there",
                       p->path, p->size < 1 ? 0 : p->bytes[0]);
    while (!p->ended) {
        if (p->at == p->size)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s is cut short: the pickle has no end in %lld bytes; " FETCH_AGAIN,
                           p->path, (long long)p->size);
        p->op_at = p->at++;
        LS_TRY(step(p, p->bytes[p->op_at]));
    }
    return LS_OK;
}

ls_status ls__pickle_parse(const char *path, const uint8_t *bytes, int64_t size, ls__pickle **out) {
    *out = NULL;
    ls__pickle *p;
    LS_TRY(ls_calloc(1, sizeof *p, &p));
    p->path = path;
    p->bytes = bytes;
    p->size = size;
    ls_status status = run(p);
    p->path = NULL;
    if (status == LS_OK)
        *out = p;
    else
        ls__pickle_free(&p);
    return status;
}

void ls__pickle_free(ls__pickle **pickle) {
    ls__pickle *p = *pickle;
    if (!p) return;
    for (int i = 0; i < NODES_MAX; i++) free(p->node[i].items);
    free(p->memo);
    free(p);
    *pickle = NULL;
}

const ls__pickle_value *ls__pickle_root(const ls__pickle *pickle) { return &pickle->stack[0]; }

const ls__pickle_value *ls__pickle_find(const ls__pickle_value *dict, const char *key) {
    if (dict->kind != LS__PICKLE_DICT) return NULL;
    // From the end: of two equal keys the later one counts.
    for (int64_t i = dict->node->count - 2; i >= 0; i -= 2)
        if (is_string(&dict->node->items[i], key)) return &dict->node->items[i + 1];
    return NULL;
}

const char *ls__pickle_kind_name(ls__pickle_kind kind) {
    static const char *const names[] = {
        [LS__PICKLE_NONE] = "None",   [LS__PICKLE_BOOL] = "bool",     [LS__PICKLE_INT] = "int",
        [LS__PICKLE_STRING] = "str",  [LS__PICKLE_TUPLE] = "tuple",   [LS__PICKLE_LIST] = "list",
        [LS__PICKLE_DICT] = "dict",   [LS__PICKLE_GLOBAL] = "global", [LS__PICKLE_DTYPE] = "dtype",
        [LS__PICKLE_ARRAY] = "array",
    };
    return names[kind];
}
