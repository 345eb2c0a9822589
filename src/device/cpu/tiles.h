// Sums of products in tiles, as the AMX unit of a processor makes them: 16 x 16 sums in F32 of BF16 factors, 32 deep.
//
// The order of adding is the unit's own, and part of what is promised here: of 32 products those with an even index are added up one
// after the other from zero, those with an odd index as well, each by a fused multiply-add; the two sums are added, then that is added to
// C. Denormals count as zeros. So the bits are a function of the numbers and of the order of the tiles alone: not of how the work
// is cut into blocks, of caches, or of threads. There are two implementations with the same bits: `amx`, and `plain` for tests and
// for whoever wants to read what is computed.
#ifndef LS_DEVICE_CPU_TILES_H
#define LS_DEVICE_CPU_TILES_H

#include <stdint.h>

#include "base/bf16.h"

enum {
    LS_TILE = 16,                            // rows of A and C, columns of B and C
    LS_TILE_DEPTH = 32,                      // columns of A, rows of B
    LS_TILE_SIZE = LS_TILE * LS_TILE_DEPTH,  // elements of a tile of A or of B
};

// C = A B, or C += A B: C has up to 2 x 2 tiles, and the sums are groups * depth tiles deep. A tile of B is (16, 16, 2): rows
// 2 i and 2 i + 1 of B lie side by side.
typedef struct ls_tile_block {
    const ls_bf16 *a;         // (16 rows, groups, depth, 32)
    int64_t a_row;            // elements from one row to the next
    int64_t a_group, a_step;  // from one group to the next, from one tile of a group to the next
    const ls_bf16 *b;         // (columns, groups, depth) tiles; those of a group follow each other
    int64_t b_column, b_group;
    const int32_t *a_offset, *b_offset;  // (depth): where the tiles of a group are instead; NULL: both are as above
    float *c;                            // (16 rows, 16 columns)
    int64_t c_row;
    int64_t groups, depth;
    int rows, columns;  // tiles: 1 or 2
    int add;            // 1: to what C holds
} ls_tile_block;

// Where tile k of a group is, from where the group begins.
static inline int64_t ls__tile_of_a(const ls_tile_block *p, int64_t k) {
    return p->a_offset ? p->a_offset[k] : k * p->a_step;
}
static inline int64_t ls__tile_of_b(const ls_tile_block *p, int64_t k) {
    return p->a_offset ? p->b_offset[k] : k * LS_TILE_SIZE;
}

// What the thread's unit was set to before; whoever used it finds it as it was.
typedef struct ls_tile_state {
    _Alignas(64) uint8_t config[64];
} ls_tile_state;

typedef struct ls_tile_ops {
    const char *name;                      // of kernels that use it
    int (*available)(void);                // whether this process may use it
    void (*begin)(ls_tile_state *before);  // each thread, around its multiplications
    void (*multiply)(const ls_tile_block *block);
    void (*end)(const ls_tile_state *before);
    int transposing;  // bringing an element of X into the tiles of a weight gradient takes as long as so many multiplications
    int blocks;  // weight gradients are made of images whose channels lie in blocks of 16, too
} ls_tile_ops;

extern const ls_tile_ops ls__tiles_amx, ls__tiles_plain;
// Another order of adding, which is that of AVX512-BF16: each sum goes on from what C holds, pair after pair, in a pair first the product
// with the odd index. Denormals count as zeros. Again twice with the same bits.
extern const ls_tile_ops ls__tiles_dots, ls__tiles_dots_plain;

// --- bringing numbers into tiles -------------------------------------------------------------------------------------

// Tiles of B from 32 rows of numbers, for the columns of tiles `begin` to `end`: column tile t lies at to + t * to_column. from[r]: row r.
// Unless NULL, sums + 32 * t has 2 * 16 sums of column tile t: to the first half the even rows are added, in order, to the second the odd ones.
void ls__tile_pairs(ls_bf16 *to, int64_t to_column, const ls_bf16 *const from[LS_TILE_DEPTH], int64_t begin,
                    int64_t end, float *sums);
// The transpose: row c (of 16 * columns) of `to` has column c of the 32 rows: to[c * to_row + r] = from[r][c].
void ls__tile_transpose(ls_bf16 *to, int64_t to_row, const ls_bf16 *const from[LS_TILE_DEPTH], int64_t columns);

#endif
