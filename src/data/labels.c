#include "data/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"

enum { MOST_LABELS = 10000 };

// --- words -----------------------------------------------------------------------------------------------------------

static ls_status add_listed(ls_labels *l, const char *name, int64_t line) {
    if (ls_records_find_class(l->builder, name) >= 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "line %lld of %s has the label %s again: each stands there once",
                       (long long)line, l->list, name);
    if (l->builder->class_count == MOST_LABELS)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has more than %d labels", l->list, MOST_LABELS);
    return ls_records_add_class(l->builder, name);
}

static ls_status take_line(void *self, const ls_lines *lines) {
    char *name = lines->text + strspn(lines->text, " \t");
    size_t n = strcspn(name, "\r\n");
    while (n > 0 && (name[n - 1] == ' ' || name[n - 1] == '\t')) n--;
    name[n] = 0;
    return n ? add_listed(self, name, lines->number) : LS_OK;
}

ls_status ls_labels_read_list(ls_labels *l, const char *path) {
    l->list = path;
    LS_TRY(ls_lines_read(path, ", the list of labels", l, take_line));
    if (l->builder->class_count > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no labels: it has one on each line", path);
}

ls_status ls_labels_number(ls_labels *l, const char *name, int add, int64_t *out) {
    *out = ls_records_find_class(l->builder, name);
    if (*out >= 0 || !add || l->list) return LS_OK;
    if (l->builder->class_count == MOST_LABELS)
        return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %d labels", MOST_LABELS);
    *out = l->builder->class_count;
    return ls_records_add_class(l->builder, name);
}

// --- samples ---------------------------------------------------------------------------------------------------------

ls_status ls_labels_mark(ls_labels *l, int64_t label, int *again) {
    int64_t from = l->count ? l->end[l->count - 1] : 0;
    int there = 0;
    for (int64_t i = from; i < l->mark_count; i++) there |= l->mark[i] == label;
    if (again) *again = there;
    if (there) return LS_OK;
    LS_TRY(ls__records_grow(&l->mark, &l->mark_room, l->mark_count, 1, sizeof *l->mark));
    l->mark[l->mark_count++] = (int32_t)label;
    return LS_OK;
}

ls_status ls_labels_end(ls_labels *l, int32_t *class) {
    if (l->count == INT32_MAX) return LS_FAIL(LS_STATUS_BAD_DATA, "there are more than %d samples", INT32_MAX);
    LS_TRY(ls__records_grow(&l->end, &l->room, l->count, 1, sizeof *l->end));
    l->end[l->count] = l->mark_count;
    *class = (int32_t)l->count++;
    return LS_OK;
}

// --- numbers ---------------------------------------------------------------------------------------------------------

// A label that nothing can be learned of: mostly a mistake in a list, or a table of something else.
static ls_status check_seen(const ls_labels *l, const char *path) {
    const ls_records_builder *b = l->builder;
    int64_t *seen;
    ls_status status = LS_OK;
    if (b->class_count == 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "no line of %s has a label: there is nothing to tell apart", path);
    LS_TRY(ls_calloc(b->class_count, sizeof *seen, &seen));
    for (int64_t i = 0; i < b->count[LS_RECORDS_TRAIN]; i++) {
        int64_t sample = b->record[LS_RECORDS_TRAIN][i].class;
        for (int64_t k = sample ? l->end[sample - 1] : 0; k < l->end[sample]; k++) seen[l->mark[k]]++;
    }
    for (int64_t c = 0; c < b->class_count && status == LS_OK; c++)
        if (!seen[c])
            status =
                LS_FAIL(LS_STATUS_BAD_DATA,
                        "no sample to train on in %s has the label %s, so nothing could be learned of it: leave it "
                        "out of %s; a table to evaluate on is a test set, test=FILE behind the table of training",
                        path, ls_records_class(b, c), l->list ? l->list : "the table");
    free(seen);
    return status;
}

typedef struct named {
    const char *name;
    int64_t old;
} named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

// to[old] is the new number.
static ls_status sort_labels(ls_records_builder *b, int64_t *to) {
    int64_t n = b->class_count, *names;
    named *list;
    LS_TRY(ls_calloc(n, sizeof *list, &list));
    ls_status status = ls_calloc(n, sizeof *names, &names);
    if (status == LS_OK) {
        for (int64_t c = 0; c < n; c++) list[c] = (named){ls_records_class(b, c), c};
        qsort(list, (size_t)n, sizeof *list, by_name);
        for (int64_t c = 0; c < n; c++) {
            names[c] = b->class_name[list[c].old];
            to[list[c].old] = c;
        }
        memcpy(b->class_name, names, (size_t)n * sizeof *names);
    }
    free(names);
    free(list);
    return status;
}

static ls_status make_rows(const ls_labels *l, const int64_t *to, uint8_t *row) {
    ls_records_builder *b = l->builder;
    b->label_width = (int)b->class_count;
    for (int s = 0; s < LS_RECORDS_SETS; s++)
        for (int64_t i = 0; i < b->count[s]; i++) {
            ls_record *r = &b->record[s][i];
            memset(row, 0, (size_t)b->class_count);
            for (int64_t k = r->class ? l->end[r->class - 1] : 0; k < l->end[r->class]; k++) row[to[l->mark[k]]] = 1;
            LS_TRY(ls_records_add_row(b, row, &r->class));
        }
    return LS_OK;
}

ls_status ls_labels_finish(ls_labels *l, int sort, const char *path) {
    int64_t n = l->builder->class_count, *to;
    uint8_t *row = NULL;
    LS_TRY(check_seen(l, path));
    LS_TRY(ls_calloc(n, sizeof *to, &to));
    for (int64_t c = 0; c < n; c++) to[c] = c;
    ls_status status = sort ? sort_labels(l->builder, to) : LS_OK;
    if (status == LS_OK) status = ls_calloc(n, 1, &row);
    if (status == LS_OK) status = make_rows(l, to, row);
    free(row);
    free(to);
    return status;
}

void ls_labels_free(ls_labels *l) {
    free(l->mark);
    free(l->end);
    *l = (ls_labels){.builder = NULL};
}
