// Traces: what stands in the file, that it is one picture of all workers, and what the summary makes of it.
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/trace.h"
#include "ok.h"
#include "report/trace_report.h"
#include "train/timeline.h"

static char folder[] = "/tmp/lockstep-trace.XXXXXX";
static char path[256];

static int make_folder(void **state) {
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/trace.json", folder);
    return 0;
}

static int remove_folder(void **state) {
    unlink(path);
    return rmdir(folder);
}

static json_t *read_json(void) {
    json_error_t error;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("not JSON: line %d: %s", error.line, error.text);
    return root;
}

static const char *text_of(const json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}
static double number_of(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

// --- the file --------------------------------------------------------------------------------------------------------

static void clocks_are_brought_together(void **state) {
    // 5 s ahead at its 105, 5.002 at its 205: 20 parts in a million too fast.
    ls_trace_clock c = {.zero = 90, .from = 105, .to = 205, .offset_from = 5, .offset_to = 5.002};
    assert_int_equal(ls_trace_time(&c, 105), 10000000000);
    assert_int_equal(ls_trace_time(&c, 205), 109998000000);
    assert_int_equal(ls_trace_time(&c, 155), 59999000000);
    assert_int_equal(ls_trace_time(&(ls_trace_clock){.zero = 3}, 2.5), -500000000);
}

static const ls_trace_name names[] = {{"outer", "a"}, {"in\"ner\\ \n", "b"}};

static void spans_nest_in_the_file_as_in_the_recorder(void **state) {
    ls_trace_event events[300];
    double at = 12345.678;
    // Three inside one, each end being the next start, at times that no decimal number hits.
    for (int i = 0; i < 300; i += 4) {
        double outer = at;
        for (int j = 0; j < 3; j++, at += 1.0 / 3e6) events[i + j] = (ls_trace_event){at, at + 1.0 / 3e6, 1, 0};
        events[i + 2].end = at;
        events[i + 3] = (ls_trace_event){outer, at, 0, 7};
    }
    FILE *out = fopen(path, "w");
    ls_trace_file f;
    ls_trace_file_begin(&f, out);
    ls_trace_file_text(&f, "who", "a \"name\"");
    ls_trace_file_number(&f, "answer", 42);
    ls_trace_file_process(&f, 1, "worker 0");
    ls_trace_file_thread(&f, 1, 2, "replica 1");
    ls_trace_clock clock = {.zero = 12345, .from = 12345, .to = 12346, .offset_to = 1e-5};
    ls_trace_file_spans(&f, 1, 2, events, 300, names, &clock);
    ls_trace_file_end(&f);
    assert_int_equal(fclose(out), 0);

    json_t *root = read_json(), *event;
    assert_string_equal(text_of(json_object_get(root, "otherData"), "who"), "a \"name\"");
    assert_true(number_of(json_object_get(root, "otherData"), "answer") == 42);
    double start[3], end[3];
    size_t i, spans = 0;
    json_array_foreach(json_object_get(root, "traceEvents"), i, event) {
        if (strcmp(text_of(event, "ph"), "X") != 0) continue;
        int inner = spans++ % 4;
        double ts = number_of(event, "ts"), until = ts + number_of(event, "dur");
        if (inner < 3) {
            assert_string_equal(text_of(event, "name"), "in\"ner\\ \n");
            start[inner] = ts, end[inner] = until;
            continue;
        }
        assert_true(number_of(json_object_get(event, "args"), "outer") == 7);
        // Exact in the file; reading decimal microseconds as doubles may be off by a last bit.
        for (int j = 0; j < 3; j++) assert_true(start[j] >= ts - 1e-6 && end[j] <= until + 1e-6);
        for (int j = 1; j < 3; j++) assert_true(fabs(start[j] - end[j - 1]) < 1e-6);
    }
    assert_int_equal(spans, 300);
    json_decref(root);
}

static void a_file_without_spans_is_json_too(void **state) {
    FILE *out = fopen(path, "w");
    ls_trace_file f;
    ls_trace_file_begin(&f, out);
    ls_trace_file_end(&f);
    assert_int_equal(fclose(out), 0);
    json_decref(read_json());
}

// --- a job -----------------------------------------------------------------------------------------------------------

enum { REPLICAS = 2, EPOCHS = 2, STEPS = 3, MOST_TRACKS = 8, MOST_DEPTH = 8 };

// Every span lies within the one around it, or beside it: what viewers need to draw tracks.
static void check_nesting(const json_t *events) {
    for (int tid = 1; tid <= 2 * REPLICAS; tid++) {
        static double all[1 << 16][2];
        size_t i, n = 0;
        json_t *event;
        json_array_foreach(events, i, event) {
            if (strcmp(text_of(event, "ph"), "X") != 0 || number_of(event, "tid") != tid) continue;
            assert_true(n < 1 << 16);
            all[n][0] = number_of(event, "ts");
            all[n][1] = all[n][0] + number_of(event, "dur");
            assert_true(all[n][0] >= 0 && all[n][1] >= all[n][0]);
            n++;
        }
        assert_true(n > 0);
        // They are written when they end, so those that end inside a later one must begin in it too.
        for (size_t a = 0; a < n; a++)
            for (size_t b = a + 1; b < n && b < a + 400; b++) {
                int beside = all[b][0] >= all[a][1] - 1e-3, around = all[b][0] <= all[a][0] + 1e-3;
                if (!(all[b][1] >= all[a][1] - 1e-3 && (beside || around)))
                    fail_msg("track %d: span %zu crosses span %zu", tid, a, b);
            }
    }
}

static int count_of(const json_t *events, int tid, const char *category) {
    size_t i;
    int n = 0;
    json_t *event;
    json_array_foreach(events, i, event) n += strcmp(text_of(event, "ph"), "X") == 0 &&
                                              number_of(event, "tid") == tid &&
                                              strcmp(text_of(event, "cat"), category) == 0;
    return n;
}

static void check_file(void) {
    json_t *root = read_json(), *events = json_object_get(root, "traceEvents"), *event;
    char seen[MOST_TRACKS][64] = {""};
    size_t i;
    json_array_foreach(events, i, event) {
        assert_true(number_of(event, "pid") == 1);
        if (strcmp(text_of(event, "name"), "thread_name") == 0)
            snprintf(seen[(int)number_of(event, "tid")], 64, "%s", text_of(json_object_get(event, "args"), "name"));
    }
    assert_string_equal(seen[1], "replica 0");
    assert_string_equal(seen[2], "replica 1");
    assert_string_equal(seen[3], "loader of replica 0");
    assert_string_equal(seen[4], "loader of replica 1");
    for (int r = 1; r <= REPLICAS; r++) {
        assert_int_equal(count_of(events, r, "step"), EPOCHS * STEPS);
        // Four micro-batches of 16 for two replicas; one span each, and the layers in them.
        assert_int_equal(count_of(events, r, "forward"), EPOCHS * STEPS * 2);
        assert_int_equal(count_of(events, r, "backward"), EPOCHS * STEPS * 2);
        assert_true(count_of(events, r, "layer") >= EPOCHS * STEPS * 2 * 5);
        assert_int_equal(count_of(events, r, "epoch"), 2 * EPOCHS);
        assert_true(count_of(events, r, "update") >= EPOCHS * STEPS);
        assert_true(count_of(events, r, "wait") >= EPOCHS * STEPS);
        assert_true(count_of(events, r, "evaluation") > 3);
        assert_true(count_of(events, REPLICAS + r, "loader") > 0);
    }
    check_nesting(events);
    json_decref(root);
}

static void check_report(void) {
    ls_trace_report *t;
    assert_true(ls_trace_report_is(folder) && ls_trace_report_is(path));
    OK(ls_trace_report_load(folder, &t));
    assert_string_equal(t->model, "mnist-mlp");
    assert_int_equal(t->row_count, REPLICAS);
    assert_int_equal(t->recorded_first_step, 3);
    assert_int_equal(t->recorded_steps, STEPS);
    assert_int_equal(t->recorded_epochs, EPOCHS);
    assert_int_equal(t->dropped, 0);
    int64_t last = 0;
    double lateness = 0;
    for (int i = 0; i < REPLICAS; i++) {
        const ls_trace_times *s = &t->rows[i].times;
        assert_int_equal(t->rows[i].steps, EPOCHS * STEPS);
        assert_true(s->forward > 0 && s->backward > 0 && s->update > 0 && s->exchange > 0);
        double sum = s->load + s->forward + s->backward + s->exchange + s->wait + s->update + s->serial + s->rest;
        assert_true(fabs(sum - s->step) < 1e-9);
        // What is in no span is a look at the clock and the learning rate, unless the system takes the core just there.
        if (s->rest < -1e-9 || s->rest > 0.3 * s->step) fail_msg("rest %g of a step of %g", s->rest, s->step);
        last += t->rows[i].last;
        lateness += t->rows[i].lateness;
    }
    assert_int_equal(last, EPOCHS * STEPS);
    assert_true(fabs(lateness) < 1e-9);
    double share = 0, layers = 0;
    for (int i = 0; i < t->layer_count; i++) {
        share += t->layers[i].share;
        layers += t->layers[i].seconds;
        assert_true(i == 0 || t->layers[i].seconds <= t->layers[i - 1].seconds);
    }
    assert_true(fabs(share - 1) < 1e-9);
    double computing = REPLICAS * (t->mean.forward + t->mean.backward);
    assert_true(layers > 0 && layers <= computing);
    ls_trace_report_free(&t);
}

static void train(int64_t asked, char digest[65]) {
    ls_context *context;
    ls_dataset *data;
    ls_graph *graph;
    ls_trainer *t;
    ls_train_result r;
    ls_train_config c;
    ls_train_config_init(&c);
    c.epochs = EPOCHS, c.limit_train = 640, c.limit_test = 100, c.batch_size = 64, c.micro_batch = 16, c.bind = 0;
    c.replicas = REPLICAS;
    OK(ls_context_create(&context));
    OK(ls_dataset_open(context, "digits", &data));
    OK(ls_model_create("mnist-mlp", (ls_shape){0}, 0, &graph));
    OK(ls_trainer_create(context, graph, data, &c, &t));
    if (asked) {
        assert_int_equal(ls_trainer_trace_write(t, path), LS_STATUS_INVALID_ARGUMENT);
        assert_int_equal(ls_trainer_trace(t, 0), LS_STATUS_INVALID_ARGUMENT);
        OK(ls_trainer_trace(t, asked));
        assert_int_equal(ls_trainer_trace(t, asked), LS_STATUS_INVALID_ARGUMENT);
    }
    OK(ls_trainer_fit(t, NULL));
    OK(ls_trainer_evaluate(t, NULL, NULL));
    OK(ls_trainer_result(t, &r));
    snprintf(digest, 65, "%s", r.weights_digest);
    if (asked) {
        assert_int_equal(ls_trainer_trace_write(t, "/dev/null/x"), LS_STATUS_IO);
        assert_non_null(strstr(ls_error_message(), "cannot write the trace /dev/null/x: Not a directory"));
        if (access("/dev/full", W_OK) == 0) {
            assert_int_equal(ls_trainer_trace_write(t, "/dev/full"), LS_STATUS_IO);
            assert_non_null(strstr(ls_error_message(), "cannot write the trace /dev/full: No space left on device"));
        }
        OK(ls_trainer_trace_write(t, path));
    }
    ls_trainer_destroy(&t);
    ls_graph_destroy(&graph);
    ls_dataset_destroy(&data);
    ls_context_destroy(&context);
}

static void a_job_is_recorded_and_computes_the_same(void **state) {
    char with[65], without[65];
    train(0, without);
    train(STEPS, with);
    assert_string_equal(with, without);
    check_file();
    check_report();
    train(1000000, with);  // all there are
    assert_string_equal(with, without);
    ls_trace_report *t;
    OK(ls_trace_report_load(path, &t));
    assert_int_equal(t->recorded_first_step, 1);
    assert_int_equal(t->recorded_steps, 10);
    assert_int_equal(t->rows[0].steps, 10 * EPOCHS);
    assert_int_equal(t->dropped, 0);
    ls_trace_report_free(&t);
}

static void what_is_recorded_has_bounds(void **state) {
    static const struct {
        int64_t asked, steps, epochs, room, need, want_first, want_steps, want_epochs;
    } cases[] = {
        {10, 469, 5, 1000000, 300, 2, 10, 5},
        {10, 11, 5, 1000000, 300, 1, 10, 5},  // the warm-up gives way
        {10, 4, 5, 1000000, 300, 0, 4, 5},
        {1000, 469, 5, 100 * 300, 300, 2, 20, 5},  // 100 steps have room: 20 of each epoch
        {10, 469, 90, 12 * 300, 300, 2, 1, 12},    // 12 have: one of each of the first 12 epochs
        {10, 469, 3, 299, 300, 2, 1, 1},
        {1, 1, 1, 0, 300, 0, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_timeline l = {.asked = cases[i].asked};
        ls__timeline_choose(&l, cases[i].steps, cases[i].epochs, cases[i].room, cases[i].need);
        if (l.first != cases[i].want_first || l.steps != cases[i].want_steps || l.epochs != cases[i].want_epochs)
            fail_msg("case %zu: %d epochs of %d steps from %d", i, l.epochs, (int)l.steps, (int)l.first);
    }
}

// --- what the summary makes of it ------------------------------------------------------------------------------------

#define SPAN(pid, tid, ts, dur, cat, name)                                                                             \
    "{\"ph\":\"X\",\"pid\":" #pid ",\"tid\":" #tid ",\"ts\":" #ts ",\"dur\":" #dur ",\"cat\":\"" cat                   \
    "\",\"name\":\"" name "\"},\n"
#define STEP(pid, ts, dur, number)                                                                                     \
    "{\"ph\":\"X\",\"pid\":" #pid ",\"tid\":1,\"ts\":" #ts ",\"dur\":" #dur                                            \
    ",\"cat\":\"step\",\"name\":\"step\",\"args\":{\"step\":" #number "}},\n"
#define LABELS(pid, worker)                                                                                            \
    "{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":\"" worker                  \
    "\"}},\n{\"ph\":\"M\",\"pid\":" #pid                                                                               \
    ",\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"replica 0\"}},\n"                                        \
    "{\"ph\":\"M\",\"pid\":" #pid ",\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":\"messages\"}},\n"

static const char head[] =
    "{\"otherData\":{\"lockstep_trace\":1,\n\"model\":\"net\",\"data\":\"d\",\"precision\":\"fp32\",\n\"strategy\":"
    "\"s\","
    "\"workers\":2,\"hosts\":2,\"replicas_per_worker\":1,\"epochs\":1,\"steps_per_epoch\":9,\"steps_asked\":2,\n"
    "\"recorded_epochs\":1,\"recorded_first_step\":3,\"recorded_steps\":2,\"dropped_events\":0,"
    "\"clock_error_seconds\":2e-05},\n\"displayTimeUnit\":\"ms\",\n\"traceEvents\":[\n" LABELS(1, "worker 0 on a")
        LABELS(2, "worker 1 on b");

// Worker 1 computes 300 us longer than worker 0 in each step; 60 us of the messages of worker 0 overlap with its backward.
static const char body[] = SPAN(1, 1, 0, 100, "layer", "conv forward") SPAN(1, 1, 0, 110, "forward", "forward")
    SPAN(1, 1, 110, 200, "layer", "conv backward") SPAN(1, 1, 110, 220, "backward", "backward")
        SPAN(1, 2, 270, 80, "exchange", "gradients") SPAN(1, 1, 330, 320, "wait", "wait")
            SPAN(1, 1, 650, 100, "exchange", "sum") SPAN(1, 1, 750, 10, "wait", "wait")
                SPAN(1, 1, 760, 40, "update", "update") STEP(1, 0, 1000, 5) SPAN(1, 1, 1330, 0, "wait", "wait")
                    STEP(1, 1000, 1000, 6)  //
    SPAN(2, 1, 0, 300, "forward", "forward") SPAN(2, 1, 0, 200, "layer", "conv forward")
        SPAN(2, 1, 300, 330, "backward", "backward") SPAN(2, 1, 630, 20, "wait", "wait") STEP(2, 0, 1000, 5)
            SPAN(2, 1, 1000, 90, "wait", "between two steps") SPAN(2, 1, 1000, 10, "serial", "show progress")
                SPAN(2, 1, 1630, 20, "wait", "wait") STEP(2, 1100, 1000, 6)
                    SPAN(2, 1, 5000, 50, "evaluation", "conv forward");

static const char end[] =
    "{\"ph\":\"M\",\"pid\":1,\"tid\":1,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":1}}\n]}\n";

