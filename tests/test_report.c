// A study's charts, page and explanation: what stands in their files, that nothing in a record becomes markup or a command, and
// that the explanation claims what the numbers show and no more.
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
#include <math.h>

#include <lockstep/status.h>

#include "report/study_impl.h"

static char folder[] = "/tmp/lockstep-report.XXXXXX";
static char path_before[4096];
static ls_study_row rows[8];
static ls_study study;

// Strong scaling of "net" over 1, 2 and 4 workers at efficiencies of 100, 96 and 71 %, the loss being exchange.
static int setup(void **state) {
    static const double efficiency[] = {1, 0.96, 0.71};
    memset(rows, 0, sizeof rows);
    for (int i = 0; i < 3; i++) {
        ls_study_row *r = &rows[i];
        int n = 1 << i;
        *r = (ls_study_row){.model = "net",
                            .precision = "fp32",
                            .strategy = "allreduce",
                            .data = "digits",
                            .optimizer = "sgd",
                            .nodes = 1,
                            .workers_per_node = n,
                            .workers = n,
                            .replicas_per_worker = 1,
                            .threads_per_replica = 1,
                            .global_batch = 64,
                            .micro_batch = 8,
                            .train_count = 6400,
                            .test_count = 1000,
                            .compared = LS_COMPARED_STRONG,
                            .repeats = 2,
                            .rate = 0.01,
                            .until_accuracy = NAN,
                            .until_seconds = NAN,
                            .until_epoch = NAN,
                            .steps = 100,
                            .step_seconds_median = 0.07 / n,
                            .epochs = 3,
                            .read_seconds = 0.53,
                            .step_seconds = 0.1 / n / efficiency[i],
                            .epoch_seconds = 10.0 / n / efficiency[i],
                            .total_seconds = 35,
                            .images_per_second = 600 * n * efficiency[i],
                            .test_loss = 0.0441,
                            .test_accuracy = 0.988,
                            .forward = 0.03 / n,
                            .backward = 0.06 / n,
                            .update = 0.01 / n,
                            .exchange = 0.1 / n / efficiency[i] - 0.1 / n,
                            .loss = {.exchange = 0.99 - efficiency[i], .unexplained = 0.01},
                            .speedup = n * efficiency[i],
                            .efficiency = efficiency[i],
                            .device = "cpu: kernels 1.0, avx2",
                            .digest = "0123456789abcdef"};
        r->epoch_seconds_least = r->epoch_seconds * 0.99;
        r->epoch_seconds_most = r->epoch_seconds * 1.01;
    }
    study =
        (ls_study){.title = "A study", .rows = rows, .row_count = 3, .host = "node1", .commands = "lockstep scale net"};
    setenv("PATH", path_before, 1);
    return 0;
}

static char *read_text(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    if (!f) return NULL;
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, f);
    text[n] = 0;
    fclose(f);
    return text;
}

static void has(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("'%s' is not in:\n%s", what, text);
}

static void has_not(const char *text, const char *what) {
    if (strstr(text, what)) fail_msg("'%s' is in:\n%s", what, text);
}

static void file_has(const char *name, const char *what) {
    char *text = read_text(name);
    if (!text) fail_msg("there is no %s", name);
    has(text, what);
    free(text);
}

// --- charts ----------------------------------------------------------------------------------------------------------

static void scripts_and_data_are_there_without_gnuplot(void **state) {
    setenv("PATH", folder, 1);
    assert_int_equal(ls_study_write_charts(&study, folder, 0), LS_STATUS_UNSUPPORTED);
    has(ls_error_message(), "gnuplot-nox");
    file_has("charts/epoch-time.dat",
             "\n1 0 10 9.9 10.1 0 nan\n2 1 5.20833 5.15625 5.26042 0 nan\n4 2 3.52113 3.48592 3.55634 0 nan\n");
    file_has("charts/throughput.dat", "\n1 0 600 594.059 606.061 0 nan\n");
    // The range that the repeats of a row and of its base leave: 0.99 / 1.01 of it to the reverse.
    file_has("charts/speedup.dat", "\n1 0 1 1 1 0 1\n2 1 1.92 1.88198 1.95879 0 2\n4 2 2.84 2.78376 2.89737 0 4\n");
    file_has("charts/efficiency.dat",
             "\n1 0 100 100 100 0 100\n2 1 96 94.099 97.9394 0 100\n4 2 71 69.5941 72.4343 0 100\n");
    file_has("charts/accuracy.dat", "\n4 2 98.8 nan nan 0 nan\n");
    file_has("charts/phases.dat", "workers position forward backward exchange update other: milliseconds");
    file_has("charts/phases.dat", "\n1 0 30 60 0 10 0\n");
    file_has("charts/speedup.gp", "speedup over 1 worker");
    assert_null(read_text("charts/speedup.svg"));
}

