// Images in files, from inside: a format is two functions, one that reads a file's header, one that fills `out`, grey or RGB, from a
// file in memory.
#ifndef LS_DATA_IMAGE_H
#define LS_DATA_IMAGE_H

#include <lockstep/data.h>

#define LS_IMAGE_MAX_SIDE    65535
#define LS_IMAGE_MAX_PIXELS  ((int64_t)1 << 26)
#define LS_IMAGE_MAX_FILE    ((int64_t)256 << 20)  // bytes
#define LS_IMAGE_MOST_SHRUNK 8

// How pixels lie that are not encoded. `height` 0: they are.
typedef struct ls_image_raw {
    int64_t height, width;
    int channels;
    int planar;  // 1: (channels, height, width), else (height, width, channels)
    int bgr;     // 1: the last channel comes first
} ls_image_raw;

struct ls_image_file;

// A cache that the decoded image belongs into, or is in.
typedef struct ls_image_kept {
    const struct ls_pixels *pixels;  // data/pixels.h; NULL: none
    int64_t number;                  // the image's in it
    int channels;                    // that images have there
    // Reads the file, whose bytes were left out as the image was there. Errors: the source's.
    ls_status (*fetch)(const struct ls_image_kept *kept, struct ls_image_file *out);
    const void *owner;
    void *scratch;  // of the thread, where the bytes go
} ls_image_kept;

// A file in memory. `name` is for sentences. With `raw` the bytes are pixels, as databases have them. `bytes` is NULL where the image is kept.
typedef struct ls_image_file {
    const char *name;
    const unsigned char *bytes;
    int64_t size;
    ls_image_raw raw;
    ls_image_kept kept;
} ls_image_file;

// Memory for pixels that many images go through one after the other. All zero to begin with; freed by ls_image_buffer_free.
typedef struct ls_image_buffer {
    uint8_t *memory[2];  // of the image; of the one it is made from where a step cannot be done in place
    int64_t bytes[2];
} ls_image_buffer;

void ls_image_buffer_free(ls_image_buffer *buffer);

// Rows top .. bottom-1 and columns left .. right-1. All zero: the whole image.
typedef struct ls_image_part {
    int64_t top, left, bottom, right;
} ls_image_part;

// What is asked of a file's pixels.
typedef struct ls_image_wish {
    int channels;  // 1: grey, 3: RGB, 0: as it is
    int shrink;    // 1, 2, 4 or 8: sides divided by it, rounded up
    // Of the shrunk image, as it is looked at: what will be read of it. Its other pixels are anything; where that saves decoding they are not decoded,
    // and damage in them is not found. A JPEG that ends too early is.
    ls_image_part part;
} ls_image_wish;

// How often, in powers of two up to 8, height x width pixels can be halved and still be at least those that are wanted: the larger
// an image, the less of it is decoded, and bilinear resampling, which looks at four pixels, does not skip any.
int ls_image_shrink(int64_t height, int64_t width, int64_t wanted_height, int64_t wanted_width);

// Height and width of the image as it is to be looked at: a camera's orientation is applied. Errors: as ls_image_decode.
ls_status ls_image_file_size(const ls_image_file *file, int64_t *height, int64_t *width);
// The same of a file on the disk. Errors: as ls_image_read.
ls_status ls_image_path_size(const char *path, int64_t *height, int64_t *width);
// All bytes of a file on the disk, which the caller frees. Errors: as ls_image_read.
ls_status ls_image_path_bytes(const char *path, char **bytes, int64_t *size);
// All of the image in memory of its own, which ls_image_free frees; `channels` as a wish's. Errors: as ls_image_decode.
ls_status ls_image_file_load(const ls_image_file *file, int channels, ls_image *out);
// The image, whose pixels lie in the buffer until it is used again, or in a cache, and are only read; ls_image_free is not for them. Errors: as
// ls_image_decode.
ls_status ls_image_file_decode(const ls_image_file *file, ls_image_wish wish, ls_image_buffer *buffer, ls_image *out);

// --- for formats -----------------------------------------------------------------------------------------------------

// What a header says.
typedef struct ls_image_header {
    int64_t height, width;  // as they are stored
    int orientation;        // 1 to 8, as Exif has it
} ls_image_header;

// Whether an image of this size is taken, asked before there is memory for it: no larger than we take, and no larger than a file of so
// many bytes can hold, a byte of which stands for `most` pixels at best. Errors: BAD_DATA.
ls_status ls__image_check_size(const ls_image_file *file, int64_t height, int64_t width, int64_t most);
// The sentence for a damaged file, with the decoder's words. Returns BAD_DATA.
ls_status ls__image_damaged(const ls_image_file *file, const char *why);
// Memory for the pixels of `image`, (height, width, channels), or of more channels where they are wished for.
ls_status ls__image_pixels(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer,
                           ls_image *image);
// The orientation in a block of Exif data (a TIFF file, with or without "Exif\0\0" in front): 1 to 8, 1 where it says none or makes
// no sense.
int ls__exif_orientation(const unsigned char *bytes, int64_t size);

// Of pixels that are not encoded. Errors: BAD_DATA (their sizes and bytes do not agree).
ls_status ls__image_raw_header(const ls_image_file *file, ls_image_header *out);
ls_status ls__image_raw(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                        int *shrunk, int *orientation);
ls_status ls__image_png_header(const ls_image_file *file, ls_image_header *out);
ls_status ls__image_jpeg_header(const ls_image_file *file, ls_image_header *out);
// *shrunk is by what the format has shrunk it, the wish or 1; *orientation as above. Pixels are as stored, not turned.
ls_status ls__image_png(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                        int *shrunk, int *orientation);
ls_status ls__image_jpeg(const ls_image_file *file, const ls_image_wish *wish, ls_image_buffer *buffer, ls_image *out,
                         int *shrunk, int *orientation);

// A PNG file in memory, which the caller frees. `image` is grey or RGB. Errors: OUT_OF_MEMORY.
ls_status ls__image_png_encode(const ls_image *image, char **bytes, size_t *size);
// A JPEG file in memory, which the caller frees; `quality` 1 to 100, colours at half the resolution. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__image_jpeg_encode(const ls_image *image, int quality, char **bytes, size_t *size);

#endif
