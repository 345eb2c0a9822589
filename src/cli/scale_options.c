// What 'lockstep scale' is told.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/deadline.h"
#include "cli/scale.h"
#include "report/record.h"

#define AT(member) .offset = offsetof(scale_settings, member)
#define STUDY      .group = "Study"

static const ls_option table[] = {
    {"workers", LS_OPTION_TEXT, AT(workers), .metavar = "N,N,...", STUDY,
     .help = "the numbers of processes to compare, on one node: 1,2,4,8"},
    {"nodes", LS_OPTION_TEXT, AT(nodes), .metavar = "N,N,...", STUDY, .initial = "1",
     .help = "inside a Slurm allocation: the numbers of nodes to compare, each with every one of --workers-per-node"},
    {"workers-per-node", LS_OPTION_TEXT, AT(workers_per_node), .metavar = "N,N,...", STUDY,
     .help = "with --nodes, instead of --workers: processes on each node"},
    {"layout", LS_OPTION_TEXT, AT(layout), .metavar = "NxW,NxW,...", STUDY,
     .help = "instead of both: nodes x workers on each of them, as 1x8,2x4,4x2"},
    {"mode", LS_OPTION_TEXT, AT(mode), .metavar = "strong|weak|batch-per-worker", STUDY,
     .help = "strong: the same work for all, the same weights in the end. weak: the global batch and the number of "
             "training samples are those of one worker, times the workers. batch-per-worker: the batch alone is; with "
             "--lr-scaling linear the learning rate grows with it"},
    {"compare", LS_OPTION_TEXT, AT(compare), .metavar = "WORDS", STUDY,
     .help =
         "ways to train, each with every model and number of workers: lr=0.01,0.02 compares values of an option, "
         "'lr=0.1,0.2 "
         "batch-size=128,256' all four combinations, 'schedule=constant | schedule=cosine warmup-epochs=1' recipes of "
         "several options; any option of train, --data too"},
    {"strategy", LS_OPTION_TEXT, AT(strategy), .metavar = "NAME,NAME,...", STUDY, .initial = "allreduce",
     .help = "how gradients of workers come together ('lockstep train --help' lists the names); several are compared, "
             "as by --compare strategy=NAME,NAME"},
    {"until-accuracy", LS_OPTION_REAL, AT(until_accuracy), .metavar = "A", .max = 1, .initial = "none", STUDY,
     .help = "end each run when its test accuracy after an epoch is at least A, and tell how long that took: 0.98"},
    {"repeats", LS_OPTION_INT, AT(repeats), .metavar = "R", .min = 1, .max = 1000, STUDY,
     .help = "runs of each configuration; medians count"},
    {"timeout", LS_OPTION_REAL, AT(timeout), .metavar = "SECONDS", .initial = "no limit", STUDY,
     .help = "end a run that takes longer, note it as failed and go on"},
    {"time-limit", LS_OPTION_TEXT, AT(time_limit), .metavar = "TIME", .initial = "the end of the Slurm job, inside one",
     STUDY,
     .help =
         "be done, with a report, so long after the start: 90 (minutes), 5:30 (minutes:seconds), 1:15:00; none. A run "
         "that cannot be done by then is not started; the same command goes on with it"},
    {"out", LS_OPTION_TEXT, AT(out), .metavar = "DIR", STUDY,
     .help = "the study's folder; one that was interrupted goes on where it stopped"},
    {"terminal", LS_OPTION_FLAG, AT(terminal), STUDY, .help = "print the charts too, in block characters"},
    {"data", LS_OPTION_TEXT, AT(data), .metavar = "SPEC", .group = "Training",
     .help = "the dataset: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
    {"config", LS_OPTION_TEXT, AT(config), .metavar = "FILE", STUDY,
     .help = "take options from FILE, a JSON object with the names used here; the command line wins"},
    {.name = NULL},
};

static void defaults(scale_request *r) {
    scale_variant *c = &r->grid.common;
    r->set = (scale_settings){.data = "digits", .mode = "strong", .repeats = 1};
    ls_train_config_init(&c->config);
    ls_model_config_init(&c->model);
    r->options[0] = (ls_option_set){table, &r->set};
    r->options[1] = (ls_option_set){ls_train_options(), &c->config};
    r->options[2] = (ls_option_set){ls_model_options(), &c->model};
    r->options[3] = (ls_option_set){NULL, NULL};
}

void scale_help(void) {
    int width = cli_help_width();
    scale_request r = {.file = NULL};
    defaults(&r);
    printf("Usage: lockstep scale MODEL [MODEL...] --workers 1,2,4 --out DIR [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, width,
        "Measures how training scales: trains each MODEL with each number of workers, one run after the other, and "
        "writes records, tables, charts and a page to DIR. Each worker has one replica unless --replicas says "
        "otherwise, so that it is workers that are compared. --compare without --workers compares ways to train, on "
        "all "
        "cores. All options of 'lockstep train' are passed on.");
    ls_options_help(stdout, r.options, width);
}

const char *scale_mode_name(scale_mode mode) {
    static const char *const names[] = {"strong", "weak", "batch-per-worker"};
    return names[mode];
}

// One of the words that the table allows.
static scale_mode mode_of(const char *text) {
    scale_mode m = SCALE_STRONG;
    while (m < SCALE_BATCH && strcmp(text, scale_mode_name(m)) != 0) m++;
    return m;
}

static ls_status read_counts(const char *option, const char *text, int *out, int *count) {
    *count = 0;
    for (const char *p = text;; p++) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || n < 1 || n > 65536)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "--%s: expected whole numbers from 1 to 65536 with commas between them, as in 1,2,4, got '%s'", option,
                text);
        for (int i = 0; i < *count; i++)
            if (out[i] == n)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "--%s: %ld is there twice in '%s'; --repeats runs a configuration several times", option,
                               n, text);
        if (*count == SCALE_MAX_COUNTS)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: more than %d numbers", option, SCALE_MAX_COUNTS);
        out[(*count)++] = (int)n;
        p = end;
        if (!*p) return LS_OK;
    }
}

