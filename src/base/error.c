#define _GNU_SOURCE
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The one thread-local of the library, for the same reason errno is one: a failure must find its sentence
// through any number of layers without every signature carrying it.
static _Thread_local struct {
    char message[1024];
    char trace[512];
} last;

enum {
    STATUS_COUNT = 0
#define X(name, text) +1
    LS_STATUS_LIST(X)
#undef X
};

const char *ls_status_name(ls_status status) {
    static const char *const names[STATUS_COUNT] = {
#define X(name, text) #name,
        LS_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *ls_error_message(void) { return last.message; }
const char *ls_error_trace(void) { return last.trace; }

static void trace_add(const char *file, int line) {
    size_t used = strlen(last.trace);
    const char *src = strstr(file, "src/");
    snprintf(last.trace + used, sizeof last.trace - used, "%s%s:%d", used ? " < " : "", src ? src : file, line);
}

ls_status ls__fail(ls_status status, const char *file, int line, const char *format, ...) {
    char text[sizeof last.message], *whole;  // the arguments may point into last.message
    va_list args;
    va_start(args, format);
    if (vasprintf(&whole, format, args) >= 0) {
        // Of a sentence with a very long name in it the end is kept: it says what was wrong, and what to do.
        size_t length = strlen(whole), half = sizeof text / 2;
        if (length < sizeof text)
            memcpy(text, whole, length + 1);
        else
            snprintf(text, sizeof text, "%.*s[...]%s", (int)half, whole, whole + length - (half - 8));
        free(whole);
    } else {
        va_end(args);
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
    }
    va_end(args);
    memcpy(last.message, text, sizeof text);
    last.trace[0] = 0;
    trace_add(file, line);
    return status;
}

ls_status ls__fail_passed(ls_status status, const char *file, int line) {
    trace_add(file, line);
    return status;
}

ls_status ls__fail_context(ls_status status, const char *format, ...) {
    char text[sizeof last.message];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text) snprintf(text + n, sizeof text - (size_t)n, "%.900s", last.message);
    memcpy(last.message, text, sizeof text);
    return status;
}

void ls__error_set(const char *message) {
    snprintf(last.message, sizeof last.message, "%s", message);
    last.trace[0] = 0;
}

ls_status ls_error_set(ls_status status, const char *format, ...) {
    char text[sizeof last.message];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls__error_set(text);
    return status;
}

ls_status ls__callback_status(ls_status status, const char *function) {
    if (status == LS_OK) return LS_OK;
    if ((unsigned)status >= STATUS_COUNT)
        return LS_FAIL(LS_STATUS_LIBRARY, "%s returned %d, which is no status; return LS_OK or one of LS_STATUS_...",
                       function, (int)status);
    if (!*ls_error_message())
        return LS_FAIL(status, "%s returned %s and did not say why (ls_error_set does)", function,
                       ls_status_name(status));
    return ls__fail_passed(status, __FILE__, __LINE__);
}
