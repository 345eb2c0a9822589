// Which parameters of a graph are trained, and how fast: by patterns of their names.
#include <fnmatch.h>

#include "base/error.h"
#include "graph/graph.h"

static ls_status no_match(const ls_graph *graph, const char *pattern) {
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "%s: no parameter matches \"%s\"; names look like \"%s\", and * stands for anything", graph->name,
                   pattern, graph->store->count ? graph->store->params[0].name : "dense/kernel");
}

// `set` for every parameter of the graph whose name matches; what gives 0 did not take it. `doing`: what for.
static ls_status for_each(ls_graph *graph, const char *pattern, const char *doing,
                          int (*set)(ls_graph *graph, int param, double value), double value, int *matched) {
    int count = 0;
    if (!graph->finished)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: finish the graph before %s of it", graph->name, doing);
    for (int i = 0; i < graph->store->count; i++)
        if (ls__graph_uses(graph, i) && fnmatch(pattern, graph->store->params[i].name, 0) == 0)
            count += set(graph, i, value);
    if (matched) *matched = count;
    return count > 0 || matched ? LS_OK : no_match(graph, pattern);
}

static int freeze(ls_graph *graph, int param, double frozen) {
    graph->frozen[param] = (char)(frozen != 0);
    return 1;
}

static int scale_rate(ls_graph *graph, int param, double scale) {
    ls_param *p = &graph->store->params[param];
    if (p->role == LS_PARAM_STATISTIC) return 0;
    p->rate = (float)scale;
    return 1;
}

static int scale_decay(ls_graph *graph, int param, double scale) {
    ls_param *p = &graph->store->params[param];
    if (p->role == LS_PARAM_STATISTIC) return 0;
    p->decay_scale = scale == 1 ? 0 : scale == 0 ? -1 : (float)scale;
    return 1;
}

ls_status ls_graph_freeze(ls_graph *graph, const char *pattern, int frozen, int *matched) {
    LS_NEED(graph, "graph");
    LS_NEED(pattern, "pattern");
    return for_each(graph, pattern, "freezing parameters", freeze, frozen, matched);
}

ls_status ls_graph_scale_rate(ls_graph *graph, const char *pattern, double scale, int *matched) {
    LS_NEED(graph, "graph");
    LS_NEED(pattern, "pattern");
    if (!(scale >= 1e-6 && scale <= 1e6))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the learning rate of \"%s\" is multiplied by a number from 1e-6 to 1e6, not by %g; what is "
                       "not to be trained at all is frozen",
                       graph->name, pattern, scale);
    return for_each(graph, pattern, "scaling learning rates", scale_rate, scale, matched);
}

ls_status ls_graph_scale_decay(ls_graph *graph, const char *pattern, double scale, int *matched) {
    LS_NEED(graph, "graph");
    LS_NEED(pattern, "pattern");
    if (!(scale == 0 || (scale >= 1e-6 && scale <= 1e6)))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the weight decay of \"%s\" is multiplied by 0 or a number from 1e-6 to 1e6, not by %g",
                       graph->name, pattern, scale);
    return for_each(graph, pattern, "scaling weight decay", scale_decay, scale, matched);
}
