#include "data/formats/csv_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/exclude.h"

#define MOST_VALUES ((int64_t)1 << 36)  // of a table

// A table while it is read, by worker 0. A record's place is that of its line, or, of numbers in memory, of its numbers among them.
typedef struct reader {
    const ls_records_settings *set;
    const char *const
        *wanted;  // the columns that the numbers are, where a network was trained on them by name; NULL: it was not
    ls_records_builder *builder;  // classes are those of samples, or targets' names
    ls_records_builder columns;   // its classes are the columns of numbers, in order
    ls__csv_file file;
    int which, pixels;  // pixels: whole numbers from 0 to 255
    int label;          // the column; -1: there is none
    ls__csv_columns map[LS_RECORDS_SETS];
    int target[LS__CSV_MOST_COLUMNS];  // as `of`, of targets
    int files;                         // 1: the tables are files, which can be read again
    int placed;                        // 1: so they are, line by line; 0: numbers are in memory
    int64_t latest;                    // the class of the line before
    float *values;                     // (rows, width)
    int64_t rows, room;
} reader;

static int64_t width_of(const reader *r) { return r->columns.class_count; }

// --- columns ---------------------------------------------------------------------------------------------------------

static ls_status no_column(const reader *r, const char *name) {
    if (r->wanted && ls_records_find_class(&r->columns, name) >= 0)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "the first line of %s names no column \"%s\", and the network was trained on one of that name, of "
            "%lld in all: name the columns as they were named there",
            r->file.path, name, (long long)r->columns.class_count);
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "the first line of %s names no column \"%s\": it names all of them, of which numbers=NAME|NAME are a "
        "sample's numbers (all: all that are left), and label=NAME its class or targets=NAME|NAME what is "
        "learned of them",
        r->file.path, name);
}

// A name's number among those of the training set's table, which are added as they come.
static ls_status place(reader *r, ls_records_builder *list, const char *name, int *out) {
    int64_t at = ls_records_find_class(list, name);
    if (at < 0 && r->which == LS_RECORDS_TRAIN) {
        at = list->class_count;
        LS_TRY(ls_records_add_class(list, name));
    }
    *out = (int)at;
    return LS_OK;
}

// Each column that the training set's table has.
static ls_status check_all(const reader *r, const ls_records_builder *list, const int32_t *of, int count) {
    for (int64_t c = 0; c < list->class_count; c++) {
        int times = 0;
        for (int i = 0; i < count; i++) times += of[i] == c;
        if (times == 0) return no_column(r, ls_records_class(list, c));
        if (times > 1) return ls__csv_wrong(&r->file, "names a column twice");
    }
    return LS_OK;
}

// A network knows its columns by their names, and those that are asked for are among them.
static ls_status place_as_trained(reader *r, const char *numbers) {
    for (int i = 0; r->wanted[i] && r->which == LS_RECORDS_TRAIN; i++)
        LS_TRY(ls_records_add_class(&r->columns, r->wanted[i]));
    for (const char *at = numbers; strcmp(numbers, "all") != 0;) {
        char name[256];
        size_t n = strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), at);
        if (ls_records_find_class(&r->columns, name) < 0)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "numbers= names the column \"%s\" of %s, which the network was not trained on: numbers=all "
                           "takes those that it was",
                           name, r->file.path);
        at += n;
        if (!*at++) break;
    }
    for (int i = 0; r->wanted[i] && strcmp(numbers, "all") != 0; i++)
        if (!ls__csv_is_asked(numbers, r->wanted[i]))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "numbers= leaves out the column \"%s\" of %s, which the network was trained on: numbers=all "
                           "takes those that it was",
                           r->wanted[i], r->file.path);
    return LS_OK;
}

