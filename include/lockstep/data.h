// Datasets: what is trained on. From files, drawn by the library, from arrays of a program, or from a function of it.
//
// A dataset has a training set and mostly a test set. A sample is a few fields, each a tensor of one shape and type: an image,
// the number of its class, a row of labels, tokens, an image to be reached. The trainer looks fields up by name.
//
//     #include <lockstep/data.h>
//
//     ls_status mine(ls_context *workers, const uint8_t *images, const int32_t *labels, ls_dataset **data) {
//         const ls_field fields[] = {{"image", LS_SHAPE(28, 28, 1), LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_I32, 1000}};
//         ls_arrays_config config = {.name = "mine", .fields = fields, .field_count = 2,
//                                    .train = {.count = 60000, .field = {images, labels}}};
//         return ls_dataset_create_arrays(workers, &config, data);
//     }
//
// What opens or creates a dataset, and what destroys one, is collective over the workers: each makes the same calls with the
// same arguments, and when one fails, all get the same status and sentence. The rest is not collective, and may be called
// from any thread.
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/context.h>
#include <lockstep/status.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_dataset ls_dataset;

#define LS_MAX_FIELDS 16

// One field of all samples of a dataset.
typedef struct ls_field {
    char name[32];   // "image", "label", "tokens", "target", ...
    ls_shape shape;  // of one sample, without the batch: (H, W, C) of an image; {0} is a single number
    ls_dtype dtype;  // U8, I32 or F32
    // Above 0: the values are class numbers 0 .. classes-1 (or tokens of a vocabulary of so many words), U8 or I32; one that is
    // out of range is refused. 0: any values, which losses and metrics do not take for class numbers.
    int classes;
} ls_field;

// ---- datasets by name ----------------------------------------------------------------------------------------------

// Opens a dataset: "mnist:DIR", "fashion-mnist:DIR", "cifar10:DIR", "cifar100:DIR", "images:DIR", "csv:FILE", "tar:FILES", "tfrecord:FILES", "recordio:FILE", "lmdb:DIR", "hdf5:FILE", "numpy:FILE.npz", "digits", "letters", "moving-digits", "shapes", "roles", "sentences", "text:FILE" or "synthetic:HxWxC" (`lockstep datasets`
// says what they are). One copy per host, in memory its workers share, read by them in parallel; of files with an image each an index. The caller destroys it before the context. Collective.
// Errors: NOT_FOUND, IO, BAD_DATA (the file, what is wrong with it), MISMATCH (hosts read different data).
ls_status ls_dataset_open(ls_context *context, const char *spec, ls_dataset **out);
// The same for a network that was trained on a table of numbers: where the dataset is one ("csv:FILE,numbers=all"), its numbers are those of the columns of these
// names, in this order, wherever they stand in it; others are left out. `columns`: names with NULL at the end, the same on every worker; NULL, or another
// dataset: as ls_dataset_open. Collective. Errors: those of ls_dataset_open; BAD_DATA (the table lacks a column, which is named).
ls_status ls_dataset_open_columns(ls_context *context, const char *spec, const char *const *columns, ls_dataset **out);

// The index-th name ls_dataset_open knows, NULL past the last; *argument is what comes after a colon ("DIR"), or NULL where
// nothing does, *help one line about it. Both pointers may be NULL.
const char *ls_dataset_format(int index, const char **argument, const char **help);

// The name of a class of theirs, as "frog" for 6 of "cifar10:DIR", without opening it; NULL: it has none. `spec` as above, or the name
// alone.
const char *ls_dataset_format_class(const char *spec, int index);

// ---- datasets of a program -----------------------------------------------------------------------------------------

// A set of samples in memory, field by field.
typedef struct ls_arrays {
    int64_t count;                     // samples; 0: there is no such set
    const void *field[LS_MAX_FIELDS];  // (count, shape of the field) each, row-major, in the field's dtype
} ls_arrays;

typedef struct ls_arrays_config {
    const char *name;        // for sentences and records; NULL: "arrays"
    const ls_field *fields;  // (field_count); copied
    int field_count;
    ls_arrays train, test;  // of test, the count may be 0
    // 0: the arrays are borrowed and must not change until the dataset is destroyed. 1: they are copied, once per host into memory
    // that its workers share, and the caller may free its own afterwards.
    int copy;
} ls_arrays_config;

// A dataset of arrays of the caller's. Each worker passes the same description and the same data, which is checked.
// The caller destroys it before the context. Collective.
// Errors: INVALID_ARGUMENT (no samples, more than 2^32, a shape or a type that cannot be, an array that is missing; which field),
// BAD_DATA (a label out of range: which sample, which label), MISMATCH (workers pass different data), OUT_OF_MEMORY.
ls_status ls_dataset_create_arrays(ls_context *context, const ls_arrays_config *config, ls_dataset **out);

