// Tables of numbers themselves: a line for each sample, columns of numbers, and what is learned of them.
#ifndef LS_DATA_FORMATS_CSV_NUMBERS_H
#define LS_DATA_FORMATS_CSV_NUMBERS_H

#include "data/formats/csv_lines.h"

// Numbers of a sample are in memory up to so many bytes, as an index would be; of longer lines an index of them is, and they are read while training.
enum { LS__CSV_SMALL = 256 };

// Which columns of a table a sample's numbers are. Lies in memory shared by processes.
typedef struct ls__csv_columns {
    int32_t of[LS__CSV_MOST_COLUMNS];  // by column: the number that it is; -1: none
    int32_t last;                      // the column that a line has to have
    char separator;
} ls__csv_columns;

// A line's numbers, or pixels, to where they belong; *wrong is the first column in which there is none, -1 where all are. A line has `last` columns at least.
void ls__csv_numbers(const ls__csv_columns *columns, const ls__csv_row *row, int pixels, float *out, int *wrong);

// A source of lines that are records of files 0 and 1, whose columns are columns[0] and [1], as numbers of a shape, beside what the records have. All is borrowed but
// `records`, which is copied. Errors: OUT_OF_MEMORY.
ls_status ls__source_create_lines(const char *name, const ls_records *records, int set, const ls__csv_columns *columns,
                                  const ls_field *fields, int field_count, ls_source **out);

// Opens "csv:PATH,numbers=..." or "...,pixels=...", in the host's memory or as an index of it. Collective over the host's workers. Errors: NOT_FOUND, IO; BAD_DATA (a cell that
// is no number, columns that are not there); INVALID_ARGUMENT (options that do not go together); OUT_OF_MEMORY.
ls_status ls__csv_numbers_open(ls_data_host *host, const char *path, const ls_records_settings *settings,
                               ls_dataset *out);

#endif
