// Studies and records become rows: medians, the first epoch set apart, speedup, digests, runs that failed.
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

#include "report/study.h"
#include "report/study_machine.h"
#include "report/study_recipes.h"

static char folder[] = "/tmp/lockstep-study.XXXXXX";
static char path[512];
static const char *const paths[] = {folder};

static const char *file(const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text) {
    FILE *f = fopen(file(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

// A record of two epochs that took 100 s and `seconds`.
static void put_record(const char *name, int workers, double seconds, const char *digest, double lr) {
    json_t *r = json_pack("{s:i, s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:s, s:i, s:i}", "lockstep_run",
                          1, "model", "net", "parameters", 7, "data", "digits", "workers", workers, "hosts", 1,
                          "replicas_per_worker", 1, "threads_per_replica", 1, "global_batch", 64, "micro_batch", 8,
                          "precision", "fp32", "strategy", "allreduce", "optimizer", "adam", "seed", 42, "epochs", 2);
    json_t *rest = json_pack(
        "{s:f, s:f, s:f, s:[f,f], s:[f,f], s:n, s:f, s:s, s:i, s:i, s:{s:f, s:f, s:f, s:f, s:f}, s:{s:i, s:f}, s:s, "
        "s:{s:s}}",
        "read_seconds", 0.5, "step_seconds_median", seconds / 100, "total_seconds", 100 + seconds, "epoch_seconds",
        100.0, seconds, "epoch_images_per_second", 10.0, 1000 / seconds, "test_loss", "test_accuracy", 0.75,
        "weights_digest", digest, "peak_rss_bytes", 1000 + workers, "planned_bytes", 2000 + workers, "phases", "load",
        1.0, "forward", 2.0, "backward", 3.0, "exchange", 4.0, "update", 5.0, "options", "workers", workers, "lr", lr,
        "host", "node1", "versions", "lockstep", "0.1.0");
    assert_non_null(r);
    assert_non_null(rest);
    json_object_update(r, rest);
    assert_int_equal(json_dump_file(r, file(name), 0), 0);
    json_decref(r);
    json_decref(rest);
}

// The record's batch and samples, those of one worker times its workers: what weak scaling and the labs' protocol change.
static void put_work(const char *name, int batch, int train_count) {
    json_t *r = json_load_file(file(name), 0, NULL);
    assert_non_null(r);
    json_object_set_new(r, "global_batch", json_integer(batch));
    json_object_set_new(r, "train_count", json_integer(train_count));
    json_object_set_new(json_object_get(r, "options"), "batch-size", json_integer(batch));
    assert_int_equal(json_dump_file(r, file(name), 0), 0);
    json_decref(r);
}

static void put_study(const char *mode, const int (*runs)[2], int count) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) {
        json_t *name = json_sprintf("w%d-r%d", runs[i][0], runs[i][1]);
        json_array_append_new(list, json_pack("{s:o, s:s, s:i, s:i, s:i}", "name", name, "model", "net", "nodes", 1,
                                              "workers", runs[i][0], "repeat", runs[i][1]));
    }
    json_t *study = json_pack("{s:i, s:s, s:[s,s,s], s:{s:s, s:i}, s:o}", "lockstep_study", 1, "mode", mode, "command",
                              "/usr/bin/lockstep", "scale", "it's", "host", "cpu", "A CPU", "cores", 2, "runs", list);
    assert_non_null(study);
    assert_int_equal(json_dump_file(study, file("study.json"), 0), 0);
    json_decref(study);
}

static int clean(void **state) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s/*; mkdir %s/runs", folder, folder);
    return system(command);
}

static void near(double x, double y) {
    if (x < y - 1e-9 || x > y + 1e-9) fail_msg("%g is not %g", x, y);
}

static ls_study *loaded(void) {
    ls_study *s;
    if (ls_study_load(paths, 1, &s) != LS_OK) fail_msg("%s", ls_error_message());
    return s;
}

static const int grid[][2] = {{4, 1}, {2, 1}, {1, 1}, {2, 2}, {1, 2}, {2, 3}, {1, 3}, {8, 1}};

static void put_grid(const char *odd) {
    put_study("strong", grid, 8);
    put_record("runs/w1-r1.json", 1, 12, "aa", 0.1);
    put_record("runs/w1-r2.json", 1, 10, "aa", 0.1);
    put_record("runs/w1-r3.json", 1, 50, "aa", 0.1);
    put_record("runs/w2-r1.json", 2, 8, "aa", 0.1);
    put_record("runs/w2-r2.json", 2, 6, odd, 0.1);
    put("runs/w2-r3.failed", "it crashed, \"badly\"\n");
    put("runs/w4-r1.failed", "no room\n");  // and of w8 there is nothing yet
}

static void repeats_become_one_row(void **state) {
    put_grid("aa");
    ls_study *s = loaded();
    assert_int_equal(s->row_count, 3);
    const ls_study_row *r = s->rows;
    assert_int_equal(r[0].workers, 1);
    assert_int_equal(r[0].repeats, 3);
    near(r[0].epoch_seconds, 12);  // the median, each without its first epoch
    near(r[0].epoch_seconds_least, 10);
    near(r[0].epoch_seconds_most, 50);
    near(r[0].first_epoch_seconds, 100);
    near(r[0].speedup, 1);
    assert_int_equal(r[1].workers, 2);
    assert_int_equal(r[1].repeats, 2);
    assert_int_equal(r[1].failed, 1);
    assert_string_equal(r[1].reason, "it crashed, \"badly\"");
    near(r[1].epoch_seconds, 7);
    near(r[1].speedup, 12.0 / 7);
    near(r[1].efficiency, 6.0 / 7);
    near(r[1].exchange, 4);
    near(r[1].test_accuracy, 0.75);
    assert_true(r[1].test_loss != r[1].test_loss);
    assert_int_equal(r[1].peak_rss_bytes, 1002);
    assert_int_equal(r[1].planned_bytes, 2002);
    assert_int_equal(r[0].oversubscribed + r[1].oversubscribed, 0);
    assert_int_equal(r[2].workers, 4);
    assert_int_equal(r[2].repeats, 0);
    assert_string_equal(r[2].precision, "fp32");  // as its study's other runs
    near(r[2].speedup, 0);
    assert_int_equal(r[0].digest_differs + r[1].digest_differs + r[2].digest_differs, 0);
    assert_string_equal(s->title, "net: strong scaling");
    assert_string_equal(s->cpu, "A CPU");
    assert_string_equal(s->machine, "2 cores");
    assert_string_equal(s->commands, "lockstep scale 'it'\\''s'\n");
    ls_study_free(&s);
    assert_null(s);
}

static void other_weights_are_marked(void **state) {
    put_grid("bb");
    ls_study *s = loaded();
    assert_int_equal(s->rows[0].digest_differs, 0);
    assert_int_equal(s->rows[1].digest_differs, 1);
    char *text;
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(strstr(text, "aa DIFFERS"));
    assert_non_null(
        strstr(text, "net with 2 workers ended with other weights than a run of the same work and kernels"));
    assert_null(strstr(text, "bit for bit"));
    free(text);
    ls_study_free(&s);
}

static void weak_scaling_compares_images(void **state) {
    static const int two[][2] = {{1, 1}, {4, 1}};
    put_study("weak", two, 2);
    put_record("runs/w1-r1.json", 1, 10, "aa", 0.1);
    put_record("runs/w4-r1.json", 4, 20, "bb", 0.1);
    put_work("runs/w1-r1.json", 64, 640);
    put_work("runs/w4-r1.json", 256, 2560);
    ls_study *s = loaded();
    assert_int_equal(s->rows[1].compared, LS_COMPARED_WEAK);
    near(s->rows[1].speedup, 2);
    near(s->rows[1].efficiency, 0.5);
    assert_int_equal(s->rows[1].digest_differs, 0);  // other batches, other weights
    assert_int_equal(s->rows[1].oversubscribed, 1);  // 4 on 2 cores
    assert_string_equal(s->title, "net: weak scaling");
    ls_study_free(&s);
}

static char *table_of(const char *const *list, int count, ls_study **out) {
    char *text;
    assert_int_equal(ls_study_load(list, count, out), LS_OK);
    assert_int_equal(ls_study_table_text(*out, 120, &text), LS_OK);
    return text;
}

// The protocol of many labs: the batch and the rate of one worker times the workers, on the same data. Once these were three rows of
// "strong scaling" with a speedup of 1.00 each, "the same weights, bit for bit" under three digests.
static void a_batch_that_grows_is_no_strong_scaling(void **state) {
    static const char *const names[] = {"p1.json", "p2.json", "p4.json"};
    static const double seconds[] = {80, 45, 25};
    for (int scaled = 0; scaled < 2; scaled++) {
        char where[3][64];
        const char *list[3];
        for (int i = 0; i < 3; i++) {
            int n = 1 << i;
            put_record(names[i], n, seconds[i], (const char *[]){"aa", "bb", "cc"}[i], scaled ? 0.01 * n : 0.01);
            put_work(names[i], 64 * n, 640);
            snprintf(where[i], sizeof where[i], "%s/%s", folder, names[i]);
            list[i] = where[i];
        }
        ls_study *s;
        char *text = table_of(list, 3, &s);
        assert_string_equal(s->title, "net: a batch that grows with the workers");
        for (int i = 0; i < 3; i++) {
            assert_int_equal(s->rows[i].compared, LS_COMPARED_BATCH);
            assert_int_equal(s->rows[i].base, 0);
            near(s->rows[i].speedup, 80 / seconds[i]);
            near(s->rows[i].efficiency, 80 / seconds[i] / (1 << i));
            assert_string_equal(s->rows[i].recipe, "");
            assert_int_equal(s->rows[i].digest_differs, 0);
        }
        assert_non_null(strstr(text, "3.20"));
        assert_non_null(strstr(text, "it is not the same training"));
        assert_null(strstr(text, "bit for bit"));
        assert_null(strstr(text, "trong scaling"));
        free(text);
        ls_study_free(&s);
        // With one record of another data set's size nothing is comparable any more but the other two.
        put_work(names[2], 256, 700);
        text = table_of(list, 3, &s);
        assert_int_equal(s->rows[2].compared, LS_COMPARED_NOT);
        near(s->rows[2].speedup, 0);
        assert_non_null(strstr(text, "1 of 3 configurations has no other that did the same work"));
        free(text);
        ls_study_free(&s);
    }
}

static void single_records_of_another_recipe_are_apart(void **state) {
    char a[64], b[64], c[64];
    put_record("a.json", 1, 10, "aa", 0.1);
    put_record("b.json", 2, 5, "aa", 0.1);
    put_record("c.json", 2, 4, "cc", 0.2);
    snprintf(a, sizeof a, "%s/a.json", folder);
    snprintf(b, sizeof b, "%s/b.json", folder);
    snprintf(c, sizeof c, "%s/c.json", folder);
    ls_study *s;
    assert_int_equal(ls_study_load((const char *const[]){c, b, a}, 3, &s), LS_OK);
    assert_int_equal(s->row_count, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(s->rows[i].digest_differs, 0);
        // One run with another rate is compared with nothing.
        near(s->rows[i].speedup, strcmp(s->rows[i].digest, "aa") == 0 ? s->rows[i].workers : 0);
        assert_string_equal(s->rows[i].recipe, strcmp(s->rows[i].digest, "aa") == 0 ? "lr 0.1" : "lr 0.2");
    }
    char *text;
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(strstr(text, "  Recipe  Nodes  Workers"));
    free(text);
    ls_study_free(&s);
    // Not where there is but one, or something else tells them apart already.
    assert_int_equal(ls_study_load((const char *const[]){b, a}, 2, &s), LS_OK);
    assert_string_equal(s->rows[0].recipe, "");
    ls_study_free(&s);
}

static void networks_stand_by_their_numbers(void **state) {
    static const char *const names[] = {"a.json", "b.json"}, *const models[] = {"resnet152", "resnet50"};
    char where[2][64], *text;
    for (int i = 0; i < 2; i++) {
        put_record(names[i], 1, 40, "aa", 0.1);
        json_t *record = json_load_file(file(names[i]), 0, NULL);
        json_object_set_new(record, "model", json_string(models[i]));
        assert_int_equal(json_dump_file(record, file(names[i]), 0), 0);
        json_decref(record);
        snprintf(where[i], sizeof where[i], "%s/%s", folder, names[i]);
    }
    ls_study *s;
    assert_int_equal(ls_study_load((const char *const[]){where[0], where[1]}, 2, &s), LS_OK);
    assert_string_equal(s->rows[0].model, "resnet50");
    assert_string_equal(s->rows[1].model, "resnet152");
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(strstr(text, "  25.0"));  // images per second: so few have a decimal
    free(text);
    ls_study_free(&s);
}

// Gradients in bf16 are other work than in full: rows of their own, which the strategy tells apart. Records from before there were any say nothing.
static void compressed_runs_stand_apart(void **state) {
    const char *const files[] = {"old.json", "none.json", "bf16.json"}, *const compress[] = {NULL, "none", "bf16"};
    char where[3][512];
    const char *list[3];
    for (int i = 0; i < 3; i++) {
        put_record(files[i], 1 << i, 8, i < 2 ? "aa" : "bb", 0.1);
        json_t *r = json_load_file(file(files[i]), 0, NULL);
        assert_non_null(r);
        if (compress[i]) json_object_set_new(r, "compress", json_string(compress[i]));
        assert_int_equal(json_dump_file(r, file(files[i]), 0), 0);
        json_decref(r);
        snprintf(where[i], sizeof where[i], "%s", file(files[i]));
        list[i] = where[i];
    }
    ls_study *s;
    assert_int_equal(ls_study_load(list, 3, &s), LS_OK);
    assert_int_equal(s->row_count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(s->rows[i].strategy, s->rows[i].workers == 4 ? "allreduce in bf16" : "allreduce");
    ls_study_free(&s);
}

static void recipes_tell_what_differs(void **state) {
    static const char *const recipes[] = {
        "{\"lr\": 0.1, \"seed\": 7, \"remat\": true, \"optimizer\": \"sgd\", \"same\": 1}",
        "{\"lr\": null, \"seed\": 42, \"remat\": false, \"optimizer\": \"adam\", \"same\": 1}", NULL, "{\"same\": 1}"};
    char told[4][LS_RECIPE_TEXT];
    assert_int_equal(ls__recipes_tell(recipes, 4, told), LS_OK);
    assert_string_equal(told[0], "lr 0.1, seed 7, remat, optimizer sgd");
    assert_string_equal(told[1], "lr by default, seed 42, no remat, optimizer adam");
    assert_string_equal(told[2], "");
    assert_string_equal(told[3], "");
}

static void the_machine_is_told(void **state) {
    char text[128];
    json_t *host = json_loads(
        "{\"cores\": 64, \"memory_bytes\": 137000000000, \"network\": [\"eth0, 10000 Mbit/s\", \"mlx5_0, 200 "
        "Gb/sec (4X HDR)\"], \"slurm_job\": \"17\", \"slurm_nodes\": \"n[1-2]\"}",
        0, NULL);
    ls__machine_text(host, text, sizeof text);
    assert_string_equal(text,
                        "64 cores, 137.0 GB of memory; network: eth0, 10000 Mbit/s; mlx5_0, 200 Gb/sec (4X HDR); "
                        "Slurm: job 17, on n[1-2]");
    ls__machine_text(host, text, 20);
    assert_string_equal(text, "64 cores, 137.0 GB ");
    json_decref(host);
    ls__machine_text(NULL, text, sizeof text);
    assert_string_equal(text, "");
}

// Changes the record as a time limit would have left it.
static void stop(const char *name, int whole_epochs) {
    json_t *r = json_load_file(file(name), 0, NULL);
    json_object_set_new(r, "stopped", json_string("time limit"));
    json_object_set_new(r, "stopped_after",
                        json_pack("{s:i, s:i, s:i}", "epoch", whole_epochs + 1, "step", 3, "steps", 9));
    json_object_set_new(r, "epochs", json_integer(whole_epochs));
    if (whole_epochs == 0) json_array_clear(json_object_get(r, "epoch_seconds"));
    json_object_set_new(r, "weights_digest", json_string("of less training"));
    assert_int_equal(json_dump_file(r, file(name), 0), 0);
    json_decref(r);
}

static void a_stopped_run_counts_for_its_whole_epochs(void **state) {
    put_grid("aa");
    unlink(file("runs/w2-r3.failed"));
    unlink(file("runs/w4-r1.failed"));
    put_record("runs/w4-r1.json", 4, 4, "xx", 0.1);
    put_record("runs/w8-r1.json", 8, 2, "xx", 0.1);
    stop("runs/w2-r2.json", 2);
    stop("runs/w4-r1.json", 2);
    stop("runs/w8-r1.json", 0);
    ls_study *s = loaded();
    const ls_study_row *r = s->rows;
    assert_int_equal(s->row_count, 4);
    // One of two: both epochs' times, the results of the other.
    assert_int_equal(r[1].repeats, 2);
    assert_int_equal(r[1].stopped, 1);
    near(r[1].epoch_seconds, 7);
    near(r[1].test_accuracy, 0.75);
    near(r[1].total_seconds, 108);
    assert_string_equal(r[1].digest, "aa");
    assert_string_equal(r[1].reason, "stopped by its time limit after step 3 of 9 in epoch 3");
    // The only one: times, no results. Without a whole epoch, nothing.
    assert_int_equal(r[2].stopped + r[2].repeats, 2);
    near(r[2].speedup, 3);
    assert_true(r[2].test_accuracy != r[2].test_accuracy && r[2].total_seconds != r[2].total_seconds);
    assert_int_equal(r[2].digest_differs, 0);
    assert_int_equal(r[3].repeats, 0);
    assert_int_equal(r[3].failed, 1);
    assert_int_equal(r[3].stopped, 0);
    char *text;
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_null(strstr(text, "DIFFERS"));
    assert_non_null(strstr(text, "bit for bit"));
    assert_non_null(strstr(text, "  stopped\n"));
    free(text);
    assert_int_equal(ls_study_table_text(s, 1000, &text), LS_OK);
    assert_non_null(strstr(text,
                           "!  net with 4 workers: 1 of 1 run did not come to the end, stopped by its time limit "
                           "after step 3 of 9 in epoch 3: the time of its whole epochs counts"));
    assert_non_null(strstr(
        text, "!  net with 8 workers: 1 of 1 run failed: stopped by its time limit after step 3 of 9 in epoch 1.\n"));
    free(text);
    ls_study_free(&s);
}

// What the record's epochs took by phase: of `epoch` (from 0) the seven given, in the order of docs/records.md, of the others 99.
static void put_phases(const char *name, int epoch, const double phases[7]) {
    static const char *const names[] = {"load", "forward", "backward", "exchange", "wait", "update", "serial"};
    json_t *r = json_load_file(file(name), 0, NULL), *all = json_object();
    assert_non_null(r);
    for (int i = 0; i < 7; i++)
        json_object_set_new(all, names[i], json_pack("[f,f]", epoch == 0 ? phases[i] : 99., epoch ? phases[i] : 99.));
    json_object_set_new(r, "epoch_phases", all);
    if (!json_object_get(r, "train_count")) json_object_set_new(r, "train_count", json_integer(639));  // 10 steps of 64
    assert_int_equal(json_dump_file(r, file(name), 0), 0);
    json_decref(r);
}

static double all_losses(const ls_study_row *r) {
    const ls_study_loss *l = &r->loss;
    return l->compute + l->exchange + l->wait + l->input + l->serial + l->unexplained;
}

static void losses_add_up_by_cause(void **state) {
    static const int runs[][2] = {{1, 1}, {2, 1}, {2, 2}, {2, 3}};
    put_study("strong", runs, 4);
    put_record("runs/w1-r1.json", 1, 12, "aa", 0.1);
    put_phases("runs/w1-r1.json", 1, (const double[]){0.5, 4, 6, 0.6, 0, 0.5, 0.2});  // 11.8 of 12
    put_record("runs/w2-r1.json", 2, 9, "aa", 0.1);
    put_record("runs/w2-r2.json", 2, 8, "aa", 0.1);  // the one in the middle
    put_record("runs/w2-r3.json", 2, 7, "aa", 0.1);
    put_phases("runs/w2-r1.json", 1, (const double[]){50, 50, 50, 50, 50, 50, 50});
    put_phases("runs/w2-r2.json", 1, (const double[]){0.25, 2.4, 3.4, 0.5, 0.6, 0.5, 0.1});  // 7.75 of 8
    put_phases("runs/w2-r3.json", 1, (const double[]){50, 50, 50, 50, 50, 50, 50});
    ls_study *s = loaded();
    const ls_study_row *r = s->rows;
    near(r[0].forward, 0.4);
    near(r[0].serial, 0.02);
    near(all_losses(&r[0]), 0);
    near(r[0].loss.compute, 0);
    near(r[1].wait, 0.06);
    near(r[1].efficiency, 0.75);
    near(r[1].loss.compute, (5.8 - 5) / 8);
    near(r[1].loss.exchange, (0.5 - 0.3) / 8);
    near(r[1].loss.wait, 0.6 / 8);
    near(r[1].loss.input, 0);
    near(r[1].loss.serial, (0.6 - 0.35) / 8);
    near(r[1].loss.unexplained, (0.25 - 0.1) / 8);
    near(all_losses(&r[1]), 0.25);
    char *text;
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(
        strstr(text, "\n      1        1       100.0        0.0       0.0      0.0    0.0     0.0          0.0\n"));
    assert_non_null(
        strstr(text, "\n      1        2        75.0       10.0       2.5      7.5    0.0     3.1          1.9\n"));
    free(text);
    ls_study_free(&s);

    // One of the repeats is of before: then nothing is known but the phases, with waiting in the exchange.
    put_record("runs/w2-r3.json", 2, 7, "aa", 0.1);
    s = loaded();
    near(s->rows[1].exchange, 0.11);
    assert_true(s->rows[1].wait != s->rows[1].wait && s->rows[1].serial != s->rows[1].serial);
    assert_true(s->rows[1].loss.compute != s->rows[1].loss.compute);
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(strstr(text, "unknown"));
    free(text);
    ls_study_free(&s);
}

static void losses_of_weak_scaling(void **state) {
    static const int two[][2] = {{1, 1}, {4, 1}};
    put_study("weak", two, 2);
    put_record("runs/w1-r1.json", 1, 10, "aa", 0.1);
    put_record("runs/w4-r1.json", 4, 20, "bb", 0.1);  // twice as long with as many samples each: 50 %
    put_work("runs/w1-r1.json", 64, 640);
    put_work("runs/w4-r1.json", 256, 2560);
    put_phases("runs/w1-r1.json", 1, (const double[]){0, 4, 6, 0, 0, 0, 0});
    put_phases("runs/w4-r1.json", 1, (const double[]){0, 4, 6, 2, 8, 0, 0});
    ls_study *s = loaded();
    near(s->rows[1].efficiency, 0.5);
    near(s->rows[1].loss.compute, 0);
    near(s->rows[1].loss.exchange, 0.1);
    near(s->rows[1].loss.wait, 0.4);
    near(s->rows[1].loss.unexplained, 0);
    ls_study_free(&s);
}

static void tables_are_written(void **state) {
    put_grid("aa");
    ls_study *s = loaded();
    assert_int_equal(ls_study_write_tables(s, folder), LS_OK);
    char text[8192] = "";
    FILE *f = fopen(file("results.csv"), "r");
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(
        strstr(text,
               "\n\"net\",\"strong\",\"digits\",\"fp32\",\"allreduce\",1,2,2,1,1,7,64,8,0,0,2,1,0,0,0.5,0.07,"
               "0.07,7,6,8,"));
    assert_non_null(strstr(text, "\"it crashed, \"\"badly\"\"\""));
    f = fopen(file("results.md"), "r");
    memset(text, 0, sizeof text);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    assert_non_null(strstr(text, "| 1 | 2 | 2 | 0.500 | 70.00 | 7.00 | - | 75.00 | 107.00 |"));
    assert_non_null(strstr(text, "- Warning: net with 4 workers: 1 of 1 run failed: no room."));
    assert_int_equal(ls_study_write_tables(s, file("none")), LS_STATUS_IO);
    assert_non_null(strstr(ls_error_message(), "none/results.csv: No such file or directory"));
    ls_study_free(&s);
}

static char *read_all(const char *name) {
    static char text[32768];
    FILE *f = fopen(file(name), "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

// What a record or a sentence holds is shown: not computed by a spreadsheet, not drawn by a browser, not obeyed by a terminal.
static void words_of_others_are_only_shown(void **state) {
    put_grid("=1+1");
    put("runs/w2-r3.failed", "=cmd|'/C calc'!A0 <script>alert(1)</script> \033[2J | b\n");
    put("runs/w4-r1.failed", "@SUM(1) & more\n");
    ls_study *s = loaded();
    assert_int_equal(ls_study_write_tables(s, folder), LS_OK);
    const char *text = read_all("results.csv");
    assert_null(strstr(text, "\"="));
    assert_null(strstr(text, ",="));
    assert_non_null(strstr(text, "\"'=cmd|"));
    assert_non_null(strstr(text, "\"'@SUM(1)"));
    text = read_all("results.md");
    assert_null(strstr(text, "<script"));
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "&lt;script>alert(1)"));
    assert_non_null(strstr(text, "@SUM(1) &amp; more"));
    char *terminal;
    assert_int_equal(ls_study_table_text(s, 120, &terminal), LS_OK);
    assert_non_null(strstr(terminal, "?[2J"));
    assert_null(strchr(terminal, '\033'));
    free(terminal);
    ls_study_free(&s);
}

// In a folder that others write to, a link must not lead the files of a report elsewhere.
static void links_are_not_followed(void **state) {
    char target[] = "/tmp/lockstep-target.XXXXXX", inside[300];
    struct stat there;
    assert_non_null(mkdtemp(target));
    put_grid("aa");
    ls_study *s = loaded();
    assert_int_equal(symlink(target, file("charts")), 0);
    assert_int_equal(ls_study_write_charts(s, folder, 0), LS_STATUS_IO);
    assert_non_null(strstr(ls_error_message(), "charts"));
    snprintf(inside, sizeof inside, "%s/new", target);
    for (int i = 0; i < 2; i++) assert_int_equal(symlink(inside, file(i ? "results.md" : "results.csv")), 0);
    assert_int_equal(ls_study_write_tables(s, folder), LS_OK);
    assert_int_equal(lstat(file("results.csv"), &there), 0);
    assert_true(S_ISREG(there.st_mode));
    assert_int_equal(rmdir(target), 0);  // there is nothing in it
    ls_study_free(&s);
}

static void refused(const char *name, ls_status status, const char *sentence) {
    ls_study *s = NULL;
    assert_int_equal(ls_study_load((const char *const[]){file(name)}, 1, &s), status);
    assert_null(s);
    if (!strstr(ls_error_message(), sentence)) fail_msg("%s", ls_error_message());
}

static void what_is_no_study_is_refused(void **state) {
    refused("none", LS_STATUS_NOT_FOUND, "none: No such file or directory");
    refused("runs", LS_STATUS_NOT_FOUND, "has no study.json");
    put("x.json", "{");
    refused("x.json", LS_STATUS_BAD_DATA, "x.json is not JSON: line 1");
    put("x.json", "{\"model\": \"net\"}");
    refused("x.json", LS_STATUS_BAD_DATA, "not the record of a run");
    put("x.json", "{\"lockstep_run\": 99}");
    refused("x.json", LS_STATUS_BAD_DATA, "a record of format 99");
    put("x.json", "{\"lockstep_run\": 1, \"model\": \"net\"}");
    refused("x.json", LS_STATUS_BAD_DATA, "not a whole record: it has no \"weights_digest\"");
    put("x.json",
        "{\"lockstep_run\": 1, \"model\": \"net\", \"weights_digest\": \"a\", \"epoch_seconds\": [1], \"options\": {}, "
        "\"workers\": 4294967296}");
    refused("x.json", LS_STATUS_BAD_DATA, "\"workers\" is not a number of workers");
    put("study.json", "{\"lockstep_study\": 99}");
    refused(".", LS_STATUS_BAD_DATA, "not of study format 1");
    put_study("strong", grid, 8);
    refused(".", LS_STATUS_NOT_FOUND, "no finished run yet");
}

// One record that is damaged, or of another version, does not hide the others.
static void a_bad_record_fails_its_run_alone(void **state) {
    put_grid("aa");
    put("runs/w2-r1.json", "[]");
    put("runs/w1-r2.json", "{\"lockstep_run\": 1, \"mo");
    put("runs/w8-r1.json", "{\"lockstep_run\": 99}");
    ls_study *s = loaded();
    assert_int_equal(s->row_count, 4);
    assert_int_equal(s->rows[0].repeats, 2);
    assert_int_equal(s->rows[0].failed, 1);
    assert_non_null(strstr(s->rows[0].reason, "w1-r2.json is not JSON: line 1"));
    assert_int_equal(s->rows[1].repeats, 1);
    assert_non_null(strstr(s->rows[1].reason, "w2-r1.json is not the record of a run"));
    assert_int_equal(s->rows[3].repeats, 0);
    assert_non_null(strstr(s->rows[3].reason, "w8-r1.json is a record of format 99"));
    assert_string_equal(s->programs, "");
    ls_study_free(&s);
}

static void runs_of_different_programs_are_told(void **state) {
    put_grid("aa");
    json_t *r = json_load_file(file("runs/w2-r2.json"), 0, NULL);
    json_object_set_new(json_object_get(r, "versions"), "lockstep", json_string("0.2.0"));
    assert_int_equal(json_dump_file(r, path, 0), 0);
    json_decref(r);
    ls_study *s = loaded();
    assert_string_equal(s->programs, "Lockstep 0.1.0; Lockstep 0.2.0");
    char *text;
    assert_int_equal(ls_study_table_text(s, 120, &text), LS_OK);
    assert_non_null(strstr(text, "Not all runs were made by the same program"));
    free(text);
    ls_study_free(&s);
}

static int folder_make(void **state) { return mkdtemp(folder) ? 0 : -1; }

static int folder_remove(void **state) {
    clean(state);
    return rmdir(file("runs")) || rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(repeats_become_one_row, clean),
        cmocka_unit_test_setup(other_weights_are_marked, clean),
        cmocka_unit_test_setup(weak_scaling_compares_images, clean),
        cmocka_unit_test_setup(a_batch_that_grows_is_no_strong_scaling, clean),
        cmocka_unit_test_setup(single_records_of_another_recipe_are_apart, clean),
        cmocka_unit_test_setup(networks_stand_by_their_numbers, clean),
        cmocka_unit_test_setup(compressed_runs_stand_apart, clean),
        cmocka_unit_test(recipes_tell_what_differs),
        cmocka_unit_test(the_machine_is_told),
        cmocka_unit_test_setup(a_stopped_run_counts_for_its_whole_epochs, clean),
        cmocka_unit_test_setup(losses_add_up_by_cause, clean),
        cmocka_unit_test_setup(losses_of_weak_scaling, clean),
        cmocka_unit_test_setup(tables_are_written, clean),
        cmocka_unit_test_setup(words_of_others_are_only_shown, clean),
        cmocka_unit_test_setup(links_are_not_followed, clean),
        cmocka_unit_test_setup(what_is_no_study_is_refused, clean),
        cmocka_unit_test_setup(a_bad_record_fails_its_run_alone, clean),
        cmocka_unit_test_setup(runs_of_different_programs_are_told, clean),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
