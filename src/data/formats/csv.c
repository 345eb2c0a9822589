// "csv:FILE": a table of images, a line each: the file's path and its class. The first line may name the columns. Classes are words, numbered by the
// order of their bytes as folders are, or whole numbers where all of them are. RFC 4180, and tabs or semicolons in place of commas.
//
// Or several labels for an image, or none: a column of words with | between them, as the table of the NIH's chest X-rays has it ("Finding Labels"), or a
// column for each label with 0 or 1 in it. Or numbers that are learned, a column each. Tables whose samples are numbers themselves are csv_numbers.c.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/formats/csv_lines.h"
#include "data/formats/csv_numbers.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/spec.h"

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
    {"targets", LS_OPTION_TEXT, LS_RECORDS_OPTION(targets), .metavar = "NAMES",
     .help = "columns of numbers that are learned, with | between their names"},
    {"target", LS_OPTION_TEXT, LS_RECORDS_OPTION(target), .metavar = "NAME",
     .help = "the column of paths of images that are learned"},
    {"numbers", LS_OPTION_TEXT, LS_RECORDS_OPTION(numbers), .metavar = "NAMES",
     .help = "samples are numbers themselves: the columns, with | between their names; all: all that are left"},
    {"shape", LS_OPTION_TEXT, LS_RECORDS_OPTION(shape), .metavar = "HxWxC",
     .help = "what these numbers are, rows first"},
    {"pixels", LS_OPTION_TEXT, LS_RECORDS_OPTION(pixels), .metavar = "HxWxC",
     .help = "they are pixels from 0 to 255 of images of this shape"},
    LS_RECORDS_SPLIT(" of each class"),
    LS_RECORDS_CHANNELS,
    LS_RECORDS_EXCLUDE,
    {.name = NULL},
};

// What a line tells of its image.
typedef enum content { CLASS, LIST, COLUMNS, TARGETS, IMAGES } content;

typedef struct reader {
    const ls_records_settings *set;
    ls_records_builder *builder;
    ls_labels *labels;  // of samples that have several
    ls__csv_file file;
    char root[4096];
    int64_t latest;  // the class of the line before
    content kind;
    int path, label;                   // columns
    int64_t of[LS__CSV_MOST_COLUMNS];  // by column: its label, or its number; -1: it is none
    int last;                          // column that a line has to have
    int64_t seen;                      // lines so far, of which pairs are split while they are read
    int names;                         // 1: the first line names columns
    int which;                         // of the two sets
} reader;

// --- columns ---------------------------------------------------------------------------------------------------------

static ls_status wrong(const reader *r, const char *why) { return ls__csv_wrong(&r->file, why); }

static ls_status no_column(const reader *r, const char *name) {
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "the first line of %s names no column \"%s\": file=NAME says which has the paths, and label=NAME, "
                   "labels=NAME or columns=NAME|NAME which have what is in the image",
                   r->file.path, name);
}

// Columns of labels, or of numbers: those that are asked for, or all but that of the paths. The training set's are the labels, in their order, where no
// file lists them; the test set has the same in any order.
static ls_status take_columns(reader *r, const ls__csv_row *names) {
    const char *asked = r->kind == TARGETS ? r->set->targets : r->set->columns;
    int add = r->which == LS_RECORDS_TRAIN;
    char lacking[256];
    if (ls__csv_lacks(names, asked, lacking)) return no_column(r, lacking);
    for (int i = 0; i < names->count; i++) {
        const char *name = names->cell[i];
        r->of[i] = -1;
        if (i == r->path || !ls__csv_is_asked(asked, name)) continue;
        if (!*name) return wrong(r, "has a column of labels without a name");
        LS_TRY(ls_labels_number(r->labels, name, add, &r->of[i]));
        if (r->of[i] < 0)
            return LS_FAIL(LS_STATUS_BAD_DATA, "the column %s of %s is a label that %s does not have", name,
                           r->file.path, r->labels->list ? r->labels->list : "the training set");
        for (int k = 0; k < i; k++)
            if (r->of[k] == r->of[i]) return wrong(r, "names a column twice");
        if (i > r->last) r->last = i;
    }
    if (r->kind == TARGETS && r->builder->class_count == 0)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s has the paths in the column %s, which is no target: targets=NAME|NAME are columns of numbers",
            r->file.path, names->cell[r->path]);
    for (int64_t c = 0; c < r->builder->class_count; c++) {
        int there = 0;
        for (int i = 0; i < names->count; i++) there |= r->of[i] == c;
        if (!there) return no_column(r, ls_records_class(r->builder, c));
    }
    r->builder->targets = r->kind == TARGETS;
    if (r->builder->targets) r->builder->label_width = (int)r->builder->class_count;
    return LS_OK;
}

