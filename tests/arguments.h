// What tests of wrong arguments expect.
#ifndef LS_TESTS_ARGUMENTS_H
#define LS_TESTS_ARGUMENTS_H

#include <string.h>

#include "ok.h"

// The call fails for the argument of that name.
#define NEEDS(name, call)                                                                                              \
    do {                                                                                                               \
        ls_error_set(LS_STATUS_IO, "nothing");                                                                         \
        ls_status needs_status_ = (call);                                                                              \
        if (needs_status_ != LS_STATUS_INVALID_ARGUMENT || !strstr(ls_error_message(), name " is NULL"))               \
            fail_msg("%s: %s: %s", #call, ls_status_name(needs_status_), ls_error_message());                          \
    } while (0)

// The call fails with INVALID_ARGUMENT, or gives LS_NO_VALUE, and the sentence has this in it.
static inline void refused(int refused, const char *call, const char *sentence) {
    if (!refused || !strstr(ls_error_message(), sentence)) fail_msg("%s: %s", call, ls_error_message());
}
#define REFUSED(sentence, call)  refused((call) == LS_STATUS_INVALID_ARGUMENT, #call, sentence)
#define NO_VALUE(sentence, call) refused((call) == LS_NO_VALUE, #call, sentence)

// Of two by two numbers, to three classes.
static inline ls_graph *network(void) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(2, 2, 1), &g));
    OK(ls_graph_finish(g, ls_dense(g, ls_flatten(g, ls_graph_input(g), NULL), &(ls_dense_attrs){.units = 3})));
    return g;
}

#endif
