// Files of weights from inside: what <lockstep/weights.h> does not have, among it the writing. Not collective.
#ifndef LS_TRAIN_WEIGHTS_FILE_H
#define LS_TRAIN_WEIGHTS_FILE_H

#include <stdint.h>
#include <stdio.h>

#include <lockstep/weights.h>

#define LS_WEIGHTS_LENGTH_BYTES 8
#define LS_WEIGHTS_NAME_TEXT    128
#define LS_WEIGHTS_SHAPE_TEXT   192

// ls_weights_file_open for a header in memory, of a file of `file_bytes`; `header` has no more than the file has.
ls_status ls__weights_file_parse(const char *path, const void *header, int64_t header_bytes, int64_t file_bytes,
                                 ls_weights_file **out);

// Reads and checks the header of an open file, which then belongs to *out. `path` is for sentences.
ls_status ls__weights_file_take(const char *path, int fd, ls_weights_file **out);

// A tensor's name and shape, and the model's name, for sentences: control characters replaced, overlong names cut; "(3, 3, 64)".
const char *ls__stored_name(const ls_stored_tensor *tensor, char text[LS_WEIGHTS_NAME_TEXT]);
const char *ls__stored_model(const ls_weights_file *file, char text[LS_WEIGHTS_NAME_TEXT]);  // NULL: it does not say
const char *ls__stored_shape(const ls_stored_tensor *tensor, char text[LS_WEIGHTS_SHAPE_TEXT]);

// The sentence for a write that failed, after errno: IO.
ls_status ls__weights_file_failed(const char *path);
// Writes the length and the header for F32 tensors that are to follow in this order (name, ndim and dim are read). `model` goes
// to the metadata; NULL: none. `path` is for sentences. Errors: IO, OUT_OF_MEMORY, INVALID_ARGUMENT (a name is not UTF-8).
ls_status ls_weights_header_write(FILE *out, const char *path, const char *model, const ls_stored_tensor *tensors,
                                  int count);

#endif
