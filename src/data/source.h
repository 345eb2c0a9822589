// A source of samples: data in memory, a function of a program, a folder of files. It has a count, a list of fields, and reads
// any sample in any thread. What comes of samples (a size, another type, a batch) is the loader's business.
#ifndef LS_DATA_SOURCE_H
#define LS_DATA_SOURCE_H

#include <lockstep/data.h>

#include "data/image.h"

#define LS_MAX_SAMPLES ((int64_t)1 << 32)  // samples have 32-bit numbers

// A picture: an image as a file or a database has it, whose height and width differ from sample to sample. A field of pictures is of U8 and has
// the shape (0, 0, channels), and its value is one of these. It is decoded by whoever knows for what (data/image.h).
typedef ls_image_file ls_picture;

static inline int ls_field_is_picture(const ls_field *field) {
    return field->shape.ndim == 3 && field->shape.dim[0] == 0 && field->shape.dim[1] == 0;
}

// One sample, as its source has it.
typedef struct ls_sample {
    const void *field[LS_MAX_FIELDS];  // by the source's list; in the field's shape and dtype, or an ls_picture
} ls_sample;

typedef struct ls_source ls_source;

// A kind of source: one file, ending in one of these.
typedef struct ls_source_ops {
    // Points the fields of `out` at sample i's values (0 <= i < count): at the source's own memory, where they lie there, which
    // stays as it is while the source lives; else at `scratch`, (scratch_bytes) and aligned to LS_ALIGN, into which it has put them.
    // Called from several threads at once, each with a scratch of its own. Errors: whatever kept it from reading, and what to do; which
    // sample of which source is said by ls_source_read.
    ls_status (*read)(const ls_source *source, int64_t i, void *scratch, ls_sample *out);
    // Frees what the source has beyond the struct. NULL: nothing.
    void (*destroy)(ls_source *source);
    // All values of a field, (count, shape), where they lie in memory one after the other. NULL: they do not, for any field.
    const void *(*array)(const ls_source *source, int field);
    int pictures;  // 1: fields may be pictures
    // Optional: the number that sample i has for people, where it is another: of a source without some of its samples. NULL: i.
    int64_t (*number)(const ls_source *source, int64_t i);
    // Optional, of samples with one class: that of sample i, without reading it; -1: it is not known.
    int64_t (*class)(const ls_source *source, int64_t i);
    // Optional, of sources that read files: bytes that an epoch of all samples reads.
    int64_t (*stored)(const ls_source *source);
    // Optional: sample i will be read soon: asks the system for its bytes, without waiting for them. Called as read is; what goes wrong is told by read.
    void (*ahead)(const ls_source *source, int64_t i);
    // Optional: other hosts have other data under its name. What it was made from, if that is kept anywhere, is not used again.
    void (*forget)(const ls_source *source);
    // Optional, of sources that read files: what a cache of the first samples takes, at most `limit` bytes; 0: none fits.
    int64_t (*cache_size)(const ls_source *source, int64_t limit);
    // From now on it keeps what it reads of these in so much zeroed memory of the host's, which lives as long as the source does. One of those who share the memory
    // passes `fill`, and the others read after it. Before the first sample is read.
    void (*cache_attach)(ls_source *source, int64_t limit, void *memory, int fill);
    // Optional, of sources of pictures: how many of them there are, and to keep what they become when they are decoded, as images `first` and following of `all`
    // in a cache (data/pixels.h) of `size` bytes, zeroed, which lives as long as the source does. By each of those who share the memory.
    int64_t (*images)(const ls_source *source);
    void (*keep_pixels)(ls_source *source, void *memory, int64_t size, int64_t all, int64_t first);
} ls_source_ops;

// Kinds of sources begin with it.
struct ls_source {
    const ls_source_ops *ops;
    char name[96];  // "the training set of mnist": for sentences
    int64_t count;  // at least 1, at most LS_MAX_SAMPLES
    int field_count;
    ls_field field[LS_MAX_FIELDS];
    int64_t sample_bytes[LS_MAX_FIELDS];  // of one sample's field; 0: pictures
    int64_t scratch_bytes;                // what read wants of each thread; 0: nothing
    int64_t bytes;                        // of values in memory, as ls_memory_alloc would hold them; 0: none
    int64_t picture_bytes;                // what decoding a picture takes of each thread, as far as is known
    ls_source *inner;                     // of one without some samples: the one that has all of them; else NULL
};

// What all kinds begin with: checks the description and makes a zeroed struct of `size` bytes for the kind that `ops` is of.
// `name` and the fields are copied. The caller destroys it. Errors: INVALID_ARGUMENT (which field is how), OUT_OF_MEMORY.
ls_status ls_source_create(const ls_source_ops *ops, int64_t size, const char *name, const ls_field *fields,
                           int field_count, int64_t count, void *out);
void ls_source_destroy(ls_source **source);

// Checks a list of fields alone; `pictures` 1: there may be some. Errors: INVALID_ARGUMENT.
ls_status ls_fields_check(const ls_field *fields, int field_count, int pictures);
// The place of a field in a list, -1: there is none of that name.
int ls_fields_find(const ls_field *fields, int field_count, const char *name);

// Sample i's number in sentences.
static inline int64_t ls_source_number(const ls_source *source, int64_t i) {
    return source->ops->number ? source->ops->number(source, i) : i;
}
// Puts the sample and the source's name in front of a failure's sentence.
ls_status ls__source_failed(const ls_source *source, int64_t i, ls_status status);

// Reads a sample, in any thread (see ls_source_ops). Errors: the source's own, with the sample and the source's name in front.
static inline ls_status ls_source_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    ls_status status = source->ops->read(source, i, scratch, out);
    return status == LS_OK ? LS_OK : ls__source_failed(source, i, status);
}

// All values of a field, (count, shape); NULL where they do not lie in memory one after the other.
const void *ls_source_array(const ls_source *source, int field);

// Whether `n` values of a field of class numbers are all in range; of a field without classes they always are. Errors: BAD_DATA (the
// value, and where in `values` it stands).
ls_status ls_field_check_values(const ls_field *field, const void *values, int64_t n);
// The same for all samples of a source that lie in memory; others are checked as they are read.
ls_status ls_source_check_classes(const ls_source *source);

// ---- kinds ---------------------------------------------------------------------------------------------------------

// Values in memory, read where they lie. `arrays` is the caller's, and lives and stays as it is while the source does. Values are
// not looked at. Errors: INVALID_ARGUMENT (an array is missing or not aligned to its type), OUT_OF_MEMORY.
ls_status ls_source_create_memory(const char *name, const ls_field *fields, int field_count, const ls_arrays *arrays,
                                  ls_source **out);
// What a function gives. Errors: INVALID_ARGUMENT (there is none), OUT_OF_MEMORY.
ls_status ls_source_create_callback(const char *name, const ls_field *fields, int field_count,
                                    const ls_callback *callback, ls_source **out);
// What is only thought of, to plan with: reading fails.
ls_status ls_source_create_planned(const char *name, const ls_field *fields, int field_count, int64_t count,
                                   ls_source **out);

#endif
