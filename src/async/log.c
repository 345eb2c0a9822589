// The log of pushes: reading, checking, writing.
#define _GNU_SOURCE
#include "async/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/output.h"

#define TITLE   "lockstep push log 1"
#define COLUMNS "server push ticket worker pulled"

// --- reading ---------------------------------------------------------------------------------------------------------

typedef struct reader {
    const char *path;
    ls_lines lines;
} reader;

static ls_status bad_line(const reader *r, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s, line %" PRId64 ": %s", r->path, r->lines.number, why);
}

// The next line without its end; *out NULL at the file's end.
static ls_status next_line(reader *r, char **out) {
    int more;
    *out = NULL;
    LS_TRY(ls_lines_next(&r->lines, &more));
    if (!more) return LS_OK;
    char *end = strchr(r->lines.text, '\n');
    if (!end) return bad_line(r, "it is cut off: it does not end");
    *end = 0;
    *out = r->lines.text;
    return LS_OK;
}

static ls_status read_head(reader *r, ls_push_log *log) {
    char *line;
    LS_TRY(next_line(r, &line));
    if (!line || strcmp(line, TITLE) != 0)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is no log of pushes of this version: it does not begin with \"" TITLE "\"", r->path);
    LS_TRY(next_line(r, &line));
    if (!line || sscanf(line, "servers=%d; workers=%d; first=%" SCNd64, &log->servers, &log->workers, &log->first) != 3)
        return bad_line(r, "it does not say how many servers and workers there were");
    if (log->servers < 1 || log->workers < 1 || log->first < 0 || log->servers > 65535 || log->workers > 1000000)
        return bad_line(r, "so many servers and workers there cannot have been");
    LS_TRY(next_line(r, &line));
    if (!line) return bad_line(r, "it does not say what was trained");
    LS_TRY(ls_strdup(line, &log->recipe));
    LS_TRY(next_line(r, &line));
    return line && strcmp(line, COLUMNS) == 0 ? LS_OK : bad_line(r, "expected \"" COLUMNS "\"");
}

// Each server's pushes, as they come in the file: (servers) lists that grow.
typedef struct lists {
    ls_push **pushes;
    int64_t *count, *capacity;
} lists;