// Whether the first line names columns; else they are the first and the second. The training set's table decides whether images have a class each.
static ls_status take_names(reader *r, const ls__csv_row *first) {
    static const char *const files[] = {"file",  "filename",    "file_name",   "path", "filepath",
                                        "image", "image index", "image_index", NULL};
    static const char *const labels[] = {"label", "class", "category", "target", NULL};
    static const char *const lists[] = {"labels", "finding labels", "finding_labels", NULL};
    const ls_records_settings *s = r->set;
    int training = r->which == LS_RECORDS_TRAIN, several = s->columns || s->targets || s->target;
    int list = -1;
    r->label = -1;
    LS_TRY(ls__csv_find(&r->file, first, "file", s->image, files, &r->path));
    if (!several && !s->labels && (training || r->kind != LIST))
        LS_TRY(ls__csv_find(&r->file, first, "label", s->label, labels, &r->label));
    if (!several && !s->label && (r->label < 0 || !training))
        LS_TRY(ls__csv_find(&r->file, first, "labels", s->labels, lists, &list));
    if (training && s->target)
        r->kind = IMAGES;
    else if (training)
        r->kind = s->targets ? TARGETS : s->columns ? COLUMNS : s->labels || list >= 0 ? LIST : CLASS;
    if (r->kind == LIST) r->label = list;
    r->names = r->path >= 0 && (several || r->label >= 0);
    if (r->path < 0 && (s->image || r->kind != CLASS)) return no_column(r, s->image ? s->image : "file");
    r->last = r->path > r->label ? r->path : r->label;
    if (s->target) {
        LS_TRY(ls__csv_find(&r->file, first, "target", s->target, NULL, &r->label));
        r->last = r->path > r->label ? r->path : r->label;
        r->builder->pairs = 1;
        return r->label >= 0 ? LS_OK : no_column(r, s->target);
    }
    if (several) return take_columns(r, first);
    if (r->names) return LS_OK;
    if (r->kind == LIST) return no_column(r, s->labels ? s->labels : "labels");
    if (s->image || s->label) return no_column(r, s->label ? s->label : "label");
    r->path = 0;
    r->label = r->last = 1;
    return LS_OK;
}

// --- samples ---------------------------------------------------------------------------------------------------------

static ls_status take_label(reader *r, const char *name) {
    int64_t label;
    int again;
    if (!*name) return wrong(r, "has an empty label between two |");
    LS_TRY(ls_labels_number(r->labels, name, r->which == LS_RECORDS_TRAIN, &label));
    if (label < 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has the label %s, which %s does not have",
                       (long long)r->file.line, r->file.path, name,
                       r->labels->list ? r->labels->list : "the training set");
    LS_TRY(ls_labels_mark(r->labels, label, &again));
    if (!again) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has the label %s twice", (long long)r->file.line, r->file.path,
                   name);
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
                           (long long)r->file.line, r->file.path, at);
        LS_TRY(take_label(r, at));
    }
    return LS_OK;
}

static ls_status take_flags(reader *r, const ls__csv_row *line) {
    for (int i = 0; i < line->count; i++) {
        const char *cell = line->cell[i];
        if (r->of[i] < 0 || !*cell || strcmp(cell, "0") == 0 || strcmp(cell, "0.0") == 0) continue;
        if (strcmp(cell, "1") != 0 && strcmp(cell, "1.0") != 0)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s has \"%.40s\" for the label %s: it is there, 1, or not, 0",
                           (long long)r->file.line, r->file.path, cell, ls_records_class(r->builder, r->of[i]));
        LS_TRY(ls_labels_mark(r->labels, r->of[i], NULL));
    }
    return LS_OK;
}

// Numbers that the image is to be taken for.
static ls_status take_targets(reader *r, const ls__csv_row *line, int32_t *class) {
    float value[LS__CSV_MOST_COLUMNS];
    for (int i = 0; i <= r->last; i++)
        if (r->of[i] >= 0 && !ls__csv_number(line->cell[i], &value[r->of[i]]))
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "line %lld of %s has \"%.40s\" for the target %s: give each image a finite number, or leave "
                           "the line out",
                           (long long)r->file.line, r->file.path, line->cell[i],
                           ls_records_class(r->builder, r->of[i]));
    return ls_records_add_row(r->builder, (const uint8_t *)value, class);
}

static ls_status take_content(reader *r, const ls__csv_row *line, int32_t *class) {
    if (r->kind == TARGETS) return take_targets(r, line, class);
    if (r->kind == CLASS)
        return ls__csv_class(&r->file, r->builder, r->which == LS_RECORDS_TEST, line->cell[r->label], &r->latest,
                             class);
    LS_TRY(r->kind == LIST ? take_list(r, line->cell[r->label]) : take_flags(r, line));
    return ls_labels_end(r->labels, class);
}

