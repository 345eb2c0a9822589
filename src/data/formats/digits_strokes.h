// The digits as people write them: each variant a list of pen strokes through points of a 100 × 100 box, x to the right
// and y down. Strokes run smoothly through their points (P), turn sharply at a corner (C) and lift the pen at an
// end (E).
#ifndef LS_DATA_FORMATS_DIGITS_STROKES_H
#define LS_DATA_FORMATS_DIGITS_STROKES_H

#include <stdint.h>

enum { POINT_SMOOTH, POINT_CORNER, POINT_END };

typedef struct glyph_point {
    uint8_t x, y, kind;
} glyph_point;

#define GLYPH_MAX_POINTS   20
#define GLYPH_MAX_VARIANTS 4

typedef struct glyph {
    int count;
    glyph_point point[GLYPH_MAX_POINTS];
} glyph;

// Points of one variant; counts them.
#define GLYPH(...)                                                                                                     \
    {                                                                                                                  \
        sizeof((const glyph_point[]){__VA_ARGS__}) / sizeof(glyph_point), { __VA_ARGS__ }                              \
    }
#define P(x, y)                                                                                                        \
    { x, y, POINT_SMOOTH }
#define C(x, y)                                                                                                        \
    { x, y, POINT_CORNER }
#define E(x, y)                                                                                                        \
    { x, y, POINT_END }

// The ways to write one digit, drawn with equal chance.
typedef struct digit_glyphs {
    int count;
    glyph variant[GLYPH_MAX_VARIANTS];
} digit_glyphs;

