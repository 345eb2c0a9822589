// Weight gradients for which the library has nothing but its reference. Of convolutions with many narrow groups: several groups are taken
// for one that is wide enough, and of its gradient the blocks on the diagonal are kept. Most of the products are thrown away; the rest takes
// a thousandth of the time. Of first layers, with AVX2 and, where filters are no whole blocks, in bf16: with the image's few channels filled up to a
// block.
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "device/cpu/conv2d_merged.h"
#include "device/cpu/isa.h"

enum { WIDE = 16 };  // channels of a group that the library's kernels are made for

typedef struct merged_kernel {
    ls_kernel base;
    ls_kernel *wide, *to_plain;  // the gradient of the wide groups; its way to plain order
    ls_kernel *bring[2];         // X and DY into the layouts of that; NULL: they lie so
    int64_t taps, channels, rows, filters, groups, merged;
    int64_t wide_bytes, plain_bytes, brought_bytes[2];
} merged_kernel;

// plain (taps, rows, filters), rows being at least channels * merged, to dw (taps, channels, filters).
static void take_diagonal(const merged_kernel *k, float *restrict dw, const float *restrict plain) {
    int64_t per_group = k->filters / k->groups;
    for (int64_t tap = 0; tap < k->taps; tap++)
        for (int64_t c = 0; c < k->channels; c++)
            for (int64_t g = 0; g < k->groups; g++) {
                const float *row = plain + (tap * k->rows + g % k->merged * k->channels + c) * k->filters;
                float *to = dw + (tap * k->channels + c) * k->filters;
                memcpy(to + g * per_group, row + g * per_group, (size_t)per_group * sizeof *to);
            }
}

static const ls_arg brought[2] = {LS_ARG_X, LS_ARG_DY};

static ls_status run_reorder(ls_kernel *reorder, ls_queue *queue, ls_span from, ls_span to, ls_span scratch) {
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = from, [LS_ARG_Y] = to, [LS_ARG_SCRATCH] = scratch};
    return ls_kernel_run(reorder, queue, args);
}

// Scratch: the wide gradient, the same in plain order, X and DY where they are brought, and what kernels want.
static ls_status run(ls_kernel *kernel, ls_queue *queue, const ls_span spans[LS_ARG_COUNT]) {
    const merged_kernel *k = (const merged_kernel *)kernel;
    ls_span wide = spans[LS_ARG_SCRATCH], plain = ls_span_at(wide, k->wide_bytes);
    ls_span at[2] = {ls_span_at(plain, k->plain_bytes), ls_span_at(plain, k->plain_bytes + k->brought_bytes[0])};
    ls_span rest = ls_span_at(at[1], k->brought_bytes[1]), inner[LS_ARG_COUNT];
    memcpy(inner, spans, sizeof inner);
    inner[LS_ARG_DW] = wide;
    inner[LS_ARG_SCRATCH] = rest;
    for (int i = 0; i < 2; i++) {
        if (!k->bring[i]) continue;
        LS_TRY(run_reorder(k->bring[i], queue, spans[brought[i]], at[i], rest));
        inner[brought[i]] = at[i];
    }
    LS_TRY(ls_kernel_run(k->wide, queue, inner));
    LS_TRY(run_reorder(k->to_plain, queue, wide, plain, rest));
    take_diagonal(k, ls_span_host(spans[LS_ARG_DW]), ls_span_host(plain));
    return LS_OK;
}

static void destroy(ls_kernel *kernel) {
    merged_kernel *k = (merged_kernel *)kernel;
    ls_kernel_destroy(&k->wide);
    ls_kernel_destroy(&k->to_plain);
    for (int i = 0; i < 2; i++) ls_kernel_destroy(&k->bring[i]);
    free(k);
}

static dnnl_format_tag_t blocks(void) { return ls__cpu_blocked_tag(4, ls__cpu_block()); }

// How many groups are taken for one; 0: no number makes them wide enough, or the only one has whole blocks.
static int groups_to_merge(const ls_kernel_spec *spec) {
    const ls_conv2d_attrs *a = LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    if (a->groups == 1) return spec->x[0].shape.dim[3] % ls__cpu_block() != 0;
    int64_t channels = spec->x[0].shape.dim[3] / a->groups;
    for (int m = 2; m <= a->groups; m++)
        if (a->groups % m == 0 && channels * m % WIDE == 0 && a->filters / a->groups * m % WIDE == 0) return m;
    return 0;
}

