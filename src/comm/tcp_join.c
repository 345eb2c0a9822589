// Joining a job: a worker listens at its own address and dials every worker of a lower number, again and again until that one is there. Whoever comes
// proves itself (tcp_hello.h), and both say who they are (tcp_greet.h); then it is a peer. A stranger is sent away, and the others go on waiting.
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/patience.h"
#include "base/text.h"
#include "comm/tcp_impl.h"

#define JOIN_SECONDS  300.0
#define HELLO_SECONDS 10.0  // for a hand-shake
#define AGAIN_SECONDS 0.2   // between two attempts to reach a worker
#define TURN_COUNTS   1.0   // of the time that workers may take to come, for which a turn counts at most
#define NOTES         8     // strangers that are told of

enum { GUESTS = 64 };  // who dialled and has not proved anything yet, beside as many as there are workers

typedef enum stage { IDLE, CONNECTING, HELLO, GREETING } stage;

// A connection that is not yet a peer's.
typedef struct attempt {
    stage stage;
    int socket, rank;  // rank: that is dialled; of a guest -1 until it has proved itself
    double since;      // ls_clock() when this stage began, or the attempt failed
    int failures;
    char why[120];  // of the latest failure
    int same;       // 1: it has the same list, or says so
    ls__hello hello;
    ls__link link;  // once it greets
    ls__send greeting;
} attempt;

typedef struct joining {
    ls__tcp *c;
    const ls_cluster *cluster;
    const ls__key *key;
    int listens;     // the socket
    attempt *dial;   // (rank): of worker i
    attempt *guest;  // (guests)
    int guests;
    struct pollfd *poll;  // (1 + rank + guests)
    uint8_t job[32];
    uint8_t *greeting;
    int64_t greeting_size;
    int notes, peers;
    char stranger[160];  // the latest that was sent away
    ls_patience waits;
    double limit;
} joining;

// --- sentences -------------------------------------------------------------------------------------------------------

