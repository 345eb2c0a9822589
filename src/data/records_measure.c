// What decoding the images of a list will take.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "data/image.h"
#include "data/records.h"

enum { LOOKED_AT = 8 };

static void look_at(ls_records_builder *b, const ls_record *r, int channels) {
    unsigned char *bytes;
    int64_t height, width;
    int fd = open(b->text + b->file[r->file].name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    if (ls_calloc((int64_t)r->size + 1, 1, &bytes) == LS_OK) {
        ssize_t n = pread(fd, bytes, r->size, r->at + r->skip);
        ls_image_file file = {.name = "", .bytes = bytes, .size = n};
        int encoded = n > 0 && ls_image_file_size(&file, &height, &width) == LS_OK;
        // Pixels of a database are as many as their bytes.
        int pixels = !encoded && (b->kind == LS_RECORDS_DATUM_RGB || b->kind == LS_RECORDS_DATUM_BGR);
        int64_t bytes_of = encoded ? height * width * channels : pixels ? (int64_t)r->size : 0;
        if (bytes_of > b->picture_bytes) b->picture_bytes = bytes_of;
        free(bytes);
    }
    close(fd);
}

void ls_records_measure(ls_records_builder *b, int channels) {
    const ls_record *largest[LOOKED_AT];  // the first of them the largest
    int count = 0;
    for (int set = 0; set < LS_RECORDS_SETS; set++)
        for (int64_t i = 0; i < b->count[set]; i++) {
            const ls_record *r = &b->record[set][i];
            if (count == LOOKED_AT && r->size <= largest[count - 1]->size) continue;
            int place = count < LOOKED_AT ? count++ : LOOKED_AT - 1;
            for (; place > 0 && largest[place - 1]->size < r->size; place--) largest[place] = largest[place - 1];
            largest[place] = r;
        }
    for (int i = 0; i < count; i++) look_at(b, largest[i], channels);
}
