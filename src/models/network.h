// Networks as text: what reads and writes them from inside. docs/networks.md has the format.
//
// A file becomes a list of statements, one a line (network_load.c), which are then gone through (network_read.c): each layer is handed to the
// graph by its op's own table of attributes (network_value.c), as the functions in C hand it.
#ifndef LS_MODELS_NETWORK_H
#define LS_MODELS_NETWORK_H

#include "graph/graph.h"

#define LS_NETWORK_ENDING ".net"
#define LS_ONNX_ENDING    ".onnx"

enum {
    LS_NETWORK_NAME = 128,            // bytes of a name
    LS_NETWORK_FILE_BYTES = 1 << 20,  // of one file
    LS_NETWORK_FILES = 64,            // a file and what it includes
    LS_NETWORK_DEPTH = 16,            // of includes, blocks and repeats in one another
    LS_NETWORK_LAYERS = 5000,
    LS_NETWORK_BLOCKS = 256,     // there are; each word for a layer is looked for among them
    LS_NETWORK_CALLS = 10000,    // of blocks
    LS_NETWORK_ARGUMENTS = 64,   // of a block
    LS_NETWORK_STEPS = 1000000,  // statements gone through
    LS_NETWORK_STEP_BYTES = 64,  // a longer line is several of them
};

// A place in a file, and what follows it on its line.
typedef struct net_cursor {
    const char *file;  // for sentences
    int line;
    const char *begin, *at;  // of the line's text; it ends with a 0
} net_cursor;

typedef enum net_kind {
    NET_LAYER,  // an op or a block
    NET_INPUT,
    NET_CLASSES,
    NET_BLOCK,
    NET_REPEAT,
    NET_END,
    NET_TOP,
    NET_FEATURES,
    NET_OUTPUT,
} net_kind;

typedef struct net_statement {
    net_kind kind;
    net_cursor from;  // behind the word that tells its kind; of layers the line's begin
    int partner;      // of a block or a repeat its end's index, and the other way round
} net_statement;

typedef struct net_program {
    char name[LS_NETWORK_NAME];  // the network's
    net_statement *statements;
    int count;
    int blocks[LS_NETWORK_BLOCKS], block_count;               // which of the statements are blocks
    char *texts[LS_NETWORK_FILES], *paths[LS_NETWORK_FILES];  // what the cursors point into
    int files;
} net_program;

// Reads a file and what it includes; where `text` is given, that in place of the file. Checks what can be known before it is gone
// through. net_free in any case. Errors: NOT_FOUND, IO, BAD_DATA with file, line and column.
ls_status net_load(net_program *program, const char *path, const char *text);
void net_free(net_program *program);
// The block of that name; -1: none.
int net_find_block(const net_program *program, const char *name);

// --- words -----------------------------------------------------------------------------------------------------------

// BAD_DATA with "FILE:LINE:COLUMN: " in front.
ls_status net_wrong(const net_cursor *at, const char *format, ...) __attribute__((format(printf, 2, 3)));
void net_skip(net_cursor *c);            // blanks; a comment goes on to the line's end
int net_ended(net_cursor *c);            // whether the line has no more
int net_take(net_cursor *c, char sign);  // the sign, after blanks, if it is next
// The next word: up to a blank, a comma or "="; or what stands between quotes, where \" and \\ are the two. `what` is for the sentence
// where there is none.
ls_status net_word(net_cursor *c, const char *what, char out[LS_NETWORK_NAME], int *quoted);
int net_is_name(const char *text);      // short enough, and what terminals and JSON take
ls_status net_finished(net_cursor *c);  // that nothing follows

// --- values ----------------------------------------------------------------------------------------------------------

// What stands behind an attribute's "=": some numbers, or a word.
typedef struct net_value {
    int count;  // of the numbers; 0: a word
    double number[4];
    char word[LS_NETWORK_NAME];
} net_value;

typedef struct net_variable {
    char name[LS_NETWORK_NAME];
    net_value value;
} net_variable;

typedef struct net_variables {
    net_variable *all;
    int count, room;
} net_variables;

ls_status net_set(net_variables *variables, const char *name, const net_value *value);
const net_value *net_get(const net_variables *variables, const char *name);  // the latest of that name; NULL: none
// A value: "3", "3x3", "0,1,0,1", "4*filters", "relu". Words that are variables are what those are.
ls_status net_evaluate(net_cursor *c, const net_variables *variables, net_value *out);
// A word with what stands in braces replaced by its whole number: "block{i}_conv".
ls_status net_fill_in(const net_cursor *c, const char *word, const net_variables *variables, char out[LS_NETWORK_NAME]);
// A single whole number from least to most.
ls_status net_whole(const net_cursor *at, const char *what, const net_value *value, double least, double most,
                    int *out);
// Sets the attribute `name` of an op. Errors: BAD_DATA (none of that name, with those there are; not its type).
ls_status net_set_attribute(const net_cursor *at, const ls_op *op, const char *name, const net_value *value,
                            ls_attrs *attrs);

// --- writing ---------------------------------------------------------------------------------------------------------

// `larger`: the same network with one more class, by which attributes that are the number of classes are told; `top`: the same without its
// classifier. Both may be NULL. The caller frees *text.
ls_status net_write(const ls_graph *graph, const ls_graph *larger, const ls_graph *top, char **text);

#endif
