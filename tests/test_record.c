// A run's record has the keys others read, keeps what stood there until it is whole, and its options can be trained from again.
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "report/record.h"

static char folder[] = "/tmp/lockstep-record.XXXXXX";
static char path[64];

typedef struct values {
    int epochs, shuffle;
    double lr;
    const char *data;
} values;

static const ls_option table[] = {
    {"epochs", LS_OPTION_INT, .offset = offsetof(values, epochs), .metavar = "N", .min = 1, .help = "it"},
    {"shuffle", LS_OPTION_FLAG, .offset = offsetof(values, shuffle), .help = "it"},
    {"lr", LS_OPTION_REAL, .offset = offsetof(values, lr), .metavar = "X", .help = "it"},
    {"data", LS_OPTION_TEXT, .offset = offsetof(values, data), .metavar = "SPEC", .help = "it"},
    {.name = NULL},
};

static values v;
static const ls_option_set sets[] = {{table, &v}, {NULL, NULL}};
static const ls_epoch_result epochs[] = {
    {1, 10, 1.5, 0.5, 0.8, 100, 0.1, 0.75, 0.625, 0.5, {.load = 0.5, .wait = 0.25}, {.load = 0.75}, 0, 0.5, 4096},
    {2, 10, 1.25, 0.25, 0.9, 120, 0.05, 0.5, 0.75, 0.25, {.load = 0.125, .wait = 0.5}, {.load = 0.875}, 0, 0.5, 2048},
};
static const ls_phase_seconds workers[] = {{.forward = 1}, {.forward = 2}, {.forward = 3, .serial = 7}};
static ls_train_result result;
static ls_train_config config;
static char *command[] = {"lockstep", "train", "a \"quoted\" word", NULL};
static ls_record_info info;

static int setup(void **state) {
    v = (values){.epochs = 2, .shuffle = 1, .lr = -1, .data = "digits"};
    result =
        (ls_train_result){.epochs = 2,
                          .epoch = epochs,
                          .steps_per_epoch = 10,
                          .step_seconds_median = 0.125,
                          .images_per_second = 110,
                          .train_loss = 0.25,
                          .test_loss = 0.5,
                          .test_accuracy = 0.75,
                          .phases = {.load = 1, .forward = 2, .backward = 3, .exchange = 3.5, .update = 5, .wait = 0.5},
                          .worker_phases = workers,
                          .weights_digest = "0123",
                          .peak_rss_bytes = 1 << 20,
                          .planned_bytes = 1 << 21,
                          .workers = 3,
                          .hosts = 1,
                          .replicas_per_worker = 2,
                          .threads_per_replica = 1,
                          .global_batch = 64,
                          .micro_batch = 8,
                          .image = LS_SHAPE(32, 24, 3)};
    config = (ls_train_config){
        .precision = "fp32", .strategy = "allreduce", .compress = "bf16", .optimizer = "adam", .seed = 42};
    info = (ls_record_info){.model = "net",
                            .data = "digits",
                            .parameters = 7,
                            .read_seconds = 0.5,
                            .total_seconds = 9,
                            .config = &config,
                            .options = sets,
                            .result = &result,
                            .evaluated = 1,
                            .argv = command,
                            .compiler = "cc 1"};
    return 0;
}

static json_t *written(void) {
    assert_int_equal(ls_record_write(path, &info), LS_OK);
    json_t *root = json_load_file(path, 0, NULL);
    assert_non_null(root);
    return root;
}

static void has_what_was_measured_of_the_channels(void **state) {
    static const double mean[] = {0.5, 0.25, 0.125}, deviation[] = {1, 2, 3};
    result.channel_mean = mean, result.channel_deviation = deviation;
    json_t *root = written(), *list = json_object_get(root, "channel_mean");
    assert_int_equal(json_array_size(list), 3);
    assert_true(json_number_value(json_array_get(list, 2)) == 0.125);
    list = json_object_get(root, "channel_deviation");
    assert_int_equal(json_array_size(list), 3);
    assert_true(json_number_value(json_array_get(list, 1)) == 2);
    json_decref(root);
}

static void has_the_loss_scale_where_there_is_one(void **state) {
    json_t *root = written();
    assert_null(json_object_get(root, "loss_scale"));
    json_decref(root);
    result.loss_scale = 1024, result.loss_scale_dynamic = 1;
    root = written();
    assert_true(json_number_value(json_object_get(root, "loss_scale")) == 1024);
    const json_t *list = json_object_get(root, "epoch_loss_scale");
    assert_true(json_array_size(list) == 2 && json_number_value(json_array_get(list, 0)) == 4096);
    json_decref(root);
}

