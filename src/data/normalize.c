#include "data/normalize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clones.h"
#include "base/error.h"
#include "base/memory.h"

// By the values of ls_normalization.
static const char *const names[] = {"unit", "symmetric", "dataset"};
static const char *const help_of[] = {
    "pixel / 255: from 0 to 1",
    "pixel / 127.5 - 1: from -1 to 1, as Keras's preprocess_input of ResNetV2 and MobileNet has it",
    "(pixel - mean) / deviation, both of the training set, channel by channel",
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
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown normalization '%.64s': there are unit, symmetric and dataset",
                   name);
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

ls_status ls_channel_sums_add(const ls_split *split, ls_shape image, int64_t begin, int64_t end,
                              ls_channel_sums *sums) {
    int64_t channels = image.dim[2], n = image.dim[1] * channels, rows = (end - begin) * image.dim[0];
    const uint8_t *row = split->images + begin * ls_shape_count(image);
    uint32_t *partial;  // (2, n)
    LS_TRY(ls_calloc(2 * n, sizeof *partial, &partial));
    while (rows > 0) {
        int64_t some = rows < MOST_ROWS ? rows : MOST_ROWS;
        memset(partial, 0, (size_t)(2 * n) * sizeof *partial);
        for (int64_t r = 0; r < some; r++, row += n) add_row(row, n, partial, partial + n);
        for (int64_t i = 0; i < n; i++) {
            ls_channel_sums *s = &sums[i % channels];
            s->count += some;
            s->sum += partial[i];
            s->squares += partial[n + i];
        }
        rows -= some;
    }
    free(partial);
    return LS_OK;
}

void ls_channel_moments(const ls_channel_sums *s, double *mean, double *deviation) {
    *mean = s->count ? (double)s->sum / (double)s->count : 0;
    // count * squares - sum * sum exactly: both are nearly equal where a channel hardly varies.
    __int128 spread = (__int128)s->count * s->squares - (__int128)s->sum * s->sum;
    *deviation = s->count ? sqrt((double)spread) / (double)s->count : 0;
}
