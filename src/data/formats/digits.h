// The embedded digits one by one, for datasets that are made of them.
#ifndef LS_DATA_FORMATS_DIGITS_H
#define LS_DATA_FORMATS_DIGITS_H

#include <stdint.h>

#include "data/formats/handwriting.h"

enum { LS_DIGITS_SIDE = LS_WRITTEN_SIDE, LS_DIGITS_TRAIN = LS_WRITTEN_TRAIN, LS_DIGITS_TEST = LS_WRITTEN_TEST };

// Draws sample `sample` of the dataset "digits", of which those from LS_DIGITS_TRAIN on are for tests: an image (28, 28), and its class.
void ls__digits_draw(uint32_t sample, uint8_t *image, uint8_t *label);

#endif
