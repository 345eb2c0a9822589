// What convolution and pooling share: a window that moves over an image, or over a volume.
#ifndef LS_GRAPH_OPS_WINDOW_H
#define LS_GRAPH_OPS_WINDOW_H

#include "graph/graph.h"

enum { LS_MOST_VOLUME_SIDE = 1 << 10 };  // of a kernel over volumes: what comes of three of them can be counted

// Checks a window against images x (H, W, C), turns its padding into numbers (top, left, bottom, right) and gives the (height,
// width) of the output. `what` names the window in sentences ("kernel"). Errors: INVALID_ARGUMENT.
ls_status ls__window_infer(const ls_node *node, ls_shape x, const char *what, const int size[2], const int strides[2],
                           ls_padding padding, int pad[4], int64_t out[2]);

// Takes the padding of {top, bottom}, {left, right} over.
void ls__window_absorb(int pad[4], const int sides[2][2]);

// Checks that x is images (H, W, C). Errors: INVALID_ARGUMENT.
ls_status ls__images_check(const ls_node *node, ls_shape x);
// Checks that x is volumes (D, H, W, C). Errors: INVALID_ARGUMENT.
ls_status ls__volumes_check(const ls_node *node, ls_shape x);

// From the first to the last element of a kernel of `size`.
static inline int ls__window_reach(int size, int dilation) { return (size - 1) * dilation + 1; }
// Whether a kernel can take a zero padding over: not where a whole window would lie in it, for kernel libraries read past the image's end
// there.
int ls__window_can_absorb(const int size[2], const int dilation[2], const int sides[2][2]);
// As ls__window_infer, of a window with gaps: `dilation` from one element to the next.
ls_status ls__window_infer_dilated(const ls_node *node, ls_shape x, const char *what, const int size[2],
                                   const int strides[2], const int dilation[2], ls_padding padding, int pad[4],
                                   int64_t out[2]);
// The same over volumes x (D, H, W, C); pad: front, top, left, back, bottom, right.
ls_status ls__window_infer3d(const ls_node *node, ls_shape x, const char *what, const int size[3], const int strides[3],
                             const int dilation[3], ls_padding padding, int pad[6], int64_t out[3]);

// A transposed convolution's output over `axes` axes of x, and what its padding cuts off: what a convolution of the output would pad it with,
// the odd element behind.
void ls__window_infer_transposed(int axes, ls_shape x, const int *kernel, const int *strides, ls_padding padding,
                                 int *pad, int64_t *out);

#endif