static void note(joining *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(joining *j, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(j->stranger, sizeof j->stranger, format, arguments);
    va_end(arguments);
    if (j->notes++ < NOTES && j->cluster->note) j->cluster->note(j->cluster->user, j->stranger);
}

static int missing(const joining *j) { return j->c->head.size - 1 - j->peers; }

static int is_peer(const joining *j, int rank) { return j->c->link[rank].socket >= 0; }

static ls_status too_late(joining *j) {
    char text[768], entry[LS_LIST_ENTRY];
    size_t used = 0;
    int named = 0, count = missing(j);
    ls_text_add(text, sizeof text, &used, "waited %.0f s, and %d of %d workers %s not come: ", j->waits.waited, count,
                j->c->head.size, count == 1 ? "has" : "have");
    for (int r = 0; r < j->c->head.size && named < 4; r++) {
        if (r == j->c->head.rank || is_peer(j, r)) continue;
        const char *why = r < j->c->head.rank ? j->dial[r].why : "has not connected to this one";
        ls_text_add(text, sizeof text, &used, "%sworker %d (%.80s) %.100s", named ? "; " : "", r,
                    ls__entry_text(&j->c->list[r], entry), *why ? why : "does not answer");
        named++;
    }
    if (count > named) ls_text_add(text, sizeof text, &used, "; and %d more", count - named);
    if (*j->stranger) ls_text_add(text, sizeof text, &used, ". Sent away: %s", j->stranger);
    return LS_FAIL(LS_STATUS_NOT_FOUND,
                   "%s. Start all workers with the same list of hosts, each with its own number, see that nothing "
                   "between them closes these ports, or allow more time",
                   text);
}

// The first entry in which the lists differ.
static ls_status other_list(const joining *j, int rank, const char *theirs) {
    const char *a = j->c->text, *b = theirs;
    int index = 0;
    while (*a && *b && strcspn(a, ",") == strcspn(b, ",") && strncmp(a, b, strcspn(a, ",")) == 0) {
        a += strcspn(a, ","), b += strcspn(b, ",");
        a += *a == ',', b += *b == ',';
        index++;
    }
    int mine = (int)strcspn(a, ","), other = (int)strcspn(b, ",");
    return LS_FAIL(LS_STATUS_MISMATCH,
                   "worker %d was started with another list of hosts: as worker %d it has %.*s, and this one has %.*s: "
                   "give all the same list",
                   rank, index, other ? other : 6, other ? b : "nobody", mine ? mine : 6, mine ? a : "nobody");
}

// --- attempts --------------------------------------------------------------------------------------------------------

// Drops a connection; who was dialled is dialled again.
static void drop(attempt *a, const char *why) {
    if (a->stage == GREETING)
        ls__link_close(&a->link);
    else if (a->socket >= 0)
        close(a->socket);
    a->socket = -1;
    a->stage = IDLE;
    a->since = ls_clock();
    a->failures++;
    snprintf(a->why, sizeof a->why, "%s", why);
}

static ls_status begin_hello(joining *j, attempt *a, int dials) {
    uint8_t nonce[32];
    ls__hello_claims mine = {.from = j->c->head.rank, .to = a->rank, .size = j->c->head.size};
    memcpy(mine.job, j->job, sizeof mine.job);
    if (getentropy(nonce, sizeof nonce) != 0)
        return LS_FAIL(LS_STATUS_LIBRARY, "the system has no random numbers: %s", strerror(errno));
    ls__socket_set(a->socket, j->c->link_seconds);
    ls__hello_begin(&a->hello, j->key, dials, &mine, nonce);
    a->stage = HELLO;
    a->since = ls_clock();
    return LS_OK;
}

static ls_status dial(joining *j, attempt *a) {
    const ls__entry *to = &j->c->list[a->rank];
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM}, *found, *at;
    char port[8], why[100];
    snprintf(port, sizeof port, "%d", to->port);
    int result = getaddrinfo(to->host, port, &hints, &found);
    if (result != 0) {
        snprintf(why, sizeof why, "has a name without an address here: %s", gai_strerror(result));
        drop(a, why);
        return LS_OK;
    }
    // Of several addresses each has its turn.
    int count = 1;
    for (at = found->ai_next; at; at = at->ai_next) count++;
    at = found;
    for (int i = a->failures % count; i > 0; i--) at = at->ai_next;
    a->socket = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at->ai_protocol);
    int error = a->socket < 0 || connect(a->socket, at->ai_addr, at->ai_addrlen) != 0 ? errno : 0;
    freeaddrinfo(found);
    a->since = ls_clock();
    a->stage = CONNECTING;
    if (error == 0) return begin_hello(j, a, 1);
    if (error != EINPROGRESS) {
        snprintf(why, sizeof why, "cannot be reached: %s", strerror(error));
        drop(a, why);
    }
    return LS_OK;
}

// Who dials where nobody listens, but on the same machine with a port that the system has drawn, may find itself.
static int is_self(int socket) {
    struct sockaddr_storage a, b;
    socklen_t na = sizeof a, nb = sizeof b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    return getsockname(socket, (struct sockaddr *)&a, &na) == 0 &&
           getpeername(socket, (struct sockaddr *)&b, &nb) == 0 && na == nb && memcmp(&a, &b, na) == 0;
}

