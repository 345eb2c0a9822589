// What a device is: memory of its own, queues that work in order, and kernels and vector functions that queues run.
//
// Memory need not be the host's: a *buffer* is opaque, and all that is ever named of it is a *span*, a buffer and an offset. Nothing
// on a device happens when it is asked for, but when its *queue* comes to it: kernels, vector functions and copies are put into a
// queue and done in that order. *Events* let one queue wait for another, and the host for any of them. A device whose memory is the
// host's (host_memory) does each thing at once, in the calling thread; its buffers may be memory that others have made.
//
// A queue belongs to one thread at a time; two queues of a device may be used by two threads.
#ifndef LS_DEVICE_DEVICE_H
#define LS_DEVICE_DEVICE_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

#include "device/kernel.h"

typedef struct ls_queue ls_queue;
typedef struct ls_event ls_event;
typedef struct ls_device_ops ls_device_ops;

typedef struct ls_device_options {
    int threads;  // threads a kernel may use
    const char
        *isa;  // the instruction set, where the device has a choice, as --isa has it; NULL: all that the processor has
} ls_device_options;

typedef struct ls_device_limits {
    const char *instructions;  // by which the arithmetic was measured
    double flops;              // a second, additions and multiplications each counting as one
    double bytes;              // a second, read and written
} ls_device_limits;

struct ls_device {
    const ls_device_ops *ops;
    ls_device_options options;
};

// The heads that a device's own structs start with.
struct ls_buffer {
    ls_device *device;
    int64_t bytes;
    void *memory;  // of host devices its address; else whatever the device likes
    int borrowed;  // 1: the memory is somebody else's
};
struct ls_queue {
    ls_device *device;
    int threads;  // that vector functions and ls_each may use, where the thread whose queue it is has a team of so many (thread_begin); 0: one
};
struct ls_event {
    ls_device *device;
};

// --- what a device has -----------------------------------------------------------------------------------------------

// Memory, order, copies. Those that take a queue return when the work is in it, not when it is done; what they name must stay until
// then. A failure of work done later comes back from the next synchronize. ls_host_memory (device/host.h) is for all devices whose
// memory is the host's.
typedef struct ls_memory_ops {
    ls_status (*buffer_create)(ls_device *device, int64_t bytes, ls_buffer **out);  // zeroed; OUT_OF_MEMORY
    // Host memory as a buffer of the device's. NULL: the device does not work on the host's memory.
    ls_status (*buffer_wrap)(ls_device *device, void *memory, int64_t bytes, ls_buffer **out);
    void (*buffer_destroy)(ls_buffer *buffer);  // when no queue has work left for it
    ls_status (*queue_create)(ls_device *device, ls_queue **out);
    void (*queue_destroy)(ls_queue *queue);     // does what is left in it first
    ls_status (*synchronize)(ls_queue *queue);  // waits until all is done; the first failure since the last time
    ls_status (*event_create)(ls_device *device, ls_event **out);
    void (*event_destroy)(ls_event *event);
    ls_status (*event_record)(ls_queue *queue, ls_event *event);  // it happens once all before it is done
    ls_status (*event_wait)(ls_queue *queue,
                            ls_event *event);         // what follows is done after it has happened, if it was recorded
    ls_status (*event_synchronize)(ls_event *event);  // the host waits for it
    ls_status (*write)(ls_queue *queue, ls_span to, const void *from, int64_t bytes);  // from the host
    ls_status (*read)(ls_queue *queue, void *to, ls_span from, int64_t bytes);         // to the host
    ls_status (*copy)(ls_queue *queue, ls_span to, ls_span from, int64_t bytes);
    ls_status (*zero)(ls_queue *queue, ls_span to, int64_t bytes);
} ls_memory_ops;

// A formula that is applied element by element: an optimizer's update, say. Devices of the host call `host`; others have a function
// of their own for each `name` (UNSUPPORTED where there is none).
#define LS_MAX_FORMULA_SPANS 6
#define LS_FORMULA_ARGUMENTS 256  // bytes, at most
typedef struct ls_formula {
    const char *name;
    // x[i] is (n) floats, in the order of the spans. `arguments` are the formula's own.
    void (*host)(const void *arguments, int64_t n, float *const *x);
} ls_formula;

// A formula with its arguments, ready to be applied.
typedef struct ls_formula_call {
    const ls_formula *formula;
    int64_t argument_bytes;
    _Alignas(8) unsigned char arguments[LS_FORMULA_ARGUMENTS];
} ls_formula_call;

