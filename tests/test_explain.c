// What a study's page says: no more than the numbers show, and in how many words. test_words.c does it for random studies.
#include "study_rows.h"

// --- the explanation -------------------------------------------------------------------------------------------------

// All statements, a line each.
static char *words(void) {
    ls_statements list;
    char *text = NULL;
    size_t size;
    assert_int_equal(ls__study_words(&study, &list), LS_OK);
    FILE *out = open_memstream(&text, &size);
    for (int i = 0; i < list.count; i++)
        fprintf(out, "%s%s\n", list.list[i].kind == LS_WORD_WARNING ? "! " : "", list.list[i].text);
    fclose(out);
    ls__statements_free(&list);
    return text;
}

static void causes_are_those_that_the_numbers_show(void **state) {
    char *text = words();
    has(text,
        "net: an epoch took 10.0 s with 1 worker (2 runs) and 3.52 s with 4 workers (2 runs), a speedup of 2.84, an "
        "efficiency of 71 %.");
    has(text,
        "net: with 4 workers, 29.0 % of an epoch's time were lost against the efficiency of 1 worker, most of all by "
        "exchange that is not hidden behind computing (28.0 %).\n");
    has_not(text, "computing that got slower");
    has_not(text, "ewer cores");
    has(text,
        "net: 6 runs with different numbers of workers ended with the same weights, bit for bit (digest "
        "0123456789ab).");
    has_not(text, "!");
    free(text);
    rows[2].loss = (ls_study_loss){.compute = 0.15, .wait = 0.04, .serial = 0.001, .input = -0.001, .unexplained = 0.1};
    text = words();
    has(text, "most of all by computing that got slower (15.0 %), waiting for the slowest replica (4.0 %).");
    has(text, "10.0 % of the epoch are in no phase that was measured");
    has_not(text, "serial parts");
    free(text);
}

// They are named, and nothing is concluded from them.
static void rows_that_share_cores_conclude_nothing(void **state) {
    rows[2].oversubscribed = 1;
    char *text = words();
    has(text, "and 5.21 s with 2 workers (2 runs), a speedup of 1.92");
    has(text, "Fewer cores than threads, which took turns: net with 4 workers. Their times say nothing about scaling.");
    has_not(text, "71 %");
    free(text);
    setenv("PATH", folder, 1);
    ls_study_write_charts(&study, folder, 0);
    file_has("charts/speedup.dat", "\n4 2 2.84 2.78376 2.89737 1 4\n");
    file_has("charts/speedup.gp", "hollow: fewer cores than threads");
    file_has("charts/accuracy.dat", "\n4 2 98.8 nan nan 0 nan\n");  // which cores do not change
    text = page();
    has(text, "<td>4<sup title=\"fewer cores than threads\">*</sup></td>");
    free(text);
}

// As they were before waiting was told apart.
static void old_records_do_not_tell_causes(void **state) {
    for (int i = 0; i < 3; i++) {
        rows[i].wait = rows[i].serial = NAN;
        rows[i].loss = (ls_study_loss){NAN, NAN, NAN, NAN, NAN, NAN};
    }
    char *text = words();
    has_not(text, "were lost");
    free(text);
    text = page();
    has(text, "<td>unknown</td>");
    free(text);
    setenv("PATH", folder, 1);
    ls_study_write_charts(&study, folder, 0);
    file_has("charts/phases.dat", "\n1 0 30 60 0 10 0\n");
}

