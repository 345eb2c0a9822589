// "csv:FILE": a table of images, a line each: the file's path and its class. The first line may name the columns. Classes are words, numbered by the
// order of their bytes as folders are, or whole numbers where all of them are. RFC 4180, and tabs or semicolons in place of commas.
//
// Or several labels for an image, or none: a column of words with | between them, as the table of the NIH's chest X-rays has it ("Finding Labels"), or a
// column for each label with 0 or 1 in it.
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
#include "data/labels.h"

enum { MOST_COLUMNS = 256, MOST_CLASS_NUMBER = 10000000 };

static const ls_option table[] = {
    {"test", LS_OPTION_TEXT, LS_RECORDS_OPTION(test), .metavar = "FILE", .help = "the test set's table"},
    {"root", LS_OPTION_TEXT, LS_RECORDS_OPTION(root), .metavar = "DIR", .help = "where paths begin"},
    {"file", LS_OPTION_TEXT, LS_RECORDS_OPTION(image), .metavar = "NAME", .help = "the column of paths"},
    {"label", LS_OPTION_TEXT, LS_RECORDS_OPTION(label), .metavar = "NAME", .help = "the column of classes"},
    {"labels", LS_OPTION_TEXT, LS_RECORDS_OPTION(labels), .metavar = "NAME",
     .help = "the column of several labels, with | between them"},
    {"columns", LS_OPTION_TEXT, LS_RECORDS_OPTION(columns), .metavar = "NAMES",
     .help = "columns that are labels, 0 or 1 in each line, with | between their names; all: all others"},
    {"names", LS_OPTION_TEXT, LS_RECORDS_OPTION(names), .metavar = "FILE", .help = "all labels there are, a line each"},
    {"none", LS_OPTION_TEXT, LS_RECORDS_OPTION(none), .metavar = "WORD",
     .help = "stands for no label; No Finding does"},
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

// What a line tells of its image.
typedef enum content { CLASS, LIST, COLUMNS } content;

typedef struct reader {
    const ls_records_settings *set;
    ls_records_builder *builder;
    ls_labels *labels;  // of samples that have several
    const char *path;
    char root[4096];
    int64_t line, latest;  // latest: the class of the line before
    char separator;
    content kind;
    int file, label;           // columns
    int64_t of[MOST_COLUMNS];  // by column: its label; -1: it is none
    int columns;               // with one
    int which;                 // of the two sets
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

static ls_status no_column(const reader *r, const char *name) {
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "the first line of %s names no column \"%s\": file=NAME says which has the paths, and label=NAME, "
                   "labels=NAME or columns=NAME|NAME which have what is in the image",
                   r->path, name);
}

// Whether `name` is one of those that columns=A|B asks for.
static int is_asked(const char *asked, const char *name) {
    size_t length = strlen(name);
    for (const char *at = asked;; at++) {
        size_t n = strcspn(at, "|");
        if (n == length && memcmp(at, name, n) == 0) return 1;
        at += n;
        if (!*at) return 0;
    }
}

// Columns of labels: those that are asked for, or all but that of the paths. The training set's are the labels, in their order, where no file
// lists them; the test set has the same in any order.
static ls_status take_columns(reader *r, const row *names) {
    int all = strcmp(r->set->columns, "all") == 0, add = r->which == LS_RECORDS_TRAIN;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->cell[i];
        r->of[i] = -1;
        if (i == r->file || !(all || is_asked(r->set->columns, name))) continue;
        if (!*name) return wrong(r, "has a column of labels without a name");
        LS_TRY(ls_labels_number(r->labels, name, add, &r->of[i]));
        if (r->of[i] < 0)
            return LS_FAIL(LS_STATUS_BAD_DATA, "the column %s of %s is a label that %s does not have", name, r->path,
                           r->labels->list ? r->labels->list : "the training set");
        for (int k = 0; k < i; k++)
            if (r->of[k] == r->of[i]) return wrong(r, "names a column twice");
        r->columns++;
    }
    for (int64_t c = 0; c < r->builder->class_count; c++) {
        int there = 0;
        for (int i = 0; i < names->count; i++) there |= r->of[i] == c;
        if (!there) return no_column(r, ls_records_class(r->builder, c));
    }
    return LS_OK;
}

