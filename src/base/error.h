// How the library reports failures: LS_FAIL where something goes wrong, LS_TRY everywhere above it.
#ifndef LS_BASE_ERROR_H
#define LS_BASE_ERROR_H

#include <lockstep/status.h>

// The status that went in, in a form that compilers and analyzers see through: a failure never becomes LS_OK.
static inline ls_status ls__same(ls_status status, ls_status recorded) { return status; }

// Records a failure with its sentence and place, and returns `status`. Not for success.
#define LS_FAIL(status, ...) ls__same((status), ls__fail((status), __FILE__, __LINE__, __VA_ARGS__))

// Where a function of the public API begins: fails when a pointer that it needs is NULL. `name` is the argument's in the header.
#define LS_NEED(pointer, name)                                                                                         \
    do {                                                                                                               \
        if (!(pointer))                                                                                                \
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s: %s is NULL, and it is needed", __func__, (name));          \
    } while (0)

// Passes a failure of `call` up, recording this place.
#define LS_TRY(call)                                                                                                   \
    do {                                                                                                               \
        ls_status ls_try_status_ = (call);                                                                             \
        if (ls_try_status_ != LS_OK)                                                                                   \
            return ls__same(ls_try_status_, ls__fail_passed(ls_try_status_, __FILE__, __LINE__));                      \
    } while (0)

// The same inside a function with a cleanup ladder: sets the local `status` and goes to `label`.
#define LS_TRY_GOTO(call, label)                                                                                       \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != LS_OK) {                                                                                         \
            ls__fail_passed(status, __FILE__, __LINE__);                                                               \
            goto label;                                                                                                \
        }                                                                                                              \
    } while (0)

#define LS_FAIL_GOTO(code, label, ...)                                                                                 \
    do {                                                                                                               \
        status = LS_FAIL((code), __VA_ARGS__);                                                                         \
        goto label;                                                                                                    \
    } while (0)

ls_status ls__fail(ls_status status, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
ls_status ls__fail_passed(ls_status status, const char *file, int line);

// Puts a sentence in front of the recorded one ("while reading X: ..."), and returns `status`.
ls_status ls__fail_context(ls_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The sentence of a failure carried from another thread: copy the text there, set it here.
void ls__error_set(const char *message);

// What a function of a program's, which this is the name of, has failed with, and why: a sentence where it gave none, LIBRARY where it is no
// status. Call ls__error_set("") before the function, so that an earlier failure's sentence does not pass for its own.
ls_status ls__callback_status(ls_status status, const char *function);

#endif
