// Steps as real processes with lanes in threads: after several steps, on any number of workers, replicas and hosts, on a device
// of the host's memory and on one that is far from it, every worker's weights are to the bit those of a serial loop.
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "late/late.h"
#include "step/engine_impl.h"
#include "worker_check.h"

#define STEPS      5
#define MAX_LANES  2
#define MAX_LENGTH (64 * 150)

// What a step takes: the squares of all that is trained, and the norms of each kernel and of what is applied to it.
typedef struct known_norms {
    double squares, layers[MAX_LENGTH / 64][2];
    int layer_count;
} known_norms;

typedef struct setting {
    ls_comm *comm;
    ls_device *device;
    const char *strategy;
    int servers;
    ls_algorithm algorithm;
    const ls_optimizer *optimizer;
    ls_optimizer_params params;
    int replicas;
    int64_t length, micro_batches;
    const ls_segment *segments;
    int segment_count;
    double clip_norm;
    int skips;  // 1: steps that are not finite are left out, and there are some
    ls_compress compress;
    float *residuals;    // (micro_batches, length), of top-k
    known_norms *norms;  // (STEPS)
    int buckets;         // of how many units each is, but the last; 0: one bucket
    int early;           // every how many buckets one is ready before the step, which a thread then exchanges; 0: none
    int behind;          // 1: and weights come home behind the next step
} setting;

// Kernels, what else is trained, statistics, what is frozen: in each order, of one unit and of more than a block, on and off the cuts
// between lanes.
static const ls_segment long_segments[] = {
    {0, 64, .kernel = 0},
    {64, 64 * 2, .kernel = 1},
    {64 * 2, 64 * 3, .statistic = 1, .momentum = 0.9f},
    {64 * 3, 64 * 11, .kernel = 1},
    {64 * 11, 64 * 12, .kernel = 1},
    {64 * 12, 64 * 13, .kernel = 0},
    {64 * 13, 64 * 14, .statistic = 1, .momentum = 0.9f, .frozen = 1},
    {64 * 14, 64 * 15, .statistic = 1, .momentum = 0.9f},
    {64 * 15, 64 * 16, .statistic = 1, .momentum = 0.5f},
    {64 * 16, 64 * 75, .kernel = 1},
    {64 * 75, 64 * 141, .statistic = 1, .momentum = 0.99f},
    {64 * 141, 64 * 145, .kernel = 1, .frozen = 1},
    {64 * 145, 64 * 146, .kernel = 0, .frozen = 1},
    {64 * 146, 64 * 149, .kernel = 1},
    {64 * 149, MAX_LENGTH, .kernel = 0},
};
#define LONG_SEGMENTS (sizeof long_segments / sizeof long_segments[0])
static const ls_segment short_segments[] = {{0, 64, .kernel = 1}, {64, 128, .statistic = 1}, {128, 192, .kernel = 0}};

// What element `at` belongs to; without segments all is one kernel.
static ls_segment segment_at(const setting *s, int64_t at) {
    for (int i = 0; i < s->segment_count; i++)
        if (at < s->segments[i].end) return s->segments[i];
    return (ls_segment){.end = s->length, .kernel = 1};
}

// The last step of an epoch is short, and another epoch follows.
static ls_step_info step_info(const setting *s, int step) {
    int64_t v = s->micro_batches;
    const int64_t sizes[STEPS] = {v, v, v > 3 ? v - 3 : 1, v, 1};
    int64_t samples = sizes[step - 1] * 4 - (sizes[step - 1] < v ? 1 : 0);
    return (ls_step_info){.micro_batches = sizes[step - 1],
                          .samples = samples,
                          .lr = s->params.lr / step,
                          .lr_before = step > 2 ? s->params.lr / (step - 1) : 0,
                          .step = step};
}

// The gradient of a micro-batch: of many sizes, so that a sum in another order would have other bits.
static void fake_gradient(int step, int64_t micro_batch, float *out, int64_t length) {
    for (int64_t i = 0; i < length; i += 4) {
        ls_philox4 r = ls_philox(5, (uint32_t)i, (uint32_t)micro_batch, (uint32_t)step, 0);
        for (int k = 0; k < 4; k++)
            out[i + k] = (ls_uniform(r.v[k]) - 0.5f) * (float)(1 << (r.v[(k + 1) % 4] % 20)) * 1e-4f;
    }
}

// Steps that are left out, one of them short: an element of a kernel is no finite number.
static int is_left_out(const setting *s, int step) { return s->skips && (step == 2 || step == 3); }

static void make_gradient(const setting *s, int step, int64_t micro_batch, float *out) {
    fake_gradient(step, micro_batch, out, s->length);
    if (micro_batch == 0 && is_left_out(s, step)) out[s->length > 64 * 20 ? 64 * 20 : 0] = INFINITY;
}

static void initial_weights(float *out, int64_t length) { fake_gradient(0, 0, out, length); }

// What a node holds: with 8 significant bits, where it is compressed (there are no denormals here), a tie going to the even one.
static void round_node(const setting *s, float *x) {
    for (int64_t i = 0; s->compress == LS_COMPRESS_BF16 && i < s->length; i++) {
        int exponent;
        double fraction = frexp((double)x[i], &exponent);
        x[i] = (float)ldexp(nearbyint(fraction * 256), exponent - 8);
    }
}

#define TOPK_PART 0.03

// By their definition: of every 4096 elements of a kernel so many stay, the largest first, of equal ones the earlier, and the others wait.
static void keep_largest(const setting *s, int64_t micro_batch, float samples, float *x) {
    float *rest = s->residuals + micro_batch * s->length;
    char *stays;
    CHECK_OK(s->comm, ls_calloc(s->length, 1, &stays));
    for (int64_t begin = 0, end; begin < s->length; begin = end) {
        ls_segment segment = segment_at(s, begin);
        end = begin + 4096 < segment.end ? begin + 4096 : segment.end;
        if (!segment.kernel || segment.statistic || segment.frozen) continue;
        for (int64_t i = begin; i < end; i++) x[i] += rest[i] * samples;
        for (int64_t n = (int64_t)ceil(TOPK_PART * (double)(end - begin)); n > 0; n--) {
            int64_t most = -1;
            for (int64_t i = begin; i < end; i++)
                if (!stays[i] && (most < 0 || fabsf(x[i]) > fabsf(x[most]))) most = i;
            stays[most] = 1;
        }
        for (int64_t i = begin; i < end; i++) {
            rest[i] = stays[i] ? 0 : x[i] * (1.0f / samples);
            if (!stays[i]) x[i] = 0;
        }
    }
    free(stays);
}