static void gnuplot_draws_them(void **state) {
    if (system("command -v gnuplot >/dev/null") != 0) skip();
    memcpy(rows[1].model, "it's `touch x` \"$(y)\"\n", 22);
    study.epochs = (ls_study_epoch[]){{2, 0.5, 2.5, 0.4}, {1, 0.8, 1.5, 0.7}};
    rows[0].curve_epochs = 2;
    rows[2].global_batch = 128;
    rows[0].until_seconds = rows[2].until_seconds = 3;
    assert_int_equal(ls_study_write_charts(&study, folder, 1), LS_OK);
    file_has("charts/slides.pdf", "%PDF");
    assert_int_equal(ls_study_write_charts(&study, folder, 1), LS_OK);  // again, in place of those
    for (int i = 0; ls__charts[i].name; i++) {
        char name[64];
        snprintf(name, sizeof name, "charts/%s.svg", ls__charts[i].name);
        file_has(name, "<svg");
        snprintf(name, sizeof name, "charts/%s.png", ls__charts[i].name);
        file_has(name, "\x89PNG");
    }
    file_has("charts/speedup.svg", "it's `touch x` ");
    file_has("charts/learning.dat", "\n1 50 40\n2 80 70\n");
    file_has("charts/accuracy-batch.dat", "\n128 4 98.8 ");
    assert_null(read_text("charts/x"));
}

static void what_cannot_be_drawn_is_left_out(void **state) {
    setenv("PATH", folder, 1);
    study.row_count = 1;
    rows[0].test_loss = rows[0].test_accuracy = 0.0 / 0.0;
    assert_int_equal(ls_study_write_charts(&study, folder, 0), LS_STATUS_UNSUPPORTED);
    file_has("charts/phases.dat", "\n1 0 30 ");
    assert_null(read_text("charts/epoch-time.dat"));  // a single bar
    assert_null(read_text("charts/speedup.dat"));
    assert_null(read_text("charts/accuracy.gp"));
    rows[0].repeats = 0;
    rows[0].failed = 1;
    assert_int_equal(ls_study_write_charts(&study, folder, 0), LS_OK);  // nothing to draw
    assert_null(read_text("charts/phases.dat"));
    assert_int_equal(ls_study_write_charts(&study, "/dev/null", 0), LS_STATUS_IO);
    has(ls_error_message(), "cannot write /dev/null/charts");
}

static void series_are_named_by_what_differs(void **state) {
    ls_series s;
    memcpy(rows[2].precision, "bf16", 5);
    assert_int_equal(ls__series_create(&study, &s), LS_OK);
    assert_int_equal(s.count, 2);
    assert_string_equal(s.name[0], "net, fp32");
    assert_string_equal(s.name[1], "net, bf16");
    assert_int_equal(s.of[1], 0);
    assert_int_equal(s.of[2], 1);
    ls__series_destroy(&s);
    memcpy(rows[2].precision, "fp32", 5);
    rows[0].replicas_per_worker = 2;
    rows[1].global_batch = 128;
    assert_int_equal(ls__series_create(&study, &s), LS_OK);
    assert_int_equal(s.count, 3);
    assert_string_equal(s.name[0], "net, batch 64, 2 replicas of 1 thread");
    assert_string_equal(s.name[1], "net, batch 128, 1 replica of 1 thread");
    ls__series_destroy(&s);
    memcpy(rows[2].recipe, "lr 0.1", 7);
    assert_int_equal(ls__series_create(&study, &s), LS_OK);
    assert_string_equal(s.name[2], "net, batch 64, 1 replica of 1 thread, lr 0.1");
    ls__series_destroy(&s);
}

