// Recurrent networks over tokens: classifiers of sequences, whose token 0 is padding, read in both directions, and language models, which
// foretell each position's next token. Sources: Graves and Schmidhuber 2005 (both directions); Zaremba et al., "Recurrent neural network
// regularization", 2014 (the language model of stacked LSTMs).
#include "models/models.h"

enum { LAYERS, UNITS, GRU };

typedef ls_value (*recurrent_fn)(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs);

static ls_value embed(const ls_model *model, ls_graph *g, ls_value tokens, const ls_model_config *config) {
    return ls_embedding(
        g, tokens,
        &(ls_embedding_attrs){.name = "embedding", .rows = config->vocabulary, .width = model->blocks[UNITS]});
}

static ls_value build_classifier(const ls_model *model, ls_graph *g, ls_value tokens, const ls_model_config *config) {
    recurrent_fn recurrent = model->blocks[GRU] ? ls_gru : ls_lstm;
    ls_value x = embed(model, g, tokens, config), ways[2];
    for (int i = 0; i < 2; i++)
        ways[i] = recurrent(
            g, x, tokens,
            &(ls_recurrent_attrs){.name = i ? "backward" : "forward", .units = model->blocks[UNITS], .backwards = i});
    x = ls_concat(g, ways, 2, NULL);
    return ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = config->classes});
}

static ls_value build_language_model(const ls_model *model, ls_graph *g, ls_value tokens,
                                     const ls_model_config *config) {
    recurrent_fn recurrent = model->blocks[GRU] ? ls_gru : ls_lstm;
    ls_value x = embed(model, g, tokens, config);
    for (int i = 0; i < model->blocks[LAYERS]; i++)
        x = recurrent(g, x, LS_NO_VALUE, &(ls_recurrent_attrs){.units = model->blocks[UNITS], .return_sequences = 1});
    return ls__model_language(g, x, config);
}

#define NETWORK(symbol, title, text, kind, outputs, ...)                                                               \
    const ls_model ls__model_##symbol = {.name = title,                                                                \
                                         .help = text,                                                                 \
                                         .input = {1, {64}},                                                           \
                                         .vocabulary = 128,                                                            \
                                         .classes = outputs,                                                           \
                                         .blocks = (const int[]){__VA_ARGS__},                                         \
                                         .build = kind};

NETWORK(lstm, "lstm", "a classifier of sequences: an LSTM of 64 units in each direction", build_classifier, 10, 1, 64,
        0)
NETWORK(gru, "gru", "the same with gated recurrent units", build_classifier, 10, 1, 64, 1)
NETWORK(lstm_lm, "lstm-lm", "a language model: 2 LSTMs of 256 units", build_language_model, 128, 2, 256, 0)
NETWORK(lstm_lm_mini, "lstm-lm-mini", "the same, 1 of 64 units", build_language_model, 128, 1, 64, 0)
NETWORK(gru_lm, "gru-lm", "a language model: 2 GRUs of 256 units", build_language_model, 128, 2, 256, 1)
