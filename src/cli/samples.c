#include "cli/samples.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"

enum { SAMPLES = 10, CLIPS = 4, SIDE = 64, GAP = 4, BACKGROUND = 48, PATH = 4096 };  // pixels; grey
enum { ROWS = 3, DRAWN = 4 };  // of images, and of what a decoder draws

// --- a sheet ---------------------------------------------------------------------------------------------------------

ls_status cli_sheet_write(const char *path, const uint8_t *pixels, ls_shape image, int rows, int columns) {
    int64_t h = image.dim[0], w = image.dim[1], channels = image.dim[2], longest = h > w ? h : w;
    int64_t zoom = longest < SIDE ? SIDE / longest : 1;
    ls_image sheet = {GAP + rows * (h * zoom + GAP), GAP + columns * (w * zoom + GAP), channels, NULL};
    LS_TRY(ls_calloc(sheet.height * sheet.width, channels, &sheet.pixels));
    memset(sheet.pixels, BACKGROUND, (size_t)(sheet.height * sheet.width * channels));
    for (int i = 0; i < rows * columns; i++)
        for (int64_t y = 0; y < h * zoom; y++)
            for (int64_t x = 0; x < w * zoom; x++) {
                int64_t top = GAP + i / columns * (h * zoom + GAP) + y, left = GAP + i % columns * (w * zoom + GAP) + x;
                memcpy(sheet.pixels + (top * sheet.width + left) * channels,
                       pixels + ((i * h + y / zoom) * w + x / zoom) * channels, (size_t)channels);
            }
    ls_status status = ls_image_write(path, &sheet);
    ls_image_free(&sheet);
    return status;
}

// --- reconstructions -------------------------------------------------------------------------------------------------

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write samples to %s: %s; name a folder that can be written to with --samples",
                   path, strerror(errno));
}

static ls_status path_of(const char *folder, int epoch, char path[PATH]) {
    if (snprintf(path, PATH, "%s/epoch-%04d.png", folder, epoch) < PATH) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--samples: the folder's name is too long");
}

ls_status cli_samples_check(const char *folder) {
    char path[PATH];
    LS_TRY(path_of(folder, 1, path));
    if (ls_output_folder(folder) != 0 || ls_output_check(path) != 0) return cannot_write(folder);
    return LS_OK;
}

// What turns numbers into pixels again.
static void find_scale(cli_samples *s, const ls_train_config *config, const ls_train_result *result) {
    for (int c = 0; c < (int)s->shape.dim[2]; c++) {
        s->offset[c] = 0;
        s->divisor[c] = 255;
        if (strcmp(config->normalize, "none") == 0) s->divisor[c] = 1;
        if (strcmp(config->normalize, "symmetric") == 0) s->offset[c] = s->divisor[c] = 127.5F;
        if (strcmp(config->normalize, "dataset") != 0) continue;
        s->offset[c] = (float)(255 * result->channel_mean[c]);
        if (result->channel_deviation[c] > 0) s->divisor[c] = (float)(255 * result->channel_deviation[c]);
    }
}

static ls_status take_memory(cli_samples *s, const ls_dataset *dataset, int most) {
    int64_t n = s->frames * ls_shape_count(s->shape), there = ls_dataset_test_count(dataset);
    if (there == 0) there = ls_dataset_train_count(dataset);
    s->count = there < most ? (int)there : most;
    LS_TRY(ls_calloc(s->count * n, sizeof *s->in, &s->in));
    LS_TRY(ls_calloc(s->count * n, sizeof *s->out, &s->out));
    return ls_calloc(s->count * n, sizeof *s->to, &s->to);
}

// Which of its fields a clip's numbers are; -1: none of that name, type and shape.
static int find_clips(const ls_dataset *dataset, const char *name, ls_shape shape) {
    const ls_field *field;
    for (int f = 0; (field = ls_dataset_field(dataset, f)); f++)
        if (strcmp(field->name, name) == 0)
            return field->dtype == LS_DTYPE_F32 && ls_shape_equal(field->shape, shape) ? f : -1;
    return -1;
}