static char *table_text(void) {
    char *text;
    assert_int_equal(ls_study_table_text(&study, 100, &text), LS_OK);
    return text;
}

static void tables_tell_rows_apart(void **state) {
    char *text = table_text();
    has_not(text, "worker  Nodes");
    has_not(text, "batch  Nodes");
    free(text);
    rows[0].replicas_per_worker = 2;
    text = table_text();
    has(text, "worker  Nodes");
    free(text);
    rows[1].global_batch = 128;
    text = table_text();
    has(text, "batch  Nodes");
    free(text);
    assert_int_equal(ls_study_write_tables(&study, folder), LS_OK);
    file_has("results.md", "| Replicas per worker | Global batch | Nodes |");
    file_has("results.md", "net on digits; 3 epochs, global batch 64, fp32, sgd, seed 0; 2 replicas per worker.");
    file_has("results.md", "net on digits; 3 epochs, global batch 128, fp32, sgd, seed 0; 1 replica per worker.");
}

// Names that would overlap below their bars become letters, with the names above.
static void long_names_become_letters(void **state) {
    memcpy(rows[2].precision, "bf16", 5);
    ls_study_write_charts(&study, folder, 0);
    file_has("charts/phases.gp", "set label 2 NAME2 at");
    memcpy(rows[2].precision, "fp32", 5);
    rows[0].replicas_per_worker = 2;
    ls_study_write_charts(&study, folder, 0);
    file_has("charts/phases.gp", "set label 2 'B' at");
    file_has("charts/phases.gp", "'B: '.NAME2 at screen");
}

// --- the page --------------------------------------------------------------------------------------------------------

// Every element is closed, in the right order.
static void well_nested(const char *text) {
    char open[64][32];
    int depth = 0;
    for (const char *p = strchr(text, '<'); p; p = strchr(p, '<')) {
        const char *end = strchr(p, '>');
        assert_non_null(end);
        char name[32] = "";
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p + 1 + (p[1] == '/'), " \n/>"), p + 1 + (p[1] == '/'));
        if (p[1] == '/') {
            if (depth == 0 || strcmp(open[depth - 1], name) != 0) fail_msg("</%s> closes nothing", name);
            depth--;
        } else if (p[1] != '!' && end[-1] != '/') {
            assert_true(depth < 64);
            memcpy(open[depth++], name, sizeof name);
        }
        p = end;
    }
    if (depth != 0) fail_msg("<%s> is not closed", open[depth - 1]);
}

// Nothing is loaded from elsewhere and nothing is run.
static void stands_alone(const char *text) {
    static const char *const no[] = {"<script", "<link", "src=", "@import", "url(http", "onclick"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) has_not(text, no[i]);
    for (const char *p = strstr(text, "http"); p; p = strstr(p + 1, "http"))
        if (strncmp(p, "http://www.w3.org/", 18) != 0) fail_msg("a link: %.60s", p);  // names, not links
}

static char *page(void) {
    assert_int_equal(ls_study_write_page(&study, folder), LS_OK);
    char *text = read_text("index.html");
    well_nested(text);
    stands_alone(text);
    return text;
}

static void page_shows_every_row(void **state) {
    ls_study_write_charts(&study, folder, 0);
    char *text = page();
    has(text,
        "<td class=\"name\">net</td><td>1</td><td>4</td><td>4</td><td>0.53</td><td>0.0352</td><td>3.52</td>"
        "<td>0.0441</td><td>98.80</td><td>35.00</td>");
    has(text, "<td>1704.0</td><td>2.84</td><td>71.0</td>");
    has(text, "<td>01234567</td><td>cpu: kernels 1.0, avx2</td>");
    has(text, "from 1 to 4 workers");
    has(text, "<dd>node1</dd>");
    has(text,
        "net on digits (6400 samples, 1000 for the test): 3 epochs, global batch 64 in micro-batches of 8, sgd, "
        "learning rate "
        "up to 0.01, fp32, allreduce, seed 0");
    has(text, "<pre>lockstep scale net</pre>");
    has(text, "29.0 % of an epoch&#39;s time were lost");
    has(text, "Strong scaling: rows with the same batch");
    if (strstr(text, "<svg")) {
        has(text, "id=\"c0-gnuplot_plot_1\"");
        has(text, "<a href=\"charts/speedup.dat\">data</a>");
        has(text, "Lines at points and bars span the repeats, 2 each");
        has(text, "href='#c0-gp");
        has_not(text, "<title>gnuplot");
    } else {
        has(text, "gnuplot was not found");
    }
    free(text);
}

