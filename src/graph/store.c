#include "graph/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

ls_status ls_store_create(ls_store **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->owners = 1;
    return LS_OK;
}

void ls_store_destroy(ls_store **store) {
    if (!store) return;
    ls_store *s = *store;
    *store = NULL;
    if (!s || --s->owners > 0) return;
    for (int i = 0; i < s->count; i++) free(s->params[i].name), free(s->params[i].initial);
    free(s->params);
    free(s);
}

int ls__store_find(const ls_store *store, const char *name) {
    for (int i = 0; i < store->count; i++)
        if (strcmp(store->params[i].name, name) == 0) return i;
    return -1;
}

int ls__store_has_layer(const ls_store *store, const char *layer) {
    size_t length = strlen(layer);
    for (int i = 0; i < store->count; i++)
        if (strncmp(store->params[i].name, layer, length) == 0 && store->params[i].name[length] == '/') return 1;
    return 0;
}

ls_status ls__store_add(ls_store *store, const ls_param *param, int *index) {
    *index = ls__store_find(store, param->name);
    if (*index >= 0) {
        const ls_param *there = &store->params[*index];
        if (ls_shape_equal(there->shape, param->shape) && there->role == param->role) return LS_OK;
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "parameter %s is shared with another layer of that name, whose is of another shape or kind: give "
            "the layers two names, or the same attributes",
            param->name);
    }
    if (store->placed)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "parameter %s comes too late: a trainer works with the store already; build all graphs that "
                       "share a store before the first trainer",
                       param->name);
    if ((store->count & (store->count - 1)) == 0) {  // it doubles
        ls_param *grown = realloc(store->params, (size_t)(store->count ? 2 * store->count : 1) * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %d parameters", store->count);
        store->params = grown;
    }
    ls_param added = *param;
    LS_TRY(ls_strdup(param->name, &added.name));
    *index = store->count;
    store->params[store->count++] = added;
    return LS_OK;
}

int ls_store_count(const ls_store *store) { return store ? store->count : 0; }

ls_parameter ls_store_parameter(const ls_store *store, int index) {
    if (!store || index < 0 || index >= store->count) return (ls_parameter){0};
    const ls_param *p = &store->params[index];
    static const char *const roles[] = {"kernel", "bias", "scale", "statistic"};
    return (ls_parameter){.name = p->name, .shape = p->shape, .role = roles[p->role], .frozen = p->frozen};
}
