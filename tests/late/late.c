#define _GNU_SOURCE
#include "late/late.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

const ls_device_ops *const ls__program_devices[] = {&ls_device_late, NULL};

typedef struct late_buffer {
    ls_buffer base;    // memory: pages of nobody
    ls_buffer *inner;  // what is computed with
    int64_t pending;   // operations that name it
} late_buffer;

typedef struct late_kernel {
    ls_kernel base;
    struct late_device *device;
    ls_kernel *inner;
    int64_t pending;
} late_kernel;

typedef struct late_event {
    ls_event base;
    int64_t recorded, happened;
    int64_t pending;
} late_event;

typedef enum late_kind {
    RUN,
    WRITE,
    READ,
    COPY,
    ZERO,
    ADD,
    SCALE,
    ADD_BF16,
    PACK,
    UNPACK,
    KEEP,
    SQUARES,
    FIND,
    APPLY,
    RECORD,
    WAIT
} late_kind;

// Something put into a queue. What it names beside its arguments is looked at when it is done.
typedef struct operation {
    late_kind kind;
    struct operation *next;
    ls_span span[LS_ARG_COUNT];
    late_kernel *kernel;
    late_event *event;
    int64_t count;  // bytes, floats, units; which record of the event
    int64_t first;
    void *to;          // READ
    const void *from;  // WRITE
    float factor, back;
    int64_t *units;  // SQUARES: (count), freed with it
    ls_formula_call call;
    int spans;  // APPLY
} operation;

typedef struct late_queue {
    ls_queue base;
    struct late_queue *next;
    operation *first, **last;
    int64_t put, done;
    ls_status status;  // the first failure since the last time, and its sentence
    char failure[512];
} late_queue;

// A thread that waits until *counter is `target`.
typedef struct waiter {
    const int64_t *counter;
    int64_t target;
    struct waiter *next;
} waiter;

typedef struct late_device {
    ls_device base;
    ls_device *inner;
    ls_queue *inner_queue;
    pthread_t thread;
    pthread_mutex_t mutex;  // guards all that follows, and all counters
    pthread_cond_t asked, progress;
    late_queue *queues;
    waiter *waiters;  // threads that wait for something
    int quit;
    uint64_t random;
} late_device;

static late_device *of(ls_device *device) { return (late_device *)device; }

static void refuse(const char *what) {
    fprintf(stderr, "device late: %s\n", what);
    abort();
}

static uint64_t draw(late_device *d) {
    d->random ^= d->random << 13;
    d->random ^= d->random >> 7;
    d->random ^= d->random << 17;
    return d->random;
}

// --- doing it --------------------------------------------------------------------------------------------------------

static ls_span inner_span(ls_span span) {
    return span.buffer ? (ls_span){((late_buffer *)span.buffer)->inner, span.offset} : span;
}

static ls_status perform(late_device *d, operation *o) {
    ls_span s[LS_ARG_COUNT];
    ls_queue *q = d->inner_queue;
    const ls_memory_ops *memory = d->inner->ops->memory;
    const ls_vector_ops *vector = d->inner->ops->vector;
    for (int i = 0; i < LS_ARG_COUNT; i++) s[i] = inner_span(o->span[i]);
    switch (o->kind) {
    case RUN: return ls_kernel_run(o->kernel->inner, q, s);
    case WRITE: return memory->write(q, s[0], o->from, o->count);
    case READ: return memory->read(q, o->to, s[0], o->count);
    case COPY: return memory->copy(q, s[0], s[1], o->count);
    case ZERO: return memory->zero(q, s[0], o->count);
    case ADD: return vector->add(q, s[0], s[1], s[2], o->count);
    case SCALE: return vector->scale(q, s[0], s[1], o->factor, o->count);
    case ADD_BF16: return vector->add_bf16(q, s[0], s[1], s[2], o->count);
    case PACK: return vector->pack_bf16(q, s[0], s[1], o->count);
    case KEEP: return vector->keep_largest(q, s[0], s[1], o->factor, o->back, o->count, o->first);
    case UNPACK: return vector->unpack_bf16(q, s[0], s[1], o->count);
    case SQUARES: return vector->sum_squares(q, s[0], s[1], o->units, o->count);
    case FIND: return vector->find_not_finite(q, s[0], s[1], o->first, o->count);
    case APPLY: return ls_apply(q, &o->call, s, o->spans, o->count);
    case RECORD:
    case WAIT: break;
    }
    return LS_OK;
}

