#define _GNU_SOURCE
#include "data/formats/csv_lines.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"

enum { MOST_CLASS_NUMBER = 10000000 };

// --- lines -----------------------------------------------------------------------------------------------------------

ls_status ls__csv_wrong(const ls__csv_file *file, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s %s", (long long)file->line, file->path, why);
}

// Cells in quotes may have separators in them, and quotes twice; not ends of lines, which paths and classes do not have.
ls_status ls__csv_take_apart(const ls__csv_file *r, char *text, ls__csv_row *out) {
    size_t length = strcspn(text, "\r\n");
    char *from = text;
    text[length] = 0;
    out->count = 0;
    for (;;) {
        if (out->count == LS__CSV_MOST_COLUMNS) return ls__csv_wrong(r, "has more than 4096 columns");
        char *to = from, *start = from;
        if (*from == '"') {
            for (from++; *from && (*from != '"' || from[1] == '"'); *to++ = *from++)
                if (*from == '"') from++;
            if (!*from) return ls__csv_wrong(r, "ends in quotes that were not closed");
            from++;
            if (*from && *from != r->separator) return ls__csv_wrong(r, "goes on behind closing quotes");
        } else {
            while (*from && *from != r->separator) from++;
            to = from;
        }
        int more = *from == r->separator && *from;
        *to = 0;
        out->cell[out->count++] = start;
        if (!more) return LS_OK;
        from++;
    }
}

static char separator_of(const char *line) {
    static const char candidates[] = ",;\t";
    for (const char *c = candidates; *c; c++)
        if (strchr(line, *c)) return *c;
    return ',';
}

static ls_status read_lines(ls__csv_file *f, FILE *file, ls__csv_row *row, void *self,
                            ls_status (*take)(void *self, const ls__csv_row *row, int first)) {
    char *text = NULL;
    size_t room = 0;
    ls_status status = LS_OK;
    ssize_t length;
    while (status == LS_OK && (length = getline(&text, &room, file)) >= 0) {
        f->line++;
        f->at += f->bytes;
        f->bytes = length;
        if (strspn(text, "\r\n \t") == strlen(text)) continue;
        char *start = f->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
        int first = !f->separator;
        if (first) f->separator = separator_of(start);
        status = ls__csv_take_apart(f, start, row);
        if (status == LS_OK) status = take(self, row, first);
    }
    free(text);
    return status;
}

ls_status ls__csv_read(const char *path, ls__csv_file *f, void *self,
                       ls_status (*take)(void *self, const ls__csv_row *row, int first)) {
    ls__csv_row *row;
    *f = (ls__csv_file){.path = path};
    LS_TRY(ls_calloc(1, sizeof *row, &row));
    FILE *file = ls_input_open(path);
    ls_status status = file ? read_lines(f, file, row, self, take)
                            : LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                                      ls_input_why(errno));
    if (file) fclose(file);
    free(row);
    return status;
}

// --- columns ---------------------------------------------------------------------------------------------------------

int ls__csv_column(const ls__csv_row *names, const char *asked, const char *const *usual) {
    for (int i = 0; i < names->count; i++) {
        if (asked && strcmp(names->cell[i], asked) == 0) return i;
        for (int k = 0; !asked && usual && usual[k]; k++)
            if (strcasecmp(names->cell[i], usual[k]) == 0) return i;
    }
    return -1;
}

int ls__csv_is_asked(const char *asked, const char *name) {
    size_t length = strlen(name);
    if (strcmp(asked, "all") == 0) return 1;
    for (const char *at = asked;; at++) {
        size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, name, n) == 0) return 1;
        at += n;
        if (!*at) return 0;
    }
}

int ls__csv_lacks(const ls__csv_row *names, const char *asked, char name[256]) {
    if (strcmp(asked, "all") == 0) return 0;
    for (const char *at = asked;; at++) {
        size_t n = strcspn(at, "|");
        snprintf(name, 256, "%.*s", (int)n, at);
        if (ls__csv_column(names, name, NULL) < 0) return 1;
        at += n;
        if (!*at) return 0;
    }
}

int ls__csv_number(const char *cell, float *out) {
    char *end;
    double value = strtod(cell, &end);
    *out = (float)value;
    end += strspn(end, " \t");
    return end != cell && !*end && isfinite(*out);
}

// --- classes ---------------------------------------------------------------------------------------------------------

ls_status ls__csv_class(const ls__csv_file *file, ls_records_builder *b, int test, const char *label, int64_t *latest,
                        int32_t *out) {
    if (!*label) return ls__csv_wrong(file, "has an empty path or class");
    int64_t class = *latest < b->class_count && strcmp(ls_records_class(b, *latest), label) == 0
                        ? *latest
                        : ls_records_find_class(b, label);
    if (class < 0) {
        if (test) return ls__csv_wrong(file, "has a class that the training set does not have");
        class = b->class_count;
        LS_TRY(ls_records_add_class(b, label));
    }
    *latest = class;
    *out = (int32_t) class;
    return LS_OK;
}

// Whether it is a whole number as one writes it, without a sign or zeros in front.
static int64_t number_of(const char *name) {
    char *end, again[24];
    long long n = strtoll(name, &end, 10);
    snprintf(again, sizeof again, "%lld", n);
    return !*end && strcmp(again, name) == 0 && n >= 0 && n < MOST_CLASS_NUMBER ? n : -1;
}

typedef struct named {
    const char *name;
    int64_t number, old;
} named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

// They were numbered as they came: now by their names, or by the numbers that all of them are.
ls_status ls__csv_number_classes(ls_records_builder *b) {
    int64_t n = b->class_count, *to, most = -1;
    named *list;
    LS_TRY(ls_calloc(2 * n, sizeof *list, &list));
    to = (int64_t *)(void *)(list + n);
    int numbers = 1;
    for (int64_t c = 0; c < n; c++) {
        list[c] = (named){ls_records_class(b, c), number_of(ls_records_class(b, c)), c};
        numbers &= list[c].number >= 0;
        if (list[c].number > most) most = list[c].number;
    }
    if (!numbers) qsort(list, (size_t)n, sizeof *list, by_name);
    for (int64_t c = 0; c < n; c++) to[list[c].old] = numbers ? list[c].number : c;
    for (int s = 0; s < LS_RECORDS_SETS; s++)
        for (int64_t i = 0; i < b->count[s]; i++) b->record[s][i].class = (int32_t)to[b->record[s][i].class];
    int64_t *names;
    ls_status status = ls_calloc(n, sizeof *names, &names);
    if (status == LS_OK && !numbers) {
        for (int64_t c = 0; c < n; c++) names[c] = b->class_name[list[c].old];
        memcpy(b->class_name, names, (size_t)n * sizeof *names);
    }
    free(names);
    free(list);
    LS_TRY(status);
    if (!numbers) return LS_OK;
    b->class_count = 0;
    for (int64_t c = 0; c <= most; c++) LS_TRY(ls_records_add_class(b, NULL));
    return LS_OK;
}
