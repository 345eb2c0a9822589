// The list of devices, and the wrappers that check arguments once before a device sees them.
#include "device/device.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

// Every device: one line each.
#define LS_DEVICES(X)                                                                                                  \
    X(cpu)                                                                                                             \
    X(ref)

#define X(name) extern const ls_device_ops ls_device_##name;
LS_DEVICES(X)
#undef X

// Devices that a program brings along: an array of them, NULL at its end. The tests do; no such symbol: none.
extern const ls_device_ops *const ls__program_devices[] __attribute__((weak));

static const ls_device_ops *const devices[] = {
#define X(name) &ls_device_##name,
    LS_DEVICES(X)
#undef X
};
enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

const ls_device_ops *ls_device_ops_at(int index) {
    if (index < DEVICE_COUNT) return devices[index];
    return ls__program_devices ? ls__program_devices[index - DEVICE_COUNT] : NULL;
}

const char *ls_op_name(ls_op_kind kind) {
    static const char *const names[] = {
#define X(kind, name) #name,
        LS_OP_LIST(X)
#undef X
    };
    return names[kind];
}

const ls_device_ops *ls_device_ops_find(const char *name) {
    for (int i = 0; ls_device_ops_at(i); i++)
        if (strcmp(ls_device_ops_at(i)->name, name) == 0) return ls_device_ops_at(i);
    return NULL;
}

ls_status ls_device_create(const char *name, const ls_device_options *options, ls_device **out) {
    *out = NULL;
    if (!name) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a device was asked for without its name");
    if (options && options->threads < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "device %s: it cannot use %d threads", name, options->threads);
    ls_device_options used = options ? *options : (ls_device_options){0};
    if (used.threads == 0) used.threads = 1;
    char names[256] = "";
    size_t length = 0;
    for (int i = 0; ls_device_ops_at(i); i++) {
        if (strcmp(ls_device_ops_at(i)->name, name) == 0) {
            LS_TRY(ls_device_ops_at(i)->create(&used, out));
            (*out)->ops = ls_device_ops_at(i);
            (*out)->options = used;
            return LS_OK;
        }
        if (length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "",
                                       ls_device_ops_at(i)->name);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no device named \"%s\"; the devices are %s", name, names);
}

void ls_device_destroy(ls_device **device) {
    if (*device) (*device)->ops->destroy(*device);
    *device = NULL;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

// Of at least so many dimensions: a parameter may be a single number, all else has the batch.
static int shapes_ok(const ls_tensor_type *t, int count, int least) {
    for (int i = 0; i < count; i++) {
        if (t[i].shape.ndim < least || t[i].shape.ndim > LS_MAX_DIMS) return 0;
        for (int d = 0; d < t[i].shape.ndim; d++)
            if (t[i].shape.dim[d] < 1) return 0;
    }
    return 1;
}

ls_status ls_precision_find(const char *name, ls_dtype *out) {
    static const ls_dtype precisions[] = {LS_DTYPE_F32, LS_DTYPE_BF16, LS_DTYPE_F16};
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (strcmp(name, ls_dtype_name(precisions[i])) == 0) {
            *out = precisions[i];
            return LS_OK;
        }
    *out = LS_DTYPE_F32;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown precision '%s': there are fp32, bf16 and fp16", name);
}

ls_status ls_kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    *out = NULL;
    if (spec->op <= LS_OP_INPUT || spec->op >= LS_OP_COUNT)
        return LS_FAIL(LS_STATUS_INTERNAL, "a kernel was asked for operation %d, which computes nothing", spec->op);
    if (spec->x_count < 1 || spec->x_count > LS_MAX_INPUTS || spec->y_count < 1 || spec->y_count > LS_MAX_OUTPUTS ||
        spec->w_count > LS_MAX_PARAMS || !shapes_ok(spec->x, spec->x_count, 1) ||
        !shapes_ok(spec->w, spec->w_count, 0) || !shapes_ok(spec->y, spec->y_count, 1))
        return LS_FAIL(LS_STATUS_INTERNAL, "a %s kernel was asked for shapes it cannot have", ls_op_name(spec->op));
    LS_TRY(device->ops->kernel_create(device, spec, out));
    if ((*out)->tiles < 1) (*out)->tiles = 1;
    return LS_OK;
}

void ls_kernel_destroy(ls_kernel **kernel) {
    if (*kernel) (*kernel)->ops->destroy(*kernel);
    *kernel = NULL;
}

ls_status ls_each(ls_queue *queue, int count, ls_piece_fn piece, void *user) {
    if (queue->threads > 1 && count > 1 && queue->device->ops->each)
        return queue->device->ops->each(queue, count, piece, user);
    for (int i = 0; i < count; i++) LS_TRY(piece(user, queue, i));
    return LS_OK;
}

// --- memory ----------------------------------------------------------------------------------------------------------

ls_status ls_buffer_create(ls_device *device, int64_t bytes, ls_buffer **out) {
    *out = NULL;
    LS_TRY(device->ops->memory->buffer_create(device, bytes, out));
    return LS_OK;
}

ls_status ls_buffer_wrap(ls_device *device, void *memory, int64_t bytes, ls_buffer **out) {
    *out = NULL;
    if (!device->ops->memory->buffer_wrap)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "device %s does not work on the host's memory", device->ops->name);
    LS_TRY(device->ops->memory->buffer_wrap(device, memory, bytes, out));
    return LS_OK;
}

void ls_buffer_destroy(ls_buffer **buffer) {
    if (*buffer) (*buffer)->device->ops->memory->buffer_destroy(*buffer);
    *buffer = NULL;
}

ls_status ls_queue_create(ls_device *device, ls_queue **out) {
    *out = NULL;
    LS_TRY(device->ops->memory->queue_create(device, out));
    return LS_OK;
}

void ls_queue_destroy(ls_queue **queue) {
    if (*queue) (*queue)->device->ops->memory->queue_destroy(*queue);
    *queue = NULL;
}

ls_status ls_event_create(ls_device *device, ls_event **out) {
    *out = NULL;
    LS_TRY(device->ops->memory->event_create(device, out));
    return LS_OK;
}

void ls_event_destroy(ls_event **event) {
    if (*event) (*event)->device->ops->memory->event_destroy(*event);
    *event = NULL;
}
