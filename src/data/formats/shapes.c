// "shapes": geometric figures in colour, 32 × 32 pixels in ten classes, drawn by the library itself in CIFAR-10's sizes,
// so that every machine has colour pictures to train on.
//
// A sample is a pure function of its index: everything about it comes from Philox draws keyed by it, so the workers of a
// host each draw their own share, and it does not matter how many they are. Pixels are the same on every machine and
// with every compiler: floats see only + - * / and comparisons, which IEEE 754 fixes to the last bit (the build forbids
// contraction), nothing comes from libm, and colours are mixed in integers.
//
// One sample: cloudy background between two colours → coverage by a figure, turned, stretched and moved → the figure's
// two colours over it → noise → bytes.

#include "data/dataset.h"

#include "base/error.h"
#include "data/formats/draws.h"

#define SIDE       32
#define PIXELS     (SIDE * SIDE)
#define TRAIN      50000
#define TEST       10000
#define SHAPES_KEY 0x5368617065733130u  // the dataset's fixed seed; another one is another dataset

// Draws of draws.h: those of PURPOSE_FIGURE come word by word, the others in whole blocks.
enum { PURPOSE_FIGURE, PURPOSE_CLOUDS, PURPOSE_NOISE };

// `blocks` blocks of 16 bytes. By value, not by address: the byte order must not matter.
static void draw_bytes(uint32_t sample, uint32_t purpose, int blocks, uint8_t *out) {
    for (int i = 0; i < blocks; i++) {
        ls_philox4 words = draw_block(SHAPES_KEY, sample, purpose, (uint32_t)i);
        for (int j = 0; j < 16; j++) out[16 * i + j] = (uint8_t)(words.v[j / 4] >> 8 * (j % 4));
    }
}

// ---- figures -------------------------------------------------------------------------------------------------------

// Each figure fills about the circle of radius 1 and is given by its distance from the edge: negative inside, and near
// the edge about as far as it says. v points down.

static inline float larger(float a, float b) { return a > b ? a : b; }
static inline float smaller(float a, float b) { return a < b ? a : b; }
static inline float size_of(float a) { return a > 0.0f ? a : -a; }

// Distance from a circle of radius r around (x, 0), good near its edge.
static inline float circle(float u, float v, float x, float r) {
    float du = u - x;
    return (du * du + v * v - r * r) * (0.5f / r);
}

static inline float box(float u, float v, float width, float height) {
    return larger(size_of(u) - width, size_of(v) - height);
}

// Bands of width 1/2 and period 1: between -1/4 in the middle of one and 1/4 between two.
static inline float bands(float a) {
    float from_zero = a + 64.0f;  // positive, so that the cast rounds down
    return size_of(from_zero - (float)(int)from_zero - 0.5f) - 0.25f;
}

static inline float disc(float u, float v) { return circle(u, v, 0.0f, 0.9f); }

static inline float ring(float u, float v) { return larger(circle(u, v, 0.0f, 1.0f), -circle(u, v, 0.0f, 0.55f)); }

static inline float square(float u, float v) { return box(u, v, 0.8f, 0.8f); }

// Sides at -30, 90 and 210 degrees, as all numbers like these below: cosines and sines to seven digits.
static inline float triangle(float u, float v) {
    return larger(larger(0.8660254f * u - 0.5f * v, -0.8660254f * u - 0.5f * v), v) - 0.55f;
}

static inline float cross(float u, float v) { return smaller(box(u, v, 1.0f, 0.3f), box(u, v, 0.3f, 1.0f)); }

// Five tips: inside are the points on the inner side of at least four of five lines, so the line that is second
// farthest decides.
static inline float star(float u, float v) {
    float a = v, b = 0.9510565f * u + 0.3090170f * v, c = -0.9510565f * u + 0.3090170f * v;
    float d = 0.5877853f * u - 0.8090170f * v, e = -0.5877853f * u - 0.8090170f * v;
    float first = larger(a, b), second = smaller(a, b);
    second = larger(second, smaller(first, c));
    first = larger(first, c);
    second = larger(second, smaller(first, d));
    first = larger(first, d);
    second = larger(second, smaller(first, e));
    return second - 0.37f;
}

static inline float stripes(float u, float v) {
    return larger(circle(u, v, 0.0f, 1.0f), bands(u * 1.6f + 0.25f) * 0.625f);
}

static inline float checker(float u, float v) {
    float a = bands(u * 1.1f + 0.25f), b = bands(v * 1.1f + 0.25f);
    return larger(box(u, v, 0.9f, 0.9f), larger(smaller(a, b), -larger(a, b)) * 0.9f);
}

static inline float crescent(float u, float v) { return larger(circle(u, v, 0.0f, 1.0f), -circle(u, v, 0.5f, 0.8f)); }

