// Forward and backward data of convolutions in tiles: a row of the result is a pixel, of whatever is multiplied.
#include <string.h>

#include "base/error.h"
#include "device/cpu/conv2d_ending_impl.h"
#include "device/cpu/conv2d_tiles_impl.h"

enum {
    PANEL_ROWS = 128,         // pixels that are gathered before they are multiplied
    PANEL_COLUMNS = 1024,     // and about so many factors of each
    FRAME_BYTES = 256 << 10,  // of an image with its border
    WEIGHTS_BYTES = 1 << 20,  // of W, where it is read again for every pixel of an image
};

// --- what becomes of sums --------------------------------------------------------------------------------------------

// `rows` rows of 16 * tiles sums become columns from `column` on of every step-th pixel from `pixel` on.
LS_CLONES static void finish(const ls_conv2d_ending *e, const float *sums, int64_t pixel, int64_t step, int64_t rows,
                             int64_t column, int tiles) {
    for (int64_t r = 0; r < rows; r++)
        for (int t = 0; t < tiles; t++) {
            int64_t at = (pixel + r * step) * e->columns + column + t * 16;
            end16(e->dtype, e, at, column + t * 16, load16(LS_DTYPE_F32, sums, r * LS_TILES_BLOCK + t * 16));
        }
}

// --- W ---------------------------------------------------------------------------------------------------------------

static int64_t groups_of(const ls_pixel_map *m) { return ls__parts(m->channels, LS_TILE_DEPTH); }

// Tiles of W: forward (columns, groups, taps), backward data (groups, columns, taps).
static void set_weights(const ls_tiles_kernel *k, const ls_bf16 *w, int64_t group, int64_t groups, ls_tile_block *b) {
    int64_t taps = ls__taps(&k->map);
    if (k->pass == LS_PASS_BACKWARD_DATA) {
        b->b_column = taps * LS_TILE_SIZE;
        b->b_group = k->columns / LS_TILE * b->b_column;
        b->b = w + group * b->b_group;
    } else {
        b->b = w + group * taps * LS_TILE_SIZE;
        b->b_column = groups_of(&k->map) * taps * LS_TILE_SIZE;
        b->b_group = taps * LS_TILE_SIZE;
    }
    b->groups = groups;
    b->c_row = LS_TILES_BLOCK;
}

// --- panels ----------------------------------------------------------------------------------------------------------

// The rows of a panel: neighbouring pixels, or one pixel of neighbouring samples. Of the taps those that none of them has are left out.
typedef struct panel_rows {
    ls_place first;
    int64_t count;
    int taps;
    int y[LS_TILES_TAPS], x[LS_TILES_TAPS];
    int32_t a[LS_TILES_TAPS], b[LS_TILES_TAPS];  // where their tiles are
} panel_rows;

static void add_tap(const ls_pixel_map *m, panel_rows *p, int ty, int tx) {
    int t = p->taps++;
    p->y[t] = ty, p->x[t] = tx;
    p->a[t] = t * LS_TILE_DEPTH;
    p->b[t] = (ty * m->taps_x + tx) * LS_TILE_SIZE;
}

static void find_rows(const ls_tiles_kernel *k, ls_place first, int64_t count, panel_rows *p) {
    const ls_pixel_map *m = &k->map;
    p->first = first, p->count = count, p->taps = 0;
    for (int ty = 0; ty < m->taps_y; ty++)
        for (int tx = 0; tx < m->taps_x; tx++)
            if (!k->by_position || (m->y[first.y * m->taps_y + ty] >= 0 && m->x[first.x * m->taps_x + tx] >= 0))
                add_tap(m, p, ty, tx);
}

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

// What the rows read of groups [group, group + groups) of 32 channels: (rows, groups, taps, 32). Rows beyond the count, up to whole
// tiles, are zero.
static void gather(const ls_tiles_kernel *k, const ls_bf16 *from, const panel_rows *rows, int64_t group, int64_t groups,
                   ls_bf16 *panel) {
    const ls_pixel_map *m = &k->map;
    int64_t width = groups * rows->taps * LS_TILE_DEPTH;
    const ls_bf16 *pixel[LS_TILES_TAPS];
    ls_place p = rows->first;
    for (int64_t r = 0; r < rows->count; r++) {
        for (int t = 0; t < rows->taps; t++) pixel[t] = ls__pixel_at(m, from, p, rows->y[t], rows->x[t]);
        ls_bf16 *to = panel + r * width;
        for (int64_t g = group; g < group + groups; g++)
            for (int t = 0; t < rows->taps; t++, to += LS_TILE_DEPTH)
                copy_group(to, pixel[t] ? pixel[t] + g * LS_TILE_DEPTH : NULL, m->channels - g * LS_TILE_DEPTH);
        if (k->by_position)
            p.n++;
        else
            p = ls__next_place(m, p);
    }
    int64_t padded = ls__parts(rows->count, LS_TILES_BLOCK) * LS_TILES_BLOCK;
    memset(panel + rows->count * width, 0, (size_t)((padded - rows->count) * width) * sizeof *panel);
}

