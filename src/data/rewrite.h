// Writing a dataset in another format: a sample on its way from one to the other.
#ifndef LS_DATA_REWRITE_H
#define LS_DATA_REWRITE_H

#include "data/source.h"
#include "data/writers.h"

// A sample as it is going to be written, or why it cannot be.
typedef struct ls_ready {
    ls_written written;
    void *memory;  // of its image; freed by whoever has it
    ls_status status;
    char message[1024];
} ls_ready;

// Reads sample i, and decodes, resizes and encodes its image as the config says. In any thread, with a scratch of its own. The image of the field
// "image", pictures or pixels, and the class of the field "label".
void ls__rewrite_ready(const ls_source *source, int64_t i, const ls_convert_config *config, void *scratch,
                       ls_ready *out);

#endif
