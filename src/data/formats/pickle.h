// A strict reader of the few Python pickles that datasets are published in, worked on in memory only.
//
// A pickle is a program for a small stack machine, and a general reader of it runs whatever the file says. This one
// knows only what a dict of numbers, strings, lists and numpy byte arrays is made of (protocol 2, as Python 2 writes it),
// and it builds plain values: nothing is imported, called or executed. Anything else is refused by name and place.
#ifndef LS_DATA_FORMATS_PICKLE_H
#define LS_DATA_FORMATS_PICKLE_H

#include <lockstep/status.h>
#include <stdint.h>

typedef enum ls__pickle_kind {
    LS__PICKLE_NONE,
    LS__PICKLE_BOOL,
    LS__PICKLE_INT,
    LS__PICKLE_STRING,
    LS__PICKLE_TUPLE,
    LS__PICKLE_LIST,
    LS__PICKLE_DICT,
    LS__PICKLE_GLOBAL,  // one of the numpy names below
    LS__PICKLE_DTYPE,
    LS__PICKLE_ARRAY,  // numpy array of bytes
} ls__pickle_kind;

typedef struct ls__pickle_node ls__pickle_node;

typedef struct ls__pickle_value {
    ls__pickle_kind kind;
    union {
        int64_t number;         // BOOL, INT; GLOBAL: which
        const uint8_t *string;  // STRING: in the file's bytes, not terminated
        ls__pickle_node *node;  // everything else but NONE
    };
    int64_t length;  // STRING: bytes
} ls__pickle_value;

#define LS__PICKLE_DIMS 4

struct ls__pickle_node {
    ls__pickle_value *items;  // TUPLE, LIST: (count); DICT: key, value, key, value, ... (count); keys are strings
    int64_t count, room;
    int built;               // DTYPE, ARRAY: has got its state
    ls__pickle_value dtype;  // DTYPE: its name, a string
    int ndim;                // ARRAY
    int64_t dim[LS__PICKLE_DIMS];
    int by_column;        // ARRAY: the first index runs fastest ("Fortran order")
    const uint8_t *data;  // ARRAY: in the file's bytes, as many as the extents' product
};

typedef struct ls__pickle ls__pickle;

// Reads the pickle in bytes (size), which must stay as long as the result; `path` is for the sentence of a failure.
// Memory is bounded by limits of the reader, whatever sizes the file declares.
// Errors: BAD_DATA (cut short, other opcodes or names, inconsistent, too large, bytes after its end), OUT_OF_MEMORY.
ls_status ls__pickle_parse(const char *path, const uint8_t *bytes, int64_t size, ls__pickle **out);
void ls__pickle_free(ls__pickle **pickle);  // NULL is fine

// What the file holds at the outermost.
const ls__pickle_value *ls__pickle_root(const ls__pickle *pickle);

// The value of a key; NULL when `dict` is no dict or has no such key.
const ls__pickle_value *ls__pickle_find(const ls__pickle_value *dict, const char *key);

// "list", "int", ...
const char *ls__pickle_kind_name(ls__pickle_kind kind);

#endif
