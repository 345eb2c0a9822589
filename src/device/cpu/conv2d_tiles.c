// Convolutions as products of matrices in tiles (tiles.h), all passes, for BF16 images whose channels lie innermost.
//
//     forward            Y[p]  = sum over (c, tap) of X[p at tap][c] * W[tap][c]      p: pixels of all images of the micro-batch
//     backward data      DX[p] = sum over (f, tap) of DY[p at tap][f] * W[tap][f]
//     backward weights   DW[tap][c] = sum over p of X[p at tap][c] * DY[p]
//
// The first two are one loop: what a row of the result reads is gathered into a panel, a row for each pixel, in which all taps of 32
// channels lie together; then come the next 32. A 1x1 convolution without strides reads its images as they are. The third gathers 32
// channels of one tap, transposed. Sums run over channels and taps, or over pixels, in that order, whoever computes them: how results are
// cut into blocks and dealt to threads does not show.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_tiles.h"
#include "device/cpu/loops_impl.h"
#include "device/cpu/team.h"

enum {
    TAPS = 64,                 // at most
    BLOCK_ROWS = 2 * LS_TILE,  // of what is multiplied at once
    PANEL_ROWS = 128,          // pixels gathered before they are multiplied
    PANEL_COLUMNS = 1024,      // and about so many factors of each
    COLUMNS = 512,             // channels of the result computed from a panel
    PAIRS = 1 << 18,           // elements of DY brought into tiles at once
    PIXELS = 1024,             // and no more than so many pixels
    FRAME_BYTES = 256 << 10,   // of an image with its border
};

// Where a pixel of one image finds its pixels of the other: coordinates by tap, -1 outside.
typedef struct pixel_map {
    int64_t height, width, pixels;              // whose pixels are counted; of all samples together
    int64_t from_height, from_width, channels;  // whose are read
    int taps_y, taps_x;
    int identity;    // each reads the one it is
    int32_t *y, *x;  // (height, taps_y), (width, taps_x)
    // Where neighbours read neighbours: the image with a border of zeros, from which a pixel and its tap are at a fixed distance.
    int framed;
    int64_t frame_height, frame_width;  // of what all pixels read
    int64_t top, left;                  // zeros above and beside the image; negative: so much of it is left out
    int64_t rows_once;                  // of the result, for which the frame is copied at once
    int32_t *offset;                    // (taps): elements from the frame's pixel (y, x) to that which (y, x) reads
} pixel_map;

typedef struct tiles_kernel {
    ls_kernel base;
    const ls_tile_ops *tiles;
    ls_pass pass;
    pixel_map map;
    int64_t columns;    // channels of the result
    int64_t b_columns;  // column tiles in a row of W's tiles, backward data
    ls_dtype result;    // of Y or DX
    int bias, residual, relu, mask;
    int threads;
    int64_t thread_bytes;  // of scratch, for each thread; before that:
    int64_t pairs_bytes;   // backward weights: DY in tiles, and sums for the bias
    int64_t pixels_once;   // of DY
} tiles_kernel;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t parts(int64_t n, int64_t of) { return (n + of - 1) / of; }

// --- which pixel is where --------------------------------------------------------------------------------------------

// The pixel of the input that output pixel `at` reads at a tap, or, reversed, the pixel of the output that input pixel `at` was read for.
static int32_t coordinate(int64_t at, int tap, const ls_conv2d_attrs *a, int axis, int reversed, int64_t size) {
    int64_t moved = (int64_t)tap * a->dilation[axis] - a->pad[axis];
    int64_t found = reversed ? at - moved : at * a->strides[axis] + moved;
    if (reversed) {
        if (found % a->strides[axis] != 0) return -1;
        found /= a->strides[axis];
    }
    return found >= 0 && found < size ? (int32_t)found : -1;
}

static ls_status map_axis(int64_t size, int taps, const ls_conv2d_attrs *a, int axis, int reversed, int64_t from_size,
                          int32_t **out) {
    LS_TRY(ls_calloc(size * taps, sizeof **out, out));
    for (int64_t i = 0; i < size; i++)
        for (int t = 0; t < taps; t++) (*out)[i * taps + t] = coordinate(i, t, a, axis, reversed, from_size);
    return LS_OK;
}

static int taps_of(const pixel_map *m) { return m->taps_y * m->taps_x; }

