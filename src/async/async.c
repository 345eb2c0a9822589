// Asynchronous training as every worker sees it: who does what, asking, pushing, pulling, settling.
#include "async/async.h"

#include <stdlib.h>
#include <string.h>

#include "async/async_impl.h"
#include "base/error.h"
#include "base/memory.h"

// --- planning --------------------------------------------------------------------------------------------------------

// What needs the norm of the whole gradient, which only a lone server sees; what else does not go
// together.
static ls_status check(const ls_async *a) {
    const ls_engine_config *c = &a->config.engine;
    const char *what = c->clip_norm > 0          ? "clipping gradients"
                       : c->skip_not_finite      ? "leaving out steps that are not finite"
                       : c->optimizer->layerwise ? "a layer-wise optimizer"
                                                 : NULL;
    if (a->servers > 1 && what)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s takes norms over all weights, and in asynchronous training each of %d servers sees only its "
                       "slice of a push: ask for one server",
                       what, a->servers);
    if (a->config.compensation > 0 && c->compress)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "delay compensation is for gradients in fp32: leave it out, or their compression");
    if (a->config.compensation > 0 && !c->device->ops->host_memory)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "delay compensation is there for devices of the host's memory only: leave it out");
    return LS_OK;
}

static ls_status find_roles(ls_async *a) {
    const ls_comm *comm = a->config.comm;
    const ls_mesh *mesh = a->config.mesh;
    LS_TRY(ls_calloc(comm->size, sizeof(int), &a->server_rank));
    LS_TRY(ls_calloc(comm->size, sizeof(int), &a->client_rank));
    a->number = a->client = -1;
    for (int position = 0; position < comm->size; position++) {
        int server = ls_mesh_server(mesh, position), mine = position == comm->position;
        if (server >= 0) a->server_rank[server] = comm->order[position];
        if (server >= 0 && mine) a->number = server;
        if (server < 0 && mine) a->client = a->clients;
        if (server < 0) a->client_rank[a->clients++] = comm->order[position];
    }
    a->servers = mesh->servers;
    if (a->servers > 0) return LS_OK;
    a->servers = 1;  // the only worker is its own
    a->number = 0;
    return LS_OK;
}

static ls_status read_replay(ls_async *a) {
    const ls_push_log *log = &a->replay;
    if (!a->config.replay) return LS_OK;
    LS_TRY(ls_push_log_read(a->config.replay, &a->replay));
    a->replays = 1;
    if (strcmp(log->recipe, a->recipe) != 0) {
        char theirs[160], ours[160];
        ls_comm_difference(log->recipe, a->recipe, theirs, ours, sizeof ours);
        return LS_FAIL(LS_STATUS_MISMATCH,
                       "the log of pushes %s is of another training: it has \"%s\", and this one has \"%s\"",
                       a->config.replay, theirs, ours);
    }
    if (log->servers > 1 && (log->servers != a->servers || log->workers != a->clients))
        return LS_FAIL(
            LS_STATUS_MISMATCH,
            "the log of pushes %s has %d servers, which were pulled from at different times, so it takes as "
            "many and %d workers beside them to do the same again, and here are %d and %d; a log of one server can be "
            "replayed by any number of workers",
            a->config.replay, log->servers, log->workers, a->config.mesh->servers, a->clients);
    return LS_OK;
}

static ls_status plan_worker(ls_async *a, ls_engine **out) {
    const ls_optimizer *sgd;  // no state: it updates nothing
    ls_engine_config config = a->config.engine;
    LS_TRY(ls_optimizer_find("sgd", &sgd));
    config.comm = a->config.solo;
    config.servers = 0;
    config.bucket_ends = NULL;
    config.progress = 0;
    config.optimizer = sgd;
    config.params = sgd->defaults;
    config.params.momentum = 0;
    config.clip_norm = 0;
    config.find_not_finite = config.skip_not_finite = 0;
    config.weights_of = NULL;
    config.push = 1;
    LS_TRY(ls_engine_plan("allreduce", &config, out));
    a->worker = *out;
    return LS_OK;
}

