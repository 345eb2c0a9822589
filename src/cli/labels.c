#include "cli/labels.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"

ls_status cli_label_curves(const ls_trainer *trainer, const ls_dataset *dataset, ls_roc **out, int *labels) {
    ls_label_scores s;
    ls_roc *list;
    *out = NULL;
    *labels = 0;
    LS_TRY(ls_trainer_label_scores(trainer, &s));
    LS_TRY(ls_calloc(s.labels, sizeof *list, &list));
    ls_status status = LS_OK;
    for (int i = 0; i < s.labels && status == LS_OK; i++)
        status = ls_roc_find(s.rows, s.samples, s.labels, i, ls_dataset_class(dataset, i), &list[i]);
    if (status != LS_OK) {
        free(list);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = list;
    *labels = s.labels;
    return LS_OK;
}
