// Where training is, as JSON. Numbers are written so that they read back as the same bits.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "train/checkpoint.h"

// --- writing ---------------------------------------------------------------------------------------------------------

static json_t *number(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *numbers(const double *x, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, number(x[i]));
    return list;
}

// The doubles of an epoch's result, by their names.
#define EPOCH_NUMBERS(X)                                                                                               \
    X(seconds)                                                                                                         \
    X(loss)                                                                                                            \
    X(accuracy)                                                                                                        \
    X(images_per_second)                                                                                               \
    X(learning_rate)                                                                                                   \
    X(loss_scale)                                                                                                      \
    X(val_loss)                                                                                                        \
    X(val_accuracy)                                                                                                    \
    X(val_area)                                                                                                        \
    X(val_seconds)

static json_t *epoch(const ls_epoch_result *e) {
    json_t *o =
        json_pack("{s:i,s:I,s:I}", "epoch", e->epoch, "steps", (json_int_t)e->steps, "skipped", (json_int_t)e->skipped);
#define PUT(name) json_object_set_new(o, #name, number(e->name));
    EPOCH_NUMBERS(PUT)
#undef PUT
    return o;
}

// Only whole epochs, and one that training left and would go on with.
static json_t *epochs(const ls_history *h) {
    json_t *list = json_array();
    for (int i = 0; i < h->done; i++) json_array_append_new(list, epoch(&h->epochs[i]));
    return list;
}

static json_t *measured(const ls_measured *values, int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, number(values[i].value));
    return list;
}

static json_t *position(const ls_trainer *t, double running) {
    const ls_position *at = &t->at;
    int64_t skipped = at->skipped + (at->running ? ls__trainer_skipped(t) - at->skipped_then : 0);
    json_t *o = json_pack("{s:i,s:I,s:I,s:I,s:o,s:o}", "epoch", at->epoch, "step", (json_int_t)at->step, "skipped",
                          (json_int_t)skipped, "all_steps", (json_int_t)at->all_steps, "seconds",
                          number(at->seconds + running), "learning_rate", number(at->learning_rate));
    if (o && t->choices.loss_scale.dynamic)
        json_object_set_new(o, "loss_scale",
                            json_pack("{s:o,s:I,s:I}", "scale", number(at->scale), "steps", (json_int_t)at->scale_steps,
                                      "overflows", (json_int_t)at->overflows));
    return o;
}

// What has to be the same where it is gone on with.
static json_t *training(const ls_trainer *t) {
    const ls_train_config *c = &t->config;
    char layers[32], dataset[32];
    snprintf(layers, sizeof layers, "%016llx", (unsigned long long)ls__graph_fingerprint(t->graph));
    snprintf(dataset, sizeof dataset, "%016llx", (unsigned long long)t->dataset->fingerprint);
    return json_pack("{s:s,s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:b,s:b}", "network", t->network->name, "layers", layers,
                     "dataset", dataset, "optimizer", t->choices.optimizer->name, "seed", (json_int_t)c->seed,
                     "batch_size", (json_int_t)c->batch_size, "micro_batch", (json_int_t)c->micro_batch, "samples",
                     (json_int_t)t->train_split.count, "residuals", (json_int_t)ls__checkpoint_residuals(t), "shuffle",
                     c->shuffle, "drop_remainder", c->drop_remainder);
}

static json_t *history(const ls_trainer *t, double running) {
    const ls_history *h = &t->history;
    int count = t->measures.value_count;
    return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "train_seconds", number(h->train_seconds + running), "test_loss",
                     number(h->test_loss), "test_accuracy", number(h->test_accuracy), "finite_loss",
                     number(h->finite_loss), "train_values", measured(h->train_values, count), "test_values",
                     measured(h->test_values, count));
}

static ls_status parse_recipe(const char *recipe, json_t **out) {
    *out = recipe ? json_loads(recipe, JSON_REJECT_DUPLICATES, NULL) : json_object();
    if (json_is_object(*out)) return LS_OK;
    json_decref(*out);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a checkpoint's recipe is a JSON object, as {\"lr\": 0.1}, or NULL");
}

