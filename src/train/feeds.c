// Which fields of the dataset feed which inputs of the graph.
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "data/augment.h"
#include "train/trainer_impl.h"

enum { MOST_LOADERS = 16 };  // threads of a replica that nobody has asked for

// Whether losses and metrics alone read an input: then it is a target, and comes in F32 in any precision.
static int is_target(const ls_graph *g, ls_value input) {
    int read = 0;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].input_count; k++) {
            if (g->nodes[i].inputs[k] != input) continue;
            if (ls__op_find(g->nodes[i].op)->part == LS_PART_LAYER) return 0;
            read = 1;
        }
    return read;
}

// A binary cross-entropy towards pixels wants them between 0 and 1; towards others it has no least.
static ls_status check_pixels(const ls_trainer *t, ls_value input) {
    const ls_graph *g = t->graph;
    const ls_train_config *c = &t->config;
    int unit = (!c->normalize || strcmp(c->normalize, "unit") == 0) && !c->mean && !c->std && c->scale == 1;
    for (int i = 0; i < g->node_count && !unit; i++)
        if (ls__op_find(g->nodes[i].op)->traits & LS_OP_UNIT_TARGETS && g->nodes[i].inputs[1] == input)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "model %s learns pixels by their binary cross-entropy, which is of numbers from 0 to 1: "
                           "leave out --normalize, --mean, --std and --scale",
                           t->network->name);
    return LS_OK;
}

static void list_fields(const ls_dataset *d, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; ls_dataset_field(d, i) && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", ls_dataset_field(d, i)->name);
}

static int is_pixels(const ls_field *field) { return field->dtype == LS_DTYPE_U8 && field->shape.ndim == 3; }

// Whether it has pixels for those of the field "image", which are learned, or looked at as what is, so that it goes the way these go.
static int goes_along(const ls_trainer *t, const ls_field *field, int target) {
    const ls_field *image = ls_dataset_find_field(t->dataset, "image");
    if (!target && strcmp(field->name, "target") != 0) return 0;
    return image && image != field && is_pixels(image) && is_pixels(field) &&
           image->shape.dim[0] == field->shape.dim[0] && image->shape.dim[1] == field->shape.dim[1];
}

// The shape in which it comes to the network: images, and those that are learned of them, are resized.
static ls_shape shape_of(const ls_trainer *t, const ls_field *field, int target) {
    if (goes_along(t, field, target))
        return LS_SHAPE(t->images.shape.dim[0], t->images.shape.dim[1], field->shape.dim[2]);
    return strcmp(field->name, "image") == 0 && is_pixels(field) ? t->images.shape : field->shape;
}

// The field of the input's name, or the one that such inputs mostly take.
static const ls_field *find_field(const ls_trainer *t, ls_port port, int target) {
    static const char *const usual[][4] = {{"image", "input"}, {"target", "label", "image"}, {"label", "tokens"}};
    const ls_field *field = ls_dataset_find_field(t->dataset, port.name);
    int kind = port.dtype == LS_DTYPE_I32 ? 2 : target;
    // A row of labels and an image are both targets: by their shape one knows which is meant. Images may be resized; other inputs are as they are.
    int by_shape = kind == 1 || (kind == 0 && !t->objective && port.shape.ndim != 3);
    for (int i = 0; !field && usual[kind][i]; i++) {
        field = ls_dataset_find_field(t->dataset, usual[kind][i]);
        if (field && by_shape && ls_shape_count(shape_of(t, field, target)) != ls_shape_count(port.shape)) field = NULL;
    }
    return field;
}

static ls_status missing(const ls_trainer *t, ls_port port) {
    char fields[512];
    list_fields(t->dataset, fields, sizeof fields);
    if (t->objective && port.dtype == LS_DTYPE_F32)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the dataset %s has no field \"image\" of (height, width, channels), which a classifier is trained on",
            t->dataset->name);
    if (t->objective && ls_shape_count(port.shape) == 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the dataset %s has no field \"label\" of a single class number, which a classifier is trained on%s",
            t->dataset->name,
            ls_dataset_find_field(t->dataset, "targets") ? ": its targets are for language models, as lstm-lm is" : "");
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "the dataset %s has nothing for input \"%s\" of model %s: an input has the name of the field that "
                   "it reads; there are %s",
                   t->dataset->name, port.name, t->network->name, fields);
}

