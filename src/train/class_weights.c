// Labels as rows: mixed ones, and weights of classes: what a training sample adds to the loss is multiplied by its class's, so that rare classes count. Labels become rows with that weight at the
// class (data/feed.h), which losses and metrics take as they are; evaluation has weights of 1.
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

static int weighs(const ls_train_config *c) { return c->class_weight && strcmp(c->class_weight, "none") != 0; }

int ls__labels_are_rows(const ls_train_config *c) { return weighs(c) || c->mixup > 0; }

// Samples: sizes are not resolved yet.
static int64_t trained_on(const ls_trainer *t) {
    int64_t all = ls_dataset_train_count(t->dataset), most = t->config.limit_train;
    return most > 0 && most < all ? most : all;
}

// How many samples that are trained on each class has. Where labels do not lie in memory the samples are read.
static ls_status count_classes(const ls_trainer *t, const ls_field *field, int64_t *count) {
    const ls_source *s = t->dataset->train;
    int f = (int)(field - s->field);
    void *scratch = NULL;
    ls_status status = LS_OK;
    if (s->scratch_bytes) LS_TRY(ls_memory_alloc(s->scratch_bytes, &scratch));
    for (int64_t i = 0; i < trained_on(t) && status == LS_OK; i++) {
        ls_sample sample;
        int64_t class = s->ops->class ? s->ops->class(s, i) : -1;
        if (class < 0) status = ls_source_read(s, i, scratch, &sample);
        if (status != LS_OK) break;
        if (class < 0)
            class = field->dtype == LS_DTYPE_U8 ? *(const uint8_t *)sample.field[f] : *(const int32_t *)sample.field[f];
        if (class < field->classes) count[class]++;
    }
    ls_memory_free(scratch);
    return status;
}

// samples / (classes * samples of the class), as Keras's and scikit-learn's users have it; of a class without samples 1.
static ls_status balance(ls_trainer *t, const ls_field *field, int64_t classes) {
    int64_t *count;
    LS_TRY(ls_calloc(classes, sizeof *count, &count));
    ls_status status = t->context ? count_classes(t, field, count) : LS_OK;  // planned: values do not matter
    for (int64_t c = 0; c < classes && status == LS_OK; c++)
        t->class_weight[c] =
            count[c] ? (float)((double)trained_on(t) / ((double)field->classes * (double)count[c])) : 1;
    free(count);
    return status;
}

static ls_status read_list(ls_trainer *t, int64_t classes) {
    const char *text = t->config.class_weight;
    int64_t n = 0;
    for (const char *at = text;; at++) {
        char *end;
        double weight = strtod(at, &end);
        int plain = isdigit((unsigned char)*at) || *at == '.';  // no blanks, signs or words
        if (!plain || !(weight > 0 && weight < 1e6) || (*end && *end != ','))
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "--class-weight takes balanced or a number for each class, above 0 and below 1e6, with commas "
                "between them, not '%.64s'",
                text);
        if (n < classes) t->class_weight[n] = (float)weight;
        n++;
        at = end;
        if (!*at) break;
    }
    if (n == classes) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--class-weight has %lld numbers, and model %s tells %lld classes apart",
                   (long long)n, t->network->name, (long long)classes);
}

ls_status ls__class_weights_resolve(ls_trainer *t) {
    const ls_field *field = ls_dataset_find_field(t->dataset, "label");
    const char *what = weighs(&t->config) ? "weights of classes belong" : "mixup belongs";
    if (!ls__labels_are_rows(&t->config)) return LS_OK;
    if (!t->objective || !field || !field->classes || ls_shape_count(field->shape) != 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s to a classifier without losses of its own and to samples with one class each, which model %s "
            "on dataset %s is not: leave --%s out",
            what, t->network->name, t->dataset->name, weighs(&t->config) ? "class-weight" : "mixup");
    int64_t classes = ls_graph_classes(t->network);
    if (classes < field->classes)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "model %s tells %lld classes apart, dataset %s has %d: give it as many", t->network->name,
                       (long long)classes, t->dataset->name, field->classes);
    if (!weighs(&t->config)) return LS_OK;
    LS_TRY(ls_calloc(classes, sizeof *t->class_weight, &t->class_weight));
    return strcmp(t->config.class_weight, "balanced") == 0 ? balance(t, field, classes) : read_list(t, classes);
}