static ls_status add_push(lists *l, int server, ls_push push) {
    if (l->count[server] == l->capacity[server]) {
        int64_t capacity = l->capacity[server] ? 2 * l->capacity[server] : 1024;
        ls_push *grown = realloc(l->pushes[server], (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a log of pushes");
        l->pushes[server] = grown;
        l->capacity[server] = capacity;
    }
    l->pushes[server][l->count[server]++] = push;
    return LS_OK;
}

static ls_status read_pushes(reader *r, const ls_push_log *log, lists *l) {
    char *line;
    for (;;) {
        int server, worker, end = 0;
        int64_t number, ticket, pulled;
        LS_TRY(next_line(r, &line));
        if (!line) return LS_OK;
        if (sscanf(line, "%d %" SCNd64 " %" SCNd64 " %d %" SCNd64 " %n", &server, &number, &ticket, &worker, &pulled,
                   &end) != 5 ||
            line[end])
            return bad_line(r, "expected five numbers");
        if (server < 0 || server >= log->servers || worker < 0 || worker >= log->workers)
            return bad_line(r, "there was no such server, or no such worker");
        if (number != log->first + l->count[server] + 1)
            return bad_line(r, "pushes of a server are not numbered one after the other");
        if (ticket <= log->first || pulled < log->first || pulled >= number)
            return bad_line(r, "weights were pulled for it that were not there yet");
        LS_TRY(add_push(l, server, (ls_push){.ticket = ticket, .pulled = pulled, .worker = worker}));
    }
}

// --- what follows from it --------------------------------------------------------------------------------------------

// Every ticket is there once on each server.
static ls_status place(ls_push_log *log, const char *path) {
    int64_t n = log->count;
    for (int s = 0; s < log->servers; s++) {
        int64_t *position = log->position + s * n;
        for (int64_t i = 0; i < n; i++) position[i] = -1;
        for (int64_t i = 0; i < n; i++) {
            int64_t ticket = log->pushes[s * n + i].ticket - log->first - 1;
            if (ticket >= n || position[ticket] >= 0)
                return LS_FAIL(LS_STATUS_BAD_DATA,
                               "%s is damaged: of server %d, ticket %" PRId64 " is there twice, or others are missing",
                               path, s, ticket + log->first + 1);
            position[ticket] = i;
            log->pulls[s * (n + 1) + log->pushes[s * n + i].pulled - log->first]++;
        }
    }
    return LS_OK;
}

// Those that were begun on an older version come first: whatever a batch was begun on comes of
// batches that were begun earlier.
static void sort_by_pulled(ls_push_log *log) {
    int64_t n = log->count, at = 0, *start = log->order + n;
    for (int64_t v = 0; v <= n; v++) {
        start[v] = at;
        at += log->pulls[v];
    }
    for (int64_t t = 0; t < n; t++)
        log->order[start[log->pushes[log->position[t]].pulled - log->first]++] = log->first + 1 + t;
}

static ls_status finish(ls_push_log *log, const lists *l, const char *path) {
    int64_t n = log->count = l->count[0];
    for (int s = 1; s < log->servers; s++)
        if (l->count[s] != n)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s is not whole: it has %" PRId64 " pushes of server 0 and %" PRId64 " of server %d", path,
                           n, l->count[s], s);
    LS_TRY(ls_calloc(log->servers * n, sizeof *log->pushes, &log->pushes));
    LS_TRY(ls_calloc(log->servers * n, sizeof *log->position, &log->position));
    LS_TRY(ls_calloc(log->servers * (n + 1), sizeof *log->pulls, &log->pulls));
    LS_TRY(ls_calloc(2 * n + 1, sizeof *log->order, &log->order));
    for (int s = 0; s < log->servers && n; s++)
        memcpy(log->pushes + s * n, l->pushes[s], (size_t)n * sizeof *log->pushes);
    LS_TRY(place(log, path));
    if (log->servers == 1) sort_by_pulled(log);
    return LS_OK;
}

static ls_status read_all(reader *r, ls_push_log *log) {
    lists l = {0};
    LS_TRY(read_head(r, log));
    ls_status status = ls_calloc(log->servers, sizeof *l.pushes, &l.pushes);
    if (status == LS_OK) status = ls_calloc(log->servers, sizeof *l.count, &l.count);
    if (status == LS_OK) status = ls_calloc(log->servers, sizeof *l.capacity, &l.capacity);
    if (status == LS_OK) status = read_pushes(r, log, &l);
    if (status == LS_OK) status = finish(log, &l, r->path);
    for (int s = 0; l.pushes && s < log->servers; s++) free(l.pushes[s]);
    free(l.pushes);
    free(l.count);
    free(l.capacity);
    return status;
}

ls_status ls_push_log_read(const char *path, ls_push_log *out) {
    *out = (ls_push_log){0};
    reader r = {.path = path, .lines = {.file = ls_input_open(path), .path = path}};
    if (!r.lines.file)
        return LS_FAIL(LS_STATUS_IO, "could not open the log of pushes %s: %s", path, ls_input_why(errno));
    ls_status status = read_all(&r, out);
    fclose(r.lines.file);
    free(r.lines.text);
    if (status == LS_OK) return LS_OK;
    ls_push_log_free(out);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

void ls_push_log_free(ls_push_log *log) {
    free(log->pushes);
    free(log->recipe);
    free(log->position);
    free(log->pulls);
    free(log->order);
    *log = (ls_push_log){0};
}

const ls_push *ls_push_log_of(const ls_push_log *log, int server, int64_t ticket) {
    int64_t at = server * log->count;
    return &log->pushes[at + log->position[at + ticket - log->first - 1]];
}

int64_t ls_push_log_pulls(const ls_push_log *log, int server, int64_t version) {
    return log->pulls[server * (log->count + 1) + version - log->first];
}

int ls_push_log_held(const ls_push_log *log) {
    int64_t n = log->count, most = 0;
    for (int s = 0; s < log->servers; s++) {
        int64_t begun = 0;  // on versions up to v; v of them are applied
        for (int64_t v = 0; v <= n; v++) {
            begun += log->pulls[s * (n + 1) + v];
            if (begun - v > most) most = begun - v;
        }
    }
    return (int)most;
}

// --- writing ---------------------------------------------------------------------------------------------------------

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "could not write the log of pushes %s: %s", path, strerror(errno));
}

ls_status ls_push_log_begin(const char *path, const ls_push_log *head) {
    FILE *f = ls_output_stream(path);
    if (!f) return cannot_write(path);
    fprintf(f, TITLE "\nservers=%d; workers=%d; first=%" PRId64 "\n%s\n" COLUMNS "\n", head->servers, head->workers,
            head->first, head->recipe);
    return fclose(f) == 0 ? LS_OK : cannot_write(path);
}

ls_status ls_push_log_add(const char *path, int server, int64_t number, const ls_push *pushes, int64_t count) {
    int file =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);  // no wait for a reader
    FILE *f = file >= 0 ? fdopen(file, "a") : NULL;
    if (!f) return cannot_write(path);
    for (int64_t i = 0; i < count; i++)
        fprintf(f, "%d %" PRId64 " %" PRId64 " %d %" PRId64 "\n", server, number + i, pushes[i].ticket,
                (int)pushes[i].worker, pushes[i].pulled);
    return fclose(f) == 0 ? LS_OK : cannot_write(path);
}
