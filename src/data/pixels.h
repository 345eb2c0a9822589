// A bounded cache of what samples become when they are decoded or unpacked, in memory that the workers of a host share (data/cache.h keeps them as they are in
// their files).
//
// How large an image is, is not known before it was looked at, so whoever decodes it first takes the next free place, until there is none that is large
// enough; nothing that is there moves or goes. Which images are there is chance, and shows in nothing: what is kept is the whole image, of which any box
// has the pixels that it would have by itself. An image that is halved before it is resized is another one for each halving.
#ifndef LS_DATA_PIXELS_H
#define LS_DATA_PIXELS_H

#include <stdatomic.h>
#include <stdint.h>

enum { LS_PIXELS_LEVELS = 4 };  // of an image: its sides divided by 1, 2, 4 and 8

typedef struct ls_pixels {
    _Atomic int64_t count;   // the first so many images may be kept; 0: there is no cache
    _Atomic int64_t *place;  // (count, LS_PIXELS_LEVELS): where in `bytes`, or one of the states of pixels.c
    _Atomic int64_t *used;   // of `bytes`, by all
    unsigned char *bytes;    // (room)
    int64_t room;
} ls_pixels;

// What `count` images take of at most `limit` bytes, where each has `each` bytes at most; 0 for `each`: nobody knows, and it is `limit`. 0: none fits.
int64_t ls_pixels_size(int64_t count, int64_t each, int64_t limit);
// The least limit with which that is not 0.
int64_t ls_pixels_least(int64_t count);
// Lays a cache of `all` images, empty so far, out in `size` zeroed bytes, aligned to 8: *out is of `count` of them, from `first` on. It may be in use by
// other threads, as the empty one that it was.
void ls_pixels_place(void *memory, int64_t size, int64_t all, int64_t first, int64_t count, ls_pixels *out);

// An image that is kept: its pixels, and the sides of the whole one, before it is halved. Of what has none, its bytes.
typedef struct ls_pixels_entry {
    int64_t height, width;
    unsigned char *bytes;
} ls_pixels_entry;

// Whether image i is there at a level. `level` -1: at any.
int ls_pixels_get(const ls_pixels *pixels, int64_t i, int level, ls_pixels_entry *out);
// A place for `bytes` of image i, which the caller writes there, with the sides into *out; ls_pixels_end shows them to all. 0: there is no room, or somebody
// else is at it.
int ls_pixels_begin(const ls_pixels *pixels, int64_t i, int level, int64_t bytes, ls_pixels_entry *out);
void ls_pixels_end(const ls_pixels *pixels, int64_t i, int level, const ls_pixels_entry *entry);
// Whether image i may be kept at a level, and nobody has begun to.
int ls_pixels_wanted(const ls_pixels *pixels, int64_t i, int level);
// It is not to be kept: it cannot be decoded as a whole.
void ls_pixels_refuse(const ls_pixels *pixels, int64_t i, int level);

#endif
