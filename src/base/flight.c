// The record is a page of anonymous memory with a name (memfd), which others reach through /proc/PROCESS/fd. It goes with the last process that
// has it open.
#define _GNU_SOURCE
#include "base/flight.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"

#define NAME  "lockstep-flight"
#define MAGIC (0x6c732d666c696768u + sizeof(ls_flight))

enum { MARKS = 16, WORDS = 6, SHOWN = 3 };

enum leave { STAYS, LEFT, LEFT_ASKED };

// Text of at most 47 characters, in words that are written one by one: whoever reads it meanwhile reads a mixture, and no more harm is done.
typedef struct words {
    _Atomic uint64_t word[WORDS];
} words;

typedef struct mark {
    _Atomic double at;
    _Atomic int64_t step;
    _Atomic int32_t epoch, phase;
} mark;

struct ls_flight {
    uint64_t magic;
    _Atomic uint64_t marks;  // made so far; the latest is marks - 1
    mark mark[MARKS];
    struct {
        _Atomic double since;  // 0: there is no such replica
        _Atomic int32_t phase;
    } lane[LS_FLIGHT_LANES];
    _Atomic double waits_since;  // 0: it does not
    _Atomic int32_t waits_rank;
    _Atomic int32_t left;  // enum leave
    _Atomic int32_t bucket, buckets;
    _Atomic int32_t end;  // a file of this process, and one more: 0 is none
    words waits_for;
    words call;
};

static ls_flight *mine;  // the process has one

static const char *const phase_words[] = {
#define X(name, words) words,
    LS_FLIGHT_PHASE_LIST(X)
#undef X
};

static const char *words_of(int phase) { return phase >= 0 && phase < LS_FLIGHT_PHASES ? phase_words[phase] : "?"; }

static void put(words *to, const char *text) {
    uint64_t word[WORDS] = {0};
    size_t n = strlen(text);
    memcpy(word, text, n < sizeof word - 1 ? n : sizeof word - 1);
    for (int i = 0; i < WORDS; i++) atomic_store_explicit(&to->word[i], word[i], memory_order_relaxed);
}

static void get(const words *from, char text[8 * WORDS]) {
    for (int i = 0; i < WORDS; i++) {
        uint64_t word = atomic_load_explicit(&from->word[i], memory_order_relaxed);
        memcpy(text + (size_t)8 * i, &word, 8);
    }
    text[8 * WORDS - 1] = 0;
}

// --- this process's ---------------------------------------------------------------------------------------------------

