// The communicator over TCP: jobs of real processes on this machine, what every communicator is held to, who is let in, and what becomes of
// jobs that lose somebody.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/watch.h"
#include "comm/tcp_impl.h"
#include "comm_checks.h"

#define KEY "0123456789abcdef0123456789abcdef"
enum { MOST = 8, WORDS = 2048 };

// What a test looks like: what each worker of it does; `list` names them all. It ends with 0 where all was well.
typedef struct job {
    int size;
    char list[MOST * 32];
    ls_cluster cluster;
    void (*work)(ls_comm *comm, const struct job *job);
    int number;  // of the test's own
} job;

#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n    latest failure: %s\n", __FILE__, __LINE__, #condition,                     \
                    ls_error_message());                                                                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// Addresses of this machine that no other test has, by this process's number; below the ports that the system draws.
static void address(int host, char out[24]) {
    unsigned id = (unsigned)getpid();
    snprintf(out, 24, "127.%u.%u.%u", 1 + id / 250 % 250, 1 + id % 250, 1 + (unsigned)host % 250);
}

// Worker i counts as of host i % hosts: an address of its own.
static job new_job(int size, int hosts) {
    job j = {.size = size};
    size_t used = 0;
    for (int i = 0; i < size; i++) {
        char host[24];
        address(i % hosts, host);
        used += (size_t)snprintf(j.list + used, sizeof j.list - used, "%s%s:%d", i ? "," : "", host, 21000 + i);
    }
    ls_cluster_init(&j.cluster);
    j.cluster.join_seconds = 60;
    return j;
}

static pid_t start(const job *j, int task) {
    pid_t pid = fork();
    MUST(pid >= 0);
    if (pid > 0) return pid;
    ls_comm *comm;
    job mine = *j;
    mine.cluster.task = task;
    mine.cluster.hosts = mine.list;
    alarm(150);
    if (ls_comm_create_tcp(&mine.cluster, &comm) != LS_OK) {
        fprintf(stderr, "worker %d: %s\n", task, ls_error_message());
        _exit(1);
    }
    CHECK(comm, strcmp(comm->ops->name, "tcp") == 0 && comm->rank == task && comm->size == j->size);
    mine.work(comm, &mine);
    ls_comm_destroy(&comm);
    _exit(0);
}

