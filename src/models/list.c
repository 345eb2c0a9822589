// Every built-in network: one line each.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "models/models.h"

#define LS_MODELS(X)                                                                                                   \
    X(mnist_cnn)                                                                                                       \
    X(mnist_mlp)                                                                                                       \
    X(mnist_linear)

#define X(name) extern const ls_model ls__model_##name;
LS_MODELS(X)
#undef X

const ls_model *const *ls_models(void) {
    static const ls_model *const models[] = {
#define X(name) &ls__model_##name,
        LS_MODELS(X)
#undef X
            NULL,
    };
    return models;
}

static ls_status model_not_found(const char *name) {
    char names[512] = "";
    size_t used = 0;
    for (const ls_model *const *m = ls_models(); *m && used < sizeof names; m++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*m)->name);
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no model named \"%s\"; the models are %s", name, names);
}

ls_status ls_model_create(const char *name, ls_shape input, int classes, ls_graph **out) {
    *out = NULL;
    if (!name) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a model was asked for without its name");
    const ls_model *const *model = ls_models();
    while (*model && strcmp((*model)->name, name) != 0) model++;
    if (!*model) return model_not_found(name);
    ls_graph *graph;
    LS_TRY(ls_graph_create(name, input.ndim ? input : (*model)->input, &graph));
    ls_value logits = (*model)->build(graph, ls_graph_input(graph), classes ? classes : (*model)->classes);
    ls_status status = ls_graph_finish(graph, logits);
    if (status != LS_OK) {
        ls_graph_destroy(&graph);
        return ls__fail_context(status, "%s cannot be built: ", name);
    }
    *out = graph;
    return LS_OK;
}
