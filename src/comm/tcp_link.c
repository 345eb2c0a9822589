#define _GNU_SOURCE
#include "comm/tcp_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

enum {
    SPARE = 64 << 10,        // bytes read at once that are not read into place
    DIRECT = 8 << 10,        // of a payload that are worth reading into place
    TURN_BYTES = 8 << 20,    // from or to one peer before the others have their turn
    SHARE_LEAST = 64 << 10,  // bytes on their way to one of several hosts that share a wire
    SHARE_MOST = 192 << 10   // more is left to the system, which may not let anybody ask for it
};
#define WIRE_BYTES 1.25e9  // a second: what one connection is to be able to fill, 10 Gbit/s

ls_status ls__link_open(ls__link *link, int socket, int rank, const uint8_t out[32], const uint8_t in[32]) {
    ls_status status;
    link->socket = socket;
    link->rank = rank;
    link->size = -1;
    LS_TRY_GOTO(ls__seal_create(out, &link->out), failed);
    LS_TRY_GOTO(ls__seal_create(in, &link->in), failed);
    LS_TRY_GOTO(ls_calloc(SPARE, 1, &link->spare), failed);
    ls__inbox_init(&link->inbox, link->in);
    return LS_OK;
failed:
    ls__link_close(link);
    return status;
}

void ls__link_close(ls__link *link) {
    if (link->socket >= 0) close(link->socket);
    link->socket = -1;
    ls__inbox_free(&link->inbox);
    ls__seal_destroy(&link->in);
    ls__seal_destroy(&link->out);
    free(link->spare);
    link->spare = NULL;
    link->queue = link->queue_end = NULL;
}

void ls__socket_set(int socket, double link_seconds) {
    int on = 1, seconds = link_seconds < 4 ? 4 : link_seconds > 30000 ? 30000 : (int)link_seconds;
    int idle = seconds / 2, interval = seconds / 4, count = 2;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

void ls__link_share(const ls__link *l) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (l->socket < 0 || getsockopt(l->socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    double bytes = 1e-6 * (double)info.tcpi_min_rtt * WIRE_BYTES;  // far too many where no time is known
    if (bytes > SHARE_MOST) return;
    int buffer = bytes > SHARE_LEAST ? (int)bytes : SHARE_LEAST;
    setsockopt(l->socket, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
}

static ls_status broken(const char *why) { return LS_FAIL(LS_STATUS_LIBRARY, "its connection is gone (%s)", why); }

// --- out -------------------------------------------------------------------------------------------------------------

static ls_status begin_frame(ls__link *l) {
    const ls__send *s = l->queue;
    int64_t rest = s->size - l->offset;
    l->size = rest < LS_FRAME_PAYLOAD ? (int)rest : LS_FRAME_PAYLOAD;
    l->sent = 0;
    ls__frame f = {.type = s->type, .tag = s->tag, .total = s->size, .offset = l->offset, .size = l->size};
    ls__frame_write(&f, l->header);
    LS_TRY(ls__seal_begin(l->out));
    LS_TRY(ls__seal_add(l->out, l->header, sizeof l->header));
    LS_TRY(ls__seal_add(l->out, s->data + l->offset, (size_t)l->size));
    return ls__seal_end(l->out, l->code);
}

// What of a part that begins at byte `at` of the frame is still to be sent.
static void add_part(struct iovec *io, int *count, const void *part, int at, int size, int sent) {
    int skip = sent > at ? sent - at : 0;
    if (skip >= size) return;
    io[(*count)++] = (struct iovec){.iov_base = (uint8_t *)part + skip, .iov_len = (size_t)(size - skip)};
}

static void end_frame(ls__link *l) {
    ls__send *s = l->queue;
    l->offset += l->size;
    l->size = -1;
    if (l->offset < s->size) return;
    l->offset = 0;
    l->queue = s->next;
    if (!l->queue) l->queue_end = NULL;
    s->done = 1;
}

ls_status ls__link_write(ls__link *l) {
    for (int64_t turn = 0; l->queue && turn < TURN_BYTES;) {
        if (l->size < 0) LS_TRY(begin_frame(l));
        struct iovec io[3];
        struct msghdr message = {.msg_iov = io};
        int count = 0;
        add_part(io, &count, l->header, 0, LS_FRAME_HEADER, l->sent);
        if (l->size > 0) add_part(io, &count, l->queue->data + l->offset, LS_FRAME_HEADER, l->size, l->sent);
        add_part(io, &count, l->code, LS_FRAME_HEADER + l->size, LS_FRAME_CODE, l->sent);
        message.msg_iovlen = (size_t)count;
        ssize_t n = sendmsg(l->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)) return LS_OK;
        if (n < 0) return broken(strerror(errno));
        turn += n;
        l->sent += (int)n;
        if (l->sent == LS_FRAME_HEADER + l->size + LS_FRAME_CODE) end_frame(l);
    }
    return LS_OK;
}

ls_status ls__link_send(ls__link *l, ls__send *s) {
    int first = !l->queue;
    s->next = NULL;
    s->done = 0;
    *(l->queue ? &l->queue_end->next : &l->queue) = s;
    l->queue_end = s;
    return first ? ls__link_write(l) : LS_OK;
}

// --- in --------------------------------------------------------------------------------------------------------------

static ls_status take_spare(ls__link *l) {
    size_t taken;
    LS_TRY(ls__inbox_take(&l->inbox, l->spare + l->spare_begin, l->spare_end - l->spare_begin, &taken));
    l->spare_begin += taken;
    if (l->spare_begin == l->spare_end) l->spare_begin = l->spare_end = 0;
    return LS_OK;
}

ls_status ls__link_read(ls__link *l) {
    for (int64_t turn = 0; turn < TURN_BYTES;) {
        size_t room = 0;
        LS_TRY(take_spare(l));
        if (l->spare_end > 0 || !ls__inbox_takes(&l->inbox) || l->ended) return LS_OK;
        uint8_t *to = ls__inbox_room(&l->inbox, &room);
        int direct = to && room >= DIRECT;
        ssize_t n = recv(l->socket, direct ? to : l->spare, direct ? room : SPARE, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return LS_OK;
        if (n < 0) return broken(strerror(errno));
        if (n == 0) {
            l->ended = 1;
            if (l->inbox.left || l->inbox.aborted) return LS_OK;
            return broken("it has ended, or something between has closed it");
        }
        turn += n;
        if (direct)
            LS_TRY(ls__inbox_took(&l->inbox, (size_t)n));
        else
            l->spare_end = (size_t)n;
    }
    return take_spare(l);  // what stays there waits for a receive, and no more is read until then
}

short ls__link_events(const ls__link *l) {
    if (l->socket < 0 || l->ended) return 0;
    short in = l->spare_end == 0 && ls__inbox_takes(&l->inbox) ? POLLIN : 0;
    return (short)(POLLRDHUP | in | (l->queue ? POLLOUT : 0));
}

void ls__link_look(ls__link *l, int64_t ms) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(l->socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return;
    int waits = info.tcpi_unacked > 0 || info.tcpi_probes > 0;
    l->silent_ms = waits && (int64_t)info.tcpi_last_ack_recv >= ms ? l->silent_ms + ms : 0;
}
