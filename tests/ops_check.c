#include "ops_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/fp16.h"
#include "base/memory.h"
#include "base/philox.h"
#include "device/cpu/cpu.h"

ls_device *cpu, *ref, *more;
int runs[LS_OP_COUNT][DTYPES], skips[LS_OP_COUNT][DTYPES];
double worst[LS_OP_COUNT][DTYPES];

int ops_setup(void **state) {
    if (ls_device_create("cpu", &(ls_device_options){.threads = 3}, &more) != LS_OK) return 1;
    if (ls_device_create("cpu", &(ls_device_options){.threads = 1}, &cpu) != LS_OK) return 1;
    cpu->ops->thread_begin(cpu, NULL, NULL);
    return ls_device_create("ref", NULL, &ref) != LS_OK;
}

int ops_teardown(void **state) {
    ls_device_destroy(&cpu);
    ls_device_destroy(&more);
    ls_device_destroy(&ref);
    return 0;
}

// --- values ----------------------------------------------------------------------------------------------------------

static uint32_t draws;
uint32_t draw(void) { return ls_philox(2024, draws++, 0, 0, 0).v[0]; }
int pick(const int *from, int count) { return from[draw() % (uint32_t)count]; }

static double *new_values(int64_t count, kind k) {
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) {
        float v = 2 * ls_uniform(draw()) - 1;
        if (k == FEW) v = floorf(v * 3) / 4;
        if (k == NOT_NEGATIVE && v < 0) v = 0;
        if (k == FAR) v = 20 + v;
        values[i] = (double)ls_fp16_to_float(ls_float_to_fp16(ls_bf16_to_float(ls_float_to_bf16(v))));
    }
    return values;
}

static double *new_whole_numbers(int64_t count, int below) {
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++) values[i] = draw() % (uint32_t)below;
    return values;
}

int each_dtype(ls_dtype *dtypes) {
    int count = 1;
    dtypes[0] = LS_DTYPE_F32;
    if (cpu->ops->supports(cpu, LS_DTYPE_F16) == LS_OK) dtypes[count++] = LS_DTYPE_F16;
    if (cpu->ops->supports(cpu, LS_DTYPE_BF16) == LS_OK) dtypes[count++] = LS_DTYPE_BF16;
    return count;
}

// --- layouts ---------------------------------------------------------------------------------------------------------

// How the outputs of convolutions lie.
static const ls_layout *conv_output_layout(ls_device *d, ls_shape shape, ls_dtype dtype) {
    int volume = shape.ndim == 5;
    ls_conv2d_attrs images = {.filters = (int)shape.dim[3], .kernel = {1, 1}};
    ls_conv3d_attrs volumes = {.filters = (int)shape.dim[4], .kernel = {1, 1, 1}};
    op_case c = {.op = volume ? LS_OP_CONV3D : LS_OP_CONV2D,
                 .batch = shape.dim[0],
                 .x = {{.shape = LS_SHAPE(shape.dim[1], shape.dim[2], 16)}},
                 .attrs = volume ? (const void *)&volumes : &images};
    if (volume) c.x[0].shape = LS_SHAPE(shape.dim[1], shape.dim[2], shape.dim[3], 16);
    op_spec spec = op_spec_of(&c, dtype);
    ls_kernel *k;
    assert_int_equal(ls_kernel_create(d, &spec.kernel, &k), LS_OK);
    const ls_layout *layout = k->layout[LS_ARG_Y];
    ls_kernel_destroy(&k);
    return layout;
}

static const ls_layout *layout_of(ls_device *d, lie l, ls_tensor_type x) {
    const ls_layout *layout = NULL;
    ls_status status = LS_OK;
    switch (l) {
    case AS_LIKED: break;
    case PLAIN: status = d->ops->layout_plain(d, x.shape, x.dtype, 0, &layout); break;
    case AS_OF_CONV: layout = conv_output_layout(d, x.shape, x.dtype); break;
    case BLOCKS_OF_16:
    case BLOCKS_OF_8: {
        dnnl_format_tag_t tag = ls__cpu_blocked_tag(x.shape.ndim, l == BLOCKS_OF_16 ? 16 : 8);
        status = ls__cpu_layout_tag((ls_cpu *)d, x.shape, x.dtype, 0, tag, &layout);
        break;
    }
    }
    assert_int_equal(status, LS_OK);
    return layout;
}