// Channels up to a whole block. Those that are filled up lie in blocks as the whole ones do, and are zeros there.
static ls_status fill_up(ls_cpu *cpu, ls_kernel_spec *spec) {
    int64_t *channels = &spec->x[0].shape.dim[3];
    *channels = ls_round_up(*channels, ls__cpu_block());
    spec->w[0].shape.dim[2] = *channels;
    return ls__cpu_layout_tag(cpu, spec->x[0].shape, spec->x[0].dtype, 0, blocks(), &spec->layout[LS_ARG_X]);
}

static ls_status build(ls_cpu *cpu, const ls_kernel_spec *spec, int merged, merged_kernel *k) {
    ls_kernel_spec wide = *spec;
    ls_conv2d_attrs a = *LS_ATTRS(ls_conv2d_attrs, &spec->attrs);
    const ls_layout *plain;
    k->groups = a.groups;
    k->merged = merged;
    k->taps = (int64_t)a.kernel[0] * a.kernel[1];
    k->channels = spec->w[0].shape.dim[2];
    k->filters = a.filters;
    a.groups /= merged;
    memcpy(wide.attrs.bytes, &a, sizeof a);
    wide.w[0].shape.dim[2] *= merged;
    wide.layout[LS_ARG_DW] = wide.layout[LS_ARG_X] = wide.layout[LS_ARG_DY] = NULL;
    if (k->groups == 1) LS_TRY(fill_up(cpu, &wide));
    k->rows = wide.w[0].shape.dim[2];
    LS_TRY(ls__cpu_conv2d_create(cpu, &wide, &k->wide));
    const ls_layout *dw = k->wide->layout[LS_ARG_DW];
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, wide.w[0].shape, LS_DTYPE_F32, 1, &plain));
    LS_TRY(ls__cpu_reorder_create(&cpu->base, dw, plain, &k->to_plain));
    memcpy(k->base.layout, k->wide->layout, sizeof k->base.layout);
    LS_TRY(cpu->base.ops->layout_plain(&cpu->base, spec->w[0].shape, LS_DTYPE_F32, 1, &k->base.layout[LS_ARG_DW]));
    int64_t most =
        k->wide->scratch_bytes > k->to_plain->scratch_bytes ? k->wide->scratch_bytes : k->to_plain->scratch_bytes;
    for (int i = 0; i < 2; i++) {
        const ls_layout *given = spec->layout[brought[i]], *wanted = k->wide->layout[brought[i]];
        if (brought[i] == LS_ARG_X && k->groups == 1)
            LS_TRY(ls__cpu_layout_tag(cpu, spec->x[0].shape, spec->x[0].dtype, 0, blocks(), &wanted));
        k->base.layout[brought[i]] = given ? given : wanted;
        if (k->base.layout[brought[i]] == wanted) continue;
        LS_TRY(ls__cpu_reorder_create(&cpu->base, given, wanted, &k->bring[i]));
        k->brought_bytes[i] = ls_round_up(wanted->bytes, LS_ALIGN);
        if (k->bring[i]->scratch_bytes > most) most = k->bring[i]->scratch_bytes;
    }
    k->base.name = k->wide->name;
    k->wide_bytes = ls_round_up(dw->bytes, LS_ALIGN);
    k->plain_bytes = ls_round_up(plain->bytes, LS_ALIGN);
    k->base.scratch_bytes = k->wide_bytes + k->plain_bytes + k->brought_bytes[0] + k->brought_bytes[1] + most;
    return LS_OK;
}

ls_status ls__cpu_conv2d_merged_create(ls_cpu *cpu, const ls_kernel_spec *spec, ls_kernel **out) {
    static const ls_kernel_ops ops = {run, destroy};
    int merged = groups_to_merge(spec);
    merged_kernel *k;
    *out = NULL;
    if (!merged || spec->layout[LS_ARG_DW]) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *k, &k));
    k->base.ops = &ops;
    ls_status status = build(cpu, spec, merged, k);
    if (status != LS_OK) {
        destroy(&k->base);
        return status;
    }
    *out = &k->base;
    return LS_OK;
}
