// How a worker's cores are shared out: how many replicas, of how many threads each, on which cores.
//
// Weights are the same bits with all of that, so it is decided by time alone. Replicas first: they work without waiting for each other until a
// micro-batch is done. So there are as many as there are cores, or micro-batches for them in a step; where cores are left, replicas get
// threads, as many as all of them can have. A replica's cores are of one NUMA domain, as long as there is any way to have it so.
#ifndef LS_TRAIN_SPREAD_H
#define LS_TRAIN_SPREAD_H

#include <stdint.h>

enum { LS_DOMAINS_MOST = 64 };  // cores of further domains count as the last one's

// The cores of a worker, domain by domain.
typedef struct ls_cores {
    int domains;
    int count[LS_DOMAINS_MOST];
} ls_cores;

int ls__cores_count(const ls_cores *cores);
// The share of worker `index` of `of` that have the same cores, in rank order. None have any where there are fewer cores than workers.
ls_cores ls__cores_share(const ls_cores *cores, int index, int of);

// What is to be shared out. Of several kinds of workers all get the same, which every kind can have.
typedef struct ls_spread_question {
    const ls_cores *have;  // (kinds)
    int kinds;
    int workers;            // that compute
    int64_t micro_batches;  // of a step; at least as many as workers
    int replicas, threads;  // what was asked for; 0: nothing was
    int most_threads;       // that kernels can use
    int reserved;           // cores of each worker for something else
} ls_spread_question;

// Replicas of so many threads that every kind of worker has room for, each inside a domain.
int ls__spread_fit(const ls_spread_question *q, int threads);
void ls__spread_choose(const ls_spread_question *q, int *replicas, int *threads);
// The first core of each replica, first[replicas], and a core that none of them has (-1: there is none). Cores are numbered domain by
// domain; replicas spread over domains, neighbours together. Inside domains, where they fit; else one after the other.
void ls__spread_place(const ls_cores *cores, int replicas, int threads, int *first, int *spare);

// Whether steps get shorter when one of a worker's cores is the exchange's alone, so that `own` replicas of one thread compute the worker's
// micro-batches in place of `shared`, on all of its cores, among whom they and the exchange share them. Seconds: of a micro-batch, and of a core, in a step.
int ls__spread_core_pays(int64_t micro_batches, int cores, int shared, int own, double micro_batch_seconds,
                         double exchange_seconds);

#endif
