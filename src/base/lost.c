#define _GNU_SOURCE
#include "base/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define LINGER_MS 500  // of the second that launchers give; a wait for another host that is that long is not usual

enum {
    MOST = 256,   // processes that are looked at: each takes a file
    HIGH = 4096,  // below this number is the pipe's end
    SPARE = 8
};

typedef struct crew crew;
struct crew {
    crew *before;  // one that was told of earlier: the thread may be looking at it
    int count, hosts;
    struct pollfd ends[MOST + 1];  // readable once the process has ended; the last one is the pipe's
    ls_watch_peer peer[MOST];
    const ls_flight *record[MOST];
};

// The process has one, as it has one watch.
static struct {
    int pipe[2];  // what the thread is woken by
    atomic_int started;
    _Atomic(crew *) crew;
    ls_lost_fn fn;
    void *user;
} lost;

static int open_end(int64_t process) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, (pid_t)process, 0);
#else
    (void)process;
    return -1;
#endif
}

void ls_lost_crew(const ls_watch_peer *peers, const ls_flight *const *records, int count, int hosts) {
    char unused;
    if (!atomic_load(&lost.started)) return;
    crew *c = calloc(1, sizeof *c);
    if (!c) return;
    c->hosts = hosts;
    for (int i = 0; i < count && c->count < MOST; i++) {
        int file = open_end(peers[i].process);
        if (file < 0) continue;  // this kernel has no such files, or it has ended
        if (ls_watch_started(peers[i].process, &unused) != peers[i].started) {
            close(file);
            continue;
        }
        c->ends[c->count] = (struct pollfd){.fd = file, .events = POLLIN};
        c->record[c->count] = records ? records[i] : NULL;
        c->peer[c->count++] = peers[i];
    }
    c->before = atomic_load(&lost.crew);
    atomic_store(&lost.crew, c);
    while (write(lost.pipe[1], "c", 1) < 0 && errno == EINTR) continue;
}

int ls_lost_asked(void) {
    int before = errno;
    int told = atomic_load(&lost.started) && write(lost.pipe[1], "t", 1) == 1;
    errno = before;
    return told;
}

// The first that has ended and was not asked to, nor wanted to; -1: none has. Of one without a record nobody knows what it wanted.
static int find_lost(crew *c) {
    for (int i = 0; i < c->count; i++) {
        if (c->ends[i].fd < 0 || !c->ends[i].revents) continue;
        if (c->record[i] && !ls_flight_has_left(c->record[i])) return i;
        close(c->ends[i].fd);
        c->ends[i].fd = -1;
    }
    return -1;
}

static void tell(const crew *c, int which) {
    char does[240] = "", sentence[400];
    const ls_flight *own = ls_flight_own();
    if (own) ls_flight_place(own, does, sizeof does);
    snprintf(sentence, sizeof sentence, LS_LOST " %d (process %lld), which has ended%s%s", c->peer[which].rank,
             (long long)c->peer[which].process, does[0] ? ". This one: " : "", does);
    lost.fn(lost.user, sentence, 1);
}

// Asked to end, and all of this host are there. If it is for one of another host, this process has waited for it since.
static void tell_asked(const crew *c) {
    double since, now;
    char does[240], sentence[400];
    const ls_flight *own = ls_flight_own();
    if (c && c->hosts > 1 && own) {
        usleep(1000 * LINGER_MS);
        now = ls_clock();
        if (ls_flight_waits(own, &since) && now - since > 0.6e-3 * LINGER_MS) {
            ls_flight_place(own, does, sizeof does);
            snprintf(sentence, sizeof sentence, "was asked to end by its launcher: %s", does);
            lost.fn(lost.user, sentence, 0);
        }
    }
    lost.fn(lost.user, NULL, 0);
}

static void *lost_main(void *unused) {
    (void)unused;
    struct pollfd only = {.fd = lost.pipe[0], .events = POLLIN};
    for (;;) {
        char words[16];
        crew *c = atomic_load(&lost.crew);
        if (c) c->ends[c->count] = only;
        if (poll(c ? c->ends : &only, c ? (nfds_t)c->count + 1 : 1, -1) < 0) continue;
        int which = c ? find_lost(c) : -1;
        if (which >= 0) {
            tell(c, which);
            return NULL;
        }
        if (!(c ? c->ends[c->count].revents : only.revents)) continue;
        ssize_t n = read(lost.pipe[0], words, sizeof words);
        if (n > 0 && memchr(words, 't', (size_t)n)) tell_asked(c);
    }
}

// Of a process that ends Linux closes the file of the highest number first. So whoever looks at this pipe (base/flight.h) sees the end before a launcher or
// another worker does, which see it by connections, and act: the first end that is seen is the first.
static void raise_end(int *file) {
    struct rlimit limit;
    rlim_t below = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HIGH ? limit.rlim_cur : HIGH;
    int high = below > SPARE ? fcntl(*file, F_DUPFD_CLOEXEC, (int)(below - SPARE)) : -1;
    if (high < 0) return;
    close(*file);
    *file = high;
}

void ls_lost_start(ls_lost_fn fn, void *user) {
    pthread_t thread;
    pthread_attr_t small;
    sigset_t all, before;
    if (atomic_load(&lost.started) || pipe2(lost.pipe, O_CLOEXEC | O_NONBLOCK) != 0) return;
    raise_end(&lost.pipe[1]);
    ls_flight_start();
    ls_flight_end(lost.pipe[0]);
    lost.fn = fn;
    lost.user = user;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &small, lost_main, NULL) == 0) atomic_store(&lost.started, 1);
    pthread_attr_destroy(&small);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
