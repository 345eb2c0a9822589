#include "step/tree.h"

// Where a node's micro-batches end, were there enough of them.
static int64_t node_end(ls_piece node) { return node.first + ((int64_t)1 << node.level); }

static int is_left_child(int64_t micro_batches, ls_piece node) {
    int is_root = node.first == 0 && node_end(node) >= micro_batches;
    return !is_root && ((node.first >> node.level) & 1) == 0;
}

// A left child without a right sibling is as good as its parent; climbs as far as that goes.
static ls_piece climb(int64_t micro_batches, ls_piece node) {
    while (is_left_child(micro_batches, node) && node_end(node) >= micro_batches) node.level++;
    return node;
}

void ls_tree_run(int64_t micro_batches, int lane, int lanes, int64_t *begin, int64_t *end) {
    *begin = micro_batches * lane / lanes;
    *end = micro_batches * (lane + 1) / lanes;
}

int ls_tree_pieces(int64_t micro_batches, int64_t begin, int64_t end, ls_piece *pieces) {
    int count = 0;
    while (begin < end) {
        ls_piece node = climb(micro_batches, (ls_piece){begin, 0});
        while (is_left_child(micro_batches, node)) {
            ls_piece parent = climb(micro_batches, (ls_piece){begin, node.level + 1});
            if (node_end(parent) > end && end < micro_batches) break;
            node = parent;
        }
        pieces[count++] = node;
        begin = node_end(node);
    }
    return count;
}

int ls_tree_merge(int64_t micro_batches, ls_piece *stack, int *depth) {
    ls_piece *top = &stack[*depth - 1];
    *top = climb(micro_batches, *top);
    if (*depth < 2 || (top - 1)->level != top->level || node_end(top[-1]) != top->first ||
        !is_left_child(micro_batches, top[-1]))
        return 0;
    top[-1].level++;
    (*depth)--;
    return 1;
}

static int bit_length(uint64_t x) { return x ? 64 - __builtin_clzll(x) : 0; }

// While micro-batch t is computed, the stack holds the pieces of [begin, t): `rising` ever larger
// ones up to the most aligned point p in between, then one for each bit of t - p. So it is enough
// to look at each p with the t that has most bits.
int ls_tree_slots(int64_t micro_batches, int64_t begin, int64_t end) {
    (void)micro_batches;  // a node that climbs for want of a sibling is the last: no buffer follows it
    int maximum = 0;
    int64_t p = begin;
    for (int rising = 0; p < end; rising++) {
        int64_t aligned = p & -p;  // 0 counts as aligned to anything
        uint64_t furthest = (uint64_t)(p != 0 && aligned < end - p ? aligned : end - p) - 1;
        int bits = __builtin_popcountll(furthest), below = bit_length(furthest) - 1;
        int slots = rising + (bits > below ? bits : below) + 1;
        if (slots > maximum) maximum = slots;
        if (p == 0) break;
        p += aligned;
    }
    return maximum;
}
