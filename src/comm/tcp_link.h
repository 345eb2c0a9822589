// A connection to one peer that has proved who it is: what is to be sent in order, what comes in.
#ifndef LS_COMM_TCP_LINK_H
#define LS_COMM_TCP_LINK_H

#include "comm/tcp_inbox.h"

// Something that is to be sent. Whoever hands it over keeps it, and its data as they are, until it is done.
typedef struct ls__send {
    struct ls__send *next;
    ls__frame_type type;
    int32_t tag;
    const uint8_t *data;
    int64_t size;
    int done;
} ls__send;

typedef struct ls__link {
    int socket;  // -1: none
    int rank;
    char where[80];  // "10.0.0.2:33561", the other end's address
    ls__inbox inbox;
    ls__seal *in, *out;
    ls__send *queue, *queue_end;
    // The frame that is on its way: of the first in the queue.
    uint8_t header[LS_FRAME_HEADER], code[LS_FRAME_CODE];
    int64_t offset;  // in the message, of its payload
    int size;        // of its payload; -1: none is on its way
    int sent;        // bytes of header, payload and code that are gone
    int left_done;   // 1: this side sends no more, and has told the system so
    // Bytes that came and wait for a receive.
    uint8_t *spare;
    size_t spare_begin, spare_end;
    int64_t silent_ms;  // for which it has acknowledged nothing of what is on its way to it
    int ended;          // 1: the other side sends no more
    ls__send waits;     // what it is told of a wait (tcp_waits.c)
} ls__link;

// Takes the socket over. The keys are of this side's frames and of the other's. Errors: OUT_OF_MEMORY, LIBRARY.
ls_status ls__link_open(ls__link *link, int socket, int rank, const uint8_t out[32], const uint8_t in[32]);
void ls__link_close(ls__link *link);  // at once; one that never was opened (socket -1) too
// Appends to what is to be sent, and sends what goes without waiting. Errors: as ls__link_write.
ls_status ls__link_send(ls__link *link, ls__send *send);
// Sends and receives what goes without waiting. Errors: LIBRARY (the connection is gone, in the system's words), those of the inbox.
ls_status ls__link_write(ls__link *link);
ls_status ls__link_read(ls__link *link);
// What poll() is to look for; 0: nothing.
short ls__link_events(const ls__link *link);
// Looks after `ms` milliseconds whether the other side still acknowledges: *silent gets the milliseconds for which it has not.
void ls__link_look(ls__link *link, int64_t ms);
// A link to one of several hosts: bounds what the system takes of it and has on its way, to what the distance needs (by the shortest time there and
// back so far). Connections that share a wire then have equal parts of it; else whichever has most on its way has most of the wire, and the slowest counts.
void ls__link_share(const ls__link *link);
// The sockets of a job: no delay, keep-alive that ends a connection which is silent for so long. Not blocking.
void ls__socket_set(int socket, double link_seconds);

#endif
