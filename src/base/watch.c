#define _GNU_SOURCE
#include "base/watch.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/flight.h"
#include "base/lost.h"
#include "base/patience.h"
#include "base/text.h"

#define TICK_SECONDS   0.5
#define TICK_COUNTS    1.0   // a tick that took longer: this process, or the whole machine, stood still itself
#define LATE_SECONDS   30.0  // after the deadline, for those whose end is only slow
#define REMOTE_SECONDS 5.0
#define SEARCH_SECONDS 2.0  // between looks for workers that nobody has told of yet
#define ENDED_SECONDS  8.0  // for which one that has not joined has ended
#define EXITING        4    // of a process's flags in /proc: PF_EXITING of the kernel
#define SLOWER         10   // times the longest step is worth telling

enum { MOST_PEERS = 1024, SHOWN_PEERS = 16 };

// Who there is, as it was told at one time. One that was told before stays: the watch may be looking at it, and there are few.
typedef struct crew {
    int rank, hosts;
    int count, named;
    ls_watch_peer *peer;       // (count)
    const ls_flight **flight;  // (count)
    char (*host)[64];          // (named)
} crew;

// The process has one main thread, and so one watch over it: the state is the process's, as errno is the thread's.
static struct {
    _Atomic double since;  // 0: nobody waits
    _Atomic double away;   // seconds since then that are no waiting
    _Atomic(const char *) what;
    char whats[2][80];  // in turn: the watch may be reading the one before
    int turn;
    atomic_int rank;     // that is waited for
    atomic_int blamed;   // who keeps that one; -1: nobody is known; LS_WATCH_ALL_WAIT
    const char *within;  // the main thread's own
    int within_bucket, within_count;
    _Atomic double deadline;
    _Atomic double asked;  // when this process was asked to end; 0: not
    atomic_int started;
    atomic_int numbered;          // this process's rank and 1, of a job without a launcher; 0: nobody has told
    _Atomic(const crew *) crew;   // NULL: nobody has told yet
    _Atomic double longest_step;  // 0: none yet
    char why[1024];               // it was given up
    atomic_int given_up;          // 1: `why` is whole
    // The watch's own: whom it looks at, the peers or, before they are known, those found beside this process.
    const ls_watch_peer *seen;
    const crew *known;  // whose peers they are; NULL: they were found
    ls_watch_peer found[MOST_PEERS];
    int seen_count;
    int told;  // this wait
    double searched;
    int started_here,
        ended_here;      // workers that the launcher has started on this host, and those that ended before they joined
    double ended_since;  // 0: none has
    double missing[MOST_PEERS];  // seconds for which it has not run
    char state[MOST_PEERS];
    ls_watch_limits limits;
    ls_watch_fn fn;
    void *user;
} watch;

static int is_main(void) { return (pid_t)syscall(SYS_gettid) == getpid(); }

void ls_watch_begin(const char *what, int rank) {
    if (!atomic_load_explicit(&watch.started, memory_order_relaxed) || !is_main()) return;
    char *mine = watch.whats[watch.turn ^= 1];
    snprintf(mine, sizeof watch.whats[0], "%s", what);
    atomic_store(&watch.what, mine);
    atomic_store(&watch.rank, rank);
    atomic_store(&watch.blamed, -1);
    atomic_store(&watch.since, ls_clock());
    ls_flight_wait(mine, rank);
}

void ls_watch_within(const char *words, int bucket, int count) {
    if (!atomic_load_explicit(&watch.started, memory_order_relaxed)) return;
    watch.within = words;
    watch.within_bucket = bucket;
    watch.within_count = count;
}

void ls_watch_begin_replicas(void) {
    char what[sizeof watch.whats[0]];
    if (!atomic_load_explicit(&watch.started, memory_order_relaxed) || !is_main()) return;
    if (watch.within)
        snprintf(what, sizeof what, "the other replicas (%sbucket %d of %d)", watch.within, watch.within_bucket,
                 watch.within_count);
    else
        snprintf(what, sizeof what, "the other replicas");
    ls_watch_begin(what, -1);
}

