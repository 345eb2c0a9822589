// For cmocka's tests: a call that must succeed, and the sentence of its failure where it does not.
#ifndef LS_TESTS_OK_H
#define LS_TESTS_OK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <lockstep/lockstep.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        if ((call) != LS_OK) fail_msg("%s: %s", #call, ls_error_message());                                            \
    } while (0)

#endif
