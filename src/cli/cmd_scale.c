// lockstep scale: trains the same thing with different numbers of workers, one run after the other, each as processes of its
// own, and makes tables, charts and a page of what they took. What was measured stays: the same command goes on where it stopped.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "cli/deadline.h"
#include "cli/scale.h"
#include "data/dataset.h"
#include "models/models.h"
#include "report/record.h"
#include "report/study.h"
#include "train/options.h"

#ifndef LS_WITH_MPI
#define LS_WITH_MPI 0
#endif

enum { ENDING_SECONDS = 2 };  // what a run ends before its limit, to be on the safe side

#define AT(member) .offset = offsetof(scale_settings, member)
#define STUDY      .group = "Study"

static const ls_option table[] = {
    {"workers", LS_OPTION_TEXT, AT(workers), .metavar = "N,N,...", STUDY,
     .help = "the numbers of processes to compare, on one node: 1,2,4,8"},
    {"nodes", LS_OPTION_TEXT, AT(nodes), .metavar = "N,N,...", STUDY, .initial = "1",
     .help = "inside a Slurm allocation: the numbers of nodes to compare, each with every one of --workers-per-node"},
    {"workers-per-node", LS_OPTION_TEXT, AT(workers_per_node), .metavar = "N,N,...", STUDY,
     .help = "with --nodes, instead of --workers: processes on each node"},
    {"mode", LS_OPTION_TEXT, AT(mode), .metavar = "strong|weak", STUDY,
     .help = "strong: the same work for all, the same weights in the end. weak: the global batch and the number of "
             "training "
             "samples are those of one worker, times the workers"},
    {"repeats", LS_OPTION_INT, AT(repeats), .metavar = "R", .min = 1, .max = 1000, STUDY,
     .help = "runs of each configuration; medians count"},
    {"timeout", LS_OPTION_REAL, AT(timeout), .metavar = "SECONDS", .initial = "no limit", STUDY,
     .help = "end a run that takes longer, note it as failed and go on"},
    {"time-limit", LS_OPTION_TEXT, AT(time_limit), .metavar = "TIME", .initial = "the end of the Slurm job, inside one",
     STUDY,
     .help =
         "be done, with a report, so long after the start: 90 (minutes), 5:30 (minutes:seconds), 1:15:00; none. A run "
         "that cannot be done by then is not started; the same command goes on with it"},
    {"out", LS_OPTION_TEXT, AT(out), .metavar = "DIR", STUDY,
     .help = "the study's folder; one that was interrupted goes on where it stopped"},
    {"terminal", LS_OPTION_FLAG, AT(terminal), STUDY, .help = "print the charts too, in block characters"},
    {"data", LS_OPTION_TEXT, AT(data), .metavar = "SPEC", .group = "Training",
     .help = "the dataset: digits, mnist:DIR, ...; 'lockstep datasets' lists them"},
    {"config", LS_OPTION_TEXT, AT(config), .metavar = "FILE", STUDY,
     .help = "take options from FILE, a JSON object with the names used here; the command line wins"},
    {.name = NULL},
};

typedef struct scale {
    cli *cli;
    scale_settings set;
    scale_grid grid;
    ls_option_set options[4];
    void *file;  // what the config file's texts live in
    char folder[4096];
    scale_plan plan;
    int lock;                  // of the folder
    int at, terminal, length;  // the run under way; of the live line
    double left;               // estimated for what comes after it
    cli_deadline deadline;
} scale;

static void defaults(scale *s) {
    s->set = (scale_settings){.data = "digits", .mode = "strong", .repeats = 1};
    ls_train_config_init(&s->grid.config);
    s->options[0] = (ls_option_set){table, &s->set};
    s->options[1] = (ls_option_set){ls_train_options(), &s->grid.config};
    ls_model_config_init(&s->grid.model);
    s->options[2] = (ls_option_set){ls_model_options(), &s->grid.model};
    s->options[3] = (ls_option_set){NULL, NULL};
}

static void help(const scale *s) {
    int width = cli_help_width();
    printf("Usage: lockstep scale MODEL [MODEL...] --workers 1,2,4 --out DIR [OPTIONS]\n\n");
    ls_print_entry(
        stdout, "", 0, width,
        "Measures how training scales: trains each MODEL with each number of workers, one run after the other, and "
        "writes records, tables, charts and a page to DIR. Each worker has one replica unless --replicas says "
        "otherwise, so that it is workers that are compared. All options of 'lockstep train' are passed on.");
    ls_options_help(stdout, s->options, width);
}

