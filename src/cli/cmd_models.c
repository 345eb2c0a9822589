#include "base/error.h"
#include "cli/cli.h"
#include "models/models.h"

static ls_status run(cli *c, int argc, char **argv) {
    ls_words words;
    LS_TRY(ls_options_parse(&(ls_option_set){.table = NULL}, argc, argv, 0, &words));
    if (words.help) {
        printf("Usage: lockstep models\n\nLists the networks that 'lockstep train' and 'lockstep summary' know.\n");
        return LS_OK;
    }
    for (const ls_model *const *m = ls_models(); *m; m++)
        ls_print_entry(stdout, (*m)->name, 18, cli_help_width(), (*m)->help);
    return LS_OK;
}

const cli_command cli_command_models = {"models", "list the networks there are", run};