static ls_status check_image(const ls_trainer *t, ls_port port) {
    ls_shape want = port.shape, have = t->images.shape;
    if (ls_shape_equal(want, have)) return LS_OK;
    char text[LS_SHAPE_TEXT];
    if (want.ndim != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "model %s takes %s, and the dataset %s has images", t->network->name,
                       ls__shape_text(want, text), t->dataset->name);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "model %s takes images of %lldx%lldx%lld, dataset %s %s %lldx%lldx%lld: build the model for the "
                   "%s shape",
                   t->network->name, (long long)want.dim[0], (long long)want.dim[1], (long long)want.dim[2],
                   t->dataset->name, t->config.image_size ? "is resized to" : "has", (long long)have.dim[0],
                   (long long)have.dim[1], (long long)have.dim[2], t->config.image_size ? "resized" : "dataset's");
}

static ls_status wrong_shape(const ls_trainer *t, ls_port port, const ls_field *field, ls_shape shape) {
    char want[LS_SHAPE_TEXT], have[LS_SHAPE_TEXT];
    int guessed = !ls_dataset_find_field(t->dataset, port.name);
    if (t->objective && guessed && port.dtype == LS_DTYPE_I32) return missing(t, port);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "input \"%s\" of model %s takes %s, and the field \"%s\" of the dataset %s is %s", port.name,
                   t->network->name, ls__shape_text(port.shape, want), field->name, t->dataset->name,
                   ls__shape_text(shape, have));
}

static ls_status check_values(const ls_trainer *t, ls_port port, const ls_field *field) {
    if (port.dtype == LS_DTYPE_I32 && field->dtype == LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "input \"%s\" of model %s takes whole numbers, and the field \"%s\" of the dataset %s has "
                       "fp32",
                       port.name, t->network->name, field->name, t->dataset->name);
    if (ls_shape_equal(port.shape, field->shape) || ls_shape_count(port.shape) == 1) {
        if (ls_shape_count(port.shape) == ls_shape_count(field->shape)) return LS_OK;
    }
    return wrong_shape(t, port, field, field->shape);
}

// What comes beside the field "image". Of images that are cut, moved or mirrored alone, what is learned of them would be elsewhere.
static ls_status check_beside(const ls_trainer *t, ls_port port, const ls_field *field, int target) {
    const ls_recipe *r = &t->images.recipe;
    int alone = target && field->shape.ndim == 3 && field->shape.dim[0] * field->shape.dim[1] > 1 &&
                !goes_along(t, field, target);
    ls_shape have = shape_of(t, field, target);
    if (port.shape.ndim == 3 && is_pixels(field) && !ls_shape_equal(have, port.shape))
        return wrong_shape(t, port, field, have);
    if (!alone || (!r->resize && !(r->augment & ~(unsigned)(LS_AUGMENT_COLOURS | LS_AUGMENT_CUTOUT)))) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "images are cut, moved or mirrored together with those that are learned of them where both are "
                   "pixels of one size, and the field \"%s\" of the dataset %s is not: leave --resize and "
                   "augmentations other than colours and cutout out",
                   field->name, t->dataset->name);
}

// Class numbers that a loss or metric holds against scores are below the number of these, which the dataset sees to.
static ls_status check_classes(const ls_trainer *t, ls_value input, const ls_field *field) {
    int64_t classes = ls__graph_target_classes(t->graph, input);
    if (!classes) return LS_OK;
    if (!field->classes) {
        if (t->objective) return missing(t, (ls_port){"label", {0}, LS_DTYPE_I32});
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "model %s tells %lld classes apart, and the field \"%s\" of the dataset %s does not say how many "
            "it has: give it that number (ls_field.classes)",
            t->network->name, (long long)classes, field->name, t->dataset->name);
    }
    if (classes < field->classes)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s tells %lld classes apart, dataset %s has %d: give it as many", t->network->name,
                       (long long)classes, t->dataset->name, field->classes);
    return LS_OK;
}

// A row of labels, where the network has no losses of its own: as many as it has scores.
static ls_status check_labels(const ls_trainer *t, ls_port port) {
    int labels = ls_dataset_labels(t->dataset);
    if (!t->objective || !labels || port.shape.ndim != 1 || port.shape.dim[0] == labels) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "model %s tells %lld labels apart, dataset %s has %d: give it as many",
                   t->network->name, (long long)port.shape.dim[0], t->dataset->name, labels);
}

