// oneDNN 3.x has weight gradients of convolutions in fp16 for processors with AMX-FP16, and for others by its reference, which takes hundreds of times as
// long as the arithmetic; in bf16, those of volumes that are less deep than the kernel are wrong (3.2, AVX512-BF16). There X and DY are widened
// into scratch memory, and what computes is the kernel for fp32. Products of two halves, of either kind, are exact in fp32, so the sums are those
// of narrow factors.
#include "device/cpu/conv2d_wide.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

enum { BROUGHT = 2 };
static const ls_arg brought[BROUGHT] = {LS_ARG_X, LS_ARG_DY};

typedef struct wide_kernel {
    ls_kernel base;
    ls_kernel *inner, *bring[BROUGHT];
    int64_t bytes[BROUGHT];  // of what is brought, one behind the other where the scratch memory begins
} wide_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    const wide_kernel *k = (const wide_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT], at = args[LS_ARG_SCRATCH], rest = ls_span_at(at, k->bytes[0] + k->bytes[1]);
    for (int i = 0; i < LS_ARG_COUNT; i++) inner[i] = args[i];
    inner[LS_ARG_SCRATCH] = rest;
    for (int i = 0; i < BROUGHT; i++) {
        ls_span copy[LS_ARG_COUNT] = {[LS_ARG_X] = args[brought[i]], [LS_ARG_Y] = at, [LS_ARG_SCRATCH] = rest};
        LS_TRY(ls_kernel_run(k->bring[i], queue, copy));
        inner[brought[i]] = at;
        at = ls_span_at(at, k->bytes[i]);
    }
    return ls_kernel_run(k->inner, queue, inner);
}

static void destroy(ls_kernel *kernel) {
    wide_kernel *k = (wide_kernel *)kernel;
    ls_kernel_destroy(&k->inner);
    for (int i = 0; i < BROUGHT; i++) ls_kernel_destroy(&k->bring[i]);
    free(k);
}

static ls_status build(ls_cpu *cpu, const ls_kernel_spec *spec, wide_kernel *k) {
    ls_kernel_spec wide = *spec;
    wide.x[0].dtype = wide.x[0].gradient = wide.y[0].dtype = wide.y[0].gradient = wide.w[0].dtype = LS_DTYPE_F32;
    wide.layout[LS_ARG_X] = wide.layout[LS_ARG_DY] = NULL;
    LS_TRY(ls__cpu_conv2d_create(cpu, &wide, &k->inner));
    for (int i = 0; i < LS_ARG_COUNT; i++) k->base.layout[i] = k->inner->layout[i];
    int64_t most = k->inner->scratch_bytes;
    for (int i = 0; i < BROUGHT; i++) {
        const ls_layout *wanted = k->inner->layout[brought[i]], *given = spec->layout[brought[i]];
        if (!given) LS_TRY(cpu->base.ops->layout_plain(&cpu->base, wanted->shape, spec->x[0].dtype, 0, &given));
        LS_TRY(ls__cpu_reorder_create(&cpu->base, given, wanted, &k->bring[i]));
        k->base.layout[brought[i]] = given;
        k->bytes[i] = ls_round_up(wanted->bytes, LS_ALIGN);
        if (k->bring[i]->scratch_bytes > most) most = k->bring[i]->scratch_bytes;
    }
    k->base.name = k->inner->name;
    k->base.tiles = k->inner->tiles;
    k->base.scratch_bytes = k->bytes[0] + k->bytes[1] + most;
    return LS_OK;
}

ls_status ls__cpu_conv2d_wide_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    wide_kernel *k;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = build(cpu, spec, k);
    if (status != LS_OK) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