// --- the command line ------------------------------------------------------------------------------------------------

static ls_status read_counts(const char *option, const char *text, int *out, int *count) {
    *count = 0;
    for (const char *p = text;; p++) {
        char *end;
        long n = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || n < 1 || n > 65536)
            return LS_FAIL(
                LS_STATUS_INVALID_ARGUMENT,
                "--%s: expected whole numbers from 1 to 65536 with commas between them, as in 1,2,4, got '%s'", option,
                text);
        for (int i = 0; i < *count; i++)
            if (out[i] == n)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                               "--%s: %ld is there twice in '%s'; --repeats runs a configuration several times", option,
                               n, text);
        if (*count == SCALE_MAX_COUNTS)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: more than %d numbers", option, SCALE_MAX_COUNTS);
        out[(*count)++] = (int)n;
        p = end;
        if (!*p) return LS_OK;
    }
}

static ls_status check_models(const ls_words *words, const ls_model_config *config) {
    if (words->count == 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "which model? Usage: lockstep scale MODEL [MODEL...] --workers 1,2,4 --out DIR; 'lockstep models' "
            "lists them");
    for (int i = 0; i < words->count; i++) {
        LS_TRY(cli_model_check(words->word[i], config));
        for (int j = 0; j < i; j++)
            if (strcmp(words->word[i], words->word[j]) == 0)
                return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the model %s is there twice", words->word[i]);
    }
    return LS_OK;
}

static ls_status check_settings(scale *s) {
    const scale_settings *set = &s->set;
    scale_grid *g = &s->grid;
    if (!set->out) return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "where to? --out DIR names the study's folder");
    if (set->workers && (set->nodes || set->workers_per_node))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "--workers counts processes on one node: with --nodes give --workers-per-node instead");
    if (!set->workers && !set->workers_per_node)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "how many workers? --workers 1,2,4 compares these%s",
                       set->nodes ? "; with --nodes it is --workers-per-node 1,2,4" : "");
    if (set->workers)
        LS_TRY(read_counts("workers", set->workers, g->workers, &g->worker_count));
    else
        LS_TRY(read_counts("workers-per-node", set->workers_per_node, g->workers, &g->worker_count));
    LS_TRY(read_counts("nodes", set->nodes ? set->nodes : "1", g->nodes, &g->node_count));
    json_t *data = json_string(set->data), *out = json_string(set->out);
    int readable = data && out;
    json_decref(data);
    json_decref(out);
    if (!readable)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--data and --out: a study keeps them as UTF-8 text only");
    return LS_OK;
}

static int most(const int *values, int count) {
    int m = 0;
    for (int i = 0; i < count; i++)
        if (values[i] > m) m = values[i];
    return m;
}

static int most_workers(const scale_grid *g) {
    return most(g->nodes, g->node_count) * most(g->workers, g->worker_count);
}

static ls_status read_options(scale *s, int argc, char **argv, ls_words *words) {
    defaults(s);
    LS_TRY(ls_options_parse(s->options, argc, argv, LS_MAX_WORDS, words));
    if (words->help) return LS_OK;
    const char *path = s->set.config;
    if (path) {
        defaults(s);
        LS_TRY(ls_config_load(path, s->options, NULL, &s->file));
        LS_TRY(ls_options_parse(s->options, argc, argv, LS_MAX_WORDS, words));
    }
    LS_TRY(cli_deadline_check(s->set.time_limit));
    LS_TRY(check_models(words, &s->grid.model));
    LS_TRY(check_settings(s));
    if (cli_job_size() > 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a launcher started this: run 'lockstep scale' once, without one; it starts the workers itself");
    scale_grid *g = &s->grid;
    g->models = words->word;
    g->model_count = words->count;
    g->repeats = s->set.repeats;
    g->weak = strcmp(s->set.mode, "weak") == 0;
    g->data = s->set.data;
    if (g->config.replicas == 0) g->config.replicas = 1;
    snprintf(s->folder, sizeof s->folder, "%s", s->set.out);
    for (size_t n = strlen(s->folder); n > 1 && s->folder[n - 1] == '/'; n--) s->folder[n - 1] = 0;
    return LS_OK;
}

// --- what can be found out before hours of runs ----------------------------------------------------------------------

static ls_status check_launcher(const scale_grid *g) {
    char path[4096];
    int nodes = most(g->nodes, g->node_count);
    const char *there = getenv("SLURM_JOB_NUM_NODES");
    if (nodes > 1 && !getenv("SLURM_JOB_ID"))
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--nodes: %d nodes need a Slurm allocation, and there is none: run this from a batch job with --nodes=%d, "
            "or leave --nodes out",
            nodes, nodes);
    if (nodes > 1 && there && atoi(there) < nodes)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--nodes: %d nodes asked for, and this Slurm allocation has %s",
                       nodes, there);
    if (most_workers(g) == 1) return LS_OK;
    if (!LS_WITH_MPI)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "several workers: this lockstep was built without MPI and runs as one worker");
    if (!cli_job_mpiexec(path, sizeof path) && !(getenv("SLURM_JOB_ID") && cli_job_srun(path, sizeof path)))
        return LS_FAIL(LS_STATUS_NOT_FOUND,
                       "cannot start several workers: there is no mpirun or mpiexec on PATH; "
                       "'lockstep check' says what is missing");
    return LS_OK;
}

