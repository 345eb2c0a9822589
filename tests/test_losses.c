// Losses and metrics: the reference device against formulas and against central differences in double precision, the cpu device
// against the reference in graphs of one layer, and weighted sums of losses. What cannot be: test_losses_refused.c.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "device/ref/ref.h"
#include "golden_check.h"
#include "graph/graph.h"
#include "graph/runner.h"
#include "ok.h"
#include "train/measures.h"

enum { BATCH = 6, MAX_VALUES = 8192 };

// --- what is tested --------------------------------------------------------------------------------------------------

// A loss or metric of a prediction, with what its targets are.
typedef enum target_kind { ROWS, CLASSES, LABELS } target_kind;  // any numbers; I32 class numbers; 0 or 1

typedef struct subject {
    const char *name;
    ls_op_kind op;
    target_kind targets;
    int image;  // 1: the prediction is an image, 0: (classes)
    int relu;   // 1: it ends in a ReLU
    ls_loss_attrs loss;
    ls_metric_attrs metric;
    // What the reference gives for one sample, by formula: x and t are (count).
    double (*formula)(const struct subject *s, const double *x, const double *t, int64_t count);
} subject;

static double squared(const subject *s, const double *x, const double *t, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += pow(x[i] - t[i], 2);
    return sum / (double)count * (s->loss.weight ? s->loss.weight : 1);
}

static double absolute(const subject *s, const double *x, const double *t, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += fabs(x[i] - t[i]);
    return sum / (double)count * (s->loss.weight ? s->loss.weight : 1);
}

static double binary_entropy(const subject *s, const double *x, const double *t, int64_t count) {
    double sum = 0, p = s->loss.positive_weight ? s->loss.positive_weight : 1, smoothing = s->loss.label_smoothing;
    for (int64_t i = 0; i < count; i++) {
        double sigmoid = 1 / (1 + exp(-x[i])), to = t[i] * (1 - smoothing) + smoothing * 0.5;
        sum += -p * to * log(sigmoid) - (1 - to) * log(1 - sigmoid);
    }
    return sum / (double)count * (s->loss.weight ? s->loss.weight : 1);
}

static double softmax_entropy(const subject *s, const double *x, const double *t, int64_t count) {
    double sum = 0, loss = 0;
    for (int64_t i = 0; i < count; i++) sum += exp(x[i]);
    for (int64_t i = 0; i < count; i++)
        loss -= (s->targets == CLASSES ? t[0] == (double)i : t[i]) * log(exp(x[i]) / sum);
    return loss * (s->loss.weight ? s->loss.weight : 1);
}

static double top_k(const subject *s, const double *x, const double *t, int64_t count) {
    int64_t label = 0, above = 0;
    if (s->targets == CLASSES) label = (int64_t)t[0];
    for (int64_t i = 0; i < count && s->targets != CLASSES; i++) label = t[i] > t[label] ? i : label;
    for (int64_t i = 0; i < count; i++) above += x[i] > x[label];
    return above < (s->op == LS_OP_ACCURACY ? 1 : s->metric.k ? s->metric.k : 5);
}

static double binary_accuracy(const subject *s, const double *x, const double *t, int64_t count) {
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++) right += x[i] > 0 ? t[i] > 0.5 : !(t[i] > 0.5);
    return (double)right / (double)count;
}

