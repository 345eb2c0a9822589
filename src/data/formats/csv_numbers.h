// Tables of numbers themselves: a line for each sample, columns of numbers, and what is learned of them.
#ifndef LS_DATA_FORMATS_CSV_NUMBERS_H
#define LS_DATA_FORMATS_CSV_NUMBERS_H

#include "data/records.h"

// Opens "csv:PATH,numbers=..." or "...,pixels=...": all of it in the host's memory. Collective over the host's workers. Errors: NOT_FOUND, IO; BAD_DATA (a cell that
// is no number, columns that are not there); INVALID_ARGUMENT (options that do not go together); OUT_OF_MEMORY.
ls_status ls__csv_numbers_open(ls_data_host *host, const char *path, const ls_records_settings *settings,
                               ls_dataset *out);

#endif