// Losses of two runs are compared bit for bit; what people wrote stays as they did.
static void has_every_bit_of_its_numbers(void **state) {
    static const double xs[] = {1.0 / 3,
                                2.3025850929940455,
                                0.1,
                                1e-300,
                                6.02214076e23,
                                123456789012345.67,
                                5e-324,
                                0.30000000000000004,
                                1e15,
                                1e16,
                                2,
                                -0.0625,
                                1.7976931348623157e308,
                                (double)0.1f};
    for (size_t i = 0; i < sizeof xs / sizeof xs[0]; i++) {
        result.train_loss = xs[i], v.lr = 0.1;
        json_t *root = written(), *loss = json_object_get(root, "train_loss");
        assert_true(json_is_real(loss));
        if (json_real_value(loss) != xs[i]) fail_msg("%.17g is %.17g in the record", xs[i], json_real_value(loss));
        json_decref(root);
    }
    char line[256];
    int found = 0;
    FILE *file = fopen(path, "r");
    while (fgets(line, sizeof line, file)) found += strstr(line, "\"lr\": 0.1,\n") || strstr(line, "\"lr\": 0.1\n");
    fclose(file);
    assert_int_equal(found, 1);
    info.model = "a \"0.10000000000000001\" \\";
    json_t *root = written();
    assert_string_equal(json_string_value(json_object_get(root, "model")), info.model);
    json_decref(root);
}

static void has_every_key(void **state) {
    json_t *root = written();
    static const struct {
        const char *key;
        double value;
    } numbers[] = {{"lockstep_run", 1},
                   {"parameters", 7},
                   {"workers", 3},
                   {"replicas_per_worker", 2},
                   {"threads_per_replica", 1},
                   {"global_batch", 64},
                   {"micro_batch", 8},
                   {"seed", 42},
                   {"read_seconds", 0.5},
                   {"step_seconds_median", 0.125},
                   {"images_per_second", 110},
                   {"train_loss", 0.25},
                   {"train_accuracy", 0},
                   {"test_loss", 0.5},
                   {"test_accuracy", 0.75},
                   {"total_seconds", 9},
                   {"peak_rss_bytes", 1 << 20},
                   {"planned_bytes", 1 << 21}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_t *value = json_object_get(root, numbers[i].key);
        if (!json_is_number(value) || json_number_value(value) != numbers[i].value) fail_msg("%s", numbers[i].key);
    }
    static const char *const texts[][2] = {{"model", "net"},      {"precision", "fp32"}, {"strategy", "allreduce"},
                                           {"optimizer", "adam"}, {"data", "digits"},    {"weights_digest", "0123"},
                                           {"compress", "bf16"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_string_equal(json_string_value(json_object_get(root, texts[i][0])), texts[i][1]);
    json_t *image = json_object_get(root, "image");
    assert_int_equal(json_array_size(image), 3);
    assert_int_equal(json_integer_value(json_array_get(image, 1)), 24);
    assert_true(json_is_null(json_object_get(root, "channel_mean")));
    static const char *const phases[] = {"load", "forward", "backward", "exchange", "update"};
    for (int i = 0; i < 5; i++)
        assert_true(json_number_value(json_object_get(json_object_get(root, "phases"), phases[i])) == i + 1);
    assert_true(json_number_value(json_object_get(json_object_get(root, "phases"), "wait")) == 0.5);
    json_t *mean = json_object_get(root, "epoch_phases"), *most = json_object_get(root, "epoch_phases_most");
    assert_int_equal(json_object_size(mean), 7);
    assert_true(json_number_value(json_array_get(json_object_get(mean, "load"), 1)) == 0.125);
    assert_true(json_number_value(json_array_get(json_object_get(mean, "wait"), 0)) == 0.25);
    assert_true(json_number_value(json_array_get(json_object_get(most, "load"), 0)) == 0.75);
    json_t *each = json_object_get(root, "worker_phases");
    assert_int_equal(json_array_size(each), 3);
    assert_true(json_number_value(json_object_get(json_array_get(each, 2), "forward")) == 3);
    assert_true(json_number_value(json_object_get(json_array_get(each, 2), "serial")) == 7);
    json_t *seconds = json_object_get(root, "epoch_seconds");
    assert_int_equal(json_array_size(seconds), 2);
    assert_true(json_number_value(json_array_get(seconds, 1)) == 1.25);
    assert_true(json_number_value(json_array_get(json_object_get(root, "epoch_val_accuracy"), 0)) == 0.625);
    assert_true(json_number_value(json_array_get(json_object_get(root, "epoch_learning_rate"), 1)) == 0.05);
    assert_true(json_is_null(json_object_get(root, "stopped")) && json_is_null(json_object_get(root, "stopped_after")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(root, "command_line"), 2)), command[2]);
    json_decref(root);
}

static void what_was_not_measured_is_null(void **state) {
    info.evaluated = 0;
    ls_epoch_result one = epochs[0];
    one.val_loss = NAN;
    result.epoch = &one;
    result.epochs = 1;
    result.train_loss = 0.0 / 0.0;
    json_t *root = written();
    assert_true(json_is_null(json_object_get(root, "test_loss")));
    assert_true(json_is_null(json_object_get(root, "test_accuracy")));
    assert_true(json_is_null(json_object_get(root, "train_loss")));
    assert_true(json_is_null(json_object_get(root, "epoch_val_loss")));
    json_decref(root);
}

static void an_epoch_cut_short_is_apart(void **state) {
    result.steps_per_epoch = 12;
    ls_epoch_result cut[] = {epochs[0], epochs[1]};
    cut[0].steps = 12;
    result.epoch = cut;
    info.stopped = "time limit";
    json_t *root = written(), *where = json_object_get(root, "stopped_after");
    assert_int_equal(json_integer_value(json_object_get(root, "epochs")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "epoch_loss")), 1);
    assert_string_equal(json_string_value(json_object_get(root, "stopped")), "time limit");
    assert_int_equal(json_integer_value(json_object_get(where, "epoch")), 2);
    assert_int_equal(json_integer_value(json_object_get(where, "step")), 10);
    assert_int_equal(json_integer_value(json_object_get(where, "steps")), 12);
    assert_true(json_number_value(json_object_get(where, "loss")) == 0.25);
    json_decref(root);
}

