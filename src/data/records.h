// Records: samples that lie in files, each a run of bytes in one of them, with a class. An index of them is all that is in memory, once per
// host; what a sample is, is read when it is wanted. Folders of images and containers (tar, TFRecord, ...) are such.
//
// Worker 0 of a host lists what there is in a builder of its own; ls_records_share puts that where all workers of the host see it; each
// makes sources of it.
#ifndef LS_DATA_RECORDS_H
#define LS_DATA_RECORDS_H

#include "data/dataset.h"

// Where a sample lies, and in it an image.
typedef struct ls_record {
    int64_t at, bytes;  // what is read, in its file
    uint32_t file;
    int32_t class;
    uint32_t skip, size;  // the image in it, after ls_records_kind has been seen to
} ls_record;

// What has to be done with a record's bytes before they can be used.
typedef enum ls_records_kind {
    LS_RECORDS_PLAIN,     // nothing
    LS_RECORDS_TFRECORD,  // they end in a checksum of all before, which is checked
    LS_RECORDS_RECORDIO,  // parts are put together
    // They are Caffe's Datum, which says what the image is; pixels that are not encoded are red, green, blue, or the other way around.
    LS_RECORDS_DATUM_RGB,
    LS_RECORDS_DATUM_BGR,
} ls_records_kind;

typedef struct ls_record_file {
    int64_t name;            // its path: where in the text
    int64_t bytes, changed;  // as it was when it was listed; the time in nanoseconds
} ls_record_file;

enum { LS_RECORDS_TRAIN, LS_RECORDS_TEST, LS_RECORDS_SETS };

#define LS_RECORDIO_MAGIC 0xced7230au

// --- listing ---------------------------------------------------------------------------------------------------------

typedef struct ls_records_builder {
    ls_record *record[LS_RECORDS_SETS];
    int64_t count[LS_RECORDS_SETS], room[LS_RECORDS_SETS];
    ls_record_file *file;
    int64_t file_count, file_room;
    char *text;  // paths and names of classes, each with a 0 at its end
    int64_t text_size, text_room;
    int64_t *class_name;  // (class_count): where in the text
    int64_t class_count, class_room;
    int64_t picture_bytes;  // what the largest pictures take when they are decoded; 0: nobody knows
    ls_records_kind kind;
} ls_records_builder;

// All zero to begin with. Errors: OUT_OF_MEMORY, BAD_DATA (more than there may be).
ls_status ls_records_add_class(ls_records_builder *builder, const char *name);  // NULL: it has no name
// Its number; -1: there is none of that name. `from` 0, in order.
int64_t ls_records_find_class(const ls_records_builder *builder, const char *name);
const char *ls_records_class(const ls_records_builder *builder, int64_t class);
ls_status ls_records_add_file(ls_records_builder *builder, const char *path, int64_t bytes, int64_t changed,
                              uint32_t *number);
ls_status ls_records_add(ls_records_builder *builder, int set, ls_record record);
// Orders a set so that any first part of it has the classes in proportion, and those of one class in the order they were added.
ls_status ls_records_spread(ls_records_builder *builder, int set);
// Whether number i of a class, or of a set, is in the test set that is a part `split` of it: evenly spread, where the whole part of split * (i + 1) is larger
// than that of split * i.
int ls_records_held_out(double split, int64_t i);
// Moves that part of each class from the training set to the test set. Errors: OUT_OF_MEMORY.
ls_status ls_records_split(ls_records_builder *builder, double split);
// Finds `picture_bytes`: pixels of the largest images, without reading all headers. One that is broken is told of when it is wanted.
void ls_records_measure(ls_records_builder *builder, int channels);
void ls_records_free(ls_records_builder *builder);

// --- sharing ---------------------------------------------------------------------------------------------------------

// In memory of the host's; nobody writes there afterwards.
typedef struct ls_records {
    int64_t count[LS_RECORDS_SETS];
    ls_record *record[LS_RECORDS_SETS];
    int64_t file_count;
    ls_record_file *file;
    char *text;
    int64_t text_size;
    int64_t class_count;
    int64_t *class_name;
    int64_t longest_path, largest;  // bytes of a path and of a record, the largest
    int64_t picture_bytes;          // of the largest pictures, decoded
    ls_records_kind kind;
    int64_t bytes;  // of all this
} ls_records;

// Worker 0's list, with `listed` how making it went, for all workers of the host; the others' builders are not looked at. Collective.
// Errors: what was listed with, OUT_OF_MEMORY.
ls_status ls_records_share(ls_data_host *host, ls_status listed, const ls_records_builder *builder, ls_records *out);

// A number that tells lists apart: sizes, classes, and paths from `root` bytes on; -1: files' names alone.
uint64_t ls_records_version(const ls_records *records, int64_t root);

// A source of the fields "image" (pictures of `channels`) and "label" (a class) from one of the sets. `records` is copied, what it points at
// borrowed.
ls_status ls_source_create_records(const char *name, const ls_records *records, int set, int channels, ls_source **out);

// Sources of both sets, names of classes and a version, for a format that has shared its list. The names are borrowed from the host's memory.
// `root` is what all paths begin with; NULL: nothing in particular. Collective over the host's workers. Errors: OUT_OF_MEMORY.
ls_status ls_records_dataset(ls_data_host *host, const ls_records *records, const char *root, int channels,
                             ls_dataset *out);

#endif