// Inputs that trainers draw numbers for, where the dataset has no field of that name.
static int resolve_drawn(ls_trainer *t, ls_port port, ls_feed *feed) {
    int noise = strcmp(port.name, LS_INPUT_NOISE) == 0, coin = strcmp(port.name, LS_INPUT_COIN) == 0;
    if ((!noise && !coin) || port.dtype != LS_DTYPE_F32 || ls_dataset_find_field(t->dataset, port.name)) return 0;
    *feed = (ls_feed){.field = port.name,
                      .kind = noise ? LS_FEED_NORMAL : LS_FEED_COIN,
                      .shape = port.shape,
                      .dtype = t->choices.precision,
                      .recipe.seed = t->config.seed};
    return 1;
}

// The classifier's labels, where they are rows: its last input.
static int resolve_row(ls_trainer *t, int i, ls_port port, ls_feed *feed) {
    if (!t->objective || !ls__labels_are_rows(&t->config) || i != t->graph->input_count - 1) return 0;
    *feed = (ls_feed){.field = "label",
                      .kind = LS_FEED_CLASS,
                      .shape = port.shape,
                      .dtype = LS_DTYPE_F32,
                      .weights = t->class_weight,
                      .smoothing = t->config.label_smoothing};
    return 1;
}

static ls_status resolve_one(ls_trainer *t, int i) {
    ls_value input = t->graph->inputs[i];
    ls_port port = ls_graph_input_at(t->graph, i);
    int target = t->inputs.target[i] = is_target(t->graph, input);
    ls_feed *feed = &t->inputs.feed[i];
    if (resolve_row(t, i, port, feed) || resolve_drawn(t, port, feed)) return LS_OK;
    const ls_field *field = find_field(t, port, target);
    if (!field) return missing(t, port);
    *feed = (ls_feed){.field = field->name, .dtype = port.dtype};
    if (port.dtype == LS_DTYPE_I32) {
        LS_TRY(check_values(t, port, field));
        return check_classes(t, input, field);
    }
    feed->dtype = target ? LS_DTYPE_F32 : t->choices.precision;
    feed->image = is_pixels(field) && port.shape.ndim == 3;
    if (target) LS_TRY(check_labels(t, port));
    if (strcmp(field->name, "image") != 0) {
        if (!feed->image) LS_TRY(check_values(t, port, field));
        return check_beside(t, port, field, target);
    }
    if (target && feed->image) LS_TRY(check_pixels(t, input));
    if (field->shape.ndim != 3) return check_values(t, port, field);
    LS_TRY(check_image(t, port));
    if (!target) t->inputs.image = i;
    return LS_OK;
}

ls_status ls__inputs_resolve(ls_trainer *t) {
    const ls_graph *g = t->graph;
    if (g->input_count > LS_MAX_FIELDS)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "model %s has %d inputs; there can be up to %d", t->network->name,
                       g->input_count, LS_MAX_FIELDS);
    t->inputs = (ls_inputs){.count = g->input_count, .image = -1};
    for (int i = 0; i < g->input_count; i++) LS_TRY(resolve_one(t, i));
    if (t->config.mixup > 0 && (t->inputs.image < 0 || !t->inputs.feed[t->inputs.image].image))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images of pixels are mixed, which model %s does not get of dataset %s: leave --mixup out",
                       t->network->name, t->dataset->name);
    for (int i = 0; i < g->input_count; i++)
        t->inputs.bytes[i] =
            ls_shape_count(ls_graph_input_at(g, i).shape) * (int64_t)ls_dtype_size(t->inputs.feed[i].dtype);
    return LS_OK;
}

static int reads_files(const ls_source *source) {
    while (source->inner) source = source->inner;
    return source->ops->stored != NULL;
}

// Workers of this host that compute, which servers do not; of them those before this one.
static int computing(const ls_trainer *t, int *before) {
    const ls_comm *comm = t->comm;
    int count = 0;
    *before = 0;
    for (int r = 0; r < comm->size; r++) {
        if (comm->host_of[r] != comm->host || ls_mesh_server(&t->spread.roles, comm->position_of[r]) >= 0) continue;
        count++;
        *before += r < comm->rank;
    }
    return count;
}

int ls__loader_serves(const ls_trainer *t) {
    return ls_mesh_server(&t->spread.roles, t->comm->position_of[t->comm->rank]) >= 0;
}

int ls__loader_share(const ls_trainer *t, int replica) {
    int replicas = t->spread.replicas > 0 ? t->spread.replicas : 1, before, all = computing(t, &before) * replicas;
    if (ls__loader_serves(t)) return 1;
    int share = t->config.loader_threads / all, rest = t->config.loader_threads % all;
    share += before * replicas + replica < rest;
    return share > 0 ? share : 1;
}

