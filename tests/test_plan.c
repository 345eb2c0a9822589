// Plans: buffers placed by lifetime, layouts of parameters shared between plans, buckets announced in order.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "graph/plan_impl.h"
#include "ok.h"
#include "plan_rig.h"

// --- the arena -------------------------------------------------------------------------------------------------------

static void buffers_alive_together_do_not_overlap(void **state) {
    ls_buffer b[64];
    unsigned seed = 7;
    for (int round = 0; round < 200; round++) {
        int count = 2 + (int)(seed % 62);
        int64_t live = 0, most = 0, sum = 0;
        for (int i = 0; i < count; i++) {
            seed = seed * 1103515245u + 12345u;
            int first = (int)(seed >> 8) % 40, length = (int)(seed >> 20) % 10;
            b[i] = (ls_buffer){.bytes = 1 + (int64_t)(seed >> 4) % 5000, .first = first, .last = first + length};
            sum += ls_round_up(b[i].bytes, LS_ALIGN);
        }
        int64_t total = ls__arena_place(b, count);
        for (int i = 0; i < count; i++) {
            assert_int_equal(b[i].offset % LS_ALIGN, 0);
            assert_true(b[i].offset + b[i].bytes <= total);
            for (int j = 0; j < i; j++)
                if (b[i].first <= b[j].last && b[j].first <= b[i].last)
                    assert_true(b[i].offset + b[i].bytes <= b[j].offset || b[j].offset + b[j].bytes <= b[i].offset);
        }
        for (int step = 0; step < 50; step++) {  // no less than what is alive at once, no more than everything
            live = 0;
            for (int i = 0; i < count; i++)
                if (b[i].first <= step && step <= b[i].last) live += b[i].bytes;
            if (live > most) most = live;
        }
        assert_true(total >= most && total <= sum);
    }
}

// One kept activation of 400 bytes, its gradient, scratch, and a hole: the parts of the step where most is alive.
static void the_arena_is_told_apart(void **state) {
    ls_node node = {.name = "layer"};
    ls_graph graph = {.nodes = &node, .node_count = 1};
    ls_plan_step_impl steps[4] = {
        {.pass = "forward"}, {.pass = "loss"}, {.pass = "loss gradient"}, {.pass = "backward"}};
    ls_buffer buffers[] = {
        {.bytes = 400, .first = 0, .last = 3, .activation = 1},
        {.bytes = 128, .first = 3, .last = 3, .activation = 1},
        {.bytes = 64, .first = 3, .last = 3},
        {.bytes = 128, .first = 3, .last = 3, .activation = 1, .joins = 2},  // takes the second's memory
        {.bytes = 256, .first = 1, .last = 1},
        {.bytes = 9999, .first = -1, .last = -1}};
    ls_plan plan = {.graph = &graph,
                    .steps = steps,
                    .step_count = 4,
                    .forward_count = 2,
                    .buffers = buffers,
                    .buffer_count = 6,
                    .arena_bytes = 768};
    ls_arena_parts parts = ls_plan_arena_parts(&plan);
    assert_int_equal(parts.activations, 448);  // in whole lines of the cache
    assert_int_equal(parts.backward, 0);
    assert_int_equal(parts.workspace, 256);  // of step 1, where 704 bytes are alive; step 3 has 640
    assert_int_equal(parts.unused, 64);
    assert_string_equal(parts.pass, "loss");
    assert_string_equal(parts.node, "layer");
    buffers[4].bytes = 64;
    parts = ls_plan_arena_parts(&plan);
    assert_int_equal(parts.activations, 448);
    assert_int_equal(parts.backward, 128);
    assert_int_equal(parts.workspace, 64);
    assert_int_equal(parts.unused, 128);
    assert_string_equal(parts.pass, "backward");
}

static void a_plan_needs_less_than_all_its_activations(void **state) {
    ls_graph *g;
    ls_device *d;
    ls_params *params;
    ls_plan *training, *inference;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    OK(ls_device_create("cpu", &(ls_device_options){1}, &d));
    OK(ls_params_create(g, d, &params));
    OK(ls_plan_create(g, d, params, &(ls_plan_config){128, LS_DTYPE_F32, .training = 1}, &training));
    OK(ls_plan_create(g, d, params, &(ls_plan_config){128, LS_DTYPE_F32, .training = 0}, &inference));
    assert_true(ls_plan_arena_bytes(training) < ls_plan_activation_bytes(training));
    assert_true(ls_plan_activation_bytes(inference) < ls_plan_activation_bytes(training));
    ls_arena_parts parts = ls_plan_arena_parts(training);
    assert_int_equal(parts.activations + parts.backward + parts.workspace + parts.unused,
                     ls_plan_arena_bytes(training));
    assert_true(parts.activations > 0 && parts.backward >= 0 && parts.workspace > 0 && parts.unused >= 0);
    parts = ls_plan_arena_parts(inference);
    assert_int_equal(parts.backward, 0);
    ls_plan_destroy(&training);
    ls_plan_destroy(&inference);
    ls_params_destroy(&params);
    ls_device_destroy(&d);
    ls_graph_destroy(&g);
}

