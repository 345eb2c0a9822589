// Failures and their sentences, bfloat16, memory, the barrier, shapes, waiting.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lockstep/tensor.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/barrier.h"
#include "base/bf16.h"
#include "base/bytes.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/flight.h"
#include "base/limits.h"
#include "base/memory.h"
#include "base/patience.h"
#include "base/protobuf.h"
#include "base/text.h"
#include "base/trace.h"
#include "base/watch.h"

static ls_status open_file(const char *name) { return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no file \"%s\"", name); }

static ls_status read_all(const char *name) {
    LS_TRY(open_file(name));
    return LS_OK;
}

static ls_status read_and_clean(const char *name, int *cleaned) {
    ls_status status = LS_OK;
    LS_TRY_GOTO(read_all(name), done);
done:
    *cleaned = 1;
    return status;
}

static void failures_carry_a_sentence_and_a_trace(void **state) {
    int cleaned = 0;
    assert_int_equal(read_and_clean("a.idx", &cleaned), LS_STATUS_NOT_FOUND);
    assert_true(cleaned);
    assert_string_equal(ls_error_message(), "there is no file \"a.idx\"");
    int places = 1;
    for (const char *p = ls_error_trace(); (p = strstr(p, " < ")) != NULL; p++) places++;
    assert_int_equal(places, 3);
    assert_non_null(strstr(ls_error_trace(), "test_base.c:"));
    assert_int_equal(ls__fail_context(LS_STATUS_NOT_FOUND, "while reading %s: ", "mnist"), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(), "while reading mnist: there is no file \"a.idx\"");
    open_file("b.idx");  // a new failure starts a new sentence and a new trace
    assert_string_equal(ls_error_message(), "there is no file \"b.idx\"");
    assert_null(strstr(ls_error_trace(), " < "));
}

// The message may be built from the message before it, and from more than fits.
static void failures_survive_long_and_nested_text(void **state) {
    open_file("c.idx");
    LS_FAIL(LS_STATUS_IO, "first (%s) then more", ls_error_message());
    assert_string_equal(ls_error_message(), "first (there is no file \"c.idx\") then more");
    char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    LS_FAIL(LS_STATUS_IO, "%s", long_text);
    assert_true(strlen(ls_error_message()) < sizeof long_text);
    for (int i = 0; i < 100; i++) ls__fail_context(LS_STATUS_IO, "%s", long_text);
    for (int i = 0; i < 1000; i++) ls__fail_passed(LS_STATUS_IO, "src/base/somewhere.c", i);
    assert_true(strlen(ls_error_trace()) < sizeof long_text);
}

static void *fail_in_thread(void *name) {
    open_file(name);
    char *text = strdup(ls_error_message());
    return text;
}

static void failures_belong_to_their_thread(void **state) {
    pthread_t thread;
    void *text;
    open_file("main.idx");
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, "other.idx"), 0);
    pthread_join(thread, &text);
    assert_string_equal(text, "there is no file \"other.idx\"");
    assert_string_equal(ls_error_message(), "there is no file \"main.idx\"");
    ls__error_set(text);
    assert_string_equal(ls_error_message(), "there is no file \"other.idx\"");
    free(text);
}

static void status_names(void **state) {
    assert_string_equal(ls_status_name(LS_OK), "OK");
    assert_string_equal(ls_status_name(LS_STATUS_INTERNAL), "INTERNAL");
    assert_string_equal(ls_status_name((ls_status)1000), "UNKNOWN");
}