static void options_come_back_from_a_config_file(void **state) {
    json_t *root = written(), *options = json_object_get(root, "options");
    assert_true(json_is_null(json_object_get(options, "lr")));  // the optimizer's own, as when it is not given
    json_object_set_new(options, "model", json_string("net"));
    assert_int_equal(json_dump_file(options, path, 0), 0);
    json_decref(root);
    values before = v;
    v = (values){.lr = -1};
    const char *model = NULL;
    void *keep;
    assert_int_equal(ls_config_load(path, sets, &model, &keep), LS_OK);
    assert_string_equal(model, "net");
    assert_int_equal(v.epochs, before.epochs);
    assert_int_equal(v.shuffle, before.shuffle);
    assert_true(v.lr == -1);
    assert_string_equal(v.data, before.data);
    ls_config_free(&keep);
}

static void config_refused(const char *json, ls_status expected, const char *sentence) {
    FILE *f = fopen(path, "w");
    fputs(json, f);
    fclose(f);
    void *keep;
    assert_int_equal(ls_config_load(path, sets, NULL, &keep), expected);
    assert_null(keep);
    if (!strstr(ls_error_message(), sentence)) fail_msg("%s", ls_error_message());
    assert_non_null(strstr(ls_error_message(), path));
}

static void config_files_are_checked(void **state) {
    config_refused("{\"epochs\": 0}", LS_STATUS_INVALID_ARGUMENT,
                   "--epochs: expected a whole number of at least 1, got '0'");
    config_refused("{\"epochs\": 2.5}", LS_STATUS_INVALID_ARGUMENT, "got '2.5'");
    config_refused("{\"epochs\": [2]}", LS_STATUS_INVALID_ARGUMENT, "not a list or an object");
    config_refused("{\"epoch\": 2}", LS_STATUS_INVALID_ARGUMENT, "did you mean --epochs?");
    config_refused("{\"shuffle\": 1}", LS_STATUS_INVALID_ARGUMENT, "expected true or false");
    config_refused("{\"epochs\": 2,\n\"lr\"}", LS_STATUS_BAD_DATA, "is not JSON: line 2");
    config_refused("{\"epochs\": 2, \"epochs\": 3}", LS_STATUS_BAD_DATA, "is not JSON");
    config_refused("[]", LS_STATUS_BAD_DATA, "must be an object");
}

static void an_old_record_stays_until_the_new_one_is_whole(void **state) {
    FILE *f = fopen(path, "w");
    fputs("old", f);
    fclose(f);
    assert_int_equal(ls_record_check(path), LS_OK);
    char text[8] = "";
    f = fopen(path, "r");
    assert_int_equal(fread(text, 1, 7, f), 3);
    fclose(f);
    assert_string_equal(text, "old");
    json_decref(written());
    struct stat st;
    mode_t mask = umask(022);
    umask(mask);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0666 & ~mask);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);  // nothing else was left in it
    assert_int_equal(ls_record_check(path), LS_STATUS_IO);
    assert_non_null(strstr(ls_error_message(), "No such file or directory"));
    assert_int_equal(ls_record_write(path, &info), LS_STATUS_IO);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(ls_record_check(folder), LS_STATUS_IO);
}

static int folder_make(void **state) {
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/run.json", folder);
    return 0;
}

static int folder_remove(void **state) {
    unlink(path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(has_every_key, setup),
        cmocka_unit_test_setup(has_every_bit_of_its_numbers, setup),
        cmocka_unit_test_setup(has_the_loss_scale_where_there_is_one, setup),
        cmocka_unit_test_setup(has_what_was_measured_of_the_channels, setup),
        cmocka_unit_test_setup(what_was_not_measured_is_null, setup),
        cmocka_unit_test_setup(an_epoch_cut_short_is_apart, setup),
        cmocka_unit_test_setup(options_come_back_from_a_config_file, setup),
        cmocka_unit_test_setup(config_files_are_checked, setup),
        cmocka_unit_test_setup(an_old_record_stays_until_the_new_one_is_whole, setup),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
