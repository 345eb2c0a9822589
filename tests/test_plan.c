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
    ls_plan_buffer b[64];
    unsigned seed = 7;
    for (int round = 0; round < 200; round++) {
        int count = 2 + (int)(seed % 62);
        int64_t live = 0, most = 0, sum = 0;
        for (int i = 0; i < count; i++) {
            seed = seed * 1103515245u + 12345u;
            int first = (int)(seed >> 8) % 40, length = (int)(seed >> 20) % 10;
            b[i] = (ls_plan_buffer){.bytes = 1 + (int64_t)(seed >> 4) % 5000, .first = first, .last = first + length};
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
    ls_plan_buffer buffers[] = {
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
    ls_graph *g, *objective;
    ls_device *d;
    ls_params *params;
    ls_plan *training, *inference, *prediction;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    OK(ls__graph_with_classifier_loss(g, 0, 0, &objective));
    OK(ls_device_create("cpu", &(ls_device_options){.threads = 1}, &d));
    OK(ls_params_create(ls_graph_store(g), d, &params));
    OK(ls_plan_create(objective, d, params, &(ls_plan_config){.batch = 128, .mode = LS_PLAN_TRAINING}, &training));
    OK(ls_plan_create(objective, d, params, &(ls_plan_config){.batch = 128, .mode = LS_PLAN_EVALUATION}, &inference));
    OK(ls_plan_create(g, d, params, &(ls_plan_config){.batch = 128, .mode = LS_PLAN_PREDICTION}, &prediction));
    assert_true(ls_plan_arena_bytes(training) < ls_plan_activation_bytes(training));
    assert_true(ls_plan_activation_bytes(inference) < ls_plan_activation_bytes(training));
    assert_true(ls_plan_activation_bytes(prediction) <= ls_plan_activation_bytes(inference));
    ls_arena_parts parts = ls_plan_arena_parts(training);
    assert_int_equal(parts.activations + parts.backward + parts.workspace + parts.unused,
                     ls_plan_arena_bytes(training));
    assert_true(parts.activations > 0 && parts.backward >= 0 && parts.workspace > 0 && parts.unused >= 0);
    parts = ls_plan_arena_parts(inference);
    assert_int_equal(parts.backward, 0);
    ls_plan_destroy(&training);
    ls_plan_destroy(&inference);
    ls_plan_destroy(&prediction);
    ls_params_destroy(&params);
    ls_device_destroy(&d);
    ls_graph_destroy(&objective);
    ls_graph_destroy(&g);
}

// --- running ---------------------------------------------------------------------------------------------------------

// A network's training plan, with the same weights and input every time.
static void rig_make(rig *r, ls_graph *graph, const char *device, int64_t batch) {
    assert_true(rig_create(r, graph, device, &(ls_plan_config){.batch = batch, .mode = LS_PLAN_TRAINING}));
    int64_t size = ls_shape_count(ls_graph_input_at(graph, 0).shape);
    for (int64_t i = 0; i < batch * size; i++) r->images[i] = (float)(i * 2654435761u % 1000) / 1000;
    for (int i = 0; i < batch; i++) r->labels[i] = i % ls_graph_classes(graph), r->samples[i] = (uint64_t)i * 3;
    OK(ls_runner_initialize(r->run, 5));
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
        rig_make(&cpu, odd_network(variant), "cpu", 6);
        rig_make(&ref, odd_network(variant), "ref", 6);
        rig_sums a = rig_forward(&cpu), b = rig_forward(&ref);
        assert_true(fabs(a.loss - b.loss) < 1e-4 * b.loss);
        assert_true(a.correct == b.correct);
        rig_backward(&cpu);
        rig_backward(&ref);
        for (int i = 0; i < cpu.store->count; i++) {
            int64_t n = ls_shape_count(cpu.store->params[i].shape);
            float *x = rig_get(&cpu, i, cpu.gradient), *y = rig_get(&ref, i, ref.gradient);
            // Sums of at most a few hundred products in another order: well under 1e-4.
            double distance = relative_distance(x, y, n, 0);
            if (!(distance <= 1e-4))
                fail_msg("variant %d, %s: relative distance %g", variant, cpu.store->params[i].name, distance);
            free(x), free(y);
        }
        rig_free(&cpu);
        rig_free(&ref);
    }
}

// Backward of the rig's plan into a buffer of the test's.
static void backward_into(const rig *r, ls_buffer *gradient) {
    OK(ls_plan_backward(r->run->plan, r->run->queue, &r->run->feeds, ls_span_of(gradient, 0)));
    OK(ls_synchronize(r->run->queue));
}

// Backward in parts completes the vector from its beginning on, as far as it is asked for, and makes the same as in one go.
static void buckets_come_in_order_and_cover_everything(void **state) {
    rig r;
    ls_graph *g;
    ls_buffer *whole;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig_make(&r, g, "cpu", 4);
    OK(ls_buffer_create(r.device, r.length * 4, &whole));
    rig_forward(&r);
    backward_into(&r, whole);
    rig_poison(r.run);
    rig_forward(&r);
    ls_plan *plan = r.run->plan;
    ls_backward at = ls_plan_backward_begin(plan);
    int parts = 0;
    assert_int_equal(at.next, ls_plan_forward_steps(plan));
    for (int64_t end = 64; end <= r.length; end += 64) {
        int before = at.next;
        OK(ls_plan_backward_until(plan, r.run->queue, &r.run->feeds, ls_span_of(r.run->gradient, 0), end, &at));
        OK(ls_synchronize(r.run->queue));
        parts += at.next > before;
        assert_true(at.complete >= end || end == r.length);
        assert_memory_equal(r.run->gradient->memory, whole->memory, (size_t)end * 4);
    }
    assert_int_equal(at.next, ls_plan_step_count(plan));
    assert_in_range(parts, 6, 7);  // one for each layer with parameters, and what comes after the last
    ls_buffer_destroy(&whole);
    rig_free(&r);
}

// Forward in parts reads weights of no bucket that is not ready; buckets are read in the order that is said.
static void forward_waits_for_weights(void **state) {
    rig r;
    ls_graph *g;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig_make(&r, g, "cpu", 4);
    rig_sums whole = rig_forward(&r);
    ls_plan *plan = r.run->plan;
    int64_t ends[8];
    int order[8], next = 0;
    char ready[8] = {0};
    for (int b = 0; b < 8; b++) ends[b] = r.length / 64 * (b + 1) / 8 * 64;
    ls_plan_forward_order(plan, ends, 8, order);
    for (int i = 0; i < 8; i++) {
        const ls_buckets_ready map = {ends, 8, ready};
        int before = next;
        OK(ls_plan_forward_some(plan, r.run->queue, &r.run->feeds, &map, &next));
        assert_true(next >= before && next < ls_plan_forward_steps(plan));
        ready[order[i]] = 1;
    }
    const ls_buckets_ready all = {ends, 8, ready};
    OK(ls_plan_forward_some(plan, r.run->queue, &r.run->feeds, &all, &next));
    assert_int_equal(next, ls_plan_forward_steps(plan));
    double measures[2];
    OK(ls_read(r.run->queue, measures, ls_plan_measures(plan), sizeof measures));
    OK(ls_synchronize(r.run->queue));
    assert_memory_equal(&whole, measures, sizeof measures);
    rig_free(&r);
}

static void running_twice_gives_the_same_bits(void **state) {
    rig r;
    ls_graph *g;
    ls_buffer *first;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig_make(&r, g, "cpu", 16);
    OK(ls_buffer_create(r.device, r.length * 4, &first));
    rig_sums a = rig_forward(&r);
    backward_into(&r, first);
    rig_poison(r.run);  // nothing may be left over from a run before
    rig_sums b = rig_forward(&r);
    rig_backward(&r);
    assert_memory_equal(first->memory, r.gradient, (size_t)r.length * 4);
    assert_memory_equal(&a, &b, sizeof a);
    ls_buffer_destroy(&first);
    rig_free(&r);
}

// A recorded run computes the same, and its events are the plan's steps, one after the other without overlap.
static void steps_are_recorded_while_the_trace_is_on(void **state) {
    rig r;
    rig_make(&r, odd_network(0), "cpu", 6);
    ls_plan *plan = r.run->plan;
    int steps = ls_plan_step_count(plan);
    ls_buffer *first;
    ls_trace trace = {0};
    OK(ls_buffer_create(r.device, r.length * 4, &first));
    OK(ls_trace_allocate(&trace, steps));
    ls_plan_record(plan, &trace, 100);
    rig_sums a = rig_forward(&r);
    backward_into(&r, first);
    assert_int_equal(trace.count, 0);
    ls_trace_switch(&trace, 1);
    double begin = ls_clock();
    rig_sums b = rig_forward(&r);
    backward_into(&r, r.run->gradient);
    double end = ls_clock();
    assert_memory_equal(first->memory, r.gradient, (size_t)r.length * 4);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(trace.count, steps);
    assert_int_equal(trace.dropped, 0);
    double before = begin;
    for (int i = 0; i < steps; i++) {
        const ls_trace_event *e = &trace.events[i];
        assert_int_equal(e->name, 100 + i);
        assert_true(before <= e->start && e->start <= e->end && e->end <= end);
        before = e->end;
    }
    ls_plan_record(plan, NULL, 0);
    rig_forward(&r);
    assert_int_equal(trace.count, steps);
    ls_trace_release(&trace);
    ls_buffer_destroy(&first);
    rig_free(&r);
}

// --- parameters ------------------------------------------------------------------------------------------------------

// The plan of a runner that has not sealed its parameters yet would add copies; one made later finds what there is.
static void plans_of_other_sizes_share_the_parameters(void **state) {
    ls_graph *g, *objective;
    ls_device *d;
    ls_params *params;
    ls_plan *large, *small;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    OK(ls__graph_with_classifier_loss(g, 0, 0, &objective));
    OK(ls_device_create("cpu", &(ls_device_options){.threads = 1}, &d));
    OK(ls_params_create(ls_graph_store(g), d, &params));
    OK(ls_plan_create(objective, d, params, &(ls_plan_config){.batch = 16, .mode = LS_PLAN_TRAINING}, &large));
    int64_t length = ls_params_length(params);
    OK(ls_plan_create(objective, d, params, &(ls_plan_config){.batch = 3, .mode = LS_PLAN_TRAINING}, &small));
    assert_int_equal(ls_params_length(params), length);
    ls_plan_destroy(&small), ls_plan_destroy(&large);
    ls_params_destroy(&params);
    ls_device_destroy(&d);
    ls_graph_destroy(&objective);
    rig r;
    rig_make(&r, g, "cpu", 16);
    ls_runner *part = rig_runner(&r, r.graph, &(ls_plan_config){.batch = 3, .mode = LS_PLAN_TRAINING});
    assert_int_equal(ls_params_length(r.run->params), r.length);
    // The sum over a batch of 3 is the sum over the same three samples, whatever batch they are run in.
    double some = rig_forward_of(&r, part).loss, all = rig_forward(&r).loss;
    assert_true(some > 0 && some < all);
    OK(ls_runner_backward(part));
    const float *gradient = part->gradient->memory;
    for (int64_t i = 0; i < r.length; i++) assert_true(isfinite(gradient[i]));
    ls_runner_destroy(&part);
    rig_free(&r);
}

static void parameters_come_back_as_they_were_set(void **state) {
    ls_graph *g;
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    rig r;
    rig_make(&r, g, "cpu", 8);
    for (int i = 0; i < r.store->count; i++) {
        int64_t n = ls_shape_count(r.store->params[i].shape);
        float *in = rig_plain(&r, i);
        for (int64_t k = 0; k < n; k++) in[k] = (float)(k + i);
        OK(ls_runner_set(r.run, i, in));
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
    ls_queue *queue;
    ls_segment *segments;
    int count;
    OK(ls_device_create("ref", &(ls_device_options){.threads = 1}, &d));
    const ls_store *store = ls_graph_store(g);
    OK(ls_params_create(store, d, &params));
    OK(ls_queue_create(d, &queue));
    assert_int_equal(store->count, 8);
    for (int i = 7; i >= 0; i--) OK(ls__params_place(params, i, NULL));
    OK(ls_params_segments(params, g, &segments, &count));
    assert_int_equal(count, 8);
    float *plain;
    ls_buffer *buffer;
    int64_t length = ls_params_length(params);
    OK(ls_buffer_create(d, length * 4, &buffer));
    const float *vector = buffer->memory;
    OK(ls_memory_alloc(length * 4, &plain));
    for (int i = 0; i < store->count; i++) {
        for (int64_t k = 0; k < ls_shape_count(store->params[i].shape); k++)
            plain[k] = (float)(1 + store->params[i].role);
        OK(ls_params_set(params, queue, i, ls_span_of(buffer, 0), plain));
    }
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        const ls_segment *s = &segments[i];
        assert_true(s->begin == at && s->end > at && s->begin % LS_VECTOR_ALIGN == 0);
        assert_true(s->momentum == (s->statistic ? 0.75f : 0));
        assert_int_equal(s->frozen, 0);
        for (float role = vector[at]; at < s->end; at++) {
            assert_true(vector[at] == role || vector[at] == 0);
            assert_int_equal(s->kernel, role == 1 + LS_PARAM_KERNEL);
            assert_int_equal(s->statistic, role == 1 + LS_PARAM_STATISTIC);
        }
    }
    assert_int_equal(at, length);
    free(segments);
    ls_buffer_destroy(&buffer);
    ls_memory_free(plain);
    ls_queue_destroy(&queue);
    ls_params_destroy(&params);
    ls_device_destroy(&d);
    ls_graph_destroy(&g);
}

// --- labels ----------------------------------------------------------------------------------------------------------

// A plan of the rig's network and size that takes rows of weights for labels.
static ls_runner *with_rows(rig *r, ls_graph **graph) {
    OK(ls__graph_with_classifier_loss(r->network, 1, 0, graph));
    ls_runner *run = rig_runner(r, *graph, &r->run->plan->config);
    OK(ls_runner_write(run, 0, r->images));
    OK(ls_runner_key(run, 9, 1, r->samples));
    return run;
}

static rig_sums forward_with_rows(ls_runner *run, const void *rows) {
    double measures[2];
    OK(ls_runner_write(run, 1, rows));
    OK(ls_runner_forward(run, measures));
    return (rig_sums){measures[0], measures[1]};
}

// One-hot rows are the same as class numbers, to the bit; weights over several classes agree with the reference device.
static void one_hot_labels_are_as_good_as_class_numbers(void **state) {
    static const char *const devices[] = {"cpu", "ref"};
    float soft_gradient[2][5];
    for (int d = 0; d < 2; d++) {
        rig r;
        ls_graph *graph;
        float rows[6][5] = {{0}};
        rig_make(&r, odd_network(0), devices[d], 6);
        ls_runner *run = with_rows(&r, &graph);
        for (int n = 0; n < 6; n++) rows[n][r.labels[n]] = 1;
        rig_sums sparse = rig_forward(&r), one_hot = forward_with_rows(run, rows);
        rig_backward(&r);
        OK(ls_runner_backward(run));
        assert_memory_equal(&sparse, &one_hot, sizeof sparse);
        assert_memory_equal(run->gradient->memory, r.gradient, (size_t)r.length * 4);
        for (int n = 0; n < 6; n++)
            for (int c = 0; c < 5; c++) rows[n][c] = (float)(1 + (n + c) % 3) / 8;
        assert_true(forward_with_rows(run, rows).loss != sparse.loss);
        OK(ls_runner_backward(run));
        OK(ls_runner_get(run, r.store->count - 1, run->gradient, soft_gradient[d]));
        ls_runner_destroy(&run);
        ls_graph_destroy(&graph);
        rig_free(&r);
    }
    assert_true(relative_distance(soft_gradient[0], soft_gradient[1], 5, 0) < 1e-5);
}

// A smoothed class number is a row of smoothed weights: 1 - S + S/5 for the class, S/5 for the others.
static void smoothing_labels_is_giving_smoothed_rows(void **state) {
    rig r;
    ls_graph *smooth_graph, *rows_graph;
    float labels[6][5];
    rig_make(&r, odd_network(0), "cpu", 6);
    OK(ls__graph_with_classifier_loss(r.network, 0, 0.25, &smooth_graph));
    ls_runner *smooth = rig_runner(&r, smooth_graph, &r.run->plan->config), *rows = with_rows(&r, &rows_graph);
    for (int n = 0; n < 6; n++)
        for (int c = 0; c < 5; c++) labels[n][c] = r.labels[n] == c ? 0.8f : 0.05f;
    rig_sums sharp = rig_forward(&r), smoothed = rig_forward_of(&r, smooth);
    OK(ls_runner_backward(smooth));
    rig_sums by_rows = forward_with_rows(rows, labels);
    OK(ls_runner_backward(rows));
    assert_true(fabs(smoothed.loss - sharp.loss) > 1e-3);
    assert_true(fabs(smoothed.loss - by_rows.loss) < 1e-6 * by_rows.loss);  // 0.8 and 0.05 are rounded to floats
    assert_true(smoothed.correct == sharp.correct);
    assert_true(relative_distance(smooth->gradient->memory, rows->gradient->memory, r.length, 0) < 1e-5);
    // Evaluation goes by the true targets.
    ls_plan_config config = {.batch = 6, .mode = LS_PLAN_EVALUATION};
    ls_runner *sharp_evaluation = rig_runner(&r, r.graph, &config);
    ls_runner *smooth_evaluation = rig_runner(&r, smooth_graph, &config);
    assert_true(rig_forward_of(&r, sharp_evaluation).loss == rig_forward_of(&r, smooth_evaluation).loss);
    ls_runner_destroy(&sharp_evaluation), ls_runner_destroy(&smooth_evaluation);
    ls_runner_destroy(&smooth), ls_runner_destroy(&rows);
    ls_graph_destroy(&smooth_graph), ls_graph_destroy(&rows_graph);
    rig_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_alive_together_do_not_overlap),
        cmocka_unit_test(the_arena_is_told_apart),
        cmocka_unit_test(a_plan_needs_less_than_all_its_activations),
        cmocka_unit_test(whole_networks_agree_with_the_reference_device),
        cmocka_unit_test(buckets_come_in_order_and_cover_everything),
        cmocka_unit_test(forward_waits_for_weights),
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
