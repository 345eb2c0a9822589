// Classes that no sample to train on has: mostly numbers that begin with 1, or that have a gap, in files that somebody wrote. They are trained as classes that
// there might be, so a sentence tells.
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "data/dataset.h"

enum { NAMED = 5 };

// Counts those of the training set; 0: that would take reading samples.
static int count(const ls_dataset *d, const ls_field *field, unsigned char *there) {
    const ls_source *s = d->train;
    const ls_source *all = s->inner ? s->inner : s;  // values of samples that are left out are there, too
    int f = (int)(field - s->field);
    const void *values = ls_source_array(all, f);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t class = s->ops->class ? s->ops->class(s, i) : -1;
        if (class < 0 && !values) return 0;
        int64_t at = all == s ? i : ls_source_number(s, i);
        if (class < 0)
            class = field->dtype == LS_DTYPE_U8 ? ((const uint8_t *)values)[at] : ((const int32_t *)values)[at];
        if (class >= 0 && class < field->classes) there[class] = 1;
    }
    return 1;
}

static void tell(ls_dataset *d, const unsigned char *there, int classes, int empty) {
    size_t used = strlen(d->note);
    int named = 0;
    ls_text_add(d->note, sizeof d->note, &used, "%sno sample to train on has class", used ? "; " : "");
    for (int c = 0; c < classes && named < NAMED; c++)
        if (!there[c]) {
            const char *name = ls_dataset_class(d, c);
            ls_text_add(d->note, sizeof d->note, &used, "%s %d%s%.40s%s", named ? "," : "", c, name ? " (" : "",
                        name ? name : "", name ? ")" : "");
            named++;
        }
    if (empty > named) ls_text_add(d->note, sizeof d->note, &used, " and %d others", empty - named);
    ls_text_add(d->note, sizeof d->note, &used,
                ", and the network has %d, from 0 to %d: are the labels right? Numbers of classes begin with 0 and "
                "have no gaps",
                classes, classes - 1);
}

void ls__dataset_note_classes(ls_dataset *d) {
    const ls_field *field = ls_dataset_find_field(d, "label");
    if (!field || !field->classes || ls_shape_count(field->shape) != 1) return;
    unsigned char *there = calloc((size_t)field->classes, 1);
    int empty = 0;
    if (there && count(d, field, there)) {
        for (int c = 0; c < field->classes; c++) empty += !there[c];
        if (empty) tell(d, there, field->classes, empty);
    }
    free(there);
}
