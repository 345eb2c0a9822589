// The index of records, kept in a folder of caches, so that it is made once: listing a million files takes minutes, reading what was listed takes a
// second.
//
// It is kept in $XDG_CACHE_HOME/lockstep, else in $HOME/.cache/lockstep, where making it took at least LS_INDEX_SECONDS. It is one file for each
// dataset: a header, a key (format and argument, and the folder these are meant from), what it was made from (*witnesses*: folders, tables and files with
// size and time), the records, and a checksum. One that is damaged, of another key or version, of another user, or whose witnesses have changed, is as
// none: the index is made anew. It is written beside its name and moved, so that two jobs may do so at once.
#ifndef LS_DATA_INDEX_H
#define LS_DATA_INDEX_H

#include "data/records.h"

// An index that is made sooner is not kept; LOCKSTEP_INDEX_SECONDS in the environment says otherwise, "never" for none at all.
#define LS_INDEX_SECONDS 2.0

// What the index of a dataset is called, into `path`, and what it is of, into `key`. 0: none is kept (there is no folder for it).
int ls__index_name(const char *format, const char *argument, char *path, size_t path_size, char *key, size_t key_size);

// Reads an index into an empty builder. 1: it is of this key and what it was made from is as it was; 0: it is not there, or not to be used,
// and the builder is empty.
int ls__index_read(const char *path, const char *key, ls_records_builder *builder);
// The same from memory, without looking at witnesses. NULL, or what is wrong with it.
const char *ls__index_parse(const void *bytes, int64_t size, const char *key, ls_records_builder *builder);

// Keeps a list that was made in so many seconds, unless these are few or something it was made from is younger than that. `note` gets a sentence
// where it ought to be kept and cannot be, else "".
void ls__index_write(const char *path, const char *key, const ls_records_builder *builder, double seconds, char *note,
                     size_t size);

#endif
