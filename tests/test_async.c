// Asynchronous training without workers of its own: the clerk's bound on staleness in random histories, logs of pushes, and a job of one worker.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "async/async_impl.h"
#include "trainer_fixture.h"

// --- the clerk -------------------------------------------------------------------------------------------------------

enum { CLIENTS = 5, TICKETS = 400 };

typedef struct history {
    ls_clerk clerk;
    int64_t begun_on[CLIENTS], next[CLIENTS], asking[CLIENTS], applied, stale_most;
    int64_t pulled[CLIENTS];  // -1: it computes nothing
    int64_t given;
    int told_end;
} history;

static void hear(history *h) {
    ls_async_answer answer;
    int64_t ticket;
    for (int i; (i = ls__clerk_answer(&h->clerk, &answer, &ticket)) >= 0;) {
        if (answer == LS_ASYNC_END) {
            h->told_end++;
            continue;
        }
        assert_int_equal(ticket, ++h->given);
        h->pulled[i] = h->applied;
    }
}

// Whoever computes may push next; a slow one (client 0) does so rarely.
static void push_one(history *h, unsigned *seed) {
    int i = (int)(rand_r(seed) % CLIENTS);
    if (h->pulled[i] < 0 || (i == 0 && rand_r(seed) % 20)) return;
    int64_t stale = h->applied++ - h->pulled[i];
    if (stale > h->stale_most) h->stale_most = stale;
    h->pulled[i] = -1;
    ls__clerk_asks(&h->clerk, i, LS_VOTE_GO_ON);
    hear(h);
}

static history run_clerk(int64_t staleness, unsigned seed) {
    static history h;
    h = (history){.clerk = {.clients = CLIENTS, .staleness = staleness}};
    h.clerk.begun_on = h.begun_on, h.clerk.asking = h.asking, h.clerk.next = h.next;
    ls__clerk_begin(&h.clerk, 0, TICKETS);
    for (int i = 0; i < CLIENTS; i++) h.pulled[i] = -1;
    for (int i = 0; i < CLIENTS; i++) {
        ls__clerk_asks(&h.clerk, i, LS_VOTE_GO_ON);
        hear(&h);
    }
    for (int i = 0; i < 100 * TICKETS && h.told_end == 0; i++) push_one(&h, &seed);
    assert_int_equal(h.told_end, CLIENTS);
    assert_int_equal(h.applied, TICKETS);
    return h;
}

// No push is staler than the bound, which is reached; everything is given out once, in order, and all are told the end.
static void staleness_is_bounded(void **state) {
    for (int64_t n = 0; n < 9; n++) {
        int64_t most = 0;
        for (unsigned seed = 1; seed < 20; seed++) {
            history h = run_clerk(n, seed);
            assert_true(h.stale_most <= n);
            if (h.stale_most > most) most = h.stale_most;
        }
        assert_int_equal(most, n);
    }
    assert_true(run_clerk(-1, 1).stale_most > 9);
}

// --- logs ------------------------------------------------------------------------------------------------------------

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define HEAD "lockstep push log 1\nservers=1; workers=2; first=10\nmodel=m\nserver push ticket worker pulled\n"

