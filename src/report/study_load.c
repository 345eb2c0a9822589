// From files to runs: every run of the given folders and records.
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/text.h"
#include "report/record.h"
#include "report/study_impl.h"
#include "report/study_loss.h"
#include "report/study_machine.h"
#include "report/study_runs.h"

typedef struct loader {
    ls_study_run *runs;
    int count, capacity, source;
    int epochs, labels;    // in study->epochs, study->labels
    char date[2][11];      // the first and the last of the records
    char made_by[256];     // the program and the kernels of the first record
    int64_t most_workers;  // of the record that s->host and s->versions come from
    ls_study *study;
} loader;

static ls_status grow(loader *l, ls_study_run **out) {
    if (l->count == l->capacity) {
        int capacity = l->capacity ? 2 * l->capacity : 16;
        ls_study_run *more = realloc(l->runs, (size_t)capacity * sizeof *more);
        if (!more) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading a study of %d runs", l->count);
        l->runs = more;
        l->capacity = capacity;
    }
    *out = &l->runs[l->count++];
    **out = (ls_study_run){.source = l->source};
    (*out)->lr = NAN;
    (*out)->row.test_loss = (*out)->row.test_accuracy = (*out)->row.rate = NAN;
    (*out)->row.test_area = (*out)->row.test_top_5 = NAN;
    (*out)->row.until_accuracy = (*out)->row.until_seconds = (*out)->row.until_epoch = NAN;
    return LS_OK;
}

// --- one record ------------------------------------------------------------------------------------------------------

static void copy(char *out, size_t size, const json_t *value) {
    const char *text = json_string_value(value);
    snprintf(out, size, "%s", text ? text : "");
}

#define COPY(field, object, key) copy((field), sizeof(field), json_object_get((object), (key)))

