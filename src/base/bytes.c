#include "base/bytes.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

ls_status ls_bytes_parse(const char *text, int64_t *bytes) {
    static const char units[] = "KMGT";
    char *end = NULL;
    double value = isdigit((unsigned char)*text) ? strtod(text, &end) : 0, scale = 1;
    if (value > 0 && end && *end) {
        const char *unit = strchr(units, toupper((unsigned char)*end));
        scale = unit && !end[1] ? pow(1024, (double)(unit - units + 1)) : 0;
    }
    value *= scale;
    if (!(value >= 1 && value < 0x1p62) || strpbrk(text, "xXeEpP"))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "expected an amount of memory as 16G, 900M or 1.5T (K, M, G, T: powers of 1024; none: bytes), got "
            "'%s'",
            text);
    *bytes = (int64_t)value;
    return LS_OK;
}

const char *ls_bytes_text(int64_t bytes, char buffer[32]) {
    static const char *const units[] = {"kB", "MB", "GB", "TB"};
    double value = (double)bytes / 1e3;
    int unit = 0;
    if (bytes < 1000) {
        snprintf(buffer, 32, "%lld B", (long long)bytes);
        return buffer;
    }
    while (value >= 999.95 && unit < 3) value /= 1e3, unit++;
    snprintf(buffer, 32, unit < 2 ? "%.1f %s" : "%.2f %s", value, units[unit]);
    return buffer;
}
