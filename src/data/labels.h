// Samples that have several labels at once, or none: which labels there are, and for each sample a row with 1 for those that it has. Samples that
// have the same labels share a row. A format marks the labels of one sample after the other, and numbers all of them at the end.
#ifndef LS_DATA_LABELS_H
#define LS_DATA_LABELS_H

#include "data/records.h"

typedef struct ls_labels {
    ls_records_builder *builder;  // whose classes are the labels
    const char *list;             // the file that has all of them; NULL: they are those that samples have
    int32_t *mark;                // (mark_count) of all samples, one after the other
    int64_t mark_count, mark_room;
    int64_t *end;  // (count): where each sample's marks end
    int64_t count, room;
} ls_labels;

// All zero but the builder to begin with.
//
// Labels of a file, a line each, in its order; there are no others. Empty lines do not count. Errors: NOT_FOUND, IO, BAD_DATA (it has none, or one
// twice).
ls_status ls_labels_read_list(ls_labels *labels, const char *path);
// The number of a label; with `add` of a new one, unless there is a list. -1: there is none. Errors: OUT_OF_MEMORY, BAD_DATA (too many).
ls_status ls_labels_number(ls_labels *labels, const char *name, int add, int64_t *out);
// The sample that comes next has the label. *again (may be NULL): it had it already. Errors: OUT_OF_MEMORY.
ls_status ls_labels_mark(ls_labels *labels, int64_t label, int *again);
// Ends that sample. *class is what its record has as class until the labels are numbered. Errors: OUT_OF_MEMORY, BAD_DATA (too many samples).
ls_status ls_labels_end(ls_labels *labels, int32_t *class);
// Numbers the labels, by the order of their bytes if `sort`, else as they are, makes the rows and gives each record the number of its own. Errors:
// OUT_OF_MEMORY; BAD_DATA (there is no label at all; one that no sample of the training set has, in `path`).
ls_status ls_labels_finish(ls_labels *labels, int sort, const char *path);
void ls_labels_free(ls_labels *labels);

#endif
