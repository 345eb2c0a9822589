// Work in a process of its own: answers, failures, and what becomes of a crash, of work without an end, of sleep, of too much memory, and of the process when
// its parent goes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/aside.h"
#include "base/error.h"

enum { ADD, FAIL, CRASH, FOREVER, EAT, NAP, SLEEP, OPEN, TELL };

static char pipe_path[64];

typedef struct shared {
    int what, a, b, sum;
    pid_t process;
} shared;

static ls_status work(void *user, void *memory) {
    shared *s = memory;
    int *calls = user;
    volatile int turn = 1;
    void *volatile much;
    switch (s->what) {
    case ADD: s->sum = s->a + s->b + ++*calls; return LS_OK;
    case FAIL: return LS_FAIL(LS_STATUS_NOT_FOUND, "%d is not there\033[2J", s->a);
    case CRASH:
        signal(SIGSEGV, SIG_DFL);  // a sanitizer leaves it to cmocka, which would go on with its tests
        raise(SIGSEGV);
        return LS_OK;
    case FOREVER:
        while (turn) turn = 1;
        return LS_OK;
    case EAT:
        much = malloc((size_t)1 << 40);
        turn = much == NULL;
        free(much);
        return turn ? LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "too much") : LS_OK;
    case NAP:
        for (int i = 0; i < 12; i++) usleep(200000);
        return LS_OK;
    case SLEEP: sleep(60); return LS_OK;
    case OPEN: return open(pipe_path, O_RDONLY) < 0 ? LS_FAIL(LS_STATUS_IO, "not opened") : LS_OK;
    default: s->process = getpid(); return LS_OK;
    }
}

static ls_aside *begin(int *calls) {
    const ls_aside_options options = {.fn = work,
                                      .user = calls,
                                      .path = "a.file",
                                      .library = "the library",
                                      .bytes = (int64_t)sizeof(shared),
                                      .seconds = 1,
                                      .patience = 1,
                                      .memory = (int64_t)1 << 30};
    ls_aside *a;
    if (ls_aside_create(&options, &a) != LS_OK) fail_msg("%s", ls_error_message());
    return a;
}

static ls_status ask(ls_aside *a, int what) {
    ((shared *)ls_aside_memory(a))->what = what;
    return ls_aside_ask(a);
}

static void answers(void **state) {
    int calls = 0;
    ls_aside *a = begin(&calls);
    shared *s = ls_aside_memory(a);
    s->a = 3;
    s->b = 4;
    assert_int_equal(ask(a, ADD), LS_OK);
    assert_int_equal(s->sum, 8);
    assert_int_equal(ask(a, FAIL), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(), "3 is not there?[2J");
    assert_int_equal(ask(a, ADD), LS_OK);
    assert_int_equal(s->sum, 9);  // the process is the same one
    assert_int_equal(calls, 0);   // and not this one
#ifndef LS_SANITIZED
    assert_int_equal(ask(a, EAT), LS_STATUS_OUT_OF_MEMORY);
#endif
    // What a terminal or a scheduler sends to all is not for it.
    assert_int_equal(ask(a, TELL), LS_OK);
    kill(s->process, SIGINT);
    kill(s->process, SIGTERM);
    assert_int_equal(ask(a, ADD), LS_OK);
    ls_aside_destroy(&a);
    assert_null(a);
    ls_aside_destroy(&a);
}

static void dies(int what, const char *words) {
    int calls = 0;
    ls_aside *a = begin(&calls);
    assert_int_equal(ask(a, what), LS_STATUS_BAD_DATA);
    if (!strstr(ls_error_message(), words) || !strstr(ls_error_message(), "a.file")) fail_msg("%s", ls_error_message());
    assert_int_equal(ask(a, ADD), LS_STATUS_BAD_DATA);  // ever after
    if (!strstr(ls_error_message(), words)) fail_msg("%s", ls_error_message());
    ls_aside_destroy(&a);
}

// In a program that ignores what becomes of its children nobody is told why.
static void dies_unseen(void) {
    signal(SIGCHLD, SIG_IGN);
    dies(CRASH, "the process in which the library read this file has ended");
    signal(SIGCHLD, SIG_DFL);
}

// As a lock of another thread's that was copied while it was held: the first process never gets anywhere.
static int *hangs;
static void hang(void) {
    if (hangs && (*hangs)-- > 0) pause();
}

