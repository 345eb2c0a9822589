// What lockstep evaluate tells of networks that say of several labels which are there.
#include <math.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/evaluate.h"

static ls_status find(cli_evaluation *e) { return cli_label_curves(e->trainer, e->dataset, &e->roc, &e->labels); }

static ls_status print(const cli_evaluation *e) {
    printf("%-28s%.4f (mean of the labels)\n\n", "Area under the ROC curve", ls_roc_mean_area(e->roc, e->labels));
    ls_roc_print(stdout, e->roc, e->labels);
    return LS_OK;
}

static void json(const cli_evaluation *e, json_t *root) {
    json_t *list = json_array();
    for (int i = 0; i < e->labels; i++) {
        const ls_roc *r = &e->roc[i];
        json_t *curve = isnan(r->area) ? json_null() : json_array();
        for (int k = 0; k <= LS_ROC_STEPS; k++) json_array_append_new(curve, cli_json_number(r->curve[k]));
        json_array_append_new(
            list, json_pack("{s:o,s:I,s:I,s:I,s:o,s:o,s:o,s:o}", "name", cli_json_text(ls_dataset_class(e->dataset, i)),
                            "samples", (json_int_t)r->there, "said", (json_int_t)r->said, "right", (json_int_t)r->right,
                            "area", cli_json_number(r->area), "precision", cli_json_number(ls_roc_precision(r)),
                            "recall", cli_json_number(ls_roc_recall(r)), "curve", curve));
    }
    json_object_set_new(root, "area", cli_json_number(ls_roc_mean_area(e->roc, e->labels)));
    json_object_set_new(root, "labels", list);
}

static ls_status csv(const cli_evaluation *e, FILE *out) {
    ls_roc_csv(out, e->roc, e->labels);
    return LS_OK;
}

static ls_status curves(const cli_evaluation *e, FILE *out) {
    ls_roc_curves_csv(out, e->roc, e->labels);
    return LS_OK;
}

// A line for each sample: its scores, then what is there. For other programs.
static ls_status scores(const cli_evaluation *e, FILE *out) {
    ls_label_scores s;
    LS_TRY(ls_trainer_label_scores(e->trainer, &s));
    for (int64_t n = 0; n < s.samples; n++)
        for (int i = 0; i < 2 * s.labels; i++)
            fprintf(out, "%.9g%c", s.rows[n * 2 * s.labels + i], i + 1 < 2 * s.labels ? ',' : '\n');
    return LS_OK;
}

static ls_status picture(const cli_evaluation *e, FILE *out) {
    char what[512];
    snprintf(what, sizeof what, "%.100s on %.200s: mean area %.4f", e->trained.model, e->trained.data,
             ls_roc_mean_area(e->roc, e->labels));
    ls_roc_svg(out, e->roc, e->labels, what);
    return LS_OK;
}

const cli_evaluation_kind cli_evaluation_labels = {
    .find = find,
    .print = print,
    .json = json,
    .csv = csv,
    .files = {{"scores.csv", scores}, {"roc.csv", curves}, {"roc.svg", picture}},
};