static int64_t frame_row(const pixel_map *m) { return m->frame_width * ls_round_up(m->channels, LS_TILE_DEPTH); }

// A frame is copied once, a panel once for each tap; but of the frame's rows what would lie beyond the image's right side is multiplied in
// vain. A copied element costs as much as 38 multiplications.
static int frame_pays(const ls_conv2d_attrs *a, const pixel_map *m, int64_t columns) {
    int64_t pixels = m->height * m->width, rows = parts(m->height * m->frame_width, LS_TILE) * LS_TILE;
    return a->strides[0] == 1 && a->strides[1] == 1 && taps_of(m) > 1 && (rows - pixels) * columns < 38 * pixels;
}

static ls_status frame_create(const ls_conv2d_attrs *a, int reversed, const ls_kernel_spec *spec, pixel_map *m) {
    int64_t reach[2] = {(m->taps_y - 1) * (int64_t)a->dilation[0], (m->taps_x - 1) * (int64_t)a->dilation[1]};
    m->frame_height = m->height + reach[0];
    m->frame_width = m->width + reach[1];
    if (!frame_pays(a, m, reversed ? spec->x[0].shape.dim[3] : spec->y[0].shape.dim[3])) return LS_OK;
    m->framed = 1;
    m->top = reversed ? reach[0] - a->pad[0] : a->pad[0];
    m->left = reversed ? reach[1] - a->pad[1] : a->pad[1];
    int64_t fit = FRAME_BYTES / (frame_row(m) * (int64_t)sizeof(ls_bf16)) - reach[0];
    m->rows_once = least(m->height, fit > 0 ? fit : 1);
    LS_TRY(ls_calloc(taps_of(m), sizeof *m->offset, &m->offset));
    for (int t = 0; t < taps_of(m); t++) {
        int64_t y = t / m->taps_x * (int64_t)a->dilation[0], x = t % m->taps_x * (int64_t)a->dilation[1];
        if (reversed) y = reach[0] - y, x = reach[1] - x;
        m->offset[t] = (int32_t)(y * frame_row(m) + x * (frame_row(m) / m->frame_width));
    }
    return LS_OK;
}

static ls_status map_create(const ls_kernel_spec *spec, pixel_map *m) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int reversed = spec->pass == LS_PASS_BACKWARD_DATA;
    const int64_t *to = reversed ? spec->x[0].shape.dim : spec->y[0].shape.dim;
    const int64_t *from = reversed ? spec->y[0].shape.dim : spec->x[0].shape.dim;
    *m = (pixel_map){.height = to[1],
                     .width = to[2],
                     .pixels = to[0] * to[1] * to[2],
                     .from_height = from[1],
                     .from_width = from[2],
                     .channels = from[3],
                     .taps_y = a->kernel[0],
                     .taps_x = a->kernel[1]};
    m->identity = a->kernel[0] == 1 && a->kernel[1] == 1 && a->strides[0] == 1 && a->strides[1] == 1 &&
                  a->pad[0] == 0 && a->pad[1] == 0 && a->pad[2] == 0 && a->pad[3] == 0;
    LS_TRY(map_axis(m->height, m->taps_y, a, 0, reversed, m->from_height, &m->y));
    LS_TRY(map_axis(m->width, m->taps_x, a, 1, reversed, m->from_width, &m->x));
    return spec->pass == LS_PASS_BACKWARD_WEIGHTS ? LS_OK : frame_create(a, reversed, spec, m);
}

// A pixel of all samples'.
typedef struct place {
    int64_t n, y, x;
} place;

static place place_of(const pixel_map *m, int64_t pixel) {
    return (place){pixel / m->width / m->height, pixel / m->width % m->height, pixel % m->width};
}

static place next_place(const pixel_map *m, place p) {
    if (++p.x < m->width) return p;
    p.x = 0;
    if (++p.y < m->height) return p;
    p.y = 0;
    p.n++;
    return p;
}

// The pixel read there at tap (ty, tx), NULL outside the image.
static const ls_bf16 *pixel_at(const pixel_map *m, const ls_bf16 *from, place p, int ty, int tx) {
    int32_t y = m->y[p.y * m->taps_y + ty], x = m->x[p.x * m->taps_x + tx];
    return y < 0 || x < 0 ? NULL : from + ((p.n * m->from_height + y) * m->from_width + x) * m->channels;
}

// --- the panel -------------------------------------------------------------------------------------------------------