static int is_parameter(int arg) {
    return (arg >= LS_ARG_W && arg < LS_ARG_Y) || (arg >= LS_ARG_DW && arg < LS_ARG_DY);
}

static const ls_layout *plain(ls_device *d, const ls_layout *like, int arg) {
    const ls_layout *layout;
    int is_weights = is_parameter(arg) && like->shape.ndim > 1;
    assert_int_equal(d->ops->layout_plain(d, like->shape, LS_DTYPE_F32, is_weights, &layout), LS_OK);
    return layout;
}

// --- memory ----------------------------------------------------------------------------------------------------------

static ls_span new_poisoned(ls_device *d, int64_t bytes) {
    ls_buffer *b;
    assert_int_equal(ls_buffer_create(d, bytes + 1, &b), LS_OK);
    memset(b->memory, 0xFF, (size_t)bytes);  // NaN in every dtype
    return ls_span_of(b, 0);
}

static void convert(ls_device *d, const ls_layout *from, ls_span x, const ls_layout *to, ls_span y) {
    ls_kernel *k;
    if (from == to) {
        memcpy(ls_span_host(y), ls_span_host(x), (size_t)from->bytes);
        return;
    }
    assert_int_equal(d->ops->reorder_create(d, from, to, &k), LS_OK);
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = x, [LS_ARG_Y] = y, [LS_ARG_SCRATCH] = new_poisoned(d, k->scratch_bytes)};
    ls_queue *queue;
    assert_int_equal(ls_queue_create(d, &queue), LS_OK);
    assert_int_equal(ls_kernel_run(k, queue, args), LS_OK);
    ls_queue_destroy(&queue);
    ls_buffer_destroy(&args[LS_ARG_SCRATCH].buffer);
    ls_kernel_destroy(&k);
}

static int is_floating(ls_dtype dtype) {
    return dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_BF16 || dtype == LS_DTYPE_F16;
}

// Of halves row by row, which a library without fp16 does not convert.
static int are_plain_halves(const ls_layout *layout) { return layout->dtype == LS_DTYPE_F16 && layout->plain; }

// Plain values into memory that lies as `layout` says. Whole numbers and doubles are never laid out in another way.
static void put(ls_device *d, int arg, const double *values, const ls_layout *layout, ls_span to) {
    int64_t count = ls_shape_count(layout->shape);
    if (!is_floating(layout->dtype)) {
        assert_int_equal(layout->dtype, LS_DTYPE_I32);
        for (int64_t i = 0; i < count; i++) ((int32_t *)ls_span_host(to))[i] = (int32_t)values[i];
        return;
    }
    if (are_plain_halves(layout)) {
        for (int64_t i = 0; i < count; i++) ((ls_fp16 *)ls_span_host(to))[i] = ls_float_to_fp16((float)values[i]);
        return;
    }
    const ls_layout *from = plain(d, layout, arg);
    ls_span staged = new_poisoned(d, from->bytes);
    for (int64_t i = 0; i < count; i++) ((float *)ls_span_host(staged))[i] = (float)values[i];
    convert(d, from, staged, layout, to);
    ls_buffer_destroy(&staged.buffer);
}

// And back; what the layout adds must be zero.
static double *get(ls_device *d, const ls_kernel *k, const ls_kernel_spec *spec, int arg, ls_span found) {
    const ls_layout *layout = k->layout[arg];
    int64_t count = ls_shape_count(layout->shape);
    double *values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    if (layout->dtype == LS_DTYPE_F64) {
        memcpy(values, ls_span_host(found), (size_t)count * sizeof *values);
        return values;
    }
    if (!is_floating(layout->dtype)) {
        assert_int_equal(layout->dtype, LS_DTYPE_I32);
        for (int64_t i = 0; i < count; i++) values[i] = ((int32_t *)ls_span_host(found))[i];
        return values;
    }
    if (are_plain_halves(layout)) {
        for (int64_t i = 0; i < count; i++) values[i] = ls_fp16_to_float(((const ls_fp16 *)ls_span_host(found))[i]);
        return values;
    }
    const ls_layout *to = plain(d, layout, arg);
    ls_span staged = new_poisoned(d, to->bytes), again = new_poisoned(d, layout->bytes);
    convert(d, layout, found, to, staged);
    for (int64_t i = 0; i < count; i++) values[i] = (double)((float *)ls_span_host(staged))[i];
    convert(d, to, staged, layout, again);
    if (memcmp(ls_span_host(again), ls_span_host(found), (size_t)layout->bytes) != 0)
        fail_msg("%s: %s of %s leaves something in the padding of argument %d", d->ops->name, k->name,
                 op_describe(spec), arg);
    ls_buffer_destroy(&staged.buffer);
    ls_buffer_destroy(&again.buffer);
    return values;
}

