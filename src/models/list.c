// Every built-in network: one line each.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "graph/graph.h"
#include "models/models.h"
#include "models/network.h"

#define LS_MODELS(X)                                                                                                   \
    X(mnist_cnn)                                                                                                       \
    X(mnist_mlp)                                                                                                       \
    X(mnist_linear)                                                                                                    \
    X(lenet5)                                                                                                          \
    X(resnet20)                                                                                                        \
    X(resnet32)                                                                                                        \
    X(resnet44)                                                                                                        \
    X(resnet56)                                                                                                        \
    X(resnet110)                                                                                                       \
    X(resnet20v2)                                                                                                      \
    X(resnet32v2)                                                                                                      \
    X(resnet44v2)                                                                                                      \
    X(resnet56v2)                                                                                                      \
    X(resnet110v2)                                                                                                     \
    X(cifar_cnn)                                                                                                       \
    X(resnet50)                                                                                                        \
    X(resnet101)                                                                                                       \
    X(resnet152)                                                                                                       \
    X(resnet50v2)                                                                                                      \
    X(resnet101v2)                                                                                                     \
    X(resnet152v2)                                                                                                     \
    X(resnet18)                                                                                                        \
    X(resnet34)                                                                                                        \
    X(resnext50)                                                                                                       \
    X(alexnet)                                                                                                         \
    X(vgg16)                                                                                                           \
    X(vgg19)                                                                                                           \
    X(googlenet)                                                                                                       \
    X(inceptionv3)                                                                                                     \
    X(xception)                                                                                                        \
    X(densenet121)                                                                                                     \
    X(densenet169)                                                                                                     \
    X(densenet201)                                                                                                     \
    X(mobilenet)                                                                                                       \
    X(mobilenetv2)                                                                                                     \
    X(efficientnetb0)                                                                                                  \
    X(efficientnetb1)                                                                                                  \
    X(efficientnetb2)                                                                                                  \
    X(nasnetmobile)                                                                                                    \
    X(autoencoder)                                                                                                     \
    X(vae)                                                                                                             \
    X(frame_prediction)                                                                                                \
    X(lstm)                                                                                                            \
    X(gru)                                                                                                             \
    X(transformer)                                                                                                     \
    X(lstm_lm)                                                                                                         \
    X(lstm_lm_mini)                                                                                                    \
    X(gru_lm)                                                                                                          \
    X(transformer_lm)                                                                                                  \
    X(transformer_lm_mini)

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

ls_model_info ls_model_at(int index) {
    const ls_model *const *m = ls_models();
    while (*m && index > 0) m++, index--;
    if (!*m || index < 0) return (ls_model_info){.name = NULL};
    return (ls_model_info){.name = (*m)->name,
                           .help = (*m)->help,
                           .input = (*m)->input,
                           .classes = (*m)->classes,
                           .vocabulary = (*m)->vocabulary,
                           .imagenet_top1 = (*m)->imagenet_top1};
}

static ls_status model_not_found(const char *name) {
    const char *list[64];
    char names[2048] = "";
    size_t used = 0;
    int count = 0;
    for (const ls_model *const *m = ls_models(); *m; m++) {
        ls_text_add(names, sizeof names, &used, "%s%s", used ? ", " : "", (*m)->name);
        if (count < 64) list[count++] = (*m)->name;
    }
    const char *near = ls_nearest(name, list, count);
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "there is no model named \"%s\"%s%s%s; the models are %s, and files that end in " LS_NETWORK_ENDING
                   " or " LS_ONNX_ENDING,
                   name, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", names);
}

static ls_status find_model(const char *name, const ls_model **out) {
    if (!name) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a model was asked for without its name");
    for (const ls_model *const *m = ls_models(); *m; m++)
        if (strcmp((*m)->name, name) == 0) {
            *out = *m;
            return LS_OK;
        }
    return model_not_found(name);
}

static int one_of(const char *text, const char *a, const char *b, const char *c) {
    return strcmp(text, a) == 0 || strcmp(text, b) == 0 || (c && strcmp(text, c) == 0);
}

ls_status ls__model_check_words(const char *name, const ls_model_config *c) {
    if (c->classes < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: a network tells at least 1 class apart, not %d", name,
                       c->classes);
    if (!c->pooling || !one_of(c->pooling, "none", "avg", "max"))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: unknown pooling '%s': there are none, avg and max", name,
                       c->pooling ? c->pooling : "");
    if (!c->classifier_activation || !one_of(c->classifier_activation, "softmax", "none", NULL))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: unknown classifier activation '%s': there are softmax and none",
                       name, c->classifier_activation ? c->classifier_activation : "");
    if (c->include_top && strcmp(c->pooling, "none") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: pooling %s is for a network without its classifier: ask for that too, or for no pooling",
                       name, c->pooling);
    return LS_OK;
}

