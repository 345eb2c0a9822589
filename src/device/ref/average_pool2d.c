// Average pooling; the global one is a window as large as the image. Padding does not count.
#include <string.h>

#include "device/ref/ref.h"

static ls_ref_window window_of(const ls_ref_args *a) {
    const ls_pool2d_attrs *p = LS_ATTRS(ls_pool2d_attrs, &a->spec->attrs);
    return ls__ref_window(a->spec, p->size, p->strides, p->pad);
}

// One over the number of pixels under the window at output (oh, ow).
static double weight(const ls_ref_window *g, int64_t oh, int64_t ow) {
    int64_t count = 0;
    for (int64_t p = 0; p < g->kh * g->kw; p++) count += ls__ref_pixel(g, 0, oh, ow, p / g->kw, p % g->kw) >= 0;
    return 1.0 / (double)count;
}

static void forward(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    memset(a->y[0], 0, (size_t)(g.n * g.oh * g.ow * g.c) * sizeof *a->y[0]);
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t oh = 0; oh < g.oh; oh++)
            for (int64_t ow = 0; ow < g.ow; ow++)
                for (int64_t p = 0; p < g.kh * g.kw; p++) {
                    int64_t y = ((n * g.oh + oh) * g.ow + ow) * g.c;
                    int64_t x = ls__ref_pixel(&g, n, oh, ow, p / g.kw, p % g.kw);
                    if (x < 0) continue;
                    double share = weight(&g, oh, ow);
                    for (int64_t c = 0; c < g.c; c++) a->y[0][y + c] += a->x[0][x + c] * share;
                }
}

static void backward_data(const ls_ref_args *a) {
    ls_ref_window g = window_of(a);
    memset(a->dx[0], 0, (size_t)(g.n * g.h * g.w * g.c) * sizeof *a->dx[0]);
    for (int64_t n = 0; n < g.n; n++)
        for (int64_t oh = 0; oh < g.oh; oh++)
            for (int64_t ow = 0; ow < g.ow; ow++)
                for (int64_t p = 0; p < g.kh * g.kw; p++) {
                    int64_t y = ((n * g.oh + oh) * g.ow + ow) * g.c;
                    int64_t x = ls__ref_pixel(&g, n, oh, ow, p / g.kw, p % g.kw);
                    if (x < 0) continue;
                    double share = weight(&g, oh, ow);
                    for (int64_t c = 0; c < g.c; c++) a->dx[0][x + c] += a->dy[0][y + c] * share;
                }
}

const ls_ref_op ls__ref_average_pool2d = {
    .kind = LS_OP_AVERAGE_POOL2D,
    .forward = forward,
    .backward_data = backward_data,
};

const ls_ref_op ls__ref_global_average_pool2d = {
    .kind = LS_OP_GLOBAL_AVERAGE_POOL2D,
    .forward = forward,
    .backward_data = backward_data,
};