// The tree, by its definition.
static void tree_sum(const setting *s, int step, int64_t v, int64_t first, int level, float *out) {
    int64_t middle = first + ((int64_t)1 << (level > 0 ? level - 1 : 0));
    if (level == 0) {
        make_gradient(s, step, first, out);
        if (s->compress == LS_COMPRESS_TOPK) keep_largest(s, first, (float)step_info(s, step).samples, out);
    } else {
        tree_sum(s, step, v, first, level - 1, out);
        if (middle >= v) return;
        float *right;
        CHECK_OK((ls_comm *)NULL, ls_memory_alloc(s->length * 4, &right));
        tree_sum(s, step, v, middle, level - 1, right);
        for (int64_t i = 0; i < s->length; i++) out[i] += right[i];
        ls_memory_free(right);
    }
    round_node(s, out);
}

// A sum in the tree, by its definition: of numbers [first, first + 2^level), those from `count` on missing.
static double tree_of(const double *x, int64_t count, int64_t first, int level) {
    if (level == 0) return x[first];
    int64_t middle = first + ((int64_t)1 << (level - 1));
    double left = tree_of(x, count, first, level - 1);
    return middle < count ? left + tree_of(x, count, middle, level - 1) : left;
}

static double sum_in_tree(const double *x, int64_t count) {
    int level = 0;
    while (((int64_t)1 << level) < count) level++;
    return tree_of(x, count, 0, level);
}

// The sum of squares of a parameter as documented: those of 64 elements in a tree, and the sums of 64 in a tree.
static double sum_squares(const float *x, int64_t length) {
    double units[MAX_LENGTH / 64], exact = 0;
    for (int64_t at = 0; at < length; at += 64) {
        double squares[64];
        for (int i = 0; i < 64; i++) exact += squares[i] = (double)x[at + i] * (double)x[at + i];
        for (int half = 32; half > 0; half /= 2)
            for (int i = 0; i < half; i++) squares[i] = squares[i] + squares[i + half];
        units[at / 64] = squares[0];
    }
    double sum = sum_in_tree(units, length / 64);
    CHECK((ls_comm *)NULL, fabs(sum - exact) <= 1e-12 * exact);
    return sum;
}

// Clips to the norm of all that is trained: the parameters' sums in a tree, in their order.
static void clip(const setting *s, float *g, known_norms *known) {
    double sums[MAX_LENGTH / 64];
    int count = 0;
    for (int64_t at = 0; at < s->length; at = segment_at(s, at).end) {
        ls_segment segment = segment_at(s, at);
        if (!segment.statistic && !segment.frozen) sums[count++] = sum_squares(g + at, segment.end - at);
    }
    double sum = known->squares = sum_in_tree(sums, count);
    CHECK(s->comm, sqrt(sum) > s->clip_norm);
    for (int64_t i = 0; i < s->length; i++)
        if (!segment_at(s, i).statistic) g[i] *= (float)(s->clip_norm / sqrt(sum));
}

// A whole segment, which begins at `at`, with its mean gradient, as its kind wants it.
static void update(const setting *s, ls_segment segment, float *w, float *g, float *const state[2],
                   const ls_step_info *info) {
    int64_t n = segment.end - segment.begin;
    ls_optimizer_params params = s->params;
    ls_update u = {info->lr, info->lr_before, info->step, 0, 0};
    ls_formula_call call;
    if (segment.frozen) return;
    if (segment.statistic) {
        for (int i = 0; i < n; i++) w[i] = segment.momentum * w[i] + (1 - segment.momentum) * g[i];
        return;
    }
    if (!segment.kernel) params.weight_decay = params.l2 = 0;
    for (int64_t i = 0; i < n && params.l2 > 0; i++) g[i] += (float)params.l2 * w[i];
    if (s->optimizer->direction) {
        float *direction;
        CHECK_OK(s->comm, ls_memory_alloc(n * 4, &direction));
        s->optimizer->direction(&params, &u, &call);
        call.formula->host(call.arguments, n, (float *[]){w, g, state[0], state[1], direction});
        memcpy(g, direction, (size_t)n * 4);
        ls_memory_free(direction);
    }
    if (s->optimizer->layerwise && segment.kernel) {
        known_norms *known = &s->norms[info->step - 1];
        double *mine = known->layers[known->layer_count++];
        u.w_norm = mine[0] = sqrt(sum_squares(w, n)), u.g_norm = mine[1] = sqrt(sum_squares(g, n));
    }
    s->optimizer->update(&params, &u, &call);
    call.formula->host(call.arguments, n, (float *[]){w, g, state[0], state[1]});
}

// weights: (STEPS, length): after each step.
static void serial(const setting *s, float *weights) {
    float *w, *g, *state[2], *before;
    int64_t residual_bytes = s->micro_batches * s->length * 4;
    CHECK_OK(s->comm, ls_memory_alloc(residual_bytes, &before));
    CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &w));
    CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &g));
    for (int i = 0; i < 2; i++) CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &state[i]));
    initial_weights(w, s->length);
    for (int step = 1; step <= STEPS; step++) {
        ls_step_info info = step_info(s, step);
        int level = 0;
        while (((int64_t)1 << level) < info.micro_batches) level++;
        memcpy(before, s->residuals, (size_t)residual_bytes);
        tree_sum(s, step, info.micro_batches, 0, level, g);
        if (is_left_out(s, step)) memcpy(s->residuals, before, (size_t)residual_bytes);
        for (int64_t i = 0; i < s->length; i++) g[i] *= 1.0f / (float)info.samples;
        if (s->clip_norm > 0) clip(s, g, &s->norms[step - 1]);
        for (int64_t at = 0; at < s->length && !is_left_out(s, step); at = segment_at(s, at).end)
            update(s, segment_at(s, at), w + at, g + at, (float *[]){state[0] + at, state[1] + at}, &info);
        memcpy(weights + (step - 1) * s->length, w, (size_t)s->length * 4);
    }
    ls_memory_free(before);
    ls_memory_free(w);
    ls_memory_free(g);
    ls_memory_free(state[0]);
    ls_memory_free(state[1]);
}

// The working copies of this test: the weights with the other sign.
static ls_status refresh(void *user, ls_queue *queue, ls_span weights, ls_span copies, int part, int parts) {
    int64_t begin, end;
    ls_emit_share(0, *(const int64_t *)user, part, parts, &begin, &end);
    if (begin == end) return LS_OK;
    return ls__vector(queue)->scale(queue, ls_span_at(copies, begin * 4), ls_span_at(weights, begin * 4), -1,
                                    end - begin);
}

// What has come home, each element once; of a vector that comes in any order what is home are its two ends.
static ls_status refresh_some(void *user, ls_queue *queue, ls_span weights, ls_span copies, const ls_homecoming *h,
                              int part, int parts) {
    int64_t begin, end, length = *(const int64_t *)user;
    CHECK((ls_comm *)NULL, 0 <= h->low && h->low <= h->high && h->high <= length);
    CHECK((ls_comm *)NULL, h->begin < h->end && (h->end == h->low || h->begin == h->high));
    ls_emit_share(h->begin, h->end, part, parts, &begin, &end);
    if (begin == end) return LS_OK;
    return ls__vector(queue)->scale(queue, ls_span_at(copies, begin * 4), ls_span_at(weights, begin * 4), -1,
                                    end - begin);
}

