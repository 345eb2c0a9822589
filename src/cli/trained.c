#include "cli/trained.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "report/record.h"

void cli_trained_init(cli_trained *t) {
    *t = (cli_trained){.model = NULL};
    ls_train_config_init(&t->config);
    ls_model_config_init(&t->network);
}

ls_status cli_trained_open(cli_trained *t, const char *path) {
    const ls_option_set options[] = {{ls_train_options(), &t->config},
                                     {ls_model_options(), &t->network},
                                     {cli_train_options(), &t->train},
                                     {NULL, NULL}};
    LS_TRY(cli_saved_open(path, &t->saved));
    if (!t->saved.folder) {
        t->whole = ls_model_is_file(path);
        if (t->whole) t->model = t->saved.weights;
        return LS_OK;
    }
    if (!json_is_object(cli_saved_recipe(&t->saved)))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s/state.json has no \"recipe\", by which its network could be built",
                       t->saved.folder);
    char where[4096];
    snprintf(where, sizeof where, "%s/state.json: the recipe", t->saved.folder);
    LS_TRY(ls_config_take(where, cli_saved_recipe(&t->saved), options, &t->model, &t->keep));
    t->data = t->train.data;
    return LS_OK;
}

void cli_trained_close(cli_trained *t) {
    if (t->keep) ls_config_free(&t->keep);
    cli_saved_close(&t->saved);
}

const ls_option *cli_trained_hidden(void) {
    static const ls_option hidden[] = {
        {.name = "classifier-activation"},
        {.name = "epochs"},
        {.name = "batch-size"},
        {.name = "limit-train"},
        {.name = "limit-test"},
        {.name = "evaluate"},
        {.name = "validate"},
        {.name = "remat"},
        {.name = "augment"},
        {.name = "strategy"},
        {.name = "servers"},
        {.name = "async"},
        {.name = "staleness"},
        {.name = "delay-compensation"},
        {.name = "push-log"},
        {.name = "replay"},
        {.name = "slow"},
        {.name = "compress"},
        {.name = "algorithm"},
        {.name = "tune"},
        {.name = "bucket-size"},
        {.name = "cache"},
        {.name = "cache-decoded"},
        {.name = "early-forward"},
        {.name = "comm-cores"},
        {.name = "optimizer"},
        {.name = "momentum"},
        {.name = "nesterov"},
        {.name = "weight-decay"},
        {.name = "l2"},
        {.name = "decay-biases"},
        {.name = "clip-norm"},
        {.name = "lookahead"},
        {.name = "lookahead-step"},
        {.name = "lookahead-power"},
        {.name = NULL},
    };
    return hidden;
}

#define AT(member) .offset = offsetof(ls_train_config, member), .initial = "the recipe's"

const ls_option *cli_trained_options(void) {
    static const ls_option table[] = {
        {"image-size", LS_OPTION_INT, AT(image_size), .metavar = "N", .min = 1, .max = 4096, .group = "Network",
         .help = "the size that images are resized to, N x N pixels"},
        {"resize", LS_OPTION_INT, AT(resize), .metavar = "N", .max = 4096, .group = "Network",
         .help = "bring the shorter side of images to N pixels first, and cut --image-size out of the middle"},
        {"interpolation", LS_OPTION_TEXT, AT(interpolation), .metavar = "NAME", .group = "Network",
         .help = "how images are resized, as train has it"},
        {"normalize", LS_OPTION_TEXT, AT(normalize), .metavar = "unit|symmetric|dataset|none", .group = "Network",
         .help = "what the pixels 0 to 255 become, as train has it"},
        {"mean", LS_OPTION_TEXT, AT(mean), .metavar = "A,B,C", .group = "Network",
         .help = "(pixel - mean) / std * scale in place of --normalize, as train has it"},
        {"std", LS_OPTION_TEXT, AT(std), .metavar = "A,B,C", .group = "Network", .help = "as train has it"},
        {"scale", LS_OPTION_REAL, AT(scale), .metavar = "X", .max = 1e6, .group = "Network", .help = "as train has it"},
        {"channel-order", LS_OPTION_TEXT, AT(channel_order), .metavar = "rgb|bgr", .group = "Network",
         .help = "the order in which the network gets the channels"},
        {"precision", LS_OPTION_TEXT, AT(precision), .metavar = "fp32|bf16|fp16", .group = "Network",
         .help = "type of activations and working weights"},
        {.name = NULL},
    };
    return table;
}

