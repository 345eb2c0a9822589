// lockstep export: a trained network for other programs.
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "cli/trained.h"

typedef struct settings {
    const char *model, *data, *input_shape;
} settings;

static const ls_option table[] = {
    {"model", LS_OPTION_TEXT, .offset = offsetof(settings, model), .metavar = "MODEL", .group = "Network",
     .initial = "the recipe's", .help = "the network that the weights are of, for a file of weights alone"},
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Network",
     .initial = "the recipe's", .help = "the dataset whose samples and classes the network has"},
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(settings, input_shape), .metavar = "HxWxC", .group = "Network",
     .initial = "as it was trained", .help = "the shape of a sample, in place of a dataset"},
    {.name = NULL},
};

typedef struct exporting {
    settings set;
    cli_trained trained;
    ls_option_set options[6];
    ls_words words;
    ls_dataset *dataset;
    ls_graph *graph;
    ls_predictor *predictor;
} exporting;

static void defaults(exporting *e) {
    e->set = (settings){.model = NULL};
    cli_trained_init(&e->trained);
    const ls_option_set options[] = {{table, &e->set}, {ls_model_options(), &e->trained.network}, {NULL, NULL}};
    memcpy(e->options, options, sizeof options);
}

static ls_status read_options(exporting *e, int argc, char **argv) {
    static const char usage[] = "Usage: lockstep export CHECKPOINT FILE.onnx";
    defaults(e);
    LS_TRY(ls_options_parse(e->options, argc, argv, 2, &e->words));
    if (e->words.help) return LS_OK;
    if (e->words.count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s %s", e->words.count ? "into which file?" : "which network?",
                       usage);
    const char *ending = strrchr(e->words.word[1], '.');
    if (!ending || strcmp(ending, ".onnx") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s does not end in .onnx, the format there is. %s",
                       e->words.word[1], usage);
    defaults(e);
    LS_TRY(cli_trained_open(&e->trained, e->words.word[0]));
    LS_TRY(ls_options_parse(e->options, argc, argv, 2, &e->words));
    return cli_trained_names(&e->trained, e->set.model, e->set.data);
}

static ls_status weights_of(void *user, const char *parameter, float *values, int64_t count) {
    return ls_predictor_get_weights(user, parameter, values, count);
}

static ls_status export(exporting *e, cli *c) {
    cli_trained *t = &e->trained;
    ls_predict_config config;
    LS_TRY(cli_trained_fit(t, c, e->set.input_shape, e->set.data != NULL, &e->dataset));
    LS_TRY(ls_model_build(t->model, &t->network, &e->graph));
    ls_predict_config_init(&config);
    config.batch = 1;
    LS_TRY(ls_predictor_create(e->graph, &config, &e->predictor));
    if (!t->whole) LS_TRY(ls_predictor_load_weights(e->predictor, t->saved.weights));
    return ls_onnx_write(e->graph, e->words.word[1], weights_of, e->predictor);
}

static ls_status run(cli *c, int argc, char **argv) {
    exporting e = {.graph = NULL};
    c->stage = CLI_STAGE_TOGETHER;
    ls_status status = read_options(&e, argc, argv);
    if (status == LS_OK && e.words.help) {
        printf("Usage: lockstep export CHECKPOINT FILE.onnx [OPTIONS]\n\n");
        ls_print_entry(stdout, "", 0, cli_help_width(),
                       "Writes a trained network as a model of ONNX, with its weights in fp32, for ONNX Runtime and "
                       "other programs. CHECKPOINT is a checkpoint, a folder of checkpoints, of which the newest "
                       "counts, or a file of weights, which takes --model.");
        ls_options_help(stdout, e.options, cli_help_width());
    } else if (status == LS_OK) {
        status = export(&e, c);
        if (status == LS_OK) cli_say("%s: %s", e.words.word[1], ls_graph_name(e.graph));
    }
    ls_predictor_destroy(&e.predictor);
    ls_graph_destroy(&e.graph);
    ls_dataset_destroy(&e.dataset);
    cli_trained_close(&e.trained);
    return status;
}

const cli_command cli_command_export = {"export", "write a trained network as a model of ONNX", run};
