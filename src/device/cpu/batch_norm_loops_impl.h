// The loops of batch normalization over a tile, whatever the instructions. A file that includes this also has the work on a row: the functions
// declared first. NORM_BOUNDS: whether it knows gates by bounds.
#ifndef LS_DEVICE_CPU_BATCH_NORM_LOOPS_IMPL_H
#define LS_DEVICE_CPU_BATCH_NORM_LOOPS_IMPL_H

#include "device/cpu/batch_norm_loops.h"
#include "device/cpu/loops_impl.h"

_Static_assert(ROW == LS_NORM_ROW, "rows are as long as the callers think");

// What the loops know by place, held in registers across all rows.
typedef struct known {
    row mean, scale, beta, dy_mean, slope;
    v16u flip, bound;  // of two elements each
} known;

typedef struct sums {
    row first, second;
} sums;

// Where the gradient of Y is let through.
typedef enum gate { OPEN, BY_X, BY_X6, BY_Y, BY_BOUND } gate;

// --- what a file has to have: the work on `count` elements at `at`, while those at `next` are fetched ------------------

LS_INLINE void moments_row(ls_dtype dtype, const void *x, int64_t at, int64_t next, int64_t count, const known *k,
                           sums *s);
LS_INLINE void forward_row(ls_dtype dtype, const void *x, const void *x2, void *y, int64_t at, int64_t next,
                           int64_t count, const known *k, ls_norm_end relu);
// `ahead`: X where its rows at `next` are.
LS_INLINE void sums_row(ls_dtype dtype, const void *x, const void *ahead, const void *y, const void *dy, void *dx2,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, sums *s);
LS_INLINE void data_row(ls_dtype dtype, const void *x, const void *y, const void *dy, const void *addend, void *dx,
                        int64_t at, int64_t next, int64_t count, const known *k, gate g, int mask_dx);

// --- the walk --------------------------------------------------------------------------------------------------------

// So many rows are summed in float before double takes over.
enum { FLOAT_ROWS = 64 };

LS_INLINE v16f at_most6(v16f y) {
    const v16f six = {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6};
    return select16(greater16(y, six), six, y);
}

LS_INLINE row values_of(const float *from) { return load_whole_row(LS_DTYPE_F32, from, 0); }

LS_INLINE known known_of(const ls_norm_pass *p) {
    known k = {.mean = values_of(p->mean),
               .scale = values_of(p->scale),
               .beta = values_of(p->beta),
               .dy_mean = values_of(p->dy_mean),
               .slope = values_of(p->slope)};
    memcpy(&k.flip, p->flip, sizeof k.flip);
    memcpy(&k.bound, p->bound, sizeof k.bound);
    return k;
}

LS_INLINE void fold(ls_norm_pass *p, sums *s) {
    float first[ROW], second[ROW];
    store_whole_row(LS_DTYPE_F32, first, 0, s->first);
    store_whole_row(LS_DTYPE_F32, second, 0, s->second);
    for (int i = 0; i < ROW; i++) p->sum[0][i] += (double)first[i];
    for (int i = 0; i < ROW; i++) p->sum[1][i] += (double)second[i];
    *s = (sums){{{{0}, {0}}}, {{{0}, {0}}}};
}

LS_INLINE sums begun_sums(const ls_norm_pass *p) { return (sums){values_of(p->part[0]), values_of(p->part[1])}; }

LS_INLINE void end_sums(ls_norm_pass *p, sums *s, int64_t unfolded) {
    p->unfolded = p->open ? unfolded % FLOAT_ROWS : 0;
    if (!p->unfolded) fold(p, s);
    store_whole_row(LS_DTYPE_F32, p->part[0], 0, s->first);
    store_whole_row(LS_DTYPE_F32, p->part[1], 0, s->second);
}

// A walk over the tile in pieces: some whole rows of a run, or the one at its end.
typedef struct piece {
    int64_t at, rows, width;
    int64_t run, begun;  // of this run so many rows lie behind; its last one, that of the tail, counts
    int64_t unfolded;    // rows since the last fold
    int64_t next;        // the row to fetch meanwhile
} piece;

