#include "device/cpu/batch_norm_loops.h"

#include "device/cpu/loops_impl.h"

// A row is two vectors. What the loops know by element is held in registers across all rows.
typedef struct lanes {
    v16f mean, scale, beta, dy_mean, slope;
} lanes;

typedef struct sums {
    v16f first, second;
} sums;

// So many rows are summed in float before double takes over.
enum { FLOAT_ROWS = 64 };

LS_INLINE lanes lanes_of(const ls_norm_pass *p, int at) {
    lanes l;
    memcpy(&l.mean, p->mean + at, sizeof l.mean);
    memcpy(&l.scale, p->scale + at, sizeof l.scale);
    memcpy(&l.beta, p->beta + at, sizeof l.beta);
    memcpy(&l.dy_mean, p->dy_mean + at, sizeof l.dy_mean);
    memcpy(&l.slope, p->slope + at, sizeof l.slope);
    return l;
}

LS_INLINE v16f where_positive(v16f y, v16f d) { return select16(y > 0, d, (v16f){0}); }

LS_INLINE v16f normalized(v16f x, const lanes *l) { return (x - l->mean) * l->scale + l->beta; }

LS_INLINE void fold(ls_norm_pass *p, sums s[2]) {
    for (int v = 0; v < 2; v++) {
        float first[16], second[16];
        memcpy(first, &s[v].first, sizeof first);
        memcpy(second, &s[v].second, sizeof second);
        for (int i = 0; i < 16; i++) p->sum[0][16 * v + i] += (double)first[i];
        for (int i = 0; i < 16; i++) p->sum[1][16 * v + i] += (double)second[i];
        s[v] = (sums){{0}, {0}};
    }
}

// A walk over the tile in pieces: some whole rows of a run, or the one at its end.
typedef struct piece {
    int64_t at, rows, width;
    int64_t run, begun;  // of this run so many rows lie behind; its last one, that of the tail, counts
    int64_t unfolded;    // rows since the last fold
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
    c->at = c->run * p->run_stride + c->begun * p->row_stride;
    c->rows = p->rows - c->begun;
    c->width = p->width;
    if (c->rows == 0) {
        c->rows = 1;
        c->width = p->tail;
    }
    if (c->rows > FLOAT_ROWS - c->unfolded) c->rows = FLOAT_ROWS - c->unfolded;
    c->unfolded += c->rows;
    return 1;
}

// Calls VISIT(at, vector, count) for the two vectors of each row of a piece, with the number of lanes that are there: the
// constant 16 wherever a row is whole.
#define EACH_VECTOR(p, c, VISIT)                                                                                       \
    do {                                                                                                               \
        int64_t at_ = (c)->at, step_ = (p)->row_stride, width_ = (c)->width;                                           \
        for (int64_t i_ = 0; i_ < (c)->rows && width_ == LS_NORM_ROW; i_++, at_ += step_) {                            \
            VISIT(at_, 0, 16);                                                                                         \
            VISIT(at_ + 16, 1, 16);                                                                                    \
        }                                                                                                              \
        for (int64_t i_ = 0; i_ < (c)->rows && width_ < LS_NORM_ROW; i_++, at_ += step_) {                             \
            if (width_ < 16) VISIT(at_, 0, width_);                                                                    \
            if (width_ >= 16) VISIT(at_, 0, 16);                                                                       \
            if (width_ > 16) VISIT(at_ + 16, 1, width_ - 16);                                                          \
        }                                                                                                              \
    } while (0)

// --- the mean and the variance ---------------------------------------------------------------------------------------

LS_INLINE void moments16(ls_dtype dtype, const void *x, int64_t at, int64_t count, const lanes *l, sums *s) {
    v16f v = load_lanes(dtype, x, at, count) - l->mean;
    if (count < 16) {
        static const v16i number = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        v = select16(number < (int32_t)count, v, (v16f){0});
    }
    s->first += v;
    s->second += v * v;
}

LS_INLINE void moments(ls_dtype dtype, ls_norm_pass *p) {
    const lanes l[2] = {lanes_of(p, 0), lanes_of(p, 16)};
    const void *x = p->x;
    sums s[2] = {{{0}, {0}}, {{0}, {0}}};
#define VISIT(at, v, count) moments16(dtype, x, at, count, &l[v], &s[v])
    for (piece c = {0}; next_piece(p, &c);) {
        EACH_VECTOR(p, &c, VISIT);
        if (c.unfolded == FLOAT_ROWS) fold(p, s);
    }
    fold(p, s);
#undef VISIT
}

LS_CLONES static void moments_f32(ls_norm_pass *p) { moments(LS_DTYPE_F32, p); }
LS_CLONES static void moments_bf16(ls_norm_pass *p) { moments(LS_DTYPE_BF16, p); }

void ls__norm_moments(ls_dtype dtype, ls_norm_pass *p) { (dtype == LS_DTYPE_F32 ? moments_f32 : moments_bf16)(p); }

// --- forward ---------------------------------------------------------------------------------------------------------

LS_INLINE void forward16(ls_dtype dtype, const void *x, const void *x2, void *y, int64_t at, int64_t count,
                         const lanes *l, int relu) {
    v16f v = normalized(load_lanes(dtype, x, at, count), l);
    if (x2) v += load_lanes(dtype, x2, at, count);
    store_lanes(dtype, y, at, relu ? where_positive(v, v) : v, count);
}

LS_INLINE void forward(ls_dtype dtype, const ls_norm_pass *p, const void *x2, int relu) {
    const lanes l[2] = {lanes_of(p, 0), lanes_of(p, 16)};
    const void *x = p->x;
    void *y = p->y;
#define VISIT(at, v, count) forward16(dtype, x, x2, y, at, count, &l[v], relu)
    for (piece c = {0}; next_piece(p, &c);) EACH_VECTOR(p, &c, VISIT);
#undef VISIT
}