// --- running ---------------------------------------------------------------------------------------------------------

// A network's training plan, with the same weights and input every time.
static void rig_make(rig *r, ls_graph *graph, const char *device, int64_t batch) {
    assert_true(rig_create(r, graph, device, &(ls_plan_config){batch, LS_DTYPE_F32, .training = 1}));
    int64_t size = ls_shape_count(graph->nodes[0].shape);
    for (int64_t i = 0; i < batch * size; i++) rig_set_pixel(r, i, (float)(i * 2654435761u % 1000) / 1000);
    for (int i = 0; i < batch; i++) r->labels[i] = i % ls_graph_classes(graph), r->samples[i] = (uint64_t)i * 3;
    for (int p = 0; p < graph->param_count; p++) {
        float *plain = rig_plain(r, p);
        ls_param_initialize(graph, p, 5, plain);
        rig_set(r, p, plain);
    }
    rig_refresh(r);
}

// Networks that take every turn of the compiler: a ReLU of its own, one that cannot fold, average and global pooling, a
// flatten that must reorder, odd channels, no bias.
static ls_graph *odd_network(int variant) {
    ls_graph *g;
    OK(ls_graph_create("odd", LS_SHAPE(12, 11, 3), &g));
    ls_value x = ls_graph_input(g);
    x = ls_conv2d(
        g, x, &(ls_conv2d_attrs){.filters = 16, .kernel = {3, 3}, .padding = LS_PADDING_SAME, .no_bias = variant & 1});
    x = ls_relu(g, x, NULL);
    x = variant & 2 ? ls_average_pool2d(g, x, &(ls_pool2d_attrs){0})
                    : ls_max_pool2d(g, x, &(ls_pool2d_attrs){.size = {3, 3}, .strides = {2, 2}});
    x = ls_relu(g, x, NULL);
    x = ls_conv2d(
        g, x, &(ls_conv2d_attrs){.filters = 20, .kernel = {2, 3}, .strides = {1, 2}, .activation = LS_ACTIVATION_RELU});
    x = ls_conv2d(g, x, &(ls_conv2d_attrs){.filters = 32, .kernel = {1, 1}, .activation = LS_ACTIVATION_RELU});
    x = ls_dropout(g, x, &(ls_dropout_attrs){.rate = 0.25f});
    if (variant == 0 || variant == 3)
        x = ls_flatten(g, x, NULL);
    else
        x = variant & 1 ? ls_global_max_pool2d(g, x, NULL) : ls_global_average_pool2d(g, x, NULL);
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 17, .activation = LS_ACTIVATION_RELU});
    x = ls_dense(g, x, &(ls_dense_attrs){.units = 5});
    OK(ls_graph_finish(g, x));
    return g;
}

static void whole_networks_agree_with_the_reference_device(void **state) {
    for (int variant = 0; variant < 4; variant++) {
        rig cpu, ref;
        ls_loss_metrics a, b;
        rig_make(&cpu, odd_network(variant), "cpu", 6);
        rig_make(&ref, odd_network(variant), "ref", 6);
        OK(ls_plan_forward(cpu.plan, &cpu.input, &a));
        OK(ls_plan_forward(ref.plan, &ref.input, &b));
        assert_true(fabs(a.loss - b.loss) < 1e-4 * b.loss);
        assert_int_equal(a.samples, 6);
        OK(ls_plan_backward(cpu.plan, &cpu.input, cpu.gradient, NULL, NULL));
        OK(ls_plan_backward(ref.plan, &ref.input, ref.gradient, NULL, NULL));
        for (int i = 0; i < cpu.graph->param_count; i++) {
            int64_t n = ls_shape_count(cpu.graph->params[i].shape);
            float *x = rig_get(&cpu, i, cpu.gradient), *y = rig_get(&ref, i, ref.gradient);
            // Sums of at most a few hundred products in another order: well under 1e-4.
            double distance = relative_distance(x, y, n, 0);
            if (!(distance <= 1e-4))
                fail_msg("variant %d, %s: relative distance %g", variant, cpu.graph->params[i].name, distance);
            free(x), free(y);
        }
        rig_free(&cpu);
        rig_free(&ref);
    }
}