// Every one that columns=A|B asks for is there.
static ls_status check_asked(const reader *r, const row *names) {
    char name[256];
    for (const char *at = r->set->columns;; at++) {
        size_t n = strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (column(names, name, NULL) < 0) return no_column(r, name);
        at += n;
        if (!*at) return LS_OK;
    }
}

// Whether the first line names columns; else they are the first and the second. The training set's table decides whether images have a class each.
static ls_status take_names(reader *r, const row *first, int *names) {
    static const char *const files[] = {"file",  "filename",    "file_name",   "path", "filepath",
                                        "image", "image index", "image_index", NULL};
    static const char *const labels[] = {"label", "class", "category", "target", NULL};
    static const char *const lists[] = {"labels", "finding labels", "finding_labels", NULL};
    const ls_records_settings *s = r->set;
    int training = r->which == LS_RECORDS_TRAIN;
    r->file = column(first, s->image, files);
    r->label = s->columns || s->labels || (!training && r->kind == LIST) ? -1 : column(first, s->label, labels);
    int list = s->columns || s->label || (r->label >= 0 && training) ? -1 : column(first, s->labels, lists);
    if (training) r->kind = s->columns ? COLUMNS : s->labels || list >= 0 ? LIST : CLASS;
    if (r->kind == LIST) r->label = list;
    *names = r->file >= 0 && (r->kind == COLUMNS || r->label >= 0);
    if (r->file < 0 && (s->image || r->kind != CLASS)) return no_column(r, s->image ? s->image : "file");
    if (r->kind == COLUMNS && s->columns) {
        if (strcmp(s->columns, "all") != 0) LS_TRY(check_asked(r, first));
        return take_columns(r, first);
    }
    if (*names) return LS_OK;
    if (r->kind == LIST) return no_column(r, s->labels ? s->labels : "labels");
    if (s->image || s->label) return no_column(r, s->label ? s->label : "label");
    r->file = 0;
    r->label = 1;
    return LS_OK;
}

// --- samples ---------------------------------------------------------------------------------------------------------

static ls_status take_class(reader *r, const char *label, int32_t *out) {
    if (!*label) return wrong(r, "has an empty path or class");
    int64_t class = r->latest < r->builder->class_count && strcmp(ls_records_class(r->builder, r->latest), label) == 0
                        ? r->latest
                        : ls_records_find_class(r->builder, label);
    if (class < 0) {
        if (r->which == LS_RECORDS_TEST) return wrong(r, "has a class that the training set does not have");
        class = r->builder->class_count;
        LS_TRY(ls_records_add_class(r->builder, label));
    }
    r->latest = class;
    *out = (int32_t) class;
    return LS_OK;
}

static ls_status take_label(reader *r, const char *name) {
    int64_t label;
    int again;
    if (!*name) return wrong(r, "has an empty label between two |");
    LS_TRY(ls_labels_number(r->labels, name, r->which == LS_RECORDS_TRAIN, &label));
    if (label < 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has the label %s, which %s does not have",
                       (long long)r->line, r->path, name, r->labels->list ? r->labels->list : "the training set");
    LS_TRY(ls_labels_mark(r->labels, label, &again));
    if (!again) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has the label %s twice", (long long)r->line, r->path, name);
}

