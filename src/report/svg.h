// What pictures written by hand share.
#ifndef LS_REPORT_SVG_H
#define LS_REPORT_SVG_H

#include <stdio.h>

// A text as SVG has it between tags and in attributes; control characters become blanks.
void ls__svg_text(FILE *out, const char *text);

#endif
