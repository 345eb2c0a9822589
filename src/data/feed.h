// What a network takes of samples, and how it gets it: images by a recipe, everything else number by number.
#ifndef LS_DATA_FEED_H
#define LS_DATA_FEED_H

#include "data/prepare.h"
#include "data/source.h"

// Where a feed comes from.
typedef enum ls_feed_kind {
    LS_FEED_FIELD,   // a field of the source
    LS_FEED_NORMAL,  // drawn: normal numbers of mean 0 and deviation 1 (data/noise.h), for each sample and epoch
    LS_FEED_COIN,    // drawn: 0 or 1, as likely, all elements of a sample alike
    LS_FEED_CLASS,  // a row of as many numbers as `shape` says, for a field of one class: a weight at the class, 0 elsewhere; smoothed
} ls_feed_kind;

// What a network takes of a sample: a field, in the form it computes with, or numbers that are drawn for it. Two feeds may be of the same field.
typedef struct ls_feed {
    const char *field;  // its name in the source
    ls_dtype dtype;  // of the batch. Images: F32, BF16 or F16. Else whatever the field's values fit in (data/convert.h)
    int image;       // 1: an image (H, W, C) in U8, which `recipe` says what becomes of; 0: numbers, as they are
    ls_recipe recipe;  // all zero: pixel / 255. Of what is drawn its seed alone
    ls_feed_kind kind;
    ls_shape shape;        // of what is drawn, F32, BF16 or F16; of a row for a class, F32
    const float *weights;  // of classes, (shape); NULL: 1
    // Of images of pixels and rows of classes: above 0, samples are mixed (ls_noise_mix), by the recipe's seed, with one of the first `mix_count` of the source.
    double mix;
    int64_t mix_count;
    double smoothing;  // S: the row is 1 - S at the class and S / (its length) everywhere, times the weight
} ls_feed;

// The shape that it has for one sample of a source, and its bytes. The source has the field.
ls_shape ls_feed_shape(const ls_feed *feed, const ls_source *source);
int64_t ls_feed_bytes(const ls_feed *feed, const ls_source *source);

// Makes what the feeds are of from samples. For one thread at a time.
typedef struct ls_feeder ls_feeder;
// Borrows the source. The feeds' numbers are copied.
// Errors: INVALID_ARGUMENT (no such field, which there are; no image; a recipe that does not go with it), UNSUPPORTED (a type),
// OUT_OF_MEMORY.
ls_status ls_feeder_create(const ls_feed *feeds, int feed_count, const ls_source *source, ls_feeder **out);
void ls_feeder_destroy(ls_feeder **feeder);

// Reads sample `sample` and puts each feed f into place `at` of to[f], (..., shape). `epoch` is what augmentation is drawn for.
// `scratch` is (source->scratch_bytes), aligned to LS_ALIGN. Errors: those of the source.
ls_status ls_feeder_run(ls_feeder *feeder, void *scratch, uint32_t epoch, int64_t sample, void *const *to, int64_t at);
// Seconds that reading and everything else of all its samples took; begins anew.
void ls_feeder_spent(ls_feeder *feeder, double *reading, double *preparing);

#endif