static const subject subjects[] = {
    {"squared error of rows", LS_OP_MEAN_SQUARED_ERROR, ROWS, .formula = squared},
    {"squared error of images, weighted", LS_OP_MEAN_SQUARED_ERROR, ROWS, .image = 1, .loss = {.weight = 0.25},
     .formula = squared},
    {"squared error after a ReLU", LS_OP_MEAN_SQUARED_ERROR, ROWS, .image = 1, .relu = 1, .formula = squared},
    {"absolute error of rows", LS_OP_MEAN_ABSOLUTE_ERROR, ROWS, .loss = {.weight = 3}, .formula = absolute},
    {"absolute error of images", LS_OP_MEAN_ABSOLUTE_ERROR, ROWS, .image = 1, .formula = absolute},
    {"binary entropy", LS_OP_BINARY_CROSS_ENTROPY, LABELS, .formula = binary_entropy},
    {"binary entropy, weighted", LS_OP_BINARY_CROSS_ENTROPY, LABELS,
     .loss = {.weight = 0.5, .positive_weight = 3, .label_smoothing = 0.2}, .formula = binary_entropy},
    {"binary entropy of masks", LS_OP_BINARY_CROSS_ENTROPY, LABELS, .image = 1, .formula = binary_entropy},
    {"softmax entropy", LS_OP_SOFTMAX_CROSS_ENTROPY, CLASSES, .formula = softmax_entropy},
    {"softmax entropy of rows", LS_OP_SOFTMAX_CROSS_ENTROPY, ROWS, .loss = {.weight = 2}, .formula = softmax_entropy},
    {"accuracy", LS_OP_ACCURACY, CLASSES, .formula = top_k},
    {"top-5 accuracy", LS_OP_TOP_K_ACCURACY, CLASSES, .formula = top_k},
    {"top-2 accuracy", LS_OP_TOP_K_ACCURACY, CLASSES, .metric = {.k = 2}, .formula = top_k},
    {"top-2 accuracy of rows", LS_OP_TOP_K_ACCURACY, ROWS, .metric = {.k = 2}, .formula = top_k},
    {"absolute error as a metric", LS_OP_MEAN_ABSOLUTE_ERROR_METRIC, ROWS, .image = 1, .formula = absolute},
    {"binary accuracy", LS_OP_BINARY_ACCURACY, LABELS, .formula = binary_accuracy},
    {"binary accuracy of masks", LS_OP_BINARY_ACCURACY, LABELS, .image = 1, .formula = binary_accuracy},
    {"binary accuracy of each label", LS_OP_BINARY_ACCURACY, LABELS, .metric = {.per_label = 1}},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

static int is_loss(const subject *s) { return ls__op_find(s->op)->part == LS_PART_LOSS; }

static ls_value add(ls_graph *g, const subject *s, ls_value x, ls_value t) {
    const void *attrs = is_loss(s) ? (const void *)&s->loss : (const void *)&s->metric;
    return ls__graph_add(g, s->op, (ls_value[]){x, t}, 2, attrs);
}

// --- draws -----------------------------------------------------------------------------------------------------------

static double uniform(uint32_t stream, int64_t i) { return draw_signed(stream, 0, i); }

static void draw_targets(const subject *s, int64_t count, int classes, float *rows, int32_t *numbers) {
    for (int64_t i = 0; i < count; i++) {
        rows[i] = (float)(s->targets == LABELS ? uniform(2, i) > 0 : uniform(2, i));
        if (numbers) numbers[i] = (int32_t)(draw(3, 0, i) % (uint32_t)classes);
    }
}

// --- the reference ---------------------------------------------------------------------------------------------------

// A graph whose last node is the subject, of a prediction of this shape.
static ls_graph *bare_graph(const subject *s, ls_shape shape) {
    ls_graph *g;
    OK(ls_graph_create("bare", shape, &g));
    ls_value x = ls_add(g, ls_graph_input(g), ls_graph_input(g), NULL);
    ls_value t = s->targets == CLASSES ? ls_graph_add_input(g, "t", (ls_shape){0}, LS_DTYPE_I32)
                                       : ls_graph_add_input(g, "t", shape, LS_DTYPE_F32);
    if (add(g, s, x, t) == LS_NO_VALUE) fail_msg("%s: %s", s->name, ls_error_message());
    return g;
}

static ls_shape with_batch(ls_shape s) {
    ls_shape b = {.ndim = s.ndim + 1, .dim = {BATCH}};
    for (int i = 0; i < s.ndim; i++) b.dim[i + 1] = s.dim[i];
    return b;
}

static ls_kernel_spec spec_of(const ls_graph *g, ls_pass pass) {
    const ls_node *n = &g->nodes[g->node_count - 1];
    ls_kernel_spec spec = {.op = n->op, .pass = pass, .attrs = n->attrs, .x_count = n->input_count, .y_count = 1};
    for (int k = 0; k < n->input_count; k++) {
        ls_dtype dtype = ls__input_type(g, n, k)->dtype;
        spec.x[k] = (ls_tensor_type){with_batch(ls__input_type(g, n, k)->shape), dtype, dtype};
    }
    spec.y[0] = (ls_tensor_type){n->output[0].shape, LS_DTYPE_F64, LS_DTYPE_F64};
    if (ls__op_find(n->op)->traits & LS_OP_ROWS) spec.y[0].shape = with_batch(n->output[0].shape);
    return spec;
}

static ls_shape shape_of(const subject *s) { return s->image ? LS_SHAPE(4, 5, 3) : LS_SHAPE(7); }

// The sum over the batch of what the formula says.
static double formula_sum(const subject *s, const double *x, const double *t, int64_t count) {
    double sum = 0;
    int64_t of_targets = s->targets == CLASSES ? 1 : count;
    for (int n = 0; n < BATCH; n++) sum += s->formula(s, x + n * count, t + n * of_targets, count);
    return sum;
}

static void test_formulas(void **state) {
    for (int i = 0; i < SUBJECTS; i++) {
        const subject *s = &subjects[i];
        if (!s->formula) continue;
        ls_graph *g = bare_graph(s, shape_of(s));
        int64_t count = ls_shape_count(shape_of(s));
        double x[MAX_VALUES], t[MAX_VALUES], y[64];
        float rows[MAX_VALUES];
        int32_t numbers[MAX_VALUES];
        draw_targets(s, BATCH * count, (int)count, rows, numbers);
        for (int64_t k = 0; k < BATCH * count; k++) {
            x[k] = 3 * uniform(1, k);
            t[k] = s->targets == CLASSES ? numbers[k] : (double)rows[k];
        }
        ls_kernel_spec spec = spec_of(g, LS_PASS_TRAINING);
        ls_ref_args a = {.spec = &spec, .x = {x, t}, .y = {y}};
        ls__ref_compute(ls__ref_op_find(s->op), &a);
        double expected = formula_sum(s, x, t, count);
        if (!(fabs(y[0] - expected) <= 1e-12 * fmax(1, fabs(expected))))
            fail_msg("%s: the reference gives %.17g, the formula %.17g", s->name, y[0], expected);
        ls_graph_destroy(&g);
    }
}

static void test_central_differences(void **state) {
    for (int i = 0; i < SUBJECTS; i++) {
        const subject *s = &subjects[i];
        if (!is_loss(s)) continue;
        ls_graph *g = bare_graph(s, shape_of(s));
        int64_t count = BATCH * ls_shape_count(shape_of(s));
        double x[MAX_VALUES], t[MAX_VALUES], y, dx[MAX_VALUES];
        float rows[MAX_VALUES];
        int32_t numbers[MAX_VALUES];
        draw_targets(s, count, (int)(count / BATCH), rows, numbers);
        for (int64_t k = 0; k < count; k++) {
            x[k] = 3 * uniform(1, k);
            t[k] = s->targets == CLASSES ? numbers[k] : (double)rows[k];
        }
        const ls_ref_op *op = ls__ref_op_find(s->op);
        ls_kernel_spec forward = spec_of(g, LS_PASS_TRAINING), backward = spec_of(g, LS_PASS_BACKWARD_DATA);
        ls_ref_args f = {.spec = &forward, .x = {x, t}, .y = {&y}}, b = {.spec = &backward, .x = {x, t}, .dx = {dx}};
        ls__ref_compute(op, &b);
        for (int64_t k = 0; k < count; k++) {
            double at = x[k], h = 1e-5, above, below;
            x[k] = at + h, ls__ref_compute(op, &f), above = y;
            x[k] = at - h, ls__ref_compute(op, &f), below = y;
            x[k] = at;
            double slope = (above - below) / (2 * h);
            // The third derivative times h^2, and rounding of a sum of some tens over h.
            if (!(fabs(slope - dx[k]) < 1e-8))
                fail_msg("%s: element %d: gradient %.12g, central difference %.12g", s->name, (int)k, dx[k], slope);
        }
        ls_graph_destroy(&g);
    }
}

// Logits that would break a formula with exp(x): the loss grows as x does, and gradients end at 1.
static void test_large_logits(void **state) {
    static const double at[] = {-1e30, -800, -50, 50, 800, 1e30};
    for (int i = 0; i < 6; i++)
        for (int there = 0; there < 2; there++)
            for (int d = 0; d < 2; d++) {
                ls_graph *g;
                ls_device *device;
                ls_runner *r;
                double sum;
                float x = 1, t = (float)there, weight = (float)at[i], dw;
                OK(ls_device_create(d ? "cpu" : "ref", &(ls_device_options){.threads = 1}, &device));
                OK(ls_graph_create("steep", LS_SHAPE(1), &g));
                ls_value y = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = 1, .no_bias = 1});
                ls_binary_cross_entropy(g, y, ls_graph_add_input(g, "t", (ls_shape){0}, LS_DTYPE_F32), NULL);
                OK(ls_graph_finish(g, y));
                OK(ls_runner_create(g, device, &(ls_plan_config){.batch = 1, .precision = LS_DTYPE_F32}, NULL, &r));
                OK(ls_runner_set(r, 0, &weight));
                OK(ls_runner_refresh(r));
                OK(ls_runner_write(r, 0, &x));
                OK(ls_runner_write(r, 1, &t));
                OK(ls_runner_forward(r, &sum));
                OK(ls_runner_backward(r));
                OK(ls_runner_get(r, 0, r->gradient, &dw));
                int wrong = (at[i] > 0) != there;
                assert_true(fabs(sum - (wrong ? fabs((double)weight) : 0)) <= 1e-6 * fabs((double)weight));
                assert_true(fabs(dw - (wrong ? (there ? -1 : 1) : 0)) < 1e-6);
                ls_runner_destroy(&r);
                ls_graph_destroy(&g);
                ls_device_destroy(&device);
            }
}

