// A study's charts, page and explanation: what stands in their files, that nothing in a record becomes markup or a command, and
// that the explanation claims what the numbers show and no more.
#include <math.h>
#include "study_rows.h"

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
    study.labels =
        (ls_study_label[]){{"it's `touch x`", 7, 0.75, 1, 0.5, {0.25, 0.5, 0.75}}, {.name = "none", .area = NAN}};
    rows[0].label_count = 2;
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
    file_has("charts/roc.dat", "\n0 0\n0 0.25\n0.02 0.5\n0.04 0.75\n");
    file_has("charts/roc.svg", "it's `touch x`: 0.750");
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
    assert_int_equal(ls_study_write_page(&study, "/dev/null"), LS_STATUS_IO);
    has(ls_error_message(), "cannot write /dev/null/index.html");
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
        cmocka_unit_test_setup(the_terminal_has_charts_too, setup),
        cmocka_unit_test_setup(a_small_network_is_visible_beside_a_large_one, setup),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
