// Small transformers over tokens, with the normalization before each part (GPT-2's arrangement: Radford et al., "Language models are
// unsupervised multitask learners", 2019): a classifier of sequences, whose token 0 is padding, and a language model, which foretells each
// position's next token from what is before it. Source: Vaswani et al., "Attention is all you need", 2017.
#include <stdio.h>

#include "models/models.h"

#define POSITIONS 512

enum { LAYERS, WIDTH, HEADS, CAUSAL };

typedef struct encoder {
    ls_graph *graph;
    const ls_model *model;
    ls_value mask;
} encoder;

static ls_value dense(const encoder *e, ls_value x, const char *block, const char *part, int units,
                      ls_activation activation) {
    char name[LS_LAYER_NAME];
    return ls_dense(
        e->graph, x,
        &(ls_dense_attrs){.name = ls__layer_name(name, block, part), .units = units, .activation = activation});
}

static ls_value norm(const encoder *e, ls_value x, const char *block, const char *part) {
    char name[LS_LAYER_NAME];
    return ls_layer_norm(e->graph, x,
                         &(ls_layer_norm_attrs){.name = ls__layer_name(name, block, part), .epsilon = 1e-5f});
}

static ls_value add(const encoder *e, ls_value a, ls_value b, const char *block, const char *part) {
    char name[LS_LAYER_NAME];
    return ls_add(e->graph, a, b, ls__layer_name(name, block, part));
}

static ls_value layer(const encoder *e, ls_value x, int index) {
    char block[16], name[LS_LAYER_NAME];
    const int *size = e->model->blocks;
    snprintf(block, sizeof block, "block%d", index + 1);
    ls_value y = dense(e, norm(e, x, block, "_attention_norm"), block, "_qkv", 3 * size[WIDTH], LS_ACTIVATION_NONE);
    y = ls_attention(
        e->graph, y, e->mask,
        &(ls_attention_attrs){
            .name = ls__layer_name(name, block, "_attention"), .heads = size[HEADS], .causal = size[CAUSAL]});
    x = add(e, x, dense(e, y, block, "_projection", size[WIDTH], LS_ACTIVATION_NONE), block, "_attention_add");
    y = dense(e, norm(e, x, block, "_dense_norm"), block, "_expand", 4 * size[WIDTH], LS_ACTIVATION_GELU);
    return add(e, x, dense(e, y, block, "_contract", size[WIDTH], LS_ACTIVATION_NONE), block, "_dense_add");
}

// Tokens to what the last layer makes of them, (T, width).
static ls_value encode(const encoder *e, ls_value tokens, const ls_model_config *config) {
    int width = e->model->blocks[WIDTH];
    ls_value x = ls_embedding(e->graph, tokens,
                              &(ls_embedding_attrs){.name = "embedding", .rows = config->vocabulary, .width = width});
    x = ls_position_embedding(e->graph, x, &(ls_position_embedding_attrs){.name = "positions", .rows = POSITIONS});
    for (int i = 0; i < e->model->blocks[LAYERS]; i++) x = layer(e, x, i);
    return norm(e, x, "final", "_norm");
}

static ls_value build_classifier(const ls_model *model, ls_graph *g, ls_value tokens, const ls_model_config *config) {
    encoder e = {g, model, tokens};
    ls_value x = ls_global_average_pool1d_masked(g, encode(&e, tokens, config), tokens, "pooling");
    return ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = config->classes});
}

static ls_value build_language_model(const ls_model *model, ls_graph *g, ls_value tokens,
                                     const ls_model_config *config) {
    encoder e = {g, model, LS_NO_VALUE};
    return ls__model_language(g, encode(&e, tokens, config), config);
}

#define CLASSIFIER(symbol, title, text, ...)                                                                           \
    const ls_model ls__model_##symbol = {.name = title,                                                                \
                                         .help = text,                                                                 \
                                         .input = {1, {64}},                                                           \
                                         .vocabulary = 128,                                                            \
                                         .classes = 10,                                                                \
                                         .blocks = (const int[]){__VA_ARGS__, 0},                                      \
                                         .build = build_classifier};
#define LANGUAGE_MODEL(symbol, title, text, ...)                                                                       \
    const ls_model ls__model_##symbol = {.name = title,                                                                \
                                         .help = text,                                                                 \
                                         .input = {1, {64}},                                                           \
                                         .vocabulary = 128,                                                            \
                                         .classes = 128,                                                               \
                                         .blocks = (const int[]){__VA_ARGS__, 1},                                      \
                                         .build = build_language_model};

CLASSIFIER(transformer, "transformer", "a classifier of sequences: a transformer of 2 layers x 64, 4 heads", 2, 64, 4)
LANGUAGE_MODEL(transformer_lm, "transformer-lm", "a language model: a causal transformer of 6 layers x 256, 8 heads", 6,
               256, 8)
LANGUAGE_MODEL(transformer_lm_mini, "transformer-lm-mini", "the same of 2 layers x 64, 4 heads", 2, 64, 4)
