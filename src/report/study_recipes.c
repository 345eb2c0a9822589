#include "report/study_recipes.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

static void add(char *text, const char *option, const json_t *value) {
    size_t used = strlen(text), size = LS_RECIPE_TEXT - used;
    const char *comma = used ? ", " : "";
    text += used;
    if (json_is_boolean(value))
        snprintf(text, size, "%s%s%s", comma, json_is_true(value) ? "" : "no ", option);
    else if (json_is_string(value))
        snprintf(text, size, "%s%s %s", comma, option, json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, size, "%s%s %" JSON_INTEGER_FORMAT, comma, option, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, size, "%s%s %g", comma, option, json_real_value(value));
    else
        snprintf(text, size, "%s%s by default", comma, option);
}

// Whether two of the recipes that have the option have it otherwise; weak scaling, for one, has no number of samples of its own.
static int differs(json_t *const *recipes, int count, const char *option) {
    const json_t *first = NULL;
    for (int i = 0; i < count; i++) {
        const json_t *value = json_object_get(recipes[i], option);
        if (value && !first) first = value;
        if (value && !json_equal(value, first)) return 1;
    }
    return 0;
}

ls_status ls__recipes_tell(const char *const *recipes, int count, char (*told)[LS_RECIPE_TEXT]) {
    json_t **list;
    LS_TRY(ls_calloc(count, sizeof *list, &list));
    for (int i = 0; i < count; i++) {
        list[i] = recipes[i] ? json_loads(recipes[i], 0, NULL) : NULL;
        told[i][0] = 0;
    }
    for (int i = 0; i < count; i++) {
        const char *option;
        json_t *value;
        json_object_foreach(list[i], option, value) if (differs(list, count, option)) add(told[i], option, value);
    }
    for (int i = 0; i < count; i++) json_decref(list[i]);
    free(list);
    return LS_OK;
}
