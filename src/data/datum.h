// Caffe's Datum: a message of protocol buffers with an image and its class. Source: caffe, src/caffe/proto/caffe.proto.
#ifndef LS_DATA_DATUM_H
#define LS_DATA_DATUM_H

#include <stdint.h>

typedef struct ls_datum {
    int64_t channels, height, width;  // of pixels that are not encoded
    int64_t data_at, data_size;       // of the image, in the message
    int64_t label;
    int encoded;  // a JPEG or PNG file; else pixels, (channels, height, width)
} ls_datum;

// `size` bytes at `at` of the message. 0, or -1 where they cannot be read.
typedef int (*ls_datum_read)(void *self, int64_t at, int64_t size, void *out);
int ls_datum_from_memory(void *bytes, int64_t at, int64_t size, void *out);

// What a message of `size` bytes has, read in small pieces without the image. NULL, or why it is no Datum with an image, in a few words.
const char *ls_datum_parse(ls_datum_read read, void *self, int64_t size, ls_datum *out);

#endif
