// What the files of convolutions in tiles share (conv2d_tiles.h): the shapes of one kernel, and which pixel reads which.
#ifndef LS_DEVICE_CPU_CONV2D_TILES_IMPL_H
#define LS_DEVICE_CPU_CONV2D_TILES_IMPL_H

#include "base/memory.h"
#include "device/cpu/conv2d_ending.h"
#include "device/cpu/conv2d_tiles.h"
#include "device/cpu/team.h"

enum {
    LS_TILES_TAPS = 64,            // at most
    LS_TILES_BLOCK = 2 * LS_TILE,  // rows and columns of what is multiplied at once
    LS_TILES_COLUMNS = 512,        // channels of the result, or of DY, that are dealt with at once
};

// Where a pixel of one image finds its pixels of the other: coordinates by tap, -1 outside.
typedef struct ls_pixel_map {
    int64_t samples, height, width;             // whose pixels are counted
    int64_t from_height, from_width, channels;  // whose are read
    // Elements from one of an image's pixels to the next, and from 16 of its channels to the next 16: channels and 16 where they lie
    // innermost; 16 and a plane's where they lie in blocks.
    int64_t step, block;
    int taps_y, taps_x;
    int identity;    // each reads the one it is
    int32_t *y, *x;  // (height, taps_y), (width, taps_x)
    // Where neighbours read neighbours: the image with a border of zeros, in which a pixel and its taps are at fixed distances.
    int framed;
    int64_t frame_height, frame_width;  // of what all pixels read
    int64_t top, left;                  // zeros above and beside the image; negative: so much of it is left out
    int32_t *tap_pixels;                // (taps): pixels of the frame from (y, x) to that which (y, x) reads
} ls_pixel_map;

typedef struct ls_tiles_kernel {
    ls_kernel base;
    const ls_tile_ops *tiles;
    ls_conv2d_absorbs absorbs;
    ls_pass pass;
    ls_pixel_map map;
    int64_t columns;  // channels of the result, or of DY
    int threads;
    // Scratch: what threads share, then for each thread.
    int64_t shared_bytes, thread_bytes;
    // Forward and backward data:
    int by_position;     // rows of a panel are one pixel of many samples
    int64_t rows_once;   // framed: rows of an image that are computed at once
    int32_t *tap_tiles;  // framed (2, taps): where a tap's tiles are, in A and in B
    // Backward weights:
    int64_t once;               // pixels brought into tiles at once; framed: images
    int64_t dy_step, dy_block;  // as the map's
} ls_tiles_kernel;

static inline int64_t ls__least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t ls__parts(int64_t n, int64_t of) { return (n + of - 1) / of; }
static inline int ls__taps(const ls_pixel_map *m) { return m->taps_y * m->taps_x; }
static inline int64_t ls__pixels(const ls_pixel_map *m) { return m->samples * m->height * m->width; }

// A pixel of all samples'.
typedef struct ls_place {
    int64_t n, y, x;
} ls_place;

static inline ls_place ls__place_of(const ls_pixel_map *m, int64_t pixel) {
    return (ls_place){pixel / m->width / m->height, pixel / m->width % m->height, pixel % m->width};
}

static inline ls_place ls__next_place(const ls_pixel_map *m, ls_place p) {
    if (++p.x < m->width) return p;
    p.x = 0;
    if (++p.y < m->height) return p;
    p.y = 0;
    p.n++;
    return p;
}

// The pixel read there at tap (ty, tx), NULL outside the image.
static inline const ls_bf16 *ls__pixel_at(const ls_pixel_map *m, const ls_bf16 *from, ls_place p, int ty, int tx) {
    int32_t y = m->y[p.y * m->taps_y + ty], x = m->x[p.x * m->taps_x + tx];
    if (y < 0 || x < 0) return NULL;
    return from + p.n * m->from_height * m->from_width * m->channels + (y * m->from_width + x) * m->step;
}

// Forward and backward data: how the work is cut, and scratch; then the work. W in tiles. Errors: OUT_OF_MEMORY.
ls_status ls__tiles_rows_plan(ls_tiles_kernel *k);
void ls__tiles_rows_run(const ls_tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, char *scratch,
                        const ls_conv2d_ending *e);
// Backward weights; db may be NULL.
void ls__tiles_weights_plan(ls_tiles_kernel *k);
void ls__tiles_weights_run(const ls_tiles_kernel *k, const ls_bf16 *x, const ls_bf16 *dy, char *scratch, float *dw,
                           float *db);

#endif
