// Writing by hand, as datasets draw it: strokes of a character → points moved (each a little, then all by one smooth field) → affine map to
// pixels → splines flattened to segments → coverage by a round pen along each segment, the largest wins → grain → bytes.
//
// A sample is a pure function of its index: class, writing style, distortion and grain come from Philox draws keyed by it, so the workers of a
// host each draw their own share, and it does not matter how many they are. Pixels are the same on every machine and with every compiler: floats
// see only + - * / and comparisons, which IEEE 754 fixes to the last bit (the build forbids contraction), and nothing from libm.
#include "data/formats/handwriting.h"

#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "data/formats/draws.h"

#define SIDE   LS_WRITTEN_SIDE
#define PIXELS (SIDE * SIDE)

#define VECTOR      4  // pixels of a row are drawn in multiples of this: the loop vectorizes without a rest
#define STRIDE      (SIDE + VECTOR)  // the last few may hang over the right edge
#define SPAN_PIECES 4                // segments per smooth span between two points

typedef struct vec2 {
    float x, y;
} vec2;

// Draws of draws.h: those of PURPOSE_SHAPE come word by word, the others in whole blocks.
enum { PURPOSE_SHAPE, PURPOSE_GRAIN };

// Between -width and width, the middle more often (the sum of two even draws): most writing is ordinary.
static float draw_around(draws *d, float width) {
    uint32_t w = draw_word(d);
    int32_t sum = (int32_t)(w >> 16) + (int32_t)(w & 0xFFFF) - 0xFFFF;
    return width * ((float)sum * 0x1p-16f);
}

// How one sample is written.
typedef struct hand {
    float xx, xy, yx, yy;        // from the glyph's box (centred, unit side) to pixels
    float left, top;             // where the box's centre lands
    float bend_x[5], bend_y[5];  // the smooth field: coefficients of uu, uv, vv, uuu, vvv
    float wobble;                // how far single points stray, in box units
    float pen;                   // radius of the pen in pixels
    float soft;                  // width of its soft edge in pixels
    int ink;                     // darkest value, 0 .. 255
    int grain;                   // how much the paper shows through, 0 .. 255
} hand;

static void draw_hand(draws *d, hand *h) {
    // Rotation by the half-angle tangent: a point of the unit circle without sine and cosine.
    float half = draw_around(d, 0.18f), norm = 1.0f / (1.0f + half * half);
    float cosine = (1.0f - half * half) * norm, sine = 2.0f * half * norm;
    float slant = 0.08f + draw_around(d, 0.45f);
    float height = 18.5f + draw_around(d, 4.0f), width = height * (0.92f + draw_around(d, 0.28f));
    // rotation · slant · scale; y points down, so a positive slant leans the top to the right
    h->xx = cosine * width;
    h->xy = (-cosine * slant - sine) * height;
    h->yx = sine * width;
    h->yy = (cosine - sine * slant) * height;
    h->left = 13.5f + draw_around(d, 3.2f);
    h->top = 13.5f + draw_around(d, 3.2f);
    for (int i = 0; i < 5; i++) {
        float most = i < 3 ? 0.45f : 0.65f;
        h->bend_x[i] = draw_around(d, most);
        h->bend_y[i] = draw_around(d, most);
    }
    h->wobble = draw_range(d, 0.02f, 0.08f);
    h->pen = 1.4f + draw_around(d, 0.7f);
    h->soft = draw_range(d, 0.9f, 1.8f);
    h->ink = 200 + draw_below(d, 56);
    h->grain = draw_below(d, 110);
}

// Where a glyph's point lands on the picture.
static vec2 place_point(draws *d, const hand *h, const written_point *p) {
    float u = ((float)p->x - 50.0f) * 0.01f + draw_around(d, h->wobble);
    float v = ((float)p->y - 50.0f) * 0.01f + draw_around(d, h->wobble);
    float uu = u * u, uv = u * v, vv = v * v, uuu = uu * u, vvv = vv * v;
    const float *bx = h->bend_x, *by = h->bend_y;
    float x = u + (bx[0] * uu + bx[1] * uv + bx[2] * vv + bx[3] * uuu + bx[4] * vvv);
    float y = v + (by[0] * uu + by[1] * uv + by[2] * vv + by[3] * uuu + by[4] * vvv);
    return (vec2){h->left + h->xx * x + h->xy * y, h->top + h->yx * x + h->yy * y};
}

