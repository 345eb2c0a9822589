// Max pooling; the global one is a window as large as the image. Of equal maxima the first in row-major window order
// wins, and alone receives the gradient. The workspace holds its position in the window. Padding takes no part, or with
// pad_zeros as zeros, and then takes the gradient of a window it won with it.
#include <math.h>
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_pool2d_attrs *p = LS_ATTRS(ls_pool2d_attrs, &a->spec->attrs);
    return ls__ref_window(a->spec, p->size, p->strides, p->pad);
}

static void forward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t oh = 0; oh < g.oh; oh++)
            for (int64_t ow = 0; ow < g.ow; ow++)
                for (int64_t c = 0; c < g.c; c++) {
                    int64_t y = ((n * g.oh + oh) * g.ow + ow) * g.c + c;
                    double best = -INFINITY;
                    int32_t where = -1;
                    for (int64_t p = 0; p < g.kh * g.kw; p++) {
                        int64_t x = ls__ref_pixel(&g, n, oh, ow, p / g.kw, p % g.kw);
                        if (x < 0 && !LS_ATTRS(ls_pool2d_attrs, &a->spec->attrs)->pad_zeros) continue;
                        double value = x < 0 ? 0 : a->x[0][x + c];
                        if (where >= 0 && !(value > best)) continue;
                        best = value;
                        where = (int32_t)p;
                    }
                    a->y[0][y] = best;
                    if (a->workspace) a->workspace[y] = where;
                }
}

static void backward_data(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    memset(a->dx[0], 0, (size_t)(g.n * g.h * g.w * g.c) * sizeof *a->dx[0]);
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t oh = 0; oh < g.oh; oh++)
            for (int64_t ow = 0; ow < g.ow; ow++)
                for (int64_t c = 0; c < g.c; c++) {
                    int64_t y = ((n * g.oh + oh) * g.ow + ow) * g.c + c, p = a->workspace[y];
                    int64_t x = ls__ref_pixel(&g, n, oh, ow, p / g.kw, p % g.kw);
                    if (x >= 0) a->dx[0][x + c] += a->dy[0][y];
                }
}

const ls_ref_op ls__ref_max_pool2d = {
    .kind = LS_OP_MAX_POOL2D,
    .forward = forward,
    .backward_data = backward_data,
    .keeps_workspace = 1,
};

const ls_ref_op ls__ref_global_max_pool2d = {
    .kind = LS_OP_GLOBAL_MAX_POOL2D,
    .forward = forward,
    .backward_data = backward_data,
    .keeps_workspace = 1,
};