static int end_of(pid_t pid) {
    int status;
    MUST(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void run(const job *j) {
    pid_t pids[MOST];
    for (int i = j->size - 1; i >= 0; i--) pids[i] = start(j, i);
    for (int i = 0; i < j->size; i++) {
        int code = end_of(pids[i]);
        if (code) fprintf(stderr, "worker %d of %s ended with %d\n", i, j->list, code);
        MUST(code == 0);
    }
}

// --- what all are held to --------------------------------------------------------------------------------------------

static void everything(ls_comm *comm, const job *j) {
    test_everything(comm, j->number);
    float x[1000], y[1000];
    for (int i = 0; i < 1000; i++) x[i] = (float)(comm->rank + i);
    CHECK_OK(comm, ls_comm_sum(comm, x, y, 1000));
    for (int i = 0; i < 1000; i++) CHECK(comm, y[i] == (float)(comm->size * i + comm->size * (comm->size - 1) / 2));
}

static void test_all_sizes(void) {
    static const int sizes[][2] = {{1, 1}, {2, 1}, {2, 2}, {3, 2}, {5, 2}, {5, 5}};
    for (int i = 0; i < 6; i++) {
        job j = new_job(sizes[i][0], sizes[i][1]);
        j.work = everything;
        j.number = sizes[i][1];
        run(&j);
    }
}

// --- messages --------------------------------------------------------------------------------------------------------

// Messages that are asked for in another order than they are sent in, some of them long before, some long after; of one tag in order; to oneself.
static void orders(ls_comm *c, const job *j) {
    enum { N = 6, LARGE = 700001 };
    static uint8_t out[N][LARGE], in[N][LARGE];
    static const int order[N] = {5, 0, 3, 4, 1, 2};
    ls_request requests[2 * N];
    int other = 1 - c->rank;
    for (int i = 0; i < N; i++) memset(out[i], 16 * c->rank + i, LARGE);
    for (int late = 0; late < 2; late++) {
        int n = 0;
        memset(in, 255, sizeof in);
        for (int i = 0; i < N && (late || c->rank == 0); i++)
            CHECK_OK(c, ls_comm_isend(c, out[i], LARGE - 100000 * i, LS_DTYPE_U8, other, i / 2, &requests[n++]));
        if (late) usleep(20000);
        // Tags 0 0 1 1 2 2: within a tag they come in the order in which they were sent.
        int next[3] = {0, 2, 4};
        for (int k = 0; k < N && (late || c->rank == 1); k++) {
            int i = next[order[k] / 2]++;
            CHECK_OK(c, ls_comm_irecv(c, in[i], LARGE - 100000 * i, LS_DTYPE_U8, other, i / 2, &requests[n++]));
        }
        CHECK_OK(c, ls_comm_wait_all(c, requests, n));
        for (int i = 0; i < N && (late || c->rank == 1); i++)
            for (int k = 0; k < LARGE; k++) CHECK(c, in[i][k] == (k < LARGE - 100000 * i ? 16 * other + i : 255));
        CHECK_OK(c, ls_comm_barrier(c));
    }
    int mine = 7 + c->rank, got = 0, pending;
    CHECK_OK(c, ls_comm_isend(c, &mine, 1, LS_DTYPE_I32, c->rank, 3, &requests[0]));
    CHECK_OK(c, ls_comm_irecv(c, &got, 1, LS_DTYPE_I32, c->rank, 3, &requests[1]));
    CHECK_OK(c, ls_comm_test_all(c, requests, 2, &pending));
    CHECK(c, pending == -1 && got == mine);
    // One that nobody has sent yet is pending, and without a wait.
    if (c->rank == 0) {
        CHECK_OK(c, ls_comm_irecv(c, &got, 1, LS_DTYPE_I32, 1, 4, &requests[0]));
        CHECK_OK(c, ls_comm_test_all(c, requests, 1, &pending));
        CHECK(c, pending == 0 && requests[0].peer == 1);
    }
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 1) CHECK_OK(c, ls_comm_isend(c, &mine, 1, LS_DTYPE_I32, 0, 4, &requests[0]));
    CHECK_OK(c, ls_comm_wait_all(c, requests, 1));
    CHECK(c, c->rank == 1 || got == 8);
}

// Messages of another size than is asked for are no messages for that.
static void other_size(ls_comm *c, const job *j) {
    int data[2] = {0};
    ls_request r;
    if (c->rank == 0) {
        CHECK_OK(c, ls_comm_isend(c, data, 2, LS_DTYPE_I32, 1, 5, &r));
        ls_comm_wait_all(c, &r, 1);
        CHECK(c, ls_comm_barrier(c) == LS_STATUS_LIBRARY);  // the other has gone
        return;
    }
    // It may be there already.
    ls_status status = ls_comm_irecv(c, data, 1, LS_DTYPE_I32, 0, 5, &r);
    CHECK(c, (status == LS_OK ? ls_comm_wait_all(c, &r, 1) : status) == LS_STATUS_LIBRARY);
    CHECK(c,
          strstr(ls_error_message(), "worker 0 on ") && strstr(ls_error_message(), "has 8 bytes, and 4 are expected"));
    CHECK(c, ls_comm_barrier(c) == LS_STATUS_LIBRARY);  // nothing goes on after that
}

static void test_messages_over_tcp(void) {
    job j = new_job(2, 2);
    j.work = orders;
    run(&j);
    j = new_job(2, 2);
    j.work = other_size;
    run(&j);
}

// --- losing somebody -------------------------------------------------------------------------------------------------

// Everybody waits for worker 1, which dies; everybody hears of it, also in the call after.
static void dies(ls_comm *c, const job *j) {
    static float data[1 << 20];
    ls_request r[2];
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 1) {
        usleep(300000);  // until the others are out of the barrier
        raise(SIGKILL);
    }
    double since = ls_clock();
    CHECK_OK(c, ls_comm_irecv(c, data, 1 << 20, LS_DTYPE_F32, 1, 9, &r[0]));
    CHECK(c, ls_comm_wait_all(c, r, 1) == LS_STATUS_LIBRARY);
    CHECK(c, strstr(ls_error_message(), "worker 1 on ") && strstr(ls_error_message(), "its connection is gone"));
    CHECK(c, ls_clock() - since < 20);
    CHECK(c, ls_comm_barrier(c) == LS_STATUS_LIBRARY && strstr(ls_error_message(), "worker 1 on "));
    CHECK(c, ls_comm_isend(c, data, 1 << 20, LS_DTYPE_F32, 0, 9, &r[0]) == LS_STATUS_LIBRARY && !r[0].native);
}