// What gradients and weights need where they live. F32 where nothing else is said; n is a multiple of 16 and spans are aligned to 64 bytes, so that which
// elements fall into a vector's tail never depends on how the whole is cut. The bits are the same on all devices.
typedef struct ls_vector_ops {
    ls_status (*add)(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n);  // out = a + b; out may be a
    ls_status (*scale)(ls_queue *queue, ls_span out, ls_span a, float factor,
                       int64_t n);  // out = a * factor; out may be a
    // Sums of what bf16 holds, kept as floats: a and b are rounded to the nearest bf16, ties to even, added, and the sum is rounded so;
    // out may be a.
    ls_status (*add_bf16)(ls_queue *queue, ls_span out, ls_span a, ls_span b, int64_t n);
    // Floats to bf16, rounded the same way, and back, which changes nothing. Not in place.
    ls_status (*pack_bf16)(ls_queue *queue, ls_span out, ls_span a, int64_t n);
    ls_status (*unpack_bf16)(ls_queue *queue, ls_span out, ls_span a, int64_t n);
    // Error feedback: x += rest * scale; then the `keep` largest by magnitude of the n elements stay in x (of equal ones the first), 1 <= keep < n, and
    // the others are zero there. rest becomes what did not stay, times `back`; zero where it stayed, or is no finite number.
    ls_status (*keep_largest)(ls_queue *queue, ls_span x, ls_span rest, float scale, float back, int64_t n,
                              int64_t keep);
    // Sums of squares, in double, of `count` runs of units of LS_VECTOR_ALIGN elements that follow each other: sums[i] of units[i] units.
    // The squares of a unit are summed in a tree (halves of the unit, element by element), then the units in pairs, those sums in
    // pairs, and so on; what has none beside it is as it is. `sums` has room for a double of each unit; `units` is copied.
    ls_status (*sum_squares)(ls_queue *queue, ls_span sums, ls_span x, const int64_t *units, int64_t count);
    // Looks at x for what is no finite number: *found, an int64, becomes 1 + first + its index, where that is less than what is there or that is 0.
    ls_status (*find_not_finite)(ls_queue *queue, ls_span found, ls_span x, int64_t first, int64_t n);
    // x: (count); spans the formula does not use may be empty. The arguments are copied. Errors: UNSUPPORTED.
    ls_status (*apply)(ls_queue *queue, const ls_formula *formula, const void *arguments, int64_t argument_bytes,
                       const ls_span *x, int count, int64_t n);
} ls_vector_ops;

// Multiples of this many floats are where vectors are cut.
#define LS_VECTOR_ALIGN 64

// index: from 0, of the threads that share the work of a kernel.
typedef void (*ls_thread_fn)(void *user, int index);

// The index-th of some pieces of work of which none waits for another.
typedef ls_status (*ls_piece_fn)(void *user, ls_queue *queue, int index);