// Weak scaling: the configuration becomes that of one worker. The micro-batch must not depend on the number of workers.
static ls_status set_weak(scale_grid *g, int64_t count) {
    int64_t workers = most_workers(g), batch = g->config.batch_size;
    if (g->config.micro_batch == 0) g->config.micro_batch = ls_micro_batch_default(batch);
    if (g->config.limit_train == 0) g->config.limit_train = count / workers / batch * batch;
    if (g->config.limit_train >= batch && g->config.limit_train * workers <= count) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "weak scaling to %lld workers takes %lld times the samples of one, at least a batch of %lld each, and the "
        "dataset has %lld: lower --limit-train (of one worker), --batch-size (of one worker) or the workers",
        (long long)workers, (long long)workers, (long long)batch, (long long)count);
}

// A dataset that is not there is said once, not by every run.
static ls_status check_data(scale_grid *g) {
    ls_data_host *host;
    ls_dataset *data = NULL;
    LS_TRY(ls_data_host_create_self(&host));
    ls_status status = ls_data_open(host, g->data, &data);
    if (status == LS_OK && g->weak) status = set_weak(g, ls_dataset_train_count(data));
    ls_data_close(&data);
    ls_data_host_destroy_self(&host);
    return status;
}

// --- progress ----------------------------------------------------------------------------------------------------------

// The run that tells most about another one: of its model, on as many nodes, with the nearest number of workers. `state`: runs of
// that kind only. NULL: there is none.
static const scale_run *nearest(const scale_plan *p, const scale_run *r, scale_state state) {
    const scale_run *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < p->count; i++) {
        const scale_run *other = &p->runs[i];
        if (other->state != state || other->seconds <= 0) continue;
        double far = fabs(log((double)scale_number(other, "workers") / scale_number(r, "workers")));
        if (scale_number(other, "nodes") != scale_number(r, "nodes")) far += 100;
        if (!json_equal(json_object_get(other->entry, "model"), json_object_get(r->entry, "model"))) far += 1000;
        if (far < least) best = other;
        least = fmin(least, far);
    }
    return best;
}

// What a run will take: about as long as the run that is most like it. 0: nothing is known yet.
static double expected(const scale_plan *p, const scale_run *r) {
    const scale_run *like = nearest(p, r, SCALE_DONE);
    return like ? like->seconds : 0;
}

// What a run will take at least, by the runs of its model: with more workers than those it may be as much faster, with fewer
// it is not faster; one that was stopped would have taken longer.
static double at_least(const scale *s, const scale_run *r) {
    double seconds = 0;
    for (scale_state state = SCALE_DONE; state <= SCALE_STOPPED; state++) {
        const scale_run *like = state == SCALE_FAILED ? NULL : nearest(&s->plan, r, state);
        if (!like || !json_equal(json_object_get(like->entry, "model"), json_object_get(r->entry, "model"))) continue;
        double faster = (double)scale_number(like, "workers") / scale_number(r, "workers");
        seconds = fmax(seconds, s->grid.weak || faster > 1 ? like->seconds : like->seconds * faster);
    }
    return seconds;
}

// Seconds that a run started now may take.
static double time_left(const scale *s) {
    return s->deadline.at > 0 ? s->deadline.at - s->deadline.margin - ENDING_SECONDS - ls_clock() : INFINITY;
}

// Of the runs after the one under way; < 0 where nothing is known.
static double expected_after(const scale *s) {
    double left = 0;
    for (int i = s->at + 1; i < s->plan.count; i++) {
        if (s->plan.runs[i].state != SCALE_TO_RUN || s->plan.runs[i].late) continue;
        double seconds = expected(&s->plan, &s->plan.runs[i]);
        if (seconds == 0) return -1;
        left += seconds;
    }
    return left;
}

