// Images in files, from inside: a format is one function that fills `out`, grey or RGB, from a file in memory.
#ifndef LS_DATA_IMAGE_H
#define LS_DATA_IMAGE_H

#include <lockstep/data.h>

#define LS_IMAGE_MAX_SIDE   65535
#define LS_IMAGE_MAX_PIXELS ((int64_t)1 << 26)

// A file in memory. `name` is for sentences.
typedef struct ls_image_file {
    const char *name;
    const unsigned char *bytes;
    int64_t size;
} ls_image_file;

// Whether an image of this size is taken, asked before there is memory for it: no larger than we take, and no larger than a file of so
// many bytes can hold, a byte of which stands for `most` pixels at best. Errors: BAD_DATA.
ls_status ls__image_check_size(const ls_image_file *file, int64_t height, int64_t width, int64_t most);
// The sentence for a damaged file, with the decoder's words. Returns BAD_DATA.
ls_status ls__image_damaged(const ls_image_file *file, const char *why);

// What they leave in `out` when they fail is freed by the caller.
ls_status ls__image_png(const ls_image_file *file, ls_image *out);
ls_status ls__image_jpeg(const ls_image_file *file, ls_image *out);

#endif