// --- running a pass --------------------------------------------------------------------------------------------------

// One device's side of a case: plain values of every output, (logical shape).
typedef struct side {
    ls_device *device;
    double *value[LS_ARG_COUNT];
    int64_t count[LS_ARG_COUNT];
    const ls_layout *layout[LS_ARG_COUNT];  // forward's
    ls_span workspace;
    int64_t tiles;  // of the latest kernel
} side;

typedef struct inputs {
    double *value[LS_ARG_COUNT];
    ls_random_key *key;
    int64_t key_bytes;
} inputs;

static int is_output(ls_pass pass, int arg) {
    if (arg >= LS_ARG_Y && arg < LS_ARG_DX) return pass == LS_PASS_TRAINING || pass == LS_PASS_INFERENCE;
    return (arg >= LS_ARG_DX && arg < LS_ARG_DY) || arg == LS_ARG_DRESIDUAL;
}

static void run_kernel(ls_kernel *k, ls_device *d, ls_span args[LS_ARG_COUNT]) {
    ls_queue *queue;
    assert_int_equal(ls_queue_create(d, &queue), LS_OK);
    if (ls_kernel_run(k, queue, args) != LS_OK || ls_synchronize(queue) != LS_OK)
        fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
    ls_queue_destroy(&queue);
}

// Memory for every tensor of the kernel, inputs in their layouts.
static void args_create(const side *s, const ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                        ls_span args[LS_ARG_COUNT]) {
    ls_device *d = s->device;
    args[LS_ARG_RANDOM] = new_poisoned(d, in->key_bytes);
    memcpy(ls_span_host(args[LS_ARG_RANDOM]), in->key, (size_t)in->key_bytes);
    if (spec->pass != LS_PASS_INFERENCE) args[LS_ARG_WORKSPACE] = s->workspace;
    args[LS_ARG_SCRATCH] = new_poisoned(d, k->scratch_bytes);
    for (int i = 0; i < LS_ARG_WORKSPACE; i++) {
        const ls_layout *layout = k->layout[i];
        if (!layout) continue;
        args[i] = new_poisoned(d, layout->bytes);
        if (is_output(spec->pass, i)) continue;
        if (!in->value[i]) fail_msg("%s: %s reads argument %d", d->ops->name, op_describe(spec), i);
        put(d, i, in->value[i], layout, args[i]);
    }
}

static void args_free(const ls_kernel *k, ls_span args[LS_ARG_COUNT]) {
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (i != LS_ARG_WORKSPACE) ls_buffer_destroy(&args[i].buffer);
}

// Runs it again with outputs in the memory of inputs; `expected` is what it computed without. `chosen` says which of its
// offers is taken.
static void run_in_place(side *s, ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                         const ls_span expected[LS_ARG_COUNT], unsigned chosen) {
    ls_span args[LS_ARG_COUNT] = {0}, own[LS_ARG_COUNT] = {0};
    args_create(s, k, spec, in, args);
    for (int i = 0; i < k->in_place_count; i++) {
        ls_arg output = k->in_place[i].output, input = k->in_place[i].input;
        if (!(chosen >> i & 1)) continue;
        assert_true(is_output(spec->pass, (int)output) && !is_output(spec->pass, (int)input));
        assert_ptr_equal(k->layout[output], k->layout[input]);
        own[output] = args[output];
        args[output] = args[input];
    }
    run_kernel(k, s->device, args);
    for (int i = 0; i < LS_ARG_WORKSPACE; i++)
        if (k->layout[i] && is_output(spec->pass, i) &&
            memcmp(ls_span_host(args[i]), ls_span_host(expected[i]), (size_t)k->layout[i]->bytes) != 0)
            fail_msg("%s %s: argument %d has other bits with outputs in place (%u)", s->device->ops->name, k->name, i,
                     chosen);
    for (int i = 0; i < LS_ARG_COUNT; i++)
        if (own[i].buffer) args[i] = own[i];
    args_free(k, args);
}

