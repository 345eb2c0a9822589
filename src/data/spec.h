// What comes behind a dataset's name: a path, and options with commas in front, as in images:photos,validation-split=0.2.
#ifndef LS_DATA_SPEC_H
#define LS_DATA_SPEC_H

#include <lockstep/options.h>
#include <lockstep/status.h>

typedef struct ls_spec {
    char text[4096];  // the path; texts of options point behind it
} ls_spec;

// Takes the argument of the format `name` apart: what ends in ",word=value" is an option of `table`, what is in front of these is the path,
// which may have commas. The slashes at its end are cut off. `values` must hold the defaults, and borrows texts from `out`.
// Errors: INVALID_ARGUMENT (no such option, which is near; a value that it does not take; no path, or one that is too long).
ls_status ls_spec_read(const char *name, const char *argument, const ls_option *table, void *values, ls_spec *out);

// Takes one option out of an argument, whatever the others are. `list` and `rest` (size each): its value, and the argument without it; *there 0: it has none, and
// they hold nothing. Errors: INVALID_ARGUMENT (longer than `size`, the option twice).
ls_status ls_spec_take(const char *name, const char *argument, const char *option, char *rest, char *value, size_t size,
                       int *there);

#endif
