#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

// Three digits or so: "30941", "68.0", "0.02".
static const char *amount(double x, char text[16]) {
    snprintf(text, 16, x >= 100 ? "%.0f" : x >= 1 ? "%.1f" : "%.2f", x);
    return text;
}

// "resnet50v2      25,613,800  224x224x3 1000   6957   68.0  76.0  Keras's ResNet50V2"
static ls_status print_model(const ls_model_info *model, int width) {
    char count[32], shape[LS_INPUT_TEXT], top1[16] = "", flops[16], bytes[16], left[128];
    ls_graph *graph;
    LS_TRY(ls_model_create(model->name, (ls_shape){0}, 0, &graph));
    ls_cost cost = ls_graph_cost(graph);
    if (model->imagenet_top1 > 0) snprintf(top1, sizeof top1, "%.1f", model->imagenet_top1);
    int n =
        snprintf(left, sizeof left, "%-14s %11s  %-9s %4d %6s %6s %5s", model->name,
                 cli_count(ls_graph_parameter_count(graph), count), cli_input_text(model->input, shape), model->classes,
                 amount(1e-6 * cost.flops, flops), amount(4e-6 * (double)cost.activations, bytes), top1);
    ls_graph_destroy(&graph);
    ls_print_entry(stdout, left, n + 2, width, model->help);
    return LS_OK;
}

static ls_status run(cli *c, int argc, char **argv) {
    ls_words words;
    LS_TRY(ls_options_parse(&(ls_option_set){.table = NULL}, argc, argv, 0, &words));
    if (words.help) {
        printf(
            "Usage: lockstep models\n\n"
            "Lists the networks that 'lockstep train', 'bench', 'scale' and 'summary' know, with their parameters as "
            "they\n"
            "are by default: for samples of this shape and so many classes. Training takes both from the dataset.\n\n"
            "Cls     classes\n"
            "MFLOP   of a sample's forward pass, additions and multiplications each counting as one\n"
            "MB      that a sample's layers give in fp32, most of which training keeps; 'lockstep plan' knows better\n"
            "Top-1   accuracy on ImageNet, as published with the weights of the network it is the same as\n");
        return LS_OK;
    }
    printf("%-14s %11s  %-9s %4s %6s %6s %5s  %s\n", "Network", "Parameters", "Input", "Cls", "MFLOP", "MB", "Top-1",
           "What it is");
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++) LS_TRY(print_model(&m, cli_help_width()));
    return LS_OK;
}

const cli_command cli_command_models = {"models", "list the networks there are", run};
