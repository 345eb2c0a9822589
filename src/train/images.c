// What becomes of images before training: size, augmentation, normalization.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/noise.h"
#include "train/trainer_impl.h"

#define MAXIMUM_SIZE  4096
#define MOST_CHANNELS 64  // of which --mean may name each

ls_shape ls_train_image_shape(const ls_train_config *config, ls_shape image) {
    if (!config) return image;
    ls_recipe recipe = {.height = config->image_size, .width = config->image_size};
    return ls_recipe_shape(&recipe, image);
}

void ls_train_fit_model(const ls_train_config *config, const ls_dataset *dataset, ls_model_config *model) {
    if (!dataset || !model) return;
    int vocabulary;
    ls_shape sequence = ls_dataset_sequence_shape(dataset, &vocabulary);
    model->input = sequence.ndim ? sequence : ls_train_image_shape(config, ls_dataset_image_shape(dataset));
    if (!model->classes) model->classes = ls_dataset_classes(dataset);
    if (!model->classes) model->classes = ls_dataset_labels(dataset);
    if (!model->classes) model->classes = ls_dataset_targets(dataset);
    if (!model->vocabulary) model->vocabulary = vocabulary;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

// "104,117,123", or one number for all channels.
static ls_status read_numbers(const char *option, const char *text, int64_t channels, double *out) {
    int64_t count = 0;
    for (const char *at = text;; at++) {
        char *end;
        double value = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(fabs(value) <= 1e6))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "--%s takes a number for each channel, as in 104,117,123, or one for all, not '%.80s'",
                           option, text);
        if (count < channels) out[count] = value;
        count++;
        at = end;
        if (!*at) break;
    }
    for (int64_t c = 1; c < channels && count == 1; c++) out[c] = out[0];
    if (count == 1 || count == channels) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "--%s %.80s has %lld numbers, and the images have %lld channel%s: give one for each, or one for all",
                   option, text, (long long)count, (long long)channels, channels == 1 ? "" : "s");
}

// Whether the config says numbers of its own.
static int own_numbers(const ls_train_config *c) { return c->mean || c->std || c->scale != 1; }

// What somebody means who writes the numbers of a system whose pixels end at 1: all values would be far out.
static ls_status check_units(const ls_train_config *c, const double *mean, const double *std, int64_t channels) {
    if (!c->mean || !c->std || c->scale != 1) return LS_OK;
    for (int64_t i = 0; i < channels; i++)
        if (fabs(mean[i]) > 1 || std[i] >= 1) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "--mean %.80s and --std %.80s look like numbers for pixels from 0 to 1, and pixels go from 0 to 255: "
        "multiply all of them by 255",
        c->mean, c->std);
}

static ls_status find_own(const ls_train_config *c, int64_t channels, float *offset, float *divisor) {
    double mean[MOST_CHANNELS] = {0}, std[MOST_CHANNELS];
    for (int64_t i = 0; i < MOST_CHANNELS; i++) std[i] = 1;
    if (channels > MOST_CHANNELS)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "--mean, --std and --scale are for images of up to %d channels, not %lld",
                       MOST_CHANNELS, (long long)channels);
    if (c->mean) LS_TRY(read_numbers("mean", c->mean, channels, mean));
    if (c->std) LS_TRY(read_numbers("std", c->std, channels, std));
    LS_TRY(check_units(c, mean, std, channels));
    for (int64_t i = 0; i < channels; i++) {
        if (!(std[i] > 0)) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--std %.80s: a deviation is above 0", c->std);
        offset[i] = (float)mean[i];
        divisor[i] = (float)std[i];
    }
    return LS_OK;
}

// The numbers of a named normalization for one channel.
static void scale_of(ls_normalization normalization, double mean, double deviation, float *offset, float *divisor) {
    *offset = *divisor = 127.5f;
    if (normalization == LS_NORMALIZATION_NONE) *offset = 0, *divisor = 1;
    if (normalization != LS_NORMALIZATION_DATASET) return;
    *offset = (float)(255 * mean);
    *divisor = deviation > 0 ? (float)(255 * deviation) : 255;  // a channel that never varies is only moved
}