static ls_status plan_clerk(ls_async *a) {
    ls_clerk *c;
    if (a->number != 0) return LS_OK;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    a->clerk = c;
    c->clients = a->clients;
    c->staleness = a->config.staleness;
    c->replay = a->replays ? &a->replay : NULL;
    LS_TRY(ls_calloc(a->clients, sizeof *c->begun_on, &c->begun_on));
    LS_TRY(ls_calloc(a->clients, sizeof *c->next, &c->next));
    return ls_calloc(a->clients, sizeof *c->asking, &c->asking);
}

static ls_status plan(ls_async *a, ls_engine **worker) {
    LS_TRY(ls_strdup(a->config.recipe, &a->recipe));
    LS_TRY(find_roles(a));
    LS_TRY(check(a));
    LS_TRY(read_replay(a));
    LS_TRY(plan_worker(a, worker));
    LS_TRY(plan_clerk(a));
    LS_TRY(ls_calloc(3 * (int64_t)a->servers, sizeof *a->requests, &a->requests));
    LS_TRY(ls_calloc(2 * (int64_t)a->servers, sizeof *a->heads, &a->heads));
    return a->number >= 0 ? ls__server_plan(a, a->number, &a->server) : LS_OK;
}

ls_status ls_async_plan(const ls_async_config *config, ls_async **out, ls_engine **worker) {
    *worker = NULL;
    LS_TRY(ls_calloc(1, sizeof **out, out));
    (*out)->config = *config;
    ls_status status = plan(*out, worker);
    (*out)->config.engine.segments = NULL;  // borrowed while planning
    (*out)->config.engine.bucket_ends = NULL;
    (*out)->config.mesh = NULL;
    if (status == LS_OK) return LS_OK;
    ls_async_destroy(out);
    ls_engine_destroy(worker);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

ls_status ls_async_allocate(ls_async *a) {
    ls_status status = a->server ? ls__server_allocate(a->server) : LS_OK;
    if (status == LS_OK && !ls_engine_host_weights(a->worker))
        status = ls_memory_alloc(a->config.engine.length * (int64_t)sizeof(float), &a->staging);
    return ls_comm_agree(a->config.comm, status);
}

void ls_async_destroy(ls_async **async) {
    ls_async *a = *async;
    *async = NULL;
    if (!a) return;
    ls__server_destroy(&a->server);
    if (a->clerk) {
        free(a->clerk->begun_on);
        free(a->clerk->asking);
        free(a->clerk->next);
        free(a->clerk);
    }
    ls_push_log_free(&a->replay);
    ls_memory_free(a->staging);
    free(a->requests);
    free(a->heads);
    free(a->server_rank);
    free(a->client_rank);
    free(a->recipe);
    free(a);
}

ls_engine *ls_async_server(const ls_async *a) { return a->server ? a->server->engine : NULL; }

// --- messages of a computing worker ----------------------------------------------------------------------------------

// What messages are for from now on, in sentences about a wait that is too long and about one that
// fails.
static void begin(ls_async *a, const ls_async_head *head) {
    const char *what = head->kind == LS_ASYNC_ASKS     ? "the next batch"
                       : head->kind == LS_ASYNC_LEAVES ? "leaving the servers"
                       : head->vote == LS_VOTE_FAILED  ? "telling the servers of a failure"
                                                       : NULL;
    if (what)
        snprintf(a->doing, sizeof a->doing, "%s", what);
    else
        snprintf(a->doing, sizeof a->doing, "%s batch %lld", head->kind == LS_ASYNC_PULLS ? "pull for" : "push of",
                 (long long)head->ticket);
    a->config.comm->about = a->doing;
}

static ls_status end(ls_async *a, ls_status status) {
    a->config.comm->about = NULL;
    return status == LS_OK ? LS_OK : ls__fail_context(status, "%s: ", a->doing);
}

// Sends the same head to servers [0, servers), and waits for what is on its way besides, and with
// `answered` for their answers.
static ls_status send_heads(ls_async *a, int servers, ls_async_head head, int answered, int more) {
    ls_comm *comm = a->config.comm;
    int n = more;
    for (int i = 0; i < servers; i++) {
        a->heads[2 * i] = head;
        LS_TRY(ls_comm_isend(comm, &a->heads[2 * i], (int64_t)sizeof head, LS_DTYPE_U8, a->server_rank[i],
                             LS_ASYNC_TAG_HEAD, &a->requests[n++]));
        if (answered)
            LS_TRY(ls_comm_irecv(comm, &a->heads[2 * i + 1], (int64_t)sizeof head, LS_DTYPE_U8, a->server_rank[i],
                                 LS_ASYNC_TAG_ANSWER, &a->requests[n++]));
    }
    return ls_comm_wait_all(comm, a->requests, n);
}

// The same, with nothing besides.
static ls_status say(ls_async *a, int servers, ls_async_head head, int answered) {
    begin(a, &head);
    return end(a, send_heads(a, servers, head, answered, 0));
}

// Where weights are on the host: in their place, or on their way there.
static float *host_weights(const ls_async *a) { return a->staging ? a->staging : ls_engine_host_weights(a->worker); }

// Brings what is there to their place.
static ls_status put_weights(ls_async *a, ls_queue *queue) {
    if (!a->staging) return LS_OK;
    LS_TRY(ls_write(queue, ls_engine_weights(a->worker), a->staging, a->config.engine.length * 4));
    return ls_synchronize(queue);
}

static ls_status pull_slices(ls_async *a, ls_async_head head) {
    int n = 0;
    for (int s = 0; s < a->servers; s++) {
        int64_t begin, end;
        ls__async_slice(a, s, &begin, &end);
        if (begin < end)
            LS_TRY(ls_comm_irecv(a->config.comm, host_weights(a) + begin, end - begin, LS_DTYPE_F32, a->server_rank[s],
                                 LS_ASYNC_TAG_WEIGHTS, &a->requests[n++]));
    }
    return send_heads(a, a->servers, head, 1, n);
}

static ls_status pull(ls_async *a, ls_queue *queue) {
    if (ls__async_alone(a)) {
        if (!ls__server_may_pull(a->server, a->ticket))
            return LS_FAIL(LS_STATUS_BAD_DATA, "the log of pushes cannot have happened: ticket %lld waits for itself",
                           (long long)a->ticket);
        return ls__server_pull(a->server, 0, a->ticket, queue);  // in place: nothing is applied before its push
    }
    ls_async_head head = {.kind = LS_ASYNC_PULLS, .ticket = a->ticket};
    begin(a, &head);
    LS_TRY(end(a, pull_slices(a, head)));
    return put_weights(a, queue);
}

static ls_status ask(ls_async *a, ls_queue *queue, ls_vote vote) {
    if (ls__async_alone(a)) {
        ls__clerk_asks(a->clerk, 0, vote);
        if (ls__clerk_answer(a->clerk, &a->answer, &a->ticket) < 0)
            return LS_FAIL(LS_STATUS_INTERNAL, "a lone worker got no answer");
        a->decision = a->clerk->vote;
    } else {
        LS_TRY(say(a, 1, (ls_async_head){.kind = LS_ASYNC_ASKS, .vote = (int32_t)vote}, 1));
        const ls_async_head *told = &a->heads[1];
        a->answer = (ls_async_answer)told->kind;
        a->decision = (ls_vote)told->vote;
        a->ticket = told->ticket;
        if (told->version > a->version) a->version = told->version;
    }
    if (a->answer == LS_ASYNC_TICKET) return pull(a, queue);
    if (ls__async_alone(a)) return LS_OK;
    return say(a, a->servers, (ls_async_head){.kind = LS_ASYNC_LEAVES}, 0);
}

static int64_t sum_bytes(const ls_async *a) { return (int64_t)ls_dtype_size(ls_engine_push_type(a->worker)); }

// The sum goes to every server, its slice of it.
static ls_status push_slices(ls_async *a, ls_async_head head) {
    int n = 0;
    for (int s = 0; s < a->servers; s++) {
        int64_t begin, end;
        ls__async_slice(a, s, &begin, &end);
        if (begin < end)
            LS_TRY(ls_comm_isend(a->config.comm, (const char *)ls_engine_push(a->worker) + begin * sum_bytes(a),
                                 end - begin, ls_engine_push_type(a->worker), a->server_rank[s], LS_ASYNC_TAG_SUM,
                                 &a->requests[n++]));
    }
    return send_heads(a, a->servers, head, 1, n);
}

// *failed: a server could not apply it.
static ls_status push(ls_async *a, const ls_step_info *info, int *failed) {
    ls_async_head head = {.kind = LS_ASYNC_PUSHES, .ticket = a->ticket, .samples = info->samples};
    *failed = 0;
    begin(a, &head);
    LS_TRY(end(a, push_slices(a, head)));
    for (int s = 0; s < a->servers; s++) *failed |= a->heads[2 * s + 1].vote == LS_VOTE_FAILED;
    a->version = a->heads[1].version;
    return LS_OK;
}

static ls_status push_alone(ls_async *a, const ls_step_info *info, ls_queue *queue) {
    ls_room *room = ls__server_room(a->server, 0, info->samples);
    memcpy(room->sum, ls_engine_push(a->worker), (size_t)(a->config.engine.length * sum_bytes(a)));
    room->arrived = 1;
    ls__server_apply(a->server, queue);
    a->version = a->server->version;
    if (a->server->status == LS_OK) return LS_OK;
    ls__error_set(a->server->failure);
    return ls__fail_passed(a->server->status, __FILE__, __LINE__);
}

static ls_status exchange_alone(ls_async *a, ls_queue *queue, const ls_step_info *info, ls_vote vote) {
    ls_status status = LS_OK;
    if (vote != LS_VOTE_FAILED) status = push_alone(a, info, queue);
    if (status != LS_OK || vote == LS_VOTE_FAILED) {
        a->server->released = 1;
        vote = LS_VOTE_FAILED;
    }
    ls_status asked = ask(a, queue, vote);
    return status == LS_OK ? asked : status;
}

static ls_status exchange(ls_async *a, ls_queue *queue, const ls_step_info *info, ls_vote vote) {
    int failed = 0;
    if (ls__async_alone(a)) return exchange_alone(a, queue, info, vote);
    if (vote == LS_VOTE_FAILED)
        LS_TRY(say(a, a->servers, (ls_async_head){.kind = LS_ASYNC_PUSHES, .vote = LS_VOTE_FAILED}, 1));
    else
        LS_TRY(push(a, info, &failed));
    // One server has failed: pulls that wait at the others for what will not come hear of it.
    if (failed) LS_TRY(say(a, a->servers, (ls_async_head){.kind = LS_ASYNC_PUSHES, .vote = LS_VOTE_FAILED}, 1));
    return ask(a, queue, failed ? LS_VOTE_FAILED : vote);
}

ls_vote ls_async_exchange(ls_async *a, ls_queue *queue, const ls_step_info *info, ls_vote vote, ls_status *status) {
    *status = exchange(a, queue, info, vote);
    return *status == LS_OK ? vote : LS_VOTE_FAILED;
}

// --- from outside of steps -------------------------------------------------------------------------------------------

ls_status ls_async_begin(ls_async *a, int64_t done, int64_t last) {
    if (a->replays && !a->log_begun && done != a->replay.first)
        return LS_FAIL(LS_STATUS_MISMATCH,
                       "the log of pushes %s begins after step %lld of its training, and this one is at step %lld: "
                       "replay it from the checkpoint that it went on from",
                       a->config.replay, (long long)a->replay.first, (long long)done);
    if (!a->log_begun && a->config.log && a->config.comm->rank == 0) {
        ls_push_log head = {.servers = a->servers, .workers = a->clients, .first = done, .recipe = a->recipe};
        LS_TRY(ls_push_log_begin(a->config.log, &head));
    }
    a->log_begun = 1;
    a->version = done;
    if (a->clerk) ls__clerk_begin(a->clerk, done, last);
    if (!a->server) return LS_OK;
    a->server->version = done;
    a->server->answered = 0;
    return LS_OK;
}

ls_status ls_async_ask(ls_async *a, ls_queue *queue, ls_vote vote) {
    LS_TRY(ask(a, queue, vote));
    return ls_engine_weights_changed(a->worker, queue);
}

ls_async_answer ls_async_answered(const ls_async *a, int64_t *ticket, ls_vote *decision) {
    *ticket = a->ticket;
    *decision = a->decision;
    return a->answer;
}

int64_t ls_async_version(const ls_async *a) { return a->version; }
ls_staleness ls_async_staleness(const ls_async *a) { return a->staleness; }
int64_t ls_async_skipped(const ls_async *a) { return a->skipped; }

// --- settling --------------------------------------------------------------------------------------------------------

// What the first server knows.
typedef struct settled {
    int64_t version, given, skipped;
    ls_staleness staleness;
    int32_t vote, closes;
} settled;

static ls_status share_weights(ls_async *a, ls_queue *queue) {
    float *weights = host_weights(a);
    if (ls__async_alone(a)) return LS_OK;
    if (a->staging) {
        LS_TRY(ls_read(queue, weights, ls_engine_weights(a->worker), a->config.engine.length * 4));
        LS_TRY(ls_synchronize(queue));
    }
    for (int s = 0; s < a->servers; s++) {
        int64_t begin, end;
        ls__async_slice(a, s, &begin, &end);
        LS_TRY(ls_comm_broadcast(a->config.comm, weights + begin, end - begin, LS_DTYPE_F32, a->server_rank[s]));
    }
    return put_weights(a, queue);
}

static void keep(ls_status *first, ls_status status) {
    if (*first == LS_OK) *first = status;
}

static ls_status move(ls_comm *comm, void *data, int64_t bytes, int peer, int sends) {
    ls_request request = {0};
    LS_TRY(sends ? ls_comm_isend(comm, data, bytes, LS_DTYPE_U8, peer, LS_ASYNC_TAG_SUM, &request)
                 : ls_comm_irecv(comm, data, bytes, LS_DTYPE_U8, peer, LS_ASYNC_TAG_SUM, &request));
    return ls_comm_wait_all(comm, &request, 1);
}

// A server's pushes since it was settled last, from whom has them to worker 0, which writes them. A
// file that cannot be written fails later.
static ls_status write_log_of(ls_async *a, int server, ls_status *written) {
    ls_comm *comm = a->config.comm;
    int from = a->server_rank[server];
    int64_t head[2] = {0, 0};  // count, number of the first
    ls_push *pushes = NULL;
    if (comm->rank != 0 && comm->rank != from) return LS_OK;
    if (comm->rank == from) {
        head[0] = a->server->push_count;
        head[1] = a->server->version - head[0] + 1;
        pushes = a->server->pushes;
        if (comm->rank != 0) {
            LS_TRY(move(comm, head, sizeof head, 0, 1));
            return head[0] ? move(comm, pushes, head[0] * (int64_t)sizeof *pushes, 0, 1) : LS_OK;
        }
    } else {
        LS_TRY(move(comm, head, sizeof head, from, 0));
        LS_TRY(ls_calloc(head[0] ? head[0] : 1, sizeof *pushes, &pushes));
        if (head[0]) LS_TRY(move(comm, pushes, head[0] * (int64_t)sizeof *pushes, from, 0));
    }
    keep(written, ls_push_log_add(a->config.log, server, head[1], pushes, head[0]));
    if (comm->rank != from) free(pushes);
    return LS_OK;
}

static ls_status write_log(ls_async *a) {
    ls_status written = LS_OK;
    for (int s = 0; s < a->servers && a->config.log; s++) LS_TRY(write_log_of(a, s, &written));
    if (a->server) a->server->push_count = 0;
    return written;
}

ls_status ls_async_settle(ls_async *a, ls_queue *queue, int64_t *done) {
    settled all = {0};
    if (a->clerk)
        all = (settled){a->server->version,   a->clerk->given, ls_engine_skipped(a->server->engine),
                        a->server->staleness, a->clerk->vote,  a->clerk->closes};
    LS_TRY(ls_comm_broadcast(a->config.comm, &all, (int64_t)sizeof all, LS_DTYPE_U8, a->server_rank[0]));
    *done = a->version = all.version;
    a->decision = (ls_vote)all.vote;
    a->answer = (ls_async_answer)all.closes;
    a->staleness = all.staleness;
    a->skipped = all.skipped;
    LS_TRY(share_weights(a, queue));
    ls_status status = ls_engine_weights_changed(a->worker, queue);
    keep(&status, write_log(a));
    return ls_comm_agree(a->config.comm, status);
}
