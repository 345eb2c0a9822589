// "csv:FILE": a table of images, a line each: the file's path and its class. The first line may name the columns. Classes are words, numbered by the
// order of their bytes as folders are, or whole numbers where all of them are. RFC 4180, and tabs or semicolons in place of commas.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "data/image.h"
#include "data/records.h"

enum { MOST_COLUMNS = 256, MOST_CLASS_NUMBER = 10000000 };

static const ls_option table[] = {
    {"test", LS_OPTION_TEXT, LS_RECORDS_OPTION(test), .metavar = "FILE", .help = "the test set's table"},
    {"root", LS_OPTION_TEXT, LS_RECORDS_OPTION(root), .metavar = "DIR", .help = "where paths begin"},
    {"file", LS_OPTION_TEXT, LS_RECORDS_OPTION(image), .metavar = "NAME", .help = "the column of paths"},
    {"label", LS_OPTION_TEXT, LS_RECORDS_OPTION(label), .metavar = "NAME", .help = "the column of classes"},
    LS_RECORDS_SPLIT(" of each class"),
    LS_RECORDS_CHANNELS,
    LS_RECORDS_EXCLUDE,
    {.name = NULL},
};

// A line of a table, taken apart in place.
typedef struct row {
    char *cell[MOST_COLUMNS];
    int count;
} row;

typedef struct reader {
    const ls_records_settings *set;
    ls_records_builder *builder;
    const char *path;
    char root[4096];
    int64_t line, latest;  // latest: the class of the line before
    char separator;
    int file, label;  // columns
    int which;        // of the two sets
} reader;

// --- lines -----------------------------------------------------------------------------------------------------------

static ls_status wrong(const reader *r, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s %s", (long long)r->line, r->path, why);
}

// Cells in quotes may have separators in them, and quotes twice; not ends of lines, which paths and classes do not have.
static ls_status take_apart(const reader *r, char *text, row *out) {
    size_t length = strcspn(text, "\r\n");
    char *from = text;
    text[length] = 0;
    out->count = 0;
    for (;;) {
        if (out->count == MOST_COLUMNS) return wrong(r, "has more than 256 columns");
        char *to = from, *start = from;
        if (*from == '"') {
            for (from++; *from && (*from != '"' || from[1] == '"'); *to++ = *from++)
                if (*from == '"') from++;
            if (!*from) return wrong(r, "ends in quotes that were not closed");
            from++;
            if (*from && *from != r->separator) return wrong(r, "goes on behind closing quotes");
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

static int column(const row *names, const char *asked, const char *const *usual) {
    for (int i = 0; i < names->count; i++) {
        if (asked && strcmp(names->cell[i], asked) == 0) return i;
        for (int k = 0; !asked && usual[k]; k++)
            if (strcasecmp(names->cell[i], usual[k]) == 0) return i;
    }
    return -1;
}

// Whether the first line names columns; else they are the first and the second.
static ls_status take_names(reader *r, const row *first, int *names) {
    static const char *const files[] = {"file", "filename", "file_name", "path", "filepath", "image", NULL};
    static const char *const labels[] = {"label", "class", "category", "target", NULL};
    r->file = column(first, r->set->image, files);
    r->label = column(first, r->set->label, labels);
    *names = r->file >= 0 && r->label >= 0;
    if (*names) return LS_OK;
    if (r->set->image || r->set->label)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "the first line of %s names no column \"%s\": file=NAME and label=NAME are two of its words", r->path,
            r->file < 0 ? (r->set->image ? r->set->image : "file") : (r->set->label ? r->set->label : "label"));
    r->file = 0;
    r->label = 1;
    return LS_OK;
}

// --- samples ---------------------------------------------------------------------------------------------------------

static ls_status take_row(reader *r, const row *line) {
    char path[4096];
    struct stat there;
    int most = r->file > r->label ? r->file : r->label;
    if (line->count <= most) return wrong(r, "has fewer columns than a path and a class take");
    const char *file = line->cell[r->file], *label = line->cell[r->label];
    if (!*file || !*label) return wrong(r, "has an empty path or class");
    int n =
        file[0] == '/' ? snprintf(path, sizeof path, "%s", file) : snprintf(path, sizeof path, "%s/%s", r->root, file);
    if (n < 0 || n >= (int)sizeof path) return wrong(r, "has a path of more than 4000 bytes");
    if (ls_records_excluded(r->builder, r->root, path)) return LS_OK;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode))
        return LS_FAIL(LS_STATUS_NOT_FOUND, "line %lld of %s: cannot read %s: %s; root=DIR says where paths begin",
                       (long long)r->line, r->path, path, errno ? strerror(errno) : "it is no file");
    if (there.st_size > LS_IMAGE_MAX_FILE) return wrong(r, "names a file of more than 256 MB");
    int64_t class = r->latest < r->builder->class_count && strcmp(ls_records_class(r->builder, r->latest), label) == 0
                        ? r->latest
                        : ls_records_find_class(r->builder, label);
    if (class < 0) {
        if (r->which == LS_RECORDS_TEST) return wrong(r, "has a class that the training set does not have");
        class = r->builder->class_count;
        LS_TRY(ls_records_add_class(r->builder, label));
    }
    r->latest = class;
    ls_record record = {.bytes = there.st_size, .class = (int32_t) class, .size = (uint32_t)there.st_size};
    LS_TRY(ls_records_add_file(r->builder, path, there.st_size, ls_records_time(&there), &record.file));
    return ls_records_add(r->builder, r->which, record);
}

