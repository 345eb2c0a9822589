// Backward weights of convolutions in tiles: sums over pixels, for which DY is brought into tiles, and X is transposed.
//
// Pixels are those of all samples one after the other, and X is transposed again for each tap; or, framed, an image's rows have the
// frame's width, DY is zero where the image has ended, and all taps read one transposed frame, each from its place.
#include <string.h>

#include "device/cpu/conv2d_tiles_impl.h"

enum {
    PAIRS = 1 << 18,  // elements of DY brought into tiles at once
    PIXELS = 1024,    // and no more than so many pixels
};

static const ls_bf16 zeros[LS_TILES_COLUMNS];

// --- framed ----------------------------------------------------------------------------------------------------------

// Pixels of an image: of DY, and of X with what the last of them read beside it. Whole tiles.
static int64_t frame_pixels(const ls_pixel_map *m) { return ls_round_up(m->height * m->frame_width, LS_TILE_DEPTH); }
static int64_t read_pixels(const ls_pixel_map *m) {
    int64_t reach = (m->frame_height - m->height) * m->frame_width + m->frame_width - m->width;
    return ls_round_up(frame_pixels(m) + reach, LS_TILE_DEPTH);
}

// Elements from one transposed channel to the next: an odd number of lines, so that channels do not meet in one place of the cache.
static int64_t channel_row(const ls_pixel_map *m, int64_t images) {
    int64_t lines = images * read_pixels(m) / LS_TILE_DEPTH;
    return (lines + 1 - lines % 2) * LS_TILE_DEPTH;
}

// --- which pixels ----------------------------------------------------------------------------------------------------

typedef struct block {
    const ls_tiles_kernel *kernel;
    const ls_bf16 *x, *dy;
    ls_bf16 *pairs;
    const ls_bf16 **dy_pixels, **x_pixels;  // x_pixels: framed
    float *dw;
    float *sums;             // of each tile's columns, those of even and those of odd pixels; NULL: no bias
    int64_t first, count;    // pixels; framed: images
    int64_t pixels;          // of DY, in whole tiles
    int64_t begin, columns;  // of DW
} block;

// DY's pixels, zeros where there is none.
static void find_dy(const block *w) {
    const ls_tiles_kernel *k = w->kernel;
    const ls_bf16 *dy = w->dy + w->begin / LS_TILE * k->dy_block;
    int64_t plane = k->map.height * k->map.width, n = w->first / plane, at = w->first % plane;
    for (int64_t p = 0; p < w->pixels; p++) {
        w->dy_pixels[p] = p < w->count ? dy + n * plane * k->columns + at * k->dy_step : zeros;
        if (++at == plane) at = 0, n++;
    }
}

// Images with so many pixels each, of rows as wide as the frame's, the first at (top, left) of an image: NULL, or `none`, outside.
static void find_framed(const ls_pixel_map *m, const block *w, const ls_bf16 *image, int64_t height, int64_t width,
                        int64_t channels, int64_t step, int64_t top, int64_t left, int64_t pixels, const ls_bf16 *none,
                        const ls_bf16 **to) {
    image += w->first * height * width * channels;
    for (int64_t n = 0; n < w->count; n++, image += height * width * channels, to += pixels)
        for (int64_t p = 0, y = top; p < pixels; y++)
            for (int64_t x = left; x < left + m->frame_width && p < pixels; x++, p++)
                to[p] = y >= 0 && y < height && x >= 0 && x < width ? image + (y * width + x) * step : none;
}

// Of DY, and of X.
static void find_frames(const block *w) {
    const ls_tiles_kernel *k = w->kernel;
    const ls_pixel_map *m = &k->map;
    find_framed(m, w, w->dy + w->begin / LS_TILE * k->dy_block, m->height, m->width, k->columns, k->dy_step, 0, 0,
                frame_pixels(m), zeros, w->dy_pixels);
    find_framed(m, w, w->x, m->from_height, m->from_width, m->channels, m->step, -m->top, -m->left, read_pixels(m),
                NULL, w->x_pixels);
}

// What pixels read at a tap: (count), NULL outside the image.
static void find_tap(const block *w, int tap, const ls_bf16 **pixels) {
    const ls_pixel_map *m = &w->kernel->map;
    int ty = tap / m->taps_x, tx = tap % m->taps_x;
    ls_place p = ls__place_of(m, w->first);
    for (int64_t i = 0; i < w->count; i++, p = ls__next_place(m, p)) pixels[i] = ls__pixel_at(m, w->x, p, ty, tx);
}

