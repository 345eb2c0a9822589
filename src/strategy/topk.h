// Top-k with error feedback (config.compress LS_COMPRESS_TOPK): of the gradient of a micro-batch only the largest elements count, and what is
// left over is added to the gradient of the same micro-batch, the v-th of its step, in the step that follows.
//
//     micro-batch v    gradient + residual v of the step before  =  what stays   +  residual v
//                                                                   the leaf of the tree
//
// It is done to the leaves of the tree (tree.h), by the lane that computed the micro-batch, before anything is added up, on every number of
// workers and on one host, too. So it depends on the micro-batch's place in the step alone, and the weights are the same bits for any number
// of workers, replicas and hosts; they are others than without it. So that a residual stays with one lane, the micro-batches of a short step are dealt as
// those of a full one, and the lanes that have none of them do nothing (ls_roles.whole).
//
// The unit is a *chunk*: LS_TOPK_CHUNK consecutive elements of a kernel, from its beginning on, the last one shorter. `keep` of them stay, the
// same part of each chunk, of equal ones the first. What is no kernel (biases, scales, shifts, statistics) stays whole: it is small. Buckets may not cut
// a chunk (ls_strategy_bucket_ends).
//
// Residuals are kept as a part of the mean gradient, divided by the samples of the step: a step of few samples does not make them larger.
// What is no finite number is in no residual.
//
// Where steps may be left out (config.skip_not_finite) one that is leaves residuals as they were, as it does weights and state: what it took from them
// is there again, and nothing of its gradient is. Whether it is left out is known after they are made, so a micro-batch has two, which
// take turns: the new one is made beside the old one, and counts once the step was taken.
#ifndef LS_STRATEGY_TOPK_H
#define LS_STRATEGY_TOPK_H

#include "strategy/strategy_impl.h"

#define LS_TOPK_CHUNK 4096  // elements

// Source: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014 (error feedback); Aji and Heafield, "Sparse Communication for Distributed
// Gradient Descent", EMNLP 2017; Lin et al., "Deep Gradient Compression", ICLR 2018.

typedef struct ls_topk_chunk {
    int64_t begin, end;  // of the vector; nothing frozen in it
    int32_t keep;        // how many stay; all: end - begin
    int32_t column;      // of its bucket: who sends it (allreduce_topk.c)
} ls_topk_chunk;

struct ls_topk {
    ls_topk_chunk *chunks;  // (count), in order
    int count;
};

// Chunks of config.segments. Errors: OUT_OF_MEMORY, INTERNAL (a bucket cuts one).
ls_status ls__topk_plan(ls_strategy *strategy);
void ls__topk_free(ls_strategy *strategy);
// Residuals of a replica's micro-batches.
ls_status ls__topk_plan_lane(ls_strategy *strategy, int replica);
// That of a lane's micro-batch `leaf`, from its first one on.
ls_span ls__topk_residual(const ls_strategy *strategy, const ls_lane *lane, int64_t leaf);
// A step was taken, and not left out: what the lane has left over of it counts from now on.
void ls__topk_taken(const ls_lane_step *step);
// The first chunk that ends behind element `at`.
int ls__topk_chunk_at(const ls_topk *topk, int64_t at);
// Elements [begin, end) of a micro-batch's gradient, the lane's open one, whole chunks: what stays stays, and the rest waits.
ls_status ls__topk_select(ls_strategy *strategy, int replica, ls_queue *queue, const ls_step_info *info,
                          ls_span gradient, int64_t begin, int64_t end);

// --- in a message ----------------------------------------------------------------------------------------------------

// A chunk of n <= LS_TOPK_CHUNK elements, most of them zeros, in words of 32 bits: the values of the others, then their indices, two in a word; or
// all values, where that is not longer. Nothing is lost: a zero with a sign is no zero here.
static inline int64_t ls__topk_words(int64_t values) { return values + (values + 1) / 2; }
// At most n words into out. Returns how many.
int64_t ls__topk_encode(const float *x, int64_t n, uint32_t *out);
// Elements [from, from + count) of a chunk of n elements that is so many words, into out, which is zero.
void ls__topk_decode(const uint32_t *in, int64_t words, int64_t n, int64_t from, int64_t count, float *out);

// --- allreduce_topk.c ------------------------------------------------------------------------------------------------

// Elements [offset, offset + n) of a source that came in messages, in the lane's block `block`.
ls_status ls__topk_bring(ls_lane_step *step, const ls_source *source, int64_t offset, int64_t n, int block,
                         ls_span *out);

#endif