static ls_status find_path(const reader *r, const char *file, char path[4096]) {
    if (!*file) return wrong(r, r->kind == CLASS ? "has an empty path or class" : "has an empty path");
    int n = file[0] == '/' ? snprintf(path, 4096, "%s", file) : snprintf(path, 4096, "%s/%s", r->root, file);
    return n < 0 || n >= 4096 ? wrong(r, "has a path of more than 4000 bytes") : LS_OK;
}

// A file, as a record of all of it.
static ls_status find_file(reader *r, const char *path, ls_record *out) {
    struct stat there;
    *out = (ls_record){0};
    errno = 0;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode))
        return LS_FAIL(LS_STATUS_NOT_FOUND, "line %lld of %s: cannot read %s: %s; root=DIR says where paths begin",
                       (long long)r->file.line, r->file.path, path, errno ? strerror(errno) : "it is no file");
    if (there.st_size > LS_IMAGE_MAX_FILE) return wrong(r, "names a file of more than 256 MB");
    out->bytes = there.st_size;
    out->size = (uint32_t)there.st_size;
    return ls_records_add_file(r->builder, path, there.st_size, ls_records_time(&there), &out->file);
}

// An image, and behind it the one that is learned of it.
static ls_status take_pair(reader *r, const ls__csv_row *line, const char *path) {
    char other[4096];
    ls_record image, target;
    int held = r->set->split > 0 && ls_records_held_out(r->set->split, r->seen++);
    int set = held ? LS_RECORDS_TEST : r->which;
    LS_TRY(find_path(r, line->cell[r->label], other));
    LS_TRY(find_file(r, path, &image));
    LS_TRY(find_file(r, other, &target));
    LS_TRY(ls_records_add(r->builder, set, image));
    return ls_records_add(r->builder, set, target);
}

static ls_status take_row(reader *r, const ls__csv_row *line) {
    char path[4096];
    ls_record record;
    int32_t class = 0;
    if (line->count <= r->last) return wrong(r, "has fewer columns than a path and a class take");
    LS_TRY(find_path(r, line->cell[r->path], path));
    if (ls_records_excluded(r->builder, r->root, path)) return LS_OK;
    if (r->kind == IMAGES) return take_pair(r, line, path);
    LS_TRY(find_file(r, path, &record));
    LS_TRY(take_content(r, line, &class));
    record.class = class;
    return ls_records_add(r->builder, r->which, record);
}

static ls_status take_line(void *self, const ls__csv_row *line, int first) {
    reader *r = self;
    if (first) LS_TRY(take_names(r, line));
    return first && r->names ? LS_OK : take_row(r, line);
}

static ls_status list_table(const ls_records_settings *s, ls_labels *labels, const char *path, int which,
                            content *kind) {
    ls_records_builder *b = labels->builder;
    reader r = {.set = s, .builder = b, .labels = labels, .which = which, .kind = *kind};
    for (int i = 0; i < LS__CSV_MOST_COLUMNS; i++) r.of[i] = -1;
    const char *slash = strrchr(path, '/');
    if (s->root)
        snprintf(r.root, sizeof r.root, "%s", s->root);
    else
        snprintf(r.root, sizeof r.root, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    LS_TRY(ls_records_witness(b, LS_WITNESS_FILE, path));
    LS_TRY(ls__csv_read(path, &r.file, &r, take_line));
    *kind = r.kind;
    if (b->count[which] > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no samples: each line is the path of an image and its class", path);
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
    int several =
        (s->label != NULL) + (s->labels != NULL) + (s->columns != NULL) + (s->targets != NULL) + (s->target != NULL);
    if (several < 2) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "csv:%s: label=NAME is the column of one class for each image, labels=NAME of several labels, "
        "columns=NAME|NAME are labels themselves, targets=NAME|NAME numbers, and target=NAME images: give one of them",
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
    if ((*kind == CLASS || *kind == TARGETS || *kind == IMAGES) && (s->names || s->none))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "csv:%s: names=FILE and none=WORD are for several labels: labels=NAME or columns=NAME|NAME says "
                       "where they stand",
                       path);
    if (s->test) LS_TRY(list_table(s, labels, s->test, LS_RECORDS_TEST, kind));
    // Pairs were split line by line, and have no classes: the list has one without a name.
    if (*kind == IMAGES) return ls_records_add_class(labels->builder, NULL);
    if (*kind == TARGETS) return s->split > 0 ? ls_records_split(labels->builder, s->split) : LS_OK;
    if (*kind != CLASS) return number_labels(labels, s, path, *kind == LIST && !labels->list);
    LS_TRY(ls__csv_number_classes(labels->builder));
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
    ls_records_settings s = {.channels = 3};
    ls_spec spec;
    LS_TRY(host->agree(host->self, ls_spec_read("csv", argument, table, &s, &spec)));
    if (s.numbers || s.pixels || s.shape) return ls__csv_numbers_open(host, spec.text, &s, out);
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
