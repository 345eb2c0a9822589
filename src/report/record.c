#define _GNU_SOURCE
#include "report/record.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "base/error.h"
#include "base/input.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/output.h"

// JSON has no NaN: a number that is not known is null.
#define MOST_LAYERS 8  // in a record

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *text(const char *s) {
    json_t *j = json_string(s ? s : "");
    return j ? j : json_string("(not UTF-8)");
}

static json_t *option_value(const ls_option *o, const void *values) {
    char buffer[64];
    const char *field = (const char *)values + o->offset, *word = ls_option_text(o, values, buffer, sizeof buffer);
    switch (o->type) {
    case LS_OPTION_FLAG: return json_boolean(*(const int *)field);
    case LS_OPTION_INT:
    case LS_OPTION_COUNT:
    case LS_OPTION_SEED: return json_integer(strtoll(word, NULL, 10));
    case LS_OPTION_REAL: return real(*(const double *)field);
    case LS_OPTION_TEXT: break;
    }
    return *word ? text(word) : json_null();
}

// The options as an object that --config reads back: those still at "unset" (an empty text, a negative number that stands for
// the optimizer's own) are null there.
static json_t *options(const ls_option_set *sets) {
    json_t *all = json_object();
    for (const ls_option_set *s = sets; s->table; s++)
        for (const ls_option *o = s->table; o->name; o++) {
            json_t *value = option_value(o, s->values);
            int unset = json_is_number(value) && json_number_value(value) < o->min;
            if (unset) {
                json_decref(value);
                value = json_null();
            }
            json_object_set_new(all, o->name, value);
        }
    return all;
}

static int is_whole(const ls_train_result *r, const ls_epoch_result *e) { return e->steps >= r->steps_per_epoch; }

// The double at `offset` of each whole epoch; null where it is known of none of them.
static json_t *epochs(const ls_train_result *r, size_t offset) {
    json_t *list = json_array();
    int whole = 0, known = 0;
    for (int i = 0; i < r->epochs; i++) {
        double x = *(const double *)((const char *)&r->epoch[i] + offset);
        if (!is_whole(r, &r->epoch[i])) continue;
        json_array_append_new(list, real(x));
        whole++;
        known += isfinite(x) != 0;
    }
    if (known || !whole) return list;
    json_decref(list);
    return json_null();
}

