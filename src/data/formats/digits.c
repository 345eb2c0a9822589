// "digits": handwritten-like 28 × 28 digits, drawn by the library itself, so that every machine has a dataset to train on (handwriting.c).
#include "data/formats/digits.h"

#include "data/dataset.h"
#include "data/formats/digits_strokes.h"

static const ls_handwriting digits = {.key = 0x4c6f636b73746570u, .classes = 10, .characters = digit_table};

void ls__digits_draw(uint32_t sample, uint8_t *image, uint8_t *label) {
    ls__written_draw(&digits, sample, image, label);
}

static ls_status digits_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    return ls__written_open(&digits, host, out);
}

const ls_format ls_format_digits = {
    .name = "digits",
    .help = "handwritten-like 28 x 28 digits, drawn by the library itself: 60,000 + 10,000",
    .argument = NULL,
    .classes = ls__digit_classes,
    .open = digits_open,
};
