// Timing a loader without training.
#include <lockstep/bench.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

enum { DEPTH = 3, CHANNELS = 3 };

struct ls_data_bench {
    const ls_dataset *dataset;
    ls_loader *loader;
    int64_t batch, count, at;  // samples: of a batch, of the set, that the running epoch has given
    uint64_t seed;
    uint32_t epoch;
    int shuffle;
    uint32_t *order;   // (count)
    ls_range *ranges;  // (of the largest round)
    int64_t room;      // of them
    float offset[CHANNELS], divisor[CHANNELS];
};

static ls_status find_recipe(ls_data_bench *b, const ls_train_config *c, ls_shape stored, ls_recipe *out) {
    double mean[CHANNELS], deviation[CHANNELS];
    ls_normalization normalization;
    LS_TRY(ls__images_recipe(c, stored.dim[2], out));
    LS_TRY(ls_normalization_find(c->normalize, &normalization));
    if (normalization == LS_NORMALIZATION_DATASET) LS_TRY(ls_dataset_channels(b->dataset, mean, deviation));
    return ls__images_numbers(c, stored.dim[2], mean, deviation, b->offset, b->divisor, out);
}

static ls_status make_loader(ls_data_bench *b, const ls_train_config *c) {
    const ls_field *image = ls_dataset_find_field(b->dataset, "image"),
                   *label = ls_dataset_find_field(b->dataset, "label");
    ls_loader_config config = {.split = {b->dataset->train, b->count},
                               .feed_count = label ? 2 : 1,
                               .micro_batch = b->batch,
                               .depth = DEPTH,
                               .threads = c->loader_threads ? c->loader_threads : 1};
    if (!image || image->shape.ndim != 3 || image->dtype != LS_DTYPE_U8 || image->shape.dim[2] > CHANNELS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s has no images in grey or colour to load",
                       ls_dataset_name(b->dataset));
    config.feed[0] = (ls_feed){.field = image->name, .image = 1};
    if (label) config.feed[1] = (ls_feed){.field = label->name, .dtype = label->dtype};
    LS_TRY(ls_precision_find(c->precision, &config.feed[0].dtype));
    LS_TRY(find_recipe(b, c, image->shape, &config.feed[0].recipe));
    LS_TRY(ls_calloc(b->count, sizeof *b->order, &b->order));
    return ls_loader_create(&config, &b->loader);
}

ls_status ls_data_bench_create(const ls_dataset *dataset, const ls_train_config *config, int64_t batch,
                               ls_data_bench **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(dataset, "dataset");
    LS_NEED(config, "config");
    if (batch < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "batches were to have %lld samples: give them at least one",
                       (long long)batch);
    ls_data_bench *b;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    *b = (ls_data_bench){
        .dataset = dataset, .count = ls_dataset_train_count(dataset), .seed = config->seed, .shuffle = config->shuffle};
    b->batch = batch < b->count ? batch : b->count;
    b->at = b->count;
    ls_status status = make_loader(b, config);
    if (status == LS_OK) {
        *out = b;
        return LS_OK;
    }
    ls_data_bench_destroy(&b);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

void ls_data_bench_destroy(ls_data_bench **bench) {
    if (!bench || !*bench) return;
    ls_data_bench *b = *bench;
    ls_loader_destroy(&b->loader);
    free(b->order);
    free(b->ranges);
    free(b);
    *bench = NULL;
}

// The batches of the next samples; of the next epoch, where this one is over.
static ls_status next_ranges(ls_data_bench *b, int64_t *samples, int64_t *count) {
    if (b->at == b->count) {
        b->epoch++;
        b->at = 0;
        ls_sampler_order(b->seed, b->epoch, b->shuffle, b->count, b->order);
    }
    if (*samples > b->count - b->at) *samples = b->count - b->at;
    *count = (*samples + b->batch - 1) / b->batch;
    if (*count > b->room) {
        free(b->ranges);
        b->room = 0;
        LS_TRY(ls_calloc(*count, sizeof *b->ranges, &b->ranges));
        b->room = *count;
    }
    for (int64_t r = 0; r < *count; r++) {
        int64_t first = r * b->batch, left = *samples - first;
        b->ranges[r] = (ls_range){b->at + first, left < b->batch ? left : b->batch};
    }
    b->at += *samples;
    return LS_OK;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ls_status ls_data_bench_round(ls_data_bench *b, int64_t samples, ls_data_round *out) {
    LS_NEED(b, "bench");
    LS_NEED(out, "out");
    int64_t count;
    if (samples < 1) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a round was to load %lld samples", (long long)samples);
    LS_TRY(next_ranges(b, &samples, &count));
    double start = ls_clock(), cpu = cpu_seconds();
    LS_TRY(ls_loader_start(b->loader, b->epoch, b->order, b->ranges, count));
    for (int64_t r = 0; r < count; r++) {
        ls_batch *batch;
        ls_status status = ls_loader_get(b->loader, &batch, NULL);
        if (status != LS_OK) {
            ls_loader_cancel(b->loader);
            return ls__fail_passed(status, __FILE__, __LINE__);
        }
        ls_loader_restore(b->loader, &batch);
    }
    *out = (ls_data_round){samples, ls_clock() - start, cpu_seconds() - cpu};
    return LS_OK;
}
