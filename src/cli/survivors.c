#include "cli/survivors.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/flight.h"
#include "base/lost.h"

enum {
    MOST = 256,  // workers that are looked at: each takes a file
    DEPTH = 3    // below the launcher: the daemon that starts them, and a script of the user's
};

typedef struct worker {
    int64_t process;
    int rank;
    const ls_flight *flight;  // stays as it was when the process ends
    int end, heard;
} worker;

struct cli_survivors {
    worker worker[MOST];
    int count;
    int ends;   // an epoll of their ends, whose events come in the order in which they happened
    int first;  // the worker whose end came first, of those that were not done; -1: none has ended
    int sure;   // 1: all others went on when that was seen
};

cli_survivors *cli_survivors_new(void) {
    cli_survivors *list = calloc(1, sizeof *list);
    if (!list) return NULL;
    list->first = -1;
    list->ends = epoll_create1(EPOLL_CLOEXEC);
    return list;
}

void cli_survivors_free(cli_survivors **list) {
    for (int i = 0; *list && i < (*list)->count; i++) {
        ls_flight_close(&(*list)->worker[i].flight);
        close((*list)->worker[i].end);
    }
    if (*list && (*list)->ends >= 0) close((*list)->ends);
    free(*list);
    *list = NULL;
}

typedef struct finder {
    cli_survivors *list;
    int depth;
} finder;

static int take_in(cli_survivors *list, worker w) {
    struct epoll_event hung_up = {.data.u32 = (uint32_t)list->count};  // which is told unasked
    if (w.rank < 0 || !(w.flight = ls_flight_open(w.process))) return 0;
    w.end = ls_flight_open_end(w.flight, w.process);
    if (w.end >= 0 && epoll_ctl(list->ends, EPOLL_CTL_ADD, w.end, &hung_up) == 0) {
        list->worker[list->count++] = w;
        return 1;
    }
    if (w.end >= 0) close(w.end);
    ls_flight_close(&w.flight);
    return 0;
}

static void find(void *user, int64_t process, char state) {
    finder *f = user;
    cli_survivors *list = f->list;
    if (list->count == MOST) return;
    for (int i = 0; i < list->count; i++)
        if (list->worker[i].process == process) return;
    if (take_in(list, (worker){.process = process, .rank = ls_watch_rank(process)}) || f->depth == DEPTH) return;
    f->depth++;
    ls_watch_children(process, find, f);
    f->depth--;
}

void cli_survivors_find(cli_survivors *list, pid_t launcher) {
    finder f = {.list = list, .depth = 1};
    if (list && list->first < 0) ls_watch_children(launcher, find, &f);
}

void cli_survivors_each(const cli_survivors *list, ls_watch_child_fn fn, void *user) {
    char state;
    for (int i = 0; list && i < list->count; i++)
        if (ls_watch_started(list->worker[i].process, &state) >= 0 && state != 'Z' && state != 'X')
            fn(user, list->worker[i].process, state);
}

int cli_survivors_ends(const cli_survivors *list) { return list && list->first < 0 ? list->ends : -1; }

// It has finished, or has said itself why it ends. One that was asked to end may have been so alone, as by somebody's hand.
static int is_done(const worker *w) { return ls_flight_has_left(w->flight) && !ls_flight_was_asked(w->flight); }

// Hydra acts on a connection that closes while its worker is about to end, and on a machine that is busy another one may be gone before it.
static int all_others_go_on(const cli_survivors *list) {
    for (int i = 0; i < list->count; i++)
        if (i != list->first && !is_done(&list->worker[i]) && ls_watch_ends(list->worker[i].process)) return 0;
    return 1;
}

void cli_survivors_look(cli_survivors *list) {
    struct epoll_event event;
    while (list && list->first < 0 && epoll_wait(list->ends, &event, 1, 0) == 1) {
        int which = (int)event.data.u32;
        if (is_done(&list->worker[which])) {
            epoll_ctl(list->ends, EPOLL_CTL_DEL, list->worker[which].end, NULL);
            continue;
        }
        list->first = which;
        list->sure = all_others_go_on(list);
    }
}

int cli_survivors_lost(const cli_survivors *list, int workers, int *sure) {
    *sure = list && list->sure;
    return list && list->count == workers && list->first >= 0 ? list->worker[list->first].rank : -1;
}

void cli_survivors_heard(cli_survivors *list, int rank) {
    for (int i = 0; list && i < list->count; i++)
        if (list->worker[i].rank == rank) list->worker[i].heard = 1;
}

int cli_survivors_say(const cli_survivors *list, const char *command, int lost, int sure, int most) {
    char host[256] = "this host";
    int count = 0;
    gethostname(host, sizeof host - 1);
    for (int i = 0; list && i < list->count; i++) {
        const worker *w = &list->worker[i];
        char does[240], whom[96] = "was ended before it could say anything";
        if (w->heard || w->rank == lost || ls_flight_has_left(w->flight) || ++count > most) continue;
        ls_flight_place(w->flight, does, sizeof does);
        if (lost >= 0 && i != list->first)  // which has lost nobody, whatever the launcher says
            snprintf(whom, sizeof whom, LS_LOST " %d%s, and was ended before it could say so", lost,
                     sure ? "" : CLI_SEEMS);
        fprintf(stderr, "lockstep %s: worker %d on %s %s. It was at: %s\n", command, w->rank, host, whom, does);
    }
    return count > most ? count - most : 0;
}
