// How a camera was held: one number in the Exif data of an image, which is a TIFF file of its own. Source: CIPA DC-008 (Exif 2.32), sections
// 4.5 and 4.6.4; TIFF 6.0, section 2.
#include <string.h>

#include "data/image.h"

enum { ORIENTATION = 0x0112, SHORT = 3, MOST_ENTRIES = 512 };

typedef struct tiff {
    const unsigned char *bytes;
    int64_t size;
    int big;  // the most significant byte comes first
} tiff;

// Of `count` bytes, 2 or 4, at `at`; -1: the data end before.
static int64_t number(const tiff *t, int64_t at, int count) {
    int64_t value = 0;
    if (at < 0 || at + count > t->size) return -1;
    for (int i = 0; i < count; i++) value = value << 8 | t->bytes[at + (t->big ? i : count - 1 - i)];
    return value;
}

int ls__exif_orientation(const unsigned char *bytes, int64_t size) {
    if (size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) bytes += 6, size -= 6;
    if (size < 8) return 1;
    tiff t = {bytes, size, memcmp(bytes, "MM", 2) == 0};
    if ((!t.big && memcmp(bytes, "II", 2) != 0) || number(&t, 2, 2) != 42) return 1;
    int64_t at = number(&t, 4, 4), entries = number(&t, at, 2);
    for (int64_t i = 0; i < entries && i < MOST_ENTRIES; i++) {
        int64_t entry = at + 2 + 12 * i;
        if (number(&t, entry, 2) != ORIENTATION) continue;
        int64_t value = number(&t, entry + 8, 2);
        return number(&t, entry + 2, 2) == SHORT && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