struct ls_device_ops {
    const char *name;
    const char *help;
    int host_memory;   // 1: its memory is the host's and its queues work at once
    int most_threads;  // that share the work of a kernel; 0: one does it all, whatever is asked for
    const ls_memory_ops *memory;
    const ls_vector_ops *vector;
    ls_status (*create)(const ls_device_options *options, ls_device **out);
    void (*destroy)(ls_device *device);
    // A sentence for records: library, version, instruction set.
    void (*describe)(const ls_device *device, char *text, size_t size);
    // OK, or UNSUPPORTED with a sentence when this machine cannot compute in the type.
    ls_status (*supports)(const ls_device *device, ls_dtype precision);
    // The row-major layout of a shape; is_weights: the shape is a parameter's (HWIO, (in, out)), not an activation's.
    // Errors: OUT_OF_MEMORY.
    ls_status (*layout_plain)(ls_device *device, ls_shape shape, ls_dtype dtype, int is_weights, const ls_layout **out);
    // A kernel for `spec`. Errors: UNSUPPORTED (names the op and shape), OUT_OF_MEMORY, LIBRARY.
    ls_status (*kernel_create)(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
    // Copies X to Y between two layouts of one shape, converting the dtype.
    ls_status (*reorder_create)(ls_device *device, const ls_layout *from, const ls_layout *to, ls_kernel **out);
    // Called by each thread that will run kernels, before its first. `each`, unless NULL, is called in every one of the threads that will
    // share its kernels' work, the calling one included.
    void (*thread_begin)(ls_device *device, ls_thread_fn each, void *user);
    // `count` pieces of work, shared by the threads that share vector functions in this queue, in any order. The failure that came first; what is left may be done after it. NULL: the device
    // has no such threads.
    ls_status (*each)(ls_queue *queue, int count, ls_piece_fn piece, void *user);
    // For `lockstep bench`: the kernel library's fastest implementation for a spec, over all its algorithms and layouts, by
    // measuring them now. What it is compared with must not depend on it. NULL: this device has no library to search.
    ls_status (*fastest)(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
    // For `lockstep bench`: the most that one thread can do, measured now, in about a fifth of a second. NULL: unknown.
    // Errors: OUT_OF_MEMORY.
    ls_status (*limits)(ls_device *device, ls_dtype precision, ls_device_limits *out);
};

// --- devices ---------------------------------------------------------------------------------------------------------

// The index-th device that there is; NULL past the last.
const ls_device_ops *ls_device_ops_at(int index);
const ls_device_ops *ls_device_ops_find(const char *name);  // NULL: there is none of that name
// Creates a device by name ("cpu", "ref"). Errors: NOT_FOUND with the names there are. The caller destroys it, after all
// kernels, plans, buffers and queues made from it.
ls_status ls_device_create(const char *name, const ls_device_options *options, ls_device **out);
void ls_device_destroy(ls_device **device);
// The type a precision computes in: "fp32", "bf16", "fp16". Errors: INVALID_ARGUMENT.
ls_status ls_precision_find(const char *name, ls_dtype *out);
ls_status ls_kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out);
void ls_kernel_destroy(ls_kernel **kernel);

// --- memory ----------------------------------------------------------------------------------------------------------

ls_status ls_buffer_create(ls_device *device, int64_t bytes, ls_buffer **out);
ls_status ls_buffer_wrap(ls_device *device, void *memory, int64_t bytes,
                         ls_buffer **out);   // UNSUPPORTED: not the host's memory
void ls_buffer_destroy(ls_buffer **buffer);  // NULL is fine
ls_status ls_queue_create(ls_device *device, ls_queue **out);
void ls_queue_destroy(ls_queue **queue);
ls_status ls_event_create(ls_device *device, ls_event **out);
void ls_event_destroy(ls_event **event);

static inline ls_span ls_span_of(ls_buffer *buffer, int64_t offset) { return (ls_span){buffer, offset}; }
static inline ls_span ls_span_at(ls_span span, int64_t bytes) { return (ls_span){span.buffer, span.offset + bytes}; }
// Where a span lies in the host's memory; for code of devices whose memory is the host's, and whoever asked host_memory.
static inline void *ls_span_host(ls_span span) {
    return span.buffer ? (char *)span.buffer->memory + span.offset : (void *)0;
}

// How many threads share vector functions and ls_each in the queue of a thread that has begun (thread_begin).
static inline int ls__vector_threads(const ls_device *device) {
    return device->ops->most_threads ? device->options.threads : 1;
}

static inline const ls_memory_ops *ls__memory(const ls_queue *queue) { return queue->device->ops->memory; }
static inline const ls_vector_ops *ls__vector(const ls_queue *queue) { return queue->device->ops->vector; }

static inline ls_status ls_synchronize(ls_queue *queue) { return ls__memory(queue)->synchronize(queue); }
static inline ls_status ls_write(ls_queue *queue, ls_span to, const void *from, int64_t bytes) {
    return ls__memory(queue)->write(queue, to, from, bytes);
}
static inline ls_status ls_read(ls_queue *queue, void *to, ls_span from, int64_t bytes) {
    return ls__memory(queue)->read(queue, to, from, bytes);
}
static inline ls_status ls_copy(ls_queue *queue, ls_span to, ls_span from, int64_t bytes) {
    return ls__memory(queue)->copy(queue, to, from, bytes);
}
static inline ls_status ls_event_record(ls_queue *queue, ls_event *event) {
    return ls__memory(queue)->event_record(queue, event);
}
static inline ls_status ls_event_wait(ls_queue *queue, ls_event *event) {
    return ls__memory(queue)->event_wait(queue, event);
}
static inline ls_status ls_event_synchronize(ls_event *event) {
    return event->device->ops->memory->event_synchronize(event);
}
static inline ls_status ls_apply(ls_queue *queue, const ls_formula_call *call, const ls_span *x, int count, int64_t n) {
    return ls__vector(queue)->apply(queue, call->formula, call->arguments, call->argument_bytes, x, count, n);
}
// Pieces of work that take one thread each, side by side where the queue's thread has others (ops->each), else one after the other.
ls_status ls_each(ls_queue *queue, int count, ls_piece_fn piece, void *user);
static inline ls_status ls_kernel_run(ls_kernel *kernel, ls_queue *queue, const ls_span args[LS_ARG_COUNT]) {
    return kernel->ops->run(kernel, queue, args);
}

#endif
