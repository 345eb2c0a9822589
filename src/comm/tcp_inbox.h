// What comes from one peer: bytes go in, frames are checked, and messages find the receives that ask for them. Sockets are none of its business.
//
// A receive takes the earliest message of its tag that nobody has taken, and a message the earliest receive, as in MPI. A message that nobody
// has asked for yet is kept, where a receive with another tag waits behind it; where no receive waits at all the inbox takes no more
// (ls__inbox_takes), so that TCP holds the sender back, but for messages so small that they cost nothing.
#ifndef LS_COMM_TCP_INBOX_H
#define LS_COMM_TCP_INBOX_H

#include "comm/tcp_frame.h"

// A message that is asked for. Whoever posts it keeps it until it is done.
typedef struct ls__receive {
    struct ls__receive *next;
    uint8_t *data;
    int64_t size;
    int32_t tag;
    int shorter;  // 1: a message of fewer bytes will do
    int done;
} ls__receive;

typedef struct ls__message ls__message;

typedef struct ls__inbox {
    ls__seal *seal;  // NULL: of this process itself, which needs none
    // The frame that is being read.
    uint8_t header[LS_FRAME_HEADER], code[LS_FRAME_CODE];
    ls__frame frame;
    int64_t used;   // bytes of the header, the payload and the code that are there
    int takes_all;  // 1: nothing has to wait any more: the peer is leaving, and what it says last counts
    int open;       // 1: a message has begun and is not complete
    int32_t open_tag;
    int64_t open_total, open_done;
    ls__receive *into;                 // where it goes; NULL: `kept`
    ls__receive *posted, *posted_end;  // receives without a message yet
    ls__message *kept, *kept_end;      // messages without a receive; the last may not be complete
    // What is no message.
    char *text;  // of a greeting or an abort, with a zero behind
    int64_t text_size;
    int greeted, left, aborted;  // a greeting came; a bye; an abort
    int32_t waits_for;           // what it has said last that it waits for,
    double waits_at;             // and ls_clock() when; 0: it never has
} ls__inbox;

void ls__inbox_init(ls__inbox *inbox, ls__seal *seal);  // the seal is borrowed
void ls__inbox_free(ls__inbox *inbox);
// Asks for a message; it may be there already, and then is copied. Errors: BAD_DATA (it has another size).
ls_status ls__inbox_post(ls__inbox *inbox, ls__receive *receive);
// A message of this process for itself. Errors: OUT_OF_MEMORY, BAD_DATA.
ls_status ls__inbox_put(ls__inbox *inbox, int32_t tag, const void *data, int64_t size);
// Whether it takes more bytes now.
int ls__inbox_takes(const ls__inbox *inbox);
// Takes bytes that came; *taken is less than `size` where a message begins that has to wait. Errors: BAD_DATA (a frame that is none, or whose code
// is wrong; a message of another size than the one asked for; frames out of order), OUT_OF_MEMORY, LIBRARY. After one nothing may be
// taken any more.
ls_status ls__inbox_take(ls__inbox *inbox, const uint8_t *data, size_t size, size_t *taken);
// Where the next bytes of a payload belong, and how many: for reading straight into it. NULL: they are to be taken as above.
uint8_t *ls__inbox_room(const ls__inbox *inbox, size_t *size);
ls_status ls__inbox_took(ls__inbox *inbox, size_t size);  // so many bytes are there. Errors: as ls__inbox_take

#endif