// Each offer alone, and any two for different outputs and inputs.
static void check_in_place(side *s, ls_kernel *k, const ls_kernel_spec *spec, const inputs *in,
                           const ls_span expected[LS_ARG_COUNT]) {
    const ls_in_place *offer = k->in_place;
    for (int i = 0; i < k->in_place_count; i++)
        for (int j = i; j < k->in_place_count; j++)
            if (i == j || (offer[i].output != offer[j].output && offer[i].input != offer[j].input))
                run_in_place(s, k, spec, in, expected, 1u << i | 1u << j);
}

// Creates the kernel, feeds it, runs it, takes its outputs back. UNSUPPORTED is passed on, anything else is a failure.
static ls_status run_pass(side *s, const ls_kernel_spec *spec, const inputs *in) {
    ls_device *d = s->device;
    ls_kernel *k;
    ls_status status = ls_kernel_create(d, spec, &k);
    if (status == LS_STATUS_UNSUPPORTED) return status;
    if (status != LS_OK) fail_msg("%s: %s (%s)", d->ops->name, ls_error_message(), ls_error_trace());
    if (spec->pass == LS_PASS_TRAINING) {
        memcpy(s->layout, k->layout, sizeof s->layout);
        s->workspace = new_poisoned(d, k->workspace_bytes);
    }
    s->tiles = k->tiles;
    ls_span args[LS_ARG_COUNT] = {0};
    args_create(s, k, spec, in, args);
    run_kernel(k, d, args);
    for (int i = 0; i < LS_ARG_WORKSPACE; i++) {
        if (!k->layout[i] || !is_output(spec->pass, i)) continue;
        free(s->value[i]);
        s->count[i] = ls_shape_count(k->layout[i]->shape);
        s->value[i] = get(d, k, spec, i, args[i]);
    }
    check_in_place(s, k, spec, in, args);
    args_free(k, args);
    ls_kernel_destroy(&k);
    return LS_OK;
}

// --- comparing -------------------------------------------------------------------------------------------------------

// Arithmetic that the device may leave to a library.
static int is_arithmetic(const ls_kernel_spec *spec) { return ls__op_find(spec->op)->flops != NULL; }

// The case says how far from the reference fp32 may be, as a share of the tensor's largest magnitude. Of anything computed and
// stored in bf16, 2^-7 of the element is on top, in fp16 2^-10: numbers a rounding apart are neighbours; arithmetic with a residual may round
// before and after adding it: as much of the largest, too.
typedef struct tolerance {
    double of_element, of_largest;
} tolerance;

// The narrow type it computes in; F32: none.
static ls_dtype narrow_of(const ls_kernel_spec *spec) {
    ls_dtype x = spec->x[0].gradient, y = spec->y[0].gradient;
    return x == LS_DTYPE_BF16 || x == LS_DTYPE_F16 ? x : y == LS_DTYPE_BF16 || y == LS_DTYPE_F16 ? y : LS_DTYPE_F32;
}

static int column_of(ls_dtype dtype) { return dtype == LS_DTYPE_BF16 ? 1 : dtype == LS_DTYPE_F16 ? 2 : 0; }

static tolerance tolerance_of(const op_case *c, const ls_kernel_spec *spec, int arg) {
    int forward = arg >= LS_ARG_Y && arg < LS_ARG_DX, dx = arg >= LS_ARG_DX && arg < LS_ARG_DW;
    tolerance t = {0, forward ? c->forward : c->backward};
    ls_dtype stored = forward ? spec->y[arg - LS_ARG_Y].dtype : dx ? spec->x[arg - LS_ARG_DX].gradient : LS_DTYPE_F32;
    if (arg == LS_ARG_DRESIDUAL) return (tolerance){0, 0};
    double step = narrow_of(spec) == LS_DTYPE_F16 ? 0x1p-10 : 0x1p-7;
    int narrow = stored == LS_DTYPE_BF16 || stored == LS_DTYPE_F16;
    if (c->rounds_between && narrow_of(spec) != LS_DTYPE_F32) t.of_largest = c->rounds_between * step;
    if (narrow && t.of_largest > 0) t.of_element = step;
    if (narrow && is_arithmetic(spec) && spec->residual && forward) t.of_largest = fmax(t.of_largest, step / 2);
    if (stored == LS_DTYPE_F16 && t.of_largest > 0) t.of_largest += 0x1p-24;  // below 2^-14 steps are as large
    return t;
}

