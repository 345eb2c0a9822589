// Servers: some of the workers hold the optimizer's state, sum and update; the others compute, push their sums and pull the new weights.
//
// The phases are those of allreduce, with the servers' lanes as the only owners, and without micro-batches for them. Every bucket is cut
// into as many pieces as there are lanes of servers, so that no server waits while another has all the work. Inside a host, pushing is
// leaving gradients where the server reads them, and pulling is reading the host's one vector; between hosts, a host sends each server one
// message of sums for each bucket and gets one of new weights.
#include "base/error.h"
#include "strategy/strategy_impl.h"

// A job of one worker has nobody to serve: it does all by itself, so that it can be compared with larger ones.
static ls_status assign(ls_roles *roles) {
    if (roles->servers == 0) roles->servers = 1;
    if (roles->workers == 1) {
        roles->servers = 0;
        return LS_OK;
    }
    if (roles->servers >= roles->workers)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "of %d workers %d are to be servers, and none is left to compute: start at least %d, or ask for "
                       "at most %d server%s",
                       roles->workers, roles->servers, roles->servers + 1, roles->workers - 1,
                       roles->workers == 2 ? "" : "s");
    return LS_OK;
}

static void slice(const ls_strategy *s, int lane, int bucket, int64_t *begin, int64_t *end) {
    int replicas = s->config.replicas, server = ls_roles_server(&s->roles, lane / replicas);
    if (s->roles.servers == 0) {
        ls__owners_all(s, lane, bucket, begin, end);
    } else if (server >= 0) {
        ls__share(ls__bucket_begin(s, bucket), s->bucket_ends[bucket], server * replicas + lane % replicas,
                  s->roles.servers * replicas, begin, end);
    } else {
        *begin = *end = s->bucket_ends[bucket];
    }
}

const ls_strategy_ops ls__strategy_parameter_server = {
    LS_OWNERS_PHASES,
    .name = "parameter-server",
    .help = "--servers of the workers sum and update for the others, and compute nothing",
    .assign = assign,
    .slice = slice,
};
