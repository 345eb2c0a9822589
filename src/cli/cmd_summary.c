#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"

typedef struct settings {
    const char *input_shape;
    int image_size;
} settings;

static const ls_option table[] = {
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(settings, input_shape), .metavar = "HxWxC",
     .initial = "the network's own", .group = "Network", .help = "the shape of a sample"},
    {"image-size", LS_OPTION_INT, .offset = offsetof(settings, image_size), .metavar = "N", .min = 1, .max = 65536,
     .initial = "the network's own", .group = "Network", .help = "images of N x N"},
    {.name = NULL},
};

static ls_status print_summary(const char *model, const ls_model_config *config, const settings *set) {
    ls_graph *graph;
    char *text = NULL;
    LS_TRY(cli_model_build(model, config, set->input_shape, set->image_size, &graph));
    ls_status status = ls_graph_summary(graph, &text);
    if (status == LS_OK) fputs(text, stdout);
    free(text);
    ls_graph_destroy(&graph);
    return status;
}

static ls_status run(cli *c, int argc, char **argv) {
    settings set = {.input_shape = NULL};
    ls_model_config config;
    ls_words words;
    ls_model_config_init(&config);
    const ls_option_set options[] = {{table, &set}, {ls_model_options(), &config}, {NULL, NULL}};
    LS_TRY(ls_options_parse(options, argc, argv, 1, &words));
    if (words.help) {
        printf(
            "Usage: lockstep summary MODEL [OPTIONS]\n\n"
            "Prints the layers of a network, their output shapes and their parameter counts.\n"
            "'lockstep models' lists the networks.\n");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    if (words.count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which model? Usage: lockstep summary MODEL; 'lockstep models' lists them");
    return print_summary(words.word[0], &config, &set);
}

const cli_command cli_command_summary = {"summary", "print the layers of a network and their parameters", run};
