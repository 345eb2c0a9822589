#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int ls_text_add(char *text, size_t size, size_t *used, const char *format, ...) {
    if (size == 0) return 0;
    if (*used >= size - 1) {
        text[size - 1] = 0;
        return 0;
    }
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text + *used, size - *used, format, args);
    va_end(args);
    if (n < 0) {
        text[*used] = 0;
        return 0;
    }
    size_t room = size - 1 - *used, length = (size_t)n;
    *used += length < room ? length : room;
    return length <= room;
}

char *ls_text_real(double x, char text[32]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, 32, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    return text;
}

void ls_text_clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7F) *p = '?';
        if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0) p[0] = p[1] = '?';  // the same in UTF-8
    }
}

int ls_text_is_utf8(const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        // What the first byte leaves of the second one's values: no longer forms than needed, no surrogates, nothing above 10FFFF.
        unsigned least = *p == 0xE0   ? 0xA0
                         : *p == 0xF0 ? 0x90
                                      : 0x80,
                 most = *p == 0xED   ? 0x9F
                        : *p == 0xF4 ? 0x8F
                                     : 0xBF;
        int more = *p < 0x80 ? 0 : *p < 0xE0 ? 1 : *p < 0xF0 ? 2 : 3;
        if ((*p >= 0x80 && *p < 0xC2) || *p > 0xF4) return 0;
        for (p++; more > 0; more--, p++) {
            if (*p < least || *p > most) return 0;
            least = 0x80;
            most = 0xBF;
        }
    }
    return 1;
}