static ls_status add_layout(scale_grid *g, int nodes, int per_node) {
    for (int i = 0; i < g->layout_count; i++)
        if (g->layouts[i].nodes == nodes && g->layouts[i].per_node == per_node)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "--layout: %dx%d is there twice; --repeats runs a configuration several times", nodes,
                           per_node);
    if (g->layout_count == SCALE_MAX_LAYOUTS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "more than %d layouts", SCALE_MAX_LAYOUTS);
    if ((int64_t)nodes * per_node > SCALE_MAX_WORKERS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%d nodes with %d workers each are more than %d workers", nodes,
                       per_node, SCALE_MAX_WORKERS);
    g->layouts[g->layout_count++] = (scale_layout){nodes, per_node};
    return LS_OK;
}

// "1x8,2x4,4x2"
static ls_status read_layouts(const char *text, scale_grid *g) {
    for (const char *p = text;; p++) {
        char *x, *end;
        long nodes = strtol(p, &x, 10), per_node = *x == 'x' ? strtol(x + 1, &end, 10) : 0;
        if (x == p || *x != 'x' || end == x + 1 || (*end && *end != ',') || nodes < 1 || nodes > 65536 ||
            per_node < 1 || per_node > 65536)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "--layout: expected nodes x workers on each with commas between them, as in 1x8,2x4, got '%s'", text);
        LS_TRY(add_layout(g, (int)nodes, (int)per_node));
        p = end;
        if (!*p) return LS_OK;
    }
}

static ls_status read_grid(const scale_settings *set, scale_grid *g) {
    int nodes[SCALE_MAX_COUNTS], workers[SCALE_MAX_COUNTS], node_count, worker_count;
    if (set->layout) return read_layouts(set->layout, g);
    const char *text = set->workers ? set->workers : set->workers_per_node ? set->workers_per_node : "1";
    LS_TRY(read_counts(set->workers ? "workers" : "workers-per-node", text, workers, &worker_count));
    LS_TRY(read_counts("nodes", set->nodes ? set->nodes : "1", nodes, &node_count));
    for (int n = 0; n < node_count; n++)
        for (int w = 0; w < worker_count; w++) LS_TRY(add_layout(g, nodes[n], workers[w]));
    return LS_OK;
}

int scale_workers(const scale_layout *layout) { return layout->nodes * layout->per_node; }

int scale_most_workers(const scale_grid *g) {
    int most = 0;
    for (int i = 0; i < g->layout_count; i++)
        if (scale_workers(&g->layouts[i]) > most) most = scale_workers(&g->layouts[i]);
    return most;
}

int scale_most_nodes(const scale_grid *g) {
    int most = 0;
    for (int i = 0; i < g->layout_count; i++)
        if (g->layouts[i].nodes > most) most = g->layouts[i].nodes;
    return most;
}

