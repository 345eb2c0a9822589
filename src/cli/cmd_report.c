// 'lockstep report': tables, charts and page again from what runs recorded.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/output.h"
#include "cli/cli.h"
#include "report/study.h"
#include "report/trace_report.h"

typedef struct settings {
    const char *out;
    int terminal, slides;
} settings;

static const ls_option table[] = {
    {"out", LS_OPTION_TEXT, .offset = offsetof(settings, out), .metavar = "DIR", .initial = "the first study's folder",
     .group = "Report",
     .help = "where results.csv, results.md, index.html and charts/ go; for run records alone nothing is written "
             "without it"},
    {"terminal", LS_OPTION_FLAG, .offset = offsetof(settings, terminal), .group = "Report",
     .help = "print the charts too, in block characters"},
    {"slides", LS_OPTION_FLAG, .offset = offsetof(settings, slides), .group = "Report",
     .help = "also draw charts/slides.pdf, a page for each chart"},
    {.name = NULL},
};

static int is_folder(const char *path) {
    struct stat there;
    return stat(path, &there) == 0 && S_ISDIR(there.st_mode);
}

static ls_status write_all(const ls_study *study, const char *out, int slides) {
    if (ls_output_folder(out) != 0) return LS_FAIL(LS_STATUS_IO, "cannot make the folder %s: %s", out, strerror(errno));
    LS_TRY(ls_study_write_tables(study, out));
    ls_status charts = ls_study_write_charts(study, out, slides);
    if (charts != LS_OK && charts != LS_STATUS_UNSUPPORTED) return charts;
    char hint[1024] = "";
    if (charts != LS_OK) snprintf(hint, sizeof hint, "%s", ls_error_message());
    LS_TRY(ls_study_write_page(study, out));
    const char *slash = out[strlen(out) - 1] == '/' ? "" : "/";
    printf("\nThe page, with charts and explanations: %s%sindex.html\n", out, slash);
    if (hint[0])
        printf("Note: %s.\n", hint);
    else if (slides)
        printf("The slides: %s%scharts/slides.pdf\n", out, slash);
    return LS_OK;
}

ls_status cli_print_study(const ls_study *study, int charts) {
    char *text;
    LS_TRY(ls_study_table_text(study, cli_terminal_width(), &text));
    fputs(text, stdout);
    free(text);
    if (charts) {
        LS_TRY(ls_study_charts_text(study, cli_terminal_width(), cli_terminal_utf8(), &text));
        fputs(text, stdout);
        free(text);
    }
    fflush(stdout);
    return LS_OK;
}

static ls_status report(const char *const *paths, int count, const settings *set) {
    const char *out = set->out;
    for (int i = 0; i < count && !out; i++)
        if (is_folder(paths[i])) out = paths[i];
    if (set->slides && !out)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--slides: where to? --out DIR names a folder for them");
    ls_study *study;
    LS_TRY(ls_study_load(paths, count, &study));
    ls_status status = cli_print_study(study, set->terminal);
    if (status == LS_OK && out) status = write_all(study, out, set->slides);
    ls_study_free(&study);
    return status;
}

static ls_status report_trace(const char *path) {
    ls_trace_report *trace;
    char *text;
    LS_TRY(ls_trace_report_load(path, &trace));
    ls_status status = ls_trace_report_text(trace, path, &text);
    if (status == LS_OK) fputs(text, stdout);
    free(text);
    ls_trace_report_free(&trace);
    return status;
}

// A trace is summarized by itself.
static ls_status check_trace(const char *const *paths, int count, const char *out, int *is_trace) {
    *is_trace = 0;
    for (int i = 0; i < count; i++) {
        if (!ls_trace_report_is(paths[i])) continue;
        if (count > 1)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is a trace: report it by itself, without other paths",
                           paths[i]);
        if (out)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is a trace, whose summary is printed: leave out --out",
                           paths[i]);
        *is_trace = 1;
    }
    return LS_OK;
}

static ls_status run(cli *c, int argc, char **argv) {
    settings set = {.out = NULL};
    const ls_option_set sets[] = {{table, &set}, {NULL, NULL}};
    ls_words words;
    LS_TRY(ls_options_parse(sets, argc, argv, LS_MAX_WORDS, &words));
    if (words.help) {
        printf(
            "Usage: lockstep report PATH... [OPTIONS]\n\nReads study folders of 'lockstep scale' and records of "
            "'lockstep "
            "train --record', prints the tables,\nand writes tables, charts and a page to read in a browser. Nothing "
            "is run "
            "again.\nOf a timeline of 'lockstep train --trace DIR' (DIR, or the file in it) it prints where the time "
            "of "
            "a step goes,\nwhich layers are slow, and who is waited for.\n");
        ls_options_help(stdout, sets, cli_help_width());
        return LS_OK;
    }
    if (words.count < 1)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "which study? Usage: lockstep report PATH... [--out DIR]; a PATH is a folder of 'lockstep scale', "
            "a record of 'lockstep train --record' or a trace of 'lockstep train --trace'");
    if (set.out && !set.out[0]) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--out: expected the name of a folder");
    int is_trace;
    LS_TRY(check_trace(words.word, words.count, set.out, &is_trace));
    c->stage = CLI_STAGE_TOGETHER;
    if (is_trace) return report_trace(words.word[0]);
    return report(words.word, words.count, &set);
}

const cli_command cli_command_report = {"report", "tables, charts and a page from the records of runs", run};