static void draw(void *user, double seconds) {
    scale *s = user;
    if (!s->terminal) return;
    char what[160], now[32], then[32], left[64] = "";
    double own = expected(&s->plan, &s->plan.runs[s->at]);
    scale_describe(&s->plan, &s->plan.runs[s->at], what, sizeof what);
    ls_duration_text(seconds, now);
    if (s->left >= 0 && own > 0) {
        ls_duration_text(s->left + (own > seconds ? own - seconds : 0), then);
        snprintf(left, sizeof left, ", about %s left", then);
    }
    char line[320];
    snprintf(line, sizeof line, "[%d/%d] %s: %s%s", s->at + 1, s->plan.count, what, now, left);
    int n = printf("\r%.*s", cli_terminal_width() - 1, line) - 1;  // a line that wraps cannot be drawn over
    if (s->length > n) printf("%*s", s->length - n, "");
    s->length = n;
    fflush(stdout);
}

static void say_failed(const scale *s, const scale_run *r) {
    char *path, sentence[512] = "";
    if (scale_path(&s->plan, r, "failed", &path) != LS_OK) return;
    FILE *file = fopen(path, "r");
    free(path);
    if (!file) return;
    if (!fgets(sentence, sizeof sentence, file)) sentence[0] = 0;
    fclose(file);
    sentence[strcspn(sentence, "\n")] = 0;
    printf("FAILED: %s", sentence);
}

// By the tables' rules: without the first epoch of several.
static void say_done(const scale *s, const scale_run *r) {
    char *path, count[32];
    ls_study *alone;
    if (scale_path(&s->plan, r, "json", &path) != LS_OK) return;
    if (ls_study_load((const char *const[]){path}, 1, &alone) == LS_OK) {
        double rate = alone->rows[0].images_per_second;
        printf("%.3g s per epoch, ", alone->rows[0].epoch_seconds);
        if (rate < 100)
            printf("%.1f images/s", rate);
        else
            printf("%s images/s", cli_count((int64_t)(rate + 0.5), count));
        ls_study_free(&alone);
    }
    free(path);
}

static void say_stopped(const scale *s, const scale_run *r) {
    char *path;
    if (scale_path(&s->plan, r, "json", &path) != LS_OK) return;
    json_t *where = scale_stopped(path);
    free(path);
    printf("STOPPED for lack of time, after step %lld of %lld in epoch %lld",
           (long long)json_integer_value(json_object_get(where, "step")),
           (long long)json_integer_value(json_object_get(where, "steps")),
           (long long)json_integer_value(json_object_get(where, "epoch")));
    json_decref(where);
}

static void say_late(const scale *s, const scale_run *r) {
    char need[32], left[32];
    double seconds = at_least(s, r);
    printf("NOT STARTED for lack of time: ");
    if (seconds > 0) printf("it takes at least %s, and ", ls_duration_text(seconds, need));
    printf("%s are left", ls_duration_text(fmax(time_left(s), 0), left));
}

static void say_run(scale *s) {
    const scale_run *r = &s->plan.runs[s->at];
    char what[160], left[32];
    if (s->length) printf("\r%*s\r", s->length, "");
    s->length = 0;
    scale_describe(&s->plan, r, what, sizeof what);
    printf("[%d/%d] %s: ", s->at + 1, s->plan.count, what);
    if (r->late)
        say_late(s, r);
    else if (r->state == SCALE_FAILED)
        say_failed(s, r);
    else if (r->state == SCALE_STOPPED)
        say_stopped(s, r);
    else
        say_done(s, r);
    double seconds = expected_after(s);
    ls_duration_text(seconds, left);
    if (seconds >= 1) printf(" (about %s left)", left);
    putchar('\n');
    fflush(stdout);
}

// --- the study -----------------------------------------------------------------------------------------------------------

static int count_state(const scale_plan *p, scale_state state) {
    int n = 0;
    for (int i = 0; i < p->count; i++) n += p->runs[i].state == state;
    return n;
}