static double number(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static double known(double x) { return isfinite(x) ? x : 0; }

static int64_t whole(const json_t *object, const char *key) { return json_integer_value(json_object_get(object, key)); }

// The list over epochs without the first, where there are several: it also warms caches and memory. *first is how many are left
// out. NULL when out of memory.
static double *later_epochs(const json_t *list, int *first, int *count) {
    int all = (int)json_array_size(list);
    *first = all > 1;
    *count = all - *first;
    double *values = calloc((size_t)all + 1, sizeof *values);
    for (int i = 0; values && i < *count; i++)
        values[i] = json_number_value(json_array_get(list, (size_t)(i + *first)));
    return values;
}

static double epochs_median(const json_t *list) {
    int first, count;
    double *values = later_epochs(list, &first, &count);
    if (!values) return NAN;
    double m = ls__median(values, count);
    free(values);
    return m;
}

// What two runs must have in common for their times and weights to be compared: all options but those named here. `grows`: also
// what a batch that grows with the workers changes.
static char *recipe_of(const json_t *record, int grows) {
    static const char *const aside[] = {
        "workers", "replicas", "bind",  "verbose",    "record", "config",      "tensorboard",    "tensorboard-every",
        "metrics", "validate", "trace", "time-limit", "save",   "trace-steps", "loader-threads", NULL};
    static const char *const growing[] = {"batch-size", "limit-train", "lr", NULL};
    json_t *options = json_copy(json_object_get(record, "options"));
    for (int i = 0; aside[i]; i++) json_object_del(options, aside[i]);
    for (int i = 0; grows && growing[i]; i++) json_object_del(options, growing[i]);
    char *text = json_dumps(options, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(options);
    return text;
}

static void set_up(ls_study_row *row, const json_t *record) {
    COPY(row->model, record, "model");
    COPY(row->data, record, "data");
    COPY(row->precision, record, "precision");
    COPY(row->strategy, record, "strategy");
    const char *compress = json_string_value(json_object_get(record, "compress"));
    size_t used = strlen(row->strategy);
    if (compress && strcmp(compress, "none") != 0)  // how they exchanged, too
        snprintf(row->strategy + used, sizeof row->strategy - used, "%s%s",
                 strncmp(compress, "topk", 4) == 0 ? ", " : " in ", compress);
    COPY(row->digest, record, "weights_digest");
    row->by_timing = json_is_true(json_object_get(json_object_get(record, "pushes"), "digest_depends_on_timing"));
    row->workers = (int)whole(record, "workers");
    row->nodes = (int)whole(record, "hosts");
    row->replicas_per_worker = (int)whole(record, "replicas_per_worker");
    row->threads_per_replica = (int)whole(record, "threads_per_replica");
    row->parameters = whole(record, "parameters");
    row->global_batch = whole(record, "global_batch");
    row->micro_batch = whole(record, "micro_batch");
    COPY(row->optimizer, record, "optimizer");
    row->epochs = (int)whole(record, "epochs");
    row->seed = whole(record, "seed");
    row->oversubscribed = json_is_true(json_object_get(record, "oversubscribed"));
    row->train_count = whole(record, "train_count");
    row->test_count = whole(record, "test_count");
    COPY(row->device, json_object_get(record, "versions"), "device");
    const json_t *rate;
    size_t i;
    row->rate = NAN;
    json_array_foreach(json_object_get(record, "epoch_learning_rate"), i, rate) row->rate =
        fmax(row->rate, json_number_value(rate));
}

// The learning curve, whole epochs only.
static ls_status read_curve(loader *l, ls_study_row *row, const json_t *record) {
    const json_t *lists[] = {json_object_get(record, "epoch_loss"), json_object_get(record, "epoch_accuracy"),
                             json_object_get(record, "epoch_val_loss"), json_object_get(record, "epoch_val_accuracy")};
    int epochs = (int)json_array_size(json_object_get(record, "epoch_seconds"));
    row->curve = l->epochs;
    row->curve_epochs = epochs;
    if (epochs == 0) return LS_OK;
    ls_study_epoch *more = realloc(l->study->epochs, (size_t)(l->epochs + epochs) * sizeof *more);
    if (!more) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %d epochs", epochs);
    l->study->epochs = more;
    for (int e = 0; e < epochs; e++) {
        ls_study_epoch *out = &more[l->epochs++];
        double *const fields[] = {&out->loss, &out->accuracy, &out->val_loss, &out->val_accuracy};
        for (int k = 0; k < 4; k++) {
            const json_t *x = json_array_get(lists[k], (size_t)e);
            *fields[k] = json_is_number(x) ? json_number_value(x) : NAN;
        }
    }
    return LS_OK;
}

static void read_layers(ls_study_row *row, const json_t *record) {
    const json_t *layer;
    size_t i;
    json_array_foreach(json_object_get(record, "slowest_layers"), i, layer) {
        if (i == LS_STUDY_LAYERS) return;
        COPY(row->layer[i].name, layer, "name");
        row->layer[i].seconds = known(number(layer, "seconds"));
        row->layer[i].share = known(number(layer, "share"));
        row->layer_count = (int)i + 1;
    }
}

static void measured(ls_study_row *row, const json_t *record) {
    const json_t *seconds = json_object_get(record, "epoch_seconds");
    row->read_seconds = known(number(record, "read_seconds"));
    row->step_seconds_median = known(number(record, "step_seconds_median"));
    row->total_seconds = known(number(record, "total_seconds"));
    row->epoch_seconds = known(epochs_median(seconds));
    row->first_epoch_seconds = known(json_number_value(json_array_get(seconds, 0)));
    row->images_per_second = known(epochs_median(json_object_get(record, "epoch_images_per_second")));
    row->test_loss = number(record, "test_loss");
    row->test_accuracy = number(record, "test_accuracy");
    row->test_top_5 = number(record, "test_top_5_accuracy");
    int first, count;
    double *epochs = later_epochs(seconds, &first, &count);
    ls__phases_read(row, record, epochs, epochs ? count : 0, first);
    free(epochs);
    row->peak_rss_bytes = whole(record, "peak_rss_bytes");
    row->planned_bytes = whole(record, "planned_bytes");
    row->until_accuracy = number(record, "until_accuracy");
    row->until_seconds = number(record, "until_seconds");
    row->until_epoch = number(record, "until_epoch");
    row->repeats = 1;
}

// A run that its time limit ended: its whole epochs took as long as they took, but what came out is that of less training. Without a
// whole epoch it tells nothing.
static void note_stop(ls_study_row *row, const json_t *record) {
    const json_t *where = json_object_get(record, "stopped_after");
    const char *why = json_string_value(json_object_get(record, "stopped"));
    if (!why) return;
    snprintf(row->reason, sizeof row->reason, "stopped by its %s after step %lld of %lld in epoch %lld", why,
             (long long)whole(where, "step"), (long long)whole(where, "steps"), (long long)whole(where, "epoch"));
    row->test_loss = row->test_accuracy = row->test_top_5 = row->total_seconds = NAN;
    row->digest[0] = 0;
    row->stopped = row->epochs > 0;
    row->failed = !row->stopped;
    row->repeats = row->stopped;
}

// From the first record with the most workers: one worker alone knows nothing of MPI.
static void note_where(loader *l, const json_t *record) {
    ls_study *s = l->study;
    if (whole(record, "workers") <= l->most_workers) return;
    l->most_workers = whole(record, "workers");
    const json_t *versions = json_object_get(record, "versions");
    static const char *const keys[] = {"lockstep", "device", "communicator", "compiler", "system"};
    COPY(s->host, record, "host");
    size_t used = 0;
    for (int i = 0; i < 5; i++) {
        const char *text = json_string_value(json_object_get(versions, keys[i]));
        if (!text || !*text) continue;
        ls_text_add(s->versions, sizeof s->versions, &used, "%s%s%s", used ? "; " : "", i ? "" : "Lockstep ", text);
    }
}

// Times and weights of different programs are not those of the same work.
static void note_program(loader *l, const json_t *record) {
    const json_t *versions = json_object_get(record, "versions");
    const char *program = json_string_value(json_object_get(versions, "lockstep"));
    const char *device = json_string_value(json_object_get(versions, "device"));
    char made_by[sizeof l->made_by];
    if (!program) return;
    snprintf(made_by, sizeof made_by, "Lockstep %.30s%s%.180s", program, device ? " with " : "", device ? device : "");
    if (!l->made_by[0])
        memcpy(l->made_by, made_by, sizeof made_by);
    else if (strcmp(l->made_by, made_by) != 0 && !l->study->programs[0])
        snprintf(l->study->programs, sizeof l->study->programs, "%s; %s", l->made_by, made_by);
}

static int plain(const char *word) {
    return *word &&
           strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") == strlen(word);
}

// The words of a command as a line for a shell, added to what there is. The program is named without its folder.
static ls_status note_command(ls_study *s, const json_t *words) {
    char *line = NULL;
    size_t size = 0, i;
    FILE *out = open_memstream(&line, &size);
    if (!out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    fputs(s->commands ? s->commands : "", out);
    json_t *item;
    json_array_foreach(words, i, item) {
        const char *word = json_string_value(item), *slash = word && i == 0 ? strrchr(word, '/') : NULL;
        if (!word) continue;
        if (slash) word = slash + 1;
        if (i) fputc(' ', out);
        if (plain(word)) {
            fputs(word, out);
            continue;
        }
        fputc('\'', out);
        for (const char *c = word; *c; c++) fputs(*c == '\'' ? "'\\''" : (char[]){*c, 0}, out);
        fputc('\'', out);
    }
    fputc('\n', out);
    if (fclose(out) != 0 || !line) {
        free(line);
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    }
    free(s->commands);
    s->commands = line;
    return LS_OK;
}

// Dates as they are written, year first, are in order as texts.
static void note_date(loader *l, const json_t *record) {
    char date[11];
    COPY(date, record, "date");
    if (strlen(date) != 10) return;
    if (!l->date[0][0] || strcmp(date, l->date[0]) < 0) memcpy(l->date[0], date, sizeof date);
    if (strcmp(date, l->date[1]) > 0) memcpy(l->date[1], date, sizeof date);
    int one = strcmp(l->date[0], l->date[1]) == 0;
    snprintf(l->study->dates, sizeof l->study->dates, "%s%s%s", l->date[0], one ? "" : " to ", one ? "" : l->date[1]);
}

static ls_status add_record(loader *l, const char *path, const json_t *record, ls_study_run **out) {
    const json_t *format = json_object_get(record, "lockstep_run");
    if (!json_is_integer(format))
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s is not the record of a run: it has no \"lockstep_run\"; 'lockstep train --record FILE' writes one",
            path);
    if (json_integer_value(format) != LS_RECORD_FORMAT)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s is a record of format %lld, and this lockstep reads format %d: use the lockstep that wrote it, "
            "or run it again",
            path, (long long)json_integer_value(format), LS_RECORD_FORMAT);
    static const char *const needed[] = {"model", "weights_digest", "epoch_seconds", "options"};
    for (size_t i = 0; i < sizeof needed / sizeof needed[0]; i++)
        if (!json_object_get(record, needed[i]))
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s is not a whole record: it has no \"%s\"; run it again", path,
                           needed[i]);
    if (whole(record, "workers") < 1 || whole(record, "workers") > INT_MAX)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is not a whole record: \"workers\" is not a number of workers", path);
    ls_study_run *r;
    LS_TRY(grow(l, &r));
    set_up(&r->row, record);
    measured(&r->row, record);
    note_stop(&r->row, record);
    LS_TRY(read_curve(l, &r->row, record));
    LS_TRY(ls__labels_read(l->study, &l->labels, &r->row, record));
    read_layers(&r->row, record);
    r->recipe = recipe_of(record, 0);
    r->core = recipe_of(record, 1);
    r->lr = number(json_object_get(record, "options"), "lr");
    if (!r->recipe || !r->core) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %s", path);
    note_where(l, record);
    note_date(l, record);
    note_program(l, record);
    *out = r;
    return LS_OK;
}

