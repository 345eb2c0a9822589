// What the files of the TCP transport share.
#ifndef LS_COMM_TCP_IMPL_H
#define LS_COMM_TCP_IMPL_H

#include <lockstep/context.h>

#include "comm/comm_impl.h"
#include "comm/tcp_greet.h"
#include "comm/tcp_hello.h"
#include "comm/tcp_link.h"
#include "comm/tcp_list.h"

typedef struct ls__tcp_request ls__tcp_request;

typedef struct ls__tcp {
    ls_comm head;
    ls__entry *list;       // (size)
    char *text;            // the list, as all must have it
    ls__link *link;        // (size); that of this worker has no socket
    ls__greeting *theirs;  // (size): what each has said of itself; this worker's own too
    ls__inbox self;        // messages to oneself
    ls__tcp_request *requests;
    struct pollfd *poll;  // (size)
    int *poll_ranks;      // (size)
    int *local;           // (head.local_size): the ranks of this host
    int beacon;           // -1: none
    double link_seconds, looked;
    const char *waits_for;  // for the watch; NULL: a message
    ls_status status;       // the first failure of communication: every call gives it again
    char failure[1024];
} ls__tcp;

static inline ls__tcp *ls__tcp_of(ls_comm *comm) { return (ls__tcp *)comm; }

// tcp_join.c: connects with all. head.rank, head.size, list and text are there. Errors: those of ls_context_create_cluster.
ls_status ls__tcp_join(ls__tcp *c, const ls_cluster *cluster, const ls__key *key);
// tcp_serve.c: a socket that listens at this worker's address alone. Errors: IO, NOT_FOUND.
ls_status ls__tcp_listen(const ls__entry *list, int count, int task, int *out);
// "10.0.0.2:33561" of the other end.
void ls__tcp_where(int socket, char text[80]);

// comm_tcp.c: remembers that communication is over, and tells all others why, after which there are no connections; gives a sentence that names the peer (-1: none)
// before what was said last.
ls_status ls__tcp_broken(ls__tcp *c, ls_status status, int rank);
// Tells all who are connected why this worker ends the job, as far as they take it within a moment. `data_stays`: what messages on their way are made
// of is still there; else those peers only see that the connection is gone.
void ls__tcp_tell_end(ls__tcp *c, const char *why, int data_stays);

// tcp_waits.c: tells the others, where this worker waits long, that it does, and the watch whom all of them wait for. To be called every second or so.
void ls__tcp_share_wait(ls__tcp *c);
// Of what they have told, for one that has waited for `rank` (-1: for nobody in particular) so many seconds: who tells nothing, or LS_WATCH_ALL_WAIT.
int ls__tcp_find_cause(const ls__tcp *c, int rank, double now, double waited);

// tcp_collect.c: among all, or the ranks of a host. They stand on messages with tags of their own.
typedef struct ls__tcp_group {
    ls_comm *comm;
    const int *ranks;  // (count); NULL: all
    int count, self;   // index of this worker
    int32_t tag;       // below 0
} ls__tcp_group;
ls_status ls__tcp_group_barrier(const ls__tcp_group *g);
ls_status ls__tcp_group_broadcast(const ls__tcp_group *g, void *data, int64_t bytes, int root);
ls_status ls__tcp_group_allgather(const ls__tcp_group *g, const void *mine, void *all, int64_t bytes);
ls_status ls__tcp_group_sum(const ls__tcp_group *g, const float *mine, float *all, int64_t count);
ls_status ls__tcp_group_agree(const ls__tcp_group *g, ls_status mine);  // as ls_comm_agree, without names

// tcp_host.c: memory and files of a host's workers.
ls__tcp_group ls__tcp_all(ls_comm *comm);
ls__tcp_group ls__tcp_host(ls_comm *comm);
ls_status ls__tcp_beacon(ls__tcp *c, ls__greeting *mine);  // makes it. Errors: LIBRARY
ls_status ls__tcp_find_hosts(ls__tcp *c);                  // Collective on all
ls_status ls__tcp_host_alloc(ls_comm *comm, int64_t bytes, ls_shared **out);
void ls__tcp_host_free(ls_shared *shared);
ls_status ls__tcp_host_read(ls_comm *comm, const char *path, int64_t offset, int64_t bytes, void *out);

#endif