// --- the cpu against it ----------------------------------------------------------------------------------------------

// A layer with weights, and the subject on what it gives; metrics beside a loss, for there is no graph without one.
static ls_graph *one_layer(const subject *s) {
    ls_graph *g;
    OK(ls_graph_create("one", s->image ? LS_SHAPE(8, 6, 3) : LS_SHAPE(9), &g));
    ls_value x = ls_graph_input(g);
    ls_activation activation = s->relu ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE;
    if (s->image)
        x = ls_conv2d(
            g, x,
            &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .activation = activation});
    else
        x = ls_dense(g, x, &(ls_dense_attrs){.units = 7, .activation = activation});
    ls_shape shape = g->failed ? (ls_shape){0} : ls__value_type(g, x)->shape;
    ls_value t = s->targets == CLASSES ? ls_graph_add_input(g, "t", (ls_shape){0}, LS_DTYPE_I32)
                                       : ls_graph_add_input(g, "t", shape, LS_DTYPE_F32);
    add(g, s, x, t);
    if (!is_loss(s)) ls_mean_squared_error(g, x, ls_graph_add_input(g, "u", shape, LS_DTYPE_F32), NULL);
    OK(ls_graph_finish(g, x));
    return g;
}

static void write_inputs(ls_runner *r, const subject *s) {
    float rows[MAX_VALUES];
    int32_t numbers[MAX_VALUES];
    for (int i = 0; i < r->graph->input_count; i++) {
        int64_t count = BATCH * ls_shape_count(ls_graph_input_at(r->graph, i).shape);
        assert_true(count <= MAX_VALUES);
        if (i == 0)
            for (int64_t k = 0; k < count; k++) rows[k] = (float)uniform(1, k);
        else
            draw_targets(s, count, 7, rows, numbers);
        OK(ls_runner_write(r, i, ls_graph_input_at(r->graph, i).dtype == LS_DTYPE_I32 ? (void *)numbers : rows));
    }
}

