// lockstep predict: what a trained network takes images of files for.
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/predict.h"
#include "cli/trained.h"
#include "report/csv.h"

enum { BATCH = 32, MOST_CHANNELS = 3 };

typedef struct settings {
    const char *model, *data, *input_shape, *json, *csv;
    int top;
} settings;

static const ls_option table[] = {
    {"top", LS_OPTION_INT, .offset = offsetof(settings, top), .metavar = "K", .min = 1, .group = "Prediction",
     .help = "print the K classes, or labels, that are most likely"},
    {"model", LS_OPTION_TEXT, .offset = offsetof(settings, model), .metavar = "MODEL", .group = "Network",
     .initial = "the recipe's", .help = "the network that the weights are of, for a file of weights alone"},
    {"data", LS_OPTION_TEXT, .offset = offsetof(settings, data), .metavar = "SPEC", .group = "Network",
     .initial = "the recipe's",
     .help = "the dataset it was trained on, which has the shape of its images, their classes and, for --normalize "
             "dataset, "
             "their mean"},
    {"input-shape", LS_OPTION_TEXT, .offset = offsetof(settings, input_shape), .metavar = "HxWxC", .group = "Network",
     .initial = "the dataset's images, at --image-size",
     .help = "the shape of its input: then no dataset is opened for that"},
    {"json", LS_OPTION_TEXT, .offset = offsetof(settings, json), .metavar = "FILE", .group = "Output",
     .help = "write the predictions to FILE, as JSON"},
    {"csv", LS_OPTION_TEXT, .offset = offsetof(settings, csv), .metavar = "FILE", .group = "Output",
     .help = "write a line for each file and class to FILE, as CSV"},
    {.name = NULL},
};

// Options of train that evaluate has and this command has not.
static const ls_option hidden[] = {{.name = "micro-batch"},    {.name = "replicas"}, {.name = "bind"},
                                   {.name = "loader-threads"}, {.name = "tta"},      {.name = NULL}};

typedef struct prediction {
    settings set;
    cli_trained trained;
    ls_option_set options[8];
    const char **words;  // the checkpoint, then files and folders
    int word_count, help;
    predict_list list;
    ls_dataset *dataset;  // what it was trained on, where that is needed
    ls_graph *graph;
    ls_predictor *predictor;
    ls_shape shape;                                        // (H, W, C) of the network's input
    double mean[MOST_CHANNELS], deviation[MOST_CHANNELS];  // for --normalize dataset
    float *inputs, *scores;                                // (BATCH, H, W, C), (BATCH, classes)
    int classes, top;
    int targets;  // 1: outputs are numbers that were learned, in their order, and no probabilities
} prediction;

// --- the command line ------------------------------------------------------------------------------------------------

static void defaults(prediction *p) {
    p->set = (settings){.top = 5};
    cli_trained_init(&p->trained);
    const ls_option_set options[] = {{table, &p->set},
                                     {hidden, NULL},
                                     {cli_trained_options(), &p->trained.config},
                                     {cli_trained_hidden(), NULL},
                                     {cli_course_options(), NULL},
                                     {ls_train_options(), &p->trained.config},
                                     {ls_model_options(), &p->trained.network},
                                     {NULL, NULL}};
    memcpy(p->options, options, sizeof options);
}

static void help(const prediction *p) {
    printf("Usage: lockstep predict CHECKPOINT FILE|FOLDER|DATASET... [--top K] [OPTIONS]\n\n");
    ls_print_entry(stdout, "", 0, cli_help_width(),
                   "Tells what a trained network takes images for: PNG and JPEG files, and all of them in a folder. "
                   "They are resized and "
                   "normalized as the network's recipe says, and become grey or colour as it wants them. CHECKPOINT is "
                   "a checkpoint, a "
                   "folder of checkpoints, of which the newest counts, or a .safetensors file, which takes --model. "
                   "What cannot be read is "
                   "told, and the others are predicted; the exit status is then 1. A dataset, as "
                   "csv:new.csv,numbers=all, is predicted sample by sample.");
    ls_options_help(stdout, p->options, cli_help_width());
}