double ls_watch_waited(int *rank) {
    double since = atomic_load(&watch.since);
    *rank = atomic_load(&watch.rank);
    double waited = ls_clock() - since - atomic_load(&watch.away);
    return since > 0 && waited > 0 ? waited : 0;
}

void ls_watch_blame(int rank) { atomic_store(&watch.blamed, rank); }

void ls_watch_end(void) {
    if (!atomic_load_explicit(&watch.started, memory_order_relaxed) || !is_main()) return;
    atomic_store(&watch.since, 0);
    ls_flight_wait(NULL, -1);
}

void ls_watch_number(int rank) { atomic_store(&watch.numbered, rank + 1); }

void ls_watch_asked(void) {
    if (atomic_load(&watch.asked) == 0) atomic_store(&watch.asked, ls_clock());
}

void ls_watch_deadline(double at) { atomic_store(&watch.deadline, at); }

void ls_watch_step(double seconds) {
    if (seconds > atomic_load_explicit(&watch.longest_step, memory_order_relaxed))
        atomic_store_explicit(&watch.longest_step, seconds, memory_order_relaxed);
}

void ls_watch_crew_told(const ls_watch_crew *told) {
    crew *c = calloc(1, sizeof *c);
    int count = told->peer_count < MOST_PEERS ? told->peer_count : MOST_PEERS;
    if (!c || !atomic_load(&watch.started)) {
        free(c);
        return;
    }
    *c = (crew){.rank = told->rank, .hosts = told->hosts, .count = count, .named = told->host_count};
    c->peer = calloc((size_t)count + 1, sizeof *c->peer);
    c->flight = calloc((size_t)count + 1, sizeof *c->flight);
    c->host = calloc((size_t)c->named + 1, sizeof *c->host);
    if (!c->peer || !c->flight || !c->host) {
        free(c->peer);
        free(c->flight);
        free(c->host);
        free(c);
        return;
    }
    // Numbers of another PID namespace (a container for each worker) say nothing here: none of them is there, or it is another process.
    c->count = 0;
    for (int i = 0; i < count; i++) {
        char unused;
        if (ls_watch_started(told->peers[i].process, &unused) == told->peers[i].started)
            c->peer[c->count++] = told->peers[i];
    }
    if (c->named > 0) memcpy(c->host, told->host_names, (size_t)c->named * sizeof *c->host);
    for (int i = 0; i < c->count; i++)
        c->flight[i] = ls_flight_open(c->peer[i].process);  // now: what it did can be told when it is gone
    atomic_store(&watch.crew, c);
    ls_lost_crew(c->peer, c->flight, c->count, c->hosts);
}

// The fields of /proc/PROCESS/stat from the third on, the state; NULL where there is no such process.
static char *fields_of(const char *process, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/stat", process);
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    size_t n = fread(text, 1, size - 1, f);
    fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')');  // the program's name, which may hold spaces, ends here: field 2
    if (!p || !p[1]) return NULL;
    if (p[2] == 't') p[2] = 'T';  // by a debugger one is stopped as by a signal
    return p + 2;
}

int64_t ls_watch_started(int64_t process, char *state) {
    char name[24], text[1024];
    long long started = -1;
    *state = 0;
    snprintf(name, sizeof name, "%lld", (long long)process);
    char *p = fields_of(name, text, sizeof text);
    if (!p || !*p) return -1;
    *state = *p;
    for (int field = 3; p && field < 22; field++) p = strchr(p + 1, ' ');
    return p && sscanf(p, "%lld", &started) == 1 ? started : -1;
}

int ls_watch_ends(int64_t process) {
    char path[64], line[256], name[24], text[1024];
    unsigned long long flags = 0, pending = 0;
    snprintf(name, sizeof name, "%lld", (long long)process);
    char *p = fields_of(name, text, sizeof text);  // from field 3 on; the flags are field 9
    if (!p || *p == 'Z' || *p == 'X') return 1;
    if (sscanf(p, "%*c %*d %*d %*d %*d %*d %llu", &flags) == 1 && flags & EXITING) return 1;
    snprintf(path, sizeof path, "/proc/%lld/status", (long long)process);
    FILE *f = fopen(path, "r");
    if (!f) return 1;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "SigPnd: %llx", &pending) == 1 || sscanf(line, "ShdPnd: %llx", &pending) == 1)
            flags |= pending >> (SIGKILL - 1) & 1 ? EXITING : 0;
    fclose(f);
    return (flags & EXITING) != 0;
}