// What to say where a file of weights alone was named: it mostly tells its network's name.
static ls_status which_model(const cli_trained *t) {
    ls_weights_file *file;
    char name[128] = "";
    LS_TRY(ls_weights_file_open(t->saved.weights, &file));
    snprintf(name, sizeof name, "%s", file->model ? file->model : "");
    ls_weights_file_close(&file);
    ls_text_clean(name);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has weights alone: --model names the network%s%s", t->saved.weights,
                   name[0] ? ", which it says is " : "; 'lockstep models' lists them", name);
}

ls_status cli_trained_names(cli_trained *t, const char *model, const char *data) {
    if (model) t->model = model;
    if (data) t->data = data;
    if (!t->model && !t->saved.folder) return which_model(t);
    if (!t->model)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the recipe of %s names no model: --model does", t->saved.folder);
    return cli_model_check(t->model, &t->network);
}

ls_status cli_trained_check_classes(const cli_trained *t, const ls_dataset *dataset) {
    const json_t *names = json_object_get(t->saved.state, "class_names");
    const char *there;
    int targets = ls_dataset_targets(dataset) > 0, labels = ls_dataset_labels(dataset) > 0;
    for (int c = 0; (there = ls_dataset_class(dataset, c)); c++) {
        const char *trained = json_string_value(json_array_get(names, (size_t)c));
        if (!trained || strcmp(trained, there) == 0) continue;
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s %d is %s in the checkpoint and %s in %s: %s",
                       targets  ? "target"
                       : labels ? "label"
                                : "class",
                       c, trained, there, t->data,
                       targets ? "name this table as the test set behind that of training, csv:FILE,test=FILE, or give "
                                 "its columns the order that they had there"
                       : labels ? "names=FILE behind csv:FILE names the labels in the order that they had in training"
                                : "the classes are numbered in the order of their names: give this data those of the "
                                  "training set, all of them, or name it as the test set behind that of training");
    }
    return LS_OK;
}

// --- its shape -------------------------------------------------------------------------------------------------------

int cli_trained_told(const cli_trained *t, const char *key, int count, double *out) {
    const json_t *list = json_object_get(t->saved.state, key);
    if ((int)json_array_size(list) != count) return 0;
    for (int i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!(fabs(out[i]) < 1e6)) return 0;
    }
    return 1;
}

ls_status cli_trained_dataset(cli_trained *t, cli *c, ls_dataset **dataset) {
    if (*dataset) return LS_OK;
    if (!t->data)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "what the network was trained on is not told: --data names the dataset, or --input-shape the shape");
    if (!c->context) LS_TRY(ls_context_create_alone(&c->context));
    const char **columns = cli_saved_columns(&t->saved);
    ls_status status = ls_dataset_open_columns(c->context, t->data, columns, dataset);
    free(columns);
    if (status == LS_OK) return cli_trained_check_classes(t, *dataset);
    return ls__fail_context(
        status, "the dataset it was trained on, without which --input-shape and --classes are to be told: ");
}

ls_status cli_trained_fit(cli_trained *t, cli *c, const char *input_shape, int other, ls_dataset **dataset) {
    double image[3], classes;
    const json_t *number = json_object_get(t->saved.state, "classes");
    classes = json_is_integer(number) ? (double)json_integer_value(number) : 0;
    if (!t->network.classes && classes >= 1 && classes < 1e9 && !other) t->network.classes = (int)classes;
    if (input_shape) return cli_model_input(t->model, input_shape, &t->network.input);
    if (t->whole) return LS_OK;  // it tells both itself
    if (!other && cli_trained_told(t, "image", 3, image) && t->network.classes) {
        t->network.input = LS_SHAPE((int64_t)image[0], (int64_t)image[1], (int64_t)image[2]);
        return LS_OK;
    }
    LS_TRY(cli_trained_dataset(t, c, dataset));
    ls_train_fit_model(&t->config, *dataset, &t->network);
    return LS_OK;
}

void cli_trained_describe(const cli_trained *t, char *text, size_t size) {
    char where[128];
    size_t used = 0;
    text[0] = 0;
    ls_text_add(text, size, &used, "%s", t->model);
    if (cli_saved_where(&t->saved, where, sizeof where)) ls_text_add(text, size, &used, " after %s", where);
    ls_text_add(text, size, &used, " (%s)", t->saved.folder ? t->saved.folder : t->saved.weights);
}
