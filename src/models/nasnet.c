// NASNet-A (4 @ 1056) as Keras's applications have it: NASNetMobile. Layers are made in Keras's order, for some have automatic names.
//
// Source: Zoph, Vasudevan, Shlens, Le, "Learning transferable architectures for scalable image recognition", 2017, figure 4;
// keras/src/applications/nasnet.py.
#include <stdio.h>

#include "models/models.h"

enum { BLOCKS = 4, PENULTIMATE = 1056, STEM = 32 };

// A cell: `id` is the end of its layers' names.
typedef struct cell {
    ls_graph *g;
    const ls_model_config *config;
    const char *kind, *id;  // "normal" or "reduction"
    int filters;
} cell;

// The parts of a name with the cell's id behind them: "normal" and "_left3".
static const char *name_of(const cell *c, char buffer[LS_LAYER_NAME], const char *part, const char *more) {
    snprintf(buffer, LS_LAYER_NAME, "%s%s_%s", part, more, c->id);
    return buffer;
}

static ls_value norm(ls_graph *g, const ls_model_config *config, ls_value x, const char *name) {
    return ls_batch_norm(g, x, &(ls_batch_norm_attrs){.name = name, .momentum = ls__model_momentum(config, 0.9997f)});
}

static ls_value relu(const cell *c, ls_value x) { return ls_activate(c->g, x, LS_ACTIVATION_RELU, NULL); }

