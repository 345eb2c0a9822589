// The end of language models: scores of the next token at each position, held against what the data has there.
#include "models/models.h"

ls_value ls__model_language(ls_graph *g, ls_value x, const ls_model_config *config) {
    ls_value logits = ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = config->classes});
    ls_shape positions = {1, {ls__model_shape(g, x).dim[0]}};
    if (logits == LS_NO_VALUE) return logits;
    ls_value targets = ls_graph_add_input(g, "targets", positions, LS_DTYPE_I32);
    ls_softmax_cross_entropy(g, logits, targets, NULL);
    ls_accuracy(g, logits, targets, NULL);
    ls_perplexity(g, logits, targets, NULL);
    return logits;
}
