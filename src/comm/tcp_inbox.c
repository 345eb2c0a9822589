#include "comm/tcp_inbox.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#define SMALL (64 << 10)  // bytes of a message that is taken though nobody asks for it
#define MANY  256         // of them that may be kept so

struct ls__message {
    ls__message *next;
    uint8_t *data;
    int64_t room, total;
    int32_t tag;
    int complete;
};

void ls__inbox_init(ls__inbox *b, ls__seal *seal) { *b = (ls__inbox){.seal = seal}; }

static void message_free(ls__message *m) {
    free(m->data);
    free(m);
}

void ls__inbox_free(ls__inbox *b) {
    while (b->kept) {
        ls__message *m = b->kept;
        b->kept = m->next;
        message_free(m);
    }
    free(b->text);
    *b = (ls__inbox){.seal = NULL};
}

// --- receives and messages -------------------------------------------------------------------------------------------

static ls_status other_size(int32_t tag, int64_t asked, int64_t sent) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "a message (tag %d) has %lld bytes, and %lld are expected", (int)tag,
                   (long long)sent, (long long)asked);
}

static int fits(const ls__receive *r, int64_t size) { return r->shorter ? size <= r->size : size == r->size; }

// Takes the first receive of this tag out of those that wait.
static ls__receive *find_receive(ls__inbox *b, int32_t tag) {
    ls__receive *before = NULL;
    for (ls__receive *r = b->posted; r; before = r, r = r->next) {
        if (r->tag != tag) continue;
        *(before ? &before->next : &b->posted) = r->next;
        if (b->posted_end == r) b->posted_end = before;
        return r;
    }
    return NULL;
}

static ls__message *find_message(ls__inbox *b, int32_t tag, ls__message **before) {
    *before = NULL;
    for (ls__message *m = b->kept; m; *before = m, m = m->next)
        if (m->tag == tag) return m;
    return NULL;
}

static void unlink_message(ls__inbox *b, ls__message *m, ls__message *before) {
    *(before ? &before->next : &b->kept) = m->next;
    if (b->kept_end == m) b->kept_end = before;
}

static ls_status keep(ls__inbox *b, int32_t tag, int64_t total, ls__message **out) {
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->tag = tag;
    (*out)->total = total;
    *(b->kept ? &b->kept_end->next : &b->kept) = *out;
    b->kept_end = *out;
    return LS_OK;
}

// Bytes of a message's frame that are there while the frame is not complete.
static int64_t partial(const ls__inbox *b) {
    int64_t there = b->used - LS_FRAME_HEADER;
    if (b->frame.type != LS_FRAME_MESSAGE || b->frame.size < 0 || there < 0) return 0;
    return there < b->frame.size ? there : b->frame.size;
}

ls_status ls__inbox_post(ls__inbox *b, ls__receive *r) {
    ls__message *before, *m = find_message(b, r->tag, &before);
    r->next = NULL;
    r->done = 0;
    if (!m) {
        *(b->posted ? &b->posted_end->next : &b->posted) = r;
        b->posted_end = r;
        return LS_OK;
    }
    if (!fits(r, m->total)) return other_size(r->tag, r->size, m->total);
    int64_t there = m->complete ? m->total : b->open_done + partial(b);
    if (there > 0) memcpy(r->data, m->data, (size_t)there);
    r->done = m->complete;
    if (!m->complete) b->into = r;  // the rest comes straight to it
    unlink_message(b, m, before);
    message_free(m);
    return LS_OK;
}

ls_status ls__inbox_put(ls__inbox *b, int32_t tag, const void *data, int64_t size) {
    ls__receive *r = find_receive(b, tag);
    ls__message *m;
    if (r && !fits(r, size)) return other_size(tag, r->size, size);
    if (r) {
        if (size > 0) memcpy(r->data, data, (size_t)size);
        r->done = 1;
        return LS_OK;
    }
    uint8_t *copy;
    LS_TRY(ls_calloc(size > 0 ? size : 1, 1, &copy));
    ls_status status = keep(b, tag, size, &m);
    if (status != LS_OK) {
        free(copy);
        LS_TRY(status);
    }
    if (size > 0) memcpy(copy, data, (size_t)size);
    m->data = copy;
    m->room = size;
    m->complete = 1;
    return LS_OK;
}

// Room for the frame's payload: as it comes, not as the head of a message promises.
static ls_status grow(ls__message *m, int64_t needed) {
    if (needed <= m->room) return LS_OK;
    int64_t room = 2 * m->room > needed ? 2 * m->room : needed;
    if (room > m->total) room = m->total;
    uint8_t *larger = realloc(m->data, (size_t)room);
    if (!larger) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a message of %lld bytes", (long long)room);
    m->data = larger;
    m->room = room;
    return LS_OK;
}

// --- frames ----------------------------------------------------------------------------------------------------------

static ls_status no_order(const char *what) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "frames come in an order that no peer sends: %s", what);
}

static ls_status begin_message(ls__inbox *b) {
    const ls__frame *f = &b->frame;
    if (b->open) {
        if (f->tag != b->open_tag || f->total != b->open_total || f->offset != b->open_done)
            return no_order("a message within another one");
    } else {
        if (f->offset != 0) return no_order("a message without its beginning");
        b->open = 1;
        b->open_tag = f->tag;
        b->open_total = f->total;
        b->open_done = 0;
        b->into = find_receive(b, f->tag);
        ls__message *unused;
        if (b->into && !fits(b->into, f->total)) return other_size(f->tag, b->into->size, f->total);
        if (!b->into) LS_TRY(keep(b, f->tag, f->total, &unused));
    }
    return b->into ? LS_OK : grow(b->kept_end, f->offset + f->size);
}

