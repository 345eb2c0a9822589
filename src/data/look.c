// One sample as it is stored: for those who want to know what a dataset has.
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/image.h"

static void look_at_label(const ls_source *s, const ls_sample *sample, ls_sample_info *info) {
    int f = ls_fields_find(s->field, s->field_count, "label");
    if (f < 0 || !s->field[f].classes || ls_shape_count(s->field[f].shape) != 1) return;
    info->label =
        s->field[f].dtype == LS_DTYPE_U8 ? *(const uint8_t *)sample->field[f] : *(const int32_t *)sample->field[f];
}

static ls_status look_at_picture(const ls_picture *picture, ls_sample_info *info, ls_image *image) {
    info->file = picture->name;
    info->bytes = picture->size;  // its label comes from an index
    if (!image) return ls_image_file_size(picture, &info->height, &info->width);
    LS_TRY(ls_image_file_load(picture, 0, image));
    info->height = image->height;
    info->width = image->width;
    info->channels = image->channels;
    return LS_OK;
}

// That what is learned of an image can be decoded.
static ls_status check_picture(const ls_picture *picture) {
    ls_image image = {.pixels = NULL};
    LS_TRY(ls_image_file_load(picture, 0, &image));
    ls_image_free(&image);
    return LS_OK;
}

static ls_status copy_pixels(const ls_field *field, const void *pixels, ls_image *image) {
    int64_t bytes = ls_shape_count(field->shape);
    *image = (ls_image){field->shape.dim[0], field->shape.dim[1], field->shape.dim[2], NULL};
    LS_TRY(ls_calloc(bytes, 1, &image->pixels));
    memcpy(image->pixels, pixels, (size_t)bytes);
    return LS_OK;
}

static ls_status look_at_image(const ls_source *s, const ls_sample *sample, ls_sample_info *info, ls_image *image) {
    int f = ls_fields_find(s->field, s->field_count, "image");
    if (f < 0 || s->field[f].shape.ndim != 3) return LS_OK;
    int t = ls_fields_find(s->field, s->field_count, "target");
    if (image && t >= 0 && ls_field_is_picture(&s->field[t])) LS_TRY(check_picture(sample->field[t]));
    if (ls_field_is_picture(&s->field[f])) return look_at_picture(sample->field[f], info, image);
    info->height = s->field[f].shape.dim[0];
    info->width = s->field[f].shape.dim[1];
    info->channels = s->field[f].shape.dim[2];
    return image && s->field[f].dtype == LS_DTYPE_U8 ? copy_pixels(&s->field[f], sample->field[f], image) : LS_OK;
}

static ls_status look(const ls_source *s, int64_t i, void *scratch, ls_sample_info *info, ls_image *image) {
    ls_sample sample;
    LS_TRY(ls_source_read(s, i, scratch, &sample));
    for (int f = 0; f < s->field_count; f++) info->bytes += s->sample_bytes[f];
    look_at_label(s, &sample, info);
    ls_status status = look_at_image(s, &sample, info, image);
    return status == LS_OK ? LS_OK : ls__source_failed(s, i, status);
}

static ls_status check_sample(const ls_dataset *d, int test, int64_t sample) {
    const ls_source *s = test ? d->test : d->train;
    if (s && sample >= 0 && sample < s->count) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s has no %s sample %lld: they go from 0 to %lld", d->name,
                   test ? "test" : "training", (long long)sample, (long long)(s ? s->count : 0) - 1);
}

ls_status ls_dataset_look(const ls_dataset *d, int test, int64_t sample, ls_sample_info *info, ls_image *image) {
    LS_NEED(info, "info");
    *info = (ls_sample_info){.label = -1};
    if (image) *image = (ls_image){.pixels = NULL};
    LS_NEED(d, "dataset");
    const ls_source *s = test ? d->test : d->train;
    void *scratch = NULL;
    LS_TRY(check_sample(d, test, sample));
    info->number = ls_source_number(s, sample);
    if (s->scratch_bytes) LS_TRY(ls_memory_alloc(s->scratch_bytes, &scratch));
    ls_status status = look(s, sample, scratch, info, image);
    ls_memory_free(scratch);
    return status;
}

static ls_status copy_values(const ls_source *s, int64_t i, void *scratch, void *const *fields) {
    ls_sample sample;
    LS_TRY(ls_source_read(s, i, scratch, &sample));
    for (int f = 0; f < s->field_count; f++)
        if (fields[f]) memcpy(fields[f], sample.field[f], (size_t)s->sample_bytes[f]);
    return LS_OK;
}

ls_status ls_dataset_read(const ls_dataset *d, int test, int64_t sample, void *const *fields) {
    LS_NEED(d, "dataset");
    LS_NEED(fields, "fields");
    const ls_source *s = test ? d->test : d->train;
    void *scratch = NULL;
    LS_TRY(check_sample(d, test, sample));
    for (int f = 0; f < s->field_count; f++)
        if (fields[f] && ls_field_is_picture(&s->field[f]))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the field \"%s\" of %s is an image that is still encoded: ls_dataset_look decodes it",
                           s->field[f].name, s->name);
    if (s->scratch_bytes) LS_TRY(ls_memory_alloc(s->scratch_bytes, &scratch));
    ls_status status = copy_values(s, sample, scratch, fields);
    ls_memory_free(scratch);
    return status;
}
