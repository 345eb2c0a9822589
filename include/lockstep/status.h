// Status codes and the sentence that goes with a failure.
//
// Every function that can fail returns an ls_status; results go out through pointers. The code says what kind of
// failure it was, for programs; the sentence says what was asked, what was found and what to do, for people.
//
// Pointers are needed unless a function's comment says that they may be NULL. Where one is NULL, a function that returns a status gives
// INVALID_ARGUMENT and names the argument; one that returns something else gives none of it: 0, NULL, {0}, LS_NO_VALUE. So do
// functions that are asked for the index-th of something when there is none. What destroys takes NULL, and the address of NULL.
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

//   name              text
#define LS_STATUS_LIST(X)                                                                                              \
    X(OK, "success")                                                                                                   \
    X(INVALID_ARGUMENT, "invalid argument")                                                                            \
    X(NOT_FOUND, "not found")                                                                                          \
    X(IO, "input/output error")                                                                                        \
    X(BAD_DATA, "corrupt or unexpected data")                                                                          \
    X(OUT_OF_MEMORY, "out of memory")                                                                                  \
    X(UNSUPPORTED, "not supported by this build or machine")                                                           \
    X(MISMATCH, "workers disagree")                                                                                    \
    X(LIBRARY, "error from a library underneath")                                                                      \
    X(INTERNAL, "internal error")                                                                                      \
    X(DIVERGED, "training diverged")

typedef enum ls_status {
#define LS_STATUS_ENUM(name, text) LS_STATUS_##name,
    LS_STATUS_LIST(LS_STATUS_ENUM)
#undef LS_STATUS_ENUM
} ls_status;

#define LS_OK LS_STATUS_OK

// The name of a status code, as in "INVALID_ARGUMENT". Never NULL.
const char *ls_status_name(ls_status status);

// The sentence of the latest failure on the calling thread: what failed and what to do. Empty before any failure.
// The text is owned by the library and stays valid until the next failure on this thread.
const char *ls_error_message(void);

// Where the latest failure on the calling thread came from, innermost first, as "file:line < file:line".
const char *ls_error_trace(void);

// For functions that the library calls, such as one that reads samples: records the sentence of a failure on the calling thread,
// as printf formats it, and returns `status`: `return ls_error_set(LS_STATUS_IO, "cannot read %s", path);`. Any thread.
ls_status ls_error_set(ls_status status, const char *format, ...)
#ifdef __GNUC__
    __attribute__((format(printf, 2, 3)))
#endif
    ;

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
