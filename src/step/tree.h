// The fixed binary tree over micro-batch indices: the reason why any number of workers gives the
// same bits.
//
// Node (level, i) covers the micro-batches [i * 2^level, (i + 1) * 2^level), cut off at V. Its sum
// is left + right, or just left where the right half lies beyond V. The gradient of a step is the
// root's sum. Whoever holds a run of micro-batches [a, b) adds up the fewest nodes that cover it,
// its *pieces*; adding pieces of neighbours by the same rule gives the same tree, hence the same
// bits, however the runs were cut.
#ifndef LS_STEP_TREE_H
#define LS_STEP_TREE_H

#include <stdint.h>

// A node of the tree: the micro-batches [first, first + 2^level), those beyond V missing.
typedef struct ls_piece {
    int64_t first;
    int level;
} ls_piece;

#define LS_TREE_MAX_PIECES 96  // a run's pieces number at most 2 log2 V + 1

// The least level whose nodes cover so many: that of the root.
static inline int ls_tree_levels(int64_t count) {
    int levels = 0;
    while ((int64_t)1 << levels < count) levels++;
    return levels;
}

// The run of micro-batches that lane `lane` of `lanes` computes in a step of V: contiguous, sizes
// differing by at most one, in lane order.
void ls_tree_run(int64_t micro_batches, int lane, int lanes, int64_t *begin, int64_t *end);

// The pieces that cover [begin, end) of a tree over V, in order. Returns how many; 0 for an empty
// run.
int ls_tree_pieces(int64_t micro_batches, int64_t begin, int64_t end, ls_piece *pieces);

// How many gradient buffers a lane needs to add up [begin, end) one micro-batch after the other
// (its pieces so far, and the one being computed). 0 for an empty run.
int ls_tree_slots(int64_t micro_batches, int64_t begin, int64_t end);

// The rule of adding, as a stack machine that a lane and the final sum share. After pushing a node,
// as long as this returns 1, the two topmost nodes of the stack are siblings and have been replaced
// by their parent: add their sums (left += right) and call it again. A node whose right sibling
// lies beyond V counts as its parent, whose sum is the same.
int ls_tree_merge(int64_t micro_batches, ls_piece *stack, int *depth);

#endif
