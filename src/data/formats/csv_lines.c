#include "data/formats/csv_lines.h"

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

typedef struct table {
    ls__csv_file *file;
    ls__csv_row *row;
    void *self;
    ls_status (*take)(void *self, const ls__csv_row *row, int first);
    int columns;  // of the first line
} table;

// Of another number of cells nobody knows which column each is of: names of lines in front, as R writes them, a separator
// within a cell, or a line that is cut off.
static ls_status other_count(const table *t) {
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "line %lld of %s has %d columns, and the first line %d: each has as many (cells with a separator in "
                   "them are written in quotes, and names of lines have a column with a name of its own)",
                   (long long)t->file->line, t->file->path, t->row->count, t->columns);
}

static ls_status take_line(void *self, const ls_lines *lines) {
    table *t = self;
    ls__csv_file *f = t->file;
    const char *text = lines->text;
    f->line = lines->number;
    f->at += f->bytes;
    f->bytes = lines->bytes;
    if (strspn(text, "\r\n \t") == strlen(text)) return LS_OK;
    const char *end = text + strcspn(text, "\r\n");
    if (*end == '\r' && strspn(end, "\r\n") != strlen(end))
        return ls__csv_wrong(f, "has a carriage return in it: lines end with a line feed");
    int first = !f->separator;
    if (first) f->separator = separator_of(text);
    LS_TRY(ls__csv_take_apart(f, lines->text, t->row));
    if (first) t->columns = t->row->count;
    return t->row->count == t->columns ? t->take(t->self, t->row, first) : other_count(t);
}

ls_status ls__csv_read(const char *path, ls__csv_file *f, void *self,
                       ls_status (*take)(void *self, const ls__csv_row *row, int first)) {
    table t = {.file = f, .self = self, .take = take};
    *f = (ls__csv_file){.path = path};
    LS_TRY(ls_calloc(1, sizeof *t.row, &t.row));
    ls_status status = ls_lines_read(path, "", &t, take_line);
    free(t.row);
    return status;
}

// --- columns ---------------------------------------------------------------------------------------------------------

static int is_named(const char *name, const char *asked, const char *const *usual) {
    if (asked) return strcmp(name, asked) == 0;
    for (int k = 0; usual && usual[k]; k++)
        if (strcasecmp(name, usual[k]) == 0) return 1;
    return 0;
}

ls_status ls__csv_find(const ls__csv_file *file, const ls__csv_row *names, const char *option, const char *asked,
                       const char *const *usual, int *out) {
    *out = -1;
    for (int i = 0; i < names->count; i++) {
        if (!is_named(names->cell[i], asked, usual)) continue;
        if (*out >= 0)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s names the columns \"%s\" and \"%s\", and either could be meant: %s=NAME "
                           "says which, and no two have one name",
                           (long long)file->line, file->path, names->cell[*out], names->cell[i], option);
        *out = i;
    }
    return LS_OK;
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
        int there = 0;
        for (int i = 0; i < names->count; i++) there |= strcmp(names->cell[i], name) == 0;
        if (!there) return 1;
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
