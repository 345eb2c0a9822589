// What becomes of images before training: size, augmentation, normalization.
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/augment.h"
#include "data/noise.h"
#include "train/trainer_impl.h"

#define MAXIMUM_SIZE 4096

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
    if (!model->vocabulary) model->vocabulary = vocabulary;
}

// The numbers of a normalization for one channel.
static void scale_of(ls_normalization normalization, double mean, double deviation, float *offset, float *divisor) {
    *offset = *divisor = 127.5f;
    if (normalization == LS_NORMALIZATION_NONE) *offset = 0, *divisor = 1;
    if (normalization != LS_NORMALIZATION_DATASET) return;
    *offset = (float)(255 * mean);
    *divisor = deviation > 0 ? (float)(255 * deviation) : 255;  // a channel that never varies is only moved
}

ls_status ls__images_recipe(const ls_train_config *c, int64_t channels, const double *mean, const double *deviation,
                            float *offset, float *divisor, ls_recipe *out) {
    ls_normalization normalization;
    LS_TRY(ls_normalization_find(c->normalize, &normalization));
    if (normalization == LS_NORMALIZATION_DATASET && (!mean || !deviation))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images are normalized by mean and deviation of the training set, which are not given");
    int scaled = normalization != LS_NORMALIZATION_UNIT, measured = normalization == LS_NORMALIZATION_DATASET;
    for (int64_t i = 0; i < channels && scaled; i++)
        scale_of(normalization, measured ? mean[i] : 0, measured ? deviation[i] : 0, &offset[i], &divisor[i]);
    out->offset = scaled ? offset : NULL;
    out->divisor = scaled ? divisor : NULL;
    return LS_OK;
}

static ls_status prepare_one(const ls_train_config *c, const ls_image *image, int64_t sample, int noise, ls_shape shape,
                             const double *mean, const double *deviation, float *out) {
    ls_preparer *preparer;
    float offset[3], divisor[3];
    LS_NEED(c, "config");
    LS_NEED(image, "image");
    LS_NEED(out, "out");
    if (shape.ndim != 3 || shape.dim[2] != image->channels || image->channels < 1 || image->channels > 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "an image of %lld channels was to be prepared for a network of %lld",
                       (long long)image->channels, (long long)(shape.ndim == 3 ? shape.dim[2] : 0));
    ls_recipe recipe = {.height = shape.dim[0], .width = shape.dim[1], .seed = c->seed, .noise = noise ? c->noise : 0};
    LS_TRY(ls__images_recipe(c, image->channels, mean, deviation, offset, divisor, &recipe));
    LS_TRY(
        ls_preparer_create(&recipe, LS_SHAPE(image->height, image->width, image->channels), LS_DTYPE_F32, &preparer));
    ls_preparer_run(preparer, image->pixels, 0, (uint64_t)sample, out);
    ls_preparer_destroy(&preparer);
    return LS_OK;
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
    LS_TRY(ls_augment_parse(c->augment, &m->recipe.augment));
    int pixels = image && image->shape.ndim == 3 && image->dtype == LS_DTYPE_U8;
    if (!pixels && (c->image_size || m->recipe.augment || m->normalization != LS_NORMALIZATION_UNIT || c->noise > 0))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the images of the dataset %s are numbers, not pixels of u8: they are taken as they are, and cannot be "
            "resized, augmented or normalized, nor have noise",
            t->dataset->name);
    if (!image || image->shape.ndim != 3) return LS_OK;
    m->recipe.seed = c->seed;
    m->recipe.noise = c->noise;
    LS_TRY(find_size(t));
    return ls_augment_check(m->recipe.augment, m->shape);
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
        t->images.offset[c] = (float)mean;
        t->images.divisor[c] = deviation > 0 ? (float)deviation : 255;  // a channel that never varies is only moved
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
    if (t->images.normalization == LS_NORMALIZATION_UNIT) return LS_OK;
    ls_status status = ls_calloc(channels, sizeof *t->images.offset, &t->images.offset);
    if (status == LS_OK) status = ls_calloc(channels, sizeof *t->images.divisor, &t->images.divisor);
    LS_TRY(ls_comm_agree(t->comm, status));
    for (int64_t c = 0; c < channels; c++)
        scale_of(t->images.normalization, 0, 0, &t->images.offset[c], &t->images.divisor[c]);
    if (t->images.normalization == LS_NORMALIZATION_DATASET) LS_TRY(measure_channels(t));
    t->images.recipe.offset = t->images.offset;
    t->images.recipe.divisor = t->images.divisor;
    return LS_OK;
}
