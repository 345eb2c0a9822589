#include "data/spec.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"

// The last ",word=value" in the text; NULL: it has none.
static char *last_option(char *text) {
    char *comma = strrchr(text, ',');
    size_t word = comma ? strspn(comma + 1, "abcdefghijklmnopqrstuvwxyz-") : 0;
    return word > 0 && comma[1 + word] == '=' ? comma : NULL;
}

ls_status ls_spec_take(const char *name, const char *argument, const char *option, char *rest, char *value, size_t size,
                       int *there) {
    char text[4096];
    size_t word = strlen(option);
    int length = snprintf(text, sizeof text, "%s", argument);
    *there = 0;
    rest[0] = value[0] = 0;
    // What has no such option is the dataset's own business, of any length.
    const char *found = strstr(argument, option);
    if (!found) return LS_OK;
    if (length < 0 || length >= (int)sizeof text || (size_t)length >= size)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "what is behind %s: has %d bytes; give less than 4000", name,
                       length);
    for (char *at, *end = text + length; (at = last_option(text)); end = at) {
        int is_it = strncmp(at + 1, option, word) == 0 && at[1 + word] == '=';
        if (is_it && *there)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s:%s has %s= twice: give it once", name, argument, option);
        if (is_it) {
            snprintf(value, size, "%s", at + word + 2);
            snprintf(rest, size, "%.*s%s", (int)(at - text), argument, argument + (end - text));
            *there = 1;
        }
        *at = 0;
    }
    return LS_OK;
}

// "the dataset csv:a.csv has no option 'lable' (did you mean label?); it has file, label, ..."
static ls_status no_option(const ls_option *table, const char *dataset, const char *path, const char *word) {
    enum { MOST = 64 };
    const char *names[MOST];
    char all[1024] = "", hint[80] = "";
    int count = 0;
    size_t used = 0;
    for (const ls_option *o = table; o->name && count < MOST; o++) {
        if (strcmp(o->name, word) == 0) return LS_OK;
        names[count++] = o->name;
        if (used < sizeof all)
            used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", used ? ", " : "", o->name);
    }
    const char *near = ls_nearest(word, names, count);
    if (near) snprintf(hint, sizeof hint, " (did you mean %.50s?)", near);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s:%.300s has no option '%.80s'%s; it has %s", dataset,
                   path, word, hint, all);
}

ls_status ls_spec_read(const char *name, const char *argument, const ls_option *table, void *values, ls_spec *out) {
    const ls_option_set sets[] = {{table, values}, {NULL, NULL}};
    int length = snprintf(out->text, sizeof out->text, "%s", argument);
    if (length < 0 || length >= (int)sizeof out->text)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path behind %s: has %d bytes; give one of less than 4000", name,
                       length);
    for (char *at; (at = last_option(out->text));) {
        *at = 0;
        char *value = strchr(at + 1, '=');
        *value = 0;
        LS_TRY(no_option(table, name, out->text, at + 1));
        ls_status status = ls_options_assign(sets, at + 1, value + 1);
        if (status != LS_OK) return ls__fail_context(status, "the dataset %s:%s: ", name, out->text);
    }
    size_t end = strlen(out->text);
    while (end > 1 && out->text[end - 1] == '/') out->text[--end] = 0;
    if (end > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s needs a path in front of its options: write %s:PATH",
                   name, name);
}