// A shaft along u, and a head whose sides are at 45 degrees.
static inline float arrow(float u, float v) {
    float head = larger(0.05f - u, (size_of(v) + u - 1.05f) * 0.7071068f);
    return smaller(head, box(u + 0.45f, v, 0.55f, 0.24f));
}

// From pixels to the figure's plane.
typedef struct frame {
    float ux, uy, u0;  // u = ux x + uy y + u0
    float vx, vy, v0;
    float sharp;  // from distances there to parts of the edge's width
} frame;

// How much of each pixel a figure covers, in 128ths. One loop for each figure, which the compiler vectorizes.
typedef void cover_fn(const frame *f, int16_t cover[PIXELS]);

#define COVER(figure)                                                                                                  \
    static void cover_##figure(const frame *f, int16_t cover[PIXELS]) {                                                \
        for (int y = 0; y < SIDE; y++)                                                                                 \
            for (int x = 0; x < SIDE; x++) {                                                                           \
                float u = f->ux * (float)x + (f->uy * (float)y + f->u0);                                               \
                float v = f->vx * (float)x + (f->vy * (float)y + f->v0);                                               \
                float part = 0.5f - figure(u, v) * f->sharp;                                                           \
                cover[y * SIDE + x] = (int16_t)(int)(larger(0.0f, smaller(1.0f, part)) * 128.0f);                      \
            }                                                                                                          \
    }

#define FIGURES(X) X(disc) X(ring) X(square) X(triangle) X(cross) X(star) X(stripes) X(checker) X(crescent) X(arrow)

FIGURES(COVER)

static cover_fn *const figures[] = {
#define X(figure) cover_##figure,
    FIGURES(X)
#undef X
};
#define CLASSES ((int)(sizeof figures / sizeof figures[0]))

static const char *const names[] = {
#define X(figure) #figure,
    FIGURES(X)
#undef X
        NULL,
};

static void draw_frame(draws *d, frame *f) {
    // Any direction, by the half-angle tangent: a point of the unit circle without sine and cosine.
    float half = draw_range(d, -1.0f, 1.0f), norm = 1.0f / (1.0f + half * half);
    float cosine = (1.0f - half * half) * norm, sine = 2.0f * half * norm;
    if (draw_below(d, 2)) {
        cosine = -cosine;
        sine = -sine;
    }
    float radius = draw_range(d, 7.0f, 13.0f), stretch = draw_range(d, 0.8f, 1.25f);
    float width = radius * stretch, height = radius / stretch;
    float x = draw_range(d, 11.0f, 20.0f), y = draw_range(d, 11.0f, 20.0f);
    f->ux = cosine / width;
    f->uy = sine / width;
    f->vx = -sine / height;
    f->vy = cosine / height;
    f->u0 = -(f->ux * x + f->uy * y);
    f->v0 = -(f->vx * x + f->vy * y);
    f->sharp = radius / draw_range(d, 1.0f, 2.2f);
}

// ---- background ----------------------------------------------------------------------------------------------------

// Adds `weight` times random values on a lattice with `cell` pixels between its points, blended in between: 127 at most.
static inline void add_lattice(const uint8_t *values, int cell, int shift, int16_t weight, int16_t clouds[PIXELS]) {
    int across = SIDE / cell + 1;
    for (int y = 0; y < SIDE; y++) {
        const uint8_t *above = values + y / cell * across, *below = above + across;
        int part = y % cell;
        int16_t left = (int16_t)((above[0] >> 1) * (cell - part) + (below[0] >> 1) * part);
        for (int i = 0; i + 1 < across; i++) {
            int16_t right = (int16_t)((above[i + 1] >> 1) * (cell - part) + (below[i + 1] >> 1) * part);
            int16_t *out = clouds + y * SIDE + i * cell;
            for (int x = 0; x < cell; x++)
                out[x] = (int16_t)(out[x] + (int16_t)((left * (cell - x) + right * x) >> shift) * weight);
            left = right;
        }
    }
}

// Where each pixel of the background lies between its two colours, in 128ths.
static void draw_clouds(uint32_t sample, int16_t clouds[PIXELS]) {
    enum { COARSE = 5 * 5, FINE = 9 * 9, BLOCKS = (COARSE + FINE + 15) / 16 };
    uint8_t values[16 * BLOCKS];
    draw_bytes(sample, PURPOSE_CLOUDS, BLOCKS, values);
    for (int i = 0; i < PIXELS; i++) clouds[i] = 0;
    add_lattice(values, 8, 6, 3, clouds);
    add_lattice(values + COARSE, 4, 4, 2, clouds);
    // Blending draws everything to the middle; twice the contrast makes up for it.
    for (int i = 0; i < PIXELS; i++) {
        int16_t v = (int16_t)((clouds[i] - 5 * 64) * 2 / 5 + 64);
        v = v > 0 ? v : 0;
        clouds[i] = v < 128 ? v : 128;
    }
}