static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void bf16_rounds_to_nearest_even(void **state) {
    static const struct {
        uint32_t bits;
        uint16_t expected;
    } known[] = {
        {0x3F800000, 0x3F80},  // 1
        {0x80000000, 0x8000},  // -0
        {0x3F807FFF, 0x3F80},  // just under half way
        {0x3F808000, 0x3F80},  // half way, to even: down
        {0x3F808001, 0x3F81},  // just over
        {0x3F818000, 0x3F82},  // half way, to even: up
        {0xBF818000, 0xBF82},  // the same below zero
        {0x7F7FFFFF, 0x7F80},  // the largest float rounds to infinity
        {0x7F800000, 0x7F80},  // infinities stay
        {0xFF800000, 0xFF80},  // both
        {0x00000001, 0x0000},  // the least denormal
        {0x00018000, 0x0002},  // a denormal half way
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        assert_int_equal(ls_float_to_bf16(from_bits(known[i].bits)), known[i].expected);
    assert_true(isnan(ls_bf16_to_float(ls_float_to_bf16(from_bits(0x7F800001)))));  // would truncate to infinity
    assert_true(isnan(ls_bf16_to_float(ls_float_to_bf16(from_bits(0xFFFFFFFF)))));  // would carry over to zero
    for (uint32_t b = 0; b < 0x10000; b++) {
        float f = ls_bf16_to_float((ls_bf16)b);
        if (!isnan(f)) assert_int_equal(ls_float_to_bf16(f), b);
    }
}

static void memory_is_aligned_and_zero(void **state) {
    int64_t sizes[] = {0, 1, 63, 64, 65, 10 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *p;
        assert_int_equal(ls_memory_alloc(sizes[i], &p), LS_OK);
        assert_int_equal((uintptr_t)p % LS_ALIGN, 0);
        for (int64_t j = 0; j < sizes[i]; j++)
            if (p[j]) fail_msg("byte %lld is not zero", (long long)j);
        ls_memory_free(p);
    }
    void *p;
    assert_int_equal(ls_memory_alloc(-1, &p), LS_STATUS_INTERNAL);
    assert_null(p);
    assert_int_equal(ls_round_up(65, 64), 128);
    assert_int_equal(ls_round_up(64, 64), 64);
}

static void amounts_of_memory_are_read(void **state) {
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {{"1", 1},
                {"4096", 4096},
                {"1K", 1024},
                {"900m", 900 << 20},
                {"16G", (int64_t)16 << 30},
                {"1.5T", (int64_t)3 << 39}};
    static const char *const bad[] = {"",    "G",    "-1G", "0",   "0.2", "16GB", "1 G",
                                      "16Q", "0x10", "1e9", "inf", "nan", "1G2",  "9999999T"};
    static const struct {
        int64_t bytes;
        const char *text;
    } texts[] = {{0, "0 B"},
                 {999, "999 B"},
                 {1000, "1.0 kB"},
                 {94321987, "94.3 MB"},
                 {999949999, "999.9 MB"},
                 {999960000, "1.00 GB"},
                 {(int64_t)16 << 30, "17.18 GB"},
                 {INT64_MAX, "9223372.04 TB"}};
    int64_t bytes;
    char text[32];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(ls_bytes_parse(good[i].text, &bytes), LS_OK);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ls_bytes_parse(bad[i], &bytes) != LS_STATUS_INVALID_ARGUMENT) fail_msg("'%s' was taken", bad[i]);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(ls_bytes_text(texts[i].bytes, text), texts[i].text);
}

static void resident_memory_is_counted(void **state) {
    const int64_t bytes = 64 << 20, slack = 8 << 20;
    char *p;
    int64_t before = ls_memory_rss();
    if (before == 0) skip();  // the system does not tell
    assert_true(before > 1 << 20);
    assert_int_equal(ls_memory_alloc(bytes, &p), LS_OK);
    int64_t with = ls_memory_rss();
    ls_memory_free(p);
    int64_t after = ls_memory_rss(), peak = ls_memory_peak_rss();
    assert_true(with >= before + bytes && with < before + bytes + slack);
    assert_true(peak >= with - slack);
#ifdef LS_SANITIZED  // AddressSanitizer keeps what is freed for a while, and notes for each of its bytes that it is
    assert_true(after < with + slack + bytes / 8 && peak < with + slack + bytes / 8);
#else
    assert_true(after < with - bytes / 2 && peak < with + slack);
#endif
}

