// Metrics for other tools: TensorBoard's event files, against the bytes of its own writer and read back by a reader that shares
// nothing with ours; CSV; and what happens when a disk is full.
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ok.h"
#include "report/events.h"
#include "report/metrics.h"

// tests/golden/make_events.py
static const char golden[] =
    "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe91e00000000000000"
    "d9dc12320900006040fc54d9412a130a110a0a65706f63685f6c6f7373150000003f807127532400000000000000422b"
    "804d0900006040fc54d94110012a170a150a0e65706f63685f616363757261637915000000006a458a5b210000000000"
    "0000017becf60900006040fc54d9411080012a130a110a0a62617463685f6c6f7373150ad7a3ba2cb83f1a1c00000000"
    "000000c8c1951d0900006040fc54d941108080808080202a0a0a080a0178150000807f954a1e01";

static char folder[] = "/tmp/lockstep-metrics.XXXXXX";
static char path[512];

static const char *in_folder(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int clean(void **state) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s/*", folder);
    return system(command);
}

static unsigned char bytes[1 << 16];

// Reads a file into `bytes`, ended by a zero.
static size_t contents(const char *name) {
    FILE *f = fopen(name, "rb");
    if (!f) fail_msg("there is no %s", name);
    size_t n = fread(bytes, 1, sizeof bytes - 1, f);
    bytes[n] = 0;
    fclose(f);
    return n;
}

// The one event file of a run.
static const char *events_of(const char *run) {
    static char found[1024];
    int count = 0;
    DIR *d = opendir(in_folder(run));
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        assert_non_null(strstr(e->d_name, "events.out.tfevents."));
        snprintf(found, sizeof found, "%s/%s", path, e->d_name);
        count++;
    }
    closedir(d);
    assert_int_equal(count, 1);
    return found;
}

// --- a reader --------------------------------------------------------------------------------------------------------

// By table, from the polynomial as it is written: 0x1EDC6F41.
static uint32_t crc_by_table(const unsigned char *data, size_t count) {
    uint32_t table[256], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t x = 0;
        for (int bit = 0; bit < 8; bit++) x |= (i >> bit & 1) << (31 - bit);
        for (int bit = 0; bit < 8; bit++) x = x & 0x80000000u ? x << 1 ^ 0x1edc6f41u : x << 1;
        table[i] = 0;
        for (int bit = 0; bit < 32; bit++) table[i] |= (x >> bit & 1) << (31 - bit);
    }
    for (size_t i = 0; i < count; i++) crc = table[(crc ^ data[i]) & 255] ^ crc >> 8;
    return crc ^ 0xffffffffu;
}

static uint64_t little_endian(const unsigned char *p, int count) {
    uint64_t x = 0;
    for (int i = count - 1; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static void check_crc(const unsigned char *data, size_t count, const unsigned char *stored) {
    uint32_t masked = (uint32_t)little_endian(stored, 4) - 0xa282ead8u;
    assert_int_equal(masked << 15 | masked >> 17, crc_by_table(data, count));
}

static uint64_t varint(const unsigned char **p) {
    uint64_t x = 0;
    for (int shift = 0;; shift += 7) {
        x |= (uint64_t)(**p & 127) << shift;
        if (!(*(*p)++ & 128)) return x;
    }
}

typedef struct event {
    double wall_time;
    int64_t step;
    char version[32], tag[64];
    float value;
} event;

// Fields may stand in any order; messages in it are read into the same event: their fields differ in number and type.
static void parse(const unsigned char *p, const unsigned char *end, int depth, event *e) {
    while (p < end) {
        uint64_t key = varint(&p), length = 0, bits = 0;
        int field = (int)(key >> 3), type = (int)(key & 7);
        if (type == 0) bits = varint(&p);
        if (type == 1) bits = little_endian(p, 8), length = 8;
        if (type == 2) length = varint(&p);
        if (type == 5) bits = little_endian(p, 4), length = 4;
        uint32_t low = (uint32_t)bits;
        if (depth == 0 && field == 1 && type == 1)
            memcpy(&e->wall_time, &bits, 8);
        else if (depth == 0 && field == 2 && type == 0)
            e->step = (int64_t)bits;
        else if (depth == 0 && field == 3 && type == 2 && length < sizeof e->version)
            memcpy(e->version, p, length);
        else if (depth == 0 && field == 5 && type == 2)
            parse(p, p + length, 1, e);
        else if (depth == 1 && field == 1 && type == 2)
            parse(p, p + length, 2, e);
        else if (depth == 2 && field == 1 && type == 2 && length < sizeof e->tag)
            memcpy(e->tag, p, length);
        else if (depth == 2 && field == 2 && type == 5)
            memcpy(&e->value, &low, 4);
        else
            fail_msg("field %d of type %d at depth %d", field, type, depth);
        p += length;
    }
    assert_true(p == end);
}

static int read_events(const char *name, event *out, int most) {
    size_t size = contents(name), at = 0;
    int count = 0;
    while (at < size) {
        assert_true(count < most && at + 16 <= size);
        uint64_t length = little_endian(bytes + at, 8);
        check_crc(bytes + at, 8, bytes + at + 8);
        assert_true(at + 16 + length <= size);
        check_crc(bytes + at + 12, length, bytes + at + 12 + length);
        out[count] = (event){.step = 0};
        parse(bytes + at + 12, bytes + at + 12 + length, 0, &out[count++]);
        at += 16 + length;
    }
    return count;
}

// The value of `tag` at `step`; NAN where there is no such event.
static double value(const event *events, int count, const char *tag, int64_t step) {
    double x = NAN;
    for (int i = 0; i < count; i++)
        if (strcmp(events[i].tag, tag) == 0 && events[i].step == step) x = events[i].value;
    return x;
}

// --- tests -----------------------------------------------------------------------------------------------------------

static void events_are_those_of_tensorboard(void **state) {
    assert_int_equal(crc_by_table((const unsigned char *)"123456789", 9), 0xe3069283u);  // the usual check value
    ls_events *e;
    OK(ls_events_create(in_folder("a/b/run"), 1700000000.25, &e));
    OK(ls_events_scalar(e, 1700000001.5, 0, "epoch_loss", 0.5));
    OK(ls_events_scalar(e, 1700000001.5, 1, "epoch_accuracy", 0));
    OK(ls_events_scalar(e, 1700000001.5, 128, "batch_loss", -1.25e-3));
    OK(ls_events_scalar(e, 1700000001.5, (int64_t)1 << 40, "x", INFINITY));
    OK(ls_events_flush(e));
    char text[sizeof golden];
    size_t n = contents(ls_events_path(e));
    assert_int_equal(n, sizeof golden / 2);
    for (size_t i = 0; i < n; i++) snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    assert_string_equal(text, golden);
    // Another one in the same second is another file.
    ls_events *second;
    OK(ls_events_create(in_folder("a/b/run"), 1700000000.25, &second));
    assert_string_not_equal(ls_events_path(e), ls_events_path(second));
    ls_events_destroy(&second);
    ls_events_destroy(&e);
    assert_null(e);
}

static const ls_epoch_result epochs[] = {{.epoch = 1,
                                          .steps = 3,
                                          .seconds = 2,
                                          .loss = 1.5,
                                          .accuracy = 0.25,
                                          .images_per_second = 96,
                                          .learning_rate = 0.001,
                                          .val_loss = 1.25,
                                          .val_accuracy = 0.5,
                                          .val_seconds = 0.125},
                                         {.epoch = 2,
                                          .steps = 2,
                                          .seconds = 1,
                                          .loss = NAN,
                                          .accuracy = 0.75,
                                          .images_per_second = 100,
                                          .learning_rate = 1e-5,
                                          .val_loss = NAN,
                                          .val_accuracy = NAN,
                                          .val_seconds = NAN}};

static void train(ls_metrics *m) {
    for (int epoch = 0; epoch < 2; epoch++) {
        for (int64_t step = 1; step <= epochs[epoch].steps; step++)
            OK(ls_metrics_step(
                m,
                &(ls_step_report){
                    .epoch = epoch + 1, .step = step, .steps = 3, .batch_loss = (double)step, .batch_accuracy = 0.5}));
        OK(ls_metrics_epoch(m, &epochs[epoch]));
    }
}

static void csv_has_a_line_per_epoch(void **state) {
    char csv[512];
    snprintf(csv, sizeof csv, "%s", in_folder("m.csv"));
    ls_metrics *m;
    OK(ls_metrics_create(&(ls_metrics_config){.csv = csv, .validate = 1}, &m));
    contents(csv);
    assert_string_equal((char *)bytes,
                        "epoch,accuracy,loss,val_accuracy,val_loss,learning_rate,steps,seconds,"
                        "images_per_second,val_seconds\n");
    train(m);
    contents(csv);  // before it is closed: somebody may be reading along
    assert_string_equal(strchr((char *)bytes, '\n'),
                        "\n0,0.25,1.5,0.5,1.25,0.001,3,2,96,0.125\n"
                        "1,0.75,nan,,,1e-05,2,1,100,\n");
    ls_metrics_destroy(&m);
    OK(ls_metrics_create(&(ls_metrics_config){.csv = csv}, &m));
    train(m);
    OK(ls_metrics_test(m, 2, 1, 1));
    ls_metrics_destroy(&m);
    contents(csv);
    assert_string_equal((char *)bytes,
                        "epoch,accuracy,loss,learning_rate,steps,seconds,images_per_second\n"
                        "0,0.25,1.5,0.001,3,2,96\n1,0.75,nan,1e-05,2,1,100\n");
}

static void tensorboard_gets_two_runs(void **state) {
    char board[512];
    snprintf(board, sizeof board, "%s", in_folder("board"));
    ls_metrics *m;
    event e[32];
    OK(ls_metrics_create(&(ls_metrics_config){.tensorboard = board, .every = 2, .validate = 1}, &m));
    train(m);
    OK(ls_metrics_test(m, 2, 0.75, 0.625));
    int n = read_events(events_of("board/train"), e, 32);
    assert_int_equal(n, 1 + 2 * 5 + 2 * 2);
    assert_string_equal(e[0].version, "brain.Event:2");
    assert_true(e[0].wall_time > 1.7e9 && e[n - 1].wall_time >= e[0].wall_time);
    assert_true(value(e, n, "epoch_loss", 0) == 1.5 && isnan(value(e, n, "epoch_loss", 1)));
    assert_true(value(e, n, "epoch_accuracy", 1) == 0.75 && value(e, n, "epoch_seconds", 0) == 2);
    assert_true(fabs(value(e, n, "epoch_learning_rate", 0) - 0.001) < 1e-9);
    assert_true(value(e, n, "epoch_images_per_second", 1) == 100);
    assert_true(value(e, n, "batch_loss", 2) == 2 && value(e, n, "batch_loss", 4) == 1);
    assert_true(value(e, n, "batch_accuracy", 4) == 0.5 && isnan(value(e, n, "batch_loss", 3)));
    n = read_events(events_of("board/validation"), e, 32);
    assert_int_equal(n, 1 + 2 * 2);  // no points of an epoch that was not evaluated
    assert_true(value(e, n, "epoch_loss", 0) == 1.25 && value(e, n, "epoch_accuracy", 0) == 0.5);
    assert_true(value(e, n, "epoch_loss", 1) == 0.75 && value(e, n, "epoch_accuracy", 1) == 0.625);
    ls_metrics_destroy(&m);
    clean(state);
    OK(ls_metrics_create(&(ls_metrics_config){.tensorboard = board}, &m));
    train(m);
    ls_metrics_destroy(&m);
    assert_int_equal(read_events(events_of("board/train"), e, 32), 1 + 2 * 5);
    in_folder("board/validation");
    assert_int_not_equal(access(path, F_OK), 0);
}

static void refused(const ls_metrics_config *config, const char *words) {
    ls_metrics *m = NULL;
    assert_int_equal(ls_metrics_create(config, &m), LS_STATUS_IO);
    assert_null(m);
    if (!strstr(ls_error_message(), words)) fail_msg("'%s' does not speak of '%s'", ls_error_message(), words);
}

static void what_cannot_be_written_is_said_before(void **state) {
    char name[512];
    snprintf(name, sizeof name, "%s", in_folder("none/m.csv"));
    refused(&(ls_metrics_config){.csv = name}, "none/m.csv: No such file or directory; name a file in a folder");
    refused(&(ls_metrics_config){.csv = folder}, "Is a directory");
    refused(&(ls_metrics_config){.csv = "/dev/full"}, "/dev/full: No space left on device");
    fclose(fopen(in_folder("file"), "w"));
    snprintf(name, sizeof name, "%s", in_folder("file/board"));
    refused(&(ls_metrics_config){.tensorboard = name}, "cannot make the folder");
    refused(&(ls_metrics_config){.tensorboard = name}, "file/board/train: Not a directory");
}

// A limit on the size of files takes the place of a full disk.
static void a_full_disk_is_said_once(void **state) {
    char csv[512], board[512];
    snprintf(csv, sizeof csv, "%s", in_folder("m.csv"));
    snprintf(board, sizeof board, "%s", in_folder("board"));
    ls_metrics *m;
    OK(ls_metrics_create(&(ls_metrics_config){.csv = csv, .tensorboard = board, .evaluate = 1}, &m));
    struct rlimit before, less;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    less.rlim_cur = 80;  // the heads of both, and no more than that
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
    ls_status first = ls_metrics_epoch(m, &epochs[1]);
    char said[1024];
    snprintf(said, sizeof said, "%s", ls_error_message());
    ls_status next = ls_metrics_epoch(m, &epochs[1]), test = ls_metrics_test(m, 2, 1, 1);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(first, LS_STATUS_IO);
    assert_non_null(strstr(said, "m.csv: File too large; cannot write the TensorBoard events"));
    assert_non_null(strstr(said, "board/train/events"));
    assert_null(strstr(said, "validation"));
    assert_int_equal(next, LS_OK);
    assert_int_equal(test, LS_STATUS_IO);
    ls_metrics_destroy(&m);
}

int main(void) {
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(events_are_those_of_tensorboard, clean),
        cmocka_unit_test_setup(csv_has_a_line_per_epoch, clean),
        cmocka_unit_test_setup(tensorboard_gets_two_runs, clean),
        cmocka_unit_test_setup(what_cannot_be_written_is_said_before, clean),
        cmocka_unit_test_setup(a_full_disk_is_said_once, clean),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    clean(NULL);
    rmdir(folder);
    return failed;
}