// --- into tiles ------------------------------------------------------------------------------------------------------

// 32 pixels of the columns of tiles `begin` to `end`, where channels lie in blocks.
static void pairs_of_blocks(const block *w, int64_t p, int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; t++) {
        const ls_bf16 *from[LS_TILE_DEPTH];
        for (int64_t r = 0; r < LS_TILE_DEPTH; r++) {
            from[r] = w->dy_pixels[p + r];
            if (from[r] != zeros) from[r] += t * (w->kernel->dy_block - LS_TILE);
        }
        ls__tile_pairs(w->pairs + p * LS_TILE, w->pixels * LS_TILE, from, t, t + 1, w->sums);
    }
}

// DY in tiles: (columns / 16, tiles, 16, 16, 2); threads take some columns each. Adds to the bias's sums, in the order of pixels.
static void bring_pairs(const block *w) {
    int64_t tiles = w->columns / LS_TILE, parts = ls__least(w->kernel->threads, tiles);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < parts; i++)
        for (int64_t p = 0; p < w->pixels; p += LS_TILE_DEPTH) {
            int64_t begin = tiles * i / parts, end = tiles * (i + 1) / parts;
            if (w->kernel->dy_block != LS_TILE)
                pairs_of_blocks(w, p, begin, end);
            else
                ls__tile_pairs(w->pairs + p * LS_TILE, w->pixels * LS_TILE, w->dy_pixels + p, begin, end, w->sums);
        }
}

// Of 16 * tiles channels, `offset` elements behind the pixels.
static void transpose_channels(const ls_bf16 *const *pixels, int64_t count, int64_t offset, int tiles, ls_bf16 *to,
                               int64_t step, int64_t row) {
    for (int64_t first = 0; first < count; first += LS_TILE_DEPTH, to += step) {
        const ls_bf16 *from[LS_TILE_DEPTH];
        for (int64_t r = 0; r < LS_TILE_DEPTH; r++)
            from[r] = first + r < count && pixels[first + r] ? pixels[first + r] + offset : zeros;
        for (int64_t r = first + 2 * LS_TILE_DEPTH; r < ls__least(count, first + 3 * LS_TILE_DEPTH); r++)
            if (pixels[r]) __builtin_prefetch(pixels[r] + offset);
        ls__tile_transpose(to, row, from, tiles);
    }
}

// 16 * tiles channels from `channel` on of `count` pixels, transposed: 32 pixels of channel c lie at to + i * step + c * row. Zero behind
// the last.
static void bring_transposed(const ls_pixel_map *m, const ls_bf16 *const *pixels, int64_t count, int64_t channel,
                             int tiles, ls_bf16 *to, int64_t step, int64_t row) {
    int64_t offset = channel / LS_TILE * m->block;
    if (m->block == LS_TILE)
        transpose_channels(pixels, count, offset, tiles, to, step, row);
    else
        for (int t = 0; t < tiles; t++)
            transpose_channels(pixels, count, offset + t * m->block, 1, to + t * LS_TILE * row, step, row);
}

// --- products --------------------------------------------------------------------------------------------------------

// Rows of DW: `rows` tiles of channels of a tap.
static void multiply_tap(const block *w, const ls_tile_block *product, int tap, int64_t channel) {
    const ls_tiles_kernel *k = w->kernel;
    ls_tile_block b = *product;
    b.c_row = k->columns;
    b.b_column = w->pixels * LS_TILE;
    b.add = w->first > 0;
    for (int64_t column = 0; column < w->columns; column += LS_TILES_BLOCK) {
        b.b = w->pairs + column / LS_TILE * b.b_column;
        b.c = w->dw + (tap * k->map.channels + channel) * k->columns + w->begin + column;
        b.columns = (int)ls__least(2, (w->columns - column) / LS_TILE);
        k->tiles->multiply(&b);
    }
}

static int64_t channel_blocks(const ls_pixel_map *m) { return ls__parts(m->channels, LS_TILES_BLOCK); }

// The products of 32 channels at all taps: what `tap_product` needs beside the tap.
static ls_tile_block framed_product(const block *w, int64_t unit, const ls_bf16 *transposed) {
    const ls_pixel_map *m = &w->kernel->map;
    int64_t deep = frame_pixels(m) / LS_TILE_DEPTH;
    return (ls_tile_block){.a = transposed,
                           .a_row = channel_row(m, w->kernel->once),
                           .a_group = read_pixels(m),
                           .a_step = LS_TILE_DEPTH,
                           .b_group = deep * LS_TILE_SIZE,
                           .groups = w->count,
                           .depth = deep,
                           .rows = (int)ls__least(2, (m->channels - unit * LS_TILES_BLOCK) / LS_TILE)};
}

