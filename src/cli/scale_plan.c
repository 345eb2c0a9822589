// The runs of a study and its study.json.
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/scale.h"
#include "report/record.h"
#include "report/study.h"

static json_t *word(const char *text) { return json_string(text); }

static void add_option_words(json_t *words, const ls_option *table, const void *values, const void *initial) {
    for (const ls_option *o = table; o->name; o++) {
        char a[64], b[64];
        const char *text = ls_option_text(o, values, a, sizeof a);
        if (strcmp(text, ls_option_text(o, initial, b, sizeof b)) == 0) continue;
        if (o->type == LS_OPTION_FLAG) {
            json_array_append_new(words, json_sprintf("--%s%s", strcmp(text, "true") == 0 ? "" : "no-", o->name));
        } else {
            json_array_append_new(words, json_sprintf("--%s", o->name));
            json_array_append_new(words, word(text));
        }
    }
}

// The options that differ from the defaults, as words of a command line.
static json_t *option_words(const scale_variant *v, const ls_train_config *config) {
    ls_train_config initial;
    ls_train_config_init(&initial);
    ls_model_config initial_model;
    ls_model_config_init(&initial_model);
    json_t *words = json_array();
    add_option_words(words, ls_model_options(), &v->model, &initial_model);
    add_option_words(words, ls_train_options(), config, &initial);
    return words;
}

static void add_until(const scale_grid *g, json_t *words) {
    if (g->until_accuracy <= 0) return;
    json_array_append_new(words, word("--until-accuracy"));
    json_array_append_new(words, json_sprintf("%g", g->until_accuracy));
}

static json_t *recipe(const scale_grid *g) {
    json_t *words = option_words(&g->common, &g->common.config);
    json_array_insert_new(words, 0, word("--data"));
    json_array_insert_new(words, 1, word(g->common.data));
    add_until(g, words);
    return words;
}

// One run of the grid.
typedef struct place {
    const char *model;
    int variant, repeat;
    scale_layout layout;
} place;

// The command of one run. srun is told where the workers go by what `lockstep train` takes from its environment.
static json_t *command(const scale_grid *g, const char *folder, const char *name, const place *at) {
    const scale_variant *v = &g->variants[at->variant];
    int workers = scale_workers(&at->layout);
    json_t *words = json_array();
    if (getenv("SLURM_JOB_ID")) {
        json_array_append_new(words, word("env"));
        json_array_append_new(words, json_sprintf("LOCKSTEP_SRUN_ARGS=%s -N %d --ntasks-per-node=%d", cli_job_pmi(),
                                                  at->layout.nodes, at->layout.per_node));
    }
    json_array_append_new(words, word("lockstep"));
    json_array_append_new(words, word("train"));
    json_array_append_new(words, word(at->model));
    ls_train_config config = v->config;
    if (g->mode != SCALE_STRONG) config.batch_size *= workers;
    if (g->mode == SCALE_WEAK) config.limit_train *= workers;
    json_array_append_new(words, word("--data"));
    json_array_append_new(words, word(v->data));
    json_t *options = option_words(v, &config);
    json_array_extend(words, options);
    json_decref(options);
    add_until(g, words);
    json_array_append_new(words, word("--workers"));
    json_array_append_new(words, json_sprintf("%d", workers));
    json_array_append_new(words, word("--verbose"));
    json_array_append_new(words, word("2"));
    json_array_append_new(words, word("--record"));
    json_array_append_new(words, json_sprintf("%s/runs/%s.json", folder, name));
    return words;
}

static json_t *entry(const scale_grid *g, const char *folder, const place *at) {
    const scale_variant *v = &g->variants[at->variant];
    int workers = scale_workers(&at->layout);
    char name[256], variant[32] = "";
    if (g->compare) snprintf(variant, sizeof variant, "-v%d", at->variant + 1);
    snprintf(name, sizeof name, "%s-%s-n%d-w%d%s-r%d", at->model, scale_mode_name(g->mode), at->layout.nodes, workers,
             variant, at->repeat);
    json_t *e = json_object();
    json_object_set_new(e, "name", word(name));
    json_object_set_new(e, "model", word(at->model));
    json_object_set_new(e, "nodes", json_integer(at->layout.nodes));
    json_object_set_new(e, "workers", json_integer(workers));
    json_object_set_new(e, "repeat", json_integer(at->repeat));
    json_object_set_new(e, "variant", json_integer(at->variant));
    if (v->label[0]) json_object_set_new(e, "compared", word(v->label));
    json_object_set_new(e, "batch_size", json_integer(v->config.batch_size * (g->mode != SCALE_STRONG ? workers : 1)));
    json_object_set_new(e, "command", command(g, folder, name, at));
    return e;
}

// Repeats are the outermost loop: an hour in which the machine was disturbed then touches all configurations alike.
static json_t *entries(const scale_grid *g, const char *folder) {
    json_t *list = json_array();
    for (int repeat = 1; repeat <= g->repeats; repeat++)
        for (int m = 0; m < g->model_count; m++)
            for (int l = 0; l < g->layout_count; l++)
                for (int v = 0; v < g->variant_count; v++) {
                    place at = {g->models[m], v, repeat, g->layouts[l]};
                    json_array_append_new(list, entry(g, folder, &at));
                }
    return list;
}