// What a span of floats holds, on the host; the caller frees it.
static float *contents(ls_comm *comm, ls_queue *queue, ls_span span, int64_t length) {
    float *x;
    CHECK_OK(comm, ls_memory_alloc(length * 4, &x));
    CHECK_OK(comm, ls_read(queue, x, span, length * 4));
    CHECK_OK(comm, ls_synchronize(queue));
    return x;
}

static int span_equal(ls_span a, ls_span b) { return a.buffer == b.buffer && a.offset == b.offset; }

// Buckets of s->buckets units of the vector, as far as the compression lets them be; returns how many.
static int cut(const setting *s, int64_t *ends) {
    int count = 0;
    const ls_segment whole = {.end = s->length, .kernel = 1};
    int64_t size = s->buckets ? 64 * (int64_t)s->buckets : s->length;
    for (int64_t end = size; end < s->length; end += size) ends[count++] = end;
    ends[count++] = s->length;
    ls_engine_bucket_ends(s->compress, s->segments ? s->segments : &whole, s->segments ? s->segment_count : 1, ends,
                          &count);
    return count;
}

typedef struct replica {
    const setting *setting;
    ls_engine *engine;
    int index;
    const float *expected;
} replica;

// From the beginning of a step to its end every moment is in one phase, in the sums and in the trace.
static void check_times(ls_comm *comm, const ls_step_times *times, double began) {
    double spent[LS_STEP_PHASES] = {0};
    const ls_trace *trace = times->trace;
    CHECK(comm, trace->count >= 2 && trace->dropped == 0 && trace->events[0].start == began);
    for (int64_t i = 0; i < trace->count; i++) {
        const ls_trace_event *e = &trace->events[i];
        CHECK(comm, e->name >= 7 && e->name < 7 + LS_STEP_PHASES);
        CHECK(comm, e->end >= e->start && (i == 0 || e->start == trace->events[i - 1].end));
        spent[e->name - 7] += e->end - e->start;
    }
    CHECK(comm, trace->events[trace->count - 1].end == times->since && times->since <= ls_clock());
    for (int i = 0; i < LS_STEP_PHASES; i++) CHECK(comm, spent[i] == times->seconds[i]);
}

// Puts the gradient of a micro-batch into the queue, which may come to it as late as the step; what is frozen is not written.
static void write_gradient(const setting *s, ls_queue *queue, ls_span gradient, const float *values) {
    for (int64_t at = 0; at < s->length; at = segment_at(s, at).end) {
        ls_segment segment = segment_at(s, at);
        if (!segment.frozen)
            CHECK_OK(s->comm, ls_write(queue, ls_span_at(gradient, at * 4), values + at, (segment.end - at) * 4));
    }
}

// Right after its step each replica sees all new weights and copies, at the same moment as the others.
static void check_weights(const setting *s, ls_engine *engine, ls_queue *queue, const float *expected) {
    float *weights = contents(s->comm, queue, ls_engine_weights(engine), s->length);
    float *copies = contents(s->comm, queue, ls_engine_copies(engine), s->length);
    CHECK(s->comm, memcmp(weights, expected, (size_t)s->length * 4) == 0);
    for (int64_t i = 0; i < s->length; i++) CHECK(s->comm, copies[i] == -expected[i]);
    ls_memory_free(weights);
    ls_memory_free(copies);
}

// Forward of a bucket of an early engine: its weights are those of the step before, and seen as such.
static void check_part(const replica *r, const ls_step_run *run, const float *expected) {
    const setting *s = r->setting;
    const ls_emit_config *c = &r->engine->emit;
    int b = ls_engine_forward_bucket(r->engine, run->part);
    int64_t begin = ls_emit_bucket_begin(c, b), end = c->bucket_ends[b];
    if (run->parts == 1 || !expected) return;
    const float *weights = ls_span_host(ls_engine_weights(r->engine)),
                *copies = ls_span_host(ls_engine_copies(r->engine));
    CHECK(s->comm, memcmp(weights + begin, expected + begin, (size_t)(end - begin) * 4) == 0);
    for (int64_t i = begin; i < end; i++) CHECK(s->comm, copies[i] == -expected[i]);
}

// Norms become floats before they show in weights, which hides the order they were summed in: here are their bits.
static void check_norms(const replica *r, int step) {
    const setting *s = r->setting;
    const known_norms *known = &s->norms[step - 1];
    double statistics;
    if (is_left_out(s, step)) return;
    if (s->clip_norm > 0) CHECK(s->comm, ls__norms_sum(r->engine, &statistics) == known->squares);
    if (s->optimizer->layerwise)
        CHECK(s->comm, memcmp(r->engine->lane[r->index]->norms, known->layers,
                              (size_t)known->layer_count * sizeof known->layers[0]) == 0);
}

static void *train(void *argument) {
    replica *r = argument;
    const setting *s = r->setting;
    ls_trace trace = {0};
    ls_queue *queue;
    float *values;
    CHECK_OK(s->comm, ls_queue_create(s->device, &queue));
    CHECK_OK(s->comm, ls_memory_alloc(s->micro_batches * s->length * 4, &values));
    int64_t events = ls_engine_lane_events(r->engine);
    CHECK_OK(s->comm, ls_trace_allocate(&trace, events));
    ls_trace_switch(&trace, 1);
    for (int step = 1; step <= STEPS; step++) {
        ls_step_info info = step_info(s, step);
        ls_step_run run;
        trace.count = 0;
        double began = ls_clock();
        ls_step_times times = {.since = began, .trace = &trace, .trace_first = 7};
        CHECK_OK(s->comm, ls_engine_begin(r->engine, r->index, queue, &info, NULL, &times));
        while (ls_engine_next(r->engine, r->index, &run)) {
            if (!run.backward) {
                check_part(r, &run, step > 1 ? r->expected + (step - 2) * s->length : NULL);
                continue;
            }
            CHECK(s->comm, (uintptr_t)ls_span_host(run.gradient) % 64 == 0);
            int64_t m = run.micro_batch;
            if (run.part == 0) make_gradient(s, step, m, values + m * s->length);
            if (run.part == 0) write_gradient(s, queue, run.gradient, values + m * s->length);
        }
        ls_vote decision;
        CHECK_OK(s->comm, ls_engine_end(r->engine, r->index, &decision));
        CHECK(s->comm, decision == LS_VOTE_GO_ON && trace.count <= events);
        check_times(s->comm, &times, began);
        check_norms(r, step);
        if (ls_engine_is_early(r->engine) && step % 2) continue;
        CHECK_OK(s->comm, ls_engine_home(r->engine, r->index, queue, NULL));
        if (ls_engine_is_early(r->engine)) ls_engine_host_barrier(r->engine);  // lane 0 alone knows that all is whole
        check_weights(s, r->engine, queue, r->expected + (step - 1) * s->length);
    }
    CHECK_OK(s->comm, ls_engine_home(r->engine, r->index, queue, NULL));
    ls_trace_release(&trace);
    ls_queue_destroy(&queue);
    ls_memory_free(values);
    return NULL;
}

