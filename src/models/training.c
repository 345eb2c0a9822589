// Which parameters of a network are trained, how fast, and how they decay, by patterns of their names.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "models/models.h"

// "PATTERN=X": the pattern, in the item's place, and X.
static ls_status read_scale(const char *option, const char *example, char *item, double *x) {
    char *equals = strrchr(item, '='), *end;
    *x = equals ? strtod(equals + 1, &end) : 0;
    if (!equals || end == equals + 1 || *end || equals == item)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: expected PATTERN=X, as %s, but got '%s'", option, example,
                       item);
    *equals = 0;
    return LS_OK;
}

static ls_status scale_rate(ls_graph *graph, char *item) {
    double x;
    LS_TRY(read_scale("--lr-scale", "head*=10", item, &x));
    return ls_graph_scale_rate(graph, item, x, NULL);
}

static ls_status scale_decay(ls_graph *graph, char *item) {
    double x;
    LS_TRY(read_scale("--decay-scale", "*beta=0", item, &x));
    return ls_graph_scale_decay(graph, item, x, NULL);
}

static ls_status freeze(ls_graph *graph, char *item) { return ls_graph_freeze(graph, item, 1, NULL); }

// Each of the items between commas.
static ls_status for_items(ls_graph *graph, const char *list, ls_status (*take)(ls_graph *graph, char *item)) {
    char *items, *rest;
    if (!list) return LS_OK;
    LS_TRY(ls_strdup(list, &items));
    ls_status status = LS_OK;
    for (char *item = strtok_r(items, ",", &rest); item && status == LS_OK; item = strtok_r(NULL, ",", &rest))
        status = take(graph, item);
    free(items);
    return status;
}

// A network of which all is frozen would go through its epochs and stay as it was drawn, and say nothing of it.
static ls_status check_learns(const ls_graph *graph, const char *frozen) {
    if (!frozen || ls_graph_trainable_parameter_count(graph) > 0) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "'%.100s' freezes all of %s: nothing of it would be trained; leave some of its weights out ('lockstep "
        "summary' tells their names), or measure it as it is with 'lockstep evaluate'",
        frozen, ls_graph_name(graph));
}

ls_status ls__model_set_training(ls_graph *graph, const ls_model_config *config) {
    LS_TRY(for_items(graph, config->freeze, freeze));
    LS_TRY(check_learns(graph, config->freeze));
    LS_TRY(for_items(graph, config->lr_scale, scale_rate));
    return for_items(graph, config->decay_scale, scale_decay);
}