typedef struct outcome {
    double measures[64];
    int count;
    float gradient[MAX_VALUES];
    int64_t length;
} outcome;

// Returns 0 where this machine does not have the precision.
static int run_graph(const ls_graph *g, const subject *s, const char *name, ls_dtype precision, outcome *out) {
    ls_device *device;
    ls_runner *r;
    OK(ls_device_create(name, &(ls_device_options){.threads = 1}, &device));
    if (device->ops->supports && device->ops->supports(device, precision) != LS_OK) {
        ls_device_destroy(&device);
        return 0;
    }
    ls_plan_config config = {.batch = BATCH, .precision = precision, .mode = LS_PLAN_TRAINING};
    OK(ls_runner_create(g, device, &config, NULL, &r));
    OK(ls_runner_initialize(r, 5));
    write_inputs(r, s);
    memset(out, 0, sizeof *out);
    OK(ls_runner_forward(r, out->measures));
    out->count = ls_plan_measure_count(r->plan);
    OK(ls_runner_backward(r));
    for (int i = 0; i < g->store->count; i++) {
        OK(ls_runner_get(r, i, r->gradient, out->gradient + out->length));
        out->length += ls_shape_count(g->store->params[i].shape);
    }
    ls_runner_destroy(&r);
    ls_device_destroy(&device);
    return 1;
}

