// The built-in networks. A new one is a file ending in its descriptor, or a line in the file of its family, and one line in
// list.c.
#ifndef LS_MODELS_MODELS_H
#define LS_MODELS_MODELS_H

#include <lockstep/graph.h>

typedef struct ls_model ls_model;

struct ls_model {
    const char *name, *help;
    ls_shape input;        // of one sample, unless the caller says otherwise
    int classes;           // the same; of a language model as many as its vocabulary
    int vocabulary;        // above 0: it takes sequences (T) of tokens, of which there are so many; 0: floating samples
    int least_side;        // of images: smaller ones are refused; 0: whatever its layers take
    int divides;           // what divides the sides of its images or clips; 0: whatever does
    int has_features;      // 1: it can be built without its classifier (ls__model_top, ls__model_pooled)
    double imagenet_top1;  // published, of the weights of who it is the same as, in per cent; 0: none are
    const int *blocks;     // of a family of networks: what tells its members apart
    // Adds the layers to `graph` and returns the logits, or the features. `config` is checked, its classes are resolved.
    ls_value (*build)(const ls_model *model, ls_graph *graph, ls_value x, const ls_model_config *config);
};

const ls_model *const *ls_models(void);  // NULL-terminated

// The end of a network of images: average pooling avg_pool and a dense layer `classifier`; without the top only what pooling
// is asked for, as in Keras's applications.
ls_value ls__model_top(ls_graph *graph, ls_value x, const ls_model_config *config, const char *classifier);

// The end of a network without its classifier, as a part of the former: what pooling is asked for, under these names (NULL: automatic).
ls_value ls__model_pooled(ls_graph *graph, ls_value x, const ls_model_config *config, const char *avg, const char *max);

// The end of a language model: "predictions", scores (T, classes) of x (T, C), an input "targets" (T), and loss, accuracy and
// perplexity of both. Returns the scores.
ls_value ls__model_language(ls_graph *graph, ls_value x, const ls_model_config *config);

// The shape of a sample of what a layer computes; of no shape where building has failed.
ls_shape ls__model_shape(const ls_graph *graph, ls_value x);
// Keras's correct_pad: {top, bottom}, {left, right} of zeros before a valid kernel of stride 2.
void ls__model_correct_pad(const ls_graph *graph, ls_value x, int kernel, int padding[2][2]);

// The momentum of its batch normalizations: what is asked for, else the network's own.
static inline float ls__model_momentum(const ls_model_config *config, float own) {
    return config->batch_norm_momentum > 0 && config->batch_norm_momentum < 1 ? (float)config->batch_norm_momentum
                                                                              : own;
}

// What any network's options are of: classes, pooling, activation. Errors: INVALID_ARGUMENT.
ls_status ls__model_check_words(const char *name, const ls_model_config *config);

// Freezes parameters, scales learning rates and weight decay as the options ask. Errors: INVALID_ARGUMENT, NOT_FOUND (nothing matches).
ls_status ls__model_set_training(ls_graph *graph, const ls_model_config *config);

// A layer's name out of its block's and its own: "conv2_block1" and "_1_conv". Returns the buffer.
#define LS_LAYER_NAME 64
const char *ls__layer_name(char buffer[LS_LAYER_NAME], const char *block, const char *part);

#endif