// Their values go from 0 to 1.
static ls_status read_clips(cli_samples *s, const ls_dataset *dataset, ls_shape clip) {
    int in = find_clips(dataset, "image", clip), to = find_clips(dataset, "target", clip);
    if (in < 0 || to < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--samples: the dataset %s has no clips \"image\" and \"target\" of fp32 for %s to draw",
                       ls_dataset_name(dataset), ls_graph_name(s->graph));
    for (int64_t c = 0; c < clip.dim[3]; c++) s->divisor[c] = 255;
    LS_TRY(take_memory(s, dataset, CLIPS));
    for (int i = 0; i < s->count; i++) {
        void *fields[LS_MAX_FIELDS] = {NULL};
        fields[in] = s->in + i * ls_shape_count(clip);
        fields[to] = s->to + i * ls_shape_count(clip);
        LS_TRY(ls_dataset_read(dataset, ls_dataset_test_count(dataset) > 0, i, fields));
    }
    return LS_OK;
}

static ls_status read_samples(cli_samples *s, const ls_dataset *dataset, const ls_train_config *config,
                              const ls_train_result *result) {
    int test = ls_dataset_test_count(dataset) > 0;
    int64_t n = ls_shape_count(s->shape);
    LS_TRY(take_memory(s, dataset, SAMPLES));
    for (int i = 0; i < s->count; i++) {
        ls_sample_info info;
        ls_image image;
        LS_TRY(ls_dataset_look(dataset, test, i, &info, &image));
        ls_status status = ls_train_prepare_sample(config, &image, i, s->shape, result->channel_mean,
                                                   result->channel_deviation, s->in + i * n);
        if (status == LS_OK)
            status = ls_train_prepare_image(config, &image, s->shape, result->channel_mean, result->channel_deviation,
                                            s->to + i * n);
        ls_image_free(&image);
        LS_TRY(status);
    }
    return LS_OK;
}

static ls_status create_predictor(const ls_graph *graph, const ls_train_config *config, int64_t batch,
                                  ls_predictor **out) {
    ls_predict_config c;
    ls_predict_config_init(&c);
    c.device = config->device;
    c.precision = config->precision;
    c.isa = config->isa;
    c.batch = batch;
    return ls_predictor_create(graph, &c, out);
}

static int64_t noise_count(const cli_samples *s) { return ls_shape_count(ls_graph_input_at(s->decoder, 0).shape); }

// What a decoder makes of noise, the same after every epoch. Networks without one have none.
static ls_status begin_drawing(cli_samples *s, const ls_train_config *config) {
    ls_status status = ls_graph_decoder(s->graph, &s->decoder);
    if (status == LS_STATUS_NOT_FOUND || status == LS_STATUS_INVALID_ARGUMENT) return LS_OK;
    LS_TRY(status);
    if (strcmp(config->normalize, "unit") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--samples: %s draws pixels from 0 to 1: leave out --normalize %s, or --samples",
                       ls_graph_name(s->graph), config->normalize);
    int64_t images = (int64_t)DRAWN * s->count, n = noise_count(s);
    if (config->noise == 0) s->rows = ROWS - 1;  // what is to come of it is what it sees
    LS_TRY(ls_calloc(images * n, sizeof *s->noise, &s->noise));
    LS_TRY(ls_calloc(images * ls_shape_count(s->shape), sizeof *s->drawn, &s->drawn));
    for (int64_t i = 0; i < images; i++) ls_train_draw_noise(config, i, n, s->noise + i * n);
    return create_predictor(s->decoder, config, images, &s->draws);
}

static ls_status begin_images(cli_samples *s, const ls_dataset *dataset, const ls_train_config *config,
                              const ls_train_result *result) {
    const ls_field *field = ls_dataset_find_field(dataset, "image");
    if (!field || field->dtype != LS_DTYPE_U8)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--samples: the dataset %s has no images of pixels",
                       ls_dataset_name(dataset));
    if (config->mean || config->std || config->scale != 1 || strcmp(config->channel_order, "rgb") != 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--samples turns numbers back into pixels as --normalize says: leave out --mean, --std, --scale "
                       "and --channel-order, or --samples");
    find_scale(s, config, result);
    LS_TRY(read_samples(s, dataset, config, result));
    return begin_drawing(s, config);
}

