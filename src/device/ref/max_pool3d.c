// Max pooling of volumes. Of equal maxima the first in row-major window order wins, and alone receives the gradient. The workspace holds
// its position in the window. Padding takes no part.
#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_volume window_of(const ls_ref_args *a) {
    const ls_pool3d_attrs *p = LS_ATTRS(ls_pool3d_attrs, &a->spec->attrs);
    return ls__ref_volume(a->spec->x[0].shape, a->spec->y[0].shape, p->size, p->strides, NULL, p->pad);
}

static void forward(const ls_ref_args *a) {
    ls_ref_volume g = window_of(a);
    for (int64_t p = 0; p < g.n * g.outs; p++)
        for (int64_t c = 0; c < g.c; c++) {
            double best = -INFINITY;
            int32_t where = -1;
            for (int64_t tap = 0; tap < g.taps; tap++) {
                int64_t x = ls__ref_voxel(&g, p / g.outs, p % g.outs, tap);
                if (x < 0 || (where >= 0 && !(a->x[0][x + c] > best))) continue;
                best = a->x[0][x + c];
                where = (int32_t)tap;
            }
            a->y[0][p * g.c + c] = best;
            if (a->workspace) a->workspace[p * g.c + c] = where;
        }
}

static void backward_data(const ls_ref_args *a) {
    ls_ref_volume g = window_of(a);
    memset(a->dx[0], 0, (size_t)(g.n * g.ins * g.c) * sizeof *a->dx[0]);
    for (int64_t p = 0; p < g.n * g.outs; p++)
        for (int64_t c = 0; c < g.c; c++) {
            int64_t x = ls__ref_voxel(&g, p / g.outs, p % g.outs, a->workspace[p * g.c + c]);
            if (x >= 0) a->dx[0][x + c] += a->dy[0][p * g.c + c];
        }
}

const ls_ref_op ls__ref_max_pool3d = {
    .kind = LS_OP_MAX_POOL3D,
    .forward = forward,
    .backward_data = backward_data,
    .keeps_workspace = 1,
};