static double distance(const float *a, const float *b, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)a[i] - b[i], 2);
        norm += (double)b[i] * b[i];
    }
    return sqrt(difference) / fmax(sqrt(norm), 1e-6);
}

// bf16 keeps 8 bits: sums of rounded products, and gradients that are rounded themselves.
static void check_against_ref(const subject *s, ls_dtype precision, double allowed) {
    ls_graph *g = one_layer(s);
    static outcome ref, cpu;
    assert_true(run_graph(g, s, "ref", precision, &ref));
    if (run_graph(g, s, "cpu", precision, &cpu)) {
        assert_int_equal(ref.count, cpu.count);
        for (int i = 0; i < ref.count; i++)
            if (!(fabs(ref.measures[i] - cpu.measures[i]) <= allowed * fmax(1, fabs(ref.measures[i]))))
                fail_msg("%s: measure %d is %.12g on ref, %.12g on cpu", s->name, i, ref.measures[i], cpu.measures[i]);
        double d = distance(cpu.gradient, ref.gradient, ref.length);
        if (!(d <= allowed)) fail_msg("%s: gradients of ref and cpu are %g apart", s->name, d);
    }
    ls_graph_destroy(&g);
}

static void test_cpu_fp32(void **state) {
    for (int i = 0; i < SUBJECTS; i++) check_against_ref(&subjects[i], LS_DTYPE_F32, 2e-6);
}

static void test_cpu_bf16(void **state) {
    for (int i = 0; i < SUBJECTS; i++) check_against_ref(&subjects[i], LS_DTYPE_BF16, 1e-2);
}

// --- several losses --------------------------------------------------------------------------------------------------

// Two heads on one body, of which the first is trained with weight a and the second with weight b; 0: that head has no loss.
static ls_graph *two_heads(double a, double b) {
    ls_graph *g;
    OK(ls_graph_create("heads", LS_SHAPE(9), &g));
    ls_value x = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.name = "body", .units = 12});
    ls_value label = ls_graph_add_input(g, "label", (ls_shape){0}, LS_DTYPE_I32);
    ls_value target = ls_graph_add_input(g, "target", LS_SHAPE(4), LS_DTYPE_F32);
    ls_value classes = ls_dense(g, x, &(ls_dense_attrs){.name = "classes", .units = 7});
    ls_value numbers = ls_dense(g, x, &(ls_dense_attrs){.name = "numbers", .units = 4});
    if (a) ls_softmax_cross_entropy(g, classes, label, &(ls_loss_attrs){.weight = a});
    if (b) ls_mean_squared_error(g, numbers, target, &(ls_loss_attrs){.weight = b});
    OK(ls_graph_add_output(g, classes, NULL));
    OK(ls_graph_add_output(g, numbers, NULL));
    OK(ls_graph_add_output(g, label, NULL));
    OK(ls_graph_add_output(g, target, NULL));
    OK(ls_graph_finish(g, LS_NO_VALUE));
    return g;
}