static ls_status read_options(prediction *p, int argc, char **argv) {
    defaults(p);
    LS_TRY(ls_calloc(argc + 1, sizeof *p->words, &p->words));
    LS_TRY(ls_options_parse_words(p->options, argc, argv, p->words, &p->word_count, &p->help));
    if (p->help) return LS_OK;
    if (p->word_count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s Usage: lockstep predict CHECKPOINT FILE|FOLDER|DATASET... [OPTIONS]",
                       p->word_count ? "which images?" : "which network, and which images?");
    defaults(p);
    LS_TRY(cli_trained_open(&p->trained, p->words[0]));
    LS_TRY(ls_options_parse_words(p->options, argc, argv, p->words, &p->word_count, &p->help));
    return cli_trained_names(&p->trained, p->set.model, p->set.data);
}

// --- the network -----------------------------------------------------------------------------------------------------

static ls_status find_channels(prediction *p, cli *c) {
    int channels = (int)p->shape.dim[2];
    if (strcmp(p->trained.config.normalize, "dataset") != 0) return LS_OK;
    if (!p->set.data && cli_trained_told(&p->trained, "channel_mean", channels, p->mean) &&
        cli_trained_told(&p->trained, "channel_deviation", channels, p->deviation))
        return LS_OK;
    LS_TRY(cli_trained_dataset(&p->trained, c, &p->dataset));
    if (ls_dataset_image_shape(p->dataset).dim[2] == channels)
        return ls_dataset_channels(p->dataset, p->mean, p->deviation);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has images of %lld channels, and the network takes %d",
                   p->trained.data, (long long)ls_dataset_image_shape(p->dataset).dim[2], channels);
}

static ls_status build(prediction *p, cli *c) {
    cli_trained *t = &p->trained;
    ls_predict_config config;
    LS_TRY(cli_trained_fit(t, c, p->set.input_shape, p->set.data != NULL, &p->dataset));
    LS_TRY(ls_model_build(t->model, &t->network, &p->graph));
    p->shape = ls_graph_input_at(p->graph, 0).shape;
    p->classes = ls_graph_classes(p->graph);
    p->targets = p->dataset ? ls_dataset_targets(p->dataset) > 0
                            : json_is_true(json_object_get(p->trained.saved.state, "targets"));
    p->top = p->set.top < p->classes && !p->targets ? p->set.top : p->classes;
    LS_TRY(predict_list_check(&p->list, p->shape));
    int images = p->shape.ndim == 3 && (p->shape.dim[2] == 1 || p->shape.dim[2] == 3), files = 0;
    for (int i = 0; i < p->list.count; i++) files |= !p->list.items[i].rows && !p->list.items[i].failure;
    if (!images && files)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s takes no images of 1 or 3 channels, as files have them: samples of numbers are named as a "
                       "dataset, as csv:FILE,numbers=all",
                       t->model);
    if (images) LS_TRY(find_channels(p, c));
    ls_predict_config_init(&config);
    config.device = t->config.device;
    config.precision = t->config.precision;
    config.isa = t->config.isa;
    config.threads = t->config.threads ? t->config.threads : 1;
    config.batch = BATCH;
    LS_TRY(ls_predictor_create(p->graph, &config, &p->predictor));
    if (!t->whole) LS_TRY(ls_predictor_load_weights(p->predictor, t->saved.weights));
    LS_TRY(ls_calloc(BATCH * ls_shape_count(p->shape), sizeof *p->inputs, &p->inputs));
    return ls_calloc((int64_t)BATCH * p->classes, sizeof *p->scores, &p->scores);
}

// --- predicting ------------------------------------------------------------------------------------------------------

// Numbers are taken as they are; pixels as a file's are.
static ls_status prepare_row(const prediction *p, const predict_item *i, float *out) {
    void *values[LS_MAX_FIELDS] = {NULL};
    int at;
    ls_image image = {.pixels = NULL};
    ls_sample_info info;
    if (predict_field(i->rows, &at)->dtype == LS_DTYPE_U8) {
        LS_TRY(ls_dataset_look(i->rows, i->test, i->sample, &info, &image));
        ls_status status = ls_train_prepare_image(&p->trained.config, &image, p->shape, p->mean, p->deviation, out);
        ls_image_free(&image);
        return status == LS_OK ? LS_OK : ls__fail_context(status, "%s: ", i->path);
    }
    values[at] = out;
    return ls_dataset_read(i->rows, i->test, i->sample, values);
}

