#include "report/csv.h"

#include <string.h>

// Whether a spreadsheet would compute with it. A recipe begins with the name of an option.
static int is_formula(const char *text) {
    if (text[0] == '-') return text[1] != '-' || strpbrk(text, "|!(") != NULL;
    return text[0] && strchr("=+@\t\r", text[0]);
}

void ls_csv_text(FILE *out, const char *text) {
    fputc('"', out);
    if (is_formula(text)) fputc('\'', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}
