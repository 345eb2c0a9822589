// Records: samples that lie in files, each a run of bytes in one of them, with a class. An index of them is all that is in memory, once per
// host; what a sample is, is read when it is wanted. Folders of images and containers (tar, TFRecord, ...) are such.
//
// Worker 0 of a host lists what there is in a builder of its own; ls_records_share puts that where all workers of the host see it; each
// makes sources of it.
#ifndef LS_DATA_RECORDS_H
#define LS_DATA_RECORDS_H

#include "base/options.h"
#include "data/dataset.h"

// Where a sample lies, and in it an image.
typedef struct ls_record {
    int64_t at, bytes;  // what is read, in its file
    uint32_t file;
    int32_t class;        // of samples with several labels, or numbers: their row
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
    LS_RECORDS_KINDS,
} ls_records_kind;

typedef struct ls_record_file {
    int64_t name;            // its path: where in the text
    int64_t bytes, changed;  // as it was when it was listed; the time in nanoseconds
} ls_record_file;

enum { LS_RECORDS_TRAIN, LS_RECORDS_TEST, LS_RECORDS_SETS };

// What a list was made from: as long as these are what they were, so is the list (data/index.h).
enum { LS_WITNESS_FILE, LS_WITNESS_FOLDER, LS_WITNESS_PATTERN };
typedef struct ls_record_witness {
    int64_t name;  // a path, or a pattern of paths: where in the text
    int64_t kind;  // LS_WITNESS_...
    int64_t bytes,
        changed;  // of a folder the time alone; of a pattern how many paths it stands for, and a number that tells them apart
} ls_record_witness;

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
    int label_width;  // above 0: samples have several labels at once, the classes, and rows of so many
    int pairs;        // 1: a sample is two records, one behind the other: its image, and the one that is learned of it
    int targets;  // 1: rows are of label_width numbers in F32, which a sample is trained towards; a class has the name of one
    uint8_t *label;  // (label_count, label_width): 1 where a label is there, or these numbers' bytes; each row once
    int64_t label_count, label_room;
    int32_t *slot;  // (slots), a power of two: where rows are found by their hash; -1: free
    int64_t slots;
    int64_t picture_bytes;  // what the largest pictures take when they are decoded; 0: nobody knows
    ls_records_kind kind;
    struct ls_exclusions *exclude;  // names of what is left out; NULL: none. Borrowed
    ls_record_witness *witness;
    int64_t witness_count, witness_room;
    int unwitnessed;  // 1: it was also made from something that there is no witness of
} ls_records_builder;

// Bytes of a row.
static inline int64_t ls_records_row_bytes(int64_t width, int targets) {
    return width * (targets ? (int64_t)sizeof(float) : 1);
}

// All zero to begin with. Errors: OUT_OF_MEMORY, BAD_DATA (more than there may be).
ls_status ls_records_add_class(ls_records_builder *builder, const char *name);  // NULL: it has no name
// Its number; -1: there is none of that name. `from` 0, in order.
int64_t ls_records_find_class(const ls_records_builder *builder, const char *name);
const char *ls_records_class(const ls_records_builder *builder, int64_t class);
ls_status ls_records_add_file(ls_records_builder *builder, const char *path, int64_t bytes, int64_t changed,
                              uint32_t *number);
ls_status ls_records_add(ls_records_builder *builder, int set, ls_record record);
// Puts a text with the 0 at its end behind all others: *where.
ls_status ls_records_add_text(ls_records_builder *builder, const char *text, int64_t *where);
// A row of `label_width` labels, or of numbers: its number, whether it was there or is new. Errors: OUT_OF_MEMORY, BAD_DATA (too many).
ls_status ls_records_add_row(ls_records_builder *builder, const uint8_t *row, int32_t *number);
// Orders a set so that any first part of it has the classes in proportion, and those of one class in the order they were added.
ls_status ls_records_spread(ls_records_builder *builder, int set);
// Whether number i of a class, or of a set, is in the test set that is a part `split` of it: evenly spread, where the whole part of split * (i + 1) is larger
// than that of split * i.
int ls_records_held_out(double split, int64_t i);
// Moves that part of each class, with several labels of all samples, from the training set to the test set. Errors: OUT_OF_MEMORY.
ls_status ls_records_split(ls_records_builder *builder, double split);
// Finds `picture_bytes`: pixels of the largest images, without reading all headers. One that is broken is told of when it is wanted.
void ls_records_measure(ls_records_builder *builder, int channels);
void ls_records_free(ls_records_builder *builder);
// Makes room for `more` elements of `size` bytes behind `count` in an array, *array, of *room. Errors: OUT_OF_MEMORY.
ls_status ls__records_grow(void *array, int64_t *room, int64_t count, int64_t more, size_t size);

// Notes what the list is made from; before that is read, so that what changes while it is read is found. What cannot be looked at
// leaves the list unwitnessed. Errors: OUT_OF_MEMORY.
ls_status ls_records_witness(ls_records_builder *builder, int kind, const char *name);
// Looks at what a witness is of again, and puts what is there now into it. 0, or -1: it cannot be looked at.
int ls_records_look_again(const ls_records_builder *builder, ls_record_witness *witness);
// A file's time in nanoseconds.
struct stat;
int64_t ls_records_time(const struct stat *there);

