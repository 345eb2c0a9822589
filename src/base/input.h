// Opening files that somebody has named, for reading: never waiting for ever.
#ifndef LS_BASE_INPUT_H
#define LS_BASE_INPUT_H

#include <stdio.h>

// A stream to read the file from, or NULL and errno. A pipe or a device is read to its end first, up to 64 MB of it, and as long as no
// five seconds pass without a word: ETIMEDOUT, where nobody writes; EFBIG. A folder: EISDIR.
FILE *ls_input_open(const char *path);
// What that errno means, in words for a sentence that begins with the file.
const char *ls_input_why(int code);

#endif
