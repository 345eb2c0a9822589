// Caffe's Datum: a message of protocol buffers with an image and its class. Source: caffe, src/caffe/proto/caffe.proto.
#ifndef LS_DATA_DATUM_H
#define LS_DATA_DATUM_H

#include "base/protobuf.h"

typedef struct ls_datum {
    int64_t channels, height, width;  // of pixels that are not encoded
    int64_t data_at, data_size;       // of the image, in the message
    int64_t label;
    int encoded;  // a JPEG or PNG file; else pixels, (channels, height, width)
} ls_datum;

// What a message has, read without the image. Errors: those of reading and of damage, the latter also where it is no Datum with an image.
ls_status ls_datum_parse(ls_pb message, ls_datum *out);

#endif
