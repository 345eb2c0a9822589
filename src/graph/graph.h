// The graph from inside: nodes in execution order, the values they compute, inputs and outputs.
#ifndef LS_GRAPH_GRAPH_H
#define LS_GRAPH_GRAPH_H

#include <lockstep/graph.h>

#include "graph/op.h"
#include "graph/store.h"

struct ls_node {
    ls_op_kind op;
    char *name;
    ls_attrs attrs;    // resolved; without their name
    ls_value *inputs;  // (input_count): the values it reads
    int input_count;
    ls_tensor_type output[LS_MAX_OUTPUTS];  // of one sample, without the batch; dtype F32 means floating
    int output_count;
    ls_value value;                          // its first output; the others follow
    int params[LS_MAX_PARAMS], param_count;  // indices in the store, in the op's order
    int inside;  // 1: part of the layer before it (an activation that no kernel has of its own)
};

// A value: output `index` of a node.
typedef struct ls_graph_value {
    int node, index;
} ls_graph_value;

typedef struct ls_graph_output {
    char *name;
    ls_value value;
} ls_graph_output;

// What a graph does with a parameter of its store.
typedef enum ls_use {
    LS_USE_NONE,
    LS_USE_UNTRAINED,  // reads it, but none of the graph's losses depends on it
    LS_USE_TRAINED,
} ls_use;

struct ls_graph {
    char *name;
    ls_node *nodes;  // inputs come before their readers
    int node_count;
    ls_graph_value *values;
    int value_count;
    ls_value *inputs;  // (input_count): what batches bring along
    int input_count;
    ls_graph_output *outputs;
    int output_count;
    ls_store *store;
    char *uses, *frozen;         // (param_count): parameters this graph reads (ls_use); those it is told not to train
    int next_name[LS_OP_COUNT];  // of an automatic name's numbers the first that may be free
    int param_count;             // in the store when the graph was finished; others may have come since
    int finished;
    int features;      // 1: finished without a classifier
    ls_status failed;  // the first failure, kept for ls_graph_finish
    char failure[512];
};

static inline const ls_tensor_type *ls__value_type(const ls_graph *graph, ls_value value) {
    return &graph->nodes[graph->values[value].node].output[graph->values[value].index];
}
static inline const ls_node *ls__value_node(const ls_graph *graph, ls_value value) {
    return &graph->nodes[graph->values[value].node];
}
// Input k of a node that may not be in the graph yet.
static inline const ls_tensor_type *ls__input_type(const ls_graph *graph, const ls_node *node, int k) {
    return ls__value_type(graph, node->inputs[k]);
}
// Whether this graph reads a parameter of its store.
static inline int ls__graph_uses(const ls_graph *graph, int param) {
    return param < graph->param_count && graph->uses[param] != LS_USE_NONE;
}
// Whether it trains it: then each backward writes its gradient, or what its layer says of the batch.
static inline int ls__graph_trains(const ls_graph *graph, int param) {
    return param < graph->param_count && graph->uses[param] == LS_USE_TRAINED && !graph->frozen[param] &&
           !graph->store->params[param].frozen;
}

// Adds a node with `count` inputs (for op files and builders). `attrs` is the op's struct, whose first member is the name; NULL:
// no attributes and an automatic name. Returns its first value.
ls_value ls__graph_add(ls_graph *graph, ls_op_kind op, const ls_value *x, int count, const void *attrs);
// Adds an output to a node that is being inferred: a sample's shape; F32 for anything floating.
ls_status ls__node_output(ls_node *node, ls_shape shape, ls_dtype dtype);
// Adds a parameter to it. `initializer` DEFAULT: `standard`.
ls_status ls__graph_param(ls_graph *graph, ls_node *node, const char *suffix, ls_shape shape, ls_param_role role,
                          ls_initializer initializer, ls_initializer standard, int64_t fan_in, int64_t fan_out);
// "gamma" and "beta", ones and zeros: what normalized channels are multiplied by, and what is added.
ls_status ls__graph_scale_and_shift(ls_graph *graph, ls_node *node, int64_t channels);

int ls__graph_name_taken(const ls_graph *graph, const char *name);
// That a value has one number for each class. Errors: INVALID_ARGUMENT.
ls_status ls__graph_check_scores(const ls_graph *graph, ls_value scores);
// Nothing is added any more: what its outputs, losses and metrics need is found, and its parameters are listed. Errors: INVALID_ARGUMENT (a value that
// nothing uses, a loss that trains nothing), OUT_OF_MEMORY.
ls_status ls__graph_close(ls_graph *graph);

// A graph like a finished one, with the same store, that can still be added to. The caller destroys it.
ls_status ls__graph_copy(const ls_graph *graph, ls_graph **out);
// What training does without losses of the graph's own: a copy with an input "label", its last, and softmax cross-entropy "loss" and
// "accuracy" on its output; where layers have those names, "label_1" and so on. `rows`: labels are rows of weights. Errors: INVALID_ARGUMENT (features, or several outputs).
ls_status ls__graph_with_classifier_loss(const ls_graph *graph, int rows, double label_smoothing, ls_graph **out);
// The same, with `k` above 0 also the accuracy of the k largest scores, "top_k_accuracy".
ls_status ls__graph_with_top_k(const ls_graph *graph, int rows, double label_smoothing, int k, ls_graph **out);
// The same for samples that numbers are learned of: an input "target" of the output's shape, the mean squared error "loss" and, to look at, the
// "mean_absolute_error". Errors: as above.
ls_status ls__graph_with_target_losses(const ls_graph *graph, ls_graph **out);
// The same for samples with several labels at once: an input "label" of a row of 0 and 1, binary cross-entropy "loss", binary accuracy "accuracy" and, in
// evaluation, the area under the ROC curve of each label, "auc". Errors: as above.
ls_status ls__graph_with_label_losses(const ls_graph *graph, double label_smoothing, double positive_weight,
                                      ls_graph **out);
int ls__graph_has_losses(const ls_graph *graph);
// That it is finished, or what has kept it from being so. Errors: INVALID_ARGUMENT, what a layer failed with.
ls_status ls__graph_check_finished(const ls_graph *graph);
// How many classes losses and metrics tell apart, the least, of those that read an input's whole numbers as class numbers; 0: none does.
int64_t ls__graph_target_classes(const ls_graph *graph, ls_value input);
// A number that two graphs share only if they compute the same: operations, attributes, connections, shapes, parameters, what is
// frozen.
uint64_t ls__graph_fingerprint(const ls_graph *graph);

// The shape of a batch of such samples, for people: "(None, 26, 26, 32)".
#define LS_MOST_ELEMENTS ((int64_t)1 << 40)  // of a sample or a parameter
#define LS_SHAPE_TEXT    128
const char *ls__shape_text(ls_shape sample, char text[LS_SHAPE_TEXT]);

#endif
