// Keras's table of a network: layers, output shapes, parameter counts.
#ifndef LS_GRAPH_SUMMARY_H
#define LS_GRAPH_SUMMARY_H

#include <lockstep/graph.h>

// The table as text, several lines; the caller frees it with free(). Errors: OUT_OF_MEMORY.
ls_status ls_graph_summary(const ls_graph *graph, char **text);

#endif