// One ends the job, with a reason that the others are told, though one of them sends it a lot that it does not take.
static void aborts(ls_comm *c, const job *j) {
    static float data[8 << 20];
    ls_request r;
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 1) {
        usleep(300000);
        LS_FAIL(LS_STATUS_BAD_DATA, "the moon is full");
        ls_comm_abort(c, 3);
    }
    ls_status status = c->rank == 0 ? ls_comm_isend(c, data, 8 << 20, LS_DTYPE_F32, 1, 9, &r)
                                    : ls_comm_irecv(c, data, 8 << 20, LS_DTYPE_F32, 1, 9, &r);
    CHECK(c, status == LS_OK && ls_comm_wait_all(c, &r, 1) == LS_STATUS_LIBRARY);
    CHECK(c, strstr(ls_error_message(), "worker 1 on ") && strstr(ls_error_message(), "the moon is full"));
}

// One leaves in order while another still waits for something of it.
static void leaves(ls_comm *c, const job *j) {
    int data;
    ls_request r;
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 1) {
        usleep(300000);
        return;
    }
    CHECK_OK(c, ls_comm_irecv(c, &data, 1, LS_DTYPE_I32, 1, 9, &r));
    CHECK(c, ls_comm_wait_all(c, &r, 1) == LS_STATUS_LIBRARY);
    CHECK(c, strstr(ls_error_message(), "worker 1 on ") && strstr(ls_error_message(), "it has left the job"));
}

// One gives up in the middle of a message to another, which computes and takes it later: it hears the reason, and not only that the connection is gone.
static void gives_up(ls_comm *c, const job *j) {
    static float data[8 << 20];
    ls_request r[2];
    CHECK_OK(c, ls_comm_barrier(c));
    if (c->rank == 0) {
        CHECK_OK(c, ls_comm_isend(c, data, 8 << 20, LS_DTYPE_F32, 1, 9, &r[0]));
        CHECK_OK(c, ls_comm_irecv(c, data, 1, LS_DTYPE_F32, 2, 9, &r[1]));
        usleep(300000);  // until the others are out of the barrier
        ls_watch_give_up("has waited for the moon");
        CHECK(c,
              ls_comm_wait_all(c, r, 2) == LS_STATUS_LIBRARY && strstr(ls_error_message(), "has waited for the moon"));
        return;
    }
    // The other one would say it, too, if it did not come later.
    usleep(c->rank == 1 ? 700000 : 3500000);
    int large = c->rank == 1;
    ls_status status = ls_comm_irecv(c, data, large ? 8 << 20 : 1, LS_DTYPE_F32, large ? 0 : 1, 9, &r[0]);
    CHECK(c, (status == LS_OK ? ls_comm_wait_all(c, r, 1) : status) == LS_STATUS_LIBRARY);
    CHECK(c, strstr(ls_error_message(), "has ended the job: worker 0 has waited for the moon"));
}

