// Text that is put together in a buffer of a given size.
#ifndef LS_BASE_TEXT_H
#define LS_BASE_TEXT_H

#include <stddef.h>

// Adds to `text`, which takes `size` bytes with its ending and holds *used characters. What does not fit is cut off, and *used stays
// below `size`: however often this is called, nothing is written behind the buffer. Returns 1 when all of it is there.
int ls_text_add(char *text, size_t size, size_t *used, const char *format, ...) __attribute__((format(printf, 4, 5)));
// x with the fewest digits that read back as the same number, 17 at most. Returns `text`.
char *ls_text_real(double x, char text[32]);
// Replaces what would move a terminal's cursor, or worse, by '?': text from files goes to terminals. Newlines and tabs stay.
void ls_text_clean(char *text);
// Whether it is UTF-8 (RFC 3629): JSON takes no other.
int ls_text_is_utf8(const char *text);

#endif
