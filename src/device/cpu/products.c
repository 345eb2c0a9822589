#include "device/cpu/products.h"

#include "device/cpu/loops_impl.h"

enum { ROWS = 8 };

// `rows` rows and 16 * vectors columns of C, from (i, j) on: constants where this is inlined, so that the sums stay in registers.
LS_INLINE void block(const ls_product *p, int64_t i, int64_t j, const int rows, const int vectors) {
    v16f sum[ROWS][2] = {{{0}}};
    const float *a = p->a + i * p->a_row, *b = p->b + j;
    for (int64_t l = 0; l < p->k; l++, a += p->a_step, b += p->b_row) {
        v16f right[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) right[v] = load16(LS_DTYPE_F32, b, 16 * v);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] += a[r * p->a_row] * right[v];
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors; v++) store16(LS_DTYPE_F32, p->c, (i + r) * p->c_row + j + 16 * v, sum[r][v]);
}

LS_INLINE void rows_of(const ls_product *p, int64_t i, const int rows) {
    int64_t j = 0;
    for (; j + 32 <= p->n; j += 32) block(p, i, j, rows, 2);
    if (j < p->n) block(p, i, j, rows, 1);
}

LS_CLONES void ls__product(const ls_product *p) {
    int64_t i = 0;
    for (; i + ROWS <= p->m; i += ROWS) rows_of(p, i, ROWS);
    for (; i < p->m; i++) rows_of(p, i, 1);
}