static void compare(const op_case *c, const ls_kernel_spec *spec, int arg, const double *expected, const double *found,
                    int64_t count) {
    tolerance t = tolerance_of(c, spec, arg);
    double largest = c->terms, *most = &worst[c->op][column_of(narrow_of(spec))];
    for (int64_t i = 0; i < count; i++)
        if (isfinite(expected[i])) largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < count; i++) {
        if (isinf(expected[i]) && found[i] == expected[i]) continue;  // too large for fp16
        double allowed = t.of_element * fabs(expected[i]) + t.of_largest * largest,
               error = fabs(found[i] - expected[i]);
        if (!(error <= allowed))
            fail_msg("%s: argument %d, element %lld is %.9g, the reference says %.9g (allowed: %.3g off)",
                     op_describe(spec), arg, (long long)i, found[i], expected[i], allowed);
        if (allowed > 0) *most = fmax(*most, error / allowed);
    }
}

static void compare_pass(const op_case *c, const ls_kernel_spec *spec, const side *r, const side *other) {
    for (int arg = 0; arg < LS_ARG_COUNT; arg++) {
        if (!r->value[arg] != !other->value[arg])
            fail_msg("%s: argument %d is written by one device only", op_describe(spec), arg);
        if (!r->value[arg]) continue;
        assert_int_equal(r->count[arg], other->count[arg]);
        compare(c, spec, arg, r->value[arg], other->value[arg], r->count[arg]);
    }
}

static void compare_bits(const ls_kernel_spec *spec, const side *one, const side *other) {
    for (int arg = 0; arg < LS_ARG_COUNT; arg++)
        if (one->value[arg] &&
            memcmp(one->value[arg], other->value[arg], (size_t)one->count[arg] * sizeof(double)) != 0)
            fail_msg("%s: argument %d has other bits with three threads", op_describe(spec), arg);
}

// --- a case ----------------------------------------------------------------------------------------------------------

typedef struct sides {
    side ref, cpu, more;
    lie x_lie;
} sides;

static void clear_values(side *s) {
    for (int i = 0; i < LS_ARG_COUNT; i++) {
        free(s->value[i]);
        s->value[i] = NULL;
    }
}

// Tells a kernel the layouts a plan would.
static ls_status run_in_layouts(side *s, ls_kernel_spec spec, lie x_lie, const inputs *in) {
    int forward = spec.pass == LS_PASS_TRAINING || spec.pass == LS_PASS_INFERENCE;
    if (forward) spec.layout[LS_ARG_X] = layout_of(s->device, x_lie, spec.x[0]);
    for (int k = 0; k < spec.x_count && !forward; k++) {
        if (spec.pass != LS_PASS_BACKWARD_WEIGHTS && spec.x[k].dtype == spec.x[k].gradient)
            spec.layout[LS_ARG_DX + k] = s->layout[LS_ARG_X + k];
        if (spec.pass != LS_PASS_BACKWARD_DATA) spec.layout[LS_ARG_X + k] = s->layout[LS_ARG_X + k];
    }
    for (int k = 0; k < spec.y_count && !forward; k++)
        if (spec.y[k].dtype == spec.y[k].gradient) spec.layout[LS_ARG_DY + k] = s->layout[LS_ARG_Y + k];
    return run_pass(s, &spec, in);
}

// Runs one pass on all devices and compares. Returns 0 when the device does not support it.
static int check_pass(const op_case *c, ls_kernel_spec spec, ls_pass pass, sides *s, inputs *in) {
    spec.pass = pass;
    spec.addend = pass == LS_PASS_BACKWARD && c->addend;
    if (run_in_layouts(&s->cpu, spec, s->x_lie, in) != LS_OK) return 0;
    assert_int_equal(run_pass(&s->ref, &spec, in), LS_OK);
    compare_pass(c, &spec, &s->ref, &s->cpu);
    assert_int_equal(run_in_layouts(&s->more, spec, s->x_lie, in), LS_OK);
    compare_bits(&spec, &s->cpu, &s->more);
    for (int k = 0; k < spec.y_count && pass == LS_PASS_TRAINING; k++) {  // backward may read it
        in->value[LS_ARG_Y + k] = s->ref.value[LS_ARG_Y + k];
        s->ref.value[LS_ARG_Y + k] = NULL;
    }
    clear_values(&s->ref), clear_values(&s->cpu), clear_values(&s->more);
    return 1;
}