// Networks that halve the sides and double them again give back the same sides.
static ls_status check_divides(const ls_model *model, const ls_shape *input) {
    int by = model->divides;
    if (!by || input->ndim < 3) return LS_OK;
    long long height = input->dim[input->ndim - 3], width = input->dim[input->ndim - 2];
    if (height % by == 0 && width % by == 0) return LS_OK;
    const char *what = input->ndim == 3 ? "images" : "clips";
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s takes %s whose sides %d divides, and these are %lldx%lld: the next larger ones are %lldx%lld",
                   model->name, what, by, height, width, (height + by - 1) / by * by, (width + by - 1) / by * by);
}

static ls_status check(const ls_model *model, const ls_model_config *c) {
    LS_TRY(ls__model_check_words(model->name, c));
    if (!c->include_top && !model->has_features)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s has no features without its classifier: networks of ImageNet and of CIFAR-10 have them",
                       model->name);
    if (model->vocabulary && c->input.ndim != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s takes sequences of tokens, (T), and a sample of these has %d dimensions: text and roles are "
                       "datasets of sequences",
                       model->name, c->input.ndim);
    if (!model->vocabulary && c->vocabulary)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s takes images, not sequences of tokens, as lstm, gru and transformer do", model->name);
    if (c->input.ndim == 3 && (c->input.dim[0] < model->least_side || c->input.dim[1] < model->least_side))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s takes images of at least %dx%d, and these are %lldx%lld: resize them to "
                       "%dx%d or more",
                       model->name, model->least_side, model->least_side, (long long)c->input.dim[0],
                       (long long)c->input.dim[1], model->least_side, model->least_side);
    return check_divides(model, &c->input);
}

// Of batch normalizations, where it is asked for.
static ls_status check_momentum(const ls_graph *g, double momentum) {
    if (!g || momentum == 0) return LS_OK;
    if (!(momentum > 0 && momentum < 1))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: a momentum of batch normalization lies between 0 and 1, not at %g", g->name, momentum);
    for (int i = 0; i < g->store->count; i++)
        if (g->store->params[i].role == LS_PARAM_STATISTIC) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has no batch normalization: leave its momentum out", g->name);
}

static ls_status create(const ls_model *model, const ls_model_config *c, ls_graph **out) {
    if (!model->vocabulary) return ls_graph_create(model->name, c->input, out);
    LS_TRY(ls_graph_create_empty(model->name, NULL, out));
    ls_graph_add_input(*out, "tokens", c->input, LS_DTYPE_I32);  // what is wrong with it the end of building tells
    return LS_OK;
}

static ls_status build_built_in(const char *name, const ls_model_config *config, ls_graph **out) {
    const ls_model *model = NULL;
    LS_TRY(find_model(name, &model));
    ls_model_config c = *config;
    if (!c.input.ndim) c.input = model->input;
    for (int d = 0; d < c.input.ndim && c.input.ndim == model->input.ndim; d++)
        if (c.input.dim[d] == 0) c.input.dim[d] = model->input.dim[d];  // images of any size become the network's own
    if (!c.classes) c.classes = model->classes;
    if (!c.vocabulary) c.vocabulary = model->vocabulary;
    LS_TRY(check(model, &c));
    ls_graph *graph;
    LS_TRY(create(model, &c, &graph));
    ls_value output = model->build(model, graph, ls_graph_input(graph), &c);
    ls_status status = c.include_top ? ls_graph_finish(graph, output) : ls_graph_finish_features(graph, output);
    if (status != LS_OK) ls__fail_context(status, "%s cannot be built: ", name);
    if (status != LS_OK) {
        ls_graph_destroy(&graph);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = graph;
    return LS_OK;
}

static int ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length > size && strcmp(name + length - size, ending) == 0;
}

int ls_model_is_file(const char *name) {
    return name && (ends_in(name, LS_NETWORK_ENDING) || ends_in(name, LS_ONNX_ENDING));
}

static ls_status read_file(const char *path, const ls_model_config *config, ls_graph **out) {
    return ends_in(path, LS_ONNX_ENDING) ? ls_onnx_read(path, config, out) : ls_network_read(path, NULL, config, out);
}

ls_status ls_model_build(const char *name, const ls_model_config *config, ls_graph **out) {
    ls_graph *graph = NULL;
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(name, "name");
    LS_NEED(config, "config");
    LS_TRY(ls_model_is_file(name) ? read_file(name, config, &graph) : build_built_in(name, config, &graph));
    ls_status status = check_momentum(graph, config->batch_norm_momentum);
    if (status == LS_OK) status = ls__model_set_training(graph, config);
    if (status != LS_OK) ls_graph_destroy(&graph);
    *out = graph;
    return status;
}

ls_status ls_model_create(const char *name, ls_shape input, int classes, ls_graph **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(name, "name");
    ls_model_config config;
    ls_model_config_init(&config);
    config.input = input;
    config.classes = classes;
    return ls_model_build(name, &config, out);
}
