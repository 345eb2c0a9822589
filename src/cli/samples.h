// Pictures of what a network draws while it is trained: DIR/epoch-0001.png, ... Only the worker that speaks draws them, from its own copy of the weights, which are
// the same on all: so the pictures are the same for any number of workers, except with --async.
#ifndef LS_CLI_SAMPLES_H
#define LS_CLI_SAMPLES_H

#include <lockstep/predict.h>
#include <lockstep/train.h>

typedef struct cli_samples {
    const char *folder;
    const ls_graph *graph;
    ls_predictor *predictor;
    ls_graph *decoder;     // of a network that draws samples of a distribution; else NULL
    ls_predictor *draws;   // of the decoder
    ls_shape shape;        // (H, W, C) of its images
    int frames;            // of a clip, side by side; 1: images
    int count;             // of samples in a picture
    int rows;              // of the picture
    float *in, *out, *to;  // (count, frames, H, W, C): what it sees, what it makes of that, what is to come of it
    float *still;          // (count, ...) zeros in place of noise: a distribution's mean is what is decoded
    float *noise, *drawn;  // (DRAWN * count, ...): what the decoder makes of noise
    float offset[3], divisor[3];  // of a channel's pixels
} cli_samples;

// Before training: makes the folder, and finds out whether it can be written to. Errors: IO.
ls_status cli_samples_check(const char *folder);
// The first test samples, or training samples where there are none, as the recipe prepares them; of a network of clips (T, H, W, C) the fields "image"
// and "target". Errors: INVALID_ARGUMENT (the network draws no images like those that it sees), those of reading samples and of predictors.
ls_status cli_samples_begin(cli_samples *samples, const char *folder, const ls_graph *graph, const ls_dataset *dataset,
                            const ls_train_config *config, const ls_train_result *result);
// The picture after an epoch. Errors: IO, those of predictors.
ls_status cli_samples_draw(cli_samples *samples, ls_trainer *trainer, int epoch);
void cli_samples_end(cli_samples *samples);

// All parameters of a graph's store that the trainer has, into a predictor of that graph. Not collective. Errors: those of both.
ls_status cli_take_weights(const ls_graph *graph, ls_trainer *trainer, ls_predictor *predictor);
// A sheet of `rows` x `columns` images (H, W, C), row by row, whose pixels are between 0 and 255, as a PNG, enlarged where they are small. Errors: IO, OUT_OF_MEMORY.
ls_status cli_sheet_write(const char *path, const uint8_t *pixels, ls_shape image, int rows, int columns);

#endif
