#include "base/error.h"
#include "cli/cli.h"
#include "data/dataset.h"

static ls_status run(cli *c, int argc, char **argv) {
    ls_words words;
    LS_TRY(ls_options_parse(&(ls_option_set){.table = NULL}, argc, argv, 0, &words));
    if (words.help) {
        printf("Usage: lockstep datasets\n\nLists what --data of 'lockstep train' takes.\n");
        return LS_OK;
    }
    for (const ls_format *const *f = ls_formats(); *f; f++) {
        char left[96];
        snprintf(left, sizeof left, "%s%s%s", (*f)->name, (*f)->argument ? ":" : "",
                 (*f)->argument ? (*f)->argument : "");
        ls_print_entry(stdout, left, 22, cli_help_width(), (*f)->help);
    }
    return LS_OK;
}

const cli_command cli_command_datasets = {"datasets", "list the datasets there are", run};
