// Tables in text: lines of cells with commas, semicolons or tabs between them (RFC 4180), and classes in them. What formats of tables share.
#ifndef LS_DATA_FORMATS_CSV_LINES_H
#define LS_DATA_FORMATS_CSV_LINES_H

#include "data/records.h"

enum { LS__CSV_MOST_COLUMNS = 4096 };

// A line of a table, taken apart in place.
typedef struct ls__csv_row {
    char *cell[LS__CSV_MOST_COLUMNS];
    int count;
} ls__csv_row;

// A table while it is read.
typedef struct ls__csv_file {
    const char *path;
    int64_t line;
    int64_t at, bytes;  // of this line, where it lies in the file
    char separator;
} ls__csv_file;

// BAD_DATA: "line 3 of FILE WHY".
ls_status ls__csv_wrong(const ls__csv_file *file, const char *why);

// Takes a line apart in place, which ends in zero. Errors: BAD_DATA (cells that cannot be told apart).
ls_status ls__csv_take_apart(const ls__csv_file *file, char *text, ls__csv_row *out);

// Reads `path` from its first line to its last, those without text left out; all have as many
// cells. `take` gets each taken apart; `first` is 1 for the first. Errors: NOT_FOUND, IO, BAD_DATA, OUT_OF_MEMORY, those of take.
ls_status ls__csv_read(const char *path, ls__csv_file *file, void *self,
                       ls_status (*take)(void *self, const ls__csv_row *row, int first));

// The column that has the name that is asked for by `option`, or where `asked` is NULL one of the `usual` (NULL at the end,
// in large or small letters) into *out; -1: none. Errors: BAD_DATA (there are two).
ls_status ls__csv_find(const ls__csv_file *file, const ls__csv_row *names, const char *option, const char *asked,
                       const char *const *usual, int *out);
// Whether `name` is one of the names with | between them, or these are "all".
int ls__csv_is_asked(const char *asked, const char *name);
// The first of these names that is no column, into `name`; 0: all of them are, or they are "all".
int ls__csv_lacks(const ls__csv_row *names, const char *asked, char name[256]);

// A finite number in fp32. 0: it is none.
int ls__csv_number(const char *cell, float *out);

// The class of that name, as it comes; *latest is the one of the line before. A test set has no new ones. Errors: BAD_DATA, OUT_OF_MEMORY.
ls_status ls__csv_class(const ls__csv_file *file, ls_records_builder *builder, int test, const char *label,
                        int64_t *latest, int32_t *out);
// Classes were numbered as they came: now by the order of their names' bytes, or by the whole numbers that all of them are. Errors: OUT_OF_MEMORY.
ls_status ls__csv_number_classes(ls_records_builder *builder);

#endif
