// Sentences about two animals, one of which does something to the other: "the old cat that sleeps is seen by the dog.". Drawn by the
// library itself, so that every machine has sequences to train on.
#ifndef LS_DATA_FORMATS_PHRASES_H
#define LS_DATA_FORMATS_PHRASES_H

#include <stddef.h>

#include "data/formats/draws.h"

enum { PHRASE_MOST = 64, PHRASE_ANIMALS = 10 };

extern const char *const ls__phrase_animals[];  // NULL at the end

// Draws one, at most PHRASE_MOST characters and no zero after them. Returns how many there are; *object: the animal that it is done to.
int ls__draw_phrase(draws *d, char text[PHRASE_MOST], int *object);

#endif