// The most that a replica's loader has. Samples of files are read and decoded by as many threads as keep up, up to two for each core of a replica's, unless
// there is a number, which the replicas of a host share; others by one.
static int loader_threads(const ls_trainer *t, int *adapt) {
    int replicas = t->spread.replicas > 0 ? t->spread.replicas : 1, count = 2 * t->spread.cores / replicas;
    int most = t->most_loaders ? t->most_loaders : MOST_LOADERS;
    *adapt = t->config.loader_threads == 0 && reads_files(t->dataset->train);
    if (t->config.loader_threads) {
        int before, all = computing(t, &before) * replicas;
        return all ? (t->config.loader_threads + all - 1) / all : 1;
    }
    if (count < 2) count = 2;
    return !*adapt ? 1 : count > most ? most : count;
}

// Images that are learned of others go the way these go, but for their colours and noise, and end as pixel / 255.
static void follow(const ls_trainer *t, int i, ls_feed *feed) {
    const ls_field *field = ls_dataset_find_field(t->dataset, feed->field);
    if (!field || !goes_along(t, field, t->inputs.target[i])) return;
    feed->recipe = t->images.recipe;
    feed->recipe.augment &= ~(unsigned)(LS_AUGMENT_COLOURS | LS_AUGMENT_CUTOUT);
    feed->recipe.offset = feed->recipe.divisor = NULL;
    feed->recipe.scale = 0;
    feed->recipe.noise = 0;
}

ls_loader_config ls__loader_config(const ls_trainer *t, int training) {
    ls_loader_config config = {
        .split = training ? t->train_split : t->eval_split,
        .feed_count = t->inputs.count,
        .micro_batch = training ? t->train_shape.micro_batch : t->eval_shape.micro_batch,
        .depth = 3,
        .replace_broken = t->choices.replace_broken,
    };
    config.threads = loader_threads(t, &config.adapt);
    memcpy(config.feed, t->inputs.feed, sizeof config.feed);
    int to_image = 0;  // images are trained towards
    for (int i = 0; i < t->inputs.count; i++) to_image |= t->inputs.target[i] && t->inputs.feed[i].image;
    for (int i = 0; i < t->inputs.count; i++) {
        if (training && t->config.mixup > 0 && (config.feed[i].kind == LS_FEED_CLASS || i == t->inputs.image)) {
            config.feed[i].mix = t->config.mixup;
            config.feed[i].mix_count = t->train_split.count;
            config.feed[i].recipe.seed = t->config.seed;
        }
        if (!training && config.feed[i].kind == LS_FEED_CLASS)
            config.feed[i].weights = NULL, config.feed[i].smoothing = 0;
        if (config.feed[i].image) follow(t, i, &config.feed[i]);
        if (config.feed[i].image && !training) config.feed[i].recipe.augment = 0;
        if (!config.feed[i].image || strcmp(config.feed[i].field, "image") != 0) continue;
        config.feed[i].recipe = t->images.recipe;
        if (!training) config.feed[i].recipe.augment = t->views.count ? LS_AUGMENT_VIEW : 0;
        if (t->inputs.target[i] || (!training && !to_image)) config.feed[i].recipe.noise = 0;
    }
    return config;
}

int64_t ls__batches_bytes(const ls_trainer *t) {
    ls_loader_config train = ls__loader_config(t, 1), eval = ls__loader_config(t, 0);
    int64_t a = ls_loader_bytes(&train), b = t->eval_split.count ? ls_loader_bytes(&eval) : 0;
    return a > b ? a : b;
}

// What a thread of a loader has beside its batches.
static int64_t preparing_bytes(const ls_trainer *t, const ls_source *source, int training) {
    ls_recipe recipe = t->images.recipe;
    if (t->inputs.image < 0 || !t->inputs.feed[t->inputs.image].image) return 0;
    if (!training) recipe.augment = 0;
    int64_t mixed = training && t->config.mixup > 0 ? t->inputs.bytes[t->inputs.image] : 0;
    int images = 0;  // each with a preparer of its own
    for (int i = 0; i < t->inputs.count; i++) images += t->inputs.feed[i].image;
    return mixed + source->picture_bytes + images * ls_preparer_bytes(&recipe, ls_dataset_image_shape(t->dataset));
}

int64_t ls__decoding_bytes(const ls_trainer *t) {
    const ls_source *train = t->dataset->train, *eval = t->eval_split.count ? t->dataset->test : NULL;
    int adapt;
    return loader_threads(t, &adapt) * (preparing_bytes(t, train, 1) + (eval ? preparing_bytes(t, eval, 0) : 0));
}
