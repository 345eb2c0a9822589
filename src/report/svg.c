#include "report/svg.h"

void ls__svg_text(FILE *out, const char *text) {
    for (; *text; text++) switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default: fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
        }
}
