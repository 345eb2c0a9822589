// The workers of a host, as the process above their launcher sees them: the first that ends without having left is the lost one, for certain where all others
// go on, and the others are spoken of once.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/flight.h"
#include "base/lost.h"
#include "cli/survivors.h"

enum { WORKERS = 3 };

typedef struct job {
    pid_t process[WORKERS];
    int orders;  // a pipe's end: a worker that reads from it leaves
    cli_survivors *list;
} job;

static void nothing(void *user, const char *sentence, int lost) {}

// The process that a worker is: it says that it is there, waits for an order, and leaves.
static int work(void) {
    char order;
    ls_lost_start(nothing, NULL);
    ls_flight_mark(LS_FLIGHT_FORWARD, 2, 7);
    if (write(STDOUT_FILENO, "i", 1) != 1 || read(STDIN_FILENO, &order, 1) != 1) return 1;
    if (order == 'a') {
        ls_flight_leave_asked();
        raise(SIGTERM);
    }
    ls_flight_leave();
    return 0;
}

static void start_worker(job *j, int rank, int orders, int answers) {
    char text[16];
    snprintf(text, sizeof text, "%d", rank);
    setenv("PMI_RANK", text, 1);
    j->process[rank] = fork();
    assert_true(j->process[rank] >= 0);
    if (j->process[rank] > 0) return;
    dup2(orders, STDIN_FILENO);
    dup2(answers, STDOUT_FILENO);
    execl("/proc/self/exe", "test_survivors", "worker", (char *)NULL);
    _exit(127);
}

static job begin(void) {
    job j = {.list = cli_survivors_new()};
    int orders[2], answers[2];
    char answer;
    assert_non_null(j.list);
    assert_true(pipe2(orders, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0);
    for (int rank = 0; rank < WORKERS; rank++) start_worker(&j, rank, orders[0], answers[1]);
    for (int rank = 0; rank < WORKERS; rank++) assert_int_equal(read(answers[0], &answer, 1), 1);
    close(orders[0]), close(answers[0]), close(answers[1]);
    j.orders = orders[1];
    cli_survivors_find(j.list, getpid());
    cli_survivors_find(j.list, getpid());  // they are there
    return j;
}

static void end(job *j) {
    for (int rank = 0; rank < WORKERS; rank++) {
        if (j->process[rank] <= 0) continue;
        kill(j->process[rank], SIGKILL);
        waitpid(j->process[rank], NULL, 0);
    }
    cli_survivors_free(&j->list);
    assert_null(j->list);
    close(j->orders);
}

static void see_it_end(pid_t process) {
    siginfo_t how;
    assert_int_equal(waitid(P_PID, (id_t)process, &how, WEXITED | WNOWAIT), 0);
}

static void end_it(pid_t process) {
    kill(process, SIGKILL);
    see_it_end(process);
}

static int ends_within(const cli_survivors *list, int milliseconds) {
    struct pollfd wait = {.fd = cli_survivors_ends(list), .events = POLLIN};
    return poll(&wait, 1, milliseconds);
}

// What it says on the standard error, to be freed.
static char *said(const cli_survivors *list, int lost, int sure, int most, int *more) {
    char *text = calloc(1, 4096);
    int ends[2], before = dup(STDERR_FILENO);
    assert_true(text && pipe(ends) == 0 && before >= 0);
    dup2(ends[1], STDERR_FILENO);
    *more = cli_survivors_say(list, "train", lost, sure, most);
    dup2(before, STDERR_FILENO);
    close(before), close(ends[1]);
    assert_true(read(ends[0], text, 4095) >= 0);
    close(ends[0]);
    return text;
}

static void one_that_ends_alone_is_lost(void **state) {
    job j = begin();
    int sure, more;
    assert_int_equal(ends_within(j.list, 0), 0);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), -1);
    end_it(j.process[2]);
    assert_int_equal(ends_within(j.list, 10000), 1);
    cli_survivors_look(j.list);
    assert_int_equal(cli_survivors_ends(j.list), -1);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), 2);
    assert_true(sure);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS + 1, &sure), -1);  // one is not seen
    cli_survivors_heard(j.list, 0);
    char *text = said(j.list, 2, 1, 8, &more);
    assert_non_null(strstr(text, "worker 1 on "));
    assert_non_null(
        strstr(text, " has lost worker 2, and was ended before it could say so. It was at: forward, step 7"));
    assert_null(strstr(text, "worker 0 on "));  // which has said it
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    assert_int_equal(more, 0);
    free(text);
    end(&j);
}

// One worker, whichever, gets an order, and ends by it. Its rank.
static int order_one(job *j, const char *order, int *status) {
    int rank = 0;
    assert_int_equal(write(j->orders, order, 1), 1);
    pid_t process = waitpid(-1, status, 0);
    while (rank < WORKERS && j->process[rank] != process) rank++;
    assert_true(rank < WORKERS);
    j->process[rank] = 0;
    return rank;
}