static void count_pending(operation *o, int64_t change) {
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (o->span[i].buffer) ((late_buffer *)o->span[i].buffer)->pending += change;
    if (o->kernel) o->kernel->pending += change;
    if (o->event) o->event->pending += change;
}

static int can_run(const late_queue *q) {
    const operation *o = q->first;
    return o && !(o->kind == WAIT && o->event->happened < o->count);
}

// One of the queues that can go on; NULL: none.
static late_queue *choose(late_device *d) {
    int count = 0;
    for (late_queue *q = d->queues; q; q = q->next) count += can_run(q);
    if (count == 0) return NULL;
    int chosen = (int)(draw(d) % (uint64_t)count);
    for (late_queue *q = d->queues; q; q = q->next)
        if (can_run(q) && chosen-- == 0) return q;
    return NULL;
}

// Whether somebody waits for what has happened, and has not noticed.
static int somebody_may_go_on(const late_device *d) {
    for (const waiter *w = d->waiters; w; w = w->next)
        if (*w->counter >= w->target) return 1;
    return 0;
}

// With the mutex held but while it is performed.
static void do_next(late_device *d, late_queue *q) {
    operation *o = q->first;
    pthread_mutex_unlock(&d->mutex);
    ls_status status = perform(d, o);
    pthread_mutex_lock(&d->mutex);
    if (status != LS_OK && q->status == LS_OK) {
        q->status = status;
        snprintf(q->failure, sizeof q->failure, "%s", ls_error_message());
    }
    if (o->kind == RECORD && o->event->happened < o->count) o->event->happened = o->count;
    count_pending(o, -1);
    q->first = o->next;
    if (!q->first) q->last = &q->first;
    free(o->units);
    free(o);
    q->done++;
    pthread_cond_broadcast(&d->progress);
}

static void *work(void *user) {
    late_device *d = user;
    pthread_mutex_lock(&d->mutex);
    while (!d->quit) {
        late_queue *q = d->waiters ? choose(d) : NULL;
        if (q)
            do_next(d, q);
        else
            pthread_cond_wait(&d->asked, &d->mutex);
        // Who may go on puts more into its queue before what else could be done is done: sometimes.
        if (somebody_may_go_on(d) && draw(d) % 2) {
            pthread_mutex_unlock(&d->mutex);
            usleep((useconds_t)(draw(d) % 100));
            pthread_mutex_lock(&d->mutex);
        }
    }
    pthread_mutex_unlock(&d->mutex);
    return NULL;
}

// --- asking for it ---------------------------------------------------------------------------------------------------

static ls_status put(ls_queue *queue, const operation *what) {
    late_queue *q = (late_queue *)queue;
    late_device *d = of(queue->device);
    operation *o;
    LS_TRY(ls_calloc(1, sizeof *o, &o));
    *o = *what;
    pthread_mutex_lock(&d->mutex);
    if (o->kind == RECORD) o->count = ++o->event->recorded;
    if (o->kind == WAIT) o->count = o->event->recorded;
    count_pending(o, 1);
    *q->last = o;
    q->last = &o->next;
    q->put++;
    if (d->waiters) pthread_cond_signal(&d->asked);
    pthread_mutex_unlock(&d->mutex);
    return LS_OK;
}

// Waits, with the mutex held, until *counter is `target`.
static void wait_for(late_device *d, const int64_t *counter, int64_t target) {
    waiter me = {counter, target, d->waiters}, **at = &d->waiters;
    d->waiters = &me;
    while (*counter < target) {
        pthread_cond_signal(&d->asked);
        pthread_cond_wait(&d->progress, &d->mutex);
    }
    while (*at != &me) at = &(*at)->next;
    *at = me.next;
}