static void test_losses(void) {
    static void (*const works[])(ls_comm *, const job *) = {dies, aborts, leaves, gives_up};
    static const int ends[] = {128 + SIGKILL, 3, 0, 0};
    for (int k = 0; k < 4; k++) {
        job j = new_job(3, k == 0 ? 3 : 2);
        j.work = works[k];
        pid_t pids[3];
        for (int i = 0; i < 3; i++) pids[i] = start(&j, i);
        for (int i = 0; i < 3; i++) MUST(end_of(pids[i]) == (i == 1 ? ends[k] : 0));
    }
}

// --- who is let in ---------------------------------------------------------------------------------------------------

static void nothing(ls_comm *comm, const job *j) { CHECK_OK(comm, ls_comm_barrier(comm)); }

static char noted[WORDS];

static void keep_note(void *user, const char *sentence) {
    snprintf(noted + strlen(noted), sizeof noted - strlen(noted), "%s\n", sentence);
}

// Joins as a task in this process, and expects to fail. Returns the status.
static ls_status fails(const job *j, int task) {
    ls_comm *comm;
    ls_cluster cluster = j->cluster;
    cluster.task = task;
    cluster.hosts = j->list;
    cluster.note = keep_note;
    noted[0] = 0;
    ls_status status = ls_comm_create_tcp(&cluster, &comm);
    MUST(status != LS_OK && !comm);
    return status;
}

// Runs a task in another process that is to fail with these words, in another environment perhaps.
static pid_t start_failing(const job *j, int task, const char *key, const char *words) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    setenv("LOCKSTEP_KEY", key, 1);
    alarm(60);
    fails(j, task);
    if (!strstr(ls_error_message(), words)) fprintf(stderr, "worker %d: %s\n", task, ls_error_message());
    _exit(strstr(ls_error_message(), words) == NULL);
}

static void says(const char *words) {
    if (strstr(ls_error_message(), words)) return;
    fprintf(stderr, "expected: %s\nsaid: %s\n", words, ls_error_message());
    exit(1);
}

static void test_other_keys(void) {
    job j = new_job(2, 1);
    j.cluster.join_seconds = 1.5;
    pid_t other = start_failing(&j, 1, "another key, as long as needed", "worker 0 at 127.");
    MUST(fails(&j, 0) == LS_STATUS_NOT_FOUND);
    says("waited 2 s, and 1 of 2 workers has not come: worker 1 (127.");
    says("who says to be worker 1 and has another key");
    MUST(strstr(noted, "who says to be worker 1 and has another key"));
    MUST(end_of(other) == 0);
    // The right one comes after the wrong one.
    j = new_job(2, 1);
    j.work = nothing;
    pid_t right = start(&j, 0);
    other = start_failing(&j, 1, "another key, as long as needed", "has another key than this worker");
    MUST(end_of(other) == 0);
    pid_t late = start(&j, 1);
    MUST(end_of(right) == 0 && end_of(late) == 0);
}

static void test_other_lists(void) {
    job j = new_job(3, 1), other = j;
    *strrchr(other.list, ':') = 0;
    strcat(other.list, ":9");
    pid_t pid = start_failing(&other, 1, KEY, "was started with another list of hosts: as worker 2 it has 127.");
    MUST(fails(&j, 0) == LS_STATUS_MISMATCH);
    says("worker 1 was started with another list of hosts: as worker 2 it has 127.");
    says(":9, and this one has 127.");
    MUST(end_of(pid) == 0);
    // One that is shorter.
    other = j;
    *strrchr(other.list, ',') = 0;
    pid = start_failing(&other, 1, KEY, "was started with another list of hosts");
    MUST(fails(&j, 0) == LS_STATUS_MISMATCH);
    says("as worker 2 it has nobody, and this one has 127.");
    MUST(end_of(pid) == 0);
}