// The pixels of [low, high] that are in the picture: first_pixel(low) .. past_pixel(high) - 1.
static int first_pixel(float x) { return x <= 0.0f ? 0 : x >= (float)SIDE ? SIDE : (int)x; }
static int past_pixel(float x) { return first_pixel(x + 1.0f); }

// Draws the segment a-b with a round pen: coverage is 1 or more within `radius - soft / 2`, 0 beyond
// `radius + soft / 2`, and in between falls with the squared distance, which needs no root. Each pixel keeps the most it
// was covered, so strokes that cross do not add up.
static void draw_segment(float cover[SIDE][STRIDE], vec2 a, vec2 b, float radius, float soft) {
    float reach = radius + 0.5f * soft, inner = radius - 0.5f * soft;
    if (inner < 0.0f) inner = 0.0f;
    float outer2 = reach * reach, scale = 1.0f / (outer2 - inner * inner);
    float dx = b.x - a.x, dy = b.y - a.y, inverse = 1.0f / (dx * dx + dy * dy + 1e-6f);
    int x0 = first_pixel((a.x < b.x ? a.x : b.x) - reach), x1 = past_pixel((a.x < b.x ? b.x : a.x) + reach);
    int y0 = first_pixel((a.y < b.y ? a.y : b.y) - reach), y1 = past_pixel((a.y < b.y ? b.y : a.y) + reach);
    int width = (x1 - x0 + VECTOR - 1) / VECTOR * VECTOR;
    for (int y = y0; y < y1; y++) {
        float py = (float)y - a.y, along_y = py * dy, left = (float)x0 - a.x;
        float *row = &cover[y][x0];
        for (int x = 0; x < width; x++) {
            float px = left + (float)x;
            float t = (px * dx + along_y) * inverse;  // how far along the segment the nearest point is
            t = t > 0.0f ? t : 0.0f;
            t = t < 1.0f ? t : 1.0f;
            float ex = px - t * dx, ey = py - t * dy;
            float c = (outer2 - (ex * ex + ey * ey)) * scale;
            row[x] = c > row[x] ? c : row[x];
        }
    }
}

// Draws the span from p[1] to p[2] of a stroke as a cubic through both. p[0] and p[3] are the neighbours that give it
// its direction at the ends; where an end is free (a corner or the stroke's end) the curve runs out straight.
static void draw_span(float cover[SIDE][STRIDE], const vec2 p[4], int free1, int free2, const float radius[2],
                      float soft) {
    vec2 d = {p[2].x - p[1].x, p[2].y - p[1].y};
    if (free1 && free2) {
        draw_segment(cover, p[1], p[2], 0.5f * (radius[0] + radius[1]), soft);
        return;
    }
    vec2 m1 = {0.5f * (p[2].x - p[0].x), 0.5f * (p[2].y - p[0].y)};
    vec2 m2 = {0.5f * (p[3].x - p[1].x), 0.5f * (p[3].y - p[1].y)};
    if (free1) m1 = (vec2){1.5f * d.x - 0.5f * m2.x, 1.5f * d.y - 0.5f * m2.y};
    if (free2) m2 = (vec2){1.5f * d.x - 0.5f * m1.x, 1.5f * d.y - 0.5f * m1.y};
    // Hermite form: p1 + t (m1 + t (3d - 2 m1 - m2 + t (m1 + m2 - 2d)))
    vec2 c2 = {3.0f * d.x - 2.0f * m1.x - m2.x, 3.0f * d.y - 2.0f * m1.y - m2.y};
    vec2 c3 = {m1.x + m2.x - 2.0f * d.x, m1.y + m2.y - 2.0f * d.y};
    vec2 from = p[1];
    for (int i = 1; i <= SPAN_PIECES; i++) {
        float t = (float)i * (1.0f / SPAN_PIECES), middle = t - 0.5f / SPAN_PIECES;
        vec2 to = {p[1].x + t * (m1.x + t * (c2.x + t * c3.x)), p[1].y + t * (m1.y + t * (c2.y + t * c3.y))};
        draw_segment(cover, from, to, radius[0] + middle * (radius[1] - radius[0]), soft);
        from = to;
    }
}

