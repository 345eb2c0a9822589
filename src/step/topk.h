// Top-k with error feedback (config.compress LS_COMPRESS_TOPK): of the gradient of a micro-batch
// only the largest elements count, and what is left over is added to the gradient of the same
// micro-batch, the v-th of its step, in the step that follows.
//
//     micro-batch v    gradient + residual v of the step before  =  what stays   +  residual v
//                                                                   the leaf of the tree
//
// It is done to the leaves of the tree (step/tree.h), by the lane that computed the micro-batch,
// before anything is added up, on every number of workers and on one host, too. So it depends on
// the micro-batch's place in the step alone, and the weights are the same bits for any number of
// workers, lanes and hosts; they are others than without it. So that a residual stays with one
// lane, the micro-batches of a short step are dealt as those of a full one, and the lanes that have
// none of them do nothing (ls_mesh.whole).
//
// The unit is a *chunk*: LS_TOPK_CHUNK consecutive elements of a kernel, from its beginning on, the
// last one shorter. `keep` of them stay, the same part of each chunk, of equal ones the first. What
// is no kernel (biases, scales, shifts, statistics) stays whole: it is small. Buckets may not cut a
// chunk (ls_engine_bucket_ends).
//
// Residuals are kept as a part of the mean gradient, divided by the samples of the step: a step of
// few samples does not make them larger. What is no finite number is in no residual.
//
// Where steps may be left out (config.skip_not_finite) one that is leaves residuals as they were,
// as it does weights and state. Whether it is left out is known after they are made, so a
// micro-batch has two, which take turns: the new one is made beside the old one, and counts once
// the step was taken.
//
// Between hosts what is zero is not sent. In words of 32 bits a message of a *column* of a bucket,
// some of its chunks, is
//
//     its length | where each node of the first chunk begins, of the next, ..., and where all end | the chunks
//
// and so a lane finds any chunk of any node without reading others.
#ifndef LS_STEP_TOPK_H
#define LS_STEP_TOPK_H

#include "step/engine_impl.h"

#define LS_TOPK_CHUNK 4096  // elements

// Source: Seide et al., "1-Bit Stochastic Gradient Descent", Interspeech 2014 (error feedback); Aji
// and Heafield, "Sparse Communication for Distributed Gradient Descent", EMNLP 2017; Lin et al.,
// "Deep Gradient Compression", ICLR 2018.

// A chunk of n <= LS_TOPK_CHUNK elements, most of them zeros, in words of 32 bits: the values of
// the others, then their indices, two in a word; or all values, where that is not longer. Nothing
// is lost: a zero with a sign is no zero here.
static inline int64_t ls__topk_words(int64_t values) { return values + (values + 1) / 2; }
// At most n words into out. Returns how many.
int64_t ls__topk_write(const float *x, int64_t n, uint32_t *out);
// Elements [from, from + count) of a chunk of n elements that is so many words, into out, which is
// zero.
void ls__topk_read(const uint32_t *in, int64_t words, int64_t n, int64_t from, int64_t count, float *out);

#endif
