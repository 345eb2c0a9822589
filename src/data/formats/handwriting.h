// Datasets of characters written by hand, drawn by the library: "digits" and "letters" are tables of strokes, and this draws them.
#ifndef LS_DATA_FORMATS_HANDWRITING_H
#define LS_DATA_FORMATS_HANDWRITING_H

#include <stdint.h>

#include "data/dataset.h"

// Pixels of a side, and how many samples there are; those from LS_WRITTEN_TRAIN on are for tests.
enum { LS_WRITTEN_SIDE = 28, LS_WRITTEN_TRAIN = 60000, LS_WRITTEN_TEST = 10000 };

enum { POINT_SMOOTH, POINT_CORNER, POINT_END };

typedef struct written_point {
    uint8_t x, y, kind;
} written_point;

#define GLYPH_MAX_POINTS   20
#define GLYPH_MAX_VARIANTS 4

// One way to write a character: pen strokes through points of a 100 × 100 box, x to the right and y down (strokes.h writes them).
typedef struct written_glyph {
    int count;
    written_point point[GLYPH_MAX_POINTS];
} written_glyph;

// The ways to write one character, drawn with equal chance.
typedef struct written_character {
    int count;
    written_glyph variant[GLYPH_MAX_VARIANTS];
} written_character;

typedef struct ls_handwriting {
    uint64_t key;                         // the dataset's fixed seed; another one is another dataset
    int classes;                          // at most 256
    const written_character *characters;  // (classes)
} ls_handwriting;

// Draws sample `sample`: an image (28, 28), and its class.
void ls__written_draw(const ls_handwriting *w, uint32_t sample, uint8_t *image, uint8_t *label);

// A format's `open`: LS_WRITTEN_TRAIN + LS_WRITTEN_TEST samples in the host's memory, of which each worker draws its share. Collective over the
// host's workers. Errors: OUT_OF_MEMORY.
ls_status ls__written_open(const ls_handwriting *w, ls_data_host *host, ls_dataset *out);

#endif
