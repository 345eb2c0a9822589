#include "device/cpu/isa.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// From the least to the most; those with a word for people can be pinned.
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name, *word;
} known[] = {
    {dnnl_cpu_isa_sse41, "sse41", NULL},
    {dnnl_cpu_isa_avx, "avx", NULL},
    {dnnl_cpu_isa_avx2, "avx2", "avx2"},
    {dnnl_cpu_isa_avx2_vnni, "avx2_vnni", NULL},
    {dnnl_cpu_isa_avx512_core, "avx512_core", "avx512"},
    {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni", NULL},
    {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16", "avx512-bf16"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx512_core_fp16, "avx512_core_fp16", "avx512-fp16"},
#endif
    {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx", "amx"},
#if DNNL_VERSION_MAJOR >= 3
    {dnnl_cpu_isa_avx512_core_amx_fp16, "avx512_core_amx_fp16", "amx-fp16"},
#endif
};
enum { KNOWN = sizeof known / sizeof *known };

int ls__cpu_isa_has(dnnl_cpu_isa_t isa) { return (dnnl_get_effective_cpu_isa() & isa) == isa; }

#if DNNL_VERSION_MAJOR >= 3
int ls__cpu_has_half(void) { return ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_fp16); }
int ls__cpu_has_half_tiles(void) { return ls__cpu_isa_has(dnnl_cpu_isa_avx512_core_amx_fp16); }
#else
int ls__cpu_has_half(void) { return 0; }
int ls__cpu_has_half_tiles(void) { return 0; }
#endif

int ls__cpu_block(void) {
    return ls__cpu_isa_has(dnnl_cpu_isa_avx2) && !ls__cpu_isa_has(dnnl_cpu_isa_avx512_core) ? 8 : 16;
}

const char *ls__cpu_isa_name(void) {
    for (int i = KNOWN - 1; i > 0; i--)
        if (ls__cpu_isa_has(known[i].isa)) return known[i].name;
    return known[0].name;
}

ls_status ls__cpu_isa_pin(const char *name) {
    int i = 0;
    if (!name) return LS_OK;
    while (i < KNOWN && (!known[i].word || strcmp(known[i].word, name) != 0)) i++;
    if (i == KNOWN)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "unknown instruction set '%s': there are avx2, avx512, avx512-bf16 and amx, and with oneDNN 3 "
                       "avx512-fp16 and amx-fp16",
                       name);
    dnnl_status_t set = dnnl_set_max_cpu_isa(known[i].isa);
    const char *found = ls__cpu_isa_name();
    if (strcmp(found, known[i].name) == 0) return LS_OK;
    if (set != dnnl_success)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "the instruction set %s was asked for, and this process computes with %s already: one process "
                       "has one, that of its first kernels",
                       name, found);
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "the instruction set %s was asked for, and this processor has %s at most: ask for that or less, or "
                   "compute on hosts that have it",
                   name, found);
}
