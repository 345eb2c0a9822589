#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

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

void ls_text_clean(char *text) {
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        if ((*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7F) *p = '?';
        if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0) p[0] = p[1] = '?';  // the same in UTF-8
    }
}