// ---- colours -------------------------------------------------------------------------------------------------------

typedef struct paint {
    int16_t back[2], front[2];  // the two colours of the background and of the figure, one channel
} paint;

static int16_t to_byte(float v) { return (int16_t)(int)larger(0.0f, smaller(255.0f, v)); }

// The figure is lighter or darker than the middle of the background by enough to be seen, and of any hue.
static void draw_paint(draws *d, paint channel[3]) {
    float contrast = draw_range(d, 50.0f, 110.0f);
    if (draw_below(d, 2)) contrast = -contrast;
    for (int c = 0; c < 3; c++) {
        float middle = draw_range(d, 40.0f, 215.0f), spread = draw_range(d, -50.0f, 50.0f);
        float figure = middle + contrast + draw_range(d, -60.0f, 60.0f), shade = draw_range(d, -30.0f, 30.0f);
        // Where there is no room on this side, the other one is as far away.
        if (figure < 0.0f || figure > 255.0f) figure = middle - (figure - middle);
        channel[c].back[0] = to_byte(middle - spread);
        channel[c].back[1] = to_byte(middle + spread);
        channel[c].front[0] = to_byte(figure - shade);
        channel[c].front[1] = to_byte(figure + shade);
    }
}

// a at part 0, b at part 128. In 16 bits: the product of a difference of bytes with 128 just fits. (Shifting a negative
// number rounds down with every compiler that can build this.)
static inline int16_t mixed(int16_t a, int16_t b, int16_t part) {
    return (int16_t)(a + ((int16_t)((b - a) * part) >> 7));
}

static void write_pixels(const paint paints[3], const int16_t clouds[PIXELS], const int16_t cover[PIXELS],
                         const uint8_t noise[PIXELS], int16_t grain, uint8_t *image) {
    uint8_t plane[3][PIXELS];
    for (int c = 0; c < 3; c++) {
        const paint p = paints[c];
        for (int i = 0; i < PIXELS; i++) {
            int16_t back = mixed(p.back[0], p.back[1], clouds[i]), front = mixed(p.front[0], p.front[1], clouds[i]);
            // Four bits of noise in brightness, two in each channel of its own.
            int16_t speck = (int16_t)((noise[i] & 15) + (noise[i] >> (4 + c) & 3) * 4 - 13);
            int16_t v = (int16_t)(mixed(back, front, cover[i]) + ((int16_t)(speck * grain) >> 3));
            v = v > 0 ? v : 0;
            plane[c][i] = (uint8_t)(v < 255 ? v : 255);
        }
    }
    for (int i = 0; i < PIXELS; i++)
        for (int c = 0; c < 3; c++) image[3 * i + c] = plane[c][i];
}

static void draw_sample(uint32_t sample, uint8_t *image, uint8_t *label) {
    int16_t clouds[PIXELS], cover[PIXELS];
    uint8_t noise[PIXELS];
    draws d = draws_of(SHAPES_KEY, sample);
    frame f;
    paint paints[3];
    int class = draw_below(&d, CLASSES);
    draw_frame(&d, &f);
    draw_paint(&d, paints);
    int16_t grain = (int16_t)(2 + draw_below(&d, 15));
    draw_clouds(sample, clouds);
    figures[class](&f, cover);
    draw_bytes(sample, PURPOSE_NOISE, PIXELS / 16, noise);
    write_pixels(paints, clouds, cover, noise, grain, image);
    *label = (uint8_t) class;
}

static ls_status shapes_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    const int64_t total = TRAIN + TEST, bytes = 3 * PIXELS;
    void *memory = NULL;
    LS_TRY(host->agree(host->self, host->alloc(host->self, total * (bytes + 1), &memory)));
    uint8_t *images = memory, *labels = images + total * bytes;
    int64_t first = total * host->rank / host->size, past = total * (host->rank + 1) / host->size;
    for (int64_t i = first; i < past; i++) draw_sample((uint32_t)i, images + i * bytes, labels + i);
    LS_TRY(host->barrier(host->self));

    ls_arrays train_set = {TRAIN, {images, labels}};
    ls_arrays test_set = {TEST, {images + TRAIN * bytes, labels + TRAIN}};
    return ls_data_set_images(host, out, LS_SHAPE(SIDE, SIDE, 3), CLASSES, &train_set, &test_set);
}

const ls_format ls_format_shapes = {
    .name = "shapes",
    .help = "geometric figures of 10 kinds, 32x32 colour, drawn by the library itself: 50,000 + 10,000",
    .argument = NULL,
    .classes = names,
    .open = shapes_open,
};
