// lockstep predict: what a trained network takes images of files for.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/trained.h"
#include "report/csv.h"

enum { BATCH = 32, MOST_CHANNELS = 3, MOST_DATASETS = 16 };

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

// A class that an image was taken for.
typedef struct guess {
    int class;
    double probability;
} guess;

// A file, or a sample of a dataset, and what came of it.
typedef struct item {
    char *path;
    const ls_dataset *rows;  // the dataset; NULL: a file
    int test;                // of its test set
    int64_t sample;
    char *failure;   // why it was not predicted; NULL: it was
    guess *guesses;  // (top), the most likely first; NULL: it was not
} item;

// A dataset whose samples are predicted, and how it was named.
typedef struct named_rows {
    const char *spec;
    ls_dataset *dataset;
} named_rows;

typedef struct prediction {
    settings set;
    cli_trained trained;
    ls_option_set options[8];
    const char **words;  // the checkpoint, then files and folders
    int word_count, help;
    item *items;
    int count, room, failed;
    named_rows rows[MOST_DATASETS];  // what samples are of
    int rows_count;
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

// --- files -----------------------------------------------------------------------------------------------------------

static ls_status add_named(prediction *p, const char *folder, const char *between, const char *name) {
    if (p->count == p->room) {
        int room = p->room ? 2 * p->room : 64;
        item *larger = realloc(p->items, (size_t)room * sizeof *larger);
        if (!larger) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a list of %d files", room);
        p->items = larger;
        p->room = room;
    }
    item *i = &p->items[p->count];
    *i = (item){.path = NULL};
    if (asprintf(&i->path, "%s%s%s", folder ? folder : "", between, name) < 0)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the name of a file");
    p->count++;
    return LS_OK;
}

static ls_status add(prediction *p, const char *folder, const char *name) {
    size_t n = folder ? strlen(folder) : 0;
    return add_named(p, folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

// Keeps the sentence of the latest failure, and says it.
static void note(prediction *p, item *i) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    ls_text_clean(sentence);
    fflush(stdout);
    fprintf(stderr, "lockstep predict: %s\n", sentence);
    i->failure = strdup(sentence);
    p->failed++;
}

// Of the latest failure, in place of what it is of.
static ls_status add_failure(prediction *p, const char *name) {
    LS_TRY(add(p, NULL, name));
    note(p, &p->items[p->count - 1]);
    return LS_OK;
}

static int is_image(const struct dirent *e) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    size_t n = strlen(e->d_name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0] && e->d_name[0] != '.'; i++) {
        size_t length = strlen(endings[i]);
        if (n > length && strcasecmp(e->d_name + n - length, endings[i]) == 0) return 1;
    }
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

// A folder that nothing can be had of stays in the list with its failure.
static ls_status add_folder(prediction *p, const char *folder) {
    struct dirent **entries;
    ls_status status = LS_OK;
    int n = scandir(folder, &entries, is_image, by_name);
    if (n <= 0) {
        if (n < 0) LS_FAIL(LS_STATUS_IO, "cannot read the folder %s: %s", folder, strerror(errno));
        if (n == 0) LS_FAIL(LS_STATUS_NOT_FOUND, "the folder %s has no PNG or JPEG images", folder);
        if (n == 0) free(entries);
        return add_failure(p, folder);
    }
    for (int i = 0; i < n; i++) {
        if (status == LS_OK) status = add(p, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

static ls_status make_context(cli *c) { return c->context ? LS_OK : ls_context_create_alone(&c->context); }

// Whether what is in front of a colon is the name of a format.
static int is_dataset(const char *word) {
    size_t length = strcspn(word, ":");
    const char *name;
    for (int i = 0; word[length] && (name = ls_dataset_format(i, NULL, NULL)); i++)
        if (strlen(name) == length && memcmp(name, word, length) == 0) return 1;
    return 0;
}

// All samples of a dataset, by the numbers that lists of exclusions have for them. One that cannot be opened stays in the list with its failure, unless
// nothing else was asked for.
static ls_status add_rows(prediction *p, cli *c, const char *spec) {
    ls_dataset *d;
    if (p->rows_count == MOST_DATASETS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "more than %d datasets are to be predicted: do so in several runs",
                       MOST_DATASETS);
    LS_TRY(make_context(c));
    ls_status status = ls_dataset_open(c->context, spec, &d);
    if (status != LS_OK && p->word_count == 2) return status;
    if (status != LS_OK) return add_failure(p, spec);
    p->rows[p->rows_count++] = (named_rows){spec, d};
    for (int test = 0; test < 2; test++) {
        int64_t count = test ? ls_dataset_test_count(d) : ls_dataset_train_count(d);
        for (int64_t i = 0; i < count; i++) {
            char name[32];
            snprintf(name, sizeof name, " %s:%lld", test ? "test" : "train", (long long)i);
            LS_TRY(add_named(p, spec, "", name));
            item *last = &p->items[p->count - 1];
            last->rows = d;
            last->test = test;
            last->sample = i;
        }
    }
    return LS_OK;
}

// A file of numbers, which is no image whatever is in it: stays in the list with what to do.
static int is_table(const char *path) {
    static const char *const kinds[][3] = {{".csv", "csv", ",numbers=all"},
                                           {".npz", "numpy", ""},
                                           {".npy", "numpy", ",labels=FILE.npy"},
                                           {".h5", "hdf5", ""},
                                           {".hdf5", "hdf5", ""}};
    size_t n = strlen(path);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t length = strlen(kinds[k][0]);
        if (n <= length || strcasecmp(path + n - length, kinds[k][0]) != 0) continue;
        LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is no image but has samples in it: name it as a dataset, %s:%s%s", path,
                kinds[k][1], path, kinds[k][2]);
        return 1;
    }
    return 0;
}

static ls_status list_word(prediction *p, cli *c, const char *word) {
    struct stat there;
    int missing = stat(word, &there) != 0;
    if (!missing && S_ISDIR(there.st_mode)) return add_folder(p, word);
    if (missing && is_dataset(word)) return add_rows(p, c, word);
    return is_table(word) ? add_failure(p, word) : add(p, NULL, word);
}

static ls_status list_files(prediction *p, cli *c) {
    for (int i = 1; i < p->word_count; i++) LS_TRY(list_word(p, c, p->words[i]));
    return LS_OK;
}

// --- the network -----------------------------------------------------------------------------------------------------

// A list of numbers that the checkpoint may tell, `count` of them. Returns whether it does.
static int told(const prediction *p, const char *key, int count, double *out) {
    const json_t *list = json_object_get(p->trained.saved.state, key);
    if ((int)json_array_size(list) != count) return 0;
    for (int i = 0; i < count; i++) {
        out[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!(fabs(out[i]) < 1e6)) return 0;
    }
    return 1;
}

static ls_status open_dataset(prediction *p, cli *c) {
    if (p->dataset) return LS_OK;
    if (!p->trained.data)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "what the network was trained on is not told: --data names the dataset, or --input-shape the shape");
    LS_TRY(make_context(c));
    ls_status status = ls_dataset_open(c->context, p->trained.data, &p->dataset);
    if (status == LS_OK) return LS_OK;
    return ls__fail_context(
        status, "the dataset it was trained on, without which --input-shape and --classes are to be told: ");
}

// Its input and its classes: from the command line, else from the checkpoint, else from the dataset.
static ls_status find_shape(prediction *p, cli *c) {
    cli_trained *t = &p->trained;
    double image[3], classes;
    const json_t *number = json_object_get(t->saved.state, "classes");
    classes = json_is_integer(number) ? (double)json_integer_value(number) : 0;
    if (!t->network.classes && classes >= 1 && classes < 1e9 && !p->set.data) t->network.classes = (int)classes;
    if (p->set.input_shape) return cli_model_input(t->model, p->set.input_shape, &t->network.input);
    if (!p->set.data && told(p, "image", 3, image) && t->network.classes) {
        t->network.input = LS_SHAPE((int64_t)image[0], (int64_t)image[1], (int64_t)image[2]);
        return LS_OK;
    }
    LS_TRY(open_dataset(p, c));
    ls_train_fit_model(&t->config, p->dataset, &t->network);
    return LS_OK;
}

static ls_status find_channels(prediction *p, cli *c) {
    int channels = (int)p->shape.dim[2];
    if (strcmp(p->trained.config.normalize, "dataset") != 0) return LS_OK;
    if (!p->set.data && told(p, "channel_mean", channels, p->mean) &&
        told(p, "channel_deviation", channels, p->deviation))
        return LS_OK;
    LS_TRY(open_dataset(p, c));
    if (ls_dataset_image_shape(p->dataset).dim[2] == channels)
        return ls_dataset_channels(p->dataset, p->mean, p->deviation);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has images of %lld channels, and the network takes %d",
                   p->trained.data, (long long)ls_dataset_image_shape(p->dataset).dim[2], channels);
}