// Writes sample `sample` (from 0): field f goes to fields[f], in the shape and dtype it was described with. The memory is the
// library's, aligned to 64 bytes, and holds whatever was there before.
// Called from several threads at once, of several workers, in any order, any number of times: it must give the same values for a
// sample whenever and wherever it is asked. Returns LS_OK, or `ls_error_set(status, "...")`, which ends training with that
// sentence.
typedef ls_status (*ls_read_fn)(void *user, int64_t sample, void *const *fields);

// A set of samples that a function gives.
typedef struct ls_callback {
    int64_t count;  // samples; 0: there is no such set
    ls_read_fn read;
    void *user;  // passed to it
} ls_callback;

typedef struct ls_callback_config {
    const char *name;        // for sentences and records; NULL: "callback"
    const ls_field *fields;  // (field_count); copied
    int field_count;
    ls_callback train, test;  // of test, the count may be 0
    // Whatever tells one version of the data from another, which has to be the same on all workers; part of the fingerprint.
    uint64_t version;
} ls_callback_config;

// A dataset whose samples a function of the caller's gives, whenever they are wanted. Nothing is kept in memory. The first, the
// middle and the last sample of each set are read at once by every worker, and must be the same everywhere.
// The caller destroys it before the context. Collective.
// Errors: INVALID_ARGUMENT (as above; no function), whatever the function returns, BAD_DATA (a label out of range),
// MISMATCH (workers describe it differently, or get different samples), OUT_OF_MEMORY.
ls_status ls_dataset_create_callback(ls_context *context, const ls_callback_config *config, ls_dataset **out);

// Collective. NULL is fine.
void ls_dataset_destroy(ls_dataset **dataset);

// ---- what it is ----------------------------------------------------------------------------------------------------

const char *ls_dataset_name(const ls_dataset *dataset);     // owned by the dataset
int64_t ls_dataset_train_count(const ls_dataset *dataset);  // samples, at least 1
int64_t ls_dataset_test_count(const ls_dataset *dataset);   // 0: there is no test set
// The index-th field, from 0, in the order of the description; NULL past the last. Owned by the dataset.
const ls_field *ls_dataset_field(const ls_dataset *dataset, int index);
const ls_field *ls_dataset_find_field(const ls_dataset *dataset, const char *name);  // NULL: there is none
// Of the field "image"; {0}: none. Where images have sizes of their own, as those of "images:DIR", (0, 0, channels): ls_model_build takes the
// network's own in place of a 0, and trainers resize images to what the network takes.
ls_shape ls_dataset_image_shape(const ls_dataset *dataset);
int ls_dataset_classes(
    const ls_dataset *dataset);  // of the field "label", else of "targets"; 0: none, or not class numbers
// Of samples with any number of labels at once: how many the field "label" has, a row of 0 and 1; 0: it is none.
int ls_dataset_labels(const ls_dataset *dataset);
// Of samples that numbers are learned of: how many the field "target" has, a row of F32; 0: it is none, or there are labels.
int ls_dataset_targets(const ls_dataset *dataset);
// Of the field "tokens": (T) of sequences; {0}: none. *vocabulary, unless NULL: how many tokens there are, 0 where that is not known.
ls_shape ls_dataset_sequence_shape(const ls_dataset *dataset, int *vocabulary);
const char *ls_dataset_class(const ls_dataset *dataset,
                             int index);  // the name of a class, "frog", or of a label; NULL: it has none
// Of samples that are numbers of a table: the name of the column that the index-th number is from, "width"; NULL: it has none, or there are no more. Owned
// by the dataset.
const char *ls_dataset_column(const ls_dataset *dataset, int index);
// Mean and deviation of pixel / 255 over the training set's images, channel by channel: (C) doubles each. As --normalize dataset
// takes them. Errors: INVALID_ARGUMENT (no images of U8), those of reading a sample, OUT_OF_MEMORY.
ls_status ls_dataset_channels(const ls_dataset *dataset, double *mean, double *deviation);
// From now on the samples to train on are those to evaluate on, too, in place of a test set. Before a trainer is made with it, on all
// workers alike. NULL is fine.
void ls_dataset_test_on_training(ls_dataset *dataset);
// Of all values, shapes and types (of a callback: of the samples that were read): equal data, equal number, on every machine.
uint64_t ls_dataset_fingerprint(const ls_dataset *dataset);
// A sentence about what a person should know, on the worker that found it: classes that no sample to train on has, an index of files that could not be kept.
// "": nothing. Owned by the dataset.
const char *ls_dataset_note(const ls_dataset *dataset);
double ls_dataset_read_seconds(
    const ls_dataset *dataset);  // what opening or creating it took the slowest worker of this host

// ---- images in files -----------------------------------------------------------------------------------------------

typedef struct ls_image {
    int64_t height, width, channels;
    uint8_t *pixels;  // (height, width, channels): grey, or red, green and blue
} ls_image;