// 32 channels, the last of an image perhaps fewer.
LS_INLINE void copy_group(ls_bf16 *to, const ls_bf16 *from, int64_t channels) {
    if (!from)
        memset(to, 0, LS_TILE_DEPTH * sizeof *to);
    else if (channels >= LS_TILE_DEPTH)
        memcpy(to, from, LS_TILE_DEPTH * sizeof *to);
    else {
        memcpy(to, from, (size_t)channels * sizeof *to);
        memset(to + channels, 0, (size_t)(LS_TILE_DEPTH - channels) * sizeof *to);
    }
}

// What pixels [first, first + count) read of groups [group, group + groups) of 32 channels: (rows, groups, taps, 32). Rows beyond
// the count, up to whole tiles, are zero.
static void gather(const pixel_map *m, const ls_bf16 *from, int64_t first, int64_t count, int64_t group, int64_t groups,
                   ls_bf16 *panel) {
    int taps = taps_of(m);
    int64_t width = groups * taps * LS_TILE_DEPTH;
    const ls_bf16 *pixel[TAPS];
    place p = place_of(m, first);
    for (int64_t r = 0; r < count; r++, p = next_place(m, p)) {
        for (int ty = 0, t = 0; ty < m->taps_y; ty++)
            for (int tx = 0; tx < m->taps_x; tx++, t++) pixel[t] = pixel_at(m, from, p, ty, tx);
        ls_bf16 *to = panel + r * width;
        for (int64_t g = group; g < group + groups; g++)
            for (int t = 0; t < taps; t++, to += LS_TILE_DEPTH)
                copy_group(to, pixel[t] ? pixel[t] + g * LS_TILE_DEPTH : NULL, m->channels - g * LS_TILE_DEPTH);
    }
    int64_t padded = parts(count, BLOCK_ROWS) * BLOCK_ROWS;
    memset(panel + count * width, 0, (size_t)((padded - count) * width) * sizeof *panel);
}

// --- what becomes of sums --------------------------------------------------------------------------------------------

typedef struct ending {
    ls_dtype dtype;
    void *to;              // (pixels, columns)
    const float *bias;     // (columns)
    const void *residual;  // as `to`
    const void *mask;      // as `to`: what is not positive there passes nothing
    int relu;
    int64_t columns;
} ending;

// `rows` rows of 16 * tiles sums become columns from `column` on of pixels from `pixel` on.
LS_CLONES static void finish(const ending *e, const float *sums, int64_t pixel, int64_t rows, int64_t column,
                             int tiles) {
    for (int64_t r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++) {
            int64_t at = (pixel + r) * e->columns + column + t * 16;
            v16f v = load16(LS_DTYPE_F32, sums, r * BLOCK_ROWS + t * 16);
            if (e->bias) v += load16(LS_DTYPE_F32, e->bias, column + t * 16);
            if (e->residual) v += load16(e->dtype, e->residual, at);
            if (e->relu) v = relu16(v);
            if (e->mask) v = where16(positive16(load16(e->dtype, e->mask, at)), v);
            store16(e->dtype, e->to, at, v);
        }
}

// --- forward and backward data ---------------------------------------------------------------------------------------

static int64_t groups_of(const pixel_map *m) { return parts(m->channels, LS_TILE_DEPTH); }

// Of all groups of channels, so many are gathered at a time.
static int64_t groups_at_once(const pixel_map *m) {
    int64_t fit = PANEL_COLUMNS / (taps_of(m) * LS_TILE_DEPTH);
    return m->identity ? groups_of(m) : least(groups_of(m), fit > 0 ? fit : 1);
}

// Of a panel, or a frame; of that as much more as the last block of rows may read.
static int64_t panel_elements(const pixel_map *m) {
    if (m->framed) {
        int64_t frame_rows = m->rows_once + m->frame_height - m->height;
        return (frame_rows * m->frame_width + 2 * BLOCK_ROWS) * (frame_row(m) / m->frame_width);
    }
    int64_t rows = m->identity ? BLOCK_ROWS : PANEL_ROWS;
    return rows * groups_at_once(m) * taps_of(m) * LS_TILE_DEPTH;
}

