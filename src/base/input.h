// Opening files that somebody has named, for reading: never waiting for ever.
#ifndef LS_BASE_INPUT_H
#define LS_BASE_INPUT_H

#include <lockstep/status.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

// A stream to read the file from, or NULL and errno. A pipe or a device is read to its end first, up to 64 MB of it, and as long as no
// five seconds pass without a word: ETIME, where nobody writes; EFBIG. A folder: EISDIR.
FILE *ls_input_open(const char *path);
// The same of a file that is read whole: one of more than `most` bytes is EFBIG.
#define LS_RECORD_MOST ((int64_t)1 << 30)  // of the record of a run, and what else is JSON or a picture of a report
FILE *ls_input_open_small(const char *path, int64_t most);
// read() of a file that was opened with O_NONBLOCK, which waits as long as that: -1 and ETIME where nothing comes.
ssize_t ls_input_read(int from, void *out, size_t size);
// What that errno means, in words for a sentence that begins with the file.
const char *ls_input_why(int code);

// A text line by line, a byte order mark left out. The caller opens and closes the file, and frees `text` in the end.
typedef struct ls_lines {
    FILE *file;
    const char *path;  // for sentences
    char *text;        // the line, with its end where it has one; a zero behind it
    size_t room;
    int64_t number, bytes;  // of this line: from 1 on; with its end
} ls_lines;

#define LS_LINE_MOST ((int64_t)16 << 20)

// *more 0: there is none. Errors: BAD_DATA (a line of more than LS_LINE_MOST bytes, a zero byte), IO, OUT_OF_MEMORY.
ls_status ls_lines_next(ls_lines *lines, int *more);
// All lines of a file, to `take`. `what` stands behind the path where it cannot be opened. Errors: NOT_FOUND, IO, those of
// ls_lines_next, those of take.
ls_status ls_lines_read(const char *path, const char *what, void *self,
                        ls_status (*take)(void *self, const ls_lines *lines));

#endif