// Those of one tap.
static void framed_tap(const block *w, const ls_tile_block *product, int64_t unit, int tap) {
    ls_tile_block b = *product;
    b.a += w->kernel->map.tap_pixels[tap];
    multiply_tap(w, &b, tap, unit * LS_TILES_BLOCK);
}

// The pixels from `first` on, `count` of them, of 32 channels.
static void framed_bring(const block *w, const ls_tile_block *product, int64_t unit, int64_t first, int64_t count,
                         ls_bf16 *transposed) {
    bring_transposed(&w->kernel->map, w->x_pixels + first, count, unit * LS_TILES_BLOCK, product->rows,
                     transposed + first, LS_TILE_DEPTH, product->a_row);
}

// 32 channels of all taps, by one thread.
static void framed_unit(const block *w, int64_t unit, char *scratch) {
    ls_bf16 *transposed = (ls_bf16 *)(void *)scratch;
    ls_tile_block b = framed_product(w, unit, transposed);
    framed_bring(w, &b, unit, 0, w->count * read_pixels(&w->kernel->map), transposed);
    for (int tap = 0; tap < ls__taps(&w->kernel->map); tap++) framed_tap(w, &b, unit, tap);
}

// All channels, by threads that outnumber their blocks: first they transpose an image each, then they take a tap each. A block lies in
// the scratch of the thread of its number.
static void framed_together(const block *w, char *threads) {
    const ls_tiles_kernel *k = w->kernel;
    const ls_pixel_map *m = &k->map;
    int64_t blocks = channel_blocks(m), taps = ls__taps(m);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks * w->count; i++) {
        int64_t unit = i / w->count, image = i % w->count;
        ls_bf16 *transposed = (ls_bf16 *)(void *)(threads + unit * k->thread_bytes);
        ls_tile_block b = framed_product(w, unit, transposed);
        framed_bring(w, &b, unit, image * read_pixels(m), read_pixels(m), transposed);
    }
#pragma omp for schedule(static)
    for (int64_t i = 0; i < blocks * taps; i++) {
        ls_bf16 *transposed = (ls_bf16 *)(void *)(threads + i / taps * k->thread_bytes);
        ls_tile_block b = framed_product(w, i / taps, transposed);
        framed_tap(w, &b, i / taps, (int)(i % taps));
    }
}

// 32 channels of one tap. *tap: the one whose pixels the thread's scratch has.
static void tap_unit(const block *w, int64_t unit, char *scratch, int *tap) {
    const ls_pixel_map *m = &w->kernel->map;
    int64_t channel = unit % channel_blocks(m) * LS_TILES_BLOCK;
    ls_bf16 *transposed = (ls_bf16 *)(void *)scratch;
    const ls_bf16 **pixels = (const ls_bf16 **)(void *)(transposed + LS_TILES_BLOCK * w->kernel->once);
    ls_tile_block b = {.a = transposed,
                       .a_row = LS_TILE_DEPTH,
                       .a_step = LS_TILES_BLOCK * LS_TILE_DEPTH,
                       .groups = 1,
                       .depth = w->pixels / LS_TILE_DEPTH,
                       .rows = (int)ls__least(2, (m->channels - channel) / LS_TILE)};
    if (*tap != (int)(unit / channel_blocks(m))) {
        *tap = (int)(unit / channel_blocks(m));
        find_tap(w, *tap, pixels);
    }
    bring_transposed(m, pixels, w->count, channel, b.rows, transposed, b.a_step, LS_TILE_DEPTH);
    multiply_tap(w, &b, *tap, channel);
}

static int64_t units_of(const ls_pixel_map *m) { return channel_blocks(m) * (m->framed ? 1 : ls__taps(m)); }

static void run_block(const block *w, char *threads) {
    const ls_tiles_kernel *k = w->kernel;
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
        ls_tile_state before;
        char *scratch = threads + ls__team_index() * k->thread_bytes;
        int tap = -1;
        bring_pairs(w);
        k->tiles->begin(&before);
        if (k->map.framed && channel_blocks(&k->map) < k->threads) {
            framed_together(w, threads);
        } else {
#pragma omp for schedule(static)
            for (int64_t u = 0; u < units_of(&k->map); u++) {
                if (k->map.framed)
                    framed_unit(w, u, scratch);
                else
                    tap_unit(w, u, scratch, &tap);
            }
        }
        k->tiles->end(&before);
    }
}

