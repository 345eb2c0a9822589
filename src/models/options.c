// What can be asked of a built-in network besides its name, and what that means for its last layers.
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "models/models.h"

void ls_model_config_init(ls_model_config *c) {
    if (!c) return;
    *c = (ls_model_config){.include_top = 1, .pooling = "none", .classifier_activation = "softmax"};
}

#define AT(member) .offset = offsetof(ls_model_config, member)
#define NETWORK    .group = "Network"

static const ls_option table[] = {
    {"classes", LS_OPTION_INT, AT(classes), .metavar = "N", .min = 1, NETWORK,
     .initial = "the dataset's where there is one, else the network's own",
     .help = "how many classes the network tells apart"},
    {"vocabulary", LS_OPTION_INT, AT(vocabulary), .metavar = "N", .min = 1, .max = 16777216, NETWORK,
     .initial = "the dataset's where there is one, else the network's own",
     .help = "of a network of sequences: how many tokens there are"},
    {"top", LS_OPTION_FLAG, AT(include_top), NETWORK,
     .help = "without the classifier (Keras's include_top=False): features to look at, which cannot be trained"},
    {"pooling", LS_OPTION_TEXT, AT(pooling), .metavar = "none|avg|max", NETWORK,
     .help = "with --no-top: pool the features over the image"},
    {"classifier-activation", LS_OPTION_TEXT, AT(classifier_activation), .metavar = "softmax|none", NETWORK,
     .help = "Keras's argument; the same network either way: it ends in logits, and the loss has the softmax"},
    {"batch-norm-momentum", LS_OPTION_REAL, AT(batch_norm_momentum), .metavar = "X", .max = 1, NETWORK,
     .initial = "the network's own, from 0.9 to 0.999",
     .help = "how much of the moving mean and variance a step leaves; a short run wants less, as 0.9"},
    {"freeze", LS_OPTION_TEXT, AT(freeze), .metavar = "PATTERNS", NETWORK, .initial = "none",
     .help =
         "do not train the weights whose names match, as 'conv[1-4]*': patterns of file names, with commas between"},
    {"lr-scale", LS_OPTION_TEXT, AT(lr_scale), .metavar = "PATTERN=X,...", NETWORK, .initial = "none",
     .help = "multiply the learning rate of the weights whose names match: 'head*=10', 'conv*=0.1,bn*=0.1'"},
    {"decay-scale", LS_OPTION_TEXT, AT(decay_scale), .metavar = "PATTERN=X,...", NETWORK, .initial = "none",
     .help = "the same of their weight decay, which goes with their learning rate, too: '*beta=0'"},
    {.name = NULL},
};

const ls_option *ls_model_options(void) { return table; }

ls_value ls__model_top(ls_graph *g, ls_value x, const ls_model_config *config, const char *classifier) {
    if (config->include_top) {
        x = ls_global_average_pool2d(g, x, "avg_pool");
        return ls_dense(g, x, &(ls_dense_attrs){.name = classifier, .units = config->classes});
    }
    return ls__model_pooled(g, x, config, "avg_pool", "max_pool");
}

ls_value ls__model_pooled(ls_graph *g, ls_value x, const ls_model_config *config, const char *avg, const char *max) {
    if (strcmp(config->pooling, "avg") == 0) return ls_global_average_pool2d(g, x, avg);
    if (strcmp(config->pooling, "max") == 0) return ls_global_max_pool2d(g, x, max);
    return x;
}

ls_shape ls__model_shape(const ls_graph *g, ls_value x) {
    return x == LS_NO_VALUE ? (ls_shape){0} : ls__value_type(g, x)->shape;
}

void ls__model_correct_pad(const ls_graph *g, ls_value x, int kernel, int padding[2][2]) {
    ls_shape shape = ls__model_shape(g, x);
    for (int i = 0; i < 2; i++) {
        padding[i][0] = kernel / 2 - (shape.dim[i] % 2 == 0);
        padding[i][1] = kernel / 2;
    }
}

const char *ls__layer_name(char buffer[LS_LAYER_NAME], const char *block, const char *part) {
    snprintf(buffer, LS_LAYER_NAME, "%s%s", block, part);
    return buffer;
}