// Of all groups of channels, so many are gathered at a time.
static int64_t groups_at_once(const ls_pixel_map *m) {
    int64_t fit = PANEL_COLUMNS / (ls__taps(m) * LS_TILE_DEPTH);
    return m->identity ? groups_of(m) : ls__least(groups_of(m), fit > 0 ? fit : 1);
}

static int is_whole(const ls_pixel_map *m) { return m->framed || groups_at_once(m) == groups_of(m); }

// Multiplies rows by columns [begin, end) of W. `whole`: sums are complete after it, so their memory is used again for each 32
// columns. With `e` they become results: not each at once, since what the unit has just stored takes a while to be there.
typedef struct panel {
    ls_tile_block product;
    int64_t pixel, step, rows;
    int whole;
} panel;

static void multiply_panel(const ls_tiles_kernel *k, const panel *p, int64_t begin, int64_t end, float *sums,
                           const ls_conv2d_ending *e) {
    for (int64_t column = begin; column < end; column += LS_TILES_BLOCK) {
        ls_tile_block b = p->product;
        float *c = p->whole ? sums : sums + (column - begin) * PANEL_ROWS;
        b.columns = (int)ls__least(2, (end - column) / LS_TILE);
        b.b += column / LS_TILE * b.b_column;
        for (int64_t r = 0; r < p->rows; r += LS_TILES_BLOCK) {
            b.rows = p->rows - r > LS_TILE ? 2 : 1;
            b.a = p->product.a + r * b.a_row;
            b.c = c + r * LS_TILES_BLOCK;
            k->tiles->multiply(&b);
        }
        if (e) finish(e, c, p->pixel, p->step, p->rows, column, b.columns);
    }
}

static void rows_of_panel(const ls_tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, ls_place first,
                          int64_t count, char *scratch, const ls_conv2d_ending *e) {
    const ls_pixel_map *m = &k->map;
    int64_t all = groups_of(m), once = groups_at_once(m), image = m->height * m->width;
    int64_t block = is_whole(m) ? LS_TILES_BLOCK : ls_round_up(ls__least(k->columns, LS_TILES_COLUMNS), LS_TILES_BLOCK);
    float *sums = (float *)(void *)scratch;
    ls_bf16 *gathered = (ls_bf16 *)(void *)(sums + PANEL_ROWS * block);
    panel_rows rows;
    find_rows(k, first, count, &rows);
    panel p = {.pixel = first.n * image + first.y * m->width + first.x,
               .step = k->by_position ? image : 1,
               .rows = count,
               .whole = is_whole(m)};
    for (int64_t begin = 0; begin < k->columns; begin += LS_TILES_COLUMNS) {
        int64_t end = ls__least(begin + LS_TILES_COLUMNS, k->columns);
        for (int64_t group = 0; group < all; group += once) {
            int64_t groups = ls__least(once, all - group);
            p.product = (ls_tile_block){.a = gathered,
                                        .a_row = groups * rows.taps * LS_TILE_DEPTH,
                                        .a_group = rows.taps * LS_TILE_DEPTH,
                                        .a_offset = rows.a,
                                        .b_offset = rows.b,
                                        .depth = rows.taps,
                                        .add = group > 0};
            set_weights(k, w, group, groups, &p.product);
            gather(k, from, &rows, group, groups, gathered);
            multiply_panel(k, &p, begin, end, sums, group + groups == all ? e : NULL);
        }
    }
}

// Where each pixel reads itself: whole blocks of rows are multiplied where they lie.
static void rows_of_image(const ls_tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, int64_t first, int64_t count,
                          char *scratch, const ls_conv2d_ending *e) {
    const ls_pixel_map *m = &k->map;
    int64_t whole = m->channels % LS_TILE_DEPTH == 0 ? count / LS_TILES_BLOCK * LS_TILES_BLOCK : 0;
    panel p = {.product = {.a = from + first * m->channels, .a_row = m->channels, .a_group = LS_TILE_DEPTH, .depth = 1},
               .pixel = first,
               .step = 1,
               .rows = whole,
               .whole = 1};
    set_weights(k, w, 0, groups_of(m), &p.product);
    multiply_panel(k, &p, 0, k->columns, (float *)(void *)scratch, e);
    for (int64_t r = whole; r < count; r += LS_TILES_BLOCK)
        rows_of_panel(k, from, w, ls__place_of(m, first + r), ls__least(LS_TILES_BLOCK, count - r), scratch, e);
}