static ls_status check_models(const ls_words *words, const ls_model_config *config) {
    if (words->count == 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "which model? Usage: lockstep scale MODEL [MODEL...] --workers 1,2,4 --out DIR; 'lockstep models' "
            "lists them");
    for (int i = 0; i < words->count; i++) {
        LS_TRY(cli_model_check(words->word[i], config));
        for (int j = 0; j < i; j++)
            if (strcmp(words->word[i], words->word[j]) == 0)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the model %s is there twice", words->word[i]);
    }
    return LS_OK;
}

// One strategy is as train takes it; several are a comparison.
static ls_status read_strategies(scale_request *r) {
    const char *names = r->set.strategy;
    const ls_option_set train[] = {{ls_train_options(), &r->grid.common.config}, {NULL, NULL}};
    if (!names) return LS_OK;
    if (!strchr(names, ',')) return ls_options_assign(train, "strategy", names);
    if (r->set.compare)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--strategy %s compares strategies, and --compare is there too: leave --strategy out and add "
                       "strategy=%s to the words of --compare",
                       names, names);
    if (asprintf(&r->strategies, "strategy=%s", names) < 0) {
        r->strategies = NULL;
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    }
    r->set.compare = r->strategies;
    return LS_OK;
}

static ls_status check_settings(scale_request *r) {
    const scale_settings *set = &r->set;
    int counted = set->workers || set->workers_per_node;
    if (!set->out) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "where to? --out DIR names the study's folder");
    if (set->layout && (counted || set->nodes))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--layout says nodes and workers: leave --workers, --nodes and --workers-per-node out");
    if (set->workers && (set->nodes || set->workers_per_node))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--workers counts processes on one node: with --nodes give --workers-per-node instead");
    if (!counted && !set->layout && (set->nodes || !set->compare))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT, "how many workers? --workers 1,2,4 compares these%s",
            set->nodes ? "; with --nodes it is --workers-per-node 1,2,4" : ", --compare ways to train without scaling");
    r->grid.mode = mode_of(set->mode);
    json_t *data = json_string(set->data), *out = json_string(set->out);
    json_t *compare = json_string(set->compare ? set->compare : "");
    int readable = data && out && compare;
    json_decref(compare);
    json_decref(data);
    json_decref(out);
    if (!readable)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--data, --out and --compare: a study keeps them as UTF-8 text only");
    return LS_OK;
}

static ls_status read_words(scale_request *r, int argc, char **argv) {
    defaults(r);
    LS_TRY(ls_options_parse(r->options, argc, argv, LS_MAX_WORDS, &r->words));
    const char *path = r->set.config;
    if (!path || r->words.help) return LS_OK;
    defaults(r);
    LS_TRY(ls_config_load(path, r->options, NULL, &r->file));
    return ls_options_parse(r->options, argc, argv, LS_MAX_WORDS, &r->words);
}

ls_status scale_request_read(int argc, char **argv, scale_request *r) {
    scale_grid *g = &r->grid;
    *r = (scale_request){.file = NULL};
    LS_TRY(read_words(r, argc, argv));
    if (r->words.help) return LS_OK;
    LS_TRY(read_strategies(r));
    LS_TRY(cli_deadline_check(r->set.time_limit));
    LS_TRY(check_models(&r->words, &g->common.model));
    LS_TRY(check_settings(r));
    if (cli_job_size() > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a launcher started this: run 'lockstep scale' once, without one; it starts the workers itself");
    LS_TRY(read_grid(&r->set, g));
    g->models = r->words.word;
    g->model_count = r->words.count;
    g->repeats = r->set.repeats;
    g->until_accuracy = r->set.until_accuracy;
    g->common.data = r->set.data;
    int counted = r->set.workers || r->set.workers_per_node || r->set.layout;
    if (counted && g->common.config.replicas == 0) g->common.config.replicas = 1;
    return scale_compare_read(r->set.compare, g, &r->compare);
}

void scale_request_free(scale_request *r) {
    ls_config_free(&r->file);
    free(r->compare);
    free(r->strategies);
    r->compare = r->strategies = NULL;
}

ls_status cli_scale_check(int argc, char **argv, int *nodes, int *workers_per_node, ls_train_config *config) {
    scale_request r;
    ls_status status = scale_request_read(argc, argv, &r);
    *nodes = scale_most_nodes(&r.grid);
    *workers_per_node = 0;
    *config = r.grid.common.config;
    for (int i = 0; i < r.grid.layout_count; i++)
        if (r.grid.layouts[i].per_node > *workers_per_node) *workers_per_node = r.grid.layouts[i].per_node;
    scale_request_free(&r);
    return status;
}