// Statements take more than what repeats leave to chance, and one run says nothing about chance.
static void noise_is_no_news(void **state) {
    for (int i = 0; i < 3; i++) {
        rows[3 + i] = rows[i];
        memcpy(rows[3 + i].model, "wide", 5);
        rows[3 + i].base = 3;
    }
    study.row_count = 6;
    rows[5].efficiency = 0.9;
    char *text = words();
    has(text, "With 4 workers, wide has an efficiency of 90 % and net of 71 %: more apart than their repeats.");
    has_not(text, "Repeats differ");
    free(text);
    // Repeats that could as well be the other way round.
    rows[4].epoch_seconds_least = 4, rows[4].epoch_seconds_most = 11;
    rows[5].oversubscribed = 1;
    text = words();
    has(text,
        "wide: an epoch took 10.0 s with 1 worker (2 runs) and 5.21 s with 2 workers (2 runs), no more apart than");
    rows[5].oversubscribed = 0;
    free(text);
    rows[4].epoch_seconds_least = rows[4].epoch_seconds_most = rows[4].epoch_seconds;
    // The repeats of one of them differ by 49 %.
    rows[2].epoch_seconds_least = rows[2].epoch_seconds * 0.75;
    rows[2].epoch_seconds_most = rows[2].epoch_seconds * 1.24;
    text = words();
    has_not(text, "more apart than");
    has_not(text, "net: with 4 workers, ");
    has(text, "wide: with 4 workers, ");
    has(text, "Repeats differ by up to 49 % of their median (net with 4 workers).");
    free(text);
    for (int i = 0; i < 6; i++) rows[i].repeats = 1;
    rows[2].epoch_seconds_least = rows[2].epoch_seconds_most = rows[2].epoch_seconds;
    text = words();
    has_not(text, "more apart than");
    has_not(text, "were lost");
    has(text, "6 of 6 configurations ran once");
    free(text);
}

static void weak_scaling_and_differing_weights_are_said(void **state) {
    rows[1].digest_differs = 1;
    char *text = words();
    has(text, "! net with 2 workers ended with other weights than a run of the same work and kernels");
    has(text, "net: 4 runs with different numbers of workers ended with the same weights");  // of the others
    free(text);
    rows[1].digest_differs = 0;
    rows[1].by_timing = 1;
    text = words();
    has(text, "net with 2 workers: asynchronous, so its weights depend on which gradients came first");
    has_not(text, "other weights than a run");
    free(text);
    rows[1].by_timing = 0;
    for (int i = 0; i < 3; i++) {
        rows[i].compared = LS_COMPARED_WEAK;
        rows[i].global_batch = 64 << i;
        rows[i].digest[0] = (char)('a' + i);
    }
    rows[2].test_accuracy = 0.986;
    text = words();
    has(text, "each worker with the same number of samples; a speedup of 2.84");
    has(text, "Weak scaling: batch and samples grow");
    has_not(text, "Strong scaling");
    has_not(text, "test accuracy");  // 0.2 points of 1000 samples are chance
    has_not(text, "bit for bit");
    free(text);
    rows[2].test_accuracy = 0.93;
    text = words();
    has(text,
        "net: test accuracy falls from 98.80 % with a batch of 64 to 93.00 % with 256, by more than the 2.63 points "
        "that "
        "1000 test samples leave to chance.");
    free(text);
}

static void the_time_to_an_accuracy_is_told(void **state) {
    for (int i = 0; i < 3; i++) rows[i].until_accuracy = 0.98;
    char *text = words();
    has(text, "net: no configuration reached a test accuracy of 98 %.");
    free(text);
    rows[0].until_seconds = 30, rows[0].until_epoch = 3;
    rows[1].until_seconds = 16, rows[1].until_epoch = 3;
    text = words();
    has(text,
        "net: a test accuracy of 98 % was reached first with 2 workers, after 16.0 s of training and 3 epochs; 2 of 3 "
        "configurations reached it.");
    free(text);
    text = page();
    has(text, "Training time to the accuracy asked for (s)");
    free(text);
}

static int times(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text++;
    return n;
}

static void six_findings_are_enough(void **state) {
    for (int k = 1; k < 3; k++)
        for (int i = 0; i < 3; i++) {
            ls_study_row *r = &rows[3 * k + i];
            if (3 * k + i >= 8) break;
            *r = rows[i];
            snprintf(r->model, sizeof r->model, "net%d", k);
            r->base = 3 * k;
            r->digest[0] = (char)('a' + k);
        }
    study.row_count = 8;
    ls_statements list;
    assert_int_equal(ls__study_words(&study, &list), LS_OK);
    int findings = 0;
    for (int i = 0; i < list.count; i++) findings += list.list[i].kind == LS_WORD_FINDING;
    assert_int_equal(findings, 6);
    has(list.list[0].text, "net: an epoch took");
    ls__statements_free(&list);
}

