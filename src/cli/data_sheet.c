// A picture with samples of a dataset: each as large as fits into a square, on grey.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/data.h"

enum {
    SQUARE = 96,
    GAP = 4,
    COLUMNS = 10,
    MOST_ROWS = 26,  // letters
    MOST_LOOKED = 4000,
    BACKGROUND = 48
};  // pixels; samples; grey

typedef struct sheet {
    const ls_dataset *dataset;
    int rows, filled[MOST_ROWS];
    ls_image image;
} sheet;

// At most this many rows: of more classes, the first of evenly spread ones.
static int row_of(const sheet *s, int label, int classes) {
    if (classes <= 0) {
        for (int r = 0; r < s->rows; r++)
            if (s->filled[r] < COLUMNS) return r;
        return -1;
    }
    if (classes <= s->rows) return label;
    for (int r = 0; r < s->rows; r++)
        if ((int)((int64_t)r * classes / s->rows) == label) return r;
    return -1;
}

// In red, green and blue, whatever its channels are, and made smaller or larger to fit.
static ls_status place(sheet *s, int row, const ls_image *image) {
    ls_train_config config;
    float *values;  // (h, w, channels)
    int64_t longest = image->height > image->width ? image->height : image->width;
    int64_t h = (image->height * SQUARE + longest - 1) / longest, w = (image->width * SQUARE + longest - 1) / longest;
    int64_t channels = image->channels;
    if (channels != 1 && channels != 3) return LS_OK;
    ls_train_config_init(&config);
    LS_TRY(ls_calloc(h * w * channels, sizeof *values, &values));
    ls_status status = ls_train_prepare_image(&config, image, LS_SHAPE(h, w, channels), NULL, NULL, values);
    int64_t top = GAP + row * (SQUARE + GAP) + (SQUARE - h) / 2;
    int64_t left = GAP + s->filled[row] * (SQUARE + GAP) + (SQUARE - w) / 2;
    for (int64_t y = 0; y < h && status == LS_OK; y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t c = 0; c < 3; c++) {
                float value = values[(y * w + x) * channels + (channels == 3 ? c : 0)];
                s->image.pixels[((top + y) * s->image.width + left + x) * 3 + c] = (uint8_t)(255 * value + 0.5f);
            }
    free(values);
    s->filled[row]++;
    return status;
}

static int is_full(const sheet *s) {
    for (int r = 0; r < s->rows; r++)
        if (s->filled[r] < COLUMNS) return 0;
    return 1;
}

static ls_status fill(sheet *s) {
    int64_t count = ls_dataset_train_count(s->dataset), looked = count < MOST_LOOKED ? count : MOST_LOOKED;
    int classes = ls_dataset_classes(s->dataset);
    for (int64_t n = 0; n < looked && !is_full(s); n++) {
        ls_sample_info info;
        ls_image image;
        // First its class alone: most are not wanted.
        if (ls_dataset_look(s->dataset, 0, n, &info, NULL) != LS_OK) continue;
        int row = row_of(s, info.label, classes);
        if (row < 0 || s->filled[row] == COLUMNS) continue;
        if (ls_dataset_look(s->dataset, 0, n, &info, &image) != LS_OK) continue;
        ls_status status = image.pixels ? place(s, row, &image) : LS_OK;
        ls_image_free(&image);
        LS_TRY(status);
    }
    return LS_OK;
}

ls_status data_sheet(const ls_dataset *dataset, const char *path) {
    sheet s = {.dataset = dataset};
    const ls_field *field = ls_dataset_find_field(dataset, "image");
    int classes = ls_dataset_classes(dataset);
    if (!field || field->shape.ndim != 3 || field->dtype != LS_DTYPE_U8)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--sheet: the dataset %s has no images of pixels to be shown",
                       ls_dataset_name(dataset));
    s.rows = classes > 0 && classes < MOST_ROWS ? classes : MOST_ROWS;
    s.image = (ls_image){GAP + s.rows * (SQUARE + GAP), GAP + COLUMNS * (SQUARE + GAP), 3, NULL};
    LS_TRY(ls_calloc(s.image.height * s.image.width, 3, &s.image.pixels));
    memset(s.image.pixels, BACKGROUND, (size_t)(s.image.height * s.image.width * 3));
    ls_status status = fill(&s);
    if (status == LS_OK) status = ls_image_write(path, &s.image);
    ls_image_free(&s.image);
    return status;
}
