// What tables of options (lockstep/options.h) drive: the command line, --help, the config file, the run record and the line
// that workers compare. A new option is one new row.
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <lockstep/options.h>
#include <lockstep/status.h>

#define LS_MAX_WORDS 64

// What is left of a command line besides options.
typedef struct ls_words {
    const char *word[LS_MAX_WORDS];
    int count;
    int help;  // 1: -h or --help was there; everything after it is unread
} ls_words;

// Reads argv[0 .. argc-1]: --name value, --name=value, --flag, --no-flag, -h, --help; "--" ends options; at most
// `max_words` other words. The values must hold the defaults before. Text values point into argv.
// Errors: INVALID_ARGUMENT (names the option, what was expected, what was found; for an unknown option the nearest name).
ls_status ls_options_parse(const ls_option_set *sets, int argc, char *const *argv, int max_words, ls_words *out);

// The same with words of any number, into words[0 .. *count-1], which has room for argc of them; *help as above.
ls_status ls_options_parse_words(const ls_option_set *sets, int argc, char *const *argv, const char **words, int *count,
                                 int *help);

// Sets one option from text, as a config file does; a flag takes "true" or "false". Text is borrowed. Errors as above.
ls_status ls_options_assign(const ls_option_set *sets, const char *name, const char *text);

// The value as text. Returns `buffer`, or for text the value itself ("" for NULL).
const char *ls_option_text(const ls_option *option, const void *values, char *buffer, size_t size);

// All options as "name=value; name=value": what workers compare. Where that is longer than `size`, the end says "all=" and a sum of
// all values, so that two lines are equal only where the options are.
void ls_options_line(const ls_option_set *sets, char *text, size_t size);

// The options under their groups, aligned, at most `width` columns wide. The values must hold the defaults.
void ls_options_help(FILE *out, const ls_option_set *sets, int width);

// Prints `left` and, from `column` on, `text` wrapped at `width`.
void ls_print_entry(FILE *out, const char *left, int column, int width, const char *text);

// The one of the names that `word` was most likely meant to be, or NULL when none is near.
const char *ls_nearest(const char *word, const char *const *names, int count);

#endif