// Sums of 32 columns at a time where a panel has all that a sum needs; else those of all columns.
static int64_t sums_elements(const tiles_kernel *k) {
    int whole = k->map.framed || groups_at_once(&k->map) == groups_of(&k->map);
    return PANEL_ROWS * (whole ? BLOCK_ROWS : parts(least(k->columns, COLUMNS), BLOCK_ROWS) * BLOCK_ROWS);
}

// Tiles of W: forward (columns, groups, taps), backward data (groups, columns, taps).
static void set_weights(const tiles_kernel *k, const ls_bf16 *w, int64_t group, int64_t groups, ls_tile_block *b) {
    int64_t taps = taps_of(&k->map);
    if (k->pass == LS_PASS_BACKWARD_DATA) {
        b->b = w + group * k->b_columns * taps * LS_TILE_SIZE;
        b->b_column = taps * LS_TILE_SIZE;
        b->b_group = k->b_columns * b->b_column;
    } else {
        b->b = w + group * taps * LS_TILE_SIZE;
        b->b_column = groups_of(&k->map) * taps * LS_TILE_SIZE;
        b->b_group = taps * LS_TILE_SIZE;
    }
    b->groups = groups, b->depth = taps;
    b->a_step = LS_TILE_DEPTH, b->a_group = taps * LS_TILE_DEPTH;
}

// Multiplies a panel by columns [begin, end) of W; with `e` the sums are complete and become results: not each at once, since what
// the unit has just stored takes a while to be there.
static void multiply_panel(const tiles_kernel *k, const ls_tile_block *product, int64_t pixel, int64_t rows,
                           int64_t begin, int64_t end, float *sums, const ending *e) {
    int whole = groups_at_once(&k->map) == groups_of(&k->map);
    for (int64_t column = begin; column < end; column += BLOCK_ROWS) {
        ls_tile_block b = *product;
        float *c = whole ? sums : sums + (column - begin) * PANEL_ROWS;
        b.columns = (int)least(2, (end - column) / LS_TILE);
        b.b += column / LS_TILE * b.b_column;
        b.c_row = BLOCK_ROWS;
        for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {
            b.rows = rows - r > LS_TILE ? 2 : 1;
            b.a = product->a + r * b.a_row;
            b.c = c + r * BLOCK_ROWS;
            k->tiles->multiply(&b);
        }
        if (e) finish(e, c, pixel, rows, column, b.columns);
    }
}

static void rows_of_panel(const tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, int64_t first, int64_t count,
                          char *scratch, const ending *e) {
    const pixel_map *m = &k->map;
    float *sums = (float *)(void *)scratch;
    ls_bf16 *panel = (ls_bf16 *)(void *)(sums + sums_elements(k));
    int64_t all = groups_of(m), once = groups_at_once(m), taps = taps_of(m);
    for (int64_t begin = 0; begin < k->columns; begin += COLUMNS) {
        int64_t end = least(begin + COLUMNS, k->columns);
        for (int64_t group = 0; group < all; group += once) {
            int64_t groups = least(once, all - group);
            ls_tile_block b = {.a = panel, .a_row = groups * taps * LS_TILE_DEPTH, .add = group > 0};
            set_weights(k, w, group, groups, &b);
            gather(m, from, first, count, group, groups, panel);
            multiply_panel(k, &b, first, count, begin, end, sums, group + groups == all ? e : NULL);
        }
    }
}

// Where each pixel reads itself: whole blocks of rows are multiplied where they lie.
static void rows_of_image(const tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, int64_t first, int64_t count,
                          char *scratch, const ending *e) {
    const pixel_map *m = &k->map;
    int64_t whole = m->channels % LS_TILE_DEPTH == 0 ? count / BLOCK_ROWS * BLOCK_ROWS : 0;
    ls_tile_block b = {.a = from + first * m->channels, .a_row = m->channels};
    set_weights(k, w, 0, groups_of(m), &b);
    multiply_panel(k, &b, first, whole, 0, k->columns, (float *)(void *)scratch, e);
    for (int64_t r = whole; r < count; r += BLOCK_ROWS)
        rows_of_panel(k, from, w, first + r, least(BLOCK_ROWS, count - r), scratch, e);
}

// --- of framed images ------------------------------------------------------------------------------------------------

