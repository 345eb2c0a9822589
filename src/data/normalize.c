#include "data/normalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/image.h"

// By the values of ls_normalization.
static const char *const names[] = {"unit", "symmetric", "dataset", "none"};
static const char *const help_of[] = {
    "pixel / 255: from 0 to 1",
    "pixel / 127.5 - 1: from -1 to 1, as Keras's preprocess_input of ResNetV2 and MobileNet has it",
    "(pixel - mean) / deviation, both of the training set, channel by channel",
    "pixel: from 0 to 255, for networks that begin with a rescaling, as Keras's EfficientNets do",
};

const char *ls_normalization_choice(int index, const char **help) {
    if (index >= (int)(sizeof names / sizeof names[0])) return NULL;
    *help = help_of[index];
    return names[index];
}

ls_status ls_normalization_find(const char *name, ls_normalization *out) {
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(names[i], name) == 0) {
            *out = (ls_normalization)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown normalization '%.64s': there are unit, symmetric, dataset and none", name);
}

// Value by value of a row, so that vectors need not know of channels.
LS_CLONES static void add_row(const uint8_t *restrict row, int64_t n, uint32_t *restrict sum,
                              uint32_t *restrict squares) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t p = row[i];
        sum[i] += p;
        squares[i] += p * p;
    }
}

#define MOST_ROWS 65536  // times 255 squared fits in 32 bits

typedef struct partial_sums {
    int64_t values, channels, rows;  // of a row; rows added since the sums were last taken
    uint32_t *sum, *squares;         // (values) each
} partial_sums;

static void take(partial_sums *p, ls_channel_sums *sums) {
    for (int64_t i = 0; i < p->values; i++) {
        ls_channel_sums *s = &sums[i % p->channels];
        s->count += p->rows;
        s->sum += p->sum[i];
        s->squares += p->squares[i];
    }
    memset(p->sum, 0, (size_t)(2 * p->values) * sizeof *p->sum);
    p->rows = 0;
}

// Of pictures, each of which has rows of its own length.
static ls_status add_picture(const ls_picture *picture, int channels, ls_image_buffer *buffer, ls_channel_sums *sums) {
    ls_image image;
    LS_TRY(ls_image_file_decode(picture, (ls_image_wish){.channels = channels, .shrink = 1}, buffer, &image));
    const uint8_t *p = image.pixels;
    for (int64_t i = 0; i < image.height * image.width; i++)
        for (int c = 0; c < channels; c++, p++) {
            sums[c].count++;
            sums[c].sum += *p;
            sums[c].squares += (uint32_t)*p * *p;
        }
    return LS_OK;
}

static ls_status add_pictures(const ls_source *source, int field, int64_t begin, int64_t end, ls_channel_sums *sums) {
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_sample sample;
    void *scratch = NULL;
    ls_status status = LS_OK;
    if (source->scratch_bytes) LS_TRY(ls_memory_alloc(source->scratch_bytes, &scratch));
    for (int64_t i = begin; i < end && status == LS_OK; i++) {
        status = ls_source_read(source, i, scratch, &sample);
        if (status != LS_OK) break;
        status = add_picture(sample.field[field], (int)source->field[field].shape.dim[2], &buffer, sums);
        if (status != LS_OK) ls__source_failed(source, i, status);
    }
    ls_image_buffer_free(&buffer);
    ls_memory_free(scratch);
    return status;
}

ls_status ls_channel_sums_add(const ls_source *source, int field, int64_t begin, int64_t end, ls_channel_sums *sums) {
    if (ls_field_is_picture(&source->field[field])) return add_pictures(source, field, begin, end, sums);
    ls_shape image = source->field[field].shape;
    partial_sums p = {.values = image.dim[1] * image.dim[2], .channels = image.dim[2]};
    ls_sample sample;
    void *scratch = NULL;
    ls_status status;
    LS_TRY(ls_calloc(2 * p.values, sizeof *p.sum, &p.sum));
    p.squares = p.sum + p.values;
    if (source->scratch_bytes) LS_TRY_GOTO(ls_memory_alloc(source->scratch_bytes, &scratch), done);
    status = LS_OK;
    for (int64_t i = begin; i < end; i++) {
        LS_TRY_GOTO(ls_source_read(source, i, scratch, &sample), done);
        const uint8_t *row = sample.field[field];
        for (int64_t r = 0; r < image.dim[0]; r++, row += p.values) {
            add_row(row, p.values, p.sum, p.squares);
            if (++p.rows == MOST_ROWS) take(&p, sums);
        }
    }
    take(&p, sums);
done:
    ls_memory_free(scratch);
    free(p.sum);
    return status;
}

void ls_channel_moments(const ls_channel_sums *s, double *mean, double *deviation) {
    *mean = s->count ? (double)s->sum / (double)s->count : 0;
    // count * squares - sum * sum exactly: both are nearly equal where a channel hardly varies.
    __int128 spread = (__int128)s->count * s->squares - (__int128)s->sum * s->sum;
    *deviation = s->count ? sqrt((double)spread) / (double)s->count : 0;
}
