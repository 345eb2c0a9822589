// Fuzzes what a worker without MPI reads from the network: the hand-shake from both sides, frames as a stranger would send them and as one who knows
// the key could, greetings, and lists of hosts. The first byte of an input says which of them the rest is.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good inputs in a fixed sequence of ways, the same in every run.
//
//   fuzz_tcp [--iterations N]   spoil and try
//   fuzz_tcp --seeds DIR        write good inputs as a corpus for libFuzzer
//   fuzz_tcp FILE...            try these inputs, to see again what a fuzzer found
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lockstep/status.h>

#include "comm/tcp_greet.h"
#include "comm/tcp_hello.h"
#include "comm/tcp_inbox.h"
#include "comm/tcp_list.h"

enum { ACCEPTS, DIALS, STRANGER, PEER, GREETING_TEXT, LIST, KINDS };
enum { ROOM = 16384, RECEIVES = 8, SCRIPT = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_tcp: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                  \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static const ls__key key = {.bytes = "a key that nobody has to guess..", .size = 32};
static const uint8_t frame_key[32] = {1, 2, 3};

// --- the hand-shake --------------------------------------------------------------------------------------------------

static void begin(ls__hello *h, int dials) {
    uint8_t nonce[32];
    ls__hello_claims mine = {.from = dials ? 3 : 1, .to = dials ? 1 : -1, .size = 5};
    memset(nonce, dials ? 0xD1 : 0xAC, sizeof nonce);
    ls__hello_begin(h, &key, dials, &mine, nonce);
}

// What either side says when all goes well: out[0] of who accepts, out[1] of who dials. Returns the bytes of each.
typedef struct dialogue {
    uint8_t said[2][SCRIPT];
    size_t size[2];
    ls__hello end[2];
} dialogue;

static void hear(dialogue *d, ls__hello *h, int from) {
    ls__hello *other = h + !from;
    memcpy(d->said[from] + d->size[from], h[from].out, h[from].out_used);
    d->size[from] += h[from].out_used;
    size_t used = h[from].out_used;
    h[from].out_used = 0;
    MUST(ls__hello_take(other, d->said[from] + d->size[from] - used, used) == used);
}

static dialogue honest(void) {
    dialogue d = {.size = {0}};
    begin(&d.end[0], 0);
    begin(&d.end[1], 1);
    for (int turn = 0; turn < 4; turn++) hear(&d, d.end, 1 - turn % 2);
    MUST(d.end[0].state == LS_HELLO_DONE && d.end[1].state == LS_HELLO_DONE);
    uint8_t keys[4][32];
    MUST(ls__hello_keys(&d.end[0], keys[0], keys[1]) && ls__hello_keys(&d.end[1], keys[2], keys[3]));
    MUST(memcmp(keys[0], keys[3], 32) == 0 && memcmp(keys[1], keys[2], 32) == 0 && memcmp(keys[0], keys[1], 32) != 0);
    return d;
}

// In parts as the network may bring them. Whoever does not say what only a peer could is never taken for one.
static void hello(int dials, const uint8_t *data, size_t size) {
    static dialogue good;
    ls__hello h;
    size_t taken = 0, part = 1 + size % 37;
    if (!good.size[0]) good = honest();
    begin(&h, dials);
    while (taken < size) {
        size_t want = size - taken < part ? size - taken : part;
        size_t now = ls__hello_take(&h, data + taken, want);
        MUST(now <= want && h.out_used <= sizeof h.out);
        taken += now;
        if (h.state != LS_HELLO_GOES_ON) break;
        MUST(now == want);
    }
    if (h.state != LS_HELLO_DONE) return;
    MUST(taken == good.size[!dials] && memcmp(data, good.said[!dials], taken) == 0);
    ls__hello_claims theirs = ls__hello_theirs(&h);
    MUST(theirs.size == 5 && theirs.from == (dials ? 1 : 3));
}

// --- frames ----------------------------------------------------------------------------------------------------------

typedef struct reader {
    ls__inbox inbox;
    ls__seal *in, *out;
    ls__receive receive[RECEIVES];
    uint8_t *data[RECEIVES];  // as large as what is asked for, so that nothing may be written behind
    int posted;
    ls_status status;
} reader;

static void post(reader *r, uint8_t how) {
    if (r->posted == RECEIVES) return;
    ls__receive *p = &r->receive[r->posted];
    int64_t size = (int64_t)(how >> 2) * (how & 128 ? 97 : 1);
    r->data[r->posted] = malloc((size_t)size);
    MUST(r->data[r->posted] || size == 0);
    *p = (ls__receive){.data = r->data[r->posted], .size = size, .tag = how & 3};
    r->posted++;
    r->status = ls__inbox_post(&r->inbox, p);
}

// A refusal has a sentence.
static void take(reader *r, const uint8_t *data, size_t size) {
    size_t taken = 0, now;
    for (int turn = 0; r->status == LS_OK && taken < size; turn++) {
        size_t room, want = size - taken;
        uint8_t *to = turn % 3 == 0 ? ls__inbox_room(&r->inbox, &room) : NULL;
        if (to) {  // as the transport does with what is worth it
            now = want < room ? want : room;
            memcpy(to, data + taken, now);
            r->status = ls__inbox_took(&r->inbox, now);
        } else {
            if (turn % 2 && want > 5) want = 5;
            r->status = ls__inbox_take(&r->inbox, data + taken, want, &now);
            MUST(now <= want);
            if (r->status == LS_OK && now < want && !ls__inbox_takes(&r->inbox)) {
                if (r->posted == RECEIVES) r->inbox.takes_all = 1;
                post(r, data[taken + now]);
            }
        }
        taken += now;
    }
    if (r->status != LS_OK) MUST(r->status != LS_STATUS_INTERNAL && ls_error_message()[0]);
}

// Frames as a peer sends them: their codes are right, whatever stands in them.
static void take_sealed(reader *r, const uint8_t *data, size_t size) {
    uint8_t code[LS_FRAME_CODE];
    while (r->status == LS_OK && size >= LS_FRAME_HEADER) {
        ls__frame f;
        size_t payload = ls__frame_read(data, &f) == LS_OK ? (size_t)f.size : 0, all = LS_FRAME_HEADER + payload;
        if (all > size) all = size;
        MUST(ls__seal_begin(r->out) == LS_OK && ls__seal_add(r->out, data, all) == LS_OK &&
             ls__seal_end(r->out, code) == LS_OK);
        take(r, data, all);
        if (all == LS_FRAME_HEADER + payload) take(r, code, sizeof code);
        data += all;
        size -= all;
    }
}

static void frames(int kind, const uint8_t *data, size_t size) {
    reader r = {.status = LS_OK};
    if (size < 4) return;
    MUST(ls__seal_create(frame_key, &r.in) == LS_OK && ls__seal_create(frame_key, &r.out) == LS_OK);
    ls__inbox_init(&r.inbox, r.in);
    for (int i = 0; i < 3 && r.status == LS_OK; i++)
        if (data[i]) post(&r, data[i]);
    if (kind == PEER)
        take_sealed(&r, data + 3, size - 3);
    else
        take(&r, data + 3, size - 3);
    // A stranger's frame never counts, not even with a header that is right.
    if (kind == STRANGER) MUST(!r.inbox.greeted && !r.inbox.left && !r.inbox.aborted);
    for (int i = 0; i < r.posted; i++) {
        if (kind == STRANGER) MUST(!r.receive[i].done);
        free(r.data[i]);
    }
    ls__inbox_free(&r.inbox);
    ls__seal_destroy(&r.in);
    ls__seal_destroy(&r.out);
}

// --- texts -----------------------------------------------------------------------------------------------------------

static void greeting(const uint8_t *data, size_t size) {
    ls__greeting g;
    const char *list;
    char *text = calloc(1, size + 1);
    MUST(text);
    memcpy(text, data, size);
    if (ls__greeting_read(text, (int64_t)size, &g, &list) == LS_OK)
        MUST(strlen(g.name) < sizeof g.name && strlen(g.boot) < sizeof g.boot && list + strlen(list) == text + size);
    else
        MUST(ls_error_message()[0]);
    free(text);
}

static void list(const uint8_t *data, size_t size) {
    char *text = calloc(1, size + 1), *again;
    ls__entry *entries, *same;
    int count, same_count;
    MUST(text);
    memcpy(text, data, size);
    ls_status status = ls__list_read(text, &entries, &count);
    MUST((status == LS_OK) == (entries != NULL) && (status == LS_OK) == (count > 0));
    if (status == LS_OK) {
        MUST(ls__list_text(entries, count, &again) == LS_OK && ls__list_read(again, &same, &same_count) == LS_OK);
        MUST(same_count == count && memcmp(same, entries, (size_t)count * sizeof *same) == 0);
        free(again);
        free(same);
    }
    free(entries);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1) return 0;
    int kind = data[0] % KINDS;
    data++, size--;
    switch (kind) {
    case ACCEPTS: hello(0, data, size); break;
    case DIALS: hello(1, data, size); break;
    case GREETING_TEXT: greeting(data, size); break;
    case LIST: list(data, size); break;
    default: frames(kind, data, size); break;
    }
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#include "driver.h"

typedef struct input {
    uint8_t p[ROOM];
    size_t n;
} input;

static void add(input *in, const void *data, size_t size) {
    memcpy(in->p + in->n, data, size);
    in->n += size;
}

static void add_frame(input *in, ls__frame_type type, int tag, int total, int offset, int size) {
    ls__frame f = {type, tag, total, offset, size};
    uint8_t header[LS_FRAME_HEADER];
    ls__frame_write(&f, header);
    add(in, header, sizeof header);
    memset(in->p + in->n, 0x55, (size_t)size);
    in->n += (size_t)size;
}

static void add_greeting(input *in) {
    ls__greeting g = {.process = 1, .file = 3, .boot = "boot", .name = "node1"};
    uint8_t *text;
    int64_t size;
    MUST(ls__greeting_write(&g, "a:1,b:2", &text, &size) == LS_OK);
    add(in, text, (size_t)size);
    free(text);
}

static input good(int kind) {
    static const uint8_t asked[3] = {1 | 4 << 2, 2 | 20 << 2, 0};  // 4 bytes with tag 1, 20 with tag 2
    static const char hosts[] = "node1:33562, node2:33561,[fe80::1%eth0]:33562";
    dialogue d = honest();
    input in = {.n = 1};
    in.p[0] = (uint8_t)kind;
    switch (kind) {
    case ACCEPTS: add(&in, d.said[1], d.size[1]); break;
    case DIALS: add(&in, d.said[0], d.size[0]); break;
    case GREETING_TEXT: add_greeting(&in); break;
    case LIST: add(&in, hosts, sizeof hosts - 1); break;
    default:
        add(&in, asked, sizeof asked);
        add_frame(&in, LS_FRAME_GREETING, 0, 3, 0, 3);
        add_frame(&in, LS_FRAME_MESSAGE, 2, 20, 0, 12);
        add_frame(&in, LS_FRAME_MESSAGE, 2, 20, 12, 8);
        add_frame(&in, LS_FRAME_WAITS, -1, 0, 0, 0);
        add_frame(&in, LS_FRAME_MESSAGE, 0, 9, 0, 9);
        add_frame(&in, LS_FRAME_MESSAGE, 1, 4, 0, 4);
        add_frame(&in, draw(2) ? LS_FRAME_BYE : LS_FRAME_ABORT, 0, 0, 0, 0);
    }
    return in;
}

static void spoil(input *in) {
    uint32_t length = (uint32_t)in->n - 1;
    if (length < 2) return;
    size_t at = 1 + draw(length), from = 1 + draw(length), run = 1 + draw(40);
    switch (draw(7)) {
    case 0: in->p[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: in->p[at] = (uint8_t)draw(256); break;
    case 2: in->n = at; break;
    case 3:
        if (from + run <= in->n && at + run <= in->n) memmove(in->p + at, in->p + from, run);
        break;
    case 4:
        if (at + run <= in->n) memset(in->p + at, draw(2) ? 0 : 0xff, run);
        break;
    case 5:
        if (in->n + run <= ROOM) {
            memmove(in->p + at + run, in->p + at, in->n - at);
            in->n += run;
        }
        break;
    default:
        if (at + run <= in->n) {
            memmove(in->p + at, in->p + at + run, in->n - at - run);
            in->n -= run;
        }
    }
}

static int write_seeds(const char *to) {
    for (int kind = 0; kind < KINDS; kind++) {
        input in = good(kind);
        char name[512];
        snprintf(name, sizeof name, "%s/seed-%d", to, kind);
        FILE *f = fopen(name, "wb");
        if (!f || fwrite(in.p, 1, in.n, f) != in.n || fclose(f) != 0) {
            fprintf(stderr, "fuzz_tcp: cannot write %s\n", name);
            return 1;
        }
    }
    return 0;
}

static void try_one(void) {
    input in = good((int)draw(KINDS));
    for (uint32_t k = draw(5); k; k--) spoil(&in);
    LLVMFuzzerTestOneInput(in.p, in.n);
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_tcp", try_one, write_seeds};
    return fuzz_main(&f, argc, argv);
}

#endif