// Rows [first, first + count) of the frame of an image.
static void copy_frame(const pixel_map *m, const ls_bf16 *image, int64_t first, int64_t count, ls_bf16 *frame) {
    int64_t channels = ls_round_up(m->channels, LS_TILE_DEPTH);
    for (int64_t r = 0; r < count; r++) {
        int64_t y = first + r - m->top;
        ls_bf16 *to = frame + r * frame_row(m);
        const ls_bf16 *from = y < 0 || y >= m->from_height ? NULL : image + y * m->from_width * m->channels;
        if (!from || channels != m->channels || m->left < 0) memset(to, 0, (size_t)frame_row(m) * sizeof *to);
        if (!from) continue;
        int64_t x = m->left < 0 ? -m->left : 0, end = least(m->from_width, m->frame_width - m->left);
        if (channels != m->channels) {
            for (; x < end; x++)
                memcpy(to + (m->left + x) * channels, from + x * m->channels, (size_t)m->channels * sizeof *to);
            continue;
        }
        memset(to, 0, (size_t)((m->left + x) * channels) * sizeof *to);
        memcpy(to + (m->left + x) * channels, from + x * channels, (size_t)((end - x) * channels) * sizeof *to);
        memset(to + (m->left + end) * channels, 0, (size_t)((m->frame_width - m->left - end) * channels) * sizeof *to);
    }
}

// The sums of `rows` pixels of the frame from `begin` on: those of the image become results.
static void finish_framed(const pixel_map *m, const ending *e, const float *sums, int64_t pixel, int64_t begin,
                          int64_t rows, int64_t column, int tiles) {
    for (int64_t r = begin; r < begin + rows;) {
        int64_t y = r / m->frame_width, x = r % m->frame_width;
        int64_t run = least(m->frame_width - x, begin + rows - r), count = least(run, m->width - x);
        if (count > 0) finish(e, sums + (r - begin) * BLOCK_ROWS, pixel + y * m->width + x, count, column, tiles);
        r += run;
    }
}

// Rows of the result from `y` on, of image n.
static void rows_of_frame(const tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, int64_t n, int64_t y,
                          char *scratch, const ending *e) {
    const pixel_map *m = &k->map;
    int64_t height = least(m->rows_once, m->height - y), reach = m->frame_height - m->height;
    int64_t rows = height * m->frame_width;
    float *sums = (float *)(void *)scratch;
    ls_bf16 *frame = (ls_bf16 *)(void *)(sums + sums_elements(k));
    ls_tile_block b = {.a_row = frame_row(m) / m->frame_width, .a_offset = m->offset, .c_row = BLOCK_ROWS};
    copy_frame(m, from + n * m->from_height * m->from_width * m->channels, y, height + reach, frame);
    set_weights(k, w, 0, groups_of(m), &b);
    const ls_bf16 *weights = b.b;
    b.a_group = LS_TILE_DEPTH;
    for (int64_t column = 0; column < k->columns; column += BLOCK_ROWS) {
        b.columns = (int)least(2, (k->columns - column) / LS_TILE);
        b.b = weights + column / LS_TILE * b.b_column;
        for (int64_t begin = 0; begin < rows; begin += PANEL_ROWS) {
            int64_t end = least(begin + PANEL_ROWS, rows);
            for (int64_t r = begin; r < end; r += BLOCK_ROWS) {
                b.rows = end - r > LS_TILE ? 2 : 1;
                b.a = frame + r * b.a_row;
                b.c = sums + (r - begin) * BLOCK_ROWS;
                k->tiles->multiply(&b);
            }
            finish_framed(m, e, sums, (n * m->height + y) * m->width, begin, end - begin, column, b.columns);
        }
    }
}

// --- both ------------------------------------------------------------------------------------------------------------

static int64_t frames_of(const pixel_map *m) { return parts(m->height, m->rows_once); }

// How many pieces the work is dealt out in.
static int64_t pieces_of(const pixel_map *m) {
    return m->framed ? m->pixels / (m->height * m->width) * frames_of(m) : parts(m->pixels, PANEL_ROWS);
}

static void run_piece(const tiles_kernel *k, int64_t i, const ls_bf16 *from, const ls_bf16 *w, char *scratch,
                      const ending *e) {
    int64_t first = i * PANEL_ROWS, count = least(PANEL_ROWS, k->map.pixels - first);
    if (k->map.framed)
        rows_of_frame(k, from, w, i / frames_of(&k->map), i % frames_of(&k->map) * k->map.rows_once, scratch, e);
    else
        (k->map.identity ? rows_of_image : rows_of_panel)(k, from, w, first, count, scratch, e);
}