// One loop for each combination of what is fused.
LS_INLINE void forward_any(ls_dtype dtype, const ls_norm_pass *p) {
    if (p->x2 && p->relu)
        forward(dtype, p, p->x2, 1);
    else if (p->x2)
        forward(dtype, p, p->x2, 0);
    else if (p->relu)
        forward(dtype, p, NULL, 1);
    else
        forward(dtype, p, NULL, 0);
}

LS_CLONES static void forward_f32(const ls_norm_pass *p) { forward_any(LS_DTYPE_F32, p); }
LS_CLONES static void forward_bf16(const ls_norm_pass *p) { forward_any(LS_DTYPE_BF16, p); }

void ls__norm_forward(ls_dtype dtype, ls_norm_pass *p) { (dtype == LS_DTYPE_F32 ? forward_f32 : forward_bf16)(p); }

// --- backward --------------------------------------------------------------------------------------------------------

// Where the gradient of Y is let through.
typedef enum gate { OPEN, BY_X, BY_Y } gate;

LS_INLINE gate gate_of(const ls_norm_pass *p) { return !p->relu ? OPEN : p->y ? BY_Y : BY_X; }

LS_INLINE void sums16(ls_dtype dtype, const void *x, const void *y, const void *dy, void *dx2, int64_t at,
                      int64_t count, const lanes *l, gate g, sums *s) {
    v16f v = load_lanes(dtype, x, at, count), d = load_lanes(dtype, dy, at, count);
    if (g == BY_X) d = where_positive(normalized(v, l), d);
    if (g == BY_Y) d = where_positive(load_lanes(dtype, y, at, count), d);
    if (dx2) store_lanes(dtype, dx2, at, d, count);
    s->first += d;
    s->second += d * (v - l->mean);
}

LS_INLINE void backward_sums(ls_dtype dtype, ls_norm_pass *p, gate g, void *dx2) {
    const lanes l[2] = {lanes_of(p, 0), lanes_of(p, 16)};
    const void *x = p->x, *y = p->y, *dy = p->dy;
    sums s[2] = {{{0}, {0}}, {{0}, {0}}};
#define VISIT(at, v, count) sums16(dtype, x, y, dy, dx2, at, count, &l[v], g, &s[v])
    for (piece c = {0}; next_piece(p, &c);) {
        EACH_VECTOR(p, &c, VISIT);
        if (c.unfolded == FLOAT_ROWS) fold(p, s);
    }
    fold(p, s);
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
    case BY_Y: backward_sums(dtype, p, BY_Y, p->dx2); break;
    }
}

LS_CLONES static void backward_sums_f32(ls_norm_pass *p) { backward_sums_any(LS_DTYPE_F32, p); }
LS_CLONES static void backward_sums_bf16(ls_norm_pass *p) { backward_sums_any(LS_DTYPE_BF16, p); }

void ls__norm_backward_sums(ls_dtype dtype, ls_norm_pass *p) {
    (dtype == LS_DTYPE_F32 ? backward_sums_f32 : backward_sums_bf16)(p);
}

LS_INLINE void data16(ls_dtype dtype, const void *x, const void *y, const void *dy, const void *addend, void *dx,
                      int64_t at, int64_t count, const lanes *l, gate g, int mask_dx) {
    v16f v = load_lanes(dtype, x, at, count), d = load_lanes(dtype, dy, at, count);
    if (g == BY_X) d = where_positive(normalized(v, l), d);
    if (g == BY_Y) d = where_positive(load_lanes(dtype, y, at, count), d);
    d = l->scale * ((d - l->dy_mean) - (v - l->mean) * l->slope);
    if (addend) d += load_lanes(dtype, addend, at, count);
    store_lanes(dtype, dx, at, mask_dx ? where_positive(v, d) : d, count);
}

LS_INLINE void backward_data(ls_dtype dtype, const ls_norm_pass *p, gate g, const void *addend) {
    const lanes l[2] = {lanes_of(p, 0), lanes_of(p, 16)};
    const void *x = p->x, *y = p->y, *dy = p->dx2 ? p->dx2 : p->dy;
    void *dx = p->dx;
    int mask_dx = p->mask_dx;
#define VISIT(at, v, count) data16(dtype, x, y, dy, addend, dx, at, count, &l[v], g, mask_dx)
    for (piece c = {0}; next_piece(p, &c);) EACH_VECTOR(p, &c, VISIT);
#undef VISIT
}

LS_INLINE void backward_data_any(ls_dtype dtype, const ls_norm_pass *p) {
    gate g = p->dx2 ? OPEN : gate_of(p);
    if (g == BY_X && p->addend)
        backward_data(dtype, p, BY_X, p->addend);
    else if (g == BY_X)
        backward_data(dtype, p, BY_X, NULL);
    else if (g == BY_Y)
        backward_data(dtype, p, BY_Y, p->addend);
    else if (p->addend)
        backward_data(dtype, p, OPEN, p->addend);
    else
        backward_data(dtype, p, OPEN, NULL);
}

LS_CLONES static void backward_data_f32(const ls_norm_pass *p) { backward_data_any(LS_DTYPE_F32, p); }
LS_CLONES static void backward_data_bf16(const ls_norm_pass *p) { backward_data_any(LS_DTYPE_BF16, p); }

void ls__norm_backward_data(ls_dtype dtype, ls_norm_pass *p) {
    (dtype == LS_DTYPE_F32 ? backward_data_f32 : backward_data_bf16)(p);
}
