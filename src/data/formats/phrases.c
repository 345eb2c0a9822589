#include "data/formats/phrases.h"

#include <assert.h>
#include <string.h>

const char *const ls__phrase_animals[] = {"cat",  "dog",  "fox",  "hen",  "pig", "cow",
                                          "bear", "goat", "duck", "frog", NULL};
static const char *const adjectives[] = {"old", "big", "red", "shy", "sad", "wet"};
static const char *const asides[] = {"that sleeps", "that sings"};
// What one does to another, and what is done to it.
static const char *const deeds[][2] = {{"sees", "is seen by"},    {"hears", "is heard by"}, {"likes", "is liked by"},
                                       {"calls", "is called by"}, {"finds", "is found by"}, {"helps", "is helped by"}};

#define COUNT(list) ((int)(sizeof(list) / sizeof(list)[0]))

static int add(char *text, int length, const char *word, char before) {
    int size = (int)strlen(word);
    assert(length + 1 + size < PHRASE_MOST);
    if (before) text[length++] = before;
    memcpy(text + length, word, (size_t)size);
    return length + size;
}

// "the old cat that sleeps"
static int add_animal(draws *d, char *text, int length, int animal) {
    length = add(text, length, "the", length ? ' ' : 0);
    int adjective = draw_below(d, 2 * COUNT(adjectives)), aside = draw_below(d, 3 * COUNT(asides));
    if (adjective < COUNT(adjectives)) length = add(text, length, adjectives[adjective], ' ');
    length = add(text, length, ls__phrase_animals[animal], ' ');
    return aside < COUNT(asides) ? add(text, length, asides[aside], ' ') : length;
}

int ls__draw_phrase(draws *d, char text[PHRASE_MOST], int *object) {
    int first = draw_below(d, PHRASE_ANIMALS),
        second = (first + 1 + draw_below(d, PHRASE_ANIMALS - 1)) % PHRASE_ANIMALS;
    int deed = draw_below(d, COUNT(deeds)), passive = draw_below(d, 2);
    int length = add_animal(d, text, 0, first);
    length = add(text, length, deeds[deed][passive], ' ');
    length = add_animal(d, text, length, second);
    text[length++] = '.';
    *object = passive ? first : second;
    return length;
}