typedef struct bucket_log {
    int64_t next, covered;
    int count;
} bucket_log;

static void note_bucket(void *user, int64_t offset, int64_t count) {
    bucket_log *log = user;
    assert_true(offset >= log->next);
    log->next = offset + count;
    log->covered += count;
    log->count++;
}

static void buckets_come_in_order_and_cover_everything(void **state) {
    rig r;
    ls_graph *g;
    ls_loss_metrics m;
    bucket_log log = {0};
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig_make(&r, g, "cpu", 4);
    OK(ls_plan_forward(r.plan, &r.input, &m));
    OK(ls_plan_backward(r.plan, &r.input, r.gradient, note_bucket, &log));
    assert_int_equal(log.count, 6);  // one for each layer with parameters
    assert_true(log.covered >= 690590 && log.next <= r.length);
    rig_free(&r);
}

static void running_twice_gives_the_same_bits(void **state) {
    rig r;
    ls_graph *g;
    ls_loss_metrics a, b;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig_make(&r, g, "cpu", 16);
    float *first;
    OK(ls_memory_alloc(r.length * 4, &first));
    OK(ls_plan_forward(r.plan, &r.input, &a));
    OK(ls_plan_backward(r.plan, &r.input, first, NULL, NULL));
    memset(r.arena, 0xFF, (size_t)ls_plan_arena_bytes(r.plan));  // nothing may be left over from a run before
    OK(ls_plan_forward(r.plan, &r.input, &b));
    OK(ls_plan_backward(r.plan, &r.input, r.gradient, NULL, NULL));
    assert_memory_equal(first, r.gradient, (size_t)r.length * 4);
    assert_memory_equal(&a, &b, sizeof a);
    ls_memory_free(first);
    rig_free(&r);
}

typedef struct calls {
    int count;
    double last;
} calls;

static void note_call(void *user, int64_t offset, int64_t count) {
    calls *c = user;
    c->count++;
    c->last = ls_clock();
}

// A recorded run computes the same, and its events are the plan's steps, one after the other without overlap.
static void steps_are_recorded_while_the_trace_is_on(void **state) {
    rig r;
    rig_make(&r, odd_network(0), "cpu", 6);
    int steps = ls_plan_step_count(r.plan);
    float *first;
    ls_loss_metrics a, b;
    ls_trace trace = {0};
    OK(ls_memory_alloc(r.length * 4, &first));
    OK(ls_trace_allocate(&trace, steps));
    ls_plan_record(r.plan, &trace, 100);
    OK(ls_plan_forward(r.plan, &r.input, &a));
    OK(ls_plan_backward(r.plan, &r.input, first, NULL, NULL));
    assert_int_equal(trace.count, 0);
    ls_trace_switch(&trace, 1);
    calls seen = {0};
    double begin = ls_clock();
    OK(ls_plan_forward(r.plan, &r.input, &b));
    OK(ls_plan_backward(r.plan, &r.input, r.gradient, note_call, &seen));
    double end = ls_clock();
    assert_memory_equal(first, r.gradient, (size_t)r.length * 4);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(trace.count, steps);
    assert_int_equal(trace.dropped, 0);
    assert_true(seen.count > 1);
    double before = begin;
    for (int i = 0; i < steps; i++) {
        const ls_trace_event *e = &trace.events[i];
        assert_int_equal(e->name, 100 + i);
        assert_true(before <= e->start && e->start <= e->end && e->end <= end);
        before = e->end;
    }
    assert_true(seen.last >= trace.events[steps - 1].end);  // what is told of a step comes after it
    ls_plan_record(r.plan, NULL, 0);
    OK(ls_plan_forward(r.plan, &r.input, &b));
    assert_int_equal(trace.count, steps);
    ls_trace_release(&trace);
    ls_memory_free(first);
    rig_free(&r);
}

// --- parameters ------------------------------------------------------------------------------------------------------