static char *trim(char *text) {
    text += strspn(text, " \t");
    for (size_t n = strlen(text); n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t');) text[--n] = 0;
    return text;
}

// "A|B", with or without blanks around; nothing, or the word for it, is no label.
static ls_status take_list(reader *r, char *list) {
    const char *none = r->set->none ? r->set->none : "No Finding";
    int several = strchr(list, '|') != NULL;
    list = trim(list);
    if (!*list || strcasecmp(list, none) == 0) return LS_OK;
    for (char *at = list, *next; at; at = next) {
        next = strchr(at, '|');
        if (next) *next++ = 0;
        at = trim(at);
        if (several && strcasecmp(at, none) == 0)
            return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has labels and also %s, which says that there are none",
                           (long long)r->line, r->path, at);
        LS_TRY(take_label(r, at));
    }
    return LS_OK;
}

static ls_status take_flags(reader *r, const row *line) {
    for (int i = 0; i < line->count; i++) {
        const char *cell = line->cell[i];
        if (r->of[i] < 0 || !*cell || strcmp(cell, "0") == 0 || strcmp(cell, "0.0") == 0) continue;
        if (strcmp(cell, "1") != 0 && strcmp(cell, "1.0") != 0)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s has \"%.40s\" for the label %s: it is there, 1, or not, 0",
                           (long long)r->line, r->path, cell, ls_records_class(r->builder, r->of[i]));
        LS_TRY(ls_labels_mark(r->labels, r->of[i], NULL));
    }
    return LS_OK;
}

static ls_status take_content(reader *r, const row *line, int32_t *class) {
    if (r->kind == CLASS) return take_class(r, line->cell[r->label], class);
    LS_TRY(r->kind == LIST ? take_list(r, line->cell[r->label]) : take_flags(r, line));
    return ls_labels_end(r->labels, class);
}

static ls_status find_path(const reader *r, const char *file, char path[4096]) {
    if (!*file) return wrong(r, r->kind == CLASS ? "has an empty path or class" : "has an empty path");
    int n = file[0] == '/' ? snprintf(path, 4096, "%s", file) : snprintf(path, 4096, "%s/%s", r->root, file);
    return n < 0 || n >= 4096 ? wrong(r, "has a path of more than 4000 bytes") : LS_OK;
}

// The last column that a line has to have.
static int last_column(const reader *r) {
    int last = r->file;
    if (r->kind != COLUMNS) return r->label > last ? r->label : last;
    for (int i = 0; i < MOST_COLUMNS; i++)
        if (r->of[i] >= 0 && i > last) last = i;
    return last;
}

static ls_status take_row(reader *r, const row *line) {
    char path[4096];
    struct stat there;
    if (line->count <= last_column(r))
        return wrong(r, r->kind == COLUMNS ? "has fewer columns than the first line"
                                           : "has fewer columns than a path and a class take");
    LS_TRY(find_path(r, line->cell[r->file], path));
    if (ls_records_excluded(r->builder, r->root, path)) return LS_OK;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode))
        return LS_FAIL(LS_STATUS_NOT_FOUND, "line %lld of %s: cannot read %s: %s; root=DIR says where paths begin",
                       (long long)r->line, r->path, path, errno ? strerror(errno) : "it is no file");
    if (there.st_size > LS_IMAGE_MAX_FILE) return wrong(r, "names a file of more than 256 MB");
    ls_record record = {.bytes = there.st_size, .size = (uint32_t)there.st_size};
    LS_TRY(take_content(r, line, &record.class));
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