// The gradient of a weighted sum is the weighted sum of the gradients, in the body that both losses reach and in each head.
static void test_weighted_sum(void **state) {
    const subject as_drawn = {.targets = ROWS};
    static outcome both, first, second;
    for (int d = 0; d < 2; d++) {
        ls_graph *g = two_heads(0.75, 2.5), *a = two_heads(1, 0), *b = two_heads(0, 1);
        const char *device = d ? "cpu" : "ref";
        assert_true(run_graph(g, &as_drawn, device, LS_DTYPE_F32, &both));
        assert_true(run_graph(a, &as_drawn, device, LS_DTYPE_F32, &first));
        assert_true(run_graph(b, &as_drawn, device, LS_DTYPE_F32, &second));
        assert_int_equal(both.count, 2);
        assert_true(fabs(both.measures[0] - 0.75 * first.measures[0]) < 1e-12);
        assert_true(fabs(both.measures[1] - 2.5 * second.measures[0]) < 1e-12);
        ls_measures m;
        OK(ls__measures_create(g, &m));
        const double sum[] = {BATCH, both.measures[0], both.measures[1]};
        double total = (0.75 * first.measures[0] + 2.5 * second.measures[0]) / BATCH;
        assert_true(fabs(ls__measures_loss(&m, sum) - total) < 1e-12);
        ls__measures_destroy(&m);
        for (int64_t i = 0; i < both.length; i++)
            first.gradient[i] = 0.75F * first.gradient[i] + 2.5F * second.gradient[i];
        assert_true(distance(both.gradient, first.gradient, both.length) < 1e-6);
        ls_graph_destroy(&g), ls_graph_destroy(&a), ls_graph_destroy(&b);
    }
}

// What the layer gives for the batch of run_graph, and the targets, on ref.
static void predict_rows(const ls_graph *g, const subject *s, double *logits, double *targets) {
    ls_device *device;
    ls_runner *r;
    float plain[MAX_VALUES];
    int64_t count = BATCH * ls_shape_count(ls_graph_output_at(g, 0).shape);
    OK(ls_device_create("ref", NULL, &device));
    ls_plan_config config = {.batch = BATCH, .precision = LS_DTYPE_F32, .mode = LS_PLAN_PREDICTION};
    OK(ls_runner_create(g, device, &config, NULL, &r));
    OK(ls_runner_initialize(r, 5));
    write_inputs(r, s);
    OK(ls_runner_forward(r, NULL));
    OK(ls_runner_read(r, 0, BATCH, plain));
    for (int64_t i = 0; i < count; i++) logits[i] = (double)plain[i];
    draw_targets(s, count, 7, plain, NULL);
    for (int64_t i = 0; i < count; i++) targets[i] = (double)plain[i];
    ls_runner_destroy(&r);
    ls_device_destroy(&device);
}

// A metric of one sample with these scores, of a device.
static double of_scores(const char *name, ls_op_kind op, const void *attrs, const float *scores, int count, int label) {
    ls_graph *g;
    ls_device *device;
    ls_runner *r;
    double measures[2];
    float zero[8] = {0};
    OK(ls_device_create(name, NULL, &device));
    OK(ls_graph_create("scores", LS_SHAPE(count), &g));
    ls_value loss = ls_dense(g, ls_graph_input(g), &(ls_dense_attrs){.units = count});
    ls_value t = ls_graph_add_input(g, "t", (ls_shape){0}, LS_DTYPE_I32);
    ls__graph_add(g, op, (ls_value[]){ls_graph_input(g), t}, 2, attrs);
    ls_mean_squared_error(g, loss, ls_graph_add_input(g, "u", LS_SHAPE(count), LS_DTYPE_F32), NULL);
    OK(ls_graph_finish(g, loss));
    OK(ls_runner_create(g, device, &(ls_plan_config){.batch = 1, .precision = LS_DTYPE_F32}, NULL, &r));
    OK(ls_runner_write(r, 0, scores));
    OK(ls_runner_write(r, 1, &(int32_t){label}));
    OK(ls_runner_write(r, 2, zero));
    OK(ls_runner_forward(r, measures));
    ls_runner_destroy(&r);
    ls_graph_destroy(&g);
    ls_device_destroy(&device);
    return measures[0];
}