static void plans_of_other_sizes_share_the_parameters(void **state) {
    ls_graph *g;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig r;
    rig_make(&r, g, "cpu", 16);
    ls_plan *small;
    OK(ls_plan_create(g, r.device, r.params, &(ls_plan_config){3, LS_DTYPE_F32, .training = 1}, &small));
    assert_int_equal(ls_params_length(r.params), r.length);
    // The sum over a batch of 3 is the sum over the same three samples, whatever batch they are run in.
    ls_loss_metrics whole, part;
    void *copies, *arena;
    OK(ls_memory_alloc(ls_params_copies_bytes(r.params), &copies));
    OK(ls_memory_alloc(ls_plan_arena_bytes(small), &arena));
    ls_params_refresh(r.params, r.weights, copies, 0, 1);
    ls_plan_bind(small, arena, r.weights, copies);
    OK(ls_plan_forward(small, &r.input, &part));
    OK(ls_plan_forward(r.plan, &r.input, &whole));
    assert_int_equal(part.samples, 3);
    assert_true(part.loss > 0 && part.loss < whole.loss);
    OK(ls_plan_backward(small, &r.input, r.gradient, NULL, NULL));
    for (int64_t i = 0; i < r.length; i++) assert_true(isfinite(r.gradient[i]));
    ls_plan_destroy(&small);
    ls_memory_free(copies);
    ls_memory_free(arena);
    rig_free(&r);
}

static void parameters_come_back_as_they_were_set(void **state) {
    ls_graph *g;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig r;
    rig_make(&r, g, "cpu", 8);
    for (int i = 0; i < g->param_count; i++) {
        int64_t n = ls_shape_count(g->params[i].shape);
        float *in = rig_plain(&r, i);
        for (int64_t k = 0; k < n; k++) in[k] = (float)(k + i);
        OK(ls_params_set(r.params, i, r.weights, in));
        float *out = rig_get(&r, i, r.weights);
        assert_memory_equal(in, out, (size_t)n * 4);
        free(in), free(out);
    }
    rig_free(&r);
}

// The segments cover the vector without gaps, and each element of a parameter lies in the one that says what it is.
static void segments_say_what_each_element_is(void **state) {
    ls_graph *g;
    OK(ls_graph_create("net", LS_SHAPE(6, 5, 3), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 70, .kernel = {3, 3}});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){.momentum = 0.75f});
    x = ls_dense(g, ls_flatten(g, x, NULL), &(ls_dense_attrs){.units = 5});
    OK(ls_graph_finish(g, x));
    ls_device *d;
    ls_params *params;
    ls_segment *segments;
    int count;
    OK(ls_device_create("ref", &(ls_device_options){1}, &d));
    OK(ls_params_create(g, d, &params));
    assert_int_equal(g->param_count, 8);
    for (int i = 7; i >= 0; i--) OK(ls__params_place(params, i, NULL));
    OK(ls_params_segments(params, &segments, &count));
    assert_int_equal(count, 8);
    float *vector, *plain;
    int64_t length = ls_params_length(params);
    OK(ls_memory_alloc(length * 4, &vector));
    OK(ls_memory_alloc(length * 4, &plain));
    for (int i = 0; i < g->param_count; i++) {
        for (int64_t k = 0; k < ls_shape_count(g->params[i].shape); k++) plain[k] = (float)(1 + g->params[i].role);
        OK(ls_params_set(params, i, vector, plain));
    }
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        const ls_segment *s = &segments[i];
        assert_true(s->begin == at && s->end > at && s->begin % LS_VECTOR_ALIGN == 0);
        assert_true(s->momentum == (s->statistic ? 0.75f : 0));
        for (float role = vector[at]; at < s->end; at++) {
            assert_true(vector[at] == role || vector[at] == 0);
            assert_int_equal(s->kernel, role == 1 + LS_PARAM_KERNEL);
            assert_int_equal(s->statistic, role == 1 + LS_PARAM_STATISTIC);
        }
    }
    assert_int_equal(at, length);
    free(segments);
    ls_memory_free(vector);
    ls_memory_free(plain);
    ls_params_destroy(&params);
    ls_device_destroy(&d);
    ls_graph_destroy(&g);
}

// --- labels ----------------------------------------------------------------------------------------------------------