static void test_addresses(void) {
    job j = new_job(2, 1);
    j.cluster.join_seconds = 0.3;
    MUST(fails(&j, 1) == LS_STATUS_NOT_FOUND);
    says("worker 0 (127.");
    says("cannot be reached: Connection refused");
    MUST(fails(&j, 2) == LS_STATUS_INVALID_ARGUMENT && fails(&j, -1) == LS_STATUS_INVALID_ARGUMENT);
    says("Its number is one of 0 to 1, and -1 is given");
    // A port that somebody has, by whom a worker of this number may be meant.
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(s, (struct sockaddr *)&a, sizeof a) == 0 && listen(s, 1) == 0);
    MUST(getsockname(s, (struct sockaddr *)&a, &size) == 0);
    snprintf(j.list, sizeof j.list, "127.0.0.1:%d,127.0.0.1:21000", ntohs(a.sin_port));
    MUST(fails(&j, 0) == LS_STATUS_IO);
    says("the port is taken, by another process or by a worker of this number that runs already");
    // What answers there, and is no Lockstep.
    pid_t pid = fork();
    if (pid == 0) {
        int other = accept(s, NULL, NULL);
        _exit(other < 0 || send(other, "SSH-2.0-OpenSSH\r\n", 17, 0) != 17 || usleep(300000) != 0);
    }
    j.cluster.join_seconds = 20;
    MUST(fails(&j, 1) == LS_STATUS_MISMATCH);
    says("is no Lockstep of this version");
    MUST(end_of(pid) == 0);
    close(s);
    snprintf(j.list, sizeof j.list, "127.0.0.1:9,192.0.2.1:33562");
    MUST(fails(&j, 1) == LS_STATUS_IO);
    says("worker 1 cannot listen at 192.0.2.1:33562: that is no address of this machine; is 1 the number");
    MUST(fails(&j, 0) == LS_STATUS_IO);
    says("reached from this machine alone, while worker 1 is at 192.0.2.1:33562");
}

static void test_lists(void) {
    static const char *const bad[][2] = {{"a", "worker 0 is 'a', which has no port"},
                                         {"a:1,", "worker 1 is '', which is empty"},
                                         {"", "worker 0 is '', which is empty"},
                                         {"a:1,:2", "worker 1 is ':2', which names no host"},
                                         {"a:0", "whose port is not 1 to 65535"},
                                         {"a:65536", "whose port is not 1 to 65535"},
                                         {"a:1x", "whose port is not 1 to 65535"},
                                         {"a:1,b:2,a:1", "workers 0 and 2 are both a:1"},
                                         {"::1:33562", "an IPv6 address wants brackets"},
                                         {"[a]:1", "which names no host"},
                                         {"a b:1", "which names no host"}};
    ls__entry *list;
    int count;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        MUST(ls__list_read(bad[i][0], &list, &count) == LS_STATUS_INVALID_ARGUMENT && !list && !count);
        says(bad[i][1]);
    }
    MUST(ls__list_read(" node-1.x_y:33562 , [fe80::1%eth0]:1,10.0.0.1:65535", &list, &count) == LS_OK && count == 3);
    MUST(strcmp(list[0].host, "node-1.x_y") == 0 && list[0].port == 33562 && strcmp(list[1].host, "fe80::1%eth0") == 0);
    char *text;
    MUST(ls__list_text(list, count, &text) == LS_OK);
    MUST(strcmp(text, "node-1.x_y:33562,[fe80::1%eth0]:1,10.0.0.1:65535") == 0);
    free(text);
    free(list);
}

static void write_file(const char *path, const char *text, int mode) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    MUST(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(file, (mode_t)mode) == 0);
    close(file);
}

