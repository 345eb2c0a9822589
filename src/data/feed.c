#include "data/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "data/convert.h"
#include "data/noise.h"

// One feed in one thread.
typedef struct way {
    ls_feed_kind kind;
    uint64_t seed;          // of what is drawn
    ls_dtype dtype;         // the same
    int field;              // in the source
    int64_t values, bytes;  // of the field; of what becomes of it
    int picture;            // an image that is to be decoded
    int cut;                // by what its own size is
    ls_preparer *preparer;  // of images; NULL: convert
    int mixed;
    void *other;     // (bytes) the image that is mixed in; NULL: none is
    float *weights;  // (values) of classes; NULL: 1
    double smoothing;
    ls_convert_fn convert;
} way;

struct ls_feeder {
    const ls_source *source;
    ls_image_buffer buffer;  // pictures are decoded into it
    int count;
    double reading, preparing;  // seconds
    double mix;                 // as its feeds say; 0: samples are not mixed
    int64_t mix_count;
    uint64_t mix_seed;
    int pairs;  // 1: samples have several pictures that are cut
    way way[LS_MAX_FIELDS];
};

ls_shape ls_feed_shape(const ls_feed *feed, const ls_source *source) {
    if (feed->kind != LS_FEED_FIELD) return feed->shape;
    int field = ls_fields_find(source->field, source->field_count, feed->field);
    ls_shape shape = source->field[field].shape;
    return feed->image ? ls_recipe_shape(&feed->recipe, shape) : shape;
}

int64_t ls_feed_bytes(const ls_feed *feed, const ls_source *source) {
    return ls_shape_count(ls_feed_shape(feed, source)) * (int64_t)ls_dtype_size(feed->dtype);
}

static ls_status no_field(const ls_feed *feed, const ls_source *source) {
    char names[LS_MAX_FIELDS * (sizeof source->field[0].name + 2)] = "";
    for (int f = 0; f < source->field_count; f++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", f ? ", " : "", source->field[f].name);
    }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s has no field \"%.40s\"; there are: %s", source->name, feed->field,
                   names);
}

static int is_floating(ls_dtype dtype) {
    return dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_BF16 || dtype == LS_DTYPE_F16;
}

static ls_status make_drawn(const ls_feed *feed, const ls_source *source, way *w) {
    w->values = ls_shape_count(feed->shape);
    w->bytes = ls_feed_bytes(feed, source);
    w->seed = feed->recipe.seed;
    w->dtype = feed->dtype;
    if (is_floating(feed->dtype)) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "numbers that are drawn are fp32, bf16 or fp16, not %s",
                   ls_dtype_name(feed->dtype));
}

static ls_status make_class(const ls_feed *feed, const ls_source *source, way *w) {
    w->field = ls_fields_find(source->field, source->field_count, feed->field);
    if (w->field < 0) return no_field(feed, source);
    const ls_field *field = &source->field[w->field];
    w->values = ls_shape_count(feed->shape);
    w->bytes = ls_feed_bytes(feed, source);
    w->dtype = field->dtype;
    w->smoothing = feed->smoothing;
    if (feed->dtype != LS_DTYPE_F32 || !field->classes || field->classes > w->values ||
        ls_shape_count(field->shape) != 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the field \"%s\" of %s is no class below %lld, of which a row in fp32 could be made",
                       field->name, source->name, (long long)w->values);
    if (!feed->weights) return LS_OK;
    LS_TRY(ls_calloc(w->values, sizeof *w->weights, &w->weights));
    memcpy(w->weights, feed->weights, (size_t)w->values * sizeof *w->weights);
    return LS_OK;
}

static ls_status make_way(const ls_feed *feed, const ls_source *source, way *w) {
    w->kind = feed->kind;
    if (feed->kind == LS_FEED_CLASS) return make_class(feed, source, w);
    if (feed->kind != LS_FEED_FIELD) return make_drawn(feed, source, w);
    w->field = ls_fields_find(source->field, source->field_count, feed->field);
    if (w->field < 0) return no_field(feed, source);
    const ls_field *field = &source->field[w->field];
    w->picture = ls_field_is_picture(field);
    w->cut = w->picture && (feed->recipe.resize || feed->recipe.augment & LS_AUGMENT_RESIZED_CROP);
    if (w->picture && !feed->image)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the field \"%s\" of %s has pictures of different sizes, which can only be taken as images",
                       field->name, source->name);
    w->values = ls_shape_count(field->shape);
    w->bytes = ls_feed_bytes(feed, source);
    if (!feed->image) {
        ls_status status = ls_convert_find(field->dtype, feed->dtype, &w->convert);
        return status == LS_OK ? LS_OK
                               : ls__fail_context(status, "the field \"%s\" of %s: ", field->name, source->name);
    }
    if (field->dtype != LS_DTYPE_U8 || field->shape.ndim != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the field \"%s\" of %s has %d dimensions of %s; images that are to be prepared are (height, "
                       "width, channels) in u8",
                       field->name, source->name, field->shape.ndim, ls_dtype_name(field->dtype));
    if (!is_floating(feed->dtype))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a loader makes fp32, bf16 or fp16 images, not %s; ask for one of these",
                       ls_dtype_name(feed->dtype));
    return ls_preparer_create(&feed->recipe, field->shape, feed->dtype, &w->preparer);
}