// One-hot rows are the same as class numbers, to the bit; weights over several classes agree with the reference device.
static void one_hot_labels_are_as_good_as_class_numbers(void **state) {
    static const char *const devices[] = {"cpu", "ref"};
    float soft_gradient[2][5];
    for (int d = 0; d < 2; d++) {
        rig r;
        float rows[6][5] = {{0}}, *gradient;
        ls_plan *plan;
        void *arena;
        ls_loss_metrics sparse, one_hot;
        rig_make(&r, odd_network(0), devices[d], 6);
        OK(ls_plan_create(r.graph, r.device, r.params, &(ls_plan_config){6, LS_DTYPE_F32, .training = 1, .one_hot = 1},
                          &plan));
        OK(ls_memory_alloc(ls_plan_arena_bytes(plan), &arena));
        OK(ls_memory_alloc(r.length * 4, &gradient));
        ls_plan_bind(plan, arena, r.weights, r.copies);
        for (int n = 0; n < 6; n++) rows[n][r.labels[n]] = 1;
        ls_plan_input input = r.input;
        input.labels = rows;
        OK(ls_plan_forward(r.plan, &r.input, &sparse));
        OK(ls_plan_backward(r.plan, &r.input, r.gradient, NULL, NULL));
        OK(ls_plan_forward(plan, &input, &one_hot));
        OK(ls_plan_backward(plan, &input, gradient, NULL, NULL));
        assert_memory_equal(&sparse, &one_hot, sizeof sparse);
        assert_memory_equal(gradient, r.gradient, (size_t)r.length * 4);
        for (int n = 0; n < 6; n++)
            for (int c = 0; c < 5; c++) rows[n][c] = (float)(1 + (n + c) % 3) / 8;
        OK(ls_plan_forward(plan, &input, &one_hot));
        assert_true(one_hot.loss != sparse.loss);
        OK(ls_plan_backward(plan, &input, gradient, NULL, NULL));
        OK(ls_params_get(r.params, r.graph->param_count - 1, gradient, soft_gradient[d]));
        ls_plan_destroy(&plan);
        ls_memory_free(arena);
        ls_memory_free(gradient);
        rig_free(&r);
    }
    assert_true(relative_distance(soft_gradient[0], soft_gradient[1], 5, 0) < 1e-5);
}

// A smoothed class number is a row of smoothed weights: 1 - S + S/5 for the class, S/5 for the others.
static void smoothing_labels_is_giving_smoothed_rows(void **state) {
    rig r;
    ls_plan *smooth, *rows;
    void *arena;
    float labels[6][5], *gradient;
    ls_loss_metrics sharp, smoothed, by_rows;
    rig_make(&r, odd_network(0), "cpu", 6);
    ls_plan_config config = {6, LS_DTYPE_F32, .training = 1, .label_smoothing = 0.25};
    OK(ls_plan_create(r.graph, r.device, r.params, &config, &smooth));
    config.label_smoothing = 0, config.one_hot = 1;
    OK(ls_plan_create(r.graph, r.device, r.params, &config, &rows));
    OK(ls_memory_alloc(ls_plan_arena_bytes(smooth) + ls_plan_arena_bytes(rows), &arena));
    OK(ls_memory_alloc(r.length * 4, &gradient));
    ls_plan_bind(smooth, arena, r.weights, r.copies);
    ls_plan_bind(rows, arena, r.weights, r.copies);
    for (int n = 0; n < 6; n++)
        for (int c = 0; c < 5; c++) labels[n][c] = r.labels[n] == c ? 0.8f : 0.05f;
    ls_plan_input input = r.input;
    input.labels = labels;
    OK(ls_plan_forward(r.plan, &r.input, &sharp));
    OK(ls_plan_forward(smooth, &r.input, &smoothed));
    OK(ls_plan_backward(smooth, &r.input, r.gradient, NULL, NULL));
    OK(ls_plan_forward(rows, &input, &by_rows));
    OK(ls_plan_backward(rows, &input, gradient, NULL, NULL));
    assert_true(fabs(smoothed.loss - sharp.loss) > 1e-3);
    assert_true(fabs(smoothed.loss - by_rows.loss) < 1e-6 * by_rows.loss);  // 0.8 and 0.05 are rounded to floats
    assert_int_equal(smoothed.correct, sharp.correct);
    assert_true(relative_distance(r.gradient, gradient, r.length, 0) < 1e-5);
    ls_plan_destroy(&smooth), ls_plan_destroy(&rows);
    ls_memory_free(arena), ls_memory_free(gradient);
    rig_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_alive_together_do_not_overlap),
        cmocka_unit_test(the_arena_is_told_apart),
        cmocka_unit_test(a_plan_needs_less_than_all_its_activations),
        cmocka_unit_test(whole_networks_agree_with_the_reference_device),
        cmocka_unit_test(buckets_come_in_order_and_cover_everything),
        cmocka_unit_test(running_twice_gives_the_same_bits),
        cmocka_unit_test(steps_are_recorded_while_the_trace_is_on),
        cmocka_unit_test(plans_of_other_sizes_share_the_parameters),
        cmocka_unit_test(parameters_come_back_as_they_were_set),
        cmocka_unit_test(segments_say_what_each_element_is),
        cmocka_unit_test(one_hot_labels_are_as_good_as_class_numbers),
        cmocka_unit_test(smoothing_labels_is_giving_smoothed_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