static void run_rows(const tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, char *scratch, const ending *e) {
    int64_t pieces = pieces_of(&k->map);
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
        ls_tile_state before;
        k->tiles->begin(&before);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pieces; i++) run_piece(k, i, from, w, scratch + ls__team_index() * k->thread_bytes, e);
        k->tiles->end(&before);
    }
}

// --- backward weights ------------------------------------------------------------------------------------------------

// DY's pixels [first, first + count) in tiles: (columns / 16, tiles, 16, 16, 2), zero behind the last. Adds to the bias's sums.
static void bring_pairs(const tiles_kernel *k, const ls_bf16 *dy, int64_t first, int64_t count, int64_t begin,
                        int64_t columns, ls_bf16 *pairs, float *sums) {
    static const ls_bf16 zeros[COLUMNS];
    int64_t tiles = parts(count, LS_TILE_DEPTH);
    for (int64_t i = 0; i < tiles; i++) {
        const ls_bf16 *from[LS_TILE_DEPTH];
        for (int64_t r = 0; r < LS_TILE_DEPTH; r++) {
            int64_t p = i * LS_TILE_DEPTH + r;
            from[r] = p < count ? dy + (first + p) * k->columns + begin : zeros;
        }
        ls__tile_pairs(pairs + i * LS_TILE_SIZE, tiles * LS_TILE_SIZE, from, columns / LS_TILE, sums);
    }
}

// What pixels [first, first + count) read at a tap: pixel[i], NULL outside the image.
static void find_pixels(const tiles_kernel *k, const ls_bf16 *x, int64_t first, int64_t count, int tap,
                        const ls_bf16 **pixel) {
    const pixel_map *m = &k->map;
    int ty = tap / m->taps_x, tx = tap % m->taps_x;
    place p = place_of(m, first);
    for (int64_t i = 0; i < count; i++, p = next_place(m, p)) pixel[i] = pixel_at(m, x, p, ty, tx);
}

// 16 * tiles channels from `channel` on of those pixels, transposed: (tiles of pixels, 32 channels, 32 pixels), zero behind the last.
static void bring_transposed(const ls_bf16 *const *pixel, int64_t count, int64_t channel, int tiles, ls_bf16 *to) {
    static const ls_bf16 zeros[BLOCK_ROWS];
    for (int64_t first = 0; first < count; first += LS_TILE_DEPTH) {
        const ls_bf16 *from[LS_TILE_DEPTH];
        for (int64_t r = 0; r < LS_TILE_DEPTH; r++)
            from[r] = first + r < count && pixel[first + r] ? pixel[first + r] + channel : zeros;
        for (int64_t r = first + 2 * LS_TILE_DEPTH; r < least(count, first + 3 * LS_TILE_DEPTH); r++)
            __builtin_prefetch(pixel[r] + channel);
        ls__tile_transpose(to + first * BLOCK_ROWS, LS_TILE_DEPTH, from, tiles);
    }
}

// Scratch of a thread: the transposed channels, then the pixels' addresses.
static int64_t transposed_bytes(const tiles_kernel *k) {
    return BLOCK_ROWS * k->pixels_once * (int64_t)sizeof(ls_bf16);
}

typedef struct weights_pass {
    const tiles_kernel *kernel;
    const ls_bf16 *x, *pairs;
    float *dw;
    int64_t first, count;    // pixels
    int64_t begin, columns;  // of DW
} weights_pass;

// Rows of DW: 32 channels of one tap. *tap: the one whose pixels the thread's scratch has.
static void weights_unit(const weights_pass *w, int64_t unit, char *scratch, int *tap) {
    const tiles_kernel *k = w->kernel;
    int64_t blocks = parts(k->map.channels, BLOCK_ROWS), channel = unit % blocks * BLOCK_ROWS;
    int64_t deep = parts(w->count, LS_TILE_DEPTH);
    ls_bf16 *transposed = (ls_bf16 *)(void *)scratch;
    const ls_bf16 **pixel = (const ls_bf16 **)(void *)(scratch + transposed_bytes(k));
    int rows = (int)least(2, (k->map.channels - channel) / LS_TILE);
    if (*tap != (int)(unit / blocks)) {
        *tap = (int)(unit / blocks);
        find_pixels(k, w->x, w->first, w->count, *tap, pixel);
    }
    bring_transposed(pixel, w->count, channel, rows, transposed);
    for (int64_t column = 0; column < w->columns; column += BLOCK_ROWS) {
        ls_tile_block b = {.a = transposed,
                           .a_row = LS_TILE_DEPTH,
                           .a_step = BLOCK_ROWS * LS_TILE_DEPTH,
                           .b = w->pairs + column / LS_TILE * deep * LS_TILE_SIZE,
                           .b_column = deep * LS_TILE_SIZE,
                           .c = w->dw + (*tap * k->map.channels + channel) * k->columns + w->begin + column,
                           .c_row = k->columns,
                           .groups = 1,
                           .depth = deep,
                           .rows = rows,
                           .columns = (int)least(2, (w->columns - column) / LS_TILE),
                           .add = w->first > 0};
        k->tiles->multiply(&b);
    }
}