static json_t *describe(const scale_grid *g, const cli *c) {
    json_t *study = json_object(), *models = json_array(), *layouts = json_array(), *command_line = json_array();
    json_object_set_new(study, "lockstep_study", json_integer(LS_STUDY_FORMAT));
    json_object_set_new(study, "mode", word(scale_mode_name(g->mode)));
    for (int i = 0; i < g->model_count; i++) json_array_append_new(models, word(g->models[i]));
    json_object_set_new(study, "models", models);
    for (int i = 0; i < g->layout_count; i++)
        json_array_append_new(layouts, json_pack("[i,i]", g->layouts[i].nodes, g->layouts[i].per_node));
    json_object_set_new(study, "layouts", layouts);
    if (g->compare) json_object_set_new(study, "compare", word(g->compare));
    json_object_set_new(study, "repeats", json_integer(g->repeats));
    json_object_set_new(study, "epochs", json_integer(g->common.config.epochs));
    json_object_set_new(study, "train", recipe(g));
    for (int i = 0; i < c->argc; i++) json_array_append_new(command_line, word(i ? c->argv[i] : "lockstep"));
    json_object_set_new(study, "command", command_line);
    json_object_set_new(study, "host", scale_host());
    return study;
}

// --- what is there already ---------------------------------------------------------------------------------------------

static char *joined(const json_t *words) {
    char *line = NULL;
    size_t size = 0, i;
    FILE *out = open_memstream(&line, &size);
    if (!out) return NULL;
    const json_t *w;
    json_array_foreach(words, i, w) fprintf(out, "%s%s", i ? " " : "", json_string_value(w));
    fclose(out);
    return line;
}

static ls_status other_options(const char *folder, const json_t *old, const json_t *study) {
    char *there = joined(json_object_get(old, "train")), *asked = joined(json_object_get(study, "train"));
    const char *old_mode = json_string_value(json_object_get(old, "mode"));
    ls_status status = LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "%s has a study with other options, %s scaling with %s, and this one is %s scaling with %s: name another "
        "folder with --out, or ask for the same",
        folder, old_mode ? old_mode : "?", there ? there : "?", json_string_value(json_object_get(study, "mode")),
        asked ? asked : "?");
    free(there);
    free(asked);
    return status;
}

// The study that is in the folder, NULL where there is none; one that this one cannot go on with fails.
static ls_status read_old(const char *folder, const json_t *study, json_t **old) {
    *old = NULL;
    char *path;
    if (asprintf(&path, "%s/study.json", folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = LS_OK;
    json_error_t error;
    FILE *file = ls_input_open_small(path, LS_RECORD_MOST);
    if (!file && errno != ENOENT && errno != ENOTDIR)
        status = LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, ls_input_why(errno));
    if (file) {
        *old = json_loadf(file, 0, &error);
        fclose(file);
        if (!*old)
            status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is not JSON: line %d: %s; name another folder with --out", path,
                             error.line, error.text);
        else if (json_integer_value(json_object_get(*old, "lockstep_study")) != LS_STUDY_FORMAT)
            status =
                LS_FAIL(LS_STATUS_BAD_DATA,
                        "%s is not of study format %d, the one this lockstep writes: name another folder with --out",
                        path, LS_STUDY_FORMAT);
        else if (!json_equal(json_object_get(*old, "train"), json_object_get(study, "train")) ||
                 !json_equal(json_object_get(*old, "mode"), json_object_get(study, "mode")))
            status = other_options(folder, *old, study);
    }
    free(path);
    return status;
}

// Runs asked for earlier stay part of the study; it keeps the host it began on.
static void merge(json_t *study, const json_t *old) {
    json_t *runs = json_object_get(study, "runs");
    const json_t *earlier = json_object_get(old, "runs"), *host = json_object_get(old, "host");
    size_t i, j;
    json_t *a, *b;
    json_array_foreach(earlier, i, a) {
        int again = 0;
        json_array_foreach(runs, j, b) again |= json_equal(json_object_get(a, "name"), json_object_get(b, "name"));
        if (!again) json_array_append(runs, a);
    }
    if (host) json_object_set(study, "host", (json_t *)host);
}

// Whether a record is of this command: all words but the program's path and the record's, which may be spelled otherwise.
static int same_command(const json_t *asked, const json_t *ran) {
    size_t skip = strcmp(json_string_value(json_array_get(asked, 0)), "env") == 0 ? 2 : 0;
    size_t count = json_array_size(asked);
    if (json_array_size(ran) != count - skip) return 0;
    for (size_t i = skip + 1; i + 1 < count; i++)
        if (!json_equal(json_array_get(asked, i), json_array_get(ran, i - skip))) return 0;
    return 1;
}

static json_t *load(const char *path) {
    FILE *file = ls_input_open_small(path, LS_RECORD_MOST);
    json_t *root = file ? json_loadf(file, 0, NULL) : NULL;
    if (file) fclose(file);
    return root;
}