static void logs_come_back(void **state) {
    char path[] = "test_async_log_XXXXXX";
    close(mkstemp(path));
    ls_push_log head = {.servers = 1, .workers = 2, .first = 10, .recipe = (char *)"model=m"}, log;
    const ls_push pushes[] = {{12, 10, 1, 0}, {11, 10, 0, 0}, {13, 11, 1, 0}};
    OK(ls_push_log_begin(path, &head));
    OK(ls_push_log_add(path, 0, 11, pushes, 2));
    OK(ls_push_log_add(path, 0, 13, pushes + 2, 1));
    OK(ls_push_log_read(path, &log));
    assert_int_equal(log.count, 3);
    assert_string_equal(log.recipe, "model=m");
    assert_int_equal(ls_push_log_of(&log, 0, 11)->pulled, 10);
    assert_int_equal(ls_push_log_of(&log, 0, 13)->pulled, 11);
    assert_int_equal(ls_push_log_pulls(&log, 0, 10), 2);
    assert_int_equal(ls_push_log_held(&log), 2);
    assert_true(log.order[0] == 11 && log.order[1] == 12 && log.order[2] == 13);
    ls_push_log_free(&log);
    static const char *const bad[] = {
        "",
        "lockstep push log 2\n",
        HEAD "0 11 11 0\n",
        HEAD "0 11 11 0 10 7\n",
        HEAD "1 11 11 0 10\n",
        HEAD "0 11 11 2 10\n",
        HEAD "0 12 11 0 10\n",
        HEAD "0 11 11 0 11\n",
        HEAD "0 11 11 0 9\n",
        HEAD "0 11 10 0 10\n",
        HEAD "0 11 12 0 10\n",
        HEAD "0 11 11 0 10\n0 12 11 1 10\n",
        "lockstep push log 1\nservers=0; workers=2; first=10\nmodel=m\nserver push ticket worker pulled\n",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        write_text(path, bad[i]);
        assert_int_equal(ls_push_log_read(path, &log), LS_STATUS_BAD_DATA);
        assert_non_null(strstr(ls_error_message(), path));
    }
    unlink(path);
    assert_int_equal(ls_push_log_read(path, &log), LS_STATUS_IO);
}

// --- one worker ------------------------------------------------------------------------------------------------------

// Is its own server: the bits of synchronous training, with norms, batch statistics' kind of rounding and several replicas; a replay of its log too.
static void one_worker_is_synchronous(void **state) {
    fixture *f = *state;
    char path[] = "test_async_push_XXXXXX";
    close(mkstemp(path));
    ls_train_config c = small();
    c.limit_train = 330, c.micro_batch = 8, c.replicas = 3, c.clip_norm = 0.05, c.compress = "bf16";
    ls_train_result first = train(f, &c);
    c.strategy = "parameter-server", c.async = 1, c.push_log = path;
    ls_train_result r = train(f, &c);
    assert_string_equal(r.weights_digest, first.weights_digest);
    assert_true(r.train_loss == first.train_loss && r.test_loss == first.test_loss);
    assert_true(!r.digest_by_timing && r.pushes == 12 && r.staleness_largest == 0);
    c.push_log = NULL, c.replay = path, c.replicas = 1;
    assert_string_equal(train(f, &c).weights_digest, first.weights_digest);
    unlink(path);
}

// A callback that stops, or fails, ends training as in synchronous training; steps are counted.
typedef struct seen {
    int64_t steps, last;
    ls_status fails;
} seen;

static ls_status on_step(void *user, const ls_step_report *step, int *stop) {
    seen *s = user;
    s->steps++;
    s->last = step->step;
    if (s->steps == 3) *stop = 1;
    return s->steps == 3 ? s->fails : LS_OK;
}

static void callbacks_end_it(void **state) {
    fixture *f = *state;
    ls_train_config c = small();
    c.limit_train = 640, c.strategy = "parameter-server", c.async = 1, c.replicas = 2;
    for (int fails = 0; fails < 2; fails++) {
        seen s = {.fails = fails ? LS_STATUS_IO : LS_OK};
        ls_callbacks callbacks = {.user = &s, .on_step = on_step};
        ls_trainer *t;
        ls_train_result r;
        OK(ls_trainer_create(f->context, f->graph, f->dataset, &c, &t));
        assert_int_equal(ls_trainer_fit(t, &callbacks), fails ? LS_STATUS_IO : LS_OK);
        OK(ls_trainer_result(t, &r));
        if (!fails) assert_true(r.epochs == 1 && r.epoch[0].steps == s.last && s.last == s.steps);
        ls_trainer_destroy(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(staleness_is_bounded),
        cmocka_unit_test(logs_come_back),
        cmocka_unit_test(one_worker_is_synchronous),
        cmocka_unit_test(callbacks_end_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