static ls_status connected(joining *j, attempt *a) {
    int error = 0;
    socklen_t size = sizeof error;
    char why[100];
    if (getsockopt(a->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error == 0 && is_self(a->socket)) error = ECONNREFUSED;
    if (error == 0) return begin_hello(j, a, 1);
    snprintf(why, sizeof why, "cannot be reached: %s", strerror(error));
    drop(a, why);
    return LS_OK;
}

// Takes in whoever knocks.
static ls_status accept_guests(joining *j) {
    for (;;) {
        int s = accept4(j->listens, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (s < 0) return LS_OK;
        attempt *a = NULL, *oldest = NULL;
        for (int i = 0; i < j->guests; i++) {
            attempt *g = &j->guest[i];
            if (g->stage == IDLE) a = g;
            if (g->stage == HELLO && (!oldest || g->since < oldest->since)) oldest = g;
        }
        if (!a && oldest) drop(oldest, ""), a = oldest;  // many that prove nothing do not keep out one that will
        if (!a) {
            close(s);
            continue;
        }
        *a = (attempt){.socket = s, .rank = -1, .link.socket = -1};
        LS_TRY(begin_hello(j, a, 0));
    }
}

// --- the hand-shake --------------------------------------------------------------------------------------------------

// What the other end says of itself is looked at only now that it is proved. *wrong: it is nobody who belongs here, and who it is.
static ls_status check_claims(joining *j, attempt *a, const char **wrong) {
    ls__hello_claims theirs = ls__hello_theirs(&a->hello);
    int self = j->c->head.rank, size = j->c->head.size;
    *wrong = NULL;
    a->same = memcmp(theirs.job, j->job, sizeof j->job) == 0;  // where it is not, the lists tell why
    if (a->hello.dials && a->same && theirs.from != a->rank)
        return LS_FAIL(LS_STATUS_MISMATCH,
                       "at the address of worker %d there is worker %d: is its number right, and the list of hosts?",
                       a->rank, (int)theirs.from);
    if (a->hello.dials) return LS_OK;
    a->rank = theirs.from;
    if (theirs.from < 0 || theirs.from >= LS_LIST_WORKERS || (a->same && (theirs.from >= size || theirs.from < self)))
        *wrong = "a worker whose number is none that comes here";
    else if (theirs.from == self && a->same)
        *wrong = "a second worker of this one's number";
    else if (a->same && is_peer(j, theirs.from))
        *wrong = "a second worker of a number that has come already";
    return LS_OK;
}

static ls_status begin_greeting(joining *j, attempt *a) {
    uint8_t mine[32], theirs[32];
    char where[80];
    ls__tcp_where(a->socket, where);
    if (!ls__hello_keys(&a->hello, mine, theirs)) return LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not make a key");
    int s = a->socket;
    a->stage = GREETING;
    a->since = ls_clock();
    LS_TRY(ls__link_open(&a->link, s, a->rank, mine, theirs));
    snprintf(a->link.where, sizeof a->link.where, "%s", where);
    a->greeting = (ls__send){.type = LS_FRAME_GREETING, .data = j->greeting, .size = j->greeting_size};
    if (ls__link_send(&a->link, &a->greeting) != LS_OK) drop(a, "left during the hand-shake");
    return LS_OK;
}

static ls_status hello_ended(joining *j, attempt *a) {
    char where[80];
    ls__tcp_where(a->socket, where);
    ls__hello_state state = a->hello.state;
    int dials = a->hello.dials;
    const char *wrong;
    if (state == LS_HELLO_DONE) {
        LS_TRY(check_claims(j, a, &wrong));
        if (!wrong) return begin_greeting(j, a);
        note(j, "%s, from %s", wrong, where);
        drop(a, wrong);
        return LS_OK;
    }
    if (state == LS_HELLO_FAILED) return LS_FAIL(LS_STATUS_LIBRARY, "libcrypto could not make a proof");
    if (!dials) {
        ls__hello_claims claims = ls__hello_theirs(&a->hello);
        if (state == LS_HELLO_OTHER_KEY)
            note(j, "somebody at %s, who says to be worker %d and has another key", where, (int)claims.from);
        else
            note(j, "somebody at %s, who does not speak as this version of Lockstep does", where);
        drop(a, "");
        return LS_OK;
    }
    if (state == LS_HELLO_OTHER_VERSION)
        return LS_FAIL(
            LS_STATUS_MISMATCH,
            "what answers at the address of worker %d, %s, is no Lockstep of this version: use the same on all "
            "hosts, and ports that nothing else has",
            a->rank, where);
    return LS_FAIL(
        LS_STATUS_MISMATCH,
        "worker %d at %s has another key than this worker: give all workers the same (--key-file, or LOCKSTEP_KEY)",
        a->rank, where);
}

static void hello_write(attempt *a) {
    ls__hello *h = &a->hello;
    while (h->out_sent < h->out_used) {
        ssize_t n = send(a->socket, h->out + h->out_sent, h->out_used - h->out_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n <= 0) return;
        h->out_sent += (size_t)n;
    }
}

static ls_status hello_read(joining *j, attempt *a) {
    uint8_t bytes[LS_HELLO_BYTES];
    hello_write(a);
    while (a->hello.state == LS_HELLO_GOES_ON) {
        // Never more than this message has: what follows the hand-shake is read by others.
        size_t want = a->hello.in_size - a->hello.in_used;
        ssize_t n = recv(a->socket, bytes, want, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return LS_OK;
        if (n <= 0) {
            drop(a, "left during the hand-shake");
            return LS_OK;
        }
        ls__hello_take(&a->hello, bytes, (size_t)n);
        hello_write(a);
    }
    return hello_ended(j, a);
}

// --- the greeting ----------------------------------------------------------------------------------------------------

static ls_status ended_by_peer(attempt *a) {
    ls_text_clean(a->link.inbox.text);
    return LS_FAIL(LS_STATUS_MISMATCH, "worker %d (%s) has ended the job: %.800s", a->rank, a->link.where,
                   a->link.inbox.text);
}

// `failed`: the connection is gone; what came before counts all the same.
static ls_status become_peer(joining *j, attempt *a, int failed) {
    ls__greeting g;
    const char *list;
    ls_status status = ls__greeting_read(a->link.inbox.text, a->link.inbox.text_size, &g, &list);
    if (status != LS_OK) return ls__fail_context(status, "worker %d (%s): ", a->rank, a->link.where);
    if (strcmp(list, j->c->text) != 0) return other_list(j, a->rank, list);
    if (!a->same) return LS_FAIL(LS_STATUS_BAD_DATA, "worker %d (%s) names two jobs", a->rank, a->link.where);
    if (a->link.ended || failed) {
        drop(a, "left during the hand-shake");
        return LS_OK;
    }
    if (is_peer(j, a->rank)) {  // two at the same time
        note(j, "a second worker %d, from %s", a->rank, a->link.where);
        drop(a, "");
        return LS_OK;
    }
    j->c->theirs[a->rank] = g;
    j->c->link[a->rank] = a->link;
    j->peers++;
    *a = (attempt){.socket = -1, .rank = a->hello.dials ? a->rank : -1, .link.socket = -1};
    return LS_OK;
}

static ls_status greet(joining *j, attempt *a) {
    ls_status status = ls__link_write(&a->link), read = ls__link_read(&a->link);
    if (status == LS_OK) status = read;
    if (a->link.inbox.aborted) return ended_by_peer(a);
    if (status != LS_OK && status != LS_STATUS_LIBRARY)
        return ls__fail_context(status, "worker %d (%s): ", a->rank, a->link.where);
    if (a->link.inbox.greeted && (status != LS_OK || !a->link.queue)) return become_peer(j, a, status != LS_OK);
    if (status != LS_OK) drop(a, "left during the hand-shake");
    return LS_OK;
}

// --- all of them -----------------------------------------------------------------------------------------------------

static short events_of(const attempt *a) {
    if (a->stage == CONNECTING) return POLLOUT;
    if (a->stage == HELLO) return (short)(POLLIN | (a->hello.out_sent < a->hello.out_used ? POLLOUT : 0));
    return a->stage == GREETING ? ls__link_events(&a->link) : 0;
}

static ls_status go_on(joining *j, attempt *a) {
    if (a->stage == CONNECTING) return connected(j, a);
    return a->stage == HELLO ? hello_read(j, a) : greet(j, a);
}

// Attempts that take too long, and those that are due.
static ls_status look_at(joining *j, attempt *a, double now) {
    if (a->stage != IDLE && now - a->since > HELLO_SECONDS)
        drop(a, a->stage == CONNECTING ? "does not answer" : "does not go on with the hand-shake");
    int dials = a->rank >= 0 && a >= j->dial && a < j->dial + j->c->head.rank;
    if (a->stage == IDLE && dials && !is_peer(j, a->rank) && (!a->failures || now - a->since > AGAIN_SECONDS))
        return dial(j, a);
    return LS_OK;
}

static attempt *attempt_at(joining *j, int index) {
    int dials = j->c->head.rank;
    return index < dials ? &j->dial[index] : &j->guest[index - dials];
}

// Somebody who had come may leave before all have.
static ls_status look_at_peers(joining *j) {
    for (int r = 0; r < j->c->head.size; r++) {
        ls__link *l = &j->c->link[r];
        if (l->socket < 0) continue;
        ls_status status = ls__link_read(l);
        if (l->inbox.aborted) {
            ls_text_clean(l->inbox.text);
            return LS_FAIL(LS_STATUS_LIBRARY, "worker %d (%s) has ended the job: %.800s", r, l->where, l->inbox.text);
        }
        if (status != LS_OK)
            return ls__fail_context(status, "worker %d (%s) was there, and while others were waited for: ", r,
                                    l->where);
    }
    return LS_OK;
}

static ls_status turn(joining *j) {
    int count = j->c->head.rank + j->guests;
    double now = ls_clock();
    for (int i = 0; i < count; i++) LS_TRY(look_at(j, attempt_at(j, i), now));
    j->poll[0] = (struct pollfd){.fd = j->listens, .events = POLLIN};
    for (int i = 0; i < count; i++) {
        attempt *a = attempt_at(j, i);
        j->poll[1 + i] = (struct pollfd){.fd = a->stage == IDLE ? -1 : a->socket, .events = events_of(a)};
    }
    if (poll(j->poll, (nfds_t)(1 + count), 50) > 0) {
        for (int i = 0; i < count; i++)
            if (j->poll[1 + i].fd >= 0 && j->poll[1 + i].revents) LS_TRY(go_on(j, attempt_at(j, i)));
        if (j->poll[0].revents) LS_TRY(accept_guests(j));
    }
    LS_TRY(look_at_peers(j));
    ls_patience_look(&j->waits);
    return j->limit >= 0 && missing(j) > 0 && j->waits.waited > j->limit ? too_late(j) : LS_OK;
}

static ls_status begin(joining *j) {
    ls__tcp *c = j->c;
    ls__greeting *mine = &c->theirs[c->head.rank];
    SHA256((const unsigned char *)c->text, strlen(c->text), j->job);
    LS_TRY(ls__tcp_beacon(c, mine));
    LS_TRY(ls__greeting_write(mine, c->text, &j->greeting, &j->greeting_size));
    LS_TRY(ls_calloc(c->head.rank + 1, sizeof *j->dial, &j->dial));
    LS_TRY(ls_calloc(j->guests, sizeof *j->guest, &j->guest));
    LS_TRY(ls_calloc(1 + c->head.rank + j->guests, sizeof *j->poll, &j->poll));
    for (int i = 0; i < c->head.rank; i++) j->dial[i] = (attempt){.socket = -1, .rank = i, .link.socket = -1};
    for (int i = 0; i < j->guests; i++) j->guest[i] = (attempt){.socket = -1, .rank = -1, .link.socket = -1};
    return ls__tcp_listen(c->list, c->head.size, c->head.rank, &j->listens);
}

static void end(joining *j) {
    for (int i = 0; j->dial && i < j->c->head.rank; i++) drop(&j->dial[i], "");
    for (int i = 0; j->guest && i < j->guests; i++) drop(&j->guest[i], "");
    if (j->listens >= 0) close(j->listens);  // nobody else is to come
    free(j->dial);
    free(j->guest);
    free(j->poll);
    free(j->greeting);
}

ls_status ls__tcp_join(ls__tcp *c, const ls_cluster *cluster, const ls__key *key) {
    joining j = {.c = c, .cluster = cluster, .key = key, .listens = -1, .guests = c->head.size + GUESTS};
    j.waits = ls_patience_begin(TURN_COUNTS);
    j.limit = cluster->join_seconds == 0 ? JOIN_SECONDS : cluster->join_seconds;
    ls_status status = begin(&j);
    while (status == LS_OK && missing(&j) > 0) status = turn(&j);
    end(&j);
    return status;
}