static void run_weights(const tiles_kernel *k, const ls_bf16 *x, const ls_bf16 *dy, char *scratch, float *dw,
                        float *db) {
    int64_t units = taps_of(&k->map) * parts(k->map.channels, BLOCK_ROWS);
    ls_bf16 *pairs = (ls_bf16 *)(void *)scratch;
    char *threads = scratch + k->pairs_bytes;
    float *sums = (float *)(void *)(threads - 2 * COLUMNS * (int64_t)sizeof(float));
    for (int64_t begin = 0; begin < k->columns; begin += COLUMNS) {
        int64_t columns = least(COLUMNS, k->columns - begin);
        memset(sums, 0, 2 * (size_t)columns * sizeof *sums);
        for (int64_t first = 0; first < k->map.pixels; first += k->pixels_once) {
            weights_pass w = {k, x, pairs, dw, first, least(k->pixels_once, k->map.pixels - first), begin, columns};
            bring_pairs(k, dy, first, w.count, begin, columns, pairs, db ? sums : NULL);
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
            {
                ls_tile_state before;
                int tap = -1;
                k->tiles->begin(&before);
#pragma omp for schedule(static)
                for (int64_t u = 0; u < units; u++)
                    weights_unit(&w, u, threads + ls__team_index() * k->thread_bytes, &tap);
                k->tiles->end(&before);
            }
        }
        for (int64_t c = 0; db && c < columns; c++) db[begin + c] = sums[c] + sums[columns + c];
    }
}

// --- kernels ---------------------------------------------------------------------------------------------------------

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    (void)queue;
    void *args[LS_ARG_COUNT];
    ls__host_args(spans, args);
    const tiles_kernel *k = (const tiles_kernel *)kernel;
    char *scratch = args[LS_ARG_SCRATCH];
    if (k->pass == LS_PASS_BACKWARD_WEIGHTS) {
        run_weights(k, args[LS_ARG_X], args[LS_ARG_DY], scratch, args[LS_ARG_DW], k->bias ? args[LS_ARG_DW + 1] : NULL);
        return LS_OK;
    }
    int data = k->pass == LS_PASS_BACKWARD_DATA;
    ending e = {.dtype = k->result,
                .to = args[data ? LS_ARG_DX : LS_ARG_Y],
                .bias = k->bias ? args[LS_ARG_W + 1] : NULL,
                .residual = k->residual ? args[LS_ARG_RESIDUAL] : NULL,
                .mask = k->mask ? args[LS_ARG_X] : NULL,
                .relu = k->relu,
                .columns = k->columns};
    run_rows(k, args[data ? LS_ARG_DY : LS_ARG_X], args[LS_ARG_W], scratch, &e);
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    tiles_kernel *k = (tiles_kernel *)kernel;
    free(k->map.y);
    free(k->map.x);
    free(k->map.offset);
    free(k);
}

int ls__cpu_conv2d_fits_tiles(const ls_kernel_spec *spec) {
    if (spec->op != LS_OP_CONV2D) return 0;
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_dtype y = data || weights ? spec->y[0].gradient : LS_DTYPE_BF16;
    return a->groups == 1 && (int64_t)a->kernel[0] * a->kernel[1] <= TAPS && spec->x[0].shape.dim[3] % LS_TILE == 0 &&
           a->filters % LS_TILE == 0 && (data || spec->x[0].dtype == LS_DTYPE_BF16) &&
           spec->w[0].dtype == LS_DTYPE_BF16 && y == LS_DTYPE_BF16;
}