static const ls_field *find_image(const ls_dataset *d, int *at) {
    const ls_field *field;
    for (*at = 0; (field = ls_dataset_field(d, *at)) && strcmp(field->name, "image") != 0; ++*at) continue;
    return field;
}

// Whether the network takes samples as a dataset has them.
static ls_status check_dataset(const prediction *p, const named_rows *r) {
    int at;
    const ls_field *field = find_image(r->dataset, &at);
    if (!field || (field->shape.ndim == 3 && field->shape.dim[0] == 0))
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: %s", r->spec,
                       field ? "its images are files: name these, or their folders" : "it has no images or numbers");
    int64_t channels = p->shape.ndim == 3 ? p->shape.dim[2] : 0;
    if (field->dtype == LS_DTYPE_U8) {
        if (field->shape.dim[2] == channels) return LS_OK;
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: its images have %lld channels, and the network takes %lld: name images as it was trained "
                       "on",
                       r->spec, (long long)field->shape.dim[2], (long long)channels);
    }
    if (field->dtype == LS_DTYPE_F32 && field->shape.ndim == p->shape.ndim && ls_shape_equal(field->shape, p->shape))
        return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: its samples have %lld numbers, and the network takes %lld: name the same columns (numbers=, "
                   "shape=) as for training",
                   r->spec, (long long)ls_shape_count(field->shape), (long long)ls_shape_count(p->shape));
}