// What a job that is only planned would take is what this one has, on the worker that it is worker 0 of.
static void check_memory(const setting *s, const ls_engine *engine, ls_engine_config config) {
    ls_engine_memory m = ls_engine_memory_of(engine), planned;
    ls_engine *only_planned;
    int64_t shared = 0, seen = 0, alone = s->comm->local_size == 1;
    for (int p = 0; p < LS_ENGINE_PARTS; p++) {
        CHECK(s->comm, m.part[p].own >= 0 && m.part[p].shared >= m.part[p].seen && m.part[p].seen >= 0);
        shared += m.part[p].shared;
        seen += m.part[p].seen;
    }
    int64_t common = engine->shared->bytes, gradients = engine->gradients->bytes;
    if (alone) common = ls_memory_size(common), gradients = gradients ? ls_memory_size(gradients) : 0;
    CHECK(s->comm, shared == common + gradients);
    CHECK(s->comm, alone ? seen == shared : seen > shared / s->comm->local_size);
    int64_t slots = m.gradient_buffers * s->length * 4;
    int64_t lane = s->device->ops->host_memory ? slots : ls_memory_size(slots);
    int64_t begin, end, unused;  // who computes nothing has no gradients on a device of its own
    ls_mesh_deal(engine->mesh, s->micro_batches, engine->rank, 0, &begin, &unused);
    ls_mesh_deal(engine->mesh, s->micro_batches, engine->rank, s->replicas - 1, &unused, &end);
    int none = end <= begin && !s->device->ops->host_memory;
    CHECK(s->comm, m.part[LS_ENGINE_GRADIENTS].lane == (none ? 0 : lane));
    if (s->comm->rank != 0) return;
    CHECK_OK(s->comm, ls_comm_create_planned(s->comm->size, s->comm->hosts, 0, &config.comm));
    CHECK_OK(s->comm, ls_engine_plan(s->strategy, &config, &only_planned));
    planned = ls_engine_memory_of(only_planned);
    CHECK(s->comm, memcmp(planned.part, m.part, sizeof m.part) == 0 && planned.gradient_buffers == m.gradient_buffers);
    ls_engine_destroy(&only_planned);
    ls_comm_destroy(&config.comm);
}

// How often each element of each vector of state came up, over all workers: the copies that count, and all.
typedef struct coverage {
    const setting *setting;
    const float *weights;  // as they have to be
    float counted[3][MAX_LENGTH], seen[3][MAX_LENGTH];
    int residuals;
} coverage;

static ls_status cover(void *user, const ls_state_piece *piece) {
    coverage *c = user;
    const setting *s = c->setting;
    if (s->compress == LS_COMPRESS_TOPK && strncmp(piece->vector, LS_RESIDUAL, strlen(LS_RESIDUAL)) == 0) {
        int64_t v = atoi(piece->vector + strlen(LS_RESIDUAL));
        CHECK(s->comm, piece->copy == 0 && piece->offset == 0 && piece->count == s->length && v < s->micro_batches);
        CHECK(s->comm, memcmp(piece->data, s->residuals + v * s->length, (size_t)s->length * 4) == 0);
        c->residuals++;
        return LS_OK;
    }
    int vector = !strcmp(piece->vector, "weights") ? 0 : !strcmp(piece->vector, s->optimizer->state_names[0]) ? 1 : 2;
    CHECK(s->comm, vector < 2 || !strcmp(piece->vector, s->optimizer->state_names[1]));
    CHECK(s->comm, piece->count > 0 && piece->offset >= 0 && piece->offset + piece->count <= s->length);
    CHECK(s->comm, piece->lane / s->replicas == s->comm->position && piece->copy >= 0);
    for (int64_t i = 0; i < piece->count; i++) {
        // Weights are those of the last step; state has moved, but that of statistics.
        if (vector == 0) CHECK(s->comm, piece->data[i] == c->weights[piece->offset + i]);
        ls_segment segment = segment_at(s, piece->offset + i);
        int moved = !segment.statistic && !segment.frozen;
        if (vector > 0 && !moved) CHECK(s->comm, piece->data[i] == 0);
        c->seen[vector][piece->offset + i] += 1;
        if (piece->copy == 0) c->counted[vector][piece->offset + i] += 1;
        if (vector == 0) piece->data[i] *= 2;
    }
    return LS_OK;
}

static ls_status refuse(void *user, const ls_state_piece *piece) {
    ++*(int *)user;
    return LS_FAIL(LS_STATUS_BAD_DATA, "no");
}

static void check_visitor(const setting *s, ls_engine *engine, ls_queue *queue, const float *weights) {
    coverage *mine, *all;
    CHECK_OK(s->comm, ls_calloc(1, sizeof *mine, &mine));
    CHECK_OK(s->comm, ls_calloc(s->comm->size, sizeof *all, &all));
    mine->setting = s;
    mine->weights = weights;
    CHECK_OK(s->comm, ls_comm_barrier(s->comm));  // the others have looked at weights that it changes
    CHECK_OK(s->comm, ls_engine_visit(engine, queue, cover, mine));
    // What a visitor writes is what there is.
    CHECK_OK(s->comm, ls_engine_weights_changed(engine, queue));
    float *now = contents(s->comm, queue, ls_engine_weights(engine), s->length);
    for (int64_t i = 0; i < s->length; i++) CHECK(s->comm, now[i] == 2 * weights[i]);
    ls_memory_free(now);
    CHECK_OK(s->comm, ls_comm_allgather(s->comm, mine, all, sizeof *mine));
    int states = s->optimizer->state_count(&s->params), residuals = 0;
    for (int w = 0; w < s->comm->size; w++) residuals += all[w].residuals;
    CHECK(s->comm, residuals == (s->compress == LS_COMPRESS_TOPK ? s->micro_batches : 0));
    for (int v = 0; v < 3; v++)
        for (int64_t i = 0; i < s->length; i++) {
            float counted = 0, seen = 0;
            for (int w = 0; w < s->comm->size; w++) counted += all[w].counted[v][i], seen += all[w].seen[v][i];
            CHECK(s->comm, counted == (v <= states) && seen >= counted);
        }
    int calls = 0, first = ls_engine_writes_weights(engine);
    ls_status status = ls_engine_visit(engine, queue, refuse, &calls);
    CHECK(s->comm, calls <= 1 && (calls == 0) == (status == LS_OK) && (!first || calls == 1));
    free(mine);
    free(all);
}

