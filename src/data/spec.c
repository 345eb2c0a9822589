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
        ls_status status = ls_options_assign(sets, at + 1, value + 1);
        if (status != LS_OK) return ls__fail_context(status, "the dataset %s:%s: ", name, out->text);
    }
    size_t end = strlen(out->text);
    while (end > 1 && out->text[end - 1] == '/') out->text[--end] = 0;
    if (end > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the dataset %s needs a path in front of its options: write %s:PATH",
                   name, name);
}
