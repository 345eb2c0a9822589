#include "comm/tcp_greet.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

_Static_assert(sizeof(ls__greeting) == 160, "a greeting goes over the wire as it is");

ls_status ls__greeting_write(const ls__greeting *mine, const char *list, uint8_t **out, int64_t *size) {
    size_t length = strlen(list);
    *size = (int64_t)(sizeof *mine + length);
    LS_TRY(ls_calloc(*size, 1, out));
    memcpy(*out, mine, sizeof *mine);
    memcpy(*out + sizeof *mine, list, length);
    return LS_OK;
}

ls_status ls__greeting_read(const char *text, int64_t size, ls__greeting *out, const char **list) {
    int ok = size > (int64_t)sizeof *out && !memchr(text + sizeof *out, 0, (size_t)size - sizeof *out);
    if (ok) {
        memcpy(out, text, sizeof *out);
        ok = out->zero == 0 && memchr(out->boot, 0, sizeof out->boot) && memchr(out->name, 0, sizeof out->name) &&
             out->process > 0 && out->file >= -1;
    }
    if (!ok) return LS_FAIL(LS_STATUS_BAD_DATA, "its greeting is none that Lockstep writes");
    ls_text_clean(out->name);
    *list = text + sizeof *out;
    return LS_OK;
}