static void nodes_are_an_axis_unless_they_tell_rows_apart(void **state) {
    for (int i = 0; i < 3; i++) rows[i].nodes = 1 << i, rows[i].workers_per_node = 1;
    ls_series s;
    assert_int_equal(ls__series_create(&study, &s), LS_OK);
    assert_int_equal(s.count, 1);
    ls__series_destroy(&s);
    char *text = words();
    has(text, "with 4 workers on 4 nodes");
    free(text);
    setenv("PATH", folder, 1);
    ls_study_write_charts(&study, folder, 0);
    file_has("charts/speedup.gp", "set xlabel 'workers, 1 on each node'");
    // The weights of all nodes are the same: said once.
    rows[3] = rows[2];
    rows[3].nodes = 2;
    study.row_count = 4;
    text = words();
    has(text,
        "net: 8 runs with different numbers of workers ended with the same weights, bit for bit (digest 0123456789ab)");
    assert_int_equal(times(text, "bit for bit"), 1);
    free(text);
    assert_int_equal(ls__series_create(&study, &s), LS_OK);
    assert_int_equal(s.count, 3);
    ls__series_destroy(&s);
}

static void one_run_is_about_that_run(void **state) {
    study.row_count = 1;
    study.title = "net: one configuration";
    rows[0].compared = LS_COMPARED_NOT;
    rows[0].base = -1;
    rows[0].repeats = 1;
    rows[0].speedup = rows[0].efficiency = 0;
    rows[0].planned_bytes = 90000000;
    rows[0].peak_rss_bytes = 89000000;
    rows[0].layer_count = 2;
    rows[0].layer[0] = (ls_study_layer){"conv2d <b> backward weights", 0.0125, 0.301};
    rows[0].layer[1] = (ls_study_layer){"dense forward", 0.001, 0.02};
    char *text = words();
    has(text, "Of the layers, conv2d <b> backward weights took most of the recorded steps: 30 % of all layers' time.");
    has(text, "An epoch of 6400 samples took 10.0 s (one run): 600 images per second.");
    has(text, "After 3 epochs the accuracy on 1000 test samples is 98.80 %.");
    has(text, "Of a step's 100 ms, most went to backward: 60 %.");
    has(text, "Its largest worker took 89 MB of memory, and 90 MB were planned.");
    has_not(text, "speedup");
    free(text);
    setenv("PATH", folder, 1);
    ls_study_write_charts(&study, folder, 0);
    text = page();
    has(text, "How did the training of net go on 1 worker");
    has(text, "The slowest layers");
    has(text, "conv2d &lt;b&gt; backward weights</td><td>12.500</td><td>30.1</td>");
    has(text, "dense forward</td><td>1.000</td><td>2.0</td>");
    has_not(text, "fficiency");
    has_not(text, "Speedup");
    has_not(text, "What is compared");
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(causes_are_those_that_the_numbers_show, setup),
        cmocka_unit_test_setup(rows_that_share_cores_conclude_nothing, setup),
        cmocka_unit_test_setup(old_records_do_not_tell_causes, setup),
        cmocka_unit_test_setup(noise_is_no_news, setup),
        cmocka_unit_test_setup(weak_scaling_and_differing_weights_are_said, setup),
        cmocka_unit_test_setup(the_time_to_an_accuracy_is_told, setup),
        cmocka_unit_test_setup(six_findings_are_enough, setup),
        cmocka_unit_test_setup(nodes_are_an_axis_unless_they_tell_rows_apart, setup),
        cmocka_unit_test_setup(one_run_is_about_that_run, setup),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