static ls_status synchronize(ls_queue *queue) {
    late_queue *q = (late_queue *)queue;
    late_device *d = of(queue->device);
    char failure[sizeof q->failure];
    pthread_mutex_lock(&d->mutex);
    wait_for(d, &q->done, q->put);
    ls_status status = q->status;
    memcpy(failure, q->failure, sizeof failure);
    q->status = LS_OK;
    pthread_mutex_unlock(&d->mutex);
    return status == LS_OK ? LS_OK : LS_FAIL(status, "%s", failure);
}

static ls_status write_span(ls_queue *queue, ls_span to, const void *from, int64_t bytes) {
    return put(queue, &(operation){.kind = WRITE, .span = {to}, .from = from, .count = bytes});
}

static ls_status read_span(ls_queue *queue, void *to, ls_span from, int64_t bytes) {
    return put(queue, &(operation){.kind = READ, .span = {from}, .to = to, .count = bytes});
}

static ls_status copy(ls_queue *queue, ls_span to, ls_span from, int64_t bytes) {
    return put(queue, &(operation){.kind = COPY, .span = {to, from}, .count = bytes});
}

static ls_status zero(ls_queue *queue, ls_span to, int64_t bytes) {
    return put(queue, &(operation){.kind = ZERO, .span = {to}, .count = bytes});
}

static ls_status add(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n) {
    return put(queue, &(operation){.kind = ADD, .span = {out, a, b}, .count = n});
}

static ls_status scale(ls_queue *queue, ls_span out, ls_span a, float factor, int64_t n) {
    return put(queue, &(operation){.kind = SCALE, .span = {out, a}, .factor = factor, .count = n});
}

static ls_status add_bf16(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n) {
    return put(queue, &(operation){.kind = ADD_BF16, .span = {out, a, b}, .count = n});
}

static ls_status pack_bf16(ls_queue *queue, ls_span out, ls_span a, int64_t n) {
    return put(queue, &(operation){.kind = PACK, .span = {out, a}, .count = n});
}

static ls_status unpack_bf16(ls_queue *queue, ls_span out, ls_span a, int64_t n) {
    return put(queue, &(operation){.kind = UNPACK, .span = {out, a}, .count = n});
}

static ls_status keep_largest(ls_queue *queue, ls_span x, ls_span rest, float scaled, float back, int64_t n,
                              int64_t keep) {
    return put(queue, &(operation){
                          .kind = KEEP, .span = {x, rest}, .factor = scaled, .back = back, .count = n, .first = keep});
}

static ls_status sum_squares(ls_queue *queue, ls_span sums, ls_span x, const int64_t *units, int64_t count) {
    operation o = {.kind = SQUARES, .span = {sums, x}, .count = count};
    LS_TRY(ls_calloc(count, sizeof *o.units, &o.units));
    memcpy(o.units, units, (size_t)count * sizeof *units);
    return put(queue, &o);
}

static ls_status find_not_finite(ls_queue *queue, ls_span found, ls_span x, int64_t first, int64_t n) {
    return put(queue, &(operation){.kind = FIND, .span = {found, x}, .first = first, .count = n});
}

static ls_status apply(ls_queue *queue, const ls_formula *formula, const void *arguments, int64_t argument_bytes,
                       const ls_span *x, int count, int64_t n) {
    operation o = {.kind = APPLY, .spans = count, .count = n};
    if (count > LS_MAX_FORMULA_SPANS || argument_bytes > LS_FORMULA_ARGUMENTS) refuse("a formula is larger than any");
    memcpy(o.span, x, (size_t)count * sizeof *x);
    o.call.formula = formula;
    o.call.argument_bytes = argument_bytes;
    memcpy(o.call.arguments, arguments, (size_t)argument_bytes);
    return put(queue, &o);
}

static ls_status event_record(ls_queue *queue, ls_event *event) {
    return put(queue, &(operation){.kind = RECORD, .event = (late_event *)event});
}