static ls_value conv_1x1(const cell *c, ls_value x, const char *name, int filters) {
    return ls_conv2d(c->g, x,
                     &(ls_conv2d_attrs){.name = name,
                                        .filters = filters,
                                        .kernel = {1, 1},
                                        .padding = LS_PADDING_SAME,
                                        .no_bias = 1,
                                        .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
}

static ls_value pad(const cell *c, ls_value x, const char *name, int kernel) {
    ls_zero_pad2d_attrs a = {.name = name};
    ls__model_correct_pad(c->g, x, kernel, a.padding);
    return ls_zero_pad2d(c->g, x, &a);
}

// Twice ReLU, separable convolution and normalization. `block`: "left1".
static ls_value separable(const cell *c, ls_value x, const char *block, int kernel, int stride) {
    for (int i = 1; i <= 2; i++, stride = 1) {
        char conv[LS_LAYER_NAME], padding[LS_LAYER_NAME], bn[LS_LAYER_NAME];
        snprintf(conv, sizeof conv, "separable_conv_%d_%s_%s_%s", i, c->kind, block, c->id);
        snprintf(padding, sizeof padding, "separable_conv_%d_pad_%s_%s_%s", i, c->kind, block, c->id);
        snprintf(bn, sizeof bn, "separable_conv_%d_bn_%s_%s_%s", i, c->kind, block, c->id);
        x = relu(c, x);
        if (stride > 1) x = pad(c, x, padding, kernel);
        x = ls_separable_conv2d(c->g, x,
                                &(ls_separable_conv2d_attrs){.name = conv,
                                                             .filters = c->filters,
                                                             .kernel = {kernel, kernel},
                                                             .strides = {stride, stride},
                                                             .padding = stride > 1 ? LS_PADDING_VALID : LS_PADDING_SAME,
                                                             .no_bias = 1});
        x = norm(c->g, c->config, x, bn);
    }
    return x;
}

static ls_value pool(const cell *c, ls_value x, int maximum, const char *block, int stride) {
    char name[LS_LAYER_NAME];
    ls_pool2d_attrs a = {.name = name_of(c, name, c->kind, block),
                         .size = {3, 3},
                         .strides = {stride, stride},
                         .padding = stride > 1 ? LS_PADDING_VALID : LS_PADDING_SAME};
    return maximum ? ls_max_pool2d(c->g, x, &a) : ls_average_pool2d(c->g, x, &a);
}

static ls_value add(const cell *c, ls_value a, ls_value b, const char *block) {
    char name[LS_LAYER_NAME];
    return ls_add(c->g, a, b, block ? name_of(c, name, c->kind, block) : NULL);
}

// Every second pixel of x, from the first one on.
static ls_value halve(const cell *c, ls_value x, int number) {
    char part[32], name[LS_LAYER_NAME];
    snprintf(part, sizeof part, "adjust_avg_pool_%d", number);
    x = ls_average_pool2d(c->g, x,
                          &(ls_pool2d_attrs){.name = name_of(c, name, part, ""), .size = {1, 1}, .strides = {2, 2}});
    snprintf(part, sizeof part, "adjust_conv_%d", number);
    return conv_1x1(c, x, name_of(c, name, part, ""), c->filters / 2);
}

// What comes from the cell before the last as large as what comes from the last, and with as many channels as this one's filters.
static ls_value adjust(const cell *c, ls_value before, ls_value x) {
    char name[LS_LAYER_NAME];
    if (before == LS_NO_VALUE) return x;
    ls_shape b = ls__model_shape(c->g, before), s = ls__model_shape(c->g, x);
    if (b.dim[1] != s.dim[1]) {
        ls_value half[2];
        before = ls_activate(c->g, before, LS_ACTIVATION_RELU, name_of(c, name, "adjust_relu_1", ""));
        half[0] = halve(c, before, 1);
        before = ls_zero_pad2d(c->g, before, &(ls_zero_pad2d_attrs){.padding = {{0, 1}, {0, 1}}});
        before = ls_cropping2d(c->g, before, &(ls_cropping2d_attrs){.cropping = {{1, 0}, {1, 0}}});
        half[1] = halve(c, before, 2);
        before = ls_concat(c->g, half, 2, NULL);
    } else if (b.dim[2] != c->filters) {
        before = conv_1x1(c, relu(c, before), name_of(c, name, "adjust_conv_projection", ""), c->filters);
    } else {
        return before;
    }
    return norm(c->g, c->config, before, name_of(c, name, "adjust_bn", ""));
}

static ls_value narrow(const cell *c, ls_value x) {
    char name[LS_LAYER_NAME];
    x = conv_1x1(c, relu(c, x), name_of(c, name, c->kind, "_conv_1"), c->filters);
    return norm(c->g, c->config, x, name_of(c, name, c->kind, "_bn_1"));
}

static ls_value normal_cell(const cell *c, ls_value x, ls_value p) {
    char name[LS_LAYER_NAME];
    ls_value all[6], left, right;
    all[0] = p = adjust(c, p, x);
    ls_value h = narrow(c, x);
    left = separable(c, h, "left1", 5, 1), right = separable(c, p, "right1", 3, 1);
    all[1] = add(c, left, right, "_add_1");
    left = separable(c, p, "left2", 5, 1), right = separable(c, p, "right2", 3, 1);
    all[2] = add(c, left, right, "_add_2");
    all[3] = add(c, pool(c, h, 0, "_left3", 1), p, "_add_3");
    left = pool(c, p, 0, "_left4", 1), right = pool(c, p, 0, "_right4", 1);
    all[4] = add(c, left, right, "_add_4");
    all[5] = add(c, separable(c, h, "left5", 3, 1), h, "_add_5");
    return ls_concat(c->g, all, 6, &(ls_concat_attrs){.name = name_of(c, name, c->kind, "_concat")});
}

static ls_value reduction_cell(const cell *c, ls_value x, ls_value p) {
    char name[LS_LAYER_NAME];
    ls_value all[4], left, right;
    p = adjust(c, p, x);
    ls_value h = narrow(c, x), padded = pad(c, h, name_of(c, name, c->kind, "_pad_1"), 3);
    left = separable(c, h, "left1", 5, 2), right = separable(c, p, "right1", 7, 2);
    ls_value first = add(c, left, right, "_add_1");
    left = pool(c, padded, 1, "_left2", 2), right = separable(c, p, "right2", 7, 2);
    all[0] = add(c, left, right, "_add_2");
    left = pool(c, padded, 0, "_left3", 2), right = separable(c, p, "right3", 5, 2);
    all[1] = add(c, left, right, "_add3");
    all[2] = add(c, all[0], pool(c, first, 0, "_left4", 1), NULL);
    left = separable(c, first, "left4", 3, 1), right = pool(c, padded, 1, "_right5", 2);
    all[3] = add(c, left, right, "_add4");
    return ls_concat(c->g, all, 4, &(ls_concat_attrs){.name = name_of(c, name, c->kind, "_concat")});
}

// What goes from cell to cell.
typedef struct flow {
    ls_graph *g;
    const ls_model_config *config;
    ls_value x, before;
} flow;

static void pass(flow *f, int reduces, const char *id, int filters) {
    const cell c = {f->g, f->config, reduces ? "reduction" : "normal", id, filters};
    ls_value y = (reduces ? reduction_cell : normal_cell)(&c, f->x, f->before);
    f->before = f->x;
    f->x = y;
}

static ls_value build(const ls_model *model, ls_graph *g, ls_value x, const ls_model_config *config) {
    int filters = PENULTIMATE / 24;
    x = ls_conv2d(g, x,
                  &(ls_conv2d_attrs){.name = "stem_conv1",
                                     .filters = STEM,
                                     .kernel = {3, 3},
                                     .strides = {2, 2},
                                     .no_bias = 1,
                                     .kernel_initializer = LS_INITIALIZER_HE_NORMAL});
    flow f = {g, config, norm(g, config, x, "stem_bn1"), LS_NO_VALUE};
    pass(&f, 1, "stem_1", filters / 4);
    pass(&f, 1, "stem_2", filters / 2);
    for (int i = 0; i < 3; i++, filters *= 2) {
        char id[16];
        snprintf(id, sizeof id, "reduce_%d", i * BLOCKS);
        if (i > 0) pass(&f, 1, id, filters);
        for (int j = 0; j < BLOCKS; j++) {
            snprintf(id, sizeof id, "%d", i * BLOCKS + (i > 0) + j);
            pass(&f, 0, id, filters);
        }
    }
    x = ls_activate(g, f.x, LS_ACTIVATION_RELU, NULL);
    if (!config->include_top) return ls__model_pooled(g, x, config, NULL, NULL);
    x = ls_global_average_pool2d(g, x, NULL);
    return ls_dense(g, x, &(ls_dense_attrs){.name = "predictions", .units = config->classes});
}

const ls_model ls__model_nasnetmobile = {
    .name = "nasnetmobile",
    .help = "Keras's NASNetMobile",
    .input = {3, {224, 224, 3}},
    .classes = 1000,
    .least_side = 32,
    .has_features = 1,
    .imagenet_top1 = 74.4,
    .build = build,
};