// --- frames ----------------------------------------------------------------------------------------------------------

static int64_t frame_channels(const ls_pixel_map *m) { return ls_round_up(m->channels, LS_TILE_DEPTH); }
static int64_t frame_row(const ls_pixel_map *m) { return m->frame_width * frame_channels(m); }

// Rows [first, first + count) of the frame of an image.
static void copy_frame(const ls_pixel_map *m, const ls_bf16 *image, int64_t first, int64_t count, ls_bf16 *frame) {
    int64_t channels = frame_channels(m);
    for (int64_t r = 0; r < count; r++) {
        int64_t y = first + r - m->top;
        ls_bf16 *to = frame + r * frame_row(m);
        const ls_bf16 *from = y < 0 || y >= m->from_height ? NULL : image + y * m->from_width * m->channels;
        int64_t x = m->left < 0 ? -m->left : 0, end = ls__least(m->from_width, m->frame_width - m->left);
        if (!from || channels != m->channels) memset(to, 0, (size_t)frame_row(m) * sizeof *to);
        if (!from) continue;
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
static void finish_framed(const ls_pixel_map *m, const ls_conv2d_ending *e, const float *sums, int64_t pixel,
                          int64_t begin, int64_t rows, int64_t column, int tiles) {
    for (int64_t r = begin; r < begin + rows;) {
        int64_t y = r / m->frame_width, x = r % m->frame_width;
        int64_t run = ls__least(m->frame_width - x, begin + rows - r), count = ls__least(run, m->width - x);
        if (count > 0)
            finish(e, sums + (r - begin) * LS_TILES_BLOCK, pixel + y * m->width + x, 1, count, column, tiles);
        r += run;
    }
}

// Rows of the result from `y` on, of image n. All of W goes by for each 128 of them, so columns are the outer loop.
static void rows_of_frame(const ls_tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, int64_t n, int64_t y,
                          char *scratch, const ls_conv2d_ending *e) {
    const ls_pixel_map *m = &k->map;
    int64_t height = ls__least(k->rows_once, m->height - y), reach = m->frame_height - m->height;
    int64_t rows = height * m->frame_width;
    float *sums = (float *)(void *)scratch;
    ls_bf16 *frame = (ls_bf16 *)(void *)(sums + PANEL_ROWS * LS_TILES_BLOCK);
    panel p = {.product = {.a_row = frame_channels(m),
                           .a_group = LS_TILE_DEPTH,
                           .a_offset = k->tap_tiles,
                           .b_offset = k->tap_tiles + ls__taps(m),
                           .depth = ls__taps(m)},
               .whole = 1};
    copy_frame(m, from + n * m->from_height * m->from_width * m->channels, y, height + reach, frame);
    set_weights(k, w, 0, groups_of(m), &p.product);
    for (int64_t column = 0; column < k->columns; column += LS_TILES_BLOCK)
        for (int64_t begin = 0; begin < rows; begin += PANEL_ROWS) {
            int64_t end = ls__least(k->columns, column + LS_TILES_BLOCK);
            p.rows = ls__least(PANEL_ROWS, rows - begin);
            p.product.a = frame + begin * p.product.a_row;
            multiply_panel(k, &p, column, end, sums, NULL);
            finish_framed(m, e, sums, (n * m->height + y) * m->width, begin, p.rows, column,
                          (int)((end - column) / LS_TILE));
        }
}

// --- all of it -------------------------------------------------------------------------------------------------------

static int64_t pieces_of(const ls_tiles_kernel *k) {
    const ls_pixel_map *m = &k->map;
    if (m->framed) return m->samples * ls__parts(m->height, k->rows_once);
    if (k->by_position) return m->height * m->width * ls__parts(m->samples, PANEL_ROWS);
    return ls__parts(ls__pixels(m), PANEL_ROWS);
}

static void run_piece(const ls_tiles_kernel *k, int64_t i, const ls_bf16 *from, const ls_bf16 *w, char *scratch,
                      const ls_conv2d_ending *e) {
    const ls_pixel_map *m = &k->map;
    if (m->framed) {
        int64_t pieces = ls__parts(m->height, k->rows_once);
        rows_of_frame(k, from, w, i / pieces, i % pieces * k->rows_once, scratch, e);
    } else if (k->by_position) {
        int64_t image = m->height * m->width, n = i / image * PANEL_ROWS;
        ls_place first = {n, i % image / m->width, i % m->width};
        rows_of_panel(k, from, w, first, ls__least(PANEL_ROWS, m->samples - n), scratch, e);
    } else {
        int64_t first = i * PANEL_ROWS, count = ls__least(PANEL_ROWS, ls__pixels(m) - first);
        if (m->identity)
            rows_of_image(k, from, w, first, count, scratch, e);
        else
            rows_of_panel(k, from, w, ls__place_of(m, first), count, scratch, e);
    }
}

void ls__tiles_rows_run(const ls_tiles_kernel *k, const ls_bf16 *from, const ls_bf16 *w, char *scratch,
                        const ls_conv2d_ending *e) {
    int64_t pieces = pieces_of(k);
#pragma omp parallel num_threads(k->threads) if (k->threads > 1)
    {
        ls_tile_state before;
        k->tiles->begin(&before);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < pieces; i++) run_piece(k, i, from, w, scratch + ls__team_index() * k->thread_bytes, e);
        k->tiles->end(&before);
    }
}

// --- planning --------------------------------------------------------------------------------------------------------

static int64_t taps_inside(const int32_t *found, int64_t count) {
    int64_t inside = 0;
    for (int64_t i = 0; i < count; i++) inside += found[i] >= 0;
    return inside;
}

static int64_t reach_of(const ls_pixel_map *m) { return m->frame_height - m->height; }

static int64_t frame_rows_once(const ls_pixel_map *m) {
    int64_t fit = FRAME_BYTES / (frame_row(m) * 2) - reach_of(m);
    return ls__least(m->height, fit > 0 ? fit : 1);
}

// A frame is copied once, a panel once for each tap; but of the frame's rows what would lie beyond the image's right side is multiplied in
// vain. A copied element costs as much as about 38 multiplications. Taps far from each other may make the frame larger than the panel.
static int frame_pays(const ls_tiles_kernel *k) {
    const ls_pixel_map *m = &k->map;
    if (!m->framed) return 0;
    int64_t pixels = m->height * m->width, rows = ls_round_up(m->height * m->frame_width, LS_TILE);
    int64_t once = frame_rows_once(m), copied = (once + reach_of(m)) * m->frame_width;
    return (rows - pixels) * k->columns < 38 * pixels && copied <= once * m->width * ls__taps(m) &&
           (reach_of(m) + 1) * frame_row(m) <= INT32_MAX;
}

// Where many taps lie outside the image (small images, strides of a data gradient), rows that are one pixel of many samples leave those
// out. W is read for each pixel again.
static int position_pays(const ls_tiles_kernel *k) {
    const ls_pixel_map *m = &k->map;
    int64_t inside = taps_inside(m->y, m->height * m->taps_y) * taps_inside(m->x, m->width * m->taps_x);
    int64_t products = inside * ls_round_up(m->samples, LS_TILE), all = ls__pixels(m) * ls__taps(m);
    return 4 * products <= 3 * all && ls__taps(m) * m->channels * k->columns * 2 <= WEIGHTS_BYTES;
}

static ls_status plan_frame(ls_tiles_kernel *k) {
    const ls_pixel_map *m = &k->map;
    int taps = ls__taps(m);
    k->rows_once = frame_rows_once(m);
    LS_TRY(ls_calloc(2 * taps, sizeof *k->tap_tiles, &k->tap_tiles));
    for (int t = 0; t < taps; t++) {
        k->tap_tiles[t] = m->tap_pixels[t] * (int32_t)frame_channels(m);
        k->tap_tiles[taps + t] = t * LS_TILE_SIZE;
    }
    // The last tile of rows may read a little more than the frame.
    int64_t pixels = (k->rows_once + reach_of(m)) * m->frame_width + m->frame_width - m->width + LS_TILE;
    k->thread_bytes = pixels * frame_channels(m) * 2;
    return LS_OK;
}

ls_status ls__tiles_rows_plan(ls_tiles_kernel *k) {
    ls_pixel_map *m = &k->map;
    int64_t columns = ls_round_up(ls__least(k->columns, LS_TILES_COLUMNS), LS_TILES_BLOCK);
    m->framed = frame_pays(k);
    if (m->framed) {
        LS_TRY(plan_frame(k));
    } else {
        k->by_position = !m->identity && position_pays(k);
        int64_t rows = m->identity ? LS_TILES_BLOCK : PANEL_ROWS;
        k->thread_bytes = rows * groups_at_once(m) * ls__taps(m) * LS_TILE_DEPTH * 2;
    }
    k->thread_bytes += PANEL_ROWS * (is_whole(m) ? LS_TILES_BLOCK : columns) * (int64_t)sizeof(float);
    k->base.tiles = pieces_of(k);
    return LS_OK;
}