json_t *scale_stopped(const char *path) {
    json_t *record = load(path);
    int was = json_is_string(json_object_get(record, "stopped"));
    json_t *where = was ? json_incref(json_object_get(record, "stopped_after")) : NULL;
    json_decref(record);
    return where;
}

static ls_status look_for_record(const scale_plan *p, scale_run *r) {
    char *path;
    LS_TRY(scale_path(p, r, "json", &path));
    if (access(path, F_OK) != 0) {
        free(path);
        return LS_OK;
    }
    json_t *record = load(path);
    ls_status status = LS_OK;
    if (!record)
        status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is not JSON: remove it, and the run is done again", path);
    else if (json_integer_value(json_object_get(record, "lockstep_run")) != LS_RECORD_FORMAT)
        status = LS_FAIL(LS_STATUS_BAD_DATA,
                         "%s is not of record format %d, the one this lockstep reads: name another folder with --out, "
                         "or remove it, and the run is done again",
                         path, LS_RECORD_FORMAT);
    else if (!same_command(json_object_get(r->entry, "command"), json_object_get(record, "command_line")))
        status = LS_FAIL(LS_STATUS_BAD_DATA,
                         "%s is the record of another command: name another folder with --out, or remove it", path);
    json_t *stopped = scale_stopped(path);  // such a run gets another chance
    if (status == LS_OK && !stopped) {
        r->state = SCALE_DONE;
        r->seconds = json_number_value(json_object_get(record, "total_seconds"));
    }
    json_decref(stopped);
    json_decref(record);
    free(path);
    return status;
}

// --- the plan ------------------------------------------------------------------------------------------------------------

ls_status scale_plan_create(const scale_grid *grid, const char *folder, cli *c, scale_plan *out) {
    *out = (scale_plan){.folder = folder, .study = describe(grid, c)};
    json_t *runs = entries(grid, folder), *old = NULL;
    json_object_set_new(out->study, "runs", runs);
    out->count = (int)json_array_size(runs);
    ls_status status;
    LS_TRY_GOTO(ls_calloc(out->count, sizeof *out->runs, &out->runs), fail);
    for (int i = 0; i < out->count; i++) out->runs[i].entry = json_array_get(runs, (size_t)i);
    LS_TRY_GOTO(read_old(folder, out->study, &old), fail);
    for (int i = 0; i < out->count; i++) LS_TRY_GOTO(look_for_record(out, &out->runs[i]), fail);
    if (old) merge(out->study, old);
    json_decref(old);
    return LS_OK;
fail:
    json_decref(old);
    scale_plan_destroy(out);
    return status;
}

void scale_plan_destroy(scale_plan *plan) {
    free(plan->runs);
    json_decref(plan->study);
    *plan = (scale_plan){.count = 0};
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a folder that can be written to with --out", path,
                   strerror(errno));
}

ls_status scale_plan_folders(const scale_plan *plan) {
    char *runs;
    if (asprintf(&runs, "%s/runs", plan->folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = LS_OK;
    if (ls_output_folder(plan->folder) != 0) status = cannot_write(plan->folder);
    if (status == LS_OK && mkdir(runs, 0777) != 0 && errno != EEXIST) status = cannot_write(runs);
    if (status == LS_OK && access(runs, W_OK | X_OK) != 0) status = cannot_write(runs);
    free(runs);
    return status;
}

ls_status scale_plan_write(const scale_plan *plan) {
    char *path;
    if (asprintf(&path, "%s/study.json", plan->folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    // In one move: a study that is there stays readable whatever happens.
    ls_output out;
    int failed = ls_output_open(path, &out) != 0;
    if (!failed) {
        int dumped = json_dumpf(plan->study, out.file, JSON_INDENT(2)) == 0;
        failed = ls_output_close(&out, path, dumped) != 0;
    }
    ls_status status = failed ? cannot_write(path) : LS_OK;
    free(path);
    return status;
}

const char *scale_name(const scale_run *run) { return json_string_value(json_object_get(run->entry, "name")); }

int scale_number(const scale_run *run, const char *key) {
    return (int)json_integer_value(json_object_get(run->entry, key));
}

void scale_describe(const scale_plan *plan, const scale_run *run, char *text, size_t size) {
    int workers = scale_number(run, "workers"), nodes = scale_number(run, "nodes");
    int repeats = (int)json_integer_value(json_object_get(plan->study, "repeats"));
    const char *compared = json_string_value(json_object_get(run->entry, "compared"));
    size_t n = 0;
    ls_text_add(text, size, &n, "%s%s%s, %d worker%s", json_string_value(json_object_get(run->entry, "model")),
                compared ? ", " : "", compared ? compared : "", workers, workers == 1 ? "" : "s");
    if (nodes > 1) ls_text_add(text, size, &n, " on %d nodes", nodes);
    if (repeats > 1) ls_text_add(text, size, &n, ", repeat %d of %d", scale_number(run, "repeat"), repeats);
}

ls_status scale_path(const scale_plan *plan, const scale_run *run, const char *extension, char **out) {
    if (asprintf(out, "%s/runs/%s.%s", plan->folder, scale_name(run), extension) >= 0) return LS_OK;
    *out = NULL;
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
}