static void records_never_become_markup(void **state) {
    setenv("PATH", folder, 1);
    ls_study_write_charts(&study, folder, 0);
    study.title = "<script>alert('x')</script> & more\x01\xff";
    study.commands = "lockstep scale '<b>'";
    memcpy(rows[0].model, "<i>net", 7);
    memcpy(rows[0].data, "\"x\"</dd>", 9);
    memcpy(study.host, "</dl>", 6);
    memcpy(rows[0].digest, "<hr>", 5);
    rows[2].failed = 1;
    memcpy(rows[2].reason, "killed </p>", 12);
    char *text = page();
    has(text, "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; more\xEF\xBF\xBD\xEF\xBF\xBD</h1>");
    has(text, "killed &lt;/p&gt;");
    has(text, "&lt;i&gt;net");
    free(text);
}

static void rows_without_runs_are_told(void **state) {
    rows[2].repeats = 0;
    rows[2].failed = 2;
    memcpy(rows[2].reason, "it took longer than 60 s", 25);
    char *text = page();
    has(text, "<p class=\"warn\">net with 4 workers: 2 of 2 runs failed: it took longer than 60 s.</p>");
    has(text, "from 1 to 2 workers");
    free(text);
    study.row_count = 0;
    text = page();
    has(text, "A study");
    free(text);
    assert_int_equal(ls_study_write_page(&study, "/nowhere"), LS_STATUS_IO);
    has(ls_error_message(), "cannot write /nowhere/index.html");
}

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
    char *text = words();
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
    has_not(text, "fficiency");
    has_not(text, "Speedup");
    has_not(text, "What is compared");
    free(text);
}

// --- in the terminal ---------------------------------------------------------------------------------------------------

static char *drawn(int width, int utf8) {
    char *text;
    assert_int_equal(ls_study_charts_text(&study, width, utf8, &text), LS_OK);
    return text;
}

// Columns of the longest line, every character of UTF-8 being one.
static int columns(const char *text) {
    int most = 0, here = 0;
    for (; *text; text++) {
        if (*text == '\n') here = -1;
        if (((unsigned char)*text & 0xc0) != 0x80) here++;
        most = here > most ? here : most;
    }
    return most;
}

static void the_terminal_has_charts_too(void **state) {
    char *text = drawn(60, 0);  // bars of 36 cells
    has(text,
        "\nTime per epoch (s)\n"
        "  1 worker  #################################### 10.0\n"
        "  2 workers ################### 5.21\n"
        "  4 workers ############# 3.52\n");
    has(text,
        "\nSpeedup, the ideal at |\n"
        "  1 worker  #########                            1.00\n"
        "  2 workers #################|                   1.92\n"
        "  4 workers ##########################         | 2.84\n");
    has(text, "\nEfficiency (%), the ideal at |\n  1 worker  #################################### 100\n");
    has(text, "  4 workers ##########################         | 71.0\n");
    has(text,
        "\nWhere a step's time goes (ms)\n  . load # forward = backward + exchange ~ wait - update _ serial\n"
        "  1 worker  ###########=====================---- 100\n");
    for (const char *c = text; *c; c++) assert_true((unsigned char)*c < 128);
    assert_true(columns(text) <= 80);
    free(text);
    text = drawn(60, 1);
    has(text, "  2 workers ██████████████████▊ 5.21\n");
    has(text, "  4 workers ████████████▋ 3.52\n");
    has(text, "  2 workers █████████████████▎                   1.92\n");
    has(text, "  4 workers █████████████████████████▌         │ 2.84\n");
    assert_true(columns(text) <= 80);
    free(text);
    // Narrower and wider than sense.
    text = drawn(3, 0);
    assert_true(columns(text) > 30 && columns(text) <= 80);
    free(text);
    text = drawn(1000, 1);
    assert_true(columns(text) > 100 && columns(text) <= 120);
    free(text);
    // Nothing to draw; and nothing to compare.
    for (int i = 0; i < 3; i++) rows[i].repeats = 0;
    text = drawn(80, 1);
    assert_string_equal(text, "");
    free(text);
    rows[0].repeats = 1, rows[0].speedup = rows[0].efficiency = 0, rows[0].base = -1;
    text = drawn(60, 0);
    has(text, "\nTime per epoch (s)\n  1 worker  ");
    has_not(text, "Speedup");
    free(text);
}