static ls_status begin_frame(ls__inbox *b) {
    LS_TRY(ls__frame_read(b->header, &b->frame));
    LS_TRY(ls__seal_begin(b->seal));
    LS_TRY(ls__seal_add(b->seal, b->header, sizeof b->header));
    if (b->left || b->aborted) return no_order("something after the last");
    if ((b->frame.type == LS_FRAME_GREETING) != !b->greeted)
        return no_order("a greeting is the first, and only the first");
    if (b->frame.type == LS_FRAME_MESSAGE) return begin_message(b);
    if ((b->frame.type == LS_FRAME_BYE || b->frame.type == LS_FRAME_WAITS) && b->open)
        return no_order("a bye or a wait within a message");
    if (b->frame.type == LS_FRAME_WAITS) return LS_OK;
    free(b->text);
    b->text = NULL;
    b->text_size = b->frame.size;
    return ls_calloc((int64_t)b->frame.size + 1, 1, &b->text);
}

static ls_status end_frame(ls__inbox *b) {
    uint8_t code[LS_FRAME_CODE];
    LS_TRY(ls__seal_end(b->seal, code));
    if (CRYPTO_memcmp(code, b->code, sizeof code) != 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "a frame's code is wrong: it was changed on its way, or is not the peer's");
    b->used = 0;
    switch (b->frame.type) {
    case LS_FRAME_GREETING: b->greeted = 1; break;
    case LS_FRAME_BYE: b->left = 1; break;
    case LS_FRAME_ABORT: b->aborted = 1; break;
    case LS_FRAME_WAITS:
        b->waits_for = b->frame.tag;
        b->waits_at = ls_clock();
        break;
    default:
        b->open_done += b->frame.size;
        if (b->open_done < b->open_total) break;
        *(b->into ? &b->into->done : &b->kept_end->complete) = 1;
        b->open = 0;
        b->into = NULL;
    }
    return LS_OK;
}

static uint8_t *payload(const ls__inbox *b) {
    if (b->frame.type != LS_FRAME_MESSAGE) return (uint8_t *)b->text;
    return (b->into ? b->into->data : b->kept_end->data) + b->frame.offset;
}

// Whether the message that the header begins has to wait until somebody asks for something.
static int has_to_wait(const ls__inbox *b) {
    ls__frame f;
    int count = 0;
    if (b->open || b->posted || b->takes_all || ls__frame_read(b->header, &f) != LS_OK || f.type != LS_FRAME_MESSAGE)
        return 0;
    for (const ls__message *m = b->kept; m; m = m->next) count++;
    return f.total > SMALL || count >= MANY;
}

int ls__inbox_takes(const ls__inbox *b) { return b->used != LS_FRAME_HEADER || b->frame.size >= 0 || !has_to_wait(b); }

uint8_t *ls__inbox_room(const ls__inbox *b, size_t *size) {
    int64_t at = b->used - LS_FRAME_HEADER;
    if (at < 0 || at >= b->frame.size) return NULL;
    *size = (size_t)(b->frame.size - at);
    return payload(b) + at;
}

ls_status ls__inbox_took(ls__inbox *b, size_t size) {
    LS_TRY(ls__seal_add(b->seal, payload(b) + b->used - LS_FRAME_HEADER, size));
    b->used += (int64_t)size;
    return LS_OK;
}

// Takes as much as belongs to the part of the frame that is being read.
static ls_status take_part(ls__inbox *b, const uint8_t *data, size_t size, size_t *taken) {
    size_t room, part;
    uint8_t *to;
    if (b->used < LS_FRAME_HEADER) {
        to = b->header + b->used;
        room = (size_t)(LS_FRAME_HEADER - b->used);
    } else if ((to = ls__inbox_room(b, &room))) {
        *taken = size < room ? size : room;
        memcpy(to, data, *taken);
        return ls__inbox_took(b, *taken);
    } else {
        int64_t at = b->used - LS_FRAME_HEADER - b->frame.size;
        to = b->code + at;
        room = (size_t)(LS_FRAME_CODE - at);
    }
    part = size < room ? size : room;
    memcpy(to, data, part);
    b->used += (int64_t)part;
    *taken = part;
    return LS_OK;
}

ls_status ls__inbox_take(ls__inbox *b, const uint8_t *data, size_t size, size_t *taken) {
    *taken = 0;
    for (;;) {
        if (b->used == 0) b->frame.size = -1;  // not known
        if (b->used == LS_FRAME_HEADER && b->frame.size < 0) {
            if (has_to_wait(b)) return LS_OK;
            LS_TRY(begin_frame(b));
        }
        if (b->frame.size >= 0 && b->used == LS_FRAME_HEADER + b->frame.size + LS_FRAME_CODE) {
            LS_TRY(end_frame(b));
            continue;
        }
        if (*taken == size) return LS_OK;
        size_t part;
        LS_TRY(take_part(b, data + *taken, size - *taken, &part));
        *taken += part;
    }
}
