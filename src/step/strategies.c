// The strategies, and the ways that they come to.
#include "step/strategies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

// --- cuts ------------------------------------------------------------------------------------------------------------

static void share(const ls_emit_config *c, int bucket, int part, int parts, int64_t *begin, int64_t *end) {
    ls_emit_share(ls_emit_bucket_begin(c, bucket), c->bucket_ends[bucket], part, parts, begin, end);
}

static void none(const ls_emit_config *c, int bucket, int64_t *begin, int64_t *end) {
    *begin = *end = c->bucket_ends[bucket];
}

void ls_cut_all(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    share(c, bucket, rank * c->mesh->lanes + lane, c->mesh->ranks * c->mesh->lanes, begin, end);
}

static void cut_each_host(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    const ls_mesh *m = c->mesh;
    int host = ls_mesh_host(m, rank);
    share(c, bucket, (rank - m->host_first[host]) * m->lanes + lane, ls_mesh_host_ranks(m, host) * m->lanes, begin,
          end);
}

static void cut_each_rank(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    (void)rank;
    share(c, bucket, lane, c->mesh->lanes, begin, end);
}

static void cut_first_rank(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    if (rank == 0)
        share(c, bucket, lane, c->mesh->lanes, begin, end);
    else
        none(c, bucket, begin, end);
}

static void cut_first_lane(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    none(c, bucket, begin, end);
    if (rank == 0 && lane == 0) *begin = ls_emit_bucket_begin(c, bucket);
}

static void cut_servers(const ls_emit_config *c, int rank, int lane, int bucket, int64_t *begin, int64_t *end) {
    const ls_mesh *m = c->mesh;
    int server = ls_mesh_server(m, rank);
    if (m->servers == 0)
        ls_cut_all(c, rank, lane, bucket, begin, end);
    else if (server >= 0)
        share(c, bucket, server * m->lanes + lane, m->servers * m->lanes, begin, end);
    else
        none(c, bucket, begin, end);
}

// --- routes ----------------------------------------------------------------------------------------------------------

static int route_direct(int hosts, int owner, int host, int *round) {
    (void)hosts;
    *round = 0;
    return host == owner ? -1 : owner;
}

// A binary tree: host i's parent is i without its lowest bit that is set.
static int route_tree(int hosts, int owner, int host, int *round) {
    (void)hosts, (void)owner;
    *round = 0;
    if (host == 0) return -1;
    while (!(host >> *round & 1)) ++*round;
    return host & (host - 1);
}

typedef struct group {
    int first, count;
} group;

// The half of the group that the host is in, or the other one.
static group half_of(group g, int host, int other) {
    int left = (g.count + 1) / 2, is_right = host >= g.first + left;
    return is_right != other ? (group){g.first + left, g.count - left} : (group){g.first, left};
}

// Recursive halving: the hosts are halved again and again until every group is one host; from the
// smallest groups up, two halves are made one, and what either has added up of what an owner owns
// goes to the one host of the two that holds it from then on: the owner, or whoever stands where
// the holder stands in the other half.
static int holder(int hosts, int owner, int host, int depth) {
    group g = {0, hosts};
    for (; depth > 0 && g.count > 1; depth--) {
        group mine = half_of(g, host, 0), other = half_of(g, host, 1);
        if (owner >= other.first && owner < other.first + other.count)
            owner = mine.first + (owner - other.first) % mine.count;
        g = mine;
    }
    return owner;
}

static int route_halving(int hosts, int owner, int host, int *round) {
    int levels = ls_tree_levels(hosts);
    // Before depth d's halves are made one, `host` holds what holder(d + 1) says; it sends where it
    // does not after that.
    for (int depth = levels - 1; depth >= 0; depth--) {
        if (holder(hosts, owner, host, depth + 1) != host) break;
        int to = holder(hosts, owner, host, depth);
        if (to == host) continue;
        *round = levels - 1 - depth;
        return to;
    }
    *round = 0;
    return -1;
}

// --- the table -------------------------------------------------------------------------------------------------------

static ls_status no_servers(const char *name, int servers) {
    if (servers == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%d server%s asked for, and the strategy %s has none: leave them out, or choose parameter-server",
                   servers, servers == 1 ? " was" : "s were", name);
}

static ls_status assign_mirrored(int workers, int *servers) {
    if (workers > 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy mirrored is for the replicas of one process, and this job has %d workers: choose "
                       "allreduce, which does the same between them, or start one worker with more replicas",
                       workers);
    return no_servers("mirrored", *servers);
}

// A job of one worker has nobody to serve: it does all by itself, so that it can be compared with
// larger ones.
static ls_status assign_servers(int workers, int *servers) {
    if (*servers == 0) *servers = 1;
    if (workers == 1) {
        *servers = 0;
        return LS_OK;
    }
    if (*servers >= workers)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "of %d workers %d are to be servers, and none is left to compute: start at least %d, or ask for "
                       "at most %d server%s",
                       workers, *servers, *servers + 1, workers - 1, workers == 2 ? "" : "s");
    return LS_OK;
}