// Where columns are named they are in that order, so that a table with others, or in another order, has the same samples.
static ls_status place_as_named(reader *r, const ls__csv_row *names, const char *numbers) {
    if (r->which != LS_RECORDS_TRAIN || strcmp(numbers, "all") == 0) return LS_OK;
    for (const char *at = numbers;; at++) {
        size_t n = strcspn(at, "|");
        for (int i = 0, unused; i < names->count; i++) {
            const char *name = names->cell[i];
            if (strlen(name) != n || memcmp(name, at, n) != 0 || i == r->label) continue;
            if (!r->set->targets || !ls__csv_is_asked(r->set->targets, name))
                LS_TRY(place(r, &r->columns, name, &unused));
        }
        at += n;
        if (!*at) return LS_OK;
    }
}

// Long lines are not kept in memory.
static void place_numbers(reader *r) {
    if (r->which == LS_RECORDS_TRAIN)
        r->placed = r->files && width_of(r) * (r->pixels ? 1 : (int64_t)sizeof(float)) > LS__CSV_SMALL;
}

static ls_status take_names(reader *r, const ls__csv_row *names) {
    ls__csv_columns *map = &r->map[r->which];
    static const char *const labels[] = {"label", "class", "category", "target", NULL};
    const ls_records_settings *s = r->set;
    const char *numbers = s->numbers ? s->numbers : "all";
    char lacking[256];
    int classes = r->label >= 0;  // of the training set's table
    r->label = -1;
    if (!s->targets) LS_TRY(ls__csv_find(&r->file, names, "label", s->label, labels, &r->label));
    for (int i = 0; r->wanted && r->wanted[i] && !s->label && r->label >= 0; i++)  // numbers, whatever the name
        if (strcmp(names->cell[r->label], r->wanted[i]) == 0) r->label = -1;
    if (s->label && r->label < 0) return no_column(r, s->label);
    if (r->which == LS_RECORDS_TEST && (r->label >= 0) != classes)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "the first line of %s names %s column of classes, and that of the table to train on %s: give both "
            "one of the same name (label=NAME), or none",
            r->file.path, classes ? "no" : "a", classes ? "does" : "does not");
    if (r->wanted) LS_TRY(place_as_trained(r, numbers));
    if (ls__csv_lacks(names, numbers, lacking)) return no_column(r, lacking);
    if (s->targets && ls__csv_lacks(names, s->targets, lacking)) return no_column(r, lacking);
    if (!r->wanted) LS_TRY(place_as_named(r, names, numbers));
    for (int i = 0; i < names->count; i++) {
        const char *name = names->cell[i];
        int target = s->targets && ls__csv_is_asked(s->targets, name);
        map->of[i] = r->target[i] = -1;
        if (target) LS_TRY(place(r, r->builder, name, &r->target[i]));
        int asked = r->wanted ? ls_records_find_class(&r->columns, name) >= 0 : ls__csv_is_asked(numbers, name);
        if (!target && i != r->label && asked) LS_TRY(place(r, &r->columns, name, &map->of[i]));
        if (map->of[i] >= 0 || target || i == r->label) map->last = i;
    }
    LS_TRY(check_all(r, &r->columns, map->of, names->count));
    if (s->targets) LS_TRY(check_all(r, r->builder, r->target, names->count));
    if (width_of(r) == 0) return no_column(r, numbers);
    r->builder->targets = s->targets != NULL;
    if (s->targets) r->builder->label_width = (int)r->builder->class_count;
    map->separator = r->file.separator;
    place_numbers(r);
    return LS_OK;
}

// --- lines -----------------------------------------------------------------------------------------------------------

static ls_status no_number(const reader *r, const ls__csv_row *row, const ls_records_builder *list, int i, int at) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has \"%.40s\" in the column %s: %s", (long long)r->file.line,
                   r->file.path, row->cell[i], ls_records_class(list, at),
                   r->pixels && list == &r->columns ? "a pixel is a whole number from 0 to 255"
                                                    : "give each sample a finite number, or leave the line out");
}

