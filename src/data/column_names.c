// Names of a table's columns that no checkpoint can keep, which is JSON: then columns go by their order, so a sentence tells.
#include <string.h>

#include "base/text.h"
#include "data/dataset.h"

void ls__dataset_note_columns(ls_dataset *d) {
    const char *name;
    int at = 0;
    while ((name = ls_dataset_column(d, at)) && ls_text_is_utf8(name)) at++;
    if (!name) return;
    size_t used = strlen(d->note);
    ls_text_add(
        d->note, sizeof d->note, &used,
        "%sthe name of the column of number %d of a sample is not UTF-8, so checkpoints do not keep these names, "
        "and tables to evaluate and predict need this order of columns: save the table as UTF-8",
        used ? "; " : "", at);
}
