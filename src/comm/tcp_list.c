#include "comm/tcp_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

static ls_status wrong(int index, const char *entry, int length, const char *what) {
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "the list of hosts: worker %d is '%.*s', %s; it is to look like host:port,host:port, one for each "
                   "worker: node1:33562,node2:33562",
                   index, length < 80 ? length : 80, entry, what);
}

// Letters of names, digits, and what addresses have.
static int plain(const char *text, size_t size, const char *beside) {
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !strchr(beside, c))
            return 0;
    }
    return size > 0;
}

static ls_status read_entry(const char *text, int length, int index, ls__entry *out) {
    const char *end = text + length, *colon = end;
    while (colon > text && colon[-1] != ':') colon--;
    if (colon == text) return wrong(index, text, length, "which has no port");
    const char *host = text, *host_end = colon - 1;
    int brackets = host < host_end && *host == '[' && host_end[-1] == ']';
    if (brackets) host++, host_end--;
    size_t size = (size_t)(host_end - host);
    if (!brackets && memchr(host, ':', size))
        return wrong(index, text, length, "an IPv6 address wants brackets around it: [::1]:33562");
    if (!plain(host, size, brackets ? ":.%-_" : ".-_") || (brackets && !memchr(host, ':', size)))
        return wrong(index, text, length, "which names no host");
    if (size >= sizeof out->host) return wrong(index, text, length, "whose name is too long");
    char *past = NULL;
    long port = plain(colon, (size_t)(end - colon), "") ? strtol(colon, &past, 10) : 0;
    if (past != end || port < 1 || port > 65535) return wrong(index, text, length, "whose port is not 1 to 65535");
    memcpy(out->host, host, size);
    out->host[size] = 0;
    out->port = (int)port;
    return LS_OK;
}

static ls_status check_twice(const ls__entry *list, int count) {
    char text[LS_LIST_ENTRY];
    for (int i = 1; i < count; i++)
        for (int k = 0; k < i; k++)
            if (list[i].port == list[k].port && strcmp(list[i].host, list[k].host) == 0)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "the list of hosts: workers %d and %d are both %s; workers of one host take different "
                               "ports",
                               k, i, ls__entry_text(&list[i], text));
    return LS_OK;
}

ls_status ls__list_read(const char *text, ls__entry **out, int *count) {
    int room = 1, n = 0;
    ls_status status = LS_OK;
    *out = NULL;
    *count = 0;
    for (const char *p = text; *p; p++) room += *p == ',';
    if (room > LS_LIST_WORKERS || strlen(text) >= LS_LIST_TEXT)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the list of hosts has %d workers; %d are the most that are connected "
                       "without MPI",
                       room, LS_LIST_WORKERS);
    LS_TRY(ls_calloc(room, sizeof **out, out));
    for (const char *p = text; status == LS_OK; n++) {
        p += strspn(p, " \t\n");
        int length = (int)strcspn(p, ","), end = length;
        while (end > 0 && strchr(" \t\n", p[end - 1])) end--;
        status = end == 0 ? wrong(n, p, 0, "which is empty") : read_entry(p, end, n, *out + n);
        if (!p[length]) {
            n++;
            break;
        }
        p += length + 1;
    }
    if (status == LS_OK) status = check_twice(*out, n);
    if (status == LS_OK) {
        *count = n;
        return LS_OK;
    }
    free(*out);
    *out = NULL;
    return ls__fail_passed(status, __FILE__, __LINE__);
}

const char *ls__entry_text(const ls__entry *e, char text[LS_LIST_ENTRY]) {
    int brackets = strchr(e->host, ':') != NULL;
    snprintf(text, LS_LIST_ENTRY, "%s%s%s:%d", brackets ? "[" : "", e->host, brackets ? "]" : "", e->port);
    return text;
}

ls_status ls__list_text(const ls__entry *list, int count, char **out) {
    char one[LS_LIST_ENTRY];
    size_t used = 0;
    LS_TRY(ls_calloc(count, LS_LIST_ENTRY, out));
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(*out + used, LS_LIST_ENTRY, "%s%s", i ? "," : "", ls__entry_text(&list[i], one));
    return LS_OK;
}
