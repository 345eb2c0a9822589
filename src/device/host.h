// Devices whose memory is the host's and whose queues do everything at once, in the calling thread: what they share.
#ifndef LS_DEVICE_HOST_H
#define LS_DEVICE_HOST_H

#include "device/device.h"

extern const ls_memory_ops ls__host_memory;
extern const ls_vector_ops ls__host_vector;

// The addresses of a kernel's arguments; NULL for what there is none of.
static inline void ls__host_args(const ls_span spans[LS_ARG_COUNT], void *args[LS_ARG_COUNT]) {
    for (int i = 0; i < LS_ARG_COUNT; i++) args[i] = ls_span_host(spans[i]);
}

// The loops of ls__host_vector, for memory that is the host's anyway.
void ls__host_add(float *out, const float *a, const float *b, int64_t n);
void ls__host_scale(float *out, const float *a, float factor, int64_t n);
void ls__host_keep_largest(float *x, float *rest, float scale, float back, int64_t n, int64_t keep);

#endif
