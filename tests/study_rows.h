// Three rows of a study for the tests of charts, pages and explanations, and a folder to write into.
#ifndef LS_TESTS_STUDY_ROWS_H
#define LS_TESTS_STUDY_ROWS_H

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
static inline int setup(void **state) {
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

static inline char *read_text(const char *name) {
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

static inline void has(const char *text, const char *what) {
    if (!strstr(text, what)) fail_msg("'%s' is not in:\n%s", what, text);
}

static inline void has_not(const char *text, const char *what) {
    if (strstr(text, what)) fail_msg("'%s' is in:\n%s", what, text);
}

static inline void file_has(const char *name, const char *what) {
    char *text = read_text(name);
    if (!text) fail_msg("there is no %s", name);
    has(text, what);
    free(text);
}

// Every element is closed, in the right order.
static inline void well_nested(const char *text) {
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
static inline void stands_alone(const char *text) {
    static const char *const no[] = {"<script", "<link", "src=", "@import", "url(http", "onclick"};
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) has_not(text, no[i]);
    for (const char *p = strstr(text, "http"); p; p = strstr(p + 1, "http"))
        if (strncmp(p, "http://www.w3.org/", 18) != 0) fail_msg("a link: %.60s", p);  // names, not links
}

static inline char *page(void) {
    assert_int_equal(ls_study_write_page(&study, folder), LS_OK);
    char *text = read_text("index.html");
    well_nested(text);
    stands_alone(text);
    return text;
}

static inline int folder_make(void **state) {
    snprintf(path_before, sizeof path_before, "%s", getenv("PATH") ? getenv("PATH") : "");
    return mkdtemp(folder) ? 0 : -1;
}

static inline int folder_remove(void **state) {
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

#endif