static void add_epochs(json_t *o, const ls_train_result *r) {
    static const struct {
        const char *key;
        size_t offset;
    } lists[] = {{"epoch_seconds", offsetof(ls_epoch_result, seconds)},
                 {"epoch_loss", offsetof(ls_epoch_result, loss)},
                 {"epoch_accuracy", offsetof(ls_epoch_result, accuracy)},
                 {"epoch_images_per_second", offsetof(ls_epoch_result, images_per_second)},
                 {"epoch_learning_rate", offsetof(ls_epoch_result, learning_rate)},
                 {"epoch_val_loss", offsetof(ls_epoch_result, val_loss)},
                 {"epoch_val_accuracy", offsetof(ls_epoch_result, val_accuracy)},
                 {"epoch_val_seconds", offsetof(ls_epoch_result, val_seconds)}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        json_object_set_new(o, lists[i].key, epochs(r, lists[i].offset));
    json_object_set_new(o, "epochs", json_integer((json_int_t)json_array_size(json_object_get(o, "epoch_seconds"))));
}

// Why training ended before its time, and where; of an epoch that was cut short the numbers are here alone.
static void add_stop(json_t *o, const ls_record_info *info) {
    const ls_train_result *r = info->result;
    json_object_set_new(o, "stopped", info->stopped ? text(info->stopped) : json_null());
    json_t *where = info->stopped && r->epochs > 0 ? json_object() : json_null();
    if (json_is_object(where)) {
        const ls_epoch_result *e = &r->epoch[r->epochs - 1];
        json_object_set_new(where, "epoch", json_integer(e->epoch));
        json_object_set_new(where, "step", json_integer(e->steps));
        json_object_set_new(where, "steps", json_integer(r->steps_per_epoch));
        json_object_set_new(where, "seconds", real(e->seconds));
        json_object_set_new(where, "loss", real(e->loss));
        json_object_set_new(where, "accuracy", real(e->accuracy));
    }
    json_object_set_new(o, "stopped_after", where);
}

static const struct {
    const char *name;
    size_t at;
} phases[] = {
    {"load", offsetof(ls_phase_seconds, load)},         {"forward", offsetof(ls_phase_seconds, forward)},
    {"backward", offsetof(ls_phase_seconds, backward)}, {"exchange", offsetof(ls_phase_seconds, exchange)},
    {"wait", offsetof(ls_phase_seconds, wait)},         {"update", offsetof(ls_phase_seconds, update)},
    {"serial", offsetof(ls_phase_seconds, serial)},
};
enum { PHASES = sizeof phases / sizeof phases[0] };

static double phase(const ls_phase_seconds *p, int i) { return *(const double *)((const char *)p + phases[i].at); }

static json_t *phases_of(const ls_phase_seconds *p) {
    json_t *o = json_object();
    for (int i = 0; i < PHASES; i++) json_object_set_new(o, phases[i].name, real(phase(p, i)));
    return o;
}

// By phase a list over epochs: of the mean over replicas, or of the most.
static json_t *phases_of_epochs(const ls_train_result *r, int most) {
    json_t *o = json_object();
    for (int i = 0; i < PHASES; i++) {
        json_t *list = json_array();
        for (int e = 0; e < r->epochs; e++)
            if (is_whole(r, &r->epoch[e]))
                json_array_append_new(list, real(phase(most ? &r->epoch[e].most : &r->epoch[e].mean, i)));
        json_object_set_new(o, phases[i].name, list);
    }
    return o;
}

static void add_phases(json_t *o, const ls_train_result *r) {
    json_t *per_step = phases_of(&r->phases), *workers = json_array();
    // "exchange" has counted the waiting since the first version of the record.
    json_object_set_new(per_step, "exchange", real(r->phases.exchange + r->phases.wait));
    json_object_set_new(o, "phases", per_step);
    json_object_set_new(o, "epoch_phases", phases_of_epochs(r, 0));
    json_object_set_new(o, "epoch_phases_most", phases_of_epochs(r, 1));
    for (int w = 0; r->worker_phases && w < r->workers; w++)
        json_array_append_new(workers, phases_of(&r->worker_phases[w]));
    json_object_set_new(o, "worker_phases", workers);
}

// A number for each channel of the images; null where they were not measured.
static json_t *channels(const ls_train_result *r, const double *values) {
    if (!values) return json_null();
    json_t *list = json_array();
    for (int64_t c = 0; c < r->image.dim[2]; c++) json_array_append_new(list, real(values[c]));
    return list;
}

static void add_environment(json_t *o, const ls_record_info *info) {
    json_t *command = json_array();
    for (char *const *a = info->argv; a && *a; a++) json_array_append_new(command, text(*a));
    json_object_set_new(o, "command_line", command);
    struct utsname system;
    uname(&system);
    char date[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    json_object_set_new(o, "date", text(date));
    json_object_set_new(o, "host", text(system.nodename));
    json_object_set_new(o, "hosts", json_integer(info->result->hosts));
    json_t *versions = json_object();
    json_object_set_new(versions, "lockstep", text(ls_version()));
    json_object_set_new(versions, "device", text(info->result->device_description));
    json_object_set_new(versions, "communicator", text(info->result->comm_description));
    json_object_set_new(versions, "compiler", text(info->compiler));
    char os[sizeof system.sysname + sizeof system.release + sizeof system.machine + 4];
    snprintf(os, sizeof os, "%s %s %s", system.sysname, system.release, system.machine);
    json_object_set_new(versions, "system", text(os));
    json_object_set_new(o, "versions", versions);
}

static void add_setup(json_t *o, const ls_record_info *info) {
    const ls_train_config *c = info->config;
    const ls_train_result *r = info->result;
    json_object_set_new(o, "model", text(info->model));
    if (info->network) json_object_set_new(o, "network", text(info->network));
    json_object_set_new(o, "parameters", json_integer(info->parameters));
    json_object_set_new(o, "data", text(info->data));
    json_object_set_new(o, "train_count", json_integer(info->train_count));
    json_object_set_new(o, "test_count", json_integer(info->test_count));
    json_object_set_new(o, "workers", json_integer(r->workers));
    json_object_set_new(o, "servers", json_integer(r->servers));
    json_object_set_new(o, "replicas_per_worker", json_integer(r->replicas_per_worker));
    json_object_set_new(o, "threads_per_replica", json_integer(r->threads_per_replica));
    json_object_set_new(o, "replicas_reason", text(r->replicas_reason));
    json_object_set_new(o, "cores_per_worker", json_integer(r->cores_per_worker));
    json_object_set_new(o, "idle_cores", json_integer(r->idle_cores));
    json_object_set_new(o, "oversubscribed", json_boolean(r->oversubscribed));
    json_object_set_new(o, "comm_cores", json_integer(r->comm_cores));
    json_object_set_new(o, "buckets", json_integer(r->buckets));
    json_object_set_new(o, "exchange_hidden", real(r->exchange_hidden));
    if (r->tuned && *r->tuned)
        json_object_set_new(o, "tuned",
                            json_pack("{s:s,s:o,s:o,s:o}", "source", r->tuned, "bucket_megabytes",
                                      real(r->bucket_megabytes), "bucket_seconds", real(r->bucket_seconds),
                                      "bytes_per_second", real(r->exchange_bytes_per_second)));
    json_object_set_new(o, "global_batch", json_integer(r->global_batch));
    json_object_set_new(o, "micro_batch", json_integer(r->micro_batch));
    json_t *image = json_array();
    for (int d = 0; d < r->image.ndim; d++) json_array_append_new(image, json_integer(r->image.dim[d]));
    json_object_set_new(o, "image", image);
    json_object_set_new(o, "channel_mean", channels(r, r->channel_mean));
    json_object_set_new(o, "channel_deviation", channels(r, r->channel_deviation));
    json_object_set_new(o, "precision", text(c->precision));
    json_object_set_new(o, "strategy", text(c->strategy));
    json_object_set_new(o, "compress", text(c->compress));
    json_object_set_new(o, "async", json_boolean(c->async));
    json_object_set_new(o, "algorithm", r->algorithm && *r->algorithm ? text(r->algorithm) : json_null());
    json_object_set_new(o, "optimizer", text(c->optimizer));
    json_object_set_new(o, "weight_decay", real(r->weight_decay));
    json_object_set_new(o, "weight_decay_form", text(r->weight_decay_form));
    json_object_set_new(o, "l2", real(r->l2));
    json_object_set_new(o, "seed", json_integer((json_int_t)c->seed));
    json_object_set_new(o, "options", options(info->options));
}

static void add_checkpoints(json_t *o, const ls_record_info *info) {
    const ls_checkpoint_costs *c = info->checkpoints;
    json_object_set_new(o, "resumed_from", info->resumed_from ? text(info->resumed_from) : json_null());
    if (!c) return;
    json_object_set_new(o, "checkpoints",
                        json_pack("{s:i,s:i,s:o,s:I}", "written", c->written, "failed", c->failed, "pause_seconds",
                                  real(c->pause), "bytes", (json_int_t)c->bytes));
}

static void add_results(json_t *o, const ls_record_info *info) {
    const ls_train_config *c = info->config;
    const ls_train_result *r = info->result;
    add_epochs(o, r);
    int64_t skipped = 0;
    for (int i = 0; i < r->epochs; i++) skipped += r->epoch[i].skipped;
    json_object_set_new(o, "steps_skipped", json_integer((json_int_t)skipped));
    if ((r->loss_scale > 0 && r->loss_scale != 1) || r->loss_scale_dynamic) {
        json_object_set_new(o, "loss_scale", real(r->loss_scale));
        json_object_set_new(o, "epoch_loss_scale", epochs(r, offsetof(ls_epoch_result, loss_scale)));
    }
    json_object_set_new(o, "samples_replaced", json_integer((json_int_t)r->samples_replaced));
    json_object_set_new(o, "loader_threads", json_integer(r->loader_threads));
    json_object_set_new(o, "loader_threads_measured", json_boolean(r->loader_threads_measured));
    add_stop(o, info);
    int asked = info->until_accuracy > 0, reached = info->until_epoch > 0;
    json_object_set_new(o, "until_accuracy", asked ? real(info->until_accuracy) : json_null());
    json_object_set_new(o, "until_epoch", reached ? json_integer(info->until_epoch) : json_null());
    json_object_set_new(o, "until_seconds", reached ? real(info->until_seconds) : json_null());
    json_object_set_new(o, "read_seconds", real(info->read_seconds));
    json_object_set_new(o, "step_seconds_median", real(r->step_seconds_median));
    json_object_set_new(o, "epoch_seconds_median", real(r->epoch_seconds_median));
    json_object_set_new(o, "images_per_second", real(r->images_per_second));
    if (info->tokens) json_object_set_new(o, "tokens_per_second", real(r->images_per_second * (double)info->tokens));
    if (!isnan(info->train_perplexity)) json_object_set_new(o, "train_perplexity", real(info->train_perplexity));
    if (!isnan(info->test_perplexity)) json_object_set_new(o, "test_perplexity", real(info->test_perplexity));
    if (!isnan(info->train_top_5)) json_object_set_new(o, "train_top_5_accuracy", real(info->train_top_5));
    if (!isnan(info->test_top_5)) json_object_set_new(o, "test_top_5_accuracy", real(info->test_top_5));
    json_object_set_new(o, "train_loss", real(r->train_loss));
    json_object_set_new(o, "train_accuracy", real(r->train_accuracy));
    json_object_set_new(o, "test_loss", info->evaluated ? real(r->test_loss) : json_null());
    json_object_set_new(o, "test_accuracy", info->evaluated ? real(r->test_accuracy) : json_null());
    json_object_set_new(o, "train_seconds", real(r->train_seconds));
    json_object_set_new(o, "evaluate_seconds", real(r->evaluate_seconds));
    json_object_set_new(o, "first_step_seconds", real(info->first_step_seconds));
    json_object_set_new(o, "total_seconds", real(info->total_seconds));
    json_object_set_new(o, "peak_rss_bytes", json_integer(r->peak_rss_bytes));
    json_object_set_new(o, "planned_bytes", json_integer(r->planned_bytes));
    json_object_set_new(o, "weights_digest", text(r->weights_digest));
    if (c->async)
        json_object_set_new(o, "pushes",
                            json_pack("{s:I,s:o,s:I,s:b}", "applied", (json_int_t)r->pushes, "staleness_mean",
                                      real(r->staleness_mean), "staleness_largest", (json_int_t)r->staleness_largest,
                                      "digest_depends_on_timing", r->digest_by_timing));
    if (r->probe[0]) json_object_set_new(o, "probe", text(r->probe));
    add_phases(o, r);
}

static double rounded(double x) { return round(1e6 * x) / 1e6; }

// Of several labels, on the test set: areas in full, curves to six digits.
static void add_labels(json_t *o, const ls_record_info *info) {
    json_t *list = json_array();
    if (!info->roc) {
        json_decref(list);
        return;
    }
    for (int i = 0; i < info->labels; i++) {
        const ls_roc *r = &info->roc[i];
        json_t *curve = isnan(r->area) ? json_null() : json_array(), *one = json_object();
        for (int k = 0; k <= LS_ROC_STEPS; k++) json_array_append_new(curve, real(rounded(r->curve[k])));
        json_object_set_new(one, "name", text(r->name));
        json_object_set_new(one, "samples", json_integer((json_int_t)r->there));
        json_object_set_new(one, "area", real(r->area));
        json_object_set_new(one, "precision", real(ls_roc_precision(r)));
        json_object_set_new(one, "recall", real(ls_roc_recall(r)));
        json_object_set_new(one, "curve", curve);
        json_array_append_new(list, one);
    }
    json_object_set_new(o, "test_area", real(ls_roc_mean_area(info->roc, info->labels)));
    json_object_set_new(o, "epoch_val_area", epochs(info->result, offsetof(ls_epoch_result, val_area)));
    json_object_set_new(o, "labels", list);
}

// Whole epochs' numbers of one of several losses; null where none of them is known.
static json_t *loss_epochs(const ls_train_result *r, const double *values) {
    json_t *list = json_array();
    int known = 0;
    for (int i = 0; i < r->epochs; i++) {
        if (!is_whole(r, &r->epoch[i])) continue;
        json_array_append_new(list, real(values[r->epoch[i].epoch - 1]));
        known += isfinite(values[r->epoch[i].epoch - 1]) != 0;
    }
    if (known) return list;
    json_decref(list);
    return json_null();
}

static void add_losses(json_t *o, const ls_record_info *info) {
    if (info->loss_count == 0) return;
    json_t *list = json_array();
    for (int i = 0; i < info->loss_count; i++) {
        const ls_record_loss *l = &info->losses[i];
        json_t *one = json_object();
        json_object_set_new(one, "name", text(l->name));
        json_object_set_new(one, "epoch_loss", loss_epochs(info->result, l->train));
        json_object_set_new(one, "epoch_val_loss", loss_epochs(info->result, l->val));
        json_object_set_new(one, "test_loss", real(l->test));
        json_array_append_new(list, one);
    }
    json_object_set_new(o, "losses", list);
}

// Of the recorded steps: those layers and passes that took most.
static void add_layers(json_t *o, const ls_record_info *info) {
    json_t *list = json_array();
    for (int i = 0; i < info->layer_count && i < MOST_LAYERS; i++)
        json_array_append_new(list, json_pack("{s:o,s:o,s:o}", "name", text(info->layers[i].name), "seconds",
                                              real(info->layers[i].seconds), "share", real(info->layers[i].share)));
    json_object_set_new(o, "slowest_layers", info->layers ? list : json_null());
    if (!info->layers) json_decref(list);
}

static char *dump(const ls_record_info *info) {
    json_t *o = json_object();
    json_object_set_new(o, "lockstep_run", json_integer(LS_RECORD_FORMAT));
    add_setup(o, info);
    add_results(o, info);
    add_labels(o, info);
    add_losses(o, info);
    add_layers(o, info);
    add_checkpoints(o, info);
    add_environment(o, info);
    char *json = ls_json_shorten(json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(17)));
    json_decref(o);
    return json;
}

ls_status ls_record_print(FILE *out, const ls_record_info *info) {
    char *json = dump(info);
    if (!json) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while writing the run's record");
    int failed = fprintf(out, "%s\n", json) < 0 || fflush(out);
    free(json);
    if (failed) return LS_FAIL(LS_STATUS_IO, "cannot write the run's record: %s", strerror(errno));
    return LS_OK;
}

ls_status ls_recipe_text(const char *model, const char *data, const ls_option_set *sets, char **out) {
    json_t *o = json_object();
    json_object_set_new(o, "model", text(model));
    json_object_set_new(o, "data", text(data));
    json_t *all = options(sets);
    json_object_update(o, all);
    json_decref(all);
    *out = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(o);
    return *out ? LS_OK : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write the record %s: %s; name a file in a folder that can be written to", path,
                   strerror(errno));
}

