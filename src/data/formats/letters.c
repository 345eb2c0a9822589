// "letters": handwritten-like capital letters of 28 × 28 pixels, drawn by the library itself as its digits are (handwriting.c): the other set of
// strokes, for bodies that learn on one and are used on the other.
#include "data/dataset.h"
#include "data/formats/letters_strokes.h"

static const ls_handwriting letters = {.key = 0x4c6574746572735au, .classes = 26, .characters = letter_table};

static const char *const names[] = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N",
                                    "O", "P", "Q", "R", "S", "T", "U", "V", "W", "X", "Y", "Z", NULL};

static ls_status letters_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    return ls__written_open(&letters, host, out);
}

const ls_format ls_format_letters = {
    .name = "letters",
    .help = "handwritten-like 28 x 28 capital letters, 26 classes, drawn by the library itself: 60,000 + 10,000",
    .argument = NULL,
    .classes = names,
    .open = letters_open,
};
