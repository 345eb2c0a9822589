// --compare: the ways to train that a study goes through.
//
//     lr=0.01,0.02 batch-size=128,256                     one recipe: all combinations of the values
//     schedule=constant | schedule=cosine warmup-epochs=1   several recipes, each as it stands
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "cli/scale.h"

// The same for a shell. Flags take no value there.
static ls_status add_words(scale_variant *v, const char *name, const char *value) {
    size_t used = strlen(v->words), size = sizeof v->words - used;
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:=+@/%-";
    if (value[strspn(value, plain)])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--compare: '%s' in %s=%s: only letters, digits and _.,:=+@/%%- here",
                       value + strspn(value, plain), name, value);
    int n = strcmp(value, "true") == 0    ? snprintf(v->words + used, size, "%s--%s", used ? " " : "", name)
            : strcmp(value, "false") == 0 ? snprintf(v->words + used, size, "%s--no-%s", used ? " " : "", name)
                                          : snprintf(v->words + used, size, "%s--%s %s", used ? " " : "", name, value);
    if (n < 0 || (size_t)n >= size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--compare: a recipe of more than %d letters", SCALE_WORDS);
    return LS_OK;
}

// Sets "name=value" in a variant, and adds it to its label.
static ls_status assign(scale_variant *v, const char *name, const char *value) {
    size_t used = strlen(v->label);
    if (strcmp(name, "data") == 0) {
        v->data = value;
    } else {
        const ls_option_set sets[] = {{ls_train_options(), &v->config}, {ls_model_options(), &v->model}, {NULL, NULL}};
        ls_status status = ls_options_assign(sets, name, value);
        if (status != LS_OK) return ls__fail_context(status, "--compare: ");
    }
    snprintf(v->label + used, sizeof v->label - used, "%s%s %s", used ? ", " : "", name, value);
    return add_words(v, name, value);
}

// Cuts "name=value" in two. A leading "--" is no harm.
static ls_status cut(char *word, char **name, char **value) {
    *name = strncmp(word, "--", 2) == 0 ? word + 2 : word;
    *value = strchr(word, '=');
    if (!*value || *value == *name || !(*value)[1])
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--compare: expected words like lr=0.01,0.02, got '%s'; recipes of several options are kept apart "
            "by |",
            word);
    *(*value)++ = 0;
    return LS_OK;
}

static ls_status room(const scale_grid *g) {
    if (g->variant_count < SCALE_MAX_VARIANTS) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--compare: more than %d ways to train", SCALE_MAX_VARIANTS);
}

// Every variant so far, with each of the values.
static ls_status multiply(scale_grid *g, const char *name, char *values) {
    int before = g->variant_count, count = 0;
    char *value[SCALE_MAX_VARIANTS], *rest = values;
    for (char *one; (one = strsep(&rest, ","));) {
        if (count == SCALE_MAX_VARIANTS || !*one)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--compare: '%s' needs 1 to %d values with commas between them",
                           name, SCALE_MAX_VARIANTS);
        value[count++] = one;
    }
    if (before * count > SCALE_MAX_VARIANTS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--compare: more than %d ways to train", SCALE_MAX_VARIANTS);
    for (int k = count - 1; k >= 0; k--)
        for (int i = 0; i < before; i++) {
            scale_variant *v = &g->variants[k * before + i];
            *v = g->variants[i];
            LS_TRY(assign(v, name, value[k]));
        }
    g->variant_count = before * count;
    return LS_OK;
}

static ls_status combinations(scale_grid *g, char *words) {
    char *rest = words;
    g->variants[g->variant_count++] = g->common;
    for (char *word; (word = strsep(&rest, " \t"));) {
        char *name, *value;
        if (!*word) continue;
        LS_TRY(cut(word, &name, &value));
        LS_TRY(multiply(g, name, value));
    }
    return LS_OK;
}

static ls_status recipe(scale_grid *g, char *words) {
    char *rest = words;
    LS_TRY(room(g));
    scale_variant *v = &g->variants[g->variant_count++];
    *v = g->common;
    for (char *word; (word = strsep(&rest, " \t"));) {
        char *name, *value;
        if (!*word) continue;
        LS_TRY(cut(word, &name, &value));
        LS_TRY(assign(v, name, value));
    }
    if (!v->label[0]) snprintf(v->label, sizeof v->label, "as given");
    return LS_OK;
}

static ls_status check_different(const scale_grid *g) {
    if (g->variant_count < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--compare: one way to train has nothing to be compared with: give "
                       "several values, as in lr=0.01,0.02, or recipes with | between them");
    for (int i = 0; i < g->variant_count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(g->variants[i].label, g->variants[j].label) == 0)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--compare: '%s' is there twice", g->variants[i].label);
    return LS_OK;
}

ls_status scale_compare_read(const char *text, scale_grid *g, char **keep) {
    g->compare = text;
    g->variant_count = 0;
    *keep = NULL;
    if (!text) {
        g->variants[g->variant_count++] = g->common;
        return LS_OK;
    }
    if (!(*keep = strdup(text))) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    if (!strchr(text, '|')) {
        LS_TRY(combinations(g, *keep));
    } else {
        char *rest = *keep;
        for (char *one; (one = strsep(&rest, "|"));) LS_TRY(recipe(g, one));
    }
    return check_different(g);
}

ls_status scale_compare_words(const char *text, char (**words)[SCALE_WORDS], int *count) {
    scale_request *r;
    LS_TRY(ls_calloc(1, sizeof *r, &r));
    ls_train_config_init(&r->grid.common.config);
    ls_model_config_init(&r->grid.common.model);
    ls_status status = scale_compare_read(text, &r->grid, &r->compare);
    if (status == LS_OK) status = ls_calloc(r->grid.variant_count, sizeof **words, words);
    for (int i = 0; status == LS_OK && i < r->grid.variant_count; i++)
        memcpy((*words)[i], r->grid.variants[i].words, sizeof **words);
    *count = r->grid.variant_count;
    scale_request_free(r);
    free(r);
    return status;
}