ls_status ls_record_check(const char *path) { return ls_output_check(path) == 0 ? LS_OK : cannot_write(path); }

ls_status ls_record_write(const char *path, const ls_record_info *info) {
    ls_output output;
    if (ls_output_open(path, &output) != 0) return cannot_write(path);
    ls_status status = ls_record_print(output.file, info);
    int failed = ls_output_close(&output, path, status == LS_OK);
    return status == LS_OK && failed ? cannot_write(path) : status;
}

// One value of a config file as the text that the command line would have for it. Returns NULL for what no option takes.
static json_t *config_text(const json_t *value) {
    if (json_is_string(value)) return json_string(json_string_value(value));
    if (json_is_boolean(value)) return json_string(json_is_true(value) ? "true" : "false");
    if (json_is_integer(value)) return json_sprintf("%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) return json_sprintf("%.17g", json_real_value(value));
    return NULL;
}

// `texts` keeps what the options will point to.
static ls_status config_entry(const char *name, const json_t *value, const ls_option_set *sets, const char **model,
                              json_t *texts) {
    if (json_is_null(value)) return LS_OK;  // as if it were not there
    json_t *word = config_text(value);
    if (json_array_append_new(texts, word) != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--%s: expected a number, a text, true or false, not a list or an object", name);
    if (model && strcmp(name, "model") == 0)
        *model = json_string_value(word);
    else
        LS_TRY(ls_options_assign(sets, name, json_string_value(word)));
    return LS_OK;
}

ls_status ls_config_take(const char *path, const json_t *root, const ls_option_set *sets, const char **model,
                         void **keep) {
    *keep = NULL;
    if (!json_is_object(root))
        return LS_FAIL(LS_STATUS_BAD_DATA, "the config file %s must be an object: {\"epochs\": 5, ...}", path);
    json_t *texts = json_array();
    ls_status status = LS_OK;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)root, name, value) {
        status = config_entry(name, value, sets, model, texts);
        if (status != LS_OK) {
            ls__fail_context(status, "%s: ", path);
            break;
        }
    }
    if (status == LS_OK)
        *keep = texts;
    else
        json_decref(texts);
    return status;
}

ls_status ls_config_load(const char *path, const ls_option_set *sets, const char **model, void **keep) {
    *keep = NULL;
    json_error_t error;
    FILE *file = ls_input_open_small(path, LS_RECORD_MOST);
    if (!file) return LS_FAIL(LS_STATUS_IO, "cannot read the config file %s: %s", path, ls_input_why(errno));
    json_t *root = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!root)
        return LS_FAIL(LS_STATUS_BAD_DATA, "the config file %s is not JSON: line %d: %s", path, error.line, error.text);
    ls_status status = ls_config_take(path, root, sets, model, keep);
    json_decref(root);
    return status;
}

void ls_config_free(void **keep) {
    json_decref(*keep);
    *keep = NULL;
}