// The layout an argument has: images and results plain, W in tiles.
static ls_status settle(ls_cpu *cpu, const ls_kernel_spec *spec, tiles_kernel *k) {
    const ls_layout **l = k->base.layout;
    ls_shape x = spec->x[0].shape, y = spec->y[0].shape;
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    ls_status (*plain)(ls_device *, ls_shape, ls_dtype, int, const ls_layout **) = cpu->base.ops->layout_plain;
    LS_TRY(plain(&cpu->base, x, spec->x[0].dtype, 0, &l[data ? LS_ARG_DX : LS_ARG_X]));
    LS_TRY(plain(&cpu->base, y, data || weights ? spec->y[0].gradient : spec->y[0].dtype, 0,
                 &l[data || weights ? LS_ARG_DY : LS_ARG_Y]));
    if (k->residual) l[LS_ARG_RESIDUAL] = l[LS_ARG_Y];
    if (k->mask) l[LS_ARG_X] = l[LS_ARG_DX];
    if (weights)
        LS_TRY(plain(&cpu->base, spec->w[0].shape, LS_DTYPE_F32, 1, &l[LS_ARG_DW]));
    else
        LS_TRY(ls__cpu_layout_tag(cpu, spec->w[0].shape, LS_DTYPE_BF16, 1, data ? dnnl_OIhw16o16i2o : dnnl_OIhw16i16o2i,
                                  &l[LS_ARG_W]));
    if (k->bias) LS_TRY(plain(&cpu->base, spec->w[1].shape, LS_DTYPE_F32, 0, &l[(weights ? LS_ARG_DW : LS_ARG_W) + 1]));
    return LS_OK;
}

static void size_scratch(tiles_kernel *k) {
    const pixel_map *m = &k->map;
    if (k->pass == LS_PASS_BACKWARD_WEIGHTS) {
        int64_t fit = PAIRS / least(k->columns, COLUMNS) / LS_TILE_DEPTH * LS_TILE_DEPTH;
        k->pixels_once = least(least(fit, PIXELS), parts(m->pixels, LS_TILE_DEPTH) * LS_TILE_DEPTH);
        k->pairs_bytes = ls_round_up(k->pixels_once * least(k->columns, COLUMNS) * 2, LS_ALIGN) +
                         2 * COLUMNS * (int64_t)sizeof(float);
        k->thread_bytes = transposed_bytes(k) + k->pixels_once * (int64_t)sizeof(void *);
    } else {
        k->thread_bytes = sums_elements(k) * (int64_t)sizeof(float) + panel_elements(m) * 2;
    }
    k->thread_bytes = ls_round_up(k->thread_bytes, LS_ALIGN);
    k->base.scratch_bytes = k->pairs_bytes + k->threads * k->thread_bytes;
}

static int agrees(const ls_kernel_spec *spec, const ls_kernel *kernel) {
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (spec->layout[i] && kernel->layout[i] && spec->layout[i] != kernel->layout[i]) return 0;
    return 1;
}

ls_status ls__cpu_conv2d_tiles_create(ls_cpu *cpu, const ls_kernel_spec *spec, const ls_tile_ops *tiles,
                                      ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int data = spec->pass == LS_PASS_BACKWARD_DATA, weights = spec->pass == LS_PASS_BACKWARD_WEIGHTS;
    tiles_kernel *k;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    k->base.name = tiles->name;
    k->tiles = tiles;
    k->pass = spec->pass;
    k->columns = data ? spec->x[0].shape.dim[3] : spec->y[0].shape.dim[3];
    k->b_columns = parts(k->columns, LS_TILE);
    k->result = data ? spec->x[0].dtype : spec->y[0].dtype;
    k->bias = spec->w_count > 1 && !data;
    k->residual = !data && !weights && spec->residual;
    k->relu = !data && !weights && spec->activation == LS_ACTIVATION_RELU;
    k->mask = data && spec->mask_dx;
    k->threads = cpu->base.options.threads;
    ls_status status = map_create(spec, &k->map);
    if (status == LS_OK) status = settle(cpu, spec, k);
    if (status != LS_OK || !agrees(spec, &k->base)) {
        destroy(&k->base);
        return status;
    }
    size_scratch(k);
    k->base.tiles = weights ? taps_of(&k->map) * parts(k->map.channels, BLOCK_ROWS) : pieces_of(&k->map);
    *out = &k->base;
    return LS_OK;
}
