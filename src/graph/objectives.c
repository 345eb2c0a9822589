// What is trained where a network has no losses of its own: a copy of it, with those that belong to its samples.
#include <stdio.h>

#include "base/error.h"
#include "graph/graph.h"

// `name`, or where a layer of the network has it the first free of name_1, name_2, ...
static const char *free_name(const ls_graph *graph, const char *name, char text[32]) {
    snprintf(text, 32, "%s", name);
    for (int i = 1; ls__graph_name_taken(graph, text); i++) snprintf(text, 32, "%s_%d", name, i);
    return text;
}

// The metrics that somebody who looks at a classifier wants beside its accuracy; `looks`: also what was taken for what.
static void add_metrics(ls_graph *g, ls_value logits, ls_value label, int looks, int k) {
    char name[32];
    if (k > 0) {
        free_name(g, "top_k_accuracy", name);
        ls_top_k_accuracy(g, logits, label, &(ls_metric_attrs){.name = name, .k = k});
    }
    if (looks)
        ls_balanced_accuracy(g, logits, label, &(ls_metric_attrs){.name = free_name(g, "balanced_accuracy", name)});
}

// A copy that losses can be added to, of a network of one output without any, and that output.
static ls_status copy_for_losses(const ls_graph *graph, ls_graph **out, ls_value *logits) {
    *out = NULL;
    LS_TRY(ls_graph_check_classifier(graph));
    if (graph->output_count != 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s has %d outputs and no loss: say what each is trained towards (ls_softmax_cross_entropy, ...)",
            graph->name, graph->output_count);
    *logits = graph->outputs[0].value;
    LS_TRY(ls__graph_check_scores(graph, *logits));
    return ls__graph_copy(graph, out);
}

static ls_status close_copy(ls_graph **g) {
    ls_status status = (*g)->failed ? LS_FAIL((*g)->failed, "%s", (*g)->failure) : ls__graph_close(*g);
    if (status != LS_OK) ls_graph_destroy(g);
    return status;
}

ls_status ls__graph_with_label_losses(const ls_graph *graph, double label_smoothing, double positive_weight,
                                      ls_graph **out) {
    ls_value logits;
    char name[32];
    LS_TRY(copy_for_losses(graph, out, &logits));
    ls_graph *g = *out;
    ls_value label = ls_graph_add_input(g, free_name(g, "label", name), ls__value_type(g, logits)->shape, LS_DTYPE_F32);
    ls_binary_cross_entropy(g, logits, label,
                            &(ls_loss_attrs){.name = free_name(g, "loss", name),
                                             .label_smoothing = label_smoothing,
                                             .positive_weight = positive_weight});
    ls_binary_accuracy(g, logits, label, &(ls_metric_attrs){.name = free_name(g, "accuracy", name)});
    ls_auc(g, logits, label, &(ls_metric_attrs){.name = free_name(g, "auc", name)});
    return close_copy(out);
}

ls_status ls__graph_with_target_losses(const ls_graph *graph, ls_graph **out) {
    ls_value prediction;
    char name[32];
    LS_TRY(copy_for_losses(graph, out, &prediction));
    ls_graph *g = *out;
    ls_value target =
        ls_graph_add_input(g, free_name(g, "target", name), ls__value_type(g, prediction)->shape, LS_DTYPE_F32);
    ls_mean_squared_error(g, prediction, target, &(ls_loss_attrs){.name = free_name(g, "loss", name)});
    ls_mean_absolute_error_metric(g, prediction, target,
                                  &(ls_metric_attrs){.name = free_name(g, "mean_absolute_error", name)});
    return close_copy(out);
}

static ls_status with_classifier(const ls_graph *graph, int rows, double label_smoothing, int looks, int k,
                                 ls_graph **out) {
    ls_value logits;
    LS_TRY(copy_for_losses(graph, out, &logits));
    ls_graph *g = *out;
    ls_shape shape = rows ? ls__value_type(g, logits)->shape : (ls_shape){0};
    char name[32];
    ls_value label = ls_graph_add_input(g, free_name(g, "label", name), shape, rows ? LS_DTYPE_F32 : LS_DTYPE_I32);
    ls_softmax_cross_entropy(g, logits, label,
                             &(ls_loss_attrs){.name = free_name(g, "loss", name), .label_smoothing = label_smoothing});
    ls_accuracy(g, logits, label, &(ls_metric_attrs){.name = free_name(g, "accuracy", name)});
    add_metrics(g, logits, label, looks, k);
    return close_copy(out);
}

ls_status ls__graph_with_classifier_loss(const ls_graph *graph, int rows, double label_smoothing, ls_graph **out) {
    return with_classifier(graph, rows, label_smoothing, 0, 0, out);
}

ls_status ls__graph_with_top_k(const ls_graph *graph, int rows, double label_smoothing, int k, ls_graph **out) {
    return with_classifier(graph, rows, label_smoothing, 0, k, out);
}

ls_status ls_graph_classifier(const ls_graph *network, int k, ls_graph **out) {
    LS_NEED(network, "network");
    LS_NEED(out, "out");
    *out = NULL;
    LS_TRY(ls__graph_check_finished(network));
    if (ls__graph_has_losses(network))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s has losses of its own: a classifier's are for a network without any", network->name);
    return with_classifier(network, 0, 0, 1, k, out);
}