// The latest failure is of a dataset as a whole, which then is one item in place of its samples.
static ls_status drop_rows(prediction *p, const named_rows *r) {
    int kept = 0, told = 0;
    char *name = strdup(r->spec);
    if (!name) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the name of a dataset");
    for (int i = 0; i < p->count; i++) {
        item one = p->items[i];
        if (one.rows == r->dataset) {
            free(one.path);
            if (told++) continue;
            one = (item){.path = name};
            note(p, &one);
        }
        p->items[kept++] = one;
    }
    p->count = kept;
    if (!told) free(name);
    return LS_OK;
}

static ls_status check_datasets(prediction *p) {
    for (int i = 0; i < p->rows_count; i++) {
        ls_status status = check_dataset(p, &p->rows[i]);
        if (status == LS_OK) continue;
        if (p->word_count == 2) return status;
        LS_TRY(drop_rows(p, &p->rows[i]));
    }
    return LS_OK;
}

static ls_status build(prediction *p, cli *c) {
    cli_trained *t = &p->trained;
    ls_predict_config config;
    LS_TRY(find_shape(p, c));
    LS_TRY(ls_model_build(t->model, &t->network, &p->graph));
    p->shape = ls_graph_input_at(p->graph, 0).shape;
    p->classes = ls_graph_classes(p->graph);
    p->targets = p->dataset ? ls_dataset_targets(p->dataset) > 0
                            : json_is_true(json_object_get(p->trained.saved.state, "targets"));
    p->top = p->set.top < p->classes && !p->targets ? p->set.top : p->classes;
    LS_TRY(check_datasets(p));
    int images = p->shape.ndim == 3 && (p->shape.dim[2] == 1 || p->shape.dim[2] == 3), files = 0;
    for (int i = 0; i < p->count; i++) files |= !p->items[i].rows && !p->items[i].failure;
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
    LS_TRY(ls_predictor_load_weights(p->predictor, t->saved.weights));
    LS_TRY(ls_calloc(BATCH * ls_shape_count(p->shape), sizeof *p->inputs, &p->inputs));
    return ls_calloc((int64_t)BATCH * p->classes, sizeof *p->scores, &p->scores);
}

// --- predicting ------------------------------------------------------------------------------------------------------

// Numbers are taken as they are; pixels as a file's are.
static ls_status prepare_row(const prediction *p, const item *i, float *out) {
    void *values[LS_MAX_FIELDS] = {NULL};
    int at;
    ls_image image = {.pixels = NULL};
    ls_sample_info info;
    if (find_image(i->rows, &at)->dtype == LS_DTYPE_U8) {
        LS_TRY(ls_dataset_look(i->rows, i->test, i->sample, &info, &image));
        ls_status status = ls_train_prepare_image(&p->trained.config, &image, p->shape, p->mean, p->deviation, out);
        ls_image_free(&image);
        return status == LS_OK ? LS_OK : ls__fail_context(status, "%s: ", i->path);
    }
    values[at] = out;
    return ls_dataset_read(i->rows, i->test, i->sample, values);
}