static const digit_glyphs digit_table[10] = {
    // 0: closed oval; narrow oval that overshoots; round one begun at the right
    {3,
     {GLYPH(P(54, 6), P(32, 16), P(22, 48), P(30, 82), P(50, 95), P(70, 82), P(79, 50), P(70, 17), E(53, 6)),
      GLYPH(P(60, 10), P(42, 8), P(30, 32), P(29, 66), P(44, 94), P(62, 86), P(72, 54), P(67, 22), P(52, 7), E(40, 12)),
      GLYPH(P(72, 24), P(52, 9), P(27, 20), P(18, 50), P(28, 82), P(52, 93), P(76, 78), P(82, 48), E(70, 20))}},
    // 1: bare stroke, straight and bent; with a flag; with flag and base
    {4,
     {GLYPH(P(54, 5), P(51, 50), E(48, 95)), GLYPH(P(56, 5), P(53, 34), P(50, 64), E(47, 95)),
      GLYPH(P(36, 24), P(46, 16), C(54, 5), P(52, 50), E(50, 95)),
      GLYPH(P(37, 22), P(46, 15), C(53, 5), P(52, 48), E(50, 94), P(32, 94), P(50, 95), E(69, 94))}},
    // 2: sharp foot; looped foot; swan neck with a wavy foot
    {3,
     {GLYPH(P(25, 28), P(36, 9), P(60, 7), P(74, 26), P(62, 52), P(42, 73), C(22, 93), P(50, 92), E(80, 92)),
      GLYPH(P(26, 24), P(44, 6), P(68, 14), P(70, 38), P(50, 66), P(28, 90), P(20, 82), P(34, 75), P(56, 88),
            E(82, 90)),
      GLYPH(P(28, 22), P(50, 6), P(72, 20), P(66, 46), P(44, 70), C(24, 90), P(42, 84), P(60, 93), E(78, 86))}},
    // 3: two bows; flat top; bows with a loop in the middle
    {3,
     {GLYPH(P(26, 16), P(46, 5), P(69, 16), P(64, 37), C(43, 47), P(67, 54), P(77, 74), P(58, 94), P(36, 94),
            E(22, 82)),
      GLYPH(P(26, 8), P(48, 9), C(74, 8), P(60, 26), C(45, 42), P(70, 52), P(76, 75), P(54, 95), E(24, 86)),
      GLYPH(P(28, 14), P(52, 5), P(71, 20), P(58, 42), P(42, 49), P(44, 44), P(62, 50), P(76, 70), P(60, 92),
            E(25, 90))}},
    // 4: open; closed; open and curved
    {3,
     {GLYPH(P(36, 8), P(29, 34), C(21, 57), P(50, 57), E(82, 55), P(65, 24), P(63, 60), E(61, 95)),
      GLYPH(P(62, 5), P(40, 34), C(18, 62), P(50, 63), E(84, 62), P(63, 6), P(62, 50), E(60, 95)),
      GLYPH(P(28, 8), P(24, 36), P(36, 52), P(56, 51), E(72, 44), P(75, 6), P(72, 44), E(67, 95))}},
    // 5: one stroke from the flag; body first, then the flag; with a round back
    {3,
     {GLYPH(P(74, 8), P(54, 8), C(34, 9), P(31, 27), C(28, 46), P(50, 38), P(73, 52), P(72, 78), P(48, 95), E(22, 86)),
      GLYPH(P(34, 9), P(32, 28), C(30, 45), P(54, 40), P(75, 60), P(64, 89), P(40, 95), E(22, 84), P(34, 9), P(56, 9),
            E(80, 6)),
      GLYPH(P(76, 6), P(50, 10), P(34, 14), P(30, 38), P(46, 46), P(68, 56), P(72, 78), P(50, 94), E(26, 90))}},
    // 6: curled; straight back; wide belly
    {3,
     {GLYPH(P(66, 8), P(43, 24), P(27, 54), P(29, 82), P(50, 95), P(71, 82), P(71, 62), P(51, 53), E(30, 68)),
      GLYPH(P(56, 5), P(36, 40), P(26, 70), P(40, 94), P(62, 90), P(69, 70), P(53, 60), E(29, 74)),
      GLYPH(P(72, 14), P(52, 7), P(30, 28), P(22, 62), P(38, 92), P(66, 90), P(76, 68), P(56, 50), P(36, 58),
            E(25, 72))}},
    // 7: plain; with a bar; with a serif; bowed
    {4,
     {GLYPH(P(22, 10), P(50, 10), C(78, 9), P(60, 50), E(46, 95)),
      GLYPH(P(22, 11), P(50, 10), C(78, 9), P(60, 48), E(48, 95), P(36, 52), P(54, 50), E(74, 49)),
      GLYPH(P(21, 26), C(23, 11), P(50, 11), C(80, 9), P(62, 50), E(50, 95)),
      GLYPH(P(20, 14), P(44, 8), C(76, 12), P(56, 40), P(46, 68), E(44, 95))}},
    // 8: one stroke, crossing; two circles; begun in the middle
    {3,
     {GLYPH(P(69, 20), P(52, 6), P(32, 18), P(40, 41), P(62, 56), P(72, 76), P(51, 95), P(29, 78), P(40, 55), P(61, 39),
            E(70, 20)),
      GLYPH(P(51, 6), P(33, 15), P(33, 36), P(50, 46), P(67, 36), P(67, 15), E(50, 6), P(50, 46), P(28, 58), P(28, 84),
            P(50, 95), P(72, 84), P(72, 58), E(50, 46)),
      GLYPH(P(50, 48), P(32, 30), P(38, 10), P(58, 7), P(69, 24), P(54, 46), P(32, 64), P(32, 88), P(54, 95), P(71, 80),
            P(66, 60), E(48, 47))}},
    // 9: round head, straight leg; curled leg; leg down from the closed head
    {3,
     {GLYPH(P(70, 24), P(54, 7), P(32, 16), P(28, 40), P(46, 51), P(65, 39), C(71, 14), P(68, 56), E(60, 95)),
      GLYPH(P(70, 20), P(50, 6), P(28, 22), P(32, 45), P(54, 48), P(71, 24), P(72, 58), P(60, 90), P(42, 95),
            E(26, 86)),
      GLYPH(P(68, 12), P(44, 9), P(27, 28), P(38, 48), P(60, 42), C(70, 10), P(71, 50), E(70, 95))}},
};

#undef GLYPH
#undef P
#undef C
#undef E

#endif
