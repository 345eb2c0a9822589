#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"
#include "graph/summary.h"

static ls_status run(cli *c, int argc, char **argv) {
    ls_words words;
    LS_TRY(ls_options_parse(&(ls_option_set){.table = NULL}, argc, argv, 1, &words));
    if (words.help) {
        printf(
            "Usage: lockstep summary MODEL\n\n"
            "Prints the layers of a network, their output shapes and their parameter counts.\n"
            "'lockstep models' lists the networks.\n");
        return LS_OK;
    }
    if (words.count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which model? Usage: lockstep summary MODEL; 'lockstep models' lists them");
    ls_graph *graph;
    char *text = NULL;
    LS_TRY(ls_model_create(words.word[0], (ls_shape){0}, 0, &graph));
    ls_status status = ls_graph_summary(graph, &text);
    if (status == LS_OK) fputs(text, stdout);
    free(text);
    ls_graph_destroy(&graph);
    return status;
}

const cli_command cli_command_summary = {"summary", "print the layers of a network and their parameters", run};