static ls_status mix_way(ls_feeder *f, const ls_feed *feed, way *w) {
    f->mix = feed->mix;
    f->mix_count = feed->mix_count;
    f->mix_seed = feed->recipe.seed;
    w->mixed = 1;
    w->dtype = feed->kind == LS_FEED_CLASS ? w->dtype : feed->dtype;
    if (feed->kind == LS_FEED_CLASS) return LS_OK;
    if (w->preparer && feed->mix_count >= 1 && feed->mix_count <= f->source->count)
        return ls_calloc(w->bytes, 1, &w->other);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: images of pixels can be mixed with one of the first %lld samples, and the field \"%s\" is none",
                   f->source->name, (long long)feed->mix_count, feed->field);
}

ls_status ls_feeder_create(const ls_feed *feeds, int feed_count, const ls_source *source, ls_feeder **out) {
    ls_feeder *f;
    ls_status status;
    *out = NULL;
    if (feed_count < 1 || feed_count > LS_MAX_FIELDS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a loader was asked for %d feeds; there may be 1 to %d", feed_count,
                       LS_MAX_FIELDS);
    LS_TRY(ls_calloc(1, sizeof *f, &f));
    f->source = source;
    f->count = feed_count;
    for (int i = 0; i < feed_count; i++) {
        LS_TRY_GOTO(make_way(&feeds[i], source, &f->way[i]), fail);
        if (feeds[i].mix > 0) LS_TRY_GOTO(mix_way(f, &feeds[i], &f->way[i]), fail);
        for (int k = 0; k < i; k++) f->pairs |= f->way[k].cut && f->way[i].cut && f->way[k].field != f->way[i].field;
    }
    *out = f;
    return LS_OK;
fail:
    ls_feeder_destroy(&f);
    return status;
}

void ls_feeder_destroy(ls_feeder **feeder) {
    ls_feeder *f = *feeder;
    *feeder = NULL;
    if (!f) return;
    for (int i = 0; i < f->count; i++) {
        ls_preparer_destroy(&f->way[i].preparer);
        free(f->way[i].weights);
        free(f->way[i].other);
    }
    ls_image_buffer_free(&f->buffer);
    free(f);
}

static void draw(const way *w, uint32_t epoch, uint64_t sample, void *place) {
    float coin = (float)ls_noise_coin(w->seed, epoch, sample);
    for (int64_t i = 0; i < w->values; i++) {
        float x = w->kind == LS_FEED_COIN ? coin : ls_noise_drawn(w->seed, epoch, sample, (uint32_t)i);
        if (w->dtype == LS_DTYPE_F32)
            ((float *)place)[i] = x;
        else if (w->dtype == LS_DTYPE_F16)
            ((ls_fp16 *)place)[i] = ls_float_to_fp16(x);
        else
            ((ls_bf16 *)place)[i] = ls_float_to_bf16(x);
    }
}

static int64_t class_of(const way *w, const void *value) {
    return w->dtype == LS_DTYPE_U8 ? *(const uint8_t *)value : *(const int32_t *)value;
}

// The row of a class, times `share`; `more`: added to what is there.
static void run_class(const way *w, int64_t class, double share, int more, float *row) {
    double weight = share * (w->weights ? (double)w->weights[class] : 1), rest = w->smoothing / (double)w->values;
    for (int64_t k = 0; k < w->values; k++) {
        float value = (float)(weight * (rest + (k == class ? 1 - w->smoothing : 0)));
        row[k] = more ? row[k] + value : value;
    }
}

static ls_status run_picture(ls_feeder *f, const way *w, const ls_picture *picture, uint32_t epoch, int64_t sample,
                             void *place) {
    ls_status status = ls_preparer_picture(w->preparer, picture, &f->buffer, epoch, (uint64_t)sample, place);
    return status == LS_OK ? LS_OK : ls__source_failed(f->source, sample, status);
}

