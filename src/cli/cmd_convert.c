// lockstep convert: a dataset in another format.
#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli/cli.h"

typedef ls_convert_config settings;

static const ls_option table[] = {
    {"shards", LS_OPTION_INT, .offset = offsetof(settings, shards), .metavar = "N", .min = 1, .max = 1024,
     .group = "Data",
     .help = "write the training set to N files, one after the other, as train-00003-of-00016.tar for tar:train.tar"},
    {"resize", LS_OPTION_INT, .offset = offsetof(settings, resize), .metavar = "N", .min = 1, .max = 4096,
     .group = "Images", .initial = "as they are", .help = "make the shorter side of all images N pixels"},
    {"image-size", LS_OPTION_INT, .offset = offsetof(settings, image_size), .metavar = "N", .min = 1, .max = 4096,
     .group = "Images", .initial = "as they are", .help = "make all images N x N pixels, as arrays want it"},
    {"quality", LS_OPTION_INT, .offset = offsetof(settings, quality), .metavar = "Q", .min = 1, .max = 100,
     .group = "Images", .initial = "95 for JPEG files that are resized",
     .help = "write all images as JPEG files of this quality"},
    {"pixels", LS_OPTION_FLAG, .offset = offsetof(settings, pixels), .group = "Images",
     .help = "write pixels that are not encoded: for lmdb:DIR; hdf5 and numpy always have them"},
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "W", .min = 1, .max = 256,
     .group = "Data", .initial = "1",
     .help = "threads that read, decode and encode; the files are the same with any number"},
    {.name = NULL},
};

static ls_status convert(cli *c, const char *from, const char *to, const settings *set) {
    ls_dataset *dataset;
    char a[32], b[32];
    c->stage = CLI_STAGE_TOGETHER;
    double start = ls_clock();
    LS_TRY(ls_context_create_alone(&c->context));
    LS_TRY(ls_dataset_open(c->context, from, &dataset));
    ls_status status = ls_dataset_convert(dataset, to, set);
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
        printf("Usage: lockstep convert SPEC FORMAT:PATH[,test=PATH] [OPTIONS]\n\n");
        ls_print_entry(stdout, "", 0, cli_help_width(),
                       "Writes a dataset in another format: images:DIR, tar:FILE, tfrecord:FILE, recordio:FILE, "
                       "lmdb:DIR, hdf5:FILE[,layout=caffe], numpy:FILE.npz. Files of images "
                       "are copied as they are, other images become PNG, where no option says otherwise; the samples "
                       "keep their order, so that training on "
                       "either gives the same weights then. 'lockstep datasets' lists what SPEC may be.");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    if (words.count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s Usage: lockstep convert SPEC FORMAT:PATH[,test=PATH]",
                       words.count ? "into what?" : "which dataset, and into what?");
    return convert(c, words.word[0], words.word[1], &set);
}

const cli_command cli_command_convert = {"convert", "write a dataset in another format", run};