static ls_status read_json(const char *path, json_t **out) {
    json_error_t error;
    FILE *file = ls_input_open_small(path, LS_RECORD_MOST);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       ls_input_why(errno));
    *out = json_loadf(file, 0, &error);
    fclose(file);
    if (!*out)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is not JSON: line %d: %s; it is no record of a run and no study", path,
                       error.line, error.text);
    return LS_OK;
}

static ls_status load_record(loader *l, const char *path) {
    json_t *record;
    LS_TRY(read_json(path, &record));
    ls_study_run *r;
    ls_status status = add_record(l, path, record, &r);
    const json_t *command = json_object_get(record, "command_line");
    if (status == LS_OK && json_array_size(command) > 0) status = note_command(l->study, command);
    json_decref(record);
    return status;
}

// --- a study's folder ------------------------------------------------------------------------------------------------

// The sentence in NAME.failed, or 0 where there is none.
static int read_reason(const char *folder, const char *name, char *out, size_t size) {
    char *path;
    if (asprintf(&path, "%s/runs/%s.failed", folder, name) < 0) return 0;
    FILE *file = ls_input_open(path);
    free(path);
    if (!file) return 0;
    if (!fgets(out, (int)size, file)) snprintf(out, size, "it failed");
    fclose(file);
    out[strcspn(out, "\n")] = 0;
    return 1;
}

