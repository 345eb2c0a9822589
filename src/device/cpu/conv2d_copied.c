// Data gradients of windows over fewer channels than a block has. Forward the library reads those plain, and DX lies as X does; in that layout it has nothing for DX
// but its reference, which takes hundreds of times as long. In blocks, which it fills up with zeros, it has a kernel: DX is computed so and copied.
#include "device/cpu/conv2d_copied.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_parts.h"

typedef struct copied_kernel {
    ls_kernel base;
    ls_kernel *inner, *copy;
    int64_t bytes;  // of DX as the library has it, where the scratch memory begins
    int threads;
    char name[64];
} copied_kernel;

static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const copied_kernel *k = (const copied_kernel *)kernel;
    ls_span inner[LS_ARG_COUNT], copy[LS_ARG_COUNT] = {{0}};
    memcpy(inner, spans, sizeof inner);
    inner[LS_ARG_DX] = copy[LS_ARG_X] = spans[LS_ARG_SCRATCH];
    inner[LS_ARG_SCRATCH] = copy[LS_ARG_SCRATCH] = ls_span_at(spans[LS_ARG_SCRATCH], k->bytes);
    copy[LS_ARG_Y] = spans[LS_ARG_DX];
    LS_TRY(ls_kernel_run(k->inner, queue, inner));
    LS_TRY(ls_kernel_run(k->copy, queue, copy));
    if (kernel->layout[LS_ARG_X])
        ls__cpu_conv2d_mask(kernel->layout[LS_ARG_DX], k->threads, ls_span_host(spans[LS_ARG_DX]),
                            ls_span_host(spans[LS_ARG_X]));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    copied_kernel *k = (copied_kernel *)kernel;
    ls_kernel_destroy(&k->inner);
    ls_kernel_destroy(&k->copy);
    free(k);
}

static int is_reference(const ls_kernel *kernel) { return strncmp(kernel->name, "ref", 3) == 0; }

// *made 0: the library has nothing else either.
static ls_status make(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create, copied_kernel *k, int *made) {
    ls_kernel_spec own = *spec;
    const ls_layout *dx = spec->layout[LS_ARG_DX];
    *made = 0;
    own.layout[LS_ARG_DX] = own.layout[LS_ARG_X] = NULL;
    own.mask_dx = 0;
    LS_TRY(create(cpu, &own, &k->inner));
    if (is_reference(k->inner)) return LS_OK;
    LS_TRY(ls__cpu_conv2d_share(cpu, &own, create, &k->inner));
    const ls_layout *from = k->inner->layout[LS_ARG_DX];
    LS_TRY(ls__cpu_reorder_create(&cpu->base, from, dx, &k->copy));
    memcpy(k->base.layout, k->inner->layout, sizeof k->base.layout);
    k->base.layout[LS_ARG_DX] = dx;
    if (spec->mask_dx) k->base.layout[LS_ARG_X] = dx;
    k->threads = cpu->base.options.threads;
    snprintf(k->name, sizeof k->name, "copied:%s", k->inner->name);
    k->base.name = k->name;
    k->base.tiles = k->inner->tiles;
    k->bytes = ls_round_up(from->bytes, LS_ALIGN);
    int64_t inner = k->inner->scratch_bytes, copy = k->copy->scratch_bytes;
    k->base.scratch_bytes = k->bytes + (inner > copy ? inner : copy);
    *made = 1;
    return LS_OK;
}

ls_status ls__cpu_conv2d_copied_replace(ls_cpu *cpu, const ls_kernel_spec *spec, ls_cpu_create_fn create,
                                        ls_kernel **kernel) {
    static const ls_kernel_ops ops = {run, destroy};
    copied_kernel *k;
    int made;
    if (spec->pass != LS_PASS_BACKWARD_DATA || !is_reference(*kernel) || !spec->layout[LS_ARG_DX] || spec->addend)
        return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = make(cpu, spec, create, k, &made);
    if (status != LS_OK || !made) {  // what there is is slow, and right
        destroy(&k->base);
        return status == LS_STATUS_OUT_OF_MEMORY ? status : LS_OK;
    }
    ls_kernel_destroy(kernel);
    *kernel = &k->base;
    return LS_OK;
}
