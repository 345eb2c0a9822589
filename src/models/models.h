// The built-in networks. A new one is one file ending in its descriptor, and one line in list.c.
#ifndef LS_MODELS_MODELS_H
#define LS_MODELS_MODELS_H

#include <lockstep/graph.h>

typedef struct ls_model {
    const char *name, *help;
    ls_shape input;  // of one sample, unless the caller says otherwise
    int classes;     // the same
    // Adds the layers to `graph` and returns the logits.
    ls_value (*build)(ls_graph *graph, ls_value x, int classes);
} ls_model;

const ls_model *const *ls_models(void);  // NULL-terminated

#endif
