// Images with and without a border: rows are copied whole, in the layout they come in.
#ifndef LS_DEVICE_CPU_BORDER_H
#define LS_DEVICE_CPU_BORDER_H

#include <string.h>

#include "device/cpu/loops.h"

// Planes of images whose channels lie in innermost blocks, (height, width, block): the outer ones have the inner ones from (top, left) on.
typedef struct ls_border {
    ls_dtype dtype;
    int64_t height, width, outer_height, outer_width, block;
    int64_t top, left;
} ls_border;

static inline int64_t ls__border_pixel(const ls_border *b) { return b->block * (int64_t)ls_dtype_size(b->dtype); }
static inline int64_t ls__border_inner(const ls_border *b) { return b->height * b->width * ls__border_pixel(b); }
static inline int64_t ls__border_outer(const ls_border *b) {
    return b->outer_height * b->outer_width * ls__border_pixel(b);
}

// A row, or zero where `mask`, unless NULL, is not positive.
static inline void ls__border_row(const ls_border *b, char *to, const char *from, const char *mask) {
    if (mask)
        ls__loop_mask(b->dtype, to, from, mask, b->width * b->block);
    else
        memcpy(to, from, (size_t)(b->width * ls__border_pixel(b)));
}

// An outer plane from an inner one, zeros around it. mask: an outer plane, or NULL.
static inline void ls__border_add(const ls_border *b, char *outer, const char *inner, const char *mask) {
    int64_t pixel = ls__border_pixel(b), row = b->width * pixel, outer_row = b->outer_width * pixel;
    int64_t before = b->left * pixel, bottom = b->outer_height - b->top - b->height, at = b->top * outer_row;
    memset(outer, 0, (size_t)at);
    for (int64_t h = 0; h < b->height; h++, inner += row, at += outer_row) {
        memset(outer + at, 0, (size_t)before);
        ls__border_row(b, outer + at + before, inner, mask ? mask + at + before : NULL);
        memset(outer + at + before + row, 0, (size_t)(outer_row - before - row));
    }
    memset(outer + at, 0, (size_t)(bottom * outer_row));
}

// The inner plane of an outer one. mask: an inner plane, or NULL.
static inline void ls__border_remove(const ls_border *b, char *inner, const char *outer, const char *mask) {
    int64_t pixel = ls__border_pixel(b), row = b->width * pixel, outer_row = b->outer_width * pixel;
    outer += b->top * outer_row + b->left * pixel;
    for (int64_t h = 0; h < b->height; h++, outer += outer_row)
        ls__border_row(b, inner + h * row, outer, mask ? mask + h * row : NULL);
}

#endif