// --- all of it -------------------------------------------------------------------------------------------------------

static int64_t pixels_at_once(const ls_tiles_kernel *k) {
    return k->map.framed ? k->once * frame_pixels(&k->map) : k->once;
}

void ls__tiles_weights_run(const ls_tiles_kernel *k, const ls_bf16 *x, const ls_bf16 *dy, char *scratch, float *dw,
                           float *db) {
    const ls_pixel_map *m = &k->map;
    int64_t all = m->framed ? m->samples : ls__pixels(m), pixels = pixels_at_once(k);
    double *totals = (double *)(void *)scratch;  // of the bias: of blocks in float, of all in double
    float *sums = (float *)(void *)(totals + LS_TILES_COLUMNS);
    const ls_bf16 **dy_pixels = (const ls_bf16 **)(void *)(sums + 2 * LS_TILES_COLUMNS);
    const ls_bf16 **x_pixels = dy_pixels + pixels;
    ls_bf16 *pairs = (ls_bf16 *)(void *)(x_pixels + (m->framed ? k->once * read_pixels(m) : 0));
    for (int64_t begin = 0; begin < k->columns; begin += LS_TILES_COLUMNS) {
        int64_t columns = ls__least(LS_TILES_COLUMNS, k->columns - begin);
        memset(totals, 0, (size_t)columns * sizeof *totals);
        for (int64_t first = 0; first < all; first += k->once) {
            block w = {.kernel = k,
                       .x = x,
                       .dy = dy,
                       .pairs = pairs,
                       .dy_pixels = dy_pixels,
                       .x_pixels = x_pixels,
                       .dw = dw,
                       .sums = db ? sums : NULL,
                       .first = first,
                       .count = ls__least(k->once, all - first),
                       .begin = begin,
                       .columns = columns};
            w.pixels = m->framed ? w.count * frame_pixels(m) : ls_round_up(w.count, LS_TILE_DEPTH);
            (m->framed ? find_frames : find_dy)(&w);
            memset(sums, 0, 2 * (size_t)columns * sizeof *sums);
            run_block(&w, scratch + k->shared_bytes);
            for (int64_t c = 0; c < columns; c++) {
                const float *both = sums + c / LS_TILE * 2 * LS_TILE + c % LS_TILE;
                totals[c] += (double)both[0] + (double)both[LS_TILE];
            }
        }
        for (int64_t c = 0; db && c < columns; c++) db[begin + c] = (float)totals[c];
    }
}

// --- planning --------------------------------------------------------------------------------------------------------

// A frame is transposed once, else every tap is; but the frame's rows are longer.
static int frame_pays(const ls_tiles_kernel *k) {
    const ls_pixel_map *m = &k->map;
    int64_t pixels = m->height * m->width, columns = ls__least(k->columns, LS_TILES_COLUMNS);
    return m->framed && (frame_pixels(m) - pixels) * k->columns < k->tiles->transposing * pixels &&
           frame_pixels(m) * columns <= PAIRS && read_pixels(m) <= 4 * PIXELS;
}

void ls__tiles_weights_plan(ls_tiles_kernel *k) {
    ls_pixel_map *m = &k->map;
    int64_t columns = ls__least(k->columns, LS_TILES_COLUMNS), fit = ls__least(PAIRS / columns, PIXELS);
    m->framed = frame_pays(k);
    if (m->framed) {
        k->once = ls__least(m->samples, fit < frame_pixels(m) ? 1 : fit / frame_pixels(m));
        k->thread_bytes = LS_TILES_BLOCK * channel_row(m, k->once) * 2;
    } else {
        k->once = ls__least(fit / LS_TILE_DEPTH * LS_TILE_DEPTH, ls_round_up(ls__pixels(m), LS_TILE_DEPTH));
        k->thread_bytes = k->once * (LS_TILES_BLOCK * 2 + (int64_t)sizeof(void *));
    }
    int64_t pointers = pixels_at_once(k) + (m->framed ? k->once * read_pixels(m) : 0);
    k->shared_bytes = LS_TILES_COLUMNS * (int64_t)(sizeof(double) + 2 * sizeof(float)) +
                      pointers * (int64_t)sizeof(void *) + pixels_at_once(k) * columns * 2;
    k->base.tiles = units_of(m);
}
