// The strategies: how replicas and workers exchange gradients and update parameters. One line each
// in strategies.c.
//
// Compression belongs to the configuration, not to a strategy: it says what a node or a leaf of the
// tree is. With LS_COMPRESS_BF16 the value of each node is rounded to bf16, a leaf's as a sum's; a
// message of bf16 loses nothing of any. With LS_COMPRESS_TOPK a leaf is what top-k leaves of a
// micro-batch's gradient (step/topk.h). So the bits do not depend on who adds what where.
#ifndef LS_STEP_STRATEGIES_H
#define LS_STEP_STRATEGIES_H

#include "step/emit.h"

typedef enum ls_algorithm {
    // Direct up to LS_DIRECT_HOSTS hosts, and up to LS_DIRECT_HOSTS_MOST where a host's part of the
    // vector has LS_DIRECT_BYTES; else halving.
    LS_ALGORITHM_AUTO,
    LS_ALGORITHM_DIRECT,  // the owner of a slice to a worker of every other host: one message of the way, hosts - 1 at once
    LS_ALGORITHM_HALVING  // recursive halving and doubling: log2(hosts) messages one after the other
} ls_algorithm;
#define LS_DIRECT_HOSTS      8
#define LS_DIRECT_HOSTS_MOST 15
#define LS_DIRECT_BYTES      6144

typedef enum ls_compress {
    LS_COMPRESS_NONE,
    LS_COMPRESS_BF16,  // all nodes are bf16
    LS_COMPRESS_TOPK   // of each micro-batch's gradient the largest elements, the rest later
} ls_compress;

typedef struct ls_strategy {
    const char *name, *help;
    int synchronous;     // 1: weights are the same bits for any number of workers and replicas; records say it
    int weights_shared;  // 1: the workers of a host have one weights vector, if their device can; 0: each has its own
    int halves;          // 1: LS_ALGORITHM_HALVING is there
    int sparse;          // 1: LS_COMPRESS_TOPK is
    int totals;          // 1: with LS_COMPRESS_BF16 sums go back between hosts, in place of weights; 2: always
    ls_status (*assign)(int workers, int *servers);  // as ls_strategy_assign; NULL: any number of workers, no servers
    ls_cut *cut;                                     // who sums, and updates
    ls_route *route;
} ls_strategy;

const ls_strategy *ls_strategies(void);  // ends with a name of NULL
// Errors: NOT_FOUND with the names there are.
ls_status ls_strategy_find(const char *name, const ls_strategy **out);
// How many servers it has: *servers is what was asked for, 0: what it has by itself. Not
// collective. Errors: INVALID_ARGUMENT (not with so many workers, or servers; says what to do).
ls_status ls_strategy_assign(const ls_strategy *strategy, int workers, int *servers);
// "none", "bf16", "topk", "topk:0.05". Errors: INVALID_ARGUMENT.
ls_status ls_compress_find(const char *name, ls_compress *out, double *fraction);
ls_status ls_algorithm_find(const char *name,
                            ls_algorithm *out);  // "auto", "direct", "halving". Errors: INVALID_ARGUMENT.
int ls_strategy_halves(const ls_strategy *strategy, ls_algorithm algorithm, int hosts, int64_t length);
// The algorithm that is used between so many hosts for a vector of so many floats: its name; ""
// where there is no choice, or one host.
const char *ls_strategy_algorithm(const ls_strategy *strategy, ls_algorithm algorithm, int hosts, int64_t length);
// What all of this comes to. Errors: INVALID_ARGUMENT (not so compressed, not with this algorithm).
ls_status ls_strategy_ways(const ls_strategy *strategy, ls_algorithm algorithm, ls_compress compress, int hosts,
                           int64_t length, ls_ways *out);

void ls_cut_all(const ls_emit_config *config, int rank, int lane, int bucket, int64_t *begin, int64_t *end);

#endif