ls_status cli_samples_begin(cli_samples *s, const char *folder, const ls_graph *graph, const ls_dataset *dataset,
                            const ls_train_config *config, const ls_train_result *result) {
    ls_port in = ls_graph_input_at(graph, 0), out = ls_graph_output_at(graph, 0);
    int clips = in.shape.ndim == 4;
    int64_t channels = in.shape.dim[2 + clips];
    *s = (cli_samples){.folder = folder, .graph = graph, .shape = in.shape, .frames = 1, .rows = ROWS};
    if ((in.shape.ndim != 3 && !clips) || !ls_shape_equal(in.shape, out.shape) || (channels != 1 && channels != 3))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--samples: %s draws no images like those that it sees",
                       ls_graph_name(graph));
    if (clips) {
        s->frames = (int)in.shape.dim[0];
        s->shape = LS_SHAPE(in.shape.dim[1], in.shape.dim[2], channels);
        LS_TRY(read_clips(s, dataset, in.shape));
    } else {
        LS_TRY(begin_images(s, dataset, config, result));
    }
    for (int i = 1; i < ls_graph_input_count(graph) && !s->still; i++) {
        ls_port port = ls_graph_input_at(graph, i);
        if (strcmp(port.name, LS_INPUT_NOISE) == 0)
            LS_TRY(ls_calloc(s->count * ls_shape_count(port.shape), sizeof *s->still, &s->still));
    }
    return create_predictor(graph, config, s->count, &s->predictor);
}

ls_status cli_take_weights(const ls_graph *graph, ls_trainer *trainer, ls_predictor *predictor) {
    const ls_store *store = ls_graph_store(graph);
    for (int i = 0; i < ls_store_count(store); i++) {
        ls_parameter p = ls_store_parameter(store, i);
        int64_t count = ls_shape_count(p.shape);
        float *values;
        LS_TRY(ls_calloc(count, sizeof *values, &values));
        ls_status status = ls_trainer_get_weights(trainer, p.name, values, count);
        if (status == LS_OK) status = ls_predictor_set_weights(predictor, p.name, values, count);
        free(values);
        LS_TRY(status);
    }
    return LS_OK;
}

static void put_pixels(const cli_samples *s, const float *values, int64_t n, uint8_t *out) {
    for (int64_t i = 0; i < n; i++) {
        float x = values[i] * s->divisor[i % s->shape.dim[2]] + s->offset[i % s->shape.dim[2]] + 0.5F;
        out[i] = (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
    }
}

// What the network makes of what it sees.
static ls_status reconstruct(cli_samples *s, ls_trainer *trainer) {
    const void *inputs[LS_MAX_FIELDS] = {s->in};
    float *outputs[LS_MAX_FIELDS] = {s->out};
    for (int i = 1; i < ls_graph_input_count(s->graph) && i < LS_MAX_FIELDS; i++)
        if (strcmp(ls_graph_input_at(s->graph, i).name, LS_INPUT_NOISE) == 0) inputs[i] = s->still;
    LS_TRY(cli_take_weights(s->graph, trainer, s->predictor));
    return ls_predictor_run(s->predictor, s->count, inputs, outputs);
}

static ls_status draw(cli_samples *s, ls_trainer *trainer) {
    const void *inputs[] = {s->noise};
    float *outputs[] = {s->drawn};
    if (!s->draws) return LS_OK;
    LS_TRY(cli_take_weights(s->decoder, trainer, s->draws));
    return ls_predictor_run(s->draws, (int64_t)DRAWN * s->count, inputs, outputs);
}

ls_status cli_samples_draw(cli_samples *s, ls_trainer *trainer, int epoch) {
    const float *rows[ROWS] = {s->in, s->out, s->to};
    int64_t n = s->count * s->frames * ls_shape_count(s->shape);
    char path[PATH];
    uint8_t *pixels;
    LS_TRY(path_of(s->folder, epoch, path));
    LS_TRY(reconstruct(s, trainer));
    LS_TRY(draw(s, trainer));
    LS_TRY(ls_calloc((ROWS + DRAWN) * n, 1, &pixels));
    for (int r = 0; r < s->rows && r < ROWS; r++) put_pixels(s, rows[r], n, pixels + r * n);
    if (s->draws) put_pixels(s, s->drawn, DRAWN * n, pixels + s->rows * n);
    ls_status status = cli_sheet_write(path, pixels, s->shape, s->rows + (s->draws ? DRAWN : 0), s->count * s->frames);
    free(pixels);
    return status;
}

void cli_samples_end(cli_samples *s) {
    ls_predictor_destroy(&s->predictor);
    ls_predictor_destroy(&s->draws);
    ls_graph_destroy(&s->decoder);
    free(s->in);
    free(s->out);
    free(s->to);
    free(s->still);
    free(s->noise);
    free(s->drawn);
    *s = (cli_samples){.folder = NULL};
}