static void set_weights(const setting *s, ls_engine *engine, ls_queue *queue) {
    float *values;
    CHECK_OK(s->comm, ls_memory_alloc(s->length * 4, &values));
    initial_weights(values, s->length);
    if (ls_engine_writes_weights(engine))
        CHECK_OK(s->comm, ls_write(queue, ls_engine_weights(engine), values, s->length * 4));
    CHECK_OK(s->comm, ls_engine_weights_changed(engine, queue));
    check_weights(s, engine, queue, values);
    ls_memory_free(values);
}

// How many buckets are exchanged in their order: any number may be.
static int config_order(const setting *s) {
    int64_t ends[MAX_LENGTH / 64];
    return cut(s, ends) * (s->comm->size % 3) / 2;
}

static void run(const setting *s, const float *expected) {
    int64_t length = s->length, ends[MAX_LENGTH / 64];
    const int64_t counts[] = {step_info(s, 3).micro_batches, 1};
    ls_engine_config config = {.comm = s->comm,
                               .device = s->device,
                               .bucket_ends = s->buckets ? ends : NULL,
                               .bucket_count = cut(s, ends),
                               .lanes = s->replicas,
                               .servers = s->servers,
                               .algorithm = s->algorithm,
                               .length = length,
                               .micro_batches = s->micro_batches,
                               .other_counts = counts,
                               .other_count_count = 2,
                               .optimizer = s->optimizer,
                               .params = s->params,
                               .clip_norm = s->clip_norm,
                               .skip_not_finite = s->skips,
                               .compress = s->compress,
                               .compress_fraction = TOPK_PART,
                               .segments = s->segments,
                               .segment_count = s->segment_count,
                               .decay_kernels_only = 1,
                               .spin = 0,
                               .progress = s->early > 0,
                               .own_core = s->early > 1,
                               .early = s->behind,
                               .in_order = config_order(s),
                               .copies_bytes = length * 4,
                               .refresh = refresh,
                               .refresh_some = refresh_some,
                               .refresh_user = &length};
    ls_engine *engine;
    CHECK_OK(s->comm, ls_engine_create(s->strategy, &config, &engine));
    CHECK(s->comm, ls_engine_memory_bytes(engine) >= length * 4 / s->comm->local_size);
    int totals = s->compress == LS_COMPRESS_BF16 && !strcmp(s->strategy, "allreduce") && s->comm->hosts > 1;
    CHECK(s->comm, ls_engine_sends_totals(engine) ==
                       (totals || (!strcmp(s->strategy, "reduce-broadcast") && s->comm->hosts > 1)));
    check_memory(s, engine, config);
    int can = s->device->ops->host_memory && s->clip_norm <= 0 && !s->skips && !s->optimizer->layerwise;
    CHECK(s->comm, ls_engine_is_early(engine) == (s->behind && can));
    ls_queue *queue;
    CHECK_OK(s->comm, ls_queue_create(s->device, &queue));
    set_weights(s, engine, queue);

    replica replicas[MAX_LANES];
    pthread_t threads[MAX_LANES];
    for (int i = 0; i < s->replicas; i++) replicas[i] = (replica){s, engine, i, expected};
    for (int i = 1; i < s->replicas; i++) CHECK(s->comm, pthread_create(&threads[i], NULL, train, &replicas[i]) == 0);
    train(&replicas[0]);  // lane 0 is the main thread, the one that may communicate
    for (int i = 1; i < s->replicas; i++) CHECK(s->comm, pthread_join(threads[i], NULL) == 0);
    check_visitor(s, engine, queue, expected + (STEPS - 1) * length);
    ls_queue_destroy(&queue);
    ls_engine_destroy(&engine);
    CHECK(s->comm, engine == NULL);
}

// A length with slices of several blocks, dividing and not dividing steps; and one with fewer units than lanes.
static const struct {
    const char *optimizer;
    double momentum;
    int64_t length, micro_batches;
    const ls_segment *segments;
    int segment_count;
    double clip_norm;
    ls_compress compress;
    int skips;
} cases[] = {{"adam", -1, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0, 0, 0},
             {"sgd", 0.9, MAX_LENGTH, 7, NULL, 0, 0, 0, 0},
             {"adam", -1, 64 * 3, 7, short_segments, 3, 0, 0, 0},
             {"sgd", 0.9, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 1, 0, 0},
             {"adam", -1, 64 * 3, 7, NULL, 0, 0.1, 0, 0},
             {"lars", 0.9, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0, 0, 0},
             {"lars", 0, 64 * 3, 7, short_segments, 3, 0.1, 0, 0},
             {"lamb", -1, MAX_LENGTH, 7, long_segments, LONG_SEGMENTS, 1, 0, 0},
             {"lamb", -1, MAX_LENGTH, 8, NULL, 0, 0, 0, 0},
             {"adam", -1, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0, 0, 0},
             {"sgd", 0.9, MAX_LENGTH, 7, NULL, 0, 0, 0, 0},
             {"adam", -1, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0, 1, 0},
             {"sgd", 0.9, MAX_LENGTH, 7, long_segments, LONG_SEGMENTS, 1, 1, 0},
             {"sgd", 0.9, MAX_LENGTH, 8, NULL, 0, 0, 1, 0},
             {"lamb", -1, 64 * 3, 7, short_segments, 3, 0.1, 1, 0},
             {"adam", -1, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0, LS_COMPRESS_TOPK, 0},
             {"sgd", 0.9, MAX_LENGTH, 7, NULL, 0, 0, LS_COMPRESS_TOPK, 0},
             {"lamb", -1, 64 * 3, 7, short_segments, 3, 0.1, LS_COMPRESS_TOPK, 0},
             {"sgd", 0.9, MAX_LENGTH, 8, long_segments, LONG_SEGMENTS, 0.5, LS_COMPRESS_TOPK, 0},
             {"adam", -1, MAX_LENGTH, 7, long_segments, LONG_SEGMENTS, 0, LS_COMPRESS_BF16, 1},
             {"sgd", 0.9, MAX_LENGTH, 7, long_segments, LONG_SEGMENTS, 0, LS_COMPRESS_TOPK, 1}};

// Every strategy, with the servers it may have: first those with phases or a dealing of their own.
static const struct {
    const char *name;
    int servers;
    ls_algorithm algorithm;
} ways[] = {{.name = "allreduce"},
            {.name = "reduce-broadcast"},
            {.name = "allreduce", .algorithm = LS_ALGORITHM_HALVING},
            {.name = "tree"},
            {.name = "parameter-server"},
            {.name = "mirrored"},
            {.name = "central"},
            {.name = "parameter-server", .servers = 2},
            {.name = "parameter-server", .servers = 3}};
