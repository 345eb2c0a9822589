// What the page is written with: escaped text, charts inside the page, the style sheet.
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/input.h"
#include "report/study_impl.h"

// Bytes of the UTF-8 character at `p`; 0 where there is none.
static int character(const unsigned char *p) {
    int n = *p < 0x80 ? 1 : *p >= 0xC2 && *p < 0xE0 ? 2 : *p >= 0xE0 && *p < 0xF0 ? 3 : *p >= 0xF0 && *p < 0xF5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xC0) != 0x80) return 0;
    return n;
}

static void escaped(FILE *out, const unsigned char *p) {
    while (*p) {
        int n = character(p);
        if (*p == '&')
            fputs("&amp;", out);
        else if (*p == '<')
            fputs("&lt;", out);
        else if (*p == '>')
            fputs("&gt;", out);
        else if (*p == '"')
            fputs("&quot;", out);
        else if (*p == '\'')
            fputs("&#39;", out);
        else if (n == 0 || (*p < ' ' && *p != '\n' && *p != '\t') || *p == 0x7F)
            fputs("\xEF\xBF\xBD", out);  // the replacement character: neither HTML nor XML may hold such a byte
        else
            fwrite(p, 1, (size_t)n, out);
        p += n > 0 ? n : 1;
    }
}

void ls__html(FILE *out, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    int n = vasprintf(&text, format, args);
    va_end(args);
    if (n < 0) return;
    escaped(out, (const unsigned char *)text);
    free(text);
}

static char *read_file(const char *path) {
    FILE *file = ls_input_open_small(path, LS_RECORD_MOST);
    if (!file) return NULL;
    size_t size = 0, room = 0;
    char *text = NULL;
    do {
        if (room - size < 4096) {
            room = 2 * room + 65536;
            char *more = realloc(text, room);
            if (!more) {
                free(text);
                fclose(file);
                return NULL;
            }
            text = more;
        }
        size += fread(text + size, 1, room - size - 1, file);
    } while (!feof(file) && !ferror(file));
    fclose(file);
    text[size] = 0;
    return text;
}

// Copies p[0 .. end), with `prefix` in front of every id and of every reference to one, and without titles: gnuplot's own
// names of things would come up wherever the pointer rests.
static void with_prefix(FILE *out, const char *p, const char *end, const char *prefix) {
    static const char *const before[] = {" id='", " id=\"", "url(#", "href='#", "href=\"#"};
    while (p < end) {
        int found = 0;
        const char *title = strncmp(p, "<title>", 7) == 0 ? strstr(p, "</title>") : NULL;
        if (title) {
            p = title + strlen("</title>");
            continue;
        }
        for (size_t i = 0; i < sizeof before / sizeof before[0] && !found; i++) {
            size_t n = strlen(before[i]);
            if (strncmp(p, before[i], n) != 0) continue;
            fwrite(p, 1, n, out);
            fputs(prefix, out);
            p += n;
            found = 1;
        }
        if (!found) fputc(*p++, out);
    }
}

int ls__html_svg(FILE *out, const char *path, const char *prefix, const char *label) {
    char *text = read_file(path);
    const char *start = text ? strstr(text, "<svg") : NULL, *end = start ? strstr(start, "</svg>") : NULL;
    if (end) {
        fputs("<svg role=\"img\" aria-label=\"", out);
        ls__html(out, "%s", label);
        fputs("\"", out);
        start += strlen("<svg");
        with_prefix(out, start, end, prefix);
        fputs("</svg>", out);
    }
    free(text);
    return end != NULL;
}

const char ls__html_style[] =
    ":root{color-scheme:light "
    "dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d5dae0;--box:#f5f7f9;--warn:#8a4b00;"
    "--warnbox:#fff4e0}\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e4e8ec;--soft:#9aa5b1;--line:#363d45;--box:#1d2227;"
    "--warn:#ffc46b;--warnbox:#33280f}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe "
    "UI',sans-serif}\n"
    "main{max-width:76rem;margin:0 auto;padding:2rem 1.25rem 4rem}\n"
    "h1{font-size:1.9rem;line-height:1.2;margin:0 0 .5rem;overflow-wrap:anywhere}\n"
    "h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-top:.5rem;border-top:1px solid var(--line)}\n"
    "p,li{max-width:46rem}\nli{margin:.35rem 0}\n.lead{font-size:1.1rem}\n.soft{color:var(--soft);font-size:.9rem}\n"
    ".warn{color:var(--warn);background:var(--warnbox);border-left:4px solid currentColor;padding:.6rem "
    ".9rem;margin:1rem 0;"
    "max-width:none;list-style:none}\n"
    ".scroll{overflow-x:auto;margin:1rem 0;border:1px solid var(--line);border-radius:6px}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\n"
    "caption{text-align:left;padding:.6rem .75rem;color:var(--soft)}\n"
    "th,td{padding:.4rem .6rem;text-align:right;white-space:nowrap;border-top:1px solid var(--line)}\n"
    "thead th{background:var(--box);vertical-align:bottom;white-space:normal;min-width:4.5rem}\n"
    "th.name,td.name{text-align:left}\n"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1.25rem}\n"
    "figure{margin:0;border:1px solid var(--line);border-radius:6px;padding:.75rem;min-width:0}\n"
    "figure svg{display:block;width:100%;height:auto}\n"
    "figcaption{color:var(--soft);font-size:.9rem;margin-top:.5rem}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1.25rem;margin:1rem 0}\n"
    "dt{color:var(--soft)}\ndd{margin:0;overflow-wrap:anywhere;min-width:0}\n"
    "pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:.75rem 1rem;white-space:pre-wrap;"
    "overflow-wrap:anywhere;font-size:.85rem}\ncode{overflow-wrap:anywhere}\n"
    // The pictures are drawn on white: turned round, and the hues turned back, they sit well on a dark page.
    "@media screen and (prefers-color-scheme:dark){figure svg{filter:invert(.92) hue-rotate(180deg) "
    "brightness(1.15)}}\n"
    "@media (max-width:40rem){main{padding:1.25rem .9rem "
    "3rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}"
    "h1{font-size:1.5rem}}\n"
    "@media "
    "print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--line:#bbb;--box:#f3f3f3;--warn:#5a3000;"
    "--warnbox:#fff}\n"
    "body{font-size:10pt}main{max-width:none;padding:0}figure,tr,li,pre,.warn,dl{break-inside:avoid}\n"
    "h2,caption{break-after:avoid}.end{break-before:avoid}thead{display:table-header-group}.scroll{overflow:visible;"
    "border:0}"
    "table{font-size:8pt}th,td{padding:.25rem .4rem;white-space:normal}.charts{display:block}"
    // Two of them on a line of text, which no browser cuts in two at the end of a page.
    "figure{display:inline-block;vertical-align:top;width:49.5%;padding:.4rem;margin:0 0 .4rem}@page{margin:1.6cm}}\n";