static void put(const char *a, const char *b, const char *c) {
    FILE *out = fopen(path, "w");
    fprintf(out, "%s%s%s", a, b, c);
    assert_int_equal(fclose(out), 0);
}

static void near(double x, double microseconds) {
    if (fabs(x - 1e-6 * microseconds) > 1e-12) fail_msg("%g is not %g us", x, microseconds);
}

static void numbers_of_a_made_up_trace(void **state) {
    ls_trace_report *t;
    char *text;
    put(head, body, end);
    OK(ls_trace_report_load(path, &t));
    assert_int_equal(t->row_count, 2);
    assert_string_equal(t->rows[0].name, "worker 0 on a");
    const ls_trace_times *a = &t->rows[0].times, *b = &t->rows[1].times;
    near(a->step, 1000), near(b->step, 1000);
    near(a->forward, 55), near(a->backward, 110), near(a->wait, 165), near(a->exchange, 50), near(a->update, 20);
    near(a->rest, 1000 - 400), near(a->hidden, 30);
    near(b->forward, 150), near(b->backward, 165), near(b->wait, 20), near(b->hidden, 0);
    near(t->mean.exchange, 25), near(t->mean.hidden, 15), near(t->mean.step, 1000);
    assert_int_equal(t->rows[0].last, 0);
    assert_int_equal(t->rows[1].last, 2);
    near(t->rows[1].lateness, 150), near(t->rows[0].lateness, -150);
    assert_int_equal(t->layer_count, 2);
    assert_string_equal(t->layers[0].name, "conv forward");
    near(t->layers[0].seconds, 150), near(t->layers[1].seconds, 100);
    assert_true(fabs(t->layers[0].share - 0.6) < 1e-9);
    OK(ls_trace_report_text(t, "x", &text));
    static const char *const said[] = {
        "x: net on d, 2 workers on 2 hosts x 1 replica, fp32, s\n",
        "Recorded: steps 3 to 4 of the 9 of each epoch, in 1 epoch.\n",
        "clocks agree to 20 microseconds",
        "  worker 0 on a     0.000     0.055     0.110     0.050     0.165     0.020     0.000     0.600     1.000\n",
        "  conv forward      0.150   60.0 %\n",
        "0.025 ms of a step's 1.000 ms (2.5 %) are exposed",
        "0.015 ms (38 % of all exchange) are hidden",
        "No straggler: worker 1 on b is latest, by 0.150 ms on average, and last in 2 of 2 steps.\n",  // chance may do that
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (!strstr(text, said[i])) fail_msg("'%s' is not in:\n%s", said[i], text);
    free(text);
    t->rows[1].last = 5;
    OK(ls_trace_report_text(t, "x", &text));
    static const char straggler[] =
        "The straggler: worker 1 on b had its gradients ready last in 5 of 5 steps, 0.150 ms after the mean (15.0 %";
    if (!strstr(text, straggler)) fail_msg("'%s' is not in:\n%s", straggler, text);
    free(text);
    t->rows[1].lateness = 5e-6;  // always last, and it does not matter
    OK(ls_trace_report_text(t, "x", &text));
    if (!strstr(text, "No straggler: ")) fail_msg("%s", text);
    free(text);
    ls_trace_report_free(&t);
}

static void refused(ls_status status, const char *sentence) {
    ls_trace_report *t;
    assert_int_equal(ls_trace_report_load(path, &t), status);
    assert_null(t);
    if (!strstr(ls_error_message(), sentence)) fail_msg("%s", ls_error_message());
}

static void what_is_no_whole_trace_is_refused(void **state) {
    put("[]\n", "", "");
    assert_false(ls_trace_report_is(path));
    refused(LS_STATUS_BAD_DATA, "line 2: the list of events does not begin");
    put(head, "", "");
    assert_true(ls_trace_report_is(path));
    refused(LS_STATUS_BAD_DATA, "the file ends in the middle");
    put(head, "", end);
    refused(LS_STATUS_BAD_DATA, "there is no step of one of the replicas");
    put(head, "{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":-1,\"cat\":\"a\",\"name\":\"b\"},\n", end);
    refused(LS_STATUS_BAD_DATA, "a span without name, category or times");
    put(head, "{\"ph\":\"X\",\"pid\":3,\"tid\":1},\n", end);
    refused(LS_STATUS_BAD_DATA, "a worker or thread that there is not");
    put(head, "{\"ph\":\"X\",\"pid\":1,\"tid\":-1},\n", end);
    refused(LS_STATUS_BAD_DATA, "a worker or thread that there is not");
    put(head, "nonsense\n", end);
    refused(LS_STATUS_BAD_DATA, "no event");
    put("{\"otherData\":{\"lockstep_trace\":2},\n", "\"traceEvents\":[\n", end);
    refused(LS_STATUS_BAD_DATA, "a trace of format 2, and this lockstep reads format 1");
    put("{\"otherData\":{\"lockstep_trace\":1,\"workers\":1e9},\n", "\"traceEvents\":[\n", end);
    refused(LS_STATUS_BAD_DATA, "the number of workers");
    // Sizes that the file has no room for: memory is taken for what is there, not for what is said.
    char *blanks = malloc(60001);
    memset(blanks, ' ', 60000);
    blanks[60000] = 0;
    put("{\"otherData\":{\"lockstep_trace\":1,\"workers\":1000,\"replicas_per_worker\":65536},\n",
        "\"traceEvents\":[\n", blanks);
    free(blanks);
    refused(LS_STATUS_BAD_DATA, "more workers and replicas than it has room for");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refused(LS_STATUS_IO, "cannot read");  // and does not wait for somebody to write
    unlink(path);
    refused(LS_STATUS_NOT_FOUND, "No such file");
    put("", "", "");
    assert_false(ls_trace_report_is(folder));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_are_brought_together),
        cmocka_unit_test(spans_nest_in_the_file_as_in_the_recorder),
        cmocka_unit_test(a_file_without_spans_is_json_too),
        cmocka_unit_test(a_job_is_recorded_and_computes_the_same),
        cmocka_unit_test(what_is_recorded_has_bounds),
        cmocka_unit_test(numbers_of_a_made_up_trace),
        cmocka_unit_test(what_is_no_whole_trace_is_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