// The number in the environment of a process under the first of these names that is there; -1 where none is, or it cannot be read.
static int number_in(int64_t process, const char *const *names, int count) {
    char path[64], *word = NULL;
    size_t size = 0;
    int number = -1;
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)process);
    FILE *f = fopen(path, "r");
    while (f && getdelim(&word, &size, 0, f) > 0)
        for (int i = 0; i < count; i++)
            if (strncmp(word, names[i], strlen(names[i])) == 0) number = atoi(word + strlen(names[i])), count = i;
    free(word);
    if (f) fclose(f);
    return number;
}

int ls_watch_rank(int64_t process) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMI_RANK=", "PMIX_RANK=", "SLURM_PROCID="};
    return number_in(process, names, 4);
}

int ls_watch_children(int64_t parent, ls_watch_child_fn fn, void *user) {
    char text[1024], state;
    int count = 0;
    DIR *processes = opendir("/proc");
    for (struct dirent *d; processes && (d = readdir(processes));) {
        long long of = 0;
        char *p = d->d_name[0] >= '0' && d->d_name[0] <= '9' ? fields_of(d->d_name, text, sizeof text) : NULL;
        // One that has ended and that nobody asks about any more is no process.
        if (!p || sscanf(p, "%c %lld", &state, &of) != 2 || of != parent || state == 'Z' || state == 'X') continue;
        count++;
        if (fn) fn(user, atoll(d->d_name), state);
    }
    if (processes) closedir(processes);
    return count;
}

void ls_watch_give_up(const char *why) {
    if (ls_watch_given_up()) return;
    snprintf(watch.why, sizeof watch.why, "%s", why);
    atomic_store_explicit(&watch.given_up, 1, memory_order_release);
}

const char *ls_watch_given_up(void) {
    return atomic_load_explicit(&watch.given_up, memory_order_acquire) ? watch.why : NULL;
}

int ls_watch_end_peers(void) {
    const crew *c = atomic_load(&watch.crew);
    const ls_watch_peer *list = c && c->count > 0 ? c->peer : watch.seen;
    int reached = 0, count = c && c->count > 0 ? c->count : list ? watch.seen_count : 0;
    char state;
    for (int i = 0; i < count; i++)
        if (ls_watch_started(list[i].process, &state) == list[i].started && state != 'Z')
            reached += kill((pid_t)list[i].process, SIGKILL) == 0;
    return reached;
}

static int is_same_program(int64_t one, int64_t other) {
    char path[64];
    struct stat a, b;
    snprintf(path, sizeof path, "/proc/%lld/exe", (long long)one);
    if (stat(path, &a) != 0) return 0;
    snprintf(path, sizeof path, "/proc/%lld/exe", (long long)other);
    return stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void add_found(void *user, int64_t process, char state) {
    ls_watch_peer *list = user;
    if (process == getpid() || watch.seen_count == MOST_PEERS || !is_same_program(process, getpid())) return;
    list[watch.seen_count] = (ls_watch_peer){ls_watch_rank(process), process, ls_watch_started(process, &state)};
    if (list[watch.seen_count].rank >= 0) watch.seen_count++;
}

// Before workers have told each other who they are: those that the same process has started.
static void search(void) {
    static ls_watch_peer list[MOST_PEERS];
    double missing[MOST_PEERS] = {0};
    int before = watch.seen == watch.found ? watch.seen_count : 0;
    watch.seen_count = 0;
    ls_watch_children(getppid(), add_found, list);
    for (int i = 0; i < watch.seen_count; i++)
        for (int k = 0; k < before; k++)
            if (list[i].process == watch.found[k].process && list[i].started == watch.found[k].started)
                missing[i] = watch.missing[k];
    memcpy(watch.found, list, sizeof list);
    memcpy(watch.missing, missing, sizeof missing);
    watch.seen = watch.found;
    watch.known = NULL;
}

// How many processes Open MPI and MPICH's Hydra have started on this host, in the environment of each.
static const char *const local_size[] = {"OMPI_COMM_WORLD_LOCAL_SIZE=", "MPI_LOCALNRANKS="};

// Whether a process is one of theirs, by its name: containers and the like stand between, too, and hide what they are given.
static int is_launcher(int64_t process) {
    static const char *const names[] = {"mpirun", "mpiexec", "orte", "prte", "hydra"};
    char path[64], name[32] = "";
    int found = 0;
    snprintf(path, sizeof path, "/proc/%lld/comm", (long long)process);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (!fgets(name, sizeof name, f)) name[0] = 0;
    fclose(f);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) found |= strncmp(name, names[i], strlen(names[i])) == 0;
    return found;
}

