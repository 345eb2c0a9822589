#include "data/colour.h"

#include <math.h>

#define WHITE 255.0f

static float clamp(float x) { return x < 0 ? 0 : x > WHITE ? WHITE : x; }

// ITU-R BT.601, with the digits that torchvision has.
static float grey_of(const float *p, int64_t channels) {
    return channels == 1 ? p[0] : 0.2989f * p[0] + 0.587f * p[1] + 0.114f * p[2];
}

static void brighten(float factor, int64_t n, float *p) {
    for (int64_t i = 0; i < n; i++) p[i] = clamp(factor * p[i]);
}

// Away from the mean of the grey image.
static void contrast(float factor, int64_t count, int64_t channels, float *p) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (double)grey_of(p + i * channels, channels);
    float mean = (float)(sum / (double)count), rest = (1 - factor) * mean;
    for (int64_t i = 0; i < count * channels; i++) p[i] = clamp(factor * p[i] + rest);
}

// Away from the grey of each pixel.
static void saturate(float factor, int64_t count, float *p) {
    for (int64_t i = 0; i < count; i++, p += 3) {
        float rest = (1 - factor) * grey_of(p, 3);
        for (int c = 0; c < 3; c++) p[c] = clamp(factor * p[c] + rest);
    }
}

// To hue, saturation and value, and back with the hue moved. A bicubic curve may have left what a colour can be.
static void move_hue(float by, int64_t count, float *p) {
    for (int64_t i = 0; i < count; i++, p += 3) {
        float r = clamp(p[0]), g = clamp(p[1]), b = clamp(p[2]), most = fmaxf(r, fmaxf(g, b)),
              least = fminf(r, fminf(g, b));
        float range = most - least;
        if (range <= 0) continue;
        float red = (most - r) / range, green = (most - g) / range, blue = (most - b) / range;
        float hue = most == r ? blue - green : most == g ? 2 + red - blue : 4 + green - red;
        hue = hue / 6 + 1 + by;
        hue = 6 * (hue - floorf(hue));
        int sixth = (int)hue;
        float part = hue - (float)sixth, s = range / most;
        float low = clamp(most * (1 - s)), falling = clamp(most * (1 - s * part)),
              rising = clamp(most * (1 - s * (1 - part)));
        const float all[6][3] = {{most, rising, low},  {falling, most, low}, {low, most, rising},
                                 {low, falling, most}, {rising, low, most},  {most, low, falling}};
        for (int c = 0; c < 3; c++) p[c] = all[sixth % 6][c];
    }
}

void ls_colour_apply(const ls_augment_look *look, int64_t count, int64_t channels, float *pixels) {
    unsigned augment = look->augment;
    for (int i = 0; i < 4; i++) {
        int which = look->order[i];
        if (which == 0 && augment & LS_AUGMENT_BRIGHTNESS) brighten(look->brightness, count * channels, pixels);
        if (which == 1 && augment & LS_AUGMENT_CONTRAST) contrast(look->contrast, count, channels, pixels);
        if (channels != 3) continue;
        if (which == 2 && augment & LS_AUGMENT_SATURATION) saturate(look->saturation, count, pixels);
        if (which == 3 && augment & LS_AUGMENT_HUE) move_hue(look->hue, count, pixels);
    }
    for (int64_t i = 0; i < count && augment & LS_AUGMENT_LIGHTING; i++)
        for (int c = 0; c < 3; c++) pixels[3 * i + c] += look->lighting[c];
}

// Adds a neighbour, where there is one.
static void add(const float *in, int64_t height, int64_t width, int64_t channels, int64_t y, int64_t x, float weight,
                float *out) {
    if (y < 0 || y >= height || x < 0 || x >= width) return;
    for (int64_t c = 0; c < channels; c++) out[c] += weight * in[(y * width + x) * channels + c];
}

void ls_colour_rotate(const ls_augment_look *look, int64_t height, int64_t width, int64_t channels, const float *in,
                      float *out) {
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++, out += channels) {
            // From the middle, and back.
            float right = (float)x - 0.5f * (float)(width - 1), down = (float)y - 0.5f * (float)(height - 1);
            float from_x = look->cosine * right - look->sine * down + 0.5f * (float)(width - 1);
            float from_y = look->sine * right + look->cosine * down + 0.5f * (float)(height - 1);
            float left = floorf(from_x), top = floorf(from_y), u = from_x - left, v = from_y - top;
            for (int64_t c = 0; c < channels; c++) out[c] = 0;
            add(in, height, width, channels, (int64_t)top, (int64_t)left, (1 - u) * (1 - v), out);
            add(in, height, width, channels, (int64_t)top, (int64_t)left + 1, u * (1 - v), out);
            add(in, height, width, channels, (int64_t)top + 1, (int64_t)left, (1 - u) * v, out);
            add(in, height, width, channels, (int64_t)top + 1, (int64_t)left + 1, u * v, out);
        }
}