// Whether the list of exclusions names this file, whose path begins with `root` and a slash where it lies there.
int ls_records_excluded(ls_records_builder *builder, const char *root, const char *path);
// Whether it names this sample, of a format in which samples have names.
int ls_records_excluded_name(ls_records_builder *builder, const char *name);

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
    int label_width, targets, pairs;  // as in the builder
    int64_t label_count;
    uint8_t *label;
    int64_t longest_path, largest;  // bytes of a path and of a record, the largest
    int64_t picture_bytes;          // of the largest pictures, decoded
    ls_records_kind kind;
    int64_t bytes;  // of all this
    const char
        *index;  // the file that it is kept in, which is removed where something in it is not so any more; NULL: none
} ls_records;

// Worker 0's list, with `listed` how making it went, for all workers of the host; the others' builders are not looked at. Collective.
// Errors: what was listed with, OUT_OF_MEMORY.
ls_status ls_records_share(ls_data_host *host, ls_status listed, const ls_records_builder *builder, ls_records *out);

// A number that tells lists apart: sizes, classes, and paths from `root` bytes on; -1: files' names alone.
uint64_t ls_records_version(const ls_records *records, int64_t root);

// A source of the fields "image" (pictures of `channels`) and "label" (a class, or a row of labels) from one of the sets. `records` is copied with the name of its
// index, what else it points at borrowed.
ls_status ls_source_create_records(const char *name, const ls_records *records, int set, int channels, ls_source **out);

// Names of classes, where there are some (`any`), and a version, into a dataset. The names are borrowed from the host's memory. Errors: OUT_OF_MEMORY.
ls_status ls_records_names(const ls_records *records, int any, ls_dataset *out);
// Sources of both sets, names of classes and a version, for a format that has shared its list. The names are borrowed from the host's memory.
// `root` is what all paths begin with; NULL: nothing in particular. Collective over the host's workers. Errors: OUT_OF_MEMORY.
ls_status ls_records_dataset(ls_data_host *host, const ls_records *records, const char *root, int channels,
                             ls_dataset *out);

// --- opening ---------------------------------------------------------------------------------------------------------

// Options behind a path, of all formats together; each has those of its table.
typedef struct ls_records_settings {
    const char *test;           // path of the test set; NULL: there is none
    const char *root;           // where paths in a table begin
    const char *image, *label;  // names of columns, of features, of endings; NULL: the usual ones
    const char *order;          // "bgr" or "rgb": of pixels that are not encoded
    const char *exclude;        // a file with names and numbers of samples that are left out, a line each; NULL: none
    // Of several labels at once: the column of lists, or the columns of 0 and 1; a file with all labels; the word for none. NULL: the usual ones
    const char *labels, *columns, *names, *none;
    // Of tables: columns of numbers that are learned, and that samples consist of; the shape of these; the same of pixels. NULL: none
    const char *targets, *numbers, *shape, *pixels;
    const char *target;  // the column of images that are learned; NULL: none
    double split;        // so large a part is the test set, where none is named
    int channels, first_class;
    int label_count;  // of containers: `labels` names lists of the numbers, below this, of labels that are there; 0: of 0 and 1 for each
} ls_records_settings;

#define LS_RECORDS_OPTION(field) .offset = offsetof(ls_records_settings, field)
// Rows that several tables have; `of` goes on a sentence about the part.
#define LS_RECORDS_SPLIT(of)                                                                                           \
    {                                                                                                                  \
        "validation-split", LS_OPTION_REAL, LS_RECORDS_OPTION(split),                                                  \
            .metavar = "F", .min = 0, .max = 0.9, .help = "so large a part" of " is the test set, where none is there" \
    }
#define LS_RECORDS_CHANNELS                                                                                            \
    {                                                                                                                  \
        "channels", LS_OPTION_INT, LS_RECORDS_OPTION(channels), .metavar = "1|3", .min = 1, .max = 3,                  \
                                                                .help = "1: as grey, 3: in colour"                     \
    }
#define LS_RECORDS_EXCLUDE                                                                                             \
    {                                                                                                                  \
        "exclude", LS_OPTION_TEXT, LS_RECORDS_OPTION(exclude), .metavar = "FILE",                                      \
                                                               .help = "leave out the samples that are its lines"      \
    }

typedef struct ls_records_format {
    const char *name;
    const ls_option *table;  // over ls_records_settings
    int rooted;              // 1: all paths begin with that of the format's argument
    const char *what, *how;  // what a list of exclusions names, as "file", and how: "paths begin ..."
    const void *self;        // passed to list
    // Lists what there is at `path` into an empty builder; by worker 0 alone.
    ls_status (*list)(const void *self, const char *path, const ls_records_settings *settings,
                      ls_records_builder *builder);
} ls_records_format;

// Opens what a format's argument names, whose samples are records. Collective over the host's workers. Errors: those of options and of list; NOT_FOUND, IO,
// BAD_DATA (the list of exclusions: it cannot be read, or names a file that is not there).
ls_status ls_records_open(const ls_records_format *format, ls_data_host *host, const char *argument, ls_dataset *out);

#endif
