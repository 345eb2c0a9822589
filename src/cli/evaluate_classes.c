// What lockstep evaluate tells of networks that name one class for each sample.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/evaluate.h"

enum { TOP = 5 };

static ls_status build(cli_evaluation *e) {
    int averaged =
        strcmp(e->trained.config.tta, "none") != 0;  // of a mean of scores it is loss and accuracy that are known
    return ls_graph_classifier(e->network, ls_graph_classes(e->network) > TOP && !averaged ? TOP : 0, &e->graph);
}

static ls_status find(cli_evaluation *e) {
    int classes = ls_graph_classes(e->network);
    e->top = cli_evaluation_measure(e, "top_k_accuracy");
    e->balanced = cli_evaluation_measure(e, "balanced_accuracy");
    LS_TRY(ls_calloc((int64_t)classes * classes, sizeof *e->counts, &e->counts));
    LS_TRY(ls_calloc(classes, sizeof *e->names, &e->names));
    LS_TRY(ls_trainer_confusion(e->trainer, e->counts, classes));
    for (int i = 0; i < classes; i++) e->names[i] = ls_dataset_class(e->dataset, i);
    e->confusion = (ls_confusion){classes, e->counts, e->names};
    return LS_OK;
}

static ls_status print(const cli_evaluation *e) {
    if (isfinite(e->top)) printf("%-28s%.2f %%\n", "Top-5 accuracy", 100 * e->top);
    printf("%-28s%.2f %%\n\n", "Balanced accuracy", 100 * e->balanced);
    ls_confusion_print_classes(stdout, &e->confusion);
    putchar('\n');
    return ls_confusion_print(stdout, &e->confusion, cli_terminal_width());
}

static json_t *classes_json(const ls_confusion *c) {
    json_t *list = json_array();
    for (int i = 0; i < c->classes; i++) {
        int64_t samples = ls_confusion_samples(c, i), right = ls_confusion_right(c, i);
        json_array_append_new(list, json_pack("{s:o,s:I,s:I,s:o}", "name", cli_json_text(c->names[i]), "samples",
                                              (json_int_t)samples, "right", (json_int_t)right, "accuracy",
                                              cli_json_number(samples ? (double)right / (double)samples : NAN)));
    }
    return list;
}

static json_t *matrix_json(const ls_confusion *c) {
    json_t *rows = json_array();
    for (int i = 0; i < c->classes; i++) {
        json_t *row = json_array();
        for (int k = 0; k < c->classes; k++)
            json_array_append_new(row, json_integer((json_int_t)c->count[(int64_t)i * c->classes + k]));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void json(const cli_evaluation *e, json_t *root) {
    json_object_set_new(root, "top_5_accuracy", cli_json_number(e->top));
    json_object_set_new(root, "balanced_accuracy", cli_json_number(e->balanced));
    json_object_set_new(root, "right", json_integer((json_int_t)ls_confusion_right(&e->confusion, -1)));
    json_object_set_new(root, "classes", classes_json(&e->confusion));
    json_object_set_new(root, "confusion", matrix_json(&e->confusion));
}

static ls_status csv(const cli_evaluation *e, FILE *out) {
    ls_confusion_classes_csv(out, &e->confusion);
    return LS_OK;
}

static ls_status matrix(const cli_evaluation *e, FILE *out) {
    ls_confusion_csv(out, &e->confusion);
    return LS_OK;
}

static ls_status picture(const cli_evaluation *e, FILE *out) {
    char what[512];
    snprintf(what, sizeof what, "%.100s on %.200s: %.2f %%", e->trained.model, e->trained.data, 100 * e->accuracy);
    ls_confusion_svg(out, &e->confusion, what);
    return LS_OK;
}

const cli_evaluation_kind cli_evaluation_classes = {
    .build = build,
    .find = find,
    .print = print,
    .json = json,
    .csv = csv,
    .files = {{"confusion.csv", matrix}, {"confusion.svg", picture}},
};