static const ls_strategy table[] = {
    {.name = "allreduce",
     .help = "each lane sums and updates its slices of the parameters, then all gather them",
     .synchronous = 1,
     .weights_shared = 1,
     .halves = 1,
     .sparse = 1,
     .totals = 1,
     .cut = ls_cut_all,
     .route = route_direct},
    {.name = "reduce-broadcast",
     .help = "worker 0 sums for all, and every worker updates weights of its own",
     .totals = 2,
     .synchronous = 1,
     .cut = cut_first_rank,
     .route = route_direct},
    {.name = "mirrored",
     .help = "allreduce for the replicas of one worker; refuses more workers",
     .synchronous = 1,
     .weights_shared = 1,
     .sparse = 1,
     .assign = assign_mirrored,
     .cut = ls_cut_all,
     .route = route_direct},
    {.name = "central",
     .help = "one replica, the first of all, sums and updates everything for the others",
     .synchronous = 1,
     .weights_shared = 1,
     .cut = cut_first_lane,
     .route = route_direct},
    {.name = "tree",
     .help = "sums go up a binary tree of hosts to worker 0, which updates; weights go down",
     .synchronous = 1,
     .weights_shared = 1,
     .cut = cut_first_rank,
     .route = route_tree},
    {.name = "parameter-server",
     .help = "--servers of the workers sum and update for the others, and compute nothing",
     .synchronous = 1,
     .weights_shared = 1,
     .assign = assign_servers,
     .cut = cut_servers,
     .route = route_direct},
    {.name = NULL},
};

const ls_strategy *ls_strategies(void) { return table; }

ls_status ls_strategy_find(const char *name, const ls_strategy **out) {
    char names[256] = "";
    size_t used = 0;
    *out = NULL;
    for (const ls_strategy *s = table; s->name; s++) {
        if (!strcmp(s->name, name)) {
            *out = s;
            return LS_OK;
        }
        int n = snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", s->name);
        if (n > 0 && (size_t)n < sizeof names - used) used += (size_t)n;
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no strategy \"%s\"; there are: %s", name, names);
}

ls_status ls_strategy_assign(const ls_strategy *s, int workers, int *servers) {
    return s->assign ? s->assign(workers, servers) : no_servers(s->name, *servers);
}

// --- compression and algorithm ---------------------------------------------------------------------------------------

ls_status ls_compress_find(const char *name, ls_compress *out, double *fraction) {
    *out = strcmp(name, "bf16") == 0 ? LS_COMPRESS_BF16 : LS_COMPRESS_NONE;
    *fraction = 1;
    if (*out || strcmp(name, "none") == 0) return LS_OK;
    if (strncmp(name, "topk", 4) == 0 && (!name[4] || name[4] == ':')) {
        char *end = NULL;
        *out = LS_COMPRESS_TOPK;
        *fraction = name[4] ? strtod(name + 5, &end) : 0.01;
        if (name[4] && (end == name + 5 || *end || !(*fraction > 0 && *fraction <= 1)))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "what part of the gradients is to count is a number above 0 and at most 1, as in topk:0.01, "
                           "and not '%.40s'",
                           name + 5);
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "unknown compression of gradients '%.40s': there are none, bf16 and topk", name);
}

static const char *const algorithm_names[] = {"auto", "direct", "halving"};

ls_status ls_algorithm_find(const char *name, ls_algorithm *out) {
    for (int i = 0; i < 3; i++)
        if (strcmp(name, algorithm_names[i]) == 0) {
            *out = (ls_algorithm)i;
            return LS_OK;
        }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown algorithm of exchange '%s': there are auto, direct and halving",
                   name);
}

// Where nothing was measured (docs/strategies.md has what the rule comes from). From 16 hosts on
// rounds, however large the vector is: direct messages come from too many at once. Of 9 to 15
// hosts, no power of two, halves are not equal, and rounds carry up to twice the bytes; small
// vectors mind the number of messages more.
static int rounds_are_better(int hosts, int64_t length) {
    if (hosts <= LS_DIRECT_HOSTS) return 0;
    return hosts > LS_DIRECT_HOSTS_MOST || length * (int64_t)sizeof(float) / hosts < LS_DIRECT_BYTES;
}

int ls_strategy_halves(const ls_strategy *s, ls_algorithm algorithm, int hosts, int64_t length) {
    if (!s->halves || hosts == 1) return 0;
    return algorithm == LS_ALGORITHM_HALVING || (algorithm == LS_ALGORITHM_AUTO && rounds_are_better(hosts, length));
}

const char *ls_strategy_algorithm(const ls_strategy *s, ls_algorithm algorithm, int hosts, int64_t length) {
    if (!s->halves || hosts == 1) return "";
    return algorithm_names[ls_strategy_halves(s, algorithm, hosts, length) ? LS_ALGORITHM_HALVING
                                                                           : LS_ALGORITHM_DIRECT];
}

static ls_status check_topk(const ls_strategy *s, ls_algorithm algorithm) {
    if (!s->sparse)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy %s sends new weights, of which no part can be left out: choose allreduce, or "
                       "another compression than topk",
                       s->name);
    if (algorithm != LS_ALGORITHM_HALVING) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "the algorithm halving sends new weights, of which no part can be left out: leave the algorithm out, "
        "or choose another compression than topk");
}

ls_status ls_strategy_ways(const ls_strategy *s, ls_algorithm algorithm, ls_compress compress, int hosts,
                           int64_t length, ls_ways *out) {
    if (algorithm != LS_ALGORITHM_AUTO && !s->halves)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the strategy %s has one way between hosts: leave the algorithm out, or choose allreduce",
                       s->name);
    if (compress == LS_COMPRESS_TOPK) LS_TRY(check_topk(s, algorithm));
    *out = (ls_ways){.sums = s->cut, .updates = s->cut, .route = s->route, .weights_shared = s->weights_shared};
    if (ls_strategy_halves(s, algorithm, hosts, length)) out->route = route_halving;
    if (compress == LS_COMPRESS_TOPK && hosts > 1) {
        out->sparse = 1;
        out->updates = cut_each_host;
    } else if (s->totals == 2) {
        out->totals = 1;
        out->updates = cut_each_rank;
    } else if (s->totals && compress == LS_COMPRESS_BF16 && hosts > 1) {
        out->totals = 1;
        out->updates = cut_each_host;
    }
    return LS_OK;
}
