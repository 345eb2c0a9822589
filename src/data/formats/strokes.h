// The words in which tables of strokes are written: strokes run smoothly through their points (P), turn sharply at a corner (C) and lift the pen
// at an end (E). For the files that hold such tables alone.
#ifndef LS_DATA_FORMATS_STROKES_H
#define LS_DATA_FORMATS_STROKES_H

#include "data/formats/handwriting.h"

// Points of one variant; counts them.
#define GLYPH(...)                                                                                                     \
    {                                                                                                                  \
        sizeof((const written_point[]){__VA_ARGS__}) / sizeof(written_point), { __VA_ARGS__ }                          \
    }
#define P(x, y)                                                                                                        \
    { x, y, POINT_SMOOTH }
#define C(x, y)                                                                                                        \
    { x, y, POINT_CORNER }
#define E(x, y)                                                                                                        \
    { x, y, POINT_END }

#endif