static ls_status prepare(const prediction *p, const predict_item *i, float *out) {
    if (i->rows) return prepare_row(p, i, out);
    return ls_train_prepare_file(&p->trained.config, i->path, p->shape, p->mean, p->deviation, out);
}

// The `top` largest, of equals the first; of numbers all.
static void choose(const prediction *p, const float *probability, predict_guess *out) {
    int count = 0;
    for (int c = 0; c < p->classes && p->targets; c++) out[c] = (predict_guess){c, probability[c]};
    for (int c = 0; c < p->classes && !p->targets; c++) {
        int place = count;
        while (place > 0 && probability[c] > out[place - 1].probability) place--;
        if (place == p->top) continue;
        if (count < p->top) count++;
        memmove(out + place + 1, out + place, (size_t)(count - place - 1) * sizeof *out);
        out[place] = (predict_guess){c, probability[c]};
    }
}

// From the checkpoint where it tells; else from a dataset that was opened, or named.
static const char *class_name(const prediction *p, int class, char buffer[16]) {
    const json_t *told = json_object_get(p->trained.saved.state, "class_names");
    const char *name = json_string_value(json_array_get(told, (size_t) class));
    if (!name) name = ls_dataset_class(p->dataset, class);
    if (!name && p->trained.data) name = ls_dataset_format_class(p->trained.data, class);
    if (name) return name;
    snprintf(buffer, 16, "%d", class);
    return buffer;
}

static void print_item(const prediction *p, const predict_item *i) {
    char name[16], line[4096];
    size_t used = 0;
    ls_text_add(line, sizeof line, &used, "%s:", i->path);
    for (int n = 0; n < p->top; n++) {
        double x = i->guesses[n].probability;
        ls_text_add(line, sizeof line, &used, p->targets ? "%s %s %.6g" : "%s %s %.2f %%", n ? "," : "",
                    class_name(p, i->guesses[n].class, name), p->targets ? x : 100 * x);
    }
    ls_text_clean(line);
    printf("%s\n", line);
}

// Of one class among all, or of each label by itself.
static void find_probabilities(const prediction *p, int count) {
    int labels = p->dataset ? ls_dataset_labels(p->dataset) > 0
                            : json_is_true(json_object_get(p->trained.saved.state, "several_labels"));
    if (p->targets) return;
    if (!labels) ls_softmax(p->scores, count, p->classes);
    for (int64_t i = 0; i < (int64_t)count * p->classes && labels; i++)
        p->scores[i] = (float)(1 / (1 + exp(-(double)p->scores[i])));
}

// The files list[0 .. count-1], which are prepared.
static ls_status run_batch(prediction *p, const int *list, int count) {
    const void *inputs[] = {p->inputs};
    float *outputs[] = {p->scores};
    if (count == 0) return LS_OK;
    LS_TRY(ls_predictor_run(p->predictor, count, inputs, outputs));
    find_probabilities(p, count);
    for (int n = 0; n < count; n++) {
        predict_item *i = &p->list.items[list[n]];
        LS_TRY(ls_calloc(p->top, sizeof *i->guesses, &i->guesses));
        choose(p, p->scores + (int64_t)n * p->classes, i->guesses);
        print_item(p, i);
    }
    return LS_OK;
}

static ls_status predict(prediction *p) {
    int list[BATCH], ready = 0;
    for (int i = 0; i < p->list.count; i++) {
        if (p->list.items[i].failure) continue;
        if (prepare(p, &p->list.items[i], p->inputs + ready * ls_shape_count(p->shape)) == LS_OK)
            list[ready++] = i;
        else
            predict_note(&p->list, &p->list.items[i]);
        if (ready == BATCH) {
            LS_TRY(run_batch(p, list, ready));
            ready = 0;
        }
    }
    return run_batch(p, list, ready);
}