// The run's name without its repeat.
static void name_configuration(ls_study_run *r, const char *name) {
    snprintf(r->name, sizeof r->name, "%s", name);
    char *repeat = strrchr(r->name, '-');
    if (repeat && repeat[1] == 'r') *repeat = 0;
}

// A run that was asked for: its record, or why there is none; nothing when it is still to come.
static ls_status load_run(loader *l, const char *folder, const json_t *study, const json_t *asked) {
    const char *name = json_string_value(json_object_get(asked, "name"));
    if (!name)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s/study.json has a run without a name: it was changed by hand", folder);
    char *path, reason[sizeof l->runs->row.reason];
    if (asprintf(&path, "%s/runs/%s.json", folder, name) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    json_t *record = NULL;
    ls_study_run *r = NULL;
    ls_status status = LS_OK;
    struct stat there;
    int failed = 0;
    if (stat(path, &there) == 0) {
        status = read_json(path, &record);
        if (status == LS_OK) status = add_record(l, path, record, &r);
        json_decref(record);
        failed = status == LS_STATUS_BAD_DATA;  // the other runs are worth reporting all the same
        if (failed) snprintf(reason, sizeof reason, "%s", ls_error_message());
    } else {
        failed = read_reason(folder, name, reason, sizeof reason);
    }
    if (failed) {
        status = grow(l, &r);
        if (status == LS_OK) {
            COPY(r->row.model, asked, "model");
            COPY(r->row.recipe, asked, "compared");
            snprintf(r->row.reason, sizeof r->row.reason, "%s", reason);
            r->row.workers = (int)whole(asked, "workers");
            r->row.global_batch = whole(asked, "batch_size");
            r->row.failed = 1;
        }
    }
    if (status == LS_OK && r) {
        int nodes = (int)whole(asked, "nodes");
        double cores = (double)whole(json_object_get(study, "host"), "cores") * (nodes > 1 ? nodes : 1);
        double threads = (double)r->row.workers * r->row.replicas_per_worker * r->row.threads_per_replica;
        if (cores > 0 && threads > cores) r->row.oversubscribed = 1;
        r->row.nodes = nodes;
        r->repeat = (int)whole(asked, "repeat");
        name_configuration(r, name);
    }
    free(path);
    return status;
}

// What a run without a record was to be, as other runs of its study tell: those of its own configuration everything, others of its
// network what all have in common. Without the former it has a recipe of its own, so that it stays a row of its own.
static ls_status complete_failed(loader *l, int from) {
    for (int i = from; i < l->count; i++) {
        ls_study_run *r = &l->runs[i];
        const ls_study_run *like = NULL;
        if (r->recipe) continue;
        for (int j = from; j < l->count; j++) {
            const ls_study_run *other = &l->runs[j];
            if (!other->recipe || other->row.failed || strcmp(other->row.model, r->row.model) != 0) continue;
            if (!like || strcmp(other->name, r->name) == 0) like = other;
        }
        int own = like && strcmp(like->name, r->name) == 0;
        r->recipe = strdup(own ? like->recipe : r->name);
        if (!r->recipe) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
        if (!like) continue;
        const ls_study_row *other = &like->row;
        memcpy(r->row.data, other->data, sizeof r->row.data);
        memcpy(r->row.precision, other->precision, sizeof r->row.precision);
        memcpy(r->row.strategy, other->strategy, sizeof r->row.strategy);
        r->row.replicas_per_worker = other->replicas_per_worker;
        r->row.threads_per_replica = other->threads_per_replica;
        r->row.parameters = other->parameters;
        r->row.epochs = other->epochs;
        r->row.seed = other->seed;
        memcpy(r->row.optimizer, other->optimizer, sizeof r->row.optimizer);
    }
    return LS_OK;
}

static ls_status load_study(loader *l, const char *folder, const char *file) {
    json_t *study;
    LS_TRY(read_json(file, &study));
    const json_t *format = json_object_get(study, "lockstep_study"), *runs = json_object_get(study, "runs");
    ls_status status = LS_OK;
    int from = l->count;
    int64_t most_workers = l->most_workers;
    if (!json_is_integer(format) || json_integer_value(format) != LS_STUDY_FORMAT)
        LS_FAIL_GOTO(
            LS_STATUS_BAD_DATA, done,
            "%s is not of study format %d, the one this lockstep reads: use the lockstep that made the study, or "
            "make it again in another folder",
            file, LS_STUDY_FORMAT);
    if (!json_is_string(json_object_get(study, "mode")) || !json_is_array(runs))
        LS_FAIL_GOTO(LS_STATUS_BAD_DATA, done, "%s lacks \"mode\" or \"runs\": it was changed by hand", file);
    size_t i;
    json_t *asked;
    json_array_foreach(runs, i, asked) LS_TRY_GOTO(load_run(l, folder, study, asked), done);
    LS_TRY_GOTO(complete_failed(l, from), done);
    if (json_array_size(json_object_get(study, "command")) > 0)
        LS_TRY_GOTO(note_command(l->study, json_object_get(study, "command")), done);
    if (l->most_workers > most_workers) {
        COPY(l->study->cpu, json_object_get(study, "host"), "cpu");
        ls__machine_text(json_object_get(study, "host"), l->study->machine, sizeof l->study->machine);
    }
done:
    json_decref(study);
    return status;
}

static ls_status load_path(loader *l, const char *path) {
    struct stat there;
    if (stat(path, &there) != 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       strerror(errno));
    if (!S_ISDIR(there.st_mode)) return load_record(l, path);
    char *file;
    if (asprintf(&file, "%s%sstudy.json", path, path[strlen(path) - 1] == '/' ? "" : "/") < 0)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = LS_OK;
    if (stat(file, &there) != 0)
        status =
            LS_FAIL(LS_STATUS_NOT_FOUND,
                    "%s is not a study: it has no study.json; 'lockstep scale MODEL --out %s' makes one", path, path);
    else
        status = load_study(l, path, file);
    free(file);
    return status;
}

// --- all of it -------------------------------------------------------------------------------------------------------

// "mnist-cnn and resnet50v2: strong scaling", by what is compared in it.
static ls_status make_title(ls_study *s) {
    static const char *const scaling[LS_COMPARISONS] = {"", "strong scaling", "a batch that grows with the workers",
                                                        "weak scaling"};
    char what[160] = "", *title = NULL;
    size_t size;
    FILE *out = open_memstream(&title, &size);
    if (!out) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    for (int i = 0; i < s->row_count; i++) {
        const ls_study_row *row = &s->rows[i];
        if (i && strcmp(row->model, s->rows[i - 1].model) == 0) continue;
        int last = 1;
        for (int j = i + 1; j < s->row_count; j++) last &= strcmp(s->rows[j].model, row->model) == 0;
        fprintf(out, "%s%s", !i ? "" : last ? " and " : ", ", row->model);
    }
    for (int c = LS_COMPARED_NOT + 1; c < LS_COMPARISONS; c++) {
        int there = 0;
        size_t used = strlen(what);
        for (int i = 0; i < s->row_count; i++) there |= s->rows[i].compared == (ls_comparison)c;
        if (there) snprintf(what + used, sizeof what - used, "%s%s", used ? ", " : "", scaling[c]);
    }
    if (!what[0])
        snprintf(what, sizeof what, s->row_count == 1 ? "one configuration" : "%d configurations", s->row_count);
    fprintf(out, ": %s", what);
    if (fclose(out) != 0) {
        free(title);
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    }
    s->title = title;
    return LS_OK;
}

ls_status ls_study_load(const char *const *paths, int count, ls_study **out) {
    loader l = {.count = 0};
    ls_status status = LS_OK;
    LS_TRY(ls_calloc(1, sizeof *l.study, &l.study));
    for (l.source = 0; l.source < count; l.source++) LS_TRY_GOTO(load_path(&l, paths[l.source]), done);
    if (l.count == 0)
        LS_FAIL_GOTO(LS_STATUS_NOT_FOUND, done, "%s has no finished run yet: run 'lockstep scale' again, it goes on",
                     count ? paths[0] : "nothing");
    LS_TRY_GOTO(ls__study_rows(l.runs, l.count, l.study), done);
    status = make_title(l.study);
done:
    for (int i = 0; i < l.count; i++) {
        free(l.runs[i].recipe);
        free(l.runs[i].core);
    }
    free(l.runs);
    if (status == LS_OK)
        *out = l.study;
    else
        ls_study_free(&l.study);
    return status;
}

void ls_study_free(ls_study **study) {
    ls_study *s = *study;
    if (!s) return;
    free(s->title);
    free(s->commands);
    free(s->epochs);
    free(s->labels);
    free(s->rows);
    free(s);
    *study = NULL;
}
