// "moving-digits": clips of two digits of "digits", each half as large and moving in a straight line, which bounce off the edges: 8 frames of
// 32 × 32 pixels, of which the first four are what a network sees and the others what it foretells. After Srivastava et al. 2015, "Unsupervised
// learning of video representations using LSTMs" (Moving MNIST: 20 frames of 64 × 64).
//
// A sample is a pure function of its index and is drawn when it is read, so that clips take no memory; the digits they are made of are drawn once
// per host. Digits of tests are none that is trained on. Pixels are the same on every machine: floats see only + - * / and comparisons.
#include <string.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/formats/digits.h"
#include "data/formats/draws.h"

#define CLIPS_KEY 0x4d6f76696e673031u  // the dataset's fixed seed; another one is another dataset

enum {
    TRAIN = 10000,
    TEST = 1000,
    FRAMES = 8,
    SEEN = FRAMES / 2,
    SIDE = 32,
    PIXELS = SIDE * SIDE,
    DIGITS_TRAIN = 5000,  // that clips are made of
    DIGITS_TEST = 1000,
    HALF = LS_DIGITS_SIDE / 2,  // of a digit in a clip
    AROUND = HALF + 2,          // with a pixel of nothing around it, so that it may lie between pixels
    TOGETHER = 2,               // digits in a clip
};

// A digit (AROUND, AROUND), values from 0 to 1.
typedef float glyph[AROUND * AROUND];

// ---- digits --------------------------------------------------------------------------------------------------------

// Every pixel is the mean of four.
static void make_digit(uint32_t sample, glyph out) {
    uint8_t image[LS_DIGITS_SIDE * LS_DIGITS_SIDE], label;
    ls__digits_draw(sample, image, &label);
    memset(out, 0, sizeof(glyph));
    for (int y = 0; y < HALF; y++)
        for (int x = 0; x < HALF; x++) {
            const uint8_t *four = image + 2 * y * LS_DIGITS_SIDE + 2 * x;
            int sum = four[0] + four[1] + four[LS_DIGITS_SIDE] + four[LS_DIGITS_SIDE + 1];
            out[(y + 1) * AROUND + x + 1] = (float)sum / 1020.0f;
        }
}

// ---- a clip --------------------------------------------------------------------------------------------------------

// Along one axis: where a digit begins, in pixels, and how far it goes each frame.
typedef struct motion {
    float at, step;
} motion;

static motion draw_motion(draws *d) {
    motion m;
    m.at = draw_range(d, 0.0f, SIDE - HALF);
    m.step = draw_range(d, -3.0f, 3.0f);
    return m;
}

static void move(motion *m) {
    const float most = SIDE - HALF;
    m->at += m->step;
    if (m->at < 0.0f) m->at = -m->at, m->step = -m->step;
    if (m->at > most) m->at = 2.0f * most - m->at, m->step = -m->step;
}

// Blends a digit in; where there are two, the brighter one is seen.
static void draw_digit(const glyph digit, motion x, motion y, float *frame) {
    int left = (int)x.at, top = (int)y.at;
    float right = x.at - (float)left, down = y.at - (float)top;
    for (int v = 0; v <= HALF && top + v < SIDE; v++)
        for (int u = 0; u <= HALF && left + u < SIDE; u++) {
            const float *p = digit + (v + 1) * AROUND + u + 1;  // and the pixels before it, from which it has come
            float above = p[-AROUND] + (p[-AROUND - 1] - p[-AROUND]) * right, here = p[0] + (p[-1] - p[0]) * right;
            float value = here + (above - here) * down, *to = frame + (top + v) * SIDE + left + u;
            if (value > *to) *to = value;
        }
}

static void draw_clip(const glyph *digits, int digit_count, uint32_t sample, float *frames[FRAMES]) {
    draws d = draws_of(CLIPS_KEY, sample);
    for (int f = 0; f < FRAMES; f++) memset(frames[f], 0, PIXELS * sizeof(float));
    for (int i = 0; i < TOGETHER; i++) {
        const float *digit = digits[draw_below(&d, digit_count)];
        motion x = draw_motion(&d), y = draw_motion(&d);
        for (int f = 0; f < FRAMES; f++) {
            draw_digit(digit, x, y, frames[f]);
            move(&x);
            move(&y);
        }
    }
}

static ls_status read_clip(const glyph *digits, int digit_count, uint32_t sample, void *const *fields) {
    float *frames[FRAMES];
    for (int f = 0; f < FRAMES; f++) frames[f] = (float *)fields[f / SEEN] + f % SEEN * PIXELS;
    draw_clip(digits, digit_count, sample, frames);
    return LS_OK;
}

// `user`: all digits, those of tests last.
static ls_status read_train(void *user, int64_t sample, void *const *fields) {
    return read_clip(user, DIGITS_TRAIN, (uint32_t)sample, fields);
}

static ls_status read_test(void *user, int64_t sample, void *const *fields) {
    return read_clip((const glyph *)user + DIGITS_TRAIN, DIGITS_TEST, (uint32_t)(TRAIN + sample), fields);
}

static ls_status moving_digits_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    const ls_field fields[] = {{"image", LS_SHAPE(SEEN, SIDE, SIDE, 1), LS_DTYPE_F32, 0},
                               {"target", LS_SHAPE(FRAMES - SEEN, SIDE, SIDE, 1), LS_DTYPE_F32, 0}};
    const int64_t total = DIGITS_TRAIN + DIGITS_TEST;
    void *memory = NULL;
    LS_TRY(host->agree(host->self, host->alloc(host->self, total * (int64_t)sizeof(glyph), &memory)));
    glyph *digits = memory;
    int64_t first = total * host->rank / host->size, past = total * (host->rank + 1) / host->size;
    for (int64_t i = first; i < past; i++)
        make_digit((uint32_t)(i < DIGITS_TRAIN ? i : i - DIGITS_TRAIN + LS_DIGITS_TRAIN), digits[i]);
    LS_TRY(host->barrier(host->self));
    const ls_callback train = {TRAIN, read_train, memory}, test = {TEST, read_test, memory};
    ls_status status = ls_source_create_callback("the training set of moving-digits", fields, 2, &train, &out->train);
    if (status == LS_OK)
        status = ls_source_create_callback("the test set of moving-digits", fields, 2, &test, &out->test);
    out->shared = 1;
    return host->agree(host->self, status);
}

const ls_format ls_format_moving_digits = {
    .name = "moving-digits",
    .help =
        "clips of two digits that move, 32 x 32: 4 frames to see and 4 to foretell, drawn by the library itself: "
        "10,000 + 1,000",
    .argument = NULL,
    .open = moving_digits_open,
};
