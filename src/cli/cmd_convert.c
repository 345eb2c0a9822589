// lockstep convert: a dataset in another format.
#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"

typedef struct settings {
    int shards;
} settings;

static const ls_option table[] = {
    {"shards", LS_OPTION_INT, .offset = offsetof(settings, shards), .metavar = "N", .min = 1, .max = 1024,
     .group = "Data",
     .help = "write the training set to N files, one after the other, as train-00003-of-00016.tar for tar:train.tar"},
    {.name = NULL},
};

static ls_status convert(cli *c, const char *from, const char *to, const settings *set) {
    ls_dataset *dataset;
    char a[32], b[32];
    c->stage = CLI_STAGE_TOGETHER;
    double start = ls_clock();
    LS_TRY(ls_context_create_alone(&c->context));
    LS_TRY(ls_dataset_open(c->context, from, &dataset));
    ls_status status = ls_dataset_convert(dataset, to, set->shards);
    if (status == LS_OK)
        cli_say("%s: %s and %s samples written in %.1f s", to, cli_count(ls_dataset_train_count(dataset), a),
                cli_count(ls_dataset_test_count(dataset), b), ls_clock() - start);
    ls_dataset_destroy(&dataset);
    return status;
}

static ls_status run(cli *c, int argc, char **argv) {
    settings set = {.shards = 1};
    const ls_option_set options[] = {{table, &set}, {NULL, NULL}};
    ls_words words;
    LS_TRY(ls_options_parse(options, argc, argv, 2, &words));
    if (words.help) {
        printf("Usage: lockstep convert SPEC FORMAT:PATH[,test=PATH] [--shards N]\n\n");
        ls_print_entry(
            stdout, "", 0, cli_help_width(),
            "Writes a dataset in another format: images:DIR, tar:FILE, tfrecord:FILE, recordio:FILE. Files of images "
            "are copied as they are, other images become PNG; the samples keep their order, so that training on "
            "either gives the same weights. 'lockstep datasets' lists what SPEC may be.");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    if (words.count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s Usage: lockstep convert SPEC FORMAT:PATH[,test=PATH]",
                       words.count ? "into what?" : "which dataset, and into what?");
    return convert(c, words.word[0], words.word[1], &set);
}

const cli_command cli_command_convert = {"convert", "write a dataset in another format", run};