typedef struct launched {
    int64_t launcher;
    int count;
} launched;

// One that is about to become a worker is still the launcher's program.
static void count_launched(void *user, int64_t process, char state) {
    launched *of = user;
    of->count += number_in(process, local_size, 2) > 0 || is_same_program(process, of->launcher);
}

// Those of them that are gone already: while this process waits for them to join, which they never will. Processes between the launcher and this
// one, scripts, have the launcher's words, too.
static void search_ended(double now) {
    char name[24], text[1024], state;
    long long parent = getppid();
    watch.started_here = number_in(getpid(), local_size, 2);
    while (parent > 1 && number_in(parent, local_size, 2) > 0) {
        snprintf(name, sizeof name, "%lld", parent);
        char *p = fields_of(name, text, sizeof text);
        if (!p || sscanf(p, "%c %lld", &state, &parent) != 2) return;
    }
    launched of = {.launcher = parent};
    ls_watch_children(parent, count_launched, &of);
    watch.ended_here = watch.started_here - of.count;
    if (!is_launcher(parent) || of.count < 1 || watch.ended_here <= 0)
        watch.ended_since = 0;
    else if (watch.ended_since == 0)
        watch.ended_since = now;
}

// Whom to look at, after `waited` seconds.
static void find_peers(double now, double waited) {
    const crew *c = atomic_load(&watch.crew);
    if (c && c->count > 0) {
        if (watch.seen != c->peer) memset(watch.missing, 0, sizeof watch.missing);
        watch.known = c;
        watch.seen = c->peer;
        watch.seen_count = c->count;
    } else if (waited >= SEARCH_SECONDS && now - watch.searched >= SEARCH_SECONDS) {
        watch.searched = now;
        search();
        if (!c) search_ended(now);
    }
}

// Whether a worker of this host has ended without joining.
static int one_has_ended(double now) {
    return !atomic_load(&watch.crew) && watch.ended_since > 0 && now - watch.ended_since >= ENDED_SECONDS;
}

// Looks at everybody on this host; the longest time that one of them has not run.
static double look(double seconds) {
    double longest = 0;
    for (int i = 0; i < watch.seen_count; i++) {
        char state;
        int64_t started = ls_watch_started(watch.seen[i].process, &state);
        int there = started == watch.seen[i].started && state != 'Z' && state != 'X';
        // That one of those who were only found is gone, its launcher knows.
        int runs = there ? state != 'T' : watch.seen == watch.found;
        watch.state[i] = there ? state : 0;
        watch.missing[i] = runs ? 0 : watch.missing[i] + seconds;
        if (watch.missing[i] > longest) longest = watch.missing[i];
    }
    return longest;
}