ls_status ls__images_numbers(const ls_train_config *c, int64_t channels, const double *mean, const double *deviation,
                             float *offset, float *divisor, ls_recipe *out) {
    ls_normalization normalization;
    LS_TRY(ls_normalization_find(c->normalize, &normalization));
    int own = own_numbers(c), measured = normalization == LS_NORMALIZATION_DATASET;
    if (measured && (!mean || !deviation))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images are normalized by mean and deviation of the training set, which are not given");
    if (own) LS_TRY(find_own(c, channels, offset, divisor));
    int scaled = own || normalization != LS_NORMALIZATION_UNIT;
    for (int64_t i = 0; i < channels && scaled && !own; i++) {
        int64_t stored = out->bgr ? channels - 1 - i : i;
        scale_of(normalization, measured ? mean[stored] : 0, measured ? deviation[stored] : 0, &offset[i], &divisor[i]);
    }
    out->offset = scaled ? offset : NULL;
    out->divisor = scaled ? divisor : NULL;
    return LS_OK;
}

static ls_status check_numbers(const ls_train_config *c, int64_t channels) {
    float offset[MOST_CHANNELS], divisor[MOST_CHANNELS];
    if (!(c->scale > 0 && c->scale <= 1e6))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--scale %g: it is above 0, and what pixels are multiplied by",
                       c->scale);
    if (!own_numbers(c)) return LS_OK;
    if (strcmp(c->normalize, "unit") != 0 && strcmp(c->normalize, "none") != 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--mean, --std and --scale say what pixels become, and --normalize %s says something else: leave "
            "one of them out",
            c->normalize);
    return find_own(c, channels, offset, divisor);
}

ls_status ls__images_recipe(const ls_train_config *c, int64_t channels, ls_recipe *out) {
    *out = (ls_recipe){.height = c->image_size, .width = c->image_size, .resize = c->resize, .seed = c->seed};
    LS_TRY(ls_augment_parse(c->augment, &out->augment, &out->amounts));
    LS_TRY(ls_interpolation_find(c->interpolation, &out->interpolation));
    if (c->resize < 0 || c->resize > MAXIMUM_SIZE)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the shorter side of images was to become %d pixels: choose 1 to %d, or 0 for the whole image",
                       c->resize, MAXIMUM_SIZE);
    out->bgr = strcmp(c->channel_order, "bgr") == 0;
    if (!out->bgr && strcmp(c->channel_order, "rgb") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--channel-order is rgb or bgr, not '%.40s'", c->channel_order);
    if (out->bgr && channels != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--channel-order bgr is for images in colour, and these have %lld channel%s: leave it out",
                       (long long)channels, channels == 1 ? "" : "s");
    LS_TRY(check_numbers(c, channels));
    out->scale = (float)c->scale;
    return LS_OK;
}

// --- one image -------------------------------------------------------------------------------------------------------

// As evaluation sees images.
static ls_status recipe_of(const ls_train_config *c, ls_shape shape, const double *mean, const double *deviation,
                           float *offset, float *divisor, ls_recipe *out) {
    LS_TRY(ls__images_recipe(c, shape.dim[2], out));
    out->height = shape.dim[0];
    out->width = shape.dim[1];
    out->augment = 0;
    return ls__images_numbers(c, shape.dim[2], mean, deviation, offset, divisor, out);
}

static ls_status prepare_one(const ls_train_config *c, const ls_image *image, int64_t sample, int noise, ls_shape shape,
                             const double *mean, const double *deviation, float *out) {
    ls_preparer *preparer;
    ls_recipe recipe;
    float offset[3], divisor[3];
    LS_NEED(c, "config");
    LS_NEED(image, "image");
    LS_NEED(out, "out");
    if (shape.ndim != 3 || shape.dim[2] != image->channels || image->channels < 1 || image->channels > 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an image of %lld channels was to be prepared for a network of %lld",
                       (long long)image->channels, (long long)(shape.ndim == 3 ? shape.dim[2] : 0));
    LS_TRY(recipe_of(c, shape, mean, deviation, offset, divisor, &recipe));
    recipe.noise = noise ? c->noise : 0;
    LS_TRY(
        ls_preparer_create(&recipe, LS_SHAPE(image->height, image->width, image->channels), LS_DTYPE_F32, &preparer));
    ls_status status = ls_preparer_run(preparer, image->pixels, 0, (uint64_t)sample, out);
    ls_preparer_destroy(&preparer);
    return status;
}

