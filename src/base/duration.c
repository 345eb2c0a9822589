#include "base/duration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// "12:30:00" into numbers; 0 where it is something else or has more than `most` of them.
static int numbers(const char *text, double *out, int most) {
    int count = 0;
    for (const char *p = text;; p++) {
        size_t digits = strspn(p, "0123456789");
        if (digits == 0 || digits > 9 || count == most) return 0;
        out[count++] = strtod(p, NULL);
        p += digits;
        if (!*p) return count;
        if (*p != ':') return 0;
    }
}

ls_status ls_duration_parse(const char *text, double *seconds) {
    double days = 0, n[3] = {0};
    const char *dash = strchr(text, '-');
    char before[16] = "";
    int count = 0;
    if (!dash) {
        count = numbers(text, n, 3);
        // The last one is seconds, a single one minutes.
        *seconds = count == 1 ? 60 * n[0] : count == 2 ? 60 * n[0] + n[1] : 3600 * n[0] + 60 * n[1] + n[2];
    } else if (dash - text < (long)sizeof before) {
        snprintf(before, sizeof before, "%.*s", (int)(dash - text), text);
        if (numbers(before, &days, 1)) count = numbers(dash + 1, n, 3);
        *seconds = 86400 * days + 3600 * n[0] + 60 * n[1] + n[2];
    }
    if (count > 0 && *seconds > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "expected a time as 90 (minutes), 5:30 (minutes:seconds), 1:15:00 (hours:minutes:seconds) or "
                   "1-12:00:00 (with days), got '%s'",
                   text);
}

const char *ls_duration_text(double seconds, char buffer[32]) {
    long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(buffer, 32, "%lld:%02lld:%02lld h", s / 3600, s / 60 % 60, s % 60);
    else if (s >= 60)
        snprintf(buffer, 32, "%lld:%02lld min", s / 60, s % 60);
    else
        snprintf(buffer, 32, "%lld s", s);
    return buffer;
}