enum { THREADS = 4, ROUNDS = 2000 };

typedef struct barrier_job {
    ls_barrier barrier;
    int written[THREADS];
    int wrong;
} barrier_job;

typedef struct barrier_thread {
    barrier_job *job;
    int index;
} barrier_thread;

// Each round every thread writes its place, and after the barrier must see what all wrote.
static void *barrier_main(void *argument) {
    barrier_thread *t = argument;
    barrier_job *job = t->job;
    for (int round = 1; round <= ROUNDS; round++) {
        job->written[t->index] = round;
        ls_barrier_wait(&job->barrier);
        for (int i = 0; i < THREADS; i++)
            if (job->written[i] != round) __atomic_store_n(&job->wrong, 1, __ATOMIC_RELAXED);
        ls_barrier_wait(&job->barrier);
    }
    return NULL;
}

static void run_barrier(int spin) {
    static barrier_job job;
    memset(&job, 0, sizeof job);
    ls_barrier_init(&job.barrier, THREADS, spin);
    pthread_t thread[THREADS];
    barrier_thread argument[THREADS];
    for (int i = 0; i < THREADS; i++) {
        argument[i] = (barrier_thread){&job, i};
        assert_int_equal(pthread_create(&thread[i], NULL, barrier_main, &argument[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    assert_int_equal(job.wrong, 0);
}

static void barrier_yielding(void **state) { run_barrier(0); }
static void barrier_sleeping(void **state) { run_barrier(1); }
static void barrier_spinning(void **state) { run_barrier(100); }

static void *come_late(void *barrier) {
    usleep(200000);
    ls_barrier_wait(barrier);
    return NULL;
}

// Who waits for long sleeps: it gives its core away a few times only.
static void barrier_yields_to_sleep(void **state) {
    ls_barrier barrier;
    pthread_t late;
    struct timespec used;
    ls_barrier_init(&barrier, 2, 0);
    assert_int_equal(pthread_create(&late, NULL, come_late, &barrier), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    double before = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    ls_barrier_wait(&barrier);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    assert_true((double)used.tv_sec + 1e-9 * (double)used.tv_nsec - before < 0.05);
    pthread_join(late, NULL);
}

static void barrier_of_one_does_not_wait(void **state) {
    ls_barrier barrier;
    ls_barrier_init(&barrier, 1, 0);
    for (int i = 0; i < 3; i++) ls_barrier_wait(&barrier);
}

static void shapes(void **state) {
    assert_int_equal(ls_shape_count((ls_shape){0}), 1);
    assert_int_equal(ls_shape_count(LS_SHAPE(2, 3, 4)), 24);
    assert_true(ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(2, 3)));
    assert_false(ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(2, 3, 1)));
    assert_false(ls_shape_equal(LS_SHAPE(2, 3), LS_SHAPE(3, 2)));
    assert_int_equal(ls_dtype_size(LS_DTYPE_BF16), 2);
    assert_string_equal(ls_dtype_name(LS_DTYPE_F32), "fp32");
}

static void a_trace_keeps_what_fits_and_counts_the_rest(void **state) {
    ls_trace t = {0};
    assert_false(ls_trace_on(NULL));
    assert_false(ls_trace_on(&t));
    assert_int_equal(ls_trace_allocate(&t, 3), LS_OK);
    ls_trace_switch(&t, 1);
    assert_true(ls_trace_on(&t));
    for (int i = 0; i < 5; i++) ls_trace_add(&t, i, 10 + i, i, i + 0.5);
    assert_int_equal(t.count, 3);
    assert_int_equal(t.dropped, 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t.events[i].name, i);
        assert_int_equal(t.events[i].number, 10 + i);
        assert_true(t.events[i].start == i && t.events[i].end == i + 0.5);
    }
    ls_trace_release(&t);
    assert_false(ls_trace_on(&t));
    assert_null(t.events);
    assert_int_equal(t.capacity, 0);
}

// A file below `mount`, with its folders.
static void put(const char *mount, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", mount, name);
    for (char *slash = path + strlen(mount); (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

// Of both versions: the least of the group's own and those above it.
static void quotas_of_control_groups_are_read(void **state) {
    (void)state;
    char one[] = "/tmp/lockstep-groups.XXXXXX", two[] = "/tmp/lockstep-groups.XXXXXX", self[64], command[128];
    assert_true(mkdtemp(one) && mkdtemp(two));
    snprintf(self, sizeof self, "%s/self", two);
    assert_true(ls_limits_group_cpus_in(two, self) < 0);  // none of it is there
    put(two, "self", "0::/job/step\n");
    put(two, "cgroup.controllers", "cpu memory\n");
    put(two, "job/step/cpu.max", "max 100000\n");
    assert_true(ls_limits_group_cpus_in(two, self) < 0);
    put(two, "job/cpu.max", "150000 100000\n");
    assert_true(ls_limits_group_cpus_in(two, self) == 1.5);
    put(two, "job/step/cpu.max", "20000 40000\n");
    assert_true(ls_limits_group_cpus_in(two, self) == 0.5);
    put(two, "self", "4:memory:/other\n3:cpuacct,cpu:/box\n0::/\n");
    put(one, "cpu/cpu.cfs_quota_us", "-1\n");
    put(one, "cpu/cpu.cfs_period_us", "100000\n");
    put(one, "cpu/box/cpu.cfs_quota_us", "250000\n");
    put(one, "cpu/box/cpu.cfs_period_us", "100000\n");
    assert_true(ls_limits_group_cpus_in(one, self) == 2.5);
    put(two, "self", "3:cpu:/\n");
    assert_true(ls_limits_group_cpus_in(one, self) < 0);
    snprintf(command, sizeof command, "rm -r %s %s", one, two);
    assert_int_equal(system(command), 0);
}

static void durations_are_read_as_slurm_reads_them(void **state) {
    static const struct {
        const char *text;
        double seconds;
    } good[] = {{"90", 5400},     {"5:30", 330},       {"1:15:00", 4500},      {"01:15:00", 4500}, {"0:07", 7},
                {"2-12", 216000}, {"2-12:30", 217800}, {"2-12:30:05", 217805}, {"1-0:0:1", 86401}, {"0:90", 90}};
    double seconds;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(ls_duration_parse(good[i].text, &seconds), LS_OK);
        assert_true(seconds == good[i].seconds);
    }
    static const char *const bad[] = {"",    "0",   "0:00", "-5",  "5-",    "1-2-3", "1:2:3:4",     "1:",       ":1",
                                      "1.5", "1 h", "soon", "1-x", "+1:00", "1:-2",  "99999999999", "1-1:1:1:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (ls_duration_parse(bad[i], &seconds) != LS_STATUS_INVALID_ARGUMENT) fail_msg("takes '%s'", bad[i]);
        assert_non_null(strstr(ls_error_message(), "expected a time"));
    }
    char text[32];
    assert_string_equal(ls_duration_text(9.4, text), "9 s");
    assert_string_equal(ls_duration_text(65, text), "1:05 min");
    assert_string_equal(ls_duration_text(4500, text), "1:15:00 h");
}

static void text_is_added_up_to_its_end(void **state) {
    char text[16];
    for (size_t size = 0; size <= 8; size++) {
        memset(text, 'x', sizeof text);
        size_t used = 0;
        int whole = 1;
        for (int i = 0; i < 5; i++) whole &= ls_text_add(text, size, &used, "%s", "abc");
        assert_int_equal(whole, 0);
        assert_int_equal(used, size ? size - 1 : 0);
        if (size) assert_int_equal(text[used], 0);
        for (size_t i = size; i < sizeof text; i++) assert_int_equal(text[i], 'x');
    }
    size_t used = 0;
    assert_int_equal(ls_text_add(text, sizeof text, &used, "%d, ", 12), 1);
    assert_int_equal(ls_text_add(text, sizeof text, &used, "%d", 345), 1);
    assert_string_equal(text, "12, 345");
}

static void utf8_is_told(void **state) {
    static const char *const is[] = {"", "abc", "L\xC3\xA4nge", "\xE2\x82\xAC", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"},
                             *const is_not[] = {"L\xE4nge",         "\x80",         "\xC3",     "\xC0\xAF",
                                                "\xE0\x80\xAF",     "\xED\xA0\x80", "\xE2\x82", "\xF4\x90\x80\x80",
                                                "\xF5\x80\x80\x80", "\xFF"};
    for (size_t i = 0; i < sizeof is / sizeof is[0]; i++) assert_true(ls_text_is_utf8(is[i]));
    for (size_t i = 0; i < sizeof is_not / sizeof is_not[0]; i++) assert_false(ls_text_is_utf8(is_not[i]));
}

static void a_process_says_where_it_is(void **state) {
    char text[200];
    ls_flight_start();
    const ls_flight *own = ls_flight_own();
    if (!own) skip();  // no memory that has a name here
    ls_flight_mark(LS_FLIGHT_BACKWARD, 2, 17);
    ls_flight_bucket(3, 12);
    ls_flight_place(own, text, sizeof text);
    assert_string_equal(text, "backward, step 17 of epoch 2, before bucket 3 of 12");
    ls_flight_bucket(12, 12);
    ls_flight_place(own, text, sizeof text);
    assert_string_equal(text, "backward, step 17 of epoch 2, after bucket 11 of 12");
    ls_flight_wait("bucket 3 of 12", 1);
    ls_flight_place(own, text, sizeof text);
    assert_string_equal(text, "backward, step 17 of epoch 2, where it waits for bucket 3 of 12 (worker 1)");
    ls_flight_wait(NULL, -1);
    ls_flight_mark(LS_FLIGHT_EVALUATE, 2, 0);
    ls_flight_place(own, text, sizeof text);
    assert_string_equal(text, "evaluation of epoch 2");
    assert_false(ls_flight_has_left(own));
    ls_flight_leave();
    assert_true(ls_flight_has_left(own) && !ls_flight_was_asked(own));
    ls_flight_leave_asked();
    assert_true(ls_flight_has_left(own) && ls_flight_was_asked(own));
}

static void time_that_a_process_stood_still_is_no_waiting(void **state) {
    (void)state;
    int status;
    double since = ls_clock();
    pid_t child = fork();
    if (child == 0) {
        ls_patience_sleep(0.6);
        _exit(0);
    }
    usleep(200000);
    kill(child, SIGSTOP);
    usleep(1000000);
    kill(child, SIGCONT);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(ls_clock() - since >= 1.4);  // of the second at most a look counts
    ls_patience p = ls_patience_begin(0.1);
    usleep(300000);
    assert_true(ls_patience_look(&p) >= 0.19 && p.waited == 0.1);
}

static void note_state(void *user, int64_t process, char state) { *(char *)user = state; }

// By a signal, and under a debugger (where that may be: else it is by the signal again).
static void one_that_is_stopped_is_seen(void **state) {
    (void)state;
    for (int traced = 0; traced < 2; traced++) {
        int status;
        char seen, found = 0;
        pid_t child = fork();
        if (child == 0) {
            if (traced) ptrace(PTRACE_TRACEME, 0, NULL, NULL);
            raise(SIGSTOP);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        assert_true(ls_watch_started(child, &seen) > 0);
        assert_int_equal(seen, 'T');
        assert_int_equal(ls_watch_children(getpid(), note_state, &found), 1);
        assert_int_equal(found, 'T');
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
    }
}

static ls_status message_damaged(void *self, int64_t at, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "byte %lld: %s", (long long)at, why);
}

// By protobuf.dev, "Encoding": 150 is 96 01, "testing" is 7 bytes behind their length.
static void messages_of_protocol_buffers(void **state) {
    static const unsigned char expected[] = {
        0x1a, 3,    0x08, 0x96, 0x01,                                      // 3: {1: 150}
        0x12, 7,    't',  'e',  's',  't',  'i',  'n',  'g',               // 2: "testing"
        0x25, 0,    0,    0xc0, 0x3f,                                      // 4: 1.5, a float
        0x29, 0,    0,    0,    0,    0,    0,    0,    0xc0,              // 5: -2, a double
        0x30, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,  // 6: -1
    };
    ls_pb_out out = {0};
    ls_pb_put(&out, 1, 150);
    ls_pb_wrap(&out, 3, 0);
    ls_pb_put_text(&out, 2, "testing");
    ls_pb_put_float(&out, 4, 1.5f);
    ls_pb_put_double(&out, 5, -2);
    ls_pb_put(&out, 6, -1);
    assert_int_equal(out.status, LS_OK);
    assert_int_equal(out.size, sizeof expected);
    assert_memory_equal(out.bytes, expected, sizeof expected);
    free(out.bytes);

    const ls_pb_from from = {.bytes = expected, .damaged = message_damaged};
    ls_pb m = {&from, 0, sizeof expected}, inside;
    ls_pb_field f, g;
    int found, seen = 0;
    assert_int_equal(ls_pb_find(m, 2, &inside, &found), LS_OK);
    assert_true(found && inside.at == 7 && inside.end == 14);
    assert_int_equal(ls_pb_find(m, 6, &inside, &found), LS_OK);
    assert_false(found);
    for (; ls_pb_next(&m, &f) == LS_OK && f.number; seen++) {
        if (f.number == 3) assert_true(ls_pb_next(&f.bytes, &g) == LS_OK && g.number == 1 && g.value == 150);
        if (f.number == 4) assert_true(ls_pb_float(f.value) == 1.5f);
        if (f.number == 5) assert_true(ls_pb_double(f.value) == -2);
        if (f.number == 6) assert_true((int64_t)f.value == -1);
    }
    assert_int_equal(seen, 5);
    // Whatever it is cut off in is damage, and between its fields it is a message.
    for (int64_t cut = 0, whole = 0; cut < (int64_t)sizeof expected; cut++) {
        ls_status status;
        m = (ls_pb){&from, 0, cut};
        while ((status = ls_pb_next(&m, &f)) == LS_OK && f.number) continue;
        whole = cut == 0 || cut == 5 || cut == 14 || cut == 19 || cut == 28;
        assert_int_equal(status, whole ? LS_OK : LS_STATUS_BAD_DATA);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failures_carry_a_sentence_and_a_trace),
        cmocka_unit_test(utf8_is_told),
        cmocka_unit_test(failures_survive_long_and_nested_text),
        cmocka_unit_test(failures_belong_to_their_thread),
        cmocka_unit_test(messages_of_protocol_buffers),
        cmocka_unit_test(status_names),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(memory_is_aligned_and_zero),
        cmocka_unit_test(amounts_of_memory_are_read),
        cmocka_unit_test(resident_memory_is_counted),
        cmocka_unit_test(barrier_yielding),
        cmocka_unit_test(barrier_sleeping),
        cmocka_unit_test(barrier_yields_to_sleep),
        cmocka_unit_test(barrier_spinning),
        cmocka_unit_test(barrier_of_one_does_not_wait),
        cmocka_unit_test(shapes),
        cmocka_unit_test(a_trace_keeps_what_fits_and_counts_the_rest),
        cmocka_unit_test(text_is_added_up_to_its_end),
        cmocka_unit_test(a_process_says_where_it_is),
        cmocka_unit_test(durations_are_read_as_slurm_reads_them),
        cmocka_unit_test(quotas_of_control_groups_are_read),
        cmocka_unit_test(time_that_a_process_stood_still_is_no_waiting),
        cmocka_unit_test(one_that_is_stopped_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