enum { WAYS = sizeof ways / sizeof ways[0], OWN_WAYS = 5 };

// Whether gradients can be compressed so.
static int compresses(int way, ls_compress compress) {
    return compress != LS_COMPRESS_TOPK ||
           (ways[way].algorithm == LS_ALGORITHM_AUTO && ways[way].servers == 0 &&
            (!strcmp(ways[way].name, "allreduce") || !strcmp(ways[way].name, "mirrored")));
}

// Whether so many workers can be trained so.
static int is_possible(const ls_comm *comm, int way) {
    if (!strcmp(ways[way].name, "mirrored")) return comm->size == 1;
    if (ways[way].algorithm == LS_ALGORITHM_HALVING && comm->hosts == 1) return 0;
    return ways[way].servers == 0 || ways[way].servers < comm->size;
}

static void test_names(ls_comm *comm) {
    for (const ls_strategy *strategy = ls_strategies(); strategy->name; strategy++) {
        int known = 0;
        for (int i = 0; i < WAYS; i++) known |= !strcmp(strategy->name, ways[i].name);
        CHECK(comm, known);
    }
}

// All ways, or the one that is for many hosts.
static void test_hosts(ls_comm *comm, ls_device *device, int many, float *expected) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setting s = {.comm = comm,
                     .device = device,
                     .length = cases[i].length,
                     .micro_batches = cases[i].micro_batches,
                     .segments = cases[i].segments,
                     .segment_count = cases[i].segment_count,
                     .clip_norm = cases[i].clip_norm,
                     .skips = cases[i].skips,
                     .compress = cases[i].compress};
        s.params =
            (ls_optimizer_params){-1, cases[i].momentum, -1, -1, -1, 0.01, cases[i].momentum > 0, -1, i % 2 ? 0.03 : 0};
        CHECK_OK(comm, ls_optimizer_find(cases[i].optimizer, &s.optimizer));
        CHECK_OK(comm, ls_optimizer_resolve(s.optimizer, &s.params));
        CHECK_OK(comm, ls_memory_alloc(s.micro_batches * s.length * 4, &s.residuals));
        CHECK_OK(comm, ls_calloc(STEPS, sizeof *s.norms, &s.norms));
        serial(&s, expected);
        // One bucket; several; as many as there are units; two, the second of which is small. All, or every second, are ready early.
        const int buckets[] = {0, 33, 1, (int)(s.length / 64 - 1)};
        s.buckets = buckets[i % 4], s.early = (int)((i + 1) % 3);
        for (s.replicas = 1; s.replicas <= MAX_LANES; s.replicas++)
            for (int w = 0; w < WAYS; w++) {
                s.strategy = ways[w].name, s.servers = ways[w].servers, s.algorithm = ways[w].algorithm;
                s.behind = s.early && (w + s.replicas + i) % 2;
                // All cases are for all of them, but not with all devices and numbers of workers, hosts and replicas.
                // Fewer of them where many workers share few cores: other ones with each number of hosts, of which there are four.
                int of = (w < 3    ? 1
                          : w == 3 ? 3
                                   : 8) *
                         (comm->size > 4   ? 4
                          : comm->size > 3 ? 2
                                           : 1),
                    turn = (int)i + w + s.replicas + comm->size + comm->hosts;
                if (!is_possible(comm, w) || !compresses(w, s.compress)) continue;
                int many_way = s.compress == LS_COMPRESS_TOPK ? 0 : 2;
                if (many ? w == many_way : turn % of == 0) run(&s, expected);
            }
        ls_memory_free(s.residuals);
        free(s.norms);
    }
}

static void test_failures(ls_comm *comm, ls_device *device) {
    ls_engine *engine;
    ls_engine_config config = {.comm = comm, .device = device, .lanes = 1, .length = 64, .micro_batches = 1};
    CHECK(comm, ls_engine_create("gossip", &config, &engine) == LS_STATUS_NOT_FOUND && engine == NULL);
    CHECK(comm, strstr(ls_error_message(), "allreduce, reduce-broadcast, mirrored, central, tree, parameter-server"));
    // Gradients that do not fit the memory of a host: all workers hear of it, and nothing is left behind.
    CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
    const ls_segment gap[] = {{0, 64, .kernel = 1}, {128, 192, .kernel = 1}};
    const ls_segment odd[] = {{0, 32, .kernel = 1}, {32, 192, .kernel = 1}};
    const ls_segment beyond[] = {{0, 192, .kernel = 1}, {192, 256, .kernel = 1}};
    const ls_segment *const wrong[] = {gap, odd, beyond};
    config.length = 192, config.segment_count = 2;
    for (int i = 0; i < 3; i++) {
        config.segments = wrong[i];
        CHECK(comm, ls_engine_create("allreduce", &config, &engine) == LS_STATUS_INTERNAL && engine == NULL);
        CHECK(comm, strstr(ls_error_message(), "the segments of a vector of 192 floats cover it up to"));
    }
    config.segments = NULL;
    const int64_t ends[][3] = {{64, 64, 192}, {64, 96, 192}, {64, 128, 256}, {64, 128, 128}};
    config.bucket_count = 3;
    for (int i = 0; i < 4; i++) {
        config.bucket_ends = ends[i];
        CHECK(comm, ls_engine_create("allreduce", &config, &engine) == LS_STATUS_INTERNAL && engine == NULL);
        CHECK(comm, strstr(ls_error_message(), "the buckets of a vector of 192 floats cover it up to"));
    }
    config.bucket_ends = NULL;
    config.length = (int64_t)1 << 47;
    ls_status status = ls_engine_create("allreduce", &config, &engine);
    CHECK(comm, engine == NULL);
    CHECK(comm, status == (comm->hosts > 1 ? LS_STATUS_INVALID_ARGUMENT : LS_STATUS_OUT_OF_MEMORY));
    CHECK(comm, comm->hosts == 1 || strstr(ls_error_message(), "more than MPI can send: take smaller buckets"));
}