LS_INLINE int next_piece(const ls_norm_pass *p, piece *c) {
    int64_t rows_of_run = p->rows + (p->tail > 0);
    c->begun += c->rows;
    if (c->begun == rows_of_run) {
        c->begun = 0;
        c->run++;
    }
    if (c->run == p->runs) return 0;
    if (c->unfolded == FLOAT_ROWS) c->unfolded = 0;
    c->at = p->origin + c->run * p->run_stride + c->begun * p->row_stride;
    c->rows = p->rows - c->begun;
    c->width = p->width;
    if (c->rows == 0) {
        c->rows = 1;
        c->width = p->tail;
    }
    if (c->rows > FLOAT_ROWS - c->unfolded) c->rows = FLOAT_ROWS - c->unfolded;
    c->unfolded += c->rows;
    c->next = c->at + p->ahead;
    return 1;
}

// Calls VISIT(at, next, count) for each row of a piece, with the number of elements that are there: as a constant where rows are
// whole or end as those of a 7x7 image do.
#define EACH_ROW(p, c, VISIT)                                                                                          \
    do {                                                                                                               \
        int64_t at_ = (c)->at, step_ = (p)->row_stride, end_ = at_ + (c)->rows * step_;                                \
        int64_t next_ = (c)->next, step_ahead_ = (p)->step_ahead;                                                      \
        if ((c)->width == ROW)                                                                                         \
            for (; at_ < end_; at_ += step_, next_ += step_ahead_) VISIT(at_, next_, ROW);                             \
        else if ((c)->width == 16)                                                                                     \
            for (; at_ < end_; at_ += step_, next_ += step_ahead_) VISIT(at_, next_, 16);                              \
        else                                                                                                           \
            for (; at_ < end_; at_ += step_, next_ += step_ahead_) VISIT(at_, next_, (c)->width);                      \
    } while (0)

// --- a sample --------------------------------------------------------------------------------------------------------

LS_INLINE void sample(ls_dtype dtype, ls_norm_pass *p) {
    int64_t rows_of_run = p->rows + (p->tail > 0), rows = p->runs * rows_of_run;
    int whole = 0;
    for (int i = 0; i < 8; i++) {
        int64_t at_row = rows * i / 8, run = at_row / rows_of_run, inner = at_row % rows_of_run;
        int64_t count = inner < p->rows ? p->width : p->tail;
        float values[ROW];
        row r = load_row(dtype, p->x, p->origin + run * p->run_stride + inner * p->row_stride, count);
        store_whole_row(LS_DTYPE_F32, values, 0, r);
        for (int e = 0; e < ROW; e++) p->sum[0][e] += (double)values[e];
        whole += count == ROW;
        for (int e = 0; e < count && count < ROW; e++) p->sum[1][row_place(dtype, e)] += 1;
    }
    for (int e = 0; e < ROW; e++) p->sum[1][e] += whole;
}

// --- the mean and the variance ---------------------------------------------------------------------------------------

LS_INLINE void moments(ls_dtype dtype, ls_norm_pass *p) {
    const known k = known_of(p);
    const void *x = p->x;
    sums s = begun_sums(p);
    piece c = {.unfolded = p->unfolded};
#define VISIT(at, next, count) moments_row(dtype, x, at, next, count, &k, &s)
    while (next_piece(p, &c)) {
        EACH_ROW(p, &c, VISIT);
        if (c.unfolded == FLOAT_ROWS) fold(p, &s);
    }
    end_sums(p, &s, c.unfolded);
#undef VISIT
}

// --- forward ---------------------------------------------------------------------------------------------------------

LS_INLINE void forward(ls_dtype dtype, const ls_norm_pass *p, const void *x2, ls_norm_end relu) {
    const known k = known_of(p);
    const void *x = p->x;
    void *y = p->y;
#define VISIT(at, next, count) forward_row(dtype, x, x2, y, at, next, count, &k, relu)
    for (piece c = {0}; next_piece(p, &c);) EACH_ROW(p, &c, VISIT);
#undef VISIT
}