// Reads a PNG or JPEG image. `channels` 1: as grey, by the brightness of colours (ITU-R BT.601); 3: in colour; 0: as it is. Colours for printing
// (CMYK) become red, green and blue, and an image is turned as its Exif data say that the camera was held; transparency is left out. The caller
// frees it. Not collective. Errors: NOT_FOUND, IO, BAD_DATA (damaged, cut off, no such image, or said to be larger than any, which
// is found out before memory is taken), UNSUPPORTED (another format), OUT_OF_MEMORY.
ls_status ls_image_read(const char *path, int channels, ls_image *out);
// The same of an image that is going to be resized to `height` x `width`: one that is at least twice as large is halved, up to three times, as
// datasets of images in files are (docs/datasets.md). A JPEG is, while it is decoded, which is faster.
ls_status ls_image_read_for(const char *path, int channels, int64_t height, int64_t width, ls_image *out);
// The same as ls_image_read of a file in memory; `name` is for sentences.
ls_status ls_image_decode(const char *name, const void *bytes, int64_t size, int channels, ls_image *out);
void ls_image_free(ls_image *image);  // NULL is fine
// Writes a grey or RGB image as a PNG file. Errors: INVALID_ARGUMENT (of other channels, of no pixels), IO, OUT_OF_MEMORY.
ls_status ls_image_write(const char *path, const ls_image *image);

// Bytes that an epoch of the training set reads from files, as they are stored; 0: the samples lie in memory, or are made. Not collective.
int64_t ls_dataset_stored_bytes(const ls_dataset *dataset);

// ---- sample by sample ----------------------------------------------------------------------------------------------

// What one sample is, as it is stored.
typedef struct ls_sample_info {
    const char *file;                 // that it lies in, owned by the dataset; NULL: none of its own, or none is known
    int64_t bytes;                    // that are read for it
    int label;                        // of the field "label", where that is a class number; else -1
    int64_t height, width, channels;  // of the field "image", where that is one; else 0
    int64_t number;  // what sentences and lists of exclusions call it: its number where none are left out by number
} ls_sample_info;

// Reads sample `sample` of the training set, or with `test` of the test set; what cannot be told for a failure is 0 or NULL then. `image` gets the pixels, where the sample
// has some, decoded, of any channels, and the caller frees it; NULL: it is not decoded. May be called from several threads at once. Not
// collective. Errors: INVALID_ARGUMENT (there is no such sample), those of reading and decoding it, with the file; OUT_OF_MEMORY.
ls_status ls_dataset_look(const ls_dataset *dataset, int test, int64_t sample, ls_sample_info *info, ls_image *image);

// Reads the values of sample `sample`: field f of the dataset goes to fields[f], in the field's shape and type, unless that is NULL. May be called from
// several threads at once. Not collective. Errors: INVALID_ARGUMENT (there is no such sample; an image that is still encoded, which ls_dataset_look
// decodes), those of reading it, OUT_OF_MEMORY.
ls_status ls_dataset_read(const ls_dataset *dataset, int test, int64_t sample, void *const *fields);

// ---- writing a dataset -------------------------------------------------------------------------------------------------

// What becomes of images on the way. All zero: nothing.
typedef struct ls_convert_config {
    int shards;  // above 1: the training set goes to so many files, one after the other, as train-00003-of-00016.tar for "tar:train.tar"
    int resize;  // the shorter side of all images becomes so many pixels, up to 4096, by the rule of docs/datasets.md; 0: they keep their size
    int quality;  // 1 to 100: all images become JPEG files of it; 0: those that are resized stay what they were, JPEG of 95 or PNG
    int pixels;  // 1: pixels that are not encoded; for "lmdb:DIR". "hdf5:FILE" and "numpy:FILE" always have these
    int image_size;  // all images become so many pixels high and wide, up to 4096, by the same rule; 0: they do not. Not with `resize`
    int workers;  // threads that read, decode and encode; 0: one. What is written does not depend on it
} ls_convert_config;

// Writes a dataset's images and classes in another format: "tar:FILE", "tfrecord:FILE", "recordio:FILE", with ",test=FILE" where there is a test
// set, "lmdb:DIR" in the same way, "images:DIR", "numpy:FILE.npz" or "hdf5:FILE", which have both sets; "hdf5:FILE,layout=caffe" has a file for each set.
// Arrays are of images of one size. The order stays. Where the config says nothing else, files of images are copied as they are and other images become PNG, so
// that what is trained on either has the same weights. A file is there when it is whole. Not collective: for one process. `config` NULL: all zero.
// Errors: INVALID_ARGUMENT (another format; no images with classes; a test set that would be
// lost; a config that does not go with the format), those of reading a sample, IO, OUT_OF_MEMORY.
ls_status ls_dataset_convert(const ls_dataset *dataset, const char *spec, const ls_convert_config *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