// --- output ----------------------------------------------------------------------------------------------------------

static json_t *text(const char *s) {
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

static json_t *item_json(const prediction *p, const predict_item *i) {
    char name[16];
    if (i->failure) return json_pack("{s:o,s:o}", "file", text(i->path), "failure", text(i->failure));
    json_t *list = json_array();
    for (int n = 0; n < p->top && i->guesses; n++) {
        double x = i->guesses[n].probability;
        json_array_append_new(list,
                              json_pack("{s:i,s:s,s:o}", p->targets ? "target" : "class", i->guesses[n].class, "name",
                                        class_name(p, i->guesses[n].class, name), p->targets ? "value" : "probability",
                                        isfinite(x) ? json_real(x) : json_null()));
    }
    return json_pack("{s:o,s:o}", "file", text(i->path), p->targets ? "targets" : "classes", list);
}

static int write_json(const prediction *p, FILE *out) {
    json_t *files = json_array();
    for (int i = 0; i < p->list.count; i++) json_array_append_new(files, item_json(p, &p->list.items[i]));
    json_t *o = json_pack("{s:i,s:o,s:o,s:o}", "lockstep_prediction", 1, "model", text(p->trained.model), "weights",
                          text(p->trained.saved.weights), "files", files);
    int failed = !o || json_dumpf(o, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 || fputc('\n', out) == EOF;
    json_decref(o);
    return failed;
}

static int write_csv(const prediction *p, FILE *out) {
    char name[16];
    fputs(p->targets ? "file,rank,target,name,value\n" : "file,rank,class,name,probability\n", out);
    for (int i = 0; i < p->list.count; i++)
        for (int n = 0; n < p->top && p->list.items[i].guesses; n++) {
            const predict_guess *g = &p->list.items[i].guesses[n];
            ls_csv_text(out, p->list.items[i].path);
            fprintf(out, ",%d,%d,", n + 1, g->class);
            ls_csv_text(out, class_name(p, g->class, name));
            fprintf(out, ",%.9g\n", g->probability);
        }
    return ferror(out);
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to", path, strerror(errno));
}

static ls_status write_file(const prediction *p, const char *path, int (*write)(const prediction *p, FILE *out)) {
    ls_output output;
    if (!path) return LS_OK;
    if (ls_output_open(path, &output) != 0) return cannot_write(path);
    int failed = write(p, output.file);
    return ls_output_close(&output, path, !failed) != 0 || failed ? cannot_write(path) : LS_OK;
}

static ls_status check_output(const char *path) {
    return !path || ls_output_check(path) == 0 ? LS_OK : cannot_write(path);
}

// --- the command -----------------------------------------------------------------------------------------------------

static ls_status work(prediction *p, cli *c) {
    c->stage = CLI_STAGE_TOGETHER;
    LS_TRY(check_output(p->set.json));
    LS_TRY(check_output(p->set.csv));
    const char **columns = cli_saved_columns(&p->trained.saved);
    ls_status listed = predict_list_words(&p->list, c, p->words + 1, p->word_count - 1, columns);
    free(columns);
    LS_TRY(listed);
    LS_TRY(build(p, c));
    LS_TRY(predict(p));
    LS_TRY(write_file(p, p->set.json, write_json));
    LS_TRY(write_file(p, p->set.csv, write_csv));
    if (!p->list.failed) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%d of %d could not be predicted, as was said above", p->list.failed,
                   p->list.count);
}

static ls_status run(cli *c, int argc, char **argv) {
    prediction p = {.word_count = 0};
    ls_status status = read_options(&p, argc, argv);
    if (status == LS_OK && p.help)
        help(&p);
    else if (status == LS_OK)
        status = work(&p, c);
    ls_predictor_destroy(&p.predictor);
    ls_graph_destroy(&p.graph);
    ls_dataset_destroy(&p.dataset);
    predict_list_free(&p.list);
    free(p.inputs);
    free(p.scores);
    free(p.words);
    cli_trained_close(&p.trained);
    return status;
}

const cli_command cli_command_predict = {"predict", "what a trained network takes images of files for", run};