static ls_status event_wait(ls_queue *queue, ls_event *event) {
    return put(queue, &(operation){.kind = WAIT, .event = (late_event *)event});
}

static ls_status event_synchronize(ls_event *event) {
    late_event *e = (late_event *)event;
    late_device *d = of(event->device);
    pthread_mutex_lock(&d->mutex);
    wait_for(d, &e->happened, e->recorded);
    pthread_mutex_unlock(&d->mutex);
    return LS_OK;
}

// --- making and unmaking ---------------------------------------------------------------------------------------------

static void check_idle(late_device *d, const int64_t *pending, const char *what) {
    pthread_mutex_lock(&d->mutex);
    int busy = *pending != 0;
    pthread_mutex_unlock(&d->mutex);
    if (busy) refuse(what);
}

static size_t pages(int64_t bytes) { return (size_t)ls_round_up(bytes > 0 ? bytes : 1, 4096); }

static ls_status buffer_create(ls_device *device, int64_t bytes, ls_buffer **out) {
    late_buffer *b;
    LS_TRY(ls_calloc(1, sizeof *b, &b));
    b->base = (ls_buffer){.device = device, .bytes = bytes};
    void *nobody = mmap(NULL, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ls_status status = ls_buffer_create(of(device)->inner, bytes, &b->inner);
    if (status == LS_OK && nobody == MAP_FAILED)
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no addresses for a buffer of %lld bytes", (long long)bytes);
    if (status != LS_OK) {
        if (nobody != MAP_FAILED) munmap(nobody, pages(bytes));
        ls_buffer_destroy(&b->inner);
        free(b);
        return status;
    }
    b->base.memory = nobody;
    *out = &b->base;
    return LS_OK;
}

static void buffer_destroy(ls_buffer *buffer) {
    late_buffer *b = (late_buffer *)buffer;
    check_idle(of(buffer->device), &b->pending, "a buffer is destroyed that a queue has work for");
    munmap(buffer->memory, pages(buffer->bytes));
    ls_buffer_destroy(&b->inner);
    free(b);
}

static ls_status queue_create(ls_device *device, ls_queue **out) {
    late_queue *q;
    late_device *d = of(device);
    LS_TRY(ls_calloc(1, sizeof *q, &q));
    q->base.device = device;
    q->last = &q->first;
    pthread_mutex_lock(&d->mutex);
    q->next = d->queues;
    d->queues = q;
    pthread_mutex_unlock(&d->mutex);
    *out = &q->base;
    return LS_OK;
}

static void queue_destroy(ls_queue *queue) {
    late_queue *q = (late_queue *)queue;
    late_device *d = of(queue->device);
    pthread_mutex_lock(&d->mutex);
    wait_for(d, &q->done, q->put);
    late_queue **at = &d->queues;
    while (*at != q) at = &(*at)->next;
    *at = q->next;
    pthread_mutex_unlock(&d->mutex);
    free(q);
}

static ls_status event_create(ls_device *device, ls_event **out) {
    late_event *e;
    LS_TRY(ls_calloc(1, sizeof *e, &e));
    e->base.device = device;
    *out = &e->base;
    return LS_OK;
}

static void event_destroy(ls_event *event) {
    late_event *e = (late_event *)event;
    check_idle(of(event->device), &e->pending, "an event is destroyed that a queue has work for");
    free(e);
}

static const ls_memory_ops late_memory = {
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .queue_create = queue_create,
    .queue_destroy = queue_destroy,
    .synchronize = synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_synchronize,
    .write = write_span,
    .read = read_span,
    .copy = copy,
    .zero = zero,
};

static const ls_vector_ops late_vector = {.add = add,
                                          .scale = scale,
                                          .add_bf16 = add_bf16,
                                          .pack_bf16 = pack_bf16,
                                          .unpack_bf16 = unpack_bf16,
                                          .keep_largest = keep_largest,
                                          .sum_squares = sum_squares,
                                          .find_not_finite = find_not_finite,
                                          .apply = apply};

// --- kernels ---------------------------------------------------------------------------------------------------------

static ls_status kernel_run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    operation o = {.kind = RUN, .kernel = (late_kernel *)kernel};
    memcpy(o.span, args, sizeof o.span);
    return put(queue, &o);
}

