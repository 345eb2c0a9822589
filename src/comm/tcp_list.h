// The list of a job's workers: "a:33562,b:33561,[::1]:33562".
#ifndef LS_COMM_TCP_LIST_H
#define LS_COMM_TCP_LIST_H

#include <lockstep/status.h>

enum { LS_LIST_HOST = 254, LS_LIST_WORKERS = 4096, LS_LIST_TEXT = 96 << 10 };

typedef struct ls__entry {
    char host[LS_LIST_HOST];  // a name or an address, without brackets
    int port;
} ls__entry;

// Spaces around entries do not count. Errors: INVALID_ARGUMENT (says which entry, and what is wrong with it), OUT_OF_MEMORY.
ls_status ls__list_read(const char *text, ls__entry **out, int *count);
// "a:33562" or "[::1]:33562"; returns the text.
enum { LS_LIST_ENTRY = LS_LIST_HOST + 16 };
const char *ls__entry_text(const ls__entry *entry, char text[LS_LIST_ENTRY]);
// The list again, as ls__list_read would find it anywhere: what workers compare. The caller frees it. Errors: OUT_OF_MEMORY.
ls_status ls__list_text(const ls__entry *list, int count, char **out);

#endif