static void draw_values(const op_case *c, const op_spec *spec, inputs *in) {
    const ls_kernel_spec *s = &spec->kernel;
    for (int k = 0; k < s->x_count; k++) {
        int64_t count = ls_shape_count(s->x[k].shape);
        kind values = k > 0 ? SMOOTH : s->mask_dx ? NOT_NEGATIVE : c->values;
        in->value[LS_ARG_X + k] =
            is_floating(s->x[k].dtype) ? new_values(count, values) : new_whole_numbers(count, spec->below);
    }
    for (int k = 0; k < s->w_count; k++) {
        int64_t count = ls_shape_count(s->w[k].shape);
        in->value[LS_ARG_W + k] = new_values(count, spec->w_values[k]);
        for (int64_t i = 0; i < count && c->w_times != 0; i++) in->value[LS_ARG_W + k][i] *= c->w_times;
    }
    for (int k = 0; k < s->y_count; k++) in->value[LS_ARG_DY + k] = new_values(ls_shape_count(s->y[k].shape), SMOOTH);
    if (s->residual) in->value[LS_ARG_RESIDUAL] = new_values(ls_shape_count(s->y[0].shape), SMOOTH);
    if (c->addend) in->value[LS_ARG_ADDEND] = new_values(ls_shape_count(s->x[0].shape), SMOOTH);
    in->key_bytes = (int64_t)sizeof *in->key + s->x[0].shape.dim[0] * (int64_t)sizeof(uint64_t);
    in->key = malloc((size_t)in->key_bytes);
    assert_non_null(in->key);
    in->key->seed = 3, in->key->epoch = 2;
    for (int64_t i = 0; i < s->x[0].shape.dim[0]; i++) in->key->samples[i] = draw() % 60000;
}

static void check_one(const op_case *c, ls_dtype dtype, lie x_lie) {
    op_spec spec = op_spec_of(c, dtype);
    sides s = {.ref = {.device = ref}, .cpu = {.device = cpu}, .more = {.device = more}, .x_lie = x_lie};
    inputs in = {0};
    ls_pass passes[3];
    int count = op_backward_passes(&spec.kernel, passes), column = column_of(narrow_of(&spec.kernel));
    draw_values(c, &spec, &in);
    int supported =
        check_pass(c, spec.kernel, LS_PASS_TRAINING, &s, &in) && check_pass(c, spec.kernel, LS_PASS_INFERENCE, &s, &in);
    for (int i = 0; i < count && supported; i++) supported = check_pass(c, spec.kernel, passes[i], &s, &in);
    if (supported)
        runs[c->op][column]++;
    else if (!skips[c->op][column]++ && column < 2)
        print_message("not supported: %s: %s\n", op_describe(&spec.kernel), ls_error_message());
    for (int i = 0; i < LS_ARG_COUNT; i++) free(in.value[i]);
    free(in.key);
    ls_buffer_destroy(&s.ref.workspace.buffer);
    ls_buffer_destroy(&s.cpu.workspace.buffer);
    ls_buffer_destroy(&s.more.workspace.buffer);
}

// Where the library has no fp16, the device's own loops do all the same; what is the library's is passed over.
static void check_loops_of_halves(const op_case *c) {
    if (cpu->ops->supports(cpu, LS_DTYPE_F16) != LS_OK) check_one(c, LS_DTYPE_F16, PLAIN);
}

void check(op_case c) {
    ls_dtype dtypes[DTYPES];
    int count = each_dtype(dtypes);
    for (int d = 0; d < count; d++) check_one(&c, dtypes[d], AS_LIKED);
    check_loops_of_halves(&c);
}

void check_layouts(op_case c) {
    ls_dtype dtypes[DTYPES];
    int count = each_dtype(dtypes);
    for (int d = 0; d < count; d++) {
        check_one(&c, dtypes[d], AS_LIKED);
        check_one(&c, dtypes[d], PLAIN);
        for (lie l = AS_OF_CONV; l <= BLOCKS_OF_8 && c.x[0].shape.ndim >= 3; l++) check_one(&c, dtypes[d], l);
    }
    check_loops_of_halves(&c);
}