// Boxes are drawn, and sides resized, by the size that a picture has: of a sample's pictures it has to be the same.
static ls_status check_sizes(const ls_feeder *f, const ls_sample *s, int64_t sample) {
    const ls_picture *first = NULL;
    int64_t size[2][2] = {{0}};
    for (int i = 0; i < f->count; i++) {
        const way *w = &f->way[i];
        if (!w->cut) continue;
        const ls_picture *picture = s->field[w->field];
        int64_t *mine = size[first != NULL];
        ls_status status = ls_image_file_size(picture, &mine[0], &mine[1]);
        if (status == LS_OK && first && (mine[0] != size[0][0] || mine[1] != size[0][1]))
            status = LS_FAIL(LS_STATUS_BAD_DATA,
                             "%s has %lld x %lld pixels and %s %lld x %lld, so that they cannot be cut alike: bring "
                             "both to one size, or leave resized-crop and --resize out",
                             first->name, (long long)size[0][1], (long long)size[0][0], picture->name,
                             (long long)mine[1], (long long)mine[0]);
        if (status != LS_OK) return ls__source_failed(f->source, sample, status);
        if (!first) first = picture;
    }
    return LS_OK;
}

// An image of pixels, from a file or from memory.
static ls_status run_image(ls_feeder *f, const way *w, const void *value, uint32_t epoch, int64_t sample, void *place) {
    if (w->picture) return run_picture(f, w, value, epoch, sample, place);
    return ls_preparer_run(w->preparer, value, epoch, (uint64_t)sample, place);
}

// What a sample is mixed with.
typedef struct partner {
    int64_t sample, class;
    float share;  // of the sample itself
} partner;

// Its images go to where they wait, its class is kept. It is the sample that it would be by itself.
static ls_status run_partner(ls_feeder *f, void *scratch, uint32_t epoch, partner *p) {
    ls_sample s;
    double start = ls_clock();
    LS_TRY(ls_source_read(f->source, p->sample, scratch, &s));
    double read = ls_clock();
    f->reading += read - start;
    for (int i = 0; i < f->count; i++) {
        const way *w = &f->way[i];
        if (w->kind == LS_FEED_CLASS) p->class = class_of(w, s.field[w->field]);
        if (w->other) LS_TRY(run_image(f, w, s.field[w->field], epoch, p->sample, w->other));
    }
    f->preparing += ls_clock() - read;
    return LS_OK;
}

static void blend(const way *w, float share, void *place) {
    int64_t n = w->bytes / (int64_t)ls_dtype_size(w->dtype);
    float *x = place;
    const float *y = w->other;
    ls_bf16 *a = place;
    const ls_bf16 *b = w->other;
    ls_fp16 *p = place;
    const ls_fp16 *q = w->other;
    for (int64_t i = 0; i < n && w->dtype == LS_DTYPE_F32; i++) x[i] = share * x[i] + (1 - share) * y[i];
    for (int64_t i = 0; i < n && w->dtype == LS_DTYPE_BF16; i++)
        a[i] = ls_float_to_bf16(share * ls_bf16_to_float(a[i]) + (1 - share) * ls_bf16_to_float(b[i]));
    for (int64_t i = 0; i < n && w->dtype == LS_DTYPE_F16; i++)
        p[i] = ls_float_to_fp16(share * ls_fp16_to_float(p[i]) + (1 - share) * ls_fp16_to_float(q[i]));
}

ls_status ls_feeder_run(ls_feeder *f, void *scratch, uint32_t epoch, int64_t sample, void *const *to, int64_t at) {
    ls_sample s;
    partner p = {.share = 1};
    if (f->mix > 0) {
        p.share = ls_noise_mix(f->mix_seed, epoch, (uint64_t)sample, f->mix, f->mix_count, &p.sample);
        LS_TRY(run_partner(f, scratch, epoch, &p));
    }
    double start = ls_clock();
    LS_TRY(ls_source_read(f->source, sample, scratch, &s));
    double read = ls_clock();
    f->reading += read - start;
    if (f->pairs) LS_TRY(check_sizes(f, &s, sample));
    for (int i = 0; i < f->count; i++) {
        const way *w = &f->way[i];
        char *place = (char *)to[i] + at * w->bytes;
        float *row = (float *)(void *)place;
        if (w->kind == LS_FEED_CLASS) {
            run_class(w, class_of(w, s.field[w->field]), (double)p.share, 0, row);
            if (w->mixed) run_class(w, p.class, 1 - (double)p.share, 1, row);
        } else if (w->kind != LS_FEED_FIELD) {
            draw(w, epoch, (uint64_t)sample, place);
        } else if (w->preparer) {
            LS_TRY(run_image(f, w, s.field[w->field], epoch, sample, place));
            if (w->other) blend(w, p.share, place);
        } else {
            w->convert(s.field[w->field], w->values, place);
        }
    }
    f->preparing += ls_clock() - read;
    return LS_OK;
}

void ls_feeder_spent(ls_feeder *f, double *reading, double *preparing) {
    *reading = f->reading;
    *preparing = f->preparing;
    f->reading = f->preparing = 0;
}