// Up to the first that has no name, or one that is no text (file names may be anything).
static json_t *class_names(const ls_trainer *t) {
    json_t *list = json_array();
    const char *name;
    for (int c = 0; (name = ls_dataset_class(t->dataset, c)); c++)
        if (json_array_append_new(list, json_string(name)) != 0) break;
    return list;
}

// Of the numbers of a table, all of them or none.
static json_t *column_names(const ls_trainer *t) {
    json_t *list = json_array();
    const char *name;
    for (int c = 0; (name = ls_dataset_column(t->dataset, c)); c++)
        if (json_array_append_new(list, json_string(name)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

// What pictures have to become before this network sees them, for those that have no dataset.
static void add_images(json_t *root, const ls_trainer *t) {
    json_t *shape = json_array();
    for (int d = 0; d < t->images.shape.ndim; d++) json_array_append_new(shape, json_integer(t->images.shape.dim[d]));
    if (t->images.shape.ndim != 3) {
        json_decref(shape);
        return;
    }
    int channels = (int)t->images.shape.dim[2];
    json_object_set_new(root, "image", shape);
    if (ls_graph_classes(t->network) > 0)
        json_object_set_new(root, "classes", json_integer(ls_graph_classes(t->network)));
    if (ls_dataset_class(t->dataset, 0)) json_object_set_new(root, "class_names", class_names(t));
    json_t *columns = ls_dataset_column(t->dataset, 0) ? column_names(t) : NULL;
    if (columns) json_object_set_new(root, "columns", columns);
    if (ls_dataset_labels(t->dataset)) json_object_set_new(root, "several_labels", json_true());
    if (ls_dataset_targets(t->dataset)) json_object_set_new(root, "targets", json_true());
    if (!t->images.mean) return;
    json_object_set_new(root, "channel_mean", numbers(t->images.mean, channels));
    json_object_set_new(root, "channel_deviation", numbers(t->images.deviation, channels));
}

ls_status ls__state_write(const ls_trainer *t, const double *sum, const char *recipe, char **out) {
    double running = t->at.running ? ls_clock() - t->at.started : 0;
    char device[256], when[32] = "";
    time_t now = time(NULL);
    struct tm utc;
    json_t *kept;
    LS_TRY(parse_recipe(recipe, &kept));
    if (gmtime_r(&now, &utc)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    t->device->ops->describe(t->device, device, sizeof device);
    json_t *root =
        json_pack("{s:s,s:i,s:s,s:s,s:s,s:o,s:o,s:o,s:o,s:o,s:o}", "format", "lockstep checkpoint", "format_version",
                  LS_CHECKPOINT_VERSION, "lockstep", ls_version(), "written", when, "numerics", device, "training",
                  training(t), "position", position(t, running), "recipe", kept, "epochs", epochs(&t->history),
                  "history", history(t, running), "sum", numbers(sum, t->measures.width));
    if (root) add_images(root, t);
    *out = root ? ls_json_shorten(json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) : NULL;
    json_decref(root);
    return *out ? LS_OK : LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the state of a checkpoint");
}

// --- reading ---------------------------------------------------------------------------------------------------------

static double real_of(const json_t *o, const char *name) {
    const json_t *value = json_object_get(o, name);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static int64_t whole_of(const json_t *o, const char *name) {
    const json_t *value = json_object_get(o, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static const char *text_of(const json_t *o, const char *name) {
    const char *text = json_string_value(json_object_get(o, name));
    return text ? text : "";
}

// What it was trained with, and what it would be; `what` in words.
static ls_status other(const char *path, const char *what, const char *there, const char *here) {
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s cannot be gone on with: its %s is %.80s, and here it is %.80s", path,
                   what, there, here);
}

static ls_status same_text(const char *path, const json_t *there, const json_t *here, const char *name,
                           const char *what) {
    const char *a = text_of(there, name), *b = text_of(here, name);
    return strcmp(a, b) == 0 ? LS_OK : other(path, what, a, b);
}

static ls_status same_whole(const char *path, const json_t *there, const json_t *here, const char *name,
                            const char *what) {
    char a[32], b[32];
    int64_t x = whole_of(there, name), y = whole_of(here, name);
    snprintf(a, sizeof a, "%lld", (long long)x);
    snprintf(b, sizeof b, "%lld", (long long)y);
    return x == y ? LS_OK : other(path, what, a, b);
}

// In the middle of an epoch the order of its samples, and how they are cut into batches, has to be the same too.
static ls_status check_epoch(const char *path, const json_t *there, const json_t *here) {
    LS_TRY(same_text(path, there, here, "dataset", "dataset (by its contents), in the middle of an epoch,"));
    LS_TRY(same_whole(path, there, here, "batch_size", "global batch, in the middle of an epoch,"));
    LS_TRY(same_whole(path, there, here, "micro_batch", "micro-batch, in the middle of an epoch,"));
    LS_TRY(same_whole(path, there, here, "samples", "number of training samples, in the middle of an epoch,"));
    LS_TRY(same_whole(path, there, here, "seed", "seed, in the middle of an epoch,"));
    int a = json_is_true(json_object_get(there, "shuffle")), b = json_is_true(json_object_get(here, "shuffle"));
    if (a != b) return other(path, "order of samples", a ? "shuffled" : "kept", b ? "shuffled" : "kept");
    a = json_is_true(json_object_get(there, "drop_remainder"));  // of checkpoints that say nothing of it none was
    b = json_is_true(json_object_get(here, "drop_remainder"));
    return a == b ? LS_OK
                  : other(path, "remainder of an epoch, in the middle of one,", a ? "dropped" : "kept",
                          b ? "dropped" : "kept");
}

// What topk has left over is of the micro-batches that a step had.
static ls_status check_residuals(const ls_trainer *t, const char *path, const json_t *there) {
    int64_t mine = ls__checkpoint_residuals(t), its = json_integer_value(json_object_get(there, "residuals"));
    if (mine == 0 || its == 0 || mine == its) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s cannot be gone on with: it was compressed by topk with %lld micro-batches in a step, and here a "
                   "step has %lld",
                   path, (long long)its, (long long)mine);
}

static ls_status check_training(const ls_trainer *t, const char *path, const json_t *there, int64_t step) {
    json_t *here = training(t);
    ls_status status = same_text(path, there, here, "network", "network");
    if (status == LS_OK) status = same_text(path, there, here, "layers", "network's layers (by their fingerprint)");
    if (status == LS_OK) status = same_text(path, there, here, "optimizer", "optimizer");
    if (status == LS_OK) status = check_residuals(t, path, there);
    if (status == LS_OK && step > 0) status = check_epoch(path, there, here);
    json_decref(here);
    return status;
}

static ls_status bad(const char *path, const char *what) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s/" LS_CHECKPOINT_STATE ": %s", path, what);
}

// Of checkpoints that say nothing of it none was left out.
static int64_t skipped_of(const json_t *o) { return json_object_get(o, "skipped") ? whole_of(o, "skipped") : 0; }

static ls_status read_epoch(const ls_trainer *t, const char *path, const json_t *o, int index, ls_epoch_result *out) {
    int64_t number = whole_of(o, "epoch"), steps = whole_of(o, "steps");
    if (number != index + 1 || steps < 0) return bad(path, "its epochs are not numbered from 1 on");
    int64_t skipped = skipped_of(o);
    if (skipped < 0 || skipped > steps) return bad(path, "it left out more steps of an epoch than there were");
    *out = (ls_epoch_result){.epoch = (int)number, .steps = steps, .skipped = skipped};
#define GET(name) out->name = real_of(o, #name);
    EPOCH_NUMBERS(GET)
#undef GET
    if (t->measures.accuracy < 0) out->accuracy = NAN;
    if (!(out->loss_scale > 0)) out->loss_scale = 1;  // written before there was one
    return LS_OK;
}

// Those before the one that it goes on in, and that one where it was left.
static ls_status read_epochs(ls_trainer *t, const char *path, const json_t *list, int64_t next, int64_t step) {
    ls_history *h = &t->history;
    size_t there = json_array_size(list);
    if (there != (size_t)(next - 1) && !(there == (size_t)next && step > 0))
        return bad(path, "it has not as many epochs behind it as it says");
    int count = (int)there;
    if (count > t->config.epochs)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has %d epochs behind it, and only %d are asked for", path, count,
                       t->config.epochs);
    for (int i = 0; i < count; i++) LS_TRY(read_epoch(t, path, json_array_get(list, (size_t)i), i, &h->epochs[i]));
    h->done = count;
    return LS_OK;
}

static void read_measured(const json_t *list, ls_measured *values, int count) {
    for (int i = 0; i < count && (size_t)i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        values[i].value = json_is_number(value) ? json_number_value(value) : NAN;
    }
}

static void read_history(ls_trainer *t, const json_t *o) {
    ls_history *h = &t->history;
    h->train_seconds = fmax(real_of(o, "train_seconds"), 0);
    h->test_loss = real_of(o, "test_loss");
    h->test_accuracy = real_of(o, "test_accuracy");
    h->finite_loss = real_of(o, "finite_loss");
    read_measured(json_object_get(o, "train_values"), h->train_values, t->measures.value_count);
    read_measured(json_object_get(o, "test_values"), h->test_values, t->measures.value_count);
}

static ls_status read_sum(ls_trainer *t, const char *path, const json_t *list) {
    if (json_array_size(list) != (size_t)t->measures.width) return bad(path, "its sums are not those of this network");
    for (int i = 0; i < t->measures.width; i++) {
        const json_t *value = json_array_get(list, (size_t)i);
        if (!json_is_number(value) && !json_is_null(value)) return bad(path, "one of its sums is no number");
        t->at.sum[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
    return LS_OK;
}

// A dynamic loss scale goes on with what there is; one that has a number keeps that.
static ls_status read_scale(ls_trainer *t, const char *path, const json_t *o) {
    if (!o || !t->choices.loss_scale.dynamic) return LS_OK;
    double scale = real_of(o, "scale");
    int64_t steps = whole_of(o, "steps"), overflows = whole_of(o, "overflows");
    if (!ls__loss_scale_valid(scale) || steps < 0 || overflows < 0 || overflows > t->at.all_steps)
        return bad(path, "its loss scale makes no sense");
    t->at.scale = scale;
    t->at.scale_steps = steps;
    t->at.overflows = overflows;
    return LS_OK;
}

ls_status ls__state_apply(ls_trainer *t, const char *path, const json_t *state) {
    const json_t *place = json_object_get(state, "position");
    int64_t number = whole_of(place, "epoch"), step = whole_of(place, "step"), all = whole_of(place, "all_steps");
    LS_TRY(check_training(t, path, json_object_get(state, "training"), step));
    if (number < 1 || number > t->config.epochs + 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s goes on in epoch %lld, and only %d are asked for", path,
                       (long long)number, t->config.epochs);
    int64_t skipped = skipped_of(place);
    if (step < 0 || step >= t->train_shape.steps || all < step || all > (int64_t)1 << 53 || skipped < 0 ||
        skipped > step)
        return bad(path, "its position makes no sense");
    LS_TRY(read_epochs(t, path, json_object_get(state, "epochs"), number, step));
    LS_TRY(read_sum(t, path, json_object_get(state, "sum")));
    read_history(t, json_object_get(state, "history"));
    ls_position *at = &t->at;
    at->epoch = (int)number;
    at->step = step;
    at->all_steps = at->steps_before = all;
    at->skipped = skipped;
    at->seconds = fmax(real_of(place, "seconds"), 0);
    at->learning_rate = real_of(place, "learning_rate");
    return read_scale(t, path, json_object_get(place, "loss_scale"));
}