static ls_status take_values(reader *r, const ls__csv_row *row) {
    int64_t width = width_of(r), kept = r->placed ? 0 : r->rows * width;
    int wrong;
    if (!r->placed && (r->rows + 1) * width > MOST_VALUES)
        return ls__csv_wrong(&r->file, "is too far down: there are too many numbers");
    LS_TRY(ls__records_grow(&r->values, &r->room, kept, width, sizeof *r->values));
    ls__csv_numbers(&r->map[r->which], row, r->pixels, r->values + kept, &wrong);
    return wrong < 0 ? LS_OK : no_number(r, row, &r->columns, wrong, r->map[r->which].of[wrong]);
}

static ls_status take_targets(reader *r, const ls__csv_row *row, int32_t *number) {
    float value[LS__CSV_MOST_COLUMNS];
    for (int i = 0; i <= r->map[r->which].last; i++)
        if (r->target[i] >= 0 && !ls__csv_number(row->cell[i], &value[r->target[i]]))
            return no_number(r, row, r->builder, i, r->target[i]);
    return ls_records_add_row(r->builder, (const uint8_t *)value, number);
}

static ls_status take_line(void *self, const ls__csv_row *row, int first) {
    reader *r = self;
    if (first) return take_names(r, row);
    ls_record record = {.at = r->rows};
    if (r->placed)
        record = (ls_record){
            .at = r->file.at, .bytes = r->file.bytes, .file = (uint32_t)r->which, .size = (uint32_t)r->file.bytes};
    if (r->file.bytes > UINT32_MAX) return ls__csv_wrong(&r->file, "is longer than 4 GB");
    LS_TRY(take_values(r, row));
    if (r->set->targets) LS_TRY(take_targets(r, row, &record.class));
    if (r->label >= 0)
        LS_TRY(ls__csv_class(&r->file, r->builder, r->which == LS_RECORDS_TEST, row->cell[r->label], &r->latest,
                             &record.class));
    r->rows++;
    return ls_records_add(r->builder, r->which, record);
}

// --- all of it -------------------------------------------------------------------------------------------------------

static ls_status check_options(const char *path, const ls_records_settings *s) {
    if (s->image || s->labels || s->columns || s->names || s->none || s->root || s->target || s->channels != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "csv:%s: a table of numbers has numbers=, pixels= or shape=, label= or targets=, test= and "
                       "validation-split=; the other options are for tables of images",
                       path);
    if (s->label && s->targets)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "csv:%s: label=NAME is the column of a class, and targets=NAME|NAME are numbers to be learned: "
                       "give one of them",
                       path);
    if (s->pixels && s->shape)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "csv:%s: pixels=HxWxC says the shape: leave shape out, or say shape=HxWxC for numbers that are "
                       "no pixels",
                       path);
    if (!s->test || !(s->split > 0)) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "csv:%s: test=%s and validation-split=%g both say what the test set is: leave one out", path,
                   s->test, s->split);
}

// Numbers alone; the samples themselves are left out later.
static ls_status check_exclusions(const ls_records_settings *s) {
    ls_exclusions *list = NULL;
    if (!s->exclude) return LS_OK;
    ls_status status = ls_exclusions_read(s->exclude, &list);
    if (status == LS_OK)
        status = ls_exclusions_check(list, "sample named", "the lines of a table of numbers have numbers alone");
    ls_exclusions_destroy(&list);
    return status;
}

// Whether a table may be read again; how it was before it was read for the first time is noted.
static ls_status note_file(reader *r, const char *path) {
    struct stat there;
    uint32_t number;
    if (stat(path, &there) != 0 || !S_ISREG(there.st_mode)) r->files = 0;
    return r->files ? ls_records_add_file(r->builder, path, there.st_size, ls_records_time(&there), &number) : LS_OK;
}