static ls_status list_table(const ls_records_settings *s, ls_labels *labels, const char *path, int which,
                            content *kind) {
    ls_records_builder *b = labels->builder;
    reader r = {.set = s, .builder = b, .labels = labels, .path = path, .which = which, .kind = *kind};
    for (int i = 0; i < MOST_COLUMNS; i++) r.of[i] = -1;
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
    *kind = r.kind;
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

// --- several labels --------------------------------------------------------------------------------------------------

typedef struct mention {
    const char *path;
    int64_t file;
} mention;

static int by_path(const void *a, const void *b) {
    const mention *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

// An image has one line: which of two would count? Files were added line by line, the training set's first.
static ls_status check_once(const ls_records_builder *b, const ls_records_settings *s, const char *path) {
    mention *list;
    ls_status status = LS_OK;
    int64_t n = b->file_count, trained = b->count[LS_RECORDS_TRAIN];
    LS_TRY(ls_calloc(n, sizeof *list, &list));
    for (int64_t i = 0; i < n; i++) list[i] = (mention){b->text + b->file[i].name, i};
    qsort(list, (size_t)n, sizeof *list, by_path);
    for (int64_t i = 1; i < n && status == LS_OK; i++) {
        if (strcmp(list[i].path, list[i - 1].path) != 0) continue;
        int both = list[i - 1].file < trained && list[i].file >= trained;
        status =
            both ? LS_FAIL(LS_STATUS_BAD_DATA, "%s is in %s, to train on, and in %s, to test with: leave it out of one",
                           list[i].path, path, s->test)
                 : LS_FAIL(LS_STATUS_BAD_DATA, "%s has two lines in %s: write all its labels into one", list[i].path,
                           list[i].file < trained ? path : s->test);
    }
    free(list);
    return status;
}

static ls_status check_options(const ls_records_settings *s, const char *path) {
    int several = (s->label != NULL) + (s->labels != NULL) + (s->columns != NULL);
    if (several < 2) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "csv:%s: label=NAME is the column of one class for each image, labels=NAME of several labels, and "
                   "columns=NAME|NAME are labels themselves: give one of them",
                   path);
}

// After the split: a label is to be learned from what is left to train on.
static ls_status number_labels(ls_labels *labels, const ls_records_settings *s, const char *path, int sort) {
    ls_records_builder *b = labels->builder;
    LS_TRY(check_once(b, s, path));
    b->label_width = (int)b->class_count;
    if (s->split > 0 && b->label_width > 0) LS_TRY(ls_records_split(b, s->split));
    ls_status status = ls_labels_finish(labels, sort, path);
    return status == LS_STATUS_BAD_DATA && s->split > 0 ? ls__fail_context(status, "after validation-split: ") : status;
}

static ls_status read_tables(const char *path, const ls_records_settings *s, ls_labels *labels, content *kind) {
    if (s->names) LS_TRY(ls_records_witness(labels->builder, LS_WITNESS_FILE, s->names));
    if (s->names) LS_TRY(ls_labels_read_list(labels, s->names));
    LS_TRY(list_table(s, labels, path, LS_RECORDS_TRAIN, kind));
    if (*kind == CLASS && (s->names || s->none))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "csv:%s: names=FILE and none=WORD are for several labels: labels=NAME or columns=NAME|NAME says "
                       "where they stand",
                       path);
    if (s->test) LS_TRY(list_table(s, labels, s->test, LS_RECORDS_TEST, kind));
    if (*kind != CLASS) return number_labels(labels, s, path, *kind == LIST && !labels->list);
    LS_TRY(number_classes(labels->builder));
    return s->split > 0 ? ls_records_split(labels->builder, s->split) : LS_OK;
}

static ls_status list_all(const void *self, const char *path, const ls_records_settings *s, ls_records_builder *b) {
    ls_labels labels = {.builder = b};
    content kind = CLASS;
    LS_TRY(check_options(s, path));
    ls_status status = read_tables(path, s, &labels, &kind);
    ls_labels_free(&labels);
    LS_TRY(status);
    ls_records_measure(b, s->channels);
    return LS_OK;
}

static ls_status csv_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_records_format format = {.name = "csv",
                                             .table = table,
                                             .list = list_all,
                                             .what = "file",
                                             .how = "paths begin where the dataset's do, or at /"};
    return ls_records_open(&format, host, argument, out);
}

const ls_format ls_format_csv = {
    .name = "csv",
    .help =
        "images that a table names, a line each, its path and its class, or several labels: "
        "csv:train.csv,test=test.csv; "
        "read while training",
    .argument = "FILE",
    .names = 1,
    .open = csv_open,
};
