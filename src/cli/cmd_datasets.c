#include "base/error.h"
#include "cli/cli.h"

static ls_status run(cli *c, int argc, char **argv) {
    ls_words words;
    LS_TRY(ls_options_parse(&(ls_option_set){.table = NULL}, argc, argv, 0, &words));
    if (words.help) {
        printf("Usage: lockstep datasets\n\nLists what --data of 'lockstep train' takes.\n");
        return LS_OK;
    }
    const char *name, *argument, *help;
    for (int i = 0; (name = ls_dataset_format(i, &argument, &help)); i++) {
        char left[96];
        snprintf(left, sizeof left, "%s%s%s", name, argument ? ":" : "", argument ? argument : "");
        ls_print_entry(stdout, left, 22, cli_help_width(), help);
    }
    return LS_OK;
}

const cli_command cli_command_datasets = {"datasets", "list the datasets there are", run};