ls_status ls_train_prepare_image(const ls_train_config *c, const ls_image *image, ls_shape shape, const double *mean,
                                 const double *deviation, float *out) {
    return prepare_one(c, image, 0, 0, shape, mean, deviation, out);
}

ls_status ls_train_prepare_sample(const ls_train_config *c, const ls_image *image, int64_t sample, ls_shape shape,
                                  const double *mean, const double *deviation, float *out) {
    return prepare_one(c, image, sample, 1, shape, mean, deviation, out);
}

void ls_train_draw_noise(const ls_train_config *c, int64_t sample, int64_t count, float *out) {
    for (int64_t i = 0; c && out && i < count; i++) out[i] = ls_noise_drawn(c->seed, 0, (uint64_t)sample, (uint32_t)i);
}

ls_status ls_train_prepare_file(const ls_train_config *c, const char *path, ls_shape shape, const double *mean,
                                const double *deviation, float *out) {
    ls_preparer *preparer;
    ls_recipe recipe;
    ls_image_buffer buffer = {{NULL}, {0}};
    float offset[3], divisor[3];
    char *bytes;
    int64_t size;
    LS_NEED(c, "config");
    LS_NEED(path, "path");
    LS_NEED(out, "out");
    if (shape.ndim != 3 || (shape.dim[2] != 1 && shape.dim[2] != 3))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images of files have 1 or 3 channels; one was to be prepared for a network that takes another");
    LS_TRY(recipe_of(c, shape, mean, deviation, offset, divisor, &recipe));
    LS_TRY(ls_image_path_bytes(path, &bytes, &size));
    const ls_image_file file = {.name = path, .bytes = (const unsigned char *)bytes, .size = size};
    ls_status status = ls_preparer_create(&recipe, LS_SHAPE(0, 0, shape.dim[2]), LS_DTYPE_F32, &preparer);
    if (status == LS_OK) status = ls_preparer_picture(preparer, &file, &buffer, 0, 0, out);
    ls_preparer_destroy(&preparer);
    ls_image_buffer_free(&buffer);
    free(bytes);
    return status;
}

// --- a trainer's -----------------------------------------------------------------------------------------------------

// Pictures, whose sizes differ, become what --image-size says, else what the network takes.
static ls_status find_size(ls_trainer *t) {
    ls_recipe *recipe = &t->images.recipe;
    ls_shape stored = ls_dataset_image_shape(t->dataset);
    recipe->height = recipe->width = t->config.image_size;
    for (int i = 0; i < t->network->input_count && stored.dim[0] == 0 && !recipe->height; i++) {
        ls_shape input = ls_graph_input_at(t->network, i).shape;
        if (input.ndim != 3) continue;
        recipe->height = input.dim[0];
        recipe->width = input.dim[1];
    }
    t->images.shape = ls_recipe_shape(recipe, stored);
    if (t->images.shape.dim[0] > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "the images of the dataset %s have different sizes, and model %s takes no images, whose size they "
                   "could become: say it (image_size)",
                   t->dataset->name, t->network->name);
}