static void a_small_network_is_visible_beside_a_large_one(void **state) {
    for (int i = 0; i < 3; i++) {
        rows[3 + i] = rows[i];
        memcpy(rows[3 + i].model, "wide", 5);
        rows[3 + i].epoch_seconds *= 5;
    }
    study.row_count = 6;
    char *text = drawn(60, 0);
    has(text, " net\n  1 worker  ####### 10.0\n");  // to be compared
    has(text, " wide\n  1 worker  #################################### 50.0\n");
    free(text);
    for (int i = 3; i < 6; i++) rows[i].epoch_seconds *= 5;
    text = drawn(60, 0);
    has(text, " net\n  1 worker  #################################### 10.0\n");
    has(text, " wide\n  1 worker  #################################### 250\n");
    free(text);
}

static int folder_make(void **state) {
    snprintf(path_before, sizeof path_before, "%s", getenv("PATH") ? getenv("PATH") : "");
    return mkdtemp(folder) ? 0 : -1;
}

static int folder_remove(void **state) {
    char path[512];
    static const char *const suffix[] = {"gp", "dat", "svg", "png"};
    for (int i = 0; ls__charts[i].name; i++)
        for (int j = 0; j < 4; j++) {
            snprintf(path, sizeof path, "%s/charts/%s.%s", folder, ls__charts[i].name, suffix[j]);
            unlink(path);
        }
    for (int j = 0; j < 2; j++) {
        snprintf(path, sizeof path, "%s/charts/slides.%s", folder, j ? "pdf" : "gp");
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/charts", folder);
    rmdir(path);
    static const char *const files[] = {"index.html", "results.csv", "results.md"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(scripts_and_data_are_there_without_gnuplot, setup),
        cmocka_unit_test_setup(gnuplot_draws_them, setup),
        cmocka_unit_test_setup(page_shows_every_row, setup),
        cmocka_unit_test_setup(what_cannot_be_drawn_is_left_out, setup),
        cmocka_unit_test_setup(series_are_named_by_what_differs, setup),
        cmocka_unit_test_setup(tables_tell_rows_apart, setup),
        cmocka_unit_test_setup(long_names_become_letters, setup),
        cmocka_unit_test_setup(records_never_become_markup, setup),
        cmocka_unit_test_setup(rows_without_runs_are_told, setup),
        cmocka_unit_test_setup(causes_are_those_that_the_numbers_show, setup),
        cmocka_unit_test_setup(rows_that_share_cores_conclude_nothing, setup),
        cmocka_unit_test_setup(old_records_do_not_tell_causes, setup),
        cmocka_unit_test_setup(noise_is_no_news, setup),
        cmocka_unit_test_setup(weak_scaling_and_differing_weights_are_said, setup),
        cmocka_unit_test_setup(the_time_to_an_accuracy_is_told, setup),
        cmocka_unit_test_setup(six_findings_are_enough, setup),
        cmocka_unit_test_setup(nodes_are_an_axis_unless_they_tell_rows_apart, setup),
        cmocka_unit_test_setup(one_run_is_about_that_run, setup),
        cmocka_unit_test_setup(the_terminal_has_charts_too, setup),
        cmocka_unit_test_setup(a_small_network_is_visible_beside_a_large_one, setup),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