static ls_status read_table(reader *r, const char *path, int which) {
    r->which = which;
    LS_TRY(ls__csv_read(path, &r->file, r, take_line));
    if (r->builder->count[which] > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s has no samples: its first line names the columns, and each other is a sample", path);
}

static ls_status read_tables(reader *r, const char *path) {
    const ls_records_settings *s = r->set;
    LS_TRY(check_options(path, s));
    LS_TRY(check_exclusions(s));
    r->files = 1;
    LS_TRY(note_file(r, path));
    if (s->test) LS_TRY(note_file(r, s->test));
    LS_TRY(read_table(r, path, LS_RECORDS_TRAIN));
    if (s->test) LS_TRY(read_table(r, s->test, LS_RECORDS_TEST));
    if (!r->placed)
        r->builder->file_count =
            0;  // nothing is read there again, and what is in memory is all that the fingerprint is of
    if (r->label >= 0) LS_TRY(ls__csv_number_classes(r->builder));
    // What is split is evenly over classes, of which there is one where samples have none.
    if (r->builder->class_count == 0) LS_TRY(ls_records_add_class(r->builder, NULL));
    return s->split > 0 ? ls_records_split(r->builder, s->split) : LS_OK;
}

// 28x28x1, 28x28, or a length; the product is the number of columns.
static ls_status find_shape(const reader *r, const char *text, ls_shape *out) {
    long long d[3] = {1, 1, 1};
    int n = 0, end = 0;
    *out = LS_SHAPE(1, 1, width_of(r));
    if (!text) return LS_OK;
    if (sscanf(text, "%9lldx%9lldx%9lld%n", &d[0], &d[1], &d[2], &end) == 3 && !text[end]) n = 3;
    d[2] = n == 3 ? d[2] : 1;
    if (!n && sscanf(text, "%9lldx%9lld%n", &d[0], &d[1], &end) == 2 && !text[end]) n = 2;
    if (n && d[0] > 0 && d[1] > 0 && d[2] > 0 && d[0] <= width_of(r) && d[1] <= width_of(r) &&
        d[0] * d[1] * d[2] == width_of(r)) {
        *out = LS_SHAPE(d[0], d[1], d[2]);
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s has %lld columns of numbers, and %s is no shape of so many: it is HxWxC, as 28x28x1, rows first",
                   r->file.path, (long long)width_of(r), text);
}

// What the others have to know, in the host's memory.
typedef struct plan {
    ls_shape shape;
    int64_t width, text;  // text: bytes of the columns' names
    int pixels, labels, placed;
    ls__csv_columns map[LS_RECORDS_SETS];
} plan;

// Numbers, then classes or targets, in the order of the records.
static void fill(const reader *r, const ls_records *records, const plan *p, int set, char *numbers, char *learned) {
    int64_t row = ls_records_row_bytes(records->label_width, records->targets);
    for (int64_t i = 0; i < records->count[set]; i++) {
        const ls_record *one = &records->record[set][i];
        const float *from = r->values + one->at * p->width;
        if (records->targets) memcpy(learned + i * row, records->label + one->class * row, (size_t)row);
        if (p->labels) memcpy(learned + 4 * i, &one->class, 4);
        if (!p->pixels) memcpy(numbers + 4 * i * p->width, from, (size_t)(4 * p->width));
        for (int64_t k = 0; k < p->width && p->pixels; k++) numbers[i * p->width + k] = (char)(unsigned char)from[k];
    }
}

// `arrays`: of numbers in memory.
static ls_status make_sources(const plan *p, const ls_records *records, const ls_field *fields, int field_count,
                              const ls_arrays *arrays, ls_dataset *out) {
    for (int set = 0; set < LS_RECORDS_SETS; set++) {
        char name[128];
        int test = set == LS_RECORDS_TEST;
        ls_source **source = test ? &out->test : &out->train;
        if (records->count[set] == 0) continue;
        snprintf(name, sizeof name, "the %s set of %s", test ? "test" : "training", out->name);
        LS_TRY(p->placed ? ls__source_create_lines(name, records, set, p->map, fields, field_count, source)
                         : ls_source_create_memory(name, fields, field_count, &arrays[set], source));
        if (p->placed && !test) (*source)->bytes = ls_memory_size(records->bytes);  // the index, which both share
    }
    if (p->placed) out->version = ls_records_version(records, -1);
    return LS_OK;
}

// The columns' names, in the host's memory, each with its zero.
static ls_status share_columns(ls_data_host *host, const reader *r, const plan *p, ls_dataset *out) {
    void *block;
    LS_TRY(host->agree(host->self, host->alloc(host->self, p->text, &block)));
    char *text = block;
    for (int64_t c = 0, used = 0; c < p->width && host->rank == 0; c++)
        used += 1 + sprintf(text + used, "%s", ls_records_class(&r->columns, c));
    LS_TRY(host->barrier(host->self));
    ls_status status = ls_calloc(p->width + 1, sizeof *out->columns, &out->columns);
    for (int64_t c = 0; c < p->width && status == LS_OK; c++, text += strlen(text) + 1) out->columns[c] = text;
    return host->agree(host->self, status);
}

static ls_status share(ls_data_host *host, const reader *r, const plan *p, const ls_records *records, ls_dataset *out) {
    ls_field fields[2] = {{"image", p->shape, p->pixels ? LS_DTYPE_U8 : LS_DTYPE_F32, 0}};
    ls_arrays arrays[LS_RECORDS_SETS];
    int64_t each = p->width * (p->pixels ? 1 : 4),
            more = p->labels ? 4 : ls_records_row_bytes(records->label_width, records->targets);
    if (p->labels) fields[1] = (ls_field){"label", {0}, LS_DTYPE_I32, (int)records->class_count};
    if (records->targets) fields[1] = (ls_field){"target", LS_SHAPE(records->label_width), LS_DTYPE_F32, 0};
    for (int set = 0; set < LS_RECORDS_SETS; set++) {
        int64_t count = p->placed ? 0 : records->count[set], numbers = ls_round_up(count * each, LS_ALIGN);
        void *block;
        LS_TRY(host->agree(host->self,
                           host->alloc(host->self, numbers + ls_round_up(count * more, LS_ALIGN) + 1, &block)));
        arrays[set] = (ls_arrays){count, {block, (char *)block + numbers}};
        if (host->rank == 0 && !p->placed) fill(r, records, p, set, block, (char *)block + numbers);
    }
    LS_TRY(host->barrier(host->self));
    LS_TRY(host->agree(host->self, ls_records_names(records, p->labels || records->targets, out)));
    out->shared = 1;
    return host->agree(host->self, make_sources(p, records, fields, more ? 2 : 1, arrays, out));
}

static ls_status list_and_share(ls_data_host *host, reader *r, const char *path, ls_dataset *out) {
    void *block;
    ls_records records;
    ls_status status = host->rank == 0 ? read_tables(r, path) : LS_OK;
    LS_TRY(ls_records_share(host, status, r->builder, &records));
    LS_TRY(host->agree(host->self, host->alloc(host->self, (int64_t)sizeof(plan), &block)));
    plan *p = block;
    if (host->rank == 0) {
        *p = (plan){.width = width_of(r), .pixels = r->pixels, .labels = r->label >= 0, .placed = r->placed};
        memcpy(p->map, r->map, sizeof p->map);
        for (int64_t c = 0; c < p->width; c++) p->text += (int64_t)strlen(ls_records_class(&r->columns, c)) + 1;
        status = find_shape(r, r->pixels ? r->set->pixels : r->set->shape, &p->shape);
    }
    LS_TRY(host->agree(host->self, status));
    LS_TRY(host->barrier(host->self));
    LS_TRY(share_columns(host, r, p, out));
    return share(host, r, p, &records, out);
}

ls_status ls__csv_numbers_open(ls_data_host *host, const char *path, const ls_records_settings *settings,
                               ls_dataset *out) {
    ls_records_builder builder = {.file = NULL};
    reader *r = NULL;
    LS_TRY(host->agree(host->self, ls_calloc(1, sizeof *r, &r)));
    *r = (reader){
        .set = settings, .builder = &builder, .wanted = out->wanted, .pixels = settings->pixels != NULL, .label = -1};
    ls_status status = list_and_share(host, r, path, out);
    ls_records_free(&r->columns);
    ls_records_free(&builder);
    free(r->values);
    free(r);
    return status;
}