static ls_status read_lines(reader *r, FILE *file) {
    char *text = NULL;
    size_t room = 0;
    row *line;
    ls_status status = ls_calloc(1, sizeof *line, &line);
    int names = 0;
    while (status == LS_OK && getline(&text, &room, file) >= 0) {
        r->line++;
        if (strspn(text, "\r\n \t") == strlen(text)) continue;
        char *start = r->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
        int first = !r->separator;
        if (first) r->separator = separator_of(start);
        status = take_apart(r, start, line);
        if (status == LS_OK && first) status = take_names(r, line, &names);
        if (status == LS_OK && !(first && names)) {
            errno = 0;
            status = take_row(r, line);
        }
    }
    free(line);
    free(text);
    return status;
}

static ls_status list_table(const ls_records_settings *s, ls_records_builder *b, const char *path, int which) {
    reader r = {.set = s, .builder = b, .path = path, .which = which};
    const char *slash = strrchr(path, '/');
    if (s->root)
        snprintf(r.root, sizeof r.root, "%s", s->root);
    else
        snprintf(r.root, sizeof r.root, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    LS_TRY(ls_records_witness(b, LS_WITNESS_FILE, path));
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       strerror(errno));
    ls_status status = read_lines(&r, file);
    fclose(file);
    LS_TRY(status);
    if (b->count[which] > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no samples: each line is the path of an image and its class", path);
}

// --- classes ---------------------------------------------------------------------------------------------------------

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
static ls_status number_classes(ls_records_builder *b) {
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

static ls_status list_all(const void *self, const char *path, const ls_records_settings *s, ls_records_builder *b) {
    LS_TRY(list_table(s, b, path, LS_RECORDS_TRAIN));
    if (s->test) LS_TRY(list_table(s, b, s->test, LS_RECORDS_TEST));
    LS_TRY(number_classes(b));
    if (s->split > 0) LS_TRY(ls_records_split(b, s->split));
    ls_records_measure(b, s->channels);
    return LS_OK;
}

static ls_status csv_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_records_format format = {.name = "csv", .table = table, .list = list_all};
    return ls_records_open(&format, host, argument, out);
}

const ls_format ls_format_csv = {
    .name = "csv",
    .help =
        "images that a table names, a line each, its path and its class: csv:train.csv,test=test.csv; read while "
        "training",
    .argument = "FILE",
    .open = csv_open,
};
