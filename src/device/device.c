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

static const ls_device_ops *const devices[] = {
#define X(name) &ls_device_##name,
    LS_DEVICES(X)
#undef X
};
enum { DEVICE_COUNT = sizeof devices / sizeof devices[0] };

ls_status ls_device_create(const char *name, const ls_device_options *options, ls_device **out) {
    *out = NULL;
    if (!name) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a device was asked for without its name");
    if (options && options->threads < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "device %s: it cannot use %d threads", name, options->threads);
    ls_device_options used = options ? *options : (ls_device_options){0};
    if (used.threads == 0) used.threads = 1;
    for (int i = 0; i < DEVICE_COUNT; i++) {
        if (strcmp(devices[i]->name, name) != 0) continue;
        LS_TRY(devices[i]->create(&used, out));
        (*out)->ops = devices[i];
        (*out)->options = used;
        return LS_OK;
    }
    char names[128] = "";
    size_t length = 0;
    for (int i = 0; i < DEVICE_COUNT && length < sizeof names; i++)
        length += (size_t)snprintf(names + length, sizeof names - length, "%s%s", i ? ", " : "", devices[i]->name);
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no device named \"%s\"; the devices are %s", name, names);
}

void ls_device_destroy(ls_device **device) {
    if (*device) (*device)->ops->destroy(*device);
    *device = NULL;
}

static int has_weights(ls_op_kind op) { return op == LS_OP_CONV2D || op == LS_OP_DENSE; }

static int shape_ok(ls_shape shape, int ndim) {
    if (ndim ? shape.ndim != ndim : shape.ndim < 1 || shape.ndim > LS_MAX_DIMS) return 0;
    for (int i = 0; i < shape.ndim; i++)
        if (shape.dim[i] < 1) return 0;
    return 1;
}

static ls_status check_spec(const ls_kernel_spec *s) {
    if (s->op <= LS_OP_INPUT || s->op >= LS_OP_COUNT)
        return LS_FAIL(LS_STATUS_INTERNAL, "a kernel was asked for operation %d, which computes nothing", s->op);
    const char *name = ls_op_class(s->op);
    int images = s->op == LS_OP_CONV2D || s->op == LS_OP_ZERO_PAD2D ||
                 (s->op >= LS_OP_MAX_POOL2D && s->op <= LS_OP_GLOBAL_AVERAGE_POOL2D);
    int vectors = s->op == LS_OP_DENSE || s->op == LS_OP_SOFTMAX_CROSS_ENTROPY;
    int same = s->op == LS_OP_BATCH_NORM || s->op == LS_OP_ADD;
    if (!shape_ok(s->x, images    ? 4
                        : vectors ? 2
                                  : 0) ||
        !shape_ok(s->y, 0) || s->x.dim[0] != s->y.dim[0] || (same && !ls_shape_equal(s->x, s->y)))
        return LS_FAIL(LS_STATUS_INTERNAL, "a %s kernel was asked for shapes it cannot have", name);
    if ((s->residual && s->op != LS_OP_CONV2D && s->op != LS_OP_BATCH_NORM) || (s->addend && s->op != LS_OP_BATCH_NORM))
        return LS_FAIL(LS_STATUS_INTERNAL, "a %s kernel was asked to add what it cannot add", name);
    if (s->pass == LS_PASS_BACKWARD_DATA && s->op == LS_OP_ADD)
        return LS_FAIL(LS_STATUS_INTERNAL, "an %s has no backward kernel: its inputs share its output's gradient",
                       name);
    if (s->pass == LS_PASS_BACKWARD_WEIGHTS && !has_weights(s->op))
        return LS_FAIL(LS_STATUS_INTERNAL, "a %s has no weights to compute gradients of", name);
    return LS_OK;
}

// Multiply-adds counted twice; the same for each pass.
static double spec_flops(const ls_kernel_spec *s) {
    double outputs = (double)ls_shape_count(s->y);
    if (s->op == LS_OP_CONV2D) return 2 * outputs * s->attrs.kernel[0] * s->attrs.kernel[1] * (double)s->x.dim[3];
    if (s->op == LS_OP_DENSE) return 2 * outputs * (double)s->x.dim[1];
    return 0;
}

ls_status ls_kernel_create(ls_device *device, const ls_kernel_spec *spec, ls_kernel **out) {
    *out = NULL;
    LS_TRY(check_spec(spec));
    LS_TRY(device->ops->kernel_create(device, spec, out));
    (*out)->flops = spec_flops(spec);
    return LS_OK;
}

void ls_kernel_destroy(ls_kernel **kernel) {
    if (*kernel) (*kernel)->ops->destroy(*kernel);
    *kernel = NULL;
}