static ls_status run_all(scale *s) {
    scale_plan *p = &s->plan;
    int done = count_state(p, SCALE_DONE);
    printf("%s: %d run%s%s\n", s->folder, p->count, p->count == 1 ? "" : "s", s->grid.weak ? ", weak scaling" : "");
    if (done > 0) printf("%d of them %s done already and not run again\n", done, done == 1 ? "is" : "are");
    cli_deadline_print(&s->deadline);
    fflush(stdout);
    s->terminal = cli_terminal_is(stdout);
    for (s->at = 0; s->at < p->count; s->at++) {
        scale_run *r = &p->runs[s->at];
        int interrupted;
        if (r->state != SCALE_TO_RUN) continue;
        r->late = at_least(s, r) > time_left(s) || time_left(s) <= 0;
        if (r->late) {
            say_run(s);
            continue;
        }
        s->left = expected_after(s);
        draw(s, 0);
        LS_TRY(scale_run_one(p, r, s->set.timeout, draw, s, &interrupted));
        if (!interrupted || r->state != SCALE_TO_RUN) say_run(s);
        if (!interrupted) continue;
        if (s->length) putchar('\n');
        done = count_state(p, SCALE_DONE);
        return LS_FAIL(LS_STATUS_IO, "interrupted with %d of %d runs done; the same command goes on from there", done,
                       p->count);
    }
    return LS_OK;
}

// Charts that cannot be drawn are said and no reason to fail.
static ls_status pictures(const ls_study *study, const char *folder) {
    if (ls_study_write_charts(study, folder, 0) != LS_OK) fprintf(stderr, "lockstep scale: %s\n", ls_error_message());
    LS_TRY(ls_study_write_page(study, folder));
    printf("%s/index.html is the page, with charts where gnuplot is; results.md and results.csv hold the tables.\n",
           folder);
    return LS_OK;
}

// Printed first: what was measured is seen even where nothing can be written any more.
static ls_status report(scale *s) {
    const char *folder = s->folder;
    ls_study *study;
    LS_TRY(ls_study_load(&folder, 1, &study));
    putchar('\n');
    ls_status status = cli_print_study(study, s->set.terminal);
    putchar('\n');
    if (status == LS_OK) status = ls_study_write_tables(study, folder);
    if (status == LS_OK) status = pictures(study, folder);
    ls_study_free(&study);
    return status;
}

// A study that is there is locked before it is looked at; a refused one leaves nothing behind where there was none.
static ls_status begin_study(scale *s) {
    char *path;
    if (asprintf(&path, "%s/study.json", s->folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    int there = access(path, F_OK) == 0;
    free(path);
    if (there) LS_TRY(scale_lock(s->folder, &s->lock));
    LS_TRY(scale_plan_create(&s->grid, s->folder, s->cli, &s->plan));
    LS_TRY(scale_plan_folders(&s->plan));
    if (!there) LS_TRY(scale_lock(s->folder, &s->lock));
    return scale_plan_write(&s->plan);
}

static ls_status run_study(scale *s) {
    s->cli->stage = CLI_STAGE_TOGETHER;
    LS_TRY(check_launcher(&s->grid));
    LS_TRY(check_data(&s->grid));
    LS_TRY(begin_study(s));
    cli_deadline_find(s->set.time_limit, s->cli->started, &s->deadline);
    cli_deadline_pass_on(&s->deadline, s->deadline.margin);
    LS_TRY(run_all(s));
    LS_TRY(report(s));
    int stopped = count_state(&s->plan, SCALE_STOPPED), left = stopped + count_state(&s->plan, SCALE_TO_RUN);
    if (left > 0)
        printf("For lack of time, %d of %d runs %s not done; the same command goes on with %s.\n", left, s->plan.count,
               left == 1 ? "is" : "are", left == 1 ? "it" : "them");
    if (count_state(&s->plan, SCALE_DONE) + stopped > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "no run of the study succeeded; %s/runs/ has the reasons and the logs",
                   s->folder);
}

static ls_status run_scale(cli *c, int argc, char **argv) {
    scale s = {.cli = c, .lock = -1};
    ls_words words;
    ls_status status = read_options(&s, argc, argv, &words);
    if (status == LS_OK && words.help)
        help(&s);
    else if (status == LS_OK)
        status = run_study(&s);
    scale_plan_destroy(&s.plan);
    scale_unlock(&s.lock);
    ls_config_free(&s.file);
    return status;
}

ls_status cli_scale_check(int argc, char **argv, int *nodes, int *workers_per_node) {
    scale s = {.lock = -1};
    ls_words words;
    ls_status status = read_options(&s, argc, argv, &words);
    *nodes = most(s.grid.nodes, s.grid.node_count);
    *workers_per_node = most(s.grid.workers, s.grid.worker_count);
    ls_config_free(&s.file);
    return status;
}

const cli_command cli_command_scale = {"scale", "measure how training scales with the number of workers", run_scale};