// Jobs that a strategy is not for.
static void test_roles_refused(ls_comm *comm, ls_device *device) {
    ls_engine *engine;
    ls_engine_config config = {.comm = comm, .device = device, .lanes = 1, .length = 64, .micro_batches = 1};
    CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
    if (comm->size > 1) {
        CHECK(comm, ls_engine_create("mirrored", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
        CHECK(comm, strstr(ls_error_message(), "choose allreduce"));
        config.servers = comm->size;
        CHECK(comm, ls_engine_create("parameter-server", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
        CHECK(comm, strstr(ls_error_message(), "none is left to compute: start at least"));
    }
    config.servers = 0;
    config.algorithm = LS_ALGORITHM_HALVING;
    CHECK(comm, ls_engine_create("tree", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
    CHECK(comm, strstr(ls_error_message(), "has one way between hosts"));
    config.compress = LS_COMPRESS_TOPK, config.compress_fraction = 0.5;
    CHECK(comm, ls_engine_create("allreduce", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
    CHECK(comm, strstr(ls_error_message(), "leave the algorithm out, or choose another compression than topk"));
    config.algorithm = LS_ALGORITHM_AUTO;
    CHECK(comm, ls_engine_create("tree", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
    CHECK(comm, strstr(ls_error_message(), "choose allreduce, or another compression than topk"));
    config.compress = LS_COMPRESS_NONE;
    config.servers = 1;
    CHECK(comm, ls_engine_create("tree", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
    CHECK(comm, strstr(ls_error_message(), "choose parameter-server"));
    CHECK(comm, ls_engine_create("mirrored", &config, &engine) == LS_STATUS_INVALID_ARGUMENT && !engine);
}

// --- votes -----------------------------------------------------------------------------------------------------------

#define VOTES 12

typedef struct voter {
    const setting *setting;
    ls_engine *engine;
    int index, step;
} voter;

// In step i lane (i * 5) % lanes votes i % 3, in every fourth step another one stops as well.
static ls_vote vote_of(int lane, int lanes, int step) {
    if (lane == step * 5 % lanes) return (ls_vote)(step % 3);
    return step % 4 == 0 && lane == (step + 1) % lanes ? LS_VOTE_STOP : LS_VOTE_GO_ON;
}

static ls_vote cast(void *user, int index) {
    const voter *v = user;
    const setting *s = v->setting;
    return vote_of(s->comm->position * s->replicas + index, s->comm->size * s->replicas, v->step);
}

static void *vote(void *argument) {
    voter *v = argument;
    const setting *s = v->setting;
    int lanes = s->comm->size * s->replicas;
    ls_queue *queue;
    CHECK_OK(s->comm, ls_queue_create(s->device, &queue));
    for (v->step = 1; v->step <= VOTES; v->step++) {
        ls_step_info info = {.micro_batches = 1, .samples = 1, .lr = 1e-3, .step = v->step};
        ls_step_times times = {.since = ls_clock()};
        ls_step_client client = {.user = v, .vote = cast};
        ls_step_run run;
        ls_vote decision, expected = LS_VOTE_GO_ON;
        CHECK_OK(s->comm, ls_engine_begin(v->engine, v->index, queue, &info, &client, &times));
        while (ls_engine_next(v->engine, v->index, &run)) continue;
        for (int l = 0; l < lanes; l++)
            if (vote_of(l, lanes, v->step) > expected) expected = vote_of(l, lanes, v->step);
        CHECK_OK(s->comm, ls_engine_end(v->engine, v->index, &decision));
        CHECK(s->comm, decision == expected);
    }
    CHECK_OK(s->comm, ls_engine_home(v->engine, v->index, queue, NULL));
    ls_queue_destroy(&queue);
    return NULL;
}

// The largest vote of any lane is everybody's decision, in the step in which it is cast and in no other.
static void test_votes(ls_comm *comm, ls_device *device) {
    static const int64_t ends[] = {64, 128};
    for (int i = 0; i < 2 * OWN_WAYS; i++) {
        int w = i / 2, early = i % 2;
        if (!is_possible(comm, w)) continue;
        setting s = {.comm = comm, .device = device, .replicas = 2};
        ls_engine_config config = {.comm = comm, .device = device, .lanes = 2, .length = 128, .micro_batches = 1};
        ls_engine *engine;
        config.progress = config.early = early, config.bucket_ends = ends, config.bucket_count = 2;
        pthread_t other;
        config.servers = ways[w].servers;
        config.algorithm = ways[w].algorithm;
        CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
        CHECK_OK(comm, ls_engine_create(ways[w].name, &config, &engine));
        voter voters[2] = {{&s, engine, 0, 0}, {&s, engine, 1, 0}};
        CHECK(comm, pthread_create(&other, NULL, vote, &voters[1]) == 0);
        vote(&voters[0]);
        CHECK(comm, pthread_join(other, NULL) == 0);
        ls_engine_destroy(&engine);
    }
}

// --- two that share weights ------------------------------------------------------------------------------------------

static void step_of(ls_comm *comm, ls_engine *engine, ls_queue *queue, int64_t length, int64_t v, int step,
                    float value) {
    float *ones;
    CHECK_OK(comm, ls_memory_alloc(length * 4, &ones));
    for (int64_t i = 0; i < length; i++) ones[i] = value;
    ls_step_info info = {.micro_batches = v, .samples = v, .lr = 1, .step = step};
    ls_step_times times = {.since = ls_clock()};
    ls_step_run run;
    ls_vote decision;
    CHECK_OK(comm, ls_engine_begin(engine, 0, queue, &info, NULL, &times));
    while (ls_engine_next(engine, 0, &run))
        if (run.backward && run.part == 0) CHECK_OK(comm, ls_write(queue, run.gradient, ones, length * 4));
    CHECK_OK(comm, ls_engine_end(engine, 0, &decision));
    ls_memory_free(ones);
}

static void step_once(ls_comm *comm, ls_engine *engine, ls_queue *queue, int64_t length, int step, float value) {
    step_of(comm, engine, queue, length, comm->size, step, value);
}

// Where any number of micro-batches may come, a shorter step may have more messages than the full one, and more different programs are made than are
// kept: each step takes 1 from all weights, the same ones again as those that were given up.
static void test_any_count(ls_comm *comm, ls_device *device) {
    static const int64_t ends[] = {64, 256};
    for (int i = 0; i < 2 * OWN_WAYS; i++) {
        int w = i / 2;
        if (!is_possible(comm, w)) continue;
        ls_engine *engine;
        ls_queue *queue;
        ls_engine_config config = {.comm = comm,
                                   .device = device,
                                   .lanes = 1,
                                   .servers = ways[w].servers,
                                   .algorithm = ways[w].algorithm,
                                   .length = 256,
                                   .bucket_ends = ends,
                                   .bucket_count = 2,
                                   .micro_batches = 192,
                                   .other_count_count = -1,
                                   .progress = i % 2};
        CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
        CHECK_OK(comm, ls_engine_create(ways[w].name, &config, &engine));
        CHECK_OK(comm, ls_queue_create(device, &queue));
        for (int step = 1; step <= 40; step++)
            step_of(comm, engine, queue, 256, step % 20 == 3 ? 192 : 192 - (step - 1) % 20, step, 1);
        float *weights = contents(comm, queue, ls_engine_weights(engine), 256);
        for (int64_t k = 0; k < 256; k++) CHECK(comm, weights[k] == -40.0f);
        ls_memory_free(weights);
        ls_queue_destroy(&queue);
        ls_engine_destroy(&engine);
    }
}

// Two engines with optimizers of their own take turns: with sgd and a rate of 1 each step takes 1 from all weights. The one with the
// same working copies finds them up to date, the other is told.
static void test_shared_weights(ls_comm *comm, ls_device *device) {
    int64_t length = 256;
    ls_queue *queue;
    CHECK_OK(comm, ls_queue_create(device, &queue));
    for (int w = 0; w < OWN_WAYS; w++) {
        if (!is_possible(comm, w)) continue;
        const char *name = ways[w].name;
        const ls_strategy *strategy;
        CHECK_OK(comm, ls_strategy_find(name, &strategy));
        ls_engine *first, *second, *third, *refused;
        ls_engine_config config = {.comm = comm,
                                   .device = device,
                                   .lanes = 1,
                                   .servers = ways[w].servers,
                                   .algorithm = ways[w].algorithm,
                                   .length = length,
                                   .micro_batches = comm->size,
                                   .copies_bytes = length * 4,
                                   .refresh = refresh,
                                   .refresh_user = &length};
        CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
        CHECK_OK(comm, ls_engine_create(name, &config, &first));
        config.weights_of = first;
        CHECK_OK(comm, ls_engine_create(name, &config, &second));
        int64_t same_length = length;
        config.refresh_user = &same_length;
        CHECK_OK(comm, ls_engine_create(name, &config, &third));
        CHECK(comm, span_equal(ls_engine_weights(second), ls_engine_weights(first)) &&
                        span_equal(ls_engine_copies(second), ls_engine_copies(first)) &&
                        span_equal(ls_engine_weights(third), ls_engine_weights(first)) &&
                        !span_equal(ls_engine_copies(third), ls_engine_copies(first)));
        ls_engine_memory m = ls_engine_memory_of(second), own = ls_engine_memory_of(first);
        CHECK(comm, m.part[LS_ENGINE_WEIGHTS].shared + m.part[LS_ENGINE_WEIGHTS].own == 0);
        CHECK(comm, own.part[LS_ENGINE_WEIGHTS].shared + own.part[LS_ENGINE_WEIGHTS].own >= length * 4);
        for (int step = 1; step <= 3; step++) {
            step_once(comm, first, queue, length, step, 1);
            step_once(comm, second, queue, length, step, 1);
            CHECK_OK(comm, ls_engine_weights_changed(third, queue));
            float *weights = contents(comm, queue, ls_engine_weights(first), length);
            float *copies = contents(comm, queue, ls_engine_copies(first), length);
            float *other_copies = contents(comm, queue, ls_engine_copies(third), length);
            for (int64_t i = 0; i < length; i++) {
                CHECK(comm, weights[i] == -2.0f * (float)step);
                CHECK(comm, copies[i] == 2.0f * (float)step);
                CHECK(comm, other_copies[i] == 2.0f * (float)step);
            }
            ls_memory_free(weights);
            ls_memory_free(copies);
            ls_memory_free(other_copies);
            CHECK_OK(comm, ls_comm_barrier(comm));
        }
        config.length = 2 * length;
        CHECK(comm, ls_engine_create(name, &config, &refused) == LS_STATUS_INVALID_ARGUMENT && !refused);
        CHECK(comm, strstr(ls_error_message(), "256 and of 512 floats"));
        config.length = length;
        const char *other = strategy->weights_shared ? "reduce-broadcast" : "allreduce";
        config.servers = 0;
        config.algorithm = LS_ALGORITHM_AUTO;
        CHECK(comm, ls_engine_create(other, &config, &refused) == LS_STATUS_INVALID_ARGUMENT && !refused);
        CHECK(comm, strstr(ls_error_message(), "choose the same strategy"));
        ls_engine_destroy(&third);
        ls_engine_destroy(&second);
        ls_engine_destroy(&first);
    }
    ls_queue_destroy(&queue);
}

// Where lanes take denormals for zeros, the thread that exchanges for them does.
static void test_denormals(ls_comm *comm) {
    ls_device *device;
    ls_queue *queue;
    ls_engine *engine;
    CHECK_OK(comm, ls_device_create("cpu", &(ls_device_options){.threads = 1}, &device));
    CHECK_OK(comm, ls_queue_create(device, &queue));
    ls_engine_config config = {.comm = comm, .device = device, .lanes = 1, .length = 128, .progress = 1};
    config.micro_batches = comm->size;
    CHECK_OK(comm, ls_optimizer_find("sgd", &config.optimizer));
    CHECK_OK(comm, ls_engine_create("allreduce", &config, &engine));
    step_once(comm, engine, queue, 128, 1, 1e-39f);
    float *weights = contents(comm, queue, ls_engine_weights(engine), 128);
    for (int i = 0; i < 128; i++) CHECK(comm, weights[i] == 0);
    ls_memory_free(weights);
    ls_engine_destroy(&engine);
    ls_queue_destroy(&queue);
    ls_device_destroy(&device);
}

static void test_all(ls_comm *comm, float *expected) {
    static const char *const devices[] = {"ref", "late"};
    for (int i = 0; i < 2; i++) {
        ls_device *device;
        CHECK_OK(comm, ls_device_create(devices[i], NULL, &device));
        test_hosts(comm, device, 0, expected);
        test_failures(comm, device);
        test_roles_refused(comm, device);
        test_votes(comm, device);
        test_shared_weights(comm, device);
        test_any_count(comm, device);
        ls_device_destroy(&device);
    }
}

// Every worker has a host of its own.
static void test_many_hosts(ls_comm *world, float *expected) {
    ls_comm *comm;
    ls_device *device;
    setenv("LOCKSTEP_TEST_HOSTS", (const char[]){(char)('0' + world->size), 0}, 1);
    CHECK_OK(world, ls_comm_create(&comm));
    CHECK(world, comm->hosts == world->size);
    CHECK_OK(comm, ls_device_create("ref", NULL, &device));
    test_hosts(comm, device, 1, expected);
    ls_device_destroy(&device);
    ls_comm_destroy(&comm);
}

int main(void) {
    ls_comm *world, *comm;
    float *expected;
    unsetenv("LOCKSTEP_TEST_HOSTS");
    if (ls_comm_create(&world) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    CHECK_OK(world, ls_memory_alloc((int64_t)STEPS * MAX_LENGTH * 4, &expected));
    test_names(world);
    test_all(world, expected);
#if defined(__x86_64__)
    test_denormals(world);
#endif
    for (int hosts = 2; hosts <= 4 && hosts <= world->size; hosts++) {
        setenv("LOCKSTEP_TEST_HOSTS", (const char[]){(char)('0' + hosts), 0}, 1);
        CHECK_OK(world, ls_comm_create(&comm));
        CHECK(world, comm->hosts == hosts);
        test_all(comm, expected);
        ls_comm_destroy(&comm);
    }
    if (world->size > 4) test_many_hosts(world, expected);
    ls_memory_free(expected);
    ls_comm_destroy(&world);
    return 0;
}
