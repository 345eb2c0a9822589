// "synthetic:HxWxC,CLASSES,TRAIN,TEST": images of any size and number, made when they are read and kept nowhere, to measure speed
// and memory of networks without their data, as other systems' benchmarks do.
//
// A sample is a pure function of its index, the same on every machine. Its pixels are half noise, half a pattern of its class, so that
// a loss falls as it does with data, and a broken recipe is seen. An accuracy on it says nothing about a network.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/dataset.h"
#include "data/formats/draws.h"
#include "data/source.h"

#define SYNTHETIC_KEY 0x53796e7468657469u  // the dataset's fixed seed; another one is another dataset
#define MOST_SIDE     65536
#define MOST_BYTES    ((int64_t)1 << 30)  // of one image
#define MOST_CLASSES  1000000
#define ARGUMENT      "HxWxC[,CLASSES[,TRAIN[,TEST]]]"

// What a block of 16 bytes is drawn for; a pattern's "sample" is its class.
enum { PURPOSE_LABEL, PURPOSE_NOISE, PURPOSE_PATTERN };

typedef struct synthetic {
    ls_source base;
    uint32_t first;  // sample 0's index: training and test samples are different ones
    int64_t pixels;  // bytes of an image
    int64_t label;   // where in the scratch it goes
} synthetic;

// The same pseudo-random bytes for (sample, purpose), whatever the byte order; a block's number may need more than 16 bits.
static ls_philox4 block_of(uint32_t sample, uint32_t purpose, int64_t block) {
    return ls_philox(SYNTHETIC_KEY, sample, purpose, (uint32_t)block, ls_random_stream(LS_RANDOM_DATA, 0, 0));
}

static void draw_pixels(uint32_t sample, uint32_t class, int64_t count, uint8_t *out) {
    for (int64_t at = 0; at < count; at += 16) {
        ls_philox4 noise = block_of(sample, PURPOSE_NOISE, at / 16),
                   pattern = block_of(class, PURPOSE_PATTERN, at / 16);
        uint8_t bytes[16];
        for (int i = 0; i < 4; i++) {
            // The mean of four bytes at once, without what their lowest bits would carry.
            uint32_t mean = (noise.v[i] >> 1 & 0x7f7f7f7fu) + (pattern.v[i] >> 1 & 0x7f7f7f7fu);
            for (int b = 0; b < 4; b++) bytes[4 * i + b] = (uint8_t)(mean >> 8 * b);
        }
        memcpy(out + at, bytes, (size_t)(count - at < 16 ? count - at : 16));
    }
}

static ls_status read_sample(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const synthetic *s = (const synthetic *)source;
    uint32_t sample = s->first + (uint32_t)i;
    int32_t *label = (int32_t *)(void *)((char *)scratch + s->label);
    *label = (int32_t)((uint64_t)block_of(sample, PURPOSE_LABEL, 0).v[0] * (uint32_t)source->field[1].classes >> 32);
    draw_pixels(sample, (uint32_t)*label, s->pixels, scratch);
    out->field[0] = scratch;
    out->field[1] = label;
    return LS_OK;
}

static ls_status create(const char *name, ls_shape image, int classes, int64_t first, int64_t count, ls_source **out) {
    static const ls_source_ops ops = {.read = read_sample};
    const ls_field fields[] = {{"image", image, LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_I32, classes}};
    synthetic *s;
    LS_TRY(ls_source_create(&ops, sizeof *s, name, fields, 2, count, &s));
    s->first = (uint32_t)first;
    s->pixels = ls_shape_count(image);
    s->label = ls_round_up(s->pixels, LS_ALIGN);
    s->base.scratch_bytes = s->label + LS_ALIGN;
    *out = &s->base;
    return LS_OK;
}

// --- what is asked for -----------------------------------------------------------------------------------------------

typedef struct wishes {
    ls_shape image;
    int64_t classes, train, test;
} wishes;

static ls_status no_wishes(const char *text) {
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "the dataset synthetic: expected synthetic:" ARGUMENT
        " in whole numbers, as in 224x224x3,1000,1281167,50000, got \"%.200s\": images of 1 byte to 1 GiB, 1 "
        "to %d classes, at least 1 training sample, up to 2^32 samples in all",
        text, MOST_CLASSES);
}

// A whole number from `least` to `most`, without blanks or signs; moves *text behind it.
static int take(const char **text, int64_t least, int64_t most, int64_t *out) {
    char *end;
    if (**text < '0' || **text > '9') return 0;
    *out = strtoll(*text, &end, 10);  // too large ones become the largest there is
    *text = end;
    return *out >= least && *out <= most;
}

static ls_status read_wishes(const char *text, wishes *out) {
    const char *p = text;
    *out = (wishes){.image = {3, {0}}, .classes = 10, .train = 50000, .test = 10000};
    int64_t bytes = 1;
    for (int d = 0; d < 3; d++) {
        if ((d && *p++ != 'x') || !take(&p, 1, MOST_SIDE, &out->image.dim[d])) return no_wishes(text);
        bytes *= out->image.dim[d];
    }
    struct {
        int64_t *number, least, most;
    } more[] = {
        {&out->classes, 1, MOST_CLASSES}, {&out->train, 1, LS_MAX_SAMPLES - 1}, {&out->test, 0, LS_MAX_SAMPLES - 1}};
    for (int i = 0; *p && i < 3; i++)
        if (*p++ != ',' || !take(&p, more[i].least, more[i].most, more[i].number)) return no_wishes(text);
    if (*p || bytes > MOST_BYTES || out->train + out->test > LS_MAX_SAMPLES) return no_wishes(text);
    return LS_OK;
}

static ls_status make(const char *argument, ls_dataset *out) {
    wishes w;
    LS_TRY(read_wishes(argument, &w));
    LS_TRY(create("the training set of synthetic", w.image, (int)w.classes, 0, w.train, &out->train));
    if (!w.test) return LS_OK;
    return create("the test set of synthetic", w.image, (int)w.classes, w.train, w.test, &out->test);
}

static ls_status synthetic_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    return host->agree(host->self, make(argument, out));
}

const ls_format ls_format_synthetic = {
    .name = "synthetic",
    .help =
        "noise with a pattern of its class, of any size and number (10 classes, 50,000 + 10,000 where nothing is "
        "said), made when it is read: to measure with, not to learn from",
    .argument = ARGUMENT,
    .open = synthetic_open,
};