static void hangs_at_its_start(void **state) {
    int calls = 0;
    hangs = mmap(NULL, sizeof *hangs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(hangs != MAP_FAILED && pthread_atfork(NULL, NULL, hang) == 0);
    *hangs = 1;
    ls_aside *a = begin(&calls);
    assert_int_equal(ask(a, ADD), LS_OK);
    assert_int_equal(ask(a, ADD), LS_OK);
    ls_aside_destroy(&a);
}

// A program that has closed what every program begins with: the line has these numbers.
static void without_first_descriptors(void **state) {
    for (int closed = 0; closed < 3; closed++) {
        int calls = 0, status;
        pid_t program = fork();
        if (program == 0) {
            for (int fd = 0; fd < 3; fd++)
                if (fd != closed) close(fd);
            ls_aside *a = begin(&calls);
            for (int i = 0; i < 2; i++)
                if (ask(a, ADD) != LS_OK) _exit(1);
            int sum = ((shared *)ls_aside_memory(a))->sum;
            ls_aside_destroy(&a);
            _exit(sum == 2 ? 0 : 2);
        }
        assert_int_equal(waitpid(program, &status, 0), program);
        assert_int_equal(status, 0);
    }
}

static void deaths(void **state) {
    dies(CRASH, "the library crashes on this file");
    dies_unseen();
    dies(FOREVER, "the library does not come to an end with this file");
    int calls = 0;
    ls_aside *a = begin(&calls);
    shared *s = ls_aside_memory(a);
    assert_int_equal(ask(a, TELL), LS_OK);
    kill(s->process, SIGKILL);
    assert_int_equal(ask(a, ADD), LS_STATUS_OUT_OF_MEMORY);
    assert_non_null(strstr(ls_error_message(), "was killed: memory ran out"));
    ls_aside_destroy(&a);
}

// One that wakes up now and then is left alone; one that sleeps on is ended, with what it waits for where the system tells.
static void sleeps(void **state) {
    int calls = 0;
    snprintf(pipe_path, sizeof pipe_path, "/tmp/lockstep-aside-%d", (int)getpid());
    ls_aside *a = begin(&calls);
    pid_t process;
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_int_equal(ask(a, NAP), LS_OK);
    assert_int_equal(ask(a, TELL), LS_OK);
    process = ((shared *)ls_aside_memory(a))->process;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(a, i ? ADD : OPEN), LS_STATUS_IO);
        if (!strstr(ls_error_message(), "a.file: the library has waited for 1 s ") ||
            (!strstr(ls_error_message(), pipe_path) && !strstr(ls_error_message(), "for what it reads")))
            fail_msg("%s", ls_error_message());
        assert_int_not_equal(kill(process, 0), 0);
    }
    ls_aside_destroy(&a);
    unlink(pipe_path);
}

// A parent that is killed takes it along, although another such process was started after it, and although it works.
static void goes_with_its_parent(void **state) {
    int line[2], calls = 0;
    char end;
    pid_t processes[3];
    assert_int_equal(pipe(line), 0);
    pid_t parent = fork();
    if (parent == 0) {
        ls_aside *a[3] = {begin(&calls), begin(&calls), begin(&calls)};
        for (int i = 0; i < 3; i++) {
            if (ask(a[i], TELL) != LS_OK) _exit(1);
            processes[i] = ((shared *)ls_aside_memory(a[i]))->process;
        }
        if (kill(processes[1], SIGSTOP) != 0) _exit(1);  // what it held open it would hold still
        if (write(line[1], processes, sizeof processes) != sizeof processes) _exit(1);
        setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = 100000}, NULL);  // its signal ends this process
        ask(a[2], SLEEP);
    }
    close(line[1]);
    assert_int_equal(read(line[0], processes, sizeof processes), sizeof processes);
    assert_int_equal(read(line[0], &end, 1), 0);
    assert_int_equal(waitpid(parent, NULL, 0), parent);
    for (int i = 0; i < 3; i++)  // or a zombie of whoever adopts orphans here
        for (int t = 0; t < 1000 && kill(processes[i], 0) == 0; t++) {
            char name[64], status[64] = "";
            snprintf(name, sizeof name, "/proc/%d/stat", (int)processes[i]);
            FILE *f = fopen(name, "r");
            if (f && fscanf(f, "%*d %*s %8s", status) != 1) status[0] = 0;
            if (f) fclose(f);
            if (status[0] == 'Z' || !status[0]) break;
            assert_true(t < 999);
            if (i == 1) kill(processes[1], SIGCONT);
            usleep(10000);
        }
    close(line[0]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(answers),
                                       cmocka_unit_test(deaths),
                                       cmocka_unit_test(sleeps),
                                       cmocka_unit_test(goes_with_its_parent),
                                       cmocka_unit_test(without_first_descriptors),
                                       cmocka_unit_test(hangs_at_its_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