static ls_status prepare(const prediction *p, const item *i, float *out) {
    if (i->rows) return prepare_row(p, i, out);
    return ls_train_prepare_file(&p->trained.config, i->path, p->shape, p->mean, p->deviation, out);
}

// The `top` largest, of equals the first; of numbers all.
static void choose(const prediction *p, const float *probability, guess *out) {
    int count = 0;
    for (int c = 0; c < p->classes && p->targets; c++) out[c] = (guess){c, probability[c]};
    for (int c = 0; c < p->classes && !p->targets; c++) {
        int place = count;
        while (place > 0 && probability[c] > out[place - 1].probability) place--;
        if (place == p->top) continue;
        if (count < p->top) count++;
        memmove(out + place + 1, out + place, (size_t)(count - place - 1) * sizeof *out);
        out[place] = (guess){c, probability[c]};
    }
}

// From the checkpoint where it tells; else from a dataset that was opened, or named.
static const char *class_name(const prediction *p, int class, char buffer[16]) {
    const json_t *told = p->set.data ? NULL : json_object_get(p->trained.saved.state, "class_names");
    const char *name = json_string_value(json_array_get(told, (size_t) class));
    if (!name) name = ls_dataset_class(p->dataset, class);
    if (!name && p->trained.data) name = ls_dataset_format_class(p->trained.data, class);
    if (name) return name;
    snprintf(buffer, 16, "%d", class);
    return buffer;
}

static void print_item(const prediction *p, const item *i) {
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
        item *i = &p->items[list[n]];
        LS_TRY(ls_calloc(p->top, sizeof *i->guesses, &i->guesses));
        choose(p, p->scores + (int64_t)n * p->classes, i->guesses);
        print_item(p, i);
    }
    return LS_OK;
}

static ls_status predict(prediction *p) {
    int list[BATCH], ready = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->items[i].failure) continue;
        if (prepare(p, &p->items[i], p->inputs + ready * ls_shape_count(p->shape)) == LS_OK)
            list[ready++] = i;
        else
            note(p, &p->items[i]);
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

static json_t *item_json(const prediction *p, const item *i) {
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
    for (int i = 0; i < p->count; i++) json_array_append_new(files, item_json(p, &p->items[i]));
    json_t *o = json_pack("{s:i,s:o,s:o,s:o}", "lockstep_prediction", 1, "model", text(p->trained.model), "weights",
                          text(p->trained.saved.weights), "files", files);
    int failed = !o || json_dumpf(o, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0 || fputc('\n', out) == EOF;
    json_decref(o);
    return failed;
}

static int write_csv(const prediction *p, FILE *out) {
    char name[16];
    fputs(p->targets ? "file,rank,target,name,value\n" : "file,rank,class,name,probability\n", out);
    for (int i = 0; i < p->count; i++)
        for (int n = 0; n < p->top && p->items[i].guesses; n++) {
            const guess *g = &p->items[i].guesses[n];
            ls_csv_text(out, p->items[i].path);
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
    LS_TRY(list_files(p, c));
    LS_TRY(build(p, c));
    LS_TRY(predict(p));
    LS_TRY(write_file(p, p->set.json, write_json));
    LS_TRY(write_file(p, p->set.csv, write_csv));
    if (!p->failed) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%d of %d could not be predicted, as was said above", p->failed, p->count);
}

static ls_status run(cli *c, int argc, char **argv) {
    prediction p = {.count = 0};
    ls_status status = read_options(&p, argc, argv);
    if (status == LS_OK && p.help)
        help(&p);
    else if (status == LS_OK)
        status = work(&p, c);
    ls_predictor_destroy(&p.predictor);
    ls_graph_destroy(&p.graph);
    ls_dataset_destroy(&p.dataset);
    while (p.rows_count > 0) ls_dataset_destroy(&p.rows[--p.rows_count].dataset);
    for (int i = 0; i < p.count; i++) {
        free(p.items[i].path);
        free(p.items[i].failure);
        free(p.items[i].guesses);
    }
    free(p.items);
    free(p.inputs);
    free(p.scores);
    free(p.words);
    cli_trained_close(&p.trained);
    return status;
}

const cli_command cli_command_predict = {"predict", "what a trained network takes images of files for", run};