// One loop for each combination of what is fused.
LS_INLINE void forward_any(ls_dtype dtype, const ls_norm_pass *p) {
    if (p->x2 && p->relu)
        forward(dtype, p, p->x2, LS_NORM_RELU);
    else if (p->x2)
        forward(dtype, p, p->x2, LS_NORM_LINEAR);
    else if (p->relu == LS_NORM_RELU6)
        forward(dtype, p, NULL, LS_NORM_RELU6);
    else if (p->relu)
        forward(dtype, p, NULL, LS_NORM_RELU);
    else
        forward(dtype, p, NULL, LS_NORM_LINEAR);
}

// --- backward --------------------------------------------------------------------------------------------------------

LS_INLINE gate gate_of(const ls_norm_pass *p) {
    if (NORM_BOUNDS && p->bounded) return BY_BOUND;
    if (p->relu == LS_NORM_RELU6) return BY_X6;
    return !p->relu ? OPEN : p->y ? BY_Y : BY_X;
}

// X for the first row of a piece, so that it is at the same place as those of the other tensors; for each row behind it X_ROW_SKIP more.
LS_INLINE const char *x_of(const ls_norm_pass *p, const piece *c) {
    return (const char *)p->x + c->run * p->x_skip + c->begun * p->x_row_skip;
}

LS_INLINE void backward_sums(ls_dtype dtype, ls_norm_pass *p, gate g, void *dx2) {
    const known k = known_of(p);
    const void *y = p->y, *dy = p->dy;
    int64_t skip = p->x_row_skip, skip_ahead = p->ahead ? p->rows * skip : 0;
    sums s = begun_sums(p);
    piece c = {.unfolded = p->unfolded};
#define VISIT(at, next, count) (sums_row(dtype, x, x + skip_ahead, y, dy, dx2, at, next, count, &k, g, &s), x += skip)
    while (next_piece(p, &c)) {
        const char *x = x_of(p, &c);
        EACH_ROW(p, &c, VISIT);
        if (c.unfolded == FLOAT_ROWS) fold(p, &s);
    }
    end_sums(p, &s, c.unfolded);
#undef VISIT
}

LS_INLINE void backward_sums_any(ls_dtype dtype, ls_norm_pass *p) {
    switch (gate_of(p)) {
    case OPEN:
        if (p->dx2)
            backward_sums(dtype, p, OPEN, p->dx2);
        else
            backward_sums(dtype, p, OPEN, NULL);
        break;
    case BY_X: backward_sums(dtype, p, BY_X, NULL); break;
    case BY_X6: backward_sums(dtype, p, BY_X6, NULL); break;
    case BY_Y: backward_sums(dtype, p, BY_Y, p->dx2); break;
    case BY_BOUND: backward_sums(dtype, p, BY_BOUND, NULL); break;
    }
}

LS_INLINE void backward_data(ls_dtype dtype, const ls_norm_pass *p, gate g, const void *addend) {
    const known k = known_of(p);
    const void *y = p->y, *dy = p->dx2 ? p->dx2 : p->dy;
    void *dx = p->dx;
    int mask_dx = p->mask_dx;
    int64_t skip = p->x_row_skip;
#define VISIT(at, next, count) (data_row(dtype, x, y, dy, addend, dx, at, next, count, &k, g, mask_dx), x += skip)
    for (piece c = {0}; next_piece(p, &c);) {
        const char *x = x_of(p, &c);
        EACH_ROW(p, &c, VISIT);
    }
#undef VISIT
}

LS_INLINE void backward_data_any(ls_dtype dtype, const ls_norm_pass *p) {
    gate g = p->dx2 ? OPEN : gate_of(p);
    if (NORM_BOUNDS && g == BY_BOUND && p->addend)
        backward_data(dtype, p, BY_BOUND, p->addend);
    else if (NORM_BOUNDS && g == BY_BOUND)
        backward_data(dtype, p, BY_BOUND, NULL);
    else if (g == BY_X && p->addend)
        backward_data(dtype, p, BY_X, p->addend);
    else if (g == BY_X)
        backward_data(dtype, p, BY_X, NULL);
    else if (g == BY_X6)
        backward_data(dtype, p, BY_X6, p->addend);
    else if (g == BY_Y)
        backward_data(dtype, p, BY_Y, p->addend);
    else if (p->addend)
        backward_data(dtype, p, OPEN, p->addend);
    else
        backward_data(dtype, p, OPEN, NULL);
}

#endif
