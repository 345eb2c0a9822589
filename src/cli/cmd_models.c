#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

// "resnet50v2      25,613,800  224x224x3    1000  Keras's ResNet50V2"
static ls_status print_model(const ls_model_info *model, int width) {
    char count[32], shape[LS_INPUT_TEXT], left[96];
    ls_graph *graph;
    LS_TRY(ls_model_create(model->name, (ls_shape){0}, 0, &graph));
    int n = snprintf(left, sizeof left, "%-13s %11s  %-9s %7d", model->name,
                     cli_count(ls_graph_parameter_count(graph), count), cli_input_text(model->input, shape),
                     model->classes);
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
            "are by default: for samples of this shape and so many classes. Training takes both from the dataset.\n");
        return LS_OK;
    }
    printf("%-13s %11s  %-9s %7s  %s\n", "Network", "Parameters", "Input", "Classes", "What it is");
    ls_model_info m;
    for (int i = 0; (m = ls_model_at(i)).name; i++) LS_TRY(print_model(&m, cli_help_width()));
    return LS_OK;
}

const cli_command cli_command_models = {"models", "list the networks there are", run};