static void draw_glyph(float cover[SIDE][STRIDE], draws *d, const hand *h, const written_glyph *g) {
    vec2 at[GLYPH_MAX_POINTS];
    float radius[GLYPH_MAX_POINTS];
    int count = g->count;
    for (int i = 0; i < count; i++) {
        at[i] = place_point(d, h, &g->point[i]);
        radius[i] = h->pen * (1.0f + draw_around(d, 0.3f));
    }
    int first = 1;  // the point begins a stroke
    for (int i = 0; i + 1 < count; i++) {
        int kind = g->point[i].kind, next = g->point[i + 1].kind;
        if (kind != POINT_END) {
            int free1 = first || kind == POINT_CORNER, free2 = next != POINT_SMOOTH;
            assert((free1 || i > 0) && (free2 || i + 2 < count));
            vec2 p[4] = {free1 ? at[i] : at[i - 1], at[i], at[i + 1], free2 ? at[i + 1] : at[i + 2]};
            draw_span(cover, p, free1, free2, radius + i, h->soft);
        }
        first = kind == POINT_END;
    }
}

// One picture in eight has a stray mark: a short stroke anywhere.
static void draw_stray(float cover[SIDE][STRIDE], draws *d, const hand *h) {
    if (draw_below(d, 8)) return;
    vec2 a, b;  // in statements of their own: initializers of a struct may run in any order
    a.x = draw_range(d, 1.0f, 26.0f);
    a.y = draw_range(d, 1.0f, 26.0f);
    b.x = a.x + draw_around(d, 4.0f);
    b.y = a.y + draw_around(d, 4.0f);
    draw_segment(cover, a, b, 0.5f * h->pen, h->soft);
}

// Coverage to bytes, with grain: each pixel loses up to `grain` of its ink. The background stays 0. Three plain loops,
// the last in 16 bits, because compilers vectorize those.
static void write_pixels(float cover[SIDE][STRIDE], uint64_t key, uint32_t sample, const hand *h, uint8_t *image) {
    uint8_t speck[PIXELS];
    uint16_t level[PIXELS];
    for (int i = 0; i < PIXELS; i += 16) {
        ls_philox4 words = draw_block(key, sample, PURPOSE_GRAIN, (uint32_t)i / 16);
        // By value, not by address: the byte order must not matter.
        for (int j = 0; j < 16; j++) speck[i + j] = (uint8_t)(words.v[j / 4] >> 8 * (j % 4));
    }
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            float c = cover[y][x];
            c = c < 1.0f ? c : 1.0f;
            level[y * SIDE + x] = (uint16_t)(int)(c * 256.0f);
        }
    }
    uint16_t ink = (uint16_t)h->ink, grain = (uint16_t)h->grain;
    for (int i = 0; i < PIXELS; i++) {
        uint16_t dark = (uint16_t)(level[i] * ink) >> 8, kept = 256 - ((uint16_t)(speck[i] * grain) >> 8);
        image[i] = (uint8_t)((uint16_t)(dark * kept) >> 8);
    }
}

void ls__written_draw(const ls_handwriting *w, uint32_t sample, uint8_t *image, uint8_t *label) {
    float cover[SIDE][STRIDE];
    memset(cover, 0, sizeof cover);
    draws d = draws_of(w->key, sample);
    int class = draw_below(&d, w->classes);
    const written_character *character = &w->characters[class];
    const written_glyph *g = &character->variant[draw_below(&d, character->count)];
    hand h;
    draw_hand(&d, &h);
    draw_glyph(cover, &d, &h, g);
    draw_stray(cover, &d, &h);
    write_pixels(cover, w->key, sample, &h, image);
    *label = (uint8_t) class;
}

ls_status ls__written_open(const ls_handwriting *w, ls_data_host *host, ls_dataset *out) {
    const int64_t train = LS_WRITTEN_TRAIN, total = train + LS_WRITTEN_TEST;
    void *memory = NULL;
    LS_TRY(host->agree(host->self, host->alloc(host->self, total * (PIXELS + 1), &memory)));
    uint8_t *images = memory, *labels = images + total * PIXELS;
    int64_t first = total * host->rank / host->size, past = total * (host->rank + 1) / host->size;
    for (int64_t i = first; i < past; i++) ls__written_draw(w, (uint32_t)i, images + i * PIXELS, labels + i);
    LS_TRY(host->barrier(host->self));

    ls_arrays train_set = {train, {images, labels}};
    ls_arrays test_set = {total - train, {images + train * PIXELS, labels + train}};
    return ls_data_set_images(host, out, LS_SHAPE(SIDE, SIDE, 1), w->classes, &train_set, &test_set);
}