static const char *value_name(const ls_measured *v, int count, int index) {
    return index < count ? v[index].name : "none";
}

// Each label's accuracy, their mean, and all values by name.
static void test_labels_by_name(void **state) {
    const subject *s = subjects;
    while (strcmp(s->name, "binary accuracy of each label") != 0) s++;
    ls_graph *g = one_layer(s);
    static outcome of;
    ls_measures m;
    ls_measured values[16];
    double logits[7 * BATCH], targets[7 * BATCH], sum[16] = {BATCH}, mean = 0;
    OK(ls__measures_create(g, &m));
    assert_int_equal(m.value_count, 9);
    assert_int_equal(m.width, 9);
    assert_int_equal(m.row_width, 0);
    for (int d = 0; d < 2; d++) {
        assert_true(run_graph(g, s, d ? "cpu" : "ref", LS_DTYPE_F32, &of));
        memcpy(sum + 1, of.measures, 8 * sizeof *sum);
        OK(ls__measures_values(&m, sum, NULL, 0, values));
        // Once more by a prediction of the same weights.
        predict_rows(g, s, logits, targets);
        mean = 0;
        for (int label = 0; label < 7; label++) {
            double right = 0;
            for (int n = 0; n < BATCH; n++) right += (logits[7 * n + label] > 0) == (targets[7 * n + label] > 0.5);
            assert_true(values[1 + label].value == right / BATCH);
            mean += right / BATCH / 7;
        }
        assert_true(fabs(values[0].value - mean) < 1e-12);
        assert_true(ls__measures_accuracy(&m, sum) == values[0].value);
    }
    assert_string_equal(value_name(values, 9, 0), "binary_accuracy");
    assert_string_equal(value_name(values, 9, 1), "binary_accuracy/0");
    assert_string_equal(value_name(values, 9, 7), "binary_accuracy/6");
    assert_string_equal(value_name(values, 9, 8), "mean_squared_error");
    assert_true(values[8].is_loss && !values[0].is_loss && !values[3].is_loss);
    assert_true(fabs(values[8].value - of.measures[7] / BATCH) < 1e-12);
    ls__measures_destroy(&m);
    ls_graph_destroy(&g);
}

// Equals at the edge all count, and nothing does beside a score that is no number.
static void test_top_k_edges(void **state) {
    static const float equals[] = {1, 3, 2, 2, 2, 0}, infinite[] = {1, 3, 2, INFINITY, 0, 0},
                       nan[] = {1, 3, NAN, 2, 0, 0};
    const ls_metric_attrs two = {.k = 2}, five = {.k = 5};
    for (int d = 0; d < 2; d++) {
        const char *device = d ? "cpu" : "ref";
        for (int label = 0; label < 6; label++) {
            int among = label >= 1 && label <= 4;
            assert_true(of_scores(device, LS_OP_TOP_K_ACCURACY, &two, equals, 6, label) == among);
            assert_true(of_scores(device, LS_OP_TOP_K_ACCURACY, &five, equals, 6, label) == (label != 5));
            assert_true(of_scores(device, LS_OP_TOP_K_ACCURACY, &five, infinite, 6, label) == 0);
            assert_true(of_scores(device, LS_OP_TOP_K_ACCURACY, &five, nan, 6, label) == 0);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formulas),       cmocka_unit_test(test_central_differences),
        cmocka_unit_test(test_large_logits),   cmocka_unit_test(test_cpu_fp32),
        cmocka_unit_test(test_cpu_bf16),       cmocka_unit_test(test_weighted_sum),
        cmocka_unit_test(test_labels_by_name), cmocka_unit_test(test_top_k_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