// A worker that has finished ends before one that is killed.
static void one_that_has_finished_is_not_lost(void **state) {
    job j = begin();
    int sure, more, status, finished = order_one(&j, "f", &status), killed = (finished + 1) % WORKERS;
    assert_int_equal(status, 0);
    assert_int_equal(ends_within(j.list, 10000), 1);
    cli_survivors_look(j.list);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), -1);
    assert_int_equal(ends_within(j.list, 0), 0);
    end_it(j.process[killed]);
    assert_int_equal(ends_within(j.list, 10000), 1);
    cli_survivors_look(j.list);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), killed);
    assert_true(sure);
    char *text = said(j.list, killed, sure, 0, &more);
    assert_string_equal(text, "");
    assert_int_equal(more, 1);
    free(text);
    end(&j);
}

static void one_that_is_asked_to_end_is_lost(void **state) {
    job j = begin();
    int sure, status, asked = order_one(&j, "a", &status);
    assert_true(WIFSIGNALED(status));
    cli_survivors_look(j.list);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), asked);
    assert_true(sure);
    end(&j);
}

static void count_states(void *user, int64_t process, char state) {
    int *counts = user;
    counts[state == 'T']++;
}

static void those_that_are_there_are_told_with_their_states(void **state) {
    job j = begin();
    int counts[2] = {0}, status;
    order_one(&j, "f", &status);
    for (int rank = 0; rank < WORKERS; rank++) {
        if (j.process[rank] <= 0) continue;
        kill(j.process[rank], SIGSTOP);
        waitpid(j.process[rank], &status, WUNTRACED);
        break;
    }
    cli_survivors_each(j.list, count_states, counts);
    assert_int_equal(counts[0], WORKERS - 2);
    assert_int_equal(counts[1], 1);
    end(&j);
}

// A launcher sees an end by a connection, whose number may be above those that are free when a worker begins.
static void an_end_is_seen_before_a_connection_closes(void **state) {
    enum { NUMBER = 200 };
    int ends[2], see = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event pipe_end = {.data.u32 = 1}, connection = {.data.u32 = 2}, event;
    assert_true(see >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    assert_int_equal(dup2(ends[1], NUMBER), NUMBER);  // the workers have it
    close(ends[1]);
    job j = begin();
    close(NUMBER);
    for (int rank = 1; rank < WORKERS; rank++) end_it(j.process[rank]);
    const ls_flight *flight = ls_flight_open(j.process[0]);
    assert_non_null(flight);
    int file = ls_flight_open_end(flight, j.process[0]);
    assert_true(file >= 0);
    assert_int_equal(epoll_ctl(see, EPOLL_CTL_ADD, ends[0], &connection), 0);
    assert_int_equal(epoll_ctl(see, EPOLL_CTL_ADD, file, &pipe_end), 0);
    end_it(j.process[0]);
    assert_int_equal(epoll_wait(see, &event, 1, 10000), 1);
    assert_int_equal(event.data.u32, 1);
    close(file), close(see), close(ends[0]);
    ls_flight_close(&flight);
    end(&j);
}

static void two_that_end_are_told_apart_by_order(void **state) {
    job j = begin();
    int sure, more;
    end_it(j.process[1]);
    end_it(j.process[0]);
    cli_survivors_look(j.list);
    assert_int_equal(cli_survivors_lost(j.list, WORKERS, &sure), 1);
    assert_false(sure);
    char *text = said(j.list, 1, sure, 8, &more);
    assert_non_null(strstr(text, "worker 0 on "));
    assert_non_null(strstr(text, "worker 2 on "));
    assert_non_null(strstr(text, " has lost worker 1" CLI_SEEMS ", and was ended "));
    free(text);
    text = said(j.list, 0, 1, 8, &more);  // as a launcher has it that sees the other one first
    assert_non_null(strstr(text, "worker 2 on "));
    assert_null(strstr(text, "worker 0 on "));
    char *line = strstr(text, "worker 1 on ");
    assert_non_null(line);
    line[strcspn(line, "\n")] = 0;
    assert_non_null(strstr(line, " was ended before it could say anything. "));
    free(text);
    end(&j);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_ends_alone_is_lost),
        cmocka_unit_test(one_that_has_finished_is_not_lost),
        cmocka_unit_test(one_that_is_asked_to_end_is_lost),
        cmocka_unit_test(those_that_are_there_are_told_with_their_states),
        cmocka_unit_test(an_end_is_seen_before_a_connection_closes),
        cmocka_unit_test(two_that_end_are_told_apart_by_order),
    };
    unsetenv("OMPI_COMM_WORLD_RANK");
    return argc > 1 ? work() : cmocka_run_group_tests(tests, NULL, NULL);
}