static void name_missing(char *text, size_t size) {
    size_t used = strlen(text);
    int named = 0, blamed = atomic_load(&watch.blamed), rank = blamed >= 0 ? blamed : atomic_load(&watch.rank);
    int all_wait = blamed == LS_WATCH_ALL_WAIT;
    const crew *c = atomic_load(&watch.crew);
    for (int i = 0; i < watch.seen_count && named < 4; i++) {
        const ls_watch_peer *p = &watch.seen[i];
        if (watch.missing[i] <= 0) continue;
        ls_text_add(text, size, &used, "%sworker %d (process %lld) %s", named ? ", and " : ": ", p->rank,
                    (long long)p->process, watch.state[i] ? "is stopped, as by SIGSTOP or a debugger" : "is gone");
        named++;
    }
    if (named) return;
    if (one_has_ended(ls_clock()))
        ls_text_add(
            text, size, &used,
            ": of the %d workers that were started on this host, %d ended without joining, as one does that runs "
            "another command",
            watch.started_here, watch.ended_here);
    else if (all_wait)
        ls_text_add(text, size, &used, ": all workers say that they wait, so one of them waits for what nobody sends");
    else if (rank >= 0 && c && rank < c->named)
        ls_text_add(text, size, &used, ": worker %d on %.63s has not answered; look at that host and at the network",
                    rank, c->host[rank]);
    else if (rank >= 0)
        ls_text_add(text, size, &used, ": worker %d has not answered; look at its host and at the network", rank);
    else if (c && c->hosts > 1)
        ls_text_add(text, size, &used,
                    ": all workers of this host run, so those of another one, or the network to it, do not answer");
    else
        ls_text_add(text, size, &used, ": no process of this host is stopped or gone, so one of them is stuck");
}

int ls_watch_own_rank(void) {
    const crew *c = atomic_load(&watch.crew);
    int numbered = atomic_load(&watch.numbered);
    return c ? c->rank : numbered ? numbered - 1 : ls_watch_rank(getpid());
}

// --- what everybody does ---------------------------------------------------------------------------------------------

static void add_record(char *text, size_t size, size_t *used, int rank, int64_t process, const ls_flight *flight,
                       const char *state, double now) {
    char does[400] = "what it does cannot be seen";
    if (flight) ls_flight_describe(flight, now, does, sizeof does);
    ls_text_add(text, size, used, "  worker %d (process %lld%s): %s\n", rank, (long long)process, state, does);
}

// A line for each process of this host, those first that wait for nobody: they have not arrived where others wait for them.
static void describe_all(double now, char *text, size_t size) {
    size_t used = 0;
    int shown = 1, left = 0;
    const ls_flight *own = ls_flight_open(getpid());
    text[0] = 0;
    for (int arrived = 0; arrived < 2; arrived++)
        for (int i = 0; i < watch.seen_count; i++) {
            double since;
            const ls_watch_peer *p = &watch.seen[i];
            const ls_flight *f = watch.known ? watch.known->flight[i] : ls_flight_open(p->process);
            int is_in = f && watch.state[i] && watch.missing[i] <= 0 && ls_flight_waits(f, &since);
            if (is_in == arrived && shown < SHOWN_PEERS)
                add_record(text, size, &used, p->rank, p->process, f,
                           !watch.state[i]        ? ", gone"
                           : watch.missing[i] > 0 ? ", stopped"
                                                  : "",
                           now);
            shown += is_in == arrived;
            left += is_in == arrived && shown > SHOWN_PEERS;
            if (!watch.known) ls_flight_close(&f);
        }
    add_record(text, size, &used, ls_watch_own_rank(), getpid(), own, "", now);
    if (left > 0) ls_text_add(text, size, &used, "  and %d more\n", left);
    ls_flight_close(&own);
}

// --- too long --------------------------------------------------------------------------------------------------------

static int one_is_gone(void) {
    int found = 0;
    for (int i = 0; i < watch.seen_count; i++)
        found |= !watch.state[i] && watch.missing[i] > 0 && watch.missing[i] >= watch.limits.gone;
    return found && watch.limits.gone > 0;
}

static int is_in_step(void) {
    ls_flight_phase phase = ls_flight_now();
    return phase >= LS_FLIGHT_LOAD && phase <= LS_FLIGHT_EXCHANGE && atomic_load(&watch.longest_step) > 0;
}

// A launcher asks the workers that are left to end when one of another host is lost. Then this step ends no more.
static int is_deserted(double now, double waited) {
    double asked = atomic_load(&watch.asked), limit = SLOWER * atomic_load(&watch.longest_step);
    if (limit < REMOTE_SECONDS) limit = REMOTE_SECONDS;
    return asked > 0 && is_in_step() && waited >= limit && now - asked >= limit;
}

