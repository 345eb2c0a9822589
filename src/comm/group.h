// Groups from inside: who they are, how their members agree on what they call, and the messages that collectives are made of. Everything goes over
// ls_comm_isend and ls_comm_irecv, so that it works over any transport.
#ifndef LS_COMM_GROUP_H
#define LS_COMM_GROUP_H

#include <lockstep/comm.h>

#include "comm/comm.h"

// Tags of messages: below, those of steps (MPI promises so many); from here on, a block for each group.
#define LS_GROUP_FIRST_TAG 32768

#define LS_GROUP_WORDS 400  // of what a worker calls, or fails with

struct ls_group {
    ls_comm *comm;  // borrowed
    int rank, size;
    int *ranks;                  // (size): of the members in comm
    int *host_of;                // (size)
    int host, hosts;             // this worker's, numbered by their lowest rank
    int local_rank, local_size;  // this worker among those on its host
    int first_tag;
    uint32_t calls;  // collective ones, so far
    // Memory of the running call; kept, because after a failure messages may still come into it.
    void *scratch;
    int64_t scratch_bytes;
    ls_status broken;  // what messages failed with; LS_OK: none has
    char failure[LS_GROUP_WORDS];
};

// All workers of a communicator, which is borrowed. Collective on it; errors are on all of them.
ls_status ls__group_all(ls_comm *comm, ls_group **out);

// --- calls -----------------------------------------------------------------------------------------------------------

// A collective call begins: all members tell each other what it is, in words after the function's name, and whether they can make it. `mine` is what this
// one found: not LS_OK, and all of them get its sentence. Collective; errors are on all members.
ls_status ls__group_begin(ls_group *group, ls_status mine, const char *function, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
// And ends: what messages failed with is kept, and names the function. Returns `status`.
ls_status ls__group_end(ls_group *group, ls_status status, const char *function);
// Fails where messages of the group have failed before, or another thread communicates.
ls_status ls__group_check_usable(const ls_group *group, const char *function);
// What is wrong with a count, a type or a pointer: for `mine` above. A pointer is needed where count > 0.
ls_status ls__group_check(const char *function, int64_t count, ls_dtype dtype);
ls_status ls__group_check_pointer(const char *function, const void *pointer, int64_t count, const char *name);
ls_status ls__group_check_root(const ls_group *group, const char *function, int root);
// At least so many bytes of scratch memory, aligned; what an earlier call had there is gone. Not collective. Errors: OUT_OF_MEMORY.
ls_status ls__group_scratch(ls_group *group, int64_t bytes, void *out);

// --- messages --------------------------------------------------------------------------------------------------------

// Messages that are on their way; there is room for them in `requests`.
typedef struct ls_posts {
    ls_request *requests;
    int count;
} ls_posts;

// `count` elements to, or from, a member; none: nothing is sent. Between two members messages are received in the order in which they were sent.
ls_status ls__group_post_send(ls_group *group, ls_posts *posts, const void *data, int64_t count, ls_dtype dtype,
                              int to);
ls_status ls__group_post_recv(ls_group *group, ls_posts *posts, void *data, int64_t count, ls_dtype dtype, int from);
ls_status ls__group_wait(ls_group *group, ls_posts *posts);

// --- steps of collectives --------------------------------------------------------------------------------------------

// What a member has to do with of `count` elements that are shared out: even parts, cut at multiples of 64.
void ls__group_slice(const ls_group *group, int64_t count, int member, int64_t *begin, int64_t *end);
// `count` elements of `root` to all, along a binomial tree.
ls_status ls__group_spread(ls_group *group, void *data, int64_t count, ls_dtype dtype, int root);
// Each member has its slice of data, (count); `root` (-1: nobody) has all of it. Afterwards all have all: slices go around a ring.
ls_status ls__group_ring(ls_group *group, void *data, int64_t count, ls_dtype dtype, int root);

#endif
