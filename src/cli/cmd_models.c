#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

// Three digits or so: "30941", "68.0", "0.02".
static const char *amount(double x, char text[16]) {
    snprintf(text, 16, x >= 100 ? "%.0f" : x >= 1 ? "%.1f" : "%.2f", x);
    return text;
}

// "resnet50v2           25,613,800  224x224x3 1000   6957   68.0  76.0  Keras's ResNet50V2"
static ls_status print_model(const ls_model_info *model, int width) {
    char count[32], shape[LS_INPUT_TEXT], top1[16] = "", flops[16], bytes[16], left[128];
    ls_graph *graph;
    LS_TRY(ls_model_create(model->name, (ls_shape){0}, 0, &graph));
    ls_cost cost = ls_graph_cost(graph);
    if (model->imagenet_top1 > 0) snprintf(top1, sizeof top1, "%.1f", model->imagenet_top1);
    int n =
        snprintf(left, sizeof left, "%-19s %11s  %-9s %4d %6s %6s %5s", model->name,
                 cli_count(ls_graph_parameter_count(graph), count), cli_input_text(model->input, shape), model->classes,
                 amount(1e-6 * cost.flops, flops), amount(4e-6 * (double)cost.activations, bytes), top1);
    ls_graph_destroy(&graph);
    ls_print_entry(stdout, left, n + 2, width, model->help);
    return LS_OK;
}

typedef struct settings {
    const char *export, *input_shape;
    int image_size;
} settings;

static const ls_option table[] = {
    {"export", LS_OPTION_TEXT, .offset = offsetof(settings, export), .metavar = "NAME", .initial = "none: list them",
     .group = "Output",
     .help = "print this network as text, which train and the others read again from a file that ends in .net"},
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(settings, input_shape), .metavar = "HxWxC",
     .initial = "the network's own", .group = "Network", .help = "with --export: the shape of a sample"},
    {"image-size", LS_OPTION_INT, .offset = offsetof(settings, image_size), .metavar = "N", .min = 1, .max = 65536,
     .initial = "the network's own", .group = "Network", .help = "with --export: images of N x N"},
    {.name = NULL},
};

static ls_status export_model(const settings *set, const ls_model_config *config) {
    ls_model_config c = *config;
    char *text = NULL;
    LS_TRY(cli_model_shape(set->export, set->input_shape, set->image_size, &c.input));
    LS_TRY(ls_model_text(set->export, &c, &text));
    int failed = fputs(text, stdout) < 0;
    free(text);
    return failed ? LS_FAIL(LS_STATUS_IO, "cannot write the network to the standard output") : LS_OK;
}

static void help(const ls_option_set *options) {
    printf(
        "Usage: lockstep models [--export NAME]\n\n"
        "Lists the networks that 'lockstep train', 'bench', 'scale' and 'summary' know, with their parameters as "
        "they\n"
        "are by default: for samples of this shape and so many classes. Training takes both from the dataset.\n\n"
        "Cls     classes\n"
        "MFLOP   of a sample's forward pass, additions and multiplications each counting as one\n"
        "MB      that a sample's layers give in fp32, most of which training keeps; 'lockstep plan' knows better\n"
        "Top-1   accuracy on ImageNet, as published with the weights of the network it is the same as\n");
    ls_options_help(stdout, options, cli_help_width());
}

static ls_status run(cli *c, int argc, char **argv) {
    settings set = {.export = NULL};
    ls_model_config config;
    ls_words words;
    ls_model_config_init(&config);
    const ls_option_set options[] = {{table, &set}, {ls_model_options(), &config}, {NULL, NULL}};
    LS_TRY(ls_options_parse(options, argc, argv, 0, &words));
    if (words.help) {
        help(options);
        return LS_OK;
    }
    if (set.export) return export_model(&set, &config);
    printf("%-19s %11s  %-9s %4s %6s %6s %5s  %s\n", "Network", "Parameters", "Input", "Cls", "MFLOP", "MB", "Top-1",
           "What it is");
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++) LS_TRY(print_model(&m, cli_help_width()));
    return LS_OK;
}

const cli_command cli_command_models = {"models", "list the networks there are, or print one as text", run};
