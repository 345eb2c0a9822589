#include "device/cpu/winograd.h"

#include "device/cpu/winograd_impl.h"

LS_CLONES static void any_filters(const ls_bf16 *w, int64_t count, int flipped, ls_bf16 *u, int64_t position) {
    filters(w, count, flipped, u, position);
}

LS_CLONES static void any_patch(const ls_winograd_patch *p, ls_winograd_rows rows, int64_t first, int64_t blocks,
                                ls_bf16 *v, int64_t position) {
    patch(p, rows, first, blocks, v, position);
}

LS_CLONES static void any_gradients(const ls_bf16 *dy, const ls_winograd_place places[2], ls_winograd_rows rows,
                                    int64_t blocks, ls_bf16 *d, int64_t column, int64_t position) {
    gradients(dy, places, rows, blocks, d, column, position);
}

LS_CLONES static void any_weights(const float *m, int64_t position, int64_t count, float *dw, int64_t tap) {
    weights(m, position, count, dw, tap);
}

LS_CLONES static void any_result(const float *m, int64_t position, const ls_winograd_place *place, int64_t column,
                                 int64_t blocks, const ls_conv2d_ending *e) {
    result(m, position, place, column, blocks, e);
}

const ls_winograd_loops *ls__winograd_loops(void) {
    static const ls_winograd_loops loops = {any_filters, any_patch, any_gradients, any_weights, any_result};
    return &loops;
}
