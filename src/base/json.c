#define _GNU_SOURCE
#include "base/json.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

// In place: a shorter form leaves room, which *to closes.
static void shorten(const char *from, size_t length, char **to) {
    char text[40];
    ls_text_real(strtod(from, NULL), text);
    if (!strpbrk(text, ".e")) memcpy(text + strlen(text), ".0", sizeof ".0");  // a real stays one where it is read back
    int shorter = strlen(text) < length;
    if (shorter) length = strlen(text);
    memmove(*to, shorter ? text : from, length);
    *to += length;
}

static void shorten_reals(char *json) {
    char *to = json;
    int inside = 0;  // a string
    for (const char *p = json; *p;) {
        size_t number = inside ? 0 : strspn(p, "+-.0123456789eE");
        if (number > 1 && memchr(p, '.', number) != NULL) {
            shorten(p, number, &to);
            p += number;
            continue;
        }
        if (*p == '"') inside = !inside;
        if (*p == '\\') *to++ = *p++;
        *to++ = *p++;
    }
    *to = 0;
}

char *ls_json_shorten(char *json) {
    // A comma may be the program's decimal point.
    locale_t plain = json ? newlocale(LC_NUMERIC_MASK, "C", (locale_t)0) : (locale_t)0;
    locale_t before = plain ? uselocale(plain) : (locale_t)0;
    if (plain) shorten_reals(json), uselocale(before), freelocale(plain);
    return json;
}
