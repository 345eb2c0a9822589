#include "cli/survivors.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/flight.h"
#include "base/lost.h"
#include "base/watch.h"

enum { DEPTH = 3 };  // below the launcher: the daemon that starts them, and a script of the user's

typedef struct worker {
    ls_watch_peer is;
    const ls_flight *flight;  // stays as it was when the process ends
    int end;                  // readable once it has ended; -1: it has, or this kernel has no such files
    int heard;
} worker;

struct cli_survivors {
    worker worker[CLI_SURVIVORS_MOST];
    int count;
    int ended;  // 1: some have
    int lost;   // the worker that was the first; -1: none, or nobody knows
};

cli_survivors *cli_survivors_new(void) {
    cli_survivors *list = calloc(1, sizeof *list);
    if (list) list->lost = -1;
    return list;
}

void cli_survivors_free(cli_survivors **list) {
    for (int i = 0; *list && i < (*list)->count; i++) {
        ls_flight_close(&(*list)->worker[i].flight);
        if ((*list)->worker[i].end >= 0) close((*list)->worker[i].end);
    }
    free(*list);
    *list = NULL;
}

typedef struct finder {
    cli_survivors *list;
    int depth;
} finder;

static void find(void *user, int64_t process, char state) {
    finder *f = user;
    cli_survivors *list = f->list;
    if (list->count == CLI_SURVIVORS_MOST) return;
    for (int i = 0; i < list->count; i++)
        if (list->worker[i].is.process == process) return;
    worker w = {.is = {.rank = ls_watch_rank(process), .process = process}};
    if (w.is.rank >= 0 && (w.flight = ls_flight_open(process))) {
        w.is.started = ls_watch_started(process, &state);
        w.end = ls_lost_open(&w.is);
        list->worker[list->count++] = w;
    } else if (f->depth < DEPTH) {
        f->depth++;
        ls_watch_children(process, find, f);
        f->depth--;
    }
}

void cli_survivors_find(cli_survivors *list, pid_t launcher) {
    finder f = {.list = list, .depth = 1};
    if (list && !list->ended) ls_watch_children(launcher, find, &f);
}

int cli_survivors_ends(const cli_survivors *list, struct pollfd *ends) {
    int count = 0;
    for (int i = 0; list && i < list->count; i++)
        if (list->worker[i].end >= 0) ends[count++] = (struct pollfd){.fd = list->worker[i].end, .events = POLLIN};
    return count;
}

// Processes end in another order than they were killed in, so the one whose end is seen first is that only where no other is on its way.
static int all_others_go_on(const cli_survivors *list, int but) {
    for (int i = 0; i < list->count; i++)
        if (i != but && (list->worker[i].end < 0 || ls_watch_ends(list->worker[i].is.process))) return 0;
    return 1;
}

void cli_survivors_look(cli_survivors *list) {
    for (int i = 0; list && i < list->count; i++) {
        worker *w = &list->worker[i];
        struct pollfd end = {.fd = w->end, .events = POLLIN};
        if (w->end < 0 || poll(&end, 1, 0) <= 0) continue;
        close(w->end);
        w->end = -1;
        if (!list->ended) list->lost = all_others_go_on(list, i) ? i : -1;
        list->ended = 1;
    }
}

int cli_survivors_lost(const cli_survivors *list, int workers) {
    return list && list->count == workers && list->lost >= 0 ? list->worker[list->lost].is.rank : -1;
}

void cli_survivors_heard(cli_survivors *list, int rank) {
    for (int i = 0; list && i < list->count; i++)
        if (list->worker[i].is.rank == rank) list->worker[i].heard = 1;
}

int cli_survivors_say(const cli_survivors *list, const char *command, int lost, int most) {
    char host[256] = "this host";
    int count = 0;
    gethostname(host, sizeof host - 1);
    for (int i = 0; list && i < list->count; i++) {
        const worker *w = &list->worker[i];
        char does[240], whom[96] = "was ended before it could say anything";
        if (w->heard || w->is.rank == lost || ls_flight_has_left(w->flight) || ++count > most) continue;
        ls_flight_place(w->flight, does, sizeof does);
        if (lost >= 0) snprintf(whom, sizeof whom, LS_LOST " %d, and was ended before it could say so", lost);
        fprintf(stderr, "lockstep %s: worker %d on %s %s. It was at: %s\n", command, w->is.rank, host, whom, does);
    }
    return count > most ? count - most : 0;
}