void ls_flight_start(void) {
    if (mine) return;
    int file = memfd_create(NAME, MFD_CLOEXEC);  // stays open: others find it by that
    if (file < 0) return;
    ls_flight *flight = ftruncate(file, sizeof *flight) == 0
                            ? mmap(NULL, sizeof *flight, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                            : MAP_FAILED;
    if (flight == MAP_FAILED) {
        close(file);
        return;
    }
    flight->magic = MAGIC;
    mine = flight;
    ls_flight_mark(LS_FLIGHT_START, 0, 0);
}

void ls_flight_mark(ls_flight_phase phase, int epoch, int64_t step) {
    if (!mine) return;
    uint64_t count = atomic_load_explicit(&mine->marks, memory_order_relaxed);
    mark *m = &mine->mark[count % MARKS];
    atomic_store_explicit(&m->at, ls_clock(), memory_order_relaxed);
    atomic_store_explicit(&m->step, step, memory_order_relaxed);
    atomic_store_explicit(&m->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&m->phase, (int32_t)phase, memory_order_relaxed);
    atomic_store_explicit(&mine->marks, count + 1, memory_order_release);
}

void ls_flight_lane(int lane, ls_flight_phase phase) {
    if (!mine || lane < 0 || lane >= LS_FLIGHT_LANES) return;
    atomic_store_explicit(&mine->lane[lane].phase, (int32_t)phase, memory_order_relaxed);
    atomic_store_explicit(&mine->lane[lane].since, ls_clock(), memory_order_relaxed);
}

void ls_flight_wait(const char *what, int rank) {
    if (!mine) return;
    if (what) put(&mine->waits_for, what);
    atomic_store_explicit(&mine->waits_rank, what ? rank : -1, memory_order_relaxed);
    atomic_store_explicit(&mine->waits_since, what ? ls_clock() : 0, memory_order_release);
}

void ls_flight_call(const char *text) {
    if (mine) put(&mine->call, text);
}

void ls_flight_bucket(int bucket, int count) {
    if (!mine) return;
    atomic_store_explicit(&mine->bucket, bucket, memory_order_relaxed);
    atomic_store_explicit(&mine->buckets, count, memory_order_relaxed);
}

void ls_flight_end(int file) {
    if (mine) atomic_store_explicit(&mine->end, file + 1, memory_order_release);
}

void ls_flight_leave(void) {
    if (mine) atomic_store_explicit(&mine->left, LEFT, memory_order_release);
}

void ls_flight_leave_asked(void) {
    if (mine) atomic_store_explicit(&mine->left, LEFT_ASKED, memory_order_release);
}

const ls_flight *ls_flight_own(void) { return mine; }

ls_flight_phase ls_flight_now(void) {
    uint64_t count = mine ? atomic_load_explicit(&mine->marks, memory_order_acquire) : 0;
    if (!count) return LS_FLIGHT_START;
    return (ls_flight_phase)atomic_load_explicit(&mine->mark[(count - 1) % MARKS].phase, memory_order_relaxed);
}

// --- anybody's --------------------------------------------------------------------------------------------------------

static const ls_flight *map(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    const ls_flight *flight = NULL;
    if (lseek(file, 0, SEEK_END) == (off_t)sizeof *flight)
        flight = mmap(NULL, sizeof *flight, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (!flight || flight == MAP_FAILED) return NULL;
    if (flight->magic != MAGIC) ls_flight_close(&flight);  // of another version
    return flight;
}

const ls_flight *ls_flight_open(int64_t process) {
    char folder[64], path[360], to[64];
    const ls_flight *flight = NULL;
    snprintf(folder, sizeof folder, "/proc/%lld/fd", (long long)process);
    DIR *files = opendir(folder);
    for (struct dirent *d; files && !flight && (d = readdir(files));) {
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        ssize_t n = readlink(path, to, sizeof to - 1);
        if (n <= 0) continue;
        to[n] = 0;
        if (strstr(to, "memfd:" NAME)) flight = map(path);
    }
    if (files) closedir(files);
    return flight;
}

void ls_flight_close(const ls_flight **flight) {
    if (*flight) munmap((void *)(uintptr_t)*flight, sizeof **flight);
    *flight = NULL;
}

int ls_flight_open_end(const ls_flight *flight, int64_t process) {
    char path[64];
    int file = atomic_load_explicit(&flight->end, memory_order_acquire) - 1;
    if (file < 0) return -1;
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)process, file);
    return open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

int ls_flight_waits(const ls_flight *f, double *since) {
    *since = atomic_load_explicit(&f->waits_since, memory_order_acquire);
    return *since > 0;
}

// Other replicas than the first that have not come to where the first one waits for them.
static void add_lanes(const ls_flight *f, double now, char *text, size_t size, size_t *used) {
    int named = 0;
    for (int i = 1; i < LS_FLIGHT_LANES; i++) {
        double since = atomic_load_explicit(&f->lane[i].since, memory_order_relaxed);
        int phase = atomic_load_explicit(&f->lane[i].phase, memory_order_relaxed);
        if (since <= 0 || phase == LS_FLIGHT_EXCHANGE || phase == LS_FLIGHT_BETWEEN || named == SHOWN) continue;
        ls_text_add(text, size, used, "; replica %d: %s for %.1f s", i, words_of(phase), now - since);
        named++;
    }
}

static void add_before(const ls_flight *f, uint64_t count, char *text, size_t size, size_t *used) {
    uint64_t shown = count - 1 < SHOWN ? count - 1 : SHOWN;
    for (uint64_t i = 0; i < shown; i++) {
        const mark *m = &f->mark[(count - 2 - i) % MARKS], *next = &f->mark[(count - 1 - i) % MARKS];
        ls_text_add(text, size, used, "%s%s %.2f s", i ? ", " : "; before: ", words_of(atomic_load(&m->phase)),
                    atomic_load(&next->at) - atomic_load(&m->at));
    }
}

int ls_flight_has_left(const ls_flight *f) { return atomic_load_explicit(&f->left, memory_order_acquire) != STAYS; }

int ls_flight_was_asked(const ls_flight *f) {
    return atomic_load_explicit(&f->left, memory_order_acquire) == LEFT_ASKED;
}

// The phase and the step that it is in, as they are called.
static void add_step(const mark *m, char *text, size_t size, size_t *used) {
    int64_t step = atomic_load(&m->step);
    int epoch = atomic_load(&m->epoch);
    ls_text_add(text, size, used, "%s", words_of(atomic_load(&m->phase)));
    if (step > 0) ls_text_add(text, size, used, ", step %lld", (long long)step);
    if (epoch > 0) ls_text_add(text, size, used, " of epoch %d", epoch);
}

void ls_flight_place(const ls_flight *f, char *text, size_t size) {
    uint64_t count = atomic_load_explicit(&f->marks, memory_order_acquire);
    size_t used = 0;
    double since;
    char what[8 * WORDS];
    text[0] = 0;
    if (!count) return;
    const mark *m = &f->mark[(count - 1) % MARKS];
    int phase = atomic_load(&m->phase), bucket = atomic_load(&f->bucket), buckets = atomic_load(&f->buckets);
    int rank = atomic_load(&f->waits_rank), trains = phase >= LS_FLIGHT_LOAD && phase <= LS_FLIGHT_EXCHANGE;
    add_step(m, text, size, &used);
    if (ls_flight_waits(f, &since)) {
        get(&f->waits_for, what);
        ls_text_add(text, size, &used, ", where it waits for %s", what);
        if (rank >= 0) ls_text_add(text, size, &used, " (worker %d)", rank);
    } else if (trains && buckets > 0) {
        ls_text_add(text, size, &used, ", %s bucket %d of %d", bucket < buckets ? "before" : "after",
                    bucket < buckets ? bucket : buckets - 1, buckets);
    }
}

void ls_flight_describe(const ls_flight *f, double now, char *text, size_t size) {
    uint64_t count = atomic_load_explicit(&f->marks, memory_order_acquire);
    size_t used = 0;
    double since;
    char what[8 * WORDS], call[8 * WORDS];
    text[0] = 0;
    if (!count) return;
    const mark *m = &f->mark[(count - 1) % MARKS];
    int rank = atomic_load(&f->waits_rank);
    add_step(m, text, size, &used);
    ls_text_add(text, size, &used, ", for %.1f s", now - atomic_load(&m->at));
    if (ls_flight_waits(f, &since)) {
        get(&f->call, call);
        if (*call) ls_text_add(text, size, &used, ", in %s", call);
        get(&f->waits_for, what);
        ls_text_add(text, size, &used, ", waiting for %s", what);
        if (rank >= 0) ls_text_add(text, size, &used, " (worker %d)", rank);
        add_lanes(f, now, text, size, &used);
    } else {
        add_before(f, count, text, size, &used);
    }
}