// Whether the wait has been too long for good.
static int is_over(double now, double waited, double missing) {
    double deadline = atomic_load(&watch.deadline);
    const crew *c = atomic_load(&watch.crew);
    int late = deadline > 0 && now > deadline, remote = c && c->hosts > 1;
    int over = late && (missing >= 1 || (remote && waited > REMOTE_SECONDS) ||
                        (now > deadline + LATE_SECONDS && waited > LATE_SECONDS));
    return over || one_is_gone() || (remote && is_deserted(now, waited)) || missing >= watch.limits.stopped ||
           waited >= watch.limits.waiting || one_has_ended(now);
}

// Whether a wait within a step is longer than steps have been so far, and this process is the one of its host to say so.
static int is_slow(double now, double waited) {
    double longest = atomic_load_explicit(&watch.longest_step, memory_order_relaxed), limit = SLOWER * longest, since;
    if (limit < watch.limits.slow) limit = watch.limits.slow;
    if (watch.told || waited < limit || !is_in_step()) return 0;
    const crew *c = watch.known;
    for (int i = 0; c && i < watch.seen_count; i++)
        if (c->flight[i] && watch.state[i] && watch.missing[i] <= 0 && c->peer[i].rank < c->rank &&
            ls_flight_waits(c->flight[i], &since) && now - since > limit / 2)
            return 0;
    return 1;
}

static void tell(int over, double now, double waited) {
    char sentence[1024], records[8192];
    double deadline = atomic_load(&watch.deadline), longest = atomic_load(&watch.longest_step);
    const char *what = atomic_load(&watch.what);
    size_t used = 0;
    ls_text_add(sentence, sizeof sentence, &used, "has waited for %s for %.0f s%s", what ? what : "others", waited,
                over && deadline > 0 && now > deadline ? ", and the time limit is reached" : "");
    if (!over) ls_text_add(sentence, sizeof sentence, &used, ", and no step before took longer than %.2g s", longest);
    name_missing(sentence, sizeof sentence);
    describe_all(now, records, sizeof records);
    watch.fn(watch.user, &(ls_watch_report){over, sentence, records});
}

static void *watch_main(void *unused) {
    (void)unused;
    double begun = 0, away = 0;
    ls_patience ticks = ls_patience_begin(TICK_COUNTS);
    for (;;) {
        double before = ticks.waited;
        usleep((useconds_t)(1e6 * TICK_SECONDS));
        double still = ls_patience_look(&ticks), now = ticks.looked, since = atomic_load(&watch.since);
        if (since != begun) {
            begun = since;
            away = 0;
            watch.told = 0;
            watch.ended_since = 0;
            memset(watch.missing, 0, sizeof watch.missing);
        }
        if (since == 0) continue;
        away = away + still < now - since ? away + still : now - since;
        atomic_store(&watch.away, away);
        if (watch.ended_since > 0) watch.ended_since += still;
        double waited = now - since - away;
        find_peers(now, waited);
        double missing = look(ticks.waited - before);
        int over = is_over(now, waited, missing);
        if (!over && !is_slow(now, waited)) continue;
        // Those who wait longest for the same one see it at the same time: the first of them speaks.
        int me = ls_watch_own_rank();
        if (over) usleep(200000 * (useconds_t)(me < 0 ? 0 : me < 20 ? me : 20));
        if (atomic_load(&watch.since) != since) continue;
        tell(over, now, waited);
        if (over) return NULL;
        watch.told = 1;
    }
}

void ls_watch_start(const ls_watch_limits *limits, ls_watch_fn fn, void *user) {
    pthread_t thread;
    pthread_attr_t small;
    sigset_t all, before;
    if (atomic_load(&watch.started)) return;
    watch.limits = *limits;
    atomic_store(&watch.deadline, limits->deadline);
    watch.fn = fn;
    watch.user = user;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    ls_flight_start();
    if (pthread_create(&thread, &small, watch_main, NULL) == 0) atomic_store(&watch.started, 1);
    pthread_attr_destroy(&small);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