static void test_keys(void) {
    char path[64];
    ls__key key;
    snprintf(path, sizeof path, "/tmp/lockstep-test-key-%d", (int)getpid());
    write_file(path, "  " KEY "\n", 0600);
    MUST(ls__key_read(path, &key) == LS_OK && key.size == 32 && memcmp(key.bytes, KEY, 32) == 0);
    static const int modes[] = {0604, 0640, 0602};
    for (int i = 0; i < 3; i++) {
        write_file(path, KEY, modes[i]);
        MUST(ls__key_read(path, &key) == LS_STATUS_INVALID_ARGUMENT);
        says("is open to others (mode 6");
    }
    write_file(path, "0123456789abcde\n", 0600);
    MUST(ls__key_read(path, &key) == LS_STATUS_INVALID_ARGUMENT);
    says("has 15 bytes, which can be guessed");
    unlink(path);
    MUST(ls__key_read(path, &key) == LS_STATUS_NOT_FOUND);
    says("cannot open the key file");
    MUST(mkfifo(path, 0600) == 0);
    alarm(30);  // of a pipe that nobody writes to
    MUST(ls__key_read(path, &key) == LS_STATUS_IO);
    says("it is a pipe or a device, and nothing came out of it for five seconds");
    alarm(0);
    unlink(path);
    unsetenv("LOCKSTEP_KEY");
    MUST(ls__key_read(NULL, &key) == LS_STATUS_INVALID_ARGUMENT);
    says("there is no key");
    setenv("LOCKSTEP_KEY", KEY, 1);
    MUST(ls__key_read(NULL, &key) == LS_OK && key.size == 32);
}

// Whom worker 0 of four, which has waited so long, takes for the cause: each of the others says whom it waits for, so long ago; a rank of SILENT: it says nothing.
enum { SILENT = -9, LONG_AGO = 4 };
static int cause_after(double waited, const int waits_for[3], const int age[3], int rank) {
    ls__link link[4] = {{.socket = -1}};
    ls__tcp c = {.link = link};
    double now = 1000;
    c.head.size = 4;
    for (int i = 0; i < 3; i++) {
        if (waits_for[i] == SILENT) continue;
        link[i + 1].inbox.waits_for = waits_for[i];
        link[i + 1].inbox.waits_at = now - age[i];
    }
    return ls__tcp_find_cause(&c, rank, now, waited);
}
static int cause(const int waits_for[3], const int age[3], int rank) { return cause_after(4, waits_for, age, rank); }

static void test_causes(void) {
    static const int fresh[3] = {0, 1, 2}, stale[3] = {1, LONG_AGO, 1};
    MUST(cause((int[]){2, 3, SILENT}, fresh, 1) == 3);       // along the chain
    MUST(cause((int[]){2, 3, SILENT}, fresh, -1) == 3);      // nobody in particular: who is silent
    MUST(cause((int[]){2, 1, SILENT}, fresh, 1) == 3);       // round in a circle, which does not hold it up by itself
    MUST(cause((int[]){-1, SILENT, 0}, fresh, 1) == 2);      // in memory, for somebody of its own host
    MUST(cause((int[]){0, SILENT, SILENT}, fresh, 1) == 2);  // for this one: the first who is silent
    MUST(cause((int[]){2, 3, 1}, stale, 1) == 2);            // it said so too long ago
    MUST(cause((int[]){2, 3, 1}, fresh, 1) == LS_WATCH_ALL_WAIT);  // all do
    // Who waits long believes longer: 2 is taken for silent, or for late.
    MUST(cause_after(7, (int[]){2, 3, SILENT}, stale, 1) == 2);
    MUST(cause_after(9, (int[]){2, 3, SILENT}, stale, 1) == 3);
    MUST(cause_after(1800, (int[]){2, 3, SILENT}, (int[]){1, 59, 1}, 1) == 3);
    MUST(cause_after(1800, (int[]){2, 3, SILENT}, (int[]){1, 61, 1}, 1) == 2);
    MUST(cause((int[]){2, 99, SILENT}, fresh, 1) == 3);  // a rank that there is not
}

int main(void) {
    signal(SIGPIPE, SIG_DFL);
    setenv("LOCKSTEP_KEY", KEY, 1);
    test_keys();
    test_lists();
    test_causes();
    test_all_sizes();
    test_messages_over_tcp();
    test_losses();
    test_other_keys();
    test_other_lists();
    test_addresses();
    return 0;
}