ls_status ls__images_resolve(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    const ls_field *image = ls_dataset_find_field(t->dataset, "image");
    ls_images *m = &t->images;
    if (c->image_size < 0 || c->image_size > MAXIMUM_SIZE)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images were to be resized to %dx%d: choose a side from 1 to %d, or 0 for images as they are",
                       c->image_size, c->image_size, MAXIMUM_SIZE);
    LS_TRY(ls_normalization_find(c->normalize, &m->normalization));
    LS_TRY(ls__images_recipe(c, image && image->shape.ndim == 3 ? image->shape.dim[2] : 3, &m->recipe));
    int pixels = image && image->shape.ndim == 3 && image->dtype == LS_DTYPE_U8;
    int asked = c->image_size || c->resize || m->recipe.augment || m->recipe.bgr || own_numbers(c);
    if (!pixels && (asked || m->normalization != LS_NORMALIZATION_UNIT || c->noise > 0))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the images of the dataset %s are numbers, not pixels of u8: they are taken as they are, and cannot be "
            "resized, augmented or normalized, nor have noise",
            t->dataset->name);
    if (!image || image->shape.ndim != 3) return LS_OK;
    m->recipe.noise = c->noise;
    LS_TRY(find_size(t));
    return ls_recipe_check(&m->recipe, m->shape);
}

// This worker's share of the training set's sums, and, once all are together, the whole's.
static ls_status sum_channels(ls_trainer *t, ls_channel_sums *mine, ls_channel_sums *all) {
    const ls_source *train = t->dataset->train;
    int field = ls_fields_find(train->field, train->field_count, "image");
    int64_t count = train->count, rank = t->comm->rank, size = t->comm->size;
    int64_t channels = t->images.shape.dim[2], bytes = channels * (int64_t)sizeof *mine;
    ls_status status = ls_channel_sums_add(train, field, count * rank / size, count * (rank + 1) / size, mine);
    LS_TRY(ls_comm_agree(t->comm, status));
    LS_TRY(ls_comm_allgather(t->comm, mine, all, bytes));
    for (int64_t c = 0; c < channels; c++) {
        ls_channel_sums sum = {0};
        for (int64_t r = 0; r < size; r++) {
            const ls_channel_sums *s = &all[r * channels + c];
            sum.count += s->count, sum.sum += s->sum, sum.squares += s->squares;
        }
        double mean, deviation;
        ls_channel_moments(&sum, &mean, &deviation);
        t->images.mean[c] = mean / 255;
        t->images.deviation[c] = deviation / 255;
        int64_t place = t->images.recipe.bgr ? channels - 1 - c : c;
        t->images.offset[place] = (float)mean;
        t->images.divisor[place] = deviation > 0 ? (float)deviation : 255;  // a channel that never varies is only moved
    }
    return LS_OK;
}

// Of all of the training set, whatever --limit-train takes of it: a number that belongs to the data, not to the run.
static ls_status measure_channels(ls_trainer *t) {
    int64_t channels = t->images.shape.dim[2];
    ls_channel_sums *sums = NULL;  // (1 + workers, channels)
    ls_status status = ls_calloc((1 + t->comm->size) * channels, sizeof *sums, &sums);
    if (status == LS_OK) status = ls_calloc(channels, sizeof *t->images.mean, &t->images.mean);
    if (status == LS_OK) status = ls_calloc(channels, sizeof *t->images.deviation, &t->images.deviation);
    LS_TRY_GOTO(ls_comm_agree(t->comm, status), done);
    status = sum_channels(t, sums, sums + channels);
done:
    free(sums);
    return status;
}

ls_status ls__images_normalize(ls_trainer *t) {
    int64_t channels = t->images.shape.dim[2];
    int own = own_numbers(&t->config);
    if (t->images.normalization == LS_NORMALIZATION_UNIT && !own) return LS_OK;
    ls_status status = ls_calloc(channels, sizeof *t->images.offset, &t->images.offset);
    if (status == LS_OK) status = ls_calloc(channels, sizeof *t->images.divisor, &t->images.divisor);
    if (status == LS_OK && own) status = find_own(&t->config, channels, t->images.offset, t->images.divisor);
    LS_TRY(ls_comm_agree(t->comm, status));
    for (int64_t c = 0; c < channels && !own; c++)
        scale_of(t->images.normalization, 0, 0, &t->images.offset[c], &t->images.divisor[c]);
    if (t->images.normalization == LS_NORMALIZATION_DATASET) LS_TRY(measure_channels(t));
    t->images.recipe.offset = t->images.offset;
    t->images.recipe.divisor = t->images.divisor;
    return LS_OK;
}
