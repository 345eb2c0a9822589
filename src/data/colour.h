// What augmentation does to an image as a whole, in floats from 0 to 255, before it is normalized.
#ifndef LS_DATA_COLOUR_H
#define LS_DATA_COLOUR_H

#include <stdint.h>

#include "data/augment.h"

// Brightness, contrast, saturation and hue in the order that was drawn, then lighting. `pixels` is (count, channels), 1 or 3 of them: grey, or red,
// green and blue. The formulas are those of torchvision's functional on floating tensors (adjust_brightness, ...), times 255; a grey
// image has neither saturation nor hue.
void ls_colour_apply(const ls_augment_look *look, int64_t count, int64_t channels, float *pixels);

// Turns an image (height, width, channels) around its middle, bilinearly, as torchvision's rotate(interpolation=BILINEAR) does: what lies outside
// is 0. `out` is of the same shape, and not `in`.
void ls_colour_rotate(const ls_augment_look *look, int64_t height, int64_t width, int64_t channels, const float *in,
                      float *out);

#endif