static void kernel_destroy(ls_kernel *kernel) {
    late_kernel *k = (late_kernel *)kernel;
    check_idle(k->device, &k->pending, "a kernel is destroyed that a queue has work for");
    ls_kernel_destroy(&k->inner);
    free(k);
}

static const ls_kernel_ops late_kernel_ops = {.run = kernel_run, .destroy = kernel_destroy};

static ls_status wrap_kernel(ls_device *device, ls_kernel *inner, ls_kernel **out) {
    late_kernel *k;
    ls_status status = ls_calloc(1, sizeof *k, &k);
    if (status != LS_OK) {
        ls_kernel_destroy(&inner);
        return status;
    }
    k->base = *inner;
    k->base.ops = &late_kernel_ops;
    k->device = of(device);
    k->inner = inner;
    *out = &k->base;
    return LS_OK;
}

static ls_status kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    ls_kernel *inner;
    LS_TRY(ls_kernel_create(of(device)->inner, spec, &inner));
    return wrap_kernel(device, inner, out);
}

static ls_status reorder_create(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out) {
    ls_device *ref = of(device)->inner;
    ls_kernel *inner;
    LS_TRY(ref->ops->reorder_create(ref, from, to, &inner));
    return wrap_kernel(device, inner, out);
}

static ls_status layout_plain(ls_device *device, ls_shape shape, ls_dtype dtype, int is_weights,
                              const ls_layout **out) {
    ls_device *ref = of(device)->inner;
    return ref->ops->layout_plain(ref, shape, dtype, is_weights, out);
}

// --- the device ------------------------------------------------------------------------------------------------------

static void destroy(ls_device *device) {
    late_device *d = of(device);
    if (d->queues) refuse("it is destroyed before its queues");
    pthread_mutex_lock(&d->mutex);
    d->quit = 1;
    pthread_cond_signal(&d->asked);
    pthread_mutex_unlock(&d->mutex);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->asked);
    pthread_cond_destroy(&d->progress);
    pthread_mutex_destroy(&d->mutex);
    ls_queue_destroy(&d->inner_queue);
    ls_device_destroy(&d->inner);
    free(d);
}

static ls_status start(late_device *d) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&d->thread, NULL, work, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "device late: no thread") : LS_OK;
}

static ls_status create(const ls_device_options *options, ls_device **out) {
    const char *seed = getenv("LOCKSTEP_LATE_SEED");
    late_device *d;
    LS_TRY(ls_calloc(1, sizeof *d, &d));
    d->random = 0x9E3779B97F4A7C15u * (seed ? strtoull(seed, NULL, 10) + 1 : 1);
    if (d->random == 0) d->random = 1;
    pthread_mutex_init(&d->mutex, NULL);
    pthread_cond_init(&d->asked, NULL);
    pthread_cond_init(&d->progress, NULL);
    ls_status status = ls_device_create("ref", options, &d->inner);
    if (status == LS_OK) status = ls_queue_create(d->inner, &d->inner_queue);
    if (status == LS_OK) status = start(d);
    if (status != LS_OK) {
        if (d->inner) ls_queue_destroy(&d->inner_queue);
        ls_device_destroy(&d->inner);
        free(d);
        return status;
    }
    *out = &d->base;
    return LS_OK;
}

static void describe(const ls_device *device, char *text, size_t size) {
    const ls_device *ref = ((const late_device *)device)->inner;
    char inner[200];
    ref->ops->describe(ref, inner, sizeof inner);
    snprintf(text, size, "late, after %s", inner);
}

const ls_device_ops ls_device_late = {
    .name = "late",
    .help = "the tests': memory that the host cannot read, queues that work as late as they may",
    .memory = &late_memory,
    .vector = &late_vector,
    .create = create,
    .destroy = destroy,
    .describe = describe,
    .layout_plain = layout_plain,
    .kernel_create = kernel_create,
    .reorder_create = reorder_create,
};
