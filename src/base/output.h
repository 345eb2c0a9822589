// A file that takes the place of what stood there only once it is whole: written beside its name, then moved. Devices and pipes
// are written to as they are. These return 0, or -1 with errno; what to say is the caller's.
#ifndef LS_BASE_OUTPUT_H
#define LS_BASE_OUTPUT_H

#include <stdio.h>

typedef struct ls_output {
    FILE *file;
    char *beside;  // the name while it is written; NULL: the file itself
} ls_output;

// A stream to write to `path` as it is, emptied first. A pipe that nobody has opened to read after some seconds: NULL and ENXIO.
FILE *ls_output_stream(const char *path);
// Whether ls_output_open would work, found out by doing it; leaves nothing behind.
int ls_output_check(const char *path);
int ls_output_open(const char *path, ls_output *out);
// Closes the file and, when `keep` and all that was written is on the disk, puts it in place; otherwise what was written is gone. 0
// only if it is in place.
int ls_output_close(ls_output *output, const char *path, int keep);
// A folder to write to, with those that it lies in; 0 also where something of this name is there.
int ls_output_folder(const char *path);

#endif
